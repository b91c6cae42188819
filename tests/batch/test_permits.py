"""Permits: one gate for many worker processes, without Ray."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from toolcast import OpenAI, Usage
from toolcast.batch import JobError, PermitsLost
from toolcast.batch.permits import PermitDesk, PermitEnd, PermitGate, PermitRequest
from toolcast.errors import LLMError, Overloaded, RateLimited, ServerError
from toolcast.llms.client import client_of
from toolcast.llms.request_gate import NOT_SENT, GateRequest, Passage, RequestOrigin
from toolcast.transport.network import IOBackend

LEASE = 30.0
ORIGIN = RequestOrigin("openai", "m", "https://example.com", "fingerprint of this process")


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Ray's actors run asyncio alone."""
    return str(request.param)


@dataclass
class Clock:
    """The backend of a desk, whose time the test sets."""

    time: float = 0.0
    concurrent: bool = True

    def now(self) -> float:
        return self.time


class FixedGate:
    """A gate with a number of slots, which records what it gets."""

    def __init__(self, slots: int) -> None:
        self.slots = asyncio.Semaphore(slots)
        self.entered: list[GateRequest] = []
        self.received_: list[tuple[int, Mapping[str, str]]] = []
        self.left: list[tuple[Usage, BaseException | None]] = []
        self.most = self.under_way = 0
        self.error: Exception | None = None
        self.admitted = asyncio.Event()

    async def enter(self, request: GateRequest, backend: IOBackend) -> Passage:
        if self.error is not None:
            raise self.error
        await self.slots.acquire()
        self.entered.append(request)
        self.admitted.set()
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        return self

    def received(self, status: int, headers: Mapping[str, str]) -> None:
        self.received_.append((status, headers))

    def leave(self, usage: Usage, error: BaseException | None) -> bool:
        self.left.append((usage, error))
        self.under_way -= 1
        self.slots.release()
        return False


@dataclass
class Office:
    """A desk with its gate and clock, and gates of workers."""

    gate: FixedGate
    clock: Clock = field(default_factory=Clock)
    expired: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.desk = PermitDesk(self.gate, self.clock, LEASE)  # type: ignore[arg-type]  # a part of a backend

    def worker(self, actor: str = "a", **options: Any) -> PermitGate:
        return PermitGate(self.desk, LEASE, actor=actor, on_expired=lambda: self.expired.append(actor), **options)


def request(nested: bool = False) -> GateRequest:
    return GateRequest(ORIGIN, (), (), 100, lambda usage: usage, nested=nested, _input_tokens=7)


async def enter(gate: PermitGate, wanted: GateRequest | None = None) -> Passage:
    return await gate.enter(wanted or request(), client_of(OpenAI("m", api_key="k")).async_backend())


