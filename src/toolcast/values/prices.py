"""`Prices`, and what a request has cost: an estimate by them, or by the price list of genai-prices.

Nothing is computed before a cost is read: the price list takes longer to import than most programs take to start. It is
part of the installed package; toolcast downloads nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache, lru_cache
from time import monotonic
from typing import Final, NamedTuple, Protocol, TypeAlias, cast

from ..lazy.lazy_dataclasses import dataclass
from .usage_details import NO_DETAILS, UsageDetails

Amount: TypeAlias = Decimal | float | int | str
"""The types accepted as an amount of money. A float is read as it is written: 0.1 is a tenth."""

ZERO: Final = Decimal(0)
_MILLION: Final = Decimal(1_000_000)

# Providers that genai-prices calls by another name.
_PROVIDERS: Final = {
    "azure-v1": "azure",
    "bedrock": "aws",
    "bedrock-mantle": "aws",
    "anthropic-vertex": "google",
    "xai": "x-ai",
}
# Any service that speaks OpenAI's protocol, which the price list would take for OpenAI.
_UNLISTED: Final = "openai-compatible"


def as_money(value: Amount) -> Decimal:
    """Return an amount as a Decimal, with the digits that it is written with."""
    return value if isinstance(value, Decimal) else Decimal(str(value))


class TokenCounts(Protocol):
    """The token counts that a price is computed from: a `Usage`."""

    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def cache_read_tokens(self) -> int: ...
    @property
    def cache_creation_tokens(self) -> int: ...
    @property
    def audio_tokens(self) -> int: ...
    @property
    def details(self) -> UsageDetails: ...


@dataclass(frozen=True, slots=True, init=False)
class Prices:
    """US dollars per million tokens. Cached input has the price of other input by default.

    Attributes:
        input: The price of input.
        output: The price of output, reasoning included.
        cache_read: The price of input that was read from a cache.
        cache_creation: The price of input that was written to a cache.
        cache_creation_1h: The price of input that was written to a cache for an hour. Default: `cache_creation`.
    """

    input: Decimal
    output: Decimal
    cache_read: Decimal | None
    cache_creation: Decimal | None
    cache_creation_1h: Decimal | None

    def __init__(
        self,
        input: Amount,
        output: Amount,
        cache_read: Amount | None = None,
        cache_creation: Amount | None = None,
        cache_creation_1h: Amount | None = None,
    ) -> None:
        given = {
            "input": input,
            "output": output,
            "cache_read": cache_read,
            "cache_creation": cache_creation,
            "cache_creation_1h": cache_creation_1h,
        }
        for name, value in given.items():
            object.__setattr__(self, name, None if value is None else as_money(value))

    def cost(self, usage: TokenCounts) -> Decimal:
        """Return the cost of `usage` in US dollars."""
        read = self.input if self.cache_read is None else self.cache_read
        creation = self.input if self.cache_creation is None else self.cache_creation
        plain = max(usage.input_tokens - usage.cache_read_tokens - usage.cache_creation_tokens, 0)
        cached = usage.cache_read_tokens * read + usage.cache_creation_tokens * creation
        if self.cache_creation_1h is not None:
            hour = min(usage.details.cache_creation_1h_tokens, usage.cache_creation_tokens)
            cached += hour * (self.cache_creation_1h - creation)
        return (plain * self.input + cached + usage.output_tokens * self.output) / _MILLION


class Pricing(Protocol):
    """A way to find out what a usage has cost."""

    def known(self, usage: TokenCounts) -> tuple[Decimal, bool]:
        """Return the known cost in US dollars, and True if that is all of it."""
        ...


@dataclass(frozen=True, slots=True)
class StoredCost:
    """A cost that is known already: reported by the service, summed, or read from a file."""

    amount: Decimal
    complete: bool = True

    def known(self, usage: TokenCounts) -> tuple[Decimal, bool]:
        """Return the stored cost."""
        return self.amount, self.complete


@dataclass(frozen=True, slots=True)
class ModelPricing:
    """The prices of one request: `prices`, or those of the first of `models` that the price list has."""

    provider: str
    models: tuple[str, ...]
    prices: Prices | None = None

    def known(self, usage: TokenCounts) -> tuple[Decimal, bool]:
        """Return the cost of one request. It is not all of it where the provider ran searches that have no price."""
        if self.prices is not None:
            # Prices of tokens do not have the fee of a search.
            return self.prices.cost(usage), not usage.details.web_searches
        for model in self.models:
            if (cost := _listed_cost(self.provider, model, usage)) is not None:
                return cost, _are_priced(self.provider, model, usage.details)
        return ZERO, False


@dataclass(frozen=True, slots=True)
class DiscountedPricing:
    """The prices of a request that costs a part of the usual price, as in a batch of the provider."""

    usual: Pricing
    factor: Decimal

    def known(self, usage: TokenCounts) -> tuple[Decimal, bool]:
        """Return the cost of one request."""
        amount, complete = self.usual.known(usage)
        return amount * self.factor, complete


def listed_prices(provider: str, model: str) -> Prices | None:
    """Return the prices of short input and output by the price list; None if it has no such model."""
    if provider == _UNLISTED or _calculator() is None:
        return None
    input, output = (_calculated_cost(provider, model, usage) for usage in _units(_A_THOUSAND.input_tokens)[:2])
    return None if input is None or output is None else Prices(input * 1000, output * 1000)


def listed_models(provider: str) -> list[str]:
    """Return the names of the provider's models in the price list."""
    if provider == _UNLISTED or _calculator() is None:
        return []
    from genai_prices.data import providers

    name = _PROVIDERS.get(provider, provider)
    return [model.id for listed in providers if listed.id == name for model in listed.models]


