"""What every peer is measured with: a wire in memory, the measuring loop, the check of the last object.

A peer's script names its packages, how it is made ready, and the public paths on which it reads a stream; `main`
measures them all, one after the other, in the environment that has this one peer, pinned to one core. What it found
goes to stdout, one JSON object a line; what the peer prints goes to stderr.

A path is made once and then reads a small document of the same type before the measured ones, so nothing is measured
that happens only once. A run is stopped when it has used up its CPU time, and the path is then spared longer documents:
what parses everything anew with each piece would take hours for them.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from time import process_time
from types import ModuleType
from typing import Any

from documents import Document, Essay, LooseOrders, Orders, album, chat_events, essay, orders
from measure import Marked, import_time, ready_times
from peers.calling import Caller, costs
from peers.rounds import Agent, costs as agent_costs
from pydantic import BaseModel

LIST = "40 KB list"
DOCUMENTS = {
    document.name: document
    for document in (
        album(),
        orders(20, "4 KB list"),
        orders(200, LIST),
        orders(200, "40 KB, optional", LooseOrders),
        essay(),
        orders(2_000, "400 KB list"),
        orders(5_000, "1 MB list"),
    )
}
SIZES = (4, 16)
ROUNDS = 3
STARTS = 5
PARTS = ("versions", "imports", "starts", "cells", "calls", "agents")
PATIENCE = 4.0
"""Seconds of CPU; a way that needs more for a document is measured once, but for the 40 KB list in small pieces."""
BUDGET, SHORT_BUDGET = 150.0, 8.0
"""Seconds of CPU after which a run is stopped, for documents up to 50 KB and for longer ones."""
BASE_URL = "http://localhost/v1"

_ENOUGH = 2_000  # pieces in one measurement: a short document is read several times
_WARM = {Orders: orders(2, "warm"), LooseOrders: orders(2, "warm", LooseOrders), Essay: essay(400)}
_HUNDREDTHS = 100

Read = Callable[[], Iterable[Any] | AsyncIterator[Any]]
Start = Callable[[Document, "Wire"], Read]


class Wire:
    """What the next request is answered with: the events of one document."""

    pieces: Iterable[Any] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.pieces)


def same(last: Any, document: Document) -> bool:
    """Whether the last object that a path gave is the whole document, typed, as a dict, or as text."""
    if isinstance(last, str):
        return last == document.text
    if isinstance(last, BaseModel):
        last = last.model_dump(mode="json")
    return document.type.model_validate(last) == document.whole


@dataclass(frozen=True)
class Way:
    """One public path of a peer on which a stream is read.

    `start` makes, outside the measured time, what calls the service and asks for an object of the document's type.
    What it returns calls once and gives, item by item, what the reader of the stream would see (`gives`), the whole
    object last.
    """

    name: str
    gives: str
    start: Start
    events: Callable[[list[str], str], list[Any]] = chat_events
    tool: str = ""  # the name of the type, unless the peer has one of its own
    right: Callable[[Any, Document], bool] = same
    second: bool = False  # another way of a slow peer: reads the album and the lists up to 40 KB, that one once

    def answer(self, document: Document, size: int) -> Sequence[Any]:
        """The document as events."""
        return self.events(document.pieces(size), self.tool or document.type.__name__)


@dataclass(frozen=True)
class Peer:
    """A library to compare with: its packages, the statements that make it ready to be called, its ways."""

    name: str
    packages: tuple[str, ...]
    ready: str
    ways: tuple[Way, ...] = ()
    callers: tuple[Caller, ...] = ()
    agents: tuple[Agent, ...] = ()
    command: str = ""  # a command that it installs, with the arguments that it is started with


def transport(http: ModuleType, wire: Wire) -> Any:
    """A transport for httpx, or its successor httpx2, that answers with what is on the wire, sync and async."""

    class Body(http.SyncByteStream, http.AsyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            return iter(wire)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for piece in wire:
                yield piece

    headers = {"content-type": "text/event-stream"}
    return http.MockTransport(lambda request: http.Response(200, headers=headers, stream=Body()))


def under(client: type) -> ModuleType:
    """The HTTP library, httpx or httpx2, whose client an SDK's `DefaultHttpxClient` is."""
    base = next(base for base in client.__mro__ if base.__name__ == "Client")
    return import_module(base.__module__.partition(".")[0])


