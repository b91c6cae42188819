"""Requests to a service beside chat: retries, errors, `auth`, and no credentials for another origin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from unittest import mock

import anyio
import pytest

import toolcast
from support.openai_batches import Dropped, OpenAIBatchService, VirtualClock
from toolcast.async_support import sync_driver
from toolcast.errors import (
    AuthFailed,
    BadRequest,
    LimitExceeded,
    MalformedEvent,
    NotFound,
    RateLimited,
    ServerError,
    StreamInterrupted,
    Timeout,
    UnsupportedLLMError,
)
from toolcast.llms.client import client_of
from toolcast.llms.http.service import Service, service_of
from toolcast.llms.http_llm import AuthFunction, ServiceLLM
from toolcast.providers.http_adapter import HTTPAdapter
from toolcast.transport.network import IOBackend
from toolcast.values.http_request import HTTPRequest, HTTPResponse

T = TypeVar("T")


class Client:
    """An LLM whose service answers with the next reply, and which records the requests."""

    def __init__(self, *replies: Any, llm: ServiceLLM | None = None, **options: Any) -> None:
        self.service = OpenAIBatchService()
        self.requests: list[HTTPRequest] = []
        self.clock = VirtualClock()
        self.replies = iter(replies)
        self.service.before = lambda method, path: self._next()
        options = {"api_key": "sk-secret-key", "base_url": "https://api.example.com/v1", "network": self} | options
        self.llm = llm or toolcast.OpenAI("gpt-4o-mini", **options)
        self.llm.clock = self.clock

    def _next(self) -> tuple[int, bytes] | None:
        reply = next(self.replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def open(self, request: HTTPRequest, **limits: Any) -> Any:
        self.requests.append(request)
        return self.service.open(request, **limits)

    async def aopen(self, request: HTTPRequest, **limits: Any) -> Any:
        self.requests.append(request)
        return await self.service.aopen(request, **limits)

    def close(self) -> None: ...

    async def aclose(self) -> None: ...

    def run(self, work: Callable[[Service[HTTPAdapter]], Awaitable[T]], backend: str = "sync") -> T:
        async def main(io: IOBackend) -> T:
            return await work(await service_of(self.llm, io))

        if backend == "sync":
            return sync_driver.run(main(client_of(self.llm).sync_backend()))

        async def in_loop() -> T:
            return await main(client_of(self.llm).async_backend())

        return anyio.run(in_loop, backend=backend)

    def send(self, method: str, path: str, *, backend: str = "sync", **options: Any) -> HTTPResponse:
        async def work(service: Service[HTTPAdapter]) -> HTTPResponse:
            return await service.send(service.adapter.service_request(method, path), **options)

        return self.run(work, backend)

    def link(self, url: str) -> HTTPResponse:
        async def work(service: Service[HTTPAdapter]) -> HTTPResponse:
            return await service.send(service.adapter.linked_request("GET", url))

        return self.run(work)

    def download(self, backend: str = "sync") -> list[bytes]:
        async def work(service: Service[HTTPAdapter]) -> list[bytes]:
            download = await service.download(service.adapter.service_request("GET", "/files/f/content"))
            found: list[bytes] = []
            try:
                while data := await download.read():
                    found.append(data)
            finally:
                await download.close()
            return found

        return self.run(work, backend)


def renewing(llm: ServiceLLM) -> Any:
    """Let a refused request of `llm` be sent again with other credentials."""
    auth = AuthFunction(dict)
    auth.renew = lambda request: True  # type: ignore[method-assign]  # of this one
    return mock.patch.object(type(llm), "authentication", auth)


BACKENDS = pytest.mark.parametrize("backend", ["sync", "asyncio", "trio"])


@BACKENDS
def test_a_request_has_the_credentials_and_the_address_of_the_llm(backend: str) -> None:
    client = Client((200, b'{"id": 1}'))
    assert client.send("GET", "/files", backend=backend) == HTTPResponse(200, {}, b'{"id": 1}')
    [request] = client.requests
    assert (request.method, request.url) == ("GET", "https://api.example.com/v1/files")
    assert "authorization" in request.headers
    assert "content-type" not in request.headers


@BACKENDS
def test_a_request_is_sent_again_after_an_error_that_may_pass(backend: str) -> None:
    client = Client((503, b"{}"), Dropped(), (200, b"{}"))
    assert client.send("GET", "/files", backend=backend).status == 200
    assert len(client.requests) == 3


def test_retry_after_is_waited_for() -> None:
    client = Client((429, b'{"error": {"message": "try again in 7s"}}'), (200, b"{}"))
    client.send("GET", "/files")
    assert client.clock.sleeps[0] >= 7


@pytest.mark.parametrize(
    ("reply", "error"),
    [((400, b"{}"), BadRequest), ((401, b"{}"), AuthFailed), ((404, b"{}"), NotFound), ((301, b""), BadRequest)],
)
def test_the_errors_are_those_of_a_call(reply: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Client(reply).send("GET", "/files")


def test_the_retries_end() -> None:
    client = Client(*[(500, b"{}")] * 9)
    with pytest.raises(ServerError):
        client.send("GET", "/files")
    assert len(client.requests) == 3


def test_a_request_that_creates_something_is_not_repeated_where_it_may_have_been_processed() -> None:
    for reply, error in ((Dropped(), StreamInterrupted), ((503, b"{}"), ServerError), ((500, b"{}"), ServerError)):
        client = Client(reply, (200, b"{}"))
        with pytest.raises((error, toolcast.errors.Overloaded)):
            client.send("POST", "/batches")
        assert len(client.requests) == 1
    assert Client(Dropped(), (200, b"{}")).send("POST", "/batches", repeatable=True).status == 200
    with pytest.raises(RateLimited):
        Client(*[(429, b"{}")] * 3).send("POST", "/batches")
    assert Client((429, b"{}"), (200, b"{}")).send("POST", "/batches").status == 200


def test_a_long_response_is_refused() -> None:
    with pytest.raises(LimitExceeded, match="more than 10 bytes"):
        Client((200, b"x" * 11)).send("GET", "/files", limit=10)


@BACKENDS
def test_a_silent_response_is_a_timeout(backend: str) -> None:
    client = Client(*[(200, b"{}")] * 3)
    client.service.cut = lambda method, path, body: [TimeoutError()]
    with pytest.raises(Timeout) as caught:
        client.send("GET", "/files", backend=backend)
    assert caught.value.phase == "first_token"


@BACKENDS
@pytest.mark.parametrize("pieces", [[b"{", b"}"], [TimeoutError()]])
def test_the_total_time_ends_a_request(backend: str, pieces: list[Any]) -> None:
    client = Client((200, b"{}"))

    def late(method: str, path: str, body: bytes) -> list[Any]:
        client.clock.seconds += 6
        return pieces

    client.service.cut = late
    with pytest.raises(Timeout, match="did not end within 5 s; allow more") as caught:
        client.send("GET", "/files", backend=backend, total=5)
    assert caught.value.phase == "total"
    assert len(client.requests) == 1


def test_the_total_time_limits_each_wait() -> None:
    limits: list[Any] = []

    class Noting(Client):
        def open(self, request: HTTPRequest, **given: Any) -> Any:
            limits.append(given)
            return super().open(request, **given)

    Noting((200, b"{}")).send("GET", "/files", total=5)
    Noting((200, b"{}"), settings=toolcast.Settings(timeout=toolcast.Timeouts(first_token=None))).send(
        "GET", "/files", total=500
    )
    assert limits == [{"connect": 5.0, "read": 5.0}, {"connect": 10.0, "read": 500.0}]


def test_a_connection_that_takes_the_total_time() -> None:
    class Slow(Client):
        def open(self, request: HTTPRequest, **limits: Any) -> Any:
            self.clock.seconds += limits["read"]
            raise Timeout("no response", phase="first_token")

    with pytest.raises(Timeout) as caught:
        Slow().send("GET", "/files", total=5)
    assert caught.value.phase == "total"
    with pytest.raises(Timeout) as caught:
        Slow(max_retries=0).send("GET", "/files", total=1_000)
    assert caught.value.phase == "first_token"


def test_no_attempt_begins_after_the_total_time() -> None:
    client = Client((429, b'{"error": {"message": "try again in 7s"}}'), (200, b"{}"))
    with pytest.raises(RateLimited):
        client.send("GET", "/files", total=5)
    assert client.clock.sleeps == []


@BACKENDS
def test_a_download_arrives_in_chunks(backend: str) -> None:
    client = Client((500, b"{}"), (200, b"abc"))
    client.service.cut = lambda method, path, body: [b"a", b"bc"]
    assert client.download(backend) == [b"a", b"bc"]


def test_a_download_that_fails() -> None:
    client = Client((200, b"abc"), (200, b"abc"))
    client.service.cut = lambda method, path, body: [b"a", StreamInterrupted("lost sk-secret-key")]
    with pytest.raises(StreamInterrupted) as caught:
        client.download()
    assert "sk-secret-key" not in str(caught.value)
    with pytest.raises(NotFound):
        Client((404, b"{}")).download()


@BACKENDS
def test_credentials_that_are_refused_are_replaced_once(backend: str) -> None:
    """Without waiting, and not as a retry; also for a download, and for a request that creates something."""
    refused = (401, b'{"error": {"message": "expired"}}')
    for send in (
        lambda client: client.send("GET", "/files", backend=backend).body,
        lambda client: client.send("POST", "/files", backend=backend).body,
        lambda client: b"".join(client.download(backend)),
    ):
        client = Client(refused, (200, b"{}"), max_retries=0)
        with renewing(client.llm):
            assert send(client) == b"{}"
        client = Client(refused, refused, max_retries=0)
        with renewing(client.llm), pytest.raises(AuthFailed):
            send(client)
        client = Client(refused, max_retries=0)
        with pytest.raises(AuthFailed):
            send(client)
        assert len(client.requests) == 1


def test_no_error_contains_the_key() -> None:
    for status in (400, 401, 500):
        body = b'{"error": {"message": "sk-secret-key and token-of-auth are wrong"}}'
        client = Client(*[(status, body)] * 3, auth=lambda: {"authorization": "Bearer token-of-auth"})
        with pytest.raises(toolcast.LLMError) as caught:
            client.send("GET", "/files")
        assert "token-of-auth" not in str(caught.value)
        assert "sk-secret-key" not in str(caught.value)


# Other origins


@pytest.mark.parametrize(
    "url",
    [
        "https://files.example.com/v1/x",
        "https://api.example.com:444/v1/x",
        "https://api.example.com.evil.org/v1/x",
        "https://evil.org/?https://api.example.com/v1",
    ],
)
def test_another_origin_gets_no_credentials(url: str) -> None:
    client = Client((401, b"{}"), (401, b"{}"), auth=lambda: {"authorization": "Bearer token-of-auth"})
    with pytest.raises(AuthFailed):
        client.link(url)
    assert [{*request.headers} for request in client.requests] == [{"accept"}]


@pytest.mark.parametrize("url", ["https://api.example.com/elsewhere", "https://api.example.com:443/x?y=1"])
def test_a_link_to_the_service_itself_has_the_credentials(url: str) -> None:
    client = Client((200, b"{}"), auth=lambda: {"authorization": "Bearer token-of-auth"})
    assert client.link(url).status == 200
    assert client.requests[0].headers["authorization"].reveal() == "Bearer token-of-auth"  # type: ignore[union-attr]  # a Secret, as `auth` gave it


@pytest.mark.parametrize("url", ["http://api.example.com/x", "ftp://api.example.com/x", "", "/files/x", "https://"])
def test_a_link_that_is_no_https_url_is_refused(url: str) -> None:
    client = Client()
    with pytest.raises(MalformedEvent, match="expected an https URL"):
        client.link(url)
    assert not client.requests


def test_a_redirect_is_not_followed() -> None:
    client = Client((307, b""))
    with pytest.raises(BadRequest, match="redirect"):
        client.send("GET", "/files")
    assert len(client.requests) == 1


# LLMs


def test_a_key_is_required_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    client = Client(api_key=None)
    with pytest.raises(AuthFailed, match="OPENAI_API_KEY"):
        client.send("GET", "/files")


def test_an_llm_without_a_service() -> None:
    with pytest.raises(UnsupportedLLMError, match="ScriptedLLM is no LLM of one service"):
        sync_driver.run(service_of(toolcast.testing.ScriptedLLM([]), client_of(Client().llm).sync_backend()))


def test_an_adapter_that_is_not_for_http() -> None:
    client = Client()
    client.llm._made = object()  # type: ignore[assignment]  # another program's adapter
    with pytest.raises(UnsupportedLLMError, match="OpenAI is no LLM of one service"):
        client.send("GET", "/files")
