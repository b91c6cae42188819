"""Calls that a cancellation cannot leave half done."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from support import advancing_loop
from support.advancing_loop import AdvancingLoop
from toolcast.async_support import shielding
from toolcast.async_support.shielding import CallTimeouts, current_loop, run_or_undo, run_shielded, schedule_in_loop


async def ticks(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("between", range(3))
def test_an_answer_that_comes_with_the_cancellation_is_undone(between: int) -> None:
    """The request ends in the same tick in which its caller is cancelled."""
    undone: list[str] = []

    async def main() -> None:
        gate = asyncio.Event()

        async def call() -> str:
            await gate.wait()
            return "answer"

        async def undo(answer: str) -> None:
            undone.append(answer)

        task = asyncio.create_task(run_or_undo(call, undo, None))
        await ticks(3)
        gate.set()
        await ticks(between)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert undone == ["answer"]


@pytest.mark.fault(103)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_apart_has_a_time_limit(backend: str) -> None:
    ended: list[bool] = []

    async def call() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await run_or_undo(call, nothing_to_undo, 0.01)
        assert ended == [True]

    anyio.run(main, backend=backend)


async def nothing_to_undo(result: object) -> None:
    raise AssertionError(f"{result} was undone")


def test_an_error_comes_out_of_a_call_apart() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await run_or_undo(fail, nothing_to_undo, None)

    for backend in ("asyncio", "trio"):
        anyio.run(main, backend=backend)


@pytest.mark.fault(103)
def test_a_call_apart_that_will_not_end_is_left_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shielding, "_MAX_CANCELLATIONS", 2)

    async def main() -> None:
        gate = asyncio.Event()

        async def stubborn() -> None:
            while not gate.is_set():
                try:
                    await gate.wait()
                except asyncio.CancelledError:
                    continue

        task = asyncio.create_task(run_or_undo(stubborn, nothing_to_undo, None))
        for _ in range(5):
            await ticks(3)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        await ticks(3)

    asyncio.run(main())


@pytest.mark.parametrize(("forward", "cancels", "finished"), [(0, 1, 5), (0, 8, 5), (1, 1, 1), (0, 9, 3)])
def test_cancellations_wait_for_the_end_of_a_call(forward: int, cancels: int, finished: int) -> None:
    """Each bare tick is a chance to be cancelled; the ninth cancellation breaks it off."""
    steps: list[int] = []

    async def work() -> str:
        for number in range(max(cancels, 4) + 1):
            await asyncio.sleep(0)
            steps.append(number)
        return "done"

    async def main() -> None:
        task = asyncio.create_task(run_shielded(work, forward))
        await ticks(1)
        for _ in range(cancels):
            task.cancel()
            await ticks(1)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    complete = forward == 0 and cancels <= 8
    assert (len(steps) == max(cancels, 4) + 1) == complete


def test_an_unbroken_step_is_closed_with_its_caller() -> None:
    closed: list[bool] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async def main() -> None:
        async def caller() -> None:
            await run_shielded(waits)

        coroutine = caller()
        coroutine.send(None)
        coroutine.close()

    asyncio.run(main())
    assert closed == [True]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_generator_is_not_claimed_by_the_loop(backend: str) -> None:
    closed: list[bool] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            closed.append(True)

    async def main() -> None:
        generator = numbers()
        assert await run_shielded(generator.__anext__) == 1
        del generator
        gc.collect()
        assert closed == [True]

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_last_call_runs_in_its_loop_or_not_at_all(backend: str) -> None:
    loops: list[Any] = []

    async def last(done: Callable[[], None]) -> None:
        loops.append(current_loop())
        done()

    async def main() -> Any:
        event = anyio.Event()
        loop = current_loop()
        await anyio.to_thread.run_sync(schedule_in_loop, loop, partial(last, event.set))
        await event.wait()
        assert loops == [loop]
        return loop

    ended = anyio.run(main, backend=backend)
    schedule_in_loop(ended, partial(last, list))
    gc.collect()
    assert len(loops) == 1


def test_asyncio_without_trio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(shielding.sys.modules, "trio", raising=False)

    async def main() -> bool:
        return current_loop() is asyncio.get_running_loop()

    assert asyncio.run(main())


@pytest.mark.fault(103)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_each_call_has_its_time_limit(backend: str) -> None:
    async def main() -> None:
        timeouts = CallTimeouts(current_loop())
        assert await timeouts.run(partial(anyio.sleep, 0), 5.0) is None
        assert await timeouts.run(partial(anyio.sleep, 0), None) is None
        with pytest.raises(TimeoutError):
            await timeouts.run(anyio.sleep_forever, 0.01)
        with anyio.move_on_after(0.01) as scope:
            await timeouts.run(anyio.sleep_forever, 5.0)
        assert scope.cancelled_caught
        timeouts.end()

    anyio.run(main, backend=backend)


def test_a_timer_that_rings_too_early_is_wound_up_again() -> None:
    async def main() -> None:
        loop = AdvancingLoop.running()

        async def passes(seconds: float) -> None:
            loop.advance(seconds)
            await ticks(3)

        timeouts = CallTimeouts(loop)
        nothing = partial(asyncio.sleep, 0)
        await timeouts.run(nothing, 10)
        task = asyncio.create_task(timeouts.run(anyio.sleep_forever, 30))
        await ticks(2)
        await passes(20)  # its timer is that of the wait before
        assert not task.done()
        await passes(20)
        with pytest.raises(TimeoutError):
            await task
        await timeouts.run(nothing, 10)
        gate = asyncio.Event()
        endless = asyncio.create_task(timeouts.run(gate.wait, None))
        await ticks(2)
        await passes(20)  # it expires while no wait has a limit
        assert not endless.done()
        gate.set()
        await endless
        task = asyncio.create_task(timeouts.run(anyio.sleep_forever, 10))
        await ticks(2)
        await passes(20)
        with pytest.raises(TimeoutError):
            await task

    advancing_loop.run(main())


@pytest.mark.parametrize("first", [True, False])
def test_a_cancellation_is_no_time_limit(first: bool) -> None:
    """Both come in the same moment."""

    async def main() -> None:
        loop = AdvancingLoop.running()
        timeouts = CallTimeouts(loop)
        task = asyncio.create_task(timeouts.run(anyio.sleep_forever, 5.0))
        await ticks(2)
        if first:
            loop.call_soon(task.cancel)
        else:
            loop.call_at(loop.time() + 6.0, task.cancel)
        loop.advance(10.0)  # the timer fires in the same step of the loop as the cancellation
        with pytest.raises(asyncio.CancelledError):
            await task
        timeouts.end()

    advancing_loop.run(main())
