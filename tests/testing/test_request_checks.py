"""The requests that services refuse, and that a ScriptedLLM refuses too."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from support.albums import SEA, Album
from support.sync_and_async import API
from toolcast import Message, Settings, ToolCallPart, assistant, system, tool_result, user
from toolcast.errors import BadRequest
from toolcast.messages import ThinkingPart, ToolResultPart
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import as_tool
from toolcast.values.tool_spec import NamedTool

CALL, OTHER = ToolCallPart("1", "add"), ToolCallPart("2", "add")


def add(a: int) -> int:
    return a


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "no content"),
        ([system("Be brief.")], "no content"),
        ([user(""), assistant(ThinkingPart())], "no content"),
        ([user("x"), tool_result(CALL, "y")], r"messages\[1\]: the tool result '1' belongs to no tool call"),
        ([user("x"), assistant(CALL), tool_result(OTHER, "y")], "the tool result '2' belongs to no tool call"),
        (
            [user("x"), assistant(CALL), tool_result(CALL, "y"), tool_result(CALL, "y")],
            r"messages\[3\]: .* no tool call",
        ),
        ([user("x"), assistant(CALL)], r"no result before the end of the messages for the tool calls add \('1'\)"),
        (
            [user("x"), assistant(CALL, OTHER), tool_result(CALL, "y"), user("z")],
            r"before messages\[3\] .* add \('2'\)",
        ),
    ],
)
def test_messages(api: API, messages: list[Message], problem: str) -> None:
    scripted = ScriptedLLM("never")
    with pytest.raises(BadRequest, match=problem) as caught:
        api.chat(scripted, messages)
    assert (caught.value.provider, caught.value.model) == ("scripted", "scripted")
    assert scripted.requests == []


@pytest.mark.parametrize(
    "messages",
    [
        [assistant(CALL), tool_result(CALL, "y")],
        [user("x"), assistant(CALL, OTHER), tool_result(OTHER, "y"), system("Now."), tool_result(CALL, "y"), user("z")],
        [user("x"), assistant(CALL, OTHER), Message("tool", (ToolResultPart("2", "y"), ToolResultPart("1", "y")))],
        [assistant(CALL), tool_result(CALL, "y"), assistant(CALL), tool_result(CALL, "y")],
    ],
)
def test_conversations_that_services_accept(messages: list[Message]) -> None:
    assert ScriptedLLM("Good.").chat(messages).text == "Good."


@pytest.mark.parametrize("parameters", [{}, {"type": "array"}, {"type": "object", "default": {1, 2}}])
def test_a_schema_that_is_no_object_or_no_json(parameters: dict[str, Any]) -> None:
    tool = replace(as_tool(add), parameters=parameters)
    with pytest.raises(BadRequest, match=r"'add' has the type .* expect 'object'|cannot be encoded as JSON"):
        ScriptedLLM("never").chat("x", tools=[tool])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (Settings(temperature=2.5), "temperature=2.5"),
        (Settings(top_p=-1), "top_p=-1"),
        (Settings(extra={"user": date(2000, 1, 1)}), "cannot be encoded as JSON"),
    ],
)
def test_settings(settings: Settings, problem: str) -> None:
    with pytest.raises(BadRequest, match=problem):
        ScriptedLLM("never").chat("x", settings=settings)
    assert ScriptedLLM("ok").chat("x", settings=Settings(temperature=2, top_p=0, extra={"user": "x"})).text == "ok"


def test_a_tool_choice_that_is_not_offered() -> None:
    with pytest.raises(BadRequest, match="names 'sub', which is not among the tools: add, Album"):
        ScriptedLLM("never").chat("x", tools=[add, Album], tool_choice=NamedTool("sub"))
    with pytest.raises(BadRequest, match="among the tools: no tools"):
        ScriptedLLM("never").chat("x", tool_choice=NamedTool("sub"))
    assert ScriptedLLM(SEA).chat("x", tools=[add, Album], tool_choice=NamedTool("Album")).message.tool_calls
