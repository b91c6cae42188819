"""`Pace`: the gate that paces the requests of a job; jobs of one process with the same key share what they know.

There is one `_SharedPace` for each service, model and key, alive as long as a job uses it. Requests wait in one queue,
threads and tasks of any event loop alike. Only the first of them asks the controller; when it is admitted, it wakes the
next. A request that ends wakes the first, too. So each request costs a few wake-ups, however many wait.
"""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from threading import Lock, RLock, get_ident
from time import monotonic, time as wall_clock
from typing import Any, Final
from weakref import WeakSet, WeakValueDictionary

from ...async_support.waiters import SLICE
from ...errors import Overloaded, RateLimited, StreamInterrupted
from ...llms.request_gate import GateRequest, Passage, RequestOrigin
from ...transport.cancel_handle import current_handle
from ...transport.network import IOBackend
from ...usage import Usage
from ..errors import JobInterrupted
from .controller import Controller, LimitedBy, Permit
from .rate_limit_headers import read_limits

PATIENCE: Final = 600.0
"""The seconds for which a refused request is sent again, before its error is that of the call."""


def is_sent_again(request: GateRequest, error: BaseException | None, now: float, patience: float = PATIENCE) -> bool:
    """Return True if `request`, which ended with `error`, was refused, and is to be sent again.

    It is for `patience` seconds after the first refusal of an unbroken row of them.
    """
    if not isinstance(error, RateLimited | Overloaded):
        request.first_refusal = None
        return False
    if request.first_refusal is None:
        request.first_refusal = now
    return now - request.first_refusal + (error.retry_after or 0.0) < patience


