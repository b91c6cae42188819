"""The other door to the network: HTTP over aiohttp, for the async methods under asyncio.

aiohttp is an extra, imported when the first request is sent. It costs a fraction of httpx's time per request and
has no sync face; so what it cannot do is refused before anything is sent. As behind the default door there is one
client for each process and event loop; what happens on it is told in `aiohttp_connections`.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from functools import partial
from typing import TYPE_CHECKING

from ..async_support.shielding import Loop, current_loop, hand_over
from ..errors import BadRequest
from ..providers.base import HTTPRequest
from .content_decoding import LIMIT
from .network import AsyncResponse, Response

if TYPE_CHECKING:
    from .aiohttp_connections import AiohttpConnections


class AiohttpNetwork:
    """A `Network` over aiohttp: HTTP/1.1, proxies from the environment, no redirects. Only async, only asyncio.

    `max_connections` is per event loop, `max_inflated` the bytes that a compressed body may hold. Needs
    `pip install 'toolcast[aiohttp]'`; raises `BadRequest` for a sync call and under trio, with nothing sent.
    """

    def __init__(self, *, max_connections: int = 1000, max_inflated: int = LIMIT) -> None:
        self._doors = _Doors(max_connections, max_inflated)
        # Also at the end of the program; the doors do not know the network, so that it can be collected.
        weakref.finalize(self, self._doors.abandon)

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
        """Never an answer: aiohttp has no sync face. Raises `BadRequest`."""
        raise BadRequest(
            "the aiohttp network cannot be called without await; use an async method (acall, astream, achat), "
            "or the default network: leave network= out. Nothing was sent."
        )

    async def aopen(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> AsyncResponse:
        """The answer to `request`; see `Network`."""
        return await self._doors.running().send(request, connect, read)

    def close(self) -> None:
        """Have each event loop close its client."""
        self._doors.abandon()

    async def aclose(self) -> None:
        """Close this event loop's client now, and have other event loops close theirs."""
        await self._doors.close_here()
        self._doors.abandon()


class _Doors:
    """The clients in use: one door for each process id and event loop."""

    def __init__(self, max_connections: int, max_inflated: int) -> None:
        self._max_connections = max_connections
        self._max_inflated = max_inflated
        # Only a loop's own thread makes its door, and each step is one operation of the dict: no lock is needed.
        self._loops: dict[tuple[int, Loop], AiohttpConnections] = {}

    def running(self) -> AiohttpConnections:
        """The door of the event loop that runs here."""
        pid, loop = os.getpid(), current_loop()
        return self._loops.get((pid, loop)) or self._new(pid, loop)

    async def close_here(self) -> None:
        """Close the door of the event loop that runs here, if there is one."""
        if (door := self._loops.get((os.getpid(), current_loop()))) is not None:
            await door.close()

    def abandon(self) -> None:
        """Have the loops of this process close their doors."""
        for owner, loop in list(self._loops):
            if owner == os.getpid() and (door := self._loops.pop((owner, loop), None)) is not None:
                hand_over(loop, door.close)
                if not loop.is_running():
                    door.forsake()

    def _new(self, pid: int, loop: Loop) -> AiohttpConnections:
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
        self._forget_closed()
        gone = partial(self._loops.pop, (pid, loop), None)
        door = self._loops[pid, loop] = AiohttpConnections(loop, self._max_connections, self._max_inflated, gone)
        return door

    def _forget_closed(self) -> None:
        """Drop the doors of loops that were closed without the shutdown that would have told them."""
        for key in list(self._loops):
            if key[1].is_closed() and (door := self._loops.pop(key, None)) is not None:
                door.forsake()
