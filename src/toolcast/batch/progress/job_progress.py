"""`JobProgress`: the counts of a running job, and `ProgressSnapshot`, its state at one moment.

The run calls its methods as items end, from any thread; a display reads snapshots. The time is passed in, so nothing
here reads a clock. Most costs are computed when a snapshot is read, not as items end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from decimal import Decimal
from threading import RLock
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ...lazy.lazy_dataclasses import dataclass
from ...values.usage import NO_USAGE, Usage, sum_usages
from ..outcome import Outcome

JobState: TypeAlias = Literal["running", "finishing", "done"]
"""The states of a job: `finishing` starts no more items and waits for those that run."""

_WINDOW: Final = 60.0  # seconds over which the rate is measured
_SPACING: Final = 1.0  # seconds between two marks of it
_MOST_USAGES: Final = 256
_ENOUGH: Final = 5  # items in the window: fewer are no rate, and the whole run is the window


class JobActivity(NamedTuple):
    """The state of a run that changes with each request, read when a snapshot is.

    Attributes:
        running: The items that run; those that wait to be admitted only once the job ends.
        concurrency: The most requests at once; None if nothing limits them.
        limited_by: The limit that keeps more from being sent, or an empty text.
        budget: What is spent of a budget, or an empty text.
    """

    running: int = 0
    concurrency: int | None = None
    limited_by: str = ""
    budget: str = ""


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """The progress of a job at one moment.

    Attributes:
        state: `running`; `finishing` after Ctrl-C or an error that ends the job; `done`.
        done: The items that have ended, the failed ones included.
        failed: Those of them that have an error.
        from_checkpoint: Those of them that an earlier run had finished.
        running: The items that run; those that wait to be admitted only once the job ends.
        total: The number of inputs; None if they have no length.
        seconds: The time since the start of this run.
        per_second: The items that ended per second in the last minute, or in this run while that is shorter.
        seconds_left: The estimated time to the end; None if the total or the rate is unknown.
        usage: The tokens of all items that have ended.
        cost: Their estimated cost in US dollars; None if it is unknown.
        projected_cost: The estimated cost of all items, by the mean of those that ended; None if it is unknown.
        concurrency: The most requests that may be sent at once now; None if nothing limits them.
        limited_by: What limits the requests now, for example `rate limit`, `concurrency`, `service` or `budget`; empty
            if nothing does.
        budget: The limit of a budget with what is spent of it, for a reader; empty without one.
    """

    state: JobState = "running"
    done: int = 0
    failed: int = 0
    from_checkpoint: int = 0
    running: int = 0
    total: int | None = None
    seconds: float = 0.0
    per_second: float = 0.0
    seconds_left: float | None = None
    usage: Usage = NO_USAGE
    cost: Decimal | None = None
    projected_cost: Decimal | None = None
    concurrency: int | None = None
    limited_by: str = ""
    budget: str = ""

    @property
    def share(self) -> float | None:
        """The part of the items that has ended, from 0 to 1; None if the total is unknown or 0."""
        return min(self.done / self.total, 1.0) if self.total else None


class JobProgress:
    """The counts of a running job. Thread-safe.

    Args:
        observe: Returns the state of the run.
    """

    def __init__(self, observe: Callable[[], JobActivity] = JobActivity) -> None:
        self._observe = observe
        # Reentrant: a signal handler or a garbage collection may end a job in the middle of anything here.
        self._lock = RLock()
        self._state: JobState = "running"
        self._total: int | None = None
        self._began = 0.0
        self._ended: float | None = None
        self._done = self._failed = self._stored = 0
        self._marks: deque[tuple[float, int]] = deque()  # the time, and the items that had ended in this run
        self._usage = NO_USAGE  # of items that ended in this run
        self._usages: list[Usage] = []  # those that are not added yet: adding many at once takes half of the time
        self._stored_usage = NO_USAGE  # of items from the checkpoint

    def begin(self, total: int | None, now: float) -> None:
        """Start the clock of a job of `total` inputs, or of unknown length."""
        with self._lock:
            self._total = total
            self._began = now
            self._marks.append((now, 0))

    def ended(self, outcome: Outcome[Any], now: float) -> None:
        """Count the end of an item."""
        with self._lock:
            self._count(outcome)
            self._usages.append(outcome.usage)
            if len(self._usages) == _MOST_USAGES:
                self._add_usages()
            if now - self._marks[-1][0] >= _SPACING:
                self._marks.append((now, self._done - self._stored))
                # One mark before the window is kept: the rate is measured from it.
                while len(self._marks) > 2 and self._marks[1][0] <= now - _WINDOW:
                    self._marks.popleft()

    def restored(self, outcome: Outcome[Any]) -> None:
        """Count an item that an earlier run has finished: its cost counts, but neither its time nor its rate."""
        with self._lock:
            self._stored += 1
            self._count(outcome)
            self._stored_usage += outcome.usage

    def finish(self) -> None:
        """Set the state to `finishing`: no further item starts."""
        with self._lock:
            if self._state == "running":
                self._state = "finishing"

    def end(self, now: float) -> None:
        """Set the state to `done`, and stop the clock. The first call counts."""
        with self._lock:
            if self._ended is None:
                self._state, self._ended = "done", now

    def snapshot(self, now: float) -> ProgressSnapshot:
        """Return the progress at the time `now`."""
        run = self._observe()
        with self._lock:
            self._add_usages()
            if self._ended is not None:
                now = self._ended
            fresh, usage = self._done - self._stored, self._usage + self._stored_usage
            rate = self._rate(now, fresh)
            left = None if self._total is None else max(self._total - self._done, 0)
            cost = usage.cost if self._done else None
            of_fresh = self._usage.cost if fresh else None
            projected = cost if left == 0 else None
            if cost is not None and of_fresh is not None and left:
                projected = cost + of_fresh / fresh * left
            return ProgressSnapshot(
                state=self._state,
                done=self._done,
                failed=self._failed,
                from_checkpoint=self._stored,
                running=run.running,
                total=self._total,
                seconds=now - self._began,
                per_second=rate,
                seconds_left=left / rate if left is not None and rate and self._state == "running" else None,
                usage=usage,
                cost=cost,
                projected_cost=projected,
                concurrency=run.concurrency,
                limited_by=run.limited_by,
                budget=run.budget,
            )

    def _count(self, outcome: Outcome[Any]) -> None:
        self._done += 1
        self._failed += outcome.error is not None

    def _add_usages(self) -> None:
        self._usage = sum_usages([self._usage, *self._usages])
        self._usages.clear()

    def _rate(self, now: float, fresh: int) -> float:
        """Return the items per second at the time `now`, when this run has ended `fresh` of them."""
        time, before = self._began, 0
        if self._ended is None:  # the rate of a job that is done is that of all its time
            time, before = next((mark for mark in self._marks if mark[0] >= now - _WINDOW), (self._began, 0))
            if fresh - before < _ENOUGH:
                time, before = self._began, 0
        return (fresh - before) / (now - time) if now > time else 0.0
