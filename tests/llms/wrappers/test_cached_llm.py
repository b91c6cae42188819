"""`CachedLLM`: what is stored and when, what is given again, and one request for several callers."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from pydantic import BaseModel, field_validator

from support.albums import SEA, SHORT, Album, call
from support.chunks import album_body, album_stream
from support.sync_and_async import API
from toolcast import (
    CallableTool,
    Engine,
    FallbackLLM,
    FunctionCallingLLM,
    LlamaCpp,
    Message,
    OpenAI,
    Permissions,
    Prices,
    Settings,
    Timeouts,
    ToolcastError,
    ToolOrchestratingLLM,
    TryAgain,
    user,
)
from toolcast.async_support.waiters import Waiters
from toolcast.errors import Overloaded, StreamInterrupted, Timeout
from toolcast.events import Event, Finish, RawEvent, TextDelta, UsageReport
from toolcast.llms import (
    Cache,
    CachedLLM,
    ChatRequest,
    LLMMetadata,
    MemoryCache,
    Next,
    RecordingLLM,
    RedactedLLM,
    SQLiteCache,
    WrapperLLM,
)
from toolcast.llms.client import client_of
from toolcast.llms.wrappers import cached_llm
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM, VirtualClock
from values.test_hooks import Notes

JSON = {"content-type": "application/json"}
STREAM = {"content-type": "text/event-stream"}
LONG = 30.0  # seconds, the limit of waits that end at once


@pytest.fixture(autouse=True)
def no_flight_is_left() -> Iterator[None]:
    yield
    gc.collect()
    assert cached_llm._flights == {}


@pytest.fixture(params=["memory", "sqlite"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cache]:
    """Return each cache in turn."""
    if request.param == "memory":
        yield MemoryCache()
    else:
        with SQLiteCache(tmp_path / "answers.db") as found:
            yield found


def is_hit(response: Any) -> bool:
    return response.usage.total_tokens == 0 and response.usage.cost == 0


# Hits and misses.


def test_a_chat_is_answered_again(api: API, cache: Cache) -> None:
    wrapped = ScriptedLLM("Calm.")
    llm = CachedLLM(wrapped, cache)
    first, second = api.chat(llm, "How is the sea?"), api.chat(llm, "How is the sea?")
    assert (first.usage.total_tokens, is_hit(first), is_hit(second)) == (15, False, True)
    assert second.message == first.message
    assert (second.stop_reason, second.model, second.provider) == (first.stop_reason, first.model, first.provider)
    assert len(wrapped.requests) == 1


def test_a_stream_is_replayed_as_a_stream(api: API, cache: Cache) -> None:
    llm = CachedLLM(ScriptedLLM(SEA), cache)
    make = ToolOrchestratingLLM(Album, "Make one.", llm)
    first, second = api.stream(make), api.stream(make)
    assert second.items == first.items and len(first.items) > 5
    assert second.final == SEA


@pytest.mark.parametrize("streamed_first", [True, False])
def test_streamed_and_complete_answers_are_the_same(api: API, streamed_first: bool) -> None:
    network = ReplayNetwork(
        Recorded(album_stream(), headers=STREAM) if streamed_first else Recorded([album_body()], headers=JSON)
    )
    make = ToolOrchestratingLLM(Album, "x", CachedLLM(OpenAI("m-1", api="chat", api_key="k", network=network)))
    ways: list[Callable[[], Any]] = [lambda: api.stream(make).final, lambda: api.call(make)]
    for way in ways if streamed_first else reversed(ways):
        assert way() == SEA
    assert len(network.requests) == 1


def test_a_hit_costs_nothing(api: API) -> None:
    notes = Notes()
    llm = CachedLLM(ScriptedLLM(SEA, prices=Prices(input=1, output=1)), hooks=notes)
    make = ToolOrchestratingLLM(Album, "x", llm)
    paid, free = api.run(make), api.run(make)
    assert paid.cost > 0 and free.cost == 0 and free.usage.total_tokens == 0
    assert [len(result.attempts) for result in (paid, free)] == [1, 1]
    assert notes.methods == ["request", "response", "end"] * 2


def test_another_request_is_a_miss(api: API, cache: Cache) -> None:
    wrapped = ScriptedLLM("a", "b", "c", "d")
    llm = CachedLLM(wrapped, cache)
    texts = [
        api.chat(llm, "x").text,
        api.chat(llm, "y").text,
        api.chat(llm, "x", settings=Settings(temperature=1)).text,
        api.chat(llm, "x", tools=[Album]).text,
        api.chat(llm, "x", settings=Settings(timeout=9)).text,  # changes no answer
        api.chat(llm, "y").text,
    ]
    assert texts == ["a", "b", "c", "d", "a", "b"]


def test_namespaces_are_apart(api: API, cache: Cache) -> None:
    wrapped = ScriptedLLM("a", "b")
    for name, text in (("one", "a"), ("two", "b"), ("one", "a"), ("two", "b")):
        assert api.chat(CachedLLM(wrapped, cache, namespace=name), "x").text == text


def test_models_and_urls_are_apart(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(llm: FunctionCallingLLM) -> str:
        return str(client_of(llm).cache_data(client_of(llm).build_request("x", [], None, None, parallel=True)))

    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    one = OpenAI("m-1", api="chat", api_key="one")
    assert key(one) == key(OpenAI("m-1", api="chat", api_key="two"))
    assert key(one) != key(OpenAI("m-2", api="chat", api_key="one"))
    assert key(one) != key(OpenAI("m-1", api_key="one", base_url="http://127.0.0.1:9/v1"))
    before = key(one)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert before != key(OpenAI("m-1", api="chat", api_key="one"))
    assert "secret" not in key(OpenAI("m-1", base_url="http://me:secret@127.0.0.1:9/v1", api_key="secret"))
    assert key(LlamaCpp("a.gguf")) == key(LlamaCpp("a.gguf")) != key(LlamaCpp("b.gguf"))  # no server is started for it


def test_the_id_of_an_earlier_response_is_not_in_the_key() -> None:
    def key(id: str | None) -> list[Any]:
        history = [user("x"), Message("assistant", ("y",), response_id=id), user("z")]
        return client_of(llm).cache_data(client_of(llm).build_request(history, [], None, None, parallel=True))

    llm = ScriptedLLM()
    assert key("resp_1") == key("resp_2") == key(None)


def test_the_key_through_other_wrappers(tmp_path: Path) -> None:
    class One(WrapperLLM):
        async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
            async for event in call_next(request):
                yield event

    def data(llm: FunctionCallingLLM, text: str = "Ada") -> list[Any]:
        return client_of(llm).cache_data(client_of(llm).build_request(text, [], None, None, parallel=True))

    wrapped = ScriptedLLM()
    assert data(One(wrapped)) == data(One(wrapped)) != data(wrapped)
    assert data(RecordingLLM(wrapped, tmp_path / "calls.jsonl")) == data(wrapped)
    # The cache contains answers to what was sent.
    hidden = RedactedLLM(wrapped, lambda text: text.replace("Ada", "[NAME]"))
    assert data(hidden) == data(wrapped, "[NAME]") != data(RedactedLLM(wrapped, str.upper))


def test_ttl_and_refresh(api: API, cache: Cache) -> None:
    wrapped = ScriptedLLM("a", "b", "c")
    wrapped.clock = clock = VirtualClock()
    llm = CachedLLM(wrapped, cache, ttl=60)
    assert api.chat(llm, "x").text == "a"
    clock.advance(60)
    assert api.chat(llm, "x").text == "a"
    clock.advance(1)
    assert api.chat(llm, "x").text == "b"
    assert api.chat(CachedLLM(wrapped, cache, refresh=True), "x").text == "c"
    assert api.chat(llm, "x").text == "c"


def test_the_provider_and_the_model_of_a_fallback(api: API) -> None:
    members = [ScriptedLLM(Overloaded("busy"), model="big"), ScriptedLLM("x", model="small")]
    llm = CachedLLM(FallbackLLM(members))
    assert [api.chat(llm, "Hi.").model for _ in range(2)] == ["small", "small"]
    kept = [ScriptedLLM("y", system_prompt="Be brief."), *members[1:]]
    assert api.chat(CachedLLM(FallbackLLM(kept), llm.cache), "Hi.").text == "y"


def test_a_setting_that_is_no_json_is_not_cached(api: API) -> None:
    wrapped = Playing(TextDelta("a"), Finish("end_turn"))
    llm = CachedLLM(wrapped)
    settings = Settings(extra={"x": object()})
    assert [api.chat(llm, "x", settings=settings).text for _ in range(2)] == ["a", "a"]
    assert wrapped.requests == 2


def test_wrong_options() -> None:
    for wrong in (0, -1.5):
        with pytest.raises(ValueError, match="ttl"):
            CachedLLM(ScriptedLLM(), ttl=wrong)
    for options in ({"ttl": "1"}, {"namespace": 3}, {"refresh": "no"}):
        with pytest.raises(TypeError, match=next(iter(options))):
            CachedLLM(ScriptedLLM(), **options)  # type: ignore[arg-type]  # the test


# What is not stored.


class Playing(FunctionCallingLLM):
    """Plays the same events for every request, and counts the requests."""

    def __init__(self, *events: Event) -> None:
        super().__init__()
        self.play = events
        self.requests = 0

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata("playing", "player")

    async def _events(self, *asked: Any) -> AsyncIterator[Event]:
        self.requests += 1
        for event in self.play:
            yield event


@pytest.mark.parametrize("reason", ["refusal", "content_filter", "max_tokens", "pause", "error", "other"])
def test_an_unwanted_end_is_not_stored(api: API, reason: Any) -> None:
    wrapped = Playing(TextDelta("No."), Finish(reason))
    llm = CachedLLM(wrapped)
    assert [api.chat(llm, "x").text for _ in range(2)] == ["No.", "No."]
    assert wrapped.requests == 2


@pytest.mark.parametrize(
    "events",
    [
        [Finish("end_turn")],
        [TextDelta("x"), RawEvent("{", damaged=True), Finish("end_turn")],
    ],
)
def test_an_empty_or_damaged_answer_is_not_stored(api: API, events: list[Event]) -> None:
    wrapped = Playing(*events)
    for _ in range(2):
        api.chat(llm := CachedLLM(wrapped), "x")
    assert wrapped.requests == 2 and isinstance(llm.cache, MemoryCache)


def test_an_answer_that_was_cut_is_not_stored(api: API) -> None:
    cut = call('{"title": "A', truncated=True)
    llm = CachedLLM(ScriptedLLM([cut], [cut]))
    for _ in range(2):
        assert api.chat(llm, "x", tools=[Album]).message.tool_calls[0].truncated


def test_an_error_is_not_stored(api: API) -> None:
    llm = CachedLLM(ScriptedLLM(Overloaded("busy"), "a"))
    with pytest.raises(Overloaded):
        api.chat(llm, "x")
    assert [api.chat(llm, "x").text for _ in range(2)] == ["a", "a"]


def test_a_stream_that_is_closed_early_is_not_stored(api: API) -> None:
    wrapped = ScriptedLLM(SEA, SHORT)
    make = ToolOrchestratingLLM(Album, "x", CachedLLM(wrapped))
    assert len(api.stream(make, take=2).items) == 2
    assert api.stream(make).final == SHORT
    assert len(api.stream(make, take=2).items) == 2
    assert len(wrapped.requests) == 2


def first_events(api: API, llm: FunctionCallingLLM, count: int) -> list[Event]:
    """Return the first events of a stream that is closed after them."""

    async def main() -> list[Event]:
        async with llm.astream_chat("x", tools=[Album]) as stream:
            return [stream.current for _ in range(count) if await stream.next()]

    if not api.name.startswith("sync"):
        return anyio.run(main, backend=api.name)
    with llm.stream_chat("x", tools=[Album]) as stream:
        return [stream.current for _ in range(count) if stream.next()]


def test_a_stream_that_is_closed_after_any_event_is_not_stored(api: API, cache: Cache) -> None:
    network = ReplayNetwork(*[Recorded(album_stream(), headers=STREAM)] * 99)
    llm = CachedLLM(OpenAI("m-1", api="chat", api_key="k", network=network), cache)
    expected = api.events(llm.llm, "x", tools=[Album])
    for count in range(1, len(expected) + 1):
        assert first_events(api, llm, count) == expected[:count]
        assert (len(network.requests), network.open_replies) == (count + 1, 0)
    assert api.events(llm, "x", tools=[Album]) == expected
    requests = len(network.requests)
    _, *replayed = api.events(llm, "x", tools=[Album])  # without the report of no tokens
    assert replayed == [event for event in expected if not isinstance(event, UsageReport)]
    for count in range(len(replayed) + 1):
        assert first_events(api, llm, count + 1)[1:] == replayed[:count]
    assert len(network.requests) == requests == len(expected) + 2


def test_partial_objects_of_a_stream_that_is_closed_after_any_of_them(api: API) -> None:
    network = ReplayNetwork(*[Recorded(album_stream(), headers=STREAM)] * 99)
    llm = CachedLLM(OpenAI("m-1", api="chat", api_key="k", network=network))
    make = ToolOrchestratingLLM(Album, "x", llm)
    expected = api.stream(make.with_(llm=llm.llm)).items
    for count in range(1, len(expected)):  # the last object comes when the answer has been accepted
        assert api.stream(make, take=count).items == expected[:count]
        assert (len(network.requests), network.open_replies) == (count + 1, 0)
    assert api.stream(make).items == expected
    requests = len(network.requests)
    for count in range(1, len(expected) + 1):
        assert api.stream(make, take=count).items == expected[:count]
    assert len(network.requests) == requests


# Below other parts.


def test_in_a_fallback_llm_with_a_limit_and_hooks(api: API) -> None:
    notes = Notes()
    first, second = ScriptedLLM(Overloaded("busy"), model="big"), ScriptedLLM(SEA, "a", model="small")
    llm = FallbackLLM([CachedLLM(first), CachedLLM(second, max_concurrency=1)], hooks=notes, max_concurrency=1)
    make = ToolOrchestratingLLM(Album, "x", llm)
    paid, free = api.run(make), api.run(make)
    assert paid.output == free.output == SEA
    assert (paid.response.model, free.response.model, is_hit(free)) == ("small", "small", True)
    assert (len(first.requests), len(second.requests)) == (1, 1)
    assert [each for each in notes.methods if each in ("response", "end")] == ["response", "end"] * 2
    assert api.chat(llm, "y").text == "a" and llm.calls_in_progress == 0


# Only what is accepted is stored.


@pytest.mark.parametrize("streamed", [False, True])
def test_an_invalid_answer_is_not_stored(api: API, streamed: bool) -> None:
    wrapped = ScriptedLLM(call('{"title": 1}'), SEA, SHORT)
    make = ToolOrchestratingLLM(Album, "x", CachedLLM(wrapped), max_attempts=2)
    for _ in range(2):
        assert (api.stream(make).final if streamed else api.call(make)) in (SEA, SHORT)
    # The first request is made again, since its answer was invalid, and gets another answer.
    assert len(wrapped.requests) == 3 and len(wrapped.requests[2].messages) == 1


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_that_a_validator_rejects_is_not_stored(api: API, streamed: bool) -> None:
    class Checked(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def check(cls, number: int) -> int:
            if number < 10:
                raise TryAgain("too small")
            return number

    wrapped = ScriptedLLM({"number": 1}, {"number": 2}, {"number": 10})
    make = ToolOrchestratingLLM(Checked, "x", CachedLLM(wrapped))
    for _ in range(2):
        error = api.stream(make).error if streamed else caught(api, make)
        assert "too small" in str(error)
    assert (api.stream(make).final if streamed else api.call(make)).number == 10
    assert api.call(make).number == 10
    assert len(wrapped.requests) == 3


def caught(api: API, make: ToolOrchestratingLLM[Any]) -> BaseException:
    with pytest.raises(ValueError) as found:
        api.call(make)
    return found.value


@pytest.mark.parametrize("error", [TryAgain("no"), ZeroDivisionError("mine")])
def test_an_answer_whose_function_fails_is_not_stored(api: API, error: Exception) -> None:
    def depth(place: str) -> int:
        """Return the depth."""
        if place == "there":
            raise error
        return 11

    wrapped = ScriptedLLM({"place": "there"}, {"place": "here"})
    make = ToolOrchestratingLLM(depth, "x", CachedLLM(wrapped))
    with pytest.raises((ValueError, ZeroDivisionError)):
        api.call(make)
    assert [api.call(make), api.call(make)] == [11, 11]
    assert len(wrapped.requests) == 2


def test_predict_and_call(api: API) -> None:
    wrapped = ScriptedLLM("no call", SEA)
    llm = CachedLLM(wrapped)
    with pytest.raises(ToolcastError):
        api.method(llm, "predict_and_call", [Album], "x")
    for _ in range(2):
        assert api.method(llm, "predict_and_call", [Album], "x").parse_tool_outputs() == SEA
    assert len(wrapped.requests) == 2


# Engines.


def depth(place: str) -> int:
    """Return the depth."""
    return 11


def submit(api: API, engine: Engine, **options: Any) -> Any:
    return api.method(engine, "submit", "How deep?", **options)  # type: ignore[arg-type]  # it has asubmit too


def engine(llm: FunctionCallingLLM, **options: Any) -> Engine:
    return Engine(llm, [CallableTool.from_function(depth)], **options)


def test_an_engine_repeats_a_turn_without_requests(api: API) -> None:
    wrapped = ScriptedLLM(call('{"place": "here"}', "depth"), "Eleven.")
    llm = CachedLLM(wrapped)
    for tokens in (30, 0):
        turn = submit(api, engine(llm, permissions=Permissions("bypass")))
        assert (turn.messages[-1].text, turn.usage.total_tokens) == ("Eleven.", tokens)
    assert len(wrapped.requests) == 2


def test_a_cached_tool_call_needs_permission_again(api: API) -> None:
    wrapped = ScriptedLLM(call('{"place": "here"}', "depth"), "Eleven.", "Not allowed.")
    llm = CachedLLM(wrapped)
    asked: list[str] = []

    def approve(request: Any) -> Any:
        asked.append(request.tool)
        return request.allow() if len(asked) == 1 else request.deny("no")

    texts = [submit(api, engine(llm, permissions=Permissions(approve=approve))).messages[-1].text for _ in range(2)]
    assert (asked, texts) == (["depth", "depth"], ["Eleven.", "Not allowed."])
    assert len(wrapped.requests) == 3


def test_an_engine_does_not_accept_invalid_calls(api: API) -> None:
    wrapped = ScriptedLLM(call('{"place": 1}', "depth"), "Oh.", call('{"place": "here"}', "depth"), "Eleven.")
    llm = CachedLLM(wrapped)
    texts = [submit(api, engine(llm, permissions=Permissions("bypass"))).messages[-1].text for _ in range(3)]
    assert texts == ["Oh.", "Eleven.", "Eleven."]
    assert len(wrapped.requests) == 4


def test_the_typed_output_of_an_engine(api: API) -> None:
    wrapped = ScriptedLLM("no object", call(SHORT), call('{"title": 1}'), call(SHORT), call(SEA))
    llm = CachedLLM(wrapped)
    made = [submit(api, Engine(llm, []), output_cls=Album).output for _ in range(4)]
    # Invalid answers are asked for again in every turn; what was accepted after one is a hit, as after the same text.
    assert made == [SHORT, SHORT, SEA, SEA]
    assert len(wrapped.requests) == 5


def test_the_function_output_of_an_engine(api: API) -> None:
    def check(place: str) -> int:
        """Check the depth."""
        if place == "there":
            raise TryAgain("elsewhere")
        return 11

    there, here = (call(f'{{"place": "{place}"}}', "check") for place in ("there", "here"))
    wrapped = ScriptedLLM(there, here, here)
    llm = CachedLLM(wrapped)
    for _ in range(3):
        assert submit(api, Engine(llm, [], permissions=Permissions("bypass")), output_cls=check).output == 11
    assert len(wrapped.requests) == 3


# Caches that fail.


def test_a_damaged_entry_is_a_miss_with_a_warning(api: API, cache: Cache, caplog: pytest.LogCaptureFixture) -> None:
    keys: list[str] = []

    class Spied:
        def get(self, key: str, /) -> bytes | None:
            keys.append(key)
            return cache.get(key)

        def set(self, key: str, value: bytes, /) -> None:
            cache.set(key, value)

    llm = CachedLLM(ScriptedLLM("a", "b"), Spied())
    assert api.chat(llm, "x").text == "a"
    value = cache.get(keys[0])
    assert value is not None
    cache.set(keys[0], value[:-9])
    with caplog.at_level(logging.WARNING, "toolcast"):
        assert api.chat(llm, "x").text == "b"
    assert "cannot be used" in caplog.text
    assert api.chat(llm, "x").text == "b"


def test_a_cache_that_fails_costs_requests_only(api: API, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def get(self, key: str, /) -> bytes | None:
            raise ConnectionError("no cache")

        def set(self, key: str, value: bytes, /) -> None:
            raise ConnectionError("no cache")

    llm = CachedLLM(ScriptedLLM("a", "b"), Broken())
    with caplog.at_level(logging.WARNING, "toolcast"):
        assert [api.chat(llm, "x").text for _ in range(2)] == ["a", "b"]
    assert "cannot be used (no cache)" in caplog.text and "cannot be stored: no cache" in caplog.text


def test_a_closed_file(api: API, tmp_path: Path) -> None:
    llm = CachedLLM(ScriptedLLM("a", "b"), SQLiteCache(tmp_path / "a.db"))
    assert isinstance(llm.cache, SQLiteCache)
    llm.cache.close()
    assert [api.chat(llm, "x").text for _ in range(2)] == ["a", "b"]


# One request for several callers.


class Gated(FunctionCallingLLM):
    """Answers with the number of the request, once its gate is open."""

    def __init__(self, *ends: Any) -> None:
        super().__init__()
        self.requests = 0
        self.begun = threading.Semaphore(0)
        self.gate = threading.Event()
        self.ends = list(ends)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata("gated", "gated")

    async def _events(self, *asked: Any) -> AsyncIterator[Event]:
        self.requests += 1
        number = self.requests
        self.begun.release()
        await self.opened()
        yield TextDelta(str(number))
        end = self.ends.pop(0) if self.ends else Finish("end_turn")
        if isinstance(end, Exception):
            raise end
        yield end

    async def opened(self) -> None:
        assert self.gate.wait(LONG)


class GatedTask(Gated):
    """The same under an event loop."""

    async def opened(self) -> None:
        while not self.gate.is_set():
            await checkpoint()


class Waits:
    """Counts the callers that wait for another one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = threading.Semaphore(0)
        self.tasks = 0
        block, suspend = Waiters.block, Waiters.suspend

        def blocking(waiters: Waiters, ready: Any, seconds: float | None = None) -> bool:
            self.count.release()
            return block(waiters, ready, seconds)

        async def suspending(waiters: Waiters, ready: Any) -> None:
            self.tasks += 1
            await suspend(waiters, ready)

        patch.setattr(Waiters, "block", blocking)
        patch.setattr(Waiters, "suspend", suspending)

    def wait(self, number: int) -> None:
        for _ in range(number):
            assert self.count.acquire(timeout=LONG)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    return Waits(monkeypatch)


