"""Whole calls over aiohttp: the public API on top, a real server below."""

from __future__ import annotations

import asyncio
import gc
import pickle
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

import toolcast
from support.albums import SEA, Album
from support.chunks import album_body, album_stream
from support.loopback import CLOSE, END, HOLD, Loopback, chunk, head, whole
from toolcast import LlamaCpp, Ollama, OpenAI, OpenAICompatible, Settings, Timeouts, ToolOrchestratingLLM
from toolcast.errors import BadRequest, RateLimited, StreamInterrupted, Timeout, UnsupportedLLMError
from toolcast.llms import AiohttpNetwork, HttpxNetwork
from toolcast.testing import VirtualClock
from toolcast.transport.network_choice import AutoNetwork

SSE = head(200, "content-type: text/event-stream", "transfer-encoding: chunked")


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server
    gc.collect()


def maker(server: Loopback, settings: Settings | None = None) -> ToolOrchestratingLLM[Album]:
    base_url = f"http://127.0.0.1:{server.port}/v1"
    llm = OpenAI("m-1", api_key="sk-1", base_url=base_url, network="aiohttp", settings=settings)
    llm.clock = VirtualClock()
    return ToolOrchestratingLLM(Album, "about {topic}", llm)


def test_whole_and_streamed(server: Loopback) -> None:
    server.answer(whole(album_body()))
    server.answer(SSE, *map(chunk, album_stream()), END)

    async def main() -> None:
        make = maker(server)
        assert await make.acall(topic="the sea") == SEA
        snapshots = [album async for album in make.astream(topic="the sea")]
        assert snapshots[-1] == SEA
        assert len(snapshots) > 10

    anyio.run(main)
    assert server.accepted == 1
    assert server.requests[0].headers["authorization"] == "Bearer sk-1"


def test_what_may_be_tried_again_is(server: Loopback) -> None:
    server.answer(whole(b'{"error": {"message": "slow down"}}', 429, "retry-after: 7"))
    server.answer(SSE, CLOSE)
    server.answer(whole(album_body()))

    async def main() -> None:
        make = maker(server)
        result = await make.arun(topic="the sea")
        assert result.output == SEA
        errors = [type(attempt.error) for attempt in result.attempts]
        assert errors == [RateLimited, StreamInterrupted, type(None)]

    anyio.run(main)


def test_what_has_begun_is_not(server: Loopback) -> None:
    server.answer(SSE, *map(chunk, album_stream()[:12]), CLOSE)

    async def main() -> None:
        seen = []
        with pytest.raises(StreamInterrupted) as caught:
            async for album in maker(server).astream(topic="the sea"):
                seen.append(album)
        assert seen
        assert caught.value.partial is not None

    anyio.run(main)
    assert len(server.requests) == 1


def test_a_cancelled_stream_gives_its_connection_back(server: Loopback) -> None:
    server.answer(SSE, chunk(b"".join(album_stream()[:12])), HOLD)
    seen = []

    async def main() -> None:
        make = maker(server)

        async def consume() -> None:
            async for album in make.astream(topic="the sea"):
                seen.append(album)
                if len(seen) == 3:
                    begun.set()

        begun = asyncio.Event()
        task = asyncio.create_task(consume())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(server.wait_open, 0)

    anyio.run(main)


@pytest.mark.parametrize(
    ("timeouts", "phase"),
    [
        (Timeouts(first_token=0.05, idle=0.05), "first_token"),
        (Timeouts(total=0.5), "total"),  # to connect is a part of it
        (Timeouts(idle=0.05), "idle"),
    ],
)
def test_the_limits_of_a_call(server: Loopback, timeouts: Timeouts, phase: str) -> None:
    server.answer(*((SSE, chunk(b"".join(album_stream()[:12])), HOLD) if phase == "idle" else (HOLD,)))

    async def main() -> None:
        make = maker(server, Settings(timeout=timeouts))
        assert isinstance(make.llm, OpenAI)
        make.llm.clock = toolcast.transport.network.SystemClock()
        make.llm.retry_policy = type(make.llm.retry_policy)(max_retries=0)
        with pytest.raises(Timeout) as caught:
            await make.acall(topic="the sea")
        assert caught.value.phase == phase

    anyio.run(main)


def test_many_at_once(server: Loopback) -> None:
    for _ in range(64):
        server.answer(whole(album_body()))

    async def main() -> list[Album]:
        make = maker(server)
        return await asyncio.gather(*(make.acall(topic="the sea") for _ in range(64)))

    assert anyio.run(main) == [SEA] * 64


def test_a_sync_call_and_trio_are_refused_before_anything_is_sent(server: Loopback) -> None:
    make = maker(server)
    for refused in (lambda: make(topic="the sea"), lambda: list(make.stream(topic="the sea"))):
        with pytest.raises(BadRequest, match="async method") as caught:
            refused()
        assert len(caught.value.attempts) == 1

    async def main() -> None:
        with pytest.raises(BadRequest, match="not under trio"):
            await make.acall(topic="the sea")

    anyio.run(main, backend="trio")
    assert server.accepted == 0


# ---- network="aiohttp"


@pytest.mark.parametrize(
    "llm",
    [
        lambda **options: OpenAI("m", **options),
        lambda **options: Ollama("m", **options),
        lambda **options: OpenAICompatible("m", base_url="http://127.0.0.1:1/v1", **options),
        lambda **options: LlamaCpp("m.gguf", **options),
        lambda **options: toolcast.llm("openai:m", **options),
        lambda **options: toolcast.llm("groq:m", **options),
        lambda **options: toolcast.llm("local", **options),
    ],
)
def test_the_name_of_a_network(llm: Any) -> None:
    assert isinstance(llm(network="aiohttp").network, AiohttpNetwork)
    assert isinstance(llm(network="auto").network, AutoNetwork)
    assert isinstance(llm().network, HttpxNetwork)
    own = AiohttpNetwork(max_connections=3)
    assert llm(network=own).network is own
    with pytest.raises(UnsupportedLLMError, match="network='curl': expected a Network"):
        llm(network="curl")


def test_the_name_goes_along_to_another_process() -> None:
    for name, kind in {"aiohttp": AiohttpNetwork, "auto": AutoNetwork, None: HttpxNetwork}.items():
        llm = OpenAI("m", network=name)  # type: ignore[arg-type]  # a loop over names
        assert isinstance(pickle.loads(pickle.dumps(llm)).network, kind)
