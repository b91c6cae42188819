"""Channels between an agent and its human operator.

A channel is one blocking call; the tool (experiment_tools.py) keeps it off the event loop, and cancels the handle
(transport/cancel_handle.py) of a call that was given up. A missing operator is a `ConnectionError`, an answer that does
not come in time a `TimeoutError`; both become texts for the agent and do not end the run.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from threading import Lock
from typing import Protocol, TextIO

from ..reprs import safe_repr
from ..terminal_text import visible
from .line_input import LineSource, line_source


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
