"""Validation of a complete response: its tool calls, their arguments, and the error or the retry messages.

Streamed and other calls end here alike, so both return the same objects and raise the same errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, TypeAlias, cast

import pydantic
from pydantic_core import from_json

from ..errors import (
    CallError,
    ContentBlocked,
    EmptyResponse,
    MalformedEvent,
    NoToolCallError,
    OutputTruncated,
    Refused,
    StreamTruncated,
    TryAgain,
    UnknownToolError,
    ValidationError,
)
from ..events import ChatResponse, TextDelta, ToolCallDelta, ToolCallStart
from ..lazy.lazy_dataclasses import dataclass
from ..messages import (
    CachePoint,
    Message,
    Part,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    assistant,
    tool_result,
    user,
)
from ..parsing.missing import MISSING
from ..parsing.tool_arguments import ambiguous, is_invalid_json, is_prose
from ..providers.content_parts import valid_arguments
from ..tools.callable_tool import CallableTool, ParsedArguments
from ..tools.execution import with_call
from ..values.answer_details import describe_ratings
from ..values.server_tools import unapproved, waits_for_approval

RETRYABLE = (ValidationError, NoToolCallError, UnknownToolError)

_STOPS: dict[str, type[CallError]] = {"refusal": Refused, "content_filter": ContentBlocked}
_SHOWN_CHARACTERS = 400
_HIDDEN = "(hidden, as hide_input_in_errors or a secret type in the output asks for)"
_NAME_KEYS = ("name", "tool", "tool_name")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input")
_CALL_KEYS = {*_NAME_KEYS, *_ARGUMENT_KEYS, "type", "id", "call_id", "function", "tool_calls"}
_NO_PARSER = (
    "The server left a call in the text: start it with the parser of this model's tool calls (vLLM: "
    '--enable-auto-tool-choice --tool-call-parser NAME), or use mode="json_schema" or mode="prompted"'
)
_INSTRUCTION = "call the tool, or write its JSON where you were asked for that"


CompleteValue: TypeAlias = Callable[[ToolCallPart], Any]
"""A function that returns the validated value of a call, if there is one already; else `MISSING`."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ValidatedCall:
    """One tool call with valid arguments: the tool, the validated value, and the repairs it needed."""

    tool: CallableTool
    value: Any
    call: ToolCallPart
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResponseValidator:
    """The validator of responses that call these tools.

    Args:
        tools: The offered tools by name.
        parallel: Validate every tool call; otherwise only the first.
        context: Passed to Pydantic's validators.

    Attributes:
        hidden_tools: All tools if one of them hides its input, since the model may have written it for any.
    """

    tools: Mapping[str, CallableTool]
    parallel: bool = False
    context: Any = None
    hidden_tools: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        hides = any(tool.hides_input for tool in self.tools.values())
        object.__setattr__(self, "hidden_tools", frozenset(self.tools if hides else ()))

    def validate(
        self, response: ChatResponse, complete: CompleteValue | None = None, in_text: Callable[[], bool] = _never
    ) -> list[ValidatedCall]:
        """Return the valid calls of `response`; raise the first error if not all of them are valid.

        `in_text` returns whether the calls were values in a text. Then only one may fit, where one is expected.
        """
        calls = response.message.tool_calls
        try:
            if (stop := _STOPS.get(response.stop_reason)) is not None:
                raise _stopped(stop, response, self.hides_input)  # also valid calls: the service withdrew the answer
            if not calls:
                return self._validate_written_calls(response) or [self._validate_text(response)]
            if calls[1:] and not self.parallel and in_text():
                calls = self._fitting(calls)
            valid: list[ValidatedCall] = []
            failed: list[CallError] = []
            for call in calls if self.parallel else calls[:1]:
                try:
                    valid.append(self.validate_call(call, response, complete))
                except CallError as error:
                    failed.append(with_call(error, call, None))
            if failed:
                failed[0].others = tuple(failed[1:])
                for other in failed[1:]:
                    failed[0].add_note(f"the call {other.call_id!r} failed too: {other.message}")
                raise failed[0]
            return valid
        except CallError as error:
            error.partial = self._partial(response.message)
            _with_response(error, response)
            raise

    def _fitting(self, calls: tuple[ToolCallPart, ...]) -> tuple[ToolCallPart, ...]:
        """Return the one call that fits; all if none does. Raise `ValidationError` if several do."""
        fitting = tuple(call for call in calls if self.build_value(call) is not None)
        if len(fitting) > 1:
            tool, text = self.tools[fitting[0].name], "\n".join(call.arguments for call in fitting)
            raise tool.validation_error(ambiguous(tool, text, len(fitting)), text)
        return fitting or calls

    def _partial(self, message: Message) -> Any:
        """Return as much of the result as a message has."""
        from .partial_objects import StreamingObjectProcessor  # few programs meet an invalid response

        if self.parallel:
            return self.valid_values(message.tool_calls)
        reader = StreamingObjectProcessor.for_tools(self.tools, parallel=False, fail_fast=False, context=self.context)
        for call in message.tool_calls[:1]:
            reader.apply(ToolCallStart(call.id, call.name))
            reader.apply(ToolCallDelta(call.id, call.arguments))
        if not message.tool_calls:
            reader.apply(TextDelta(message.text))
        return reader.item

    def valid_values(self, calls: Sequence[ToolCallPart]) -> list[Any]:
        """Return the objects of those calls that are complete and valid."""
        values = [self.build_value(call) for call in calls if not call.truncated]
        return [value for value in values if value is not None]

    @property
    def hides_input(self) -> bool:
        """True if the model's text must stay out of errors and of retry messages."""
        return bool(self.hidden_tools)

    def build_value(self, call: ToolCallPart) -> Any:
        """Return the object of a complete call; None if its arguments are invalid or its tool is a function."""
        tool = self.tools.get(call.name)
        if tool is None or tool.output_type is None:
            return None
        try:
            return self._parse_arguments(tool, call, None).value
        except (CallError, TryAgain):
            return None

    def validate_call(
        self, call: ToolCallPart, response: ChatResponse, complete: CompleteValue | None = None
    ) -> ValidatedCall:
        """Return one validated call; raise the error of an invalid one."""
        if call.opaque is not None and waits_for_approval(call):
            raise unapproved(call)
        tool = self.tools.get(call.name)
        if tool is None:
            offered = ", ".join(self.tools) or "none"
            raise UnknownToolError(f"the model called a tool {call.name!r}; it was offered: {offered}")
        if _has_call(call.arguments, 0, _LONGEST_START) and (within := self._call_within(call)) is not None:
            return replace(within, repairs=("read the call from its arguments", *within.repairs))
        if complete is not None and not call.truncated and (value := complete(call)) is not MISSING:
            return ValidatedCall(tool, value, call)
        try:
            read = self._parse_arguments(tool, call, response)
        except ValidationError as error:
            if call.truncated or response.stop_reason == "max_tokens":
                raise _cut_off(call, response) from error.__cause__
            raise
        return ValidatedCall(tool, read.value, call, read.repairs)

    def _parse_arguments(
        self, tool: CallableTool, call: ToolCallPart, response: ChatResponse | None
    ) -> ParsedArguments:
        read = tool.read(call.arguments, self.context)
        if call.truncated and read.repairs:  # the repair may have completed what was cut off
            raise _cut_off(call, response)
        return read

    def _validate_written_calls(self, response: ChatResponse) -> list[ValidatedCall]:
        """Return the calls that the model wrote as text, if their names are those of tools."""
        calls = [call for call in _written_calls(response.text) if self._is_written(call)]
        read = [self.validate_call(call, response) for call in (calls if self.parallel else calls[:2])]
        if len(read) > 1 and not self.parallel:
            raise _no_tool_call(response, None, self.hides_input)  # which one was meant is not known
        note = "read the call from the text of the answer"
        return [replace(each, repairs=(note, *each.repairs)) for each in read]

    def _call_within(self, call: ToolCallPart) -> ValidatedCall | None:
        """Return the valid call of the same tool that a model wrote in place of its arguments, if it did."""
        for written in _written_calls(call.arguments):
            if written.name == call.name and self._is_written(written):
                with suppress(ValidationError):
                    read = self._parse_arguments(
                        self.tools[call.name], replace(call, arguments=written.arguments), None
                    )
                    return ValidatedCall(self.tools[call.name], read.value, call, read.repairs)
        return None

    def _is_written(self, call: ToolCallPart) -> bool:
        tool = self.tools.get(call.name)
        return tool is not None and not {*_ARGUMENT_KEYS} & set(tool.parameters.get("properties", ()))

    def _validate_text(self, response: ChatResponse) -> ValidatedCall:
        """Return the one object that the text of a response without a tool call contains, alone or in prose."""
        text = response.text.strip()
        read: list[ValidatedCall] = []
        errors: list[ValidationError] = []
        for tool in self.tools.values():
            found = self._try_text(tool, text)
            if isinstance(found, ValidatedCall):
                read.append(found)
            elif found is not None:
                errors.append(found)
        if len(read) == 1:
            return read[0]
        # With several tools the intended one is unknown; only invalid JSON is an error for all of them.
        named = errors if len(self.tools) == 1 else [error for error in errors if is_invalid_json(_cause(error))]
        error = named[0] if named else None
        raise _no_tool_call(response, error, self.hides_input) from error

    def _try_text(self, tool: CallableTool, text: str) -> ValidatedCall | ValidationError | None:
        """Return the call that `text` contains for this tool, the error of invalid JSON, or None without JSON."""
        if not {"{", "["} & set(text) and not tool.wrapped:
            return None
        found: ValidationError | None = None
        for candidate in (text, f'{{"value": {text}}}') if tool.wrapped else (text,):
            try:
                read = tool.read(candidate, self.context)
            except ValidationError as error:
                if not is_prose(_cause(error)):
                    found = found or error
                continue
            note = f"read {tool.name} from the text of the answer; no tool was called"
            return ValidatedCall(tool, read.value, ToolCallPart("text", tool.name, candidate), (note, *read.repairs))
        return found


