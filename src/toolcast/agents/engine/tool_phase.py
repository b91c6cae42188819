"""What is done with the calls of one response: may they run, run them, answer them.

First every call is decided, one after the other in call order, so that a person is asked one thing at a time and an
answer for the whole session counts for the calls behind it. Only then do tools run: neighbours that may run at the
same time together, the others alone. Every call gets its answer, in call order; a call that cannot or may not run
gets one that says why.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from pydantic_core import from_json

from ...approvals import ApprovalDecision, PermissionRequest
from ...async_support.callbacks import call_function
from ...cancellation import Cancellation
from ...errors import FailTurn, PermissionDenied, ToolcastError, TryAgain, TurnFailed
from ...events import AgentEvent, ToolProgress, ToolResult, ToolStarted
from ...json_text import json_text
from ...messages import Message, ToolCallPart
from ...tools.callable_tool import CallableTool
from ...tools.context import ToolContext
from ...tools.execution import ToolJob, ToolRun, overlapping_groups, read_call
from ...tools.results import error_text
from ...usage import BudgetTracker
from ..permissions.argument_values import to_plain
from ..permissions.permissions import to_decision
from .config import EngineConfig
from .conversation import BROKEN_OFF, Conversation
from .history import denied

logger: Final = logging.getLogger("toolcast")

_SHOWN: Final = 500  # characters of changed arguments that the model is told


class ToolPhase:
    """The calls of one response, from the decision about each to the answer of each."""

    def __init__(
        self,
        setup: EngineConfig,
        transcript: Conversation,
        jobs: Sequence[ToolJob],
        cancellation: Cancellation,
        spending: BudgetTracker,
        *,
        concurrent: bool,
    ) -> None:
        self.pending: list[PermissionRequest] = []
        self.failure: TurnFailed | None = None  # a tool has ended the turn
        self._setup = setup
        self._transcript = transcript
        self._cancellation = cancellation
        self._spending = spending
        self._concurrent = concurrent
        self._jobs = jobs
        self._undecided: Iterator[ToolJob] = iter(jobs)
        self._asked: ToolJob | None = None
        self._groups: Iterator[list[ToolJob]] | None = None
        self._group: list[ToolJob] = []
        self._run: ToolRun | None = None
        self._has_run = self._out_of_time = False

    # Deciding.

    def next_request(self, answers: Mapping[str, ApprovalDecision]) -> PermissionRequest | None:
        """The next call that somebody has to be asked about; None once all calls are decided."""
        for job in self._undecided:
            request = self._judged(job, answered=job.call.id in answers)
            if request is None:
                continue
            self._asked = job
            if request.call_id not in answers:
                return request
            self.take(request, answers[request.call_id])
        return None

    async def ask(self, request: PermissionRequest) -> None:
        """Have the approver decide; where there is to be an answer later, the request is `pending`."""
        approve = self._setup.permissions.approve
        if approve == "later":
            self.pending.append(request)
            return
        assert approve is not None  # where nobody is there to be asked, no call is asked about
        try:
            said: object = await call_function(
                approve, request, concurrent=self._concurrent, cancellation=self._cancellation
            )
        except Exception as error:  # the user's approver: what fails has not said yes
            if self._cancellation.cancelled:
                raise
            # The approver is the user's own code. What it cannot say yes to does not run.
            logger.exception("the approver failed on %s", request.tool)
            said = request.deny(f"the approver failed: {type(error).__name__}")
        self.take(request, said)

    def take(self, request: PermissionRequest, said: object) -> None:
        """Take the answer to the request that was made last."""
        job = self._asked
        assert job is not None and job.tool is not None
        answer = to_decision(request, said)
        if answer.action == "deny":
            job.error = _denied(answer.reason or "the user said no")
        elif answer.action == "allow_session":
            facts, arguments = job.tool, _arguments(job)
            rule = self._setup.permissions.rule_for_session(facts, arguments)
            if rule not in self._transcript.remembered:  # an answer that waits for others is taken again with them
                self._transcript.remembered.append(rule)
        elif answer.action == "edit":
            self._edit(job, answer.arguments or "{}")

    def _judged(self, job: ToolJob, *, answered: bool) -> PermissionRequest | None:
        """What has to be asked before the call may run. An answer counts, even if by now it may run without."""
        if job.error is not None or job.tool is None or job.done:
            return None
        decision = self._setup.permissions.decide(job.tool, _arguments(job), self._transcript.remembered)
        if decision.verdict == "deny":
            job.error = _denied(decision.reason)
        if decision.verdict == "deny" or (decision.verdict == "allow" and not answered):
            return None
        return PermissionRequest(job.call.id, job.tool.name, job.call.arguments, decision.reason)

    def _edit(self, job: ToolJob, arguments: str) -> None:
        """Let the call run with other arguments, if they may: what is forbidden stays forbidden."""
        assert job.tool is not None
        edited = read_call(replace(job.call, arguments=arguments), {job.tool.name: job.tool})
        job.read, job.error, job.edited = edited.read, edited.error, arguments
        self._judge_again(job)

    def _judge_again(self, job: ToolJob) -> None:
        """Deny what is forbidden by now: other arguments, or a path that leads elsewhere since a tool has run."""
        if not job.ready or job.tool is None:
            return
        decision = self._setup.permissions.decide(job.tool, _arguments(job), self._transcript.remembered)
        if decision.verdict == "deny":
            job.error = _denied(decision.reason)

    # Running.

    @property
    def running(self) -> bool:
        """Whether tools are running."""
        return self._run is not None

    @property
    def out_of_time(self) -> bool:
        """Return whether the time of a budget has ended a tool."""
        return self._out_of_time

    def start_group(self, left: Callable[[], float | None] = lambda: None) -> list[AgentEvent] | None:
        """Make the next tools ready and say that they start; None when there are none left.

        `left` returns the seconds that a budget leaves for them, or raises where it leaves none.
        """
        if self._groups is None:
            self._groups = iter(overlapping_groups(self._jobs))
        group = next(self._groups, None)
        if group is None:
            return None
        self._group = group
        for job in group if self._has_run else ():
            self._judge_again(job)
        ready = [job for job in group if job.ready]
        self._run = ToolRun(
            ready,
            [self._context(job) for job in ready],
            concurrent=self._concurrent,
            timeout=self._setup.tool_timeout,
            left=left() if ready else None,
            output_limit=self._setup.output_limit,
        )
        self._has_run |= bool(ready)
        self._transcript.started.update(job.call.id for job in ready)
        return [ToolStarted(job.call.id, job.call.name) for job in ready]

    async def more(self) -> list[AgentEvent]:
        """What running tools say; when all of the group have ended, their results."""
        assert self._run is not None
        progress: list[ToolProgress] = await self._run.more()
        self._out_of_time |= self._run.out_of_time
        return list[AgentEvent](progress) or self.answered()

    def answered(self) -> list[AgentEvent]:
        """Put the results of the group that has ended, or of what of it has, into the history."""
        ended = [job for job in self._group if job.done or job.error is not None]
        self._group, self._run = [], None
        return [self._result(job) for job in ended]

    async def stop(self) -> None:
        """Have what runs end."""
        if self._run is not None:
            await self._run.stop()

    def abandon(self) -> None:
        """Have what runs end, where nothing can be awaited."""
        if self._run is not None:
            self._run.abandon()

    def _context(self, job: ToolJob) -> ToolContext[Any]:
        return ToolContext(job.call.id, job.call.name, self._setup.deps, self._cancellation, self._spending)

    def _result(self, job: ToolJob) -> ToolResult:
        output = job.output()
        if job.error is not None:
            self._note(job, job.error)
        part = output.part()
        if job.edited is not None:
            part = replace(part, content=f"(The user changed the arguments to {job.edited:.{_SHOWN}}.)\n{part.content}")
        self._transcript.add(Message("tool", (part,)))
        self._transcript.settle(job.call.id)
        return ToolResult(job.call.id, job.call.name, part.content, output.is_error, output.raw_output)

    def _note(self, job: ToolJob, error: Exception) -> None:
        """Log an error that is a mistake in a tool's code; keep one that ends the turn."""
        if isinstance(error, _MISTAKES):
            logger.error("the tool %s raised %s", job.call.name, type(error).__name__, exc_info=error)
        raises = self._setup.tool_errors == "raise" and not isinstance(error, (ToolcastError, TryAgain))
        if self.failure is None and (raises or isinstance(error, FailTurn)):
            why = error_text(error) if str(error) else type(error).__name__
            self.failure = TurnFailed(f"the tool {job.call.name} ended the turn: {why}", tool_name=job.call.name)
            self.failure.__cause__ = error


