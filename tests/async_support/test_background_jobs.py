"""Jobs beside their caller: tasks of asyncio and trio, and threads."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from toolcast.async_support.background_jobs import BackgroundJob, start_job

PATIENCE = 20.0
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])
word: ContextVar[str] = ContextVar("word", default="none")


async def ticks(count: int = 5) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


async def fail(error: BaseException) -> None:
    raise error


def here(call: Callable[[], Awaitable[None]], backend: str) -> None:
    anyio.run(call, backend=backend)


# -- threads ----------------------------------------------------------------------------------------------------


def test_a_job_in_a_thread() -> None:
    gate = threading.Event()
    seen: list[Any] = []

    async def main() -> None:
        assert gate.wait(PATIENCE)
        seen.extend((word.get(), threading.current_thread().name, threading.current_thread().daemon))

    word.set("mine")
    job = start_job(main, concurrent=False, name="turn")
    assert not job.done
    assert not job.wait(0)
    assert not job.wait(0.001)
    job.cancel()
    assert job.cancelled
    gate.set()
    assert job.wait(PATIENCE)
    assert (job.done, job.error, job.name) == (True, None, "turn")
    assert seen == ["mine", "turn", True]
    word.set("none")


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(1), asyncio.CancelledError()])
def test_whatever_ends_a_thread_is_kept(error: BaseException) -> None:
    job = start_job(partial(fail, error), concurrent=False, name="turn")
    assert job.wait(PATIENCE)
    assert job.error is error
    job.cancel()


def test_a_thread_that_would_need_a_loop() -> None:
    async def main() -> None:
        await asyncio.sleep(0)

    job = start_job(main, concurrent=False, name="turn")
    job.wait()
    assert isinstance(job.error, RuntimeError)


def test_what_cannot_even_be_called() -> None:
    def main() -> Any:
        raise ZeroDivisionError

    job = start_job(main, concurrent=False, name="turn")
    assert job.wait(PATIENCE)
    assert isinstance(job.error, ZeroDivisionError)


@BACKENDS
def test_a_thread_is_joined_in_a_loop(backend: str) -> None:
    gate = threading.Event()

    async def main() -> None:
        assert gate.wait(PATIENCE)

    async def joins() -> None:
        job = start_job(main, concurrent=False, name="turn")
        with anyio.move_on_after(0.001) as scope:
            await job.join()
        assert scope.cancelled_caught
        gate.set()
        await job.join()
        assert job.done
        await job.join()

    here(joins, backend)


# -- tasks ------------------------------------------------------------------------------------------------------


@BACKENDS
def test_a_job_in_a_loop(backend: str) -> None:
    seen: list[str] = []

    async def main() -> None:
        seen.append(word.get())
        word.set("the job's")
        await ticks()
        seen.append("ended")

    async def starts() -> None:
        word.set("mine")
        job = start_job(main, concurrent=True, name="turn")
        word.set("later")
        assert not job.done
        gc.collect()
        with anyio.move_on_after(0):
            await job.join()
        assert not job.cancelled
        await job.join()
        assert (job.done, job.error, seen) == (True, None, ["mine", "ended"])
        assert word.get() == "later"
        assert job.wait(0)
        job.cancel()

    here(starts, backend)


@BACKENDS
def test_whatever_ends_a_task_is_kept(backend: str) -> None:
    async def starts() -> None:
        for error in (ValueError("x"), BaseExceptionGroup("x", [GeneratorExit()])):
            job = start_job(partial(fail, error), concurrent=True, name="turn")
            await job.join()
            assert job.error is error
        del job
        gc.collect()

    here(starts, backend)


@BACKENDS
@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("from_thread", [False, True])
def test_a_job_is_cancelled_where_it_waits(backend: str, after: int, from_thread: bool) -> None:
    """Also before its first step: it always begins, and cleans up."""
    seen: list[str] = []

    async def main() -> None:
        seen.append("begun")
        try:
            await ticks(2)
            await anyio.sleep_forever()
        finally:
            seen.append("ended")

    async def starts() -> None:
        job = start_job(main, concurrent=True, name="turn")
        await ticks(after)
        if from_thread:
            await anyio.to_thread.run_sync(job.cancel)
        else:
            job.cancel()
        job.cancel()
        await job.join()
        assert isinstance(job.error, anyio.get_cancelled_exc_class())
        assert seen == ["begun", "ended"]

    here(starts, backend)


@BACKENDS
@pytest.mark.parametrize("after", range(3))
def test_a_job_ends_with_its_loop(backend: str, after: int) -> None:
    seen: list[str] = []
    jobs: list[BackgroundJob] = []
    tasks: list[weakref.ref[asyncio.Task[Any]]] = []

    async def main() -> None:
        seen.append("begun")
        if backend == "asyncio":
            task = asyncio.current_task()
            assert task is not None
            tasks.append(weakref.ref(task))
            del task
        try:
            await anyio.sleep_forever()
        finally:
            seen.append("ended")

    async def starts() -> None:
        jobs.append(start_job(main, concurrent=True, name="turn"))
        await ticks(after)

    here(starts, backend)
    assert seen == ["begun", "ended"]
    assert jobs[0].done
    assert jobs[0].error is not None
    jobs.pop().cancel()
    gc.collect()
    assert [task() for task in tasks] == [None] * (backend == "asyncio")


def test_a_job_that_is_over_in_its_first_step_though_it_was_cancelled() -> None:
    seen: list[str] = []

    async def main() -> None:
        seen.append("begun")

    async def starts() -> None:
        job = start_job(main, concurrent=True, name="turn")
        (task,) = asyncio.all_tasks() - {asyncio.current_task()}
        task.cancel()
        await job.join()
        assert (seen, job.error) == (["begun"], None)

    asyncio.run(starts())


@BACKENDS
def test_a_thread_waits_for_a_task(backend: str) -> None:
    async def starts() -> None:
        gate = anyio.Event()
        job = start_job(gate.wait, concurrent=True, name="turn")
        await ticks()
        with pytest.raises(RuntimeError, match="turn runs in the thread that would wait for it"):
            job.wait()
        async with anyio.create_task_group() as group:
            group.start_soon(waits, job)
            await ticks()
            gate.set()

    async def waits(job: BackgroundJob) -> None:
        assert await anyio.to_thread.run_sync(job.wait, PATIENCE)

    here(starts, backend)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_goes_on_to_asyncio(error: type[BaseException]) -> None:
    jobs: list[BackgroundJob] = []

    async def starts() -> None:
        jobs.append(start_job(partial(fail, error()), concurrent=True, name="turn"))
        await asyncio.Event().wait()

    with pytest.raises(error):
        asyncio.run(starts())
    assert isinstance(jobs[0].error, error)
    gc.collect()


def test_trio_goes_on_after_sys_exit() -> None:
    async def starts() -> None:
        job = start_job(partial(fail, SystemExit(1)), concurrent=True, name="turn")
        await job.join()
        assert isinstance(job.error, SystemExit)

    anyio.run(starts, backend="trio")


def test_the_task_shows_its_name() -> None:
    async def starts() -> None:
        job = start_job(partial(anyio.sleep, 0), concurrent=True, name="turn 7")
        (task,) = asyncio.all_tasks() - {asyncio.current_task()}
        assert task.get_name() == "turn 7"
        assert "turn 7" in repr(task)
        await job.join()

    asyncio.run(starts())


def test_a_task_that_is_begun_at_once() -> None:
    """What asyncio's eager tasks do, from Python 3.12 on: the first step is made before there is a task."""

    class Done(asyncio.Future[None]):
        def set_name(self, name: str) -> None:
            assert name == "turn"

    def eager(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        with pytest.raises(StopIteration):
            coroutine.__await__().send(None)
        coroutine.close()
        done = Done(loop=loop)
        done.set_result(None)
        tasks.append(weakref.ref(done))
        return done

    async def starts() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(eager)
        job = start_job(nothing, concurrent=True, name="turn")
        loop.set_task_factory(None)
        assert job.done
        gc.collect()
        assert [task() for task in tasks] == [None]

    async def nothing() -> None: ...

    tasks: list[weakref.ref[Done]] = []
    asyncio.run(starts())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
@pytest.mark.parametrize("waits", [0, 2])
def test_eager_tasks(waits: int) -> None:
    async def starts() -> None:
        eager: Any = vars(asyncio)["eager_task_factory"]
        asyncio.get_running_loop().set_task_factory(eager)
        job = start_job(partial(ticks, waits), concurrent=True, name="turn")
        await job.join()
        assert job.error is None

    asyncio.run(starts())
