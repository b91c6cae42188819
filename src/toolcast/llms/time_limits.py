"""`TimeLimits`: how long each wait of a request may last, by its `Timeouts` and the deadline of its call."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from ..errors import StreamInterrupted, Timeout
from ..settings import Timeouts
from ..transport.cancel_handle import CancelHandle

_PROBLEMS: Final = {
    "connect": "no connection within {} s",
    "first_token": "no response within {} s",
    "idle": "the response stopped for {} s",
    "total": "the call did not end within {} s",
}


class TimeLimits:
    """The time limits of the attempts of one request, for every part of it that waits.

    Args:
        timeouts: The limits of each phase, in seconds.
        now: The clock.
        deadline: The time at which the call ends; None without one.
        handle: The handle that aborts the call, if there is one.

    Attributes:
        timeouts: The limits of each phase.
        deadline: The time at which the call ends; None without one. A gate may move it.
        first_token_by: The time until which the response must begin; None without a limit, or once it has begun.
    """

    __slots__ = ("_asked", "_handle", "_idle", "_now", "deadline", "first_token_by", "timeouts")

    def __init__(
        self,
        timeouts: Timeouts,
        now: Callable[[], float],
        deadline: float | None = None,
        handle: CancelHandle | None = None,
    ) -> None:
        self.timeouts: Timeouts = timeouts
        self.deadline: float | None = deadline
        self.first_token_by: float | None = None
        self._now = now
        self._handle = handle
        self._idle = inf if timeouts.idle is None else timeouts.idle
        self._asked = 0.0  # the time when the last wait began

    def begin(self) -> float:
        """Begin an attempt, and return the time."""
        self._asked = now = self._now()
        limit = self.timeouts.first_token
        self.first_token_by = None if limit is None else now + limit
        return now

    def left(self, limit: float | None = None) -> float | None:
        """Return the seconds that a wait may last which has this `limit` of its own; None without any.

        Raises:
            Timeout: The call has no time left.
            StreamInterrupted: It was aborted.
        """
        if self._handle is not None and self._handle.broken:
            raise aborted()
        if self.deadline is None:
            return limit
        self._asked = now = self._now()
        left = self.deadline - now
        if left <= 0:
            raise self.exceeded("total")
        return left if limit is None or left < limit else limit

    def of_connection(self, *, concurrent: bool) -> tuple[float | None, float | None]:
        """Return the seconds for the connection, and for the headers of the response; None without a limit.

        In sync calls the second is the limit of each later chunk, too. The errors are those of `left`.
        """
        left, connect, read, idle = self.left(), self.timeouts.connect, self.timeouts.first_token, self.timeouts.idle
        if not concurrent:
            read = None if read is None or idle is None else max(read, idle)
        if left is None:
            return connect, read
        return left if connect is None or left < connect else connect, left if read is None or left < read else read

    def of_read(self) -> float | None:
        """Return the seconds that the next read may last; None without a limit. Its errors are those of `left`."""
        if self._handle is not None and self._handle.broken:
            raise aborted()
        self._asked = now = self._now()
        first_token_by, deadline = self.first_token_by, self.deadline
        left = self._idle if first_token_by is None else first_token_by - now
        if deadline is not None and left > deadline - now:
            left = deadline - now
        if left <= 0:
            raise self.exceeded()
        return left if left < inf else None

    def exceeded(self, phase: str | None = None) -> Timeout:
        """Return the error for the limit of `phase`. Default: the one that ended the last wait."""
        if phase is None:
            first_token_by = self.first_token_by
            phase = "idle" if first_token_by is None else "first_token"
            until = self._asked + self._idle if first_token_by is None else first_token_by
            if self.deadline is not None and self.deadline < until:
                phase = "total"
        problem = _PROBLEMS[phase].format(getattr(self.timeouts, phase))
        hint = f"allow more with settings=Settings(timeout=Timeouts({phase}=...))"
        return Timeout(f"{problem}; {hint}", phase=phase)


def aborted() -> StreamInterrupted:
    """Return the error of a response that another thread has aborted."""
    return StreamInterrupted("the response was aborted", retryable=False)
