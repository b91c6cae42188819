"""experiments/pei/run_history.py: one sound history out of a log, nothing twice and nothing lost."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from support.experiments import call as called, config_in
from support.pei_logs import Line, asked, call, chat_message, line, plain_cycle, ran, tool_cycle, written
from toolcast import Message, ToolCallPart
from toolcast.agents.engine.history import find_problems
from toolcast.experiments.log_reading import LogError
from toolcast.experiments.pei.run_history import CYCLES, NO_RESULT, history_of
from toolcast.experiments.runner import ExperimentRunner
from toolcast.messages import ToolResultPart
from toolcast.testing import ScriptedLLM

Parts = list[tuple[Any, ...]]


def parts_of(history: tuple[Message, ...]) -> Parts:
    """A history in short: roles and texts, calls by name and arguments, results by their tool and text."""
    assert find_problems(history) == []
    found: Parts = []
    for message in history:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                found.append(("calls", part.name, json.loads(part.arguments)))
            elif isinstance(part, ToolResultPart):
                found.append(("result", part.name, part.content))
            else:
                found.append((message.role, getattr(part, "text", "")))
    return found


WRITES = ("calls", "write", {"key": "k", "value": "v"})


def test_cycles_follow_each_other_under_the_last_system_message(tmp_path: Path) -> None:
    log = written(tmp_path, *plain_cycle(1), *tool_cycle(2, "ok"))
    assert parts_of(history_of(log)) == [
        ("system", "System of cycle 2"),
        ("user", "Begin cycle 1."),
        ("assistant", "Reflection 1"),
        ("user", "Begin cycle 2."),
        WRITES,
        ("result", "write", "ok"),
        ("assistant", "Reflection 2"),
    ]


def test_x12_repeated_equal_tool_results_are_kept(tmp_path: Path) -> None:
    log = written(tmp_path, *tool_cycle(1, "ok", "ok"), *tool_cycle(2, "ok", "ok"))
    assert parts_of(history_of(log)) == [
        ("system", "System of cycle 2"),
        *(
            part
            for cycle in (1, 2)
            for part in [
                ("user", f"Begin cycle {cycle}."),
                *[WRITES, ("result", "write", "ok")] * 2,
                ("assistant", f"Reflection {cycle}"),
            ]
        ),
    ]


def test_x12_cycles_after_the_tenth_are_ignored(tmp_path: Path) -> None:
    log = written(tmp_path, *(each for cycle in range(1, CYCLES + 3) for each in plain_cycle(cycle)))
    texts = [message.text for message in history_of(log)]
    assert texts[0] == "System of cycle 10"
    assert texts[-1] == "Reflection 10"
    assert len(texts) == 1 + 2 * CYCLES


def test_the_lines_of_a_cycle_may_stand_anywhere(tmp_path: Path) -> None:
    log = written(tmp_path, *plain_cycle(2), *plain_cycle(1))
    assert [message.text for message in history_of(log)][::2] == ["System of cycle 2", "Reflection 1", "Reflection 2"]


def test_a_run_that_was_repeated_counts_as_it_was_last(tmp_path: Path) -> None:
    log = written(tmp_path, *plain_cycle(1, "old"), *plain_cycle(1, "new"))
    assert [message.text for message in history_of(log)][1:] == ["Begin cycle 1.", "new"]


def test_an_advisory_in_a_message_of_its_own_is_kept(tmp_path: Path) -> None:
    prompt = [
        chat_message("system", "You are."),
        chat_message("user", "Begin."),
        chat_message("system", "Advisory: high similarity"),
    ]
    log = written(tmp_path, asked(1, prompt, chat_message("assistant", "Hm.")))
    assert parts_of(history_of(log)) == [
        ("system", "You are.\n\nAdvisory: high similarity"),
        ("user", "Begin."),
        ("assistant", "Hm."),
    ]


def test_a_run_without_a_system_message_has_none(tmp_path: Path) -> None:
    log = written(tmp_path, asked(1, [chat_message("user", "Begin.")], chat_message("assistant", "Hm.")))
    assert [message.role for message in history_of(log)] == ["user", "assistant"]


def test_ids_are_unique_over_the_whole_history(tmp_path: Path) -> None:
    log = written(tmp_path, *tool_cycle(1, "a", "b"), *tool_cycle(2, "c"))
    calls = [call for message in history_of(log) for call in message.tool_calls]
    assert [call.id for call in calls] == ["c1_1", "c1_2", "c2_1"]


def two_calls(*results: Line) -> list[Line]:
    calls = [call("read", "x", key="a"), call("list", "y")]
    prompt = [chat_message("user", "Begin."), chat_message("assistant", "", tool_calls=calls), *results]
    return [asked(1, prompt, chat_message("assistant", "Done."))]


@pytest.mark.parametrize(
    "results",
    [
        [chat_message("tool", "A", tool_call_id="x"), chat_message("tool", "B", tool_call_id="y")],
        [chat_message("tool", "B", tool_call_id="y"), chat_message("tool", "A", tool_call_id="x")],
        [chat_message("tool", "A", tool_call_id="x"), chat_message("tool", "B")],
        [chat_message("tool", "A"), chat_message("tool", "B")],
        [chat_message("tool", "A", tool_call_id=None), chat_message("tool", "B", tool_call_id="another")],
        [chat_message("tool", "B", tool_name="list"), chat_message("tool", "A", tool_name="read")],
    ],
)
def test_results_find_their_calls(tmp_path: Path, results: list[Line]) -> None:
    history = history_of(written(tmp_path, *two_calls(*results)))
    assert parts_of(history)[1:5] == [
        ("calls", "read", {"key": "a"}),
        ("calls", "list", {}),
        ("result", "read", "A"),
        ("result", "list", "B"),
    ]


def test_a_call_without_a_result_gets_one_and_a_result_without_a_call_goes(tmp_path: Path) -> None:
    lines = two_calls(chat_message("tool", "A", tool_call_id="x"))
    history = history_of(written(tmp_path, *lines))
    assert parts_of(history)[3:5] == [("result", "read", "A"), ("result", "list", NO_RESULT)]
    alone = asked(
        1,
        [chat_message("user", "Begin."), chat_message("tool", "whose?", tool_call_id="x")],
        chat_message("assistant", "Hm."),
    )
    assert parts_of(history_of(written(tmp_path, alone))) == [("user", "Begin."), ("assistant", "Hm.")]


def test_a_cycle_that_ended_at_a_limit_has_the_results_that_came_last(tmp_path: Path) -> None:
    calls = [call("read", "1", key="a"), call("write", "2", key="b", value="c"), call("read", "3", key="d")]
    log = written(
        tmp_path,
        ran(1, "write", "of no request"),
        asked(1, [chat_message("user", "Begin.")], chat_message("assistant", "", tool_calls=calls)),
        ran(1, "write", {"not": "text"}, key="b", value="c"),
        ran(1, "read", "A", key="a"),
        line("ERROR", 1, {"kind": "limit"}),
        *plain_cycle(2),
    )
    assert parts_of(history_of(log))[5:8] == [
        ("result", "read", "A"),
        ("result", "write", '{"not": "text"}'),
        ("result", "read", NO_RESULT),
    ]


def test_arguments_that_are_no_object_become_one(tmp_path: Path) -> None:
    broken = {"id": "1", "function": {"name": "write", "arguments": '{"key": "k'}}
    log = written(
        tmp_path, asked(1, [chat_message("user", "Begin.")], chat_message("assistant", "", tool_calls=[broken]))
    )
    assert ("result", "write", NO_RESULT) in parts_of(history_of(log))


def test_what_has_no_text_is_left_out(tmp_path: Path) -> None:
    lines = [*plain_cycle(1), asked(2, [chat_message("user", "  ")], chat_message("assistant", "", thinking="hm"))]
    assert [message.text for message in history_of(written(tmp_path, *lines))] == ["Begin cycle 1.", "Reflection 1"]


def test_logs_of_the_published_format_begin_with_the_model(tmp_path: Path) -> None:
    def cycle(number: int) -> list[Line]:
        system = chat_message("system", f"System {number}")
        first = chat_message("assistant", "", tool_calls=[call("list")])
        rest = [system, first, chat_message("tool", "a, b", tool_call_id=None)]
        return [asked(number, [system], first), asked(number, rest, chat_message("assistant", "The same."))]

    turn = [("calls", "list", {}), ("result", "list", "a, b"), ("assistant", "The same.")]
    assert parts_of(history_of(written(tmp_path, *cycle(1), *cycle(2)))) == [("system", "System 2"), *turn, *turn]


def test_equal_reflections_without_anything_between_them_are_kept(tmp_path: Path) -> None:
    lines = [asked(cycle, [chat_message("system", "S")], chat_message("assistant", "The same.")) for cycle in (1, 2, 3)]
    assert [message.text for message in history_of(written(tmp_path, *lines))] == ["S", *["The same."] * 3]


def real_run(folder: Path, **changes: Any) -> tuple[Path, ScriptedLLM]:
    """A run of three cycles by the runner itself: calls, a limit, an empty reflection."""
    llm = ScriptedLLM(
        [called("write", key="k", value="v"), called("read", key="k")],
        "First reflection.",
        called("list"),
        called("list"),
        "   ",
    )
    config = config_in(folder, limits={"max_steps": 2}, **changes)
    ExperimentRunner(config, llm=llm).run()
    return config.log_path, llm


REAL = [
    [
        ("user", "Begin cycle 1."),
        WRITES,
        ("calls", "read", {"key": "k"}),
        ("result", "write", "Wrote value to key 'k'"),
        ("result", "read", "v"),
        ("assistant", "First reflection."),
    ],
    [("user", "Begin cycle 2."), *[("calls", "list", {}), ("result", "list", "k")] * 2],
    [("user", "Begin cycle 3.")],
]


@pytest.mark.parametrize("history", ["reset", "full"])
def test_the_history_of_a_real_run_is_the_same_whether_it_was_carried_along(tmp_path: Path, history: str) -> None:
    log, llm = real_run(tmp_path, history=history)
    assert len(llm.requests[-1].messages) == (2 if history == "reset" else 12)
    system, *rest = parts_of(history_of(log))
    assert "First reflection." in system[1]
    assert rest == [part for cycle in REAL for part in cycle]


def test_a_history_that_is_carried_along_differently_is_complete(tmp_path: Path) -> None:
    lines = [*plain_cycle(1), asked(2, [chat_message("user", "Another beginning.")], chat_message("assistant", "Hm."))]
    texts = [message.text for message in history_of(written(tmp_path, *lines))]
    assert texts == ["Begin cycle 1.", "Reflection 1", "Another beginning.", "Hm."]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda payload: payload.pop("prompt_messages"),
        lambda payload: payload.pop("response_message"),
        lambda payload: payload.update(prompt_messages=None),
        lambda payload: payload.update(prompt_messages=["text"]),
        lambda payload: payload.update(response_message={"role": "unknown"}),
        lambda payload: payload.update(response_message={"role": "assistant", "tool_calls": ["x"]}),
        lambda payload: payload.update(response_message={"role": "assistant", "parts": [{"type": "x"}]}),
        lambda payload: payload.update(prompt_messages=[{"parts": []}]),
    ],
)
def test_a_request_that_is_none_is_an_error_that_names_the_cycle(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], object]
) -> None:
    lines = plain_cycle(3)
    spoil(lines[1]["payload"])
    log = written(tmp_path, *plain_cycle(1), *lines)
    with pytest.raises(LogError, match=r"first\.jsonl: what cycle 3 says last cannot be read") as caught:
        history_of(log)
    assert caught.value.path == log


def test_a_log_without_an_answer_is_an_error(tmp_path: Path) -> None:
    log = written(tmp_path, line("CYCLE_START", 1, {}), *plain_cycle(11))
    with pytest.raises(LogError, match="no answer of the model in cycles 1 to 10"):
        history_of(log)


def test_a_long_log_takes_no_more_memory_than_its_first_cycles(tmp_path: Path) -> None:
    lines = [each for cycle in range(1, 2_001) for each in plain_cycle(cycle % 20 + 1, "word " * 400)]
    log = written(tmp_path, *lines)
    del lines
    tracemalloc.start()
    try:
        history_of(log)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert log.stat().st_size > 8_000_000
    assert peak < 2_000_000


ANYTHING = st.text(alphabet="ab \n", max_size=3)
CALLS = st.lists(st.builds(call, st.sampled_from(["read", "list"]), st.sampled_from([None, "", "1", "2"])), max_size=3)
MESSAGES = st.one_of(
    st.builds(chat_message, st.sampled_from(["system", "user", "assistant"]), ANYTHING),
    st.builds(lambda text, calls: chat_message("assistant", text, tool_calls=calls), ANYTHING, CALLS),
    st.builds(
        lambda text, id: chat_message("tool", text, tool_call_id=id),
        ANYTHING,
        st.sampled_from([None, "", "1", "2", "3"]),
    ),
)
LINES = st.one_of(
    st.builds(asked, st.integers(1, 12), st.lists(MESSAGES, max_size=6), MESSAGES),
    st.builds(ran, st.integers(1, 12), st.sampled_from(["read", "list"]), ANYTHING),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(lines=st.lists(LINES, max_size=12))
def test_every_history_is_sound(tmp_path: Path, lines: list[Line]) -> None:
    log = written(tmp_path, asked(1, [chat_message("user", "Begin.")], chat_message("assistant", "Hm.")), *lines)
    history = history_of(log)
    assert find_problems(history) == []
    assert [message.role for message in history].count("system") <= 1
