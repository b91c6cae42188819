"""The chat machine under any order of events, those that cannot happen included, and whatever they carry.

Whatever comes: nothing that was queued is lost, each call has one result, the history is one that services take, old
contexts stay as they were, and no work begins before the work that goes on was cancelled.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.chats import ROADS
from support.engines import call, results
from support.example_counts import examples
from toolcast.agents.engine.history import find_problems, unanswered_calls
from toolcast.chat.actions import Effect
from toolcast.chat.chat_context import STATES, Branch, ChatContext, ChatState
from toolcast.chat.events import (
    ApproveToolCall,
    ChatEvent,
    EditMessage,
    EditQueued,
    GenerationFailure,
    GenerationSuccess,
    HoldQueue,
    Interrupt,
    LoadModel,
    ModelLoadFailure,
    ModelLoadProgress,
    ModelLoadSuccess,
    QueueMessage,
    Regenerate,
    RejectToolCall,
    ReleaseQueue,
    RemoveQueued,
    RetryGeneration,
    RetryToolCall,
    RetryToolSearch,
    SetMode,
    Stop,
    StreamChunk,
    StreamComplete,
    StreamError,
    SwitchBranch,
    ToolCallFailure,
    ToolCallProgress,
    ToolCallSuccess,
    ToolSearchFailure,
    ToolSearchSuccess,
    event_to_dict,
    parse_event,
)
from toolcast.chat.transitions import Transition, transition
from toolcast.events import Finish, TextDelta, ThinkingDelta, ToolCallDone, UsageReport
from toolcast.messages import ThinkingPart, ToolCallPart, ToolResultPart, assistant, user
from toolcast.values.approvals import PermissionRequest, fingerprint
from toolcast.values.usage import Usage

IDS = st.sampled_from(["a", "b", "c", "a-2", "", "zzz"])
ARGUMENTS = st.sampled_from(["{}", '{"value": 1}', "{", "", "[]"])
CALLS = st.builds(call, IDS, st.sampled_from(["look", "write"]), ARGUMENTS, truncated=st.booleans())
PARTS = st.one_of(CALLS, CALLS, st.sampled_from(["Hi.", " ", ThinkingPart("Hm.")]))
ANSWERS = st.none() | st.lists(PARTS, max_size=4).map(lambda parts: assistant(*parts))
REQUESTS = st.builds(PermissionRequest, IDS, st.just("look"), ARGUMENTS)
WHO = st.none() | st.lists(REQUESTS, max_size=3).map(tuple)
PIECES = st.one_of(
    st.sampled_from(
        ["Some ", TextDelta("text."), " ", ThinkingDelta("Hm."), UsageReport(Usage(1, 1)), Finish("end_turn")]
    ),
    st.builds(ToolCallDone, IDS, st.just("look"), ARGUMENTS),
)
RESULTS = st.just("text") | st.builds(ToolResultPart, IDS, st.just("42"))
WORDS = st.sampled_from(["", "it broke"])
RULES = st.none() | st.lists(st.fixed_dictionaries({"tool": IDS}), max_size=2).map(tuple)
RUNS = st.sampled_from([None, None, 0, -1])
"""Whose word it is: of the work that goes on, without its number or with it, or of the one before."""

PEOPLE: list[st.SearchStrategy[ChatEvent]] = [
    st.builds(LoadModel, st.sampled_from([None, "one", "two"])),
    st.sampled_from([Interrupt(), Stop(), RetryToolSearch(), RetryGeneration(), RetryToolCall()]),
]
WORK: dict[str, st.SearchStrategy[Any]] = {
    "loading_model": st.one_of(
        st.builds(ModelLoadProgress, st.sampled_from([1.0, 50.0])),
        st.builds(ModelLoadSuccess),
        st.builds(ModelLoadFailure, WORDS, st.booleans()),
    ),
    "searching_tools": st.one_of(
        st.builds(ToolSearchSuccess, st.sampled_from([(), ("look",)])), st.builds(ToolSearchFailure, WORDS)
    ),
    "generating_response": st.builds(GenerationSuccess) | st.builds(GenerationFailure, WORDS),
    "streaming_response": st.one_of(
        st.builds(StreamChunk, PIECES),
        st.builds(StreamComplete, ANSWERS, WHO, st.sampled_from([None, "tool_use", "end_turn", "max_tokens"])),
        st.builds(StreamComplete, ANSWERS, WHO, st.just("tool_use"), st.just(Usage(1, 1))),
        st.builds(StreamError, WORDS),
    ),
    "calling_tool": st.one_of(
        st.builds(ToolCallProgress, IDS, st.just({"half": True})),
        st.builds(ToolCallSuccess, RESULTS, RULES, WHO),
        st.builds(ToolCallFailure, WORDS),
    ),
}
GOES_WELL: dict[str, ChatEvent] = {
    "loading_model": ModelLoadSuccess(),
    "searching_tools": ToolSearchSuccess(("look",)),
    "generating_response": GenerationSuccess(),
    "streaming_response": StreamComplete(assistant("Hi.")),
    "waiting_for_tool_approval": ApproveToolCall(),
    "calling_tool": ToolCallSuccess("42"),
}
ORDERED: dict[str, Any] = {
    "loading_model": "load_model",
    "searching_tools": "search_tools",
    "generating_response": "generate",
    "streaming_response": "generate",
    "calling_tool": "call_tools",
}
"""The work that goes on in each state; in the others there is none."""

OPEN = ("waiting_for_tool_approval", "calling_tool")
"""The states in which calls may have no result yet."""


def again(context: ChatContext) -> ChatContext:
    return ChatContext.from_dict(json.loads(json.dumps(context.to_dict(), allow_nan=False)))


class ChatMachineModel(RuleBasedStateMachine):
    """One chat, and what it must be like."""

    def __init__(self) -> None:
        super().__init__()
        self.state: ChatState = "idle"
        self.context = ChatContext()
        self.number = 0
        self.queued: list[str] = []
        self.going_on: Effect | None = None
        self.before: list[tuple[ChatContext, Any]] = []
        self.results: Counter[str] = Counter()

    @initialize(rounds=st.integers(1, 3), state=st.sampled_from(STATES))
    def begin(self, rounds: int, state: ChatState) -> None:
        self.context = ChatContext(max_rounds=rounds)
        for event in ROADS[state]:
            if isinstance(event, QueueMessage):
                self.queued.append(event.message.text)
            assert not self.happens(event).ignored

    # What happens.

    def happens(self, event: ChatEvent) -> Transition:
        state, context = self.state, self.context
        self.before.append((context, context.to_dict()))
        step = transition(state, context, event)
        if step.ignored:
            assert step.state == state and step.context is context
            assert (step.effects, step.path) == ((), ())
        else:
            assert step.path[-1] == step.state
        self.state, self.context = step.state, step.context
        self.watch(context, step)
        json.dumps(event_to_dict(event), allow_nan=False)
        return step

    def watch(self, before: ChatContext, step: Transition) -> None:
        """Work begins only where no other goes on, and gets the next number."""
        running = self.going_on
        for effect in step.effects:
            if effect.order == "cancel":
                assert running is not None and effect.run == running.run
                running = None
            else:
                assert effect.run == before.run + 1 == self.context.run
                running = effect
        if step.state not in ORDERED:
            running = None
        self.going_on = running

    @rule(image=st.booleans())
    def send_message(self, image: bool) -> None:
        self.number += 1
        text = f"message {self.number}"
        self.queued.insert(len(self.queued) - len(self.context.held), text)
        assert not self.happens(QueueMessage(user(text, "and more") if image else text)).ignored

    @rule(event=st.one_of(PEOPLE))
    def people(self, event: ChatEvent) -> None:
        self.happens(event)

    @precondition(lambda self: self.state in GOES_WELL)
    @rule(called=st.booleans(), calls=st.lists(CALLS, min_size=1, max_size=4), who=WHO)
    def it_goes_well(self, called: bool, calls: Any, who: Any) -> None:
        event = GOES_WELL[self.state]
        if self.state == "streaming_response" and called:
            event = StreamComplete(assistant(*calls), who)
        assert not self.happens(event).ignored

    @rule(data=st.data(), remove=st.booleans())
    def the_queue_is_edited(self, data: st.DataObject, remove: bool) -> None:
        count = len(self.context.queue) + len(self.context.held)
        index = data.draw(st.integers(0, count))
        self.number += 1
        text = f"message {self.number}"
        ignored = self.happens(RemoveQueued(index) if remove else EditQueued(index, text)).ignored
        assert ignored == (index == count)
        if not ignored:
            place = len(self.queued) - count + index
            self.queued[place : place + 1] = [] if remove else [text]

    @rule(data=st.data())
    def the_queue_is_held_back(self, data: st.DataObject) -> None:
        count = len(self.context.queue)
        index = data.draw(st.integers(0, count))
        assert self.happens(HoldQueue(index)).ignored == (index == count)

    @rule()
    def the_queue_is_released(self) -> None:
        is_empty = not self.context.held
        assert self.happens(ReleaseQueue()).ignored == is_empty

    @rule(data=st.data())
    def a_message_is_edited(self, data: st.DataObject) -> None:
        messages = self.context.messages
        index = data.draw(st.integers(0, len(messages)))
        self.number += 1
        text = f"message {self.number}"
        ignored = self.happens(EditMessage(index, text)).ignored
        assert ignored == (index == len(messages) or messages[index].role != "user")
        if not ignored:
            place = sum(message.role == "user" for message in messages[:index])
            waiting = len(self.queued) - sum(message.role == "user" for message in messages)
            self.queued[place : len(self.queued) - waiting] = [text]

    @rule(data=st.data())
    def another_answer_is_requested(self, data: st.DataObject) -> None:
        messages = self.context.messages
        index = data.draw(st.integers(0, len(messages)))
        ignored = self.happens(Regenerate(index)).ignored
        assert ignored == (index == len(messages) or all(each.role != "user" for each in messages[: index + 1]))
        if not ignored:
            self.count_messages_again(len(messages), messages)

    @precondition(lambda self: self.context.branches)
    @rule(data=st.data())
    def another_branch_is_selected(self, data: st.DataObject) -> None:
        before = self.context
        point = data.draw(st.sampled_from(before.branches))
        branch = data.draw(st.integers(0, len(point.branches)))
        step = self.happens(SwitchBranch(point.index, branch))
        assert step.ignored == (branch in (point.current, len(point.branches)))
        if not step.ignored:
            self.count_messages_again(len(before.messages), before.messages)
            chosen = point.branches[branch].messages
            assert self.context.messages[point.index : point.index + len(chosen)] == chosen

    def count_messages_again(self, count: int, before: Any) -> None:
        """Take what the user says on this branch from it; the queue stays as it was."""
        waiting = self.queued[sum(message.role == "user" for message in before) :]
        own = [each.text.removesuffix("and more") for each in self.context.messages if each.role == "user"]
        left = [each.text.removesuffix("and more") for each in (*self.context.queue, *self.context.held)]
        assert waiting == (own + left)[len(own + left) - len(waiting) :]
        self.queued = own + left

    @rule(mode=st.sampled_from(["plan", "build"]))
    def a_mode_is_selected(self, mode: str) -> None:
        assert not self.happens(SetMode(mode)).ignored
        assert self.context.mode == mode

    @precondition(lambda self: self.state == "streaming_response")
    @rule(how=st.sampled_from([Interrupt(), Stop(), StreamError("reset"), LoadModel("one")]))
    def it_breaks_off(self, how: ChatEvent) -> None:
        before = len(self.context.messages)
        assert not self.happens(StreamChunk("Half")).ignored
        assert not self.happens(how).ignored
        assert before in self.context.interrupted and "Half" in self.context.messages[before].text

    @precondition(lambda self: self.context.retry is not None and self.state == "ready")
    @rule()
    def it_is_tried_again(self) -> None:
        retries = [RetryToolSearch(), RetryGeneration(), RetryToolCall()]
        assert [self.happens(event).ignored for event in retries].count(False) == 1

    @rule(event=st.one_of(*WORK.values()), run=RUNS)
    def any_work(self, event: Any, run: int | None) -> None:
        """A task emits an event, in any state."""
        self.emit(event, run)

    @precondition(lambda self: self.state in WORK)
    @rule(data=st.data(), run=RUNS)
    def its_work(self, data: st.DataObject, run: int | None) -> None:
        """The running task emits an event."""
        self.emit(data.draw(WORK[self.state]), run)

    def emit(self, event: Any, run: int | None) -> None:
        values = {name: getattr(event, name) for name in event.__dataclass_fields__ if name not in ("type", "_")}
        values["run"] = None if run is None else self.context.run + run
        step = self.happens(type(event)(**values))
        assert step.ignored or run != -1

    @precondition(lambda self: self.state == "calling_tool")
    @rule(text=st.booleans(), who=WHO, data=st.data())
    def a_tool_ends(self, text: bool, who: Any, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self.context.running))
        result: Any = "text" if text else ToolResultPart(id, "42", "look")
        assert not self.happens(ToolCallSuccess(result, None, who)).ignored

    @precondition(lambda self: self.state == "waiting_for_tool_approval")
    @rule(
        data=st.data(),
        kind=st.sampled_from(["approve", "reject", "edit", "always"]),
        bound=st.sampled_from([None, True, False]),
    )
    def a_person_decides(self, data: st.DataObject, kind: str, bound: bool | None) -> None:
        request = data.draw(st.sampled_from(self.context.pending))
        proof = None if bound is None else request.fingerprint if bound else fingerprint("forged", "look", "{}")
        some = {"type": "APPROVE_TOOL_CALL", "call_id": request.call_id, "fingerprint": proof}
        words: dict[str, dict[str, Any]] = {
            "approve": some,
            "edit": some | {"arguments": '{"value": 2}'},
            "always": some | {"for_session": True},
            "reject": some | {"type": "REJECT_TOOL_CALL", "reason": "no"},
        }
        assert self.happens(parse_event(words[kind])).ignored == (bound is False)

    @rule(
        event=st.builds(ApproveToolCall, st.none() | IDS, st.none() | ARGUMENTS)
        | st.builds(ApproveToolCall, st.none() | IDS, for_session=st.booleans())
    )
    def approve_call(self, event: ChatEvent) -> None:
        self.happens(event)

    @rule(event=st.builds(RejectToolCall, st.none() | IDS, WORDS))
    def reject_call(self, event: ChatEvent) -> None:
        self.happens(event)

    @rule()
    def restart(self) -> None:
        """The chat is written down, and read again somewhere else."""
        self.context = again(self.context)

    # What holds.

    @invariant()
    def the_state_is_one_of_nine(self) -> None:
        assert self.state in STATES
        assert self.state != "ready" or not self.context.queue

    @invariant()
    def no_message_is_lost(self) -> None:
        messages = [each.text for each in self.context.messages if each.role == "user"]
        waiting = [each.text for each in (*self.context.queue, *self.context.held)]
        assert [text.removesuffix("and more") for text in messages + waiting] == self.queued

    @invariant()
    def the_history_is_sound(self) -> None:
        messages, calls = self.context.messages, unanswered_calls(self.context.messages)
        closed = [*messages, *(user_less(call) for call in calls)]
        if not calls:
            assert find_problems(messages) == []
        else:
            assert self.state in OPEN or self.context.retry == "tool_call"
            assert [fault for fault in find_problems(closed) if "are followed by" not in fault] == []

    @invariant()
    def each_call_has_one_result(self) -> None:
        messages = self.context.messages
        calls = [made.id for message in messages for made in message.tool_calls]
        given = Counter(result.call_id for result in results(messages))
        assert len(set(calls)) == len(calls)
        assert set(given) | {made.id for made in unanswered_calls(messages)} == set(calls)
        assert set(given.values()) <= {1}

    @invariant()
    def calls_are_somewhere(self) -> None:
        context = self.context
        calls = {made.id for made in unanswered_calls(context.messages)}
        waiting = {request.call_id for request in context.pending}
        running = set(context.running)
        assert len(context.pending) == len(waiting) and len(context.running) == len(running)
        assert waiting | running <= calls and not waiting & running
        assert bool(waiting) or self.state != "waiting_for_tool_approval"
        assert bool(running) == (self.state == "calling_tool" or context.retry == "tool_call")
        if self.state == "searching_tools":
            assert not calls

    @invariant()
    def only_work_that_was_ordered_goes_on(self) -> None:
        order = ORDERED.get(self.state)
        assert (self.going_on is None) == (order is None)
        assert self.going_on is None or self.going_on == Effect(order, self.context.run)

    @invariant()
    def errors_are_of_what_rests(self) -> None:
        assert self.context.last_error is None or self.state in ("ready", "load_failed")
        assert self.context.rounds <= self.context.max_rounds
        assert all(self.context.messages[at].role == "assistant" for at in self.context.interrupted)

    @invariant()
    def branches_and_marks_have_their_places(self) -> None:
        context = self.context
        indexes = [point.index for point in context.branches]
        assert indexes == sorted(set(indexes))
        for point in context.branches:
            assert point.index <= len(context.messages)
            assert len(point.branches) > 1
            assert point.branches[point.current] == Branch()
        places = [mark.at for mark in context.marks]
        assert places == sorted(set(places))
        assert all(0 < at <= len(context.messages) for at in places)

    @invariant()
    def it_can_be_written_down(self) -> None:
        assert again(self.context) == self.context

    def teardown(self) -> None:
        for context, written in self.before:
            assert context.to_dict() == written


def user_less(call: ToolCallPart) -> Any:
    """A result that closes `call`, to look at the rest."""
    from toolcast.messages import tool_result

    return tool_result(call, "42")


ChatMachineModel.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestChatMachine = pytest.mark.timeout(300)(ChatMachineModel.TestCase)
