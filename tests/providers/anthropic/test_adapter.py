"""Anthropic's Messages wire: what is sent, and every shape of what comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.example_counts import cut_places
from toolcast.errors import (
    AuthFailed,
    BadRequest,
    LimitExceeded,
    LLMError,
    MalformedEvent,
    Overloaded,
    ServerError,
    StreamTruncated,
)
from toolcast.events import (
    Event,
    Finish,
    RawEvent,
    SafetyReport,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    UsageReport,
)
from toolcast.messages import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.providers.anthropic.adapter import AnthropicAdapter
from toolcast.providers.base import RequestInput, ResponseDecoder
from toolcast.values.accumulator import Accumulator
from toolcast.values.answer_details import SafetyRating
from toolcast.values.citations import Citation
from toolcast.values.credentials import Secret
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool, ToolSpec, legal_name
from toolcast.values.usage import Usage

F = ToolSpec("f", "Does f.", {"type": "object"})
G = ToolSpec("my tool", "", {"type": "object"})
OLD, BUDGET, EITHER, ADAPTIVE, NEWEST, UNFORCED = (
    "claude-3-haiku-20240307",
    "claude-sonnet-4-5",
    "claude-sonnet-4-6",
    "claude-opus-4-8",
    "claude-sonnet-5",
    "claude-fable-5",
)


# -- requests


def body(*messages: Message, settings: Settings | None = None, **about: Any) -> dict[str, Any]:
    conversation = RequestInput(**{"model": BUDGET, "messages": messages or (user("Hi"),), **about})
    return json.loads(AnthropicAdapter().request(conversation, settings or Settings()).body)


def notes(settings: Settings, **about: Any) -> tuple[str, ...]:
    conversation = RequestInput(**{"model": BUDGET, "messages": (user("Hi"),), **about})
    return AnthropicAdapter().request(conversation, settings).notes


def messages_of(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]


def test_a_whole_request() -> None:
    wire = AnthropicAdapter(api_key=Secret("sk-1"), headers={"Anthropic-Beta": "a,b"})
    request = wire.request(RequestInput(BUDGET, (system("Be terse."), user("Hi")), (F,), NamedTool("f")), Settings())
    assert (request.method, request.url) == ("POST", "https://api.anthropic.com/v1/messages")
    assert request.headers == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "x-api-key": Secret("sk-1"),
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "a,b",
    }
    assert "sk-1" not in repr(request)
    assert json.loads(request.body) == {
        "model": BUDGET,
        "max_tokens": 16_384,
        "system": "Be terse.",
        "messages": [{"role": "user", "content": messages_of("Hi")}],
        "stream": True,
        "tools": [{"name": "f", "description": "Does f.", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    }


def test_a_token_instead_of_a_key() -> None:
    conversation = RequestInput(BUDGET, (user("Hi"),), stream=False)
    headers = AnthropicAdapter(bearer=Secret("t")).request(conversation, Settings()).headers
    assert (headers["authorization"], headers["accept"]) == (Secret("Bearer t"), "application/json")
    assert "x-api-key" not in headers
    assert (
        "authorization"
        not in AnthropicAdapter(api_key=Secret("k"), bearer=Secret("t")).request(conversation, Settings()).headers
    )


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://h", "http://h/v1/messages"),
        ("http://h/", "http://h/v1/messages"),
        (" http://h/v1/ ", "http://h/v1/messages"),
        ("http://h/v1/messages", "http://h/v1/messages"),
        ("http://h/v1/messages/", "http://h/v1/messages"),
        ("https://r.services.ai.azure.com/anthropic", "https://r.services.ai.azure.com/anthropic/v1/messages"),
        ("http://h/v1?x=1", "http://h/v1/messages?x=1"),
        ("http://h/a?x=/v1", "http://h/a/v1/messages?x=/v1"),
    ],
)
def test_addresses(base_url: str, url: str) -> None:
    assert AnthropicAdapter(base_url=base_url).request(RequestInput("m", (user("Hi"),)), Settings()).target == url


IMAGE = ImagePart(data=b"\x89PNG", media_type="image/png")
PNG = {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}
PARTS = [
    pytest.param(IMAGE, {"type": "image", "source": PNG}, id="image"),
    pytest.param(ImagePart(url="data:image/png;base64,iVBORw=="), {"type": "image", "source": PNG}, id="data url"),
    pytest.param(ImagePart(url="https://x/i.png", detail="low"),
                 {"type": "image", "source": {"type": "url", "url": "https://x/i.png"}}, id="image url"),
    pytest.param(ImagePart(data=b"a", media_type="image/jpg"),
                 {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "YQ=="}}, id="jpg"),
    pytest.param(DocumentPart(data=b"a", media_type="application/pdf", name="a.pdf"),
                 {"type": "document", "title": "a.pdf",
                  "source": {"type": "base64", "media_type": "application/pdf", "data": "YQ=="}}, id="pdf"),
    pytest.param(DocumentPart(url="https://x/a.pdf"),
                 {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}}, id="pdf url"),
    pytest.param(DocumentPart(data="é".encode(), media_type="text/markdown"),
                 {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "é"}}, id="text"),
]  # fmt: skip


@pytest.mark.parametrize(("part", "sent"), PARTS)
def test_media(part: Any, sent: dict[str, Any]) -> None:
    (message,) = body(user("Look", part))["messages"]
    assert message == {"role": "user", "content": [*messages_of("Look"), sent]}


REFUSED = [
    pytest.param((user(AudioPart(data=b"a", media_type="audio/wav")),), "AudioPart.*audio/wav", id="audio"),
    pytest.param((user(ImagePart(data=b"a", media_type="image/svg+xml")),), "image/svg", id="kind of image"),
    pytest.param((user(DocumentPart(data=b"a", media_type="application/zip")),), "PDF", id="kind of document"),
    pytest.param((user(ToolCallPart("x", "f")),), "ToolCallPart", id="a call by the user"),
    pytest.param((system(IMAGE), user("Hi")), "ImagePart", id="image for the system"),
    pytest.param((assistant(IMAGE),), "ImagePart", id="image by the assistant"),
    pytest.param((Message("tool", (TextPart("x"),)),), "TextPart", id="text in a tool message"),
    pytest.param((system("Be terse."),), "needs a user message", id="empty"),
    pytest.param((user("  "),), "needs a user message", id="nothing but blanks"),
]  # fmt: skip


@pytest.mark.parametrize(("messages", "words"), REFUSED)
def test_content_that_cannot_be_sent(messages: tuple[Message, ...], words: str) -> None:
    with pytest.raises(BadRequest, match=words) as caught:
        body(*messages)
    assert (caught.value.provider, caught.value.model) == ("anthropic", BUDGET)


def test_turns_alternate_and_results_come_first() -> None:
    one, two = ToolCallPart("functions.f:0", "my tool", '{"a":1}'), ToolCallPart("b", "f", "[1]")
    picture = ToolResultPart("b", " ", is_error=True, images=(IMAGE,))
    sent = body(
        user("a"), user("b", " "), assistant(" "), assistant("c"), assistant(one, two),
        user("before"), tool_result(one, "4"), Message("tool", (picture,)), system("d"), user("e"),
        tools=(G,),
    )  # fmt: skip
    name, id = legal_name("my tool"), legal_name("functions.f:0")
    assert sent["tools"] == [{"name": name, "input_schema": {"type": "object"}}]
    assert sent["messages"] == [
        {"role": "user", "content": messages_of("a", "b")},
        {"role": "assistant", "content": [
            *messages_of("c"),
            {"type": "tool_use", "id": id, "name": name, "input": {"a": 1}},
            {"type": "tool_use", "id": "b", "name": "f", "input": {"malformed": "[1]"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": "4"},
            {"type": "tool_result", "tool_use_id": "b", "is_error": True,
             "content": [{"type": "image", "source": PNG}]},
            *messages_of("before", "d", "e"),
        ]},
    ]  # fmt: skip


def test_no_two_calls_go_by_one_id() -> None:
    """Some services number the calls of each answer from the start, and Anthropic refuses ids that come again."""
    first, second = ToolCallPart("f:0", "f"), ToolCallPart("f:0_2", "f")
    message = [assistant(first, second), Message("tool", (ToolResultPart("f:0_2", "b"), ToolResultPart("f:0", "a")))]
    messages = body(user("Go"), *message, *message, tool_result("lost", "c"))["messages"]
    calls = [block["id"] for turn in messages[1::2] for block in turn["content"]]
    results = [block["tool_use_id"] for turn in messages[2::2] for block in turn["content"]]
    assert len(set(calls)) == 4
    assert results == [calls[1], calls[0], calls[3], calls[2], "lost"]
    assert calls[:2] == [legal_name("f:0"), legal_name("f:0_2")]


def test_results_with_text_and_images() -> None:
    (message,) = body(user(ToolResultPart("b", "See", images=(IMAGE,))))["messages"]
    assert message["content"][0]["content"] == [*messages_of("See"), {"type": "image", "source": PNG}]


def test_the_system_prompt() -> None:
    assert body(system("a"), system(" ", "b"), user("c"))["system"] == messages_of("a", "b")
    assert body(system("a"), user("c"))["system"] == "a"
    assert "system" not in body(system(""), user("c"))


def test_an_answer_to_go_on_from_ends_in_no_blank() -> None:
    messages = body(user("Hi"), assistant("One: \n"))["messages"]
    assert messages[1] == {"role": "assistant", "content": messages_of("One:")}
    assert body(assistant("Hi "), user("x"))["messages"][0]["content"] == messages_of("Hi ")
    assert body(user("Hi"), assistant(ToolCallPart("x", "f")))["messages"][1]["content"][0]["type"] == "tool_use"


def test_thoughts_go_back_as_they_came() -> None:
    signature = "EqQBCkYI+/=é\u2028"
    parts = [
        ThinkingPart("Hm ", signature),
        ThinkingPart(redacted="Emw=="),
        ThinkingPart("", signature),
        ThinkingPart("not signed"),
        ThinkingPart("another's", opaque={"google": {"thoughtSignature": "x"}}),
        "Hi",
    ]
    (message,) = body(assistant(*parts))["messages"]
    assert message["content"] == [
        {"type": "thinking", "thinking": "Hm ", "signature": signature},
        {"type": "redacted_thinking", "data": "Emw=="},
        {"type": "thinking", "thinking": "", "signature": signature},
        *messages_of("Hi"),
    ]


ONE = {"disable_parallel_tool_use": True}
CHOICES = [
    pytest.param("auto", {"type": "auto"}, id="auto"),
    pytest.param("required", {"type": "any"}, id="required"),
    pytest.param("any", {"type": "any"}, id="any"),
    pytest.param("my tool", {"type": "tool", "name": legal_name("my tool")}, id="by name"),
    pytest.param(NamedTool("f"), {"type": "tool", "name": "f"}, id="named"),
]


@pytest.mark.parametrize(("choice", "sent"), CHOICES)
def test_tool_choice(choice: Any, sent: dict[str, Any]) -> None:
    assert body(tools=(F, G), tool_choice=choice)["tool_choice"] == sent | ONE
    assert body(tools=(F, G), tool_choice=choice, parallel=True)["tool_choice"] == sent


def test_tool_choices_that_are_sent_as_they_are() -> None:
    assert body(tools=(F,), tool_choice="none")["tool_choice"] == {"type": "none"}
    assert body(tools=(F,), tool_choice={"type": "any"})["tool_choice"] == {"type": "any"}
    assert body(tools=(F,))["tool_choice"] == {"type": "auto"} | ONE
    assert "tool_choice" not in body(tools=(F,), parallel=True)
    assert not body(tool_choice="auto").keys() & {"tools", "tool_choice"}


def test_models_that_cannot_be_forced_get_the_one_tool() -> None:
    about: dict[str, Any] = {"model": UNFORCED, "tools": (F, G)}
    named = body(**about, tool_choice=NamedTool("f"))
    assert [tool["name"] for tool in named["tools"]] == ["f"]
    assert named["tool_choice"] == {"type": "auto"} | ONE
    assert len(body(**about, tool_choice="required")["tools"]) == 2
    assert notes(Settings(thinking=True), **about, tool_choice="any") == ("tool_choice",)
    assert body(**about, tool_choice="any", settings=Settings(thinking=True))["thinking"] == SHOWN


def test_servers_that_lose_the_name_get_the_one_tool() -> None:
    about: dict[str, Any] = {"model": "smollm2", "tools": (F, G), "settings": Settings(thinking=False)}
    named = body(**about, tool_choice=NamedTool("f"))
    assert [tool["name"] for tool in named["tools"]] == ["f"]
    assert named["tool_choice"] == {"type": "tool", "name": "f"} | ONE
    assert len(body(**about, tool_choice="required")["tools"]) == 2


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"tool_choice": NamedTool("h"), "tools": (F,)}, "'h'.*'f'"),
        ({"tool_choice": "required"}, "needs tools"),
        ({"tool_choice": {"type": "any"}}, "needs tools"),
        ({"tool_choice": "f", "tools": (F,), "mode": "json_schema", "model": OLD}, "haiku.*no such output.*tool_call"),
        ({"tool_choice": "f", "mode": "json_schema", "tools": (ToolSpec("f", "", {"type": "object", "not": {}}),)},
         "constrained to a JSON schema"),
        ({"model": ""}, "no model name"),
        ({"settings": Settings(extra={"x": object()})}, "JSON"),
    ],
)  # fmt: skip
def test_requests_that_cannot_be_made(about: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        body(**about)


# -- settings

# Without `display` the thoughts of these models are empty.
SHOWN = {"type": "adaptive", "display": "summarized"}
THINKING = [
    (OLD, None, None, 4_096, None),
    (OLD, True, None, 4_096, None),
    (OLD, False, None, 4_096, None),
    ("claude-3-5-haiku-latest", None, None, 8_192, None),
    (BUDGET, None, None, 16_384, None),
    (BUDGET, True, {"type": "enabled", "budget_tokens": 8_192}, 24_576, None),
    (BUDGET, "low", {"type": "enabled", "budget_tokens": 2_048}, 18_432, None),
    (BUDGET, "max", {"type": "enabled", "budget_tokens": 16_384}, 32_768, None),
    (BUDGET, 5, {"type": "enabled", "budget_tokens": 1_024}, 17_408, None),
    (BUDGET, 60_000, {"type": "enabled", "budget_tokens": 60_000}, 64_000, None),
    (BUDGET, 99_000, {"type": "enabled", "budget_tokens": 32_000}, 64_000, None),
    (BUDGET, False, {"type": "disabled"}, 16_384, None),
    (BUDGET, 0, {"type": "disabled"}, 16_384, None),
    ("anthropic.claude-sonnet-4-5-20250929-v1:0", None, None, 16_384, None),
    ("claude-opus-4@20250514", 9_000, {"type": "enabled", "budget_tokens": 9_000}, 25_384, None),
    (EITHER, 3_000, {"type": "enabled", "budget_tokens": 3_000}, 35_000, None),
    (EITHER, True, {"type": "adaptive"}, 32_000, None),
    (EITHER, "high", {"type": "adaptive"}, 32_000, "high"),
    (ADAPTIVE, 3_000, SHOWN, 32_000, "medium"),
    (ADAPTIVE, "minimal", SHOWN, 32_000, "low"),
    (NEWEST, "xhigh", SHOWN, 32_000, "xhigh"),
    (NEWEST, None, None, 32_000, None),
    (NEWEST, "none", {"type": "disabled"}, 32_000, None),
    ("smollm2", None, None, 4_096, None),
    ("smollm2", 2_000, {"type": "enabled", "budget_tokens": 2_000}, 6_096, None),
]


@pytest.mark.parametrize(("model", "thinking", "sent", "tokens", "level"), THINKING)
def test_thinking(model: str, thinking: Any, sent: Any, tokens: int, level: str | None) -> None:
    settings = Settings(thinking=thinking)
    found = body(model=model, settings=settings)
    assert (found.get("thinking"), found["max_tokens"]) == (sent, tokens)
    assert found.get("output_config") == (None if level is None else {"effort": level})
    nearest = ("thinking='minimal' (the least effort, 'low', was sent)",) if level and thinking == "minimal" else ()
    assert notes(settings, model=model) == (("thinking",) if model == OLD and thinking else nearest)


@pytest.mark.parametrize(
    ("limit", "thinking", "given"),
    [(4_000, True, 2_000), (9_000, True, 8_192), (4_000, 4_000, 2_000), (2_047, True, 0)],
)
def test_a_budget_is_below_the_limit(limit: int, thinking: Any, given: int) -> None:
    settings = Settings(max_tokens=limit, thinking=thinking)
    found = body(settings=settings)
    assert found["max_tokens"] == limit
    assert found.get("thinking", {}).get("budget_tokens", 0) == given
    assert notes(settings) == (() if given else (f"thinking (max_tokens={limit} leaves less than 1024 for it)",))


@pytest.mark.parametrize("choice", ["any", "f", NamedTool("f"), {"type": "tool", "name": "f"}])
def test_no_thoughts_where_a_call_is_forced(choice: Any) -> None:
    about: dict[str, Any] = {"tools": (F,), "tool_choice": choice}
    settings = Settings(thinking="low", temperature=0.5)
    found = body(**about, settings=settings)
    assert notes(settings, **about) == ("thinking",)
    assert "thinking" not in found
    assert found["temperature"] == 0.5
    assert body(**about, model=NEWEST)["thinking"] == {"type": "disabled"}
    assert body(**about, model=NEWEST, settings=settings)["thinking"] == {"type": "disabled"}
    assert "thinking" not in body(**about, model=ADAPTIVE)
    assert notes(Settings(), **about, model=NEWEST) == ()
    assert "thinking" in body(**about | {"tool_choice": "auto"}, settings=settings)
    assert "thinking" in body(**about | {"tool_choice": {"type": "auto"}}, settings=settings)


ALL = Settings(temperature=0.5, top_p=0.9, top_k=5, max_tokens=7_000, stop="x", seed=3)
SAMPLING = [
    (OLD, ALL, ("seed",)),
    (BUDGET, ALL, ("top_p", "seed")),
    (BUDGET, Settings(top_p=0.9, thinking=True), ("top_p",)),
    (BUDGET, Settings(top_p=0.95, top_k=3, thinking=True), ("top_k",)),
    (BUDGET, Settings(temperature=1, top_p=0.95, thinking=True), ("temperature",)),
    (BUDGET, Settings(top_p=0.0, thinking=True), ("top_p",)),
    (BUDGET, ALL.with_(thinking=True), ("temperature", "top_p", "top_k", "seed")),
    (EITHER, Settings(temperature=1), ()),
    (EITHER, Settings(temperature=1.5), ("temperature",)),
    ("smollm2", Settings(temperature=1.5, top_p=0.5), ()),
    (ADAPTIVE, ALL, ("temperature", "top_p", "top_k", "seed")),
    (NEWEST, ALL.with_(thinking=False), ("temperature", "top_p", "top_k", "seed")),
]


@pytest.mark.parametrize(("model", "settings", "left_out"), SAMPLING)
def test_settings(model: str, settings: Settings, left_out: tuple[str, ...]) -> None:
    found = body(model=model, settings=settings)
    assert notes(settings, model=model) == left_out
    for name in ("temperature", "top_p", "top_k"):
        assert found.get(name) == (None if name in left_out else getattr(settings, name))
    assert found.get("stop_sequences") == (["x"] if settings.stop else None)
    assert "seed" not in found


def test_stops_of_blanks_are_not_taken() -> None:
    assert body(settings=Settings(stop=["\n", "x"]))["stop_sequences"] == ["x"]
    assert "stop_sequences" not in body(settings=Settings(stop="\n"))
    assert notes(Settings(stop="\n")) == ("stop",)


def test_extra_adds_to_thinking_and_the_output() -> None:
    extra = {"thinking": {"display": "summarized"}, "output_config": {"effort": "max"}, "metadata": {"user_id": "u"}}
    found = body(model=ADAPTIVE, settings=Settings(thinking="low", extra=extra))
    assert found["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert found["output_config"] == {"effort": "max"}
    assert found["metadata"] == {"user_id": "u"}


# -- the answer held to a schema

CITY = ToolSpec("city", "A city.", {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})


def test_a_response_constrained_to_the_schema_of_one_tool() -> None:
    about: dict[str, Any] = {"tools": (CITY, F), "tool_choice": NamedTool("city"), "mode": "json_schema"}
    found = body(system("Be terse."), user("Hi"), **about, settings=Settings(thinking=True))
    assert found["output_config"] == {
        "format": {"type": "json_schema", "schema": dict(CITY.parameters) | {"additionalProperties": False}}
    }
    assert found["thinking"]["type"] == "enabled"
    assert not found.keys() & {"tools", "tool_choice"}
    assert found["system"].startswith("Be terse.\n\ncity: A city.")
    events = decode(stream(*text('{"na', 'me":"Oslo"}'), *end()), **about)
    assert events == [
        USED,
        ToolCallStart("call_1", "city"),
        ToolCallDelta("call_1", '{"na'),
        ToolCallDelta("call_1", 'me":"Oslo"}'),
        spent(5),
        ToolCallDone("call_1", "city", '{"name":"Oslo"}'),
        Finish("tool_use", "m1", "end_turn"),
    ]


def test_a_choice_of_schemas_is_a_list_of_calls() -> None:
    about: dict[str, Any] = {"tools": (CITY, CITY), "tool_choice": "required", "mode": "json_schema"}
    schema = body(**about)["output_config"]["format"]["schema"]
    assert list(schema["properties"]) == ["calls"]
    events = decode(stream(*text('{"calls":[{"name":"city","arguments":{"name":"Oslo"}}]}'), *end()), **about)
    assert [event.arguments for event in events if isinstance(event, ToolCallDone)] == ['{"name":"Oslo"}']


def test_tools_are_defined_again_if_the_history_has_calls() -> None:
    call = ToolCallPart("x", "city")
    about: dict[str, Any] = {"tools": (CITY,), "tool_choice": NamedTool("city"), "mode": "json_schema"}
    found = body(user("Hi"), assistant(call), tool_result(call, "No", is_error=True), **about)
    assert found["tools"] == [{"name": "city", "description": "A city.", "input_schema": CITY.parameters}]
    assert found["tool_choice"] == {"type": "none"}


def test_an_optional_call_is_not_constrained_to_a_schema() -> None:
    about: dict[str, Any] = {"tools": (F,), "tool_choice": "auto", "mode": "json_schema"}
    assert "output_config" not in body(**about)
    assert decode(stream(*text("{}"), *end()), **about)[1] == TextDelta("{}")


def test_requests_share_only_their_equal_parts() -> None:
    wire = AnthropicAdapter()
    talks = [RequestInput(BUDGET, (system(word), user(word)), (F,), NamedTool("f")) for word in ("One", "Two", "One")]
    first, second, third = (json.loads(wire.request(conversation, Settings()).body) for conversation in talks)
    assert first == third
    assert second == first | {"system": "Two", "messages": [{"role": "user", "content": messages_of("Two")}]}


def test_errors_name_the_service_and_hide_the_key() -> None:
    wire = AnthropicAdapter(bearer=Secret("sk-secret"))
    raw = b'{"type":"error","error":{"type":"authentication_error","message":"bad sk-secret"},"request_id":"r"}'
    error = wire.error(401, {}, raw)
    assert isinstance(error, AuthFailed)
    assert (wire.provider, error.provider, error.request_id, error.status) == ("anthropic", "anthropic", "r", 401)
    assert "ANTHROPIC_API_KEY" in str(error)
    assert "secret" not in str(error)


# -- answers


def decoder(**about: Any) -> ResponseDecoder:
    return AnthropicAdapter(api_key=Secret("sk-secret")).decoder(
        RequestInput(**{"model": "m", "messages": (), "tools": (F,), **about})
    )


def decode(body: bytes, **about: Any) -> list[Event]:
    """The events of a body, after a check that they are the same for every cut of it."""
    whole = outcome([body], **about)
    for form in (body, body.replace(b"\n", b"\r\n")) if body.startswith(b"event") else (body,):
        assert outcome([form[at : at + 1] for at in range(len(form))], **about) == whole
        for at in cut_places(form):
            assert outcome([form[:at], form[at:]], **about) == whole, at
    events, error = whole
    if error is not None:
        raise Ended(events, *error)
    return events


class Ended(Exception):
    """A body that ended in an error: the events before it, the error's class and its text."""

    def __init__(self, events: list[Event], kind: type[LLMError], text: str) -> None:
        super().__init__(text)
        self.events = events
        self.kind = kind


