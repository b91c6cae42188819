"""The monitor: which earlier reflection is the nearest, in which band it is, what becomes of an embedder's faults."""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import anyio
import numpy
import pytest
from hypothesis import given, strategies as st

from support.process import Process
from toolcast.experiments.embedders import WordsEmbedder
from toolcast.experiments.similarity import Band, Similarity, SimilarityMonitor, Vector, advisory_of

NEAR = [1.0, 0.0]
AT_80 = [0.8, 0.6]
AT_75 = [0.75, math.sqrt(1 - 0.75**2)]
AT_70 = [0.7, math.sqrt(0.51)]
FAR = [0.0, 1.0]


class Scripted:
    """An embedder that returns the given vector for each text, and records the texts."""

    name = "scripted"

    def __init__(self, vectors: dict[str, Any]) -> None:
        self.vectors = vectors
        self.asked: list[list[str]] = []
        self.threads: list[int] = []

    def embed(self, texts: Sequence[str]) -> Iterable[Vector]:
        self.asked.append(list(texts))
        self.threads.append(threading.get_ident())
        found = [self.vectors[text] for text in texts]
        for vector in found:
            if isinstance(vector, BaseException):
                raise vector
        return found


def monitor(**vectors: Any) -> SimilarityMonitor:
    return SimilarityMonitor(Scripted(vectors))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


class Way:
    """The two APIs of `check` and `remember`."""

    def __init__(self, backend: str | None) -> None:
        self.backend = backend

    def check(self, monitor: SimilarityMonitor, reflection: str, cycle: int) -> Similarity:
        if self.backend is None:
            return monitor.check(reflection, cycle)
        return anyio.run(monitor.acheck, reflection, cycle, backend=self.backend)

    def remember(self, monitor: SimilarityMonitor, reflections: Iterable[tuple[int, str]]) -> None:
        if self.backend is None:
            monitor.remember(reflections)
        else:
            anyio.run(monitor.aremember, reflections, backend=self.backend)


@pytest.fixture(params=[None, "asyncio", "trio"], ids=["sync", "asyncio", "trio"])
def way(request: pytest.FixtureRequest) -> Way:
    return Way(request.param)


@pytest.fixture(params=["numpy", "plain"])
def arithmetic(request: pytest.FixtureRequest, process: Process) -> str:
    """With numpy, and where it is not installed."""
    if request.param == "plain":
        process.without("numpy")
    return str(request.param)


# -- the bands


def test_x7_identical_reflections_are_advised_on_from_the_second_on(way: Way, arithmetic: str) -> None:
    """The advisory of cycle 2 is in the prompt of cycle 3."""
    same = monitor(same=[0.3, 0.4, 0.5])
    found = [way.check(same, "same", cycle) for cycle in (1, 2, 3)]
    assert found == [Similarity(), Similarity(1.0, "high", 1), Similarity(1.0, "high", 1)]
    assert found[0].advisory is None
    assert found[1].advisory == advisory_of("high")


@pytest.mark.parametrize(
    ("vector", "score", "band"),
    [
        (AT_80, 0.8, "moderate"),
        (AT_75, 0.75, "moderate"),
        (AT_70, 0.7, None),
        ([0.81, math.sqrt(1 - 0.81**2)], 0.81, "high"),
        ([0.71, math.sqrt(1 - 0.71**2)], 0.71, "moderate"),
        (FAR, 0.0, None),
        ([-1.0, 0.0], -1.0, None),
        ([0.0, 0.0], 0.0, None),
        ([4, 3], 0.8, "moderate"),
        ([4e300, 3e300], 0.8, "moderate"),
        ([4e-320, 3e-320], 0.8, "moderate"),
        (numpy.array(AT_80, "float32"), 0.8, "moderate"),
        (numpy.array(AT_70, "float32"), 0.7, None),
        ((0.8, 0.6), 0.8, "moderate"),
    ],
)
def test_x7_bands(vector: Any, score: float, band: str | None, arithmetic: str) -> None:
    given = monitor(near=NEAR, other=vector)
    given.check("near", 1)
    found = given.check("other", 2)
    assert (found.score, found.band, found.cycle) == (pytest.approx(score, abs=5e-6), band, 1)
    assert found.error is None
    assert SimilarityMonitor(None).check_similarity(vector, [NEAR]) == advisory_of(found.band)


@given(
    st.sampled_from([(0.8, "moderate"), (0.7, None)]),
    st.floats(1e-30, 1e30),
    st.floats(0, 2 * math.pi),
    st.integers(2, 64),
    st.sampled_from(["float32", "float64"]),
)
def test_x7_a_score_that_is_exactly_at_a_bound_is_below_it(
    case: tuple[float, Band | None], size: float, turn: float, width: int, kind: str
) -> None:
    cosine, band = case
    angle = math.acos(cosine)
    rows = numpy.zeros((2, width))
    rows[0, -2:] = math.cos(turn), math.sin(turn)
    rows[1, -2:] = size * math.cos(turn + angle), size * math.sin(turn + angle)
    one, two = rows.astype(kind)
    given = monitor(one=one, two=two)
    given.check("one", 1)
    assert given.check("two", 2) == Similarity(cosine, band, 1)
    assert SimilarityMonitor(None).check_similarity(two, [one]) == advisory_of(band)


