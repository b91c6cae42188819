"""The network over aiohttp behaves as the default one: the same scenarios, async only."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from support import advancing_loop
from support.advancing_loop import AdvancingLoop
from support.loopback import CLOSE, HOLD, RESET, Loopback, Piece, chunk, head, whole
from support.process import Process
from toolcast.errors import BadRequest, LLMError, StreamClosed, StreamInterrupted, Timeout
from toolcast.llms import AiohttpNetwork
from toolcast.transport.network import AsyncBackend, Body, IOBackend
from toolcast.values.http_request import HTTPRequest
from transport import test_httpx_connections as connections, test_network as httpx_network_tests
from transport.test_network import API, CHUNKED, get, opened, request_to, rest

# The scenarios of the default network once more: each of these takes the fixtures of this file.
SAME: list[Callable[..., None]] = [
    httpx_network_tests.test_an_answer_arrives_piece_by_piece,
    httpx_network_tests.test_a_connection_is_used_again,
    httpx_network_tests.test_every_status_is_an_answer,
    httpx_network_tests.test_a_thousand_headers_and_a_giant_one,
    httpx_network_tests.test_a_broken_body_does_not_look_complete,
    httpx_network_tests.test_no_one_there,
    httpx_network_tests.test_no_address_at_all,
    httpx_network_tests.test_a_header_cannot_smuggle,
    httpx_network_tests.test_time_limits,
    httpx_network_tests.test_a_half_closed_connection_is_not_waited_for,
    httpx_network_tests.test_compressed_pieces_come_before_the_end,
    httpx_network_tests.test_a_stale_connection_is_replaced_once,
    httpx_network_tests.test_closing_early_gives_the_connection_back,
    httpx_network_tests.test_a_forgotten_answer_gives_the_connection_back,
    httpx_network_tests.test_closing_a_network,
    httpx_network_tests.test_a_child_leaves_its_parents_connections_alone,
    connections.test_a_cancelled_read_gives_the_connection_back,
    connections.test_a_cancelled_opening_gives_the_connection_back,
    connections.test_closing_while_cancelled_still_closes,
    connections.test_a_read_cancelled_again_and_again,
    connections.test_an_opening_cancelled_again_and_again,
    connections.test_two_readers_and_a_closer,
    connections.test_closing_from_outside_asks_the_loop,
    connections.test_a_loop_that_was_never_shut_down_is_forgotten,
]
globals().update({scenario.__name__: scenario for scenario in SAME})

# The table of faults, of which each scenario makes its own network.
BREAKS = next(
    mark for mark in httpx_network_tests.test_what_breaks_is_reported.pytestmark if mark.name == "parametrize"
)  # type: ignore[attr-defined]  # pytest sets it


@pytest.fixture
def api() -> API:
    return API("asyncio")


@pytest.fixture
def backend() -> str:
    return "asyncio"


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server
    gc.collect()


@pytest.fixture
def network() -> Iterator[AiohttpNetwork]:
    network = AiohttpNetwork()
    yield network
    network.close()
    gc.collect()


@pytest.fixture
def single() -> Iterator[AiohttpNetwork]:
    network = AiohttpNetwork(max_connections=1)
    yield network
    network.close()
    gc.collect()


@pytest.mark.parametrize(*BREAKS.args)
def test_what_breaks_is_reported(api: API, server: Loopback, answer: tuple[Piece, ...], error: type[LLMError]) -> None:
    network = AiohttpNetwork(max_inflated=1 << 20)
    server.answer(*answer)
    with pytest.raises(error) as caught:
        api(network, lambda backend: get(backend, server))
    assert caught.value.retryable == (error is StreamInterrupted)


def test_what_had_come_before_the_break_is_read_first(api: API, server: Loopback, network: AiohttpNetwork) -> None:
    gate = threading.Event()
    server.answer(CHUNKED, chunk(b"one"), gate, chunk(b"two"), chunk(b"three"), CLOSE)

    async def work(backend: IOBackend) -> None:
        body = await opened(backend, server)
        assert await body.read(5.0) == b"one"
        gate.set()
        await asyncio.to_thread(server.wait_open, 0)
        await connections.ticks(10)  # the loop reads all of it, and the end
        assert await body.read(5.0) == b"twothree"
        with pytest.raises(StreamInterrupted):
            await body.read(5.0)

    api(network, work)


@pytest.mark.parametrize("at_once", [True, False])
def test_more_than_the_content_length(api: API, server: Loopback, network: AiohttpNetwork, at_once: bool) -> None:
    """It is never read. Where it comes along with the headers, one of aiohttp's two parsers refuses it all."""
    start = head(200, "content-length: 3")
    gate = threading.Event()
    pieces: list[Piece] = [start + b"one and more"] if at_once else [start, gate, b"one and more"]
    server.answer(*pieces, CLOSE)

    async def work(backend: IOBackend) -> bytes | str:
        try:
            body = await opened(backend, server)
        except StreamInterrupted as error:
            return error.message
        gate.set()
        return b"".join(await rest(body))

    refused = f"the connection to 127.0.0.1:{server.port} broke: what came is not HTTP. Send the request again."
    assert api(network, work) in ([b"one", refused] if at_once else [b"one"])


