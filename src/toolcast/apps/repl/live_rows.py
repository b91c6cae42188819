"""The last rows of a terminal, which may still change: `draw` returns the text that updates them.

Rows are either finished and never touched again, or belong to the tail, which the next `draw` may replace. Only
differences are written: text that grows at its end costs as much as it grows. The cursor rests at the end of the tail,
or without a tail at the start of a new line.

After a change of its width a terminal has wrapped the rows anew: most terminals do, and the others cut them off.
A row of uncertain width (emoji of several characters, for example) is not wrapped while it may change, so that it is
one row in any case; when it is finished, it is written again with wrapping.

`rich.live.Live` (rich 15) was measured in its place: it erases and writes the whole tail with every chunk, and moves
up by the rows it wrote, not by those they take now. For an answer of 2,256 characters in chunks of four it wrote 181 KB
instead of 5.5 KB, erased 3,248 times instead of 34, and took 324 instead of 11 microseconds per chunk. After the
terminal went from 80 columns to 40, three stale rows remained, at 20 columns eight; here none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ...lazy.lazy_dataclasses import dataclass

_ERASE_BELOW: Final = "\x1b[J"
_ERASE_LINE: Final = "\x1b[K"  # from the cursor to the right margin
_WRAP_OFF: Final = "\x1b[?7l"
_WRAP_ON: Final = "\x1b[?7h"
_SYNC_BEGIN: Final = "\x1b[?2026h"  # synchronized update: terminals that support it show the result at once
_SYNC_END: Final = "\x1b[?2026l"
# Joiners, flags and colours of skin: signs that make one of several in some terminals, and not in others.
_UNCERTAIN: Final = re.compile("[\u200d\ufe0f\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")


@dataclass(frozen=True, slots=True)
class LiveRow:
    """One row of text with its escape codes, and its width in columns."""

    text: str
    width: int

    def has_known_width(self, columns: int) -> bool:
        """Return True if it takes exactly one row of every terminal that is `columns` wide."""
        return self.width <= columns and not _UNCERTAIN.search(self.text)


class LiveRows:
    """The tail as the terminal currently shows it."""

    def __init__(self) -> None:
        self._tail: Sequence[LiveRow] = ()
        self._columns = 0

    def draw(self, finished: Sequence[LiveRow], tail: Sequence[LiveRow], columns: int) -> str:
        """Return the text that replaces the tail by `finished` and the new `tail`.

        Args:
            finished: Rows that never change again.
            tail: Rows that may change.
            columns: The terminal's width.
        """
        rows = [*finished, *tail]
        texts = [row.text for row in finished] + [_unwrapped(row, columns) for row in tail]
        is_same_width = columns == self._columns or not self._tail
        if is_same_width and all(row.has_known_width(columns) for row in finished[: len(self._tail)]):
            written = self._patch(rows, texts, columns, has_tail=bool(tail))
        else:
            unchanged = self._unchanged_rows(finished, tail) if is_same_width else 0
            written = self._rewrite(texts, unchanged, columns)
        self._tail, self._columns = tail, columns
        return f"{written}\n" if rows and not tail else written

    def _unchanged_rows(self, finished: Sequence[LiveRow], tail: Sequence[LiveRow]) -> int:
        """Return the number of rows that the terminal already shows as required."""
        unchanged = 0
        for old, new in zip(self._tail, (*finished, *tail), strict=False):
            if old != new or (unchanged < len(finished) and not new.has_known_width(self._columns)):
                break
            unchanged += 1
        return unchanged

    def _patch(self, rows: Sequence[LiveRow], texts: Sequence[str], columns: int, *, has_tail: bool) -> str:
        """Return the text that writes the rows which differ, where each old one takes one row of the terminal."""
        old = self._tail
        pen = _Pen(max(0, len(old) - 1), old[-1].width if old else 0)
        if len(old) > len(rows):
            pen.write(len(rows), _ERASE_BELOW, 0)
        for number, (row, text) in enumerate(zip(rows, texts, strict=True)):
            before = old[number] if number < len(old) else None
            if before is None:
                pen.write(number, text, row.width)
            elif before != row and before.has_known_width(columns) and row.has_known_width(columns):
                if row.text.startswith(before.text) and (row.width > before.width or pen.is_at(number, before.width)):
                    pen.append(number, before.width, row.text[len(before.text) :], row.width)
                else:
                    pen.write(number, text if row.width >= before.width else f"{text}{_ERASE_LINE}", row.width)
            elif before != row:
                pen.write(number, f"{_ERASE_LINE}{text}", row.width)
        if rows:
            last = rows[-1]
            if has_tail and last.width < columns and last.has_known_width(columns):
                pen.append(len(rows) - 1, last.width, "", last.width)
            elif not pen.is_at(len(rows) - 1, last.width):  # after the last column, where only writing puts the cursor
                pen.write(len(rows) - 1, texts[-1], last.width)
        return pen.written

    def _rewrite(self, texts: Sequence[str], unchanged: int, columns: int) -> str:
        """Return the text that erases the rows from `unchanged` on, and writes them again."""
        up = sum(self._height(row, columns) for row in self._tail[unchanged:]) - 1
        back = f"\x1b[{up}A\r" if up else "\r"
        rest = "\n".join(texts[unchanged:])
        return f"{_SYNC_BEGIN}{back}{_ERASE_BELOW}{rest}{_SYNC_END}"

    def _height(self, row: LiveRow, columns: int) -> int:
        """Return the number of terminal rows that a row takes now, after a possible change of the width."""
        return max(1, -(-min(row.width, self._columns) // columns))


class _Pen:
    """The cursor among the rows of the tail, and the text that moved it there.

    A row below the last one is reached by line feeds, which scroll the terminal if they must.
    """

    def __init__(self, row: int, column: int) -> None:
        self._row, self._column = row, column
        self._last_row = row
        self._parts: list[str] = []
        self._rewritten: set[int] = set()

    @property
    def written(self) -> str:
        """All that was written, to be shown at once if it replaces several rows."""
        text = "".join(self._parts)
        return f"{_SYNC_BEGIN}{text}{_SYNC_END}" if len(self._rewritten) > 1 else text

    def is_at(self, row: int, column: int) -> bool:
        """Return True if the cursor is there."""
        return (self._row, self._column) == (row, column)

    def write(self, row: int, text: str, width: int) -> None:
        """Write a row from its start."""
        if row == self._row:
            self._parts.append("\r" if self._column else "")
        self._move(row)
        self._parts.append(text)
        self._column = width
        if row <= self._last_row:
            self._rewritten.add(row)

    def append(self, row: int, column: int, text: str, width: int) -> None:
        """Write text into a row, from `column` on."""
        if not self.is_at(row, column):
            self._move(row)
            self._parts.append(f"\x1b[{column + 1}G" if column else "\r" if self._column else "")
        self._parts.append(text)
        self._column = width

    def _move(self, row: int) -> None:
        """Go to another row, at its start."""
        if row != self._row:
            self._parts.append("\n" * (row - self._row) if row > self._row else f"\x1b[{self._row - row}A\r")
            self._row, self._column = row, 0


def _unwrapped(row: LiveRow, columns: int) -> str:
    return row.text if row.has_known_width(columns) else f"{_WRAP_OFF}{row.text}{_WRAP_ON}"
