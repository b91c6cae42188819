"""Conversion of dicts to messages: in the form of OpenAI's chat completions, or of `Message.to_dict`.

    {"role": "user", "content": "Hi"}
    {"role": "user", "content": [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {...}}]}
    {"role": "assistant", "content": None, "tool_calls": [{"id": ..., "type": "function", "function": {...}}]}
    {"role": "tool", "tool_call_id": ..., "content": "391"}

Also accepted: the role `developer` (system), `thinking` and `reasoning_content`, and Ollama's tool calls without ids,
with an object as their arguments. Other keys, such as `name` and `annotations`, have no place in a `Message` and are
left out; content of an unknown type is an error. A part with `cache_control` is followed by a `CachePoint`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from ..messages import (
    AudioPart,
    CachePoint,
    DocumentPart,
    FileRef,
    ImagePart,
    Message,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
)

_MAPPING: Any = Mapping  # typed as Any, so that isinstance does not narrow Any to an unknown type
_ROLES: Final[Mapping[Any, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_THINKING = ("thinking", "reasoning_content")
_CONTENTS = ("content", "parts", "tool_calls", *_THINKING)


def is_message_dict(value: Any) -> bool:
    """Return whether `value` is a dict with a role and content."""
    if not isinstance(value, _MAPPING):
        return False
    role: Any = value.get("role")
    return isinstance(role, str) and role in _ROLES and any(key in value for key in _CONTENTS)


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Return the message from a dict. Raise `ValueError` if it is not a message, or has unsupported content."""
    if not is_message_dict(data):
        raise ValueError(
            f"{dict(data)!r:.200} is not a message: expected 'role' ({', '.join(_ROLES)}) and 'content' or 'tool_calls'"
        )
    role = _ROLES[data["role"]]
    if "parts" in data:
        return Message.from_dict({"role": role, "parts": data["parts"]})
    if role == "tool":
        return Message(role, (_result(data),))
    parts: list[Part] = [ThinkingPart(str(data[key])) for key in _THINKING if data.get(key)]
    parts += [*_contents(data.get("content")), *_contents(data.get("refusal"))]
    calls: Any = data.get("tool_calls") or []
    parts += [_call(call, number) for number, call in enumerate(calls, 1)]
    return Message(role, tuple(parts))


def _result(data: Mapping[str, Any]) -> ToolResultPart:
    parts = list(_contents(data.get("content")))
    images = tuple(part for part in parts if isinstance(part, ImagePart))
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if len(images) + len(texts) < len(parts):
        raise ValueError("a tool result: expected text and images")
    name = data.get("tool_name") or data.get("name") or ""
    return ToolResultPart(str(data.get("tool_call_id") or ""), "\n".join(texts), str(name), images=images)


def _call(call: Any, number: int) -> ToolCallPart:
    function: Any = call.get("function") if isinstance(call, _MAPPING) else None
    if not isinstance(function, _MAPPING):
        raise ValueError(f"{call!r:.200} is not a tool call: expected a 'function' with 'name' and 'arguments'")
    arguments: Any = function.get("arguments") or {}
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCallPart(str(call.get("id") or f"call_{number}"), str(function.get("name") or ""), text)


def _contents(content: Any) -> Iterator[Part]:
    if isinstance(content, str):
        if content:
            yield TextPart(content)
    elif isinstance(content, (list, tuple)):
        for part in cast("list[Any]", content):
            yield _part(part)
            if isinstance(part, _MAPPING) and isinstance(control := part.get("cache_control"), _MAPPING):
                yield CachePoint(control.get("ttl"))
    elif content is not None:
        raise ValueError(f"content: expected str or a list of parts, got {type(content).__name__}")


def _part(part: Any) -> Part:
    if isinstance(part, str):
        return TextPart(part)
    kind: Any = part.get("type") if isinstance(part, _MAPPING) else None
    read = _PARTS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise ValueError(f"{part!r:.200} is not a part of a message: expected a type of {', '.join(_PARTS)}")
    value = part.get(kind)
    if value is None:
        raise ValueError(f"{part!r:.200} has no {kind!r}")
    return read(value)


def _text(value: Any) -> TextPart:
    return TextPart(str(value))


def _image(value: Any) -> ImagePart:
    image: Any = value if isinstance(value, _MAPPING) else {"url": value}
    url, detail = _text_of(image, "url"), image.get("detail")
    if not url.startswith("data:"):
        return ImagePart(url=url, detail=detail)
    data, media_type = _data(url)
    return ImagePart(data=data, media_type=media_type or "image/png", detail=detail)


def _audio(value: Any) -> AudioPart:
    return AudioPart(data=_decoded(_text_of(value, "data")), media_type=f"audio/{_text_of(value, 'format')}")


def _video(value: Any) -> VideoPart:
    url = _text_of(value if isinstance(value, _MAPPING) else {"url": value}, "url")
    if not url.startswith("data:"):
        return VideoPart(url=url)
    data, media_type = _data(url)
    return VideoPart(data=data, media_type=media_type or "video/mp4")


def _file(value: Any) -> DocumentPart | FileRef:
    if isinstance(value, _MAPPING) and value.get("file_id"):
        return FileRef("openai", _text_of(value, "file_id"), name=value.get("filename"))
    data, media_type = _data(_text_of(value, "file_data"))
    return DocumentPart(data=data, media_type=media_type or "application/pdf", name=value.get("filename"))


def _text_of(value: Any, key: str) -> str:
    found: Any = value.get(key) if isinstance(value, _MAPPING) else None
    if not isinstance(found, str) or not found:
        raise ValueError(f"{value!r:.200} has no {key!r}")
    return found


def _data(url: str) -> tuple[bytes, str]:
    """Return the bytes of a base64 `data:` URL and its media type; of plain base64 the bytes, and no type."""
    head, comma, data = url.partition(",")
    return _decoded(data if comma else head), head.removeprefix("data:").removesuffix(";base64") if comma else ""


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError as error:
        raise ValueError(f"{data!r:.40} is not base64: {error}") from error


_PARTS: Final[Mapping[str, Callable[[Any], Part]]] = {
    "text": _text,
    "refusal": _text,
    "image_url": _image,
    "input_audio": _audio,
    "video_url": _video,
    "file": _file,
}
