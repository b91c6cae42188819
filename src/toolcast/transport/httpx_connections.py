"""The doors that own what is open over httpx, one for each process and one for each event loop.

httpx is not imported here; a door is told which library its lanes are made of, so that a fork of httpx serves as
well. Four faults of httpx end here. A connection that the server closed just before it was used again is
replaced once, silently. A second cancellation breaks no cleanup (`shielding`). An event loop that ends takes
its connections along. And a half-read body is given back also when its reply is garbage: therefore the door
itself holds what is open, and the reply is a mere handle (`replies`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

import anyio

from ..async_support.shielding import GRACE, Loop, run_or_undo, run_shielded
from ..errors import ConnectFailed, LLMError, StreamInterrupted
from ..http_request import HTTPRequest
from .base_connections import LoopConnections
from .cancel_handle import CancelHandle, line_here, shut
from .connection_pool import ConnectionPool, Origin, PooledConnection, origin_of
from .content_decoding import whole_body
from .httpx_responses import ActiveResponse, HttpxAsyncResponse, SyncResponse
from .transport_errors import checked, guard_logs, map_transport_errors, plain_headers, transport_errors


class _Trail:
    """What one request met first, as httpcore's `trace` extension tells it.

    To be told of everything takes longer than to parse the answer, so it asks for nothing more once it knows. `line`
    is what is to reach a connection that is made.
    """

    def __init__(self, line: CancelHandle | None = None) -> None:
        self.line: CancelHandle | None = line
        self._first = ""
        self._extensions: dict[str, Any] = {}

    def mark(self, sent: Any, see: Callable[[str, Mapping[str, Any]], object]) -> None:
        """Be told what `sent`, a request of the library, meets."""
        self._extensions = sent.extensions
        self._extensions["trace"] = see

    def see(self, event: str, info: Mapping[str, Any]) -> None:
        self._first = self._first or event
        if self.line is None or event.startswith("http"):
            self._extensions.pop("trace", None)
        elif hasattr(stream := info.get("return_value"), "get_extra_info"):
            self.line.reach(partial(shut, stream))

    async def asee(self, event: str, info: Mapping[str, Any]) -> None:
        self.see(event, info)

    @property
    def reused(self) -> bool:
        """Whether the request went out on a connection that had served another one: none was opened before it."""
        return self._first.startswith("http11.")


class _Door:
    """What both kinds of door know: their lanes, and what is open."""

    def __init__(self, lanes: ConnectionPool, limit: int) -> None:
        self.limit = limit
        self.open: set[ActiveResponse] = set()
        self.library: ModuleType = lanes.library
        guard_logs()
        self.failures: tuple[type[Exception], ...] = transport_errors(self.library)
        self._lanes = lanes
        self._body: Callable[[bytes], Any] = whole_body(self.library)

    def forget(self, kept: ActiveResponse) -> bool:
        """Whether this is the one who gives its connection back, of all who may try at once."""
        kept.over = True
        try:
            self.open.remove(kept)
        except KeyError:
            return False
        return True

    def _request(self, request: HTTPRequest, place: Origin, connect: float | None, read: float | None) -> Any:
        extensions: dict[str, Any] = {"timeout": {"connect": connect, "pool": connect, "read": read, "write": read}}
        if request.tls_name is not None:
            extensions["sni_hostname"] = request.tls_name
        headers = plain_headers(request.headers)
        if (client := self._lanes.brought) is None:
            length = str(len(request.body))
            headers = {**place.headers, "content-length": length, **headers, **place.login}
            body = self._body(request.body)
            return self.library.Request(request.method, place.url, headers=headers, stream=body, extensions=extensions)
        if client.is_closed:
            raise ConnectFailed("the HTTP client has been closed", retryable=False)
        made = client.build_request(
            request.method, place.url, headers=headers, content=request.body, extensions=extensions
        )
        made.stream = self._body(request.body)
        return made

    def _full(self) -> Exception:
        """What is raised when there was no lane in time."""
        full: Exception = self.library.PoolTimeout("all connections are in use")
        return full

    def _stale(self, error: LLMError, trail: _Trail) -> bool:
        """Whether a kept connection turned out to be closed, before anything of an answer came."""
        silent = not isinstance(error.__cause__, self.library.RemoteProtocolError)
        return trail.reused and (silent or "without sending a response" in str(error))


class SyncConnections(_Door):
    """Requests that block, from any thread."""

    def __init__(self, lanes: ConnectionPool, limit: int) -> None:
        super().__init__(lanes, limit)
        self._room = threading.Semaphore(lanes.most)
        self._forsaken: deque[ActiveResponse] = deque()

    def send(self, request: HTTPRequest, connect: float | None, read: float | None) -> SyncResponse:
        """The answer to `request`, its body unread."""
        self._bury()
        checked(request)
        line = line_here()
        trail = _Trail(line)
        try:
            return self._sent(request, trail, connect, read)
        except StreamInterrupted as error:
            if not self._stale(error, trail) or (line is not None and line.broken):
                raise
        return self._sent(request, _Trail(line), connect, read)

    def _sent(self, request: HTTPRequest, trail: _Trail, connect: float | None, read: float | None) -> SyncResponse:
        # Nothing else in this frame: those below it are stripped from a traceback, and hold the URL as it is sent.
        with map_transport_errors(self.library, request):
            return self._answered(request, trail, connect, read)

    def _answered(self, request: HTTPRequest, trail: _Trail, connect: float | None, read: float | None) -> SyncResponse:
        place = origin_of(self.library, request.target, request.tls_name)
        sent = self._request(request, place, connect, read)
        trail.mark(sent, trail.see)
        if not self._room.acquire(timeout=connect):
            raise self._full()
        lane = None
        try:
            lane = self._lanes.pick(place.origin)
            if trail.line is not None:
                trail.line.reach(partial(shut, lane.stream))
            response = lane.send(sent)
        except BaseException:
            self._leave(lane, False, trail.line)
            raise
        kept = ActiveResponse(
            lane, response, response.iter_bytes() if response.is_stream_consumed else response.iter_raw()
        )
        if self._lanes.brought is None:
            lane.stream = kept.stream
        if trail.line is not None:
            kept.line = trail.line
            trail.line.reach(partial(_cut, kept))
        kept.obey()
        self.open.add(kept)
        return SyncResponse(self, kept, request)

    def release(self, kept: ActiveResponse) -> None:
        """Give a connection back, read to its end or not."""
        if not self.forget(kept):
            return
        kept.release()
        if kept.reading:
            shut(kept.stream)
        whole = kept.response.is_closed
        with suppress(*self.failures):
            kept.response.close()
            if not kept.reading:
                kept.pieces.close()
        self._leave(kept.lane, whole, kept.line)

    def forsake(self, kept: ActiveResponse) -> None:
        """Close a connection whose reply is garbage; the lanes hear of it at the next request.

        This may run in the middle of anything, also while this thread holds the lock of httpcore's pool.
        """
        self._forsaken.append(kept)
        if kept.stream is not None:
            with suppress(*self.failures):
                kept.stream.close()

    def close(self) -> None:
        """Close all that is open, and all lanes but a client of the user's."""
        for kept in list(self.open):
            self.release(kept)
        for lane in self._lanes.drain():
            lane.way.close()

    def _leave(self, lane: PooledConnection | None, whole: bool, line: CancelHandle | None) -> None:
        whole = (line is None or line.free()) and whole
        try:
            for spent in self._lanes.put(lane, whole) if lane is not None else ():
                with suppress(*self.failures):
                    spent.way.close()
        finally:
            self._room.release()

    def _bury(self) -> None:
        while self._forsaken:
            with suppress(IndexError):
                self.release(self._forsaken.popleft())


