"""`Pace` as a gate: threads and tasks in one queue, limits that jobs share, and requests that are sent again."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.albums import SEA, Album
from support.chunks import album_body
from support.sync_and_async import API
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.async_support import sync_driver
from toolcast.batch import JobInterrupted, JobStopped, Outcome, WaitTooLong, live_run, read_status
from toolcast.batch.pacing import Pace
from toolcast.batch.pacing.pace import _registry
from toolcast.errors import ConnectFailed, Overloaded, RateLimited, StreamInterrupted
from toolcast.llms.client import client_of
from toolcast.llms.request_gate import GateRequest, Passage, RequestOrigin, use_gate
from toolcast.messages import user
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM
from toolcast.transport.cancel_handle import CancelHandle
from toolcast.values.usage import Usage

LLM = ScriptedLLM("x")
SYNC, ASYNC = client_of(LLM).sync_backend(), client_of(LLM).async_backend()


@pytest.fixture(autouse=True)
def alone() -> None:
    """Share nothing with other tests."""
    _registry.clear()


class Time:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def request(model: str = "m", **fields: Any) -> GateRequest:
    return GateRequest(RequestOrigin("p", model), [user("Hello there.")], [], None, lambda usage: usage, **fields)


def enter(pace: Pace, of: GateRequest | None = None) -> Passage:
    return sync_driver.run(pace.enter(of or request(), SYNC))


def waiting(pace: Pace) -> int:
    """The number of requests in the queue."""
    return sum(len(shared.queue) for _, shared in pace._shared)


def until_waiting(pace: Pace, count: int) -> None:
    while waiting(pace) < count:
        threading.Event().wait(0.001)


def test_before_the_first_request() -> None:
    assert (Pace().concurrency, Pace(max_concurrency=2).concurrency) == (4, 2)
    assert (Pace().in_flight, Pace().limited_by) == (0, None)


def test_threads_wait_in_order() -> None:
    pace, order = Pace(max_concurrency=1), list[int]()
    first = enter(pace)
    assert pace.limited_by == "concurrency"

    def work(number: int) -> None:
        passage = enter(pace)
        order.append(number)
        passage.leave(Usage(), None)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for count, thread in enumerate(threads, 1):
        thread.start()
        until_waiting(pace, count)
    first.leave(Usage(), None)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]
    assert pace.in_flight == 0


async def test_tasks_wait_in_order() -> None:
    pace, order = Pace(max_concurrency=1), list[int]()
    first = await pace.enter(request(), ASYNC)

    async def work(number: int) -> None:
        passage = await pace.enter(request(), ASYNC)
        order.append(number)
        passage.leave(Usage(), None)

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(work, number)
            while waiting(pace) <= number:
                await anyio.lowlevel.checkpoint()
        first.leave(Usage(), None)
    assert order == [0, 1, 2, 3, 4]


async def test_a_cancelled_task_leaves_the_queue() -> None:
    pace = Pace(max_concurrency=1)
    first = await pace.enter(request(), ASYNC)
    got: list[Passage] = []

    async def work() -> None:
        got.append(await pace.enter(request(), ASYNC))

    async with anyio.create_task_group() as group:
        cancelled = anyio.CancelScope()

        async def cancellable() -> None:
            with cancelled:
                await work()

        group.start_soon(cancellable)
        while waiting(pace) < 1:
            await anyio.lowlevel.checkpoint()
        group.start_soon(work)
        while waiting(pace) < 2:
            await anyio.lowlevel.checkpoint()
        cancelled.cancel()
        while waiting(pace) > 1:
            await anyio.lowlevel.checkpoint()
        first.leave(Usage(), None)
    assert len(got) == 1


def test_tasks_and_threads_share_one_queue() -> None:
    """A thread's end wakes a task of another thread's loop, and the other way round."""
    pace, done = Pace(max_concurrency=1), list[str]()
    first = enter(pace)

    async def task() -> None:
        passage = await pace.enter(request(), ASYNC)
        done.append("task")
        await asyncio.to_thread(passage.leave, Usage(), None)

    def thread() -> None:
        passage = enter(pace)
        done.append("thread")
        passage.leave(Usage(), None)

    with ThreadPoolExecutor(2) as pool:
        ends = [pool.submit(asyncio.run, task())]
        until_waiting(pace, 1)
        ends.append(pool.submit(thread))
        until_waiting(pace, 2)
        first.leave(Usage(), None)
        for end in ends:
            end.result()
    assert done == ["task", "thread"]


def wait_in_a_closed_loop(pace: Pace) -> Coroutine[Any, Any, Passage]:
    """Return the coroutine of a task that waits in the queue, and whose event loop is closed."""
    abandoned = asyncio.new_event_loop()
    coroutine = pace.enter(request(), ASYNC)
    task = abandoned.create_task(coroutine)
    abandoned.run_until_complete(asyncio.sleep(0))
    assert waiting(pace) == 1
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # what the abandoned loop would report
    abandoned.close()
    return coroutine


def test_a_task_whose_loop_was_closed_does_not_stop_the_queue() -> None:
    pace = Pace(max_concurrency=1)
    first = enter(pace)
    coroutine = wait_in_a_closed_loop(pace)
    first.leave(Usage(), None)
    assert waiting(pace) == 0
    enter(pace).leave(Usage(), None)
    with pytest.raises(RuntimeError):
        coroutine.throw(RuntimeError("the task was destroyed"))  # it is not in the queue any more


def test_a_stopped_pace_admits_no_request_of_its_job() -> None:
    pace, other = Pace(max_concurrency=1), Pace()
    first = enter(pace)
    with ThreadPoolExecutor(2) as pool:
        ended, admitted = pool.submit(enter, pace), pool.submit(enter, other)
        until_waiting(pace, 2)
        assert (pace.waiting, other.waiting) == (1, 1)
        pace.stop()
        with pytest.raises(JobInterrupted):
            ended.result(30)
        with pytest.raises(JobInterrupted):
            enter(pace)
        assert (pace.waiting, other.waiting) == (0, 1)
        first.leave(Usage(), None)
        admitted.result(30).leave(Usage(), None)


async def test_a_stopped_pace_ends_the_waits_of_tasks() -> None:
    pace, caught = Pace(max_concurrency=1), list[JobInterrupted]()
    first = await pace.enter(request(), ASYNC)

    async def wait() -> None:
        with pytest.raises(JobInterrupted) as raised:
            await pace.enter(request(), ASYNC)
        caught.append(raised.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        while not waiting(pace):
            await anyio.lowlevel.checkpoint()
        await anyio.to_thread.run_sync(pace.stop)
    assert len(caught) == 1
    assert waiting(pace) == 0
    first.leave(Usage(), None)


def test_a_pace_can_be_stopped_after_the_loop_of_a_task_was_closed() -> None:
    pace = Pace(max_concurrency=1)
    first = enter(pace)
    coroutine = wait_in_a_closed_loop(pace)
    pace.stop()
    with pytest.raises(RuntimeError):
        coroutine.throw(RuntimeError("the task was destroyed"))
    assert waiting(pace) == 0
    first.leave(Usage(), None)


def test_a_nested_request_goes_first() -> None:
    """The first one would not end before it."""
    pace = Pace(max_concurrency=1)
    outer = enter(pace)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(enter, pace)
        until_waiting(pace, 1)
        enter(pace, request(nested=True)).leave(Usage(), None)
        outer.leave(Usage(), None)
        other.result().leave(Usage(), None)


def test_a_nested_request_waits_for_rates() -> None:
    """They are the service's. It waits in front of the others."""
    clock = Time()
    pace = Pace(rpm=1, clock=clock)
    outer = enter(pace)
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(enter, pace)
        until_waiting(pace, 1)
        nested = pool.submit(enter, pace, request(nested=True))
        until_waiting(pace, 2)
        clock.now += 61
        nested.result().leave(Usage(), None)
        clock.now += 61
        other.result().leave(Usage(), None)
    outer.leave(Usage(), None)


