"""A whole answer, read: which tools were called, with which values, and what to say when it is not right.

Streamed and whole calls end here alike, so both give the same object and the same errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pydantic

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
from ..events import ChatResponse, StopReason
from ..messages import Message, Part, TextPart, ThinkingPart, ToolCallPart, assistant, tool_result, user
from ..parsing.arguments import is_invalid_json, is_prose
from ..tools.callable_tool import CallableTool, ParsedArguments
from ..tools.execution import with_call

REASKABLE = (ValidationError, NoToolCallError, UnknownToolError)

_STOPS: dict[str, type[CallError]] = {"refusal": Refused, "content_filter": ContentBlocked}
_SHOWN = 400
_HIDDEN = "(hidden, as hide_input_in_errors or a secret type in the output asks for)"
_FORM = "call the tool, or write its JSON where you were asked for that"


@dataclass(frozen=True, slots=True)
class ValidatedCall:
    """One tool call whose arguments are valid: the tool, the value they became, and what was repaired."""

    tool: CallableTool
    value: Any
    call: ToolCallPart
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResponseValidator:
    """Reads answers for these tools. Not `parallel`: the first call is the answer."""

    tools: Mapping[str, CallableTool]
    parallel: bool = False
    context: Any = None

    def read(self, response: ChatResponse) -> list[ValidatedCall]:
        """The valid calls of `response`; raises the error that says why there are none, or not all."""
        calls = response.message.tool_calls
        if (stop := _STOPS.get(response.stop_reason)) is not None:
            raise _located(
                _stopped(stop, response, self.hides_input), response
            )  # whatever it holds: the service took it back
        if not calls:
            return [self._read_text(response)]
        return self._read_calls(calls if self.parallel else calls[:1], response)

    @property
    def hides_input(self) -> bool:
        """Return whether the text of the model stays out of errors and of the messages that ask again."""
        return any(tool.hides_input for tool in self.tools.values())

    def value_of(self, call: ToolCallPart) -> Any:
        """The object that a complete call makes; None where its arguments are not valid, or it is a function's."""
        tool = self.tools.get(call.name)
        if tool is None or tool.output_type is None:
            return None
        try:
            return self._read_arguments(tool, call, "other").value
        except (CallError, TryAgain):
            return None

    def _read_calls(self, calls: Sequence[ToolCallPart], response: ChatResponse) -> list[ValidatedCall]:
        good: list[ValidatedCall] = []
        failed: tuple[CallError, ToolCallPart] | None = None
        for call in calls:
            try:
                good.append(self.read_call(call, response))
            except CallError as error:
                failed = failed or (error, call)
        if failed is not None:
            failure = with_call(*failed, None)
            if self.parallel:
                failure.partial = [read.value for read in good]
            raise _located(failure, response)
        return good

    def read_call(self, call: ToolCallPart, response: ChatResponse) -> ValidatedCall:
        """One valid call; raises the error that says why it is not."""
        tool = self.tools.get(call.name)
        if tool is None:
            offered = ", ".join(self.tools) or "none"
            raise UnknownToolError(f"the model called a tool {call.name!r}; it was offered: {offered}")
        try:
            read = self._read_arguments(tool, call, response.stop_reason)
        except ValidationError as error:
            if call.truncated or response.stop_reason == "max_tokens":
                raise _cut_off(call, response.stop_reason) from error.__cause__
            raise
        return ValidatedCall(tool, read.value, call, read.repairs)

    def _read_arguments(self, tool: CallableTool, call: ToolCallPart, stop_reason: StopReason) -> ParsedArguments:
        read = tool.read(call.arguments, self.context)
        if call.truncated and read.repairs:  # what had to be repaired may be what was cut off
            raise _cut_off(call, stop_reason)
        return read

    def _read_text(self, response: ChatResponse) -> ValidatedCall:
        """The one object that the text of an answer without a tool call holds, alone or among words."""
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
        # Which of several tools was meant is not known; only what is no JSON fits none of them.
        named = errors if len(self.tools) == 1 else [error for error in errors if is_invalid_json(_cause(error))]
        error = named[0] if named else None
        raise _located(_no_call(response, error, self.hides_input), response) from error

    def _try_text(self, tool: CallableTool, text: str) -> ValidatedCall | ValidationError | None:
        """Return what `text` holds for this tool, why its JSON does not fit, or None where it holds no JSON."""
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


def _cause(error: ValidationError) -> pydantic.ValidationError:
    return cast("pydantic.ValidationError", error.__cause__)


def retry_messages(
    history: Sequence[Message], response: ChatResponse, error: CallError | TryAgain, *, hide_input: bool = False
) -> list[Message]:
    """Return the messages that ask again, with what was wrong as the result of each call.

    With `hide_input` they contain nothing of the answer but the names of its calls.
    """
    said = response.message
    words = explained(error)
    if not said.tool_calls:
        shown = assistant(*said.parts) if said.parts and not hide_input else assistant("(no answer)")
        return [*history, shown, user(f"{words}\nAnswer again: {_FORM}.")]
    readable = tuple(_bare(said) if hide_input else map(_readable_part, said.parts))
    results = [
        tool_result(call, words if index == 0 else "Not used, call again.", is_error=True)
        for index, call in enumerate(said.tool_calls)
    ]
    return [*history, Message("assistant", readable), *results]


