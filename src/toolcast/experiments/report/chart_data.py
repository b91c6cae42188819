"""Data of the charts of a report, for their pictures and for their interactive forms.

In a run with too many cycles for single bars, each bar is the mean of some consecutive cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from statistics import fmean
from typing import Final, TypeAlias

from .summary import CycleSummary, RunSummary

Measure: TypeAlias = Callable[[CycleSummary], float | None]
Curve: TypeAlias = Sequence[tuple[int, float]]

BARS: Final = 60
"""The maximum of bars in a chart."""
FINE: Final = 4
"""The largest value up to which an axis may have fractions, if there are any."""
NUMBERED: Final = 14
"""The maximum of cycles of a matrix that has its numbers in its cells."""

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
"""The palette of Okabe and Ito, safe for colour-blind readers, without black and yellow, which some papers hide."""
LINES: Final = len(COLOURS)
"""The number of runs that are distinguished by colour."""

MEMORY_COLOURS: Final[Mapping[str, str]] = dict(
    zip(("write", "read", "list", "delete", "pattern_search"), COLOURS, strict=False)
)
PANELS: Final[Sequence[tuple[str, Measure]]] = (
    ("tokens per cycle, input and output", lambda cycle: tokens_of(cycle)),
    ("seconds per cycle", lambda cycle: cycle.seconds),
    ("keys in memory at the end of a cycle", lambda cycle: cycle.memory_keys),
    ("similarity to the nearest earlier reflection", lambda cycle: cycle.similarity),
)
"""The charts of several runs: a title, and the measure that is drawn."""


def tokens_of(cycle: CycleSummary) -> int | None:
    """Return the input and output tokens of a cycle; None if neither was logged."""
    if cycle.input_tokens is None and cycle.output_tokens is None:
        return None
    return (cycle.input_tokens or 0) + (cycle.output_tokens or 0)


def calls_of(tool: str) -> Measure:
    """Return the measure of the calls of a memory tool."""
    return lambda cycle: cycle.memory_ops[tool]


def seconds_of(run: RunSummary) -> dict[str, Measure]:
    """Return the parts of the seconds of a cycle: one, if the log does not have those of the model."""
    if run.total(lambda cycle: cycle.model_seconds) is None:
        return {"whole cycle": lambda cycle: cycle.seconds}
    return {"model": _model_seconds, "tools": _tool_seconds, "all else": _other_seconds}


def groups_of(run: RunSummary) -> Iterator[Sequence[CycleSummary]]:
    """Yield the cycles in groups of as many as one bar represents."""
    size = cycles_per_bar(run)
    for start in range(0, len(run.cycles), size):
        yield run.cycles[start : start + size]


def cycles_per_bar(run: RunSummary) -> int:
    """Return the number of cycles that one bar represents."""
    return max(1, ceil(len(run.cycles) / BARS))


def cycle_axis(run: RunSummary) -> str:
    """Return the title of the axis of the cycles."""
    size = cycles_per_bar(run)
    return "cycle" if size == 1 else f"cycle (each bar is the mean of {size} cycles)"


def mean_of(cycles: Sequence[CycleSummary], measure: Measure) -> float:
    """Return the mean of the cycles that have a value, or 0."""
    values = [value for value in map(measure, cycles) if value is not None]
    return fmean(values) if values else 0.0


def curves_of(runs: Mapping[str, RunSummary], measure: Measure) -> dict[str, Curve]:
    """Return the points of each run, by its name."""
    return {
        name: [(cycle.number, value) for cycle in run.cycles if (value := measure(cycle)) is not None]
        for name, run in runs.items()
    }


def overlaid(curves: Mapping[str, Curve]) -> dict[str, list[str]]:
    """Return for each curve those that agree with it as far as both go, itself among them, the longest first."""
    points = {name: dict(curves[name]) for name in sorted(curves, key=lambda name: -len(curves[name]))}
    return {
        name: [other for other, its in points.items() if other == name or _agree(own, its)]
        for name, own in points.items()
    }


def _agree(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    common = one.keys() & other.keys()
    return bool(common) and (one == other or len(common) > 1) and all(one[cycle] == other[cycle] for cycle in common)


def place_in_row(ratings: Sequence[int]) -> Iterator[tuple[int, float]]:
    """Yield each rating in order, with a place on the axis so that equal ones are side by side."""
    seen, many = dict[int, int](), max(map(ratings.count, ratings), default=0)
    for rating in sorted(ratings):
        seen[rating] = seen.get(rating, 0) + 1
        yield rating, rating + min(0.15, 0.8 / many) * (seen[rating] - (ratings.count(rating) + 1) / 2)


def _model_seconds(cycle: CycleSummary) -> float:
    return cycle.model_seconds or 0.0


def _tool_seconds(cycle: CycleSummary) -> float:
    return cycle.tool_seconds or 0.0


def _other_seconds(cycle: CycleSummary) -> float:
    return max((cycle.seconds or 0.0) - _model_seconds(cycle) - _tool_seconds(cycle), 0.0)
