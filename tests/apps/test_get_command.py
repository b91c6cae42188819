"""`toolcast get`: JSON on stdout, line by line, and nothing else there."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from support import warm_python
from support.loopback import Loopback, chunk, head, whole
from support.ollama_server import OllamaServer
from support.process import Process
from toolcast.apps import cli, get_command
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.llms.local.llama_cpp import LlamaCpp
from toolcast.messages import ImagePart, Message
from toolcast.testing import ScriptedLLM, use_llm

ALICE = {"name": "Alice", "age": 31}
BOB = {"name": "Bø", "age": None}


class _Standard(io.TextIOWrapper):
    """A standard input with this text, at a terminal or not."""

    def __init__(self, data: bytes, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data))
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch, process: Process) -> Any:
    """Replace standard input; the returned function sets its bytes."""

    def feed(data: bytes, terminal: bool = False) -> None:
        process.stream("stdin", _Standard(data, terminal))

    for name in ("OLLAMA_HOST", "OLLAMA_MODEL", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    feed(b"Alice is 31.")
    return feed


def asked(llm: ScriptedLLM) -> list[Message]:
    return list(llm.requests[-1].messages)


def test_an_object(stdin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    llm = ScriptedLLM(ALICE)
    with use_llm(llm):
        assert cli.main(["get", "name, age int"]) == 0
    assert capsys.readouterr() == ('{"name":"Alice","age":31}\n', "")
    assert asked(llm)[-1].text == "Alice is 31."


def test_pretty(stdin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with use_llm(ScriptedLLM(ALICE)):
        assert cli.main(["get", "name, age int", "--pretty"]) == 0
    assert capsys.readouterr().out == '{\n  "name": "Alice",\n  "age": 31\n}\n'


def test_many_objects_are_lines(stdin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with use_llm(ScriptedLLM({"value": [ALICE, BOB, {"name": "C"}]}, chunk=5)):
        assert cli.main(["get", "--many", "name, age int?"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == '{"name":"Bø","age":null}'
    assert [json.loads(line) for line in lines] == [ALICE, BOB, {"name": "C", "age": None}]


def test_no_objects_at_all(stdin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with use_llm(ScriptedLLM({"value": []})):
        assert cli.main(["get", "--many", "name"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_text_on_the_command_line(tmp_path: Path, stdin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    llm = ScriptedLLM(ALICE)
    with use_llm(llm):
        assert cli.main(["get", "name, age int", " Ingrid is 51 "]) == 0
    assert asked(llm)[-1].text == "Ingrid is 51"
    assert cli.main(["get", "name", "Ingrid", "--file", str(tmp_path / "letter.txt")]) == 1
    assert "pass the text or --file, not both" in capsys.readouterr().err
    assert cli.main(["get", "name", " "]) == 1
    assert "the text is empty" in capsys.readouterr().err


def test_a_file(tmp_path: Path, stdin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_bytes("Søren ø".encode())
    llm = ScriptedLLM(ALICE)
    with use_llm(llm):
        assert cli.main(["get", "name, age int", "--file", str(tmp_path / "letter.txt")]) == 0
    assert asked(llm)[-1].text == "Søren ø"
    assert cli.main(["get", "name", "--file", str(tmp_path / "none.txt")]) == 1
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "prompt", "text"),
    [
        ("local", "Who is it?", "Who is it?\n\nAlice is 31."),
        ("local", "Who: {text} - who?", "Who: Alice is 31. - who?"),
        ("ollama:llama3.2", None, "Extract the data from this text.\n\nAlice is 31."),
        ("ollama:llama3.2", "Who?", "Who?\n\nAlice is 31."),
    ],
)
def test_the_prompt(model: str, prompt: str | None, text: str, stdin: Any) -> None:
    llm = ScriptedLLM(ALICE)
    with use_llm(llm):
        assert cli.main(["get", "name, age int", "--model", model, *(["--prompt", prompt] if prompt else [])]) == 0
    assert asked(llm)[-1].text == text


def test_the_model_is_chosen(stdin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def choose_llm(*options: object) -> FunctionCallingLLM:
        seen.append(options)
        return ScriptedLLM(ALICE)

    monkeypatch.setattr(get_command, "choose_llm", choose_llm)
    assert cli.main(["get", "name", "--model", "openai:gpt", "--host", "box", "--token", "key"]) == 0
    stdin(b"more")
    assert cli.main(["get", "name"]) == 0
    assert seen == [("openai:gpt", "box", "key"), (None, None, None)]


def test_the_embedded_model_is_asked_for_the_same_answer_again(stdin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Make:
        def __init__(self, output: Any, prompt: str, llm: object, *, settings: Any) -> None:
            made.append((llm, settings))
            self.output = output

        def __call__(self, text: str) -> Any:
            return self.output.model_validate({"name": text})

    monkeypatch.setattr(get_command, "ToolOrchestratingLLM", Make)
    assert cli.main(["get", "name"]) == 0
    stdin(b"more")
    assert cli.main(["get", "name", "--model", "ollama:x"]) == 0
    (llm, settings), (_, others) = made
    assert isinstance(llm, LlamaCpp)
    assert settings.temperature == 0
    assert others is None


def test_a_terminal_gets_instructions_on_standard_error(stdin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    stdin(b"Alice is 31.", terminal=True)
    with use_llm(ScriptedLLM(ALICE)):
        assert cli.main(["get", "name"]) == 0
    out, err = capsys.readouterr()
    assert out == '{"name":"Alice"}\n'
    assert "Ctrl-D" in err


# What goes wrong.


@pytest.mark.parametrize("line", [[], ["a ag"], ["a {"], ["name", "--schema"], ["name", "text", "more"]])
def test_a_wrong_command_line(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        cli.main(["get", *line])
    assert done.value.code == 2
    assert capsys.readouterr().out == ""


def test_a_wrong_schema_is_pointed_at(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["get", "name, age ag"])
    text = capsys.readouterr().err.splitlines()
    assert text[-3].startswith("toolcast get: error: argument SCHEMA: unknown type 'ag'; expected one of")
    assert text[-2:] == ["  name, age ag", "            ^"]


@pytest.mark.parametrize(
    ("line", "text", "why"),
    [
        (["name"], b" \n ", "the text is empty: write it after the schema, pass a file with --file"),
        (["name", "--model", "openai"], b"x", "'openai' names no LLM: write 'openai:MODEL'"),
        (["name", "--model", "local", "--host", "box"], b"x", "the embedded model has no host"),
        (["name", "--model", "ollama:x", "--prompt", "{text} {else}"], b"x", "else"),
        (["age int", "--model", "ollama:x"], b"x", "age"),
    ],
)
def test_an_error_is_one_line(
    line: list[str], text: bytes, why: str, stdin: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin(text)
    with use_llm(ScriptedLLM({"age": "old"})):
        assert cli.main(["get", *line]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("toolcast: ")
    assert err.count("\n") == 1
    assert why in err


def test_what_was_complete_stays_printed(stdin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with use_llm(ScriptedLLM({"value": [ALICE, {"name": "B", "age": "old"}]}, chunk=5)):
        assert cli.main(["get", "--many", "name, age int"]) == 1
    out, err = capsys.readouterr()
    assert out == '{"name":"Alice","age":31}\n'
    assert err.startswith("toolcast: ")


def test_an_interruption(stdin: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*options: object) -> FunctionCallingLLM:
        raise KeyboardInterrupt

    monkeypatch.setattr(get_command, "choose_llm", interrupt)
    assert cli.main(["get", "name"]) == 130


# In a process of its own, against a server that speaks Ollama's protocol.

TOOLCAST = [sys.executable, "-c", "import sys; from toolcast.apps.cli import main; sys.exit(main())"]


def environment(server: Loopback) -> dict[str, str]:
    gone = {"OLLAMA_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"}
    kept = {name: value for name, value in os.environ.items() if name not in gone}
    return {**kept, "OLLAMA_HOST": f"localhost:{server.port}", "OLLAMA_MODEL": "llama3.2", "PYTHONUTF8": "1"}


def line(content: str, **more: object) -> bytes:
    message = {"role": "assistant", "content": content}
    return json.dumps({"model": "llama3.2", "message": message, "done": False, **more}).encode() + b"\n"


DONE = line("", done=True, done_reason="stop")


def test_a_line_comes_as_soon_as_its_object_is_complete() -> None:
    """The server goes on only when the first line has been read."""
    gate = threading.Event()
    with Loopback() as server:
        first, second = '{"value": [{"name": "Alice"},', '{"name": "Bø"}]}'
        kind = "content-type: application/x-ndjson"
        server.answer(
            head(200, kind, "transfer-encoding: chunked"),
            chunk(line(first)),
            gate,
            chunk(line(second) + DONE),
            b"0\r\n\r\n",
        )
        with warm_python.Popen(
            [*TOOLCAST, "get", "--many", "name"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(server), encoding="utf-8",
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("Alice and Bø.")
            process.stdin.close()
            assert process.stdout.readline() == '{"name":"Alice"}\n'
            gate.set()
            assert process.stdout.read() == '{"name":"Bø"}\n'
        assert process.returncode == 0
        sent = json.loads(server.requests[0].body)
        assert (sent["model"], sent["stream"]) == ("llama3.2", True)
        assert "authorization" not in server.requests[0].headers


def test_a_server_that_fails() -> None:
    with Loopback() as server:
        server.answer(whole(b"""{"error": "model 'llama3.2' not found"}""", 404, "content-type: application/json"))
        done = warm_python.run(
            [*TOOLCAST, "get", "name"], input="x", capture_output=True, env=environment(server), encoding="utf-8",
            check=False,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("toolcast: ")
    assert "ollama pull" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe raises another error there")
def test_a_reader_that_has_enough() -> None:
    """`| head -1`: the second line is lost, without an error."""
    gate = threading.Event()
    with Loopback() as server:
        kind = "content-type: application/x-ndjson"
        rest = '{"name": "B"}, {"name": "C"}]}'
        server.answer(
            head(200, kind, "transfer-encoding: chunked"),
            chunk(line('{"value": [{"name": "A"},')), gate, chunk(line(rest) + DONE), b"0\r\n\r\n",
        )  # fmt: skip
        with warm_python.Popen(
            [*TOOLCAST, "get", "--many", "name"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(server),
        ) as process:  # fmt: skip
            assert process.stdin and process.stdout and process.stderr
            process.stdin.write(b"text")
            process.stdin.close()
            assert process.stdout.readline() == b'{"name":"A"}\n'
            process.stdout.close()
            gate.set()
            assert process.stderr.read() == b""
        assert process.returncode == 0


PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def test_a_file_that_is_mentioned(
    tmp_path: Path, stdin: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letter.txt").write_text("Alice is 31.", encoding="utf-8")
    llm = ScriptedLLM(ALICE)
    with use_llm(llm):
        assert cli.main(["get", "name, age int", "Who is it in @letter.txt?"]) == 0
    assert 'Who is it in @letter.txt?\n\n<file path="letter.txt">\nAlice is 31.\n</file>' in asked(llm)[-1].text
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", [["Read @shot.png"], ["--file", "shot.png"], ["@shot.png", "--prompt", "Read this"]])
def test_an_image(
    words: list[str], tmp_path: Path, stdin: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shot.png").write_bytes(PNG)
    llm = ScriptedLLM(ALICE)
    with use_llm(llm):
        assert cli.main(["get", "name, age int", *words, "-m", "ollama:llava"]) == 0
    (message,) = asked(llm)
    assert message.parts[1] == ImagePart(data=PNG, media_type="image/png")
    assert message.text.startswith("Read this\n\n@" if "--prompt" in words else "Extract the data from this text.")
    assert json.loads(capsys.readouterr().out) == ALICE


@pytest.mark.parametrize("typed", ["Read @.env", "Read @sub/../.env", "Read @.ssh/id_rsa", "Read @link.txt"])
def test_protected_files_are_not_sent(
    typed: str, tmp_path: Path, stdin: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("KEY=S3CRET", encoding="utf-8")
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa").write_text("S3CRET", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.txt").symlink_to(".env")
    llm = ScriptedLLM(ALICE)
    with use_llm(llm):
        assert cli.main(["get", "name", typed]) == 1
    assert "its content is not sent to a model" in capsys.readouterr().err
    assert llm.requests == []


def test_a_protected_image(
    tmp_path: Path, stdin: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "a.png").write_bytes(PNG)
    assert cli.main(["get", "name", "--file", ".ssh/a.png"]) == 1
    assert "is protected" in capsys.readouterr().err


@pytest.mark.parametrize("name", [".env", "link.txt"])
def test_a_protected_file_is_sent_only_by_standard_input(
    name: str, tmp_path: Path, stdin: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("Alice, 30")
    (tmp_path / "link.txt").symlink_to(".env")
    llm = ScriptedLLM(ALICE)
    with use_llm(llm):
        assert cli.main(["get", "name, age int", "--file", name]) == 1
        shown = capsys.readouterr().err
        assert f"--file {name} is protected (.env): its content is not sent to a model" in shown
        assert f"toolcast get ... < {name}" in shown
        assert llm.requests == []
        stdin(b"Alice, 30")
        assert cli.main(["get", "name, age int"]) == 0


def test_the_text_of_a_pipe_mentions_nothing(tmp_path: Path, stdin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letter.txt").write_text("S3CRET", encoding="utf-8")
    llm = ScriptedLLM(ALICE, ALICE)
    stdin(b"See @letter.txt")
    with use_llm(llm):
        assert cli.main(["get", "name, age int"]) == 0
        (tmp_path / "other.txt").write_text("See @letter.txt", encoding="utf-8")
        assert cli.main(["get", "name, age int", "--file", "other.txt"]) == 0
    assert all("S3CRET" not in request.messages[-1].text for request in llm.requests)


def test_a_person_sees_what_is_sent(
    tmp_path: Path, stdin: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "letter.txt").write_text("Alice is 31.", encoding="utf-8")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with use_llm(ScriptedLLM(ALICE)):
        assert cli.main(["get", "name, age int", "@letter.txt, @none.txt", "-m", "ollama:qwen3"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == [
        "toolcast: @none.txt names no file: it is sent as text.",
        "toolcast: @letter.txt: 12 bytes, about 3 tokens",
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"caf\xe9 au lait\n", "is no text in UTF-8: convert it, for example with `iconv"),
        (bytes(range(256)), "is a binary file: only text in UTF-8 and images"),
    ],
)
def test_a_file_that_is_no_text_is_refused(
    stdin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, reason: str
) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    llm = ScriptedLLM(ALICE)
    with use_llm(llm):
        assert cli.main(["get", "name, age int", "--file", str(tmp_path / "a.txt")]) == 1
    assert f"{tmp_path / 'a.txt'} {reason}" in capsys.readouterr().err
    assert llm.requests == []


def test_an_input_that_is_no_text_is_refused(stdin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    stdin(bytes(range(256)))
    llm = ScriptedLLM(ALICE)
    with use_llm(llm):
        assert cli.main(["get", "name, age int"]) == 1
    assert "standard input is a binary file" in capsys.readouterr().err
    assert llm.requests == []


def test_a_file_with_a_byte_order_mark(stdin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfAlice is 31.")
    llm = ScriptedLLM(ALICE)
    with use_llm(llm):
        assert cli.main(["get", "name, age int", "--file", str(tmp_path / "a.txt")]) == 0
    assert "\ufeff" not in asked(llm)[-1].text
    assert capsys.readouterr().err == ""


def test_a_mention_that_names_no_file_is_a_warning(stdin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with use_llm(ScriptedLLM(ALICE)):
        assert cli.main(["get", "name, age int", "see @nofile.txt"]) == 0
    assert capsys.readouterr().err == "toolcast: @nofile.txt names no file: it is sent as text.\n"


def test_a_prompt_with_another_variable(stdin: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with use_llm(ScriptedLLM(ALICE)):
        assert cli.main(["get", "name, age int", "x", "--prompt", "Foo {txt}"]) == 1
    expected = "toolcast: --prompt has {txt}, and only {text} is replaced: to send the braces as text, write {{txt}}\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("command", [["get", "name", "x"], ["chat", "Hello."]])
def test_an_empty_name_of_a_model(stdin: Any, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    assert cli.main([*command, "-m", ""]) == 1
    assert "the name of the model is empty" in capsys.readouterr().err


@pytest.mark.parametrize(("abilities", "code"), [(["completion"], 1), (["completion", "vision"], 0)])
def test_an_image_is_sent_only_to_a_model_that_reads_it(
    stdin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], abilities: list[str], code: int
) -> None:
    (tmp_path / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    with OllamaServer() as server:
        server.show_answer = whole(json.dumps({"capabilities": abilities}).encode())
        if not code:
            called = {"function": {"name": "Data", "arguments": ALICE}}
            message = {"role": "assistant", "content": "", "tool_calls": [called]}
            server.answer(whole(json.dumps({"message": message, "done": True, "done_reason": "stop"}).encode()))
        words = ["get", "name, age int", "--file", str(tmp_path / "p.png"), "--host", server.host, "-m", "ollama:q"]
        assert cli.main(words) == code
    assert ("does not read images" in capsys.readouterr().err) == bool(code)