def outcome(pieces: list[bytes], **about: Any) -> tuple[list[Event], tuple[type[LLMError], str] | None]:
    machine = decoder(**about)
    events: list[Event] = []
    try:
        for piece in pieces:
            events += machine.feed(piece)
        events += machine.close()
    except LLMError as error:
        assert machine.failed
        with pytest.raises(type(error)):
            machine.feed(b"data: {}\n\n")
        with pytest.raises(type(error)):
            machine.close()
        assert error.provider == "anthropic"
        return events, (type(error), str(error))
    assert not machine.failed
    assert machine.feed(b"data: {}\n\n") == machine.close() == []
    return events, None


def sse(*chunks: Any) -> bytes:
    """A stream of events, each under its name; a str is the data itself."""
    lines: list[str] = []
    for chunk in chunks:
        if isinstance(chunk, str):
            lines.append(f"data: {chunk}\n\n")
        else:
            lines.append(f"event: {chunk['type']}\ndata: {json.dumps(chunk, ensure_ascii=False)}\n\n")
    return "".join(lines).encode()


START: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m1", "content": [], "stop_reason": None,
        "usage": {"input_tokens": 3, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 5,
                  "output_tokens": 1},
    },
}  # fmt: skip
USED = UsageReport(Usage(12, 1, 5, 4))


