"""Tool calls in few lines."""

from __future__ import annotations

import pytest

from toolcast.apps.repl.tool_call_summary import LONGEST_OUTPUT, SHOWN_LINES, SHOWN_VALUE, ShownCall


def test_arguments_that_arrive_are_a_beginning_and_a_count() -> None:
    call = ShownCall("write")
    assert call.partial_summary == "write "
    for piece in ('{"text":\n', ' "ab', 'c"}'):
        call.add_arguments(piece)
    assert call.partial_summary == 'write {"text": "abc"}'
    for _ in range(10_000):
        call.add_arguments("1234567890")
    assert call.partial_summary.endswith("… (100,016 characters)")
    assert len(call.arguments) < 2 * SHOWN_VALUE


@pytest.mark.parametrize(
    ("arguments", "folded"),
    [
        ("{}", "f()"),
        ('{"a": 1, "b": "x\\ny", "c": ["漢"]}', 'f(a=1, b="x\\ny", c=["漢"])'),
        ('{"a": "' + "x" * 99 + '"}', 'f(a="' + "x" * 59 + "… (101 characters))"),
        ("[1]", "f [1]"),
        ("{broken", "f {broken"),
        ("[" * 100_000, "f " + "[" * 60 + "… (100,000 characters)"),
    ],
)
def test_arguments_that_are_whole(arguments: str, folded: str) -> None:
    assert ShownCall("f", arguments).summary == folded


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        ("", ["(nothing)"]),
        ("one\n", ["one"]),
        ("1\n2\n3\n4\n5\n", ["1", "2", "3", "4", "5"]),  # "1 more line" would be as long
        ("x" * 1_000_000, ["x" * 1000]),
        ("1\n2\n3\n4\n5\n6", ["1", "2", "3", "4", "… 2 more lines"]),
    ],
)
def test_results(result: str, lines: list[str]) -> None:
    assert ShownCall("f", "{}", result=result).result_summary == lines


def test_the_end_of_the_output_of_a_running_tool_is_kept() -> None:
    call = ShownCall("f")
    for number in range(50):
        call.add_output(f"line {number}\n")
    call.add_output("and")
    assert call.output.split("\n") == ["line 46", "line 47", "line 48", "line 49", "and"]
    assert len(call.output.split("\n")) == SHOWN_LINES + 1
    call.add_output("x" * 2 * LONGEST_OUTPUT)
    assert call.output == "x" * LONGEST_OUTPUT


def test_the_whole() -> None:
    assert ShownCall("f", '{"a": "é"}', result="1\n2\n").full_text == 'f {\n  "a": "é"\n}\n1\n2'
    assert ShownCall("f", "{broken").full_text == "f {broken"


def test_what_cannot_be_seen_is_spelt_out() -> None:
    call = ShownCall("f\u200b")
    call.add_arguments('{"a":\u00a0"\u3000b"}')
    assert call.partial_summary == 'f\\u200b {"a":\\u00a0"\\u3000b"}'
    call = ShownCall("f\u200b", '{"a": "x\u00ady"}', result="❤\ufe0f")
    assert call.summary == 'f\\u200b(a="x\\u00ady")'
    assert call.full_text == 'f\\u200b {\n  "a": "x\\u00ady"\n}\n❤\ufe0f'
    assert ShownCall("f", "no JSON\u200b").summary == "f no JSON\\u200b"
