"""A JSON Schema in one normal form, and its constraints as text.

JSON Schema has several forms for one meaning: `const` is an `enum` of one, `oneOf` a kind of `anyOf`, a list of types a
union. `plain` leaves one of them, for one level of a schema. `WORDS` describes a keyword for the model, if a provider
does not support the keyword.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

Schema: TypeAlias = dict[str, Any]


def normalize(schema: Any) -> Schema:
    """Return `schema` in the normal form."""
    if not isinstance(schema, Mapping):
        return {"not": {}} if schema is False else {}
    body = dict(cast("Mapping[str, Any]", schema))
    if "oneOf" in body:
        body["anyOf"] = body.pop("oneOf")
    if len(parts := body.get("allOf", ())) == 1 and not (normalize(parts[0]).keys() & body.keys() - _ASIDE):
        del body["allOf"]
        return normalize({**normalize(parts[0]), **body})
    if len(pattern := body.get("patternProperties", {})) == 1 and "additionalProperties" not in body:
        del body["patternProperties"]
        [(keys, values)] = pattern.items()
        body |= {"additionalProperties": values, "propertyNames": {"pattern": keys}}
    if "const" in body:
        body["enum"] = [body.pop("const")]
    branches = _by_kind(body)
    if len(branches) == 1:
        return {key: value for key, value in body.items() if key != "enum"} | branches[0]
    if branches:
        return {key: value for key, value in body.items() if key in _ASIDE} | {"anyOf": branches}
    return body


# Annotations, which constrain nothing.
_ASIDE = frozenset({"title", "description", "default", "examples", "deprecated"})


def _by_kind(body: Mapping[str, Any]) -> list[Schema]:
    """Return `enum`, or a list of types, as one schema for each type."""
    if "enum" in body:
        kinds: dict[str, list[Any]] = {}
        for value in body["enum"]:
            kinds.setdefault(kind_of(value), []).append(value)
        return [{"type": kind} if kind == "null" else {"type": kind, "enum": kinds[kind]} for kind in kinds]
    if not isinstance(body.get("type"), list):
        return []
    own = {key: value for key, value in body.items() if key not in _ASIDE}
    return [{"type": kind} if kind in ("null", "boolean") else {**own, "type": kind} for kind in body["type"]]


_KINDS: Mapping[type[Any], str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
}


def kind_of(value: object) -> str:
    """Return the JSON type of a value."""
    return _KINDS.get(type(value), "object")


def is_constant(body: Mapping[str, Any]) -> bool:
    """Return True if a property can only have its default, as the tag of a member of a union does."""
    return "default" in body and body.get("enum") == [body["default"]]


def can_be_empty(body: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    """Return True if an optional property can also be present and empty or null."""
    branches = [_found(normalize(branch), definitions) for branch in (body, *body.get("anyOf", ()))]
    if any(branch.get("type") == "null" for branch in branches):
        return True
    if "default" in body:
        return any(_takes(branch, body["default"], definitions) for branch in branches[len(branches) > 1 :])
    return body.get("type") == "array" and not body.get("minItems")


def _matches(text: Any, pattern: Any) -> bool:
    """Return False for a text without a match. Pydantic's patterns are mostly Python's; others are not looked at."""
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return True


_NEVER_EMPTY: Final = ("date", "time", "duration", "uuid", "email", "ipv", "uri")
"""The beginnings of the names of formats that no empty text has."""
_LIMITS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
    "minLength": lambda value, least: len(value) >= least,
    "maxLength": lambda value, most: len(value) <= most,
    "minItems": lambda value, least: len(value) >= least,
    "maxItems": lambda value, most: len(value) <= most,
    "enum": lambda value, values: value in values,
    "pattern": _matches,
    "format": lambda value, name: value != "" or not name.startswith(_NEVER_EMPTY),
}


def _found(body: Schema, definitions: Mapping[str, Any]) -> Schema:
    """Return a schema with that of the definition which it refers to."""
    return normalize(definitions.get(target(body["$ref"]))) | body if "$ref" in body else body


def _takes(body: Mapping[str, Any], value: Any, definitions: Mapping[str, Any]) -> bool:
    """Return False for a value of another type, or beyond a limit of this one, and for items that it does not take."""
    kind = kind_of(value)
    if body.get("type", kind) not in (kind, "number" if kind == "integer" else kind):
        return False
    if not all(fits(value, body[limit]) for limit, fits in _LIMITS.items() if limit in body):
        return False
    if kind != "array" or "items" not in body:
        return True
    items = _found(normalize(body["items"]), definitions)
    return all(_takes(items, item, definitions) for item in value)


def target(ref: str) -> str:
    """Return the name of the definition that a `$ref` points to; empty for the root."""
    return "" if ref == "#" else ref.removeprefix("#/$defs/")


def references(schema: Any) -> Iterator[str]:
    """Yield the names of the definitions that a schema refers to itself."""
    return (target(node["$ref"]) for node in _nodes(schema) if isinstance(node.get("$ref"), str))


def _nodes(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every JSON object in `value`."""
    if isinstance(value, Mapping):
        node = cast("Mapping[str, Any]", value)
        yield node
        value = list(node.values())
    if isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _nodes(inner)


