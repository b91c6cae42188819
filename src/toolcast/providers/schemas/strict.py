"""Pydantic's JSON Schema, adapted to the subset that each provider supports.

One traversal for all. The differences are in a `_Dialect`: the keywords a provider supports, their values, and its
rules for objects. An unsupported constraint goes into the description as text, so that the model still reads it;
Pydantic checks it in any case. The result never allows an object that the original structure would not, so responses
need no conversion. If a provider cannot express the structure itself (a map with any keys, if all keys have to be
listed), the original schema is returned with the reason. Pure functions over plain JSON data; an argument is never
changed, but may share parts with the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from ...lazy.lazy_dataclasses import dataclass
from .normalize import (
    WORDS,
    Schema,
    can_be_empty,
    is_constant,
    kind_of,
    normalize,
    references,
    target,
    with_description,
)

_Takes: TypeAlias = Callable[[Any], bool]


class Adapted(NamedTuple):
    """A schema adapted to a provider; or, with the reason in `loose`, the original, which cannot be enforced."""

    schema: Schema
    loose: str | None = None


def openai_strict(schema: Mapping[str, Any]) -> Adapted:
    """Return the schema for OpenAI's `strict`: objects are closed, and all their properties are required.

    A property with a default is required too, and its default described; so is one without that may be null or an empty
    list. Any other optional property makes the schema loose.
    """
    return _adapted(schema, _OPENAI)


def anthropic_schema(schema: Mapping[str, Any]) -> Adapted:
    """Return the schema for Anthropic's `output_config.format`: objects are closed, nothing is recursive."""
    return _adapted(schema, _ANTHROPIC)


def gemini_schema(schema: Mapping[str, Any]) -> Schema:
    """Return the schema for Gemini's `parametersJsonSchema` and `responseJsonSchema`.

    A property that leads back to its own type cannot be required there; its description states that it is required.
    """
    return _adapted(schema, _GEMINI).schema


def ollama_format(schema: Mapping[str, Any]) -> Schema:
    """Return the schema for Ollama's `format`, without the patterns for which it rejects a request."""
    return _adapted(schema, _OLLAMA).schema


def cohere_schema(schema: Mapping[str, Any]) -> Adapted:
    """Return the schema for Cohere's `response_format.json_schema`: without unions, references and open objects."""
    return _adapted(schema, _COHERE)


# -- dialects


@dataclass(frozen=True, slots=True)
class _Dialect:
    """The subset of JSON Schema that one provider supports.

    Attributes:
        keeps: The keywords besides the structure, and which of their values.
        strict: Nothing may be left open: each node has a type, objects have no keys but their properties, all items
            have one schema, and no keyword is among `_REFUSED`.
        complete: Objects have all of their properties.
        closes: Strict objects have `additionalProperties: false`.
        fills: Each object has a required property.
        unions: A value may be of one of several types.
        empty_texts: An enum may have an empty text.
        inlines: Definitions take the place of the references to them.
        recursion: Where a type may contain itself.
        ordered: Objects list the order of their properties.
        limits: The maximums, by the names in `_MEASURES`.
    """

    keeps: Mapping[str, _Takes]
    strict: bool = False
    complete: bool = False
    closes: bool = True
    fills: bool = False
    unions: bool = True
    empty_texts: bool = True
    inlines: bool = False
    recursion: Literal["anywhere", "optional", "never"] = "anywhere"
    ordered: bool = False
    limits: Mapping[str, int] | None = None


def _always(value: Any) -> bool:
    return True


def _among(*values: Any) -> _Takes:
    return lambda value: value in values


def _all_are(*kinds: str) -> _Takes:
    return lambda values: all(kind_of(value) in kinds for value in values)


def _is_plain_pattern(pattern: str) -> bool:
    """Return True for a plain regular expression: without look-around, flags, named groups, inner anchors."""
    return not re.search(r"\(\?(?!:)|\\[1-9AbBzZ]", pattern)


