"""The choice of an LLM's network, its option `network=`.

`AutoNetwork`: aiohttp for calls under asyncio where it is installed, otherwise httpx2 or httpx.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..errors import UnsupportedLLMError
from ..values.http_request import HTTPRequest
from .httpx_network import HttpxNetwork
from .network import AsyncResponse, Network, Response

if TYPE_CHECKING:
    from .aiohttp_network import AiohttpNetwork


class AutoNetwork:
    """A `Network` over aiohttp for calls under asyncio, if it is installed, and over httpx2 or httpx for all others."""

    def __init__(self) -> None:
        self._httpx = HttpxNetwork(library="httpx" if find_spec("httpx2") is None else "httpx2")
        self._aiohttp: AiohttpNetwork | None = None
        self._lock = threading.Lock()

    @property
    def connections_in_use(self) -> int:
        """The number of connections that serve a request now, until its response is read or closed, in this process."""
        return self._httpx.connections_in_use + (self._aiohttp.connections_in_use if self._aiohttp is not None else 0)

    @property
    def prefers_event_loop(self) -> bool:
        """True if async calls are the faster ones: aiohttp is installed."""
        return find_spec("aiohttp") is not None

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
        """Send `request` and return its response; see `Network`."""
        return self._httpx.open(request, connect=connect, read=read)

    def aopen(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Awaitable[AsyncResponse]:
        """Send `request` and return its response; see `Network`."""
        return self._of_this_loop().aopen(request, connect=connect, read=read)

    def close(self) -> None:
        """Close the connections of sync calls now, and let each event loop close its own."""
        self._httpx.close()
        if self._aiohttp is not None:
            self._aiohttp.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop and of sync calls now, and let other event loops close theirs."""
        await self._httpx.aclose()
        if self._aiohttp is not None:
            await self._aiohttp.aclose()

    def _of_this_loop(self) -> Network:
        """Return the network for calls in the running event loop."""
        import asyncio

        from ..async_support.shielding import current_loop

        if not isinstance(current_loop(), asyncio.AbstractEventLoop) or find_spec("aiohttp") is None:
            return self._httpx
        from .aiohttp_network import AiohttpNetwork

        with self._lock:  # of two networks one would be collected, and its responses closed
            if self._aiohttp is None:
                self._aiohttp = AiohttpNetwork()
            return self._aiohttp


NetworkChoice: TypeAlias = Network | Literal["aiohttp", "auto"]
"""The values of an LLM's `network=`: a `Network`, `"aiohttp"`, or `"auto"` for aiohttp where it can be used."""


def resolve_network(choice: Network | str | None) -> Network:
    """Return the network for an LLM's `network=`: the caller's own, one of the names, or httpx for None."""
    if choice is None:
        return HttpxNetwork()
    if not isinstance(choice, str):
        return choice
    if choice == "auto":
        return AutoNetwork()
    if choice != "aiohttp":
        raise UnsupportedLLMError(f"network={choice!r}: expected a Network, 'aiohttp', 'auto' or None")
    from .aiohttp_network import AiohttpNetwork  # of an extra

    return AiohttpNetwork()
