"""The progress of a run on screen: lines on stdout, and below them a bar if stderr is a terminal.

Both are drawn from the events of the log. The lines are the same on a terminal and in a file; the bar needs rich. Text
from a model is escaped before it is printed. A closed stdout does not stop the run.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TextIO

from ...terminal_text import visible
from ..output import command_line_text

if TYPE_CHECKING:
    from ...experiments.log_events import LogEvent
    from ...experiments.operators import OperatorChannel

_REPORTED_BY_COMMAND: Final = ("llm", "failure")  # errors that end the run: the command prints them


class Bar(Protocol):
    """A progress bar below the lines."""

    def on_event(self, event: LogEvent) -> None:
        """Update the bar for an event of the log."""
        ...

    def print(self, text: str) -> None:
        """Write a line above the bar."""
        ...

    def stop(self) -> None:
        """Stop drawing and leave the bar as it is, so that other text can follow."""
        ...

    def start(self) -> None:
        """Start or resume drawing."""
        ...


class RunView:
    """The lines of a run, and its bar, if there is one. With `quiet`, neither is shown."""

    def __init__(self, stdout: TextIO, stderr: TextIO, bar: Bar | None = None, *, quiet: bool = False) -> None:
        self.bar: Bar | None = None if quiet else bar
        self.cycles_ended: int = 0
        self.has_begun: bool = False
        self.is_quiet: bool = quiet
        self._stdout: TextIO | None = None if quiet else stdout
        self._stderr = stderr

    def on_event(self, event: LogEvent) -> None:
        """Show an event of a single run."""
        self._show_event(event, "")

    def on_grid_event(self, run_id: str, event: LogEvent) -> None:
        """Show an event of one run of a grid, with the run's id."""
        self._show_event(event, f"{run_id}: ")

    def _show_event(self, event: LogEvent, prefix: str) -> None:
        self.has_begun = True
        match event.event_type:
            case "RUN_START" if event.payload.get("resumed"):
                self.print(f"{prefix}Resuming with cycle {event.payload.get('first_cycle')}...")
            case "CYCLE_START":
                self.print(f"{prefix}Cycle {event.cycle_number} starting...")
            case "CYCLE_END":
                self.cycles_ended += 1
                self.print(f"{prefix}Cycle {event.cycle_number} finished.")
            case "ERROR" if prefix or event.payload.get("kind") not in _REPORTED_BY_COMMAND:
                self._warn(f"{prefix}Cycle {event.cycle_number}: {command_line_text(event.payload.get('message'))}")
            case _:
                pass
        if self.bar is not None:
            self.bar.on_event(event)

    def print(self, text: str) -> None:
        """Write lines to stdout and flush it."""
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
    def show_bar(self) -> Generator[None]:
        """Draw the bar inside the `with` block."""
        if self.bar is None:
            yield
            return
        self.bar.start()
        try:
            yield
        finally:
            self.bar.stop()


class BarPausingOperator:
    """An operator that hides the bar while a person types an answer."""

    def __init__(self, operator: OperatorChannel, bar: Bar) -> None:
        self._operator = operator
        self._bar = bar

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        """Stop the bar, return the operator's answer, and start the bar again."""
        self._bar.stop()
        try:
            return self._operator.send_and_wait(message, run_id, cycle_number)
        finally:
            self._bar.start()


def make_bar(
    stream: TextIO, cycles: int, *, runs: int = 1, done: int = 0, environ: Mapping[str, str] = os.environ
) -> Bar | None:
    """Return a bar on `stream`, or None if `stream` is no terminal that can draw one, or rich is not installed.

    Args:
        stream: The terminal.
        cycles: The number of cycles of all runs.
        runs: The number of runs.
        done: The number of cycles that have ended before.
        environ: The environment variables; `TERM=dumb` means no bar.
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
