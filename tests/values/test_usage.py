"""usage.py: what calls cost, and what of a budget is spent."""

from __future__ import annotations

import copy
import json
import operator
import pickle
import threading
import weakref
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from toolcast.values.budgets import LIMITS, Budget, BudgetTracker
from toolcast.values.prices import TokenCounts
from toolcast.values.usage import NO_USAGE, Prices, Usage, sum_usages
from toolcast.values.usage_details import COUNTS, NO_DETAILS, UsageDetails

counts = st.integers(0, 10**6)
dollars = st.decimals(0, 10**6, places=6)
details = st.just(NO_DETAILS) | st.builds(UsageDetails, *[st.integers(0, 9)] * len(COUNTS))
tokens = st.builds(Usage, counts, counts, counts, counts, counts, counts, details=details)
usages = tokens | st.builds(Usage.with_cost, tokens, dollars) | st.builds(operator.add, tokens, tokens)


@given(usages, usages)
def test_usage_is_summed_field_by_field(one: Usage, other: Usage) -> None:
    both = one + other
    assert both.total_tokens == one.total_tokens + other.total_tokens
    assert both.cache_read_tokens == one.cache_read_tokens + other.cache_read_tokens
    assert both == other + one
    assert both.reasoning_tokens == one.reasoning_tokens + other.reasoning_tokens
    assert both.details.web_searches == one.details.web_searches + other.details.web_searches
    assert both.details == sum_usages([one, other]).details
    assert NO_USAGE + one == one + NO_USAGE == one


@given(usages, usages)
def test_a_sum_costs_what_its_parts_do(one: Usage, other: Usage) -> None:
    both = one + other
    assert both.known_cost == one.known_cost + other.known_cost
    if one != NO_USAGE and other != NO_USAGE:
        costs = [one.cost, other.cost]
        assert both.cost == (None if None in costs else one.known_cost + other.known_cost)
    assert (NO_USAGE + one).cost == (one + NO_USAGE).cost == one.cost


@given(usages)
def test_usage_can_be_stored(usage: Usage) -> None:
    again = Usage.from_dict(json.loads(usage.to_json()))
    assert (again, again.cost, again.known_cost) == (usage, usage.cost, usage.known_cost)
    assert again.to_dict() == usage.to_dict()


