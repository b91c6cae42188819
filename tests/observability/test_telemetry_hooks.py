"""telemetry_hooks.py: spans and metrics of calls, streams, tools, turns, sub-agents and sessions, on every API."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import closing
from contextvars import copy_context
from threading import Lock, Thread
from typing import Any

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, StatusCode

import toolcast
from support.albums import SEA, SHORT, Album
from support.chunks import album_body, album_stream
from support.engines import ENGINE_APIS, EngineAPI, call as tool_call
from support.sync_and_async import API
from support.telemetry import attributes, recorded
from toolcast import (
    Anthropic,
    Bedrock,
    CallableTool,
    CallInfo,
    Engine,
    FallbackLLM,
    FunctionCallingLLM,
    Google,
    Mistral,
    OpenAI,
    OpenAICompatible,
    Permissions,
    Prices,
    RequestInfo,
    Rule,
    Session,
    Settings,
    Timeouts,
    ToolCallPart,
    ToolOrchestratingLLM,
    ToolOutput,
    TryAgain,
    Turn,
    Usage,
    ValidationError,
    assistant,
    user,
)
from toolcast.agents import Compaction, ElfConfig, ElfManager
from toolcast.errors import BadRequest, ServerError, TurnCancelled
from toolcast.events import ChatResponse
from toolcast.llms import CachedLLM
from toolcast.llms.client import client_of
from toolcast.observability import conventions as names
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM, VirtualClock

JSON = {"content-type": "application/json"}
DOWN = Recorded([b'{"error": {"message": "down"}}'], 500, JSON)
BODY = Recorded.of(album_body())
WRONG = Recorded.of(album_body('{"title": 1}'))


def service(*answers: Recorded | BaseException, **options: Any) -> OpenAI:
    made = OpenAI("m-1", api="chat", api_key="sk-secret", network=ReplayNetwork(*answers), **options)
    made.clock = VirtualClock()
    return made


@pytest.fixture(params=ENGINE_APIS, ids=lambda api: api.name)
def engine_api(request: pytest.FixtureRequest) -> EngineAPI:
    chosen: EngineAPI = request.param
    return chosen


def events(span: Any) -> list[str]:
    return [event.name for event in span.events]


# Requests.


def test_a_chat_is_a_client_span(api: API) -> None:
    settings = Settings(temperature=0.5, top_p=0.9, max_tokens=100, stop=("a", "b"), seed=7, thinking="low")
    with recorded() as telemetry:
        api.chat(service(BODY, settings=settings), "Hello.")
    span = telemetry.one("chat m-1")
    assert span.kind is SpanKind.CLIENT
    assert span.status.status_code is StatusCode.UNSET
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "toolcast"
    assert attributes(span) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m-1",
        "server.address": "api.openai.com",
        "server.port": 443,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.stop_sequences": ("a", "b"),
        "gen_ai.request.seed": 7,
        "gen_ai.request.reasoning.level": "low",
        "gen_ai.response.id": "c1",
        "gen_ai.response.model": "m-1",
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
    }


def test_a_structured_call_is_one_span_whose_attempts_are_events(api: API) -> None:
    with recorded() as telemetry:
        make = ToolOrchestratingLLM(Album, "Make one.", service(DOWN, WRONG, BODY), max_attempts=2)
        assert api.call(make) == SEA
    span = telemetry.one("chat m-1")
    assert events(span) == ["toolcast.attempt", "toolcast.retry"] * 2 + ["toolcast.attempt"]
    attempts = [dict(event.attributes or {}) for event in span.events[::2]]
    assert all(attempt.pop("toolcast.attempt.seconds") >= 0 for attempt in attempts)
    tokens = {"gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 3}
    assert attempts == [
        {"toolcast.attempt.number": 1, "error.type": "ServerError", "http.response.status_code": 500},
        {"toolcast.attempt.number": 2, "error.type": "ValidationError", **tokens},
        {"toolcast.attempt.number": 3, **tokens},
    ]
    assert [dict(event.attributes or {})["error.type"] for event in span.events[1::2]] == [
        "ServerError",
        "ValidationError",
    ]
    assert attributes(span)["gen_ai.output.type"] == "json"
    assert span.status.status_code is StatusCode.UNSET


def test_tokens_of_all_attempts_are_counted_once(api: API) -> None:
    with recorded() as telemetry:
        make = ToolOrchestratingLLM(Album, "Make one.", service(WRONG, BODY), max_attempts=2)
        assert api.call(make) == SEA
    found = attributes(telemetry.one("chat m-1"))
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.output_tokens"]) == (14, 6)
    for name, count in (("input_tokens", 14), ("output_tokens", 6)):
        assert telemetry.total(f"gen_ai.client.inference.usage.{name}") == count
        (point,) = telemetry.metrics()[f"gen_ai.client.inference.operation.{name}"]
        assert (point.count, point.sum) == (1, count)
    assert "gen_ai.client.inference.usage.cache_read.input_tokens" not in telemetry.metrics()


def test_an_attempt_begins_with_its_request(api: API) -> None:
    with recorded() as telemetry:
        api.chat(service(DOWN, BODY), "Hello.")
    first, retry, second = telemetry.one("chat m-1").events
    assert first.timestamp <= retry.timestamp <= second.timestamp


@pytest.mark.parametrize("capture", [False, True])
def test_the_text_of_the_error_of_an_attempt_is_content_and_is_cut(api: API, capture: bool) -> None:
    long = Recorded([b'{"error": {"message": "sk-secret %s"}}' % (b"down " * 300)], 500, JSON)
    with recorded(capture_content=capture) as telemetry:
        api.chat(service(long, BODY), "Hello.")
    first, second = [event.attributes for event in telemetry.one("chat m-1").events[::2]]
    text = first.get("toolcast.attempt.error", "")
    assert "sk-secret" not in text
    assert "toolcast.attempt.error" not in second
    assert len(text) <= 500
    assert ("down down" in text) is capture


def test_the_cost_of_all_attempts_is_recorded_once_where_the_prices_are_known(api: API) -> None:
    with recorded() as telemetry:
        llm = service(WRONG, BODY, prices=Prices(input=10, output=100))
        api.call(ToolOrchestratingLLM(Album, "Make one.", llm, max_attempts=2))
        api.method(Engine(ScriptedLLM("Hi.", prices=Prices(input=1000, output=0))), "submit", "Hello.")
        api.chat(service(BODY), "Hello.")
    assert attributes(telemetry.of("chat m-1")[0])["toolcast.cost"] == pytest.approx(0.00074)
    assert attributes(telemetry.one("chat scripted"))["toolcast.cost"] == pytest.approx(0.01)
    for span in (telemetry.one("invoke_agent"), telemetry.of("chat m-1")[1]):
        assert "toolcast.cost" not in attributes(span)


def test_metrics_have_the_attributes_of_the_operation(api: API) -> None:
    with recorded() as telemetry:
        api.chat(service(BODY), "Hello.")
    common = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.model": "m-1",
        "server.address": "api.openai.com",
        "server.port": 443,
    }
    (point,) = telemetry.metrics()["gen_ai.client.inference.duration"]
    assert dict(point.attributes) == common
    assert (point.count, point.explicit_bounds[0], point.explicit_bounds[-1]) == (1, 0.01, 81.92)
    (tokens,) = telemetry.metrics()["gen_ai.client.inference.usage.input_tokens"]
    assert dict(tokens.attributes) == {**common, "gen_ai.token.modality": "unknown"}
    (histogram,) = telemetry.metrics()["gen_ai.client.inference.operation.input_tokens"]
    assert histogram.explicit_bounds[:3] == (1, 4, 16)
    assert histogram.explicit_bounds[-1] == 67108864


def test_cached_and_reasoning_tokens() -> None:
    usage = Usage(100, 50, cache_read_tokens=40, cache_creation_tokens=30, reasoning_tokens=20, audio_tokens=9)
    call = CallInfo("chat-of-this-test", "chat", "openai", "m-1")
    with recorded() as telemetry:
        telemetry.hooks.request(call, RequestInfo((), Settings(), None, None, False))
        telemetry.hooks.end(call, usage, 0.5)
    found = attributes(telemetry.one("chat m-1"))
    assert {name: found[name] for name in names.USAGE.values()} == {
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 50,
        "gen_ai.usage.cache_read.input_tokens": 40,
        "gen_ai.usage.cache_write.input_tokens": 30,
        "gen_ai.usage.reasoning.output_tokens": 20,
    }
    assert [telemetry.total(name) for name in names.TOKEN_COUNTERS.values()] == [100, 50, 40, 30, 20]
    assert telemetry.total("gen_ai.client.inference.duration") == 0.5


def test_a_response_without_a_model() -> None:
    call = CallInfo("chat-of-this-test", "chat", "openai", "m-1")
    with recorded() as telemetry:
        telemetry.hooks.request(call, RequestInfo((), Settings(), None, None, False))
        telemetry.hooks.response(call, ChatResponse(assistant("Hello."), "refusal"), 0.5)
        telemetry.hooks.end(call, Usage(), 0.5)
    found = attributes(telemetry.one("chat m-1"))
    assert found["gen_ai.response.finish_reasons"] == ("content_filter",)
    assert not {"gen_ai.response.model", "gen_ai.response.id", "gen_ai.usage.input_tokens"} & found.keys()


def test_an_error_ends_the_span(api: API) -> None:
    with recorded() as telemetry, pytest.raises(ServerError):
        api.chat(service(DOWN, max_retries=0), "Hello.")
    span = telemetry.one("chat m-1")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert attributes(span)["error.type"] == "ServerError"
    assert attributes(span)["gen_ai.response.finish_reasons"] == ("error",)
    (point,) = telemetry.metrics()["gen_ai.client.inference.duration"]
    assert dict(point.attributes)["error.type"] == "ServerError"
    assert telemetry.total("gen_ai.client.inference.usage.input_tokens") == 0


def test_an_invalid_answer_has_its_tokens_and_its_error(api: API) -> None:
    with recorded() as telemetry, pytest.raises(ValidationError):
        api.call(ToolOrchestratingLLM(Album, "Make one.", service(WRONG)))
    found = attributes(telemetry.one("chat m-1"))
    assert (found["error.type"], found["gen_ai.usage.input_tokens"]) == ("ValidationError", 7)
    assert found["gen_ai.response.finish_reasons"] == ("tool_call",)


def test_a_call_that_fails_before_its_request_has_a_span(api: API) -> None:
    llm = OpenAI("m-1", api_key="sk-secret", base_url="http://127.0.0.1:9/v1", headers={"X-A": "b\n"})
    with recorded() as telemetry, pytest.raises(BadRequest) as caught:
        api.chat(llm, "Hello.")
    span = telemetry.one("chat m-1")
    assert attributes(span)["error.type"] == type(caught.value).__name__
    assert events(span) == []


def test_errors_of_other_packages_have_their_module(api: API) -> None:
    class Broken(Exception):
        pass

    def tool(text: str) -> str:
        raise Broken

    make = ToolOrchestratingLLM(tool, "Call it.", ScriptedLLM({"text": "a"}))
    with recorded() as telemetry, pytest.raises(Broken):
        api.call(make)
    assert attributes(telemetry.one("chat scripted"))["error.type"].endswith("Broken")
    assert attributes(telemetry.one("execute_tool tool"))["error.type"].startswith(f"{__name__}.")


PROVIDERS: dict[str, FunctionCallingLLM] = {
    **{
        name: OpenAICompatible("m-1", service=service, api_key="k", base_url="http://127.0.0.1:9/v1")
        for name, service in {
            "azure.ai.openai": "azure",
            "moonshot_ai": "moonshot",
            "x_ai": "xai",
            "groq": "groq",
        }.items()
    },
    "aws.bedrock": Bedrock("m-1", api_key="k", region="us-east-1"),
    "gcp.gemini": Google("m-1", api_key="k"),
    "mistral_ai": Mistral("m-1", api_key="k"),
    "anthropic": Anthropic("m-1", api_key="k"),
    "openai": OpenAI("m-1", api="chat", api_key="k"),
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_providers_have_the_names_of_the_conventions(name: str) -> None:
    call = CallInfo(f"chat-{name}", "chat", **client_of(PROVIDERS[name]).origin)
    with recorded() as telemetry:
        telemetry.hooks.error(call, ServerError("down"))
        telemetry.hooks.end(call, Usage(), 1.5)
    span = telemetry.one("chat m-1")
    assert attributes(span)["gen_ai.provider.name"] == name
    assert span.end_time is not None
    assert span.start_time is not None
    assert 1.5 <= (span.end_time - span.start_time) / 1e9 < 30


def test_a_fallback_is_one_span(api: API) -> None:
    with recorded() as telemetry:
        api.chat(FallbackLLM([service(DOWN, max_retries=0), service(BODY)]), "Hello.")
    (span,) = telemetry.spans
    assert events(span).count("toolcast.attempt") == 2
    assert span.events[0].timestamp <= span.events[1].timestamp
    assert attributes(span)["gen_ai.response.model"] == "m-1"
    assert attributes(span)["gen_ai.usage.input_tokens"] == 7


# Streams.


def test_an_answer_from_a_cache_is_a_span_without_tokens(api: API) -> None:
    with recorded() as telemetry:
        make = ToolOrchestratingLLM(Album, "x", CachedLLM(service(BODY)))
        assert api.call(make) == api.call(make) == api.stream(make).final
    sent, *cached = [attributes(span) for span in telemetry.spans]
    assert sent[names.USAGE["input_tokens"]] == 7
    assert [names.USAGE["input_tokens"] in span for span in cached] == [False, False]
    assert {span[names.RESPONSE_MODEL] for span in (sent, *cached)} == {"m-1"}
    assert [span.get("toolcast.cached") for span in (sent, *cached)] == [None, True, True]
    assert [span["toolcast.cost"] for span in cached] == [0, 0]
    for span, expected in zip(telemetry.spans, (None, True, True), strict=True):
        (attempt,) = [event for event in span.events if event.name == "toolcast.attempt"]
        assert (attempt.attributes or {}).get("toolcast.cached") is expected
    points = telemetry.metrics()[names.INFERENCE_SECONDS]
    assert sorted([(point.attributes or {}).get("toolcast.cached", False), point.count] for point in points) == [
        [False, 1],
        [True, 2],
    ]


def test_a_stream_has_the_time_to_its_first_chunk(api: API) -> None:
    with recorded() as telemetry:
        assert api.stream(ToolOrchestratingLLM(Album, "Make one.", service(Recorded(album_stream())))).final == SEA
    found = attributes(telemetry.one("chat m-1"))
    assert found["gen_ai.request.stream"] is True
    assert found["gen_ai.response.time_to_first_chunk"] >= 0
    (point,) = telemetry.metrics()["gen_ai.client.inference.time_to_first_chunk"]
    assert point.count == 1


def test_a_stream_that_is_closed_early_ends_its_span(api: API) -> None:
    with recorded() as telemetry:
        api.stream(ToolOrchestratingLLM(Album, "Make one.", service(Recorded(album_stream()))), take=2)
    span = telemetry.one("chat m-1")
    assert span.status.status_code is StatusCode.UNSET
    assert attributes(span)["gen_ai.response.finish_reasons"] == ("error",)


def test_a_stream_that_fails_ends_its_span(api: API) -> None:
    with recorded() as telemetry:
        record = api.stream(ToolOrchestratingLLM(Album, "Make one.", service(Recorded(album_stream()[:4]))))
    assert record.error is not None
    assert attributes(telemetry.one("chat m-1"))["error.type"] == type(record.error).__name__


def test_a_stream_that_is_retried_is_one_span(api: API) -> None:
    wrong, right = Recorded(album_stream('{"title": 1}')), Recorded(album_stream())
    with recorded() as telemetry:
        assert api.stream(ToolOrchestratingLLM(Album, "Make one.", service(wrong, right), max_attempts=2)).final == SEA
    span = telemetry.one("chat m-1")
    assert events(span) == ["toolcast.attempt", "toolcast.retry", "toolcast.attempt"]
    (point,) = telemetry.metrics()["gen_ai.client.inference.time_to_first_chunk"]
    assert point.count == 1


def test_a_span_of_a_stream_is_never_attached(api: API) -> None:
    with recorded() as telemetry:
        before = trace.get_current_span()
        with service(Recorded(album_stream())).stream_chat("Hello.") as stream:
            for _ in stream:
                assert trace.get_current_span() is before
        engine = Engine(ScriptedLLM(tool_call("1", "note", '{"text": "a"}'), "Done."), [note])
        with engine.stream("Hello.") as turn:
            for _ in turn:
                assert trace.get_current_span() is before
    assert telemetry.tree()[0] == "chat m-1"


async def test_a_span_of_an_async_stream_is_never_attached() -> None:
    with recorded() as telemetry:
        tracer = telemetry.tracers.get_tracer("app")
        with tracer.start_as_current_span("app") as above:
            async with service(Recorded(album_stream())).astream_chat("Hello.") as stream:
                async for _ in stream:
                    assert trace.get_current_span() is above
            async with Engine(ScriptedLLM("Done.")).astream("Hello.") as turn:
                async for _ in turn:
                    assert trace.get_current_span() is above
    assert telemetry.tree() == ["app", "  chat m-1", "  invoke_agent", "    chat scripted"]


async def test_streams_that_are_garbage_collected_end_their_spans() -> None:
    async def leave(stream: Any) -> None:
        async for _ in stream:
            return

    with recorded() as telemetry:
        await leave(service(Recorded(album_stream())).astream_chat("Hello."))
        await leave(ToolOrchestratingLLM(Album, "Make one.", service(Recorded(album_stream()))).astream())
        await leave(Engine(ScriptedLLM("Hello, sea.")).astream("Hello."))
        next(service(Recorded(album_stream())).stream_chat("Hello."))
        next(ToolOrchestratingLLM(Album, "Make one.", service(Recorded(album_stream()))).stream())
        next(Engine(ScriptedLLM("Hello, sea.")).stream("Hello."))
        gc.collect()
        assert telemetry.open_count == 0
    assert [len(telemetry.of(name)) for name in ("chat m-1", "chat scripted", "invoke_agent")] == [4, 2, 2]


class Collecting(SpanExporter):
    """An exporter that collects garbage while it has a lock, as any allocation may, and counts nested exports."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.names: list[str] = []
        self.nested = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if not self.lock.acquire(blocking=False):
            self.nested += 1
            return SpanExportResult.FAILURE
        with closing(self):
            self.names += [span.name for span in spans]
            gc.collect()
        return SpanExportResult.SUCCESS

    def close(self) -> None:
        self.lock.release()


