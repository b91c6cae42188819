"""HttpxNetwork against a real server, through every API: sync, asyncio, trio, and sync in a running loop."""

from __future__ import annotations

import gc
import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import pytest

from support.loopback import CLOSE, END, HALF_CLOSE, HOLD, RESET, Loopback, Piece, chunk, head, whole
from support.process import Process
from toolcast.async_support import sync_driver
from toolcast.errors import (
    BadRequest,
    ConnectFailed,
    LimitExceeded,
    LLMError,
    MalformedEvent,
    StreamClosed,
    StreamInterrupted,
    Timeout,
)
from toolcast.testing import Recorded, ReplayNetwork
from toolcast.transport.httpx_network import HttpxNetwork
from toolcast.transport.network import AsyncBackend, Body, IOBackend, Network, SyncBackend, SystemClock, read_body
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPRequest

pytestmark = pytest.mark.usefixtures("library")

KEY = "sk-canary-0123456789"
CHUNKED = head(200, "Content-Type: text/event-stream", "transfer-encoding: chunked")
Work = Callable[[IOBackend], Awaitable[Any]]


class API:
    """A runner of coroutines that await an `IOBackend`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.backend = name.removeprefix("sync in ")
        self.is_async = self.backend == name != "sync"

    def __call__(self, network: Network, work: Work) -> Any:
        if self.name == "sync":
            return sync_driver.run(work(SyncBackend(network)))

        async def main() -> Any:
            if self.is_async:
                return await work(AsyncBackend(network))
            return sync_driver.run(work(SyncBackend(network)))

        return anyio.run(main, backend=self.backend)


@pytest.fixture(params=["sync", "asyncio", "trio", "sync in asyncio", "sync in trio"])
def api(request: pytest.FixtureRequest) -> API:
    return API(request.param)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server
    gc.collect()


@pytest.fixture
def network() -> Iterator[HttpxNetwork]:
    network = HttpxNetwork()
    yield network
    network.close()
    gc.collect()


def request_to(server: Loopback | str, **headers: str) -> HTTPRequest:
    url = server if isinstance(server, str) else server.url
    return HTTPRequest("POST", url, {"X-Api-Key": Secret(KEY), **headers}, b'{"model": "m"}')


async def opened(backend: IOBackend, server: Loopback | str, seconds: float = 5.0) -> Body:
    return await backend.open(request_to(server), connect=seconds, read=seconds)


async def rest(body: Body) -> list[bytes]:
    pieces = []
    while data := await body.read(5.0):
        pieces.append(data)
    return pieces


async def get(backend: IOBackend, server: Loopback | str) -> tuple[int, bytes]:
    """Status and whole body."""
    body = await opened(backend, server)
    return body.status, b"".join(await rest(body))


def test_an_answer_arrives_piece_by_piece(api: API, server: Loopback, network: HttpxNetwork) -> None:
    gate = threading.Event()
    server.answer(CHUNKED, chunk(b"one"), gate, chunk(b"two"), END)

    async def work(backend: IOBackend) -> None:
        body = await opened(backend, server)
        assert (body.status, body.headers["content-type"]) == (200, "text/event-stream")
        assert await body.read(5.0) == b"one"
        gate.set()
        assert await body.read(None) == b"two"
        assert [await body.read(5.0), await body.read(5.0)] == [b"", b""]
        await body.close()
        await body.close()

    api(network, work)
    sent = server.requests[0]
    assert (sent.line, sent.body) == ("POST /v1/chat HTTP/1.1", b'{"model": "m"}')
    assert (sent.headers["x-api-key"], sent.headers["accept-encoding"]) == (KEY, "identity")


def test_a_connection_is_used_again(api: API, server: Loopback, network: HttpxNetwork) -> None:
    async def work(backend: IOBackend) -> None:
        for _ in range(3):
            server.answer(CHUNKED, chunk(b"one"), END)
            assert await get(backend, server) == (200, b"one")

    api(network, work)
    assert server.accepted == 1


@pytest.mark.fault(34)
@pytest.mark.parametrize("status", [204, 301, 302, 307, 404, 500])
def test_every_status_is_an_answer(api: API, server: Loopback, network: HttpxNetwork, status: int) -> None:
    with Loopback() as elsewhere:
        body = b"" if status == 204 else b"why"
        for location in (elsewhere.url, "http://x:port/"):
            server.answer(whole(body, status, f"location: {location}"))
            assert api(network, lambda backend: get(backend, server)) == (status, body)
        assert elsewhere.accepted == 0


@pytest.mark.fault(36)
def test_a_thousand_headers_and_a_giant_one(api: API, server: Loopback, network: HttpxNetwork) -> None:
    server.answer(whole(b"ok", 200, *(f"x-{number}: {number}" for number in range(1000))))
    assert api(network, lambda backend: get(backend, server)) == (200, b"ok")
    server.answer(head(200, "x: " + "y" * 1_000_000))
    with pytest.raises(StreamInterrupted):
        api(network, lambda backend: get(backend, server))


@pytest.mark.fault(5, 6, 7, 8, 11, 18, 19, 20)
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((RESET,), StreamInterrupted),
        ((CLOSE,), StreamInterrupted),
        ((b"HTTP/1.1 200 OK\r\nx-", CLOSE), StreamInterrupted),
        ((b"SSH-2.0-OpenSSH\r\n", CLOSE), StreamInterrupted),
        ((CHUNKED, RESET), StreamInterrupted),
        ((CHUNKED, chunk(b"one"), RESET), StreamInterrupted),
        ((CHUNKED, chunk(b"one"), CLOSE), StreamInterrupted),
        ((CHUNKED, b"5\r\non", CLOSE), StreamInterrupted),
        ((CHUNKED, b"zz\r\n", CLOSE), StreamInterrupted),
        ((head(200, "content-length: 10"), b"one", CLOSE), StreamInterrupted),
        ((whole(gzip.compress(b"one" * 50)[:-9], 200, "content-encoding: gzip"),), StreamInterrupted),
        ((whole(b"not gzip", 200, "content-encoding: gzip"),), MalformedEvent),
        ((whole(b"br?", 200, "content-encoding: br"),), MalformedEvent),
        ((whole(gzip.compress(bytes(1 << 21)), 200, "content-encoding: gzip"),), LimitExceeded),
    ],
)
def test_what_breaks_is_reported(api: API, server: Loopback, answer: tuple[Piece, ...], error: type[LLMError]) -> None:
    network = HttpxNetwork(max_inflated=1 << 20)
    server.answer(*answer)
    with pytest.raises(error) as caught:
        api(network, lambda backend: get(backend, server))
    assert caught.value.retryable == (error is StreamInterrupted)
    network.close()


@pytest.mark.fault(38)
def test_answers_on_the_way_are_passed_over(api: API, server: Loopback, network: HttpxNetwork) -> None:
    server.answer(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", whole(b"ok"))
    assert api(network, lambda backend: get(backend, server)) == (200, b"ok")


@pytest.mark.fault(38)
def test_a_server_that_says_it_closes_is_connected_to_anew(api: API, server: Loopback, network: HttpxNetwork) -> None:
    async def work(backend: IOBackend) -> None:
        for _ in range(2):
            server.answer(whole(b"ok", 200, "connection: close"), CLOSE)
            assert await get(backend, server) == (200, b"ok")

    api(network, work)
    assert server.accepted == 2


def test_a_broken_body_does_not_look_complete(api: API, server: Loopback, network: HttpxNetwork) -> None:
    server.answer(CHUNKED, chunk(b"one"), RESET)

    async def work(backend: IOBackend) -> None:
        body = await opened(backend, server)
        with pytest.raises(StreamInterrupted):
            await rest(body)
        for _ in range(2):
            with pytest.raises(StreamClosed):
                await body.read(1.0)

    api(network, work)


@pytest.mark.fault(11)
def test_more_than_the_content_length_is_ignored(api: API, server: Loopback, network: HttpxNetwork) -> None:
    server.answer(head(200, "content-length: 3"), b"one and more", CLOSE)
    assert api(network, lambda backend: get(backend, server)) == (200, b"one")


@pytest.mark.fault(3)
def test_no_one_there(api: API, network: HttpxNetwork) -> None:
    with Loopback() as gone:
        refused = gone.url
    for url in (refused, "http://nohost.invalid/v1"):
        with pytest.raises(ConnectFailed) as caught:
            api(network, lambda backend, url=url: get(backend, url))
        assert caught.value.retryable


@pytest.mark.fault(3, 37)
@pytest.mark.parametrize("url", ["no-scheme/v1", "ftp://127.0.0.1/", "http://[::1/", "http://\0/"])
def test_no_address_at_all(api: API, network: HttpxNetwork, url: str) -> None:
    with pytest.raises(BadRequest):
        api(network, lambda backend: get(backend, url))


@pytest.mark.fault(3)
@pytest.mark.parametrize("host", ["a" * 70 + ".invalid", "ex..ample.invalid", ".", "1" * 300])
def test_a_name_that_no_host_can_have(api: API, network: HttpxNetwork, host: str) -> None:
    """The system cannot even ask for it: the codec for such names raises a `UnicodeError`."""
    with pytest.raises((BadRequest, ConnectFailed)) as caught:
        api(network, lambda backend: get(backend, f"http://{host}/v1"))
    assert host[:60] in str(caught.value)


@pytest.mark.fault(36)
@pytest.mark.parametrize("name", ["x", "x-api-key"])
@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\0", "schlüssel"])
def test_a_header_cannot_smuggle(api: API, server: Loopback, network: HttpxNetwork, name: str, value: str) -> None:
    request = HTTPRequest("POST", server.url, {name: Secret(KEY + value)}, b"")

    async def work(backend: IOBackend) -> None:
        await backend.open(request, connect=1.0, read=1.0)

    with pytest.raises(BadRequest, match=repr(name)) as caught:
        api(network, work)
    assert KEY not in str(caught.value)
    with pytest.raises(BadRequest, match="not a header's name"):
        api(network, lambda backend: backend.open(request_to(server, **{"a b": "c"}), connect=1, read=1))
    assert server.accepted == 0


@pytest.mark.fault(14, 15)
def test_time_limits(api: API, server: Loopback, network: HttpxNetwork) -> None:
    server.answer(HOLD)

    async def silent(backend: IOBackend) -> None:
        with pytest.raises(Timeout) as caught:
            await backend.open(request_to(server), connect=5.0, read=0.05)
        assert caught.value.phase == "first_token"

    async def stalled(backend: IOBackend) -> None:
        body = await backend.open(request_to(server), connect=5.0, read=None if api.is_async else 0.5)
        assert await body.read(5.0) == b"one"
        with pytest.raises(TimeoutError):
            await body.read(0.05)
        with pytest.raises(StreamClosed):
            await body.read(0.05)

    api(network, silent)
    server.answer(head(200, "content-length: 9"), b"one", HOLD)
    api(network, stalled)
    server.wait_open(0)


@pytest.mark.fault(12)
def test_a_half_closed_connection_is_not_waited_for(api: API, server: Loopback, network: HttpxNetwork) -> None:
    server.answer(CHUNKED, chunk(b"one"), HALF_CLOSE, HOLD)
    with pytest.raises(StreamInterrupted):
        api(network, lambda backend: get(backend, server))
    server.wait_open(0)


@pytest.mark.fault(17)
def test_compressed_pieces_come_before_the_end(api: API, server: Loopback, network: HttpxNetwork) -> None:
    packed = gzip.compress(os.urandom(5000))
    gate = threading.Event()
    server.answer(
        head(200, "content-encoding: gzip", "transfer-encoding: chunked"),
        *(chunk(packed[:4000]), gate, chunk(packed[4000:]), END),
    )

    async def work(backend: IOBackend) -> bytes:
        body = await opened(backend, server)
        first = await body.read(5.0)
        gate.set()
        return b"".join([first, *await rest(body)])

    assert api(network, work) == gzip.decompress(packed)


@pytest.mark.fault(13)
def test_a_stale_connection_is_replaced_once(api: API, server: Loopback, network: HttpxNetwork) -> None:
    async def work(backend: IOBackend) -> Any:
        assert await get(backend, server) == (200, b"")
        return await get(backend, server)

    for end in (CLOSE, RESET):
        server.answer(whole(b""))
        server.answer(end)
        server.answer(whole(b"again"))
        assert api(network, work) == (200, b"again")
    assert len(server.requests) == 6
    server.answer(whole(b""))
    server.answer(b"HTTP/9.9 nonsense\r\n\r\n", CLOSE)
    with pytest.raises(StreamInterrupted):
        api(network, work)
    assert len(server.requests) == 8


def test_closing_early_gives_the_connection_back(api: API, server: Loopback, network: HttpxNetwork) -> None:
    async def work(backend: IOBackend) -> None:
        for reads in (0, 1):
            server.answer(CHUNKED, chunk(b"one"), HOLD)
            body = await opened(backend, server)
            for _ in range(reads):
                await body.read(5.0)
            assert server.open == 1
            await body.close()
            await anyio.to_thread.run_sync(server.wait_open, 0) if api.is_async else server.wait_open(0)
            with pytest.raises(StreamClosed):
                await body.read(5.0)

    api(network, work)


@pytest.mark.parametrize("reads", [0, 1])
@pytest.mark.parametrize("cyclic", [False, True])
def test_a_forgotten_answer_gives_the_connection_back(
    api: API, server: Loopback, network: HttpxNetwork, reads: int, cyclic: bool
) -> None:
    server.answer(CHUNKED, chunk(b"one"), HOLD)

    async def work(backend: IOBackend) -> None:
        held: list[Any] = [await opened(backend, server)]
        if reads:
            assert await held[0].read(5.0) == b"one"
        if cyclic:
            held.append(held)
        del held
        gc.collect()
        await anyio.to_thread.run_sync(server.wait_open, 0) if api.is_async else server.wait_open(0)
        assert await get(backend, server) == (200, b"")

    api(network, work)


@pytest.mark.fault(107)
def test_a_loop_that_ends_takes_its_connections_along(server: Loopback, network: HttpxNetwork) -> None:
    held: list[Body] = []

    async def work(backend: IOBackend) -> None:
        server.answer(CHUNKED, chunk(b"one"), HOLD)
        held.append(await opened(backend, server))
        assert await held[-1].read(5.0) == b"one"
        assert await get(backend, server) == (200, b"")

    for backend in ("asyncio", "trio", "asyncio", "trio"):
        API(backend)(network, work)
        server.wait_open(0)
        gc.collect()
    for api, body in zip(("asyncio", "trio"), held[2:], strict=True):
        with pytest.raises(StreamClosed):
            API(api)(network, lambda _, body=body: body.read(1.0))


def test_closing_a_network(api: API, server: Loopback, network: HttpxNetwork) -> None:
    async def work(backend: IOBackend) -> None:
        for _ in range(2):
            server.answer(CHUNKED, chunk(b"one"), HOLD)
            body = await opened(backend, server)
            await network.aclose() if api.is_async else network.close()
            await anyio.to_thread.run_sync(server.wait_open, 0) if api.is_async else server.wait_open(0)
            with pytest.raises(StreamClosed):
                await body.read(1.0)

    api(network, work)


@pytest.mark.fault(108)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_opens_its_own_connection(server: Loopback, network: HttpxNetwork) -> None:
    assert API("sync")(network, lambda backend: get(backend, server)) == (200, b"")
    child = os.fork()
    if child == 0:
        fine = API("sync")(network, lambda backend: get(backend, server)) == (200, b"")
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert server.accepted == 2
    assert API("sync")(network, lambda backend: get(backend, server)) == (200, b"")
    assert server.accepted == 2


def test_a_child_leaves_its_parents_connections_alone(
    server: Loopback, network: HttpxNetwork, process: Process
) -> None:
    async def main() -> None:
        server.answer(whole(b"one"))
        body = await opened(AsyncBackend(network), server)
        with process.as_child():
            network.close()
        assert await rest(body) == [b"one"]

    anyio.run(main)


def test_the_real_clock() -> None:
    clock = SystemClock()
    assert clock.now() <= clock.now()
    assert clock.time() > 1.7e9
    for backend in (SyncBackend(HttpxNetwork(), clock), AsyncBackend(HttpxNetwork(), clock)):
        assert backend.now() <= backend.now()
        assert backend.time() > 1.7e9
    sync_driver.run(SyncBackend(HttpxNetwork()).sleep(0.0))
    anyio.run(AsyncBackend(HttpxNetwork()).sleep, 0.0)


@pytest.mark.parametrize(("limit", "read"), [(100, b"abcdef"), (4, b"abcdef"), (3, b"abcd"), (0, b"ab"), (2, b"abcd")])
def test_a_body_is_read_until_its_limit_is_passed(limit: int, read: bytes) -> None:
    network = ReplayNetwork(Recorded.of("abcdef", piece=2))
    reply = network.open(HTTPRequest("GET", "http://127.0.0.1/", {}, b""), connect=None, read=None)
    assert read_body(reply, 1.0, limit) == read


def test_a_sync_request_does_not_import_asyncio(server: Loopback) -> None:
    server.answer(whole(b"{}"))
    program = f"""
import sys
from toolcast.llms import HttpxNetwork
from toolcast.values.http_request import HTTPRequest
network = HttpxNetwork()
response = network.open(HTTPRequest("POST", {server.url!r}, {{}}, b""), connect=30, read=30)
assert response.read(30) == b"{{}}"
sys.exit("asyncio" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