def _is_unanchored_pattern(pattern: str) -> bool:
    """Return True for a plain regular expression without anchors."""
    return not re.search(r"[\^$]", pattern) and _is_plain_pattern(pattern)


def _is_grammar_pattern(pattern: str) -> bool:
    r"""Return True if llama.cpp's converter reads it: anchored, no letter classes (`\d`), no look-around."""
    return pattern[:1] == "^" and pattern[-1:] == "$" and not re.search(r"\(\?(?!:)|\\[0-9A-Za-z]", pattern)


_TEXT: Mapping[str, _Takes] = {"title": _always, "description": _always}
_SCALARS = ("string", "integer", "number", "boolean", "null")
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_INNER = frozenset({"properties", "additionalProperties", "items", "prefixItems"})
# Part of the structure, and no strict dialect takes it.
_REFUSED = frozenset({"not", "if", "allOf", "patternProperties", "dependentSchemas"})


def _keeping(*keywords: str, where: Mapping[str, _Takes]) -> Mapping[str, _Takes]:
    """Return rules that accept `keywords` with any value, and others `where` their value is right."""
    return {**_TEXT, "type": _always, **dict.fromkeys(keywords, _always), **where}


_OPENAI = _Dialect(
    _keeping(
        *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"),
        where={"enum": _all_are(*_SCALARS), "format": _among(*_FORMATS), "pattern": _is_plain_pattern},
    ),
    strict=True,
    complete=True,
    limits={
        "properties": 5_000,
        "levels of objects": 10,
        "enum values": 1_000,
        "characters in names and enum values": 120_000,
        "characters in an enum of more than 250 values": 15_000,
    },
)
_ANTHROPIC = _Dialect(
    _keeping(where={"enum": _all_are(*_SCALARS), "format": _among(*_FORMATS, "uri"), "minItems": _among(0, 1)}),
    strict=True,
    recursion="never",
    limits={"optional properties": 24, "unions": 16},
)
_GEMINI = _Dialect(
    _keeping(
        *("minItems", "maxItems", "minimum", "maximum"),
        where={"enum": _all_are("string", "integer", "number"), "format": _among("date-time", "date", "time")},
    ),
    recursion="optional",
    ordered=True,
    empty_texts=False,  # "enum[0]: cannot be empty"
)
# Source: docs.cohere.com/docs/structured-outputs, "Specifying a schema".
_COHERE = _Dialect(
    _keeping(
        where={
            "enum": _all_are(*_SCALARS),
            "format": _among("date-time", "uuid", "date", "time"),
            "pattern": _is_unanchored_pattern,
        }
    ),
    strict=True,
    closes=False,
    fills=True,
    unions=False,
    inlines=True,
    recursion="never",
)
_OLLAMA = _Dialect({**dict.fromkeys(WORDS, _always), **_keeping(where={"pattern": _is_grammar_pattern})})


# -- the traversal


class _Loose(Exception):
    """Raised and caught here: the reason that a schema has no form in a dialect."""


def _adapted(schema: Mapping[str, Any], dialect: _Dialect) -> Adapted:
    try:
        made = _Rewriting(dialect, schema).whole()
    except _Loose as why:
        return Adapted(dict(schema), str(why))
    for measure, limit in (dialect.limits or {}).items():
        if (count := _MEASURES[measure](made)) > limit:
            return Adapted(dict(schema), f"it has {count} {measure}, more than {limit}")
    return Adapted(made)


