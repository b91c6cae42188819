"""What a chat of the page writes into the log of its session, and reads again: property-based over all events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from support.chats import ROADS
from support.engines import call
from support.example_counts import examples
from toolcast.agents.engine.session_state import fold
from toolcast.apps.web.saved_chat import SavedChat, chat_snapshot
from toolcast.chat.chat_context import STATES, ChatContext, ChatState, read_snapshot
from toolcast.chat.events import (
    ApproveToolCall,
    ChatEvent,
    EditMessage,
    GenerationSuccess,
    HoldQueue,
    Interrupt,
    LoadModel,
    ModelLoadSuccess,
    QueueMessage,
    Regenerate,
    RejectToolCall,
    ReleaseQueue,
    RemoveQueued,
    RetryGeneration,
    SetMode,
    Stop,
    StreamComplete,
    StreamError,
    SwitchBranch,
    ToolCallFailure,
    ToolCallSuccess,
    ToolSearchSuccess,
)
from toolcast.chat.transitions import transition
from toolcast.errors import SessionLocked
from toolcast.messages import Message, assistant, user
from toolcast.stores.memory_store import MemoryStore
from toolcast.values.usage import Usage

EVENTS: tuple[ChatEvent, ...] = (
    LoadModel("one"),
    ModelLoadSuccess(),
    QueueMessage("Hello."),
    QueueMessage("And?"),
    ToolSearchSuccess(("look",)),
    GenerationSuccess(),
    StreamComplete(assistant("Hi."), (), "end_turn", Usage(20, 5)),
    StreamComplete(assistant("I look.", call("a", "look"), call("b", "look"))),
    ApproveToolCall("a", for_session=True),
    ApproveToolCall(),
    RejectToolCall(),
    ToolCallSuccess("42", ({"tool": "look", "action": "allow"},)),
    ToolCallFailure("it broke"),
    StreamError("reset"),
    Interrupt(),
    Stop(),
    RetryGeneration(),
    SetMode("plan"),
    EditMessage(0, "Hallo."),
    Regenerate(1),
    SwitchBranch(0, 0),
    SwitchBranch(1, 0),
    RemoveQueued(0),
    HoldQueue(0),
    ReleaseQueue(),
)
NOT_STORED = ("streamed", "run", "load_progress", "max_rounds")


@settings(max_examples=examples(60))
@given(state=st.sampled_from(STATES), events=st.lists(st.sampled_from(EVENTS), max_size=30), restart=st.integers(0, 30))
def test_whatever_happens_it_is_read_as_it_was(state: ChatState, events: list[ChatEvent], restart: int) -> None:
    store, context = MemoryStore(), ChatContext()
    now: ChatState = "idle"
    saved = SavedChat("chat", store)
    for number, event in enumerate([*ROADS[state], *events]):
        step = transition(now, context, event)
        if step.ignored:
            continue
        now, context = step.state, step.context
        saved.save(now, context)
        if number == restart:
            saved.close()
            saved = SavedChat("chat", store)
    records = store.read("chat")
    assert bool(records) == saved.exists
    if not records:
        return
    found, own = read_snapshot(chat_snapshot(records, fold(records)))
    given, expected = read_snapshot({"version": 1, "state": now, "context": context.to_dict()})
    assert found == given
    for name in ChatContext.__slots__:
        if name not in NOT_STORED:
            assert getattr(own, name) == getattr(expected, name), name
    state_of_session = fold(records)
    assert state_of_session.history == context.messages
    assert state_of_session.injected == context.queue
    saved.close()


def test_a_chat_without_messages_is_not_written() -> None:
    store = MemoryStore()
    saved = SavedChat("chat", store)
    saved.rename("Named early")
    saved.save("ready", ChatContext(model="one"))
    assert store.ids() == []
    context = ChatContext(model="one", messages=transition("idle", ChatContext(), QueueMessage("Hello.")).context.queue)
    saved.save("ready", context)
    assert (saved.title, saved.exists) == ("Named early", True)
    saved.rename("")
    assert saved.title == "Hello."
    with pytest.raises(SessionLocked):
        SavedChat("chat", store)
    saved.close()


def test_the_end_of_a_turn_is_stored_as_in_other_sessions() -> None:
    store = MemoryStore()
    saved = SavedChat("chat", store, clock=lambda: 5.0)
    ends = list[Any]()
    now: ChatState = "idle"
    context = ChatContext()
    for event in (
        *ROADS["streaming_response"],
        StreamComplete(assistant("Hi."), (), "max_tokens"),
        QueueMessage("And?"),
        Stop(),
        QueueMessage("Look."),
        ToolSearchSuccess(()),
        GenerationSuccess(),
        StreamComplete(assistant("I look.", call("a", "look"))),
        ApproveToolCall(),
        ToolCallFailure("it broke"),
    ):
        step = transition(now, context, event)
        assert not step.ignored
        now, context = step.state, step.context
        saved.save(now, context)
        if saved.exists:
            ends.append(fold(store.read("chat")).end)
    assert ends == [*[None] * 3, "max_tokens", None, "cancelled", *[None] * 3, "approval", None, "error"]
    assert fold(store.read("chat")).turns == 3
    saved.close()


def test_the_answer_in_progress_is_read_again_as_an_interrupted_one() -> None:
    store = MemoryStore()
    saved = SavedChat("chat", store)
    now: ChatState = "idle"
    context = ChatContext()
    for event in ROADS["streaming_response"]:
        step = transition(now, context, event)
        now, context = step.state, step.context
        saved.save(now, context)

    def streamed() -> str:
        _, found = read_snapshot(chat_snapshot(store.read("chat"), fold(store.read("chat"))))
        return found.streamed.text

    for text in ("Once ", "Once ", "Once upon ", "Once upon upon a time", "Another"):
        saved.save_partial(text)
        assert streamed() == text
    saved.save(now, context)  # another field has changed, and nothing was streamed any more
    assert streamed() == ""
    saved.save_partial("Twice")
    step = transition(now, context, StreamComplete(assistant("Twice."), (), "end_turn"))
    saved.save(step.state, step.context)
    assert streamed() == ""
    assert fold(store.read("chat")).history[-1].text == "Twice."
    saved.close()


def test_an_answer_of_a_chat_that_is_not_stored_is_not_written() -> None:
    store = MemoryStore()
    saved = SavedChat("chat", store)
    saved.save_partial("Once")
    assert store.ids() == []
    saved.close()


def test_a_long_chat_is_restored_and_saved_without_converting_its_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    store, converted = MemoryStore(), list[str]()
    messages = tuple([user(f"Message {number}") for number in range(1000)])
    saved = SavedChat("chat", store)
    saved.save("ready", ChatContext(model="one", messages=messages))
    saved.close()
    saved, records = SavedChat("chat", store), store.read("chat")
    for name in ("to_dict", "from_dict"):
        original = getattr(Message, name)
        monkeypatch.setattr(Message, name, lambda *args, made=original: converted.append("") or made(*args))
    state, context = read_snapshot(chat_snapshot(records, saved.state))
    assert context.messages == messages
    saved.save(state, replace(context, messages=(*context.messages, user("One more"))))
    saved.close()
    assert len(converted) < 4
    assert len(store.read("chat")) - len(records) <= 4
