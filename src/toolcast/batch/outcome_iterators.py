"""`Outcomes` and `AsyncOutcomes`, the iterators over the outcomes of a job, and `RunningJob`, of which they take them.

Its driver gets the items answered: `LiveDriver`, or `BatchDriver` (remote/) through a provider's batch API. All are
written once, for callers with and without an event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from ..async_support import sync_driver
from ..async_support.closing import AsyncClosing, Closing, Uncopyable
from ..text.live_display import Frame, LiveDisplay, find_notebook
from ..text.reprs import safe_repr
from ..values.html_repr import html_of
from .job_run import JobRun
from .outcome import Outcome, OutcomeList

T = TypeVar("T")


class Driver(Protocol):
    """The part of a job that gets its items answered. In sync calls nothing in its methods suspends.

    Attributes:
        resumable: `advance` can be called again after it was cancelled. If not, the job ends then.
    """

    resumable: bool

    async def advance(self) -> None:
        """Read inputs and get items answered, until the schedule has an outcome to take, something to read or ended."""
        ...

    async def close(self, *, failed: bool) -> None:
        """Abort what runs. Called once. `failed`: the job raises an error, so that none of this one's is raised."""
        ...

    def abandon(self) -> None:
        """Abort what runs, without waiting for anything. From any thread."""
        ...


class RunningJob(Generic[T]):
    """A job in progress: its run, and the driver that gets its items answered."""

    def __init__(self, run: JobRun[T], driver: Driver) -> None:
        self._run = run
        self._driver = driver
        self._closed = False

    async def next_outcome(self) -> Outcome[T] | None:
        """Return the next outcome, or None at the end. Raise what ended the job early, after its outcomes."""
        run, schedule = self._run, self._run.schedule
        while not self._closed:
            run.begin()
            try:
                if not schedule.given_up:
                    await self._driver.advance()
            except BaseException:
                if not self._driver.resumable:
                    await self.close(failed=True)
                raise
            if self._closed:  # by another thread or task
                break
            if (outcome := schedule.take()) is not None:
                if outcome.error is None or not run.plan.raises:
                    return outcome
                await self.close(failed=True)
                outcome.error.add_note(f"the input at index {outcome.index} of the job failed (key {outcome.key})")
                raise outcome.error
            if schedule.ended:
                await self.close(failed=schedule.error is not None)
                if schedule.error is not None:
                    raise schedule.error
        return None

    async def close(self, *, failed: bool = False) -> None:
        """End the job and drop the outcomes that were not returned. Idempotent.

        `failed`: the caller raises an error of its own, so that none of the end is raised.
        """
        if not self._closed:
            self._closed = True
            self._run.schedule.stop()
            try:
                await self._driver.close(failed=failed)
            finally:
                self._run.close()

    def abandon(self) -> None:
        """End the job without waiting for anything. From any thread; idempotent."""
        if not self._closed:
            self._closed = True
            self._run.schedule.stop()
            self._driver.abandon()
            self._run.close()


class Outcomes(Closing, Uncopyable, Iterator[Outcome[T]]):
    """The outcomes of a job, one for each input. Closing it aborts what runs; so does the end of a `with` block.

    Inputs are read in the thread that iterates. Calls are made in the background, a bounded number ahead of it. With
    `via="batch"` all of it happens in the thread that iterates, and batches go on if there is a checkpoint.
    """

    def __init__(self, job: RunningJob[T]) -> None:
        self._job = job

    def __next__(self) -> Outcome[T]:
        outcome = sync_driver.run(self._job.next_outcome())
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
        outcome = await self._job.next_outcome()
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


def _display(found: OutcomeList[Any]) -> LiveDisplay:
    """Return the display of a notebook; on a terminal a job shows its progress itself."""
    return LiveDisplay(lambda: Frame(html_of(found), found.to_text()), monotonic, find_notebook())
