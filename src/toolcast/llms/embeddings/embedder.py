"""The interface of embedders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

Vector: TypeAlias = Iterable[float]
"""An embedding: a list, a tuple, an array of numpy."""


@runtime_checkable
class Embedder(Protocol):
    """The interface of embedders. It may raise, and it may block: under an event loop it runs in a thread."""

    @property
    def name(self) -> str: ...

    def embed(self, texts: Sequence[str], /) -> Iterable[Vector]:
        """Return one vector for each of `texts`, in their order, all of one length."""
        ...
