"""Results as JSON-compatible data, and back: the conversions that the `to_dict` methods of all values share.

Models are dumped by the names of their fields, in JSON mode, so that secrets are masked. They are read by names or
aliases, with the rules of JSON: a strict model takes a date as text.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final, get_origin

from pydantic_core import SchemaSerializer, core_schema, from_json

from ..messages import AudioPart, Message, Part, ServerToolPart, TextPart, ThinkingPart, ToolCallPart
from ..text.json_text import json_text

_any: Final = SchemaSerializer(core_schema.any_schema())
HIDDEN: Final = "(hidden)"


def to_plain(value: Any) -> Any:
    """Return a value of any type as JSON-compatible data; what has no form in JSON as its text."""
    try:
        return _any.to_python(value, mode="json", by_alias=False, warnings=False, fallback=str)
    except ValueError:  # a lone surrogate, or bytes that are no text
        return from_json(json_text(value, by_alias=False, bytes_mode="base64", fallback=str))


def from_plain(data: Any, output_type: Any) -> Any:
    """Return `data` validated as `output_type`; unchanged if there is none, or it is a function."""
    if output_type is None or _is_function(output_type):
        return data
    from pydantic import TypeAdapter

    return TypeAdapter(output_type).validate_json(json.dumps(data), by_alias=True, by_name=True)


def _is_function(value: Any) -> bool:
    """Return True for a function or another callable object; types and generic aliases are callable too."""
    return callable(value) and not isinstance(value, type) and get_origin(value) is None


def hide_content(message: Message, tools: Collection[str]) -> Message:
    """Return an assistant message without the arguments of `tools`, whose types hide their input.

    The model may have written the arguments as text too, so its texts are left out with them.
    """
    if message.role != "assistant" or not tools:
        return message
    return replace(message, parts=tuple([_hidden_part(part, tools) for part in message.parts]))


def _hidden_part(part: Part, tools: Collection[str]) -> Part:
    if isinstance(part, ToolCallPart):
        return replace(part, arguments=json.dumps(HIDDEN), opaque=None) if part.name in tools else part
    if isinstance(part, TextPart):
        return TextPart(HIDDEN)
    if isinstance(part, ServerToolPart):
        return ServerToolPart(part.name, part.call_id, provider=part.provider)
    if isinstance(part, AudioPart):
        return TextPart(HIDDEN)  # it may speak what the text would have
    return ThinkingPart(HIDDEN) if isinstance(part, ThinkingPart) else part
