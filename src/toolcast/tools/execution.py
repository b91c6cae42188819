"""Runs the tool calls of one response, each exactly once, results in call order.

Written once for both faces: what is awaited under the sync face never suspends. A `ToolRun` runs calls that may
overlap, one of their `groups`, and gives what they emit while they run: an agent's turn makes one for each group, and
what goes wrong in a call becomes a result that the model reads. `run_calls` runs all calls of a structured answer the
same way, and raises what went wrong. A call that was cut off is never run. At most `TOGETHER` calls run at a time.

A `ToolRun` runs its calls here and now where nothing asks for more. Otherwise each call has a job beside this one
(side_jobs.py), with a copy of its `ToolJob`; whoever comes first closes the call: its tool, its time limit, or a
cancellation. What a tool gives after that is discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from ..async_support.waiters import Waiters
from ..cancellation import Cancellation
from ..errors import OutputTruncated, ToolTimeout, TryAgain, TurnCancelled, UnknownToolError
from ..events import ToolProgress
from ..messages import ToolCallPart
from .callable_tool import CallableTool, ParsedArguments, ToolInvocation, ToolOutput
from .context import ToolContext
from .results import told

if TYPE_CHECKING:
    from ..async_support.background_jobs import BackgroundJob

E = TypeVar("E", bound=BaseException)

TOGETHER = 32  # calls that run at the same time, at most
_NOTHING = ParsedArguments(None)
_GRACE = 1.0
_OURS = "_toolcast_attributes"
_MAYBE = "it may have had its effect, and what it gives is discarded"


@dataclass(slots=True)
class ToolJob:
    """One call: its tool and what was read for it, in the end what the tool `made` or what went wrong.

    `done`: the tool has run to its end. `limit`: how many characters of its result the model reads. `edited`: the
    arguments that somebody put in place of the model's. `structured`: it belongs to a structured call, not to an
    agent's turn. So no one follows its progress, and by default it may overlap with others: a structured call has
    several only where `allow_parallel_tool_calls` asks for them.
    """

    call: ToolCallPart
    tool: CallableTool | None = None
    read: ParsedArguments = _NOTHING
    error: Exception | None = None
    done: bool = False
    limit: int | None = None
    edited: str | None = None
    structured: bool = False
    made: ToolOutput | None = field(default=None, repr=False)

    @property
    def ready(self) -> bool:
        """Whether the call can be run, and was not yet."""
        return self.error is None and not self.done

    @property
    def may_overlap(self) -> bool:
        """Whether the call may run beside others: as its tool's option `parallel` says, or by default."""
        if not self.ready or self.tool is None:
            return True  # it is not run, so it is in no one's way
        return self.tool.runs_in_parallel or (self.structured and self.tool.parallel is None)

    @property
    def result(self) -> Any:
        """What the tool gave, if it gave anything."""
        return None if self.made is None else self.made.raw_output

    async def run(self, concurrent: bool, context: ToolContext[Any] | None = None) -> None:
        """Run the tool; what it raises becomes the `error`."""
        assert self.tool is not None
        if self.structured and concurrent and not (self.tool.takes_context or self.tool.timeout):
            context = None  # a sync function is then waited for, not abandoned, when the call is cancelled
        try:
            self.made = await self._made(self.tool, concurrent, context)
            self.done = True
        except Exception as error:  # the user's tool: its failure becomes the call's result
            self.error = error

    async def _made(self, tool: CallableTool, concurrent: bool, context: ToolContext[Any] | None) -> ToolOutput:
        asked = ToolInvocation(self.call.arguments, self.read, self.limit, self.call.id)
        return await tool.aanswer(asked, context) if concurrent else tool.answer(asked, context)

    def output(self) -> ToolOutput:
        """What answers the call, once it was run or has an error."""
        if self.made is None:
            words, call = told(self.error), self.call
            self.made = ToolOutput(words, call.name, call.arguments, is_error=True, call_id=call.id, error=self.error)
        return self.made


class ValueJob(ToolJob):
    """A call whose result is wanted as the tool returns it: no text is made of it, and no iterator is read."""

    __slots__ = ()

    async def _made(self, tool: CallableTool, concurrent: bool, context: ToolContext[Any] | None) -> ToolOutput:
        value = self.read.value
        result = await tool.arun(value, context) if concurrent else tool.run(value, context)
        return ToolOutput("", tool.name, self.call.arguments, result, call_id=self.call.id)


