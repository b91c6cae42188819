"""Classification of the model's answers: tool calls, or the final reflection that ends the cycle.

Models write their thinking in several ways: in `<think>` or `<thinking>` tags, in tags that are never closed, before a
lone closing tag (if the template opened it), or in a field of its own, which is not part of the answer's text. None of
it is part of the reflection; all of it is logged.
"""

from __future__ import annotations

import json
from typing import Literal, TypeAlias

from ..messages import Message, TextPart, ThinkingPart, ToolCallPart, assistant
from ..parsing.thoughts import without_thoughts
from .message_serialization import arguments_of

Parsed: TypeAlias = tuple[Literal["TOOL_CALL"], tuple[ToolCallPart, ...]] | tuple[Literal["FINAL_REFLECTION"], str]


class ResponseParser:
    """The parser of the model's answers."""

    def parse_response(self, message: Message) -> Parsed:
        """Return `("TOOL_CALL", calls)` if there are calls, otherwise `("FINAL_REFLECTION", text)`."""
        if message.tool_calls:
            return "TOOL_CALL", message.tool_calls
        return "FINAL_REFLECTION", without_thoughts(message.text)


def reflecting(message: Message, finish: ToolCallPart) -> Message:
    """Convert `message`, which ends the cycle by the call `finish`, to one that ends it by its text.

    The text beside the call becomes thinking.
    """
    thoughts = [
        ThinkingPart(part.text) if isinstance(part, TextPart) else part
        for part in message.parts
        if isinstance(part, (TextPart, ThinkingPart))
    ]
    return assistant(*thoughts, _reflection_in(finish))


def _reflection_in(finish: ToolCallPart) -> str:
    """Return the reflection in a call: its argument, or all its arguments as JSON if there is no such text."""
    arguments = arguments_of(finish)
    if arguments is None:
        return finish.arguments
    reflection = arguments.get("reflection", arguments or None)
    if reflection is None:
        return ""
    return reflection if isinstance(reflection, str) else json.dumps(reflection, ensure_ascii=False)