def spent(output: int) -> UsageReport:
    return UsageReport(Usage(12, output, 5, 4))


def stream(*chunks: Any) -> bytes:
    return sse(START, *chunks)


def begin(kind: str, index: Any = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}}


def more(index: Any = 0, **delta: Any) -> dict[str, Any]:
    kinds = {"text": "text_delta", "partial_json": "input_json_delta", "thinking": "thinking_delta"}
    kind = kinds.get(next(iter(delta)), f"{next(iter(delta))}_delta")
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **delta}}


def done(index: Any = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def change(reason: str | None = "end_turn", output: int = 5, **more: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": {"output_tokens": output}}


def text(*pieces: str, index: int = 0) -> list[Any]:
    return [begin("text", index, text=""), *(more(index, text=piece) for piece in pieces), done(index)]


def call(*pieces: str, index: int = 0, id: str = "x", **block: Any) -> list[Any]:
    start = begin("tool_use", index, id=id, name="f", **{"input": {}, **block})
    return [start, *(more(index, partial_json=piece) for piece in pieces), done(index)]


STOP = {"type": "message_stop"}
PING = {"type": "ping"}


def end(reason: str = "end_turn", output: int = 5) -> list[Any]:
    return [change(reason, output), STOP]


ENDED = [spent(5), Finish("end_turn", "m1", "end_turn")]
A = '{"a":1}'
CALLED = [ToolCallStart("x", "f"), ToolCallDelta("x", A), ToolCallDone("x", "f", A)]
BY_CALL = [spent(5), Finish("tool_use", "m1", "tool_use")]
NOISE = {"type": "noise", "x": 1}
SERVER = begin("server_tool_use", 1, id="s", name="web_search", input={})

STREAMS = [
    pytest.param(stream(PING, *text("Hel", "lo 🎉"), *end()),
                 [USED, TextDelta("Hel"), TextDelta("lo 🎉"), *ENDED], id="text"),
    pytest.param(stream(*text("Hi"), change()), [USED, TextDelta("Hi"), *ENDED], id="no message_stop"),
    pytest.param(stream(*text("Hi"), *end()).rstrip(), [USED, TextDelta("Hi"), *ENDED], id="no last blank line"),
    pytest.param(stream(*text("Hi"), STOP), [USED, TextDelta("Hi"), Finish("other", "m1")], id="no stop reason"),
    pytest.param(stream(begin("text", text="Hi"), done(), *end()), [USED, TextDelta("Hi"), *ENDED], id="text at start"),
    pytest.param(stream(*end("end_turn", 1)), [USED, Finish("end_turn", "m1", "end_turn")], id="empty"),
    pytest.param(sse(*text("Hi"), *end()), [TextDelta("Hi"), UsageReport(Usage(0, 5)),
                                            Finish("end_turn", None, "end_turn")], id="no message_start"),
    pytest.param(stream(more(text="Hi"), *end()), [USED, TextDelta("Hi"), *ENDED], id="text without a start"),
    pytest.param(stream(START, *text("Hi"), START, *end()), [USED, TextDelta("Hi"), *ENDED], id="started twice"),
    pytest.param(stream(*text("Hi"), *end(), *text("no"), START), [USED, TextDelta("Hi"), *ENDED], id="after the end"),
    pytest.param(stream(*call("", '{"a"', ":1}"), *end("tool_use")),
                 [USED, CALLED[0], ToolCallDelta("x", '{"a"'), ToolCallDelta("x", ":1}"), CALLED[2], *BY_CALL],
                 id="a call"),
    pytest.param(stream(*call(A), *call("{}", index=1, id="y"), *end("tool_use")),
                 [USED, *CALLED, ToolCallStart("y", "f"), ToolCallDelta("y", "{}"), ToolCallDone("y", "f", "{}"),
                  *BY_CALL], id="two calls"),
    pytest.param(stream(*call(A), *call(A), *end("tool_use")),
                 [USED, *CALLED, *BY_CALL], id="a call that is repeated"),
    pytest.param(stream(*call(A), *call("{}"), *end("tool_use")),
                 [USED, *CALLED, ToolCallStart("call_2", "f"), ToolCallDelta("call_2", "{}"),
                  ToolCallDone("call_2", "f", "{}"), *BY_CALL], id="the same number and id for another call"),
    pytest.param(stream(*call(""), *end("tool_use")),
                 [USED, CALLED[0], spent(5), ToolCallDone("x", "f", "{}"), BY_CALL[1]], id="no arguments"),
    pytest.param(stream(*call(""), *call(A, id="y"), *end("tool_use")),
                 [USED, CALLED[0], ToolCallDone("x", "f", "{}"), ToolCallStart("y", "f"), ToolCallDelta("y", A),
                  ToolCallDone("y", "f", A), *BY_CALL], id="no arguments, and the same number again"),
    pytest.param(stream(*call(input={"a": "é"}), *end("tool_use")),
                 [USED, CALLED[0], ToolCallDelta("x", '{"a": "é"}'), ToolCallDone("x", "f", '{"a": "é"}'), *BY_CALL],
                 id="arguments at the start"),
    pytest.param(stream(*call(input=A), *end("tool_use")), [USED, *CALLED, *BY_CALL], id="as text"),
    pytest.param(stream(*call(A, input={"b": 2}), *end("tool_use")), [USED, *CALLED, *BY_CALL],
                 id="the pieces have the last word"),
    pytest.param(stream(*call(A, input={"b": 2})[:2], *end("tool_use")), [USED, *CALLED[:2], spent(5), CALLED[2],
                                                                          BY_CALL[1]], id="a block without an end"),
    pytest.param(stream(*call(input={"a": 1})[:1], *end("tool_use")),
                 [USED, CALLED[0], spent(5), ToolCallDelta("x", '{"a": 1}'), ToolCallDone("x", "f", '{"a": 1}'),
                  BY_CALL[1]], id="arguments at the start of a block without an end"),
    pytest.param(stream(*call(A + " \n"), *end("end_turn")),
                 [USED, CALLED[0], ToolCallDelta("x", A + " \n"), ToolCallDone("x", "f", A + " \n"), spent(5),
                  Finish("tool_use", "m1", "end_turn")], id="blanks after the arguments, another stop reason"),
    pytest.param(stream(*call("{oops"), *end("tool_use")),
                 [USED, CALLED[0], ToolCallDelta("x", "{oops"), spent(5), ToolCallDone("x", "f", "{oops"), BY_CALL[1]],
                 id="no JSON"),
    pytest.param(stream(*call('{"a'), *end("max_tokens")),
                 [USED, CALLED[0], ToolCallDelta("x", '{"a'), spent(5),
                  ToolCallDone("x", "f", '{"a', truncated=True), Finish("max_tokens", "m1", "max_tokens")],
                 id="cut by a limit, and the block ended"),
    pytest.param(stream(*call("")[:2], *end("max_tokens")),
                 [USED, CALLED[0], spent(5), ToolCallDone("x", "f", "", truncated=True),
                  Finish("max_tokens", "m1", "max_tokens")], id="cut before the arguments"),
    pytest.param(stream(begin("text", 0, text=""), begin("tool_use", 1, id="x", name="f", input={}), more(text="Hi"),
                        more(1, partial_json=A), done(0), done(1), *end("tool_use")),
                 [USED, CALLED[0], TextDelta("Hi"), *CALLED[1:], *BY_CALL], id="interleaved"),
    pytest.param(stream(*text("Hi"), *end("tool_use")), [USED, TextDelta("Hi"), spent(5),
                                                         Finish("end_turn", "m1", "tool_use")], id="tool_use, no call"),
    pytest.param(stream(begin("thinking", thinking="", signature=""), more(thinking="H"), more(thinking="m"),
                        more(signature="old"), more(signature="E+q/="), done(), *text("Hi", index=1), *end()),
                 [USED, ThinkingDelta("H"), ThinkingDelta("m"), ThinkingDelta(signature="E+q/="), TextDelta("Hi"),
                  *ENDED], id="a signed thought"),
    pytest.param(stream(begin("thinking", thinking="Hm"), done(), *text("Hi", index=1), *end()),
                 [USED, ThinkingDelta("Hm"), TextDelta("Hi"), *ENDED], id="an unsigned thought"),
    pytest.param(stream(begin("thinking", thinking=""), more(signature="E"), begin("text", 1, text="Hi"), done(0),
                        done(1), *end()),
                 [USED, ThinkingDelta(signature="E"), TextDelta("Hi"), *ENDED], id="a signature alone"),
    pytest.param(stream(begin("thinking", thinking="Hm", signature="E"), *end()),
                 [USED, ThinkingDelta("Hm"), spent(5), ThinkingDelta(signature="E"), ENDED[1]], id="an open thought"),
    pytest.param(stream(begin("redacted_thinking", data="Emw="), done(), begin("redacted_thinking"), *end()),
                 [USED, ThinkingDelta(redacted="Emw="), RawEvent(begin("redacted_thinking")), *ENDED], id="redacted"),
    pytest.param(stream(*text("Hi"), SERVER, more(1, partial_json='{"q'), more(1, partial_json=""), done(1), *end()),
                 [USED, TextDelta("Hi"), RawEvent(SERVER), RawEvent(more(1, partial_json='{"q')), *ENDED],
                 id="a tool of the service"),
    pytest.param(stream(more(citations=1), NOISE, '{"type":["x"]}', '{"x":1}', *end()),
                 [USED, RawEvent(more(citations=1)), RawEvent(NOISE), RawEvent({"type": ["x"]}), RawEvent({"x": 1}),
                  *ENDED], id="unknown events"),
    pytest.param(stream('{"type":"content_block_delta","delta":null}', '{"type":"content_block_delta","delta":{}}',
                        more(text=""), more(thinking=None), *end()),
                 [USED, RawEvent({"type": "content_block_delta", "delta": None}),
                  RawEvent({"type": "content_block_delta", "delta": {}}), *ENDED], id="deltas without content"),
    pytest.param(stream(*text("a"), "noise", *text("b"), *end()),
                 [USED, TextDelta("a"), RawEvent("noise", damaged=True), TextDelta("b"), *ENDED], id="noise"),
    pytest.param(stream(*text("a"), "[DONE]"), [USED, TextDelta("a"), Finish("other", "m1")], id="[DONE]"),
    pytest.param(stream(change("refusal", stop_details={"category": "cyber", "explanation": "No."}), STOP),
                 [spent(5), RawEvent({"stop_details": {"category": "cyber", "explanation": "No."}}),
                  SafetyReport((SafetyRating("cyber", blocked=True, provider="anthropic"),)), TextDelta("No."),
                  Finish("refusal", "m1", "refusal")], id="refused"),
    pytest.param(stream(*text("Hi"), change("refusal", stop_details={"explanation": "No."}), STOP),
                 [USED, TextDelta("Hi"), spent(5), RawEvent({"stop_details": {"explanation": "No."}}),
                  Finish("refusal", "m1", "refusal")], id="refused half way"),
    pytest.param(stream(*call("{")[:2], change("refusal", stop_details={"explanation": None}), STOP),
                 [USED, CALLED[0], ToolCallDelta("x", "{"), spent(5), RawEvent({"stop_details": {"explanation": None}}),
                  ToolCallDone("x", "f", "{", truncated=True), Finish("refusal", "m1", "refusal")],
                 id="refused in a call"),
    pytest.param(stream(change(None), change("end_turn"), change(None, 6), STOP),
                 [spent(5), spent(6), ENDED[1]], id="a stop reason that is not taken back"),
]  # fmt: skip


@pytest.mark.fault(55, 56, 79, 93, 95, 96, 97, 101)
@pytest.mark.parametrize(("body", "expected"), STREAMS)
def test_streams(body: bytes, expected: list[Event]) -> None:
    assert decode(body) == expected


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("compaction", "pause"),
        ("brand_new", "other"),
    ],
)
def test_stop_reasons(raw: str, reason: Any) -> None:
    assert decode(stream(*text("Hi"), *end(raw)))[-1] == Finish(reason, "m1", raw)


