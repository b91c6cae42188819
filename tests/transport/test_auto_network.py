"""`network="auto"`: aiohttp under asyncio where it is installed, and httpx for every other call."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import anyio
import pytest

from support.albums import SEA, Album
from support.chunks import album_body
from support.loopback import Loopback, Request, whole
from support.process import Process
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.transport.network_choice import AutoNetwork
from toolcast.values.http_request import HTTPRequest


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        server.answer(whole(album_body()))
        server.answer(whole(album_body()))
        yield server
    gc.collect()


def maker(server: Loopback) -> ToolOrchestratingLLM[Album]:
    llm = OpenAI("m-1", api_key="sk-1", base_url=f"http://127.0.0.1:{server.port}/v1", network="auto")
    return ToolOrchestratingLLM(Album, "x", llm)


def library(request: Request) -> str:
    """The library that sent a request: only aiohttp writes `Host` with a capital."""
    return "aiohttp" if b"\r\nHost:" in request.raw else "httpx"


def test_a_sync_call_takes_httpx(server: Loopback) -> None:
    make = maker(server)
    assert make() == SEA
    assert library(server.requests[0]) == "httpx"
    make.llm.close()
    server.wait_open(0)


@pytest.mark.parametrize(("backend", "taken"), [("asyncio", "aiohttp"), ("trio", "httpx")])
def test_an_async_call_takes_what_its_loop_can(server: Loopback, backend: str, taken: str) -> None:
    async def main() -> None:
        make = maker(server)
        assert [await make.acall(), await make.acall()] == [SEA, SEA]
        assert [library(request) for request in server.requests] == [taken] * 2
        assert server.accepted == 1
        network = make.llm.network
        assert isinstance(network, AutoNetwork)
        assert network.connections_in_use == 0
        reply = await network.aopen(HTTPRequest("POST", server.url, {}, b""), connect=20.0, read=20.0)
        assert network.connections_in_use == 1
        await reply.aclose()
        await make.llm.aclose()
        make.llm.close()

    anyio.run(main, backend=backend)
    server.wait_open(0)


@pytest.mark.parametrize("missing", ["aiohttp", "httpx2"])
def test_what_is_installed_is_taken(server: Loopback, process: Process, missing: str) -> None:
    process.without(missing)
    anyio.run(maker(server).acall)
    assert library(server.requests[0]) == ("httpx" if missing == "aiohttp" else "aiohttp")
    network = AutoNetwork()
    network.open(HTTPRequest("POST", server.url, {}, b""), connect=20.0, read=20.0).close()
    assert network._httpx._clients.sync().library.__name__ == ("httpx" if missing == "httpx2" else "httpx2")
    network.close()


def test_it_has_one_network_of_each_kind(server: Loopback) -> None:
    """Of two networks one would be collected, and its responses closed."""
    network = AutoNetwork()
    request = HTTPRequest("POST", server.url, {}, b"")

    async def main() -> None:
        replies = [await network.aopen(request, connect=20.0, read=20.0) for _ in range(2)]
        gc.collect()
        assert network.connections_in_use == 2
        assert [len(await reply.read(20.0)) for reply in replies] == [len(album_body())] * 2

    anyio.run(main)
    anyio.run(network.aclose)
    network.close()
