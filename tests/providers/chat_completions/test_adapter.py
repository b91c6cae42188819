"""OpenAI's chat-completions wire: what is sent, and every shape of what comes back."""

from __future__ import annotations

import json
from dataclasses import replace
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
    RateLimited,
    ServerError,
    StreamTruncated,
)
from toolcast.events import (
    Event,
    Finish,
    RawEvent,
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
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.decoder import OpenAIChatDecoder
from toolcast.providers.chat_completions.services import (
    DEEPSEEK,
    GENERIC,
    LLAMA_CPP,
    LM_STUDIO,
    MOONSHOT,
    OLLAMA,
    OPENAI,
    OPENROUTER,
    PERPLEXITY,
    QWEN,
    VLLM,
    XAI,
    ServiceSpec,
)
from toolcast.providers.http_adapter import join_url
from toolcast.values.accumulator import Accumulator
from toolcast.values.credentials import Secret
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool, ToolSpec
from toolcast.values.usage import Usage


def details(*items: Any) -> ThinkingDelta:
    """The event of thoughts that go back as they came."""
    return ThinkingDelta(opaque={"reasoning_details": [*items], "provider": "openai-compatible"})


F = ToolSpec("f", "Does f.", {"type": "object"})
G = ToolSpec("my tool", "Does g.", {"type": "object"})


# -- requests


def body(
    *messages: Message, service: ServiceSpec = OPENAI, settings: Settings | None = None, **about: Any
) -> dict[str, Any]:
    conversation = RequestInput(**{"model": "gpt-4o", "messages": messages or (user("Hi"),), **about})
    request = OpenAIChatAdapter(service).request(conversation, settings or Settings())
    return json.loads(request.body)


def notes(service: ServiceSpec, settings: Settings, **about: Any) -> tuple[str, ...]:
    conversation = RequestInput(**{"model": "m", "messages": (user("Hi"),), **about})
    return OpenAIChatAdapter(service).request(conversation, settings).notes


def test_a_whole_request() -> None:
    wire = OpenAIChatAdapter(OPENAI, api_key=Secret("sk-1"), headers={"X-Mine": "1"})
    request = wire.request(RequestInput("gpt-4o", (system("Be terse."), user("Hi")), (F,), NamedTool("f")), Settings())
    assert (request.method, request.url) == ("POST", "https://api.openai.com/v1/chat/completions")
    assert request.headers["authorization"] == Secret("Bearer sk-1")
    assert request.headers["x-mine"] == "1"
    assert "sk-1" not in repr(request)
    assert json.loads(request.body) == {
        "model": "gpt-4o",
        "messages": [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": F.parameters}}
        ],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False,
    }


def test_a_request_for_a_whole_answer() -> None:
    wire = OpenAIChatAdapter(GENERIC)
    request = wire.request(RequestInput("m", (user("Hi"),), stream=False), Settings())
    assert request.headers == {"content-type": "application/json", "accept": "application/json"}
    assert json.loads(request.body) == {
        "model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": False
    }  # fmt: skip


IMAGE = ImagePart(data=b"\x89PNG", media_type="image/png")
PARTS = [
    pytest.param(IMAGE, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}, id="image"),
    pytest.param(
        ImagePart(url="https://x/i.png", detail="low"),
        {"type": "image_url", "image_url": {"url": "https://x/i.png", "detail": "low"}},
        id="image url",
    ),
    pytest.param(
        AudioPart(data=b"a", media_type="audio/mpeg"),
        {"type": "input_audio", "input_audio": {"data": "YQ==", "format": "mp3"}},
        id="audio",
    ),
    pytest.param(
        DocumentPart(data=b"a", media_type="application/pdf", name="a.pdf"),
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,YQ=="}},
        id="document",
    ),
]


@pytest.mark.parametrize(("part", "sent"), PARTS)
def test_media(part: Any, sent: dict[str, Any]) -> None:
    (message,) = body(user("Look", part))["messages"]
    assert message == {"role": "user", "content": [{"type": "text", "text": "Look"}, sent]}


REFUSED = [
    pytest.param(OPENAI, user(AudioPart(url="https://x/a.mp3")), "AudioPart", id="audio by url"),
    pytest.param(OPENAI, user(AudioPart(data=b"a", media_type="audio/ogg")), "audio/ogg", id="kind of audio"),
    pytest.param(OPENAI, user(DocumentPart(url="https://x/a.pdf")), "DocumentPart", id="document by url"),
    pytest.param(VLLM, user(DocumentPart(data=b"a", media_type="application/pdf")), "DocumentPart", id="document"),
    pytest.param(OLLAMA, user(ImagePart(url="https://x/i.png")), "ImagePart", id="image by url"),
    pytest.param(OPENAI, user(ToolCallPart("x", "f")), "ToolCallPart", id="a call by the user"),
    pytest.param(OPENAI, system(IMAGE), "ImagePart", id="image for the system"),
    pytest.param(OPENAI, assistant(IMAGE), "ImagePart", id="image by the assistant"),
    pytest.param(OPENAI, Message("tool", (TextPart("x"),)), "TextPart", id="text in a tool message"),
]


@pytest.mark.parametrize(("service", "message", "named"), REFUSED)
def test_content_that_cannot_be_sent(service: ServiceSpec, message: Message, named: str) -> None:
    with pytest.raises(BadRequest, match=named) as caught:
        body(message, service=service)
    assert (caught.value.provider, caught.value.model) == (service.name, "gpt-4o")


def test_tool_calls_and_results() -> None:
    call = ToolCallPart("x", "my tool", '{"a":1}', opaque={"extra_content": {"google": 1}})
    both = Message("tool", (ToolResultPart("x", "4"), ToolResultPart("y", "5")))
    message = (assistant(call), both, user(ToolResultPart("z", "6"), "and?"), assistant())
    sent = body(*message, tools=(G,), service=GENERIC)
    name = sent["tools"][0]["function"]["name"]
    assert name.startswith("my_tool_")
    assert sent["messages"] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "x", "type": "function", "function": {"name": name, "arguments": '{"a":1}'},
                 "extra_content": {"google": 1}}
            ],
        },
        {"role": "tool", "tool_call_id": "x", "content": "4"},
        {"role": "tool", "tool_call_id": "y", "content": "5"},
        {"role": "tool", "tool_call_id": "z", "content": "6"},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": ""},
    ]  # fmt: skip
    assert "extra_content" not in body(*message)["messages"][0]["tool_calls"][0]  # another service's


