"""A unified diff as rows, with the words that differ between similar lines.

Strategy: lines with which both texts begin or end are matched first. What is between them is split at the lines that
occur once in each text (patience diff), as long as there are such lines. The remaining blocks are compared by difflib,
whose cost is quadratic: large blocks, and all blocks after the budget is used up, are replaced as a whole. So the cost
is bounded for texts of any size, and every result is correct: only its length varies.

The text of rows has no invisible characters (`exposed`). Long lines are shortened to the part that changes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice, pairwise
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ..lazy.lazy_dataclasses import dataclass
from ..text.terminal_text import exposed

MOST_ROWS: Final = 5_000
"""Rows of one diff."""
LONGEST_TEXT: Final = 1_000
"""Characters of a row."""

_CONTEXT = 3
_LARGEST_BLOCK = 40_000  # product of the numbers of lines, or of words, that difflib compares
_BLOCK_BUDGET = 400_000  # sum of these products
_LINE_BUDGET = 5_000_000  # lines that are searched for anchors
_WORD_BUDGET = 2_000_000  # sum of the products of the numbers of words that difflib compares
_COMPARISON = 200  # what a comparison costs in addition
_NEAR = 6  # lines that may be the new version of a line
_LIKE = 0.4  # the share of a line that its new version has in common with it
_BEFORE = 100  # characters of a long line before the change
_word = re.compile(r"\w+|\s+|[^\w\s]")

RowKind: TypeAlias = Literal["same", "add", "remove", "gap"]
Ranges: TypeAlias = "tuple[tuple[int, int], ...]"


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A line of the old text, of the new text, or of both; a `gap` stands for unchanged lines.

    Attributes:
        kind: Where the line occurs.
        old: The line's number in the old text, from 1.
        new: The line's number in the new text, from 1.
        text: The line without its end.
        words: The ranges of `text` that differ from the other version of the line, in characters.
    """

    kind: RowKind
    old: int | None
    new: int | None
    text: str
    words: Ranges = ()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data, with the ranges in UTF-16 code units, as JavaScript counts them."""
        words = [[_utf16(self.text[:start]), _utf16(self.text[:end])] for start, end in self.words]
        return {"kind": self.kind, "old": self.old, "new": self.new, "text": self.text, "words": words}


class TextDiff(NamedTuple):
    """The rows of a diff, and how many lines it adds and removes; `omitted` of these have no row."""

    rows: tuple[DiffRow, ...]
    added: int
    removed: int
    omitted: int


def diff_texts(old: str, new: str, *, context: int | None = _CONTEXT, most_rows: int = MOST_ROWS) -> TextDiff:
    """Return the diff of two texts.

    Args:
        old: The old text.
        new: The new text.
        context: The number of unchanged lines around each change; None: all of them.
        most_rows: The maximum number of rows.
    """
    before, after = _lines(old), _lines(new)
    pairs = _matching_lines(before, after)
    added, removed = len(after) - len(pairs), len(before) - len(pairs)
    rows = tuple(islice(_rows(before, after, pairs, context), most_rows))
    shown = sum(row.kind in ("add", "remove") for row in rows)
    return TextDiff(rows, added, removed, added + removed - shown)


def _lines(text: str) -> list[str]:
    """Return the lines with their ends: a line that lacks its end differs from one that has it."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _matching_lines(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the indices of lines that both texts have, in ascending order."""
    pairs: list[tuple[int, int]] = []
    lines_left, block_left = _LINE_BUDGET, _BLOCK_BUDGET
    blocks = [(0, len(old), 0, len(new))]
    while blocks:
        begin, end, new_begin, new_end = blocks.pop()
        while begin < end and new_begin < new_end and old[begin] == new[new_begin]:
            pairs.append((begin, new_begin))
            begin, new_begin = begin + 1, new_begin + 1
        while begin < end and new_begin < new_end and old[end - 1] == new[new_end - 1]:
            end, new_end = end - 1, new_end - 1
            pairs.append((end, new_end))
        if begin == end or new_begin == new_end:
            continue
        lines_left -= end - begin + new_end - new_begin
        if lines_left < 0:
            continue
        product = (end - begin) * (new_end - new_begin)
        if anchors := _anchors(old, new, (begin, end, new_begin, new_end)):
            # Each block begins with an anchor, which the next step matches.
            edges = [(begin, new_begin), *anchors, (end, new_end)]
            blocks += [(a, c, b, d) for (a, b), (c, d) in pairwise(edges)]
        elif product <= min(_LARGEST_BLOCK, block_left):
            block_left -= product
            matcher = SequenceMatcher(None, old[begin:end], new[new_begin:new_end], autojunk=False)
            for at, new_at, size in matcher.get_matching_blocks():
                pairs += [(begin + at + n, new_begin + new_at + n) for n in range(size)]
    return sorted(pairs)


