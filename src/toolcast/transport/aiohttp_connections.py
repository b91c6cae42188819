"""The aiohttp session of one event loop, its connection pool and its open responses.

aiohttp closes a connection without awaiting anything, so a cancellation cannot interrupt the cleanup, and no shield
is needed. A request on a pooled connection that the server has just closed is sent once more on a new connection,
also a POST: aiohttp itself does so only for idempotent methods, and does not report which connection it took. So
`_Connector` records the connection of each request, and notifies the response that reads from it when it is lost.

Responses over aiohttp: the decoded body, each read with its own time limit.

A body is decompressed here, chunk by chunk and within a limit. Data that arrived before a connection broke is
returned before the error is raised. `AiohttpConnections` references the open responses, and an `AiohttpResponse` is
only a handle, so that a connection is also released when a half-read response is garbage-collected.

The mapping of aiohttp's exceptions to toolcast's errors, without keys.

aiohttp's exceptions contain the request's headers, a proxy's password, and parts of the response, which may repeat
the key. So none of them becomes the cause or a part of the message of a toolcast error. Its cause is the operating
system's error, where there is one.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import aiohttp
import anyio
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError
from aiohttp.tracing import Trace
from yarl import URL

from ..async_support.deadlines import Deadline
from ..async_support.shielding import GRACE
from ..errors import BadRequest, ConnectFailed, LLMError, StreamInterrupted, Timeout
from ..values.credentials import Secret
from ..values.http_request import HTTPRequest
from .base_response import BaseAsyncResponse
from .connection_pool import LoopConnections
from .httpx_network import ssl_context
from .transport_errors import host_of, plain_headers, scrub_exception, unconnected, unproxied


class ResponseCancelHandle:
    """A connection until its end, with the response that is read from it."""

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active: ActiveAiohttpResponse | None = None

    def lost(self, closed: asyncio.Future[None]) -> None:
        """End the read of the response, as the connection is closed."""
        if not closed.cancelled():
            closed.exception()  # otherwise asyncio logs an exception that was never retrieved
        if self.active is not None:
            self.active.lost()


class ActiveAiohttpResponse:
    """A response which has not released its connection."""

    __slots__ = ("_alarm", "_handle", "_total", "content", "over", "reading", "response")

    def __init__(self, response: aiohttp.ClientResponse, handle: ResponseCancelHandle, alarm: Deadline) -> None:
        self.response: aiohttp.ClientResponse = response
        self.content: aiohttp.StreamReader = response.content
        self.reading: bool = False
        self.over: bool = False
        self._alarm = alarm
        self._handle = handle
        self._total = 0
        if not self.content.is_eof():
            handle.active = self

    def begin(self, limit: float | None) -> None:
        """Start a read with a time limit of `limit` seconds."""
        self.reading = True
        self._total = self.content.total_bytes
        self._alarm.wait(limit, self._give_up)

    def end(self) -> None:
        """Finish a read."""
        self.reading = False
        self._alarm.rest()

    def release(self) -> None:
        """Close the connection, or return it to the pool if the body was read to its end."""
        self.over = True
        self._alarm.stop()
        if self._handle.active is self:
            self._handle.active = None
        if self.response.closed:
            return  # the body is complete, and aiohttp has returned the connection to its pool
        connection = self.response.connection
        transport = connection and connection.transport
        self.response.close()
        if transport is not None:
            # close() would wait until the server has received the rest of the request, and has closed TLS.
            transport.abort()

    def lost(self) -> None:
        """End a read that waits: aiohttp itself does not end it where the middle of a body violates HTTP."""
        if self.content.exception() is None and not self.content.is_eof():
            self.content.set_exception(aiohttp.ClientPayloadError())

    def rest(self) -> bytes:
        """Return the unread data that arrived before the connection broke, which aiohttp would not return."""
        return b"" if self.over else self.content._read_nowait(-1)  # pyright: ignore[reportPrivateUsage] - all else raises

    def _give_up(self) -> None:
        # If data arrived, the reader was already woken, and has only not run yet.
        if self.content.total_bytes == self._total and not self.content.is_eof():
            self.content.set_exception(TimeoutError())


class AiohttpResponse(BaseAsyncResponse[ActiveAiohttpResponse]):
    """An async response, whose reads return all data that has arrived."""

    def __init__(self, client: AiohttpConnections, active: ActiveAiohttpResponse, request: HTTPRequest) -> None:
        super().__init__(active, active.response.status, _plain(active.response.headers), client.limit)
        self._client = client
        self._request = request

    async def aclose(self) -> None:
        """Release the connection. Idempotent; may be called at any time."""
        self._client.release(self._active)

    def __del__(self) -> None:
        if not self._active.over:
            # Not at once: garbage collection may run in any thread, inside any code. A closed loop has released it.
            with suppress(RuntimeError):
                self._client.loop.call_soon_threadsafe(self._client.release, self._active)

    async def _next(self, limit: float | None) -> bytes | None:
        active = self._active
        content = active.content
        if content.is_eof():
            return None if content.at_eof() else content.read_nowait()
        before = sys.exception()
        failure: Exception | None = None
        active.begin(limit)
        try:
            raw = await content.readany()
        except FAULTS as error:
            raw = active.rest()
            failure = None if raw else broken_off(error, self._request)
        except BaseException as error:
            scrub_aiohttp_exception(error, self._request, before)
            raise
        finally:
            active.end()
        if failure is not None and not active.over:
            raise failure
        return raw or None


def _plain(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with names in lower case and printable values; repeated ones are joined."""
    plain: dict[str, str] = {name.lower(): value for name, value in headers.items()}
    if len(plain) == len(headers) and "".join(plain.values()).isascii():
        return plain  # nearly always: nothing to join or to decode
    plain = {}
    for name, value in headers.items():
        text = value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        name = name.lower()
        plain[name] = f"{plain[name]}, {text}" if name in plain else text
    return plain


