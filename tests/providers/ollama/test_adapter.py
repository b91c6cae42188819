"""ollama.py: addresses, requests, and answers cut at every byte."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from support.example_counts import cut_places
from toolcast.errors import (
    BadRequest,
    LLMError,
    MalformedEvent,
    NotFound,
    Overloaded,
    ServerError,
    StreamTruncated,
)
from toolcast.events import (
    Event,
    Finish,
    RawEvent,
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
    user,
)
from toolcast.providers.base import RequestInput
from toolcast.providers.ollama.adapter import OllamaAdapter, ollama_url
from toolcast.values.credentials import Secret
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool, ToolChoice, ToolSpec
from toolcast.values.usage import Usage


class Song(BaseModel):
    title: str


class Album(BaseModel):
    songs: list[Song]


ADD = ToolSpec("add.up", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
ALBUM = ToolSpec("album", "Makes an album.", Album.model_json_schema())
WIRE = OllamaAdapter(api_key=Secret("abcdef"), headers={"X-Own": "1"})


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("example.com", "http://example.com:11434"),
        ("example.com:1", "http://example.com:1"),
        (":5000", "http://127.0.0.1:5000"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:80", "http://127.0.0.1:80"),
        ("http://example.com", "http://example.com:80"),
        ("https://example.com", "https://example.com:443"),
        ("https://example.com:8/path/", "https://example.com:8/path"),
        ("example.com/path", "http://example.com:11434/path"),
        ("[::1]:7", "http://[::1]:7"),
        ("::1", "http://[::1]:11434"),
        ("[::]", "http://[::1]:11434"),
        (' "example.com" ', "http://example.com:11434"),
        ("u:p@example.com", "http://u:p@example.com:11434"),
        ("https://u:p@[::1]:7/x?key=k", "https://u:p@[::1]:7/x?key=k"),
        ("u:p@::1", "http://u:p@[::1]:11434"),
    ],
)
def test_every_form_of_host(host: str, url: str) -> None:
    assert ollama_url(host) == url


@pytest.mark.parametrize("host", ["ftp://example.com", "example.com:port", "example.com:99999"])
def test_a_host_that_is_none(host: str) -> None:
    with pytest.raises(BadRequest, match="OLLAMA_HOST"):
        ollama_url(host)


@pytest.mark.parametrize("host", ["ftp://u:S3CRET@x?key=S3CRET", "u:S3CRET@example.com:port"])
def test_a_host_that_is_none_shows_no_password(host: str) -> None:
    with pytest.raises(BadRequest) as caught:
        ollama_url(host)
    assert "S3CRET" not in str(caught.value)


def _body(*messages: Message, settings: Settings | None = None, **about: Any) -> dict[str, Any]:
    request = WIRE.request(RequestInput("qwen3", messages, **about), settings or Settings())
    body: dict[str, Any] = json.loads(request.body)
    return body


def test_the_request_around_the_body() -> None:
    request = WIRE.request(RequestInput("qwen3", (user("hi"),)), Settings())
    assert (request.method, request.url) == ("POST", "http://127.0.0.1:11434/api/chat")
    assert request.headers["authorization"] == Secret("Bearer abcdef")
    assert request.headers["x-own"] == "1"
    assert json.loads(request.body) == {
        "model": "qwen3", "messages": [{"role": "user", "content": "hi"}], "stream": True,
    }  # fmt: skip
    bare = OllamaAdapter(base_url="http://box:1/").request(RequestInput("m", ()), Settings())
    assert bare.url == "http://box:1/api/chat"
    assert "authorization" not in bare.headers


def test_messages() -> None:
    picture = ImagePart(data=b"\x89", media_type="image/png")
    call = ToolCallPart("c1", "add.up", '{"a": 1}')
    sent = _body(
        system("Be terse."),
        user("What is ", "this?", picture, ImagePart(url="data:image/png;base64,iQ==")),
        Message("assistant", (ThinkingPart("Hm."), TextPart("So."), call, ToolCallPart("c2", "old", "[1"))),
        Message("tool", (ToolResultPart("c1", "2", "add.up"), ToolResultPart("c2", "x", "", images=(picture,)))),
        assistant(),
        tools=(ADD,),
    )["messages"]
    data = base64.b64encode(b"\x89").decode()
    name = sent[2]["tool_calls"][0]["function"]["name"]
    assert name.startswith("add_up_")
    assert sent == [
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": "What is this?", "images": [data, "iQ=="]},
        {
            "role": "assistant",
            "content": "So.",
            "thinking": "Hm.",
            "tool_calls": [
                {"id": "c1", "function": {"name": name, "arguments": {"a": 1}}},
                {"id": "c2", "function": {"name": "old", "arguments": {"malformed": "[1"}}},
            ],
        },
        {"role": "tool", "tool_name": name, "content": "2", "tool_call_id": "c1"},
        {"role": "tool", "tool_name": "", "content": "x", "images": [data], "tool_call_id": "c2"},
        {"role": "assistant", "content": ""},
    ]


@pytest.mark.parametrize(
    "part",
    [
        ImagePart(url="https://example.com/x.png"),
        AudioPart(data=b"x", media_type="audio/wav"),
        DocumentPart(data=b"x", media_type="application/pdf"),
    ],
)
def test_content_it_cannot_take(part: ImagePart | AudioPart | DocumentPart) -> None:
    with pytest.raises(BadRequest, match="Ollama"):
        _body(user(part))


@pytest.mark.parametrize(
    ("thinking", "think"),
    [(True, True), (False, False), (1000, True), (1, True), (0, False), ("high", "high"), ("max", "max"),
     ("none", False), ("minimal", "low"), ("xhigh", "high")],
)  # fmt: skip
def test_thinking(thinking: bool | str | int, think: bool | str) -> None:
    found = _body(settings=Settings(thinking=thinking))["think"]
    assert (type(found), found) == (type(think), think)


def test_settings() -> None:
    settings = Settings(
        temperature=0, top_p=0.9, top_k=4, max_tokens=5, stop="END", seed=7, thinking="low",
        extra={"keep_alive": "5m", "options": {"num_ctx": 8192, "seed": 8}},
    )  # fmt: skip
    body = _body(settings=settings)
    assert body["options"] == {
        "temperature": 0, "top_p": 0.9, "top_k": 4, "num_predict": 5, "stop": ["END"], "seed": 8, "num_ctx": 8192,
    }  # fmt: skip
    assert (body["think"], body["keep_alive"]) == ("low", "5m")
    with pytest.raises(BadRequest, match="cannot be encoded as JSON"):
        _body(settings=Settings(extra={"x": object()}))


def test_requests_share_only_their_equal_parts() -> None:
    forced: dict[str, Any] = {"tools": (ALBUM,), "tool_choice": NamedTool("album")}
    extra = Settings(seed=1, extra={"options": {"num_ctx": 1, "seed": 2}, "keep_alive": 0})
    one = _body(user("One"), **forced, settings=Settings(seed=1))
    two = _body(system("Be terse."), user("Two"), **forced, settings=extra)
    assert two["options"] == {"seed": 2, "num_ctx": 1} and one["options"] == {"seed": 1}
    assert "keep_alive" not in one and two["format"] == one["format"]
    text = one["messages"][0]["content"]
    assert [message["content"] for message in two["messages"]] == [f"Be terse.\n\n{text}", "Two"]
    assert _body(user("One"), **forced, settings=Settings(seed=1)) == one


def test_text_with_half_a_surrogate_pair_is_still_sent() -> None:
    assert _body(user("a\ud83d"))["messages"] == [{"role": "user", "content": "a\ufffd"}]


def test_tools_by_choice_and_by_force() -> None:
    assert [tool["function"]["name"] for tool in _body(tools=(ALBUM,))["tools"]] == ["album"]
    none = _body(tools=(ALBUM,), tool_choice="none")
    assert "tools" not in none and "format" not in none
    one = _body(tools=(ADD, ALBUM), tool_choice=NamedTool("album"))
    assert one["format"] == ALBUM.parameters and "tools" not in one


def test_the_format_of_several_tools_keeps_references_apart() -> None:
    schema = _body(tools=(ADD, ALBUM), tool_choice="required")["format"]
    assert [each["properties"]["name"] for each in schema["anyOf"]] == [
        {"type": "string", "enum": [name]} for name in ("add.up", "album")
    ]
    assert schema["anyOf"][1]["properties"]["arguments"]["properties"]["songs"]["items"] == {"$ref": "#/$defs/1.Song"}
    assert list(schema["$defs"]) == ["1.Song"]
    several = _body(tools=(ADD,), tool_choice="required", parallel=True)["format"]
    assert several["properties"]["calls"]["items"] == ADD.parameters
    assert "$defs" not in several


# -- answers


def _line(message: dict[str, Any] | None = None, **more: Any) -> bytes:
    body = {"model": "qwen3", **({"message": {"role": "assistant", **message}} if message is not None else {})}
    return json.dumps({**body, "done": False, **more}, ensure_ascii=False).encode()


def _joined(events: list[Event]) -> list[Event]:
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, ToolCallDelta) and isinstance(last, ToolCallDelta):
            out[-1] = ToolCallDelta(event.id, last.arguments + event.arguments)
        else:
            out.append(event)
    return out


def _read(pieces: list[bytes], choice: ToolChoice = None) -> list[Event] | tuple[type[LLMError], str]:
    decoder = WIRE.decoder(RequestInput("qwen3", (), (ADD, ALBUM), choice))
    out: list[Event] = []
    try:
        for piece in pieces:
            out += decoder.feed(piece)
        return _joined(out + decoder.close())
    except LLMError as error:
        assert (error.provider, error.model) == ("ollama", "qwen3")
        return type(error), error.message


def _answer(body: bytes, choice: ToolChoice = None) -> Any:
    whole = _read([body], choice)
    for at in cut_places(body):
        assert _read([body[:at], body[at:]], choice) == whole
    assert _read([body[at : at + 1] for at in range(len(body))], choice) == whole
    return whole


END = _line({"content": ""}, done=True, done_reason="stop", prompt_eval_count=9, eval_count=1)


def _call(id: str, name: str, arguments: str) -> list[Event]:
    return [ToolCallStart(id, name), ToolCallDelta(id, arguments), ToolCallDone(id, name, arguments)]


def test_text_and_thinking() -> None:
    body = b"\r\n\n".join([_line({"content": "", "thinking": "Hm"}), _line({"content": "é\u2028"}), END])
    assert _answer(body) == [
        ThinkingDelta("Hm"),
        TextDelta("é\u2028"),
        UsageReport(Usage(9, 1)),
        Finish("end_turn", "qwen3", "stop"),
    ]


def test_whole_calls_with_and_without_ids() -> None:
    calls = [
        {"id": "x", "function": {"index": 0, "name": "album", "arguments": {"songs": []}}},
        {"id": "x", "function": {"index": 0, "name": "album", "arguments": {}}},
        {"function": {"name": "other", "arguments": '{"a": 1}'}},
        {"function": {"name": "album", "arguments": " "}},
        "odd",
    ]
    body = _line({"content": "", "tool_calls": calls}) + b"\n" + END
    assert _answer(body) == [
        *_call("x", "album", '{"songs": []}'),
        *_call("call_2", "album", "{}"),
        *_call("call_3", "other", '{"a": 1}'),
        *_call("call_4", "album", "{}"),
        *_call("call_5", "", "{}"),
        UsageReport(Usage(9, 1)),
        Finish("tool_use", "qwen3", "stop"),
    ]


def test_an_invented_tool_that_holds_several_calls() -> None:
    uses = [{"recipient_name": "functions.album", "parameters": {"songs": []}}] * 2
    calls = [{"id": "x", "function": {"name": "multi_tool_use.parallel", "arguments": {"tool_uses": uses}}}]
    assert _answer(_line({"content": "", "tool_calls": calls}) + b"\n" + END)[:6] == [
        *_call("call_1", "album", '{"songs": []}'),
        *_call("call_2", "album", '{"songs": []}'),
    ]


def test_a_forced_call_grows_out_of_the_text() -> None:
    body = b"\n".join([*(_line({"content": c}) for c in ('{"songs"', ": [", "]}")), END])
    assert _answer(body, NamedTool("album")) == [
        ToolCallStart("call_1", "album"),
        ToolCallDelta("call_1", '{"songs": []}'),
        UsageReport(Usage(9, 1)),
        ToolCallDone("call_1", "album", '{"songs": []}'),
        Finish("tool_use", "qwen3", "stop"),
    ]


@pytest.mark.parametrize(
    ("end", "finish"),
    [
        ({"done_reason": "length"}, Finish("max_tokens", "qwen3", "length")),
        ({"done_reason": "load"}, Finish("end_turn", "qwen3", "load")),
        ({"done_reason": "new"}, Finish("other", "qwen3", "new")),
        ({"eval_count": -1, "prompt_eval_count": "x"}, Finish("end_turn", "qwen3", "stop")),
    ],
)
def test_stop_reasons(end: dict[str, Any], finish: Finish) -> None:
    assert _answer(_line({"content": ""}, done=True, **end) + b"\n" + END) == [finish]


def test_a_forced_call_that_was_cut() -> None:
    body = _line({"content": '{"songs": ['}, done=True, done_reason="length")
    assert _answer(body, NamedTool("album"))[-2:] == [
        ToolCallDone("call_1", "album", '{"songs": [', truncated=True),
        Finish("max_tokens", "qwen3", "length"),
    ]


def test_lines_of_the_generate_endpoint_are_read() -> None:
    lines = [
        {"response": "", "thinking": "Hm"},
        {"response": "He"},
        {"response": "llo"},
        {"response": "", "done": True},
    ]
    body = b"\n".join(json.dumps({"model": "qwen3", "done": False, **line}).encode() for line in lines)
    assert _answer(body) == [
        ThinkingDelta("Hm"),
        TextDelta("He"),
        TextDelta("llo"),
        Finish("end_turn", "qwen3", "stop"),
    ]


def test_a_message_without_text_beside_a_response() -> None:
    body = _line({"role": "assistant", "content": ""}, response="Hello") + b"\n" + END
    assert _answer(body)[0] == TextDelta("Hello")


def test_noise_and_unknown_lines_are_passed_through() -> None:
    odd = json.dumps({"model": "qwen3", "progress": 1}).encode()
    body = b"\n".join([b"noise", b"[1]", odd, _line({"content": "a"}), _line(message=None, x=1), END])
    events = _answer(body)
    assert events[:3] == [RawEvent("noise", True), RawEvent("[1]", True), RawEvent(json.loads(odd))]
    assert events[-1] == Finish("end_turn", "qwen3", "stop")


def test_what_follows_the_last_line_is_passed_over() -> None:
    body = b"\n".join([*[_line({"content": "a" * 400})] * 3, END, _line({"content": "b"}), b""])
    decoder = WIRE.decoder(RequestInput("qwen3", ()))
    events = [event for line in body.splitlines(keepends=True) for event in decoder.feed(line)] + decoder.close()
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "a" * 1200
    assert events[-1] == Finish("end_turn", "qwen3", "stop")
    assert events == WIRE.decoder(RequestInput("qwen3", ())).feed(body)


@pytest.mark.fault(39)
@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (_line({"content": "a"}) + b'\n{"error":"model \'q\' not found"}\n', NotFound, "ollama pull q"),
        (b'{"error":"boom"}', ServerError, "boom"),
        (_line({"content": ""}, done=True, done_reason="error"), ServerError, "no reason"),
        (_line({"content": "a"}) + b"\n", StreamTruncated, "broke off"),
        (_line({"content": "a"})[:-1], StreamTruncated, "broke off"),
        (b"", MalformedEvent, "is empty"),
        (b"<html>hello</html>", MalformedEvent, "begins with"),
        (b'{"message": {"tool_calls": [}}\n' + END, MalformedEvent, "tool call could not be read"),
    ],
)
def test_invalid_bodies_raise(body: bytes, kind: type[LLMError], words: str) -> None:
    got, message = _answer(body)
    assert got is kind
    assert words in message


def test_an_error_is_raised_after_the_events_before_it_and_again() -> None:
    decoder = WIRE.decoder(RequestInput("qwen3", ()))
    assert not decoder.failed
    assert decoder.feed(_line({"content": "a"}) + b'\n{"error":"boom"}\n') == [TextDelta("a")]
    assert decoder.failed
    again: list[Callable[[], object]] = [lambda: decoder.feed(b""), decoder.close]
    for call in again:
        with pytest.raises(ServerError, match="boom"):
            call()


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (404, b'{"error":"model \'llama9\' not found"}', NotFound, "ollama pull llama9"),
        (404, b"404 page not found", NotFound, "Check the model's name and base_url=."),
        (400, b'{"error":"\\"m\\" does not support tools"}', BadRequest, "does not support tools"),
        (503, b'{"error":"server busy, please try again"}', Overloaded, "server busy"),
        (500, b'{"error":"llama runner process has terminated"}', ServerError, "terminated"),
    ],
)
def test_errors_before_the_stream(status: int, body: bytes, kind: type[LLMError], words: str) -> None:
    error = WIRE.error(status, {}, body)
    assert type(error) is kind
    assert words in error.message
    assert "abcdef" not in str(error)
