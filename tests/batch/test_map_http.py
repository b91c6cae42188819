"""Tests of `map` and `amap` over real HTTP: threads, an event loop in the background, and early ends."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, field_validator

from support.async_texts import AsyncTexts
from support.number_server import Number, NumberServer
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.batch import JobStopped, Outcome
from toolcast.errors import AuthFailed

NAMES = {"toolcast map", "toolcast map inputs"}


@pytest.fixture
def server() -> Generator[NumberServer]:
    with NumberServer() as server:
        yield server


@pytest.fixture(params=[None, "aiohttp"], ids=["httpx", "aiohttp"])
def network(request: pytest.FixtureRequest) -> Any:
    return request.param


def numbers(server: NumberServer, network: Any = None, output: Any = Number, **options: Any) -> Any:
    llm = OpenAI("m", api_key="none", base_url=server.url, network=network)
    return ToolOrchestratingLLM(output, "{text}", llm, **options)


def own_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name in NAMES]


def test_requests_overlap_up_to_the_limit(server: NumberServer, network: Any) -> None:
    server.hold()
    with numbers(server, network).map(map(str, range(30)), max_concurrency=7) as outcomes:
        released = threading.Thread(target=lambda: (server.wait(lambda: server.running == 7), server.release()))
        released.start()
        assert [outcome.output.value for outcome in outcomes] == list(range(30))
    released.join()
    assert (server.requests, server.most) == (30, 7)
    assert own_threads() == []


def test_an_outcome_has_the_usage_of_its_item(server: NumberServer, network: Any) -> None:
    outcomes = list(numbers(server, network, max_attempts=2).map(["1", "bad"]))
    assert [(outcome.attempts, outcome.usage.input_tokens) for outcome in outcomes] == [(1, 10), (2, 20)]
    assert outcomes[0].seconds > 0


def test_memory_is_bounded_by_the_limits_and_not_by_the_inputs(server: NumberServer, network: Any) -> None:
    """Inputs without an end: a consumer that takes some of them has had not many more read and sent."""
    read = 0

    def inputs() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield str(read)

    with numbers(server, network).map(inputs(), max_concurrency=4) as outcomes:
        for _ in range(20):
            next(outcomes)
        server.wait(lambda: server.running == 0)
    assert read <= 20 + 4 * 3
    assert server.requests <= 20 + 4 * 3


def test_a_job_that_is_closed_before_its_first_item_sends_nothing(server: NumberServer, network: Any) -> None:
    outcomes = numbers(server, network).map(["1"])
    outcomes.close()
    assert list(outcomes) == []
    assert server.requests == 0


def test_closing_aborts_what_runs(server: NumberServer, network: Any) -> None:
    server.hold()
    call = numbers(server, network)
    with call.map(map(str, range(1_000)), max_concurrency=5) as outcomes:
        waiting = threading.Thread(target=lambda: suppress_all(outcomes))
        waiting.start()
        server.wait(lambda: server.running == 5)
    waiting.join()
    server.wait(lambda: server.running == 0)
    assert own_threads() == []
    with pytest.raises(StopIteration):
        next(outcomes)
    assert server.requests == 5
    call.llm.close()


def suppress_all(outcomes: Iterator[Any]) -> None:
    with suppress(StopIteration):
        next(outcomes)


def test_an_abandoned_iterator_aborts_what_runs(server: NumberServer, network: Any) -> None:
    server.hold()
    call = numbers(server, network)
    server.release()
    outcomes = call.map(map(str, range(1_000)), max_concurrency=5)
    next(outcomes)
    threads = own_threads()
    server.hold()
    del outcomes
    gc.collect()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    server.wait(lambda: server.running == 0)
    call.llm.close()
    server.wait(lambda: server.open == 0)


@pytest.mark.anyio
async def test_closing_cancels_the_tasks(server: NumberServer) -> None:
    call = numbers(server)
    async with call.amap(map(str, range(1_000)), max_concurrency=5) as outcomes:
        await anext(outcomes)
        await anyio.to_thread.run_sync(server.hold)
    await anyio.to_thread.run_sync(lambda: server.wait(lambda: server.running == 0))
    with pytest.raises(StopAsyncIteration):
        await anext(outcomes)
    await call.llm.aclose()


@pytest.mark.anyio
async def test_an_abandoned_async_iterator_cancels_its_tasks(server: NumberServer) -> None:
    call = numbers(server)
    outcomes = call.amap(AsyncTexts(), max_concurrency=5)
    await anext(outcomes)
    await anyio.to_thread.run_sync(server.hold)
    del outcomes
    gc.collect()
    await anyio.to_thread.run_sync(lambda: server.wait(lambda: server.running == 0))
    await call.llm.aclose()


def test_a_cancelled_consumer_can_go_on(server: NumberServer) -> None:
    async def main() -> list[Outcome[Number]]:
        call = numbers(server, "aiohttp")
        server.hold()
        async with call.amap(["1", "2"]) as outcomes:
            with anyio.move_on_after(0.01):
                await anext(outcomes)
            await anyio.to_thread.run_sync(server.release)
            found = [outcome async for outcome in outcomes]
        await call.llm.aclose()
        return found

    assert [outcome.output for outcome in anyio.run(main)] == [Number(value=1), Number(value=2)]


def test_a_wrong_key_stops_the_job(server: NumberServer, network: Any) -> None:
    seen: list[Outcome[Number]] = []
    with pytest.raises(JobStopped) as caught:
        seen.extend(
            outcome
            for outcome in numbers(server, network).map(
                ["1", "2", "refuse", *map(str, range(1_000))], max_concurrency=1
            )
        )
    assert isinstance(caught.value.__cause__, AuthFailed)
    assert caught.value.reason == "error"


class Slow(BaseModel):
    value: int

    @field_validator("value")
    @classmethod
    def wait_for_the_others(cls, value: int) -> int:
        BARRIER.wait(30)
        return value


BARRIER = threading.Barrier(5)


def test_blocking_validators_stop_no_other_item(server: NumberServer, network: Any) -> None:
    """Each of five validators returns when all five run."""
    Slow.__name__ = "Number"
    outcomes = list(numbers(server, network, Slow).map(map(str, range(5)), max_concurrency=5))
    assert [outcome.error for outcome in outcomes] == [None] * 5


def test_blocking_validators_stop_no_other_item_in_the_callers_loop(server: NumberServer) -> None:
    async def main() -> list[Outcome[Any]]:
        call = numbers(server, "aiohttp", Slow)
        async with call.amap(map(str, range(5)), max_concurrency=5) as outcomes:
            found = [outcome async for outcome in outcomes]
        await call.llm.aclose()
        return found

    assert [outcome.error for outcome in anyio.run(main)] == [None] * 5


def test_blocking_tools_stop_no_other_item(server: NumberServer, network: Any) -> None:
    barrier = threading.Barrier(5)

    def Number(value: int) -> int:
        barrier.wait(30)
        return value

    outcomes = list(numbers(server, network, Number).map(map(str, range(5)), max_concurrency=5))
    assert [outcome.output for outcome in outcomes] == list(range(5))


def test_a_checkpoint_saves_requests(server: NumberServer, network: Any, tmp_path: Path) -> None:
    path = tmp_path / "job.sqlite"
    first = list(numbers(server, network).map(["1", "2", "bad"], checkpoint=path))
    again = list(numbers(server, network).map(["1", "2", "bad", "3"], checkpoint=path))
    assert [outcome.output for outcome in again[:2]] == [outcome.output for outcome in first[:2]]
    assert not again[2].ok
    assert sorted(server.texts) == ["1", "2", "3", "bad", "bad"]


def test_the_first_interrupt_finishes_what_runs(server: NumberServer, network: Any) -> None:
    server.hold()
    seen: list[int] = []

    def press() -> None:
        server.wait(lambda: server.running == 3)
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    pressing = threading.Thread(target=press)
    with pytest.raises(KeyboardInterrupt):
        for outcome in interrupted(numbers(server, network), server, pressing):
            seen.append(outcome.index)
    assert seen == [0, 1, 2]
    assert server.requests == 3
    assert signal.getsignal(signal.SIGINT) is before


def interrupted(call: Any, server: NumberServer, pressing: threading.Thread) -> Iterator[Outcome[Any]]:
    """Iterate over outcomes while another thread presses Ctrl-C and then lets the server answer."""
    outcomes = call.map(map(str, range(1_000)), max_concurrency=3)

    def release() -> None:
        pressing.join()
        wait_until_stopped(outcomes)
        server.release()

    pressing.start()
    releasing = threading.Thread(target=release)
    releasing.start()
    yield from outcomes
    releasing.join()


def wait_until_stopped(outcomes: Any) -> None:
    run = outcomes._job._driver._run
    assert run.changed.block(lambda: run.schedule.stopped, 30)


def test_the_second_interrupt_stops_at_once(server: NumberServer, network: Any) -> None:
    server.hold()

    outcomes = numbers(server, network).map(map(str, range(1_000)), max_concurrency=3)

    def press() -> None:
        server.wait(lambda: server.running == 3)
        signal.raise_signal(signal.SIGINT)
        wait_until_stopped(outcomes)
        signal.raise_signal(signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt), outcomes:
        next(outcomes)
    pressing.join()
    server.wait(lambda: server.running == 0)
    assert server.requests == 3
    assert own_threads() == []
