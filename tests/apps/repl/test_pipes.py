"""R11 and the rest of `toolcast chat` as other programs see it: processes, pipes, exit codes."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from support import warm_python
from support.loopback import HOLD, Loopback
from support.ollama_server import DONE, OllamaServer, call, delta
from user.session import NOISE, command_environment

PATIENCE = 30.0
COMMAND = [sys.executable, "-W", "error", "-c", "import sys; from toolcast.apps.cli import main; sys.exit(main())"]


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as server:
        yield server


@pytest.fixture
def variables(server: OllamaServer, tmp_path: Path) -> dict[str, str]:
    """The environment of the processes."""
    home = {"TOOLCAST_HOME": str(tmp_path / "home"), "OLLAMA_HOST": server.host, "OLLAMA_MODEL": "m-1"}
    return command_environment(**home)


@contextmanager
def started(*words: str, env: dict[str, str], stream: int = subprocess.PIPE) -> Iterator[subprocess.Popen[bytes]]:
    """A process, which is gone in the end. Each of its three streams is a pipe, or `stream`."""
    line = [*COMMAND, "chat", *words]
    with warm_python.Popen(line, env=env, stdin=stream, stdout=stream, stderr=stream) as process:
        try:
            yield process
        finally:
            process.kill()


def typed_into(process: subprocess.Popen[bytes], text: str) -> IO[bytes]:
    """Type this, and the end of input; gives the stream of the answers."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(text.encode())
    process.stdin.close()
    return process.stdout


def output_of(process: subprocess.Popen[bytes]) -> str:
    """What it wrote to stderr, once it has ended."""
    assert process.stderr is not None
    return process.stderr.read().decode()


def run(*words: str, typed: str | bytes, env: dict[str, str]) -> tuple[str, str, int]:
    """Run a process with this input; return its stdout and stderr, and its exit code."""
    with started(*words, env=env) as process:
        out, err = process.communicate(typed if isinstance(typed, bytes) else typed.encode(), PATIENCE)
    shown = err.decode()
    assert not [noise for noise in NOISE if noise in shown], shown
    assert b"\x1b" not in out + err
    return out.decode(), shown, process.returncode


def test_r11_echo(server: OllamaServer, variables: dict[str, str]) -> None:
    server.streams(delta(thinking="Hm."), delta(content="**4"), delta(content="** 🌊"), DONE)
    assert run(typed="2 + 2?\n", env=variables) == ("**4** 🌊\n", "Hm.\n", 0)
    (body,) = server.bodies
    assert body["messages"][1:] == [{"role": "user", "content": "2 + 2?"}]


def test_r11_a_terminal_that_takes_no_codes(server: OllamaServer, variables: dict[str, str]) -> None:
    server.replies("**4**")
    ours, theirs = pty.openpty()
    with started(env=variables | {"TERM": "dumb"}, stream=theirs) as process:
        os.close(theirs)
        os.write(ours, b"2 + 2?\n\x04")
        shown = "".join(pieces(ours))
        assert process.wait(PATIENCE) == 0
    os.close(ours)
    assert "\x1b" not in shown
    assert "**4**" in shown
    assert "m-1 of ollama, mode build" in shown
    assert "Continue with: toolcast chat --session chat-" in shown


def pieces(terminal: int) -> Iterator[str]:
    """Return what is written to a terminal, until its last user has closed it."""
    try:
        while piece := os.read(terminal, 65536):
            yield piece.decode()
    except OSError:  # how Linux reports that the other end was closed
        return


def test_a_prompt_on_the_command_line_is_answered_and_the_program_ends(
    server: OllamaServer, variables: dict[str, str]
) -> None:
    server.replies("**4**")
    server.replies("A diff.")
    assert run("What is 2 + 2?", typed="", env=variables) == ("**4**\n", "", 0)
    assert run("Review this:", typed="--- a\nexit\n", env=variables) == ("A diff.\n", "", 0)
    sent = [body["messages"][-1]["content"] for body in server.bodies]
    assert sent == ["What is 2 + 2?", "Review this:\n\n--- a\nexit"]
    assert run("Hi", typed="", env=variables | {"OLLAMA_HOST": "http://127.0.0.1:9"})[2] == 1
    _, err, code = run(" ", typed="", env=variables)
    assert code == 2
    assert "argument PROMPT: the prompt is empty" in err


