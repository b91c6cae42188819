"""`ConcurrencyLimiter`: at most `max_concurrency` responses of one LLM at once; further requests wait in order.

Threads and tasks, of any number of event loops, wait in one queue. There is no lock: slots and waiters are in deques,
whose operations are atomic, so a slot can be released from anywhere, also by a garbage collection. Each operation that
adds a slot or a waiter pairs slots with waiters until one of the two deques is empty. A slot is assigned by putting it
into the waiter's `box`; taking it out is atomic, so a slot that is assigned to a leaving waiter is not lost.

A waiting thread cannot release its slots. If every slot belongs to a thread that waits here, this is a deadlock, and
the last one raises `LimitExceeded`. A task may wait in spite of its own open stream: another task may close that one.
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
from .call_state import CallState, DirectReads, ResponseEvents

_LATE = "max_concurrency responses of this LLM were under way and none ended in time; raise max_concurrency or timeout"
_STUCK = (
    "deadlock: max_concurrency responses are being read in threads that would wait here for each other, "
    "this one among them; close their streams first, or raise max_concurrency"
)


class LimitedEvents:
    """The events of one response, which waits for a slot before its request is sent."""

    def __init__(
        self,
        source: ResponseEvents,
        limiter: ConcurrencyLimiter,
        backend: IOBackend,
        call: CallState,
        origin: Mapping[str, Any],
    ) -> None:
        self._source = source
        self._limiter = limiter
        self._backend = backend
        self._call = call
        self._origin = origin
        self._waiter: Waiter | None = None
        self._broken = False

    @property
    def request_id(self) -> str | None:
        """The service's id of the request."""
        return self._source.request_id

    async def next_events(self) -> list[Event]:
        """Return the next events, after waiting for a slot, or an empty list at the end."""
        try:
            waiter = self._waiter or await self._enter()
            # The thread that reads, not the one that opened the stream, is the one that could release the slot.
            waiter.thread = get_ident()
            events = await self._source.next_events()
        except BaseException:
            self._leave()
            raise
        # The slot is free from the last event on: a caller may keep the exhausted stream as long as it likes.
        if not events or type(events[-1]) is Finish:
            self._leave()
        return events

    def direct_reads(self, id: str) -> DirectReads | None:
        """Return the direct reads of the response."""
        reads, waiter = self._source.direct_reads(id), self._waiter
        # A task stays in its thread; a sync stream may be passed on to another one between two reads.
        if reads is None or waiter is None or self._backend.concurrent:
            return reads
        return _LimitedReads(reads, waiter)

    async def close(self) -> None:
        """Stop and release the slot."""
        try:
            await self._source.close()
        finally:
            self._leave()

    def break_off(self) -> None:
        """Abort the `next_events` of another thread, which waits for a slot or for the response."""
        self._broken = True
        self._source.break_off()
        waiter = self._waiter
        if waiter is not None and not waiter.box:
            waiter.slots.leave(waiter)

    def __del__(self) -> None:
        self._leave()

    async def _enter(self) -> Waiter:
        """Wait for a slot, and return its waiter."""
        kind = TaskWaiter if self._backend.concurrent else Waiter
        self._waiter = waiter = kind(self._limiter.here())
        waiter.slots.enter(waiter)
        # `break_off` may have come before there was a waiter that it could have removed.
        if self._broken:
            waiter.slots.leave(waiter)
        deadline, now = self._call.deadline, self._backend.now
        try:
            if not waiter.box and self._call.gate is not None:
                # The wait for a slot is like the one in the gate: not the service's, and for as long as the job likes.
                began = now()
                await waiter.wait(None)
                self._call.postpone(now() - began)
            elif not waiter.box:
                await waiter.wait(None if deadline is None else max(deadline - now(), 0))
            if not waiter.box:
                raise (
                    StreamClosed("closed while the request waited for max_concurrency")
                    if waiter.gone
                    else Timeout(_LATE)
                )
        except CallError as error:
            error.provider, error.model = self._origin["provider"], self._origin["model"]
            self._call.with_attempts(error)
            raise
        return waiter

    def _leave(self) -> None:
        if self._waiter is not None:
            self._waiter.slots.leave(self._waiter)


