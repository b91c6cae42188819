"""toolcast itself, over the same transport as its peers, and the limits that nothing can beat.

Measured in the environment of the command, which has the project as it is here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx
from calls import rows
from documents import Document, chat_events
from measure import Row
from peers.calling import Caller
from peers.common import BASE_URL, Peer, Way, Wire, main, same, transport
from peers.rounds import ARGUMENTS, COUNT, DONE, Agent, add, results
from rows import ROWS
from turns import calling

from toolcast import CallableTool, Engine, OpenAI, ToolCallPart, ToolOrchestratingLLM
from toolcast.llms import HttpxNetwork


def orchestrator(document: Document, wire: Wire) -> ToolOrchestratingLLM[Any]:
    """What makes the document's object, answered with what is on the wire."""
    over = transport(httpx, wire)
    network = HttpxNetwork(httpx.Client(transport=over), httpx.AsyncClient(transport=over))
    llm = OpenAI("gpt-4o-mini", api_key="none", base_url=BASE_URL, network=network)
    return ToolOrchestratingLLM(document.type, prompt="Make one.", llm=llm)


def stream(document: Document, wire: Wire) -> Callable[[], Iterator[Any]]:
    """A typed snapshot for each chunk that changes something, then the object."""
    return orchestrator(document, wire).stream


def astream(document: Document, wire: Wire) -> Callable[[], AsyncIterator[Any]]:
    """The same, async."""
    return orchestrator(document, wire).astream


def limit(row: Row) -> Way:
    """One of the limits of the quick benchmark: nothing is seen but the end."""

    def start(document: Document, wire: Wire) -> Callable[[], Iterator[Any]]:
        read = row.prepare(document, wire)
        return lambda: iter([read()])

    if row.from_wire:
        return Way(row.name, "payloads", start, chat_events, right=lambda last, document: "usage" in last)
    return Way(row.name, "the end", start, lambda pieces, tool: pieces, right=same)


def engine(tool: CallableTool) -> Engine:
    """An engine whose model calls the tool `COUNT` times."""
    calls = [ToolCallPart(f"call_{number}", "add", ARGUMENTS) for number in range(COUNT)]
    return Engine(calling(calls, DONE), [tool], max_rounds=COUNT + 1)


def submit() -> Callable[[], str]:
    """One turn, with a sync tool."""
    sums = results

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        sums.append(a + b)
        return a + b

    tool = CallableTool.from_function(add)
    return lambda: engine(tool).submit("Count.").text


def asubmit() -> Callable[[], Awaitable[str]]:
    """One turn."""
    tool = CallableTool.from_function(add)

    async def turn() -> str:
        return (await engine(tool).asubmit("Count.")).text

    return turn


PACKAGES = ("toolcast", "pydantic", "jiter", "httpx", "httpx2", "aiohttp")
READY = "import toolcast; toolcast.ToolOrchestratingLLM(int, 'A number', toolcast.OpenAI('m', api_key='none'))"
LIMITS = [limit(row) for row in ROWS if row.name.startswith("limit")]
WAYS = (Way("toolcast, sync", "typed", stream), Way("toolcast, async", "typed", astream), *LIMITS)
CALLERS = tuple(Caller(row.name, row.make, path="") for row in rows())
AGENTS = (Agent("toolcast, sync", submit), Agent("toolcast, async", asubmit))

if __name__ == "__main__":
    main(Peer("toolcast", PACKAGES, READY, WAYS, CALLERS, AGENTS, "toolcast --help"))