def test_a_waiting_thread_is_broken_off() -> None:
    pace, handle, caught = Pace(max_concurrency=1), CancelHandle(), list[BaseException]()
    first = enter(pace)

    def work() -> None:
        with handle, pytest.raises(StreamInterrupted) as raised:
            enter(pace)
        caught.append(raised.value)

    thread = threading.Thread(target=work)
    thread.start()
    until_waiting(pace, 1)
    handle.break_off()
    handle.break_off()
    thread.join()
    assert len(caught) == 1
    assert waiting(pace) == 0
    first.leave(Usage(), None)
    with handle, pytest.raises(StreamInterrupted):  # it does not begin to wait
        [enter(pace) for _ in range(2)]


def test_a_thread_with_a_handle_waits_for_its_turn() -> None:
    pace = Pace(max_concurrency=1)
    first = enter(pace)

    def work() -> None:
        with CancelHandle():
            enter(pace).leave(Usage(), None)

    thread = threading.Thread(target=work)
    thread.start()
    until_waiting(pace, 1)
    first.leave(Usage(), None)
    thread.join()
    assert pace.in_flight == 0


def test_jobs_share_the_strictest_limits() -> None:
    loose, strict = Pace(rpm=100, tpm=10**6, max_concurrency=9), Pace(rpm=1, max_concurrency=3)
    passages = [enter(loose) for _ in range(2)]
    assert (loose.concurrency, loose.limited_by) == (9, None)
    passages.append(enter(strict))
    assert (loose.concurrency, loose.in_flight, strict.in_flight) == (3, 3, 3)
    assert loose.limited_by == strict.limited_by == "rate limit"
    strict.close()
    strict.close()
    assert loose.limited_by is None
    for passage in passages:
        passage.leave(Usage(), None)


