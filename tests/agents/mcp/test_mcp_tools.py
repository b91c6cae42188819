"""mcp_tools.py: schemas, arguments, descriptions and answers from servers that are not trusted."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pydantic
import pytest
from hypothesis import given, strategies as st
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from toolcast.agents.mcp.mcp_tools import (
    MAX_DEPTH,
    MAX_DESCRIPTION,
    ArgumentValidator,
    clean_text,
    schema_problem,
    single_line,
    to_tool_output,
)
from toolcast.errors import MCPToolError
from toolcast.tools.callable_tool import CallableTool

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
WORDS = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def schema_of(values: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a server may send for such values."""
    properties = {name: {"type": WORDS[type(value)]} for name, value in values.items()}
    return {"type": "object", "properties": properties, "required": sorted(values)}


# Arguments.


@given(st.dictionaries(st.text(max_size=5), plain, max_size=4))
def test_what_fits_passes_unchanged(values: dict[str, Any]) -> None:
    call, repairs = ArgumentValidator(schema_of(values)).read(json.dumps(values), None)
    assert (call.args, repairs) == ((), ())
    assert json.dumps(call.kwargs) == json.dumps(values)


@given(st.dictionaries(st.text(max_size=5), plain, max_size=4))
def test_what_is_not_described_passes_unchanged(values: dict[str, Any]) -> None:
    assert ArgumentValidator({}).read(json.dumps(values), None)[0].kwargs == values
    assert json.loads(ArgumentValidator({}).dump(values)) == values


@pytest.mark.parametrize(
    ("schema", "text", "read"),
    [
        ({"type": "integer"}, '"2"', 2),
        ({"type": "number"}, "2", 2),
        ({"type": "number"}, '"2.5"', 2.5),
        ({"type": "boolean"}, '"true"', True),
        ({"type": "array"}, '"[1, 2]"', [1, 2]),
        ({"type": "object"}, '"{\\"b\\": 1}"', {"b": 1}),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "integer"]}, "7", 7),
        ({"type": ["string", "date"]}, "7", 7),
        ({"type": {"not": "a type"}}, "7", 7),
        ({"anyOf": [{"type": "string"}, {"not": {}}]}, "7", 7),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, '"2"', 2),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "7", 7),
        ({"allOf": [{"title": "T"}, {"type": "array"}]}, '"[1]"', [1]),
        ({"allOf": []}, "7", 7),
        ({"enum": ["a", None]}, "null", None),
        ({"enum": [1, 2.5]}, '"2"', 2),
        ({"const": True}, '"true"', True),
        ({"anyOf": [{"const": "a"}, {"const": 7}]}, "7", 7),
        ({"$ref": "#/$defs/Size"}, '"2"', 2),
        ({"$ref": "#/$defs/a~1b%20c"}, '"{\\"b\\": 1}"', {"b": 1}),
        ({"$ref": "#/$defs/none/at/all"}, '"2"', "2"),
        ({"$ref": "#N"}, "5", 5),
        ({"$ref": "#/$defs/Round/anyOf/1"}, '"2"', 2),
        ({"$ref": "#/$defs/Round/anyOf/7"}, '"2"', "2"),
        ({"$ref": "#/$defs/Round"}, '"2"', "2"),
        ({"anyOf": [{"$ref": "#/$defs/Size"}, {"$ref": "#/$defs/Size"}]}, '"2"', 2),
        ({"type": "integer", "nullable": True}, "null", None),
        (True, "7", 7),
    ],
)
def test_small_slips_are_put_right(schema: Any, text: str, read: Any) -> None:
    definitions = {
        "Size": {"type": "integer"},
        "a/b c": {"type": "object"},
        "Round": {"anyOf": [{"$ref": "#/$defs/Round"}, {"type": "integer"}]},
    }
    arguments = ArgumentValidator({"properties": {"a": schema}, "$defs": definitions})
    assert arguments.read(f'{{"a": {text}}}', None)[0].kwargs == {"a": read}