class _Rewriting:
    """One rewrite. `place` is the path of the current node, for reasons; empty at the root."""

    def __init__(self, dialect: _Dialect, schema: Mapping[str, Any]) -> None:
        self._dialect = dialect
        root = {key: value for key, value in schema.items() if key != "$defs"}
        self._definitions: dict[str, Any] = {"": root, **schema.get("$defs", {})}
        self._reach: dict[str, set[str]] = {}
        self._inside = ""

    def whole(self) -> Schema:
        """Return the whole schema in the dialect. Raise `_Loose` if it has no form."""
        root = self._node(self._definitions[""], "")
        if self._dialect.strict and root.get("type") != "object":
            raise _Loose("its root is no object")
        if len(self._definitions) == 1 or self._dialect.inlines:
            return root
        return {**root, "$defs": {name: self._definition(name) for name in self._definitions if name}}

    def _definition(self, name: str) -> Schema:
        self._inside = name
        return self._node(self._definitions[name], name)

    def _node(self, schema: Any, place: str) -> Schema:
        body = normalize(schema)
        if self._dialect.strict and (refused := _REFUSED & body.keys()):
            raise _Loose(f"{_named(place)} has {min(refused)!r}")
        if isinstance(body.get("$ref"), str):
            return self._reference(body, place)
        if "anyOf" in body and not _INNER & body.keys():  # next to a structure it only constrains
            if not self._dialect.unions:
                raise _Loose(f"{_named(place)} is a union")
            beside = {key: value for key, value in body.items() if key != "anyOf"}
            return {**self._kept(beside), "anyOf": [self._node(branch, place) for branch in body["anyOf"]]}
        made = self._kept(body)
        if body.get("type") == "object" or "properties" in body:
            return made | self._object(body, place)
        if body.get("type") == "array":
            return made | self._array(body, place)
        if self._dialect.strict and "type" not in body:
            raise _Loose(f"{_named(place)} can be anything")
        return made

    def _kept(self, body: Mapping[str, Any]) -> Schema:
        """Return the supported keywords of `body`, without its structure; the rest as text.

        Constraints need a type beside them.
        """
        if not self._dialect.empty_texts and "" in body.get("enum", ()):
            others = [value for value in body["enum"] if value != ""]
            known = {key: value for key, value in body.items() if key != "enum"} | ({"enum": others} if others else {})
            body = with_description(known, "It may be an empty text." if others else "It is an empty text.")
        keeps = self._dialect.keeps if "type" in body else _TEXT
        made = {key: value for key, value in body.items() if key in keeps and keeps[key](value)}
        return with_description(made, *(WORDS[key](body[key]) for key in WORDS if key in body and key not in made))

    def _reference(self, body: Mapping[str, Any], place: str) -> Schema:
        ref = str(body["$ref"])
        name = target(ref)
        if name not in self._definitions:
            raise _Loose(f"{_named(place)} refers to {ref!r}, which is not among its $defs")
        if self._dialect.recursion == "never" and name in self._reachable(name):
            raise _Loose(f"{_named(place)} is recursive")
        keywords = self._kept({key: value for key, value in body.items() if key != "$ref"})
        if self._dialect.inlines:
            return self._node(self._definitions[name], place) | keywords
        return {"anyOf": [{"$ref": ref}], **keywords} if keywords else {"$ref": ref}

    def _object(self, body: Mapping[str, Any], place: str) -> Schema:
        properties = cast("Mapping[str, Any]", body.get("properties", {}))
        more = body.get("additionalProperties", "properties" not in body)
        # Pydantic leaves it out if a model ignores other keys: closing such an object loses nothing.
        if self._dialect.strict and more is not False:
            raise _Loose(f"{_named(place)} is an open map")
        # An object without `properties` may have any, so none are listed.
        made: Schema = {"type": "object", **({"properties": {}} if "properties" in body else {}), "required": []}
        for name, schema in properties.items():
            inside = f"{place}.{name}" if place else name
            made["properties"][name] = self._node(schema, inside)
            self._require(made, name, normalize(schema), inside, listed=name in body.get("required", ()))
        if self._dialect.fills and not made["required"]:
            raise _Loose(f"{_named(place)} has no required property")
        if not (made["required"] or self._dialect.complete):
            del made["required"]
        if self._dialect.ordered and properties:
            made["propertyOrdering"] = list(properties)
        return made | self._additional(body, f"{place}.*")

    def _require(self, made: Schema, name: str, schema: Schema, place: str, *, listed: bool) -> None:
        """Make the property required, if it is or has to be."""
        if listed and self._dialect.recursion == "optional" and self._leads_back(schema):
            made["properties"][name] = with_description(made["properties"][name], "Required.")
            return
        if self._dialect.complete and not listed and not can_be_empty(schema, self._definitions):
            why = "has a default that it does not take" if "default" in schema else "may be absent and has no default"
            raise _Loose(f"{_named(place)} {why}")
        if listed or self._dialect.complete or is_constant(schema):
            made["required"].append(name)

    def _additional(self, body: Mapping[str, Any], place: str) -> Schema:
        if self._dialect.strict:
            return {"additionalProperties": False} if self._dialect.closes else {}
        if "additionalProperties" not in body:
            return {}
        more: Any = body["additionalProperties"]
        return {"additionalProperties": more if isinstance(more, bool) else self._node(more, place)}

    def _array(self, body: Mapping[str, Any], place: str) -> Schema:
        more: Any = body.get("items")
        parts = [self._node(part, f"{place}[{number}]") for number, part in enumerate(body.get("prefixItems", ()))]
        rest: Schema = {}
        if isinstance(more, Mapping) or (self._dialect.strict and not parts):
            rest["items"] = self._node(more, f"{place}[]")
        if not parts:
            return rest
        if not self._dialect.strict:
            return {"prefixItems": parts, **rest}
        first, *others = map(_untitled, [*parts, *rest.values()])
        if any(other != first for other in others):
            raise _Loose(f"{_named(place)} is a tuple of different types")
        return {"items": first}

    def _leads_back(self, schema: Any) -> bool:
        """Return True if a part of this schema may contain the definition that is being rewritten."""
        return any(self._inside in {name, *self._reachable(name)} for name in references(schema))

    def _reachable(self, name: str) -> set[str]:
        """Return the names that the definition `name` refers to, directly or through others."""
        if name not in self._reach:
            found: set[str] = set()
            waiting = [name]
            while waiting:
                new = set(references(self._definitions.get(waiting.pop()))) - found
                found |= new
                waiting += new
            self._reach[name] = found
        return self._reach[name]


