"""What wires say of the parts of a message: their bytes as text, and what a service cannot take in words."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, cast

from jiter import from_json

from ..errors import BadRequest
from ..messages import AudioPart, DocumentPart, ImagePart, Part, ToolCallPart, ToolResultPart


def base64_of(part: ImagePart | AudioPart | DocumentPart) -> str:
    """The bytes of `part` as base64 text."""
    return base64.b64encode(part.data or b"").decode()


def data_url(part: ImagePart | AudioPart | DocumentPart) -> str:
    """The bytes of `part` as a `data:` URL."""
    return f"data:{part.media_type};base64,{base64_of(part)}"


def inlined(part: ImagePart | AudioPart | DocumentPart) -> tuple[str, str] | None:
    """The media type and base64 text of a part given by its bytes or by a `data:` URL; None for any other URL."""
    if part.data is not None:
        return part.media_type or "application/octet-stream", base64_of(part)
    head, mark, data = (part.url or "").partition(";base64,")
    return (head.removeprefix("data:"), data) if mark and head.startswith("data:") else None


def cannot_take(provider: str, part: Part, where: str = "in a user message") -> BadRequest:
    """The error that says that `provider` has no place for `part`."""
    given = "by url" if getattr(part, "url", None) else getattr(part, "media_type", None)
    shown = f"{type(part).__name__} ({given})" if given else type(part).__name__
    return BadRequest(f"{provider} cannot take {shown} {where}")


def result_text(result: ToolResultPart) -> str:
    """The text of a result, for protocols that have no field for failures."""
    return f"The tool failed: {result.content}" if result.is_error else result.content


def only(provider: str, parts: Sequence[Part], kinds: tuple[type, ...], why: str) -> None:
    """Raises `BadRequest` where one of `parts` is of no kind in `kinds`."""
    for part in parts:
        if not isinstance(part, kinds):
            raise BadRequest(f"{provider} cannot take {type(part).__name__} here: {why}")


def arguments_of(call: ToolCallPart) -> dict[str, Any]:
    """The arguments of an earlier call as the object that some services insist on; `malformed` where they are none."""
    try:
        found: object = from_json(call.arguments.encode(errors="replace"))
    except ValueError:
        found = None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {"malformed": call.arguments}


def valid_arguments(call: ToolCallPart) -> str:
    """The arguments of an earlier call as JSON text of an object, unchanged where they are one."""
    found = arguments_of(call)
    return call.arguments if list(found) != ["malformed"] else json.dumps(found, ensure_ascii=False)
