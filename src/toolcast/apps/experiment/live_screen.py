"""The screen of `toolcast experiment watch`: drawn in place on the terminal's second screen. Needs rich."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TextIO

from rich.console import Console
from rich.live import Live

from ...experiments.log_reading import LogMissing
from .rich_bar import drawn
from .run_screen import Line, one_line

_POLL: Final = 0.25
_HINT: Final = "Ctrl-C leaves the view; the run goes on."


class WatchedRuns(Protocol):
    """Runs whose logs are read while they are written."""

    def poll(self) -> None:
        """Read what was added to the logs. Raises `LogError` for a log that cannot be read."""
        ...

    @property
    def missing(self) -> LogMissing | None:
        """The error that there is nothing to show yet."""
        ...

    @property
    def exit_code(self) -> int | None:
        """None while a run goes on, or else 0 if all are completed, and 1."""
        ...

    def lines(self, width: int, height: int, now: float) -> list[Line]:
        """Return the lines to show."""
        ...


def watch_runs(watched: WatchedRuns, stream: TextIO, sleep: Callable[[float], object] = time.sleep) -> int:
    """Draw the runs until they have ended, leave the last picture on the terminal, and return the exit code.

    Raises:
        LogError: A log cannot be read.
        KeyboardInterrupt: The user has left, by Ctrl-C.
    """
    console = Console(file=stream, highlight=False)
    try:
        with Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False) as live:
            while True:
                watched.poll()
                live.update(drawn(_screen(watched, console), console), refresh=True)
                if (code := watched.exit_code) is not None:
                    return code
                sleep(_POLL)
    finally:
        if watched.missing is None:
            console.print(drawn(watched.lines(console.width, console.height, time.time()), console))


def _screen(watched: WatchedRuns, console: Console) -> Sequence[Line]:
    """Return the lines of the screen, with a hint below them if it fits."""
    width, height = console.width, console.height
    if (missing := watched.missing) is not None:
        text = textwrap.wrap(f"Waiting: {one_line(str(missing))}", width)
        return [*([(line, "cyan")] for line in text), [], [(_HINT, "dim")]]
    lines = watched.lines(width, height, time.time())
    return [*lines, [], [(_HINT, "dim")]] if len(lines) + 2 <= height else lines
