"""A function called from the face that is not its own: a sync one out of an event loop, an async one without.

Both ways lead through a thread, which gets a copy of the context variables. A thread cannot be ended from outside:
a sync function that was given up goes on by itself, and nobody looks at what it gives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ..cancellation import Cancellation
from ..errors import TurnCancelled


async def run_in_thread(call: Callable[[], Any], *, abandon: bool) -> Any:
    """What `call` returns in a worker thread. A cancelled caller waits for it, unless it may `abandon` it."""
    from anyio import to_thread  # slow to import, and of no use to most programs

    # In a tuple, because trio refuses a coroutine from a thread.
    (result,) = await to_thread.run_sync(lambda: (call(),), abandon_on_cancel=abandon)
    return result


def await_in_thread(result: Awaitable[Any], cancellation: Cancellation | None = None) -> Any:
    """What `result` gives in an event loop of its own. Raises `TurnCancelled` where it was cancelled."""
    from concurrent.futures import CancelledError

    from anyio.from_thread import start_blocking_portal  # slow to import, and of no use to most programs

    async def wait() -> Any:
        return await result

    # A portal copies the context, and on Ctrl-C cancels what it is waiting for.
    with start_blocking_portal() as portal:
        waiting = portal.start_task_soon(wait)
        forget = cancellation.then(waiting.cancel) if cancellation is not None else None
        try:
            return waiting.result()
        except CancelledError:
            if cancellation is None or not cancellation.cancelled:
                raise
            raise TurnCancelled("it was cancelled while it ran; it may have had its effect") from None
        finally:
            if forget is not None:
                forget()