def test_a_name_may_fit_a_pattern() -> None:
    closed = {"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}
    assert ArgumentValidator(closed).read('{"x-id": "7"}', None)[0].kwargs == {"x-id": "7"}


@pytest.mark.parametrize(
    ("schema", "text", "why"),
    [
        ({}, "[1]", "should be an object"),
        ({"required": ["a"]}, "{}", "Field required"),
        ({"properties": {"a": {"type": "string"}}}, '{"a": 1}', "valid string"),
        ({"properties": {"a": {"type": "integer"}}}, '{"a": 1.5}', "integer"),
        ({"properties": {"a": {"type": "number"}}}, '{"a": "-Infinity"}', "finite number"),
        ({"properties": {"a": {"type": ["number", "null"]}}}, '{"a": "nan"}', "finite number"),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}, '{"a": 1}', "valid string"),
        ({"properties": {"a": {}}, "additionalProperties": False}, '{"b": 1}', "not permitted"),
    ],
)
def test_what_a_model_did_wrong_is_reported(schema: dict[str, Any], text: str, why: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=why):
        ArgumentValidator(schema).read(text, None)


def test_the_arguments_of_a_root_that_refers_to_them() -> None:
    args = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}
    back = {
        "allOf": [
            {"$ref": "#"},
            {"properties": [], "required": 7},
            args,
            {"properties": {"m": {"type": "integer"}}},
            True,
        ]
    }
    for schema in ({"$ref": "#/$defs/Args", "$defs": {"Args": args}}, back):
        arguments = ArgumentValidator({"type": "object", **schema})
        assert arguments.read('{"n": "5"}', None)[0].kwargs == {"n": 5}
        with pytest.raises(pydantic.ValidationError, match="Field required"):
            arguments.read("{}", None)


def test_a_chain_of_references_is_followed_only_so_far() -> None:
    chain = {f"c{n}": {"$ref": f"#/$defs/c{n + 1}"} for n in range(1200)} | {"c1200": {"type": "integer"}}
    arguments = ArgumentValidator({"properties": {"a": {"$ref": "#/$defs/c0"}}, "$defs": chain})
    assert arguments.read('{"a": "x"}', None)[0].kwargs == {"a": "x"}


def test_an_error_without_a_reason() -> None:
    output = to_tool_output(answer(is_error=True), "count")
    assert (output.content, str(output.error)) == ("it gives no reason", "it gives no reason")


# Schemas.


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels - 1):
        schema = {"properties": schema}
    return schema


@pytest.mark.fault(142)
@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({}, None),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}}, None),
        ({"properties": {"$ref": {"type": "string"}}}, None),
        (nested(MAX_DEPTH - 1), None),
        (nested(MAX_DEPTH + 1), "its schema has more than 50 levels"),
        ({"type": "array"}, "its arguments are no object"),
        ({"properties": []}, "its schema is none"),
        ({"required": [1]}, "its schema is none"),
        ({"properties": {"a": {"anyOf": [{"$ref": "https://example.com"}]}}}, "its schema refers to another document"),
        ({"$defs": {"A": {"$dynamicRef": "other.json#x"}}}, "its schema refers to another document"),
    ],
)
def test_schemas_that_make_no_tool(schema: dict[str, Any], fault: str | None) -> None:
    assert schema_problem(schema) == fault


@given(st.dictionaries(st.sampled_from(["type", "properties", "required", "$defs", "items"]), plain))
def test_a_schema_without_fault_can_be_used(schema: dict[str, Any]) -> None:
    if schema_problem(schema) is None:
        tool = CallableTool("tool", "A tool.", schema, ArgumentValidator(schema))
        assert tool.spec.parameters == schema


# Descriptions.


@given(st.text())
def test_a_description_has_nothing_that_no_one_sees(text: str) -> None:
    cleaned = clean_text(text)
    assert not [sign for sign in cleaned if unicodedata.category(sign).startswith("C") and sign not in "\n\t"]
    assert clean_text(cleaned) == cleaned


