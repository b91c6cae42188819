"""Writer of the event log of a run: one JSON line for each event, durable against crashes and full disks.

Each line is written by one call at the end of the file, so a process that is killed after it loses nothing. A process
that is killed, or whose disk fills, in the middle of a line leaves a torn line. It is truncated at once, or when the
log is opened next: before anything is written, and again whenever the file does not end where the last line did, the
end of the file is recovered. Recovery reads the end of the file alone, however large it is, and finds there the next
sequence number and the last timestamp. Each log has one writer: a lock file beside it has the id of its process, and a
forked child may not write.

Conversion of any Python data to plain JSON data.

A log must take whatever a tool, a model or a user's program puts into it: a line that cannot be written is a lost line
of the experiment. So nothing here raises. Bytes are decoded, a set becomes a sorted list, dates and decimals their
usual text, NaN and the infinities null, an unpaired surrogate U+FFFD, and any other object its `repr`. A key that is
not a string becomes the text that JSON has for it; of two equal ones the later wins. Circular references, and data
nested deeper than other JSON readers accept, are replaced by "...".
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Set as AbstractSet
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import Path, PurePath
from time import time as clock
from typing import Any, Final, cast
from uuid import UUID
from weakref import finalize

from pydantic_core import to_json

from ..async_support.closing import Closing
from ..errors import SessionLocked, ToolcastError
from ..stores.locks import claim_file
from ..stores.store import SessionLease
from ..text.json_text import replace_surrogates
from ..text.reprs import safe_repr
from .log_events import EventType, LogEvent
from .log_reading import BOM, LogError, LogMissing, event_of, lines_of, read_log

DEEPEST: Final = 100
"""The maximum depth. Some readers of JSON go no deeper than 200."""
LEFT_OUT: Final = "..."

_INNER: tuple[type, ...] = (Mapping, list, tuple, AbstractSet)
_PLAIN = frozenset((str, int, float, bool, type(None)))
_LARGEST = 10**4000  # no text of a number may be longer than 4300 digits: Python neither writes nor reads it


def is_plain(value: object, depth: int = DEEPEST) -> bool:
    """Return whether `value` consists of JSON types only, is not too deep, and can be written unchanged."""
    kind = type(value)
    if kind is str or kind in _PLAIN:  # most are
        return kind is not int or -_LARGEST < cast("int", value) < _LARGEST
    if not depth:
        return False
    if kind is dict:
        for key, inner in cast("dict[object, object]", value).items():
            if type(key) is not str or not (type(inner) is str or is_plain(inner, depth - 1)):
                return False
        return True
    if kind is list or kind is tuple:
        return all(is_plain(inner, depth - 1) for inner in cast("Iterable[object]", value))
    return False


def json_safe(value: object) -> Any:
    """Convert `value` to JSON data: None, bool, int, float, str, and lists and dicts of them. Never raises."""
    return _safe(value, ())


def _safe(value: Any, above: tuple[int, ...]) -> Any:
    """Convert `value`, which is nested in the objects with the ids `above`."""
    try:
        return _safe_inside(value, above) if isinstance(value, _INNER) else _safe_leaf(value)
    except Exception as error:  # foreign objects: what fails when written is written as a note on that
        # Foreign objects: looking at one, and its `repr` too, may run any code.
        return f"<{type(value).__name__} that cannot be written: {type(error).__name__}>"


def _safe_inside(value: Any, above: tuple[int, ...]) -> Any:
    if id(value) in above or len(above) >= DEEPEST:
        return LEFT_OUT
    within = (*above, id(value))
    if isinstance(value, Mapping):
        pairs = list(cast("Mapping[object, object]", value).items())
        return {_key(key): _safe(inner, within) for key, inner in pairs}
    items = [_safe(inner, within) for inner in list(value)]
    # The order of a set is another one in every run.
    return sorted(items, key=repr) if isinstance(value, AbstractSet) else items


def _safe_leaf(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _safe(value.value, ())
    if isinstance(value, int):
        number = int.__int__(value)
        return number if -_LARGEST < number < _LARGEST else hex(number)
    if isinstance(value, float):
        return float.__float__(value) if isfinite(value) else None
    return replace_surrogates(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(cast("bytes", value)).decode("utf-8", "backslashreplace")
    if isinstance(value, (date, time)):
        return value.isoformat()
    return str(value) if isinstance(value, (Decimal, UUID, PurePath)) else repr(value)


def _key(key: object) -> str:
    """Convert a key to text: true, false, null and numbers as JSON writes them."""
    safe = _safe(key, ())
    return safe if isinstance(safe, str) else to_json(safe).decode()


__all__ = ["JsonlLogger", "LogError", "LogMissing", "LogTaken", "read_log"]

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
_BLOCK: Final = 1 << 16
_NOTHING: Final[Mapping[str, Any]] = {}
_UNNUMBERED: Final = -1
_UNKNOWN_END: Final = -1
_FIRST: Final = b'{"timestamp":"'
_BREAKS: Final = [(sign.encode(), b"\\u%04x" % ord(sign)) for sign in "\x85\u2028\u2029"]
"""Characters that some programs treat as line ends, though JSON strings may contain them unescaped."""
_ADVICE: Final[Mapping[int | None, str]] = {
    errno.ENOSPC: "Free some space on the disk, and resume the run",
    errno.EDQUOT: "Free some of your quota on the disk, and resume the run",
    errno.EISDIR: "Give the path of a file, not of a folder",
    errno.ENOTDIR: "One of its folders is a file: give another path",
    errno.EEXIST: "One of its folders is a file: give another path",
}
_ADVICE_ELSE: Final = "Is its folder there and writable, and is there room on the disk?"


class LogTaken(ToolcastError):
    """The error that a log has a writer already.

    `owner` is the id of the writer's process, or None if it is unknown.
    """

    def __init__(self, message: str = "", *, owner: int | None = None) -> None:
        super().__init__(message)
        self.owner: int | None = owner


class JsonlLogger(Closing):
    """The only writer of the log at `path`.

    The file and its folders are created if they do not exist; an existing log is continued where it ends. Safe to use
    from several threads.

    Args:
        path: The file of the log.
        run_id: The name of the run whose events are written.
        now: The clock, in seconds since 1970.

    Attributes:
        next_sequence: The number of the next line, 0 for a new log.
        recovered_bytes: The number of bytes of a torn last line that were truncated on opening.

    Raises:
        LogTaken: If another writer has the log open.
        LogError: If the file is another run's log, or no log.
        ToolcastError: If the file system fails.
    """

    def __init__(self, path: str | os.PathLike[str], run_id: str, *, now: Callable[[], float] = clock) -> None:
        self.path: Path = Path(os.path.realpath(path))
        self.run_id: str = run_id
        self.next_sequence: int = 0
        self.recovered_bytes: int = 0
        self._now = now
        self._last = ""
        self._end = _UNKNOWN_END
        self._owner = os.getpid()
        self._mutex = threading.Lock()
        self._lease, self._fd = _open_log(self.path)
        self._close_file = finalize(self, os.close, self._fd)
        try:
            self.recovered_bytes = self._recover()
        except BaseException:
            self.close()
            raise

    @safe_repr
    def __repr__(self) -> str:
        return f"JsonlLogger({os.fspath(self.path)!r}, run_id={self.run_id!r}, next_sequence={self.next_sequence})"

    def log_event(
        self,
        event_type: EventType,
        cycle_number: int = 0,
        payload: Mapping[str, Any] = _NOTHING,
        measures: Mapping[str, Any] = _NOTHING,
    ) -> LogEvent:
        """Append an event to the log and return it; once this returns, the event survives a crash of the process.

        Values that JSON cannot represent are converted for the log alone (`json_safe`); the returned event has the
        originals. Raises `ToolcastError` if the file system fails; then the log is unchanged.
        """
        if os.getpid() != self._owner:
            raise LogTaken(
                f"{self.path} is the log of process {self._owner}, and this is a child of it, process {os.getpid()}: "
                "open a log of its own here",
                owner=self._owner,
            )
        with self._mutex:
            if not self._close_file.alive:
                raise ToolcastError(f"{self.path} is closed here: open it again to write to it")
            if self._size() != self._end:
                self._recover()
            written_at = max(self._last, _stamp(datetime.fromtimestamp(self._now(), UTC)))
            event = LogEvent(event_type, cycle_number, payload, measures, self.run_id, written_at, self.next_sequence)
            self._append(_line(event), written_at)
        return event

    def close(self) -> None:
        """Release the log for other writers. Does nothing the second time."""
        if os.getpid() != self._owner:
            self._close_file()  # a child's own copy; the log goes on in its parent
            return
        try:
            with self._mutex:
                self._close_file()
        finally:
            self._lease.release()

    def _append(self, line: bytes, written_at: str) -> None:
        """Append all of `line` to the log, or nothing."""
        end, self._end = self._end, _UNKNOWN_END
        with _as_log_error(self.path):
            try:
                _write(self._fd, line)
            except OSError:
                with suppress(OSError):  # else the next line, or who opens the log next, takes it back
                    os.ftruncate(self._fd, end)
                raise
        # The end comes last: a run that was interrupted before it reads in the log how far it got.
        self._last, self.next_sequence = written_at, self.next_sequence + 1
        self._end = end + len(line)

    def _size(self) -> int:
        with _as_log_error(self.path):
            found = os.fstat(self._fd)
        if not found.st_nlink:
            raise ToolcastError(f"the log {self.path} was removed while its run was going on: begin the run anew")
        return found.st_size

    def _recover(self) -> int:
        """Make the log end with a complete line, continue from there, and return the number of bytes truncated."""
        with _as_log_error(self.path):
            end, last, torn = _read_end(self._fd)
            unterminated = self._unterminated(torn)
            event = unterminated or (self._event(last) if last else None)
            self._check(event, torn)
            if unterminated:
                _write(self._fd, b"\n")
            elif torn:
                os.ftruncate(self._fd, end)
        self._continue_from(event)
        self._end = self._size()
        return 0 if unterminated else len(torn)

    def _unterminated(self, torn: bytes) -> LogEvent | None:
        """Return the event of a last line that lacks only its line end; None if it lacks more."""
        try:
            return event_of(torn, self.path, 0, _UNNUMBERED)
        except LogError:
            return None

    def _event(self, last: bytes) -> LogEvent:
        """Return the event of the last complete line. Its line number is looked up only for an error."""
        try:
            return event_of(last, self.path, 0, _UNNUMBERED)
        except LogError:
            number = max(number for number, line in lines_of(self.path) if line.endswith(b"\n"))
            return event_of(last, self.path, number)

    def _check(self, event: LogEvent | None, torn: bytes) -> None:
        """Raise `LogError`, before anything is changed, if the file is not this run's log."""
        if event is not None and event.run_id != self.run_id:
            raise LogError(
                f"{self.path} is the log of the run {event.run_id!r}, not of {self.run_id!r}: "
                "give each run a log of its own",
                path=self.path,
            )
        begun = torn.replace(b" ", b"")[: len(_FIRST)]
        if event is None and not _FIRST.startswith(begun):
            raise LogError(f"{self.path} is no log of a run: give the run a file of its own", path=self.path)

    def _continue_from(self, event: LogEvent | None) -> None:
        if event is None:
            self.next_sequence = 0
            return
        self._last = max(self._last, _canonical(event.timestamp))
        if event.sequence == _UNNUMBERED:
            self.next_sequence = sum(1 for _ in lines_of(self.path))
        else:
            self.next_sequence = event.sequence + 1


