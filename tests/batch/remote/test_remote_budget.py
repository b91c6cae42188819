"""The budget of a job through a batch API: what it does not cover is not submitted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import toolcast
from batch.remote.test_remote_run import Once, Pair, sayings, texts, without_batches
from batch.remote.test_resume import Killed, Killer, stop, submitted
from support.openai_batches import completion, last_text
from toolcast import Budget, Prices, Settings
from toolcast.batch import JobStopped
from toolcast.batch.checkpoint import Checkpoint
from toolcast.batch.job_budget import Ledger, Spending
from toolcast.batch.job_errors import BudgetReached
from toolcast.batch.outcome import Outcome
from toolcast.batch.remote import remote_run
from toolcast.errors import UnsupportedLLMError

DOLLAR_PER_TOKEN = Prices(1_000_000, 1_000_000)
ITEM = Decimal("17.5")
"""The cost of an item: 35 tokens at half the price."""

RESERVED = 60
"""More than is reserved for an item: the estimate of its input and 20 tokens of output, at half the price."""

Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]


def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Answer with the text of the message, and report 35 tokens."""
    usage = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}
    return 200, {**completion(body, {"text": last_text(body)}), "usage": usage}


def wrong_about(*numbers: int) -> Answer:
    """Answer these numbers with an invalid value, until they are asked about again."""

    def wrong(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if last_text(body) in sayings(*numbers) and len(body["messages"]) == 1:
            return 200, {**answer(body)[1], "choices": completion(body, {"wrong": 1})["choices"]}
        return answer(body)

    return wrong


def priced(prices: Prices | None = DOLLAR_PER_TOKEN, model: str = "gpt-4o-mini", **options: Any) -> Pair:
    pair = Pair(settings=Settings(max_tokens=20), **options)
    service = pair.service
    service.answer = answer
    pair.llm = toolcast.OpenAI(model, api_key="k", base_url=service.url, network=service, prices=prices)
    pair.llm.clock = pair.clock
    pair.call = pair.call.with_(llm=pair.llm)
    return pair


def run(pair: Pair, count: int | list[Any], **options: Any) -> tuple[list[Outcome[Any]], Exception | None]:
    """Return the outcomes until the end of the job, and its error."""
    rows = [{"x": number} for number in range(count)] if isinstance(count, int) else count
    outcomes: list[Outcome[Any]] = []
    try:
        outcomes.extend(pair.call.map(rows, via="batch", **options))
    except Exception as error:
        return outcomes, error
    return outcomes, None


def cost(outcomes: list[Outcome[Any]]) -> Decimal:
    return sum([outcome.cost or Decimal(0) for outcome in outcomes], Decimal(0))


def sizes(pair: Pair) -> list[int]:
    return [batch["request_counts"]["total"] for batch in pair.service.batches.values()]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_budget_ends_the_job_after_what_it_covers(ordered: bool) -> None:
    pair = priced()
    outcomes, error = run(pair, 100, budget=Budget(usd=400), ordered=ordered)
    assert isinstance(error, JobStopped)
    assert error.reason == "budget"
    assert isinstance(error.__cause__, BudgetReached)
    assert "Without a checkpoint another run asks for all items again." in str(error)
    assert {outcome.cost for outcome in outcomes} == {ITEM}
    assert 400 - RESERVED < cost(outcomes) <= 400
    assert len(outcomes) == len(pair.service.submitted) == sum(sizes(pair))
    # The first batch has what is covered at the reserved price; later ones what it has left.
    assert len(sizes(pair)) > 1
    assert sizes(pair) == sorted(sizes(pair), reverse=True)
    assert not pair.service.files


def test_a_budget_in_tokens() -> None:
    outcomes, error = run(priced(), 100, budget=Budget(tokens=500))
    assert isinstance(error, JobStopped)
    assert 500 - 2 * RESERVED < 35 * len(outcomes) <= 500
    outcomes, error = run(priced(), 10, budget=Budget(tokens=10_000))
    assert (len(outcomes), error) == (10, None)


def test_a_budget_that_does_not_cover_the_first_item() -> None:
    pair = priced()
    outcomes, error = run(pair, 3, budget=Budget(usd=5))
    assert isinstance(error, JobStopped)
    assert "does not cover the first request" in str(error)
    assert (outcomes, pair.service.log) == ([], [])


def test_prices_of_the_budget_are_list_prices() -> None:
    pair = priced(prices=None, model="unlisted")
    with pytest.raises(UnsupportedLLMError, match="prices"):
        pair.map(1, budget=Budget(usd=1))
    outcomes, _ = run(pair, 100, budget=Budget(usd=400, prices=DOLLAR_PER_TOKEN))
    assert 400 - RESERVED < ITEM * len(outcomes) <= 400


def test_an_unknown_limit_of_the_output_stops_the_job() -> None:
    pair = priced(model="unlisted")
    pair.call = pair.call.with_(settings=Settings())
    outcomes, error = run(pair, 3, budget=Budget(usd=5))
    assert isinstance(error, JobStopped)
    assert isinstance(error.__cause__, UnsupportedLLMError)
    assert (outcomes, pair.service.log) == ([], [])


def test_a_resumed_job_has_what_is_left(tmp_path: Path) -> None:
    pair = priced()
    path = tmp_path / "job.db"
    first, error = run(pair, 100, budget=Budget(usd=400), checkpoint=path)
    assert isinstance(error, JobStopped)
    assert f"A run with the checkpoint {str(path)!r} goes on from here." in str(error)
    again, error = run(pair, 100, budget=Budget(usd=400), checkpoint=path)
    assert isinstance(error, JobStopped)
    assert "the budget is used up: $" in str(error)
    assert len(again) == len(first) == len(pair.service.submitted)
    more, error = run(pair, 100, budget=Budget(usd=800), checkpoint=path)
    assert isinstance(error, JobStopped)
    assert 800 - RESERVED < cost(more) <= 800
    with Checkpoint(path, pair.call) as checkpoint:
        assert checkpoint.spent.cost == cost(more)


@pytest.mark.parametrize("budgeted", [True, False])
def test_what_is_in_batches_of_an_earlier_run_stays_reserved(tmp_path: Path, budgeted: bool) -> None:
    pair = priced()
    path = tmp_path / "job.db"
    budget = Budget(usd=400)
    before: dict[str, Any] = {"budget": budget} if budgeted else {}
    stop(pair, path, 100 if budgeted else 5, **before)
    outcomes, error = run(pair, 100, budget=budget, checkpoint=path)
    assert isinstance(error, JobStopped)
    assert len(outcomes) == len(pair.service.submitted)
    assert cost(outcomes) <= 400
    if budgeted:
        assert cost(outcomes) > 400 - RESERVED


def test_the_inputs_of_the_batches_of_an_earlier_run_are_read_before_their_results_are_waited_for(
    tmp_path: Path,
) -> None:
    pair = priced()
    path = tmp_path / "job.db"
    stop(pair, path, 3, budget=Budget(usd=95))
    assert sizes(pair) == [2]
    rows = [{"x": number} for number in (9, 8, 1, 0, 2)]
    outcomes, error = run(pair, rows, budget=Budget(usd=95), checkpoint=path)
    assert isinstance(error, JobStopped)
    assert sorted(str(text) for text in texts(outcomes)) == sayings(0, 1, 9)


def test_items_that_are_gone_from_the_inputs_are_spent(tmp_path: Path) -> None:
    pair = priced()
    path = tmp_path / "job.db"
    stop(pair, path, 3, budget=Budget(usd=1000))
    outcomes, error = run(pair, [{"x": 1}], budget=Budget(usd=1000), checkpoint=path)
    assert (texts(outcomes), error) == (sayings(1), None)


def test_an_item_whose_outcome_was_stored_is_not_counted_twice(tmp_path: Path) -> None:
    pair = priced()
    path = tmp_path / "job.db"
    pair.service.before = Once("DELETE", Killed())  # type: ignore[arg-type]  # a fault that nothing handles
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr("toolcast.batch.remote.journal.Journal.settled", kill)
        pair.map(2, checkpoint=path, budget=Budget(usd=1000))
    pair.service.before = lambda method, at: None
    seen: list[Any] = []
    outcomes, error = run(pair, 2, checkpoint=path, budget=Budget(usd=1000), progress=seen.append)
    assert (texts(outcomes), error) == (sayings(0, 1), None)
    assert seen[-1].budget == "$35.00 of $1,000.00"


def kill(*arguments: Any) -> None:
    raise Killed


@pytest.mark.parametrize(
    ("reply", "spent"),
    [
        ((400, {"error": {"message": "no"}}), False),
        ((200, {"hello": "world"}), True),
        ((200, None), True),
    ],
)
def test_a_refusal_costs_nothing_and_a_response_without_usage_its_reservation(reply: Any, spent: bool) -> None:
    def replied(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if reply[1] is not None:
            return reply  # type: ignore[no-any-return]  # of the parameters
        found = answer(body)[1]
        del found["usage"]
        return 200, found

    pair = priced()
    pair.service.answer = replied
    seen: list[Any] = []
    run(pair, 1, budget=Budget(usd=1000), progress=seen.append)
    assert seen[-1].budget.startswith("$0.00") != spent


def test_requests_that_were_not_processed_cost_nothing() -> None:
    pair = priced()
    ends = iter(["expired", "completed"])
    pair.service.ends = lambda batch: next(ends)
    pair.service.edit = lambda kind, lines: lines[1:] if kind == "error" else lines
    seen: list[Any] = []
    outcomes, error = run(pair, 4, budget=Budget(usd=1000), progress=seen.append)
    assert (texts(outcomes), error) == (sayings(0, 1, 2, 3), None)
    assert seen[-1].budget == "$70.00 of $1,000.00"


def test_a_refused_batch_costs_nothing() -> None:
    pair = priced()
    pair.limit(requests=1)
    pair.service.one_at_a_time = True
    outcomes, error = run(pair, 3, budget=Budget(usd=Decimal("52.5") + RESERVED))
    assert (texts(outcomes), error) == (sayings(0, 1, 2), None)


# Items that are asked again


def test_invalid_responses_of_an_earlier_run_are_spent(tmp_path: Path) -> None:
    pair = priced(max_attempts=2)
    pair.service.answer = wrong_about(0, 1)
    path = tmp_path / "job.db"
    options: dict[str, Any] = {"checkpoint": path, "reask": "batch", "budget": Budget(usd=1000)}
    seen: list[Any] = []

    def end(method: str, at: str) -> None:
        if (method, at) == ("POST", "/v1/files") and len(pair.service.batches) == 1:
            raise Killed

    pair.service.before = end
    with pytest.raises(Killed):
        pair.map(2, **options)
    pair.service.before = Once("GET /v1/batches/", Killed())  # type: ignore[arg-type]  # a fault that nothing handles
    with pytest.raises(Killed):  # now the second batch is known
        pair.map(2, **options)
    pair.service.before = lambda method, at: None
    outcomes, error = run(pair, 2, progress=seen.append, **options)
    assert (texts(outcomes), error) == (sayings(0, 1), None)
    assert cost(outcomes) == 70
    assert seen[-1].budget == "$70.00 of $1,000.00"


def test_a_live_request_counts_at_list_price() -> None:
    pair = priced(max_attempts=2)
    pair.service.answer = wrong_about(0)
    seen: list[Any] = []
    [outcome], error = run(pair, 1, budget=Budget(usd=1000), progress=seen.append)
    assert error is None
    assert outcome.cost == ITEM + 35
    assert seen[-1].budget == "$52.50 of $1,000.00"


def test_a_live_request_waits_for_what_batches_have_reserved() -> None:
    pair = priced(max_attempts=2)
    pair.service.answer = wrong_about(0)
    pair.limit(requests=1)
    outcomes, error = run(pair, 2, budget=Budget(usd=180), poll=0.01)
    assert (texts(outcomes), error) == (sayings(0, 1), None)
    log = pair.service.log
    last_results = max(place for place, line in enumerate(log) if line.endswith("/content"))
    assert last_results < log.index("POST /v1/chat/completions")


def test_an_item_that_waits_for_what_a_live_request_has_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch is open when the live request ends."""
    may_answer = without_batches(monkeypatch)
    pair = priced(max_attempts=2)
    pair.limit(requests=1)
    pair.service.answer = wrong_about(0)
    pair.service.cut = lambda method, target, body: (
        [body] if not target.endswith("/chat/completions") or may_answer.wait(30) else []
    )
    monkeypatch.setattr(remote_run, "OPEN_BATCHES", 2)
    outcomes, error = run(pair, 3, budget=Budget(usd=216), poll=0.01)
    assert (texts(outcomes), error) == (sayings(0, 1, 2), None)
    log = pair.service.log
    last_batch = max(place for place, line in enumerate(log) if line == "POST /v1/batches")
    assert log.index("POST /v1/chat/completions") < last_batch


def test_a_live_request_that_is_not_covered_ends_the_job(tmp_path: Path) -> None:
    pair = priced(max_attempts=2)
    pair.service.answer = wrong_about(0)
    path = tmp_path / "job.db"
    outcomes, error = run(pair, 2, budget=Budget(usd=100), checkpoint=path)
    assert texts(outcomes) == sayings(1)
    assert isinstance(error, JobStopped)
    assert error.reason == "budget"
    assert isinstance(error.__cause__, BudgetReached)
    assert not pair.service.live
    outcomes, error = run(pair, 2, budget=Budget(usd=1000), checkpoint=path)
    assert (texts(outcomes), error) == (sayings(0, 1), None)
    assert len(pair.service.live) == 1
    assert len(pair.service.batches) == 1
    assert not pair.service.files


def test_the_display_shows_the_budget() -> None:
    pair = priced()
    seen: list[Any] = []
    run(pair, 2, budget=Budget(usd=1000, tokens=5000), progress=seen.append)
    assert seen[-1].budget == "$35.00 of $1,000.00, 70 of 5.0k tokens"


# Jobs that end at any step


class RecordedLedger(Ledger):
    """The ledger that was made last, for a look at it after the job."""

    last: Ledger

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        RecordedLedger.last = self


def counts_after(step: int, path: Path, reask: str) -> bool:
    """Check what is spent by a job that ends at this step and is started again. Return False if it has fewer steps."""
    pair = priced(max_attempts=2)
    pair.limit(requests=2)
    pair.service.answer = wrong_about(1)
    rows = [{"x": number, "id": index} for index, number in enumerate((0, 1, 2, 0, 1))]
    options: dict[str, Any] = {"checkpoint": path, "reask": reask, "ask_once": True, "budget": Budget(usd=300)}
    killer = Killer(step)
    with pytest.MonkeyPatch.context() as monkeypatch:
        killer.watch(pair, monkeypatch)
        with suppress(Killed):
            list(pair.call.map(rows, via="batch", **options))
    pair.service.before = pair.service.after = lambda method, at: None
    if not killer.where:
        return False
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("toolcast.batch.live_run.Ledger", RecordedLedger)
        outcomes, error = run(pair, rows, **options)
    assert (texts(outcomes), error) == (sayings(0, 1, 2, 0, 1), None), killer.where
    assert set(submitted(pair).values()) == {1}, killer.where
    ledger = RecordedLedger.last
    assert ledger.reserved == Spending(), killer.where
    again = 2 * ITEM if reask == "live" else ITEM
    assert ledger.spent == Spending(3 * ITEM + again, 4 * 35), killer.where
    assert cost(outcomes) == ledger.spent.usd
    return True


@pytest.mark.nightly
@pytest.mark.parametrize("reask", ["live", "batch"])
def test_what_is_spent_is_counted_once_wherever_a_job_ends(tmp_path: Path, reask: str) -> None:
    last = next(step for step in range(1, 1_000) if not counts_after(step, tmp_path / f"{step}.db", reask))
    assert last > 60


@pytest.mark.parametrize("reask", ["live", "batch"])
def test_what_is_spent_is_counted_once_where_a_job_ends_at_some_steps(tmp_path: Path, reask: str) -> None:
    for step in range(2, 60, 11):
        assert counts_after(step, tmp_path / f"{step}.db", reask)
