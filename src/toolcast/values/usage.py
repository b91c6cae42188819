"""Token usage with its cost, budgets, and the tracking of what a budget has left."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from operator import attrgetter
from threading import RLock
from typing import Any, Final

from ..lazy.lazy_dataclasses import dataclass
from .prices import ZERO, Amount, Prices as Prices, Pricing, StoredCost, TokenCounts, as_money
from .usage_details import NO_DETAILS, UsageDetails as UsageDetails


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, or summed over several with `+`.

    Two usages are equal if their tokens are: the cost is an estimate that follows from them.

    Attributes:
        input_tokens: All tokens of the request, cached ones included.
        output_tokens: All tokens of the response, reasoning included.
        cache_read_tokens: Those of the input that were read from a cache.
        cache_creation_tokens: Those of the input that were written to a cache.
        reasoning_tokens: Those of the output that are reasoning, where the service reports them.
        audio_tokens: Those of input and output that are audio, where the service reports them.
        details: Finer counts, where the service reports them: by time in the cache, modality, kind of tool, ...
        pricing: The prices of the request, or the stored cost; None if they are unknown.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    reasoning_tokens: int = 0
    audio_tokens: int = 0
    details: UsageDetails = field(default=NO_DETAILS, kw_only=True)
    pricing: Pricing | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def total_tokens(self) -> int:
        """The sum of input and output tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def cost(self) -> Decimal | None:
        """The cost in US dollars; None if it is unknown, for a part of the usage too.

        An estimate, unless the service reports what it charged: by the own `Prices` of the LLM, or by the list of
        genai-prices (`pip install 'toolcast[prices]'`).
        """
        amount, complete = _priced(self)
        return amount if complete else None

    @property
    def known_cost(self) -> Decimal:
        """The known part of the cost in US dollars: 0 if all of it is unknown."""
        return _priced(self)[0]

    def describe(self) -> str:
        """Return the tokens and the cost for a reader, for example `10 tokens in, 5 out, about $0.000075`."""
        text = f"{self.input_tokens:,} tokens in, {self.output_tokens:,} out"
        if (cost := self.cost) is not None:
            return f"{text}, about ${cost:.6f}"
        return f"{text}, at least ${self.known_cost:.6f}" if self.known_cost else text

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        from .html_repr import table

        return table("Usage", [*self.to_dict().items()])

    def with_cost(self, cost: Amount) -> Usage:
        """Return this usage with the cost in US dollars that the service has reported."""
        return self.with_pricing(StoredCost(as_money(cost)))

    def with_pricing(self, pricing: Pricing) -> Usage:
        """Return this usage with these prices."""
        # Once for each request: `replace` takes three times as long.
        cached = (self.cache_read_tokens, self.cache_creation_tokens)
        parts = (self.reasoning_tokens, self.audio_tokens)
        return Usage(self.input_tokens, self.output_tokens, *cached, *parts, details=self.details, pricing=pricing)

    def __add__(self, other: Usage) -> Usage:
        # A request that failed before its first token has no usage, and no price that would make a sum unknown.
        if self is NO_USAGE or (self.pricing is None and self == NO_USAGE):
            return other
        if other.pricing is None and other == NO_USAGE:
            return self
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_creation_tokens + other.cache_creation_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.audio_tokens + other.audio_tokens,
            details=_summed_details(self.details, other.details),
            pricing=_summed_cost(self, other),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data: the token counts, and a known cost in US dollars as text.

        A cost of which only a part is known is in `known_cost`. Reasoning and audio tokens and the details are left out
        where there are none: such data has the form of earlier versions.
        """
        data: dict[str, Any] = {name: count for name in TOKENS if (count := getattr(self, name)) or name not in _NEWER}
        if self.details is not NO_DETAILS and (details := self.details.to_dict()):
            data["details"] = details
        amount, complete = _priced(self)
        if complete or amount:
            data["cost" if complete else "known_cost"] = str(amount)
        return data

    def to_json(self) -> str:
        """Return the data of `to_dict` as JSON."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Usage:
        """Return the usage from the data of `to_dict`. Missing counts are 0, as in files of earlier versions."""
        if unknown := data.keys() - _KEYS:
            raise ValueError(
                f"{sorted(map(str, unknown))[0]!r:.50} is no field of a usage; there are: {', '.join(_KEYS)}"
            )
        cost, known_cost = data.get("cost"), data.get("known_cost")
        pricing = None
        if cost is not None or known_cost is not None:
            pricing = StoredCost(_stored_money(known_cost if cost is None else cost), cost is not None)
        details = UsageDetails.from_dict(data["details"]) if data.get("details") else NO_DETAILS
        return cls(*(_count(name, data.get(name, 0)) for name in TOKENS), details=details, pricing=pricing)


