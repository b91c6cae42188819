"""One turn of a session: it goes on by itself, and others wait for its end.

Whoever waits where the turn needs him to go on would wait for ever: one of its tools, or the thread of its event loop.
So a turn knows what is done within it, by a context variable, which tools see in whatever thread they run. And nobody
goes on with a turn whose event loop is closed, or whose thread is in the process that this one was forked from: it is
lost, and whoever asks for its end has to end it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from os import getpid
from threading import Lock, get_ident
from time import monotonic
from typing import Any, Final

from ...async_support.broadcast import Broadcast
from ...async_support.waiters import Waiters
from ...events import AgentEvent
from ...turn import Turn
from ..engine.turn_loop import TurnFlow

GRACE: Final = 5.0
"""Seconds that a turn has to end, where somebody waits for it who has cancelled it."""

LOOK: Final = 1.0
"""Seconds after which a thread that waits looks whether the turn's event loop is still open."""

_around: ContextVar[tuple[SessionTurn, ...]] = ContextVar("turns of sessions that this code is part of", default=())


class SessionTurn:
    """A turn that goes on by itself: in a thread of its own, or (`concurrent`) in the event loop that runs here.

    It has a `flow` from the moment on at which it is the session's turn.
    """

    flow: TurnFlow

    def __init__(self, *, concurrent: bool = False) -> None:
        self.concurrent: bool = concurrent
        self.process: int = getpid()
        self.events: Broadcast[AgentEvent] = Broadcast()
        self.done: bool = False
        self.error: BaseException | None = None  # where it is not the flow's
        self._thread = get_ident()
        self._loop = _loop_that_may_leave_it() if concurrent else None
        self._free = Lock()
        self._until: float | None = None
        self._waiters = Waiters()

    def taken(self) -> bool:
        """Whether it is for who asks to work on it: for the first."""
        return self._free.acquire(blocking=False)

    @property
    def grace(self) -> float:
        """Seconds that it still has to end. They begin when first asked for, so that nobody waits twice."""
        now = monotonic()
        if self._until is None:
            self._until = now + GRACE
        return max(self._until - now, 0.0)

    @contextmanager
    def around(self) -> Generator[None]:
        """What is done inside, and by threads and tasks that are started there, is part of the turn."""
        before = _around.set((*_around.get(), self))
        try:
            yield
        finally:
            _around.reset(before)

    def end(self) -> None:
        """Have everybody know that it is over."""
        self.done, self._loop = True, None
        self.events.close()
        self._waiters.wake()

    @property
    def is_around(self) -> bool:
        """Whether who asks is part of the turn: one of its tools, an observer."""
        return self in _around.get()

    @property
    def would_wait_for_itself(self) -> bool:
        """Whether the turn needs the thread that asks, or what is done there."""
        if self.done or self.is_lost:
            return False
        return self.is_around or (self.concurrent and self._thread == get_ident())

    @property
    def is_ours(self) -> bool:
        """Whether it was begun in this process, and not in the one that this was forked from."""
        return self.process == getpid()

    @property
    def is_lost(self) -> bool:
        """Whether nobody will ever go on with it."""
        loop = self._loop
        return not self.is_ours or (loop is not None and loop.is_closed())

    @property
    def is_stranded(self) -> bool:
        """Whether nobody goes on with it now: its event loop has stopped."""
        loop = self._loop
        return self.is_lost or (loop is not None and not loop.is_running())

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread until the end, or for `timeout` seconds. Gives whether the turn has ended, or is lost."""
        if self.would_wait_for_itself:
            raise RuntimeError("the turn would wait for itself here: `await aresult()`, and not in one of its tools")
        if not self.concurrent:
            return self._waiters.block(self._is_over, timeout)
        until = inf if timeout is None else monotonic() + timeout
        while not self._waiters.block(self._is_over, min(LOOK, until - monotonic())):
            if monotonic() >= until:
                return False
        return True

    async def join(self) -> None:
        """Wait for the end, unless it is lost. Being cancelled here cancels nothing but the waiting."""
        await self._waiters.suspend(self._is_over)

    def result(self) -> Turn[Any]:
        """The turn that has ended; raises what ended it, or that it could not be saved."""
        error = self.error or self.flow.error
        if error is not None:
            raise error
        return self.flow.turn

    def _is_over(self) -> bool:
        return self.done or self.is_lost


def _loop_that_may_leave_it() -> Any:
    """The event loop that runs here; None for trio's, which ends its tasks before it ends."""
    from ...async_support.shielding import current_loop

    loop = current_loop()
    return loop if hasattr(loop, "is_closed") else None
