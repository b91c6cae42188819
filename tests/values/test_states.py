"""states.py: the tables, the trace that walks them, and the diagrams drawn from them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from toolcast.values.states import (
    CALL,
    CYCLE,
    ELF,
    ORCHESTRATOR,
    REPL,
    SESSION,
    STREAM,
    TOOL_CALL,
    TURN,
    Trace,
    mermaid,
)

CALLS = pytest.mark.parametrize("table", [CALL, STREAM], ids=["call", "stream"])
TABLES = pytest.mark.parametrize(
    "table",
    [ORCHESTRATOR, CALL, TOOL_CALL, STREAM, TURN, SESSION, ELF, REPL, CYCLE],
    ids=["orchestrator", "call", "tool_call", "stream", "turn", "session", "elf", "repl", "cycle"],
)


def walked(table: Any, *events: str) -> list[str]:
    """The states that `events` lead through."""
    trace = Trace(table)
    states = [trace.state]
    for event in events:
        trace.step(event)
        states.append(trace.state)
    return states


def test_a_trace_walks_its_table_and_says_so() -> None:
    received: list[tuple[str, str]] = []
    trace = Trace(CALL, lambda call_id, state: received.append((call_id, state)))
    trace.step("called", "tool_created")
    assert trace.state == "formatting_prompt"
    assert received == [(trace.call_id, "creating_tool"), (trace.call_id, "formatting_prompt")]
    with pytest.raises(KeyError):
        trace.step("answered")
    assert trace.state == "formatting_prompt"


def test_every_call_has_a_name_of_its_own() -> None:
    assert len({Trace(CALL).call_id for _ in range(5)}) == 5


def test_no_one_hears_of_an_unobserved_trace(caplog: pytest.LogCaptureFixture) -> None:
    trace = Trace(CALL)
    with caplog.at_level(logging.DEBUG, logger="toolcast"):
        trace.step("called")
    assert (trace.observed, trace.state, caplog.text) == (False, "creating_tool", "")


def test_an_observer_that_is_interrupted_interrupts() -> None:
    def stop(call_id: str, state: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Trace(CALL, stop).step("called")


@TABLES
def test_every_move_leads_to_a_state_of_the_table(table: Any) -> None:
    assert {target for moves in table.values() for target in moves.values()} <= set(table)


@TABLES
def test_every_state_can_be_reached(table: Any) -> None:
    reached, new = set(), {next(iter(table))}
    while new:
        reached |= new
        new = {target for state in new for target in table[state].values()} - reached
    assert reached == set(table)


@CALLS
def test_from_everywhere_on_the_way_a_call_can_fail_and_be_closed(table: Any) -> None:
    for state in set(table) - {"ready", "error", "closed"}:
        assert table[state]["failed"] == "error"
        assert table[state]["closed"] == "closed"
    assert table["error"] == table["closed"] == {}


def test_a_turn_can_fail_and_be_cancelled_anywhere_and_is_idle_again() -> None:
    for state in set(TURN) - {"cancelled", "error"}:
        assert TURN[state]["failed"] == "error"
        assert TURN[state]["cancelled"] == "cancelled"
    for state in ("complete", "cancelled", "error"):
        assert TURN[state]["returned"] == "idle"


@pytest.mark.parametrize(
    "events, states",
    [
        ("submitted exhausted answered returned", "idle streaming accumulating complete idle"),
        (
            "submitted exhausted tools_called approval_needed decided tools_executed exhausted answered returned",
            "idle streaming accumulating tool_exec permission_wait tool_exec streaming accumulating complete idle",
        ),
        (
            "resumed approval_needed suspended resumed tools_executed cancelled returned",
            "idle tool_exec permission_wait idle tool_exec streaming cancelled idle",
        ),
        ("submitted compacted failed returned", "idle streaming streaming error idle"),
        ("submitted exhausted asked_again", "idle streaming accumulating streaming"),
        ("submitted exhausted tools_called answered", "idle streaming accumulating tool_exec complete"),
    ],
)
def test_the_ways_of_a_turn(events: str, states: str) -> None:
    assert walked(TURN, *events.split()) == states.split()


def test_the_ways_of_a_session() -> None:
    assert walked(SESSION, "sent", "ended", "closed") == ["idle", "active", "idle", "closed"]
    assert walked(SESSION, "sent", "cancelled", "ended") == ["idle", "active", "cancelling", "idle"]
    assert walked(SESSION, "sent", "cancelled", "closed") == ["idle", "active", "cancelling", "closed"]
    assert SESSION["closed"] == {}
    assert all("sent" not in SESSION[state] for state in ("active", "cancelling", "closed"))


@pytest.mark.parametrize(
    "events, states",
    [
        (
            "loaded assembled answered tools_called results_appended assembled answered reflected finalized "
            "more_cycles",
            "load_state assemble_prompt invoke_llm parse_response dispatch_tool assemble_prompt invoke_llm "
            "parse_response finalize_cycle terminate_or_continue load_state",
        ),
        (
            "loaded limited finalized completed",
            "load_state assemble_prompt finalize_cycle terminate_or_continue complete",
        ),
        (
            "loaded assembled unreadable assembled limited",
            "load_state assemble_prompt invoke_llm assemble_prompt invoke_llm finalize_cycle",
        ),
        ("calls_left results_appended", "load_state dispatch_tool assemble_prompt"),
        ("reflection_left finalized", "load_state finalize_cycle terminate_or_continue"),
    ],
)
def test_the_ways_of_a_cycle(events: str, states: str) -> None:
    assert walked(CYCLE, *events.split()) == states.split()


def test_a_run_can_fail_and_be_cancelled_anywhere() -> None:
    for state in set(CYCLE) - {"complete", "cancelled", "error"}:
        assert CYCLE[state]["failed"] == "error"
        assert CYCLE[state]["cancelled"] == "cancelled"


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_the_ways_of_an_elf(end: str) -> None:
    assert walked(ELF, "started", end, "sent") == ["pending", "running", end, "running"]


@TABLES
def test_the_diagram_has_every_move(table: Any) -> None:
    first, start, *lines = mermaid(table).splitlines()
    assert (first, start) == ("stateDiagram-v2", f"    [*] --> {next(iter(table))}")
    moves = [(state, event, target) for state, moves in table.items() for event, target in moves.items()]
    assert lines == [f"    {state} --> {target}: {event}" for state, event, target in moves]


def test_forks_are_traces_of_the_tool_calls() -> None:
    received: list[tuple[str, str]] = []
    trace = Trace(CALL, lambda call_id, state: received.append((call_id, state)))
    first, second = trace.fork(2)
    assert (first.call_id, second.call_id) == (f"{trace.call_id}.1", f"{trace.call_id}.2")
    assert first.state == next(iter(TOOL_CALL))
    event = next(iter(TOOL_CALL[first.state]))
    first.step(event)
    assert received == [(first.call_id, TOOL_CALL[next(iter(TOOL_CALL))][event])]
    assert Trace(CALL).fork(2) == ()


def test_an_observer_can_be_added_to_another_and_to_none() -> None:
    received: list[str] = []
    trace = Trace(CALL, lambda call_id, state: received.append(f"first {state}"))
    alone = Trace(CALL)
    for each in (trace, alone):
        each.add_observer(lambda call_id, state: received.append(f"second {state}"))
        each.step("called")
    assert received == ["first creating_tool", "second creating_tool", "second creating_tool"]
    assert alone.observed is True
