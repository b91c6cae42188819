"""The interactive charts: their data, what the pointer shows, and that what a log holds stays data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.run_logs import published_log, whole_run
from toolcast.experiments.event_log import read_log
from toolcast.experiments.pei.scale import PEI_SCALE
from toolcast.experiments.report import chart_specs
from toolcast.experiments.report.chart_data import BARS, COLOURS, LINES
from toolcast.experiments.report.chart_specs import Chart, Panel, embedded_json
from toolcast.experiments.report.similarity_matrix import Likeness
from toolcast.experiments.report.summary import CycleSummary, RunSummary, ToolUse, summary_of

LEVELS = PEI_SCALE.level_names
EVIL = "</script><script>\"'] + alert(1) + \u202e"


@pytest.fixture
def run(tmp_path: Path) -> RunSummary:
    return summary_of(read_log(whole_run(tmp_path / "run.jsonl")))


def made(*cycles: CycleSummary) -> RunSummary:
    return RunSummary("made", "completed", "", "", 1, 9, "0", {}, cycles, (), ())


def rows(panel: Panel, layer: int | None = None) -> list[dict[str, Any]]:
    """Return the data of a panel, or of one of its layers."""
    spec = panel.spec if layer is None else panel.spec["layer"][layer]
    return spec["data"]["values"]


def names(panel: Panel) -> list[str]:
    return [name for _, name, *_ in panel.fields]


def marks(panel: Panel) -> list[dict[str, Any]]:
    return [layer["mark"] for layer in panel.spec["layer"] if isinstance(layer["mark"], dict)]


def expressions(value: Any, key: str = "") -> Iterator[str]:
    """Yield what Vega evaluates: names of fields, and expressions."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name not in ("data", "value"):
                yield from expressions(each, name)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from expressions(each, key)
    elif isinstance(value, str) and key in ("field", "filter", "calculate", "expr", "labelExpr", "test", "fold", "as"):
        yield value


def test_half_a_matrix_has_each_pair_once() -> None:
    matrix = ((1.0, 0.7071, 0.1), (0.7071, 1.0, -0.001), (0.1, -0.001, 1.0))
    (panel,) = chart_specs.similarity_chart(Likeness((2, 5, 9), matrix, 3, "table")).panels
    assert rows(panel) == [
        {"a": 2, "b": (2,), "s": [1.0]},
        {"a": 5, "b": (2, 5), "s": [0.71, 1.0]},
        {"a": 9, "b": (2, 5, 9), "s": [0.1, 0.0, 1.0]},
    ]
    assert "-0.0," not in json.dumps(rows(panel))
    assert names(panel) == ["cycle", "and cycle", "similarity"] and panel.height is None


def test_only_small_matrices_have_their_numbers_in_the_cells() -> None:
    def layers(size: int) -> int:
        scores = tuple((0.5,) * size for _ in range(size))
        (panel,) = chart_specs.similarity_chart(Likeness(tuple(range(size)), scores, size, "table")).panels
        return len(panel.spec["layer"])

    assert (layers(14), layers(15)) == (2, 1)


def test_memory(run: RunSummary) -> None:
    chart = chart_specs.memory_chart(run)
    assert [name for name, _ in chart.key] == ["write", "read", "list", "delete"]
    operations, keys = chart.panels
    assert [row["v0"] for row in rows(operations)] == [1, 1, 1] and names(operations)[1:] == [n for n, _ in chart.key]
    assert [row["v0"] for row in rows(keys)] == [1, 2, 2] and names(keys) == ["cycle", "keys"]


def test_tools() -> None:
    (panel,) = (chart := chart_specs.tools_chart([("write", 3, 0), ("", 2, 2)])).panels
    assert [(row["n"], row["v0"], row["v1"], row["all"]) for row in rows(panel)] == [
        ("write", 3, 0, 3),
        ("(no name)", 0, 2, 2),
    ]
    assert len(chart.key) == 2 and chart_specs.tools_chart([("write", 3, 0)]).key == []


def test_tokens(run: RunSummary) -> None:
    read, wrote = chart_specs.tokens_chart(run).panels
    assert [row["v0"] for row in rows(read)] == [390, 430, 470]
    assert [row["v0"] for row in rows(wrote)] == [85, 85, 85]


def test_time(run: RunSummary, tmp_path: Path) -> None:
    chart = chart_specs.time_chart(run)
    assert [name for name, _ in chart.key] == ["model", "tools", "all else"] == names(chart.panels[0])[1:]
    old = chart_specs.time_chart(summary_of(read_log(published_log(tmp_path / "old.jsonl"))))
    assert names(old.panels[0]) == ["cycle", "whole cycle"] and old.key == ()


@pytest.mark.parametrize(("cycles", "bars", "first"), [(60, 60, "1"), (61, 31, "1 to 2"), (1000, 59, "1 to 17")])
def test_of_many_cycles_a_bar_is_the_mean_of_some(cycles: int, bars: int, first: str) -> None:
    many = made(*(CycleSummary(number, input_tokens=number) for number in range(1, cycles + 1)))
    panel = chart_specs.tokens_chart(many).panels[0]
    assert len(rows(panel)) == bars <= BARS and rows(panel)[0]["l"] == first


@pytest.mark.parametrize(("seconds", "digits"), [(2.0, 0), (2.5, 2)])
def test_the_pointer_shows_the_decimals_that_there_are(seconds: float, digits: int) -> None:
    (panel,) = chart_specs.time_chart(made(CycleSummary(1, seconds=seconds))).panels
    assert [each[2] for each in panel.fields] == [None, digits]


