"""`SavedSession`: a session in a store, with a lease that only one object has at a time, and incremental writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...errors import SessionLocked
from ...stores.store import SessionLease, Store
from ..engine.engine import Engine
from ..engine.session_state import SessionState, difference, fold, opened_record, read_details


class SavedSession:
    """A session in a store: its lease, and the written `state` and `details`. `exists`: any record is written."""

    def __init__(self, id: str, store: Store) -> None:
        self._id = id
        self._store = store
        self._process = os.getpid()
        self._lease: SessionLease = store.claim(id)
        try:
            records = store.read(id)
            self.state: SessionState = fold(records) if records else SessionState(id)
        except BaseException:
            self._lease.release()
            raise
        self.details: dict[str, Any] = read_details(records)
        self.exists: bool = bool(records)

    @classmethod
    def new(cls, id: str, store: Store) -> SavedSession:
        """Create a session that the store does not have."""
        saved = cls(id, store)
        if saved.exists:
            saved.close()
            raise ValueError(f"there is a session {id!r} already; Session.resume({id!r}, ...) goes on with it")
        return saved

    @classmethod
    def load(cls, id: str, store: Store) -> SavedSession:
        """Open a session that the store has."""
        saved = cls(id, store)
        if not saved.exists:
            saved.close()
            raise LookupError(f"there is no session {id!r} in the store: store.ids() has the ids of all")
        return saved

    @property
    def is_in_this_process(self) -> bool:
        """True in the process that opened it, and not in a forked child."""
        return self._process == os.getpid()

    def check(self) -> None:
        """Raise `SessionLocked` in a forked child: the session belongs to its parent."""
        if not self.is_in_this_process:
            raise SessionLocked(
                f"the session {self._id!r} is open in process {self._process}, from which this one was forked: "
                "open another one here, or close it there first and then Session.resume it with a new engine"
            )

    def save(self, engine: Engine[Any, Any]) -> None:
        """Write the changes. Raises `SessionLocked` in a forked child."""
        self.check()
        began = self.state.opened or engine.llm.clock.time()
        self.write(engine.conversation.state(self._id, began))

    def write(self, now: SessionState, details: Mapping[str, Any] | None = None) -> None:
        """Write the changes that lead to the state `now` and to these details: all of them, or none."""
        self.check()
        records = difference(self.state, now)
        changed = {name: value for name, value in (details or {}).items() if self.details.get(name) != value}
        if records and not self.exists:
            records.insert(0, opened_record(self._id, now.opened, self.details))
        if changed and (records or self.exists):
            records.append(opened_record(self._id, now.opened, changed))
        if records:
            self._store.append(self._id, records)
            self.state, self.exists = now, True
        self.details |= changed

    def describe(self, details: Mapping[str, Any]) -> None:
        """Write these details, once the session has any record. Raises `SessionLocked` in a forked child."""
        self.check()
        changed = {name: value for name, value in details.items() if self.details.get(name) != value}
        if changed and self.exists:
            self._store.append(self._id, [opened_record(self._id, self.state.opened, changed)])
        self.details |= changed

    def close(self) -> None:
        """Release the lease. In a forked child, do nothing."""
        if self.is_in_this_process:
            self._lease.release()
