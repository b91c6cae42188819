"""Mistral's wire: where it differs from chat completions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.example_counts import cut_places
from toolcast.errors import AuthFailed, BadRequest, LLMError, RateLimited, ServerError, StreamTruncated
from toolcast.events import (
    Event,
    Finish,
    TextCitation,
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
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.providers.base import RequestInput
from toolcast.providers.mistral.adapter import MistralAdapter
from toolcast.values.accumulator import Accumulator
from toolcast.values.citations import Citation
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPRequest
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool, ToolSpec, legal_name
from toolcast.values.usage import Usage


def details(*items: Any) -> ThinkingDelta:
    """The event of thoughts that go back as they came."""
    return ThinkingDelta(opaque={"reasoning_details": [*items], "provider": "mistral"})


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
F = ToolSpec("f", "Does f.", CITY)
G = ToolSpec("my tool", "", {"type": "object", "properties": {}})


# -- requests


def sent(*messages: Message, settings: Settings | None = None, **about: Any) -> HTTPRequest:
    conversation = RequestInput(**{"model": "mistral-large-latest", "messages": messages or (user("Hi"),), **about})
    return MistralAdapter().request(conversation, settings or Settings())


def body(*messages: Message, **about: Any) -> dict[str, Any]:
    return json.loads(sent(*messages, **about).body)


def test_a_whole_request() -> None:
    wire = MistralAdapter(api_key=Secret("k-1"), headers={"X-Mine": "1"})
    request = wire.request(RequestInput("m", (system("Be terse."), user("Hi")), (F, G), NamedTool("f")), Settings())
    assert (wire.provider, request.url) == ("mistral", "https://api.mistral.ai/v1/chat/completions")
    assert request.headers["authorization"] == Secret("Bearer k-1")
    assert request.headers["x-mine"] == "1"
    assert json.loads(request.body) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be terse."}, {"role": "user", "content": "Hi"}],
        "stream": True,
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": CITY}},
            {"type": "function", "function": {"name": legal_name("my tool"), "parameters": G.parameters}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False,
    }


def test_another_address() -> None:
    wire = MistralAdapter(base_url="https://api.eu.mistral.ai/v1/")
    request = wire.request(RequestInput("m", (user("Hi"),), stream=False), Settings())
    assert request.url == "https://api.eu.mistral.ai/v1/chat/completions"


@pytest.mark.parametrize(
    ("choice", "given"), [("required", "any"), ("any", "any"), ("auto", "auto"), ("none", "none"), (None, None)]
)
def test_tool_choices(choice: Any, given: Any) -> None:
    assert body(tools=(F,), tool_choice=choice).get("tool_choice") == given


def test_all_settings() -> None:
    settings = Settings(
        temperature=0.1, top_p=0.9, top_k=5, max_tokens=7, stop="x", seed=3, extra={"safe_prompt": True}
    )
    found = body(settings=settings)
    assert {name: found[name] for name in found.keys() - {"model", "messages", "stream"}} == {
        "temperature": 0.1, "top_p": 0.9, "max_tokens": 7, "stop": ["x"], "random_seed": 3, "safe_prompt": True
    }  # fmt: skip
    assert sent(settings=settings).notes == ("top_k",)


THOUGHTS = [
    ("mistral-small-latest", True, {"reasoning_effort": "high"}, ()),
    ("mistral-small-latest", False, {"reasoning_effort": "none"}, ()),
    ("mistral-small-latest", "low", {"reasoning_effort": "low"}, ()),
    ("mistral-small-latest", 100, {"reasoning_effort": "low"}, ()),
    ("magistral-medium-latest", True, {"prompt_mode": "reasoning"}, ()),
    ("magistral-medium-latest", "low", {"prompt_mode": "reasoning"}, ()),
    ("magistral-medium-latest", False, {}, ("thinking",)),
    ("magistral-medium-latest", None, {}, ()),
]


@pytest.mark.parametrize(("model", "thinking", "fields", "notes"), THOUGHTS)
def test_thinking(model: str, thinking: Any, fields: dict[str, Any], notes: tuple[str, ...]) -> None:
    request = sent(model=model, settings=Settings(thinking=thinking))
    found = json.loads(request.body)
    assert {name: found[name] for name in found.keys() - {"model", "messages", "stream"}} == fields
    assert request.notes == notes


PARTS = [
    pytest.param(
        ImagePart(data=b"\x89PNG", media_type="image/png"),
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
        id="image",
    ),
    pytest.param(
        ImagePart(url="https://x/i.png", detail="low"),
        {"type": "image_url", "image_url": {"url": "https://x/i.png", "detail": "low"}},
        id="image url",
    ),
    pytest.param(
        AudioPart(data=b"a", media_type="audio/ogg"), {"type": "input_audio", "input_audio": "YQ=="}, id="audio"
    ),
    pytest.param(
        AudioPart(url="https://x/a.mp3"), {"type": "input_audio", "input_audio": "https://x/a.mp3"}, id="audio url"
    ),
    pytest.param(
        DocumentPart(data=b"a", media_type="application/pdf", name="a.pdf"),
        {"type": "document_url", "document_url": "data:application/pdf;base64,YQ==", "document_name": "a.pdf"},
        id="document",
    ),
    pytest.param(
        DocumentPart(url="https://x/a.pdf"), {"type": "document_url", "document_url": "https://x/a.pdf"}, id="url"
    ),
]


@pytest.mark.parametrize(("part", "given"), PARTS)
def test_media(part: Part, given: dict[str, Any]) -> None:
    (message,) = body(user("Look", part))["messages"]
    assert message == {"role": "user", "content": [{"type": "text", "text": "Look"}, given]}


def test_unsupported_content_is_refused() -> None:
    with pytest.raises(BadRequest, match="ImagePart") as caught:
        body(Message("tool", (ImagePart(url="https://x/i.png"),)))
    assert caught.value.provider == "mistral"


def test_calls_and_results_have_ids_of_nine_letters_and_digits() -> None:
    calls = assistant(
        ToolCallPart("call_1", "my tool", '{"a":1}', opaque={"extra_content": {"google": 1}}),
        ToolCallPart("gSIMJiOkT", "f"),
    )
    results = Message("tool", (ToolResultPart("call_1", "4", "my tool"), ToolResultPart("gSIMJiOkT", "5")))
    asked, *answered = body(calls, results, tools=(F, G))["messages"]
    made_up = asked["tool_calls"][0]["id"]
    assert len(made_up) == 9
    assert made_up.isalnum()
    name = legal_name("my tool")
    assert asked == {
        "role": "assistant",
        "tool_calls": [
            {"id": made_up, "type": "function", "function": {"name": name, "arguments": '{"a":1}'}},
            {"id": "gSIMJiOkT", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        ],
    }
    assert answered == [
        {"role": "tool", "tool_call_id": made_up, "content": "4", "name": name},
        {"role": "tool", "tool_call_id": "gSIMJiOkT", "content": "5"},
    ]


def test_between_a_result_and_the_user_the_model_speaks() -> None:
    call, result = ToolCallPart("gSIMJiOkT", "f"), tool_result("gSIMJiOkT", "5")
    sent = body(user("a"), assistant(call), result, user("b"), user("c"), assistant(call), result)["messages"]
    assert [message["role"] for message in sent] == [
        *["user", "assistant", "tool", "assistant", "user", "user", "assistant", "tool"]
    ]
    assert sent[3] == {"role": "assistant", "content": "I stopped here."}


def test_a_system_message_behind_results_is_sent_before_their_calls() -> None:
    calls = assistant(ToolCallPart("gSIMJiOkT", "f"), ToolCallPart("gSIMJiOkU", "f"))
    results = tool_result("gSIMJiOkT", "5"), tool_result("gSIMJiOkU", "6")
    sent = body(user("a"), calls, *results, system("b"), system("c"), assistant("d"), user("e"))["messages"]
    roles = " ".join(message["role"] for message in sent)
    assert roles == "user system system assistant tool tool assistant user"
    assert [message["content"] for message in sent[1:3]] == ["b", "c"]


def test_the_name_of_a_tool_that_is_no_longer_offered() -> None:
    (result,) = body(tool_result("x", "4", name="old tool"))["messages"]
    assert result["name"] == legal_name("old tool")


@given(st.sets(st.text(), min_size=2))
def test_ids_stay_apart(ids: set[str]) -> None:
    messages = body(*[tool_result(id, "4") for id in ids])["messages"]
    assert len({message["tool_call_id"] for message in messages}) == len(ids)
    assert all(len(message["tool_call_id"]) == 9 for message in messages)


CHUNK = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True, "signature": "S"}


@pytest.mark.parametrize(
    ("message", "given"),
    [
        (
            assistant(ThinkingPart("Hm.", opaque={"mistral": CHUNK}), "ok"),
            {"role": "assistant", "content": [CHUNK, {"type": "text", "text": "ok"}]},
        ),
        (assistant(ThinkingPart("Hm.", opaque={"mistral": CHUNK})), {"role": "assistant", "content": [CHUNK]}),
        (assistant(ThinkingPart("Hm.", opaque={"google": {}}), "ok"), {"role": "assistant", "content": "ok"}),
        (assistant(ThinkingPart("Hm.", signature="x"), "ok"), {"role": "assistant", "content": "ok"}),
        (assistant(ThinkingPart("Hm.")), None),
        (assistant(), None),
    ],
)
def test_assistant_messages(message: Message, given: dict[str, Any] | None) -> None:
    assert body(user("Hi"), message)["messages"][1:] == ([] if given is None else [given])


def test_json_schema_mode() -> None:
    found = body(tools=(F,), tool_choice=NamedTool("f"), mode="json_schema")
    assert found["response_format"]["type"] == "json_schema"
    held = found["response_format"]["json_schema"]
    assert (held["name"], held["strict"], held["schema"]["properties"]) == ("f", True, CITY["properties"])
    assert "tools" not in found


# -- answers


def line(content: Any = None, finish: str | None = None, calls: Any = None, details: str = "", **more: Any) -> bytes:
    delta = {"content": content} | ({"tool_calls": calls} if calls else {})
    if details:
        delta["reasoning_details"] = [{"type": "t", "text": details}]
    return json.dumps(
        {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    ).encode()


def stream(*chunks: bytes) -> bytes:
    return b"".join(b"data: " + chunk + b"\n\n" for chunk in (*chunks, b"[DONE]"))


def decode(*pieces: bytes, **about: Any) -> list[Event]:
    decoder = MistralAdapter().decoder(RequestInput(**{"model": "m", "messages": (), "tools": (F, G), **about}))
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()


def thinking(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **more}


def called(id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": id, "function": {"name": name, "arguments": arguments}}


END = Finish("end_turn", "m", "stop")
REFERENCE = {"type": "reference", "reference_ids": [1]}
ANSWERS = [
    pytest.param(
        [line(""), line("Hel"), line([{"type": "text", "text": "lo"}, {"type": "text", "text": ""}], "stop")],
        [TextDelta("Hel"), TextDelta("lo"), END],
        id="text, and text in a list",
    ),
    pytest.param(
        [
            line([thinking("H")]),
            line([thinking("m", closed=False)]),
            line([{"type": "thinking", "thinking": [], "closed": True, "signature": "S"}]),
            line("ok", "stop"),
        ],
        [
            ThinkingDelta("H"),
            ThinkingDelta("m"),
            ThinkingDelta(opaque={"mistral": thinking("Hm", closed=True, signature="S")}),
            TextDelta("ok"),
            END,
        ],
        id="a thought that is closed",
    ),
    pytest.param(
        [line([thinking("H")]), line([thinking("m")]), line([{"type": "text", "text": "ok"}], "stop")],
        [
            ThinkingDelta("H"),
            ThinkingDelta("m"),
            ThinkingDelta(opaque={"mistral": thinking("Hm")}),
            TextDelta("ok"),
            END,
        ],
        id="a thought that text ends",
    ),
    pytest.param(
        [
            line([{"type": "thinking", "thinking": "Hm"}]),
            line([{"type": "thinking", "thinking": [REFERENCE, 7, {"type": "text", "text": None}]}]),
            line(None, "tool_calls", [called("gSIMJiOkT", "f", '{"city":"x"}')]),
        ],
        [
            ThinkingDelta("Hm"),
            ThinkingDelta(
                opaque={
                    "mistral": {
                        "type": "thinking",
                        "thinking": [{"type": "text", "text": "Hm"}, REFERENCE, 7, {"type": "text", "text": None}],
                    }
                }
            ),
            ToolCallStart("gSIMJiOkT", "f"),
            ToolCallDelta("gSIMJiOkT", '{"city":"x"}'),
            ToolCallDone("gSIMJiOkT", "f", '{"city":"x"}'),
            Finish("tool_use", "m", "tool_calls"),
        ],
        id="a thought that a call ends",
    ),
    pytest.param(
        [line([thinking("Hm")], "model_length")],
        [
            ThinkingDelta("Hm"),
            ThinkingDelta(opaque={"mistral": thinking("Hm")}),
            Finish("max_tokens", "m", "model_length"),
        ],
        id="nothing but a thought",
    ),
    pytest.param(
        [line([{"type": "thinking", "thinking": [], "closed": True}, REFERENCE], "stop")],
        [TextCitation(Citation("reference", 0, 0, source_id="1", provider="mistral", raw=REFERENCE)), END],
        id="an empty thought, another chunk",
    ),
    pytest.param(
        [
            line(None, "tool_calls",
                 [called("a12345678", "f", '{"city":"x"}'), called("b12345678", "f", {"city": "y"})],
                 usage={"prompt_tokens": 124, "total_tokens": 146, "completion_tokens": 22}),
        ],
        [
            ToolCallStart("a12345678", "f"),
            ToolCallDelta("a12345678", '{"city":"x"}'),
            ToolCallStart("b12345678", "f"),
            ToolCallDelta("b12345678", '{"city":"y"}'),
            UsageReport(Usage(124, 22)),
            ToolCallDone("a12345678", "f", '{"city":"x"}'),
            ToolCallDone("b12345678", "f", '{"city":"y"}'),
            Finish("tool_use", "m", "tool_calls"),
        ],
        id="two calls without an index",
    ),
    pytest.param(
        [line(None, details="x"), line("hi", "stop")],
        [
            ThinkingDelta("x"),
            details({"type": "t", "text": "x"}),
            TextDelta("hi"),
            Finish("end_turn", "m", "stop"),
        ],
        id="the reasoning details of another service",
    ),
    pytest.param(
        [
            line(None, details="x"),
            line([thinking("Hm.", closed=True)]),
            line(None, details="y"),
            line([thinking("So.")]),
            line("hi", "stop"),
        ],
        [
            ThinkingDelta("x"),
            ThinkingDelta("Hm."),
            details({"type": "t", "text": "x"}),
            ThinkingDelta(opaque={"mistral": thinking("Hm.", closed=True)}),
            ThinkingDelta("y"),
            ThinkingDelta("So."),
            details({"type": "t", "text": "y"}),
            ThinkingDelta(opaque={"mistral": thinking("So.")}),
            TextDelta("hi"),
            Finish("end_turn", "m", "stop"),
        ],
        id="reasoning details between its own thoughts",
    ),
    pytest.param(
        [
            line(None, None, [{"index": 0, "type": "function", **called("a12345678", "f", "")}]),
            line(None, None, [{"index": 0, "type": "function", "function": {"name": "", "arguments": '{"city":"x"}'}}]),
            line("", "tool_calls"),
        ],
        [
            ToolCallStart("a12345678", "f"),
            ToolCallDelta("a12345678", '{"city":"x"}'),
            ToolCallDone("a12345678", "f", '{"city":"x"}'),
            Finish("tool_use", "m", "tool_calls"),
        ],
        id="a call in pieces, with an empty name",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("chunks", "events"), ANSWERS)
def test_events(chunks: list[bytes], events: list[Event]) -> None:
    body = stream(*chunks)
    assert decode(body) == events
    assert decode(body.replace(b"\n", b"\r\n")) == events
    assert decode(*[body[at : at + 1] for at in range(len(body))]) == events
    for cut in cut_places(body):
        assert decode(body[:cut], body[cut:]) == events, cut


def test_the_thought_that_came_goes_back() -> None:
    whole = {"choices": [{"finish_reason": "stop", "message": {"content": [CHUNK, {"type": "text", "text": "ok"}]}}]}
    accumulator = Accumulator()
    for event in decode(json.dumps(whole).encode()):
        accumulator.apply(event)
    message = accumulator.message()
    assert message.parts[0] == ThinkingPart("Hm.", opaque={"mistral": CHUNK})
    assert body(user("Hi"), message)["messages"][1]["content"][0] == CHUNK


def test_json_schema_mode_reads_the_text_as_the_call() -> None:
    about = {"tools": (F,), "tool_choice": NamedTool("f"), "mode": "json_schema"}
    events = decode(stream(line('{"city":'), line('"Oslo"}', "stop")), **about)
    assert ToolCallDone("call_1", "f", '{"city":"Oslo"}') in events
    assert events[-1] == Finish("tool_use", "m", "stop")


# -- what goes wrong

BUSY = b'{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","code":"1300"}'


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (stream(line("a"), BUSY), RateLimited),
        (BUSY, RateLimited),
        (b"data: " + line([thinking("Hm")]) + b"\n\n", StreamTruncated),
        (stream(b'{"object":"error","message":"oops","type":"internal","code":"9"}'), ServerError),
    ],
)
def test_faults(body: bytes, error: type[LLMError]) -> None:
    for pieces in ([body], [body[at : at + 1] for at in range(len(body))]):
        with pytest.raises(error) as caught:
            decode(*pieces)
        assert caught.value.provider == "mistral"


ERRORS = [
    (401, b'{"detail":"Unauthorized"}', AuthFailed, "MISTRAL_API_KEY"),
    (401, b'{"message":"Unauthorized","request_id":"r1"}', AuthFailed, "Unauthorized"),
    (429, BUSY, RateLimited, "rate limit"),
    (
        422,
        b'{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted"}]}',
        BadRequest,
        "seed",
    ),
    (400, b'{"object":"error","message":{"detail":[{"msg":"no such role"}]},"type":"x"}', BadRequest, "no such role"),
]


@pytest.mark.parametrize(("status", "body", "error", "message"), ERRORS)
def test_error_bodies(status: int, body: bytes, error: type[LLMError], message: str) -> None:
    found = MistralAdapter().error(status, {"mistral-correlation-id": "c1"}, body)
    assert type(found) is error
    assert message in found.message
    assert found.request_id == "c1"


PIECES = st.sampled_from(
    [line("é"), line([thinking("ü")]), line([thinking("", closed=True)]), line([REFERENCE]), BUSY,
     line(None, None, [called("a12345678", "f", "{}")])]
)  # fmt: skip


@given(st.lists(PIECES, max_size=6), st.data())
def test_any_cut_gives_the_same_events(chunks: list[bytes], data: st.DataObject) -> None:
    body = stream(*chunks, line("", "stop"))
    cut = data.draw(st.integers(0, len(body)))

    def outcome(*pieces: bytes) -> Any:
        try:
            return decode(*pieces)
        except LLMError as error:
            return type(error), str(error)

    assert outcome(body[:cut], body[cut:]) == outcome(body)