def read_call(call: ToolCallPart, offered: Mapping[str, CallableTool], context: Any = None) -> ToolJob:
    """The job of `call`, nothing run. What is wrong with the call is the job's `error`."""
    job = ToolJob(call, offered.get(call.name))
    if job.tool is None:
        names = ", ".join(offered) or "none"
        job.error = UnknownToolError(f"the model called a tool {call.name!r:.100}; it was offered: {names}")
    elif call.truncated:
        job.error = OutputTruncated(
            f"{call.name} was not run: its arguments were cut off after {len(call.arguments)} characters",
            partial=call.arguments,
        )
    else:
        try:
            job.read = job.tool.read(call.arguments, context)
        except Exception as error:  # validators are the user's, and raise what they like
            job.error = error
    return job


def groups(jobs: Iterable[ToolJob]) -> list[list[ToolJob]]:
    """Return the jobs in their order: neighbours that may overlap as one group, each other one alone."""
    found: list[list[ToolJob]] = []
    for together, run in groupby(jobs, lambda job: job.may_overlap):
        neighbours = list(run)
        found += [neighbours] if together else [[job] for job in neighbours]
    return found


async def run_tools(
    tools: Iterable[CallableTool], calls: Sequence[ToolCallPart], *, concurrent: bool, context: Any = None
) -> list[ToolOutput]:
    """Run `calls` and return one output for each, in their order.

    Raises the error of the first call that could not be read (`UnknownToolError`, `ValidationError`,
    `OutputTruncated`), and then no tool has run; otherwise as `run_calls` does.
    """
    offered = {tool.name: tool for tool in tools}
    jobs = [read_call(call, offered, context) for call in calls]
    for job in jobs:
        job.structured = True
    _raise_first_unreadable(jobs)
    await run_calls(jobs, concurrent=concurrent)
    return [job.output() for job in jobs]


async def run_calls(jobs: Sequence[ToolJob], *, concurrent: bool) -> None:
    """Run the calls of a structured answer, each exactly once, those that may overlap at the same time.

    Every call runs, even where another one fails; only after a `TryAgain` no further group begins, because the model
    makes its calls again. Then the exception of the first call that failed is raised, with the attributes that
    `with_call` gives it.
    """
    for group in groups(jobs):
        run = ToolRun(group, [ToolContext(job.call.id, job.call.name) for job in group], concurrent=concurrent)
        while await run.more():
            pass  # progress, which no one follows here
        if any(isinstance(job.error, TryAgain) for job in group):
            break
    failed = [job for job in jobs if job.error is not None]
    if not failed:
        return
    # A fault of the program comes before a request to the model.
    first = next((job for job in failed if not isinstance(job.error, TryAgain)), failed[0])
    assert first.error is not None
    partial = [job.result for job in jobs if job.done] if len(jobs) > 1 else None
    error = with_call(first.error, first.call, partial)
    for job in failed:
        if job.error is not first.error:
            with suppress(AttributeError, TypeError):  # an exception that takes no attributes
                error.add_note(f"the call {job.call.id!r} of the tool {job.call.name!r} failed too: {told(job.error)}")
    raise error


def with_call(error: E, call: ToolCallPart, partial: Sequence[Any] | None) -> E:
    """Return `error` with attributes that say which call it ended.

    `call_id`, `tool_name` and `arguments` (JSON text), and as `partial` the results of the other calls that succeeded,
    in call order. An attribute that the exception itself has is kept.
    """
    facts: dict[str, Any] = {"call_id": call.id, "tool_name": call.name, "arguments": call.arguments}
    if partial is not None:
        facts["partial"] = list(partial)
    ours: set[str] = getattr(error, _OURS, set[str]())  # one exception object may be raised by many calls
    with suppress(AttributeError, TypeError):  # an exception that takes no attributes
        for name, value in facts.items():
            known = getattr(error, name, None)
            if name in ours or known is None or (isinstance(known, str) and not known):
                setattr(error, name, value)
                ours.add(name)
        setattr(error, _OURS, ours)
    return error


def _raise_first_unreadable(jobs: Sequence[ToolJob]) -> None:
    failed = next((job for job in jobs if job.error is not None), None)
    if failed is not None and failed.error is not None:
        good = [job.read.value for job in jobs if job.error is None and job.tool and job.tool.output_type]
        raise with_call(failed.error, failed.call, good or None)