USAGES = [
    pytest.param([{"input_tokens": 9, "output_tokens": 2}], Usage(18, 2, 5, 4), id="corrected"),
    pytest.param([{"cache_read_input_tokens": 0}, {"output_tokens": 7}], Usage(7, 7, 0, 4), id="each field by itself"),
    pytest.param([{"output_tokens": None}, {"output_tokens": "8"}], Usage(12, 8, 5, 4), id="null, and as text"),
    pytest.param(["none", None], Usage(12, 1, 5, 4), id="no usage"),
]


@pytest.mark.fault(58)
@pytest.mark.parametrize(("reports", "expected"), USAGES)
def test_usage(reports: list[Any], expected: Usage) -> None:
    folded = Accumulator()
    seen = 0
    deltas = [{"type": "message_delta", "delta": None, "usage": usage} for usage in (*reports, reports[-1])]
    for event in decode(stream(*text("Hi"), *deltas, STOP)):
        folded.apply(event)
        seen += isinstance(event, UsageReport)
    assert folded.usage == expected
    assert seen <= len(reports) + 1


def whole(*content: Any, **more: Any) -> bytes:
    return json.dumps({**START["message"], "content": content, "stop_reason": "end_turn", **more}, indent=1).encode()


CITED = {"type": "text", "text": "Hi", "citations": [{"n": 1}]}
DOCUMENTS = [
    pytest.param(whole({"type": "text", "text": "Hi"}), [USED, TextDelta("Hi"), Finish("end_turn", "m1", "end_turn")],
                 id="text"),
    pytest.param(whole({"type": "tool_use", "id": "x", "name": "f", "input": {"a": 1}}, stop_reason="tool_use"),
                 [USED, CALLED[0], ToolCallDelta("x", '{"a": 1}'), ToolCallDone("x", "f", '{"a": 1}'), BY_CALL[1]],
                 id="call"),
    pytest.param(whole({"type": "tool_use", "id": "x", "name": "f", "input": {}}, stop_reason="tool_use"),
                 [USED, CALLED[0], ToolCallDone("x", "f", "{}"), BY_CALL[1]], id="call without arguments"),
    pytest.param(whole({"type": "thinking", "thinking": "Hm", "signature": "E"},
                       {"type": "redacted_thinking", "data": "D"}),
                 [USED, ThinkingDelta("Hm"), ThinkingDelta(signature="E"), ThinkingDelta(redacted="D"), ENDED[1]],
                 id="thoughts"),
    pytest.param(whole(CITED, {"type": "x"}, None, stop_reason=None),
                 [USED, TextDelta("Hi"),
                  TextCitation(Citation("", 0, 2, provider="anthropic", raw={"n": 1})),
                  RawEvent({"type": "content_block_start", "index": "content 1", "content_block": {"type": "x"}}),
                  ThinkingDelta(opaque={"anthropic": {"type": "x"}}),
                  RawEvent({"type": "content_block_start", "index": "content 2", "content_block": None}),
                  Finish("other", "m1")], id="citations, unknown blocks, no stop reason"),
    pytest.param(whole(stop_reason="refusal", stop_details={"explanation": "No."}),
                 [USED, RawEvent({"stop_details": {"explanation": "No."}}), TextDelta("No."),
                  Finish("refusal", "m1", "refusal")], id="refused"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), DOCUMENTS)
