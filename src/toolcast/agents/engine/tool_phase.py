"""The tool calls of one response: approvals, execution, results.

First every call is decided (`CallDecisions`), one after the other in call order, so that a person is asked one question
at a time. Only then do tools run: neighbours that may run concurrently together, the others alone. Every call gets a
result, in call order; a call that cannot or may not run gets one with the reason.

Calls of remote MCP servers that the provider runs once they are approved.

For the engine they are tool calls: the permissions decide them like any others, their approvals are requested in the
same way, and last as long. To run one is to answer that it is approved; the provider then runs the call that it has
asked about. Every other result of it, such as a denial or the end of the turn, denies it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pydantic_core import from_json

from ...async_support.callbacks import call_function
from ...async_support.cancellation import Cancellation
from ...errors import CallError, FailTurn, ToolcastError, ToolTimeout, TryAgain, TurnCancelled, TurnFailed
from ...events import AgentEvent, ToolProgress, ToolResult, ToolStarted
from ...llms.defaults import Configs
from ...messages import Message, ToolCallPart
from ...structured.response_validation import you_wrote
from ...text.json_text import json_text
from ...tools.callable_tool import CallableTool, ParsedArguments
from ...tools.execution import ToolJob, ToolRun, overlapping_groups, read_call
from ...tools.function_schema import BoundCall
from ...tools.tool_context import ToolContext
from ...tools.tool_results import error_text, remedy_of
from ...values.approvals import ApprovalDecision, PermissionRequest
from ...values.budgets import BudgetTracker
from ...values.hooks import CallHooks
from ...values.server_tools import APPROVED, is_reviewable, unapproved, waits_for_approval
from ..permissions.argument_values import is_plain_object, to_plain
from ..permissions.call_decisions import CallDecisions, denied, split_approvals, to_decision
from ..permissions.permissions import UNGUARDED, Permissions
from .conversation import INTERRUPTED, Conversation
from .engine_config import EngineConfig


class _Arguments:
    """The reader of arguments that are approved as they are."""

    hides_input: bool = False

    def read(self, text: str, context: Any) -> tuple[BoundCall, tuple[str, ...]]:
        """Return the arguments in the JSON object `text`."""
        return BoundCall((), from_json(text)), ()

    def dump(self, value: Any) -> str:
        """Return the JSON text of the arguments."""
        return json_text(value)


def _approve(**arguments: Any) -> str:
    """Return the approval, whatever the arguments: the provider has them."""
    return APPROVED


def approval_job(call: ToolCallPart, permissions: Permissions) -> ToolJob:
    """Return the job that approves `call`, if the permissions let it run.

    Raises:
        BadRequest: The engine has no permissions. By default it runs its own tools, but a call that is to be approved
            needs a decision.
    """
    if permissions is UNGUARDED:
        raise unapproved(call)
    tool = CallableTool(
        call.name,
        "A tool of a remote MCP server, which the provider runs.",
        {"type": "object"},
        _Arguments(),
        _approve,
        destructive=True,  # nothing is known of it
        idempotent=True,  # to approve it again changes nothing
    )
    job = ToolJob(call, tool)
    if not (is_reviewable(call) and is_plain_object(call.arguments)):
        job.error = denied("the arguments are not one JSON object with different keys, so that they cannot be reviewed")
    else:
        job.read = ParsedArguments(*tool.source.read(call.arguments, None))
    return job


logger: Final = logging.getLogger("toolcast")

_SHOWN: Final = 500  # characters of edited arguments that the model reads


class ToolPhase:
    """The calls of one response, from the permission decision to the result of each."""

    def __init__(
        self,
        config: EngineConfig,
        conversation: Conversation,
        jobs: Sequence[ToolJob],
        cancellation: Cancellation,
        spending: BudgetTracker,
        hooks: CallHooks | None = None,
        *,
        concurrent: bool,
    ) -> None:
        self.pending: list[PermissionRequest] = []
        self.failure: TurnFailed | None = None  # a tool has ended the turn
        self._config = config
        self._conversation = conversation
        self._cancellation = cancellation
        self._spending = spending
        self._concurrent = concurrent
        self._jobs = jobs
        self._decisions = CallDecisions(config.permissions, conversation.remembered, jobs, config.validation_context)
        self._requests: Sequence[PermissionRequest] = ()  # those that wait for their answers
        for job in jobs if hooks is not None else ():
            job.hooks = hooks
        self._groups: Iterator[list[ToolJob]] | None = None
        self._group: list[ToolJob] = []
        self._run: ToolRun | None = None
        self._has_run = self._exceeded_budget = False

    # Approvals.

    def next_requests(self, answers: Mapping[str, ApprovalDecision]) -> Sequence[PermissionRequest]:
        """Return the next request for an approval that `answers` does not have, or none once all calls are decided.

        An approver of all calls gets all requests at once.
        """
        if self._config.permissions.approve_all is not None:
            self._requests = self._decisions.requests(answers)
        else:
            request = self._decisions.next_request(answers)
            self._requests = () if request is None else (request,)
        return self._requests

    async def settle_requests(self, answers: dict[str, ApprovalDecision]) -> None:
        """Apply the answers to the last requests: from `answers`, which may have them by now, or from the approver.

        The approver's are added to `answers`, so that they are saved. With `approve="later"` the requests are added to
        `pending`.
        """
        waiting = [request for request in self._requests if request.call_id not in answers]
        if self._config.permissions.approve == "later":
            self.pending += waiting
        elif waiting:
            for request, given in zip(waiting, await self._call_approver(waiting), strict=True):
                answers[request.call_id] = to_decision(request, given)
        for request in self._requests:
            if request.call_id in answers:
                self._decisions.answer(request, answers[request.call_id])

    async def _call_approver(self, requests: Sequence[PermissionRequest]) -> Sequence[object]:
        """Return the approver's result for each of the requests."""
        approve, approve_all = self._config.permissions.approve, self._config.permissions.approve_all
        call = partial(call_function, concurrent=self._concurrent, cancellation=self._cancellation, waits=True)
        try:
            if approve_all is not None:
                return split_approvals(requests, await call(approve_all, requests))
            assert callable(approve)  # without an approver no call needs an approval
            return [await call(approve, request) for request in requests]
        except Exception as error:  # the user's approver: an error is no approval
            if self._cancellation.cancelled:
                raise
            # The approver is the user's own code. Without its approval the calls do not run.
            logger.exception("the approver failed on %s", ", ".join([request.tool for request in requests]))
            return [request.deny(f"the approver failed: {type(error).__name__}") for request in requests]

    def deny_requests(self, answers: Mapping[str, ApprovalDecision], reason: str) -> None:
        """Decide all calls; those that need an approval which `answers` does not have are denied."""
        for request in self._decisions.requests(answers):
            self._decisions.answer(request, request.deny(reason))

    # Running.

    @property
    def running(self) -> bool:
        """True if tools are running."""
        return self._run is not None

    @property
    def exceeded_budget(self) -> bool:
        """True if the time of a budget has ended a tool."""
        return self._exceeded_budget

    def start_group(self, left: Callable[[], float | None] = lambda: None) -> list[AgentEvent] | None:
        """Start the next tools and return their `ToolStarted` events; None when there are none left.

        `left` returns the seconds that a budget leaves for them, or raises if it leaves none.
        """
        if self._groups is None:
            self._groups = iter(overlapping_groups(self._jobs))
        group = next(self._groups, None)
        if group is None:
            return None
        self._group = group
        for job in group if self._has_run else ():
            self._decisions.recheck(job)
        ready = [job for job in group if job.ready]
        self._run = ToolRun(
            ready,
            [self._context(job) for job in ready],
            concurrent=self._concurrent,
            timeout=self._config.tool_timeout,
            left=left() if ready else None,
            output_limit=self._config.output_limit,
        )
        self._has_run |= bool(ready)
        self._conversation.started.update(job.call.id for job in ready)
        return [ToolStarted(job.call.id, job.call.name) for job in ready]

    async def next_events(self) -> list[AgentEvent]:
        """Return the progress of running tools, or their results once all of the group have ended."""
        assert self._run is not None
        progress: list[ToolProgress] = await self._run.more()
        self._exceeded_budget |= self._run.out_of_time
        return list[AgentEvent](progress) or self.collect_results()

    def collect_results(self) -> list[AgentEvent]:
        """Add the results of the group, as far as it has ended, to the history and return them."""
        ended = [job for job in self._group if job.done or job.error is not None]
        self._group, self._run = [], None
        return [self._result(job) for job in ended]

    def forget_group(self) -> None:
        """Forget that the last group was started, none of whose tools has run yet."""
        self._conversation.started.difference_update(job.call.id for job in self._group)
        self._group, self._run = [], None

    async def stop(self) -> None:
        """Stop the running tools and wait for them."""
        if self._run is not None:
            await self._run.stop()

    def abandon(self) -> None:
        """Stop the running tools without waiting."""
        if self._run is not None:
            self._run.abandon()

    def _context(self, job: ToolJob) -> ToolContext[Any]:
        return ToolContext(job.call.id, job.call.name, self._config.deps, self._cancellation, self._spending)

    def _result(self, job: ToolJob) -> ToolResult:
        output = job.output()
        job.notify()
        if job.raised and job.error is not None:
            self._on_raised(job, job.error)
        self._count_failure(job)
        part = output.part()
        if job.error is not None and not (_hides_input(job) or is_plain_object(job.call.arguments)):
            part = replace(part, content=part.content + you_wrote(job.call))
        if job.edited is not None:
            part = replace(part, content=f"(The user changed the arguments to {job.edited:.{_SHOWN}}.)\n{part.content}")
        self._conversation.add(Message("tool", (part,)))
        self._conversation.mark_answered(job.call.id)
        return ToolResult(job.call.id, job.call.name, part.content, output.is_error, output.raw_output)

    def _on_raised(self, job: ToolJob, error: Exception) -> None:
        """Log an error that a tool raised, and store one that ends the turn."""
        if isinstance(error, (TryAgain, TurnCancelled)):
            return
        # The model may hide the failure of a tool behind "All good!", so that the log is the only place that shows it.
        remedy = remedy_of(error)
        hint = f": {remedy}" if remedy else ""
        logger.warning("the tool %s raised %s%s", job.call.name, type(error).__name__, hint, exc_info=error)
        if self.failure is None and (isinstance(error, FailTurn) or self._ends_turn(job, error)):
            self.failure = failed_turn(error, f"the tool {job.call.name}", job.call.name)

    def _count_failure(self, job: ToolJob) -> None:
        """Store the error that ends the turn if the tool has failed more often in a row than its `retries` allow."""
        tool, failures = job.tool, self._conversation.failures
        if tool is None or tool.retries is None:
            return
        if job.error is None:
            failures[tool.name] = 0
        elif job.raised or isinstance(job.error, (CallError, TryAgain, ToolTimeout)):  # and not one that was denied
            count = failures[tool.name] = failures.get(tool.name, 0) + 1
            if count > tool.retries and self.failure is None:
                self.failure = failed_turn(job.error, f"the tool {tool.name}", tool.name, f"failed {count} times and ")

    def _ends_turn(self, job: ToolJob, error: Exception) -> bool:
        """Return True if this error of a tool is to be raised: not one that the library made as text for the model."""
        own = None if job.tool is None else job.tool.tool_errors
        handling = own or self._config.tool_errors or Configs.tool_errors
        return handling == "raise" and (isinstance(error, CallError) or not isinstance(error, ToolcastError))


