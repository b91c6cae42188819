"""Tests of the budget and the progress of a job, in every API."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, field_validator

from toolcast import Budget, Prices, Settings, ToolOrchestratingLLM, Usage
from toolcast.batch import Job, JobStopped, Outcome
from toolcast.batch.job_errors import BudgetReached
from toolcast.batch.job_options import JobPlan
from toolcast.batch.live_run import LiveRun
from toolcast.batch.progress.job_progress import ProgressSnapshot
from toolcast.errors import NotFound, UnsupportedLLMError
from toolcast.events import Finish, ToolCallDone, ToolCallStart, UsageReport
from toolcast.testing import ScriptedLLM, ScriptedRequest

DOLLAR_PER_TOKEN = Prices(1_000_000, 1_000_000)
REPORTED = Usage(30, 5)


class Number(BaseModel):
    value: int

    @field_validator("value")
    @classmethod
    def check(cls, value: int) -> int:
        if value < 0:
            raise ValueError("expected a number of at least 0")
        return value


def answer(request: ScriptedRequest) -> Any:
    """Answer with the number in the message, and report 35 tokens."""
    arguments = f'{{"value": {request.messages[0].text}}}'
    call = ToolCallStart("1", "Number"), ToolCallDone("1", "Number", arguments)
    return [*call, UsageReport(REPORTED), Finish("tool_use")]


def numbers(
    max_tokens: int | None = 20, llm: ScriptedLLM | None = None, **options: Any
) -> ToolOrchestratingLLM[Number]:
    llm = llm or ScriptedLLM(answer, prices=DOLLAR_PER_TOKEN)
    settings = None if max_tokens is None else Settings(max_tokens=max_tokens)
    return ToolOrchestratingLLM(Number, "{text}", llm, settings=settings, **options)


Seen = tuple[list[Outcome[Number]], Exception | None]
Collect = Callable[..., Seen]


def collect_sync(call: ToolOrchestratingLLM[Number], inputs: Iterable[Any], **options: Any) -> Seen:
    outcomes: list[Outcome[Number]] = []
    try:
        outcomes.extend(call.map(inputs, **options))
    except Exception as error:
        return outcomes, error
    return outcomes, None


def collect_in(backend: str) -> Collect:
    def collect(call: ToolOrchestratingLLM[Number], inputs: Any, **options: Any) -> Seen:
        async def main() -> Seen:
            outcomes: list[Outcome[Number]] = []
            try:
                async for outcome in call.amap(inputs, **options):
                    outcomes.append(outcome)
            except Exception as error:
                return outcomes, error
            return outcomes, None

        return anyio.run(main, backend=backend)

    return collect


WAYS = {"sync": collect_sync, "asyncio": collect_in("asyncio"), "trio": collect_in("trio")}


@pytest.fixture(params=WAYS)
def collect(request: pytest.FixtureRequest) -> Collect:
    return WAYS[request.param]


def texts(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def requests_of(call: ToolOrchestratingLLM[Number]) -> int:
    llm: Any = call.llm
    return len(llm.requests)


def test_a_budget_ends_the_job_after_what_it_covers(collect: Collect) -> None:
    call = numbers()
    outcomes, error = collect(call, texts(100), budget=Budget(usd=1000), max_concurrency=8)
    assert isinstance(error, JobStopped)
    assert error.reason == "budget"
    assert isinstance(error.__cause__, BudgetReached)
    assert "Without a checkpoint another run asks for all items again." in str(error)
    assert [outcome.error for outcome in outcomes if not outcome.ok] == []
    assert len(outcomes) == requests_of(call)
    spent = sum(35 for _ in outcomes)
    # The next request would have been reserved with its estimate, of less than 60 tokens, twice, and 20 of output.
    assert 1000 - 140 < spent <= 1000


def test_a_budget_in_tokens(collect: Collect) -> None:
    outcomes, error = collect(numbers(), texts(100), budget=Budget(tokens=500))
    assert isinstance(error, JobStopped)
    assert 500 - 140 < 35 * len(outcomes) <= 500
    outcomes, error = collect(numbers(), texts(10), budget=Budget(tokens=10_000))
    assert (len(outcomes), error) == (10, None)


def test_a_resumed_job_has_what_is_left(collect: Collect, tmp_path: Path) -> None:
    path = tmp_path / "numbers.db"
    call = numbers()
    first, error = collect(call, texts(40), budget=Budget(usd=700), checkpoint=path)
    assert isinstance(error, JobStopped)
    assert f"A run with the checkpoint {str(path)!r} goes on from here." in str(error)
    again, error = collect(call, texts(40), budget=Budget(usd=700), checkpoint=path)
    assert isinstance(error, JobStopped)
    assert "$700.00 spent, and the next request" in str(error)
    assert requests_of(call) == len(first)
    assert [outcome.index for outcome in again] == [outcome.index for outcome in first]
    rest, error = collect(call, texts(40), budget=Budget(usd=10_000), checkpoint=path)
    assert (len(rest), error) == (40, None)
    assert requests_of(call) == 40


def test_attempts_after_invalid_answers_count(collect: Collect) -> None:
    call = numbers(max_attempts=3)
    outcomes, error = collect(call, ["-1", "-2", "-3"], budget=Budget(usd=250), max_concurrency=1)
    assert isinstance(error, JobStopped)
    assert requests_of(call) * 35 <= 250
    # The one whose next attempt was not covered has an outcome with what it has cost.
    last = outcomes[-1]
    assert sum(outcome.attempts for outcome in outcomes) == requests_of(call)
    assert sum(outcome.cost or 0 for outcome in outcomes) == 35 * requests_of(call)
    assert not last.ok


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (Budget(usd=10), r"the budget of \$10.00 does not cover the first request"),
        (Budget(tokens=10), "the budget of 10 tokens does not cover the first request"),
    ],
)
def test_a_budget_that_does_not_cover_one_request_sends_nothing(collect: Collect, budget: Budget, message: str) -> None:
    call = numbers()
    outcomes, error = collect(call, texts(5), budget=budget)
    assert (outcomes, requests_of(call)) == ([], 0)
    with pytest.raises(JobStopped, match=message):
        raise error or AssertionError


def test_an_unknown_maximum_of_output_is_an_error_before_the_first_request(collect: Collect) -> None:
    call = numbers(max_tokens=None)
    _, error = collect(call, texts(5), budget=Budget(usd=10))
    assert requests_of(call) == 0
    assert isinstance(error, JobStopped)
    assert isinstance(error.__cause__, UnsupportedLLMError)
    assert "max_tokens" in str(error)


def test_an_unknown_price_is_an_error_before_the_first_request() -> None:
    llm = ScriptedLLM(answer)
    call = ToolOrchestratingLLM(Number, "{text}", llm)
    with pytest.raises(UnsupportedLLMError, match="prices of scripted"):
        call.map(texts(5), budget=Budget(usd=10))
    with pytest.raises(ValueError, match="got seconds=5"):
        call.map(texts(5), budget=Budget(seconds=5))


def test_a_function_gets_the_progress(collect: Collect) -> None:
    seen: list[ProgressSnapshot] = []
    collect(numbers(), texts(30), progress=seen.append, budget=Budget(usd=5000))
    last = seen[-1]
    assert (last.state, last.done, last.failed, last.total, last.running) == ("done", 30, 0, 30, 0)
    assert (last.cost, last.budget) == (Decimal(1050), "$1,050.00 of $5,000.00")


def test_items_that_wait_to_be_admitted_do_not_count_as_running() -> None:
    run = LiveRun(numbers(), JobPlan())
    for number in range(10):
        run.read(str(number))
        run.schedule.start()
    seen = run.run.progress.snapshot(0.0)
    assert (seen.running, seen.concurrency) == (4, 4)
    run.schedule.stop()
    assert run.run.progress.snapshot(0.0).running == 10
    run.close()


def test_a_job_that_waits_for_its_budget_shows_that() -> None:
    release = Event()

    def hold(request: ScriptedRequest) -> Any:
        assert release.wait(30)
        return answer(request)

    call = numbers(llm=ScriptedLLM(hold, prices=DOLLAR_PER_TOKEN))
    outcomes = call.map(texts(30), budget=Budget(usd=300))
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(list, outcomes)
        while outcomes._job._run.progress.snapshot(0.0).limited_by != "budget":
            assert not ended.done()
        release.set()
        assert isinstance(ended.exception(30), JobStopped)


def test_the_progress_of_a_resumed_job(collect: Collect, tmp_path: Path) -> None:
    path = tmp_path / "numbers.db"
    collect(numbers(), texts(10), checkpoint=path)
    seen: list[ProgressSnapshot] = []
    collect(numbers(), [*texts(10), "11", "x"], checkpoint=path, progress=seen.append)
    last = seen[-1]
    assert (last.done, last.failed, last.from_checkpoint, last.total) == (12, 1, 10, 12)


def test_a_failing_callback_leaves_the_job_alone(collect: Collect, caplog: pytest.LogCaptureFixture) -> None:
    def fail(snapshot: ProgressSnapshot) -> None:
        raise RuntimeError("my mistake")

    with caplog.at_level(logging.WARNING, "toolcast"):
        outcomes, error = collect(numbers(), texts(10), progress=fail)
    assert (len(outcomes), error) == (10, None)
    assert "its progress is no longer shown (RuntimeError: my mistake)" in caplog.text


def test_the_progress_of_a_job_that_stops_early(collect: Collect) -> None:
    def refuse(request: ScriptedRequest) -> Any:
        raise NotFound("no such model")

    seen: list[ProgressSnapshot] = []
    call = ToolOrchestratingLLM(Number, "{text}", ScriptedLLM(refuse))
    _, error = collect(call, texts(100), progress=seen.append)
    assert isinstance(error, JobStopped)
    assert seen[-1].state == "done"
    assert seen[-1].failed == seen[-1].done < 100


def test_a_job_that_is_closed_early_ends_its_progress() -> None:
    seen: list[ProgressSnapshot] = []
    with Job(numbers(), texts(100), progress=seen.append).run() as outcomes:
        next(outcomes)
    assert seen[-1].state == "done"
    assert seen[-1].done < 100
