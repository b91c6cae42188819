"""The progress of runs on screen: lines on stdout, and below them a bar if stderr is a terminal.

Both are drawn from the events of the log. Without a bar, each cycle ends with a line of figures; the bar needs rich.
Text from a model is escaped before it is printed. A closed stdout does not stop the run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TextIO

from ...experiments.run_progress import RunProgress
from ...text.live_display import can_redraw
from ...text.terminal_text import visible
from ..output import command_line_text
from .run_screen import cycle_text

if TYPE_CHECKING:
    from ...experiments.log_events import LogEvent
    from ...experiments.operators import OperatorChannel
    from .live_screen import RichBar

_REPORTED_BY_COMMAND: Final = ("llm", "failure")  # errors that end the run: the command prints them


class RunView:
    """The lines of runs, and their bar, if there is one. With `quiet`, neither is shown.

    Args:
        stdout: The stream of the lines.
        stderr: The stream of errors.
        bar: The bar, which shows the same `runs`.
        quiet: Show errors only.
        runs: The runs, to which the events are added; others are added to them.
        now: The clock of the log's timestamps, in seconds since 1970.
    """

    def __init__(
        self,
        stdout: TextIO,
        stderr: TextIO,
        bar: RichBar | None = None,
        *,
        quiet: bool = False,
        runs: Sequence[RunProgress] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self.bar: RichBar | None = None if quiet else bar
        self.cycles_ended: int = 0
        self.has_begun: bool = False
        self.without_reflection: list[str] = []
        self.is_quiet: bool = quiet
        self._runs = {run.run_id: run for run in runs}
        self._now = now
        self._stdout: TextIO | None = None if quiet else stdout
        self._stderr = stderr

    def on_event(self, event: LogEvent) -> None:
        """Show an event of a single run."""
        self._show_event(event, event.run_id, "")

    def on_grid_event(self, run_id: str, event: LogEvent) -> None:
        """Show an event of one run of a grid, with the run's id."""
        self._show_event(event, run_id, f"{run_id}: ")

    def _show_event(self, event: LogEvent, run_id: str, prefix: str) -> None:
        self.has_begun = True
        run = self._runs.setdefault(run_id, RunProgress(run_id))
        run.apply(event)
        match event.event_type:
            case "RUN_START" if event.payload.get("resumed"):
                self.print(f"{prefix}Resuming with cycle {event.payload.get('first_cycle')}...")
            case "CYCLE_START":
                self.print(f"{prefix}Cycle {event.cycle_number} starting...")
            case "CYCLE_END":
                self.cycles_ended += 1
                self.print(f"{prefix}Cycle {event.cycle_number} finished.")
                if not str(event.payload.get("final_reflection") or "").strip():
                    self.without_reflection.append(f"{prefix}{event.cycle_number}")
                if self.bar is None:
                    self.print(f"{prefix or '  '}{cycle_text(run, self._now())}")
            case "ERROR" if prefix or event.payload.get("kind") not in _REPORTED_BY_COMMAND:
                self.warn(f"{prefix}Cycle {event.cycle_number}: {command_line_text(event.payload.get('message'))}")
            case _:
                pass
        if self.bar is not None:
            self.bar.draw()

    def report_lost(self) -> bool:
        """Write which cycles have ended without a final reflection, and return whether there are any."""
        if lost := self.without_reflection:
            self.warn(
                f"{len(lost)} of {self.cycles_ended} cycles ended without a final reflection: {', '.join(lost)}. "
                "The log has what the model wrote; allow more (limits.max_steps, num_predict), or use a larger model"
            )
        return bool(lost)

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

    def warn(self, text: str) -> None:
        """Write lines to stderr, above the bar if there is one."""
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

    def __init__(self, operator: OperatorChannel, bar: RichBar) -> None:
        self._operator = operator
        self._bar = bar

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        """Stop the bar, return the operator's answer, and start the bar again."""
        self._bar.stop()
        try:
            return self._operator.send_and_wait(message, run_id, cycle_number)
        finally:
            self._bar.start()


def make_bar(stream: TextIO, runs: Sequence[RunProgress], *, environ: Mapping[str, str] = os.environ) -> RichBar | None:
    """Return a bar on `stream`, or None if `stream` is no terminal that can draw one, or rich is not installed.

    Args:
        stream: The terminal.
        runs: The runs that it shows.
        environ: The environment variables; `TERM=dumb` means no bar.
    """
    if not can_redraw(stream, environ) or find_spec("rich") is None:
        return None
    from .live_screen import RichBar

    return RichBar(stream, runs)
