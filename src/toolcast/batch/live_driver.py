"""`LiveDriver`: reads the inputs of a job, a bounded number ahead of its consumer, and makes its calls by workers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, TypeVar

from ..async_support.background_jobs import BackgroundJob, join_all, start_job
from .job_workers import GRACE, Workers, workers_of
from .live_run import LiveRun
from .outcome_iterators import RunningJob

T = TypeVar("T")


def live_job(run: LiveRun[T], rows: Iterator[Any] | AsyncIterator[Any], *, concurrent: bool) -> RunningJob[T]:
    """Return the job of a run whose calls are made live, for a caller in an event loop (`concurrent`) or without."""
    return RunningJob(run.run, LiveDriver(run, rows, concurrent=concurrent))


class LiveDriver:
    """The driver of a job whose calls are made live, by workers.

    Args:
        run: The calls.
        rows: The inputs; async ones are read by a task of their own.
        concurrent: The caller is in an event loop.
    """

    resumable: bool = True

    def __init__(self, run: LiveRun[Any], rows: Iterator[Any] | AsyncIterator[Any], *, concurrent: bool) -> None:
        self._rows = rows
        self._run = run
        self._concurrent = concurrent
        self._workers = workers_of(run, concurrent=concurrent)
        self._reader: BackgroundJob | None = None

    async def advance(self) -> None:
        """Read inputs, start workers, and wait until an outcome is ready or further inputs can be read."""
        run = self._run
        self._read()
        if run.has_outcome():
            return
        may_go_on = run.has_outcome if self._reader is not None else run.should_wake
        if self._concurrent:
            await run.changed.suspend(may_go_on)
        else:
            run.changed.block(may_go_on)

    async def close(self, *, failed: bool) -> None:
        """Abort the items that run, and wait for their end."""
        self._abort()
        if self._reader is not None:
            await join_all((self._reader,), GRACE)
        await self._workers.close()
        self._run.close()

    def abandon(self) -> None:
        """Abort the items that run, without waiting for their end."""
        self._abort()
        self._run.close()

    def _abort(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self._workers.abandon()

    def _read(self) -> None:
        if not isinstance(self._rows, AsyncIterator):
            _read_rows(self._rows, self._run, self._workers)
        elif self._reader is None:
            self._run.reads_apart = True
            main = partial(_read_async_rows, self._rows, self._run, self._workers)
            self._reader = start_job(main, concurrent=True, name="toolcast map inputs")
        else:
            self._run.changed.wake()  # an outcome may have been taken, so that the next row can be read
        self._workers.start()


def _read_rows(rows: Iterator[Any], run: LiveRun[Any], workers: Workers) -> None:
    """Read rows while some are wanted, but at most two if an outcome is ready: reading may take long."""
    schedule = run.schedule
    read = 0
    try:
        while schedule.wanted and (read < 2 or not schedule.ready):
            run.read(next(rows))
            read += 1
            if schedule.startable:
                workers.start()
    except StopIteration:
        run.end_input()
    except Exception as error:  # the caller's iterator, or an input without a key; raised after the outcomes before it
        run.end_input(error)


async def _read_async_rows(rows: AsyncIterator[Any], run: LiveRun[Any], workers: Workers) -> None:
    """Read rows while some are wanted, until their end."""
    schedule = run.schedule

    def has_room() -> bool:
        return schedule.wanted > 0 or schedule.stopped

    error: Exception | None = None
    try:
        while not schedule.stopped:
            run.read(await anext(rows))
            workers.start()
            await run.changed.suspend(has_room)
    except StopAsyncIteration:
        pass
    except Exception as raised:  # as in `_read_rows`
        error = raised
    finally:
        run.end_input(error)
        workers.start()
        run.changed.wake()
