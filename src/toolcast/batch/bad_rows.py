"""`BadRow`: an input that could not be read."""

from __future__ import annotations

from typing import Any

from ..lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BadRow:
    """An input that could not be read: its item gets an outcome with the error, and nothing is sent.

    Attributes:
        input: The text of the row, perhaps shortened.
        error: The error.
    """

    input: Any
    error: Exception
