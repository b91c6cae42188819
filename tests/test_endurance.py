"""Very many streams, large ones, and streams over a connection that fails at random: nothing is left, nothing hangs.

The suite runs a few hundred. `nox -s nightly` runs 10,000 and a soak of half an hour: the profile `nightly` of
Hypothesis and TOOLCAST_SOAK_SECONDS set how long.
"""

from __future__ import annotations

import gc
import os
import random
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from support.albums import SEA, Album
from support.chunks import album_body, album_stream, call_deltas, delta, sse
from support.extent import NIGHTLY
from support.loopback import CLOSE, END, HOLD, RESET, Loopback, Piece, chunk, head, whole
from toolcast import CallError, OpenAI, Settings, Timeouts, ToolOrchestratingLLM
from toolcast.testing import Recorded, ReplayNetwork

DESCRIPTORS = Path("/dev/fd")
SOAK_SECONDS = float(os.environ.get("TOOLCAST_SOAK_SECONDS") or 0)
STREAM = head(200, "content-type: text/event-stream", "transfer-encoding: chunked")


needs_descriptors = pytest.mark.skipif(
    not DESCRIPTORS.is_dir(), reason="NOT TESTED HERE: the system does not list descriptors"
)


def spoken(pieces: list[bytes], *end: Piece) -> tuple[Piece, ...]:
    return (STREAM, *map(chunk, pieces), *end)


def descriptors() -> int:
    """Return the number of open file descriptors of this process."""
    gc.collect()
    return len(list(DESCRIPTORS.iterdir()))