def test_one_document_gives_the_same_events(body: bytes, expected: list[Event]) -> None:
    assert decode(body) == expected


def test_content_that_comes_with_the_start() -> None:
    message = json.loads(whole({"type": "tool_use", "id": "x", "name": "f", "input": {"a": 1}}, stop_reason="tool_use"))
    body = sse({"type": "message_start", "message": message}, *text("Hi"), STOP)
    arguments = '{"a": 1}'
    assert decode(body) == [
        USED,
        CALLED[0],
        ToolCallDelta("x", arguments),
        ToolCallDone("x", "f", arguments),
        TextDelta("Hi"),
        BY_CALL[1],
    ]


FAULT = {"type": "error", "error": {"type": "overloaded_error", "message": "boom sk-secret"}}
OTHER = {"type": "message_start", "message": {"id": "msg_2"}}
FAILURES = [
    pytest.param(b"", MalformedEvent, "is empty", id="nothing"),
    pytest.param(b"<html>Sign in</html>", MalformedEvent, "Sign in", id="html"),
    pytest.param(b"{}", MalformedEvent, "no message of Anthropic's", id="empty object"),
    pytest.param(b'{"content":"Hi"}', MalformedEvent, "no message of Anthropic's", id="another document"),
    pytest.param(b'{"content":[', StreamTruncated, "broke off", id="half a document"),
    pytest.param(json.dumps(FAULT).encode(), Overloaded, "boom", id="error document"),
    pytest.param(b'{"error":"boom"}', ServerError, "boom", id="error of a proxy"),
    pytest.param(stream(), StreamTruncated, "broke off", id="only a start"),
    pytest.param(stream(*text("a")), StreamTruncated, "broke off", id="no end"),
    pytest.param(stream(*call(A)[:2]), StreamTruncated, "broke off", id="no end of a call"),
    pytest.param(stream(*call('{"a')[:2], STOP), StreamTruncated, "broke off", id="half a call, and no stop reason"),
    pytest.param(stream(*text("a")) + b'data: {"type', StreamTruncated, "broke off", id="half an event"),
    pytest.param(stream(*text("a"), FAULT), Overloaded, "boom", id="error event"),
    pytest.param(stream(*text("a"), json.dumps(FAULT)), Overloaded, "boom", id="error without a name"),
    pytest.param(stream(*text("a"), '{"error":{"message":"boom"}}'), ServerError, "boom", id="error of another shape"),
    pytest.param(stream(OTHER), MalformedEvent, "'msg_1' and 'msg_2'", id="two answers"),
    pytest.param(stream(more(partial_json="{")), MalformedEvent, "block 0", id="arguments without a call"),
    pytest.param(stream(more([1], partial_json="{")), MalformedEvent, "block None", id="a block without a number"),
    pytest.param(stream(*call(A)[:2], *call(A)), MalformedEvent, "two tool calls", id="a call begun twice"),
    pytest.param(stream(*call(A)[:2], '{"type":"content_block_d', done(), *end("tool_use")), MalformedEvent,
                 "lack a piece", id="damage in a call"),
    pytest.param(stream('{"type":"content_block_start","content_block":{"type":"tool_use",', *end()), MalformedEvent,
                 "lack a piece", id="damage before a call"),
    pytest.param(stream(*(begin("tool_use", n, name="f") for n in range(1001))), LimitExceeded, "1000",
                 id="too many calls"),
]  # fmt: skip


