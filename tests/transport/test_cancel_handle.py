"""A blocked call is broken off by another thread: in the body, before the headers, between two attempts, in a queue."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.chunks import album_stream, delta, sse
from support.loopback import END, HOLD, Loopback, chunk, head, whole
from toolcast import FallbackLLM, LLMError, OpenAI, Settings, ToolcastError
from toolcast.async_support import sync_driver
from toolcast.errors import StreamClosed, StreamInterrupted
from toolcast.events import TextDelta
from toolcast.llms.call_state import CallState, ResponseEvents
from toolcast.llms.client import client_of
from toolcast.llms.concurrency_limiter import LimitedEvents
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.llms.prompted_tools import PromptedEvents
from toolcast.llms.request import ChatRequest
from toolcast.messages import user
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM
from toolcast.transport.cancel_handle import CancelHandle, current_handle, shut
from toolcast.transport.connection_pool import PooledConnection
from toolcast.transport.httpx_connections import ActiveResponse, _cut
from toolcast.transport.httpx_network import HttpxNetwork
from toolcast.values.http_request import HTTPRequest

PATIENCE = 20.0
SSE_HEAD = head(200, "content-type: text/event-stream", "transfer-encoding: chunked")


def words(text: str) -> bytes:
    return chunk(b"".join(sse(delta(content=text), done=False)))


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


def openai(server: Loopback, **options: Any) -> OpenAI:
    return OpenAI("m-1", api_key="sk-canary", base_url=server.url.removesuffix("/chat"), **options)


def asked(llm: FunctionCallingLLM, *, stream: bool = True) -> ResponseEvents:
    backend = client_of(llm).sync_backend()
    ask = ChatRequest((user("x"),), settings=client_of(llm).merge_settings(None), stream=stream, parallel=True)
    return client_of(llm).source(ask, backend, CallState().begin(ask.settings, backend.now))


class Reading(threading.Thread):
    """A thread that reads a source to its end. `some` is set with the first event."""

    def __init__(self, source: ResponseEvents) -> None:
        super().__init__(daemon=True)
        self.source = source
        self.some = threading.Event()
        self.text = ""
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while events := sync_driver.run(self.source.next_events()):
                self.text += "".join(event.text for event in events if isinstance(event, TextDelta))
                self.some.set()
        except ToolcastError as error:
            self.error = error

    def ended(self) -> BaseException | None:
        self.join(PATIENCE)
        assert not self.is_alive()
        return self.error


def answers_again(llm: FunctionCallingLLM, server: Loopback) -> None:
    body = json.dumps({"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}).encode()
    server.answer(whole(body, 200, "content-type: application/json"))
    assert llm.chat("x").text == "hi"


# -- in the middle of a body ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"max_concurrency": 1}])
def test_a_stalled_body_is_broken_off(server: Loopback, options: dict[str, Any]) -> None:
    server.answer(SSE_HEAD, words("one"), HOLD)
    llm = openai(server, **options)
    reading = Reading(asked(llm))
    assert reading.some.wait(PATIENCE)
    reading.source.break_off()
    reading.source.break_off()
    assert isinstance(reading.ended(), StreamInterrupted)
    assert reading.text == "one"
    server.wait_open(0)
    assert len(server.requests) == 1
    answers_again(llm, server)
    llm.close()


def test_a_stalled_body_of_a_client_of_the_users_own(server: Loopback) -> None:
    server.answer(SSE_HEAD, words("one"), HOLD)
    with httpx.Client() as client:
        llm = openai(server, network=HttpxNetwork(client))
        reading = Reading(asked(llm))
        assert reading.some.wait(PATIENCE)
        reading.source.break_off()
        assert isinstance(reading.ended(), StreamInterrupted)
        server.wait_open(0)
        answers_again(llm, server)


def test_a_stalled_body_under_tls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with Loopback(tls=context) as server:
        server.answer(SSE_HEAD, words("one"), HOLD)
        llm = openai(server)
        reading = Reading(asked(llm))
        assert reading.some.wait(PATIENCE)
        reading.source.break_off()
        assert isinstance(reading.ended(), StreamInterrupted)
        server.wait_open(0)
        server.answer(HOLD)
        reading = Reading(asked(llm, stream=False))
        server.wait_requests(2)
        reading.source.break_off()
        assert isinstance(reading.ended(), StreamInterrupted)
        answers_again(llm, server)
        llm.close()


def test_what_was_read_to_its_end_is_left_alone(server: Loopback) -> None:
    server.answer(SSE_HEAD, words("one"), chunk(b"".join(sse(delta("stop")))), END)
    llm = openai(server)
    reading = Reading(asked(llm))
    reading.ended()
    reading.source.break_off()
    answers_again(llm, server)
    assert server.accepted == 1
    llm.close()


# -- before the headers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [False, True])
def test_a_wait_for_headers_is_broken_off(server: Loopback, kept: bool) -> None:
    """On a connection that was made for it, and on one that has served before; and nothing is sent again."""
    llm = openai(server)
    if kept:
        answers_again(llm, server)
    before = len(server.requests)
    server.answer(HOLD)
    reading = Reading(asked(llm, stream=False))
    server.wait_requests(before + 1)
    reading.source.break_off()
    assert isinstance(reading.ended(), StreamInterrupted)
    server.wait_open(0)
    assert len(server.requests) == before + 1
    answers_again(llm, server)
    llm.close()


def test_a_broken_call_does_not_begin(server: Loopback) -> None:
    llm = openai(server)
    reading = asked(llm)
    reading.break_off()
    with pytest.raises(StreamInterrupted, match="aborted"):
        sync_driver.run(reading.next_events())
    assert server.accepted == 0
    answers_again(llm, server)
    llm.close()


def test_one_that_is_broken_while_it_connects(server: Loopback) -> None:
    handle = CancelHandle()
    request = HTTPRequest("POST", server.url, {}, b"{}")

    network = HttpxNetwork()
    with handle:
        handle.break_off()
        with pytest.raises(LLMError):
            network.open(request, connect=5.0, read=5.0)
    server.wait_open(0)
    assert network.open(request, connect=5.0, read=5.0).read() == b""
    network.close()


# -- between two attempts, in a queue, behind other sources -----------------------------------------------------


def test_the_wait_for_the_next_attempt_is_broken_off(server: Loopback) -> None:
    server.answer(whole(b"{}", 503, "retry-after: 50"))
    llm = openai(server)
    waiting = threading.Event()
    own = CancelHandle.sleep

    def sleep(self: CancelHandle, seconds: float) -> None:
        waiting.set()
        own(self, seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CancelHandle, "sleep", sleep)
        reading = Reading(asked(llm))
        assert waiting.wait(PATIENCE)
        reading.source.break_off()
        assert isinstance(reading.ended(), StreamInterrupted)
    assert len(server.requests) == 1
    llm.close()


def test_the_wait_for_a_turn_is_broken_off(server: Loopback) -> None:
    server.answer(SSE_HEAD, words("one"), HOLD)
    llm = openai(server, max_concurrency=1)
    first = Reading(asked(llm))
    assert first.some.wait(PATIENCE)
    early = asked(llm)
    early.break_off()
    with pytest.raises(StreamClosed):
        sync_driver.run(early.next_events())
    source = asked(llm)
    second = Reading(source)
    assert isinstance(source, LimitedEvents)
    while source._waiter is None or source._waiter.thread not in source._waiter.slots.blocked:
        pass
    source.break_off()
    assert isinstance(second.ended(), StreamClosed)
    first.source.break_off()
    first.ended()
    answers_again(llm, server)
    llm.close()


def test_no_other_model_is_asked(server: Loopback) -> None:
    server.answer(HOLD)
    first, second = openai(server), ScriptedLLM("from the second")
    reading = Reading(asked(FallbackLLM([first, second])))
    server.wait_requests(1)
    reading.source.break_off()
    assert isinstance(reading.ended(), StreamInterrupted)
    early = asked(FallbackLLM([first, second]))
    early.break_off()
    with pytest.raises(StreamInterrupted):
        sync_driver.run(early.next_events())
    first.close()


def test_a_model_that_is_held_in_words() -> None:
    broken: list[str] = []

    class Broken:
        def break_off(self) -> None:
            broken.append("off")

    PromptedEvents(Broken(), None, None, accept_damaged=False).break_off()  # type: ignore[arg-type]  # only break_off is called
    assert broken == ["off"]


@pytest.mark.parametrize("early", [True, False])
def test_a_call_is_broken_off_before_and_after_its_source_is_open(early: bool) -> None:
    llm = OpenAI("m-1", api_key="sk", network=ReplayNetwork())
    call, source = CallState().begin(Settings(), client_of(llm).sync_backend().now), asked(llm)
    for step in (call.break_off, partial(call.open, source))[:: 1 if early else -1]:
        step()
    with pytest.raises(StreamInterrupted, match="aborted"):
        sync_driver.run(source.next_events())


def test_direct_reads_are_broken_off() -> None:
    source = asked(OpenAI("m-1", api="chat", api_key="sk", network=ReplayNetwork(Recorded(album_stream()))))
    while (reads := source.direct_reads("call_1")) is None:
        assert sync_driver.run(source.next_events())
    source.break_off()
    with pytest.raises(StreamInterrupted, match="aborted"):
        reads.time_left()
    sync_driver.run(source.close())


def test_an_iterator_goes_on_to_its_next_event() -> None:
    source = asked(ScriptedLLM("hello"))
    source.break_off()
    assert Reading(source).ended() is None


# -- the handle itself --------------------------------------------------------------------------------------------


def test_a_reply_of_the_users_own_is_reported() -> None:
    text: list[str] = []

    class Network(ReplayNetwork):
        def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
            reply: Any = super().open(request, connect=connect, read=read)
            reply.break_off = lambda: text.append("off")
            return reply

    answer = Recorded(sse(delta(content="one"), delta("stop")))
    llm = OpenAI("m-1", api_key="sk", network=Network(answer, answer))
    source = asked(llm)
    assert sync_driver.run(source.next_events())
    source.break_off()
    source.break_off()
    assert text == ["off"]
    with pytest.raises(StreamInterrupted):
        sync_driver.run(source.next_events())
    backend = client_of(llm).sync_backend()
    request = HTTPRequest("POST", "http://service/v1", {}, b"{}")
    sync_driver.run(backend.open(request, connect=1.0, read=1.0))  # without a handle
    assert text == ["off"]


def test_a_handle_has_one_wait_at_a_time() -> None:
    text: list[str] = []
    handle = CancelHandle()
    assert current_handle() is None
    with handle:
        assert current_handle() is handle
    handle.register(lambda: text.append("first"))
    handle.register(lambda: text.append("second"))
    assert handle.unregister()
    handle.register(lambda: text.append("third"))
    handle.break_off()
    assert not handle.unregister()
    handle.register(lambda: text.append("late"))
    handle.sleep(1000.0)
    assert text == ["third", "late"]


def test_a_sleep_that_no_one_breaks() -> None:
    handle = CancelHandle()
    handle.sleep(0.001)
    assert handle.unregister()


def test_a_connection_that_may_serve_others_is_left_alone() -> None:
    one, other = socket.socketpair()
    with one, other:
        response = httpx.Response(200, extensions={"network_stream": Stream(one)})
        kept = ActiveResponse(PooledConnection(httpx.HTTPTransport()), response, iter(()))
        response.is_closed = True
        _cut(kept)
        one.sendall(b"x")
        response.is_closed = False
        _cut(kept)
        assert other.recv(2) == b"x"
        assert other.recv(1) == b""


class Stream:
    def __init__(self, connection: object) -> None:
        self.connection = connection

    def get_extra_info(self, name: str) -> object:
        assert name == "socket"
        return self.connection


def test_only_sockets_are_shut() -> None:
    shut(None)
    shut(Stream(None))
    one, other = socket.socketpair()
    with one, other:
        shut(Stream(one))
        assert other.recv(1) == b""
    shut(Stream(one))