def in_threads(number: int, work: Callable[[], Any]) -> tuple[list[threading.Thread], list[Any]]:
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:
            results.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(number)]
    for each in threads:
        each.start()
    return threads, results


def join(threads: list[threading.Thread]) -> None:
    for each in threads:
        each.join(LONG)
        assert not each.is_alive()


def test_threads_share_a_request(cache: Cache, waits: Waits) -> None:
    wrapped = Gated()
    llm = CachedLLM(wrapped, cache)
    threads, results = in_threads(4, lambda: CachedLLM(llm.llm, cache).chat("x").text)
    waits.wait(3)
    wrapped.gate.set()
    join(threads)
    assert (results, wrapped.requests) == (["1"] * 4, 1)


def test_threads_share_a_request_below_a_limit_and_a_fallback(waits: Waits) -> None:
    wrapped = Gated()
    llm = FallbackLLM([CachedLLM(wrapped, max_concurrency=2)], max_concurrency=3)
    threads, results = in_threads(4, lambda: llm.chat("x").text)
    waits.wait(1)  # the leader and this caller have the two slots
    wrapped.gate.set()
    join(threads)
    assert (results, wrapped.requests) == (["1"] * 4, 1)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_tasks_share_a_request(cache: Cache, waits: Waits, backend: str) -> None:
    wrapped = GatedTask()
    llm = CachedLLM(wrapped, cache)
    results: list[str] = []

    async def ask() -> None:
        results.append((await llm.achat("x")).text)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(ask)
            while waits.tasks < 3:
                await checkpoint()
            wrapped.gate.set()

    anyio.run(main, backend=backend)
    assert (results, wrapped.requests) == (["1"] * 4, 1)