# -- as text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(_json, values))


def _count(phrase: str, thing: str) -> Callable[[Any], str]:
    return lambda number: f"{phrase} {number} {thing if number == 1 else f'{thing}s'}."


def _if_true(phrase: str) -> Callable[[Any], str]:
    return lambda value: phrase if value else ""


def _phrase(phrase: str) -> Callable[[Any], str]:
    return lambda value: phrase.format(value if isinstance(value, str) else _json(value))


WORDS: Mapping[str, Callable[[Any], str]] = {
    "enum": lambda values: f"{'One of' if len(values) > 1 else 'Always'}: {_listed(values)}.",
    "format": _phrase("Format: {}."),
    "pattern": _phrase("Matches the pattern `{}`."),
    "minLength": _count("At least", "character"),
    "maxLength": _count("At most", "character"),
    "minimum": _phrase("At least {}."),
    "exclusiveMinimum": _phrase("More than {}."),
    "maximum": _phrase("At most {}."),
    "exclusiveMaximum": _phrase("Less than {}."),
    "multipleOf": _phrase("A multiple of {}."),
    "minItems": _count("At least", "item"),
    "maxItems": _count("At most", "item"),
    "uniqueItems": _if_true("No item twice."),
    "contains": _phrase("Contains an item that fits {}."),
    "minContains": _count("At least", "such item"),
    "maxContains": _count("At most", "such item"),
    "minProperties": _count("At least", "key"),
    "maxProperties": _count("At most", "key"),
    "propertyNames": _phrase("Keys fit {}."),
    "patternProperties": _phrase("Keys that match a pattern here have values that fit: {}."),
    "dependentRequired": _phrase("A key here needs the others beside it: {}."),
    "dependentSchemas": _phrase("Where it has a key here, it fits what stands there: {}."),
    "allOf": _phrase("Fits all of {}."),
    "anyOf": _phrase("Fits one of {}."),
    "not": _phrase("Does not fit {}."),
    "if": _phrase("If it fits {}:"),
    "then": _phrase("then it fits {};"),
    "else": _phrase("otherwise it fits {}."),
    "contentEncoding": _phrase("Encoded as {}."),
    "contentMediaType": _phrase("Holds {}."),
    "default": lambda value: f"Default: {_json(value)}.",
    "examples": lambda values: f"Examples: {_listed(values)}.",
    "deprecated": _if_true("Deprecated."),
}


def with_description(schema: Schema, *sentences: str) -> Schema:
    """Return `schema` with `sentences` appended to its description. A bare reference is wrapped for it."""
    phrases = " ".join(filter(None, sentences))
    if not phrases:
        return schema
    given = str(schema.get("description", "")).rstrip()
    ended = f"{given} " if not given or given[-1] in ".!?:;" else f"{given}. "
    return {**({"anyOf": [schema]} if "$ref" in schema else schema), "description": ended.lstrip() + phrases}
