"""Errors of the transport are mapped to toolcast's errors, without keys."""

from __future__ import annotations

import asyncio
import gc
import logging
import ssl
import traceback
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from support.loopback import CLOSE, HOLD, RESET, Loopback, Piece, chunk, head, whole
from toolcast.errors import BadRequest, ConnectFailed, LLMError, StreamInterrupted, Timeout
from toolcast.llms import AiohttpNetwork
from toolcast.transport.httpx_network import HttpxNetwork
from toolcast.transport.network import AsyncResponse
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPRequest

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


async def aopen(network: HttpxNetwork, server: Loopback | str) -> AsyncResponse:
    return await network.aopen(request_to(server), connect=5.0, read=5.0)


# ---- certificates


@dataclass(frozen=True)
class BadCertificate:
    """A server's certificate that does not hold, and the advice that fits it."""

    advice: str
    host: str = "127.0.0.1"
    trusted: bool = True
    begins: datetime | None = None
    ends: datetime | None = None

    def server_side(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> ssl.SSLContext:
        """Return the context of the server; its issuer is trusted by the client if `trusted`."""
        trustme = pytest.importorskip("trustme")
        authority = trustme.CA()
        if self.trusted:
            authority.cert_pem.write_to_path(folder / "ca.pem")
            monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(self.host, not_before=self.begins, not_after=self.ends).configure_cert(context)
        return context


BAD_CERTIFICATES = {
    "untrusted": BadCertificate("Trust its issuer with SSL_CERT_FILE", trusted=False),
    "expired": BadCertificate("has expired", ends=datetime(2020, 1, 1, tzinfo=UTC)),
    "not yet valid": BadCertificate("not valid yet", begins=datetime(2200, 1, 1, tzinfo=UTC),
                                    ends=datetime(2201, 1, 1, tzinfo=UTC)),
    "for another address": BadCertificate("issued for another host", host="127.0.0.2"),
    "for another name": BadCertificate("issued for another host", host="elsewhere.example"),
}  # fmt: skip


@pytest.mark.fault(4)
@pytest.mark.parametrize("certificate", BAD_CERTIFICATES.values(), ids=BAD_CERTIFICATES)
def test_a_bad_certificate_is_not_tried_again(
    backend: str,
    network: HttpxNetwork,
    certificate: BadCertificate,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    with Loopback(tls=certificate.server_side(monkeypatch, tmp_path)) as server:
        with pytest.raises(ConnectFailed, match=certificate.advice) as caught:
            network.open(request_to(server), connect=5.0, read=5.0)
        assert not caught.value.retryable
        assert "verify" not in str(caught.value).replace("certificate verify failed", "")

        async def main() -> None:
            with pytest.raises(ConnectFailed, match=certificate.advice) as caught:
                await aopen(network, server)
            assert not caught.value.retryable

        anyio.run(main, backend=backend)
        assert server.requests == []


@pytest.mark.fault(4)
@pytest.mark.parametrize("make", [HttpxNetwork, AiohttpNetwork])
@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("SSL_CERT_FILE", None, "No such file or directory"),
        ("SSL_CERT_FILE", "no certificate", "NO_CERTIFICATE"),
        ("SSLKEYLOGFILE", None, "No such file or directory"),
    ],
)
def test_a_file_of_certificates_that_cannot_be_read(
    make: Any, name: str, content: str | None, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "below" / "ca.pem"
    if content is not None:
        path.parent.mkdir()
        path.write_text(content)
    monkeypatch.setenv(name, str(path))
    # A file that is read once is not read again.
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    network = make()

    async def main() -> None:
        await aopen(network, "https://service.invalid/v1")

    works = [lambda: anyio.run(main)]
    if make is HttpxNetwork:
        works.append(lambda: network.open(request_to("https://service.invalid/v1"), connect=5.0, read=5.0))
    for work in works:
        with pytest.raises(ConnectFailed, match="TLS cannot be set up") as caught:
            work()
        assert f"{name}={str(path)!r}" in str(caught.value)
        assert why in str(caught.value)
        assert not caught.value.retryable


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


# ---- proxies

PASSWORD = "pw-canary-9876543210"
ELSEWHERE = "https://service.invalid/v1"


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """A proxy that the environment names for every host, with a user and a password."""
    with Loopback() as server:
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.upper(), raising=False)
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://me%40corp:{PASSWORD}%2F@127.0.0.1:{server.port}")
        yield server
    gc.collect()


