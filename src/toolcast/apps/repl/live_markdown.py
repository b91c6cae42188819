"""Markdown that is still arriving: `feed` gives the blocks that are finished for good, `tail` what is open.

A finished block can be shown once and forgotten: nothing that comes later changes how it looks. So blocks end where
a Markdown parser has nothing open: at blank lines, before headings and fences. A list is cut into its items and code
into parts of a few lines, so that what is open stays small. In doubt a line stays with what is open, which is only
shown later, never wrongly. Every line is looked at once; nothing is ever lost: what the blocks hold is what was fed.
"""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass, replace
from typing import Final, Literal

LONGEST_PART: Final = 20
"""Code that goes on longer than this many lines is cut wherever it stands."""

_FENCE = re.compile(r"(?P<indent> {0,3})(?P<marks>`{3,}(?=[^`]*$)|~{3,})\s*(?P<language>\S*)")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_RULE = re.compile(r" {0,3}([-*_])(?:\s*\1){2,}\s*$")
_UNDERLINE = re.compile(r" {0,3}-+\s*$")
_QUOTE = re.compile(r" {0,3}>")
_ITEM = re.compile(r" {0,3}(?P<number>\d{0,9})(?P<mark>(?<=\d)[.)]|(?<!\d)[-+*])(?P<gap>\s+|$)")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the Markdown that can be shown without the rest.

    `text` is Markdown of its own ("text"), a line that begins or ends code ("fence"), or some lines of that code.
    """

    kind: Literal["text", "fence", "code"]
    text: str
    language: str = ""
    joined: bool = False
    """Whether it goes on where the block before it ended, with no blank line between."""


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of a list: how far what belongs to it is indented, and its number as the reader counts."""

    mark: str
    offset: int
    number: int | None
    is_vague: bool = False

    @classmethod
    def of(cls, found: re.Match[str], before: _Item | None) -> _Item:
        """The item that a line begins, after the one `before` in the same list."""
        written = int(found["number"]) if found["number"] else None
        number = before.number + 1 if before and before.number is not None else written
        return cls(found["mark"], _offset(found), number, is_vague=found.end() == len(found.string.rstrip()))