FAULTS: tuple[type[Exception], ...] = (aiohttp.ClientError, HttpProcessingError, OSError)
"""The exceptions that aiohttp raises, and the operating system's errors that pass through it."""

_WORDS: dict[type[Exception], str] = {
    aiohttp.ServerDisconnectedError: "the server closed it without an answer",
    aiohttp.ClientResponseError: "what came is not HTTP",
    HttpProcessingError: "what came is not HTTP",
    aiohttp.ClientPayloadError: "the body ended in the middle, or is not what HTTP allows",
}


def lost_before_response(error: BaseException) -> bool:
    """Return True if the connection was lost before any of the response arrived, as happens to idle connections."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        # Otherwise the message is the part of the response that arrived.
        return isinstance(error.message, str)
    return isinstance(error, aiohttp.ClientOSError | aiohttp.ClientConnectionResetError)


def unanswered(error: BaseException, request: HTTPRequest, *, connected: bool) -> LLMError:
    """Return the `LLMError` for `error`, which was raised before the response headers arrived."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return _unconnected(error.os_error, request)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return unproxied(request, f"status {error.status}")
    if isinstance(error, ValueError | aiohttp.NonHttpUrlClientError):
        return BadRequest("the request cannot be sent: its address is none of http or https that aiohttp can use")
    if isinstance(error, TimeoutError):
        host = host_of(request)
        if connected:
            return Timeout(f"{host} did not answer in time", phase="first_token")
        return Timeout(f"no connection to {host} in time", phase="connect")
    return _interrupted(error, request)


def broken_off(error: Exception, request: HTTPRequest) -> Exception:
    """Return the exception for `error`, which was raised while reading the body."""
    if isinstance(error, TimeoutError):
        return TimeoutError("nothing more of the body came in time")
    return _interrupted(error, request)


def scrub_aiohttp_exception(error: BaseException, request: HTTPRequest, before: BaseException | None) -> None:
    """Remove the exceptions and the frames of aiohttp from one that is raised unchanged, such as a cancellation."""
    error.__cause__ = None
    error.__context__ = before
    scrub_exception(error, request, before)


