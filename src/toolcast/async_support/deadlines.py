"""Time limits of many short waits, at the price of one timer.

Under asyncio a timer for each wait would cost as much as the wait. So there is one for all of them: when it rings
before the limit of the wait that is then on, it is wound up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf


class Deadline:
    """The time limits of waits that come one after the other, in one event loop of asyncio."""

    __slots__ = ("_call", "_loop", "_timer", "_until")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._call: Callable[[], object] | None = None
        self._until = inf
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, limit: float | None, call: Callable[[], object]) -> None:
        """A wait begins. If it is not over after `limit` seconds, there will be a `call`."""
        self._call = call
        if limit is None:
            self._until = inf
            return
        self._until = until = self._loop.time() + limit
        if self._timer is None or until < self._timer.when():
            self._wind(until)

    def rest(self) -> None:
        """The wait is over."""
        self._until = inf
        self._call = None

    def stop(self) -> None:
        """There will be no more waits."""
        self.rest()
        if self._timer is not None:
            self._timer.cancel()

    def _wind(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(until, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._call is None or self._until == inf:
            return
        if self._loop.time() < self._until:
            self._wind(self._until)
        else:
            self._call()
