"""chat/transitions.py: the transition of each event in each state, and the table of transitions."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

from support.chats import BUSY, CALL, GENERATING, LOADED, ROADS, SEARCHING, STREAMING, WAITING, Walker, answer, orders
from support.engines import call, results
from toolcast.agents.engine.history import CUT_OFF, SUPERSEDED, find_problems, unanswered_calls
from toolcast.chat import actions as chat_actions, events, guards
from toolcast.chat.actions import INTERRUPTED, Effect
from toolcast.chat.chat_context import STATES, ChatContext, ChatError, ChatState
from toolcast.chat.events import (
    ApproveToolCall,
    ChatEvent,
    EditMessage,
    EditQueued,
    Failure,
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
    Restored,
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
    WorkEvent,
)
from toolcast.chat.transitions import ALWAYS, TABLE, diagram, transition
from toolcast.messages import Message, ToolCallPart, ToolResultPart, assistant, user
from toolcast.values.approvals import PermissionRequest
from toolcast.values.states import mermaid
from toolcast.values.usage import Usage

A, B, C = call("a", "look"), call("b", "write", '{"to": 1}'), call("c", "look")
BOTH = StreamComplete(answer("Both.", A, B))


def asked(*calls: ToolCallPart) -> tuple[PermissionRequest, ...]:
    return tuple(PermissionRequest(made.id, made.name, made.arguments) for made in calls)


def given(id: str, content: str = "42") -> ToolCallSuccess:
    return ToolCallSuccess(ToolResultPart(id, content, "look"))


def contents(walker: Walker) -> dict[str, str]:
    return {result.call_id: result.content for result in results(walker.context.messages)}


FAILED: dict[str, tuple[tuple[ChatEvent, ...], type[Failure], str, ChatEvent, ChatState, str]] = {
    "search": (SEARCHING, ToolSearchFailure, "tool_search", RetryToolSearch(), "searching_tools", "search_tools"),
    "generation": (GENERATING, GenerationFailure, "generation", RetryGeneration(), "generating_response", "generate"),
    "stream": (STREAMING, StreamError, "stream", RetryGeneration(), "generating_response", "generate"),
    "tool": (ROADS["calling_tool"], ToolCallFailure, "tool_call", RetryToolCall(), "calling_tool", "call_tools"),
}
"""For each stage: how it is reached, how it fails, what that is called, what tries it again, and where that leads."""

RETRIES: list[ChatEvent] = [RetryToolSearch(), RetryGeneration(), RetryToolCall()]


# The eighteen behaviours.


def test_c1_a_new_chat_is_idle_and_nothing_waits() -> None:
    new = Walker()
    assert (new.state, new.context.queue, new.context.messages) == ("idle", (), ())
    assert next(iter(TABLE)) == "idle"


def test_c2_a_model_is_loaded_with_progress_which_begins_anew_with_the_next() -> None:
    walker = Walker(LoadModel("one"))
    assert walker.effects == [Effect("load_model", 1)]
    walker.go(ModelLoadProgress(50))
    assert (walker.state, walker.context.model, walker.context.load_progress) == ("loading_model", "one", 50)
    walker.go(ModelLoadSuccess())
    assert (walker.state, walker.context.load_progress) == ("ready", 100)
    walker.go(LoadModel("two"))
    assert (walker.context.model, walker.context.load_progress) == ("two", 0)


def test_c3_loading_fails_and_is_tried_again() -> None:
    walker = Walker(LoadModel("one"), ModelLoadFailure("no such model", retryable=False))
    assert walker.state == "load_failed"
    assert walker.context.last_error == ChatError("model_load", "no such model", retryable=False)
    walker.go(LoadModel("two"))
    assert (walker.state, walker.context.model, walker.context.last_error) == ("loading_model", "two", None)


def test_c4_what_was_queued_before_the_model_was_there_begins_a_turn_by_itself() -> None:
    walker = Walker(QueueMessage("One."), LoadModel("model"), QueueMessage("Two."))
    assert walker.context.messages == ()
    loaded = walker.go(ModelLoadSuccess())
    assert loaded.path == ("ready", "searching_tools")
    assert (walker.texts, walker.context.queue) == (["One.", "Two."], ())
    assert walker.effects[-1] == Effect("search_tools", 2)


def test_c5_what_is_queued_while_the_model_speaks_begins_the_next_turn() -> None:
    walker = Walker.at("streaming_response", QueueMessage("More."))
    ended = walker.go(StreamComplete(answer("Hi.")))
    assert (ended.path, walker.texts) == (("ready", "searching_tools"), ["Hello.", "Hi.", "More."])


@pytest.mark.parametrize("state", ["waiting_for_tool_approval", "calling_tool"])
def test_c5_what_is_queued_while_tools_are_used_is_kept(state: ChatState) -> None:
    walker = Walker.at(state, QueueMessage("More."), QueueMessage("And more."))
    assert (walker.state, [message.text for message in walker.context.queue]) == (state, ["More.", "And more."])
    walker.go(Stop())
    assert (walker.state, walker.texts) == ("searching_tools", ["Hello.", "", "More.", "And more."])
    assert find_problems(walker.context.messages) == []


def test_c6_a_message_in_ready_begins_a_turn() -> None:
    walker = Walker(*LOADED)
    begun = walker.go(QueueMessage("Hello."))
    assert (begun.path, walker.texts) == (("ready", "searching_tools"), ["Hello."])


def test_c7_an_answer_without_calls_ends_the_turn() -> None:
    walker = Walker(*GENERATING)
    assert (walker.context.tools, walker.effects[-1].order) == (("look",), "generate")
    walker.go(GenerationSuccess(), StreamChunk("H"), StreamChunk("i."), StreamComplete(usage=Usage(2, 1)))
    assert (walker.state, walker.roles, walker.texts[-1]) == ("ready", ["user", "assistant"], "Hi.")
    assert (len(walker.context.streamed), walker.context.usage) == (0, Usage(2, 1))


@pytest.mark.parametrize("road, failure, stage, retry, target, order", FAILED.values(), ids=FAILED)
def test_c8_c9_a_stage_fails_and_only_that_is_tried_again(
    road: Any, failure: type[Failure], stage: Any, retry: ChatEvent, target: str, order: str
) -> None:
    walker = Walker(*road)
    tools = walker.context.tools
    walker.go(failure("it broke", retryable=False))
    assert (walker.state, walker.context.retry) == ("ready", stage)
    assert walker.context.last_error == ChatError(stage, "it broke", retryable=False)
    assert all(walker.ignores(other) for other in RETRIES if other != retry)
    again = walker.go(retry)
    assert (walker.state, orders(again.effects)) == (target, [order])
    assert (walker.context.last_error, walker.context.retry, walker.context.tools) == (None, None, tools)
    assert walker.ignores(retry)


@pytest.mark.parametrize("retry", RETRIES, ids=lambda event: event.type)
@pytest.mark.parametrize("state", STATES)
def test_c9_nothing_is_tried_again_that_has_not_failed(state: ChatState, retry: ChatEvent) -> None:
    assert Walker.at(state).ignores(retry)


def test_c10_a_call_waits_is_approved_and_answered() -> None:
    walker = Walker(*WAITING)
    assert (walker.state, walker.context.pending) == ("waiting_for_tool_approval", asked(CALL))
    assert orders(walker.effects) == ["load_model", "search_tools", "generate"]
    walker.go(ApproveToolCall("a"))
    assert (walker.state, walker.context.running, walker.effects[-1].order) == ("calling_tool", ("a",), "call_tools")
    assert walker.context.answers == (asked(CALL)[0].allow(),)
    walker.go(given("a"))
    assert (walker.state, walker.roles) == ("searching_tools", ["user", "assistant", "tool"])
    assert results(walker.context.messages) == [ToolResultPart("a", "42", "look")]
    assert walker.context.running == ()


@pytest.mark.parametrize(
    "event, content",
    [
        (RejectToolCall(), "permission denied: the user denied it"),
        (RejectToolCall("a", "too dear"), "permission denied: too dear"),
        (Interrupt(), "permission denied: the user interrupted"),
    ],
)
def test_c11_a_rejected_call_is_reported_to_the_model(event: ChatEvent, content: str) -> None:
    walker = Walker(*WAITING, event)
    assert (walker.state, walker.roles) == ("searching_tools", ["user", "assistant", "tool"])
    assert results(walker.context.messages) == [ToolResultPart("a", content, "look", is_error=True)]
    assert walker.context.pending == ()


STOPPED: dict[ChatState, tuple[WorkEvent, ChatEvent]] = {
    "searching_tools": (ToolSearchSuccess(("look",), run=2), RetryToolSearch()),
    "generating_response": (GenerationSuccess(run=3), RetryGeneration()),
    "streaming_response": (StreamComplete(answer("Late."), run=3), RetryGeneration()),
}


@pytest.mark.parametrize("stop", [Interrupt(), Stop()])
@pytest.mark.parametrize("state", STOPPED)
def test_c12_what_goes_on_is_cancelled_and_late_results_change_nothing(state: ChatState, stop: ChatEvent) -> None:
    late, retry = STOPPED[state]
    walker = Walker.at(state)
    run = walker.context.run
    stopped = walker.go(stop)
    assert (walker.state, stopped.effects) == ("ready", (Effect("cancel", run),))
    assert walker.context.last_error is None
    assert walker.ignores(late)
    walker.go(retry)
    assert walker.ignores(late)


def test_c12_a_second_interrupt_ends_a_turn_that_uses_tools() -> None:
    walker = Walker(*WAITING, Interrupt(), Interrupt())
    assert walker.state == "ready"
    assert walker.ignores(Interrupt())


def test_c13_an_interrupted_tool_is_as_one_rejected_and_its_late_result_is_not_received() -> None:
    walker = Walker.at("calling_tool")
    run = walker.context.run
    step = walker.go(Interrupt())
    assert (walker.state, step.effects) == ("searching_tools", (Effect("cancel", run), Effect("search_tools", run + 1)))
    assert contents(walker) == {"a": INTERRUPTED}
    assert walker.ignores(ToolCallSuccess("late", run=run))
    assert walker.ignores(given("a"))


@pytest.mark.parametrize("event", [StreamError("reset"), Interrupt(), Stop(), LoadModel("other")])
def test_c14_what_was_written_before_it_broke_off_is_kept_and_marked(event: ChatEvent) -> None:
    walker = Walker.at("streaming_response", StreamChunk("Half an "), StreamChunk("answer"))
    step = walker.go(event)
    assert (walker.texts, walker.context.interrupted) == (["Hello.", "Half an answer"], (1,))
    assert "cancel" in orders(step.effects)
    assert len(walker.context.streamed) == 0
    assert (walker.context.last_error is not None) == isinstance(event, StreamError)
    if isinstance(event, LoadModel):
        walker.go(ModelLoadSuccess())
    walker.go(RetryGeneration())
    assert (walker.texts, walker.context.interrupted) == (["Hello."], ())


def test_c14_nothing_written_is_nothing_kept() -> None:
    walker = Walker.at("streaming_response", StreamChunk("  "), StreamError("reset"))
    assert (walker.roles, walker.context.interrupted) == (["user"], ())


@pytest.mark.parametrize("state", STATES)
def test_c15_another_model_takes_over_in_every_state(state: ChatState) -> None:
    walker = Walker.at(state)
    run = walker.context.run
    step = walker.go(LoadModel("other"))
    cancelled = [Effect("cancel", run)] if state in BUSY else []
    assert list(step.effects) == [*cancelled, Effect("load_model", run + 1)]
    assert (walker.state, walker.context.model, walker.context.load_progress) == ("loading_model", "other", 0)
    assert walker.ignores(ModelLoadSuccess(run=run))
    walker.go(ModelLoadSuccess(run=run + 1))
    assert (walker.state, find_problems(walker.context.messages)) == ("ready", [])


@pytest.mark.parametrize(
    "state, retry",
    [
        ("searching_tools", RetryToolSearch()),
        ("generating_response", RetryGeneration()),
        ("streaming_response", RetryGeneration()),
        ("waiting_for_tool_approval", RetryToolSearch()),
        ("calling_tool", RetryToolSearch()),
    ],
)
def test_c15_another_model_goes_on_where_the_one_before_stopped(state: ChatState, retry: ChatEvent) -> None:
    walker = Walker.at(state, LoadModel("other"), ModelLoadSuccess())
    assert all(walker.ignores(other) for other in RETRIES if other != retry)
    walker.go(retry)


ALL: list[ChatEvent] = [
    LoadModel("x"),
    QueueMessage("x"),
    EditQueued(9, "x"),
    RemoveQueued(9),
    HoldQueue(9),
    ReleaseQueue(),
    EditMessage(9, "x"),
    Regenerate(9),
    SwitchBranch(0, 1),
    SetMode("plan"),
    Interrupt(),
    Stop(),
    ApproveToolCall(),
    RejectToolCall(),
    *RETRIES,
    ModelLoadProgress(1),
    ModelLoadSuccess(),
    ModelLoadFailure("x"),
    ToolSearchSuccess(),
    ToolSearchFailure("x"),
    GenerationSuccess(),
    GenerationFailure("x"),
    StreamChunk("x"),
    StreamComplete(answer("x")),
    StreamError("x"),
    ToolCallProgress("a"),
    ToolCallSuccess("x"),
    ToolCallFailure("x"),
]


@pytest.mark.parametrize("event", ALL, ids=lambda event: event.type)
@pytest.mark.parametrize("state", STATES)
def test_c16_what_cannot_happen_changes_nothing_and_can_be_seen(state: ChatState, event: ChatEvent) -> None:
    walker = Walker.at(state)
    nothing_waits = state == "calling_tool" and isinstance(event, (ApproveToolCall, RejectToolCall))
    absent = (EditQueued, RemoveQueued, HoldQueue, ReleaseQueue, EditMessage, Regenerate, SwitchBranch)
    nothing_there = isinstance(event, absent)
    impossible = type(event) not in TABLE[state] or event in RETRIES or nothing_waits or nothing_there
    assert walker.ignores(event) == impossible


def test_c17_the_whole_way_and_the_next_round() -> None:
    walker = Walker(QueueMessage("How warm is it?"), LoadModel("model"), ModelLoadProgress(50), ModelLoadSuccess())
    walker.go(ToolSearchSuccess(("look",)), GenerationSuccess(), StreamChunk("Let me look."))
    walker.go(StreamComplete(answer("Let me look.", CALL), asked(CALL), "tool_use"))
    walker.go(ApproveToolCall("a"), ToolCallProgress("a", "half"), given("a"))
    assert (walker.state, walker.roles) == ("searching_tools", ["user", "assistant", "tool"])
    walker.go(ToolSearchSuccess(("look",)), GenerationSuccess(), StreamChunk("42."))
    walker.go(StreamComplete(answer("42."), None, "end_turn"))
    assert (walker.state, walker.roles) == ("ready", ["user", "assistant", "tool", "assistant"])
    assert orders(walker.effects) == [
        "load_model",
        *("search_tools", "generate", "call_tools"),
        *("search_tools", "generate"),
    ]
    assert [effect.run for effect in walker.effects] == [1, 2, 3, 4, 5, 6]
    assert (walker.context.stop_reason, find_problems(walker.context.messages)) == ("end_turn", [])


def test_c18_a_chat_that_waits_is_written_down_read_again_and_goes_on() -> None:
    walker = Walker(*WAITING)
    walker.context = ChatContext.from_dict(json.loads(json.dumps(walker.context.to_dict())))
    walker.go(ApproveToolCall("a", fingerprint=asked(CALL)[0].fingerprint), given("a"))
    assert contents(walker) == {"a": "42"}


@pytest.mark.parametrize("last", [given("r"), RejectToolCall(), Interrupt()], ids=["result", "rejected", "interrupted"])
def test_c18_a_limit_ends_turns_that_only_use_tools(last: ChatEvent) -> None:
    walker = Walker(*SEARCHING, context=ChatContext(max_rounds=2))
    for number in range(3):
        asks = ToolSearchSuccess(), GenerationSuccess(), StreamComplete(answer(call(f"r{number}", "look")))
        walker.go(*asks)
        if isinstance(last, ToolCallSuccess):
            walker.go(ApproveToolCall(), given(f"r{number}"))
        else:
            walker.go(last)
    assert (walker.state, walker.context.rounds) == ("ready", 2)
    error = walker.context.last_error
    assert error is not None and error.stage == "tool_search" and "2 times" in error.message
    assert find_problems(walker.context.messages) == [] and unanswered_calls(walker.context.messages) == ()
    walker.go(RetryToolSearch())
    assert (walker.state, walker.context.rounds) == ("searching_tools", 0)


# Several calls.


def test_calls_are_approved_one_by_one() -> None:
    walker = Walker(*STREAMING, BOTH, ApproveToolCall("b"))
    assert (walker.state, walker.context.running, walker.context.pending) == ("calling_tool", ("b",), asked(A))
    walker.go(given("b", "two"))
    assert (walker.state, walker.context.rounds) == ("waiting_for_tool_approval", 0)
    walker.go(ApproveToolCall("a"))
    assert (walker.context.running, [message.call_id for message in walker.context.answers]) == (("a",), ["b", "a"])
    walker.go(given("a", "one"))
    assert (walker.state, list(contents(walker).items())) == ("searching_tools", [("a", "one"), ("b", "two")])
    assert (walker.context.rounds, find_problems(walker.context.messages)) == (1, [])


def test_calls_are_approved_together_and_answered_in_any_order() -> None:
    walker = Walker(*STREAMING, BOTH, ApproveToolCall())
    assert (walker.context.running, walker.context.pending) == (("a", "b"), ())
    step = walker.go(given("b", "two"))
    assert (step.state, step.effects, walker.context.running) == ("calling_tool", (), ("a",))
    walker.go(ToolCallSuccess("one"))
    assert list(contents(walker)) == ["a", "b"]
    assert results(walker.context.messages)[0] == ToolResultPart("a", "one", "look")


def test_a_text_is_the_result_of_the_first_that_runs() -> None:
    walker = Walker(*STREAMING, BOTH, ApproveToolCall(), ToolCallSuccess("one"), ToolCallSuccess("two"))
    assert contents(walker) == {"a": "one", "b": "two"}


def test_arguments_are_edited_of_one_call_only() -> None:
    walker = Walker(*STREAMING, BOTH)
    assert walker.ignores(ApproveToolCall(arguments="{}"))
    walker.go(ApproveToolCall("b", arguments='{"to": 2}'))
    assert walker.context.answers == (asked(B)[0].edit('{"to": 2}'),)
    walker.go(given("b"), ApproveToolCall(arguments="{}"))
    assert walker.context.answers[1] == asked(A)[0].edit("{}")


def test_a_call_is_always_allowed_and_with_it_others_that_waited() -> None:
    walker = Walker(*STREAMING, StreamComplete(answer(A, B, C)), ApproveToolCall("a", for_session=True))
    assert walker.context.answers == (asked(A)[0].allow_session(),)
    rule = {"tool": "look", "verdict": "allow"}
    walker.go(ToolCallSuccess(ToolResultPart("a", "1"), remembered=(rule,), pending=asked(B)))
    assert (walker.state, walker.context.remembered) == ("calling_tool", (rule,))
    assert (walker.context.pending, walker.context.running) == (asked(B), ("c",))
    walker.go(given("c"))
    assert walker.state == "waiting_for_tool_approval"


def test_the_others_run_at_once_where_no_one_must_be_asked_any_more() -> None:
    walker = Walker(*STREAMING, StreamComplete(answer(A, B, C)), ApproveToolCall("a", for_session=True))
    step = walker.go(ToolCallSuccess(ToolResultPart("a", "1"), pending=()))
    assert (step.state, orders(step.effects), walker.context.running) == ("calling_tool", ["call_tools"], ("b", "c"))
    assert walker.ignores(given("a"))


def test_who_is_to_be_asked_are_calls_that_wait() -> None:
    walker = Walker(*STREAMING, StreamComplete(answer(A, B, C)), ApproveToolCall("a"))
    walker.go(ToolCallSuccess(ToolResultPart("a", "1"), pending=asked(A, C, call("zzz", "look"), C)))
    assert (walker.state, walker.context.pending, walker.context.running) == ("calling_tool", asked(C), ("b",))


def test_what_is_sent_of_others_while_one_runs_counts() -> None:
    d = call("d", "look")
    walker = Walker(*STREAMING, StreamComplete(answer(A, B, C, d)), ApproveToolCall("a"))
    step = walker.go(ApproveToolCall("b"), RejectToolCall("c", "no"))
    assert (step.state, orders(step.effects), walker.context.running) == ("calling_tool", [], ("a",))
    assert (walker.context.pending, list(contents(walker))) == (asked(d), ["c"])
    assert walker.ignores(ApproveToolCall("b"))
    step = walker.go(ToolCallSuccess(ToolResultPart("a", "1"), pending=asked(B, C, d)))
    assert (step.state, orders(step.effects), walker.context.running) == ("calling_tool", ["call_tools"], ("b",))
    assert (walker.context.pending, list(contents(walker))) == (asked(d), ["a", "c"])
    walker.go(given("b"))
    assert walker.state == "waiting_for_tool_approval"
    walker.go(RejectToolCall("d"))
    assert (walker.state, list(contents(walker))) == ("searching_tools", ["a", "b", "c", "d"])


def test_a_call_that_was_allowed_while_another_failed_runs_with_it() -> None:
    walker = Walker(*STREAMING, BOTH, ApproveToolCall("a"), ApproveToolCall("b"), ToolCallFailure("out of reach"))
    assert (walker.state, walker.context.running) == ("ready", ("a",))
    walker.go(RetryToolCall())
    assert walker.context.running == ("a", "b")


def test_the_last_that_waited_is_rejected_while_others_run() -> None:
    walker = Walker(*STREAMING, BOTH, ApproveToolCall("a"), RejectToolCall("b"), given("a"))
    assert (walker.state, list(contents(walker))) == ("searching_tools", ["a", "b"])


def test_an_interrupt_closes_what_was_allowed_and_has_not_begun() -> None:
    walker = Walker(*STREAMING, BOTH, ApproveToolCall("a"), ApproveToolCall("b"), Interrupt())
    assert contents(walker) == {"a": INTERRUPTED, "b": "permission denied: the user interrupted"}


def test_calls_are_rejected_one_by_one_with_a_reason() -> None:
    walker = Walker(*STREAMING, BOTH, RejectToolCall("b", "not there"))
    assert (walker.state, walker.context.pending) == ("waiting_for_tool_approval", asked(A))
    walker.go(RejectToolCall("a", "nor here"))
    assert (walker.state, walker.context.rounds) == ("searching_tools", 1)
    assert list(contents(walker).items()) == [
        ("a", "permission denied: nor here"),
        ("b", "permission denied: not there"),
    ]


def test_one_is_rejected_and_one_approved() -> None:
    walker = Walker(*STREAMING, BOTH, RejectToolCall("a"), ApproveToolCall(), given("b"))
    assert (walker.state, list(contents(walker))) == ("searching_tools", ["a", "b"])


def test_calls_that_need_no_word_run_with_those_that_got_one() -> None:
    walker = Walker(*STREAMING, StreamComplete(answer(A, B), asked(B)))
    assert walker.state == "waiting_for_tool_approval"
    walker.go(ApproveToolCall())
    assert walker.context.running == ("a", "b")


def test_calls_that_need_no_word_run_though_the_others_may_not() -> None:
    walker = Walker(*STREAMING, StreamComplete(answer(A, B), asked(B)), RejectToolCall())
    assert (walker.state, walker.context.running) == ("calling_tool", ("a",))
    walker.go(given("a"))
    assert (walker.state, list(contents(walker))) == ("searching_tools", ["a", "b"])


def test_calls_that_need_no_word_run_at_once() -> None:
    walker = Walker(*STREAMING)
    step = walker.go(StreamComplete(answer(A, B), (), "tool_use"))
    assert (step.path, walker.context.running) == (("calling_tool",), ("a", "b"))


@pytest.mark.parametrize("pending", [asked(call("zzz", "look")), asked(A, call("zzz", "look")), asked(A, A)])
def test_in_doubt_every_call_is_asked_about(pending: Any) -> None:
    assert Walker(*STREAMING, StreamComplete(answer(A, B), pending)).context.pending == asked(A, B)


@pytest.mark.parametrize("twin", [A, call("b", "look", "[1]")], ids=["id", "arguments"])
def test_a_call_that_is_not_kept_as_it_came_is_asked_about(twin: ToolCallPart) -> None:
    walker = Walker(*STREAMING, StreamComplete(answer(A, twin), asked(A)))
    assert walker.context.pending == asked(*walker.context.messages[-1].tool_calls)
    assert len(walker.context.pending) == 2


@pytest.mark.parametrize(
    "word",
    [
        ApproveToolCall("zzz"),
        ApproveToolCall("a", fingerprint="0" * 64),
        ApproveToolCall("a", fingerprint=asked(B)[0].fingerprint),
        RejectToolCall("zzz"),
        RejectToolCall(fingerprint="0" * 64),
    ],
)
def test_a_word_on_no_call_that_waits_is_ignored(word: ChatEvent) -> None:
    assert Walker(*STREAMING, BOTH).ignores(word)


@pytest.mark.parametrize("id", ["zzz", "b"])
def test_a_result_of_no_call_that_runs_is_ignored(id: str) -> None:
    assert Walker(*STREAMING, BOTH, ApproveToolCall("a")).ignores(given(id))


def test_an_interrupt_closes_all_calls_those_that_had_begun_and_the_others() -> None:
    walker = Walker(*STREAMING, StreamComplete(answer(A, B, C)), ApproveToolCall("b"), Interrupt())
    denied = "permission denied: the user interrupted"
    assert list(contents(walker).items()) == [("a", denied), ("b", INTERRUPTED), ("c", denied)]
    assert (walker.context.running, walker.context.pending, walker.context.answers) == ((), (), ())


def test_of_calls_some_of_which_failed_only_those_run_again() -> None:
    walker = Walker(*STREAMING, StreamComplete(answer(A, B, C)), RejectToolCall("c"), ApproveToolCall())
    walker.go(given("b"), ToolCallFailure("out of reach"))
    assert (walker.state, walker.context.running) == ("ready", ("a",))
    assert [left.id for left in unanswered_calls(walker.context.messages)] == ["a"]
    walker.go(RetryToolCall())
    assert (walker.context.running, walker.context.answers) == (("a",), (asked(A)[0].allow(), asked(B)[0].allow()))
    walker.go(given("a", "here"))
    assert (walker.state, list(contents(walker))) == ("searching_tools", ["a", "b", "c"])


def test_calls_that_failed_are_answered_when_the_user_goes_on() -> None:
    walker = Walker(
        *STREAMING, BOTH, ApproveToolCall("a"), ToolCallFailure("out of reach"), QueueMessage("Never mind.")
    )
    assert contents(walker) == {"a": "The tool failed: out of reach", "b": SUPERSEDED}
    assert (walker.state, find_problems(walker.context.messages)) == ("searching_tools", [])
    assert walker.context.last_error is None


def test_calls_that_failed_may_be_run_again_by_another_model() -> None:
    walker = Walker.at("calling_tool", ToolCallFailure("out of reach"), LoadModel("other"), ModelLoadSuccess())
    assert walker.state == "ready"
    walker.go(RetryToolCall(), given("a"))
    assert contents(walker) == {"a": "42"}


# Answers.


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "error"])
def test_calls_of_an_answer_that_was_cut_off_are_not_run(reason: Any) -> None:
    walker = Walker(*STREAMING, StreamComplete(answer("Well.", A), None, reason))
    assert (walker.state, contents(walker), walker.context.stop_reason) == ("ready", {"a": CUT_OFF}, reason)


@pytest.mark.parametrize("message", [Message("assistant"), answer(" ")])
def test_an_answer_that_says_nothing_is_not_kept(message: Message) -> None:
    walker = Walker(*STREAMING, StreamComplete(message))
    assert (walker.state, walker.roles) == ("ready", ["user"])


def test_calls_get_ids_of_their_own() -> None:
    walker = Walker.at("calling_tool", given("a"), ToolSearchSuccess(), GenerationSuccess())
    walker.go(StreamComplete(answer(CALL, call("", "look"), call("b", "look"), call("b", "look"))))
    ids = [request.call_id for request in walker.context.pending]
    assert len(set(ids)) == 4 and "a" not in ids and all(ids)
    assert walker.context.pending == asked(*walker.context.messages[-1].tool_calls)
    walker.go(ApproveToolCall(), *map(given, ids))
    assert (walker.state, find_problems(walker.context.messages)) == ("searching_tools", [])


@pytest.mark.parametrize("arguments", ["", " ", "[1]", '{"cut', "null"])
def test_arguments_are_objects(arguments: str) -> None:
    walker = Walker(*STREAMING, StreamComplete(answer(call("a", "look", arguments))), RejectToolCall())
    assert find_problems(walker.context.messages) == []


def test_stopped_calls_are_closed_and_the_turn_can_go_on() -> None:
    for state in ("waiting_for_tool_approval", "calling_tool"):
        walker = Walker.at(state, Stop())
        assert (walker.state, unanswered_calls(walker.context.messages)) == ("ready", ())
        assert all(walker.ignores(retry) for retry in RETRIES[1:])
        walker.go(RetryToolSearch())


# Every state.


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("event", [Interrupt(), Stop()], ids=lambda event: event.type)
def test_an_interruption_in_every_state(event: ChatEvent, state: ChatState) -> None:
    walker = Walker.at(state)
    goes_on = {"waiting_for_tool_approval", "calling_tool"} if isinstance(event, Interrupt) else set[str]()
    if state in ("idle", "load_failed", "ready") or (state == "loading_model" and isinstance(event, Interrupt)):
        assert walker.ignores(event)
        return
    step = walker.go(event)
    target = "load_failed" if state == "loading_model" else "searching_tools" if state in goes_on else "ready"
    assert step.state == target
    assert ("cancel" in orders(step.effects)) == (state in BUSY)
    assert find_problems(walker.context.messages) == []


def test_a_model_that_no_one_waits_for_can_be_loaded_again() -> None:
    walker = Walker(LoadModel("one"), QueueMessage("Hello."), Stop())
    assert walker.context.last_error == ChatError("model_load", "loading was stopped; LOAD_MODEL begins it again")
    assert walker.ignores(ModelLoadSuccess(run=1))
    walker.go(LoadModel("one"), ModelLoadSuccess())
    assert walker.state == "searching_tools"


@pytest.mark.parametrize("state", STATES)
def test_a_message_is_kept_in_every_state(state: ChatState) -> None:
    walker = Walker.at(state, QueueMessage("One."), QueueMessage("Two."))
    spoken = [message.text for message in (*walker.context.messages, *walker.context.queue)]
    assert [text for text in spoken if text in ("One.", "Two.")] == ["One.", "Two."]


@pytest.mark.parametrize("road, failure, stage, retry, target, order", FAILED.values(), ids=FAILED)
def test_what_waits_is_sent_after_a_failure(
    road: Any, failure: type[Failure], stage: str, retry: ChatEvent, target: str, order: str
) -> None:
    walker = Walker(*road, QueueMessage("Go on."))
    step = walker.go(failure("it broke"))
    assert (step.path, walker.context.last_error) == (("ready", "searching_tools"), None)
    assert (walker.texts[-1], find_problems(walker.context.messages)) == ("Go on.", [])


@pytest.mark.parametrize("state", BUSY)
def test_what_another_work_tells_is_ignored(state: ChatState) -> None:
    walker = Walker.at(state)
    work_events = [event for event in ALL if isinstance(event, WorkEvent)]
    for event in work_events:
        values = {name: getattr(event, name) for name in inspect.signature(type(event)).parameters}
        assert walker.ignores(type(event)(**{**values, "run": walker.context.run - 1}))


# The table.


def test_every_state_has_rows_and_every_row_leads_to_one() -> None:
    assert tuple(TABLE) == STATES
    rows = [row for state in TABLE.values() for rows in state.values() for row in rows]
    rows += [row for rows in ALWAYS.values() for row in rows]
    assert {row.target for row in rows} == set(STATES)


def test_every_event_is_used() -> None:
    kinds = {kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, ChatEvent)}
    used = {kind for rows in TABLE.values() for kind in rows}
    assert kinds - used == {ChatEvent, WorkEvent, Failure, Restored}  # which no state waits for
    assert {type(event) for event in ALL} == used


@pytest.mark.parametrize("module, kind", [(chat_actions, "actions"), (guards, "guard")])
def test_every_action_and_guard_is_used(module: Any, kind: str) -> None:
    rows = [row for state in (*TABLE.values(), ALWAYS) for rows in state.values() for row in rows]
    used = {each for row in rows for each in (row.actions if kind == "actions" else (row.guard,))}
    own = [each for each in vars(module).values() if inspect.isfunction(each) and each.__module__ == module.__name__]
    taken = [
        each for each in own if list(inspect.signature(each).parameters) in (["builder", "event"], ["context", "event"])
    ]
    helps = {"final_message", "is_late", "matching_requests", "still_pending"}  # which no row names
    assert {each.__name__ for each in taken if not each.__name__.startswith("_")} - helps == {
        each.__name__ for each in used if each is not None
    }


def test_a_choice_ends_with_what_is_left() -> None:
    """Of several rows only the last may have no guard; after it none would be reached."""
    for rows in (choice for state in (*TABLE.values(), ALWAYS) for choice in state.values()):
        assert all(row.guard is not None for row in rows[:-1])


def test_what_was_ordered_and_named_as_the_seed_names_it_is_there() -> None:
    rows = [row for state in TABLE.values() for rows in state.values() for row in rows]
    actions = {action.__name__ for row in rows for action in row.actions}
    seed = ["start_tool_search", "start_generating", "cancel_tool_search", "cancel_generation", "cancel_stream"]
    assert actions >= {*seed, "append_tool_response_message", "append_tool_rejection_message", "call_tool"}


def test_the_diagram_shows_every_row() -> None:
    drawn = diagram()
    count = sum(len(choice) for rows in TABLE.values() for choice in rows.values())
    count += sum(len(rows) for rows in ALWAYS.values())
    assert sum(len(moves) for moves in drawn.values()) == count
    assert drawn["ready"]["[has_queued_messages]"] == "searching_tools"
    assert drawn["streaming_response"]["STREAM_COMPLETE [needs_approval]"] == "waiting_for_tool_approval"
    assert drawn["streaming_response"]["STREAM_COMPLETE"] == "ready"
    text = mermaid(drawn)
    assert text.splitlines()[1].strip() == "[*] --> idle"
    assert "calling_tool --> searching_tools: TOOL_CALL_SUCCESS [is_last_with_rounds]" in text


def test_a_step_changes_nothing_that_was_there() -> None:
    walker = Walker()
    before: list[tuple[ChatContext, Any]] = []
    for event in (*ROADS["calling_tool"], given("a"), Interrupt()):
        before.append((walker.context, walker.context.to_dict()))
        walker.go(event)
    assert all(context.to_dict() == written for context, written in before)


def test_the_same_step_twice_gives_the_same() -> None:
    walker = Walker.at("streaming_response", StreamChunk("One "))
    first = transition(walker.state, walker.context, StreamChunk("two."))
    second = transition(walker.state, walker.context, StreamChunk("three."))
    assert (first.context.streamed.text, second.context.streamed.text) == ("One two.", "One three.")


def test_what_a_user_sends_may_be_an_image() -> None:
    from toolcast.messages import ImagePart

    picture = user("What is this?", ImagePart(data=b"png", media_type="image/png"))
    assert Walker(*LOADED, QueueMessage(picture)).context.messages == (picture,)


def test_history_of_before_is_gone_on_with() -> None:
    context = ChatContext((user("Hi."), assistant("Hello.")))
    assert Walker(*SEARCHING, context=context).texts == ["Hi.", "Hello.", "Hello."]