def has_prices(provider: str, model: str) -> bool:
    """Return True if the price list has this model."""
    return _listed_cost(provider, model, _A_THOUSAND) is not None


def has_price_list() -> bool:
    """Return True if genai-prices is installed."""
    return _calculator() is not None


class _Tokens(NamedTuple):
    input_tokens: int = 1000
    output_tokens: int = 1000
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    audio_tokens: int = 0
    details: UsageDetails = NO_DETAILS


_A_THOUSAND: Final = _Tokens()

_SIZES: Final = (10_000, 100_000, 1_000_000, 10_000_000)
"""The tokens up to which rates are sampled. The last is larger than any context window."""


def _units(size: int) -> list[_Tokens]:
    """Return `size` tokens of each price: input, output, read from the cache, and written to it."""
    return [_Tokens(size, 0), _Tokens(0, size), _Tokens(size, 0, size), _Tokens(size, 0, 0, size)]


def _samples(size: int) -> list[_Tokens]:
    """Return counts from small ones to `size`: what costs the same per token in all of them has one price."""
    return [
        *[
            _Tokens(each, each, cached, written)
            for each in (10, size // 10, size)
            for cached in (0, each // 2)
            for written in (0, each // 5)
        ],
        _Tokens(10, size),
        _Tokens(size, 10),
    ]


@cache
def _calculator() -> Callable[[str, str, Mapping[str, int]], Decimal] | None:
    """Return a function of provider, model and token counts for the price by genai-prices; None without the package."""
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None

    def total(provider: str, model: str, tokens: Mapping[str, int]) -> Decimal:
        return calc_price(Usage(**tokens), model, provider_id=provider).total_price

    return total


def _listed_cost(provider: str, model: str, usage: TokenCounts) -> Decimal | None:
    """Return the cost by the price list; None if it has no such model."""
    if provider == _UNLISTED or _calculator() is None:
        return None
    tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_creation_tokens
    if tokens <= _SIZES[-1] and not usage.audio_tokens and not _details(usage):
        size = _SIZES[bisect_left(_SIZES, tokens)]
        rates = _rates(provider, model, size, int(monotonic() / _FRESH))
        if rates is not None:
            return rates.cost(usage)
    return _calculated_cost(provider, model, usage)


_FRESH: Final = 60.0
"""The seconds for which rates are used: some models have other prices at other times of the day."""


@lru_cache(maxsize=256)
def _rates(provider: str, model: str, size: int, minute: int) -> Prices | None:
    """Return the prices of input up to `size` tokens, if its cost is proportional to them.

    They cost a fiftieth of asking the list. Many models have a higher price for long input, and one for all the rest.
    None for models that are not listed, and where the price changes below `size`.
    """
    costs = [_calculated_cost(provider, model, usage) for usage in _units(size)]
    if None in costs:
        return None
    found = Prices(*[cast("Decimal", cost) * (_MILLION / size) for cost in costs])
    samples = _samples(size)
    calculated = [_calculated_cost(provider, model, usage) for usage in samples]
    return found if calculated == [found.cost(usage) for usage in samples] else None


_DETAILS: Final = {
    "cache_creation_1h_tokens": "cache_write_1h_tokens",
    "input_audio_tokens": "input_audio_tokens",
    "output_audio_tokens": "output_audio_tokens",
    "input_image_tokens": "input_image_tokens",
    "output_image_tokens": "output_image_tokens",
    "input_video_tokens": "input_video_tokens",
    "cache_read_audio_tokens": "cache_audio_read_tokens",
    "web_searches": "web_searches",
    "code_executions": "code_executions",
}
"""Our names of counts that can have prices of their own, and those of the price list."""

_FEES: Final = {"web_searches": "web_searches_kcount"}
"""The counts that are billed beside the tokens, and their prices in the list. A cost without one is incomplete."""


def _details(usage: TokenCounts) -> dict[str, int]:
    """Return the counts of a usage that can have prices of their own, by their names in the price list."""
    if usage.details is NO_DETAILS:
        return {}
    return {_DETAILS[name]: count for name, count in usage.details.counts.items() if name in _DETAILS}


def _are_priced(provider: str, model: str, details: UsageDetails) -> bool:
    """Return True if the list has the prices of all fees in `details`."""
    fees = [] if details is NO_DETAILS else [price for name, price in _FEES.items() if getattr(details, name)]
    return not fees or all(price in _listed_fees(provider, model) for price in fees)


@lru_cache(maxsize=256)
def _listed_fees(provider: str, model: str) -> frozenset[str]:
    """Return the names of the fees that the list has for a model that it has."""
    from genai_prices import Usage, calc_price

    prices = calc_price(Usage(input_tokens=1), model, provider_id=_PROVIDERS.get(provider, provider)).model_price
    return frozenset(price for price in _FEES.values() if getattr(prices, price) is not None)


def _calculated_cost(provider: str, model: str, usage: TokenCounts) -> Decimal | None:
    """Return the cost that the price list calculates; None if it has no such model."""
    calculate = _calculator()
    assert calculate is not None
    cached = usage.cache_read_tokens + usage.cache_creation_tokens
    tokens = {
        "input_tokens": max(usage.input_tokens, cached),  # a service may count cached input beside its input
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_creation_tokens,
    }
    tokens |= _details(usage)
    if not (usage.details.input_audio_tokens or usage.details.output_audio_tokens):
        # Usage without details: all of its audio counts as input.
        tokens["input_audio_tokens"] = max(min(usage.audio_tokens, usage.input_tokens - cached), 0)
    for kind in ("audio", "image", "video"):
        if tokens.get(f"input_{kind}_tokens"):  # the list needs their number in the cache: cached input counts as text
            tokens.setdefault(f"cache_{kind}_read_tokens", 0)
            tokens.setdefault(f"cache_{kind}_write_tokens", 0)
    try:
        return calculate(_PROVIDERS.get(provider, provider), model, tokens)
    except (LookupError, ValueError, ArithmeticError):  # unknown, or a combination of counts that it cannot price
        return None
