"""One exchange with a service: retries, deadlines, connections given back; on every API, over a replayed network."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from email.utils import formatdate
from typing import Any, cast

import anyio
import pytest

import toolcast
from support.albums import SEA, Album
from support.chunks import album_body, album_stream, call_deltas, delta, sse, text_body
from support.sync_and_async import API, AsyncAPI
from toolcast import OpenAI, Settings, Timeouts, ToolOrchestratingLLM, Usage
from toolcast.errors import (
    AuthFailed,
    BadRequest,
    ConnectFailed,
    MalformedEvent,
    Overloaded,
    QuotaExceeded,
    RateLimited,
    ServerError,
    StreamInterrupted,
    StreamTruncated,
    Timeout,
)
from toolcast.testing import Recorded, ReplayNetwork, VirtualClock
from toolcast.values.http_request import HTTPRequest

JSON = {"content-type": "application/json"}
GOOD = Recorded([album_body()], headers=JSON)
STREAM = Recorded(album_stream())


def refused(status: int, headers: dict[str, str] | None = None, **error: Any) -> Recorded:
    body = json.dumps({"error": {"message": "no", "type": "t", **error}}).encode()
    return Recorded([body], status, {**JSON, **(headers or {})})


def maker(*answers: Recorded | BaseException, **options: Any) -> tuple[Any, ReplayNetwork, VirtualClock]:
    network = ReplayNetwork(*answers)
    settings = options.pop("settings", None)
    attempts = options.pop("max_attempts", 1)
    llm = OpenAI("m-1", api="chat", api_key="sk-canary", network=network, **options)
    llm.clock = clock = VirtualClock()
    return ToolOrchestratingLLM(Album, "x", llm, settings=settings, max_attempts=attempts), network, clock


def given_back(network: ReplayNetwork) -> bool:
    gc.collect()
    return network.open_replies == 0


# -- the way it goes ------------------------------------------------------------------------------------------


def test_whole_and_streamed_give_the_same(api: API) -> None:
    make, network, _ = maker(GOOD, STREAM)
    result = api.run(make)
    assert result.output == SEA
    assert result.usage == Usage(7, 3)
    assert (result.response.provider, result.response.model) == ("openai", "m-1")
    assert api.stream(make).final == SEA
    assert given_back(network)
    assert [b'"stream":true' in request.body.replace(b" ", b"") for request in network.requests] == [False, True]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_pieces_of_any_size(api: API, size: int) -> None:
    make, network, _ = maker(Recorded.of(b"".join(album_stream()), size))
    assert api.stream(make).final == SEA
    assert given_back(network)


@pytest.mark.fault(31)
def test_a_whole_answer_though_a_stream_was_asked_for(api: API) -> None:
    make, _, _ = maker(GOOD)
    assert api.stream(make).items[-1] == SEA


@pytest.mark.fault(32)
def test_a_stream_though_a_whole_answer_was_asked_for(api: API) -> None:
    make, network, _ = maker(STREAM, Recorded(album_stream()[:5]))
    assert api.call(make) == SEA
    with pytest.raises(StreamTruncated):
        api.call(make)
    assert given_back(network)


@pytest.mark.fault(35)
@pytest.mark.parametrize(
    "kind", [None, "", "TEXT/EVENT-STREAM; Charset=UTF-8", "application/json; charset=latin-1", "text/plain", "x\x00/"]
)
def test_the_body_decides_what_it_is(api: API, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    make, _, _ = maker(Recorded([album_body()], headers=headers), Recorded(album_stream(), headers=headers))
    assert api.call(make) == SEA
    assert api.stream(make).final == SEA


def test_parse_reads_a_body_fetched_elsewhere() -> None:
    make, network, _ = maker()
    request = make.request()
    assert isinstance(request, HTTPRequest)
    assert request.url.endswith("/chat/completions")
    assert make.parse(album_body()) == SEA
    assert make.parse(album_body().decode()) == SEA
    assert network.requests == []
    assert make.preview().body["model"] == "m-1"


# -- retries --------------------------------------------------------------------------------------------------


@pytest.mark.fault(25)
@pytest.mark.parametrize("failure", [408, 409, 429, 500, 502, 503, 504, 529])
def test_passing_failures_are_retried(api: API, failure: int) -> None:
    make, network, clock = maker(refused(failure), GOOD, refused(failure), STREAM)
    result = api.run(make)
    assert result.output == SEA
    assert [type(attempt.error).__name__ for attempt in result.attempts][1:] == ["NoneType"]
    assert api.stream(make).final == SEA
    assert len(clock.slept) == 2
    assert all(0 <= seconds <= 0.5 for seconds in clock.slept)
    assert given_back(network)


@pytest.mark.fault(5, 6)
@pytest.mark.parametrize("failure", [ConnectFailed("refused"), StreamInterrupted("reset")])
def test_failing_connections_are_retried(api: API, failure: Exception) -> None:
    make, network, _ = maker(failure, GOOD, Recorded([failure]), STREAM)
    assert api.call(make) == SEA
    assert api.stream(make).final == SEA
    assert len(network.requests) == 4


@pytest.mark.fault(26)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_lasting_failures_are_not_retried(api: API, status: int) -> None:
    make, network, clock = maker(refused(status))
    with pytest.raises(toolcast.LLMError) as caught:
        api.call(make)
    assert (len(network.requests), clock.slept) == (1, [])
    assert caught.value.status == status
    assert not caught.value.retryable
    assert given_back(network)


@pytest.mark.fault(40)
def test_a_quota_is_not_retried(api: API) -> None:
    make, network, _ = maker(refused(429, code="insufficient_quota"))
    with pytest.raises(QuotaExceeded):
        api.call(make)
    assert len(network.requests) == 1


@pytest.mark.fault(25)
def test_retries_end_with_the_last_error_and_all_attempts(api: API) -> None:
    make, network, clock = maker(refused(500), refused(503), refused(500))
    with pytest.raises(ServerError) as caught:
        api.call(make)
    assert [type(attempt.error) for attempt in caught.value.attempts] == [ServerError, Overloaded, ServerError]
    assert len(clock.slept) == 2
    assert (caught.value.provider, caught.value.model) == ("openai", "m-1")
    assert given_back(network)


def test_no_retries_when_there_are_none(api: API) -> None:
    make, network, _ = maker(refused(500), max_retries=0)
    with pytest.raises(ServerError):
        api.call(make)
    assert len(network.requests) == 1


@pytest.mark.fault(21)
def test_retry_after_is_waited_for(api: API) -> None:
    make, _, clock = maker(refused(429, {"retry-after": "7"}), GOOD)
    assert api.call(make) == SEA
    assert clock.slept[0] >= 7


@pytest.mark.fault(24)
def test_a_long_retry_after_is_raised_at_once(api: API) -> None:
    make, _, clock = maker(refused(429, {"retry-after": "61"}))
    with pytest.raises(RateLimited) as caught:
        api.call(make)
    assert caught.value.retry_after == 61
    assert clock.slept == []


@pytest.mark.fault(24)
def test_retry_after_beyond_the_deadline_is_raised_at_once(api: API) -> None:
    make, _, clock = maker(refused(429, {"retry-after": "30"}), settings=Settings(timeout=10))
    with pytest.raises(RateLimited):
        api.call(make)
    assert clock.slept == []


def test_retry_after_on_a_good_answer_means_nothing(api: API) -> None:
    make, _, clock = maker(Recorded([album_body()], headers={**JSON, "retry-after": "39"}))
    assert api.call(make) == SEA
    assert clock.slept == []


@pytest.mark.fault(7, 118)
def test_nothing_is_retried_after_the_first_event(api: API) -> None:
    make, network, _ = maker(Recorded([*album_stream()[:8], StreamInterrupted("reset")]))
    seen = api.stream(make)
    assert isinstance(seen.error, StreamInterrupted)
    assert seen.error.partial == seen.items[-1]
    assert len(network.requests) == 1
    assert given_back(network)


@pytest.mark.fault(119)
def test_reasks_and_retries_share_one_budget(api: API) -> None:
    bad = Recorded([album_body('{"title": 1}')], headers=JSON)
    make, network, _ = maker(refused(500), bad, refused(500), refused(500), max_attempts=2)
    with pytest.raises(ServerError) as caught:
        api.call(make)
    assert len(network.requests) == 4
    kinds = [type(attempt.error).__name__ for attempt in caught.value.attempts]
    assert kinds == ["ServerError", "ValidationError", "ServerError", "ServerError"]


@pytest.mark.fault(122)
def test_usage_of_failed_attempts_counts(api: API) -> None:
    bad = Recorded([album_body('{"title": 1}')], headers=JSON)
    make, _, _ = maker(bad, GOOD, max_attempts=2)
    assert api.run(make).usage == Usage(14, 6)


@pytest.mark.fault(117)
def test_a_thousand_tasks_that_are_refused_at_once() -> None:
    """Each is retried no more often than alone, and the waits of all are spread over the whole of their bound."""
    tasks = 1000
    network = ReplayNetwork(*[refused(429)] * tasks * 3)
    llm = OpenAI("m-1", api="chat", api_key="k", network=network)
    llm.clock = clock = VirtualClock()
    make = ToolOrchestratingLLM(Album, "x", llm)
    attempts: list[int] = []

    async def one() -> None:
        with pytest.raises(RateLimited) as caught:
            await make.acall()
        attempts.append(len(caught.value.attempts))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(tasks):
                group.start_soon(one)

    anyio.run(main)
    assert attempts == [3] * tasks
    assert len(network.requests) == 3 * tasks
    assert len(clock.slept) == len(set(clock.slept)) == 2 * tasks
    tenths = Counter(int(seconds * 10) for seconds in clock.slept)
    assert tenths.keys() == set(range(10))  # up to half a second the first time, up to a second the second time
    assert max(tenths.values()) < tasks / 2


@pytest.mark.fault(120)
def test_a_header_of_the_callers_is_the_same_for_each_attempt(api: API) -> None:
    bad = Recorded([album_body('{"title": 1}')], headers=JSON)
    make, network, _ = maker(refused(500), bad, refused(500), GOOD, max_attempts=2, headers={"Idempotency-Key": "one"})
    assert api.call(make) == SEA
    sent: list[Any] = [request.headers["idempotency-key"] for request in network.requests]
    assert [key if isinstance(key, str) else key.reveal() for key in sent] == ["one"] * 4


# -- time -----------------------------------------------------------------------------------------------------


class Slow(ReplayNetwork):
    """A network on which every read takes `seconds` of the virtual clock."""

    def __init__(self, clock: VirtualClock, seconds: float, *answers: Recorded) -> None:
        super().__init__(*answers)
        self._clock, self._seconds = clock, seconds

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
        reply = super().open(request, connect=connect, read=read)
        given = reply.read

        def late(limit: float | None = None, /) -> bytes:
            self._clock.advance(self._seconds)
            return bytes(given())

        reply.read = late  # one slow reply
        return reply


def slow(seconds: float, timeouts: Timeouts, *answers: Recorded) -> tuple[Any, Slow]:
    clock = VirtualClock()
    network = Slow(clock, seconds, *answers)
    llm = OpenAI("m-1", api="chat", api_key="k", max_retries=0, network=network)
    llm.clock = clock
    return ToolOrchestratingLLM(Album, "x", llm, settings=Settings(timeout=timeouts)), network


@pytest.mark.fault(16)
def test_the_total_time_ends_a_slow_drip(api: API) -> None:
    make, network = slow(1, Timeouts(total=10), STREAM)
    seen = api.stream(make)
    assert isinstance(seen.error, Timeout)
    assert seen.error.phase == "total"
    assert "10" in str(seen.error)
    assert given_back(network)


@pytest.mark.fault(14, 15)
def test_the_first_token_is_waited_for_so_long(api: API) -> None:
    comments = Recorded([b": ping\n\n"] * 50 + album_stream())
    make, network = slow(1, Timeouts(first_token=5, total=None), comments)
    seen = api.stream(make)
    assert isinstance(seen.error, Timeout)
    assert seen.error.phase == "first_token"
    assert given_back(network)


@pytest.mark.fault(15)
@pytest.mark.parametrize("phase", ["connect", "idle"])
def test_time_limits_of_the_network_are_named(api: API, phase: str) -> None:
    failure = Timeout("late", phase=phase)
    stopped = failure if phase == "connect" else Recorded([*album_stream()[:5], failure])
    make, _, _ = maker(stopped, max_retries=0)
    seen = api.stream(make)
    assert isinstance(seen.error, Timeout)
    assert seen.error.phase == phase
    assert "Timeouts(" in str(seen.error)


@pytest.mark.fault(14)
def test_silence_before_the_first_event_is_the_first_tokens(api: API) -> None:
    make, _, _ = maker(Recorded([Timeout("late", phase="idle")]), max_retries=0)
    error = api.stream(make).error
    assert isinstance(error, Timeout)
    assert error.phase == "first_token"


class Noted(ReplayNetwork):
    """A network that notes the limits it is given."""

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
        self.limits = connect, read
        return super().open(request, connect=connect, read=read)


@pytest.mark.parametrize(
    ("timeouts", "blocking", "awaited"),
    [
        (Timeouts(connect=1, first_token=5, idle=120, total=None), (1, 120), (1, 5)),
        (Timeouts(connect=1, first_token=5, idle=2, total=None), (1, 5), (1, 5)),
        (Timeouts(connect=1, first_token=5, idle=None, total=None), (1, None), (1, 5)),
        (Timeouts(connect=1, first_token=None, idle=3, total=None), (1, None), (1, None)),
        (Timeouts(connect=9, first_token=9, idle=9, total=4), (4, 4), (4, 4)),
    ],
)
def test_the_headers_are_waited_for_so_long(api: API, timeouts: Timeouts, blocking: Any, awaited: Any) -> None:
    """A network without an event loop may know but one limit for all reads of a body: the larger."""
    network = Noted(STREAM)
    llm = OpenAI("m-1", api="chat", api_key="k", network=network)
    llm.clock = VirtualClock()
    api.stream(ToolOrchestratingLLM(Album, "x", llm, settings=Settings(timeout=timeouts)))
    assert network.limits == (awaited if api.name in ("asyncio", "trio") else blocking)


class Jumping(VirtualClock):
    """A clock whose wall time jumps by an hour and back while a call waits."""

    def __init__(self, jump: float) -> None:
        super().__init__()
        self._jump = jump

    def time(self) -> float:
        return super().time() + self._jump

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self._jump = -self._jump


@pytest.mark.fault(114)
@pytest.mark.parametrize("begins", [3600.0, -3600.0])
def test_a_wall_clock_that_jumps_changes_no_wait_and_no_limit(api: API, begins: float) -> None:
    server = formatdate(1_700_000_000, usegmt=True)
    later = formatdate(1_700_000_005, usegmt=True)
    busy = refused(429, {"retry-after": later, "date": server})
    make, _, _ = maker(busy, refused(503), GOOD, settings=Settings(timeout=Timeouts(total=20)))
    make.llm.clock = clock = Jumping(begins)
    assert api.call(make) == SEA
    assert 5 <= clock.slept[0] <= 5.5
    assert clock.slept[1] <= 1


# -- what may come back -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.fault(9)
@pytest.mark.gate("G10")
def test_a_cut_stream_at_every_event(api: API) -> None:
    pieces = album_stream()
    every = 1 if api.name == "sync" else 9  # the events are the same on every API
    for end in range(0, len(pieces) - 3, every):
        make, network, _ = maker(Recorded(pieces[:end]), max_retries=0)
        seen = api.stream(make)
        assert isinstance(seen.error, (StreamTruncated, MalformedEvent)), end
        assert given_back(network)


@pytest.mark.fault(52)
def test_a_damaged_event_inside_a_call(api: API, caplog: pytest.LogCaptureFixture) -> None:
    pieces = album_stream()
    pieces[4] = pieces[4][:40] + b"\n\n"
    received: list[str] = []
    make, network, _ = maker(Recorded(pieces))
    seen = api.stream(make.with_(observer=lambda _, state: received.append(state)))
    assert isinstance(seen.error, MalformedEvent)
    assert len(seen.items) > 10
    assert seen.error.partial is not None
    assert "skipping_chunk" in received
    assert caplog.text.count("Failed to parse streaming response") == 1
    assert given_back(network)


@pytest.mark.fault(52)
def test_noise_changes_nothing(api: API) -> None:
    pieces = album_stream()
    pieces.insert(6, b"data: <html>\n\n")
    make, _, _ = maker(Recorded(pieces))
    assert api.stream(make).final == SEA


@pytest.mark.fault(52)
def test_a_damaged_event_inside_text_that_is_the_answer(api: API) -> None:
    text = SEA.model_dump_json()
    chunks = [delta(content=text[start : start + 8]) for start in range(0, len(text), 8)]
    pieces = sse(*chunks, delta("stop"))
    pieces[4] = pieces[4][:40] + b"\n\n"
    make, _, _ = maker(Recorded(pieces), Recorded(sse(*chunks, delta("stop"))))
    seen = api.stream(make)
    assert isinstance(seen.error, MalformedEvent)
    assert api.stream(make).final == SEA


@pytest.mark.fault(28, 29)
@pytest.mark.parametrize("body", [b"", b"<html>welcome</html>", b"[]", b"null", b"{"])
def test_a_good_status_with_a_bad_body(api: API, body: bytes) -> None:
    make, network, _ = maker(Recorded([body], headers=JSON), max_retries=0)
    with pytest.raises((MalformedEvent, StreamTruncated)):
        api.call(make)
    assert given_back(network)


@pytest.mark.fault(29, 30)
@pytest.mark.parametrize("status", [200, 202, 204])
def test_a_status_without_a_body(api: API, status: int) -> None:
    make, network, _ = maker(*[Recorded([], status)] * 2, max_retries=0)
    with pytest.raises(MalformedEvent, match="is empty"):
        api.call(make)
    assert isinstance(api.stream(make).error, MalformedEvent)
    assert given_back(network)


@pytest.mark.fault(51)
def test_an_error_in_the_middle_of_a_stream(api: API) -> None:
    pieces = [*album_stream()[:6], *sse({"error": {"message": "overloaded", "type": "server_error"}})]
    make, network, _ = maker(Recorded(pieces))
    seen = api.stream(make)
    assert isinstance(seen.error, toolcast.LLMError)
    assert seen.error.partial is not None
    assert given_back(network)


def test_an_error_behind_events_in_one_piece_is_not_waited_for(api: API) -> None:
    """Whether the server then closes the connection or just falls silent."""
    error = b"".join(sse({"error": {"message": "overloaded", "type": "server_error"}}, done=False))
    make, network, _ = maker(Recorded([b"".join(album_stream()[:6]) + error, AssertionError("read on")]))
    seen = api.stream(make)
    assert isinstance(seen.error, toolcast.errors.ServerError)
    assert given_back(network)


@pytest.mark.fault(27)
def test_a_refusal_that_is_a_web_page(api: API) -> None:
    make, _, _ = maker(Recorded([b"<html>bad gateway</html>"], 502, {"content-type": "text/html"}), max_retries=0)
    with pytest.raises(ServerError, match="502"):
        api.call(make)


def test_a_huge_refusal_is_read_to_a_limit(api: API) -> None:
    make, network, _ = maker(Recorded([b"x" * 10_000] * 1000, 400))
    with pytest.raises(BadRequest) as caught:
        api.call(make)
    assert len(str(caught.value)) < 2000
    assert given_back(network)


# -- leaving early ----------------------------------------------------------------------------------------------


@pytest.mark.fault(104)
def test_breaking_out_gives_the_connection_back(api: API) -> None:
    make, network, _ = maker(STREAM)
    assert len(api.stream(make, take=3).items) == 3
    assert given_back(network)
    assert network.closed_replies == 1


@pytest.mark.fault(104)
def test_an_abandoned_stream_gives_the_connection_back() -> None:
    make, network, _ = maker(STREAM)
    for _ in make.stream():
        break
    assert given_back(network)


@pytest.mark.fault(106)
@pytest.mark.parametrize("raised", [ValueError("mine"), KeyboardInterrupt(), SystemExit(1)])
def test_an_exception_in_the_loop_body_gives_the_connection_back(raised: BaseException) -> None:
    make, network, _ = maker(STREAM)
    with pytest.raises(type(raised)):
        for _ in make.stream():
            raise raised
    assert given_back(network)


@pytest.mark.fault(106)
@pytest.mark.parametrize("raised", [KeyboardInterrupt(), SystemExit(1), MemoryError()])
def test_an_interrupt_while_reading_passes_and_gives_the_connection_back(api: API, raised: BaseException) -> None:
    make, network, _ = maker(Recorded([*album_stream()[:6], raised]), GOOD)
    with pytest.raises(type(raised)):
        seen = api.stream(make)
        if seen.error is not None:
            raise seen.error
    assert given_back(network)
    assert api.call(make) == SEA


@pytest.mark.fault(105)
def test_a_closed_stream_has_no_final_object() -> None:
    make, _, _ = maker(STREAM)
    stream = make.stream()
    next(stream)
    assert stream.state == "yielding_partial"
    stream.close()
    stream.close()
    assert stream.state == "closed"
    assert list(stream) == []
    with pytest.raises(toolcast.errors.StreamClosed):
        stream.final()


def test_leaving_a_with_block_closes() -> None:
    make, network, _ = maker(STREAM)
    with make.stream() as stream:
        assert len(network.requests) == 1
        next(stream)
    assert network.open_replies == 0


def endless(kind: str) -> Iterator[bytes]:
    """An answer that goes on and on, each of its events a proper one."""
    piece = "x" * 1000
    begun, *_ = call_deltas("")
    text = {"function": {"arguments": '{"title": "'}}
    events: dict[str, list[dict[str, Any]]] = {
        "text": [delta(content=piece)],
        "thoughts": [delta(reasoning_content=piece)],
        "arguments": [delta(tool_calls=[{"index": 0, "function": {"arguments": piece}}])],
        "other events": [{"x": piece}],
    }
    yield from sse(begun, delta(tool_calls=[{"index": 0, **text}]), done=False) if kind == "arguments" else []
    while True:
        yield from sse(*events[kind], done=False) if kind in events else [b": ping\n\n" * 100]


@pytest.mark.fault(53)
@pytest.mark.gate("G6")
@pytest.mark.parametrize("kind", ["text", "thoughts", "arguments", "other events", "pings"])
def test_an_answer_without_end_is_ended(api: API, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of a response has a limit, also where each of its events is small."""
    monkeypatch.setattr("toolcast.llms.http.http_exchange.MAX_RESPONSE_BYTES", 100_000)
    make, network, _ = maker(Recorded(cast("Sequence[bytes]", endless(kind))), STREAM, STREAM)
    seen = api.stream(make)
    assert isinstance(seen.error, toolcast.errors.LimitExceeded)
    assert "100000 bytes" in str(seen.error)
    assert kind != "arguments" or len(seen.error.partial.title) > 50_000
    assert given_back(network)
    assert [api.stream(make).final for _ in range(2)] == [SEA, SEA]  # each has the limit for itself
    assert len(network.requests) == 3


