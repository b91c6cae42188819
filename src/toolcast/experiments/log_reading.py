"""Reader of event logs, this project's own and those of the published format.

A log is read line by line and never as a whole: memory does not grow with it. Traces of other programs are accepted: a
byte order mark, Windows' line ends, blank lines. Any other line that is no event is an error with its line number,
because an assessment without one of the lines would be of another run.

Follower of an event log that another process is writing: each call returns the events that were added since.

The bytes after the last complete line are read again when the file has changed, and nothing before them: the cost of a
call is that of what was appended. A torn last line is therefore never kept: the writer may truncate it and write
another one in its place. The start of the last complete line is compared at each call; where it is another, or the file
is shorter or another file, the log was replaced, and is read from its beginning.
"""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any, Final, cast

from pydantic_core import from_json

from ..errors import ToolcastError
from .log_events import SCHEMA_VERSION, LogEvent

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


BOM: Final = b"\xef\xbb\xbf"
_KEYS: Final[Mapping[str, type]] = {
    "timestamp": str,
    "run_id": str,
    "cycle_number": int,
    "event_type": str,
    "payload": dict,
}
_OWN_KEYS: Final[Mapping[str, type]] = {"schema_version": int, "sequence": int, "measures": dict}
_NAMES: Final[Mapping[type, str]] = {str: "text", int: "a whole number", dict: "an object"}


class LogError(ToolcastError, ValueError):
    """The error that a log, or a line of it, cannot be read.

    `path` is the log's, `line` the number of the line from 1, if there is one.
    """

    def __init__(self, message: str = "", *, path: Path | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.path: Path | None = path
        self.line: int | None = line


class LogMissing(LogError, FileNotFoundError):
    """The error that there is no log at `path`."""


def read_log(path: str | PathLike[str], *, tolerate_torn: bool = False) -> Iterator[LogEvent]:
    """Yield the events of the log at `path`, in order, each read when it is requested.

    Lines without a `sequence`, as other programs write them, are numbered in order.

    Args:
        path: The file of the log.
        tolerate_torn: Skip an incomplete last line, as a killed process leaves it.

    Raises:
        LogMissing: If the file does not exist; it is a `FileNotFoundError` too.
        LogError: For a line that is no event, with its number, and for a log without events.
    """
    path = Path(path)
    count = 0
    for number, line in lines_of(path):
        try:
            event = event_of(line, path, number, count)
        except LogError:
            if tolerate_torn and not line.endswith(b"\n"):
                break
            raise
        yield event
        count += 1
    if not count:
        raise LogError(f"{path} is empty: no run has written to it. Is it the log of the run you mean?", path=path)


def event_of(line: bytes, path: Path, number: int, count: int = 0) -> LogEvent:
    """Parse a line; without a `sequence` the event gets `count`. Raises `LogError` with the line number."""
    try:
        data = _data(line)
    except ValueError as error:
        torn = "" if line.endswith(b"\n") else "; it is cut off, as by a kill, and resuming its run removes it"
        raise _bad(path, number, f"not JSON ({error}){torn}") from error
    fault = _problem(data)
    if fault is not None:
        raise _bad(path, number, fault)
    data.setdefault("sequence", count)
    return LogEvent.from_dict(data)


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers."""
    try:
        with path.open("rb", buffering=_BUFFER) as file:
            for number, line in enumerate(file, 1):
                text = line.removeprefix(BOM) if number == 1 else line
                if text and not text.isspace():
                    yield number, text
    except FileNotFoundError as error:
        raise LogMissing(f"{path}: there is no such log. Is its path right?", path=path) from error
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error}. Is it a file, and may you read it?", path=path) from error


def _data(line: bytes) -> Any:
    try:
        return from_json(line)
    except ValueError:
        pass  # half a surrogate pair, and what is very deep, Python can read
    try:
        return json.loads(line.decode().rstrip("\r\n"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg}, column {error.colno}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"no UTF-8 from byte {error.start + 1} on") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _problem(data: Any) -> str | None:
    """Return the reason why `data` is no event; None for an event."""
    if type(data) is not dict:
        return f"not an object, but {reprlib.repr(data)}"
    found = cast("dict[str, Any]", data)
    for key, kind in _KEYS.items():
        if type(found.get(key)) is not kind:
            return _wrong(key, found[key], kind) if key in found else f"it has no {key!r}"
    for key, kind in _OWN_KEYS.items():
        if key in found and type(found[key]) is not kind:
            return _wrong(key, found[key], kind)
    if found.get("schema_version", 0) > SCHEMA_VERSION:
        return f"written by a newer toolcast (schema_version {found['schema_version']}): upgrade to read it"
    return None


def _wrong(key: str, value: object, kind: type) -> str:
    return f"{key!r} is {reprlib.repr(value)}, and must be {_NAMES[kind]}"


def _bad(path: Path, number: int, why: str) -> LogError:
    return LogError(f"{path}, line {number}: {why}. Repair or remove the line by hand", path=path, line=number)
