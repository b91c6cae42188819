"""Messages as the log of an experiment has them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast import Message, ToolCallPart, assistant, system, tool_result, user
from toolcast.experiments.message_serialization import arguments_of, plain
from toolcast.messages import ServerToolPart, ThinkingPart
from toolcast.values.message_dicts import message_from_dict

CALL = ToolCallPart("c1", "write", '{"key": "a", "value": "b"}')


def test_texts() -> None:
    assert plain(system("Be brief.")) == {"role": "system", "content": "Be brief."}
    assert plain(user("Hello")) == {"role": "user", "content": "Hello"}
    assert plain(assistant("Hi")) == {"role": "assistant", "content": "Hi"}


def test_calls_and_results() -> None:
    assert plain(assistant("Now.", CALL)) == {
        "role": "assistant",
        "content": "Now.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "write", "arguments": {"key": "a", "value": "b"}}}
        ],
    }
    assert plain(tool_result(CALL, "ok")) == {"role": "tool", "content": "ok", "tool_call_id": "c1"}


def test_arguments_that_are_no_object_stay_as_they_were_written() -> None:
    call = ToolCallPart("c1", "write", '{"key": ')
    (logged,) = plain(assistant(call))["tool_calls"]
    assert logged["function"]["arguments"] == '{"key": '
    assert message_from_dict(plain(assistant(call))).tool_calls == (call,)


def test_native_thinking_has_a_place_of_its_own() -> None:
    message = assistant(ThinkingPart("hm"), "Yes.")
    assert plain(message) == {"role": "assistant", "content": "Yes.", "thinking": "hm"}
    assert message_from_dict(plain(message)) == message


@pytest.mark.parametrize(
    "part",
    [
        ThinkingPart("hm", signature="s"),
        ThinkingPart(redacted="r"),
        ThinkingPart(opaque={"model": "m"}),
        ToolCallPart("c1", "write", "{}", opaque={"sign": "x"}),
        ToolCallPart("c1", "write", '{"k', truncated=True),
        ServerToolPart("web_search", "s1", {"query": "sea"}, provider="anthropic", raw={"type": "server_tool_use"}),
    ],
    ids=["signed", "redacted", "opaque", "signed call", "cut call", "server tool"],
)
def test_what_a_service_must_get_back_survives(part: Any) -> None:
    message = assistant(part, "text")
    assert message_from_dict(json.loads(json.dumps(plain(message)))) == message


def test_what_other_tools_have_logged() -> None:
    ollama = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "list", "arguments": {}}}]}
    assert message_from_dict(ollama) == assistant(ToolCallPart("call_1", "list", "{}"))
    openai = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "x", "function": {"name": "read", "arguments": '{"key":"a"}'}}],
    }
    assert message_from_dict(openai) == assistant(ToolCallPart("x", "read", '{"key":"a"}'))
    assert message_from_dict({"role": "tool", "content": "v", "tool_name": "read"}) == tool_result("", "v", name="read")


@pytest.mark.parametrize(
    "data",
    [
        {"role": "robot", "content": "x"},
        {"content": "x"},
        {"role": "user", "content": [1]},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "x"}]},
    ],
    ids=["role", "no role", "content", "call"],
)
def test_what_is_no_message(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is not a (message|tool call|part)"):
        message_from_dict(data)


def test_arguments_of() -> None:
    assert arguments_of(CALL) == {"key": "a", "value": "b"}
    assert arguments_of(ToolCallPart("c", "list", "")) == {}
    assert arguments_of(ToolCallPart("c", "list", "[1]")) is None
    assert arguments_of(ToolCallPart("c", "list", "{")) is None
    assert arguments_of(ToolCallPart("c", "list", '{"key": ' + "[" * 100_000 + "]" * 100_000 + "}")) is None


objects = st.dictionaries(st.text(), st.text() | st.integers(), max_size=3)
calls = st.builds(ToolCallPart, st.text(min_size=1), st.text(), objects.map(json.dumps) | st.text(min_size=1))


@given(st.text(min_size=1), st.lists(calls, max_size=3))
def test_there_and_back(text: str, made: list[ToolCallPart]) -> None:
    again = message_from_dict(json.loads(json.dumps(plain(assistant(text, *made)))))
    assert again.text == text
    for one, two in zip(made, again.tool_calls, strict=True):
        assert (two.id, two.name) == (one.id, one.name)
        assert arguments_of(two) == arguments_of(one)
        if arguments_of(one) is None:
            assert two.arguments == one.arguments


def test_an_empty_message_is_one() -> None:
    assert message_from_dict(plain(Message("assistant"))) == Message("assistant")
