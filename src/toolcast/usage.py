"""Token usage, prices, budgets, and the tracking of what a budget has left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from threading import RLock
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, or summed over several with `+`.

    `input_tokens` and `output_tokens` are totals, which include cached input and thinking.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """The sum of input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        if self is NO_USAGE:
            return other
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_creation_tokens + other.cache_creation_tokens,
        )

    def to_dict(self) -> dict[str, int]:
        """Return JSON-compatible data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, int]) -> Usage:
        """Return the usage from the data of `to_dict`."""
        return cls(**data)


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens. Cached input has the price of other input by default."""

    input: float
    output: float
    cache_read: float | None = None
    cache_creation: float | None = None

    def cost(self, usage: Usage) -> float:
        """Return the cost of `usage` in US dollars."""
        read = self.input if self.cache_read is None else self.cache_read
        creation = self.input if self.cache_creation is None else self.cache_creation
        plain = max(usage.input_tokens - usage.cache_read_tokens - usage.cache_creation_tokens, 0)
        cached = usage.cache_read_tokens * read + usage.cache_creation_tokens * creation
        return (plain * self.input + cached + usage.output_tokens * self.output) / 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on tokens, US dollars (which need `prices`), seconds of work and tool calls. None is no limit.

    Sub-agents share the budget of their parent, at its prices.
    """

    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None
    tool_calls: int | None = None
    prices: Prices | None = None

    def __post_init__(self) -> None:
        for name in LIMITS:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"budget {name}={value!r} must be above 0, or None for no limit")
        if self.usd is not None and self.prices is None:
            raise ValueError("a budget in usd needs prices: Budget(usd=1, prices=Prices(input=3, output=15))")


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
        dollars = 0.0 if budget.prices is None else budget.prices.cost(self.usage)
        spent = (self.usage.total_tokens, dollars, self.seconds(now), self.tool_calls)
        for name, used in zip(LIMITS, spent, strict=True):
            allowed = getattr(budget, name)
            if allowed is not None and (used > allowed if name == "tool_calls" else used >= allowed):
                shown = used if isinstance(used, int) else round(used, 4)
                return (
                    name,
                    f"the budget of {allowed} {name} is used up ({shown} spent); allow more: Budget({name}=...)",
                )
        return None
