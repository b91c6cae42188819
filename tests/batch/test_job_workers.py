"""Tests of the workers of a job at its ends, and of the rows that they start, without a race."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from support.async_texts import AsyncTexts
from support.number_server import Number, NumberServer
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.async_support import sync_driver
from toolcast.batch import JobStopped, Outcome, job_workers
from toolcast.batch.job_options import JobPlan
from toolcast.batch.live_run import AbortHandle, LiveRun
from toolcast.errors import NotFound
from toolcast.llms.call_state import CallState
from toolcast.llms.client import client_of
from toolcast.testing import ScriptedLLM, ScriptedRequest


def answer(request: ScriptedRequest) -> Any:
    text = request.messages[-1].text
    return "no number" if text == "bad" else {"value": int(text)}


def numbers(respond: Callable[[ScriptedRequest], Any] = answer) -> ToolOrchestratingLLM[Number]:
    return ToolOrchestratingLLM(Number, "{text}", ScriptedLLM(respond))


class Breakable:
    """A call that counts how often it is broken off."""

    times = 0

    def break_off(self) -> None:
        self.times += 1


def test_a_call_that_begins_after_the_abort_is_broken_off() -> None:
    handle, call = AbortHandle(), Breakable()
    handle.abort()
    begun: CallState = call  # type: ignore[assignment]  # the part of it that the handle uses
    handle.begin(begun)
    assert call.times == 1
    handle.abort()
    assert call.times == 2


@pytest.mark.parametrize(("text", "requests"), [("7", 1), ("bad", 3)])
def test_rows_that_wait_for_an_equal_one_get_its_output_or_are_asked(text: str, requests: int) -> None:
    call = numbers()
    run = LiveRun(call, JobPlan(ask_once=True, max_concurrency=3, progress=False))
    run.run.begin()
    for _ in range(3):
        run.read(text)
    run.end_input()
    sync_driver.run(run.work(run.schedule.start(), client_of(call.llm).sync_backend(), AbortHandle()))
    outcomes = list[Outcome[Number]]()
    while (outcome := run.schedule.take()) is not None:
        outcomes.append(outcome)
    assert run.schedule.ended
    assert [outcome.index for outcome in outcomes] == [0, 1, 2]
    assert [outcome.ok for outcome in outcomes] == [text == "7"] * 3
    assert sum(outcome.attempts for outcome in outcomes) == requests
    run.close()
    run.run.close()


def test_a_task_that_ends_as_it_is_started_is_not_kept() -> None:
    """What asyncio's eager tasks do, from Python 3.12 on."""

    class Done(asyncio.Future[None]):
        def set_name(self, name: str) -> None: ...

    def eager(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        with pytest.raises(StopIteration):
            coroutine.__await__().send(None)
        coroutine.close()
        done = Done(loop=loop)
        done.set_result(None)
        return done

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with numbers().amap(["1", "2"]) as outcomes:
            loop.set_task_factory(eager)
            first = await anext(outcomes)
            loop.set_task_factory(None)
            assert first.output == Number(value=1)
            assert outcomes._job._driver._workers._jobs == set()
            assert [outcome.output async for outcome in outcomes] == [Number(value=2)]

    asyncio.run(main())


class LateThread:
    """A thread that begins when its end is awaited."""

    def __init__(self, *, target: Callable[..., object], args: tuple[Any, ...], **options: Any) -> None:
        self._run = lambda: target(*args)

    def start(self) -> None: ...

    def join(self, timeout: float | None = None) -> None:
        self._run()


def test_a_job_that_is_closed_before_its_thread_begins_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_workers, "Thread", LateThread)
    with NumberServer() as server:
        call = ToolOrchestratingLLM(Number, "{text}", OpenAI("m", api_key="k", base_url=server.url, network="aiohttp"))
        run = LiveRun(call, JobPlan())
        run.read("1")
        made = job_workers.workers_of(run, concurrent=False)
        made.start()
        sync_driver.run(made.close())
        run.close()
        assert (server.requests, run.schedule.running) == (0, 0)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_error_of_async_inputs_comes_after_the_outcomes_before_it(backend: str) -> None:
    async def texts() -> AsyncIterator[str]:
        yield "1"
        yield "2"
        raise ValueError("the source is gone")

    seen: list[Any] = []

    async def main() -> None:
        async with numbers().amap(texts()) as outcomes:
            async for outcome in outcomes:
                seen.append(outcome.output)

    with pytest.raises(ValueError, match="the source is gone"):
        anyio.run(main, backend=backend)
    assert seen == [Number(value=1), Number(value=2)]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_async_inputs_are_not_read_on_once_the_job_is_stopped(backend: str) -> None:
    texts = AsyncTexts()

    def refuse(request: ScriptedRequest) -> Any:
        raise NotFound("no such model")

    async def main() -> None:
        async with numbers(refuse).amap(texts, max_concurrency=1) as outcomes:
            assert not (await anext(outcomes)).ok
            while not outcomes._job._driver._reader.done:
                await anyio.lowlevel.checkpoint()
            with pytest.raises(JobStopped, match="no such model"):
                await anext(outcomes)

    anyio.run(main, backend=backend)
    assert texts.read <= 3


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_requests_are_aborted_before_the_end_of_async_inputs_is_awaited(backend: str) -> None:
    async def main() -> None:
        begun, aborted, ended = anyio.Event(), anyio.Event(), list[bool]()

        async def hang(request: Any) -> Number:
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                aborted.set()
            raise AssertionError

        async def texts() -> AsyncIterator[str]:
            yield "1"
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.move_on_after(3, shield=True):
                    await aborted.wait()
                ended.append(aborted.is_set())

        call = ToolOrchestratingLLM(Number, "{text}", ScriptedLLM(hang))
        async with call.amap(texts()) as outcomes, anyio.create_task_group() as group:
            group.start_soon(anext, outcomes)
            await begun.wait()
            group.cancel_scope.cancel()
        assert ended == [True]

    anyio.run(main, backend=backend)
