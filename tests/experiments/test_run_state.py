"""The fold of a log: what follows what, and what is refused. How it goes on is in test_cycles.py."""

from __future__ import annotations

from typing import Any

import pytest

from toolcast.experiments.log_events import LogEvent
from toolcast.experiments.run_state import UNREADABLE, RunState

CALLS = [
    {"id": "a", "type": "function", "function": {"name": "write", "arguments": {"key": "k", "value": "four"}}},
    {"id": "b", "type": "function", "function": {"name": "send_message_to_operator", "arguments": {"message": "Hi"}}},
]


def answer(cycle: int, content: str = "", calls: Any = (), **measures: int) -> LogEvent:
    received: dict[str, Any] = {"role": "assistant", "content": content}
    payload = {"response_message": received | ({"tool_calls": calls} if calls else {})}
    return LogEvent("LLM_INVOCATION", cycle, payload, measures)


def result(cycle: int, name: str, output: str, **parameters: Any) -> LogEvent:
    return LogEvent("TOOL_CALL", cycle, {"tool_name": name, "parameters": parameters, "output": output})


START = LogEvent("CYCLE_START", 1, {})
END = LogEvent("CYCLE_END", 1, {"final_reflection": "Done.", "metrics": {}}, {"advisory": "high"})


def folded(*events: LogEvent, **options: Any) -> RunState:
    state = RunState("first", "m", **options)
    for event in events:
        state.apply(event)
    return state


def test_nothing_yet() -> None:
    state = folded()
    assert (state.cycle_number, state.completed, state.is_open, state.status) == (0, 0, False, None)


def test_a_cycle_in_the_middle() -> None:
    state = folded(
        LogEvent("RUN_START", 0, {}),
        START,
        answer(1, "I write.", CALLS, input_tokens=7, output_tokens=3),
        result(1, "write", "ok", key="k", value="four"),
    )
    cycle = state.cycle
    assert state.is_open and state.completed == 0 and state.cycle_number == 1
    assert [call.id for call in cycle.waiting] == ["b"]
    assert (cycle.steps, cycle.tool_calls, cycle.total_tokens) == (1, 1, 10)
    assert cycle.metrics == {
        "memory_ops_total": 1,
        "messages_to_operator": 0,
        "response_chars": 8,
        "memory_write_chars": 4,
    }
    assert [message["role"] for message in state.message_history] == ["assistant", "tool"]
    assert state.message_history[1]["tool_call_id"] == "a"
    state.apply(result(1, "send_message_to_operator", "hello", message="Hi"))
    assert state.cycle.metrics["messages_to_operator"] == 1 and not state.cycle.waiting


def test_a_cycle_that_ended() -> None:
    state = folded(START, answer(1, "Done."), END, LogEvent("RUN_END", 1, {"status": "stopped"}))
    assert (state.completed, state.is_open, state.status, state.advisory) == (1, False, "stopped", "high")
    assert state.reflection_history == ["Done."]
    assert folded(START, END, LogEvent("RUN_START", 0, {})).status is None


@pytest.mark.parametrize(("history", "left"), [("reset", 1), ("full", 3)])
def test_what_the_next_cycle_begins_with(history: Any, left: int) -> None:
    state = folded(
        START, answer(1, "Done."), END, LogEvent("CYCLE_START", 2, {}), history=history, opening="Cycle {cycle}."
    )
    assert len(state.messages) == len(state.message_history) == left
    assert state.messages[-1].text == "Cycle 2."


def test_errors_that_change_what_comes_next() -> None:
    state = folded(
        LogEvent("ERROR", 0, {"kind": "limit", "limit": "max_steps"}),
        START,
        LogEvent("ERROR", 1, {"kind": "unreadable_call"}),
        LogEvent("ERROR", 1, {"kind": "llm"}),
        LogEvent("ERROR", 1, {"kind": "limit", "limit": "max_tokens"}),
    )
    assert state.messages[-1].text == UNREADABLE
    assert (state.cycle.steps, state.cycle.limit) == (1, "max_tokens")


@pytest.mark.parametrize(
    "events",
    [
        [answer(1, "Done.")],
        [END],
        [LogEvent("CYCLE_START", 2, {})],
        [START, START],
        [START, LogEvent("CYCLE_START", 2, {})],
        [START, END, START],
        [START, result(1, "write", "ok")],
        [START, answer(2, "Done.")],
        [LogEvent.from_dict(START.to_dict() | {"event_type": "OTHER"})],
    ],
    ids=["no cycle", "no start", "skipped", "twice", "not ended", "again", "no call", "another", "no event"],
)
def test_what_cannot_follow_is_refused(events: list[LogEvent]) -> None:
    with pytest.raises(ValueError, match=r"cycle|without a call|'OTHER' is no event"):
        folded(*events)
