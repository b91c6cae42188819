"""Strict parsing and validation of a tool call's JSON arguments, with repair of common model errors.

Strict first: Pydantic reads JSON faster than anything here could, but accepts `NaN`, `Infinity`, numbers that overflow
a float and one level of nesting more than RFC 8259 readers take. A cheap test of the text decides whether any of these
may be in it, an exact test whether one is; only then does a `JSONStream` locate it. No valid text goes through the
stream, and a value that validates is returned unchanged.

If validation fails, and only then, a string in the place of another type is decoded as JSON: `{"songs": "[...]"}`, or a
whole answer in quotation marks, as some models and proxies send them. The locations of the errors show which strings.
All of them are decoded, then the document is validated once more, again in JSON mode; what was decoded may have such
strings too, a few levels deep. Every repair is listed as text.

Text that is not JSON is parsed leniently (`lenient_json`), and the result is validated the same way. If that fails too,
the first error is raised.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

from pydantic_core import ErrorDetails, ValidationError, from_json, to_jsonable_python

from ..text.json_text import replace_surrogates
from .json_stream import JSONStream, JSONStreamError, Path

ONE_OF_SEVERAL = "took the value that fits"
"""The repair of a text with several values."""

_MAX_DEPTH = 200
_MOST_REPAIRS = 4

# For the cheap test all digits become 0, and both kinds of brackets one. Letters of no number are deleted, so that
# little is left of running text to search; the characters between them stay, because they keep numbers apart.
_CLASSES = bytes.maketrans(b"123456789E{}", b"000000000e[]")
_LETTERS = bytes(set(range(128, 256)) | set(b"+abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") - set(b"NaIfyeE"))
_SEPARATORS = b" \t\n\r+"
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]"))
_PART = 1 << 14
"""The number of characters that the cheap test reads at once, so that it needs no copy of a long text."""

# The exact tests. Possessive quantifiers and lookbehinds keep each of them linear: a run of digits is entered once.
_string = re.compile(r'"[^"]*+"')  # without escaped quotes
_large_number = re.compile(
    r"(?<![0-9.])[0-9]++(?:\.[0-9]++)?[eE]\+?[0-9]{3,}+|(?<![0-9.])[0-9]{200,}+(?:\.[0-9]++)?(?:[eE]\+?[0-9]++)?"
)
_number_like = re.compile(r"-?(?:NaN|Infinity|[0-9][0-9.eE+-]*)").match
_SHOWN_NUMBER = 40
_MAX_DIGITS = 200

# Error types that a misplaced string may cause, besides those whose name ends in `_type`.
_OTHER_TYPE_EXPECTED = frozenset(
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
    """The part of `pydantic_core.SchemaValidator` that this module calls."""

    def validate_json(self, input: str, /, *, context: Any = None) -> Any: ...


IsStrict: TypeAlias = Callable[[Path], bool]
"""A function that returns True for a location whose value must already be of its type: no string is decoded there."""


def _never_strict(loc: Path) -> bool:
    return False


def parse_json(
    validator: Validator,
    text: str,
    *,
    context: Any = None,
    is_strict: IsStrict = _never_strict,
    optional: Collection[str] = (),
) -> tuple[Any, tuple[str, ...]]:
    """Parse and validate `text`; return the value and the repairs that were needed.

    Args:
        validator: The validator of the expected type.
        text: JSON, or text in which one JSON value fits, outside of thoughts.
        context: Passed to the type's own validators.
        is_strict: Returns True for the locations at which no string may be decoded.
        optional: Members of the object that are left out where they are null and must not be.

    Raises:
        pydantic.ValidationError: If the value does not validate. Other exceptions of validators pass through.
    """
    try:
        return _parse_strict(validator, text, context, is_strict, optional)
    except ValidationError as error:
        first = error
    from .lenient_json import parse_lenient  # few programs meet text that is not JSON, and it compiles 14 patterns

    found = parse_lenient(text) if is_invalid_json(first) else ()
    fitting: list[tuple[Any, tuple[str, ...]]] = []
    for each in found:
        try:
            value, repairs = _parse_strict(validator, each.text, context, is_strict, optional)
        except ValidationError as error:
            if len(found) == 1 and is_invalid_json(error):  # a number that JSON lacks; the rest was parsed
                raise
        else:
            fits = (ONE_OF_SEVERAL,) if len(found) > 1 else ()
            fitting.append((value, (*each.repairs, *fits, *repairs)))
    if not fitting:
        raise _joined(validator, text, first) or first
    if not all(is_same(value, fitting[0][0]) for value, _ in fitting[1:]):
        raise ambiguous(validator, text, len(fitting)) from None
    return fitting[0]


def is_same(value: object, other: object) -> bool:
    """Return whether the values are equal, also as JSON, where `true` is not 1."""
    plain = partial(to_jsonable_python, serialize_unknown=True)
    return value == other and _has_same_booleans(plain(value), plain(other))


def _has_same_booleans(value: Any, other: Any) -> bool:
    """Return whether equal JSON values have their booleans in the same places."""
    values: tuple[object, object] = value, other  # of types that are not narrowed to unknown ones
    kinds = [*map(type, values)]
    if kinds == [dict, dict]:
        return all(_has_same_booleans(item, other.get(name)) for name, item in value.items())
    if kinds == [list, list]:
        return all(map(_has_same_booleans, value, other))
    return kinds.count(bool) != 1


def ambiguous(validator: object, text: str, count: int) -> ValidationError:
    """Return the error for a text with several different values that fit."""
    reason = f"the text has {count} different values that fit; write only the one that counts"
    return _invalid_json(validator, text, {"error": reason, "values": str(count)})


def _joined(validator: object, text: str, error: ValidationError) -> ValidationError | None:
    """Return the error for an object behind which another one begins, as where a service joins two calls; else None."""
    reason = str(error.errors(include_url=False)[0].get("ctx", {}).get("error", ""))
    if not reason.startswith("trailing characters"):
        return None
    with suppress(ValueError, RecursionError):
        _, end = json.JSONDecoder().raw_decode(text := text.lstrip())
        if text[end:].lstrip().startswith(("{", "[")):
            reason = f"{reason}: two values are joined, each of which needs a call of its own"
            return _invalid_json(validator, text, {"error": reason})
    return None


def _invalid_json(validator: object, text: str, context: dict[str, str]) -> ValidationError:
    details: Any = {"type": "json_invalid", "loc": (), "input": text, "ctx": context}
    return ValidationError.from_exception_data(getattr(validator, "title", "JSON"), [details], input_type="json")


def _parse_strict(
    validator: Validator, text: str, context: Any, is_strict: IsStrict, optional: Collection[str]
) -> tuple[Any, tuple[str, ...]]:
    if is_lax(text):
        try:
            _check_json(text)
        except JSONStreamError as error:
            raise _invalid_json(validator, text, _error_context(text, error)) from None
    return validate_json_text(validator, text, context, is_strict=is_strict, optional=optional)


def is_invalid_json(error: ValidationError) -> bool:
    """Return whether the text was not JSON, rather than JSON of another type."""
    return any(
        not details["loc"] and details["type"] in ("json_invalid", "string_unicode")
        for details in error.errors(include_url=False, include_context=False, include_input=False)
    )


def validate_json_text(
    validator: Validator,
    text: str,
    context: Any = None,
    *,
    is_strict: IsStrict = _never_strict,
    optional: Collection[str] = (),
) -> tuple[Any, tuple[str, ...]]:
    """Validate text that a `JSONStream` has accepted; return the value and the repairs, as `parse_json` does."""
    try:
        return validator.validate_json(text, context=context), ()
    except ValidationError as error:
        first = error
    repaired, failure = text, first
    repairs: tuple[str, ...] = ()
    for _ in range(_MOST_REPAIRS):
        repaired, nulls = _leave_out_nulls(repaired, failure, optional)
        repaired, places = (repaired, []) if nulls else _decode_misplaced_strings(repaired, failure, is_strict)
        if not (nulls or places):
            break
        left_out = (f"left out `{name}`, which was null" for name in nulls)
        repairs = (*repairs, *left_out, *(f"decoded the JSON text in {_format_path(place)}" for place in places))
        try:
            return validator.validate_json(repaired, context=context), repairs
        except ValidationError as error:
            first = error if nulls and failure is first else first  # which blames no null that may be left out
            failure = error
    raise first


def _error_context(text: str, error: JSONStreamError) -> dict[str, str]:
    """Return why `text` is not JSON, as the context of the error; a number that JSON lacks is named."""
    number = _number_like(text, error.offset)
    if number is None:
        return {"error": str(error)}
    shown = number[0] if len(number[0]) <= _SHOWN_NUMBER else f"{number[0][:_SHOWN_NUMBER]}…"
    error.reason = f"{shown} is {'too large for a float' if 'float' in error.reason else 'not a JSON number'}"
    return {"error": str(error), "number": shown}


def is_prose(error: ValidationError) -> bool:
    """Return whether the text contains no JSON at all, as opposed to several values or a number that JSON lacks."""
    faults = error.errors(include_url=False, include_input=False)
    return is_invalid_json(error) and not any({"number", "values"} & set(fault.get("ctx", {})) for fault in faults)


def is_lax(text: str, *, integers: bool = False) -> bool:
    """Return whether `text` contains something that Pydantic accepts and JSON does not allow.

    With `integers`, so do integers too large for a float, which JSON allows and many services cannot read. For text
    that Pydantic rejects, the result is arbitrary. All of the work is done by string methods and regular expressions,
    at a fraction of the cost of a `JSONStream`.
    """
    # The cheap test, at a third of the cost of validating the text. A number too large for a float has three exponent
    # digits, or hundreds of digits in a row.
    before, brackets = b"", bytearray()
    for start in range(0, len(text), _PART):
        # Lone surrogates, which JSON does not allow, are rejected elsewhere.
        part = text[start : start + _PART].encode(errors="surrogatepass").translate(_CLASSES, _LETTERS)
        data = before + part
        if b"NaN" in data or b"Ify" in data or b"0e000" in data or b"0" * _MAX_DIGITS in data:
            break
        before = data[-_MAX_DIGITS:]  # what continues in the next part
        brackets += part.translate(None, _NOT_BRACKETS)
    else:
        if brackets.count(b"[") <= _MAX_DEPTH or not _is_too_deep(bytes(brackets)):
            return False
    bare = _string.sub("", text.replace(r"\\", "").replace(r"\"", ""))
    if "NaN" in bare or "Infinity" in bare:
        return True
    for number in _large_number.finditer(bare):
        if (integers or not number[0].isdecimal()) and math.isinf(float(number[0])):
            return True
    return _may_be_too_deep(bare)


def portable_object(text: str) -> dict[str, Any] | None:
    """Return the object that `text` has, if JSON and every service can represent it; else None.

    No service reads `NaN`, half of a surrogate pair or hundreds of levels, and few a number too large for a float.
    """
    try:
        found: object = from_json(replace_surrogates(text).encode())
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) and not is_lax(text, integers=True) else None


def _may_be_too_deep(text: str) -> bool:
    """Return whether more than `_MAX_DEPTH` containers may be open at once, outside of strings.

    Pydantic allows one level more than JSONStream, if the innermost container is empty.
    """
    data = text.encode(errors="surrogatepass").translate(_CLASSES, _SEPARATORS)
    return b"[]" in data and _is_too_deep(data.translate(None, _NOT_BRACKETS))


def _is_too_deep(brackets: bytes) -> bool:
    """Return whether more than `_MAX_DEPTH` containers are open at once; True for brackets that do not match."""
    for _ in range(_MAX_DEPTH):
        if not brackets:
            return False
        size = len(brackets)
        brackets = brackets.replace(b"[]", b"")  # one level, the innermost
        if len(brackets) == size:
            return True
    return bool(brackets)


def _check_json(text: str) -> None:
    """Raise `JSONStreamError` if `text` is not JSON."""
    stream = JSONStream()
    stream.feed(text)
    stream.close()


def _decode_misplaced_strings(text: str, error: ValidationError, is_strict: IsStrict) -> tuple[str, list[Path]]:
    """Return the text with misplaced strings decoded, and the paths of these strings."""
    errors = error.errors(include_url=False)
    misplaced = [each for each in errors if _expects_another_type(each) and not is_strict(each["loc"])]
    if not misplaced:
        return text, []
    # The document is the only item of a list, so that the root can be replaced like any other value.
    root: list[Any] = [from_json(text)]
    decoded: dict[Path, Any] = {}
    for details in misplaced:
        place = _input_path(root, details)
        if place is not None and place not in decoded:
            with suppress(ValueError):
                decoded[place] = _decode_string(details["input"])
    for place, value in decoded.items():
        container: Any = root
        for part in place[:-1]:
            container = container[part]
        container[place[-1]] = value
    return json.dumps(root[0]), [place[1:] for place in decoded]


def _leave_out_nulls(text: str, error: ValidationError, optional: Collection[str]) -> tuple[str, list[str]]:
    """Return the text without those optional members whose null was refused, and their names."""
    errors = error.errors(include_url=False, include_context=False) if optional else []
    places = [details["loc"][0] for details in errors if details["loc"] and details["input"] is None]
    nulls = [str(name) for name in dict.fromkeys(places) if name in optional]
    if not nulls:
        return text, []
    values: dict[str, Any] = from_json(text)
    left = {name: value for name, value in values.items() if not (name in nulls and value is None)}
    return json.dumps(left), nulls if len(left) < len(values) else []


def _expects_another_type(details: ErrorDetails) -> bool:
    kind = details["type"]
    if not isinstance(details["input"], str):
        return False
    if kind in ("literal_error", "enum"):  # among strings a wrong choice is not a misplaced type
        return not {"'", '"'} & set(details.get("ctx", {}).get("expected", "'"))
    return kind.endswith("_type") or kind in _OTHER_TYPE_EXPECTED


def _decode_string(text: str) -> Any:
    """Return the value of the JSON in `text`. Raise `ValueError` if there is no JSON or several, or a string again."""
    if text.lstrip().startswith('"'):
        raise ValueError("a string")
    try:
        if not is_lax(text):
            return from_json(text)
    except ValueError:
        from .lenient_json import parse_lenient

        found = parse_lenient(text)
        if len(found) == 1 and not is_lax(found[0].text):
            return from_json(found[0].text)
    raise ValueError("no JSON, or several values")


def _input_path(root: list[Any], details: ErrorDetails) -> Path | None:
    """Return the path of the string that an error is about, counted from `root`.

    The location of an error also contains parts that index nothing: names of union members and of functions. It does
    not mark them, so each part may be skipped; the path that uses the most parts is the right one.
    """
    reached: dict[Path, Any] = {(0,): root[0]}
    for part in details["loc"]:
        for path, node in list(reached.items()):
            if not isinstance(node, str):  # a string can be indexed too, but contains no values
                with suppress(LookupError, TypeError):
                    reached[(*path, part)] = node[part]
    fitting = [path for path, node in reached.items() if isinstance(node, str) and node == details["input"]]
    return max(fitting, key=len, default=None)


def _format_path(path: Path) -> str:
    if not path:
        return "the whole answer"
    parts = "".join(f".{part}" if isinstance(part, str) else f"[{part}]" for part in path)
    return f"`{parts.removeprefix('.')}`"
