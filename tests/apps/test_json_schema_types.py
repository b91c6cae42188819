"""Types from JSON Schemas: what they accept, and the schemas that are refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from toolcast.apps.json_schema_types import JSONSchemaError, type_from_json_schema

PERSON = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Person!",
    "description": "A person.",
    "type": "object",
    "properties": {
        "first-name": {"type": "string", "minLength": 2, "description": "The first name."},
        "copy": {"type": ["integer", "null"], "minimum": 0, "maximum": 9},
        "_x": {"enum": ["a", 1, True, None]},
        "y": {"const": "z"},
        "born": {"type": "string", "format": "date"},
        "mail": {"type": "string", "format": "email", "pattern": "@"},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "any": {},
        "anything": True,
        "map": {"type": "object", "additionalProperties": {"type": "number"}},
        "either": {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/a~1b"}]},
        "again": {"$ref": "#/$defs/a~1b"},
        "one": {"oneOf": [{"type": "null"}, {"type": "string"}], "default": "d"},
        "all": {"allOf": [{"$ref": "#/properties/tags"}]},
        "friend": {"$ref": "#"},
    },
    "required": ["first-name", "copy", "any"],
    "additionalProperties": False,
    "$defs": {"a/b": {"properties": {"next": {"$ref": "#/$defs/a~1b"}, "n": {"type": "integer", "default": 3}}}},
}
GOOD: dict[str, Any] = {
    "first-name": "Al",
    "copy": 3,
    "_x": True,
    "y": "z",
    "born": "2000-01-01",
    "mail": "a@b",
    "tags": ["a"],
    "any": [1],
    "anything": {},
    "map": {"a": 1.5},
    "either": {"next": {"n": 1, "next": None}, "n": 3},
    "again": {"n": 1},
    "one": None,
    "all": [],
    "friend": {"first-name": "Bo", "copy": None, "any": 1},
}


def test_a_schema_becomes_a_model() -> None:
    made = type_from_json_schema(PERSON)
    assert issubclass(made, BaseModel)
    assert made.__name__ == "Person"
    person = made.model_validate(GOOD)
    dumped = person.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert dumped == GOOD
    small = made.model_validate({"first-name": "Al", "copy": None, "any": 1}).model_dump(by_alias=True)
    assert small["one"] == "d"
    assert small["born"] is None
    schema = made.model_json_schema()["$defs"]["Person"]
    assert schema["description"] == "A person."
    assert schema["properties"]["first-name"]["description"] == "The first name."
    assert "copy_" in made.model_fields
    assert "x" in made.model_fields


@pytest.mark.parametrize(
    "change",
    [
        {"first-name": "A"},
        {"copy": 10},
        {"_x": 2},
        {"y": "a"},
        {"born": "yesterday"},
        {"mail": "x"},
        {"tags": ["a", "b", "c"]},
        {"map": {"a": "x"}},
        {"either": "x"},
        {"friend": {"first-name": "B", "copy": 1, "any": 1}},
        {"more": 1},
    ],
)
def test_what_the_schema_refuses_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        type_from_json_schema(PERSON).model_validate(GOOD | change)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1]),
        ({"enum": ["a"]}, "a"),
        ({"type": "object"}, {"a": 1}),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 2, "multipleOf": 0.5}, 1.5),
        ({"$ref": "#/definitions/x", "definitions": {"x": {"type": "array"}}}, [1, "a"]),
        ({"anyOf": [{"$ref": "#/anyOf/1"}, {"type": "null"}]}, None),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": "x"}),
    ],
)
def test_other_types(schema: Any, value: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(type_from_json_schema(schema))
    assert adapter.dump_python(adapter.validate_python(value), by_alias=True) == value


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([], "expected a schema, which is an object, got [] (at #)"),
        (False, "expected a schema, which is an object, got False (at #)"),
        ({"type": "text"}, "unknown type 'text'; expected one of string, integer"),
        ({"type": []}, "unknown type []; expected one of string, integer"),
        ({"type": "string", "minimum": 3}, "the keyword 'minimum' is not implemented here (at #)"),
        ({"uniqueItems": True}, "the keyword 'uniqueItems' is not implemented here (at #)"),
        ({"enum": ["a"], "not": {}}, "the keyword 'not' is not implemented here (at #)"),
        ({"enum": []}, "expected a list of values, got [] (at #/enum)"),
        ({"const": 1.5}, "expected a text, whole number, boolean or null, got 1.5 (at #/const)"),
        ({"anyOf": {}}, "expected a list of schemas, got {} (at #/anyOf)"),
        ({"allOf": [{}, {}]}, "allOf with several schemas is not implemented: write them as one (at #/allOf)"),
        ({"type": "string", "minLength": "3"}, "expected a number, or a text for pattern, got '3' (at #)"),
        ({"type": "string", "pattern": 3}, "expected a number, or a text for pattern, got 3 (at #)"),
        ({"type": "string", "format": "date", "minLength": 3}, "limits on the length of the format date are not"),
        ({"properties": []}, "expected an object in properties and a list in required (at #)"),
        ({"properties": {"a": {}}, "required": ["b"]}, "required names 'b', which is not in properties (at #)"),
        (
            {"properties": {"a": {}}, "additionalProperties": {}},
            "a schema in additionalProperties beside properties is not implemented (at #)",
        ),
        (
            {"properties": {"a": {"$ref": "https://x/y.json"}}},
            "$ref 'https://x/y.json' is outside of the document: copy",
        ),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, "$ref 'other.json#/a' is outside of the document: copy"),
        ({"$ref": 3}, "$ref 3 is outside of the document"),
        ({"$ref": "#/$defs/a"}, "$ref '#/$defs/a' leads nowhere (at #/$ref)"),
        ({"$ref": "#/$defs/1", "$defs": ["x"]}, "$ref '#/$defs/1' leads nowhere (at #/$ref)"),
        (
            {"type": "array", "items": {"$ref": "#"}},
            "a schema that contains itself has to be an object with properties",
        ),
        ({"$ref": "#"}, "a schema that contains itself has to be an object with properties"),
    ],
)
def test_a_schema_that_cannot_be_used_names_the_place(schema: Any, message: str) -> None:
    with pytest.raises(JSONSchemaError) as error:
        type_from_json_schema(schema)
    assert str(error.value).startswith(message)
