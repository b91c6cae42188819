"""The results of evaluators, and how far evaluators and repeats agree: pairs of ratings, and Krippendorff's alpha."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from statistics import fmean, stdev
from typing import Any

from ...lazy.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PEIResult:
    """One rating of one run by one evaluator. `pei_rating` is a level from 1, or None if none could be parsed.

    `run_id` is the name of the log's file without its ending, `pei_response` the evaluator's text, `timestamp` the time
    in UTC.
    """

    run_id: str
    evaluator_model: str
    pei_rating: int | None
    pei_response: str
    timestamp: str

    def to_dict(self) -> dict[str, Any]:
        """Return the result as it is in a file."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class EvaluatorRatings:
    """The ratings of one evaluator. `missing` counts answers without a rating; the rest is of the others.

    Statistics for which there are too few ratings are None; `stdev` is that of a sample.
    """

    evaluator_model: str
    ratings: int
    missing: int
    mean: float | None
    min: int | None
    max: int | None
    stdev: float | None


@dataclass(frozen=True, slots=True)
class PairsOfRatings:
    """Pairs of ratings of the same run: their number, the proportion of equal ones, and the mean difference."""

    pairs: int
    exact: float
    mean_difference: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of ratings. `same_evaluator` compares repeats, `evaluators_apart` different evaluators.

    `alpha` is Krippendorff's, of all ratings; see `krippendorff_alpha`.
    """

    evaluators: tuple[EvaluatorRatings, ...]
    same_evaluator: PairsOfRatings | None
    evaluators_apart: PairsOfRatings | None
    alpha: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics as plain data."""
        return asdict(self)


def agreement(results: Iterable[PEIResult]) -> Agreement:
    """Return the agreement of `results`, of any number of runs, evaluators and repeats. None ratings are missing."""
    by_evaluator: defaultdict[str, list[int | None]] = defaultdict(list)
    by_run: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for result in results:
        by_evaluator[result.evaluator_model].append(result.pei_rating)
        if result.pei_rating is not None:
            by_run[result.run_id].append((result.evaluator_model, result.pei_rating))
    pairs = [pair for ratings in by_run.values() for pair in combinations(ratings, 2)]
    return Agreement(
        tuple(_evaluator(name, ratings) for name, ratings in by_evaluator.items()),
        _pairs([(a, b) for (one, a), (other, b) in pairs if one == other]),
        _pairs([(a, b) for (one, a), (other, b) in pairs if one != other]),
        krippendorff_alpha([level for _, level in ratings] for ratings in by_run.values()),
    )


def _evaluator(name: str, ratings: Sequence[int | None]) -> EvaluatorRatings:
    levels = [level for level in ratings if level is not None]
    missing = len(ratings) - len(levels)
    if not levels:
        return EvaluatorRatings(name, 0, missing, None, None, None, None)
    spread = stdev(levels) if len(levels) > 1 else None
    return EvaluatorRatings(name, len(levels), missing, fmean(levels), min(levels), max(levels), spread)


def _pairs(pairs: Sequence[tuple[int, int]]) -> PairsOfRatings | None:
    if not pairs:
        return None
    apart = [abs(a - b) for a, b in pairs]
    return PairsOfRatings(len(pairs), apart.count(0) / len(pairs), fmean(apart))


def krippendorff_alpha(units: Iterable[Sequence[int | None]]) -> float | None:
    """Return Krippendorff's alpha of ordinal ratings: 1 is full agreement, 0 that of chance.

    Each unit is a run with its ratings, by any evaluators; a None is a missing one. The result is None if alpha is
    undefined: with fewer than two runs that have two ratings, and if all ratings are the same level.

    The formula is that of K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), with the ordinal
    difference: the number of ratings between two levels, those of the two themselves counted by half.
    """
    found = [[level for level in unit if level is not None] for unit in units]
    paired = [unit for unit in found if len(unit) > 1]
    counts = Counter(level for unit in paired for level in unit)
    if len(paired) < 2 or len(counts) < 2:
        return None
    apart = {pair: _ordinal(counts, *pair) for pair in combinations(sorted(counts), 2)}
    # Both are sums over pairs that are not ordered, so each lacks the same factor of 2.
    observed = sum(
        apart[min(a, b), max(a, b)] / (len(unit) - 1) for unit in paired for a, b in combinations(unit, 2) if a != b
    )
    expected = sum(counts[a] * counts[b] * distance for (a, b), distance in apart.items())
    return 1 - (counts.total() - 1) * observed / expected


def _ordinal(counts: Mapping[int, int], low: int, high: int) -> float:
    """Return the squared ordinal difference of two levels."""
    between = sum(count for level, count in counts.items() if low <= level <= high)
    return (between - (counts[low] + counts[high]) / 2) ** 2
