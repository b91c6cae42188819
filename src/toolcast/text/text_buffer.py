"""`TextBuffer`: text that arrives in many small chunks, stored in little memory.

A Python string of a few characters takes far more memory than its characters, so the newest chunks are joined to a
block from time to time. Each character is copied once, and once more when the whole text is read. One emoji makes a
string take four bytes for each of its characters, so blocks that are not ASCII are stored as UTF-8.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, TypeAlias

JOIN_THRESHOLD: Final = 200
"""The number of chunks that are joined to one block. More chunks take more memory, and smaller blocks do so, too."""

Block: TypeAlias = str | bytes
"""A part of a text: a string, or UTF-8."""


def pack(text: str) -> Block:
    """Return `text` in the form that takes the least memory."""
    return text if text.isascii() else text.encode(errors="surrogatepass")


def unpack(*blocks: Block) -> str:
    """Return the text of these blocks."""
    strings = [block for block in blocks if isinstance(block, str)]
    if len(strings) == len(blocks):
        return "".join(strings)
    # Joined before they are decoded: each block of its own would be a string, of four bytes a character.
    parts = [block.encode(errors="surrogatepass") if isinstance(block, str) else block for block in blocks]
    return b"".join(parts).decode(errors="surrogatepass")


class TextBuffer:
    """A growing text. A hot loop appends to `fresh` itself, and calls `join` at `JOIN_THRESHOLD`."""

    __slots__ = ("blocks", "fresh")

    def __init__(self) -> None:
        self.fresh: list[str] = []  # the newest chunks; always the same list, so that a caller may bind its append
        self.blocks: list[Block] = []

    def __bool__(self) -> bool:
        return bool(self.fresh or self.blocks)

    def add(self, chunk: str) -> None:
        """Append one chunk."""
        self.fresh.append(chunk)
        if len(self.fresh) >= JOIN_THRESHOLD:
            self.join()

    def join(self) -> None:
        """Join the newest chunks to one block."""
        block, end = pack("".join(self.fresh)), len(self.blocks)
        # In one step: another thread that ran between two of them would read the newest chunks twice.
        self.blocks[end:], self.fresh[:] = (block,), ()

    def whole(self) -> str:
        """Return the whole text."""
        return unpack(*self.blocks, *self.fresh)

    def share(self, text: str) -> None:
        """Refer to `text` from now on if the whole text equals it, so that a long text is not in memory twice."""
        if not self.blocks:
            return
        end = 0
        for block in (*self.blocks, *self.fresh):
            part = unpack(block)  # one block at a time: the whole text would be a third copy
            if not text.startswith(part, end):
                return
            end += len(part)
        if end == len(text):
            self.blocks = [text]
            self.fresh.clear()


class SliceableText(TextBuffer):
    """A text buffer that can return any slice of the text at a cost linear in the slice."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: list[int] = [0]  # where each block begins and ends

    def join(self) -> None:
        size = sum(map(len, self.fresh))
        super().join()
        self._ends.append(self._ends[-1] + size)

    def share(self, text: str) -> None:
        super().share(text)
        if len(self.blocks) == 1 and self.blocks[0] is text:
            self._ends = [0, len(text)]

    def cut(self, start: int, end: int) -> str:
        """Return the characters from `start` to `end`."""
        if self.fresh:
            self.join()
        # Binary search: a value is cut out of a text of any length at the cost of the value.
        ends = self._ends
        first = bisect_right(ends, start) - 1
        last = bisect_left(ends, end, first)
        return unpack(*self.blocks[first:last])[start - ends[first] : end - ends[first]]

    def without(self, start: int, end: int, spans: list[tuple[int, int]]) -> str:
        """Return the characters from `start` to `end`, with each span replaced by its number."""
        parts: list[str] = []
        for number, (first, last) in enumerate(spans):
            parts.append(self.cut(start, first))
            parts.append(str(number))
            start = last
        parts.append(self.cut(start, end))
        return "".join(parts)
