"""The pictures of a report: what they draw, read from their SVG, and that nothing a log holds breaks one."""

from __future__ import annotations

import importlib
import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from support.run_logs import LogWriter, published_log, whole_run
from toolcast.experiments.event_log import read_log
from toolcast.experiments.pei.scale import PEI_SCALE
from toolcast.experiments.report import charts
from toolcast.experiments.report.chart_data import BARS, COLOURS
from toolcast.experiments.report.chart_rendering import Picture
from toolcast.experiments.report.similarity_matrix import Likeness
from toolcast.experiments.report.summary import CycleSummary, RunSummary, ToolUse, summary_of

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'toolcast[report]'")

LEVELS = PEI_SCALE.level_names


@pytest.fixture
def run(tmp_path: Path) -> RunSummary:
    return summary_of(read_log(whole_run(tmp_path / "run.jsonl")))


def long_run(cycles: int) -> RunSummary:
    many = tuple(
        CycleSummary(
            number,
            seconds=2.0,
            input_tokens=number,
            output_tokens=5,
            tools={"write": ToolUse(1)},
            memory_keys=number,
            reflection="x",
        )
        for number in range(1, cycles + 1)
    )
    return RunSummary("long", "completed", "", "", 1, 9, "0", {}, many, (), ())


def texts(picture: Picture) -> list[str]:
    """What is written in a picture."""
    return [each.text or "" for each in ElementTree.fromstring(picture.svg()).iter("text")]


def bars(picture: Picture, colour: str) -> int:
    """How many shapes of that colour there are."""
    return len(re.findall(f'fill="{colour}"', picture.svg()))


def test_similarity_has_its_numbers_in_the_cells() -> None:
    matrix = ((1.0, 0.7071, 0.1), (0.7071, 1.0, -0.25), (0.1, -0.25, 1.0))
    picture = charts.similarity_picture("s", Likeness((2, 5, 9), matrix, 3, "table"))
    received = texts(picture)
    assert received.count("0.71") == 1 and received.count("1.00") == 3 and "-0.25" in received and "9" in received
    assert picture.alt == (
        "Matrix of the similarity of 3 reflections, each with each. "
        "The most alike are those of cycles 2 and 5, with 0.71."
    )


def test_a_similarity_that_is_nearly_nothing_is_nothing() -> None:
    picture = charts.similarity_picture("s", Likeness((1, 2), ((1.0, -0.001), (-0.001, 1.0)), 2, "table"))
    assert texts(picture).count("0.00") == 1
    assert "-0.00" not in picture.svg()


@pytest.mark.parametrize(("cycles", "names"), [(1, ["1"]), (200, ["1", "15", "183"])])
def test_similarity_of_one_and_of_many(cycles: int, names: list[str]) -> None:
    scores = tuple(tuple(1.0 if row == column else 0.5 for column in range(cycles)) for row in range(cycles))
    picture = charts.similarity_picture("s", Likeness(tuple(range(1, cycles + 1)), scores, cycles, "table"))
    received = texts(picture)
    assert [name for name in names if name not in received] == []
    assert ("1.00" in received) == (cycles == 1)
    assert len(picture.svg()) < 60_000


def test_memory(run: RunSummary) -> None:
    picture = charts.memory_picture("m", run)
    assert {"write", "read", "list", "delete"} <= {*texts(picture)} and "pattern_search" not in texts(picture)
    assert bars(picture, COLOURS[0]) == 3 + 1  # and the key
    assert picture.alt.endswith("In all: 3 write, 2 read, 1 list, 1 delete.")


def test_a_memory_that_was_not_used() -> None:
    picture = charts.memory_picture("m", replace(long_run(1), cycles=(CycleSummary(1),)))
    assert picture.alt.endswith("In all: none.") and "write" not in texts(picture)


def test_tools(run: RunSummary) -> None:
    picture = charts.tools_picture("t", run)
    assert {"write", "3", "read", "2 (2 errors)", "answered with an error"} <= {*texts(picture)}
    assert picture.alt == "Calls of each tool: write 3, read 2, delete 1, list 1."


def test_tools_that_a_model_made_up(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "run.jsonl").start().begin()
    for number in range(40):
        log.call(f"<script>{number}$x$\x1b\u6d77", "ok")
    picture = charts.tools_picture("t", summary_of(read_log(log.finish(None))))
    assert len([text for text in texts(picture) if text.startswith("<script>")]) == 15
    assert "answered" not in texts(picture)  # nothing went wrong: one colour needs no key
    assert "<script" not in picture.svg() and picture.png()


def test_tokens(run: RunSummary) -> None:
    picture = charts.tokens_picture("t", run)
    assert bars(picture, COLOURS[0]) == bars(picture, COLOURS[1]) == 3
    assert picture.alt == "Tokens per cycle. In all 1,290 of input and 255 of output."


def test_time(run: RunSummary, tmp_path: Path) -> None:
    assert {"model", "tools", "all else"} <= {*texts(charts.time_picture("t", run))}
    old = charts.time_picture("t", summary_of(read_log(published_log(tmp_path / "old.jsonl"))))
    assert "model" not in texts(old) and bars(old, COLOURS[0]) == 2
    assert old.alt == "Seconds per cycle. In all 20 seconds."


@pytest.mark.parametrize(("seconds", "tick"), [(0.02, "0.010"), (3.0, "2"), (2.6, "1.0"), (7200.4, "2,000")])
def test_the_axis_has_what_the_figures_need(seconds: float, tick: str) -> None:
    run = long_run(1)
    run.cycles[0].seconds = seconds
    assert tick in texts(charts.time_picture("t", run))