def sum_usages(usages: Iterable[Usage]) -> Usage:
    """Return the sum of `usages` with its cost, which is computed now."""
    # A request without any usage makes the cost of the others no less known, as in a sum of two.
    parts = [usage for usage in usages if usage.pricing is not None or usage != NO_USAGE]
    if not parts:
        return NO_USAGE
    counts = [sum(part) for part in zip(*map(_token_counts, parts), strict=True)]
    details = NO_DETAILS
    for number, part in enumerate(parts):
        details = _summed_details(details, part.details) if number else part.details
    return Usage(*counts, details=details, pricing=StoredCost(*_cost_of(parts)))


def _summed_details(first: UsageDetails, second: UsageDetails) -> UsageDetails:
    # Most requests have none, and a sum of a thousand requests is made in the loop of a job.
    return NO_DETAILS if first is NO_DETAILS and second is NO_DETAILS else first + second


class DeferredCost:
    """The cost of two usages together, computed when it is first read: that of most sums never is.

    Attributes:
        requests: The number of usages that are kept until then.
    """

    __slots__ = ("_known", "_parts", "requests")

    def __init__(self, first: Usage, second: Usage, requests: int) -> None:
        self.requests: int = requests
        self._known = (ZERO, False)
        self._parts: tuple[Usage, Usage] | None = (first, second)

    def known(self, usage: TokenCounts) -> tuple[Decimal, bool]:
        """Return the known part of the cost, and True if that is all of it."""
        # Another thread may set both attributes meanwhile: the result first, so that it is there without the parts.
        if (parts := self._parts) is not None:
            self._known = _cost_of(parts)
            self._parts = None
            self.requests = 0
        return self._known

    def __reduce__(self) -> tuple[type[StoredCost], tuple[Decimal, bool]]:
        return StoredCost, self.known(NO_USAGE)

    def parts(self) -> tuple[Usage, ...]:
        """Return the two usages until the cost is known, and then none."""
        return self._parts or ()


def _cost_of(usages: Iterable[Usage]) -> tuple[Decimal, bool]:
    """Return the known part of the cost of `usages`, and True if that is all of it.

    The sum of a thousand requests is a thousand sums inside each other: too many for recursion.
    """
    amount, complete = ZERO, True
    left = [*usages]
    while left:
        usage = left.pop()
        if isinstance(usage.pricing, DeferredCost) and (parts := usage.pricing.parts()):
            left += parts
            continue
        more, is_all = _priced(usage)
        amount += more
        complete = complete and is_all
    return amount, complete


def _priced(usage: Usage) -> tuple[Decimal, bool]:
    """Return the known part of the cost of `usage`, and True if that is all of it."""
    return (ZERO, False) if usage.pricing is None else usage.pricing.known(usage)


def _summed_cost(first: Usage, second: Usage) -> DeferredCost:
    """Return the cost of both, computed now if it would keep many usages in memory."""
    requests = 2
    for part in (first, second):
        if isinstance(part.pricing, DeferredCost):
            requests += part.pricing.requests
    cost = DeferredCost(first, second, requests)
    if requests > _MOST_DEFERRED:
        cost.known(first)
    return cost


_MOST_DEFERRED: Final = 1_000  # usages that a sum keeps

TOKENS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_creation_tokens",
    "reasoning_tokens",
    "audio_tokens",
)
"""The names of the token counts of a `Usage`."""

_token_counts: Final = attrgetter(*TOKENS)

_NEWER: Final = frozenset(("reasoning_tokens", "audio_tokens"))
_KEYS: Final = (*TOKENS, "details", "cost", "known_cost")

NO_USAGE: Final = Usage()


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}: expected int, got {type(value).__name__} {value!r:.50}")
    return value


def _stored_money(value: object) -> Decimal:
    """Return an amount that was stored as text. It may come from another program."""
    if not isinstance(value, str):
        raise TypeError(f"cost: expected an amount as text, got {type(value).__name__} {value!r:.50}")
    try:
        amount = Decimal(value)
    except ArithmeticError:
        raise ValueError(f"cost: {value!r:.50} is no amount of money") from None
    if not amount.is_finite():
        raise ValueError(f"cost: {value!r:.50} is no amount of money")
    return amount


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