def test_advisories_state_what_is_expected() -> None:
    high, moderate = advisory_of("high"), advisory_of("moderate")
    assert high is not None
    assert moderate is not None
    assert high.startswith("Advisory:")
    assert moderate.startswith("Advisory:")
    assert "high similarity" in high
    assert "distinctly different topic" in high
    assert "moderate similarity" in moderate
    assert "moderate" not in high
    assert advisory_of(None) is None


def test_bounds_can_be_set() -> None:
    strict = SimilarityMonitor(Scripted({"a": NEAR, "b": AT_75}), high=0.74, moderate=0.5)
    strict.check("a", 1)
    assert strict.check("b", 2).band == "high"


# -- the published call


def test_check_similarity_without_history() -> None:
    assert SimilarityMonitor(None).check_similarity(NEAR, []) is None


def test_check_similarity_takes_the_nearest() -> None:
    assert SimilarityMonitor(None).check_similarity(NEAR, [FAR, [2, 0], AT_75]) == advisory_of("high")
    assert SimilarityMonitor(None).check_similarity(numpy.array(NEAR), numpy.array([FAR, AT_75])) == advisory_of(
        "moderate"
    )


@pytest.mark.parametrize("odd", [[math.nan, 0.0], [math.inf, 0.0], [-math.inf, math.nan], [1.0], [], [1.0, 0.0, 0.0]])
def test_check_similarity_passes_over_what_cannot_be_compared(odd: list[float]) -> None:
    given = SimilarityMonitor(None)
    assert given.check_similarity(NEAR, [odd]) is None
    assert given.check_similarity(odd, [NEAR]) is None
    assert given.check_similarity(NEAR, [odd, NEAR]) == advisory_of("high")


numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(st.lists(numbers, max_size=4), st.lists(st.lists(numbers, max_size=4), max_size=4))
def test_check_similarity_takes_any_numbers(new: list[float], history: list[list[float]]) -> None:
    assert SimilarityMonitor(None).check_similarity(new, history) in (
        None,
        advisory_of("high"),
        advisory_of("moderate"),
    )


# -- what is remembered


def test_the_earliest_of_the_nearest_is_named(arithmetic: str) -> None:
    given = monitor(a=FAR, b=AT_80, c=NEAR)
    for cycle, text in enumerate(("a", "b", "b", "c"), 1):
        given.check(text, cycle)
    assert given.check("b", 5).cycle == 2
    assert given.check("c", 6).cycle == 4


def test_a_vector_is_remembered_after_the_comparison(way: Way) -> None:
    given = monitor(a=NEAR)
    assert way.check(given, "a", 1).score is None
    assert way.check(given, "a", 2).cycle == 1


def test_vectors_of_different_lengths_are_not_compared() -> None:
    given = monitor(a=NEAR, b=[1.0, 0.0, 0.0], c=NEAR)
    assert [given.check(text, cycle).cycle for cycle, text in enumerate("abc", 1)] == [None, None, 1]


@pytest.mark.parametrize("blank", ["", " ", "\n\t "])
def test_an_empty_reflection_is_neither_embedded_nor_compared_nor_remembered(way: Way, blank: str) -> None:
    given = monitor(a=NEAR)
    way.check(given, "a", 1)
    assert way.check(given, blank, 2) == Similarity()
    way.remember(given, [(3, blank)])
    assert given.embedder is not None
    assert given.embedder.asked == [["a"]]  # type: ignore[attr-defined]  # it is a Scripted


def test_without_an_embedder_nothing_is_compared(way: Way) -> None:
    none = SimilarityMonitor(None)
    way.remember(none, [(1, "a")])
    assert way.check(none, "a", 2) == Similarity()


def test_remembered_reflections_are_embedded_in_one_call(way: Way) -> None:
    embedder = Scripted({"a": FAR, "b": NEAR})
    given = SimilarityMonitor(embedder)
    way.remember(given, iter([(1, "a"), (2, " "), (3, "b")]))
    assert embedder.asked == [["a", "b"]]
    assert given.check("b", 4) == Similarity(1.0, "high", 3)


rows = st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=12)


@given(rows, st.integers(0, 12))
def test_a_resumed_run_compares_as_one_that_was_never_broken_off(vectors: list[list[int]], cut: int) -> None:
    embedder = Scripted({str(place): vector for place, vector in enumerate(vectors)})
    whole, resumed = SimilarityMonitor(embedder), SimilarityMonitor(embedder)
    all_of_it = [whole.check(str(place), place) for place in range(len(vectors))]
    resumed.remember((place, str(place)) for place in range(min(cut, len(vectors))))
    assert [resumed.check(str(place), place) for place in range(cut, len(vectors))] == all_of_it[cut:]