def test_a_user_message_of_results_alone_has_no_other_content() -> None:
    messages = body(user(ToolResultPart("x", "4")), user())["messages"]
    assert messages == [{"role": "tool", "tool_call_id": "x", "content": "4"}, {"role": "user", "content": ""}]


def test_long_ids_are_shortened_alike_in_call_and_result() -> None:
    call = ToolCallPart("functions.f:0" * 9, "f")
    asked, answered = body(assistant(call), tool_result(call, "4"))["messages"]
    assert asked["tool_calls"][0]["id"] == answered["tool_call_id"]
    assert len(answered["tool_call_id"]) == 40
    assert body(assistant(call), service=MOONSHOT)["messages"][0]["tool_calls"][0]["id"] == call.id


@pytest.mark.parametrize("arguments", ["{oops", "[1]", '{"x": NaN}'])
def test_broken_arguments_of_earlier_calls(arguments: str) -> None:
    message = assistant(ToolCallPart("x", "f", arguments))
    for service in (OPENAI, VLLM):
        sent = body(message, service=service)["messages"][0]["tool_calls"][0]["function"]["arguments"]
        assert json.loads(sent) == {"malformed": arguments}


DETAILS = {"reasoning_details": [{"type": "reasoning.text", "text": "Hm"}]}


@pytest.mark.parametrize(
    ("service", "with_call", "field"),
    [
        (OPENAI, True, {}),
        (DEEPSEEK, True, {"reasoning_content": "Hm"}),
        (DEEPSEEK, False, {}),
        (VLLM, True, {"reasoning": "Hm"}),
        (OPENROUTER, False, DETAILS),
        (MOONSHOT, True, {"reasoning_content": "Hm"}),
    ],
)
def test_thoughts_go_back_where_they_must(service: ServiceSpec, with_call: bool, field: dict[str, Any]) -> None:
    parts = [ThinkingPart("Hm", opaque=DETAILS), *([ToolCallPart("x", "f")] if with_call else ["ok"])]
    (message,) = body(assistant(*parts), service=service)["messages"]
    assert {name: value for name, value in message.items() if name.startswith("reason")} == field


@pytest.mark.parametrize(
    ("service", "about", "thoughts"),
    [
        (DEEPSEEK, {"tools": (F,)}, ["Hm", " ", " "]),
        (DEEPSEEK, {"tools": (F,), "settings": Settings(thinking=False)}, ["Hm", None, None]),
        (DEEPSEEK, {}, ["Hm", " ", None]),
        (MOONSHOT, {"tools": (F,)}, ["Hm", " ", " "]),
        (LLAMA_CPP, {"tools": (F,)}, ["Hm", None, None]),
    ],
)
def test_answers_of_models_that_did_not_think(service: ServiceSpec, about: dict[str, Any], thoughts: list[Any]) -> None:
    call = ToolCallPart("x", "f")
    sent = body(assistant(ThinkingPart("Hm"), call), assistant(call), assistant("ok"), service=service, **about)
    assert [message.get("reasoning_content") for message in sent["messages"]] == thoughts


def test_no_thoughts_no_details() -> None:
    assert body(assistant("ok"), service=OPENROUTER)["messages"] == [{"role": "assistant", "content": "ok"}]


@pytest.mark.parametrize(("service", "count"), [(OPENAI, 3), (VLLM, 2)])
def test_leading_system_messages(service: ServiceSpec, count: int) -> None:
    messages = body(system("a"), system("b"), user("c"), service=service)["messages"]
    assert len(messages) == count
    assert messages[-1] == {"role": "user", "content": "c"}
    if count == 2:
        assert messages[0] == {"role": "system", "content": "a\n\nb"}


@pytest.mark.parametrize(("service", "role"), [(OPENAI, "system"), (VLLM, "user"), (LLAMA_CPP, "user")])
def test_a_system_message_that_comes_late(service: ServiceSpec, role: str) -> None:
    message = (system("a"), user("b"), assistant("c"), system("d"))
    assert body(*message, service=service)["messages"][-1] == {"role": role, "content": "d"}
    assert body(*message[1:], service=service)["messages"][-1] == {"role": role, "content": "d"}


CHOICES = [
    pytest.param(OPENAI, "auto", "auto", 2, id="auto"),
    pytest.param(OPENAI, "none", "none", 2, id="none"),
    pytest.param(OPENAI, "any", "required", 2, id="any"),
    pytest.param(OPENAI, None, None, 2, id="left to the service"),
    pytest.param(OPENAI, {"type": "x"}, {"type": "x"}, 2, id="dialect"),
    pytest.param(OPENAI, "f", {"type": "function", "function": {"name": "f"}}, 2, id="by name"),
    pytest.param(LLAMA_CPP, NamedTool("f"), "required", 1, id="as the only tool"),
    pytest.param(MOONSHOT, NamedTool("f"), None, 1, id="as the only tool, and hope"),
    pytest.param(MOONSHOT, "required", None, 2, id="cannot be required"),
    pytest.param(MOONSHOT, "auto", "auto", 2, id="auto where nothing can be required"),
]


@pytest.mark.parametrize(("service", "choice", "sent", "tools"), CHOICES)
def test_tool_choice(service: ServiceSpec, choice: Any, sent: Any, tools: int) -> None:
    found = body(service=service, tools=(F, G), tool_choice=choice)
    assert found.get("tool_choice") == sent
    assert len(found["tools"]) == tools
    assert found.get("parallel_tool_calls") == (False if service.parallel_flag else None)
    assert ("tool_choice" in notes(service, Settings(), tools=(F, G), tool_choice=choice)) == (
        service is MOONSHOT and choice != "auto"
    )


