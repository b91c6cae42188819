"""Calls of sync functions from an event loop, and of async functions without one, through a thread.

The thread gets a copy of the context variables. Python cannot end a thread: an abandoned sync function keeps running,
and its result is discarded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from threading import Thread
from typing import Any

from ..errors import TurnCancelled
from .cancellation import Cancellation
from .waiters import Waiters


async def run_in_thread(call: Callable[[], Any], *, abandon: bool) -> Any:
    """Return the result of `call` in a worker thread. A cancelled caller waits for its end unless `abandon` is True."""
    from anyio import to_thread  # slow to import, and most programs do not need it

    # In a tuple, because trio rejects a coroutine as the result of a thread.
    (result,) = await to_thread.run_sync(lambda: (call(),), abandon_on_cancel=abandon)
    return result


def run_until_cancelled(call: Callable[[], Any], cancellation: Cancellation) -> Any:
    """Return the result of `call` in a thread of its own. Raise `TurnCancelled` once it is cancelled.

    The thread is then left behind, and what it returns is discarded.
    """
    waiters, outcome = Waiters(), list[tuple[Any, BaseException | None]]()

    def work() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as error:  # raised in the thread that waits
            outcome.append((None, error))
        waiters.wake()

    Thread(target=copy_context().run, args=(work,), name="toolcast callback", daemon=True).start()
    forget = cancellation.then(waiters.wake)
    try:
        waiters.block(lambda: cancellation.cancelled or bool(outcome))
    finally:
        forget()
    if cancellation.cancelled:
        raise TurnCancelled("the function was cancelled while it ran; what it returns is discarded")
    result, error = outcome.pop()
    if error is not None:
        raise error
    return result


def await_in_thread(result: Awaitable[Any], cancellation: Cancellation | None = None) -> Any:
    """Return the awaited `result`, in an event loop of its own. Raise `TurnCancelled` if it was cancelled."""
    from concurrent.futures import CancelledError

    from anyio.from_thread import start_blocking_portal  # slow to import, and most programs do not need it

    async def wait() -> Any:
        return await result

    # A portal copies the context, and on Ctrl-C cancels its task.
    with start_blocking_portal() as portal:
        waiting = portal.start_task_soon(wait)
        forget = cancellation.then(waiting.cancel) if cancellation is not None else None
        try:
            return waiting.result()
        except CancelledError:
            if cancellation is None or not cancellation.cancelled:
                raise
            raise TurnCancelled("the function was cancelled while it ran; it may have had its effect") from None
        finally:
            if forget is not None:
                forget()
