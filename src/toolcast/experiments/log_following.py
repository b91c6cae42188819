"""Follower of an event log that another process is writing: each call returns the events that were added since.

The bytes after the last complete line are read again when the file has changed, and nothing before them: the cost of a
call is that of what was appended. A torn last line is therefore never kept: the writer may truncate it and write
another one in its place. The start of the last complete line is compared at each call; where it is another, or the file
is shorter or another file, the log was replaced, and is read from its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from .log_events import LogEvent
from .log_reading import BOM, LogError, event_of

_BUFFER: Final = 1 << 18
_MARK: Final = 160
"""The number of bytes of the last line that are compared: its timestamp, to the microsecond, is among them."""


class LogFollower:
    """A reader of the log at `path`, which need not exist yet.

    Attributes:
        path: The file of the log.
        exists: True if the file existed at the last call.
        restarts: The number of times that another log was found at `path`, and is read from its beginning.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self.exists: bool = False
        self.restarts: int = 0
        self._file: tuple[int, int] = (0, 0)
        self._seen: tuple[int, int] = (-1, -1)
        self._forget()

    def new_events(self) -> Iterator[LogEvent]:
        """Yield the events that were added since the last call, each parsed when it is requested.

        Raises:
            LogError: For a line that is no event, with its number; the next call continues after it. Also if the file
                cannot be read.
        """
        try:
            file = self.path.open("rb", buffering=_BUFFER)
        except FileNotFoundError:
            self.exists = False
            return
        except OSError as error:
            raise LogError(
                f"{self.path} cannot be read: {error}. Is it a file, and may you read it?", path=self.path
            ) from error
        with file:
            self.exists = True
            found = os.fstat(file.fileno())
            identity, seen = (found.st_dev, found.st_ino), (found.st_size, found.st_mtime_ns)
            if identity == self._file and seen == self._seen:
                return
            if self._end and not (identity == self._file and self._has_same_lines(file, found.st_size)):
                self.restarts += 1
                self._forget()
            self._file = identity
            yield from self._read(file)
            self._seen = seen

    def _forget(self) -> None:
        self._end = 0  # of the complete lines
        self._last = 0  # the start of the last of them
        self._mark = b""
        self._lines = 0
        self._events = 0

    def _has_same_lines(self, file: IO[bytes], size: int) -> bool:
        """Return whether `file` still has the lines that were read."""
        if size < self._end:
            return False
        file.seek(self._last)
        return file.read(len(self._mark)) == self._mark

    def _read(self, file: IO[bytes]) -> Iterator[LogEvent]:
        file.seek(self._end)
        while (line := file.readline()).endswith(b"\n"):
            self._last, self._end, self._mark = self._end, self._end + len(line), line[:_MARK]
            self._lines += 1
            text = line.removeprefix(BOM) if self._lines == 1 else line
            if not text.isspace():
                event = event_of(text, self.path, self._lines, self._events)
                self._events += 1
                yield event
