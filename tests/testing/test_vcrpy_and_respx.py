"""The documented examples of vcrpy and of respx, with calls of toolcast in place of those of httpx."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import respx
import vcr
from vcr.errors import CannotOverwriteExistingCassetteException

from support.albums import Album
from support.chunks import album_body, album_stream
from support.loopback import END, Loopback, chunk, head, whole
from support.sync_and_async import API
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.errors import ConnectFailed, RateLimited, StreamInterrupted
from toolcast.testing import VirtualClock

JSON = "content-type: application/json"
KEY = "sk-cassette-0123456789"


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


def titled(title: str) -> bytes:
    return whole(album_body(json.dumps({"title": title, "artist": "A", "songs": []})), 200, JSON)


def orchestrator(url: str, **options: Any) -> ToolOrchestratingLLM[Album]:
    return ToolOrchestratingLLM(Album, "about {topic}", OpenAI("m-1", base_url=url, api_key=KEY, **options))


# -- vcrpy: https://vcrpy.readthedocs.io, "Usage", "Configuration" and "Advanced features" ----------------------------


def test_a_cassette_is_recorded_and_played(api: API, server: Loopback, tmp_path: Path) -> None:
    server.answer(titled("One"))
    cassette = tmp_path / "fixtures" / "vcr_cassettes" / "synopsis.yaml"
    for played in (0, 1):
        with vcr.use_cassette(str(cassette)) as tape:
            assert api.call(orchestrator(server.url), topic="x").title == "One"
            assert (len(tape), tape.play_count) == (1, played)
            assert tape.requests[0].uri == f"{server.url}/chat/completions"
    assert len(server.requests) == 1


def test_a_second_cassette_is_recorded_by_an_llm_with_open_connections(
    api: API, server: Loopback, tmp_path: Path
) -> None:
    """A pooled connection must not keep what the first cassette patched: the second would stay empty."""
    make = orchestrator(server.url)
    for title in ("No tape", "A", "B", "No tape"):
        server.answer(titled(title))
    assert api.call(make, topic="x").title == "No tape"
    for name in "AB":
        with vcr.use_cassette(str(tmp_path / f"{name}.yaml")) as tape:
            assert api.call(make, topic="x").title == name
            assert len(tape) == 1
    assert api.call(make, topic="x").title == "No tape"
    for name in "AB":
        with vcr.use_cassette(str(tmp_path / f"{name}.yaml"), record_mode="none"):
            assert api.call(make, topic="x").title == name
    assert len(server.requests) == 4


def test_record_mode_none_sends_nothing(api: API, server: Loopback, tmp_path: Path) -> None:
    server.answer(titled("One"))
    make = orchestrator(server.url)
    api.call(make, topic="x")  # its connection stays open
    with (
        vcr.use_cassette(str(tmp_path / "empty.yaml"), record_mode="none"),
        pytest.raises(CannotOverwriteExistingCassetteException),
    ):
        api.call(make, topic="x")
    assert len(server.requests) == 1


def test_a_stream_and_a_retry_on_a_cassette(api: API, server: Loopback, tmp_path: Path) -> None:
    server.answer(whole(b'{"error": {"message": "slow down"}}', 429, JSON))
    server.answer(
        head(200, "transfer-encoding: chunked", "content-type: text/event-stream"), *map(chunk, album_stream()), END
    )
    seen = []
    for _ in range(2):
        make = orchestrator(server.url)
        make.llm.clock = VirtualClock()
        with vcr.use_cassette(str(tmp_path / "stream.yaml")) as tape:
            seen.append(api.stream(make, topic="x").final)
            assert len(tape) == 2
    assert seen[0] == seen[1]
    assert len(server.requests) == 2


def test_a_configured_vcr_with_a_decorator(server: Loopback, tmp_path: Path) -> None:
    server.answer(titled("One"))
    my_vcr = vcr.VCR(
        serializer="json",
        cassette_library_dir=str(tmp_path),
        record_mode="once",
        match_on=["uri", "method"],
        filter_headers=["authorization"],
    )

    @my_vcr.use_cassette("test.json")
    def test() -> str:
        return orchestrator(server.url)(topic="x").title

    @my_vcr.use_cassette("test.json")
    async def atest() -> str:
        return (await orchestrator(server.url).acall(topic="x")).title

    assert test() == test() == anyio.run(atest) == "One"
    assert len(server.requests) == 1
    assert KEY not in (tmp_path / "test.json").read_text()


def test_new_episodes_are_added(server: Loopback, tmp_path: Path) -> None:
    for topics in (["x"], ["x", "y"]):
        server.answer(titled("One"))
        with vcr.use_cassette(
            str(tmp_path / "tape.yaml"), record_mode="new_episodes", match_on=["method", "uri", "body"]
        ) as tape:
            for topic in topics:
                orchestrator(server.url)(topic=topic)
    assert (len(tape), tape.play_count, len(server.requests)) == (2, 1, 2)


def test_before_record_request(server: Loopback, tmp_path: Path) -> None:
    server.answer(titled("One"))

    def before_record_cb(request: Any) -> Any:
        request.headers["authorization"] = "hidden"
        return request

    with vcr.use_cassette(str(tmp_path / "tape.yaml"), before_record_request=before_record_cb):
        orchestrator(server.url)(topic="x")
    text = (tmp_path / "tape.yaml").read_text()
    assert "hidden" in text
    assert KEY not in text


# -- respx: https://lundberg.github.io/respx/guide --------------------------------------------------------------------

URL = "https://foo.bar/api"
PATH = f"{URL}/chat/completions"


def answer(title: str = "Mocked") -> httpx.Response:
    body = album_body(json.dumps({"title": title, "artist": "A", "songs": []}))
    return httpx.Response(200, content=body, headers={"content-type": "application/json"})


def test_a_mocked_route(api: API) -> None:
    with respx.mock:
        route = respx.post(PATH).mock(return_value=answer())
        assert api.call(orchestrator(URL), topic="x").title == "Mocked"
        assert route.called
        assert route.call_count == 1
        assert json.loads(route.calls.last.request.content)["model"] == "m-1"


@respx.mock
def test_the_decorator() -> None:
    respx.post(PATH).mock(return_value=answer())
    assert orchestrator(URL)(topic="x").title == "Mocked"


@respx.mock
async def test_the_decorator_of_an_async_test(anyio_backend: str) -> None:
    respx.post(PATH).mock(return_value=answer())
    assert (await orchestrator(URL).acall(topic="x")).title == "Mocked"


@pytest.mark.respx(base_url=URL)
def test_the_fixture(respx_mock: respx.MockRouter) -> None:
    respx_mock.post("/chat/completions", json__model="m-1").mock(return_value=answer())
    assert orchestrator(URL)(topic="x").title == "Mocked"


def test_side_effects(api: API) -> None:
    make = orchestrator(URL)
    make.llm.clock = VirtualClock()
    with respx.mock(base_url=URL) as mocked:
        route = mocked.post("/chat/completions")
        route.side_effect = [httpx.Response(429), httpx.ConnectError("refused"), answer("After two retries")]
        result = api.run(make, topic="x")
        assert result.output.title == "After two retries"
        assert [type(attempt.error) for attempt in result.attempts] == [RateLimited, ConnectFailed, type(None)]
        route.side_effect = lambda request: answer(json.loads(request.content)["messages"][0]["content"])
        assert api.call(make, topic="the sea").title == "about the sea"


def test_a_mocked_stream(api: API) -> None:
    class Broken(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield from album_stream()[:4]
            raise httpx.ReadError("reset")

        async def __aiter__(self) -> Any:
            for piece in self:
                yield piece

    headers = {"content-type": "text/event-stream"}
    with respx.mock:
        respx.post(PATH).mock(side_effect=[
            httpx.Response(200, content=b"".join(album_stream()), headers=headers),
            httpx.Response(200, stream=Broken(), headers=headers),
        ])  # fmt: skip
        make = orchestrator(URL, max_retries=0)
        assert api.stream(make, topic="x").final.title == "Sea of Glass"
        assert isinstance(api.stream(make, topic="x").error, StreamInterrupted)


def test_a_router_is_left_again(api: API, server: Loopback) -> None:
    """With a connection that was open before."""
    make = orchestrator(server.url)
    for _ in range(2):
        server.answer(titled("Real"))
    assert api.call(make, topic="x").title == "Real"
    with respx.mock:
        respx.post(f"{server.url}/chat/completions").mock(return_value=answer())
        assert api.call(make, topic="x").title == "Mocked"
    assert api.call(make, topic="x").title == "Real"
    with respx.mock:
        respx.route(host="127.0.0.1").pass_through()
        server.answer(titled("Passed through"))
        assert api.call(make, topic="x").title == "Passed through"
    assert len(server.requests) == 3
