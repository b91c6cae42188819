"""The document of the chat machine, read by its author: states, interruptions, the queue, retries, what is mockable.

Twenty cases of the kind "that is not what I described". Work is replaced by functions that leave the test to report
what came of it, as the document's own tests do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any

import pytest

from toolcast import Engine, ToolCallPart
from toolcast.chat import ChatMachine, actions, guards
from toolcast.chat.events import (
    GenerationFailure,
    GenerationSuccess,
    ModelLoadFailure,
    ModelLoadProgress,
    ModelLoadSuccess,
    StreamChunk,
    StreamComplete,
    StreamError,
    ToolSearchFailure,
    ToolSearchSuccess,
)
from toolcast.errors import Overloaded
from toolcast.messages import assistant
from toolcast.testing import ScriptedLLM

CALL = ToolCallPart("c1", "look", '{"city": "Oslo"}')
HELLO = {"type": "QUEUE_MESSAGE", "message": "Hello."}
ORDERS = ("load_model", "search_tools", "generate", "call_tools")

TO_READY = ("LOAD_MODEL", ModelLoadSuccess())
TO_SEARCHING = (*TO_READY, HELLO)
TO_GENERATING = (*TO_SEARCHING, ToolSearchSuccess(("look",)))
TO_STREAMING = (*TO_GENERATING, GenerationSuccess())
TO_APPROVAL = (*TO_STREAMING, StreamComplete(assistant(CALL)))


def look(city: str) -> str:
    """Look at a city."""
    return f"{city} is fine."


async def nothing(work: Any) -> None:
    """Leave it to the test to report what comes of the work."""


def mocked(**replaced: Callable[..., Any]) -> ChatMachine:
    """Return a chat whose work is done by the test."""
    perform = {**dict.fromkeys(ORDERS, nothing), **replaced}
    return ChatMachine(Engine(ScriptedLLM(), [look]), perform=perform)


def after(*events: Any) -> ChatMachine:
    """Return a mocked chat to which all of it has happened."""
    chat = mocked()
    for event in events:
        change = chat.dispatch(event)
        assert change is not None and not change.ignored, event
    return chat


def roles(chat: ChatMachine) -> list[str]:
    return [message.role for message in chat.context.messages]


# Top-level states


def test_it_begins_idle_and_queues_there_without_starting() -> None:
    chat = after(HELLO)
    assert chat.state == "idle"
    assert [message.text for message in chat.context.queue] == ["Hello."]


def test_loading_reports_progress_and_queues() -> None:
    chat = after("LOAD_MODEL", ModelLoadProgress(40), HELLO)
    assert (chat.state, chat.context.load_progress) == ("loading_model", 40)
    assert len(chat.context.queue) == 1


def test_a_failed_load_is_a_state_with_its_reason_and_can_be_tried_again() -> None:
    chat = after("LOAD_MODEL", ModelLoadFailure("no such model"))
    assert chat.state == "load_failed"
    assert chat.context.last_error is not None and "no such model" in chat.context.last_error.message
    change = chat.dispatch("LOAD_MODEL")
    assert change is not None and change.state == "loading_model"


def test_ready_with_queued_messages_goes_to_searching_at_once_with_all_of_them_in_order() -> None:
    chat = after(HELLO, {"type": "QUEUE_MESSAGE", "message": "Are you there?"}, *TO_READY)
    assert chat.state == "searching_tools"
    assert [message.text for message in chat.context.messages] == ["Hello.", "Are you there?"]
    assert chat.context.queue == ()


@pytest.mark.parametrize(
    ("events", "failure"),
    [
        (TO_SEARCHING, ToolSearchFailure("index lost")),
        (TO_GENERATING, GenerationFailure("no answer")),
        (TO_STREAMING, StreamError("cut")),
    ],
    ids=["search", "generation", "stream"],
)
def test_a_failing_stage_goes_to_ready_with_a_flag_and_not_to_a_state_of_its_own(events: Any, failure: Any) -> None:
    chat = after(*events, failure)
    assert chat.state == "ready"
    assert chat.context.last_error is not None and chat.context.last_error.message in str(failure)


@pytest.mark.parametrize(
    "events", [TO_SEARCHING, TO_GENERATING, TO_STREAMING], ids=["search", "generation", "streaming"]
)
def test_an_interrupt_of_the_answer_returns_to_ready(events: Any) -> None:
    chat = after(*events, "INTERRUPT")
    assert chat.state == "ready"


def test_a_stream_without_a_call_ends_ready() -> None:
    chat = after(*TO_STREAMING, StreamChunk("Hi."), StreamComplete())
    assert (chat.state, roles(chat)) == ("ready", ["user", "assistant"])


def test_a_call_waits_for_approval_without_any_permissions_configured() -> None:
    """An engine of its own runs its tools unasked; a chat has a person in front of it."""
    chat = after(*TO_APPROVAL)
    assert chat.state == "waiting_for_tool_approval"
    assert [request.tool for request in chat.context.pending] == ["look"]


@pytest.mark.parametrize("event", ["REJECT_TOOL_CALL", "INTERRUPT"])
def test_a_rejection_adds_a_message_and_returns_to_searching(event: str) -> None:
    chat = after(*TO_APPROVAL, event)
    assert (chat.state, roles(chat)) == ("searching_tools", ["user", "assistant", "tool"])


def test_an_interrupt_of_a_running_tool_counts_as_a_rejection() -> None:
    chat = after(*TO_APPROVAL, "APPROVE_TOOL_CALL")
    assert chat.state == "calling_tool"
    chat.dispatch("INTERRUPT")
    assert (chat.state, roles(chat)) == ("searching_tools", ["user", "assistant", "tool"])


@pytest.mark.parametrize("events", [TO_SEARCHING, TO_GENERATING, TO_STREAMING, TO_APPROVAL])
def test_messages_are_queued_in_every_busy_state_and_stay_out_of_the_history(events: Any) -> None:
    chat = after(*events)
    before, state = len(chat.context.messages), chat.state
    chat.dispatch({"type": "QUEUE_MESSAGE", "message": "By the way"})
    assert (chat.state, len(chat.context.messages)) == (state, before)
    assert [message.text for message in chat.context.queue] == ["By the way"]


# Features: retries, interruption, model switching


@pytest.mark.parametrize(
    ("events", "retry", "state"),
    [
        ((*TO_SEARCHING, ToolSearchFailure("lost")), "RETRY_TOOL_SEARCH", "searching_tools"),
        ((*TO_GENERATING, GenerationFailure("none")), "RETRY_GENERATION", "generating_response"),
    ],
)
def test_retries_begin_only_on_an_explicit_event(events: Any, retry: str, state: str) -> None:
    chat = after(*events)
    assert chat.state == "ready"
    change = chat.dispatch(retry)
    assert change is not None and (change.state, change.ignored) == (state, False)


def test_a_retry_where_nothing_failed_is_ignored() -> None:
    chat = after(*TO_READY)
    change = chat.dispatch("RETRY_GENERATION")
    assert change is not None and change.ignored and chat.state == "ready"


def test_the_model_is_switched_in_the_middle_of_an_answer() -> None:
    chat = after(*TO_STREAMING, {"type": "LOAD_MODEL", "model_id": "other"})
    assert chat.state == "loading_model"
    chat.dispatch(ModelLoadSuccess())
    assert chat.context.model == "other"
    assert [message.text for message in chat.context.messages if message.role == "user"] == ["Hello."]


def test_results_of_cancelled_work_change_nothing() -> None:
    works: list[Any] = []

    async def keep(work: Any) -> None:
        works.append(work)

    chat = mocked(generate=keep)
    for event in TO_GENERATING:
        chat.dispatch(event)
    while not works:
        chat.run_until(timeout=30)
    chat.dispatch("INTERRUPT")
    works[0].emit(GenerationSuccess())
    assert chat.state == "ready"


# Actions, guards, mocks


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("start_tool_search", TO_SEARCHING),
        ("start_generating", TO_GENERATING),
        ("cancel_tool_search", (*TO_SEARCHING, "INTERRUPT")),
        ("cancel_generation", (*TO_GENERATING, "INTERRUPT")),
        ("cancel_stream", (*TO_STREAMING, "INTERRUPT")),
        ("append_tool_rejection_message", (*TO_APPROVAL, "REJECT_TOOL_CALL")),
        ("call_tool", (*TO_APPROVAL, "APPROVE_TOOL_CALL")),
    ],
)
def test_every_action_of_the_document_can_be_replaced_alone(name: str, events: Any) -> None:
    calls: list[str] = []

    def record(*args: Any, **options: Any) -> Any:
        calls.append(name)
        return replaced(*args, **options)

    replaced = getattr(actions, name)
    chat = ChatMachine(Engine(ScriptedLLM(), [look]), perform=dict.fromkeys(ORDERS, nothing), actions={name: record})
    for event in events:
        chat.dispatch(event)
    assert calls == [name]


def test_the_guards_have_the_names_of_the_document() -> None:
    assert callable(guards.has_queued_messages)
    assert callable(guards.has_tool_call)


# The whole interaction, on real parts


def test_the_happy_path_from_loading_to_the_next_round() -> None:
    seen: list[str] = []
    ran: list[str] = []

    def weather(city: str) -> str:
        """Report the weather."""
        ran.append(city)
        return f"{city}: sunny"

    llm = ScriptedLLM(ToolCallPart("c1", "weather", '{"city": "Oslo"}'), "Sunny.", "Bye.")
    with ChatMachine(Engine(llm, [weather])) as chat:
        chat.subscribe(lambda change: seen.extend(change.path))
        chat.dispatch("LOAD_MODEL")
        chat.run_until("ready", timeout=30)
        chat.dispatch(HELLO)
        chat.run_until("waiting_for_tool_approval", timeout=30)
        assert ran == []
        chat.dispatch("APPROVE_TOOL_CALL")
        chat.run_until("ready", timeout=30)
        chat.dispatch({"type": "QUEUE_MESSAGE", "message": "Thanks."})
        chat.run_until("ready", timeout=30)
    assert ran == ["Oslo"]
    states = [state for state, _ in groupby(seen)]
    round_ = ["searching_tools", "generating_response", "streaming_response"]
    first = [*round_, "waiting_for_tool_approval", "calling_tool", *round_]
    assert states == ["loading_model", "ready", *first, "ready", *round_, "ready"]


def test_a_failing_tool_ends_ready_and_only_that_call_is_tried_again() -> None:
    attempts: list[str] = []

    def weather(city: str) -> str:
        """Report the weather."""
        attempts.append(city)
        if len(attempts) == 1:
            raise ConnectionError("no station")
        return "sunny"

    llm = ScriptedLLM(ToolCallPart("c1", "weather", '{"city": "Oslo"}'), "Sunny.")
    with ChatMachine(Engine(llm, [weather])) as chat:
        for event in ("LOAD_MODEL", HELLO):
            chat.dispatch(event)
        chat.run_until("waiting_for_tool_approval", timeout=30)
        chat.dispatch("APPROVE_TOOL_CALL")
        chat.run_until("ready", timeout=30)
        assert chat.context.last_error is not None and chat.context.last_error.stage == "tool_call"
        chat.dispatch("RETRY_TOOL_CALL")
        chat.run_until("ready", timeout=30)
        assert chat.context.messages[-1].text == "Sunny."
    assert attempts == ["Oslo", "Oslo"]


def test_a_provider_that_fails_is_a_flag_and_the_next_message_works() -> None:
    with ChatMachine(Engine(ScriptedLLM(Overloaded("busy"), "Hi."))) as chat:
        for event in ("LOAD_MODEL", HELLO):
            chat.dispatch(event)
        chat.run_until("ready", timeout=30)
        assert chat.context.last_error is not None and chat.context.last_error.retryable
        chat.dispatch("RETRY_GENERATION")
        chat.run_until("ready", timeout=30)
        assert (chat.context.last_error, chat.context.messages[-1].text) == (None, "Hi.")


def test_the_context_is_plain_data_and_survives_json_in_every_state() -> None:
    for events in ((), TO_READY, TO_SEARCHING, TO_GENERATING, TO_STREAMING, TO_APPROVAL):
        chat = after(*events)
        kept: Mapping[str, Any] = json.loads(json.dumps(chat.snapshot()))
        again = mocked()
        again.restore(kept)
        assert [message.text for message in again.context.messages] == [m.text for m in chat.context.messages]
        assert again.context.pending == chat.context.pending


def test_reading_the_chat_machine_needs_no_user_interface() -> None:
    """Rendering is out of scope: rich, prompt_toolkit and starlette stay out of the process."""
    code = "import sys, toolcast.chat.machine; print({'rich', 'prompt_toolkit', 'starlette'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