@pytest.mark.parametrize(("thinking", "effort"), [(False, "low"), ("medium", "high"), ("high", "high"), (True, None)])
def test_kimi_k3_always_thinks(thinking: Any, effort: str | None) -> None:
    sent = body(service=MOONSHOT, model="kimi-k3", settings=Settings(thinking=thinking))
    assert (sent["thinking"], sent.get("reasoning_effort")) == ({"type": "enabled"}, effort)
    assert bool(notes(MOONSHOT, Settings(thinking=thinking), model="kimi-k3")) == (thinking in (False, "medium"))


@pytest.mark.parametrize("model", ["qwq-plus", "qvq-max", "qwen3-235b-a22b-thinking-2507"])
def test_models_of_qwen_that_only_think(model: str) -> None:
    """Their refusal: "The value of the enable_thinking parameter is restricted to True."."""
    about: dict[str, Any] = {"service": QWEN, "model": model}
    assert "enable_thinking" not in body(**about, settings=Settings(thinking=False))
    assert notes(QWEN, Settings(thinking=False), model=model) == ("thinking",)
    assert body(**about, settings=Settings(thinking=True))["enable_thinking"] is True
    forced = body(**about, tools=(F, G), tool_choice=NamedTool("f"))
    assert {"enable_thinking", "tool_choice"}.isdisjoint(forced)
    assert len(forced["tools"]) == 1


