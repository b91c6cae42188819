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

from ...lazy_dataclasses import dataclass

_ERASE_BELOW: Final = "\x1b[J"
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
        unchanged = self._unchanged_rows(finished, tail) if columns == self._columns else 0
        written = self._update(texts, unchanged, columns)
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

    def _update(self, texts: Sequence[str], unchanged: int, columns: int) -> str:
        """Return the text that draws the rows from `unchanged` on over the current ones."""
        old = self._tail
        if unchanged == len(old) <= len(texts):
            more = texts[unchanged:]
            return "\n" * bool(old and more) + "\n".join(more)
        if columns == self._columns and self._grows(texts, unchanged):
            return "\n".join(texts[unchanged:]).removeprefix(old[unchanged].text)
        unchanged = min(unchanged, max(0, len(texts) - 1))  # the cursor is to end in the last of them
        up = sum(self._height(row, columns) for row in old[unchanged:]) - 1
        back = f"\x1b[{up}A\r" if up else "\r"
        rest = "\n".join(texts[unchanged:])
        return f"{_SYNC_BEGIN}{back}{_ERASE_BELOW}{rest}{_SYNC_END}"

    def _height(self, row: LiveRow, columns: int) -> int:
        """Return the number of terminal rows that a row takes now, after a possible change of the width."""
        return max(1, -(-min(row.width, self._columns) // columns))

    def _grows(self, texts: Sequence[str], unchanged: int) -> bool:
        """Return True if all new text comes after the end of the last row."""
        last = self._tail[-1]
        is_last = unchanged == len(self._tail) - 1 and unchanged < len(texts)
        return is_last and texts[unchanged].startswith(last.text) and last.has_known_width(self._columns)


def _unwrapped(row: LiveRow, columns: int) -> str:
    return row.text if row.has_known_width(columns) else f"{_WRAP_OFF}{row.text}{_WRAP_ON}"
