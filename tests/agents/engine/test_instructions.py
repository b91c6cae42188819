"""instructions.py: system messages that are fixed, or made for each request."""

from __future__ import annotations

from typing import Any

import pytest

from support.engines import EngineAPI, call, check
from toolcast.agents.engine.engine import Engine
from toolcast.errors import FailTurn, TurnFailed
from toolcast.messages import system
from toolcast.testing import ScriptedLLM, ScriptedRequest
from toolcast.tools.tool_context import ToolContext


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def systems(request: ScriptedRequest) -> list[str]:
    return [message.text for message in request.messages if message.role == "system"]


class Counting:
    """A function of the context that counts its calls, sync or async."""

    def __init__(self) -> None:
        self.calls: list[ToolContext[str]] = []

    def __call__(self, context: ToolContext[str]) -> str:
        self.calls.append(context)
        return f"{context.deps} {len(self.calls)}"

    async def awaited(self, context: ToolContext[str]) -> str:
        return self(context)

    def awaitable(self, context: ToolContext[str]) -> Any:
        return self.awaited(context)


@pytest.mark.parametrize("kind", ["__call__", "awaited", "awaitable"])
def test_a_function_is_evaluated_for_each_request(engine_api: EngineAPI, kind: str) -> None:
    counting = Counting()
    llm = ScriptedLLM(call("a", "add", '{"a": 1, "b": 2}'), "3", "Yes.", system_prompt="Be kind.")
    engine = Engine[str](llm, [add], instructions=getattr(counting, kind), deps="shop")
    engine_api.submit(engine, "1 + 2?")
    engine_api.submit(engine, "Sure?", deps="other")
    assert [systems(request) for request in llm.requests] == [
        ["Be kind.", "shop 1"],
        ["Be kind.", "shop 2"],
        ["Be kind.", "other 3"],
    ]
    assert all(message.role != "system" for message in engine.history)
    assert {(context.call_id, context.tool) for context in counting.calls} == {("", "")}
    check(engine)


def test_a_text_comes_after_the_system_prompt_of_the_llm_and_before_the_history(engine_api: EngineAPI) -> None:
    llm = ScriptedLLM("Hi.", system_prompt="First.")
    engine_api.submit(Engine(llm, instructions="Second.", history=[system("Third.")]), "Hello.")
    assert systems(llm.requests[0]) == ["First.", "Second.", "Third."]


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_text_is_no_message(engine_api: EngineAPI, nothing: str | None) -> None:
    llm = ScriptedLLM("Hi.", "Hi.")
    engine_api.submit(Engine(llm, instructions=lambda context: nothing), "Hello.")
    engine_api.submit(Engine(llm, instructions=nothing), "Hello.")
    assert [systems(request) for request in llm.requests] == [[], []]


def test_a_fork_adds_its_own(engine_api: EngineAPI) -> None:
    llm = ScriptedLLM("Hi.")
    engine = Engine[str](llm, instructions=lambda context: f"You sell {context.deps}.", deps="tea")
    fork = engine.fork(instructions=lambda context: f"You also sell {context.deps} cups.", deps="blue")
    engine_api.submit(fork, "Hello.")
    assert systems(llm.requests[0]) == ["You sell blue.", "You also sell blue cups."]


def test_another_type_ends_the_turn_before_anything_is_sent(engine_api: EngineAPI) -> None:
    llm, wrong = ScriptedLLM("Hi."), lambda context: 5
    function: Any = wrong
    engine = Engine(llm, instructions=function)
    with pytest.raises(TypeError, match=r"^the result of the function instructions=: expected str or None, got int$"):
        engine_api.submit(engine, "Hello.")
    assert (llm.requests, engine.history) == ([], ())
    check(engine)


def test_an_exception_ends_the_turn(engine_api: EngineAPI) -> None:
    def failing(context: ToolContext) -> str:
        raise LookupError("no such shop")

    def ending(context: ToolContext) -> str:
        raise FailTurn("closed")

    llm = ScriptedLLM("Hi.")
    engine = Engine(llm, instructions=failing)
    with pytest.raises(LookupError, match="no such shop"):
        engine_api.submit(engine, "Hello.")
    with pytest.raises(TurnFailed, match="closed") as caught:
        engine_api.submit(Engine(llm, instructions=ending), "Hello.")
    assert caught.value.turn is not None and caught.value.turn.end == "error"
    assert llm.requests == []
    check(engine)


def test_a_function_without_a_signature_is_accepted() -> None:
    Engine(ScriptedLLM(), instructions=str)
    with pytest.raises(TypeError, match=r"got one with the parameters \(a, b\)"):
        Engine(ScriptedLLM(), instructions=add)  # type: ignore[arg-type]  # what is tested
