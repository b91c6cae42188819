"""`max_concurrency`: no more answers under way than allowed, turns in order, and no slot lost, however one ends.

Tests that need a waiting call observe the queue (`queued`): nothing sleeps, nothing is timed.
"""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from support.albums import SEA, SHORT, Album
from support.chunks import album_stream
from support.process import Process
from support.sync_and_async import API
from toolcast import FallbackLLM, LlamaCpp, OpenAI, Settings, ToolOrchestratingLLM
from toolcast.errors import ConnectFailed, LimitExceeded, StreamClosed, StreamTruncated, Timeout
from toolcast.events import Event, Finish, TextDelta
from toolcast.llms import LLMMetadata
from toolcast.llms.client import client_of
from toolcast.llms.concurrency_limiter import LimitedEvents, Slots, TaskWaiter, Waiter
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM, VirtualClock


def at_most(limit: int | None, *answers: Any) -> ScriptedLLM:
    return ScriptedLLM(*answers, max_concurrency=limit)


def all_free(llm: FunctionCallingLLM) -> bool:
    """Return whether no call has a slot of this LLM or waits for one."""
    assert llm.max_concurrency is not None
    return llm.calls_in_progress == 0


class Queue:
    """Records each call that is queued, and each thread that is about to wait."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.entered = threading.Semaphore(0)
        self.blocked = threading.Semaphore(0)
        enter, stuck = Slots.enter, Slots.are_stuck.fget
        assert stuck is not None

        def entering(slots: Slots, turn: Waiter) -> None:
            enter(slots, turn)
            self.entered.release()

        def blocking(slots: Slots) -> bool:
            found: bool = stuck(slots)
            self.blocked.release()
            return found

        patch.setattr(Slots, "enter", entering)
        patch.setattr(Slots, "are_stuck", property(blocking))


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    return Queue(monkeypatch)


def thread(work: Callable[[], Any]) -> threading.Thread:
    made = threading.Thread(target=work, daemon=True)
    made.start()
    return made


# -- a slot is given back ---------------------------------------------------------------------------------------


def test_one_after_the_other(api: API) -> None:
    llm = at_most(1, "a", "b", SEA, SHORT)
    assert [api.chat(llm, "x").text for _ in range(2)] == ["a", "b"]
    make = ToolOrchestratingLLM(Album, "x", llm)
    assert api.call(make) == SEA
    assert api.stream(make).final == SHORT
    assert all_free(llm)


@pytest.mark.parametrize("error", [ConnectFailed("x"), ZeroDivisionError("mine"), [TextDelta("cut")]])
def test_after_an_error(api: API, error: Any) -> None:
    llm = at_most(1, error, "b", error, "d")
    for text in ("b", "d"):
        with pytest.raises((ConnectFailed, ZeroDivisionError, StreamTruncated)):
            api.chat(llm, "x") if text == "b" else api.events(llm, "x")
        assert all_free(llm)
        assert api.chat(llm, "x").text == text


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_after_an_interrupt(raised: type[BaseException]) -> None:
    llm = at_most(1, raised(), "b")
    stream = llm.stream_chat("x")
    with pytest.raises(raised):
        stream.next()
    assert llm.chat("x").text == "b"
    assert all_free(llm)


def test_after_leaving_early(api: API) -> None:
    llm = at_most(1, SEA, SHORT)
    make = ToolOrchestratingLLM(Album, "x", llm)
    assert len(api.stream(make, take=2).items) == 2
    assert api.call(make) == SHORT
    assert all_free(llm)


def test_with_the_last_event_the_answer_is_over() -> None:
    llm = at_most(1, "a", "b")
    stream = llm.stream_chat("x")
    while stream.next() and type(stream.current) is not Finish:
        assert not all_free(llm)
    assert llm.chat("x").text == "b"
    assert not stream.next()
    stream.close()
    assert all_free(llm)


def test_a_stream_that_never_began_holds_nothing() -> None:
    llm = at_most(1, "a")
    stream = llm.stream_chat("x")
    assert llm.chat("x").text == "a"
    stream.close()
    assert all_free(llm)


def test_after_a_stream_was_forgotten() -> None:
    network = ReplayNetwork(Recorded(album_stream()))
    llm = OpenAI("m", api_key="k", network=network, max_concurrency=1)
    stream = llm.stream_chat("x", tools=[Album])
    assert stream.next()
    assert not all_free(llm)
    del stream
    gc.collect()
    assert all_free(llm)
    assert network.open_replies == 0


async def test_after_a_stream_was_forgotten_by_a_task() -> None:
    llm = at_most(1, "abcdefgh", "b")
    stream = llm.astream_chat("x")
    assert await stream.next()
    del stream
    gc.collect()
    assert all_free(llm)
    assert (await llm.achat("x")).text == "b"


def test_tools_run_after_the_answer(api: API) -> None:
    """One that asks the same LLM gets its turn."""
    llm = at_most(1, {}, "asked within")

    async def ask() -> str:
        return (await llm.achat("y")).text

    def ask_at_once() -> str:
        return llm.chat("y").text

    tool = ask if api.name in ("asyncio", "trio") else ask_at_once
    assert api.method(llm, "predict_and_call", [tool], "x").parse_tool_outputs() == "asked within"
    assert all_free(llm)


# -- waiting ----------------------------------------------------------------------------------------------------


class Counting(FunctionCallingLLM):
    """Counts the answers under way. `meet` is where each of them stays for a while."""

    def __init__(self, limit: int, meet: Callable[[], object] | None = None) -> None:
        super().__init__(max_concurrency=limit)
        self.lock = threading.Lock()
        self.under_way = self.most = self.answered = 0
        self._meet = meet

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata("counting")

    async def _events(self, *asked: Any) -> AsyncIterator[Event]:
        with self.lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        try:
            if self._meet is None:
                await checkpoint()
                await checkpoint()
            else:
                self._meet()
            yield TextDelta("x")
        finally:
            with self.lock:
                self.under_way -= 1
                self.answered += 1
        yield Finish("end_turn")


def test_threads_share_the_slots() -> None:
    llm = Counting(3, threading.Barrier(3, timeout=20).wait)
    threads = [thread(lambda: llm.chat("x")) for _ in range(24)]
    for each in threads:
        each.join(20)
    assert (llm.answered, llm.most) == (24, 3)
    assert all_free(llm)


async def test_tasks_share_the_slots() -> None:
    llm = Counting(3)
    async with anyio.create_task_group() as group:
        for _ in range(30):
            group.start_soon(llm.achat, "x")
    assert (llm.answered, llm.most) == (30, 3)
    assert all_free(llm)


async def test_tasks_come_in_turn() -> None:
    llm = at_most(1, *(str(number) for number in range(6)))
    order: list[int] = []

    async def ask(number: int) -> None:
        await llm.achat("x")
        order.append(number)

    holder = llm.astream_chat("x")
    assert await holder.next()
    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(ask, number)
            await anyio.wait_all_tasks_blocked()
        assert order == []
        await holder.aclose()
    assert order == [0, 1, 2, 3, 4]
    assert all_free(llm)


async def test_a_cancelled_wait_loses_nothing() -> None:
    llm = at_most(1, "a", "b", "c")
    holder = llm.astream_chat("x")
    assert await holder.next()
    async with anyio.create_task_group() as others:
        async with anyio.create_task_group() as doomed:
            doomed.start_soon(llm.achat, "x")
            await anyio.wait_all_tasks_blocked()
            others.start_soon(llm.achat, "x")
            await anyio.wait_all_tasks_blocked()
            doomed.cancel_scope.cancel()
        await holder.aclose()
    assert len(llm.requests) == 2
    assert all_free(llm)


async def test_a_turn_that_comes_with_the_cancellation_goes_on_to_the_next() -> None:
    llm = at_most(1, "a", "b", "c")
    holder = llm.astream_chat("x")
    assert await holder.next()
    async with anyio.create_task_group() as others, anyio.create_task_group() as doomed:
        doomed.start_soon(llm.achat, "x")
        await anyio.wait_all_tasks_blocked()
        others.start_soon(llm.achat, "x")
        await anyio.wait_all_tasks_blocked()
        await holder.aclose()  # the cancelled waiter is woken now, and does not run yet
        doomed.cancel_scope.cancel()
    assert len(llm.requests) == 2
    assert all_free(llm)


async def test_cancelled_in_the_middle_of_its_answer() -> None:
    reached = anyio.Event()

    class Waiting(Counting):
        async def _events(self, *asked: Any) -> AsyncIterator[Event]:
            reached.set()
            await anyio.sleep_forever()
            yield Finish("end_turn")

    llm = Waiting(1)
    async with anyio.create_task_group() as group:
        group.start_soon(llm.achat, "x")
        await reached.wait()
        assert not all_free(llm)
        group.cancel_scope.cancel()
    assert all_free(llm)


async def test_closed_while_it_waited() -> None:
    llm = at_most(1, "a", "b")
    holder, waiting = llm.astream_chat("x"), llm.astream_chat("x")
    assert await holder.next()
    async with anyio.create_task_group() as group:
        group.start_soon(waiting.next)
        await anyio.wait_all_tasks_blocked()
        await waiting.aclose()
    assert isinstance(waiting.err, StreamClosed)
    await holder.aclose()
    assert all_free(llm)


def test_threads_and_tasks_of_two_loops_in_one_queue(queue: Queue) -> None:
    llm = at_most(1, "a", "b", "c", "d", "e")
    order: list[str] = []

    def waits(backend: str) -> None:
        async def main() -> None:
            await llm.achat("x")
            order.append(backend)

        anyio.run(main, backend=backend)

    def blocks() -> None:
        llm.chat("x")
        order.append("thread")

    holder = llm.stream_chat("x")
    assert holder.next()
    assert queue.entered.acquire(timeout=20)
    threads = []
    for work in (lambda: waits("asyncio"), blocks, lambda: waits("trio"), blocks):
        threads.append(thread(work))
        assert queue.entered.acquire(timeout=20)
    assert order == []
    holder.close()
    for each in threads:
        each.join(20)
    assert len(llm.requests) == 5
    assert sorted(order) == ["asyncio", "thread", "thread", "trio"]
    assert all_free(llm)


# -- waiting in vain --------------------------------------------------------------------------------------------


def test_a_thread_does_not_wait_for_itself() -> None:
    llm = at_most(2, "abcdefgh", "abcdefgh", "c")
    first, second = llm.stream_chat("x"), llm.stream_chat("x")
    assert first.next()
    assert second.next()
    with pytest.raises(LimitExceeded, match="max_concurrency") as caught:
        llm.chat("x")
    assert (caught.value.provider, caught.value.model) == ("scripted", "scripted")
    assert not caught.value.retryable
    first.close()
    assert llm.chat("x").text == "c"
    second.close()
    assert all_free(llm)


async def test_a_blocked_loop_would_never_end_its_tasks() -> None:
    llm = at_most(1, "abcdefgh", "b")
    stream = llm.astream_chat("x")
    assert await stream.next()
    with pytest.raises(LimitExceeded):
        llm.chat("x")
    await stream.aclose()
    assert llm.chat("x").text == "b"


def test_threads_do_not_wait_for_each_other(queue: Queue) -> None:
    llm = at_most(2, "abcdefgh", "abcdefgh", "c", "d")
    mine = llm.stream_chat("x")
    assert mine.next()
    message: list[str] = []

    def other() -> None:
        stream = llm.stream_chat("x")
        stream.next()
        holds.set()
        message.append(llm.chat("x").text)

    holds = threading.Event()
    each = thread(other)
    assert holds.wait(20)
    assert queue.blocked.acquire(timeout=20)
    with pytest.raises(LimitExceeded):
        llm.chat("x")
    mine.close()
    each.join(20)
    assert message == ["c"]
    gc.collect()
    assert all_free(llm)


def test_a_stream_belongs_to_the_thread_that_reads_it(queue: Queue) -> None:
    """Handed on to another thread, it is waited for."""
    llm = at_most(1, "abcdefgh", "b")
    stream = llm.stream_chat("x")
    assert stream.next()
    handed, go_on = threading.Event(), threading.Event()

    def other() -> None:
        stream.next()
        handed.set()
        go_on.wait(20)
        stream.close()

    each = thread(other)
    assert handed.wait(20)

    def let_go() -> None:
        queue.blocked.acquire(timeout=20)
        go_on.set()

    third = thread(let_go)
    assert llm.chat("x").text == "b"
    each.join(20)
    third.join(20)


def test_the_time_of_the_call_runs_while_it_waits(api: API) -> None:
    llm = at_most(1, "abcdefgh", "b")
    holder = llm.stream_chat("x")
    assert holder.next()
    seen: list[Any] = []

    def other() -> None:
        try:
            api.chat(llm, "x", settings=Settings(timeout=0.01))
        except Exception as error:
            seen.append(error)

    thread(other).join(20)
    assert isinstance(seen[0], Timeout)
    assert (seen[0].phase, seen[0].provider) == ("total", "scripted")
    holder.close()
    assert api.chat(llm, "x").text == "b"
    assert all_free(llm)


async def test_a_call_whose_time_was_up_before_it_came() -> None:
    llm = at_most(1, "abcdefgh", "b")
    llm.clock = clock = VirtualClock()
    holder, late = llm.astream_chat("x"), llm.astream_chat("x", settings=Settings(timeout=5))
    assert await holder.next()
    clock.advance(6)
    assert not await late.next()
    assert isinstance(late.err, Timeout)
    await holder.aclose()
    assert all_free(llm)


async def test_a_wait_without_a_limit() -> None:
    llm = at_most(1, "abcdefgh", "b")
    holder = llm.astream_chat("x")
    assert await holder.next()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: llm.achat("x", settings=Settings(timeout=_endless())))
        await anyio.wait_all_tasks_blocked()
        await holder.aclose()
    assert len(llm.requests) == 2


def _endless() -> Any:
    from toolcast import Timeouts

    return Timeouts(total=None)


def test_a_thread_waits_without_a_limit(queue: Queue) -> None:
    llm = at_most(1, "abcdefgh", "b")
    holder = llm.stream_chat("x")
    assert holder.next()
    each = thread(lambda: llm.chat("x", settings=Settings(timeout=_endless())))
    assert queue.blocked.acquire(timeout=20)
    holder.close()
    each.join(20)
    assert len(llm.requests) == 2


def test_a_busy_model_is_a_reason_to_ask_the_next(api: API) -> None:
    a = ScriptedLLM("abcdefgh", "a", model="a", max_concurrency=1, settings=Settings(timeout=0.01))
    b = ScriptedLLM("b", model="b")
    llm = FallbackLLM([a, b])
    holder = a.stream_chat("x")
    assert holder.next()
    answers: list[Any] = []
    thread(lambda: answers.append(api.chat(llm, "x"))).join(20)
    assert [answer.model for answer in answers] == ["b"]
    holder.close()
    assert all_free(a)


def test_several_as_one_have_a_limit_of_their_own(api: API) -> None:
    llm = FallbackLLM([ScriptedLLM(ConnectFailed("x")), ScriptedLLM("b", "c")], max_concurrency=1)
    assert [api.chat(llm, "x").text for _ in range(2)] == ["b", "c"]
    assert all_free(llm)


# -- loops and processes that are gone --------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_turn_of_a_closed_loop_is_passed_by(backend: str) -> None:
    slots = Slots(1)

    async def main() -> TaskWaiter:
        return TaskWaiter(slots)

    slots.enter(anyio.run(main, backend=backend))
    turn = Waiter(slots)
    slots.enter(turn)
    assert list(turn.box) == [0]


def test_a_child_process_has_slots_of_its_own(process: Process) -> None:
    llm = at_most(1, "abcdefgh", "b")
    stream = llm.stream_chat("x")
    assert stream.next()
    with process.as_child():
        assert llm.chat("x").text == "b"
        stream.close()
        assert all_free(llm)
    assert all_free(llm)


# -- how it is set ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1])
def test_no_slots_are_no_use(limit: int) -> None:
    with pytest.raises(ValueError, match=f"max_concurrency={limit}"):
        at_most(limit)


def test_no_limit_costs_nothing() -> None:
    for limit, kind in ((None, False), (1, True)):
        llm = at_most(limit)
        ask = client_of(llm).build_request("x", (), None, None, parallel=True)
        from toolcast.llms.call_state import CallState

        assert isinstance(client_of(llm).source(ask, client_of(llm).sync_backend(), CallState()), LimitedEvents) is kind


def test_every_ready_made_llm_takes_it() -> None:
    service = OpenAI("m", api_key="k", max_concurrency=2)
    assert service.max_concurrency == 2
    assert LlamaCpp(max_concurrency=3).max_concurrency == 3
    assert pickle.loads(pickle.dumps(service)).max_concurrency == 2
    stream = service.stream_chat("x")
    again = pickle.loads(pickle.dumps(service))
    assert all_free(again)
    stream.close()


# -- the queue by itself ----------------------------------------------------------------------------------------


class Waiting(Waiter):
    """A waiter without a call behind it."""

    calls = 0

    def end_wait(self) -> None:
        self.calls += 1


class QueueMachine(RuleBasedStateMachine):
    """Any order of coming and leaving: never more than the limit, first come first served, nothing lost."""

    turns = Bundle("turns")

    def __init__(self) -> None:
        super().__init__()
        self.slots = Slots(3)
        self.queue: list[Waiting] = []
        self.holding: list[Waiting] = []

    def _serve(self) -> None:
        while self.queue and len(self.holding) < 3:
            self.holding.append(self.queue.pop(0))

    @rule(target=turns)
    def come(self) -> Waiting:
        turn = Waiting(self.slots)
        self.slots.enter(turn)
        self.queue.append(turn)
        self._serve()
        return turn

    @rule(turn=consumes(turns), times=st.integers(1, 2))
    def leave(self, turn: Waiting, times: int) -> None:
        for _ in range(times):
            self.slots.leave(turn)
        for line in (self.queue, self.holding):
            if turn in line:
                line.remove(turn)
        self._serve()
        assert not turn.box
        assert turn.calls == 1

    @rule(turn=turns)
    def leave_while_called(self, turn: Waiting) -> None:
        """A waiter is cancelled at the moment when it gets a slot."""
        if turn in self.queue:
            turn.gone = True
            self.queue.remove(turn)

    @invariant()
    def as_expected(self) -> None:
        assert [list(turn.box) != [] for turn in self.holding] == [True] * len(self.holding)
        assert not any(turn.box for turn in self.queue)
        assert self.slots.free == 3 - len(self.holding)
        assert len({slot for turn in self.holding for slot in turn.box}) == len(self.holding)
        assert set(self.slots.holders) == set(self.holding)


TestQueue = QueueMachine.TestCase


def test_a_slot_without_a_turn_is_put_back() -> None:
    """Another thread empties the queue between the check and the step."""

    class Emptied(list[Waiter]):
        looks = iter([True, False])

        def __bool__(self) -> bool:
            return next(self.looks)

        def popleft(self) -> Waiter:
            raise IndexError

    slots = Slots(1)
    # No test can stop another thread between the two steps.
    slots._queue = Emptied()  # type: ignore[assignment]  # stands in for a deque
    slots.leave(Waiting(slots))
    assert next(Emptied.looks, None) is None
    assert slots.free == 1


def test_many_threads_coming_and_leaving() -> None:
    slots = Slots(2)
    owners: dict[int, Waiter] = {}
    failures: list[str] = []

    def work() -> None:
        for _ in range(300):
            turn = Waiting(slots)
            slots.enter(turn)
            slot = turn.box[0] if turn.box else -1
            if slot >= 0 and owners.setdefault(slot, turn) is not turn:
                failures.append("too many")
            if slot >= 0:
                del owners[slot]
            slots.leave(turn)

    threads = [thread(work) for _ in range(4)]
    for each in threads:
        each.join(20)
    assert failures == []
    assert slots.in_progress == 0
    last = [Waiting(slots), Waiting(slots)]
    for turn in last:
        slots.enter(turn)
    assert sorted(turn.box[0] for turn in last) == [0, 1]


@pytest.mark.slow
def test_garbage_in_the_middle_of_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams in cycles are collected while others come and go; asyncio's queue is not broken by it."""

    async def main() -> int:
        llm = at_most(2, *["abcdefgh"] * 60)
        for _ in range(20):
            forgotten = llm.astream_chat("x")
            await forgotten.next()
            forgotten.itself = forgotten  # type: ignore[attr-defined]  # only a collection finds it
            del forgotten
            gc.collect()
            await llm.achat("x")
        return len(llm.requests)

    assert asyncio.run(main()) == 40
