"""Cohere's Chat API: requests as its reference documents them, and responses cut at every byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, Field

from support.turns import cohere_event, sse
from toolcast.errors import BadRequest, LLMError, MalformedEvent, ServerError, StreamTruncated
from toolcast.events import ChatResponse, Event, Finish, RawEvent, ThinkingDelta
from toolcast.messages import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.providers.base import RequestInput
from toolcast.providers.cohere.adapter import CohereAdapter
from toolcast.values.accumulator import Accumulator
from toolcast.values.citations import Citation
from toolcast.values.credentials import Secret
from toolcast.values.settings import NOTHING_SET, Settings
from toolcast.values.tool_spec import NamedTool, ToolChoice, ToolSpec
from toolcast.values.usage import Usage

MODEL = "command-a-03-2025"
PARAMETERS = {
    "type": "object",
    "properties": {
        "location": {"type": "string", "description": "the location to get weather, example: San Fransisco, CA"}
    },
    "required": ["location"],
}
WEATHER = ToolSpec("get_weather", "gets the weather of a given location", PARAMETERS)
CLOCK = ToolSpec("now", "Returns the time.", {"type": "object", "properties": {}})
CALL = ToolCallPart("get_weather_gkkgrd91", "get_weather", '{"location":"Toronto"}')


def sent(*messages: Message, settings: Settings = NOTHING_SET, model: str = MODEL, **about: Any) -> dict[str, Any]:
    body = CohereAdapter().request(RequestInput(model, messages or (user("Hi"),), **about), settings).body
    found: dict[str, Any] = json.loads(body)
    return found


def notes(settings: Settings, model: str = MODEL, **about: Any) -> tuple[str, ...]:
    return CohereAdapter().request(RequestInput(model, (user("Hi"),), **about), settings).notes


# -- requests


def test_the_documented_request_with_tools_and_results() -> None:
    """The messages of docs.cohere.com/docs/tool-use-overview, steps 1 to 4."""
    plan = ThinkingPart("I will search for the weather in Toronto.", opaque={"cohere": {"type": "tool_plan"}})
    messages = (
        user("What's the weather in Toronto?"),
        assistant(plan, CALL),
        tool_result(CALL, '{"temperature": "20C"}'),
    )
    assert sent(*messages, tools=(WEATHER,), stream=False) == {
        "model": MODEL,
        "stream": False,
        "messages": [
            {"role": "user", "content": "What's the weather in Toronto?"},
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "get_weather_gkkgrd91",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"location":"Toronto"}'},
                    }
                ],
                "tool_plan": "I will search for the weather in Toronto.",
            },
            {"role": "tool", "tool_call_id": "get_weather_gkkgrd91", "content": '{"temperature": "20C"}'},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "get_weather",
                    "description": "gets the weather of a given location",
                    "parameters": PARAMETERS,
                },
            }
        ],
    }


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        (None, "https://api.cohere.com/v2/chat"),
        ("https://stg.api.cohere.ai/", "https://stg.api.cohere.ai/v2/chat"),
        ("https://me.example/v2", "https://me.example/v2/chat"),
        ("https://me.example/v2/chat?v=1", "https://me.example/v2/chat?v=1"),
    ],
)
def test_the_address_and_the_key(base_url: str | None, url: str) -> None:
    adapter = CohereAdapter(api_key=Secret("k"), base_url=base_url, headers={"x-client-name": "a"})
    request = adapter.request(RequestInput(MODEL, (user("Hi"),)), Settings())
    assert request.target == url
    assert (request.headers["authorization"], request.headers["x-client-name"]) == (Secret("Bearer k"), "a")
    assert adapter.service_request("GET", "/v2/embed").target == url.replace("/v2/chat", "/v2/embed")
    assert adapter.batches() is None and adapter.files() is None


@pytest.mark.parametrize(
    ("choice", "names", "value"),
    [
        (None, ["get_weather", "now"], None),
        ("auto", ["get_weather", "now"], None),
        ("required", ["get_weather", "now"], "REQUIRED"),
        ("any", ["get_weather", "now"], "REQUIRED"),
        ("none", ["get_weather", "now"], "NONE"),
        (NamedTool("now"), ["now"], "REQUIRED"),
    ],
)
def test_tool_choices(choice: ToolChoice, names: list[str], value: str | None) -> None:
    body = sent(tools=(WEATHER, CLOCK), tool_choice=choice)
    assert [tool["function"]["name"] for tool in body["tools"]] == names
    assert body.get("tool_choice") == value
    older = sent(tools=(WEATHER, CLOCK), tool_choice=choice, model="command-r-plus-08-2024")
    assert older.get("tool_choice") == (value if value == "NONE" else None)
    noted = notes(Settings(), "command-r-plus-08-2024", tools=(WEATHER, CLOCK), tool_choice=choice)
    assert noted == (("tool_choice",) if value == "REQUIRED" else ())


def test_choices_that_cannot_be_sent() -> None:
    with pytest.raises(BadRequest, match="no such tool choice"):
        sent(tools=(WEATHER,), tool_choice={"type": "function"})
    with pytest.raises(BadRequest, match="needs tools"):
        sent(tool_choice="required")
    assert "tool_choice" not in sent(tool_choice="auto")


def test_settings() -> None:
    settings = Settings(max_tokens=9, temperature=0.5, top_p=0.9, top_k=5, stop=("a", "b"), seed=7)
    body = sent(settings=settings, stream=True)
    assert {name: value for name, value in body.items() if name not in ("messages", "model")} == {
        "stream": True,
        "max_tokens": 9,
        "temperature": 0.5,
        "p": 0.9,
        "k": 5,
        "stop_sequences": ["a", "b"],
        "seed": 7,
    }
    assert notes(settings) == ()
    many = Settings(stop=tuple("abcdef"))
    assert sent(settings=many)["stop_sequences"] == list("abcde")
    assert notes(many) == ("more than 5 stop sequences",)


@pytest.mark.parametrize(
    ("thinking", "value"),
    [
        (None, None),
        (False, {"type": "disabled"}),
        ("none", {"type": "disabled"}),
        (0, {"type": "disabled"}),
        (True, {"type": "enabled"}),
        (500, {"type": "enabled", "token_budget": 500}),
        ("low", {"type": "enabled", "token_budget": 2048}),
        ("high", {"type": "enabled"}),
    ],
)
def test_thinking(thinking: Any, value: Any) -> None:
    settings = Settings(thinking=thinking)
    assert sent(settings=settings, model="command-a-reasoning-08-2025").get("thinking") == value
    assert "thinking" not in sent(settings=settings)
    assert notes(settings) == (() if thinking is None else ("thinking",))
    assert sent(settings=settings, model="mine-ft").get("thinking") == value


def test_content_of_messages() -> None:
    image = ImagePart(url="https://host/a.png", detail="low")
    body = sent(
        system("Be brief."),
        Message("user", (TextPart("a"), TextPart("b"))),
        user("What?", image, ImagePart(data=b"x", media_type="image/png")),
        assistant("One.", ThinkingPart("Foreign thought.", signature="s")),
        assistant(ThinkingPart("Only a thought.")),
        Message("user", (ToolResultPart("c", "no", is_error=True), TextPart("Again"))),
        Message("user", (ToolResultPart("d", "yes"),)),
        Message("user", ()),
    )
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "ab"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What?"},
                {"type": "image_url", "image_url": {"url": "https://host/a.png", "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}},
            ],
        },
        {"role": "assistant", "content": "One."},
        {"role": "tool", "tool_call_id": "c", "content": "The tool failed: no"},
        {"role": "user", "content": "Again"},
        {"role": "tool", "tool_call_id": "d", "content": "yes"},
        {"role": "user", "content": ""},
    ]


@pytest.mark.parametrize(
    "message",
    [
        user("x", AudioPart(data=b"x", media_type="audio/wav")),
        user("x", DocumentPart(data=b"x", media_type="application/pdf")),
        user("x", ToolCallPart("a", "b")),
        Message("system", (ImagePart(url="https://host/a.png"),)),
        Message("tool", (TextPart("x"),)),
        Message("assistant", (ImagePart(url="https://host/a.png"),)),
    ],
)
def test_content_that_is_not_sent(message: Message) -> None:
    with pytest.raises(BadRequest, match="cohere cannot take"):
        sent(message)


# -- text constrained to a schema


class Song(BaseModel):
    title: str = Field(max_length=9)
    length: int = Field(ge=1)


class Album(BaseModel):
    songs: list[Song]
    genre: str = Field(pattern="[a-z]+")


class Loose(BaseModel):
    title: str | None


class Empty(BaseModel):
    title: str = "x"


def constrained(output: type[BaseModel]) -> Any:
    tool = ToolSpec(output.__name__, "", output.model_json_schema())
    body = sent(tools=(tool,), tool_choice=NamedTool(tool.name), mode="json_schema")
    (message, _) = body["messages"]
    assert message["role"] == "system" and "Answer with JSON" in message["content"]
    assert "tools" not in body and "tool_choice" not in body
    return body["response_format"]


def test_text_constrained_to_a_schema() -> None:
    """References are replaced by their definitions, and constraints that Cohere does not have become text."""
    assert constrained(Album) == {
        "type": "json_object",
        "json_schema": {
            "title": "Album",
            "type": "object",
            "properties": {
                "songs": {
                    "title": "Songs",
                    "type": "array",
                    "items": {
                        "title": "Song",
                        "type": "object",
                        "properties": {
                            "title": {"title": "Title", "type": "string", "description": "At most 9 characters."},
                            "length": {"title": "Length", "type": "integer", "description": "At least 1."},
                        },
                        "required": ["title", "length"],
                    },
                },
                "genre": {"title": "Genre", "type": "string", "pattern": "[a-z]+"},
            },
            "required": ["songs", "genre"],
        },
    }


class Node(BaseModel):
    children: list[Node]


@pytest.mark.parametrize("output", [Loose, Empty, Node])
def test_a_schema_without_a_form_there_is_in_the_prompt_alone(output: type[BaseModel]) -> None:
    assert constrained(output) == {"type": "json_object"}


# -- responses

START = cohere_event("message-start", role="assistant", content=[], tool_plan="", tool_calls=[], citations=[])
BILLED = {"billed_units": {"input_tokens": 37.0, "output_tokens": 28.0}}
END = {
    "type": "message-end",
    "delta": {
        "finish_reason": "TOOL_CALL",
        "usage": {**BILLED, "tokens": {"input_tokens": 913.0, "output_tokens": 83.0}},
    },
}
# The stream of docs.cohere.com/docs/tool-use-streaming: a plan, and two calls.
CALLED = [
    START | {"id": "fba98ad3"},
    *[cohere_event("tool-plan-delta", tool_plan=piece) for piece in ("I", " will", " search", ".")],
    *[
        event
        for at, (id, city) in enumerate((("get_weather_p1", "Madrid"), ("get_weather_ay", "Brasilia")))
        for event in (
            cohere_event(
                "tool-call-start",
                at,
                tool_calls={"id": id, "type": "function", "function": {"name": "get_weather", "arguments": ""}},
            ),
            *[
                cohere_event("tool-call-delta", at, tool_calls={"function": {"arguments": piece}})
                for piece in ('{\n    "', "location", '":', ' "', city, '"', "\n", "}")
            ],
            cohere_event("tool-call-end", at),
        )
    ],
    END,
]
WHOLE = {
    "id": "fba98ad3",
    "message": {
        "role": "assistant",
        "tool_plan": "I will search.",
        "tool_calls": [
            {
                "id": id,
                "type": "function",
                "function": {"name": "get_weather", "arguments": f'{{\n    "location": "{city}"\n}}'},
            }
            for id, city in (("get_weather_p1", "Madrid"), ("get_weather_ay", "Brasilia"))
        ],
    },
    "finish_reason": "TOOL_CALL",
    "usage": END["delta"]["usage"],  # type: ignore[index]  # a dict of the test
}


def decode(*bodies: bytes, tools: tuple[ToolSpec, ...] = (WEATHER,)) -> list[Event]:
    decoder = CohereAdapter().decoder(RequestInput(MODEL, (), tools))
    return [event for body in bodies for event in decoder.feed(body)] + decoder.close()


def folded(events: list[Event]) -> ChatResponse:
    accumulator = Accumulator()
    for event in events:
        accumulator.apply(event)
    return accumulator.response()


def stream(*events: dict[str, Any]) -> bytes:
    return b"".join(sse(*events, names=True))


EXPECTED = (
    ThinkingPart("I will search.", opaque={"cohere": {"type": "tool_plan"}}),
    ToolCallPart("get_weather_p1", "get_weather", '{\n    "location": "Madrid"\n}'),
    ToolCallPart("get_weather_ay", "get_weather", '{\n    "location": "Brasilia"\n}'),
)


def test_the_documented_stream_is_the_documented_response_and_goes_back_as_it_came() -> None:
    for body in (stream(*CALLED), json.dumps(WHOLE).encode(), b"".join(sse(*CALLED)) + b"data: [DONE]\n\n"):
        response = folded(decode(body))
        assert response.message.parts == EXPECTED
        assert (response.stop_reason, response.response_id) == ("tool_use", "fba98ad3")
        assert response.usage == Usage(37, 28)
        assert sent(user("Go"), response.message, tools=(WEATHER,))["messages"][1] == WHOLE["message"]


@pytest.mark.slow
def test_the_documented_stream_at_every_cut() -> None:
    for body in (stream(*CALLED), json.dumps(WHOLE).encode()):
        expected = decode(body)
        assert decode(*(body[at : at + 1] for at in range(len(body)))) == expected
        for cut in range(len(body)):
            assert decode(body[:cut], body[cut:]) == expected, cut


def test_thoughts_text_and_citations() -> None:
    citation = {"start": 0, "end": 2, "text": "24", "sources": [{"type": "tool", "id": "get_weather_p1:0"}]}
    events = [
        START | {"id": "a"},
        cohere_event("content-start", 0, content={"type": "thinking", "thinking": "H"}),
        cohere_event("content-delta", 0, content={"thinking": "m."}),
        cohere_event("content-end", 0),
        cohere_event("content-start", 1, content={"type": "text", "text": ""}),
        cohere_event("content-delta", 1, content={"text": "24"}),
        cohere_event("citation-start", 0, citations=citation),
        cohere_event("citation-end", 0),
        {"type": "debug", "prompt": "x", "message": "y"},
        cohere_event("content-end", 1),
        {
            "type": "message-end",
            "delta": {
                "finish_reason": "COMPLETE",
                "usage": {"tokens": {"input_tokens": 9, "output_tokens": 3}, "cached_tokens": 4},
            },
        },
    ]
    message = {
        "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "24"}],
        "citations": [citation],
    }
    whole = {"id": "a", "finish_reason": "COMPLETE", "message": message, "usage": events[-1]["delta"]["usage"]}
    thought = ThinkingPart("Hm.", opaque={"cohere": {"type": "thinking"}})
    for body, raw in ((stream(*events), events[8:9]), (json.dumps(whole).encode(), [])):
        seen = decode(body)
        response = folded(seen)
        cited = Citation("tool", 0, 2, source_id="get_weather_p1:0", provider="cohere", raw=citation)
        assert response.message.parts == (thought, TextPart("24", (cited,)))
        assert (response.stop_reason, response.usage) == ("end_turn", Usage(9, 3, 4))
        assert [event.data for event in seen if isinstance(event, RawEvent)] == raw
        assert sent(user("Go"), response.message)["messages"][1] == {"role": "assistant", "content": message["content"]}


def test_a_plan_after_a_thought_is_a_thought_of_its_own() -> None:
    events = [
        START,
        cohere_event("content-delta", 0, content={"thinking": "Hm."}),
        cohere_event("tool-plan-delta", tool_plan="I look."),
        *CALLED[5:],
    ]
    (thought, plan, *_) = folded(decode(stream(*events))).message.parts
    assert (thought, plan) == (
        ThinkingPart("Hm.", opaque={"cohere": {"type": "thinking"}}),
        ThinkingPart("I look.", opaque={"cohere": {"type": "tool_plan"}}),
    )


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        *(("COMPLETE", "end_turn"), ("STOP_SEQUENCE", "stop_sequence"), ("MAX_TOKENS", "max_tokens"), ("NEW", "other")),
        ("", "other"),
    ],
)
def test_stop_reasons(finish: str, stop: str) -> None:
    delta = cohere_event("content-delta", 0, content={"text": "Hi"})
    events = decode(stream(START, delta, {"type": "message-end", "delta": {"finish_reason": finish}}))
    response = folded(events)
    assert (response.text, response.stop_reason, response.usage) == ("Hi", stop, Usage())
    assert isinstance(events[-1], Finish) and events[-1].raw == (finish or None)


@pytest.mark.parametrize(
    "last",
    [
        {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": "the generation broke"}},
        {"type": "message-end", "delta": {"finish_reason": "ERROR"}},
        {"type": "message-end", "delta": {"finish_reason": "TIMEOUT"}},
        {"type": "message-end", "delta": {"error": "the generation broke"}},
        {"message": "the generation broke"},
    ],
)
def test_a_generation_that_failed(last: dict[str, Any]) -> None:
    with pytest.raises(ServerError if "type" in last else LLMError, match="the generation"):
        decode(b"".join(sse(START, last)))


def test_a_whole_response_that_failed() -> None:
    with pytest.raises(ServerError, match=r"longer than Cohere allows \(TIMEOUT\)"):
        decode(json.dumps({"message": {"content": []}, "finish_reason": "TIMEOUT"}).encode())
    with pytest.raises(LLMError, match="invalid api token"):
        decode(b'{"id": "1", "message": "invalid api token"}')
    with pytest.raises(LLMError, match="out of order") as caught:
        decode(b'{"id": "1", "error": "out of order"}')
    assert not isinstance(caught.value, MalformedEvent)
    # What is no answer and reports no error is not an empty answer.
    with pytest.raises(MalformedEvent):
        decode(b'{"id": "1"}')
    assert CohereAdapter().error(498, {}, b'{"message": "invalid token"}').status == 498


def test_a_stream_that_ends_early() -> None:
    for number in range(1, len(CALLED)):
        for end in (b"", b"data: [DONE]\n\n"):
            with pytest.raises(StreamTruncated):
                decode(stream(*CALLED[:number]) + end)


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b"note: of a proxy\n"])
def test_a_stream_with_an_odd_start_that_ends_early(start: bytes) -> None:
    with pytest.raises(StreamTruncated):
        decode(start + stream(*CALLED[:2]))


@pytest.mark.parametrize(("given", "written"), [(3, 0), (0, 4)])
def test_a_report_of_one_sort_of_tokens(given: int, written: int) -> None:
    usage = {"billed_units": {"input_tokens": given, "output_tokens": written}}
    end = {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": usage}}
    assert folded(decode(stream(START, end))).usage == Usage(given, written)


def test_odd_events_of_calls() -> None:
    start = cohere_event("tool-call-start", 0, tool_calls=[{"id": "a", "function": {"name": "now", "arguments": "{"}}])
    more = cohere_event("tool-call-delta", 0, tool_calls={"function": {"arguments": "}"}})
    seen = folded(decode(stream(START, start, more, cohere_event("tool-call-end", 0), END), tools=(CLOCK,)))
    assert seen.message.tool_calls == (ToolCallPart("a", "now", "{}"),)
    with pytest.raises(MalformedEvent, match="call 1, which is not open"):
        decode(stream(START, start, more | {"index": 1}))
    # An end before the arguments are complete is that of a limit.
    cut = {"type": "message-end", "delta": {"finish_reason": "MAX_TOKENS"}}
    (call,) = folded(
        decode(stream(START, start, cohere_event("tool-call-end", 0), cut), tools=(CLOCK,))
    ).message.tool_calls
    assert (call.truncated, call.arguments) == (True, "{")
    # Such a block may be begun anew.
    seen = folded(decode(stream(START, start, cohere_event("tool-call-end", 0), start, more, END), tools=(CLOCK,)))
    assert [call.arguments for call in seen.message.tool_calls] == ["{", "{}"]
    # A call of a tool that takes nothing has no pieces.
    begun = cohere_event("tool-call-start", None, tool_calls={"id": "a", "function": {"name": "now"}})
    (call,) = folded(decode(stream(START, begun, {"type": "tool-call-end"}, END), tools=(CLOCK,))).message.tool_calls
    assert call.arguments == "{}"
    # An end and a piece of a call that was never open, and a start that names no tool.
    with pytest.raises(MalformedEvent, match="call 0, which is not open"):
        decode(stream(START, {"type": "tool-call-end", "index": 0}, more, END), tools=(CLOCK,))
    for calls in ([], None, {}):
        start = cohere_event("tool-call-start", 0, tool_calls=calls)
        seen = folded(decode(stream(START, start, {"type": "tool-call-end", "index": 0}, END), tools=(CLOCK,)))
        assert [(call.name, call.arguments) for call in seen.message.tool_calls] == [("", "{}")]


def test_a_reason_of_calls_without_calls() -> None:
    seen = decode(stream(START, END))
    assert isinstance(seen[-1], Finish) and seen[-1].stop_reason == "end_turn"
    assert not any(isinstance(event, ThinkingDelta) for event in seen)
