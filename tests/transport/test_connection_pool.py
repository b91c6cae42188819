"""Which connection a request takes, and how many there may be."""

from __future__ import annotations

import asyncio
import gc
import threading
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest

from support.loopback import HOLD, RESET, Loopback, chunk, head, whole
from support.process import Process
from support.transports import replaced_transport
from toolcast.errors import ConnectFailed, StreamInterrupted, Timeout
from toolcast.transport.connection_pool import EXPIRY, ConnectionPool, PooledConnection, SingleConnection, origin_of
from toolcast.transport.httpx_network import HttpxNetwork
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPRequest

pytestmark = pytest.mark.usefixtures("library")

HERE, THERE = "http://here:80", "http://there:80"
CHUNKED = head(200, "transfer-encoding: chunked")


class Way:
    """A replacement for the transport of a connection."""

    def handle_request(self, request: object) -> object:
        return request


@pytest.fixture
def pool() -> ConnectionPool:
    return ConnectionPool(httpx, Way, 20)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server
    gc.collect()


def request_to(url: str, **headers: str) -> HTTPRequest:
    return HTTPRequest("POST", url, {"x-api-key": Secret("sk-canary-0123456789"), **headers}, b"{}")


def fetch(network: HttpxNetwork, server: Loopback, **headers: str) -> bytes:
    reply = network.open(request_to(server.url, **headers), connect=5.0, read=5.0)
    return b"".join(iter(reply.read, b""))


async def afetch(network: HttpxNetwork, server: Loopback) -> bytes:
    reply = await network.aopen(request_to(server.url), connect=5.0, read=5.0)
    pieces = []
    while data := await reply.read(5.0):
        pieces.append(data)
    return b"".join(pieces)


# ---- which


def test_the_pooled_connection_that_came_back_last_goes_out_first(pool: ConnectionPool) -> None:
    first, second, elsewhere = pool.pick(HERE), pool.pick(HERE), pool.pick(THERE)
    for connection in (second, first, elsewhere):
        assert pool.put(connection, True) == []
    assert [pool.pick(HERE), pool.pick(HERE), pool.pick(THERE)] == [first, second, elsewhere]
    assert pool.pick(HERE) not in (first, second, elsewhere)


def test_a_pooled_connection_whose_answer_was_not_read_to_its_end_is_closed(pool: ConnectionPool) -> None:
    connection = pool.pick(HERE)
    assert pool.put(connection, False) == [connection]
    assert pool.pick(HERE) is not connection


def test_where_no_pooled_connection_may_be_added_the_oldest_changes_over() -> None:
    pool = ConnectionPool(httpx, Way, 10)
    oldest, newest, *_ = [pool.pick(HERE) for _ in range(10)]
    pool.put(oldest, True)
    pool.put(newest, True)
    assert pool.pick(THERE) is oldest
    assert oldest.origin == THERE


def test_a_tenth_is_kept_and_not_for_long() -> None:
    now = 100.0
    pool = ConnectionPool(httpx, Way, 20, now=lambda: now)
    used = [pool.pick(HERE) for _ in range(5)]
    spent = [pool.put(connection, True) for connection in used]
    assert spent == [[], [], [], used[:1], used[1:2]]
    now += EXPIRY + 1
    other = pool.pick(THERE)
    assert pool.put(other, True) == used[2:]
    assert pool.drain() == [other]


def test_what_comes_back_after_the_end_is_closed(pool: ConnectionPool) -> None:
    idle, busy = pool.pick(HERE), pool.pick(HERE)
    pool.put(idle, True)
    assert pool.drain() == [idle]
    assert pool.put(busy, True) == [busy]


def test_a_client_of_the_users_is_the_only_pooled_connection_and_stays() -> None:
    with httpx.Client() as client:
        pool = SingleConnection(httpx, client)
        connection = pool.pick(HERE)
        assert pool.pick(THERE) is connection
        assert connection.transport is client
        assert pool.put(connection, False) == []
        assert pool.drain() == []


def test_how_a_pooled_connection_sends() -> None:
    assert PooledConnection(Way()).send("request") == "request"


def test_a_place_is_read_once() -> None:
    place = origin_of(httpx, "http://Example.com:8080/v1?a=b")
    assert (place.origin, place.headers["host"], place.login) == ("http://example.com:8080", "example.com:8080", {})
    assert origin_of(httpx, "http://Example.com:8080/v1?a=b") is place
    with pytest.raises(httpx.InvalidURL):
        origin_of(httpx, "http://[::1/")