def test_forced_tools_while_thinking() -> None:
    about: dict[str, Any] = {"service": QWEN, "tools": (F, G), "tool_choice": NamedTool("f")}
    assert body(**about)["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    thinking = body(**about, settings=Settings(thinking=True))
    assert "tool_choice" not in thinking
    assert len(thinking["tools"]) == 1


@pytest.mark.parametrize(("service", "text"), [(DEEPSEEK, {"thinking": {"type": "disabled"}}),
                                               (QWEN, {"enable_thinking": False}), (OPENROUTER, {})])  # fmt: skip
def test_thinking_is_disabled_if_a_tool_is_forced(service: ServiceSpec, text: dict[str, Any]) -> None:
    free, forced = (body(service=service, tools=(F,), tool_choice=choice) for choice in ("auto", "required"))
    assert {name: value for name, value in forced.items() if name not in free} == text
    assert "tool_choice" in forced


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"tool_choice": NamedTool("h"), "tools": (F,)}, "'h'.*'f'"),
        ({"tool_choice": "required"}, "needs tools"),
        ({"tools": (F,), "service": PERPLEXITY}, "takes no tools"),
        ({"model": "gpt\r\nX: 1"}, "no model name"),
        ({"model": ""}, "no model name"),
        ({"settings": Settings(extra={"x": object()})}, "JSON"),
        ({"settings": Settings(extra={"x": float("nan")})}, "JSON"),
    ],
)
def test_requests_that_cannot_be_made(about: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        body(**about)


ALL = Settings(temperature=0.5, top_p=0.9, top_k=5, max_tokens=7, stop="x", seed=3, extra={"seed": 4, "user": "me"})


def test_settings() -> None:
    found = body(settings=ALL)
    sampling = {name: found[name] for name in ("temperature", "top_p", "max_completion_tokens", "stop", "seed", "user")}
    assert sampling == {
        "temperature": 0.5, "top_p": 0.9, "max_completion_tokens": 7, "stop": ["x"], "seed": 4, "user": "me"
    }  # fmt: skip
    assert "top_k" not in found
    assert body(settings=ALL, service=VLLM)["top_k"] == 5
    assert body(settings=ALL, service=VLLM)["max_tokens"] == 7
    assert notes(OPENAI, ALL) == ("top_k",)


@pytest.mark.parametrize(
    ("model", "thinking", "left_out"),
    [
        ("gpt-4o", None, []),
        ("gpt-4o", "low", ["thinking"]),
        ("gpt-5", None, ["temperature", "top_p", "stop"]),
        ("openai/gpt-5-mini", None, ["temperature", "top_p", "stop"]),
        ("gpt-5", False, ["temperature", "top_p", "stop", "thinking=False (the nearest effort, 'minimal', was sent)"]),
        ("gpt-5", "none", ["temperature", "top_p", "stop", "thinking=False (the nearest effort, 'minimal', was sent)"]),
        ("gpt-5-chat-latest", None, []),
        ("gpt-5.5-chat-latest", None, []),
        ("gpt-5.2", None, ["stop"]),
        ("gpt-5.2", "low", ["temperature", "top_p", "stop"]),
        ("gpt-5.6", None, ["temperature", "top_p", "stop"]),
        ("gpt-5.6", False, ["stop"]),
        ("o3", None, ["temperature", "top_p", "stop"]),
        ("o3", 0, ["temperature", "top_p", "stop", "thinking=False (the nearest effort, 'low', was sent)"]),
    ],
)
def test_settings_that_thinking_models_reject(model: str, thinking: Any, left_out: list[str]) -> None:
    settings = Settings(temperature=0.5, top_p=0.9, stop="x", thinking=thinking)
    assert notes(OPENAI, settings, model=model) == tuple(left_out)
    sent = body(settings=settings, model=model, tools=(F,), service=replace(OPENAI, api="chat"))
    assert not sent.keys() & set(left_out)
    assert ("parallel_tool_calls" in sent) == (model != "o3")


@pytest.mark.parametrize(
    ("model", "thinking", "left_out"),
    [
        ("grok-3", "low", ["thinking"]),
        ("grok-3-mini", "low", ["stop"]),
        ("grok-4-0709", "low", ["stop", "thinking"]),
        ("grok-4-fast-non-reasoning", "low", ["thinking"]),
        ("grok-4.20-0309-reasoning", "low", ["stop", "thinking"]),
        ("grok-4.20-multi-agent-0309", "low", ["stop"]),
        ("grok-4.3", "low", ["stop"]),
        ("grok-4.3", False, ["stop"]),
        ("grok-4.7", "low", ["stop"]),
        ("grok-4.7", False, ["stop", "thinking"]),
        ("grok-code-fast-1", "low", ["stop", "thinking"]),
    ],
)
def test_settings_that_models_of_xai_reject(model: str, thinking: Any, left_out: list[str]) -> None:
    settings = Settings(temperature=0.5, stop="x", thinking=thinking)
    assert notes(XAI, settings, model=model) == tuple(left_out)


def test_more_stops_than_are_taken() -> None:
    settings = Settings(stop=["a", "b", "c", "d", "e"])
    assert body(settings=settings)["stop"] == ["a", "b", "c", "d"]
    assert notes(OPENAI, settings) == ("more than 4 stop sequences",)
    assert len(body(settings=settings, service=VLLM)["stop"]) == 5
    assert notes(OPENAI, Settings(stop="a")) == ()


@pytest.mark.parametrize(
    ("service", "thinking", "sent"),
    [
        (OPENAI, True, {"reasoning_effort": "medium"}),
        (OPENAI, False, {"reasoning_effort": "none"}),
        (OPENAI, "high", {"reasoning_effort": "high"}),
        (OPENAI, 0, {"reasoning_effort": "none"}),
        (OPENAI, 1000, {"reasoning_effort": "low"}),
        (OPENAI, 8000, {"reasoning_effort": "medium"}),
        (OPENAI, 9000, {"reasoning_effort": "high"}),
        (OPENROUTER, True, {"reasoning": {"enabled": True}}),
        (OPENROUTER, "low", {"reasoning": {"effort": "low"}}),
        (OPENROUTER, 900, {"reasoning": {"max_tokens": 900}}),
        (DEEPSEEK, True, {"thinking": {"type": "enabled"}}),
        (DEEPSEEK, False, {"thinking": {"type": "disabled"}}),
        (DEEPSEEK, "low", {"thinking": {"type": "enabled"}}),
        (QWEN, 900, {"enable_thinking": True, "thinking_budget": 900}),
        (QWEN, False, {"enable_thinking": False}),
        (LLAMA_CPP, False, {"chat_template_kwargs": {"enable_thinking": False}}),
        (VLLM, "low", {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "low"}),
    ],
)
def test_thinking(service: ServiceSpec, thinking: Any, sent: dict[str, Any]) -> None:
    plain = body(service=service, model="gpt-5.1")
    found = body(service=service, model="gpt-5.1", settings=Settings(thinking=thinking))
    assert {name: value for name, value in found.items() if name not in plain} == sent


@pytest.mark.parametrize(
    ("thinking", "sent"),
    [("minimal", "low"), ("medium", "high"), (900, "low"), ("xhigh", "max"), (True, None), (0, None)],
)
def test_the_efforts_of_deepseek(thinking: Any, sent: str | None) -> None:
    """Source: api-docs.deepseek.com/guides/thinking_mode, "Thinking Effort Control"."""
    found = body(service=DEEPSEEK, model="deepseek-v4-pro", settings=Settings(thinking=thinking))
    assert found["thinking"] == {"type": "enabled" if thinking else "disabled"}
    assert found.get("reasoning_effort") == sent
    found_notes = notes(DEEPSEEK, Settings(thinking=thinking), model="deepseek-v4-pro")
    assert bool(found_notes) == (thinking in ("minimal", "medium", "xhigh"))


def test_thinking_that_cannot_be_asked_for() -> None:
    mute = ServiceSpec("mute", "http://x", thinking_in=None)
    assert notes(mute, Settings(thinking=True)) == ("thinking",)


def test_requests_share_only_their_equal_parts() -> None:
    wire = OpenAIChatAdapter(OPENAI, api_key=Secret("sk-1"))
    one, two = (RequestInput("gpt-4o", (user(text),), (F,), NamedTool("f")) for text in ("One", "Two"))
    extra = Settings(extra={"messages": [], "temperature": 2, "user": "me"})
    first, second, third, fourth = (
        wire.request(*asked) for asked in ((one, Settings()), (two, extra), (two, Settings()), (one, Settings()))
    )
    assert (first.headers, first.body) == (fourth.headers, fourth.body)
    assert first.headers is not fourth.headers
    assert json.loads(third.body) == json.loads(first.body) | {"messages": [{"role": "user", "content": "Two"}]}
    assert json.loads(second.body) == json.loads(first.body) | dict(extra.extra or {})


def test_a_thought_of_one_token_is_a_small_budget_wherever_it_is_asked_for() -> None:
    wire = OpenAIChatAdapter(OPENAI)
    conversation = RequestInput("o3", (user("Hi"),))
    bodies = [json.loads(wire.request(conversation, Settings(thinking=thinking)).body) for thinking in (True, 1, True)]
    assert [body["reasoning_effort"] for body in bodies] == ["medium", "low", "medium"]


@pytest.mark.fault(67)
def test_text_with_half_a_surrogate_pair_is_still_sent() -> None:
    assert body(user("a\ud83d é"))["messages"][0]["content"] == "a\ufffd é"


@pytest.mark.fault(37)
@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://h/v1", "http://h/v1/chat/completions"),
        (" http://h/v1/ ", "http://h/v1/chat/completions"),
        ("http://h", "http://h/chat/completions"),
        ("https://h/a/chat/completions", "https://h/a/chat/completions"),
        ("https://h/a/chat/completions/", "https://h/a/chat/completions"),
        ("https://h/openai?api-version=1", "https://h/openai/chat/completions?api-version=1"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1/chat/completions"),
    ],
)
def test_addresses(base_url: str, url: str) -> None:
    assert join_url(base_url, "/chat/completions") == url


@pytest.mark.parametrize("base_url", ["h/v1", "ftp://h", "http://", "http://h/\r\nX: 1", ""])
def test_addresses_that_are_none(base_url: str) -> None:
    with pytest.raises(BadRequest, match="base_url"):
        join_url(base_url, "/x")


@pytest.mark.fault(36)
@pytest.mark.parametrize(
    "given",
    [
        {"api_key": Secret("sk\r\nX: 1")},
        {"api_key": Secret("sk-“quoted”")},
        {"headers": {"X": "1\n"}},
        {"headers": {"X\r\nY": "1"}},
        {"headers": {"X": Secret("\x00")}},
        {"headers": {"é": "1"}},
    ],
)
def test_headers_that_would_break_out(given: dict[str, Any]) -> None:
    wire = OpenAIChatAdapter(OPENAI, **given)
    with pytest.raises(BadRequest, match="header") as caught:
        wire.request(RequestInput("m", (user("Hi"),)), Settings())
    assert "sk" not in str(caught.value)


