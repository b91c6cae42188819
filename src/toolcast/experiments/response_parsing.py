"""Classification of the model's answers: tool calls, or the final reflection that ends the cycle.

Models write their thinking in several ways: in `<think>` or `<thinking>` tags, in tags that are never closed, before a
lone closing tag (if the template opened it), or in a field of its own, which is not part of the answer's text. None of
it is part of the reflection; all of it is logged.
"""

from __future__ import annotations

import json
import re
from typing import Final, Literal, TypeAlias

from ..messages import Message, TextPart, ThinkingPart, ToolCallPart, assistant
from .message_serialization import arguments_of

Parsed: TypeAlias = tuple[Literal["TOOL_CALL"], tuple[ToolCallPart, ...]] | tuple[Literal["FINAL_REFLECTION"], str]

_THOUGHT: Final = re.compile(r"<(think|thinking)\s*>.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_CLOSING: Final = re.compile(r"</think(?:ing)?\s*>", re.IGNORECASE)


class ResponseParser:
    """The parser of the model's answers."""

    def parse_response(self, message: Message) -> Parsed:
        """Return `("TOOL_CALL", calls)` if there are calls, otherwise `("FINAL_REFLECTION", text)`."""
        if message.tool_calls:
            return "TOOL_CALL", message.tool_calls
        return "FINAL_REFLECTION", without_thinking(message.text)


def without_thinking(text: str) -> str:
    """Return `text` without thinking tags and their content."""
    text = _THOUGHT.sub("", text)
    # What stands before a closing tag that nothing opened was thought too.
    return _CLOSING.split(text)[-1].strip()


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
