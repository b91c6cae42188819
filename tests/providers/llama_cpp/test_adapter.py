"""llama_cpp.py: what is sent for each tool choice and history, the preflight, and what comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcast.errors import BadRequest, MalformedEvent, Overloaded
from toolcast.events import Finish, TextDelta, ToolCallDone
from toolcast.messages import Message, ThinkingPart, ToolCallPart, system, tool_result, user
from toolcast.providers.base import RequestInput
from toolcast.providers.llama_cpp.adapter import LlamaCppAdapter, describe
from toolcast.providers.llama_cpp.grammar import grammar
from toolcast.providers.tool_calls.json_calls import CallFormat
from toolcast.values.credentials import Secret
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool, ToolSpec

ADD = ToolSpec(
    "add", "Adds two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
)
SING = ToolSpec("sing", "Sings.", {"type": "object", "properties": {"song": {"type": "string"}}})
WIRE = LlamaCppAdapter(base_url="http://127.0.0.1:1/v1", api_key=Secret("abcdef"))


def _talk(*messages: Message, tools: tuple[ToolSpec, ...] = (ADD,), **about: Any) -> RequestInput:
    return RequestInput("smollm2", messages or (user("2 + 3?"),), tools, **about)


def _body(conversation: RequestInput, settings: Settings | None = None, wire: LlamaCppAdapter = WIRE) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(wire.request(conversation, settings or Settings()).body)
    return body


def test_a_forced_tool_is_a_grammar_and_a_description() -> None:
    body = _body(_talk(tool_choice=NamedTool("add")))
    assert body["grammar"].startswith("%llguidance {}\nstart: %json {")
    assert "tools" not in body and "tool_choice" not in body
    assert body["max_tokens"] == 1024
    first = body["messages"][0]
    assert first["role"] == "system"
    assert first["content"] == (
        "You are a helpful assistant.\n\nAdds two numbers.\nAnswer with JSON with the fields: a, b."
    )


def test_what_a_server_refuses_is_sent_again_as_it_is() -> None:
    before = _body(_talk())
    assert not WIRE.adapt_to(BadRequest("no"), _talk(), Settings())
    WIRE.take_back(_talk())
    assert _body(_talk()) == before


def test_a_grammar_in_extra_is_refused_where_tools_need_theirs() -> None:
    assert _body(_talk(tools=()), Settings(extra={"grammar": "root ::= x"}))["grammar"] == "root ::= x"
    with pytest.raises(BadRequest, match="would replace the grammar that the tools need"):
        _body(_talk(), Settings(extra={"grammar": "root ::= x"}))


def test_without_tools_there_is_still_a_system_message() -> None:
    body = _body(_talk(tools=()), Settings(max_tokens=7, extra={"cache_prompt": False}))
    assert body["messages"][0] == {"role": "system", "content": "You are a helpful assistant."}
    assert "grammar" not in body
    assert (body["max_tokens"], body["cache_prompt"]) == (7, False)
    own = _body(_talk(system("One."), user("x"), system("Two."), tools=()))
    assert own["messages"] == [{"role": "system", "content": "One.\n\nTwo."}, {"role": "user", "content": "x"}]


def test_a_grammar_is_written_once_for_the_same_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bool] = []

    def counted(schema: Any, *, or_text: bool) -> str:
        written.append(or_text)
        return grammar(schema, or_text=or_text)

    monkeypatch.setattr("toolcast.providers.llama_cpp.adapter.grammar", counted)
    wire = LlamaCppAdapter()
    bodies = [
        _body(_talk(user(text), tool_choice=choice), wire=wire)
        for choice in ("required", "auto")
        for text in ("1", "2")
    ]
    assert written == [False, True]
    assert [body["grammar"] == bodies[0]["grammar"] for body in bodies] == [True, True, False, False]


def test_auto_leaves_the_choice_to_the_grammar_or_to_the_template() -> None:
    assert "call | TEXT" in _body(_talk())["grammar"]
    native = LlamaCppAdapter(native_tools=True)
    body = _body(_talk(), wire=native)
    assert "grammar" not in body and body["tools"][0]["function"]["name"] == "add"
    assert "grammar" in _body(_talk(tool_choice="required"), wire=native)
    assert "grammar" not in _body(_talk(tool_choice="none"))


CALL = ToolCallPart("c", "add", '{"a": 2, "b": 3}')


def test_the_history_in_words() -> None:
    messages = (
        user("2 + 3?"),
        Message("assistant", (ThinkingPart("Hm."), CALL, ToolCallPart("d", "old", '{"x', truncated=True))),
        tool_result(CALL, "5"),
        tool_result("d", "no", is_error=True),
    )
    message = [m["content"] for m in _body(_talk(*messages, tool_choice="add"))["messages"]]
    assert message[0].endswith("Answer with JSON.")
    assert message[2:] == [
        '{"a": 2, "b": 3}{"name": "old", "arguments": "{\\"x"}',
        "add returned: 5",
        "The tool failed: no",
    ]
    named = _body(_talk(*messages, tools=(ADD, SING), tool_choice="required"))["messages"][2]["content"]
    assert named.startswith('{"name": "add", "arguments": {"a": 2, "b": 3}}')
    free = [m["content"] for m in _body(_talk(*messages, tool_choice="none"))["messages"]]
    assert free[1:] == ["2 + 3?", "add returned: 5", "The tool failed: no"]


def test_several_calls_of_the_history_are_written_as_the_model_is_to_write_them() -> None:
    messages = (user("2 + 3?"), Message("assistant", (CALL, CALL)), tool_result(CALL, "OK"), user("Again."))
    body = _body(_talk(*messages, tool_choice="add", parallel=True))
    assert [m["content"] for m in body["messages"]][2:] == ['{"calls": [{"a": 2, "b": 3}, {"a": 2, "b": 3}]}', "Again."]


def test_tools_are_described_by_a_call_unless_one_was_shown() -> None:
    text = describe(CallFormat((ADD, SING), parallel=True), frozenset({"sing"}))
    assert text.splitlines() == [
        "You can use these tools:",
        'add: Adds two numbers. Example: {"calls": [{"name": "add", "arguments": {"a": 1, "b": 1}}]}',
        "sing: Sings.",
    ]
    assert '{"name": "sing", "arguments": {"song": "..."}}' in describe(CallFormat((SING, ADD)))


@pytest.mark.parametrize(
    ("schema", "example"),
    [
        ({"$ref": "#/$defs/D"}, {"y": True}),
        ({"$ref": "#/$defs/Loop"}, [[[None]]]),
        ({"examples": ["Ann"], "type": "string"}, "Ann"),
        ({"enum": ["a", "b"]}, "a"),
        ({"const": 4}, 4),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, None),
        ({"type": "array", "prefixItems": [{"type": "number"}]}, [1.5]),
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": "object"}, {}),
    ],
)
def test_the_example_of_a_schema(schema: dict[str, Any], example: Any) -> None:
    defs = {
        "D": {"type": "object", "properties": {"y": {"type": "boolean"}}},
        "Loop": {"type": "array", "items": {"$ref": "#/$defs/Loop"}},
    }
    tool = ToolSpec("t", "T.", {"$defs": defs, "type": "object", "properties": {"x": schema}})
    shown = json.loads(describe(CallFormat((tool,), forced=False)).partition("Example: ")[2])
    assert shown == {"name": "t", "arguments": {"x": example}}


def test_the_preflight_is_asked_once() -> None:
    wire = LlamaCppAdapter(base_url="http://127.0.0.1:1/v1", api_key=Secret("abcdef"))
    conversation = _talk(tool_choice=NamedTool("add"))
    assert wire.preflight(_talk(tools=())) is None
    request = wire.preflight(conversation)
    assert request is not None
    assert request.url == "http://127.0.0.1:1/v1/completions"
    assert request.headers["authorization"] == Secret("Bearer abcdef")
    assert json.loads(request.body)["max_tokens"] == 1
    refused = wire.preflight_ok(conversation, b'{"choices": [{"text": " Paris"}]}')
    assert isinstance(refused, BadRequest) and "' Paris'" in refused.message and "add" in refused.message
    assert isinstance(wire.preflight_ok(conversation, b"[]"), MalformedEvent)
    assert wire.preflight(conversation) is not None
    assert wire.preflight_ok(conversation, b'{"choices": [{"text": "{\\""}]}') is None
    assert wire.preflight(conversation) is None


def _answer(*texts: str, finish: str = "stop") -> bytes:
    chunks = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    return b"".join(b"data: " + json.dumps(c).encode() + b"\n\n" for c in [*chunks, end]) + b"data: [DONE]\n\n"


def test_text_comes_back_as_a_call() -> None:
    body = _answer('{"a": 2,', ' "b": 3}')
    for at in range(len(body)):
        decoder = WIRE.decoder(_talk(tool_choice=NamedTool("add")))
        events = decoder.feed(body[:at]) + decoder.feed(body[at:]) + decoder.close()
        assert events[-2:] == [
            ToolCallDone("call_1", "add", '{"a": 2, "b": 3}'),
            Finish("tool_use", None, "stop"),
        ]
    cut = WIRE.decoder(_talk(tool_choice=NamedTool("add")))
    events = cut.feed(_answer('{"a": 2,', finish="length")) + cut.close()
    assert events[-2] == ToolCallDone("call_1", "add", '{"a": 2,', truncated=True)
    plain = WIRE.decoder(_talk(tools=()))
    assert plain.feed(_answer("Hi."))[0] == TextDelta("Hi.")


def test_its_errors() -> None:
    error = WIRE.error(503, {}, b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}')
    assert isinstance(error, Overloaded)
    assert error.provider == WIRE.provider == "llama.cpp"
