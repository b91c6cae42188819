"""Incremental Markdown: `feed` returns the blocks that are complete, `tail` those that may still change.

A complete block can be drawn once and forgotten: later text cannot change how it looks. Blocks therefore end where a
Markdown parser has nothing open: at blank lines, before headings and fences. A list is cut into its items, and code
into parts of a few lines, so that the tail stays small. If in doubt, a line stays in the tail, which delays it but
cannot show it wrongly. Each line is examined once, and the blocks together contain the whole text.
"""

from __future__ import annotations

import re
from copy import copy
from dataclasses import replace
from typing import Final, Literal

from ...lazy.lazy_dataclasses import dataclass

LONGEST_PART: Final = 20
"""Code with more lines than this is cut at any line."""

_FENCE = re.compile(r"(?P<indent> {0,3})(?P<marks>`{3,}(?=[^`]*$)|~{3,})\s*(?P<language>\S*)")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_RULE = re.compile(r" {0,3}([-*_])(?:\s*\1){2,}\s*$")
_UNDERLINE = re.compile(r" {0,3}-+\s*$")
_QUOTE = re.compile(r" {0,3}>")
_ITEM = re.compile(r" {0,3}(?P<number>\d{0,9})(?P<mark>(?<=\d)[.)]|(?<!\d)[-+*])(?P<gap>\s+|$)")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the Markdown that can be shown without the rest.

    `text` is Markdown of its own ("text"), a line that opens or closes a fence ("fence"), or lines of code ("code").
    """

    kind: Literal["text", "fence", "code"]
    text: str
    language: str = ""
    joined: bool = False
    """True if the block continues the one before without a blank line."""


@dataclass(frozen=True, slots=True)
class _ListItem:
    """An item of a list: the indentation of its content, and its number as the reader counts."""

    mark: str
    offset: int
    number: int | None
    is_ambiguous: bool = False

    @classmethod
    def of(cls, found: re.Match[str], before: _ListItem | None) -> _ListItem:
        """Return the item that a line begins, after the one `before` in the same list."""
        written = int(found["number"]) if found["number"] else None
        number = before.number + 1 if before and before.number is not None else written
        return cls(found["mark"], _offset(found), number, is_ambiguous=found.end() == len(found.string.rstrip()))


class LiveMarkdown:
    """The blocks of a Markdown text that arrives in chunks."""

    def __init__(self) -> None:
        self._chunks: list[str] = []  # of the line that is not complete
        self._lines: list[str] = []  # of the block that is open
        self._item: _ListItem | None = None  # that the open block is
        self._joined = False
        self._is_paragraph = False  # True if the last line belongs to one
        self._fence: re.Match[str] | None = None  # that began the code we are in

    def feed(self, text: str) -> list[Block]:
        """Add text and return the blocks that it completes."""
        first, *lines = text.split("\n")
        self._chunks.append(first)
        finished: list[Block] = []
        for line in lines:
            finished += self._feed_line("".join(self._chunks))
            self._chunks = [line]
        return finished

    def close(self) -> list[Block]:
        """End the text and return the remaining blocks."""
        line, self._chunks = "".join(self._chunks), []
        finished = (self._feed_line(line) if line else []) + self._finish()
        self._fence = None
        return finished

    @property
    def tail(self) -> list[Block]:
        """The blocks of the open text, as they are if no more text follows."""
        clone = copy(self)
        if self._fence and self._fence["marks"].startswith("".join(self._chunks).strip()):
            clone._chunks = []  # as it seems, the line that ends the code
        return clone.close()

    def __copy__(self) -> LiveMarkdown:
        clone = LiveMarkdown()
        vars(clone).update(vars(self), _lines=self._lines.copy())
        return clone

    def _feed_line(self, line: str) -> list[Block]:
        """Add a complete line and return the blocks that it completes."""
        if self._fence:
            return self._feed_code(line, self._fence)
        if not line.strip():
            return self._feed_blank()
        if self._item and _indent(line) >= self._item.offset:
            self._lines.append(line)
            return []
        return self._feed_text(line)

    def _feed_blank(self) -> list[Block]:
        if not self._item:
            return self._finish()
        self._is_paragraph = False
        self._lines.append("")  # the next line may belong to the item
        return []

    def _feed_text(self, line: str) -> list[Block]:
        if fence := _FENCE.match(line):
            finished = [*self._finish(), Block("fence", line.strip())]
            self._fence = fence
            return finished
        if _HEADING.match(line):
            return [*self._finish(), Block("text", line)]
        item = _ITEM.match(line)
        if item and not _RULE.match(line):
            if self._begins_item(item):
                return self._feed_item(line, item)
            # A list may begin here: only a full parser can decide.
            self._item = replace(self._item or _ListItem("", 1, None), is_ambiguous=True)
            self._lines.append(line)
            return []
        finished = self._finish() if (self._lines and not self._lines[-1]) or self._ends_list(line) else []
        self._is_paragraph = True  # of an item, it may be
        self._lines.append(line)
        return finished

    def _begins_item(self, found: re.Match[str]) -> bool:
        """Return True if the line begins an item, False if it may be a paragraph that begins with a number."""
        if self._item and self._item.is_ambiguous:
            return False
        return not self._is_paragraph or (found["number"] in ("", "1") and found.end() < len(found.string.rstrip()))

    def _ends_list(self, line: str) -> bool:
        """Return True if the line certainly does not belong to the open list."""
        if not self._item or not (_RULE.match(line) or _QUOTE.match(line)):
            return False
        if self._is_paragraph and _UNDERLINE.match(line):  # that makes a heading of it, if it is none of the list
            self._item = replace(self._item, is_ambiguous=True)
            return False
        return True

    def _feed_item(self, line: str, found: re.Match[str]) -> list[Block]:
        before = self._item if self._item and self._item.mark == found["mark"] else None
        finished = self._finish()
        self._item, self._joined = _ListItem.of(found, before), bool(before)
        self._lines.append(line)
        return finished

    def _feed_code(self, line: str, fence: re.Match[str]) -> list[Block]:
        if _is_closing_fence(fence["marks"], line):
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
        """Return the open block as a complete one."""
        lines, item, joined = self._lines, self._item, self._joined
        self._lines, self._item, self._joined, self._is_paragraph = [], None, False, False
        if not lines:
            return []
        if self._fence:
            return [Block("code", "\n".join(lines), self._fence["language"], joined=True)]
        numbered = _renumber(lines, item.number) if item else lines
        return [Block("text", "\n".join(numbered).rstrip("\n"), joined=joined)]


def _indent(line: str) -> int:
    spaced = line.expandtabs(4)
    return len(spaced) - len(spaced.lstrip(" "))


def _offset(found: re.Match[str]) -> int:
    """Return the column at which the text of an item begins."""
    gap = len(found["gap"].expandtabs(4))
    return found.end("mark") + (gap if 1 <= gap <= 4 and found.end() < len(found.string) else 1)


def _renumber(lines: list[str], number: int | None) -> list[str]:
    """Return an item of a list with the number that it has in the list."""
    found = _ITEM.match(lines[0])
    if number is None or not found or found["number"] == str(number):
        return lines
    longer = " " * max(0, len(str(number)) - len(found["number"]))
    first = f"{lines[0][: found.start('number')]}{number}{lines[0][found.end('number') :]}"
    return [first, *(longer + line for line in lines[1:])]


def _is_closing_fence(fence: str, line: str) -> bool:
    marks = line.strip()
    return _indent(line) < 4 and len(marks) >= len(fence) and set(marks) == {fence[0]}
