"""The progress of runs below their lines: cycles, tokens per second, time left, the state of each run. Needs rich."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ...experiments.run_progress import RunProgress
from .run_screen import Line, encodable, grid_lines, run_lines

_PER_SECOND: Final = 4


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


def drawn(lines: Sequence[Line], console: Console) -> Group:
    """Return the lines as rich draws them on `console`."""
    shown = encodable(lines, console.encoding)
    return Group(*(Text.assemble(*line, no_wrap=True, overflow="crop") for line in shown))