@pytest.mark.fault(142)
def test_a_description_is_cut() -> None:
    assert clean_text("x" * MAX_DESCRIPTION) == "x" * MAX_DESCRIPTION
    assert clean_text("x" * (MAX_DESCRIPTION + 1)) == "x" * (MAX_DESCRIPTION - 1) + "…"
    assert clean_text(" a\x1b[2J\u202eb\U000e0041\n c ") == "a[2Jb\n c"


@given(st.text())
def test_the_words_of_an_error_stand_in_one_line(text: str) -> None:
    line = single_line(text)
    assert len(line.splitlines()) <= 1
    assert not [sign for sign in line if unicodedata.category(sign).startswith("C")]


# Answers.


def answer(*content: Any, **rest: Any) -> CallToolResult:
    return CallToolResult(content=list(content), **rest)


def test_everything_that_is_no_image_becomes_text() -> None:
    class Novelty:
        type = "hologram"

    result = answer(
        TextContent(text="Words."),
        AudioContent(data="", mime_type="audio/wav"),
        ImageContent(data="/w==", mime_type="image/png"),
        ImageContent(data="no base64", mime_type="image/png"),
        ResourceLink(name="notes", uri="file:///notes"),
        EmbeddedResource(resource=TextResourceContents(uri="file:///a", text="In a file.")),
        EmbeddedResource(resource=BlobResourceContents(uri="file:///b", blob="", mime_type="a/b")),
        EmbeddedResource(resource=BlobResourceContents(uri="file:///c", blob="")),
    )
    result.content.append(Novelty())  # type: ignore[arg-type]  # a kind of content that is still to come
    output = to_tool_output(result, "look")
    assert output.content.splitlines() == [
        "Words.",
        "[sound: audio/wav]",
        "[an image that cannot be read]",
        "[notes: file:///notes]",
        "In a file.",
        "[file:///b: a/b]",
        "[file:///c: bytes]",
        "[hologram]",
    ]
    assert [image.data for image in output.images] == [b"\xff"]
    assert output.raw_output == output.content
    assert output.tool_name == "look"


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        (['{"n": 2, "m": [true]}'], {"m": [True], "n": 2}),
        (["two"], {"result": "two"}),
        (["2"], {"result": 2}),
        (["a", "2"], {"result": ["a", 2]}),
        (["Two:", '{"n": 2}'], {"n": 2}),
    ],
)
def test_structured_content_that_the_text_repeats_is_not_shown_again(texts: list[str], value: dict[str, Any]) -> None:
    output = to_tool_output(answer(*(TextContent(text=text) for text in texts), structured_content=value), "count")
    assert (output.content, output.raw_output) == ("\n".join(texts), value)


def test_structured_content() -> None:
    flag = to_tool_output(answer(TextContent(text="1"), structured_content={"result": True}), "count")
    assert flag.content == '1\n{"result":true}'  # True == 1 in Python alone
    both = to_tool_output(answer(TextContent(text="two"), structured_content={"n": 2}), "count")
    assert (both.content, both.raw_output) == ('two\n{"n":2}', {"n": 2})
    alone = to_tool_output(answer(structured_content={"n": 2}), "count")
    assert (alone.content, alone.raw_output) == ('{"n":2}', {"n": 2})


def test_a_failure() -> None:
    output = to_tool_output(answer(TextContent(text="No such file."), is_error=True), "read")
    assert output.is_error
    assert isinstance(output.error, MCPToolError)
    assert str(output.error) == "No such file."
    assert str(to_tool_output(answer(is_error=True), "read").error) == "it gives no reason"


def test_null_for_an_argument_that_may_be_absent_is_absent() -> None:
    schema = {
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": None},
            "near": {"type": ["string", "null"]},
            "unit": {"enum": ["km", "mi"]},
        },
        "required": ["query"],
    }
    call, repairs = ArgumentValidator(schema).read('{"query": "a", "limit": null, "near": null, "unit": null}', None)
    assert call.kwargs == {"query": "a", "near": None}
    assert repairs == ("left out `limit`, which was null", "left out `unit`, which was null")
    with pytest.raises(pydantic.ValidationError, match="query"):
        ArgumentValidator(schema).read('{"query": null}', None)
