"""`ObjectStream` and `AsyncObjectStream`: the partial objects of one structured call, and views of them.

The logic is written once, as coroutines of their common base: the sync class drives them without an event loop, the
async class awaits them. The call itself is an `ObjectEvents` (`stream`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from threading import Lock
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    overload,
)

from ..async_support import sync_driver
from ..async_support.closing import AsyncClosing, Closing, Uncopyable
from ..errors import StreamBusy
from ..events import ChatResponse, Event
from ..parsing.path_changes import Path, PathChange
from ..text.reprs import safe_repr
from ..values.usage import Usage

if TYPE_CHECKING:
    from ..text.live_display import Frame, LiveDisplay

T = TypeVar("T")
E = TypeVar("E")

_READ_ELSEWHERE: Final = "another thread is reading this stream; let one thread read, and pass its items on"

ViewReducer: TypeAlias = Callable[[], list[Any]]
"""Return the items that the last event added to a view; after the end of the call, the remaining ones."""


ChangeFormat: TypeAlias = Literal["data", "objects", "json-patch"]
"""The formats of `changes`."""


def require_format(format: str) -> str:
    """Return the format of changes; raise `ValueError` for an unknown one."""
    if format not in get_args(ChangeFormat):
        raise ValueError(f"format={format!r}: expected 'data', 'objects' or 'json-patch'")
    return format


class ObjectEvents(Protocol):
    """One structured call in progress. `step` processes arrived events; the coroutines wait for more."""

    ended: bool
    closing: bool
    event: Event | None

    @property
    def started(self) -> bool: ...
    @property
    def state(self) -> str: ...
    @property
    def now(self) -> Callable[[], float]: ...
    @property
    def item(self) -> Any: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def response(self) -> ChatResponse: ...
    @property
    def changed(self) -> tuple[Path, ...]: ...

    def step(self) -> bool: ...
    def pump(self) -> bool: ...
    def field_state(self, path: Path) -> str: ...
    def view(self, kind: str, path: Path | None = None) -> ViewReducer: ...
    async def fill(self) -> None: ...
    async def fail(self, error: BaseException) -> bool: ...
    async def wait(self) -> bool: ...
    async def newest(self) -> bool: ...
    async def next_item(self) -> Any: ...
    async def more(self) -> bool: ...
    async def finish(self) -> Any: ...
    async def close(self) -> None: ...
    def break_off(self) -> None: ...
    def abandon(self) -> None: ...


class _ObjectState(Uncopyable, Generic[T]):
    """The common base of `ObjectStream` and `AsyncObjectStream`."""

    def __init__(self, flow: ObjectEvents) -> None:
        self._flow = flow
        self._owner: str | None = None
        self._reading = Lock()

    @property
    def state(self) -> str:
        """The state of the call, named as in its state table."""
        return self._flow.state

    @property
    def usage(self) -> Usage:
        """The tokens used so far, including retries."""
        return self._flow.usage

    @property
    def response(self) -> ChatResponse:
        """The response as far as it has arrived; after the end the complete one, with its repairs."""
        return self._flow.response

    @property
    def changed(self) -> tuple[Path, ...]:
        """The paths that the last item changed: dotted strings, or tuples if a key contains a dot."""
        return self._flow.changed

    @safe_repr
    def __repr__(self) -> str:
        flow = self._flow
        return f"<{type(self).__name__} {flow.state}, {flow.usage.describe()}>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the latest partial object. Secrets in it are masked."""
        return self._frame().html

    def _display(self) -> LiveDisplay:
        from ..text.live_display import LiveDisplay, find_surface  # most streams are not shown

        return LiveDisplay(self._frame, self._flow.now, find_surface())

    @property
    def _progress(self) -> str:
        """The state in words for a reader who does not know the state table."""
        flow = self._flow
        ended = {"ready": "complete", "error": "failed", "closed": "closed"}.get(flow.state)
        return ended or ("waiting" if flow.item is None else "growing")

    def _frame(self) -> Frame:
        """Return the latest object as HTML and as text. Secrets in it are masked."""
        from ..parsing.partial_instances import to_shown
        from ..text.live_display import Frame, text_of
        from ..values.html_repr import table

        flow, shown = self._flow, to_shown(self._flow.item)
        rows = [*cast("Mapping[str, Any]", shown).items()] if isinstance(shown, dict) else [("item", shown)]
        title = type(self).__name__ if flow.item is None else type(flow.item).__name__
        html = table(title, rows, f"{self._progress}, {flow.usage.describe()}")
        return Frame(html, "" if flow.item is None else text_of(shown))

    def field_state(self, path: Path) -> str:
        """Return `pending`, `growing` or `done` for the field at `path`."""
        return self._flow.field_state(path)

    def _own(self, view: str) -> None:
        if self._owner is not None:
            raise StreamBusy(f"this stream is already read through {self._owner}; make a second stream for {view}")
        self._owner = view

    async def _begin(self) -> None:
        """Send the request, unless it has been sent, when a `with` block is entered."""
        if not self._flow.started:
            await self._flow.fill()

    async def _newest(self) -> T:
        if not await self._flow.newest():
            raise StopAsyncIteration
        item: T = self._flow.item
        return item

    def _viewed(self, name: str, kind: str, path: Path | None) -> Callable[[], Coroutine[Any, Any, Any]]:
        """Return the coroutine function that returns the next item of a view."""
        self._own(name)
        return _View(self._flow, self._flow.view(kind, path)).following


