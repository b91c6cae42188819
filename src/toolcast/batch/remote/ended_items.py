"""`EndedItems`: the outcomes of a job through a batch API, from their end until they are returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from ..equal_inputs import EqualInputs, copied
from ..inputs import InputRow
from ..outcome import Outcome
from ..progress.account import JobProgress
from .journal import Journal

T = TypeVar("T")


class OutcomeStore(Protocol):
    """The stored outcomes of a job: its `Checkpoint`."""

    def find(self, key: str, index: int = 0, input: Any = None) -> Outcome[Any] | None:
        """Return the stored outcome of an item, if there is one."""
        ...

    def write(self, outcome: Outcome[Any]) -> None:
        """Store an outcome, before it is returned."""
        ...


class EndedItems(Generic[T]):
    """The outcomes that were not returned yet. Each is stored and counted first.

    Args:
        store: The stored outcomes; None without a checkpoint.
        journal: The journal of the batches.
        progress: The counts of the job.
        now: The clock of the job.
        ordered: Return the outcomes in the order of the rows.
        ask_once: Rows with equal values get the outcome of the first.
    """

    def __init__(
        self,
        store: OutcomeStore | None,
        journal: Journal,
        progress: JobProgress,
        now: Callable[[], float],
        *,
        ordered: bool,
        ask_once: bool,
    ) -> None:
        self._store = store
        self._journal = journal
        self._progress = progress
        self._now = now
        self._ordered = ordered
        self._equal: EqualInputs[T] | None = EqualInputs() if ask_once else None
        self._finished: dict[int, Outcome[T]] = {}
        self._returned = 0  # ordered: the outcomes up to this index were returned

    def restore(self, row: InputRow) -> bool:
        """Add the stored outcome of a row, and return whether there is one."""
        stored = None if self._store is None else self._store.find(row.key, row.index, row.input)
        if stored is None:
            return False
        self._progress.restored(stored)
        if self._equal is not None:
            self._equal.add_ended(row, stored)
        self._finished[row.index] = stored
        return True

    def needs_request(self, row: InputRow) -> bool:
        """Return whether a row has to be sent: if not, it gets the outcome of an equal one, now or later."""
        found = False if self._equal is None else self._equal.add(row)
        if isinstance(found, Outcome):
            self.add(found)
        return found is False

    def add_running(self, row: InputRow) -> None:
        """Let rows with equal values wait for a row that an earlier run has sent."""
        if self._equal is not None:
            self._equal.add_running(row)

    def end(self, row: InputRow, outcome: Outcome[T]) -> list[InputRow]:
        """Add the outcome of a row that was sent, and those of equal rows; return the rows to send after an error."""
        self.add(outcome)
        waiting = [] if self._equal is None else self._equal.ended(row, outcome)
        if outcome.error is not None:
            return waiting
        for other in waiting:
            self.add(copied(outcome, other))
        return []

    def add(self, outcome: Outcome[T]) -> None:
        """Add an outcome."""
        if self._store is not None:
            self._store.write(outcome)
        self._journal.drop_answers(outcome.key)
        self._progress.ended(outcome, self._now())
        self._finished[outcome.index] = outcome

    def take(self, *, all: bool = False) -> list[Outcome[T]]:
        """Remove and return the outcomes that can be returned now; `all` of them at the end of the job."""
        finished = self._finished
        if not finished:
            return []
        if self._ordered and not all:
            ready: list[Outcome[T]] = []
            while (outcome := finished.pop(self._returned, None)) is not None:
                ready.append(outcome)
                self._returned += 1
            return ready
        taken = [finished[index] for index in sorted(finished)] if self._ordered else list(finished.values())
        finished.clear()
        return taken
