"""Scripted answers of every kind, and the recorded requests."""

from __future__ import annotations

from typing import Any

import pytest

import toolcast
from support.albums import SEA, SHORT, Album, Apology, call
from support.sync_and_async import API
from toolcast import (
    Finish,
    RateLimited,
    Settings,
    TextDelta,
    ToolCallDelta,
    ToolcastError,
    ToolOrchestratingLLM,
    Usage,
    UsageReport,
    system,
    user,
)
from toolcast.testing import ScriptedLLM, ScriptedRequest, use_llm


def add(a: int, b: int) -> int:
    return a + b


def test_text_comes_in_pieces(api: API) -> None:
    assert api.events(ScriptedLLM("Hello", chunk=2), "x") == [
        TextDelta("He"),
        TextDelta("ll"),
        TextDelta("o"),
        UsageReport(Usage(10, 5)),
        Finish("end_turn"),
    ]


@pytest.mark.parametrize(
    ("answer", "tools", "expected"),
    [
        (call(SEA, id="c7"), [Album], [call(SEA, id="c7")]),
        ([call(SEA), call(SHORT, id="2")], [Album], [call(SEA), call(SHORT, id="2")]),
        ((call(SEA),), [Album], [call(SEA)]),
        ({"a": 1, "b": 2}, [add, Album], [call('{"a":1,"b":2}', "add")]),
        ({"a": 1}, [], [call('{"a":1}', "none")]),
        (SEA, [Apology, Album], [call(SEA)]),
        (Apology(reason="r"), [Album, Apology], [call('{"reason":"r"}', "Apology")]),
        ([1, 2], [list[int]], [call('{"value":[1,2]}', "list_int")]),
        ([], [list[int]], [call('{"value":[]}', "list_int")]),
        (SEA, [add], [call(SEA, "add")]),
    ],
)
def test_calls_in_every_form(api: API, answer: Any, tools: Any, expected: Any) -> None:
    response = api.chat(ScriptedLLM(answer), "x", tools=tools)
    assert response.message.tool_calls == tuple(expected)
    assert response.stop_reason == "tool_use"
    assert response.usage == Usage(10, 5)


def test_events_are_played_as_they_are(api: API) -> None:
    events = [TextDelta("a"), Finish("stop_sequence")]
    assert api.events(ScriptedLLM(events), "x") == events


def test_a_truncated_call_ends_with_max_tokens(api: API) -> None:
    response = api.chat(ScriptedLLM(call('{"a', truncated=True)), "x", tools=[Album])
    assert response.stop_reason == "max_tokens"
    assert response.message.tool_calls[0].truncated


def test_an_exception_is_raised_and_the_script_goes_on(api: API) -> None:
    scripted = ScriptedLLM(OSError("mine"), "next")
    with pytest.raises(OSError, match="mine"):
        api.chat(scripted, "x")
    assert api.chat(scripted, "x").text == "next"


def test_a_script_that_is_too_short_is_reported(api: API) -> None:
    scripted = ScriptedLLM("one")
    api.chat(scripted, "x")
    with pytest.raises(ToolcastError, match="the script has 1 answers, but another request was made"):
        api.chat(scripted, "x")


def test_what_was_asked_is_remembered(api: API) -> None:
    scripted = ScriptedLLM("a", settings=Settings(seed=1), system_prompt="Be brief.", model="parrot")
    api.chat(scripted, "x", settings=Settings(temperature=0.5))
    assert scripted.requests == [
        ScriptedRequest((system("Be brief."), user("x")), (), None, Settings(temperature=0.5, seed=1))
    ]
    assert scripted.metadata == toolcast.LLMMetadata("parrot", "scripted")


def test_it_stands_in_for_every_llm_of_a_block(api: API) -> None:
    scripted, other = ScriptedLLM(SEA, "Hi"), ScriptedLLM("other")
    make = ToolOrchestratingLLM(Album, "x", "openai:gpt")
    with use_llm(scripted):
        assert api.call(make) == SEA
        assert api.chat(other, "x").text == "Hi"
    assert api.chat(other, "x").text == "other"
    assert len(scripted.requests) == 2


def test_a_piece_of_a_call_that_never_began_is_named(api: API) -> None:
    """A custom LLM that omits the start of a call gets an error that explains it."""
    for event in (ToolCallDelta("c1", "{"), toolcast.ToolCallReset("c1")):
        with pytest.raises(ToolcastError, match=r"'c1'.*ToolCallStart"):
            api.chat(ScriptedLLM([event, Finish("tool_use")]), "x", tools=[Album])


def test_an_exception_among_events_is_raised_at_its_place() -> None:
    stream = ScriptedLLM([TextDelta("Hi"), RateLimited("slow down"), TextDelta("never")]).stream_chat("Hello")
    assert stream.next()
    assert stream.current == TextDelta("Hi")
    assert not stream.next()
    assert isinstance(stream.err, RateLimited)