def test_errors_name_the_service_and_hide_the_key() -> None:
    wire = OpenAIChatAdapter(OPENAI, api_key=Secret("sk-secret"), headers={"api-key": Secret("other-secret")})
    error = wire.error(401, {"x-request-id": "r"}, b'{"error":{"message":"bad sk-secret other-secret"}}')
    assert isinstance(error, AuthFailed)
    assert (wire.provider, error.provider, error.request_id, error.status) == ("openai", "openai", "r", 401)
    assert "OPENAI_API_KEY" in str(error)
    assert "secret" not in str(error)


# -- answers


def decoder(*, think_tags: bool = False, tools: tuple[ToolSpec, ...] = (F,)) -> OpenAIChatDecoder:
    service = LM_STUDIO if think_tags else GENERIC
    return OpenAIChatAdapter(service, api_key=Secret("sk-secret")).decoder(RequestInput("m", (), tools))


def decode(body: bytes, *, think_tags: bool = False) -> list[Event]:
    """The events of a body, after a check that they are the same for every cut of it."""
    whole = outcome([body], think_tags)
    if len(body) < 4_000:
        assert outcome([body[at : at + 1] for at in range(len(body))], think_tags) == whole
        for at in cut_places(body):
            assert outcome([body[:at], body[at:]], think_tags) == whole, at
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


def outcome(pieces: list[bytes], think_tags: bool) -> tuple[list[Event], tuple[type[LLMError], str] | None]:
    machine = decoder(think_tags=think_tags)
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
        assert error.provider
        return events, (type(error), str(error))
    assert not machine.failed
    assert machine.feed(b"data: {}\n\n") == machine.close() == []
    return events, None


def sse(*chunks: Any) -> bytes:
    """A stream of chunks: a dict is a delta, a str the data itself, None the end marker."""
    lines = []
    for chunk in chunks:
        if chunk is None:
            chunk = "[DONE]"
        elif isinstance(chunk, dict) and not chunk.keys() & {"choices", "error", "usage", "object", "detail"}:
            finish = chunk.pop("finish_reason", None)
            chunk = {"model": "m1", "choices": [{"index": 0, "delta": chunk, "finish_reason": finish}]}
        text = chunk if isinstance(chunk, str) else json.dumps(chunk, ensure_ascii=False)
        lines.append(f"data: {text}\n\n")
    return "".join(lines).encode()


def stop(reason: str = "stop") -> dict[str, Any]:
    return {"finish_reason": reason}


A = '{"a":1}'
CALL = {"tool_calls": [{"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": A}}]}
CALLED = [ToolCallStart("x", "f"), ToolCallDelta("x", A), ToolCallDone("x", "f", A)]
END = Finish("end_turn", "m1", "stop")


def usage(**fields: Any) -> dict[str, Any]:
    return {"choices": [], "usage": fields}