_has_call = re.compile(rf"""["'](?:{"|".join(_ARGUMENT_KEYS)})["']""").search
_LONGEST_START = 200

_MARKUP = re.compile(r"<tool_call|\[TOOL_CALLS\]|<function[=_]|<\|python_tag\|>|<\|tool_call|<｜tool▁call")


def _written_calls(text: str) -> Iterator[ToolCallPart]:
    """Yield the calls in the text of a server without a parser of them: `<tool_call>{"name": ...}</tool_call>`."""
    if not _has_call(text):
        return
    from ..parsing.lenient_json import parse_lenient  # it compiles 14 patterns

    for found in parse_lenient(text):
        data = given = from_json(found.text)  # `given` stays Any, as isinstance narrows `data` to unknown types
        if isinstance(data, dict) and list(given) == ["tool_calls"]:
            data = given = given["tool_calls"]
        for value in given if isinstance(data, list) else [given]:
            outer = cast("dict[str, Any]", value if isinstance(value, dict) else {})
            inner = outer.get("function", outer)
            call = cast("dict[str, Any]", inner if isinstance(inner, dict) else {})
            name = next((call[key] for key in _NAME_KEYS if key in call), None)
            arguments = [call[key] for key in _ARGUMENT_KEYS if key in call]
            if isinstance(name, str) and len(arguments) == 1 and set(outer) | set(call) <= _CALL_KEYS:
                written = arguments[0] if isinstance(arguments[0], str) else json.dumps(arguments[0])
                yield ToolCallPart("text", name, written)


