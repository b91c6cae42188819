"""What an editor shows for structured calls. Checked by mypy and pyright; never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, assert_type

from pydantic import BaseModel

from toolcast import (
    AsyncObjectStream,
    CallableTool,
    Engine,
    FunctionCallingLLM,
    LlamaCpp,
    ObjectStream,
    Ollama,
    OpenAI,
    Result,
    Settings,
    ToolOrchestratingLLM,
    is_partial,
    llm,
)
from toolcast.events import ChatResponse
from toolcast.llms import AgentChatResponse, AsyncEventStream, EventStream


class Album(BaseModel):
    title: str


class Apology(BaseModel):
    reason: str


@dataclass
class Point:
    x: int


class Movie(TypedDict):
    title: str


def add(a: int, b: int) -> float:
    return a + b


async def aadd(a: int, b: int) -> float:
    return a + b


make = ToolOrchestratingLLM(Album, "x")

assert_type(make, ToolOrchestratingLLM[Album])
assert_type(make(topic="a"), Album)
assert_type(make(stream=True, topic="a"), ObjectStream[Album])
assert_type(make("a"), Album)
assert_type(list(map(make, ["a"])), list[Album])
as_function: Callable[[str], Album] = make
make("a", "b")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue] - one positional value
make.run(method="a")  # any name may be that of a variable
assert_type(make("a", stream=True), ObjectStream[Album])
assert_type(make.run("a"), Result[Album])
assert_type(make.stream("a"), ObjectStream[Album])
assert_type(make.run(topic="a"), Result[Album])
assert_type(make.run().output, Album)
assert_type(make.stream(topic="a"), ObjectStream[Album])
assert_type(make.astream(topic="a"), AsyncObjectStream[Album])
assert_type(make.stream().final(), Album)
assert_type(make.stream().latest(), Iterator[Album])
assert_type(make.astream().latest(), AsyncIterator[Album])
assert_type(ToolOrchestratingLLM(list[Album], "x").stream().items(), Iterator[Album])
assert_type(ToolOrchestratingLLM(list[Album], "x").astream().items(), AsyncIterator[Album])
assert_type(ToolOrchestratingLLM(Album, "x", allow_parallel_tool_calls=True).stream().items(), Iterator[Album])
assert_type(make.stream().items("songs"), Iterator[Any])
assert_type(make.with_(max_attempts=2, settings=Settings(seed=1)), ToolOrchestratingLLM[Album])
assert_type(make.parse(b"{}"), Album)
assert_type(make.as_tool(), CallableTool)

assert_type(ToolOrchestratingLLM(list[Album], "x")(), list[Album])
assert_type(ToolOrchestratingLLM(Album | Apology, "x")(), Album | Apology)
assert_type(ToolOrchestratingLLM(Album | None, "x")(), Album | None)
assert_type(ToolOrchestratingLLM(Literal["a", "b"], "x")(), Literal["a", "b"])
assert_type(ToolOrchestratingLLM(int, "x")(), int)
assert_type(ToolOrchestratingLLM(dict[str, int], "x")(), dict[str, int])
assert_type(ToolOrchestratingLLM(Point, "x")(), Point)
assert_type(ToolOrchestratingLLM(Movie, "x")(), Movie)
assert_type(ToolOrchestratingLLM(add, "x")(), float)
assert_type(ToolOrchestratingLLM(aadd, "x")(), float)
assert_type(ToolOrchestratingLLM(output_cls=Album, prompt="x", llm=Ollama("llama3.2"))(), Album)
assert_type(ToolOrchestratingLLM(Album, "x", allow_parallel_tool_calls=True)(), list[Album])


async def on_the_async_api() -> None:
    assert_type(await make.acall(topic="a"), Album)
    assert_type(await make.acall("a"), Album)
    assert_type(await make.acall("a", stream=True), AsyncObjectStream[Album])
    assert_type(await make.acall(stream=True), AsyncObjectStream[Album])
    assert_type((await make.arun()).output, Album)
    async for partial in make.astream():
        assert_type(partial, Album)
    async with make.astream() as stream:
        assert_type(await stream.final(), Album)


def on_the_sync_api() -> None:
    for partial in make.stream():
        assert_type(partial, Album)
        assert_type(is_partial(partial), bool)
    with make.stream() as stream:
        assert_type(stream.final(), Album)


def llms(one: FunctionCallingLLM) -> None:
    assert_type(one.chat("x"), ChatResponse)
    assert_type(one.stream_chat("x"), EventStream)
    assert_type(one.astream_chat("x"), AsyncEventStream)
    assert_type(one.chat_with_tools([add], "x"), ChatResponse)
    assert_type(one.chat_with_tools([add], "x", stream=True), EventStream)
    assert_type(one.predict_and_call([add], "x"), AgentChatResponse)
    assert_type(one.predict_and_call([add], "x").parse_tool_outputs(), Any)
    assert_type(llm("ollama:llama3.2", api_key="k"), FunctionCallingLLM)
    OpenAI("m", api_key="k", max_retries=3, headers={"a": "b"})
    LlamaCpp("model.gguf", settings=Settings(temperature=0))
    one.chat("x", tools=[add], tool_choice="required", settings=Settings(seed=1))
    one.predict_and_call([add], "x", allow_parallel_tool_calls=True, error_on_no_tool_call=False)
    one.chat("x", temperature=0.1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - no option of a call
    one.chat("x", settings="seed")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - of a wrong type
    one.predict_and_call([add], "x", top=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - no option
    one.chat_with_tools([add], "x", top=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue] - as above
    ToolOrchestratingLLM(Album, "x", tries=2)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue] - as above
    ToolOrchestratingLLM(Album, "x", validation_context={"a": 1}, fail_fast=False)
    ToolOrchestratingLLM(Album, "x", max_attempts=2, tool_choice="required", mode="prompted", observer=None)
    Engine(one, [add], max_rounds=3, instructions="Be brief.", compaction=None, tool_errors="raise", history=["x"])
    Engine(one, max_round=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - no option
    Engine(one, max_rounds="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - of a wrong type
