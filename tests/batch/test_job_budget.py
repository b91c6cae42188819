"""Tests of `Ledger`, the budget of a job, and of `check_budget`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from threading import Event, Thread
from typing import Any

import anyio
import pytest
import trio
from hypothesis import given, settings, strategies as st
from trio.testing import MockClock

from toolcast import Budget, Prices, Usage
from toolcast.async_support import sync_driver
from toolcast.batch.job_budget import MARGIN, Ledger, Spending, check_budget
from toolcast.batch.job_errors import BudgetReached, JobInterrupted
from toolcast.errors import (
    AuthFailed,
    ConnectFailed,
    RateLimited,
    StreamInterrupted,
    StreamTruncated,
    Timeout,
    UnsupportedLLMError,
)
from toolcast.llms.request_gate import NOT_SENT, GateRequest, Gates, RequestOrigin
from toolcast.testing import ScriptedLLM
from toolcast.transport.cancel_handle import CancelHandle
from toolcast.transport.httpx_network import HttpxNetwork
from toolcast.transport.network import AsyncBackend, SyncBackend
from toolcast.values.prices import ModelPricing
from toolcast.values.usage import NO_USAGE

DOLLAR_PER_TOKEN = Prices(1_000_000, 1_000_000)
ORIGIN = RequestOrigin("openai", "m")
SYNC, ASYNC = SyncBackend(HttpxNetwork()), AsyncBackend(HttpxNetwork())


def priced(usage: Usage) -> Usage:
    return usage.with_pricing(ModelPricing("openai", ("m",), DOLLAR_PER_TOKEN))


def request(
    reserved: int, output: int | None = None, price: Callable[[Usage], Usage] = priced, **more: Any
) -> GateRequest:
    """Return a request for whose input so many tokens are reserved."""
    made = GateRequest(ORIGIN, (), (), output, price, **more)
    made._input_tokens = reserved // MARGIN  # pyright: ignore[reportPrivateUsage] - the estimate of such a text
    return made


def enter(ledger: Ledger, asked: GateRequest) -> Any:
    return sync_driver.run(ledger.enter(asked, SYNC))


# The gate, with threads and tasks, and answers in any order


@dataclass
class Asked:
    estimate: int
    output: int
    error: float
    """The tokens of the input, as a multiple of their estimate: never more than `MARGIN`."""
    part: float
    """The part of the output that the model writes."""
    seconds: float
    """How long the answer takes."""

    @property
    def actual(self) -> Usage:
        return priced(Usage(max(int(self.estimate * self.error), 1), int(self.output * self.part)))

    @property
    def most(self) -> int:
        return MARGIN * self.estimate + self.output


parts = st.floats(0, 1, allow_nan=False) | st.just(1.0)
requests = st.builds(
    Asked, st.integers(1, 50), st.integers(1, 50), parts.map(lambda part: MARGIN * part), parts, st.floats(0, 9)
)


class Job:
    """Requests of a job that enter a ledger, and what has been spent and reserved meanwhile."""

    def __init__(self, limit: int, in_usd: bool) -> None:
        self.limit = limit
        self.ledger = Ledger(Budget(usd=limit) if in_usd else Budget(tokens=limit))
        self.refused = 0
        self.ended: list[Asked] = []

    def check(self) -> None:
        ledger = self.ledger
        with ledger._queue.lock:  # pyright: ignore[reportPrivateUsage] - both amounts of one moment
            assert ledger.spent.tokens + ledger.reserved.tokens <= self.limit

    async def ask(self, each: Asked, backend: Any, pause: Callable[[Asked], Any]) -> None:
        try:
            passage = await self.ledger.enter(request(MARGIN * each.estimate, each.output), backend)
        except BudgetReached:
            self.refused += 1
            return
        self.check()
        await pause(each)
        self.ended.append(each)
        passage.received(200, {})
        assert not passage.leave(each.actual, None)
        self.check()

    def run(self, asked: Sequence[Asked]) -> None:
        """Ask for all at once; the answers come in the order of a virtual clock."""

        async def pause(each: Asked) -> None:
            await anyio.sleep(each.seconds)

        async def main() -> None:
            async with anyio.create_task_group() as tasks:
                for each in asked:
                    tasks.start_soon(self.ask, each, ASYNC, pause)

        trio.run(main, clock=MockClock(autojump_threshold=0))
        self.at_end(asked)

    def at_end(self, asked: Sequence[Asked]) -> None:
        assert len(self.ended) + self.refused == len(asked)
        assert self.ledger.reserved == Spending()
        assert self.ledger.spent.tokens == sum(each.actual.total_tokens for each in self.ended) <= self.limit
        assert not self.ledger.waiting
        if sum(each.most for each in asked) <= self.limit:
            assert not self.refused


@settings(max_examples=30, deadline=None)
@given(st.lists(requests, max_size=40), st.integers(1, 600), st.booleans(), st.integers(2, 12))
def test_threads_never_spend_more_than_the_budget(asked: list[Asked], limit: int, in_usd: bool, threads: int) -> None:
    job = Job(limit, in_usd)

    async def no_pause(each: Asked) -> None:
        pass

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(sync_driver.run, job.ask(each, SYNC, no_pause)) for each in asked]:
            done.result(30)
    job.at_end(asked)


@settings(deadline=None)
@given(st.lists(requests, max_size=40), st.integers(1, 600), st.booleans())
def test_tasks_never_spend_more_than_the_budget(asked: list[Asked], limit: int, in_usd: bool) -> None:
    Job(limit, in_usd).run(asked)


def test_a_wrong_estimate_does_not_exceed_the_budget_in_the_first_wave() -> None:
    """A hundred requests at once, whose input is a quarter larger than estimated, spent 25.20 of 20.00."""
    asked = [Asked(16, 4, 1.26, 1, 1) for _ in range(300)]
    job = Job(2000, in_usd=True)
    job.run(asked)
    assert job.ledger.spent.usd > 1960  # and little of it is left


def test_a_request_that_waits_is_reserved_by_the_newest_estimate() -> None:
    factor = 1.0
    ledger = Ledger(Budget(tokens=200), estimate=lambda asked: asked.input_tokens * factor)
    first, reserved = enter(ledger, request(160, 20)), list[int]()

    def second() -> None:
        passage = enter(ledger, request(40, 20))
        reserved.append(ledger.reserved.tokens)
        passage.leave(NO_USAGE, None)

    thread = Thread(target=second)
    thread.start()
    while not ledger.waiting:
        assert thread.is_alive()
    factor = 3.0
    first.leave(priced(Usage(60, 0)), None)
    thread.join(30)
    assert reserved == [140]


def test_a_request_waits_for_those_that_may_cost_less_than_is_reserved() -> None:
    ledger = Ledger(Budget(usd=100))
    first = enter(ledger, request(10, 80))
    admitted = Event()

    def second() -> None:
        passage = enter(ledger, request(10, 40))
        admitted.set()
        passage.leave(priced(Usage(10, 40)), None)

    thread = Thread(target=second)
    thread.start()
    while not ledger.waiting:
        assert thread.is_alive()
    assert not admitted.is_set()
    assert (ledger.spent.usd, ledger.reserved.usd) == (0, 90)
    first.leave(priced(Usage(10, 5)), None)
    thread.join(30)
    assert ledger.spent.usd == 65
    assert ledger.describe() == "$65.00 of $100.00"


def test_what_does_not_fit_beside_nothing_is_refused() -> None:
    ledger = Ledger(Budget(tokens=100))
    enter(ledger, request(10, 80)).leave(priced(Usage(10, 60)), None)
    with pytest.raises(BudgetReached) as raised:
        enter(ledger, request(10, 80))
    assert str(raised.value) == (
        "the budget is used up: 70 of 100 tokens spent, and the next request may cost 90 tokens; "
        "allow more: Budget(tokens=...)"
    )
    assert ledger.reserved == Spending()


@pytest.mark.parametrize(
    ("budget", "asked", "message"),
    [
        (Budget(usd=5), request(4, 40), r"the budget of \$5.00 .* may cost \$44.00: .* up to 40 tokens, max_tokens"),
        (Budget(tokens=5), request(4, 40), "the budget of 5 tokens .* may cost 44 tokens: "),
        (Budget(usd=5), request(4, max_output=90), "up to 90 tokens, the most that the model can write"),
    ],
)
def test_a_budget_that_does_not_cover_one_request(budget: Budget, asked: GateRequest, message: str) -> None:
    with pytest.raises(BudgetReached, match=f"(?s){message}.*Nothing was sent"):
        enter(Ledger(budget), asked)


def test_spending_of_earlier_runs_counts() -> None:
    ledger = Ledger(Budget(usd=100, tokens=1000), spent=priced(Usage(40, 40)))
    assert ledger.describe() == "$80.00 of $100.00, 80 of 1.0k tokens"
    with pytest.raises(BudgetReached, match=r"\$80.00 of \$100.00.*Budget\(usd="):
        enter(ledger, request(10, 11))
    enter(ledger, request(10, 10))
    partly = Ledger(Budget(usd=100), spent=priced(Usage(40, 40)) + Usage(1, 1))
    assert partly.spent == Spending(Decimal(80), 82)


def test_without_max_tokens_the_most_of_the_model_is_reserved() -> None:
    ledger = Ledger(Budget(usd=100))
    enter(ledger, request(10, max_output=50))
    assert ledger.reserved == Spending(Decimal(60), 60)


def test_an_estimate_may_be_corrected() -> None:
    ledger = Ledger(Budget(usd=100), estimate=lambda asked: asked.input_tokens * 1.25)
    enter(ledger, request(10, 5))
    assert ledger.reserved.tokens == 19


def test_unknown_maxima_and_prices_are_errors_before_the_request() -> None:
    with pytest.raises(UnsupportedLLMError, match=r"openai m are unknown: set a limit, .*max_tokens.*Nothing was sent"):
        enter(Ledger(Budget(tokens=5)), request(3))
    with pytest.raises(UnsupportedLLMError, match=r"needs the prices of openai m.*Nothing was sent"):
        enter(Ledger(Budget(usd=5)), request(3, 4, price=lambda usage: usage))
    unpriced = Ledger(Budget(tokens=50))
    enter(unpriced, request(3, 4, price=lambda usage: usage)).leave(Usage(3, 3), None)
    assert unpriced.spent.tokens == 6


def test_the_prices_of_the_budget_come_first() -> None:
    ledger = Ledger(Budget(usd=100, prices=Prices(2_000_000, 3_000_000)))
    passage = enter(ledger, request(10, 10))
    assert ledger.reserved.usd == 50
    passage.leave(priced(Usage(10, 1)), None)
    assert ledger.spent.usd == 23


def test_usage_of_unknown_price_counts_as_its_reservation() -> None:
    ledger = Ledger(Budget(usd=100))
    enter(ledger, request(10, 10)).leave(Usage(10, 1), None)
    assert ledger.spent == Spending(Decimal(20), 11)


@pytest.mark.parametrize(
    ("status", "usage", "error", "spent"),
    [
        (200, priced(Usage(9, 3)), None, 12),
        (200, priced(Usage(9, 3)), StreamTruncated("cut"), 12),
        (200, NO_USAGE, None, 20),  # no report
        (200, NO_USAGE, StreamInterrupted("gone"), 20),
        (429, NO_USAGE, RateLimited("slow"), 0),
        (None, NO_USAGE, ConnectFailed("no"), 0),
        (None, NO_USAGE, Timeout("late", phase="connect"), 0),
        (None, NO_USAGE, Timeout("late", phase="first_token"), 20),
        (None, NO_USAGE, StreamInterrupted("gone"), 20),
        (None, NO_USAGE, AuthFailed("no key"), 0),
        (None, NO_USAGE, KeyboardInterrupt(), 20),
        (None, NO_USAGE, None, 20),  # of an LLM without HTTP
        (None, NOT_SENT, KeyboardInterrupt(), 0),
    ],
)
def test_what_a_request_without_a_report_costs(
    status: int | None, usage: Usage, error: BaseException | None, spent: int
) -> None:
    ledger = Ledger(Budget(usd=100))
    passage = enter(ledger, request(10, 10))
    if status is not None:
        passage.received(status, {})
    passage.leave(usage, error)
    assert (ledger.spent.tokens, ledger.reserved.tokens) == (spent, 0)


def test_a_nested_request_does_not_wait_for_its_own() -> None:
    ledger = Ledger(Budget(usd=100))
    enter(ledger, request(10, 80))
    with pytest.raises(BudgetReached):
        enter(ledger, request(10, 40, nested=True))
    enter(ledger, request(2, 4, nested=True))
    assert ledger.reserved.usd == 96


def test_the_wait_of_an_aborted_call_ends() -> None:
    ledger = Ledger(Budget(usd=100))
    first = enter(ledger, request(10, 80))
    handle, raised = CancelHandle(), list[BaseException]()

    def wait() -> None:
        with handle:
            try:
                enter(ledger, request(10, 40))
            except StreamInterrupted as error:
                raised.append(error)

    thread = Thread(target=wait)
    thread.start()
    while not ledger.waiting:
        assert thread.is_alive()
    handle.break_off()
    thread.join(30)
    assert len(raised) == 1
    assert not ledger.waiting
    first.leave(priced(Usage(1, 1)), None)
    assert ledger.spent.usd == 2


async def test_a_cancelled_task_leaves_the_queue() -> None:
    ledger = Ledger(Budget(usd=100))
    await ledger.enter(request(10, 80), ASYNC)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ledger.enter, request(10, 40), ASYNC)
        tasks.start_soon(ledger.enter, request(10, 50), ASYNC)
        while not ledger.waiting:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert not ledger.waiting
    assert ledger.reserved.usd == 90


def test_later_requests_do_not_overtake_one_that_waits() -> None:
    ledger = Ledger(Budget(usd=100))
    first = enter(ledger, request(10, 80))
    order = list[str]()

    def ask(name: str, input: int, output: int) -> Thread:
        def main() -> None:
            passage = enter(ledger, request(input, output))
            order.append(name)
            passage.leave(priced(Usage(input, 0)), None)

        thread = Thread(target=main)
        thread.start()
        return thread

    large = ask("large", 10, 60)
    while not ledger.waiting:
        assert large.is_alive()
    small = ask("small", 1, 1)  # would fit now
    while ledger.waiting < 2:
        assert small.is_alive()
    first.leave(priced(Usage(10, 10)), None)
    large.join(30)
    small.join(30)
    assert order == ["large", "small"]


def test_when_another_gate_fails_nothing_stays_reserved() -> None:
    class Closed:
        async def enter(self, asked: GateRequest, backend: Any) -> Any:
            raise RuntimeError("closed")

    ledger = Ledger(Budget(usd=100))
    with pytest.raises(RuntimeError, match="closed"):
        sync_driver.run(Gates((ledger, Closed())).enter(request(10, 10), SYNC))
    assert (ledger.spent, ledger.reserved) == (Spending(), Spending())


def test_budgets_that_a_job_cannot_have() -> None:
    llm = ScriptedLLM([])
    for budget in (Budget(seconds=5), Budget(usd=1, tool_calls=5)):
        with pytest.raises(ValueError, match=r"expected limits in usd and tokens, got (seconds|tool_calls)=5"):
            check_budget(budget, llm)
    with pytest.raises(ValueError, match="expected a limit"):
        check_budget(Budget(), llm)
    with pytest.raises(UnsupportedLLMError, match="Nothing was sent"):
        check_budget(Budget(usd=5), llm)
    check_budget(Budget(usd=5, prices=DOLLAR_PER_TOKEN), llm)
    check_budget(Budget(tokens=5), llm)


def test_a_stopped_budget_admits_no_request() -> None:
    ledger = Ledger(Budget(usd=100))
    first = enter(ledger, request(10, 80))
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(enter, ledger, request(10, 40))
        while not ledger.waiting:
            assert not other.done()
        ledger.stop()
        with pytest.raises(JobInterrupted):
            other.result(30)
    with pytest.raises(JobInterrupted):
        enter(ledger, request(2, 1))
    assert (ledger.waiting, ledger.reserved.usd) == (0, 90)
    first.leave(priced(Usage(1, 1)), None)
    assert ledger.spent.usd == 2