def _unconnected(cause: OSError, request: HTTPRequest) -> ConnectFailed:
    scrub_aiohttp_exception(cause, request, None)
    failure = unconnected(request, cause.strerror or str(cause) or type(cause).__name__, [cause])
    failure.__cause__ = cause
    return failure


def _interrupted(error: BaseException, request: HTTPRequest) -> StreamInterrupted:
    # One of aiohttp's exceptions is a single object for the whole program.
    error.__traceback__ = None
    if isinstance(error, OSError) and error.errno:
        why = os.strerror(error.errno)
    else:
        why = next((words for kind, words in _WORDS.items() if isinstance(error, kind)), type(error).__name__)
    return StreamInterrupted(f"the connection to {host_of(request)} broke: {why}. Send the request again.")


# The buffer for a slow consumer: aiohttp stops reading from the socket at twice this, and goes on below it.
_READ_AHEAD = 32 * 1024
# h11, which httpx uses, accepts headers of 100 kB in all.
_HEADERS = 1024
_HEADER = 64 * 1024
# aiohttp warns of plain bytes that are longer.
_LARGE = 1024 * 1024


class _RequestTrace:
    """The state of one request until its headers arrive: its task, its deadline, and its connection."""

    __slots__ = ("_cancelled", "_late", "_read", "_task", "_transport", "alarm", "handle", "reused", "stale")

    def __init__(self, loop: asyncio.AbstractEventLoop, read: float | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.alarm = Deadline(loop)
        self.handle: ResponseCancelHandle | None = None
        self.reused = False
        self.stale = False
        self._read = read
        self._task = task
        self._cancelled = task.cancelling()
        self._late = False
        self._transport: asyncio.Transport | None = None

    def begin(self, connect: float | None) -> None:
        """Start the time limit of connecting."""
        self.alarm.wait(connect, self._give_up)

    def over(self, connection: Connection, handle: ResponseCancelHandle, reused: bool) -> None:
        """Record the connection, and start the time limit of the response headers."""
        self.handle = handle
        self.reused = reused
        self._transport = connection.transport
        self.alarm.wait(self._read, self._give_up)

    def end(self) -> None:
        """Stop the time limit and drop the references to the task and the transport.

        aiohttp runs a connection's callbacks in the context of its first request, which references this object.
        """
        self.alarm.rest()
        self._transport = None
        del self._task

    def abort(self) -> bool:
        """Close the connection at once. Return True if the time limit alone cancelled the task."""
        self.alarm.stop()
        if self._transport is not None:
            # close() would wait until the server has received the whole request.
            self._transport.abort()
        return self._late and self._task.uncancel() <= self._cancelled

    def _give_up(self) -> None:
        self._late = True
        self._task.cancel()


# A URL with percent-encoding and none but the characters that a URL may have (RFC 3986).
_PLAIN = r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]*"
_is_encoded = re.compile(rf"{_PLAIN}(?:%[0-9A-Fa-f]{{2}}{_PLAIN})+").fullmatch

_current_trace: ContextVar[_RequestTrace] = ContextVar("trace")
_STOPS: tuple[type[BaseException], ...] = (*FAULTS, ValueError, asyncio.CancelledError)


class _Connector(aiohttp.TCPConnector):
    """The pool of aiohttp, which also records each request's connection, and whether it was used before."""

    def __init__(self, limit: int) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - one parameter, not used here, has no type
            limit=limit, keepalive_timeout=30.0, ssl=ssl_context()
        )
        self._handles: WeakKeyDictionary[object, ResponseCancelHandle] = WeakKeyDictionary()

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """Return a free connection or a new one."""
        connection = await super().connect(req, traces, timeout)
        protocol = connection.protocol
        handle = self._handles.get(protocol)
        _current_trace.get().over(connection, handle or self._new(protocol), handle is not None)
        return connection

    def _new(self, protocol: ResponseHandler | None) -> ResponseCancelHandle:
        assert protocol is not None
        handle = self._handles[protocol] = ResponseCancelHandle()
        if (closed := protocol.closed) is not None:
            closed.add_done_callback(handle.lost)
        return handle

    def __del__(self, *unused: object) -> None:
        """Suppress the warning of aiohttp, as the user cannot close this connector."""


