"""`EndedItems`: the outcomes of a job through a batch API, from their end until they are returned."""

from __future__ import annotations

from typing import Generic, TypeVar

from ..equal_inputs import copied
from ..inputs import InputRow
from ..item_records import ItemRecords
from ..outcome import Outcome
from .journal import Journal

T = TypeVar("T")


class EndedItems(Generic[T]):
    """The outcomes that were not returned yet. Each is stored and counted first.

    Args:
        records: The keys, the stored outcomes and the progress of the items.
        journal: The journal of the batches.
        ordered: Return the outcomes in the order of the rows.
    """

    def __init__(self, records: ItemRecords[T], journal: Journal, *, ordered: bool) -> None:
        self._records = records
        self._journal = journal
        self._ordered = ordered
        self._finished: dict[int, Outcome[T]] = {}
        self._returned = 0  # ordered: the outcomes up to this index were returned

    def restore(self, row: InputRow) -> bool:
        """Add the stored outcome of a row, and return whether there is one."""
        stored = self._records.find(row)
        if stored is not None:
            self._finished[row.index] = stored
        return stored is not None

    def needs_request(self, row: InputRow) -> bool:
        """Return whether a row has to be sent: if not, it gets the outcome of an equal one, now or later."""
        equal = self._records.equal
        found = False if equal is None else equal.add(row)
        if isinstance(found, Outcome):
            self.add(found)
        return found is False

    def add_running(self, row: InputRow) -> None:
        """Let rows with equal values wait for a row that an earlier run has sent."""
        if (equal := self._records.equal) is not None:
            equal.add_running(row)

    def end(self, row: InputRow, outcome: Outcome[T]) -> list[InputRow]:
        """Add the outcome of a row that was sent, and those of equal rows; return the rows to send after an error."""
        self.add(outcome)
        equal = self._records.equal
        waiting = [] if equal is None else equal.ended(row, outcome)
        if outcome.error is not None:
            return waiting
        for other in waiting:
            self.add(copied(outcome, other))
        return []

    def add(self, outcome: Outcome[T]) -> None:
        """Add an outcome."""
        self._records.store(outcome)
        self._journal.drop_answers(outcome.key)
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
