"""Reports on runs: one HTML page from their logs, and a file for each chart.

The page is self-contained: it makes no requests; its charts, its style and its scripts are in it, and its policy
forbids all else. Each chart is a picture, and, unless there are too many, drawn by a script as well, with its values at
the pointer. The same logs and ratings give the same bytes. Without matplotlib it is a page of tables, with a note on
that.

Scripts of a report's page: Vega, Vega-Lite and Vega's interpreter, and the page's own, with the policy for them.

The libraries are the files of their packages, in `vendor`. The interpreter evaluates Vega's expressions without `eval`,
so that the policy allows nothing but these scripts, by their hashes, and the style sheet.
"""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Final

from ...lazy.lazy_dataclasses import dataclass
from ...llms.embeddings.offline import Embedder
from ..embedders import embedder_of
from ..event_log import LogError, read_log
from ..pei.agreement import PEIResult
from ..pei.assessment_files import results_of
from ..pei.scale import PEI_SCALE
from . import charts
from .chart_data import COLOURS, LINES, tokens_of
from .chart_rendering import Picture
from .chart_specs import embedded_json
from .comparison import comparison_of
from .html import clean, environment, render
from .sections import ReportedRun, Share, run_page
from .similarity_matrix import likeness_of
from .summary import RunSummary, summary_of

_VENDOR: Final = Path(__file__).with_name("vendor")
_IMPORT: Final = "import { ascending, isString, DisallowedObjectProperties } from 'vega-util';"
_EXPORT: Final = "export { expression as expressionInterpreter };"


@lru_cache(1)
def chart_libraries() -> str:
    """Return the libraries as one script, after their licenses.

    Vega and Vega-Lite define their global names. The interpreter is a module, which a script in a page cannot be
    imported from: its import and its export are replaced.
    """
    interpreter = _file("vega-interpreter.js")
    for module, script in ((_IMPORT, _IMPORT.replace("import", "const").replace("from 'vega-util'", "= vega")),
                           (_EXPORT, "return expression;")):  # fmt: skip
        if module not in interpreter:
            raise ValueError(f"vega-interpreter.js has no line {module!r}: renew it with docs/vendor_page.py")
        interpreter = interpreter.replace(module, script)
    interpreter = f"globalThis.vegaInterpreter = (() => {{\n{interpreter}}})();\n"
    return f"/*\n{_file('licenses.txt')}*/\n{_file('vega.js')}{_file('vega-lite.js')}{interpreter}"


def page_script() -> str:
    """Return the script of the page: it draws the charts and shows the runs that are chosen."""
    return Path(__file__).with_name("templates").joinpath("report.js").read_text(encoding="utf-8")


def policy(style: str, scripts: Sequence[str]) -> str:
    """Return the content security policy of a page with this style sheet and these scripts, which requests nothing."""
    allowed = " ".join(map(_hash, scripts))
    script = f"script-src {allowed}; " if scripts else ""
    rest = "img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; {script}style-src {_hash(style)}; {rest}"


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _file(name: str) -> str:
    """Return a file of the packages, without the lines on source maps, which are not there."""
    lines = (_VENDOR / name).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("//# sourceMappingURL="))


PAGE: Final = "report.html"
PICTURED: Final = 12
"""The number of runs above which the page has only the charts with all runs in them."""

_COMPARISON = "comparison"
_RATINGS = "pei_results.jsonl"
_MOST_RATED = 30  # the picture of the ratings has no room for more runs
_ROWS, _CHARS = 3_000, 2_000_000  # the page's room, for all its runs
_SCRIPTED = 990_000  # bytes of scripts and of the data that they draw: a page without them is so much smaller


