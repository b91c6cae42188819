"""The goals, and what is reached: `nox -s goals`, which makes the environments; with `--write` written into the page.

Three rounds of everything, in turn: the pure build, the build with compiled modules, and the other libraries that a
goal names. Each goal is a ratio, or a difference, of figures that one round took next to one another, so a machine
that is slower in one round than in the next moves both. The median of the rounds is compared with the goal. Takes less
than twelve minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import bench_peers
import calls
import httpx
import turns
from bench import MODULES
from canned import CHUNKS, serving
from documents import (
    Document,
    album,
    chat_events,
    essay,
    keys,
    levels,
    markdown,
    minutes,
    numbers,
    orders,
    tiny,
)
from measure import Figures, Row, compare, held, ready_times
from page import circumstances, summary, table, write
from peers.common import LIST
from rows import ASYNC, GROW, LIMIT, ONCE, SYNC, split_events, stream

from toolcast import OpenAI, ToolOrchestratingLLM, __compiled__
from toolcast.llms import HttpxNetwork

ROUNDS = 3
HERE = Path(__file__)

Measured = dict[str, float]

STREAMED = 150 + 5 * CHUNKS
"""Microseconds that a streamed call may take above the raw client."""


@dataclass(frozen=True)
class Goal:
    """One line of the table: the goals for both builds, None where there is none.

    What is measured must be at most the goal, or `at_least` it. `unit`: "x" for a ratio, otherwise of a difference.
    """

    name: str
    pure: float | None
    compiled: float | None
    unit: str = "x"
    at_least: bool = False


GOALS = {
    "list": Goal("40 KB list, 4 characters a piece, in times the SSE limit", 2.3, 1.6),
    "list, 16": Goal("the same, 16 characters", 4.9, 3.3),
    "minutes": Goal("minutes, 30 KB, unions and datetimes", 3.2, 2.0),
    "album": Goal("album, 300 B", 3.6, 3.0),
    "ints": Goal("5,000 ints, 16 characters", 8, 5.5),
    "Markdown": Goal("100 KB of Markdown with emoji", 2.6, 1.8),
    "long Markdown": Goal("a piece of 1 MB of the same, in times one of 100 KB", 1.2, 1.2),
    "depth": Goal("180 levels, in times 30 levels, each in times its limit", 1.3, 1.3),
    "growth": Goal("40 KB list: a piece at 100 %, in times one at 25 %", 1.15, 1.15),
    "async": Goal("40 KB list: async, in times sync", 1.15, 1.15),
    "one event": Goal("40 KB list in one event, in times one validation", 3, 3),
    "tiny": Goal("31 B over httpx, in times raw httpx and the SSE limit", 1.5, 1.5),
    "keys": Goal("200,000 keys in one event, in times one validation", 2, 2),
    "keys, 16": Goal("the same, 16 characters a piece", 10, 10),
    "memory, list": Goal("40 KB list: peak memory, in times the last snapshot and the object", 1.25, 1.25),
    "memory, essay": Goal("essay: the same", 1.25, 1.25),
    "peers, list": Goal("40 KB list: the fastest framework, in times toolcast", None, 100, at_least=True),
    "peers, album": Goal("album: the same", None, 10, at_least=True),
    "aiohttp": Goal("100 calls at once over aiohttp: raw aiohttp, in times toolcast", 0.65, 0.65, at_least=True),
    "httpx": Goal("100 calls at once: over httpx, in times aiohttp", 2.5, 2.5),
    "call, sync": Goal("a call above raw httpx, sync", 100, 100, "us"),
    "call, async": Goal("a call above raw httpx, async", 100, 100, "us"),
    "call, aiohttp": Goal("a call above raw aiohttp", 100, 100, "us"),
    "stream, sync": Goal(f"a streamed call of {CHUNKS} events above raw httpx, sync", STREAMED, STREAMED, "us"),
    "stream, async": Goal("the same, async", STREAMED, STREAMED, "us"),
    "stream, aiohttp": Goal("the same above raw aiohttp", STREAMED, STREAMED, "us"),
    "round": Goal("a round of an agent with one tool above its parts", 40, 40, "us"),
    "langgraph": Goal("a round of langgraph, in times toolcast's", 15, 15, at_least=True),
    "pydantic-ai": Goal("a round of pydantic-ai, in times toolcast's", 36, 36, at_least=True),
    "openai-agents": Goal("a round of openai-agents, in times toolcast's", 56, 56, at_least=True),
    "import": Goal("`import toolcast` above bare Python", 10, 10, "ms"),
    "ready": Goal("a ready orchestrator, in times `import pydantic`", 2, 2),
    "help": Goal("`llm --help`, in times `toolcast --help`", None, None, at_least=True),
}
"""The goals, by a short name for what is measured."""

FRAMEWORKS = {"pydantic-ai": ["album", LIST], "mirascope": ["album", LIST], "instructor": ["album"]}
"""The frameworks that are the fastest, and the documents for which they may be."""

AGENTS = ("langgraph", "pydantic-ai", "openai-agents")
BUILDS = ("pure", "compiled")


def main() -> None:
    """Measure, print, write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--compiled", metavar="PYTHON", help="an interpreter with the compiled build")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--write", action="store_true", help="write the table into docs/explanation/performance.md")
    options.add_argument(
        "--one-round", action="store_true", help="print what one round of this build measures, as JSON"
    )
    wanted = options.parse_args()
    if wanted.one_round:
        logging.getLogger("toolcast").setLevel(logging.ERROR)  # it warns of schemas that cannot be strict
        print(json.dumps({"compiled": __compiled__, "measured": dict(measures())}))
        return
    pythons = {"pure": sys.executable, "compiled": wanted.compiled or options.error("--compiled is missing")}
    found: dict[str, list[Measured]] = {build: [] for build in BUILDS}
    for number in range(wanted.rounds):
        print(f"round {number + 1}", file=sys.stderr, flush=True)
        for build, measured in one_round(pythons).items():
            found[build].append(measured)
    figures = "\n\n".join(report(found))
    print(figures)
    if wanted.write:
        write(figures, "goals")


