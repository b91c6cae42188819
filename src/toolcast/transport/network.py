"""The `Network` protocol, and the `IOBackend` through which the code above sends requests and reads the clock.

A `Network` opens a request and returns a response whose body is still arriving. All I/O is awaited from an `IOBackend`:
`sync_backend` over the sync methods of a network, which never suspends, or `async_backend` over its async methods. The
default network is `HttpxNetwork` (httpx_network.py). To use another HTTP library or a proxy, implement `Network`.

Every request is sent by `open_response` or `aopen_response`, where an `Interceptor` (interception.py) may take it.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import monotonic, sleep, time as wall_clock
from typing import TYPE_CHECKING, Any, Protocol

from ..async_support.exception_groups import collapse_groups
from ..values.http_request import HTTPRequest
from .cancel_handle import current_handle
from .interception import interceptor


class Response(Protocol):
    """An HTTP response whose body is still arriving; `headers` have names in lower case.

    It may have a method `break_off()` too, which aborts a read of another thread, if `close` does not. It is called
    once, perhaps after the end, to cancel a turn or to close a stream at once. The built-in networks use `CancelHandle`
    instead.
    """

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...

    def read(self, limit: float | None = None, /) -> bytes:
        """Return the next decoded chunk of the body, `b""` at its end. Raise `TimeoutError` after `limit` seconds."""
        ...

    def close(self) -> None:
        """Release the connection. Idempotent; may be called at any time."""
        ...


def read_body(reply: Response, seconds: float, limit: int) -> bytes:
    """Return the body of `reply`, with `seconds` for each chunk. Reading stops after more than `limit` bytes."""
    body = bytearray()
    while len(body) <= limit and (data := reply.read(seconds)):
        body += data
    return bytes(body)


class AsyncResponse(Protocol):
    """The async counterpart of `Response`; each read has its own time limit."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...

    async def read(self, limit: float | None, /) -> bytes:
        """Return the next decoded chunk, `b""` at the end. Raise `TimeoutError` after `limit` seconds without one."""
        ...

    async def aclose(self) -> None:
        """Release the connection. Idempotent; may be called at any time."""
        ...


