"""hooks.py, and that every kind of call notifies its hooks: order, values, attempts, tools, turns, failures."""

from __future__ import annotations

import gc
import logging
import pickle
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from contextvars import copy_context
from copy import copy
from threading import Thread
from typing import Any

import pytest

import toolcast
from support.albums import SEA, SHORT, Album
from support.chunks import album_body, album_stream
from support.engines import ENGINE_APIS, EngineAPI, call as tool_call
from support.sync_and_async import API
from toolcast import (
    CallInfo,
    Engine,
    FallbackLLM,
    Hooks,
    OpenAI,
    Permissions,
    Rule,
    Settings,
    ToolOrchestratingLLM,
    TryAgain,
    ValidationError,
    assistant,
    user,
)
from toolcast.agents import Compaction
from toolcast.errors import Attempt, ServerError, TurnCancelled
from toolcast.events import Event
from toolcast.llms import CachedLLM, ChatRequest, Next, WrapperLLM
from toolcast.llms.client import client_of
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM, VirtualClock, use_llm
from toolcast.values.hooks import CallHooks, collect_hooks, current_operation

JSON = {"content-type": "application/json"}
DOWN = Recorded([b'{"error": {"message": "down"}}'], 500, JSON)
BODY = Recorded.of(album_body())


class Notes(Hooks):
    """Notes every call of a method with its arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, CallInfo, tuple[Any, ...]]] = []

    def _note(self, method: str, info: CallInfo, *values: Any) -> None:
        self.calls.append((method, info, values))

    def request(self, call: CallInfo, request: Any) -> None:
        self._note("request", call, request)

    def first_token(self, call: CallInfo, seconds: float) -> None:
        self._note("first_token", call, seconds)

    def response(self, call: CallInfo, response: Any, seconds: float) -> None:
        self._note("response", call, response, seconds)

    def retry(self, call: CallInfo, error: Exception, wait: float) -> None:
        self._note("retry", call, error, wait)

    def error(self, call: CallInfo, error: BaseException) -> None:
        self._note("error", call, error)

    def end(self, call: CallInfo, usage: Any, seconds: float) -> None:
        self._note("end", call, usage, seconds)

    def tool_start(self, call: CallInfo, tool_call: Any) -> Any:
        self._note("tool_start", call, tool_call)

    def tool(self, call: CallInfo, tool_call: Any, output: Any, seconds: float) -> None:
        self._note("tool", call, tool_call, output, seconds)

    def turn_start(self, call: CallInfo, messages: Any) -> None:
        self._note("turn_start", call, messages)

    def turn(self, call: CallInfo, turn: Any) -> None:
        self._note("turn", call, turn)

    @property
    def methods(self) -> list[str]:
        return [method for method, _, _ in self.calls]

    def of(self, method: str) -> list[tuple[Any, ...]]:
        return [values for name, _, values in self.calls if name == method]

    def infos(self, method: str) -> list[CallInfo]:
        return [info for name, info, _ in self.calls if name == method]


def service(*answers: Recorded | BaseException, **options: Any) -> OpenAI:
    made = OpenAI("m-1", api="chat", api_key="sk-secret", network=ReplayNetwork(*answers), **options)
    made.clock = VirtualClock()
    return made


@pytest.fixture(params=ENGINE_APIS, ids=lambda api: api.name)
def engine_api(request: pytest.FixtureRequest) -> EngineAPI:
    chosen: EngineAPI = request.param
    return chosen


# Where hooks are set.


def test_a_structured_call_notifies_the_hooks_of_the_process_the_context_and_its_objects(api: API) -> None:
    process, context, own, of_llm = Notes(), Notes(), Notes(), Notes()
    make = ToolOrchestratingLLM(Album, "Make one.", service(BODY, BODY, hooks=[of_llm]), hooks=own)
    with toolcast.hooks.add(process), toolcast.hooks(context):
        assert api.call(make) == SEA
    for notes in (process, context, own, of_llm):
        assert notes.methods == ["request", "response", "end"]
    assert api.call(make) == SEA
    assert (len(process.calls), len(context.calls), len(own.calls), len(of_llm.calls)) == (3, 3, 6, 6)


def test_a_hook_in_several_places_is_called_once(api: API) -> None:
    notes = Notes()
    with toolcast.hooks(notes, notes), toolcast.hooks(notes):
        api.chat(service(BODY, hooks=notes), "Hello.")
    assert notes.methods == ["request", "response", "end"]


def test_hooks_of_a_context_reach_the_threads_that_copy_it_and_no_others() -> None:
    notes, llm = Notes(), service(BODY, BODY)
    with toolcast.hooks(notes):
        threads = [
            Thread(target=copy_context().run, args=(llm.chat, "Hello.")),
            Thread(target=llm.chat, args=("Hello.",)),
        ]
        for thread in threads:
            thread.start()
            thread.join()
    assert len(notes.of("response")) == 1


def test_a_handle_removes_its_own_hooks_once() -> None:
    notes = Notes()
    first, second = toolcast.hooks.add(notes), toolcast.hooks.add(notes)
    first.remove()
    first.remove()
    assert collect_hooks() == (notes,)
    second.remove()
    assert collect_hooks() == ()


@pytest.mark.parametrize("wrong", [Notes, "notes", [1], lambda: None])
def test_anything_but_hooks_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="hooks"):
        service(hooks=wrong)
    with pytest.raises(TypeError, match="hooks"), toolcast.hooks(wrong):
        pass


def test_an_async_hook_is_refused() -> None:
    """It would never run, as hooks are called without await."""

    class Late(toolcast.Hooks):
        async def request(self, call: Any, request: Any) -> None:  # type: ignore[override]  # what is to be refused
            raise AssertionError

    with pytest.raises(TypeError, match=r"hooks: Late\.request is async.* write it with def"):
        service(hooks=Late())
    with pytest.raises(TypeError, match=r"Late\.request is async"):
        toolcast.hooks.add(Late())


def test_a_copy_of_an_llm_has_its_hooks_and_a_pickle_has_none() -> None:
    notes = Notes()
    llm = OpenAI("m-1", api="chat", api_key="k", hooks=notes)
    assert copy(llm).hooks == (notes,)
    assert pickle.loads(pickle.dumps(llm)).hooks == ()
    assert pickle.loads(pickle.dumps(FallbackLLM([llm], hooks=notes))).hooks == ()
    assert ToolOrchestratingLLM(Album, "Make one.", llm).with_(hooks=notes).llm.hooks == (notes,)


# Values.


def test_a_request_is_complete_and_has_no_credentials(api: API) -> None:
    notes = Notes()
    llm = service(BODY, headers={"x-team-token": "sk-other"}, settings=Settings(temperature=0.5))
    api.call(ToolOrchestratingLLM(Album, "Make one about sk-secret.", llm, hooks=notes))
    ((request,),) = notes.of("request")
    assert [message.role for message in request.messages] == ["user"]
    assert [tool.name for tool in request.tools] == ["Album"]
    assert request.settings.temperature == 0.5
    assert (request.stream, request.http.method) == (False, "POST")
    assert b'"temperature":0.5' in request.http.body.replace(b" ", b"")
    everything = repr((request, request.http, request.http.headers)) + request.http.body.decode()
    assert "sk-secret" not in everything
    assert "sk-other" not in everything
    assert request.http.headers["authorization"] == "***"
    assert request.url == request.http.url == "https://api.openai.com/v1/chat/completions"
    assert request.mask("about sk-secret") == "about [key]"


def test_a_changed_schema_of_a_hook_changes_no_call() -> None:
    notes = Notes()
    make = ToolOrchestratingLLM(Album, "Make one.", service(BODY, BODY), hooks=notes)
    make()
    notes.of("request")[0][0].tools[0].parameters["properties"].clear()
    make()
    assert set(notes.of("request")[1][0].tools[0].parameters["properties"]) == {"title", "artist", "songs"}


def test_a_response_has_the_message_usage_and_seconds(api: API) -> None:
    notes = Notes()
    llm = service(BODY, hooks=notes)
    api.chat(llm, "Hello.")
    ((response, seconds),) = notes.of("response")
    assert response.message.tool_calls[0].name == "Album"
    assert (response.usage.input_tokens, response.provider, response.model) == (7, "openai", "m-1")
    assert seconds >= 0.0
    ((usage, _),) = notes.of("end")
    assert usage == response.usage
    (info,) = notes.infos("end")
    assert (info.operation, info.provider, info.model, info.parent) == ("chat", "openai", "m-1", None)


def test_a_stream_reports_its_first_content(api: API) -> None:
    notes = Notes()
    make = ToolOrchestratingLLM(Album, "Make one.", service(Recorded(album_stream())), hooks=notes)
    assert api.stream(make).final == SEA
    assert notes.methods == ["request", "first_token", "response", "end"]
    assert len({info.id for _, info, _ in notes.calls}) == 1


def test_events_of_a_stream_are_the_same_with_hooks(api: API) -> None:
    def events(**options: Any) -> Any:
        return api.events(service(Recorded(album_stream()), **options), "Make one.")

    assert events(hooks=Notes()) == events()


def test_a_stream_that_is_closed_early_ends_without_a_response(api: API) -> None:
    notes = Notes()
    make = ToolOrchestratingLLM(Album, "Make one.", service(Recorded(album_stream())), hooks=notes)
    api.stream(make, take=2)
    assert notes.methods == ["request", "first_token", "end"]


@pytest.mark.parametrize("taken", [1, 2])
def test_an_event_stream_that_is_left_ends(taken: int) -> None:
    notes = Notes()
    stream = service(Recorded(album_stream()), hooks=notes).stream_chat("Hello.")
    for _ in range(taken):
        next(stream)
    stream.close()
    stream.close()
    assert notes.methods == ["request", "first_token", "end"]


def test_an_event_stream_that_is_never_read_has_no_end() -> None:
    notes = Notes()
    service(hooks=notes).stream_chat("Hello.").close()
    assert notes.calls == []


async def test_async_streams_that_are_garbage_collected_end() -> None:
    chat, structured, agent = Notes(), Notes(), Notes()

    async def leave(stream: Any) -> None:
        async for _ in stream:
            return

    await leave(service(Recorded(album_stream()), hooks=chat).astream_chat("Hello."))
    make = ToolOrchestratingLLM(Album, "Make one.", service(Recorded(album_stream())), hooks=structured)
    await leave(make.astream())
    engine = Engine(service(Recorded(album_stream())), hooks=agent)
    await leave(engine.astream("Hello."))
    gc.collect()
    assert chat.methods == structured.methods == ["request", "first_token", "end"]
    assert agent.methods == ["turn_start", "request", "first_token", "end", "error", "turn"]


# Attempts and failures.


def test_an_http_attempt_that_fails_is_a_retry(api: API) -> None:
    notes = Notes()
    api.chat(service(DOWN, DOWN, BODY, hooks=notes), "Hello.")
    assert notes.methods == ["request", "retry", "request", "retry", "request", "response", "end"]
    assert [info.attempt for info in notes.infos("request")] == [1, 2, 3]
    assert all(isinstance(error, ServerError) and wait >= 0.0 for error, wait in notes.of("retry"))


def test_a_failed_call_is_an_error_and_an_end(api: API) -> None:
    notes = Notes()
    with pytest.raises(ServerError) as caught:
        api.chat(service(DOWN, max_retries=0, hooks=notes), "Hello.")
    assert notes.methods == ["request", "error", "end"]
    assert notes.of("error") == [(caught.value,)]


def test_an_invalid_answer_is_asked_for_again(api: API) -> None:
    notes = Notes()
    wrong = Recorded.of(album_body('{"title": 1}'))
    make = ToolOrchestratingLLM(Album, "Make one.", service(wrong, BODY), max_attempts=2, hooks=notes)
    assert api.call(make) == SEA
    assert notes.methods == ["request", "response", "retry", "request", "response", "end"]
    ((error, wait),) = notes.of("retry")
    assert (type(error), wait) == (ValidationError, 0.0)
    assert [info.attempt for info in notes.infos("request")] == [1, 2]


def test_an_invalid_streamed_answer_is_asked_for_again(api: API) -> None:
    notes = Notes()
    wrong, right = Recorded(album_stream('{"title": 1}')), Recorded(album_stream())
    make = ToolOrchestratingLLM(Album, "Make one.", service(wrong, right), max_attempts=2, hooks=notes)
    assert api.stream(make).final == SEA
    assert notes.methods == [
        *("request", "first_token", "response", "retry"),
        *("request", "first_token", "response", "end"),
    ]
    assert [info.attempt for info in notes.infos("response")] == [1, 2]


def test_a_streamed_answer_that_is_rejected_before_its_end_is_a_response_for_all_hooks(api: API) -> None:
    outer, inner = Notes(), Notes()
    wrong, right = Recorded(album_stream('{"title": 1, "artist": "Low", "songs": []}')), Recorded(album_stream())
    llm = CachedLLM(service(wrong, right, hooks=inner))
    make = ToolOrchestratingLLM(Album, "Make one.", llm, max_attempts=2, hooks=outer)
    assert api.stream(make).final == SEA
    for notes in (outer, inner):
        assert [info.attempt for info in notes.infos("response")] == [1, 2]
        rejected, accepted = [response.message.tool_calls[0].arguments for response, _ in notes.of("response")]
        assert rejected.startswith('{"title": 1')
        assert accepted == SEA.model_dump_json()


def test_the_time_of_a_response_contains_neither_earlier_attempts_nor_waits(api: API) -> None:
    for streamed in (False, True):
        notes = Notes()
        right = Recorded(album_stream()) if streamed else BODY
        llm = service(DOWN, right, max_retries=1)
        make = ToolOrchestratingLLM(Album, "Make one.", llm, hooks=notes)
        assert (api.stream(make).final if streamed else api.call(make)) == SEA
        assert isinstance(llm.clock, VirtualClock)
        assert [seconds for _, seconds in notes.of("response")] == [0.0]
        assert notes.of("first_token") == [(0.0,)] * streamed
        ((_, seconds),) = notes.of("end")
        assert seconds == pytest.approx(sum(llm.clock.slept))
        assert seconds > 0.0


def test_a_wait_in_a_wrapper_is_not_part_of_the_time_of_its_request() -> None:
    notes, clock = Notes(), VirtualClock()

    class Slow(WrapperLLM):
        async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
            await call_next.sleep(5.0)
            async for event in call_next(request):
                yield event

    scripted = ScriptedLLM("Hello.")
    scripted.clock = clock
    Slow(scripted, hooks=notes).chat("Hi.")
    assert [seconds for _, seconds in notes.of("response")] == [0.0]
    assert [seconds for _, seconds in notes.of("end")] == [5.0]


def test_an_answer_from_the_cache_is_an_attempt_that_is_cached(api: API, capsys: pytest.CaptureFixture[str]) -> None:
    llm = CachedLLM(service(Recorded.of(album_body('{"title": 1}')), BODY))
    make = ToolOrchestratingLLM(Album, "Make one.", llm, max_attempts=2)
    assert [attempt.cached for attempt in api.run(make).attempts] == [False, False]
    llm = CachedLLM(service(BODY))
    make = make.with_(llm=llm, verbose=True)
    assert [attempt.cached for attempt in api.run(make).attempts] == [False]
    assert "from the cache" not in capsys.readouterr().err
    result = api.run(make)
    assert [attempt.cached for attempt in result.attempts] == [True]
    assert Attempt.from_dict(result.attempts[0].to_dict()).cached
    assert "0 tokens in, 0 out, from the cache" in capsys.readouterr().err


def test_a_damaged_answer_is_asked_for_again(api: API) -> None:
    notes = Notes()
    events = album_stream()
    damaged = [*events[:3], b'data: {"choices": [{"delta": {"tool_calls"\n\n', *events[3:]]
    llm = service(Recorded(damaged), Recorded(events))
    make = ToolOrchestratingLLM(Album, "Make one.", llm, max_attempts=2, hooks=notes)
    assert api.stream(make).final == SEA
    assert notes.methods.count("retry") == 1


def test_a_hook_that_raises_is_logged_once_and_breaks_nothing(api: API, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Notes):
        def request(self, call: CallInfo, request: Any) -> None:
            raise ZeroDivisionError

        def end(self, call: CallInfo, usage: Any, seconds: float) -> None:
            raise KeyError

    broken, notes = Broken(), Notes()
    with caplog.at_level(logging.ERROR, "toolcast"):
        for _ in range(2):
            assert api.call(ToolOrchestratingLLM(Album, "Make one.", service(BODY), hooks=[broken, notes])) == SEA
    assert broken.methods == ["response", "response"]
    assert notes.methods == ["request", "response", "end"] * 2
    assert [record.message.split(" raised ")[0] for record in caplog.records] == [
        "the hook Broken.request",
        "the hook Broken.end",
    ]


# LLMs.


def test_hooks_of_a_fallback_llm_and_of_its_members(api: API) -> None:
    outer, first, second = Notes(), Notes(), Notes()
    llm = FallbackLLM([service(DOWN, max_retries=0, hooks=first), service(BODY, hooks=second)], hooks=outer)
    api.chat(llm, "Hello.")
    assert outer.methods == ["request", "request", "response", "end"]
    assert first.methods == ["request"]
    assert second.methods == ["request", "response"]
    assert outer.of("response")[0][0].model == "m-1"


def test_members_with_hooks_are_observed_where_nothing_else_is(api: API) -> None:
    notes = Notes()
    api.chat(FallbackLLM([FallbackLLM([service(BODY, hooks=notes)])]), "Hello.")
    assert notes.methods == ["request", "response"]


def test_an_llm_without_http_has_requests_too(api: API) -> None:
    notes = Notes()
    make = ToolOrchestratingLLM(Album, "Make one.", ScriptedLLM(SEA, hooks=notes))
    assert api.call(make) == SEA
    assert notes.methods == ["request", "response", "end"]
    ((request,),) = notes.of("request")
    assert request.http is None
    assert repr(request) == "RequestInfo(messages=1, tools=[Album], stream=False)"


def test_a_replaced_llm_is_observed_by_the_hooks_of_the_call(api: API) -> None:
    notes = Notes()
    with use_llm(ScriptedLLM(SEA, model="fake")):
        assert api.call(ToolOrchestratingLLM(Album, "Make one.", service(), hooks=notes)) == SEA
    assert notes.methods == ["request", "response", "end"]
    assert notes.of("response")[0][0].model == "fake"


def test_a_call_without_hooks_has_no_dispatcher() -> None:
    llm = service()
    assert client_of(llm).begin_call(Settings(), client_of(llm).sync_backend()).hooks is None


# Tools.


def make_note(text: str) -> str:
    return f"noted: {text}"


def test_a_function_as_output_is_a_tool_call(api: API) -> None:
    notes = Notes()
    make = ToolOrchestratingLLM(make_note, "Note it.", ScriptedLLM({"text": "a"}), hooks=notes)
    assert api.call(make) == "noted: a"
    assert notes.methods == ["request", "response", "tool_start", "tool", "end"]
    ((started,),) = notes.of("tool_start")
    ((called, output, seconds),) = notes.of("tool")
    assert called == started
    assert (called.name, output.is_error, output.raw_output) == ("make_note", False, "noted: a")
    assert seconds >= 0.0


def test_a_tool_that_asks_for_another_answer_is_an_error_of_the_tool(api: API) -> None:
    notes = Notes()

    def picky(text: str) -> str:
        if text == "a":
            raise TryAgain("not a")
        return text

    make = ToolOrchestratingLLM(picky, "Note it.", ScriptedLLM({"text": "a"}, {"text": "b"}), max_attempts=2)
    assert api.call(make.with_(hooks=notes)) == "b"
    assert [output.is_error for _, output, _ in notes.of("tool")] == [True, False]
    assert len(notes.of("retry")) == 1


def test_predict_and_call_runs_its_tools_within_the_operation(api: API) -> None:
    notes = Notes()
    llm = ScriptedLLM(tool_call("1", "make_note", '{"text": "a"}'), hooks=notes)
    api.method(llm, "predict_and_call", [make_note], "Note it.")
    assert notes.methods == ["request", "response", "tool_start", "tool", "end"]
    with pytest.raises(toolcast.errors.UnknownToolError):
        api.method(ScriptedLLM(tool_call("1", "other"), hooks=notes), "predict_and_call", [make_note], "Note it.")
    assert notes.methods[5:] == ["request", "response", "error", "end"]


def test_a_context_manager_of_tool_start_is_entered_around_the_tool(api: API) -> None:
    order: list[Any] = []

    class Around(Hooks):
        def tool_start(self, call: CallInfo, tool_call: Any) -> Any:
            @contextmanager
            def around() -> Generator[None]:
                order.append("entered")
                yield
                order.append("left")

            return around()

    def tool(text: str) -> str:
        order.append(current_operation())
        return text

    make = ToolOrchestratingLLM(tool, "Call it.", ScriptedLLM(tool_call("c1", "tool", '{"text": "a"}')), hooks=Around())
    assert api.call(make) == "a"
    assert (order[0], order[2]) == ("entered", "left")
    assert order[1].endswith("/c1")
    assert current_operation() is None


@pytest.mark.parametrize("method", ["__enter__", "__exit__"])
def test_a_context_manager_that_raises_breaks_nothing(method: str, caplog: pytest.LogCaptureFixture) -> None:
    class Manager:
        def __enter__(self) -> None:
            if method == "__enter__":
                raise ZeroDivisionError

        def __exit__(self, *exc: object) -> None:
            if method == "__exit__":
                raise ZeroDivisionError

    kind = type("Raising", (Hooks,), {"tool_start": lambda self, call, tool_call: Manager()})
    make = ToolOrchestratingLLM(make_note, "Note it.", ScriptedLLM({"text": "a"}), hooks=kind())
    with caplog.at_level(logging.ERROR, "toolcast"):
        assert make() == "noted: a"
    assert "the hook Raising.tool_start raised ZeroDivisionError" in caplog.text


# Agents.


def test_a_turn_notifies_of_its_requests_tools_and_end(engine_api: EngineAPI) -> None:
    notes = Notes()
    llm = ScriptedLLM(tool_call("1", "make_note", '{"text": "a"}'), "Done.")
    turn = engine_api.submit(Engine(llm, [make_note], hooks=notes), "Note a.")
    methods = [method for method in notes.methods if method != "first_token"]
    rounds = ["request", "response", "end"]
    assert methods == ["turn_start", *rounds, "tool_start", "tool", *rounds, "turn"]
    (info,) = notes.infos("turn")
    assert info.operation == "turn"
    assert {each.parent for each in notes.infos("request")} == {info.id}
    assert notes.of("turn") == [(turn,)]
    ((_, output, _),) = notes.of("tool")
    assert output.content == "noted: a"


def test_calls_that_do_not_run_are_results_of_zero_seconds(engine_api: EngineAPI) -> None:
    notes = Notes()
    calls = [tool_call("1", "make_note", '{"text": 1}'), tool_call("2", "absent"), tool_call("3", "make_note", "{}")]
    rules = Permissions("bypass", [Rule("make_note", "deny")])
    engine = Engine(ScriptedLLM(calls, "Done."), [make_note], permissions=rules, hooks=notes)
    engine_api.submit(engine, "Note it.")
    assert [(output.is_error, seconds) for _, output, seconds in notes.of("tool")] == [(True, 0.0)] * 3
    assert notes.of("tool_start") == []


def test_calls_in_a_tool_of_an_agent_are_part_of_its_call(engine_api: EngineAPI) -> None:
    notes = Notes()

    def ask(text: str) -> str:
        return ToolOrchestratingLLM(Album, "Make one.", ScriptedLLM(SHORT))().title

    engine = Engine(ScriptedLLM(tool_call("7", "ask", '{"text": "a"}'), "Done."), [ask], tool_timeout=60)
    with toolcast.hooks(notes):
        engine_api.submit(engine, "Ask.")
    (turn,) = notes.infos("turn")
    (inner,) = [info for info in notes.infos("response") if info.operation == "structured"]
    assert inner.parent == f"{turn.id}/7"


def test_a_summary_of_the_history_is_part_of_the_turn(engine_api: EngineAPI) -> None:
    notes = Notes()
    history = [user("one " * 400), assistant("two " * 400)]
    compaction = Compaction(at=200, keep=20, summarise=ScriptedLLM("Numbers.", model="short"))
    engine = Engine(ScriptedLLM("Three."), history=history, compaction=compaction)
    with toolcast.hooks(notes):
        engine_api.submit(engine, "And now?")
    (turn,) = notes.infos("turn")
    assert [(info.model, info.parent) for info in notes.infos("end")] == [("short", turn.id), ("scripted", turn.id)]


def test_a_turn_that_fails_is_an_error_and_a_turn(engine_api: EngineAPI) -> None:
    notes = Notes()
    with pytest.raises(ServerError):
        engine_api.submit(Engine(ScriptedLLM(ServerError("down")), hooks=notes), "Hello.")
    assert notes.methods == ["turn_start", "request", "error", "end", "error", "turn"]
    assert [info.operation for info in notes.infos("error")] == ["chat", "turn"]


def test_a_cancelled_turn_ends(engine_api: EngineAPI) -> None:
    notes = Notes()
    engine = Engine(ScriptedLLM("Hello, sea."), hooks=notes)
    engine_api.stream(engine, "Hello.", take=1)
    assert notes.methods[-1] == "turn"
    ((error,),) = [
        values for values, info in zip(notes.of("error"), notes.infos("error"), strict=True) if info.operation == "turn"
    ]
    assert isinstance(error, TurnCancelled)


def test_each_attempt_has_its_number_its_seconds_and_the_wait_after_it(api: API) -> None:
    notes, llm = Notes(), service(DOWN, Recorded.of(album_body('{"title": 1}')), BODY, max_retries=1)
    result = api.run(ToolOrchestratingLLM(Album, "Make one.", llm, max_attempts=2, hooks=notes))
    assert [(name, info.attempt) for name, info, _ in notes.calls] == [
        ("request", 1),
        ("retry", 1),
        ("request", 2),
        ("response", 2),
        ("retry", 2),
        ("request", 3),
        ("response", 3),
        ("end", 3),
    ]
    assert isinstance(llm.clock, VirtualClock)
    assert [attempt.wait for attempt in result.attempts] == [*llm.clock.slept, 0.0, 0.0]
    assert [attempt.seconds for attempt in result.attempts] == [0.0, 0.0, 0.0]


def test_the_first_token_of_a_stream_that_is_repeated_has_the_number_of_its_request(api: API) -> None:
    notes, llm = Notes(), service(DOWN, Recorded(album_stream()), max_retries=1)
    api.stream(ToolOrchestratingLLM(Album, "Make one.", llm, hooks=notes))
    assert [info.attempt for name in ("first_token", "response") for info in notes.infos(name)] == [2, 2]


# States.


def test_the_method_state_gets_the_states_that_an_observer_gets(api: API) -> None:
    class States(Hooks):
        def __init__(self) -> None:
            self.states: list[tuple[str, str]] = []

        def state(self, call: CallInfo, state: str) -> None:
            self.states.append((call.id, state))

    hook, observed = States(), list[tuple[str, str]]()
    make = ToolOrchestratingLLM(
        Album, "Make one.", service(BODY), hooks=hook, observer=lambda *values: observed.append(values)
    )
    api.call(make)
    assert hook.states == observed[-len(hook.states) :] != []
    assert hook.states[-1][1] == "ready"


def test_states_of_a_turn(engine_api: EngineAPI) -> None:
    seen: list[str] = []
    kind = type("States", (Hooks,), {"state": lambda self, call, state: seen.append(state)})
    engine_api.submit(Engine(ScriptedLLM("Hello."), hooks=kind()), "Hello.")
    assert seen == ["streaming", "accumulating", "complete", "idle"]


def test_states_are_built_only_for_a_hook_that_observes_them() -> None:
    info = CallInfo("1", "chat")
    assert CallHooks((Notes(),), info).observer() is None
    assert CallHooks((Hooks(),), info).observer() is None


def test_every_method_of_the_base_does_nothing(engine_api: EngineAPI) -> None:
    llm = ScriptedLLM(tool_call("1", "make_note", '{"text": "a"}'), ServerError("down"))
    with pytest.raises(ServerError):
        engine_api.submit(Engine(llm, [make_note], hooks=Hooks()), "Hello.")
    with service(DOWN, Recorded(album_stream()), hooks=Hooks()).stream_chat("Hello.") as stream:
        assert stream.next()
