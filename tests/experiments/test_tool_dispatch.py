"""Calls, run: each gives a text, whatever happens (X5)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from toolcast import CallableTool, ToolCallPart, TryAgain
from toolcast.experiments.cycles import ToolDispatcher
from toolcast.experiments.experiment_tools import CallPlace
from toolcast.tools.tool_context import ToolContext

PLACE = CallPlace("first", 2, 3, 0)


def double(number: int) -> int:
    """Twice the number."""
    return number * 2


def fail(how: str) -> str:
    """Fail."""
    raise {"key": KeyError("x"), "again": TryAgain("write it in full"), "value": ValueError("no good")}[how]


def where(context: ToolContext[CallPlace]) -> str:
    """Where the call is."""
    return f"{context.deps.run_id} {context.deps.name}"


async def later(number: int) -> int:
    """Wait a little."""
    await anyio.lowlevel.checkpoint()
    return number


dispatcher = ToolDispatcher([CallableTool.from_function(tool) for tool in (double, fail, where, later)])


@pytest.fixture(params=["sync", "async"])
def dispatch(request: pytest.FixtureRequest) -> Any:
    if request.param == "sync":
        return dispatcher.dispatch

    def run(*args: Any) -> str:
        return anyio.run(dispatcher.adispatch, *args)

    return run


def test_a_result(dispatch: Any) -> None:
    assert dispatch("double", {"number": 21}) == "42"
    assert dispatch("double", '{"number": 21}') == "42"


def test_x5_an_unknown_tool(dispatch: Any) -> None:
    assert dispatch("fly", {}) == "Error: Tool 'fly' not found"


@pytest.mark.parametrize("arguments", [{}, {"number": "many"}, "[1]", "{"], ids=["missing", "wrong", "list", "cut"])
def test_x5_bad_arguments(dispatch: Any, arguments: Any) -> None:
    assert dispatch("double", arguments).startswith("Error: Invalid arguments for tool 'double': ")


@pytest.mark.parametrize(("how", "words"), [("key", "'x'"), ("again", "write it in full"), ("value", "no good")])
def test_x5_a_tool_that_raises(dispatch: Any, how: str, words: str) -> None:
    answer = dispatch("fail", {"how": how})
    assert answer.startswith("Error executing tool 'fail': ")
    assert words in answer


def test_a_call_that_was_cut_off_is_not_run() -> None:
    call = ToolCallPart("c", "double", '{"number": 2', truncated=True)
    answer = anyio.run(lambda: dispatcher.answered(call, PLACE, concurrent=True))
    assert answer.startswith("Error: Invalid arguments for tool 'double': ")


def test_tools_know_where_they_are_called(dispatch: Any) -> None:
    assert dispatch("where", {}, PLACE) == "first 2/3/0"


def test_an_async_tool() -> None:
    assert anyio.run(dispatcher.adispatch, "later", {"number": 7}) == "7"


def test_ctrl_c_in_a_tool_is_no_result() -> None:
    def stop() -> None:
        """Stop."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ToolDispatcher([CallableTool.from_function(stop)]).dispatch("stop", {})
