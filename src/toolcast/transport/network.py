"""The one door to the network: HTTP over httpx, behind protocols of our own.

A `Network` opens a request and gives back an answer whose body is still arriving. What the engine awaits is
an `IOBackend`: `sync_backend` over a network's sync face, which never suspends, or `async_backend` over its
async face. A user who brings another HTTP library, a proxy or a recording implements `Network`.

`HttpxNetwork` is the one that is used otherwise. httpx is imported when its first door is made: one for each
process (a forked child must not write into its parent's connections) and one for each event loop (a connection
belongs to the loop that opened it). What happens behind them is told in `connections` and `lanes`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Protocol

from ..async_support.exception_groups import collapse_groups
from ..errors import ConnectFailed
from ..http_request import HTTPRequest
from .base_connections import ClientsByLoop
from .cancel_handle import line_here
from .content_decoding import LIMIT

if TYPE_CHECKING:
    import ssl

    import httpx

    from ..async_support.shielding import Loop
    from .connection_pool import ConnectionPool
    from .httpx_connections import AsyncConnections, SyncConnections


class Response(Protocol):
    """One HTTP answer whose body is still arriving; `headers` have names in lower case.

    It may have a `break_off()` as well, which ends a read from another thread, where `close` does not: called once,
    perhaps after the end, to cancel a turn at once. Ours do without; see `lines`.
    """

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...

    def read(self, limit: float | None = None, /) -> bytes:
        """The next decoded piece of the body; `b""` at its end. `TimeoutError` after `limit` seconds."""
        ...

    def close(self) -> None:
        """Give the connection back. May be called at any time, and again."""
        ...


def read_body(reply: Response, seconds: float, limit: int) -> bytes:
    """The body of `reply`, each piece within `seconds`; beyond `limit` bytes no further piece is read."""
    body = bytearray()
    while len(body) <= limit and (data := reply.read(seconds)):
        body += data
    return bytes(body)


class AsyncResponse(Protocol):
    """A `Response` that is awaited; the time limit is given with each read."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...

    async def read(self, limit: float | None, /) -> bytes:
        """The next decoded piece; `b""` at the end. `TimeoutError` after `limit` seconds without one."""
        ...

    async def aclose(self) -> None:
        """Give the connection back. May be called at any time, and again."""
        ...


