"""Connections come back and keys stay inside: cancellations, foreign clients, threads, certificates, canaries."""

from __future__ import annotations

import asyncio
import gc
import logging
import ssl
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from support.loopback import HOLD, RESET, Loopback, chunk, head, whole
from support.transports import SENT, replaced_transport
from toolcast.errors import ConnectFailed, StreamBusy, StreamClosed, StreamInterrupted, Timeout
from toolcast.transport.aiohttp_network import AiohttpNetwork
from toolcast.transport.httpx_network import HttpxNetwork
from toolcast.transport.network import AsyncResponse
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPRequest

pytestmark = pytest.mark.usefixtures("library")

KEY = "sk-canary-0123456789"
CHUNKED = head(200, "transfer-encoding: chunked")


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


@pytest.fixture
def single() -> Iterator[HttpxNetwork]:
    """A network of one connection."""
    network = HttpxNetwork(max_connections=1)
    yield network
    network.close()
    gc.collect()


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def request_to(server: Loopback | str) -> HTTPRequest:
    url = server if isinstance(server, str) else server.url
    return HTTPRequest("POST", url, {"X-Api-Key": Secret(KEY)}, b"{}")


async def aopen(network: HttpxNetwork, server: Loopback | str) -> AsyncResponse:
    return await network.aopen(request_to(server), connect=5.0, read=5.0)


async def check_free(network: HttpxNetwork, server: Loopback) -> None:
    """Check that `network`, which has one connection, can use it now, and has no second one."""
    assert network.connections_in_use == 0
    server.answer(CHUNKED, HOLD)
    reply = await aopen(network, server)
    assert network.connections_in_use == 1
    with pytest.raises(Timeout):
        await network.aopen(request_to(server), connect=0.0, read=5.0)
    await reply.aclose()
    assert network.connections_in_use == 0


async def ticks(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_cancelled_read_gives_the_connection_back(backend: str, server: Loopback, single: HttpxNetwork) -> None:
    async def main() -> None:
        server.answer(CHUNKED, chunk(b"one"), HOLD)
        reply = await aopen(single, server)
        assert await reply.read(5.0) == b"one"
        with anyio.move_on_after(0.01) as scope:
            await reply.read(5.0)
        assert scope.cancelled_caught
        await check_free(single, server)
        await anyio.to_thread.run_sync(server.wait_open, 0)
        with pytest.raises(StreamClosed):
            await reply.read(5.0)

    anyio.run(main, backend=backend)


def test_a_cancelled_opening_gives_the_connection_back(backend: str, server: Loopback, single: HttpxNetwork) -> None:
    async def main() -> None:
        server.answer(HOLD)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(aopen, single, server)
            await anyio.to_thread.run_sync(server.wait_requests, 1)
            tasks.cancel_scope.cancel()
        await check_free(single, server)
        await anyio.to_thread.run_sync(server.wait_open, 0)

    anyio.run(main, backend=backend)


def test_closing_while_cancelled_still_closes(backend: str, server: Loopback, single: HttpxNetwork) -> None:
    async def main() -> None:
        server.answer(CHUNKED, chunk(b"one"), HOLD)
        reply = await aopen(single, server)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await reply.aclose()
        await check_free(single, server)
        await anyio.to_thread.run_sync(server.wait_open, 0)

    anyio.run(main, backend=backend)


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0, 1, 2])
@pytest.mark.parametrize("first", range(4))
def test_a_read_cancelled_again_and_again(server: Loopback, single: HttpxNetwork, first: int, gap: int) -> None:
    async def main() -> None:
        server.answer(CHUNKED, chunk(b"one"), HOLD)
        reply = await aopen(single, server)
        assert await reply.read(5.0) == b"one"
        task = asyncio.create_task(reply.read(5.0))
        await ticks(first)
        for _ in range(3):
            task.cancel()
            await ticks(gap)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        await reply.aclose()
        await check_free(single, server)
        await asyncio.to_thread(server.wait_open, 0)

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0, 1, 2])
def test_a_closing_cancelled_again_and_again(server: Loopback, single: HttpxNetwork, gap: int) -> None:
    async def main() -> None:
        server.answer(CHUNKED, chunk(b"one"), HOLD)
        reply = await aopen(single, server)
        assert await reply.read(5.0) == b"one"
        task = asyncio.create_task(reply.aclose())
        await ticks(1)
        for _ in range(3):
            task.cancel()
            await ticks(gap)
        with pytest.raises(asyncio.CancelledError):
            await task
        await check_free(single, server)
        await asyncio.to_thread(server.wait_open, 0)

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 3))
def test_an_opening_cancelled_again_and_again(server: Loopback, single: HttpxNetwork, first: int) -> None:
    async def main() -> None:
        server.answer(whole(b"ok"))
        warm = await aopen(single, server)
        while await warm.read(5.0):
            pass
        server.answer(CHUNKED, chunk(b"one"), HOLD)
        task = asyncio.create_task(aopen(single, server))
        await ticks(first)
        for _ in range(3):
            task.cancel()
            await ticks(1)
        try:
            await (await task).aclose()
        except asyncio.CancelledError:
            assert task.cancelled()
        await check_free(single, server)

    asyncio.run(main())


