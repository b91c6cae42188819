"""The work after the runs of `toolcast experiment run`: their PEI assessments (`--pei`) and their report (`--report`).

It is checked before the first run: the evaluators, the scale, the packages, the folder. Each rating is written beside
its log before the next request; a rating that is there, and is not older than the cycles it is about, is not requested
again. So the same command, with `--resume`, completes what is missing.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ...errors import ToolcastError
from ...experiments.experiment_config import ExperimentConfig, is_ollama_model
from ...experiments.llm_setup import check_setup
from ...experiments.log_reading import read_log
from ...experiments.pei.agreement import PEIResult
from ...experiments.pei.assessment import PEIAssessment
from ...experiments.pei.assessment_files import ResultsFile, read_results
from ...experiments.pei.run_history import CYCLES
from ...experiments.pei.scale import PEI_SCALE, PEIScale
from ...llms.function_calling_llm import FunctionCallingLLM
from ..api_keys import choose_llm
from .pei_ratings import rate, result_line
from .run_output import RunView


class FollowUp:
    """The assessments and the report that the command line asks for.

    Raises:
        ToolcastError: They cannot be made; also `OSError` for a scale that cannot be read, and `ImportError` for a
            missing package.
    """

    def __init__(self, arguments: argparse.Namespace, config: ExperimentConfig) -> None:
        self._evaluators: list[str] = arguments.evaluators or []
        self._repeats: int = arguments.repeats or 1
        self._in_words: bool = arguments.in_words or config.preset == "published"
        self._report: Path | None = arguments.report
        self._host: str | None = arguments.host
        self._token: str | None = arguments.token
        self._config = config
        if not self._evaluators and (arguments.repeats or arguments.scale or arguments.in_words):
            raise ToolcastError("--repeats, --scale and --in-words are options of the assessment: add --pei MODEL")
        self._scale = PEIScale.from_file(arguments.scale) if arguments.scale else PEI_SCALE

    @property
    def description(self) -> str | None:
        """The work, as text; None if there is none."""
        rated = [f"PEI assessment by {', '.join(self._evaluators)}"] if self._evaluators else []
        written = [] if self._report is None else [f"report in {self._report}"]
        return ", ".join([*rated, *written]) or None

    def check(self) -> None:
        """Check what is needed, before anything runs; nothing is generated or written."""
        for name in self._evaluators:
            with self._evaluator(name) as llm:
                try:
                    check_setup(llm)
                except (ToolcastError, ImportError) as error:
                    error.add_note(f"This is the evaluator that --pei names, {name}. Nothing was run.")
                    raise
        if self._report is not None:
            from ...experiments.report.html import environment

            environment()
            _check_folder(self._report)

    def run(self, logs: Sequence[Path], view: RunView) -> bool:
        """Rate the runs and write the report; return False after an error of an evaluator, which is printed."""
        view.has_begun = True
        good = not self._evaluators or self._rate(logs, view)
        if self._report is not None:
            from ...experiments.report.page import report_on
            from .report_command import write_report

            report = report_on(logs)
            for note in report.notes:
                view.warn(f"Note: {note}")
            page, *_ = write_report(report, self._report)
            view.print(f"✓ Report written: {page}")
        return good

    def _rate(self, logs: Sequence[Path], view: RunView) -> bool:
        """Request the ratings that are missing, and return whether that succeeded."""
        runs = {log.stem: log for log in logs}
        files = {name: ResultsFile(_ratings_path(log)) for name, log in runs.items()}
        there = {name: _ratings(log) for name, log in runs.items()}
        assessments = [PEIAssessment(log, scale=self._scale, in_words=self._in_words) for log in logs]
        view.print(f"PEI assessment by {', '.join(self._evaluators)}...")
        failed = False

        def missing(assessment: PEIAssessment, evaluator: str) -> int:
            rated = sum(result.evaluator_model == evaluator for result in there[assessment.run_id])
            return max(self._repeats - rated, 0)

        with ExitStack() as stack:
            evaluators = [(name, stack.enter_context(self._evaluator(name))) for name in self._evaluators]
            for result in rate(assessments, evaluators, missing):
                if isinstance(result, PEIResult):
                    files[result.run_id].add(result)
                    view.print(result_line(result, self._scale))
                else:
                    failed = True
                    view.warn(f"Error: {result}")
        if not failed:
            view.print(f"✓ Assessment complete: {len(runs)} {'run' if len(runs) == 1 else 'runs'}")
        return not failed

    def _evaluator(self, name: str) -> FunctionCallingLLM:
        if not is_ollama_model(name, has_host=False):
            return choose_llm(name)
        own = "ollama_client_config" in self._config.model_fields_set
        host = self._host or (self._config.ollama_client_config.host if own else None)
        return choose_llm(name, host, self._token)


def _ratings_path(log: Path) -> Path:
    """Return the file of the ratings beside a log, where a report finds it."""
    return log.with_name(f"{log.stem}_pei.jsonl")


def _ratings(log: Path) -> list[PEIResult]:
    """Return the ratings of a run that are not older than the cycles they are about."""
    path = _ratings_path(log)
    if not path.is_file():
        return []
    last = max((event.timestamp for event in read_log(log) if 0 < event.cycle_number <= CYCLES), default="")
    return [result for result in read_results(path) if result.run_id == log.stem and result.timestamp >= last]


def _check_folder(folder: Path) -> None:
    """Raise `ToolcastError` if nothing can be written to the folder, which need not exist."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        why = "cannot be written to" if there.is_dir() else "is a file"
        raise ToolcastError(f"--report {folder}: {there} {why}. Name another folder; nothing was run")
