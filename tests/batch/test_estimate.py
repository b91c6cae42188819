"""Tests of `Job.estimate`: the sample, its projection, and that nothing is asked twice."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from toolcast import Budget, Prices, Settings, ToolOrchestratingLLM, Usage
from toolcast.batch import Estimate, Interval, Job, JobStopped, Outcome
from toolcast.events import Finish, ToolCallDone, ToolCallStart, UsageReport
from toolcast.testing import ScriptedLLM, ScriptedRequest
from toolcast.values.prices import ModelPricing

PRICES = Prices(1_000_000, 1_000_000)


class Number(BaseModel):
    value: int


def answer(request: ScriptedRequest) -> Any:
    text = request.messages[0].text
    call = ToolCallStart("1", "Number"), ToolCallDone("1", "Number", f'{{"value": {text}}}')
    return [*call, UsageReport(Usage(10 + len(text), 5)), Finish("tool_use")]


def job(inputs: Any, prices: Prices | None = PRICES, **options: Any) -> Job[Number]:
    call = ToolOrchestratingLLM(Number, "{text}", ScriptedLLM(answer, prices=prices), settings=Settings(max_tokens=9))
    return Job(call, inputs, **options)


def asked(of: Job[Number]) -> list[str]:
    llm: Any = of.call.llm
    return [request.messages[0].text for request in llm.requests]


def outcome(tokens: int, seconds: float = 1.0, error: Exception | None = None) -> Outcome[int]:
    usage = Usage(tokens, tokens).with_pricing(ModelPricing("openai", ("m",), PRICES))
    return Outcome(0, "", None, None, error, 1, usage, seconds)


def test_a_sample_is_spread_over_the_inputs() -> None:
    texts = [str(number) for number in range(1000)]
    made = job(texts)
    estimate = made.estimate(10)
    assert sorted(map(int, asked(made))) == [50, 150, 250, 350, 450, 550, 650, 750, 850, 950]
    assert (len(estimate.outcomes), estimate.total, estimate.failed) == (10, 1000, 0)
    cost = estimate.cost
    assert cost is not None
    assert cost.low <= 18_000 <= cost.high
    assert estimate.output_tokens == Interval(5000.0, 5000.0, 5000.0)


def test_the_first_are_asked_without_a_length_and_an_iterator_loses_none() -> None:
    def texts() -> Iterator[str]:
        yield from map(str, range(50))

    made = job(texts())
    estimate = made.estimate(5)
    assert sorted(map(int, asked(made))) == [0, 1, 2, 3, 4]
    assert (estimate.total, estimate.cost, estimate.seconds) == (None, None, None)
    assert "the number of all items is unknown" in str(estimate)
    projected = estimate.for_items(100)
    assert projected.output_tokens == Interval(500.0, 500.0, 500.0)
    assert [outcome.input for outcome in made.run()] == [str(number) for number in range(50)]


def test_a_run_with_a_checkpoint_does_not_ask_for_the_sample_again(tmp_path: Path) -> None:
    made = job([str(number) for number in range(40)], checkpoint=tmp_path / "numbers.db")
    made.estimate()
    assert len(asked(made)) == 20
    assert len(made.estimate().outcomes) == 20
    assert len(asked(made)) == 20
    assert len(list(made.run())) == 40
    assert sorted(asked(made), key=int) == [str(number) for number in range(40)]


def test_all_of_few_inputs_are_asked() -> None:
    estimate = job(["1", "22"]).estimate()
    assert estimate.cost == Interval(33.0, 33.0, 33.0)
    assert str(estimate).startswith("2 of 2 items asked. All of them: $33.00 ($33.00 to $33.00); 23 (23 to 23) tokens")


def test_failed_items_and_unknown_prices() -> None:
    estimate = job(["1", "x", "3", "4"], prices=None).estimate()
    assert estimate.failed == 1
    assert estimate.cost is None
    assert "4 of 4 items asked, 1 failed. All of them: cost unknown; " in str(estimate)


def test_one_item_is_no_interval() -> None:
    estimate = job([str(number) for number in range(10)]).estimate(1)
    assert estimate.cost == Interval(16.0, 160.0, float("inf"))
    assert "All of them: $160.00; 110 tokens in, 50 out;" in str(estimate)


def test_the_time_is_that_of_the_narrowest_limit() -> None:
    outcomes = [outcome(300, 2.0), outcome(300, 2.0)]
    free = Estimate(outcomes, 600, 10)
    assert free.seconds == pytest.approx((120.0, 120.0, 120.0))
    assert Estimate(outcomes, 600, 10, rpm=60).seconds == pytest.approx((600.0, 600.0, 600.0))
    assert Estimate(outcomes, 600, 10, rpm=60, tpm=6000).seconds == pytest.approx((3600.0, 3600.0, 3600.0))
    assert "2:00 (2:00 to 2:00) with 10 at once" in str(free)


@pytest.mark.parametrize("sample", [2, 5, 20, 40])
def test_the_interval_covers_the_true_value_in_95_of_100_cases(sample: int) -> None:
    chance, covered, rounds = random.Random(sample), 0, 600
    for _ in range(rounds):
        tokens = [max(round(chance.gauss(500, 100)), 1) for _ in range(400)]
        found = Estimate([outcome(each) for each in tokens[:sample]], 400, 1).input_tokens
        assert found is not None
        covered += found.low <= sum(tokens) <= found.high
    assert 0.92 <= covered / rounds <= 0.98


def test_what_no_estimate_can_be_made_of() -> None:
    with pytest.raises(ValueError, match="a sample of 0 inputs: expected at least 1"):
        job(["1"]).estimate(0)
    with pytest.raises(ValueError, match="no inputs"):
        job([]).estimate()

    async def texts() -> AsyncIterator[str]:
        yield "1"

    with pytest.raises(TypeError, match="a sample reads no async iterable"):
        job(texts()).estimate()


def test_a_sample_counts_for_the_budget() -> None:
    with pytest.raises(JobStopped, match="the budget is used up"):
        job([str(number) for number in range(40)], budget=Budget(usd=120)).estimate()
