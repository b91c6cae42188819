"""Tests of early ends of jobs: exits that a tool demands, leaving while requests are paced, and two jobs at once."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from itertools import count
from typing import Any

import anyio
import pytest

from support.number_server import Number, NumberServer
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.batch import Outcome
from toolcast.batch.pacing.pace import _registry
from toolcast.testing import ScriptedLLM, ScriptedRequest

NETWORKS = {"httpx": None, "aiohttp": "aiohttp"}


@pytest.fixture
def server() -> Generator[NumberServer]:
    with NumberServer() as server:
        yield server


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> Any:
    return NETWORKS[request.param]


def numbers(server: NumberServer, network: Any = None, output: Any = Number) -> Any:
    llm = OpenAI("m", api_key="none", base_url=server.url, network=network)
    return ToolOrchestratingLLM(output, "{text}", llm)


def answer(request: ScriptedRequest) -> Any:
    return {"value": int(request.messages[-1].text)}


def scripted(output: Any = Number) -> Any:
    return ToolOrchestratingLLM(output, "{text}", ScriptedLLM(answer))


def endless() -> Iterator[str]:
    return map(str, count())


def job_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("toolcast map")]


def queued() -> int:
    """The number of requests that wait for their turn, of all jobs."""
    return sum(len(shared.queue) + shared.controller.in_flight for shared in tuple(_registry.values()))


def exit_at(number: int, error: BaseException) -> Callable[[int], int]:
    """Return a tool that raises `error` for `number`."""

    def Number(value: int) -> int:
        if value == number:
            raise error
        return value

    return Number


EXITS = [SystemExit(3), KeyboardInterrupt()]


@pytest.mark.parametrize("error", EXITS, ids=repr)
def test_an_exit_of_a_tool_ends_the_job_after_the_outcomes_before_it(
    server: NumberServer, network: Any, error: BaseException
) -> None:
    seen: list[Any] = []
    outcomes = numbers(server, network, exit_at(3, error)).map(endless(), max_concurrency=1)
    with pytest.raises(type(error)) as caught:
        seen.extend(outcome.output for outcome in outcomes)
    assert caught.value is error
    assert seen == [0, 1, 2]
    assert server.requests == 4
    assert job_threads() == []
    assert list(outcomes) == []


@pytest.mark.parametrize("error", EXITS, ids=repr)
def test_an_exit_of_a_tool_while_others_run(server: NumberServer, network: Any, error: BaseException) -> None:
    """The job ends, although requests are under way that are not answered before the consumer leaves."""
    outcomes = numbers(server, network, exit_at(0, error)).map(endless(), max_concurrency=5, ordered=False)
    with pytest.raises(type(error)):
        list(outcomes)
    assert job_threads() == []
    assert queued() == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("error", EXITS, ids=repr)
def test_an_exit_of_a_tool_in_an_event_loop(backend: str, error: BaseException) -> None:
    seen: list[Any] = []

    async def main() -> None:
        async with scripted(exit_at(3, error)).amap(endless(), max_concurrency=1) as outcomes:
            async for outcome in outcomes:
                seen.append(outcome.output)

    with pytest.raises(type(error)):
        anyio.run(main, backend=backend)
    assert seen == [0, 1, 2]
    assert queued() == 0


def test_leaving_while_requests_wait_for_the_rate_limit(server: NumberServer, network: Any) -> None:
    """One request per minute: the first one is sent, and those that wait end with the job."""
    call = numbers(server, network)
    with call.map(endless(), rpm=1, ordered=False) as outcomes:
        assert next(outcomes).ok
    assert job_threads() == []
    assert queued() == 0
    assert server.requests == 1
    call.llm.close()


def test_an_abandoned_iterator_while_requests_wait_for_the_rate_limit(server: NumberServer, network: Any) -> None:
    call = numbers(server, network)
    for _ in call.map(endless(), rpm=1, ordered=False):
        break
    gc.collect()
    for thread in job_threads():
        thread.join(30)
        assert not thread.is_alive()
    assert queued() == 0
    assert server.requests == 1
    call.llm.close()


@pytest.mark.anyio
async def test_leaving_an_async_iterator_while_requests_wait_for_the_rate_limit(server: NumberServer) -> None:
    call = numbers(server)
    async with call.amap(endless(), rpm=1, ordered=False) as outcomes:
        assert (await anext(outcomes)).ok
    assert queued() == 0
    assert server.requests == 1
    await call.llm.aclose()


@pytest.mark.anyio
async def test_a_cancelled_consumer_leaves_while_requests_wait_for_the_rate_limit(server: NumberServer) -> None:
    call = numbers(server)
    with anyio.CancelScope() as scope:
        async with call.amap(endless(), rpm=1, ordered=False) as outcomes:
            async for _ in outcomes:
                scope.cancel()
    assert scope.cancelled_caught
    assert queued() == 0
    assert server.requests == 1
    await call.llm.aclose()


def test_two_jobs_in_one_thread(server: NumberServer, network: Any) -> None:
    call = numbers(server, network)
    jobs = call.map(map(str, range(0, 60, 2)), max_concurrency=3), call.map(map(str, range(1, 60, 2)))
    pairs = [(one.output.value, other.output.value) for one, other in zip(*jobs, strict=True)]
    assert pairs == [(number, number + 1) for number in range(0, 60, 2)]
    assert job_threads() == []
    call.llm.close()


@pytest.mark.anyio
async def test_two_jobs_in_one_task() -> None:
    """A job whose inputs are the outcomes of another."""
    first = scripted().amap(map(str, range(50)))
    texts = (str(outcome.output.value * 2) async for outcome in first)
    seen = [outcome.output.value async for outcome in scripted().amap(texts, max_concurrency=3)]
    assert seen == list(range(0, 100, 2))


def test_an_interrupt_ends_all_jobs_of_the_thread() -> None:
    before = signal.getsignal(signal.SIGINT)
    jobs = [scripted().map(endless(), max_concurrency=2) for _ in range(2)]
    seen = [[next(job)] for job in jobs]
    signal.raise_signal(signal.SIGINT)
    for job, outcomes in zip(jobs, seen, strict=True):
        assert signal.getsignal(signal.SIGINT) is not before
        with pytest.raises(KeyboardInterrupt):
            outcomes.extend(job)
        assert [outcome.index for outcome in outcomes] == list(range(len(outcomes)))
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_interrupt_in_an_event_loop(backend: str) -> None:
    seen: list[Outcome[Any]] = []

    async def main() -> None:
        async with scripted().amap(endless(), max_concurrency=2) as outcomes:
            async for outcome in outcomes:
                seen.append(outcome)
                if outcome.index == 5:
                    signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        anyio.run(main, backend=backend)
    assert [outcome.index for outcome in seen] == list(range(len(seen)))
    assert len(seen) >= 6