async def test_a_stream_that_is_garbage_collected_in_the_sdk_ends_its_span_afterwards() -> None:
    exporter, tracers = Collecting(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    with toolcast.instrument(tracers):
        streams: list[Any] = [service(Recorded(album_stream())).astream_chat("Hello.")]
        await anext(streams[0])
        streams.append(streams)  # a cycle, so that the stream ends in a collection
        gc.disable()
        try:
            del streams
            await ScriptedLLM("Hello.", model="other").achat("Hello.")
        finally:
            gc.enable()
    assert (exporter.names, exporter.nested) == (["chat other", "chat m-1"], 0)


# Tools and turns.


def note(text: str) -> str:
    return f"noted: {text}"


def test_a_turn_has_requests_and_tools_below_it(engine_api: EngineAPI) -> None:
    with recorded() as telemetry:
        engine = Engine(ScriptedLLM(tool_call("1", "note", '{"text": "a"}'), "Done."), [note])
        engine_api.submit(engine, "Note a.")
    assert telemetry.tree() == ["invoke_agent", "  chat scripted", "  execute_tool note", "  chat scripted"]
    turn, tool = telemetry.one("invoke_agent"), telemetry.one("execute_tool note")
    assert (turn.kind, tool.kind) == (SpanKind.INTERNAL, SpanKind.INTERNAL)
    assert attributes(turn) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.request.model": "scripted",
        "toolcast.turn.end": "end_turn",
        "toolcast.turn.rounds": 2,
    }
    assert attributes(tool) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "note",
        "gen_ai.tool.call.id": "1",
        "gen_ai.tool.type": "function",
    }
    assert telemetry.total("gen_ai.client.inference.usage.input_tokens") == 20
    (agent,) = telemetry.metrics()["gen_ai.invoke_agent.duration"]
    assert (agent.explicit_bounds[0], agent.explicit_bounds[-1]) == (0.1, 409.6)
    for name, count in (("inference_calls", 2), ("tool_calls", 1)):
        (calls,) = telemetry.metrics()[f"gen_ai.invoke_agent.{name}"]
        assert (calls.count, calls.sum, calls.explicit_bounds[-1]) == (1, count, 128)
    assert dict(agent.attributes) == {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "scripted"}
    (ran,) = telemetry.metrics()["gen_ai.execute_tool.duration"]
    assert dict(ran.attributes) == {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "note"}


