"""The page as a whole: it stands alone, is the same every time, and takes whatever a log holds."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support.process import Process
from support.run_logs import REFLECTIONS, LogWriter, published_log, whole_run
from toolcast.experiments.event_log import LogError
from toolcast.experiments.pei.agreement import PEIResult
from toolcast.experiments.pei.assessment_files import ResultsError, ResultsFile
from toolcast.experiments.report.chart_rendering import Picture
from toolcast.experiments.report.html import environment
from toolcast.experiments.report.page import PICTURED, Report, logs_in, report_on

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'toolcast[report]'")

KINDS = ("tokens", "time", "tools", "memory", "similarity", "pei")
VOID = {"meta", "link", "br", "wbr"}
EVIL = '</style></script><script>alert("x")</script><img src=x onerror=alert(1)>\x1b[2J\u202e\ud800$\\frac{1}$'


class Reader(HTMLParser):
    """Checks that tags are closed in order; keeps what they are, and their ids."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.attributes: set[str] = set()
        self.references: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._seen(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def _seen(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            self.ids += [value or ""] if name == "id" else []
            self.references += [value or ""] if name in ("href", "src", "aria-labelledby") else []


@pytest.fixture
def undrawn(process: Process) -> None:
    """No pictures: they take longest, and many a test asks nothing of them."""
    process.without("matplotlib.figure")


@pytest.fixture
def sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are empty: their interactive forms are there."""
    monkeypatch.setattr(Picture, "svg", lambda picture: "<svg></svg>")


def rate(path: Path, run_id: str, *ratings: tuple[str, int | None]) -> None:
    file = ResultsFile(path)
    for number, (evaluator, rating) in enumerate(ratings):
        file.add(PEIResult(run_id, evaluator, rating, "Because.", f"2026-09-21T12:00:{number:02}Z"))


def report(*logs: Path, ratings: Sequence[Path] | None = None) -> Report:
    return report_on(logs, embedder="words", ratings=ratings)


def test_one_run(tmp_path: Path) -> None:
    path = whole_run(tmp_path / "run.jsonl")
    rate(tmp_path / "pei_results.jsonl", "run", ("a", 3), ("b", 4))
    made = report(path)
    page = Reader(made.html)
    assert "<title>Experiment run</title>" in made.html and made.notes == ()
    assert [picture.name for picture in made.pictures] == [
        f"run-{kind}" for kind in ("similarity", "memory", "tools", "tokens", "time", "pei")
    ]
    headings = re.findall(r"<h(\d)[^>]*>(.*?)</h\d>", made.html)
    sections = ["Cycles", "Tokens and time", "Tools", "Memory", "Similarity of the reflections", "PEI ratings"]
    assert headings == [("1", "Experiment"), ("2", "run"), *(("3", name) for name in (*sections, "Reflections"))]
    assert made.html.count("<svg") == 6 == made.html.count('role="img"')
    assert "nav" not in page.tags and "Comparison" not in made.html


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False])
def test_the_page_stands_alone(tmp_path: Path, scripts: bool) -> None:
    logs = [whole_run(tmp_path / f"{name}.jsonl", name) for name in ("one", "two")]
    made = report_on(logs, embedder="words", scripts=scripts)
    page = Reader(made.html)
    assert page.tags.isdisjoint({"iframe", "object", "embed", "form", "base", "foreignobject"})
    assert not any(name.startswith("on") for name in page.attributes)
    assert ("script" in page.tags) == scripts
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', made.html)
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and "http" not in policy
    assert ("script-src" in policy) == scripts and "style" not in page.attributes
    assert scripts or "http:" not in made.html
    assert len(page.ids) == len(set(page.ids))
    allowed = re.findall(r"'sha256-([^']*)'", policy)
    inline = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", made.html, re.DOTALL)
    hashes = [b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in inline]
    assert sorted(hashes) == sorted(allowed) and len(allowed) == (3 if scripts else 1)
    inside = [reference for reference in page.references if not reference.startswith("data:")]
    assert inside and [each for each in inside if each.removeprefix("#") not in page.ids] == []


@pytest.mark.slow
def test_the_same_logs_make_the_same_bytes(tmp_path: Path) -> None:
    path = whole_run(tmp_path / "run.jsonl")
    one, other = report(path), report(path)
    assert "<script>" in one.html
    assert one.html == other.html and one.pictures[0].png() == other.pictures[0].png()


def without_scripts(page: str) -> str:
    """Remove what draws the charts from a page."""
    page = re.sub(r"script-src [^;]*; ", "", page)
    page = re.sub(r"<script[^>]*>.*?</script>\n", "", page, flags=re.DOTALL)
    return re.sub(r"</?figure[^>]*>\n", "", page)


@pytest.mark.usefixtures("sketched")
def test_a_page_without_scripts_is_the_same_page_but_for_them(tmp_path: Path) -> None:
    logs = [whole_run(tmp_path / f"{name}.jsonl", name) for name in ("one", "two")]
    plain = report_on(logs, embedder="words", scripts=False)
    assert "<script" not in plain.html and "<figure" not in plain.html
    assert plain.html == without_scripts(report(*logs).html)
    assert [picture.name for picture in plain.pictures] == [picture.name for picture in report(*logs).pictures]


@pytest.mark.nightly
@pytest.mark.usefixtures("sketched")
def test_scripts_and_their_data_are_less_than_a_megabyte(tmp_path: Path) -> None:
    """However much the logs have: a chart without room is a picture only, the comparison last of all."""
    reflections = [f"Reflection {number}." for number in range(200)]
    logs = [whole_run(tmp_path / f"{name}.jsonl", name, reflections) for name in "abcdefgh"]
    made, plain = report(*logs), report_on(logs, embedder="words", scripts=False)
    more = len(made.html.encode()) - len(plain.html.encode())
    assert 900_000 < more < 1_000_000
    charts = made.html.count('<figure class="chart">')
    assert 0 < charts < made.html.count("<svg") == plain.html.count("<svg")
    assert '<figure class="chart">' in made.html.split('id="run-a"')[0]


@pytest.mark.usefixtures("sketched")
def test_the_choice_of_runs(tmp_path: Path) -> None:
    logs = [whole_run(tmp_path / f"{name}.jsonl", name) for name in ("one", "<two>")]
    made = report(*logs)
    (listed,) = re.findall(r'<script type="application/json" id="runs">(.*?)</script>', made.html)
    assert [(run["name"], run["slug"]) for run in json.loads(listed)] == [("one", "one"), ("<two>", "two")]
    assert len({run["colour"] for run in json.loads(listed)}) == 2
    for slug in ("one", "two"):
        assert f'<section class="run" data-run="{slug}"' in made.html
        assert f'<li data-run="{slug}"><a href="#run-{slug}">' in made.html
    assert 'id="runs"' not in report(logs[0]).html


@pytest.mark.slow
def test_each_picture_names_its_run(tmp_path: Path) -> None:
    logs = [whole_run(tmp_path / f"{name}.jsonl", name) for name in ("sea", "land")]
    pictures = {picture.name: picture for picture in report(*logs).pictures}
    assert [picture.title for name, picture in pictures.items() if name.startswith("sea-")] == ["sea"] * 5
    svg = pictures["sea-time"].svg()
    assert 'aria-label="sea: Seconds per cycle.' in svg and ">sea</text>" in svg
    assert ">sea</text>" in pictures["comparison"].svg() and ">land</text>" in pictures["comparison"].svg()


@pytest.mark.slow
def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Picture, "png", lambda picture: picture.name.encode())
    logs = [whole_run(tmp_path / f"{name}.jsonl", name) for name in ("one", "two")]
    rate(tmp_path / "one_pei.json", "one", ("a", 3))
    made = report(*logs)
    names = [f"{run}-{kind}.png" for run in ("one", "two") for kind in KINDS if (run, kind) != ("two", "pei")]
    written = made.write(tmp_path / "deep" / "report")
    assert written[0] == tmp_path / "deep" / "report" / "report.html"
    assert {file.name for file in written[1:]} == {*names, "comparison.png", "comparison-pei.png"}
    assert all(file.read_bytes() == file.stem.encode() for file in written[1:])
    assert made.write(tmp_path / "alone", png=False) == [tmp_path / "alone" / "report.html"]
    assert [*(tmp_path / "alone").iterdir()] == [tmp_path / "alone" / "report.html"]


@pytest.mark.slow
def test_whatever_a_model_wrote_is_text(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "run.jsonl").start({"model_name": EVIL, EVIL: EVIL}).begin().answer(EVIL)
    log.call(EVIL, EVIL, **{EVIL: EVIL}).write(EVIL, EVIL).error(EVIL, EVIL).end(EVIL, ended_by=EVIL, advisory=EVIL)
    log.begin().end(EVIL + "again")
    rate(tmp_path / "run_pei.json", "run", (EVIL, 3))
    made = report(log.finish(EVIL), whole_run(tmp_path / "two.jsonl", "two"))
    page = Reader(made.html)
    assert "img" not in page.tags and "onerror" not in page.attributes
    scripts = re.findall(r"<script[^>]*>", made.html)
    assert scripts.count("<script>") == 2 and {*scripts} - {"<script>"} == {
        '<script type="application/json">',
        '<script type="application/json" id="runs">',
    }
    assert made.html.count("</style>") == 1 and "\x1b" not in made.html and "\u202e" not in made.html
    assert "&lt;script&gt;alert(&#34;x&#34;)" in made.html
    assert made.write(tmp_path / "report")[0].read_text(encoding="utf-8") == made.html


def test_a_run_id_that_another_program_wrote(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    event = {"timestamp": "t", "run_id": EVIL, "cycle_number": 1, "event_type": "CYCLE_START", "payload": {}}
    path.write_text(json.dumps(event) + "\n")
    nameless = tmp_path / "nameless.jsonl"
    nameless.write_text(json.dumps(event | {"run_id": "\u6d77"}) + "\n")
    made = report(path, nameless)
    assert "img" not in Reader(made.html).tags and made.html.count("<script>") == 2
    assert [picture.name for picture in made.pictures] == ["comparison"] and 'id="run-run"' in made.html


@pytest.mark.nightly
def test_two_runs_of_one_name_are_distinguished(tmp_path: Path) -> None:
    logs = [whole_run(tmp_path / folder / "run.jsonl") for folder in ("a", "b")]
    made = report(*logs, logs[0])
    names = {picture.name for picture in made.pictures}
    assert len(names) == len(made.pictures) == 11
    assert [f"run ({log})" in made.html for log in logs] == [True, True]
    others = [whole_run(tmp_path / f"{name}.jsonl", name) for name in ("RUN", "comparison")]
    names = {picture.name for picture in report(logs[0], *others).pictures}
    assert {"run-time", "RUN-2-time", "comparison-2-time", "comparison"} <= names and len(names) == 16


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("cut", [1, 20, 150])
def test_a_run_that_was_killed(tmp_path: Path, cut: int) -> None:
    path = whole_run(tmp_path / "run.jsonl")
    path.write_bytes(path.read_bytes()[:-cut])
    made = report(path)
    assert ("The last line of the log was cut off" in made.html) == (cut > 1)
    assert (">unfinished<" in made.html) == (cut > 1) and REFLECTIONS[2] in made.html


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    assert "No cycle was begun." in report(LogWriter(tmp_path / "run.jsonl").start().finish(None)).html


def test_runs_that_have_just_begun_are_compared(tmp_path: Path) -> None:
    logs = [LogWriter(tmp_path / f"{name}.jsonl", name).start().finish(None) for name in ("one", "two")]
    made = report(*logs)
    assert made.pictures == () and "Comparison</h2>" in made.html


def test_a_run_of_one_cycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Picture, "png", lambda picture: picture.name.encode())
    made = report(whole_run(tmp_path / "run.jsonl", reflections=("Only this.",)))
    assert [picture.name for picture in made.pictures] == ["run-memory", "run-tools", "run-tokens", "run-time"]
    assert "nothing was to compare them with" in made.html
    assert len(made.write(tmp_path / "report")) == 5


@pytest.mark.usefixtures("undrawn")
def test_a_run_without_reflections_that_ended_at_limits(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "run.jsonl").start()
    for limit in ("max_steps", "max_seconds", "max_tokens"):
        log.begin().answer("").error("a limit", "limit").end("", ended_by=limit)
    made = report(log.finish())
    assert all(f"<td>{limit}</td>" in made.html for limit in ("max_steps", "max_seconds", "max_tokens"))
    assert "Reflections: 0" in made.html


def test_the_published_format(tmp_path: Path) -> None:
    made = report(published_log(tmp_path / "old.jsonl", 4))
    assert "Tokens were not logged." in made.html
    names = ["old-similarity", "old-memory", "old-tools", "old-time"]
    assert [picture.name for picture in made.pictures] == names


def test_a_run_that_has_just_begun_has_no_pictures(tmp_path: Path) -> None:
    assert report(LogWriter(tmp_path / "run.jsonl").start().finish(None)).pictures == ()


@pytest.mark.nightly
def test_a_thousand_cycles_make_a_page_of_a_few_megabytes(tmp_path: Path) -> None:
    received = [f"Reflection {number}. " + "All work and no play. " * 300 for number in range(1000)]
    made = report(whole_run(tmp_path / "run.jsonl", reflections=received))
    assert len(made.html.encode()) < 5_000_000
    assert "200 of 1,000 reflections, evenly spread; 800 are left out." in made.html
    assert "more characters are in the log." in made.html and "left out." in made.html


def test_many_runs(tmp_path: Path) -> None:
    logs = [whole_run(tmp_path / f"r{number}.jsonl", f"r{number}") for number in range(PICTURED + 1)]
    made = report(*logs)
    assert [picture.name for picture in made.pictures] == ["comparison"]
    assert "these are more than 12 runs" in made.html and made.html.count("<svg") == 1
    (listed,) = re.findall(r'<script type="application/json" id="runs">(.*?)</script>', made.html)
    assert {run["colour"] for run in json.loads(listed)} == {"var(--faint)"} and "r12" in listed
    assert made.html.count("<section") == PICTURED + 2 and made.html.count('href="#run-r3"') == 1


@pytest.mark.usefixtures("undrawn")
def test_an_embedder_that_fails_is_reported(tmp_path: Path) -> None:
    class Broken:
        name = "broken"

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            raise OSError("no network")

    made = report_on([whole_run(tmp_path / "run.jsonl")], embedder=Broken())
    assert "The embedder broken failed" in made.html and "OSError: no network" in made.html


@pytest.mark.usefixtures("undrawn")
def test_without_an_embedder(tmp_path: Path) -> None:
    path = whole_run(tmp_path / "run.jsonl")
    assert "no embedder was asked to" in report_on([path], embedder=None).html
    assert "no embedder was asked to" in report_on([path], embedder="none").html
    with pytest.raises(ValueError, match="no embedder is called 'missing'"):
        report_on([path], embedder="missing")


@pytest.mark.usefixtures("undrawn")
def test_ratings_where_an_assessment_writes_them_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rate(Path("pei_results.jsonl"), "one", ("here", 3))
    assert ">here</th>" in report(whole_run(Path("logs/one.jsonl"), "one")).html
    assert ">1</td>" in report(whole_run(Path("one.jsonl"), "one")).html  # and not twice where that is beside the log


@pytest.mark.usefixtures("undrawn")
def test_ratings_beside_the_log_are_found(tmp_path: Path) -> None:
    one, two = whole_run(tmp_path / "one.jsonl", "one"), whole_run(tmp_path / "file.jsonl", "two")
    rate(tmp_path / "pei_results.jsonl", "one", ("shared", 3))
    rate(tmp_path / "pei_results.jsonl", "someone-else", ("stranger", 3))
    rate(tmp_path / "one_pei.json", "one", ("own", 4))
    rate(tmp_path / "file_pei.jsonl", "file", ("by-file", 5))  # the id that PEI writes is the file's name
    page = report(one, two).html
    assert all(f">{name}</th>" in page for name in ("shared", "own", "by-file")) and "stranger" not in page
    elsewhere = tmp_path / "elsewhere.jsonl"
    rate(elsewhere, "one", ("other", 2))
    page = report(one, two, ratings=[elsewhere]).html
    assert ">other</th>" in page and "shared" not in page
    assert "PEI ratings</h3>" not in report(one, two, ratings=[]).html


@pytest.mark.usefixtures("undrawn")
def test_files_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    path = whole_run(tmp_path / "run.jsonl")
    with pytest.raises(FileNotFoundError):
        report(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(LogError, match="empty"):
        report(tmp_path / "empty.jsonl")
    (tmp_path / "bad.jsonl").write_bytes(path.read_bytes() + b"nonsense\n")
    with pytest.raises(LogError, match="line 22"):
        report(tmp_path / "bad.jsonl")
    (tmp_path / "pei_results.jsonl").write_text("nonsense\n")
    with pytest.raises(ResultsError, match="line 1"):
        report(path)


@pytest.mark.usefixtures("undrawn")
def test_without_matplotlib_it_is_a_page_of_tables(tmp_path: Path) -> None:
    made = report(whole_run(tmp_path / "run.jsonl"))
    Reader(made.html)
    assert made.pictures == () and "<svg" not in made.html and "<script" not in made.html
    (note,) = made.notes
    assert "pip install 'toolcast[report]'" in note and "toolcast[report]" in made.html
    assert made.write(tmp_path / "report") == [tmp_path / "report" / "report.html"]


def test_without_jinja2_the_error_names_what_to_install(tmp_path: Path, process: Process) -> None:
    process.without("jinja2")
    environment.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[report\]'"):
        report(tmp_path / "none.jsonl")  # nothing was read


def test_the_logs_in_a_folder(tmp_path: Path) -> None:
    deep = whole_run(tmp_path / "grid" / "b" / "b.jsonl", "b")
    near = whole_run(tmp_path / "grid" / "a.jsonl", "a")
    begun = tmp_path / "grid" / "c.jsonl"
    begun.touch()
    rate(tmp_path / "grid" / "pei_results.jsonl", "a", ("x", 1))
    (tmp_path / "grid" / "folder.jsonl").mkdir()
    assert logs_in(tmp_path / "grid") == [near, deep]
    numbered = [whole_run(tmp_path / "seeds" / f"seed_{seed}.jsonl", f"seed_{seed}") for seed in (1, 2, 10)]
    assert logs_in(tmp_path / "seeds") == numbered
    assert logs_in(tmp_path / "nothing") == []
