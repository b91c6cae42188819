"""`MemoryStore`: sessions that live as long as the store does.

It stores the JSON text of each record, as the other stores do: it accepts and returns the same values, and later
changes of a record have no effect. Each step is one operation on a dict or a list, so no lock is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from os import getpid
from typing import Any

from ..text.reprs import safe_repr
from .store import SessionLease, check_id, from_json_text, session_locked, to_record, to_record_text


class MemoryStore:
    """A store in memory, for tests and for sessions that are never resumed."""

    def __init__(self) -> None:
        self._logs: dict[str, list[str]] = {}
        self._owners: dict[str, object] = {}

    @safe_repr
    def __repr__(self) -> str:
        return f"MemoryStore({len(self._logs)} sessions)"

    def append(self, id: str, records: Sequence[Mapping[str, Any]], /) -> None:
        """Append `records` to a log: all or none."""
        texts = [to_record_text(record) for record in records]
        if check_id(id) and texts:
            self._logs.setdefault(id, []).extend(texts)

    def read(self, id: str, /) -> list[dict[str, Any]]:
        """Return the records of a log; none for an unknown id."""
        return [to_record(from_json_text(text, id), id) for text in self._logs.get(check_id(id), ())]

    def claim(self, id: str, /) -> SessionLease:
        """Return the exclusive right to append. Raise `SessionLocked`."""
        owner = object()
        if self._owners.setdefault(check_id(id), owner) is not owner:
            raise session_locked(id, getpid())
        return SessionLease(partial(self._owners.pop, id))

    def ids(self) -> list[str]:
        """Return the ids of all logs, oldest first."""
        return list(self._logs)

    def delete(self, id: str, /) -> None:
        """Remove a log. Raise `SessionLocked` while it is claimed."""
        with self.claim(id):
            self._logs.pop(id, None)
