"""Rate limits: `HandLimit`, which a user passes, and `ReportedLimit`, which a service reports in headers.

A service counts a limit in fixed windows, in sliding ones, or in a bucket that is refilled. `HandLimit` counts a
sliding window, whose amounts fit into all three: any 60 s contain no more than the limit. Some services count shorter
periods than they document (1 or 10 s of a limit per minute: OpenAI and Azure, "quantized"). So a refusal within the
limit halves the period and its amount, down to a second: the same rate in smaller portions.

`ReportedLimit` follows the service's own count: what was left, less what was sent since that request. A sliding window
shows in a reset that moves on while it has not been reached; then what was sent a period ago has come back, too.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate
from typing import Final

from .rate_limit_headers import LimitReading

MARGIN: Final = 1.004
"""The factor of the periods of a `HandLimit`: requests that are sent 60 s apart may arrive less than that apart."""

_SLOTS: Final = 500  # an entry of the log covers this part of the period, so that the log stays short
_SHORTEST: Final = 1.0
_LATE: Final = 0.1  # seconds after the reported end of a window, as the service's clock may be a little behind


class HandLimit:
    """A limit in a sliding window. The caller adds what it sends.

    Args:
        limit: The amount in a period.
        period: The seconds of a period.
    """

    def __init__(self, limit: float, period: float = 60.0) -> None:
        self.given: float = limit
        self.limit: float = limit
        self.period: float = period
        self._log: deque[list[float]] = deque()  # of a time and an amount
        self._sum = 0.0
        self._most = 1.0  # the largest amount so far

    def wait(self, amount: float, now: float) -> float:
        """Return the seconds until `amount` may be sent; 0 if now. One above the limit waits for an empty window."""
        period = self.period * MARGIN
        log = self._log
        while log and log[0][0] <= now - period:
            self._sum -= log.popleft()[1]
        excess = min(self._sum, self._sum + amount - self.limit)
        if not log or excess <= 1e-9:
            return 0.0
        freed = accumulate(sent for _, sent in log)
        until = next((time for (time, _), sum_ in zip(log, freed, strict=True) if sum_ >= excess - 1e-9), log[-1][0])
        return until + period - now

    def add(self, amount: float, now: float) -> list[float]:
        """Add what is sent. Return the entry for `settle`."""
        self._most = max(self._most, amount)
        self._sum += amount
        log = self._log
        if log and now - log[-1][0] < self.period / _SLOTS and log[-1][1] > 0:
            log[-1][0] = now
            log[-1][1] += amount
        else:
            log.append([now, amount])
        return log[-1]

    def settle(self, entry: list[float], difference: float) -> None:
        """Correct the amount of an entry by `difference`, unless its period is over."""
        if self._log and entry[0] >= self._log[0][0]:
            entry[1] += difference
            self._sum += difference

    def refused(self) -> bool:
        """Halve the period after a refusal. Return False if it cannot be shorter."""
        half = self.limit // 2  # of whole requests: half a one would be lost in each period
        if half < self._most or self.period * half / self.limit < _SHORTEST:
            return False
        self.period *= half / self.limit
        self.limit = half
        return True


class ReportedLimit:
    """A limit of the headers.

    Args:
        reading: The first reading.
        mark: The amount that had been sent when the request of the reading was sent, that request included.
        sent_at: The time when that request was sent.
        now: The time.
    """

    def __init__(self, reading: LimitReading, mark: float, sent_at: float, now: float) -> None:
        self._mark = mark
        self._full_at: float | None = None
        self._end: tuple[float, float] | None = None  # the earliest and the latest time that a reset can mean
        self._slides = False
        self._log: deque[tuple[float, float]] = deque()  # times, and what had been sent until then
        self._gone = 0.0  # of all that was sent, what was sent more than a period ago
        self.read(reading, mark, sent_at, now)

    def read(self, reading: LimitReading, mark: float, sent_at: float, now: float) -> None:
        """Use a newer reading. That of an earlier request is ignored: its response was late."""
        if mark < self._mark:
            return
        self._detect_sliding(reading, sent_at, now)
        self._mark = mark
        self._limit = reading.limit
        self._gradual = reading.gradual or reading.reset is None
        self._period = reading.period or 60.0
        self._expire(now)
        self._rebase(reading.remaining, mark, now)
        full_at = None if reading.reset is None else now + reading.reset + _LATE
        self._full_at = full_at

    @property
    def tenth(self) -> float:
        """A tenth of the limit, and at least 1."""
        return max((self._limit or 0.0) / 10, 1.0)

    def wait(self, amount: float, sent: float, now: float) -> float:
        """Return the seconds until `amount` may be sent; 0 if now. `sent` is the amount that has ever been sent."""
        limit, full_at = self._limit, self._full_at
        if limit is None:  # there is a reset, then
            over = full_at is None or now >= full_at or self._remaining - (sent - self._base) >= min(amount, 1.0)
            return 0.0 if over or full_at is None else full_at - now
        if self._gradual:
            rate = limit / self._period
            level = self._remaining - (sent - self._base) + rate * (now - self._at)
            if level > limit:  # full: what flows over is gone
                self._rebase(limit, sent, now)
            missing = min(amount, limit) - level
            return 0.0 if missing <= 1e-9 else missing / rate
        assert full_at is not None
        if now >= full_at:
            # The next window. Responses to requests of the last one do not describe it.
            self._rebase(limit, sent, now)
            self._mark = sent
            self._full_at = full_at = now + self._period
        if self._slides:
            self._expire(now)
            if not self._log or sent > self._log[-1][1]:
                self._log.append((now, sent))
        level = self._remaining - (sent - self._base) + self._gone - self._gone_before
        missing = min(amount, limit) - level
        if missing <= 1e-9:
            return 0.0
        enough = (time + self._period * MARGIN for time, total in self._log if total - self._gone >= missing)
        return min(next(enough, full_at), full_at) - now

    def _detect_sliding(self, reading: LimitReading, sent_at: float, now: float) -> None:
        """Compare the reset with the last one: that of a fixed window means the same time until it is reached."""
        # The service wrote it between `sent_at` and `now`, in whole seconds perhaps.
        end = None if reading.reset is None else (sent_at + reading.reset - 1, now + reading.reset + 1)
        if self._end is None or now >= self._end[0]:
            self._end = end
        elif end is not None and end[0] > self._end[1]:
            self._slides = True

    def _expire(self, now: float) -> None:
        while self._log and self._log[0][0] <= now - self._period * MARGIN:
            self._gone = self._log.popleft()[1]

    def _rebase(self, remaining: float, sent: float, now: float) -> None:
        self._remaining, self._base, self._at = remaining, sent, now
        self._gone_before = self._gone
