"""prices.py: what a request has cost, by own prices or by the price list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from support.process import Process
from toolcast.values import prices
from toolcast.values.prices import ModelPricing, Prices, StoredCost, has_price_list, has_prices
from toolcast.values.usage import Usage, UsageDetails

USAGE = Usage(1_000_000, 100_000)


@pytest.fixture
def without_list(process: Process) -> Iterator[None]:
    """An environment without genai-prices."""
    process.without("genai_prices")
    prices._calculator.cache_clear()
    yield
    prices._calculator.cache_clear()


def cost(provider: str, *models: str, usage: Usage = USAGE, own: Prices | None = None) -> Decimal | None:
    amount, complete = ModelPricing(provider, models, own).known(usage)
    return amount if complete else None


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4o"),
        ("openai", "gpt-4o-2024-08-06"),
        ("azure-v1", "gpt-4o"),
        ("anthropic", "claude-sonnet-4-5"),
        ("google", "gemini-2.5-flash"),
        ("mistral", "mistral-large-latest"),
        ("groq", "llama-3.3-70b-versatile"),
        ("xai", "grok-4"),
        ("deepseek", "deepseek-chat"),
        ("openrouter", "openai/gpt-4o"),
    ],
)
def test_models_that_are_listed(provider: str, model: str) -> None:
    found = cost(provider, model)
    assert found is not None
    assert found > 0
    assert has_prices(provider, model)


@pytest.mark.parametrize(
    ("provider", "model"),
    [("ollama", "llama3.2"), ("openai", "no-such-model"), ("openai-compatible", "gpt-4o"), ("scripted", "scripted")],
)
def test_an_unknown_model_costs_an_unknown_amount(provider: str, model: str) -> None:
    assert cost(provider, model) is None
    assert ModelPricing(provider, (model,)).known(USAGE) == (Decimal(0), False)
    assert not has_prices(provider, model)


def test_the_model_of_the_response_goes_first() -> None:
    assert cost("openai", "gpt-4o-mini", "gpt-4o") == cost("openai", "gpt-4o-mini")
    assert cost("openai", "my-deployment", "gpt-4o") == cost("openai", "gpt-4o")


def test_own_prices_go_before_the_list() -> None:
    assert cost("openai", "gpt-4o", own=Prices(1, 10)) == 2
    assert cost("ollama", "llama3.2", own=Prices(0, 0)) == 0


def test_cached_input_costs_less() -> None:
    plain, cached = (cost("openai", "gpt-4o", usage=Usage(1000, 10, read)) for read in (0, 500))
    assert plain is not None
    assert cached is not None
    assert cached < plain


def test_audio_has_its_own_price() -> None:
    text = cost("google", "gemini-2.5-flash", usage=Usage(1000, 10, 100))
    audio = cost("google", "gemini-2.5-flash", usage=Usage(1000, 10, 100, audio_tokens=500))
    assert text is not None
    assert audio is not None
    assert audio > text


def test_counts_that_contradict_each_other_have_a_cost() -> None:
    assert cost("openai", "gpt-4o", usage=Usage(10, 10, 500)) == cost("openai", "gpt-4o", usage=Usage(500, 10, 500))


def test_the_cost_of_a_model_is_computed_when_it_is_read() -> None:
    usage = Usage(1_000_000, 100_000, pricing=ModelPricing("x", ("y",), Prices(1, 10)))
    assert usage.cost == usage.known_cost == 2
    assert usage == USAGE
    assert "pricing" not in repr(usage)
    assert (usage + usage).cost == 4
    assert (usage + USAGE).cost is None
    assert (usage + USAGE).known_cost == 2


def test_a_stored_cost() -> None:
    assert StoredCost(Decimal(3)).known(USAGE) == (Decimal(3), True)
    assert USAGE.with_cost(0.1).cost == Decimal("0.1")
    assert USAGE.cost is None


def test_without_the_list(without_list: None) -> None:
    assert not has_price_list()
    assert cost("openai", "gpt-4o") is None
    assert cost("openai", "gpt-4o", own=Prices(1, 10)) == 2
    assert not has_prices("openai", "gpt-4o")


TOKENS = st.integers(0, 3_000_000) | st.integers(0, 20_000) | st.just(20_000_000)
MODELS = [
    ("openai", "gpt-4o-mini"),
    ("openai", "gpt-5.4"),
    ("anthropic", "claude-sonnet-4-5"),
    ("google", "gemini-2.5-pro"),
    ("openai", "no-such-model"),
]


@given(st.sampled_from(MODELS), TOKENS, TOKENS, TOKENS)
def test_proportional_prices_cost_what_the_list_calculates(
    model: tuple[str, str], input: int, output: int, cached: int
) -> None:
    usage = Usage(input, output, min(cached, input))
    assert prices._listed_cost(*model, usage) == prices._calculated_cost(*model, usage)


def test_only_proportional_prices_are_taken_from_samples() -> None:
    assert prices._rates("openai", "gpt-4o-mini", 10_000_000, 0) is not None
    assert prices._rates("google", "gemini-2.5-pro", 10_000_000, 0) is None  # long prompts cost more per token
    assert prices._rates("google", "gemini-2.5-pro", 10_000, 0) is not None
    assert prices._rates("openai", "no-such-model", 10_000, 0) is None


def test_details_have_the_prices_of_the_list() -> None:
    plain = cost("anthropic", "claude-sonnet-4-5", usage=Usage(1000, 10, 0, 100))
    for_an_hour = Usage(1000, 10, 0, 100, details=UsageDetails(cache_creation_1h_tokens=100))
    assert plain is not None
    assert cost("anthropic", "claude-sonnet-4-5", usage=for_an_hour) == plain + 100 * (6 - Decimal("3.75")) / 1_000_000
    minutes = Usage(1000, 10, 0, 100, details=UsageDetails(cache_creation_5m_tokens=100))
    assert cost("anthropic", "claude-sonnet-4-5", usage=minutes) == plain
    image = Usage(1000, 100, details=UsageDetails(output_image_tokens=90))
    expected = (1000 * Decimal("0.3") + 10 * Decimal("2.5") + 90 * 30) / 1_000_000
    assert cost("google", "gemini-2.5-flash-image", usage=image) == expected


def test_audio_with_details_counts_where_it_is() -> None:
    usage = Usage(1000, 100, 100, audio_tokens=60)
    input_cost, output_cost = (
        cost("openai", "gpt-audio", usage=replace(usage, details=details))
        for details in (UsageDetails(input_audio_tokens=60), UsageDetails(output_audio_tokens=60))
    )
    assert input_cost is not None
    assert output_cost is not None
    assert input_cost < output_cost


def test_searches_that_have_no_price_make_a_cost_incomplete() -> None:
    searched = Usage(1_000_000, 100_000, details=UsageDetails(web_searches=3))
    listed = ModelPricing("anthropic", ("claude-sonnet-4-5",)).known(searched)
    plain = ModelPricing("anthropic", ("claude-sonnet-4-5",)).known(USAGE)
    assert listed == (plain[0] + Decimal("0.03"), True)
    unlisted = ModelPricing("deepseek", ("deepseek-chat",))
    assert unlisted.known(searched) == (unlisted.known(USAGE)[0], False)
    assert ModelPricing("x", ("y",), Prices(1, 10)).known(searched) == (Decimal(2), False)
    assert ModelPricing("x", ("y",), Prices(1, 10)).known(USAGE) == (Decimal(2), True)


def test_own_prices_of_input_that_is_written_to_a_cache() -> None:
    usage = Usage(1_000_000, 0, 200_000, 500_000, details=UsageDetails(cache_creation_1h_tokens=300_000))
    assert Prices(1, 5, "0.1", "1.25", 2).cost(usage) == Decimal("0.3") + Decimal("0.02") + Decimal("0.25") + Decimal(
        "0.6"
    )
    assert Prices(1, 5, "0.1", "1.25").cost(usage) == Decimal("0.3") + Decimal("0.02") + Decimal("0.625")
    assert Prices(1, 5, cache_creation_1h=2).cost(usage) == Decimal("1.3")
