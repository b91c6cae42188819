"""What a response has besides its content, of every provider: its id, the service's own data, and all token counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from support.sync_and_async import API
from support.turns import PROTOCOLS, Turn, sse
from toolcast import Anthropic, Cohere, FunctionCallingLLM, Google, Mistral, Ollama, OpenAI, OpenAIResponses, Usage
from toolcast.events import Finish
from toolcast.llms import UsageDetails
from toolcast.testing import Recorded, ReplayNetwork

JSON, EVENTS = {"content-type": "application/json"}, {"content-type": "text/event-stream"}
LLMS: dict[str, Callable[..., FunctionCallingLLM]] = {
    "chat": partial(OpenAI, api="chat"),
    "responses": OpenAIResponses,
    "anthropic": Anthropic,
    "google": Google,
    "mistral": Mistral,
    "ollama": Ollama,
    "cohere": Cohere,
}
HELLO = Turn(thought="Hm, hm.", text="Hello there.")
each = pytest.mark.parametrize("name", LLMS)
ID_FIELDS = {"chat": "id", "mistral": "id", "google": "responseId", "responses": "id", "anthropic": "id"}
IDS = {"chat": "chatcmpl-7", "mistral": "cmpl-7", "google": "r-7", "responses": "resp_1", "anthropic": "msg_1"}
IDS["cohere"] = json.loads(PROTOCOLS["cohere"].whole(Turn(text="Hi")))["id"]


def llm_of(name: str, *answers: Recorded, **options: Any) -> FunctionCallingLLM:
    return LLMS[name]("m", api_key="k", network=ReplayNetwork(*answers), max_retries=0, **options)


def with_id(name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {**data, ID_FIELDS[name]: IDS[name]} if name in ("chat", "mistral", "google") else data


def body(name: str) -> dict[str, Any]:
    return with_id(name, json.loads(PROTOCOLS[name].whole(HELLO)))


def frames(name: str) -> list[Any]:
    """The data of the events of a stream."""
    data = b"".join(PROTOCOLS[name].stream(HELLO)).replace(b"\r\n", b"\n")
    if name == "ollama":
        return [json.loads(line) for line in data.splitlines()]
    lines = [line.removeprefix(b"data: ") for line in data.split(b"\n") if line.startswith(b"data: {")]
    return [with_id(name, json.loads(line)) for line in lines]


def stream(name: str) -> Recorded:
    if name == "ollama":
        return Recorded(PROTOCOLS[name].stream(HELLO))
    done = [b"data: [DONE]\n\n"] if name in ("chat", "mistral") else []
    return Recorded([*sse(*frames(name), names=name in ("responses", "anthropic")), *done], headers=EVENTS)


@each
def test_a_complete_response_has_its_body_and_id(name: str, api: API) -> None:
    response = api.chat(llm_of(name, Recorded([json.dumps(body(name)).encode()], headers=JSON)), "Hi")
    assert response.text == "Hello there."
    assert response.raw == body(name)
    assert response.response_id == IDS.get(name)  # Ollama has none
    assert "raw" not in repr(response)


@each
def test_a_stream_has_an_id_and_no_raw_data(name: str, api: API) -> None:
    finish = api.events(llm_of(name, stream(name)), "Hi")[-1]
    assert isinstance(finish, Finish)
    assert (finish.response_id, finish.body) == (IDS.get(name), None)


@each
def test_keep_raw_keeps_the_events_of_a_stream(name: str, api: API) -> None:
    finish = api.events(llm_of(name, stream(name), keep_raw=True), "Hi")[-1]
    assert isinstance(finish, Finish)
    assert finish.body == frames(name)


@each
def test_the_response_of_a_stream_has_them(name: str) -> None:
    with llm_of(name, stream(name), keep_raw=True).stream_chat("Hi") as events:
        list(events)
    assert (events.response.raw, events.response.response_id) == (frames(name), IDS.get(name))


def test_what_is_no_json_is_kept_as_text(caplog: pytest.LogCaptureFixture) -> None:
    pieces = [b"data: {broken\n\n", *PROTOCOLS["chat"].stream(HELLO)]
    with llm_of("chat", Recorded(pieces, headers=EVENTS), keep_raw=True).stream_chat("Hi") as events:
        list(events)
    assert events.response.raw[0] == "{broken"


def test_a_document_in_answer_to_a_stream_is_kept_as_it_is() -> None:
    whole = Recorded([json.dumps(body("chat")).encode()], headers=JSON)
    with llm_of("chat", whole, keep_raw=True).stream_chat("Hi") as events:
        list(events)
    assert events.response.raw == body("chat")


def test_keep_raw_is_a_flag() -> None:
    with pytest.raises(TypeError, match="keep_raw: expected True or False"):
        OpenAI("m", api="chat", keep_raw="no")  # type: ignore[arg-type]  # the error is the subject


# Token counts.

CHAT = {"prompt_tokens": 100, "completion_tokens": 50}
RESPONSES = {"input_tokens": 100, "output_tokens": 50}
GOOGLE = {"promptTokenCount": 100, "candidatesTokenCount": 30, "thoughtsTokenCount": 20}
ANTHROPIC = {"input_tokens": 60, "output_tokens": 50}
USAGES: list[tuple[str, dict[str, Any], Usage]] = [
    ("chat", CHAT | {"completion_tokens_details": {"reasoning_tokens": 20}}, Usage(100, 50, reasoning_tokens=20)),
    ("chat", CHAT | {"reasoning_tokens": 20}, Usage(100, 50, reasoning_tokens=20)),  # Perplexity
    (
        "chat",
        CHAT | {"total_tokens": 170, "completion_tokens_details": {"reasoning_tokens": 20}},
        Usage(100, 70, reasoning_tokens=20),
    ),  # xAI
    (
        "chat",
        CHAT | {"prompt_tokens_details": {"audio_tokens": 7}, "completion_tokens_details": {"audio_tokens": 3}},
        Usage(100, 50, audio_tokens=10, details=UsageDetails(input_audio_tokens=7, output_audio_tokens=3)),
    ),
    (
        "chat",
        CHAT
        | {
            "prompt_tokens_details": {"image_tokens": 8, "video_tokens": 9, "text_tokens": 83},
            "completion_tokens_details": {
                "accepted_prediction_tokens": 4,
                "rejected_prediction_tokens": 5,
                "image_tokens": 6,
            },
            "server_tool_use": {"web_search_requests": 2},
        },
        Usage(
            100,
            50,
            details=UsageDetails(
                input_image_tokens=8,
                input_video_tokens=9,
                output_image_tokens=6,
                accepted_prediction_tokens=4,
                rejected_prediction_tokens=5,
                web_searches=2,
            ),
        ),
    ),
    ("chat", CHAT | {"num_search_queries": 3}, Usage(100, 50, details=UsageDetails(web_searches=3))),  # Perplexity
    ("chat", CHAT | {"prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 5}}, Usage(100, 50, 40, 5)),
    ("mistral", CHAT | {"num_cached_tokens": 40}, Usage(100, 50, 40)),
    ("responses", RESPONSES | {"output_tokens_details": {"reasoning_tokens": 20}}, Usage(100, 50, reasoning_tokens=20)),
    (
        "responses",
        RESPONSES | {"input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 5, "audio_tokens": 7}},
        Usage(100, 50, 40, 5, audio_tokens=7, details=UsageDetails(input_audio_tokens=7)),
    ),
    (
        "responses",
        RESPONSES
        | {
            "input_tokens_details": {
                "cache_write_tokens": 9,
                "cache_write_tokens_details": {"ttl_30m_tokens": 4, "ttl_12h_tokens": 5},
            },
            "server_side_tool_usage_details": {"web_search_calls": 1, "code_interpreter_calls": 2, "mcp_calls": 0},
        },
        Usage(
            100,
            50,
            0,
            9,
            details=UsageDetails(
                cache_creation_30m_tokens=4, cache_creation_12h_tokens=5, web_searches=1, code_executions=2
            ),
        ),
    ),
    (
        "anthropic",
        ANTHROPIC | {"cache_read_input_tokens": 30, "cache_creation_input_tokens": 10},
        Usage(100, 50, 30, 10),
    ),
    (
        "anthropic",
        ANTHROPIC
        | {
            "cache_creation_input_tokens": 12,
            "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 7},
            "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1},
        },
        Usage(
            72,
            50,
            0,
            12,
            details=UsageDetails(cache_creation_5m_tokens=5, cache_creation_1h_tokens=7, web_searches=2, web_fetches=1),
        ),
    ),
    ("anthropic", ANTHROPIC | {"output_tokens_details": {"thinking_tokens": 20}}, Usage(60, 50, reasoning_tokens=20)),
    ("google", GOOGLE | {"cachedContentTokenCount": 40}, Usage(100, 50, 40, reasoning_tokens=20)),
    (
        "google",
        GOOGLE
        | {
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 90}, {"modality": "AUDIO", "tokenCount": 10}],
            "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 2}, {"modality": "IMAGE", "tokenCount": 2}],
            "toolUsePromptTokenCount": 9,
            "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 5}, {"modality": "AUDIO"}, None],
        },
        Usage(
            109,
            50,
            reasoning_tokens=20,
            audio_tokens=15,
            details=UsageDetails(
                input_audio_tokens=10, output_audio_tokens=5, cache_read_audio_tokens=2, tool_input_tokens=9
            ),
        ),
    ),
]


@pytest.mark.parametrize(("name", "reported", "usage"), USAGES)
def test_every_count_that_a_provider_reports(name: str, reported: dict[str, Any], usage: Usage, api: API) -> None:
    answer = {**body(name), "usageMetadata" if name == "google" else "usage": reported}
    response = api.chat(llm_of(name, Recorded([json.dumps(answer).encode()], headers=JSON)), "Hi")
    assert response.usage == usage


@pytest.mark.parametrize(
    ("name", "fields", "reported", "tier", "cost"),
    [
        ("chat", {"service_tier": "priority"}, CHAT, "priority", None),
        ("chat", {"service_tier": None}, CHAT | {"cost": 0.25}, None, "0.25"),  # OpenRouter
        ("chat", {}, CHAT | {"cost": {"total_cost": 0.006, "request_cost": 0.005}}, None, "0.006"),  # Perplexity
        ("chat", {}, CHAT | {"cost_in_usd_ticks": 37756000}, None, "0.0037756"),  # xAI
        ("chat", {}, CHAT | {"cost": -1, "cost_in_usd_ticks": "many"}, None, None),
        ("responses", {"service_tier": "flex"}, RESPONSES | {"cost_in_usd_ticks": 200000000}, "flex", "0.02"),
        ("anthropic", {}, ANTHROPIC | {"service_tier": "standard"}, "standard", None),
        ("google", {}, GOOGLE | {"trafficType": "ON_DEMAND"}, "ON_DEMAND", None),
    ],
)
def test_the_tier_and_the_cost_that_a_provider_reports(
    name: str, fields: dict[str, Any], reported: dict[str, Any], tier: str | None, cost: str | None, api: API
) -> None:
    answer = {**body(name), **fields, "usageMetadata" if name == "google" else "usage": reported}
    response = api.chat(llm_of(name, Recorded([json.dumps(answer).encode()], headers=JSON)), "Hi")
    assert response.usage.details.service_tier == tier
    assert response.usage.cost == (None if cost is None else Decimal(cost))