class AiohttpConnections(LoopConnections[_RequestTrace, AiohttpResponse]):
    """The aiohttp session of the running event loop, closed when the loop ends, or by `close`.

    It passes itself to `gone` when it closes.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, max_connections: int, max_inflated: int, gone: Callable[[object], object]
    ) -> None:
        self.limit = max_inflated
        self.open: set[ActiveAiohttpResponse] = set()
        self._unanswered = 0
        # A proxy's URL may contain a password.
        self._proxies = {scheme: Secret(proxy) for scheme, proxy in getproxies().items()}
        self._connector = _Connector(max_connections)
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": "toolcast"},
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            read_bufsize=_READ_AHEAD,
            max_headers=_HEADERS,
            max_field_size=_HEADER,
        )
        self._begin(loop, gone)

    @property
    def in_use(self) -> int:
        """The number of connections that serve a request, and of requests that wait for one."""
        return self._unanswered + len(self.open)

    def release_without_loop(self) -> None:
        """Release everything without the event loop, which may never run again, and without a warning of aiohttp."""
        for active in list(self.open):
            with suppress(RuntimeError):
                self.release(active)
        self._session.detach()

    def release(self, active: ActiveAiohttpResponse) -> None:
        """Release the connection of a response, whether it was read to its end or not."""
        if not active.over:
            self.open.discard(active)
            active.release()

    async def _shut(self) -> None:
        for active in list(self.open):
            self.release(active)
        self._session.detach()
        with anyio.move_on_after(GRACE, shield=True):
            await self._connector.close()

    def _new_trace(self, read: float | None) -> _RequestTrace:
        return _RequestTrace(self.loop, read)

    def _stale(self, error: LLMError, trace: _RequestTrace) -> bool:
        return trace.stale and not self._session.closed

    async def _sent(
        self, request: HTTPRequest, trace: _RequestTrace, connect: float | None, read: float | None
    ) -> AiohttpResponse:
        target = request.target
        if not target.isprintable():
            raise BadRequest("the request cannot be sent: its URL contains a character that is not allowed there")
        before = sys.exception()
        proxy = self._proxy(target) if self._proxies else None
        token = _current_trace.set(trace)
        trace.begin(connect)
        self._unanswered += 1
        try:
            response = await self._session.request(
                request.method,
                # Sent as it is: aiohttp would decode `%3A` in a path, whose signature would be wrong then.
                URL(target, encoded=True) if _is_encoded(target) else target,
                headers=plain_headers(request.headers),
                data=request.body if len(request.body) < _LARGE else io.BytesIO(request.body),
                allow_redirects=False,
                proxy=proxy.reveal() if proxy else None,
                server_hostname=request.tls_name,
            )
        except _STOPS as error:
            late = trace.abort()
            if isinstance(error, asyncio.CancelledError) and not late:
                scrub_aiohttp_exception(error, request, before)
                raise
            trace.stale = trace.reused and not late and lost_before_response(error)
            failure = unanswered(TimeoutError() if late else error, request, connected=trace.handle is not None)
        except BaseException as error:
            trace.abort()
            scrub_aiohttp_exception(error, request, before)
            raise
        else:
            assert trace.handle is not None
            active = ActiveAiohttpResponse(response, trace.handle, trace.alarm)
            self.open.add(active)
            return AiohttpResponse(self, active, request)
        finally:
            self._unanswered -= 1
            trace.end()
            _current_trace.reset(token)
        # Outside of the `except`: aiohttp's exception, which contains keys, would become the context.
        raise failure

    def _proxy(self, url: str) -> Secret | None:
        """Return the proxy for `url` from the environment, by the rules of httpx."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return None  # an invalid URL, which aiohttp will reject
        proxy = self._proxies.get(parts.scheme) or self._proxies.get("all")
        if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]):
            return None
        scheme = proxy.reveal().rpartition("://")[0]
        if scheme not in ("", "http", "https"):
            raise BadRequest(f"the environment names a proxy of {scheme}, which aiohttp does not speak")
        return proxy if scheme else Secret(f"http://{proxy.reveal()}")
