"""`toolcast experiment pei`: models rate a run on the PEI scale, by its log.

    toolcast experiment pei --run_log logs/first-run.jsonl --evaluator qwen3:8b

Every spelling of the options in ContReAct's programs and papers is accepted. Logs, scale, evaluators and the output
file are checked before the first request, and each result is written before the next request. An evaluator that fails
does not stop the others. Stdout gets a line for each result and, for several results, their agreement.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ...errors import ToolcastError
from ...experiments.pei.agreement import PEIResult, agreement
from ...experiments.pei.assessment import PEIAssessment
from ...experiments.pei.assessment_files import ResultsFile
from ...experiments.pei.scale import PEI_SCALE, PEIScale
from ...text.terminal_text import visible
from ..api_keys import choose_llm
from ..command_parser import positive_int
from .pei_ratings import agreement_lines, model_name, rate, result_line

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
