"""Replies over httpx: the handles through which an answer that is still arriving is read.

What is open belongs to a door (`connections`), and a reply only points to it. So when a reply is garbage, the body
is no part of that garbage, and the door can give its connection back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..async_support.shielding import CallTimeouts, schedule_in_loop
from ..errors import LLMError
from ..http_request import HTTPRequest
from .base_connections import BaseAsyncResponse, BaseResponse
from .cancel_handle import CancelHandle
from .connection_pool import PooledConnection
from .content_decoding import Inflated, Plain
from .transport_errors import map_transport_errors

if TYPE_CHECKING:
    from .httpx_connections import AsyncConnections, SyncConnections


class ActiveResponse:
    """An answer that has not given its connection back. `pieces` is httpx's generator of raw bytes."""

    __slots__ = ("lane", "limit", "line", "over", "pieces", "reading", "response")

    def __init__(self, lane: PooledConnection, response: Any, pieces: Any) -> None:
        self.lane: PooledConnection = lane
        self.response: Any = response
        self.pieces: Any = pieces
        self.reading: bool = False
        self.over: bool = False
        self.limit: float | None = None
        self.line: CancelHandle | None = None

    def obey(self) -> None:
        """Have each read end after `limit` seconds; httpcore fixes one limit when a body begins."""
        if (stream := self.stream) is not None:
            own: Callable[..., bytes] = stream.read

            def read(size: int, timeout: float | None = None) -> bytes:
                return own(size, timeout if self.limit is None else self.limit)

            stream.read = read

    def release(self) -> None:
        """Have the connection read as httpcore likes again."""
        if (stream := self.stream) is not None:
            stream.__dict__.pop("read", None)

    @property
    def stream(self) -> Any:
        """httpcore's network stream, where there is one."""
        return self.response.extensions.get("network_stream")


class _Reply(BaseResponse[ActiveResponse]):
    """The common base of both kinds of response."""

    def __init__(self, door: AsyncConnections | SyncConnections, kept: ActiveResponse, request: HTTPRequest) -> None:
        response = kept.response
        super().__init__(kept, response.status_code, _plain(response.headers.raw), door.limit)
        self._told = map_transport_errors(door.library, request, reading=True)

    def _decoder(self) -> Plain | Inflated:
        return Plain() if self._kept.response.is_stream_consumed else super()._decoder()


class SyncResponse(_Reply):
    """One answer, read by blocking."""

    def __init__(self, door: SyncConnections, kept: ActiveResponse, request: HTTPRequest) -> None:
        super().__init__(door, kept, request)
        self._door = door

    def read(self, limit: float | None = None, /) -> bytes:
        """The next decoded piece of the body; `b""` at its end. `TimeoutError` after `limit` seconds."""
        if self._ended:
            return b""
        self._kept.limit = limit
        body = self._readable()
        try:
            while not (data := body.take()) and self._more(body, self._next()):
                pass
        except BaseException:
            self.close()
            raise
        if self._ended:
            self.close()
        return data

    def close(self) -> None:
        """Give the connection back. May be called at any time, and again."""
        self._door.release(self._kept)

    def __del__(self) -> None:
        if not self._kept.over:
            self._door.forsake(self._kept)

    def _next(self) -> bytes | None:
        kept = self._kept
        kept.reading = True
        try:
            with self._told:
                raw: bytes | None = next(kept.pieces, None)
        except LLMError:
            if not kept.over:
                raise
            raw = None
        finally:
            kept.reading = False
        return raw


class HttpxAsyncResponse(_Reply, BaseAsyncResponse[ActiveResponse]):
    """One answer, read by awaiting."""

    def __init__(self, door: AsyncConnections, kept: ActiveResponse, request: HTTPRequest) -> None:
        super().__init__(door, kept, request)
        self._door = door
        self._step: Callable[[], Any] = kept.pieces.__anext__
        self._timeouts = CallTimeouts(door.loop)

    async def aclose(self) -> None:
        """Give the connection back. May be called at any time, and again."""
        self._timeouts.end()
        await self._door.release(self._kept)

    def __del__(self) -> None:
        if not self._kept.over:
            schedule_in_loop(self._door.loop, partial(self._door.release, self._kept))

    async def _next(self, limit: float | None) -> bytes | None:
        kept = self._kept
        raw: bytes | None
        kept.reading = True
        try:
            with self._told:
                raw = await self._timeouts.run(self._step, limit)
        except StopAsyncIteration:
            raw = None
        except LLMError:
            if not kept.over:
                raise
            raw = None
        finally:
            kept.reading = False
        return raw


def _plain(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers as text, names in lower case; one that came several times is joined. httpx takes thrice the time."""
    plain: dict[str, str] = {}
    for key, value in raw:
        name = key.lower().decode("ascii")
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = value.decode("latin-1")
        plain[name] = f"{plain[name]}, {text}" if name in plain else text
    return plain
