"""Recorded Gemini streams: one answer for every cut, none for a truncated one; and the requests that made them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.recordings import Recorded, answers_in, beside
from support.shared_data import needs_shared, recordings
from toolcast.errors import StreamTruncated
from toolcast.events import Finish, UsageReport
from toolcast.messages import Message, Part, TextPart, ToolCallPart, ToolResultPart, system
from toolcast.providers.base import RequestInput
from toolcast.providers.google.adapter import GoogleAdapter
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import ToolSpec
from toolcast.values.usage import Usage

# The Live API, a WebSocket protocol of its own for speech: there are no candidates in it.
LIVE = "google.google-live-speech-translation.jsonl"
FILES = [path for path in recordings("gemini") if path.name != LIVE]


def calls_over(chunks: Iterable[dict[str, Any]]) -> Iterator[int]:
    """Calls come in one piece, except those marked as continued."""
    over = 0
    for chunk in chunks:
        for candidate in chunk.get("candidates", ()):
            calls = [part["functionCall"] for part in candidate["content"]["parts"] if "functionCall" in part]
            over += sum(not call.get("willContinue") for call in calls)
        yield over


GEMINI = Recorded(
    GoogleAdapter(),
    FILES,
    lambda chunk: any("finishReason" in candidate for candidate in chunk.get("candidates", ())),
    calls_over,
)


@needs_shared
def test_the_recordings_are_there() -> None:
    assert len(FILES) > 20


@needs_shared
@GEMINI.every_answer
def test_decodes_to_one_response(name: str) -> None:
    events = GEMINI.decode(GEMINI.answers[name])
    assert isinstance(events[-1], Finish)
    assert sum(isinstance(event, Finish) for event in events) == 1
    response = GEMINI.response(GEMINI.answers[name])
    assert response.message.text or response.message.tool_calls
    assert (response.model or "").startswith("gemini-")
    for call in response.message.tool_calls:
        assert isinstance(json.loads(call.arguments), dict)
        assert not call.truncated
    assert (response.stop_reason == "tool_use") == bool(response.message.tool_calls)
    assert response.usage.input_tokens
    assert response.usage.output_tokens


@pytest.mark.slow
@pytest.mark.gate("G2")
@needs_shared
@GEMINI.every_answer
def test_every_cut_gives_the_same_events(name: str) -> None:
    GEMINI.check_cuts(name)


@pytest.mark.slow
@pytest.mark.gate("G2")
@needs_shared
@GEMINI.every_answer
def test_one_cut_leaves_no_trace(name: str) -> None:
    GEMINI.check_single_cuts(name)


@pytest.mark.slow
@pytest.mark.gate("G10")
@needs_shared
@GEMINI.every_answer
def test_truncated_at_every_event_border(name: str) -> None:
    GEMINI.check_borders(name)


@pytest.mark.fault(54)
@needs_shared
@GEMINI.every_answer
def test_the_same_chunks_in_a_list(name: str) -> None:
    chunks = [line[6:].rstrip() for line in GEMINI.answers[name].splitlines() if line.startswith(b"data: ")]
    assert GEMINI.decode(b"[" + b",\r\n".join(chunks) + b"]") == GEMINI.decode(GEMINI.answers[name])


@needs_shared
def test_the_live_api_is_no_gemini_answer() -> None:
    (path,) = (path for path in recordings("gemini") if path.name == LIVE)
    with pytest.raises(StreamTruncated):
        GEMINI.decode(*answers_in(path))


@needs_shared
def test_arguments_in_pieces_whose_last_one_ends_the_call() -> None:
    (call,) = GEMINI.response(GEMINI.named("array-arguments")).message.tool_calls
    assert json.loads(call.arguments) == {
        "operations": [
            {"action": "add", "description": "Fresh red apple", "itemid": "apple_001", "price": 0.5},
            {"action": "add", "description": "Ripe yellow banana", "itemid": "banana_001", "price": 0.3},
        ]
    }


@needs_shared
def test_usage_that_comes_with_every_chunk_counts_once() -> None:
    events = GEMINI.decode(GEMINI.named("usage_is_live"))
    assert len([event for event in events if isinstance(event, UsageReport)]) == 3
    assert GEMINI.response(GEMINI.named("usage_is_live")).usage == Usage(18, 80 + 35, reasoning_tokens=35)


# -- the same scenario in one piece: another answer of the same model, so its words may differ

TWINS = GEMINI.with_a("response")
OTHER_WORDS = {"google.google-text.jsonl"}


@needs_shared
@pytest.mark.parametrize("path", TWINS, ids=lambda path: path.name)
def test_the_answer_in_one_piece_has_the_same_content(path: Path) -> None:
    streamed = GEMINI.response(GEMINI.answers[path.name])
    whole = GEMINI.response(beside(path, "response").read_bytes())
    assert [part.type for part in whole.message.parts] == [part.type for part in streamed.message.parts]
    assert (whole.text == streamed.text) != (path.name in OTHER_WORDS)
    assert [(call.name, call.arguments) for call in whole.message.tool_calls] == [
        (call.name, call.arguments) for call in streamed.message.tool_calls
    ]
    assert (whole.stop_reason, whole.model) == (streamed.stop_reason, streamed.model)


@needs_shared
def test_there_are_twins() -> None:
    assert len(TWINS) == 4


# -- what was sent is what came: each signature on the same part, byte for byte


RUN_BY_GEMINI = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")


def sent_parts(path: Path) -> Iterator[dict[str, Any]]:
    """The parts of an answer as they must go back: text that came in pieces is one part, and unsigned thoughts and
    what has no content stay here."""
    unsigned = ""
    for line in GEMINI.answers[path.name].splitlines():
        for candidate in json.loads(line[6:]).get("candidates", ()) if line else ():
            for part in candidate["content"]["parts"]:
                if part.keys() == {"text"}:
                    unsigned += part["text"]
                elif not {"thoughtSignature", "functionCall", *RUN_BY_GEMINI}.isdisjoint(part):
                    if unsigned:
                        yield {"text": unsigned}
                    unsigned = ""
                    yield part
    if unsigned:
        yield {"text": unsigned}


@needs_shared
@pytest.mark.parametrize(
    "path", [path for path in FILES if "array-arguments" not in path.name], ids=lambda path: path.name
)
def test_signatures_go_back_on_the_part_they_came_on(path: Path) -> None:
    message = GEMINI.response(GEMINI.answers[path.name]).message
    request = GoogleAdapter().request(
        RequestInput("gemini-2.5-pro", (Message("user", (TextPart("x"),)), message)), Settings()
    )
    assert json.loads(request.body)["contents"][1]["parts"] == list(sent_parts(path))


# -- requests: each recorded body, written as messages and settings, is sent again

REQUESTS = GEMINI.with_a("request")
DIFFERENCES = {
    "systemInstruction.role": "not sent: an instruction belongs to no turn",
    "generationConfig": "not sent when it is empty",
    "id": "not sent where the client made it up: some versions of the API know no ids",
    "return_value": "this name is free; here it is `result`",
    "parameters": "sent as `parametersJsonSchema`, which can express all of the older dialect, and more",
    "parameters_json_schema": "sent in the usual spelling, `parametersJsonSchema`",
    "propertyOrdering": "added, so that arguments come in the order in which they were declared",
    "no parameters": "the schema of a tool without parameters is left out: the API has refused it",
    "thinkingBudget": "added: `thinking=True` also sets the budget, to what the model chooses",
}
SETTINGS = {"temperature": "temperature"}


def read_request(body: dict[str, Any]) -> tuple[tuple[Message, ...], tuple[ToolSpec, ...], Settings]:
    """The messages, tools and settings of a recorded body."""
    instruction = body.get("systemInstruction", {}).get("parts", ())
    messages = [system(part["text"]) for part in instruction]
    for turn in body["contents"]:
        role = "assistant" if turn["role"] == "model" else "user"
        messages.append(Message(role, tuple(read_part(part) for part in turn["parts"])))
    tools: list[ToolSpec] = []
    for tool in body.get("tools", ()):
        for function in tool.get("functionDeclarations", ()):
            schema = function.get("parameters_json_schema") or lowered(function["parameters"])
            tools.append(ToolSpec(function["name"], function["description"], schema))
    config = body["generationConfig"]
    mine = {SETTINGS[name]: value for name, value in config.items() if name in SETTINGS}
    thinking = config.get("thinkingConfig")
    # What toolcast has no word for goes in by `extra`.
    extra: dict[str, Any] = {name: body[name] for name in ("toolConfig",) if name in body}
    if not tools and "tools" in body:
        extra["tools"] = body["tools"]
    rest = {name: value for name, value in config.items() if name not in (*SETTINGS, "thinkingConfig")}
    if rest:
        extra["generationConfig"] = rest
    settings = Settings(**mine, thinking=True if thinking else None, extra=extra or None)
    return tuple(messages), tuple(tools), settings


def read_part(part: dict[str, Any]) -> Part:
    if call := part.get("functionCall"):
        kept = {"id": None if call["id"].startswith("pyd_ai_") else call["id"]}
        kept["thoughtSignature"] = part.get("thoughtSignature")
        own = {name: value for name, value in kept.items() if value}
        return ToolCallPart(call["id"], call["name"], json.dumps(call["args"]), opaque={"google": own})
    if result := part.get("functionResponse"):
        return ToolResultPart(result["id"], result["response"]["return_value"], result["name"])
    return TextPart(part["text"])


def lowered(schema: Any) -> Any:
    """A schema of the older dialect, with its types in JSON Schema's spelling."""
    if isinstance(schema, dict):
        return {k: v.lower() if k == "type" and isinstance(v, str) else lowered(v) for k, v in schema.items()}
    return schema