@pytest.mark.fault(51, 52, 56)
@pytest.mark.parametrize(("body", "kind", "words"), FAILURES)
def test_failures(body: bytes, kind: type[LLMError], words: str) -> None:
    if len(body) > 4_000:
        events, error = outcome([body])
        assert error is not None
        caught = Ended(events, *error)
    else:
        with pytest.raises(Ended, match=words) as info:
            decode(body)
        caught = info.value
    assert caught.kind is kind
    assert words.split()[-1] in str(caught)
    assert "secret" not in str(caught)
    assert not any(isinstance(event, (ToolCallDone, Finish)) for event in caught.events)


@pytest.mark.parametrize("before", [[], [PING], [begin("text", text="")]])
def test_an_error_before_the_first_content_comes_after_no_event(before: list[Any]) -> None:
    with pytest.raises(Ended) as caught:
        decode(stream(*before, FAULT))
    assert caught.value.kind is Overloaded
    assert caught.value.events == []


def test_the_names_of_tools_come_back_as_their_own() -> None:
    name = body(tools=(G,))["tools"][0]["name"]
    events = decode(stream(begin("tool_use", id="x", name=name), done(), *end("tool_use")), tools=(G,))
    assert [event.name for event in events if isinstance(event, ToolCallDone)] == ["my tool"]