@pytest.mark.fault(116)
def test_nothing_is_read_ahead(api: API) -> None:
    """What a consumer has not asked for stays with the network, which slows the service down."""
    taken: list[bytes] = []

    def noted() -> Iterator[bytes]:
        for piece in album_stream():
            taken.append(piece)
            yield piece

    make, network, _ = maker(Recorded(cast("Sequence[bytes]", noted())))
    (item,) = api.stream(make, take=1).items
    assert taken == album_stream()[: len(taken)]
    assert not item.title
    assert len(taken) < 5 < len(album_stream())
    assert given_back(network)


@pytest.mark.fault(111)
def test_a_failed_call_is_collected_with_its_error(api: API) -> None:
    make, network, _ = maker(refused(500), refused(400), Recorded(album_stream()[:9]), max_retries=1)
    with pytest.raises(BadRequest) as caught:
        api.call(make)
    errors = [weakref.ref(caught.value), *(weakref.ref(attempt.error) for attempt in caught.value.attempts)]
    seen = api.stream(make)
    assert isinstance(seen.error, StreamTruncated)
    errors.append(weakref.ref(seen.error))
    del caught, seen
    assert given_back(network)
    assert [error() for error in errors] == [None] * 4


# -- keys -------------------------------------------------------------------------------------------------------


