"""`Interruptible`: an await that another thread or task can end, without a cancellation of the task.

A cancellation belongs to its source: `task.cancel()`, a timeout, a cancel scope. An interruption must not be confused
with one. Under trio it has a cancel scope of its own. Under asyncio it is one more `task.cancel()`, which `uncancel`
takes back at the end: the result is an interruption only if there was no other cancellation, and a task that is being
cancelled is not cancelled a second time while it cleans up. So where both come, the cancellation wins. anyio delivers
the cancellation of a scope in a later step, which is awaited.

Under asyncio only a call that suspends needs any of this, so its first step is made by hand. One that never suspends
is merely called, so the sync API can use this too.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from math import inf
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Interrupted(Exception):
    """The error for an interrupted wait, after its call was cancelled and has cleaned up."""


class Interruptible:
    """A runner of successive calls, each of which can be interrupted.

    An interruption between two calls, or one that its call suppressed, interrupts the next call before it starts.
    `reset` discards it.
    """

    __slots__ = ("_before", "_scope", "_sent_cancel", "_task", "_token", "wanted")

    def __init__(self) -> None:
        self.wanted: bool = False
        self._token: Any = None  # trio: the loop of the current call
        self._scope: Any = None
        self._task: asyncio.Task[Any] | None = None  # asyncio: the task of the current call
        self._before = 0
        self._sent_cancel = False

    def interrupt(self) -> None:
        """End the current call with `Interrupted`. From any thread; idempotent."""
        self.wanted = True
        task, token = self._task, self._token
        with suppress(RuntimeError):  # the event loop is closed
            if task is not None:
                task.get_loop().call_soon_threadsafe(self._cancel_call)
            elif token is not None:
                token.run_sync_soon(self._cancel_call)

    def reset(self) -> None:
        """Discard an interruption that has not ended a call."""
        self.wanted = False

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `call()`, awaited in this task. Raise `Interrupted` if it is interrupted."""
        if self.wanted:
            raise self._interruption()
        trio = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_run():
            return await self._in_trio(call, trio)
        step = call().__await__()
        try:
            wanted = next(step)
        except StopIteration as end:
            result: T = end.value
            return result
        return await self._in_asyncio(step, wanted)

    async def _in_trio(self, call: Callable[[], Awaitable[T]], trio: Any) -> T:
        with trio.CancelScope() as scope:
            self._scope = scope
            self._token = trio.lowlevel.current_trio_token()
            self._cancel_call()
            try:
                return await call()
            finally:
                self._token = self._scope = None
        raise self._interruption()

    @coroutine
    def _in_asyncio(self, step: Generator[Any, Any, T], wanted: Any) -> Generator[Any, Any, T]:
        """Return the result of a call whose first `step` awaits `wanted`."""
        asyncio = sys.modules["asyncio"]
        task = asyncio.current_task()
        self._before = task.cancelling()
        self._sent_cancel = False
        self._task = task
        try:
            while True:
                if self.wanted:
                    self._cancel_call()
                try:
                    sent = yield wanted
                except BaseException as error:  # an exception thrown into a task goes to the awaitable
                    wanted = step.throw(error)
                else:
                    wanted = step.send(sent)
        except StopIteration as end:
            result: T = end.value
            return result
        except asyncio.CancelledError:
            if not self._sent_cancel or self._is_cancelled(task):
                raise
        finally:
            self._task = None
            self._take_back(task)
        yield from _outer_scopes().__await__()
        raise self._interruption()

    def _interruption(self) -> Interrupted:
        self.wanted = False
        return Interrupted("the wait was interrupted")

    def _cancel_call(self) -> None:
        """Cancel the call, once. Runs in its event loop, where the call may be over."""
        if not self.wanted:
            return
        if self._scope is not None:
            self._scope.cancel()
        elif (task := self._task) is not None and not self._sent_cancel and not self._is_cancelled(task):
            self._sent_cancel = True
            task.cancel()

    def _take_back(self, task: asyncio.Task[Any]) -> None:
        if self._sent_cancel:
            task.uncancel()

    def _is_cancelled(self, task: asyncio.Task[Any]) -> bool:
        """Return whether the task was cancelled by another source since the call began."""
        return task.cancelling() > self._before + self._sent_cancel


async def _outer_scopes() -> None:
    """Wait for the cancellation of an enclosing anyio scope that is cancelled and has not delivered it yet."""
    anyio = sys.modules.get("anyio")
    if anyio is not None and anyio.current_effective_deadline() == -inf:
        await anyio.sleep_forever()
