"""Keys that were pressed while no prompt was open: `EarlyKeys`.

They are there at the next main prompt, line by line. Until then the screen shows them, and Backspace takes them back,
also an Enter. A pasted text is a part of its line, with its line ends: it sends nothing.

Long texts that are pasted at a prompt, and the labels that are shown for them: `Pastes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import count as numbers_from
from typing import Final

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

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


ENTERS: Final = (Keys.ControlM, Keys.ControlJ)


class EarlyKeys:
    """The keys in the order in which they were pressed. `pastes` has the long texts that were pasted."""

    def __init__(self, pastes: Pastes | None = None) -> None:
        self._keys: list[KeyPress] = []
        self._pastes = Pastes() if pastes is None else pastes

    @property
    def lines(self) -> Sequence[str]:
        """The typed lines. The last one is not complete, and may be empty."""
        lines = [""]
        for press in self._keys:
            if press.key in ENTERS:
                lines.append("")
            elif press.key == Keys.BracketedPaste:
                lines[-1] += press.data
            elif not isinstance(press.key, Keys):
                lines[-1] += press.key
        return lines

    def add(self, pressed: Iterable[KeyPress]) -> bool:
        """Add keys; return True if Esc was among them, which is left out, as an Enter on an empty line is."""
        keys, has_escape = self._keys, False
        for press in pressed:
            if keys and keys[-1].key == Keys.Escape and press.key not in ENTERS:  # it was not Alt-Enter
                keys.pop()
                has_escape = True
            if press.key == Keys.BracketedPaste:
                keys.append(_pasted(self._pastes.fold(press.data)))
            elif press.key == Keys.ControlH and keys:
                self._delete(keys.pop())
                if keys and keys[-1].key == Keys.Escape:  # of Alt-Enter
                    keys.pop()
            elif press.key == Keys.ControlU:
                self._clear_line()
            elif press.key not in ENTERS or (keys and keys[-1].key not in ENTERS):
                keys.append(press)
        if keys and keys[-1].key == Keys.Escape:
            keys.pop()
            has_escape = True
        return has_escape

    def take_line(self) -> list[KeyPress]:
        """Return the keys up to the first Enter that sends, and forget them."""
        pairs = enumerate(zip(self._keys, [None, *self._keys], strict=False), 1)
        ends = (end for end, (press, before) in pairs if press.key in ENTERS and not _is_new_line(before))
        end = next(ends, len(self._keys))
        keys, self._keys = self._keys[:end], self._keys[end:]
        return keys

    def hold(self) -> None:
        """Join the lines, so that none of them is sent. Keys that are not text are left out."""
        text = "\n".join(self.lines).rstrip("\n")
        self._keys = [_pasted(text)] if text else []

    def _delete(self, last: KeyPress) -> None:
        """Keep what Backspace leaves of a pasted text: all but a character, or nothing of a long text."""
        if last.key == Keys.BracketedPaste and not self._pastes.label_before(last.data) and last.data[:-1]:
            self._keys.append(_pasted(last.data[:-1]))

    def _clear_line(self) -> None:
        while self._keys and self._keys[-1].key not in ENTERS:
            self._keys.pop()


def _is_new_line(before: KeyPress | None) -> bool:
    """Return True if an Enter after this key begins a new line."""
    return before is not None and before.key in (Keys.Escape, "\\")


def _pasted(text: str) -> KeyPress:
    return KeyPress(Keys.BracketedPaste, text)


def join_lines(pressed: Iterable[KeyPress]) -> list[KeyPress]:
    """Return keys that arrived at the same moment, with several lines as one pasted text: no person types so fast."""
    keys, text = list[KeyPress](), list[KeyPress]()
    for press in pressed:
        is_text = press.key in (*ENTERS, Keys.ControlI) or not isinstance(press.key, Keys)
        if is_text and (text or press.key not in ENTERS or not keys or keys[-1].key != Keys.Escape):
            text.append(press)
        else:
            keys += [*_joined(text), press]
            text = []
    return keys + _joined(text)


def _joined(keys: list[KeyPress]) -> list[KeyPress]:
    """Return the keys of a text, or of several lines the text as it was pasted."""
    text = "".join(press.data for press in keys)
    is_pasted = any(press.key in ENTERS for press in keys[: len(text.rstrip("\r\n"))])
    return [_pasted(text)] if is_pasted else keys
