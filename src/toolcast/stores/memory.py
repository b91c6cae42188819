"""`MemoryStore`: sessions that live as long as the store does.

It keeps the JSON text of each record, as the others do: it takes and gives what they take and give, and nobody can
change a record afterwards. Each step is one operation of a dict or a list, so no lock is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from os import getpid
from typing import Any

from .store import SessionLease, as_text, checked, from_text, taken


class MemoryStore:
    """A store in memory, for tests and for sessions that nobody resumes."""

    def __init__(self) -> None:
        self._logs: dict[str, list[str]] = {}
        self._owners: dict[str, object] = {}

    def append(self, id: str, records: Sequence[Mapping[str, Any]], /) -> None:
        """Write `records` at the end of a log: all or none."""
        texts = [as_text(dict(record)) for record in records]
        if checked(id) and texts:
            self._logs.setdefault(id, []).extend(texts)

    def read(self, id: str, /) -> list[dict[str, Any]]:
        """The records of a log; none for an unknown id."""
        return [from_text(text, f"a record of {id}") for text in self._logs.get(checked(id), ())]

    def claim(self, id: str, /) -> SessionLease:
        """The right to append. Raises `SessionLocked`."""
        owner = object()
        if self._owners.setdefault(checked(id), owner) is not owner:
            raise taken(id, getpid())
        return SessionLease(partial(self._owners.pop, id))

    def ids(self) -> list[str]:
        """The ids of all logs, the oldest first."""
        return list(self._logs)

    def delete(self, id: str, /) -> None:
        """Remove a log. Raises `SessionLocked` while it is claimed."""
        with self.claim(id):
            self._logs.pop(id, None)
