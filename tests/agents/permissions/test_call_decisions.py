"""call_decisions.py: rules and answers together decide whether a call may run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.agents.permissions.call_decisions import CallDecisions, to_decision
from toolcast.agents.permissions.permissions import Permissions, Rule
from toolcast.errors import PermissionDenied
from toolcast.messages import ToolCallPart
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.execution import ToolJob, read_call
from toolcast.values.approvals import ApprovalDecision, PermissionRequest


def pay(to: str) -> str:
    """Pay."""
    return to


TOOL = CallableTool.from_function(pay)
ASKING = Permissions(approve="later")
NO_VANDALS = Rule("pay", "deny", {"to": "vandal"})


def jobs(*receivers: str) -> list[ToolJob]:
    calls = [ToolCallPart(f"c{number}", "pay", f'{{"to": "{to}"}}') for number, to in enumerate(receivers)]
    return [read_call(call, {"pay": TOOL}) for call in calls]


def decided(waiting: Sequence[ToolJob], *answers: Any, permissions: Permissions = ASKING) -> list[Rule]:
    """Answer the requests in order; return the rules for the session."""
    remembered: list[Rule] = []
    decisions = CallDecisions(permissions, remembered, waiting)
    for answer in answers:
        request = decisions.next_request({})
        assert request is not None
        decisions.answer(request, answer(request) if callable(answer) else answer)
    assert decisions.next_request({}) is None
    return remembered


def test_requests_of_all_calls_in_order() -> None:
    requests = CallDecisions(ASKING, [], jobs("a", "b")).requests()
    assert [(request.call_id, request.tool, request.arguments) for request in requests] == [
        ("c0", "pay", '{"to": "a"}'),
        ("c1", "pay", '{"to": "b"}'),
    ]
    assert all(request.reason for request in requests)


def test_a_denied_call_never_runs_and_the_others_do() -> None:
    first, second = jobs("a", "b")
    decided([first, second], PermissionRequest.deny, True)
    assert isinstance(first.error, PermissionDenied)
    assert (first.ready, second.ready) == (False, True)


def test_an_approval_for_the_session_counts_for_the_calls_behind_it() -> None:
    waiting = jobs("a", "b")
    assert decided(waiting, PermissionRequest.allow_session) == [Rule("pay", "allow")]
    assert all(job.ready for job in waiting)


def test_edited_arguments_are_those_that_run() -> None:
    (job,) = jobs("a")
    decided([job], lambda request: request.edit({"to": "b"}))
    assert (job.ready, job.named_arguments, job.edited) == (True, {"to": "b"}, '{"to": "b"}')


def test_edited_arguments_are_subject_to_deny_rules() -> None:
    (job,) = jobs("a")
    decided(
        [job],
        lambda request: request.edit({"to": "vandal"}),
        permissions=Permissions(rules=[NO_VANDALS], approve="later"),
    )
    assert isinstance(job.error, PermissionDenied)


def test_a_deny_rule_takes_precedence_over_an_approval_given_before() -> None:
    (job,) = jobs("vandal")
    (request,) = CallDecisions(ASKING, [], jobs("vandal")).requests()
    decisions = CallDecisions(Permissions(rules=[NO_VANDALS], approve="later"), [], [job])
    assert decisions.next_request({"c0": request.allow()}) is None
    assert isinstance(job.error, PermissionDenied)


def test_a_denial_given_before_counts_although_the_rules_allow_the_call() -> None:
    (job,) = jobs("a")
    (request,) = CallDecisions(ASKING, [], jobs("a")).requests()
    decisions = CallDecisions(Permissions("bypass"), [], [job])
    assert decisions.next_request({"c0": request.deny("no")}) is None
    assert str(job.error) == "permission denied: no"


def test_an_approval_of_other_arguments_denies() -> None:
    (request,) = CallDecisions(ASKING, [], jobs("a")).requests()
    (job,) = jobs("b")
    decisions = CallDecisions(ASKING, [], [job])
    assert decisions.next_request({"c0": request.allow()}) is None
    assert isinstance(job.error, PermissionDenied)


def test_an_answer_without_a_request_is_refused() -> None:
    (job,) = jobs("a")
    with pytest.raises(KeyError):
        CallDecisions(ASKING, [], [job]).answer(PermissionRequest("c0", "pay", "{}"), True)
    decisions = CallDecisions(ASKING, [], [job])
    (request,) = decisions.requests()
    decisions.answer(request, False)
    with pytest.raises(KeyError):
        decisions.answer(request, True)


@given(st.lists(st.one_of(st.booleans(), st.none(), st.integers(), st.text(), st.just("yes")), min_size=1, max_size=5))
def test_only_true_lets_a_call_run(answers: list[Any]) -> None:
    waiting = jobs(*["a"] * len(answers))
    decided(waiting, *answers)
    assert [job.ready for job in waiting] == [answer is True for answer in answers]


# The results of approvers.

REQUEST = PermissionRequest("c1", "pay", '{"to": "a"}')
CHANGED = PermissionRequest("c1", "pay", '{"to": "b"}')
RENAMED = PermissionRequest("c2", "pay", '{"to": "a"}')


@pytest.mark.parametrize(
    "answer", [REQUEST.allow(), REQUEST.deny("no"), REQUEST.allow_session(), REQUEST.edit({"to": "b"})]
)
def test_an_answer_to_the_request_stands(answer: ApprovalDecision) -> None:
    assert to_decision(REQUEST, answer) is answer


def test_plain_words_are_answers() -> None:
    assert to_decision(REQUEST, True) == REQUEST.allow()
    assert to_decision(REQUEST, False) == to_decision(REQUEST, None) == REQUEST.deny("it was not approved")


@pytest.mark.parametrize(
    "message", [1, "yes", "allow", {}, object(), CHANGED.allow(), RENAMED.allow(), CHANGED.edit("{}")]
)
def test_anything_else_denies(message: object) -> None:
    answer = to_decision(REQUEST, message)
    assert (answer.action, answer.fingerprint) == ("deny", REQUEST.fingerprint)
    assert answer.reason
