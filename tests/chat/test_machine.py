"""chat.py: a chat whose work is acted step by step, on every API."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from support.chat_drivers import PATIENCE, Chat, ChatAPI, FakeStages, FakeTask
from support.chats import CALL, ROADS, answer
from support.engines import call, results
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.history import find_problems
from toolcast.agents.permissions.permissions import Permissions, Rule
from toolcast.chat.actions import INTERRUPTED, ContextBuilder
from toolcast.chat.chat_context import STATES, ChatContext, ChatError, ChatState
from toolcast.chat.events import (
    ApproveToolCall,
    ChatEvent,
    Failure,
    GenerationFailure,
    GenerationSuccess,
    Interrupt,
    LoadModel,
    ModelLoadFailure,
    ModelLoadProgress,
    ModelLoadSuccess,
    QueueMessage,
    RejectToolCall,
    Restored,
    RetryGeneration,
    RetryToolCall,
    RetryToolSearch,
    Stop,
    StreamChunk,
    StreamComplete,
    StreamError,
    ToolCallFailure,
    ToolCallProgress,
    ToolCallSuccess,
    ToolSearchFailure,
    ToolSearchSuccess,
)
from toolcast.chat.machine import AsyncChatMachine, ChatChange, ChatMachine
from toolcast.chat.transitions import ACTIONS
from toolcast.errors import IllegalState, RateLimited
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.messages import ToolCallPart, ToolResultPart, assistant, user
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import CallableTool

GIVEN = ToolCallSuccess(ToolResultPart("a", "42", "look"))


class DrivenChat:
    """A chat whose tasks the test runs."""

    def __init__(self, api: ChatAPI, **options: Any) -> None:
        self.api = api
        self.stage = FakeStages()
        self.changes: list[ChatChange] = []
        self.chat: Chat = api.open(perform=self.stage.perform, **options)
        self.chat.subscribe(self.changes.append)

    @property
    def state(self) -> ChatState:
        return self.chat.state

    @property
    def context(self) -> ChatContext:
        return self.chat.context

    @property
    def roles(self) -> list[str]:
        return [message.role for message in self.context.messages]

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.context.messages if message.role != "tool"]

    def do(self, *events: ChatEvent) -> ChatChange:
        """Dispatch events, none of which may be ignored."""
        change = self.api.dispatch(self.chat, *events)
        assert not change.ignored, events
        return change

    def ignores(self, event: ChatEvent) -> bool:
        context = self.context
        change = self.api.dispatch(self.chat, event)
        assert change.ignored == (self.context is context)
        return change.ignored

    def task(self, order: str, *events: Any) -> FakeTask:
        """Return the task that was started, after it has emitted `events`."""
        task = self.stage.task(order)
        if events:
            task.emit(*events)
        return task

    def to(self, state: ChatState) -> FakeTask | None:
        """Go the usual way to `state`; return the task that runs in it."""
        tasks: dict[type, tuple[str, ChatState]] = {
            ModelLoadSuccess: ("load_model", "loading_model"),
            ModelLoadFailure: ("load_model", "loading_model"),
            ToolSearchSuccess: ("search_tools", "searching_tools"),
            GenerationSuccess: ("generate", "generating_response"),
        }
        task: FakeTask | None = None
        for event in ROADS[state]:
            if type(event) in tasks:
                task = task or self.stage.task(tasks[type(event)][0])
                task.emit(event)
                task = task if isinstance(event, GenerationSuccess) else None
            elif isinstance(event, StreamComplete):
                assert task is not None
                task.end(event)
                task = None
            else:
                self.do(event)
        goes_on = {
            "loading_model": "load_model",
            "searching_tools": "search_tools",
            "generating_response": "generate",
            "calling_tool": "call_tools",
        }
        assert self.state == state
        return self.stage.task(goes_on[state]) if state in goes_on else task


@pytest.fixture
def driven(chats: ChatAPI) -> DrivenChat:
    return DrivenChat(chats)


# The eighteen behaviours.


def test_c1_a_new_chat_is_idle_and_nothing_waits(driven: DrivenChat) -> None:
    assert (driven.state, driven.context.queue, driven.context.messages) == ("idle", (), ())


def test_c2_a_model_is_loaded_with_progress(driven: DrivenChat) -> None:
    driven.do(LoadModel("one"))
    task = driven.task("load_model", ModelLoadProgress(50.0))
    assert (driven.state, driven.context.model, driven.context.load_progress) == ("loading_model", "one", 50)
    task.end(ModelLoadSuccess())
    driven.do(LoadModel("two"))
    assert (driven.context.model, driven.context.load_progress) == ("two", 0)


def test_c3_loading_fails_and_is_tried_again(driven: DrivenChat) -> None:
    driven.do(LoadModel("one"))
    driven.task("load_model", ModelLoadFailure("gone"))
    assert (driven.state, driven.context.last_error) == ("load_failed", ChatError("model_load", "gone"))
    driven.do(LoadModel("one"))
    driven.task("load_model", ModelLoadSuccess())
    assert (driven.state, driven.context.last_error) == ("ready", None)


def test_c4_what_was_queued_before_the_model_was_there_begins_a_turn_by_itself(driven: DrivenChat) -> None:
    driven.do(QueueMessage("One."), LoadModel("model"), QueueMessage("Two."))
    driven.task("load_model", ModelLoadSuccess())
    task = driven.task("search_tools")
    assert (driven.state, driven.texts, driven.context.queue) == ("searching_tools", ["One.", "Two."], ())
    assert task.work.context is driven.context


@pytest.mark.parametrize("state", STATES)
def test_c5_what_is_queued_anywhere_is_sent_when_it_is_ready(driven: DrivenChat, state: ChatState) -> None:
    driven.to(state)
    driven.do(QueueMessage("More."))
    if state in ("idle", "load_failed", "loading_model"):
        driven.do(LoadModel())
        driven.task("load_model", ModelLoadSuccess())
    elif state != "ready":
        driven.do(Stop())
    task = driven.task("search_tools")
    assert (driven.state, driven.texts[-1], driven.context.queue) == ("searching_tools", "More.", ())
    assert find_problems(task.work.context.messages) == []


def test_c6_a_message_in_ready_begins_a_turn(driven: DrivenChat) -> None:
    driven.to("ready")
    assert driven.do(QueueMessage("Hello.")).path == ("ready", "searching_tools")


def test_c7_an_answer_without_calls_ends_the_turn(driven: DrivenChat) -> None:
    task = driven.to("streaming_response")
    assert task is not None
    task.end(StreamChunk("H"), StreamChunk("i."), StreamComplete())
    assert (driven.state, driven.roles, driven.texts[-1]) == ("ready", ["user", "assistant"], "Hi.")


FAILED: dict[str, tuple[ChatState, type[Failure], str, ChatEvent, str]] = {
    "search": ("searching_tools", ToolSearchFailure, "tool_search", RetryToolSearch(), "search_tools"),
    "generation": ("generating_response", GenerationFailure, "generation", RetryGeneration(), "generate"),
    "stream": ("streaming_response", StreamError, "stream", RetryGeneration(), "generate"),
    "tool": ("calling_tool", ToolCallFailure, "tool_call", RetryToolCall(), "call_tools"),
}


@pytest.mark.parametrize("text", [True, False], ids=["emitted", "raised"])
@pytest.mark.parametrize("state, failure, stage, retry, order", FAILED.values(), ids=FAILED)
def test_c8_c9_a_stage_fails_and_only_that_is_tried_again_once(
    driven: DrivenChat, state: ChatState, failure: type[Failure], stage: Any, retry: ChatEvent, order: str, text: bool
) -> None:
    task = driven.to(state)
    assert task is not None
    task.emit(failure("slow down") if text else RateLimited("slow down"))
    driven.api.until(driven.chat, "ready")
    error = driven.context.last_error
    assert error is not None and (error.stage, error.retryable) == (stage, True)
    assert "slow down" in error.message
    retries = (RetryToolSearch(), RetryGeneration(), RetryToolCall())
    assert all(driven.ignores(other) for other in retries if other != retry)
    driven.do(retry)
    again = driven.stage.task(order)
    assert again.work.run == task.work.run + 1
    assert all(driven.ignores(other) for other in retries)
    assert driven.stage.is_empty


def test_c10_a_call_waits_is_approved_and_answered(driven: DrivenChat) -> None:
    driven.to("waiting_for_tool_approval")
    assert driven.stage.is_empty
    driven.do(ApproveToolCall("a"))
    task = driven.task("call_tools", ToolCallProgress("a", "half"), GIVEN)
    assert task.work.context.running == ("a",)
    driven.task("search_tools")
    assert (driven.roles, results(driven.context.messages)) == (
        ["user", "assistant", "tool"],
        [ToolResultPart("a", "42", "look")],
    )


@pytest.mark.parametrize("event", [RejectToolCall("a", "too dear"), Interrupt()])
def test_c11_a_rejected_call_is_reported_to_the_model(driven: DrivenChat, event: ChatEvent) -> None:
    driven.to("waiting_for_tool_approval")
    driven.do(event)
    task = driven.task("search_tools")
    assert [message.role for message in task.work.context.messages] == ["user", "assistant", "tool"]
    assert results(driven.context.messages)[0].is_error


LATE: dict[ChatState, Any] = {
    "loading_model": ModelLoadSuccess(),
    "searching_tools": ToolSearchSuccess(("late",)),
    "generating_response": GenerationSuccess(),
    "streaming_response": StreamComplete(answer("Late.")),
    "calling_tool": GIVEN,
}


@pytest.mark.parametrize("stop", [Interrupt(), Stop(), LoadModel("other")], ids=lambda event: event.type)
@pytest.mark.parametrize("state", LATE)
def test_c12_c13_c15_work_is_cancelled_and_what_it_gives_late_changes_nothing(
    driven: DrivenChat, state: ChatState, stop: ChatEvent
) -> None:
    task = driven.to(state)
    assert task is not None
    if state == "loading_model" and isinstance(stop, Interrupt):
        assert driven.ignores(stop) and not task.work.cancellation.cancelled
        return
    driven.do(stop)
    assert task.cancelled
    before, received = driven.context, len(driven.changes)
    task.work.emit(LATE[state])
    assert driven.context is before and len(driven.changes) == received
    if isinstance(stop, LoadModel):
        assert (driven.state, driven.context.model) == ("loading_model", "other")
        driven.task("load_model", ModelLoadSuccess())
    assert find_problems(driven.context.messages) == []


def test_c13_an_interrupted_tool_may_have_had_its_effect(driven: DrivenChat) -> None:
    task = driven.to("calling_tool")
    assert task is not None
    assert driven.do(Interrupt()).state == "searching_tools"
    assert results(driven.context.messages)[0].content == INTERRUPTED
    assert task.cancelled
    driven.task("search_tools")


def test_c14_what_was_written_before_it_broke_off_is_kept_and_marked(driven: DrivenChat) -> None:
    task = driven.to("streaming_response")
    assert task is not None
    task.emit(StreamChunk("Half an "), StreamChunk("answer"), StreamError("reset"))
    assert (driven.state, driven.texts, driven.context.interrupted) == ("ready", ["Hello.", "Half an answer"], (1,))
    assert driven.context.last_error == ChatError("stream", "reset")


def test_c15_another_model_is_asked_from_then_on(driven: DrivenChat) -> None:
    driven.to("waiting_for_tool_approval")
    driven.do(LoadModel("other"))
    driven.task("load_model", ModelLoadProgress(10.0), ModelLoadSuccess())
    driven.do(RetryToolSearch())
    task = driven.task("search_tools", ToolSearchSuccess())
    assert (task.work.context.model, driven.state) == ("other", "generating_response")


@pytest.mark.parametrize("state", STATES)
def test_c16_what_cannot_happen_changes_nothing_and_can_be_seen(driven: DrivenChat, state: ChatState) -> None:
    driven.to(state)
    before = driven.context
    event: ChatEvent = RetryToolCall() if state != "ready" else ApproveToolCall()
    change = driven.api.dispatch(driven.chat, event)
    assert change.ignored and change is driven.changes[-1]
    assert (driven.state, driven.context) == (state, before) and driven.context is before
    assert change.to_dict() == {
        "event": {"type": event.type} if state != "ready" else change.to_dict()["event"],
        "state": state,
        "path": [],
        "ignored": True,
        "changes": {},
    }


def test_c17_the_whole_way_and_the_next_round(driven: DrivenChat) -> None:
    driven.do(QueueMessage("How warm is it?"), LoadModel("model"))
    driven.task("load_model", ModelLoadProgress(50.0)).end(ModelLoadSuccess())
    driven.task("search_tools").end(ToolSearchSuccess(("look",)))
    task = driven.task("generate", GenerationSuccess(), StreamChunk("Let me look."))
    assert driven.context.streamed.text == "Let me look."
    task.end(StreamComplete(answer("Let me look.", CALL)))
    driven.do(ApproveToolCall())
    driven.task("call_tools", ToolCallProgress("a", "half")).end(GIVEN)
    driven.task("search_tools").end(ToolSearchSuccess(("look",)))
    driven.task("generate", GenerationSuccess(), StreamChunk("42.")).end(StreamComplete(answer("42.")))
    assert (driven.state, driven.roles) == ("ready", ["user", "assistant", "tool", "assistant"])
    assert not any(change.ignored for change in driven.changes)
    states = [state for change in driven.changes for state in change.path]
    assert set(states) == set(STATES) - {"load_failed"}


@pytest.mark.parametrize("state", STATES)
def test_c18_a_chat_is_written_down_in_any_state_and_another_goes_on_with_it(chats: ChatAPI, state: ChatState) -> None:
    first = DrivenChat(chats)
    task = first.to(state)
    if state == "streaming_response":
        assert task is not None
        task.emit(StreamChunk("Half"))
    data = json.loads(json.dumps(first.chat.snapshot()))
    driven = DrivenChat(chats)
    chats.call(driven.chat.restore, data)
    assert find_problems(driven.context.messages) == [] or state == "waiting_for_tool_approval"
    assert driven.stage.is_empty
    goes_on: dict[str, tuple[ChatState, list[ChatEvent], str]] = {
        "idle": ("idle", [LoadModel()], "load_model"),
        "loading_model": ("load_failed", [LoadModel()], "load_model"),
        "load_failed": ("load_failed", [LoadModel()], "load_model"),
        "ready": ("ready", [QueueMessage("Hello.")], "search_tools"),
        "searching_tools": ("ready", [RetryToolSearch()], "search_tools"),
        "generating_response": ("ready", [RetryGeneration()], "generate"),
        "streaming_response": ("ready", [RetryGeneration()], "generate"),
        "waiting_for_tool_approval": ("waiting_for_tool_approval", [ApproveToolCall("a")], "call_tools"),
        "calling_tool": ("ready", [RetryToolSearch()], "search_tools"),
    }
    rests, events, order = goes_on[state]
    assert driven.state == rests
    if state == "streaming_response":
        assert (driven.texts, driven.context.interrupted) == (["Hello.", "Half"], (1,))
    driven.do(*events)
    driven.task(order)
    assert driven.context.messages[: len(first.context.messages)][:1] == first.context.messages[:1]


def test_c18_a_limit_ends_turns_that_only_use_tools(chats: ChatAPI) -> None:
    driven = DrivenChat(chats, engine=Engine(ScriptedLLM(), max_rounds=1))
    driven.to("calling_tool")
    # The work that was ordered is on the stage still.
    driven.api.dispatch(driven.chat, GIVEN)
    driven.task("search_tools").end(ToolSearchSuccess())
    driven.task("generate", GenerationSuccess()).end(StreamComplete(answer("More.", CALL)))
    driven.do(ApproveToolCall())
    driven.task("call_tools").end(ToolCallSuccess("42"))
    assert (driven.state, driven.context.rounds) == ("ready", 1)
    assert driven.context.last_error is not None and driven.context.last_error.stage == "tool_search"


# Dispatching.


@pytest.mark.parametrize(
    "data", ["LOAD_MODEL", {"type": "LOAD_MODEL", "model_id": "m"}, {"type": "QUEUE_MESSAGE", "message": "Hello."}]
)
def test_people_say_events_as_plain_data(driven: DrivenChat, data: Any) -> None:
    assert not driven.api.dispatch(driven.chat, data).ignored


@pytest.mark.parametrize("data", ["MODEL_LOAD_SUCCESS", {"type": "STREAM_CHUNK", "content": "x"}, {}, "no such event"])
def test_what_people_cannot_say_is_refused(driven: DrivenChat, data: Any) -> None:
    with pytest.raises(ValueError, match="no event of a user"):
        driven.api.dispatch(driven.chat, data)
    assert driven.changes == []


@pytest.mark.parametrize("data", [None, 5, ["INTERRUPT"], LoadModel])
def test_what_is_no_event_at_all_is_refused(driven: DrivenChat, data: Any) -> None:
    with pytest.raises(TypeError, match=r"is no event: use QueueMessage\('Hello.'\)"):
        driven.api.dispatch(driven.chat, data)


def test_a_change_tells_what_has_changed(driven: DrivenChat) -> None:
    driven.to("ready")
    text = json.loads(json.dumps(driven.do(QueueMessage("Hello.")).to_dict()))
    assert text == {
        "event": {"type": "QUEUE_MESSAGE", "message": user("Hello.").to_dict()},
        "state": "searching_tools",
        "path": ["ready", "searching_tools"],
        "ignored": False,
        "changes": {"messages": {"from": 0, "messages": [user("Hello.").to_dict()]}, "run": 2},
    }


# Listeners.


def test_listeners_hear_of_every_event_in_order(driven: DrivenChat) -> None:
    second: list[ChatChange] = []
    end = driven.chat.subscribe(second.append)
    driven.to("ready")
    assert driven.ignores(Interrupt())
    end()
    driven.do(QueueMessage("Hello."))
    end()
    assert [change.event.type for change in driven.changes] == [
        *("LOAD_MODEL", "MODEL_LOAD_SUCCESS", "INTERRUPT", "QUEUE_MESSAGE"),
    ]
    assert second == driven.changes[:3]
    for before, after in zip(driven.changes, driven.changes[1:], strict=False):
        assert after.before is before.context


def test_a_listener_that_raises_is_shown_and_harms_no_one(driven: DrivenChat, caplog: pytest.LogCaptureFixture) -> None:
    def broken(change: ChatChange) -> None:
        raise LookupError("the page is gone")

    driven.chat.subscribe(broken)
    after: list[ChatChange] = []
    driven.chat.subscribe(after.append)
    driven.to("ready")
    assert driven.changes == after
    assert "a listener failed on LOAD_MODEL" in caplog.text and "the page is gone" in caplog.text


def test_what_a_listener_dispatches_is_dealt_with_next(driven: DrivenChat) -> None:
    given: list[Any] = []

    def on(change: ChatChange) -> None:
        if isinstance(change.event, ModelLoadSuccess):
            given.append(driven.chat.dispatch(QueueMessage("One.")))
            given.append(driven.chat.dispatch("INTERRUPT"))

    driven.chat.subscribe(on)
    late: list[ChatChange] = []
    driven.chat.subscribe(late.append)
    driven.to("loading_model")
    driven.api.dispatch(driven.chat, ModelLoadSuccess())
    assert given == [None, None]
    kinds = ["LOAD_MODEL", "MODEL_LOAD_SUCCESS", "QUEUE_MESSAGE", "INTERRUPT"]
    assert [change.event.type for change in late] == kinds
    assert [change.event.type for change in driven.changes] == kinds
    assert (driven.state, driven.texts) == ("ready", ["One."])


def test_a_listener_may_leave_while_it_is_called(driven: DrivenChat) -> None:
    ends: list[Any] = []
    seen: list[ChatChange] = []

    def once(change: ChatChange) -> None:
        seen.append(change)
        ends[0]()

    ends.append(driven.chat.subscribe(once))
    driven.to("ready")
    assert len(seen) == 1


def test_events_from_many_threads_are_dealt_with_one_by_one() -> None:
    with ChatMachine(Engine(ScriptedLLM())) as chat:
        received: list[ChatChange] = []
        inside = threading.Lock()

        def listener(change: ChatChange) -> None:
            assert inside.acquire(blocking=False)
            received.append(change)
            inside.release()

        chat.subscribe(listener)

        def queue(name: str) -> None:
            for number in range(20):
                chat.dispatch(QueueMessage(f"{name} {number}"))

        threads = [threading.Thread(target=queue, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(received) == len(chat.context.queue) == 80
        for name in "abcd":
            text = [message.text for message in chat.context.queue if message.text.startswith(name)]
            assert text == [f"{name} {number}" for number in range(20)]


def test_a_listener_cannot_wait_for_what_comes_after_it() -> None:
    errors: list[IllegalState] = []
    with ChatMachine(Engine(ScriptedLLM())) as chat:

        def waits(change: ChatChange) -> None:
            try:
                chat.run_until("ready", timeout=PATIENCE)
            except IllegalState as error:
                errors.append(error)

        end = chat.subscribe(waits)
        chat.dispatch(QueueMessage("Hello."))
        end()
    assert len(errors) == 1 and "a listener cannot wait" in str(errors[0])


# Work that fails.


@pytest.mark.parametrize(
    "error, words", [(RateLimited("slow down"), "slow down"), (LookupError("gone"), "gone"), (KeyError(), "KeyError")]
)
def test_work_that_raises_has_failed(
    driven: DrivenChat, caplog: pytest.LogCaptureFixture, error: Exception, words: str
) -> None:
    driven.do(LoadModel("model"))
    driven.task("load_model", error)
    driven.api.until(driven.chat, "load_failed")
    assert driven.context.last_error is not None and words in driven.context.last_error.message
    assert ("load_model of a chat failed" in caplog.text) == (not isinstance(error, RateLimited))


def test_whether_it_may_succeed_another_time_is_for_the_error_to_say(driven: DrivenChat) -> None:
    error = RateLimited("never")
    error.retryable = False
    driven.do(LoadModel("model"))
    driven.task("load_model", error)
    driven.api.until(driven.chat, "load_failed")
    assert driven.context.last_error == ChatError("model_load", str(error), retryable=False)


def test_work_that_is_cancelled_fails_in_silence(driven: DrivenChat, caplog: pytest.LogCaptureFixture) -> None:
    task = driven.to("searching_tools")
    assert task is not None
    gone = task.work.emit

    def late(event: Any) -> None:
        gone(event)
        raise LookupError("raised by a listener")

    task.work.emit = late
    driven.do(Interrupt())
    assert task.cancelled
    assert (driven.state, driven.context.last_error, caplog.text) == ("ready", None, "")


# Waiting.


def test_a_state_that_is_there_is_not_waited_for(driven: DrivenChat) -> None:
    assert driven.api.until(driven.chat, "idle", "ready") == "idle"
    assert driven.api.until(driven.chat) == "idle"


def test_the_first_of_several_states_is_given(driven: DrivenChat) -> None:
    task = driven.to("searching_tools")
    assert task is not None
    reached: list[Any] = []
    waits = threading.Thread(
        target=lambda: reached.append(driven.api.until(driven.chat, "streaming_response", "ready"))
    )
    waits.start()
    task.emit(ToolSearchFailure("no"))
    waits.join(PATIENCE)
    assert reached == ["ready"]


def test_nothing_goes_on_but_for_a_person(driven: DrivenChat) -> None:
    driven.do(LoadModel("model"))
    task = driven.task("load_model")
    reached: list[Any] = []
    waits = threading.Thread(target=lambda: reached.append(driven.api.until(driven.chat)))
    waits.start()
    task.emit(ModelLoadSuccess())
    waits.join(PATIENCE)
    assert reached == ["ready"]


def test_states_that_there_are_not_are_not_waited_for(driven: DrivenChat) -> None:
    with pytest.raises(ValueError, match="never dancing; its states are idle, "):
        driven.api.until(driven.chat, "dancing")


def test_who_waits_too_long_is_reported_where_it_is() -> None:
    with ChatMachine(Engine(ScriptedLLM())) as chat, pytest.raises(TimeoutError, match="the chat is idle after 0 sec"):
        chat.run_until("ready", "load_failed", timeout=0)


def test_who_waits_is_reported_that_the_chat_was_closed(driven: DrivenChat) -> None:
    errors: list[BaseException] = []
    entered = threading.Event()
    register = driven.chat._wait_for

    def registered(states: Any) -> Any:
        made = register(states)
        entered.set()
        return made

    driven.chat._wait_for = registered

    def wait() -> None:
        try:
            driven.api.until(driven.chat, "ready")
        except BaseException as error:
            errors.append(error)

    waits = threading.Thread(target=wait)
    waits.start()
    assert entered.wait(PATIENCE)
    driven.api.close(driven.chat)
    waits.join(PATIENCE)
    assert len(errors) == 1 and isinstance(errors[0], IllegalState)
    assert "closed while it was idle" in str(errors[0])


# Ending.


def test_a_chat_that_is_closed_ends_what_goes_on_and_takes_no_more(driven: DrivenChat) -> None:
    task = driven.to("searching_tools")
    assert task is not None
    received = len(driven.changes)
    driven.api.close(driven.chat)
    assert task.cancelled
    task.work.emit(ToolSearchSuccess())
    assert len(driven.changes) == received
    for use in (
        lambda: driven.api.dispatch(driven.chat, Interrupt()),
        lambda: driven.api.until(driven.chat, "ready"),
        lambda: driven.api.call(driven.chat.restore, driven.chat.snapshot()),
    ):
        with pytest.raises(IllegalState, match=r"the chat is closed; restore its snapshot\(\) in another"):
            use()
    driven.api.close(driven.chat)
    other = DrivenChat(driven.api)
    driven.api.call(other.chat.restore, driven.chat.snapshot())
    assert (other.state, other.texts) == ("ready", ["Hello."])


def test_a_listener_may_close_the_chat_in_the_thread_of_its_work() -> None:
    stage = FakeStages()
    chat = ChatMachine(Engine(ScriptedLLM()), perform=stage.perform)
    chat.subscribe(lambda change: chat.close() if isinstance(change.event, ModelLoadSuccess) else None)
    chat.dispatch(LoadModel())
    task = stage.task("load_model")
    task.emit(ModelLoadSuccess())
    assert task.cancelled


async def test_a_chat_is_used_in_a_block() -> None:
    async with AsyncChatMachine(Engine(ScriptedLLM("Hi."))) as chat:
        chat.dispatch("LOAD_MODEL")
        assert await chat.run_until() == "ready"
    with pytest.raises(IllegalState):
        chat.dispatch("LOAD_MODEL")


def test_an_async_chat_needs_an_event_loop() -> None:
    chat = AsyncChatMachine(Engine(ScriptedLLM()))
    with pytest.raises(RuntimeError):
        chat.dispatch("LOAD_MODEL")
    assert chat.state == "idle"


def test_what_was_on_its_way_when_the_chat_was_closed_is_not_received(driven: DrivenChat) -> None:
    task = driven.to("loading_model")
    assert task is not None
    driven.api.close(driven.chat)
    driven.api.call(driven.chat._on_work_event, task.work, ModelLoadSuccess())
    assert driven.state == "loading_model"


def test_nothing_begins_in_a_chat_that_is_closed() -> None:
    stage = FakeStages()
    chat = ChatMachine(Engine(ScriptedLLM()), perform=stage.perform)
    chat.subscribe(lambda change: chat.dispatch(LoadModel()) and None)
    chat.subscribe(lambda change: chat.close())
    chat.dispatch(QueueMessage("Hello."))
    assert (chat.state, stage.is_empty) == ("idle", True)


# Permissions and actions.


def test_a_chat_asks_about_all_but_read_only_tools_where_the_engine_has_no_permissions(chats: ChatAPI) -> None:
    sent: list[str] = []

    def mail(text: str) -> str:
        """Send a mail."""
        sent.append(text)
        return "sent"

    look = CallableTool.from_function(lambda: "seen", "look", "Look.").with_(read_only=True)
    answers = [[call("a", "look"), call("b", "mail", '{"text": "Hi."}')], "Done."]
    engine = Engine(ScriptedLLM(*answers), [mail, look])
    chat = chats.open(engine=engine)
    chats.dispatch(chat, QueueMessage("Hello."), LoadModel())
    assert chats.until(chat, "waiting_for_tool_approval") == "waiting_for_tool_approval"
    assert ([request.tool for request in chat.context.pending], sent) == (["mail"], [])
    chats.dispatch(chat, ApproveToolCall())
    assert chats.until(chat, "ready") == "ready"
    assert (sent, chat.context.messages[-1].text) == (["Hi."], "Done.")
    assert engine.permissions.mode == "bypass"  # the engine keeps its own default


@pytest.mark.parametrize("permissions", [Permissions("bypass"), Permissions(rules=[Rule("mail", "allow")])])
def test_a_chat_does_not_ask_where_the_engine_has_permissions_that_allow_it(
    chats: ChatAPI, permissions: Permissions
) -> None:
    def mail() -> str:
        """Send a mail."""
        return "sent"

    chat = chats.open(engine=Engine(ScriptedLLM(call("a", "mail"), "Done."), [mail], permissions=permissions))
    chats.dispatch(chat, QueueMessage("Hello."), LoadModel())
    assert chats.until(chat, "ready", "waiting_for_tool_approval") == "ready"
    assert chat.context.messages[-1].text == "Done."


def test_actions_can_be_replaced_one_by_one(chats: ChatAPI) -> None:
    done: list[str] = []

    def append_chunk(draft: ContextBuilder, event: StreamChunk) -> None:
        done.append(str(event.content))
        ACTIONS["append_chunk"](draft, event)

    def deliver_queue(draft: ContextBuilder, event: ChatEvent) -> None:
        done.append(event.type)
        ACTIONS["deliver_queue"](draft, event)

    driven = DrivenChat(chats, actions={"append_chunk": append_chunk, "deliver_queue": deliver_queue})
    driven.to("streaming_response")
    driven.api.dispatch(driven.chat, StreamChunk("Hi."), StreamComplete())
    assert done == ["QUEUE_MESSAGE", "Hi."]
    assert (driven.state, driven.texts[-1]) == ("ready", "Hi.")


def test_an_action_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"actions= has 'dance'; the actions are .*start_tool_search"):
        ChatMachine(Engine(ScriptedLLM()), actions={"dance": ACTIONS["enqueue"]})


# Snapshots.


@pytest.mark.parametrize(
    "data", [{}, {"version": 2}, {"version": None}, {"version": 1}, {"version": 1, "state": "dancing", "context": {}}]
)
def test_what_is_no_snapshot_is_refused(driven: DrivenChat, data: Any) -> None:
    driven.to("ready")
    with pytest.raises(ValueError, match="no snapshot of a chat"):
        driven.api.call(driven.chat.restore, data)
    assert driven.state == "ready"


@pytest.mark.parametrize("context", [None, [], {"messages": 5}, {"no such field": 1}, {"pending": [{}]}])
def test_a_damaged_snapshot_is_refused(driven: DrivenChat, context: Any) -> None:
    data = {"version": 1, "state": "ready"} | ({} if context is None else {"context": context})
    with pytest.raises(ValueError, match="this snapshot of a chat is damaged"):
        driven.api.call(driven.chat.restore, data)
    assert driven.state == "idle"


def test_what_went_on_is_cancelled_where_another_chat_is_restored(driven: DrivenChat) -> None:
    empty = driven.chat.snapshot()
    task = driven.to("searching_tools")
    assert task is not None
    driven.api.call(driven.chat.restore, empty)
    assert task.cancelled
    assert (driven.state, driven.context) == ("idle", ChatContext())
    assert (driven.changes[-1].event, driven.changes[-1].path) == (Restored(), ("idle",))
    assert driven.changes[-1].to_dict()["changes"]["messages"] == {"from": 0, "messages": []}


def test_what_waited_in_a_snapshot_is_sent_by_the_next_chat(chats: ChatAPI) -> None:
    first, second = DrivenChat(chats), DrivenChat(chats)
    first.to("generating_response")
    first.do(QueueMessage("More."))
    chats.call(second.chat.restore, first.chat.snapshot())
    second.task("search_tools")
    assert (second.state, second.texts) == ("searching_tools", ["Hello.", "More."])


def test_a_chat_begins_with_the_history_of_its_engine(chats: ChatAPI) -> None:
    engine = Engine(ScriptedLLM(), max_rounds=7)
    engine.restore(Engine(ScriptedLLM(), history=[user("Hi."), assistant("Hello.")]).snapshot())
    driven = DrivenChat(chats, engine=engine)
    assert (driven.texts, driven.context.max_rounds, driven.chat.engine) == (["Hi.", "Hello."], 7, engine)


# Modes.


def test_a_mode_has_its_own_tools_permissions_and_instructions() -> None:
    def look(value: int) -> str:
        """Look."""
        return "42"

    seen = list[str | None]()
    model = ScriptedLLM("One.", [ToolCallPart("a", "look", '{"value": 1}')], "Two.")

    def configure(llm: FunctionCallingLLM, mode: str | None) -> Engine[Any]:
        if mode not in (None, "plan", "auto"):
            raise ValueError(f"no mode {mode!r}")
        seen.append(mode)
        tools = [look] if mode == "auto" else []
        return Engine(llm, tools, permissions=Permissions("bypass"), instructions=f"Mode {mode}.")

    with ChatMachine(Engine(model), llms=lambda name: model, configure=configure) as chat:
        chat.dispatch({"type": "LOAD_MODEL", "model_id": "m"})
        chat.dispatch(QueueMessage("Hello."))
        assert chat.run_until("ready", timeout=10) == "ready"
        chat.dispatch({"type": "SET_MODE", "mode": "auto"})
        chat.dispatch(QueueMessage("Look."))
        chat.run_until(timeout=10)
        assert (chat.state, chat.context.messages[-1].text, chat.llm) == ("ready", "Two.", model)
        with pytest.raises(ValueError, match="no mode 'odd'"):
            chat.dispatch({"type": "SET_MODE", "mode": "odd"})
        assert chat.context.mode == "auto"
    first, second, _ = model.requests
    assert ("None" in first.messages[0].text, "auto" in second.messages[0].text) == (True, True)
    assert ([tool.name for tool in first.tools], [tool.name for tool in second.tools]) == ([], ["look"])


def test_a_chat_without_modes_refuses_one() -> None:
    with ChatMachine(Engine(ScriptedLLM())) as chat, pytest.raises(ValueError, match="pass configure="):
        chat.dispatch({"type": "SET_MODE", "mode": "plan"})


def test_configure_is_a_function() -> None:
    with pytest.raises(TypeError, match="configure"):
        ChatMachine(Engine(ScriptedLLM()), configure="plan")  # type: ignore[arg-type]  # a wrong argument