def test_a_prompt_at_a_terminal(server: OllamaServer, variables: dict[str, str]) -> None:
    server.replies("**4**")
    ours, theirs = pty.openpty()
    with started("2 + 2?", env=variables | {"TERM": "dumb"}, stream=theirs) as process:
        os.close(theirs)
        shown = "".join(pieces(ours))
        assert process.wait(PATIENCE) == 0
    os.close(ours)
    assert shown.startswith("**4**")
    assert "m-1 of ollama" not in shown


def test_the_model_of_the_config_file_and_its_aliases(
    server: OllamaServer, variables: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text('model = "ollama:m-2"\n[aliases]\nfast = "ollama:m-3"\n')
    env = variables | {"TOOLCAST_CONFIG": str(file)}
    for words, more in ((), {}), ((), {"TOOLCAST_MODEL": "m-4"}), (("--model", "fast"), {"TOOLCAST_MODEL": "m-4"}):
        server.replies("Yes.")
        assert run("Hi", *words, typed="", env=env | more) == ("Yes.\n", "", 0)
    assert [body["model"] for body in server.bodies] == ["m-2", "m-4", "m-3"]
    out, err, _ = run("--lines", typed="/model fast\n", env=env)
    assert (out, "m-3" in err) == ("", True)


def test_all_of_stdin_is_one_question(server: OllamaServer, variables: dict[str, str]) -> None:
    server.replies("A diff.")
    typed = "What is this?\n\n/clear\n--- a\nexit\n"
    assert run(typed=typed, env=variables) == ("A diff.\n", "", 0)
    (body,) = server.bodies
    assert body["messages"][-1]["content"] == typed.strip()


def test_lines_are_questions_if_so_wanted(server: OllamaServer, variables: dict[str, str]) -> None:
    server.replies("Hello, Ada.")
    server.replies("Ada.")
    out, err, code = run("--lines", typed="I am Ada.\n/cost\nWho am I?\nexit\ntoo late\n", env=variables)
    assert (out, code) == ("Hello, Ada.\nAda.\n", 0)
    assert "tokens in" in err
    assert len(server.bodies[1]["messages"]) == 4


@pytest.mark.parametrize("typed", ["", "\n", "exit\n", " QUIT"])
def test_nothing_is_asked(typed: str, server: OllamaServer, variables: dict[str, str]) -> None:
    assert run(typed=typed, env=variables) == ("", "", 0)
    assert server.requests == []


def test_bytes_that_are_no_text(server: OllamaServer, variables: dict[str, str]) -> None:
    server.replies("Noise.")
    assert run(typed=b"\xff\xfe What?", env=variables)[0] == "Noise.\n"
    assert server.bodies[0]["messages"][-1]["content"].endswith("What?")


def test_a_failed_turn_is_exit_code_1(server: OllamaServer, variables: dict[str, str]) -> None:
    server.fails(400, "bad request")
    out, err, code = run(typed="Hi", env=variables)
    assert (out, code) == ("", 1)
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "bad request" in err


def test_a_piece_that_cannot_be_read_is_exit_code_1(server: OllamaServer, variables: dict[str, str]) -> None:
    """An answer with a gap is no success, even where the rest of it is printed."""
    server.streams(delta(content="Hel"), b"[1,2]\n", delta(content="lo"), DONE)
    assert run(typed="Hi", env=variables) == (
        "Hello\n",
        "error: cannot decode a part of the answer: [1,2] (it was skipped)\n",
        1,
    )


def test_no_one_is_asked_so_it_is_denied(server: OllamaServer, variables: dict[str, str], tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text("def send(to: str):\n    raise AssertionError(to)\n", encoding="utf-8")
    server.calls(call("send", to="ada"))
    server.replies("I may not.")
    out, err, code = run("--tools", str(tools), typed="Write to Ada.", env=variables)
    assert (out, code) == ("I may not.\n", 0)
    assert '> send {"to": "ada"}' in err
    assert "no approver" in err
    offered = {tool["function"]["name"] for tool in server.bodies[0]["tools"]}
    assert offered == {"send", "read_file", "list_files", "search_files", "write_file", "edit_file", "fetch_url"}


def test_a_session_from_one_process_to_the_next(server: OllamaServer, variables: dict[str, str]) -> None:
    server.replies("Hello, Ada.")
    server.replies("Ada.")
    run("--session", "ada", typed="I am Ada.", env=variables)
    assert run("--session", "ada", typed="Who am I?", env=variables)[0] == "Ada.\n"
    assert [message["content"] for message in server.bodies[1]["messages"][1:]] == [
        "I am Ada.",
        "Hello, Ada.",
        "Who am I?",
    ]


def test_ctrl_c_is_130(server: OllamaServer, variables: dict[str, str]) -> None:
    server.breaks_off(delta(content="Once upon"), HOLD)
    with started("--session", "s", env=variables) as process:
        assert typed_into(process, "Tell me").read(9) == b"Once upon"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert output_of(process) == "(cancelled)\n"
    server.wait_open(0)


def test_a_reader_that_has_had_enough(server: OllamaServer, variables: dict[str, str]) -> None:
    server.streams(*[delta(content="line\n")] * 100, DONE)
    with started(env=variables) as process:
        assert process.stdout is not None
        process.stdout.close()
        typed_into(process, "Tell me")
        assert process.wait(PATIENCE) == 0
        assert output_of(process) == ""


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--session", "a/b"], 2, "'a/b' is no id of a session"),
        (["--mode", "fast"], 2, "unknown value 'fast'"),
        (["--tools", "nothing.py"], 1, "toolcast: no file nothing.py"),
        (["--model", "local:m", "--host", "h"], 1, "toolcast: the embedded model has no host"),
        (["--host", "http://["], 1, "toolcast: "),
    ],
)
def test_what_cannot_be_had(
    words: list[str], code: int, text: str, server: OllamaServer, variables: dict[str, str]
) -> None:
    out, err, left = run(*words, typed="Hi", env=variables)
    assert (out, left) == ("", code)
    assert text in err
    assert "Traceback" not in err
    assert server.requests == []


