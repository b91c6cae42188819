"""A wait that can be ended from outside, without anybody being cancelled.

A cancellation belongs to whoever asked for it: `task.cancel()`, a timeout, a cancel scope. An interruption must not be
taken for one, nor one for it. Under trio a cancel scope of its own keeps them apart. Under asyncio it is one more
`task.cancel()`, taken back in the end: what comes out is an interruption only if there was no other, and a task that
is being cancelled is not struck a second time while it cleans up. So where both come, the cancellation wins. anyio
tells the tasks of a cancelled scope in its own time, and that is waited for.

Under asyncio only a call that suspends needs any of this, so its first step is made by hand. One that never suspends
is merely called, which is why the sync face may use this too.
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
    """A wait was interrupted: what it waited for has been cancelled, and has cleaned up."""


class Interruptible:
    """Awaits one call after the other, each of which may be interrupted.

    An interruption that finds nothing to interrupt strikes the next call, before it begins; so does one that its
    call survived. `reset` forgets it.
    """

    __slots__ = ("_before", "_scope", "_struck", "_task", "_token", "wanted")

    def __init__(self) -> None:
        self.wanted: bool = False
        self._token: Any = None  # where a call is awaited, with trio
        self._scope: Any = None
        self._task: asyncio.Task[Any] | None = None  # which awaits a call, with asyncio
        self._before = 0
        self._struck = False

    def interrupt(self) -> None:
        """Have the call that is awaited end with `Interrupted`. From any thread; harmless when repeated."""
        self.wanted = True
        task, token = self._task, self._token
        with suppress(RuntimeError):  # the event loop is closed
            if task is not None:
                task.get_loop().call_soon_threadsafe(self._strike)
            elif token is not None:
                token.run_sync_soon(self._strike)

    def reset(self) -> None:
        """Forget an interruption that has not struck."""
        self.wanted = False

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of `call()`, which is awaited in this task. Raises `Interrupted`."""
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
            self._strike()
            try:
                return await call()
            finally:
                self._token = self._scope = None
        raise self._interruption()

    @coroutine
    def _in_asyncio(self, step: Generator[Any, Any, T], wanted: Any) -> Generator[Any, Any, T]:
        """The result of a call whose first `step` waits for what is `wanted`."""
        asyncio = sys.modules["asyncio"]
        task = asyncio.current_task()
        self._before = task.cancelling()
        self._struck = False
        self._task = task
        try:
            while True:
                if self.wanted:
                    self._strike()
                try:
                    sent = yield wanted
                except BaseException as error:  # whatever is thrown into a task is handed to what it awaits
                    wanted = step.throw(error)
                else:
                    wanted = step.send(sent)
        except StopIteration as end:
            result: T = end.value
            return result
        except asyncio.CancelledError:
            if not self._struck or self._is_cancelled(task):
                raise
        finally:
            self._task = None
            self._take_back(task)
        yield from _outer_scopes().__await__()
        raise self._interruption()

    def _interruption(self) -> Interrupted:
        self.wanted = False
        return Interrupted("the wait was interrupted")

    def _strike(self) -> None:
        """Cancel the call, once. In its event loop, where it may be over."""
        if not self.wanted:
            return
        if self._scope is not None:
            self._scope.cancel()
        elif (task := self._task) is not None and not self._struck and not self._is_cancelled(task):
            self._struck = True
            task.cancel()

    def _take_back(self, task: asyncio.Task[Any]) -> None:
        if self._struck:
            task.uncancel()

    def _is_cancelled(self, task: asyncio.Task[Any]) -> bool:
        """Whether anybody else has cancelled the task since the call began."""
        return task.cancelling() > self._before + self._struck


async def _outer_scopes() -> None:
    """Wait to be cancelled, if this stands in a cancel scope of anyio that is cancelled and has not said so yet."""
    anyio = sys.modules.get("anyio")
    if anyio is not None and anyio.current_effective_deadline() == -inf:
        await anyio.sleep_forever()