def test_the_model_that_took_over_is_the_one_that_answers() -> None:
    taken = begin("fallback", to={"model": "m2"})
    assert decode(stream(taken, done(), *end())) == [
        USED,
        RawEvent(taken),
        ThinkingDelta(opaque={"anthropic": taken["content_block"]}),
        spent(5),
        Finish("end_turn", "m2", "end_turn"),
    ]


SEARCHED = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result", "n": 1}]}
CALLER = {"type": "code_execution", "tool_id": "s"}


def test_blocks_of_the_services_own_tools_go_back_as_they_came() -> None:
    """A paused turn: the call of a server tool in pieces, its result, cited text, a call that the code made."""
    sent = stream(
        *text("Let me look. "),
        begin("server_tool_use", 1, id="s", name="web_search", input={}),
        *(more(1, partial_json=piece) for piece in ('{"query": ', '"Oslo"}')),
        *(done(1), begin(SEARCHED["type"], 2, **{k: v for k, v in SEARCHED.items() if k != "type"}), done(2)),
        *(begin("text", 3, text=""), more(3, text="It "), more(3, text="is "), done(3)),
        *(begin("text", 4, text="", citations=[]), more(4, text="Oslo"), more(4, text=".")),
        *({"type": "content_block_delta", "index": 4, "delta": {"type": "citations_delta", "citation": {"n": n}}}
          for n in (1, 2)),
        *(done(4), begin("compaction", 5, content=None)),
        {"type": "content_block_delta", "index": 5, "delta": {"type": "compaction_delta", "content": "Short.", "n": 1}},
        *(done(5), done(5), begin("tool_use", 6, id="x", name="f", input={}, caller=CALLER)),
        *(more(6, partial_json=A), done(6)),
        *(begin("server_tool_use", 7, id="t", name="web_search", input={}), more(7, partial_json='{"q'), done(7)),
        *end("pause_turn"),
    )  # fmt: skip
    folded = Accumulator()
    for event in decode(sent):
        folded.apply(event)
    response = folded.response()
    assert (response.stop_reason, response.text) == ("pause", "Let me look. It is Oslo.")
    blocks = [
        {"type": "text", "text": "Let me look. "},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "Oslo"}},
        SEARCHED,
        {"type": "text", "text": "It is "},
        {"type": "text", "text": "Oslo.", "citations": [{"n": 1}, {"n": 2}]},
        {"type": "compaction", "content": "Short.", "n": 1},
        {"type": "tool_use", "id": "x", "name": "f", "input": {"a": 1}, "caller": CALLER},
    ]
    assert body(user("Hi"), response.message)["messages"][1]["content"] == blocks
    stored = Message.from_dict(response.message.to_dict())
    assert body(user("Hi"), stored)["messages"][1]["content"] == blocks


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ((TextPart("ab"),), [{"type": "text", "text": "ab", "citations": [1]}]),
        ((TextPart("  ab"),), [{"type": "text", "text": "ab", "citations": [1]}]),
        ((TextPart("cab"),), [{"type": "text", "text": "c"}, {"type": "text", "text": "ab", "citations": [1]}]),
        ((TextPart("a"),), [{"type": "text", "text": "a"}]),
        ((TextPart("ab"), ToolCallPart("x", "f")), None),
    ],
)
def test_citations_of_text_that_was_changed_are_left_out(parts: tuple[Part, ...], content: Any) -> None:
    cited = ThinkingPart(opaque={"anthropic": {"type": "text", "citations": [1], "characters": 2}})
    back = body(user("Hi"), Message("assistant", (*parts, cited)))["messages"][1]["content"]
    assert back == (
        content or [{"type": "text", "text": "ab"}, {"type": "tool_use", "id": "x", "name": "f", "input": {}}]
    )


