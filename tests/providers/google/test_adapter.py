"""Gemini's wire: what is sent, and every shape of what comes back."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from support.example_counts import cut_places
from toolcast import Google, ToolOrchestratingLLM
from toolcast.errors import (
    BadRequest,
    ContentBlocked,
    LLMError,
    MalformedEvent,
    NotFound,
    NoToolCallError,
    OutputTruncated,
    Overloaded,
    StreamTruncated,
)
from toolcast.events import (
    Event,
    Finish,
    GroundingReport,
    RawEvent,
    SafetyReport,
    ServerToolUse,
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
    Part,
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
from toolcast.providers.google.adapter import GoogleAdapter
from toolcast.providers.google.decoder import PathsToJSON
from toolcast.values.accumulator import Accumulator
from toolcast.values.answer_details import SafetyRating
from toolcast.values.citations import Grounding
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPRequest
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool, ToolSpec, legal_name
from toolcast.values.usage import Usage, UsageDetails

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
F = ToolSpec("f", "Does f.", CITY)
G = ToolSpec("my tool", "Does g.", {"type": "object", "properties": {}})
NAMED = legal_name("my tool")
ORDERED = {**CITY, "propertyOrdering": ["city"]}
GEMINI_2, GEMINI_3 = "gemini-2.5-flash", "gemini-3-pro-preview"


# -- requests


def sent(*messages: Message, settings: Settings | None = None, **about: Any) -> HTTPRequest:
    conversation = RequestInput(**{"model": GEMINI_2, "messages": messages or (user("Hi"),), **about})
    return GoogleAdapter().request(conversation, settings or Settings())


def body(*messages: Message, **about: Any) -> dict[str, Any]:
    return json.loads(sent(*messages, **about).body)


def contents(*messages: Message, **about: Any) -> list[dict[str, Any]]:
    return body(*messages, **about)["contents"]


def test_a_whole_request() -> None:
    wire = GoogleAdapter(api_key=Secret("AIza1"), headers={"X-Mine": "1"})
    request = wire.request(
        RequestInput(GEMINI_2, (system("Be terse."), user("Hi")), (F, G), NamedTool("f")), Settings()
    )
    assert request.url == (
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    )
    assert request.headers["x-goog-api-key"] == Secret("AIza1")
    assert request.headers["x-mine"] == "1"
    assert json.loads(request.body) == {
        "systemInstruction": {"parts": [{"text": "Be terse."}]},
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "f", "description": "Does f.", "parametersJsonSchema": ORDERED},
                    {"name": NAMED, "description": "Does g."},
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
    }


def test_a_request_for_a_whole_answer() -> None:
    request = sent(stream=False)
    assert request.url.endswith("/v1beta/models/gemini-2.5-flash:generateContent")
    assert json.loads(request.body) == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


VERTEX = "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google"
ADDRESSES = [
    ({"api_version": "v1"}, "m", "https://generativelanguage.googleapis.com/v1/models/m:generateContent"),
    ({"api_version": "/v1alpha/"}, "m", "https://generativelanguage.googleapis.com/v1alpha/models/m:generateContent"),
    ({"base_url": "https://x/"}, "models/m", "https://x/v1beta/models/m:generateContent"),
    ({"base_url": "https://x/v1beta1"}, "tunedModels/m", "https://x/v1beta1/tunedModels/m:generateContent"),
    ({"base_url": "https://v1.x/proxy"}, "m", "https://v1.x/proxy/v1beta/models/m:generateContent"),
    ({"base_url": "https://x/?a=b"}, "m?x", "https://x/v1beta/models/m%3Fx:generateContent?a=b"),
    ({"base_url": VERTEX}, "m@001", f"{VERTEX}/models/m@001:generateContent"),
    (
        {"base_url": "https://x/v1"},
        "publishers/google/models/m",
        "https://x/v1/publishers/google/models/m:generateContent",
    ),
]


@pytest.mark.parametrize(("about", "model", "url"), ADDRESSES)
def test_where_it_goes(about: dict[str, Any], model: str, url: str) -> None:
    conversation = RequestInput(model, (user("Hi"),), stream=False)
    assert GoogleAdapter(**about).request(conversation, Settings()).target == url
    streamed = GoogleAdapter(**about).request(RequestInput(model, (user("Hi"),)), Settings()).target
    assert (
        streamed == url.replace("generateContent", "streamGenerateContent") + ("&" if "?" in url else "?") + "alt=sse"
    )


IMAGE = ImagePart(data=b"\x89PNG", media_type="image/png")
INLINE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}
PARTS = [
    pytest.param(IMAGE, INLINE, id="image"),
    pytest.param(ImagePart(url="data:image/png;base64,iVBORw=="), INLINE, id="data url"),
    pytest.param(
        ImagePart(url="https://x/i.png?y=1"),
        {"fileData": {"mimeType": "image/png", "fileUri": "https://x/i.png?y=1"}},
        id="image url",
    ),
    pytest.param(
        AudioPart(data=b"a", media_type="audio/mpeg"),
        {"inlineData": {"mimeType": "audio/mpeg", "data": "YQ=="}},
        id="audio",
    ),
    pytest.param(
        DocumentPart(url="gs://bucket/a", media_type="application/pdf"),
        {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://bucket/a"}},
        id="document",
    ),
]


@pytest.mark.parametrize(("part", "given"), PARTS)
def test_media(part: Part, given: dict[str, Any]) -> None:
    assert contents(user("Look", part)) == [{"role": "user", "parts": [{"text": "Look"}, given]}]


def blocked(reason: str, source: Literal["prompt", "response"] = "response") -> SafetyReport:
    return SafetyReport((SafetyRating(reason, source, blocked=True, provider="google"),))


REFUSED = [
    pytest.param(user(ImagePart(url="https://x/i")), "media_type=", id="unknown type"),
    pytest.param(user(ToolCallPart("x", "f")), "ToolCallPart", id="a call by the user"),
    pytest.param(system(IMAGE), "ImagePart", id="image for the system"),
    pytest.param(assistant(DocumentPart(url="https://x/a.pdf")), "DocumentPart", id="document by the assistant"),
    pytest.param(Message("tool", (TextPart("x"),)), "TextPart", id="text in a tool message"),
    pytest.param(tool_result("x", "4"), "add name=", id="result of nothing"),
]


def test_the_result_of_a_call_without_a_name() -> None:
    asked, answered = contents(assistant(ToolCallPart("x", "")), tool_result("x", "no such tool"))
    assert asked["parts"][0]["functionCall"]["name"] == answered["parts"][0]["functionResponse"]["name"]


@pytest.mark.parametrize(("message", "named"), REFUSED)
def test_content_that_cannot_be_sent(message: Message, named: str) -> None:
    with pytest.raises(BadRequest, match=named) as caught:
        body(message)
    assert (caught.value.provider, caught.value.model) == ("google", GEMINI_2)


def test_turns() -> None:
    messages = (
        system("a"), system("b"), user("c"), user("", "d"), user(), assistant(), system("e"), assistant("f", "g"),
    )  # fmt: skip
    assert body(*messages) == {
        "systemInstruction": {"parts": [{"text": "a"}, {"text": "b"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "c"}, {"text": "d"}, {"text": "e"}]},
            {"role": "model", "parts": [{"text": "f"}, {"text": "g"}]},
        ],
    }


@pytest.mark.parametrize(
    ("messages", "text"), [((system("a"),), "a"), ((user(),), ""), ((assistant("", ThinkingPart("Hm")),), "")]
)
def test_something_is_asked(messages: tuple[Message, ...], text: str) -> None:
    assert body(*messages) == {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def test_calls_and_results() -> None:
    mine = ToolCallPart("call_1", "my tool", '{"a":1}', opaque={"google": {"id": "x1", "thoughtSignature": "S"}})
    other = ToolCallPart("call_2", "f", "{oops")
    results = Message("tool", (ToolResultPart("call_1", "4"), ToolResultPart("call_2", "no", is_error=True)))
    asked, answered = contents(assistant(mine, other), results, user("and?"), tools=(F, G))
    assert asked == {
        "role": "model",
        "parts": [
            {"functionCall": {"name": NAMED, "args": {"a": 1}, "id": "x1"}, "thoughtSignature": "S"},
            {"functionCall": {"name": "f", "args": {"malformed": "{oops"}}},
        ],
    }
    assert answered == {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": NAMED, "response": {"result": "4"}, "id": "x1"}},
            {"functionResponse": {"name": "f", "response": {"error": "no"}}},
            {"text": "and?"},
        ],
    }


def test_the_first_foreign_call_of_a_step_asks_not_to_be_checked() -> None:
    calls = assistant(ToolCallPart("a", "f"), ToolCallPart("b", "f"))
    parts = contents(calls, user("x"), calls, model=GEMINI_3)
    signatures = [part.get("thoughtSignature") for turn in (parts[0], parts[2]) for part in turn["parts"]]
    assert signatures == ["skip_thought_signature_validator", None] * 2
    assert "thoughtSignature" not in json.dumps(contents(calls))


@pytest.mark.parametrize(
    ("model", "image", "inside"),
    [(GEMINI_3, IMAGE, True), (GEMINI_2, IMAGE, False), (GEMINI_3, ImagePart(url="https://x/i.png"), False)],
)
def test_images_in_results(model: str, image: ImagePart, inside: bool) -> None:
    result = Message("tool", (ToolResultPart("x", "4", "f", images=(image,)),))
    (turn,) = contents(result, model=model)
    assert len(turn["parts"]) == (1 if inside else 2)
    assert ("parts" in turn["parts"][0]["functionResponse"]) == inside


def signed(**kept: Any) -> dict[str, Any]:
    return {"google": {"thoughtSignature": "S", **kept}}


TOOL_CALL = {"toolCall": {"toolType": "FILE_SEARCH"}, "thoughtSignature": "S"}
REPLAYS = [
    pytest.param([ThinkingPart("Hm")], [], id="unsigned thought"),
    pytest.param([ThinkingPart("Hm", signature="x")], [], id="foreign thought"),
    pytest.param(
        [ThinkingPart("Hm", opaque=signed())], [{"text": "Hm", "thought": True, "thoughtSignature": "S"}], id="thought"
    ),
    pytest.param(
        ["ab", ThinkingPart(opaque=signed(characters=2)), "c"],
        [{"text": "ab", "thoughtSignature": "S"}, {"text": "c"}],
        id="on a text",
    ),
    pytest.param(
        ["abc", ThinkingPart(opaque=signed(characters=2))],
        [{"text": "a"}, {"text": "bc", "thoughtSignature": "S"}],
        id="on the end of a text",
    ),
    pytest.param(
        ["ab", ThinkingPart("Hm", opaque=signed(characters=0))],
        [{"text": "ab"}, {"text": "", "thoughtSignature": "S"}],
        id="on a part of its own",
    ),
    pytest.param(
        ["a", ThinkingPart(opaque=signed(characters=2))],
        [{"text": "a"}, {"text": "", "thoughtSignature": "S"}],
        id="on a text that was changed",
    ),
    pytest.param(
        [ThinkingPart(opaque=signed(characters=2))],
        [{"text": "", "thoughtSignature": "S"}],
        id="on a text that is gone",
    ),
    pytest.param([ThinkingPart(opaque={"google": TOOL_CALL})], [TOOL_CALL], id="on another part"),
]


@pytest.mark.fault(102)
@pytest.mark.parametrize(("parts", "given"), REPLAYS)
def test_signatures_go_back_where_they_came(parts: list[Part | str], given: list[dict[str, Any]]) -> None:
    turns = contents(user("x"), assistant(*parts))[1:]
    assert [part for turn in turns for part in turn["parts"]] == given


CHOICES = [
    (None, None),
    ("auto", {"mode": "AUTO"}),
    ("required", {"mode": "ANY"}),
    ("any", {"mode": "ANY"}),
    ("none", {"mode": "NONE"}),
    ("my tool", {"mode": "ANY", "allowedFunctionNames": [NAMED]}),
    ({"mode": "VALIDATED"}, {"mode": "VALIDATED"}),
]


@pytest.mark.parametrize(("choice", "calling"), CHOICES)
def test_tool_choices(choice: Any, calling: Any) -> None:
    config = body(tools=(F, G), tool_choice=choice).get("toolConfig")
    assert config == (None if calling is None else {"functionCallingConfig": calling})


def test_choices_without_tools() -> None:
    assert body(tool_choice="auto") == body()
    with pytest.raises(BadRequest, match="needs tools"):
        body(tool_choice="required")
    with pytest.raises(BadRequest, match="not among the tools"):
        body(tools=(F,), tool_choice="g")


@pytest.mark.parametrize(
    ("parameters", "declared"),
    [
        ({"type": "object", "properties": {}, "additionalProperties": False, "title": "X"}, False),
        ({"type": "object", "additionalProperties": {"type": "string"}}, True),
        ({"type": "object", "additionalProperties": True}, True),
    ],
)
def test_a_tool_without_parameters_has_no_schema(parameters: dict[str, Any], declared: bool) -> None:
    (tool,) = body(tools=(ToolSpec("f", "", parameters),))["tools"][0]["functionDeclarations"]
    assert ("parametersJsonSchema" in tool) == declared


def test_all_settings() -> None:
    settings = Settings(
        temperature=0.0, top_p=0.9, top_k=5, max_tokens=7, stop="x", seed=3,
        extra={"generationConfig": {"candidateCount": 1}, "toolConfig": {"retrievalConfig": {}}, "cachedContent": "c"},
    )  # fmt: skip
    found = body(settings=settings, tools=(F,), tool_choice="auto")
    assert found["generationConfig"] == {
        "temperature": 0.0, "topP": 0.9, "topK": 5, "maxOutputTokens": 7, "stopSequences": ["x"], "seed": 3,
        "candidateCount": 1,
    }  # fmt: skip
    assert found["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}, "retrievalConfig": {}}
    assert found["cachedContent"] == "c"


def test_more_stops_than_are_taken() -> None:
    settings = Settings(stop=list("abcdef"))
    assert body(settings=settings)["generationConfig"]["stopSequences"] == list("abcde")
    assert sent(settings=settings).notes == ("more than 5 stop sequences",)
    assert sent(settings=Settings(stop=list("abcde"))).notes == ()


THOUGHTS = [
    (GEMINI_2, True, {"thinkingBudget": -1, "includeThoughts": True}),
    (GEMINI_2, False, {"thinkingBudget": 0}),
    (GEMINI_2, 0, {"thinkingBudget": 0}),
    (GEMINI_2, 1000, {"thinkingBudget": 1000, "includeThoughts": True}),
    (GEMINI_2, "low", {"thinkingBudget": 2048, "includeThoughts": True}),
    (GEMINI_2, "huge", {"thinkingBudget": -1, "includeThoughts": True}),
    ("gemini-2.5-pro", False, {"thinkingBudget": 128}),
    (GEMINI_3, True, {"includeThoughts": True}),
    (GEMINI_3, "high", {"thinkingLevel": "HIGH", "includeThoughts": True}),
    (GEMINI_3, 3000, {"thinkingLevel": "MEDIUM", "includeThoughts": True}),
    (GEMINI_3, False, {"thinkingLevel": "LOW"}),
    (GEMINI_3, "minimal", {"thinkingLevel": "LOW", "includeThoughts": True}),
    (GEMINI_3, "xhigh", {"thinkingLevel": "HIGH", "includeThoughts": True}),
    ("models/gemini-3-flash", False, {"thinkingLevel": "MINIMAL"}),
    ("gemini-3.8-flash", False, {"thinkingLevel": "LOW"}),
    ("gemini-4-argon", "minimal", {"thinkingLevel": "LOW", "includeThoughts": True}),
]


NEAREST = (
    *(("gemini-2.5-pro", False), (GEMINI_3, False), (GEMINI_3, "minimal"), (GEMINI_3, "xhigh")),
    *(("models/gemini-3-flash", False), ("gemini-3.8-flash", False), ("gemini-4-argon", "minimal")),
)


@pytest.mark.parametrize(("model", "thinking", "config"), THOUGHTS)
def test_thinking(model: str, thinking: bool | str | int, config: dict[str, Any]) -> None:
    request = sent(model=model, settings=Settings(thinking=thinking))
    assert json.loads(request.body)["generationConfig"] == {"thinkingConfig": config}
    noted = [note.startswith(f"thinking={thinking!r} (the ") and note.endswith(" was sent)") for note in request.notes]
    assert noted == [True] * ((model, thinking) in NEAREST)


def test_models_that_do_not_think() -> None:
    request = sent(model="gemini-2.0-flash", settings=Settings(thinking=True))
    assert request.notes == ("thinking",)
    assert b"generationConfig" not in request.body


def test_json_schema_mode_with_one_tool() -> None:
    found = body(tools=(F,), tool_choice=NamedTool("f"), mode="json_schema", settings=Settings(seed=1))
    assert found["generationConfig"] == {
        "seed": 1,
        "responseMimeType": "application/json",
        "responseJsonSchema": ORDERED,
    }
    assert found.keys() == {"contents", "generationConfig"}


def test_json_schema_mode_with_a_choice_describes_the_tools() -> None:
    found = body(tools=(F, G), tool_choice="required", mode="json_schema")
    assert found["generationConfig"]["responseJsonSchema"]["properties"].keys() == {"calls"}
    assert "Does f." in found["systemInstruction"]["parts"][0]["text"]


def test_json_schema_mode_without_force_offers_tools() -> None:
    found = body(tools=(F,), tool_choice="auto", mode="json_schema")
    assert found.keys() == {"contents", "tools", "toolConfig"}


# -- answers


def line(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return json.dumps({"candidates": [candidate], **more}).encode()


def stream(*chunks: bytes, end: bytes = b"\r\n\r\n") -> bytes:
    return b"".join(b"data: " + chunk + end for chunk in chunks)


def decode(*pieces: bytes, **about: Any) -> list[Event]:
    conversation = RequestInput(**{"model": "m", "messages": (), "tools": (F, G), **about})
    decoder = GoogleAdapter().decoder(conversation)
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()


def message_of(events: list[Event]) -> Message:
    accumulator = Accumulator()
    for event in events:
        accumulator.apply(event)
    return accumulator.message()


CALL = {"functionCall": {"name": "f", "args": {"city": "Ålesund"}}}
DONE = '{"city":"Ålesund"}'
ANSWERS = [
    pytest.param(
        [line({"text": "Hel"}, modelVersion="gemini-x"), line({"text": "lo"}, finish="STOP")],
        [TextDelta("Hel"), TextDelta("lo"), Finish("end_turn", "gemini-x", "STOP")],
        id="text",
    ),
    pytest.param(
        [line(CALL, {**CALL, "thoughtSignature": "S"}), line({"text": ""}, finish="STOP")],
        [
            ToolCallStart("call_1", "f"),
            ToolCallDelta("call_1", DONE),
            ToolCallDone("call_1", "f", DONE),
            ToolCallStart("call_2", "f"),
            ToolCallDelta("call_2", DONE),
            ToolCallDone("call_2", "f", DONE, opaque=signed()),
            Finish("tool_use", None, "STOP"),
        ],
        id="two equal calls",
    ),
    pytest.param(
        [
            line({"functionCall": {"name": "f", "args": {"city": "Ålesund"}, "partialArgs": []}}),
            line({"text": "a", "functionCall": {}}, {"text": "b", "videoMetadata": {"x": 1}}, finish="STOP"),
        ],
        [
            ToolCallStart("call_1", "f"),
            ToolCallDelta("call_1", DONE),
            ToolCallDone("call_1", "f", DONE),
            TextDelta("a"),
            TextDelta("b"),
            RawEvent({"videoMetadata": {"x": 1}}),
            Finish("tool_use", None, "STOP"),
        ],
        id="empty fields beside others",
    ),
    pytest.param(
        [line({"functionCall": {"id": "x1", "name": NAMED}}, finish="STOP")],
        [
            ToolCallStart("x1", "my tool"),
            ToolCallDelta("x1", "{}"),
            ToolCallDone("x1", "my tool", "{}", opaque={"google": {"id": "x1"}}),
            Finish("tool_use", None, "STOP"),
        ],
        id="an id of its own, no arguments",
    ),
    pytest.param(
        [line({"functionCall": {"name": "f", "args": '{"city":"x"}'}}, finish="MALFORMED_FUNCTION_CALL")],
        [
            ToolCallStart("call_1", "f"),
            ToolCallDelta("call_1", '{"city":"x"}'),
            ToolCallDone("call_1", "f", '{"city":"x"}'),
            Finish("error", None, "MALFORMED_FUNCTION_CALL"),
        ],
        id="arguments as text",
    ),
    pytest.param(
        [
            line({"text": "Hm", "thought": True}, {"text": "", "thought": True}),
            line({"text": "!", "thought": True, "thoughtSignature": "S"}),
            line({"text": "ab", "thoughtSignature": "S"}, {"text": "", "thoughtSignature": "S"}, finish="STOP"),
        ],
        [
            ThinkingDelta("Hm"),
            ThinkingDelta("!", opaque=signed()),
            TextDelta("ab"),
            ThinkingDelta(opaque=signed(characters=2)),
            ThinkingDelta(opaque=signed(characters=0)),
            Finish("end_turn", None, "STOP"),
        ],
        id="thoughts and signatures",
    ),
    pytest.param(
        [line({"executableCode": {"code": "1"}}, TOOL_CALL, finish="STOP")],
        [
            ServerToolUse("code_execution", "", {"code": "1", "language": None}, provider="google",
                          raw={"executableCode": {"code": "1"}}),
            ServerToolUse("file_search", "", {}, provider="google", raw=TOOL_CALL),
            Finish("end_turn", None, "STOP"),
        ],
        id="other parts",
    ),
    pytest.param(
        [line({"future": {"a": 1}, "thoughtSignature": "S"}, {"text": "a"}, finish="STOP")],
        [
            RawEvent({"future": {"a": 1}, "thoughtSignature": "S"}),
            ThinkingDelta(opaque={"google": {"future": {"a": 1}, "thoughtSignature": "S"}}),
            TextDelta("a"),
            Finish("end_turn", None, "STOP"),
        ],
        id="a part that is unknown, with a signature",
    ),
    pytest.param(
        [b'{"candidates":[{"finishReason":"STOP","groundingMetadata":{"a":1},"safetyRatings":[1]}]}'],
        [
            GroundingReport(Grounding(provider="google", raw={"groundingMetadata": {"a": 1}})),
            Finish("end_turn", None, "STOP"),
        ],
        id="other fields",
    ),
    pytest.param(
        [b'{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4}}'],
        [blocked("SAFETY", "prompt"), UsageReport(Usage(4)), Finish("content_filter", None, "SAFETY")],
        id="blocked prompt",
    ),
    pytest.param(
        [b'{"candidates":[{"index":1,"content":{"parts":[{"text":"no"}]}},{"content":{},"finishReason":"SAFETY"}]}'],
        [blocked("SAFETY"), Finish("content_filter", None, "SAFETY")],
        id="blocked answer, another candidate",
    ),
    pytest.param(
        [
            line({"text": "a"}, usageMetadata={"promptTokenCount": 9, "toolUsePromptTokenCount": 1}),
            line({"text": "b"}, usageMetadata={"trafficType": "X"}),
            line(finish="MAX_TOKENS", usageMetadata={
                "promptTokenCount": 8, "candidatesTokenCount": 2, "thoughtsTokenCount": 3, "cachedContentTokenCount": 4
            }),
        ],
        [
            TextDelta("a"),
            UsageReport(Usage(10, details=UsageDetails(tool_input_tokens=1))),
            TextDelta("b"),
            UsageReport(Usage(9, 5, 4, reasoning_tokens=3, details=UsageDetails(tool_input_tokens=1))),
            Finish("max_tokens", None, "MAX_TOKENS"),
        ],
        id="usage",
    ),
    pytest.param(
        [line({"text": "a"}, usageMetadata={"trafficType": "X"}, finish="STOP"), line(finish="IMAGE_SAFETY")],
        [TextDelta("a"), blocked("IMAGE_SAFETY"), Finish("content_filter", None, "IMAGE_SAFETY")],
        id="the last reason counts",
    ),
    pytest.param(
        [b'{"setupComplete":{}}', line(finish="STOP")],
        [RawEvent({"setupComplete": {}}), Finish("end_turn", None, "STOP")],
        id="unknown chunk",
    ),
    pytest.param([line(finish="NEWS")], [Finish("other", None, "NEWS")], id="unknown reason"),
    pytest.param([line(finish="UNEXPECTED_TOOL_CALL")], [Finish("error", None, "UNEXPECTED_TOOL_CALL")], id="error"),
]  # fmt: skip


@pytest.mark.parametrize(("chunks", "events"), ANSWERS)
def test_events(chunks: list[bytes], events: list[Event]) -> None:
    body = stream(*chunks)
    assert decode(body) == events
    assert decode(*[body[at : at + 1] for at in range(len(body))]) == events
    for cut in cut_places(body):
        assert decode(body[:cut], body[cut:]) == events, cut
    assert decode(stream(*chunks, end=b"\n\n")) == events
    if b"setupComplete" in body:  # which is no answer
        return
    listed = b"[" + b"\n,\r\n".join(chunks) + b"]\n"
    assert decode(listed) == events
    assert decode(*[listed[at : at + 1] for at in range(len(listed))]) == events


def test_ids_go_on_through_the_conversation() -> None:
    events = decode(stream(line(CALL, finish="STOP")), messages=(assistant(ToolCallPart("call_1", "f")),))
    assert events[0] == ToolCallStart("call_2", "f")


def test_json_schema_mode_reads_the_text_as_the_call() -> None:
    about = {"tools": (F,), "tool_choice": NamedTool("f"), "mode": "json_schema"}
    events = decode(stream(line({"text": '{"city":'}), line({"text": '"Oslo"}'}, finish="STOP")), **about)
    assert ToolCallDone("call_1", "f", '{"city":"Oslo"}') in events
    assert events[-1] == Finish("tool_use", None, "STOP")


ROUND_TRIPS = [
    [{"text": "ab"}, {"text": "", "thoughtSignature": "S/+="}],
    [{"text": "ab", "thoughtSignature": "S"}, {"text": "c"}],
    [{"text": "Hm", "thought": True, "thoughtSignature": "S"}, {"text": "c"}],
    [{**CALL, "thoughtSignature": "S"}, CALL, CALL],
    [TOOL_CALL, {"text": "a"}, {"text": "b", "thoughtSignature": "T"}, {"text": "c", "thoughtSignature": "U"}],
    [{"functionCall": {"name": "f", "args": {}, "id": "x"}, "thoughtSignature": "S"}],
]


@pytest.mark.parametrize("parts", ROUND_TRIPS)
def test_received_parts_are_sent_back(parts: list[dict[str, Any]]) -> None:
    message = message_of(decode(stream(*[line(part) for part in parts], line(finish="STOP"))))
    assert contents(user("x"), message, model=GEMINI_3)[1]["parts"] == parts


# -- arguments in pieces


def piece(path: str | None = None, goes_on: bool = True, **value: Any) -> bytes:
    call: dict[str, Any] = {"willContinue": True} if goes_on else {}
    if path is not None:
        call["partialArgs"] = [{"jsonPath": path, **value}]
    return line({"functionCall": call})


BEGUN = line({"functionCall": {"name": "f", "willContinue": True}, "thoughtSignature": "S"})
PIECES = [BEGUN, piece("$.city", stringValue="Os", willContinue=True), piece("$.city", stringValue='lo"')]
WHOLE = '{"city":"Oslo\\""}'
ENDED = {"thoughtSignature": "S"}


def call_in(events: list[Event]) -> ToolCallPart:
    (call,) = message_of(events).tool_calls
    deltas = [event.arguments for event in events if isinstance(event, ToolCallDelta)]
    assert "".join(deltas) == ("" if call.arguments == "{}" else call.arguments)
    return call


@pytest.mark.parametrize(
    "last",
    [
        pytest.param([piece(goes_on=False), line(finish="STOP")], id="an empty call ends it"),
        pytest.param(
            [piece("$.city", goes_on=False, stringValue=""), line(finish="STOP")], id="the last piece ends it"
        ),
        pytest.param([line(finish="STOP")], id="the end of the answer ends it"),
        pytest.param([piece(goes_on=False), piece(goes_on=False), line(finish="STOP")], id="ended twice"),
    ],
)
def test_arguments_in_pieces(last: list[bytes]) -> None:
    body = stream(*PIECES, *last)
    events = decode(body)
    assert call_in(events) == ToolCallPart("call_1", "f", WHOLE, opaque=signed())
    assert [event for event in events if isinstance(event, ToolCallDelta)][:2] == [
        ToolCallDelta("call_1", '{"city":"Os'),
        ToolCallDelta("call_1", 'lo\\"'),
    ]
    assert events[-1] == Finish("tool_use", None, "STOP")
    for cut in cut_places(body):
        assert decode(body[:cut], body[cut:]) == events, cut


def test_a_call_in_pieces_that_is_cut_off() -> None:
    events = decode(stream(*PIECES, line(finish="MAX_TOKENS")))
    assert call_in(events) == ToolCallPart("call_1", "f", '{"city":"Oslo\\"', truncated=True, opaque=signed())
    assert events[-1] == Finish("max_tokens", None, "MAX_TOKENS")


def test_the_next_call_ends_the_one_before_it() -> None:
    events = decode(stream(*PIECES, BEGUN, line(CALL, finish="STOP")))
    assert [call.arguments for call in message_of(events).tool_calls] == [WHOLE, "{}", DONE]


def test_a_fragment_of_no_call_is_ignored() -> None:
    assert decode(stream(*PIECES[1:], line(finish="STOP"))) == [Finish("end_turn", None, "STOP")]


def test_a_lost_piece_is_no_call() -> None:
    with pytest.raises(MalformedEvent, match="may lack a piece"):
        decode(stream(*PIECES[:2], b'{"candidates": [', line(finish="STOP")))


def spelled(*values: tuple[str, Any]) -> str:
    kinds = {str: "stringValue", bool: "boolValue", type(None): "nullValue"}
    machine = PathsToJSON()
    found: list[object] = [{"jsonPath": path, kinds.get(type(v), "numberValue"): v} for path, v in values]
    return machine.more(found) + machine.end()


def test_paths() -> None:
    values = [
        ("$.a[0].b", "x"), ("$.a[0].c", None), ("$.a[1].b", 0.5), ("$.d.e", True), ("$['x y'][0][0]", 1),
        ('$["x y"][0][1]', "é"), ("$.n", ""),
    ]  # fmt: skip
    assert json.loads(spelled(*values)) == {
        "a": [{"b": "x", "c": None}, {"b": 0.5}], "d": {"e": True}, "x y": [[1, "é"]], "n": ""
    }  # fmt: skip
    assert json.loads(spelled(("$[0]", 1), ("$[1].a", 2))) == [1, {"a": 2}]


def test_values_without_content() -> None:
    assert PathsToJSON().more([{"jsonPath": "$.a"}, {"stringValue": "x"}, {"jsonPath": 4, "boolValue": True}, 7]) == ""


@pytest.mark.parametrize(
    "paths", [("$.a", "$.b", "$.a"), ("$.a", "$.a"), ("$.a", "$.a.b"), ("$.a[1]",), ("$.a[0]", "$.a.b")]
)
def test_paths_out_of_order(paths: tuple[str, ...]) -> None:
    with pytest.raises(MalformedEvent, match="out of order"):
        spelled(*[(path, 1) for path in paths])


def leaves(value: Any, path: str = "$") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in leaves(inner, f"{path}.{name}")]
    if isinstance(value, list):
        return [leaf for at, inner in enumerate(value) for leaf in leaves(inner, f"{path}[{at}]")]
    return [(path, value)]


LEAF = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
NAMES = st.text("abc_", min_size=1, max_size=3)
TREES = st.dictionaries(
    NAMES,
    st.recursive(
        LEAF,
        lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(NAMES, inner, min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=3,
)


@given(TREES)
def test_paths_spell_every_object(tree: dict[str, Any]) -> None:
    assert json.loads(spelled(*leaves(tree))) == tree


# -- what goes wrong

FAULT = b'{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}'
FAULTS = [
    pytest.param(stream(line({"text": "a"}), FAULT), Overloaded, id="in the stream"),
    pytest.param(FAULT, Overloaded, id="as the body"),
    pytest.param(b"[" + FAULT + b"]", Overloaded, id="in a list"),
    pytest.param(stream(line({"text": "a"})), StreamTruncated, id="no end"),
    pytest.param(line({"text": "a"}), StreamTruncated, id="no end in one piece"),
    pytest.param(b"[" + line({"text": "a"}, finish="STOP"), StreamTruncated, id="half a list"),
    pytest.param(stream(line({"text": "a"}), b"[DONE]"), StreamTruncated, id="done, but no end"),
    pytest.param(b'{"hello": 1}', MalformedEvent, id="something else"),
    pytest.param(b"[]", MalformedEvent, id="nothing"),
    pytest.param(b"<html>", MalformedEvent, id="a page"),
]


@pytest.mark.fault(39, 51)
@pytest.mark.parametrize(("body", "error"), FAULTS)
def test_faults(body: bytes, error: type[LLMError]) -> None:
    for pieces in ([body], [body[at : at + 1] for at in range(len(body))]):
        with pytest.raises(error) as caught:
            decode(*pieces)
        assert (caught.value.provider, caught.value.model) == ("google", "m")


def test_error_bodies() -> None:
    error = GoogleAdapter().error(404, {}, b'[{"error":{"code":404,"message":"no model","status":"NOT_FOUND"}}]')
    assert isinstance(error, NotFound)
    assert "no model" in error.message


PIECE = st.sampled_from(
    [line({"text": "é"}), line(CALL), *PIECES, piece(goes_on=False), FAULT, line({"text": "", "thoughtSignature": "S"})]
)


@given(st.lists(PIECE, max_size=6), st.sampled_from(["STOP", "MAX_TOKENS"]), st.data())
def test_any_cut_gives_the_same_events(chunks: list[bytes], finish: str, data: st.DataObject) -> None:
    body = stream(*chunks, line(finish=finish))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=4)))
    ends = [0, *cuts, len(body)]

    def outcome(*pieces: bytes) -> Any:
        try:
            return decode(*pieces)
        except LLMError as error:
            return type(error), str(error)

    assert outcome(*[body[a:b] for a, b in pairwise(ends)]) == outcome(body)


# -- what the engine makes of it

ENDS = [
    ("MALFORMED_FUNCTION_CALL", NoToolCallError),
    ("SAFETY", ContentBlocked),
    ("MAX_TOKENS", OutputTruncated),
]


@pytest.mark.fault(78, 79, 97)
@pytest.mark.parametrize(("finish", "error"), ENDS)
def test_an_answer_without_a_call(finish: str, error: type[LLMError]) -> None:
    class City(BaseModel):
        city: str

    ask = ToolOrchestratingLLM(City, "Where?", Google("gemini-2.5-flash", api_key="k"))
    with pytest.raises(error):
        ask.parse(line(finish=finish))
