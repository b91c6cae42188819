"""What a person sees of a run: lines on stdout, and on a terminal a bar below them.

Both hear of the events of the log. The lines are the same for a terminal and for a file; the bar is rich's, on stderr,
and is not there where rich is not installed, or where stderr is no terminal that can draw one. What a model has written
is shown, never obeyed. Whoever reads the lines may leave: the run goes on.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TextIO

from ...terminal_text import visible
from ..cli_errors import command_words

if TYPE_CHECKING:
    from ...experiments.log_events import LogEvent
    from ...experiments.operators import OperatorChannel

_RAISED: Final = ("llm", "failure")  # errors that end the run, which the command tells


class Bar(Protocol):
    """A bar below the lines."""

    def hear(self, event: LogEvent) -> None:
        """Show what has happened."""
        ...

    def print(self, text: str) -> None:
        """Write a line above the bar."""
        ...

    def stop(self) -> None:
        """Leave the bar as it is, for somebody else to write."""
        ...

    def start(self) -> None:
        """Draw the bar, again."""
        ...


class RunView:
    """The lines of a run, and its bar, if there is one. `quiet`: neither."""

    def __init__(self, stdout: TextIO, stderr: TextIO, bar: Bar | None = None, *, quiet: bool = False) -> None:
        self.bar: Bar | None = None if quiet else bar
        self.cycles_ended: int = 0
        self.has_begun: bool = False
        self.is_quiet: bool = quiet
        self._stdout: TextIO | None = None if quiet else stdout
        self._stderr = stderr

    def hear(self, event: LogEvent) -> None:
        """Show what has happened in the one run there is."""
        self._hear(event, "")

    def hear_of(self, run_id: str, event: LogEvent) -> None:
        """Show what has happened in one of several runs."""
        self._hear(event, f"{run_id}: ")

    def _hear(self, event: LogEvent, whose: str) -> None:
        self.has_begun = True
        match event.event_type:
            case "RUN_START" if event.payload.get("resumed"):
                self.say(f"{whose}Going on with cycle {event.payload.get('first_cycle')}...")
            case "CYCLE_START":
                self.say(f"{whose}Cycle {event.cycle_number} starting...")
            case "CYCLE_END":
                self.cycles_ended += 1
                self.say(f"{whose}Cycle {event.cycle_number} finished.")
            case "ERROR" if whose or event.payload.get("kind") not in _RAISED:
                self._warn(f"{whose}Cycle {event.cycle_number}: {command_words(event.payload.get('message'))}")
            case _:
                pass
        if self.bar is not None:
            self.bar.hear(event)

    def say(self, text: str) -> None:
        """Write lines to stdout, now."""
        if self._stdout is None:
            return
        if self.bar is not None and self._stdout.isatty():
            self.bar.print(visible(text))  # stdout and stderr are one screen
            return
        try:
            print(visible(text), file=self._stdout, flush=True)
        except BrokenPipeError:
            self._stdout = None

    def _warn(self, text: str) -> None:
        if self.bar is not None:
            self.bar.print(visible(text))
        else:
            print(visible(text), file=self._stderr, flush=True)

    @contextmanager
    def drawn(self) -> Generator[None]:
        """Have the bar drawn meanwhile."""
        if self.bar is None:
            yield
            return
        self.bar.start()
        try:
            yield
        finally:
            self.bar.stop()


class InterruptedBar:
    """An operator for whom the bar makes room: nothing is drawn where a person types."""

    def __init__(self, operator: OperatorChannel, bar: Bar) -> None:
        self._operator = operator
        self._bar = bar

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        """The operator's answer."""
        self._bar.stop()
        try:
            return self._operator.send_and_wait(message, run_id, cycle_number)
        finally:
            self._bar.start()


def bar_on(
    stream: TextIO, cycles: int, *, runs: int = 1, done: int = 0, environ: Mapping[str, str] = os.environ
) -> Bar | None:
    """A bar on `stream` for the `cycles` of so many `runs`, of which so many are `done`.

    None where the stream is no terminal that draws one, or rich is not there.
    """
    if not stream.isatty() or environ.get("TERM", "dumb") == "dumb":
        return None
    try:
        from .rich_bar import RichBar
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        return None
    return RichBar(stream, cycles, runs, done)
