"""The workers of a job, which make its calls at the same time.

`TaskWorkers` are tasks of the caller's event loop. For a caller without one, `ThreadWorkers` are threads with sync
calls, and `LoopWorkers` tasks of an event loop in one background thread, for LLMs whose network is aiohttp: that takes
less than half of the CPU time. All of them run `LiveRun.work`.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import Thread, current_thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from ..async_support import sync_driver
from ..async_support.background_jobs import BackgroundJob, join_all, start_job
from ..errors import WouldSuspend
from ..llms.client import client_of
from ..llms.defaults import replacement
from .inputs import InputRow
from .live_run import AbortHandle, LiveRun

if TYPE_CHECKING:
    import asyncio

GRACE = 5.0
"""The seconds that the end of a job waits for workers that it has aborted."""


class Workers(Protocol):
    """The workers of a job."""

    def start(self) -> None:
        """Start a worker for each row that may start."""
        ...

    def abandon(self) -> None:
        """Abort the calls that run, without waiting for their end. From any thread."""
        ...

    async def close(self) -> None:
        """Abort the calls that run, and wait for their end: not longer than `GRACE`."""
        ...


def workers_of(run: LiveRun[Any], *, concurrent: bool) -> Workers:
    """Return the workers for a caller in an event loop (`concurrent`), or without one."""
    if concurrent:
        run.wake = run.changed.wake_here  # the workers are tasks of the same event loop
        return TaskWorkers(run)
    llm = replacement() or run.run.call.llm
    return LoopWorkers(run) if client_of(llm).prefers_event_loop else ThreadWorkers(run)


class ThreadWorkers:
    """Threads that make sync calls. A thread ends when there is nothing to do, and a new one starts then."""

    def __init__(self, run: LiveRun[Any]) -> None:
        self._run = run
        self._context = copy_context()
        self._threads: dict[Thread, AbortHandle] = {}

    def start(self) -> None:
        """Start a thread for each row that may start."""
        while (row := self._run.schedule.start()) is not None:
            handle = AbortHandle()
            target = partial(self._context.copy().run, self._work, row, handle)
            thread = Thread(target=target, name="toolcast map", daemon=True)
            self._threads[thread] = handle
            thread.start()

    def abandon(self) -> None:
        """Abort the calls that run, without waiting for their end."""
        for handle in tuple(self._threads.values()):
            handle.abort()

    async def close(self) -> None:
        """Abort the calls that run, and wait for their threads: not longer than `GRACE`, for all of them together."""
        self.abandon()
        until = monotonic() + GRACE
        for thread in tuple(self._threads):
            thread.join(max(until - monotonic(), 0.0))

    def _work(self, row: InputRow, handle: AbortHandle) -> None:
        job = BackgroundJob("toolcast map")
        try:
            with suppress(WouldSuspend):  # it is the outcome of the row, and ends the job
                sync_driver.run(
                    job.work(partial(self._run.work, row, client_of(self._run.run.call.llm).sync_backend(), handle))
                )
        finally:
            self._threads.pop(current_thread(), None)


class TaskWorkers:
    """Tasks of the running event loop."""

    def __init__(self, run: LiveRun[Any]) -> None:
        self._run = run
        self._jobs: set[BackgroundJob] = set()

    def start(self) -> None:
        """Start a task for each row that may start."""
        while (row := self._run.schedule.start()) is not None:
            jobs: list[BackgroundJob] = []
            job = start_job(partial(self._work, row, jobs), concurrent=True, name="toolcast map")
            jobs.append(job)
            if not job.done:
                self._jobs.add(job)

    def abandon(self) -> None:
        """Cancel the calls that run, without waiting for their end."""
        for job in tuple(self._jobs):
            job.cancel()

    async def close(self) -> None:
        """Cancel the calls that run, and wait for their tasks."""
        jobs = tuple(self._jobs)
        self.abandon()
        await join_all(jobs, GRACE)

    async def _work(self, row: InputRow, jobs: list[BackgroundJob]) -> None:
        try:
            await self._run.work(row, client_of(self._run.run.call.llm).async_backend(), AbortHandle())
        finally:
            self._jobs.difference_update(jobs)


class LoopWorkers:
    """Tasks of an event loop in a background thread, which ends with the job."""

    def __init__(self, run: LiveRun[Any]) -> None:
        self._run = run
        self._context = copy_context()
        self._task_context = copy_context()  # of its own, as that of the thread is in use
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event
        self._tasks: TaskWorkers
        self._scheduled = self._ended = False

    def start(self) -> None:
        """Let the event loop start a task for each row that may start."""
        if self._scheduled or not self._run.schedule.startable:
            return
        self._scheduled = True
        if self._loop is None:  # `_scheduled` stays True until the thread has set it
            self._thread = Thread(target=self._context.run, args=(self._main,), name="toolcast map", daemon=True)
            self._thread.start()
        else:
            self._loop.call_soon_threadsafe(self._start, context=self._task_context)

    def abandon(self) -> None:
        """Cancel the calls that run, without waiting for their end."""
        self._ended = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._end.set)

    async def close(self) -> None:
        """Cancel the calls that run, and wait for the thread."""
        self.abandon()
        if self._thread is not None:
            self._thread.join(GRACE)

    def _main(self) -> None:
        import asyncio

        with suppress(KeyboardInterrupt, SystemExit):  # a tool demands it, which cancels the others; the consumer exits
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        import asyncio

        self._end = asyncio.Event()
        self._tasks = TaskWorkers(self._run)
        self._loop = asyncio.get_running_loop()
        self._task_context.run(self._start)
        if not self._ended:
            await self._end.wait()
        await self._tasks.close()

    def _start(self) -> None:
        self._scheduled = False
        self._tasks.start()