def test_headers_that_come_twice_or_are_no_text(api: API, server: Loopback, network: AiohttpNetwork) -> None:
    start = (
        b"HTTP/1.1 200 OK\r\nX-Twice: a\r\nx-tWice: b\r\nX-Utf: \xc3\xa9\r\nX-Latin: \xe9\r\ncontent-length: 0\r\n\r\n"
    )
    server.answer(start)

    async def work(backend: IOBackend) -> None:
        headers = (await opened(backend, server)).headers
        assert headers == {"x-twice": "a, b", "x-utf": "é", "x-latin": "\ufffd", "content-length": "0"}

    api(network, work)


def test_a_large_body_is_sent_whole_and_again(api: API, server: Loopback, network: AiohttpNetwork) -> None:
    request = HTTPRequest("POST", server.url, {}, os.urandom(3_000_000))
    server.answer(whole(b""))
    server.answer(RESET)
    server.answer(whole(b"ok"))

    async def work(backend: IOBackend) -> None:
        await get(backend, server)
        body = await backend.open(request, connect=5.0, read=5.0)
        assert await rest(body) == [b"ok"]

    api(network, work)
    assert [sent.body == request.body for sent in server.requests] == [False, True, True]


def test_an_upload_that_no_one_takes_is_broken_off(api: API, network: AiohttpNetwork) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        request = HTTPRequest("POST", url, {}, bytes(50_000_000))

        async def work(backend: IOBackend) -> int:
            with pytest.raises(Timeout) as caught:
                await backend.open(request, connect=5.0, read=0.05)
            assert caught.value.phase == "first_token"
            return await asyncio.to_thread(swallowed)

        def swallowed() -> int:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(5.0)
                return sum(iter(lambda: len(connection.recv(1 << 20)), 0))

        assert api(network, work) < len(request.body)


def test_no_free_connection_in_time(api: API, server: Loopback) -> None:
    network = AiohttpNetwork(max_connections=1)
    server.answer(CHUNKED, HOLD)

    async def work(backend: IOBackend) -> None:
        first = await opened(backend, server)
        with pytest.raises(Timeout) as caught:
            await backend.open(request_to(server), connect=0.02, read=5.0)
        assert caught.value.phase == "connect"
        await first.close()
        assert await get(backend, server) == (200, b"")

    api(network, work)


def test_a_cancellation_wins_over_the_limit(server: Loopback, network: AiohttpNetwork) -> None:
    """Who was cancelled in the moment in which the time was over has been cancelled."""

    async def main() -> None:
        loop = AdvancingLoop.running()
        for cancelled, error in ((True, asyncio.CancelledError), (False, Timeout)):
            server.answer(HOLD)
            task = asyncio.create_task(network.aopen(request_to(server), connect=100.0, read=100.0))
            await asyncio.to_thread(server.wait_requests, 2 - cancelled)
            if cancelled:
                loop.call_soon(task.cancel)
            loop.advance(1000.0)  # the timer fires in the same step of the loop, after the cancellation
            with pytest.raises(error):
                await task

    advancing_loop.run(main())


