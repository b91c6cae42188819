"""At most so many answers of one LLM under way at once; who comes later waits for a turn, in order.

Threads and tasks, of any number of event loops, wait in one queue. There is no lock: slots and turns lie in deques,
whose steps are atomic, so a slot can be given back from anywhere, by a garbage collection too. Whoever brings a
slot or a turn pairs slots with turns until one of the two has run out. A slot is handed over in a box of its turn,
and belongs to whoever takes it out: one that is handed to somebody who is just leaving is not lost.

A thread that waits cannot give back what it holds. If every slot is held by threads that wait here, nobody gets on,
and the last to come is told so. A task may wait for a stream of its own: another task may yet close that one.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from threading import TIMEOUT_MAX, Lock, get_ident
from typing import Any

from ..errors import CallError, LimitExceeded, StreamClosed, Timeout
from ..events import Event, Finish
from ..transport.network import IOBackend
from .request_state import RequestState, ResponseEvents

_LATE = "too many answers of this LLM were under way, and none ended in time; allow more max_concurrency, or more time"
_STUCK = (
    "as many answers as max_concurrency allows are being read in threads that would wait here for each other, "
    "this one among them; close their streams first, or allow more"
)


class LimitedEvents:
    """The events of one answer that waits for its turn before it begins."""

    def __init__(
        self,
        source: ResponseEvents,
        limiter: ConcurrencyLimiter,
        backend: IOBackend,
        call: RequestState,
        origin: Mapping[str, Any],
    ) -> None:
        self._source = source
        self._limiter = limiter
        self._backend = backend
        self._call = call
        self._origin = origin
        self._turn: Waiter | None = None
        self._broken = False

    @property
    def request_id(self) -> str | None:
        """The service's name for the request."""
        return self._source.request_id

    async def next_events(self) -> list[Event]:
        """The next events, the first of them when it is this answer's turn; an empty list at the end."""
        try:
            turn = self._turn or await self._enter()
            turn.thread = get_ident()
            events = await self._source.next_events()
        except BaseException:
            self._leave()
            raise
        if not events or type(events[-1]) is Finish:
            self._leave()
        return events

    async def close(self) -> None:
        """Stop, and let the next one begin."""
        try:
            await self._source.close()
        finally:
            self._leave()

    def break_off(self) -> None:
        """End what a thread waits for in `pull`: its turn, or the answer."""
        self._broken = True
        self._source.break_off()
        turn = self._turn
        if turn is not None and not turn.box:
            turn.slots.leave(turn)

    def __del__(self) -> None:
        self._leave()

    async def _enter(self) -> Waiter:
        """The turn, once it has come."""
        kind = TaskWaiter if self._backend.concurrent else Waiter
        self._turn = turn = kind(self._limiter.here())
        turn.slots.enter(turn)
        if self._broken:
            turn.slots.leave(turn)
        deadline = self._call.deadline
        try:
            if not turn.box:
                await turn.wait(None if deadline is None else max(deadline - self._backend.now(), 0))
            if not turn.box:
                raise StreamClosed("closed while it waited for its turn") if turn.gone else Timeout(_LATE)
        except CallError as error:
            error.provider, error.model = self._origin["provider"], self._origin["model"]
            self._call.with_attempts(error)
            raise
        return turn

    def _leave(self) -> None:
        if self._turn is not None:
            self._turn.slots.leave(self._turn)


class ConcurrencyLimiter:
    """The turns of one LLM: `limit` at once, in each process. A forked child does not wait for its parent's threads."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"max_concurrency={limit} must be at least 1, or None for no limit")
        self._limit = limit
        self._slots: dict[int, Slots] = {}

    def here(self) -> Slots:
        """The slots of this process."""
        pid = os.getpid()
        return self._slots.get(pid) or self._slots.setdefault(pid, Slots(self._limit))


class Waiter:
    """A thread's place in the queue, and then its slot, in `box`. `thread` is where it was last worked on."""

    def __init__(self, slots: Slots) -> None:
        self.slots: Slots = slots
        self.box: deque[int] = deque()
        self.gone: bool = False
        self.thread: int = get_ident()
        self._lock = Lock()
        self._lock.acquire()

    async def wait(self, seconds: float | None) -> None:
        """Wait for `end_wait`. Raises `LimitExceeded` where it would never come."""
        blocked = self.slots.blocked
        blocked[self.thread] = self
        try:
            if self.slots.are_stuck:
                raise LimitExceeded(_STUCK)
            self._lock.acquire(timeout=-1 if seconds is None else min(seconds, TIMEOUT_MAX))
        finally:
            blocked.pop(self.thread, None)

    def end_wait(self) -> None:
        """Have the one that waits look again. From any thread, once."""
        self._lock.release()


class TaskWaiter(Waiter):
    """A task's place, in the event loop that runs here."""

    def __init__(self, slots: Slots) -> None:
        import anyio

        from ..async_support.shielding import current_loop

        super().__init__(slots)
        self._event = anyio.Event()
        loop = current_loop()
        self._soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon

    async def wait(self, seconds: float | None) -> None:
        """Wait for `end_wait`."""
        import anyio

        with anyio.move_on_after(seconds):
            await self._event.wait()

    def end_wait(self) -> None:
        """Have the task look again."""
        try:
            self._soon(self._event.set)
        except RuntimeError:  # its event loop is closed
            self.gone = True


class Slots:
    """The slots, by number, and the turns that wait for one."""

    def __init__(self, limit: int) -> None:
        self._holders: list[Waiter | None] = [None] * limit
        self._free = deque(range(limit))
        self._queue: deque[Waiter] = deque()
        self.blocked: dict[int, Waiter] = {}  # the threads that wait, and for what

    def enter(self, turn: Waiter) -> None:
        """Take the last place of the queue, and perhaps a slot at once."""
        self._queue.append(turn)
        self._pair()

    def leave(self, turn: Waiter) -> None:
        """Give back the slot, or the place in the queue. Harmless when repeated."""
        turn.gone = True
        try:
            self._queue.remove(turn)
        except ValueError:
            self._take_back(turn)
            self._pair()
        else:
            turn.end_wait()

    @property
    def are_stuck(self) -> bool:
        """Whether every slot is held by a thread that waits for another, and was not given one just now."""
        held = [turn for turn in self._holders if turn is not None and turn.box]
        waiting = [self.blocked.get(turn.thread) for turn in held]
        return len(held) == len(self._holders) and not any(turn is None or turn.box for turn in waiting)

    def _pair(self) -> None:
        while self._queue:
            try:
                slot = self._free.popleft()
            except IndexError:
                return
            try:
                turn = self._holders[slot] = self._queue.popleft()
            except IndexError:  # somebody left, or was faster
                self._free.append(slot)
                continue
            turn.box.append(slot)
            turn.end_wait()
            if turn.gone:
                self._take_back(turn)

    def _take_back(self, turn: Waiter) -> None:
        with suppress(IndexError):
            slot = turn.box.pop()
            self._holders[slot] = None
            self._free.append(slot)
