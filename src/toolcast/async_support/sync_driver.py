"""Drive async syntax for a caller who has no event loop.

Logic that needs I/O is written once, as coroutines that await only what they are given. Given shells that
never suspend, such a coroutine runs to its end at the first `send(None)`: no loop, no thread, and it works
inside a loop that is already running. What it awaits must not suspend; a coroutine that does is closed and
reported.

An async generator belongs to whoever's hooks it sees at its first step. Inside a running loop those are the
loop's, which would then close an abandoned generator in a later task (asyncio) or warn about it (trio). So
there are no hooks while a step is driven, and an abandoned generator runs its `finally` when it is collected,
like any other. The hooks are read when `__anext__()` is called, so that call belongs inside the coroutine
that is driven.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from sys import get_asyncgen_hooks, set_asyncgen_hooks
from typing import Any, NoReturn, TypeVar

from ..errors import WouldSuspend

T = TypeVar("T")


_ADVICE = (
    "a synchronous call met code that waits for an event loop, such as a custom LLM whose _events awaits I/O; "
    "await the async method instead: acall, astream, achat, asubmit, ..."
)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of `coroutine`, driven here and now. Raises `WouldSuspend` if it waits for an event loop."""
    first, final = get_asyncgen_hooks()
    claimed = first is not None or final is not None
    try:
        if claimed:
            set_asyncgen_hooks(None, None)
        coroutine.send(None)
        _refuse(coroutine)
    except StopIteration as end:
        result: T = end.value
        return result
    except RuntimeError as error:
        if _asks_for_a_loop(error):
            raise WouldSuspend(_ADVICE) from error
        raise
    finally:
        if claimed:
            set_asyncgen_hooks(first, final)


def _refuse(coroutine: Coroutine[Any, Any, Any]) -> NoReturn:
    """Raise `WouldSuspend` where `coroutine` waits, so that it cleans up and an async generator it awaits ends."""
    error = WouldSuspend(_ADVICE)
    with suppress(StopIteration):
        coroutine.throw(error)
    coroutine.close()
    raise error


def _asks_for_a_loop(error: RuntimeError) -> bool:
    """Whether this is how asyncio or anyio say that no event loop is running."""
    return str(error).startswith(("no running event loop", "Not currently running on any asynchronous event loop"))
