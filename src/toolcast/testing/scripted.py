"""`ScriptedLLM`: an LLM with prepared answers, or functions that answer, which records its requests.

The requests that services refuse, with which a `ScriptedLLM` fails as a service would: with `BadRequest`.

These are the rules that several services have in common. What the library translates for each service is no error:
names of tools with other characters, equal ids of tool calls, messages of one role in a row.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, ClassVar, cast, get_args

from ..errors import BadRequest, ToolcastError
from ..events import (
    Event,
    Finish,
    StopReason,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    UsageReport,
)
from ..lazy.lazy_dataclasses import dataclass
from ..llms.function_calling_llm import FunctionCallingLLM
from ..messages import Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from ..providers.http_adapter import json_member
from ..text.json_text import json_text
from ..tools.callable_tool import CallableTool
from ..values.capabilities import LLMMetadata
from ..values.hooks import Hooks
from ..values.prices import Prices
from ..values.settings import Settings
from ..values.tool_spec import NamedTool, ToolChoice
from ..values.usage import Usage

_RANGES = (("temperature", 2), ("top_p", 1))


def check_request(
    messages: Sequence[Message], tools: Sequence[CallableTool], tool_choice: ToolChoice, settings: Settings
) -> None:
    """Raise `BadRequest` for a request that services refuse."""
    _check_content(messages)
    _check_pairs(messages)
    for tool in tools:
        _check_schema(tool.name, tool.parameters)
    if isinstance(tool_choice, NamedTool) and tool_choice.name not in [tool.name for tool in tools]:
        offered = ", ".join([tool.name for tool in tools]) or "no tools"
        raise BadRequest(f"tool_choice names {tool_choice.name!r}, which is not among the tools: {offered}")
    for name, most in _RANGES:
        value = getattr(settings, name)
        if value is not None and not 0 <= value <= most:
            raise BadRequest(f"{name}={value}: services refuse it; set it between 0 and {most}")
    if settings.extra is not None:
        json_member("settings.extra", settings.extra)


def _check_content(messages: Iterable[Message]) -> None:
    """Raise `BadRequest` if there is nothing to answer: no messages, system messages only, or empty ones."""
    if not any(_has_content(part) for message in messages if message.role != "system" for part in message.parts):
        raise BadRequest("no content: a request needs a message of the user with text or media; pass one")


def _has_content(part: Part) -> bool:
    return bool(part.text) if isinstance(part, (TextPart, ThinkingPart)) else True


def _check_pairs(messages: Iterable[Message]) -> None:
    """Raise `BadRequest` for a tool result without its call, or a call without its result in the next messages."""
    waiting: list[ToolCallPart] = []
    for at, message in enumerate(messages):
        if message.role == "system":
            continue
        results = [part for part in message.parts if isinstance(part, ToolResultPart)]
        for result in results:
            call = next((call for call in waiting if call.id == result.call_id), None)
            if call is None:
                raise BadRequest(
                    f"messages[{at}]: the tool result {result.call_id!r} belongs to no tool call of the assistant "
                    "message before it: add the call, or leave the result out"
                )
            waiting.remove(call)
        if not results:
            _check_answered(waiting, f"messages[{at}]")
        waiting.extend(message.tool_calls)
    _check_answered(waiting, "the end of the messages")


def _check_answered(waiting: Sequence[ToolCallPart], where: str) -> None:
    if waiting:
        calls = ", ".join([f"{call.name} ({call.id!r})" for call in waiting])
        raise BadRequest(f"no result before {where} for the tool calls {calls}: add tool_result(call, ...) for each")


def _check_schema(name: str, parameters: Mapping[str, Any]) -> None:
    if parameters.get("type") != "object":
        raise BadRequest(
            f"the schema of the tool {name!r} has the type {parameters.get('type')!r}, and services expect 'object': "
            "make the arguments properties of an object"
        )
    json_member(name, parameters)


_EVENTS = get_args(Event)
_numbering = Lock()  # of all scripts: an LLM is copied and pickled, which a lock cannot be


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """One request as the LLM received it."""

    messages: tuple[Message, ...]
    tools: tuple[CallableTool, ...]
    tool_choice: ToolChoice
    settings: Settings


class ScriptedLLM(FunctionCallingLLM):
    """An LLM with prepared answers.

    Args:
        *answers: One answer per request, in order: a string (text), an exception (raised), a `ToolCallPart` or a list
            of them (tool calls), a list of events (sent unchanged, even without a `Finish`: a truncated stream; an
            exception among them is raised at its place), a dict (the arguments of the first tool), or any other object
            (a call of the tool that makes it). A function, sync or async, is called with the `ScriptedRequest` and
            returns one of these, or yields events; if it is the last answer, it answers all further requests too.
        model: The name of the model.
        chunk: The number of characters in which text and arguments arrive.
        settings: The settings of the LLM.
        system_prompt: The system prompt.
        function_calling: False for a model without tool support.
        max_concurrency: The number of requests at a time.
        hooks: Hooks of its calls.
        prices: The prices of the model.

    `requests` lists the requests so far. Requests that services refuse raise `BadRequest`, and take no answer: without
    content, with a tool result that has no call or a call that has no result, a tool choice that is not offered, or
    values that are out of range or no JSON. Tools that a provider runs are accepted, and not run: what they did are the
    `ServerToolUse` events of an answer.
    """

    takes_server_tools: ClassVar[bool] = True

    def __init__(
        self,
        *answers: Any,
        model: str = "scripted",
        chunk: int = 4,
        settings: Settings | None = None,
        system_prompt: str | None = None,
        function_calling: bool = True,
        max_concurrency: int | None = None,
        hooks: Sequence[Hooks] | Hooks | None = None,
        prices: Prices | None = None,
    ) -> None:
        super().__init__(
            settings=settings,
            system_prompt=system_prompt,
            max_concurrency=max_concurrency,
            hooks=hooks,
            prices=prices,
        )
        self.requests: list[ScriptedRequest] = []
        self._answers = list(answers)
        self._chunk = chunk
        self._metadata = LLMMetadata(model, "scripted", function_calling)

    @property
    def metadata(self) -> LLMMetadata:
        """The metadata of the model."""
        return self._metadata

    async def _events(
        self,
        messages: Sequence[Message],
        tools: Sequence[CallableTool],
        tool_choice: ToolChoice,
        settings: Settings,
    ) -> AsyncIterator[Event]:
        try:
            check_request(messages, tools, tool_choice, settings)
        except BadRequest as error:
            error.provider, error.model = self._metadata.provider, self._metadata.model_name
            raise
        request = ScriptedRequest(tuple(messages), tuple(tools), tool_choice, settings)
        with _numbering:
            number = len(self.requests)
            self.requests.append(request)
        answer = self._answer(number)
        if _is_function(answer):
            answer = _checked(answer, answer(request))
            if inspect.isawaitable(answer):
                answer = _checked(self._answer(number), await answer)
            if isinstance(answer, AsyncIterator):
                yielded = cast("AsyncIterator[Event]", answer)
                try:
                    async for event in yielded:
                        yield event
                finally:
                    if isinstance(yielded, AsyncGenerator):  # it must end in this task
                        await yielded.aclose()
                return
            if hasattr(answer, "__next__"):
                answer = list(answer)
        if isinstance(answer, BaseException):
            raise answer
        for event in self._events_of(answer, request):
            yield event

    def add(self, *answers: Any) -> None:
        """Add answers after those that there are."""
        self._answers.extend(answers)

    def _answer(self, number: int) -> Any:
        if number < len(self._answers):
            return self._answers[number]
        if self._answers and _is_function(self._answers[-1]):
            return self._answers[-1]
        raise ToolcastError(f"the script has {len(self._answers)} answers, but another request was made: add an answer")

    def _events_of(self, answer: Any, request: ScriptedRequest) -> Iterator[Event]:
        if isinstance(answer, str):
            yield from (TextDelta(text) for text in self._chunks(answer))
            yield from _end("end_turn")
        elif isinstance(answer, ToolCallPart):
            yield from self._calls([answer])
        elif _all(answer, (*_EVENTS, BaseException)):
            yield from _until_raised(answer)
        elif _all(answer, (ToolCallPart,)):
            yield from self._calls(answer)
        elif isinstance(answer, dict):
            yield from self._calls([_call_with(answer, request.tools)])
        else:
            yield from self._calls([_call_for(answer, request.tools)])

    def _calls(self, calls: Iterable[ToolCallPart]) -> Iterator[Event]:
        for call in calls:
            yield ToolCallStart(call.id, call.name)
            yield from (ToolCallDelta(call.id, text) for text in self._chunks(call.arguments))
            yield ToolCallDone(call.id, call.name, call.arguments, call.truncated, call.opaque)
        yield from _end("max_tokens" if any(call.truncated for call in calls) else "tool_use")

    def _chunks(self, text: str) -> Iterator[str]:
        return (text[start : start + self._chunk] for start in range(0, len(text), self._chunk))


def _is_function(answer: object) -> bool:
    return inspect.isroutine(answer) or isinstance(answer, partial)


def _checked(function: object, answer: Any) -> Any:
    """Return the answer of a function. Raise `TypeError` if it is none."""
    if answer is None or _is_function(answer):
        raise TypeError(f"{function!r}: expected an answer such as a string or an object, got {answer!r}; return one")
    return answer


def _end(stop_reason: StopReason) -> Iterator[Event]:
    yield UsageReport(Usage(input_tokens=10, output_tokens=5))
    yield Finish(stop_reason)


def _until_raised(answer: Iterable[Event | BaseException]) -> Iterator[Event]:
    """Yield the events before the first exception, then raise it."""
    for event in answer:
        if isinstance(event, BaseException):
            raise event
        yield event


def _all(answer: Any, types: tuple[type, ...]) -> bool:
    if not isinstance(answer, (list, tuple)):
        return False
    items = cast("Sequence[Any]", answer)
    return bool(items) and all(isinstance(item, types) for item in items)


def _call_for(answer: Any, tools: Sequence[CallableTool]) -> ToolCallPart:
    """Return the call that makes `answer`: of the tool that it fits, or else of the first."""
    for tool in tools:
        arguments = tool.arguments_for(answer)
        if arguments is not None:
            return ToolCallPart("call_1", tool.name, arguments)
    return _call_with(answer, tools)


def _call_with(arguments: Any, tools: Sequence[CallableTool]) -> ToolCallPart:
    return ToolCallPart("call_1", tools[0].name if tools else "none", json_text(arguments))
