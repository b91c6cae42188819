"""Recorded chat-completions streams of many services: one answer for every cut, none for a truncated one.

The recorded requests are taken apart into toolcast's own messages and settings, and made again from them: what comes
out otherwise is in `DIFFERENCES`, with the reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.recordings import Recorded, beside, differences
from support.shared_data import needs_shared, recordings
from toolcast.errors import EmptyResponse
from toolcast.events import Finish, TextDelta, UsageReport
from toolcast.messages import ImagePart, Message, Part, TextPart, ToolCallPart, ToolResultPart
from toolcast.providers.base import RequestInput
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import GENERIC, SERVICES, ServiceSpec
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool, ToolSpec
from toolcast.values.usage import Usage

FILES = sorted({path.name: path for path in recordings("openai-chat")}.values())


def ends(chunk: dict[str, Any]) -> bool:
    return any(choice.get("finish_reason") for choice in chunk.get("choices") or ())


CHAT = Recorded(OpenAIChatAdapter(GENERIC), FILES, ends)


@needs_shared
def test_the_recordings_are_there() -> None:
    assert len(FILES) > 100


@needs_shared
@CHAT.every_answer
def test_decodes_to_one_response(name: str) -> None:
    events = CHAT.decode(CHAT.answers[name])
    assert isinstance(events[-1], Finish)
    assert sum(isinstance(event, Finish) for event in events) == 1
    response = CHAT.response(CHAT.answers[name])
    assert response.message.parts
    assert response.model
    for call in response.message.tool_calls:
        assert isinstance(json.loads(call.arguments), dict)
        assert not call.truncated
        assert call.name
    assert (response.stop_reason == "tool_use") == bool(response.message.tool_calls)


@pytest.mark.nightly
@pytest.mark.gate("G2")
@needs_shared
@CHAT.every_answer
def test_every_cut_gives_the_same_events(name: str) -> None:
    CHAT.check_cuts(name)


@pytest.mark.slow
@pytest.mark.gate("G2")
@needs_shared
@CHAT.every_answer
def test_one_cut_leaves_no_trace(name: str) -> None:
    CHAT.check_single_cuts(name)


@pytest.mark.slow
@pytest.mark.gate("G10")
@needs_shared
@CHAT.every_answer
def test_truncated_at_every_event_border(name: str) -> None:
    CHAT.check_borders(name)


@needs_shared
@pytest.mark.parametrize(
    ("part", "stop_reason", "raw", "text"),
    [
        ("tools_streaming_variant_b", "tool_use", None, ""),
        ("snowflake_model_streaming", "other", None, "4"),
        ("173417d5", "refusal", "stop", "I'm sorry, I can't assist with that request."),
        ("4cc50a61", "max_tokens", "length", '{"'),
        ("moonshotai-stream", "end_turn", "stop", "Hello!"),
        ("openai-completion-text", "max_tokens", "length", "The holiday"),
    ],
)
def test_how_it_ended(part: str, stop_reason: str, raw: str | None, text: str) -> None:
    events = CHAT.decode(CHAT.named(part))
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert (finish.stop_reason, finish.raw) == (stop_reason, raw)
    assert CHAT.response(CHAT.named(part)).text.strip().startswith(text)


@needs_shared
def test_usage_that_comes_with_every_chunk_counts_once() -> None:
    events = CHAT.decode(CHAT.named("perplexity-text"))
    reports = [event.usage for event in events if isinstance(event, UsageReport)]
    assert len(reports) > 3
    assert CHAT.response(CHAT.named("perplexity-text")).usage == reports[-1]


@needs_shared
def test_thoughts_that_the_completion_does_not_count() -> None:
    assert CHAT.response(CHAT.named("xai.xai-text")).usage.output_tokens > 100


@needs_shared
def test_reasoning_details_are_stored_for_the_next_turn() -> None:
    thought = CHAT.response(CHAT.named("openrouter_streaming_reasoning")).message.parts[0]
    assert thought.type == "thinking"
    assert thought.text.startswith("This is a simple arithmetic question. ")
    assert thought.opaque is not None
    (detail,) = thought.opaque["reasoning_details"]
    assert detail["text"] == thought.text
    assert len(detail["signature"]) > 50


@needs_shared
def test_only_the_first_of_several_choices_is_read() -> None:
    events = CHAT.decode(CHAT.named("a491adda"))
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert isinstance(json.loads(text), dict)


def test_usage_defaults_to_nothing() -> None:
    chunk = b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'
    assert CHAT.response(b"%bdata: [DONE]\n\n" % chunk).usage == Usage()


def test_no_choice_is_an_empty_response() -> None:
    for body in (b'data: {"choices":[]}\n\ndata: [DONE]\n\n', b"data: [DONE]\n\n", b'{"choices":[]}'):
        with pytest.raises(EmptyResponse, match="'choices' lists none"):
            CHAT.response(body)


# -- requests: each recorded body, written as messages and settings, is sent again

REQUESTS = CHAT.with_a("request")
DIFFERENCES = {
    "stream_options": "The usage is always asked for, where the service knows how.",
    "parallel_tool_calls": "Always sent, where the service supports it.",
    "max_tokens": "OpenAI takes it by its new name alone for newer models, and for all others too.",
    "max_completion_tokens": "The new name of `max_tokens`.",
    "tool_choice": "For a service that accepts no tool name, a tool is required and only that one is sent.",
    "reasoning.exclude": "Thoughts are not excluded unless `extra` has it.",
    "tools": "Where there is no tool nothing is sent, instead of an empty list.",
    "tools[].function.description": "Empty where there is none, instead of left out.",
    "tools[].function.strict": "True wherever the service knows it and the schema can be strict.",
    "tools[].function.parameters.additionalProperties": "Required in a strict schema.",
    "tools[].function.parameters.required": "Required in a strict schema, also where it is empty.",
    "tools[].function.parameters.$defs.Answer.required[]": "A strict schema requires all fields, in their order.",
    "tools[].function.parameters.properties.value.default": "A strict schema knows no defaults.",
    "tools[].function.parameters.properties.value.description": "It has the default that the schema cannot have.",
    "messages[].content": "Null beside tool calls; and texts in a row are one text, without marks for a cache.",
    "messages[].name": "Users have no names; here it was null.",
    "messages[].tool_calls": "Those of a user, which were null.",
    "messages[].tool_calls[].index": "The place in the stream; it has no meaning in a message.",
    "messages[].tool_calls[].function.parsed_arguments": "A field of the client's own, sent along by mistake.",
    "messages[].parsed": "A field of the client's own, sent along by mistake.",
    "messages[].refusal": "Not sent where it is null.",
    "messages[].annotations": "Not sent where it is null.",
    "messages[].audio": "Not sent where it is null.",
    "messages[].function_call": "Not sent where it is null; the old form of a tool call.",
}
HOSTS = {urlsplit(row.base_url).netloc.replace(":", "-"): row for row in SERVICES.values() if row is not GENERIC}
SETTINGS = ("temperature", "seed", "max_tokens")
OURS = (*SETTINGS, "messages", "model", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls")


def conversation_of(body: dict[str, Any]) -> RequestInput:
    """The messages and tools of a recorded body."""
    functions = [tool["function"] for tool in body.get("tools", ()) if tool["type"] == "function"]
    tools = [ToolSpec(one["name"], one.get("description", ""), one["parameters"]) for one in functions]
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        choice = NamedTool(choice["function"]["name"])
    messages = tuple(map(read_message, body["messages"]))
    parallel = body.get("parallel_tool_calls", True)
    return RequestInput(body["model"], messages, tuple(tools), choice, parallel, body["stream"])


def read_message(message: dict[str, Any]) -> Message:
    content = message.get("content") or []
    if message["role"] == "tool":
        return Message("tool", (ToolResultPart(message["tool_call_id"], content),))
    parts: list[Part] = [TextPart(content)] if isinstance(content, str) else [read_part(part) for part in content]
    for call in message.get("tool_calls") or ():
        parts.append(ToolCallPart(call["id"], call["function"]["name"], call["function"]["arguments"]))
    return Message(message["role"], tuple(parts))


def read_part(part: dict[str, Any]) -> Part:
    return TextPart(part["text"]) if part["type"] == "text" else ImagePart(**part["image_url"])


def settings_of(body: dict[str, Any], service: ServiceSpec) -> Settings:
    """The settings of a recorded body; those unknown to toolcast as `extra`."""
    extra = {name: value for name, value in body.items() if name not in OURS}
    if any(tool["type"] != "function" for tool in body.get("tools", ())):
        extra["tools"] = body["tools"]
    thinking = extra.pop("reasoning", {}) if service.thinking_in == "reasoning" else {}
    mine = {name: body.get(name) for name in SETTINGS}
    return Settings(**mine, thinking=thinking.get("effort", thinking.get("enabled")), extra=extra or None)


def found_differences(path: Path) -> set[str]:
    body = json.loads(beside(path, "request").read_bytes())
    service = HOSTS.get(path.name.partition(".test_")[0], GENERIC)
    request = OpenAIChatAdapter(service).request(conversation_of(body), settings_of(body, service))
    assert [note for note in request.notes if "get_current_weather ('location' can be anything)" not in note] == []
    return set(differences(body, json.loads(request.body), lambda item: False))


@needs_shared
@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.name)
def test_recorded_requests_are_made_again(path: Path) -> None:
    assert found_differences(path) <= DIFFERENCES.keys()


@needs_shared
def test_each_difference_is_found_somewhere() -> None:
    assert len(REQUESTS) > 100
    assert {name for path in REQUESTS for name in found_differences(path)} == DIFFERENCES.keys()
