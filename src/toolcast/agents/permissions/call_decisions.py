"""`CallDecisions`: the decision on each tool call of a response, to run it or not. It is made nowhere else.

Each call is decided by the rules (`Permissions`), and where they require an approval, by the answer to a
`PermissionRequest`. It does no I/O: the tool phase of an engine calls the approver, and front ends render requests and
answer them. A call that may not run gets `PermissionDenied` as its error, so that no later step can run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ...errors import PermissionDenied
from ...tools.execution import ToolJob, read_call
from ...values.approvals import ApprovalDecision, PermissionRequest
from .permissions import Permissions
from .rules import Rule


class CallDecisions:
    """The decisions on the tool calls of one response, in call order.

    The order matters: an approval for the session is a rule for the calls behind it. `remembered` is the list of these
    rules, to which decisions append. `context` reaches the validators of edited arguments.
    """

    def __init__(
        self, permissions: Permissions, remembered: list[Rule], jobs: Sequence[ToolJob], context: Any = None
    ) -> None:
        self._permissions = permissions
        self._remembered = remembered
        self._context = context
        self._undecided: Iterator[ToolJob] = iter(jobs)
        self._asked: dict[PermissionRequest, ToolJob] = {}

    def next_request(self, answers: Mapping[str, ApprovalDecision]) -> PermissionRequest | None:
        """Decide calls up to the next that needs an approval and has none in `answers`; None after the last call."""
        for job in self._undecided:
            request = self._decide(job, answered=job.call.id in answers)
            if request is None:
                continue
            self._asked[request] = job
            if job.call.id not in answers:
                return request
            self.answer(request, answers[job.call.id])
        return None

    def requests(self, answers: Mapping[str, ApprovalDecision] | None = None) -> list[PermissionRequest]:
        """Decide all calls; return the requests of those that need an approval which `answers` does not have."""
        return list(iter(lambda: self.next_request(answers or {}), None))

    def answer(self, request: PermissionRequest, approval: object) -> None:
        """Apply the approver's result for a request, once. Everything that is no matching decision denies."""
        job = self._asked.pop(request)
        assert job.tool is not None
        decision = to_decision(request, approval)
        if decision.action == "deny":
            job.error = denied(decision.reason or "the user denied it")
        elif decision.action == "allow_session":
            rule = self._permissions.rule_for_session(job.tool, job.named_arguments)
            if rule not in self._remembered:  # a decision is applied again when the turn is resumed
                self._remembered.append(rule)
        elif decision.action == "edit":
            call = replace(job.call, arguments=decision.arguments or "{}")
            edited = read_call(call, {job.tool.name: job.tool}, self._context)
            job.read, job.error, job.raised, job.edited = edited.read, edited.error, edited.raised, call.arguments
            # The user saw the model's arguments, and deny rules and protected paths apply to the user's as well.
            self.recheck(job)

    def recheck(self, job: ToolJob) -> None:
        """Deny the call if it is forbidden by now: other arguments, or a path that another tool has changed.

        A call that was allowed is not asked about again: only "deny" counts.
        """
        if not job.ready or job.tool is None:
            return
        decision = self._permissions.decide(job.tool, job.named_arguments, self._remembered)
        if decision.verdict == "deny":
            job.error = denied(decision.reason)

    def _decide(self, job: ToolJob, *, answered: bool) -> PermissionRequest | None:
        """Decide by the rules; return the request for the approval that the call needs, if any."""
        # These get an error or have their result: they do not run, so that an approval would mislead its user.
        if job.error is not None or job.tool is None or job.done:
            return None
        decision = self._permissions.decide(job.tool, job.named_arguments, self._remembered)
        if decision.verdict == "deny":
            job.error = denied(decision.reason)  # also with an approval: a deny rule may be newer than that
            return None
        # A denial or an edit that was given counts, even if the rules let the call run by now.
        if decision.verdict == "allow" and not answered:
            return None
        # The request has the arguments as they are stored in the history, whose JSON is what the tool runs with.
        return PermissionRequest(job.call.id, job.tool.name, job.call.arguments, decision.reason)


def to_decision(request: PermissionRequest, approval: object) -> ApprovalDecision:
    """Return the decision that an approver's result means: True allows, and all but a matching decision denies."""
    if isinstance(approval, ApprovalDecision):
        # The fingerprint covers id, tool and arguments: a decision for another call, or for other arguments, is void.
        fits = (approval.call_id, approval.fingerprint) == (request.call_id, request.fingerprint)
        return approval if fits else request.deny("the decision was on another call, or on other arguments")
    if approval is True:  # not any true value: "no" and 1 are no approvals
        return request.allow()
    if approval is False or approval is None:
        return request.deny("it was not approved")
    return request.deny(f"the approver returned {type(approval).__name__}, not an ApprovalDecision or a bool")


def split_approvals(requests: Sequence[PermissionRequest], approval: object) -> list[object]:
    """Return the approver's result for each of the requests from its result for all of them.

    A request without a decision gets None; a result that is no list of decisions, with one for each call at most, is
    returned for each, so that each is denied.
    """
    if isinstance(approval, Iterable):
        decisions = list(cast("Iterable[object]", approval))
        by_id = {each.call_id: each for each in decisions if isinstance(each, ApprovalDecision)}
        if len(by_id) == len(decisions):
            return [by_id.get(request.call_id) for request in requests]
    return [approval] * len(requests)


def denial_text(reason: str) -> str:
    """Return the tool result for a call that was not allowed."""
    return f"permission denied: {reason}"


def denied(reason: str) -> PermissionDenied:
    """Return the error of a call that was not allowed."""
    return PermissionDenied(denial_text(reason))
