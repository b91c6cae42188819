"""`SessionTurn`: one turn of a session, run in the background, with others waiting for its end.

Code that the turn itself needs must not wait for it: one of its tools, or the thread of its event loop. So a context
variable, which tools inherit in every thread, has the turns around the current code. A turn whose event loop is closed,
or whose thread is in the parent of a forked process, is lost: no code continues it, and a caller that waits for its end
has to end it.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from threading import Lock, get_ident
from time import monotonic
from typing import Any, Final

from ...async_support.broadcast import Broadcast
from ...async_support.waiters import Waiters
from ...events import AgentEvent
from ...values.turn import Turn
from ..engine.turn_loop import TurnLoop

GRACE: Final = 5.0
"""Seconds that a cancelled turn has to end, before a caller stops waiting for it."""

POLL_SECONDS: Final = 1.0
"""Seconds after which a thread that waits looks whether the turn's event loop is still open."""

_current_turns: ContextVar[tuple[SessionTurn, ...]] = ContextVar(
    "turns of sessions that this code is part of", default=()
)


class SessionTurn:
    """A turn that runs in a thread of its own, or (`concurrent`) in the current event loop.

    It has a `turn_loop` from the moment at which it is the session's turn.
    """

    turn_loop: TurnLoop

    def __init__(self, *, concurrent: bool = False) -> None:
        self.concurrent: bool = concurrent
        self.process: int = os.getpid()
        self.events: Broadcast[AgentEvent] = Broadcast()
        self.done: bool = False
        self.error: BaseException | None = None  # if it is not the turn loop's
        self._thread = get_ident()
        self._loop = _closable_event_loop() if concurrent else None
        self._claim = Lock()
        self._deadline: float | None = None
        self._waiters = Waiters()

    def claim(self) -> bool:
        """Return True for the first caller, which is to work on the turn."""
        return self._claim.acquire(blocking=False)

    @property
    def grace(self) -> float:
        """The seconds that the turn still has to end. They begin with the first access, so no caller waits twice."""
        now = monotonic()
        if self._deadline is None:
            self._deadline = now + GRACE
        return max(self._deadline - now, 0.0)

    @contextmanager
    def as_current(self) -> Generator[None]:
        """Mark the code inside, and threads and tasks started there, as part of the turn."""
        before = _current_turns.set((*_current_turns.get(), self))
        try:
            yield
        finally:
            _current_turns.reset(before)

    def end(self) -> None:
        """Mark the turn as done and wake those that wait."""
        self.done, self._loop = True, None
        self.events.close()
        self._waiters.wake()

    @property
    def is_current(self) -> bool:
        """True if the current code is part of the turn: one of its tools, an observer."""
        return self in _current_turns.get()

    @property
    def would_deadlock(self) -> bool:
        """True if the turn needs the current thread, or the current code is part of it."""
        if self.done or self.is_lost:
            return False
        return self.is_current or (self.concurrent and self._thread == get_ident())

    @property
    def is_in_this_process(self) -> bool:
        """True if the turn was begun in this process, and not in its parent."""
        return self.process == os.getpid()

    @property
    def is_lost(self) -> bool:
        """True if no code will ever continue the turn."""
        loop = self._loop
        return not self.is_in_this_process or (loop is not None and loop.is_closed())

    @property
    def is_stranded(self) -> bool:
        """True if no code continues the turn at the moment: its event loop has stopped."""
        loop = self._loop
        return self.is_lost or (loop is not None and not loop.is_running())

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread until the end, or for `timeout` seconds; return True if the turn has ended or is lost."""
        if self.would_deadlock:
            raise RuntimeError("the turn would wait for itself here: `await aresult()`, and not in one of its tools")
        if not self.concurrent:
            return self._waiters.block(self._has_ended, timeout)
        until = inf if timeout is None else monotonic() + timeout
        while not self._waiters.block(self._has_ended, min(POLL_SECONDS, until - monotonic())):
            if monotonic() >= until:
                return False
        return True

    async def join(self) -> None:
        """Wait for the end, unless the turn is lost. Cancelling this call cancels only the waiting."""
        await self._waiters.suspend(self._has_ended)

    def result(self) -> Turn[Any]:
        """Return the turn that has ended; raise what ended it, or why it could not be saved."""
        error = self.error or self.turn_loop.error
        if error is not None:
            raise error
        return self.turn_loop.turn

    def _has_ended(self) -> bool:
        return self.done or self.is_lost


def _closable_event_loop() -> Any:
    """Return the current event loop; None for trio's, which ends its tasks before it ends."""
    from ...async_support.shielding import current_loop

    loop = current_loop()
    return loop if hasattr(loop, "is_closed") else None