async def _all_of(runs: Sequence[Callable[[], Coroutine[Any, Any, None]]], *, together: bool) -> None:
    """Run them, together or in turn. The first to raise cancels the others; its exception comes out as it is."""
    if not together or len(runs) < 2:
        for run in runs:
            await run()
        return
    import anyio

    places = anyio.Semaphore(TOGETHER)

    async def in_place(run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with places:
            await run()

    first: BaseException | None = None
    try:
        async with anyio.create_task_group() as group:
            for run in runs:
                group.start_soon(in_place, run)
    except BaseExceptionGroup as several:
        grave = (error for error in several.exceptions if not isinstance(error, Exception))
        first = next(grave, several.exceptions[0])
    if first is not None:
        raise first  # out here, so that it keeps its own context


@dataclass(slots=True, eq=False)
class _Running:
    """A call whose tool may run: what it knows, when its time is up, and the job beside this one that runs it.

    `of_budget`: the time is what is left of a budget, less than the tool might take.
    """

    job: ToolJob
    tool: CallableTool
    context: ToolContext[Any]
    seconds: float | None
    of_budget: bool = False
    begun: bool = False
    until: float | None = None
    side: BackgroundJob | None = None

    @property
    def emits(self) -> bool:
        """Whether the tool may emit progress that someone follows."""
        return self.tool.takes_context and not self.job.structured

    def late(self) -> ToolTimeout:
        """The error of a call whose time is up."""
        if self.of_budget:
            return ToolTimeout(f"{self.tool.name} was ended: the time of the budget is used up; {_MAYBE}")
        return ToolTimeout(f"{self.tool.name} took longer than {self.seconds:g} seconds; {_MAYBE}")

    def cancelled(self) -> TurnCancelled:
        """The error of a call that was cancelled."""
        how = f"was cancelled while it ran; {_MAYBE}" if self.begun else "was not run: the turn was cancelled"
        return TurnCancelled(f"{self.tool.name} {how}")


class ToolRun:
    """Calls that may run together, running: `more` gives what they say, `stop` ends them.

    Give it one of `groups`, and a context for each of its jobs. `timeout` (seconds) and `output_limit` (characters)
    are for tools that have none of their own. `left` is the time that a budget leaves for all of them; `out_of_time`
    says whether it has ended one. Once `more` has given an empty list, or has raised, or `stop` has
    ended, each job has its result or its error.
    """

    __slots__ = ("_begun", "_concurrent", "_grave", "_lock", "_running", "_said", "_waiters", "out_of_time")

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
            raise ValueError("these calls may not run together; give a ToolRun one of their groups()")
        self.out_of_time: bool = False
        self._concurrent = concurrent
        self._running: list[_Running] = []
        self._begun = False
        self._said: list[ToolProgress] = []
        self._grave: BaseException | None = None
        self._lock = Lock()
        self._waiters = Waiters()
        for job, context in zip(jobs, contexts, strict=True):
            if job.ready and job.tool is not None:
                job.limit = output_limit
                seconds = job.tool.timeout or timeout
                of_budget = left is not None and (seconds is None or left < seconds)
                self._running.append(_Running(job, job.tool, context, left if of_budget else seconds, of_budget))

    async def more(self) -> list[ToolProgress]:
        """What the tools have said since; waits until there is something. An empty list: all have ended."""
        try:
            if not self._begun:
                self._begun = True
                await self._begin()
            self._start_next()
            while not (self._said or self._is_over()):
                await self._wait()
                self._start_next()
            if self._grave is not None:
                raise self._grave
        except BaseException:
            await self.stop()
            raise
        said, self._said = self._said, []
        return said

    async def stop(self) -> None:
        """End what still runs. Async tools are cancelled and waited for; what a thread gives later is discarded."""
        await _joined(self.abandon(), self._concurrent)

    def abandon(self) -> list[BackgroundJob]:
        """Have what still runs end, without waiting; gives the jobs whose end is worth waiting for."""
        self._begun = True
        return self._told_to_end([(each, each.cancelled()) for each in tuple(self._running)])

    async def _begin(self) -> None:
        if not self._goes_on_beside():
            await _all_of([partial(self._here, each) for each in self._running], together=self._concurrent)
            self._running.clear()

    def _goes_on_beside(self) -> bool:
        """Whether something must be able to happen while the tools run."""
        running = self._running
        if self._concurrent:
            return any(each.emits for each in running)
        functions = [each for each in running if each.tool.output_type is None]
        return len(functions) > 1 or any(each.emits or each.seconds for each in functions)

    # Here and now.

    async def _here(self, each: _Running) -> None:
        each.begun = True
        if each.seconds is None or not self._concurrent:
            await each.job.run(self._concurrent, each.context)
            return
        import anyio

        with anyio.move_on_after(each.seconds):
            await each.job.run(self._concurrent, each.context)
        if each.job.ready:
            each.job.error = each.late()
            self.out_of_time |= each.of_budget

    # Beside this one.

    def _next(self) -> list[_Running]:
        """The calls that may begin: what ends makes room."""
        return [each for each in self._running[:TOGETHER] if not each.begun]

    def _start_next(self) -> None:
        for each in self._next():
            self._start(each)

    def _start(self, each: _Running) -> None:
        from ..async_support.background_jobs import start_job

        each.begun = True
        cancellation = Cancellation(each.context.cancellation)
        cancellation.then(self._waiters.wake)
        each.context = replace(each.context, cancellation=cancellation, tell=partial(self._tell, each))
        each.until = None if each.seconds is None else monotonic() + each.seconds
        each.side = start_job(partial(self._beside, each), concurrent=self._concurrent, name=f"tool {each.tool.name}")

    async def _beside(self, each: _Running) -> None:
        own = replace(each.job)
        try:
            await own.run(self._concurrent, each.context)
            if each.context.cancelled:  # what it gave may be what it gives when it is cancelled
                own = replace(each.job, error=each.cancelled())
            own.output()
        except BaseException as error:  # the user's tool, in a job of its own: `more` raises it
            own.error = each.cancelled()
            with self._lock:
                if each in self._running:
                    self._grave = self._grave or error
            if not isinstance(error, (KeyboardInterrupt, SystemExit)):  # these are raised by `more` alone
                raise
        finally:
            self._close(each, own)

    def _tell(self, each: _Running, event: ToolProgress) -> None:
        with self._lock:
            if each in self._running:
                self._said.append(event)
        self._waiters.wake()

    def _close(self, each: _Running, ended: ToolJob) -> bool:
        """Take over how the call ended, if it has not ended yet; gives whether that was so."""
        with self._lock:
            if each not in self._running:
                return False
            job = each.job
            job.error, job.made, job.done = ended.error, ended.made, ended.done
            self._running.remove(each)
        each.context.cancellation.forget_parent()
        self._waiters.wake()
        return True

    # Waiting.

    async def _wait(self) -> None:
        """Wait until something happens, and end the calls whose time is up or that were cancelled."""
        running = tuple(self._running)
        until = min((each.until for each in running if each.until is not None), default=None)
        seconds = None if until is None else until - monotonic()
        if not self._concurrent:
            self._waiters.block(self._stirs, seconds)
        else:
            import anyio

            with anyio.move_on_after(seconds):
                await self._waiters.suspend(self._stirs)
        if any(each.context.cancelled for each in running):
            await self.stop()
        now = monotonic()
        late = [each for each in running if each.until is not None and each.until <= now]
        self.out_of_time |= any(each.of_budget for each in late)
        await _joined(self._told_to_end((each, each.late()) for each in late), self._concurrent)

    def _is_over(self) -> bool:
        return self._grave is not None or not self._running

    def _stirs(self) -> bool:
        stirs = bool(self._said or self._next()) or self._is_over()
        return stirs or any(each.context.cancelled for each in tuple(self._running))

    # Ending.

    def _told_to_end(self, calls: Iterable[tuple[_Running, Exception]]) -> list[BackgroundJob]:
        """End these calls with these errors; gives the jobs whose end is worth waiting for."""
        sides: list[BackgroundJob] = []
        for each, error in calls:
            if not self._close(each, replace(each.job, error=error)) or each.side is None:
                continue
            each.context.cancellation.cancel()
            each.side.cancel()
            if self._concurrent or each.tool.function is None:
                sides.append(each.side)
        return sides


async def _joined(sides: Sequence[BackgroundJob], concurrent: bool) -> None:
    if concurrent and sides:
        from ..async_support.background_jobs import join_all

        await join_all(sides, _GRACE)
    elif sides:
        for side in sides:
            side.wait(_GRACE)
