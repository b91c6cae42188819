"""Conversion of any Python data to plain JSON data.

A log must take whatever a tool, a model or a user's program puts into it: a line that cannot be written is a lost line
of the experiment. So nothing here raises. Bytes are decoded, a set becomes a sorted list, dates and decimals their
usual text, NaN and the infinities null, an unpaired surrogate U+FFFD, and any other object its `repr`. A key that is
not a string becomes the text that JSON has for it; of two equal ones the later wins. Circular references, and data
nested deeper than other JSON readers accept, are replaced by "...".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set as AbstractSet
from datetime import date, time
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import PurePath
from typing import Any, Final, cast
from uuid import UUID

from pydantic_core import to_json

from ..json_text import replace_surrogates

DEEPEST: Final = 100
"""The maximum depth. Some readers of JSON go no deeper than 200."""
LEFT_OUT: Final = "..."

_INNER: tuple[type, ...] = (Mapping, list, tuple, AbstractSet)
_PLAIN = frozenset((str, int, float, bool, type(None)))
_LARGEST = 10**4000  # no text of a number may be longer than 4300 digits: Python neither writes nor reads it


def is_plain(value: object, depth: int = DEEPEST) -> bool:
    """Return whether `value` consists of JSON types only, is not too deep, and can be written unchanged."""
    kind = type(value)
    if kind is str or kind in _PLAIN:  # most are
        return kind is not int or -_LARGEST < cast("int", value) < _LARGEST
    if not depth:
        return False
    if kind is dict:
        for key, inner in cast("dict[object, object]", value).items():
            if type(key) is not str or not (type(inner) is str or is_plain(inner, depth - 1)):
                return False
        return True
    if kind is list or kind is tuple:
        return all(is_plain(inner, depth - 1) for inner in cast("Iterable[object]", value))
    return False


def json_safe(value: object) -> Any:
    """Convert `value` to JSON data: None, bool, int, float, str, and lists and dicts of them. Never raises."""
    return _safe(value, ())


def _safe(value: Any, above: tuple[int, ...]) -> Any:
    """Convert `value`, which is nested in the objects with the ids `above`."""
    try:
        return _safe_inside(value, above) if isinstance(value, _INNER) else _safe_leaf(value)
    except Exception as error:  # foreign objects: what fails when written is written as a note on that
        # Foreign objects: looking at one, and its `repr` too, may run any code.
        return f"<{type(value).__name__} that cannot be written: {type(error).__name__}>"


def _safe_inside(value: Any, above: tuple[int, ...]) -> Any:
    if id(value) in above or len(above) >= DEEPEST:
        return LEFT_OUT
    within = (*above, id(value))
    if isinstance(value, Mapping):
        pairs = list(cast("Mapping[object, object]", value).items())
        return {_key(key): _safe(inner, within) for key, inner in pairs}
    items = [_safe(inner, within) for inner in list(value)]
    # The order of a set is another one in every run.
    return sorted(items, key=repr) if isinstance(value, AbstractSet) else items


def _safe_leaf(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _safe(value.value, ())
    if isinstance(value, int):
        number = int.__int__(value)
        return number if -_LARGEST < number < _LARGEST else hex(number)
    if isinstance(value, float):
        return float.__float__(value) if isfinite(value) else None
    return replace_surrogates(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(cast("bytes", value)).decode("utf-8", "backslashreplace")
    if isinstance(value, (date, time)):
        return value.isoformat()
    return str(value) if isinstance(value, (Decimal, UUID, PurePath)) else repr(value)


def _key(key: object) -> str:
    """Convert a key to text: true, false, null and numbers as JSON writes them."""
    safe = _safe(key, ())
    return safe if isinstance(safe, str) else to_json(safe).decode()
