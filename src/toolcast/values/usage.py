"""Token usage with its cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from decimal import Decimal
from operator import attrgetter
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
        where there are none.
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
        """Return the usage from the data of `to_dict`. Missing counts are 0."""
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
