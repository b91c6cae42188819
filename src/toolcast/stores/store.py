"""The `Store` protocol: session logs with exclusive leases, and the JSON encoding that all stores share.

A log is a list of records, plain JSON data, to which records are only appended. A store does not interpret them. All of
it is sync: a session writes between two events of a turn, and writes only small records then. Each store writes the
same JSON text (`to_json_text`), so all of them accept the same values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from os import PathLike, getpid
from types import TracebackType
from typing import Any, Final, Protocol, Self, cast
from weakref import finalize

from ..errors import SessionLocked, ToolcastError
from ..text.json_text import checksum, replace_surrogates
from ..text.reprs import safe_repr


class Store(Protocol):
    """The storage of session logs. Implement these five methods for your own.

    They are called between two events of a turn, in the thread of the turn: they must be quick and thread-safe. An
    invalid id is a `ValueError` (`check_id`). If the system fails, for example with a full disk, the stores here raise
    `ToolcastError` from the system's error (`wrap_os_errors`).
    """

    def append(self, id: str, records: Sequence[Mapping[str, Any]], /) -> None:
        """Append `records` to a log, in order: all of them, or, whatever happens, none.

        Only the owner of the lease appends. Records are JSON data; anything else in them is a `TypeError` or
        `ValueError`.
        """
        ...

    def read(self, id: str, /) -> list[dict[str, Any]]:
        """Return the records of a log, in order; none for an unknown id. A damaged log is a `ToolcastError`."""
        ...

    def claim(self, id: str, /) -> SessionLease:
        """Return the right to append, which one object at a time has. Raise `SessionLocked`, which names the owner."""
        ...

    def ids(self) -> list[str]:
        """Return the ids of all logs, in the order in which they were created."""
        ...

    def delete(self, id: str, /) -> None:
        """Remove a log, if it exists. Raise `SessionLocked` while it is claimed."""
        ...


class SessionLease:
    """The exclusive right to append to one log, until `release()`, garbage collection or the end of the process."""

    __slots__ = ("__weakref__", "_release")

    def __init__(self, release: Callable[[], object]) -> None:
        self._release = finalize(self, release)

    @safe_repr
    def __repr__(self) -> str:
        return f"SessionLease({'active' if self._release.alive else 'released'})"

    def release(self) -> None:
        """Release the log. A second call has no effect."""
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def session_locked(id: str, owner: int | None) -> SessionLocked:
    """Return the error for a log that is claimed by the process `owner`, if that is known."""
    if owner == getpid():
        return SessionLocked(
            f"the session {id!r} is open already, here in process {owner}: close it there first", owner=owner
        )
    owner_name = "another process" if owner is None else f"process {owner}"
    return SessionLocked(
        f"the session {id!r} is open in {owner_name}: close it there, or end that process, and try again",
        owner=owner,
    )


# Legal as a file name everywhere, and without a special meaning to shells and paths.
_LEGAL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?", re.ASCII)
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}
"""Names of devices on Windows, with any extension."""


def check_id(id: str) -> str:
    """Return `id`; raise `ValueError` unless it is 1 to 100 of `A-Z a-z 0-9 . _ -` without a dot at its ends."""
    if not _LEGAL.fullmatch(id):
        raise ValueError(
            f"{id[:120]!r} is no id of a session: use 1 to 100 letters (A-Z, a-z), digits, '_', '-' and '.', "
            "beginning with a letter or a digit, and with no '.' at the end"
        )
    if id.partition(".")[0].lower() in _RESERVED:
        raise ValueError(f"{id!r} is no id of a session: it is the name of a device on Windows; put a word before it")
    return id


def file_name(id: str) -> str:
    """Return a file name for `id`, unique also on file systems that ignore case."""
    return re.sub(r"[A-Z]", lambda found: f"={found[0].lower()}", check_id(id))


def id_of(name: str) -> str | None:
    """Return the id that `file_name` made `name` from; None for any other name."""
    id = re.sub(r"=([a-z])", lambda found: found[1].upper(), name)
    return id if _LEGAL.fullmatch(id) and re.sub(r"[A-Z]", "", name) == name else None


CHECKSUM: Final = "crc32"
"""The last member of a stored record. Earlier versions, which write none, ignore it."""

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def to_json_text(data: object) -> str:
    """Return `data` as JSON on one line. Half a surrogate pair becomes U+FFFD, as in requests to a model."""
    return replace_surrogates(_encode(data))


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:30]} is not a number in JSON")
    return number


def from_json_text(text: Any, where: str) -> Any:
    """Return the data in a JSON `text` of `to_json_text`.

    Raises:
        ToolcastError: For anything else; the message names the place, `where`.
    """
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (TypeError, ValueError, RecursionError) as error:
        raise damaged_record(where, str(error)) from error


def to_record_text(record: Mapping[str, Any]) -> str:
    """Return a record as JSON on one line, with its checksum as the last member."""
    if CHECKSUM in record:
        raise ValueError(f"{CHECKSUM!r} is the name of the checksum of a record: use another")
    text = to_json_text(dict(record))
    return f'{text[:-1]}{"," if record else ""}"{CHECKSUM}":"{checksum(text.encode())}"}}'


def to_record(data: Any, where: str) -> dict[str, Any]:
    """Return the record in the data of `to_record_text`. Its checksum may have been removed, after a repair by hand.

    Raises:
        ToolcastError: It is damaged; the message names the place, `where`.
    """
    if not isinstance(data, dict):
        raise damaged_record(where, "expected a JSON object")
    record = cast("dict[str, Any]", data)
    if record:
        name, value = record.popitem()
        try:
            is_right = value == checksum(to_json_text(record).encode())
        except RecursionError as error:
            raise damaged_record(where, str(error)) from error
        if is_right != (name == CHECKSUM):  # the name of a right one is damaged, too
            raise damaged_record(where, f"its checksum is wrong (remove {CHECKSUM!r} after a repair)")
        if not is_right:
            record[name] = value
    return record


@contextmanager
def wrap_os_errors(path: str | PathLike[str], *also: type[Exception]) -> Generator[None]:
    """Raise the system's errors, and those of the types `also`, as `ToolcastError`."""
    kinds: tuple[type[Exception], ...] = (OSError, *also)
    try:
        yield
    except kinds as error:
        raise ToolcastError(f"the store {path} failed: {error}. Is it a store's file, free and writable?") from error


def damaged_record(where: str, why: str) -> ToolcastError:
    """Return the error for stored data that no store writes."""
    return ToolcastError(f"{where} is damaged: {why}. Nothing was changed; repair it by hand, or delete the session")