@given(rows)
def test_with_numpy_and_without_the_same_is_found(vectors: list[list[int]]) -> None:
    embedder = Scripted({str(place): vector for place, vector in enumerate(vectors)})
    fast, plain = SimilarityMonitor(embedder), SimilarityMonitor(embedder)
    with_numpy = [fast.check(str(place), place) for place in range(len(vectors))]
    with Process.context() as process:
        process.without("numpy")
        without = [plain.check(str(place), place) for place in range(len(vectors))]
    assert [found.cycle for found in without] == [found.cycle for found in with_numpy]
    assert [found.score for found in without] == [pytest.approx(found.score, abs=2e-6) for found in with_numpy]


def test_numpy_is_loaded_once_there_is_much_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its import takes longer than a short run needs for all comparisons."""
    loaded = sys.modules["numpy"]
    monkeypatch.delitem(sys.modules, "numpy")
    asked: list[str] = []

    def find(name: str) -> Any:
        asked.append(name)
        return loaded

    monkeypatch.setattr("toolcast.experiments.similarity.import_module", find)
    wide = [1.0] * 1_000
    given = monitor(wide=wide)
    given.remember((cycle, "wide") for cycle in range(29))
    assert given.check("wide", 29).cycle == 0
    assert asked == []
    assert given.check("wide", 30).cycle == 0
    assert asked == ["numpy"]


# -- embedders that fail


@pytest.mark.parametrize(
    ("broken", "received"),
    [
        (OSError("no route to host"), "no route to host"),
        ([math.nan, 1.0], "not finite"),
        ([math.inf, 1.0], "not finite"),
        ("text", "float"),
        ([None], "NoneType"),
        (7, "int"),
    ],
)
def test_a_failure_is_an_answer(way: Way, broken: Any, received: str, caplog: pytest.LogCaptureFixture) -> None:
    given = monitor(a=NEAR, b=broken)
    way.check(given, "a", 1)
    found = way.check(given, "b", 2)
    assert (found.score, found.band, found.cycle, found.advisory) == (None, None, None, None)
    assert received in (found.error or "")
    (warning,) = warnings(caplog)
    assert "the embedder scripted failed" in warning
    assert "embedder: none" in warning
    assert way.check(given, "a", 3) == Similarity(1.0, "high", 1)


def test_only_the_first_failure_is_logged(way: Way, caplog: pytest.LogCaptureFixture) -> None:
    given = monitor(a=OSError("away"))
    way.remember(given, [(1, "a")])
    assert [given.check("a", cycle).error for cycle in range(2, 5)] == ["OSError: away"] * 3
    assert len(warnings(caplog)) == 1


def test_a_key_in_a_failure_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    found = monitor(a=RuntimeError("401 for api_key=sk-abcdefgh12345678")).check("a", 1)
    assert "abcdefgh" not in f"{found.error} {caplog.text}"


class Miscounting:
    """An embedder without a name that gives one vector too many."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0]] * (len(texts) + 1)


def test_as_many_vectors_as_texts_are_wanted(caplog: pytest.LogCaptureFixture) -> None:
    given = SimilarityMonitor(Miscounting())  # type: ignore[arg-type]  # what a user may pass all the same
    given.remember([(1, "a")])
    assert "2 vectors for 1 texts" in (given.check("a", 2).error or "")
    assert "the embedder Miscounting failed" in warnings(caplog)[0]


def test_ctrl_c_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        monitor(a=KeyboardInterrupt()).check("a", 1)


def test_under_an_event_loop_the_embedder_has_a_thread_of_its_own() -> None:
    embedder = Scripted({"a": NEAR})
    anyio.run(SimilarityMonitor(embedder).acheck, "a", 1)
    anyio.run(SimilarityMonitor(embedder).aremember, [(1, "a")])
    assert len(embedder.threads) == 2
    assert threading.get_ident() not in embedder.threads


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_comparison_is_not_waited_for_and_not_remembered(backend: str) -> None:
    gate, begun = threading.Event(), threading.Event()

    class Slow:
        name = "slow"

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            begun.set()
            assert gate.wait(30)
            return [NEAR for _ in texts]

    given = SimilarityMonitor(Slow())

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(given.acheck, "a", 1)
            await anyio.to_thread.run_sync(begun.wait, 5)
            group.cancel_scope.cancel()
        gate.set()

    anyio.run(main, backend=backend)
    assert given.check("a", 2) == Similarity()


def test_an_embedding_is_compared_with_those_before_it() -> None:
    monitor = SimilarityMonitor(None)
    assert monitor.check_similarity([1.0, 0.0]) is None
    assert monitor.check_similarity([0.0, 1.0]) is None
    assert monitor.check_similarity([1.0, 0.0, 0.0]) is None  # of another length
    assert monitor.check_similarity([0.01, 1.0]) == advisory_of("high")
    assert monitor.check_similarity([float("nan"), 1.0]) is None
    assert monitor.check_similarity([1.0, 0.0], []) is None  # compared with these alone


def test_embeddings_are_remembered_beside_reflections() -> None:
    monitor = SimilarityMonitor(WordsEmbedder())
    monitor.remember([(4, "the sea")])
    (vector,) = WordsEmbedder().embed(["the sea"])
    assert monitor.check_similarity(vector) == advisory_of("high")
    assert monitor.check("the sea", 9).cycle == 4
