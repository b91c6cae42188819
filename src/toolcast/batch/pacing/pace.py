"""`Pace`: the gate that paces the requests of a job; jobs of one process with the same key share what they know.

There is one `_SharedPace` for each service, model and key, alive as long as a job uses it, with one queue of requests.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from math import ceil
from threading import Lock
from time import monotonic, time as wall_clock
from typing import Final
from weakref import WeakSet, WeakValueDictionary

from ...errors import Overloaded, RateLimited
from ...llms.request_gate import GateRequest, Passage, RequestOrigin
from ...text.reprs import safe_repr
from ...transport.network import IOBackend
from ...values.usage import Usage
from ..job_errors import WaitTooLong
from .rate_controller import Controller, LimitedBy, Permit
from .rate_limit_headers import read_limits
from .request_queue import QueuedGate, RequestQueue

_REFUSALS: Final = (RateLimited, Overloaded)  # `RateLimited | Overloaded` makes a union each time

_LINE_AFTER: Final = 60.0  # seconds: a shorter wait is no news

logger: Final = logging.getLogger("toolcast")


class Pace(QueuedGate):
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
        patience: The seconds for which a refused request is sent again, before its error is that of the call.
        clock: Returns the time in seconds, for tests.
    """

    def __init__(
        self,
        *,
        rpm: float | None = None,
        tpm: float | None = None,
        max_concurrency: int | None = None,
        patience: float = 600.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__()
        self.rpm: float | None = rpm
        self.tpm: float | None = tpm
        self.max_concurrency: int | None = max_concurrency
        self.patience: float = patience
        self._clock = clock
        self._shared: tuple[tuple[RequestOrigin, _SharedPace], ...] = ()

    @safe_repr
    def __repr__(self) -> str:
        return f"Pace(rpm={self.rpm}, tpm={self.tpm}, max_concurrency={self.max_concurrency})"

    async def enter(self, request: GateRequest, backend: IOBackend) -> Passage:
        """Wait until `request` may be sent, and return its passage.

        Raises:
            JobInterrupted: The pace is stopped.
            StreamInterrupted: The call was aborted while it waited.
            WaitTooLong: The service takes no more requests for longer than `patience`.
        """
        shared = self._shared_by(request.origin)
        permit = shared.admit(request, self) or await shared.enter(request, self, backend)
        return _PacedPassage(self, shared, request, permit)

    def stop(self) -> None:
        """Admit no more requests of this job, and end the waits of its requests.

        From any thread, also in a signal handler in the middle of the other methods.
        """
        self.stopped = True
        for _, shared in self._shared:
            shared.queue.interrupt(self)

    def expected_input_tokens(self, request: GateRequest) -> float:
        """Return the estimated tokens of the input, corrected by those that the model has reported."""
        shared = self._shared_by(request.origin)
        return shared.controller.tokens.input_tokens(request.input_tokens)

    @property
    def concurrency(self) -> int:
        """The number of requests that may be under way at once, of all jobs with the same key.

        Before the first request it is the number with which the pace begins.
        """
        if not self._shared:
            return min(Controller().concurrency, self.max_concurrency or MANY)
        return sum(shared.controller.concurrency for _, shared in self._shared)

    @property
    def in_flight(self) -> int:
        """The number of requests under way, of all jobs with the same key."""
        return sum(shared.controller.in_flight for _, shared in self._shared)

    @property
    def waiting(self) -> int:
        """The number of requests of this job that wait to be admitted."""
        return sum(shared.queue.waiting(self) for _, shared in self._shared)

    @property
    def limited_by(self) -> LimitedBy | None:
        """The reason why no more requests are sent now; of several models, that of the first that is limited."""
        for _, shared in self._shared:
            limit = shared.limited_by(self._clock())
            if limit is not None:
                return limit
        return None

    def close(self) -> None:
        """Remove the limits of this job from those that are shared. Idempotent; a later request adds them again."""
        shared, self._shared = self._shared, ()
        for _, each in shared:
            each.leave(self)

    def _shared_by(self, origin: RequestOrigin) -> _SharedPace:
        for known, shared in self._shared:  # one or a few; a dict would compute the hash for each request
            if known is origin or known == origin:
                return shared
        return self._join(origin)

    def _join(self, origin: RequestOrigin) -> _SharedPace:
        with _registry_lock:
            key = (os.getpid(), origin, self._clock)
            found = _registry.get(key)
            if found is None:
                found = _registry[key] = _SharedPace(self._clock)
            found.join(self)
            if all(shared is not found for _, shared in self._shared):  # another thread may have been first
                self._shared = (*self._shared, (origin, found))
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
        self.queue: RequestQueue = RequestQueue()
        self._logged_until = clock()  # the time until which a line has it that the jobs wait

    def join(self, job: Pace) -> None:
        with self.queue.lock:
            self._jobs.add(job)
            self._set_limits()

    def leave(self, job: Pace) -> None:
        with self.queue.lock:
            self._jobs.discard(job)
            self._set_limits()
            self.queue.wake_first()

    def limited_by(self, now: float) -> LimitedBy | None:
        with self.queue.lock:
            return self.controller.limited_by(now)

    def admit(self, request: GateRequest, job: Pace) -> Permit | None:
        """Return a permit if the request need not wait: most need not, and this saves them what a wait needs."""
        job.require_running()
        estimate, nested = request.input_tokens, request.nested
        with self.queue.lock:
            if self.queue and not nested:
                return None
            found = self.controller.admit(estimate, request.max_tokens, self._clock(), nested=nested)
        return found if isinstance(found, Permit) else None

    async def enter(self, request: GateRequest, job: Pace, backend: IOBackend) -> Permit:
        estimate, nested = request.input_tokens, request.nested
        began: float | None = None  # the wait for what the service has announced

        def admit() -> Permit | float | None:
            nonlocal began
            now = self._clock()
            found = self.controller.admit(estimate, request.max_tokens, now, nested=nested)
            if found is None or isinstance(found, Permit) or (announced := self.controller.announced(now)) <= 0:
                return found
            began = now if began is None else began
            left = began + job.patience - now
            origin = request.origin
            what = f"{origin.provider} takes no more requests for {origin.model} in the next {_text(announced)}"
            if left <= 0:
                raise WaitTooLong(
                    f"{what}, as its headers and refusals say, and the job waits {_text(job.patience)} at most. "
                    "Run it again after that time; a checkpoint keeps what is done"
                )
            if now + announced > self._logged_until + _LINE_AFTER:
                self._logged_until = now + announced
                logger.warning("%s: the job waits", what)
            return min(found, left)

        return await self.queue.enter(job, admit, backend, nested=nested)

    def read(self, permit: Permit, status: int, headers: Mapping[str, str]) -> None:
        readings = read_limits(headers, wall_clock())
        with self.queue.lock:
            now = self._clock()
            if status < 300:
                self.controller.accepted(permit, now)
            if readings:
                self.controller.read(permit, readings, now)

    def end(self, permit: Permit, usage: Usage, error: BaseException | None) -> None:
        with self.queue.lock:
            now = self._clock()
            if isinstance(error, _REFUSALS):
                self.controller.refused(permit, error.retry_after, random.random(), now)
            elif error is None:
                self.controller.accepted(permit, now)
            self.controller.ended(permit, now, usage.input_tokens, usage.output_tokens)
            self.queue.wake_first()

    def _set_limits(self) -> None:
        jobs = tuple(self._jobs)
        self.controller.set_limits(
            [job.rpm for job in jobs if job.rpm is not None],
            [job.tpm for job in jobs if job.tpm is not None],
            [job.max_concurrency for job in jobs if job.max_concurrency is not None],
        )


def _text(seconds: float) -> str:
    return str(timedelta(seconds=ceil(min(seconds, MANY))))


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
        request, now = self._request, self._permit.sent_at
        if not isinstance(error, _REFUSALS):
            request.first_refusal = None
            return False
        if request.first_refusal is None:
            request.first_refusal = now
        return now - request.first_refusal + (error.retry_after or 0.0) < self._pace.patience
