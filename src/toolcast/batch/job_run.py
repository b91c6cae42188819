"""`JobRun`: one run of a job, from its inputs to its outcomes.

All jobs have one: it reads the inputs, counts and stores each outcome before it is returned, and decides when an error
ends the job. The items are answered by a driver: live (live_run.py), or through a provider's batch API (remote/).

The first Ctrl-C during a job: no more requests are sent, and those under way finish. The second is Python's own.

One handler of SIGINT serves all jobs that run. It is set in the main thread alone, where Python calls it, and only
while there is a job; the handler that was there before is called for the second Ctrl-C: Python's, that of
`asyncio.run` or of trio. A job that is abandoned may outlive the event loop: then Python's handler takes the place of
the loop's, as after a job that ends in time.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from os import fspath
from threading import current_thread, main_thread
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from ..errors import AuthFailed, ConnectFailed, NotFound, QuotaExceeded, UnsupportedLLMError, WouldSuspend
from ..structured.orchestrator import ToolOrchestratingLLM
from ..values.usage import NO_USAGE, Usage
from .checkpoint import Checkpoint
from .inputs import InputRow, read_row
from .item_keys import EqualInputs, ItemKeys, copied
from .job_budget import check_budget
from .job_errors import BudgetReached, CheckpointError, JobStopped
from .job_options import JobPlan
from .outcome import Outcome
from .progress.displays import choose_display
from .progress.job_progress import JobActivity, JobProgress
from .progress.reporter import ProgressReporter
from .schedule import Schedule

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task


Interrupt: TypeAlias = Callable[[], bool]
"""Interrupts a job; returns False if it was interrupted before."""

_jobs: Final[list[Interrupt]] = []
_previous: Callable[[int, FrameType | None], Any] | None = None
_loop: AbstractEventLoop | None = None
"""The event loop that was running when the handler was set."""


def watch(interrupt: Interrupt) -> None:
    """Call `interrupt` at the first Ctrl-C, until `unwatch`. Without effect outside of the main thread."""
    global _loop, _previous
    if current_thread() is not main_thread():
        return
    if signal.getsignal(signal.SIGINT) is not _handle:
        previous = signal.getsignal(signal.SIGINT)
        if not callable(previous):  # ignored, or handled by the operating system: the program wants it so
            return
        _previous, _loop = previous, _running_loop()
        signal.signal(signal.SIGINT, _handle)
    _jobs.append(interrupt)


def unwatch(interrupt: Interrupt) -> None:
    """End `watch`. From any thread; the handler is removed in the main thread."""
    if interrupt in _jobs:
        _jobs.remove(interrupt)
    in_main = current_thread() is main_thread()
    if not _jobs and _previous is not None and in_main and signal.getsignal(signal.SIGINT) is _handle:
        signal.signal(signal.SIGINT, signal.default_int_handler if _is_over() else _previous)


def _is_over() -> bool:
    """Return True if the handler that was there before belongs to an event loop that has ended, or to an ended run.

    `asyncio.Runner.run` sets a handler of its own for each run, with the task of the run; its loop may go on.
    """
    task: Task[Any] | None = getattr(_previous, "keywords", {}).get("main_task")
    return (_loop is not None and _loop.is_closed()) or (task is not None and task.done())


def _running_loop() -> AbstractEventLoop | None:
    asyncio = sys.modules.get("asyncio")  # not imported: no loop of it is running, and a sync job does without
    try:
        return None if asyncio is None else asyncio.get_running_loop()
    except RuntimeError:
        return None


def _handle(number: int, frame: FrameType | None) -> None:
    # Not `any` of a generator, as each job is to be interrupted.
    if True not in [interrupt() for interrupt in tuple(_jobs)] and _previous is not None:
        _previous(number, frame)


T = TypeVar("T")

HOPELESS: Final = (AuthFailed, NotFound, QuotaExceeded, UnsupportedLLMError, WouldSuspend)
"""The errors that every other item would get too: those of the key, the model, the account or the API."""

UNREACHABLE: Final = 20
"""The number of items in a row, none of which reached the service, after which it is taken to be down."""


class JobRun(Generic[T]):
    """One run of a job.

    Args:
        call: The call.
        plan: The options of the job.
        total: The number of inputs, if it is known.
        limit: The number of items at once.
        activity: Returns what the driver does now, for the progress.
        now: The clock of the job.

    Attributes:
        call: The call that is made for each row.
        plan: The options of the job.
        schedule: Which row starts next, and which outcome is returned next.
        checkpoint: The stored outcomes, if there is a checkpoint.
        progress: The counts of the job.
        reporter: The display of the progress.
        interrupt: A function of the driver that is called at the first Ctrl-C, if it has one.
        end_requests: A function of the driver that is called after an error that every other item would get.
    """

    def __init__(
        self,
        call: ToolOrchestratingLLM[T],
        plan: JobPlan,
        total: int | None,
        *,
        limit: int,
        activity: Callable[[], JobActivity],
        now: Callable[[], float] = monotonic,
    ) -> None:
        if plan.budget is not None:
            check_budget(plan.budget, call.llm)
        self.call: ToolOrchestratingLLM[T] = call
        self.plan: JobPlan = plan
        self.schedule: Schedule[T] = Schedule(limit=limit, ordered=plan.ordered)
        self.checkpoint: Checkpoint | None = None if plan.checkpoint is None else Checkpoint(plan.checkpoint, call)
        self.progress: JobProgress = JobProgress(activity)
        display = choose_display(plan.progress)
        self.reporter: ProgressReporter = ProgressReporter(self.progress, display, now)
        self.interrupt: Interrupt | None = None
        self.end_requests: Callable[[], None] = lambda: None
        # The sums of a progress that nothing shows are not made: the first cost loads the list of all prices.
        self._counts = display is not None
        self._keys = ItemKeys(plan.key, positions=plan.checkpoint is None)
        self._equal: EqualInputs[T] | None = EqualInputs() if plan.ask_once else None
        self._total = total
        self._now = now
        self._read = 0
        self._unreached = 0  # items in a row; workers in threads may miscount by one or two
        self._begun = False

    @property
    def spent(self) -> Usage:
        """The usage of earlier runs of the job."""
        return NO_USAGE if self.checkpoint is None else self.checkpoint.spent

    @property
    def resume_text(self) -> str:
        """The way to go on with a job that ended early, for a reader."""
        if self.plan.checkpoint is None:
            return "Without a checkpoint another run asks for all items again."
        return f"A run with the checkpoint {fspath(self.plan.checkpoint)!r} goes on from here."

    def begin(self) -> None:
        """Begin the job, and show its progress. Idempotent."""
        if not self._begun:
            self._begun = True
            self.progress.begin(self._total, self._now())
            self.reporter.start()
            if self.interrupt is not None:
                watch(self.interrupt)

    def close(self) -> None:
        """End the job, after its driver."""
        if self.interrupt is not None:
            unwatch(self.interrupt)
        self.progress.end(self._now())
        self.reporter.stop()
        self._keys.close()
        if self.checkpoint is not None:
            self.checkpoint.close()

    # Rows

    def read(self, input: Any) -> InputRow:
        """Return the row of one input, with its key.

        Raises:
            UnstableInput: The input has no key, which the checkpoint needs.
        """
        row = read_row(self._read, input, self.call.prompt.variables)
        key_of = self._keys.key_of if row.error is None else self._keys.key_of_bad_row
        row.key = key_of(row.input, row.index)
        self._read += 1
        return row

    def restore(self, row: InputRow) -> bool:
        """End a row that needs no request, as it has a stored outcome or cannot be read; return whether it does.

        Raises:
            CheckpointError: The stored outcome cannot be read.
        """
        found = None if self.checkpoint is None else self.checkpoint.find(row.key, row.index, row.input)
        if found is not None:
            self.progress.restored(found)
            if self._equal is not None:
                self._equal.add_ended(row, found)
        elif row.error is not None:
            found = self._stored(Outcome(row.index, row.key, row.input, error=row.error))
        else:
            return False
        self.schedule.add_finished(found)
        return True

    def add(self, row: InputRow) -> None:
        """Add a row that has to be answered: by the driver, or as an equal one is."""
        found = False if self._equal is None else self._equal.add(row)
        if found is False:
            self.schedule.add(row)
        elif found is True:
            self.schedule.add_waiting()
        else:
            self.schedule.add_finished(self._stored(found))

    def add_running(self, row: InputRow) -> None:
        """Add a row that an earlier run has sent; rows with equal values wait for it."""
        self.schedule.add_running()
        if self._equal is not None:
            self._equal.add_running(row)

    # Outcomes

    def end(self, row: InputRow, outcome: Outcome[T]) -> None:
        """End a row that was answered, and rows with equal values. Some errors end the job."""
        error = outcome.error
        # Each has had its retries. A short outage fails the items that run, so more than those have to fail.
        self._unreached = self._unreached + 1 if isinstance(error, ConnectFailed) else 0
        lost = self._unreached >= max(UNREACHABLE, 2 * self.schedule.limit)
        if error is not None and (lost or isinstance(error, HOPELESS)):
            self.stop(error)
        elif error is not None and self.plan.raises:
            self.schedule.stop()
            self.progress.finish()
        outcome = self._stored(outcome)
        for other in () if self._equal is None else self._equal.ended(row, outcome):
            if error is None:
                self.schedule.answer(self._stored(copied(outcome, other)))
            else:
                self.schedule.resume(other)
        self.schedule.finish(outcome)

    def stop(self, error: Exception, why: str = "every other item would fail likewise") -> None:
        """End the job early with a `JobStopped`, after the outcomes of the items that run."""
        reason = "budget" if isinstance(error, BudgetReached) else "error"
        text = f"{error}." if reason == "budget" else f"the job was stopped, as {why}: {str(error).removesuffix('.')}."
        stopped = JobStopped(f"{text} {self.resume_text}", reason=reason)
        stopped.__cause__ = error
        self.schedule.stop(stopped)
        self.progress.finish()
        if reason == "error":
            self.end_requests()

    def _stored(self, outcome: Outcome[T]) -> Outcome[T]:
        """Count and store an outcome before the consumer can see it. If that fails, the job ends."""
        if self._counts:
            self.progress.ended(outcome, self._now())
        if self.checkpoint is not None:
            try:
                self.checkpoint.write(outcome)
            except CheckpointError as error:
                self.schedule.stop(error)
        return outcome
