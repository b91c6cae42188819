"""Unwrapping of the exception groups that trio's nurseries raise for a cancellation.

A nursery with strict exception groups, trio's default, raises `BaseExceptionGroup([Cancelled])` where it was only
cancelled: `except trio.Cancelled` misses it. `trio.open_tcp_stream` has such a nursery, so every request that is
cancelled while it connects would raise one, and so may any awaited code of a user. asyncio's task groups and anyio's
raise the cancellation itself.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")


async def collapse_groups(call: Callable[[], Awaitable[T]]) -> T:
    """Await `call()`. Raise a group of nothing but trio's `Cancelled` as one `Cancelled`."""
    try:
        return await call()
    except BaseExceptionGroup as group:
        cancelled = only_cancelled(group)
        if cancelled is None:
            raise
    # Out here, so that the group does not become its context: the two would refer to each other.
    try:
        raise cancelled
    finally:
        del cancelled


def only_cancelled(group: BaseExceptionGroup[Any]) -> BaseException | None:
    """Return a `Cancelled` of `group`, at any depth, if there is nothing else in it."""
    trio = sys.modules.get("trio")
    if trio is None or group.split(trio.Cancelled)[1] is not None:
        return None
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