def test_a_task_waits_for_a_thread(waits: Waits) -> None:
    wrapped = Gated()
    llm = CachedLLM(wrapped)
    threads, results = in_threads(1, lambda: llm.chat("x").text)
    assert wrapped.begun.acquire(timeout=LONG)

    async def main() -> str:
        task = asyncio.ensure_future(llm.achat("x"))
        while not waits.tasks:
            await checkpoint()
        wrapped.gate.set()
        return (await task).text

    assert asyncio.run(main()) == "1"
    join(threads)
    assert (results, wrapped.requests) == (["1"], 1)


@pytest.mark.parametrize("end", [Overloaded("busy"), Finish("refusal")])
def test_after_an_answer_that_is_not_stored_each_makes_its_own(waits: Waits, end: Any) -> None:
    wrapped = Gated(end, end, end)
    llm = CachedLLM(wrapped)
    threads, results = in_threads(3, lambda: llm.chat("x").stop_reason)
    waits.wait(2)
    wrapped.gate.set()
    join(threads)
    assert wrapped.requests == 3
    assert results == ([end] * 3 if isinstance(end, Exception) else ["refusal"] * 3)


def test_a_thread_does_not_wait_for_its_own_stream() -> None:
    wrapped = ScriptedLLM("a", "b", "c")
    llm = CachedLLM(wrapped)
    with llm.stream_chat("x") as stream:
        stream.next()
        assert llm.chat("x").text == "b"
        # Nor for another key: that one's leader could wait for this stream.
        assert llm.chat("y").text == "c"
        assert [type(event) for event in stream][-1] is Finish
    assert llm.chat("x").text in ("a", "b")


