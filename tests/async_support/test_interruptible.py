"""A wait that can be interrupted: at every step of a call, alone and together with every kind of cancellation."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import trio

from toolcast.async_support import sync_driver
from toolcast.async_support.interruptible import Interrupted, Interruptible

STEPS = 16
GAPS = range(4)


class Work:
    """A call that waits in every way there is, and cleans up in the end."""

    def __init__(self, native: bool) -> None:
        self.native = native
        self.begun = self.ended = 0

    async def __call__(self) -> str:
        self.begun += 1
        try:
            await tick()
            async with anyio.create_task_group() as group:
                group.start_soon(self.child)
                await tick()
            with anyio.move_on_after(60):
                await tick()
            if self.native:
                await self.natively()
            return "done"
        finally:
            try:
                with anyio.CancelScope(shield=True):
                    await tick()
            finally:
                self.ended += 1

    async def child(self) -> None:
        self.begun += 1
        try:
            await tick()
            await tick()
        finally:
            self.ended += 1

    async def natively(self) -> None:
        async with asyncio.timeout(60):
            await asyncio.sleep(0)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.child())
        await asyncio.shield(asyncio.sleep(0))


async def tick(count: int = 1) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


async def caller(interruptible: Interruptible, work: Work) -> str:
    try:
        return await interruptible.run(work)
    except Interrupted:
        assert not interruptible.wanted
        return "interrupted"


# -- at every step --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("native", [False, True])
def test_interrupted_at_every_step(backend: str, native: bool) -> None:
    outcomes: list[str] = []

    async def main(step: int) -> None:
        interruptible, work = Interruptible(), Work(native and backend == "asyncio")

        async def run_caller() -> None:
            outcomes.append(await caller(interruptible, work))

        async with anyio.create_task_group() as group:
            group.start_soon(run_caller)
            await tick(step)
            interruptible.interrupt()
            interruptible.interrupt()
        assert work.begun == work.ended
        assert interruptible.wanted == (outcomes[-1] == "done")
        await tick(3)  # nothing is left of it

    for step in range(STEPS * 3):
        anyio.run(main, step, backend=backend)
    assert set(outcomes) == {"interrupted", "done"}


Acts = list[str]


@pytest.mark.parametrize("order", [["cancel"], ["cancel", "interrupt"], ["interrupt", "cancel"], ["cancel"] * 2])
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_scope_always_wins(backend: str, gap: int, order: Acts) -> None:
    outcomes: list[str] = []

    async def main(step: int) -> None:
        interruptible, work = Interruptible(), Work(False)
        inside: list[bool] = []

        async def scoped() -> None:
            outcome = "cancelled"
            with scope:
                inside.append(True)
                outcome = await caller(interruptible, work)
                inside.clear()
            outcomes.append(outcome)
            assert scope.cancelled_caught == (outcome == "cancelled")

        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()
            group.start_soon(scoped)
            await tick(step)
            expected = False
            for act in order:
                expected = expected or (act == "cancel" and bool(inside))
                scope.cancel() if act == "cancel" else interruptible.interrupt()
                await tick(gap)
        assert work.begun == work.ended
        if expected:
            assert outcomes[-1] in ("cancelled", "done")  # done: in its last step

    for step in range(STEPS):
        anyio.run(main, step, backend=backend)
    assert "cancelled" in outcomes


@pytest.mark.parametrize("order", [["cancel"], ["cancel", "interrupt"], ["interrupt", "cancel"], ["cancel"] * 2])
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("threadsafe", [False, True])
def test_a_cancelled_task_is_cancelled(gap: int, order: Acts, threadsafe: bool) -> None:
    outcomes: list[str] = []

    async def main(step: int) -> None:
        interruptible, work = Interruptible(), Work(True)
        task = asyncio.create_task(caller(interruptible, work))
        soon = asyncio.get_running_loop().call_soon if threadsafe else lambda call: call()
        await tick(step)
        expected = False
        for act in order:
            if act == "cancel":
                expected = expected or (not threadsafe and not task.done())
                soon(task.cancel)
            else:
                interruptible.interrupt()
            for _ in range(gap):
                await asyncio.sleep(0)
        await asyncio.wait((task,))
        assert work.begun == work.ended
        outcomes.append("cancelled" if task.cancelled() else task.result())
        if expected:
            assert outcomes[-1] in ("cancelled", "done")

    for step in range(STEPS * 2):
        asyncio.run(main(step))
    assert "cancelled" in outcomes


@pytest.mark.parametrize("first", ["timeout", "interrupt"])
@pytest.mark.parametrize("gap", GAPS)
def test_a_timeout_is_no_interruption(first: str, gap: int) -> None:
    async def main() -> str:
        interruptible = Interruptible()
        loop = asyncio.get_running_loop()

        async def timed() -> str:
            try:
                async with asyncio.timeout(None) as timeout:
                    clocks.append(lambda: timeout.reschedule(loop.time() - 1))
                    await interruptible.run(anyio.sleep_forever)
            except TimeoutError:
                return "timeout"
            except Interrupted:
                return "interrupt"
            return "done"

        clocks: list[Callable[[], object]] = []
        task = asyncio.create_task(timed())
        await asyncio.sleep(0)
        acts = [clocks[0], interruptible.interrupt]
        for act in acts if first == "timeout" else reversed(acts):
            if not task.done():
                act()
            for _ in range(gap):
                await asyncio.sleep(0)
        outcome = await task
        assert task.cancelling() == 0
        return outcome

    outcome = asyncio.run(main())
    assert outcome == "timeout" or (first == "interrupt" and gap > 0)


def test_a_caller_who_was_interrupted_is_not_cancelled() -> None:
    async def main() -> None:
        interruptible = Interruptible()
        for _ in range(2):
            asyncio.get_running_loop().call_soon(interruptible.interrupt)
            with pytest.raises(Interrupted):
                await interruptible.run(anyio.sleep_forever)
            task = asyncio.current_task()
            assert task is not None and task.cancelling() == 0
            await asyncio.sleep(0)

    asyncio.run(main())


# -- when there is nothing to interrupt -----------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_early_interruption_ends_the_next_call(backend: str) -> None:
    async def main() -> None:
        interruptible, called = Interruptible(), list[bool]()

        async def call() -> str:
            called.append(True)
            await tick()
            return "result"

        interruptible.interrupt()
        with pytest.raises(Interrupted):
            await interruptible.run(call)
        assert not called
        assert await interruptible.run(call) == "result"
        interruptible.interrupt()
        interruptible.reset()
        assert await interruptible.run(call) == "result"

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_may_survive(backend: str) -> None:
    """It gives its result, and the interruption strikes the next call."""

    async def main() -> None:
        interruptible = Interruptible()

        async def stubborn() -> str:
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                return "result"
            raise AssertionError

        async with anyio.create_task_group() as group:
            group.start_soon(later, interruptible.interrupt)
            assert await interruptible.run(stubborn) == "result"
        with pytest.raises(Interrupted):
            await interruptible.run(stubborn)

    async def later(call: Callable[[], object]) -> None:
        await tick(2)
        call()

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_may_interrupt_itself(backend: str) -> None:
    async def main() -> None:
        interruptible = Interruptible()

        async def call() -> None:
            interruptible.interrupt()
            await anyio.sleep_forever()

        with pytest.raises(Interrupted):
            await interruptible.run(call)

        async def late() -> None:
            await tick()
            await call()

        with pytest.raises(Interrupted):
            await interruptible.run(late)

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_the_call_raises_comes_out(backend: str) -> None:
    async def main() -> None:
        interruptible = Interruptible()

        async def fail(ticks: int) -> None:
            await tick(ticks)
            raise ZeroDivisionError

        for ticks in range(2):
            with pytest.raises(ZeroDivisionError):
                await interruptible.run(partial(fail, ticks))

    anyio.run(main, backend=backend)


def test_a_subtask_that_is_cancelled_is_no_interruption() -> None:
    async def main() -> None:
        interruptible = Interruptible()
        task = asyncio.create_task(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(task.cancel)

        async def call() -> None:
            await task

        with pytest.raises(asyncio.CancelledError):
            await interruptible.run(call)

    asyncio.run(main())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_interrupted_from_another_thread(backend: str) -> None:
    async def main() -> None:
        interruptible = Interruptible()

        async def call() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, interruptible.interrupt)
                await anyio.sleep_forever()

        with pytest.raises(Interrupted):
            await interruptible.run(call)

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("inner_first", [False, True])
def test_one_inside_the_other(backend: str, inner_first: bool) -> None:
    """Both are interrupted at once, and the call is cancelled once."""

    async def main() -> None:
        outer, inner = Interruptible(), Interruptible()
        cleaned: list[bool] = []

        async def call() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await tick(3)
                cleaned.append(True)

        async def between() -> None:
            with suppress(Interrupted):  # on asyncio the inner one raises it first
                await inner.run(call)

        async with anyio.create_task_group() as group:
            group.start_soon(both, (inner, outer) if inner_first else (outer, inner))
            with pytest.raises(Interrupted):
                await outer.run(between)
                await outer.run(between)
        assert cleaned == [True]

    async def both(targets: tuple[Interruptible, ...]) -> None:
        await tick(2)
        for target in targets:
            target.interrupt()

    anyio.run(main, backend=backend)


# -- without an event loop, and at the end of one ---------------------------------------------------------------


def test_without_a_loop_it_is_merely_a_call() -> None:
    interruptible = Interruptible()

    async def call() -> str:
        interruptible.interrupt()
        return "result"

    assert sync_driver.run(interruptible.run(call)) == "result"
    with pytest.raises(Interrupted):
        sync_driver.run(interruptible.run(call))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_sync_api_inside_a_loop_leaves_the_callers_task_alone(backend: str) -> None:
    interruptible = Interruptible()

    async def call() -> str:
        thread = threading.Thread(target=interruptible.interrupt)
        thread.start()
        thread.join()
        return "result"

    async def main() -> None:
        assert sync_driver.run(interruptible.run(call)) == "result"
        await tick(3)

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_loop_that_is_gone_is_not_reported(backend: str) -> None:
    interruptible = Interruptible()
    bound: list[Any] = []

    async def call() -> None:
        await tick()
        bound.append(trio.lowlevel.current_trio_token() if backend == "trio" else asyncio.current_task())
        assert bound[0] in gc.get_referents(interruptible)

    async def main() -> None:
        await interruptible.run(call)

    anyio.run(main, backend=backend)
    assert bound[0] not in gc.get_referents(interruptible)
    # The thread that interrupts may have read it before the end of the loop; no test can stop a thread there.
    if backend == "trio":
        interruptible._token = bound[0]
    else:
        interruptible._task = bound[0]
    interruptible.interrupt()
    assert interruptible.wanted


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("reset", [False, True])
def test_an_interruption_that_comes_with_the_end_of_the_call(backend: str, reset: bool) -> None:
    """The loop handles it after the call has ended."""
    interruptible = Interruptible()

    async def call() -> str:
        await tick()
        interruptible.interrupt()
        if reset:
            interruptible.reset()
            await tick(3)
        return "result"

    async def main() -> None:
        assert await interruptible.run(call) == "result"
        await tick(3)
        assert interruptible.wanted is not reset

    anyio.run(main, backend=backend)


def test_asyncio_without_trio_and_anyio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "trio")
    monkeypatch.delitem(sys.modules, "anyio")

    async def main() -> None:
        interruptible = Interruptible()
        asyncio.get_running_loop().call_soon(interruptible.interrupt)
        with pytest.raises(Interrupted):
            await interruptible.run(asyncio.Event().wait)

    asyncio.run(main())


class Bare:
    """Waits for nothing but the next turn of the loop, as `asyncio.sleep(0)` does."""

    def __init__(self, times: int) -> None:
        self.left = times

    def __await__(self) -> Generator[None]:
        while self.left:
            self.left -= 1
            yield


@pytest.mark.parametrize("after", range(4))
def test_bare_waits_are_interrupted_too(after: int) -> None:
    async def main() -> None:
        interruptible, bare = Interruptible(), Bare(8)
        asyncio.get_running_loop().call_soon(partial(count, after, interruptible.interrupt))
        with pytest.raises(Interrupted):
            await interruptible.run(partial(awaited, bare))
        assert bare.left > 0

    def count(left: int, call: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_soon(partial(count, left - 1, call)) if left else call()

    async def awaited(what: Awaitable[None]) -> None:
        await what

    asyncio.run(main())
