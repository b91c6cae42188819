"""`Deadline`: time limits of many short waits with a single asyncio timer.

A timer for each wait would cost as much as the wait. So there is one for all of them: when it fires before the limit of
the current wait, it is scheduled again.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class Deadline:
    """The time limits of successive waits in one asyncio event loop."""

    __slots__ = ("_call", "_loop", "_timer", "_until")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._call: Callable[[], object] | None = None
        self._until = inf
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, limit: float | None, call: Callable[[], object]) -> None:
        """Start a wait. Run `call` if it is not over after `limit` seconds."""
        self._call = call
        if limit is None:
            self._until = inf
            return
        self._until = until = self._loop.time() + limit
        if self._timer is None or until < self._timer.when():
            self._schedule(until)

    def rest(self) -> None:
        """End the current wait."""
        self._until = inf
        self._call = None

    def stop(self) -> None:
        """Cancel the timer after the last wait."""
        self.rest()
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(until, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._call is None or self._until == inf:
            return
        if self._loop.time() < self._until:
            self._schedule(self._until)
        else:
            self._call()