def _open_log(path: Path) -> tuple[SessionLease, int]:
    """Lock and open the log at `path`, creating it if it does not exist."""
    with _as_log_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    lease = _locked(path)
    try:
        with _as_log_error(path):
            return lease, os.open(path, _FLAGS, 0o666)
    except BaseException:
        lease.release()
        raise


def _locked(path: Path) -> SessionLease:
    lock = path.with_name(f"{path.name}.lock")
    try:
        return claim_file(lock, path.name)
    except SessionLocked as error:
        owner = error.owner
        here = "here in this process" if owner == os.getpid() else f"in process {owner}" if owner else "elsewhere"
        raise LogTaken(
            f"{path} is being written already, {here}: wait until that run has ended, or end it, and try again",
            owner=owner,
        ) from error
    except ToolcastError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        raise _failure(path, error.__cause__) from error.__cause__


def _read_end(fd: int) -> tuple[int, bytes, bytes]:
    """Return the end offset of the complete lines, the last of them that is not blank, and the bytes after them."""
    start, found = os.lseek(fd, 0, os.SEEK_END), b""
    while start and b"\n" not in found[: found.rfind(b"\n") + 1].rstrip():
        length = min(start, max(_BLOCK, len(found)))
        start -= length
        os.lseek(fd, start, os.SEEK_SET)
        found = os.read(fd, length) + found
    whole, torn = found[: found.rfind(b"\n") + 1], found[found.rfind(b"\n") + 1 :]
    last = whole.rstrip().rpartition(b"\n")[2].removeprefix(BOM)
    return start + len(whole), last + b"\n" if last else b"", torn


