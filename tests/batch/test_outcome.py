"""Tests of `Outcome`."""

from __future__ import annotations

from decimal import Decimal

from toolcast import Prices, Usage
from toolcast.batch import Outcome
from toolcast.prices import ModelPricing


def test_an_outcome_has_an_output_or_an_error() -> None:
    album, failed = Outcome(0, "a", {"topic": "sea"}, "an album"), Outcome(1, "b", None, error=ValueError("no"))
    assert (album.ok, album.error_text) == (True, None)
    assert (failed.ok, failed.error_text) == (False, "ValueError: no")


def test_the_cost_is_that_of_the_usage() -> None:
    usage = Usage(1_000_000, 0).with_pricing(ModelPricing("openai", ("x",), Prices(2, 4)))
    assert Outcome(0, "a", None, 1, usage=usage).cost == Decimal(2)
    assert Outcome(0, "a", None, 1, usage=Usage(5, 5)).cost is None
