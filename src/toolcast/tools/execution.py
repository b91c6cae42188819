"""Execution of tool calls: each call of a response exactly once, with results in call order.

Written once for both APIs: under the sync API no await suspends. A `ToolRun` executes calls that may overlap, one of
their `overlapping_groups`, and returns the progress events that they emit. An agent's turn creates one for each group,
and a failed call becomes a result for the model. `run_calls` executes all calls of a structured response the same way,
and raises the error of a failed one. A truncated call is never executed. At most `MAX_CONCURRENT` calls run at a time.

A `ToolRun` executes its calls inline if nothing requires more. Otherwise each call runs in a background job
(`background_jobs`) on a copy of its `ToolJob`; the first of tool, time limit and cancellation ends the call. Anything
that the tool returns later is discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from itertools import groupby
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from ..async_support.cancellation import Cancellation
from ..async_support.waiters import Waiters
from ..errors import OutputTruncated, ToolTimeout, TryAgain, TurnCancelled, UnknownToolError, ValidationError
from ..events import ToolProgress
from ..lazy.lazy_dataclasses import dataclass
from ..messages import ToolCallPart
from ..values.hooks import CallHooks
from ..values.server_tools import unapproved, waits_for_approval
from .callable_tool import CallableTool, ParsedArguments, ToolInvocation, ToolOutput
from .tool_context import ToolContext
from .tool_results import error_text

if TYPE_CHECKING:
    from ..async_support.background_jobs import BackgroundJob

E = TypeVar("E", bound=BaseException)

MAX_CONCURRENT = 32  # calls at a time
_NO_ARGUMENTS = ParsedArguments(None)
_GRACE = 1.0
_ATTRIBUTES = "_toolcast_attributes"
_MAY_HAVE_RUN = "it may have had its effect, and its result is discarded"


@dataclass(slots=True)
class ToolJob:
    """One call: its tool and parsed arguments, and at the end the tool's output or the error.

    Attributes:
        done: The tool has run to its end.
        limit: The number of characters of the result that the model reads.
        edited: The arguments that the user approved in place of the model's.
        structured: The call belongs to a structured call, not to an agent's turn: no progress events are read, and by
            default it may overlap with others, because several calls require `allow_parallel_tool_calls`.
        hooks: The hooks of the operation that the call is part of.
        seconds: The time that the tool has run.
        raised: The `error` was raised by code of the tool: its function, or a validator of its arguments.
    """

    call: ToolCallPart
    tool: CallableTool | None = None
    read: ParsedArguments = _NO_ARGUMENTS
    error: Exception | None = None
    done: bool = False
    limit: int | None = None
    edited: str | None = None
    structured: bool = False
    hooks: CallHooks | None = None
    seconds: float = 0.0
    raised: bool = False
    tool_output: ToolOutput | None = field(default=None, repr=False)

    @property
    def ready(self) -> bool:
        """True if the call can be executed, and has not been yet."""
        return self.error is None and not self.done

    @property
    def named_arguments(self) -> Any:
        """The arguments that the tool would run with, by the names in its schema."""
        assert self.tool is not None
        return self.tool.named(self.read.value)

    @property
    def may_overlap(self) -> bool:
        """True if the call may run beside others: the tool's option `parallel`, or the default."""
        if not self.ready or self.tool is None:
            return True  # it is not executed
        return self.tool.runs_in_parallel or (self.structured and self.tool.parallel is None)

    @property
    def result(self) -> Any:
        """The value that the tool returned, or None."""
        return None if self.tool_output is None else self.tool_output.raw_output

    async def run(self, concurrent: bool, context: ToolContext[Any] | None = None) -> None:
        """Execute the tool; its exception becomes the `error`."""
        assert self.tool is not None
        if self.structured and concurrent and not (self.tool.takes_context or self.tool.timeout):
            context = None  # without a context, cancelling waits for a sync function instead of abandoning it
        try:
            if self.hooks is None:
                self.tool_output = await self._execute(self.tool, concurrent, context)
            else:
                with self.hooks.around_tool(self.call):
                    self.tool_output = await self._execute(self.tool, concurrent, context)
            self.done = True
        except Exception as error:  # the user's tool: its failure becomes the call's result
            self.error, self.raised = error, True

    async def _execute(self, tool: CallableTool, concurrent: bool, context: ToolContext[Any] | None) -> ToolOutput:
        invocation = ToolInvocation(self.call.arguments, self.read, self.limit, self.call.id)
        return await tool.aanswer(invocation, context) if concurrent else tool.answer(invocation, context)

    def output(self) -> ToolOutput:
        """Return the answer to the call, once it was executed or has an error."""
        if self.tool_output is None:
            text, call = error_text(self.error), self.call
            self.tool_output = ToolOutput(
                text, call.name, call.arguments, is_error=True, call_id=call.id, error=self.error
            )
        return self.tool_output

    def notify(self) -> None:
        """Notify the hooks of the result."""
        if self.hooks is not None:
            self.hooks.emit("tool", self.call, self.output(), self.seconds)


