"""PEI ratings at the command line: the requests of evaluators for runs, and the lines of their results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence

from ...errors import ContextTooLong, ToolcastError
from ...experiments.pei.agreement import Agreement, PairsOfRatings, PEIResult
from ...experiments.pei.assessment import PEIAssessment
from ...experiments.pei.scale import PEIScale
from ...llms.function_calling_llm import FunctionCallingLLM
from ...text.terminal_text import visible
from ..config_file import resolve_alias
from ..output import format_table
from ..pull_command import load_with_progress


def model_name(text: str) -> str:
    """Parse the name of an evaluator, or its alias."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the name of the model is empty")
    return resolve_alias(text)


def rate(
    runs: Sequence[PEIAssessment],
    evaluators: Sequence[tuple[str, FunctionCallingLLM]],
    repeats: Callable[[PEIAssessment, str], int],
) -> Iterator[PEIResult | ToolcastError]:
    """Yield each result, or the error in its place, and send each request when the next result is asked for.

    All runs are rated by one evaluator before the next, because a local model has to be loaded first. After an error an
    evaluator is skipped, except for `ContextTooLong`: a shorter run may still fit.

    Args:
        runs: The runs.
        evaluators: The evaluators with their names.
        repeats: Returns the number of ratings of a run by the evaluator of that name.
    """
    for name, llm in evaluators:
        counts = [(assessment, repeats(assessment, name)) for assessment in runs]
        try:
            if any(count for _, count in counts):
                load_with_progress(llm, sys.stderr)
            for assessment, count in counts:
                try:
                    for _ in range(count):
                        yield assessment.rated_by(llm, name)
                except ContextTooLong as error:
                    yield error
        except ToolcastError as error:
            yield error


def result_line(result: PEIResult, scale: PEIScale) -> str:
    """Return a result as one line."""
    label = f"{result.run_id}, rated by {result.evaluator_model}"
    if result.pei_rating is None:
        return visible(f"{label}: no rating found in the answer")
    return visible(f"{label}: {result.pei_rating} ({scale.level_name(result.pei_rating)})")


def agreement_lines(found: Agreement) -> Iterator[str]:
    """Yield the tables of the agreement between results."""
    rows: list[tuple[str, ...]] = [("evaluator", "ratings", "missing", "mean", "min", "max", "stdev")]
    for each in found.evaluators:
        numbers = (each.ratings, each.missing, each.mean, each.min, each.max, each.stdev)
        rows.append((visible(each.evaluator_model), *map(_format_number, numbers)))
    yield from format_table(rows)
    pairs = [("one evaluator", found.same_evaluator), ("two evaluators", found.evaluators_apart)]
    yield ""
    yield from format_table(
        [("pairs of ratings by", "pairs", "equal", "apart"), *(_pairs_row(*each) for each in pairs)]
    )
    yield ""
    alpha = "not defined: it needs two runs and two levels" if found.alpha is None else _format_number(found.alpha)
    yield f"Krippendorff's alpha (ordinal): {alpha}"


def _pairs_row(label: str, pairs: PairsOfRatings | None) -> tuple[str, ...]:
    if pairs is None:
        return label, "0", "-", "-"
    return label, str(pairs.pairs), f"{pairs.exact:.0%}", _format_number(pairs.mean_difference)


def _format_number(number: float | None) -> str:
    if number is None:
        return "-"
    return str(number) if isinstance(number, int) else f"{number:.2f}"
