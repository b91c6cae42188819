"""run_progress.py: the figures of a run after each of its events."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.run_logs import BEGINNING, whole_run
from toolcast.experiments.log_events import EventType, LogEvent
from toolcast.experiments.log_reading import read_log
from toolcast.experiments.report.summary import summary_of
from toolcast.experiments.run_progress import RunProgress, seconds_elapsed_of, seconds_left_of


def event(event_type: str, at: float = 0, cycle: int = 1, measures: Any = None, **payload: Any) -> LogEvent:
    kind: EventType = event_type  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]  # any
    stamp = datetime.fromtimestamp(BEGINNING + at, UTC).isoformat().replace("+00:00", "Z")
    return LogEvent(kind, cycle, payload, measures or {}, "first", stamp)


def answer(*tools: str, at: float = 0, tokens: int = 10, seconds: float = 1.0) -> LogEvent:
    calls = [{"function": {"name": name, "arguments": {}}} for name in tools]
    measures = {"input_tokens": 100, "output_tokens": tokens, "seconds": seconds}
    return event("LLM_INVOCATION", at, measures=measures, response_message={"tool_calls": calls} if calls else {})


def after(*events: LogEvent, run: RunProgress | None = None) -> RunProgress:
    progress = run or RunProgress()
    for each in events:
        progress.apply(each)
    return progress


START = event("RUN_START", 0, 0, config={"model_name": "m", "cycle_count": 4}, first_cycle=1, resumed=False)
ENDED = event("CYCLE_END", 10, measures={"seconds": 10.0}, final_reflection="I saw the sea.")


def test_before_the_first_event() -> None:
    run = RunProgress("first", 3, 1)
    assert (run.has_begun, run.completed, run.tool_calls, run.total_tokens) == (False, 1, 0, 0)
    assert (run.tokens_per_second, run.seconds_per_cycle) == (None, None)
    assert (seconds_elapsed_of([run], 0), run.seconds_left(0), seconds_left_of([run], 0)) == (None, None, None)


def test_the_states_of_a_cycle() -> None:
    run, states = RunProgress(), list[tuple[str, str]]()
    for each in (
        START,
        event("CYCLE_START"),
        answer("write", "list"),
        event("TOOL_CALL", tool_name="write", output="Wrote value to key 'a'", parameters={"key": "a"}),
        event("TOOL_CALL", tool_name="list", output="a"),
        answer(),
        ENDED,
        event("RUN_END", status="completed"),
    ):
        run.apply(each)
        states.append((run.state, run.tool))
    assert states == [
        ("load_state", ""),
        ("invoke_llm", ""),
        ("dispatch_tool", "write"),
        ("dispatch_tool", "list"),
        ("invoke_llm", ""),
        ("finalize_cycle", ""),
        ("terminate_or_continue", ""),
        ("complete", ""),
    ]
    assert (run.run_id, run.model_name, run.cycle_count, run.completed, run.is_open) == ("first", "m", 4, 1, False)
    assert (run.tools, run.memory_keys, run.total_tokens) == ({"write": 1, "list": 1}, {"a"}, 220)
    assert (run.reflection, run.reflection_cycle, run.status) == ("I saw the sea.", 1, "completed")


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("failed", "error"),
        ("interrupted", "cancelled"),
        ("stopped", "terminate_or_continue"),
        (None, "terminate_or_continue"),
    ],
)
def test_the_ends_of_a_run(status: str | None, state: str) -> None:
    run = after(START, event("RUN_END", status=status))
    assert (run.status, run.state) == (status or "stopped", state)


def test_a_run_that_is_gone_on_with() -> None:
    resumed = event("RUN_START", 100, 0, config={}, first_cycle=2, resumed=True)
    begun = after(
        START, event("CYCLE_START"), ENDED, event("CYCLE_START", 20, 2), event("RUN_END", 30, status="failed")
    )
    run = after(resumed, run=begun)
    assert (run.status, run.completed, run.cycle_number, run.state) == (None, 1, 2, "invoke_llm")
    assert (run.model_name, run.cycle_count) == ("m", 4)
    assert seconds_elapsed_of([run], BEGINNING + 105) == 5
    assert after(answer("write"), resumed).state == "load_state"
    waiting = after(event("CYCLE_START", 20, 2), answer("write"), resumed)
    assert (waiting.state, waiting.completed, waiting.cycle_number) == ("dispatch_tool", 1, 2)


def test_tokens_per_second_are_those_of_the_last_requests() -> None:
    run = after(
        *(answer(tokens=1, seconds=1.0) for _ in range(5)), *(answer(tokens=50, seconds=2.0) for _ in range(10))
    )
    assert run.tokens_per_second == 25
    assert (run.input_tokens, run.output_tokens) == (1500, 505)
    assert after(answer(tokens=5, seconds=0.0)).tokens_per_second is None


def test_time_left() -> None:
    run = after(START, event("CYCLE_START"))
    assert run.seconds_left(BEGINNING) is None
    assert run.seconds_left(BEGINNING + 2, 5) == 4 * 5 - 2
    after(ENDED, run=run)
    assert run.seconds_left(BEGINNING + 15) == 30
    after(event("CYCLE_START", 10, 2), run=run)
    assert run.seconds_left(BEGINNING + 14) == 26
    assert run.seconds_left(BEGINNING + 999) == 20  # a cycle that takes long has no negative rest
    after(event("RUN_END", 20, status="interrupted"), run=run)
    assert run.seconds_left(BEGINNING + 30) is None
    assert seconds_elapsed_of([run], BEGINNING + 30) == 20


def test_cycles_without_measures_last_from_start_to_end() -> None:
    run = after(event("CYCLE_START"), event("CYCLE_END", 6), event("CYCLE_START", 6, 2), event("CYCLE_END", 14, 2))
    assert run.seconds_per_cycle == 7
    assert after(LogEvent("CYCLE_END", 3, {})).seconds_per_cycle is None


def test_time_left_of_several_runs() -> None:
    one = after(START, event("CYCLE_START"), ENDED)
    two = after(START, event("CYCLE_START"))
    now = BEGINNING + 10
    assert one.seconds_left(now) == 30
    assert seconds_left_of([one, two], now) == 30  # (30 + 30) / 2
    assert seconds_left_of([one, two, RunProgress("third", 4)], now) == 50  # (30 + 30 + 40) / 2
    assert seconds_left_of([one, RunProgress("third", 9)], now) == 120
    assert seconds_left_of([after(event("RUN_END", status="completed"), run=one)], now) is None


def test_elapsed_time_of_several_runs() -> None:
    yesterday = after(event("CYCLE_START", -9000), event("RUN_END", -8000, status="completed"))
    live = after(event("RUN_START", 0, 0))
    assert seconds_elapsed_of([yesterday, live, RunProgress("next")], BEGINNING + 7) == 7
    assert seconds_elapsed_of([yesterday, after(event("RUN_END", 5, status="failed"), run=live)], BEGINNING + 7) == 9005
    assert seconds_elapsed_of([after(LogEvent("CYCLE_START", 1, {}))], BEGINNING) is None


def test_memory_similarity_and_errors() -> None:
    run = after(
        event("TOOL_CALL", tool_name="write", output="Updated key 'a' with new value", parameters={"key": "a"}),
        event("TOOL_CALL", tool_name="write", output="Error: too long", parameters={"key": "b"}),
        event("TOOL_CALL", tool_name="write", output="Wrote value to key 'c'", parameters={"key": "c"}),
        event("TOOL_CALL", tool_name="delete", output="Deleted key 'a'", parameters={"key": "a"}),
        event("TOOL_CALL", tool_name="delete", output="Error: Key 'x' not found", parameters={"key": "c"}),
        event("ERROR", kind="embedder", message="no model"),
        event("ERROR", kind="limit", message="max_steps"),
        event("CYCLE_END", measures={"similarity": 0.9, "similar_to": 2, "advisory": "high"}, final_reflection=" "),
    )
    assert (run.memory_keys, run.errors, run.last_error) == ({"c"}, 1, "no model")
    assert (run.similarity, run.similar_to, run.advisory, run.reflection) == (0.9, 2, "high", "")
    assert after(event("CYCLE_END"), run=run).similarity is None


def test_an_event_of_a_grid_has_no_messages() -> None:
    assert after(event("CYCLE_START"), event("LLM_INVOCATION")).state == "parse_response"


def test_a_limit_ends_the_cycle() -> None:
    assert after(event("CYCLE_START"), event("ERROR", kind="limit")).state == "finalize_cycle"


@pytest.mark.parametrize(
    "odd",
    [
        event("SOMETHING"),
        event("RUN_START", config=3, first_cycle="x"),
        event("LLM_INVOCATION", measures={"seconds": "1", "output_tokens": True}, response_message=[]),
        event("LLM_INVOCATION", response_message={"tool_calls": [3, {"function": None}, {"function": {"name": 1}}]}),
        event("TOOL_CALL", tool_name=3, parameters=[]),
        event("CYCLE_END", measures={"similarity": "high", "similar_to": -1}, final_reflection=None),
        LogEvent("CYCLE_START", 1, {}, {}, "", "yesterday"),
        LogEvent("CYCLE_START", 1, {}, {}, "", "0001-01-01T00:00:00+23:59"),
    ],
)
def test_odd_events_of_other_programs(odd: LogEvent) -> None:
    run = after(START, odd, ENDED)
    assert (run.completed, run.run_id, run.total_tokens) == (1, "first", 0)


def test_a_timestamp_without_a_zone_is_utc() -> None:
    run = after(LogEvent("CYCLE_START", 1, {}, {}, "theirs", "2026-09-21T14:13:20"))
    assert run.started == BEGINNING


def test_the_same_figures_as_those_of_the_report(tmp_path: Path) -> None:
    log = whole_run(tmp_path / "run.jsonl")
    run, summary = after(*read_log(log)), summary_of(read_log(log))
    assert run.input_tokens == summary.total(lambda cycle: cycle.input_tokens)
    assert run.output_tokens == summary.total(lambda cycle: cycle.output_tokens)
    assert run.tools == {name: use.calls for name, use in summary.tools.items()}
    assert len(run.memory_keys) == summary.cycles[-1].memory_keys
    assert (run.completed, run.status) == (summary.ended_cycles, summary.status)
    assert run.reflection == summary.cycles[-1].reflection
