"""callbacks.py: a user's function called from either API."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import anyio
import pytest

from toolcast.async_support import sync_driver
from toolcast.async_support.callbacks import call_function
from toolcast.async_support.cancellation import Cancellation
from toolcast.errors import TurnCancelled

where: ContextVar[str] = ContextVar("where", default="nowhere")


def plain(value: int) -> tuple[int, str]:
    return value, where.get()


async def awaited(value: int) -> tuple[int, str]:
    await anyio.lowlevel.checkpoint()
    return value, where.get()


def giving(value: int) -> Any:
    return awaited(value)


def fails(value: int) -> Any:
    raise LookupError(value)


async def afails(value: int) -> Any:
    raise LookupError(value)


FUNCTIONS = [plain, awaited, giving]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_without_a_loop(function: Callable[..., Any]) -> None:
    where.set("here")
    assert sync_driver.run(call_function(function, 7, concurrent=False)) == (7, "here")


@pytest.mark.parametrize("function", FUNCTIONS)
async def test_with_a_loop(function: Callable[..., Any]) -> None:
    where.set("here")
    assert await call_function(function, 7, concurrent=True) == (7, "here")


@pytest.mark.parametrize("function", [fails, afails])
async def test_what_it_raises_comes_out(function: Callable[..., Any]) -> None:
    with pytest.raises(LookupError):
        await call_function(function, 7, concurrent=True)
    with pytest.raises(LookupError):
        sync_driver.run(call_function(function, 7, concurrent=False))


async def test_under_a_loop_a_sync_function_blocks_no_one() -> None:
    go = threading.Event()

    async def release() -> None:
        go.set()

    async with anyio.create_task_group() as group:
        group.start_soon(release)
        assert await call_function(go.wait, 10, concurrent=True)


async def test_under_a_loop_a_sync_function_can_be_left_behind() -> None:
    go = threading.Event()
    with anyio.move_on_after(0):
        await call_function(go.wait, 10, concurrent=True)
    go.set()


def test_without_a_loop_an_async_function_is_cancelled_by_the_cancellation() -> None:
    cancellation = Cancellation()

    async def wait() -> None:
        threading.Thread(target=cancellation.cancel).start()
        await anyio.sleep_forever()

    with pytest.raises(TurnCancelled):
        sync_driver.run(call_function(wait, concurrent=False, cancellation=cancellation))
