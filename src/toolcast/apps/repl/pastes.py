"""Long texts that are pasted at a prompt, and the labels that are shown for them: `Pastes`."""

from __future__ import annotations

import re
from itertools import count as numbers_from
from typing import Final

_FOLDED_LINES: Final = 20
"""Lines of a pasted text from which a label stands for it at the prompt."""


class Pastes:
    """Long texts that were pasted, by the labels that stand for them at the prompt."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """Return the label of a long text, or a short text itself, with line feeds as line ends."""
        text = self.unfold(re.sub("\r\n?", "\n", text))
        count = text.count("\n") + (not text.endswith("\n"))
        if count < _FOLDED_LINES:
            return text
        labels = (f"[pasted {count:,} lines{f' #{number}' if number > 1 else ''}]" for number in numbers_from(1))
        label = next(label for label in labels if self._texts.get(label, text) == text)
        self._texts[label] = text
        return label

    def unfold(self, text: str) -> str:
        """Return the text with the pasted texts in place of their labels."""
        return re.sub("|".join(map(re.escape, self._texts)), lambda found: self._texts.get(found[0], ""), text)

    def label_before(self, text: str) -> str:
        """Return the label at the end of the text; empty if there is none."""
        return next((label for label in self._texts if text.endswith(label)), "")