def openai_client(wire: Wire, kind: str = "OpenAI") -> Any:
    """An `openai.OpenAI` (or `AsyncOpenAI`) that is answered with what is on the wire."""
    openai = import_module("openai")
    http = under(openai.DefaultHttpxClient)
    client = http.AsyncClient if kind.startswith("Async") else http.Client
    return getattr(openai, kind)(
        api_key="none", base_url=BASE_URL, http_client=client(transport=transport(http, wire)), max_retries=0
    )


def main(peer: Peer) -> None:
    """Measure what the command line names and print it, JSON, one line each."""
    options = argparse.ArgumentParser(description=f"Measure {peer.name}.")
    options.add_argument("--documents", nargs="*", choices=DOCUMENTS, default=list(DOCUMENTS))
    options.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    options.add_argument("--keep", metavar="WAY", help="only the memory of all snapshots of this way, all kept")
    wanted = options.parse_args()
    emit = partial(print, file=os.fdopen(os.dup(1), "w"), flush=True)
    os.dup2(2, 1)
    pin()
    if wanted.keep:
        way = next(way for way in peer.ways if way.name == wanted.keep)
        emit(json.dumps({"kept": {"way": way.name, **kept(way)}}))
        return
    documents = [document for name, document in DOCUMENTS.items() if name in wanted.documents]
    ways: dict[str, Callable[[], Iterable[Any]]] = {
        "versions": lambda: [{name: version(name) for name in peer.packages}],
        "imports": lambda: [import_time(peer.ready, ROUNDS)],
        "starts": lambda: [starts(peer)],
        "cells": lambda: cells(peer.ways, documents, wanted.sizes, wanted.rounds),
        "calls": lambda: costs(peer.callers),
        "agents": lambda: agent_costs(peer.agents),
    }
    for part in wanted.parts:
        for found in ways[part]():
            emit(json.dumps({part: found}))


def starts(peer: Peer) -> dict[str, Any]:
    """The CPU seconds of fresh processes: Pydantic alone, the peer ready to be called, and its command."""
    name, *arguments = peer.command.split() or [""]
    command = [[str(Path(sys.executable).with_name(name)), *arguments]] if name else []
    pydantic, ready, *started = ready_times(["import pydantic; pydantic.BaseModel", peer.ready, *command], STARTS)
    return {"pydantic": pydantic, "ready": ready, "command": peer.command, "started": started}