@pytest.mark.parametrize("timeout", [None, 60], ids=["inline", "in the background"])
def test_spans_of_a_tool_are_below_its_span(engine_api: EngineAPI, timeout: float | None) -> None:
    with recorded() as telemetry:

        def ask(text: str) -> str:
            with telemetry.tracers.get_tracer("app").start_as_current_span("app"):
                return ToolOrchestratingLLM(Album, "Make one.", ScriptedLLM(SHORT, model="inner"))().title

        engine = Engine(ScriptedLLM(tool_call("7", "ask", '{"text": "a"}'), "Done."), [ask], tool_timeout=timeout)
        engine_api.submit(engine, "Ask.")
    assert telemetry.tree() == [
        "invoke_agent",
        "  chat scripted",
        "  execute_tool ask",
        "    app",
        "      chat inner",
        "  chat scripted",
    ]


async def test_async_tools_run_in_spans_of_their_own() -> None:
    with recorded() as telemetry:

        async def ask(text: str) -> str:
            await anyio.lowlevel.checkpoint()
            inner = ScriptedLLM("Hello.", model=f"inner-{text}")
            return (await inner.achat("Hello.")).text

        calls = [tool_call(id, "ask", f'{{"text": "{id}"}}') for id in ("1", "2")]
        await Engine(ScriptedLLM(calls, "Done."), [ask]).asubmit("Ask.")
    assert telemetry.tree() == [
        "invoke_agent",
        "  chat scripted",
        "  execute_tool ask",
        "    chat inner-1",
        "  execute_tool ask",
        "    chat inner-2",
        "  chat scripted",
    ]


