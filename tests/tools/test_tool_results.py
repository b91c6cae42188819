"""The text of tool results and errors, however large or broken they are."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.errors import (
    Attempt,
    LLMError,
    NoToolCallError,
    Overloaded,
    ToolcastError,
    TryAgain,
    UnknownToolError,
    ValidationError,
)
from toolcast.messages import ImagePart, TextPart
from toolcast.tools.tool_results import (
    acollect_items,
    collect_items,
    error_text,
    is_quick,
    split_images,
    text_of,
    truncate,
)

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
def test_truncated_text_ends_with_the_number_of_characters_left_out(text: str, limit: int) -> None:
    left = len(text) - limit
    assert text_of(text, limit) == (f"{text[:limit]}... [{left} characters left out]" if left > 0 else text)


@pytest.mark.fault(127)
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


def test_without_a_limit_what_never_ends_ends_too() -> None:
    for endless in (itertools.count(), [{"a": itertools.count()}]):
        assert len(text_of(endless)) <= 100_000 + NOTE
    assert text_of([1, iter([2])]) == "[1,[2]]"
    assert len(text_of("x" * 1_000_000)) == 1_000_000
    assert len(text_of(["x"] * 1_000_000)) == 4_000_001


class Given:
    """An iterator, sync and async, that has no other methods."""

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items

    def __iter__(self) -> Given:
        return self

    def __next__(self) -> Any:
        return next(self._items)

    def __aiter__(self) -> Given:
        return self

    async def __anext__(self) -> Any:
        try:
            return next(self._items)
        except StopIteration:
            raise StopAsyncIteration from None


class Read:
    """Items, and how many of them were read before it was closed."""

    def __init__(self, items: Any) -> None:
        self.items, self.count, self.closed = items, 0, False

    def one_by_one(self) -> Iterator[Any]:
        try:
            for item in self.items:
                self.count += 1
                yield item
        finally:
            self.closed = True

    async def later(self) -> AsyncIterator[Any]:
        for item in self.one_by_one():
            yield item


@given(st.lists(plain, max_size=8), st.integers(1, 60))
async def test_as_much_is_gathered_as_can_be_shown(items: list[Any], limit: int) -> None:
    one, other = Read(items), Read(items)
    found = collect_items(one.one_by_one(), limit)
    assert found == items[: len(found)]
    assert one.closed
    assert one.count == len(found)
    assert found == await acollect_items(other.later(), limit)
    assert found == collect_items(Given(iter(items)), limit) == await acollect_items(Given(iter(items)), limit)
    assert text_of(found, limit).removesuffix("... [the rest was left out]")[:limit] == text_of(items)[:limit]
    if len(found) < len(items):
        assert text_of(found, limit).endswith("... [the rest was left out]")


def test_lines_of_a_file_are_gathered(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n" + "x" * 10_000)
    with path.open() as file:
        assert text_of([file], 100) == text_of([["one\n", "x" * 101, "x"]], 100)
    file = path.open()
    assert collect_items(file, 50) == ["one\n", "x" * 51]
    assert file.closed
    path.write_bytes(b"a\nb")
    assert collect_items(path.open("rb"), None) == [b"a\n", b"b"]


def test_what_is_quick() -> None:
    assert is_quick(["a", {"b": 1}, object()])
    assert not any(map(is_quick, (iter([]), [iter([])], "x" * 1_000_000)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Stubborn(), "<Stubborn that cannot be shown: RuntimeError>"),
        (failing(), "<generator that cannot be shown: RuntimeError>"),
        ((number for number in ()), "[]"),
        ((pair for pair in [{}, {"a": ()}, {1, 2}]), '[{},{"a":[]},[1,2]]'),
        (math.nan, '"NaN"'),
        (object, json.dumps(str(object))),
        ("\ud800a", "\ufffda"),
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
def test_error_text(error: BaseException, words: str) -> None:
    assert error_text(error) == words


@given(st.text())
def test_the_text_of_an_error_is_short(text: str) -> None:
    for error in (ValueError(text * 1000), UnknownToolError(text * 1000)):
        words = error_text(error)
        assert len(words) <= 2000 + NOTE
        assert words.encode()


KEYS = (
    "sk-ant-api03-abcd1234",
    "AIzaSyD-abc1234567",
    "ghp_abcdefghij123456",
    "xoxb-12345678-abc",
    "AKIAABCDEFGHIJKLMNOP",
)


@pytest.mark.fault(126, 134)
@pytest.mark.parametrize(
    ("words", "model_text"),
    [
        *((f"no {key}, sorry", "no [key], sorry") for key in KEYS),
        ("GET https://a.example/v1?q=1&key=abc failed", "GET https://a.example/v1?q=1&key=[key] failed"),
        ("Bearer abcdefgh-12 is old", "Bearer [key] is old"),
        ("{'Authorization': 'Basic dXNlcjpwYXNz'}", "{'Authorization': '[key]'}"),
        ('{"api_key": "abc", "n": 5}', '{"api_key": "[key]", "n": 5}'),
        ("password=hunter2; try", "password=[key]; try"),
        ("postgres://user:pass@host/db", "postgres://[key]@host/db"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.a_b", "[key]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "[key]"),
        ("in /home/me/work/app.py, line 3", "in app.py, line 3"),
        ("no such file: '/home/me/My Documents/a b.txt'", "no such file: 'a b.txt'"),
        ("file:///home/me/a.txt and file://'", "a.txt and file://'"),
        (r"C:\Users\me\a.txt and 'C:\\Users\\me\\b c.txt'", "a.txt and 'b c.txt'"),
        (r"\\server\share\a.txt", "a.txt"),
        ('Traceback (most recent call last):\n  File "/a/b.py", line 1\n    f()\nOSError: no', "OSError: no"),
    ],
)
def test_the_text_of_an_error_has_no_key_no_folder_and_no_traceback(words: str, model_text: str) -> None:
    error = RuntimeError(words)
    assert error_text(error) == f"RuntimeError: {model_text}"
    assert (
        error_text(ExceptionGroup("all", [error]))
        == f"ExceptionGroup: all (1 sub-exception): RuntimeError: {model_text}"
    )
    assert str(error) == words


@pytest.mark.parametrize(
    "words",
    [
        "unknown key: name; basic understanding",
        "a/b/c ~/x/y ./z https://a.example/b/c?x=1 1/2",
        "no token left",
        "KeyError at 5:30",
    ],
)
def test_what_is_harmless_stays(words: str) -> None:
    assert error_text(RuntimeError(words)) == f"RuntimeError: {words}"


@pytest.mark.parametrize("path", ["/home/me/a.txt", "C:\\a\\b.txt"])
def test_messages_for_the_model_are_unchanged(path: str) -> None:
    for error in (TryAgain(path), ToolcastError(path), UnknownToolError(path)):
        assert error_text(error) == path


@given(st.text("abcXYZ019/ -_.", max_size=200), st.sampled_from(KEYS), st.text("abcXYZ019/ -_.", max_size=700))
def test_not_even_half_of_a_key_is_in_the_text(before: str, key: str, after: str) -> None:
    assert key[4:12] not in error_text(RuntimeError(f"{before} {key} {after}"))


def test_advice_is_for_people() -> None:
    for error in (NoToolCallError("nothing"), ValidationError("unfit", provider="p")):
        assert "max_attempts=2" in str(error)
        assert "max_attempts" not in error_text(error)
        error.attempts = (Attempt(1),)
        assert "max_attempts=2" in str(error)
        error.attempts = (Attempt(1, Overloaded("broken")), Attempt(2, error))
        assert "max_attempts=2" in str(error)
        error.attempts = (Attempt(1, type(error)("as before")), Attempt(2, error))
        assert "max_attempts" not in str(error)


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
    assert split_images(result) == shown


def test_cut_without_a_limit() -> None:
    assert truncate("abc", None) == "abc"