# ---- the table


def report(found: dict[str, list[Measured]]) -> Iterator[str]:
    """The circumstances, and the table."""
    yield circumstances(len(found["pure"]))
    yield (
        "Of each goal the least, the median and the spread of the rounds (how much more the worst took than the best); "
        "*missed by*: what the median lacks."
    )
    yield goals(found)


def goals(found: dict[str, list[Measured]]) -> str:
    """Every goal, for both builds."""
    head = ["", "goal, pure", "goal, compiled", "reached, pure", "reached, compiled", "missed by"]
    return table(head, [_line(key, goal, found) for key, goal in GOALS.items()])


def _line(key: str, goal: Goal, found: dict[str, list[Measured]]) -> list[str]:
    wanted = {"pure": goal.pure, "compiled": goal.compiled}
    values = {build: [measured[key] for measured in rounds if key in measured] for build, rounds in found.items()}
    missed = {build: missed_by(wanted[build], seen, at_least=goal.at_least) for build, seen in values.items() if seen}
    shown = ", ".join(f"{build} {share:.0%}" for build, share in missed.items() if share > 0)
    wished = [_goal(goal, wanted[build]) for build in BUILDS]
    return [goal.name, *wished, *(_seen(values[build]) for build in BUILDS), shown or "–"]


def missed_by(goal: float | None, seen: Sequence[float], *, at_least: bool) -> float:
    """The share of the goal by which the median of what was seen misses it; 0 where it does not."""
    if goal is None:
        return 0.0
    middle = median(seen)
    return max(0.0, (goal - middle if at_least else middle - goal) / goal)


def _goal(goal: Goal, wanted: float | None) -> str:
    if wanted is None:
        return "–"
    return f"{'≥' if goal.at_least else '≤'} {wanted:g}{'' if goal.unit == 'x' else f' {goal.unit}'}"


