"""Scripted answers of every kind, and the recorded requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import anyio
import pytest

import toolcast
from support.albums import SEA, SHORT, Album, Apology, call
from support.sync_and_async import API
from toolcast import Settings, ToolcastError, ToolOrchestratingLLM, Usage, system, user
from toolcast.errors import RateLimited, WouldSuspend
from toolcast.events import Finish, TextDelta, ToolCallDelta, UsageReport
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
    assert scripted.metadata == toolcast.llms.LLMMetadata("parrot", "scripted")


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
    for event in (ToolCallDelta("c1", "{"), toolcast.events.ToolCallReset("c1")):
        with pytest.raises(ToolcastError, match=r"'c1'.*ToolCallStart"):
            api.chat(ScriptedLLM([event, Finish("tool_use")]), "x", tools=[Album])


def test_an_exception_among_events_is_raised_at_its_place() -> None:
    stream = ScriptedLLM([TextDelta("Hi"), RateLimited("slow down"), TextDelta("never")]).stream_chat("Hello")
    assert stream.next()
    assert stream.current == TextDelta("Hi")
    assert not stream.next()
    assert isinstance(stream.err, RateLimited)


def echo(request: ScriptedRequest) -> str:
    return request.messages[-1].text.upper()


async def aecho(request: ScriptedRequest) -> str:
    return echo(request)


@pytest.mark.parametrize("function", [echo, aecho, partial(lambda more, request: echo(request) + more, "")])
def test_a_function_answers_all_further_requests(api: API, function: Any) -> None:
    scripted = ScriptedLLM("first", function)
    assert [api.chat(scripted, text).text for text in ("a", "b", "c")] == ["first", "B", "C"]
    assert len(scripted.requests) == 3


def test_a_function_that_is_not_the_last_answers_one_request(api: API) -> None:
    scripted = ScriptedLLM(echo)
    scripted.add("next")
    assert [api.chat(scripted, text).text for text in ("a", "b")] == ["A", "next"]
    with pytest.raises(ToolcastError, match="another request was made"):
        api.chat(scripted, "c")


def test_a_function_returns_any_answer(api: API) -> None:
    def answer(request: ScriptedRequest) -> Any:
        return {"a": SEA, "b": {"title": "B", "artist": "C", "songs": []}, "c": RateLimited("slow down")}[
            request.messages[-1].text
        ]

    make = ToolOrchestratingLLM(Album, "{text}", ScriptedLLM(answer))
    assert api.call(make, text="a") == SEA
    assert api.call(make, text="b") == SHORT
    with pytest.raises(RateLimited):
        api.call(make, text="c")


def test_a_function_yields_events(api: API) -> None:
    def answer(request: ScriptedRequest) -> Iterator[Any]:
        yield TextDelta("a")
        yield Finish("end_turn")

    async def aanswer(request: ScriptedRequest) -> AsyncIterator[Any]:
        for event in answer(request):
            yield event

    class Events:
        """An async iterator that is no generator."""

        def __init__(self, request: ScriptedRequest) -> None:
            self._events = answer(request)

        def __aiter__(self) -> Events:
            return self

        async def __anext__(self) -> Any:
            if (event := next(self._events, None)) is None:
                raise StopAsyncIteration
            return event

    scripted = ScriptedLLM(answer, aanswer, lambda request: Events(request))
    for _ in range(3):
        assert api.events(scripted, "x") == [TextDelta("a"), Finish("end_turn")]


def test_events_of_a_function_that_are_left_end_there(api: API) -> None:
    ended: list[bool] = []

    async def answer(request: ScriptedRequest) -> AsyncIterator[Any]:
        try:
            yield done
            yield Finish("tool_use")
        finally:
            ended.append(True)

    done = toolcast.events.ToolCallDone("1", "Album", "{}")
    api.stream(ToolOrchestratingLLM(Album, "x", ScriptedLLM(answer)), take=1)
    assert ended == [True]


async def test_an_async_function_may_wait_in_async_calls_alone() -> None:
    async def answer(request: ScriptedRequest) -> str:
        await anyio.lowlevel.checkpoint()
        return "waited"

    scripted = ScriptedLLM(answer)
    assert (await scripted.achat("x")).text == "waited"
    with pytest.raises(WouldSuspend):
        scripted.chat("x")


@pytest.mark.parametrize("answer", [lambda request: None, lambda request: echo])
def test_a_function_that_returns_no_answer(answer: Any) -> None:
    with pytest.raises(TypeError, match="expected an answer such as a string or an object, got"):
        ScriptedLLM(answer).chat("x")