class _LimitedReads:
    """The direct reads of a sync response, which record the reading thread for the detection of deadlocks."""

    __slots__ = ("_time_left", "_waiter", "accept", "put_back", "read")

    def __init__(self, reads: DirectReads, waiter: Waiter) -> None:
        self.read = reads.read
        self.accept = reads.accept
        self.put_back = reads.put_back
        self._time_left = reads.time_left
        self._waiter = waiter

    def time_left(self) -> float | None:
        self._waiter.thread = get_ident()
        return self._time_left()


class ConcurrencyLimiter:
    """The slots of one LLM: `limit` in each process. A forked child does not wait for its parent's threads."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"max_concurrency={limit} must be at least 1, or None for no limit")
        self.limit: int = limit
        self._slots: dict[int, Slots] = {}

    def here(self) -> Slots:
        """Return the slots of this process."""
        pid = os.getpid()
        return self._slots.get(pid) or self._slots.setdefault(pid, Slots(self.limit))


class Waiter:
    """A thread's entry in the queue; `box` contains its slot. `thread` is the last thread that used it."""

    def __init__(self, slots: Slots) -> None:
        self.slots: Slots = slots
        self.box: deque[int] = deque()
        self.gone: bool = False
        self.thread: int = get_ident()
        self._lock = Lock()
        self._lock.acquire()

    async def wait(self, seconds: float | None) -> None:
        """Wait for `end_wait`. Raise `LimitExceeded` for a deadlock."""
        blocked = self.slots.blocked
        # Registered before the check: of two threads that begin to wait at once, at least one sees the other.
        blocked[self.thread] = self
        try:
            if self.slots.are_stuck:
                raise LimitExceeded(_STUCK)
            self._lock.acquire(timeout=-1 if seconds is None else min(seconds, TIMEOUT_MAX))
        finally:
            blocked.pop(self.thread, None)

    def end_wait(self) -> None:
        """Wake the waiter. From any thread, once."""
        self._lock.release()


class TaskWaiter(Waiter):
    """A task's entry in the queue, in the running event loop."""

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
        """Wake the task."""
        try:
            self._soon(self._event.set)
        except RuntimeError:  # its event loop is closed
            self.gone = True


class Slots:
    """The slots of one process, and the waiters for one."""

    def __init__(self, limit: int) -> None:
        self._holders: list[Waiter | None] = [None] * limit
        self._free = deque(range(limit))
        self._queue: deque[Waiter] = deque()
        self.blocked: dict[int, Waiter] = {}  # the waiting threads and their waiters

    @property
    def free(self) -> int:
        """The number of free slots."""
        return len(self._free)

    @property
    def holders(self) -> list[Waiter]:
        """The waiters that have a slot."""
        return [waiter for waiter in self._holders if waiter is not None]

    @property
    def in_progress(self) -> int:
        """The number of waiters that have a slot or wait for one."""
        return len(self._holders) - self.free + len(self._queue)

    def enter(self, waiter: Waiter) -> None:
        """Append `waiter` to the queue, and assign it a slot if one is free."""
        self._queue.append(waiter)
        self._pair()

    def leave(self, waiter: Waiter) -> None:
        """Release the slot, or leave the queue. Idempotent."""
        # Set before the queue is touched, so that `_pair` in another thread takes a slot back that comes too late.
        waiter.gone = True
        try:
            self._queue.remove(waiter)
        except ValueError:
            self._take_back(waiter)
            self._pair()
        else:
            waiter.end_wait()

    @property
    def are_stuck(self) -> bool:
        """True if every slot belongs to a thread that waits for another one, and none was assigned since."""
        held = [waiter for waiter in self.holders if waiter.box]
        waiting = [self.blocked.get(waiter.thread) for waiter in held]
        return len(held) == len(self._holders) and not any(waiter is None or waiter.box for waiter in waiting)

    def _pair(self) -> None:
        while self._queue:
            try:
                slot = self._free.popleft()
            except IndexError:
                return
            try:
                waiter = self._holders[slot] = self._queue.popleft()
            except IndexError:  # the waiter left, or another thread took it
                self._free.append(slot)
                continue
            waiter.box.append(slot)
            waiter.end_wait()
            # It left, or its loop was closed, after it was taken from the queue; `box.pop` decides who frees the slot.
            if waiter.gone:
                self._take_back(waiter)

    def _take_back(self, waiter: Waiter) -> None:
        with suppress(IndexError):
            slot = waiter.box.pop()
            self._holders[slot] = None
            self._free.append(slot)
