"""`Schedule`: which item of a job starts next, and which outcome is returned next. No I/O, no clock.

The consumer of a job adds the rows that it reads and takes the outcomes; workers start rows and finish them. Everything
between the two is bounded, so that the memory of a job does not depend on the number of its inputs:

* at most as many rows as items may run at once wait to be started;
* no item starts while that many outcomes wait for a slow consumer, who may never want them;
* at most `WINDOW` rows are between the oldest outcome that is not taken and the newest row that is read: while one item
  takes long, the outcomes after it have to wait for their turn.
"""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import Final, Generic, TypeVar

from .inputs import InputRow
from .outcome import Outcome

T = TypeVar("T")

WINDOW: Final = 1_000


class Schedule(Generic[T]):
    """The rows and outcomes of a job that are in memory. Thread-safe.

    Args:
        limit: The number of items that run at once.
        ordered: Return the outcomes in the order of the rows.

    Attributes:
        error: The error that ends the job, after the outcomes of all items that have started.
        limit: The number of items that run at once; it may change.
        given_up: True if none of the rows that run will have an outcome.
        input_ended: True if no more rows will be added.
        running: The number of items that run.
        stopped: True if no more rows start.
    """

    def __init__(self, *, limit: int, ordered: bool) -> None:
        self.error: BaseException | None = None
        self.limit: int = limit
        self.given_up: bool = False
        self.input_ended: bool = False
        self.running: int = 0
        self.stopped: bool = False
        self._ordered = ordered
        self._lock = Lock()
        self._pending: deque[InputRow] = deque()
        self._waiting = 0  # rows that wait for the outcome of an equal one
        self._finished: dict[int, Outcome[T]] = {}  # in the order in which they ended
        self._read = 0
        self._taken = 0
        self._ready_to = 0  # ordered: the outcomes up to this index have ended

    # The consumer

    @property
    def wanted(self) -> int:
        """The number of rows to read now."""
        if self.input_ended or self.stopped:
            return 0
        window = max(WINDOW, 2 * self.limit)
        return max(min(self.limit - len(self._pending), window - (self._read - self._taken)), 0)

    @property
    def wants_rows_soon(self) -> bool:
        """True if the rows that wait are about to run out, and more can be read."""
        return len(self._pending) <= self.limit // 2 and self.wanted > 0

    @property
    def startable(self) -> bool:
        """True if a row may start now."""
        # A consumer that lags behind gets no further outcomes: each of them costs money, and it may stop at any time.
        limit = self.limit
        if not self._pending or self.running >= limit or self.stopped:
            return False
        return self.ready < (limit if limit > 2 else 2)

    @property
    def ready(self) -> int:
        """The number of outcomes that can be taken."""
        if not self._finished:
            return 0
        if self._ordered and not self._drained:
            return self._ready_to - self._taken
        return len(self._finished)

    @property
    def ended(self) -> bool:
        """True if no outcome will follow."""
        if self.running:
            return False
        with self._lock:
            return self._drained and not self._finished

    def add(self, row: InputRow) -> None:
        """Add a row."""
        with self._lock:
            self._read += 1
            self._pending.append(row)

    def add_finished(self, outcome: Outcome[T]) -> None:
        """Add a row whose outcome is there already."""
        with self._lock:
            self._read += 1
            self._finish(outcome)

    def add_waiting(self) -> None:
        """Add a row that waits for the outcome of an equal one: `resume` or `answer` follows."""
        with self._lock:
            self._read += 1
            self._waiting += 1

    def add_running(self) -> None:
        """Add a row that an earlier run has started: `finish` follows."""
        with self._lock:
            self._read += 1
            self.running += 1

    def end_input(self, error: BaseException | None = None) -> None:
        """Read no more rows: there are none, or reading them raised `error`."""
        with self._lock:
            self.input_ended = True
            self.error = self.error or error

    def take(self) -> Outcome[T] | None:
        """Return the next outcome, or None if it has to be waited for."""
        finished = self._finished
        if not finished:  # the common case of a consumer that waits
            return None
        with self._lock:
            index = self._taken
            if not self._ordered:
                index = next(iter(finished))
            elif index not in finished:
                if not self._drained:
                    return None
                index = min(finished)  # the job was stopped before the rows between them started
            self._taken += 1
            return finished.pop(index)

    # The workers

    def start(self) -> InputRow | None:
        """Return the next row for a new worker, or None if none may start now."""
        with self._lock:
            return self._next()

    def finish(self, outcome: Outcome[T]) -> None:
        """Record the outcome of a worker's row; `start` returns its next one."""
        with self._lock:
            self.running -= 1
            self._finish(outcome)

    def answer(self, outcome: Outcome[T]) -> None:
        """Record the outcome of a row that waited for an equal one."""
        with self._lock:
            self._waiting -= 1
            self._finish(outcome)

    def resume(self, row: InputRow) -> None:
        """Let a row start that waited for an equal one."""
        with self._lock:
            self._waiting -= 1
            self._pending.appendleft(row)

    def abandon(self) -> None:
        """Record the end of a worker without an outcome."""
        with self._lock:
            self.running -= 1

    def stop(self, error: BaseException | None = None) -> None:
        """Start no more rows. Once the running ones have ended and their outcomes are taken, the job ends.

        A signal handler or a garbage collection may call this in the middle of the other methods, so it has no lock.
        """
        self.error = self.error or error
        self.stopped = True

    def give_up(self, error: BaseException | None = None) -> None:
        """End the job after the outcomes that are there: no running row will have one."""
        self.stop(error)
        self.given_up = True
        with self._lock:
            self.running = 0

    @property
    def _drained(self) -> bool:
        """True if no row runs or will start."""
        if self.running:
            return False
        return self.stopped or (self.input_ended and not self._pending and not self._waiting)

    def _next(self) -> InputRow | None:
        if not self.startable:
            return None
        self.running += 1
        return self._pending.popleft()

    def _finish(self, outcome: Outcome[T]) -> None:
        self._finished[outcome.index] = outcome
        while self._ready_to in self._finished:
            self._ready_to += 1