def test_a_thread_without_the_context_still_has_the_turn_above_it() -> None:
    with recorded() as telemetry:

        def ask(text: str) -> str:
            texts: list[str] = []
            # The thread knows the operation, and not the context of OpenTelemetry.
            context = copy_context()
            for variable in context:
                if "opentelemetry" in repr(variable) or variable.name == "current_context":
                    context.run(variable.set, {})
            thread = Thread(
                target=context.run, args=(lambda: texts.append(ScriptedLLM("Hi.", model="inner").chat("Hello.").text),)
            )
            thread.start()
            thread.join()
            return texts[0]

        Engine(ScriptedLLM(tool_call("7", "ask", '{"text": "a"}'), "Done."), [ask]).submit("Ask.")
    assert telemetry.tree()[2:4] == ["  execute_tool ask", "    chat inner"]


def test_calls_that_do_not_run_have_spans_and_no_duration(engine_api: EngineAPI) -> None:
    calls = [tool_call("1", "note", '{"text": 1}'), tool_call("2", "absent"), tool_call("3", "note", "{}")]
    rules = Permissions("bypass", [Rule("note", "deny")])
    with recorded() as telemetry:
        engine_api.submit(Engine(ScriptedLLM(calls, "Done."), [note], permissions=rules), "Note it.")
    tools = [span for span in telemetry.spans if span.name.startswith("execute_tool")]
    assert [span.name for span in tools] == ["execute_tool note", "execute_tool absent", "execute_tool note"]
    assert all(span.status.status_code is StatusCode.ERROR for span in tools)
    assert all(attributes(span)["error.type"] for span in tools)
    assert "gen_ai.execute_tool.duration" not in telemetry.metrics()


