"""Recorded chat-completions streams of many services: one answer for every cut, none for a truncated one."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from shared_data import needs_shared, recordings
from toolcast.errors import StreamTruncated
from toolcast.events import Accumulator, ChatResponse, Event, Finish, TextDelta, ToolCallDone, UsageReport
from toolcast.providers.compatible import GENERIC
from toolcast.providers.openai_chat import OpenAIChatWire
from toolcast.providers.wire import Conversation
from toolcast.usage import Usage

SMALL = 10_000
CUTS = 30
KINDS: dict[tuple[object, ...], list[Path]] = {}


def body_of(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".sse":
        return data
    return b"".join(b"data: " + line + b"\n\n" for line in data.splitlines() if line.strip())


FILES = sorted({path.name: path for path in recordings("openai-chat")}.values())
whole_files = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def decode(pieces: list[bytes]) -> list[Event]:
    decoder = OpenAIChatWire(GENERIC).decoder(Conversation("m", ()))
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.close()


def folded(events: list[Event]) -> ChatResponse:
    accumulator = Accumulator()
    for event in events:
        accumulator.apply(event)
    return accumulator.response()


@needs_shared
def test_the_recordings_are_there() -> None:
    assert len(FILES) > 100


@needs_shared
@whole_files
def test_decodes_to_one_response(path: Path) -> None:
    events = decode([body_of(path)])
    assert isinstance(events[-1], Finish)
    assert sum(isinstance(event, Finish) for event in events) == 1
    response = folded(events)
    assert response.message.parts
    assert response.model
    for call in response.message.tool_calls:
        assert isinstance(json.loads(call.arguments), dict)
        assert not call.truncated
        assert call.name
    assert (response.stop_reason == "tool_use") == bool(response.message.tool_calls)


def cuts_of(path: Path, body: bytes, events: list[Event]) -> Sequence[int]:
    """Every byte of three small files of each kind, a seeded sample of the others: they differ only in their words."""
    kinds = [type(event) for event in events]
    changes = (kind for kind, before in zip(kinds, [None, *kinds], strict=False) if kind is not before)
    alike = KINDS.setdefault((path.name.partition(".test_")[0], *changes), [])
    alike.append(path)
    if len(body) < SMALL and len(alike) <= 3:
        return range(len(body))
    return random.Random(path.name).sample(range(len(body)), CUTS if len(body) < 50_000 else 4)


@needs_shared
@whole_files
def test_every_cut_gives_the_same_events(path: Path) -> None:
    body = body_of(path)
    whole = decode([body])
    assert decode([body[at : at + 1] for at in range(len(body))]) == whole
    for cut in cuts_of(path, body, whole):
        assert decode([body[:cut], body[cut:]]) == whole, cut


def borders(body: bytes) -> list[int]:
    """Where an event ends, up to the one that holds the end marker, and once inside that one."""
    found: list[int] = []
    at = 0
    while (end := body.find(b"\n\n", at)) >= 0:
        event = body[at:end]
        if event.startswith(b"data: [DONE]"):
            break
        if event.startswith(b"data: {"):
            choices = json.loads(event[6:]).get("choices") or [{}]
            if any(choice.get("finish_reason") for choice in choices):
                break
        at = end + 2
        found.append(at)
    return [*found, at + 10]


@needs_shared
@whole_files
def test_truncated_at_any_event_border(path: Path) -> None:
    body = body_of(path)
    ends = borders(body)
    for end in ends if len(ends) < 60 else ends[::20]:
        decoder = OpenAIChatWire(GENERIC).decoder(Conversation("m", ()))
        events = decoder.feed(body[:end])
        assert not any(isinstance(event, (ToolCallDone, Finish)) for event in events)
        with pytest.raises(StreamTruncated):
            decoder.close()


def named(part: str) -> Path:
    return next(path for path in FILES if part in path.name)


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
    events = decode([body_of(named(part))])
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert (finish.stop_reason, finish.raw) == (stop_reason, raw)
    assert folded(events).text.strip().startswith(text)


@needs_shared
def test_usage_that_comes_with_every_chunk_counts_once() -> None:
    events = decode([body_of(named("perplexity-text"))])
    reports = [event.usage for event in events if isinstance(event, UsageReport)]
    assert len(reports) > 3
    assert folded(events).usage == reports[-1]


@needs_shared
def test_thoughts_that_the_completion_does_not_count() -> None:
    assert folded(decode([body_of(named("xai.xai-text"))])).usage.output_tokens > 100


@needs_shared
def test_reasoning_details_are_kept_for_the_next_turn() -> None:
    events = decode([body_of(named("openrouter_streaming_reasoning"))])
    thought = folded(events).message.parts[0]
    assert thought.type == "thinking"
    assert thought.text.startswith("This is a simple arithmetic question. ")
    assert thought.opaque is not None
    (detail,) = thought.opaque["reasoning_details"]
    assert detail["text"] == thought.text
    assert len(detail["signature"]) > 50


@needs_shared
def test_only_the_first_of_several_choices_is_read() -> None:
    events = decode([body_of(named("a491adda"))])
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert isinstance(json.loads(text), dict)


def test_usage_defaults_to_nothing() -> None:
    assert folded(decode([b'data: {"choices":[]}\n\ndata: [DONE]\n\n'])).usage == Usage()
