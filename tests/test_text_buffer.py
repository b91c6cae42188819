"""pieces.py: nothing that was added is lost, and it takes few objects to keep it."""

from __future__ import annotations

from hypothesis import given, strategies as st

from toolcast.text_buffer import JOIN_THRESHOLD, TextBuffer


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
