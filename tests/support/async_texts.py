"""An async iterator of texts without an end: "0", "1", and so on."""

from __future__ import annotations

from collections.abc import AsyncIterator


class AsyncTexts(AsyncIterator[str]):
    """No generator, which trio wants to be closed by the task that made it: a test may leave this one.

    Attributes:
        read: The number of texts that were read.
    """

    def __init__(self) -> None:
        self.read = 0

    async def __anext__(self) -> str:
        self.read += 1
        return str(self.read - 1)
