"""`toolcast experiment report`: an HTML page of tables and charts from the logs of runs, and charts as PNG."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ...errors import ToolcastError
from ...experiments.embedders import embedder_of
from ...experiments.report.page import Report, logs_in, report_on
from ...llms.embeddings.offline import Embedder
from ...text.terminal_text import visible


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast experiment report`."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="the log of a run, or a folder with logs in it")
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        help="the folder of the report; default: RUN_report beside a log, report in a folder",
    )
    parser.add_argument(
        "--pei",
        action="append",
        metavar="FILE",
        help="ratings; default: pei_results.jsonl here, and beside a log that and RUN_pei.json",
    )
    parser.add_argument(
        "--embedder",
        default="default",
        metavar="NAME",
        help="the embedding model that compares the reflections; `none` skips the comparison",
    )
    parser.add_argument(
        "--no-scripts", action="store_true", help="write a page without scripts: charts are pictures, without values"
    )
    parser.add_argument("--no-png", action="store_true", help="write the page only; it includes the charts")


def run(arguments: argparse.Namespace) -> int:
    """Write the report, print the paths of its files and return the exit code."""
    paths = [Path(each) for each in arguments.runs]
    logs = [log for each in paths for log in _logs(each)]
    _check_ratings(arguments.pei or ())
    embedder, scripts = _embedder(arguments.embedder), not arguments.no_scripts
    report = report_on(logs, embedder=embedder, ratings=arguments.pei, scripts=scripts)
    folder = Path(arguments.output) if arguments.output else _default_folder(paths)
    for note in report.notes:
        print("Note:", visible(note), file=sys.stderr)
    for file in write_report(report, folder, png=not arguments.no_png):
        print(file)
    return 0


def _logs(paths: Path) -> Sequence[Path]:
    """Return the log at the path, or all logs in the folder."""
    if not paths.is_dir():
        return [paths]
    if found := logs_in(paths):
        return found
    raise ToolcastError(f"no log of a run in {paths}: pass a log, or a folder with RUN.jsonl files")


def _check_ratings(files: Sequence[str]) -> None:
    for file in files:
        if not Path(file).is_file():
            raise ToolcastError(f"--pei {file}: no such file; `toolcast experiment pei` creates one")


def write_report(report: Report, folder: Path, *, png: bool = True) -> Sequence[Path]:
    """Write the report into the folder and return the files. Raises `ToolcastError` if the file system fails."""
    try:
        return report.write(folder, png=png)
    except OSError as error:
        raise ToolcastError(
            f"cannot write the report to {folder}: {error.strerror or error}. Choose another folder with --output"
        ) from error


def _default_folder(paths: Sequence[Path]) -> Path:
    """Return the folder of the report: beside a single run, so that no report overwrites that of another run."""
    first = paths[0]
    if len(paths) > 1:
        return Path("report")
    return first / "report" if first.is_dir() else first.with_name(f"{first.stem}_report")


def _embedder(name: str) -> Embedder | None:
    try:
        return embedder_of(name)
    except ValueError as error:
        raise ToolcastError(f"--embedder: {error}") from error