def _write(fd: int, line: bytes) -> None:
    written = 0
    while written < len(line):
        taken = os.write(fd, line[written:])
        if not taken:  # nor would it take anything the next time
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += taken


def _line(event: LogEvent) -> bytes:
    line = event.to_dict()
    try:
        text = to_json(line, inf_nan_mode="null") if is_plain(event.payload) and is_plain(event.measures) else b""
    except (ValueError, RuntimeError):
        text = b""  # half a surrogate pair; or another thread changes the data just now
    text = text or to_json(line | {key: _safe_object(line[key]) for key in ("payload", "measures") if key in line})
    for sign, written in _BREAKS:
        if sign[-1] in text:  # one byte is found many times faster than three
            text = text.replace(sign, written)
    return text + b"\n"


def _safe_object(data: Mapping[str, Any]) -> dict[str, Any]:
    safe = json_safe(data)
    return cast("dict[str, Any]", safe) if isinstance(safe, dict) else {"value": safe}


def _stamp(moment: datetime) -> str:
    """Format a UTC time as the log has it: with six digits after the second, and a Z."""
    return f"{moment.isoformat(timespec='microseconds')[:26]}Z"


def _canonical(timestamp: str) -> str:
    """Normalise a timestamp that another program wrote; return an empty string if it cannot be parsed."""
    try:
        read = datetime.fromisoformat(timestamp)
        return _stamp(read.astimezone(UTC) if read.tzinfo else read)
    except (ValueError, OverflowError):
        return ""


@contextmanager
def _as_log_error(path: Path) -> Generator[None]:
    """Convert an `OSError` to a `ToolcastError` about the log."""
    try:
        yield
    except OSError as error:
        raise _failure(path, error) from error


def _failure(path: Path, error: OSError) -> ToolcastError:
    advice = _ADVICE.get(error.errno, _ADVICE_ELSE)
    return ToolcastError(f"the log {path} cannot be written: {error.strerror or error}. {advice}")
