"""`Outcome`: the result of one input of a batch job, an output or an error."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Generic, TypeVar

from ..lazy_dataclasses import dataclass
from ..usage import NO_USAGE, Usage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """The result of one input of a job. Either `output` or `error` is None.

    Attributes:
        index: The position of the input, from 0.
        key: The key that identifies the input in a checkpoint: the caller's, or a hash of the input with the number of
            its occurrence.
        input: The input as it was passed; for a row of a file that could not be read, its text.
        output: The validated output, or None.
        error: The exception that ended the item, or None.
        attempts: The number of requests that were sent.
        usage: Tokens, summed over all requests.
        seconds: The time from the start of the item to its end, waits included.
    """

    index: int
    key: str
    input: Any
    output: T | None = None
    error: Exception | None = None
    attempts: int = 0
    usage: Usage = NO_USAGE
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True if there is an output."""
        return self.error is None

    @property
    def error_text(self) -> str | None:
        """The name of the error's class and its message, or None."""
        return None if self.error is None else f"{type(self.error).__name__}: {self.error}"

    @property
    def cost(self) -> Decimal | None:
        """The estimated cost of all requests in US dollars; None if it is unknown."""
        return self.usage.cost