def _cause(error: ValidationError) -> pydantic.ValidationError:
    return cast("pydantic.ValidationError", error.__cause__)


def retry_messages(
    history: Sequence[Message], response: ChatResponse, error: CallError | TryAgain, *, hide_input: bool = False
) -> list[Message]:
    """Return the messages of the next attempt, with the error as the result of each tool call.

    With `hide_input` they contain nothing of the response except the names of its calls.
    """
    message = response.message
    text = retry_text(error)
    if not message.tool_calls:
        hidden = assistant(*message.server_tools, "(no answer)")
        shown = assistant(*message.parts) if message.parts and not hide_input else hidden
        return [*history, shown, user(f"{text}\nAnswer again: {_INSTRUCTION}.")]
    parts = tuple(_without_arguments(message) if hide_input else map(_with_valid_arguments, message.parts))
    texts = {getattr(error, "call_id", None) or message.tool_calls[0].id: text}
    texts |= {other.call_id: retry_text(other) for other in getattr(error, "others", ())}
    for call in message.tool_calls:
        if not hide_input and call.id in texts and valid_arguments(call) != call.arguments:
            texts[call.id] += you_wrote(call)
    results = [
        tool_result(call, texts.get(call.id, "Not used, call again."), is_error=True) for call in message.tool_calls
    ]
    return [*history, Message("assistant", parts), *results]


def you_wrote(call: ToolCallPart) -> str:
    """Return what to add to the result of a call whose arguments the history cannot have."""
    return f"\nYou wrote: {_shortened(call.arguments)}"


def retry_text(error: CallError | TryAgain) -> str:
    """Return the description of the error for the model."""
    if isinstance(error, ValidationError):
        problems = [
            f"- {'.'.join(str(step) for step in problem['loc']) or 'arguments'}: {problem['msg']}"
            for problem in error.errors()
        ]
        return "\n".join(["The arguments were not valid:", *problems]) if problems else error.message
    if isinstance(error, NoToolCallError):  # the advice in its message is for the developer
        cause = error.__cause__
        return retry_text(cause) if isinstance(cause, ValidationError) else "The answer held no object."
    return error.message if isinstance(error, CallError) else str(error)


