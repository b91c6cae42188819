"""`AiohttpNetwork`: a `Network` over aiohttp, for the async methods under asyncio.

aiohttp is an extra, imported when the first request is sent. It takes a fraction of httpx's time per request and has
no sync API, so a sync call is rejected before anything is sent. As in httpx_network.py there is one client for each
process and event loop; it is in aiohttp_connections.py.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, ClassVar

from ..async_support.shielding import Loop
from ..errors import BadRequest
from ..text.reprs import safe_repr
from ..values.http_request import HTTPRequest
from .connection_pool import ClientsByLoop
from .content_decoding import LIMIT
from .network import AsyncResponse, Response

if TYPE_CHECKING:
    from .aiohttp_connections import AiohttpConnections


class AiohttpNetwork:
    """A `Network` over aiohttp: HTTP/1.1, proxies from the environment, no redirects. Only async, only asyncio.

    `max_connections` is per event loop, `max_inflated` the bytes that a compressed body may hold. Needs
    `pip install 'toolcast[aiohttp]'`; raises `BadRequest` for a sync call and under trio, with nothing sent.
    """

    prefers_event_loop: ClassVar[bool] = True

    def __init__(self, *, max_connections: int = 1000, max_inflated: int = LIMIT) -> None:
        self._clients = _AiohttpClients(max_connections, max_inflated)
        # Also at the end of the program; the clients have no reference to the network, so that it can be collected.
        weakref.finalize(self, self._clients.abandon)

    @safe_repr
    def __repr__(self) -> str:
        return f"AiohttpNetwork(max_connections={self._clients.max_connections})"

    @property
    def connections_in_use(self) -> int:
        """The number of connections that serve a request now, until its response is read or closed, in this process."""
        return self._clients.in_use

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
        """Raise `BadRequest`, as aiohttp has no sync API."""
        raise BadRequest(
            "the aiohttp network cannot be called without await; use an async method (acall, astream, achat), "
            "or the default network: leave network= out. Nothing was sent."
        )

    def aopen(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Awaitable[AsyncResponse]:
        """Send `request` and return its response; see `Network`."""
        return self._clients.running().send(request, connect, read)

    def close(self) -> None:
        """Let each event loop close its client."""
        self._clients.abandon()

    async def aclose(self) -> None:
        """Close this event loop's client now, and let other event loops close theirs."""
        await self._clients.close_here()
        self._clients.abandon()


class _AiohttpClients(ClientsByLoop["AiohttpConnections"]):
    """The clients in use: one for each process id and event loop."""

    def __init__(self, max_connections: int, max_inflated: int) -> None:
        super().__init__()
        self.max_connections: int = max_connections
        self._max_inflated = max_inflated

    def _new(self, loop: Loop, gone: Callable[[object], object]) -> AiohttpConnections:
        if not isinstance(loop, asyncio.AbstractEventLoop):
            raise BadRequest(
                "the aiohttp network works under asyncio, not under trio; use the default network: "
                "leave network= out. Nothing was sent."
            )
        try:
            from .aiohttp_connections import AiohttpConnections
        except ImportError as error:
            raise ImportError(
                "the aiohttp network needs aiohttp: pip install 'toolcast[aiohttp]'", name="aiohttp"
            ) from error
        return AiohttpConnections(loop, self.max_connections, self._max_inflated, gone)
