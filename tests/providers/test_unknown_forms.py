"""Chunks of an unknown form beside good ones: a known field of another type is an error that shows it, in each decoder.

Unknown events and unknown fields are passed on, as services add some every month.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcast.errors import MalformedEvent
from toolcast.events import Event, RawEvent, TextDelta
from toolcast.messages import user
from toolcast.providers.anthropic.adapter import AnthropicAdapter
from toolcast.providers.base import RequestInput
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import SERVICES
from toolcast.providers.cohere.adapter import CohereAdapter
from toolcast.providers.google.adapter import GoogleAdapter
from toolcast.providers.http_adapter import HTTPAdapter
from toolcast.providers.mistral.adapter import MistralAdapter
from toolcast.providers.ollama.adapter import OllamaAdapter
from toolcast.providers.openai.adapter import OpenAIResponsesAdapter
from toolcast.values.credentials import Secret

KEY = Secret("k")
OLLAMA, ANTHROPIC, GOOGLE = OllamaAdapter(), AnthropicAdapter(api_key=KEY), GoogleAdapter(api_key=KEY)
CHAT = OpenAIChatAdapter(SERVICES["openai"], api_key=KEY)
MISTRAL, COHERE = MistralAdapter(api_key=KEY), CohereAdapter(api_key=KEY)
RESPONSES = OpenAIResponsesAdapter(SERVICES["openai"], api_key=KEY)
CALL = {"function": {"name": "look", "arguments": {}}}


def events_of(adapter: HTTPAdapter, *chunks: Any, accept_damaged: bool = False) -> list[Event]:
    """Return the events of these chunks, in the frames of the service."""
    request = RequestInput("m", (user("Hello."),), accept_damaged=accept_damaged)
    decoder = adapter.protocol_decoder(adapter._error_source("m"), request)
    frame = "%s\n" if isinstance(adapter, OllamaAdapter) else "data: %s\n\n"
    return [event for chunk in chunks for event in decoder.feed((frame % json.dumps(chunk)).encode())]


def choice(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


GOOD: dict[HTTPAdapter, Any] = {
    OLLAMA: {"message": {"content": "Hello"}},
    CHAT: choice(content="Hello"),
    MISTRAL: choice(content="Hello"),
    GOOGLE: {"candidates": [{"content": {"parts": [{"text": "Hello"}]}}]},
    ANTHROPIC: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    COHERE: {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Hello"}}}},
}

WRONG: list[tuple[HTTPAdapter, Any]] = [
    (OLLAMA, {"foo": 1}),
    (OLLAMA, {"message": 5}),
    (OLLAMA, {"message": "text"}),
    (OLLAMA, {"message": {"content": 5}}),
    (OLLAMA, {"message": {"thinking": ["a"]}}),
    (OLLAMA, {"response": 5}),
    (OLLAMA, {"message": {"tool_calls": CALL}}),
    (OLLAMA, {"message": {"tool_calls": json.dumps([CALL])}}),
    (OLLAMA, {"message": {"tool_calls": [{"function": "look"}]}}),
    (OLLAMA, {"message": {"tool_calls": [{"function": {"name": 5}}]}}),
    (CHAT, {"choices": {"delta": {"content": "a"}}}),
    (CHAT, {"choices": ["a"]}),
    (CHAT, {"choices": [{"delta": "a"}]}),
    (CHAT, {"choices": [{"message": "a"}]}),
    (CHAT, choice(content=5)),
    (CHAT, choice(content=["a"])),
    (CHAT, choice(tool_calls=json.dumps([CALL]))),
    (CHAT, choice(tool_calls=["look"])),
    (MISTRAL, choice(content=5)),
    (MISTRAL, choice(content=["a"])),
    (GOOGLE, {"candidates": {"content": {"parts": [{"text": "a"}]}}}),
    (GOOGLE, {"candidates": [{"content": "a"}]}),
    (GOOGLE, {"candidates": [{"content": {"parts": "a"}}]}),
    (GOOGLE, {"candidates": [{"content": {"parts": [{"text": 5}]}}]}),
    (GOOGLE, {"candidates": [{"content": {"parts": [{"functionCall": "look"}]}}]}),
    (ANTHROPIC, {"type": "content_block_delta", "index": 0, "delta": "a"}),
    (ANTHROPIC, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}}),
    (ANTHROPIC, {"type": "content_block_start", "index": 1, "content_block": "a"}),
    (COHERE, {"type": "content-delta", "index": 0, "delta": {"message": {"content": "a"}}}),
    (COHERE, {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": 5}}}}),
    (RESPONSES, {"type": "response.output_item.added", "output_index": 0, "item": "a"}),
]


def form_id(case: tuple[HTTPAdapter, Any]) -> str:
    return f"{case[0].provider}-{json.dumps(case[1])[:60]}"


@pytest.mark.parametrize(("adapter", "chunk"), WRONG, ids=map(form_id, WRONG))
def test_a_known_field_of_another_type_is_an_error_that_shows_it(adapter: HTTPAdapter, chunk: Any) -> None:
    before = [GOOD[adapter]] if adapter in GOOD else []
    with pytest.raises(
        MalformedEvent, match=r"unknown form: .*: expected .*, got .+\. Send the request again"
    ) as found:
        events_of(adapter, *before, chunk)
    assert len(str(found.value)) < 500


@pytest.mark.parametrize(("adapter", "chunk"), WRONG, ids=map(form_id, WRONG))
def test_where_damage_is_accepted_the_rest_is_read(adapter: HTTPAdapter, chunk: Any) -> None:
    after = [GOOD[adapter]] if adapter in GOOD else []
    events = events_of(adapter, chunk, *after, accept_damaged=True)
    assert any(isinstance(event, RawEvent) and event.damaged for event in events)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hello"] * len(after)


def test_the_error_shows_the_kind_of_a_chunk_and_no_text_of_the_model() -> None:
    for message, shown in ((["hunter2" * 5], "a list"), ({"text": "hunter2"} | dict.fromkeys("abc", 1), "'text', 'a'")):
        with pytest.raises(MalformedEvent) as found:
            events_of(OllamaAdapter(), {"message": {"role": "assistant", "content": message}})
        assert shown in str(found.value)
        assert "hunter2" not in str(found.value)


@pytest.mark.parametrize(
    ("adapter", "chunk"),
    [
        (OLLAMA, {"model": "m", "progress": 1}),
        (CHAT, {"object": "chat.completion.heartbeat"}),
        (CHAT, choice(content="", novelty={"a": 1})),
        (GOOGLE, {"novelty": 1}),
        (ANTHROPIC, {"type": "novelty", "delta": 5}),
        (COHERE, {"type": "novelty"}),
        (RESPONSES, {"type": "response.novelty", "item": 5}),
    ],
)
def test_unknown_events_and_fields_are_passed_on(adapter: HTTPAdapter, chunk: Any) -> None:
    assert [type(event) for event in events_of(adapter, chunk)] == [RawEvent]
