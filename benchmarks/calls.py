"""The cost of one call: CPU time of the client's process, against a canned server on another core.

`python benchmarks/calls.py` prints the tables, in less than a minute. A call is compared with the same request made
with the bare HTTP client that toolcast uses, in the same run: what toolcast adds is the message. The rows "Network"
measure toolcast's `Network` alone, bytes in and bytes out. The rows "by hand" are a floor: from the prompt's field to
the object, and to each snapshot that differs from the last, with jiter and pydantic and nothing of toolcast, so without
retries, time limits, hooks, reports, nested types and other providers. All rows in turn, the least of several rounds.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from inspect import isawaitable
from time import perf_counter, process_time
from typing import Any, get_type_hints

from canned import CHUNKS, Person, serving
from jiter import from_json
from page import summary, table
from pydantic import TypeAdapter
from typing_extensions import TypedDict

import toolcast
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.llms import HttpxNetwork
from toolcast.values.http_request import HTTPRequest

ROUNDS = 3
COUNT = 60
"""Calls in a row, in one round."""

AT_ONCE = 100
EACH = 5
"""Calls at once, and how many each of them makes one after the other."""

LEVELS = (1, 10, 100, 1_000)
"""Calls at once, for the table of latencies."""

STREAMS = 1_000
HELD = ("raw httpx, async", "toolcast, async", "raw aiohttp", "toolcast, aiohttp")

Work = Callable[[], Any]


@dataclass(frozen=True)
class Client:
    """One client, ready. `call` and `stream` make one request and read it to its end.

    `hold` opens a stream, reads the half of it that comes, and gives what must be kept so that it stays open. For an
    async client they are coroutine functions.
    """

    call: Work
    stream: Work
    close: Work
    hold: Work | None = None


@dataclass(frozen=True)
class Row:
    """One line of the tables. `raw` is the name of the HTTP client that it uses."""

    name: str
    make: Callable[[str], Client]
    raw: str = ""


@dataclass
class Costs:
    """Seconds a call, one entry for each round."""

    call: list[float] = field(default_factory=list)
    stream: list[float] = field(default_factory=list)
    at_once: list[float] = field(default_factory=list)


# ---- the requests, which are the same for all


def _request(url: str, stream: bool, path: str = "Person/v1") -> HTTPRequest:
    """What toolcast sends."""
    preview = _orchestrator(url, None, path).preview(place="London").request
    assert preview is not None
    body = json.dumps({**json.loads(preview.body), "stream": stream}, separators=(",", ":")).encode()
    return HTTPRequest(preview.method, preview.url, preview.headers, body)


def plain_headers(request: HTTPRequest) -> dict[str, str]:
    return {name: value if isinstance(value, str) else value.reveal() for name, value in request.headers.items()}


def _orchestrator(url: str, network: Any, path: str = "Person/v1") -> ToolOrchestratingLLM[Person]:
    llm = OpenAI("gpt-5.4", api_key="none", base_url=f"{url}/{path}", network=network)
    return ToolOrchestratingLLM(Person, "Someone who lived in {place}", llm)


# ---- the clients


def raw_sync(library: str, url: str) -> Client:
    """httpx or its fork, as it is."""
    client = importlib.import_module(library).Client()
    whole, streamed = _request(url, False), _request(url, True)
    headers = plain_headers(whole)

    def call() -> bytes:
        return bytes(client.post(whole.url, content=whole.body, headers=headers).content)

    def stream() -> int:
        with client.stream("POST", streamed.url, content=streamed.body, headers=headers) as response:
            return sum(1 for _ in response.iter_raw())

    return Client(call, stream, client.close)


def raw_async(library: str, url: str) -> Client:
    """The same, awaited."""
    httpx = importlib.import_module(library)
    client = httpx.AsyncClient(limits=httpx.Limits(max_connections=STREAMS, max_keepalive_connections=AT_ONCE))
    whole, streamed, held = _request(url, False), _request(url, True), _request(url, True, "Person/held/v1")
    headers = plain_headers(whole)

    async def call() -> bytes:
        return bytes((await client.post(whole.url, content=whole.body, headers=headers)).content)

    async def stream() -> int:
        async with client.stream("POST", streamed.url, content=streamed.body, headers=headers) as response:
            return sum([1 async for _ in response.aiter_raw()])

    async def hold() -> Any:
        request = client.build_request("POST", held.url, content=held.body, headers=headers)
        response = await client.send(request, stream=True)
        pieces = response.aiter_raw()
        for _ in range(CHUNKS // 2):
            await anext(pieces)
        return response, pieces

    return Client(call, stream, client.aclose, hold)


def raw_aiohttp(url: str) -> Client:
    """aiohttp, as it is."""
    aiohttp = importlib.import_module("aiohttp")
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=STREAMS))
    whole, streamed, held = _request(url, False), _request(url, True), _request(url, True, "Person/held/v1")
    headers = plain_headers(whole)

    async def call() -> bytes:
        async with session.post(whole.url, data=whole.body, headers=headers) as response:
            return bytes(await response.read())

    async def stream() -> int:
        async with session.post(streamed.url, data=streamed.body, headers=headers) as response:
            return sum([1 async for _ in response.content.iter_any()])

    async def hold() -> Any:
        response = await session.post(held.url, data=held.body, headers=headers)
        await response.content.readany()
        return response

    return Client(call, stream, session.close, hold)


MARK = "THE PROMPT"
MOST_BYTES = 100_000_000

_Partial = TypeAdapter(TypedDict("_Partial", get_type_hints(Person), total=False))


class ByHand:
    """A call written for one flat type, one provider and one client, with what a correct one cannot leave out."""

    def __init__(self, url: str) -> None:
        request = _request(url, False)
        self.url = request.url
        self.headers = {**plain_headers(request), "accept-encoding": "identity"}
        known = {**json.loads(request.body), "messages": [{"role": "user", "content": MARK}]}
        self._around = {
            stream: json.dumps({**known, "stream": stream}, separators=(",", ":")).split(json.dumps(MARK))
            for stream in (False, True)
        }

    def body(self, stream: bool, **fields: str) -> bytes:
        """Return the body of the request; nothing but the message is encoded for it."""
        return json.dumps("Someone who lived in {place}".format(**fields)).join(self._around[stream]).encode()

    def parsed(self, status: int, data: bytes) -> Person:
        """Return the object of a response."""
        assert status == 200, data
        (choice,) = from_json(data)["choices"]
        assert choice["finish_reason"] in ("stop", "tool_calls"), choice
        (call,) = choice["message"]["tool_calls"]
        assert call["function"]["name"] == "Person", call
        return Person.model_validate_json(call["function"]["arguments"])


class Growing:
    """A streamed response, cut anywhere."""

    def __init__(self, status: int) -> None:
        assert status == 200, status
        self._rest, self._text = b"", ""
        self._shown: dict[str, Any] | None = None
        self._is_finished = self._is_done = False

    def feed(self, piece: bytes) -> Iterator[Person]:
        """Yield a snapshot for each event that changes one."""
        *events, self._rest = (self._rest + piece).replace(b"\r\n", b"\n").split(b"\n\n")
        assert len(self._rest) + len(self._text) < MOST_BYTES
        for event in events:
            data = b"\n".join([line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")])
            if data == b"[DONE]":
                self._is_done = True
            elif data:
                yield from self._read(from_json(data))

    def _read(self, chunk: dict[str, Any]) -> Iterator[Person]:
        assert "error" not in chunk, chunk
        for choice in chunk["choices"]:
            self._is_finished |= choice["finish_reason"] in ("stop", "tool_calls")
            for call in choice["delta"].get("tool_calls", ()):
                assert call["index"] == 0 and call["function"].get("name", "Person") == "Person", call
                self._text += call["function"]["arguments"]
                if self._text:
                    yield from self._snapshot()

    def _snapshot(self) -> Iterator[Person]:
        known = _Partial.validate_json(self._text, experimental_allow_partial="trailing-strings")
        if self._text[-1].isdigit() and isinstance(known.get("age"), int) and "city" not in known:
            del known["age"]  # it may go on
        if known != self._shown:
            self._shown = known
            yield Person.model_construct(**known)

    def whole(self) -> Person:
        """Return the object at the end of the response."""
        assert self._is_finished and self._is_done, self._text
        return Person.model_validate_json(self._text)


def by_hand_sync(url: str) -> Client:
    """Over httpx."""
    client, hand = importlib.import_module("httpx").Client(), ByHand(url)

    def call() -> Person:
        response = client.post(hand.url, content=hand.body(False, place="London"), headers=hand.headers)
        return hand.parsed(response.status_code, response.content)

    def stream() -> Person:
        body = hand.body(True, place="London")
        with client.stream("POST", hand.url, content=body, headers=hand.headers) as response:
            growing = Growing(response.status_code)
            for piece in response.iter_raw():
                for _ in growing.feed(piece):
                    pass
        return growing.whole()

    return Client(call, stream, client.close)


def by_hand_aiohttp(url: str) -> Client:
    """Over aiohttp."""
    aiohttp, hand = importlib.import_module("aiohttp"), ByHand(url)
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=STREAMS))

    async def call() -> Person:
        body = hand.body(False, place="London")
        async with session.post(hand.url, data=body, headers=hand.headers) as response:
            return hand.parsed(response.status, await response.read())

    async def stream() -> Person:
        body = hand.body(True, place="London")
        async with session.post(hand.url, data=body, headers=hand.headers) as response:
            growing = Growing(response.status)
            async for piece in response.content.iter_any():
                for _ in growing.feed(piece):
                    pass
        return growing.whole()

    return Client(call, stream, session.close, hold=call)  # awaited; it is not among HELD


def network_sync(url: str) -> Client:
    """`Network.open`, and what it opened read to its end."""
    network = HttpxNetwork()

    def read(request: HTTPRequest) -> int:
        reply = network.open(request, connect=10, read=300)
        count = 0
        while reply.read(120):
            count += 1
        return count

    whole, streamed = _request(url, False), _request(url, True)
    return Client(lambda: read(whole), lambda: read(streamed), network.close)


def network_async(kind: str, url: str) -> Client:
    """`Network.aopen`, and what it opened read to its end."""
    network = getattr(toolcast.llms, kind)()

    async def read(request: HTTPRequest) -> int:
        reply = await network.aopen(request, connect=10, read=300)
        count = 0
        while await reply.read(120):
            count += 1
        return count

    async def hold() -> Any:
        reply = await network.aopen(held, connect=10, read=300)
        await reply.read(120)
        return reply

    whole, streamed, held = _request(url, False), _request(url, True), _request(url, True, "Person/held/v1")
    return Client(lambda: read(whole), lambda: read(streamed), network.aclose, hold)


def toolcast_sync(url: str) -> Client:
    """An orchestrator: from the prompt's field to the object, and to each snapshot of it."""
    network = HttpxNetwork()
    make = _orchestrator(url, network)
    return Client(lambda: make(place="London"), lambda: sum(1 for _ in make.stream(place="London")), network.close)


