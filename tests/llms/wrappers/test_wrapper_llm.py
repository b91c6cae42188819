"""`WrapperLLM`: one method for every way of calling, and all else as the wrapped LLM has it."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from support.albums import SEA, SHORT, Album, call
from support.chunks import album_body, album_stream, text_body
from support.sync_and_async import API
from toolcast import (
    Budget,
    Engine,
    FallbackLLM,
    FunctionCallingLLM,
    LlamaCpp,
    OpenAI,
    Permissions,
    Prices,
    Session,
    Settings,
    ToolOrchestratingLLM,
    Usage,
    system,
    user,
)
from toolcast.errors import (
    ConnectFailed,
    Overloaded,
    StreamInterrupted,
    StreamTruncated,
    UnsupportedLLMError,
    WouldSuspend,
)
from toolcast.events import Event, Finish, TextDelta, ToolCallDelta, ToolCallDone, ToolCallStart, UsageReport
from toolcast.llms import Capabilities, ChatRequest, LLMMetadata, Next, WrapperLLM
from toolcast.llms.client import client_of
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM, VirtualClock, use_llm
from values.test_hooks import Notes

JSON = {"content-type": "application/json"}
STREAM = {"content-type": "text/event-stream"}
BODY = Recorded([album_body()], headers=JSON)


class Passing(WrapperLLM):
    """Passes everything on, and writes down what it sees."""

    def __init__(self, llm: FunctionCallingLLM | str, **options: Any) -> None:
        super().__init__(llm, **options)
        self.requests: list[ChatRequest] = []
        self.events: list[Event] = []
        self.ended: list[str] = []

    async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
        self.requests.append(request)
        try:
            async for event in call_next(request):
                self.events.append(event)
                yield event
        except GeneratorExit:
            self.ended.append("closed")
            raise
        self.ended.append("end")


class Playing(FunctionCallingLLM):
    """Plays events, and counts how often its iterator was begun and closed."""

    def __init__(self, *events: Event, **options: Any) -> None:
        super().__init__(**options)
        self.play = events
        self.begun = self.closed = 0

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata("playing", "player")

    async def _events(self, *asked: Any) -> AsyncIterator[Event]:
        self.begun += 1
        try:
            for event in self.play:
                yield event
        finally:
            self.closed += 1


def service(*answers: Recorded, **options: Any) -> tuple[OpenAI, ReplayNetwork]:
    network = ReplayNetwork(*answers)
    return OpenAI("m-1", api="chat", api_key="k", network=network, **options), network


# Every way of calling.


def test_chat_and_streams(api: API) -> None:
    wrapped = ScriptedLLM("Calm.", "Calm.", chunk=2)
    llm = Passing(wrapped)
    assert api.chat(llm, "How is the sea?").text == "Calm."
    events = api.events(llm, "How is the sea?")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Calm."
    assert len(events) == 5 and events == llm.events[5:]
    assert [request.stream for request in llm.requests] == [False, True]
    assert llm.ended == ["end", "end"]


def test_structured_calls(api: API) -> None:
    llm = Passing(ScriptedLLM(SEA, SEA, call(SHORT)))
    make = ToolOrchestratingLLM(Album, "Make one.", llm)
    assert api.call(make) == SEA
    stream = api.stream(make)
    assert stream.final == SEA and len(stream.items) > 3
    result = api.run(make)
    assert result.output == SHORT
    assert (result.usage.total_tokens, len(result.attempts)) == (15, 1)


def test_over_http_both_ways(api: API) -> None:
    wrapped, network = service(BODY, Recorded(album_stream(), headers=STREAM))
    make = ToolOrchestratingLLM(Album, "Make one.", Passing(wrapped))
    result = api.run(make)
    assert (result.output, result.response.provider, result.response.model) == (SEA, "openai", "m-1")
    assert result.response.raw["id"] == "c1"
    assert api.stream(make).final == SEA
    assert len(network.requests) == 2


def test_the_methods_with_tools(api: API) -> None:
    llm = Passing(ScriptedLLM(SEA, SEA, SEA))
    assert len(api.method(llm, "chat_with_tools", [Album], "x").message.tool_calls) == 1
    assert api.method(llm, "predict_and_call", [Album], "x").parse_tool_outputs() == SEA
    assert len(llm.requests[0].tools) == 1


def test_engines_and_sessions() -> None:
    def depth(place: str) -> int:
        """Return the depth."""
        return 11

    def wrapped() -> Passing:
        return Passing(ScriptedLLM(call('{"place": "here"}', "depth"), "Eleven."))

    llm = wrapped()
    turn = Engine(llm, [depth], permissions=Permissions("bypass")).submit("How deep is it?")
    assert turn.messages[-1].text == "Eleven." and len(llm.requests) == 2
    with Session(Engine(wrapped(), [depth], permissions=Permissions("bypass"))) as session:
        assert session.run("How deep is it?").messages[-1].text == "Eleven."


def test_a_request_can_be_changed(api: API) -> None:
    class Polite(WrapperLLM):
        async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
            settings = request.settings.with_(temperature=0.5)
            async for event in call_next(
                replace(request, messages=(*request.messages, user("Please.")), settings=settings)
            ):
                yield event

    wrapped = ScriptedLLM("Yes.")
    api.chat(Polite(Polite(wrapped)), "Go.")
    assert [message.text for message in wrapped.requests[0].messages] == ["Go.", "Please.", "Please."]
    assert wrapped.requests[0].settings.temperature == 0.5


def test_a_response_can_be_changed(api: API) -> None:
    class Loud(WrapperLLM):
        async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
            async for event in call_next(request):
                yield TextDelta(event.text.upper()) if isinstance(event, TextDelta) else event

    assert api.chat(Loud(ScriptedLLM("Yes.")), "Go.").text == "YES."


class Canned(WrapperLLM):
    """Answers without a request."""

    play: Sequence[Event] = (TextDelta("Hello."), Finish("end_turn"))

    async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
        for event in self.play:
            yield event


def test_an_answer_without_a_request(api: API) -> None:
    wrapped = ScriptedLLM()
    assert api.chat(Canned(wrapped), "Hi.").text == "Hello."
    assert wrapped.requests == []


def test_an_answer_without_a_request_is_an_attempt(api: API) -> None:
    llm = Canned(ScriptedLLM())
    bad = call('{"title": 1}')
    usage = UsageReport(Usage(3, 4))
    llm.play = [
        usage,
        ToolCallStart(bad.id, bad.name),
        ToolCallDone(bad.id, bad.name, bad.arguments),
        Finish("tool_use"),
    ]
    make = ToolOrchestratingLLM(Album, "x", llm, max_attempts=2)
    for error in (api.stream(make).error, caught(api, make)):
        assert [attempt.usage for attempt in error.attempts] == [Usage(3, 4)] * 2  # type: ignore[attr-defined]  # a CallError


def caught(api: API, make: ToolOrchestratingLLM[Any]) -> BaseException:
    with pytest.raises(ValueError) as found:
        api.call(make)
    return found.value


def test_only_the_first_of_its_calls_where_one_is_allowed(api: API, caplog: pytest.LogCaptureFixture) -> None:
    llm = Canned(ScriptedLLM())
    ends = [ToolCallDone(id, "Album", SEA.model_dump_json()) for id in ("a", "b")]
    llm.play = [*ends, Finish("tool_use")]
    assert api.call(ToolOrchestratingLLM(Album, "x", llm)) == SEA
    assert "more than one tool call" in caplog.text


def test_several_requests_for_one_answer(api: API) -> None:
    class Twice(WrapperLLM):
        async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
            try:
                async for event in call_next(request):
                    yield event
            except Overloaded:
                async for event in call_next(request):
                    yield event

    llm = Twice(ScriptedLLM(Overloaded("busy"), SEA))
    result = api.run(ToolOrchestratingLLM(Album, "x", llm))
    assert result.output == SEA
    assert [type(attempt.error) for attempt in result.attempts] == [Overloaded, type(None)]


# Errors.


def test_errors_reach_the_caller(api: API) -> None:
    make = ToolOrchestratingLLM(Album, "x", Passing(ScriptedLLM(ConnectFailed("down"), ConnectFailed("down"))))
    for error in (api.stream(make).error, caught(api, make)):
        assert isinstance(error, ConnectFailed) and len(error.attempts) == 1


def test_an_own_error_stops_the_call(api: API) -> None:
    class Refusing(WrapperLLM):
        async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
            raise ZeroDivisionError("mine")
            yield

    wrapped = ScriptedLLM("x", "x")
    with pytest.raises(ZeroDivisionError, match="mine"):
        api.chat(Refusing(wrapped), "Hi.")
    with pytest.raises(ZeroDivisionError, match="mine"):
        api.events(Refusing(wrapped), "Hi.")
    assert wrapped.requests == []


def test_events_without_an_end(api: API) -> None:
    class Swallowing(WrapperLLM):
        async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
            async for event in call_next(request):
                if not isinstance(event, Finish):
                    yield event

    with pytest.raises(StreamTruncated, match=r"Swallowing\.respond must yield one, last"):
        api.chat(Swallowing(ScriptedLLM("x")), "Hi.")


def test_a_coroutine_is_no_iterator(api: API) -> None:
    class Wrong(WrapperLLM):
        async def respond(self, request: ChatRequest, call_next: Next) -> Any:  # type: ignore[override]  # the test
            return []

    class WrongToo(WrapperLLM):
        def respond(self, request: ChatRequest, call_next: Next) -> Any:
            return []

    with pytest.raises(TypeError, match=r"Wrong\.respond: expected an async iterator, got coroutine"):
        api.chat(Wrong(ScriptedLLM("x")), "Hi.")
    with pytest.raises(TypeError, match="got list"):
        api.chat(WrongToo(ScriptedLLM("x")), "Hi.")


def test_a_function_that_only_passes_on(api: API) -> None:
    class Brief(WrapperLLM):
        def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
            return call_next(request)

    llm = Brief(Playing(TextDelta("x"), Finish("end_turn")))
    assert api.chat(llm, "Hi.").text == "x"
    assert api.stream(ToolOrchestratingLLM(str | int, "x", Brief(ScriptedLLM(3)))).final == 3


class Plain:
    """An async iterator with no more than its two methods."""

    def __init__(self, *events: Event) -> None:
        self._events = list(events)

    def __aiter__(self) -> Plain:
        return self

    async def __anext__(self) -> Event:
        if not self._events:
            raise StopAsyncIteration
        return self._events.pop(0)


def test_an_iterator_that_cannot_be_closed(api: API) -> None:
    class Fixed(WrapperLLM):
        def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
            return Plain(TextDelta("x"), Finish("end_turn"))

    assert api.chat(Fixed(ScriptedLLM()), "Hi.").text == "x"


# What sync calls may await.


class Waiting(WrapperLLM):
    async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
        await asyncio.sleep(0)
        async for event in call_next(request):
            yield event


def test_foreign_awaits_work_under_an_event_loop_only() -> None:
    llm = Waiting(ScriptedLLM("x", "y"))
    for _ in range(2):
        with pytest.raises(WouldSuspend, match=r"WrapperLLM.*call_next.*achat"):
            llm.chat("Hi.")
    assert asyncio.run(llm.achat("Hi.")).text == "x"


def test_its_own_awaits_work_everywhere(api: API) -> None:
    threads: list[bool] = []

    class Slow(WrapperLLM):
        async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
            here = threading.get_ident()
            await call_next.sleep(30)
            threads.append(await call_next.run_sync(threading.get_ident) == here)
            async for event in call_next(request):
                yield event

    wrapped = ScriptedLLM("x", "y")
    wrapped.clock = clock = VirtualClock()
    began = clock.now()
    assert api.chat(Slow(wrapped), "Hi.").text == "x"
    assert clock.now() - began == 30
    assert threads == [not isinstance(api.name, str) or api.name.startswith("sync")]


# Closing.


@pytest.mark.parametrize("take", [1, 3])
def test_closing_early_closes_the_wrapped_llm(api: API, take: int) -> None:
    wrapped = Playing(
        *[ToolCallStart("a", "Album"), *[ToolCallDelta("a", part) for part in ('{"tit', 'le":"A', "B", "C")]]
    )
    llm = Passing(wrapped)
    seen = api.stream(ToolOrchestratingLLM(Album, "x", llm), take=take)
    assert len(seen.items) == take
    assert (wrapped.begun, wrapped.closed, llm.ended) == (1, 1, ["closed"])


def test_closing_a_stream_of_events_early(api: API) -> None:
    wrapped = Playing(TextDelta("a"), TextDelta("b"))
    llm = Passing(wrapped)

    async def main() -> None:
        async with llm.astream_chat("x") as stream:
            await stream.next()

    if api.name.startswith("sync"):
        with llm.stream_chat("x") as stream:
            stream.next()
    else:
        anyio.run(main, backend=api.name)
    assert (wrapped.closed, llm.ended) == (1, ["closed"])


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_abandoned_stream_is_closed(backend: str) -> None:
    wrapped = Playing(TextDelta("a"), TextDelta("b"))

    async def main() -> None:
        stream = Passing(wrapped).astream_chat("x")
        await stream.next()
        del stream
        gc.collect()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert wrapped.closed == 1

    anyio.run(main, backend=backend)


def test_an_abandoned_sync_stream_is_closed() -> None:
    wrapped = Playing(TextDelta("a"), TextDelta("b"))
    stream = Passing(wrapped).stream_chat("x")
    stream.next()
    del stream
    gc.collect()
    assert wrapped.closed == 1


def test_a_response_that_is_not_read_to_its_end_is_closed(api: API) -> None:
    class Leaving(WrapperLLM):
        async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
            async for event in call_next(request):
                yield event
                break
            yield Finish("end_turn")

    wrapped = Playing(TextDelta("a"), TextDelta("b"))
    assert api.chat(Leaving(wrapped), "x").text == "a"
    assert wrapped.closed == 1


@pytest.mark.parametrize("begun", [False, True])
def test_a_sync_response_is_aborted(begun: bool) -> None:
    from toolcast.async_support import sync_driver

    wrapped, network = service(Recorded(album_stream(), headers=STREAM))
    llm = Passing(wrapped)
    backend = client_of(llm).sync_backend()
    request = client_of(llm).build_request("x", [Album], None, None, parallel=False)
    source = client_of(llm).open_events(
        replace(request, stream=True), backend, client_of(llm).begin_call(request.settings, backend)
    )
    if begun:
        assert sync_driver.run(source.next_events())
    source.break_off()
    with pytest.raises(StreamInterrupted):
        sync_driver.run(source.next_events())
    sync_driver.run(source.close())
    assert network.open_replies == 0


# As the wrapped LLM has it.


def test_prompt_settings_and_metadata_of_the_wrapped_llm(api: API) -> None:
    wrapped = ScriptedLLM("x", system_prompt="Be brief.", settings=Settings(temperature=0.1, seed=1))
    llm = Passing(wrapped)
    api.chat(llm, "Hi.", settings=Settings(seed=2))
    (sent,) = wrapped.requests
    assert sent.messages == (system("Be brief."), user("Hi."))
    assert (sent.settings.temperature, sent.settings.seed) == (0.1, 2)
    assert (llm.metadata, client_of(llm).origin) == (wrapped.metadata, client_of(wrapped).origin)
    assert repr(Passing(OpenAI("m-1", api="chat"))) == "Passing(OpenAI('m-1', api='chat'))"


def test_the_output_mode_of_the_wrapped_llm(api: API) -> None:
    wrapped, network = service(Recorded([text_body(SEA.model_dump_json())], headers=JSON))
    make = ToolOrchestratingLLM(Album, "x", Passing(wrapped), mode="prompted")
    assert make.preview().mode == "prompted"
    assert api.call(make) == SEA
    assert b"tools" not in network.requests[0].body
    plain = Passing(ScriptedLLM(function_calling=False))
    with pytest.raises(UnsupportedLLMError):
        ToolOrchestratingLLM(Album, "x", plain)
    with pytest.raises(UnsupportedLLMError, match="no mode 'grammar'"):
        ToolOrchestratingLLM(Album, "x", plain, mode="grammar")
    with pytest.raises(UnsupportedLLMError, match="no mode 'grammar'"):
        client_of(FallbackLLM([Passing(wrapped)])).require_mode("grammar")


def test_the_halves_of_a_call() -> None:
    wrapped, _ = service()
    make = ToolOrchestratingLLM(Album, "x", Passing(wrapped))
    assert make.request() == ToolOrchestratingLLM(Album, "x", wrapped).request()
    assert make.parse(album_body()) == SEA


def test_prices_of_the_wrapped_llm(api: API) -> None:
    wrapped = ScriptedLLM("x", prices=Prices(input=1, output=2))
    llm = Passing(wrapped)
    client_of(llm).require_prices()
    assert (
        api.chat(llm, "x").usage.cost
        == client_of(wrapped).price(Usage(10, 5)).cost
        == client_of(llm).price(Usage(10, 5)).cost
    )
    with pytest.raises(UnsupportedLLMError, match="prices"):
        Engine(Passing(ScriptedLLM("x")), [], budget=Budget(usd=1)).submit("Hi.")


def test_load_and_close_reach_the_wrapped_llm(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    wrapped = ScriptedLLM("x")

    async def aclose() -> None:
        done.append("aclose")

    monkeypatch.setattr(wrapped, "load", lambda progress=None: done.append("load"))
    monkeypatch.setattr(wrapped, "close", lambda: done.append("close"))
    monkeypatch.setattr(wrapped, "aclose", aclose)
    with Passing(wrapped) as llm:
        llm.load()
    asyncio.run(llm.aclose())
    assert done == ["load", "close", "aclose"]


def test_a_name_is_an_llm() -> None:
    assert isinstance(Passing("openai:gpt-x").llm, OpenAI)
    with pytest.raises(UnsupportedLLMError, match="got int"):
        Passing(3)  # type: ignore[arg-type]  # the test


# With other parts.


def test_around_and_in_a_fallback_llm(api: API) -> None:
    def busy() -> ScriptedLLM:
        return ScriptedLLM(Overloaded("busy"), model="big")

    around = Passing(FallbackLLM([busy(), ScriptedLLM("x", model="small")]))
    assert api.chat(around, "Hi.").model == "small"
    first, second = Passing(busy()), Passing(ScriptedLLM("x", model="small"))
    response = api.chat(FallbackLLM([first, second]), "Hi.")
    assert (response.text, response.model) == ("x", "small")
    assert (len(first.requests), len(second.requests)) == (1, 1)


def test_limits_of_both(api: API) -> None:
    llm = Passing(ScriptedLLM("a", "b", SEA, max_concurrency=1), max_concurrency=1)
    assert [api.chat(llm, "x").text, api.chat(llm, "x").text] == ["a", "b"]
    assert api.stream(ToolOrchestratingLLM(Album, "x", llm)).final == SEA


def test_hooks_of_the_wrapper_and_of_the_wrapped_llm(api: API) -> None:
    outer, middle, inner = Notes(), Notes(), Notes()
    wrapped, _ = service(BODY, hooks=inner)
    api.chat(Passing(Passing(wrapped, hooks=middle), hooks=outer), "Hello.")
    assert outer.methods == ["request", "response", "end"]
    assert middle.methods == inner.methods == ["request", "response"]


def test_hooks_of_the_wrapper_alone(api: API) -> None:
    notes = Notes()
    wrapped, _ = service(BODY, Recorded(album_stream(), headers=STREAM))
    llm = Passing(wrapped, hooks=notes)
    make = ToolOrchestratingLLM(Album, "x", llm)
    api.call(make)
    api.stream(make)
    assert notes.methods == ["request", "response", "end", "request", "first_token", "response", "end"]


@pytest.mark.parametrize("streamed", [False, True])
def test_hooks_of_an_answer_without_a_request(api: API, streamed: bool) -> None:
    outer, middle, inner, unused = Notes(), Notes(), Notes(), Notes()
    canned = Canned(ScriptedLLM(hooks=unused), hooks=inner)
    llm = Passing(FallbackLLM([Passing(canned, hooks=middle)]), hooks=outer)
    answer = api.events(llm, "Hi.") if streamed else api.chat(llm, "Hi.")
    first = ["request", "first_token"] if streamed else ["request"]
    assert outer.methods == [*first, "response", "end"]
    assert middle.methods == inner.methods == [*first, "response"]
    assert unused.methods == [] and answer
    _, info, (request,) = inner.calls[0]
    assert (info.attempt, request.messages[-1].text, request.http) == (1, "Hi.", None)


def test_hooks_of_wrappers_in_a_fallback_llm(api: API) -> None:
    first, second, inner = Notes(), Notes(), Notes()
    wrapped, _ = service(BODY, hooks=inner)
    llm = FallbackLLM([Passing(ScriptedLLM(Overloaded("busy")), hooks=first), Passing(wrapped, hooks=second)])
    api.chat(llm, "Hello.")
    assert first.methods == ["request"]
    assert second.methods == inner.methods == ["request", "response"]


def test_a_replacement_replaces_the_wrapper_too(api: API) -> None:
    llm = Passing(ScriptedLLM())
    with use_llm(ScriptedLLM("fake")):
        assert api.chat(llm, "x").text == "fake"
    with use_llm(Passing(ScriptedLLM("wrapped"))):
        assert api.chat(llm, "x").text == "wrapped"
    assert llm.requests == []


def test_copies_and_pickles() -> None:
    llm = Canned(OpenAI("m-1", api="chat", api_key="k"), max_concurrency=2, hooks=Notes())
    for other in (pickle.loads(pickle.dumps(llm)), copy.deepcopy(llm)):
        assert other.chat("Hi.").text == "Hello."
        assert (repr(other), other.max_concurrency, other.hooks) == (repr(llm), 2, ())


async def test_its_events_as_those_of_a_custom_llm() -> None:
    llm = Passing(ScriptedLLM("x"))
    assert [type(event) for event in [e async for e in llm._events([user("x")], [], None, Settings())]] == [
        TextDelta,
        UsageReport,
        Finish,
    ]
    assert Passing(LlamaCpp(capabilities=Capabilities(tools=True))).metadata.provider == "llama.cpp"
