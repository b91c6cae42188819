"""What passes the door is told in toolcast's words, and no key passes it."""

from __future__ import annotations

import asyncio
import gc
import logging
import ssl
import traceback
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import pytest

from loopback import CLOSE, HOLD, RESET, Loopback, Piece, chunk, head, whole
from toolcast.errors import BadRequest, ConnectFailed, LLMError, StreamInterrupted, Timeout
from toolcast.providers.wire import HTTPRequest, Secret
from toolcast.runtime.network import AsyncReply, HttpxNetwork

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


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def request_to(server: Loopback | str) -> HTTPRequest:
    url = server if isinstance(server, str) else server.url
    return HTTPRequest("POST", url, {"X-Api-Key": Secret(KEY)}, b"{}")


async def aopen(network: HttpxNetwork, server: Loopback | str) -> AsyncReply:
    return await network.aopen(request_to(server), connect=5.0, read=5.0)


# ---- certificates


@pytest.mark.fault(4)
def test_a_bad_certificate_is_not_tried_again(backend: str, network: HttpxNetwork) -> None:
    trustme = pytest.importorskip("trustme")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

    with Loopback(tls=context) as server:
        with pytest.raises(ConnectFailed) as caught:
            network.open(request_to(server), connect=5.0, read=5.0)
        assert not caught.value.retryable

        async def main() -> None:
            with pytest.raises(ConnectFailed) as caught:
                await aopen(network, server)
            assert not caught.value.retryable

        anyio.run(main, backend=backend)


def test_a_good_certificate(
    backend: str, network: HttpxNetwork, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    with Loopback(tls=context) as server:
        server.answer(CHUNKED, chunk(b"one"), HOLD)
        reply = network.open(request_to(server), connect=5.0, read=5.0)
        assert reply.read() == b"one"
        reply.close()

        async def main() -> None:
            server.answer(CHUNKED, chunk(b"one"), HOLD)
            reply = await aopen(network, server)
            assert await reply.read(5.0) == b"one"
            with anyio.move_on_after(0.01):
                await reply.read(5.0)

        anyio.run(main, backend=backend)
        server.wait_open(0)


# ---- keys

ECHO = f"HTTP/1.1 200 {KEY}\r\nx y{KEY}: 1\r\n\r\n".encode()
FAILURES: dict[str, tuple[Piece, ...]] = {
    "reset before": (RESET,),
    "closed before": (CLOSE,),
    "nonsense with the key": (KEY.encode() + b"\r\n\r\n", CLOSE),
    "header with the key": (ECHO, CLOSE),
    "reset in the body": (CHUNKED, chunk(b"one"), RESET),
    "closed in the body": (CHUNKED, chunk(b"one"), CLOSE),
    "chunk with the key": (CHUNKED, KEY.encode() + b"\r\n", CLOSE),
    "silence": (HOLD,),
    "stall": (CHUNKED, HOLD),
    "encoding": (whole(b"what", 200, "content-encoding: gzip"),),
}


def traces(error: BaseException) -> str:
    """Everything about an error that could be written down: text, repr, chain, and the locals of every frame."""
    lines = list(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    seen: list[BaseException | None] = [error]
    for link in seen:
        if link is not None:
            lines += [repr(link), str(link), repr(vars(link)), repr(link.args)]
            sent = getattr(link, "_request", None)
            lines.append(repr(sent and sent.headers.raw))
            seen += [link.__cause__, link.__context__]
    return "\n".join(lines)


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("face", ["sync", "asyncio", "trio"])
def test_no_failure_holds_the_key(
    server: Loopback, failure: str, face: str, network: HttpxNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.answer(*FAILURES[failure])

    async def work() -> None:
        reply = await network.aopen(request_to(server), connect=5.0, read=0.05)
        while await reply.read(0.05):
            pass

    def sync() -> None:
        reply = network.open(request_to(server), connect=5.0, read=0.05)
        while reply.read():
            pass

    with pytest.raises((LLMError, TimeoutError)) as caught:
        sync() if face == "sync" else anyio.run(work, backend=face)
    assert KEY not in traces(caught.value)
    assert KEY not in caplog.text
    assert server.requests[0].headers["x-api-key"] == KEY


def test_neither_refusal_nor_cancellation_holds_the_key(server: Loopback, network: HttpxNetwork) -> None:
    with pytest.raises(ConnectFailed) as caught:
        network.open(request_to("http://127.0.0.1:1/v1"), connect=5.0, read=5.0)
    assert KEY not in traces(caught.value)

    async def main() -> None:
        server.answer(HOLD)
        task = asyncio.create_task(aopen(network, server))
        await asyncio.to_thread(server.wait_requests, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert KEY not in traces(caught.value)

    asyncio.run(main())


def test_what_was_raised_before_keeps_its_traceback(network: HttpxNetwork) -> None:
    try:
        raise ValueError("the caller's own")
    except ValueError as own:
        with pytest.raises(ConnectFailed) as caught:
            network.open(request_to("http://127.0.0.1:1/v1"), connect=5.0, read=5.0)
        assert own.__traceback__ is not None
        assert "the caller's own" in traces(caught.value)


def test_a_reply_shows_nothing(server: Loopback, network: HttpxNetwork) -> None:
    reply = network.open(request_to(server), connect=5.0, read=5.0)
    assert KEY not in repr(reply) + repr(vars(reply))
    reply.close()


@pytest.mark.parametrize(
    ("raised", "expected", "phase"),
    [
        (httpx.ConnectTimeout("slow"), Timeout, "connect"),
        (httpx.PoolTimeout("full"), Timeout, "connect"),
        (httpx.ReadTimeout("slow"), Timeout, "first_token"),
        (httpx.WriteTimeout("slow"), Timeout, "first_token"),
        (httpx.ConnectError("refused"), ConnectFailed, None),
        (httpx.ProxyError("407"), ConnectFailed, None),
        (httpx.ReadError(""), StreamInterrupted, None),
        (httpx.RemoteProtocolError("nonsense"), StreamInterrupted, None),
        (httpx.LocalProtocolError("our fault"), BadRequest, None),
        (httpx.StreamClosed(), StreamInterrupted, None),
        (OSError(5, "input/output error"), StreamInterrupted, None),
        (ExceptionGroup("several", [OSError(1, KEY)]), ExceptionGroup, None),
    ],
)
def test_every_failure_has_a_word(raised: Exception, expected: type[Exception], phase: str | None) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise raised

    network = HttpxNetwork(httpx.Client(transport=httpx.MockTransport(fail)))
    request = HTTPRequest("POST", "http://service/v1", {"x-api-key": Secret(KEY), "x-plain": "y"}, b"")
    with pytest.raises(expected) as caught:
        network.open(request, connect=1.0, read=1.0)
    assert getattr(caught.value, "phase", None) == phase
    assert KEY not in traces(caught.value)
