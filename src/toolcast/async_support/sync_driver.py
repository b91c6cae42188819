"""Running of coroutines without an event loop, for the sync API.

Logic that needs I/O is written once, as coroutines that await only their arguments. With a sync backend, which never
suspends, such a coroutine runs to its end at the first `send(None)`: without a loop or a thread, also inside a loop
that is already running. A coroutine that does suspend is closed, and `WouldSuspend` is raised.

An async generator is registered with the hooks that are set at its first step. Inside a running loop those are the
loop's, which would close an abandoned generator in a later task (asyncio) or warn about it (trio). So no hooks are
set while a step runs, and an abandoned generator runs its `finally` when it is collected. The hooks are read when
`__anext__()` is called, so that call belongs inside the coroutine.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from sys import get_asyncgen_hooks, set_asyncgen_hooks
from typing import Any, NoReturn, TypeVar

from ..errors import WouldSuspend

T = TypeVar("T")


_ADVICE = (
    "a sync call awaited code that needs an event loop, such as a custom LLM whose _events awaits I/O, or a WrapperLLM "
    "whose respond awaits anything but call_next; await the async method instead: acall, astream, achat, asubmit, ..., "
    "or in respond await call_next.sleep(seconds) and call_next.run_sync(function)"
)


_MISSING_LOOP = (
    "no running event loop",  # asyncio
    "Not currently running on any asynchronous event loop",  # anyio
    "unknown async library",  # sniffio, for httpx.AsyncClient
    "must be called from async context",  # trio
)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run `coroutine` and return its result. Raise `WouldSuspend` if it awaits an event loop."""
    first, final = get_asyncgen_hooks()
    claimed = first is not None or final is not None
    try:
        if claimed:
            set_asyncgen_hooks(None, None)
        coroutine.send(None)
        _raise_would_suspend(coroutine)
    except StopIteration as end:
        result: T = end.value
        return result
    except RuntimeError as error:
        if _is_missing_loop(error):
            raise WouldSuspend(_ADVICE) from error
        raise
    finally:
        if claimed:
            set_asyncgen_hooks(first, final)


def _raise_would_suspend(coroutine: Coroutine[Any, Any, Any]) -> NoReturn:
    """Raise `WouldSuspend` inside `coroutine`, so that it and its async generators clean up, and then here."""
    error = WouldSuspend(_ADVICE)
    with suppress(StopIteration):
        coroutine.throw(error)
    coroutine.close()
    raise error


def _is_missing_loop(error: RuntimeError) -> bool:
    """Return whether `error` is that of an async library for a missing event loop."""
    return str(error).startswith(_MISSING_LOOP)