class ValueJob(ToolJob):
    """A call whose result is used as the tool returns it: not converted to text, iterators not consumed."""

    __slots__ = ()

    async def _execute(self, tool: CallableTool, concurrent: bool, context: ToolContext[Any] | None) -> ToolOutput:
        value = self.read.value
        result = await tool.arun(value, context) if concurrent else tool.run(value, context)
        return ToolOutput("", tool.name, self.call.arguments, result, call_id=self.call.id)


def read_call(call: ToolCallPart, offered: Mapping[str, CallableTool], context: Any = None) -> ToolJob:
    """Return the job of `call`, not executed. An invalid call is the job's `error`."""
    if call.opaque is not None and waits_for_approval(call):
        return ToolJob(call, error=unapproved(call))
    job = ToolJob(call, offered.get(call.name))
    if job.tool is None:
        names = ", ".join(offered) or "none"
        job.error = UnknownToolError(f"the model called a tool {call.name!r:.100}; it was offered: {names}")
    elif call.truncated:
        job.error = OutputTruncated(
            f"{call.name} was not run: its arguments were cut off after {len(call.arguments)} characters"
        )
    else:
        try:
            job.read = job.tool.read(call.arguments, context)
        except Exception as error:  # the user's validators may raise anything
            job.error, job.raised = error, not isinstance(error, (ValidationError, TryAgain))
    return job


def overlapping_groups(jobs: Iterable[ToolJob]) -> list[list[ToolJob]]:
    """Return the jobs in order: neighbours that may overlap as one group, every other one alone."""
    found: list[list[ToolJob]] = []
    for together, run in groupby(jobs, lambda job: job.may_overlap):
        neighbours = list(run)
        found += [neighbours] if together else [[job] for job in neighbours]
    return found


async def run_tools(
    tools: Iterable[CallableTool],
    calls: Sequence[ToolCallPart],
    *,
    concurrent: bool,
    context: Any = None,
    hooks: CallHooks | None = None,
) -> list[ToolOutput]:
    """Run `calls` and return one output for each, in their order.

    Raises:
        UnknownToolError: If a call names no offered tool. For these three no tool has run.
        ValidationError: If the arguments of a call are invalid.
        OutputTruncated: If the arguments of a call were cut off.

    Exceptions of the tools are raised as by `run_calls`.
    """
    offered = {tool.name: tool for tool in tools}
    jobs = [read_call(call, offered, context) for call in calls]
    for job in jobs:
        job.structured, job.hooks = True, hooks
    _raise_first_unreadable(jobs)
    await run_calls(jobs, concurrent=concurrent)
    return [job.output() for job in jobs]


