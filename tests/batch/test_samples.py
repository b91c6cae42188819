"""Tests of the sample of a job's inputs."""

from __future__ import annotations

from toolcast.batch.inputs import spread


def test_positions_are_spread_evenly() -> None:
    assert spread(iter("abcdefghij"), 10, 5) == [(1, "b"), (3, "d"), (5, "f"), (7, "h"), (9, "j")]
    assert [index for index, _ in spread(iter(range(7)), 7, 3)] == [1, 3, 5]
    assert [index for index, _ in spread(iter(range(5)), 5, 1)] == [2]


def test_without_a_total_or_where_all_are_wanted_the_first_ones_are_taken() -> None:
    assert spread(iter("abc"), 3, 5) == [(0, "a"), (1, "b"), (2, "c")]
    rows = iter("abcdef")
    assert spread(rows, None, 2) == [(0, "a"), (1, "b")]
    assert next(rows) == "c"
