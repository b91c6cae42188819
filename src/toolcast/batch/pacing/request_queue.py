"""`RequestQueue`: the requests that wait to be admitted, of threads and tasks of any event loop alike.

Only the first of them asks to be admitted; then it wakes the next. A request that ends wakes the first, too. So each
request costs a few wake-ups, however many wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock, RLock, get_ident
from typing import Any, TypeAlias, TypeVar

from ...async_support.waiters import SLICE
from ...errors import StreamInterrupted
from ...transport.cancel_handle import current_handle
from ...transport.network import IOBackend
from ..job_errors import JobInterrupted

A = TypeVar("A")


class QueuedGate:
    """A gate whose requests wait in `RequestQueue`s, until its job ends early."""

    def __init__(self) -> None:
        self.stopped: bool = False

    def require_running(self) -> None:
        """Raise `JobInterrupted` if the gate is stopped."""
        if self.stopped:
            raise JobInterrupted


class RequestQueue:
    """A queue of requests. Thread-safe.

    Attributes:
        lock: The lock of the queue, and of what admits its requests. Taken for microseconds, and never while anything
            waits. Reentrant, as a garbage collection may end an abandoned request in the middle of anything under it.
    """

    def __init__(self) -> None:
        self.lock: RLock = RLock()
        self._turns: deque[_Turn] = deque()

    def __len__(self) -> int:
        return len(self._turns)

    async def enter(
        self, gate: QueuedGate, admit: Callable[[], A | float | None], backend: IOBackend, *, nested: bool
    ) -> A:
        """Wait for the turn of a request, and return what admits it.

        Args:
            gate: The gate of the request.
            admit: Returns what admits the request, or the seconds until the next try, or None to try again when a
                request ends. Called under the lock.
            backend: The I/O of the request.
            nested: True for a request that another one under way waits for: it goes first.

        Raises:
            JobInterrupted: The gate is stopped.
            StreamInterrupted: The call was aborted while it waited.
        """
        gate.require_running()
        wait: float | None = None
        with self.lock:
            if not self._turns or nested:
                found = admit()
                if not (found is None or isinstance(found, (int, float))):
                    return found
                wait = found
            turn = _TaskTurn(gate) if backend.concurrent else _ThreadTurn(gate)
            if nested:
                self._turns.appendleft(turn)
            else:
                self._turns.append(turn)
        try:
            while True:
                gate.require_running()  # after `reset`: a later `interrupt` ends the wait
                await turn.wait(wait)
                with self.lock:
                    turn.reset()
                    wait = None
                    if self._turns[0] is turn and not gate.stopped:
                        found = admit()
                        if not (found is None or isinstance(found, (int, float))):
                            self._turns.popleft()
                            self.wake_first()
                            return found
                        wait = found
        except BaseException:
            with self.lock:
                with suppress(ValueError):  # its loop was closed
                    self._turns.remove(turn)
                self.wake_first()
            raise

    def wake_first(self) -> None:
        """Let the first request ask again. Called under the lock."""
        # A task whose loop was closed cannot leave the queue.
        while self._turns and not self._turns[0].wake():
            self._turns.popleft()

    def waiting(self, gate: QueuedGate) -> int:
        """Return the number of requests of `gate` that wait."""
        return sum(turn.gate is gate for turn in tuple(self._turns))

    def interrupt(self, gate: QueuedGate) -> None:
        """End the waits of the requests of `gate`, which is stopped.

        From any thread, also in a signal handler in the middle of the other methods: so it takes no lock.
        """
        for turn in tuple(self._turns):
            if turn.gate is gate:
                turn.interrupt()


class _ThreadTurn:
    """The place of a thread in the queue, out of which its `CancelHandle` takes it."""

    def __init__(self, gate: QueuedGate) -> None:
        self.gate: QueuedGate = gate
        self._handle = current_handle()
        self._woken = Lock()
        self._woken.acquire()

    def wake(self) -> bool:
        """End the present or the next wait, from any thread. Return False if its event loop is closed."""
        with suppress(RuntimeError):  # `break_off` of another thread was first
            self._woken.release()
        return True

    def interrupt(self) -> None:
        """End the present or the next wait, also in a signal handler."""
        self.wake()

    def reset(self) -> None:
        """Forget that it was woken."""
        self._woken.acquire(blocking=False)

    async def wait(self, seconds: float | None) -> None:
        """Wait to be woken, or for `seconds`."""
        handle = self._handle
        if handle is not None:
            handle.register(self.wake)
        # In slices: a Ctrl-C just before the wait is only handled after it.
        self._woken.acquire(timeout=SLICE if seconds is None else min(seconds, SLICE))
        if handle is not None and not handle.unregister():
            raise StreamInterrupted("the request was aborted before it was sent", retryable=False)


class _TaskTurn:
    """The place of a task in the queue."""

    def __init__(self, gate: QueuedGate) -> None:
        import anyio

        from ...async_support.shielding import current_loop

        loop: Any = current_loop()
        self.gate: QueuedGate = gate
        self._event = anyio.Event()
        self._thread = get_ident()
        self._soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon

    def wake(self) -> bool:
        """End the present or the next wait, from any thread. Return False if its event loop is closed."""
        # Most wakers are in the same loop, and need not wake its selector.
        wake = self._event.set if get_ident() == self._thread else partial(self._soon, self._event.set)
        try:
            wake()
        except RuntimeError:  # its loop is closed
            return False
        return True

    def interrupt(self) -> None:
        """End the present or the next wait, also in a signal handler, which may interrupt the loop's own code."""
        with suppress(RuntimeError):  # as in `wake`
            self._soon(self._event.set)

    def reset(self) -> None:
        """Forget that it was woken."""
        if self._event.is_set():
            import anyio

            self._event = anyio.Event()

    async def wait(self, seconds: float | None) -> None:
        """Wait to be woken, or for `seconds`."""
        import anyio

        with anyio.move_on_after(seconds):
            await self._event.wait()


_Turn: TypeAlias = _ThreadTurn | _TaskTurn
