"""The common base of HTTP over httpx and over aiohttp: clients by event loop, their connections, and their responses.

Neither library is imported here. `ClientsByLoop` has one client for each process id and event loop, a
`LoopConnections`, which owns the open responses. It sends a request, a second time if a pooled connection turns out to
be closed, and is closed at the end of its loop. A response only references its connection, which can therefore be
released when the response is garbage-collected.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ..errors import LLMError, StreamBusy, StreamClosed, StreamInterrupted
from .content_decoding import Inflated, Plain, decoder
from .transport_errors import checked

if TYPE_CHECKING:
    from ..async_support.shielding import Loop
    from ..http_request import HTTPRequest


class _Open(Protocol):
    """A response which has not released its connection."""

    reading: bool
    over: bool


D = TypeVar("D", bound="LoopConnections[Any, Any]")
K = TypeVar("K", bound=_Open)
R = TypeVar("R")
Trail = TypeVar("Trail")


class ClientsByLoop(ABC, Generic[D]):
    """The clients in use: one `D` for each process id and event loop."""

    def __init__(self) -> None:
        # Only a loop's own thread makes its client, and each step is one operation of the dict: no lock is needed.
        self._loops: dict[tuple[int, Loop], D] = {}

    @abstractmethod
    def _new(self, loop: Loop, gone: Callable[[object], object]) -> D:
        """Create the client of the running event loop. It passes itself to `gone` when it closes."""

    def running(self) -> D:
        """Return the client of the running event loop."""
        from ..async_support.shielding import current_loop

        key = os.getpid(), current_loop()
        if (found := self._loops.get(key)) is not None:
            return found
        self._forget_closed()
        made = self._loops[key] = self._new(key[1], partial(self._gone, key))
        return made

    async def close_here(self) -> None:
        """Close the client of the running event loop, if there is one."""
        from ..async_support.shielding import current_loop

        if (found := self._loops.get((os.getpid(), current_loop()))) is not None:
            await found.close()

    def abandon(self) -> None:
        """Let the event loops of this process close their clients."""
        for owner, loop in list(self._loops):
            if owner == os.getpid() and (found := self._loops.pop((owner, loop), None)) is not None:
                from ..async_support.shielding import schedule_in_loop

                schedule_in_loop(loop, found.close)
                if not getattr(loop, "is_running", bool)():
                    found.forsake()

    def _gone(self, key: tuple[int, Loop], client: object) -> None:
        # Another may be in its place by now: `abandon` does not wait.
        if self._loops.get(key) is client:
            del self._loops[key]

    def _forget_closed(self) -> None:
        """Drop the clients of loops that were closed without the shutdown that closes async generators."""
        for key in list(self._loops):
            if getattr(key[1], "is_closed", bool)() and (found := self._loops.pop(key, None)) is not None:
                found.forsake()


class LoopConnections(ABC, Generic[Trail, R]):
    """The connections and open responses of the running event loop, closed when it ends, or by `close`.

    `Trail` is the record of one request, `R` its response.
    """

    loop: Loop

    def _begin(self, loop: Loop, gone: Callable[[object], object]) -> None:
        self.loop = loop
        # asyncio.run and trio.run close the async generators that were started under them, and so these connections.
        self._lifetime = self._until_loop_ends(gone)
        with suppress(StopIteration):
            self._lifetime.__anext__().send(None)

    async def send(self, request: HTTPRequest, connect: float | None, read: float | None) -> R:
        """Send `request` and return its response, with its body unread."""
        checked(request)
        trail = self._trail(read)
        try:
            return await self._sent(request, trail, connect, read)
        except StreamInterrupted as error:
            if not self._stale(error, trail):
                raise
        return await self._sent(request, self._trail(read), connect, read)

    async def close(self) -> None:
        """Close the open responses, and all connections but those of a client that the user passed."""
        await self._lifetime.aclose()

    def forsake(self) -> None:
        """Release what can be released without the event loop, which may never run again."""

    @abstractmethod
    def _trail(self, read: float | None) -> Trail:
        """Return a new record of one request."""

    @abstractmethod
    async def _sent(self, request: HTTPRequest, trail: Trail, connect: float | None, read: float | None) -> R:
        """Send a request once."""

    @abstractmethod
    def _stale(self, error: LLMError, trail: Trail) -> bool:
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


class BaseResponse(Generic[K]):
    """The common base of sync and async responses: the handle of an open response, and the state of its decoding."""

    def __init__(self, active: K, status: int, headers: dict[str, str], limit: int) -> None:
        self._active = active
        self._limit = limit
        self._body: Plain | Inflated | None = None
        self._ended = False
        self.status: int = status
        self.headers: dict[str, str] = headers

    def _readable(self) -> Plain | Inflated:
        if self._active.over:
            raise StreamClosed("the response's body has been closed")
        if self._active.reading:
            raise StreamBusy("another task or thread is reading this response's body")
        if self._body is None:
            # Only now, so that a response in an unsupported encoding still has a status.
            self._body = self._decoder()
        return self._body

    def _decoder(self) -> Plain | Inflated:
        return decoder(self.headers, self._limit)

    def _more(self, body: Plain | Inflated, raw: bytes | None) -> bool:
        """Decode `raw`, or end the body if it is None. Return True if there may be more output."""
        if self._active.over:
            raise StreamClosed("the response's body was closed while it was read")
        if raw is not None:
            body.feed(raw)
            return True
        body.close()
        self._ended = True
        return False


class BaseAsyncResponse(BaseResponse[K], ABC):
    """The common base of async responses."""

    async def read(self, limit: float | None, /) -> bytes:
        """Return the next decoded chunk, `b""` at the end. Raise `TimeoutError` after `limit` seconds without one."""
        if self._ended:
            return b""
        body = self._readable()
        try:
            while not (data := body.take()) and self._more(body, await self._next(limit)):
                pass
        except BaseException:
            await self.aclose()
            raise
        if self._ended:
            await self.aclose()
        return data

    @abstractmethod
    async def aclose(self) -> None:
        """Release the connection. Idempotent; may be called at any time."""

    @abstractmethod
    async def _next(self, limit: float | None) -> bytes | None:
        """Return the next chunk as it was sent, None at the end."""
