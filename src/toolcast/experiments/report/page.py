"""A report on runs: their logs go in, and one page comes out, and a file for each picture.

The page stands alone: it asks no network for anything, runs no script, and forbids both; its pictures and its style are
in it. The same logs and ratings make the same bytes. Without matplotlib it is a page of tables, and says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Final

from ..embedders import embedder_of
from ..event_log import LogError, read_log
from ..pei.results import PEIResult
from ..pei.results_loader import results_of
from ..pei.scale import PEI_SCALE
from ..similarity import Embedder
from . import charts
from .chart_rendering import Picture
from .comparison import comparison_of
from .html import environment, render
from .sections import ReportedRun, Share, run_page
from .similarity_matrix import likeness_of
from .summary import RunSummary, summary_of

PAGE: Final = "report.html"
PICTURED: Final = 12
"""Of more runs than these, the page has only the pictures with all of them in it."""

_COMPARISON = "comparison"
_RATINGS = "pei_results.jsonl"
_MOST_RATED = 30  # the picture of the ratings has no room for more runs
_ROWS, _CHARS = 3_000, 2_000_000  # the page's room, for all its runs


@dataclass(frozen=True, slots=True)
class Report:
    """The page, as HTML, and its pictures. `notes` say what it had to do without."""

    html: str
    pictures: tuple[Picture, ...]
    notes: tuple[str, ...] = ()

    def write(self, folder: str | PathLike[str], *, png: bool = True) -> list[Path]:
        """The files that were written into `folder`, which is made if it is not there: the page first."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        page = folder / PAGE
        page.write_text(self.html, encoding="utf-8", newline="\n")
        written = [page]
        for picture in self.pictures if png else ():
            written.append(folder / f"{picture.name}.png")
            written[-1].write_bytes(picture.png())
        return written


def report_on(
    logs: Iterable[str | PathLike[str]],
    *,
    embedder: Embedder | str | None = "default",
    ratings: Iterable[str | PathLike[str]] | None = None,
) -> Report:
    """The report on the runs whose logs are at `logs`.

    `embedder`, a value or its name, compares the reflections. `ratings` are files of PEI ratings; `pei_results.jsonl`
    here, and that and `RUN_pei.json` beside a log, are found without it. Raises `LogError` for what is no log,
    `ResultsError` for what holds no ratings, `ValueError` for an embedder that nobody knows, and `ImportError` where
    jinja2 is missing.
    """
    environment()  # before anything is read, let alone drawn
    paths = [*dict.fromkeys(Path(log) for log in logs)]
    by = embedder_of(embedder) if isinstance(embedder, str) else embedder
    given = None if ratings is None else [Path(each) for each in ratings]
    read = [_read(path) for path in paths]
    names = _names([(path, summary) for path, (summary, _) in zip(paths, read, strict=True)])
    slugs = _slugs(names)
    runs = [
        ReportedRun(name, slug, summary, likeness_of(summary, by), _ratings(path, summary, given), {}, torn)
        for name, slug, path, (summary, torn) in zip(names, slugs, paths, read, strict=True)
    ]
    pictured = [replace(run, pictures=dict(_pictures(run))) for run in runs] if len(runs) <= PICTURED else runs
    try:
        return _composed(pictured, dict(_of_all(runs)), ())
    except ImportError as error:  # without matplotlib
        return _composed(runs, {}, (str(error),))


def logs_in(folder: Path) -> list[Path]:
    """Return the logs in `folder` and below it, by their names, `run-2` before `run-10`.

    Other files are left out. Raises `OSError` or `LogError` for a folder or a file that may not be read: not `rglob`,
    which takes such a folder for an empty one.
    """
    if not folder.is_dir():
        return []
    found = [Path(place, name) for place, _, names in os.walk(folder, onerror=_raise) for name in names]
    logs = (path for path in sorted(found, key=_counted) if path.suffix == ".jsonl" and path.is_file())
    return [path for path in logs if _is_log(path)]


def _raise(error: OSError) -> None:
    raise error


