"""What one turn has told so far, for any number of readers, in any threads and event loops.

A channel is a log, not a queue: each reader has a place of its own and begins with the oldest item that is kept. The
writer never waits for anybody. So no more than `limit` items are kept; a reader that fell behind goes on with the
oldest of them.
"""

from __future__ import annotations

from collections import deque
from threading import RLock
from typing import Generic, TypeVar

from .waiters import Waiters

T = TypeVar("T")

LIMIT = 100_000


class Broadcast(Generic[T]):
    """A log that grows until it is closed. `dropped` counts the items that are no longer kept."""

    __slots__ = ("_items", "_limit", "_lock", "closed", "dropped", "waiters")

    def __init__(self, limit: int = LIMIT) -> None:
        if limit < 1:
            raise ValueError(f"limit={limit} must be at least 1")
        self.dropped: int = 0
        self.closed: bool = False
        self.waiters: Waiters = Waiters()
        self._items: deque[T] = deque()
        self._limit = limit
        # One that a finalizer may take again, should it tell something in the middle of all this.
        self._lock = RLock()

    def __len__(self) -> int:
        """How many items are kept."""
        return len(self._items)

    @property
    def total(self) -> int:
        """How many items there have been."""
        return self.dropped + len(self._items)

    def put(self, item: T) -> None:
        """Tell all readers `item`. From any thread; after the end it is dropped silently."""
        with self._lock:
            if self.closed:
                return
            if len(self._items) == self._limit:
                self._items.popleft()
                self.dropped += 1
            self._items.append(item)
        self.waiters.wake()

    def close(self) -> None:
        """There will be no more items. From any thread; harmless when repeated."""
        with self._lock:
            self.closed = True
        self.waiters.wake()

    def iterate(self) -> Subscription[T]:
        """All that is kept and all that will come, until the channel is closed. The thread waits."""
        return Subscription(self)

    def aiterate(self) -> AsyncSubscription[T]:
        """All that is kept and all that will come, until the channel is closed. The task waits, on any event loop."""
        return AsyncSubscription(self)

    def after(self, place: int) -> tuple[int, list[T]]:
        """The item at `place`, or the oldest that is kept, alone in a list, and the place that follows; or none."""
        with self._lock:
            place = max(place, self.dropped)
            index = place - self.dropped
            return (place + 1, [self._items[index]]) if index < len(self._items) else (place, [])


class _Place(Generic[T]):
    """How far one reader has come."""

    __slots__ = ("_channel", "_over", "_place")

    def __init__(self, channel: Broadcast[T]) -> None:
        self._channel = channel
        self._place = 0
        self._over = False

    def _ready(self) -> bool:
        return self._over or self._channel.closed or self._place < self._channel.total

    def _next(self) -> list[T]:
        if self._over:
            return []
        self._place, found = self._channel.after(self._place)
        return found

    def _end(self) -> None:
        self._over = True
        self._channel.waiters.wake()


class Subscription(_Place[T]):
    """An iterator over a channel, for one thread at a time."""

    __slots__ = ()

    def __iter__(self) -> Subscription[T]:
        return self

    @property
    def is_caught_up(self) -> bool:
        """Whether all that was told is read: the next item is one to wait for."""
        return not self._ready()

    def __next__(self) -> T:
        self._channel.waiters.block(self._ready)
        for item in self._next():
            return item
        raise StopIteration

    def close(self) -> None:
        """Read no further; whoever waits for the next item is told that there is none. From any thread."""
        self._end()


class AsyncSubscription(_Place[T]):
    """An async iterator over a channel, for one task at a time."""

    __slots__ = ()

    def __aiter__(self) -> AsyncSubscription[T]:
        return self

    async def __anext__(self) -> T:
        if not self._ready():
            await self._channel.waiters.suspend(self._ready)
        for item in self._next():
            return item
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Read no further; whoever waits for the next item is told that there is none."""
        self._end()
