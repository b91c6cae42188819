"""Runs that are drawn in place, by rich: the bar below the lines of a run, and the screen of `watch`.

The bar has cycles, tokens per second, time left, and the state of each run.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ...experiments.log_reading import LogMissing
from ...experiments.run_progress import RunProgress
from .run_screen import Line, encodable, grid_lines, one_line, run_lines

_PER_SECOND: Final = 4
_HINT: Final = "Ctrl-C leaves the view; the run goes on."


class RichBar:
    """The progress of `runs` on `stream`, several of them in a row each.

    `now` is the clock of the log's timestamps, in seconds since 1970.
    """

    def __init__(self, stream: TextIO, runs: Sequence[RunProgress], now: Callable[[], float] = time.time) -> None:
        self._runs = runs
        self._now = now
        self._console = Console(file=stream)
        self._live = self._new_live()

    def draw(self) -> None:
        """Draw the bar anew, after a change of its runs."""
        self._live.refresh()

    def print(self, text: str) -> None:
        """Write a line above the bar."""
        self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def stop(self) -> None:
        """Stop drawing and leave the bar as it is, so that other text can follow."""
        self._live.stop()

    def start(self) -> None:
        """Start or resume drawing."""
        self._live = self._new_live()
        self._live.start(refresh=True)

    def _new_live(self) -> Live:
        return Live(
            get_renderable=self._drawn,
            console=self._console,
            refresh_per_second=_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _drawn(self) -> Group:
        width, height, runs = self._console.width, self._console.height, self._runs
        now = self._now()
        lines = run_lines(runs[0], width, now) if len(runs) == 1 else grid_lines(runs, width, height, now)
        return drawn(lines, self._console)


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
                sleep(1 / _PER_SECOND)
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


def drawn(lines: Sequence[Line], console: Console) -> Group:
    """Return the lines as rich draws them on `console`."""
    shown = encodable(lines, console.encoding)
    return Group(*(Text.assemble(*line, no_wrap=True, overflow="crop") for line in shown))
