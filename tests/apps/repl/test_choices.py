"""Answers as a line of text."""

from __future__ import annotations

import pytest

from toolcast.apps.repl.choices import Answer, Choice, choose_by_line, line_prompt, parse_line

CHOICES = [Choice("y", "yes, all"), Choice("n", "no (and why)", takes_text=True), Choice("x", "do it: now")]


def test_all_answers_are_on_one_line() -> None:
    assert line_prompt("Run it?", CHOICES) == "Run it? [y]es, all, [n]o (and why), [x] do it: now: "


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y", Answer("y", "")),
        ("YES", Answer("y", "")),
        ("y please", None),
        ("n", Answer("n", "")),
        ("  no  too far ", Answer("n", "too far")),
        ("x", Answer("x", "")),
        ("do", Answer("x", "")),
        ("", None),
        ("e", None),
    ],
)
def test_a_line(line: str, answer: Answer | None) -> None:
    assert parse_line(line, CHOICES) == answer


def test_other_lines_repeat_the_question() -> None:
    lines = ["", "maybe", "y"]
    prompts: list[str] = []

    def read(prompt: str) -> str | None:
        prompts.append(prompt)
        return lines.pop(0) if lines else None

    assert choose_by_line(read, "Run it?", CHOICES) == Answer("y", "")
    assert prompts == [line_prompt("Run it?", CHOICES)] * 3
    assert choose_by_line(read, "Run it?", CHOICES) is None