def resident() -> int:
    """Return the bytes of memory that this process has in use, as Linux counts them."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def maker(server: Loopback, **options: Any) -> ToolOrchestratingLLM[Album]:
    return ToolOrchestratingLLM(
        Album, "x", OpenAI("m-1", api_key="k", base_url=f"http://127.0.0.1:{server.port}/v1", **options)
    )


# -- leaks


def some_streams(make: ToolOrchestratingLLM[Album], server: Loopback, count: int) -> None:
    """Read every other stream to its end; of the others leave some by `close`, and forget some."""
    for number in range(count):
        server.answer(*spoken(album_stream()[:5], HOLD) if number % 2 else spoken(album_stream(), END))
        stream = make.stream()
        if number % 2 == 0:
            assert stream.final() == SEA
            continue
        next(stream)
        if number % 4 == 1:
            stream.close()
        del stream
        if number % 100 == 99:
            server.forget()


async def some_async_streams(make: ToolOrchestratingLLM[Album], server: Loopback, count: int) -> None:
    """The same, and some are cancelled."""
    for number in range(count):
        server.answer(*spoken(album_stream()[:5], HOLD) if number % 2 else spoken(album_stream(), END))
        stream = make.astream()
        if number % 2 == 0:
            assert await stream.final() == SEA
            continue
        with anyio.CancelScope() as scope:
            async for _ in stream:
                if number % 4 == 1:
                    scope.cancel()
                else:
                    break
        del stream
        if number % 100 == 99:
            server.forget()


@pytest.mark.nightly
@pytest.mark.gate("G8")
@needs_descriptors
@pytest.mark.parametrize("way", ["sync", "asyncio", "trio"])
def test_streams_that_are_read_left_forgotten_and_cancelled_leave_nothing(way: str) -> None:
    warm, many = (500, 10_000) if NIGHTLY else (20, 100)
    with Loopback() as server:
        make = maker(server, max_retries=0)

        def run(count: int) -> None:
            if way == "sync":
                some_streams(make, server, count)
            else:
                anyio.run(some_async_streams, make, server, count, backend=way)
            gc.collect()
            make.llm.close()  # type: ignore[attr-defined]  # an LLM of a service; it goes on after that
            server.wait_open(0)
            server.forget()

        run(warm)
        before, memory = descriptors(), resident() if NIGHTLY else 0
        run(many)
        assert descriptors() == before
        if NIGHTLY:
            assert resident() - memory < 5 << 20


# -- memory


class Book(BaseModel):
    title: str
    lines: list[str]


TEXTS = {
    "one long string": Book(title="sea " * 80_000, lines=[]),
    "many strings": Book(title="", lines=[f"line {number}" for number in range(15_000)]),
}


@pytest.mark.gate("G6")
@pytest.mark.parametrize("book", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_response_takes_at_most_four_times_the_memory_of_what_is_kept(book: Book, streamed: bool) -> None:
    text = book.model_dump_json()
    begun, *_ = call_deltas("", name="Book")
    pieces = (text[start : start + 24] for start in range(0, len(text), 24))
    grown = (delta(tool_calls=[{"index": 0, "function": {"arguments": piece}}]) for piece in pieces)
    body = album_body(text).replace(b'"Album"', b'"Book"')
    answer = Recorded(sse(begun, *grown, delta("tool_calls"))) if streamed else Recorded([body])
    make = ToolOrchestratingLLM(Book, "x", OpenAI("m-1", api="chat", api_key="k", network=ReplayNetwork(answer)))
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        result: Any = make.stream() if streamed else make.run()
        final = result.final() if streamed else result.output
        kept, peak = (size - before for size in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert final == book
    assert kept > len(text)
    assert peak < 4 * kept


# -- a bad connection


class Weather(Loopback):
    """A server that answers every request, each in another way, most of them badly."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance = random.Random(seed)
        self._answers = self  # type: ignore[assignment]  # what answers are taken from
        self.served: Counter[str] = Counter()

    def popleft(self) -> tuple[Piece, ...]:
        """Return the answer to the next request."""
        if len(self.requests) > 1000:
            self.forget()
        pieces = album_stream()
        cut = self._chance.randrange(1, len(pieces) - 3)
        noise = self._chance.randbytes(self._chance.randrange(1, 40))
        answers: dict[str, tuple[Piece, ...]] = {
            "whole": (whole(album_body(), 200, "content-type: application/json"),),
            "stream": spoken(pieces, END),
            "byte by byte": spoken([bytes([byte]) for byte in b"".join(pieces)], END),
            "ends early": spoken(pieces[:cut], END),
            "closed": spoken(pieces[:cut], CLOSE),
            "reset": spoken(pieces[:cut], RESET),
            "reset at once": (RESET,),
            "stalls": spoken(pieces[:cut], HOLD),
            "sends nothing": (HOLD,),
            "noise": spoken([*pieces[:cut], noise, *pieces[cut:]], END),
            "no HTTP": (noise, CLOSE),
            "busy": (whole(b"{}", 429, "retry-after: 0"),),
            "broken": (whole(b"<html>bad gateway</html>", 502, "content-type: text/html"),),
            "refuses": (whole(b'{"error": {"message": "no"}}', 400),),
        }
        kind = self._chance.choice(sorted(answers))
        self.served[kind] += 1
        return answers[kind]


@pytest.mark.nightly
@pytest.mark.gate("G16")
@needs_descriptors
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_fifty_streams_at_once_over_a_bad_connection(backend: str) -> None:
    """Each ends in an object or in one error of the library; in the end nothing is open."""
    ended: Counter[str] = Counter()
    until = time.monotonic() + SOAK_SECONDS

    async def reader(make: ToolOrchestratingLLM[Album], streams: int) -> None:
        while streams > 0 or time.monotonic() < until:
            streams -= 1
            try:
                # Noise may take the name of a field with it: what is then no `data:` is ignored, as SSE has it.
                assert type(await make.astream().final()) is Album
                ended["an object"] += 1
            except CallError as error:
                ended[type(error).__name__] += 1

    async def main(server: Weather) -> None:
        timeouts = Timeouts(connect=5, first_token=1, idle=1, total=20)
        make = maker(server, max_retries=1, settings=Settings(timeout=timeouts))
        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(reader, make, 6)
        await make.llm.aclose()  # type: ignore[attr-defined]  # an LLM of a service
        await anyio.to_thread.run_sync(server.wait_open, 0)

    before = descriptors()
    with Weather(len(backend)) as server:
        anyio.run(main, server, backend=backend)
        assert server.open == 0
    assert sum(ended.values()) >= 300
    assert len(server.served) == 14
    assert {"an object", "StreamTruncated", "StreamInterrupted", "BadRequest"} <= ended.keys()
    assert descriptors() <= before
