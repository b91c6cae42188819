"""A session as it is kept in a store: claimed by one object at a time, each time as much written as is new."""

from __future__ import annotations

from ..stores.store import Claim, Store
from .engine import Engine
from .session_log import SessionState, difference, fold, opened


class SavedSession:
    """A session in a store: claimed, and the `state` that is written there. `begun`: anything is."""

    def __init__(self, id: str, store: Store) -> None:
        self._id = id
        self._store = store
        self._claim: Claim = store.claim(id)
        try:
            records = store.read(id)
            self.state: SessionState = fold(records) if records else SessionState(id)
        except BaseException:
            self._claim.release()
            raise
        self.begun: bool = bool(records)

    @classmethod
    def new(cls, id: str, store: Store) -> SavedSession:
        """The log of a session that the store does not know."""
        saved = cls(id, store)
        if saved.begun:
            saved.close()
            raise ValueError(f"there is a session {id!r} already; Session.resume({id!r}, ...) goes on with it")
        return saved

    @classmethod
    def found(cls, id: str, store: Store) -> SavedSession:
        """The log of a session that the store knows."""
        saved = cls(id, store)
        if not saved.begun:
            saved.close()
            known = ", ".join(map(repr, store.ids()[:5])) or "none"
            raise LookupError(f"there is no session {id!r} in the store; it has: {known}")
        return saved

    def save(self, engine: Engine) -> None:
        """Write what is new."""
        began = self.state.opened or engine.llm.clock.time()
        now = engine.transcript.state(self._id, began)
        records = difference(self.state, now)
        if not self.begun:
            records.insert(0, opened(self._id, began))
        if records:
            self._store.append(self._id, records)
            self.state, self.begun = now, True

    def close(self) -> None:
        """Let others have the session."""
        self._claim.release()