def _named(place: str) -> str:
    return f"{place!r}" if place else "the schema"


def _untitled(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "title"}


# -- limits


def _children(node: Schema) -> Iterator[Schema]:
    yield from node.get("properties", {}).values()
    yield from node.get("anyOf", ())
    if "items" in node:
        yield node["items"]


def _within(node: Schema) -> Iterator[Schema]:
    """Yield every schema in an adapted schema, and itself."""
    yield node
    for child in (*_children(node), *node.get("$defs", {}).values()):
        yield from _within(child)


def _size(schema: Schema, keyword: str) -> int:
    return sum(len(node.get(keyword, ())) for node in _within(schema))


def _letters(values: Iterable[Any]) -> int:
    return sum(len(str(value)) for value in values)


def _levels(node: Schema, definitions: Mapping[str, Schema], levels: dict[str, int]) -> int:
    """Return the depth of nested objects, down to where a type contains itself."""
    if "$ref" not in node:
        deepest = max((_levels(child, definitions, levels) for child in _children(node)), default=0)
        return deepest + (node.get("type") == "object")
    name = target(node["$ref"])
    if name not in levels:
        levels[name] = 0
        levels[name] = _levels(definitions.get(name, {}), definitions, levels)
    return levels[name]


_MEASURES: Mapping[str, Callable[[Schema], int]] = {
    "properties": lambda schema: _size(schema, "properties"),
    "optional properties": lambda schema: _size(schema, "properties") - _size(schema, "required"),
    "unions": lambda schema: sum(len(node.get("anyOf", ())) > 1 for node in _within(schema)),
    "levels of objects": lambda schema: _levels(schema, schema.get("$defs", {}), {}),
    "enum values": lambda schema: _size(schema, "enum"),
    "characters in names and enum values": lambda schema: sum(
        _letters((*node.get("properties", ()), *node.get("$defs", ()), *node.get("enum", ())))
        for node in _within(schema)
    ),
    "characters in an enum of more than 250 values": lambda schema: max(
        (_letters(enum) for node in _within(schema) if len(enum := node.get("enum", ())) > 250), default=0
    ),
}
