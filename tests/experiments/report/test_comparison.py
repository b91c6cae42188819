"""Several runs beside each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from support.run_logs import CONFIG, LogWriter, published_log, whole_run
from toolcast.experiments.event_log import read_log
from toolcast.experiments.pei.agreement import PEIResult
from toolcast.experiments.report.comparison import comparison_of
from toolcast.experiments.report.html import render
from toolcast.experiments.report.sections import ReportedRun
from toolcast.experiments.report.summary import summary_of


def reported(path: Path, *ratings: tuple[str, int | None]) -> ReportedRun:
    results = [PEIResult("run", evaluator, rating, "", str(at)) for at, (evaluator, rating) in enumerate(ratings)]
    return ReportedRun(f"<{path.stem}>", path.stem, summary_of(read_log(path)), ratings=results)


def shown(*runs: ReportedRun) -> str:
    return render("comparison.html", {"comparison": comparison_of(runs, ())})


def rows(page: str, heading: str = "Comparison", table: int = 1) -> list[list[str]]:
    """Return the cells of a table after a heading, by default the first, without their tags."""
    body = page[page.index(f"{heading}</h") :].split("<tbody>")[table].split("</tbody>")[0]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in body.split("</tr>")[:-1]]
    return [[re.sub("<[^>]*>", "", cell) for cell in row] for row in cells]


def configured(path: Path, config: dict[str, Any]) -> Path:
    return LogWriter(path, path.stem).start(config).finish()


def test_a_row_for_each_run(tmp_path: Path) -> None:
    runs = [reported(whole_run(tmp_path / "new.jsonl", "new")), reported(published_log(tmp_path / "old.jsonl"))]
    page = shown(*runs)
    new, old = rows(page)
    assert new == ["&lt;new&gt;", "local:smollm2", "completed", "3", "1", "2", "0", "15.0 s", "–"]
    assert old[:4] == ["&lt;old&gt;", "–", "not logged", "2"]
    new, old = rows(page, table=2)
    assert new == ["&lt;new&gt;", "2.0", "2.3", "2.3", "430", "85", "21.2", "5.0", "75", "0.77"]
    assert old[:8] == ["&lt;old&gt;", "2.0", "1.0", "1.0", "–", "–", "–", "10.0"]
    assert '<a href="#run-new">&lt;new&gt;</a>' in page
    assert "PEI ratings</h3>" not in page


def test_runs_without_a_cycle(tmp_path: Path) -> None:
    page = shown(reported(configured(tmp_path / "none.jsonl", {})))
    (empty,) = rows(page)
    assert empty[3:] == ["0", "0", "0", "0", "not logged", "–"]
    (empty,) = rows(page, table=2)
    assert empty[1:] == ["–"] * 9


def test_rows_name_their_runs_for_the_choice_of_runs(tmp_path: Path) -> None:
    one = configured(tmp_path / "one.jsonl", {"seed": 1})
    rated = reported(whole_run(tmp_path / "two.jsonl"), ("a", 2))
    page = shown(reported(one), rated)
    assert re.findall(r'<tr data-run="(\w+)">', page) == ["one", "two"] * 4
    assert page.count("<tr>") == 4  # the heads


def test_ratings_by_evaluator(tmp_path: Path) -> None:
    one = reported(whole_run(tmp_path / "one.jsonl"), ("a", 2), ("a", 3), ("b", 5))
    two = reported(whole_run(tmp_path / "two.jsonl"), ("b", 9), ("b", 8), ("c", None))
    page = shown(one, two)
    assert rows(page, "PEI ratings") == [
        ["&lt;one&gt;", "2.50 (2)", "5.00 (1)", "3.75"],
        ["&lt;two&gt;", "–", "8.50 (2)", "8.50"],
    ]
    assert [row[-1] for row in rows(page)] == ["3.75", "8.50"]
    assert "Krippendorff&#39;s alpha of all ratings, ordinal: 0.68." in page
    assert "Krippendorff" not in shown(one, reported(whole_run(tmp_path / "three.jsonl")))


def test_what_differs_between_configurations(tmp_path: Path) -> None:
    one = configured(tmp_path / "one.jsonl", {"log_folder": "a", "model_options": {"seed": 1, "temperature": 0.7}})
    two = configured(
        tmp_path / "two.jsonl",
        {"log_folder": "b", "model_options": {"temperature": 0.7}, "system_prompt": "Be " * 40, "extra": {}},
    )
    page = shown(reported(one), reported(two))
    table = page[page.index("Configurations</h3>") :]
    assert re.findall(r'<th scope="col">(.*?)</th>', table) == ["Run", "model_options.seed", "system_prompt", "extra"]
    assert rows(page, "Configurations") == [
        ["&lt;one&gt;", "1", "–", "–"],
        ["&lt;two&gt;", "–", ("Be " * 40)[:60] + "…", "{}"],
    ]


def test_equal_configurations_need_no_table(tmp_path: Path) -> None:
    paths = [configured(tmp_path / f"{name}.jsonl", CONFIG | {"run_id": name}) for name in ("one", "two")]
    assert "Configurations" not in shown(*map(reported, paths))