# ---- over a server


def test_what_is_sent_about_the_request(server: Loopback) -> None:
    network = HttpxNetwork()
    server.answer(whole(b"", 200, "set-cookie: session=1"))
    fetch(network, server)
    fetch(network, server, Host="example.com")
    sent = [request.headers for request in server.requests]
    assert sent[0] == {
        "host": f"127.0.0.1:{server.port}",
        "user-agent": "toolcast",
        "content-length": "2",
        "accept-encoding": "identity",
        "x-api-key": "sk-canary-0123456789",
    }
    assert sent[1] == {**sent[0], "host": "example.com"}
    network.close()


def test_a_login_in_the_url(server: Loopback) -> None:
    network = HttpxNetwork()
    url = server.url.replace("//", "//tom:p%40ss@")
    assert network.open(request_to(url, authorization="Bearer none"), connect=5.0, read=5.0).read() == b""
    scheme, _, words = server.requests[0].headers["authorization"].partition(" ")
    assert (scheme, b64decode(words)) == ("Basic", b"tom:p@ss")
    network.close()


def test_many_at_once_and_then_in_turn(server: Loopback) -> None:
    """As many connections as requests at once, of which the next ones use those that are kept."""
    network = HttpxNetwork(max_connections=50)
    gate = threading.Event()
    for _ in range(10):
        server.answer(CHUNKED, gate, chunk(b"ok"), b"0\r\n\r\n")

    async def main() -> None:
        tasks = [asyncio.create_task(afetch(network, server)) for _ in range(10)]
        await asyncio.to_thread(server.wait_requests, 10)
        gate.set()
        assert await asyncio.gather(*tasks) == [b"ok"] * 10
        await asyncio.to_thread(server.wait_open, 6)
        for _ in range(5):
            assert await afetch(network, server) == b""

    asyncio.run(main())
    assert server.accepted == 10
    server.wait_open(0)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_one_more_than_may_be_waits(backend: str, server: Loopback) -> None:
    network = HttpxNetwork(max_connections=1)

    async def main() -> None:
        server.answer(CHUNKED, chunk(b"one"), HOLD)
        reply = await network.aopen(request_to(server.url), connect=5.0, read=5.0)
        with pytest.raises(Timeout) as caught:
            await network.aopen(request_to(server.url), connect=0.01, read=5.0)
        assert caught.value.phase == "connect"
        with anyio.move_on_after(0.01) as scope:
            await afetch(network, server)
        assert scope.cancelled_caught
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(afetch, network, server)
            await anyio.wait_all_tasks_blocked()
            await reply.aclose()
        assert await afetch(network, server) == b""

    anyio.run(main, backend=backend)
    assert server.accepted == 2


def test_one_more_thread_than_may_be_waits(server: Loopback) -> None:
    network = HttpxNetwork(max_connections=1)
    server.answer(CHUNKED, chunk(b"one"), HOLD)
    reply = network.open(request_to(server.url), connect=5.0, read=5.0)
    with pytest.raises(Timeout) as caught:
        network.open(request_to(server.url), connect=0.01, read=5.0)
    assert caught.value.phase == "connect"
    seen: list[bytes] = []
    thread = threading.Thread(target=lambda: seen.append(fetch(network, server)))
    thread.start()
    reply.close()
    thread.join()
    assert (seen, server.accepted) == ([b""], 2)
    network.close()


