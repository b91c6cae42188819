"""Recorded Mistral streams: one answer for every cut, none for a truncated one; and the requests that made them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from shared_data import needs_shared, recordings
from toolcast.errors import StreamTruncated
from toolcast.events import Accumulator, ChatResponse, Event, Finish, ToolCallDone
from toolcast.messages import Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, user
from toolcast.providers.mistral import MistralWire
from toolcast.providers.wire import Conversation, ToolSpec
from toolcast.settings import Settings

SMALL = 10_000
CUTS = 30
FILES = recordings("mistral-chat")
whole_files = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def body_of(path: Path, end: bytes = b"\n") -> bytes:
    data = path.read_bytes()
    if path.suffix == ".sse":
        return data.replace(b"\r\n", b"\n").replace(b"\n", end)
    return b"".join(b"data: " + line + end + end for line in data.splitlines() if line.strip())


def decode(*pieces: bytes) -> list[Event]:
    decoder = MistralWire().decoder(Conversation("m", ()))
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


def folded(events: list[Event]) -> ChatResponse:
    accumulator = Accumulator()
    for event in events:
        accumulator.apply(event)
    return accumulator.response()


@needs_shared
def test_the_recordings_are_there() -> None:
    assert len(FILES) > 12


@needs_shared
@whole_files
def test_decodes_to_one_response(path: Path) -> None:
    events = decode(body_of(path))
    assert isinstance(events[-1], Finish)
    assert sum(isinstance(event, Finish) for event in events) == 1
    response = folded(events)
    assert response.message.text or response.message.tool_calls
    assert response.model
    for call in response.message.tool_calls:
        assert isinstance(json.loads(call.arguments), dict)
        assert not call.truncated
        assert len(call.id) == 9
    assert (response.stop_reason == "tool_use") == bool(response.message.tool_calls)
    assert response.usage.input_tokens
    assert response.usage.output_tokens


def cuts_of(path: Path, body: bytes) -> Sequence[int]:
    """Every byte of a small file, a seeded sample of the others."""
    if len(body) < SMALL:
        return range(len(body))
    return random.Random(path.name).sample(range(len(body)), CUTS)


@needs_shared
@whole_files
def test_every_cut_gives_the_same_events(path: Path) -> None:
    body = body_of(path)
    whole = decode(body)
    assert decode(body_of(path, b"\r\n")) == whole
    assert decode(*[body[at : at + 1] for at in range(len(body))]) == whole
    for cut in cuts_of(path, body):
        assert decode(body[:cut], body[cut:]) == whole, cut


def borders(body: bytes) -> list[int]:
    """Where an event ends, up to the one that holds the end marker, and once inside that one."""
    found: list[int] = []
    at = 0
    while (end := body.find(b"\n\n", at)) >= 0 and not json.loads(body[at + 6 : end])["choices"][0]["finish_reason"]:
        at = end + 2
        found.append(at)
    return [*found, at + 10]


@needs_shared
@whole_files
def test_truncated_at_any_event_border(path: Path) -> None:
    body = body_of(path)
    for end in borders(body):
        decoder = MistralWire().decoder(Conversation("m", ()))
        events = decoder.feed(body[:end])
        assert not any(isinstance(event, (ToolCallDone, Finish)) for event in events)
        with pytest.raises(StreamTruncated):
            decoder.close()


def named(part: str) -> Path:
    return next(path for path in FILES if part in path.name)


@needs_shared
@pytest.mark.parametrize("name", ["thinking_part_iter", "mistral-reasoning"])
def test_thoughts_go_back_as_they_came(name: str) -> None:
    said = folded(decode(body_of(named(name)))).message
    thought, text = said.parts
    assert isinstance(thought, ThinkingPart)
    assert isinstance(text, TextPart)
    chunk = {"type": "thinking", "thinking": [{"type": "text", "text": thought.text}]}
    assert thought.text
    assert thought.opaque is not None
    kept = thought.opaque["mistral"]
    assert {name: kept[name] for name in chunk} == chunk
    request = MistralWire().request(Conversation("magistral-medium-latest", (user("x"), said)), Settings())
    assert json.loads(request.body)["messages"][1] == {
        "role": "assistant",
        "content": [kept, {"type": "text", "text": text.text}],
    }


TWINS = [path for path in FILES if path.with_name(path.name + ".response.json").exists()]


@needs_shared
@pytest.mark.parametrize("path", TWINS, ids=lambda path: path.name)
def test_the_answer_in_one_piece_is_the_same(path: Path) -> None:
    assert folded(decode(path.with_name(path.name + ".response.json").read_bytes())) == folded(decode(body_of(path)))


# -- requests: each recorded body, said in messages and settings, is sent again

REQUESTS = [path for path in FILES if path.with_name(path.name + ".request.json").exists()]
DIFFERENCES = {"parallel_tool_calls": "sent with tools: toolcast says whether it reads more than one call"}


def read_request(body: dict[str, Any]) -> Conversation:
    """What a recorded body says, in messages and tools."""
    assert body.keys() <= {"messages", "model", "stream", "tools", "tool_choice"}
    tools = [
        ToolSpec(tool["function"]["name"], tool["function"].get("description", ""), tool["function"]["parameters"])
        for tool in body.get("tools", ())
    ]
    choice = {"any": "required"}.get(body.get("tool_choice", ""))
    return Conversation(body["model"], tuple(map(read_message, body["messages"])), tuple(tools), choice)


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
    recorded = json.loads(path.with_name(path.name + ".request.json").read_bytes())
    made = json.loads(MistralWire().request(read_request(recorded), Settings()).body)
    assert made == recorded | ({"parallel_tool_calls": False} if "tools" in recorded else {})
    assert made.keys() - recorded.keys() <= DIFFERENCES.keys()


@needs_shared
def test_there_are_requests_and_twins() -> None:
    assert len(REQUESTS) > 12
    assert len(TWINS) == 2
