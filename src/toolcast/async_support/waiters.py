"""Who waits for something to happen: threads, and tasks of any event loop, all woken from any thread.

There is no lock. Whoever waits takes a place in the list first and looks again then; whoever makes something happen
does that first and looks at the list then. So one of the two always sees the other. What was woken looks for itself
whether it has come true.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from time import monotonic

Ready = Callable[[], bool]

SLICE = 0.5
"""Seconds that a thread sleeps at a time: a Ctrl-C that comes just as it falls asleep is not seen before it wakes."""


class Waiters:
    """Those who wait. Empty, it takes next to no memory."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: list[Callable[[], object]] = []

    def wake(self) -> None:
        """Have all who wait now look again. From any thread; blocks nobody."""
        calls = self._calls
        for _ in range(len(calls)):
            with suppress(IndexError):  # somebody left, or another thread woke it
                calls.pop(0)()

    def block(self, ready: Ready, seconds: float | None = None) -> bool:
        """Have this thread wait until `ready()`, or for so many `seconds`. Gives whether it came true."""
        until = None if seconds is None else monotonic() + seconds
        while not ready():
            left = SLICE if until is None else min(until - monotonic(), SLICE)
            if left <= 0:
                return False
            woken = Lock()
            woken.acquire()
            self._calls.append(woken.release)
            try:
                if not ready():
                    woken.acquire(timeout=left)
            finally:
                self._forget(woken.release)
        return True

    async def suspend(self, ready: Ready) -> None:
        """Have this task wait until `ready()`, in the event loop that runs here."""
        import anyio

        from .shielding import current_loop

        loop = current_loop()
        soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
        while not ready():
            woken = anyio.Event()

            def wake(event: anyio.Event = woken) -> None:
                with suppress(RuntimeError):  # its loop is closed
                    soon(event.set)

            self._calls.append(wake)
            try:
                if not ready():
                    await woken.wait()
            finally:
                self._forget(wake)

    def _forget(self, call: Callable[[], object]) -> None:
        with suppress(ValueError):
            self._calls.remove(call)
