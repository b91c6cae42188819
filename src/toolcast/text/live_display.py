"""`LiveDisplay`: one display of something that grows, drawn again at most ten times a second.

In a notebook it is an output of the cell that is replaced, on a terminal it is lines that are drawn again. Elsewhere,
as in a pipe, only the end is printed. IPython is not imported: where a notebook runs it is loaded.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, Self, TextIO

from .json_text import replace_surrogates
from .terminal_text import visible

INTERVAL: Final = 0.1
"""The least seconds between two updates."""


class Frame:
    """One state of a display: HTML for notebooks, text for all others."""

    def __init__(self, html: str, text: str) -> None:
        self.html: str = html
        self.text: str = visible(replace_surrogates(text))

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


class Surface(Protocol):
    """The place where frames are drawn."""

    def draw(self, frame: Frame) -> None:
        """Draw a frame in the place of the one before."""
        ...

    def end(self, frame: Frame) -> None:
        """Draw the last frame."""
        ...


class LiveDisplay:
    """A context manager that draws what grows: at its begin, after changes, and once more at its end.

    Args:
        frame: Returns the current state. It is called only if it is drawn.
        now: The monotonic time in seconds.
        surface: The place where it is drawn; None prints the end alone.
    """

    def __init__(self, frame: Callable[[], Frame], now: Callable[[], float], surface: Surface | None) -> None:
        self._frame = frame
        self._now = now
        self._drawn_at: float | None = None
        self._surface = surface

    def update(self) -> None:
        """Draw the current state, unless the last one was drawn less than `INTERVAL` ago."""
        if self._surface is None:
            return
        now = self._now()
        if self._drawn_at is None or now - self._drawn_at >= INTERVAL:
            self._drawn_at = now
            self._surface.draw(self._frame())

    def __enter__(self) -> Self:
        self.update()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._surface is not None:
            self._surface.end(self._frame())
        elif error is None:
            print(self._frame().text)


class _NotebookSurface:
    """An output of a notebook's cell."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def draw(self, frame: Frame) -> None:
        if self._handle is None:
            self._handle = self._display(frame, display_id=True)
        else:
            self._handle.update(frame)

    end = draw


class _TerminalSurface:
    """Lines of a terminal. While they grow the last ones that fit are shown, each up to the terminal's width."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines = 0

    def draw(self, frame: Frame) -> None:
        height = shutil.get_terminal_size().lines - 1
        # The terminal cuts long lines itself, as it alone knows the widths of all characters.
        self._write("".join([f"\x1b[?7l{line}\x1b[?7h\n" for line in frame.text.split("\n")[-height:]]))

    def end(self, frame: Frame) -> None:
        self._write(f"{frame.text}\n")

    def _write(self, text: str) -> None:
        before = f"\x1b[{self._lines}A\r\x1b[J" if self._lines else ""
        self._lines = text.count("\n")
        self._stream.write(before + text)
        self._stream.flush()


def text_of(shown: Any) -> str:
    """Return JSON-compatible data as text for a terminal: a string as it is, other data as indented JSON."""
    return shown if isinstance(shown, str) else json.dumps(shown, indent=2, ensure_ascii=False)


def find_surface() -> Surface | None:
    """Return the surface of the notebook or the terminal that this process writes to; None for neither."""
    if (notebook := find_notebook()) is not None:
        return notebook
    if can_redraw(sys.stdout):
        return _TerminalSurface(sys.stdout)
    return None


def can_redraw(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Return True if `stream` is a terminal on which lines can be drawn over others."""
    return stream.isatty() and environ.get("TERM", "dumb") != "dumb"


def can_encode(encoding: str | None, text: str) -> bool:
    """Return True if the encoding of a stream, which is ASCII if it has none, has the characters of `text`."""
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def find_notebook() -> Surface | None:
    """Return an output of the notebook's cell that runs; None outside of a notebook."""
    return _NotebookSurface(sys.modules["IPython"].display.display) if in_notebook() else None


def in_notebook() -> bool:
    """Return True in a notebook, without importing IPython."""
    return getattr(ipython_shell(), "kernel", None) is not None  # a terminal's IPython has no kernel


def ipython_shell() -> Any:
    """Return the shell of the IPython that runs in this process, in a notebook or a terminal; None without one."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()
