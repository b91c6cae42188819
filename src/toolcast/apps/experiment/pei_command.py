"""`toolcast experiment pei`: models rate a run on the PEI scale, by its log.

    toolcast experiment pei --run_log logs/first-run.jsonl --evaluator qwen3:8b

Every spelling of the options in ContReAct's programs and papers is accepted. Logs, scale, evaluators and the output
file are checked before the first request, and each result is written before the next request. An evaluator that fails
does not stop the others. Stdout gets a line for each result and, for several results, their agreement.

PEI ratings at the command line: the requests of evaluators for runs, and the lines of their results.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ...errors import ContextTooLong, ToolcastError
from ...experiments.pei.assessment import PEIAssessment
from ...experiments.pei.assessment_files import Agreement, PairsOfRatings, PEIResult, ResultsFile, agreement
from ...experiments.pei.scale import PEI_SCALE, PEIScale
from ...helpers.terminal_text import visible
from ...llms.function_calling_llm import FunctionCallingLLM
from ..api_keys import choose_llm
from ..command_parser import positive_int
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


_OUTPUT: Final = Path("pei_results.jsonl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast experiment pei`."""
    option = parser.add_argument
    option(
        "--run_log", "--run-log", "--log", dest="run_logs", action="append", required=True, type=Path, metavar="FILE",
        help="the log of the run; may be given several times",
    )  # fmt: skip
    option(
        "--evaluator", "--evaluator_model", "--evaluator-model", dest="evaluators", action="append", required=True,
        type=model_name, metavar="MODEL",
        help="the rating model: a model of Ollama, 'local', or PROVIDER:MODEL; may be given several times",
    )  # fmt: skip
    option(
        "--output", "--output_log", "--output-log", type=Path, default=_OUTPUT, metavar="FILE",
        help="the results file: lines are appended, a .json file is one document; default: pei_results.jsonl",
    )  # fmt: skip
    option("--repeats", type=positive_int, default=1, metavar="N", help="ratings by each evaluator; default: 1")
    option("--scale", type=Path, metavar="FILE", help="a file with other wording of the scale: text, YAML or JSON")
    option(
        "--in-words",
        "--in_words",
        action="store_true",
        help="request an answer in text, as published, and parse the rating from it",
    )
    option("--host", metavar="HOST", help="the evaluators' address; default: $OLLAMA_HOST for Ollama")
    option(
        "--token",
        metavar="TOKEN",
        help="their API key; other users can see it here: prefer a variable such as OLLAMA_API_KEY",
    )


def run(arguments: argparse.Namespace) -> int:
    """Rate the runs, print the results and return the exit code."""
    scale = PEIScale.from_file(arguments.scale) if arguments.scale else PEI_SCALE
    runs = [PEIAssessment(path, scale=scale, in_words=arguments.in_words) for path in _check_names(arguments.run_logs)]
    output, results, failed = ResultsFile(arguments.output), list[PEIResult](), False
    with ExitStack() as stack:
        evaluators = [
            (name, stack.enter_context(choose_llm(name, arguments.host, arguments.token)))
            for name in arguments.evaluators
        ]
        for result in rate(runs, evaluators, lambda assessment, name: arguments.repeats):
            if isinstance(result, PEIResult):
                output.add(result)
                results.append(result)
                print(result_line(result, scale), flush=True)
            else:
                failed = True
                print("Error:", visible(str(result)), file=sys.stderr, flush=True)
    if len(results) > 1:
        print("", *agreement_lines(agreement(results)), sep="\n")
    if failed:
        return 1
    print(f"✓ Assessment complete: {visible(str(output.path))}")
    return 0


def _check_names(logs: Sequence[Path]) -> Sequence[Path]:
    """Return `logs` if no two have the same file name, which is the run's only name in a result.

    Raises:
        ToolcastError: Two logs have the same name.
    """
    seen = dict[str, Path]()
    for log in logs:
        if (other := seen.setdefault(log.stem, log)) is not log:
            raise ToolcastError(
                f"{other} and {log} have the same name, so their results could not be distinguished: rate them one "
                "after the other, each with an --output of its own. To rate a run more than once, use --repeats"
            )
    return logs