async def run_calls(jobs: Sequence[ToolJob], *, concurrent: bool) -> None:
    """Run the calls of a structured response, each exactly once, those that may overlap at the same time.

    Every call runs, even if another one fails; only after a `TryAgain` no further group begins, because the model makes
    its calls again. Then the exception of the first failed call is raised, with the attributes that `with_call` sets.
    """
    for group in overlapping_groups(jobs):
        run = ToolRun(group, [ToolContext(job.call.id, job.call.name) for job in group], concurrent=concurrent)
        while await run.more():
            pass  # progress events are not read here
        for job in group:
            job.notify()
        if any(isinstance(job.error, TryAgain) for job in group):
            break
    failed = [job for job in jobs if job.error is not None]
    if not failed:
        return
    # An error of the program takes precedence over a retry.
    first = next((job for job in failed if not isinstance(job.error, TryAgain)), failed[0])
    assert first.error is not None
    partial = [job.result for job in jobs if job.done] if len(jobs) > 1 else None
    error = with_call(first.error, first.call, partial)
    others = {job.call.id: job.error for job in failed if job.error is not None and job.error is not first.error}
    with suppress(AttributeError, TypeError):  # an exception that takes no attributes
        for job in failed:
            if (other := others.get(job.call.id)) is not None:
                with_call(other, job.call, None)
                error.add_note(
                    f"the call {job.call.id!r} of the tool {job.call.name!r} failed too: {error_text(other)}"
                )
        if isinstance(error, TryAgain):
            setattr(error, "others", tuple(others.values()))  # noqa: B010 - the model reads each (retry_messages)
    raise error


def with_call(error: E, call: ToolCallPart, partial: Sequence[Any] | None) -> E:
    """Return `error` with attributes that identify the call.

    `call_id`, `tool_name` and `arguments` (JSON text), and as `partial` the results of the other calls that succeeded,
    in call order. Attributes that the exception already has are not overwritten.
    """
    facts: dict[str, Any] = {"call_id": call.id, "tool_name": call.name, "arguments": call.arguments}
    if partial is not None:
        facts["partial"] = list(partial)
    set_here: set[str] = getattr(error, _ATTRIBUTES, set[str]())  # one exception object may be raised by many calls
    with suppress(AttributeError, TypeError):  # an exception that takes no attributes
        for name, value in facts.items():
            current = getattr(error, name, None)
            if name in set_here or current is None or (isinstance(current, str) and not current):
                setattr(error, name, value)
                set_here.add(name)
        setattr(error, _ATTRIBUTES, set_here)
    return error


def _raise_first_unreadable(jobs: Sequence[ToolJob]) -> None:
    failed = next((job for job in jobs if job.error is not None), None)
    if failed is not None and failed.error is not None:
        valid = [job.read.value for job in jobs if job.error is None and job.tool and job.tool.output_type]
        raise with_call(failed.error, failed.call, valid or None)


