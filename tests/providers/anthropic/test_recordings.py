"""Recorded streams of Anthropic's: one answer for every cut, none for a truncated one; and the requests they answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.recordings import Recorded, answers_in, beside
from support.shared_data import needs_shared, recordings
from toolcast.errors import MalformedEvent
from toolcast.events import Finish, RawEvent, TextDelta, UsageReport
from toolcast.messages import (
    DocumentPart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    system,
    user,
)
from toolcast.providers.anthropic.adapter import AnthropicAdapter
from toolcast.providers.base import RequestInput
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool, ToolChoice, ToolSpec
from toolcast.values.usage import Usage
from toolcast.values.usage_details import NO_DETAILS

FILES = sorted({path.name: path for path in recordings("anthropic-messages")}.values())


def ends(event: dict[str, Any]) -> object:
    return event.get("type") == "message_stop" or event.get("delta", event.get("message", {})).get("stop_reason")


def calls_over(events: Iterable[dict[str, Any]]) -> Iterator[int]:
    """A call is over when its block is."""
    over, open = 0, set[int]()
    for event in events:
        if event.get("content_block", {}).get("type") == "tool_use":
            open.add(event["index"])
        elif event.get("type") == "content_block_stop" and event["index"] in open:
            open.remove(event["index"])
            over += 1
        yield over


CLAUDE = Recorded(AnthropicAdapter(), FILES, ends, calls_over)


@needs_shared
def test_the_recordings_are_there() -> None:
    assert len(FILES) == 69
    assert len(CLAUDE.answers) == 88


@needs_shared
@CLAUDE.every_answer
def test_decodes_to_one_response(name: str) -> None:
    events = CLAUDE.decode(CLAUDE.answers[name])
    assert isinstance(events[-1], Finish)
    assert sum(isinstance(event, Finish) for event in events) == 1
    response = CLAUDE.response(CLAUDE.answers[name])
    assert response.model
    reports = [event.usage.output_tokens for event in events if isinstance(event, UsageReport)]
    assert reports == sorted(reports)
    assert reports
    assert response.message.parts or any(isinstance(event, RawEvent) for event in events)
    for call in response.message.tool_calls:
        assert isinstance(json.loads(call.arguments), dict)
        assert not call.truncated
        assert call.name
        assert call.id.startswith("toolu_")
    assert (response.stop_reason in ("tool_use", "refusal")) >= bool(response.message.tool_calls)
    assert response.stop_reason != "other"


@pytest.mark.nightly
@pytest.mark.gate("G2")
@needs_shared
@CLAUDE.every_answer
def test_every_cut_gives_the_same_events(name: str) -> None:
    CLAUDE.check_cuts(name)


@pytest.mark.slow
@pytest.mark.gate("G2")
@needs_shared
@CLAUDE.every_answer
def test_one_cut_leaves_no_trace(name: str) -> None:
    CLAUDE.check_single_cuts(name)


@pytest.mark.slow
@pytest.mark.gate("G10")
@needs_shared
@CLAUDE.every_answer
def test_truncated_at_every_event_border(name: str) -> None:
    CLAUDE.check_borders(name)


HOW = [
    ("tool_use_response", "tool_use", "tool_use", "I"),
    ("refusal_response", "refusal", "refusal", "This request was refused due to policy."),
    ("anthropic-refusal", "refusal", "refusal", "This request triggered"),
    ("stream-a-refusal", "refusal", "refusal", ""),
    ("stream-a-toolrefusal", "refusal", "refusal", ""),
    ("anthropic-fallback", "end_turn", "end_turn", "The printing press"),
    ("duplicate-message-start", "end_turn", "end_turn", "Hello, World!"),
    ("pause_turn_web_search_streaming_vcr.0", "pause", "pause_turn", "I'll"),
    ("programmatic-tool-calling.1.jsonl#1", "tool_use", "tool_use", ""),
    ("request_stream_fallback_for_high_max_tokens", "end_turn", "end_turn", "2"),
]


@needs_shared
@pytest.mark.parametrize(("part", "stop_reason", "raw", "text"), HOW)
def test_how_it_ended(part: str, stop_reason: str, raw: str, text: str) -> None:
    events = CLAUDE.decode(CLAUDE.named(part))
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert (finish.stop_reason, finish.raw) == (stop_reason, raw)
    assert CLAUDE.response(CLAUDE.named(part)).text.strip().startswith(text)


@needs_shared
def test_usage_that_is_corrected_at_the_end() -> None:
    response = CLAUDE.response(CLAUDE.named("message-delta-input-tokens"))
    assert response.usage == Usage(61, 2)


@needs_shared
def test_cached_tokens_are_part_of_the_input() -> None:
    usage = CLAUDE.response(CLAUDE.named("prompt-cache.1")).usage
    assert replace(usage, details=NO_DETAILS) == Usage(6 + 6289 + 3337, 198, 6289, 3337)


@needs_shared
def test_usage_is_reported_once_where_it_does_not_change() -> None:
    events = CLAUDE.decode(CLAUDE.named("complete_usage.0"))
    assert sum(isinstance(event, UsageReport) for event in events) == 2


@needs_shared
def test_thoughts_are_signed() -> None:
    thought = CLAUDE.response(CLAUDE.named("thinking_part_stream")).message.parts[0]
    assert isinstance(thought, ThinkingPart)
    assert len(thought.signature or "") > 50
    assert len(thought.text) > 50


# -- damaged answers


@needs_shared
def test_several_answers_in_one_body_are_an_error() -> None:
    parts = [answer for name, answer in CLAUDE.answers.items() if "tool-search-regex" in name]
    first, second = (part.partition(b"event: message_delta")[0] for part in parts)
    with pytest.raises(MalformedEvent, match="two answers"):
        CLAUDE.decode(first + second)


@needs_shared
def test_a_damaged_piece_of_a_call_is_an_error() -> None:
    body = CLAUDE.named("tool_use_response")
    at = body.rfind(b"input_json_delta")
    with pytest.raises(MalformedEvent, match="lack a piece"):
        CLAUDE.decode(body[:at] + b'"' + body[at:])


@needs_shared
def test_a_damaged_piece_of_text_is_skipped_with_a_warning() -> None:
    body = CLAUDE.named("fallback_credit")
    at = body.find(b"text_delta")
    events = CLAUDE.decode(body[:at] + b'"' + body[at:])
    assert [event.damaged for event in events if isinstance(event, RawEvent)] == [True]
    assert not any(isinstance(event, TextDelta) for event in events)


# -- twins: the same scenario, answered whole


TWINS = CLAUDE.with_a("response")


@needs_shared
def test_the_twins_are_there() -> None:
    assert len(TWINS) == 18


def recorded_whole(path: Path) -> Any:
    return json.loads(beside(path, "response").read_bytes())


@needs_shared
@pytest.mark.parametrize("path", TWINS, ids=lambda path: path.name)
def test_a_complete_response_has_the_recorded_content(path: Path) -> None:
    recorded = recorded_whole(path)
    response = CLAUDE.response(json.dumps(recorded).encode())
    blocks = [block for block in recorded["content"] if block["type"] in ("text", "thinking", "tool_use")]
    message = "".join(block.get("text", "") for block in blocks)
    assert response.text == (message or response.text)
    assert [json.loads(call.arguments) for call in response.message.tool_calls] == [
        block["input"] for block in blocks if block["type"] == "tool_use"
    ]
    thoughts = [part for part in response.message.parts if isinstance(part, ThinkingPart) and not part.opaque]
    assert [(part.text, part.signature) for part in thoughts] == [
        (block["thinking"], block["signature"]) for block in blocks if block["type"] == "thinking"
    ]
    assert response.usage.output_tokens == recorded["usage"]["output_tokens"]
    assert response.model == recorded["model"]


# In these the text of the model is the same both times; in the others it differs.
ALIKE = ("clear-thinking.1", "fallback", "json-other-tool.1", "refusal")


@needs_shared
@pytest.mark.parametrize("path", TWINS, ids=lambda path: path.name)
def test_a_stream_and_its_twin(path: Path) -> None:
    streamed = CLAUDE.response(answers_in(path)[0])  # where the stream goes on, its twin does not
    whole = CLAUDE.response(json.dumps(recorded_whole(path)).encode())
    assert streamed.stop_reason == whole.stop_reason
    assert {part.type for part in streamed.message.parts} == {part.type for part in whole.message.parts}
    assert {call.name for call in streamed.message.tool_calls} == {call.name for call in whole.message.tool_calls}
    if any(f"anthropic-{name}.jsonl" in path.name for name in ALIKE):
        assert (streamed.text, streamed.model) == (whole.text, whole.model)
        assert [call.arguments for call in streamed.message.tool_calls] == [
            call.arguments for call in whole.message.tool_calls
        ]


@needs_shared
@pytest.mark.parametrize("path", TWINS, ids=lambda path: path.name)
def test_a_stream_as_one_document_gives_the_same_response(path: Path) -> None:
    """The message that the official SDK would make of the stream, read as one document."""
    for body in answers_in(path):
        streamed, whole = CLAUDE.response(body), CLAUDE.response(json.dumps(joined(body)).encode())
        assert whole.stop_reason == streamed.stop_reason
        assert whole.text == streamed.text
        assert whole.usage == streamed.usage
        assert [part for part in whole.message.parts if isinstance(part, ThinkingPart)] == [
            part for part in streamed.message.parts if isinstance(part, ThinkingPart)
        ]
        calls = [(call.id, call.name, json.loads(call.arguments)) for call in streamed.message.tool_calls]
        assert calls == [(call.id, call.name, json.loads(call.arguments)) for call in whole.message.tool_calls]


@needs_shared
@pytest.mark.parametrize("path", CLAUDE.files, ids=lambda path: path.name)
def test_every_block_goes_back_as_it_came(path: Path) -> None:
    """The blocks of the service's own tools, citations and callers included; blank text is refused, and left out."""
    bodies = [json.dumps(joined(body)).encode() for body in answers_in(path) if is_whole(body)]
    if beside(path, "response").is_file():
        bodies.append(beside(path, "response").read_bytes())
    for body in bodies:
        response = CLAUDE.response(body)
        message = response.message
        if message.parts and response.stop_reason != "refusal":  # whose text is the explanation beside the content
            # A call without a result is continued: after another message it would be refused.
            results = {part.call_id for part in message.server_tools if part.input is None}
            paused = not message.tool_calls and any(part.call_id not in results for part in message.server_tools)
            more = () if paused else (user("And?"),)
            request = CLAUDE.wire.request(RequestInput("m", (user("Hi"), message, *more)), Settings())
            assert list(merged(json.loads(request.body)["messages"][1]["content"])) == list(
                merged(json.loads(body)["content"])
            )