def _seen(values: Sequence[float]) -> str:
    return summary(values, _digits) if values else "not measured"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


# ---- one round of everything


def one_round(pythons: dict[str, str]) -> dict[str, Measured]:
    """What both builds reach, with the other libraries between them."""
    found = {build: _of_build(python, build) for build, python in pythons.items()}
    streams, agents, starts = {}, {}, {}
    for build, python in pythons.items():
        streams[build], agents[build], starts[build] = _of_peer("toolcast", ["album", LIST], python)
    others = {
        name: _of_peer(name, FRAMEWORKS.get(name, [])) for name in {**FRAMEWORKS, **dict.fromkeys((*AGENTS, "llm"))}
    }
    for build, measured in found.items():
        for key, document in (("peers, album", "album"), ("peers, list", LIST)):
            fastest = min((each[0][document] for each in others.values() if document in each[0]), default=None)
            if fastest is not None:
                measured[key] = fastest / streams[build][document]
        for name in AGENTS:
            if others[name][1]:
                measured[name] = min(others[name][1].values()) / agents[build]["toolcast, async"]
        if others["llm"][2]:
            measured["help"] = others["llm"][2]["started"][0] / starts[build]["started"][0]
    return found


def _of_build(python: str, build: str) -> Measured:
    """What one round of a build measures, in a process of its own."""
    text = subprocess.check_output([python, str(HERE), "--one-round"], text=True)
    found = json.loads(text)
    if found["compiled"] != (build == "compiled"):
        raise ValueError(f"{python} does not have the {build} build")
    return dict(found["measured"])


def _of_peer(name: str, documents: list[str], python: str = "") -> tuple[Measured, Measured, dict[str, Any]]:
    """Seconds for each document, microseconds for a round of each agent, start-up; of a library in its environment."""
    parts = ["cells"] if documents else []
    parts += ["agents"] if name in ("toolcast", *AGENTS) else []
    parts += ["starts"] if name in ("toolcast", "llm") else []
    asked = ["--parts", *parts, "--documents", *documents, "--sizes", "4", "--rounds", "1"]
    streams: Measured = {}
    agents: Measured = {}
    starts: dict[str, Any] = {}
    for found in bench_peers.run(name, *asked, python=python):
        match found:
            case {"cells": {"seconds": [seconds], "way": way, "document": document}} if not way.startswith("limit"):
                streams[document] = min(seconds, streams.get(document, seconds))
            case {"agents": {"agent": agent, "round": [_, *_] as rounds, "right": True}}:
                agents[agent] = min(rounds)
            case {"starts": started}:
                starts = started
            case {"failures": failure}:
                print(f"{name}: {failure}", file=sys.stderr, flush=True)
    return streams, agents, starts


# ---- one round of one build


def measures() -> Iterator[tuple[str, float]]:
    """What is measured, by the short name of its goal."""
    yield from _streams()
    yield from _one_event()
    yield "tiny", _tiny()
    for document in (orders(200, LIST), essay()):
        yield f"memory, {'list' if document.name == LIST else 'essay'}", _memory(document)
    yield from _calls()
    above, _ = turns.measured(3)["a round with one tool, `submit`"]
    yield "round", above
    pydantic, ready, imported = ready_times([*(MODULES[name] for name in READY)], 5)
    yield "import", imported * 1e3
    yield "ready", ready / pydantic


READY = ("`import pydantic`", "an orchestrator with `OpenAI(...)`, ready to be called", "`import toolcast`")