async def _all_of(runs: Sequence[Callable[[], Coroutine[Any, Any, None]]], *, together: bool) -> None:
    """Run them, together or in turn. The first exception cancels the others and is raised unchanged."""
    if not together or len(runs) < 2:
        for run in runs:
            await run()
        return
    import anyio

    limiter = anyio.Semaphore(MAX_CONCURRENT)

    async def run_limited(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with limiter:
            await run()

    first: BaseException | None = None
    try:
        async with anyio.create_task_group() as group:
            for run in runs:
                group.start_soon(run_limited, run)
    except BaseExceptionGroup as several:
        fatal = (error for error in several.exceptions if not isinstance(error, Exception))
        first = next(fatal, several.exceptions[0])
    if first is not None:
        raise first  # outside of the `except` block, so that it keeps its own context


@dataclass(slots=True, eq=False)
class _ActiveCall:
    """A call whose tool may run: its context, its deadline, and the background job that executes it.

    `limited_by_budget` is True if the time left in a budget is less than the tool's own limit.
    """

    job: ToolJob
    tool: CallableTool
    context: ToolContext[Any]
    seconds: float | None
    limited_by_budget: bool = False
    begun: bool = False
    began: float = 0.0  # when, in seconds
    until: float | None = None
    background_job: BackgroundJob | None = None

    @property
    def emits(self) -> bool:
        """True if the tool may emit progress events that are read."""
        return self.tool.takes_context and not self.job.structured

    def late(self) -> ToolTimeout:
        """Return the error of a call whose time is up."""
        if self.limited_by_budget:
            return ToolTimeout(f"{self.tool.name} was ended: the time of the budget is used up; {_MAY_HAVE_RUN}")
        return ToolTimeout(f"{self.tool.name} took longer than {self.seconds:g} seconds; {_MAY_HAVE_RUN}")

    def cancelled(self) -> TurnCancelled:
        """Return the error of a call that was cancelled."""
        how = f"was cancelled while it ran; {_MAY_HAVE_RUN}" if self.begun else "was not run: the turn was cancelled"
        return TurnCancelled(f"{self.tool.name} {how}")


class ToolRun:
    """The execution of calls that may overlap: `more` returns their progress events, `stop` ends them.

    Args:
        jobs: One of the `overlapping_groups`.
        contexts: A context for each job.
        concurrent: True under the async API.
        timeout: Seconds, for tools without a limit of their own.
        left: Seconds that a budget leaves for all of them; `out_of_time` is set if that ends a call.
        output_limit: Characters, for tools without a limit of their own.

    Once `more` has returned an empty list, or has raised, or `stop` has returned, each job has its result or its error.
    """

    __slots__ = ("_begun", "_concurrent", "_fatal_error", "_lock", "_progress", "_running", "_waiters", "out_of_time")

    def __init__(
        self,
        jobs: Sequence[ToolJob],
        contexts: Sequence[ToolContext[Any]],
        *,
        concurrent: bool,
        timeout: float | None = None,
        left: float | None = None,
        output_limit: int | None = None,
    ) -> None:
        if len(jobs) > 1 and not all(job.may_overlap for job in jobs):
            raise ValueError("these calls may not run together; pass one group of overlapping_groups() to ToolRun")
        self.out_of_time: bool = False
        self._concurrent = concurrent
        self._running: list[_ActiveCall] = []
        self._begun = False
        self._progress: list[ToolProgress] = []
        self._fatal_error: BaseException | None = None
        self._lock = Lock()
        self._waiters = Waiters()
        for job, context in zip(jobs, contexts, strict=True):
            if job.ready and job.tool is not None:
                job.limit = output_limit
                seconds = job.tool.timeout or timeout
                limited_by_budget = left is not None and (seconds is None or left < seconds)
                self._running.append(
                    _ActiveCall(job, job.tool, context, left if limited_by_budget else seconds, limited_by_budget)
                )

    async def more(self) -> list[ToolProgress]:
        """Wait for progress events and return them; an empty list means that all calls have ended."""
        try:
            if not self._begun:
                self._begun = True
                await self._begin()
            self._start_ready()
            while not (self._progress or self._has_ended()):
                await self._wait()
                self._start_ready()
            if self._fatal_error is not None:
                raise self._fatal_error
        except BaseException:
            await self.stop()
            raise
        progress, self._progress = self._progress, []
        return progress

    async def stop(self) -> None:
        """End the running calls. Async tools are cancelled and awaited; the results of threads are discarded."""
        await _wait_for_jobs(self.abandon(), self._concurrent)

    def abandon(self) -> list[BackgroundJob]:
        """End the running calls without waiting; return the background jobs worth waiting for."""
        self._begun = True
        return self._end_calls([(active, active.cancelled()) for active in tuple(self._running)])

    async def _begin(self) -> None:
        if not self._needs_background():
            await _all_of([partial(self._run_inline, active) for active in self._running], together=self._concurrent)
            self._running.clear()

    def _needs_background(self) -> bool:
        """Return whether anything else must be able to happen while the tools run."""
        running = self._running
        if self._concurrent:
            return any(active.emits for active in running)
        functions = [active for active in running if active.tool.output_type is None]
        return len(functions) > 1 or any(active.emits or active.seconds for active in functions)

    # Inline execution

    async def _run_inline(self, active: _ActiveCall) -> None:
        active.begun, active.began = True, monotonic()
        try:
            if active.seconds is None or not self._concurrent:
                await active.job.run(self._concurrent, active.context)
                return
            import anyio

            with anyio.move_on_after(active.seconds):
                await active.job.run(self._concurrent, active.context)
            if active.job.ready:
                active.job.error = active.late()
                self.out_of_time |= active.limited_by_budget
        finally:
            active.job.seconds = monotonic() - active.began

    # Background execution

    def _startable(self) -> list[_ActiveCall]:
        """Return the calls that may begin within the limit."""
        return [active for active in self._running[:MAX_CONCURRENT] if not active.begun]

    def _start_ready(self) -> None:
        for active in self._startable():
            self._start(active)

    def _start(self, active: _ActiveCall) -> None:
        from ..async_support.background_jobs import start_job

        active.begun, active.began = True, monotonic()
        cancellation = Cancellation(active.context.cancellation)
        cancellation.then(self._waiters.wake)
        active.context = replace(active.context, cancellation=cancellation, on_progress=partial(self._emit, active))
        active.until = None if active.seconds is None else monotonic() + active.seconds
        active.background_job = start_job(
            partial(self._run_in_background, active), concurrent=self._concurrent, name=f"tool {active.tool.name}"
        )

    async def _run_in_background(self, active: _ActiveCall) -> None:
        own = replace(active.job)
        try:
            await own.run(self._concurrent, active.context)
            if active.context.cancelled:  # the return value may be that of a cancelled tool
                own = replace(active.job, error=active.cancelled())
            own.output()
        except BaseException as error:  # the user's tool, in a job of its own: `more` raises it
            own.error = active.cancelled()
            with self._lock:
                if active in self._running:
                    self._fatal_error = self._fatal_error or error
            if not isinstance(error, (KeyboardInterrupt, SystemExit)):  # raised by `more` only
                raise
        finally:
            self._close(active, own)

    def _emit(self, active: _ActiveCall, event: ToolProgress) -> None:
        with self._lock:
            if active in self._running:
                self._progress.append(event)
        self._waiters.wake()

    def _close(self, active: _ActiveCall, ended: ToolJob) -> bool:
        """Record how the call ended, unless it has ended already; return whether this was recorded."""
        with self._lock:
            if active not in self._running:
                return False
            job = active.job
            job.error, job.raised = ended.error, ended.raised
            job.tool_output, job.done = ended.tool_output, ended.done
            job.seconds = monotonic() - active.began if active.begun else 0.0
            self._running.remove(active)
        active.context.cancellation.forget_parent()
        self._waiters.wake()
        return True

    # Waiting

    async def _wait(self) -> None:
        """Wait until something happens; end the calls whose time is up or that were cancelled."""
        running = tuple(self._running)
        until = min((active.until for active in running if active.until is not None), default=None)
        seconds = None if until is None else until - monotonic()
        if not self._concurrent:
            self._waiters.block(self._should_wake, seconds)
        else:
            import anyio

            with anyio.move_on_after(seconds):
                await self._waiters.suspend(self._should_wake)
        if any(active.context.cancelled for active in running):
            await self.stop()
        now = monotonic()
        late = [active for active in running if active.until is not None and active.until <= now]
        self.out_of_time |= any(active.limited_by_budget for active in late)
        await _wait_for_jobs(self._end_calls((active, active.late()) for active in late), self._concurrent)

    def _has_ended(self) -> bool:
        return self._fatal_error is not None or not self._running

    def _should_wake(self) -> bool:
        wake = bool(self._progress or self._startable()) or self._has_ended()
        return wake or any(active.context.cancelled for active in tuple(self._running))

    # Ending

    def _end_calls(self, calls: Iterable[tuple[_ActiveCall, Exception]]) -> list[BackgroundJob]:
        """End these calls with these errors; return the background jobs worth waiting for."""
        background_jobs: list[BackgroundJob] = []
        for active, error in calls:
            if not self._close(active, replace(active.job, error=error)) or active.background_job is None:
                continue
            active.context.cancellation.cancel()
            active.background_job.cancel()
            if self._concurrent or active.tool.function is None:
                background_jobs.append(active.background_job)
        return background_jobs


async def _wait_for_jobs(background_jobs: Sequence[BackgroundJob], concurrent: bool) -> None:
    if concurrent and background_jobs:
        from ..async_support.background_jobs import join_all

        await join_all(background_jobs, _GRACE)
    elif background_jobs:
        for job in background_jobs:
            job.wait(_GRACE)
