"""The shell tool: the output of a command, its environment, and that nothing of it is left, however it ends.

Commands wait for each other and for the test at named pipes: a byte in `gate`. `held` is one that the test reads
and a command has open: its end is seen when the last process of the command has ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.engines import EngineAPI, call, check, results
from support.process import Process
from toolcast.agents.engine.engine import Engine
from toolcast.agents.permissions.permissions import Mode, Permissions
from toolcast.agents.permissions.rules import Rule
from toolcast.errors import TryAgain, TurnCancelled
from toolcast.events import ToolProgress
from toolcast.testing import ScriptedLLM
from toolcast.toolbox import shell_command
from toolcast.toolbox.shell_command import Excerpt, command_tool, environment_without_secrets
from toolcast.tools.callable_tool import CallableTool, ToolInvocation, ToolOutput
from toolcast.tools.tool_context import ToolContext
from toolcast.values.secret_patterns import is_secret_name

PATIENCE = 30
WAITS = "exec 3>held; echo ready; head -c 1 gate"


class Held:
    """Whether processes of a command are left."""

    def __init__(self, folder: Path) -> None:
        for name in ("held", "gate", "mark"):
            os.mkfifo(folder / name)
        self._fd = os.open(folder / "held", os.O_RDONLY | os.O_NONBLOCK)
        self._gate = os.open(folder / "gate", os.O_RDWR)

    def release(self) -> None:
        """Let a command continue that reads `gate`, now or later."""
        os.write(self._gate, b"\n")

    def wait(self) -> None:
        """Wait until none is left."""
        os.set_blocking(self._fd, True)
        assert os.read(self._fd, 1) == b""

    def close(self) -> None:
        os.close(self._fd)
        os.close(self._gate)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    made = Held(tmp_path)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = names("/dev/fd")
    yield
    while left := [thread for thread in threading.enumerate() if thread.name.startswith(("run_command", "tool "))]:
        left[0].join(PATIENCE)  # a thread of a tool may begin others meanwhile
        assert not left[0].is_alive()
    assert set(names("/dev/fd")) <= set(before)


def names(folder: str | Path) -> list[str]:
    return sorted(entry.name for entry in Path(folder).iterdir())


def run(tool: CallableTool, command: str, on_progress: Callable[[ToolProgress], object] | None = None) -> ToolOutput:
    context: ToolContext[Any] = ToolContext("1", tool.name, on_progress=on_progress)
    return tool.answer(ToolInvocation({"command": command}, tool.read({"command": command})), context)


def late_when_ready(monkeypatch: pytest.MonkeyPatch) -> Callable[[ToolProgress], object]:
    """Let the time limit pass as soon as the command has written something."""
    ready = threading.Event()

    def news(running: object, seconds: object) -> str:
        assert ready.wait(PATIENCE)
        return "late"

    monkeypatch.setattr(shell_command._Command, "wait", news)
    return lambda _: ready.set()


# The output of a command.


@pytest.mark.parametrize(
    ("command", "message", "code"),
    [
        ("echo one; echo two >&2; echo three", "one\ntwo\nthree\n[exit code 0]", 0),
        ("printf one; exit 3", "one\n[exit code 3]", 3),
        ("true", "[exit code 0]", 0),
        ("cat; echo over", "over\n[exit code 0]", 0),  # there is no input
        ("kill -9 $$", "[ended by the signal 9, Killed]", -9),
        ("printf 'caf\\303\\251 \\377'", "café \ufffd\n[exit code 0]", 0),
        ("if", None, 2),
    ],
)
def test_parsed_fields(tmp_path: Path, command: str, message: str | None, code: int) -> None:
    output = run(command_tool(tmp_path), command)
    assert output.raw_output == code and not output.is_error and output.tool_name == "run_command"
    assert output.content == message if message is not None else output.content.endswith(f"[exit code {code}]")


def test_it_runs_in_the_folder(tmp_path: Path) -> None:
    assert run(command_tool(tmp_path), "pwd -P").content == f"{os.path.realpath(tmp_path)}\n[exit code 0]"


def test_a_long_output_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    message = run(command_tool(tmp_path, output_limit=20), "seq 1000; exit 1").content
    assert message == "1\n2\n3\n4\n5\n\n[... 3,873 characters left out ...]\n\n999\n1000\n[exit code 1]"


def test_the_longest_output_is_not_cut_again(tmp_path: Path) -> None:
    message = run(command_tool(tmp_path), "yes 123456789 | head -c 1000000; exit 7").content
    assert message.endswith("\n[exit code 7]") and "[... 970,000 characters left out ...]" in message
    assert len(message) < 30_100


def test_it_is_received_at_once(tmp_path: Path, held: Held) -> None:
    """A character that comes in two pieces is emitted when it is whole."""
    text: list[str] = []

    def on_progress(progress: ToolProgress) -> None:
        text.append(progress.data)
        if len(text) == 1:  # the command goes on after its first output has arrived
            held.release()

    output = run(command_tool(tmp_path), "printf 'a\\303'; head -c 1 gate >/dev/null; printf '\\251b'", on_progress)
    assert text == ["a", "éb"] and output.content == "aéb\n[exit code 0]"


def test_what_is_reported_at_once_has_an_end(tmp_path: Path) -> None:
    text: list[str] = []
    output = run(
        command_tool(tmp_path), "yes 123456789 | head -n 110000; echo end", lambda progress: text.append(progress.data)
    )
    assert output.content.endswith("123456789\nend\n[exit code 0]")
    assert "".join(text) == "123456789\n" * 100_000


@given(st.lists(st.text("ab\n"), max_size=8), st.integers(1, 12))
def test_an_excerpt_does_not_depend_on_the_pieces(pieces: list[str], limit: int) -> None:
    excerpt, whole, text = Excerpt(limit), Excerpt(limit), "".join(pieces)
    for piece in pieces:
        excerpt.add(piece)
    whole.add(text)
    assert excerpt.text == whole.text
    if len(text) <= limit:
        assert excerpt.text == text
    else:
        head, tail = text[: limit // 2], text[-(limit - limit // 2) :]
        assert excerpt.text == f"{head}\n[... {len(text) - limit} characters left out ...]\n{tail}"


# What it gets.


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *[(name, True) for name in ("OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID")],
        *[(name, True) for name in ("db_password", "PGPASSWORD", "CLIENT_SECRET", "GH_PAT", "TOKEN", "DATABASE_URL")],
        *[(name, True) for name in ("GOOGLE_APPLICATION_CREDENTIALS", "SENTRY_DSN", "SSH_PASSPHRASE")],
        *[(name, False) for name in ("PATH", "HOME", "LANG", "KEYBOARD", "PYTHONPATH", "TOKENIZERS_PARALLELISM")],
    ],
)
def test_secret_variables(name: str, secret: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "x")
    assert is_secret_name(name) == secret
    assert (name in environment_without_secrets()) != secret


def test_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "hidden")
    monkeypatch.setenv("MY_NAME", "shown")
    command = "echo $MY_API_KEY $MY_NAME"
    assert run(command_tool(tmp_path), command).content == "shown\n[exit code 0]"
    given = {"MY_API_KEY": "wanted"}
    assert run(command_tool(tmp_path, environment=given), command).content == "wanted\n[exit code 0]"


def test_what_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(TryAgain, match=r"could not be started with /no/shell: .*No such file"):
        run(command_tool(tmp_path, shell="/no/shell"), "true")
    with pytest.raises(TryAgain, match=r"could not be started with /bin/sh: embedded null byte"):
        run(command_tool(tmp_path), "echo \0")


def test_options_that_make_no_sense(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no folder"):
        command_tool(tmp_path / "nothing")
    with pytest.raises(ValueError, match="timeout=0"):
        command_tool(tmp_path, timeout=0)
    with pytest.raises(ValueError, match="output_limit=0"):
        command_tool(tmp_path, output_limit=0)


# How it ends.


def test_its_time_is_limited(tmp_path: Path, held: Held) -> None:
    output = run(command_tool(tmp_path, timeout=0.05), WAITS)
    assert output.is_error and output.content.endswith("[stopped: it took longer than 0.05 seconds]")
    held.wait()


def test_what_it_sent_until_its_time_was_up_is_reported(
    tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = late_when_ready(monkeypatch)
    output = run(
        command_tool(tmp_path), "trap 'echo bye; exit 7' TERM; exec 3>held; echo ready; head -c 1 gate & wait", text
    )
    assert output.content == "ready\nbye\n[stopped: it took longer than 120 seconds]" and output.raw_output == 7
    held.wait()


def test_who_does_not_listen_is_killed(
    tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch, little_grace: None
) -> None:
    output = run(command_tool(tmp_path), f"trap '' TERM; {WAITS}", late_when_ready(monkeypatch))
    assert output.raw_output == -signal.SIGKILL
    held.wait()


@pytest.mark.parametrize(
    "command", ["exec 3>held; head -c 1 gate & echo left", "exec 3>held; head -c 1 gate >/dev/null & echo left"]
)
def test_what_is_left_in_the_background_ends_with_it(tmp_path: Path, held: Held, command: str) -> None:
    assert run(command_tool(tmp_path), command).content == "left\n[exit code 0]"
    held.wait()


def test_who_leaves_the_group_is_not_waited_for(tmp_path: Path, held: Held, little_grace: None) -> None:
    leaves = "import os; os.setsid(); open('mark', 'w').close(); open('gate').readline()"
    assert run(command_tool(tmp_path), f'{sys.executable} -c "{leaves}" & cat mark').content == "[exit code 0]"
    held.release()  # there it still is


def test_ctrl_c_ends_it(tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    text = late_when_ready(monkeypatch)
    wait = shell_command._Command.wait

    def news(running: Any, seconds: Any) -> str:
        wait(running, seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr(shell_command._Command, "wait", news)
    with pytest.raises(KeyboardInterrupt):
        run(command_tool(tmp_path), WAITS, text)
    held.wait()


def test_a_call_that_is_cancelled_already_runs_nothing(tmp_path: Path) -> None:
    context: ToolContext[Any] = ToolContext(tool="run_command")
    context.cancellation.cancel()
    tool = command_tool(tmp_path)
    with pytest.raises(TurnCancelled):
        tool.run(tool.read({"command": "touch made"}).value, context)
    assert not names(tmp_path)


@pytest.mark.parametrize("command", [WAITS, f"trap '' TERM; {WAITS}"])
def test_a_turn_that_is_cancelled_ends_it(
    engine_api: EngineAPI, tmp_path: Path, held: Held, little_grace: None, command: str
) -> None:
    calls = call("1", "run_command", f'{{"command": "{command}"}}')
    engine = Engine(ScriptedLLM(calls, "Done."), [command_tool(tmp_path)])
    threads: list[threading.Thread] = []

    def watch(stream: Any, event: Any) -> None:
        if isinstance(event, ToolProgress):
            assert (event.name, event.data) == ("run_command", "ready\n")
            threads.append(threading.Thread(target=engine.cancel))
            threads[-1].start()

    text = engine_api.stream(engine, "Go", watch=watch)
    held.wait()
    assert isinstance(text.error, TurnCancelled)
    check(engine)
    (result,) = results(engine.history)
    assert result.is_error and result.content.startswith("run_command was cancelled while it ran")
    for thread in threads:
        thread.join()


def test_the_time_of_the_engine_ends_it(engine_api: EngineAPI, tmp_path: Path, held: Held) -> None:
    tool = command_tool(tmp_path).with_(timeout=0.05)
    engine = Engine(ScriptedLLM(call("1", "run_command", f'{{"command": "{WAITS}"}}'), "Done."), [tool])
    (result,) = results(engine_api.submit(engine, "Go").messages)
    assert result.content.startswith("run_command took longer than 0.05 seconds")
    held.wait()


def test_where_there_are_no_groups(
    tmp_path: Path, held: Held, monkeypatch: pytest.MonkeyPatch, process: Process, little_grace: None
) -> None:
    text = late_when_ready(monkeypatch)
    process.lacks("killpg")
    process.lacks("waitid")
    output = run(command_tool(tmp_path), f"{WAITS}; true", text)
    assert output.content == "ready\n[stopped: it took longer than 120 seconds]"
    assert output.raw_output == -signal.SIGKILL
    held.release()  # what the shell has started is left there
    held.wait()


def test_where_the_system_clears_processes_away(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert run(command_tool(tmp_path), "echo one").content == "one\n[exit code 0]"
    finally:
        signal.signal(signal.SIGCHLD, before)


# The tool.


def test_what_the_tool_says_of_itself(tmp_path: Path) -> None:
    tool = command_tool(tmp_path, timeout=5)
    assert tool.destructive and not (tool.read_only or tool.idempotent or tool.runs_in_parallel)
    assert tool.timeout == 11 and tool.output_limit == 30_500
    assert list(tool.parameters["properties"]) == ["command"] and "It has 5 seconds." in tool.description
    tool = command_tool(tmp_path, timeout=None)
    assert tool.timeout is None and "seconds" not in tool.description
    assert run(tool, "echo one").content == "one\n[exit code 0]"


@pytest.mark.parametrize(
    ("mode", "ran"),
    [("plan", "denied"), ("auto", "asked"), ("accept_edits", "asked"), ("default", "asked"), ("bypass", "ran")],
)
def test_what_runs_in_each_mode(engine_api: EngineAPI, tmp_path: Path, mode: Mode, ran: str) -> None:
    permissions = Permissions(mode, approve="later", root=str(tmp_path))
    engine = Engine(
        ScriptedLLM(call("1", "run_command", '{"command": "touch made"}'), "Done."),
        [command_tool(tmp_path)],
        permissions=permissions,
    )
    turn = engine_api.submit(engine, "Go")
    assert bool(turn.pending) == (ran == "asked") and names(tmp_path) == (["made"] if ran == "ran" else [])
    if turn.pending:
        engine_api.submit(engine, answers=[request.allow() for request in turn.pending])
        assert names(tmp_path) == ["made"]


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("echo one", True),
        ("echo one; rm made", False),
        ("echo $(rm made)", False),
        ("cat .env", False),
        ("rm x", False),
    ],
)
def test_rules_look_into_the_command(tmp_path: Path, command: str, runs: bool) -> None:
    (tmp_path / "made").touch()
    permissions = Permissions(rules=[Rule("run_command", "allow", {"command": "echo"})], root=str(tmp_path))
    llm = ScriptedLLM(call("1", "run_command", f'{{"command": "{command}"}}'), "Done.")
    engine = Engine(llm, [command_tool(tmp_path)], permissions=permissions)
    (result,) = results(engine.submit("Go").messages)
    assert result.is_error != runs and names(tmp_path) == ["made"]
