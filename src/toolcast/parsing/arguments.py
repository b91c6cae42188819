"""From the JSON text of one call to a validated value, and what had to be put right on the way.

Strategy: strict first. Pydantic reads JSON itself, faster than anything here could, but takes `NaN`,
`Infinity`, numbers that overflow a float and one level of nesting too much. A cheap look at the text says
whether any of these can be in it, an exact one whether it is, and only then a `JSONStream` says where: no text that
is valid goes through it. What validates is returned as it is.

Where validation failed, and only then, strings are JSON-decoded that stand where something else is required:
`{"songs": "[...]"}`, or a whole answer in quotation marks, as some models and proxies send them. The errors
say where. One pass, every string once, then one more validation, again in JSON mode; each repair is told in
words.

Text that is no JSON is read leniently (lenient_json.py), and what that gives goes the same way once more. If it
does not validate either, the first error stands.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from pydantic_core import ErrorDetails, ValidationError, from_json

from .json_stream import JSONStream, JSONStreamError, Path
from .lenient_json import lenient

# A hint that Pydantic may take what is not JSON: a number too large for a float has three digits of exponent, or
# hundreds of digits in a row. Of 200 digits in a row, every 50th are four in a row.
_big_exponent = re.compile(r"[0-9][eE]\+?[0-9]{3}").search
_long_run = re.compile(r"[0-9]{4}").search
# Pydantic allows one level more than JSONStream, if what is there is empty.
_empty_container = re.compile(r"[\[{][ \t\n\r]*[\]}]").search
_MAX_DEPTH = 200

# The same, exactly. Each of these looks at a character once: a run of digits is entered at its beginning only.
_string = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_large_number = re.compile(
    r"(?<![0-9.])[0-9]++(?:\.[0-9]++)?[eE]\+?[0-9]{3,}+|(?<![0-9.])[0-9]{200,}+(?:\.[0-9]++)?(?:[eE]\+?[0-9]++)?"
)
_no_bracket = re.compile(r"[^\[\]]+")
_as_square = str.maketrans("{}", "[]")
_number_like = re.compile(r"-?(?:NaN|Infinity|[0-9][0-9.eE+-]*)").match
_SHOWN_NUMBER = 40

# Kinds of error that a string may be the cause of, beside those whose name ends in `_type`.
_OTHER_TYPE_WANTED = frozenset(
    {
        "none_required",
        "bool_parsing",
        "int_parsing",
        "float_parsing",
        "union_tag_invalid",
        "union_tag_not_found",
    }
)


class Validator(Protocol):
    """What this module asks of a `pydantic_core.SchemaValidator`."""

    def validate_json(self, input: str, /, *, context: Any = None) -> Any: ...


IsStrict: TypeAlias = Callable[[Path], bool]
"""Whether the value at the location of an error must be of its type already, so that no string is decoded there."""


def _nothing_is_strict(loc: Path) -> bool:
    return False


def read(
    validator: Validator, text: str, *, context: Any = None, is_strict: IsStrict = _nothing_is_strict
) -> tuple[Any, tuple[str, ...]]:
    """The validated value of `text`, and the repairs it took, in words.

    Raises pydantic's `ValidationError`; what else a user's validator raises passes through.
    """
    try:
        return _read_strictly(validator, text, context, is_strict)
    except ValidationError as error:
        first = error
    found = lenient(text) if is_no_json(first) else None
    if found is not None:
        try:
            value, repairs = _read_strictly(validator, found.text, context, is_strict)
        except ValidationError as error:
            if is_no_json(error):  # for a number that JSON does not have; all else was read
                raise
        else:
            return value, (*found.repairs, *repairs)
    raise first


def _read_strictly(validator: Validator, text: str, context: Any, is_strict: IsStrict) -> tuple[Any, tuple[str, ...]]:
    if _is_lax(text):
        try:
            _feed_all(text)
        except JSONStreamError as error:
            title = getattr(validator, "title", "JSON")
            details: Any = {"type": "json_invalid", "loc": (), "input": text, "ctx": _why(text, error)}
            raise ValidationError.from_exception_data(title, [details], input_type="json") from None
    return decode_once(validator, text, context, is_strict=is_strict)


def is_no_json(error: ValidationError) -> bool:
    """Return whether the text was not JSON, rather than not what the type requires."""
    return any(
        not details["loc"] and details["type"] in ("json_invalid", "string_unicode")
        for details in error.errors(include_url=False, include_context=False, include_input=False)
    )


def decode_once(
    validator: Validator, text: str, context: Any = None, *, is_strict: IsStrict = _nothing_is_strict
) -> tuple[Any, tuple[str, ...]]:
    """Return what `read` returns for text that a `JSONStream` has accepted."""
    try:
        return validator.validate_json(text, context=context), ()
    except ValidationError as error:
        first = error
    repaired, places = _decoded(text, first, is_strict)
    if places:
        repairs = tuple(f"decoded the JSON text in {_named(place)}" for place in places)
        with suppress(ValidationError):
            return validator.validate_json(repaired, context=context), repairs
    raise first


def _why(text: str, error: JSONStreamError) -> dict[str, str]:
    """Return why `text` is not JSON, as the context of the error. What looks like a number is named."""
    number = _number_like(text, error.offset)
    if number is None:
        return {"error": str(error)}
    shown = number[0] if len(number[0]) <= _SHOWN_NUMBER else f"{number[0][:_SHOWN_NUMBER]}…"
    error.what = f"{shown} is {'too large for a float' if 'float' in error.what else 'not a JSON number'}"
    return {"error": str(error), "number": shown}


def is_prose(error: ValidationError) -> bool:
    """Return whether the text was not JSON at all: not even but for a number that JSON does not have."""
    faults = error.errors(include_url=False, include_input=False)
    return is_no_json(error) and not any("number" in fault.get("ctx", {}) for fault in faults)


def _is_lax(text: str) -> bool:
    """Return whether `text` has what Pydantic takes and JSON does not allow; for what Pydantic refuses, anything.

    All of the work is done by regular expressions and methods of strings, at a fraction of the cost of a `JSONStream`.
    """
    if not _may_be_lax(text):
        return False
    bare = _string.sub("", text)
    if "NaN" in bare or "Infinity" in bare:
        return True
    if any(math.isinf(float(number[0])) for number in _large_number.finditer(bare) if not number[0].isdecimal()):
        return True
    brackets = _no_bracket.sub("", bare.translate(_as_square))
    for _ in range(_MAX_DEPTH):
        brackets = brackets.replace("[]", "")  # one level, the innermost
        if not brackets:
            return False
    return True


def _may_be_lax(text: str) -> bool:
    """Return whether `text` may be lax, at next to no cost."""
    return (
        "NaN" in text
        or "Infinity" in text
        or _big_exponent(text) is not None
        or _long_run(text[::50]) is not None
        or (text.count("[") + text.count("{") > _MAX_DEPTH and _empty_container(text) is not None)
    )


def _feed_all(text: str) -> None:
    """Raise `JSONStreamError` if `text` is not JSON."""
    machine = JSONStream()
    machine.feed(text)
    machine.close()


def _decoded(text: str, error: ValidationError, is_strict: IsStrict) -> tuple[str, list[Path]]:
    """The text with misplaced strings decoded, and where they stood."""
    errors = error.errors(include_url=False)
    wanting = [each for each in errors if _wants_another_type(each) and not is_strict(each["loc"])]
    if not wanting:
        return text, []
    # The document hangs in a list of one, so that it can be replaced like anything in it.
    root: list[Any] = [from_json(text)]
    decoded: dict[Path, Any] = {}
    for details in wanting:
        place = _place(root, details)
        if place is not None and place not in decoded:
            with suppress(ValueError):
                decoded[place] = _another_type(details["input"])
    for place, value in decoded.items():
        container: Any = root
        for part in place[:-1]:
            container = container[part]
        container[place[-1]] = value
    return json.dumps(root[0]), [place[1:] for place in decoded]


def _wants_another_type(details: ErrorDetails) -> bool:
    kind = details["type"]
    if not isinstance(details["input"], str):
        return False
    if kind in ("literal_error", "enum"):  # a choice: among strings, a wrong one is simply wrong
        return not {"'", '"'} & set(details.get("ctx", {}).get("expected", "'"))
    return kind.endswith("_type") or kind in _OTHER_TYPE_WANTED


def _another_type(text: str) -> Any:
    """Return what the JSON in `text` is. Raises `ValueError` if it is no JSON, or a string again."""
    if text.lstrip().startswith('"') or _is_lax(text):
        raise ValueError("no JSON, or a string")
    return from_json(text)


def _place(root: list[Any], details: ErrorDetails) -> Path | None:
    """Where the string of an error stands, counted from `root`.

    An error's location also holds what indexes nothing, names of union members and of functions. Which parts
    those are it does not say, so each part may be passed over; what uses most of them is meant.
    """
    reached: dict[Path, Any] = {(0,): root[0]}
    for part in details["loc"]:
        for path, node in list(reached.items()):
            if not isinstance(node, str):  # a string has indexes too, but no values
                with suppress(LookupError, TypeError):
                    reached[(*path, part)] = node[part]
    fitting = [path for path, node in reached.items() if isinstance(node, str) and node == details["input"]]
    return max(fitting, key=len, default=None)


def _named(path: Path) -> str:
    if not path:
        return "the whole answer"
    parts = "".join(f".{part}" if isinstance(part, str) else f"[{part}]" for part in path)
    return f"`{parts.removeprefix('.')}`"
