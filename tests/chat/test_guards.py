"""chat_guards.py: what the rows of the chat machine ask. See test_chat_transitions.py for what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from support.engines import call
from toolcast.chat import guards as guards
from toolcast.chat.chat_context import ChatContext, Streamed
from toolcast.chat.events import (
    ApproveToolCall,
    Interrupt,
    QueueMessage,
    RejectToolCall,
    StreamComplete,
    ToolCallSuccess,
)
from toolcast.events import TextDelta, ToolCallDone
from toolcast.messages import ToolResultPart, assistant, user
from toolcast.values.approvals import PermissionRequest

A, B = PermissionRequest("a", "look", "{}"), PermissionRequest("b", "look", "{}")
CALLED = (user("Look."), assistant(call("a", "look"), call("b", "look"), call("c", "look")))
ASKED = ChatContext(CALLED, pending=(A, B))
RUNS = ChatContext(CALLED, pending=(B,), running=("a",))


def result(id: str, **more: Any) -> ToolCallSuccess:
    return ToolCallSuccess(ToolResultPart(id, "42"), **more)


@pytest.mark.parametrize(
    "event, late",
    [
        (StreamComplete(run=1), True),
        (StreamComplete(run=2), False),
        (StreamComplete(run=3), True),
        (StreamComplete(), False),
        (Interrupt(), False),
    ],
)
def test_events_of_another_run_are_late(event: Any, late: bool) -> None:
    assert guards.is_late(ChatContext(run=2), event) == late


def test_something_waits_to_be_sent() -> None:
    assert guards.has_queued_messages(ChatContext(queue=(user("Hello."),)), Interrupt())
    assert not guards.has_queued_messages(ChatContext(), QueueMessage("Hello."))


@pytest.mark.parametrize(
    "event, has, needs",
    [
        (StreamComplete(assistant("Hi.")), False, False),
        (StreamComplete(assistant("Hi."), (A,)), False, False),
        (StreamComplete(CALLED[1]), True, True),
        (StreamComplete(CALLED[1], (A,)), True, True),
        (StreamComplete(CALLED[1], ()), True, False),
        (StreamComplete(CALLED[1], None, "tool_use"), True, True),
        (StreamComplete(CALLED[1], None, "max_tokens"), False, False),
        (StreamComplete(), True, True),
    ],
)
def test_an_answer_has_calls_and_they_need_a_word(event: StreamComplete, has: bool, needs: bool) -> None:
    context = ChatContext(streamed=Streamed([TextDelta("Hi."), ToolCallDone("a", "look", "{}")]))
    assert (guards.has_tool_call(context, event), guards.needs_approval(context, event)) == (has, needs)


@pytest.mark.parametrize("stage", [None, "model_load", "tool_search", "generation", "stream", "tool_call"])
def test_what_has_failed_can_be_tried_again(stage: Any) -> None:
    context = ChatContext(retry=stage, running=("a",))
    found = [
        guards.can_retry_tool_search(context, Interrupt()),
        guards.can_retry_generation(context, Interrupt()),
        guards.can_retry_tool_call(context, Interrupt()),
    ]
    assert found == [stage == "tool_search", stage in ("generation", "stream"), stage == "tool_call"]


def test_calls_that_all_have_a_result_are_not_tried_again() -> None:
    assert not guards.can_retry_tool_call(ChatContext(retry="tool_call"), Interrupt())


@pytest.mark.parametrize(
    "event, ids",
    [
        (ApproveToolCall(), "ab"),
        (ApproveToolCall("b"), "b"),
        (ApproveToolCall("c"), ""),
        (ApproveToolCall(fingerprint=A.fingerprint), "a"),
        (ApproveToolCall("a", fingerprint=A.fingerprint), "a"),
        (RejectToolCall("b", fingerprint=A.fingerprint), ""),
        (ApproveToolCall(fingerprints=(A.fingerprint, "other")), "a"),
        (ApproveToolCall("b", fingerprints=(A.fingerprint,)), ""),
        (RejectToolCall(fingerprints=()), ""),
        (RejectToolCall(), "ab"),
    ],
)
def test_a_word_is_about_the_calls_that_it_names(event: Any, ids: str) -> None:
    assert "".join(request.call_id for request in guards.matching_requests(ASKED, event)) == ids
    assert guards.is_pending(ASKED, event) == bool(ids)


def test_other_arguments_are_for_one_call() -> None:
    assert not guards.is_pending(ASKED, ApproveToolCall(arguments="{}"))
    assert guards.is_pending(ASKED, ApproveToolCall("a", arguments="{}"))
    assert not guards.is_pending(ASKED, ApproveToolCall("c", arguments="{}"))


@pytest.mark.parametrize(
    "event, pending, calls",
    [(RejectToolCall(), False, True), (RejectToolCall("a"), True, True), (RejectToolCall("c"), False, False)],
)
def test_a_rejection_leaves_calls(event: RejectToolCall, pending: bool, calls: bool) -> None:
    assert (guards.leaves_pending(ASKED, event), guards.leaves_calls(ASKED, event)) == (pending, calls)


def test_a_rejection_of_all_calls_leaves_none() -> None:
    context = ChatContext((assistant(call("a", "look")),), pending=(A,))
    assert not guards.leaves_calls(context, RejectToolCall())


@pytest.mark.parametrize("rounds, left", [(0, True), (4, True), (5, False), (6, False)])
def test_there_are_rounds_left(rounds: int, left: bool) -> None:
    context = ChatContext(CALLED, pending=(A,), running=("b",), rounds=rounds, max_rounds=5)
    assert guards.has_rounds(context, Interrupt()) == left
    assert guards.has_rounds_after_word(context, RejectToolCall("a")) == left
    assert not guards.has_rounds_after_word(context, RejectToolCall("c"))
    assert guards.is_last_with_rounds(context, result("b")) == left
    assert not guards.is_last_with_rounds(context, result("a"))


def test_a_result_is_for_a_call_that_runs() -> None:
    assert guards.is_running(RUNS, result("a")) and guards.is_running(RUNS, ToolCallSuccess("42"))
    assert not guards.is_running(RUNS, result("b"))
    assert not guards.is_running(ASKED, ToolCallSuccess("42"))


def test_others_run_besides() -> None:
    both = ChatContext(CALLED, running=("a", "b"))
    assert guards.is_for_running(both, result("b"))
    assert not guards.is_for_running(both, result("c"))
    assert not guards.is_for_running(RUNS, result("a"))


@pytest.mark.parametrize(
    "pending, waits",
    [(None, (B,)), ((), ()), ((B,), (B,)), ((A,), ()), ((PermissionRequest("zzz", "look", "{}"),), ())],
)
def test_others_wait_for_a_word(pending: Any, waits: tuple[PermissionRequest, ...]) -> None:
    event = result("a", pending=pending)
    assert guards.still_pending(RUNS, event) == waits
    assert guards.is_last_before_word(RUNS, event) == bool(waits)
    assert guards.is_last_before_calls(RUNS, event)


def test_no_others_are_there() -> None:
    context = ChatContext((assistant(call("a", "look")),), running=("a",))
    assert not guards.is_last_before_word(context, result("a"))
    assert not guards.is_last_before_calls(context, result("a"))
    assert not guards.is_last_before_calls(context, result("b"))
