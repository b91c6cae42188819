"""The human operator of an experiment, and how a message of the agent reaches them: a channel.

A channel is one blocking call; the tool (agent_tools.py) sees to it that no event loop stands still meanwhile, and
cuts the line (transport/cancel_handle.py) of a call that was given up. Nobody there is a `ConnectionError`, an answer
that does not come in time a `TimeoutError`, and the agent is told so: no run ends by it.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from threading import Lock
from typing import Protocol, TextIO

from ..terminal_text import visible
from .line_input import TypedLines, typed_lines


class OperatorChannel(Protocol):
    """A way to the operator. Bring your own by this one method.

    It may be called from any thread, by one agent at a time. `run_id` and `cycle_number` say who is speaking:
    "unknown" and 0 outside of an experiment.
    """

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        """The operator's answer, as it was given. Raises `ConnectionError` or `TimeoutError` where there is none."""
        ...


def announced(message: str, run_id: str, cycle_number: int) -> str:
    """The message as an operator reads it: `[AGENT - <run_id> | Cycle <n>]: message`."""
    return f"[AGENT - {run_id} | Cycle {cycle_number}]: {message}"


class UnattendedOperator:
    """Nobody: every message gets the same `answer`, or, without one, the agent is told that nobody is there."""

    def __init__(self, answer: str | None = None) -> None:
        self.answer: str | None = answer

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        """The fixed answer. Raises `ConnectionError` where there is none."""
        if self.answer is None:
            raise ConnectionError("no operator attends this run: go on alone, and do not ask again")
        return self.answer


class TerminalOperator:
    """The person at the terminal, or whatever writes into the process: one line is one answer.

    `stdin` and `stdout` are the process's own if they are not given. `timeout`: seconds to wait for an answer; None:
    for ever. What the agent writes cannot control the terminal.
    """

    def __init__(self, stdin: TextIO | None = None, stdout: TextIO | None = None, timeout: float | None = None) -> None:
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout={timeout!r} is no time to wait: give seconds, or None for ever")
        self.timeout: float | None = timeout
        self._stdin, self._stdout = stdin, stdout
        self._source: tuple[TextIO, TypedLines] | None = None
        self._lock = Lock()

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        """The line that is typed, without its end. Raises `ConnectionError` at the end of the input."""
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
                raise ConnectionError("the operator's input has ended: nobody can answer any more") from None
            except (OSError, ValueError) as error:  # the second: a stream that was closed
                raise ConnectionError(f"the operator's terminal cannot be used: {error}") from error

    def _answer(self, typed: TypedLines) -> str:
        answered = False
        try:
            line = typed.next(self.timeout)
            answered = True
            return line
        finally:
            if not answered:  # the prompt is not to stand before what is written next
                with suppress(OSError, ValueError):
                    self._write("\n")

    def _typed(self) -> TypedLines:
        # Looked up each time: a program may put another stream in the place of the process's own.
        stream = self._stdin or sys.stdin
        if not stream:  # a program without a console has none
            raise EOFError
        if self._source is None or self._source[0] is not stream:
            self._source = stream, typed_lines(stream)
        return self._source[1]

    def _write(self, text: str) -> None:
        stream = self._stdout or sys.stdout
        if not stream:
            raise OSError("there is nothing to write to")
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