def _without_arguments(message: Message) -> Iterator[Part]:
    """Yield the calls without their arguments, and the thinking that a service requires back with the calls."""
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            yield replace(part, arguments="{}")
        elif (isinstance(part, ThinkingPart) and (part.signature or part.redacted or part.opaque)) or isinstance(
            part, ServerToolPart
        ):
            yield part


def _with_valid_arguments(part: Part) -> Part:
    """Return a call with arguments that every service takes; any other part as it is."""
    if not isinstance(part, ToolCallPart):
        return part
    return ToolCallPart(part.id, part.name, valid_arguments(part), opaque=part.opaque)


def _cut_off(call: ToolCallPart, response: ChatResponse | None) -> CallError:
    """Return the error for truncated arguments: truncated by a limit, or by the end of the response."""
    if response is None or response.stop_reason != "max_tokens":
        reason = response.stop_reason if response else "other"
        return StreamTruncated(
            f"the answer ended inside the arguments of {call.name}, after {len(call.arguments)} characters "
            f"(stop reason {reason!r}). Send the request again."
        )
    limit, remedy = _limit(response)
    return OutputTruncated(
        f"{limit} cut off the arguments of {call.name} after {len(call.arguments)} characters; {remedy}"
    )


def _limit(response: ChatResponse) -> tuple[str, str]:
    """Return the name of the limit that ended a response, and what to do about it."""
    if response.raw_stop_reason in ("model_context_window_exceeded", "model_length"):
        return "the end of the model's context window", "send shorter messages, or use a model with a larger window"
    remedy = "allow more with settings=Settings(max_tokens=...)"
    if response.provider in ("llama.cpp", "ollama"):
        remedy += ", or use a larger model: a small one may repeat itself up to any limit"
    return "max_tokens", remedy


def _stopped(stop: type[CallError], response: ChatResponse, hide_input: bool) -> CallError:
    written = response.text or next((call.arguments for call in response.message.tool_calls), "")
    message = _HIDDEN if hide_input else _shortened(written)
    why = describe_ratings(response.safety)
    reason = f"{response.stop_reason}: {why}" if why else response.stop_reason
    error = stop(f"the answer was stopped ({reason}); its text was: {message}")
    if isinstance(error, ContentBlocked):
        error.safety = response.safety
    for call in response.message.tool_calls[:1]:
        with_call(error, call, None)
    return error


def _no_tool_call(response: ChatResponse, error: ValidationError | None, hide_input: bool) -> CallError:
    text = response.text
    shown = _HIDDEN if hide_input else _shortened(text)
    if response.stop_reason == "max_tokens":
        limit, remedy = _limit(response)
        return OutputTruncated(f"{limit} ended the answer before it held the object; {remedy}. The text was: {shown}")
    why = "" if error is None else f". Read as JSON, {error.message}"
    wrote = f"The model wrote: {shown}" if text.strip() else f"The answer was empty: {_without_content(response)}"
    failure = NoToolCallError(f"Expected at least one tool call, but got 0 tool calls. {wrote}{why}")
    if _MARKUP.search(text):
        failure.advice = _NO_PARSER
    return failure


def is_empty(message: Message) -> bool:
    """Return whether a message has neither text nor thinking nor tool calls."""
    return not any(map(_has_content, message.parts))


def _has_content(part: Part) -> bool:
    match part:
        case TextPart():
            return bool(part.text.strip())
        case ThinkingPart():
            return bool(part.text.strip() or part.redacted)
        case ServerToolPart() | CachePoint():
            return False  # what the provider has found is no answer
        case _:
            return True


def empty_response(response: ChatResponse) -> EmptyResponse:
    """Return the error for an empty response."""
    error = EmptyResponse(f"the answer was empty: {_without_content(response)}")
    _with_response(error, response)
    return error


def _without_content(response: ChatResponse) -> str:
    nothing = is_empty(response.message)
    missing = "no text, no thinking and no tool call" if nothing else "thinking, but no text and no tool call"
    return f"{missing} (stop reason {response.stop_reason!r})"


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")


def _with_response(error: CallError, response: ChatResponse) -> CallError:
    """Return `error` with the response, provider, model and request id."""
    error.provider = error.provider or response.provider
    error.model = error.model or response.model
    error.request_id = error.request_id or response.request_id
    error.response = response
    return error


def damaged_text(response: ChatResponse, lost: str) -> MalformedEvent:
    """Return the error for a text response from which the damaged event `lost` is missing."""
    return MalformedEvent(
        f"an event inside the answer was damaged and lost, so the object cannot be trusted: {lost}. Ask again.",
        provider=response.provider,
        model=response.model,
        request_id=response.request_id,
        response=response,
    )
