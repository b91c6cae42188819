"""Several LLMs as one: who is asked, when the next one is, and what a caller sees of it."""

from __future__ import annotations

import gc
import pickle
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import pytest

import toolcast
from support.albums import SEA, SHORT, Album, call
from support.chunks import album_body, album_stream
from support.sync_and_async import API
from toolcast import (
    Configs,
    FallbackLLM,
    FunctionCallingLLM,
    OpenAI,
    Settings,
    ToolOrchestratingLLM,
    Usage,
    system,
    user,
)
from toolcast.async_support import sync_driver
from toolcast.errors import AuthFailed, ConnectFailed, Overloaded, RateLimited, Timeout, UnsupportedLLMError
from toolcast.events import Event, Failover, Finish, Routing, TextDelta, UsageReport
from toolcast.llms import CachedLLM, LLMMetadata, MemoryCache
from toolcast.llms.call_state import CallState
from toolcast.llms.client import client_of
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM, VirtualClock, use_llm
from toolcast.values.accumulator import Accumulator

JSON = {"content-type": "application/json"}
DOWN = Recorded([b'{"error": {"message": "down"}}'], 503, JSON)


def scripted(model: str, *answers: Any, **options: Any) -> ScriptedLLM:
    return ScriptedLLM(*answers, model=model, chunk=100, **options)


class Playing(FunctionCallingLLM):
    """Plays events, raises the exceptions among them, and counts how often its iterator was closed."""

    def __init__(self, model: str, *events: Event | BaseException) -> None:
        super().__init__()
        self._model = model
        self._play = events
        self.closed = 0

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(self._model, "player")

    async def _events(self, *asked: Any) -> AsyncIterator[Event]:
        try:
            for event in self._play:
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            self.closed += 1


def service(model: str, *answers: Recorded, **options: Any) -> tuple[OpenAI, ReplayNetwork]:
    network = ReplayNetwork(*answers)
    return OpenAI(model, api="chat", api_key="k", network=network, **options), network


def standing_still(llm: FallbackLLM) -> VirtualClock:
    """The clock of an LLM, which now moves only when it is set."""
    llm.clock = clock = VirtualClock()
    return clock


# -- who is asked -----------------------------------------------------------------------------------------------


def test_one_name_is_no_list_of_names() -> None:
    with pytest.raises(TypeError, match="got the single name 'openai:gpt-5'"):
        FallbackLLM("openai:gpt-5")


def test_the_first_answers(api: API) -> None:
    llm = FallbackLLM([scripted("a", "Hi"), scripted("b")])
    events = api.events(llm, "Hello")
    assert events[:2] == [Routing("scripted", "a"), TextDelta("Hi")]
    assert [type(event) for event in events[2:]] == [UsageReport, Finish]


def test_the_next_is_asked_where_one_fails_before_it_spoke(api: API) -> None:
    error = Overloaded("too much")
    llm = FallbackLLM([scripted("a", error), scripted("b", RateLimited("slowly")), scripted("c", "Hi")])
    events = api.events(llm, "Hello")
    assert [(type(event), getattr(event, "model", None)) for event in events[:6]] == [
        (Routing, "a"),
        (Failover, "a"),
        (Routing, "b"),
        (Failover, "b"),
        (Routing, "c"),
        (TextDelta, None),
    ]
    assert isinstance(events[1], Failover)
    assert events[1].error is error
    assert (error.provider, error.model) == ("scripted", "a")


def test_it_stays_with_the_one_that_answered(api: API) -> None:
    a, b = scripted("a", Overloaded("x"), "third"), scripted("b", "first", "second", Overloaded("x"))
    llm = FallbackLLM([a, b])
    for text, model in (("first", "b"), ("second", "b"), ("third", "a")):
        response = api.chat(llm, "Hello")
        assert (response.text, response.model, response.provider) == (text, model, "scripted")
        assert llm.metadata.model_name == model
    assert (len(a.requests), len(b.requests)) == (2, 3)
    assert llm.current is a


def test_a_call_that_was_late_does_not_turn_it_back() -> None:
    a, b = scripted("a", "one, two", Overloaded("x")), scripted("b", "Hi")
    llm = FallbackLLM([a, b])
    early = llm.stream_chat("Hello")
    assert early.next()
    assert llm.chat("Hello").model == "b"
    assert list(early)[-1] == Finish("end_turn")
    assert early.response.model == "a"
    assert llm.current is b


@pytest.mark.parametrize("error", [AuthFailed("no"), ZeroDivisionError("mine"), toolcast.errors.Refused("no")])
def test_what_does_not_pass_is_raised_at_once(api: API, error: Exception) -> None:
    b = scripted("b", "Hi")
    llm = FallbackLLM([scripted("a", error), b])
    with pytest.raises(type(error)) as caught:
        api.chat(llm, "Hello")
    assert caught.value is error
    assert b.requests == []
    assert llm.current is not b


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes(raised: type[BaseException]) -> None:
    a, b = Playing("a", raised()), scripted("b", "Hi")
    with pytest.raises(raised):
        FallbackLLM([a, b]).chat("Hello")
    assert (a.closed, b.requests) == (1, [])