def test_a_tool_that_fails_and_one_that_takes_too_long(engine_api: EngineAPI) -> None:
    from threading import Event

    gate = Event()

    def hang(text: str) -> str:
        gate.wait(30)
        return text

    def fail(text: str) -> str:
        raise LookupError(text)

    calls = [tool_call("1", "hang", '{"text": "a"}'), tool_call("2", "fail", '{"text": "b"}')]
    with recorded() as telemetry:
        tools = [CallableTool.from_function(hang).with_(timeout=0.05), fail]
        engine_api.submit(Engine(ScriptedLLM(calls, "Done."), tools), "Do it.")
        gate.set()
    assert attributes(telemetry.one("execute_tool hang"))["error.type"] == "ToolTimeout"
    assert attributes(telemetry.one("execute_tool fail"))["error.type"] == "LookupError"
    assert len(telemetry.metrics()["gen_ai.execute_tool.duration"]) == 2


def test_a_tool_whose_service_repeats_ids(api: API) -> None:
    with recorded() as telemetry:
        make = ToolOrchestratingLLM(
            note,
            "Note.",
            ScriptedLLM([tool_call("1", "note", '{"text": "a"}'), tool_call("1", "note", '{"text": "b"}')]),
            allow_parallel_tool_calls=True,
        )
        assert sorted(api.call(make)) == ["noted: a", "noted: b"]
    assert telemetry.tree() == ["chat scripted", "  execute_tool note", "  execute_tool note"]
    assert len(telemetry.metrics()["gen_ai.execute_tool.duration"]) == 1


