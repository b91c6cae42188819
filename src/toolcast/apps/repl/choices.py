"""Questions with a fixed set of answers: `Choice`, and the answers as a line of text where single keys cannot be read.

On a terminal with escape codes a key answers (key_prompt.py). Elsewhere a line does: the key or its first word, and for
some answers a text behind it. Any other line repeats the question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Choice(NamedTuple):
    """An answer.

    Attributes:
        key: The key that gives it, a lower-case letter.
        label: What it does; the first word, which begins with the key, is an answer as well.
        takes_text: True if a text may follow it, such as a reason.
    """

    key: str
    label: str
    takes_text: bool = False

    @property
    def word(self) -> str:
        """The first word of the label, in lower case."""
        return self.label.replace(",", " ").replace(":", " ").split()[0].lower()


class Answer(NamedTuple):
    """The choice of a person, and the text behind it; None if there was no opportunity to type one."""

    key: str
    text: str | None = ""


def line_prompt(question: str, choices: Sequence[Choice]) -> str:
    """Return the question with all answers on one line, each with its key in brackets."""
    labels = ", ".join(_marked(choice) for choice in choices)
    return f"{question} {labels}: "


def parse_line(line: str, choices: Sequence[Choice]) -> Answer | None:
    """Return the answer that a line gives, or None if it gives none."""
    word, _, rest = line.strip().partition(" ")
    text = rest.strip()
    for choice in choices:
        if word.lower() in (choice.key, choice.word) and (choice.takes_text or not text):
            return Answer(choice.key, text)
    return None


def choose_by_line(read: Callable[[str], str | None], question: str, choices: Sequence[Choice]) -> Answer | None:
    """Ask until a line is an answer, and return it; None at the end of input."""
    prompt = line_prompt(question, choices)
    while (line := read(prompt)) is not None:
        if answer := parse_line(line, choices):
            return answer
    return None


def _marked(choice: Choice) -> str:
    """Return the label with its key in brackets: `[y]es`."""
    if choice.label.lower().startswith(choice.key):
        return f"[{choice.key}]{choice.label[len(choice.key) :]}"
    return f"[{choice.key}] {choice.label}"