async def settle() -> None:
    """Let every task go on as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_request_and_its_end_pass_the_gate_of_the_desk() -> None:
    office = Office(FixedGate(1))
    passage = await enter(office.worker(), request(nested=True))
    (entered,) = office.gate.entered
    assert entered.origin == RequestOrigin("openai", "m", "https://example.com")  # no fingerprint
    assert (entered.input_tokens, entered.max_tokens, entered.nested) == (7, 100, True)
    assert entered.price(Usage(1, 1)) == Usage(1, 1)
    assert office.desk.count() == {"workers": 1, "admitted": 1, "waiting": 0}
    passage.received(200, {"x-ratelimit-remaining-requests": "5", "set-cookie": "secret", "retry-after": "1"})
    assert passage.leave(Usage(7, 3), None) is False
    await settle()
    assert office.gate.received_ == [(200, {"x-ratelimit-remaining-requests": "5", "retry-after": "1"})]
    assert office.gate.left == [(Usage(7, 3), None)]
    assert office.desk.count() == {"workers": 1, "admitted": 0, "waiting": 0}


async def test_many_requests_of_many_workers_never_exceed_the_limit() -> None:
    office = Office(FixedGate(3))
    workers = [office.worker(f"actor {number}") for number in range(4)]

    async def one(number: int) -> None:
        passage = await enter(workers[number % 4])
        await settle()
        passage.leave(Usage(1, 1), None)

    async with asyncio.TaskGroup() as tasks:
        for number in range(200):
            tasks.create_task(one(number))
    assert office.gate.most == 3
    assert len(office.gate.entered) == 200
    await settle()
    assert office.gate.under_way == 0


async def test_exchanges_are_batched() -> None:
    office = Office(FixedGate(100))
    count = 0

    class Counting:
        async def exchange(
            self, worker: str, wanted: Sequence[PermitRequest], ended: Sequence[PermitEnd], *, first: bool
        ) -> list[int] | None:
            nonlocal count
            count += 1
            return await office.desk.exchange(worker, wanted, ended, first=first)

        async def renew(self, worker: str) -> bool:
            raise NotImplementedError

    worker = PermitGate(Counting(), LEASE, actor="a")
    passages = await asyncio.gather(*[enter(worker) for _ in range(100)])
    for passage in passages:
        passage.leave(NOT_SENT, None)
    await settle()
    assert office.gate.under_way == 0
    assert count <= 4


async def test_a_cancelled_wait_leaves_the_queue() -> None:
    office = Office(FixedGate(1))
    worker = office.worker()
    first = await enter(worker)
    second = asyncio.create_task(enter(worker))
    await settle()
    assert office.desk.count()["waiting"] == 1
    second.cancel()
    await settle()
    assert office.desk.count() == {"workers": 1, "admitted": 1, "waiting": 0}
    first.leave(NOT_SENT, None)
    (await enter(worker)).leave(NOT_SENT, None)
    await settle()
    assert office.gate.under_way == 0


async def test_a_wait_that_is_cancelled_as_it_is_admitted_gives_its_permit_back() -> None:
    office = Office(FixedGate(1))
    worker = office.worker()
    waits = asyncio.create_task(enter(worker))
    await office.gate.admitted.wait()
    waits.cancel()
    await settle()
    assert office.gate.under_way == 0
    assert office.desk.count() == {"workers": 1, "admitted": 0, "waiting": 0}


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (RateLimited("slow down", status=429, retry_after=2.0, provider="p"), True),
        (Overloaded("busy", status=503), True),
        (RateLimited("tomorrow", status=429, retry_after=3600.0), False),
        (ServerError("broken", status=500), False),
        (asyncio.CancelledError(), False),
        (None, False),
    ],
)
async def test_a_refused_request_is_sent_again_through_the_gate(error: BaseException | None, again: bool) -> None:
    office = Office(FixedGate(1))
    wanted = request()
    passage = await enter(office.worker(), wanted)
    assert passage.leave(NOT_SENT, error) is again
    await settle()
    ((_, reported),) = office.gate.left
    if not isinstance(error, LLMError):
        assert reported is None
        return
    assert type(reported) is type(error)
    assert isinstance(reported, LLMError)
    assert (reported.status, reported.retry_after, reported.provider) == (error.status, error.retry_after, None)
    assert (wanted.first_refusal is not None) is isinstance(error, RateLimited | Overloaded)


async def test_patience_with_refusals_ends() -> None:
    office = Office(FixedGate(1))
    worker, wanted = office.worker(), request()
    error = RateLimited("slow down", status=429)
    for _ in range(2):
        assert (await enter(worker, wanted)).leave(NOT_SENT, error) is True
    assert wanted.first_refusal is not None
    wanted.first_refusal -= 601
    assert (await enter(worker, wanted)).leave(NOT_SENT, error) is False
    assert (await enter(worker, wanted)).leave(NOT_SENT, None) is False
    assert wanted.first_refusal is None


async def test_the_permits_of_a_worker_that_is_gone_are_free_again() -> None:
    office = Office(FixedGate(1))
    gone, other = office.worker("gone"), office.worker("other")
    await enter(gone)
    gone_waits = asyncio.create_task(enter(gone))
    waits = asyncio.create_task(enter(other))
    await settle()
    office.clock.time = LEASE
    assert await office.desk.renew(other.name) is True
    await settle()
    assert not waits.done()
    office.clock.time = LEASE + 1
    assert await office.desk.renew(other.name) is True
    assert await office.desk.renew(gone.name) is False
    await waits
    assert office.gate.most == 1
    assert office.gate.left == [(NOT_SENT, None)]
    gone_waits.cancel()


async def test_a_worker_without_a_lease_ends_its_process_and_sends_nothing() -> None:
    office = Office(FixedGate(2))
    worker = office.worker()
    await enter(worker)
    office.clock.time = LEASE + 1
    with pytest.raises(PermitsLost, match="there are no permits for its requests any more: TimeoutError: the lease"):
        await enter(worker)
    assert office.expired == ["a"]
    with pytest.raises(PermitsLost):
        await enter(worker)
    assert len(office.gate.entered) == 1


async def test_a_permit_that_arrives_after_the_lease_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("toolcast.batch.permits.monotonic", lambda: now)

    class Late:
        async def exchange(self, *arguments: Any, first: bool) -> list[int] | None:
            nonlocal now
            now = LEASE + 1
            return [1]

        async def renew(self, worker: str) -> bool:
            raise NotImplementedError

    expired: list[bool] = []
    worker = PermitGate(Late(), LEASE, actor="a", on_expired=lambda: expired.append(True))
    with pytest.raises(PermitsLost):
        await enter(worker)
    assert expired == [True]


async def test_a_new_process_of_an_actor_frees_the_permits_of_the_old_one() -> None:
    office = Office(FixedGate(1))
    await enter(office.worker("actor"))
    (await enter(office.worker("actor"))).leave(NOT_SENT, None)
    assert office.desk.count()["workers"] == 1
    assert office.gate.most == 1


async def test_without_its_desk_a_worker_sends_nothing() -> None:
    class Dead:
        async def exchange(self, *arguments: Any, first: bool) -> list[int] | None:
            raise ConnectionError("the actor has died")

        async def renew(self, worker: str) -> bool:
            raise NotImplementedError

    worker = PermitGate(Dead(), LEASE, actor="a")
    found = await asyncio.gather(*[enter(worker) for _ in range(3)], return_exceptions=True)
    assert {type(error) for error in found} == {PermitsLost}
    assert isinstance(worker.lost, JobError)
    assert isinstance(worker.lost.__cause__, ConnectionError)
    with pytest.raises(PermitsLost, match=r"ConnectionError: the actor has died\. Nothing is sent without them"):
        await enter(worker)


async def test_an_error_of_the_gate_stops_the_worker() -> None:
    office = Office(FixedGate(1))
    office.gate.error = JobError("no gate")
    with pytest.raises(PermitsLost, match="JobError: no gate"):
        await enter(office.worker())


async def test_an_exchange_ends_in_time_without_a_permit() -> None:
    office = Office(FixedGate(0))
    desk = PermitDesk(office.gate, office.clock, 0.01)  # type: ignore[arg-type]  # a part of a backend
    assert await desk.exchange("b/1", [], [], first=False) is None
    wanted = [PermitRequest(number, ORIGIN, 1, None, nested=False) for number in (1, 2)]
    assert await desk.exchange("a/1", wanted, [], first=True) == []
    assert await desk.exchange("a/1", [], [], first=False) == []
    office.gate.slots.release()
    await settle()  # the first request is admitted, but its worker does not want it any more
    assert await desk.exchange("a/1", [], [PermitEnd(1, NOT_SENT), PermitEnd(9, NOT_SENT)], first=False) == [2]
    assert desk.count() == {"workers": 1, "admitted": 1, "waiting": 0}


class Renewals:
    """What renews the lease from the thread; `answers` are its results."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.answers = list(answers)

    def __call__(self, worker: str) -> bool:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_the_lease_is_renewed_from_a_thread() -> None:
    office = Office(FixedGate(1))
    renewals = Renewals(True, True, False)
    expired = threading.Event()
    worker = PermitGate(office.desk, 0.01, actor="a", renew=renewals, on_expired=expired.set)
    await enter(worker)
    await asyncio.to_thread(expired.wait)
    assert renewals.answers == []


async def test_the_thread_notices_that_the_desk_is_gone() -> None:
    office = Office(FixedGate(0))
    worker = PermitGate(office.desk, 0.01, actor="a", renew=Renewals(ConnectionError("gone")), on_expired=list)
    waits = asyncio.create_task(enter(worker))
    with pytest.raises(PermitsLost, match="ConnectionError: gone"):
        await waits


def test_a_lease_that_has_not_begun_is_not_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = iter([False, True])
    monkeypatch.setattr("toolcast.batch.permits.Event", lambda: SimpleNamespace(wait=lambda timeout: next(waits)))
    before = set(threading.enumerate())
    PermitGate(None, LEASE, actor="a", renew=Renewals())  # type: ignore[arg-type]  # neither is used
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert next(waits, None) is None


def test_a_gate_that_is_closed_ends_its_thread() -> None:
    before = set(threading.enumerate())
    worker = PermitGate(None, LEASE, actor="a", renew=Renewals())  # type: ignore[arg-type]  # neither is used
    (thread,) = set(threading.enumerate()) - before
    worker.close()
    thread.join()
