"""The chat machine under any order of events of users and of tasks, in time or late.

Listeners receive what the table of transitions has, in order; only the task of the current state runs, and all other
tasks are cancelled; a snapshot can be continued.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.chat_drivers import PATIENCE, AsyncChatAPI, ChatAPI, FakeStages, FakeTask
from support.engines import call
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.history import find_problems, unanswered_calls
from toolcast.chat.chat_context import ChatContext, ChatState
from toolcast.chat.events import (
    ApproveToolCall,
    ChatEvent,
    GenerationFailure,
    GenerationSuccess,
    Interrupt,
    LoadModel,
    ModelLoadFailure,
    ModelLoadProgress,
    ModelLoadSuccess,
    QueueMessage,
    RejectToolCall,
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
from toolcast.chat.machine import RESTING_STATES, ChatChange
from toolcast.chat.transitions import transition
from toolcast.chat.turn_hooks import TURN_STATES
from toolcast.errors import RateLimited
from toolcast.messages import assistant
from toolcast.testing import ScriptedLLM
from toolcast.values.hooks import CallInfo, Hooks

PEOPLE: list[ChatEvent] = [
    *(LoadModel("one"), Interrupt(), Stop(), ApproveToolCall(), RejectToolCall()),
    *(RetryToolSearch(), RetryGeneration(), RetryToolCall(), ApproveToolCall("b"), RejectToolCall("a", "no")),
]
CALLED = StreamComplete(assistant(call("a", "look"), call("b", "look")))
WORK_EVENTS: dict[str, list[Any]] = {
    "loading_model": [ModelLoadProgress(50.0), ModelLoadSuccess(), ModelLoadSuccess(), ModelLoadFailure("gone")],
    "searching_tools": [ToolSearchSuccess(("look",)), ToolSearchSuccess(), ToolSearchFailure("no")],
    "generating_response": [GenerationSuccess(), GenerationSuccess(), GenerationFailure("no")],
    "streaming_response": [StreamChunk("Some text."), StreamComplete(), CALLED, CALLED, StreamError("reset")],
    "calling_tool": [
        ToolCallProgress("a", "half"),
        ToolCallSuccess("42"),
        ToolCallSuccess("42"),
        ToolCallFailure("no"),
    ],
}
GOES_WELL: dict[str, Any] = {
    "loading_model": ModelLoadSuccess(),
    "searching_tools": ToolSearchSuccess(("look",)),
    "generating_response": GenerationSuccess(),
    "streaming_response": StreamComplete(assistant("Hi.")),
    "calling_tool": ToolCallSuccess("42"),
}
LAST = (ToolSearchSuccess, ToolSearchFailure, GenerationFailure, ModelLoadSuccess, ModelLoadFailure, StreamComplete)
"""What ends its work."""


class TurnLog(Hooks):
    """The ids of the turns that have begun, and of those that have ended."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []

    def turn_start(self, call: CallInfo, messages: Any) -> None:
        assert all(message.role == "user" for message in messages)
        self.begun.append(call.id)

    def turn(self, call: CallInfo, turn: Any) -> None:
        assert call.id in self.begun
        self.ended.append(call.id)


