"""Channels between an agent and its human operator.

A channel is one blocking call; the tool (experiment_tools.py) keeps it off the event loop, and cancels the handle
(transport/cancel_handle.py) of a call that was given up. A missing operator is a `ConnectionError`, an answer that does
not come in time a `TimeoutError`; both become texts for the agent and do not end the run.

Line input from a terminal, a pipe or a stream, with a timeout, one line for each question.

Where the system can wait for input (a terminal, a pipe or a file, on POSIX) the descriptor itself is read, past the
stream's own buffer; so no other code should read it meanwhile. Any other stream is read in a thread, which goes on
reading when a question is given up, and serves the next one.

Input from before a question is not its answer. On a terminal that is everything typed before. In a pipe the answers may
be written in advance; there only late input is discarded: all that is available when the next question is asked, and
the rest of a line that had begun.

A cancelled handle (transport/cancel_handle.py) ends the waiting within a tenth of a second.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import Final, Protocol, TextIO

from ..async_support.background_jobs import BackgroundJob, start_job
from ..text.reprs import safe_repr
from ..text.terminal_text import visible
from ..transport.cancel_handle import current_handle

_SLICE: Final = 0.1  # seconds until a broken line is noticed
_MOST: Final = 1 << 20  # bytes of a line
_DRAINED: Final = 1 << 24  # bytes that may have come too late


class LineSource(Protocol):
    """A source of lines.

    Raises `EOFError` at the end, and `OSError` or `ValueError` if the input cannot be read.
    """

    def begin(self) -> None:
        """Discard input that cannot be an answer to the next question."""
        ...

    def next(self, seconds: float | None) -> str:
        """Return the next line without its end.

        Raises `TimeoutError` after so many seconds, and `ConnectionError` if the call was cancelled.
        """
        ...


def line_source(stream: TextIO) -> LineSource:
    """Return the line source of `stream`."""
    try:
        descriptor = stream.fileno() if os.name == "posix" else None
    except (OSError, AttributeError):  # in memory, or not quite a stream
        descriptor = None
    if descriptor is None:
        return StreamLines(stream)
    return DescriptorLines(descriptor, getattr(stream, "encoding", None) or "utf-8")


class DescriptorLines:
    """Lines of a file descriptor that can be polled."""

    def __init__(self, descriptor: int, encoding: str = "utf-8") -> None:
        self.descriptor: int = descriptor
        self._encoding = encoding
        self._rest = b""
        self._late = False
        self._skips = False

    def begin(self) -> None:
        """Discard input that cannot be an answer to the next question."""
        if os.isatty(self.descriptor):
            _flush(self.descriptor)
            self._rest = b""
        elif self._late:
            self._drain()
        self._late = False

    def next(self, seconds: float | None) -> str:
        """Return the next line without its end; see `LineSource`."""
        self._late = True
        wait = _Wait(seconds)
        if self._skips:
            self._line(wait)
            self._skips = False
        line = self._line(wait)
        self._late = False
        return line.removesuffix(b"\r").decode(self._encoding, "replace")

    def _line(self, wait: _Wait) -> bytes:
        while b"\n" not in self._rest and len(self._rest) < _MOST:
            wait.until(self._is_ready)
            if not (data := os.read(self.descriptor, 65536)):
                if not self._rest:
                    raise EOFError("the input has ended")
                break
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _is_ready(self, seconds: float | None) -> bool:
        return bool(select.select([self.descriptor], [], [], seconds)[0])

    def _drain(self) -> None:
        drained = 0
        while drained < _DRAINED and self._is_ready(0) and (data := os.read(self.descriptor, 65536)):
            drained += len(data)
            self._rest = data
        if self._rest:
            self._skips = not self._rest.endswith(b"\n")
        self._rest = b""


class StreamLines:
    """Lines of any stream, read in a thread."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._reading: _Reading | None = None

    def begin(self) -> None:
        """Discard input that cannot be an answer to the next question."""
        if self._reading is not None and self._reading.job.done:
            self._reading = None

    def next(self, seconds: float | None) -> str:
        """Return the next line without its end; see `LineSource`."""
        reading = self._reading = self._reading or _Reading(self._stream)
        _Wait(seconds).until(reading.job.wait)
        self._reading = None
        return reading.line()