def _streams() -> Iterator[tuple[str, float]]:
    by_four = compare((LIMIT, SYNC, ASYNC), orders(200, LIST), 4, 3)
    yield "list", _times(by_four)
    yield "growth", by_four[SYNC].growth
    yield "async", by_four[ASYNC].least / by_four[SYNC].least
    for key, document, size in (
        ("list, 16", orders(200, LIST), 16),
        ("minutes", minutes(), 4),
        ("album", album(), 4),
        ("ints", numbers(5_000), 16),
    ):
        yield key, _times(compare((LIMIT, SYNC), document, size, 3))
    short, long = markdown(100_000, "100 KB"), markdown(1_000_000, "1 MB")
    page = compare((LIMIT, SYNC), short, 4, 2)
    yield "Markdown", _times(page)
    yield (
        "long Markdown",
        compare((SYNC,), long, 4, 1)[SYNC].least / page[SYNC].least * len(short.text) / len(long.text),
    )
    shallow, deep = (_times(compare((LIMIT, SYNC), levels(depth), 4, 3)) for depth in (30, 180))
    yield "depth", deep / shallow


def _one_event() -> Iterator[tuple[str, float]]:
    words = keys(200_000)
    for key, document in (("one event", orders(200, LIST)), ("keys", words)):
        found = compare((ONCE, SYNC), document, len(document.text), 3)
        yield key, found[SYNC].least / found[ONCE].least
    many = compare((ONCE, SYNC), words, 16, 1)
    yield "keys, 16", many[SYNC].least / many[ONCE].least


def _times(found: dict[Row, Figures]) -> float:
    """The public stream, in times the limit."""
    return found[SYNC].least / found[LIMIT].least


def _tiny() -> float:
    """A whole stream of the smallest document, beside the same bytes read with bare httpx, each payload decoded."""
    document = tiny()
    events = chat_events(document.pieces(4), document.type.__name__)
    transport = httpx.MockTransport(lambda request: httpx.Response(200, headers=HEADERS, stream=_Body(events)))
    client = httpx.Client(transport=transport)
    llm = OpenAI("gpt-4o-mini", api_key="none", base_url="http://localhost/v1", network=HttpxNetwork(client))
    make = ToolOrchestratingLLM(document.type, "Make one.", llm)
    request = make.preview().request
    assert request is not None
    headers = calls.plain_headers(request)

    def raw() -> None:
        with client.stream("POST", request.url, content=request.body, headers=headers) as response:
            split_events(document, response.iter_raw())()

    def ours() -> None:
        make.stream().final()

    found = {work: min(calls.timed(work) for _ in range(10)) for work in (raw, ours)}
    return found[ours] / found[raw]


HEADERS = {"content-type": "text/event-stream"}


class _Body(httpx.SyncByteStream):
    def __init__(self, events: list[bytes]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._events)


def _memory(document: Document) -> float:
    """The peak of the public stream, in times what must be there at its end: the last snapshot and the object."""
    pieces = document.pieces(4)
    read = stream(document, chat_events(pieces, document.type.__name__))
    read()
    peak, _ = held(stream(document, chat_events(pieces, document.type.__name__)))
    kept = [held(work)[1] for work in (GROW.prepare(document, pieces), ONCE.prepare(document, [document.text]))]
    return peak / sum(kept)


def _calls() -> Iterator[tuple[str, float]]:
    with serving() as url, asyncio.Runner() as runner:
        names = {row.name: row for row in calls.rows()}
        compared = [names[name] for name in COMPARED]
        found = {row.name: costs for row, costs in calls.costs(compared, url, runner, rounds=2).items()}
    at_once = {name: min(costs.at_once) for name, costs in found.items() if costs.at_once}
    yield "aiohttp", at_once["raw aiohttp"] / at_once["toolcast, aiohttp"]
    yield "httpx", at_once["toolcast, async"] / at_once["toolcast, aiohttp"]
    for key in ("sync", "async", "aiohttp"):
        ours, raw = found[f"toolcast, {key}"], found["raw aiohttp" if key == "aiohttp" else f"raw httpx, {key}"]
        yield f"call, {key}", (min(ours.call) - min(raw.call)) * 1e6
        yield f"stream, {key}", (min(ours.stream) - min(raw.stream)) * 1e6


COMPARED = (
    *("raw httpx, sync", "toolcast, sync", "raw httpx, async", "toolcast, async"),
    *("raw aiohttp", "toolcast, aiohttp"),
)

if __name__ == "__main__":
    main()
