"""`toolcast experiment report`: where the files go, and what goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.process import Process
from support.run_logs import whole_run
from toolcast.apps import cli
from toolcast.experiments.pei.agreement import PEIResult
from toolcast.experiments.pei.assessment_files import ResultsFile
from toolcast.experiments.report.chart_rendering import Picture


def command(*words: object) -> int:
    return cli.main(["experiment", "report", *map(str, words), "--embedder", "words"])


@pytest.fixture
def undrawn(process: Process) -> None:
    """No pictures, which take longest."""
    process.without("matplotlib.figure")


def test_a_report_stands_beside_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(whole_run(tmp_path / "logs" / "sea.jsonl", "sea")) == 0
    folder = tmp_path / "logs" / "sea_report"
    files = [f"sea-{kind}.png" for kind in ("similarity", "memory", "tools", "tokens", "time")]
    out = capsys.readouterr()
    assert out.out.splitlines() == [str(folder / name) for name in ("report.html", *files)] and out.err == ""
    assert {path.name for path in folder.iterdir()} == {"report.html", *files}


def test_a_folder_is_a_grid_of_runs(undrawn: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        whole_run(tmp_path / "grid" / name / f"{name}.jsonl", name)
    assert command(tmp_path / "grid", "--no-png") == 0
    page = tmp_path / "grid" / "report" / "report.html"
    assert capsys.readouterr().out == f"{page}\n"
    assert "2 experiments" in page.read_text(encoding="utf-8")
    assert command(tmp_path / "grid", "--no-png") == 0  # a report is no run


def test_several_runs(
    undrawn: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    logs = [whole_run(tmp_path / f"{name}.jsonl", name) for name in ("one", "two")]
    assert command(*logs, "--no-png") == 0
    assert capsys.readouterr().out == f"{Path('report', 'report.html')}\n"
    assert command(*logs, "--no-png", "--output", "there/it is") == 0
    assert (tmp_path / "there" / "it is" / "report.html").is_file()


@pytest.mark.parametrize(("options", "scripts"), [((), 2), (("--no-scripts",), 0)])
def test_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], scripts: int) -> None:
    monkeypatch.setattr(Picture, "svg", lambda picture: "<svg></svg>")
    assert command(whole_run(tmp_path / "run.jsonl"), "--no-png", *options) == 0
    page = (tmp_path / "run_report" / "report.html").read_text(encoding="utf-8")
    assert page.count("<script>") == scripts and page.count("<svg") == 5


def test_ratings_by_name(undrawn: None, tmp_path: Path) -> None:
    log, ratings = whole_run(tmp_path / "run.jsonl"), tmp_path / "ratings.json"
    ResultsFile(ratings).add(PEIResult("run", "judge", 7, "7", ""))
    assert command(log, "--no-png", "--pei", ratings) == 0
    assert ">judge</th>" in (tmp_path / "run_report" / "report.html").read_text(encoding="utf-8")


def test_without_matplotlib_the_page_is_made_and_a_note(
    undrawn: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(whole_run(tmp_path / "run.jsonl")) == 0
    out = capsys.readouterr()
    assert out.out == f"{tmp_path / 'run_report' / 'report.html'}\n"
    assert out.err.startswith("Note: the pictures need matplotlib") and "pip install 'toolcast[report]'" in out.err


def error_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The error that a command line ends in."""
    assert cli.main(["experiment", "report", *map(str, words)]) == 1
    out = capsys.readouterr()
    assert out.out == "" and out.err.startswith("Error: ")
    return out.err


def test_what_goes_wrong_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = whole_run(tmp_path / "run.jsonl")
    assert "none.jsonl" in error_of(capsys, tmp_path / "none.jsonl")
    (tmp_path / "empty").mkdir()
    assert "no log of a run in" in error_of(capsys, tmp_path / "empty")
    assert "--embedder: no embedder is called 'missing'" in error_of(capsys, log, "--embedder", "missing")
    assert "missing.json: no such file" in error_of(capsys, log, "--pei", tmp_path / "missing.json")
    (tmp_path / "taken").touch()
    error = error_of(capsys, log, "--embedder", "none", "--output", tmp_path / "taken", "--no-png")
    assert "taken: " in error and "Choose another folder with --output" in error
    (tmp_path / "bad.jsonl").write_text('{"event_type": "\x1b[2J"}\n')
    assert "line 1" in error_of(capsys, tmp_path / "bad.jsonl")


def test_a_command_line_without_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["experiment", "report"])
    assert left.value.code == 2 and "RUN" in capsys.readouterr().err