def test_citations_of_no_text_are_emitted_as_they_came() -> None:
    cited = begin("text", 1, text="", citations=[{"n": 1}])
    assert RawEvent({"citations": [{"n": 1}]}) in decode(stream(*text("Hi"), cited, done(1), *end("end_turn")))


def test_generated_ids_go_on_from_the_calls_before() -> None:
    before = (assistant(ToolCallPart("call_1", "f")),)
    events = decode(stream(*call(A, id=""), *end("tool_use")), messages=before)
    assert ToolCallStart("call_2", "f") in events


@pytest.mark.fault(102)
@given(st.data())
def test_thoughts_make_the_round_trip_byte_for_byte(data: st.DataObject) -> None:
    anything = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
    blocks = data.draw(
        st.lists(
            st.builds(
                lambda t, s: {"type": "thinking", "thinking": t, "signature": s}, anything | st.just(""), anything
            )
            | st.builds(lambda d: {"type": "redacted_thinking", "data": d}, anything),
            min_size=1,
            max_size=4,
        )
    )
    folded = Accumulator()
    sent: list[Any] = []
    for index, block in enumerate(blocks):
        if block["type"] == "thinking":
            sent += [begin("thinking", index, thinking="", signature="")]
            sent += [more(index, thinking=piece) for piece in block["thinking"]]
            sent += [more(index, signature=block["signature"]), done(index)]
        else:
            sent += [begin("redacted_thinking", index, data=block["data"]), done(index)]
    for event in outcome([stream(*sent, *call(A, index=9), *end("tool_use"))])[0]:
        folded.apply(event)
    back = body(user("Hi"), folded.message())["messages"][1]["content"]
    assert back == [*blocks, {"type": "tool_use", "id": "x", "name": "f", "input": {"a": 1}}]
    again = Accumulator()
    for event in outcome([whole(*back, stop_reason="tool_use")])[0]:
        again.apply(event)
    assert body(user("Hi"), again.message())["messages"][1]["content"] == back


PIECES = st.sampled_from([
    b"data: ", b"event: message_start\n", b"\n\n", b"\r\n", b"\r", b"event: error\n", b"[DONE]", b"{", b"}", b"\xff",
    sse(START), sse(*text("a")), sse(*call(A)), sse(PING), sse(change()), sse(STOP), sse(SERVER), b'{"error":',
    b'data: {"type":"content_block_delta","index":', b'"delta":{"type":"input_json_delta","partial_json":', b'"x"',
    b'{"type":"message","content":[', b"]", b"0,", b"null",
])  # fmt: skip


@given(pieces=st.lists(PIECES | st.binary(max_size=6), max_size=14))
def test_any_bytes_give_events_or_one_error(pieces: list[bytes]) -> None:
    separate = outcome(pieces)
    assert outcome([b"".join(pieces)]) == separate
    events, error = separate
    assert (error is None) == (bool(events) and isinstance(events[-1], Finish))


NAMES = st.sampled_from([
    "type", "index", "delta", "content_block", "message", "usage", "text", "thinking", "signature", "data", "id",
    "name", "input", "partial_json", "stop_reason", "stop_details", "explanation", "content", "citations", "error",
    "input_tokens", "model",
])  # fmt: skip
VALUES = st.sampled_from([
    "content_block_start", "content_block_delta", "content_block_stop", "message_start", "message_delta", "text",
    "tool_use", "thinking", "redacted_thinking", "text_delta", "input_json_delta", "signature_delta", "", "{",
])  # fmt: skip
ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)


@given(chunks=st.lists(ODD, max_size=4), kind=VALUES, fields=st.dictionaries(NAMES, ODD, max_size=4))
def test_any_json_gives_events_or_one_error(chunks: list[Any], kind: str, fields: dict[str, Any]) -> None:
    body = stream(*(json.dumps(chunk) for chunk in (*chunks, {**fields, "type": kind})), *end())
    assert outcome([body]) == outcome([body[at : at + 7] for at in range(0, len(body), 7)])