def test_usage_of_an_earlier_version_is_read() -> None:
    old = {"input_tokens": 1, "output_tokens": 2, "cache_read_tokens": 3, "cache_creation_tokens": 4}
    assert Usage.from_dict(old) == Usage(1, 2, 3, 4)
    assert Usage(1, 2, 3, 4).to_dict() == old


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ({"input_tokens": "1"}, TypeError, "input_tokens: expected int, got str"),
        ({"audio_tokens": True}, TypeError, "audio_tokens: expected int, got bool"),
        ({"cost": 0.1}, TypeError, "cost: expected an amount as text, got float"),
        ({"cost": "much"}, ValueError, "cost: 'much' is no amount of money"),
        ({"known_cost": "NaN"}, ValueError, "cost: 'NaN' is no amount of money"),
        ({"tokens": 1}, ValueError, "'tokens' is no field of a usage"),
    ],
)
def test_damaged_usage(data: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Usage.from_dict(data)


# -- prices


@pytest.mark.parametrize(
    "prices, usage, dollars",
    [
        (Prices(3, 15), Usage(1_000_000, 1_000_000), 18),
        (Prices(3, 15), Usage(1_000_000, 0, 500_000, 200_000), 3),
        (Prices(3, 15, 0.3), Usage(1_000_000, 0, 500_000), Decimal("1.65")),
        (Prices(3, 15, "0", Decimal("3.75")), Usage(1_000_000, 0, 500_000, 500_000), Decimal("1.875")),
        (Prices(3, 15), Usage(10, 0, 1_000_000), 3),  # a service that counts what it read beside its input
        (Prices(0, 0), Usage(10, 10), 0),
    ],
)
def test_what_it_costs(prices: Prices, usage: Usage, dollars: Decimal) -> None:
    assert prices.cost(usage) == dollars


# -- budgets


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_limit_is_above_nothing(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"budget {name}=.* must be above 0"):
        Budget(**{name: value})


def test_a_limit_in_dollars_needs_prices_here_or_above() -> None:
    priced = BudgetTracker(Budget(usd=1, prices=Prices(1, 1)))
    assert not priced.needs_prices
    assert not BudgetTracker(Budget(tokens=1), priced).needs_prices
    assert BudgetTracker(Budget(usd="0.1")).needs_prices
    assert BudgetTracker(None, BudgetTracker(Budget(usd=0.1))).needs_prices
    assert Budget(usd=0.1).usd == Decimal("0.1")


def test_without_prices_the_known_cost_counts() -> None:
    spending = BudgetTracker(Budget(usd=1))
    spending.add(Usage(10, 10))
    spending.add(Usage(10, 10).with_cost("0.75"))
    assert spending.exceeded(0) is None
    spending.add(Usage(10, 10).with_cost("0.25"))
    assert spending.exceeded(0) == ("usd", "the budget of 1 usd is used up (1.0 spent); allow more: Budget(usd=...)")


def spent(budget: Budget | None = None) -> BudgetTracker:
    """1,000 tokens (3 dollars), 2 tool calls and 5 seconds until 105."""
    spending = BudgetTracker(budget)
    spending.begin(100)
    spending.add(Usage(600, 400))
    spending.count(2)
    return spending


ONE_EACH = Prices(3_000, 3_000)


@pytest.mark.parametrize(
    "budget, limit, words",
    [
        (Budget(), None, ""),
        (Budget(tokens=1001, usd=3.01, seconds=5.1, tool_calls=2, prices=ONE_EACH), None, ""),
        (Budget(tokens=1000), "tokens", "1000 tokens is used up (1000 spent)"),
        (Budget(usd=2.5, prices=ONE_EACH), "usd", "2.5 usd is used up (3.0 spent)"),
        (Budget(seconds=5), "seconds", "5 seconds is used up (5.0 spent)"),
        (Budget(tool_calls=1), "tool_calls", "1 tool_calls is used up (2 spent)"),
        (Budget(tokens=1, seconds=1), "tokens", "allow more: Budget(tokens=...)"),
    ],
)
def test_limits(budget: Budget, limit: str | None, words: str) -> None:
    found = spent(budget).exceeded(105.0)
    assert (None if found is None else found[0]) == limit
    assert found is None or words in found[1]


def test_without_a_budget_there_is_no_limit() -> None:
    assert spent().exceeded(10**9) is None


def test_a_limit_above_holds_for_all_below() -> None:
    parent = BudgetTracker(Budget(tokens=100))
    child = BudgetTracker(Budget(tokens=1000), parent)
    child.add(Usage(60, 0))
    parent.add(Usage(40, 0))
    assert child.exceeded(0) == parent.exceeded(0)
    assert child.exceeded(0) is not None
    child.add(Usage(940, 0))
    found = child.exceeded(0)
    assert found is not None
    assert "1000 tokens" in found[1]


def test_time_counts_while_it_is_worked() -> None:
    spending = BudgetTracker()
    assert spending.seconds(5) == 0
    spending.begin(10)
    assert spending.seconds(12) == 2
    spending.end(13)
    spending.begin(20)
    spending.end(21)
    assert spending.seconds(99) == 4


def test_an_end_without_a_beginning_is_nothing() -> None:
    parent = BudgetTracker()
    child = BudgetTracker(None, parent)
    parent.begin(0)
    child.end(5)
    assert (child.seconds(10), parent.seconds(10)) == (0, 10)


def test_time_of_works_at_once_counts_once() -> None:
    parent = BudgetTracker()
    one, other = BudgetTracker(None, parent), BudgetTracker(None, parent)
    one.begin(0)
    parent.begin(1)
    other.begin(2)
    one.end(3)
    parent.end(4)
    other.end(6)
    assert [spending.seconds(9) for spending in (one, other, parent)] == [3, 4, 6]


def test_what_was_spent_is_forgotten() -> None:
    parent = BudgetTracker()
    child = BudgetTracker(Budget(tokens=1), parent)
    child.add(Usage(5, 5))
    child.count(3)
    child.reset()
    assert (child.usage, child.tool_calls, child.exceeded(0)) == (NO_USAGE, 0, None)
    assert (parent.usage, parent.tool_calls) == (Usage(5, 5), 3)


def test_what_was_spent_can_be_stored() -> None:
    stored = json.loads(json.dumps(spent().to_dict(103)))
    assert stored["usage"]["input_tokens"] == 600
    again = BudgetTracker(Budget(seconds=4))
    again.restore(stored)
    assert (again.usage, again.tool_calls, again.seconds(0)) == (Usage(600, 400), 2, 3)
    again.begin(1000)
    assert again.exceeded(1000.5) is None
    assert again.exceeded(1001) is not None


def test_threads_may_spend_at_once() -> None:
    parent = BudgetTracker()
    children = [BudgetTracker(None, parent) for _ in range(4)]
    start = threading.Barrier(len(children))

    def work(child: BudgetTracker) -> None:
        start.wait()
        for _ in range(500):
            child.begin(0)
            child.add(Usage(1, 1))
            child.count(1)
            child.end(1)

    threads = [threading.Thread(target=work, args=(child,)) for child in children]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert parent.usage == Usage(2000, 2000)
    assert parent.tool_calls == 2000
    assert all(child.seconds(0) == 500 for child in children)


class Family(RuleBasedStateMachine):
    """A parent and two children that work, spend and rest in any order: what is above is the sum of what is below."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.parent = BudgetTracker()
        self.all = [self.parent, BudgetTracker(None, self.parent), BudgetTracker(None, self.parent)]
        self.working = [0, 0, 0]
        self.worked = [0, 0, 0]

    @rule(who=st.integers(0, 2), usage=usages, calls=st.integers(0, 3))
    def spend(self, who: int, usage: Usage, calls: int) -> None:
        before = self.parent.usage
        self.all[who].add(usage)
        self.all[who].count(calls)
        assert self.parent.usage == before + usage

    @rule(who=st.integers(0, 2))
    def begin(self, who: int) -> None:
        self.all[who].begin(self.now)
        self.working[who] += 1

    @rule(who=st.integers(1, 2))
    def end(self, who: int) -> None:
        self.all[who].end(self.now)
        self.working[who] = max(self.working[who] - 1, 0)

    @rule(seconds=st.integers(0, 5))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        anybody = any(self.working)
        self.worked = [
            worked + seconds * bool(working)
            for worked, working in zip(self.worked, [anybody, *self.working[1:]], strict=True)
        ]

    @invariant()
    def time_is_counted_once(self) -> None:
        assert [spending.seconds(self.now) for spending in self.all] == self.worked


TestFamily = Family.TestCase


class Counted:
    """Prices of one dollar that count how often they are read."""

    def __init__(self) -> None:
        self.reads = 0

    def known(self, usage: TokenCounts) -> tuple[Decimal, bool]:
        self.reads += 1
        return Decimal(1), True


def test_a_sum_finds_no_prices_until_its_cost_is_read() -> None:
    pricing = Counted()
    total = NO_USAGE
    for _ in range(50):
        total += Usage(input_tokens=1, pricing=pricing)
    assert pricing.reads == 0
    assert (total.cost, total.input_tokens) == (50, 50)
    assert total.cost == 50
    assert pricing.reads == 50
    total += Usage(pricing=pricing, output_tokens=1)
    assert (total.cost, pricing.reads) == (51, 51)


def test_a_sum_that_was_never_read_is_pickled_with_its_cost() -> None:
    total = NO_USAGE
    for _ in range(900):
        total += Usage(input_tokens=1, pricing=Counted())
    assert pickle.loads(pickle.dumps(total)).cost == 900
    assert copy.deepcopy(total).cost == 900


def test_a_sum_of_many_keeps_few_of_them() -> None:
    kept: list[weakref.ref[Counted]] = []
    total = NO_USAGE
    for _ in range(2_500):
        pricing = Counted()
        kept.append(weakref.ref(pricing))
        total += Usage(input_tokens=1, pricing=pricing)
    del pricing
    assert sum(each() is not None for each in kept) <= 1_001
    assert total.cost == 2_500
    assert not any(each() for each in kept)
    assert pickle.loads(pickle.dumps(total)).cost == 2_500


@given(st.lists(usages, max_size=6))
def test_a_sum_of_many_is_the_sum_of_each_with_the_next(given: list[Usage]) -> None:
    both = sum_usages(given), sum(given, NO_USAGE)
    assert both[0] == both[1]
    assert both[0].cost == both[1].cost
    assert both[0].known_cost == both[1].known_cost
