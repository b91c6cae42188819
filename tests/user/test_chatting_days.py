"""`toolcast chat` in pipes and at a terminal, with all that can interrupt it."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

pytest.importorskip("prompt_toolkit", reason="needs toolcast[cli]")
pytest.importorskip("pyte")
pytest.importorskip("pty", reason="a pseudo terminal, which this system does not have")

from support.driven_repl import CTRL_C, ENTER, Driven, driven
from support.loopback import CLOSE, HOLD, RESET, head
from support.ollama_server import DONE, MODEL, OllamaServer, call, delta
from user.commands import begun, needs_a_shell, shell, variables
from user.session import KEY, PATIENCE, finish

pytestmark = needs_a_shell

TOOLS = """\
import threading

def remember(what: str) -> str:
    '''Remember something.'''
    print("remembering", what)
    return "I remember " + what

def wait_for_ever() -> str:
    '''Wait.'''
    print("waiting")
    threading.Event().wait()

def leave() -> str:
    '''Leave.'''
    raise SystemExit(3)

def press() -> str:
    '''Press Ctrl-C.'''
    raise KeyboardInterrupt
"""


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the person is."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    return folder


@pytest.fixture
def env(server: OllamaServer, folder: Path) -> dict[str, str]:
    return variables(server, folder.parent / "home")


@pytest.fixture
def terminal(server: OllamaServer, folder: Path) -> Iterator[Driven]:
    """`toolcast chat`, at its first prompt; the mode offers commands."""
    with at_terminal(server, folder, "--mode", "auto") as running:
        running.at_prompt()
        yield running


def at_terminal(server: OllamaServer, folder: Path, *words: str) -> AbstractContextManager[Driven]:
    """`toolcast chat` with the tools, in a terminal."""
    home = folder.parent / "home"
    return driven(home, "--tools", "tools.py", *words, OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL)


def conversation(server: OllamaServer, number: int = -1) -> list[tuple[str, str]]:
    """Return the roles and texts of a request, without its system prompt."""
    messages = server.bodies[number]["messages"]
    return [(message["role"], message["content"]) for message in messages if message["role"] != "system"]


# In pipes.


def test_a_key_shows_nowhere(server: OllamaServer, env: dict[str, str], folder: Path) -> None:
    """Not in the answer of the service, in no log, in no file; `finish` looks at the screen."""
    server.fails(401, f"bad key {KEY}")
    server.replies("Hello.")
    screen = finish(begun(f"toolcast chat --lines --debug --session s --token {KEY}", env), "Hi\nHi again\n")
    assert (screen.out, screen.code) == ("Hello.\n", 1)
    assert server.requests[1].headers["authorization"] == f"Bearer {KEY}"
    assert "Hi again" in shell("toolcast logs s && toolcast logs s --json && toolcast logs", env).out
    files = [file for file in folder.parent.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if KEY.encode() in file.read_bytes()]


def test_a_bad_hour(server: OllamaServer, env: dict[str, str]) -> None:
    """Each question fails in a way of its own, and the next one is answered as if nothing had been."""
    server.answer(head(429, "retry-after: 0", "content-length: 0"))
    server.replies("Fine.")
    server.breaks_off(delta(content="Once"), CLOSE)
    server.breaks_off(delta(content="upon"), RESET)
    server.fails(400, "bad request")
    server.fails(404, "no such model")
    server.streams(b"<html>Bad gateway</html>\n", DONE)
    server.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    server.replies("Fine again.")
    screen = shell("toolcast chat --lines", env, "".join(f"{number}\n" for number in range(8)))
    assert screen.lines == ["Fine.", "Once", "upon", "Fine again."]
    assert screen.code == 1
    skipped = "error: cannot decode a part of the answer: <html>Bad gateway</html> (it was skipped)"
    errors = screen.err.splitlines()
    assert errors.pop(4) == skipped
    assert [line[:19] for line in errors] == ["error: ollama m-1: "] * 6, screen.err
    assert conversation(server)[-1] == ("user", "7")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed(closed: str, server: OllamaServer, env: dict[str, str]) -> None:
    """As schedulers start programs. What cannot be read is empty, what cannot be shown is gone."""
    server.replies("Hello.")
    screen = shell(f"toolcast chat {closed}", env, "Hi")
    assert (screen.out, screen.err, screen.code) == ("Hello.\n" if closed == "2>&-" else "", "", 0)
    assert len(server.requests) == (0 if "<" in closed else 1)


def test_a_disk_that_is_full(server: OllamaServer, env: dict[str, str]) -> None:
    """At the start the conversation is not saved, with a note; later a failed write is an error."""
    server.replies("Hello.")
    screen = shell("ulimit -f 1; toolcast chat", env, "Hi")
    assert (screen.out, screen.code) == ("Hello.\n", 0)
    assert screen.err.startswith("This conversation will not be saved: ")
    server.replies("word " * 40_000)
    screen = shell("ulimit -f 96; toolcast chat --lines", env | {"TOOLCAST_HOME": f"{env['TOOLCAST_HOME']}2"}, "Hi\n")
    assert (screen.lines[:1], screen.code) == (["word " * 40_000], 1)
    assert "sessions.db failed" in screen.err


@pytest.mark.parametrize(
    ("typed", "received"),
    [
        ("a\r\nb\r\n", "a\r\nb"),
        ("日本語 🌊 \u202e", "日本語 🌊 \u202e"),
        ("\x00\udcff\x1b[2J", "\x00\ufffd\x1b[2J"),
        ("word " * 400_000, ("word " * 400_000).strip()),
    ],
    ids=["windows", "wide", "binary", "two megabytes"],
)
def test_odd_questions(typed: str, received: str, server: OllamaServer, env: dict[str, str]) -> None:
    server.replies("Well.")
    assert shell("toolcast chat", env, typed).went_well() == ["Well."]
    assert conversation(server) == [("user", received)]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--model nonsense --host 127.0.0.1:9", "no connection to 127.0.0.1"),
        ("--model openai:", "names no LLM"),
        ("--model openia:gpt-5.4", "did you mean 'openai:gpt-5.4'?"),
        ("--model no-such.gguf", "there is no model file"),
        ("--model local:nope", "`toolcast pull smollm2` fetches one"),
        ("--tools syntax.py", "syntax.py:2: SyntaxError"),
        ("--tools empty.py", "no tools in empty.py"),
        ("--tools leaves.py", "leaves.py:1: SystemExit: 0"),
    ],
)
def test_what_cannot_begin_is_one_line(line: str, text: str, env: dict[str, str], folder: Path) -> None:
    (folder / "syntax.py").write_text("x = 1\ndef f(:\n", encoding="utf-8")
    (folder / "empty.py").write_text("x = 1\n", encoding="utf-8")
    (folder / "leaves.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    screen = shell(f"toolcast chat {line}", env, "Hi")
    assert (screen.out, screen.code, screen.err.count("\n")) == ("", 1, 1)
    assert text in screen.err


def test_what_tools_print_is_no_answer(server: OllamaServer, env: dict[str, str], folder: Path) -> None:
    """Nor is what the file prints when it is read."""
    source = TOOLS + "print('reading')\nfrom toolcast import CallableTool\n"
    source += "tools = [CallableTool.from_function(remember).with_(read_only=True)]\n"
    (folder / "tools.py").write_text(source, encoding="utf-8")
    server.calls(call("remember", what="the milk"))
    server.replies("Done.")
    screen = shell("toolcast chat --tools tools.py", env, "Remember the milk.")
    assert (screen.lines, screen.code) == (["Done."], 0)
    assert "reading\n" in screen.err
    assert "remembering" in screen.err


def test_tools_that_are_not_there(server: OllamaServer, env: dict[str, str]) -> None:
    server.calls(call("fly", to="the moon"))
    server.calls(call("fly", to="Mars"), call("walk"))
    server.replies("I cannot.")
    screen = shell("toolcast chat", env, "Fly!")
    assert (screen.lines, screen.code) == (["I cannot."], 0)
    assert screen.err.count("! fly: ") == 2
    assert [
        content for role, content in conversation(server) if role == "tool" and "it was offered" not in content
    ] == []


def test_a_model_that_takes_no_tools(server: OllamaServer, env: dict[str, str]) -> None:
    """It is asked once more without them, and from then on; another model is offered them again."""
    server.fails(400, "registry.ollama.ai/library/gemma:2b does not support tools")
    for answer in ("Hello.", "Again."):
        server.replies(answer)
    server.fails(404, "no list of models")
    server.replies("Another.")
    screen = shell("toolcast chat --lines", env, "Hi\nHi again\n/model m-2\nAnd you?\n")
    assert (screen.lines, screen.code) == (["Hello.", "Again.", "Another."], 0)
    assert screen.err.splitlines()[0] == "m-1 does not support tools; continuing without them."
    assert ["tools" in body for body in server.bodies] == [True, False, False, True]
    assert "You can" not in server.bodies[1]["messages"][0]["content"]
    assert [text for _, text in conversation(server)] == ["Hi", "Hello.", "Hi again", "Again.", "And you?"]


@pytest.mark.parametrize(
    "lines",
    [[{"foo": 1}], [{"foo": 1}, DONE], [{"message": {}, "done": False}, DONE], [DONE], [b"[1,2]\n", DONE]],
    ids=["no format", "no format, done", "no fields", "done alone", "a list"],
)
def test_an_empty_answer_is_a_failure(
    lines: list[dict[str, object] | bytes], server: OllamaServer, env: dict[str, str]
) -> None:
    for _ in range(3):
        server.streams(*lines)
    screen = shell("echo x | toolcast chat", env)
    assert (screen.out, screen.code) == ("", 1)
    unknown = lines[0] == {"foo": 1}
    assert (
        f"error: ollama m-1: {'a chunk of the answer has an unknown form' if unknown else 'the answer'}" in screen.err
    )


def test_a_chat_that_could_not_begin_leaves_no_session(server: OllamaServer, env: dict[str, str]) -> None:
    screen = shell("toolcast chat --model openai:gpt-5.4", env, "Hi")
    assert (screen.out, screen.code) == ("", 1)
    assert screen.err == (
        "error: openai gpt-5.4: no API key for openai: set OPENAI_API_KEY, or run: toolcast config set-key openai. "
        "Nothing was sent.\n"
    )
    assert shell("toolcast logs", env).went_well() == []
    server.replies("Hello.")
    assert shell("toolcast chat --session s", env, "Hi").went_well() == ["Hello."]
    assert [line.split()[0] for line in shell("toolcast logs", env).lines] == ["SESSION", "s"]


# At a terminal.


@pytest.mark.parametrize("columns", [20, 40, 64, 100])
def test_a_question_in_a_terminal_of_any_width(
    columns: int, server: OllamaServer, folder: Path, env: dict[str, str]
) -> None:
    server.calls(call("remember", what="the milk"))
    server.replies("Done.")
    home = folder.parent / "home"
    named = {"OLLAMA_HOST": server.host, "OLLAMA_MODEL": MODEL}
    with driven(home, "--tools", "tools.py", columns=columns, rows=40, **named) as terminal:
        terminal.at_prompt()
        terminal.type("Remember the milk." + ENTER)
        terminal.until("y   yes", "e   edit it first", "Esc no")
        terminal.type("y")
        terminal.until("I remember", "Done.")


def test_a_session_of_yesterday_is_gone_on_with_by_its_beginning(
    server: OllamaServer, folder: Path, env: dict[str, str]
) -> None:
    server.replies("It is **42**.")
    shell("toolcast chat --session holiday-plans", env, "What is the answer?")
    server.replies("Because.")
    with at_terminal(server, folder, "--session", "holiday") as terminal:
        terminal.at_prompt()
        terminal.until("Resuming session holiday-plans: 2 messages, 1 question, mode build.", "> What is the answer?")
        terminal.until("It is 42.")
        terminal.submit("Why?")
        terminal.type(CTRL_C)
        terminal.ends()
    assert conversation(server) == [("user", "What is the answer?"), ("assistant", "It is **42**."), ("user", "Why?")]


def test_ctrl_c_before_the_first_byte(server: OllamaServer, terminal: Driven) -> None:
    server.answer(HOLD)
    server.replies("Here.")
    before = terminal.at_prompt()
    terminal.type("Are you there?" + ENTER)
    server.wait_requests(1)
    terminal.type(CTRL_C)
    terminal.until("(cancelled)")
    server.wait_open(0)
    terminal.at_prompt(before)
    before = terminal.submit("/retry")
    assert "Here." in terminal.text
    assert conversation(server) == [("user", "Are you there?")]


def test_ctrl_c_in_a_question_denies_all_calls_and_stops(server: OllamaServer, terminal: Driven) -> None:
    server.calls(call("remember", what="the milk"), call("remember", what="the bread"))
    server.replies("Neither.")
    before = terminal.at_prompt()
    terminal.type("Remember" + ENTER)
    terminal.until('1. remember  "the milk"', '2. remember  "the bread"', "Run all 2?")
    terminal.type("o")
    terminal.until('1. remember  "the milk": run it?', lines=before)
    terminal.type(CTRL_C)
    terminal.until('✗ remember  "the milk": stopped', '✗ remember  "the bread": stopped', "(cancelled)", lines=before)
    assert len(server.bodies) == 1
    terminal.submit("And now?")
    assert "Neither." in terminal.text
    milk, bread = [content for role, content in conversation(server) if role == "tool"]
    assert "stopped the turn" in milk
    assert "stopped the turn" in bread


def test_ctrl_c_ends_a_command_with_its_children(server: OllamaServer, terminal: Driven, folder: Path) -> None:
    os.mkfifo(folder / "alive")
    alive = os.open(folder / "alive", os.O_RDONLY | os.O_NONBLOCK)
    server.calls(call("run_command", command="(exec 3>alive; echo begun; exec sleep 1000) & wait"))
    server.replies("Never mind.")
    before = terminal.at_prompt()
    terminal.type("Run" + ENTER)
    terminal.until("Esc no")
    terminal.type("y")
    terminal.until("    begun")
    terminal.type(CTRL_C)
    terminal.until("(cancelled)")
    assert select.select([alive], [], [], PATIENCE)[0]
    assert os.read(alive, 1) == b"", "no process has it open"
    os.close(alive)
    terminal.at_prompt(before)
    assert "    begun" in terminal.lines[before:], "its output stays on the screen"
    terminal.submit("Well?")
    assert "was cancelled while it ran" in dict(conversation(server))["tool"]


def test_ctrl_c_ends_a_command_of_ones_own(terminal: Driven) -> None:
    before = terminal.at_prompt()
    terminal.type("!echo be''gun; exec sleep 1000" + ENTER)
    terminal.until("begun")
    terminal.type(CTRL_C)
    terminal.until("(interrupted)", lines=before)
    terminal.at_prompt(before)


@pytest.mark.parametrize(("tool", "text"), [("leave", "✗ SystemExit: 3"), ("press", "(cancelled)")])
def test_a_tool_that_would_end_the_program(tool: str, text: str, server: OllamaServer, terminal: Driven) -> None:
    server.calls(call(tool))
    server.replies("Still here.")
    before = terminal.at_prompt()
    terminal.type("Leave" + ENTER)
    terminal.until("Esc no")
    terminal.type("y")
    terminal.until(text, lines=before)
    terminal.submit("Are you there?")
    assert "Still here." in terminal.text


@pytest.mark.slow
def test_a_tool_in_which_the_program_was_killed(server: OllamaServer, folder: Path) -> None:
    """It is not run again, and the model gets a result with that; the session is free for the next process."""
    server.calls(call("wait_for_ever"))
    with at_terminal(server, folder, "--session", "s") as first:
        first.at_prompt()
        first.type("Wait" + ENTER)
        first.until("Esc no")
        first.type("y")
        first.until("waiting")
        with at_terminal(server, folder, "--session", "s") as other:
            assert other.ends() == 1
            assert "the session 's' is open in process" in other.text
        first.kill()
    server.replies("It was in vain.")
    with at_terminal(server, folder, "--session", "s") as second:
        second.until("last turn was interrupted", "It was in vain.")
    asked, _, result = conversation(server)
    assert asked == ("user", "Wait")
    assert "It was not run again" in result[1]


@pytest.mark.slow
def test_a_question_in_which_the_program_was_killed(server: OllamaServer, folder: Path) -> None:
    server.calls(call("remember", what="the milk"))
    with at_terminal(server, folder, "--session", "s") as first:
        first.at_prompt()
        first.type("Remember" + ENTER)
        first.until("Esc no")
        first.kill()
    server.replies("Good.")
    with at_terminal(server, folder, "--session", "s") as second:
        second.until("Esc no")
        second.type("y")
        second.until("Good.")
    assert conversation(server)[-1] == ("tool", "I remember the milk")


def test_a_huge_paste_is_one_question(server: OllamaServer, terminal: Driven) -> None:
    text = "".join(f"{number}: 日本語 🌊 /exit\n" for number in range(3000))
    server.replies("Read.")
    pasting = threading.Thread(target=terminal.type, args=(f"\x1b[200~{text}\x1b[201~{ENTER}",))
    pasting.start()  # the terminal takes no more while the program writes
    terminal.until("Read.")
    pasting.join()
    assert conversation(server) == [("user", text.strip())]


def test_a_model_that_is_not_there_and_back(server: OllamaServer, terminal: Driven) -> None:
    server.fails(404, "no list of models")
    server.fails(404, "model 'nonsense' not found")
    server.fails(404, "no list of models")
    server.replies("Hello again.")
    terminal.submit("/model nonsense")
    terminal.submit("Hi")
    assert "/model NAME switches to another model" in terminal.text
    terminal.submit("/model openia:gpt-5.4")
    assert "did you mean 'openai:gpt-5.4'?" in " ".join(terminal.text.split())
    terminal.submit(f"/model {MODEL}")
    terminal.submit("Hi")
    assert "Hello again." in terminal.text
    assert [body["model"] for body in server.bodies] == ["nonsense", MODEL]