def refused_by(network: HttpxNetwork, backend: str, url: str, kind: type[LLMError] = ConnectFailed) -> list[LLMError]:
    """Return the errors of a sync and of an async request, none of which shows the key or the password."""
    with pytest.raises(kind) as sync:
        network.open(request_to(url), connect=5.0, read=5.0)

    async def main() -> LLMError:
        with pytest.raises(kind) as caught:
            await aopen(network, url)
        return caught.value

    errors = [sync.value, anyio.run(main, backend=backend)]
    for error in errors:
        assert KEY not in traces(error)
        assert PASSWORD not in traces(error)
    return errors


@pytest.mark.fault(37)
@pytest.mark.parametrize(("status", "retryable"), [(407, False), (403, True), (502, True)])
def test_a_proxy_that_refuses(
    backend: str, network: HttpxNetwork, proxy: Loopback, status: int, retryable: bool
) -> None:
    for _ in range(2):
        proxy.answer(whole(b"no", status))
    for error in refused_by(network, backend, ELSEWHERE):
        assert f"no connection to service.invalid: the proxy answered with {status}" in str(error)
        assert "HTTPS_PROXY" in str(error)
        assert error.retryable is retryable
    assert [request.line for request in proxy.requests] == ["CONNECT service.invalid:443 HTTP/1.1"] * 2
    login = b64encode(f"me@corp:{PASSWORD}/".encode()).decode()
    assert {request.headers["proxy-authorization"] for request in proxy.requests} == {f"Basic {login}"}
    assert KEY.encode() not in b"".join(request.raw for request in proxy.requests)


@pytest.mark.fault(37)
def test_a_proxy_that_is_not_there(
    backend: str, network: HttpxNetwork, proxy: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PASSWORD}@127.0.0.1:1")
    for error in refused_by(network, backend, ELSEWHERE):
        assert "no connection to service.invalid" in str(error)
        assert error.retryable


@pytest.mark.fault(37)
@pytest.mark.parametrize("end", [CLOSE, RESET])
def test_a_proxy_that_dies_while_it_connects(backend: str, network: HttpxNetwork, proxy: Loopback, end: Piece) -> None:
    for _ in range(2):
        proxy.answer(end)
    for error in refused_by(network, backend, ELSEWHERE, LLMError):
        assert isinstance(error, (ConnectFailed, StreamInterrupted))
        assert error.retryable


@pytest.mark.fault(37)
def test_a_proxy_that_connects_and_then_says_nothing(network: HttpxNetwork, proxy: Loopback) -> None:
    proxy.answer(HOLD)
    with pytest.raises(Timeout):
        network.open(request_to(ELSEWHERE), connect=0.05, read=0.05)
    proxy.wait_open(0)


@pytest.mark.fault(37)
def test_a_plain_request_goes_to_the_proxy_whole(backend: str, network: HttpxNetwork, proxy: Loopback) -> None:
    """Without TLS there is no tunnel: the proxy is sent the request, and its login stays a matter of the proxy."""
    proxy.answer(whole(b"through the proxy"))
    reply = network.open(request_to("http://service.invalid:81/v1"), connect=5.0, read=5.0)
    assert reply.read() == b"through the proxy"
    (sent,) = proxy.requests
    assert sent.line == "POST http://service.invalid:81/v1 HTTP/1.1"
    assert sent.headers["host"] == "service.invalid:81"
    assert "authorization" not in sent.headers


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
@pytest.mark.parametrize("api", ["sync", "asyncio", "trio"])
def test_no_failure_holds_the_key(
    server: Loopback, failure: str, api: str, network: HttpxNetwork, caplog: pytest.LogCaptureFixture
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
        sync() if api == "sync" else anyio.run(work, backend=api)
    assert KEY not in traces(caught.value)
    assert KEY not in caplog.text
    server.wait_requests(1)
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
