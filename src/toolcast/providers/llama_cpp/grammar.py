"""The grammar of tool calls, which constrains a model to write nothing but a call of one of the tools.

llama.cpp does not obey `tool_choice`, so llguidance enforces the call while tokens are sampled. A schema that it does
not support is silently not enforced, and an unconstrained small model repeats itself without end; so Pydantic's schema
is rewritten: only keywords that are tested to work remain, every property is written, and everything that could
continue without end gets a limit. The result is stricter than the original, and nearly all that matches it matches the
original (unique items, for one, are left to validation). Pure functions over plain JSON data.

References stay references, so that a type used twice is written once. A type that contains itself is unrolled to
`SchemaLimits.recursion` levels; below the last one it is impossible, and a type that needs an impossible one is
impossible in turn: a list of it is empty, a union leaves it out, an optional property is omitted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, cast

from ...errors import BadRequest
from ...lazy.lazy_dataclasses import dataclass
from ...values.tool_spec import ToolSpec

Schema: TypeAlias = dict[str, Any]
_Rewrite: TypeAlias = Callable[[Any, Mapping[str, Any]], Schema | None]


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """The limits of a response where its schema has none.

    Args:
        string: Characters of a string.
        items: Elements of a list.
        keys: Entries of a dict.
        number: The largest absolute value of a number.
        step: The smallest difference of two numbers that are not integers.
        recursion: Levels of a type that contains itself.
        calls: Calls in one response.
    """

    string: int = 200
    items: int = 20
    keys: int = 10
    number: float = 1_000_000_000
    step: float = 0.0001
    recursion: int = 3
    calls: int = 5


_SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}

_DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
# Formats that llguidance defines more widely than Pydantic parses, as patterns. Days stop at 28, which
# every month has.
_FORMATS = {
    "date-time": rf"^{_DATE}T{_TIME}(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])$",
    "time": rf"^{_TIME}(Z|[+-](0[0-9]|1[0-3]):[0-5][0-9])?$",
    "duration": r"^P([1-9][0-9]{0,2}D(T[1-9][0-9]?[HMS])?|T[1-9][0-9]?H([1-9][0-9]?M)?|T[1-9][0-9]?[MS])$",
    "uri": r"^https?://[a-z0-9][a-z0-9-]{0,30}(\.[a-z0-9][a-z0-9-]{0,30}){1,3}(/[A-Za-z0-9._~-]{1,40}){0,4}/?$",
}
_NATIVE_FORMATS = ("date", "uuid", "ipv4", "email")
_KEYS = "^[A-Za-z0-9_ -]{1,30}$"
# Besides a number, Pydantic's other form of a Decimal: a string with this pattern, or in some versions
# with none. (So `float | str` is written as a number, too.)
_DECIMAL = "^(?!^[-+.]*$)"


def grammar(schema: Schema, *, or_text: bool = False) -> str:
    """Return the llguidance grammar of a schema made here; `or_text` also allows any text that begins otherwise."""
    body = json.dumps({**schema, "x-guidance": _SPACING}, ensure_ascii=False)
    start = "start: call | TEXT\nTEXT: /[^{\\s](.|\\n)*/\ncall: " if or_text else "start: "
    return f"%llguidance {{}}\n{start}%json {body}"


def calls_schema(
    tools: Sequence[ToolSpec], *, parallel: bool = False, named: bool = False, limits: SchemaLimits | None = None
) -> Schema:
    """Return the schema of a response that calls one of `tools`, or several times some of them if `parallel`.

    One tool, unless `named`: its arguments. Else: `{"name", "arguments"}`. `parallel`: `{"calls": [...]}` of either.
    """
    limits = limits or SchemaLimits()
    rewriting = _Rewriting(limits)
    roots = {tool.name: rewriting.root(tool.parameters, f"tool {tool.name!r}") for tool in tools}
    if len(tools) == 1 and not named:
        call = roots[tools[0].name]
    else:
        calls = [_object({"name": {"const": name}, "arguments": root}) for name, root in roots.items()]
        call = calls[0] if len(calls) == 1 else {"anyOf": calls}
    if parallel:
        call = _object({"calls": {"type": "array", "items": call, "minItems": 1, "maxItems": limits.calls}})
    return rewriting.finish(call)


def _object(properties: Mapping[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _one_of(branches: Iterable[Schema | None]) -> Schema | None:
    possible: list[Schema] = []
    for branch in branches:
        if branch is not None and branch not in possible:
            possible.append(branch)
    if len(possible) < 2:
        return possible[0] if possible else None
    return {"anyOf": possible}


class _Definitions:
    """The definitions of one schema, and which of them contain which."""

    def __init__(self, bodies: Mapping[str, Any]) -> None:
        self.bodies = bodies
        self._within: dict[str, set[str]] = {}

    def within(self, name: str) -> set[str]:
        """Return the names that the definition `name` refers to, directly or through others."""
        if name not in self._within:
            found: set[str] = set()
            waiting = [name]
            while waiting:
                new = set(_references(self.bodies.get(waiting.pop()))) - found
                found |= new
                waiting += new
            self._within[name] = found
        return self._within[name]


def _references(schema: Any) -> Iterable[str]:
    body = _mapping(schema)
    if isinstance(name := body.get("$ref"), str):
        yield name.removeprefix("#/$defs/")
    inner = cast("Iterable[Any]", schema if isinstance(schema, list) else body.values())
    for value in inner:
        yield from _references(value)


def _list(value: Any) -> list[object]:
    return cast("list[object]", value if isinstance(value, list) else [value])


def _mapping(schema: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}


class _Rewriting:
    """One rewrite: the limits, and the definitions made so far. Methods return None for an impossible schema."""

    def __init__(self, limits: SchemaLimits) -> None:
        self._limits = limits
        self._made: dict[tuple[int, str, int], tuple[str, Schema | None]] = {}
        self._roots = 0
        self._definitions = _Definitions({})
        self._inside = ""
        self._levels = 0

    def root(self, schema: Mapping[str, Any], name: str) -> Schema:
        """Return the rewritten schema of one tool, which has its own definitions."""
        self._roots += 1
        self._definitions = _Definitions(schema.get("$defs", {}))
        rewritten = self._any(schema)
        if rewritten is None:
            raise BadRequest(
                f"{name}: a value of this type would contain itself without end. Make the recursive field optional."
            )
        return rewritten

    def finish(self, schema: Schema) -> Schema:
        """Return `schema` with the definitions it refers to."""
        made = {name: body for name, body in self._made.values() if body is not None}
        return {**schema, "$defs": made} if made else schema

    def _any(self, schema: Any) -> Schema | None:
        body = _mapping(schema)  # empty if it is absent, or true
        for keyword, rewrite in self._by_keyword.items():
            if keyword in body:
                return rewrite(self, body)
        types: Any = body.get("type")
        return _one_of(self._by_type(body, type) for type in _list(types))

    def _by_type(self, schema: Mapping[str, Any], type: Any) -> Schema | None:
        rewrite = self._types.get(type)
        return rewrite(self, schema) if rewrite is not None else self._anything()

    def _anything(self) -> Schema | None:
        return _one_of(self._by_type({}, type) for type in ("string", "number", "boolean", "null"))

    def _reference(self, schema: Mapping[str, Any]) -> Schema | None:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        if name not in self._definitions.bodies:
            raise BadRequest(f"the schema refers to {schema['$ref']!r}, which is not among its $defs")
        outer = self._inside, self._levels
        recursive = self._inside in self._definitions.within(name)
        self._inside, self._levels = name, self._levels - 1 if recursive else self._limits.recursion
        try:
            made = self._definition(name) if self._levels else None
        finally:
            self._inside, self._levels = outer
        return {"$ref": f"#/$defs/{made}"} if made is not None else None

    def _definition(self, name: str) -> str | None:
        """Return the name of the definition in the new schema; None if it is impossible."""
        key = (self._roots, name, self._levels)
        if key not in self._made:
            body = self._any(self._definitions.bodies[name])
            self._made[key] = (f"d{len(self._made)}", body)
        made, body = self._made[key]
        return made if body is not None else None

    def _union(self, schema: Mapping[str, Any]) -> Schema | None:
        branches: list[Any] = schema.get("anyOf") or schema.get("oneOf") or []
        if any(_is_number(branch) for branch in branches):
            branches = [branch for branch in branches if not _is_decimal_text(branch)]
        return _one_of(self._any(branch) for branch in branches)

    def _all(self, schema: Mapping[str, Any]) -> Schema | None:
        merged = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            merged |= part
        return self._any(merged)

    def _object(self, schema: Mapping[str, Any]) -> Schema | None:
        if "properties" not in schema:
            return self._dict(schema)
        properties: dict[str, Schema] = {}
        for name, value in schema["properties"].items():
            rewritten = self._any(value)
            if rewritten is not None:
                properties[name] = rewritten
            elif name in schema.get("required", ()):
                return None
        return _object(properties)

    def _dict(self, schema: Mapping[str, Any]) -> Schema | None:
        values = schema.get("patternProperties") or {
            _key_pattern(schema.get("propertyNames")): schema.get("additionalProperties")
        }
        if schema.get("additionalProperties") is False and "patternProperties" not in schema:
            return _object({})
        rewritten = {_without_look_ahead(key): self._any(value) for key, value in values.items()}
        possible = {key: value for key, value in rewritten.items() if value is not None}
        least = schema.get("minProperties", 0)
        if not possible:
            return None if least else _object({})
        most = schema.get("maxProperties", max(self._limits.keys, least))
        bounds = {"minProperties": least} if least else {}
        return {
            "type": "object",
            "patternProperties": possible,
            "additionalProperties": False,
            **bounds,
            "maxProperties": most,
        }

    def _array(self, schema: Mapping[str, Any]) -> Schema | None:
        least = schema.get("minItems", 0)
        if "prefixItems" in schema:
            return self._tuple(schema["prefixItems"])
        items = self._any(schema.get("items"))
        if items is None:
            return None if least else {"type": "array", "items": {"type": "null"}, "maxItems": 0}
        bounds = {"minItems": least} if least else {}
        most = schema.get("maxItems", max(self._limits.items, least))
        return {"type": "array", "items": items, **bounds, "maxItems": most}

    def _tuple(self, parts: Sequence[Any]) -> Schema | None:
        items = [self._any(part) for part in parts]
        if None in items:
            return None
        count = len(items)
        return {"type": "array", "prefixItems": items, "items": False, "minItems": count, "maxItems": count}

    def _string(self, schema: Mapping[str, Any]) -> Schema:
        least = {"minLength": schema["minLength"]} if schema.get("minLength") else {}
        most = {"maxLength": schema.get("maxLength", max(self._limits.string, schema.get("minLength", 0)))}
        if "pattern" in schema:
            return {"type": "string", "pattern": _without_look_ahead(schema["pattern"]), **least, **most}
        kind = schema.get("format")
        if kind in _NATIVE_FORMATS:
            return {"type": "string", "format": kind}
        if kind in _FORMATS:
            return {"type": "string", "pattern": _FORMATS[kind]}
        return {"type": "string", **least, **most}

    def _integer(self, schema: Mapping[str, Any]) -> Schema:
        bounds = _bounds(schema, int(self._limits.number))
        if "multipleOf" in schema:
            bounds["multipleOf"] = schema["multipleOf"]
        return {"type": "integer", **bounds}

    def _number(self, schema: Mapping[str, Any]) -> Schema:
        bounds = _bounds(schema, self._limits.number)
        step = {"multipleOf": _step(bounds, self._limits.step)}
        return {"type": "number", **bounds, **step, **_given(schema, ("multipleOf",))}

    def _boolean(self, schema: Mapping[str, Any]) -> Schema:
        return {"type": "boolean"}

    def _null(self, schema: Mapping[str, Any]) -> Schema:
        return {"type": "null"}

    def _choice(self, schema: Mapping[str, Any]) -> Schema | None:
        return _given(schema, ("const",) if "const" in schema else ("enum",))

    # In order of precedence: a reference before a union, a union before a type.
    _by_keyword: ClassVar[Mapping[str, _Rewrite]] = {
        "$ref": _reference,
        "const": _choice,
        "enum": _choice,
        "allOf": _all,
        "anyOf": _union,
        "oneOf": _union,
    }
    _types: ClassVar[Mapping[Any, _Rewrite]] = {
        "object": _object,
        "array": _array,
        "string": _string,
        "integer": _integer,
        "number": _number,
        "boolean": _boolean,
        "null": _null,
    }


_LOWER = ("minimum", "exclusiveMinimum")
_UPPER = ("maximum", "exclusiveMaximum")


def _given(schema: Mapping[str, Any], keywords: Iterable[str]) -> Schema:
    return {keyword: schema[keyword] for keyword in keywords if keyword in schema}


def _bounds(schema: Mapping[str, Any], limit: float) -> Schema:
    """Return the bounds of a number; a missing one is `limit` from zero, or from the other if that is far away."""
    bounds = _given(schema, (*_LOWER, *_UPPER))
    low = max((bounds[key] for key in _LOWER if key in bounds), default=None)
    high = min((bounds[key] for key in _UPPER if key in bounds), default=None)
    if low is None:
        bounds["minimum"] = -limit if high is None or high > -limit else high - limit
    if high is None:
        bounds["maximum"] = limit if low is None or low < limit else low + limit
    return bounds


def _step(bounds: Mapping[str, Any], step: float) -> float:
    """Return the difference of two neighbouring numbers: `step`, or less if the bounds are close together."""
    low = max(bounds[key] for key in _LOWER if key in bounds)
    high = min(bounds[key] for key in _UPPER if key in bounds)
    while 0 < high - low < 10 * step:
        step /= 10
    return float(f"{step:.0e}")  # 1e-05, where dividing gives 1.0000000000000001e-05


def _is_number(schema: Any) -> bool:
    return _mapping(schema).get("type") == "number"


def _is_decimal_text(schema: Any) -> bool:
    return schema == {"type": "string"} or str(_mapping(schema).get("pattern", "")).startswith(_DECIMAL)


def _key_pattern(names: Any) -> str:
    """Return the pattern of a dict's keys, from its `propertyNames`."""
    if enum := _mapping(names).get("enum"):
        return f"^({'|'.join(map(re.escape, enum))})$"
    return str(_mapping(names).get("pattern", _KEYS))


def _without_look_ahead(pattern: str) -> str:
    """Return `pattern` without look-around, which no grammar supports; it then allows more."""
    while found := re.search(r"\(\?<?[=!]", pattern):
        end = _closing(pattern, found.end())
        pattern = pattern[: found.start()] + pattern[end:]
    return pattern


def _closing(pattern: str, position: int) -> int:
    """Return the position after the bracket that closes the group which contains `position`."""
    depth, in_class = 1, False
    while position < len(pattern) and depth:
        character = pattern[position]
        if character == "\\":
            position += 1
        elif in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
        else:
            depth += (character == "(") - (character == ")")
        position += 1
    return position