def toolcast_async(kind: str, url: str) -> Client:
    """The same, awaited."""
    network = getattr(toolcast.llms, kind)()
    make, held = _orchestrator(url, network), _orchestrator(url, network, "Person/held/v1")

    async def stream() -> int:
        return sum([1 async for _ in make.astream(place="London")])

    async def hold() -> Any:
        opened = held.astream(place="London")
        await anext(opened)
        return opened

    return Client(lambda: make.acall(place="London"), stream, network.aclose, hold)


def rows() -> list[Row]:
    """Return the rows whose library is installed."""
    found = []
    for library in ("httpx", "httpx2"):
        if find_spec(library):
            found.append(Row(f"raw {library}, sync", _with(raw_sync, library)))
            found.append(Row(f"raw {library}, async", _with(raw_async, library)))
    found += [
        Row("by hand, sync", by_hand_sync, "raw httpx, sync"),
        Row("Network, sync", network_sync, "raw httpx, sync"),
        Row("Network, async", _with(network_async, "HttpxNetwork"), "raw httpx, async"),
        Row("toolcast, sync", toolcast_sync, "raw httpx, sync"),
        Row("toolcast, async", _with(toolcast_async, "HttpxNetwork"), "raw httpx, async"),
    ]
    if find_spec("aiohttp"):
        found += [
            Row("raw aiohttp", raw_aiohttp),
            Row("by hand, aiohttp", by_hand_aiohttp, "raw aiohttp"),
            Row("Network, aiohttp", _with(network_async, "AiohttpNetwork"), "raw aiohttp"),
            Row("toolcast, aiohttp", _with(toolcast_async, "AiohttpNetwork"), "raw aiohttp"),
        ]
    return found


