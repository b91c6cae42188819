"""`JobRun`: one run of a job, from its inputs to its outcomes.

All jobs have one: it reads the inputs, counts and stores each outcome before it is returned, and decides when an error
ends the job. The items are answered by a driver: live (live_run.py), or through a provider's batch API (remote/).
"""

from __future__ import annotations

from collections.abc import Callable
from os import fspath
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from ..errors import AuthFailed, ConnectFailed, NotFound, QuotaExceeded, UnsupportedLLMError, WouldSuspend
from ..structured.orchestrator import ToolOrchestratingLLM
from ..usage import NO_USAGE, Usage
from . import interrupts
from .budget import check_budget
from .checkpoint import Checkpoint
from .equal_inputs import EqualInputs, copied
from .errors import BudgetReached, CheckpointError, JobStopped
from .inputs import InputRow, read_row
from .item_keys import ItemKeys
from .job_options import JobPlan
from .outcome import Outcome
from .progress.account import JobActivity, JobProgress
from .progress.displays import choose_display
from .progress.reporter import ProgressReporter
from .schedule import Schedule

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
        self.interrupt: interrupts.Interrupt | None = None
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
                interrupts.watch(self.interrupt)

    def close(self) -> None:
        """End the job, after its driver."""
        if self.interrupt is not None:
            interrupts.unwatch(self.interrupt)
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