def test_ratings_of_several_runs() -> None:
    chart = chart_specs.ratings_chart({"one": {"a": [1, 3]}, "two": {"b": [10]}}, LEVELS, runs=True)
    (panel,) = chart.panels
    assert chart.runs == ["one", "two"] and chart.key == [("a", COLOURS[0]), ("b", COLOURS[1])]
    assert [(dot["row"], dot["by"], dot["n"]) for dot in rows(panel, 1)] == [
        ("one", "a", f"1, {LEVELS[0]}"),
        ("one", "a", f"3, {LEVELS[2]}"),
        ("two", "b", f"10, {LEVELS[9]}"),
    ]
    assert [(dot["r"], dot["mean"]) for dot in rows(panel, 2)] == [("r0", 2)]
    assert names(panel)[0] == "run" and panel.spec["params"][0] == {"name": "shown", "value": ["r0", "r1"]}


def test_ratings_of_one_run() -> None:
    chart = chart_specs.ratings_chart({"a": {"a": [1]}, "b": {"b": []}}, LEVELS, runs=False)
    (panel,) = chart.panels
    assert chart.runs == () == chart.key and names(panel)[0] == "evaluator"
    assert [row["row"] for row in rows(panel, 0)] == ["a", "b"] and "shown" not in [*expressions(panel.spec)]


def test_runs_of_different_length(run: RunSummary) -> None:
    longer = made(*(CycleSummary(number, seconds=2.0) for number in range(2, 6)))
    chart = chart_specs.comparison_chart({"one": run, "two": longer})
    tokens, seconds, *_ = chart.panels
    assert chart.runs == ["one", "two"] and chart.key == ()
    assert rows(seconds) == [
        {"c": 1, "r0": 5.0},
        {"c": 2, "r0": 6.0, "r1": 2.0},
        {"c": 3, "r0": 4.0, "r1": 2.0},
        {"c": 4, "r1": 2.0},
        {"c": 5, "r1": 2.0},
    ]
    assert names(seconds) == ["cycle", "one", "two"] and seconds.fields[1][3] == COLOURS[0]
    assert [row["c"] for row in rows(tokens)] == [1, 2, 3]


def test_of_equal_curves_those_above_have_gaps_while_others_are_shown(run: RunSummary) -> None:
    panel = chart_specs.comparison_chart({"one": run, "two": run}).panels[0]
    below, above, _ = marks(panel)
    assert "strokeDash" not in below and below["point"]["size"] > above["point"]["size"]
    assert above["strokeDash"] == {"expr": "indexof(shown, 'r0') >= 0 ? [6, 6] : [1, 0]"}
    many = made(*(CycleSummary(number, seconds=number) for number in range(40)))
    assert all("point" not in mark for mark in marks(chart_specs.comparison_chart({"a": many, "b": run}).panels[1])[:1])


def test_of_many_runs_the_median_stands_out(run: RunSummary) -> None:
    chart = chart_specs.comparison_chart({f"run{number}": run for number in range(LINES + 1)})
    assert chart.key == [("median of the runs", COLOURS[1])]
    lines = [mark for mark in marks(chart.panels[0]) if mark["type"] == "line"]
    assert [line["color"] for line in lines] == ["var(--faint)", COLOURS[1]]
    assert [each[3] for each in chart.panels[0].fields[1:]] == [""] * (LINES + 1)


def test_a_measure_that_no_run_has_logged_is_noted(tmp_path: Path) -> None:
    old = summary_of(read_log(published_log(tmp_path / "old.jsonl")))
    panel = chart_specs.comparison_chart({"one": old, "two": old}).panels[0]
    assert panel.spec["mark"]["text"] == "not logged" and panel.fields == ()


def test_runs_without_a_cycle() -> None:
    assert len(chart_specs.comparison_chart({"one": made(), "two": made()}).panels) == 4
    assert chart_specs.memory_chart(made(CycleSummary(1))).key == []


def test_what_a_log_holds_is_no_expression_and_no_field() -> None:
    cycle = CycleSummary(1, seconds=1.0, tools={EVIL: ToolUse(1)})
    charts = [
        chart_specs.tools_chart([(EVIL, 1, 1)]),
        chart_specs.comparison_chart({EVIL: made(cycle), EVIL + "2": made(cycle)}),
        chart_specs.ratings_chart({EVIL: {EVIL: [3, 3]}}, LEVELS, runs=True),
    ]
    for chart in charts:
        found = [text for panel in chart.panels for text in expressions(panel.spec)]
        assert found and not any("alert" in text or "script" in text for text in found)
        text = chart.json(EVIL)
        assert "<" not in text and "\u202e" not in text and "\\u202e" not in text.replace("\\\\u202e", "")
        assert "alert" in text


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists) | st.dictionaries(st.text(), st.text()))
def test_json_in_an_element_ends_no_element_and_is_read_back(value: Any) -> None:
    text = embedded_json(value)
    assert not {*"<>&"} & {*text} and text.isascii()
    assert json.loads(text) == value


def test_json_of_a_chart() -> None:
    chart = Chart([Panel({"mark": "bar"}, [("c", "cycle", None, "")])], [("a", "#000")], ["one"])
    assert json.loads(chart.json("sea")) == {
        "title": "sea",
        "panels": [{"spec": {"mark": "bar"}, "fields": [["c", "cycle", None, ""]], "height": 180}],
        "key": [["a", "#000"]],
        "runs": ["one"],
    }
