"""JSON text of values that a model, a tool or a file supplied.

Such values hold what JSON or UTF-8 cannot: half of a surrogate pair, as in `"\\ud800"`. It is written as U+FFFD, in one
way everywhere: in requests, tool results, sessions and logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from typing import Any, Literal

from pydantic_core import to_json


def replace_surrogates(text: str) -> str:
    """Return `text` with U+FFFD for each half of a surrogate pair; two halves become the character that they mean."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def json_text(
    value: Any,
    *,
    by_alias: bool = True,
    round_trip: bool = False,
    bytes_mode: Literal["utf8", "base64"] = "utf8",
    fallback: Callable[[Any], Any] | None = None,
) -> str:
    """Return `value` as JSON text: see `pydantic_core.to_json` for the options."""

    def written(what: Any) -> str:
        text = to_json(what, by_alias=by_alias, round_trip=round_trip, bytes_mode=bytes_mode, fallback=fallback)
        return text.decode()

    try:
        return written(value)
    except ValueError as error:
        try:
            sound = _sound(value, by_alias=by_alias)
        except RecursionError:  # a value that holds itself
            raise error from None
    return written(sound)


def _sound(value: Any, *, by_alias: bool) -> Any:
    """Return `value` with `sound_text` for each text and key in it."""
    given: Any = value  # of no known type, whatever the tests below find
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {_sound(key, by_alias=by_alias): _sound(item, by_alias=by_alias) for key, item in given.items()}
    if isinstance(value, (Sequence, AbstractSet)) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_sound(item, by_alias=by_alias) for item in given]
    dump = getattr(given, "model_dump", None)
    return _sound(dump(by_alias=by_alias), by_alias=by_alias) if callable(dump) else given