class Pace:
    """The pacing of the requests of one job, a `RequestGate`. Thread-safe.

    Concurrency begins low, or at `max_concurrency`, and follows the service: its refusals, its latency and the
    limits that it reports. Limits by hand come on top of that, for each service, model and key; of several jobs in
    this process the strictest apply to all of them together.

    A refused request (`RateLimited`, `Overloaded`) is sent again when the service is expected to accept it, for up to
    `patience` seconds, and without counting as a retry.

    Args:
        rpm: Requests per minute.
        tpm: Tokens per minute, of input and output.
        max_concurrency: The number of requests at once.
        patience: The seconds for which a refused request is sent again.
        clock: Returns the time in seconds, for tests.
    """

    def __init__(
        self,
        *,
        rpm: float | None = None,
        tpm: float | None = None,
        max_concurrency: int | None = None,
        patience: float = PATIENCE,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.rpm: float | None = rpm
        self.tpm: float | None = tpm
        self.max_concurrency: int | None = max_concurrency
        self.patience: float = patience
        self.stopped: bool = False
        self._clock = clock
        self._shared: dict[RequestOrigin, _SharedPace] = {}

    async def enter(self, request: GateRequest, backend: IOBackend) -> Passage:
        """Wait until `request` may be sent, and return its passage.

        Raises:
            JobInterrupted: The pace is stopped.
            StreamInterrupted: The call was aborted while it waited.
        """
        self.require_running()
        shared = self._shared.get(request.origin) or self._join(request.origin)
        permit = await shared.enter(request, self, _TaskTurn if backend.concurrent else _ThreadTurn)
        return _PacedPassage(self, shared, request, permit)

    def stop(self) -> None:
        """Admit no more requests of this job, and end the waits of its requests.

        From any thread, also in a signal handler in the middle of the other methods: so it has no lock.
        """
        self.stopped = True
        for shared in self._shared.values():
            for turn in shared.turns_of(self):
                turn.interrupt()

    def require_running(self) -> None:
        """Raise `JobInterrupted` if the pace is stopped."""
        if self.stopped:
            raise JobInterrupted

    def expected_input_tokens(self, request: GateRequest) -> float:
        """Return the estimated tokens of the input, corrected by those that the model has reported."""
        shared = self._shared.get(request.origin) or self._join(request.origin)
        return shared.controller.tokens.input_tokens(request.input_tokens)

    @property
    def concurrency(self) -> int:
        """The number of requests that may be under way at once, of all jobs with the same key.

        Before the first request it is the number with which the pace begins.
        """
        if not self._shared:
            return min(Controller().concurrency, self.max_concurrency or MANY)
        return sum(shared.controller.concurrency for shared in self._shared.values())

    @property
    def in_flight(self) -> int:
        """The number of requests under way, of all jobs with the same key."""
        return sum(shared.controller.in_flight for shared in self._shared.values())

    @property
    def waiting(self) -> int:
        """The number of requests of this job that wait to be admitted."""
        return sum(len(shared.turns_of(self)) for shared in self._shared.values())

    @property
    def limited_by(self) -> LimitedBy | None:
        """The reason why no more requests are sent now; of several models, that of the first that is limited."""
        for shared in self._shared.values():
            limit = shared.limited_by(self._clock())
            if limit is not None:
                return limit
        return None

    def close(self) -> None:
        """Remove the limits of this job from those that are shared. Idempotent; a later request adds them again."""
        shared, self._shared = self._shared, {}
        for each in shared.values():
            each.leave(self)

    def _join(self, origin: RequestOrigin) -> _SharedPace:
        with _registry_lock:
            key = (os.getpid(), origin, self._clock)
            found = _registry.get(key)
            if found is None:
                found = _registry[key] = _SharedPace(self._clock)
            found.join(self)
            self._shared = {**self._shared, origin: found}
            return found


MANY: Final = 1 << 30

_registry: WeakValueDictionary[tuple[int, RequestOrigin, Callable[[], float]], _SharedPace] = WeakValueDictionary()
_registry_lock = Lock()


class _SharedPace:
    """The controller of one service, model and key, and the requests that wait for it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.controller: Controller = Controller()
        self._clock = clock
        self._jobs: WeakSet[Pace] = WeakSet()
        self._queue: deque[_ThreadTurn | _TaskTurn] = deque()
        # Held for microseconds, and never while anything waits.
        self._lock = RLock()  # a garbage collection inside it may end an abandoned request, which enters it again

    def join(self, job: Pace) -> None:
        with self._lock:
            self._jobs.add(job)
            self._set_limits()

    def leave(self, job: Pace) -> None:
        with self._lock:
            self._jobs.discard(job)
            self._set_limits()
            self._wake_first()

    def limited_by(self, now: float) -> LimitedBy | None:
        with self._lock:
            return self.controller.limited_by(now)

    def turns_of(self, job: Pace) -> list[_ThreadTurn | _TaskTurn]:
        """Return the places of the requests of `job` in the queue."""
        return [turn for turn in tuple(self._queue) if turn.job is job]

    async def enter(self, request: GateRequest, job: Pace, kind: type[_ThreadTurn | _TaskTurn]) -> Permit:
        estimate = request.input_tokens
        with self._lock:
            # A nested request goes first: the one that waits for it keeps its permit for so long.
            if not self._queue or request.nested:
                wait = self.controller.admit(estimate, request.max_tokens, self._clock(), nested=request.nested)
                if isinstance(wait, Permit):
                    return wait
            else:
                wait = None
            turn = kind(job)
            if request.nested:
                self._queue.appendleft(turn)
            else:
                self._queue.append(turn)
        try:
            while True:
                job.require_running()  # after `reset`: a later `interrupt` ends the wait
                await turn.wait(wait)
                with self._lock:
                    turn.reset()
                    wait = None
                    if self._queue[0] is turn and not job.stopped:
                        found = self.controller.admit(
                            estimate, request.max_tokens, self._clock(), nested=request.nested
                        )
                        if isinstance(found, Permit):
                            self._queue.popleft()
                            self._wake_first()
                            return found
                        wait = found
        except BaseException:
            with self._lock:
                with suppress(ValueError):  # its loop was closed
                    self._queue.remove(turn)
                self._wake_first()
            raise

    def read(self, permit: Permit, status: int, headers: Mapping[str, str]) -> None:
        readings = read_limits(headers, wall_clock())
        with self._lock:
            now = self._clock()
            if status < 300:
                self.controller.accepted(permit, now)
            if readings:
                self.controller.read(permit, readings, now)

    def end(self, permit: Permit, usage: Usage, error: BaseException | None) -> None:
        with self._lock:
            now = self._clock()
            if isinstance(error, RateLimited | Overloaded):
                self.controller.refused(permit, error.retry_after, random.random(), now)
            elif error is None:
                self.controller.accepted(permit, now)
            self.controller.ended(permit, now, usage.input_tokens, usage.output_tokens)
            self._wake_first()

    def _set_limits(self) -> None:
        jobs = tuple(self._jobs)
        self.controller.set_limits(
            [job.rpm for job in jobs if job.rpm is not None],
            [job.tpm for job in jobs if job.tpm is not None],
            [job.max_concurrency for job in jobs if job.max_concurrency is not None],
        )

    def _wake_first(self) -> None:
        # A task whose loop was closed cannot leave the queue.
        while self._queue and not self._queue[0].wake():
            self._queue.popleft()


class _PacedPassage:
    """One admitted request."""

    __slots__ = ("_pace", "_permit", "_request", "_shared")

    def __init__(self, pace: Pace, shared: _SharedPace, request: GateRequest, permit: Permit) -> None:
        self._pace = pace
        self._shared = shared
        self._request = request
        self._permit = permit

    def received(self, status: int, headers: Mapping[str, str]) -> None:
        self._shared.read(self._permit, status, headers)

    def leave(self, usage: Usage, error: BaseException | None) -> bool:
        self._shared.end(self._permit, usage, error)
        return is_sent_again(self._request, error, self._permit.sent_at, self._pace.patience)


class _ThreadTurn:
    """The place of a thread in the queue, out of which its `CancelHandle` takes it."""

    def __init__(self, job: Pace) -> None:
        self.job: Pace = job
        self._handle = current_handle()
        self._woken = Lock()
        self._woken.acquire()

    def wake(self) -> bool:
        """End the present or the next wait, from any thread. Return False if its event loop is closed."""
        with suppress(RuntimeError):  # `break_off` of another thread was first
            self._woken.release()
        return True

    def interrupt(self) -> None:
        """End the present or the next wait, also in a signal handler."""
        self.wake()

    def reset(self) -> None:
        """Forget that it was woken."""
        self._woken.acquire(blocking=False)

    async def wait(self, seconds: float | None) -> None:
        """Wait to be woken, or for `seconds`."""
        handle = self._handle
        if handle is not None:
            handle.register(self.wake)
        # In slices: a Ctrl-C just before the wait is only handled after it.
        self._woken.acquire(timeout=SLICE if seconds is None else min(seconds, SLICE))
        if handle is not None and not handle.unregister():
            raise StreamInterrupted("the request was aborted before it was sent", retryable=False)


class _TaskTurn:
    """The place of a task in the queue."""

    def __init__(self, job: Pace) -> None:
        import anyio

        from ...async_support.shielding import current_loop

        loop: Any = current_loop()
        self.job: Pace = job
        self._event = anyio.Event()
        self._thread = get_ident()
        self._soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon

    def wake(self) -> bool:
        """End the present or the next wait, from any thread. Return False if its event loop is closed."""
        # Most wakers are in the same loop, and need not wake its selector.
        wake = self._event.set if get_ident() == self._thread else partial(self._soon, self._event.set)
        try:
            wake()
        except RuntimeError:  # its loop is closed
            return False
        return True

    def interrupt(self) -> None:
        """End the present or the next wait, also in a signal handler, which may interrupt the loop's own code."""
        with suppress(RuntimeError):  # as in `wake`
            self._soon(self._event.set)

    def reset(self) -> None:
        """Forget that it was woken."""
        if self._event.is_set():
            import anyio

            self._event = anyio.Event()

    async def wait(self, seconds: float | None) -> None:
        """Wait to be woken, or for `seconds`."""
        import anyio

        with anyio.move_on_after(seconds):
            await self._event.wait()
