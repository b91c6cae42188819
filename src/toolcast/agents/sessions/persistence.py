"""`SavedSession`: a session in a store, with a lease that only one object has at a time, and incremental writes."""

from __future__ import annotations

import os

from ...errors import SessionLocked
from ...stores.store import SessionLease, Store
from ..engine.engine import Engine
from ..engine.session_state import SessionState, difference, fold, opened_record


class SavedSession:
    """A session in a store: the lease, and the `state` that is written there. `exists`: any record is."""

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
            ids = ", ".join(map(repr, store.ids()[:5])) or "none"
            raise LookupError(f"there is no session {id!r} in the store; it has: {ids}")
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

    def save(self, engine: Engine) -> None:
        """Write the changes. Raises `SessionLocked` in a forked child."""
        self.check()
        began = self.state.opened or engine.llm.clock.time()
        now = engine.conversation.state(self._id, began)
        records = difference(self.state, now)
        if records:
            if not self.exists:
                records.insert(0, opened_record(self._id, began))
            self._store.append(self._id, records)
            self.state, self.exists = now, True

    def close(self) -> None:
        """Release the lease. In a forked child, do nothing."""
        if self.is_in_this_process:
            self._lease.release()