class ObjectStream(_ObjectState[T], Closing):
    """A stream of partial objects while the model writes: iterate it, or use one of its views.

    Each item is an immutable snapshot; the last is the validated object. The end of a `with` block, `close()` and
    garbage collection release the connection. One thread reads at a time; any thread may close.
    """

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        flow = self._flow
        if self._owner != "iteration":  # compared here, as a call of `_own` for each item would be seen in its cost
            self._own("iteration")
        if not self._reading.acquire(blocking=False):
            raise StreamBusy(_READ_ELSEWHERE)
        try:
            try:
                # Most items come from here, without a coroutine; `wait` does whatever `pump` leaves.
                found = flow.pump()
            except BaseException as error:  # `fail` raises it again, an interrupt included, with the connection closed
                found = sync_driver.run(flow.fail(error))
            if not found and not sync_driver.run(flow.wait()):
                raise StopIteration
            item: T = flow.item
            return item
        finally:
            self._reading.release()
            if flow.closing:
                self.close()

    def final(self) -> T:
        """Read the rest and return the validated object. Raise the error that ended the call, each time."""
        result: T = self._read(self._flow.finish())
        return result

    def show(self) -> T:
        """Read the rest, display the object while it grows, and return the validated object, as `final` does.

        In a notebook one output of the cell is updated, at most ten times a second; on a terminal the lines are drawn
        again. Elsewhere the object is printed once, at the end.
        """
        with self._display() as display:
            while self._read(self._flow.more()):
                display.update()
            return self.final()

    def latest(self) -> Iterator[T]:
        """Iterate over the latest snapshots, skipping those that arrived between two iterations."""
        # Owned at the call, not at the first item: a second reader gets its error where it was made.
        self._own("latest()")
        return _Items(self._read, self._newest)

    def events(self) -> Iterator[Event]:
        """Iterate over the events of the response."""
        return self._view("events()", "events")

    @overload
    def items(self: ObjectStream[list[E]], path: None = None) -> Iterator[E]: ...
    @overload
    def items(self, path: Path | None = None) -> Iterator[Any]: ...
    def items(self, path: Path | None = None) -> Iterator[Any]:
        """Iterate over the validated elements of the list at `path`, each once; by default of the root list."""
        return self._view("items()", "items", path)

    def text(self, path: Path) -> Iterator[str]:
        """Iterate over the new text of the field at `path`."""
        return self._view("text()", "text", path)

    @overload
    def changes(self, format: Literal["data", "objects"] = "data") -> Iterator[PathChange]: ...
    @overload
    def changes(self, format: Literal["json-patch"]) -> Iterator[dict[str, Any]]: ...
    def changes(self, format: ChangeFormat = "data") -> Iterator[Any]:
        """Iterate over the changes by path, as a web page can apply them: in the end they have made the result.

        Args:
            format: `"data"` for plain JSON data: each value is sent once, and at the end of an object what differs from
                it, such as a default. `"objects"` for instances of models, the last of which is the result.
                `"json-patch"` for operations of RFC 6902 in place of `PathChange`s; they begin with any document.
        """
        return self._view("changes()", require_format(format))

    def close(self) -> None:
        """Stop, and return the connection. A second call has no effect.

        A read of another thread is aborted, and its iteration ends. That thread then returns the connection.
        """
        self._flow.closing = True  # before the lock is tried: else the reader, which releases it first, sees this
        if not self._reading.acquire(blocking=False):
            self._flow.break_off()
            return
        try:
            sync_driver.run(self._flow.close())
        finally:
            self._reading.release()

    def _read(self, coroutine: Coroutine[Any, Any, E]) -> E:
        """Run a coroutine that reads the stream, without an event loop. Raise `StreamBusy` if another thread reads."""
        if not self._reading.acquire(blocking=False):
            coroutine.close()
            raise StreamBusy(_READ_ELSEWHERE)
        try:
            return sync_driver.run(coroutine)
        finally:
            self._reading.release()
            if self._flow.closing:
                self.close()

    def _view(self, name: str, kind: str, path: Path | None = None) -> Iterator[Any]:
        return _Items(self._read, self._viewed(name, kind, path))

    def __enter__(self) -> Self:
        self._read(self._begin())
        return self

    def __del__(self) -> None:
        # Without a loop, closing never suspends, so the garbage collector can do it in whatever thread it runs.
        if not self._flow.ended:
            self.close()


