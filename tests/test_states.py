"""states.py: the tables, the trace that walks them, and the diagrams drawn from them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from toolcast.states import CALL, STREAM, Trace, mermaid

TABLES = pytest.mark.parametrize("table", [CALL, STREAM], ids=["call", "stream"])


def test_a_trace_walks_its_table_and_says_so() -> None:
    heard: list[tuple[str, str]] = []
    trace = Trace(CALL, lambda call_id, state: heard.append((call_id, state)))
    trace.step("called", "tool_created")
    assert trace.state == "formatting_prompt"
    assert heard == [(trace.call_id, "creating_tool"), (trace.call_id, "formatting_prompt")]
    with pytest.raises(KeyError):
        trace.step("answered")
    assert trace.state == "formatting_prompt"


def test_every_call_has_a_name_of_its_own() -> None:
    assert len({Trace(CALL).call_id for _ in range(5)}) == 5


def test_nobody_hears_of_an_unobserved_trace(caplog: pytest.LogCaptureFixture) -> None:
    trace = Trace(CALL)
    with caplog.at_level(logging.DEBUG, logger="toolcast"):
        trace.step("called")
    assert (trace.observed, trace.state, caplog.text) == (False, "creating_tool", "")


def test_a_verbose_trace_logs_without_an_observer(caplog: pytest.LogCaptureFixture) -> None:
    trace = Trace(CALL, verbose=True)
    with caplog.at_level(logging.INFO, logger="toolcast"):
        trace.step("called")
    assert caplog.messages == [f"{trace.call_id} creating_tool"]


def test_an_observer_that_is_interrupted_interrupts() -> None:
    def stop(call_id: str, state: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Trace(CALL, stop).step("called")


@TABLES
def test_every_move_leads_to_a_state_of_the_table(table: Any) -> None:
    assert {target for moves in table.values() for target in moves.values()} <= set(table)


@TABLES
def test_from_everywhere_on_the_way_a_call_can_fail_and_be_closed(table: Any) -> None:
    for state in set(table) - {"ready", "error", "closed"}:
        assert table[state]["failed"] == "error"
        assert table[state]["closed"] == "closed"
    assert table["error"] == table["closed"] == {}


@TABLES
def test_the_diagram_has_every_move(table: Any) -> None:
    first, start, *lines = mermaid(table).splitlines()
    assert (first, start) == ("stateDiagram-v2", "    [*] --> ready")
    moves = [(state, event, target) for state, moves in table.items() for event, target in moves.items()]
    assert lines == [f"    {state} --> {target}: {event}" for state, event, target in moves]
