"""Calls a user's function from either face, be it sync or async."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from ..cancellation import Cancellation
from ..tools.signature import Function, is_async
from .exception_groups import ungrouped
from .thread_bridge import awaited_in_thread, called_in_thread


async def called(function: Function, *args: Any, concurrent: bool, cancellation: Cancellation | None = None) -> Any:
    """What `function` returns. Under an event loop a sync one runs in a worker thread, which may be left behind.

    Without one, an async function is cancelled by the `cancellation`.
    """
    if not concurrent:
        result = function(*args)
        return awaited_in_thread(result, cancellation) if inspect.isawaitable(result) else result
    if is_async(function):
        return await ungrouped(partial(function, *args))
    result = await called_in_thread(partial(function, *args), abandon=True)
    return await ungrouped(lambda: result) if inspect.isawaitable(result) else result
