"""OpenAI's Responses wire: what is sent, and every shape of what comes back."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.albums import SEA, Album
from support.example_counts import cut_places
from support.sync_and_async import API
from toolcast import OpenAIResponses, ToolOrchestratingLLM
from toolcast.errors import (
    AuthFailed,
    BadRequest,
    EmptyResponse,
    LimitExceeded,
    LLMError,
    MalformedEvent,
    QuotaExceeded,
    RateLimited,
    ServerError,
    StreamInterrupted,
    StreamTruncated,
)
from toolcast.events import (
    Event,
    Finish,
    RawEvent,
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
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.providers.base import RequestInput, ResponseDecoder
from toolcast.providers.chat_completions.services import GENERIC, LLAMA_CPP, MOONSHOT, OPENAI, QWEN, ServiceSpec
from toolcast.providers.openai.adapter import OpenAIResponsesAdapter
from toolcast.testing import Recorded, ReplayNetwork
from toolcast.values.accumulator import Accumulator
from toolcast.values.credentials import Secret
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool, ToolSpec
from toolcast.values.usage import Usage

F = ToolSpec("f", "Does f.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
STRICT_F = {**F.parameters, "additionalProperties": False}
G = ToolSpec("my tool", "Does g.", {"type": "object", "additionalProperties": {"type": "integer"}})


# -- requests


def body(
    *messages: Message, service: ServiceSpec = OPENAI, settings: Settings | None = None, **about: Any
) -> dict[str, Any]:
    conversation = RequestInput(**{"model": "gpt-5.4", "messages": messages or (user("Hi"),), **about})
    request = OpenAIResponsesAdapter(service).request(conversation, settings or Settings())
    return json.loads(request.body)


def notes(service: ServiceSpec, settings: Settings, **about: Any) -> tuple[str, ...]:
    conversation = RequestInput(**{"model": "gpt-5.4", "messages": (user("Hi"),), **about})
    return OpenAIResponsesAdapter(service).request(conversation, settings).notes


def test_a_whole_request() -> None:
    wire = OpenAIResponsesAdapter(OPENAI, api_key=Secret("sk-1"), headers={"X-Mine": "1"})
    asked = (system("Be terse."), system("Be kind."), user("Hi"), system("Now."))
    request = wire.request(RequestInput("gpt-5.4", asked, (F,), NamedTool("f")), Settings(max_tokens=9))
    assert (request.method, request.url) == ("POST", "https://api.openai.com/v1/responses")
    assert request.headers["authorization"] == Secret("Bearer sk-1")
    assert request.headers["x-mine"] == "1"
    assert "sk-1" not in repr(request)
    assert json.loads(request.body) == {
        "model": "gpt-5.4",
        "instructions": "Be terse.\n\nBe kind.",
        "input": [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Now."}],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": [
            {"type": "function", "name": "f", "description": "Does f.", "parameters": STRICT_F, "strict": True}
        ],
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": False,
        "max_output_tokens": 9,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        (None, "https://api.openai.com/v1/responses"),
        ("http://h/v1/", "http://h/v1/responses"),
        ("http://h/v1/responses?api-version=1", "http://h/v1/responses?api-version=1"),
    ],
)
def test_where_a_request_goes(base_url: str | None, url: str) -> None:
    wire = OpenAIResponsesAdapter(OPENAI, base_url=base_url)
    request = wire.request(RequestInput("m", (user("Hi"),), stream=False), Settings())
    assert request.url == url
    assert request.headers == {"content-type": "application/json", "accept": "application/json"}


@pytest.mark.parametrize(
    ("model", "asks"),
    [
        ("gpt-5.4", True), ("o3", True), ("openai/gpt-5", True), ("gpt-oss-20b", True), ("gpt-4o", False),
        ("ft:gpt-4.1:me", False), ("gpt-5-chat-latest", False),
    ],
)  # fmt: skip
def test_only_models_that_think_are_asked_for_their_encrypted_thoughts(model: str, asks: bool) -> None:
    assert ("include" in body(model=model)) == asks


IMAGE = ImagePart(data=b"\x89PNG", media_type="image/png")
SENT_IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw==", "detail": "auto"}
PARTS = [
    pytest.param(IMAGE, SENT_IMAGE, id="image"),
    pytest.param(
        ImagePart(url="https://x/i.png", detail="low"),
        {"type": "input_image", "image_url": "https://x/i.png", "detail": "low"},
        id="image url",
    ),
    pytest.param(
        DocumentPart(data=b"a", media_type="application/pdf", name="a.pdf"),
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,YQ=="},
        id="document",
    ),
    pytest.param(
        DocumentPart(data=b"a", media_type="application/pdf"),
        {"type": "input_file", "filename": "document", "file_data": "data:application/pdf;base64,YQ=="},
        id="document without a name",
    ),
    pytest.param(
        DocumentPart(url="https://x/a.pdf"), {"type": "input_file", "file_url": "https://x/a.pdf"}, id="document url"
    ),
]


@pytest.mark.parametrize(("part", "sent"), PARTS)
def test_media(part: Any, sent: dict[str, Any]) -> None:
    (message,) = body(user("Look", part))["input"]
    assert message == {"role": "user", "content": [{"type": "input_text", "text": "Look"}, sent]}


REFUSED = [
    pytest.param(OPENAI, user(AudioPart(data=b"a", media_type="audio/mpeg")), "AudioPart", id="audio"),
    pytest.param(LLAMA_CPP, user(DocumentPart(url="https://x/a.pdf")), "DocumentPart", id="document by url"),
    pytest.param(LLAMA_CPP, user(DocumentPart(data=b"a", media_type="a/b")), "DocumentPart", id="document"),
    pytest.param(MOONSHOT, user(ImagePart(url="https://x/i.png")), "ImagePart", id="image by url"),
    pytest.param(OPENAI, user(ToolCallPart("x", "f")), "ToolCallPart", id="a call by the user"),
    pytest.param(OPENAI, system(IMAGE), "ImagePart", id="image for the system"),
    pytest.param(OPENAI, assistant(IMAGE), "ImagePart", id="image by the assistant"),
    pytest.param(OPENAI, Message("tool", (TextPart("x"),)), "TextPart", id="text in a tool message"),
]


@pytest.mark.parametrize(("service", "message", "named"), REFUSED)
def test_content_that_cannot_be_sent(service: ServiceSpec, message: Message, named: str) -> None:
    for messages in ((message,), (user("Hi"), message)):
        with pytest.raises(BadRequest, match=named) as caught:
            body(*messages, service=service)
        assert (caught.value.provider, caught.value.model) == (service.name, "gpt-5.4")


def test_tool_calls_and_results() -> None:
    call = ToolCallPart("x", "my tool", '{"a":1}')
    results = (
        ToolResultPart("x", "4"),
        ToolResultPart("y", "no net", is_error=True),
        ToolResultPart("z", "seen", images=(IMAGE,)),
    )
    sent = body(assistant("So:", call), Message("tool", results), user(ToolResultPart("z", "6"), "and?"), tools=(G,))
    name = sent["tools"][0]["name"]
    assert name.startswith("my_tool_")
    assert sent["input"] == [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So:"}]},
        {"type": "function_call", "call_id": "x", "name": name, "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "x", "output": "4"},
        {"type": "function_call_output", "call_id": "y", "output": "The tool failed: no net"},
        {
            "type": "function_call_output", "call_id": "z",
            "output": [{"type": "input_text", "text": "seen"}, SENT_IMAGE],
        },
        {"type": "function_call_output", "call_id": "z", "output": "6"},
        {"role": "user", "content": "and?"},
    ]  # fmt: skip


def test_items_without_content() -> None:
    assert body(user(ToolResultPart("x", "4")), user(), assistant(), assistant(""))["input"] == [
        {"type": "function_call_output", "call_id": "x", "output": "4"},
        {"role": "user", "content": ""},
    ]


def test_long_ids_are_shortened_alike_in_call_and_result() -> None:
    call = ToolCallPart("functions.f:0" * 9, "f")
    asked, answered = body(assistant(call), tool_result(call, "4"))["input"]
    assert asked["call_id"] == answered["call_id"]
    assert len(answered["call_id"]) == 64
    short = ToolCallPart("functions.f:0", "f")
    assert body(assistant(short))["input"][0]["call_id"] == "functions.f:0"


def test_broken_arguments_of_earlier_calls() -> None:
    message = assistant(ToolCallPart("x", "f", "{oops"))
    sent = [body(message, service=service)["input"][0]["arguments"] for service in (OPENAI, LLAMA_CPP)]
    assert sent == ['{"malformed": "{oops"}'] * 2


def thought(number: int, **more: Any) -> ThinkingPart:
    item = {"id": f"rs_{number}", "type": "reasoning", "summary": [], "encrypted_content": f"gAAA{number}=", **more}
    return ThinkingPart("", opaque={"responses": item})


PHASE = ThinkingPart("", opaque={"responses": {"type": "message", "phase": "commentary"}})
CALLED = ToolCallPart("x", "f")
THOUGHTS = [
    pytest.param((thought(1), "Hi", thought(2), CALLED), ["rs_1", "message", "rs_2", "function_call"], id="each"),
    pytest.param(("Hi", thought(1)), ["message"], id="one that led to nothing"),
    pytest.param((thought(1), thought(2), CALLED), ["rs_2", "function_call"], id="one that led to a search"),
    pytest.param((thought(1), "", CALLED), ["rs_1", "function_call"], id="before empty text"),
    pytest.param((thought(1, encrypted_content=None), "Hi"), ["message"], id="nothing but an id"),
    pytest.param(
        (thought(1, encrypted_content=None, content=[{"type": "reasoning_text", "text": "Hm"}]), "Hi"),
        ["rs_1", "message"],
        id="in the open",
    ),
    pytest.param((ThinkingPart("Hm", signature="s"), CALLED), ["function_call"], id="another service's"),
    pytest.param((ThinkingPart("Hm", opaque={"google": {}}), CALLED), ["function_call"], id="another dialect's"),
]


@pytest.mark.parametrize(("parts", "kinds"), THOUGHTS)
def test_thoughts_go_back_before_the_items_they_led_to(parts: tuple[Any, ...], kinds: list[str]) -> None:
    assert [item.get("id") or item["type"] for item in body(assistant(*parts))["input"]] == kinds


@pytest.mark.fault(102)
def test_thoughts_go_back_byte_for_byte() -> None:
    item = (
        '{"id":"rs_1","summary":[{"text":"**é\\n","type":"summary_text"}],"z":null,'
        '"type":"reasoning","encrypted_content":"gAAA+/\\\\=","status":null}'
    )
    added = '{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"not yet"}'
    stream = sse(f'{{"type":"response.output_item.added","output_index":0,"item":{added}}}',
                 f'{{"type":"response.output_item.done","output_index":0,"item":{item}}}',
                 *text("Hi", 1), done())  # fmt: skip
    answer = Message.from_dict(folded(decode(stream)).message().to_dict())
    request = OpenAIResponsesAdapter(GENERIC).request(RequestInput("gpt-5.4", (user("Hi"), answer)), Settings())
    assert item.encode() in request.body


def test_an_empty_id_does_not_go_back() -> None:
    item, _ = body(assistant(thought(1, id=""), "Hi"))["input"]
    assert item == {"type": "reasoning", "summary": [], "encrypted_content": "gAAA1="}


def test_the_phase_of_a_text_goes_back_with_it() -> None:
    commentary, final = body(assistant(thought(1), PHASE, "One moment.", "Hi"))["input"][1:]
    assert (commentary["phase"], commentary["content"][0]["text"]) == ("commentary", "One moment.")
    assert "phase" not in final


CHOICES = [
    pytest.param(OPENAI, "auto", "auto", 2, id="auto"),
    pytest.param(OPENAI, "any", "required", 2, id="any"),
    pytest.param(OPENAI, None, None, 2, id="left to the service"),
    pytest.param(OPENAI, {"type": "web_search"}, {"type": "web_search"}, 2, id="dialect"),
    pytest.param(OPENAI, "f", {"type": "function", "name": "f"}, 2, id="by name"),
    pytest.param(LLAMA_CPP, NamedTool("f"), "required", 1, id="as the only tool"),
    pytest.param(MOONSHOT, NamedTool("f"), None, 1, id="as the only tool, and hope"),
    pytest.param(MOONSHOT, "required", None, 2, id="cannot be required"),
    pytest.param(MOONSHOT, "auto", "auto", 2, id="auto where nothing can be required"),
]


@pytest.mark.parametrize(("service", "choice", "sent", "tools"), CHOICES)
def test_tool_choice(service: ServiceSpec, choice: Any, sent: Any, tools: int) -> None:
    found = body(service=service, tools=(F, G), tool_choice=choice)
    assert found.get("tool_choice") == sent
    assert len(found["tools"]) == tools
    assert found.get("parallel_tool_calls") == (False if service.parallel_flag else None)
    assert ("tool_choice" in notes(service, Settings(), tools=(F, G), tool_choice=choice)) == (
        service is MOONSHOT and choice != "auto"
    )


def test_forced_tools_while_thinking() -> None:
    about: dict[str, Any] = {"service": QWEN, "tools": (F, G), "tool_choice": NamedTool("f")}
    assert "tool_choice" in body(**about)
    thinking = body(**about, settings=Settings(thinking=True))
    assert "tool_choice" not in thinking
    assert len(thinking["tools"]) == 1


def test_a_schema_that_cannot_be_strict_is_noted() -> None:
    sent = body(tools=(F, G))["tools"]
    assert [tool["strict"] for tool in sent] == [True, False]
    assert sent[1]["parameters"] == G.parameters
    (note,) = notes(OPENAI, Settings(), tools=(F, G))
    assert note.startswith("a strict schema of my tool (")
    loose = body(tools=(F,), service=GENERIC)["tools"][0]
    assert (loose["strict"], loose["parameters"]) == (False, F.parameters)
    assert notes(GENERIC, Settings(), tools=(F, G)) == ()
    off = body(tools=(F, G), settings=Settings(strict=False))["tools"]
    assert [(tool["strict"], tool["parameters"]) for tool in off] == [(False, F.parameters), (False, G.parameters)]
    assert notes(OPENAI, Settings(strict=False), tools=(F, G)) == ()


def test_text_constrained_to_a_schema() -> None:
    about: dict[str, Any] = {"tools": (F,), "tool_choice": NamedTool("f"), "mode": "json_schema"}
    sent = body(**about, settings=Settings(extra={"text": {"verbosity": "low"}}))
    assert "tools" not in sent
    held = {"type": "json_schema", "name": "f", "description": "Does f.", "schema": STRICT_F, "strict": True}
    assert sent["text"] == {"format": held, "verbosity": "low"}


def test_a_service_that_looks_for_the_schema_elsewhere() -> None:
    sent = body(tools=(F,), tool_choice=NamedTool("f"), mode="json_schema", service=LLAMA_CPP)
    held = {"name": "f", "description": "Does f.", "schema": F.parameters, "strict": False}
    assert sent["response_format"] == {"type": "json_schema", "json_schema": held}
    assert "text" not in sent


def test_text_constrained_to_several_schemas() -> None:
    sent = body(tools=(F, G), tool_choice="required", mode="json_schema", parallel=True)["text"]["format"]
    assert sent["name"].startswith("f_my_tool_")
    assert sent["description"] == "f: Does f.\nmy tool: Does g."
    assert (sent["strict"], sent["schema"]["required"]) == (False, ["calls"])


def test_text_is_not_constrained_if_a_call_is_optional() -> None:
    sent = body(tools=(F,), tool_choice="auto", mode="json_schema")
    assert "text" not in sent
    assert len(sent["tools"]) == 1


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"tool_choice": NamedTool("h"), "tools": (F,)}, "'h'.*'f'"),
        ({"tool_choice": "required"}, "needs tools"),
        ({"model": ""}, "no model name"),
    ],
)
def test_requests_that_cannot_be_made(about: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        body(**about)


ALL = Settings(temperature=0.5, top_p=0.9, top_k=5, max_tokens=7, stop="x", seed=3, extra={"store": True, "user": "me"})


def test_settings() -> None:
    sent = body(settings=ALL, model="gpt-4o")
    assert {name: sent[name] for name in ("temperature", "top_p", "max_output_tokens", "store", "user")} == {
        "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 7, "store": True, "user": "me"
    }  # fmt: skip
    assert not sent.keys() & {"top_k", "stop", "seed"}
    assert notes(OPENAI, ALL, model="gpt-4o") == ("top_k", "stop", "seed")
    assert notes(OPENAI, ALL, model="o3") == ("temperature", "top_p", "top_k", "stop", "seed")
    assert "parallel_tool_calls" not in body(model="o3", tools=(F,))


@pytest.mark.parametrize(
    ("service", "thinking", "sent"),
    [
        (OPENAI, True, {"effort": "medium", "summary": "auto"}),
        (OPENAI, "high", {"effort": "high", "summary": "auto"}),
        (OPENAI, 1000, {"effort": "low", "summary": "auto"}),
        (OPENAI, False, {"effort": "none"}),
        (OPENAI, None, None),
        (ServiceSpec("mute", "http://x", thinking_in=None), True, None),
    ],
)
def test_thinking(service: ServiceSpec, thinking: Any, sent: Any) -> None:
    settings = Settings(thinking=thinking)
    assert body(service=service, settings=settings).get("reasoning") == sent
    assert notes(service, settings) == (("thinking",) if service.name == "mute" else ())


def test_extra_adds_to_the_thinking_settings() -> None:
    settings = Settings(thinking="low", extra={"reasoning": {"summary": "detailed"}, "include": []})
    sent = body(settings=settings)
    assert sent["reasoning"] == {"effort": "low", "summary": "detailed"}
    assert sent["include"] == []


def test_errors_name_the_service_and_hide_the_key() -> None:
    wire = OpenAIResponsesAdapter(OPENAI, api_key=Secret("sk-secret"))
    error = wire.error(401, {"x-request-id": "r"}, b'{"error":{"message":"bad sk-secret"}}')
    assert isinstance(error, AuthFailed)
    assert (wire.provider, error.provider, error.request_id) == ("openai", "openai", "r")
    assert "secret" not in str(error)


# -- answers


def decoder(**about: Any) -> ResponseDecoder:
    conversation = RequestInput(**{"model": "m", "messages": (), "tools": (F, G), **about})
    return OpenAIResponsesAdapter(GENERIC, api_key=Secret("sk-secret")).decoder(conversation)


class Ended(Exception):
    """A body that ended in an error: the events before it, the error's class and its text."""

    def __init__(self, events: list[Event], kind: type[LLMError], text: str) -> None:
        super().__init__(text)
        self.events = events
        self.kind = kind


