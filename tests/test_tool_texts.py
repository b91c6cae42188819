"""What a model reads of results and errors, however large or broken they are."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.errors import LLMError, ToolcastError, TryAgain, UnknownToolError
from toolcast.messages import ImagePart, TextPart
from toolcast.tool_texts import cut, pictured, text_of, told

NOTE = 60  # characters that a note on what was left out may have

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


class Stubborn:
    def __str__(self) -> str:
        raise RuntimeError("I will not")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("I will not")


def ring() -> Any:
    made: list[Any] = []
    made.append({"again": made})
    return made


def failing() -> Iterator[int]:
    yield 1
    raise RuntimeError("broken")


@given(plain)
def test_what_is_short_enough_is_whole(value: Any) -> None:
    text = text_of(value, 10_000)
    assert text == text_of(value)
    assert text == value if isinstance(value, str) else json.loads(text) == value


@given(plain, st.integers(1, 40))
def test_what_is_too_long_is_its_beginning_and_a_note(value: Any, limit: int) -> None:
    whole, text = text_of(value), text_of(value, limit)
    assert text == whole or (text.startswith(whole[:limit] + "... [") and text.endswith("left out]"))
    assert len(text) <= limit + NOTE
    assert (text == whole) == (len(whole) <= limit)


@given(st.text(st.characters(codec="utf-8")), st.integers(1, 30))
def test_of_text_it_is_said_how_much_was_left_out(text: str, limit: int) -> None:
    left = len(text) - limit
    assert text_of(text, limit) == (f"{text[:limit]}... [{left} characters left out]" if left > 0 else text)


@pytest.mark.parametrize(
    "value",
    [
        b"\xff" * 1_000_000,
        bytearray(1_000_000),
        ["x" * 1_000_000] * 3,
        {"key": "x" * 1_000_000},
        {"k" * 1_000_000: 1},
        [[]] * 1_000_000,
        set(range(1_000_000)),
        {number: {} for number in range(100_000)},
        (number for number in itertools.count()),
        itertools.count(),
        [{"a": itertools.count()}],
        ring(),
        {"a": ring()},
    ],
    ids=lambda value: type(value).__name__,
)
def test_large_endless_and_circular_results_are_bounded(value: Any) -> None:
    assert len(text_of(value, 1000)) <= 1000 + NOTE


def test_of_what_never_ends_no_more_is_taken_than_is_shown() -> None:
    taken: list[int] = []

    def count() -> Iterator[int]:
        for number in itertools.count():
            taken.append(number)
            yield number

    assert text_of(count(), 10) == "[0,1,2,3,4... [the rest was left out]"
    assert len(taken) <= 11


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Stubborn(), "<Stubborn that cannot be shown: RuntimeError>"),
        (failing(), "<generator that cannot be shown: RuntimeError>"),
        ((number for number in ()), "[]"),
        ((pair for pair in [{}, {"a": ()}, {1, 2}]), '[{},{"a":[]},[1,2]]'),
        (math.nan, "NaN"),
        (object, json.dumps(str(object))),
        ("\ud800a", "?a"),
    ],
)
def test_what_is_hard_to_show(value: Any, text: str) -> None:
    assert text_of(value, 1000) == text


def test_what_is_nested_without_end_is_shown_to_a_depth() -> None:
    text = text_of(ring(), 1000)
    assert text.startswith('[{"again":[{"again":')
    assert '"..."' in text


# Errors


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no"), "ValueError: no"),
        (ValueError(), "ValueError"),
        (KeyError("a"), "KeyError: 'a'"),
        (TryAgain("do better"), "do better"),
        (ToolcastError(), "ToolcastError"),
        (UnknownToolError("which?"), "which?"),
        (LLMError("down", provider="p", model="m"), "down"),
        (Unspeakable(), "Unspeakable"),
        (
            ExceptionGroup("two", [ValueError("a"), ExceptionGroup("in", [KeyError("b")])]),
            "ExceptionGroup: two (2 sub-exceptions): ValueError: a; "
            "ExceptionGroup: in (1 sub-exception): KeyError: 'b'",
        ),
    ],
)
def test_told(error: BaseException, words: str) -> None:
    assert told(error) == words


@given(st.text())
def test_an_error_is_told_in_few_words(text: str) -> None:
    for error in (ValueError(text * 1000), UnknownToolError(text * 1000)):
        words = told(error)
        assert len(words) <= 2000 + NOTE
        assert words.encode()


# Parts


IMAGE = ImagePart(url="https://example.com/a.png")


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (IMAGE, ("", (IMAGE,))),
        (TextPart("a"), ("a", ())),
        (["a", IMAGE, TextPart("b")], ("a\nb", (IMAGE,))),
        ((IMAGE, IMAGE), ("", (IMAGE, IMAGE))),
        (["a", "b"], None),
        ([], None),
        ([IMAGE, 5], None),
        ("a", None),
    ],
)
def test_pictured(result: Any, shown: Any) -> None:
    assert pictured(result) == shown


def test_cut_without_a_limit() -> None:
    assert cut("abc", None) == "abc"
