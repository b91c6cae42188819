"""Calls of a user's function, sync or async, from the sync API and from the async API."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from threading import current_thread, main_thread
from typing import Any, TypeAlias, cast

from .cancellation import Cancellation
from .exception_groups import collapse_groups
from .thread_bridge import await_in_thread, run_in_thread, run_until_cancelled

Function: TypeAlias = Callable[..., Any]


def innermost(function: Any) -> Any:
    """Return the callable inside any number of `functools.partial` objects."""
    while isinstance(function, partial):
        function = cast("Any", function).func
    return function


def is_async(function: Function) -> bool:
    """Return whether calling `function` returns a coroutine or an async generator."""
    inner = innermost(function)
    candidates = (inner, type(inner).__call__)
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in candidates)


async def call_function(
    function: Function,
    *args: Any,
    concurrent: bool,
    cancellation: Cancellation | None = None,
    waits: bool = False,
) -> Any:
    """Call a sync or async `function` and return its result.

    Under an event loop (`concurrent`) a sync function runs in a worker thread, which is abandoned on cancellation.
    Without one, an async function runs in an event loop of its own, and `cancellation` cancels it. A function that
    `waits` for a person runs in the main thread only if it is called there, where Ctrl-C interrupts it; elsewhere it
    gets a thread of its own, which `cancellation` abandons.
    """
    if not concurrent:
        if waits and cancellation is not None and current_thread() is not main_thread():
            return run_until_cancelled(partial(_call, function, args, cancellation), cancellation)
        return _call(function, args, cancellation)
    if is_async(function):
        return await collapse_groups(partial(function, *args))
    result = await run_in_thread(partial(function, *args), abandon=True)
    return await collapse_groups(lambda: result) if inspect.isawaitable(result) else result


def _call(function: Function, args: tuple[Any, ...], cancellation: Cancellation | None) -> Any:
    result = function(*args)
    return await_in_thread(result, cancellation) if inspect.isawaitable(result) else result
