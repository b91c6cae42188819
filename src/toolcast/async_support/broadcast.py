"""`Broadcast`: a log of items with any number of subscribers, in any threads and event loops.

Each subscription has its own position and starts with the oldest stored item. The writer never waits. Therefore at most
`limit` items are stored; a subscription that fell behind continues with the oldest of them.
"""

from __future__ import annotations

from collections import deque
from threading import RLock
from typing import Generic, TypeVar

from .waiters import Waiters

T = TypeVar("T")

LIMIT = 100_000


class Broadcast(Generic[T]):
    """A log that grows until it is closed. `dropped` is the number of items that were removed."""

    __slots__ = ("_items", "_limit", "_lock", "closed", "dropped", "waiters")

    def __init__(self, limit: int = LIMIT) -> None:
        if limit < 1:
            raise ValueError(f"limit={limit} must be at least 1")
        self.dropped: int = 0
        self.closed: bool = False
        self.waiters: Waiters = Waiters()
        self._items: deque[T] = deque()
        self._limit = limit
        # Reentrant, as a finalizer may put an item while this thread has the lock.
        self._lock = RLock()

    def __len__(self) -> int:
        """Return the number of stored items."""
        return len(self._items)

    @property
    def total(self) -> int:
        """The number of items so far, with the removed ones."""
        return self.dropped + len(self._items)

    def put(self, item: T) -> None:
        """Send `item` to all subscriptions, from any thread. It is ignored after `close`."""
        with self._lock:
            if self.closed:
                return
            if len(self._items) == self._limit:
                self._items.popleft()
                self.dropped += 1
            self._items.append(item)
        self.waiters.wake()

    def close(self) -> None:
        """End all subscriptions after the stored items, from any thread. Idempotent."""
        with self._lock:
            self.closed = True
        self.waiters.wake()

    def iterate(self) -> Subscription[T]:
        """Iterate over the stored items and all later ones until the end, blocking this thread."""
        return Subscription(self)

    def aiterate(self) -> AsyncSubscription[T]:
        """Iterate over the stored items and all later ones until the end, in any event loop."""
        return AsyncSubscription(self)

    def after(self, place: int) -> tuple[int, list[T]]:
        """Return the next position, and a list with the item at `place` or the oldest stored one; empty at the end."""
        with self._lock:
            place = max(place, self.dropped)
            index = place - self.dropped
            return (place + 1, [self._items[index]]) if index < len(self._items) else (place, [])


class _Place(Generic[T]):
    """The position of one subscription."""

    __slots__ = ("_channel", "_over", "_place", "has_gap")

    def __init__(self, channel: Broadcast[T]) -> None:
        self.has_gap: bool = False
        """True if items were removed before this subscription read them."""
        self._channel = channel
        self._place = 0
        self._over = False

    def _ready(self) -> bool:
        return self._over or self._channel.closed or self._place < self._channel.total

    def _next(self) -> list[T]:
        if self._over:
            return []
        self.has_gap |= self._channel.dropped > self._place
        self._place, found = self._channel.after(self._place)
        return found

    def _end(self) -> None:
        self._over = True
        self._channel.waiters.wake()


class Subscription(_Place[T]):
    """An iterator over a `Broadcast`, for one thread at a time."""

    __slots__ = ()

    def __iter__(self) -> Subscription[T]:
        return self

    @property
    def is_caught_up(self) -> bool:
        """True if all items so far are read, so that the next one has to be waited for."""
        return not self._ready()

    def wait(self, seconds: float) -> bool:
        """Wait for the next item or the end, for at most `seconds`. Return False if neither is there then."""
        return self._channel.waiters.block(self._ready, seconds)

    def __next__(self) -> T:
        self._channel.waiters.block(self._ready)
        for item in self._next():
            return item
        raise StopIteration

    def close(self) -> None:
        """End this subscription and wake its reader, from any thread."""
        self._end()


class AsyncSubscription(_Place[T]):
    """An async iterator over a `Broadcast`, for one task at a time."""

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
        """End this subscription and wake its reader."""
        self._end()