def _with(make: Callable[[str, str], Client], first: str) -> Callable[[str], Client]:
    return lambda url: make(first, url)


# ---- measuring


def report() -> Iterator[str]:
    """The parts of the figures, as they are ready."""
    with serving() as url, asyncio.Runner() as runner:
        found = costs(rows(), url, runner)
        yield f"**One call** (us of CPU; the stream has {CHUNKS} events; requests a second: what one core can do)"
        yield times(found)
        yield "**What toolcast adds to the HTTP client below it** (us of CPU)"
        yield added(found)
        yield "**Calls at once** (us of CPU a call; in brackets: the median and the 99th percentile of its ms)"
        yield at_once(url, runner)
        yield f"**{STREAMS:,} open streams** (`tracemalloc`, KB for each of them)"
        held = [row for row in rows() if row.name in HELD]
        yield table(["", "KB"], [[row.name, f"{runner.run(_held(row, url)) / 1000:.1f}"] for row in held])


def times(found: dict[Row, Costs]) -> str:
    """What each client takes."""
    head = ["", "call", "stream", f"call, {AT_ONCE} at once", "requests a second"]
    lines = []
    for row, costs in found.items():
        rate = f"{1 / min(costs.at_once):,.0f}" if costs.at_once else ""
        lines.append([row.name, _rounds(costs.call), _rounds(costs.stream), _rounds(costs.at_once), rate])
    return table(head, lines)


