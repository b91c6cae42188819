"""The httpx clients, one for each process and one for each event loop, with their open responses.

httpx is not imported here: the library comes with the pool, so that a fork of httpx works as well. Four faults of httpx
are handled here. A request on a pooled connection that the server has just closed is sent once more. A second
cancellation does not interrupt the cleanup (`shielding`). Connections are closed with their event loop. And a
half-read response releases its connection when it is garbage-collected: the client references the open responses,
and the response is only a handle.

Responses over httpx, whose bodies are still arriving.

The client (httpx_connections.py) references each open response, and a response object is only a handle. So when the
handle is garbage-collected, the client can still release the connection.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from types import ModuleType
from typing import Any

import anyio

from ..async_support.shielding import GRACE, CallTimeouts, Loop, run_or_undo, run_shielded, schedule_in_loop
from ..errors import ConnectFailed, LLMError, StreamInterrupted
from ..values.http_request import HTTPRequest
from .base_response import BaseAsyncResponse, BaseResponse
from .cancel_handle import CancelHandle, current_handle, shut
from .connection_pool import ConnectionPool, LoopConnections, Origin, PooledConnection, origin_of
from .content_decoding import Inflated, Plain
from .transport_errors import checked, guard_logs, map_transport_errors, plain_headers, transport_errors


class ActiveResponse:
    """A response which has not released its connection. `pieces` is httpx's generator of raw bytes."""

    __slots__ = ("connection", "handle", "limit", "over", "pieces", "reading", "response", "stream")

    def __init__(self, connection: PooledConnection, response: Any, pieces: Any) -> None:
        self.connection: PooledConnection = connection
        self.response: Any = response
        self.pieces: Any = pieces
        self.stream: Any = response.extensions.get("network_stream")  # of httpcore, or None
        self.reading: bool = False
        self.over: bool = False
        self.limit: float | None = None
        self.handle: CancelHandle | None = None

    def apply_limit(self) -> None:
        """Apply `limit` to each read; httpcore has one limit for a whole body."""
        if (stream := self.stream) is not None:
            own: Callable[..., bytes] = stream.read

            def read(size: int, timeout: float | None = None) -> bytes:
                return own(size, timeout if self.limit is None else self.limit)

            stream.read = read


class _BaseHttpxResponse(BaseResponse[ActiveResponse]):
    """The common base of both kinds of response."""

    def __init__(
        self, client: AsyncConnections | SyncConnections, active: ActiveResponse, request: HTTPRequest
    ) -> None:
        response = active.response
        self._client: Any = client
        super().__init__(active, response.status_code, _plain(response.headers.raw), client.limit)
        self._mapped = map_transport_errors(client.library, request, reading=True)

    def _decoder(self) -> Plain | Inflated:
        return Plain() if self._active.response.is_stream_consumed else super()._decoder()


class SyncResponse(_BaseHttpxResponse):
    """A sync response."""

    _client: SyncConnections

    def read(self, limit: float | None = None, /) -> bytes:
        """Return the next decoded chunk of the body, `b""` at its end. Raise `TimeoutError` after `limit` seconds."""
        if self._ended:
            return b""
        active = self._active
        active.limit = limit
        body = self._body
        if body is None or active.over or active.reading:
            body = self._readable()
        try:
            if type(body) is Plain:
                # Nearly every response: its chunks are returned as they are, without the steps of a decoder.
                data = self._next()
                if not data or active.over:
                    self._more(body, data)
            else:
                while not (data := body.take()) and self._more(body, self._next()):
                    pass
        except BaseException:
            self.close()
            raise
        if self._ended:
            self.close()
        return data or b""

    def close(self) -> None:
        """Release the connection. Idempotent; may be called at any time."""
        if not self._active.over:
            self._client.release(self._active)

    def __del__(self) -> None:
        if not self._active.over:
            self._client.discard(self._active)

    def _next(self) -> bytes | None:
        active = self._active
        active.reading = True
        try:
            with self._mapped:
                raw: bytes | None = next(active.pieces, None)
        except LLMError:
            if not active.over:
                raise
            raw = None
        finally:
            active.reading = False
        return raw


class HttpxAsyncResponse(_BaseHttpxResponse, BaseAsyncResponse[ActiveResponse]):
    """An async response."""

    _client: AsyncConnections

    def __init__(self, client: AsyncConnections, active: ActiveResponse, request: HTTPRequest) -> None:
        super().__init__(client, active, request)
        self._step: Callable[[], Any] = active.pieces.__anext__
        self._timeouts = CallTimeouts(client.loop)

    async def aclose(self) -> None:
        """Release the connection. Idempotent; may be called at any time."""
        self._timeouts.end()
        await self._client.release(self._active)

    def __del__(self) -> None:
        if not self._active.over:
            schedule_in_loop(self._client.loop, partial(self._client.release, self._active))

    async def _next(self, limit: float | None) -> bytes | None:
        active = self._active
        raw: bytes | None
        active.reading = True
        try:
            with self._mapped:
                raw = await self._timeouts.run(self._step, limit)
        except StopAsyncIteration:
            raw = None
        except LLMError:
            if not active.over:
                raise
            raw = None
        finally:
            active.reading = False
        return raw


def _plain(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers as text with names in lower case; repeated ones are joined. httpx takes three times as long."""
    plain: dict[str, str] = {}
    for key, value in raw:
        name = key.lower().decode("ascii")
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = value.decode("latin-1")
        plain[name] = f"{plain[name]}, {text}" if name in plain else text
    return plain


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