def _counted(path: Path) -> list[tuple[int, str]]:
    """A path as people sort it: by its numbers, where it has some."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", str(path))]


def _is_log(path: Path) -> bool:
    try:
        return next(read_log(path), None) is not None
    except LogError as error:
        if isinstance(error.__cause__, OSError):
            raise
        return False


def _read(path: Path) -> tuple[RunSummary, bool]:
    """What a log says, and whether its last line was cut off."""
    try:
        return summary_of(read_log(path)), False
    except LogError:
        return summary_of(read_log(path, tolerate_torn=True)), True


def _ratings(path: Path, summary: RunSummary, given: Sequence[Path] | None) -> tuple[PEIResult, ...]:
    """The ratings of a run: in the files that are `given`, or in those that assessments write unless told otherwise."""
    files = given
    if files is None:
        beside = [path.with_name(name) for name in (_RATINGS, f"{path.stem}_pei.json", f"{path.stem}_pei.jsonl")]
        files = [file for file in (Path(_RATINGS), *beside) if file.is_file()]
    return results_of({summary.run_id, path.stem}, files)


def _names(read: Sequence[tuple[Path, RunSummary]]) -> list[str]:
    """What each run is called: its id, or its log where two have the same id."""
    ids = [summary.run_id for _, summary in read]
    return [id if ids.count(id) == 1 else f"{id} ({path})" for id, (path, _) in zip(ids, read, strict=True)]


def _slugs(names: Sequence[str]) -> list[str]:
    """Each name as files may be called by it, no two alike on any disk."""
    found = {_COMPARISON: ""}  # taken
    for name in names:
        slug = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[-80:].strip("-") or "run"
        numbered = (f"{slug}-{number}" if number > 1 else slug for number in count(1))
        unique = next(each for each in numbered if each.lower() not in found)
        found[unique.lower()] = unique
    return [*found.values()][1:]


def _pictures(run: ReportedRun) -> Iterator[tuple[str, Picture]]:
    """The pictures of a run, each where there is something to see."""
    summary, slug = run.summary, run.slug
    if len(run.likeness.cycles) > 1:
        yield "similarity", charts.similarity_picture(f"{slug}-similarity", run.likeness)
    if any(any(cycle.memory_ops.values()) for cycle in summary.cycles):
        yield "memory", charts.memory_picture(f"{slug}-memory", summary)
    if summary.tools:
        yield "tools", charts.tools_picture(f"{slug}-tools", summary)
    if summary.total(charts.tokens_of) is not None:
        yield "tokens", charts.tokens_picture(f"{slug}-tokens", summary)
    if summary.total(lambda cycle: cycle.seconds):
        yield "time", charts.time_picture(f"{slug}-time", summary)
    if run.rated:
        rows = {evaluator: {evaluator: levels} for evaluator, levels in run.rated.items()}
        yield "pei", charts.ratings_picture(f"{slug}-pei", rows, PEI_SCALE.level_names)


def _of_all(runs: Sequence[ReportedRun]) -> Iterator[tuple[str, Picture]]:
    """The pictures that have several runs in them."""
    if len(runs) < 2:
        return
    if any(run.summary.cycles for run in runs):
        yield "comparison", charts.comparison_picture(_COMPARISON, {run.name: run.summary for run in runs})
    rated = {run.name: run.rated for run in runs if run.rated}
    if 0 < len(rated) <= _MOST_RATED:
        yield "pei", charts.ratings_picture(f"{_COMPARISON}-pei", rated, PEI_SCALE.level_names)


def _composed(runs: Sequence[ReportedRun], compared: Mapping[str, Picture], notes: tuple[str, ...]) -> Report:
    """The page, with whatever pictures there are."""
    several = len(runs) > 1
    title = f"{len(runs)} experiments" if several else f"Experiment {runs[0].name}"
    share = Share(max(_ROWS // len(runs), 20), _CHARS // len(runs))
    told = [*notes]
    if len(runs) > PICTURED:
        told.append(f"The pictures of single runs are left out, because these are more than {PICTURED} runs.")
    listed = runs if len(runs) <= PICTURED else ()  # the comparison leads to each of them
    links = [(_COMPARISON, "Comparison"), *((f"run-{run.slug}", run.name) for run in listed)] if several else []
    shown = {
        "title": title,
        "heading": title if several else "Experiment",
        "notes": told,
        "links": links,
        "comparison": comparison_of(runs, [*compared.values()]) if several else None,
        "runs": [run_page(run, share) for run in runs],
    }
    pictures = [picture for run in runs for picture in run.pictures.values()]
    return Report(render("page.html", shown), (*pictures, *compared.values()), notes)
