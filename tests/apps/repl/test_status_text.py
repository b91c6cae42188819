"""Texts of one row that fit the width of the terminal."""

from __future__ import annotations

from decimal import Decimal

import pytest
from rich.cells import cell_len

from toolcast.agents.subagents.elf_run import ElfEvent
from toolcast.apps.repl.activity import TurnActivity
from toolcast.apps.repl.rich_screen import (
    activity_text,
    agent_text,
    duration,
    fit_parts,
    short_count,
    shorten_cells,
    status_text,
)
from toolcast.apps.repl.screen import ConversationStatus
from toolcast.events import AgentEvent, ErrorEvent, Finish, TextDelta, ThinkingDelta, ToolProgress, ToolStarted

FULL = ConversationStatus("gpt-5.4", "build", 12.4, 400_000, 15_230, Decimal("0.0312"))


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (80, "gpt-5.4 · mode build · 12 % of 400k context · $0.0312 · 15.2k tokens"),
        (60, "gpt-5.4 · mode build · 12 % of 400k context · $0.0312"),
        (50, "gpt-5.4 · mode build · 12 % context · $0.0312"),
        (40, "gpt-5.4 · mode build · 12 % context"),
        (30, "gpt-5.4 · mode build"),
        (18, "gpt-5.4"),
        (5, "gpt-…"),
    ],
)
def test_the_status_fits_by_leaving_parts_out(columns: int, text: str) -> None:
    assert status_text(FULL, columns) == text


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (ConversationStatus("m", "auto"), "m · mode auto"),
        (ConversationStatus("m", "auto", None, None, 900, Decimal(0)), "m · mode auto · 900 tokens"),
        (ConversationStatus("m", "auto", 0.4, 4096), "m · mode auto · 0 % of 4.1k context"),
        (ConversationStatus("m", "auto", None, None, 5, Decimal("1.5"), True), "m · mode auto · ≥ $1.50 · 5 tokens"),
        (ConversationStatus("m\u200b", "auto"), "m\\u200b · mode auto"),
    ],
)
def test_what_is_unknown_is_left_out_of_the_status(status: ConversationStatus, text: str) -> None:
    assert status_text(status, 80) == text


def test_a_long_model_name_is_shortened_before_the_mode_is_left_out() -> None:
    status = ConversationStatus("accounts/fireworks/models/llama-v3p1-405b-instruct", "plan", 3, 128_000)
    assert status_text(status, 40) == "accounts/fire… · mode plan · 3 % context"


@pytest.mark.parametrize("columns", range(1, 90))
def test_nothing_is_wider_than_the_terminal(columns: int) -> None:
    activity = activity_of(ToolStarted("1", "日本語のツール" * 5), TextDelta("x" * 9000))
    assert cell_len(activity_text(activity, columns)) <= columns
    assert cell_len(status_text(FULL, columns)) <= columns
    assert cell_len(agent_text("elf-1", activity, "*", columns)) <= max(columns, 1)


def activity_of(*events: AgentEvent, task: str = "") -> TurnActivity:
    activity = TurnActivity("Waiting for gpt-5.4", task=task, depth=int(bool(task)), clock=lambda: 0.0)
    for event in events:
        activity.observe(event)
    return activity


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (80, "Running make\\u200b all · 0 s · 1k tokens · Ctrl-C to stop"),
        (50, "Running make\\u… · 0 s · 1k tokens · Ctrl-C to stop"),
        (45, "Running make\\u200b all · 0 s · Ctrl-C to stop"),
        (40, "Running make\\u20… · 0 s · Ctrl-C to stop"),
        (25, "Running make\\u200b… · 0 s"),
        (15, "Running make\\u…"),
    ],
)
def test_the_activity_keeps_the_hint_longer_than_the_tokens(columns: int, text: str) -> None:
    activity = activity_of(ThinkingDelta("x" * 4000), ToolStarted("1", "make\u200b\n all"))
    assert activity_text(activity, columns) == text


def test_a_sub_agent_has_a_sign_its_task_and_its_activity() -> None:
    agent = activity_of(ToolStarted("1", "read_file"), task="Review the parser\nand the lexer")
    assert (
        agent_text("elf-1", agent, "*", 100) == "    * elf-1 Review the parser and the lexer · Running read_file · 0 s"
    )
    assert agent_text("elf-1", agent, "*", 40) == "    * elf-1 Revie… · Running read… · 0 s"
    assert agent_text("elf-1", agent, "*", 19) == "    * elf-1 R…"
    agent.observe(TextDelta("x" * 40))
    assert agent_text("e", activity_of(TextDelta("x"), task="x"), "*", 23) == "    * e x · Answeri…"
    agent.observe(Finish("end_turn"))
    assert agent_text("elf-1", agent, "*", 100).endswith(
        "✓ elf-1 Review the parser and the lexer · completed · 0 s · 10 tokens"
    )
    agent.observe(ErrorEvent(ValueError("x")))
    assert "✗ elf-1" in agent_text("elf-1", agent, "*", 100)
    nested = activity_of(ToolProgress("1", "agent", ElfEvent("elf-2", TextDelta("x"), "a part")), task="all")
    assert [agent_text(id, each, "*", 60) for id, each in nested.agents] == ["      * elf-2 a part · Answering · 0 s"]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (950, "950"), (1000, "1k"), (12_345, "12.3k"), (200_000, "200k"), (1_000_000, "1M"), (1_048_576, "1M")],
)
def test_counts(count: int, text: str) -> None:
    assert short_count(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(5, "5 s"), (65, "1 min 05 s"), (3600, "1 h 00 min")])
def test_durations(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_parts_that_are_empty_are_left_out() -> None:
    assert fit_parts(["one", "", "two"], 20) == "one · two"


def test_wide_characters_are_shortened_by_their_columns() -> None:
    assert shorten_cells("日本語", 6) == "日本語"
    assert shorten_cells("日本語", 5) == "日本…"
