"""The activity of a turn, from its events."""

from __future__ import annotations

from typing import Any

import pytest

from toolcast.agents.subagents.elf_run import ElfEvent
from toolcast.apps.repl.activity import TurnActivity
from toolcast.events import (
    AgentEvent,
    ErrorEvent,
    Finish,
    Restarted,
    ServerToolUse,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    ToolProgress,
    ToolResult,
    ToolStarted,
    UsageReport,
)
from toolcast.values.usage import Usage


class Clock:
    """A clock that is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


CALL = ToolCallDone("1", "read_file", '{"path": "a.py"}')
SEARCH = ServerToolUse("web_search", "s", {"query": "x"})
RUNNING = (CALL, ToolStarted("1", "read_file"))


@pytest.mark.parametrize(
    ("events", "label"),
    [
        ((), "Waiting for m"),
        ((ThinkingDelta("Hm"),), "Thinking"),
        ((ThinkingDelta("Hm"), TextDelta("So")), "Answering"),
        ((ToolCallStart("1", "read_file"), ToolCallDelta("1", "{")), "Preparing read_file"),
        (RUNNING, "Running read_file a.py"),
        ((ToolStarted("1", "read_file"),), "Running read_file"),  # the call of an earlier process
        ((*RUNNING, ToolProgress("1", "read_file", "half")), "Running read_file a.py"),
        ((*RUNNING, ToolStarted("2", "write_file")), "Running 2 tools"),
        ((*RUNNING, ToolResult("1", "read_file", "x")), "Waiting for m"),
        ((TextDelta("So"), Finish("end_turn")), "Waiting for m"),
        ((TextDelta("So"), Restarted(1, "timeout")), "Sending the request again"),
        ((SEARCH,), "Running web_search"),
        ((SEARCH, ServerToolUse("web_search", "s", output="y")), "Waiting for m"),
    ],
)  # fmt: skip
def test_labels(events: tuple[AgentEvent, ...], label: str) -> None:
    activity = TurnActivity("Waiting for m")
    for event in events:
        activity.observe(event)
    assert activity.label == label


def test_tokens_are_estimated_until_they_are_reported() -> None:
    activity = TurnActivity()
    activity.observe(ThinkingDelta("x" * 40))
    activity.observe(TextDelta("x" * 40))
    activity.observe(ToolCallDelta("1", "x" * 4))
    assert activity.tokens == 21
    activity.observe(UsageReport(Usage(100, 25)))
    assert activity.tokens == 25
    activity.observe(Finish("tool_use"))
    activity.observe(TextDelta("x" * 40))
    assert activity.tokens == 35
    activity.observe(Restarted(1, "timeout"))
    assert activity.tokens == 25


def test_the_time_of_a_question_does_not_count() -> None:
    clock = Clock()
    activity = TurnActivity(clock=clock)
    clock.now += 5
    with activity.paused():
        clock.now += 60
    clock.now += 2.5
    assert activity.seconds == 7


def elf(id: str, event: AgentEvent, task: str = "") -> ToolProgress:
    return ToolProgress("1", "spawn_elves", ElfEvent(id, event, task))


def described(activity: TurnActivity) -> list[tuple[Any, ...]]:
    return [(id, each.task, each.depth, each.outcome or each.label, each.seconds) for id, each in activity.agents]


def test_sub_agents_have_activities_of_their_own_until_the_result() -> None:
    clock = Clock()
    activity = TurnActivity(clock=clock)
    activity.observe(elf("elf-1", TextDelta("So"), "Review a.py"))
    clock.now += 2
    activity.observe(elf("elf-2", ToolStarted("9", "read_file"), "Review b.py"))
    clock.now += 3
    activity.observe(elf("elf-1", Finish("end_turn")))
    clock.now += 4
    assert described(activity) == [
        ("elf-1", "Review a.py", 1, "completed", 5),
        ("elf-2", "Review b.py", 1, "Running read_file", 7),
    ]
    activity.observe(elf("elf-1", TextDelta("More")))
    activity.observe(elf("elf-2", ErrorEvent(ValueError("x"))))
    assert described(activity) == [
        ("elf-1", "Review a.py", 1, "Answering", 9),
        ("elf-2", "Review b.py", 1, "failed", 7),
    ]
    activity.observe(ToolResult("1", "spawn_elves", "done"))
    assert described(activity) == []


def test_the_sub_agents_of_a_sub_agent_come_after_it() -> None:
    activity = TurnActivity()
    nested = ToolProgress("5", "agent", ElfEvent("elf-2", TextDelta("x"), "a part"))
    activity.observe(elf("elf-10", TextDelta("x"), "other"))
    activity.observe(elf("elf-9", nested, "all"))
    assert [(id, each.depth) for id, each in activity.agents] == [("elf-9", 1), ("elf-2", 2), ("elf-10", 1)]
