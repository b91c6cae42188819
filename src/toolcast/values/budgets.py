"""`Budget`: limits on tokens, US dollars, seconds and tool calls, and `BudgetTracker`, which knows what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from threading import RLock
from typing import Any

from ..lazy.lazy_dataclasses import dataclass
from .prices import ZERO, Amount, Prices as Prices, as_money
from .usage import NO_USAGE, Usage


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """Limits on tokens, US dollars, seconds of work and tool calls. None is no limit.

    Sub-agents share the budget of their parent. A limit in US dollars applies to the cost at `prices`, or else to
    `Usage.cost`; a model of unknown price is an error before its first request.
    """

    tokens: int | None
    usd: Decimal | None
    seconds: float | None
    tool_calls: int | None
    prices: Prices | None

    def __init__(
        self,
        tokens: int | None = None,
        usd: Amount | None = None,
        seconds: float | None = None,
        tool_calls: int | None = None,
        prices: Prices | None = None,
    ) -> None:
        money = None if usd is None else as_money(usd)
        given = {"tokens": tokens, "usd": money, "seconds": seconds, "tool_calls": tool_calls, "prices": prices}
        for name, value in given.items():
            object.__setattr__(self, name, value)
        for name in LIMITS:
            value = getattr(self, name)
            if value is not None and (value != value or not value > 0):  # a Decimal NaN cannot be ordered
                raise ValueError(f"budget {name}={value} must be above 0, or None for no limit")


LIMITS = ("tokens", "usd", "seconds", "tool_calls")


class BudgetTracker:
    """The amount spent of a budget, by an agent and its sub-agents. Thread-safe."""

    __slots__ = ("_began", "_lock", "_seconds", "_working", "budget", "parent", "tool_calls", "usage")

    def __init__(self, budget: Budget | None = None, parent: BudgetTracker | None = None) -> None:
        self.budget: Budget | None = budget
        self.parent: BudgetTracker | None = parent
        self._lock = RLock()  # an abandoned turn may end in a garbage collection, in the middle of anything here
        self._working = 0
        self._began = 0.0
        self.reset()

    def reset(self) -> None:
        """Set what is spent to zero. The parent keeps its own amount."""
        self.usage: Usage = NO_USAGE
        self.tool_calls: int = 0
        self._seconds = 0.0

    def begin(self, now: float) -> None:
        """Start counting time, here and in the parents. Concurrent work counts once."""
        with self._lock:
            self._working += 1
            if self._working == 1:
                self._began = now
        if self.parent is not None:
            self.parent.begin(now)

    def end(self, now: float) -> None:
        """Stop counting time for one `begin`. Do nothing without one."""
        with self._lock:
            if not self._working:
                return
            self._working -= 1
            if not self._working:
                self._seconds += now - self._began
        if self.parent is not None:
            self.parent.end(now)

    def seconds(self, now: float | None = None) -> float:
        """Return the seconds of work until `now`, or without it those of finished work."""
        with self._lock:
            return self._seconds + (now - self._began if self._working and now is not None else 0.0)

    def add(self, usage: Usage) -> None:
        """Add the tokens of a request, here and in the parents."""
        with self._lock:
            self.usage += usage
        if self.parent is not None:
            self.parent.add(usage)

    def count(self, tool_calls: int) -> None:
        """Add tool calls, here and in the parents."""
        with self._lock:
            self.tool_calls += tool_calls
        if self.parent is not None:
            self.parent.count(tool_calls)

    @property
    def needs_prices(self) -> bool:
        """True if a limit in US dollars, here or in a parent, has no prices of its own."""
        own = self.budget is not None and self.budget.usd is not None and self.budget.prices is None
        return own or (self.parent is not None and self.parent.needs_prices)

    def exceeded(self, now: float) -> tuple[str, str] | None:
        """Return the name of an exhausted limit, here or in a parent, with the error message; None if there is none.

        Tool calls are counted before they run, all else afterwards: so the last allowed call still runs.
        """
        found = None if self.budget is None else self._exceeded(self.budget, now)
        return found or (None if self.parent is None else self.parent.exceeded(now))

    def left(self, now: float) -> float | None:
        """Return the seconds until a budget's time is used up, here or in a parent; None without a limit."""
        own = None if self.budget is None or self.budget.seconds is None else self.budget.seconds - self.seconds(now)
        above = None if self.parent is None else self.parent.left(now)
        return min((each for each in (own, above) if each is not None), default=None)

    def to_dict(self, now: float | None = None) -> dict[str, Any]:
        """Return the amount spent until `now` as JSON-compatible data, or without `now` that of finished work."""
        return {"usage": self.usage.to_dict(), "tool_calls": self.tool_calls, "seconds": self.seconds(now)}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Restore the amount from the data of `to_dict`. The parents do not change."""
        self.usage = Usage.from_dict(data["usage"])
        self.tool_calls = data["tool_calls"]
        self._seconds = data["seconds"]

    def _exceeded(self, budget: Budget, now: float) -> tuple[str, str] | None:
        dollars = ZERO
        if budget.usd is not None:
            dollars = self.usage.known_cost if budget.prices is None else budget.prices.cost(self.usage)
        spent: Sequence[int | Decimal | float] = (self.usage.total_tokens, dollars, self.seconds(now), self.tool_calls)
        for name, used in zip(LIMITS, spent, strict=True):
            allowed = getattr(budget, name)
            if allowed is not None and (used > allowed if name == "tool_calls" else used >= allowed):
                shown = used if isinstance(used, int) else round(float(used), 4)
                return (
                    name,
                    f"the budget of {allowed} {name} is used up ({shown} spent); allow more: Budget({name}=...)",
                )
        return None
