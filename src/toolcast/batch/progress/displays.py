"""The displays of a job's progress: a line of a terminal, lines of a log, a callback.

rich_display.py and notebook.py have the other two, which need packages that toolcast does not depend on; choice.py
chooses one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from shutil import get_terminal_size
from typing import Final, Protocol, TextIO, TypeAlias

from .account import ProgressSnapshot
from .text import one_line, sentence

logger: Final = logging.getLogger("toolcast")

ProgressCallback: TypeAlias = Callable[[ProgressSnapshot], object]
"""A function that is called with the progress of a job."""

_LOG_SECONDS: Final = 30.0
FRAMES: Final = 8
"""The drawings per second on a terminal."""

_ERASE: Final = "\r\x1b[K"


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

    every: float = 1 / FRAMES
    exclusive: bool = True

    def __init__(self, stream: TextIO, delay: float = 0.0) -> None:
        self.delay = delay
        self.shows_short_jobs: bool = not delay
        self._stream = stream
        self._separator = " · " if can_encode(stream, "·") else " | "
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


class CallbackDisplay:
    """A user's function, called up to ten times a second and at the end."""

    delay: float = 0.1
    every: float = 0.1
    exclusive: bool = False
    shows_short_jobs: bool = True

    def __init__(self, callback: ProgressCallback, messages: ProgressDisplay) -> None:
        self._callback = callback
        self._messages = messages

    def message(self, text: str) -> None:
        """Write a line in the way of the other display."""
        self._messages.message(text)

    def draw(self, snapshot: ProgressSnapshot) -> None:
        """Call the function."""
        self._callback(snapshot)

    def close(self, snapshot: ProgressSnapshot) -> None:
        """Call the function for the last time."""
        self._callback(snapshot)


def can_encode(stream: TextIO, text: str) -> bool:
    """Return True if the encoding of `stream` has the characters of `text`."""
    try:
        text.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
