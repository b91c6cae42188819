"""plain_schemas.py: every way of writing a schema, and every constraint in words."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from toolcast.providers.schemas.normalize import (
    WORDS,
    can_be_empty,
    is_constant,
    kind_of,
    normalize,
    references,
    target,
    with_description,
)

TEXT = {"type": "string"}
REF = {"$ref": "#/$defs/Song"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, {}),
        (None, {}),
        (False, {"not": {}}),
        (TEXT, TEXT),
        ({"oneOf": [TEXT, REF]}, {"anyOf": [TEXT, REF]}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"const": None}, {"type": "null"}),
        ({"enum": [1, 2], "type": "number", "title": "N"}, {"enum": [1, 2], "type": "integer", "title": "N"}),
        (
            {"enum": ["a", 1, True, None, 1.5], "description": "D", "default": 1},
            {
                "description": "D",
                "default": 1,
                "anyOf": [
                    {"type": "string", "enum": ["a"]},
                    {"type": "integer", "enum": [1]},
                    {"type": "boolean", "enum": [True]},
                    {"type": "null"},
                    {"type": "number", "enum": [1.5]},
                ],
            },
        ),
        (
            {"type": ["string", "null"], "maxLength": 3, "title": "T"},
            {"title": "T", "anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
        ),
        ({"type": ["string"], "maxLength": 3}, {"type": "string", "maxLength": 3}),
        ({"allOf": [REF], "description": "D"}, {**REF, "description": "D"}),
        ({"allOf": [{"description": "D", "const": 1}]}, {"description": "D", "enum": [1], "type": "integer"}),
        ({"allOf": [TEXT, {"maxLength": 3}]}, {"allOf": [TEXT, {"maxLength": 3}]}),
        ({"allOf": [{"minLength": 1}], "minLength": 3}, {"allOf": [{"minLength": 1}], "minLength": 3}),
        ({"patternProperties": {"^a": TEXT}}, {"additionalProperties": TEXT, "propertyNames": {"pattern": "^a"}}),
        (
            {"patternProperties": {"^a": TEXT}, "additionalProperties": False},
            {"patternProperties": {"^a": TEXT}, "additionalProperties": False},
        ),
    ],
)
def test_one_way_of_writing(schema: Any, expected: dict[str, Any]) -> None:
    before = deepcopy(schema)
    assert normalize(schema) == expected
    assert schema == before


@pytest.mark.parametrize(
    ("value", "kind"),
    [("", "string"), (True, "boolean"), (1, "integer"), (1.0, "number"), (None, "null"), ([], "array"), ({}, "object")],
)
def test_the_kind_of_a_value(value: object, kind: str) -> None:
    assert kind_of(value) == kind


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "default": "a"}, True),
        ({"type": "string", "default": "a", "pattern": r"^\p{L}$"}, True),  # a class that Python does not have
        ({"type": "string", "default": "", "format": "date-time"}, False),
        ({"type": "string", "default": "", "format": "password"}, True),
        ({"type": "string", "default": "2026-01-01", "format": "date"}, True),
        ({"anyOf": [TEXT, {"type": "null"}]}, True),
        ({"anyOf": [TEXT, {"const": None}]}, True),
        ({"type": "null"}, True),
        ({"type": "array", "items": TEXT}, True),
        ({"type": "array", "minItems": 1}, False),
        ({"anyOf": [TEXT, REF]}, False),
        (TEXT, False),
    ],
)
def test_properties_that_can_be_empty(schema: dict[str, Any], expected: bool) -> None:
    assert can_be_empty(normalize(schema), {}) is expected


def test_a_tag_is_set() -> None:
    assert is_constant(normalize({"const": "cat", "default": "cat"}))
    assert not is_constant(normalize({"const": "cat"}))
    assert not is_constant(normalize({"enum": ["cat", "dog"], "default": "cat"}))


def test_references() -> None:
    schema = {"properties": {"a": REF, "$ref": TEXT}, "anyOf": [{"items": {"$ref": "#"}}]}
    assert list(references(schema)) == ["Song", ""]
    assert target("other.json#/A") == "other.json#/A"


@pytest.mark.parametrize(
    ("keyword", "value", "words"),
    [
        ("enum", ["a", None], 'One of: "a", null.'),
        ("enum", ["ä"], 'Always: "ä".'),
        ("format", "uri", "Format: uri."),
        ("pattern", "^a{2}$", "Matches the pattern `^a{2}$`."),
        ("minLength", 1, "At least 1 character."),
        ("maxLength", 3, "At most 3 characters."),
        ("minimum", 0, "At least 0."),
        ("exclusiveMinimum", 0.5, "More than 0.5."),
        ("multipleOf", 2, "A multiple of 2."),
        ("maxItems", 1, "At most 1 item."),
        ("uniqueItems", True, "No item twice."),
        ("uniqueItems", False, ""),
        ("maxProperties", 2, "At most 2 keys."),
        ("propertyNames", {"enum": ["a"]}, 'Keys fit {"enum": ["a"]}.'),
        ("not", {}, "Does not fit {}."),
        ("default", None, "Default: null."),
        ("default", "x", 'Default: "x".'),
        ("examples", [1, "b"], 'Examples: 1, "b".'),
        ("deprecated", True, "Deprecated."),
    ],
)
def test_constraints_in_words(keyword: str, value: Any, words: str) -> None:
    assert WORDS[keyword](value) == words


@pytest.mark.parametrize(
    ("schema", "words", "expected"),
    [
        (TEXT, ("",), TEXT),
        (TEXT, ("A.", "", "B."), {**TEXT, "description": "A. B."}),
        ({"description": "A song"}, ("B.",), {"description": "A song. B."}),
        ({"description": "A song?\n"}, ("B.",), {"description": "A song? B."}),
        (REF, ("B.",), {"anyOf": [REF], "description": "B."}),
    ],
)
def test_words_go_to_the_end_of_a_description(
    schema: dict[str, Any], words: tuple[str, ...], expected: dict[str, Any]
) -> None:
    before = deepcopy(schema)
    assert with_description(schema, *words) == expected
    assert schema == before