def failed_turn(error: Exception, origin: str, tool_name: str = "", more: str = "") -> TurnFailed:
    """Return the error of a turn that `error` ended, which `origin` raised."""
    why = error_text(error) if str(error) else type(error).__name__
    failure = TurnFailed(f"{origin} {more}ended the turn: {why}", tool_name=tool_name)
    failure.__cause__ = error
    return failure


def make_jobs(config: EngineConfig, calls: Sequence[ToolCallPart], started: Container[str] = ()) -> list[ToolJob]:
    """Return one job for each call. A call that started before a crash is not repeated unless it is idempotent."""
    jobs = [_read_call(config, call) for call in calls]
    for job in jobs:
        if job.call.id in started and not (job.tool is not None and job.tool.idempotent):
            job.error = ToolcastError(INTERRUPTED)
    return jobs


def _read_call(config: EngineConfig, call: ToolCallPart) -> ToolJob:
    if call.opaque is None or not waits_for_approval(call):
        return read_call(call, config.by_name, config.validation_context)
    return approval_job(call, config.permissions)


def approval_requests(
    config: EngineConfig, conversation: Conversation, calls: Sequence[ToolCallPart]
) -> tuple[PermissionRequest, ...]:
    """Return the approvals that these calls need before they may run."""
    jobs = make_jobs(config, calls, conversation.started)
    requests = CallDecisions(config.permissions, conversation.remembered, jobs).requests()
    return tuple([request for request in requests if request.call_id not in conversation.answers])


def _hides_input(job: ToolJob) -> bool:
    return job.tool is not None and job.tool.hides_input


def stored_message(message: Message, jobs: Iterable[ToolJob]) -> Message:
    """Return `message` as it is added to the history: arguments are JSON objects, as services require.

    Arguments that were repaired are stored repaired. Unreadable ones are stored as truncated, so that the call never
    runs. If a call does not validate and its type hides its input, its arguments are not stored.
    """
    changed: dict[str, ToolCallPart] = {}
    for job in jobs:
        call = job.call
        if job.error is not None and _hides_input(job):
            changed[call.id] = replace(call, arguments="{}")
            continue
        if is_plain_object(call.arguments):
            continue
        if job.error is None:
            try:
                job.call = changed[call.id] = replace(call, arguments=json_text(to_plain(job.named_arguments)))
                continue
            except ValueError as error:  # arguments that cannot be written cannot be shown to an approver
                job.error = denied(str(error))
        changed[call.id] = replace(call, arguments="{}", truncated=True)
    if not changed:
        return message
    parts = [changed.get(part.id, part) if isinstance(part, ToolCallPart) else part for part in message.parts]
    return Message(message.role, tuple(parts))