def test_a_pooled_connection_changes_over_to_another_server(server: Loopback) -> None:
    network = HttpxNetwork(max_connections=1)
    with Loopback() as other:
        for each in (server, other, server):
            assert fetch(network, each) == b""
        assert (server.accepted, other.accepted) == (2, 1)
        other.wait_open(0)
        network.close()
        server.wait_open(0)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_connection_that_cannot_be_made_takes_no_slot(
    server: Loopback, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    network = HttpxNetwork(max_connections=1)
    monkeypatch.setenv("HTTP_PROXY", "nonsense://proxy:1")

    async def aopen() -> None:
        await network.aopen(request_to(server.url), connect=0.01, read=5.0)

    for _ in range(2):
        with pytest.raises(ConnectFailed, match="names a proxy that cannot be used"):
            anyio.run(aopen) if is_async else network.open(request_to(server.url), connect=0.01, read=5.0)
    network.close()


def test_a_pooled_connection_whose_package_is_missing() -> None:
    def make() -> object:
        raise ImportError("Using SOCKS proxy, but the 'socksio' package is not installed.")

    with pytest.raises(ConnectFailed, match="no connection is made: Using SOCKS proxy, but the 'socksio' package"):
        ConnectionPool(httpx, make, 1).pick("http://host")


@pytest.mark.fault(37)
@pytest.mark.parametrize("is_async", [False, True])
def test_where_the_environment_names_a_proxy(server: Loopback, monkeypatch: pytest.MonkeyPatch, is_async: bool) -> None:
    """httpx decides which hosts it is for."""
    network = HttpxNetwork()
    with Loopback() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1/chat"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")

        async def both() -> None:
            for url in (server.url, "http://models.example/v1"):
                assert await (await network.aopen(request_to(url), connect=5.0, read=5.0)).read(5.0) == b""

        if is_async:
            anyio.run(both)
        else:
            for url in (server.url, "http://models.example/v1"):
                assert network.open(request_to(url), connect=5.0, read=5.0).read() == b""
        assert [request.line for request in proxy.requests] == ["POST http://models.example/v1 HTTP/1.1"]
        assert len(server.requests) == 1
        network.close()
        proxy.wait_open(0)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stale_connection_of_a_users_client_is_replaced_too(server: Loopback, library: Any, is_async: bool) -> None:
    async def work() -> None:
        async with library.AsyncClient() as client:
            network = HttpxNetwork(async_client=client)
            for _ in range(2):
                await afetch(network, server)
            await network.aclose()

    server.answer(whole(b""))
    server.answer(RESET)
    if is_async:
        anyio.run(work)
    else:
        with library.Client() as client:
            network = HttpxNetwork(client)
            for _ in range(2):
                fetch(network, server)
    assert (len(server.requests), server.accepted) == (3, 2)


def test_a_users_client_looks_at_redirects(server: Loopback) -> None:
    """It follows none, but it reads them all."""
    with httpx.Client() as client:
        server.answer(whole(b"", 302, "location: http://x:port/"))
        with pytest.raises(StreamInterrupted):
            fetch(HttpxNetwork(client), server)


def test_a_connection_to_an_address_is_for_one_name_only() -> None:
    origins = {origin_of(httpx, "https://127.0.0.1/", name).origin for name in (None, "a.example", "b.example")}
    assert len(origins) == 3


# vcrpy replaces `handle_request` of the transport's class for as long as a cassette is in use, respx (as it is set up)
# that of httpcore's pools.


def test_a_replaced_transport_method_is_used_and_left_again(server: Loopback) -> None:
    """A connection that is kept open must not keep the method of its first request."""
    network = HttpxNetwork()

    def replaced(self: object, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"from a cassette", request=request)

    for _ in range(2):
        server.answer(whole(b"real"))
    assert fetch(network, server) == b"real"
    with replaced_transport(replaced):
        assert fetch(network, server) == b"from a cassette"
    assert fetch(network, server) == b"real"
    assert len(server.requests) == 2
    network.close()


async def test_a_replaced_async_transport_method_is_used_and_left_again(server: Loopback) -> None:
    network = HttpxNetwork()

    async def replaced(self: object, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"from a cassette", request=request)

    for _ in range(2):
        server.answer(whole(b"real"))
    assert await afetch(network, server) == b"real"
    with replaced_transport(replaced, concurrent=True):
        assert await afetch(network, server) == b"from a cassette"
    assert await afetch(network, server) == b"real"
    assert len(server.requests) == 2
    await network.aclose()


@pytest.mark.parametrize("way", ["client", "proxy"])
def test_a_replaced_method_of_a_client_is_used_and_left_again(
    server: Loopback, library: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of a user, or the one that is made where the environment names a proxy."""

    def replaced(self: object, request: Any) -> Any:
        return library.Response(200, content=b"from a cassette", request=request)

    if way == "proxy":
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
    for _ in range(2):
        server.answer(whole(b"real"))
    with library.Client() as client:
        network = HttpxNetwork(client if way == "client" else None)
        assert fetch(network, server) == b"real"
        with replaced_transport(replaced):
            assert fetch(network, server) == b"from a cassette"
        assert fetch(network, server) == b"real"
        network.close()


def test_a_library_that_is_not_there(server: Loopback, process: Process) -> None:
    with pytest.raises(ValueError, match="'httpx' or 'httpx2', not 'requests'"):
        HttpxNetwork(library="requests")  # type: ignore[arg-type]  # the test is about it
    process.without("httpx2")
    with pytest.raises(ImportError, match="pip install httpx2"):
        fetch(HttpxNetwork(library="httpx2"), server)