_MISTAKES: Final = (
    *(AssertionError, AttributeError, ImportError, NameError, NotImplementedError, RecursionError, SyntaxError),
    *(SystemError, TypeError),
)
"""Errors that are mistakes in code: the model reads them, and cannot help them."""


def jobs_of(
    calls: Sequence[ToolCallPart], offered: Mapping[str, CallableTool], started: Container[str] = ()
) -> list[ToolJob]:
    """One job for each call. What had begun before a crash is not begun again, unless the tool allows it."""
    jobs = [read_call(call, offered) for call in calls]
    for job in jobs:
        if job.call.id in started and not (job.tool is not None and job.tool.idempotent):
            job.error = ToolcastError(BROKEN_OFF)
    return jobs


def requests_for(
    setup: EngineConfig, transcript: Conversation, calls: Sequence[ToolCallPart]
) -> tuple[PermissionRequest, ...]:
    """What somebody has to be asked before these calls may run."""
    jobs = jobs_of(calls, setup.by_name, transcript.started)
    phase = ToolPhase(setup, transcript, jobs, Cancellation(), BudgetTracker(), concurrent=False)
    requests = iter(lambda: phase.next_request({}), None)
    return tuple([request for request in requests if request.call_id not in transcript.answers])


def kept(message: Message, jobs: Iterable[ToolJob]) -> Message:
    """`message` as the history keeps it, the arguments of its calls JSON objects, as every service wants them back.

    What was read leniently is kept as it was read. What could not be read is kept as cut off, so that it never runs.
    Of a call that does not fit and whose type hides its input, the arguments are not kept.
    """
    changed: dict[str, ToolCallPart] = {}
    for job in jobs:
        call = job.call
        if job.error is not None and job.tool is not None and job.tool.hides_input:
            changed[call.id] = replace(call, arguments="{}")
            continue
        if _is_plain_object(call.arguments):
            continue
        if job.error is None:
            try:
                job.call = changed[call.id] = replace(call, arguments=json_text(to_plain(_arguments(job))))
                continue
            except ValueError as error:  # what cannot be written cannot be shown to anybody
                job.error = _denied(str(error))
        changed[call.id] = replace(call, arguments="{}", truncated=True)
    if not changed:
        return message
    parts = [changed.get(part.id, part) if isinstance(part, ToolCallPart) else part for part in message.parts]
    return Message(message.role, tuple(parts))


def _is_plain_object(text: str) -> bool:
    """Whether `text` is a JSON object that says nothing twice: whoever is asked about it must see what will run."""
    try:
        value = from_json(text)
    except (TypeError, ValueError):  # a str with half of a surrogate pair is a TypeError
        return False
    return isinstance(value, dict) and (text.count(":") <= len(cast("Any", value)) or not _says_twice(text))


def _says_twice(text: str) -> bool:
    twice: list[bool] = []
    json.loads(text, object_pairs_hook=lambda pairs: twice.append(len(dict(pairs)) < len(pairs)))
    return any(twice)


def _arguments(job: ToolJob) -> Any:
    """The arguments that the tool would run with, by the names the model knows."""
    assert job.tool is not None
    return job.tool.named(job.read.value)


def _denied(reason: str) -> PermissionDenied:
    return PermissionDenied(denied(reason))
