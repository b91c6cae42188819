"""The requests that services refuse, with which a `ScriptedLLM` fails as a service would: with `BadRequest`.

These are the rules that several services have in common. What the library translates for each service is no error:
names of tools with other characters, equal ids of tool calls, messages of one role in a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import BadRequest
from ..messages import Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from ..providers.http_adapter import json_member
from ..settings import Settings
from ..tool_spec import NamedTool, ToolChoice
from ..tools.callable_tool import CallableTool

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
