"""`Estimate`: what all inputs of a job are going to cost, in money, tokens and time, by a sample of them.

The interval is a prediction interval at 95 %, by Student's t distribution: the sum over m items that were not asked is
m times the mean of the n that were, plus or minus t * s * m * sqrt(1 / n + 1 / m), where s is the standard deviation of
the sample. It supposes that the sample is like the rest, and covers no change of the service.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from math import sqrt
from statistics import mean, stdev
from typing import Final, Generic, NamedTuple, TypeVar

from ..lazy.lazy_dataclasses import dataclass
from ..values.html_repr import html_of, table
from .outcome import Outcome, OutcomeList
from .progress.progress_text import duration, money, number

T = TypeVar("T")

SAMPLE: Final = 20
"""The number of items that are asked, by default."""

_Z: Final = 1.959964  # the 97.5 % point of the normal distribution
_T: Final = (12.706, 4.303, 3.182, 2.776)  # those of Student's t with 1 to 4 degrees of freedom


class Interval(NamedTuple):
    """An expected value, and the bounds between which the true one is with a probability of 95 %."""

    low: float
    expected: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate(Generic[T]):
    """The projection of a sample to all items of a job.

    Attributes:
        outcomes: The outcomes of the sample, failed items included. With a checkpoint a run does not ask for them
            again.
        total: The number of all inputs; None if they have no length. `for_items` sets it.
        concurrency: The number of items at once.
        rpm: The limit of requests per minute, if there is one.
        tpm: The limit of tokens per minute, if there is one.
    """

    outcomes: Sequence[Outcome[T]]
    total: int | None
    concurrency: int
    rpm: float | None = None
    tpm: float | None = None

    def for_items(self, total: int) -> Estimate[T]:
        """Return the estimate for a job of `total` inputs like these."""
        return replace(self, total=total)

    @property
    def failed(self) -> int:
        """The number of items of the sample that have an error."""
        return sum(not outcome.ok for outcome in self.outcomes)

    @property
    def cost(self) -> Interval | None:
        """The cost in US dollars; None if the total or the price is unknown."""
        costs = [outcome.cost for outcome in self.outcomes if outcome.attempts]
        if None in costs:
            return None
        return self._project(lambda outcome: float(outcome.cost or 0))

    @property
    def input_tokens(self) -> Interval | None:
        """The tokens of all requests; None if the total is unknown."""
        return self._project(lambda outcome: outcome.usage.input_tokens)

    @property
    def output_tokens(self) -> Interval | None:
        """The tokens of all responses; None if the total is unknown."""
        return self._project(lambda outcome: outcome.usage.output_tokens)

    @property
    def seconds(self) -> Interval | None:
        """The time of the job, with `concurrency` items at once and within `rpm` and `tpm`; None without a total."""
        each = self._project(lambda outcome: outcome.seconds / self.concurrency)
        tokens = self._project(lambda outcome: outcome.usage.total_tokens)
        requests = self._project(lambda outcome: outcome.attempts)
        if each is None or tokens is None or requests is None:
            return None
        by_tokens = [0.0] * 3 if self.tpm is None else [value * 60 / self.tpm for value in tokens]
        by_requests = [0.0] * 3 if self.rpm is None else [value * 60 / self.rpm for value in requests]
        return Interval(*map(max, each, by_tokens, by_requests))

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {self.total:,}"
        asked = f"{len(self.outcomes):,}{of} items asked"
        if self.failed:
            asked = f"{asked}, {self.failed:,} failed"
        input, output, seconds = self.input_tokens, self.output_tokens, self.seconds
        if input is None or output is None or seconds is None:
            return f"{asked}; the number of all items is unknown: estimate.for_items(1_000_000)"
        cost = "cost unknown" if self.cost is None else _shown(self.cost, lambda value: money(Decimal(str(value))))
        tokens = f"{_shown(input, _count)} tokens in, {_shown(output, _count)} out"
        return f"{asked}. All of them: {cost}; {tokens}; {_shown(seconds, duration)} with {self.concurrency} at once"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the projection, and the sample."""
        return table("Estimate", [("items", str(self))]) + html_of(OutcomeList(self.outcomes))

    def _project(self, value: Callable[[Outcome[T]], float]) -> Interval | None:
        """Return the sum of `value` over all items."""
        sample = [float(value(outcome)) for outcome in self.outcomes]
        if self.total is None:
            return None
        known, rest = sum(sample), self.total - len(sample)
        if rest <= 0 or not sample:
            return Interval(known, known, known)
        expected = known + rest * mean(sample)
        if len(sample) < 2:
            return Interval(known, expected, float("inf"))
        error = _t(len(sample) - 1) * stdev(sample) * rest * sqrt(1 / len(sample) + 1 / rest)
        return Interval(max(expected - error, known), expected, expected + error)


def _t(freedom: int) -> float:
    """Return the 97.5 % point of Student's t distribution, accurate to 0.2 %."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    # Cornish-Fisher expansion: Abramowitz and Stegun, 26.7.5.
    first = (_Z**3 + _Z) / 4
    second = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    third = (3 * _Z**7 + 19 * _Z**5 + 17 * _Z**3 - 15 * _Z) / 384
    return _Z + first / freedom + second / freedom**2 + third / freedom**3


def _shown(interval: Interval, show: Callable[[float], str]) -> str:
    low, expected, high = interval
    if high == float("inf"):
        return show(expected)
    return f"{show(expected)} ({show(low)} to {show(high)})"


def _count(value: float) -> str:
    return number(round(value))
