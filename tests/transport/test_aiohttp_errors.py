"""Errors over aiohttp are mapped to toolcast's errors, without keys and passwords."""

from __future__ import annotations

import asyncio
import gc
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from support.loopback import HOLD, Loopback, chunk, whole
from toolcast.errors import BadRequest, ConnectFailed, LLMError, StreamInterrupted, Timeout
from toolcast.llms import AiohttpNetwork
from toolcast.transport.aiohttp_connections import lost_before_response, unanswered
from toolcast.transport.network import AsyncResponse
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPRequest
from transport.test_transport_errors import BAD_CERTIFICATES, CHUNKED, FAILURES, KEY, BadCertificate, request_to, traces

PASSWORD = "pw-canary-9876543210"


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server
    gc.collect()


@pytest.fixture(params=["", "s"])
def proxied(request: pytest.FixtureRequest) -> str:
    return f"http{request.param}://service.invalid:81/v1/chat"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def opened(network: AiohttpNetwork, server: Loopback | str, read: float = 5.0) -> AsyncResponse:
    return await network.aopen(request_to(server), connect=5.0, read=read)


def fetched(server: Loopback | str, read: float = 5.0) -> bytes:
    """The body of one answer, with a network and an event loop of its own."""

    async def main() -> bytes:
        network = AiohttpNetwork()
        reply = await opened(network, server, read)
        pieces = []
        while data := await reply.read(read):
            pieces.append(data)
        return b"".join(pieces)

    return anyio.run(main)


# ---- certificates


@pytest.mark.fault(4)
@pytest.mark.parametrize("certificate", BAD_CERTIFICATES.values(), ids=BAD_CERTIFICATES)
def test_a_bad_certificate_is_not_tried_again(
    certificate: BadCertificate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Loopback(tls=certificate.server_side(monkeypatch, tmp_path)) as server:
        with pytest.raises(ConnectFailed, match=certificate.advice) as caught:
            fetched(server)
        assert not caught.value.retryable
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)