STREAMS = [
    pytest.param(sse({"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo 🎉"}, stop(), None),
                 [TextDelta("Hel"), TextDelta("lo 🎉"), END], id="text"),
    pytest.param(sse({"content": "Hi"}, stop()), [TextDelta("Hi"), END], id="no [DONE]"),
    pytest.param(sse({"content": "Hi"}, stop())[:-2], [TextDelta("Hi"), END], id="no blank line at the end"),
    pytest.param(sse({"content": "Hi"}, None)[:-2], [TextDelta("Hi"), Finish("other", "m1")], id="only [DONE]"),
    pytest.param(sse({"content": "Hi"}, stop(), " [DONE] ", None, {"content": "late"}, "noise"),
                 [TextDelta("Hi"), END], id="after [DONE]"),
    pytest.param(sse({"content": "Hi"}, stop()) + b"data: [DO", [TextDelta("Hi"), END], id="half a [DONE]"),
    pytest.param(b"\r\n: ping\r\n\r\n" + sse({"content": "Hi"}, stop()), [TextDelta("Hi"), END], id="comment first"),
    pytest.param(b"\xef\xbb\xbf" + sse({"content": "Hi"}, stop()), [TextDelta("Hi"), END], id="bom"),
    pytest.param(sse(CALL, stop("tool_calls"), None), [*CALLED, Finish("tool_use", "m1", "tool_calls")], id="call"),
    pytest.param(sse(CALL, stop(), None), [*CALLED, Finish("tool_use", "m1", "stop")], id="call, and stop"),
    pytest.param(sse(CALL, None), [*CALLED, Finish("tool_use", "m1")], id="call, and no finish reason"),
    pytest.param(sse({"content": "a"}, CALL, {"content": "b"}, stop(), None),
                 [TextDelta("a"), *CALLED[:2], TextDelta("b"), CALLED[2], Finish("tool_use", "m1", "stop")],
                 id="text and call"),
    pytest.param(sse(stop("tool_calls"), None), [Finish("end_turn", "m1", "tool_calls")], id="no call after all"),
    pytest.param(sse({"tool_calls": []}, {"tool_calls": None}, {"tool_calls": [{}]}, stop()), [END], id="empty calls"),
    pytest.param(sse({"function_call": {"name": "f", "arguments": A}}, stop("function_call")),
                 [ToolCallStart("call_1", "f"), ToolCallDelta("call_1", A), ToolCallDone("call_1", "f", A),
                  Finish("tool_use", "m1", "function_call")], id="legacy call"),
    pytest.param(sse({"tool_calls": [{"index": 1, "id": "x", "function": {"name": "f", "arguments": '{"a'}}]},
                     stop("length"), None),
                 [ToolCallStart("x", "f"), ToolCallDelta("x", '{"a'), ToolCallDone("x", "f", '{"a', truncated=True),
                  Finish("max_tokens", "m1", "length")], id="call cut by the limit"),
    pytest.param(sse(CALL, stop("length"), None), [*CALLED, Finish("max_tokens", "m1", "length")],
                 id="complete call at the limit"),
    pytest.param(sse({"content": "a", **stop("length")}, {"content": "b", **stop("length")}, {"content": ""}, None),
                 [TextDelta("a"), TextDelta("b"), Finish("max_tokens", "m1", "length")], id="finish on every chunk"),
    pytest.param(sse({"content": "a"}, stop(), stop(), {"content": ""}, None), [TextDelta("a"), END], id="two stops"),
    pytest.param(sse(stop("content_filter")), [Finish("content_filter", "m1", "content_filter")], id="filter"),
    pytest.param(sse(stop("error")), [Finish("error", "m1", "error")], id="error"),
    pytest.param(sse(stop("eos")), [Finish("end_turn", "m1", "eos")], id="eos"),
    pytest.param(sse(stop("new!")), [Finish("other", "m1", "new!")], id="unknown finish reason"),
    pytest.param(sse({"refusal": "I'm "}, {"refusal": "sorry"}, stop()),
                 [TextDelta("I'm "), TextDelta("sorry"), Finish("refusal", "m1", "stop")], id="refusal"),
    pytest.param(sse({"reasoning_content": "Hm"}, {"content": "Hi"}, stop()),
                 [ThinkingDelta("Hm"), TextDelta("Hi"), END], id="reasoning_content"),
    pytest.param(sse({"reasoning": "Hm", "reasoning_content": "Hm"},
                     {"reasoning_content": "!", "reasoning": "!"}, stop()),
                 [ThinkingDelta("Hm"), ThinkingDelta("!"), END], id="the same thought twice"),
    pytest.param(sse({"reasoning": {"x": 1}}, {"content": "Hi"}, stop()), [TextDelta("Hi"), END], id="odd thought"),
    pytest.param(
        sse({"reasoning": "H", "reasoning_details": [{"type": "t", "index": 0, "text": "H"}]},
            {"reasoning": "m", "reasoning_details": [{"type": "t", "index": 0, "text": "m", "id": None}, None]},
            {"reasoning_details": [{"type": "t", "index": 0, "text": None, "summary": 7, "signature": "s"}]},
            {"reasoning_details": [{"type": "e", "index": 0, "data": "D"}, {"type": "e", "index": 0, "data": "E"}]},
            CALL, {"reasoning_details": [{"type": "e", "index": 1, "data": "F"}]}, {"reasoning_details": "?"}, stop()),
        [ThinkingDelta("H"), ThinkingDelta("m"),
         details(
             {"type": "t", "index": 0, "text": "Hm", "summary": "", "signature": "s"},
             {"type": "e", "index": 0, "data": "D"}, {"type": "e", "index": 0, "data": "E"}),
         *CALLED[:2], details({"type": "e", "index": 1, "data": "F"}),
         CALLED[2], Finish("tool_use", "m1", "stop")], id="reasoning_details"),
    pytest.param(sse({"reasoning_details": [{"type": "t"}]}, {"content": "Hi"}, stop()),
                 [details({"type": "t"}), TextDelta("Hi"), END],
                 id="reasoning_details before text"),
    pytest.param(sse({"content": [{"type": "text", "text": "Hi"}, {"type": "x"}]}, stop()),
                 [TextDelta("Hi"), END], id="content in parts"),
    pytest.param(sse({"annotations": [1]}, {"role": "assistant", "channel": "x"}, stop()),
                 [RawEvent({"annotations": [1]}), END], id="unknown field"),
    pytest.param(sse({"choices": None, "prompt_filter_results": [1]}, {"choices": [None, {"delta": None}]}, stop()),
                 [RawEvent({"choices": None, "prompt_filter_results": [1]}), END], id="no choices, no delta"),
    pytest.param(sse({"choices": [{"index": 1, "delta": {"content": "no"}},
                                  {"index": "0", "delta": {"content": "yes"}}, {"delta": None}]}, stop()),
                 [TextDelta("yes"), END], id="several choices"),
    pytest.param(sse({"choices": [{"text": "a"}]}, {"choices": [{"text": "b", "finish_reason": "stop"}]}),
                 [TextDelta("a"), TextDelta("b"), Finish("end_turn", None, "stop")], id="legacy text"),
    pytest.param(sse({"content": "Hi"}, {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}),
                 [TextDelta("Hi"), END], id="message repeated at the end"),
    pytest.param(sse(*({"choices": [{"delta": {"content": piece}, "message": {"content": text}, "finish_reason": end}]}
                       for piece, text, end in (("", "", None), ("He", "He", None), ("llo", "Hello", None),
                                                ("", "Hello", "stop")))),
                 [TextDelta("He"), TextDelta("llo"), Finish("end_turn", None, "stop")],
                 id="message beside each delta"),
    pytest.param(sse({"choices": [{"delta": {"role": "assistant"}, "message": {"content": "H"}}]},
                     {"choices": [{"delta": {"content": ""}, "message": {"content": "Hi"}, "finish_reason": "stop"}]}),
                 [TextDelta("Hi"), Finish("end_turn", None, "stop")], id="message in place of the deltas"),
    pytest.param(sse({"content": "a"}, "noise", '"text"', "", {"content": "b"}, stop()),
                 [TextDelta("a"), RawEvent("noise", damaged=True), RawEvent("text", damaged=True),
                  TextDelta("b"), END], id="noise"),
    pytest.param(sse(CALL, "noise", stop()), [*CALLED[:2], RawEvent("noise", damaged=True), CALLED[2],
                                              Finish("tool_use", "m1", "stop")], id="noise in a call"),
    pytest.param(sse({"content": "a"}, '{"choices"', stop()),
                 [TextDelta("a"), RawEvent('{"choices"', damaged=True), END], id="damage in text"),
    pytest.param(sse({"content": "a"}, '{"choices":[{"delta":{"content":"\\ud83d \\ud83c\\udf89 \\\\"}}]}', stop()),
                 [TextDelta("a"), TextDelta("\ufffd 🎉 \\"), END], id="half a surrogate pair"),
    pytest.param(sse({"content": "a"}, '{"\\ud83d', stop()),
                 [TextDelta("a"), RawEvent('{"\\ud83d', damaged=True), END], id="half a pair, and damage"),
]  # fmt: skip


