"""The comparison's tables show what was measured, and its events and rounds are what they claim to be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.process import Process

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    documents, comparison, page = map(import_module, ("documents", "comparison", "page"))
    bench, bench_peers, goals = (import_module(name) for name in ("bench", "bench_peers", "goals"))
    common, calling, rounds = (import_module(f"peers.{name}") for name in ("common", "calling", "rounds"))

ALBUM = documents.album()


def cell(way: str, *seconds: float, document: str = "40 KB list", **more: Any) -> dict[str, Any]:
    """Return the result line of one measurement of a peer."""
    text = {"way": way, "peer": way, "gives": "typed", "document": document, "size": 4, "pieces": 10_000}
    return {**text, "seconds": list(seconds), "snapshots": 5, "right": True, "peak": 3_000_000, **more}


def results(*cells: dict[str, Any], **more: Any) -> dict[str, Any]:
    """All that was collected."""
    taken = {"date": "2026-01-02", "python": "CPython 3.11.7", "system": "Linux", "processor": "A chip", "cores": 2}
    found = {"taken": taken, "versions": {}, "imports": {}, "cells": list(cells), "kept": [], "calls": []}
    return {**found, "failures": {}, **more}


def row(table: str, name: str) -> list[str]:
    """The cells of a row of a Markdown table."""
    found = next(line for line in table.splitlines() if line.strip("| *").startswith(name))
    return [part.strip() for part in found.strip("|").split("|")][1:]


BASE = cell("toolcast, sync", 0.1, 0.102, 0.104)

CELLS = {
    "ratio and spread": (cell("peer", 2.0, 2.2, 2.1), "2.00 s / 2.10 s, +10% (20x)"),
    "a small ratio": (cell("peer", 0.15, 0.15), "150 ms / 150 ms, +0% (1.5x)"),
    "less than toolcast": (cell("peer", 0.0012, 0.0012), "1.20 ms / 1.20 ms, +0% (0.01x)"),
    "one round": (cell("peer", 66.6), "66.6 s (666x, once)"),
    "thousands": (cell("peer", 120.0, 120.0), "120 s / 120 s, +0% (1,200x)"),
    "stopped": (cell("peer", cut={"seconds": 12.04, "share": 0.07}), "> 12 s at 7%"),
    "failed": (cell("peer", error="ValueError: no"), "failed"),
    "another object": (cell("peer", 0.1, 0.1, right=False), "wrong object: 100 ms / 100 ms, +0% (1.0x)"),
}


def test_every_client_that_a_goal_names_is_measured() -> None:
    assert {*goals.COMPARED} <= {row.name for row in goals.calls.rows()}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_of_the_table(name: str) -> None:
    text, shown = CELLS[name]
    table = comparison.totals(results(text, BASE), 4)
    assert row(table, "peer") == [shown]
    assert row(table, "toolcast, sync") == ["100 ms / 102 ms, +4% (1.0x)"]


def test_rows_are_sorted_by_the_list_and_gaps_are_shown() -> None:
    slow, fast = cell("slow", 9.0), cell("fast", 0.01)
    other = cell("slow", 0.001, document="album", pieces=80)
    stopped = cell("stopped", cut={"seconds": 12.0, "share": 0.07})
    table = comparison.totals(results(slow, other, stopped, BASE, fast), 4)
    names = [line.split("|")[1].strip(" *") for line in table.splitlines()[2:]]
    assert names == ["fast", "toolcast, sync", "slow", "stopped"]
    assert row(table, "fast")[1] == "–"


def test_without_toolcast_there_is_no_ratio() -> None:
    assert row(comparison.totals(results(cell("peer", 2.0, 2.0)), 4), "peer") == ["2.00 s / 2.00 s, +0%"]


def test_a_piece_at_each_place_is_read_from_the_curve() -> None:
    linear = [0.01 * hundredth for hundredth in range(1, 101)]
    square = [0.0001 * hundredth**2 for hundredth in range(1, 101)]
    assert comparison.per_piece(cell("peer", 1.0, curve=linear)) == pytest.approx([1e-4] * 3)
    assert comparison.per_piece(cell("peer", 1.0, curve=square)) == pytest.approx([0.5e-4, 1e-4, 1.89e-4])
    stopped = cell("peer", curve=square[:40], cut={"seconds": 12.0, "share": 0.4})
    assert comparison.per_piece(stopped) == [pytest.approx(0.5e-4), None, None]
    table = comparison.places(results(cell("peer", 1.0, curve=square), BASE))
    assert row(table, "peer") == ["50 / 100 / 189 (3.78)"]


def test_the_whole_report_from_json_and_back() -> None:
    calls = [
        {"peer": "toolcast", "client": "toolcast, async", "call": [200.0], "stream": [400.0], "right": True},
        {"peer": "p", "client": "p, async", "call": [900, 800.0], "stream": [4e3], "at_once": [500.0], "right": True},
        {"peer": "p", "client": "p, sync", "call": [], "stream": [], "error": "E: no\n  way"},
    ]
    found = results(
        cell("p", 2.0, curve=[0.02 * hundredth for hundredth in range(1, 101)]),
        BASE,
        versions={"p": {"p": "1.0", "openai": "2.0"}, "openai": {"openai": "3.0"}},
        imports={"p": 1.2345, "not-measured": 0.5},
        kept=[{"peer": "p", "way": "p", "bytes": 22_000_000, "snapshots": 5}],
        calls=calls,
        agents=[
            {"agent": "toolcast, async", "round": [90.0, 99.0], "right": True},
            {"agent": "p", "round": [2_000.0, 1_800.0], "right": False},
            {"agent": "q", "round": [], "error": "E: no rounds"},
        ],
        starts={
            "p": {"pydantic": 0.1, "ready": 1.0, "command": "p --help", "started": [0.5]},
            "toolcast": {"pydantic": 0.1, "ready": 0.2, "command": "", "started": []},
        },
        failures={"q": "ended with 1: no"},
    )
    text = bench_peers.dumped(found)
    assert json.loads(text) == found
    report = "\n\n".join(comparison.report(json.loads(text)))
    assert "openai 3.0, p 1.0, openai below p 2.0;" in report
    assert "| p              |      1,234 |   5 typed |        3 |       22 |" in report
    assert "| not-measured   |        500 |         – |        – |        – |" in report
    assert "| p, async        | 800 (4.0x) | 4,000 (10x) |               500 |             2,000 |" in report
    assert row(comparison.agents(found), "toolcast, async") == ["90 / 94, +10% (1.0x)"]
    assert row(comparison.agents(found), "p: wrong result") == ["1,800 / 1,900, +11% (20x)"]
    assert row(comparison.starts(found), "toolcast") == ["200 (2.0x)", "–"]
    assert row(comparison.starts(found), "p") == ["1,000 (10x)", "`p --help`: 500 (5.0x)"]
    assert "* p, sync: `E: no way`\n* q: `E: no rounds`\n* q: `ended with 1: no`" in report


def test_figures_go_between_the_marks_and_nowhere_else() -> None:
    for begin, end in page.MARKS.values():
        assert page.PAGE.read_text(encoding="utf-8").count(begin) == 1
        assert page.between(f"a {begin} old {end} z", "new", begin, end) == f"a {begin}\n\nnew\n\n{end} z"
        with pytest.raises(ValueError, match="the page has no"):
            page.between("a page", "new", begin, end)


# Goals.


def test_a_goal_is_missed_by_the_median() -> None:
    assert goals.missed_by(2.0, [1.0, 2.5, 9.0], at_least=False) == pytest.approx(0.25)
    assert goals.missed_by(2.0, [1.0, 2.0, 9.0], at_least=False) == 0
    assert goals.missed_by(100.0, [80.0, 90.0, 200.0], at_least=True) == pytest.approx(0.1)
    assert goals.missed_by(100.0, [80.0, 110.0, 200.0], at_least=True) == 0
    assert goals.missed_by(None, [1.0], at_least=False) == 0


def test_the_table_of_goals() -> None:
    pure = [{"list": value, "call, sync": 90.0, "peers, list": 60.0} for value in (2.5, 2.3, 2.76)]
    compiled = [{"list": 1.5, "call, sync": 300.0}]
    table = goals.goals({"pure": pure, "compiled": compiled})
    assert len(table.splitlines()) == len(goals.GOALS) + 2
    name = goals.GOALS["list"].name
    assert row(table, name) == ["≤ 2.3", "≤ 1.6", "2.30 / 2.50, +20%", "1.50 / 1.50, +0%", "pure 9%"]
    name = goals.GOALS["call, sync"].name
    assert row(table, name) == ["≤ 100 us", "≤ 100 us", "90.0 / 90.0, +0%", "300 / 300, +0%", "compiled 200%"]
    name = goals.GOALS["peers, list"].name
    assert row(table, name) == ["–", "≥ 100", "60.0 / 60.0, +0%", "not measured", "–"]


def test_a_round_compares_both_builds_with_the_fastest_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {("toolcast", "pure"): 0.1, ("toolcast", "compiled"): 0.05, ("mirascope", ""): 8.0}
    rounds_of = {("toolcast", "pure"): 50.0, ("toolcast", "compiled"): 40.0, ("langgraph", ""): 800.0}

    def run(name: str, *asked: str, python: str = "") -> Iterator[dict[str, Any]]:
        if (name, python) in seconds:
            yield {"cells": {"way": f"limit of {name}", "document": "40 KB list", "seconds": [0.001]}}
            yield {"cells": {"way": name, "document": "40 KB list", "seconds": [seconds[name, python]]}}
        if (name, python) in rounds_of:
            costs = [rounds_of[name, python], 2 * rounds_of[name, python]]
            yield {"agents": {"agent": f"{name}, async", "round": costs, "right": True}}
        if "starts" in asked:
            yield {"starts": {"started": [0.6 if name == "llm" else 0.1]}}
        if name == "instructor":
            yield {"failures": "ended with 1"}

    monkeypatch.setattr(bench_peers, "run", run)
    monkeypatch.setattr(goals, "_of_build", lambda python, build: {"list": 2.0})
    found = goals.one_round({build: build for build in goals.BUILDS})
    assert {key: round(value, 6) for key, value in found["pure"].items()} == {
        "list": 2.0,
        "peers, list": 80.0,
        "langgraph": 16.0,
        "help": 6.0,
    }
    assert found["compiled"]["peers, list"] == pytest.approx(160)
    assert set(found["compiled"]) <= set(goals.GOALS)


# What goes over the wire.


def test_every_kind_of_event_carries_the_text() -> None:
    pieces = ALBUM.pieces(4)

    def sent(events: list[bytes]) -> Iterator[Any]:
        for line in b"".join(events).decode().splitlines():
            if line.startswith("data: {"):
                yield json.loads(line.removeprefix("data: "))

    blocks = [event["delta"] for event in sent(documents.message_events(pieces, "Album")) if "delta" in event]
    texts = [choice["delta"] for event in sent(documents.text_events(pieces, "")) for choice in event["choices"]]
    assert "".join(block.get("partial_json", "") for block in blocks) == ALBUM.text
    assert "".join(text.get("content", "") for text in texts) == ALBUM.text


def test_message_events_name_their_kind() -> None:
    for event in documents.message_events(["{", "}"], "Album"):
        name, data, *rest = event.decode().split("\n")
        assert json.loads(data.removeprefix("data: "))["type"] == name.removeprefix("event: ")
        assert rest == ["", ""]


def test_the_transport_answers_anew_each_time() -> None:
    wire = common.Wire()
    with httpx.Client(transport=common.transport(httpx, wire)) as client:
        for pieces in ([b"a", b"b"], [b"c"]):
            wire.pieces = pieces
            with client.stream("POST", "http://localhost/") as response:
                assert list(response.iter_raw()) == pieces


@pytest.mark.anyio
async def test_the_transport_answers_async_clients() -> None:
    wire = common.Wire()
    wire.pieces = [b"a", b"b"]
    client = httpx.AsyncClient(transport=common.transport(httpx, wire))
    async with client, client.stream("POST", "http://localhost/") as response:
        assert [piece async for piece in response.aiter_raw()] == wire.pieces


def test_the_library_below_an_sdk_is_found() -> None:
    class DefaultHttpxClient(httpx.Client):
        pass

    assert common.under(DefaultHttpxClient) is httpx


# Rounds.


def way(read: Callable[[Any, Any], Any], **more: Any) -> Any:
    """A way that reads the plain pieces of the text."""
    return common.Way("way", "text", read, lambda pieces, tool: pieces, **more)


def joined(document: Any, wire: Any) -> Callable[[], Iterator[str]]:
    """A reader that does its work."""
    return lambda: iter(["so far", "".join(wire)])


def test_a_measured_way() -> None:
    found = common.measure(way(joined), ALBUM, 4, 2)
    assert len(found["seconds"]) == 2
    assert min(found["seconds"]) > 0
    assert (found["pieces"], found["snapshots"], found["right"]) == (len(ALBUM.pieces(4)), 2, True)
    assert "curve" not in found  # too short a document


def test_a_long_document_has_a_curve_with_a_hundred_places() -> None:
    found = common.measure(way(joined), common.DOCUMENTS["40 KB list"], 16, 1)
    assert len(found["curve"]) == 100
    assert found["curve"] == sorted(found["curve"])


def test_an_async_way_is_read_to_its_end() -> None:
    def start(document: Any, wire: Any) -> Any:
        async def read() -> Any:
            yield "so far"
            yield "".join(wire)

        return read

    found = common.measure(way(start), ALBUM, 4, 1)
    assert (found["snapshots"], found["right"]) == (2, True)


LASTS = {
    "text": (ALBUM.text, True),
    "object": (ALBUM.whole, True),
    "dict": (ALBUM.whole.model_dump(), True),
    "other text": (ALBUM.text[:-1], False),
    "another object": (ALBUM.whole.model_copy(update={"year": 1}), False),
}


@pytest.mark.parametrize("name", LASTS)
def test_the_last_object_is_compared(name: str) -> None:
    last, right = LASTS[name]
    assert common.same(last, ALBUM) is right


def test_a_way_that_fails_says_with_what() -> None:
    def start(document: Any, wire: Any) -> Any:
        raise ValueError("no such thing")

    assert common.measure(way(start), ALBUM, 4, 1) == {"error": "ValueError: no such thing"}


def test_a_way_that_takes_too_long_is_stopped_and_spared_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "BUDGET", 0.0)
    names = ["album", "40 KB list", "40 KB, optional"]
    chosen = [common.DOCUMENTS[name] for name in names]
    text = list(common.cells([way(joined)], chosen, [4], 3))
    assert [cell["document"] for cell in text] == ["album", "40 KB list"]  # the album has no place to be stopped at
    assert text[1]["cut"]["share"] == 0.01
    assert text[1]["seconds"] == []


def test_a_second_way_reads_what_shows_how_it_goes() -> None:
    names = ["album", "essay", "40 KB list"]
    text = common.cells([way(joined, second=True)], [common.DOCUMENTS[name] for name in names], [4, 16], 1)
    assert [(cell["document"], cell["size"]) for cell in text] == [("album", 4), ("40 KB list", 4)]


# One call.


def test_callers_are_measured_whole_and_checked() -> None:
    def sync(url: str) -> Any:
        return calling.Ready(lambda: calling.TEXT, lambda: calling.last(iter(["", calling.TEXT])))

    def asynchronous(url: str) -> Any:
        async def call() -> Any:
            return calling.Person.model_validate_json(calling.TEXT)

        async def items() -> Any:
            yield calling.Person(name="Ada", age=1, city="")

        return calling.Ready(call, lambda: calling.alast(items()))

    def broken(url: str) -> Any:
        raise ValueError(url.rpartition(":")[2].partition("/")[2])

    callers = [calling.Caller("a, sync", sync), calling.Caller("a, async", asynchronous)]
    good, wrong, failed = calling.costs([*callers, calling.Caller("b, sync", broken, "tool/v1")])
    assert {key: len(value) for key, value in good.items() if isinstance(value, list)} == {"call": 3, "stream": 3}
    assert (good["right"], wrong["right"], len(wrong["at_once"])) == (True, False, 3)
    assert failed["error"] == "ValueError: tool/v1"


# Rounds of an agent.


def test_agents_are_measured_whole_and_checked() -> None:
    def agent(count: int) -> Callable[[], Any]:
        async def turn() -> str:
            for _ in range(count):
                await rounds.add(2, 40)
            return str(rounds.DONE)

        return turn

    def sync() -> Callable[[], Any]:
        return lambda: rounds.results.extend([42] * rounds.COUNT) or rounds.DONE

    def broken() -> Callable[[], Any]:
        raise ValueError("no agent")

    makes = {"a": lambda: agent(rounds.COUNT), "short": lambda: agent(1), "sync": sync, "broken": broken}
    good, short, other, failed = rounds.costs([rounds.Agent(name, make) for name, make in makes.items()])
    assert (good["right"], short["right"], other["right"]) == (True, False, True)
    assert len(good["round"]) == rounds.ROUNDS
    assert failed["error"] == "ValueError: no agent"


# The command.


def test_every_peer_names_its_packages_or_is_toolcast() -> None:
    bare = [name for name in bench_peers.SCRIPTS if bench_peers.python_of(name) == bench_peers.sys.executable]
    assert bare == ["toolcast"]
    streaming = {"instructor", "pydantic-ai", "openai", "anthropic", "mirascope", "llama-index", "langchain", "litellm"}
    assert {*streaming, "baml", "langgraph", "openai-agents", "llm"} <= {*bench_peers.SCRIPTS}


def test_a_peer_that_cannot_run_is_a_failure_and_no_exception(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench_peers, "ENVIRONMENTS", tmp_path)
    (text,) = bench_peers.run("toolcast", "--sizes", "none")
    assert text["failures"].startswith("ended with 2: ")
    assert "invalid int value" in text["failures"]


def test_snapshots_are_kept_in_a_run_of_their_own_where_that_takes_no_age() -> None:
    cells = [cell("fast", 1.0), cell("slow", 99.0), cell("cut"), cell("raw", 1.0, gives="chunks")]
    found = results(*({**text, "peer": "p"} for text in cells))
    assert bench_peers.keepers(found, "p") == ["fast"]


@pytest.mark.parametrize("arguments", [[], ["--write"]])
def test_the_page_is_written_only_where_that_is_asked_for(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, process: Process, tmp_path: Path
) -> None:
    written: list[str] = []
    process.argv("bench", *arguments)
    for module in (bench, bench_peers, goals):
        monkeypatch.setattr(module, "write", lambda figures, part="bench": written.append(part))
        monkeypatch.setattr(module, "report", lambda *results: iter(["a table"]))
    monkeypatch.setattr(bench_peers, "collect", lambda *wanted: results())
    monkeypatch.setattr(bench_peers, "RESULTS", tmp_path / "peers.json")
    bench.main()
    bench_peers.main()
    process.argv("goals", "--compiled", "python", "--rounds", "1", *arguments)
    monkeypatch.setattr(goals, "one_round", lambda pythons: {"pure": {}, "compiled": {}})
    goals.main()
    assert written == (["bench", "bench-peers", "goals"] if arguments else [])
    assert (tmp_path / "peers.json").exists() == bool(arguments)
