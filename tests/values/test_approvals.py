"""approvals.py: a call that waits for a person's word, and the answer to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.values.approvals import ACTIONS, ApprovalDecision, PermissionRequest, fingerprint

REQUEST = PermissionRequest("c1", "remove", '{"path": "a"}', "it is not read-only")


@pytest.mark.parametrize(
    "answer, action, reason, arguments",
    [
        (REQUEST.allow(), "allow", "", None),
        (REQUEST.deny(), "deny", "", None),
        (REQUEST.deny("not now"), "deny", "not now", None),
        (REQUEST.allow_session(), "allow_session", "", None),
        (REQUEST.edit('{"path": "b"}'), "edit", "", '{"path": "b"}'),
        (REQUEST.edit({"path": "ä"}), "edit", "", '{"path": "ä"}'),
    ],
)
def test_a_request_makes_its_answers(answer: ApprovalDecision, action: str, reason: str, arguments: str | None) -> None:
    assert (answer.action, answer.reason, answer.arguments) == (action, reason, arguments)
    assert (answer.call_id, answer.fingerprint) == ("c1", REQUEST.fingerprint)


texts = st.text(max_size=5) | st.sampled_from(["c1", "remove", '","', "\ud800"])
named = st.tuples(texts, texts, texts)


@pytest.mark.fault(129)
@given(named, named)
def test_a_fingerprint_is_of_this_very_call(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    assert (fingerprint(*one) == fingerprint(*other)) == (one == other)


def test_the_reason_is_no_part_of_the_call() -> None:
    assert (
        PermissionRequest("c1", "remove", "{}", "a").fingerprint == PermissionRequest("c1", "remove", "{}").fingerprint
    )


requests = st.builds(PermissionRequest, st.text(), st.text(), st.text(), st.text())


@given(requests, st.sampled_from(ACTIONS))
def test_both_can_be_stored(request: PermissionRequest, action: str) -> None:
    answer = request.edit("{}") if action == "edit" else getattr(request, action)()
    assert PermissionRequest.from_dict(json.loads(json.dumps(request.to_dict()))) == request
    assert ApprovalDecision.from_dict(json.loads(json.dumps(answer.to_dict()))) == answer


@pytest.mark.parametrize("action", ["", "yes", "ALLOW", None, True])
def test_no_clear_word_is_no_answer(action: Any) -> None:
    with pytest.raises(ValueError, match=r"unknown action .*: use allow, deny, allow_session, edit"):
        ApprovalDecision.from_dict({**REQUEST.allow().to_dict(), "action": action})


@pytest.mark.parametrize("action, arguments", [("edit", None), ("allow", "{}"), ("deny", "{}")])
def test_only_an_edit_has_arguments(action: Any, arguments: str | None) -> None:
    with pytest.raises(ValueError, match="only then"):
        ApprovalDecision("c1", REQUEST.fingerprint, action, arguments=arguments)
