"""Base classes of what a `with` or an `async with` block closes, and of what cannot be copied."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NoReturn, Self, SupportsIndex


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


class Uncopyable:
    """The state of a response that is still arriving.

    A copy would share the connection and the unfinished values, and close the response when it is collected.
    """

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Raise `TypeError`: `copy`, `deepcopy` and `pickle` all call this method."""
        raise TypeError(
            f"{type(self).__name__} cannot be copied or pickled: it is the state of a response that is still arriving. "
            "Copy the items that it returns."
        )