def explained(error: CallError | TryAgain) -> str:
    """What was wrong, in words for the model."""
    if isinstance(error, ValidationError):
        faults = [
            f"- {'.'.join(str(step) for step in fault['loc']) or 'arguments'}: {fault['msg']}"
            for fault in error.errors()
        ]
        return "\n".join(["The arguments were not valid:", *faults]) if faults else error.message
    if isinstance(error, NoToolCallError):  # the advice in its message is for people
        cause = error.__cause__
        return explained(cause) if isinstance(cause, ValidationError) else "The answer held no object."
    return error.message if isinstance(error, CallError) else str(error)


def _bare(said: Message) -> Iterator[Part]:
    """The calls without their arguments, and thoughts, which a service may want back with the calls."""
    for part in said.parts:
        if isinstance(part, ToolCallPart):
            yield replace(part, arguments="{}")
        elif isinstance(part, ThinkingPart) and (part.signature or part.redacted or part.opaque):
            yield part


def _readable_part(part: Part) -> Part:
    return _readable(part) if isinstance(part, ToolCallPart) else part


def _readable(call: ToolCallPart) -> ToolCallPart:
    """`call` as every service takes it back: its arguments a JSON object, empty where they were none."""
    try:
        whole = isinstance(json.loads(call.arguments), dict)
    except ValueError:
        whole = False
    return ToolCallPart(call.id, call.name, call.arguments if whole else "{}", opaque=call.opaque)


def _cut_off(call: ToolCallPart, stop_reason: StopReason) -> CallError:
    """Return the error for arguments that end too early: by a limit, or because the answer broke off."""
    if stop_reason != "max_tokens":
        return StreamTruncated(
            f"the answer ended inside the arguments of {call.name}, after {len(call.arguments)} characters "
            f"(stop reason {stop_reason!r}). Send the request again.",
            partial=call.arguments,
        )
    return OutputTruncated(
        f"max_tokens cut off the arguments of {call.name} after {len(call.arguments)} characters; "
        "allow more with settings=Settings(max_tokens=...)",
        partial=call.arguments,
    )


def _stopped(stop: type[CallError], response: ChatResponse, hide_input: bool) -> CallError:
    calls = response.message.tool_calls
    partial = calls[0].arguments if calls else None
    said = _HIDDEN if hide_input else _shortened(response.text or partial or "")
    return stop(f"the answer was stopped ({response.stop_reason}); it said: {said}", partial=partial)


def _no_call(response: ChatResponse, error: ValidationError | None, hide_input: bool) -> CallError:
    text = response.text
    shown = _HIDDEN if hide_input else _shortened(text)
    if response.stop_reason == "max_tokens":
        return OutputTruncated(
            "max_tokens ended the answer before it held the object; allow more with "
            f"settings=Settings(max_tokens=...). The text was: {shown}",
            partial=text,
        )
    why = "" if error is None else f". Read as JSON, {error.message}"
    wrote = f"The model wrote: {shown}" if text.strip() else f"The answer was empty: {_without_content(response)}"
    return NoToolCallError(f"Expected at least one tool call, but got 0 tool calls. {wrote}{why}")


def is_empty(message: Message) -> bool:
    """Return True if a message has neither text nor thinking nor tool calls."""
    return not any(map(_has_content, message.parts))


def _has_content(part: Part) -> bool:
    match part:
        case TextPart():
            return bool(part.text.strip())
        case ThinkingPart():
            return bool(part.text.strip() or part.redacted)
        case _:
            return True


def empty_response(response: ChatResponse) -> EmptyResponse:
    """Return the error for an answer that is empty."""
    error = EmptyResponse(f"the answer was empty: {_without_content(response)}")
    _located(error, response)
    return error


def _without_content(response: ChatResponse) -> str:
    nothing = is_empty(response.message)
    missing = "no text, no thinking and no tool call" if nothing else "thinking, but no text and no tool call"
    return f"{missing} (stop reason {response.stop_reason!r})"


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _located(error: CallError, response: ChatResponse) -> CallError:
    """`error`, told where it happened."""
    error.provider = error.provider or response.provider
    error.model = error.model or response.model
    error.request_id = error.request_id or response.request_id
    error.response = response
    return error


def damaged_text(response: ChatResponse, lost: str) -> MalformedEvent:
    """The error of an answer in words, one of whose pieces could not be read: `lost`."""
    return MalformedEvent(
        f"an event inside the answer was damaged and lost, so the object cannot be trusted: {lost}. Ask again.",
        provider=response.provider,
        model=response.model,
        request_id=response.request_id,
        response=response,
    )
