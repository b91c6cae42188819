"""`EqualInputs`: the rows whose prompt is the same as that of an earlier row, which are not sent a second time."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import field, replace
from threading import Lock
from typing import Final, Generic, TypeVar

from ..lazy_dataclasses import dataclass
from ..usage import NO_USAGE
from .inputs import InputRow
from .item_keys import UnstableInput, stable_digest
from .outcome import Outcome

T = TypeVar("T")

MOST: Final = 10_000
"""The number of outcomes that are kept for rows that follow."""


@dataclass(slots=True, eq=False)
class _Entry(Generic[T]):
    """The outcome of the first of several equal rows, and the rows that wait for it."""

    outcome: Outcome[T] | None = None
    waiting: list[InputRow] = field(default_factory=list[InputRow])


class EqualInputs(Generic[T]):
    """The latest outcomes by the values of the prompt's variables. Thread-safe."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._entries: OrderedDict[bytes, _Entry[T]] = OrderedDict()
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
            entry = self._entries.get(row.digest)
            if entry is None:
                self._entries[row.digest] = _Entry()
                return False
            if entry.outcome is None:
                entry.waiting.append(row)
                return True
            self._entries.move_to_end(row.digest)
            return copied(entry.outcome, row)

    def ended(self, row: InputRow, outcome: Outcome[T]) -> list[InputRow]:
        """Record the outcome of a row; return the rows that waited for it.

        They get copies of a valid outcome. After an error the first of them is asked, and the others wait for it.
        """
        with self._lock:
            entry = self._entries.get(row.digest)
            if entry is None:
                return []
            if outcome.error is not None:
                if entry.waiting:
                    return [entry.waiting.pop(0)]
                del self._entries[row.digest]
                return []
            entry.outcome = outcome
            waiting, entry.waiting = entry.waiting, []
            self._entries.move_to_end(row.digest)
            # The first entries are those that ended or were used longest ago; one without an outcome has to stay.
            while len(self._entries) > self._most and next(iter(self._entries.values())).outcome is not None:
                self._entries.popitem(last=False)
            return waiting


def copied(outcome: Outcome[T], row: InputRow) -> Outcome[T]:
    """Return the outcome of a row that was not sent, as an equal one has this outcome."""
    return replace(outcome, index=row.index, key=row.key, input=row.input, attempts=0, usage=NO_USAGE, seconds=0.0)
