"""The common base of responses over httpx and over aiohttp: they decode the body, and give back the connection.

A response only points to its open connection, so that when it is collected, the connection can still be given back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, Generic, Protocol, TypeVar

from ..errors import StreamBusy, StreamClosed
from .content_decoding import Inflated, Plain, decoder


class _Open(Protocol):
    """A response which has not released its connection."""

    reading: bool
    over: bool


K = TypeVar("K", bound=_Open)

_PLAIN: Final = Plain()  # of all bodies that are not encoded: it is not fed, as their chunks are returned as they are


class BaseResponse(Generic[K]):
    """The common base of sync and async responses: the handle of an open response, and the state of its decoding."""

    def __init__(self, active: K, status: int, headers: dict[str, str], limit: int) -> None:
        self._active = active
        self._limit = limit
        # Made by the first read, so that a response in an unsupported encoding still has a status.
        self._body: Plain | Inflated | None = None if "content-encoding" in headers else _PLAIN
        self._ended = False
        self.status: int = status
        self.headers: dict[str, str] = headers

    def _readable(self) -> Plain | Inflated:
        if self._active.over:
            raise StreamClosed("the response's body has been closed")
        if self._active.reading:
            raise StreamBusy("another task or thread is reading this response's body")
        if self._body is None:
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
        if isinstance(body, Inflated):
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
            if type(body) is Plain:
                # Nearly every response: its chunks are returned as they are, without the steps of a decoder.
                data = await self._next(limit)
                if not data or self._active.over:
                    self._more(body, data)
            else:
                while not (data := body.take()) and self._more(body, await self._next(limit)):
                    pass
        except BaseException:
            await self.aclose()
            raise
        if self._ended:
            await self.aclose()
        return data or b""

    @abstractmethod
    async def aclose(self) -> None:
        """Release the connection. Idempotent; may be called at any time."""

    @abstractmethod
    async def _next(self, limit: float | None) -> bytes | None:
        """Return the next chunk as it was sent, which is not empty; None at the end."""
