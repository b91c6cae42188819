"""The sections of a run: their contents, what they cut, and the marks of cuts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.run_logs import LogWriter, published_log, whole_run
from toolcast.experiments.event_log import read_log
from toolcast.experiments.pei.agreement import PEIResult
from toolcast.experiments.report.html import Cell, render
from toolcast.experiments.report.sections import (
    ReportedRun,
    Share,
    count,
    decimal,
    duration,
    first_words,
    run_page,
    status_of,
)
from toolcast.experiments.report.similarity_matrix import Likeness
from toolcast.experiments.report.summary import CycleSummary, RunSummary, summary_of

EMPTY = RunSummary("run", None, "", "", 0, 0, None, {}, (), (), ())


def reported(path: Path) -> ReportedRun:
    return ReportedRun("run", "run", summary_of(read_log(path)))


def shown(run: ReportedRun, share: Share | None = None) -> str:
    return render("run.html", {"run": run_page(run, share or Share())})


def test_the_facts_of_a_run(tmp_path: Path) -> None:
    page = shown(reported(whole_run(tmp_path / "run.jsonl")))
    for name, value in (
        ("Cycles", "3 of 3"),
        ("Model", "local:smollm2"),
        ("Begun", "2026-09-21 14:13:20 UTC"),
        ("Time in cycles", "15.0 s"),
        ("Tokens in", "1,290"),
        ("Tokens out", "255"),
        ("Tokens/s", "21.2"),
        ("Tool calls", "7"),
        ("Errors", "0"),
        ("Limits reached", "0"),
        ("toolcast", "0.1.0"),
        ("Lines in the log", "21"),
    ):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in page
    assert '<dd><span class="status good">completed</span></dd>' in page
    assert "<summary>Configuration</summary>" in page and "&#34;temperature&#34;: 0.7" in page
    assert 'class="note"' not in page.split("Cycles</h3>")[0] and "<h3>Errors" not in page


def test_a_row_for_each_cycle(tmp_path: Path) -> None:
    page = shown(reported(whole_run(tmp_path / "run.jsonl")))
    row = page[page.index('<th scope="row">3</th>') :].split("</tr>")[0]
    words = '<div class="opening" dir="auto">I looked at the sea again and wrote down…</div>'
    cells = [cell.split(">", 1)[1] for cell in row.split("</td>")[:-1]]
    assert cells[1:] == ["2", "4", "470", "85", "28.3", "4.0", "4", "2", "80", "0.85 (2)", "high", "0", words]
    assert "reflection</td>" in row


def test_missing_measures_are_noted(tmp_path: Path) -> None:
    page = shown(reported(published_log(tmp_path / "old.jsonl")))
    assert '<dt>Status</dt><dd><span class="status warn">not logged</span></dd>' in page
    assert "<dt>Tokens in</dt><dd>not logged</dd>" in page and "Tokens were not logged." in page
    assert "Another program wrote the log" in page and "<summary>Configuration" not in page
    assert "<td>not logged</td>" in page and "<dt>Cycles</dt><dd>2</dd>" in page


def test_a_run_that_broke_off(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    LogWriter(path).start().begin().end("One").begin().answer("Tw").finish(None)
    run = reported(path)
    page = shown(replace(run, torn=True))
    assert ">unfinished<" in page and "The log has no RUN_END" in page
    assert "Not ended: cycle 2." in page and "The last line of the log was cut off" in page
    assert "<td>not ended</td>" in page and "was resumed" not in page
    LogWriter(path, cycle=2).start(resumed=True).finish(None)
    assert "its log has 2 beginnings" in shown(reported(path))


def test_many_open_cycles_and_cycles_begun_again() -> None:
    cycles = tuple(CycleSummary(number) for number in range(1, 15))
    page = shown(ReportedRun("run", "run", replace(EMPTY, cycles=cycles, begun_again=(1, 2))))
    assert "Not ended: cycle 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more." in page
    assert "begins some cycles more than once (2)" in page


def test_errors_are_reported_and_cut(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "run.jsonl").start().begin()
    for number in range(60):
        log.error(f"<b>{number}</b> " + "x" * 700)
    log.cycle = 0
    page = shown(reported(log.error("no cycle").finish("failed")))
    assert "The first 50; 11 more are in the log." in page
    assert "&lt;b&gt;49&lt;/b&gt;" in page and "&lt;b&gt;50" not in page and "x…</div>" in page
    assert '<span class="status bad">failed</span>' in page and "<td>invoke_llm</td><td>Timeout</td>" in page


def test_an_error_outside_of_any_cycle(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "run.jsonl").start().error("no embedder")
    assert '<th scope="row">–</th>' in shown(reported(log.finish("failed")))


def test_a_run_without_a_cycle() -> None:
    page = shown(ReportedRun("run", "run", EMPTY))
    for text in ("No cycle was begun.", "No tool was called.", "The memory was not used.", "There are none."):
        assert text in page
    assert "Tokens and time" not in page and "PEI" not in page


def test_of_many_cycles_the_first_and_the_last_are_shown() -> None:
    cycles = tuple(CycleSummary(number, reflection="") for number in range(1, 101))
    page = shown(ReportedRun("run", "run", replace(EMPTY, cycles=cycles)), Share(rows=20))
    assert "The first 10 and the last 10 cycles; 80 are left out." in page
    rows = [number for number in range(1, 101) if f'<th scope="row">{number}</th>' in page]
    assert rows == [*range(1, 11), *range(91, 101)]


def test_reflections_stand_in_full_and_escaped(tmp_path: Path) -> None:
    text = "<script>alert('x')</script>\n\x1b]0;title\x07 \"quoted\" & \u202edown"
    page = shown(reported(whole_run(tmp_path / "run.jsonl", reflections=("one", text, text))))
    output = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;\n\\x1b]0;title\\x07 &#34;quoted&#34; &amp; \\u202edown"
    assert page.count(f'<div class="words" dir="auto">{output}</div>') == 2 and "<script" not in page
    assert f"<summary>Cycle 3: {len(text)} characters, high similarity to cycle 2 <span" in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "–"),
        (" \n ", "–"),
        ("One  two\nthree", "One two three"),
        ("a" * 44, "a" * 44),
        ("a" * 45, "a" * 44 + "…"),
        ("word " * 20, ("word " * 8 + "word") + "…"),
        ("x" * 44 + " y", "x" * 44 + "…"),
    ],
)
def test_the_first_words_of_a_reflection(text: str, shown: str) -> None:
    assert first_words(text) == shown


def test_long_reflections_are_cut_and_short_ones_are_not() -> None:
    cycles = tuple(CycleSummary(number, reflection="ab"[number - 1] * size) for number, size in ((1, 900), (2, 100)))
    page = shown(ReportedRun("run", "run", replace(EMPTY, cycles=cycles)), Share(chars=500))
    assert "a" * 400 + "</div>" in page and "a" * 401 not in page and "b" * 100 in page
    assert "500 more characters are in the log." in page


def test_an_empty_reflection_is_shown_as_empty() -> None:
    cycles = (CycleSummary(1, reflection=""), CycleSummary(2, reflection="x"), CycleSummary(3))
    page = shown(ReportedRun("run", "run", replace(EMPTY, cycles=cycles)))
    assert "Cycle 1: 0 characters</summary>" in page and "(empty)" in page and "Cycle 3:" not in page


def test_many_names_of_tools_are_cut(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "run.jsonl").start().begin().call("", "ok")
    for number in range(60):
        log.call(f"made_up_{number:02}", "ok").call(f"made_up_{number:02}", "ok")
    page = shown(reported(log.finish(None)))
    assert "The 50 that were called most; 11 more names were called." in page
    assert "made_up_49" in page and "made_up_50" not in page and "(no name)" not in page


def test_a_tool_without_a_name(tmp_path: Path) -> None:
    assert "(no name)" in shown(reported(LogWriter(tmp_path / "run.jsonl").start().begin().call("", "ok").finish(None)))


@pytest.mark.parametrize(
    ("likeness", "text"),
    [
        (Likeness(among=3), "Reflections: 3; no embedder was asked to."),
        (Likeness((1,), ((1.0,),), 1, "words"), "Reflections: 1; nothing was to compare them with."),
        (Likeness(among=9, embedder="<x>", error="OSError: no"), "The embedder &lt;x&gt; failed"),
        (Likeness((1, 4), ((1.0, 0.5), (0.5, 1.0)), 9, "w"), "2 of 9 reflections, evenly spread; 7 are left out."),
        (
            Likeness((1, 4), ((1.0, 0.5), (0.5, 1.0)), 2, "w"),
            '<th scope="row">1 and 4</th><td class="number">0.50</td>',
        ),
    ],
)
def test_similarity_reports_what_was_compared(likeness: Likeness, text: str) -> None:
    assert text in shown(ReportedRun("run", "run", EMPTY, likeness))


def test_ratings_and_how_far_they_agree() -> None:
    given = [("a", 3), ("a", 4), ("<b>", 6), ("<b>", None), ("mute", None)]
    results = [PEIResult("run", evaluator, rating, "", str(number)) for number, (evaluator, rating) in enumerate(given)]
    run = ReportedRun("run", "run", EMPTY, ratings=results)
    assert run.rated == {"a": [3, 4], "<b>": [6]}
    page = shown(run)
    row = page[page.index('<th scope="row">a</th>') :].split("</tr>")[0]
    assert [cell.split(">")[-1] for cell in row.split("</td>")][:-1] == ["2", "3.50", "0.71", "3", "4", "0"]
    assert '<th scope="row">&lt;b&gt;</th><td class="number">1</td>' in page
    assert '<th scope="row">mute</th><td class="number">0</td><td class="number">–</td>' in page
    assert "Repeats of one evaluator: 0% of 1 pairs are the same level; they lie 1.00 levels apart on average." in page
    assert "Different evaluators: 0% of 2 pairs are the same level; they lie 2.50 levels apart on average." in page
    alone = shown(ReportedRun("run", "run", EMPTY, ratings=results[:1]))
    assert "pairs" not in alone


def test_numbers_as_they_stand_on_the_page() -> None:
    assert (count(None), count(1234.4), decimal(None), decimal(0.126), decimal(1234.5, 1)) == (
        "–",
        "1,234",
        "–",
        "0.13",
        "1,234.5",
    )
    received = [duration(seconds) for seconds in (None, 0.04, 59.94, 61, 3599.6, 3661, 90_000)]
    assert received == ["not logged", "0.0 s", "59.9 s", "1 min 1 s", "1 h 0 min", "1 h 1 min", "25 h 0 min"]
    assert status_of(replace(EMPTY, status="stopped")) == Cell("stopped", "status", "warn")


def test_a_time_that_is_none_stands_as_it_is() -> None:
    page = shown(ReportedRun("run", "run", replace(EMPTY, started="<soon>", last="2025-01-01T00:00:00")))
    assert "<dd>&lt;soon&gt;</dd>" in page and "<dd>2025-01-01 00:00:00</dd>" in page