def test_a_good_certificate(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    async def main() -> None:
        network = AiohttpNetwork()
        server.answer(whole(b"ok"))
        reply = await opened(network, server)
        assert [await reply.read(5.0), await reply.read(5.0)] == [b"ok", b""]
        server.answer(CHUNKED, chunk(b"one"), HOLD)
        reply = await opened(network, server)
        assert await reply.read(5.0) == b"one"
        with anyio.move_on_after(0.01):
            await reply.read(5.0)
        await asyncio.to_thread(server.wait_open, 0)

    with Loopback(tls=context) as server:
        anyio.run(main)
        assert server.accepted == 1


# ---- proxies


@pytest.mark.fault(37)
@pytest.mark.parametrize("name", ["http_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("scheme", ["http://", ""])
def test_the_proxy_of_the_environment(
    server: Loopback, monkeypatch: pytest.MonkeyPatch, name: str, scheme: str
) -> None:
    monkeypatch.setenv(name, f"{scheme}me:{PASSWORD}@127.0.0.1:{server.port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,elsewhere.invalid")
    server.answer(whole(b"through the proxy"))
    assert fetched("http://service.invalid/v1/chat") == b"through the proxy"
    (sent,) = server.requests
    assert sent.line == "POST http://service.invalid/v1/chat HTTP/1.1"
    assert sent.headers["proxy-authorization"].startswith("Basic ")
    server.answer(whole(b"straight"))
    assert fetched(server) == b"straight"
    assert server.requests[-1].line == "POST /v1/chat HTTP/1.1"
    with pytest.raises(ConnectFailed):
        fetched("http://elsewhere.invalid/v1")


@pytest.mark.fault(37)
def test_a_proxy_that_refuses(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", f"http://me:{PASSWORD}@127.0.0.1:{server.port}")
    server.answer(whole(b"no", 407))
    with pytest.raises(ConnectFailed, match=r"service\.invalid: the proxy answered with status 407") as caught:
        fetched("https://service.invalid/v1")
    assert not caught.value.retryable
    assert "HTTPS_PROXY" in str(caught.value)
    assert server.requests[0].line.startswith("CONNECT service.invalid:443")
    assert PASSWORD not in traces(caught.value)
    assert KEY not in traces(caught.value)


@pytest.mark.fault(37)
def test_a_proxy_that_is_not_there(proxied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", f"http://me:{PASSWORD}@127.0.0.1:1")
    with pytest.raises(ConnectFailed) as caught:
        fetched(proxied)
    assert PASSWORD not in traces(caught.value)


def test_a_proxy_of_another_kind(proxied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", f"socks5://me:{PASSWORD}@127.0.0.1:1")
    with pytest.raises(BadRequest, match="socks5") as caught:
        fetched(proxied)
    assert PASSWORD not in traces(caught.value)
    with pytest.raises(BadRequest, match="none of http or https"):
        fetched("http://[::1/")


# ---- keys


@pytest.mark.parametrize("failure", FAILURES)
def test_no_failure_holds_the_key(server: Loopback, failure: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.answer(*FAILURES[failure])
    with pytest.raises((LLMError, TimeoutError)) as caught:
        fetched(server, read=0.05)
    assert KEY not in traces(caught.value)
    assert KEY not in caplog.text
    server.wait_requests(1)
    assert server.requests[0].headers["x-api-key"] == KEY


def test_neither_refusal_nor_cancellation_holds_the_key(server: Loopback) -> None:
    with pytest.raises(ConnectFailed) as refused:
        fetched("http://127.0.0.1:1/v1")
    assert isinstance(refused.value.__cause__, OSError)
    assert KEY not in traces(refused.value)

    async def main() -> None:
        network = AiohttpNetwork()
        server.answer(HOLD)
        opening = asyncio.create_task(opened(network, server))
        await asyncio.to_thread(server.wait_requests, 1)
        server.answer(CHUNKED, HOLD)
        reading = asyncio.ensure_future((await opened(network, server)).read(5.0))
        await asyncio.sleep(0)
        for task in (opening, reading):
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            assert KEY not in traces(caught.value)

    anyio.run(main)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_what_is_not_ours_passes(server: Loopback, stop: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    raised = stop()

    async def connect(*args: object, **options: object) -> None:
        raise raised

    async def main() -> None:
        monkeypatch.setattr(aiohttp.TCPConnector, "connect", connect)
        with pytest.raises(stop) as caught:
            await opened(AiohttpNetwork(), server)
        assert caught.value is raised
        assert KEY not in traces(raised)

    anyio.run(main)


def test_what_was_raised_before_keeps_its_traceback() -> None:
    try:
        raise ValueError("the caller's own")
    except ValueError as own:
        with pytest.raises(ConnectFailed) as caught:
            fetched("http://127.0.0.1:1/v1")
        assert own.__traceback__ is not None
        assert "the caller's own" in traces(caught.value)


def test_a_reply_and_a_network_show_nothing(server: Loopback) -> None:
    async def main() -> None:
        network = AiohttpNetwork()
        reply = await opened(network, server)
        here = network._clients.running()
        assert KEY not in repr(reply) + repr(vars(reply)) + repr(network) + repr(vars(network)) + repr(vars(here))
        await reply.aclose()

    anyio.run(main)


REQUEST = HTTPRequest("POST", "http://service/v1", {"x-api-key": Secret(KEY)}, b"")


@pytest.mark.parametrize(
    ("raised", "expected", "lost"),
    [
        (TimeoutError(KEY), Timeout, False),
        (aiohttp.InvalidURL(KEY), BadRequest, False),
        (ValueError(KEY), BadRequest, False),
        (aiohttp.NonHttpUrlClientError(KEY), BadRequest, False),
        (aiohttp.ServerDisconnectedError(), StreamInterrupted, True),
        (aiohttp.ServerDisconnectedError(object()), StreamInterrupted, False),  # type: ignore[arg-type]  # a message
        (aiohttp.ClientOSError(104, KEY), StreamInterrupted, True),
        (aiohttp.ClientOSError(KEY), StreamInterrupted, True),
        (aiohttp.ClientConnectionResetError(KEY), StreamInterrupted, True),
        (aiohttp.ClientPayloadError(KEY), StreamInterrupted, False),
        (aiohttp.ClientConnectionError(KEY), StreamInterrupted, False),
    ],
)
def test_every_failure_has_a_word(raised: Exception, expected: type[LLMError], lost: bool) -> None:
    failure = unanswered(raised, REQUEST, connected=True)
    assert type(failure) is expected
    assert KEY not in traces(failure)
    assert lost_before_response(raised) == lost