class AsyncObjectStream(_ObjectState[T], AsyncClosing):
    """A stream of partial objects while the model writes: use `async for`, or one of its views.

    Each item is an immutable snapshot; the last is the validated object. The end of an `async with` block and
    `await aclose()` release the connection.
    """

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    def __anext__(self) -> Coroutine[Any, Any, T]:
        if self._owner != "iteration":
            self._own("iteration")
        # Returned, not awaited: an `async def` here would be a second coroutine for each item.
        return self._flow.next_item()

    async def final(self) -> T:
        """Read the rest and return the validated object. Raise the error that ended the call, each time."""
        result: T = await self._flow.finish()
        return result

    async def show(self) -> T:
        """Read the rest, display the object while it grows, and return the validated object, as `final` does.

        In a notebook one output of the cell is updated, at most ten times a second; on a terminal the lines are drawn
        again. Elsewhere the object is printed once, at the end.
        """
        with self._display() as display:
            while await self._flow.more():
                display.update()
            return await self.final()

    def latest(self) -> AsyncIterator[T]:
        """Iterate over the latest snapshots, skipping those that arrived between two iterations."""
        self._own("latest()")
        return _AsyncItems(self, self._newest)

    def events(self) -> AsyncIterator[Event]:
        """Iterate over the events of the response."""
        return self._view("events()", "events")

    @overload
    def items(self: AsyncObjectStream[list[E]], path: None = None) -> AsyncIterator[E]: ...
    @overload
    def items(self, path: Path | None = None) -> AsyncIterator[Any]: ...
    def items(self, path: Path | None = None) -> AsyncIterator[Any]:
        """Iterate over the validated elements of the list at `path`, each once; by default of the root list."""
        return self._view("items()", "items", path)

    def text(self, path: Path) -> AsyncIterator[str]:
        """Iterate over the new text of the field at `path`."""
        return self._view("text()", "text", path)

    @overload
    def changes(self, format: Literal["data", "objects"] = "data") -> AsyncIterator[PathChange]: ...
    @overload
    def changes(self, format: Literal["json-patch"]) -> AsyncIterator[dict[str, Any]]: ...
    def changes(self, format: ChangeFormat = "data") -> AsyncIterator[Any]:
        """Iterate over the changes by path, as a web page can apply them: in the end they have made the result.

        Args:
            format: `"data"` for plain JSON data: each value is sent once, and at the end of an object what differs from
                it, such as a default. `"objects"` for instances of models, the last of which is the result.
                `"json-patch"` for operations of RFC 6902 in place of `PathChange`s; they begin with any document.
        """
        return self._view("changes()", require_format(format))

    async def aclose(self) -> None:
        """Stop, and return the connection. A second call has no effect."""
        await self._flow.close()

    def _view(self, name: str, kind: str, path: Path | None = None) -> AsyncIterator[Any]:
        return _AsyncItems(self, self._viewed(name, kind, path))

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    def __del__(self) -> None:
        # Nothing can be awaited here: the event loop, if it still runs, closes the response.
        self._flow.abandon()


class _View:
    """One view of a stream: the items that `collect` returns after each event."""

    def __init__(self, flow: ObjectEvents, collect: ViewReducer) -> None:
        self._flow = flow
        self._collect = collect
        self._found: list[Any] = []

    async def following(self) -> Any:
        """Return the next item. Raise `StopAsyncIteration` at the end."""
        while not self._found:
            if self._flow.step():
                self._found = self._collect()[::-1]  # reversed, so that `pop` takes the first without moving the rest
            elif self._flow.ended:
                # Once more: the result may contain items that no event has shown, such as defaults and repaired values.
                self._found = self._collect()[::-1]
                if not self._found:
                    raise StopAsyncIteration
            else:
                await self._flow.fill()
        return self._found.pop()


class _Items(Iterator[E]):
    """An iterator over the results of `following`, for a caller without an event loop."""

    def __init__(
        self, read: Callable[[Coroutine[Any, Any, E]], E], following: Callable[[], Coroutine[Any, Any, E]]
    ) -> None:
        self._read = read  # a method of the stream, which this refers to: one that is collected closes itself
        self._following = following

    def __next__(self) -> E:
        try:
            return self._read(self._following())
        except StopAsyncIteration:  # by which the shared coroutine ends in sync streams, too
            raise StopIteration from None


class _AsyncItems(AsyncIterator[E]):
    """An async iterator over the results of `following`."""

    def __init__(self, stream: object, following: Callable[[], Coroutine[Any, Any, E]]) -> None:
        self._stream = stream  # referenced here, as a stream that is collected closes itself
        self._following = following

    def __anext__(self) -> Coroutine[Any, Any, E]:
        return self._following()