def is_whole(body: bytes) -> bool:
    return body.count(b"message_start") == 2 and b'"stop_reason":"max_tokens"' not in body


def merged(blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The blocks, texts without citations joined, since their boundaries have no meaning."""
    text = ""
    for block in blocks:
        block = {name: value for name, value in block.items() if name != "citations" or value}
        if block.keys() == {"type", "text"}:
            text += block["text"]
            continue
        if text.strip():
            yield {"type": "text", "text": text}
        text = ""
        yield block
    if text.strip():
        yield {"type": "text", "text": text}


def joined(body: bytes) -> dict[str, Any]:
    message: dict[str, Any] = {}
    pieces: dict[int, str] = {}
    for event in (json.loads(line[5:]) for line in body.splitlines() if line.startswith(b"data:")):
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                message["content"].append(event["content_block"])
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                match delta["type"]:
                    case "input_json_delta":
                        pieces[event["index"]] = pieces.get(event["index"], "") + delta["partial_json"]
                    case "text_delta" | "thinking_delta" as kind:
                        block[kind[:-6]] += delta[kind[:-6]]
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case "citations_delta":
                        block.setdefault("citations", []).append(delta["citation"])
                    case "compaction_delta":
                        block["content"] = delta["content"]
                    case _:
                        pass
            case "content_block_stop":
                if text := pieces.get(event["index"]):
                    message["content"][event["index"]]["input"] = json.loads(text)
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
            case _:
                pass
    return message


# -- requests: the recorded bodies, made from messages and settings

REQUESTS = CLAUDE.with_a("request")

# What is sent otherwise than it was recorded, and why. A pair of field and test of the recorded body.
DIFFERENCES: dict[str, str] = {
    "tools.description": "an empty description is left out",
    "tool_choice.disable_parallel_tool_use": "false is what it is anyway, so it is not sent",
    "system": "one text is sent as a text and not as a list of one block",
    "tool_result.content": "a result of one text is sent as a text and not as a list of one block",
    "tool_result.is_error": "false is what it is anyway, so it is not sent",
    "server blocks": "in these messages, which no answer was read for, blocks of the service's own tools are left out",
}


def test_every_difference_has_a_reason() -> None:
    assert all(len(reason.split()) > 5 for reason in DIFFERENCES.values())


def expected(recorded: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The recorded body with the differences applied, and which those are."""
    used: set[str] = set()
    body: dict[str, Any] = json.loads(json.dumps(recorded))
    for tool in body.get("tools", ()):
        if tool.get("description") == "":
            del tool["description"]
            used.add("tools.description")
    if body.get("tool_choice", {}).get("disable_parallel_tool_use") is False:
        del body["tool_choice"]["disable_parallel_tool_use"]
        used.add("tool_choice.disable_parallel_tool_use")
    if isinstance(body.get("system"), list):
        (block,) = body["system"]
        body["system"] = block["text"]
        used.add("system")
    for message in body["messages"]:
        kept = [block for block in message["content"] if block["type"] in READ]
        if kept != message["content"]:
            message["content"] = kept
            used.add("server blocks")
        for block in kept:
            if block["type"] == "tool_result":
                (text,) = block["content"]
                block["content"] = text["text"]
                assert block.pop("is_error") is False
                used |= {"tool_result.content", "tool_result.is_error"}
    return body, used


def media(source: dict[str, Any]) -> dict[str, Any]:
    return {"data": base64.b64decode(source["data"]), "media_type": source["media_type"]}


READ: dict[str, Callable[[dict[str, Any]], Part]] = {
    "text": lambda block: TextPart(block["text"]),
    "image": lambda block: ImagePart(**media(block["source"])),
    "document": lambda block: DocumentPart(**media(block["source"])),
    "tool_use": lambda block: ToolCallPart(block["id"], block["name"], json.dumps(block["input"])),
    "tool_result": lambda block: ToolResultPart(block["tool_use_id"], block["content"][0]["text"]),
}


def messages_of(recorded: dict[str, Any]) -> tuple[Message, ...]:
    output = recorded.get("system", [])
    texts = [output] if isinstance(output, str) else [block["text"] for block in output]
    found = [system(text) for text in texts]
    for message in recorded["messages"]:
        parts: list[Part] = [READ[block["type"]](block) for block in message["content"] if block["type"] in READ]
        found.append(Message(message["role"], tuple(parts)))
    return tuple(found)


def choice_of(recorded: dict[str, Any]) -> ToolChoice:
    choice = recorded.get("tool_choice")
    if choice is None:
        return None
    return NamedTool(choice["name"]) if choice["type"] == "tool" else choice["type"]


def remade(recorded: dict[str, Any]) -> dict[str, Any]:
    """The body as this library sends it. Tools of the service's own go in through `extra`."""
    tools = recorded.get("tools", [])
    own = [tool for tool in tools if "input_schema" in tool and "defer_loading" not in tool]
    extra: dict[str, Any] = {} if own == tools else {"tools": [tool for tool in tools if tool not in own]}
    if extra and "tool_choice" in recorded:
        extra["tool_choice"] = recorded["tool_choice"]
    conversation = RequestInput(
        recorded["model"],
        messages_of(recorded),
        tuple(ToolSpec(tool["name"], tool.get("description", ""), tool["input_schema"]) for tool in own),
        None if extra else choice_of(recorded),
        parallel=True,
        stream=recorded["stream"],
    )
    thinking = recorded.get("thinking", {}).get("budget_tokens")
    settings = Settings(max_tokens=recorded["max_tokens"], thinking=thinking, extra=extra or None)
    request = AnthropicAdapter().request(conversation, settings)
    assert request.notes == ()
    sent: dict[str, Any] = json.loads(request.body)
    return sent


@needs_shared
@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.name)
def test_recorded_requests_are_made_again(path: Path) -> None:
    recorded = json.loads(beside(path, "request").read_bytes())
    assert remade(recorded) == expected(recorded)[0]


@needs_shared
def test_every_difference_occurs() -> None:
    assert len(REQUESTS) == 36
    recorded = [json.loads(beside(path, "request").read_bytes()) for path in REQUESTS]
    assert set().union(*(expected(body)[1] for body in recorded)) == set(DIFFERENCES)
