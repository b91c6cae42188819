"""`HttpxNetwork`: the default `Network`, over httpx.

httpx is imported with the first client. There is one client for each process (a forked child must not write into its
parent's connections) and one for each event loop (a connection belongs to the loop that opened it). Their connections
and responses are in httpx_connections.py.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ConnectFailed
from ..text.reprs import safe_repr
from ..values.http_request import HTTPRequest
from .connection_pool import ClientsByLoop
from .content_decoding import LIMIT
from .network import AsyncResponse, Response

if TYPE_CHECKING:
    import ssl

    import httpx

    from ..async_support.shielding import Loop
    from .connection_pool import ConnectionPool
    from .httpx_connections import AsyncConnections, SyncConnections

_TLS_FILES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")


class HttpxNetwork:
    """A `Network` over httpx: HTTP/1.1, proxies from the environment as httpx reads them, no redirects, no cookies.

    Connections are opened on demand, also after `close` or `aclose`.

    Args:
        client: Your own httpx (or httpx2) client for sync calls, used unchanged and never closed.
        async_client: The same for async calls.
        max_connections: The number of connections of all sync calls, and of each event loop.
        max_inflated: The limit of a decompressed body, in bytes.
        direct: Use no proxy, even if the environment names one.
        library: The package of the clients that are made: `"httpx"`, or its fork `"httpx2"` (`pip install httpx2`).

    Raises:
        ValueError: For another library.
    """

    def __init__(
        self,
        client: httpx.Client | None = None,
        async_client: httpx.AsyncClient | None = None,
        *,
        max_connections: int = 1000,
        max_inflated: int = LIMIT,
        direct: bool = False,
        library: Literal["httpx", "httpx2"] = "httpx",
    ) -> None:
        if library not in ("httpx", "httpx2"):
            raise ValueError(f"the library is 'httpx' or 'httpx2', not {library!r}")
        self._clients = _HTTPXClients(client, async_client, max_connections, max_inflated, direct, library)
        # Also at the end of the program; the clients have no reference to the network, so that it can be collected.
        weakref.finalize(self, self._clients.abandon)

    @safe_repr
    def __repr__(self) -> str:
        return f"HttpxNetwork(max_connections={self._clients.max_connections})"

    @property
    def connections_in_use(self) -> int:
        """The number of connections that serve a request now, until its response is read or closed, in this process."""
        return self._clients.in_use

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
        """Send `request` and return its response; see `Network`."""
        return self._clients.sync().send(request, connect, read)

    def aopen(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Awaitable[AsyncResponse]:
        """Send `request` and return its response; see `Network`."""
        return self._clients.running().send(request, connect, read)

    def close(self) -> None:
        """Close the connections of sync calls now, and let each event loop close its own."""
        self._clients.abandon()

    async def aclose(self) -> None:
        """Close the connections of this event loop and of sync calls now, and let other event loops close theirs."""
        await self._clients.close_here()
        self._clients.abandon()


class _HTTPXClients(ClientsByLoop["AsyncConnections"]):
    """The clients in use: one for each process id, and one for each event loop."""

    def __init__(
        self,
        client: httpx.Client | None,
        async_client: httpx.AsyncClient | None,
        max_connections: int,
        max_inflated: int,
        direct: bool,
        library: str,
    ) -> None:
        super().__init__()
        self._client = client
        self._async_client = async_client
        self.max_connections: int = max_connections
        self._max_inflated = max_inflated
        self._direct = direct
        self._library = library
        # By process id, the locks too: a forked child may inherit a locked one, whose thread it does not have.
        self._locks: dict[int, threading.RLock] = {}
        self._sync: dict[int, SyncConnections] = {}

    def sync(self) -> SyncConnections:
        """Return the sync client of this process."""
        pid = os.getpid()
        if (client := self._sync.get(pid)) is not None:
            return client
        with self._locks.setdefault(pid, threading.RLock()):
            return self._sync.get(pid) or self._sync.setdefault(pid, self._new_sync())

    @property
    def in_use(self) -> int:
        """The number of connections of this process that serve a request, with those of sync calls."""
        sync = self._sync.get(os.getpid())
        return super().in_use + (sync.in_use if sync is not None else 0)

    def abandon(self) -> None:
        """Close the clients of this process, those of running loops in their loops."""
        if (sync := self._sync.pop(os.getpid(), None)) is not None:
            sync.close()
        super().abandon()

    def _new_sync(self) -> SyncConnections:
        from .httpx_connections import SyncConnections

        httpx = self._imported()
        transport = httpx.Client if self._proxied() else httpx.HTTPTransport
        return SyncConnections(self._pool(httpx, self._client, transport), self._max_inflated)

    def _new(self, loop: Loop, gone: Callable[[object], object]) -> AsyncConnections:
        from .httpx_connections import AsyncConnections

        httpx = self._imported()
        transport = httpx.AsyncClient if self._proxied() else httpx.AsyncHTTPTransport
        return AsyncConnections(self._pool(httpx, self._async_client, transport), self._max_inflated, loop, gone)

    def _pool(
        self, library: Any, client: httpx.Client | httpx.AsyncClient | None, transport: Callable[..., object]
    ) -> ConnectionPool:
        from .connection_pool import EXPIRY, ConnectionPool, SingleConnection
        from .transport_errors import library_of

        if client is not None:
            return SingleConnection(library_of(client), client)
        one = library.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=EXPIRY)
        return ConnectionPool(library, partial(transport, limits=one, verify=ssl_context()), self.max_connections)

    def _imported(self) -> Any:
        try:
            return import_module(self._library)
        except ImportError as error:
            name = self._library
            raise ImportError(f"the network needs {name}: pip install {name}", name=name) from error

    def _proxied(self) -> bool:
        """Return whether the environment names a proxy and `direct` is False."""
        from urllib.request import getproxies

        return not (self._direct or {"http", "https", "all"}.isdisjoint(getproxies()))


def ssl_context() -> ssl.SSLContext:
    """Return the TLS context of every connection; reading the certificates takes long, so it is cached.

    Raise `ConnectFailed` if the environment names a file that cannot be read.
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
