"""The chat machine as a demanding application uses it: regressions found by such use."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from support.chat_drivers import PATIENCE, ChatAPI, FakeStages
from support.engines import call, results
from support.loopback import HOLD, Loopback, head
from toolcast.agents.engine.compaction import Compaction
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.history import find_problems
from toolcast.agents.permissions.permissions import Permissions
from toolcast.async_support.background_jobs import BackgroundJob
from toolcast.chat.chat_context import ChatContext, Streamed
from toolcast.chat.effects import StageTask
from toolcast.chat.events import (
    ApproveToolCall,
    Interrupt,
    LoadModel,
    ModelLoadSuccess,
    QueueMessage,
    RejectToolCall,
    RetryGeneration,
    ToolSearchSuccess,
)
from toolcast.chat.machine import AsyncChatMachine, ChatChange, ChatMachine
from toolcast.errors import ContextTooLong, FailTurn, IllegalState
from toolcast.events import Finish, TextDelta
from toolcast.llms.vendors.openai_llms import OpenAICompatible
from toolcast.messages import Message
from toolcast.testing import ScriptedLLM, VirtualClock
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.tool_context import ToolContext
from toolcast.values.accumulator import Accumulator
from toolcast.values.budgets import Budget

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def look(value: int = 0) -> str:
    """Look at a value."""
    return f"seen {value}"


def requests_of(engine: Engine) -> list[Sequence[Message]]:
    llm: Any = engine.llm
    return [asked.messages for asked in llm.requests]


# Who dispatches, and from where.


@pytest.mark.parametrize("event", [None, 5, ["QUEUE_MESSAGE"], QueueMessage])
def test_what_is_no_event_at_all_is_refused_in_words(chats: ChatAPI, event: Any) -> None:
    chat = chats.open()
    with pytest.raises(TypeError, match=r"is no event: use QueueMessage\('Hello.'\), or plain data"):
        chats.dispatch(chat, event)


def test_who_dispatches_from_a_thread_is_reported_how() -> None:
    chat = AsyncChatMachine(Engine(ScriptedLLM()))
    with pytest.raises(RuntimeError, match=r"from a thread: call_soon_threadsafe\(chat.dispatch, ...\)"):
        chat.dispatch("LOAD_MODEL")


def test_work_tells_from_any_thread(chats: ChatAPI) -> None:
    async def search(work: StageTask) -> None:
        if work.concurrent:
            await anyio.to_thread.run_sync(work.emit, ToolSearchSuccess())
        else:
            thread = threading.Thread(target=work.emit, args=(ToolSearchSuccess(),))
            thread.start()
            thread.join(PATIENCE)

    chat = chats.open("Hi.", perform={"search_tools": search})
    chats.dispatch(chat, QueueMessage("Hello."), LoadModel())
    chats.until(chat, "ready")
    assert [message.text for message in chat.context.messages] == ["Hello.", "Hi."]


@BACKENDS
def test_what_a_thread_tells_a_loop_that_is_closed_is_not_received(backend: Any) -> None:
    works: list[StageTask] = []

    async def search(work: StageTask) -> None:
        works.append(work)

    async def main() -> AsyncChatMachine:
        chat = AsyncChatMachine(Engine(ScriptedLLM()), perform={"search_tools": search})
        chat.dispatch(QueueMessage("Hello."))
        chat.dispatch("LOAD_MODEL")
        await chat.run_until("searching_tools")
        await anyio.wait_all_tasks_blocked()
        return chat

    chat = anyio.run(main, backend=backend)
    thread = threading.Thread(target=works[0].emit, args=(ToolSearchSuccess(),))
    thread.start()
    thread.join(PATIENCE)
    assert chat.state == "searching_tools"


def test_a_listener_cannot_wait() -> None:
    errors: list[Exception] = []

    def wait(change: ChatChange) -> None:
        try:
            chat.run_until("ready")
        except IllegalState as error:
            errors.append(error)

    with ChatMachine(Engine(ScriptedLLM())) as chat:
        chat.subscribe(wait)
        chat.dispatch("LOAD_MODEL")
        assert chat.run_until() == "ready"
    assert [str(error) for error in errors] == ["a listener cannot wait: nothing happens before it is back"] * 2


def test_work_of_a_name_that_there_is_not_is_refused(chats: ChatAPI) -> None:
    with pytest.raises(ValueError, match="perform= has 'generation'; the orders are load_model, search_tools, gen"):
        chats.open(perform={"generation": print})


def test_a_tool_that_the_chat_was_not_given_cannot_be_found(chats: ChatAPI) -> None:
    async def search(*asked: Any) -> Sequence[CallableTool]:
        return [CallableTool.from_function(look)]

    chat = chats.open(search=search)
    chats.dispatch(chat, QueueMessage("Hello."), LoadModel())
    chats.until(chat, "ready")
    error = chat.context.last_error
    assert error is not None and error.message.startswith("ValueError: the search found look, which the chat was not")
    assert chat.context.tools == ()


def test_a_listener_that_closes_the_chat_waits_for_no_work_which_may_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def close(chat: ChatMachine, change: ChatChange) -> None:
        chat.close()

    waited: list[BackgroundJob] = []
    monkeypatch.setattr(BackgroundJob, "wait", lambda job, timeout: waited.append(job))
    for inside in (True, False):
        stage = FakeStages()
        chat = ChatMachine(Engine(ScriptedLLM()), perform=stage.perform)
        chat.dispatch("LOAD_MODEL")
        task = stage.task("load_model")
        if inside:
            chat.subscribe(partial(close, chat))
            chat.dispatch(QueueMessage("Hello."))
        else:
            chat.close()
        assert task.cancelled and bool(waited) != inside


def test_a_tool_may_close_the_chat_that_it_runs_for() -> None:
    closed = threading.Event()

    def leave() -> str:
        """Leave."""
        chat.close()
        closed.set()
        return "gone"

    chat = ChatMachine(Engine(ScriptedLLM(call("a", "leave")), [leave], permissions=Permissions("bypass")))
    chat.dispatch(QueueMessage("Go."))
    chat.dispatch("LOAD_MODEL")
    assert closed.wait(PATIENCE)
    with pytest.raises(IllegalState, match="the chat is closed"):
        chat.dispatch("LOAD_MODEL")


# Where the event loop ends.


@BACKENDS
def test_a_chat_is_closed_with_its_loop_and_begins_nothing_in_it(
    backend: Any, caplog: pytest.LogCaptureFixture
) -> None:
    begun: list[StageTask] = []

    async def search(work: StageTask) -> None:
        begun.append(work)
        await anyio.sleep_forever()

    async def main() -> AsyncChatMachine:
        chat = AsyncChatMachine(Engine(ScriptedLLM()), perform={"search_tools": search})
        chat.dispatch("LOAD_MODEL")
        await chat.run_until("ready")
        chat.dispatch(QueueMessage("Hello."))
        chat.dispatch(QueueMessage("More."))
        await anyio.wait_all_tasks_blocked()
        return chat

    chat = anyio.run(main, backend=backend)
    assert (chat.state, len(begun), caplog.text) == ("searching_tools", 1, "")
    with pytest.raises(IllegalState, match="the chat is closed"):
        chat.restore(chat.snapshot())
    with ChatMachine(Engine(ScriptedLLM("Hi."))) as other:
        other.restore(chat.snapshot())
        assert other.run_until("ready", timeout=PATIENCE) == "ready"
        assert [message.text for message in other.context.messages] == ["Hello.", "More.", "Hi."]


def test_a_cancellation_that_no_one_asked_for_is_a_failure() -> None:
    async def search(work: StageTask) -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        async with AsyncChatMachine(Engine(ScriptedLLM()), perform={"search_tools": search}) as chat:
            chat.dispatch("LOAD_MODEL")
            await chat.run_until("ready")
            chat.dispatch(QueueMessage("Hello."))
            await chat.run_until("ready")
            assert chat.context.last_error is not None
            assert chat.context.last_error.message == "CancelledError"

    asyncio.run(main())


# Going on with a snapshot.


def test_work_that_was_restored_over_is_not_taken_for_what_follows_it(chats: ChatAPI) -> None:
    stage = FakeStages()
    chat = chats.open(perform=stage.perform)
    chats.dispatch(chat, LoadModel())
    stage.task("load_model").end(ModelLoadSuccess())
    ready = chat.snapshot()
    chats.dispatch(chat, QueueMessage("One."))
    old = stage.task("search_tools")
    chats.call(chat.restore, ready)
    chats.dispatch(chat, QueueMessage("Two."))
    new = stage.task("search_tools")
    assert old.work.run == new.work.run and old.cancelled
    chats.call(chat._on_work_event, old.work, ToolSearchSuccess(run=old.work.run))
    assert chat.state == "searching_tools"
    assert old.work.job is not None and old.work.job.wait(PATIENCE)
    chats.dispatch(chat, Interrupt())
    assert new.cancelled


def test_the_limits_are_those_of_the_engine_it_goes_on_with(chats: ChatAPI) -> None:
    first, second = chats.open(), chats.open(engine=Engine(ScriptedLLM(), max_rounds=3))
    chats.call(second.restore, first.snapshot())
    assert second.context.max_rounds == 3


def snapshot_with_calls() -> dict[str, Any]:
    """One of a chat in which two calls wait for a word."""
    llm = ScriptedLLM([call("a", "look"), call("b", "look")])
    with ChatMachine(Engine(llm, [look], permissions=Permissions())) as chat:
        chat.dispatch(QueueMessage("Go."))
        chat.dispatch("LOAD_MODEL")
        chat.run_until("waiting_for_tool_approval", timeout=PATIENCE)
        data: dict[str, Any] = json.loads(json.dumps(chat.snapshot()))
        return data


def test_a_newer_or_damaged_snapshot_is_refused(chats: ChatAPI) -> None:
    chat = chats.open()
    contexts: list[Any] = [[], {"mood": 1}, {"queue": 5}]
    damaged: list[Any] = [None, {"version": 1, "state": "ready"}]
    damaged += [{"version": 1, "state": "ready", "context": context} for context in contexts]
    for data in damaged:
        with pytest.raises(ValueError, match="this snapshot of a chat is damaged"):
            chats.call(chat.restore, data)
    assert (chat.state, chat.context) == ("idle", ChatContext())


ODD: dict[str, dict[str, Any]] = {
    "no pending call": {"pending": []},
    "no such call": {"pending": [{"call_id": "zzz", "tool": "look", "arguments": "{}"}]},
    "no message": {"messages": []},
    "a retry that cannot be": {"state": "ready", "retry": "generation"},
    "calls that are not there": {"state": "ready", "retry": "tool_call", "running": ["zzz"], "messages": []},
    "it was writing": {"state": "streaming_response"},
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_a_chat_goes_on_with_an_odd_snapshot(chats: ChatAPI, odd: dict[str, Any]) -> None:
    data = snapshot_with_calls()
    data["context"] |= {name: value for name, value in odd.items() if name != "state"}
    engine = Engine(ScriptedLLM(*["Fine."] * 3), [look], permissions=Permissions())
    chat = chats.open(engine=engine)
    chats.call(chat.restore, data | {"state": odd.get("state", data["state"])})
    assert (chat.state, chat.context.pending) == ("ready", ())
    for event in (RetryGeneration(), "RETRY_TOOL_CALL", "RETRY_TOOL_SEARCH", QueueMessage("More.")):
        chats.dispatch(chat, event)
        chats.until(chat)
    assert chat.context.messages[-1].text == "Fine."
    assert [find_problems(asked) for asked in requests_of(engine)] == [[]] * len(requests_of(engine))


def test_calls_that_the_engine_had_left_open_do_not_make_a_snapshot_odd(chats: ChatAPI) -> None:
    engine = Engine(ScriptedLLM(call("a", "look")), [look], permissions=Permissions(approve="later"))
    engine.submit("Go.")
    first, second = chats.open(engine=engine), chats.open()
    chats.call(second.restore, first.snapshot())
    assert (second.state, second.context.messages) == ("idle", engine.history)


# Messages sent while tools run.


def test_several_calls_are_approved_and_rejected_while_the_first_runs(chats: ChatAPI) -> None:
    begun, opened = threading.Event(), threading.Event()

    def open_valve(value: int) -> str:
        """Open a valve."""
        begun.set()
        assert opened.wait(PATIENCE)
        return f"open {value}"

    calls = [call(id, "open_valve", f'{{"value": {number}}}') for number, id in enumerate("abc")]
    engine = Engine(ScriptedLLM(calls, "Done."), [open_valve], permissions=Permissions())
    chat = chats.open(engine=engine)
    chats.dispatch(chat, QueueMessage("Go."), LoadModel())
    chats.until(chat, "waiting_for_tool_approval")
    chats.dispatch(chat, ApproveToolCall("a"))
    assert begun.wait(PATIENCE)
    assert not chats.dispatch(chat, ApproveToolCall("b")).ignored
    assert not chats.dispatch(chat, RejectToolCall("c", "not that one")).ignored
    opened.set()
    assert chats.until(chat, "ready", "waiting_for_tool_approval") == "ready"
    contents = {result.call_id: result.content for result in results(chat.context.messages)}
    assert contents == {"a": "open 0", "b": "open 1", "c": "permission denied: not that one"}
    assert list(contents) == ["a", "b", "c"]


def test_a_call_that_failed_has_failed_also_if_another_model_was_loaded_since(chats: ChatAPI) -> None:
    def fail() -> str:
        """Fail."""
        raise LookupError("gone")

    engine = Engine(ScriptedLLM(call("a", "fail"), "I see."), [fail], permissions=Permissions("bypass"))
    chat = chats.open(engine=engine)
    chats.dispatch(chat, QueueMessage("Go."), LoadModel())
    chats.until(chat, "ready")
    chats.dispatch(chat, LoadModel())
    chats.until(chat, "ready")
    assert chat.context.last_error is None
    chats.dispatch(chat, QueueMessage("Never mind."))
    chats.until(chat, "ready")
    assert [result.content for result in results(chat.context.messages)] == ["The tool failed."]


def test_after_a_tool_that_ends_the_turn_no_other_call_runs(chats: ChatAPI) -> None:
    ran: list[str] = []

    def fail() -> str:
        """Fail."""
        raise FailTurn("the licence has expired")

    def go() -> str:
        """Go."""
        ran.append("go")
        return "gone"

    answers = [[call("a", "fail"), call("b", "go")], "Done."]
    engine = Engine(ScriptedLLM(*answers), [fail, go], permissions=Permissions("bypass"))
    chat = chats.open(engine=engine)
    chats.dispatch(chat, QueueMessage("Go."), LoadModel())
    chats.until(chat, "ready")
    assert chat.context.last_error is not None
    assert (chat.context.last_error.message, ran) == ("fail: the licence has expired", [])
    assert chat.context.retry == "tool_call"


def test_tools_and_instructions_get_the_dependencies_of_the_chat(chats: ChatAPI) -> None:
    def name(context: ToolContext[str]) -> str:
        """Name."""
        return context.deps

    async def instruct(context: ToolContext[str]) -> str:
        return f"You serve {context.deps}."

    llm = ScriptedLLM(call("a", "name"), "ok", call("b", "name"), "ok")
    engine = Engine[str](llm, [name], instructions=instruct, permissions=Permissions("bypass"))
    chat = chats.open(engine=engine)
    chats.dispatch(chat, QueueMessage("Name?"), LoadModel())
    chats.until(chat, "ready")
    assert chat.context.last_error is not None
    assert "the tool name requires deps" in chat.context.last_error.message
    assert llm.requests == []
    chat.deps = "Ada"
    chats.dispatch(chat, RetryGeneration())
    chats.until(chat, "ready")
    chat.deps = "Bob"
    chats.dispatch(chat, QueueMessage("Name?"))
    chats.until(chat, "ready")
    assert chat.deps == "Bob"
    assert [part.content for part in results(chat.context.messages)] == ["Ada", "Bob"]
    assert [request.messages[0].text for request in llm.requests] == [
        *["You serve Ada."] * 2,
        *["You serve Bob."] * 2,
    ]


def test_an_approver_of_all_calls_is_replaced_by_the_chat(chats: ChatAPI) -> None:
    engine = Engine(
        ScriptedLLM(call("a", "look"), "ok"), [look], permissions=Permissions(approve_all=lambda asked: True)
    )
    chat = chats.open(engine=engine)
    chats.dispatch(chat, QueueMessage("Go."), LoadModel())
    chats.until(chat, "waiting_for_tool_approval")
    shown = [request.fingerprint for request in chat.context.pending]
    chats.dispatch(chat, {"type": "APPROVE_TOOL_CALL", "fingerprints": ["other"]})
    assert chat.state == "waiting_for_tool_approval"
    chats.dispatch(chat, {"type": "APPROVE_TOOL_CALL", "fingerprints": shown})
    chats.until(chat, "ready")
    assert [part.is_error for part in results(chat.context.messages)] == [False]


# The limits of the engine.


def test_a_model_that_calls_the_same_again_and_again_is_stopped(chats: ChatAPI) -> None:
    engine = Engine(ScriptedLLM(*[call("a", "look")] * 5), [look], max_repeats=2, permissions=Permissions("bypass"))
    chat = chats.open(engine=engine)
    chats.dispatch(chat, QueueMessage("Go."), LoadModel())
    chats.until(chat, "ready")
    error = chat.context.last_error
    assert error is not None and "more than 2 times in a row" in error.message
    assert len(requests_of(engine)) == 3
    chats.dispatch(chat, QueueMessage("Once more."))
    chats.until(chat, "ready")
    assert len(requests_of(engine)) == 6 and "another request was made" in str(chat.context.last_error)


def test_seconds_are_counted_while_something_is_done(chats: ChatAPI) -> None:
    clock = VirtualClock()

    def sleep() -> str:
        """Sleep for a while."""
        clock.advance(7)
        return "slept"

    llm = ScriptedLLM(*[call("a", "sleep")] * 5)
    llm.clock = clock
    engine = Engine(llm, [sleep], budget=Budget(seconds=10), permissions=Permissions("bypass"))
    chat = chats.open(engine=engine)
    chats.dispatch(chat, QueueMessage("Go."), LoadModel())
    chats.until(chat, "ready")
    error = chat.context.last_error
    assert error is not None and "the budget of 10 seconds is used up (14.0 spent)" in error.message
    assert (len(requests_of(engine)), engine.conversation.spending.seconds()) == (2, 14)


def test_the_time_of_a_budget_ends_the_wait_for_the_model(chats: ChatAPI) -> None:
    with Loopback() as server:
        server.answer(head(200, "content-type: text/event-stream", "transfer-encoding: chunked"), HOLD)
        llm = OpenAICompatible("m", base_url=f"{server.url}/v1", api_key="k", max_retries=0)
        chat = chats.open(engine=Engine(llm, budget=Budget(seconds=0.2)))
        chats.dispatch(chat, QueueMessage("Go."), LoadModel())
        chats.until(chat, "ready")
    error = chat.context.last_error
    assert error is not None and "the budget of seconds is used up" in error.message


class Narrow(ScriptedLLM):
    """A model that takes no more than so many characters."""

    refused = 0

    async def _events(self, messages: Sequence[Message], *rest: Any) -> Any:
        if sum(len(result.content) for result in results(messages)) > 2_500:
            self.refused += 1
            raise ContextTooLong("too long")
        async for event in super()._events(messages, *rest):
            yield event


@pytest.mark.parametrize("at", [None, 700], ids=["refused", "before that"])
def test_a_long_chat_is_sent_shortened_from_then_on(chats: ChatAPI, at: int | None) -> None:
    def read() -> str:
        """Read a page."""
        return "word " * 200

    summed: list[int] = []

    def summarise(messages: Sequence[Message]) -> str:
        summed.append(len(messages))
        return "They read."

    llm = Narrow(*[call("call_0", "read"), "Fine."] * 6)
    engine = Engine(
        llm, [read], compaction=Compaction(keep=300, at=at, summarise=summarise), permissions=Permissions("bypass")
    )
    chat = chats.open(engine=engine)
    chats.dispatch(chat, LoadModel())
    chats.until(chat, "ready")
    for _ in range(6):
        chats.dispatch(chat, QueueMessage("Go."))
        chats.until(chat, "ready")
    assert chat.context.last_error is None
    assert len(summed) == 2, summed
    assert llm.refused == (2 if at is None else 0)
    assert [find_problems(asked) for asked in requests_of(engine)] == [[]] * 12
    assert find_problems(chat.context.messages) == [] and len(chat.context.messages) == 24
    ids = [result.call_id for result in results(chat.context.messages)]
    assert ids == ["call_0", "call_0-2", "call_0-3", "call_0-4", "call_0-5", "call_0-6"]


# Looking at an answer while it is written.


def test_who_looks_at_the_text_after_each_piece_folds_each_piece_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcast.values.accumulator import Accumulator

    folded: list[Any] = []
    apply: Callable[[Accumulator, Any], None] = Accumulator.apply

    def counted(self: Accumulator, event: Any) -> None:
        folded.append(event)
        apply(self, event)

    monkeypatch.setattr(Accumulator, "apply", counted)
    streamed = [Streamed()]
    for number in range(50):
        streamed.append(streamed[-1].with_event(TextDelta(f"{number} ")))
        assert streamed[-1].text.endswith(f"{number} ")
    assert len(folded) == 50
    texts = [each.text for each in reversed(streamed)]
    assert texts == ["".join(f"{number} " for number in range(length)) for length in reversed(range(51))]
    branch = streamed[10].with_event(TextDelta("x"))
    assert (branch.text, streamed[11].text) == (streamed[10].text + "x", streamed[10].text + "10 ")


def test_another_thread_reads_an_answer_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Streamed([TextDelta("a")])
    second = first.with_event(TextDelta("b"))
    message = Accumulator.message

    def slow_message(accumulator: Accumulator) -> Message:
        monkeypatch.undo()
        assert second.text == "ab"  # what the other thread reads meanwhile
        return message(accumulator)

    monkeypatch.setattr(Accumulator, "message", slow_message)
    assert first.text == "a"


def test_a_long_answer_is_shown_while_it_comes(chats: ChatAPI) -> None:
    chat = chats.open([*[TextDelta("word ")] * 500, Finish("end_turn")])
    shown: list[int] = []
    chat.subscribe(lambda change: shown.append(len(change.context.streamed.text)))
    chats.dispatch(chat, QueueMessage("Go."), LoadModel())
    chats.until(chat, "ready")
    assert max(shown) == len(chat.context.messages[-1].text) == 2_500
