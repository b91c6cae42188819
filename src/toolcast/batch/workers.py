"""The workers of a job, which make its calls at the same time.

`ThreadWorkers` are threads with sync calls, `TaskWorkers` tasks of the running event loop. Both run `JobRun.work`.
"""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from threading import Thread
from typing import Any, Protocol

from ..async_support import sync_driver
from ..async_support.background_jobs import BackgroundJob, join_all, start_job
from ..transport.cancel_handle import CancelHandle
from .inputs import InputRow
from .run import JobRun

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


class ThreadWorkers:
    """Threads that make sync calls. A thread ends when there is nothing to do, and a new one starts then."""

    def __init__(self, run: JobRun[Any]) -> None:
        self._run = run
        self._context = copy_context()
        self._threads: dict[Thread, CancelHandle] = {}

    def start(self) -> None:
        """Start a thread for each row that may start."""
        while (row := self._run.schedule.start()) is not None:
            handle = CancelHandle()
            target = partial(self._context.copy().run, self._work, row, handle)
            thread = Thread(target=target, name="toolcast map", daemon=True)
            self._threads[thread] = handle
            thread.start()

    def abandon(self) -> None:
        """Abort the calls that run, without waiting for their end."""
        for handle in tuple(self._threads.values()):
            handle.break_off()

    def close(self) -> None:
        """Abort the calls that run, and wait for their threads."""
        self.abandon()
        for thread in tuple(self._threads):
            thread.join(GRACE)

    def _work(self, row: InputRow, handle: CancelHandle) -> None:
        from threading import current_thread

        try:
            with handle:
                sync_driver.run(self._run.work(row, self._run.call.llm.sync_backend()))
        finally:
            self._threads.pop(current_thread(), None)


class TaskWorkers:
    """Tasks of the running event loop."""

    def __init__(self, run: JobRun[Any]) -> None:
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

    async def aclose(self) -> None:
        """Cancel the calls that run, and wait for their tasks."""
        jobs = tuple(self._jobs)
        self.abandon()
        await join_all(jobs, GRACE)

    async def _work(self, row: InputRow, jobs: list[BackgroundJob]) -> None:
        try:
            await self._run.work(row, self._run.call.llm.async_backend())
        finally:
            self._jobs.difference_update(jobs)
