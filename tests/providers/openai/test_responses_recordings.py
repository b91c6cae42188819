"""Recorded Responses streams of many services: one answer for every cut, none for a truncated one.

The recorded requests are taken apart into toolcast's own messages and settings, and made again from them: what comes
out otherwise is in `DIFFERENCES`, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.recordings import Recorded, answers_in, beside, differences
from support.shared_data import needs_shared, recordings
from toolcast.errors import QuotaExceeded, StreamTruncated
from toolcast.events import ChatResponse, Event, Finish, RawEvent, UsageReport
from toolcast.messages import Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, system, user
from toolcast.providers.base import RequestInput
from toolcast.providers.chat_completions.services import OPENAI
from toolcast.providers.openai.adapter import OpenAIResponsesAdapter
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import ToolSpec

# Listed as a stream of this protocol, but its chunks are chat completions; and a failure.
CHAT, FAILED = "openai.azure-model-router.1.jsonl", "openai.openai-error.1.jsonl"

PATHS = recordings("openai-responses")


def calls_over(events: Iterable[dict[str, Any]]) -> Iterator[int]:
    """A call is over when its arguments are done."""
    over = 0
    for event in events:
        over += event.get("type") == "response.function_call_arguments.done"
        yield over


RESPONSES = Recorded(
    OpenAIResponsesAdapter(OPENAI),
    [path for path in PATHS if path.name not in (CHAT, FAILED)],
    lambda event: event.get("type") == "response.completed",
    calls_over,
)


def payloads(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]


@needs_shared
def test_the_recordings_are_there() -> None:
    assert len(RESPONSES.answers) > 60


@needs_shared
@RESPONSES.every_answer
def test_decodes_to_one_response(name: str) -> None:
    events = RESPONSES.decode(RESPONSES.answers[name])
    assert isinstance(events[-1], Finish)
    assert sum(isinstance(event, Finish) for event in events) == 1
    assert sum(isinstance(event, UsageReport) for event in events) == 1
    response = RESPONSES.response(RESPONSES.answers[name])
    assert response.message.parts or any(isinstance(event, RawEvent) for event in events)
    assert response.model
    for call in response.message.tool_calls:
        assert call.opaque or isinstance(json.loads(call.arguments), dict)  # but for a custom tool's input
        assert call.name
        assert not call.truncated
    assert response.stop_reason == ("tool_use" if response.message.tool_calls else "end_turn")


@pytest.mark.nightly
@pytest.mark.gate("G2")
@needs_shared
@RESPONSES.every_answer
def test_every_cut_gives_the_same_events(name: str) -> None:
    RESPONSES.check_cuts(name)


@pytest.mark.slow
@pytest.mark.gate("G2")
@needs_shared
@RESPONSES.every_answer
def test_one_cut_leaves_no_trace(name: str) -> None:
    RESPONSES.check_single_cuts(name)


@pytest.mark.slow
@pytest.mark.gate("G10")
@needs_shared
@RESPONSES.every_answer
def test_truncated_at_every_event_border(name: str) -> None:
    RESPONSES.check_borders(name)


def content(response: ChatResponse) -> list[tuple[str, ...]]:
    """The content, without the data that a service encrypts anew each time."""
    message: list[tuple[str, ...]] = []
    for part in response.message.parts:
        if isinstance(part, ToolCallPart):
            message.append((part.type, part.id, part.name, part.arguments))
        elif isinstance(part, (TextPart, ThinkingPart)):
            message.append((part.type, part.text))
    return message


def kinds(events: list[Event]) -> list[str]:
    """The items that are not ours."""
    raw = [event.data["type"] for event in events if isinstance(event, RawEvent)]
    return sorted(kind for kind in raw if not kind.startswith("response."))


# Its last event has another text than its deltas: the recording was shortened.
SHORTENED = "openai.openai-shell-container.1.jsonl"


@needs_shared
@RESPONSES.every_answer
def test_the_answer_in_one_piece_has_the_same_content(name: str) -> None:
    body = RESPONSES.answers[name]
    document = json.dumps(payloads(body)[-1]["response"]).encode()
    one, other = RESPONSES.response(body), RESPONSES.response(document)
    assert (one.stop_reason, one.usage, one.model) == (other.stop_reason, other.usage, other.model)
    assert (content(one) == content(other)) == (name != SHORTENED)
    assert kinds(RESPONSES.decode(body)) == kinds(RESPONSES.decode(document))


TWINS = [beside(path, "response") for path in PATHS if beside(path, "response").is_file()]


@needs_shared
@pytest.mark.parametrize("path", TWINS, ids=lambda path: path.name)
def test_twins_in_one_piece(path: Path) -> None:
    document = json.loads(path.read_text())
    if document.get("error"):
        with pytest.raises(QuotaExceeded):
            RESPONSES.decode(path.read_bytes())
        return
    response = RESPONSES.response(path.read_bytes())
    items = document["output"]
    texts = [part["text"] for item in items if item["type"] == "message" for part in item["content"]]
    calls = [(item["call_id"], item["arguments"]) for item in items if item["type"] == "function_call"]
    calls += [(item["call_id"], item["input"]) for item in items if item["type"] == "custom_tool_call"]
    thoughts = [item for item in items if item["type"] == "reasoning"]
    assert response.text == "".join(texts)
    assert [(call.id, call.arguments) for call in response.message.tool_calls] == calls
    opaque = [part.opaque or {} for part in response.message.parts if isinstance(part, ThinkingPart)]
    assert [kept["responses"] for kept in opaque if kept["responses"]["type"] == "reasoning"] == thoughts


@needs_shared
def test_an_error_that_arrives_twice_is_one() -> None:
    (path,) = (path for path in PATHS if path.name == FAILED)
    (body,) = answers_in(path)
    for pieces in ([body], [body[at : at + 1] for at in range(len(body))]):
        with pytest.raises(QuotaExceeded, match="exceeded your current quota") as caught:
            RESPONSES.decode(*pieces)
        assert caught.value.model == "gpt-5-nano-2025-08-07"


@needs_shared
def test_another_protocol_is_no_answer() -> None:
    (path,) = (path for path in PATHS if path.name == CHAT)
    with pytest.raises(StreamTruncated):
        RESPONSES.decode(*answers_in(path))


@needs_shared
def test_ids_that_change_with_each_event() -> None:
    response = RESPONSES.response(RESPONSES.named("github-copilot-id-rotation"))
    assert [part.type for part in response.message.parts] == ["thinking", "thinking", "text"]
    assert response.text.startswith("There are **3** letter")


@needs_shared
def test_thoughts_that_the_service_encrypted_go_back_byte_for_byte() -> None:
    body = RESPONSES.named("openai-reasoning-encrypted-content")
    response = RESPONSES.response(body)
    done = [event for event in payloads(body) if event["type"] == "response.output_item.done"]
    item = next(event["item"] for event in done if event["item"]["type"] == "reasoning")
    asked = RequestInput("m", (user("12 + 7?"), response.message))
    sent = json.loads(OpenAIResponsesAdapter(OPENAI).request(asked, Settings()).body)["input"]
    assert [each.get("type") for each in sent] == [None, "reasoning", "function_call"]
    assert json.dumps(sent[1]) == json.dumps(item)
    assert len(sent[1]["encrypted_content"]) > 500


# -- requests

REQUESTS = [beside(path, "request") for path in PATHS if beside(path, "request").is_file()]

DIFFERENCES = {
    "store": "Nothing is stored, unless `extra` has it; the service's default is to store.",
    "include": "A model that thinks is always asked for its encrypted thoughts, and never for less than that.",
    "instructions": "Where there is no system message nothing is sent, instead of an empty text.",
    "parallel_tool_calls": "Always sent.",
    "tools": "Tools that the service runs itself are not described by toolcast; `extra` may add them.",
    "tool_choice": "Not sent where all tools are the service's own.",
    "reasoning.summary": "A model that is asked to think is asked for a summary of it.",
    "tools[].description": "Empty where there is none, instead of null.",
    "tools[].strict": "Always sent, and true wherever the schema can be strict.",
    "tools[].parameters.additionalProperties": "Required in a strict schema.",
    "tools[].parameters.required": "Required in a strict schema, also where it is empty.",
    "tools[].defer_loading": "A field of tool search, which the service runs itself.",
    "input": "Calls of the service's own tools, and their results, are not part of a message.",
    "input[].id": "Calls and messages go back without the ids that name them on the server, where nothing is stored.",
    "input[].status": "A message or a call that is part of a conversation is over.",
    "input[].namespace": "A field of tool search, which the service runs itself.",
    "input[].type": "A message of the model has its type, which llama.cpp requires.",
    "input[].content": "Text of the model is always a list of parts.",
    "input[].content[].annotations": "Citations are passed on to the user as they come, and are not part of a text.",
}


def conversation_of(body: dict[str, Any]) -> RequestInput:
    """The recorded request in toolcast's words."""
    messages: list[Message] = []
    message: list[Part] = []
    for item in [*body["input"], {}]:
        parts = list(parts_of(item))
        message += parts
        if not parts and message:
            messages.append(Message("assistant", tuple(message)))
            message = []
        if item.get("role") == "user":
            messages.append(user(item["content"]))
        elif item.get("type") == "function_call_output":
            messages.append(Message("tool", (ToolResultPart(item["call_id"], item["output"]),)))
    if body.get("instructions"):
        messages.insert(0, system(body["instructions"]))
    tools = tuple(
        ToolSpec(tool["name"], tool["description"] or "", tool["parameters"])
        for tool in body.get("tools", ())
        if tool["type"] == "function"
    )
    choice = body.get("tool_choice") if tools else None
    return RequestInput(body["model"], tuple(messages), tools, choice, stream=body["stream"])


