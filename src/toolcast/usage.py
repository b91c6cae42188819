"""What calls cost: tokens, prices, budgets, and what was spent of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, or summed over several with `+`.

    `input_tokens` and `output_tokens` are totals: cached input and thinking are inside them.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
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


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million tokens. Cached input costs what other input does, where it is not said otherwise."""

    input: float
    output: float
    cache_read: float | None = None
    cache_creation: float | None = None

    def cost(self, usage: Usage) -> float:
        """What `usage` costs, in dollars."""
        read = self.input if self.cache_read is None else self.cache_read
        creation = self.input if self.cache_creation is None else self.cache_creation
        plain = max(usage.input_tokens - usage.cache_read_tokens - usage.cache_creation_tokens, 0)
        cached = usage.cache_read_tokens * read + usage.cache_creation_tokens * creation
        return (plain * self.input + cached + usage.output_tokens * self.output) / 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent: tokens, dollars (which need `prices`), seconds of work, tool calls. None is no limit."""

    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None
    tool_calls: int | None = None
    prices: Prices | None = None

    def __post_init__(self) -> None:
        for name in LIMITS:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"budget {name}={value!r} must be above 0, or None for no limit")
        if self.usd is not None and self.prices is None:
            raise ValueError("a budget in dollars needs prices: Budget(usd=1, prices=Prices(input=3, output=15))")


LIMITS = ("tokens", "usd", "seconds", "tool_calls")


class Spending:
    """What was spent of a budget, here and in all that was started from here."""

    __slots__ = ("_began", "_seconds", "budget", "parent", "tool_calls", "usage")

    def __init__(self, budget: Budget | None = None, parent: Spending | None = None) -> None:
        self.budget: Budget | None = budget
        self.parent: Spending | None = parent
        self.usage: Usage = NO_USAGE
        self.tool_calls: int = 0
        self._seconds = 0.0
        self._began: float | None = None

    def begin(self, now: float) -> None:
        """Work begins."""
        self._began = now

    def end(self, now: float) -> None:
        """Work ends."""
        if self._began is not None:
            self._seconds += now - self._began
            self._began = None

    def seconds(self, now: float) -> float:
        """How long it was worked, until now."""
        return self._seconds + (0.0 if self._began is None else now - self._began)

    def add(self, usage: Usage) -> None:
        """Count the tokens of a request."""
        self.usage += usage
        if self.parent is not None:
            self.parent.add(usage)

    def count(self, tool_calls: int) -> None:
        """Count tool calls."""
        self.tool_calls += tool_calls
        if self.parent is not None:
            self.parent.count(tool_calls)

    def exceeded(self, now: float) -> tuple[str, str] | None:
        """The name of a limit that is reached, here or above, and what is to be said of it."""
        found = None if self.budget is None else self._exceeded(self.budget, now)
        return found or (None if self.parent is None else self.parent.exceeded(now))

    def _exceeded(self, budget: Budget, now: float) -> tuple[str, str] | None:
        dollars = 0.0 if budget.prices is None else budget.prices.cost(self.usage)
        spent = (self.usage.total_tokens, dollars, self.seconds(now), self.tool_calls)
        for name, used in zip(LIMITS, spent, strict=True):
            allowed = getattr(budget, name)
            if allowed is not None and used >= allowed:
                return name, f"the budget of {allowed} {name} is used up ({used:.6g} spent)"
        return None
