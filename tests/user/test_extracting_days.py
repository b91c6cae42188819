"""Extracting data from texts at a shell: `toolcast get`, and `logs` and `models` beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.loopback import CLOSE, HOLD, whole
from support.ollama_server import DONE, MODEL, OllamaServer, delta
from user.commands import command, needs_a_shell, shell, variables
from user.session import KEY, finish, press_ctrl_c

pytestmark = needs_a_shell


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


@pytest.fixture
def env(server: OllamaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    return variables(server, tmp_path / "home")


def gives(server: OllamaServer, document: Any) -> None:
    """The next answer, whole, is this as JSON."""
    message = {"role": "assistant", "content": document if isinstance(document, str) else json.dumps(document)}
    text = {"model": MODEL, "message": message, "done": True, "done_reason": "stop"}
    server.answer(whole(json.dumps(text).encode(), 200, "content-type: application/json"))


def asked(server: OllamaServer, number: int = -1) -> str:
    """Return the last message of a request."""
    prompt: str = server.bodies[number]["messages"][-1]["content"]
    return prompt


def test_a_good_day(server: OllamaServer, env: dict[str, str], tmp_path: Path) -> None:
    gives(server, {"name": "Åse 🌊", "age": 31})
    gives(server, {"name": "Bo", "age": 5})
    (tmp_path / "letter.txt").write_bytes("\ufeffDear Bø,\r\nwe miss you.\r\n".encode())
    assert shell("echo 'Åse is 31.' | toolcast get 'name, age int'", env).went_well() == ['{"name":"Åse 🌊","age":31}']
    pretty = shell("toolcast get 'name, age int' --file letter.txt --pretty", env).went_well()
    assert pretty == ["{", '  "name": "Bo",', '  "age": 5', "}"]
    assert asked(server, 0).endswith("Åse is 31.")
    assert asked(server).endswith("we miss you.")


def test_json_is_the_same_in_any_locale(server: OllamaServer, env: dict[str, str]) -> None:
    """What an encoding lacks is escaped as JSON has it, never with a traceback nor with a question mark."""
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}  # really ASCII, and no more
    person = {"name": "Åse 🌊", "town": "日本"}
    gives(server, person)
    (line,) = shell("echo Åse | toolcast get 'name, town'", env | locale).went_well()
    assert json.loads(line) == person
    server.replies("Å 🌊")
    shell("echo Åse | toolcast chat --session s", env)
    records = shell("toolcast logs s --json", env | locale).went_well()
    assert "Å 🌊" in json.dumps([json.loads(record) for record in records], ensure_ascii=False)
    assert shell("toolcast logs s; toolcast logs", env | locale).code == 0


def test_the_first_of_many(server: OllamaServer, env: dict[str, str]) -> None:
    """`head` has its line while the server still holds the rest, and nothing is printed when it ends."""
    server.streams(
        delta(content='{"value": [{"name": "A"}, {"name": "B"}, '),
        *[delta(content=json.dumps({"name": "x" * 1000}) + ", ")] * 200,
        delta(content='{"name": "Z"}]}'),
        DONE,
    )
    screen = shell("echo text | toolcast get --many name | head -1", env)
    assert screen.went_well() == ['{"name":"A"}']


def test_what_came_before_the_end_is_kept(server: OllamaServer, env: dict[str, str]) -> None:
    server.breaks_off(delta(content='{"value": [{"name": "A"}, {"name": "B"}, {"na'), CLOSE)
    screen = shell("echo text | toolcast get --many name", env)
    assert (screen.lines, screen.code) == (['{"name":"A"}', '{"name":"B"}'], 1)
    assert screen.err.startswith("toolcast: ollama m-1: ")
    assert screen.err.count("\n") == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"name": "Ada", "age": "old"}, "age: Input should be a valid integer"),
        ({"name": "Ada"}, "age: Field required"),
        ("I cannot.", "The model wrote: 'I cannot.'"),
        ("", "ollama m-1: "),
    ],
)
def test_an_answer_that_does_not_fit(answer: Any, text: str, server: OllamaServer, env: dict[str, str]) -> None:
    gives(server, answer)
    screen = shell("echo 'Ada is old.' | toolcast get 'name, age int'", env)
    assert (screen.out, screen.code, screen.err.count("\n")) == ("", 1, 1)
    assert text in screen.err


@pytest.mark.parametrize(
    "schema",
    [
        "class int, _x, größe float?, model_config, schema int, copy str, json, self, __class__",
        "name-with-dash, name_with_dash, a {b {c {d {e int list} list}[]}}, f date[]?, " + "x" * 3000,
        ", ".join(f"field_{number} int?" for number in range(300)),
        "a {" * 500 + "b" + "}" * 500,
        "\n",
        "a, a",
        'a "',
    ],
)
def test_odd_schemas(schema: str, server: OllamaServer, env: dict[str, str]) -> None:
    """Each is understood, or it is a wrong command line with the place; none is a traceback."""
    server.fails(400, "it was asked")
    screen = shell('printf text | toolcast get "$SCHEMA"', env | {"SCHEMA": schema})
    assert screen.out == ""
    if screen.code == 2:
        assert "argument SCHEMA: " in screen.err
        assert screen.err.rstrip("\n").endswith("^")
        assert server.requests == []
    else:
        assert screen.code == 1
        assert "it was asked" in screen.err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("< /dev/null", "the text is empty"),
        ("<&-", "the text is empty"),
        ("--file nothing.txt", "nothing.txt"),
        ("--prompt '{text} {more}' < text.txt", "more"),
        ("--model openai:gpt-4.1 < text.txt", "OPENAI_API_KEY"),
        ("--model openia:gpt-5.4 < text.txt", "did you mean 'openai:gpt-5.4'?"),
        ("--model no-such.gguf < text.txt", "there is no model file"),
        (f"--token '{KEY}\n' < text.txt", "line break"),
        ("--model nonsense --host 127.0.0.1:9 < text.txt", "no connection to 127.0.0.1"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    line: str, text: str, server: OllamaServer, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text("Ada is 36.", encoding="utf-8")
    screen = shell(f"toolcast get name {line}", env)
    assert (screen.out, screen.code, screen.err.count("\n")) == ("", 1, 1), screen.err
    assert text in screen.err
    assert server.requests == []


def test_a_key_that_is_refused(server: OllamaServer, env: dict[str, str]) -> None:
    server.fails(401, f"bad key {KEY}")
    screen = shell(f"echo text | OLLAMA_API_KEY={KEY} toolcast get name", env)
    assert (screen.out, screen.code) == ("", 1)
    assert "the service refused the key (401)" in screen.err


@pytest.mark.parametrize("text", ["\x1b[2J {text} {{", "word " * 400_000], ids=["braces", "two megabytes"])
def test_odd_texts(text: str, server: OllamaServer, env: dict[str, str]) -> None:
    gives(server, {"name": "Ada"})
    assert shell("toolcast get name", env, text).went_well() == ['{"name":"Ada"}']
    assert asked(server).endswith(text.strip())


@pytest.mark.parametrize("text", ["\x00\udcff\udcfe {text} {{", "caf\udce9"], ids=["binary", "latin-1"])
def test_an_input_that_is_no_text_is_not_sent(text: str, server: OllamaServer, env: dict[str, str]) -> None:
    screen = shell("toolcast get name", env, text)
    assert (screen.out, screen.code, screen.err.count("\n")) == ("", 1, 1)
    assert "standard input is" in screen.err
    assert server.requests == []


def test_no_one_reads_what_is_printed(server: OllamaServer, env: dict[str, str]) -> None:
    """Stdout is closed, or a disk that is full: the first is ignored, the second is an error."""
    gives(server, {"name": "Ada"})
    gives(server, {"name": "Ada"})
    closed = shell("echo text | toolcast get name >&-", env)
    assert (closed.err, closed.code) == ("", 0)
    full = shell("echo text | toolcast get name >/dev/full", env)
    assert (full.err.count("\n"), full.code) == (1, 1)
    assert "No space left on device" in full.err


def test_ctrl_c(server: OllamaServer, env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("text", encoding="utf-8")
    server.breaks_off(delta(content='{"value": [{"name": "A"}, '), HOLD)
    process = command("get", "--many", "name", "--file", "text.txt", env=env)
    assert press_ctrl_c(process, '{"name"') == '{"name":"A"}\n'
    screen = finish(process)
    assert (screen.out, screen.err, screen.code) == ("", "toolcast: interrupted\n", 130)
    server.wait_open(0)


def test_logs_of_a_home_that_is_none(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "junk").mkdir()
    (tmp_path / "junk" / "sessions.db").write_bytes(b"no database at all " * 100)
    for home, text in (("nowhere", "no sessions found in nowhere"), ("junk", "is no SQLite database")):
        screen = shell(f"toolcast logs --home {home}", env)
        assert (screen.out, screen.code, screen.err.count("\n")) == ("", 1, 1)
        assert text in screen.err
    assert not (tmp_path / "nowhere").exists()


def test_logs_of_a_conversation(server: OllamaServer, env: dict[str, str]) -> None:
    """By the beginning of an id; what a model wrote to command a terminal commands nothing."""
    server.replies("\x1b[2JIt is \x1b]0;mine\x07 blue.")
    server.fails(400, "no")
    shell("echo 'What colour?' | toolcast chat --session morning > chat.txt", env)
    shell("echo 'And now?' | toolcast chat --session evening", env)
    table = shell("toolcast logs", env).went_well()
    assert [row.split()[0] for row in table] == ["SESSION", "morning"]  # nothing came of the evening
    shown = shell("toolcast logs mor", env)
    assert "What colour?" in shown.out
    assert "It is" in shown.out
    assert shell("toolcast logs m --delete", env).code == 1
    assert shell("toolcast logs morning --delete", env).went_well() == []
    assert shell("toolcast logs morning", env).code == 1
    assert shell("toolcast models ollama --offline --json | head -1", env).went_well() == ["["]