def test_a_tool_that_asks_for_another_answer(api: API) -> None:
    def picky(text: str) -> str:
        if text == "a":
            raise TryAgain("not a")
        return text

    with recorded() as telemetry:
        make = ToolOrchestratingLLM(picky, "Note it.", ScriptedLLM({"text": "a"}, {"text": "b"}), max_attempts=2)
        assert api.call(make) == "b"
    assert telemetry.tree() == ["chat scripted", "  execute_tool picky", "  execute_tool picky"]


def test_a_tool_that_is_interrupted_ends_its_span() -> None:
    def stop(text: str) -> str:
        raise KeyboardInterrupt

    with recorded() as telemetry:
        with pytest.raises(KeyboardInterrupt):
            ToolOrchestratingLLM(stop, "Stop.", ScriptedLLM({"text": "a"}))()
        with pytest.raises(KeyboardInterrupt):
            Engine(ScriptedLLM(tool_call("1", "stop", '{"text": "a"}')), [stop]).submit("Stop.")
    assert len(telemetry.of("execute_tool stop")) == 2
    assert attributes(telemetry.of("chat scripted")[0])["error.type"] == "KeyboardInterrupt"


def test_a_turn_that_fails_and_one_that_is_cancelled(engine_api: EngineAPI) -> None:
    with recorded() as telemetry:
        with pytest.raises(ServerError):
            engine_api.submit(Engine(ScriptedLLM(ServerError("down"))), "Hello.")
        engine_api.stream(Engine(ScriptedLLM("Hello, sea.")), "Hello.", take=1)
    failed, cancelled = telemetry.of("invoke_agent")
    assert [attributes(span)["error.type"] for span in (failed, cancelled)] == ["ServerError", "TurnCancelled"]
    assert [attributes(span)["toolcast.turn.end"] for span in (failed, cancelled)] == ["error", "cancelled"]
    types = {dict(point.attributes)["error.type"] for point in telemetry.metrics()["gen_ai.invoke_agent.duration"]}
    assert types == {"ServerError", "TurnCancelled"}


