"""Connections: clients by event loop, requests sent again after a stale connection, and the connection pool of httpx.

`ClientsByLoop` has one client for each process id and event loop, over httpx or aiohttp, which owns the connections:
a `LoopConnections`. It sends a request, once more if a pooled connection turns out to be closed by the server (stale),
and is closed at the end of its loop.

`ConnectionPool` is the pool over httpx: one httpx transport for each connection, or the one client of the user.

The pool of httpcore iterates over all of its connections several times per request, and polls the socket of each idle
one; a hundred concurrent requests take it twice the time of a hundred in turn. So each `PooledConnection` is an httpx
transport limited to one connection, and this pool selects one for a request: the most recently used one of the same
origin, otherwise a new one. A transport also omits the cookies, redirects and hooks of an httpx client, which take half
of its time. If the environment names a proxy, a client is used, because only a client reads the environment.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import cache, lru_cache, partial
from sys import maxsize
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ..errors import ConnectFailed, LLMError, StreamInterrupted
from .transport_errors import checked

if TYPE_CHECKING:
    from ..async_support.shielding import Loop
    from ..values.http_request import HTTPRequest

EXPIRY = 30.0
"""Seconds after which an idle connection is closed."""


D = TypeVar("D", bound="LoopConnections[Any, Any]")
R = TypeVar("R")
Trace = TypeVar("Trace")


class ClientsByLoop(ABC, Generic[D]):
    """The clients in use: one `D` for each process id and event loop."""

    def __init__(self) -> None:
        # Only a loop's own thread makes its client, and each step is one operation of the dict: no lock is needed.
        self._loops: dict[tuple[int, Loop], D] = {}

    @property
    def in_use(self) -> int:
        """The number of connections of this process that serve a request."""
        return sum(found.in_use for (owner, _), found in list(self._loops.items()) if owner == os.getpid())

    @abstractmethod
    def _new(self, loop: Loop, gone: Callable[[object], object]) -> D:
        """Create the client of the running event loop. It passes itself to `gone` when it closes."""

    def running(self) -> D:
        """Return the client of the running event loop."""
        # With the process id: after a fork the sockets of the parent must neither be used nor closed.
        key = os.getpid(), _shielding().current_loop()
        if (found := self._loops.get(key)) is not None:
            return found
        self._forget_closed()
        made = self._loops[key] = self._new(key[1], partial(self._gone, key))
        return made

    async def close_here(self) -> None:
        """Close the client of the running event loop, if there is one."""
        if (found := self._loops.get((os.getpid(), _shielding().current_loop()))) is not None:
            await found.close()

    def abandon(self) -> None:
        """Let the event loops of this process close their clients."""
        for owner, loop in list(self._loops):
            if owner == os.getpid() and (found := self._loops.pop((owner, loop), None)) is not None:
                # Sockets of a loop can be closed in that loop only, and perhaps it runs in another thread.
                _shielding().schedule_in_loop(loop, found.close)
                if not getattr(loop, "is_running", bool)():
                    found.release_without_loop()

    def _gone(self, key: tuple[int, Loop], client: object) -> None:
        # Another may be in its place by now: `abandon` does not wait.
        if self._loops.get(key) is client:
            del self._loops[key]

    def _forget_closed(self) -> None:
        """Drop the clients of loops that were closed without the shutdown that closes async generators."""
        for key in list(self._loops):
            if getattr(key[1], "is_closed", bool)() and (found := self._loops.pop(key, None)) is not None:
                found.release_without_loop()


@cache
def _shielding() -> ModuleType:
    """Return `shielding`, which imports asyncio: a program of sync calls does not need it."""
    from ..async_support import shielding

    return shielding


class LoopConnections(ABC, Generic[Trace, R]):
    """The connections and open responses of the running event loop, closed when it ends, or by `close`.

    `Trace` is the record of one request, `R` its response.
    """

    loop: Loop

    @property
    @abstractmethod
    def in_use(self) -> int:
        """The number of connections that serve a request."""

    def _begin(self, loop: Loop, gone: Callable[[object], object]) -> None:
        self.loop = loop
        # asyncio.run and trio.run close the async generators that were started under them, and so these connections.
        self._lifetime = self._until_loop_ends(gone)
        with suppress(StopIteration):
            self._lifetime.__anext__().send(None)

    async def send(self, request: HTTPRequest, connect: float | None, read: float | None) -> R:
        """Send `request` and return its response, with its body unread."""
        checked(request)
        trace = self._new_trace(read)
        try:
            return await self._sent(request, trace, connect, read)
        except StreamInterrupted as error:
            # Only where the server closed an idle connection: else it may have acted on the request already.
            if not self._stale(error, trace):
                raise
        return await self._sent(request, self._new_trace(read), connect, read)

    async def close(self) -> None:
        """Close the open responses, and all connections but those of a client that the user passed."""
        await self._lifetime.aclose()

    def release_without_loop(self) -> None:
        """Release what can be released without the event loop, which may never run again."""

    @abstractmethod
    def _new_trace(self, read: float | None) -> Trace:
        """Return a new record of one request."""

    @abstractmethod
    async def _sent(self, request: HTTPRequest, trace: Trace, connect: float | None, read: float | None) -> R:
        """Send a request once."""

    @abstractmethod
    def _stale(self, error: LLMError, trace: Trace) -> bool:
        """Return True if a pooled connection was closed before any of the response arrived."""

    @abstractmethod
    async def _shut(self) -> None:
        """Close the open responses and connections."""

    async def _until_loop_ends(self, gone: Callable[[object], object]) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            gone(self)
            await self._shut()


class Origin(NamedTuple):
    """The parsed URL of a request, and the headers that follow from it.

    `login` is the `Authorization` header for the user and password of the URL. `origin` identifies the server with its
    TLS name: only requests of the same origin may share a connection.
    """

    url: Any
    origin: str
    headers: dict[str, str]
    login: dict[str, str]


@lru_cache(64)
def origin_of(library: ModuleType, url: str, tls_name: str | None = None) -> Origin:
    """Return the origin of `url`, whose certificate must be for `tls_name` or the host. Raise `InvalidURL`."""
    parsed = library.URL(url)
    host = parsed.netloc.decode("ascii")
    login = {}
    if parsed.userinfo:
        words = f"{parsed.username}:{parsed.password}".encode()
        login["authorization"] = f"Basic {b64encode(words).decode('ascii')}"
    origin = f"{parsed.scheme}://{host}" + (f" as {tls_name}" if tls_name else "")
    return Origin(parsed, origin, {"host": host, "user-agent": "toolcast"}, login)


class PooledConnection:
    """An httpx transport or client, and the origin it was last used for.

    `stream` is the network stream of its connection, or None before the first response.
    """

    __slots__ = ("origin", "since", "stream", "transport")

    def __init__(self, transport: Any) -> None:
        self.transport: Any = transport
        self.origin: str = ""
        self.since: float = 0.0
        self.stream: Any = None

    def send(self, request: Any) -> Any:
        """Send a request of the library. Return its response, or an awaitable of it."""
        transport = self.transport
        if hasattr(transport, "send"):
            return transport.send(request, stream=True, follow_redirects=False)
        # Looked up at each request, because vcrpy and others patch the method of the class during a test.
        return (getattr(transport, "handle_async_request", None) or transport.handle_request)(request)


class ConnectionPool:
    """A thread-safe pool of at most `most` connections. The caller limits the number of concurrent requests."""

    user_client: Any = None

    def __init__(
        self, library: ModuleType, make: Callable[[], Any], most: int, now: Callable[[], float] = monotonic
    ) -> None:
        self.library = library
        self.most = most
        self._make = make
        self._now = now
        self._max_idle = most // 10 + 1
        self._idle: list[PooledConnection] = []
        self._count = 0
        self._closed = False
        self._lock = threading.Lock()

    @property
    def in_use(self) -> int:
        """The number of connections that are picked and not put back."""
        with self._lock:
            return self._count - len(self._idle)

    def pick(self, origin: str) -> PooledConnection:
        """Return a connection for one request, if possible one that was used for `origin`."""
        with self._lock:
            idle = self._idle
            # The newest first: it is the least likely to have been closed by the server, and the others may expire.
            for place in range(len(idle) - 1, -1, -1):
                if idle[place].origin == origin:
                    return idle.pop(place)
            if self._count >= self.most and idle:
                # The oldest, of another origin: its transport closes its connection for a new one.
                connection = idle.pop(0)
            else:
                connection = PooledConnection(self._new())
                self._count += 1
            connection.origin = origin
            return connection

    def put(self, connection: PooledConnection, whole: bool) -> list[PooledConnection]:
        """Return a connection to the pool if its response is complete. Return those which the caller has to close."""
        now = self._now()
        spent: list[PooledConnection] = []
        # Closing may block or must be awaited, so that is left to the caller, outside of the lock.
        with self._lock:
            connection.since = now
            if whole and not self._closed:
                self._idle.append(connection)
            else:
                spent.append(connection)
            # The oldest is first, since `put` appends and `pick` takes the newest.
            while self._idle and (len(self._idle) > self._max_idle or self._idle[0].since < now - EXPIRY):
                spent.append(self._idle.pop(0))
            self._count -= len(spent)
        return spent

    def drain(self) -> list[PooledConnection]:
        """Remove and return the idle connections, to be closed; those in use are closed when they are put back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._count -= len(idle)
            return idle

    def _new(self) -> Any:
        try:
            return self._make()
        except ImportError as error:
            raise ConnectFailed(f"no connection is made: {error}", retryable=False) from None
        except ValueError:
            failure = ConnectFailed(
                "the environment names a proxy that cannot be used; set HTTP_PROXY, HTTPS_PROXY and ALL_PROXY "
                "to http://host:port, or unset them",
                retryable=False,
            )
        # Outside of the `except`: the error of the library contains the proxy's user.
        raise failure


class SingleConnection(ConnectionPool):
    """A pool with the one client of the user, which has its own limits and is never closed."""

    def __init__(self, library: ModuleType, client: Any) -> None:
        super().__init__(library, lambda: client, maxsize)
        self.user_client = client
        self._connection = PooledConnection(client)

    def pick(self, origin: str) -> PooledConnection:
        """Return the client."""
        with self._lock:
            self._count += 1
        return self._connection

    def put(self, connection: PooledConnection, whole: bool) -> list[PooledConnection]:
        """Return an empty list: the client is never closed."""
        with self._lock:
            self._count -= 1
        return []
