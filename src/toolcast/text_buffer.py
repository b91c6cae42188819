"""Text that arrives in pieces of a few characters, kept in little memory.

Strategy: a piece takes far more memory than its characters, so the newest are joined to a block now and then. Each
character is copied once, and once more when somebody asks for the whole.
"""

from __future__ import annotations

from typing import Final

JOIN_THRESHOLD: Final = 500
"""So many pieces are joined to one block."""


class TextBuffer:
    """All that was added. Whoever adds often appends to `fresh` and calls `join` at `JOIN_THRESHOLD`."""

    __slots__ = ("blocks", "fresh")

    def __init__(self) -> None:
        self.fresh: list[str] = []  # what was added last; always the same list
        self.blocks: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.fresh or self.blocks)

    def add(self, piece: str) -> None:
        """Keep one more piece."""
        self.fresh.append(piece)
        if len(self.fresh) >= JOIN_THRESHOLD:
            self.join()

    def join(self) -> None:
        """Make one block of the newest pieces."""
        self.blocks.append("".join(self.fresh))
        self.fresh.clear()

    def whole(self) -> str:
        """All of it."""
        return "".join((*self.blocks, *self.fresh))