def test_other_models_and_keys_have_limits_of_their_own() -> None:
    pace = Pace(max_concurrency=1)
    passages = [enter(pace, request(model)) for model in ("a", "b")]
    assert (pace.in_flight, pace.concurrency) == (2, 2)
    for passage in passages:
        passage.leave(Usage(), None)


def test_what_is_shared_ends_with_the_last_job() -> None:
    def keys() -> set[str]:
        gc.collect()
        return {origin.model for _, origin, _ in _registry}

    pace = Pace()
    enter(pace, request("ends")).leave(Usage(), None)
    assert "ends" in keys()
    del pace
    assert "ends" not in keys()


def test_input_tokens_are_corrected() -> None:
    pace, of = Pace(), request("tokens")
    assert pace.expected_input_tokens(of) == of.input_tokens
    for _ in range(50):
        enter(pace, of).leave(Usage(input_tokens=10 * of.input_tokens, output_tokens=1), None)
    assert pace.expected_input_tokens(of) > 5 * of.input_tokens


@pytest.mark.parametrize("kind", [RateLimited, Overloaded])
def test_a_refused_request_is_sent_again_with_patience(kind: type[RateLimited | Overloaded]) -> None:
    clock, of = Time(), request()
    pace = Pace(patience=100, clock=clock)
    assert enter(pace, of).leave(Usage(), kind("busy", retry_after=0.0))
    clock.now += 60
    assert enter(pace, of).leave(Usage(), kind("busy"))
    clock.now += 60
    assert not enter(pace, of).leave(Usage(), kind("busy"))
    clock.now += 60
    assert not enter(pace, request()).leave(Usage(), kind("tomorrow", retry_after=86_400.0))


def test_patience_counts_from_the_first_refusal_of_an_unbroken_row() -> None:
    clock, of = Time(), request()
    pace = Pace(patience=100, clock=clock)
    assert enter(pace, of).leave(Usage(), Overloaded("busy", retry_after=0.0))
    clock.now += 60
    assert not enter(pace, of).leave(Usage(), ConnectFailed("refused"))  # a retry of the call follows
    clock.now += 60
    assert enter(pace, of).leave(Usage(), Overloaded("busy", retry_after=0.0))


