"""What an answer is: calls of tools, or the final reflection that ends the cycle.

Models think in the open in many ways: `<think>` or `<thinking>` tags, tags that are opened and never closed, a
closing tag alone (where the template has opened it), or in a field of its own, which is no text of the answer. None
of it belongs to the reflection; all of it is in the log.
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
    """Reads answers."""

    def parse_response(self, message: Message) -> Parsed:
        """`("TOOL_CALL", calls)` where there are any, otherwise `("FINAL_REFLECTION", text)`."""
        if message.tool_calls:
            return "TOOL_CALL", message.tool_calls
        return "FINAL_REFLECTION", without_thinking(message.text)


def without_thinking(text: str) -> str:
    """`text` without what was thought in it."""
    text = _THOUGHT.sub("", text)
    # What stands before a closing tag that nothing opened was thought too.
    return _CLOSING.split(text)[-1].strip()


def reflecting(message: Message, finish: ToolCallPart) -> Message:
    """`message`, which ends the cycle by the call `finish`, as one that does so in text.

    What was said beside the call is a thought.
    """
    thoughts = [
        ThinkingPart(part.text) if isinstance(part, TextPart) else part
        for part in message.parts
        if isinstance(part, (TextPart, ThinkingPart))
    ]
    return assistant(*thoughts, _reflection_in(finish))


def _reflection_in(finish: ToolCallPart) -> str:
    """The reflection that a call gives: whatever it says, where that is no text under the right name."""
    arguments = arguments_of(finish)
    if arguments is None:
        return finish.arguments
    said = arguments.get("reflection", arguments or None)
    if said is None:
        return ""
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
