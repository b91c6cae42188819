"""`MISSING`, in a module of its own: a call that is not streamed needs nothing else of partial parsing."""

from __future__ import annotations

from typing import Any, Final


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final[Any] = _Missing()
"""A placeholder: there is no value to show yet."""