def test_a_session_that_is_open_elsewhere(server: OllamaServer, variables: dict[str, str]) -> None:
    server.breaks_off(delta(content="Once upon"), HOLD)
    with started("--session", "s", env=variables) as first:
        assert typed_into(first, "Tell me").read(9) == b"Once upon"
        out, err, code = run("--session", "s", typed="Hi", env=variables)
        assert (out, code) == ("", 1)
        assert err.startswith("toolcast: the session 's' is open in process")


def test_a_home_that_cannot_be_written(server: OllamaServer, variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    nowhere = variables | {"TOOLCAST_HOME": str(tmp_path / "file")}
    server.replies("Hello.")
    out, err, code = run(typed="Hi", env=nowhere)
    assert (out, code) == ("Hello.\n", 0)
    assert err.startswith("This conversation will not be saved: ")
    out, err, code = run("--session", "s", typed="Hi", env=nowhere)
    assert (out, code) == ("", 1)
    assert err.startswith("toolcast: ")


def test_debug(server: OllamaServer, variables: dict[str, str]) -> None:
    key = "sk-user-0123456789abcdef"
    server.fails(400, "bad request")
    out, err, code = run("--debug", "--token", key, typed="Hi", env=variables)
    assert (out, code) == ("", 1)
    lines = err.splitlines()
    assert "DEBUG: repl: idle" in lines
    assert "DEBUG: turn: streaming" in lines
    assert "DEBUG: request to ollama m-1: 1 messages, about 5 tokens, 6 tools" in lines
    assert [line for line in lines if line.startswith("toolcast.errors.BadRequest: ")]
    assert key not in err


def test_no_one_listens(variables: dict[str, str]) -> None:
    with Loopback() as gone:
        port = gone.port
    out, err, code = run("--host", f"127.0.0.1:{port}", typed="Hi", env=variables)
    assert (out, code) == ("", 1)
    assert "Connection refused" in err
