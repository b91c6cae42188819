"""What a store is: it keeps the logs of sessions, and knows whose they are.

A log is a list of records, plain JSON data, which only ever grows at its end. A store neither reads what they say
nor runs anything of them. All of it is sync: a session writes between two events of a turn, and what is written
then must be small and quick. Each store writes the same JSON text (`as_text`), so what one takes, all take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from os import PathLike, getpid
from types import TracebackType
from typing import Any, Protocol, Self
from weakref import finalize

from ..errors import SessionLocked, ToolcastError
from ..json_text import replace_surrogates


class Store(Protocol):
    """Where the logs of sessions are kept. Bring your own by these five methods.

    They are called between two events of a turn, in whatever thread that is in: they must be quick, and safe in
    threads. An id that is no legal name is a `ValueError` (`checked`). Where the system fails, a full disk for one,
    the stores here raise `ToolcastError`, whose `__cause__` is what the system said (`told`).
    """

    def append(self, id: str, records: Sequence[Mapping[str, Any]], /) -> None:
        """Write `records` at the end of a log, in order: all of them, or, whatever happens, none.

        Only who holds the claim appends. Records are JSON data; anything else in them is a `TypeError` or `ValueError`.
        """
        ...

    def read(self, id: str, /) -> list[dict[str, Any]]:
        """The records of a log, in order; none for an unknown id. A damaged log is a `ToolcastError`."""
        ...

    def claim(self, id: str, /) -> SessionLease:
        """The right to append, which one object at a time has. Raises `SessionLocked`, which says who has it."""
        ...

    def ids(self) -> list[str]:
        """The ids of all logs, in the order in which they were begun."""
        ...

    def delete(self, id: str, /) -> None:
        """Remove a log, if there is one. Raises `SessionLocked` while it is claimed."""
        ...


class SessionLease:
    """The right to append to one log, until `release()`. A claim that is forgotten, or dies, is released too."""

    __slots__ = ("__weakref__", "_release")

    def __init__(self, release: Callable[[], object]) -> None:
        self._release = finalize(self, release)

    def release(self) -> None:
        """Let others have it. Nothing happens the second time."""
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def taken(id: str, owner: int | None) -> SessionLocked:
    """The error for a log that is claimed by the process `owner`, if that is known."""
    if owner == getpid():
        return SessionLocked(f"the session {id!r} is open already, here in process {owner}: close it there first")
    who = "another process" if owner is None else f"process {owner}"
    return SessionLocked(f"the session {id!r} is open in {who}: close it there, or end that process, and try again")


# What every file system can hold as the name of a file, and no shell or path reads as something else.
_LEGAL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?", re.ASCII)
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}
"""Names that are devices on Windows, with any ending."""


def checked(id: str) -> str:
    """`id`, if it is a legal one: 1 to 100 of `A-Z a-z 0-9 . _ -`, at its ends no dot. Else raises `ValueError`."""
    if not _LEGAL.fullmatch(id):
        raise ValueError(
            f"{id[:120]!r} is no id of a session: use 1 to 100 letters (A-Z, a-z), digits, '_', '-' and '.', "
            "beginning with a letter or a digit, and with no '.' at the end"
        )
    if id.partition(".")[0].lower() in _RESERVED:
        raise ValueError(f"{id!r} is no id of a session: it is the name of a device on Windows; put a word before it")
    return id


def file_name(id: str) -> str:
    """The name of a file for `id`, which is another for every id also where A and a are the same to a file system."""
    return re.sub(r"[A-Z]", lambda found: f"={found[0].lower()}", checked(id))


def id_of(name: str) -> str | None:
    """The id that `file_name` made `name` from; None for any other name."""
    id = re.sub(r"=([a-z])", lambda found: found[1].upper(), name)
    return id if _LEGAL.fullmatch(id) and re.sub(r"[A-Z]", "", name) == name else None


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def as_text(data: object) -> str:
    """`data` as JSON text on one line. Half a surrogate pair becomes U+FFFD, as on its way to a model."""
    return replace_surrogates(_encode(data))


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:30]} is not a number in JSON")
    return number


def from_text(text: Any, where: str) -> Any:
    """What `as_text` made `text` from. Raises `ToolcastError`, which names `where` it stands, for anything else."""
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (TypeError, ValueError, RecursionError) as error:
        raise damaged(where, str(error)) from error


@contextmanager
def told(path: str | PathLike[str], *faults: type[Exception]) -> Generator[None]:
    """What the system says, and `faults`, as our error."""
    all_of_them: tuple[type[Exception], ...] = (OSError, *faults)
    try:
        yield
    except all_of_them as error:
        raise ToolcastError(f"the store {path} failed: {error}. Is it a store's file, free and writable?") from error


def damaged(where: str, why: str) -> ToolcastError:
    """The error for something stored that is not what a store writes."""
    return ToolcastError(f"{where} is damaged: {why}. Nothing was changed; repair it by hand, or delete the session")