class LiveMarkdown:
    """The blocks of a Markdown text that comes in pieces."""

    def __init__(self) -> None:
        self._pieces: list[str] = []  # of the line that is not complete
        self._lines: list[str] = []  # of the block that is open
        self._item: _Item | None = None  # that the open block is
        self._joined = False
        self._is_paragraph = False  # what the last line belongs to
        self._fence: re.Match[str] | None = None  # that began the code we are in

    def feed(self, text: str) -> list[Block]:
        """The blocks that `text` finishes."""
        first, *lines = text.split("\n")
        self._pieces.append(first)
        finished: list[Block] = []
        for line in lines:
            finished += self._take("".join(self._pieces))
            self._pieces = [line]
        return finished

    def close(self) -> list[Block]:
        """What was still open, and is finished now, for nothing more comes."""
        line, self._pieces = "".join(self._pieces), []
        finished = (self._take(line) if line else []) + self._finish()
        self._fence = None
        return finished

    @property
    def tail(self) -> list[Block]:
        """What is open, as it is if nothing more comes."""
        twin = copy(self)
        if self._fence and self._fence["marks"].startswith("".join(self._pieces).strip()):
            twin._pieces = []  # as it seems, the line that ends the code
        return twin.close()

    def __copy__(self) -> LiveMarkdown:
        twin = LiveMarkdown()
        vars(twin).update(vars(self), _lines=self._lines.copy())
        return twin

    def _take(self, line: str) -> list[Block]:
        """The blocks that a whole line finishes."""
        if self._fence:
            return self._take_code(line, self._fence)
        if not line.strip():
            return self._take_blank()
        if self._item and _indent(line) >= self._item.offset:
            self._lines.append(line)
            return []
        return self._take_text(line)

    def _take_blank(self) -> list[Block]:
        if not self._item:
            return self._finish()
        self._is_paragraph = False
        self._lines.append("")  # what comes next may belong to the item
        return []

    def _take_text(self, line: str) -> list[Block]:
        if fence := _FENCE.match(line):
            finished = [*self._finish(), Block("fence", line.strip())]
            self._fence = fence
            return finished
        if _HEADING.match(line):
            return [*self._finish(), Block("text", line)]
        item = _ITEM.match(line)
        if item and not _RULE.match(line):
            if self._begins_item(item):
                return self._take_item(line, item)
            # Maybe a list begins here, and maybe not: only a parser can say.
            self._item = replace(self._item or _Item("", 1, None), is_vague=True)
            self._lines.append(line)
            return []
        finished = self._finish() if (self._lines and not self._lines[-1]) or self._ends_list(line) else []
        self._is_paragraph = True  # of an item, it may be
        self._lines.append(line)
        return finished

    def _begins_item(self, found: re.Match[str]) -> bool:
        """Whether the line begins an item. It may be one of a paragraph, which begins with a number by chance."""
        if self._item and self._item.is_vague:
            return False
        return not self._is_paragraph or (found["number"] in ("", "1") and found.end() < len(found.string.rstrip()))

    def _ends_list(self, line: str) -> bool:
        """Whether the line is none of the list that is open, for sure."""
        if not self._item or not (_RULE.match(line) or _QUOTE.match(line)):
            return False
        if self._is_paragraph and _UNDERLINE.match(line):  # that makes a heading of it, if it is none of the list
            self._item = replace(self._item, is_vague=True)
            return False
        return True

    def _take_item(self, line: str, found: re.Match[str]) -> list[Block]:
        before = self._item if self._item and self._item.mark == found["mark"] else None
        finished = self._finish()
        self._item, self._joined = _Item.of(found, before), bool(before)
        self._lines.append(line)
        return finished

    def _take_code(self, line: str, fence: re.Match[str]) -> list[Block]:
        if _closes(fence["marks"], line):
            finished = [*self._finish(), Block("fence", line.strip(), joined=True)]
            self._fence = None
            return finished
        indented = len(line) - len(line.lstrip(" "))
        line = line[min(len(fence["indent"]), indented) :]
        # The highlighter sees each part alone: it is best cut between functions.
        is_new_start = self._lines and not self._lines[-1].strip() and line[:1].strip()
        finished = self._finish() if is_new_start or len(self._lines) >= LONGEST_PART else []
        self._lines.append(line)
        return finished

    def _finish(self) -> list[Block]:
        """The open block, which is whole."""
        lines, item, joined = self._lines, self._item, self._joined
        self._lines, self._item, self._joined, self._is_paragraph = [], None, False, False
        if not lines:
            return []
        if self._fence:
            return [Block("code", "\n".join(lines), self._fence["language"], joined=True)]
        numbered = _numbered(lines, item.number) if item else lines
        return [Block("text", "\n".join(numbered).rstrip("\n"), joined=joined)]


def _indent(line: str) -> int:
    spaced = line.expandtabs(4)
    return len(spaced) - len(spaced.lstrip(" "))


def _offset(found: re.Match[str]) -> int:
    """The column at which the text of an item begins."""
    gap = len(found["gap"].expandtabs(4))
    return found.end("mark") + (gap if 1 <= gap <= 4 and found.end() < len(found.string) else 1)


def _numbered(lines: list[str], number: int | None) -> list[str]:
    """An item of a list that stands alone, with the number it has in the list."""
    found = _ITEM.match(lines[0])
    if number is None or not found or found["number"] == str(number):
        return lines
    longer = " " * max(0, len(str(number)) - len(found["number"]))
    first = f"{lines[0][: found.start('number')]}{number}{lines[0][found.end('number') :]}"
    return [first, *(longer + line for line in lines[1:])]


def _closes(fence: str, line: str) -> bool:
    marks = line.strip()
    return _indent(line) < 4 and len(marks) >= len(fence) and set(marks) == {fence[0]}
