"""The schema in one line: its fields, and the places of its errors."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest
from hypothesis import given, strategies as st

from toolcast.apps.one_line_schema import TYPES, OneField, SchemaError, build_model, parse_schema


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("name", [OneField("name")]),
        ("name, age int,", [OneField("name"), OneField("age", "int")]),
        ("name: str\n, age: int", [OneField("name"), OneField("age", "int")]),
        ("price float?", [OneField("price", "float", optional=True)]),
        ("name?", [OneField("name", optional=True)]),
        ("tags list", [OneField("tags", many=True)]),
        ("tags int list?", [OneField("tags", "int", many=True, optional=True)]),
        ("tags int[], more [ ]", [OneField("tags", "int", many=True), OneField("more", many=True)]),
        ("list list, str str", [OneField("list", many=True), OneField("str")]),
        ("born date", [OneField("born", "date")]),
        ("size small|large", [OneField("size", choices=("small", "large"))]),
        ("size small|large|small[]", [OneField("size", choices=("small", "large"), many=True)]),
        ('mark 1|2.5|"very good"|n/a', [OneField("mark", choices=("1", "2.5", "very good", "n/a"))]),
        ("same x|x", [OneField("same", choices=("x",))]),
        ('name "the full name"', [OneField("name", description="the full name")]),
        (r'name "print \"hi\" \\"', [OneField("name", description='print "hi" \\')]),
        (
            'author {name, born date?} list? "who wrote it", year int',
            [
                OneField("author", fields=(OneField("name"), OneField("born", "date", optional=True)), many=True,
                         optional=True, description="who wrote it"),
                OneField("year", "int"),
            ],
        ),
        ("größe_2, first-name", [OneField("größe_2"), OneField("first-name")]),
    ],
)  # fmt: skip
def test_parsed_fields(text: str, fields: list[OneField]) -> None:
    assert parse_schema(text) == tuple(fields)


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("", 0, "expected the name of a field"),
        ("   ", 0, "expected the name of a field"),
        ("a,,b", 2, "the name of a field"),
        ("1a", 0, "the name of a field"),
        ("a {}", 3, "the name of a field"),
        ("a, a int", 3, "duplicate field 'a'"),
        ("a ag", 2, "unknown type 'ag'; expected one of str, text, int"),
        ("a small, b", 2, "unknown type 'small'"),
        ("a x|", 4, "a value of the choice"),
        ("a x||y", 4, "a value of the choice"),
        ("a int b", 6, "a comma or the end of the schema"),
        ("a list list", 7, "a comma or the end of the schema"),
        ("a}", 1, "a comma or the end of the schema"),
        ("a {b int", 8, "that closes the { at 3"),
        ("a {b c}", 5, "unknown type 'c'"),
        ('a "x', 2, "unterminated quote"),
        ("a {" * 11, 32, "objects are nested more than 10 deep"),
    ],
)
def test_where_it_is_wrong(text: str, at: int, why: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    output, line, pointer = str(caught.value).split("\n")
    assert why in output
    assert caught.value.at == at
    assert line == f"  {text}"
    assert pointer == "  " + " " * at + "^"


def test_the_place_in_a_schema_of_several_lines() -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema("name,\n  age ag")
    assert str(caught.value).split("\n")[1:] == ["  name,   age ag", "              ^"]


# What is written is what is read.

names = st.from_regex(r"[a-zA-Z_][\w-]{0,8}", fullmatch=True)
words = st.text(min_size=1, max_size=8)


def a_field(inner: st.SearchStrategy[OneField]) -> st.SearchStrategy[OneField]:
    several = st.lists(inner, min_size=1, max_size=3, unique_by=lambda field: field.name).map(tuple)
    kinds = st.one_of(
        st.sampled_from(sorted(TYPES)).map(lambda name: {"type": name}),
        st.lists(words, min_size=1, max_size=3, unique=True).map(lambda found: {"choices": tuple(found)}),
        several.map(lambda fields: {"fields": fields}),
    )
    return st.builds(
        lambda name, kind, many, optional, message: OneField(name, many=many, optional=optional, description=message,
        **kind), names, kinds, st.booleans(), st.booleans(), st.none() | words, )  # fmt: skip


any_field = st.recursive(names.map(OneField), a_field, max_leaves=8)
any_fields = st.lists(any_field, min_size=1, max_size=4, unique_by=lambda field: field.name).map(tuple)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def written(fields: tuple[OneField, ...]) -> str:
    return ", ".join(map(one_written, fields))


def one_written(field: OneField) -> str:
    kind = field.type
    if field.fields:
        kind = f"{{{written(field.fields)}}}"
    elif field.choices:
        kind = "|".join(map(quoted, (*field.choices, *field.choices[:1])))
    message = "" if field.description is None else quoted(field.description)
    return f"{field.name} {kind}{'[]' * field.many}{'?' * field.optional} {message}"


@given(any_fields)
def test_what_is_written_is_what_is_read(fields: tuple[OneField, ...]) -> None:
    assert parse_schema(written(fields)) == fields


@given(st.text(st.sampled_from('abc int{}[],:?|"\\1. ') | st.characters(), max_size=40))
def test_any_text_is_read_or_refused_at_a_place(text: str) -> None:
    try:
        fields = parse_schema(text)
    except SchemaError as error:
        assert 0 <= error.at <= len(text)
    else:
        assert parse_schema(written(fields)) == fields


@given(any_fields)
def test_every_schema_is_a_model(fields: tuple[OneField, ...]) -> None:
    model = build_model(fields)
    assert list(model.model_json_schema()["properties"]) == [field.name for field in fields]
    required = [field.name for field in fields if not field.optional]
    assert model.model_json_schema().get("required", []) == required


# The model.


def test_the_model() -> None:
    model = build_model(parse_schema('name "in full", json float?, size small|large, tags list, author {born date?}[]'))
    made: Any = model.model_validate_json(
        '{"name": "x", "size": "large", "tags": ["y"], "author": [{"born": "2026-01-02"}, {}], "more": 1}'
    )
    assert made.model_dump_json(by_alias=True) == (
        '{"name":"x","json":null,"size":"large","tags":["y"],"author":[{"born":"2026-01-02"},{"born":null}]}'
    )
    assert model.model_json_schema()["properties"]["name"]["description"] == "in full"
    with pytest.raises(pydantic.ValidationError):
        model.model_validate_json('{"name": "x", "size": "huge", "tags": [], "author": []}')
