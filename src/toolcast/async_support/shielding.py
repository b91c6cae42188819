"""Async reading and closing that a cancellation cannot leave half done, and that no event loop claims.

httpx and httpcore clean up inside the task that is cancelled, behind a shield that holds against anyio's and
trio's cancellation but not against a second `task.cancel()` of asyncio: that one ends the cleanup in the
middle, and the connection is never given back. And they read a body through nested async generators, which a
loop claims for itself and closes (asyncio) or warns about (trio) in its own time. Three small drivers keep
both away:

    apart       one call in a task of its own: cancelled once, waited for, however often the caller is
    unbroken    one step of an async generator: cancelled once, or not at all; unclaimed by the loop. `CallTimeouts`
                is the same within a limit
    hand_over   a last call given to another loop, by somebody who cannot wait for it
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from types import coroutine
from typing import Any, TypeAlias, TypeVar

import anyio

from ..errors import WouldSuspend
from . import sync_driver
from .deadlines import Deadline
from .exception_groups import collapse_groups

T = TypeVar("T")
Loop: TypeAlias = Any
"""An `asyncio.AbstractEventLoop` or a `trio.lowlevel.TrioToken`."""

GRACE = 1.0
"""Seconds that a cleanup may take when somebody waits to be cancelled."""

_PATIENCE = 8
_log = logging.getLogger("toolcast")
_handed_over: set[asyncio.Task[None]] = set()


def current_loop() -> Loop:
    """What stands for the event loop that is running here."""
    return sys.modules["trio"].lowlevel.current_trio_token() if _in_trio() else asyncio.get_running_loop()


def _in_trio() -> bool:
    # trio may run as a guest inside asyncio, never the other way round; so it is asked first.
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


async def run_or_undo(
    call: Callable[[], Coroutine[Any, Any, T]], undo: Callable[[T], Awaitable[None]], limit: float | None
) -> T:
    """The result of `call`. If the caller is cancelled, `call` has ended or is undone when this raises.

    `TimeoutError` after `limit` seconds, likewise.
    """
    if _in_trio():
        with anyio.fail_after(limit):
            return await collapse_groups(call)
    task = asyncio.get_running_loop().create_task(call())
    try:
        if not (await asyncio.wait((task,), timeout=limit))[0]:
            raise TimeoutError
    except (asyncio.CancelledError, TimeoutError):
        task.cancel()
        await _ended(task)
        if task.done() and not task.cancelled() and task.exception() is None:
            await undo(task.result())
        raise
    return task.result()


async def _ended(task: asyncio.Task[T]) -> None:
    """Wait for `task`, at most `GRACE` seconds, through further cancellations."""
    for _ in range(_PATIENCE):
        try:
            with anyio.CancelScope(shield=True):
                await asyncio.wait((task,), timeout=GRACE)
            return
        except asyncio.CancelledError:
            continue


async def run_shielded(call: Callable[[], Awaitable[T]], forward: int = 0) -> T:
    """Await `call()`, letting `forward` cancellations through; later ones wait until it has ended.

    They do not wait for ever: what is cancelled again and again is broken off after all.
    """
    try:
        step, wanted = _begun(call)
    except StopIteration as end:
        result: T = end.value
        return result
    return await _finished(step, wanted, forward)


class CallTimeouts:
    """How long each of several calls, made one after the other, may take.

    Under asyncio one alarm serves all of them, and only where a call does not end at once.
    """

    __slots__ = ("_alarm", "_begun", "_loop", "_over", "_task")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._alarm = Deadline(loop)
        self._task: asyncio.Task[Any] | None = None
        self._over = False
        self._begun = False

    async def run(self, call: Callable[[], Awaitable[T]], limit: float | None) -> T:
        """`unbroken`, with one cancellation let through. `TimeoutError` after `limit` seconds.

        The first step of the first call is the one in which a generator could be claimed.
        """
        if limit is not None and not isinstance(self._loop, asyncio.AbstractEventLoop):
            with anyio.fail_after(limit):
                return await self.run(call, None)
        try:
            if self._begun:
                step = call().__await__()
                wanted = next(step)
            else:
                self._begun = True
                step, wanted = _begun(call)
        except StopIteration as end:
            result: T = end.value
            return result
        if limit is None:
            return await _finished(step, wanted, 1)
        self._over = False
        self._task = task = asyncio.current_task()
        assert task is not None
        cancels = task.cancelling()
        self._alarm.wait(limit, self._give_up)
        try:
            return await _finished(step, wanted, 1)
        except asyncio.CancelledError:
            if self._over and task.uncancel() <= cancels:
                raise TimeoutError from None
            raise
        finally:
            self._alarm.rest()
            self._task = None

    def end(self) -> None:
        """There will be no more calls."""
        self._alarm.stop()

    def _give_up(self) -> None:
        assert self._task is not None
        self._over = True
        self._task.cancel()


def _begun(call: Callable[[], Awaitable[T]]) -> tuple[Generator[Any, Any, T], Any]:
    """The first step of `call()`, which no event loop may claim, and what it waits for."""
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        step = call().__await__()
        return step, next(step)
    finally:
        sys.set_asyncgen_hooks(*hooks)


@coroutine
def _finished(step: Generator[Any, Any, T], wanted: Any, forward: int) -> Generator[Any, Any, T]:
    held: BaseException | None = None
    patience = _PATIENCE
    while True:
        try:
            try:
                sent = yield wanted
            except BaseException as error:  # a foreign close that failed after its caller was cancelled
                if forward or not patience or isinstance(error, GeneratorExit):
                    forward = max(forward - 1, 0)
                    wanted = step.throw(error)
                else:
                    patience -= 1
                    held = held or error
                    wanted = next(step)
            else:
                wanted = step.send(sent)
        except StopIteration as end:
            if held is not None:
                raise held from None
            result: T = end.value
            return result


def schedule_in_loop(loop: Loop, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Have `loop` run `call`, if it still can. From any thread, and while garbage is collected."""
    # A closed loop says RuntimeError, of which trio's RunFinishedError is one; nothing is open there.
    with suppress(RuntimeError):
        if isinstance(loop, asyncio.AbstractEventLoop):
            loop.call_soon_threadsafe(_spawn, loop, call)
        else:
            loop.run_sync_soon(_spawn_in_trio, call)


def _spawn_in_trio(call: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        sys.modules["trio"].lowlevel.spawn_system_task(_alone, call)
    except RuntimeError:
        # In its last moments trio takes no new tasks. What waits for nothing can be closed all the same.
        with suppress(WouldSuspend):
            sync_driver.run(_alone(call))


async def _alone(call: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await call()
    except Exception as error:  # a foreign transport's close, for which nobody waits any more
        # A foreign transport's close: nobody waits for it, and trio would take its error for trio's own.
        _log.debug("closing a forsaken connection failed: %s", type(error).__name__)


def _spawn(loop: asyncio.AbstractEventLoop, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
    # A loop holds its tasks weakly.
    task = loop.create_task(_alone(call))
    _handed_over.add(task)
    task.add_done_callback(_handed_over.discard)
