"""`Outcomes` and `AsyncOutcomes`, the iterators over the outcomes of a job, and `LiveJob`, which makes its calls live.

A `RunningJob` gives the outcomes: `LiveJob`, or `RemoteJob` (remote/outcomes.py) through a provider's batch API. Both
are written once, for callers with and without an event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from ..async_support import sync_driver
from ..async_support.background_jobs import BackgroundJob, join_all, start_job
from ..closing import AsyncClosing, Closing, Uncopyable
from ..html_repr import html_of
from ..live_display import Frame, LiveDisplay, find_notebook
from ..reprs import safe_repr
from .outcome import Outcome, OutcomeList
from .run import JobRun
from .workers import GRACE, Workers, workers_of

T = TypeVar("T")


class RunningJob(Protocol[T]):
    """A job in progress. In sync calls nothing in its methods suspends."""

    @property
    def raises(self) -> bool:
        """True if the first error of an item ends the job."""
        ...

    async def next_outcome(self) -> Outcome[T] | None:
        """Return the next outcome, or None at the end. Raise what ended the job early, after its outcomes."""
        ...

    async def close(self, *, failed: bool = False) -> None:
        """End the job and drop the outcomes that were not returned. Idempotent.

        `failed`: the caller raises an error of its own, so that none of the end is raised.
        """
        ...

    def abandon(self) -> None:
        """End the job without waiting for anything. From any thread; idempotent."""
        ...


class Outcomes(Closing, Uncopyable, Iterator[Outcome[T]]):
    """The outcomes of a job, one for each input. Closing it aborts what runs; so does the end of a `with` block.

    Inputs are read in the thread that iterates. Calls are made in the background, a bounded number ahead of it. With
    `via="batch"` all of it happens in the thread that iterates, and batches go on if there is a checkpoint.
    """

    def __init__(self, job: RunningJob[T]) -> None:
        self._job = job

    def __next__(self) -> Outcome[T]:
        outcome = sync_driver.run(_next_of(self._job))
        if outcome is None:
            raise StopIteration
        return outcome

    @safe_repr
    def __repr__(self) -> str:
        return f"<{type(self).__name__}: iterate it, or call show()>"

    def show(self) -> OutcomeList[T]:
        """Read the rest, display the outcomes as a table that grows, and return them as a list.

        In a notebook one output of the cell is updated, at most ten times a second. Elsewhere the first outcomes are
        printed once, at the end.
        """
        found: OutcomeList[T] = OutcomeList()
        with _display(found) as display:
            for outcome in self:
                found.append(outcome)
                display.update()
        return found

    def close(self) -> None:
        """Abort the items that run and drop their outcomes; end batches that no checkpoint keeps. Idempotent."""
        sync_driver.run(self._job.close())

    def __del__(self) -> None:
        if "_job" in vars(self):  # the constructor may have failed
            self._job.abandon()


class AsyncOutcomes(AsyncClosing, Uncopyable, AsyncIterator[Outcome[T]]):
    """The outcomes of a job, for `async for`. Closing it cancels what runs; so does the end of an `async with` block.

    Async inputs are read by a task of their own, others by the task that iterates. With `via="batch"` all of it happens
    in that task, and batches go on if there is a checkpoint.
    """

    def __init__(self, job: RunningJob[T]) -> None:
        self._job = job

    async def __anext__(self) -> Outcome[T]:
        outcome = await _next_of(self._job)
        if outcome is None:
            raise StopAsyncIteration
        return outcome

    @safe_repr
    def __repr__(self) -> str:
        return f"<{type(self).__name__}: iterate it, or call show()>"

    async def show(self) -> OutcomeList[T]:
        """Read the rest, display the outcomes as a table that grows, and return them as a list.

        In a notebook one output of the cell is updated, at most ten times a second. Elsewhere the first outcomes are
        printed once, at the end.
        """
        found: OutcomeList[T] = OutcomeList()
        with _display(found) as display:
            async for outcome in self:
                found.append(outcome)
                display.update()
        return found

    async def aclose(self) -> None:
        """Cancel the items that run and drop their outcomes; end batches that no checkpoint keeps. Idempotent."""
        await self._job.close()

    def __del__(self) -> None:
        if "_job" in vars(self):  # the constructor may have failed
            self._job.abandon()


async def _next_of(job: RunningJob[T]) -> Outcome[T] | None:
    """Return the next outcome of a job, or None at the end."""
    outcome = await job.next_outcome()
    if outcome is None or outcome.error is None or not job.raises:
        return outcome
    await job.close(failed=True)
    outcome.error.add_note(f"the input at index {outcome.index} of the job failed (key {outcome.key})")
    raise outcome.error


class LiveJob(Generic[T]):
    """A job whose calls are made live, by workers.

    Args:
        run: The run.
        rows: The inputs; async ones are read by a task of their own.
        concurrent: The caller is in an event loop.
    """

    def __init__(self, run: JobRun[T], rows: Iterator[Any] | AsyncIterator[Any], *, concurrent: bool) -> None:
        self.raises: bool = run.raises
        self._rows = rows
        self._run = run
        self._concurrent = concurrent
        self._workers = workers_of(run, concurrent=concurrent)
        self._reader: BackgroundJob | None = None
        self._closed = False

    async def next_outcome(self) -> Outcome[T] | None:
        """Return the next outcome, or None at the end. Raise what ended the job early, after its outcomes."""
        run, schedule = self._run, self._run.schedule
        while not self._closed:
            run.begin()
            self._read()
            if (outcome := schedule.take()) is not None:
                if self._reader is not None:
                    run.changed.wake()
                return outcome
            if schedule.ended:
                await self.close()
                if schedule.error is not None:
                    raise schedule.error
                break
            may_go_on = run.has_outcome if self._reader is not None else run.should_wake
            if self._concurrent:
                await run.changed.suspend(may_go_on)
            else:
                run.changed.block(may_go_on)
        return None

    async def close(self, *, failed: bool = False) -> None:
        """Abort the items that run and drop their outcomes. Idempotent."""
        if not self._closed:
            self._stop()
            if self._reader is not None:
                await join_all((self._reader,), GRACE)
            await self._workers.close()
            self._run.close()

    def abandon(self) -> None:
        """Abort the items that run, without waiting for their end. Idempotent."""
        if not self._closed:
            self._stop()
            self._run.close()

    def _stop(self) -> None:
        self._closed = True
        self._run.schedule.stop()
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
        self._workers.start()


def _display(found: OutcomeList[Any]) -> LiveDisplay:
    """Return the display of a notebook; on a terminal a job shows its progress itself."""
    return LiveDisplay(lambda: Frame(html_of(found), found.to_text()), monotonic, find_notebook())


def _read_rows(rows: Iterator[Any], run: JobRun[Any], workers: Workers) -> None:
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
    except Exception as raised:  # as in `_read_rows`
        error = raised
    finally:
        run.end_input(error)
        workers.start()
        run.changed.wake()