class Network(Protocol):
    """The interface of an LLM's `network=`: a sync and an async HTTP client in one object.

    `connect` and `read` are seconds, or None. An exceeded limit is `Timeout` while opening, with the phase `connect`
    or `first_token`, and the builtin `TimeoutError` while reading. Other errors are `ConnectFailed`,
    `StreamInterrupted`, `MalformedEvent`, `LimitExceeded` or `BadRequest`. A response with a status of 300 or more is
    returned like any other. No error contains a key.
    """

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
        """Return the response once its headers have arrived. `read` limits the wait for them and each later read."""
        ...

    def aopen(
        self, request: HTTPRequest, *, connect: float | None, read: float | None
    ) -> Awaitable[AsyncResponse]:  # an `async def`, or what returns the coroutine of another
        """Return the response once its headers have arrived. `read` limits the wait for them."""
        ...

    def close(self) -> None:
        """Close the connections of sync calls."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


def open_response(network: Network, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
    """Send `request` over `network`, or to the interceptor of this context. Return the response; see `Network`."""
    found = interceptor()
    if found is None:
        return network.open(request, connect=connect, read=read)
    reply: Response = found.open(network, request, connect=connect, read=read)
    return reply


def aopen_response(
    network: Network, request: HTTPRequest, *, connect: float | None, read: float | None
) -> Awaitable[AsyncResponse]:
    """Send `request` over `network`, or to the interceptor of this context. Return the response; see `Network`."""
    found = interceptor()
    if found is None:
        return network.aopen(request, connect=connect, read=read)
    return found.aopen(network, request, connect=connect, read=read)


class Clock(Protocol):
    """The time in seconds: `now` is monotonic, for deadlines; `time` is since 1970, for HTTP dates."""

    def now(self) -> float: ...
    def time(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...
    async def asleep(self, seconds: float) -> None: ...


class Body(Protocol):
    """A response whose methods are awaited, in sync and async calls.

    `direct_read` is the response's own method, for loops that save a coroutine for each chunk: it returns bytes, or
    under an event loop an awaitable of them.
    """

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def direct_read(self) -> Callable[[float | None], Any]: ...
    async def read(self, limit: float | None, /) -> bytes: ...
    async def close(self) -> None: ...


class IOBackend(Protocol):
    """The I/O of a call. `concurrent` is True under an event loop, where an await may suspend."""

    @property
    def concurrent(self) -> bool: ...
    async def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Body: ...
    async def sleep(self, seconds: float) -> None: ...
    def now(self) -> float: ...
    def time(self) -> float: ...


class SystemClock:
    """The clock of the operating system."""

    if TYPE_CHECKING:

        def now(self) -> float:
            """Return the time in seconds since some moment."""
            ...

        def time(self) -> float:
            """Return the time in seconds since 1970."""
            ...

    else:  # called for each chunk: a function of C, without a frame of Python around it
        now = staticmethod(monotonic)
        time = staticmethod(wall_clock)

    def sleep(self, seconds: float) -> None:
        """Block this thread; its `CancelHandle` can end the wait. Return at once in a replay."""
        if nothing_is_sent():
            return
        handle = current_handle()
        (sleep if handle is None else handle.sleep)(seconds)

    async def asleep(self, seconds: float) -> None:
        """Wait in the running event loop. In a replay, only let other tasks run."""
        import anyio

        await anyio.sleep(0 if nothing_is_sent() else seconds)


def nothing_is_sent() -> bool:
    """Return True if all responses come from a recording: a service that is not asked needs no pause."""
    return (found := interceptor()) is not None and found.sends_nothing


def is_sent_to(url: str) -> bool:
    """Return False if an interceptor answers or refuses all requests to `url`, so that they need no API key."""
    return (found := interceptor()) is None or found.sends_to(url)


_CLOCK = SystemClock()


class SyncBackend:
    """An `IOBackend` that never suspends, as each await blocks. For `sync_driver.run`."""

    concurrent: bool = False

    def __init__(self, network: Network, clock: Clock = _CLOCK) -> None:
        self._network = network
        self._clock = clock
        self.now: Callable[[], float] = clock.now
        self.time: Callable[[], float] = clock.time

    async def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Body:
        reply = open_response(self._network, request, connect=connect, read=read)
        if (break_off := getattr(reply, "break_off", None)) is not None and (handle := current_handle()) is not None:
            handle.register(break_off)
        return _SyncBody(reply)

    async def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)


class _SyncBody:
    def __init__(self, reply: Response) -> None:
        self._reply = reply
        self.status = reply.status
        self.headers = reply.headers
        self.direct_read = reply.read

    async def read(self, limit: float | None, /) -> bytes:
        return self._reply.read(limit)

    async def close(self) -> None:
        self._reply.close()


class AsyncBackend:
    """An `IOBackend` for the running event loop."""

    concurrent: bool = True

    def __init__(self, network: Network, clock: Clock = _CLOCK) -> None:
        self._network = network
        self._clock = clock
        self.now: Callable[[], float] = clock.now
        self.time: Callable[[], float] = clock.time

    async def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Body:
        opened = partial(aopen_response, self._network, request, connect=connect, read=read)
        # Only trio raises such groups.
        return _AsyncBody(await (collapse_groups(opened) if "trio" in sys.modules else opened()))

    async def sleep(self, seconds: float) -> None:
        await self._clock.asleep(seconds)


class _AsyncBody:
    def __init__(self, reply: AsyncResponse) -> None:
        self.status = reply.status
        self.headers = reply.headers
        self.read = self.direct_read = reply.read
        self.close = reply.aclose