def test_an_error_after_an_event_is_final(api: API) -> None:
    a, b = Playing("a", TextDelta("one"), Overloaded("x")), scripted("b", "Hi")
    with pytest.raises(Overloaded) as caught:
        api.chat(FallbackLLM([a, b]), "Hello")
    assert (caught.value.provider, caught.value.model) == ("player", "a")
    assert (a.closed, b.requests) == (1, [])


def test_usage_is_no_answer_yet_but_it_counts(api: API) -> None:
    report = UsageReport(Usage(7, 1))
    a = Playing("a", report, Overloaded("x"))
    llm = FallbackLLM([a, scripted("b", "Hi")])
    response = api.chat(llm, "Hello")
    assert (response.text, response.model) == ("Hi", "b")
    assert response.usage == Usage(7, 1) + Usage(10, 5)
    assert a.closed == 1


@pytest.mark.fault(121)
def test_all_fail(api: API) -> None:
    llm = FallbackLLM([scripted("a", Overloaded("one")), scripted("b", RateLimited("two"))])
    with pytest.raises(RateLimited, match="scripted b: two") as caught:
        api.chat(llm, "Hello")
    assert [attempt.number for attempt in caught.value.attempts] == [1, 2]
    assert [getattr(attempt.error, "model", None) for attempt in caught.value.attempts] == ["a", "b"]
    assert llm.current.metadata.model_name == "a"


def test_after_its_end_a_stream_says_no_more() -> None:
    llm = FallbackLLM([scripted("a", Overloaded("one")), scripted("b", Overloaded("two"))])
    source = client_of(llm).source(
        client_of(llm).build_request("Hello", (), None, None, parallel=True),
        client_of(llm).sync_backend(),
        CallState(),
    )
    run = sync_driver.run
    assert len(run(source.next_events())) == 3
    with pytest.raises(Overloaded):
        run(source.next_events())
    assert run(source.next_events()) == []


# -- time -------------------------------------------------------------------------------------------------------


class Slow(ScriptedLLM):
    """Every answer takes ten seconds, or the time that its call has left."""

    clock: VirtualClock

    async def _events(self, *asked: Any) -> AsyncIterator[Event]:
        self.clock.advance(10)
        async for event in super()._events(*asked):
            yield event


def test_no_further_model_is_asked_once_the_time_is_up(api: API) -> None:
    a, b = Slow(Overloaded("x")), scripted("b", "Hi")
    llm = FallbackLLM([a, b], settings=Settings(timeout=10))
    a.clock = standing_still(llm)
    with pytest.raises(Overloaded):
        api.chat(llm, "Hello")
    assert b.requests == []


def test_the_time_of_a_model_is_its_own(api: API) -> None:
    """A request that is retried until its model's time is up leaves the rest of the time to the next."""
    a, network = service("a", DOWN, DOWN, max_retries=9, settings=Settings(timeout=0.25))
    b, _ = service("b", Recorded([album_body()], headers=JSON))
    llm = FallbackLLM([a, b])
    clock = standing_still(llm)
    network.open = _taking(network.open, clock, 0.2)  # type: ignore[method-assign]  # time passes while it answers
    make = ToolOrchestratingLLM(Album, "x", llm)
    result = api.run(make)
    assert result.output == SEA
    assert result.response.model == "m-1"
    assert {type(attempt.error) for attempt in result.attempts[:-1]} <= {
        Overloaded,
        toolcast.errors.ServerError,
        Timeout,
    }
    assert result.attempts[-1].error is None


def _taking(open: Any, clock: VirtualClock, seconds: float) -> Any:
    def opened(*args: Any, **options: Any) -> Any:
        clock.advance(seconds)
        return open(*args, **options)

    return opened


@pytest.mark.parametrize("timeout", [None, toolcast.Timeouts(total=None)])
def test_the_time_of_the_call_is_given_back(timeout: Any) -> None:
    llm = FallbackLLM([scripted("a", "Hi", settings=Settings(timeout=3))], settings=Settings(timeout=timeout))
    clock = standing_still(llm)
    ask = client_of(llm).build_request("Hello", (), None, None, parallel=True)
    call = CallState().begin(ask.settings, client_of(llm).sync_backend().now)
    whole = call.deadline
    source = client_of(llm).source(ask, client_of(llm).sync_backend(), call)
    sync_driver.run(source.next_events())
    assert call.deadline == (clock.now() + 3 if timeout is None else None)
    sync_driver.run(source.close())
    assert call.deadline == whole