@dataclass(frozen=True, slots=True)
class Report:
    """A page, as HTML, and its charts. `notes` list what was left out."""

    html: str
    pictures: tuple[Picture, ...]
    notes: tuple[str, ...] = ()

    def write(self, folder: str | PathLike[str], *, png: bool = True) -> list[Path]:
        """Write the page and its charts into `folder`, and return the files, the page first.

        The folder is created if it does not exist.
        """
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
    scripts: bool = True,
) -> Report:
    """Return the report on the runs whose logs are at `logs`.

    Args:
        logs: The paths of the logs.
        embedder: The embedder that compares the reflections, or its name.
        ratings: Files of PEI ratings. `pei_results.jsonl` in the working directory, and that and `RUN_pei.json` beside
            a log, are found without it.
        scripts: True for interactive charts and a choice of runs; False for a page of pictures without any script.

    Raises:
        LogError: For a file that is no log.
        ResultsError: For a file without ratings.
        ValueError: For an unknown embedder.
        ImportError: If jinja2 is missing.
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
    pictured = [replace(run, pictures=_titled(run)) for run in runs] if len(runs) <= PICTURED else runs
    try:
        return _composed(pictured, dict(_of_all(runs)), (), scripts=scripts)
    except ImportError as error:  # without matplotlib
        return _composed(runs, {}, (str(error),), scripts=scripts)


def logs_in(folder: Path) -> list[Path]:
    """Return the logs in `folder` and below it, by their names, `run-2` before `run-10`.

    Other files are skipped. Raises `OSError` or `LogError` for a folder or a file that cannot be read; `rglob` would
    skip such a folder silently.
    """
    if not folder.is_dir():
        return []
    found = [Path(place, name) for place, _, names in os.walk(folder, onerror=_raise) for name in names]
    logs = (path for path in sorted(found, key=_counted) if path.suffix == ".jsonl" and path.is_file())
    return [path for path in logs if _is_log(path)]


def _raise(error: OSError) -> None:
    raise error


def _counted(path: Path) -> list[tuple[int, str]]:
    """Return a key that sorts a path by the numbers in it."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", str(path))]


def _is_log(path: Path) -> bool:
    try:
        return next(read_log(path), None) is not None
    except LogError as error:
        if isinstance(error.__cause__, OSError):
            raise
        return False


def _read(path: Path) -> tuple[RunSummary, bool]:
    """Return the summary of a log, and whether its last line is incomplete."""
    try:
        return summary_of(read_log(path)), False
    except LogError:
        return summary_of(read_log(path, tolerate_torn=True)), True


def _ratings(path: Path, summary: RunSummary, given: Sequence[Path] | None) -> tuple[PEIResult, ...]:
    """Return the ratings of a run: from the files `given`, or from the default files of assessments."""
    files = given
    if files is None:
        beside = [path.with_name(name) for name in (_RATINGS, f"{path.stem}_pei.json", f"{path.stem}_pei.jsonl")]
        files = [file for file in (Path(_RATINGS), *beside) if file.is_file()]
    return results_of({summary.run_id, path.stem}, files)


def _names(read: Sequence[tuple[Path, RunSummary]]) -> list[str]:
    """Return the name of each run: its id, or its log if two have the same id."""
    ids = [summary.run_id for _, summary in read]
    return [id if ids.count(id) == 1 else f"{id} ({path})" for id, (path, _) in zip(ids, read, strict=True)]


def _slugs(names: Sequence[str]) -> list[str]:
    """Return a file name for each name, unique on any file system."""
    found = {_COMPARISON: ""}  # taken
    for name in names:
        slug = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[-80:].strip("-") or "run"
        numbered = (f"{slug}-{number}" if number > 1 else slug for number in count(1))
        unique = next(each for each in numbered if each.lower() not in found)
        found[unique.lower()] = unique
    return [*found.values()][1:]


def _titled(run: ReportedRun) -> dict[str, Picture]:
    """Return the charts of a run, each with the name of the run."""
    return {kind: replace(picture, title=run.name) for kind, picture in _pictures(run)}


def _pictures(run: ReportedRun) -> Iterator[tuple[str, Picture]]:
    """Yield the charts of a run that have data."""
    summary, slug = run.summary, run.slug
    if len(run.likeness.cycles) > 1:
        yield "similarity", charts.similarity_picture(f"{slug}-similarity", run.likeness)
    if any(any(cycle.memory_ops.values()) for cycle in summary.cycles):
        yield "memory", charts.memory_picture(f"{slug}-memory", summary)
    if summary.tools:
        yield "tools", charts.tools_picture(f"{slug}-tools", summary)
    if summary.total(tokens_of) is not None:
        yield "tokens", charts.tokens_picture(f"{slug}-tokens", summary)
    if summary.total(lambda cycle: cycle.seconds):
        yield "time", charts.time_picture(f"{slug}-time", summary)
    if run.rated:
        rows = {evaluator: {evaluator: levels} for evaluator, levels in run.rated.items()}
        yield "pei", charts.ratings_picture(f"{slug}-pei", rows, PEI_SCALE.level_names)


