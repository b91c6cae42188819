"""`TextBuffer`: text that arrives in many small chunks, stored in little memory.

A Python string of a few characters takes far more memory than its characters, so the newest chunks are joined to a
block from time to time. Each character is copied once, and once more when the whole text is read.
"""

from __future__ import annotations

from typing import Final

JOIN_THRESHOLD: Final = 500
"""The number of chunks that are joined to one block."""


class TextBuffer:
    """A growing text. A hot loop appends to `fresh` itself, and calls `join` at `JOIN_THRESHOLD`."""

    __slots__ = ("blocks", "fresh")

    def __init__(self) -> None:
        self.fresh: list[str] = []  # the newest chunks; always the same list, so that a caller may bind its append
        self.blocks: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.fresh or self.blocks)

    def add(self, chunk: str) -> None:
        """Append one chunk."""
        self.fresh.append(chunk)
        if len(self.fresh) >= JOIN_THRESHOLD:
            self.join()

    def join(self) -> None:
        """Join the newest chunks to one block."""
        self.blocks.append("".join(self.fresh))
        self.fresh.clear()

    def whole(self) -> str:
        """Return the whole text."""
        return "".join((*self.blocks, *self.fresh))
