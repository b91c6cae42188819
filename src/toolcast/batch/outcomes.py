"""`Outcomes` and `AsyncOutcomes`: the iterators over the outcomes of a job."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from ..async_support.background_jobs import BackgroundJob, join_all, start_job
from ..closing import AsyncClosing, Closing, Uncopyable
from ..html_repr import html_of
from ..live_display import Frame, LiveDisplay, find_notebook
from ..reprs import safe_repr
from .outcome import Outcome, OutcomeList
from .run import JobRun
from .workers import GRACE, TaskWorkers, Workers, sync_workers

T = TypeVar("T")


class Outcomes(Closing, Uncopyable, Iterator[Outcome[T]]):
    """The outcomes of a job, one for each input. Closing it aborts what runs; so does the end of a `with` block.

    Inputs are read in the thread that iterates. Calls are made in the background, a bounded number ahead of it.
    """

    def __init__(self, run: JobRun[T], rows: Iterator[Any]) -> None:
        self._rows = rows
        self._run = run
        self._workers = sync_workers(run)
        self._closed = False

    def __next__(self) -> Outcome[T]:
        run, schedule = self._run, self._run.schedule
        while not self._closed:
            run.begin()
            read_rows(self._rows, run, self._workers)
            self._workers.start()
            if (outcome := schedule.take()) is not None:
                if run.raises and outcome.error is not None:
                    self.close()
                    raise error_of(outcome)
                return outcome
            if schedule.ended:
                self.close()
                if schedule.error is not None:
                    raise schedule.error
                break
            run.changed.block(run.should_wake)
        raise StopIteration

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
        """Abort the items that run and drop their outcomes. Idempotent."""
        if not self._closed:
            self._closed = True
            self._run.schedule.stop()
            self._workers.close()
            self._run.close()

    def __del__(self) -> None:
        if "_closed" in vars(self) and not self._closed:  # the constructor may have failed
            self._closed = True
            self._run.schedule.stop()
            self._workers.abandon()
            self._run.close()


class AsyncOutcomes(AsyncClosing, Uncopyable, AsyncIterator[Outcome[T]]):
    """The outcomes of a job, for `async for`. Closing it cancels what runs; so does the end of an `async with` block.

    Async inputs are read by a task of their own, others by the task that iterates.
    """

    def __init__(self, run: JobRun[T], rows: Iterator[Any] | AsyncIterator[Any]) -> None:
        self._rows = rows
        self._run = run
        run.wake = run.changed.wake_here  # the workers are tasks of the same event loop
        self._workers = TaskWorkers(run)
        self._reader: BackgroundJob | None = None
        self._closed = False

    async def __anext__(self) -> Outcome[T]:
        run, schedule = self._run, self._run.schedule
        while not self._closed:
            run.begin()
            self._read()
            if (outcome := schedule.take()) is not None:
                if self._reader is not None:
                    run.changed.wake()
                if run.raises and outcome.error is not None:
                    await self.aclose()
                    raise error_of(outcome)
                return outcome
            if schedule.ended:
                await self.aclose()
                if schedule.error is not None:
                    raise schedule.error
                break
            await run.changed.suspend(run.has_outcome if self._reader is not None else run.should_wake)
        raise StopAsyncIteration

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
        """Cancel the items that run and drop their outcomes. Idempotent."""
        if not self._closed:
            self._abandon()
            await join_all(() if self._reader is None else (self._reader,), GRACE)
            await self._workers.aclose()
            self._run.close()

    def __del__(self) -> None:
        if "_closed" in vars(self) and not self._closed:  # the constructor may have failed
            self._abandon()
            self._run.close()

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
            self._run.reads_apart = True
            main = partial(_read_async_rows, self._rows, self._run, self._workers)
            self._reader = start_job(main, concurrent=True, name="toolcast map inputs")
        self._workers.start()


def _display(found: OutcomeList[Any]) -> LiveDisplay:
    """Return the display of a notebook; on a terminal a job shows its progress itself."""
    return LiveDisplay(lambda: Frame(html_of(found), found.to_text()), monotonic, find_notebook())


def error_of(outcome: Outcome[Any]) -> Exception:
    """Return the error of a failed outcome, with a note that names its input."""
    assert outcome.error is not None
    outcome.error.add_note(f"the input at index {outcome.index} of the job failed (key {outcome.key})")
    return outcome.error


def read_rows(rows: Iterator[Any], run: JobRun[Any], workers: Workers) -> None:
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
    except Exception as raised:  # as in `read_rows`
        error = raised
    finally:
        run.end_input(error)
        workers.start()
        run.changed.wake()
