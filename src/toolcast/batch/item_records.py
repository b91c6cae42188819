"""`ItemRecords`: what a job knows of its items: their keys, stored outcomes, equal inputs, and the progress.

Live jobs and jobs through a batch API have one each. An outcome is counted and stored here before it is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from os import fspath
from typing import Any, Generic, TypeVar

from ..structured.orchestrator import ToolOrchestratingLLM
from ..usage import NO_USAGE, Usage
from .budget import check_budget
from .checkpoint import Checkpoint
from .equal_inputs import EqualInputs
from .inputs import InputRow, read_row
from .item_keys import ItemKeys
from .job_options import JobPlan
from .outcome import Outcome
from .progress.account import JobActivity, JobProgress
from .progress.choice import choose_display
from .progress.reporter import ProgressReporter

T = TypeVar("T")


class ItemRecords(Generic[T]):
    """The items of a job, from their inputs to their outcomes.

    Args:
        call: The call.
        plan: The options of the job.
        total: The number of inputs, if it is known.
        now: The clock of the job.
        activity: Returns the state of the run, for its progress.

    Attributes:
        checkpoint: The stored outcomes, if there is a checkpoint.
        equal: The rows that are not sent, as an equal one is; None if each is sent.
        progress: The counts of the job.
        reporter: The display of the progress.
    """

    def __init__(
        self,
        call: ToolOrchestratingLLM[T],
        plan: JobPlan,
        total: int | None,
        now: Callable[[], float],
        activity: Callable[[], JobActivity],
    ) -> None:
        if plan.budget is not None:
            check_budget(plan.budget, call.llm)
        self.checkpoint: Checkpoint | None = None if plan.checkpoint is None else Checkpoint(plan.checkpoint, call)
        self.equal: EqualInputs[T] | None = EqualInputs() if plan.ask_once else None
        self.progress: JobProgress = JobProgress(activity)
        display = choose_display(plan.progress)
        self.reporter: ProgressReporter = ProgressReporter(self.progress, display, now)
        # The sums of a progress that nothing shows are not made: the first cost loads the list of all prices.
        self._counts = display is not None
        self._keys = ItemKeys(plan.key, positions=plan.checkpoint is None)
        self._variables = call.prompt.variables
        self._total = total
        self._path = plan.checkpoint
        self._now = now
        self._read = 0

    @property
    def spent(self) -> Usage:
        """The usage of earlier runs of the job."""
        return NO_USAGE if self.checkpoint is None else self.checkpoint.spent

    @property
    def resume_text(self) -> str:
        """The way to go on with a job that ended early, for a reader."""
        if self._path is None:
            return "Without a checkpoint another run asks for all items again."
        return f"A run with the checkpoint {fspath(self._path)!r} goes on from here."

    def begin(self) -> None:
        """Begin the job, and show its progress."""
        self.progress.begin(self._total, self._now())
        self.reporter.start()

    def close(self) -> None:
        """End the job."""
        self.progress.end(self._now())
        self.reporter.stop()
        self._keys.close()
        if self.checkpoint is not None:
            self.checkpoint.close()

    def read(self, input: Any) -> InputRow:
        """Return the row of one input, with its key.

        Raises:
            UnstableInput: The input has no key, which the checkpoint needs.
        """
        row = read_row(self._read, input, self._variables)
        key_of = self._keys.key_of if row.error is None else self._keys.key_of_bad_row
        row.key = key_of(row.input, row.index)
        self._read += 1
        return row

    def find(self, row: InputRow) -> Outcome[T] | None:
        """Return the outcome of a row that an earlier run has stored. Equal rows that follow get a copy.

        Raises:
            CheckpointError: It cannot be read.
        """
        found = None if self.checkpoint is None else self.checkpoint.find(row.key, row.index, row.input)
        if found is not None:
            self.progress.restored(found)
            if self.equal is not None:
                self.equal.add_ended(row, found)
        return found

    def store(self, outcome: Outcome[T]) -> None:
        """Count an outcome where progress is shown, and store it.

        Raises:
            CheckpointError: It cannot be stored.
        """
        if self._counts:
            self.progress.ended(outcome, self._now())
        if self.checkpoint is not None:
            self.checkpoint.write(outcome)
