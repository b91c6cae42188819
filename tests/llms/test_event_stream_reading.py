"""streams.py at its edges: streams that are forgotten, entered late, or read by hand to an error."""

from __future__ import annotations

import gc
from typing import Any

import anyio
import pytest

from support.albums import SEA, Album
from support.chunks import album_stream, text_body
from support.sync_and_async import API
from toolcast import OpenAI, ToolOrchestratingLLM, Usage
from toolcast.errors import ConnectFailed, StreamClosed
from toolcast.events import Finish, TextDelta
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM


class Failing(ScriptedLLM):
    """Streams one word, then fails."""

    async def _events(self, *args: Any) -> Any:
        yield TextDelta("one")
        raise ConnectFailed("gone")


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def service() -> tuple[OpenAI, ReplayNetwork]:
    network = ReplayNetwork(Recorded(album_stream()))
    return OpenAI("m", api="chat", api_key="k", network=network), network


def test_a_forgotten_event_stream_gives_its_connection_back() -> None:
    llm, network = service()
    stream = llm.stream_chat("x", tools=[Album])
    assert stream.next()
    assert network.open_replies == 1
    del stream
    gc.collect()
    assert network.open_replies == 0


def test_an_event_stream_that_was_read_to_its_end_is_left_alone() -> None:
    llm, network = service()
    stream = llm.stream_chat("x", tools=[Album])
    events = list(stream)
    assert isinstance(events[-1], Finish)
    assert (stream.state, network.open_replies, network.closed_replies) == ("exhausted", 0, 1)
    del stream
    gc.collect()
    assert network.closed_replies == 1


def test_what_came_before_an_error_is_kept() -> None:
    stream = Failing().stream_chat("x")
    assert stream.next()
    assert stream.response.text == "one"
    assert not stream.next()
    assert isinstance(stream.err, ConnectFailed)
    assert stream.response.text == "one"
    stream.close()
    assert stream.state == "errored"
    with pytest.raises(LookupError, match="errored"):
        _ = stream.current


def test_what_came_before_an_error_is_kept_when_awaited(backend: str) -> None:
    async def main() -> None:
        stream = Failing().astream_chat("x")
        assert await stream.next()
        assert not await stream.next()
        assert not await stream.next()
        assert isinstance(stream.err, ConnectFailed)
        await stream.aclose()
        assert stream.state == "errored"
        assert stream.response.text == "one"
        with pytest.raises(ConnectFailed):
            await anext(stream)

    anyio.run(main, backend=backend)


def test_the_first_event_of_a_stream_sends_the_request(backend: str) -> None:
    llm, network = service()
    stream = llm.stream_chat("x", tools=[Album])
    assert network.requests == []
    with stream as entered:
        assert entered is stream
        assert network.requests == []
        next(stream)
    assert len(network.requests) == 1
    assert network.open_replies == 0


def test_an_async_stream_entered_after_it_has_begun(backend: str) -> None:
    async def main() -> None:
        stream = ToolOrchestratingLLM(Album, "x", ScriptedLLM(SEA)).astream()
        first = await anext(stream)
        async with stream:
            assert await stream.final() == SEA
        assert first.title != SEA.title
        closed = ToolOrchestratingLLM(Album, "x", ScriptedLLM(SEA)).astream()
        await closed.aclose()
        async with closed:
            assert [item async for item in closed] == []
        with pytest.raises(StreamClosed):
            await closed.final()

    anyio.run(main, backend=backend)


def test_a_stream_entered_after_it_has_begun() -> None:
    stream = ToolOrchestratingLLM(Album, "x", ScriptedLLM(SEA)).stream()
    first = next(stream)
    with stream as entered:
        assert entered is stream
        assert stream.final() == SEA
    assert first.title != SEA.title


def test_entering_tells_of_an_error_at_once(backend: str) -> None:
    make = ToolOrchestratingLLM(Album, "x", ScriptedLLM(ConnectFailed("no"), ConnectFailed("no")))
    with pytest.raises(ConnectFailed), make.stream():
        raise AssertionError("not entered")

    async def main() -> None:
        with pytest.raises(ConnectFailed):
            async with make.astream():
                raise AssertionError("not entered")

    anyio.run(main, backend=backend)


def test_async_views_end_once(backend: str) -> None:
    async def main() -> None:
        async with ToolOrchestratingLLM(Album, "x", ScriptedLLM(SEA)).astream() as stream:
            songs = stream.items("songs")
            assert [song async for song in songs] == SEA.songs
            assert [song async for song in songs] == []
            assert await stream.final() == SEA
            assert stream.usage == Usage(10, 5)

    anyio.run(main, backend=backend)


def test_words_of_a_service_as_a_stream(backend: str) -> None:
    """A service that answers whole though a stream was asked for."""

    async def main() -> None:
        network = ReplayNetwork(Recorded([text_body("Hello")], headers={"content-type": "application/json"}))
        async with OpenAI("m", api="chat", api_key="k", network=network).astream_chat("x") as stream:
            events = [event async for event in stream]
        assert events[0] == TextDelta("Hello")
        assert stream.response.text == "Hello"
        assert network.open_replies == 0

    anyio.run(main, backend=backend)


# -- networks of users ------------------------------------------------------------------------------------------


class ReusedBuffer:
    """A response that is received into one buffer again and again."""

    def __init__(self, reply: Any) -> None:
        self.status, self.headers, self.close = reply.status, reply.headers, reply.close
        self._reply = reply
        self._buffer = bytearray(1 << 16)

    def read(self, limit: float | None = None, /) -> Any:
        data = self._reply.read(limit)
        self._buffer[:] = b"?" * len(self._buffer)
        self._buffer[: len(data)] = data
        return memoryview(self._buffer)[: len(data)]


class AsyncReusedBuffer(ReusedBuffer):
    """The same response under the async API."""

    async def read(self, limit: float | None, /) -> Any:  # type: ignore[override]  # the async counterpart
        return super().read(limit)

    async def aclose(self) -> None:
        self.close()


class BufferNetwork(ReplayNetwork):
    """A network whose chunks are views of a buffer."""

    def open(self, *args: Any, **options: Any) -> Any:
        return ReusedBuffer(super().open(*args, **options))

    async def aopen(self, *args: Any, **options: Any) -> Any:
        return AsyncReusedBuffer(super().open(*args, **options))


@pytest.mark.parametrize("pieces", [album_stream(), [bytes([byte]) for byte in b"".join(album_stream())]])
def test_a_network_may_reuse_its_buffer(api: API, pieces: list[bytes]) -> None:
    network = BufferNetwork(Recorded(pieces))
    seen = api.stream(ToolOrchestratingLLM(Album, "x", OpenAI("m", api="chat", api_key="k", network=network)))
    assert seen.final == SEA
    assert len(seen.items) > 10
    assert network.open_replies == 0
