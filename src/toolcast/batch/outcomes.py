"""`Outcomes` and `AsyncOutcomes`: the iterators over the outcomes of a job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, TypeVar

from ..async_support.background_jobs import BackgroundJob, join_all, start_job
from ..closing import AsyncClosing, Closing, Uncopyable
from .inputs import Inputs, open_inputs
from .outcome import Outcome
from .run import JobRun
from .workers import GRACE, TaskWorkers, ThreadWorkers, Workers

T = TypeVar("T")


class Outcomes(Closing, Uncopyable, Iterator[Outcome[T]]):
    """The outcomes of a job, one for each input. Closing it aborts what runs; so does the end of a `with` block.

    Inputs are read in the thread that iterates. Calls are made in the background, a bounded number ahead of it.
    """

    def __init__(self, run: JobRun[T], inputs: Inputs) -> None:
        rows = open_inputs(inputs)
        if isinstance(rows, AsyncIterator):
            raise TypeError("inputs: expected an iterable, got an async one, which amap() reads")
        self._rows: Iterator[Any] = rows
        self._run = run
        self._workers = ThreadWorkers(run)
        self._closed = False

    def __next__(self) -> Outcome[T]:
        run, schedule = self._run, self._run.schedule
        while not self._closed:
            read_rows(self._rows, run, self._workers)
            self._workers.start()
            outcome = schedule.take()
            if outcome is not None:
                if run.raises and outcome.error is not None:
                    self.close()
                    raise outcome.error
                return outcome
            if schedule.ended:
                self.close()
                if schedule.error is not None:
                    raise schedule.error
                break
            run.changed.block(run.should_wake)
        raise StopIteration

    def close(self) -> None:
        """Abort the items that run and drop their outcomes. Idempotent."""
        self._closed = True
        self._run.schedule.stop()
        self._workers.close()

    def __del__(self) -> None:
        if "_closed" in vars(self) and not self._closed:  # the constructor may have failed
            self._closed = True
            self._run.schedule.stop()
            self._workers.abandon()


class AsyncOutcomes(AsyncClosing, Uncopyable, AsyncIterator[Outcome[T]]):
    """The outcomes of a job, for `async for`. Closing it cancels what runs; so does the end of an `async with` block.

    Async inputs are read by a task of their own, others by the task that iterates.
    """

    def __init__(self, run: JobRun[T], inputs: Inputs) -> None:
        self._rows = open_inputs(inputs)
        self._run = run
        self._workers = TaskWorkers(run)
        self._reader: BackgroundJob | None = None
        self._closed = False

    async def __anext__(self) -> Outcome[T]:
        run, schedule = self._run, self._run.schedule
        while not self._closed:
            self._read()
            outcome = schedule.take()
            if outcome is not None:
                if self._reader is not None:
                    run.changed.wake()
                if run.raises and outcome.error is not None:
                    await self.aclose()
                    raise outcome.error
                return outcome
            if schedule.ended:
                await self.aclose()
                if schedule.error is not None:
                    raise schedule.error
                break
            await run.changed.suspend(run.has_outcome if self._reader is not None else run.should_wake)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Cancel the items that run and drop their outcomes. Idempotent."""
        self._abandon()
        await join_all(() if self._reader is None else (self._reader,), GRACE)
        await self._workers.aclose()

    def __del__(self) -> None:
        if "_closed" in vars(self) and not self._closed:  # the constructor may have failed
            self._abandon()

    def _abandon(self) -> None:
        self._closed = True
        self._run.schedule.stop()
        if self._reader is not None:
            self._reader.cancel()
        self._workers.abandon()

    def _read(self) -> None:
        if not isinstance(self._rows, AsyncIterator):
            read_rows(self._rows, self._run, self._workers)
        elif self._reader is None:
            main = partial(_read_async_rows, self._rows, self._run, self._workers)
            self._reader = start_job(main, concurrent=True, name="toolcast map inputs")
        self._workers.start()


def read_rows(rows: Iterator[Any], run: JobRun[Any], workers: Workers) -> None:
    """Read rows while some are wanted, but at most two if an outcome is ready: reading may take long."""
    schedule = run.schedule
    read = 0
    while schedule.wanted and (read < 2 or not schedule.ready):
        try:
            input = next(rows)
        except StopIteration:
            schedule.end_input()
            return
        except Exception as error:  # the caller's iterator; raised after the outcomes of the rows before it
            schedule.end_input(error)
            return
        run.read(input)
        read += 1
        workers.start()


async def _read_async_rows(rows: AsyncIterator[Any], run: JobRun[Any], workers: Workers) -> None:
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
    except Exception as raised:  # the caller's iterator; raised after the outcomes of the rows before it
        error = raised
    finally:
        schedule.end_input(error)
        run.changed.wake()
