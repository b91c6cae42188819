"""Runs the tool calls of one response, each exactly once, results in call order.

Written once for both faces: under the sync face (`parallel=False`) calls run one after the other and nothing
is awaited, so the caller needs no event loop; under the async face they run together. What goes wrong is
either raised, and then no tool has run unless the arguments of all calls were valid, or it becomes a result
that a model can read. A call that was cut off is never run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import CallError, OutputTruncated, TryAgain, UnknownToolError
from ..messages import ToolCallPart
from ..tools import CallableTool, Read, ToolOutput


async def run_tools(
    tools: Iterable[CallableTool],
    calls: Sequence[ToolCallPart],
    *,
    raise_errors: bool,
    parallel: bool,
    context: Any = None,
) -> list[ToolOutput]:
    """One output for each of `calls`, in their order.

    `parallel`: the caller has an event loop, and the calls run together; otherwise one after the other. With
    `raise_errors` the first call that fails raises: `UnknownToolError`, `ValidationError` (the good values of
    output types as its `.partial`), `OutputTruncated`, or the tool's own exception; without, a failed call
    gives a `ToolOutput` with `is_error`, `error` and a text for the model.
    """
    offered = {tool.name: tool for tool in tools}
    jobs = [_read(call, offered, context) for call in calls]
    if raise_errors:
        _raise_first(jobs)
    ready = [job for job in jobs if job.error is None]
    if parallel and len(ready) > 1:
        await _together(ready, raise_errors)
    else:
        for job in ready:
            await job.run(parallel, raise_errors)
    return [job.output() for job in jobs]


_NOTHING = Read(None)


@dataclass(slots=True)
class _Job:
    """One call: its tool and what was read for it, in the end what the tool gave or what went wrong."""

    call: ToolCallPart
    tool: CallableTool | None = None
    read: Read = _NOTHING
    result: Any = None
    error: Exception | None = None

    async def run(self, parallel: bool, raise_errors: bool) -> None:
        assert self.tool is not None
        try:
            value = self.read.value
            self.result = await self.tool.arun(value) if parallel else self.tool.run(value)
        except Exception as error:
            if raise_errors:
                raise
            self.error = error

    def output(self) -> ToolOutput:
        call = self.call
        if self.tool is not None and self.error is None:
            return replace(self.tool.output(call.arguments, self.read, self.result), call_id=call.id)
        return ToolOutput(
            _told(self.error), call.name, call.arguments, is_error=True, call_id=call.id, error=self.error
        )


def _read(call: ToolCallPart, offered: Mapping[str, CallableTool], context: Any) -> _Job:
    job = _Job(call, offered.get(call.name))
    if job.tool is None:
        names = ", ".join(offered) or "none"
        job.error = UnknownToolError(f"the model called a tool {call.name!r}; it was offered: {names}")
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


def _raise_first(jobs: Sequence[_Job]) -> None:
    """Raise the error of the first call that could not be read."""
    for failed in jobs:
        if failed.error is None:
            continue
        if isinstance(failed.error, CallError) and failed.error.partial is None:
            good = (job for job in jobs if job.error is None and job.tool and job.tool.output_type)
            failed.error.partial = [job.read.value for job in good] or None
        raise failed.error


async def _together(jobs: Sequence[_Job], raise_errors: bool) -> None:
    """Run them all at once. The first to raise cancels the others; its exception comes out as it is."""
    import anyio

    first: BaseException | None = None
    try:
        async with anyio.create_task_group() as group:
            for job in jobs:
                group.start_soon(job.run, True, raise_errors)
    except BaseExceptionGroup as several:
        grave = (error for error in several.exceptions if not isinstance(error, Exception))
        first = next(grave, several.exceptions[0])
    if first is not None:
        raise first  # out here, so that it keeps its own context


def _told(error: Exception | None) -> str:
    """`error` in words for the model."""
    if isinstance(error, CallError):
        return error.message
    return str(error) if isinstance(error, TryAgain) else f"{type(error).__name__}: {error}"