def _anchors(old: Sequence[str], new: Sequence[str], block: tuple[int, int, int, int]) -> list[tuple[int, int]]:
    """Return the lines that occur once in each text of the block, as many as have the same order in both."""
    begin, end, new_begin, new_end = block
    old_counts, new_counts = Counter(old[begin:end]), Counter(new[new_begin:new_end])
    places = {new[at]: at for at in range(new_begin, new_end) if new_counts[new[at]] == 1}
    pairs = [(at, places[old[at]]) for at in range(begin, end) if old[at] in places and old_counts[old[at]] == 1]
    # The longest increasing subsequence of the places in the new text, by patience sorting.
    piles: list[int] = []
    tops: list[int] = []
    previous: list[int] = []
    for number, (_, place) in enumerate(pairs):
        pile = bisect_left(piles, place)
        previous.append(tops[pile - 1] if pile else -1)
        piles[pile : pile + 1], tops[pile : pile + 1] = [place], [number]
    found: list[tuple[int, int]] = []
    number = tops[-1] if tops else -1
    while number >= 0:
        found.append(pairs[number])
        number = previous[number]
    return found[::-1]


def _rows(
    old: Sequence[str], new: Sequence[str], pairs: Sequence[tuple[int, int]], context: int | None
) -> Iterator[DiffRow]:
    """Yield the rows, with a gap in place of unchanged lines that are further from a change than `context`."""
    words = _WordComparison()
    same: list[tuple[int, int]] = []  # unchanged lines since the last change
    at, new_at, is_first = 0, 0, True
    for pair in (*pairs, (len(old), len(new))):
        if (at, new_at) != pair:
            yield from _unchanged(old, same, 0 if is_first else context, context)
            yield from words.rows(old, new, range(at, pair[0]), range(new_at, pair[1]))
            same, is_first = [], False
        at, new_at = pair[0] + 1, pair[1] + 1
        same.append(pair)
    if not is_first or context is None:
        yield from _unchanged(old, same[:-1], context, 0)


def _unchanged(
    old: Sequence[str], same: Sequence[tuple[int, int]], after: int | None, before: int | None
) -> Iterator[DiffRow]:
    """Yield rows for the first `after` and the last `before` unchanged lines, with a gap between them."""
    first = len(same) if after is None or before is None else after
    last = len(same) - (before or 0)
    hidden = last - first
    if hidden <= 1 and first and before:  # a gap would be no shorter
        first, hidden = len(same), 0
    yield from (_same_row(old, *pair) for pair in same[:first])
    if hidden > 0 and after and before:
        yield DiffRow("gap", None, None, f"{hidden:,} unchanged lines")
    yield from (_same_row(old, *pair) for pair in same[max(first, last) :] if before)


def _same_row(old: Sequence[str], at: int, new_at: int) -> DiffRow:
    return _row("same", at + 1, new_at + 1, old[at], ())


