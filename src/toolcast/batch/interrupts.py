"""The first Ctrl-C during a job: no more requests are sent, and those under way finish. The second is Python's own.

One handler of SIGINT serves all jobs that run. It is set in the main thread alone, where Python calls it, and only
while there is a job; the handler that was there before is called for the second Ctrl-C: Python's, that of
`asyncio.run` or of trio. A job that is abandoned may outlive the event loop: then Python's handler takes the place of
the loop's, as after a job that ends in time.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

Interrupt: TypeAlias = Callable[[], bool]
"""Interrupts a job; returns False if it was interrupted before."""

_jobs: Final[list[Interrupt]] = []
_previous: Callable[[int, FrameType | None], Any] | None = None
_loop: AbstractEventLoop | None = None
"""The event loop that was running when the handler was set."""


def watch(interrupt: Interrupt) -> None:
    """Call `interrupt` at the first Ctrl-C, until `unwatch`. Without effect outside of the main thread."""
    global _loop, _previous
    if current_thread() is not main_thread():
        return
    if signal.getsignal(signal.SIGINT) is not _handle:
        previous = signal.getsignal(signal.SIGINT)
        if not callable(previous):  # ignored, or handled by the operating system: the program wants it so
            return
        _previous, _loop = previous, _running_loop()
        signal.signal(signal.SIGINT, _handle)
    _jobs.append(interrupt)


def unwatch(interrupt: Interrupt) -> None:
    """End `watch`. From any thread; the handler is removed in the main thread."""
    if interrupt in _jobs:
        _jobs.remove(interrupt)
    in_main = current_thread() is main_thread()
    if not _jobs and _previous is not None and in_main and signal.getsignal(signal.SIGINT) is _handle:
        signal.signal(signal.SIGINT, signal.default_int_handler if _is_over() else _previous)


def _is_over() -> bool:
    """Return True if the handler that was there before belongs to an event loop that has ended, or to an ended run.

    `asyncio.Runner.run` sets a handler of its own for each run, with the task of the run; its loop may go on.
    """
    task: Task[Any] | None = getattr(_previous, "keywords", {}).get("main_task")
    return (_loop is not None and _loop.is_closed()) or (task is not None and task.done())


def _running_loop() -> AbstractEventLoop | None:
    asyncio = sys.modules.get("asyncio")  # not imported: no loop of it is running, and a sync job does without
    try:
        return None if asyncio is None else asyncio.get_running_loop()
    except RuntimeError:
        return None


def _handle(number: int, frame: FrameType | None) -> None:
    # Not `any` of a generator, as each job is to be interrupted.
    if True not in [interrupt() for interrupt in tuple(_jobs)] and _previous is not None:
        _previous(number, frame)
