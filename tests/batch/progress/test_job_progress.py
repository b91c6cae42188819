from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from toolcast.batch import Outcome
from toolcast.batch.progress.job_progress import JobActivity, JobProgress
from toolcast.values.prices import Prices, StoredCost
from toolcast.values.usage import NO_USAGE, Usage

CENT = Usage(90, 10, pricing=StoredCost(Decimal("0.01")))


def outcome(usage: Usage = CENT, error: Exception | None = None) -> Outcome[str]:
    return Outcome(0, "k", {}, None if error else "x", error, 1, usage)


def running(
    total: int | None, ended: int, seconds_each: float = 1.0, observe: Callable[[], JobActivity] = JobActivity
) -> JobProgress:
    account = JobProgress(observe)
    account.begin(total, 100.0)
    for each in range(ended):
        account.ended(outcome(), 100.0 + (each + 1) * seconds_each)
    return account


def test_the_counts_costs_and_times_of_a_running_job() -> None:
    account = running(100, 10, observe=lambda: JobActivity(1, 8, "rate limit", "$0.10 of $5.00"))
    now = account.snapshot(110.0)
    assert (now.state, now.done, now.failed, now.running, now.total) == ("running", 10, 0, 1, 100)
    assert (now.seconds, now.per_second, now.seconds_left) == (10.0, 1.0, 90.0)
    assert (now.usage, now.cost, now.projected_cost) == (Usage(900, 100), Decimal("0.10"), Decimal("1.00"))
    assert (now.concurrency, now.limited_by, now.budget) == (8, "rate limit", "$0.10 of $5.00")
    assert now.share == 0.1


def test_failed_items_count_as_done_and_cost_money() -> None:
    account = running(4, 1)
    account.ended(outcome(error=ValueError("no")), 102.0)
    now = account.snapshot(102.0)
    assert (now.done, now.failed, now.cost) == (2, 1, Decimal("0.02"))


def test_items_of_a_checkpoint_count_for_cost_but_not_for_the_rate() -> None:
    account = JobProgress()
    account.begin(100, 0.0)
    for _ in range(50):
        account.restored(outcome(Usage(90, 10, pricing=StoredCost(Decimal("0.03")))))
    before = account.snapshot(1.0)
    assert (before.done, before.from_checkpoint, before.per_second, before.seconds_left) == (50, 50, 0.0, None)
    assert (before.cost, before.projected_cost) == (Decimal("1.50"), None)
    for second in range(10):
        account.ended(outcome(), second + 1.0)
    now = account.snapshot(10.0)
    assert (now.per_second, now.seconds_left) == (1.0, 40.0)
    assert now.projected_cost == Decimal("1.60") + Decimal("0.40")  # the items to come cost what those of this run did


def test_the_rate_is_that_of_the_last_minute() -> None:
    account = running(None, 100)  # one a second
    for each in range(240):  # and then four
        account.ended(outcome(), 200.0 + (each + 1) / 4)
    assert account.snapshot(260.0).per_second == pytest.approx(4.0, rel=0.05)
    assert account.snapshot(260.0).seconds_left is None
    assert account.snapshot(260.0).share is None


def test_few_items_in_a_minute_are_measured_over_the_whole_run() -> None:
    account = running(100, 4, seconds_each=50.0)
    now = account.snapshot(300.0)
    assert now.per_second == pytest.approx(4 / 200)
    assert now.seconds_left == pytest.approx(96 * 50)


def test_a_job_that_is_done_has_the_rate_of_all_its_time_and_a_stopped_clock() -> None:
    account = running(20, 20)
    account.finish()
    assert account.snapshot(120.0).state == "finishing"
    assert account.snapshot(120.0).seconds_left is None
    account.end(125.0)
    account.end(130.0)
    account.finish()
    now = account.snapshot(1000.0)
    assert (now.state, now.seconds, now.per_second) == ("done", 25.0, 20 / 25)
    assert now.projected_cost == now.cost == Decimal("0.20")


def test_unknown_prices_leave_the_cost_unknown() -> None:
    account = running(3, 1)
    account.ended(outcome(Usage(5, 5)), 102.0)
    now = account.snapshot(102.0)
    assert (now.cost, now.projected_cost) == (None, None)
    assert now.usage.known_cost == Decimal("0.01")


def test_an_item_without_a_request_has_no_price_that_would_make_a_sum_unknown() -> None:
    account = running(3, 1)
    account.ended(outcome(NO_USAGE, ValueError("a bad row")), 102.0)
    assert account.snapshot(102.0).cost == Decimal("0.01")


def test_a_job_of_no_items() -> None:
    account = running(0, 0)
    now = account.snapshot(100.0)
    assert (now.share, now.seconds_left, now.cost, now.per_second) == (None, None, None, 0.0)


@given(st.lists(st.tuples(st.floats(0.0, 90.0), st.booleans(), st.integers(0, 1000)), max_size=60))
def test_any_row_of_ends_adds_up(ends: list[tuple[float, bool, int]]) -> None:
    account, prices, now = JobProgress(), Prices(1, 1), 0.0
    account.begin(len(ends), 0.0)
    for wait, fails, tokens in ends:
        now += wait
        usage = Usage(tokens, pricing=StoredCost(prices.cost(Usage(tokens))))
        account.ended(outcome(usage, ValueError() if fails else None), now)
        seen = account.snapshot(now)
        assert seen.per_second >= 0
        assert seen.seconds_left is None or seen.seconds_left >= 0
    seen = account.snapshot(now)
    assert (seen.done, seen.running, seen.failed) == (len(ends), 0, sum(fails for _, fails, _ in ends))
    assert seen.usage.total_tokens == sum(tokens for _, _, tokens in ends)
    if ends:
        assert seen.cost == prices.cost(seen.usage)


def test_the_usages_of_many_items_are_all_counted() -> None:
    now = running(1000, 600).snapshot(1000.0)
    assert (now.usage, now.cost) == (Usage(600 * 90, 600 * 10), Decimal("6.00"))
