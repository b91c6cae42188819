"""turn_flow.py: the steps of a turn, and the ways in which it ends."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import aclosing
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel

from support.engines import AsyncEngineAPI, EngineAPI, call, check, results, sequence, valid_requests
from toolcast.agents.engine.compaction import Compaction
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.history import estimate_tokens
from toolcast.agents.permissions.permissions import Permissions
from toolcast.async_support import sync_driver
from toolcast.async_support.cancellation import Cancellation
from toolcast.errors import (
    Attempt,
    BudgetExceeded,
    ContentBlocked,
    ContextTooLong,
    EmptyResponse,
    FailTurn,
    IllegalState,
    NoToolCallError,
    OutputTruncated,
    Overloaded,
    RateLimited,
    Refused,
    RepeatedCall,
    RoundsExceeded,
    StreamTruncated,
    TryAgain,
    TurnCancelled,
    TurnFailed,
    ValidationError,
)
from toolcast.events import (
    ChatResponse,
    ErrorEvent,
    Event,
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
    ToolResult,
    UsageReport,
)
from toolcast.llms.client import LLMClient
from toolcast.messages import Message, assistant, tool_result, user
from toolcast.testing import ScriptedLLM
from toolcast.tools.tool_context import ToolContext
from toolcast.values.budgets import Budget
from toolcast.values.usage import Usage

ONCE = Usage(10, 5)
TOO_LONG = ContextTooLong("too long", status=400)
OLD = [message for _ in range(6) for message in (user("word " * 100), assistant("word " * 100))]


def cut_off(text: str) -> list[Any]:
    return [TextDelta(text), UsageReport(ONCE), Finish("max_tokens")]


def look() -> str:
    """Look."""
    return "fine"


# Going on by itself


def test_auto_continue_asks_for_the_rest(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM(cut_off("Once "), cut_off("upon "), "a time."), auto_continue=True)
    turn = engine_api.submit(engine, "A tale.")
    assert (turn.rounds, turn.end, turn.truncated, turn.text) == (3, "end_turn", False, "a time.")
    assert sequence(engine) == ["user", "assistant"] * 3
    assert "Continue" in llm.requests[1].messages[-1].text
    check(engine)


def test_auto_continue_stops_at_the_limit_of_rounds(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM(*[cut_off("more ")] * 5), auto_continue=True, max_rounds=2)
    with pytest.raises(Exception, match="another round"):
        engine_api.submit(engine, "A tale.")
    check(engine)


def test_calls_that_were_cut_off_are_not_gone_on_with(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM(call("a", "look", "{", truncated=True)), [look], auto_continue=True)
    assert engine_api.submit(engine, "Go.").truncated
    check(engine)


def test_thoughts_alone_are_no_answer(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM([ThinkingDelta("Hm."), Finish("end_turn")], "Yes."))
    engine_api.submit(engine, "Go.")
    engine_api.submit(engine, "Well?")
    list(valid_requests(llm.requests))
    check(engine)


# Compaction after a request that was too long


@pytest.mark.parametrize("compaction", ["default", Compaction(keep=300)])
def test_a_history_that_is_too_long_is_shortened_once_and_sent_again(engine_api: EngineAPI, compaction: Any) -> None:
    engine = Engine(llm := ScriptedLLM(TOO_LONG, "Short."), history=OLD, compaction=compaction)
    turn = engine_api.submit(engine, "Go.")
    assert (turn.text, len(llm.requests)) == ("Short.", 2)
    assert estimate_tokens(llm.requests[1].messages) < estimate_tokens(llm.requests[0].messages)
    assert llm.requests[1].messages[-1] == user("Go.")
    assert engine.trace[:4] == ("idle", "streaming", "streaming", "accumulating")
    check(engine)


def test_a_history_that_is_still_too_long_is_an_error(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM(TOO_LONG, TOO_LONG, "never sent"), history=OLD)
    with pytest.raises(ContextTooLong):
        engine_api.submit(engine, "Go.")
    assert len(llm.requests) == 2
    assert user("Go.") not in engine.history
    check(engine)


@pytest.mark.parametrize("history, compaction", [(OLD, None), ((), "default")], ids=["not allowed", "nothing to cut"])
def test_where_no_room_can_be_made_it_is_an_error(engine_api: EngineAPI, history: Any, compaction: Any) -> None:
    engine = Engine(llm := ScriptedLLM(TOO_LONG, "never sent"), history=history, compaction=compaction)
    with pytest.raises(ContextTooLong):
        engine_api.submit(engine, "Go.")
    assert len(llm.requests) == 1 and list(engine.history) == list(history)


def test_room_is_made_in_the_middle_of_a_turn(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM(call("a", "look"), TOO_LONG, "Fine."), [look], history=OLD)
    assert engine_api.submit(engine, "Go.").text == "Fine."
    assert [message.role for message in llm.requests[2].messages][-3:] == ["user", "assistant", "tool"]
    list(valid_requests(llm.requests))
    check(engine)


def test_a_limit_shortens_before_the_request(engine_api: EngineAPI) -> None:
    compaction = Compaction(keep=300, at=1_000)
    engine = Engine(llm := ScriptedLLM("Fine.", "Fine."), history=OLD, compaction=compaction)
    engine_api.submit(engine, "Go.")
    assert estimate_tokens(llm.requests[0].messages) < 400
    engine_api.submit(engine, "Go on.")
    assert len(llm.requests[1].messages) == len(llm.requests[0].messages) + 2


def summarise(messages: Sequence[Message]) -> str:
    return f"{len(messages)} messages"


async def asummarise(messages: Sequence[Message]) -> str:
    await anyio.lowlevel.checkpoint()
    return summarise(messages)


@pytest.mark.parametrize("how", [summarise, asummarise])
def test_a_summary_takes_the_place_of_what_is_cut(engine_api: EngineAPI, how: Any) -> None:
    engine = Engine(llm := ScriptedLLM(TOO_LONG, "Fine."), history=OLD, compaction=Compaction(300, how))
    engine_api.submit(engine, "Go.")
    assert "messages" in llm.requests[1].messages[0].text
    check(engine)


def test_a_summary_by_an_llm_is_paid_for(engine_api: EngineAPI) -> None:
    writer = ScriptedLLM("They talked.")
    engine = Engine(llm := ScriptedLLM(TOO_LONG, "Fine."), history=OLD, compaction=Compaction(300, writer))
    turn = engine_api.submit(engine, "Go.")
    assert "They talked." in llm.requests[1].messages[0].text
    assert turn.usage == engine.usage == ONCE + ONCE == engine.conversation.spending.usage


def fails(messages: Any) -> str:
    raise LookupError("no words")


FAILING: list[Callable[[], Any]] = [
    lambda: fails,
    lambda: lambda messages: "",
    lambda: lambda messages: None,
    lambda: ScriptedLLM(RateLimited("slow", retryable=False)),
    lambda: ScriptedLLM("", ""),
]


@pytest.mark.parametrize("make", FAILING)
def test_a_summary_that_fails_does_not_end_a_turn_that_fits(
    engine_api: EngineAPI, make: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    compaction = Compaction(keep=300, summarise=make(), at=1_000)
    engine = Engine(ScriptedLLM(call("a", "look"), "Fine."), [look], history=OLD, compaction=compaction)
    assert engine_api.submit(engine, "Go.").text == "Fine."
    assert list(engine.history[: len(OLD)]) == OLD
    assert [text.partition(":")[0] for text in caplog.messages] == [
        "the history was not shortened, as its summary failed"
    ]
    check(engine)


@pytest.mark.parametrize("make", [*FAILING, lambda: ScriptedLLM(*["", ""] * 2)])
@pytest.mark.parametrize("at", [None, 1_000])
def test_a_history_that_does_not_fit_is_shortened_without_a_summary(
    engine_api: EngineAPI, make: Callable[[], Any], at: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    compaction = Compaction(keep=300, summarise=make(), at=at)
    engine = Engine(llm := ScriptedLLM(TOO_LONG, "Fine."), history=OLD, compaction=compaction)
    assert engine_api.submit(engine, "Go.").text == "Fine."
    assert len(llm.requests[0].messages) > len(OLD) > len(llm.requests[1].messages)
    assert "messages of the history are left out, as its summary failed" in caplog.text
    check(engine)


def test_a_function_for_summaries_may_end_the_turn(engine_api: EngineAPI) -> None:
    def stops(messages: Any) -> str:
        raise FailTurn("no more")

    for at in (None, 1_000):
        compaction = Compaction(keep=300, summarise=stops, at=at)
        with pytest.raises(TurnFailed, match="no more"):
            engine_api.submit(Engine(ScriptedLLM(TOO_LONG), history=OLD, compaction=compaction), "Go.")


# Cancelling


class Waiting(ScriptedLLM):
    """Emits one word, and then waits: under an event loop for ever, without one until it is `released`."""

    def __init__(self, *answers: Any, blocks: bool = False) -> None:
        super().__init__(*answers)
        self._blocks = blocks
        self.waits = threading.Event()
        self.released = threading.Event()
        self.closed = 0

    async def _events(self, *asked: Any) -> AsyncIterator[Event]:
        if self.requests:
            async for event in super()._events(*asked):
                yield event
            return
        self.requests.append(asked)
        try:
            yield TextDelta("Well")
            self.waits.set()
            if self._blocks:
                assert self.released.wait(30)
            else:
                await anyio.sleep_forever()
            yield TextDelta(" then")
            yield Finish("end_turn")
        finally:
            self.closed += 1


def test_E9_cancel_from_another_thread_while_the_model_thinks(engine_api: EngineAPI) -> None:
    engine = Engine(llm := Waiting("unused", "Hm?", blocks=engine_api.name.startswith("sync")))

    def cancel() -> None:
        assert llm.waits.wait(30)
        engine.cancel()
        llm.released.set()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(TurnCancelled) as caught:
        engine_api.submit(engine, "Go.")
    thread.join()
    assert engine.trace == ("idle", "streaming", "cancelled", "idle")
    assert engine.history[-1].text.startswith("Well")
    assert caught.value.turn is not None and caught.value.turn.messages == engine.history[1:]
    assert llm.closed == 1
    check(engine)
    assert engine_api.submit(engine, "And?").text == "Hm?"


async def test_E9_cancel_from_a_task_while_the_model_thinks(anyio_backend: str) -> None:
    engine = Engine(llm := Waiting("unused", "Hm?"))

    async def cancel() -> None:
        while not llm.waits.is_set():
            await anyio.lowlevel.checkpoint()
        engine.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(cancel)
        with pytest.raises(TurnCancelled):
            await engine.asubmit("Go.")
    check(engine)
    assert (await engine.asubmit("And?")).text == "Hm?"


async def test_E9_a_timeout_is_a_cancellation_and_comes_out_as_one(anyio_backend: str) -> None:
    engine = Engine(llm := Waiting("unused", "Hm?"))
    stream = engine.astream("Go.")
    with pytest.raises(TimeoutError):
        with anyio.fail_after(0.01):
            await stream.result()
    assert engine.trace[-2:] == ("cancelled", "idle")
    assert llm.closed == 1
    # Nothing of the event loop's own cancellation is left to surprise who asks again.
    with pytest.raises(TurnCancelled):
        await stream.result()
    check(engine)
    assert (await engine.asubmit("And?")).text == "Hm?"


@pytest.mark.parametrize("takes_context", [True, False])
def test_E9_cancel_from_another_thread_in_a_sync_tool(engine_api: EngineAPI, takes_context: bool) -> None:
    inside = threading.Event()
    cancelled = threading.Event()

    def work() -> str:
        """Work."""
        inside.set()
        assert cancelled.wait(30)
        return "done all the same"

    def work_with(context: ToolContext) -> str:
        return work()

    def cancel() -> None:
        assert inside.wait(30)
        engine.cancel()
        cancelled.set()

    from toolcast.tools.callable_tool import CallableTool

    tool = CallableTool.from_function(work_with if takes_context else work, "work", "Work.")
    engine = Engine(llm := ScriptedLLM([call("a", "work"), call("b", "look")], "Hm?"), [tool, look])
    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(TurnCancelled):
        engine_api.submit(engine, "Go.")
    thread.join()
    assert [one.call_id for one in results(engine.history)] == ["a", "b"]
    assert results(engine.history)[1].is_error
    check(engine)
    assert engine_api.submit(engine, "And?").text == "Hm?"
    list(valid_requests(llm.requests))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_E9_cancel_in_an_async_tool(backend: str) -> None:
    ended: list[str] = []

    async def work() -> str:
        """Work."""
        try:
            engine.cancel()
            await anyio.sleep_forever()
            return "never"
        finally:
            ended.append("work")

    engine = Engine(ScriptedLLM([call("a", "work"), call("b", "look")], "Hm?"), [work, look])
    with pytest.raises(TurnCancelled):
        AsyncEngineAPI(backend).submit(engine, "Go.")
    assert ended == ["work"]
    assert [one.is_error for one in results(engine.history)] == [True, True]
    check(engine)


def test_a_turn_that_is_cancelled_before_it_begins_changes_nothing(engine_api: EngineAPI) -> None:
    before = [user("Go."), assistant("Yes."), user("Go.")]
    parent = Cancellation()
    engine = Engine(llm := ScriptedLLM("never sent"), history=before).fork(context=ToolContext(cancellation=parent))
    engine.conversation.history = list(before)
    engine.conversation.added = [assistant("of another turn")]
    parent.cancel()
    text = engine_api.stream(engine, "Go.")
    assert isinstance(text.error, TurnCancelled)
    assert text.error.turn is not None and text.error.turn.messages == ()
    assert list(engine.history) == before
    assert llm.requests == []
    assert engine.trace == ("idle", "cancelled", "idle")


def test_calls_that_wait_for_an_answer_go_on_waiting_where_a_turn_never_began(engine_api: EngineAPI) -> None:
    asked = [user("Go."), assistant(call("a", "look"))]
    parent = Cancellation()
    engine = Engine(ScriptedLLM("ok"), [look]).fork(context=ToolContext(cancellation=parent))
    engine.conversation.history = list(asked)
    parent.cancel()
    with pytest.raises(TurnCancelled):
        engine_api.submit(engine)
    assert list(engine.history) == asked


def test_a_turn_leaves_nothing_with_the_cancellation_above_it(engine_api: EngineAPI) -> None:
    parent = Cancellation()
    engine = Engine(ScriptedLLM("a", "b")).fork(context=ToolContext(cancellation=parent))
    engine_api.submit(engine, "1")
    engine_api.submit(engine, "2")
    assert parent._then == {}


def test_what_is_interrupted_in_a_tool_is_cancelled(engine_api: EngineAPI) -> None:
    class Grave(BaseException):
        pass

    def work() -> str:
        """Work."""
        raise Grave

    engine = Engine(ScriptedLLM([call("a", "look"), call("b", "work"), call("c", "look")], "Hm?"), [look, work])
    with pytest.raises(BaseException) as caught:  # trio may put it into a group
        engine_api.submit(engine, "Go.")
    assert isinstance(caught.value, Grave)
    assert [one.is_error for one in results(engine.history)] == [False, True, True]
    assert engine.trace[-2:] == ("cancelled", "idle")
    check(engine)
    assert engine_api.submit(engine, "And?").text == "Hm?"


def test_results_that_were_ready_are_reported_before_the_error(engine_api: EngineAPI) -> None:
    def stop(context: ToolContext) -> str:
        """Stop."""
        engine.cancel()
        return "stopped"

    engine = Engine(ScriptedLLM(call("a", "stop"), "Hm?"), [stop])
    text = engine_api.stream(engine, "Go.")
    assert [type(event) for event in text.events[-2:]] == [ToolResult, ErrorEvent]
    assert isinstance(text.error, TurnCancelled)


# One after the other


async def test_events_are_read_by_one_at_a_time(anyio_backend: str) -> None:
    engine = Engine(llm := Waiting("unused"))
    stream = engine.astream("Go.")
    assert await anext(stream) == TextDelta("Well")
    seen: list[Any] = []

    async def read() -> None:
        seen.extend([event async for event in stream])

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        while not llm.waits.is_set():
            await anyio.lowlevel.checkpoint()
        with pytest.raises(IllegalState, match="already"):
            await anext(stream)
        with pytest.raises(IllegalState, match="already"):
            await stream.result()
        await stream.aclose()
    (last,) = seen
    assert isinstance(last, ErrorEvent) and isinstance(last.error, TurnCancelled)
    check(engine)


def test_a_sync_stream_can_be_closed_from_another_thread() -> None:
    engine = Engine(llm := Waiting("unused", "Hm?", blocks=True))
    stream = engine.stream("Go.")

    def close() -> None:
        assert llm.waits.wait(30)
        stream.close()
        llm.released.set()

    thread = threading.Thread(target=close)
    thread.start()
    with pytest.raises(TurnCancelled):
        stream.result()
    thread.join()
    check(engine)


def test_a_sync_stream_that_is_closed_elsewhere_while_an_event_arrives_ends_its_turn() -> None:
    def answer(request: Any) -> str:
        thread = threading.Thread(target=stream.close)
        thread.start()
        thread.join()
        return "Well then"

    engine = Engine(ScriptedLLM(answer, "Hm?"))
    stream = engine.stream("Go.")
    list(stream)
    assert stream.state == "idle"
    assert engine.submit("And?").text == "Hm?"
    check(engine)


def test_a_sync_stream_begins_its_turn_once() -> None:
    class Beginning(LLMClient):
        def sync_backend(self) -> Any:
            if not others:
                others.append(pool.submit(lambda: next(stream, None)))
                wait(others, timeout=0.1)  # the other thread could begin the turn meanwhile
            return super().sync_backend()

    class Begun(ScriptedLLM):
        __toolcast_client__ = Beginning

    others: list[Future[Any]] = []
    engine = Engine(llm := Begun("Well then", "unused"))
    stream = engine.stream("Go.")
    with ThreadPoolExecutor(2) as pool:
        wait([first := pool.submit(lambda: next(stream, None))])
    errors = [str(error) for each in (first, *others) if (error := each.exception())]
    assert len(llm.requests) == 1
    assert all("another caller is already waiting" in error for error in errors), errors


def test_a_turn_whose_coroutine_is_closed_is_cancelled() -> None:
    async def main() -> None:
        engine = Engine(Waiting("unused", "Hm?"))
        waiting = engine.asubmit("Go.").__await__()
        next(waiting)
        waiting.close()
        assert engine.trace[-2:] == ("cancelled", "idle")
        check(engine)
        assert (await engine.asubmit("And?")).text == "Hm?"

    anyio.run(main, backend="asyncio")  # trio does not let a task close a generator that it waits for


# What is foreign


class Careless(ScriptedLLM):
    """Fails while it is closed."""

    async def _events(self, *asked: Any) -> AsyncIterator[Event]:
        try:
            async with aclosing(super()._events(*asked)) as events:
                async for event in events:
                    yield event
        except GeneratorExit:
            raise LookupError("there is nothing to close") from None


def test_a_model_that_cannot_be_closed_harms_no_turn(engine_api: EngineAPI, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(Careless("Hello there", "Hm?"))
    with caplog.at_level(logging.ERROR, "toolcast"):
        text = engine_api.stream(engine, "Hi.", watch=lambda stream, event: engine.cancel())
    assert isinstance(text.error, TurnCancelled)
    assert "closing an answer failed" in caplog.text
    check(engine)
    assert engine_api.submit(engine, "And?").text == "Hm?"


# Checkpoints


def driven(engine: Engine, checkpoint: Callable[[], object], message: Any = "Go.") -> list[Any]:
    """All events of a turn that has a checkpoint."""
    flow = engine.begin(message, None, {}, concurrent=False, checkpoint=checkpoint)
    events: list[Any] = []
    while received := sync_driver.run(flow.next_events()):
        events += received
    return events


def test_what_a_tool_may_do_is_written_down_before_it_does_it() -> None:
    saved: list[tuple[int, list[str]]] = []

    def work() -> str:
        """Work."""
        assert saved[-1] == (2 + len(results(engine.history)), sorted(engine.conversation.started))
        assert len(engine.conversation.started) == 1
        return "ok"

    engine = Engine(ScriptedLLM([call("a", "work"), call("b", "work")], "ok"), [work])
    driven(engine, lambda: saved.append((len(engine.history), sorted(engine.conversation.started))))
    assert not any(one.is_error for one in results(engine.history))
    assert saved[0] == (1, [])


def test_a_checkpoint_that_fails_ends_the_turn_before_the_tool_runs() -> None:
    """It has not begun, so the turn can be continued."""

    def checkpoint() -> None:
        if engine.conversation.started:
            raise OSError("the disk is full")

    engine = Engine(ScriptedLLM(call("a", "look"), "ok"), [look])
    events = driven(engine, checkpoint)
    assert isinstance(events[-1].error, OSError)
    assert (results(engine.history), engine.conversation.started) == ([], set())
    assert engine.submit().text == "ok"
    assert not results(engine.history)[0].is_error
    check(engine)


# Usage


def test_an_answer_that_was_broken_off_is_paid_for(engine_api: EngineAPI) -> None:
    answer = [UsageReport(ONCE), TextDelta("Hello"), TextDelta(" there"), Finish("end_turn")]
    engine = Engine(ScriptedLLM(answer))
    seen: list[Usage] = []

    def watch(stream: Any, event: Any) -> None:
        seen.append(stream.usage)
        if isinstance(event, TextDelta):
            engine.cancel()

    text = engine_api.stream(engine, "Hi.", watch=watch)
    assert isinstance(text.error, TurnCancelled) and text.error.turn is not None
    assert seen[-1] == text.error.turn.usage == engine.usage == engine.conversation.spending.usage == ONCE


def test_the_turn_can_be_looked_at_while_it_goes_on(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM(call("a", "look"), "Fine."), [look])
    rounds: list[int] = []

    def watch(stream: Any, event: Any) -> None:
        rounds.append(stream.turn.rounds)
        if isinstance(event, ToolResult):
            assert stream.turn.messages == (assistant(call("a", "look")), tool_result(call("a", "look"), "fine"))
            assert stream.usage == ONCE

    engine_api.stream(engine, "Go.", watch=watch)
    assert sorted(set(rounds)) == [1, 2] and rounds == sorted(rounds)


def test_a_turn_is_forgotten_with_its_engine() -> None:
    engine = Engine(ScriptedLLM("a"))
    engine.submit("1")
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None


def test_a_failed_turn_can_be_asked_for_again(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM(RateLimited("slow down")))
    with engine.stream("Go.") as stream:
        for _ in range(2):
            with pytest.raises(RateLimited):
                stream.result()


def test_the_budget_is_looked_at_before_calls_are_run(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM(call("a", "look")), [look], budget=Budget(tokens=15))
    text = engine_api.stream(engine, "Go.")
    assert isinstance(text.error, BudgetExceeded)
    assert results(engine.history)[0].is_error


# The requests of the turn on its error


class Pair(BaseModel):
    left: int
    right: int


def stop() -> str:
    """Stop."""
    raise FailTurn("no more")


def refuse(_: ToolContext[Any], output: Any) -> Any:
    raise TryAgain("not this one")


LOOK, STOP = call("l", "look"), call("s", "stop")
HALF, WHOLE = call("p", "Pair", '{"left": 1}'), call("p", "Pair", '{"left": 1, "right": 2}')
TYPED = {"output_cls": Pair}
ERRORS: dict[str, tuple[list[Any], dict[str, Any], dict[str, Any], type[Exception], list[Any], str]] = {
    # the answers, the options of the engine and of the turn; the error, those of its attempts, the end of its message
    "invalid": ([HALF] * 9, {}, TYPED, ValidationError, [ValidationError] * 3, "max_attempts=4 allows another attempt"),
    "invalid once": ([HALF], {"max_attempts": 1}, TYPED, ValidationError, [ValidationError], "correct itself"),
    "invalid after a tool": (
        [LOOK, HALF, HALF],
        {"max_attempts": 2},
        TYPED,
        ValidationError,
        [None, ValidationError, ValidationError],
        "max_attempts=3 allows another attempt",
    ),
    "text": (
        ["no"] * 9,
        {},
        TYPED,
        NoToolCallError,
        [NoToolCallError] * 3,
        "max_attempts=4 allows another attempt, or try another model",
    ),
    "text once": (["no"], {"max_attempts": 1}, TYPED, NoToolCallError, [NoToolCallError], "or try another model."),
    "rejected": (
        [WHOLE] * 9,
        {"output_validators": refuse},
        TYPED,
        ValidationError,
        [TryAgain] * 3,
        "not this one. max_attempts=4 allows another attempt",
    ),
    "cut off": (
        [[ToolCallStart("p", "Pair"), ToolCallDelta("p", '{"left": 1'), UsageReport(ONCE), Finish("max_tokens")]],
        {},
        TYPED,
        OutputTruncated,
        [OutputTruncated],
        "",
    ),
    "refused": ([[TextDelta("No."), Finish("refusal")]], {}, TYPED, Refused, [Refused], ""),
    "blocked": (
        [LOOK, [TextDelta("No."), Finish("content_filter")]],
        {},
        TYPED,
        ContentBlocked,
        [None, ContentBlocked],
        "",
    ),
    "empty": ([""], {}, {}, EmptyResponse, [EmptyResponse], ""),
    "overloaded": ([LOOK, Overloaded("full")], {}, {}, Overloaded, [None, Overloaded], "full"),
    "truncated": ([[TextDelta("Once")]], {}, {}, StreamTruncated, [StreamTruncated], ""),
    "a tool": ([STOP], {}, {}, TurnFailed, [None], ""),
    "rounds": ([LOOK] * 9, {"max_rounds": 2}, {}, RoundsExceeded, [None] * 2, ""),
    "repeats": ([LOOK] * 9, {"max_repeats": 1}, {}, RepeatedCall, [None] * 2, ""),
    "budget": ([LOOK] * 9, {"budget": Budget(tool_calls=1)}, {}, BudgetExceeded, [None] * 2, ""),
}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", ERRORS)
def test_an_error_has_the_requests_of_the_turn(engine_api: EngineAPI, name: str, streamed: bool) -> None:
    answers, options, turn, expected, failures, end = ERRORS[name]
    engine = Engine(ScriptedLLM(*answers), [look, stop], **options)
    error: Any
    if streamed:
        error = engine_api.stream(engine, "Go.", **turn).error
    else:
        with pytest.raises(expected) as caught:
            engine_api.submit(engine, "Go.", **turn)
        error = caught.value
    assert type(error) is expected
    assert [attempt.number for attempt in error.attempts] == [*range(1, len(failures) + 1)]
    assert [attempt.error and type(attempt.error) for attempt in error.attempts] == failures
    assert sum([attempt.usage for attempt in error.attempts], Usage()) == engine.usage
    assert (error.provider, error.model) == ("scripted", "scripted")
    found = None if expected in (Overloaded, StreamTruncated) else ChatResponse
    assert error.response is None if found is None else isinstance(error.response, found)
    assert str(error).split(" (after ")[0].endswith(end)
    assert error.turn.history == engine.history
    with pytest.raises(IllegalState, match=f"it ended with '{error.turn.end}'"):
        error.turn.output  # noqa: B018  # reading it raises


def test_an_error_of_another_call_keeps_its_own_requests(engine_api: EngineAPI) -> None:
    inner = RateLimited("the judge is busy", provider="judge", model="j")
    inner.attempts = (Attempt(1, inner), Attempt(2, inner))

    def judge(_: ToolContext[Any], output: Any) -> Any:
        raise inner

    engine = Engine(ScriptedLLM(WHOLE), output_validators=judge)
    error = engine_api.stream(engine, "Go.", **TYPED).error
    assert error is inner
    assert (len(inner.attempts), inner.provider, inner.response) == (2, "judge", None)


def test_a_function_with_edited_arguments_that_do_not_fit_has_no_advice_about_attempts(engine_api: EngineAPI) -> None:
    permissions = Permissions("default", approve=lambda request: request.edit({"city": 1}))

    def visit(city: str) -> str:
        """Visit a city."""
        return city

    engine = Engine(ScriptedLLM(call("v", "visit", '{"city": "Oslo"}')), permissions=permissions, max_attempts=1)
    error = engine_api.stream(engine, "Go.", output_cls=visit).error
    assert isinstance(error, ValidationError)
    assert "max_attempts" not in str(error)
    assert [type(attempt.error) for attempt in error.attempts] == [ValidationError]
