"""Background jobs: a task of the running event loop, or without one a daemon thread.

The exception that ends a job is stored in its `error` and not raised in the event loop. Only KeyboardInterrupt and
SystemExit reach asyncio as well, as from any task. `main` always starts: a job that is cancelled before its first step
is cancelled at its first await, so that its cleanup always runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from contextvars import copy_context
from threading import Thread, get_ident
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

from ..errors import WouldSuspend
from . import sync_driver
from .waiters import Waiters

if TYPE_CHECKING:
    import asyncio

    from trio.lowlevel import TrioToken

Main: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_MAX_CANCELLATIONS = 8
_tasks: set[asyncio.Task[None]] = set()


def start_job(main: Main, *, concurrent: bool, name: str) -> BackgroundJob:
    """Start `main` as a task of the running event loop if `concurrent`, else in its own thread.

    An exception that `main` does not handle is the job's `error`. `main` runs in a copy of the current context.
    """
    job = BackgroundJob(name)
    if not concurrent:
        Thread(target=copy_context().run, args=(_run, job, main), name=name, daemon=True).start()
        return job
    from .shielding import current_loop

    loop = current_loop()
    if hasattr(loop, "run_sync_soon"):
        _begin_in_trio(job, main, loop)
    else:
        _begin_in_asyncio(job, main, loop)
    return job


class Joinable(Protocol):
    """A job whose end can be awaited."""

    async def join(self) -> None: ...


async def join_all(jobs: Sequence[Joinable], seconds: float) -> None:
    """Wait up to `seconds` until all `jobs` have ended, and raise a cancellation of the caller afterwards."""
    import anyio

    cancelled: BaseException | None = None
    for _ in range(_MAX_CANCELLATIONS):
        try:
            with anyio.move_on_after(seconds, shield=True):
                for job in jobs:
                    await job.join()
            break
        except anyio.get_cancelled_exc_class() as error:  # by task.cancel() of asyncio, which no shield stops
            cancelled = cancelled or error
    if cancelled is not None:
        raise cancelled


class BackgroundJob:
    """A running or finished job.

    `error` is the exception that ended it, or None; `cancelled` is True once `cancel` was called.
    """

    __slots__ = ("__weakref__", "_cancel", "_waiters", "cancelled", "done", "error", "name", "thread")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.done: bool = False
        self.cancelled: bool = False
        self.error: BaseException | None = None
        self.thread: int = 0
        self._cancel: Callable[[], object] | None = None
        self._waiters = Waiters()

    def cancel(self) -> None:
        """Cancel the job, from any thread. A job in a thread has to check `cancelled` itself."""
        self.cancelled = True
        cancel = self._cancel
        if cancel is not None:
            with suppress(RuntimeError):  # its event loop is closed
                cancel()

    async def join(self) -> None:
        """Wait for the end, in any event loop. A cancellation of the caller does not cancel the job."""
        await self._waiters.suspend(self._is_done)

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread until the end, or for `timeout` seconds. Return whether the job has ended.

        Raise `RuntimeError` in the job's own thread, which would wait for itself.
        """
        if not self.done and get_ident() == self.thread:
            raise RuntimeError(f"{self.name} runs in the thread that would wait for it; await its join() instead")
        return self._waiters.block(self._is_done, timeout)

    async def work(self, main: Main) -> None:
        """Run `main` and store the exception that ends it."""
        self.thread = get_ident()
        try:
            await main()
        except BaseException as error:  # stored in the job's `error`
            self.error = error

    def end(self) -> None:
        """Mark the job as done and wake its waiters."""
        self._cancel = None
        self.done = True
        self._waiters.wake()

    def cancel_by(self, cancel: Callable[[], object]) -> None:
        """Set the function by which `cancel` cancels the job."""
        self._cancel = cancel

    def _is_done(self) -> bool:
        return self.done


def _run(job: BackgroundJob, main: Main) -> None:
    try:
        sync_driver.run(job.work(main))
    except WouldSuspend as error:
        job.error = error
    finally:
        job.end()


def _begin_in_asyncio(job: BackgroundJob, main: Main, loop: asyncio.AbstractEventLoop) -> None:
    job.thread = get_ident()
    task = loop.create_task(_StartedCoroutine(_in_asyncio(job, main, loop)), name=job.name)
    if not task.done():
        _tasks.add(task)  # an event loop references its tasks weakly
        task.add_done_callback(_tasks.discard)
        job.cancel_by(lambda: loop.call_soon_threadsafe(task.cancel))


async def _in_asyncio(job: BackgroundJob, main: Main, loop: asyncio.AbstractEventLoop) -> None:
    try:
        await job.work(main)
        if isinstance(job.error, (KeyboardInterrupt, SystemExit)):
            loop.call_soon(_raise, job.error)
    finally:
        job.end()


def _raise(error: BaseException) -> NoReturn:
    raise error


class _StartedCoroutine(Coroutine[Any, Any, None]):
    """A coroutine for an asyncio task that starts even if the task is cancelled before its first step."""

    def __init__(self, own: Coroutine[Any, Any, None]) -> None:
        self._own = own
        self._begun = False

    def __await__(self) -> Generator[Any, Any, None]:
        return self._own.__await__()

    def send(self, value: Any, /) -> Any:
        self._begun = True
        return self._own.send(value)

    def throw(self, kind: Any, value: Any = None, trace: Any = None, /) -> Any:
        if self._begun:
            return self._own.throw(kind)
        sys.modules["asyncio"].current_task().cancel()
        return self.send(None)

    def close(self) -> None:
        self._own.close()


def _begin_in_trio(job: BackgroundJob, main: Main, loop: TrioToken) -> None:
    lowlevel = sys.modules["trio"].lowlevel
    scope = sys.modules["trio"].CancelScope()
    job.thread = get_ident()
    lowlevel.spawn_system_task(_in_trio, job, main, scope, name=job.name, context=copy_context())
    job.cancel_by(lambda: loop.run_sync_soon(scope.cancel))


async def _in_trio(job: BackgroundJob, main: Main, scope: Any) -> None:
    try:
        with scope:
            await job.work(main)
    finally:
        job.end()
