"""operators.py: the terminal as streams, pipes and a pseudo-terminal, and no operator."""

from __future__ import annotations

import io
import signal
import subprocess
import sys

import pexpect
import pytest

from support import warm_python
from support.process import Process
from toolcast.experiments.operators import TerminalOperator, UnattendedOperator

posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes that are waited for, and terminals")
PATIENCE = 30


# The terminal.


def test_x11_the_message_and_the_prompt_are_written_and_the_line_is_returned() -> None:
    screen = io.StringIO()
    operator = TerminalOperator(io.StringIO("  to be \t\n\nlast"), screen)
    assert [operator.send_and_wait("What now?", "run_1", 4) for _ in range(3)] == ["  to be \t", "", "last"]
    assert screen.getvalue() == "[AGENT - run_1 | Cycle 4]: What now?\n[OPERATOR]: " * 3


def test_x11_the_end_of_the_input_is_a_connection_error() -> None:
    screen = io.StringIO()
    operator = TerminalOperator(io.StringIO(""), screen)
    for _ in range(2):
        with pytest.raises(ConnectionError, match="the operator's input has ended, so that no answer is possible"):
            operator.send_and_wait("m", "r", 1)
    assert screen.getvalue() == "[AGENT - r | Cycle 1]: m\n[OPERATOR]: \n" * 2


def test_the_streams_are_those_of_the_process_at_that_moment(
    process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = TerminalOperator()
    for line in ("one", "two"):
        process.stdin(f"{line}\n")
        assert operator.send_and_wait("m", "r", 1) == line
    assert capsys.readouterr().out == "[AGENT - r | Cycle 1]: m\n[OPERATOR]: " * 2


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_a_program_without_a_console_has_no_operator(stream: str, process: Process) -> None:
    process.stdin("line\n")
    process.stream(stream, None)
    with pytest.raises(ConnectionError, match="the operator's"):
        TerminalOperator().send_and_wait("m", "r", 1)


@pytest.mark.parametrize("stream", [0, 1])
def test_a_closed_stream_is_a_connection_error(stream: int) -> None:
    streams = io.StringIO("line\n"), io.StringIO()
    streams[stream].close()
    with pytest.raises(ConnectionError, match="the operator's terminal cannot be used: I/O operation on closed file"):
        TerminalOperator(*streams).send_and_wait("m", "r", 1)


def test_a_connection_that_breaks_is_raised_as_it_is() -> None:
    class Broken(io.StringIO):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError("the reader is gone")

    with pytest.raises(BrokenPipeError, match="the reader is gone"):
        TerminalOperator(io.StringIO("line\n"), Broken()).send_and_wait("m", "r", 1)


def test_what_the_agent_writes_does_not_control_the_terminal() -> None:
    screen = io.StringIO()
    TerminalOperator(io.StringIO("\n"), screen).send_and_wait("\x1b[2J\x07a\u202eb\r\nc\td", "r\x1b]0;", 1)
    assert screen.getvalue() == ("[AGENT - r\\x1b]0; | Cycle 1]: \\x1b[2J\\x07a\\u202eb\nc\td\n[OPERATOR]: ")


def test_what_the_terminal_cannot_show_is_named() -> None:
    raw = io.BytesIO()
    screen = io.TextIOWrapper(raw, encoding="ascii")
    TerminalOperator(io.StringIO("\n"), screen).send_and_wait("é \ud800", "r", 1)
    assert raw.getvalue() == b"[AGENT - r | Cycle 1]: \\xe9 \\ud800\n[OPERATOR]: "


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_is_a_time(timeout: float) -> None:
    with pytest.raises(ValueError, match="is no time to wait: give seconds, or None for ever"):
        TerminalOperator(timeout=timeout)


ASKING = """
import sys
from toolcast.experiments.operators import TerminalOperator
operator = TerminalOperator(timeout=None if sys.argv[2] == "None" else float(sys.argv[2]))
for number in range(int(sys.argv[1])):
    try:
        print(ascii(operator.send_and_wait(f"question {number}", "run_1", number)), flush=True)
    except (ConnectionError, TimeoutError) as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    except KeyboardInterrupt:
        print("Ctrl-C", flush=True)
"""


def test_answers_come_through_a_pipe() -> None:
    ended = warm_python.run(
        [sys.executable, "-c", ASKING, "3", "None"], input="one\ntwo\n", capture_output=True, text=True, check=True
    )
    assert ended.stdout == (
        "[AGENT - run_1 | Cycle 0]: question 0\n[OPERATOR]: 'one'\n"
        "[AGENT - run_1 | Cycle 1]: question 1\n[OPERATOR]: 'two'\n"
        "[AGENT - run_1 | Cycle 2]: question 2\n[OPERATOR]: \n"
        "ConnectionError: the operator's input has ended, so that no answer is possible\n"
    )


@posix
def test_where_no_one_types_the_time_runs_out() -> None:
    with warm_python.Popen(
        [sys.executable, "-c", ASKING, "2", "0.2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        lines = [process.stdout.readline() for _ in range(6)]
        process.stdin.close()
    assert lines[1::3] == ["[OPERATOR]: \n"] * 2
    assert lines[2::3] == ["TimeoutError: there was no answer within 0.2 seconds\n"] * 2


@posix
def test_a_person_at_a_terminal() -> None:
    child = pexpect.spawn(sys.executable, ["-c", ASKING, "5", "None"], encoding="utf-8", timeout=PATIENCE)
    child.delaybeforesend = None
    try:
        child.expect_exact("[AGENT - run_1 | Cycle 0]: question 0\r\n[OPERATOR]: ")
        child.send("hello w\x7fthere\r")
        child.expect_exact("'hello there'\r\n")
        child.expect_exact("question 1\r\n[OPERATOR]: ")
        child.send("\r")
        child.expect_exact("''\r\n")
        child.expect_exact("question 2\r\n[OPERATOR]: ")
        child.send("half a line\x03")
        child.expect_exact("\nCtrl-C\r\n")
        child.expect_exact("question 3\r\n[OPERATOR]: ")
        child.send("ünïcode\r")
        child.expect_exact("'\\xfcn\\xefcode'\r\n")
        child.expect_exact("question 4\r\n[OPERATOR]: ")
        child.send("\x04")
        child.expect_exact("ConnectionError: the operator's input has ended")
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)


@posix
def test_ctrl_c_ends_a_program_that_asks() -> None:
    code = ASKING.replace("except KeyboardInterrupt", "except ZeroDivisionError")
    child = pexpect.spawn(sys.executable, ["-c", code, "1", "60"], encoding="utf-8", timeout=PATIENCE)
    child.delaybeforesend = None
    try:
        child.expect_exact("[OPERATOR]: ")
        child.send("\x03")
        child.expect_exact("KeyboardInterrupt")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 130 or child.signalstatus == signal.SIGINT
    finally:
        child.close(force=True)


# No operator.


def test_no_one_answers() -> None:
    with pytest.raises(ConnectionError, match="no operator attends this run: go on alone"):
        UnattendedOperator().send_and_wait("m", "r", 1)


@pytest.mark.parametrize("answer", ["go on", ""])
def test_a_fixed_answer(answer: str) -> None:
    assert UnattendedOperator(answer).send_and_wait("m", "r", 1) == answer
