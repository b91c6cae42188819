"""How alike reflections are, each with each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from toolcast.experiments.embedders import embedder_of
from toolcast.experiments.report.similarity_matrix import MOST, Likeness, likeness_of
from toolcast.experiments.report.summary import CycleSummary, RunSummary


def run_of(*reflections: str | None) -> RunSummary:
    cycles = tuple(CycleSummary(number, reflection=received) for number, received in enumerate(reflections, 1))
    return RunSummary("run", None, "", "", 0, 0, None, {}, cycles, (), ())


class Table:
    """An embedder that knows its texts."""

    name = "table"

    def __init__(self, vectors: dict[str, Sequence[float]]) -> None:
        self.vectors = vectors

    def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        return [self.vectors[text] for text in texts if text in self.vectors]


SEA = Table({"sea": (2, 0), "shore": (3, 3), "sum": (0, 5), "": (1, 1), "none": (0, 0)})


def test_every_two_are_compared() -> None:
    found = likeness_of(run_of("sea", "shore", "sum"), SEA)
    half = 0.707107
    assert found == Likeness((1, 2, 3), ((1.0, half, 0.0), (half, 1.0, half), (0.0, half, 1.0)), 3, "table")
    assert found.pairs == [(half, 1, 2), (half, 2, 3), (0.0, 1, 3)]


def test_cycles_without_a_reflection_are_passed_over() -> None:
    found = likeness_of(run_of(None, "sea", " \n", "", "sum"), SEA)
    assert (found.cycles, found.among) == ((2, 5), 2)


def test_a_vector_of_zeros_is_like_nothing() -> None:
    assert likeness_of(run_of("none", "sea"), SEA).scores == ((0.0, 0.0), (0.0, 1.0))


def test_without_an_embedder_nothing_is_compared() -> None:
    assert likeness_of(run_of("sea", "shore"), None) == Likeness(among=2)
    assert likeness_of(run_of(None), SEA) == Likeness()


def test_of_too_many_some_are_taken_evenly_spread() -> None:
    run = run_of(*["sea"] * 1000)
    found = likeness_of(run, SEA)
    assert (len(found.cycles), found.among) == (MOST, 1000)
    assert found.cycles[:3] == (1, 6, 11) and found.cycles[-1] == 996
    assert likeness_of(run, SEA, most=3).cycles == (1, 334, 667)


TOO_FEW = "ValueError: it gave 1 vectors for 2 texts"


@pytest.mark.parametrize(
    ("vectors", "why"),
    [
        ({"sea": (1, 2)}, TOO_FEW),
        ({"sea": (1, 2), "sum": (1, 2, 3)}, "ValueError: it gave vectors of 2 and 3 numbers"),
        (
            {"sea": (1, 2), "sum": (float("nan"), 2)},
            "ValueError: it gave a vector with a number that is not finite",
        ),
        ({"sea": (1, 2), "sum": ("x", 2)}, "ValueError: could not convert string to float: 'x'"),
        ({"sea": (1, 2), "sum": 7}, "TypeError: 'int' object is not iterable"),
    ],
)
def test_an_embedder_that_fails_reports_why(vectors: dict[str, Sequence[float]], why: str) -> None:
    found = likeness_of(run_of("sea", "sum"), Table(vectors))
    assert (found.error, found.embedder, found.scores, found.among) == (why, "table", (), 2)


def test_the_embedder_that_needs_nothing() -> None:
    found = likeness_of(run_of("The sea and the wind", "Primes and sums", "The wind and the sea"), embedder_of("words"))
    assert found.error is None and found.pairs[0][1:] == (1, 3)
