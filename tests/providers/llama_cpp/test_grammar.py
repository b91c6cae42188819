"""grammar.py: the rewrite of every kind of type, and, with the embedded model, that the result is enforced."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, create_model

from support.grammar_models import FIELDS
from toolcast.errors import BadRequest
from toolcast.providers.llama_cpp.grammar import SchemaLimits, calls_schema, grammar
from toolcast.values.tool_spec import ToolSpec

KNOWN = {
    "$ref", "$defs", "anyOf", "const", "enum", "type", "properties", "required", "additionalProperties",
    "patternProperties", "minProperties", "maxProperties", "items", "prefixItems", "minItems", "maxItems",
    "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf",
}  # fmt: skip


def parameters_schema(parameters: dict[str, Any], limits: SchemaLimits | None = None) -> Any:
    return calls_schema([ToolSpec("t", "", parameters)], limits=limits)


def _field(type_form: Any, limits: SchemaLimits | None = None) -> Any:
    schema = create_model("M", value=(type_form, ...)).model_json_schema()
    return parameters_schema(schema, limits)["properties"]["value"]


def _check(node: Any) -> None:
    """Everything that is written is known, bounded, and complete."""
    if not isinstance(node, dict):
        return
    assert set(node) <= KNOWN
    kind = node.get("type")
    if kind == "object":
        assert node["additionalProperties"] is False
        assert node.get("required", []) == list(node.get("properties", {}))
        assert "properties" in node or "maxProperties" in node
    if kind == "array":
        assert node["maxItems"] >= node.get("minItems", 0)
    if kind == "string":
        assert {"maxLength", "format", "pattern"} & set(node)
        assert "(?" not in node.get("pattern", "")
    if kind in ("integer", "number"):
        assert {"minimum", "exclusiveMinimum"} & set(node)
        assert {"maximum", "exclusiveMaximum"} & set(node)
    for key in ("properties", "patternProperties", "$defs"):
        for value in node.get(key, {}).values():
            _check(value)
    for value in [*node.get("anyOf", ()), *node.get("prefixItems", ()), node.get("items")]:
        _check(value)


def test_there_are_enough_types() -> None:
    assert len(FIELDS) >= 50


@pytest.mark.parametrize("name", FIELDS)
def test_every_type_is_bounded(name: str) -> None:
    schema = create_model("M", value=(FIELDS[name], ...)).model_json_schema()
    before = json.dumps(schema)
    rewritten = parameters_schema(schema)
    _check(rewritten)
    assert json.dumps(schema) == before


BILLION = 1_000_000_000
WORDS = {"type": "string", "maxLength": 200}
NUMBER = {"type": "number", "minimum": -BILLION, "maximum": BILLION, "multipleOf": 0.0001}
INTEGER = {"type": "integer", "minimum": -BILLION, "maximum": BILLION}
ANYTHING = {"anyOf": [WORDS, NUMBER, {"type": "boolean"}, {"type": "null"}]}
KEYS = "^[A-Za-z0-9_ -]{1,30}$"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("string", WORDS),
        ("short string", {"type": "string", "maxLength": 5}),
        ("long string", {"type": "string", "minLength": 3, "maxLength": 12}),
        ("open pattern", {"type": "string", "pattern": "^[a-z]+$", "maxLength": 200}),
        ("integer", INTEGER),
        ("positive", {"type": "integer", "exclusiveMinimum": 0, "maximum": BILLION}),
        ("even", {"type": "integer", "minimum": 0, "maximum": 50, "multipleOf": 2}),
        ("huge", {"type": "integer", "minimum": 5 * BILLION, "maximum": 6 * BILLION}),
        ("deep", {"type": "integer", "minimum": -6 * BILLION, "maximum": -5 * BILLION}),
        ("number", NUMBER),
        ("quarter", {**NUMBER, "multipleOf": 0.25}),
        (
            "narrow number",
            {"type": "number", "exclusiveMinimum": 0.0001, "exclusiveMaximum": 0.0002, "multipleOf": 1e-05},
        ),
        ("boolean", {"type": "boolean"}),
        ("null", {"type": "null"}),
        ("decimal", NUMBER),
        ("optional decimal", {"anyOf": [NUMBER, {"type": "null"}]}),
        ("literal", {"enum": ["a", "b"]}),
        ("one literal", {"const": "only"}),
        ("optional", {"anyOf": [WORDS, {"type": "null"}]}),
        ("number or text", {"anyOf": [INTEGER, WORDS]}),
        ("date", {"type": "string", "format": "date"}),
        ("uuid", {"type": "string", "format": "uuid"}),
        ("list", {"type": "array", "items": WORDS, "maxItems": 20}),
        ("two or more", {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 3}),
        ("many", {"type": "array", "items": {"type": "boolean"}, "minItems": 21, "maxItems": 21}),
        ("set", {"type": "array", "items": INTEGER, "maxItems": 20}),
        (
            "pair",
            {"type": "array", "prefixItems": [INTEGER, WORDS], "items": False, "minItems": 2, "maxItems": 2},
        ),
        ("anything", ANYTHING),
        (
            "counts",
            {
                "type": "object",
                "patternProperties": {KEYS: INTEGER},
                "additionalProperties": False,
                "maxProperties": 10,
            },
        ),
        (
            "by literal",
            {
                "type": "object",
                "patternProperties": {"^(x|y)$": INTEGER},
                "additionalProperties": False,
                "maxProperties": 10,
            },
        ),
    ],
)
def test_the_shape_of(name: str, expected: Any) -> None:
    assert _field(FIELDS[name]) == expected


def test_limits_are_the_users_to_change() -> None:
    limits = SchemaLimits(string=9, items=2, keys=3, number=10, step=0.5)
    assert _field(str, limits)["maxLength"] == 9
    assert _field(list[float], limits) == {
        "type": "array",
        "items": {"type": "number", "minimum": -10, "maximum": 10, "multipleOf": 0.5},
        "maxItems": 2,
    }
    assert _field(dict[str, bool], limits)["maxProperties"] == 3


@pytest.mark.parametrize(
    ("pattern", "without"),
    [
        (r"^(?!no)[a-z]+$", r"^[a-z]+$"),
        (r"^(?=[)(]x(a|\)))b(?<!c)$", r"^b$"),
        (r"^(?:a)$", r"^(?:a)$"),
    ],
)
def test_look_around_is_dropped(pattern: str, without: str) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}}
    assert parameters_schema(schema)["properties"]["x"]["pattern"] == without


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object", "additionalProperties": False}, {"properties": {}}),
        ({"type": ["integer", "null"]}, {"anyOf": [INTEGER, {"type": "null"}]}),
        ({"allOf": [{"type": "string"}, {"maxLength": 3}]}, {"type": "string", "maxLength": 3}),
        (True, ANYTHING),
        ({"type": "object", "patternProperties": {"^a+$": True}, "minProperties": 1}, {"minProperties": 1}),
    ],
)
def test_schemas_that_pydantic_does_not_write(schema: Any, expected: dict[str, Any]) -> None:
    found = parameters_schema({"type": "object", "properties": {"x": schema}})["properties"]["x"]
    assert {key: found.get(key) for key in expected} == expected


def test_recursion_ends_in_an_empty_list_and_in_null() -> None:
    schema = parameters_schema(TypeAdapter(FIELDS["tree"]).json_schema(), SchemaLimits(recursion=2))
    inner = schema["$defs"]["d0"]["properties"]["children"]
    assert inner == {"type": "array", "items": {"type": "null"}, "maxItems": 0}
    schema = parameters_schema(TypeAdapter(FIELDS["linked list"]).json_schema(), SchemaLimits(recursion=1))
    assert schema["$defs"]["d0"]["properties"]["next"] == {"type": "null"}


ENDLESS: dict[str, Any] = {"type": "object", "properties": {"x": {"$ref": "#/$defs/E"}}, "required": ["x"]}


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (ENDLESS, "without end"),
        ({"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/E"}}, "without end"),
        ({"type": "array", "prefixItems": [{"$ref": "#/$defs/E"}]}, "without end"),
        ({"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/$defs/E"}}, "without end"),
        ({"anyOf": [{"$ref": "#/$defs/E"}]}, "without end"),
        ({"$ref": "#/$defs/Absent"}, "Absent"),
    ],
)
def test_impossible_schemas_are_refused(part: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parameters_schema({"$defs": {"E": part}, "$ref": "#/$defs/E"})


def test_optional_impossible_properties_are_left_out() -> None:
    node = {"type": "object", "properties": {"x": {"$ref": "#/$defs/E"}}}
    schema = parameters_schema({"$defs": {"E": node}, "$ref": "#/$defs/E"}, SchemaLimits(recursion=1))
    assert schema["$defs"]["d0"]["properties"] == {}
    table = {"type": "object", "additionalProperties": {"$ref": "#/$defs/E"}}
    schema = parameters_schema({"$defs": {"E": table}, "$ref": "#/$defs/E"}, SchemaLimits(recursion=1))
    assert schema["$defs"]["d0"]["properties"] == {}


def _tool(name: str) -> ToolSpec:
    schema = {"$defs": {"D": {"type": "boolean"}}, "type": "object", "properties": {"x": {"$ref": "#/$defs/D"}}}
    return ToolSpec(name, "", schema)


def test_the_forms_of_an_answer() -> None:
    one, two = _tool("one"), _tool("two")
    assert calls_schema((one,))["properties"] == {"x": {"$ref": "#/$defs/d0"}}
    assert calls_schema((one,), named=True)["properties"]["name"] == {"const": "one"}
    either = calls_schema((one, two))
    assert [each["properties"]["name"] for each in either["anyOf"]] == [{"const": "one"}, {"const": "two"}]
    assert set(either["$defs"]) == {"d0", "d1"}
    several = calls_schema((one,), parallel=True, limits=SchemaLimits(calls=4))["properties"]["calls"]
    assert (several["minItems"], several["maxItems"]) == (1, 4)


def test_the_text_of_a_grammar() -> None:
    text = grammar({"type": "null"})
    head, start = text.split("\n")
    assert head == "%llguidance {}"
    assert json.loads(start.removeprefix("start: %json "))["x-guidance"]["whitespace_flexible"] is False
    assert "start: call | TEXT" in grammar({"type": "null"}, or_text=True)