def _cut(kept: ActiveResponse) -> None:
    """Wake whoever reads; a connection that was read to its end may serve somebody else by now."""
    if not kept.response.is_closed:
        shut(kept.stream)


class AsyncConnections(_Door, LoopConnections[_Trail, HttpxAsyncResponse]):
    """Requests that are awaited, in the event loop that runs here; closed when that ends, or by `close`.

    Then it passes itself to `gone`.
    """

    def __init__(self, lanes: ConnectionPool, limit: int, loop: Loop, gone: Callable[[object], object]) -> None:
        super().__init__(lanes, limit)
        self._room = anyio.Semaphore(lanes.most)
        self._begin(loop, gone)

    async def _shut(self) -> None:
        for kept in list(self.open):
            await self.release(kept)
        await self._discard(self._lanes.drain())

    def _trail(self, read: float | None) -> _Trail:
        return _Trail()

    async def _sent(
        self, request: HTTPRequest, trail: _Trail, connect: float | None, read: float | None
    ) -> HttpxAsyncResponse:
        # Nothing else in this frame: those below it are stripped from a traceback, and hold the URL as it is sent.
        with map_transport_errors(self.library, request):
            return await self._opened(request, trail, connect, read)

    async def _opened(
        self, request: HTTPRequest, trail: _Trail, connect: float | None, read: float | None
    ) -> HttpxAsyncResponse:
        # Each step of connecting and each piece of the headers has its own limit; this one is for them all.
        limit = None if connect is None or read is None else connect + read
        place = origin_of(self.library, request.target, request.tls_name)
        sent = self._request(request, place, connect, read)
        trail.mark(sent, trail.asee)
        answered = partial(self._answered, sent, place.origin, connect)
        lane, response = await run_or_undo(answered, self._undo, limit)
        # httpcore reads the body's limit when the body begins, and each read here comes with its own.
        sent.extensions["timeout"]["read"] = None
        kept = ActiveResponse(
            lane, response, response.aiter_bytes() if response.is_stream_consumed else response.aiter_raw()
        )
        self.open.add(kept)
        return HttpxAsyncResponse(self, kept, request)

    async def _answered(self, sent: Any, origin: str, connect: float | None) -> tuple[PooledConnection, Any]:
        try:
            self._room.acquire_nowait()
        except anyio.WouldBlock:
            with anyio.move_on_after(connect) as waiting:
                await self._room.acquire()
            if waiting.cancelled_caught:
                raise self._full() from None
        lane = None
        try:
            lane = self._lanes.pick(origin)
            return lane, await lane.send(sent)
        except BaseException:
            await self._leave(lane, False)
            raise

    async def _undo(self, answer: tuple[PooledConnection, Any]) -> None:
        lane, response = answer
        with suppress(*self.failures), anyio.move_on_after(GRACE, shield=True):
            await run_shielded(response.aclose)
        await self._leave(lane, False)

    async def release(self, kept: ActiveResponse) -> None:
        """Give a connection back, read to its end or not, whoever is cancelled meanwhile."""
        if not self.forget(kept):
            return
        whole = kept.response.is_closed
        try:
            if not whole:
                with suppress(*self.failures), anyio.move_on_after(GRACE, shield=True):
                    await run_shielded(partial(_closed, kept))
        finally:
            await self._leave(kept.lane, whole)

    async def _leave(self, lane: PooledConnection | None, whole: bool) -> None:
        try:
            if lane is not None and (spent := self._lanes.put(lane, whole)):
                await self._discard(spent)
        finally:
            self._room.release()

    async def _discard(self, lanes: list[PooledConnection]) -> None:
        for lane in lanes:
            with suppress(*self.failures), anyio.move_on_after(GRACE, shield=True):
                await run_shielded(lane.way.aclose)


async def _closed(kept: ActiveResponse) -> None:
    try:
        await kept.response.aclose()
    finally:
        # Also where the event loop ends in the middle of it: a generator that is left open is finalized outside of
        # any event loop, where httpcore's raises. What the first call has closed, this one does not wait for.
        if not kept.reading:
            await kept.pieces.aclose()
