"""The httpx clients, one for each process and one for each event loop, with their open responses.

httpx is not imported here: the library comes with the pool, so that a fork of httpx works as well. Four faults of httpx
are handled here. A request on a pooled connection that the server has just closed is sent once more. A second
cancellation does not interrupt the cleanup (`shielding`). Connections are closed with their event loop. And a
half-read response releases its connection when it is garbage-collected: the client references the open responses,
and the response is only a handle (httpx_responses.py).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from types import ModuleType
from typing import Any

import anyio

from ..async_support.shielding import GRACE, Loop, run_or_undo, run_shielded
from ..errors import ConnectFailed, LLMError, StreamInterrupted
from ..http_request import HTTPRequest
from .cancel_handle import CancelHandle, current_handle, shut
from .connection_pool import ConnectionPool, LoopConnections, Origin, PooledConnection, origin_of
from .httpx_responses import ActiveResponse, HttpxAsyncResponse, SyncResponse
from .transport_errors import checked, guard_logs, map_transport_errors, plain_headers, transport_errors


class _RequestTrace:
    """The first event of one request, from httpcore's `trace` extension.

    Tracing all events takes longer than parsing the response, so the extension is removed after the first ones.
    `handle` is the handle in which the shutdown of a new connection is registered.
    """

    def __init__(self, handle: CancelHandle | None = None) -> None:
        self.handle: CancelHandle | None = handle
        self.extensions: dict[str, Any] = {}  # of the request of the library
        self._first = ""

    def observe(self, event: str, info: Mapping[str, Any]) -> None:
        self._first = self._first or event
        if self.handle is None or event.startswith("http"):
            self.extensions.pop("trace", None)
        elif hasattr(stream := info.get("return_value"), "get_extra_info"):
            self.handle.register(partial(shut, stream))

    async def aobserve(self, event: str, info: Mapping[str, Any]) -> None:
        self.observe(event, info)

    @property
    def reused(self) -> bool:
        """True if the request was sent on a pooled connection, as none was opened before it."""
        return self._first.startswith("http11.")


@cache
def _body_of(library: ModuleType) -> type[Any]:
    """Return a stream class for request bodies without an async generator.

    That of httpx stays open when a request is cancelled, until the event loop finalizes it.
    """

    class Body(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc, name-defined]  # a module's
        def __init__(self, content: bytes) -> None:
            self._content = content

        def __iter__(self) -> Iterator[bytes]:
            return iter((self._content,))

        def __aiter__(self) -> _Once:
            return _Once(self._content)

    return Body


class _Once:
    """An async iterator over one chunk."""

    def __init__(self, piece: bytes) -> None:
        self._pieces = [piece]

    def __aiter__(self) -> _Once:
        return self

    async def __anext__(self) -> bytes:
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop()


class _BaseConnections:
    """The common base of the sync and async clients: their pool and their open responses."""

    def __init__(self, pool: ConnectionPool, limit: int) -> None:
        self.limit = limit
        self.open: set[ActiveResponse] = set()
        self.library: ModuleType = pool.library
        guard_logs()
        self.failures: tuple[type[Exception], ...] = transport_errors(self.library)
        self._pool = pool
        self._body: Callable[[bytes], Any] = _body_of(self.library)

    @property
    def in_use(self) -> int:
        """The number of connections that serve a request."""
        return self._pool.in_use

    def forget(self, active: ActiveResponse) -> bool:
        """Remove an open response. Return True to one of several concurrent callers, which then releases it."""
        active.over = True
        try:
            self.open.remove(active)
        except KeyError:
            return False
        return True

    def _request(self, request: HTTPRequest, place: Origin, connect: float | None, read: float | None) -> Any:
        extensions: dict[str, Any] = {"timeout": {"connect": connect, "pool": connect, "read": read, "write": read}}
        if request.tls_name is not None:
            extensions["sni_hostname"] = request.tls_name
        headers = plain_headers(request.headers)
        if (client := self._pool.user_client) is None:
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
        """Return the exception for a request that got no connection in time."""
        full: Exception = self.library.PoolTimeout("all connections are in use")
        return full

    def _stale(self, error: LLMError, trace: _RequestTrace) -> bool:
        """Return True if a pooled connection was closed before any of the response arrived."""
        silent = not isinstance(error.__cause__, self.library.RemoteProtocolError)
        return trace.reused and (silent or "without sending a response" in str(error))


class SyncConnections(_BaseConnections):
    """The client of one process for sync calls, from any thread."""

    def __init__(self, pool: ConnectionPool, limit: int) -> None:
        super().__init__(pool, limit)
        self._slots = threading.Semaphore(pool.most)
        self._discarded: deque[ActiveResponse] = deque()

    def send(self, request: HTTPRequest, connect: float | None, read: float | None) -> SyncResponse:
        """Send `request` and return its response, with its body unread."""
        if self._discarded:
            self._release_discarded()
        checked(request)
        handle = current_handle()
        trace = _RequestTrace(handle)
        try:
            return self._sent(request, trace, connect, read)
        except StreamInterrupted as error:
            if not self._stale(error, trace) or (handle is not None and handle.broken):
                raise
        return self._sent(request, _RequestTrace(handle), connect, read)

    def _sent(
        self, request: HTTPRequest, trace: _RequestTrace, connect: float | None, read: float | None
    ) -> SyncResponse:
        # Nothing else in this frame: those below it, whose locals contain the key, are removed from a traceback.
        with map_transport_errors(self.library, request):
            return self._answered(request, trace, connect, read)

    def _answered(
        self, request: HTTPRequest, trace: _RequestTrace, connect: float | None, read: float | None
    ) -> SyncResponse:
        place = origin_of(self.library, request.target, request.tls_name)
        sent = self._request(request, place, connect, read)
        trace.extensions = sent.extensions
        sent.extensions["trace"] = trace.observe
        if not self._slots.acquire(timeout=connect):
            raise self._full()
        connection = None
        try:
            connection = self._pool.pick(place.origin)
            if trace.handle is not None:
                trace.handle.register(partial(shut, connection.stream))
            response = connection.send(sent)
        except BaseException:
            self._leave(connection, False, trace.handle)
            raise
        active = ActiveResponse(
            connection, response, response.iter_bytes() if response.is_stream_consumed else response.iter_raw()
        )
        if self._pool.user_client is None:
            connection.stream = active.stream
        if trace.handle is not None:
            active.handle = trace.handle
            trace.handle.register(partial(_cut, active))
        active.apply_limit()
        self.open.add(active)
        return SyncResponse(self, active, request)

    def release(self, active: ActiveResponse) -> None:
        """Release the connection of a response, whether it was read to its end or not."""
        if not self.forget(active):
            return
        if (stream := active.stream) is not None:
            stream.__dict__.pop("read", None)  # the method of httpcore again
            if active.reading:
                shut(stream)
        whole = active.response.is_closed
        with suppress(*self.failures):
            active.response.close()
            if not active.reading:
                active.pieces.close()
        self._leave(active.connection, whole, active.handle)

    def discard(self, active: ActiveResponse) -> None:
        """Close the connection of a garbage-collected response; the pool is updated at the next request.

        Garbage collection may run inside any code, even while this thread holds the lock of httpcore's pool.
        """
        self._discarded.append(active)
        if active.stream is not None:
            with suppress(*self.failures):
                active.stream.close()

    def close(self) -> None:
        """Close the open responses, and all connections but those of a client that the user passed."""
        for active in list(self.open):
            self.release(active)
        for connection in self._pool.drain():
            connection.transport.close()

    def _leave(self, connection: PooledConnection | None, whole: bool, handle: CancelHandle | None) -> None:
        whole = (handle is None or handle.unregister()) and whole
        try:
            for spent in self._pool.put(connection, whole) if connection is not None else ():
                with suppress(*self.failures):
                    spent.transport.close()
        finally:
            self._slots.release()

    def _release_discarded(self) -> None:
        while self._discarded:
            with suppress(IndexError):
                self.release(self._discarded.popleft())


def _cut(active: ActiveResponse) -> None:
    """Wake a blocked reader, unless the body is complete and its connection may serve another request."""
    if not active.response.is_closed:
        shut(active.stream)


class AsyncConnections(_BaseConnections, LoopConnections[_RequestTrace, HttpxAsyncResponse]):
    """The client of the running event loop, closed when the loop ends, or by `close`.

    It passes itself to `gone` when it closes.
    """

    def __init__(self, pool: ConnectionPool, limit: int, loop: Loop, gone: Callable[[object], object]) -> None:
        super().__init__(pool, limit)
        self._slots = anyio.Semaphore(pool.most)
        self._begin(loop, gone)

    async def _shut(self) -> None:
        for active in list(self.open):
            await self.release(active)
        await self._discard(self._pool.drain())

    def _new_trace(self, read: float | None) -> _RequestTrace:
        return _RequestTrace()

    async def _sent(
        self, request: HTTPRequest, trace: _RequestTrace, connect: float | None, read: float | None
    ) -> HttpxAsyncResponse:
        # Nothing else in this frame: those below it, whose locals contain the key, are removed from a traceback.
        with map_transport_errors(self.library, request):
            return await self._opened(request, trace, connect, read)

    async def _opened(
        self, request: HTTPRequest, trace: _RequestTrace, connect: float | None, read: float | None
    ) -> HttpxAsyncResponse:
        # httpcore limits each step of connecting and each read of the headers; this is the limit of all together.
        limit = None if connect is None or read is None else connect + read
        place = origin_of(self.library, request.target, request.tls_name)
        sent = self._request(request, place, connect, read)
        trace.extensions = sent.extensions
        sent.extensions["trace"] = trace.aobserve
        answered = partial(self._answered, sent, place.origin, connect)
        connection, response = await run_or_undo(answered, self._undo, limit)
        # httpcore takes one limit when the body begins, but each read here has its own.
        sent.extensions["timeout"]["read"] = None
        active = ActiveResponse(
            connection, response, response.aiter_bytes() if response.is_stream_consumed else response.aiter_raw()
        )
        self.open.add(active)
        return HttpxAsyncResponse(self, active, request)

    async def _answered(self, sent: Any, origin: str, connect: float | None) -> tuple[PooledConnection, Any]:
        try:
            self._slots.acquire_nowait()
        except anyio.WouldBlock:
            with anyio.move_on_after(connect) as waiting:
                await self._slots.acquire()
            if waiting.cancelled_caught:
                raise self._full() from None
        connection = None
        try:
            connection = self._pool.pick(origin)
            return connection, await connection.send(sent)
        except BaseException:
            await self._leave(connection, False)
            raise

    async def _undo(self, answer: tuple[PooledConnection, Any]) -> None:
        connection, response = answer
        with suppress(*self.failures), anyio.move_on_after(GRACE, shield=True):
            await run_shielded(response.aclose)
        await self._leave(connection, False)

    async def release(self, active: ActiveResponse) -> None:
        """Release the connection of a response, whether it was read to its end or not, even if cancelled meanwhile."""
        if not self.forget(active):
            return
        whole = active.response.is_closed
        try:
            if not whole:
                with suppress(*self.failures), anyio.move_on_after(GRACE, shield=True):
                    await run_shielded(partial(_closed, active))
        finally:
            await self._leave(active.connection, whole)

    async def _leave(self, connection: PooledConnection | None, whole: bool) -> None:
        try:
            if connection is not None and (spent := self._pool.put(connection, whole)):
                await self._discard(spent)
        finally:
            self._slots.release()

    async def _discard(self, pool: list[PooledConnection]) -> None:
        for connection in pool:
            with suppress(*self.failures), anyio.move_on_after(GRACE, shield=True):
                await run_shielded(connection.transport.aclose)


async def _closed(active: ActiveResponse) -> None:
    try:
        await active.response.aclose()
    finally:
        # Also if the event loop ends during the close: a generator that stays open is finalized outside of any event
        # loop, where that of httpcore raises. After a completed close this awaits nothing.
        if not active.reading:
            await active.pieces.aclose()
