"""The typed result of a turn: a tool that ends it.

The output type is offered as one more tool (one per member, for a union of models). Its arguments grow as the
object of a structured call does, and are read as strictly; what is wrong goes back to the model as the result of
its call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..answers import ReadCall, Reader, explained
from ..calls import run_reads
from ..errors import CallError, NoToolCallError, ToolcastError, TryAgain, ValidationError
from ..events import AgentEvent, ChatResponse, Event, OutputDelta
from ..messages import TAKEN, Message, ToolCallPart
from ..objects import StreamingObjectProcessor
from ..providers.wire import NamedTool, ToolChoice
from ..runtime.network import Outside
from ..runtime.tool_runner import Job
from ..tools import CallableTool, Read, ToolOutput, output_tools

_TOO_LATE = "Not used: the answer was already given."
_AGAIN = "Answer again by calling the tool for the answer."


class TypedOutput:
    """What a turn was asked for, and how often it may be asked again."""

    def __init__(self, output_cls: Any, max_attempts: int) -> None:
        self.tools: tuple[CallableTool, ...] = output_tools(output_cls)
        self.names: frozenset[str] = frozenset(tool.name for tool in self.tools)
        self.found: ReadCall | None = None
        self.output: Any = None
        self._failure: CallError | None = None
        self._response = ChatResponse(Message("assistant"))  # the last that was read
        self._reader = Reader({tool.name: tool for tool in self.tools})
        self._attempts = max_attempts
        self.listen()

    @property
    def choice(self) -> ToolChoice:
        """The tool choice that asks for the result and nothing else."""
        return "required" if len(self.tools) != 1 else NamedTool(self.tools[0].name)

    def listen(self) -> None:
        """Begin with a new answer."""
        self._growing = StreamingObjectProcessor.for_tools(self.tools, parallel=False, fail_fast=False)

    def shown(self, event: Event) -> list[AgentEvent]:
        """`event`, and behind it the new snapshot if it changed something that shows."""
        value = self._growing.process(event)
        return [event] if value is None else [event, OutputDelta(value)]

    def read(self, call: ToolCallPart, response: ChatResponse) -> str | None:
        """Take the result from `call`. None, or what the model is to be told."""
        return self._tried(lambda: self._reader.read_call(call, response), response)

    def read_text(self, response: ChatResponse) -> str | None:
        """Take the result from an answer without a call. None, or what the model is to be told; see `check`."""
        return self._again(self._tried(lambda: self._reader.read(response)[0], response))

    async def make(self, outside: Outside) -> str | None:
        """Make the `output` of what was found, if it was. None, or what the model is to be told; see `check`."""
        if self.found is None:
            return None
        try:
            (self.output,) = await run_reads([self.found], outside)
        except TryAgain as error:
            self.found = None
            return self._again(self._told(error))
        return None

    def check(self) -> None:
        """Raises what was wrong with the last answer, if the model was told often enough."""
        if self._failure is not None:
            raise self._failure

    def jobs(self, calls: Sequence[ToolCallPart], others: Iterable[Job], response: ChatResponse) -> list[Job]:
        """A job for each of `calls`: `others`, and those of the typed result, which is answered and not run."""
        rest = iter(others)
        return [self._job(call, response) if call.name in self.names else next(rest) for call in calls]

    def _job(self, call: ToolCallPart, response: ChatResponse) -> Job:
        fault = _TOO_LATE if self.found is not None else self.read(call, response)
        said = TAKEN if fault is None else fault
        made = ToolOutput(said, call.name, call.arguments, is_error=fault is not None, call_id=call.id)
        if fault is not None or self.found is None:
            return Job(call, error=ToolcastError(said), done=True, made=made)
        return Job(call, self.found.tool, Read(self.found.value), done=True, made=made)

    def _tried(self, read: Callable[[], ReadCall], response: ChatResponse) -> str | None:
        self._response = response
        try:
            self.found = read()
        except (ValidationError, NoToolCallError, TryAgain) as error:
            return self._told(error)
        return None

    def _told(self, error: ValidationError | NoToolCallError | TryAgain) -> str:
        self._attempts -= 1
        if self._attempts < 1:
            self._failure = _final(error, self._response)
        return explained(error)

    def _again(self, words: str | None) -> str | None:
        self.check()
        return None if words is None else f"{words}\n{_AGAIN}"


def _final(error: CallError | TryAgain, response: ChatResponse) -> CallError:
    if isinstance(error, CallError):
        error.response = response
        return error
    made = ValidationError(f"the answer was not accepted: {error}", response=response)
    made.__cause__ = error
    return made
