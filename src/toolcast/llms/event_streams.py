"""Streams of one call: `EventStream` yields its events, `ObjectStream` the typed objects they add up to.

Each has an async counterpart. What they do is written once, as coroutines of their common base; the sync surface
drives those without an event loop, the async surface returns them to be awaited. What happens between two waits is
written in the flow they are given (`ResponseEvents`, `ObjectEvents`), and nothing is read ahead of what was asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar, overload

from ..accumulator import Accumulator
from ..async_support import sync_driver
from ..call_report import Account
from ..closing import AsyncClosing, Closing
from ..errors import StreamBusy
from ..events import ChatResponse, Event
from ..parsing.path_changes import Path, PathChange
from ..usage import Usage
from .response_events import ObjectEvents, ResponseEvents, ViewReducer

T = TypeVar("T")
E = TypeVar("E")


class _EventState:
    """The common base of both event streams."""

    def __init__(self, source: ResponseEvents, known: Mapping[str, Any], now: Callable[[], float]) -> None:
        self._account = Account("chat", lambda: known, now)
        self._source = source
        self._known = known
        self._queue: list[Event] = []
        self._position = 0
        self._current: Event | None = None
        self._folded = Accumulator()
        self.state: str = "open"
        self.err: Exception | None = None

    @property
    def current(self) -> Event:
        """The event that the last successful `next()` moved to. Reading it makes the state `open` again."""
        if self._current is None or self._over:
            raise LookupError(f"no current event in state {self.state!r}: call next() first")
        self.state = "open"
        return self._current

    @property
    def response(self) -> ChatResponse:
        """What has arrived so far, folded into one response."""
        return self._folded.response(request_id=self._source.request_id, **self._known)

    @property
    def usage(self) -> Usage:
        """Tokens used so far, as the service reported them."""
        return self._folded.usage

    def _take(self) -> bool:
        """Move to the next event that is already here."""
        if self._position >= len(self._queue):
            return False
        self._current = event = self._queue[self._position]
        self._position += 1
        self._folded.apply(event)
        self.state = "has_event"
        return True

    async def _pull(self) -> bool:
        """Wait for more events, and move to the first. Return False at the end, and after a failure."""
        if self._over:
            return False
        try:
            self._queue, self._position = await self._source.pull(), 0
        except Exception as error:
            self.state, self.err = "errored", error
            self._account.end(self.usage, error=error)
            return False
        if self._queue:
            return self._take()
        self.state = "exhausted"
        self._account.end(self.usage, output=None)
        return False

    async def _stop(self) -> None:
        if self.state == "has_event":
            self._account.end(self.usage)
        if not self._over:
            self.state = "closed"
            self._queue, self._position = [], 0
        await self._source.close()

    def _end(self, stop: type[Exception]) -> Exception:
        """Return what iteration raises now: the failure of the stream, else `stop`."""
        return self.err if self.state == "errored" and self.err is not None else stop()

    @property
    def _over(self) -> bool:
        return self.state in ("exhausted", "errored", "closed")


class EventStream(_EventState, Closing):
    """The events of one answer, pulled: `next()`, `current`, `err`, `close()`, or simply iterated.

    States: `open`, `has_event` (until `current` is read), `exhausted`, `errored`, `closed`. `next()` gives False at
    the end and sets `err` on failure; iterating raises instead.
    """

    def next(self) -> bool:
        """Return True if there is another event, now `current`."""
        return self._take() or sync_driver.run(self._pull())

    def close(self) -> None:
        """Stop, and give the connection back. Harmless when repeated."""
        sync_driver.run(self._stop())

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self.next():
            return self.current
        raise self._end(StopIteration)

    def __del__(self) -> None:
        if not self._over:
            self.close()


class AsyncEventStream(_EventState, AsyncClosing):
    """The events of one answer, awaited: `await next()`, `current`, `err`, `await aclose()`, or `async for`."""

    async def next(self) -> bool:
        """Return True if there is another event, now `current`."""
        return self._take() or await self._pull()

    async def aclose(self) -> None:
        """Stop, and give the connection back. Harmless when repeated."""
        await self._stop()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if await self.next():
            return self.current
        raise self._end(StopAsyncIteration)


class _ObjectState(Generic[T]):
    """The common base of both object streams."""

    def __init__(self, flow: ObjectEvents) -> None:
        self._flow = flow
        self._owner: str | None = None

    @property
    def state(self) -> str:
        """Where the call is, as its state table names it."""
        return self._flow.state

    @property
    def usage(self) -> Usage:
        """Tokens used so far, re-asked answers included."""
        return self._flow.usage

    @property
    def response(self) -> ChatResponse:
        """What has arrived so far; after the end the whole answer, with its repairs."""
        return self._flow.response

    @property
    def changed(self) -> tuple[Path, ...]:
        """The paths that the last item changed: dotted strings, or tuples where a key holds a dot."""
        return self._flow.changed

    def field_state(self, path: Path) -> str:
        """`pending`, `growing` or `done`: how much of the field at `path` has arrived."""
        return self._flow.field_state(path)

    def _own(self, view: str) -> None:
        if self._owner is not None:
            raise StreamBusy(f"this stream is already read through {self._owner}; make a second stream for {view}")
        self._owner = view

    async def _begin(self) -> None:
        """Send the request, where it has not been sent: what entering a `with` block does."""
        if not self._flow.started:
            await self._flow.fill()

    async def _newest(self) -> T:
        if not await self._flow.newest():
            raise StopAsyncIteration
        item: T = self._flow.item
        return item

    def _viewed(self, name: str, kind: str, path: Path | None) -> Callable[[], Coroutine[Any, Any, Any]]:
        """Return what gives the next item of a view."""
        self._own(name)
        return _View(self._flow, self._flow.view(kind, path)).following


class ObjectStream(_ObjectState[T], Closing):
    """Typed objects, growing while the model writes: iterate it, or take one of its views.

    Each item is a snapshot that never changes; the last is the validated object. Leaving a `with` block, `close()`
    and forgetting the stream give the connection back.
    """

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        flow = self._flow
        if self._owner != "iteration":
            self._own("iteration")
        if not sync_driver.run(flow.wait()):
            raise StopIteration
        item: T = flow.item
        return item

    def final(self) -> T:
        """The validated object, once the rest has been read. Raises what ended the call; repeats itself."""
        result: T = sync_driver.run(self._flow.finish())
        return result

    def latest(self) -> Iterator[T]:
        """The newest snapshot each time you ask: what came while you were busy is passed over. Ends like iteration."""
        self._own("latest()")
        return _Items(self, self._newest)

    def events(self) -> Iterator[Event]:
        """Every event of the answer, as it comes."""
        return self._view("events()", "events")

    @overload
    def items(self: ObjectStream[list[E]], path: None = None) -> Iterator[E]: ...
    @overload
    def items(self, path: Path | None = None) -> Iterator[Any]: ...
    def items(self, path: Path | None = None) -> Iterator[Any]:
        """Each element of the list at `path` once, validated, when it is complete; without a path, of the root."""
        return self._view("items()", "items", path)

    def text(self, path: Path) -> Iterator[str]:
        """The new text of the field at `path`, piece by piece."""
        return self._view("text()", "text", path)

    def changes(self) -> Iterator[PathChange]:
        """What changed, path by path, as a page can apply it. The last sets the root to the validated object."""
        return self._view("changes()", "changes")

    def close(self) -> None:
        """Stop, and give the connection back. Harmless when repeated."""
        sync_driver.run(self._flow.close())

    def _view(self, name: str, kind: str, path: Path | None = None) -> Iterator[Any]:
        return _Items(self, self._viewed(name, kind, path))

    def __enter__(self) -> Self:
        sync_driver.run(self._begin())
        return self

    def __del__(self) -> None:
        if not self._flow.ended:
            self.close()


class AsyncObjectStream(_ObjectState[T], AsyncClosing):
    """Typed objects, growing while the model writes: `async for`, or one of its views.

    Each item is a snapshot that never changes; the last is the validated object. Leaving an `async with` block and
    `await aclose()` give the connection back.
    """

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        flow = self._flow
        if self._owner != "iteration":
            self._own("iteration")
        if not await flow.wait():
            raise StopAsyncIteration
        item: T = flow.item
        return item

    async def final(self) -> T:
        """The validated object, once the rest has been read. Raises what ended the call; repeats itself."""
        result: T = await self._flow.finish()
        return result

    def latest(self) -> AsyncIterator[T]:
        """The newest snapshot each time you ask: what came while you were busy is passed over. Ends like iteration."""
        self._own("latest()")
        return _AsyncItems(self, self._newest)

    def events(self) -> AsyncIterator[Event]:
        """Every event of the answer, as it comes."""
        return self._view("events()", "events")

    @overload
    def items(self: AsyncObjectStream[list[E]], path: None = None) -> AsyncIterator[E]: ...
    @overload
    def items(self, path: Path | None = None) -> AsyncIterator[Any]: ...
    def items(self, path: Path | None = None) -> AsyncIterator[Any]:
        """Each element of the list at `path` once, validated, when it is complete; without a path, of the root."""
        return self._view("items()", "items", path)

    def text(self, path: Path) -> AsyncIterator[str]:
        """The new text of the field at `path`, piece by piece."""
        return self._view("text()", "text", path)

    def changes(self) -> AsyncIterator[PathChange]:
        """What changed, path by path, as a page can apply it. The last sets the root to the validated object."""
        return self._view("changes()", "changes")

    async def aclose(self) -> None:
        """Stop, and give the connection back. Harmless when repeated."""
        await self._flow.close()

    def _view(self, name: str, kind: str, path: Path | None = None) -> AsyncIterator[Any]:
        return _AsyncItems(self, self._viewed(name, kind, path))

    async def __aenter__(self) -> Self:
        await self._begin()
        return self


class _View:
    """One way to look at a stream: what `collect` finds after each event."""

    def __init__(self, flow: ObjectEvents, collect: ViewReducer) -> None:
        self._flow = flow
        self._collect = collect
        self._found: list[Any] = []

    async def following(self) -> Any:
        """Return the next item. Raises `StopAsyncIteration` at the end."""
        while not self._found:
            if self._flow.step():
                self._found = self._collect()[::-1]
            elif self._flow.ended:
                self._found = self._collect()[::-1]
                if not self._found:
                    raise StopAsyncIteration
            else:
                await self._flow.fill()
        return self._found.pop()


class _Items(Iterator[E]):
    """What `following` gives, item by item, for a caller without an event loop."""

    def __init__(self, stream: object, following: Callable[[], Coroutine[Any, Any, E]]) -> None:
        self._stream = stream  # referenced here, as a stream that is collected closes itself
        self._following = following

    def __next__(self) -> E:
        try:
            return sync_driver.run(self._following())
        except StopAsyncIteration:
            raise StopIteration from None


class _AsyncItems(AsyncIterator[E]):
    """What `following` gives, item by item."""

    def __init__(self, stream: object, following: Callable[[], Coroutine[Any, Any, E]]) -> None:
        self._stream = stream  # referenced here, as a stream that is collected closes itself
        self._following = following

    def __anext__(self) -> Coroutine[Any, Any, E]:
        return self._following()
