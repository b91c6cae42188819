"""Comparison of several runs: the differences of their configurations, their statistics, and their ratings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Final, cast

from ...lazy.lazy_dataclasses import dataclass
from ..pei.agreement import agreement
from .chart_rendering import Picture
from .html import Cell, Section, Table, Value
from .sections import NOTHING, ReportedRun, count, decimal, duration, status_of
from .summary import CycleSummary, RunSummary

_OWN: Final = ("run_id", "log_folder", "data_folder", "grid")
"""Keys that differ between any two runs and do not describe them."""
_VALUE: Final = 60


@dataclass(frozen=True, slots=True)
class Comparison:
    """The first section of a page on several runs."""

    tables: Sequence[Table]
    pictures: Sequence[Picture]
    sections: Sequence[Section]


def comparison_of(runs: Sequence[ReportedRun], pictures: Sequence[Picture]) -> Comparison:
    """Return the tables that compare `runs`, and the charts with all runs in them."""
    # Two tables of figures: one would be wider than a screen.
    whole = f"The runs as a whole. Keys: in memory at the end. {NOTHING}: not logged, or not rated."
    means = f"Means of a cycle. {NOTHING}: not logged."
    tables = (_columns(whole, runs, _WHOLE, words=(1, 2)), _columns(means, runs, _MEANS))
    return Comparison(tables, pictures, (*_ratings(runs), *_differences(runs)))


_WHOLE: Final[Mapping[str, Callable[[ReportedRun], Value]]] = {
    "Run": lambda run: Cell(run.name, "link", f"#run-{run.slug}"),
    "Model": lambda run: Cell(run.summary.model_name or NOTHING, "name"),
    "Status": lambda run: status_of(run.summary),
    "Cycles": lambda run: count(run.summary.ended_cycles),
    "Advisories": lambda run: count(sum(cycle.advisory is not None for cycle in run.summary.cycles)),
    "Keys": lambda run: count(run.summary.cycles[-1].memory_keys if run.summary.cycles else 0),
    "Errors": lambda run: count(run.summary.failures),
    "Time in all": lambda run: duration(run.summary.total(lambda cycle: cycle.seconds)),
    "PEI": lambda run: decimal(_rating(run)),
}
_MEANS: Final[Mapping[str, Callable[[ReportedRun], Value]]] = {
    "Run": lambda run: Cell(run.name, "name"),
    "Steps": lambda run: decimal(_mean(run.summary, lambda cycle: cycle.steps), 1),
    "Tool calls": lambda run: decimal(_mean(run.summary, lambda cycle: cycle.tool_calls), 1),
    "Memory ops": lambda run: decimal(_mean(run.summary, lambda cycle: sum(cycle.memory_ops.values())), 1),
    "Tokens in": lambda run: count(_mean(run.summary, lambda cycle: cycle.input_tokens)),
    "Tokens out": lambda run: count(_mean(run.summary, lambda cycle: cycle.output_tokens)),
    "Tokens/s": lambda run: decimal(run.summary.tokens_per_second, 1),
    "Seconds": lambda run: decimal(_mean(run.summary, lambda cycle: cycle.seconds), 1),
    "Reflection chars": lambda run: count(_mean(run.summary, _reflection_chars)),
    "Similarity": lambda run: decimal(_mean(run.summary, lambda cycle: cycle.similarity)),
}


def _columns(
    caption: str,
    runs: Sequence[ReportedRun],
    columns: Mapping[str, Callable[[ReportedRun], Value]],
    words: Sequence[int] = (),
) -> Table:
    rows = [[column(run) for column in columns.values()] for run in runs]
    return Table(caption, [*columns], rows, words, [run.slug for run in runs])


def _ratings(runs: Sequence[ReportedRun]) -> Iterator[Section]:
    """Yield the mean of each evaluator for each run, and how far they agree."""
    evaluators = [*dict.fromkeys(name for run in runs for name in run.rated)]
    if not evaluators:
        return
    rows: list[Sequence[Value]] = [
        (Cell(run.name, "name"), *(_mean_of(run.rated.get(name)) for name in evaluators), decimal(_rating(run)))
        for run in runs
    ]
    caption = "PEI ratings: the mean of each evaluator (of how many), and the mean of these means."
    alpha = agreement([replace(result, run_id=run.slug) for run in runs for result in run.ratings]).alpha
    notes = () if alpha is None else (f"Krippendorff's alpha of all ratings, ordinal: {alpha:z.2f}.",)
    head: Sequence[Value] = ("Run", *(Cell(name, "name") for name in evaluators), "Mean")
    yield Section("PEI ratings", table=Table(caption, head, rows, runs=[run.slug for run in runs]), notes=notes)


def _mean_of(levels: Sequence[int] | None) -> str:
    return f"{fmean(levels):.2f} ({len(levels)})" if levels else NOTHING


def _rating(run: ReportedRun) -> float | None:
    """Return the mean of the evaluators' means: an evaluator with more ratings has no more weight."""
    means = [fmean(levels) for levels in run.rated.values()]
    return fmean(means) if means else None


def _differences(runs: Sequence[ReportedRun]) -> Iterator[Section]:
    """Yield the keys of the configurations that are not the same in all runs."""
    configs = [dict(_flat(run.summary.config)) for run in runs]
    keys = [key for key in dict.fromkeys(key for config in configs for key in config) if key.split(".")[0] not in _OWN]
    different = [key for key in keys if len({config.get(key, NOTHING) for config in configs}) > 1]
    if not different:
        return
    rows = [
        (Cell(run.name, "name"), *(Cell(_short(config.get(key, NOTHING)), "name") for key in different))
        for run, config in zip(runs, configs, strict=True)
    ]
    caption = f"What tells the configurations apart. {NOTHING}: not set."
    words, slugs = range(1, len(different) + 1), [run.slug for run in runs]
    yield Section("Configurations", table=Table(caption, ("Run", *different), rows, words, slugs))


def _flat(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield every value of a configuration as text, under its dotted key."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(cast("Mapping[str, Any]", value), f"{above}{key}.")
        else:
            yield f"{above}{key}", value if isinstance(value, str) else json.dumps(value, default=str)


def _short(text: str) -> str:
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}…"


def _mean(summary: RunSummary, measure: Callable[[CycleSummary], float | None]) -> float | None:
    """Return the mean over the ended cycles that have a value."""
    values = [value for cycle in summary.cycles if cycle.ended and (value := measure(cycle)) is not None]
    return fmean(values) if values else None


def _reflection_chars(cycle: CycleSummary) -> int:
    return len(cycle.reflection or "")