# -- each model's own -------------------------------------------------------------------------------------------


def test_each_model_has_its_own_network_and_the_retries_are_shared(api: API) -> None:
    a, of_a = service("a", DOWN, DOWN, DOWN)
    b, of_b = service("b", DOWN, max_retries=2)
    c, of_c = service("c", Recorded([album_body()], headers=JSON | {"x-request-id": "r-c"}))
    llm = FallbackLLM([a, b, c])
    standing_still(llm)
    result = api.run(ToolOrchestratingLLM(Album, "x", llm))
    assert result.output == SEA
    assert [len(network.requests) for network in (of_a, of_b, of_c)] == [3, 1, 1]
    assert [getattr(attempt.error, "model", None) for attempt in result.attempts] == ["a", "a", "a", "b", None]
    assert (result.response.provider, result.response.request_id) == ("openai", "r-c")
    gc.collect()
    assert [network.open_replies for network in (of_a, of_b, of_c)] == [0, 0, 0]
    assert [network.closed_replies for network in (of_a, of_b, of_c)] == [3, 1, 1]


def test_settings_nearer_to_the_caller_win(api: API) -> None:
    a = scripted("a", "x", settings=Settings(temperature=0.1, top_p=0.1, seed=1))
    llm = FallbackLLM([a], settings=Settings(temperature=0.2, top_p=0.2))
    with Configs.use(settings=Settings(seed=3, top_k=3, top_p=0.3)):
        api.chat(llm, "Hello", settings=Settings(temperature=0.4))
    assert a.requests[0].settings == Settings(temperature=0.4, top_p=0.2, seed=1, top_k=3)


def test_one_system_prompt(api: API) -> None:
    a = scripted("a", "x", "y", system_prompt="I am a.")
    api.chat(FallbackLLM([a]), "Hello")
    api.chat(FallbackLLM([a], system_prompt="We are one."), "Hello")
    assert [asked.messages for asked in a.requests] == [
        (system("I am a."), user("Hello")),
        (system("We are one."), user("Hello")),
    ]


def test_a_preview_is_the_current_models() -> None:
    a, _ = service("a", system_prompt="I am a.", settings=Settings(seed=4))
    make = ToolOrchestratingLLM(Album, "x", FallbackLLM([a, "openai:b"]))
    preview = make.preview()
    assert preview.mode == "tool_call"
    assert (preview.body["model"], preview.body["seed"]) == ("a", 4)
    assert preview.body["messages"][0]["content"] == "I am a."
    assert make.parse(album_body()) == SEA


def test_a_mode_that_one_of_them_has_not_is_reported_at_construction() -> None:
    with pytest.raises(UnsupportedLLMError, match="json_schema"):
        ToolOrchestratingLLM(Album, "x", FallbackLLM(["openai:a", scripted("b")]), mode="json_schema")


# -- as any other LLM -------------------------------------------------------------------------------------------


def test_structured_streams(api: API) -> None:
    a, _ = service("a", DOWN, max_retries=0)
    b, network = service("b", Recorded(album_stream()), Recorded(album_stream()))
    llm = FallbackLLM([a, b])
    standing_still(llm)
    received: list[str] = []
    make = ToolOrchestratingLLM(Album, "x", llm, observer=lambda _, state: received.append(state))
    seen = api.stream(make)
    assert seen.final == SEA
    assert len(seen.items) > 5
    chunks = received.count("receiving_chunk")
    assert api.stream(make).final == SEA
    assert received.count("receiving_chunk") == 2 * chunks  # events of other states are no chunks
    assert network.open_replies == 0


def test_a_stream_left_early_is_closed_once(api: API) -> None:
    a, network = service("a", Recorded(album_stream()))
    assert len(api.stream(ToolOrchestratingLLM(Album, "x", FallbackLLM([a])), take=2).items) == 2
    gc.collect()
    assert (network.open_replies, network.closed_replies) == (0, 1)


def test_asking_again_begins_with_the_one_that_answered(api: API) -> None:
    a = scripted("a", Overloaded("x"))
    b = scripted("b", call('{"title": 1}'), SHORT, call('{"title": 1}'), SHORT)
    make = ToolOrchestratingLLM(Album, "x", FallbackLLM([a, b]), max_attempts=2)
    result = api.run(make)
    assert result.output == SHORT
    assert len(result.attempts) == 3
    assert api.stream(make).final == SHORT
    assert len(a.requests) == 1


def test_predict_and_call(api: API) -> None:
    llm = FallbackLLM([scripted("a", ConnectFailed("x")), scripted("b", SEA)])
    assert api.method(llm, "predict_and_call", [Album], "x").parse_tool_outputs() == SEA


