"""`toolcast experiment report`: a page of tables and pictures from the logs of runs, and the pictures as files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ...errors import ToolcastError
from ...experiments.embedders import embedder_of
from ...experiments.report.page import Report, logs_in, report_on
from ...experiments.similarity import Embedder
from ...terminal_text import visible


def arguments(parser: argparse.ArgumentParser) -> None:
    """What may stand on the command line."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the log of a run, or a folder with logs in it")
    parser.add_argument(
        "--output", metavar="FOLDER", help="where to write; default: RUN_report beside a log, report in a folder"
    )
    parser.add_argument(
        "--pei",
        action="append",
        metavar="FILE",
        help="ratings; default: pei_results.jsonl here, and beside a log that and RUN_pei.json",
    )
    parser.add_argument(
        "--embedder", default="default", metavar="NAME", help="what compares the reflections; `none`: nothing does"
    )
    parser.add_argument("--no-png", action="store_true", help="write the page alone; the pictures are in it")


def run(arguments: argparse.Namespace) -> int:
    """The exit code; where the files are is printed."""
    given = [Path(each) for each in arguments.runs]
    logs = [log for each in given for log in _logs(each)]
    _check_ratings(arguments.pei or ())
    report = report_on(logs, embedder=_embedder(arguments.embedder), ratings=arguments.pei)
    folder = Path(arguments.output) if arguments.output else _beside(given)
    for note in report.notes:
        print("Note:", visible(note), file=sys.stderr)
    for file in _written(report, folder, png=not arguments.no_png):
        print(file)
    return 0


def _logs(given: Path) -> Sequence[Path]:
    """The log that was given, or those in the folder."""
    if not given.is_dir():
        return [given]
    if found := logs_in(given):
        return found
    raise ToolcastError(f"there is no log of a run in {given}: give a folder with RUN.jsonl files in it, or a log")


def _check_ratings(files: Sequence[str]) -> None:
    for file in files:
        if not Path(file).is_file():
            raise ToolcastError(f"--pei {file}: there is no such file; `toolcast experiment pei` writes one")


def _written(report: Report, folder: Path, *, png: bool) -> Sequence[Path]:
    try:
        return report.write(folder, png=png)
    except OSError as error:
        raise ToolcastError(
            f"the report cannot be written into {folder}: {error.strerror or error}. Name another folder for --output"
        ) from error


def _beside(given: Sequence[Path]) -> Path:
    """Where the report goes unless somebody says so: it stays by the runs, and no report replaces another run's."""
    first = given[0]
    if len(given) > 1:
        return Path("report")
    return first / "report" if first.is_dir() else first.with_name(f"{first.stem}_report")


def _embedder(name: str) -> Embedder | None:
    try:
        return embedder_of(name)
    except ValueError as error:
        raise ToolcastError(f"--embedder: {error}") from error