class Running(RuleBasedStateMachine):
    """One chat whose work is acted."""

    def __init__(self, api: ChatAPI) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.api = self.stack.enter_context(api.running())
        self.number = 0
        self.acts: list[FakeTask] = []
        self.queued: list[str] = []

    @initialize(rounds=st.integers(1, 3))
    def begin(self, rounds: int) -> None:
        self.turns = TurnLog()
        self.engine = Engine(ScriptedLLM(), max_rounds=rounds, hooks=self.turns)
        self.open()
        self.do(LoadModel())

    def open(self) -> None:
        self.stage = FakeStages()
        self.chat = self.api.open(engine=self.engine, perform=self.stage.perform)
        self.model: tuple[ChatState, ChatContext] = self.chat.state, self.chat.context
        self.chat.subscribe(self.on_change)

    # What happens.

    def on_change(self, change: ChatChange) -> None:
        """Compare with the transition table."""
        state, context = self.model
        step = transition(state, context, change.event)
        assert change.before is context
        assert (change.state, change.path, change.ignored) == (step.state, step.path, step.ignored)
        assert change.context == step.context
        json.dumps(change.to_dict(), allow_nan=False)
        self.model = change.state, change.context

    def do(self, event: ChatEvent) -> None:
        before = self.chat.context.run
        change = self.api.dispatch(self.chat, event)
        assert (change.state, change.context) == (self.chat.state, self.chat.context)
        self.take_up(before)

    def take_up(self, before: int) -> None:
        """Take up the work that was begun since the run `before`."""
        for _ in range(self.chat.context.run - before):
            self.acts.append(self.stage.next_task())

    @property
    def going_on(self) -> list[FakeTask]:
        return [task for task in self.acts if not task.ended.is_set() and not task.work.cancellation.cancelled]

    @rule()
    def send_message(self) -> None:
        self.number += 1
        self.queued.append(f"message {self.number}")
        self.do(QueueMessage(self.queued[-1]))

    @rule(event=st.sampled_from(PEOPLE))
    def people(self, event: ChatEvent) -> None:
        self.do(event)

    @precondition(lambda self: self.chat.state in WORK_EVENTS)
    @rule(data=st.data())
    def work_tells_something(self, data: st.DataObject) -> None:
        self.work_emits(data.draw(st.sampled_from(WORK_EVENTS[self.chat.state])))

    @rule(times=st.integers(1, 6), called=st.booleans())
    def it_goes_well(self, times: int, called: bool) -> None:
        """Some steps of the usual way."""
        if self.chat.state in ("idle", "load_failed"):
            self.do(LoadModel())
        elif self.chat.state == "ready":
            self.send_message()
        for _ in range(times):
            state = self.chat.state
            if state == "waiting_for_tool_approval":
                self.do(ApproveToolCall("a" if called else None))
            elif state in WORK_EVENTS:
                self.work_emits(CALLED if called and state == "streaming_response" else GOES_WELL[state])

    def work_emits(self, event: Any) -> None:
        (task,) = self.going_on
        before, last = self.chat.context.run, len(self.chat.context.running) == 1
        if isinstance(event, LAST) or (isinstance(event, ToolCallSuccess) and last):
            task.end(event)
        elif isinstance(event, (ToolCallFailure, StreamError)):
            task.emit(event)
            task.work.cancellation.cancel()
            assert task.ended.wait(PATIENCE)
        else:
            task.emit(event)
        self.take_up(before)

    @precondition(lambda self: self.chat.state == "streaming_response")
    @rule(how=st.sampled_from([Interrupt(), Stop(), LoadModel("one")]), again=st.booleans())
    def it_breaks_off(self, how: ChatEvent, again: bool) -> None:
        self.work_emits(StreamChunk("Half"))
        self.do(how)
        if again:
            self.do(RetryGeneration())

    @precondition(lambda self: self.going_on)
    @rule()
    def work_raises(self) -> None:
        (task,) = self.going_on
        before = self.chat.context.run
        task.emit(RateLimited("slow down"))
        assert task.work.job is not None and task.work.job.wait(PATIENCE)
        self.take_up(before)

    @precondition(lambda self: len(self.acts) > len(self.going_on))
    @rule(data=st.data())
    def it_is_late(self, data: st.DataObject) -> None:
        """A task that was cancelled, or has ended, emits an event."""
        task = data.draw(st.sampled_from([task for task in self.acts if task not in self.going_on]))
        event = data.draw(st.sampled_from([event for events in WORK_EVENTS.values() for event in events]))
        now = self.model
        if task.work.cancellation.cancelled or task.work.run != self.chat.context.run:
            self.api.call(task.work.emit, event)
            assert self.model == now

    @rule()
    def restart(self) -> None:
        """Another program goes on with it."""
        data = json.loads(json.dumps(self.chat.snapshot()))
        self.api.close(self.chat)
        assert all(task.ended.wait(PATIENCE) for task in self.acts)
        assert all(task.work.job is not None and task.work.job.wait(PATIENCE) for task in self.acts)
        self.api.opened.remove(self.chat)
        self.acts.clear()
        self.open()
        self.model = data["state"], ChatContext.from_dict(data["context"])
        before = self.model[1].run
        unheard = self.chat.subscribe(lambda change: None)
        self.chat._listeners.clear()
        self.api.call(self.chat.restore, data)
        unheard()
        self.chat.subscribe(self.on_change)
        self.model = self.chat.state, self.chat.context
        self.take_up(before)

    # What holds.

    @invariant()
    def only_the_work_goes_on_that_the_state_is_about(self) -> None:
        going_on = self.going_on
        assert len(going_on) == (self.chat.state not in RESTING_STATES)
        assert all(task.work.run == self.chat.context.run for task in going_on)
        assert self.stage.is_empty

    @invariant()
    def the_state_equals_the_last_change(self) -> None:
        assert self.model == (self.chat.state, self.chat.context)

    @invariant()
    def hooks_observe_a_turn_in_its_states_alone(self) -> None:
        stopping = [task for task in self.acts if task.work.cancellation.cancelled]
        if self.chat.state in TURN_STATES:
            assert self.turns.begun[-1] not in self.turns.ended
        elif not stopping:  # work that was stopped may have ended after a turn that began later
            assert sorted(self.turns.begun) == sorted(self.turns.ended)

    @invariant()
    def no_message_is_lost(self) -> None:
        text = [message for message in self.chat.context.messages if message.role == "user"]
        assert [message.text for message in (*text, *self.chat.context.queue)] == self.queued

    @invariant()
    def the_history_is_sound(self) -> None:
        messages = self.chat.context.messages
        assert unanswered_calls(messages) or find_problems(messages) == []

    def teardown(self) -> None:
        self.stack.close()
        assert all(task.ended.wait(PATIENCE) for task in self.acts)
        assert all(task.work.job is not None and task.work.job.wait(PATIENCE) for task in self.acts)
        assert sorted(self.turns.begun) == sorted(self.turns.ended)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "api, examples", [(ChatAPI, 40), (partial(AsyncChatAPI, "asyncio"), 10), (partial(AsyncChatAPI, "trio"), 10)]
)
def test_any_order_of_events(api: Any, examples: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(lambda: Running(api()), settings=settings(max_examples=examples, stateful_step_count=30))
