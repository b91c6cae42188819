"""run_screen.py: what is shown of runs fits every width, and is escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.run_logs import BEGINNING
from toolcast.apps.experiment.run_screen import (
    Line,
    clock,
    cycle_text,
    encodable,
    grid_lines,
    grid_view,
    plain,
    run_lines,
    run_view,
)
from toolcast.apps.output import display_width
from toolcast.experiments.log_events import EventType, LogEvent
from toolcast.experiments.run_progress import RunProgress

WIDTHS = [1, 5, 12, 20, 33, 40, 59, 60, 80, 120, 200]
NOW = BEGINNING + 192


def event(event_type: EventType, at: float, cycle: int = 1, measures: Any = None, **payload: Any) -> LogEvent:
    stamp = datetime.fromtimestamp(BEGINNING + at, UTC).isoformat()
    return LogEvent(event_type, cycle, payload, measures or {}, "", stamp)


def running(
    run_id: str = "sea", reflection: str = "I looked at the sea, and it was calm.", cycles: int = 4
) -> RunProgress:
    run = RunProgress(run_id, cycles)
    calls = [{"function": {"name": "pattern_search"}}]
    for each in (
        event("RUN_START", 0, 0, config={"model_name": "qwen3:8b"}, first_cycle=1),
        event("CYCLE_START", 0),
        event("LLM_INVOCATION", 1, measures={"seconds": 1.0, "input_tokens": 1204, "output_tokens": 34}),
        event("TOOL_CALL", 2, tool_name="write", output="Wrote value to key 'plan'", parameters={"key": "plan"}),
        event("ERROR", 2, kind="embedder", message="no\nembedder"),
        event(
            "CYCLE_END", 60, measures={"seconds": 60.0, "similarity": 0.834, "similar_to": 1, "advisory": "high"},
            final_reflection=reflection,
        ),
        event("CYCLE_START", 180, 2),
        event("LLM_INVOCATION", 180, 2, response_message={"tool_calls": calls}),
    ):  # fmt: skip
        run.apply(each)
    return run


def ended(run_id: str, status: str) -> RunProgress:
    run = running(run_id)
    run.apply(event("RUN_END", 190, 2, status=status))
    return run


def texts(lines: list[Line]) -> list[str]:
    return plain(lines).split("\n")


def test_one_run_in_detail() -> None:
    assert texts(run_view(running(), 60, NOW)) == [
        "sea · qwen3:8b                                       running",
        "Cycle       2/4  ━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌",
        "State       dispatch_tool: pattern_search · 0:00:12",
        "Time        0:03:12 elapsed · 0:02:48 left",
        "Tokens      34 tokens/s · 1,204 in · 34 out",
        "Tool calls  1 · write 1",
        "Memory      1 key: plan",
        "Similarity  0.83 to cycle 1 · advisory: high",
        "Errors      1: no embedder",
        "Reflection  cycle 1: I looked at the sea, and it was calm.",
    ]


def test_a_run_before_its_first_event() -> None:
    assert texts(run_view(RunProgress("sea"), 40, NOW))[:3] == [
        "sea                              waiting",
        "Cycle       0/?  ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌",
        "State       waiting",
    ]


def test_only_the_first_words_of_a_reflection_are_shown() -> None:
    lines = texts(run_view(running(reflection="word " * 5_000), 40, NOW))
    assert len(lines) == 12
    assert lines[-1].endswith(" …")


def test_a_long_silence_is_marked() -> None:
    state = [line for line in run_view(running(), 80, NOW + 100) if line[0][0].startswith("State")]
    assert state[0][1][1] == "yellow"


@pytest.mark.parametrize(
    ("status", "style"), [("completed", "green"), ("failed", "red"), ("interrupted", "yellow"), ("odd", "cyan")]
)
def test_the_end_of_a_run_has_its_colour(status: str, style: str) -> None:
    title, *rest = run_view(ended("sea", status), 80, NOW)
    assert title[-1] == (status, f"bold {style}")
    assert texts(rest)[1] == f"State       {status}"


GRID = [
    ended("sea-seed_1", "completed"),
    running("sea-seed_2"),
    ended("sea-seed_3", "failed"),
    RunProgress("sea-seed_4", 4),
]


def test_several_runs() -> None:
    lines = texts(grid_view(GRID, 100, 24, NOW))
    assert lines[0] == "4 runs · 1 running · 1 completed · 1 failed · 1 waiting"
    assert lines[1].startswith("Cycles 3/16 ━━━━━━━━╌") and lines[1].endswith(
        "  34 tokens/s  0:03:12 elapsed  0:06:48 left"
    )
    assert lines[2] == ""
    assert lines[3].split() == ["run", "cycle", "state", "tokens/s", "left", "tools", "keys", "similar", "reflection"]
    assert [line.split()[0] for line in lines[4:]] == ["seed_2", "seed_4", "seed_1", "seed_3"]
    assert lines[-1].endswith("no embedder")


def test_a_narrow_table_has_the_states() -> None:
    assert texts(grid_view(GRID, 40, 24, NOW))[2:] == [
        "34 tokens/s · 0:03:12 · 0:06:48 left",
        "",
        "run     cycle  state",
        "seed_2  2/4    pattern_search()",
        "seed_4  0/4    waiting",
        "seed_1  2/4    completed",
        "seed_3  2/4    failed",
    ]


def test_a_row_for_each_that_fits_the_height() -> None:
    lines = texts(grid_view([running(f"sea-{number}") for number in range(50)], 80, 14, NOW))
    assert len(lines) == 14
    assert lines[-1] == "and 41 more"


def test_the_rows_below_a_running_grid_are_those_that_go_on() -> None:
    lines = texts(grid_lines(GRID, 100, 24, NOW))
    assert [line.split()[0] for line in lines] == ["4", "Cycles", "run", "seed_2"]
    assert len(grid_lines(GRID[2:], 100, 24, NOW)) == 2


def test_a_grid_of_which_the_cycles_are_not_known() -> None:
    lines = texts(grid_view([RunProgress("a"), RunProgress("b", 3)], 80, 24, NOW))
    assert lines[1].startswith("Cycles 0/? ╌")


def test_a_cycle_as_one_line() -> None:
    assert cycle_text(running(), NOW) == "1 tool call, 1,238 tokens, 34 tokens/s, 0:03:12 elapsed, 0:02:48 left"


def test_slow_rates_have_a_digit() -> None:
    run = RunProgress("slow", 4)
    run.apply(event("LLM_INVOCATION", 1, measures={"seconds": 10.0, "output_tokens": 25}))
    assert cycle_text(run, NOW).startswith("0 tool calls, 25 tokens, 2.5 tokens/s")
    assert "2.5 tokens/s" in plain(run_view(run, 80, NOW))
    assert "  2.5" in plain(grid_view([run, run], 80, 24, NOW))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", None, "no such encoding"])
def test_a_terminal_that_is_not_utf_8(encoding: str | None) -> None:
    lines = encodable(run_view(running(), 60, NOW), encoding)
    assert texts([*lines])[1].startswith("Cycle       2/4  ##########-----")
    assert plain(lines).isascii()


def test_a_terminal_that_is_utf_8() -> None:
    lines = run_view(running(), 60, NOW)
    assert encodable(lines, "utf-8") is lines


def test_a_duration_as_a_clock() -> None:
    assert [clock(each) for each in (0, 59.6, 3_599.4, 360_000)] == ["0:00:00", "0:01:00", "0:59:59", "100:00:00"]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_width(width: int) -> None:
    runs = [*GRID, running("海" * 40 + "-seed", "海を見た。" * 50)]
    for lines in (
        run_lines(runs[-1], width, NOW),
        run_view(runs[-1], width, NOW),
        grid_lines(runs, width, 10, NOW),
        grid_view(runs, width, 10, NOW),
    ):
        widest = max(map(display_width, texts(lines)))
        assert widest <= max(width, 20), texts(lines)


@given(st.text(max_size=40), st.integers(20, 130))
def test_text_of_a_model_is_escaped_and_fits(text: str, width: int) -> None:
    run = running(reflection=text)
    run.tools[text] += 1
    run.memory_keys.add(text)
    run.tool = run.model_name = run.last_error = run.advisory = text
    for lines in (run_view(run, width, NOW), grid_view([run, run], width, 24, NOW), run_lines(run, width, NOW)):
        for line in texts(lines):
            assert all(each.isprintable() or each == " " or not each.isascii() for each in line)
            assert "\x1b" not in line and "\x9b" not in line