def outcome(pieces: list[bytes], **about: Any) -> tuple[list[Event], tuple[type[LLMError], str] | None]:
    machine = decoder(**about)
    events: list[Event] = []
    try:
        for piece in pieces:
            events += machine.feed(piece)
        events += machine.close()
    except LLMError as error:
        assert machine.failed
        return events, (type(error), str(error))
    assert not machine.failed
    return events, None


def kept(item: dict[str, Any]) -> ThinkingDelta:
    """The event of an item that goes back as it came."""
    return ThinkingDelta(opaque={"responses": item, "provider": GENERIC.name})


def decode(body: bytes, **about: Any) -> list[Event]:
    """The events of a body, after a check that they are the same for every cut of it, and with CRLF."""
    whole = outcome([body], **about)
    assert outcome([body.replace(b"\n", b"\r\n")], **about) == whole
    if len(body) < 4_000:
        assert outcome([body[at : at + 1] for at in range(len(body))], **about) == whole
        for at in cut_places(body):
            assert outcome([body[:at], body[at:]], **about) == whole, at
    events, error = whole
    if error is not None:
        raise Ended(events, *error)
    return events


def folded(events: list[Event]) -> Accumulator:
    accumulator = Accumulator()
    for event in events:
        accumulator.apply(event)
    return accumulator


