"""Tests of the metrics."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from toolcast.batch import aligned, exact, numeric, overlap, same_text, similarity
from toolcast.batch.metrics import MISSING, as_data, compare, field_value

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
METRICS = [exact, same_text, numeric(1), similarity(), overlap, aligned("name"), aligned("name", {"age": numeric(2)})]


@pytest.mark.parametrize("metric", METRICS)
@given(DATA, DATA)
def test_a_score_is_from_0_to_1_and_1_for_the_same(metric: Any, one: Any, other: Any) -> None:
    assert 0 <= metric(one, other) <= 1
    assert metric(one, one) == pytest.approx(1)


@pytest.mark.parametrize(
    ("expected", "actual", "score"),
    [
        ("a", "a", 1),
        ("a", "A", 0),
        (1, 1.0, 1),
        (1, True, 0),
        (None, None, 1),
        ([1, 2], [2, 1], 0),
        ({"a": 1}, {"a": 1}, 1),
    ],
)
def test_exact(expected: Any, actual: Any, score: float) -> None:
    assert exact(expected, actual) == score


def test_same_text() -> None:
    assert same_text("Sea  of\nGlass", "sea of glass") == 1
    assert same_text("Sea", "See") == 0
    assert same_text(3, 3) == 1


@pytest.mark.parametrize(
    ("metric", "expected", "actual", "score"),
    [
        (numeric(0.5), 10, 10.5, 1),
        (numeric(0.5), 10, 10.6, 0),
        (numeric(relative=0.1), -100, -91, 1),
        (numeric(relative=0.1), -100, -89, 0),
        (numeric(1), "10.00", 11, 1),  # a Decimal in JSON
        (numeric(1), "ten", "ten", 1),
        (numeric(1), "ten", 10, 0),
        (numeric(1), True, 1, 0),
        (numeric(1), None, 1, 0),
    ],
)
def test_numbers(metric: Any, expected: Any, actual: Any, score: float) -> None:
    assert metric(expected, actual) == score


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_a_tolerance_is_a_number(value: float) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        numeric(value)


def test_similarity_of_texts() -> None:
    assert similarity()("abcd", "abxd") == 0.75
    assert similarity()([1], [1]) == 1


def test_similarity_by_an_embedder() -> None:
    vectors = {"sea": [1.0, 0.0], "ocean": [0.6, 0.8], "desert": [-1.0, 0.0], "": [0.0, 0.0]}
    metric = similarity(lambda texts: [vectors[text] for text in texts])
    assert metric("sea", "ocean") == pytest.approx(0.6)
    assert metric("sea", "desert") == 0
    assert metric("sea", "") == 0


def test_overlap() -> None:
    assert overlap(["a", "b"], ["b", "c"]) == 0.5
    assert overlap([], []) == 1
    assert overlap(None, ["a"]) == 0
    assert overlap([{"a": 1, "b": 2}], [{"b": 2, "a": 1}]) == 1


def test_aligned_items() -> None:
    songs = [{"title": "Tide", "minutes": 3}, {"title": "Foam", "minutes": 4}]
    turned = [{"title": "Foam", "minutes": 5}, {"title": "Tide", "minutes": 3}]
    assert aligned("title")(songs, turned) == 0.5
    assert aligned("title", {"minutes": numeric(1)})(songs, turned) == 1
    assert aligned("title", {"minutes": exact, "title": exact})(songs, turned) == 0.75
    assert aligned("title")(songs, songs[:1]) == pytest.approx(2 / 3)
    assert aligned("title")(songs, None) == 0
    assert aligned("title")([], None) == 1
    twice = [songs[0], songs[0]]
    assert aligned("title")(twice, [songs[0]]) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="compares nothing"):
        aligned("title", {})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("author.name", "Ada"),
        ("songs.1", "Foam"),
        ("songs.2", MISSING),
        ("songs.first", MISSING),
        ("author.age", MISSING),
        ("author.name.first", MISSING),
        ("none.name", MISSING),
    ],
)
def test_paths(path: str, value: Any) -> None:
    assert field_value({"author": {"name": "Ada"}, "songs": ["Tide", "Foam"], "none": None}, path) == value


def test_missing_values() -> None:
    assert compare(MISSING, MISSING, exact) == 1
    assert compare("a", MISSING, exact) == 0
    assert compare(MISSING, "a", exact) == 0


@pytest.mark.parametrize("score", [2, -0.1, "good", None, float("nan")])
def test_a_metric_returns_a_score(score: Any) -> None:
    def graded(expected: Any, actual: Any) -> Any:
        return score

    with pytest.raises(ValueError, match=r"the metric graded returned .*; a score is a number from 0 to 1"):
        compare("a", "b", graded)


def test_values_as_data() -> None:
    class Size(Enum):
        SMALL = "small"

    class Song(BaseModel):
        tags: set[str]
        released: date
        price: Decimal

    @dataclass
    class Album:
        songs: tuple[Song, ...]
        size: Size

    song = Song(tags={"b", "a", "c"}, released=date(2026, 1, 2), price=Decimal("1.50"))
    assert as_data({1: Album((song,), Size.SMALL)}) == {
        "1": {"songs": [{"tags": ["a", "b", "c"], "released": "2026-01-02", "price": "1.50"}], "size": "small"}
    }
