"""The content of requests and responses in the JSON forms of the conventions, without credentials and hidden input."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeAlias

from pydantic_core import from_json

from ..messages import (
    AudioPart,
    CachePoint,
    DocumentPart,
    FileRef,
    ImagePart,
    MediaPart,
    Message,
    Part,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)
from ..text.json_text import json_text
from ..values.plain_data import hide_content
from ..values.server_tools import ServerTool
from ..values.tool_spec import ToolSpec

Mask: TypeAlias = Callable[[str], str]
"""Returns a text without credentials."""


def messages_json(messages: Iterable[Message], hidden: Collection[str], mask: Mask) -> str:
    """Return `messages` as the JSON of `gen_ai.input.messages` and `gen_ai.output.messages`.

    Args:
        messages: The messages. Those of the system are among them: toolcast keeps them in the history.
        hidden: The tools whose types hide their input: their arguments are left out.
        mask: Removes credentials from each text.
    """
    shown = [hide_content(message, hidden) for message in messages]
    return json_text([{"role": message.role, "parts": list(_parts(message, mask))} for message in shown])


def definitions_json(tools: Iterable[ToolSpec], mask: Mask, server_tools: Iterable[ServerTool] = ()) -> str:
    """Return the tools, with descriptions and parameters, as the JSON of `gen_ai.tool.definitions`.

    Args:
        tools: The tools.
        mask: Removes credentials from the JSON: a default or an example of a parameter may contain one.
        server_tools: The tools that the provider runs; a definition has their options, without credentials.
    """
    definitions: list[dict[str, Any]] = [
        {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in tools
    ]
    definitions += [{**tool.to_dict(), "type": tool.kind, "name": tool.label} for tool in server_tools]
    return mask(json_text(definitions))


def _parts(message: Message, mask: Mask) -> Iterator[dict[str, Any]]:
    for part in message.parts:
        if not isinstance(part, CachePoint):  # no content
            yield _part(part, mask)


def _part(part: Part, mask: Mask) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "content": mask(part.text)}
    if isinstance(part, ThinkingPart):
        return {"type": "reasoning", "content": mask(part.text)}
    if isinstance(part, ToolCallPart):
        arguments = _arguments(mask(part.arguments))
        return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": arguments}
    if isinstance(part, ServerToolPart):
        return _server_tool(part, mask)
    if isinstance(part, (ImagePart, AudioPart, VideoPart, DocumentPart)):
        return _media(part, mask)
    if isinstance(part, FileRef):
        return _file(part, mask)
    assert isinstance(part, ToolResultPart)
    return {"type": "tool_call_response", "id": part.call_id, "response": mask(part.content)}


def _server_tool(part: ServerToolPart, mask: Mask) -> dict[str, Any]:
    """Return a block of a tool that the provider ran, in the forms that the conventions have for these.

    They are `server_tool_call` and `server_tool_call_response` of their JSON schemas of messages.
    """
    about = {"id": part.call_id or None, "name": part.name}
    if part.output is None and part.error is None:
        call = {"type": part.name, "input": _masked(part.input, mask)}
        return {"type": "server_tool_call", **about, "server_tool_call": call}
    result = {"type": part.name, "output": _masked(part.output, mask), "error": part.error and mask(part.error)}
    given = {} if part.input is None else {"input": _masked(part.input, mask)}
    return {"type": "server_tool_call_response", **about, "server_tool_call_response": result | given}


def _masked(value: Any, mask: Mask) -> Any:
    return None if value is None else from_json(mask(json_text(value)))


def _arguments(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:  # the model's JSON was cut off, or is damaged
        return text


def _file(part: FileRef, mask: Mask) -> dict[str, Any]:
    """Return an uploaded file, in the form that the conventions have for one; without its URL, which may be signed."""
    known = {} if part.media_type is None else {"mime_type": part.media_type}
    modality = (part.media_type or "").partition("/")[0]
    modality = modality if modality in ("image", "audio", "video") else "document"
    return {"type": "file", "modality": modality, **known, "file_id": mask(part.id)}


def _media(part: MediaPart, mask: Mask) -> dict[str, Any]:
    known = {} if part.media_type is None else {"mime_type": part.media_type}
    if part.url is not None and not part.url.startswith("data:"):
        return {"type": "uri", "modality": part.type, **known, "uri": mask(part.url)}
    # A part of a type of its own, as the conventions allow: the bytes are too many for an attribute.
    return {"type": part.type, **known, "size": len(part.data or part.url or "")}
