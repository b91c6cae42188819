"""Serialization of messages for the log: plain data in the format of chat completions.

    {"role": "assistant", "content": "...", "thinking": "...", "tool_calls": [{"id", "type", "function"}]}
    {"role": "tool", "content": "...", "tool_call_id": "..."}

The arguments of a call are an object where they are one, otherwise the text that the model wrote. Where a service
must get back what has no place there (signed thinking), the message's own form stands beside it, as `parts`. They are
read by `message_dicts.message_from`, and so are those that other tools have logged.
"""

from __future__ import annotations

import json
from typing import Any, cast

from ..messages import FileRef, Message, Part, ServerToolPart, ThinkingPart, ToolCallPart, ToolResultPart


def plain(message: Message) -> dict[str, Any]:
    """Convert `message` to its form in the log."""
    found: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.role == "tool":
        results = [part for part in message.parts if isinstance(part, ToolResultPart)]
        return found | {"content": "\n".join(part.content for part in results), "tool_call_id": results[0].call_id}
    if thinking := "".join(part.text for part in message.parts if isinstance(part, ThinkingPart)):
        found["thinking"] = thinking
    if message.tool_calls:
        found["tool_calls"] = [_plain_call(call) for call in message.tool_calls]
    if any(map(_is_sealed, message.parts)):
        found["parts"] = message.to_dict()["parts"]
    return found


def arguments_of(call: ToolCallPart) -> dict[str, Any] | None:
    """Return the arguments of a call; None if they are not a JSON object."""
    try:
        read: Any = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):  # the second: brackets in brackets, thousands deep
        return None
    return cast("dict[str, Any]", read) if isinstance(read, dict) else None


def _plain_call(call: ToolCallPart) -> dict[str, Any]:
    arguments = arguments_of(call)
    function = {"name": call.name, "arguments": call.arguments if arguments is None else arguments}
    return {"id": call.id, "type": "function", "function": function}


def _is_sealed(part: Part) -> bool:
    """Return whether `part` has data that a service must get back and that the plain format cannot represent."""
    if isinstance(part, ThinkingPart):
        return bool(part.signature or part.redacted or part.opaque)
    if isinstance(part, (ServerToolPart, FileRef)):
        return True
    return isinstance(part, ToolCallPart) and bool(part.opaque or part.truncated)