@pytest.mark.nightly
@pytest.mark.parametrize("cycles", [1, 60, 61, 1000])
def test_of_many_cycles_a_bar_is_the_mean_of_some(cycles: int) -> None:
    run = long_run(cycles)
    size = -(-cycles // BARS)
    for picture in (charts.tokens_picture("t", run), charts.memory_picture("m", run)):
        name = "cycle" if size == 1 else f"cycle (each bar is the mean of {size} cycles)"
        assert name in texts(picture)
        assert bars(picture, COLOURS[0]) <= BARS + 1
        assert len(picture.svg()) < 100_000


def test_ratings_of_one_run() -> None:
    rows = {"local:smollm2": {"local:smollm2": [3, 3, 4]}, "openai:gpt": {"openai:gpt": [10]}, "mute": {"mute": []}}
    picture = charts.ratings_picture("p", rows, LEVELS)
    assert {"local:smollm2", "openai:gpt", "mute", "10", "sapience"} <= {*" ".join(texts(picture)).split()}
    assert texts(picture).count("local:smollm2") == 1  # a row of its own needs no key
    assert picture.alt == ("PEI ratings, means. local:smollm2: local:smollm2 3.3; openai:gpt: openai:gpt 10.0; mute: .")


def boxes(picture: Picture) -> dict[str, Any]:
    """Where the names of the levels stand, once the picture is laid out."""
    matplotlib: Any = importlib.import_module("matplotlib")
    agg: Any = importlib.import_module("matplotlib.backends.backend_agg")
    figure: Any = importlib.import_module("matplotlib.figure").Figure(figsize=(9, picture.height), layout="constrained")
    with matplotlib.rc_context({"font.family": ["DejaVu Sans"], "font.size": 11}):
        picture.draw(figure)
        agg.FigureCanvasAgg(figure).draw()
        (axes,) = figure.axes
        return {each.get_text(): each.get_window_extent() for each in axes.get_xticklabels()}


@pytest.mark.parametrize("name", ["sea", "contreact_smollm2_temperature_0.7_seed_5_full_history"])
def test_the_names_of_levels_do_not_overlap_however_long_those_of_runs_are(name: str) -> None:
    picture = charts.ratings_picture("p", {name: {"a": [1], "b": [3, 4]}, "other": {"a": [9]}}, LEVELS)
    found = boxes(picture)
    assert len(found) == len(LEVELS)
    for one, other in itertools.pairwise(found.values()):
        assert one.x1 < other.x0
    assert name in texts(picture)


def test_equal_curves_do_not_hide_each_other(run: RunSummary) -> None:
    """The one below is whole, and those on it have gaps in which it is seen."""
    svg = charts.comparison_picture("c", {"one": run, "two": run, "three": long_run(3)}).svg()
    curves = {colour: re.findall(rf'<path[^>]*stroke="{colour}"[^>]*>', svg) for colour in COLOURS[:3]}
    dashed = {colour: [each for each in found if "stroke-dasharray" in each] for colour, found in curves.items()}
    assert [len(dashed[colour]) for colour in COLOURS[:3]] == [0, 4, 0]


@pytest.mark.slow
def test_many_evaluators_are_distinguished() -> None:
    rows = {run: {f"evaluator-{number}": [number % 10 + 1] for number in range(12)} for run in ("one", "two")}
    picture = charts.ratings_picture("p", rows, LEVELS)
    assert [f"evaluator-{number}" in texts(picture) for number in range(12)] == [True] * 12
    looks = re.findall(r'<use [^>]*href="([^"]*)"[^>]*fill="(#\w+)', picture.svg())
    assert len({*looks}) >= 12


def test_ratings_of_several_runs_have_a_key() -> None:
    rows = {"one": {"a": [1], "b": [2, 2]}, "two": {"b": [9] * 30}}
    assert {"a", "b", "one", "two"} <= {*texts(charts.ratings_picture("p", rows, LEVELS))}
    alone = texts(charts.ratings_picture("p", {"one": {"a": [1]}, "two": {"a": [2]}}, LEVELS))
    assert "a" not in alone  # one evaluator needs no key


def test_similarities_below_zero_are_below_zero() -> None:
    below = RunSummary(
        "r", None, "", "", 1, 2, "0", {}, tuple(CycleSummary(n, similarity=-0.1 * n) for n in (1, 2)), (), ()
    )
    svg = ElementTree.fromstring(charts.comparison_picture("c", {"one": below, "two": below}).svg())
    heights = {each.text: float(each.get("y", "")) for each in svg.iter("text") if "0." in (each.text or "")}
    assert heights["\N{MINUS SIGN}0.20"] > heights["\N{MINUS SIGN}0.10"] > 0


def test_runs_laid_over_each_other(run: RunSummary) -> None:
    picture = charts.comparison_picture("c", {"one": run, "two": long_run(40)})
    received = texts(picture)
    assert {"one", "two"} <= {*received} and "not logged" not in received
    assert picture.alt.startswith("2 runs laid over each other")


@pytest.mark.slow
def test_of_many_runs_the_median_stands_out(run: RunSummary) -> None:
    picture = charts.comparison_picture("c", {f"run{number}": run for number in range(9)})
    assert "median of 9 runs" in texts(picture) and "run1" not in texts(picture)


def test_a_measure_that_no_run_has_logged_is_noted(tmp_path: Path) -> None:
    old = summary_of(read_log(published_log(tmp_path / "old.jsonl")))
    assert texts(charts.comparison_picture("c", {"one": old, "two": old})).count("not logged") == 2


def test_runs_without_a_cycle() -> None:
    none = replace(long_run(1), cycles=())
    assert texts(charts.comparison_picture("c", {"one": none, "two": none})).count("not logged") == 4