def added(found: dict[Row, Costs]) -> str:
    """What lies between each row and the raw client that it stands upon."""
    by_name = {row.name: costs for row, costs in found.items()}
    lines = []
    for row, costs in found.items():
        if row.raw:
            raw = by_name[row.raw]
            call = min(costs.call) - min(raw.call)
            stream = min(costs.stream) - min(raw.stream)
            lines.append([row.name, _us([call]), _us([stream]), f"{(stream - call) / CHUNKS * 1e6:.1f}"])
    return table(["", "call", "stream", "more than a call, for each event"], lines)


def at_once(url: str, runner: asyncio.Runner) -> str:
    """Return the costs and latencies of the async clients at each level."""
    lines = []
    for row in rows():
        if row.name in HELD:
            found = [runner.run(_latencies(row, url, level)) for level in LEVELS]
            lines.append([row.name, *(f"{cost * 1e6:,.0f} ({_percentiles(seconds)})" for cost, seconds in found)])
    return table(["", *(f"{level:,}" for level in LEVELS)], lines)


def _percentiles(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    return f"{ordered[len(ordered) // 2] * 1e3:,.1f}, {ordered[len(ordered) * 99 // 100] * 1e3:,.1f}"


async def _latencies(row: Row, url: str, level: int) -> tuple[float, list[float]]:
    """Return the CPU seconds of a call in the best round, and the wall-clock seconds of each call of that round."""
    _many_files()
    client = row.make(url)

    async def worker() -> list[float]:
        seconds = []
        for _ in range(max(_CALLS // level, 1)):
            begun = perf_counter()
            await client.call()
            seconds.append(perf_counter() - begun)
        return seconds

    found = []
    for _ in range(ROUNDS + 1):  # the first opens the connections
        gc.collect()
        begun = process_time()
        seconds = [each for several in await asyncio.gather(*(worker() for _ in range(level))) for each in several]
        found.append(((process_time() - begun) / len(seconds), seconds))
    await _closed(client)
    return min(found[1:])


_CALLS = 200  # in one round, at least


def _us(seconds: Sequence[float]) -> str:
    return f"{min(seconds) * 1e6:,.0f}" if seconds else ""


def _rounds(seconds: Sequence[float]) -> str:
    return summary([each * 1e6 for each in seconds], "{:,.0f}".format) if seconds else ""


def costs(compared: Sequence[Row], url: str, runner: asyncio.Runner, rounds: int = ROUNDS) -> dict[Row, Costs]:
    """Return what each row takes, the rows in turn."""
    found = {row: Costs() for row in compared}
    clients = {row: runner.run(_made(row, url)) for row in compared}
    for _ in range(rounds):
        for row, each in found.items():
            client = clients[row]
            for work, seconds in ((client.call, each.call), (client.stream, each.stream)):
                if client.hold is None:
                    seconds.append(timed(work))
                else:
                    seconds.append(runner.run(_timed_async(work)))
            if client.hold is not None:
                each.at_once.append(runner.run(_timed_at_once(client.call)))
    for client in clients.values():
        runner.run(_closed(client))
    return found


async def _made(row: Row, url: str) -> Client:
    """In the event loop, where some clients want to be made."""
    return row.make(url)


async def _closed(client: Client) -> None:
    if isawaitable(result := client.close()):
        await result


def timed(work: Work) -> float:
    """Return the CPU seconds of a call, of many in a row."""
    work()
    gc.collect()
    begun = process_time()
    for _ in range(COUNT):
        work()
    return (process_time() - begun) / COUNT


async def _timed_async(work: Work) -> float:
    await work()
    gc.collect()
    begun = process_time()
    for _ in range(COUNT):
        await work()
    return (process_time() - begun) / COUNT


async def _timed_at_once(work: Work) -> float:
    async def worker(count: int) -> None:
        for _ in range(count):
            await work()

    await asyncio.gather(*(worker(1) for _ in range(AT_ONCE)))
    gc.collect()
    begun = process_time()
    await asyncio.gather(*(worker(EACH) for _ in range(AT_ONCE)))
    return (process_time() - begun) / (EACH * AT_ONCE)


async def _held(row: Row, url: str) -> float:
    """Bytes that Python has allocated for one of many open streams."""
    _many_files()
    client = row.make(url)
    assert client.hold is not None
    await client.call()
    gc.collect()
    tracemalloc.start()
    kept = []
    for _ in range(STREAMS // 50):
        kept += await asyncio.gather(*(client.hold() for _ in range(50)))
    gc.collect()
    size = tracemalloc.get_traced_memory()[0] / STREAMS
    tracemalloc.stop()
    for opened in kept:
        await _end(opened)
    await _closed(client)
    return size


async def _end(opened: Any) -> None:
    """Close what a client held open."""
    if isinstance(opened, tuple):
        response, pieces = opened
        await pieces.aclose()
        await response.aclose()
    elif hasattr(opened, "aclose"):
        await opened.aclose()
    else:
        opened.close()


def _many_files() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    for part in report():
        print(part, end="\n\n", flush=True)
