"""Text of a model, a tool or a server, made fit for a terminal.

`visible` is for prose: it shows what a terminal would act on. `exposed` is for what a person decides on, such as the
arguments of a tool call: it also shows each character that cannot be seen, or that looks like a blank and is none.
"""

from __future__ import annotations

import re

_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"  # tags spell out hidden words
)
"""Characters that control a terminal, end a line, turn the direction of the text around them, or hide words."""

_UNSEEN = re.compile(
    # Unicode's Default_Ignorable_Code_Point, and what is as empty: the braille blank, marks of annotations
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    # controls, halves of surrogate pairs, private use
    "\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
    # separators of lines, and all blanks but the one
    "\u2028\u2029\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]"
)


def visible(text: str) -> str:
    """Return `text` with nothing in it that a terminal would act on: such a character is shown by its number."""
    return _ACTING.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))


def exposed(text: str) -> str:
    """Return `text` with each character that is not what it looks like shown by its number, as JSON writes it.

    So the text of a JSON document still means the same.
    """
    return _UNSEEN.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