def pin() -> None:
    """Keep this process, and those it starts, on one core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def cells(
    ways: Sequence[Way], documents: Sequence[Document], sizes: Sequence[int], rounds: int
) -> Iterator[dict[str, Any]]:
    """Every way through every document in pieces of every size, short documents first."""
    spared: dict[str, int] = {}
    for size in sizes:
        for document in documents:
            for way in ways:
                if len(document.text) >= spared.get(way.name, sys.maxsize) or not _asked(way, document, size):
                    continue
                cell = measure(way, document, size, rounds)
                if "cut" in cell:
                    spared[way.name] = len(document.text)
                yield {"way": way.name, "gives": way.gives, "document": document.name, "size": size, **cell}


def _asked(way: Way, document: Document, size: int) -> bool:
    """Whether the way reads the document: of a second way, only what shows how it goes."""
    return not way.second or (size == min(SIZES) and document.name in ("album", "4 KB list", LIST))


def measure(way: Way, document: Document, size: int, rounds: int) -> dict[str, Any]:
    """One way through one document: seconds of each round, and what else was seen."""
    patient = (document.name, size) == (LIST, min(SIZES)) and not way.second
    found: dict[str, Any] = {"pieces": len(document.pieces(size)), "seconds": [], "curves": []}
    try:
        wire, read = warmed(way, document, size)
    except Exception as problem:
        return {"error": _describe(problem)}
    before = forget_peak()
    while len(found["seconds"]) < rounds:
        _round(read, wire, (way, document, way.answer(document, size)), found)
        found.setdefault("peak", max(peak_resident() - before, 0))
        if "cut" in found or "error" in found or (found["seconds"][-1] > PATIENCE and not patient):
            break
    curves = found.pop("curves")
    if curves and len(curves[0]) > 1:
        found["curve"] = [round(min(at), 6) for at in zip(*curves, strict=True)]
    return found


def warmed(way: Way, document: Document, size: int) -> tuple[Wire, Read]:
    """The way, ready for the document, after it has read a small one of the same type."""
    wire = Wire()
    read = way.start(document, wire)
    wire.pieces = way.answer(_WARM.get(document.type, document), size)
    consume(read)
    return wire, read


def _round(read: Read, wire: Wire, task: tuple[Way, Document, Sequence[Any]], found: dict[str, Any]) -> None:
    """One measurement, with its seconds, its curve, or why there are none, added to `found`."""
    way, document, events = task
    stops = range(1, _HUNDREDTHS if len(events) > _ENOUGH else 1)  # a stop costs as much as some pieces
    places = [len(events) * stop // _HUNDREDTHS for stop in stops]
    budget = BUDGET if len(document.text) < 50_000 else SHORT_BUDGET
    times: list[float] = []
    count = _ENOUGH // len(events) or 1
    gc.collect()
    begun = process_time()
    try:
        for _ in range(count):
            wire.pieces = marked = Marked(events, places, process_time() + budget)
            start = process_time()
            last, snapshots = consume(read)
            times = [time - start for time in (*marked.times, process_time())]
    except BaseException as problem:
        if marked.times and marked.times[-1] > marked.deadline:
            reached = [time - start for time in marked.times]
            found["cut"] = {"seconds": round(reached[-1], 3), "share": len(reached) / _HUNDREDTHS}
            found["curves"] = [reached]
        elif isinstance(problem, Exception):
            found["error"] = _describe(problem)
        else:
            raise
        return
    found["seconds"].append(round((process_time() - begun) / count, 9))
    found["curves"].append(times)
    found |= {"snapshots": snapshots, "right": way.right(last, document)}


def consume(read: Read) -> tuple[Any, int]:
    """The last item, and how many there were."""
    items = read()
    if hasattr(items, "__aiter__"):
        return _runner.run(_aconsume(items))
    last, count = None, 0
    for item in items:
        last = item
        count += 1
    return last, count


async def _aconsume(items: AsyncIterator[Any]) -> tuple[Any, int]:
    last, count = None, 0
    async for item in items:
        last = item
        count += 1
    return last, count


def kept(way: Way) -> dict[str, Any]:
    """How many bytes the process grows by when all snapshots of the 40 KB list are kept."""
    document = DOCUMENTS[LIST]
    wire, read = warmed(way, document, min(SIZES))
    wire.pieces = way.answer(document, min(SIZES))
    before = forget_peak()
    items: list[Any] = []
    consume(lambda: _noting(read(), items))
    gc.collect()
    return {"bytes": resident() - before, "snapshots": len(items)}


def _noting(items: Any, seen: list[Any]) -> Any:
    """The same items, each also put into `seen`."""
    if not hasattr(items, "__aiter__"):
        return (seen.append(item) or item for item in items)

    async def noting() -> AsyncIterator[Any]:
        async for item in items:
            seen.append(item)
            yield item

    return noting()


def resident() -> int:
    """Bytes of memory that the process has allocated now; 0 where the system does not report it."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def forget_peak() -> int:
    """The same, after what is free was given back; the most that it held is counted anew from here."""
    gc.collect()
    with suppress(OSError, AttributeError, TypeError):  # what only Linux has, and glibc
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    return resident()


def peak_resident() -> int:
    """The peak since then; 0 where the system does not report it."""
    with suppress(OSError):
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    return 0


def _describe(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}"[:300]


_runner = asyncio.Runner()