def test_a_thread_with_a_stream_does_not_wait_for_another_thread() -> None:
    other, mine = Gated(), ScriptedLLM("a")
    shared, alone = CachedLLM(other), CachedLLM(mine)
    with alone.stream_chat("z") as stream:
        stream.next()
        threads, results = in_threads(1, lambda: shared.chat("x").text)
        assert other.begun.acquire(timeout=LONG)
        release = threading.Thread(target=lambda: (other.begun.acquire(timeout=LONG), other.gate.set()))
        release.start()
        assert shared.chat("x").text == "2"
        join([*threads, release])
        assert results == ["1"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_tasks_and_threads_that_a_leader_starts_do_not_wait_for_it(backend: str) -> None:
    llm = CachedLLM(ScriptedLLM("a", "b", "c"))
    texts: list[str] = []

    async def in_task() -> None:
        texts.append((await llm.achat("x")).text)

    async def main() -> None:
        async with llm.astream_chat("x") as stream:
            await stream.next()
            async with anyio.create_task_group() as group:
                group.start_soon(in_task)
            texts.append((await anyio.to_thread.run_sync(llm.chat, "y")).text)

    anyio.run(main, backend=backend)
    assert texts == ["b", "c"]


def test_a_leader_waits_again_once_its_answer_is_stored(waits: Waits) -> None:
    wrapped = Gated()
    llm = CachedLLM(wrapped)
    wrapped.gate.set()
    assert llm.chat("x").text == "1"
    wrapped.gate.clear()
    assert wrapped.begun.acquire(timeout=LONG)
    threads, results = in_threads(1, lambda: llm.chat("y").text)
    assert wrapped.begun.acquire(timeout=LONG)
    release = threading.Thread(target=lambda: (waits.wait(1), wrapped.gate.set()))
    release.start()
    assert llm.chat("y").text == "2"
    join([*threads, release])
    assert (results, wrapped.requests) == (["2"], 2)


def test_a_sync_call_does_not_wait_for_a_task_of_its_thread() -> None:
    wrapped = ScriptedLLM("a", "b")
    llm = CachedLLM(wrapped)

    async def lead(opened: asyncio.Event, done: asyncio.Event) -> None:
        async with llm.astream_chat("x") as stream:
            await stream.next()
            opened.set()
            await done.wait()

    async def main() -> None:
        opened, done = asyncio.Event(), asyncio.Event()
        leader = asyncio.create_task(lead(opened, done))
        await opened.wait()
        assert llm.chat("x").text == "b"
        done.set()
        await leader

    asyncio.run(main())


def test_a_loop_does_not_wait_for_a_stream_of_its_thread() -> None:
    llm = CachedLLM(ScriptedLLM("a", "b"))
    with llm.stream_chat("x") as stream:
        stream.next()
        assert asyncio.run(llm.achat("x")).text == "b"


def test_a_leader_that_leaves_ends_the_wait(waits: Waits) -> None:
    wrapped = ScriptedLLM("a", "b")
    llm = CachedLLM(wrapped)
    stream = llm.stream_chat("x")
    stream.next()
    threads, results = in_threads(1, lambda: llm.chat("x").text)
    waits.wait(1)
    stream.close()
    join(threads)
    assert results == ["b"]


def test_an_abandoned_leader_ends_the_wait(waits: Waits) -> None:
    llm = CachedLLM(ScriptedLLM("a", "b"))
    stream = llm.stream_chat("x")
    stream.next()
    threads, results = in_threads(1, lambda: llm.chat("x").text)
    waits.wait(1)
    del stream
    gc.collect()
    join(threads)
    assert results == ["b"]


def test_an_answer_without_a_decision_ends_the_wait() -> None:
    from toolcast.async_support import sync_driver

    llm = CachedLLM(ScriptedLLM("a", "b"))
    request = client_of(llm).build_request("x", [], None, None, parallel=True)
    backend = client_of(llm).sync_backend()
    state = client_of(llm).begin_call(request.settings, backend)
    sync_driver.run(client_of(llm).answer(request, backend, state))
    assert len(cached_llm._flights) == 1
    del state
    gc.collect()
    assert cached_llm._flights == {}
    assert llm.chat("x").text == "b"


def test_a_wait_ends_with_the_time_of_the_call() -> None:
    wrapped = Gated()
    llm = CachedLLM(wrapped)
    threads, _ = in_threads(1, lambda: llm.chat("x").text)
    assert wrapped.begun.acquire(timeout=LONG)
    settings = Settings(timeout=Timeouts(total=0.01))
    with pytest.raises(Timeout, match="another call with the same request") as found:
        llm.chat("x", settings=settings)
    assert found.value.phase == "total"
    with pytest.raises(Timeout, match="another call with the same request"):
        asyncio.run(llm.achat("x", settings=settings))
    wrapped.gate.set()
    join(threads)


def test_a_wait_ends_when_it_is_aborted(waits: Waits) -> None:
    from toolcast.async_support import sync_driver

    wrapped = Gated()
    llm = CachedLLM(wrapped)
    leaders, _ = in_threads(1, lambda: llm.chat("x").text)
    assert wrapped.begun.acquire(timeout=LONG)
    request = client_of(llm).build_request("x", [], None, None, parallel=True)
    backend = client_of(llm).sync_backend()
    source = client_of(llm).open_events(request, backend, client_of(llm).begin_call(request.settings, backend))
    threads, results = in_threads(1, lambda: sync_driver.run(source.next_events()))
    waits.wait(1)
    source.break_off()
    join(threads)
    assert isinstance(results[0], StreamInterrupted)
    wrapped.gate.set()
    join(leaders)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork: NOT TESTED")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_its_parent() -> None:
    wrapped = Gated()
    llm = CachedLLM(wrapped)
    threads, results = in_threads(1, lambda: llm.chat("x").text)
    assert wrapped.begun.acquire(timeout=LONG)
    child = os.fork()
    if not child:
        wrapped.gate = threading.Event()  # the parent's thread may have a lock of the other
        wrapped.gate.set()
        os._exit(0 if llm.chat("x").text == "2" else 1)
    assert os.waitpid(child, 0)[1] == 0
    wrapped.gate.set()
    join(threads)
    assert (results, wrapped.requests) == (["1"], 1)
