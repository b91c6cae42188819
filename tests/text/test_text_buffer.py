"""pieces.py: nothing that was added is lost, and it takes few objects to keep it."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, strategies as st

from toolcast.text.text_buffer import JOIN_THRESHOLD, SliceableText, TextBuffer


def test_nothing_yet() -> None:
    pieces = TextBuffer()
    assert not pieces
    assert pieces.whole() == ""


def test_pieces_are_joined_at_many() -> None:
    pieces = TextBuffer()
    fresh = pieces.fresh
    for _ in range(JOIN_THRESHOLD - 1):
        pieces.add("ab")
    assert (len(pieces.fresh), pieces.blocks) == (JOIN_THRESHOLD - 1, [])
    pieces.add("cd")
    assert pieces.fresh is fresh == []  # a reference to it may be used further
    assert pieces.blocks == ["ab" * (JOIN_THRESHOLD - 1) + "cd"]
    assert pieces
    fresh.append("!")
    assert pieces.whole() == "ab" * (JOIN_THRESHOLD - 1) + "cd!"


def test_an_empty_piece_is_one() -> None:
    pieces = TextBuffer()
    pieces.add("")
    assert pieces
    assert pieces.whole() == ""


def test_many_pieces_take_few_objects() -> None:
    pieces = TextBuffer()
    for number in range(10 * JOIN_THRESHOLD + 3):
        pieces.add(str(number))
    assert (len(pieces.blocks), len(pieces.fresh)) == (10, 3)
    assert pieces.whole() == "".join(map(str, range(10 * JOIN_THRESHOLD + 3)))


@given(st.lists(st.text(max_size=3) | st.none(), max_size=40))
def test_the_whole_is_all_that_was_added(steps: list[str | None]) -> None:
    """Joined whenever anybody likes, which `None` stands for."""
    pieces = TextBuffer()
    for step in steps:
        if step is None:
            pieces.join()
        else:
            pieces.add(step)
        assert pieces.whole() == pieces.whole()
    assert pieces.whole() == "".join(step or "" for step in steps)


texts = st.text(max_size=3) | st.text(st.characters(min_codepoint=0x10000), max_size=2)
wide = st.lists(texts | st.sampled_from([chr(0xD800), "é"]) | st.none(), max_size=20)


@given(wide, st.data())
def test_slices_are_those_of_the_text(steps: list[str | None], data: st.DataObject) -> None:
    pieces = SliceableText()
    for step in steps:
        if step is None:
            pieces.join()
        else:
            pieces.add(step)
    text = "".join(step or "" for step in steps)
    end = data.draw(st.integers(0, len(text)))
    start = data.draw(st.integers(0, end))
    if data.draw(st.booleans()):
        pieces.share(data.draw(st.sampled_from([text, text + "x", text[:-1] + "y"])))
    assert pieces.cut(start, end) == text[start:end]
    assert pieces.whole() == text


@pytest.mark.parametrize("kind", [TextBuffer, SliceableText])
def test_an_equal_text_is_shared(kind: type[TextBuffer]) -> None:
    pieces = kind()
    for number in range(2 * JOIN_THRESHOLD + 3):
        pieces.add(f"{number} \U0001f30a ")
    text = pieces.whole()
    pieces.share(text[:-1] + "x")
    assert pieces.whole() is not text
    pieces.share(text)
    assert pieces.whole() is text
    pieces.add("more")
    assert pieces.whole() == text + "more"


def test_a_text_with_an_emoji_takes_as_many_bytes_as_utf_8() -> None:
    pieces = TextBuffer()
    for _ in range(20 * JOIN_THRESHOLD):
        pieces.add("The sea \U0001f30a ")
    assert sum(map(sys.getsizeof, pieces.blocks)) < 1.1 * len(pieces.whole().encode())
