"""What the caller holds while a model speaks.

`EventStream` gives the events as they are, `ObjectStream` the typed objects they add up to; each has an async twin.
They are shells: they only wait. What happens between two waits is written once, in the flow they are given
(`Source`, `Objects`), and nothing is read ahead of what was asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar, overload

from .accounts import Account
from .accumulator import Accumulator
from .errors import StreamBusy
from .events import ChatResponse, Event
from .flows import Collect, Objects, Source
from .parsing.records import Path, PathChange
from .runtime import without_loop
from .usage import Usage

T = TypeVar("T")
E = TypeVar("E")


class _EventState:
    """What both event streams know."""

    def __init__(self, source: Source, known: Mapping[str, Any], now: Callable[[], float]) -> None:
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

    def _fill(self, events: list[Event]) -> bool:
        self._queue, self._position = events, 0
        if events:
            return self._take()
        self.state = "exhausted"
        self._account.end(self.usage, output=None)
        return False

    def _fail(self, error: Exception) -> None:
        self.state, self.err = "errored", error
        self._account.end(self.usage, error=error)

    def _begin_close(self) -> None:
        if self.state == "has_event":
            self._account.end(self.usage)
        if not self._over:
            self.state = "closed"

    @property
    def _over(self) -> bool:
        return self.state in ("exhausted", "errored", "closed")


class EventStream(_EventState):
    """The events of one answer, pulled: `next()`, `current`, `err`, `close()`, or simply iterated.

    States: `open`, `has_event` (until `current` is read), `exhausted`, `errored`, `closed`. `next()` gives False at
    the end and sets `err` on failure; iterating raises instead.
    """

    def next(self) -> bool:
        """Whether there is another event, now `current`."""
        if self._over:
            return False
        if self._take():
            return True
        try:
            return self._fill(without_loop.run(self._source.pull()))
        except Exception as error:
            self._fail(error)
            return False

    def close(self) -> None:
        """Stop, and give the connection back. Harmless when repeated."""
        self._begin_close()
        without_loop.run(self._source.close())

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self.next():
            return self.current
        if self.state == "errored" and self.err is not None:
            raise self.err
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._over:
            self.close()


class AsyncEventStream(_EventState):
    """The events of one answer, awaited: `await next()`, `current`, `err`, `await aclose()`, or `async for`."""

    async def next(self) -> bool:
        """Whether there is another event, now `current`."""
        if self._over:
            return False
        if self._take():
            return True
        try:
            return self._fill(await self._source.pull())
        except Exception as error:
            self._fail(error)
            return False

    async def aclose(self) -> None:
        """Stop, and give the connection back. Harmless when repeated."""
        self._begin_close()
        await self._source.close()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if await self.next():
            return self.current
        if self.state == "errored" and self.err is not None:
            raise self.err
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class _ObjectState(Generic[T]):
    """What both object streams know."""

    def __init__(self, flow: Objects) -> None:
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


class ObjectStream(_ObjectState[T]):
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
        if not without_loop.run(flow.wait()):
            raise StopIteration
        item: T = flow.item
        return item

    def final(self) -> T:
        """The validated object, once the rest has been read. Raises what ended the call; repeats itself."""
        result: T = without_loop.run(self._flow.finish())
        return result

    def latest(self) -> Iterator[T]:
        """The newest snapshot each time you ask: what came while you were busy is passed over. Ends like iteration."""
        self._own("latest()")
        return _Latest(self, self._flow)

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
        without_loop.run(self._flow.close())

    def _view(self, name: str, kind: str, path: Path | None = None) -> Iterator[Any]:
        self._own(name)
        return _View(self, self._flow, self._flow.view(kind, path))

    def __enter__(self) -> Self:
        if not self._flow.started:
            without_loop.run(self._flow.fill())
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._flow.ended:
            self.close()


class _View(Iterator[Any]):
    """One way to look at a stream: what `collect` finds after each event."""

    def __init__(self, stream: object, flow: Objects, collect: Collect) -> None:
        self._stream = stream  # a stream that nobody holds any more closes itself
        self._flow = flow
        self._collect = collect
        self._found: list[Any] = []

    def __next__(self) -> Any:
        while not self._found:
            if self._flow.step():
                self._found = self._collect()[::-1]
            elif self._flow.ended:
                self._found = self._collect()[::-1]
                if not self._found:
                    raise StopIteration
            else:
                without_loop.run(self._flow.fill())
        return self._found.pop()


class _Latest(Iterator[T]):
    """The newest item each time."""

    def __init__(self, stream: object, flow: Objects) -> None:
        self._stream = stream  # a stream that nobody holds any more closes itself
        self._flow = flow

    def __next__(self) -> T:
        if not without_loop.run(self._flow.newest()):
            raise StopIteration
        item: T = self._flow.item
        return item


class AsyncObjectStream(_ObjectState[T]):
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
        return _AsyncLatest(self, self._flow)

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
        self._own(name)
        return _AsyncView(self, self._flow, self._flow.view(kind, path))

    async def __aenter__(self) -> Self:
        if not self._flow.started:
            await self._flow.fill()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class _AsyncView(AsyncIterator[Any]):
    """One way to look at a stream: what `collect` finds after each event."""

    def __init__(self, stream: object, flow: Objects, collect: Collect) -> None:
        self._stream = stream  # a stream that nobody holds any more closes itself
        self._flow = flow
        self._collect = collect
        self._found: list[Any] = []

    async def __anext__(self) -> Any:
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


class _AsyncLatest(AsyncIterator[T]):
    """The newest item each time."""

    def __init__(self, stream: object, flow: Objects) -> None:
        self._stream = stream  # a stream that nobody holds any more closes itself
        self._flow = flow

    async def __anext__(self) -> T:
        if not await self._flow.newest():
            raise StopAsyncIteration
        item: T = self._flow.item
        return item
