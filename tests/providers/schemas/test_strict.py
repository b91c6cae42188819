"""strict_schemas.py: each dialect's rules, written down a second time, hold for every kind of type."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Annotated, Any, Literal, NotRequired, Union

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, create_model
from typing_extensions import TypedDict

from support.grammar_models import FIELDS, Colour, Node, Open, Song
from toolcast.providers.schemas.strict import (
    Adapted,
    anthropic_schema,
    gemini_schema,
    ollama_format,
    openai_strict,
)
from toolcast.providers.tool_calls.json_calls import CallFormat, response_schema, with_object_root
from toolcast.tools.output_schema import output_schema
from toolcast.values.tool_spec import ToolSpec

Schema = dict[str, Any]
ALL: dict[str, Callable[[Schema], Adapted]] = {
    "openai": openai_strict,
    "anthropic": anthropic_schema,
    "gemini": lambda schema: Adapted(gemini_schema(schema)),
    "ollama": lambda schema: Adapted(ollama_format(schema)),
}


class Track(BaseModel):
    """A track."""

    title: str = Field(min_length=1, description="As on the cover")
    seconds: int = Field(default=180, gt=0)
    colour: Colour = Colour.RED
    note: str | None = None
    tags: list[str] = Field(default_factory=list)


class Flagged(TypedDict):
    name: str
    flag: NotRequired[int]


def _or_null(form: Any) -> Any:
    return Union[form, None]  # noqa: UP007 `None | None` is no type


def _model(*forms: Any, **fields: Any) -> Schema:
    made: dict[str, Any] = {f"f{n}": (form, ...) for n, form in enumerate(forms)} | fields
    return output_schema(create_model("Made", **made)).parameters


# -- the rules, once more


def _subschemas(node: Schema) -> Iterator[Schema]:
    yield node
    inner = [node[key] for key in ("items", "additionalProperties") if isinstance(node.get(key), dict)]
    for key in ("anyOf", "prefixItems"):
        inner += node.get(key, [])
    for key in ("properties", "$defs"):
        inner += node.get(key, {}).values()
    for child in inner:
        yield from _subschemas(child)


NUMBERS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
COMMON = {"type", "description", "title", "enum", "properties", "required", "items", "anyOf", "format"}
KEYWORDS = {
    "openai": COMMON | NUMBERS | {"$ref", "$defs", "additionalProperties", "minItems", "maxItems", "pattern"},
    "anthropic": COMMON | {"$ref", "$defs", "additionalProperties", "minItems"},
    "gemini": COMMON | {
        "$ref", "$defs", "additionalProperties", "minItems", "maxItems", "minimum", "maximum", "prefixItems",
        "propertyOrdering",
    },
}  # fmt: skip
OPENAI_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
FORMATS = {
    "openai": OPENAI_FORMATS,
    "anthropic": OPENAI_FORMATS | {"uri"},
    "gemini": {"date-time", "date", "time"},
}
LISTED: dict[str, Any] = {"openai": object, "anthropic": object, "gemini": (str, int, float)}


def _check(schema: Schema, dialect: str) -> None:
    for node in _subschemas(schema):
        assert set(node) <= KEYWORDS[dialect]
        assert not isinstance(node.get("type"), list)
        assert isinstance(node.get("description", ""), str)
        assert node.get("format", "date-time") in FORMATS[dialect]
        assert all(isinstance(value, LISTED[dialect]) for value in node.get("enum", ()))
        assert not (dialect == "gemini" and any(isinstance(value, bool) for value in node.get("enum", ())))
        if "$ref" in node:
            assert set(node) - {"$defs"} == {"$ref"}
            assert node["$ref"].removeprefix("#/$defs/") in schema["$defs"]
        if "propertyOrdering" in KEYWORDS[dialect] and node.get("properties"):
            assert node["propertyOrdering"] == list(node["properties"])
    if dialect != "gemini":
        _check_strict(schema, dialect)


def _check_strict(schema: Schema, dialect: str) -> None:
    assert schema["type"] == "object"
    for node in _subschemas(schema):
        assert {"type", "anyOf", "$ref"} & set(node)
        assert node.get("type") != "array" or node["items"]
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
            assert dialect != "openai" or node["required"] == list(node["properties"])
        assert "(?" not in node.get("pattern", "")
        if dialect == "anthropic":
            assert node.get("minItems", 0) in (0, 1)


LOOSE = {
    "openai": {
        "pair", "any list", "anything", "object", "counts", "one entry", "by literal", "by number", "nested dict",
        "typed dict", "open model",
    },
    "anthropic": {
        "pair", "any list", "anything", "object", "counts", "one entry", "by literal", "by number", "nested dict",
        "open model", "tree", "linked list", "mutual", "expression",
    },
    "gemini": set(),
    "ollama": set(),
}  # fmt: skip


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize("name", FIELDS)
def test_every_type_in_every_dialect(name: str, dialect: str) -> None:
    for schema in (_model(FIELDS[name]), _model(value=(_or_null(FIELDS[name]), Field(None, description="D")))):
        before = deepcopy(schema)
        adapted = ALL[dialect](schema)
        assert schema == before
        assert bool(adapted.loose) == (name in LOOSE[dialect])
        if adapted.loose:
            assert adapted.schema == schema
        elif dialect != "ollama":
            _check(adapted.schema, dialect)


# -- what is valid in the strict form is valid


STRUCTURED = [
    "string", "integer", "percent", "quarter", "positive number", "boolean", "null", "literal", "one literal",
    "mixed literal", "enum", "int enum", "optional", "number or text", "date", "uuid", "ipv4", "list", "two or more",
    "pattern", "song", "album", "optional model", "song or album", "tree", "linked list", "mutual", "zoo",
    "named tuple", "closed model", "aliased", "root model", "expression"
]  # fmt: skip
SAMPLES = {
    "date": "2024-02-29",
    "uuid": "6f1c9ad2-7d1b-4c3e-9f75-3a3c1f0c8f10",
    "ipv4": "10.0.0.1",
}


class _Instance:
    """Something of a schema, without any keyword that the schema does not have."""

    def __init__(self, draw: st.DrawFn, schema: Schema) -> None:
        self._draw = draw
        self._definitions = schema.get("$defs", {})

    def of(self, node: Schema, depth: int = 0) -> Any:
        if "$ref" in node:
            return self.of(self._definitions[node["$ref"].removeprefix("#/$defs/")], depth + 1)
        if "anyOf" in node:
            ends = [branch for branch in node["anyOf"] if "$ref" not in branch]
            return self.of(self._draw(st.sampled_from(ends if ends and depth > 2 else node["anyOf"])), depth)
        if "enum" in node:
            return self._draw(st.sampled_from(node["enum"]))
        made: Any = getattr(self, f"_{node['type']}")(node, depth)
        return made

    def _object(self, node: Schema, depth: int) -> Any:
        names = [name for name in node["properties"] if name in node.get("required", ()) or self._draw(st.booleans())]
        return {name: self.of(node["properties"][name], depth) for name in names}

    def _array(self, node: Schema, depth: int) -> Any:
        least = node.get("minItems", 0)
        most = least if depth > 2 else min(node.get("maxItems", least + 2), least + 2)
        if "prefixItems" in node:
            return [self.of(part, depth) for part in node["prefixItems"]]
        return [self.of(node["items"], depth + 1) for _ in range(self._draw(st.integers(least, most)))]

    def _string(self, node: Schema, depth: int) -> Any:
        if "pattern" in node:
            return self._draw(st.from_regex(re.compile(node["pattern"], re.ASCII), fullmatch=True))
        return SAMPLES.get(node.get("format", "")) or self._draw(st.text(st.characters(codec="utf-8"), max_size=5))

    def _integer(self, node: Schema, depth: int) -> Any:
        return self._draw(st.integers(node.get("minimum", -(10**20)), node.get("maximum", 10**20)))

    def _number(self, node: Schema, depth: int) -> Any:
        step = node.get("multipleOf", 0.5)
        return step * self._draw(st.integers(1 if "exclusiveMinimum" in node else -1000, 1000))

    def _boolean(self, node: Schema, depth: int) -> Any:
        return self._draw(st.booleans())

    def _null(self, node: Schema, depth: int) -> Any:
        return None


DEFAULTS = {"integer": 1, "string": "a", "optional": None, "list": [], "enum": Colour.RED, "optional model": None}
# Their form in words leaves the length of a list, the bounds and the pattern to validation.
LEFT_TO_VALIDATION = {"anthropic": {"percent", "quarter", "positive number", "two or more", "named tuple", "pattern"}}


@st.composite
def _cases(draw: st.DrawFn, dialect: str) -> tuple[type[BaseModel], Any]:
    names = [
        name for name in STRUCTURED if name not in LOOSE[dialect] and name not in LEFT_TO_VALIDATION.get(dialect, ())
    ]
    fields: dict[str, Any] = {}
    for number, name in enumerate(draw(st.lists(st.sampled_from(names), max_size=4))):
        form = FIELDS[name]
        if draw(st.booleans()):
            form = draw(st.sampled_from([list[form], _or_null(form), Annotated[form, Field(description="D")]]))
        with_default = name in DEFAULTS and form == FIELDS[name] and draw(st.booleans())
        fields[f"f{number}"] = (form, DEFAULTS[name] if with_default else ...)
    model = create_model("Made", **fields)
    adapted = ALL[dialect](output_schema(model).parameters)
    assert adapted.loose is None
    return model, _Instance(draw, adapted.schema).of(adapted.schema)


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "ollama"])
@given(data=st.data())
def test_a_value_of_the_strict_schema_is_valid_for_the_type(dialect: str, data: st.DataObject) -> None:
    model, instance = data.draw(_cases(dialect))
    model.model_validate_json(json.dumps(instance))


# -- one by one


def test_a_model_for_openai() -> None:
    adapted = openai_strict(_model(track=(Track, ...)))
    assert adapted.schema["$defs"]["Track"] == {
        "description": "A track.",
        "type": "object",
        "properties": {
            "title": {"description": "As on the cover. At least 1 character.", "type": "string"},
            "seconds": {"exclusiveMinimum": 0, "type": "integer", "description": "Default: 180."},
            "colour": {"anyOf": [{"$ref": "#/$defs/Colour"}], "description": 'Default: "red".'},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "Default: null."},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["title", "seconds", "colour", "note", "tags"],
        "additionalProperties": False,
    }


def test_a_model_for_anthropic() -> None:
    track = anthropic_schema(_model(Track)).schema["$defs"]["Track"]
    assert track["required"] == ["title"]
    assert track["properties"]["seconds"] == {"type": "integer", "description": "More than 0. Default: 180."}


def test_the_tag_of_a_union_is_always_written() -> None:
    for dialect in ALL:
        schema = ALL[dialect](_model(FIELDS["zoo"])).schema
        tagged = [node for node in _subschemas(schema) if "kind" in node.get("properties", {})]
        assert len(tagged) == 2
        assert all("kind" in node["required"] for node in tagged)


def test_a_recursive_property_is_not_required_for_gemini() -> None:
    node = gemini_schema(_model(Node, tree=(FIELDS["expression"], ...)))
    assert node["required"] == ["f0", "tree"]
    left = {"anyOf": [{"$ref": "#/$defs/Expression"}, {"type": "integer"}], "description": "Required."}
    assert node["$defs"]["Expression"]["properties"]["left"] == left
    assert "required" not in node["$defs"]["Expression"]
    root: Schema = {"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]}
    assert gemini_schema(root)["properties"]["x"] == {"anyOf": [{"$ref": "#"}], "description": "Required."}


def test_an_empty_text_in_an_enum_is_described_for_gemini() -> None:
    """Its refusal: "enum[0]: cannot be empty"."""
    found = gemini_schema(_model(Node, unit=(Literal["", "km"], ...), none=(Literal[""], ...)))["properties"]
    assert (found["unit"]["enum"], found["unit"]["description"]) == (["km"], "It may be an empty text.")
    assert "enum" not in found["none"]
    assert found["none"]["description"] == "It is an empty text."


def _x(schema: Any, **more: Any) -> Schema:
    return {"type": "object", "properties": {"x": schema}, "required": ["x"], **more}


TUPLE: Schema = {"type": "array", "prefixItems": [{"type": "integer"}, {"anyOf": [{"type": "string"}]}]}
MAP: Schema = {"type": "object", "additionalProperties": {"const": 1}}
CHOICE: Schema = {"type": "object", "properties": {"a": {"const": None}}, "anyOf": [{"required": ["a"]}]}


@pytest.mark.parametrize(
    ("dialect", "schema", "expected"),
    [
        ("openai", {"type": "string", "pattern": r"^(?!a)b"}, "Matches the pattern `^(?!a)b`."),
        ("openai", {"type": "object", "properties": {}}, {"properties": {}, "required": []}),
        ("openai", {"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ("openai", {"type": "array", "contains": {}, "items": {"const": 1}}, "Contains an item that fits {}."),
        ("gemini", MAP, {"type": "object", "additionalProperties": {"type": "integer", "enum": [1]}}),
        ("gemini", {"patternProperties": {"a": {}}, "type": "object"}, 'Keys fit {"pattern": "a"}.'),
        ("gemini", {"type": "object", "additionalProperties": True}, {"type": "object", "additionalProperties": True}),
        ("gemini", {"type": "object"}, {"type": "object"}),
        ("gemini", {"properties": {}}, {"type": "object", "properties": {}}),
        ("openai", {**CHOICE, "additionalProperties": False}, 'Fits one of [{"required": ["a"]}].'),
        ("gemini", CHOICE, {"properties": {"a": {"type": "null"}}, "anyOf": None}),
        ("ollama", CHOICE, {"properties": {"a": {"type": "null"}}, "anyOf": [{"required": ["a"]}]}),
        ("gemini", {"type": "array"}, {"type": "array"}),
        ("gemini", {"minimum": 3}, {"description": "At least 3."}),
        ("gemini", {"const": True}, {"type": "boolean", "description": "Always: true."}),
        ("gemini", {"const": [1]}, "Always: [1]."),
        ("gemini", {"allOf": [{"type": "string"}, {"minLength": 1}]}, "Fits all of"),
        ("gemini", {**TUPLE, "items": False}, {**TUPLE}),
        ("gemini", {**TUPLE, "items": {"const": 1}}, {**TUPLE, "items": {"type": "integer", "enum": [1]}}),
        ("ollama", {"type": "string", "pattern": r"^\d+$"}, r"Matches the pattern `^\d+$`."),
        ("ollama", {"type": "string", "pattern": "^a$"}, {"type": "string", "pattern": "^a$"}),
    ],
)
def test_schemas_that_users_write(dialect: str, schema: Schema, expected: Any) -> None:
    whole = _x(schema)
    before = deepcopy(whole)
    adapted = ALL[dialect](whole)
    found = adapted.schema["properties"]["x"]
    assert (adapted.loose, whole) == (None, before)
    if isinstance(expected, str):
        assert expected in found["description"]
        assert not {"pattern", "patternProperties", "contains", "allOf"} & set(found)
    else:
        assert {key: found.get(key) for key in expected} == expected


def _deep(levels: int) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(levels):
        schema = _x(schema)
    return schema


RECURSIVE: Schema = _x({"$ref": "#/$defs/N"}, **{"$defs": {"N": _x({"type": "array", "items": {"$ref": "#/$defs/N"}})}})


@pytest.mark.parametrize(
    ("dialect", "schema", "reason"),
    [
        ("openai", output_schema(dict[str, int]).parameters, "the schema is an open map"),
        ("openai", _model(meta=(dict[str, Song], ...)), "'meta' is an open map"),
        ("openai", _model(list[Open]), "'Open' is an open map"),
        ("openai", _model(list[dict[str, int]]), "'f0[]' is an open map"),
        ("openai", _x({"type": "object"}), "'x' is an open map"),
        ("openai", _model(Flagged), "'Flagged.flag' may be absent and has no default"),
        ("openai", _model(a=(str, Field(None))), "'a' has a default that it does not take"),
        ("openai", _model(a=(list[str], Field(None))), "'a' has a default that it does not take"),
        ("openai", _model(a=(int, Field("x"))), "'a' has a default that it does not take"),
        ("openai", _model(a=(int, Field(0, ge=1))), "'a' has a default that it does not take"),
        ("openai", _model(a=(list[int] | str, Field(None))), "'a' has a default that it does not take"),
        ("openai", _model(a=(str, Field("", min_length=1))), "'a' has a default that it does not take"),
        ("openai", _model(a=(Literal["x", "y"], Field("z"))), "'a' has a default that it does not take"),
        ("openai", _model(a=(Colour, Field(None))), "'a' has a default that it does not take"),
        ("openai", _model(a=(list[Colour], Field(["no colour"]))), "'a' has a default that it does not take"),
        ("openai", _model(a=(list[int], Field(["x"]))), "'a' has a default that it does not take"),
        ("openai", _model(a=(str, Field("b", pattern="^a"))), "'a' has a default that it does not take"),
        ("openai", _model(FIELDS["pair"]), "'f0' is a tuple of different types"),
        ("openai", _model(Any), "'f0' can be anything"),
        ("openai", _x({"type": "array"}), "'x[]' can be anything"),
        ("openai", _x({"type": "string", "not": {"const": "a"}}), "'x' has 'not'"),
        ("openai", _x({"type": "string", "if": {}}), "'x' has 'if'"),
        ("openai", _x({"allOf": [{}, {}]}), "'x' has 'allOf'"),
        ("openai", _x({"const": [1]}), "'x[]' can be anything"),
        ("openai", _x({"$ref": "#/$defs/No"}), "'x' refers to '#/$defs/No', which is not among its $defs"),
        ("openai", {"anyOf": [_x(True)]}, "'x' can be anything"),
        ("openai", {"anyOf": [_x({"const": 1})]}, "its root is no object"),
        ("openai", _deep(11), "it has 11 levels of objects, more than 10"),
        ("openai", _x({"enum": list(range(1001))}), "it has 1001 enum values, more than 1000"),
        (
            "openai",
            _x({"enum": [f"{n:0100}" for n in range(251)]}),
            "it has 25100 characters in an enum of more than 250 values, more than 15000",
        ),
        ("openai", _x({"const": "a" * 120_000}), "it has 120001 characters in names and enum values"),
        ("openai", _model(*[int] * 5001), "it has 5001 properties, more than 5000"),
        ("anthropic", RECURSIVE, "'x' is recursive"),
        ("anthropic", _x({"$ref": "#"}), "'x' is recursive"),
        ("anthropic", _model(**{f"f{n}": (int, 0) for n in range(25)}), "it has 25 optional properties, more than 24"),
        ("anthropic", _model(*[int | None] * 17), "it has 17 unions, more than 16"),
    ],
)
def test_why_a_schema_stays_loose(dialect: str, schema: Schema, reason: str) -> None:
    adapted = ALL[dialect](schema)
    assert adapted.schema == schema
    assert adapted.loose is not None
    assert adapted.loose.startswith(reason)


def test_limits_are_reached_not_passed() -> None:
    recursive = openai_strict(RECURSIVE)
    assert recursive.loose is None
    assert openai_strict(_deep(10)).loose is None
    assert openai_strict(_model(*[Song] * 3)).loose is None
    assert anthropic_schema(_model(*[int | None] * 16)).loose is None


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_the_answers_of_several_tools(dialect: str) -> None:
    tools = tuple(ToolSpec(name, "", _model(Song)) for name in ("one", "two"))
    schema = response_schema(with_object_root(CallFormat(tools)))
    adapted = ALL[dialect](schema)
    assert adapted.loose is None
    _check(adapted.schema, dialect)
    assert ALL[dialect](response_schema(CallFormat(tools))).loose == "its root is no object"