class _Reading:
    """A line that a thread is reading."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._read = ""
        self.job: BackgroundJob = start_job(self._work, concurrent=False, name="the operator's line")

    def line(self) -> str:
        """Return the line that was read, or raise the error of reading."""
        if self.job.error is not None:
            raise self.job.error
        if not self._read:
            raise EOFError("the input has ended")
        return self._read.removesuffix("\n").removesuffix("\r")

    async def _work(self) -> None:
        self._read = self._stream.readline()


class _Wait:
    """A wait for a line with a timeout of so many `seconds`."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._until = None if seconds is None else monotonic() + seconds
        self._handle = current_handle()

    def until(self, ready: Callable[[float | None], bool]) -> None:
        """Call `ready(timeout)` until it returns true, the time is up or the call is cancelled."""
        while not ready(self._slice()):
            if self._until is not None and monotonic() >= self._until:
                raise TimeoutError(f"there was no answer within {self._seconds:g} seconds")
            if self._handle is not None and self._handle.broken:
                raise ConnectionError("the question was taken back")

    def _slice(self) -> float | None:
        left = None if self._until is None else max(0.0, self._until - monotonic())
        if self._handle is None:
            return left
        return _SLICE if left is None else min(left, _SLICE)


def _flush(terminal: int) -> None:
    """Discard the terminal's input that was typed and not read."""
    import termios

    termios.tcflush(terminal, termios.TCIFLUSH)


class OperatorChannel(Protocol):
    """A channel to the operator; implement this one method for your own.

    It may be called from any thread, by one agent at a time. `run_id` and `cycle_number` identify the sender: "unknown"
    and 0 outside of an experiment.
    """

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        """Send the message and return the operator's answer.

        Raises `ConnectionError` or `TimeoutError` if there is none.
        """
        ...


def announced(message: str, run_id: str, cycle_number: int) -> str:
    """Format the message for an operator: `[AGENT - <run_id> | Cycle <n>]: message`."""
    return f"[AGENT - {run_id} | Cycle {cycle_number}]: {message}"


class UnattendedOperator:
    """A channel without an operator: every message gets the fixed `answer`, or an error without one."""

    def __init__(self, answer: str | None = None) -> None:
        self.answer: str | None = answer

    @safe_repr
    def __repr__(self) -> str:
        return f"UnattendedOperator({self.answer!r})"

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        """Return the fixed answer. Raises `ConnectionError` if there is none."""
        if self.answer is None:
            raise ConnectionError("no operator attends this run: go on alone, and do not ask again")
        return self.answer


class TerminalOperator:
    """The operator at the terminal, or a program that writes to standard input: one line is one answer.

    `stdin` and `stdout` default to the process's own. `timeout` is in seconds; None waits for ever. Control characters
    in the agent's messages are escaped.
    """

    def __init__(self, stdin: TextIO | None = None, stdout: TextIO | None = None, timeout: float | None = None) -> None:
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout={timeout!r} is no time to wait: give seconds, or None for ever")
        self.timeout: float | None = timeout
        self._stdin, self._stdout = stdin, stdout
        self._source: tuple[TextIO, LineSource] | None = None
        self._lock = Lock()

    @safe_repr
    def __repr__(self) -> str:
        return f"TerminalOperator(timeout={self.timeout})"

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        """Return the next line without its line end. Raises `ConnectionError` at the end of the input."""
        shown = visible(announced(message, run_id, cycle_number))
        with self._lock:
            try:
                typed = self._typed()
                typed.begin()
                self._write(f"{shown}\n[OPERATOR]: ")
                return self._answer(typed)
            except (TimeoutError, ConnectionError):
                raise
            except EOFError:
                raise ConnectionError("the operator's input has ended, so that no answer is possible") from None
            except (OSError, ValueError) as error:  # the second: a stream that was closed
                raise ConnectionError(f"the operator's terminal cannot be used: {error}") from error

    def _answer(self, typed: LineSource) -> str:
        answered = False
        try:
            line = typed.next(self.timeout)
            answered = True
            return line
        finally:
            if not answered:  # the prompt is not to stand before what is written next
                with suppress(OSError, ValueError):
                    self._write("\n")

    def _typed(self) -> LineSource:
        # Looked up each time: a program may put another stream in the place of the process's own.
        stream = self._stdin or sys.stdin
        if not stream:  # a program without a console has none
            raise EOFError
        if self._source is None or self._source[0] is not stream:
            self._source = stream, line_source(stream)
        return self._source[1]

    def _write(self, text: str) -> None:
        stream = self._stdout or sys.stdout
        if not stream:
            raise OSError("there is nothing to write to")
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
