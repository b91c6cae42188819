"""`ToolContext`: its attributes and methods."""

from __future__ import annotations

import pytest

from toolcast.async_support.cancellation import Cancellation
from toolcast.errors import TurnCancelled
from toolcast.events import ToolProgress
from toolcast.tools.tool_context import ToolContext


def test_a_tool_can_see_that_it_was_cancelled() -> None:
    turn = Cancellation()
    context = ToolContext[None](tool="look", cancellation=Cancellation(turn))
    context.check()
    assert not context.cancelled
    turn.cancel()
    assert context.cancelled
    with pytest.raises(TurnCancelled, match="the call of look was cancelled"):
        context.check()


def test_emitted_data_becomes_a_progress_event() -> None:
    events: list[ToolProgress] = []
    ToolContext[None]("c1", "look", on_progress=events.append).emit({"done": 0.5})
    assert events == [ToolProgress("c1", "look", {"done": 0.5})]


def test_outside_an_engine_the_context_is_empty() -> None:
    context = ToolContext[None]()
    context.emit("unheard")
    assert (context.deps, context.spending, context.cancelled) == (None, None, False)
    assert context.cancellation is not ToolContext[None]().cancellation


def test_deps_are_not_shown() -> None:
    """They may hold keys."""
    assert repr(ToolContext[str]("c1", "look", deps="secret")) == "ToolContext(call_id='c1', tool='look')"
