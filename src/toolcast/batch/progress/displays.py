"""The displays of a job's progress: a line of a terminal, an output of a notebook, lines of a log, a callback.

`choose_display` chooses one for the option `progress`; rich_display.py, which imports rich, has a bar for terminals.
tqdm would save 80 lines of code here. But in a terminal that becomes narrower it leaves parts of the second line,
what the program prints is mixed with its bars, `NO_COLOR` has no effect, and notebooks need ipywidgets.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from shutil import get_terminal_size
from typing import Final, Protocol, TextIO, TypeAlias

from ...text.live_display import Frame, Surface, can_encode, can_redraw, find_notebook
from .job_progress import ProgressSnapshot
from .progress_text import one_line, sentence

logger: Final = logging.getLogger("toolcast")

ProgressCallback: TypeAlias = Callable[[ProgressSnapshot], object]
"""A function that is called with the progress of a job."""

_LONG: Final = 1.5  # seconds after which a job is long enough to be shown unasked
_LOG_SECONDS: Final = 30.0
_ERASE: Final = "\r\x1b[K"
_NOTEBOOK_COLUMNS: Final = 200  # of a line, which the notebook wraps


class ProgressDisplay(Protocol):
    """A place where progress is shown. Its methods are called by one thread at a time.

    Attributes:
        delay: Seconds from the start of a job to its first drawing.
        every: Seconds from one drawing to the next.
        exclusive: True if two jobs cannot be shown there at once.
        shows_short_jobs: True if the end of a job is shown that took less than `delay`.
    """

    delay: float
    every: float
    exclusive: bool
    shows_short_jobs: bool

    def draw(self, snapshot: ProgressSnapshot) -> None:
        """Show the progress."""
        ...

    def close(self, snapshot: ProgressSnapshot) -> None:
        """Show the end of the job, whose progress was drawn before, and release the place."""
        ...

    def message(self, text: str) -> None:
        """Show a line of text that stays."""
        ...


class LineDisplay:
    """One line of a terminal, which is drawn again and again."""

    every: float = 1 / 8
    exclusive: bool = True

    def __init__(self, stream: TextIO, delay: float = 0.0) -> None:
        self.delay = delay
        self.shows_short_jobs: bool = not delay
        self._stream = stream
        self._separator = " · " if can_encode(getattr(stream, "encoding", None), "·") else " | "
        self._drawn = False

    def draw(self, snapshot: ProgressSnapshot) -> None:
        """Draw the line over the last one."""
        # A line of the full width would wrap in some terminals, and could not be erased.
        width = get_terminal_size((80, 24)).columns - 1
        self._stream.write(f"{_ERASE}{one_line(snapshot, width, self._separator)}")
        self._stream.flush()
        self._drawn = True

    def close(self, snapshot: ProgressSnapshot) -> None:
        """Draw the line for the last time, and end it."""
        self.draw(snapshot)
        self._stream.write("\n")
        self._stream.flush()
        self._drawn = False

    def message(self, text: str) -> None:
        """Write the text instead of the line, which the next drawing puts below."""
        self._stream.write(f"{_ERASE if self._drawn else ''}{text}\n")
        self._stream.flush()


class NotebookDisplay:
    """An output of the cell that runs the job, updated at most ten times a second."""

    every: float = 0.1
    exclusive: bool = False

    def __init__(self, surface: Surface, delay: float = 0.0) -> None:
        self.delay = delay
        self.shows_short_jobs: bool = not delay
        self._surface = surface
        self._messages: list[str] = []
        self._last: ProgressSnapshot | None = None

    def draw(self, snapshot: ProgressSnapshot) -> None:
        """Show the progress, or update it if it has changed."""
        if snapshot != self._last:
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
        from html import escape  # most jobs run elsewhere

        line = "" if self._last is None else one_line(self._last, _NOTEBOOK_COLUMNS)
        share = None if self._last is None else self._last.share
        bar = "" if share is None else f'<progress value="{share:.4f}" max="1" style="width: 20em"></progress> '
        messages = "".join(f"<div>{escape(text)}</div>" for text in self._messages)
        html = f'<div style="font-variant-numeric: tabular-nums">{bar}{escape(line)}</div>{messages}'
        self._surface.draw(Frame(html, "\n".join([*([line] if line else []), *self._messages])))


class LogDisplay:
    """A line of the log `toolcast` at INFO every 30 seconds."""

    delay: float = _LOG_SECONDS
    every: float = _LOG_SECONDS
    exclusive: bool = False
    shows_short_jobs: bool = False

    def draw(self, snapshot: ProgressSnapshot) -> None:
        """Log a line."""
        logger.info("batch job: %s", sentence(snapshot))

    def close(self, snapshot: ProgressSnapshot) -> None:
        """Log the last line."""
        self.draw(snapshot)

    def message(self, text: str) -> None:
        """Log the text as a warning, which is shown by a program that has not configured its logs, too."""
        logger.warning("batch job: %s", text)


class StreamDisplay(LogDisplay):
    """A line of a stream that is no terminal, every 30 seconds and at the end."""

    shows_short_jobs: bool = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def draw(self, snapshot: ProgressSnapshot) -> None:
        """Write a line."""
        self.message(sentence(snapshot))

    def message(self, text: str) -> None:
        """Write the text as a line."""
        self._stream.write(f"{text}\n")
        self._stream.flush()


class CallbackDisplay(LogDisplay):
    """A user's function, called up to ten times a second and at the end. Messages are logged."""

    delay: float = 0.1
    every: float = 0.1
    shows_short_jobs: bool = True

    def __init__(self, callback: ProgressCallback) -> None:
        self._callback = callback

    def draw(self, snapshot: ProgressSnapshot) -> None:
        """Call the function."""
        self._callback(snapshot)


def choose_display(
    progress: bool | ProgressCallback | None,
    *,
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ProgressDisplay | None:
    """Return the display for the option `progress`, or None if nothing shall be shown.

    Args:
        progress: None shows the progress of a job that takes longer than about a second, in a notebook or in a
            terminal, and elsewhere logs it; True shows it from the start, and elsewhere writes lines; False shows
            nothing; a function is called with snapshots.
        stream: The stream of the terminal or of the lines. Default: stderr.
        environ: The environment variables.
    """
    if progress is False:
        return None
    stream = sys.stderr if stream is None else stream
    if callable(progress):
        return CallbackDisplay(progress)
    delay = 0.0 if progress else _LONG
    if (notebook := find_notebook()) is not None:
        return NotebookDisplay(notebook, delay)
    if stream is None:  # a program without a console has none
        return LogDisplay()
    if not can_redraw(stream, environ):
        return StreamDisplay(stream) if progress else LogDisplay()
    if find_spec("rich") is None:
        return LineDisplay(stream, delay)
    from .rich_display import RichDisplay

    return RichDisplay(stream, delay)
