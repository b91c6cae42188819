"""The typed result of a turn (`output_cls`): a tool whose call ends the turn.

The output type is offered as one more tool (one per member, for a union of models). Its arguments are streamed as
partial objects and validated as strictly as those of a structured call; validation errors go back to the model as the
result of its call. A function is a tool like any other, with permissions; its return value is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...errors import (
    Attempt,
    CallError,
    NoToolCallError,
    ToolcastError,
    TryAgain,
    ValidationError,
    add_advice,
)
from ...events import AgentEvent, ChatResponse, Event, OutputDelta
from ...messages import TAKEN, Message, ToolCallPart
from ...structured.partial_objects import StreamingObjectProcessor
from ...structured.response_validation import ResponseValidator, ValidatedCall, retry_text
from ...tools.callable_tool import CallableTool, ParsedArguments, ToolOutput, output_tools
from ...tools.execution import ToolJob, read_call, with_call
from ...tools.tool_context import ToolContext
from ...values.tool_spec import NamedTool, ToolChoice
from .engine_config import EngineConfig
from .output_validators import validate_output

_TOO_LATE = "Not used: the answer was already given."
_AGAIN = "Answer again: call the tool for the answer, or write its JSON where you were asked for that."


class TypedOutput:
    """The requested result of a turn, and the attempts that are left. Once `found`, it is the `output`."""

    def __init__(self, output_cls: Any, config: EngineConfig) -> None:
        tools = output_tools(output_cls)
        if config.output_validators:  # of the return value of a function: it is not called to try it
            tools = tuple([each if each.output_type is None else self._with_trial(each) for each in tools])
        self.tools: tuple[CallableTool, ...] = tools
        self._by_name = {tool.name: tool for tool in tools}
        self.names: frozenset[str] = frozenset(self._by_name)
        self.found: bool = False
        self.output: Any = None
        self._failure: Exception | None = None
        self._response = ChatResponse(Message("assistant"))  # the last one read
        self._functions = {tool.name: tool for tool in self.tools if tool.output_type is None}
        types = {tool.name: tool for tool in self.tools if tool.output_type is not None}
        self._reader = ResponseValidator(types, context=config.validation_context)
        self._running: ToolJob | None = None  # the function call whose return value is the result
        self._attempts = self._max_attempts = config.max_attempts
        self._searches = bool(config.server_tools)
        self.was_missing: bool = False
        """True if the last response was an answer without the result."""
        self._validators = config.output_validators
        self._context = ToolContext[Any]()
        self._concurrent = False
        self._requests: list[Attempt] = []
        self.begin_response()

    def begin_turn(self, context: ToolContext[Any], requests: list[Attempt], *, concurrent: bool) -> None:
        """Set the context for which the output validators are called, and the requests of the turn, which grow."""
        self._context, self._requests, self._concurrent = context, requests, concurrent

    async def try_output(self, tool: CallableTool, text: str) -> Any:
        """Return the output that the arguments `text` of `tool` make; raise what refuses them. It is no attempt."""
        read = tool.read(text, self._reader.context)
        return await self._with_validators(read.value, "", tool.name)

    def _with_trial(self, tool: CallableTool) -> CallableTool:
        return replace(tool, try_output=partial(self.try_output, tool))

    async def _with_validators(self, value: Any, call_id: str, tool: str) -> Any:
        context = replace(self._context, call_id=call_id, tool=tool)
        return await validate_output(self._validators, value, context, concurrent=self._concurrent)

    @property
    def choice(self) -> ToolChoice:
        """The tool choice that forces the result."""
        return "required" if len(self.tools) != 1 else NamedTool(self.tools[0].name)

    @property
    def hidden_tools(self) -> frozenset[str]:
        """The names of the tools whose arguments must not be shown."""
        return self._reader.hidden_tools

    @property
    def runs_function(self) -> bool:
        """True if the result is the return value of a function that was called and has not returned yet."""
        return self._running is not None

    @property
    def partial(self) -> Any:
        """As much of the result as the last response has; None if it has nothing."""
        return self._processor.item

    def begin_response(self) -> None:
        """Reset the partial object for a new response."""
        self._processor = StreamingObjectProcessor.for_tools(
            self._by_name, parallel=False, fail_fast=False, context=self._reader.context
        )

    def with_output_delta(self, event: Event) -> list[AgentEvent]:
        """Return `event`, followed by an `OutputDelta` if it changed the partial object."""
        value = self._processor.process(event)
        return [event] if value is None else [event, OutputDelta(value)]

    async def read_text(self, response: ChatResponse) -> str | None:
        """Parse the result from a response without a call; return the correction request if that fails."""
        problem = await self._try_read(lambda: self._reader.validate(response)[0], response)
        self.was_missing = problem is not None
        self.check()
        return None if problem is None else f"{problem}\n{_AGAIN}"

    def must_hide(self, response: ChatResponse) -> bool:
        """Return True if the answer is invalid and its type hides its input."""
        if not self._reader.hides_input:
            return False
        try:
            self._reader.validate(response)
        except (CallError, TryAgain):
            return True
        return False

    def check(self) -> None:
        """Raise the last validation error if no attempts are left."""
        if self._failure is not None:
            raise self._failure

    async def jobs(
        self, calls: Sequence[ToolCallPart], others: Iterable[ToolJob], response: ChatResponse
    ) -> list[ToolJob]:
        """Return a job for each of `calls`: `others`, and those of the typed result, where only functions are run."""
        rest = iter(others)
        return [await self._job(call, response) if call.name in self.names else next(rest) for call in calls]

    async def collect_function_result(self) -> str | None:
        """Take the result of the function that was run, if any; return the correction request if it is rejected.

        A failure of the function, or of a validator, counts as an attempt.
        """
        job, self._running = self._running, None
        if job is None:
            return None
        if job.error is not None:
            self._count_failure(job.error, job.call, edited=job.edited is not None)
            self.check()
            return None
        problem = await self._accept(job.result, job.call)
        self.check()
        return None if problem is None else f"{problem}\n{_AGAIN}"

    async def _job(self, call: ToolCallPart, response: ChatResponse) -> ToolJob:
        if self.found or self._running is not None:
            return _answered_job(call, _TOO_LATE)
        if call.name in self._functions:
            self._response = response
            self._running = read_call(call, self._functions, self._reader.context)
            return self._running
        problem = await self._try_read(lambda: self._reader.validate_call(call, response), response, call)
        if problem is not None:
            return replace(_answered_job(call, problem), tool=self._reader.tools.get(call.name))
        made = ToolOutput(TAKEN, call.name, call.arguments, call_id=call.id)
        return ToolJob(call, self._reader.tools[call.name], ParsedArguments(self.output), done=True, tool_output=made)

    async def _try_read(
        self, read: Callable[[], ValidatedCall], response: ChatResponse, call: ToolCallPart | None = None
    ) -> str | None:
        self._response = response
        try:
            found = read()
        except (ValidationError, NoToolCallError, TryAgain) as error:
            self._count_failure(error, call)
            return retry_text(error)
        except CallError as error:
            error.response = response
            raise
        return await self._accept(found.value, found.call)

    async def _accept(self, value: Any, call: ToolCallPart) -> str | None:
        """Take `value` as the output, unless a validator rejects it; return the reason then."""
        try:
            self.output = await self._with_validators(value, call.id, call.name) if self._validators else value
        except TryAgain as error:
            self._count_failure(error, call)
            return retry_text(error)
        self.found = True
        return None

    def _count_failure(self, error: Exception, call: ToolCallPart | None = None, *, edited: bool = False) -> None:
        """Count a failed attempt of `call`; store the error to raise if it was the last.

        `edited`: a user wrote the arguments.
        """
        if self._requests:  # a turn that was resumed may have none
            self._requests[-1] = replace(self._requests[-1], error=error)
        if self._searches and isinstance(error, NoToolCallError):
            # The model was free to search first: its answer to that takes no attempt.
            self._searches = False
            return
        self._attempts -= 1
        if self._attempts < 1:
            self._failure = self._final_error(error, call, edited)

    def _final_error(self, error: Exception, call: ToolCallPart | None, edited: bool) -> Exception:
        if isinstance(error, TryAgain):
            made: Exception = ValidationError(f"the answer was not accepted: {error}")
            made.__cause__, error = error, made
        if not isinstance(error, CallError):
            return error
        error.partial = self.partial if error.partial is None else error.partial
        if error.attempts:  # of a call that the function made
            return error
        error.response = self._response
        if call is not None:
            with_call(error, call, None)
        if isinstance(error, (ValidationError, NoToolCallError)) and not edited:
            add_advice(error, self._max_attempts)
        return error


def _answered_job(call: ToolCallPart, text: str) -> ToolJob:
    made = ToolOutput(text, call.name, call.arguments, is_error=True, call_id=call.id)
    return ToolJob(call, error=ToolcastError(text), done=True, tool_output=made)