class Network(Protocol):
    """What `network=` takes: both faces of an HTTP client in one object.

    `connect` and `read` are seconds, or None. A wait that was too long is `Timeout` while opening, with the
    phase `connect` or `first_token`, and the builtin `TimeoutError` while reading: what limit it was, the
    caller knows. Else they raise `ConnectFailed`, `StreamInterrupted`, `MalformedEvent`, `LimitExceeded` or
    `BadRequest`. A status of 300 or more is an answer like any other. No error holds a key.
    """

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
        """The answer, once its headers are there. `read` limits the wait for them and each later read."""
        ...

    async def aopen(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> AsyncResponse:
        """The answer, once its headers are there. `read` limits the wait for them."""
        ...

    def close(self) -> None:
        """Give back what the sync face holds."""
        ...

    async def aclose(self) -> None:
        """Give back everything."""
        ...


class Clock(Protocol):
    """Time: `now` is monotonic and for deadlines, `time` is the wall's and for HTTP dates. Seconds."""

    def now(self) -> float: ...
    def time(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...
    async def asleep(self, seconds: float) -> None: ...


class Body(Protocol):
    """An answer as the engine awaits it, the same for both faces."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    async def read(self, limit: float | None, /) -> bytes: ...
    async def close(self) -> None: ...


class IOBackend(Protocol):
    """All that the engine awaits. `concurrent`: under an event loop, where an await may suspend."""

    @property
    def concurrent(self) -> bool: ...
    async def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Body: ...
    async def sleep(self, seconds: float) -> None: ...
    def now(self) -> float: ...
    def time(self) -> float: ...


class SystemClock:
    """The real time."""

    def now(self) -> float:
        """Seconds on a clock that nobody sets."""
        return monotonic()

    def time(self) -> float:
        """Seconds since 1970."""
        return time()

    def sleep(self, seconds: float) -> None:
        """Wait, and let the whole thread wait; a broken line ends it."""
        line = line_here()
        (sleep if line is None else line.sleep)(seconds)

    async def asleep(self, seconds: float) -> None:
        """Wait, in the event loop that runs here."""
        import anyio

        await anyio.sleep(seconds)


_CLOCK = SystemClock()
_TLS_FILES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")


def sync_backend(network: Network, clock: Clock = _CLOCK) -> IOBackend:
    """An `IOBackend` that never suspends: each await blocks instead. For `without_loop.run`."""
    return _SyncOutside(network, clock)


def async_backend(network: Network, clock: Clock = _CLOCK) -> IOBackend:
    """An `IOBackend` for the event loop that runs here."""
    return _AsyncOutside(network, clock)


class _SyncOutside:
    concurrent = False

    def __init__(self, network: Network, clock: Clock) -> None:
        self._network = network
        self._clock = clock
        self.now = clock.now
        self.time = clock.time

    async def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Body:
        reply = self._network.open(request, connect=connect, read=read)
        if (break_off := getattr(reply, "break_off", None)) is not None and (line := line_here()) is not None:
            line.reach(break_off)
        return _SyncBody(reply)

    async def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)


class _SyncBody:
    def __init__(self, reply: Response) -> None:
        self._reply = reply
        self.status = reply.status
        self.headers = reply.headers

    async def read(self, limit: float | None, /) -> bytes:
        return self._reply.read(limit)

    async def close(self) -> None:
        self._reply.close()


class _AsyncOutside:
    concurrent = True

    def __init__(self, network: Network, clock: Clock) -> None:
        self._network = network
        self.sleep = clock.asleep
        self.now = clock.now
        self.time = clock.time

    async def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Body:
        opened = partial(self._network.aopen, request, connect=connect, read=read)
        return _AsyncBody(await collapse_groups(opened))


class _AsyncBody:
    def __init__(self, reply: AsyncResponse) -> None:
        self.status = reply.status
        self.headers = reply.headers
        self.read = reply.read
        self.close = reply.aclose


class HttpxNetwork:
    """A `Network` over httpx: HTTP/1.1, proxies from the environment as httpx reads them, no redirects.

    `client` and `async_client` are your own httpx (or httpx2) clients: used as they are, and never closed.
    Without them connections are made when they are needed, at most `max_connections` for all sync calls and as
    many for each event loop; after `close` or `aclose` new ones are. They keep no cookies. `max_inflated` is the
    bytes that a compressed body may hold. `direct`: whatever proxy the environment names, none is used.
    """

    def __init__(
        self,
        client: httpx.Client | None = None,
        async_client: httpx.AsyncClient | None = None,
        *,
        max_connections: int = 1000,
        max_inflated: int = LIMIT,
        direct: bool = False,
    ) -> None:
        self._doors = _Doors(client, async_client, max_connections, max_inflated, direct)
        # Also at the end of the program; the doors do not know the network, so that it can be collected.
        weakref.finalize(self, self._doors.abandon)

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
        """The answer to `request`; see `Network`."""
        return self._doors.sync().send(request, connect, read)

    async def aopen(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> AsyncResponse:
        """The answer to `request`; see `Network`."""
        return await self._doors.running().send(request, connect, read)

    def close(self) -> None:
        """Close the connections of sync calls now, and have each event loop close its own."""
        self._doors.abandon()

    async def aclose(self) -> None:
        """Close the connections of this event loop and of sync calls now, and have other event loops close theirs."""
        await self._doors.close_here()
        self._doors.abandon()


class _Doors(ClientsByLoop["AsyncConnections"]):
    """The doors in use: one for each process id, and one for each event loop."""

    def __init__(
        self,
        client: httpx.Client | None,
        async_client: httpx.AsyncClient | None,
        max_connections: int,
        max_inflated: int,
        direct: bool,
    ) -> None:
        super().__init__()
        self._client = client
        self._async_client = async_client
        self._max_connections = max_connections
        self._max_inflated = max_inflated
        self._direct = direct
        # By process id, locks too: a child finds its parent's perhaps held, by a thread that it has not got.
        self._locks: dict[int, threading.RLock] = {}
        self._sync: dict[int, SyncConnections] = {}

    def sync(self) -> SyncConnections:
        """The door of this process."""
        pid = os.getpid()
        if (door := self._sync.get(pid)) is not None:
            return door
        with self._locks.setdefault(pid, threading.RLock()):
            return self._sync.get(pid) or self._sync.setdefault(pid, self._new_sync())

    def abandon(self) -> None:
        """Close what this process may close; loops that still run are asked to."""
        if (sync := self._sync.pop(os.getpid(), None)) is not None:
            sync.close()
        super().abandon()

    def _new_sync(self) -> SyncConnections:
        import httpx

        from .httpx_connections import SyncConnections

        way = httpx.Client if self._proxied() else httpx.HTTPTransport
        return SyncConnections(self._lanes(self._client, way), self._max_inflated)

    def _new(self, loop: Loop, gone: Callable[[object], object]) -> AsyncConnections:
        import httpx

        from .httpx_connections import AsyncConnections

        way = httpx.AsyncClient if self._proxied() else httpx.AsyncHTTPTransport
        return AsyncConnections(self._lanes(self._async_client, way), self._max_inflated, loop, gone)

    def _lanes(self, brought: httpx.Client | httpx.AsyncClient | None, way: Callable[..., object]) -> ConnectionPool:
        import httpx

        from .connection_pool import EXPIRY, ConnectionPool, SingleConnection
        from .transport_errors import library_of

        if brought is not None:
            return SingleConnection(library_of(brought), brought)
        one = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=EXPIRY)
        return ConnectionPool(httpx, partial(way, limits=one, verify=ssl_context()), self._max_connections)

    def _proxied(self) -> bool:
        """Whether the environment names a proxy that is to be used."""
        from urllib.request import getproxies

        return not (self._direct or {"http", "https", "all"}.isdisjoint(getproxies()))


def ssl_context() -> ssl.SSLContext:
    """Return the TLS context of every connection; reading the certificates takes long, so it is kept.

    Raises `ConnectFailed` where the environment names a file that cannot be read.
    """
    try:
        return _trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    except OSError as error:
        named = [f"{name}={os.environ[name]!r}" for name in _TLS_FILES if os.environ.get(name)]
        raise ConnectFailed(
            f"no connection, as TLS cannot be set up with {' and '.join(named)}: {error.strerror or error}. "
            "Name files that can be read; certificates are in PEM format.",
            retryable=False,
        ) from error


@lru_cache(4)
def _trusted(file: str | None, folder: str | None) -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context()
