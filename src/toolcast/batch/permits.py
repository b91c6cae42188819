"""Permits: one gate for the requests of many processes.

A `PermitDesk` runs in one process and admits requests through the gate that jobs of one process have (rate limits,
concurrency). Each worker process has a `PermitGate`, which asks it for a permit before each request and reports how the
response ended. The messages between them are batched: a worker sends at most two exchanges at once, and the second only
to bring news while the first waits for permits.

Each worker has a lease, which it renews. A worker that does not is taken for dead, and its permits are free again. Was
it only stopped for a while, it must not send on permits that others have by now: it ends its process, and with it the
requests in flight. Without its desk a worker sends nothing: every request fails with `PermitsLost`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from logging import getLogger
from threading import Event, Thread
from time import monotonic
from typing import Final, Protocol
from uuid import uuid4

from ..errors import LLMError
from ..lazy_dataclasses import dataclass
from ..llms.request_gate import NOT_SENT, GateRequest, Passage, RequestGate, RequestOrigin
from ..transport.network import IOBackend
from ..usage import Usage
from .errors import JobError
from .pacing.pace import is_sent_again

logger: Final = getLogger("toolcast")


class PermitsLost(JobError):
    """The error for a job on many machines whose permits cannot be had any more: nothing is sent without them."""


def permits_lost(error: Exception) -> PermitsLost:
    """Return the error for permits that `error` has ended."""
    lost = PermitsLost(
        f"the job was stopped, as there are no permits for its requests any more: {type(error).__name__}: {error}. "
        "Nothing is sent without them. Start the job again."
    )
    lost.__cause__ = error
    return lost


@dataclass(frozen=True, slots=True)
class PermitRequest:
    """A request for which a worker needs a permit.

    Attributes:
        number: Its number in the worker.
        origin: The service and the model, without a fingerprint of the key: it differs between processes.
        input_tokens: The estimate of its tokens.
        max_tokens: The limit of the response's tokens, if there is one.
        nested: True if another request under way waits for it.
    """

    number: int
    origin: RequestOrigin
    input_tokens: int
    max_tokens: int | None
    nested: bool


@dataclass(frozen=True, slots=True)
class PermitEnd:
    """The end of a request, or of the wait for its permit.

    Attributes:
        number: Its number in the worker.
        usage: The reported tokens.
        responses: Status and headers of its response, if one arrived.
        error: The error that ended it; only those of services are sent.
    """

    number: int
    usage: Usage
    response: tuple[int, Mapping[str, str]] | None = None
    error: LLMError | None = None


class Desk(Protocol):
    """The methods of a `PermitDesk` as a worker calls them."""

    async def exchange(
        self, worker: str, wanted: Sequence[PermitRequest], ended: Sequence[PermitEnd], *, first: bool
    ) -> list[int] | None:
        """Report and ask; return the numbers of admitted requests, or None if the lease has expired."""
        ...

    async def renew(self, worker: str) -> bool:
        """Renew the lease; return False if it has expired."""
        ...


@dataclass(slots=True)
class _Worker:
    """The lease of one worker, with its permits."""

    seen: float
    waiting: dict[int, asyncio.Task[None]] = field(default_factory=dict[int, asyncio.Task[None]])
    passages: dict[int, Passage] = field(default_factory=dict[int, Passage])
    admitted: list[int] = field(default_factory=list[int])
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    exchanges: int = 0
    error: Exception | None = None

    def wake(self) -> None:
        """Let the exchanges that wait look again."""
        self.changed.set()
        self.changed = asyncio.Event()


class PermitDesk:
    """The permits of all workers. It runs under one asyncio loop.

    Args:
        gate: The gate that admits requests.
        backend: The I/O and the clock for the gate.
        lease: Seconds after which a worker that sends nothing is taken for dead.
    """

    def __init__(self, gate: RequestGate, backend: IOBackend, lease: float) -> None:
        self._gate = gate
        self._backend = backend
        self._lease = lease
        self._workers: dict[str, _Worker] = {}

    async def exchange(
        self, worker: str, wanted: Sequence[PermitRequest], ended: Sequence[PermitEnd], *, first: bool
    ) -> list[int] | None:
        """End requests, ask for permits, and wait until some are admitted; see `Desk`.

        It returns after a third of the lease in any case, and once the worker sends another exchange.
        """
        self.expire()
        if first:
            self._replace(worker)
        lease = self._workers.get(worker)
        if lease is None:
            return None
        lease.seen = self._backend.now()
        lease.exchanges = latest = lease.exchanges + 1
        lease.wake()  # an earlier exchange that waits returns now
        for end in ended:
            self._end(lease, end)
        for wish in wanted:
            lease.waiting[wish.number] = asyncio.create_task(self._admit(lease, wish))
        await asyncio.sleep(0)  # the gate admits at once what it can
        with suppress(TimeoutError):
            async with asyncio.timeout(0 if first else self._lease / 3):  # a worker sends no second one before that
                while lease.waiting and not lease.admitted and lease.exchanges == latest:
                    await lease.changed.wait()
        if lease.error is not None:
            raise lease.error
        admitted, lease.admitted = lease.admitted, []
        return admitted

    async def renew(self, worker: str) -> bool:
        """Renew the lease; return False if it has expired."""
        self.expire()
        lease = self._workers.get(worker)
        if lease is not None:
            lease.seen = self._backend.now()
        return lease is not None

    def expire(self) -> None:
        """Free the permits of the workers whose leases have expired."""
        now = self._backend.now()
        for name in [name for name, lease in self._workers.items() if now - lease.seen > self._lease]:
            self._free(name)

    def _replace(self, worker: str) -> None:
        """Begin the lease of a process, and free the permits of the one that it was started in place of."""
        actor = worker.partition("/")[0]
        for name in [name for name in self._workers if name.partition("/")[0] == actor]:
            self._free(name)
        self._workers[worker] = _Worker(self._backend.now())

    def _free(self, worker: str) -> None:
        lease = self._workers.pop(worker)
        logger.warning("a worker is gone: the %d permits of %s are free again", len(lease.passages), worker)
        for task in lease.waiting.values():
            task.cancel()
        for passage in lease.passages.values():
            passage.leave(NOT_SENT, None)

    def count(self) -> dict[str, int]:
        """Return the numbers of workers, of admitted requests and of those that wait."""
        leases = self._workers.values()
        return {
            "workers": len(leases),
            "admitted": sum(len(lease.passages) for lease in leases),
            "waiting": sum(len(lease.waiting) for lease in leases),
        }

    async def _admit(self, lease: _Worker, wish: PermitRequest) -> None:
        request = GateRequest(
            wish.origin, (), (), wish.max_tokens, _unpriced, nested=wish.nested, _input_tokens=wish.input_tokens
        )
        try:
            lease.passages[wish.number] = await self._gate.enter(request, self._backend)
            lease.admitted.append(wish.number)
        except Exception as error:  # whatever stops the gate stops the worker
            lease.error = error
        finally:
            lease.waiting.pop(wish.number, None)
            lease.wake()

    def _end(self, lease: _Worker, end: PermitEnd) -> None:
        task = lease.waiting.pop(end.number, None)
        if task is not None:
            task.cancel()
        if end.number in lease.admitted:
            lease.admitted.remove(end.number)
        passage = lease.passages.pop(end.number, None)
        if passage is not None:
            if end.response is not None:
                passage.received(*end.response)
            passage.leave(end.usage, end.error)


def _unpriced(usage: Usage) -> Usage:
    return usage


def _end_process() -> None:  # pragma: no cover - ends the process that would measure it
    os._exit(1)  # at once: an exception would leave requests in flight


class PermitGate:
    """The gate of one worker process, which gets its permits from a desk. For asyncio.

    Args:
        desk: The desk, or what forwards to it.
        actor: The name of the actor, which stays when it is started again in a new process.
        lease: The seconds of its lease.
        renew: Renews the lease from another thread, so that a busy event loop does not lose it. Default: none does.
        on_expired: Called when the lease has expired, so that other workers have the permits. Default: end the process.
    """

    def __init__(
        self,
        desk: Desk,
        lease: float,
        *,
        actor: str,
        renew: Callable[[str], bool] | None = None,
        on_expired: Callable[[], None] = _end_process,
    ) -> None:
        self.name: str = f"{actor}/{uuid4().hex}"
        self.lost: PermitsLost | None = None
        self._desk = desk
        self._lease = lease
        self._on_expired = on_expired
        self._renewed = monotonic()
        self._numbers = 0
        self._wanted: list[PermitRequest] = []
        self._ended: list[PermitEnd] = []
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._exchanges: set[asyncio.Task[None]] = set()
        self._first = True
        self._registered = False
        self._loop: asyncio.AbstractEventLoop  # of the first request
        self._closed = Event()
        if renew is not None:
            Thread(target=self._keep, args=(renew,), name="toolcast permits", daemon=True).start()

    def close(self) -> None:
        """Stop renewing the lease."""
        self._closed.set()

    async def enter(self, request: GateRequest, backend: IOBackend) -> Passage:
        """Wait for a permit of the desk. Raise `PermitsLost` if there are none any more."""
        self._loop = loop = asyncio.get_running_loop()
        self._numbers = number = self._numbers + 1
        origin = RequestOrigin(request.origin.provider, request.origin.model, request.origin.base_url)
        admitted = self._waiting[number] = loop.create_future()
        self._wanted.append(PermitRequest(number, origin, request.input_tokens, request.max_tokens, request.nested))
        self._send()
        try:
            await admitted
        except BaseException:
            self.end(PermitEnd(number, NOT_SENT))
            raise
        finally:
            self._waiting.pop(number, None)
        if monotonic() - self._renewed > self._lease:
            self._expired()
        if self.lost is not None:
            raise self.lost
        return _PermitPassage(self, number, request, backend.now)

    def end(self, end: PermitEnd) -> None:
        """Report the end of a request."""
        self._ended.append(end)
        self._send()

    def _send(self) -> None:
        """Send what is new, and ask for what is awaited, unless both are on their way."""
        news = bool(self._wanted or self._ended)
        if self.lost is not None:
            self._fail(self.lost)
            return
        # The first exchange alone begins the lease, which a second one must not overtake.
        most = 2 if news and self._registered else 1
        if len(self._exchanges) < most and (news or self._waiting):
            task = self._loop.create_task(self._exchange())
            self._exchanges.add(task)
            task.add_done_callback(self._exchanges.discard)

    async def _exchange(self) -> None:
        wanted, self._wanted = self._wanted, []
        ended, self._ended = self._ended, []
        first, self._first = self._first, False
        sent = monotonic()
        try:
            admitted = await self._desk.exchange(self.name, wanted, ended, first=first)
        except Exception as error:  # the desk's, and whatever the connection to it raises
            self._lose(error)
            return
        if admitted is None:
            self._expired()
            return
        self._registered = True
        self._renewed = max(self._renewed, sent)
        for number in admitted:
            waiting = self._waiting.get(number)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        # This exchange has ended but for its return.
        self._exchanges.discard(asyncio.current_task())
        self._send()

    def _keep(self, renew: Callable[[str], bool]) -> None:
        """Renew the lease, in a thread, until the gate is closed or the permits are lost."""
        while not self._closed.wait(self._lease / 3):
            if not self._registered:
                continue
            sent = monotonic()
            try:
                alive = renew(self.name)
            except Exception as error:  # the desk's, and whatever the connection to it raises
                self._loop.call_soon_threadsafe(self._lose, error)
                return
            if not alive:
                self._end_process()
                return
            self._renewed = max(self._renewed, sent)

    def _expired(self) -> None:
        if self.lost is None:
            self._end_process()
            self._lose(TimeoutError("the lease of the worker has expired"))

    def _end_process(self) -> None:
        logger.error("the lease of this worker has expired: its permits may be in use elsewhere, so its process ends")
        self._on_expired()

    def _lose(self, error: Exception) -> None:
        self.lost = self.lost or permits_lost(error)
        self._fail(self.lost)

    def _fail(self, error: PermitsLost) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)


class _PermitPassage:
    """An admitted request of a worker."""

    def __init__(self, gate: PermitGate, number: int, request: GateRequest, now: Callable[[], float]) -> None:
        self._gate = gate
        self._number = number
        self._request = request
        self._now = now
        self._response: tuple[int, Mapping[str, str]] | None = None

    def received(self, status: int, headers: Mapping[str, str]) -> None:
        self._response = status, {name: value for name, value in headers.items() if _counts(name)}

    def leave(self, usage: Usage, error: BaseException | None) -> bool:
        reported = _portable(error) if isinstance(error, LLMError) else None
        self._gate.end(PermitEnd(self._number, usage, self._response, reported))
        return is_sent_again(self._request, error, self._now())


def _counts(name: str) -> bool:
    """Return whether the header with a name may tell of limits: the desk reads no other."""
    return "ratelimit" in name or "retry-after" in name


def _portable(error: LLMError) -> LLMError:
    """Return the error as the desk needs it, without the response and what else may not be picklable."""
    return type(error)(
        "", status=error.status, retry_after=error.retry_after, retryable=error.retryable, rate_limits=error.rate_limits
    )
