"""`toolcast experiment pei`: models rate a run, by its log, on the PEI scale.

    toolcast experiment pei --run_log logs/first-run.jsonl --evaluator qwen3:8b

All spellings of the options that ContReAct's programs and papers have used are taken. Logs, scale, evaluators and the
output are looked at before anybody is asked, and each result is in the output before the next is asked for. An
evaluator that fails stops no other. On stdout is a line for each result and, of several, how far they agree.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ...errors import ContextTooLong, ToolcastError
from ...experiments.pei.assessment import PEIAssessment
from ...experiments.pei.results import Agreement, PairsOfRatings, PEIResult, ResultsFile, agreement
from ...experiments.pei.scale import PEI_SCALE, PEIScale
from ...llms.base import FunctionCallingLLM
from ...llms.model_registry import choose_llm
from ...terminal_text import visible
from ..argument_types import count
from ..pull_command import load_in_sight
from ..tables import aligned

_OUTPUT: Final = Path("pei_results.jsonl")


def arguments(parser: argparse.ArgumentParser) -> None:
    """What may stand on the command line."""
    option = parser.add_argument
    option(
        "--run_log", "--run-log", "--log", dest="run_logs", action="append", required=True, type=Path, metavar="FILE",
        help="the log of the run; may be given several times",
    )  # fmt: skip
    option(
        "--evaluator", "--evaluator_model", "--evaluator-model", dest="evaluators", action="append", required=True,
        type=_name, metavar="MODEL",
        help="who rates: a model of Ollama, 'local', or PROVIDER:MODEL; may be given several times",
    )  # fmt: skip
    option(
        "--output", "--output_log", "--output-log", type=Path, default=_OUTPUT, metavar="FILE",
        help="where results go: added as lines, or as one document to a .json file; default: pei_results.jsonl",
    )  # fmt: skip
    option("--repeats", type=count, default=1, metavar="N", help="how often each evaluator is asked; default: 1")
    option("--scale", type=Path, metavar="FILE", help="another wording of the scale: text, YAML or JSON")
    option("--in-words", "--in_words", action="store_true", help="ask for words alone, as published, and read those")
    option("--host", metavar="HOST", help="the evaluators' address; default: $OLLAMA_HOST for Ollama")
    option("--token", metavar="TOKEN", help="their key; others can see it here, a variable (OLLAMA_API_KEY) is better")


def run(arguments: argparse.Namespace) -> int:
    """The exit code."""
    scale = PEIScale.from_file(arguments.scale) if arguments.scale else PEI_SCALE
    runs = [PEIAssessment(path, scale=scale, in_words=arguments.in_words) for path in _told_apart(arguments.run_logs)]
    output, results, failed = ResultsFile(arguments.output), list[PEIResult](), False
    with ExitStack() as stack:
        evaluators = [
            (name, stack.enter_context(choose_llm(name, arguments.host, arguments.token)))
            for name in arguments.evaluators
        ]
        for said in _results(runs, evaluators, arguments.repeats):
            if isinstance(said, PEIResult):
                output.add(said)
                results.append(said)
                print(_told(said, scale), flush=True)
            else:
                failed = True
                print("Error:", visible(str(said)), file=sys.stderr, flush=True)
    if len(results) > 1:
        print("", *_agreement(agreement(results)), sep="\n")
    if failed:
        return 1
    print(f"✓ Assessment complete: {visible(str(output.path))}")
    return 0


def _name(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("nobody is named")
    return text


def _told_apart(logs: Sequence[Path]) -> Sequence[Path]:
    """`logs`, of which no two have the same name: it is all that a result says of its run."""
    seen = dict[str, Path]()
    for log in logs:
        if (other := seen.setdefault(log.stem, log)) is not log:
            raise ToolcastError(
                f"{other} and {log} have the same name, so nobody could tell their results apart: rate them one after "
                "the other, each with an --output of its own. To rate a run more than once, use --repeats"
            )
    return logs


def _results(
    runs: Sequence[PEIAssessment], evaluators: Sequence[tuple[str, FunctionCallingLLM]], repeats: int
) -> Iterator[PEIResult | ToolcastError]:
    """All results, each asked for when it is wanted, and what went wrong.

    One evaluator after the other: it may have to be loaded. One that fails is asked no more, but for a run that is too
    long for it, which others may not be.
    """
    for name, llm in evaluators:
        try:
            load_in_sight(llm, sys.stderr)
            for assessment in runs:
                try:
                    for _ in range(repeats):
                        yield assessment.rated_by(llm, name)
                except ContextTooLong as error:
                    yield error
        except ToolcastError as error:
            yield error


def _told(result: PEIResult, scale: PEIScale) -> str:
    """A result as a line."""
    who = f"{result.run_id}, rated by {result.evaluator_model}"
    if result.pei_rating is None:
        return visible(f"{who}: no rating could be read from the answer")
    return visible(f"{who}: {result.pei_rating} ({scale.level_name(result.pei_rating)})")


def _agreement(found: Agreement) -> Iterator[str]:
    """The lines that tell how far results agree."""
    rows: list[tuple[str, ...]] = [("evaluator", "ratings", "missing", "mean", "min", "max", "stdev")]
    for each in found.evaluators:
        numbers = (each.ratings, each.missing, each.mean, each.min, each.max, each.stdev)
        rows.append((visible(each.evaluator_model), *map(_cell, numbers)))
    yield from aligned(rows)
    pairs = [("one evaluator", found.same_evaluator), ("two evaluators", found.evaluators_apart)]
    yield ""
    yield from aligned([("pairs of ratings by", "pairs", "equal", "apart"), *(_pairs(*each) for each in pairs)])
    yield ""
    alpha = "not defined: it takes two runs, and two levels" if found.alpha is None else _cell(found.alpha)
    yield f"Krippendorff's alpha (ordinal): {alpha}"


def _pairs(who: str, pairs: PairsOfRatings | None) -> tuple[str, ...]:
    if pairs is None:
        return who, "0", "-", "-"
    return who, str(pairs.pairs), f"{pairs.exact:.0%}", _cell(pairs.mean_difference)


def _cell(number: float | None) -> str:
    if number is None:
        return "-"
    return str(number) if isinstance(number, int) else f"{number:.2f}"
