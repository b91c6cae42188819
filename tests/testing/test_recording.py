"""Recordings over loopback HTTP: what is recorded, and that a replay gives the program the same without a request."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.albums import Album
from support.chunks import album_body, album_stream, text_body
from support.loopback import CLOSE, END, HOLD, Loopback, Piece, chunk, head, whole
from support.sync_and_async import API
from toolcast import CallError, Engine, OpenAI, Settings, Timeouts, ToolcastError, ToolOrchestratingLLM
from toolcast.errors import BadRequest, ConnectFailed, RateLimited, StreamInterrupted, Timeout
from toolcast.experiments.embedders import EndpointEmbedder
from toolcast.testing import Recorded, RecordingError, RecordingMismatch, ReplayNetwork, VirtualClock, record, replay
from toolcast.toolbox.fetch import fetch_tool
from toolcast.transport.httpx_network import HttpxNetwork
from toolcast.transport.network import open_response
from toolcast.values.http_request import HTTPRequest

KEY = "sk-record-0123456789"
JSON = "content-type: application/json"


@pytest.fixture(autouse=True)
def outside_of_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recordings" / "test.jsonl"


def orchestrator(server: Loopback, **options: Any) -> ToolOrchestratingLLM[Album]:
    llm = OpenAI("m-1", base_url=server.url, api_key=KEY, **options)
    return ToolOrchestratingLLM(Album, "about {topic}", llm)


def streamed(*chunks: bytes) -> list[Piece]:
    return [head(200, "transfer-encoding: chunked", "content-type: text/event-stream"), *map(chunk, chunks), END]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def chunks_in(path: Path) -> list[str]:
    return [line["chunk"] for line in lines(path) if "chunk" in line]


# -- record, then replay ----------------------------------------------------------------------------------------------


def test_a_call_and_a_stream_are_recorded_once_and_replayed_from_then_on(
    api: API, server: Loopback, path: Path
) -> None:
    server.answer(whole(album_body(), 200, JSON))
    server.answer(*streamed(*album_stream()))
    seen = []
    for sends in (2, 0):
        make = orchestrator(server)
        with record(path) as recording:
            seen.append((api.call(make, topic="the sea"), api.stream(make, topic="rain").items))
        assert (recording.sent, recording.replayed) == (sends, 2 - sends)
    assert seen[0] == seen[1]
    assert len(seen[0][1]) > 5
    assert len(server.requests) == 2
    assert path.stat().st_mode & 0o777 == 0o600


def test_chunks_have_the_borders_that_were_recorded_or_one_byte(api: API, server: Loopback, path: Path) -> None:
    body = b"".join(album_stream())
    cuts = [body[:7], body[7:8], body[8:900], body[900:]]
    with record(path):
        items = api.stream(orchestrator(server, network=ReplayNetwork(Recorded(cuts))), topic="x").items
    assert chunks_in(path) == [cut.decode() for cut in cuts]
    with replay(path):
        assert api.stream(orchestrator(server), topic="x").items == items
    with replay(path, chunk_size=1):
        assert api.stream(orchestrator(server), topic="x").items == items
    assert server.accepted == 0


def test_a_retry_is_recorded_as_it_happened_and_its_wait_is_not_replayed(
    api: API, server: Loopback, path: Path
) -> None:
    server.answer(whole(b'{"error": {"message": "slow down"}}', 429, JSON, "retry-after: 50"))
    server.answer(whole(album_body(), 200, JSON))
    make = orchestrator(server)
    make.llm.clock = VirtualClock()
    with record(path):
        result = api.run(make, topic="x")
    statuses = [line["response"]["status"] for line in lines(path) if "response" in line]
    assert statuses == [429, 200]
    with replay(path) as recording:  # with the clock of the system, on which this would take 50 seconds
        replayed = api.run(orchestrator(server), topic="x")
    assert [str(attempt.error) for attempt in replayed.attempts] == [str(attempt.error) for attempt in result.attempts]
    assert isinstance(replayed.attempts[0].error, RateLimited)
    assert recording.replayed == 2
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ([CLOSE], StreamInterrupted),
        ([*streamed(*album_stream()[:3])[:-1], CLOSE], StreamInterrupted),
        ([b"HTTQ 1\r\n\r\n", CLOSE], CallError),
        ([whole(b'{"error": {"message": "no such model"}}', 400, JSON)], BadRequest),
    ],
    ids=["no response", "a broken stream", "no HTTP", "a refusal"],
)
def test_a_failure_is_replayed(
    api: API, server: Loopback, path: Path, answer: list[Piece], error: type[CallError]
) -> None:
    server.answer(*answer)
    seen = []
    for _ in range(2):
        with record(path):
            seen.append(api.stream(orchestrator(server, max_retries=0), topic="x"))
    first, second = seen
    assert isinstance(first.error, error)
    assert type(second.error) is type(first.error)
    assert str(second.error) == str(first.error)
    assert second.items == first.items
    assert len(server.requests) == 1


def test_a_refused_connection_is_replayed(api: API, path: Path) -> None:
    with Loopback() as gone:
        make = orchestrator(gone, max_retries=0)
    seen = []
    for _ in range(2):
        with record(path), pytest.raises(ConnectFailed) as caught:
            api.call(make, topic="x")
        seen.append(str(caught.value))
    assert seen[0] == seen[1]


def test_timeouts_are_replayed(api: API, server: Loopback, path: Path) -> None:
    server.answer(HOLD)
    server.answer(*streamed(*album_stream()[:3])[:-1], HOLD)
    settings = Settings(timeout=Timeouts(first_token=0.05, idle=0.05))
    seen = []
    for _ in range(2):
        with record(path):
            make = orchestrator(server, max_retries=0, settings=settings)
            seen.append([api.stream(make, topic=topic).error for topic in "xy"])
    for recorded, replayed in zip(*seen, strict=True):
        assert isinstance(recorded, Timeout)
        assert isinstance(replayed, Timeout)
        assert replayed.phase == recorded.phase
    assert len(server.requests) == 2


def test_reading_past_what_was_read_when_it_was_recorded(api: API, server: Loopback, path: Path) -> None:
    chunks = album_stream()
    server.answer(*streamed(*chunks)[:6], HOLD)
    with record(path):
        assert len(api.stream(orchestrator(server), take=1, topic="x").items) == 1
    assert lines(path)[-1] == {"end": "closed"}
    with replay(path):
        assert len(api.stream(orchestrator(server), take=1, topic="x").items) == 1
    with replay(path):
        seen = api.stream(orchestrator(server), topic="x")
    assert isinstance(seen.error, RecordingMismatch)
    assert "ends here" in str(seen.error)


# -- modes ------------------------------------------------------------------------------------------------------------


def test_none_sends_nothing(api: API, server: Loopback, path: Path) -> None:
    with record(path, "none"), pytest.raises(RecordingMismatch, match=r'there is no recording at .*mode="once"'):
        api.call(orchestrator(server), topic="x")
    assert not path.exists()
    assert server.requests == []


def test_none_is_the_default_in_ci(server: Loopback, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with record(path) as recording, pytest.raises(RecordingMismatch):
        orchestrator(server)(topic="x")
    assert recording.mode == "none"
    server.answer(whole(album_body(), 200, JSON))
    with record(path, "once") as recording:
        orchestrator(server)(topic="x")
    monkeypatch.setenv("CI", "false")
    with record(path) as recording:
        pass
    assert recording.mode == "once"


def test_once_adds_nothing_to_a_file(api: API, server: Loopback, path: Path) -> None:
    server.answer(whole(album_body(), 200, JSON))
    with record(path):
        api.call(orchestrator(server), topic="x")
    before = path.read_bytes()
    with record(path), pytest.raises(RecordingMismatch, match="more often"):
        for _ in range(2):
            api.call(orchestrator(server), topic="x")
    assert path.read_bytes() == before
    assert len(server.requests) == 1


def test_new_adds_what_is_missing(api: API, server: Loopback, path: Path) -> None:
    for topics, sent in ((["x"], 1), (["x", "y"], 1), (["y", "x"], 0)):
        for _ in range(sent):
            server.answer(whole(album_body(), 200, JSON))
        with record(path, mode="new") as recording:
            for topic in topics:
                api.call(orchestrator(server), topic=topic)
        assert recording.sent == sent
    assert len(server.requests) == 2


def test_all_replaces_the_file(api: API, server: Loopback, path: Path) -> None:
    for title in ("One", "Two"):
        server.answer(whole(album_body(json.dumps({"title": title, "artist": "A", "songs": []})), 200, JSON))
        with record(path, mode="all"):
            assert api.call(orchestrator(server), topic="x").title == title
    with replay(path) as recording:
        assert api.call(orchestrator(server), topic="x").title == "Two"
    assert recording.unused == []
    assert len(server.requests) == 2


def test_a_block_without_requests_writes_nothing(path: Path) -> None:
    for mode in ("none", "once", "new", "all"):
        with record(path, mode):  # type: ignore[arg-type]  # a literal
            pass
    assert not path.parent.exists()


def test_wrong_options() -> None:
    with pytest.raises(ValueError, match="mode: expected one of 'none', 'once', 'new', 'all' or None, got 'always'"):
        record("x", mode="always")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ValueError, match="chunk_size: expected a positive number of bytes"):
        replay("x", chunk_size=0)
    with (
        pytest.raises(TypeError, match="filter: expected a function of a text, or a mapping of patterns, got int"),
        record("x", filter=1),
    ):  # type: ignore[arg-type]  # the mistake
        pass


def test_the_same_request_twice_gets_its_responses_in_order(api: API, server: Loopback, path: Path) -> None:
    titles = ["One", "Two", "Three"]
    for title in titles:
        server.answer(whole(album_body(json.dumps({"title": title, "artist": "A", "songs": []})), 200, JSON))
    for _ in range(2):
        with record(path):
            assert [api.call(orchestrator(server), topic="x").title for _ in titles] == titles


def test_what_was_not_requested(server: Loopback, path: Path) -> None:
    server.answer(whole(album_body(), 200, JSON))
    with record(path) as recording:
        orchestrator(server)(topic="x")
        assert recording.unused == []
    with replay(path) as recording:
        assert recording.unused == [f"POST {server.url}/chat/completions"]
        assert "mode='none'" in repr(recording)


# -- where it applies -------------------------------------------------------------------------------------------------


def test_every_network(server: Loopback, path: Path) -> None:
    async def main(network: Any) -> list[Album]:
        return [item async for item in orchestrator(server, network=network).astream(topic="x")]

    for network in (None, "aiohttp", "auto", HttpxNetwork()):
        server.answer(*streamed(*album_stream()))
        with record(path, mode="all"):
            recorded = asyncio.run(main(network))
        with replay(path):
            assert asyncio.run(main(network)) == recorded
    assert len(server.requests) == 4


def test_an_engine_with_its_tools(api: API, server: Loopback, path: Path) -> None:
    def weather(city: str) -> str:
        """Return the weather."""
        return f"Rain in {city}."

    call = {
        "id": "call_a1b2c3d4e5",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    server.answer(
        whole(json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode(), 200, JSON)
    )
    server.answer(whole(text_body("Take an umbrella."), 200, JSON))
    for sends in (2, 0):
        engine = Engine(OpenAI("m-1", base_url=server.url, api_key=KEY), [weather])
        with record(path) as recording:
            turn = api.method(engine, "submit", "Umbrella?")
        assert turn.text == "Take an umbrella."
        assert recording.sent == sends


def test_embeddings_and_a_fetched_page(server: Loopback, path: Path) -> None:
    server.answer(whole(json.dumps({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}).encode(), 200, JSON))
    server.answer(whole(b"A page.", 200, "content-type: text/plain"))
    seen = []
    for _ in range(2):
        with record(path):
            embedder = EndpointEmbedder("openai", "e-1", base_url=server.url, api_key=KEY)
            vectors = embedder.embed(["a"])
            seen.append((vectors, fetch_tool(allowed=lambda address: True).call({"url": server.url}).content))
    assert seen[0] == seen[1]
    assert len(server.requests) == 2


def test_threads_and_tasks_of_the_block(server: Loopback, path: Path) -> None:
    make = orchestrator(server)
    early = ThreadPoolExecutor(1)
    early.submit(int).result()  # its thread is older than the block
    for _ in range(4):
        server.answer(whole(album_body(), 200, JSON))

    async def tasks() -> None:
        async with anyio.create_task_group() as group:
            for topic in "ab":
                group.start_soon(lambda topic=topic: make.acall(topic=topic))

    def everything() -> None:
        early.submit(make, topic="pool").result()
        asyncio.run(tasks())
        thread = threading.Thread(target=make, kwargs={"topic": "thread"})
        thread.start()
        thread.join()

    for sends in (4, 0):
        with record(path) as recording:
            everything()
        assert recording.sent == sends
    early.shutdown()


def test_a_function_is_decorated(server: Loopback, path: Path) -> None:
    make = orchestrator(server)
    server.answer(whole(album_body(), 200, JSON))

    @record(path)
    def test(topic: str) -> str:
        """Return a title."""
        return make(topic=topic).title

    @replay(path)
    async def atest(topic: str) -> str:
        return (await make.acall(topic=topic)).title

    assert test.__doc__ == "Return a title."
    assert test("x") == test("x") == anyio.run(atest, "x") == "Sea of Glass"
    with pytest.raises(RecordingMismatch):
        test("y")
    assert len(server.requests) == 1


def test_what_cannot_be_decorated(path: Path) -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def async_generator() -> AsyncIterator[int]:
        yield 1

    for function in (generator, async_generator):
        with pytest.raises(TypeError, match="generator: write `with record"):
            record(path)(function)
    for other in (Album, 1):
        with pytest.raises(TypeError, match="expected a function to decorate"):
            record(path)(other)  # type: ignore[type-var]  # the mistake


def test_one_block_may_be_entered_again(server: Loopback, path: Path) -> None:
    server.answer(whole(album_body(), 200, JSON))
    block = record(path)
    for sends in (1, 0):
        with block as recording:
            orchestrator(server)(topic="x")
        assert recording.sent == sends


def test_an_inner_recording_takes_the_requests(server: Loopback, tmp_path: Path) -> None:
    for _ in range(3):
        server.answer(whole(album_body(), 200, JSON))
    with record(tmp_path / "a") as outer:
        orchestrator(server)(topic="x")
        with record(tmp_path / "b") as inner:
            orchestrator(server)(topic="y")
        orchestrator(server)(topic="z")
    assert (outer.sent, inner.sent) == (2, 1)


def test_a_response_that_another_thread_can_abort(path: Path) -> None:
    class Abortable(ReplayNetwork):
        def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
            reply: Any = super().open(request, connect=connect, read=read)
            reply.break_off = list
            return reply

    request = HTTPRequest("GET", "https://service.example", {}, b"")
    with record(path):
        reply: Any = open_response(Abortable(Recorded([b"x"])), request, connect=1, read=1)
        assert reply.break_off is list


# -- failures ---------------------------------------------------------------------------------------------------------


def test_an_exception_of_the_test_leaves_what_was_recorded(server: Loopback, path: Path) -> None:
    server.answer(whole(album_body(), 200, JSON))
    with pytest.raises(ZeroDivisionError), record(path):
        orchestrator(server)(topic="x")
        raise ZeroDivisionError
    with replay(path):
        orchestrator(server)(topic="x")


def test_an_interrupted_test_records_nothing(server: Loopback, path: Path) -> None:
    server.answer(whole(album_body(), 200, JSON))
    with pytest.raises(KeyboardInterrupt), record(path):
        orchestrator(server)(topic="x")
        raise KeyboardInterrupt
    assert not path.exists()


def test_a_request_that_was_not_sent_is_not_recorded(server: Loopback, path: Path) -> None:
    with record(path) as recording, pytest.raises(BadRequest, match="without await"):
        orchestrator(server, network="aiohttp")(topic="x")
    assert recording.sent == 0
    assert not path.exists()


async def test_a_cancelled_request_is_not_recorded(server: Loopback, path: Path, anyio_backend: str) -> None:
    server.answer(HOLD)
    with record(path) as recording:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: orchestrator(server).acall(topic="x"))
            await anyio.to_thread.run_sync(server.wait_requests, 1)
            group.cancel_scope.cancel()
    assert recording.sent == 0
    assert recording.unused == []


def test_a_mismatch_shows_the_difference_and_sends_nothing(api: API, server: Loopback, path: Path) -> None:
    server.answer(whole(album_body(), 200, JSON))
    with record(path):
        api.call(orchestrator(server), topic="the sea")
    with replay(path), pytest.raises(RecordingMismatch) as caught:
        api.call(orchestrator(server, settings=Settings(temperature=0.5)), topic="the moon")
    text = str(caught.value)
    assert "- body.messages[0].content: about the sea\n" in text
    assert "+ body.messages[0].content: about the moon\n" in text
    assert "+ body.temperature: 0.5" in text
    assert 'mode="new"' in text
    assert len(server.requests) == 1


def test_a_recording_of_the_other_api_names_the_option(path: Path) -> None:
    body = Recorded([text_body("Hello")], headers={"content-type": "application/json"})
    with record(path):
        OpenAI("m-1", api="chat", api_key="sk", network=ReplayNetwork(body)).chat("x")
    with replay(path), pytest.raises(RecordingMismatch, match="recorded with chat completions, which api='chat'"):
        OpenAI("m-1", api="responses", api_key="sk").chat("x")


def test_a_request_after_the_block_is_an_error(server: Loopback, path: Path) -> None:
    """A task that outlives its test must not send what the test would have replayed."""

    async def main() -> None:
        gate = asyncio.Event()

        async def late() -> None:
            await gate.wait()
            await orchestrator(server).acall(topic="x")

        with record(path):
            task = asyncio.create_task(late())
            await asyncio.sleep(0)
        gate.set()
        await task

    with pytest.raises(ToolcastError, match="had ended"):
        asyncio.run(main())
    assert server.requests == []


def test_an_empty_recording(server: Loopback, path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"toolcast_recording": 1}\n')
    with replay(path), pytest.raises(RecordingMismatch, match="is empty"):
        orchestrator(server)(topic="x")


def test_hosts_in_a_recording_are_never_contacted(server: Loopback, path: Path) -> None:
    """A recording from elsewhere names this server everywhere; the program asks another."""
    exchange = [
        {"toolcast_recording": 1},
        {
            "request": {
                "method": "POST",
                "url": server.url,
                "headers": {"host": server.url},
                "json": {"url": server.url},
            }
        },
        {"response": {"status": 302, "headers": {"location": server.url}}},
        {"end": "complete"},
    ]
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in exchange))
    with replay(path), pytest.raises(RecordingMismatch):
        orchestrator(server)(topic="x")
    network = HttpxNetwork()
    with replay(path) as recording:
        request = HTTPRequest("POST", server.url, {}, json.dumps({"url": server.url}).encode())
        reply = open_response(network, request, connect=1, read=1)
        assert (reply.status, reply.headers) == (302, {"location": server.url})
        assert reply.read() == b""
        assert recording.replayed == 1
    assert server.accepted == 0


def test_a_damaged_file_names_its_line(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"toolcast_recording": 1}\n{"chunk": "x"}\n')
    with (
        pytest.raises(
            RecordingError, match=r"test.jsonl, line 2: expected a line of a recording, got .*Delete the file"
        ),
        replay(path),
    ):
        pass