def test_a_tool_that_starts_after_its_turn_has_no_span() -> None:
    with recorded() as telemetry:
        call, started = CallInfo("turn-of-this-test", "turn"), ToolCallPart("1", "note")
        assert telemetry.hooks.tool_start(call, started) is None
        telemetry.hooks.tool(call, started, ToolOutput("a", "note", {}, "a"), 0.1)
    assert telemetry.spans == []


def test_a_request_that_is_never_sent_has_no_span() -> None:
    with recorded() as telemetry:
        telemetry.hooks.end(CallInfo("chat-of-this-test", "chat"), Usage(), 0.0)
    assert telemetry.spans == []


def test_an_operation_below_one_that_has_ended_is_below_the_current_span() -> None:
    call = CallInfo("chat-of-this-test", "chat", "openai", "m-1", parent="turn-that-has-ended/1")
    with recorded() as telemetry, telemetry.tracers.get_tracer("app").start_as_current_span("app"):
        telemetry.hooks.error(call, ServerError("down"))
        telemetry.hooks.end(call, Usage(), 0.0)
    assert telemetry.tree() == ["app", "  chat m-1"]


def test_a_turn_that_is_cancelled_before_it_begins_has_no_span() -> None:
    with recorded() as telemetry:
        Engine(ScriptedLLM("Hello.")).stream("Hello.").close()
        call = CallInfo("turn-of-this-test", "turn")
        telemetry.hooks.error(call, TurnCancelled("cancelled"))
        telemetry.hooks.turn(call, Turn())
    assert telemetry.spans == []