def expected(body: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """A recorded body with the `DIFFERENCES`, and no others; and those that it has."""
    seen: set[str] = set()
    body = json.loads(json.dumps(body))
    if body.get("systemInstruction", {}).pop("role", None):
        seen.add("systemInstruction.role")
    if thinking := body["generationConfig"].get("thinkingConfig"):
        seen.add("thinkingBudget")
        thinking["thinkingBudget"] = -1
    if not body["generationConfig"]:
        seen.add("generationConfig")
        del body["generationConfig"]
    for part in [part for turn in body["contents"] for part in turn["parts"]]:
        if (part.get("functionCall") or part.get("functionResponse") or {}).get("id", "").startswith("pyd_ai_"):
            seen.add("id")
            del (part.get("functionCall") or part["functionResponse"])["id"]
        if "functionResponse" in part:
            seen.add("return_value")
            response = part["functionResponse"]["response"]
            response["result"] = response.pop("return_value")
    for function in [function for tool in body.get("tools", ()) for function in tool.get("functionDeclarations", ())]:
        seen.add("parameters" if "parameters" in function else "parameters_json_schema")
        schema = function.pop("parameters_json_schema", None) or lowered(function.pop("parameters"))
        if schema["properties"]:
            seen.add("propertyOrdering")
            function["parametersJsonSchema"] = {**schema, "propertyOrdering": list(schema["properties"])}
        else:
            seen.add("no parameters")
    return body, seen


def again(path: Path) -> tuple[dict[str, Any], dict[str, Any], set[str]]:
    """The request that toolcast sends, the recorded one, and their differences."""
    recorded = json.loads(beside(path, "request").read_bytes())
    messages, tools, settings = read_request(recorded)
    model = GEMINI.response(GEMINI.answers[path.name]).model or ""
    request = GoogleAdapter().request(RequestInput(model, messages, tools), settings)
    return json.loads(request.body), *expected(recorded)


@needs_shared
@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.name)
def test_the_request_is_sent_again(path: Path) -> None:
    made, wanted, _ = again(path)
    assert made == wanted


@needs_shared
def test_every_difference_is_there() -> None:
    assert len(REQUESTS) > 10
    assert set().union(*[again(path)[2] for path in REQUESTS]) == DIFFERENCES.keys()