def sse(*payloads: Any) -> bytes:
    """One event per payload: a dict, or text as it stands; named after its type."""
    events: list[str] = []
    for payload in payloads:
        data = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
        name = f"event: {payload['type']}\n" if isinstance(payload, dict) and "type" in payload else ""
        events.append(f"{name}data: {data}\n\n")
    return "".join(events).encode()


def event_of(kind: str, place: Any = None, **more: Any) -> dict[str, Any]:
    """One event; `place` is the item's."""
    return {"type": f"response.{kind}", **({} if place is None else {"output_index": place}), **more}


def message(*texts: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text} for text in texts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content, **more}


def call(arguments: Any = "", id: str = "call_A", name: str = "f", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": arguments, **more}


def reasoning(*summary: str, **more: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [{"text": text} for text in summary], **more}


def added(item: dict[str, Any], place: int | None = 0) -> dict[str, Any]:
    return event_of("output_item.added", place, item=item)


def ended(item: dict[str, Any], place: int | None = 0) -> dict[str, Any]:
    return event_of("output_item.done", place, item=item)


def more(delta: Any, place: Any = 0, kind: str = "output_text", **about: Any) -> dict[str, Any]:
    return event_of(f"{kind}.delta", place, delta=delta, **about)


def args(delta: Any, place: int | None = 0, **about: Any) -> dict[str, Any]:
    return more(delta, place, "function_call_arguments", **about)


def args_done(arguments: Any, place: int | None = 0, **about: Any) -> dict[str, Any]:
    return event_of("function_call_arguments.done", place, arguments=arguments, **about)


def text(whole: str, place: int = 0) -> list[dict[str, Any]]:
    """All events of a message."""
    return [
        added(message(), place),
        event_of("content_part.added", place, part={"type": "output_text", "text": ""}),
        more(whole, place),
        event_of("output_text.done", place, text=whole),
        event_of("content_part.done", place, part={"type": "output_text", "text": whole}),
        ended(message(whole), place),
    ]


def one_call(*deltas: str, place: int = 0, id: str = "call_A", name: str = "f") -> list[dict[str, Any]]:
    """All events of a call."""
    whole = "".join(deltas)
    return [
        added(call("", id, name), place),
        *(args(delta, place) for delta in deltas),
        args_done(whole, place),
        ended(call(whole, id, name), place),
    ]


def done(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    return event_of(status, response={"status": status, "model": "m1", "output": list(output), **more})


CREATED = event_of("created", response={"status": "in_progress", "model": "m1", "output": [], "usage": None})
CUT = {"incomplete_details": {"reason": "max_output_tokens"}}
END = Finish("end_turn", "m1", "completed")
TOOLS = Finish("tool_use", "m1", "completed")
STARTED = ToolCallStart("call_A", "f")
A1 = '{"a":1}'
CALL = [STARTED, ToolCallDelta("call_A", '{"a"'), ToolCallDelta("call_A", ":1}"), ToolCallDone("call_A", "f", A1)]
ONCE = [STARTED, ToolCallDelta("call_A", A1), ToolCallDone("call_A", "f", A1)]
LOST = '{"type":"response.'
DAMAGE = RawEvent(LOST, damaged=True, repeated=True)
SECRET = reasoning("Hm", encrypted_content="final")

STREAMS = [
    pytest.param(sse(CREATED, event_of("in_progress"), *text("Hi"), done()), [TextDelta("Hi"), END], id="text"),
    pytest.param(sse(CREATED, *text("Hi"), done()) + b"data: [DONE]\n\n", [TextDelta("Hi"), END], id="[DONE] after"),
    pytest.param(sse(*text("Hi"), "[DONE]", done()), [TextDelta("Hi"), END], id="[DONE] before"),
    pytest.param(sse(*text("Hi"), done(), *text("no"), done()), [TextDelta("Hi"), END], id="after the end"),
    pytest.param(sse(*text("Hi"), done())[:-2], [TextDelta("Hi"), END], id="no blank line at the end"),
    pytest.param(sse(*text("Hi", 0), *text("Ho", 1), done()), [TextDelta("Hi"), TextDelta("Ho"), END],
                 id="several messages"),
    pytest.param(sse(added(message()), more("a", content_index=0), more("b", content_index=1),
                     ended(message("ac", "bd")), done()),
                 [TextDelta("a"), TextDelta("b"), TextDelta("c"), TextDelta("d"), END], id="several parts"),
    pytest.param(sse(more("Hi"), done()), [TextDelta("Hi"), END], id="nothing but a delta"),
    pytest.param(sse(event_of("output_text.done", 0, text="Hi"), ended(message("Hi")), done()), [TextDelta("Hi"), END],
                 id="nothing but a whole text"),
    pytest.param(sse(ended(message("Hi")), done(message("Hi"))), [TextDelta("Hi"), END], id="nothing but an item"),
    pytest.param(sse(done(message("Hi"))), [TextDelta("Hi"), END], id="nothing but the answer"),
    pytest.param(sse(*text("Hi"), done(message("Hi, not read"))), [TextDelta("Hi"), END], id="the answer again"),
    pytest.param(sse(added(message()), more("Hello"), ended(message("Hi")), done()), [TextDelta("Hello"), END],
                 id="a whole that is another"),
    pytest.param(sse(added(message()), more(7), more(""), more(None), ended(message(), 0), ended({}), done()),
                 [RawEvent({}), END], id="deltas that are none"),
    pytest.param(sse(added(message(phase="commentary")), more("Hi"), done()),
                 [ThinkingDelta(opaque={"responses": {"type": "message", "phase": "commentary"}}), TextDelta("Hi"),
                  END], id="phase"),
    pytest.param(sse(added(message()), more("No", kind="refusal"), event_of("refusal.done", 0, refusal="No."), done()),
                 [TextDelta("No"), TextDelta("."), Finish("refusal", "m1", "completed")], id="refusal"),
    pytest.param(sse(ended(message(content=[{"type": "refusal", "refusal": "No."}])), done()),
                 [TextDelta("No."), Finish("refusal", "m1", "completed")], id="refusal in one piece"),
    pytest.param(sse(*one_call('{"a"', ":1}"), done()), [*CALL, TOOLS], id="call"),
    pytest.param(sse(*one_call('{"a"', ":1}"), *one_call("{}", place=1, id="call_B"), done()),
                 [*CALL, ToolCallStart("call_B", "f"), ToolCallDelta("call_B", "{}"), ToolCallDone("call_B", "f", "{}"),
                  TOOLS], id="two calls"),
    pytest.param(sse(added(call()), added(call("", "B"), 1), args("{", 1), args(A1, 0), args("}", 1),
                     ended(call(A1)), ended(call("{}", "B"), 1), done()),
                 [STARTED, ToolCallStart("B", "f"), ToolCallDelta("B", "{"), ToolCallDelta("call_A", A1),
                  ToolCallDelta("B", "}"), ToolCallDone("call_A", "f", A1), ToolCallDone("B", "f", "{}"), TOOLS],
                 id="two calls at once"),
    pytest.param(sse(added(call(A1)), args_done(A1), ended(call(A1)), done()), [*ONCE, TOOLS], id="no deltas"),
    pytest.param(sse(added(call()), ended(call(A1)), done()), [*ONCE, TOOLS], id="nothing but two items"),
    pytest.param(sse(ended(call(A1)), done()), [*ONCE, TOOLS], id="nothing but the end of a call"),
    pytest.param(sse(ended(call({"a": 1})), done()),
                 [STARTED, ToolCallDelta("call_A", '{"a": 1}'), ToolCallDone("call_A", "f", '{"a": 1}'), TOOLS],
                 id="arguments as an object"),
    pytest.param(sse(added(call()), args(""), args_done(""), ended(call("")), done()),
                 [STARTED, ToolCallDone("call_A", "f", "{}"), TOOLS], id="no arguments"),
    pytest.param(sse(added(call()), args(A1), args_done(None), done()), [*ONCE, TOOLS], id="no whole"),
    pytest.param(sse(added(call()), args('{"b"'), args_done(A1), done()),
                 [STARTED, ToolCallDelta("call_A", '{"b"'), ToolCallDone("call_A", "f", A1), TOOLS],
                 id="the whole has the last word"),
    pytest.param(sse(added(call(name="")), args(A1), args_done(A1), ended(call(A1)), done()), [*ONCE, TOOLS],
                 id="the name comes late"),
    pytest.param(sse(args(A1), args_done(A1), ended(call(A1)), done()), [*ONCE, TOOLS], id="it begins nowhere"),
    pytest.param(sse(added(call(id="")), args(A1), done()),
                 [ToolCallStart("call_1", "f"), ToolCallDelta("call_1", A1), ToolCallDone("call_1", "f", A1), TOOLS],
                 id="no id"),
    pytest.param(sse(added(call()), args('{"a"'), args_done('{"a"'), ended(call('{"a"', status="incomplete")),
                     done(status="incomplete", **CUT)),
                 [STARTED, ToolCallDelta("call_A", '{"a"'), ToolCallDone("call_A", "f", '{"a"', truncated=True),
                  Finish("max_tokens", "m1", "max_output_tokens")], id="cut"),
    pytest.param(sse(added(call()), args('{"a"'), done(status="incomplete", **CUT)),
                 [STARTED, ToolCallDelta("call_A", '{"a"'), ToolCallDone("call_A", "f", '{"a"', truncated=True),
                  Finish("max_tokens", "m1", "max_output_tokens")], id="cut without an end"),
    pytest.param(sse(ended(call('{"a"', status="incomplete")), done(status="incomplete", **CUT)),
                 [STARTED, ToolCallDelta("call_A", '{"a"'), ToolCallDone("call_A", "f", '{"a"', truncated=True),
                  Finish("max_tokens", "m1", "max_output_tokens")], id="cut, in one piece"),
    pytest.param(sse(added(call()), args('{"a"'), ended(call("{b")), done()),
                 [STARTED, ToolCallDelta("call_A", '{"a"'), ToolCallDone("call_A", "f", '{"a"'), TOOLS],
                 id="broken arguments"),
    pytest.param(sse(*text("Hi"), done(status="incomplete", incomplete_details={"reason": "content_filter"})),
                 [TextDelta("Hi"), Finish("content_filter", "m1", "content_filter")], id="filter"),
    pytest.param(sse(*text("Hi"), done(status="incomplete")), [TextDelta("Hi"), Finish("other", "m1", "incomplete")],
                 id="incomplete"),
    pytest.param(sse(*text("Hi"), {"type": "response.completed"}), [TextDelta("Hi"), Finish("end_turn")],
                 id="no answer at the end"),
    pytest.param(sse(CREATED, *text("Hi"), {"type": "response.completed"}), [TextDelta("Hi"), Finish("end_turn", "m1")],
                 id="the model is named at the beginning"),
    pytest.param(sse(added(reasoning(encrypted_content="partial")),
                     event_of("reasoning_summary_part.added", 0, summary_index=0),
                     more("H", kind="reasoning_summary_text", summary_index=0),
                     more("m", kind="reasoning_summary_text", summary_index=0),
                     event_of("reasoning_summary_text.done", 0, text="Hm"), ended(SECRET),
                     *one_call('{"a"', ":1}", place=1), done()),
                 [ThinkingDelta("H"), ThinkingDelta("m"), kept(SECRET), *CALL, TOOLS],
                 id="thought"),
    pytest.param(sse(more("A", kind="reasoning_summary_text", summary_index=0),
                     more("B", kind="reasoning_summary_text", summary_index=1), ended(reasoning("A", "B")), done()),
                 [ThinkingDelta("A"), ThinkingDelta("\n\n"), ThinkingDelta("B"),
                  kept(reasoning("A", "B")), END], id="thoughts in several parts"),
    pytest.param(sse(ended(reasoning("A", "B")), done()),
                 [ThinkingDelta("A"), ThinkingDelta("\n\n"), ThinkingDelta("B"),
                  kept(reasoning("A", "B")), END], id="thoughts in one piece"),
    pytest.param(sse(added(reasoning()), more("Hm", kind="reasoning_text", content_index=0), *text("Hi", 1),
                     ended(reasoning(content=[{"text": "Hm"}])), done()),
                 [ThinkingDelta("Hm"), TextDelta("Hi"), END], id="a thought that ends late"),
    pytest.param(sse(added({"type": "web_search_call"}), event_of("web_search_call.searching", 0),
                     ended({"type": "web_search_call", "id": "ws"}), *text("Hi", 1),
                     event_of("output_text.annotation.added", 1), done()),
                 [RawEvent(event_of("web_search_call.searching", 0)),
                  ServerToolUse("web_search", "ws", provider=GENERIC.name, raw={"type": "web_search_call", "id": "ws"}),
                  TextDelta("Hi"), RawEvent(event_of("output_text.annotation.added", 1)), END], id="what is not ours"),
    pytest.param(sse({"type": "keepalive"}, {"x": 1}, "noise", "[1]", {"type": ["x"]}, *text("Hi"), done()),
                 [RawEvent({"x": 1}), RawEvent("noise", damaged=True), RawEvent([1], damaged=True),
                  RawEvent({"type": ["x"]}), TextDelta("Hi"), END], id="noise"),
    # llama.cpp: no places, calls without ids of their own, all ends at the end, no arguments.done
    pytest.param(sse(added(reasoning(), None), more("Hm", None, "reasoning_text", item_id="rs_1"),
                     added(message(), None), more("Hi", None, item_id="msg_1"),
                     added(call(id="fc_1") | {"id": None}, None), args(A1, None, item_id="fc_1"),
                     added(call(id="fc_2") | {"id": None}, None), args("{}", None, item_id="fc_2"),
                     ended(reasoning(content=[{"text": "Hm"}]), None), ended(message("Hi"), None),
                     ended(call(A1, "fc_1") | {"id": None}, None), ended(call("{}", "fc_2") | {"id": None}, None),
                     done()),
                 [ThinkingDelta("Hm"), TextDelta("Hi"), ToolCallStart("fc_1", "f"), ToolCallDelta("fc_1", A1),
                  ToolCallStart("fc_2", "f"), ToolCallDelta("fc_2", "{}"), ToolCallDone("fc_1", "f", A1),
                  ToolCallDone("fc_2", "f", "{}"), TOOLS], id="no places"),
    # a proxy that gives an item a new id in each event
    pytest.param(sse(added(call() | {"id": "a"}, None), args('{"a"', None, item_id="b"),
                     args(":1}", None, item_id="c"), args_done(A1, None, item_id="d"),
                     ended(call(A1) | {"id": "e"}, None), added(message(id="f"), None), more("Hi", None, item_id="g"),
                     ended(message("Hi", id="h"), None), done()),
                 [*CALL, TextDelta("Hi"), TOOLS], id="new ids each time"),
    pytest.param(sse(added(message(), None), more("Hi", None, content_index="x"), more("Ho", [1]), done()),
                 [TextDelta("Hi"), TextDelta("Ho"), END], id="no ids at all"),
    # always the first place
    pytest.param(sse(added(message(), 0), more("Hi"), *one_call('{"a"', ":1}"), done()),
                 [TextDelta("Hi"), *CALL, TOOLS], id="always the same place"),
    # gateways that give all items one place
    pytest.param(sse(added(call(id="call_A")), added(call(id="call_B")), args('{"a"', item_id="fc_call_A"),
                     args("{}", item_id="fc_call_B"), args(":1}", item_id="fc_call_A"),
                     args_done(A1, item_id="fc_call_A"), args_done("{}", item_id="fc_call_B"),
                     ended(call(A1, "call_A")), ended(call("{}", "call_B")), done(call(A1), call("{}", "call_B"))),
                 [STARTED, ToolCallStart("call_B", "f"), CALL[1], ToolCallDelta("call_B", "{}"), *CALL[2:],
                  ToolCallDone("call_B", "f", "{}"), TOOLS], id="calls of one place"),
    pytest.param(sse(ended(call(A1)), ended(call("{}", "call_B")), ended(call(A1)), done()),
                 [*ONCE, ToolCallStart("call_B", "f"), ToolCallDelta("call_B", "{}"),
                  ToolCallDone("call_B", "f", "{}"), TOOLS], id="whole calls of one place"),
    pytest.param(sse(added(message(id="a")), more("Hi", item_id="a"), added(message(id="b")), more("you", item_id="b"),
                     more(" ", item_id="a"), ended(message("Hi ", id="a")), ended(message("you", id="b")),
                     ended(message("Hi ", id="a")), more("?", item_id="a"), done()),
                 [TextDelta("Hi"), TextDelta("you"), TextDelta(" "), END], id="messages of one place"),
    pytest.param(sse(*text("Hi"), added(message(id="b")), more("Ho", item_id="b"), ended(message("Ho", id="b")),
                     added(message(id="c")), ended(message("!", id="c")), added(message(id="b")), done()),
                 [TextDelta("Hi"), TextDelta("Ho"), TextDelta("!"), END], id="messages of one place in turn"),
    pytest.param(sse(added(message(id="a")), more("Hi", item_id="a"), LOST, ended(message("Hi", id="a")),
                     more("Ho", item_id="b"), done(message("Hi", id="a"), message("Ho", id="b"))),
                 [TextDelta("Hi"), DAMAGE, TextDelta("Ho"), END], id="damage among messages of one place"),
    # damage
    pytest.param(sse(added(message()), more("He"), LOST, more("o"), event_of("output_text.done", 0, text="Hello"),
                     ended(message("Hello")), done()),
                 [TextDelta("He"), DAMAGE, TextDelta("llo"), END], id="damage in text"),
    pytest.param(sse(added(call()), args('{"a"'), LOST, args("}"), args_done(A1), done()),
                 [*CALL[:2], DAMAGE, *CALL[2:], TOOLS], id="damage in a call"),
    pytest.param(sse(added(call()), args('{"a"'), LOST, args_done(""), ended(call(A1)), done()),
                 [*CALL[:2], DAMAGE, *CALL[2:], TOOLS], id="damage in a call, and an empty whole"),
    pytest.param(sse(added(call()), args(A1), LOST, done(call(A1))),
                 [*ONCE[:2], DAMAGE, ONCE[2], TOOLS], id="damage at the end of a call"),
    pytest.param(sse(LOST, args('{"a"'), args(":1}"), args_done(A1), done(call(A1))),
                 [DAMAGE, *ONCE, TOOLS], id="damage at the beginning of a call"),
    pytest.param(sse(LOST, more("lo"), done(message("Hello"))), [DAMAGE, TextDelta("Hello"), END],
                 id="damage at the beginning of a text"),
    pytest.param(sse(LOST, more("m", kind="reasoning_text"), ended(SECRET), done()),
                 [DAMAGE, ThinkingDelta("Hm"), kept(SECRET), END],
                 id="damage at the beginning of a thought"),
    pytest.param(sse(*text("Hi"), LOST, done(message("Hi"), call(A1))), [TextDelta("Hi"), DAMAGE, *ONCE, TOOLS],
                 id="a call that was lost altogether"),
    pytest.param(sse(added(message(), None), more("Hi", None), LOST, added(call(), None), args(A1, None),
                     done(message("Hi!"), call(A1))),
                 [TextDelta("Hi"), DAMAGE, STARTED, TextDelta("!"), *ONCE[1:], TOOLS], id="damage without places"),
    pytest.param(sse(added(call('{"a"')), LOST, done(call('{"a"'), status="incomplete", **CUT)),
                 [STARTED, DAMAGE, ToolCallDelta("call_A", '{"a"'), ToolCallDone("call_A", "f", '{"a"', truncated=True),
                  Finish("max_tokens", "m1", "max_output_tokens")], id="damage, and cut"),
    pytest.param(sse(added(message()), "noise", more("Hi"), done()),
                 [RawEvent("noise", damaged=True), TextDelta("Hi"), END], id="noise in text"),
    pytest.param(sse('{"type":"response.output_text.delta","delta":"\\ud83d"}', done()), [TextDelta("\ufffd"), END],
                 id="half a surrogate pair"),
]  # fmt: skip


@pytest.mark.fault(50, 55, 56, 67, 79, 80, 84)
@pytest.mark.parametrize(("stream", "expected"), STREAMS)
def test_streams(stream: bytes, expected: list[Event]) -> None:
    assert decode(stream) == expected


def test_generated_ids_go_on_from_the_calls_before() -> None:
    before = (assistant(ToolCallPart("x", "f")),)
    events = decode(sse(*one_call("{}", id=""), done()), messages=before)
    assert events[0] == ToolCallStart("call_2", "f")


def test_a_tool_gets_its_own_name_back() -> None:
    (sent,) = body(tools=(G,))["tools"]
    events = decode(sse(ended(call("{}", name=sent["name"])), done()))
    assert events[0] == ToolCallStart("call_A", "my tool")


USAGES = [
    ({"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}, Usage(9, 2)),
    ({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3}}, Usage(9, 0, 4, 3)),
    ({"input_tokens": "9", "output_tokens": None, "input_tokens_details": None}, Usage(9)),
]


@pytest.mark.parametrize(("usage", "expected"), USAGES)
def test_usage(usage: dict[str, Any], expected: Usage) -> None:
    assert decode(sse(*text("Hi"), done(usage=usage))) == [TextDelta("Hi"), UsageReport(expected), END]


HELD: dict[str, Any] = {"tool_choice": NamedTool("f"), "mode": "json_schema"}


def test_text_that_is_a_call() -> None:
    events = decode(sse(added(message()), more('{"a"'), more(":1}"), ended(message(A1)), done()), **HELD)
    assert events == [
        ToolCallStart("call_1", "f"), ToolCallDelta("call_1", '{"a"'), ToolCallDelta("call_1", ":1}"),
        ToolCallDone("call_1", "f", A1), TOOLS,
    ]  # fmt: skip


def test_damage_in_text_that_is_a_call_is_healed() -> None:
    stream = sse(added(message()), more('{"a":"Sea'), LOST, more('ies"}'), ended(message('{"a":"Sea of Cities"}')))
    events = decode(stream + sse(done()), **HELD)
    assert ToolCallDone("call_1", "f", '{"a":"Sea of Cities"}') in events


@pytest.mark.parametrize("calls", [True, False])
def test_a_damaged_event_costs_nothing_but_a_warning(api: API, caplog: pytest.LogCaptureFixture, calls: bool) -> None:
    written = SEA.model_dump_json()
    deltas = [written[start : start + 8] for start in range(0, len(written), 8)]
    if calls:
        events = one_call(*deltas, name="Album")
    else:
        events = [added(message()), *map(more, deltas), ended(message(written))]
    events[4] = {"damaged": True}
    stream = sse(*events, done()).replace(b'{"damaged": true}', b'{"type"')
    pieces = [event + b"\n\n" for event in stream.split(b"\n\n") if event]
    llm = OpenAIResponses("gpt-5.4", api_key="sk-canary", network=ReplayNetwork(Recorded(pieces)))
    seen = api.stream(ToolOrchestratingLLM(Album, "x", llm))
    assert (seen.error, seen.final) == (None, SEA)
    assert len(seen.items) > 3
    assert caplog.text.count("Failed to parse streaming response") == 1


CUSTOM = {"type": "custom_tool_call", "id": "ct", "call_id": "call_C", "name": "sql", "input": "SELECT 1"}


def test_an_invented_tool_is_unwrapped_in_a_stream() -> None:
    uses = {"tool_uses": [{"recipient_name": "functions.f", "parameters": {"a": n}} for n in (1, 2)]}
    body = sse(CREATED, *one_call(json.dumps(uses), name="parallel"), done())
    events = decode(body)
    assert [event.arguments for event in events if isinstance(event, ToolCallDone)] == ['{"a": 1}', '{"a": 2}']
    assert not any(isinstance(event, ToolCallStart) and event.name == "parallel" for event in events)


def test_items_that_come_only_in_the_last_event_are_read() -> None:
    once = sse(CREATED, *one_call(A1), done(message("Hi"), call(A1), call('{"a":2}', id="call_B")))
    folded = Accumulator()
    for event in decode(once):
        folded.apply(event)
    response = folded.response()
    assert response.text == "Hi"
    assert [(one.id, one.arguments) for one in response.message.tool_calls] == [("call_A", A1), ("call_B", '{"a":2}')]


def test_a_custom_tool_goes_back_as_it_came() -> None:
    custom = ToolCallPart("call_C", "sql", "SELECT 1", opaque={"responses": {"type": "custom_tool_call"}})
    sent = body(user("Go"), assistant(custom), tool_result(custom, "1"))["input"][1:]
    assert sent == [
        {"type": "custom_tool_call", "call_id": "call_C", "name": "sql", "input": "SELECT 1"},
        {"type": "custom_tool_call_output", "call_id": "call_C", "output": "1"},
    ]


CANCELLED = {"status": "cancelled", "output": []}


@pytest.mark.parametrize(
    "sent", [sse(CREATED, event_of("cancelled", response=CANCELLED)), json.dumps(CANCELLED).encode()]
)
def test_a_response_that_was_cancelled_is_not_sent_again(sent: bytes) -> None:
    with pytest.raises(StreamInterrupted, match="cancelled at the service") as caught:
        read = decoder()
        assert read.feed(sent) + read.close() == []
    assert not caught.value.retryable
    assert "again" not in str(caught.value)


def test_an_end_without_output_for_an_unknown_reason_is_an_error() -> None:
    body = b'{"object": "response", "status": "expired", "output": []}'
    with pytest.raises(EmptyResponse, match="ended as 'expired', without output") as caught:
        read = decoder()
        assert read.feed(body) + read.close() == []
    assert not caught.value.retryable


def test_a_queued_response_is_no_answer() -> None:
    with pytest.raises(EmptyResponse, match=r"queued: .*without background=True") as caught:
        read = decoder()
        assert read.feed(b'{"object": "response", "status": "queued", "output": []}') + read.close() == []
    assert not caught.value.retryable


WHOLE = [
    pytest.param({"output": [message("Hi")], "usage": {"input_tokens": 9}}, [TextDelta("Hi"), UsageReport(Usage(9))],
                 "end_turn", id="text"),
    pytest.param({"output": [SECRET, call(A1)]}, [ThinkingDelta("Hm"), kept(SECRET),
                                                  *ONCE], "tool_use", id="call"),
    pytest.param({"output": [call('{"a"')], "status": "incomplete", **CUT},
                 [STARTED, ToolCallDelta("call_A", '{"a"'), ToolCallDone("call_A", "f", '{"a"', truncated=True)],
                 "max_tokens", id="cut"),
    pytest.param({"output": [{"type": "x"}, None]}, [RawEvent({"type": "x"}), kept({"type": "x"}), RawEvent({})],
                 "end_turn", id="others"),
    pytest.param({"output": [], "status": "in_progress"}, [], "pause", id="in progress"),
    pytest.param({"output": [call('{"tool_uses":[{"recipient_name":"functions.f","parameters":{"a":1}}]}',
                                  name="multi_tool_use.parallel")]},
                 [ToolCallStart("call_1", "f"), ToolCallDelta("call_1", '{"a": 1}'),
                  ToolCallDone("call_1", "f", '{"a": 1}')], "tool_use", id="several calls in one"),
    pytest.param({"output": [call(A1, name="parallel")]},
                 [ToolCallStart("call_A", "parallel"), ToolCallDelta("call_A", A1),
                  ToolCallDone("call_A", "parallel", A1)], "tool_use", id="a tool of that name"),
    pytest.param({"output": [CUSTOM]},
                 [RawEvent(CUSTOM), ToolCallStart("call_C", "sql"), ToolCallDelta("call_C", "SELECT 1"),
                  ToolCallDone("call_C", "sql", "SELECT 1", opaque={"responses": {"type": "custom_tool_call"}})],
                 "tool_use", id="a custom tool"),
    pytest.param({"output": [CUSTOM, message("Hi")]}, [RawEvent(CUSTOM), TextDelta("Hi")], "end_turn",
                 id="a custom tool that the service has run"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "expected", "stop"), WHOLE)
def test_one_document_gives_the_same_events(answer: dict[str, Any], expected: list[Event], stop: str) -> None:
    document = {"object": "response", "status": "completed", "error": None, "model": "m1", **answer}
    events = decode(json.dumps(document, indent=1).encode())
    assert events[:-1] == expected
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert (finish.stop_reason, finish.model) == (stop, "m1")


@pytest.mark.parametrize(("more", "id"), [({}, "r1"), ({"id": "r2"}, "r2")])
def test_the_last_id_of_a_response_counts(more: dict[str, Any], id: str) -> None:
    finish = decode(sse(event_of("created", response={"id": "r1"}), *text("Hi"), done(**more)))[-1]
    assert isinstance(finish, Finish)
    assert finish.response_id == id


def test_of_a_list_of_documents_the_first_answer_counts() -> None:
    answers = [{"status": "completed", "output": [message(text)]} for text in ("Hi", "Ho")]
    assert decode(json.dumps(answers).encode()) == [TextDelta("Hi"), Finish("end_turn", None, "completed")]


FAULT = {"type": "insufficient_quota", "code": "insufficient_quota", "message": "no money sk-secret"}
SLOW = {"code": "rate_limit_exceeded", "message": "slow"}
BOOM = {"code": "server_error", "message": "boom"}
FAILED = event_of("failed", response={"status": "failed", "error": BOOM})
FAILURES = [
    pytest.param(b"", MalformedEvent, "is empty", id="nothing"),
    pytest.param(b"<html>", MalformedEvent, "html", id="html"),
    pytest.param(b'{"status":"ok"}', MalformedEvent, "no answer of the Responses", id="another document"),
    pytest.param(b'{"error":{"message":"boom"}}', ServerError, "boom", id="error document"),
    pytest.param(b'{"status":"failed","output":[]}', ServerError, "no message", id="failed document"),
    pytest.param(b'{"output":[', StreamTruncated, "broke off", id="half a document"),
    pytest.param(sse(CREATED), StreamTruncated, "broke off", id="only begun"),
    pytest.param(sse(*text("Hi")), StreamTruncated, "broke off", id="no end"),
    pytest.param(sse(*text("Hi"), "[DONE]"), StreamTruncated, "broke off", id="[DONE] is no end"),
    pytest.param(sse(added(call()), args(A1)), StreamTruncated, "broke off", id="no end of a call"),
    pytest.param(sse(*text("Hi")) + b'event: response.completed\ndata: {"type"', StreamTruncated, "broke off",
                 id="half an end"),
    pytest.param(sse(*text("Hi"), {"type": "error", "error": FAULT}, FAILED), QuotaExceeded, "no money",
                 id="error, nested"),
    pytest.param(sse(*text("Hi"), {"type": "error", **SLOW}, FAILED), RateLimited, "slow", id="error, flat"),
    pytest.param(sse(*text("Hi")) + b'data: {"type":"error","message":"boom"}\n\n', ServerError, "boom",
                 id="error without a name"),
    pytest.param(sse(*text("Hi"), {"error": SLOW}), RateLimited, "slow", id="error of no type"),
    pytest.param(sse(*text("Hi"), FAILED), ServerError, "boom", id="failed"),
    pytest.param(sse(*text("Hi"), {"type": "response.failed"}), ServerError, "the service failed",
                 id="failed, without a word"),
    pytest.param(sse(added(call()), args('{"a"'), LOST, args(":1}"), args_done(""), done()), MalformedEvent,
                 "was not repeated", id="damage in a call"),
    pytest.param(sse(added(call()), args('{"a"'), LOST, ended(call("")), done()), MalformedEvent,
                 "was not repeated", id="damage in a call with an empty end"),
    pytest.param(sse(added(message()), more("a"), LOST, more("b"), ended(message()), done()), MalformedEvent,
                 "was not repeated", id="damage in text"),
    pytest.param(sse(added(message()), more("a"), LOST, more("c"), ended(message("bc")), done()), MalformedEvent,
                 "was not repeated", id="damage in text that is another in the end"),
    pytest.param(sse(*text("Hi"), *[added(call(id=""), i) for i in range(1001)]), LimitExceeded, "1000",
                 id="too many calls"),
]  # fmt: skip


@pytest.mark.fault(51, 52, 99)
@pytest.mark.parametrize(("body", "kind", "words"), FAILURES)
def test_failures(body: bytes, kind: type[LLMError], words: str) -> None:
    with pytest.raises(Ended, match=words) as caught:
        decode(body)
    assert caught.value.kind is kind
    assert "secret" not in str(caught.value)
    assert not any(isinstance(event, (ToolCallDone, Finish)) for event in caught.value.events)


PIECES = st.sampled_from([
    b"data: ", b"\n\n", b"\r\n", b"event: error\n", b"event: x\n", b"[DONE]", b"{", b"}", b"\xff", b'"type":',
    sse(*text("a")), sse(*one_call("{", "}")), sse(added(call())), sse(args("{")), sse(LOST), sse(done()),
    sse(ended(SECRET)), sse(done(message("ab"), call(A1))), sse(more("b")), b'{"output":[]}',
])  # fmt: skip


@given(pieces=st.lists(PIECES | st.binary(max_size=6), max_size=14))
def test_any_bytes_give_events_or_one_error(pieces: list[bytes]) -> None:
    separate = outcome(pieces)
    assert outcome([b"".join(pieces)]) == separate
    events, error = separate
    assert (error is None) == (bool(events) and isinstance(events[-1], Finish))


KINDS = st.sampled_from(["message", "reasoning", "function_call", "web_search_call", ""])
NAMES = st.sampled_from([
    "output_index", "item_id", "item", "id", "call_id", "name", "arguments", "delta", "text", "content", "summary",
    "content_index", "summary_index", "response", "output", "usage", "status", "phase", "error", "refusal", "part",
    "incomplete_details", "reason", "model", "input_tokens", "input_tokens_details",
])  # fmt: skip
ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(["", "x", "f", "{", "{}", "completed"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=10,
)
ITEMS = st.builds(lambda kind, rest: {"type": kind, **rest}, KINDS, st.dictionaries(NAMES, ODD, max_size=4))
TYPES = st.sampled_from([
    "created", "output_item.added", "output_item.done", "output_text.delta", "output_text.done", "refusal.delta",
    "function_call_arguments.delta", "function_call_arguments.done", "reasoning_text.delta",
    "reasoning_summary_text.delta", "completed", "incomplete",
])  # fmt: skip
EVENTS = st.builds(
    lambda kind, item, rest: {"type": f"response.{kind}", "item": item, **rest},
    TYPES,
    ITEMS | ODD,
    st.dictionaries(NAMES, ODD | ITEMS | st.lists(ITEMS, max_size=2), max_size=3),
)


@given(events=st.lists(EVENTS | st.just(LOST), max_size=6), last=st.lists(ITEMS, max_size=3))
def test_any_json_gives_events_or_one_error(events: list[Any], last: list[Any]) -> None:
    stream = sse(*events, done(*last))
    assert outcome([stream]) == outcome([stream[at : at + 7] for at in range(0, len(stream), 7)])


@given(
    arguments=st.lists(st.text(max_size=4), max_size=5).map(lambda texts: json.dumps({"a": texts}, ensure_ascii=False)),
    cuts=st.lists(st.integers(0, 40), max_size=6),
    lost=st.integers(0, 12),
    held=st.booleans(),
)
def test_the_call_is_complete_whichever_event_is_damaged(
    arguments: str, cuts: list[int], lost: int, held: bool
) -> None:
    ends = sorted({0, *cuts, len(arguments)})
    deltas = [arguments[start:end] for start, end in pairwise(ends)]
    if held:
        item = message(arguments)
        events = [added(message()), *map(more, deltas), event_of("output_text.done", 0, text=arguments), ended(item)]
    else:
        item = call(arguments)
        events = one_call(*deltas)
    events[lost % len(events)] = {"damaged": True}
    stream = sse(*events, done(item)).replace(b'data: {"damaged": true}', b'data: {"damaged": tr')
    found = outcome([stream], **(HELD if held else {}))
    whole = folded(found[0]).message().tool_calls
    assert (found[1], [part.arguments for part in whole]) == (None, [arguments])
