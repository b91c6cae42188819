"""The progress of a job in a notebook: one output that is updated. IPython is loaded by the notebook itself."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

from .account import ProgressSnapshot
from .text import one_line

_WIDE = 200
"""Columns of the line: the notebook wraps it."""


class NotebookDisplay:
    """An output of the cell that runs the job, updated at most ten times a second."""

    every: float = 0.1
    exclusive: bool = False

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay
        self.shows_short_jobs: bool = not delay
        self._display: Any = sys.modules["IPython"].display.display
        self._handle: Any = None
        self._messages: list[str] = []
        self._last: ProgressSnapshot | None = None

    def draw(self, snapshot: ProgressSnapshot) -> None:
        """Show the progress, or update it if it has changed."""
        if snapshot == self._last:
            return
        self._last = snapshot
        self._show()

    def close(self, snapshot: ProgressSnapshot) -> None:
        """Show the end of the job."""
        self.draw(snapshot)

    def message(self, text: str) -> None:
        """Add the text as a line below the progress."""
        self._messages.append(text)
        self._show()

    def _show(self) -> None:
        line = "" if self._last is None else one_line(self._last, _WIDE)
        plain = "\n".join([*([line] if line else []), *self._messages])
        data = {"text/plain": plain, "text/html": self._html(line)}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def _html(self, line: str) -> str:
        share = None if self._last is None else self._last.share
        bar = "" if share is None else f'<progress value="{share:.4f}" max="1" style="width: 20em"></progress> '
        messages = "".join(f"<div>{escape(text)}</div>" for text in self._messages)
        return f'<div style="font-variant-numeric: tabular-nums">{bar}{escape(line)}</div>{messages}'