def test_a_turn_that_waits_for_an_approval_and_the_one_that_continues_it(engine_api: EngineAPI) -> None:
    permissions = Permissions(approve="later")
    engine = Engine(ScriptedLLM(tool_call("1", "note", '{"text": "a"}'), "Done."), [note], permissions=permissions)
    with recorded() as telemetry:
        turn = engine_api.submit(engine, "Note a.")
        engine_api.submit(engine, answers=[request.allow() for request in turn.pending])
    assert telemetry.tree() == [
        "invoke_agent",
        "  chat scripted",
        "invoke_agent",
        "  execute_tool note",
        "  chat scripted",
    ]
    assert [attributes(span)["toolcast.turn.end"] for span in telemetry.of("invoke_agent")] == ["approval", "end_turn"]


def test_a_summary_of_the_history_is_below_the_turn(engine_api: EngineAPI) -> None:
    history = [user("one " * 400), assistant("two " * 400)]
    compaction = Compaction(at=200, keep=20, summarise=ScriptedLLM("Numbers.", model="short"))
    with recorded() as telemetry:
        engine_api.submit(Engine(ScriptedLLM("Three."), history=history, compaction=compaction), "And now?")
    assert telemetry.tree() == ["invoke_agent", "  chat short", "  chat scripted"]


def test_an_elf_is_below_the_tool_that_started_it() -> None:
    with recorded() as telemetry:
        elves = ElfManager(Engine(ScriptedLLM("Line 7.", model="elf")))

        def review(text: str) -> str:
            return str(elves.spawn(ElfConfig(text, background=True)).wait(30).output)

        Engine(ScriptedLLM(tool_call("1", "review", '{"text": "a"}'), "Done."), [review]).submit("Review.")
    assert telemetry.tree() == [
        "invoke_agent",
        "  chat scripted",
        "  execute_tool review",
        "    invoke_agent",
        "      chat elf",
        "  chat scripted",
    ]


def test_a_session_is_below_the_span_in_which_it_was_sent() -> None:
    with recorded() as telemetry:
        session = Session(Engine(ScriptedLLM(tool_call("1", "note", '{"text": "a"}'), "Done."), [note]))
        with telemetry.tracers.get_tracer("app").start_as_current_span("app"):
            session.send("Note a.")
        session.result(30)
        session.close()
    tree = telemetry.tree()
    assert tree == ["app", "  invoke_agent", "    chat scripted", "    execute_tool note", "    chat scripted"]
    found = [attributes(span).get("gen_ai.conversation.id") for span in telemetry.spans]
    assert found == [None, session.id, session.id, None, session.id]


def test_threads_record_spans_of_their_own() -> None:
    def calls() -> None:
        for _ in range(20):
            ToolOrchestratingLLM(Album, "Make one.", ScriptedLLM(SHORT))()

    with recorded() as telemetry:
        threads: Sequence[Thread] = [Thread(target=calls) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(telemetry.of("chat scripted")) == 80
    assert telemetry.total("gen_ai.client.inference.usage.input_tokens") == 800


def test_a_time_limit_is_an_error(api: API) -> None:
    llm = ScriptedLLM("Hello.", settings=Settings(timeout=Timeouts(total=1)))
    with recorded() as telemetry:
        api.chat(llm, "Hello.")
    assert telemetry.tree() == ["chat scripted"]


def test_hooks_of_a_context_are_called_too() -> None:
    seen: list[str] = []
    kind = type("Seen", (toolcast.Hooks,), {"end": lambda self, call, usage, seconds: seen.append(call.operation)})
    with recorded() as telemetry, toolcast.hooks(kind()):
        ScriptedLLM("Hello.").chat("Hello.")
    assert (seen, telemetry.tree()) == (["chat"], ["chat scripted"])
