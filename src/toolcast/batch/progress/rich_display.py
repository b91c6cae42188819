"""The progress of a job in a terminal: a bar, and a line of details below it. Needs rich."""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ...text.live_display import can_encode
from .job_progress import ProgressSnapshot
from .progress_text import counts, details, heading, percent, time_text

_NARROW = 44
"""Columns below which there is no bar."""


class RichDisplay:
    """Two lines of a terminal, below all that the program prints meanwhile."""

    every: float = 1 / 8
    exclusive: bool = True

    def __init__(self, stream: TextIO, delay: float = 0.0) -> None:
        self.delay = delay
        self.shows_short_jobs: bool = not delay
        self._console = Console(file=stream)
        self._separator = " · " if can_encode(self._console.encoding, "·") else " | "
        # What the program prints meanwhile would be written into the bar, if both are on one terminal.
        shares = sys.stdout is not None and sys.stdout.isatty()
        self._live = Live(
            console=self._console, auto_refresh=False, redirect_stdout=shares, redirect_stderr=False, transient=False
        )

    def draw(self, snapshot: ProgressSnapshot) -> None:
        """Draw the lines over the last ones."""
        if not self._live.is_started:
            self._live.start()
        self._live.update(self._lines(snapshot), refresh=True)

    def close(self, snapshot: ProgressSnapshot) -> None:
        """Draw the lines for the last time, and leave them."""
        self.draw(snapshot)
        self._live.stop()

    def message(self, text: str) -> None:
        """Write the text above the lines."""
        self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def _lines(self, snapshot: ProgressSnapshot) -> Group:
        """Return the bar with counts and time, and the details."""
        width, separator = self._console.width, self._separator
        first: RenderableType = Text(heading(snapshot, width, separator), no_wrap=True)
        if snapshot.share is not None and width >= _NARROW:
            first = row = Table.grid(padding=(0, 1), expand=True)
            row.add_column(no_wrap=True)
            row.add_column(ratio=1)
            row.add_column(no_wrap=True, justify="right")
            row.add_column(no_wrap=True, justify="right")
            bar = ProgressBar(snapshot.total, snapshot.done, complete_style="cyan", finished_style="green")
            row.add_row(counts(snapshot), bar, percent(snapshot), Text(time_text(snapshot), style="cyan"))
        second = Text(details(snapshot, width, separator), no_wrap=True)
        second.highlight_regex(r"[\d,]+ failed", "red")
        return Group(first, second) if second else Group(first)