@pytest.mark.fault(1, 10, 43, 46, 49, 50, 55, 57, 59, 67, 95, 96, 97, 100)
@pytest.mark.parametrize(("stream", "expected"), STREAMS)
def test_streams(stream: bytes, expected: list[Event]) -> None:
    assert decode(stream) == expected


USAGES = [
    pytest.param([usage(prompt_tokens=9, completion_tokens=2, total_tokens=11)], Usage(9, 2), id="plain"),
    pytest.param([usage(prompt_tokens=9, completion_tokens=1), usage(completion_tokens=2, prompt_tokens=None)],
                 Usage(9, 2), id="the last of each field counts"),
    pytest.param([usage(prompt_tokens="9", completion_tokens=-2)], Usage(9, 0), id="text and negative"),
    pytest.param([usage(prompt_tokens=10**30, completion_tokens=True)], Usage(2**53, 0), id="huge and odd"),
    pytest.param(['{"usage":{"prompt_tokens":NaN,"completion_tokens":1e400}}'], Usage(0, 2**53), id="no numbers"),
    pytest.param([usage(prompt_tokens=9, completion_tokens=2,
                        prompt_tokens_details={"cached_tokens": 4, "cache_write_tokens": 3})],
                 Usage(9, 2, 4, 3), id="cache"),
    pytest.param([usage(prompt_tokens=9, completion_tokens=2, prompt_cache_hit_tokens=4)],
                 Usage(9, 2, 4), id="deepseek"),
    pytest.param([usage(prompt_tokens=9, completion_tokens=2, prompt_tokens_details={"cached_tokens": None},
                        num_cached_tokens=4)], Usage(9, 2, 4), id="mistral"),
    pytest.param([usage(prompt_tokens=9, completion_tokens=2, cached_tokens=4)], Usage(9, 2, 4), id="moonshot"),
    pytest.param([usage(prompt_tokens=9, completion_tokens=2, total_tokens=16,
                        completion_tokens_details={"reasoning_tokens": 5})], Usage(9, 7, reasoning_tokens=5), id="xai"),
    pytest.param([usage(prompt_tokens=9, completion_tokens=7, total_tokens=16,
                        completion_tokens_details={"reasoning_tokens": 5})],
                 Usage(9, 7, reasoning_tokens=5), id="thoughts inside"),
    pytest.param([{"choices": [{"delta": {}, "usage": {"prompt_tokens": 9}}]}], Usage(9), id="in the choice"),
    pytest.param([{"choices": [], "x_groq": {"usage": {"prompt_tokens": 9}}}], Usage(9), id="groq"),
    pytest.param([{"choices": [], "usage": "none"}], Usage(), id="no usage"),
]  # fmt: skip


@pytest.mark.fault(58)
@pytest.mark.parametrize(("chunks", "expected"), USAGES)
def test_usage(chunks: list[Any], expected: Usage) -> None:
    folded = Accumulator()
    reports = 0
    for event in decode(sse({"content": "Hi"}, *chunks, *chunks[-1:], stop(), None)):
        folded.apply(event)
        reports += isinstance(event, UsageReport)
    assert folded.usage == expected
    assert reports <= len(chunks)


def whole(message: dict[str, Any], **more: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop", **more}
    return json.dumps({"model": "m1", "choices": [choice], "usage": {"prompt_tokens": 9}}, indent=1).encode()


@pytest.mark.fault(31, 70)
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (whole({"content": "Hi"}), [TextDelta("Hi"), UsageReport(Usage(9)), END]),
        (whole({"content": "Hi"}, delta={"content": ""}), [TextDelta("Hi"), UsageReport(Usage(9)), END]),
        (whole({"content": ""}, delta={"content": "Hi"}), [TextDelta("Hi"), UsageReport(Usage(9)), END]),
        (whole({"content": "Hi"}, delta={"content": "Hi"}), [TextDelta("Hi"), UsageReport(Usage(9)), END]),
        (whole({"content": "Hi"}, text=""), [TextDelta("Hi"), UsageReport(Usage(9)), END]),
        (b"\n\n \xef\xbb\xbf" + whole({"content": "Hi"}), [TextDelta("Hi"), UsageReport(Usage(9)), END]),
        (
            whole({"content": None, **CALL}),
            [*CALLED[:2], UsageReport(Usage(9)), CALLED[2], Finish("tool_use", "m1", "stop")],
        ),
        (
            whole({"content": "Hi", "refusal": None}, finish_reason=None),
            [TextDelta("Hi"), UsageReport(Usage(9)), Finish("other", "m1")],
        ),
        (b"[" + whole({"content": "Hi"}) + b"]", [TextDelta("Hi"), UsageReport(Usage(9)), END]),
    ],
)
def test_one_document_gives_the_same_events(body: bytes, expected: list[Event]) -> None:
    assert decode(body) == expected


