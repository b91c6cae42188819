"""A log with many readers, in threads and in event loops."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from hypothesis import given, strategies as st

from toolcast.async_support.broadcast import Broadcast
from toolcast.async_support.waiters import Waiters

PATIENCE = 20.0
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def broadcast_of(*items: int, limit: int = 100, closed: bool = True) -> Broadcast[int]:
    channel = Broadcast[int](limit)
    for item in items:
        channel.put(item)
    if closed:
        channel.close()
    return channel


def put_all(channel: Broadcast[int]) -> None:
    for item in range(500):
        channel.put(item)


def read_into(items: list[int], channel: Broadcast[int]) -> None:
    items.extend(channel.iterate())


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def ended(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


async def read(channel: Broadcast[int]) -> list[int]:
    return [item async for item in channel.aiterate()]


async def ticks(count: int = 5) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


# -- what readers see -------------------------------------------------------------------------------------------


@BACKENDS
def test_every_reader_sees_everything(backend: str) -> None:
    channel = broadcast_of(1, 2, 3)
    assert list(channel.iterate()) == list(channel.iterate()) == [1, 2, 3]
    assert anyio.run(read, channel, backend=backend) == [1, 2, 3]
    assert (len(channel), channel.total, channel.dropped) == (3, 3, 0)


def test_what_comes_after_the_end_is_dropped() -> None:
    channel = broadcast_of(1)
    channel.put(2)
    channel.close()
    assert list(channel.iterate()) == [1]


@pytest.mark.fault(116)
def test_only_so_many_are_kept() -> None:
    channel = broadcast_of(1, 2, 3, limit=2, closed=False)
    reader = channel.iterate()
    assert next(reader) == 2
    for item in (4, 5):
        channel.put(item)
    channel.close()
    assert list(reader) == [4, 5]
    assert channel.dropped == 3
    with pytest.raises(ValueError, match="limit=0"):
        Broadcast(0)


Step = st.one_of(st.just("put"), st.integers(0, 2))


@given(st.integers(1, 5), st.lists(Step, max_size=60))
def test_a_reader_sees_each_item_once_or_it_was_dropped(limit: int, steps: list[str | int]) -> None:
    channel = Broadcast[int](limit)
    readers = [channel.iterate() for _ in range(3)]
    seen: list[list[int]] = [[], [], []]
    kept: deque[int] = deque(maxlen=limit)
    for step in steps:
        if isinstance(step, int):
            if not readers[step].is_caught_up:
                seen[step].append(next(readers[step]))
                assert seen[step][-1] in kept
        else:
            kept.append(channel.total)
            channel.put(channel.total)
    channel.close()
    for reader, items in zip(readers, seen, strict=True):
        after = items[-1] if items else -1
        assert list(reader) == [item for item in kept if item > after]
        assert items == sorted(set(items))
    assert channel.dropped == channel.total - len(kept)


# -- waiting ----------------------------------------------------------------------------------------------------


def test_a_thread_waits_for_a_limited_time() -> None:
    channel = Broadcast[int]()
    reader = channel.iterate()
    assert not reader.wait(0)
    channel.put(1)
    assert reader.wait(60)
    assert next(reader) == 1
    channel.close()
    assert reader.wait(60)
    assert list(reader) == []


def test_threads_wait_for_what_comes() -> None:
    channel = Broadcast[int]()
    seen: list[list[int]] = [[] for _ in range(4)]
    threads = [in_thread(partial(read_into, mine, channel)) for mine in seen]
    writers = [in_thread(partial(put_all, channel)) for _ in range(2)]
    ended(*writers)
    channel.close()
    ended(*threads)
    assert all(mine == seen[0] for mine in seen)
    assert sorted(seen[0]) == sorted([*range(500)] * 2)


@BACKENDS
def test_tasks_wait_for_what_comes_from_a_thread(backend: str) -> None:
    channel = Broadcast[int]()
    seen: list[list[int]] = []

    async def main() -> None:
        async def reader() -> None:
            seen.append(await read(channel))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(reader)
            await ticks()
            await anyio.to_thread.run_sync(put_all, channel)
            channel.close()

    anyio.run(main, backend=backend)
    assert seen == [[*range(500)]] * 3


@BACKENDS
def test_a_reader_that_is_closed_while_it_waits(backend: str) -> None:
    channel = broadcast_of(1, closed=False)
    reader = channel.iterate()
    seen: list[int] = []
    thread = in_thread(lambda: seen.extend(reader))
    while not channel.waiters:
        pass
    reader.close()
    ended(thread)

    async def main() -> None:
        reader = channel.aiterate()

        async def consume() -> None:
            seen.extend([item async for item in reader])

        async with anyio.create_task_group() as group:
            group.start_soon(consume)
            await ticks()
            await reader.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(reader)

    anyio.run(main, backend=backend)
    assert seen == [1, 1]
    assert not channel.waiters


@BACKENDS
def test_a_cancelled_reader_leaves_nothing_behind(backend: str) -> None:
    channel = Broadcast[int]()

    async def main() -> None:
        reader = channel.aiterate()
        with anyio.move_on_after(0.01) as scope:
            await anext(reader)
        assert scope.cancelled_caught
        assert not channel.waiters
        channel.put(1)
        assert await anext(reader) == 1

    anyio.run(main, backend=backend)


def test_ctrl_c_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pressed:
        release = None

        def acquire(self, timeout: float | None = None) -> None:
            if timeout is not None:
                raise KeyboardInterrupt

    monkeypatch.setattr("toolcast.async_support.waiters.Lock", Pressed)
    channel = Broadcast[int]()
    with pytest.raises(KeyboardInterrupt):
        next(channel.iterate())
    assert not channel.waiters


@BACKENDS
def test_a_loop_that_is_gone_is_not_reported(backend: str) -> None:
    channel = Broadcast[int]()
    wakes: list[Callable[[], object]] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anext, channel.aiterate())
            await ticks()
            wakes.extend(channel.waiters._calls)  # as if `put` had read them before the loop ended
            group.cancel_scope.cancel()

    anyio.run(main, backend=backend)
    assert len(wakes) == 1
    channel.waiters._calls.extend(wakes)
    channel.put(1)
    assert list(broadcast_of(1).iterate()) == [1]
    assert not channel.waiters


def test_waiters_that_leave_in_between() -> None:
    """Another thread wakes the last waiter of those that have just been registered."""
    channel = Broadcast[int]()
    calls = channel.waiters._calls  # no test can stop `wake` between its look at the list and its next step
    calls.extend([calls.clear, lambda: None])
    channel.put(1)
    assert calls == []


def test_an_item_that_comes_just_before_the_wait() -> None:
    """It comes when the reader has looked, and has not yet taken its place in the list."""
    waiters = Waiters()
    came: list[bool] = []

    def look() -> bool:
        if came:
            return True
        came.append(True)
        waiters.wake()
        return False

    assert waiters.block(look, PATIENCE) is True
    came.clear()
    asyncio.run(asyncio.wait_for(waiters.suspend(look), PATIENCE))
    assert not waiters


# -- what it takes ----------------------------------------------------------------------------------------------


def test_an_idle_channel_is_small() -> None:
    parts: list[Any] = [Broadcast[int]()]
    for part in parts:  # it grows
        parts.extend(each for each in gc.get_referents(part) if not isinstance(each, type) and each not in parts)
    assert {"Broadcast", "Waiters", "deque"} <= {type(part).__name__ for part in parts}
    assert sum(map(sys.getsizeof, parts)) < 2_000


def test_readers_hold_no_items() -> None:
    class Item:
        alive = 0

        def __init__(self) -> None:
            Item.alive += 1

        def __del__(self) -> None:
            Item.alive -= 1

    channel = Broadcast[Item](3)
    reader = channel.iterate()
    for _ in range(100):
        channel.put(Item())
    next(reader)
    gc.collect()
    assert Item.alive == 3


def test_a_reader_knows_when_it_has_read_all_that_was_reported() -> None:
    channel = broadcast_of(1, 2, closed=False)
    reader = channel.iterate()
    assert not reader.is_caught_up
    assert [next(reader), next(reader)] == [1, 2]
    assert reader.is_caught_up
    channel.close()
    assert not reader.is_caught_up  # the end is there to be read
