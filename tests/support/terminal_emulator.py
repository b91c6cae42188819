"""A terminal without a window: what it shows after all that was written to it, scrolled-off lines included."""

from __future__ import annotations

from typing import Any

import pyte


class Emulated:
    """The terminal. `newline`: a line feed goes to the first column, too, as if a system's driver stood before it."""

    def __init__(self, columns: int = 80, rows: int = 24, *, newline: bool = True) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=100_000, ratio=0.5)
        self._stream = pyte.Stream(self.screen)
        if newline:
            self.screen.set_mode(pyte.modes.LNM)

    def flush(self) -> None:
        """Do nothing: what is written is there."""

    def write(self, text: str) -> int:
        """Take output."""
        self._stream.feed(text)
        return len(text)

    def resize(self, columns: int, rows: int) -> None:
        """Be of another size. What stands there is cut off where it no longer fits, and not wrapped anew."""
        self.screen.resize(rows, columns)

    @property
    def lines(self) -> list[str]:
        """All lines from the first one, without those that are empty at the end."""
        rows: list[Any] = [*self.screen.history.top, *(self.screen.buffer[y] for y in range(self.screen.lines))]
        lines = ["".join(row[x].data for x in range(self.screen.columns)).rstrip() for row in rows]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def cursor(self) -> tuple[int, int]:
        """The line, counted from the first, and the column of the cursor."""
        return len(self.screen.history.top) + self.screen.cursor.y, self.screen.cursor.x

    @property
    def text(self) -> str:
        """All lines, as one text."""
        return "\n".join(self.lines)

    def look(self, word: str) -> Any:
        """How the first sign of `word` looks, where it stands on the screen: `fg`, `bold`, `italics` and so on."""
        for y, line in enumerate(self.screen.display):
            if word in line:
                return self.screen.buffer[y][line.index(word)]
        raise AssertionError(f"{word!r} is not on the screen:\n{self.text}")
