"""Tests of `map` and `amap`: outcomes of many inputs, in every API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from support.collected_outcomes import Collect, collect_in, collect_sync
from toolcast import ToolOrchestratingLLM
from toolcast.batch import JobStopped, Outcome
from toolcast.errors import AuthFailed, ConnectFailed
from toolcast.testing import ScriptedLLM, ScriptedRequest


class Number(BaseModel):
    value: int


def answer(request: ScriptedRequest) -> Any:
    """Answer with the number in the message; "bad" is answered with text."""
    text = request.messages[-1].text
    return "no number" if "bad" in text else Number(value=int(text))


def numbers(llm: Any = None, **options: Any) -> ToolOrchestratingLLM[Number]:
    return ToolOrchestratingLLM(Number, "{text}", llm or ScriptedLLM(answer), **options)


def collect_sync_in(backend: str) -> Collect:
    def collect(call: ToolOrchestratingLLM[Number], inputs: Any, **options: Any) -> list[Outcome[Number]]:
        async def main() -> list[Outcome[Number]]:
            return list(call.map(inputs, **options))

        return anyio.run(main, backend=backend)

    return collect


WAYS = {
    "sync": collect_sync,
    "asyncio": collect_in("asyncio"),
    "trio": collect_in("trio"),
    "sync-in-asyncio": collect_sync_in("asyncio"),
    "sync-in-trio": collect_sync_in("trio"),
}


@pytest.fixture(params=WAYS)
def collect(request: pytest.FixtureRequest) -> Collect:
    return WAYS[request.param]


def test_outcomes_come_in_the_order_of_the_inputs(collect: Collect) -> None:
    outcomes = collect(numbers(), [str(number) for number in range(100)])
    assert [outcome.index for outcome in outcomes] == list(range(100))
    assert [outcome.output for outcome in outcomes] == [Number(value=number) for number in range(100)]
    assert {outcome.attempts for outcome in outcomes} == {1}


def test_outcomes_as_they_complete(collect: Collect) -> None:
    outcomes = collect(numbers(), [str(number) for number in range(100)], ordered=False)
    assert {outcome.output.value for outcome in outcomes if outcome.output} == set(range(100))


def test_an_error_is_the_outcome_of_its_item(collect: Collect) -> None:
    outcomes = collect(numbers(), ["1", "bad", "3"])
    assert [outcome.ok for outcome in outcomes] == [True, False, True]
    assert outcomes[1].attempts == 1
    assert outcomes[1].output is None


def test_the_first_error_is_raised_if_asked_for(collect: Collect) -> None:
    with pytest.raises(ValueError, match="tool call"):
        collect(numbers(), ["1", "bad", "3"], on_error="raise")


def test_an_error_that_every_item_would_get_stops_the_job(collect: Collect) -> None:
    def refuse(request: ScriptedRequest) -> Any:
        raise AuthFailed("no key")

    seen: list[int] = []

    def inputs() -> Iterator[str]:
        for number in range(10_000):
            seen.append(number)
            yield str(number)

    with pytest.raises(JobStopped, match="no key"):
        collect(numbers(ScriptedLLM(refuse)), inputs(), max_concurrency=2)
    assert len(seen) < 100


def test_a_service_that_cannot_be_reached_stops_the_job(collect: Collect) -> None:
    def fail(request: ScriptedRequest) -> Any:
        raise ConnectFailed("no connection")

    seen: list[int] = []

    def inputs() -> Iterator[str]:
        for number in range(10_000):
            seen.append(number)
            yield str(number)

    with pytest.raises(JobStopped, match="no connection"):
        collect(numbers(ScriptedLLM(fail)), inputs(), max_concurrency=2)
    assert 20 <= len(seen) < 100


def test_a_service_that_can_be_reached_now_and_then_does_not(collect: Collect) -> None:
    """The row of failures ends with any response."""
    count = 0

    def sometimes(request: ScriptedRequest) -> Any:
        nonlocal count
        count += 1
        if count % 20:
            raise ConnectFailed("no connection")
        return Number(value=1)

    outcomes = collect(numbers(ScriptedLLM(sometimes)), map(str, range(200)), max_concurrency=1)
    assert sum(outcome.ok for outcome in outcomes) == 10


def test_an_error_of_the_inputs_comes_after_the_outcomes_before_it() -> None:
    def inputs() -> Iterator[str]:
        yield "1"
        yield "2"
        raise OSError("disk")

    outcomes = numbers().map(inputs())
    assert [next(outcomes).index, next(outcomes).index] == [0, 1]
    with pytest.raises(OSError, match="disk"):
        next(outcomes)
    with pytest.raises(StopIteration):
        next(outcomes)


@pytest.mark.anyio
async def test_async_inputs() -> None:
    async def inputs() -> AsyncIterator[str]:
        for number in range(50):
            await anyio.lowlevel.checkpoint()
            yield str(number)

    made = numbers().amap(inputs())
    assert repr(made) == "<AsyncOutcomes: iterate it, or call show()>"
    assert [outcome.output async for outcome in made] == [Number(value=number) for number in range(50)]
