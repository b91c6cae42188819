"""JSON values that fit a JSON Schema, for the answers of an `AutoLLM`.

A schema cannot express every rule of a type, so a validator has the last word. It names the places of the values that
it refuses, and `find_value` tries others there: another member of a union, another form of a string, another subset of
the optional properties. Each value depends on the seed and on its own place alone, so the others stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final, TypeAlias

from ..errors import ToolcastError
from ..providers.schemas.normalize import normalize
from ..text.json_text import json_text
from ..values.plain_data import HIDDEN
from .string_values import Size, make_text, words

Path: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = Sequence[str | int]
Schema: TypeAlias = dict[str, Any]

_TRIES: Final = 80
_ENOUGH: Final = 400
"""The number of values after which all further ones are as small as possible."""
_DEPTH: Final = {"minimal": 0, "typical": 3, "maximal": 4}
_CONTENT: Final = "[content]"
_KEY: Final = "[key]"  # as Pydantic names the place of a key


class NoValue(ToolcastError):
    """The error for a schema for which no valid value was found."""


async def find_value(
    schema: Mapping[str, Any], seed: str, size: Size, refused: Callable[[Any], Awaitable[Sequence[tuple[Place, str]]]]
) -> Any:
    """Return a JSON value for `schema` that is not refused.

    Args:
        schema: The JSON Schema.
        seed: The value depends on it, and on nothing else that changes.
        size: The size of the value.
        refused: Returns the places in a value that are wrong, each with the reason; an empty list for a valid value.

    Raises:
        NoValue: All values that were tried are refused.
    """
    tries: dict[Path, int] = {}
    problems: Sequence[tuple[Place, str]] = [((), "")]
    for number in range(_TRIES):
        maker = _ValueMaker(schema, seed, size, tries)
        value = maker.make()
        problems = await refused(value)
        if not problems:
            return value
        for path in {path for place, _ in problems for path in maker.places_of(place)}:
            tries[path] = tries.get(path, 0) + 1
            if number % 6 == 5:  # what is around it may be the reason
                tries[path[:-1]] = tries.get(path[:-1], 0) + 1
    wrong, reason = problems[0]
    where = ".".join(map(str, wrong)) or "the value"
    raise NoValue(f"no valid value was found in {_TRIES} tries; the last one failed at {where}: {reason}")


class _ValueMaker:
    """A maker of one value. `tries` has the number of values that were refused at a place."""

    def __init__(self, schema: Mapping[str, Any], seed: str, size: Size, tries: Mapping[Path, int]) -> None:
        self._schema = schema
        self._seed = seed
        self._size: Size = size
        self._tries = tries
        self._made: list[Path] = []
        self._definitions: Mapping[str, Any] = schema.get("$defs", {})
        self._heights = _heights(self._definitions)

    def make(self) -> Any:
        """Return the value."""
        if self._is_endless(self._schema):
            raise NoValue("each value contains another one, without an end")
        return self._value(self._schema, (), 0)

    def places_of(self, place: Place) -> list[Path]:
        """Return the places in the value that an error of Pydantic is about; it has names of union members as well."""
        found = [path for path in self._made if _is_within(path, place)]
        longest = max(map(len, found))
        return [path for path in found if len(path) == longest]

    def _value(self, schema: Any, path: Path, more: int) -> Any:
        """Return the value at `path`; with `more` tries, as it must differ from another."""
        self._made.append(path)
        own = self._tries.get(path, 0)
        around = sum([self._tries.get(path[:end], 0) for end in range(len(path))])
        # A form that is found stays, while what is around it changes.
        tries = more + (own or min(around, 1))
        # At times all values of a type are equal: a validator may compare two of them.
        seen = own + around
        chance = Random(f"{self._seed} {'' if seen % 3 == 2 else path} {seen + more}")
        body = self._resolved(schema)
        while "anyOf" in body:
            branches = [self._resolved({**_without(body, "anyOf"), **normalize(each)}) for each in body["anyOf"]]
            tries, body = self._pick(branches, chance, tries, path)
        kind = body.get("type")
        if "enum" in body:
            return self._pick_constant(body["enum"], chance, tries)
        if kind == "object" or (kind is None and "properties" in body):
            return self._object(body, path, chance, tries)
        if kind == "array" or (kind is None and ("items" in body or "prefixItems" in body)):
            return self._array(body, path, chance, tries)
        if kind in ("integer", "number"):
            return _number(body, self._size, chance, tries)
        if kind == "string" and "contentSchema" in body:
            return json_text(self._value(body["contentSchema"], (*path, _CONTENT), more))
        if kind == "string":
            return make_text(body, self._size, chance, tries)
        if kind == "boolean":
            return bool((self._size == "maximal") ^ tries % 2 if self._size != "typical" else chance.random() < 0.5)
        if kind == "null":
            return None
        return _anything(self._size, chance, tries)

    def _resolved(self, schema: Any) -> Schema:
        """Return a schema in normal form, without a reference at its root."""
        body = normalize(schema)
        while "$ref" in body or "allOf" in body:
            if "$ref" in body:
                name = str(body["$ref"]).rpartition("/")[2]
                body = normalize({**normalize(self._definitions.get(name, {})), **_without(body, "$ref")})
            else:
                body = normalize(_merged([_without(body, "allOf"), *map(self._resolved, body["allOf"])]))
        return body

    def _pick(self, branches: Sequence[Schema], chance: Random, tries: int, path: Path) -> tuple[int, Schema]:
        """Return the member of a union for this try, and the number of tries that are left for its own choices."""
        heights = [_height(branch, self._heights) for branch in branches]
        order = sorted(range(len(branches)), key=lambda at: heights[at])
        if not self._closing(path):
            order = [at for at in range(len(branches)) if heights[at] < math.inf]
            if self._size == "typical":
                chance.shuffle(order)
            else:
                order.sort(key=lambda at: -heights[at])
            order.sort(key=lambda at: branches[at].get("type") == "null")
        elif self._size == "minimal":
            order.sort(key=lambda at: branches[at].get("type") != "null")
        rounds, at = divmod(tries, len(order))
        return rounds, branches[order[at]]

    def _pick_constant(self, values: Sequence[Any], chance: Random, tries: int) -> Any:
        first = {"minimal": 0, "maximal": len(values) - 1}.get(self._size, chance.randrange(len(values)))
        return values[(first + tries) % len(values)]

    def _is_endless(self, schema: Any) -> bool:
        """Return whether each value of a schema contains another one."""
        return _height(normalize(schema), self._heights) == math.inf

    def _closing(self, path: Path) -> bool:
        """Return whether values are as small as possible from here on."""
        return len(path) >= 2 * _DEPTH[self._size] or len(self._made) > _ENOUGH

    def _object(self, body: Schema, path: Path, chance: Random, tries: int) -> dict[str, Any]:
        properties: dict[str, Any] = body.get("properties", {})
        required = set(body.get("required", ()))
        optional = [name for name in properties if name not in required and not self._is_endless(properties[name])]
        if tries > 1:  # another subset with each try
            optional = [name for name in optional if chance.random() < 0.5]
        elif self._closing(path) != bool(tries):
            optional = []
        names = [name for name in properties if name in required or name in optional]
        made = {name: self._value(properties[name], (*path, name), 0) for name in names}
        made |= {name: "x" for name in required if name not in properties}
        return made | self._further(body, path, chance, len(made))

    def _further(self, body: Schema, path: Path, chance: Random, count: int) -> dict[str, Any]:
        """Return properties that have no names in the schema: the items of a dictionary."""
        least, most = body.get("minProperties", 0) - count, body.get("maxProperties", math.inf) - count
        values = body.get("additionalProperties", {} if least > 0 else False)
        if values is False or (values is True and least <= 0) or most <= 0 or self._is_endless(values):
            return {}
        number = int(min(max(self._number_of_items(path, chance), least), most))
        made: dict[str, Any] = {}
        keys: Schema = {"type": "string", "minLength": 1, **self._resolved(body.get("propertyNames", {}))}
        self._made.append((*path, _KEY))
        tries = self._tries.get((*path, _KEY), 0)
        for place in range(max(number, 0) * 5):
            if len(made) == number:
                break
            chance = Random(f"{self._seed} {path} key {place} {tries}")
            names: Sequence[str] = keys.get("enum", ())
            key: str = names[(place + tries) % len(names)] if names else make_text(keys, "typical", chance, tries)
            if key not in made:
                made[key] = self._value(values, (*path, key), 0)
        return made

    def _array(self, body: Schema, path: Path, chance: Random, tries: int) -> list[Any]:
        first: Sequence[Any] = body.get("prefixItems", ())
        least, most = body.get("minItems", 0), body.get("maxItems", math.inf)
        items = body.get("items", True)
        number = 0 if self._is_endless(items) else self._number_of_items(path, chance) + tries % 3
        if first:
            number = len(first)
        if items is False or (first and "items" not in body):
            most = min(most, len(first))
        made: list[Any] = []
        for place in range(int(min(max(number, least), most))):
            item = first[place] if place < len(first) else items
            value = self._value(item, (*path, place), 0)
            for more in range(1, 40 if body.get("uniqueItems") else 0):
                if value not in made:
                    break
                value = self._value(item, (*path, place), more)
            if not (body.get("uniqueItems") and value in made):
                made.append(value)
        return made

    def _number_of_items(self, path: Path, chance: Random) -> int:
        if self._closing(path):
            return 0
        return chance.randint(1, 2) if self._size == "typical" else 3


def _without(schema: Mapping[str, Any], key: str) -> Schema:
    return {name: value for name, value in schema.items() if name != key}


def _merged(schemas: Sequence[Schema]) -> Schema:
    """Return one schema for values that fit all of `schemas`."""
    merged: Schema = {}
    for schema in schemas:
        both: Schema = {
            "properties": {**merged.get("properties", {}), **schema.get("properties", {})},
            "required": [*merged.get("required", ()), *schema.get("required", ())],
        }
        merged = {**merged, **schema, **{name: value for name, value in both.items() if value}}
    return merged


def _is_within(path: Path, place: Place) -> bool:
    """Return whether the items of `path` are items of `place`, in this order; a key that is not shown may be any."""
    items = iter(place)
    return all(any(each in (item, HIDDEN) for each in items) for item in path)


def _heights(definitions: Mapping[str, Any]) -> dict[str, float]:
    """Return for each definition the least depth of a value; infinite if each value contains another one."""
    heights = dict.fromkeys(definitions, math.inf)
    while True:
        found = {name: _height(normalize(schema), heights) for name, schema in definitions.items()}
        if found == heights:
            return heights
        heights = found


def _height(body: Schema, heights: Mapping[str, float]) -> float:
    """Return the least depth of a value of a schema."""

    def of(schema: Any) -> float:
        return _height(normalize(schema), heights)

    if "$ref" in body:
        return heights.get(str(body["$ref"]).rpartition("/")[2], 0)
    if "anyOf" in body:
        return min(map(of, body["anyOf"]))
    inner: list[Any] = list(body.get("allOf", ()))
    if not inner:
        inner = [body.get("properties", {}).get(name, {}) for name in body.get("required", ())]
        if body.get("minItems", 0) > 0:
            inner += [*body.get("prefixItems", ()), *([body["items"]] if "items" in body else [])]
        if body.get("minProperties", 0) > 0:
            inner.append(body.get("additionalProperties", {}))
    return 1 + max(map(of, inner)) if inner else 0


def _number(body: Schema, size: Size, chance: Random, tries: int) -> float:
    """Return a number within the limits of a schema: an int where one fits."""
    whole = body["type"] == "integer"
    step = body.get("multipleOf") or (1 if whole else 0)
    low = max(body.get("minimum", -math.inf), body.get("exclusiveMinimum", -math.inf))
    high = min(body.get("maximum", math.inf), body.get("exclusiveMaximum", math.inf))
    excluded = (body.get("exclusiveMinimum"), body.get("exclusiveMaximum"))
    for number in _numbers(low, high, size, chance, tries):
        found = round(number / step) * step if step else number
        found = int(found) if float(found).is_integer() else round(found, 12)
        for each in (found, found + step, found - step):
            if low <= each <= high and each not in excluded:
                return each
    return low if math.isfinite(low) else 0


def _numbers(low: float, high: float, size: Size, chance: Random, tries: int) -> Iterator[float]:
    """Yield numbers that may be within the limits, the best one first."""
    least = low if math.isfinite(low) else min(high - 100, 0)
    most = high if math.isfinite(high) else max(low + 100, least + 100)
    nearest = min(max(0, low), high)
    if not tries and size == "minimal":
        yield nearest
    elif not tries and size == "maximal":
        yield high if math.isfinite(high) else max(10**6, least + 10**6)
    for _ in range(20):
        yield round(chance.uniform(max(least, min(nearest, 1)), min(most, least + 100)), 1)
        yield chance.uniform(least, most)
    yield from (least, most, (least + most) / 2)


def _anything(size: Size, chance: Random, tries: int) -> Any:
    """Return a value of a schema that has no type."""
    values = ["", None, 0, {}, [], True, 0.5, {"a": 1}, [1], words(chance, 2)]
    return values[({"minimal": 1, "typical": -1, "maximal": 7}[size] + tries) % len(values)]