def test_a_request_without_a_status_is_accepted_at_its_end() -> None:
    pace = Pace()
    for passage in [enter(pace), enter(pace)]:
        passage.leave(Usage(), None)
    assert pace.concurrency == 5


def test_other_errors_are_not_the_paces() -> None:
    pace = Pace()
    assert not enter(pace).leave(Usage(), ZeroDivisionError())
    assert pace.in_flight == 0


def test_headers_are_obeyed(api: API) -> None:
    """A service that reports one remaining request: the next one waits until its window ends."""
    headers = {"x-ratelimit-limit": "10", "x-ratelimit-reset": "3600"}
    answers = [Recorded([album_body()], headers={**headers, "x-ratelimit-remaining": left}) for left in "10"]
    make = ToolOrchestratingLLM(Album, "x", OpenAI("m", api="chat", api_key="k", network=ReplayNetwork(*answers)))
    pace = Pace()
    with use_gate(pace):
        assert api.call(make) == SEA
        assert pace.limited_by is None
        assert api.call(make) == SEA
    assert pace.limited_by == "rate limit"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "86400"}, 200),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-limit": "9", "x-ratelimit-reset": "4102444800"}, 200),
        ({"retry-after": "86400"}, 429),
    ],
)
def test_a_wait_without_end_ends_the_job(
    headers: dict[str, str],
    status: int,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The service takes no more requests for a day: a line says so at once, and the job ends when its patience does."""
    monkeypatch.setattr(live_run, "Pace", partial(Pace, patience=0.05))
    first = Recorded([album_body()], status, headers)
    network = ReplayNetwork(*[first] * 9)
    llm = OpenAI("m", api="chat", api_key=f"k{headers}", network=network, max_retries=0)
    make = ToolOrchestratingLLM(Album, "{x}", llm)
    outcomes: list[Outcome[Album]] = []
    with pytest.raises(JobStopped, match=r"the next \d+ days?, .* and the job waits 0:00:01 at most") as caught:
        outcomes.extend(make.map(["a", "b", "c"], max_concurrency=1, checkpoint=tmp_path / "c"))
    assert isinstance(caught.value.__cause__, WaitTooLong)
    assert caught.value.reason == "error"
    assert len(network.requests) == 1
    assert len(re.findall("takes no more requests for m in the next", caplog.text)) == 1
    assert read_status(tmp_path / "c").done == (status == 200)


def test_a_refusal_is_followed_by_the_same_request(api: API) -> None:
    refusal = Recorded([b'{"error": {"message": "slow down"}}'], 429, {"retry-after-ms": "1"})
    network = ReplayNetwork(refusal, refusal, refusal, Recorded.of(album_body()))
    llm = OpenAI("m", api="chat", api_key="k2", network=network, max_retries=0)
    with use_gate(Pace()):
        assert api.call(ToolOrchestratingLLM(Album, "x", llm)) == SEA
    assert len(network.requests) == 4


def test_many_threads_never_exceed_the_concurrency() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def answer(request: object) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.0001)
        with lock:
            running -= 1
        return "x"

    llm = ScriptedLLM(answer, model="many threads")
    with use_gate(Pace(max_concurrency=3)), ThreadPoolExecutor(16) as pool:
        ends = [pool.submit(copy_context().run, llm.chat, "x") for _ in range(200)]
        assert {end.result().text for end in ends} == {"x"}
    assert most == 3


async def test_many_tasks_never_exceed_the_concurrency() -> None:
    running, most = 0, 0

    async def answer(request: object) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1
        return "x"

    llm = ScriptedLLM(answer, model="many tasks")
    with use_gate(Pace(max_concurrency=3)):
        async with anyio.create_task_group() as group:
            for _ in range(200):
                group.start_soon(llm.achat, "x")
    assert most == 3


def test_two_first_requests_at_once_join_once() -> None:
    pace, origin = Pace(), request().origin
    assert pace._join(origin) is pace._join(origin)
    assert pace.concurrency == 4
