"""`ask_user`: answered by a function, or by the consumer of the stream."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast import Engine, Session, ToolCallPart
from toolcast.async_support.cancellation import Cancellation
from toolcast.errors import TryAgain, TurnCancelled
from toolcast.events import ToolProgress, ToolResult
from toolcast.testing import ScriptedLLM
from toolcast.toolbox.questions import Question, question_tool
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.tool_context import ToolContext

ASKED = '{"question": "Which?", "choices": ["Red", "Blue"]}'


def session_with(tool: CallableTool) -> Session:
    return Session(Engine(ScriptedLLM(ToolCallPart("call_1", "ask_user", ASKED), "done"), [tool]))


# The question itself.


@pytest.mark.parametrize(
    ("message", "meant"),
    [
        ("Red", "Red"),
        (" blue\n", "Blue"),
        ("2", "Blue"),
        ("3", "3"),
        ("0", "0"),
        ("green", "green"),
        (" as it is ", " as it is "),
        ("", ""),
    ],
)
def test_a_choice_may_be_named_in_short(message: str, meant: str) -> None:
    question = Question("Which?", ["Red", "Blue"])
    assert not question.answered
    question.answer(message)
    assert question.answered
    assert question.read() == meant


def test_a_choice_that_is_a_number_is_itself() -> None:
    question = Question("How many?", ["3", "1", "2"])
    question.answer("1")
    assert question.read() == "1"


@given(st.text(), st.lists(st.text()))
def test_any_answer_is_itself_or_a_choice(text: str, choices: list[str]) -> None:
    question = Question("?", choices)
    question.answer(text)
    assert question.read() in (text, *choices)


def test_the_first_answer_counts() -> None:
    question = Question("Which?")
    for text in ("one", "two", None):
        question.answer(text)
    assert question.read() == "one"
    assert repr(question) == "Question('Which?', ())"


@pytest.mark.parametrize("answers", [[], [None], [None, "late"]])
def test_no_one_is_there(answers: list[str | None]) -> None:
    question = Question("Which?")
    for text in answers:
        question.answer(text)
    with pytest.raises(TryAgain, match="no user is available"):
        question.read()


# Answered by a function.


def blue(question: Question) -> str:
    assert (question.text, question.choices) == ("Which?", ("Red", "Blue"))
    return "2"


async def later_blue(question: Question) -> str:
    return blue(question)


@pytest.mark.parametrize("ask", [blue, later_blue])
async def test_a_function_answers(ask: Any, anyio_backend: str) -> None:
    tool = question_tool(ask)
    assert tool.call(ASKED).content == "Blue"
    assert (await tool.acall(ASKED)).content == "Blue"


def at_the_end(question: Question) -> str:
    raise EOFError


async def later_at_the_end(question: Question) -> str:
    raise EOFError


def no_answer(question: Question) -> None:
    return None


@pytest.mark.parametrize("ask", [at_the_end, later_at_the_end, no_answer, None])
async def test_where_no_one_is_there(ask: Any, anyio_backend: str) -> None:
    tool = question_tool(ask)
    with pytest.raises(TryAgain, match="no user is available"):
        tool.call(ASKED)
    with pytest.raises(TryAgain, match="no user is available"):
        await tool.acall(ASKED)


def test_the_model_reads_that_no_one_is_there() -> None:
    session = session_with(question_tool(at_the_end))
    session.send("Paint it.")
    (result,) = (event for event in session.events() if isinstance(event, ToolResult))
    assert result.is_error
    assert result.content.startswith("no user is available to answer: go on without")


# Answered by who follows the turn.


def test_the_thread_that_reads_the_events_answers() -> None:
    with session_with(question_tool()) as session:
        session.send("Paint it.")
        results = []
        for event in session.events():
            if isinstance(event, ToolProgress):
                assert (event.data.text, event.data.choices) == ("Which?", ("Red", "Blue"))
                event.data.answer("red")
            elif isinstance(event, ToolResult):
                results.append(event.content)
        assert results == ["Red"]
        assert session.result().text == "done"


async def test_the_task_that_reads_the_events_answers(anyio_backend: str) -> None:
    async with session_with(question_tool()) as session:
        await session.asend("Paint it.")
        async for event in session.aevents():
            if isinstance(event, ToolProgress):
                thread = threading.Thread(target=event.data.answer, args=("green",))  # from any thread
                thread.start()
            elif isinstance(event, ToolResult):
                assert event.content == "green"
        thread.join()
        assert (await session.aresult()).text == "done"


def test_a_cancelled_turn_asks_no_longer() -> None:
    with session_with(question_tool()) as session:
        session.send("Paint it.")
        for event in session.events():
            if isinstance(event, ToolProgress):
                session.cancel()
        with pytest.raises(TurnCancelled):
            session.result()


async def test_a_cancelled_turn_asks_no_longer_in_a_loop(anyio_backend: str) -> None:
    async with session_with(question_tool()) as session:
        await session.asend("Paint it.")
        async for event in session.aevents():
            if isinstance(event, ToolProgress):
                session.cancel()
        with pytest.raises(TurnCancelled):
            await session.aresult()


def test_the_tool_itself_ends_when_it_is_cancelled() -> None:
    cancellation, emitted = Cancellation(), []

    def cancel(event: ToolProgress) -> None:
        emitted.append(event.data)
        cancellation.cancel()

    tool = question_tool()
    with pytest.raises(TurnCancelled):
        tool.run(tool.read(ASKED).value, ToolContext(cancellation=cancellation, on_progress=cancel))
    assert not emitted[0].answered


def test_the_tool() -> None:
    tool = question_tool()
    assert (tool.name, tool.read_only, tool.runs_in_parallel) == ("ask_user", True, False)
    assert list(tool.parameters["properties"]) == ["question", "choices"]
    assert tool.parameters["required"] == ["question"]
    assert question_tool(blue).spec == question_tool(later_blue).spec == tool.spec