def test_a_loop_that_ends_takes_its_connections_along(server: Loopback, network: AiohttpNetwork) -> None:
    held: list[Body] = []
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def work(backend: IOBackend) -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        server.answer(CHUNKED, chunk(b"one"), HOLD)
        held.append(await opened(backend, server))
        assert await held[-1].read(5.0) == b"one"
        assert await get(backend, server) == (200, b"")

    for _ in range(2):
        API("asyncio")(network, work)
        server.wait_open(0)
        assert network.connections_in_use == 0
    with pytest.raises(StreamClosed):
        API("asyncio")(network, lambda _: held[0].read(1.0))
    del held[:]
    gc.collect()
    assert [loop() for loop in loops] == [None, None]


def test_a_forked_child_opens_its_own_connection(server: Loopback, network: AiohttpNetwork, process: Process) -> None:
    async def main() -> None:
        backend = AsyncBackend(network)
        assert await get(backend, server) == (200, b"")
        with process.as_child():
            assert await get(backend, server) == (200, b"")
            await network.aclose()
        assert await get(backend, server) == (200, b"")

    anyio.run(main)
    assert server.accepted == 2


def test_a_network_that_is_collected_closes_its_sessions(server: Loopback) -> None:
    async def main() -> None:
        network = AiohttpNetwork()
        assert await get(AsyncBackend(network), server) == (200, b"")
        assert server.open == 1
        del network
        gc.collect()
        await asyncio.to_thread(server.wait_open, 0)

    anyio.run(main)


def test_closing_while_another_waits_for_its_answer(api: API, server: Loopback, network: AiohttpNetwork) -> None:
    async def work(backend: IOBackend) -> None:
        assert await get(backend, server) == (200, b"")
        server.answer(HOLD)
        task = asyncio.ensure_future(opened(backend, server))
        await asyncio.to_thread(server.wait_requests, 2)
        await network.aclose()
        with pytest.raises(StreamInterrupted):
            await task
        assert await get(backend, server) == (200, b"")

    api(network, work)
    assert server.accepted == 2


def test_a_connection_that_is_lost_before_it_was_had(api: API, network: AiohttpNetwork) -> None:
    class Lost:
        closed = None

    async def work(backend: IOBackend) -> None:
        # No server can close a connection between two steps of aiohttp that have no await in between.
        connector: Any = network._clients.running()._connector
        assert connector._new(Lost()).active is None

    api(network, work)


@pytest.mark.parametrize("end", ["stopped", "closed"])
def test_a_loop_that_was_left_lying_about(end: str) -> None:
    """aiohttp warns about sessions that were not closed; the caller has no access to them."""
    program = f"""
import asyncio, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from support.loopback import HOLD, Loopback, whole
from toolcast.llms import AiohttpNetwork
from toolcast.providers.base import HTTPRequest

async def main():
    request = HTTPRequest("POST", server.url, {{}}, b"")
    server.answer(whole(b""))
    reply = await network.aopen(request, connect=5, read=5)
    assert await reply.read(5) == b""
    server.answer(whole(b"two")[:-1], HOLD)
    replies.append(await network.aopen(request, connect=5, read=5))

network, replies = AiohttpNetwork(), []
server = Loopback().__enter__()
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
if {end!r} == "closed":
    loop.close()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_sync_call_is_refused(server: Loopback, network: AiohttpNetwork, backend: str) -> None:
    for api in (API("sync"), API(f"sync in {backend}")):
        with pytest.raises(BadRequest, match="async method"):
            api(network, lambda backend: opened(backend, server))
    network.close()
    assert server.accepted == 0


def test_trio_is_refused(server: Loopback, network: AiohttpNetwork) -> None:
    async def work(backend: IOBackend) -> None:
        with pytest.raises(BadRequest, match="under asyncio, not under trio"):
            await opened(backend, server)
        await network.aclose()

    API("trio")(network, work)
    assert server.accepted == 0


def test_without_aiohttp(api: API, server: Loopback, network: AiohttpNetwork, process: Process) -> None:
    process.without("aiohttp", unload=["toolcast.transport.aiohttp_connections"])
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[aiohttp\]'"):
        api(network, lambda backend: opened(backend, server))


def test_aiohttp_is_loaded_by_the_first_request() -> None:
    program = "import sys, toolcast; toolcast.OpenAI('m', network='aiohttp'); sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
