"""Base classes of what a `with` or an `async with` block closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """An object that is closed at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Close it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncClosing(ABC):
    """An object that is closed at the end of an `async with` block."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