def test_views_show_the_way_there(api: API) -> None:
    make = ToolOrchestratingLLM(Album, "x", FallbackLLM([scripted("a", ConnectFailed("x")), scripted("b", SEA)]))
    assert [type(event) for event in api.view(make, "events")[:4]] == [
        Routing,
        Failover,
        Routing,
        toolcast.events.ToolCallStart,
    ]


def test_one_within_another(api: API) -> None:
    inner = FallbackLLM([scripted("a", Overloaded("x")), scripted("b", Overloaded("y"))])
    outer = FallbackLLM([inner, scripted("c", "Hi")])
    events = api.events(outer, "Hello")
    failed = [event.model for event in events if isinstance(event, Failover)]
    assert failed == ["a", "a"]  # the second is the inner one, by the name of the model that it asks first
    assert TextDelta("Hi") in events
    assert api.chat(FallbackLLM([FallbackLLM([scripted("d", "Hello")])]), "x").model == "d"


def test_standing_in_for_every_llm(api: API) -> None:
    stand_in = FallbackLLM([scripted("a", ConnectFailed("x")), scripted("b", "Hi")])
    with use_llm(stand_in):
        assert api.chat(scripted("z"), "Hello").model == "b"


def test_an_llm_of_ones_own_may_stand_before_it() -> None:
    class Loud(FallbackLLM):
        async def _events(self, *asked: Any) -> AsyncIterator[Event]:
            async for event in super()._events(*asked):
                yield TextDelta(event.text.upper()) if isinstance(event, TextDelta) else event

    async def main() -> list[Event]:
        llm = Loud([scripted("a", ConnectFailed("x")), scripted("b", "Hi")])
        return [event async for event in llm._events([user("Hello")], (), None, Settings())]

    assert TextDelta("HI") in anyio.run(main)


async def test_a_cancelled_call_asks_no_one_else() -> None:
    reached = anyio.Event()

    class Waiting(Playing):
        async def _events(self, *asked: Any) -> AsyncIterator[Event]:
            try:
                reached.set()
                await anyio.sleep_forever()
                yield Finish("end_turn")
            finally:
                self.closed += 1

    a, b = Waiting("a"), scripted("b", "Hi")
    async with anyio.create_task_group() as group:
        group.start_soon(FallbackLLM([a, b]).achat, "Hello")
        await reached.wait()
        group.cancel_scope.cancel()
    assert (a.closed, b.requests) == (1, [])


def test_names_and_what_is_no_llm() -> None:
    llm = FallbackLLM(["openai:gpt-5.4", scripted("b")])
    assert repr(llm.llms[0]) == "OpenAI('gpt-5.4')"
    assert repr(FallbackLLM(["openai:x"])) == "FallbackLLM([OpenAI('x')])"
    with pytest.raises(ValueError, match="at least one"):
        FallbackLLM([])
    nothing: Sequence[Any] = [3]
    with pytest.raises(UnsupportedLLMError, match="int"):
        FallbackLLM(nothing)


def test_pickling() -> None:
    llm = FallbackLLM(["openai:a", "openai:b"], settings=Settings(seed=1), system_prompt="Hi", max_concurrency=3)
    llm.preferred = 1
    again = pickle.loads(pickle.dumps(llm))
    assert again.metadata.model_name == "b"
    assert (again.settings, again.system_prompt, again.max_concurrency) == (Settings(seed=1), "Hi", 3)
    assert again.preview("x") is not None


def test_closing_closes_all() -> None:
    closed: list[str] = []

    class Counting(ReplayNetwork):
        def close(self) -> None:
            closed.append("close")

        async def aclose(self) -> None:
            closed.append("aclose")

    def made() -> FallbackLLM:
        return FallbackLLM([OpenAI(name, api="chat", api_key="k", network=Counting()) for name in ("a", "b")])

    with made():
        pass
    assert closed == ["close", "close"]

    async def main() -> None:
        async with made():
            pass

    closed.clear()
    anyio.run(main)
    assert closed == ["aclose", "close", "aclose", "close"]


def test_folding_events_that_were_stored() -> None:
    folded = Accumulator()
    for event in FallbackLLM([scripted("a", ConnectFailed("x")), scripted("b", "Hi")]).stream_chat("Hello"):
        folded.apply(event)
    response = folded.response(provider="asked", model="asked")
    assert (response.provider, response.model, response.text) == ("scripted", "b", "Hi")


def test_a_wrapper_prefers_what_its_llm_prefers() -> None:
    for network, prefers in (("aiohttp", True), ("auto", True), (None, False)):
        llm = OpenAI("gpt-5.4", api_key="k", network=network)
        assert client_of(FallbackLLM([llm])).prefers_event_loop is prefers
        assert client_of(CachedLLM(llm, MemoryCache())).prefers_event_loop is prefers
        assert client_of(CachedLLM(FallbackLLM([llm]), MemoryCache())).prefers_event_loop is prefers
