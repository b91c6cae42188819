"""The summary of a run: all that its log contains, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.run_logs import REFLECTIONS, LogWriter, published_log, whole_run
from toolcast.experiments.event_log import read_log
from toolcast.experiments.experiment_config import ExperimentConfig
from toolcast.experiments.log_events import LogEvent
from toolcast.experiments.report.summary import (
    UNFINISHED,
    CycleSummary,
    RunError,
    RunSummary,
    RunSummaryBuilder,
    ToolUse,
    moment,
    summary_of,
)
from toolcast.experiments.runner import ExperimentRunner
from toolcast.messages import ToolCallPart
from toolcast.testing import ScriptedLLM


def summary(path: Path) -> RunSummary:
    return summary_of(read_log(path))


def test_a_whole_run(tmp_path: Path) -> None:
    run = summary(whole_run(tmp_path / "run.jsonl"))
    assert (run.run_id, run.status, run.starts, run.toolcast_version) == ("run", "completed", 1, "0.1.0")
    assert run.model_name == "local:smollm2" and run.config["cycle_count"] == 3
    assert (run.started, run.last) == ("2026-09-21T14:13:20.000000Z", "2026-09-21T14:13:33.750000Z")
    assert (run.lines, run.ended_cycles, run.begun_again, run.errors) == (21, 3, (), ())
    assert [cycle.reflection for cycle in run.cycles] == [*REFLECTIONS]
    first, second, third = run.cycles
    assert (first.steps, first.tool_calls, first.input_tokens, first.output_tokens) == (2, 2, 390, 85)
    assert (first.seconds, first.model_seconds, first.tool_seconds) == (5.0, 4.0, 0.5)
    assert first.tools == {"write": ToolUse(1, 0, 0.25), "read": ToolUse(1, 1, 0.25)}
    assert first.memory_ops == {"write": 1, "read": 1, "list": 0, "delete": 0, "pattern_search": 0}
    assert (first.memory_write_chars, first.response_chars) == (7, len(REFLECTIONS[0]))
    assert [cycle.memory_keys for cycle in run.cycles] == [1, 2, 2]
    assert (first.similarity, first.similar_to, first.advisory) == (None, None, None)
    assert (second.similarity, second.similar_to, second.advisory) == (0.6833, 1, None)
    assert (third.similarity, third.advisory, third.ended_by) == (0.85, "high", "reflection")
    assert [*run.tools] == ["write", "read", "delete", "list"]
    assert run.tools["read"] == ToolUse(2, 2, 0.5)
    assert run.total(lambda cycle: cycle.input_tokens) == 390 + 430 + 470


def test_it_agrees_with_what_the_runner_logs(tmp_path: Path) -> None:
    settings = {"run_id": "real", "model_name": "scripted", "cycle_count": 2, "model_options": {}, "operator": "none"}
    folders = {"log_folder": tmp_path / "logs", "data_folder": tmp_path / "data", "similarity": {"embedder": "words"}}
    calls = [
        ToolCallPart("a", "write", '{"key": "k", "value": "five5"}'),
        ToolCallPart("b", "read", '{"key": "other"}'),
        ToolCallPart("c", "send_message_to_operator", '{"message": "Hello?"}'),
    ]
    llm = ScriptedLLM([calls[0], calls[1]], "The sea.", [calls[2]], "The sea.")
    config = ExperimentConfig.model_validate(settings | folders)
    ExperimentRunner(config, llm=llm).run()
    logged = [event for event in read_log(config.log_path) if event.event_type == "CYCLE_END"]
    run = summary(config.log_path)
    assert (run.status, run.model_name, run.errors) == ("completed", "scripted", ())
    for cycle, event in zip(run.cycles, logged, strict=True):
        metrics = event.payload["metrics"]
        assert sum(cycle.memory_ops.values()) == metrics["memory_ops_total"]
        assert cycle.messages_to_operator == metrics["messages_to_operator"]
        assert (cycle.memory_write_chars, cycle.response_chars) == (
            metrics["memory_write_chars"],
            metrics["response_chars"],
        )
        assert (cycle.steps, cycle.tool_calls) == (event.measures["steps"], event.measures["tool_calls"])
        assert (cycle.input_tokens, cycle.seconds) == (event.measures["input_tokens"], event.measures["seconds"])
        assert cycle.model_seconds is not None and cycle.memory_keys == 1
    second = run.cycles[1]
    assert (second.similarity, second.similar_to, second.advisory, second.ended_by) == (1.0, 1, "high", "reflection")
    assert run.tools["read"].errors == 1 and run.tools["write"].errors == 0


def test_a_message_to_the_operator_is_counted(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "run.jsonl").start().begin().call("send_message_to_operator", "Go on.", message="Hm?")
    (cycle,) = summary(log.finish(None)).cycles
    assert cycle.messages_to_operator == 1 and sum(cycle.memory_ops.values()) == 0
    assert CycleSummary(1).messages_to_operator == 0


def test_a_run_that_is_going_on(tmp_path: Path) -> None:
    run = summary(
        LogWriter(tmp_path / "run.jsonl").start().begin().answer("Let me", (90, 7), 3.0).write("a").finish(None)
    )
    assert (run.status, run.ended_cycles) == (UNFINISHED, 0)
    (cycle,) = run.cycles
    assert not cycle.ended and cycle.reflection is None and cycle.ended_by is None
    assert (cycle.steps, cycle.input_tokens, cycle.response_chars, cycle.seconds) == (1, 90, 6, 3.25)


def test_a_resumed_run(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    LogWriter(path).start().begin().answer("", (100, 20)).write("a").finish(None)
    log = LogWriter(path, time=2e9, cycle=1).start({"cycle_count": 5}, resumed=True)
    run = summary(log.answer("Done", (110, 30)).end("Done", seconds=4.5, input_tokens=210, output_tokens=50).finish())
    assert (run.starts, run.status, run.config["cycle_count"], run.begun_again) == (2, "completed", 5, ())
    (cycle,) = run.cycles
    assert (cycle.steps, cycle.input_tokens, cycle.output_tokens) == (2, 210, 50)
    assert cycle.seconds == 4.5  # and not the years between


def test_a_run_that_was_begun_twice_counts_once(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "run.jsonl").start().begin().answer("One").write("a").end("One")
    log.cycle = 0
    run = summary(log.start().begin().answer("Other").end("Other").finish("stopped"))
    assert (run.starts, run.begun_again, run.status) == (2, (1,), "stopped")
    (cycle,) = run.cycles
    assert (cycle.reflection, cycle.tool_calls, cycle.memory_keys) == ("Other", 0, 1)


def test_a_resumed_run_is_unfinished_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    whole_run(path)
    assert summary(LogWriter(path, time=2e9, cycle=3).start(resumed=True).finish(None)).status == UNFINISHED


def test_a_log_of_the_published_program(tmp_path: Path) -> None:
    run = summary(published_log(tmp_path / "old.jsonl"))
    assert (run.run_id, run.status, run.starts, run.model_name, run.toolcast_version) == ("old", None, 0, None, None)
    first, _ = run.cycles
    assert (first.seconds, first.model_seconds, first.tool_seconds) == (10.0, None, None)
    assert (first.input_tokens, first.output_tokens, first.similarity, first.ended_by) == (None, None, None, None)
    assert (first.steps, first.response_chars, first.memory_write_chars, first.memory_keys) == (2, 41, 5, 1)
    assert run.total(lambda cycle: cycle.input_tokens) is None
    assert run.tools["write"].seconds is None


def test_errors_stand_with_their_cycle(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "run.jsonl").start().begin().error("too slow").error("a limit", "limit").end("")
    log.cycle = 0
    run = summary(log.error("no embedder", "embedder").finish("failed"))
    assert run.status == "failed" and [error.kind for error in run.errors] == ["llm", "limit", "embedder"]
    assert run.errors[0] == RunError(1, run.started, "llm", "invoke_llm", "Timeout", "too slow")
    assert run.failures == 2 and run.cycles[0].errors == 1  # a limit is no failure
    assert run.cycles[0].reflection == "" and run.cycles[0].ended


def test_keys_that_were_not_written_or_deleted_do_not_count(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "run.jsonl").start().begin().write("a").write("b")
    log.call("write", "Error: the memory is full", key="c", value="x").call(
        "delete", "Error: Key 'd' not found", key="d"
    )
    log.call("write", "Updated key 'a' with new value", key="a", value="yy").call("delete", "Deleted key 'b'", key="b")
    (cycle,) = summary(log.finish(None)).cycles
    assert (cycle.memory_keys, cycle.memory_write_chars) == (1, 1 + 1 + 1 + 2)
    assert cycle.tools["write"].errors == 1 and cycle.tools["delete"].errors == 1


@pytest.mark.parametrize("value", [True, None, "many", float("nan"), float("inf"), 10**400, [], {}])
def test_what_is_no_number_was_not_logged(value: Any) -> None:
    measures = {"seconds": value, "input_tokens": value, "output_tokens": value, "similarity": value, "steps": value}
    run = summary_of(
        [
            LogEvent("CYCLE_START", 1, {}, timestamp="soon"),
            LogEvent("LLM_INVOCATION", 1, {"response_message": value}, measures),
            LogEvent("TOOL_CALL", 1, {"parameters": value}, measures),
            LogEvent("CYCLE_END", 1, {"metrics": value}, measures),
        ]
    )
    (cycle,) = run.cycles
    assert (cycle.seconds, cycle.model_seconds, cycle.tool_seconds, cycle.similarity) == (None, None, None, None)
    assert (cycle.input_tokens, cycle.output_tokens, cycle.steps, cycle.tools) == (None, None, 1, {"": ToolUse(1)})
    assert cycle.reflection == ""


def test_nothing_is_a_run_too() -> None:
    run = summary_of([])
    assert (run.run_id, run.status, run.cycles, run.lines, run.started) == ("", None, (), 0, "")


def test_a_line_that_no_one_knows_is_a_line() -> None:
    event = LogEvent("REST", 3, {"x": 1}, run_id="r", timestamp="t")  # type: ignore[arg-type]  # a later version's
    run = summary_of([event])
    assert (run.lines, run.cycles, run.run_id, run.last) == (1, (), "r", "t")


def test_times_that_cannot_be_compared_are_none() -> None:
    start, end = LogEvent("CYCLE_START", 1, {}, timestamp="2025-01-01T00:00:00"), "2025-01-01T00:00:09Z"
    assert summary_of([start, LogEvent("CYCLE_END", 1, {}, timestamp=end)]).cycles[0].seconds is None
    assert moment("yesterday") is None and moment("2025-01-01T00:00:00Z") is not None


def test_a_clock_that_goes_back_makes_no_negative_time() -> None:
    times = ("2025-01-01T00:00:09Z", "2025-01-01T00:00:01Z")
    kinds = ("CYCLE_START", "CYCLE_END")
    run = summary_of(LogEvent(kind, 1, {}, timestamp=time) for kind, time in zip(kinds, times, strict=True))
    assert run.cycles[0].seconds == 0


ODD = st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=4) | st.just({"content": "x"})
NAMES = (
    "config tool_name parameters output final_reflection metrics response_message seconds input_tokens steps "
    "similarity similar_to advisory status kind message"
)
PARTS = st.dictionaries(st.sampled_from(NAMES.split()), ODD, max_size=6)
KINDS = st.sampled_from(
    ["RUN_START", "CYCLE_START", "LLM_INVOCATION", "TOOL_CALL", "CYCLE_END", "ERROR", "RUN_END", "?"]
)
EVENTS = st.lists(st.builds(LogEvent, KINDS, st.integers(0, 4), PARTS, PARTS, st.text(max_size=3), st.text(max_size=3)))


@given(EVENTS, st.integers(0, 10))
def test_any_lines_in_any_order_are_taken(events: list[LogEvent], cut: int) -> None:
    fold = RunSummaryBuilder()
    for event in events[:cut]:
        fold.apply(event)
    fold.summary()  # may be asked for at any time
    for event in events[cut:]:
        fold.apply(event)
    run = fold.summary()
    assert repr(run) == repr(summary_of(events))  # repr: a NaN is no equal of itself
    assert run.lines == len(events) and run.ended_cycles <= len(run.cycles)
    assert [cycle.number for cycle in run.cycles] == sorted({cycle.number for cycle in run.cycles})
    assert sum(use.calls for use in run.tools.values()) == sum(cycle.tool_calls for cycle in run.cycles)