class _WordComparison:
    """The comparison of changed lines word by word, as long as there is a budget."""

    def __init__(self) -> None:
        self._left = _WORD_BUDGET

    def rows(self, old: Sequence[str], new: Sequence[str], lines: range, new_lines: range) -> Iterator[DiffRow]:
        """Yield the rows of lines that are removed, and of those that replace them."""
        words: dict[int, Ranges] = {}
        new_words: dict[int, Ranges] = {}
        place = new_lines.start
        for at in lines:
            for new_at in range(place, min(place + _NEAR, new_lines.stop)):
                if found := self._compare(old[at].removesuffix("\n"), new[new_at].removesuffix("\n")):
                    words[at], new_words[new_at] = found
                    place = new_at + 1
                    break
        yield from (_row("remove", at + 1, None, old[at], words.get(at, ())) for at in lines)
        yield from (_row("add", None, at + 1, new[at], new_words.get(at, ())) for at in new_lines)

    def _compare(self, old: str, new: str) -> tuple[Ranges, Ranges] | None:
        """Return the ranges that differ, or None if the lines have too little in common, or the budget is used up."""
        if self._left < 0:
            return None
        if max(len(old), len(new)) > LONGEST_TEXT:
            self._left -= len(old) + len(new)
            return _middle(old, new)
        words, new_words = _word.findall(old), _word.findall(new)
        product = len(words) * len(new_words)
        self._left -= _COMPARISON + product
        if product > _LARGEST_BLOCK:
            return _middle(old, new)
        matcher = SequenceMatcher(None, words, new_words, autojunk=False)
        blocks = matcher.get_matching_blocks()
        common = sum(len(word.strip()) for at, _, size in blocks for word in words[at : at + size])
        if common < _LIKE * max(sum(len(word.strip()) for word in each) for each in (words, new_words)):
            return None
        changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
        return (
            _ranges(words, [(begin, end) for _, begin, end, _, _ in changes]),
            _ranges(new_words, [(begin, end) for _, _, _, begin, end in changes]),
        )


def _middle(old: str, new: str) -> tuple[Ranges, Ranges] | None:
    """Return the range between the common beginning and the common end of two lines."""
    start = _common_length(old, new)
    ending = min(_common_length(old[::-1], new[::-1]), len(old) - start, len(new) - start)
    if start + ending < _LIKE * max(len(old), len(new)):
        return None
    begin = len(exposed(old[:start]))
    ends = (begin + len(exposed(text[start : len(text) - ending])) for text in (old, new))
    first, second = [((begin, end),) if end > begin else () for end in ends]
    return first, second


def _common_length(one: str, other: str) -> int:
    """Return the length of the common beginning, by bisection."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _ranges(words: Sequence[str], changes: Sequence[tuple[int, int]]) -> Ranges:
    """Return the ranges of the words in the exposed line; those with only blanks between them are one."""
    places = [0]
    for word in words:
        places.append(places[-1] + len(exposed(word)))
    merged: list[tuple[int, int]] = []
    for begin, end in changes:
        if begin == end:
            continue
        if merged and "".join(words[merged[-1][1] : begin]).isspace():
            begin = merged.pop()[0]
        merged.append((begin, end))
    return tuple([(places[begin], places[end]) for begin, end in merged])


def _row(kind: RowKind, old: int | None, new: int | None, line: str, words: Ranges) -> DiffRow:
    """Return the row of a line; of a long one the part with the first change."""
    text = exposed(line.removesuffix("\n"))
    if len(text) <= LONGEST_TEXT:
        return DiffRow(kind, old, new, text, words)
    begin = max(0, min(words[0][0] - _BEFORE, len(text) - LONGEST_TEXT)) if words else 0
    end = begin + LONGEST_TEXT
    head = f"[{begin:,} characters] " if begin else ""
    tail = f" [{len(text) - end:,} characters]" if end < len(text) else ""
    shift = len(head) - begin
    shown = [(max(first, begin) + shift, min(last, end) + shift) for first, last in words if first < end]
    return DiffRow(kind, old, new, f"{head}{text[begin:end]}{tail}", tuple(shown))


def _utf16(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
