"""Tool calls in few lines."""

from __future__ import annotations

import pytest

from toolcast.apps.repl.tool_call_summary import LONGEST_SAYING, SHOWN_LINES, SHOWN_VALUE, ShownCall


def test_arguments_that_arrive_are_a_beginning_and_a_count() -> None:
    call = ShownCall("write")
    assert call.growing == "write "
    for piece in ('{"text":\n', ' "ab', 'c"}'):
        call.grow(piece)
    assert call.growing == 'write {"text": "abc"}'
    for _ in range(10_000):
        call.grow("1234567890")
    assert call.growing.endswith("… (100,016 characters)")
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
    assert ShownCall("f", arguments).folded == folded


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
    assert ShownCall("f", "{}", result=result).folded_result == lines


def test_of_what_a_running_tool_says_the_end_is_kept() -> None:
    call = ShownCall("f")
    for number in range(50):
        call.say(f"line {number}\n")
    call.say("and")
    assert call.saying.split("\n") == ["line 46", "line 47", "line 48", "line 49", "and"]
    assert len(call.saying.split("\n")) == SHOWN_LINES + 1
    call.say("x" * 2 * LONGEST_SAYING)
    assert call.saying == "x" * LONGEST_SAYING


def test_the_whole() -> None:
    assert ShownCall("f", '{"a": "é"}', result="1\n2\n").whole == 'f {\n  "a": "é"\n}\n1\n2'
    assert ShownCall("f", "{broken").whole == "f {broken"


def test_what_cannot_be_seen_is_spelt_out() -> None:
    call = ShownCall("f\u200b")
    call.grow('{"a":\u00a0"\u3000b"}')
    assert call.growing == 'f\\u200b {"a":\\u00a0"\\u3000b"}'
    call = ShownCall("f\u200b", '{"a": "x\u00ady"}', result="❤\ufe0f")
    assert call.folded == 'f\\u200b(a="x\\u00ady")'
    assert call.whole == 'f\\u200b {\n  "a": "x\\u00ady"\n}\n❤\ufe0f'
    assert ShownCall("f", "no JSON\u200b").folded == "f no JSON\\u200b"
