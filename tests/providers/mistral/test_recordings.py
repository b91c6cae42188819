"""Recorded Mistral streams: one answer for every cut, none for a truncated one; and the requests that made them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.recordings import Recorded, beside
from support.shared_data import needs_shared, recordings
from toolcast.events import Finish
from toolcast.messages import Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, user
from toolcast.providers.base import RequestInput
from toolcast.providers.mistral.adapter import MistralAdapter
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import ToolSpec

MISTRAL = Recorded(
    MistralAdapter(), recordings("mistral-chat"), lambda chunk: chunk.get("choices", [{}])[0].get("finish_reason")
)


@needs_shared
def test_the_recordings_are_there() -> None:
    assert len(MISTRAL.answers) > 12


@needs_shared
@MISTRAL.every_answer
def test_decodes_to_one_response(name: str) -> None:
    events = MISTRAL.decode(MISTRAL.answers[name])
    assert isinstance(events[-1], Finish)
    assert sum(isinstance(event, Finish) for event in events) == 1
    response = MISTRAL.response(MISTRAL.answers[name])
    assert response.message.text or response.message.tool_calls
    assert response.model
    for call in response.message.tool_calls:
        assert isinstance(json.loads(call.arguments), dict)
        assert not call.truncated
        assert len(call.id) == 9
    assert (response.stop_reason == "tool_use") == bool(response.message.tool_calls)
    assert response.usage.input_tokens
    assert response.usage.output_tokens


@pytest.mark.slow
@pytest.mark.gate("G2")
@needs_shared
@MISTRAL.every_answer
def test_every_cut_gives_the_same_events(name: str) -> None:
    MISTRAL.check_cuts(name)


@pytest.mark.slow
@pytest.mark.gate("G2")
@needs_shared
@MISTRAL.every_answer
def test_one_cut_leaves_no_trace(name: str) -> None:
    MISTRAL.check_single_cuts(name)


@pytest.mark.slow
@pytest.mark.gate("G10")
@needs_shared
@MISTRAL.every_answer
def test_truncated_at_every_event_border(name: str) -> None:
    MISTRAL.check_borders(name)


@needs_shared
@pytest.mark.parametrize("name", ["thinking_part_iter", "mistral-reasoning"])
def test_thoughts_go_back_as_they_came(name: str) -> None:
    message = MISTRAL.response(MISTRAL.named(name)).message
    thought, text = message.parts
    assert isinstance(thought, ThinkingPart)
    assert isinstance(text, TextPart)
    chunk = {"type": "thinking", "thinking": [{"type": "text", "text": thought.text}]}
    assert thought.text
    assert thought.opaque is not None
    kept = thought.opaque["mistral"]
    assert {name: kept[name] for name in chunk} == chunk
    request = MistralAdapter().request(RequestInput("magistral-medium-latest", (user("x"), message)), Settings())
    assert json.loads(request.body)["messages"][1] == {
        "role": "assistant",
        "content": [kept, {"type": "text", "text": text.text}],
    }


TWINS = MISTRAL.with_a("response")


@needs_shared
@pytest.mark.parametrize("path", TWINS, ids=lambda path: path.name)
def test_the_answer_in_one_piece_is_the_same(path: Path) -> None:
    assert MISTRAL.response(beside(path, "response").read_bytes()) == MISTRAL.response(MISTRAL.answers[path.name])


# -- requests: each recorded body, written as messages and settings, is sent again

REQUESTS = MISTRAL.with_a("request")
DIFFERENCES = {"parallel_tool_calls": "sent with tools: toolcast always sets it"}


def read_request(body: dict[str, Any]) -> RequestInput:
    """The messages and tools of a recorded body."""
    assert body.keys() <= {"messages", "model", "stream", "tools", "tool_choice"}
    tools = [
        ToolSpec(tool["function"]["name"], tool["function"].get("description", ""), tool["function"]["parameters"])
        for tool in body.get("tools", ())
    ]
    choice = {"any": "required"}.get(body.get("tool_choice", ""))
    return RequestInput(body["model"], tuple(map(read_message, body["messages"])), tuple(tools), choice)


def read_message(message: dict[str, Any]) -> Message:
    if message["role"] == "tool":
        return Message("tool", (ToolResultPart(message["tool_call_id"], message["content"]),))
    parts: list[Part] = [TextPart(message["content"])] if "content" in message else []
    for call in message.get("tool_calls", ()):
        parts.append(ToolCallPart(call["id"], call["function"]["name"], call["function"]["arguments"]))
    return Message(message["role"], tuple(parts))


@needs_shared
@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.name)
def test_the_request_is_sent_again(path: Path) -> None:
    recorded = json.loads(beside(path, "request").read_bytes())
    made = json.loads(MistralAdapter().request(read_request(recorded), Settings()).body)
    assert made == recorded | ({"parallel_tool_calls": False} if "tools" in recorded else {})
    assert made.keys() - recorded.keys() <= DIFFERENCES.keys()


@needs_shared
def test_there_are_requests_and_twins() -> None:
    assert len(REQUESTS) > 12
    assert len(TWINS) == 2