FAULT = {"message": "boom sk-secret", "type": "server_error"}
FAILURES = [
    pytest.param(b"", MalformedEvent, "is empty", id="nothing"),
    pytest.param(b" \n", MalformedEvent, "is empty", id="blank"),
    pytest.param(b"<html><b>Sign in</b></html>", MalformedEvent, "Sign in", id="html"),
    pytest.param(b"Not today", MalformedEvent, "Not today", id="text"),
    pytest.param(b"{}", MalformedEvent, "no chat completion", id="empty object"),
    pytest.param(b"[]", MalformedEvent, "no chat completion", id="empty list"),
    pytest.param(b"{oops}", MalformedEvent, "oops", id="no json"),
    pytest.param(b'{"choices":[', StreamTruncated, "broke off", id="half a document"),
    pytest.param(b'{"status":"ok"}', MalformedEvent, "no chat completion", id="another document"),
    pytest.param(b'{"error":{"message":"boom","type":"server_error"}}', ServerError, "boom", id="error document"),
    pytest.param(b": ping\n\n", StreamTruncated, "broke off", id="only a comment"),
    pytest.param(sse({"content": "a"}), StreamTruncated, "broke off", id="no end"),
    pytest.param(sse(CALL), StreamTruncated, "broke off", id="no end of a call"),
    pytest.param(sse({"content": "a"}) + b'data: {"choi', StreamTruncated, "broke off", id="half an event"),
    pytest.param(sse({"content": "a"}, stop()) + b'data: {"choi', StreamTruncated, "broke off", id="half, after stop"),
    pytest.param(sse({"content": "a"}) + b'data: {"choices":[{"delta":{"content":"\xc3', StreamTruncated, "broke off",
                 id="half a character"),
    pytest.param(sse({"content": "a"}, {"error": FAULT}, None), ServerError, "boom", id="error chunk"),
    pytest.param(sse({"content": "a"}, {"error": "boom"}), ServerError, "boom", id="error as text"),
    pytest.param(sse({"content": "a"}, {"error": {"code": 429, "message": "slow"}, "choices": [{"delta": {}}]}, None),
                 RateLimited, "slow", id="error beside choices"),
    pytest.param(sse({"content": "a"}, {"object": "error", "message": "boom"}, None), ServerError, "boom", id="vllm"),
    pytest.param(sse({"content": "a"}, {"choices": [], "x_groq": {"error": "boom"}}), ServerError, "boom", id="groq"),
    pytest.param(sse({"content": "a"}, {"detail": "boom"}), ServerError, "boom", id="detail"),
    pytest.param(sse({"content": "a"}) + b'event: error\ndata: {"error":{"code":503,"message":"boom"}}\n\n',
                 Overloaded, "boom", id="error event"),
    pytest.param(sse({"content": "a"}) + b'error: {"code":500,"message":"boom"}\n\n', ServerError, "boom",
                 id="error field"),
    pytest.param(sse({"content": "a"}) + b"event: error\ndata: boom\n\n", ServerError, "boom", id="error in words"),
    pytest.param(sse({"content": "a"}) + b'data: {"x":"\xff"}\n\n', MalformedEvent, "UTF-8", id="no utf-8"),
    pytest.param(sse(CALL, '{"choices"', stop(), None), MalformedEvent, "lack a piece", id="damage in a call"),
    pytest.param(sse({"content": "a"}, '{"choices":[{"delta":{"tool_calls":', stop()), MalformedEvent, "lack a piece",
                 id="damage before a call"),
    pytest.param(sse({"content": "a"},
                     *[{"tool_calls": [{"index": i, "function": {"name": "f"}}]} for i in range(1001)]),
                 LimitExceeded, "1000", id="too many calls"),
]  # fmt: skip


@pytest.mark.fault(2, 9, 28, 29, 51, 52, 99)
@pytest.mark.parametrize(("body", "kind", "words"), FAILURES)
def test_failures(body: bytes, kind: type[LLMError], words: str) -> None:
    with pytest.raises(Ended, match=words) as caught:
        decode(body)
    assert caught.value.kind is kind
    assert "secret" not in str(caught.value)
    assert not any(isinstance(event, (ToolCallDone, Finish)) for event in caught.value.events)
    if body.startswith(b"data"):
        assert caught.value.events


def test_a_document_over_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcast.providers.chat_completions.decoder.OpenAIChatDecoder.longest", 8)
    with pytest.raises(LimitExceeded, match="8 bytes"):
        decoder().feed(b'{"a":123456')


TAGGED = [
    (["<think>Hm</think>\n\nHi"], [ThinkingDelta("Hm"), TextDelta("Hi")]),
    (["\n<th", "ink>H", "m</", "think", ">Hi"], [ThinkingDelta("H"), ThinkingDelta("m"), TextDelta("Hi")]),
    (["<think>Hm</think>", "\n", "\nHi", "\n"], [ThinkingDelta("Hm"), TextDelta("Hi"), TextDelta("\n")]),
    (["<think></think>", "Hi", "<think>"], [TextDelta("Hi"), TextDelta("<think>")]),
    (["<think>a </b", " </"], [ThinkingDelta("a </b"), ThinkingDelta(" "), ThinkingDelta("</")]),
    (["<th", "e>"], [TextDelta("<the>")]),
    (["<th"], [TextDelta("<th")]),
    (["Hi <think>"], [TextDelta("Hi <think>")]),
]


@pytest.mark.parametrize(("texts", "expected"), TAGGED)
def test_thoughts_between_tags(texts: list[str], expected: list[Event]) -> None:
    stream = sse(*({"content": text} for text in texts), stop())
    assert decode(stream, think_tags=True) == [*expected, END]


PIECES = st.sampled_from([
    b"data: ", b"data:", b"\n\n", b"\r\n", b"\r", b"event: error\n", b"[DONE]", b"{", b"}", b": x\n", b"\xff",
    b"\xef\xbb\xbf", sse({"content": "a"}), sse(CALL), sse(stop()), sse(None), sse(usage(prompt_tokens=1)),
    b'{"error":', b"null", b"<html>", b'data: {"choices":', b'[{"delta":', b'{"tool_calls":', b'{"content":',
    b'"\\ud83d"', b"]", b"1e999", b'"choices"', b":",
])  # fmt: skip


@pytest.mark.gate("G1")
@given(pieces=st.lists(PIECES | st.binary(max_size=6), max_size=14))
def test_any_bytes_give_events_or_one_error(pieces: list[bytes]) -> None:
    separate = outcome(pieces, False)
    assert outcome([b"".join(pieces)], False) == separate
    events, error = separate
    assert (error is None) == (bool(events) and isinstance(events[-1], Finish))


ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(["", "x", "stop", "f", "{"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "message",
                    "text",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "index",
                    "id",
                    "usage",
                    "prompt_tokens",
                    "error",
                    "finish_reason",
                    "reasoning",
                    "reasoning_details",
                    "function_call",
                    "refusal",
                    "object",
                    "model",
                    "x_groq",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


FIELDS = st.sampled_from(["content", "tool_calls", "reasoning", "reasoning_details", "function_call", "refusal"])


@given(chunks=st.lists(ODD, max_size=4), delta=st.dictionaries(FIELDS, ODD, max_size=3))
def test_any_json_gives_events_or_one_error(chunks: list[Any], delta: dict[str, Any]) -> None:
    body = sse(*(json.dumps(chunk) for chunk in chunks), {"choices": [{"delta": delta}]}, stop(), None)
    assert outcome([body], False) == outcome([body[at : at + 7] for at in range(0, len(body), 7)], False)
