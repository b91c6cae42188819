"""JSON text of the messages of an encoder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..json_text import finite, replace_surrogates


def message_json(message: Mapping[str, Any]) -> str:
    """Return a message as JSON in one line. It has null for numbers that JSON does not have, such as infinity."""
    try:
        text = _dumped(message)
    except ValueError:
        text = _dumped(finite(message))
    return replace_surrogates(text)


def parsed(text: str) -> tuple[Any, bool]:
    """Return the value of a JSON text and True; the text itself and False if it is none."""
    try:
        return json.loads(text), True
    except (ValueError, RecursionError):
        return text, False


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
