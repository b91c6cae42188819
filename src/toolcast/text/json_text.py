r"""Serialization to JSON text of values that a model, a tool or a file supplied.

Such values may contain a lone surrogate, as in `"\ud800"`, which UTF-8 cannot encode. It is written as U+FFFD
everywhere: in requests, tool results, sessions and logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from math import isfinite
from typing import Any, Literal
from zlib import crc32

from pydantic_core import to_json


def replace_surrogates(text: str) -> str:
    """Return `text` with U+FFFD for each lone surrogate; a surrogate pair becomes its character."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def checksum(data: bytes) -> str:
    """Return the checksum that is stored beside `data`, in 8 hexadecimal digits."""
    return f"{crc32(data):08x}"


def finite(value: Any) -> Any:
    """Return JSON data with None for each number that JSON does not have, such as infinity."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    given: Any = value  # typed as Any, so that isinstance does not narrow it to unknown types
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in given.items()}
    return [finite(item) for item in given] if isinstance(value, (list, tuple)) else value


def json_text(
    value: Any,
    *,
    by_alias: bool = True,
    round_trip: bool = False,
    bytes_mode: Literal["utf8", "base64"] = "utf8",
    fallback: Callable[[Any], Any] | None = None,
) -> str:
    """Return `value` as JSON text: see `pydantic_core.to_json` for the options."""

    def serialize(value: Any) -> str:
        text = to_json(
            value,
            by_alias=by_alias,
            round_trip=round_trip,
            bytes_mode=bytes_mode,
            inf_nan_mode="strings",
            fallback=fallback,
        )
        return text.decode()

    try:
        return serialize(value)
    except ValueError as error:
        try:
            replaced = _replace_surrogates(value, by_alias=by_alias)
        except RecursionError:  # a value that contains itself
            raise error from None
    return serialize(replaced)


def _replace_surrogates(value: Any, *, by_alias: bool) -> Any:
    """Return `value` with lone surrogates replaced in each text and key in it."""
    given: Any = value  # typed as Any, so that isinstance below does not narrow it to Unknown
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {
            _replace_surrogates(key, by_alias=by_alias): _replace_surrogates(item, by_alias=by_alias)
            for key, item in given.items()
        }
    if isinstance(value, (Sequence, AbstractSet)) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_replace_surrogates(item, by_alias=by_alias) for item in given]
    dump = getattr(given, "model_dump", None)
    return _replace_surrogates(dump(by_alias=by_alias), by_alias=by_alias) if callable(dump) else given
