"""`EqualInputs`: the rows whose prompt is the same as that of an earlier row, which are not sent a second time."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from threading import Lock
from typing import Final, Generic, TypeVar

from ..usage import NO_USAGE
from .inputs import InputRow
from .item_keys import UnstableInput, stable_digest
from .outcome import Outcome

T = TypeVar("T")

MOST: Final = 10_000
"""The number of outcomes that are kept for rows that follow."""


class EqualInputs(Generic[T]):
    """The latest outcomes by the values of the prompt's variables. Thread-safe."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._waiting: dict[bytes, list[InputRow]] = {}  # for the outcome of a row that runs
        self._outcomes: OrderedDict[bytes, Outcome[T]] = OrderedDict()  # the first was used longest ago
        self._lock = Lock()

    def add(self, row: InputRow) -> Outcome[T] | bool:
        """Add a row: return its outcome if an equal one has ended, True if it has to wait for one, False if it is new.

        A row without a stable hash is new.
        """
        try:
            row.digest = stable_digest(row.values)
        except UnstableInput:
            return False
        with self._lock:
            if (outcome := self._outcomes.get(row.digest)) is not None:
                self._outcomes.move_to_end(row.digest)
                return copied(outcome, row)
            if (waiting := self._waiting.get(row.digest)) is not None:
                waiting.append(row)
                return True
            self._waiting[row.digest] = []
            return False

    def add_running(self, row: InputRow) -> None:
        """Add a row that was sent by an earlier run: equal rows that follow wait for it."""
        try:
            digest = stable_digest(row.values)
        except UnstableInput:
            return
        with self._lock:
            if digest not in self._outcomes and digest not in self._waiting:
                row.digest = digest
                self._waiting[digest] = []

    def add_ended(self, row: InputRow, outcome: Outcome[T]) -> None:
        """Add a row whose outcome an earlier run has stored: equal rows that follow get a copy."""
        self.add_running(row)
        self.ended(row, outcome)

    def ended(self, row: InputRow, outcome: Outcome[T]) -> list[InputRow]:
        """Record the outcome of a row; return the rows that waited for it.

        They get copies of a valid outcome. After an error the first of them is asked, and the others wait for it.
        """
        with self._lock:
            waiting = self._waiting.get(row.digest)
            if waiting is None:  # a row without a stable hash
                return []
            if outcome.error is not None and waiting:
                return [waiting.pop(0)]
            del self._waiting[row.digest]
            if outcome.error is None:
                self._outcomes[row.digest] = outcome
                if len(self._outcomes) > self._most:
                    self._outcomes.popitem(last=False)
            return waiting


def copied(outcome: Outcome[T], row: InputRow) -> Outcome[T]:
    """Return the outcome of a row that was not sent, as an equal one has this outcome."""
    return replace(outcome, index=row.index, key=row.key, input=row.input, attempts=0, usage=NO_USAGE, seconds=0.0)
