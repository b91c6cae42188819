"""Escaping of untrusted text (of a model, a tool or a server) for a terminal.

`visible` is for prose: it escapes the characters that control a terminal. `exposed` is for text that a person approves,
such as the arguments of a tool call: it also escapes invisible characters and those that only look like a blank.
"""

from __future__ import annotations

import re
from typing import Final

# Patterns are text, which `re` compiles and caches when it is used: compiling them delays every import.
_ACTING: Final = (
    # tag characters, which can encode hidden text
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
"""The characters that control a terminal, end a line, change the direction of text, or hide text."""

_UNSEEN: Final = (
    # Unicode's Default_Ignorable_Code_Point, and other empty ones: the braille blank, annotation marks
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    # controls, halves of surrogate pairs, private use
    "\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
    # separators of lines, and all blanks but the one
    "\u2028\u2029\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]"
)


def visible(text: str) -> str:
    """Return `text` with each character that controls a terminal as an escape sequence."""
    return re.sub(_ACTING, lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))


def exposed(text: str) -> str:
    """Return `text` with each invisible or misleading character as a JSON escape sequence.

    A JSON document keeps its value.
    """
    return re.sub(_UNSEEN, lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
