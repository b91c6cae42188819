"""Shielding of async reads and closes: a cancellation cannot end them halfway, and no loop registers them.

httpx and httpcore clean up inside the task that is cancelled, behind a shield that holds against anyio's and
trio's cancellation but not against a second `task.cancel()` of asyncio: that one ends the cleanup in the
middle, and the connection is never released. And they read a body through nested async generators, which a
loop registers and closes (asyncio) or warns about (trio) later. Three small drivers avoid both:

    run_or_undo       one call in a task of its own: cancelled once and awaited, however often the caller is cancelled
    run_shielded      one step of an async generator: cancelled once, or not at all; not registered with the loop.
                      `CallTimeouts` does the same with a time limit
    schedule_in_loop  a last call in another loop, which the caller does not wait for

asyncio is imported where a loop of it runs: the first request of a sync program, which has this module too, would pay
a tenth of its time for it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio

from ..errors import WouldSuspend
from . import sync_driver
from .deadlines import Deadline
from .exception_groups import collapse_groups

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
Loop: TypeAlias = Any
"""An `asyncio.AbstractEventLoop` or a `trio.lowlevel.TrioToken`."""

GRACE = 1.0
"""The time limit of a cleanup that delays a cancellation, in seconds."""

_MAX_CANCELLATIONS = 8
_log = logging.getLogger("toolcast")
_scheduled: set[asyncio.Task[None]] = set()


def current_loop() -> Loop:
    """Return the running asyncio event loop, or trio's token of it."""
    if _in_trio():
        return sys.modules["trio"].lowlevel.current_trio_token()
    import asyncio

    return asyncio.get_running_loop()


def _in_trio() -> bool:
    # trio may run as a guest inside asyncio, never the other way round; so it is asked first.
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


def _is_asyncio(loop: Loop) -> bool:
    # No import: this is also called while the interpreter ends. A loop of asyncio is an instance of its class.
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(loop, asyncio.AbstractEventLoop)


async def run_or_undo(
    call: Callable[[], Coroutine[Any, Any, T]], undo: Callable[[T], Awaitable[None]], limit: float | None
) -> T:
    """Return the result of `call`. If the caller is cancelled, `call` has ended or is undone when this raises.

    The same holds for the `TimeoutError` after `limit` seconds.
    """
    if _in_trio():
        with anyio.fail_after(limit):
            return await collapse_groups(call)
    import asyncio

    task = asyncio.get_running_loop().create_task(call())
    try:
        if not (await asyncio.wait((task,), timeout=limit))[0]:
            raise TimeoutError
    except (asyncio.CancelledError, TimeoutError):
        task.cancel()
        # The task may end with a result in spite of that: the connection was made, and only `undo` releases it.
        await _ended(task)
        if task.done() and not task.cancelled() and task.exception() is None:
            await undo(task.result())
        raise
    return task.result()


async def _ended(task: asyncio.Task[T]) -> None:
    """Wait for `task`, at most `GRACE` seconds, through further cancellations."""
    import asyncio

    for _ in range(_MAX_CANCELLATIONS):
        try:
            # The shield holds against anyio; the loop around it against a plain second `task.cancel()`.
            with anyio.CancelScope(shield=True):
                await asyncio.wait((task,), timeout=GRACE)
            return
        except asyncio.CancelledError:
            continue


async def run_shielded(call: Callable[[], Awaitable[T]], forward: int = 0) -> T:
    """Await `call()`, passing on `forward` cancellations; later ones are raised after its end.

    After `_MAX_CANCELLATIONS` of them, further ones are passed on as well.
    """
    try:
        step, wanted = _begun(call)
    except StopIteration as end:
        result: T = end.value
        return result
    return await _finished(step, wanted, forward)


class CallTimeouts:
    """The time limits of successive calls.

    Under asyncio one timer serves all of them, and it is only used where a call does not end at once.
    """

    __slots__ = ("_begun", "_deadline", "_has_timer", "_over", "_task")

    def __init__(self, loop: Loop) -> None:
        self._has_timer = _is_asyncio(loop)
        self._deadline = Deadline(loop)
        self._task: asyncio.Task[Any] | None = None
        self._over = False
        self._begun = False

    async def run(self, call: Callable[[], Awaitable[T]], limit: float | None) -> T:
        """Await `call()` as `run_shielded` with one cancellation passed on. Raise `TimeoutError` after `limit` seconds.

        Only in the first step of the first call could an event loop register a generator.
        """
        if limit is not None and not self._has_timer:
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
        import asyncio

        self._over = False
        self._task = task = asyncio.current_task()
        assert task is not None
        cancels = task.cancelling()
        self._deadline.wait(limit, self._give_up)
        try:
            return await _finished(step, wanted, 1)
        except asyncio.CancelledError:
            # Only the timer's own cancellation becomes a TimeoutError; one by the caller in the same moment wins.
            if self._over and task.uncancel() <= cancels:
                raise TimeoutError from None
            raise
        finally:
            self._deadline.rest()
            self._task = None

    def end(self) -> None:
        """Cancel the timer after the last call."""
        self._deadline.stop()

    def _give_up(self) -> None:
        assert self._task is not None
        self._over = True
        self._task.cancel()


def _begun(call: Callable[[], Awaitable[T]]) -> tuple[Generator[Any, Any, T], Any]:
    """Start `call()` without the loop's generator hooks. Return its iterator, and the future that it awaits."""
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        step = call().__await__()
        return step, next(step)
    finally:
        sys.set_asyncgen_hooks(*hooks)


@coroutine
def _finished(step: Generator[Any, Any, T], wanted: Any, forward: int) -> Generator[Any, Any, T]:
    delayed: BaseException | None = None
    cancellations_left = _MAX_CANCELLATIONS
    while True:
        try:
            try:
                sent = yield wanted
            except BaseException as error:  # a foreign close that failed after its caller was cancelled
                if forward or not cancellations_left or isinstance(error, GeneratorExit):
                    forward = max(forward - 1, 0)
                    wanted = step.throw(error)
                else:
                    cancellations_left -= 1
                    delayed = delayed or error
                    wanted = next(step)
            else:
                wanted = step.send(sent)
        except StopIteration as end:
            if delayed is not None:
                raise delayed from None
            result: T = end.value
            return result


def schedule_in_loop(loop: Loop, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `call` in `loop` if it still runs. From any thread, also during garbage collection."""
    # A closed loop raises RuntimeError, of which trio's RunFinishedError is one; nothing is open there.
    with suppress(RuntimeError):
        if _is_asyncio(loop):
            loop.call_soon_threadsafe(_spawn, loop, call)
        else:
            loop.run_sync_soon(_spawn_in_trio, call)


def _spawn_in_trio(call: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        sys.modules["trio"].lowlevel.spawn_system_task(_alone, call)
    except RuntimeError:
        # At its end trio starts no more tasks. A close that awaits nothing can run without one.
        with suppress(WouldSuspend):
            sync_driver.run(_alone(call))


async def _alone(call: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await call()
    except Exception as error:  # the close of a foreign transport, which no caller awaits
        # trio would treat the error of a system task as an internal one.
        _log.debug("closing an abandoned connection failed: %s", type(error).__name__)


def _spawn(loop: asyncio.AbstractEventLoop, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
    # An event loop references its tasks weakly.
    task = loop.create_task(_alone(call))
    _scheduled.add(task)
    task.add_done_callback(_scheduled.discard)