def test_two_readers_and_a_closer(backend: str, server: Loopback, single: HttpxNetwork) -> None:
    async def main() -> None:
        server.answer(CHUNKED, chunk(b"one"), HOLD)
        reply = await aopen(single, server)
        assert await reply.read(5.0) == b"one"

        async def read() -> None:
            with pytest.raises(StreamClosed, match="while it was read"):
                await reply.read(5.0)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(StreamBusy):
                await reply.read(5.0)
            await reply.aclose()
        await check_free(single, server)

    anyio.run(main, backend=backend)


def test_a_thread_that_reads_is_woken_by_closing(server: Loopback, network: HttpxNetwork) -> None:
    server.answer(CHUNKED, chunk(b"one"), HOLD)
    reply = network.open(request_to(server), connect=5.0, read=5.0)
    assert reply.read() == b"one"
    errors: list[BaseException] = []
    started = threading.Event()

    def read() -> None:
        started.set()
        try:
            reply.read()
        except StreamClosed as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    started.wait()
    while not reply._active.reading:  # type: ignore[attr-defined]  # nothing public shows it
        pass
    with pytest.raises(StreamBusy):
        reply.read()
    reply.close()
    thread.join()
    assert len(errors) == 1
    server.wait_open(0)


def test_many_threads_share_a_network(server: Loopback, single: HttpxNetwork) -> None:
    seen: list[bytes] = []

    def fetch() -> None:
        reply = single.open(request_to(server), connect=20.0, read=20.0)
        seen.extend(iter(reply.read, b""))

    for _ in range(16):
        server.answer(whole(b"ok"))
    threads = [threading.Thread(target=fetch) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [b"ok"] * 16
    assert server.accepted == 1


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_is_not_ours_passes_and_the_connection_comes_back(
    server: Loopback, network: HttpxNetwork, stop: type[BaseException]
) -> None:
    server.answer(CHUNKED, chunk(b"one"), HOLD)
    raised = stop()

    def sent(transport: Any, request: Any) -> Any:
        response = SENT[type(transport)](transport, request)
        stream = response.extensions["network_stream"]
        receive = stream.read
        stream.read = lambda *args, **options: interrupted() if got else receive(*args, **options)
        return response

    def interrupted() -> bytes:
        raise raised

    got: list[bytes] = []
    with replaced_transport(sent):
        reply = network.open(request_to(server), connect=5.0, read=5.0)
    got.append(reply.read())
    assert got == [b"one"]
    with pytest.raises(stop) as caught:
        reply.read()
    assert caught.value is raised
    server.wait_open(0)
    assert network.connections_in_use == 0


# ---- foreign clients


def clients(library: Any, transport: Callable[[Any], Any]) -> HttpxNetwork:
    mock = library.MockTransport(transport)
    return HttpxNetwork(library.Client(transport=mock), library.AsyncClient(transport=mock))


def test_a_client_of_your_own(library: Any, backend: str) -> None:
    def answer(request: Any) -> Any:
        assert request.headers["x-api-key"] == KEY
        return library.Response(200, json={"a": 1}, headers={"content-encoding": "identity"})

    mock = library.MockTransport(answer)
    client, async_client = library.Client(transport=mock), library.AsyncClient(transport=mock)
    network = HttpxNetwork(client, async_client)
    reply = network.open(request_to("http://service/v1"), connect=1.0, read=1.0)
    assert network.connections_in_use == 1
    assert (reply.status, reply.read(), reply.read()) == (200, b'{"a":1}', b"")

    async def main() -> None:
        reply = await network.aopen(request_to("http://service/v1"), connect=1.0, read=1.0)
        assert (reply.status, await reply.read(1.0), await reply.read(None)) == (200, b'{"a":1}', b"")
        await network.aclose()

    anyio.run(main, backend=backend)
    assert network.connections_in_use == 0
    network.close()
    assert not client.is_closed
    assert not async_client.is_closed


def test_the_errors_of_a_fork_are_known(library: Any, server: Loopback) -> None:
    with library.Client() as client:
        network = HttpxNetwork(client)
        server.answer(CHUNKED, chunk(b"one"), RESET)
        reply = network.open(request_to(server), connect=5.0, read=5.0)
        with pytest.raises(StreamInterrupted):
            while reply.read():
                pass
    with pytest.raises(ConnectFailed, match="closed") as caught:
        network.open(request_to(server), connect=5.0, read=5.0)
    assert not caught.value.retryable


def test_a_derived_client_will_do_and_a_stranger_will_not(server: Loopback) -> None:
    class Derived(httpx.Client):
        pass

    with Derived() as client:
        assert HttpxNetwork(client).open(request_to(server), connect=5.0, read=5.0).read() == b""
    with pytest.raises(TypeError, match="not object"):
        HttpxNetwork(object()).open(request_to(server), connect=5.0, read=5.0)


def test_an_error_of_a_foreign_transport_passes(backend: str) -> None:
    def fail(request: Any) -> Any:
        raise ZeroDivisionError("mine")

    network = clients(httpx, fail)
    with pytest.raises(ZeroDivisionError, match="mine"):
        network.open(request_to("http://service/v1"), connect=1.0, read=1.0)

    async def main() -> None:
        with pytest.raises(ZeroDivisionError, match="mine"):
            await aopen(network, "http://service/v1")

    anyio.run(main, backend=backend)


def test_a_close_that_fails_after_all_is_nobodys_business(backend: str, caplog: pytest.LogCaptureFixture) -> None:
    class Stream(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"one"

        async def aclose(self) -> None:
            raise ZeroDivisionError(KEY)

    network = clients(httpx, lambda request: httpx.Response(200, stream=Stream()))
    caplog.set_level(logging.DEBUG)

    async def main() -> None:
        reply = await aopen(network, "http://service/v1")
        assert await reply.read(1.0) == b"one"
        del reply
        gc.collect()
        await anyio.sleep(0.01)

    anyio.run(main, backend=backend)
    assert "ZeroDivisionError" in caplog.text
    assert KEY not in caplog.text


def test_an_answer_without_a_socket_that_is_closed_while_it_is_read() -> None:
    """Nothing can wake its reader, which learns of it with the next piece."""
    reading, go_on = threading.Event(), threading.Event()

    class Stream(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            reading.set()
            assert go_on.wait(20)
            yield b"one"

    def read() -> None:
        with pytest.raises(StreamClosed, match="while it was read"):
            reply.read()
        ended.set()

    network = clients(httpx, lambda request: httpx.Response(200, stream=Stream()))
    reply = network.open(request_to("http://service/v1"), connect=1.0, read=1.0)
    ended = threading.Event()
    thread = threading.Thread(target=read)
    thread.start()
    assert reading.wait(20)
    reply.close()
    assert network.connections_in_use == 0
    go_on.set()
    thread.join()
    assert ended.is_set()


def test_a_forgotten_answer_without_a_socket() -> None:
    network = clients(httpx, lambda request: httpx.Response(200, stream=httpx.ByteStream(b"one")))
    forgotten = network.open(request_to("http://service/v1"), connect=1.0, read=1.0)
    del forgotten
    assert network.open(request_to("http://service/v1"), connect=1.0, read=1.0).read() == b"one"


def test_closing_from_outside_asks_the_loop(backend: str, server: Loopback, network: HttpxNetwork) -> None:
    async def main() -> None:
        server.answer(CHUNKED, chunk(b"one"), HOLD)
        reply = await aopen(network, server)
        await anyio.to_thread.run_sync(network.close)
        await anyio.to_thread.run_sync(server.wait_open, 0)
        with pytest.raises(StreamClosed):
            await reply.read(1.0)

    anyio.run(main, backend=backend)


def test_a_loop_that_was_never_shut_down_is_forgotten(network: HttpxNetwork) -> None:
    async def warm() -> None:
        with pytest.raises(ConnectFailed):
            await aopen(network, "http://127.0.0.1:1/v1")

    def collected() -> bool:
        gc.collect()
        return gone() is None

    loop = asyncio.new_event_loop()
    loop.run_until_complete(warm())
    loop.close()
    gone = weakref.ref(loop)
    del loop
    assert not collected()
    asyncio.run(warm())
    assert collected()


def test_a_network_that_is_collected_closes_its_clients(server: Loopback) -> None:
    network = HttpxNetwork()
    reply = network.open(request_to(server), connect=5.0, read=5.0)
    while reply.read():
        pass
    assert server.open == 1
    del network
    gc.collect()
    server.wait_open(0)


def test_an_answer_that_came_too_late_is_closed(backend: str, server: Loopback, single: HttpxNetwork) -> None:
    """The request is cancelled in the very moment in which its answer arrives; trio returns it all the same."""

    async def main() -> None:
        async def sent(transport: Any, request: Any) -> Any:
            response = await SENT[type(transport)](transport, request)
            scope.cancel()
            return response

        server.answer(CHUNKED, HOLD)
        scope = anyio.CancelScope()
        with replaced_transport(sent, concurrent=True), scope:
            await (await aopen(single, server)).aclose()
        assert scope.cancelled_caught == (backend == "asyncio")
        await check_free(single, server)
        await anyio.to_thread.run_sync(server.wait_open, 0)

    anyio.run(main, backend=backend)


# ---- the name that a server proves


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Loopback]:
    """A server that proves to be `one.example`, in a world that believes it."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("one.example").configure_cert(context)
    with Loopback(tls=context) as server:
        yield server
    gc.collect()


def test_an_address_proves_the_name_that_is_wanted(backend: str, network: HttpxNetwork, named: Loopback) -> None:
    """A connection that has proved one name is not taken for another."""
    wanted, other, none = (replace(request_to(named), tls_name=name) for name in ("one.example", "two.example", None))
    for _ in range(2):
        assert network.open(wanted, connect=5.0, read=5.0).read() == b""
    for request in (other, none):
        with pytest.raises(ConnectFailed, match="issued for another host"):
            network.open(request, connect=5.0, read=5.0)

    async def main() -> None:
        for _ in range(2):
            assert await (await network.aopen(wanted, connect=5.0, read=5.0)).read(5.0) == b""
        for request in (other, none):
            with pytest.raises(ConnectFailed, match="issued for another host"):
                await network.aopen(request, connect=5.0, read=5.0)
        await network.aclose()

    anyio.run(main, backend=backend)
    assert len(named.requests) == 4
    assert {request.headers["host"] for request in named.requests} == {f"127.0.0.1:{named.port}"}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_aiohttp_proves_the_name_too(named: Loopback, anyio_backend: str) -> None:
    network = AiohttpNetwork()
    wanted, other = (replace(request_to(named), tls_name=name) for name in ("one.example", "two.example"))
    assert await (await network.aopen(wanted, connect=5.0, read=5.0)).read(5.0) == b""
    with pytest.raises(ConnectFailed, match="issued for another host"):
        await network.aopen(other, connect=5.0, read=5.0)
    await network.aclose()
    assert len(named.requests) == 1


# ---- proxies


def test_a_direct_network_takes_no_proxy(backend: str, server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
        monkeypatch.setenv(name.upper(), "http://127.0.0.1:1")
    network = HttpxNetwork(direct=True)
    assert network.open(request_to(server), connect=5.0, read=5.0).read() == b""

    async def main() -> None:
        assert await (await network.aopen(request_to(server), connect=5.0, read=5.0)).read(5.0) == b""
        await network.aclose()

    anyio.run(main, backend=backend)
    assert len(server.requests) == 2
    with pytest.raises(ConnectFailed):
        HttpxNetwork().open(request_to(server), connect=5.0, read=5.0)
