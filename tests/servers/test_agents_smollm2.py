"""A real agent: SmolLM2, with 135 million parameters, and a calculator.

A model that small calls no tool from its description alone. It follows examples: two worked turns in the
history, a tool that answers with a sentence, and answers that end with the line make it reliable, with nothing forced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from support.engines import ENGINE_APIS, EngineAPI, check, results
from toolcast import LlamaCpp, Message, Session, Settings, ToolCallPart, assistant, tool_result, user
from toolcast.agents import ElfConfig, ElfManager
from toolcast.agents.engine.engine import Engine
from toolcast.events import OutputDelta, ToolStarted
from toolcast.llms.local.llama_server import ServerOptions
from toolcast.stores import SQLiteStore

pytestmark = pytest.mark.networked

SYNC, ASYNCIO, *_ = ENGINE_APIS
TERSE = Settings(temperature=0, max_tokens=60, stop="\n")
# Temperature 0 gives the very same answer again only where nothing is taken from the cache; with it, all is faster.
EXACT = Settings(extra={"cache_prompt": False})


class Product(BaseModel):
    """The product of two numbers."""

    a: int
    b: int
    product: int


def multiply(a: int, b: int) -> str:
    """Multiply two numbers."""
    return f"{a} times {b} is {a * b}."


def worked(number: int, question: str, a: int, b: int, *, typed: bool = False) -> list[Message]:
    """A turn as it should go, for the model to see."""
    call = ToolCallPart(f"worked_{number}", "multiply", json.dumps({"a": a, "b": b}))
    turn = [user(question), assistant(call), tool_result(call, multiply(a, b))]
    if not typed:
        return [*turn, assistant(multiply(a, b))]
    last = ToolCallPart(f"typed_{number}", "Product", Product(a=a, b=b, product=a * b).model_dump_json())
    return [*turn, assistant(last), tool_result(last, "Done.")]


def two_worked_turns(*, typed: bool = False) -> list[Message]:
    return worked(1, "What is 4 times 6?", 4, 6, typed=typed) + worked(2, "Multiply 31 by 9.", 31, 9, typed=typed)


@pytest.fixture(scope="module")
def llm(smollm2: Path) -> Iterator[LlamaCpp]:
    # One thread: llama.cpp's wait for each other by spinning, and a core may be taken.
    with LlamaCpp(smollm2, server=ServerOptions(threads=1), settings=TERSE) as made:
        yield made


@pytest.fixture
def engine(llm: LlamaCpp) -> Engine:
    return Engine(llm, [multiply], history=two_worked_turns(), max_rounds=3)


def called(engine: Engine) -> list[Any]:
    """The arguments of the calls of all turns but the worked ones."""
    calls = [call for message in engine.history for call in message.tool_calls]
    return [json.loads(call.arguments) for call in calls if not call.id.startswith(("worked", "typed"))]


@pytest.mark.parametrize("engine_api", [SYNC, ASYNCIO], ids=lambda engine_api: engine_api.name)
def test_a_turn_with_a_calculator(llm: LlamaCpp, engine_api: EngineAPI) -> None:
    engine = Engine(llm, [multiply], history=two_worked_turns(), max_rounds=3, settings=EXACT)
    text = engine_api.stream(engine, "What is 17 times 23?")
    assert text.turn is not None, text.error
    assert called(engine) == [{"a": 17, "b": 23}]
    assert [event.name for event in text.of(ToolStarted)] == ["multiply"]
    assert results(text.turn.messages)[0].content == "17 times 23 is 391."
    assert (text.turn.text, text.turn.rounds, text.turn.end) == ("17 times 23 is 391.", 2, "end_turn")
    assert text.turn.usage == engine.usage
    assert engine.usage.input_tokens > 200 and engine.usage.output_tokens > 20
    check(engine)


def test_a_typed_result(llm: LlamaCpp) -> None:
    """The tool first, then the object, whose numbers are those that the tool gave."""
    engine = Engine(llm, [multiply], history=two_worked_turns(typed=True), max_rounds=3)
    text = SYNC.stream(engine, "What is 17 times 23?", output_cls=Product)
    assert text.turn is not None, text.error
    assert text.turn.output == Product(a=17, b=23, product=391)
    assert len(text.of(OutputDelta)) > 2
    assert called(engine) == [{"a": 17, "b": 23}, {"a": 17, "b": 23, "product": 391}]
    check(engine)


def test_a_session_that_is_left_and_found_again(engine: Engine, llm: LlamaCpp, tmp_path: Path) -> None:
    with Session(engine, id="sums", store=SQLiteStore(tmp_path / "sessions.db")) as session:
        assert "391" in session.run("What is 17 times 23?").text
    fresh = Engine(llm, [multiply], max_rounds=3)
    with Session.resume("sums", fresh, SQLiteStore(tmp_path / "sessions.db")) as session:
        assert fresh.history == engine.history
        session.send("Multiply 12 by 12.")
        assert any(isinstance(event, ToolStarted) for event in session.events())
        assert "144" in session.result(60).text
        assert (session.status.turn_count, session.status.token_state) == (2, "ok")
    assert called(fresh) == [{"a": 17, "b": 23}, {"a": 12, "b": 12}]
    check(fresh)


def test_an_elf(llm: LlamaCpp) -> None:
    with_output = ElfConfig("The product of 17 and 23 is 391.", output_cls=Product, tools=(), timeout=60)
    elf = ElfManager(Engine(llm)).spawn(with_output)
    result = elf.wait()
    assert (result.status, type(result.output)) == ("completed", Product)
    assert result.usage.output_tokens > 5 and result.duration > 0
