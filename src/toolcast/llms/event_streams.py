"""`EventStream` and `AsyncEventStream`: the events of one response, read on demand.

The logic is written once, as coroutines of their common base: the sync class drives them without an event loop, the
async class awaits them. Nothing is read ahead of the event that the caller asks for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from ..async_support import sync_driver
from ..async_support.closing import AsyncClosing, Closing, Uncopyable
from ..errors import CallError, LLMError, StreamBusy, StreamClosed
from ..events import ChatResponse, Event
from ..text.reprs import safe_repr
from ..values.accumulator import Accumulator
from ..values.usage import Usage
from .call_state import CallState, ResponseEvents

if TYPE_CHECKING:
    from ..text.live_display import Frame, LiveDisplay


class _EventState(Uncopyable):
    """The common base of `EventStream` and `AsyncEventStream`."""

    def __init__(
        self,
        source: ResponseEvents,
        origin: Mapping[str, Any],
        call: CallState,
    ) -> None:
        self._source = source
        self._call = call
        self._origin = origin
        self._queue: list[Event] = []
        self._position = 0
        self._current: Event | None = None
        self._folded = Accumulator()
        self._reading = Lock()
        self._closing = False  # set by any thread; the one that reads then closes the stream
        self._started = False  # the request was sent
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
        """The response so far."""
        return self._folded.response(request_id=self._source.request_id, **self._origin)

    @property
    def usage(self) -> Usage:
        """The tokens so far, as the service reported them."""
        return self._folded.usage

    @safe_repr
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.state}, {self.usage.describe()}>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the response so far, without the arguments of tool calls."""
        from ..values.html_repr import html_of

        return html_of(self.response)

    def _display(self) -> LiveDisplay:
        from ..text.live_display import LiveDisplay, find_surface  # most streams are not shown

        return LiveDisplay(self._frame, self._call.now, find_surface())

    def _frame(self) -> Frame:
        from ..text.live_display import Frame

        response = self.response
        calls = [f"{call.name}: called" for call in response.message.tool_calls]
        return Frame(self._repr_html_(), "\n".join([*([response.text] if response.text else []), *calls]))

    def _begin_reading(self) -> None:
        if not self._reading.acquire(blocking=False):
            raise StreamBusy("another thread or task is reading this stream; make a second stream for it")

    def _take(self) -> bool:
        """Move to the next event that has already arrived. Return False if there is none."""
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
        self._started = True
        try:
            self._queue, self._position = await self._source.next_events(), 0
            if not self._queue:
                await self._call.accept()
        except Exception as error:  # the contract: False, with the error in .err; iteration raises it
            if self._closing and isinstance(error, (LLMError, StreamClosed)):  # the read was aborted
                await self._stop()
                return False
            self.state, self.err = "errored", error
            if isinstance(error, CallError) and error.partial is None:
                error.partial = self.response.text or None
            self._call.end(error, usage=self.usage)
            return False
        if self._queue:
            return self._take()
        self.state = "exhausted"
        self._call.end(output=None, usage=self.usage)
        return False

    async def _stop(self) -> None:
        self._abandon()
        if not self._over:
            self.state = "closed"
            self._queue, self._position = [], 0
        await self._source.close()

    def _abandon(self) -> None:
        """End the account of a stream that was begun, unless it has ended."""
        if self._started:
            self._call.end(usage=self.usage)

    def _whole(self) -> ChatResponse:
        if self.err is not None:
            raise self.err
        if self.state != "exhausted":
            raise StreamClosed("the stream was closed before its end, so there is no response")
        return self.response

    def _end(self, stop: type[Exception]) -> Exception:
        """Return the exception that iteration raises: the error of the stream, else `stop`."""
        return self.err if self.state == "errored" and self.err is not None else stop()

    @property
    def _over(self) -> bool:
        return self.state in ("exhausted", "errored", "closed")


class EventStream(_EventState, Closing):
    """The events of one response: iterated, or read with `next()`, `current`, `err` and `close()`.

    States: `open`, `has_event` (until `current` is read), `exhausted`, `errored`, `closed`. `next()` returns False at
    the end and sets `err` on failure; iteration raises instead.
    """

    def next(self) -> bool:
        """Return True if there is another event, now `current`. Raises `StreamBusy` while another thread reads one."""
        self._begin_reading()
        try:
            return self._take() or sync_driver.run(self._pull())
        finally:
            self._end_reading()

    def show(self) -> ChatResponse:
        """Read the rest, display the response while it grows, and return it. Raise the error that ended the stream.

        In a notebook one output of the cell is updated, at most ten times a second; on a terminal the lines are drawn
        again. Elsewhere the response is printed once, at the end.
        """
        with self._display() as display:
            while self.next():
                display.update()
            return self._whole()

    def close(self) -> None:
        """Stop and release the connection. Idempotent.

        A read of another thread is aborted, and its iteration ends. That thread then releases the connection.
        """
        self._closing = True  # before the lock is tried: else the reader, which releases it first, sees this
        if not self._reading.acquire(blocking=False):
            self._source.break_off()
            return
        try:
            sync_driver.run(self._stop())
        finally:
            self._reading.release()

    def _end_reading(self) -> None:
        self._reading.release()
        if self._closing:
            self.close()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        self._begin_reading()
        try:
            if self._take() or sync_driver.run(self._pull()):
                return self.current
        finally:
            self._end_reading()
        raise self._end(StopIteration)

    def __del__(self) -> None:
        if not self._over:
            self.close()


class AsyncEventStream(_EventState, AsyncClosing):
    """The events of one response: `await next()`, `current`, `err`, `await aclose()`, or `async for`."""

    async def next(self) -> bool:
        """Return True if there is another event, now `current`. Raises `StreamBusy` while another task reads one."""
        self._begin_reading()
        try:
            return self._take() or await self._pull()
        finally:
            self._reading.release()

    async def show(self) -> ChatResponse:
        """Read the rest, display the response while it grows, and return it. Raise the error that ended the stream.

        In a notebook one output of the cell is updated, at most ten times a second; on a terminal the lines are drawn
        again. Elsewhere the response is printed once, at the end.
        """
        with self._display() as display:
            while await self.next():
                display.update()
            return self._whole()

    async def aclose(self) -> None:
        """Stop and release the connection. Idempotent."""
        await self._stop()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if await self.next():
            return self.current
        raise self._end(StopAsyncIteration)

    def __del__(self) -> None:
        self._abandon()  # the source closes its connection in its event loop
