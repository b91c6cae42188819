"""The arguments of a call as text: nothing is hidden, and an edit changes what it shows and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from toolcast import ToolcastError
from toolcast.apps.argument_text import (
    LONGEST_SUMMARY,
    EditableText,
    editable_text,
    edited_arguments,
    exposed_line,
    full_arguments,
    is_summary_complete,
    parse_arguments,
    summarize_call,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("arguments", "summary"),
    [
        ("{}", "look"),
        ('{"url": "https://a.com/?b=c;d"}', "look  https://a.com/?b=c;d"),
        ('{"text": "two words"}', 'look  "two words"'),
        ('{"text": ""}', 'look  ""'),
        ('{"a": "x=y", "b": 1, "c": null}', 'look  a="x=y" b=1 c=null'),
        ('{"a": "1 b=2", "an other": []}', 'look  a="1 b=2" "an other"=[]'),
        ('{"a": "line\\nend\\t"}', 'look  "line\\nend\\t"'),
        ("no\nJSON", "look  no\\nJSON"),
        ('{"a": "\u202e"}', "look  \\u202e"),
    ],
)
def test_a_summary(arguments: str, summary: str) -> None:
    assert summarize_call("look", arguments) == summary
    assert is_summary_complete("look", arguments)


def test_long_values_are_shortened_and_counted() -> None:
    one = json.dumps({"a": "x" * 300})
    assert summarize_call("look", one) == f"look  {'x' * 200}… (300 characters)"
    many = json.dumps({f"n{n}": "x" * 100 for n in range(10)})
    assert summarize_call("look", many).startswith("look  n0=xxx")
    assert len(summarize_call("look", many)) < LONGEST_SUMMARY + 30
    assert not is_summary_complete("look", one)
    assert not is_summary_complete("look", many)


@given(st.text(max_size=10), st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_a_summary_is_one_line_without_invisible_characters(tool: str, given: dict[str, object]) -> None:
    summary = summarize_call(tool, json.dumps(given, ensure_ascii=False))
    assert exposed_line(summary) == summary


@pytest.mark.parametrize("text", ["", "[1]", "null", '"x"', "{", "[" * 100_000])
def test_text_that_is_no_object(text: str) -> None:
    assert parse_arguments(text) is None


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("{}", "(no arguments)"),
        ("[oops", "[oops"),
        ('{"a": "x", "b": 5}', "a: x\nb: 5"),
        ('{"a": "one\\ntwo\\u200b"}', "a:\n  one\n  two\\u200b"),
        ('{"a b": [1]}', '"a b":\n  [\n    1\n  ]'),
    ],
)
def test_arguments_in_full(arguments: str, shown: str) -> None:
    assert full_arguments(arguments) == shown


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"path": "a/b.py", "content": "x\ny"}, EditableText("content", "x\ny", ".py")),
        ({"path": "a.txt", "old": "x", "new": "y"}, EditableText("new", "y", ".txt")),
        ({"path": "a", "old": "x", "new": "y", "all": True}, EditableText("new", "y", ".txt")),
        ({"path": "a.b c", "content": "x"}, EditableText("content", "x", ".txt")),
        ({"command": "ls"}, EditableText("command", "ls", ".sh")),
        ({"command": "ls", "cwd": "/"}, EditableText("command", "ls", ".sh")),
        ({"city": "Oslo"}, EditableText("city", "Oslo", ".txt")),
        ({"text": "x", "directory": "/"}, EditableText(None, '{\n  "text": "x",\n  "directory": "/"\n}', ".json")),
        ({"a": "é", "b": 1}, EditableText(None, '{\n  "a": "é",\n  "b": 1\n}', ".json")),
        ({"number": 5}, EditableText(None, '{\n  "number": 5\n}', ".json")),
        ({"path": "a", "content": 5}, EditableText(None, '{\n  "path": "a",\n  "content": 5\n}', ".json")),
        ({}, EditableText(None, "{}", ".json")),
    ],
)
def test_the_text_of_an_edit(arguments: dict[str, object], expected: EditableText) -> None:
    assert editable_text(json.dumps(arguments)) == expected


def test_arguments_that_are_no_json_are_edited_as_they_are() -> None:
    assert editable_text("{x") == EditableText(None, "{x", ".json")


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=3), st.text())
def test_an_edit_changes_the_text_alone(given: dict[str, object], text: str) -> None:
    arguments = json.dumps(given)
    argument, before, _ = editable_text(arguments)
    assert json.loads(edited_arguments(arguments, argument, before)) == given
    if argument is not None:
        assert json.loads(edited_arguments(arguments, argument, text)) == given | {argument: text}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[1]", "expected a JSON object"),
        ("{oops", "the arguments are no JSON: Expecting property name"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_edited_arguments_that_are_none(text: str, error: str) -> None:
    with pytest.raises(ToolcastError, match=error):
        edited_arguments("{}", None, text)
