"""The text of /help in terminals of any width."""

from __future__ import annotations

import pytest

from toolcast.apps.repl.slash_commands import COMMANDS, KEYS, format_help

ROWS = {"Commands": [(f"{name} {command.argument}".strip(), command.summary) for name, command in COMMANDS.items()]}


@pytest.mark.parametrize("columns", [40, 59, 60, 80, 120, 400])
def test_it_fits_and_has_every_word(columns: int) -> None:
    text = format_help({**ROWS, **KEYS}, columns)
    assert all(len(line) <= min(columns, 100) for line in text.splitlines())
    words = text.split()
    for rows in (*ROWS.values(), *KEYS.values()):
        for name, summary in rows:
            assert set(name.split()) | set(summary.split()) <= set(words)
    assert text.count("\n\n") == len(KEYS)


def test_a_narrow_terminal_has_the_summary_below_the_name() -> None:
    assert format_help({"A": [("/export [FILE]", "does it")]}, 40) == "A\n  /export [FILE]\n      does it"
    assert format_help({"A": [("/x", "does it")]}, 40) == "A\n  /x  does it"
    assert format_help({"A": [("/x", "does it")]}, 80) == "A\n  /x  does it"


def test_names_longer_than_half_a_line_leave_their_summaries_space() -> None:
    assert format_help({"A": [("x" * 50, "does it")]}, 80) == f"A\n  {'x' * 50}\n      does it"
