"""`Waiters`: threads, and tasks of any event loop, that wait for a condition and are woken from any thread.

There is no lock. A waiter enters the list first and checks the condition again afterwards; the code that changes
the condition does so first and reads the list afterwards. So one of the two always sees the other. A woken waiter
checks the condition itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import anyio

Ready = Callable[[], bool]

SLICE = 0.5
"""The longest sleep of a thread, in seconds: a Ctrl-C just before it is only handled after it."""


class Waiters:
    """The waiting threads and tasks of one condition."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: list[Callable[[], object]] = []

    def __len__(self) -> int:
        """Return the number of waiting threads and tasks."""
        return len(self._calls)

    def wake(self) -> None:
        """Wake all current waiters, so that they check the condition. From any thread, without blocking."""
        calls = self._calls
        for _ in range(len(calls)):
            with suppress(IndexError):  # a waiter left, or another thread woke it
                calls.pop(0)()

    def wake_here(self) -> None:
        """Wake all current waiters, from a task of the event loop in which they wait: that takes half of the time."""
        calls = self._calls
        for _ in range(len(calls)):
            with suppress(IndexError):  # as in `wake`
                call = calls.pop(0)
                (call.event.set if isinstance(call, _TaskWaker) else call)()

    def block(self, ready: Ready, seconds: float | None = None) -> bool:
        """Block this thread until `ready()`, or for `seconds`. Return whether it is ready."""
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
        """Wait until `ready()` in this task of the running event loop."""
        import anyio

        from .shielding import current_loop

        loop = current_loop()
        soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
        while not ready():
            woken = anyio.Event()
            wake = _TaskWaker(woken, soon)
            self._calls.append(wake)
            try:
                if not ready():
                    await woken.wait()
            finally:
                self._forget(wake)

    def _forget(self, call: Callable[[], object]) -> None:
        with suppress(ValueError):
            self._calls.remove(call)


class _TaskWaker:
    """A function that wakes one task from any thread; `event.set` does so in the task's event loop."""

    __slots__ = ("_soon", "event")

    def __init__(self, event: anyio.Event, soon: Callable[[Callable[[], object]], object]) -> None:
        self.event = event
        self._soon = soon

    def __call__(self) -> None:
        with suppress(RuntimeError):  # its loop is closed
            self._soon(self.event.set)