def _of_all(runs: Sequence[ReportedRun]) -> Iterator[tuple[str, Picture]]:
    """Yield the charts of several runs."""
    if len(runs) < 2:
        return
    if any(run.summary.cycles for run in runs):
        yield "comparison", charts.comparison_picture(_COMPARISON, {run.name: run.summary for run in runs})
    rated = {run.name: run.rated for run in runs if run.rated}
    if 0 < len(rated) <= _MOST_RATED:
        yield "pei", charts.ratings_picture(f"{_COMPARISON}-pei", rated, PEI_SCALE.level_names, runs=True)


def _interactive(pictures: Mapping[str, Picture], limit: int) -> tuple[dict[str, Picture], int]:
    """Return the charts, the interactive form only of those that fit into `limit`, and the rest of the limit."""
    found = dict[str, Picture]()
    for kind, picture in pictures.items():
        size = len(picture.json())
        found[kind] = picture if size <= limit else replace(picture, chart=None)
        limit -= size if size <= limit else 0
    return found, limit


def _within_limit(
    runs: Sequence[ReportedRun], compared: Mapping[str, Picture], limit: int
) -> tuple[list[ReportedRun], dict[str, Picture]]:
    """Return the runs, and the charts of all of them, with the interactive forms that fit into `limit`."""
    fitting, limit = _interactive(compared, limit)
    found = list[ReportedRun]()
    for run in runs:
        pictures, limit = _interactive(run.pictures, limit)
        found.append(replace(run, pictures=pictures))
    return found, fitting


def _picker(runs: Sequence[ReportedRun]) -> str:
    """Return the runs among which the reader chooses, as JSON: with their colours, or grey if there are too many."""
    colours = COLOURS if len(runs) <= LINES else ("var(--faint)",) * len(runs)
    listed = zip(runs, colours, strict=False)
    return embedded_json([{"colour": colour, "name": clean(run.name), "slug": run.slug} for run, colour in listed])


def _composed(
    runs: Sequence[ReportedRun], compared: Mapping[str, Picture], notes: tuple[str, ...], *, scripts: bool
) -> Report:
    """Render the page with the charts."""
    limit = _SCRIPTED - len(chart_libraries().encode()) - len(page_script()) if scripts else 0
    runs, compared = _within_limit(runs, compared, limit)
    several = len(runs) > 1
    title = f"{len(runs)} experiments" if several else f"Experiment {runs[0].name}"
    share = Share(max(_ROWS // len(runs), 20), _CHARS // len(runs))
    all_notes = [*notes]
    if len(runs) > PICTURED:
        all_notes.append(f"The pictures of single runs are left out, because these are more than {PICTURED} runs.")
    listed = runs if len(runs) <= PICTURED else ()  # the comparison leads to each of them
    links = [(_COMPARISON, "Comparison"), *((f"run-{run.slug}", run.name) for run in listed)] if several else []
    drawn = any(
        picture.chart for pictures in (compared, *(run.pictures for run in runs)) for picture in pictures.values()
    )
    included = (chart_libraries(), page_script()) if drawn else ()
    style = render("style.css", {})
    shown = {
        "policy": policy(style, included),
        "style": style,
        "scripts": included,
        "picker": _picker(runs) if several and included else "",
        "slugs": {f"run-{run.slug}": run.slug for run in runs},
        "title": title,
        "heading": title if several else "Experiment",
        "notes": all_notes,
        "links": links,
        "comparison": comparison_of(runs, [*compared.values()]) if several else None,
        "runs": [run_page(run, share) for run in runs],
    }
    pictures = [picture for run in runs for picture in run.pictures.values()]
    return Report(render("page.html", shown), (*pictures, *compared.values()), notes)
