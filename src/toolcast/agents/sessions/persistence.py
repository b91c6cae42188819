"""A session as it is kept in a store: claimed by one object at a time, each time as much written as is new."""

from __future__ import annotations

from os import getpid

from ...errors import SessionLocked
from ...stores.store import SessionLease, Store
from ..engine.engine import Engine
from ..engine.session_state import SessionState, difference, fold, opened


class SavedSession:
    """A session in a store: claimed, and the `state` that is written there. `begun`: anything is."""

    def __init__(self, id: str, store: Store) -> None:
        self._id = id
        self._store = store
        self._process = getpid()
        self._claim: SessionLease = store.claim(id)
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

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that has claimed it, and not a forked child."""
        return self._process == getpid()

    def check(self) -> None:
        """Raise `SessionLocked` in a forked child: the session is its parent's."""
        if not self.is_ours:
            raise SessionLocked(
                f"the session {self._id!r} is open in process {self._process}, from which this one was forked: "
                "open another one here, or close it there first and then Session.resume it with a new engine"
            )

    def save(self, engine: Engine) -> None:
        """Write what is new. Raises `SessionLocked` in a forked child."""
        self.check()
        began = self.state.opened or engine.llm.clock.time()
        now = engine.transcript.state(self._id, began)
        records = difference(self.state, now)
        if records:
            if not self.begun:
                records.insert(0, opened(self._id, began))
            self._store.append(self._id, records)
            self.state, self.begun = now, True

    def close(self) -> None:
        """Let others have the session. A forked child has nothing to let go of."""
        if self.is_ours:
            self._claim.release()
