"""`tool`, the decorator: the options of a function as a tool, which stays a function."""

from __future__ import annotations

from typing import Any

import pytest

import toolcast
from toolcast import Agent, CallableTool, Engine, Permissions, ToolOrchestratingLLM, tools_of
from toolcast.messages import ToolCallPart
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import as_tool


@toolcast.tool
def plain(text: str) -> str:
    """Return the text."""
    return text


@toolcast.tool(name="pay_out", read_only=False, approval="always", timeout=5, description="Pay.")
def pay(amount: int) -> str:
    return f"{amount} paid"


@toolcast.tool(approval="never", read_only=True)
async def look(place: str) -> str:
    """Look."""
    return f"{place} is empty"


class Desk:
    @toolcast.tool(read_only=True, output_limit=9)
    def read(self, page: int) -> str:
        """Read a page."""
        return f"page {page}"


def test_the_function_stays_a_function() -> None:
    assert (plain("x"), pay(3), Desk().read(1)) == ("x", "3 paid", "page 1")


def test_the_options_are_those_of_the_tool() -> None:
    made = as_tool(pay)
    assert (made.name, made.description, made.approval, made.timeout) == ("pay_out", "Pay.", "always", 5)
    assert CallableTool.from_function(pay, "other", "Other.").name == "other"
    assert (as_tool(plain).name, as_tool(plain).approval) == ("plain", None)
    (read,) = tools_of(Desk())
    assert (read.read_only, read.output_limit) == (True, 9)
    assert as_tool(look).read_only
    assert ToolOrchestratingLLM(pay, "x", ScriptedLLM())


def test_each_call_needs_an_approval_also_without_permissions() -> None:
    calls = [ToolCallPart("1", "look", '{"place": "yard"}'), ToolCallPart("2", "pay_out", '{"amount": 5}')]
    agent = Agent(ScriptedLLM(calls, "Done.", "Done."), [look, pay])
    turn = agent.run("Go")
    assert (turn.end, [request.tool for request in turn.pending]) == ("approval", ["pay_out"])
    done = agent.run(answers=[request.allow() for request in turn.pending], history=turn.history)
    assert (done.text, "5 paid" in str(done.history)) == ("Done.", True)
    asked: list[str] = []
    engine = Engine(
        ScriptedLLM(calls, "Done."),
        [look, pay],
        permissions=Permissions("default", approve=lambda request: not asked.append(request.tool)),
    )
    assert (engine.submit("Go").text, asked) == ("Done.", ["pay_out"])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: toolcast.tool(readonly=True), TypeError, "did you mean read_only"),
        (lambda: toolcast.tool("name"), TypeError, "is for functions"),
        (lambda: toolcast.tool(timeout=1)(5), TypeError, "is for functions"),
        (lambda: as_tool(toolcast.tool(approval="maybe")(lambda: "x")), ValueError, "not 'always', 'never' or None"),
    ],
)
def test_what_is_wrong(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