def test_no_key_is_sent_before_anything_is_sent(api: API, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    network = ReplayNetwork()
    make = ToolOrchestratingLLM(Album, "x", OpenAI("m-1", api="chat", network=network))
    with pytest.raises(AuthFailed, match="OPENAI_API_KEY"):
        api.call(make)
    assert network.requests == []


def test_auth_gives_headers_for_each_request(api: API) -> None:
    tokens = iter(["one", "two"])
    make, network, _ = maker(GOOD, GOOD, auth=lambda: {"Authorization": f"Bearer {next(tokens)}"})
    api.call(make)
    api.call(make)
    sent = [request.headers["authorization"].reveal() for request in network.requests]
    assert sent == ["Bearer one", "Bearer two"]


def test_words_are_no_album(api: API) -> None:
    make, _, _ = maker(Recorded([text_body("no")], headers=JSON))
    with pytest.raises(toolcast.errors.NoToolCallError):
        api.call(make)


@pytest.mark.fault(77)
@pytest.mark.parametrize("text", ["", "  \n\t", "\u200b"])
def test_an_answer_that_says_nothing(api: API, text: str) -> None:
    make, network, _ = maker(
        Recorded([text_body(text)], headers=JSON), Recorded(sse(delta(content=text), delta("stop"))), GOOD
    )
    with pytest.raises(toolcast.errors.NoToolCallError, match="got 0 tool calls"):
        api.call(make)
    assert isinstance(api.stream(make).error, toolcast.errors.NoToolCallError)
    assert api.call(make) == SEA
    assert given_back(network)


@pytest.mark.nightly
@pytest.mark.fault(65, 68)
def test_a_string_of_ten_megabytes(api: API) -> None:
    sea = SEA.model_copy(update={"title": "\x00 é" + "Sea of Glass" * 850_000})
    text = sea.model_dump_json()
    begun, *_ = call_deltas("")
    pieces = (text[start : start + 65_536] for start in range(0, len(text), 65_536))
    grown = (delta(tool_calls=[{"index": 0, "function": {"arguments": piece}}]) for piece in pieces)
    stream = Recorded(sse(begun, *grown, delta("tool_calls")))
    make, network, _ = maker(Recorded([album_body(text)], headers=JSON), stream)
    assert api.call(make) == sea
    assert api.stream(make).final == sea
    assert given_back(network)


@pytest.mark.fault(53, 65)
def test_a_string_beyond_the_limit(api: API) -> None:
    piece = b"x" * (1 << 20)
    endless = Recorded([b'{"choices":[{"message":{"content":"', *[piece] * 100])
    line = Recorded([b'data: {"choices":[{"delta":{"content":"', *[piece] * 100])
    make, network, _ = maker(endless, line, max_retries=0)
    with pytest.raises(toolcast.errors.LimitExceeded):
        api.call(make)
    assert isinstance(api.stream(make).error, toolcast.errors.LimitExceeded)
    assert given_back(network)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_auth_that_never_answers_has_the_time_of_the_call(kind: str, async_api: API) -> None:
    over = threading.Event()

    def wait() -> dict[str, str]:
        over.wait()
        return {}

    async def sleep() -> dict[str, str]:
        await anyio.sleep_forever()
        return {}

    auth, limit = wait if kind == "sync" else sleep, Settings(timeout=Timeouts(total=0.05))
    make, network, _ = maker(GOOD, auth=auth, settings=limit, max_retries=0)
    try:
        with pytest.raises(Timeout, match=r"the call did not end within 0\.05 s"):
            async_api.call(make)
    finally:
        over.set()
    assert network.requests == []


@pytest.fixture(params=["asyncio", "trio"])
def async_api(request: pytest.FixtureRequest) -> API:
    """An API with an event loop."""
    return AsyncAPI(request.param)
