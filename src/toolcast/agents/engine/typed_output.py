"""The typed result of a turn: a tool that ends it.

The output type is offered as one more tool (one per member, for a union of models). Its arguments grow as the
object of a structured call does, and are read as strictly; what is wrong goes back to the model as the result of
its call. A function is a tool like any other, permitted and run like them; what it returns is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...errors import CallError, NoToolCallError, ToolcastError, TryAgain, ValidationError
from ...events import AgentEvent, ChatResponse, Event, OutputDelta
from ...messages import TAKEN, Message, ToolCallPart
from ...structured.partial_objects import StreamingObjectProcessor
from ...structured.response_validation import ResponseValidator, ValidatedCall, retry_text
from ...tool_spec import NamedTool, ToolChoice
from ...tools.callable_tool import CallableTool, ParsedArguments, ToolOutput, output_tools
from ...tools.execution import ToolJob, read_call

_TOO_LATE = "Not used: the answer was already given."
_AGAIN = "Answer again by calling the tool for the answer."


class TypedOutput:
    """What a turn was asked for, and how often it may be asked again. Once it is `found`, it is the `output`."""

    def __init__(self, output_cls: Any, max_attempts: int) -> None:
        self.tools: tuple[CallableTool, ...] = output_tools(output_cls)
        self.names: frozenset[str] = frozenset(tool.name for tool in self.tools)
        self.found: bool = False
        self.output: Any = None
        self._failure: Exception | None = None
        self._response = ChatResponse(Message("assistant"))  # the last that was read
        self._functions = {tool.name: tool for tool in self.tools if tool.output_type is None}
        self._reader = ResponseValidator({tool.name: tool for tool in self.tools if tool.output_type is not None})
        self._running: ToolJob | None = None  # of the function whose result is wanted
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

    def read_text(self, response: ChatResponse) -> str | None:
        """Take the result from an answer without a call. None, or what the model is to be told; see `check`."""
        fault = self._tried(lambda: self._reader.validate(response)[0], response)
        self.check()
        return None if fault is None else f"{fault}\n{_AGAIN}"

    def hides(self, response: ChatResponse) -> bool:
        """Return whether the answer is not valid and its type asks for it to be shown to no one."""
        if not self._reader.hides_input:
            return False
        try:
            self._reader.validate(response)
        except (CallError, TryAgain):
            return True
        return False

    def check(self) -> None:
        """Raises what was wrong with the last answer, if the model was told often enough."""
        if self._failure is not None:
            raise self._failure

    def jobs(self, calls: Sequence[ToolCallPart], others: Iterable[ToolJob], response: ChatResponse) -> list[ToolJob]:
        """A job for each of `calls`: `others`, and those of the typed result, of which only functions are run."""
        rest = iter(others)
        return [self._job(call, response) if call.name in self.names else next(rest) for call in calls]

    def take_returned(self) -> None:
        """Take the result from the function that was run, if one was. What it failed with, the model has read."""
        job, self._running = self._running, None
        if job is None:
            return
        if job.error is None:
            self.found, self.output = True, job.result
        else:
            self._told(job.error)
            self.check()

    def _job(self, call: ToolCallPart, response: ChatResponse) -> ToolJob:
        if self.found or self._running is not None:
            return _answered(call, _TOO_LATE)
        if call.name in self._functions:
            self._response = response
            self._running = read_call(call, self._functions)
            return self._running
        fault = self._tried(lambda: self._reader.validate_call(call, response), response)
        if fault is not None:
            return replace(_answered(call, fault), tool=self._reader.tools.get(call.name))
        made = ToolOutput(TAKEN, call.name, call.arguments, call_id=call.id)
        return ToolJob(call, self._reader.tools[call.name], ParsedArguments(self.output), done=True, tool_output=made)

    def _tried(self, read: Callable[[], ValidatedCall], response: ChatResponse) -> str | None:
        self._response = response
        try:
            self.output = read().value
        except (ValidationError, NoToolCallError, TryAgain) as error:
            self._told(error)
            return retry_text(error)
        self.found = True
        return None

    def _told(self, error: Exception) -> None:
        """The model is told of `error` once more; too often, and it is the caller's."""
        self._attempts -= 1
        if self._attempts < 1:
            self._failure = _final(error, self._response)


def _answered(call: ToolCallPart, words: str) -> ToolJob:
    made = ToolOutput(words, call.name, call.arguments, is_error=True, call_id=call.id)
    return ToolJob(call, error=ToolcastError(words), done=True, tool_output=made)


def _final(error: Exception, response: ChatResponse) -> Exception:
    if isinstance(error, CallError):
        error.response, error.advice = response, ""  # it was followed
    if not isinstance(error, TryAgain):
        return error
    made = ValidationError(f"the answer was not accepted: {error}", response=response)
    made.__cause__ = error
    return made
