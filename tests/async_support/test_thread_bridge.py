"""Functions called from the API that is not their own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Any

import anyio
import pytest

from toolcast.async_support.cancellation import Cancellation
from toolcast.async_support.thread_bridge import await_in_thread, run_in_thread
from toolcast.errors import TurnCancelled

LONG = 60.0


async def give(value: Any) -> Any:
    await anyio.lowlevel.checkpoint()
    return value


async def test_a_coroutine_may_come_from_a_thread() -> None:
    made = await run_in_thread(lambda: give(5), abandon=False)
    assert await made == 5


@pytest.mark.parametrize("cancellation", [None, Cancellation()])
def test_what_is_awaited_without_a_loop(cancellation: Cancellation | None) -> None:
    assert await_in_thread(give(5), cancellation) == 5


async def test_a_thread_that_may_be_abandoned_is_not_waited_for() -> None:
    release, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        release.wait(LONG)

    try:
        with anyio.fail_after(LONG):
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: run_in_thread(hang, abandon=True))
                await anyio.to_thread.run_sync(begun.wait)
                group.cancel_scope.cancel()
    finally:
        release.set()


def test_what_is_awaited_can_be_cancelled() -> None:
    cancellation, ended = Cancellation(), threading.Event()

    async def wait() -> None:
        cancellation.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with pytest.raises(TurnCancelled, match="it may have had its effect"):
        await_in_thread(wait(), cancellation)
    assert ended.is_set()


@pytest.mark.parametrize("cancellation", [None, Cancellation()])
def test_what_cancels_itself_was_not_cancelled(cancellation: Cancellation | None) -> None:
    async def wait() -> None:
        raise asyncio.CancelledError

    with pytest.raises(concurrent.futures.CancelledError):
        await_in_thread(wait(), cancellation)