def parts_of(item: dict[str, Any]) -> Iterator[Part]:
    """The parts that an item adds to an assistant message."""
    if item.get("type") == "reasoning":
        yield ThinkingPart(opaque={"responses": item})
    elif item.get("type") == "function_call":
        yield ToolCallPart(item["call_id"], item["name"], item["arguments"])
    elif item.get("role") == "assistant":
        if "phase" in item:
            yield ThinkingPart(opaque={"responses": {"type": "message", "phase": item["phase"]}})
        content = item["content"]
        yield TextPart(content if isinstance(content, str) else "".join(part["text"] for part in content))


OURS = {"input", "instructions", "model", "stream", "tools", "tool_choice", "reasoning", "include"}


def settings_of(body: dict[str, Any]) -> Settings:
    extra = {name: value for name, value in body.items() if name not in OURS}
    reasoning = body.get("reasoning", {})
    if "summary" in reasoning:
        extra["reasoning"] = {"summary": reasoning["summary"]}
    if len(body.get("include", ())) > 1:
        extra["include"] = body["include"]
    return Settings(thinking=reasoning.get("effort"), extra=extra)


KNOWN = ("function", "function_call", "function_call_output", "reasoning", "message", "output_text")


def is_foreign(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type", "message") not in KNOWN


def found_differences(path: Path) -> set[str]:
    body = json.loads(path.read_text())
    request = OpenAIResponsesAdapter(OPENAI).request(conversation_of(body), settings_of(body))
    assert request.notes == ()
    return set(differences(body, json.loads(request.body), is_foreign))


@needs_shared
@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.name)
def test_recorded_requests_are_made_again(path: Path) -> None:
    assert found_differences(path) <= DIFFERENCES.keys()


@needs_shared
def test_each_difference_is_found_somewhere() -> None:
    assert {name for path in REQUESTS for name in found_differences(path)} == DIFFERENCES.keys()
