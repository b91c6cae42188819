"""Responses over httpx, whose bodies are still arriving.

The client (httpx_connections.py) references each open response, and a response object is only a handle. So when the
handle is garbage-collected, the client can still release the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ..async_support.shielding import CallTimeouts, schedule_in_loop
from ..errors import LLMError
from ..http_request import HTTPRequest
from .cancel_handle import CancelHandle
from .connection_pool import PooledConnection
from .content_decoding import Inflated, Plain
from .responses import BaseAsyncResponse, BaseResponse
from .transport_errors import map_transport_errors

if TYPE_CHECKING:
    from .httpx_connections import AsyncConnections, SyncConnections


class ActiveResponse:
    """A response which has not released its connection. `pieces` is httpx's generator of raw bytes."""

    __slots__ = ("connection", "handle", "limit", "over", "pieces", "reading", "response", "stream")

    def __init__(self, connection: PooledConnection, response: Any, pieces: Any) -> None:
        self.connection: PooledConnection = connection
        self.response: Any = response
        self.pieces: Any = pieces
        self.stream: Any = response.extensions.get("network_stream")  # of httpcore, or None
        self.reading: bool = False
        self.over: bool = False
        self.limit: float | None = None
        self.handle: CancelHandle | None = None

    def apply_limit(self) -> None:
        """Apply `limit` to each read; httpcore has one limit for a whole body."""
        if (stream := self.stream) is not None:
            own: Callable[..., bytes] = stream.read

            def read(size: int, timeout: float | None = None) -> bytes:
                return own(size, timeout if self.limit is None else self.limit)

            stream.read = read


class _BaseHttpxResponse(BaseResponse[ActiveResponse]):
    """The common base of both kinds of response."""

    def __init__(
        self, client: AsyncConnections | SyncConnections, active: ActiveResponse, request: HTTPRequest
    ) -> None:
        response = active.response
        self._client: Any = client
        super().__init__(active, response.status_code, _plain(response.headers.raw), client.limit)
        self._mapped = map_transport_errors(client.library, request, reading=True)

    def _decoder(self) -> Plain | Inflated:
        return Plain() if self._active.response.is_stream_consumed else super()._decoder()


class SyncResponse(_BaseHttpxResponse):
    """A sync response."""

    _client: SyncConnections

    def read(self, limit: float | None = None, /) -> bytes:
        """Return the next decoded chunk of the body, `b""` at its end. Raise `TimeoutError` after `limit` seconds."""
        if self._ended:
            return b""
        active = self._active
        active.limit = limit
        body = self._body
        if body is None or active.over or active.reading:
            body = self._readable()
        try:
            if type(body) is Plain:
                # Nearly every response: its chunks are returned as they are, without the steps of a decoder.
                data = self._next()
                if not data or active.over:
                    self._more(body, data)
            else:
                while not (data := body.take()) and self._more(body, self._next()):
                    pass
        except BaseException:
            self.close()
            raise
        if self._ended:
            self.close()
        return data or b""

    def close(self) -> None:
        """Release the connection. Idempotent; may be called at any time."""
        if not self._active.over:
            self._client.release(self._active)

    def __del__(self) -> None:
        if not self._active.over:
            self._client.discard(self._active)

    def _next(self) -> bytes | None:
        active = self._active
        active.reading = True
        try:
            with self._mapped:
                raw: bytes | None = next(active.pieces, None)
        except LLMError:
            if not active.over:
                raise
            raw = None
        finally:
            active.reading = False
        return raw


class HttpxAsyncResponse(_BaseHttpxResponse, BaseAsyncResponse[ActiveResponse]):
    """An async response."""

    _client: AsyncConnections

    def __init__(self, client: AsyncConnections, active: ActiveResponse, request: HTTPRequest) -> None:
        super().__init__(client, active, request)
        self._step: Callable[[], Any] = active.pieces.__anext__
        self._timeouts = CallTimeouts(client.loop)

    async def aclose(self) -> None:
        """Release the connection. Idempotent; may be called at any time."""
        self._timeouts.end()
        await self._client.release(self._active)

    def __del__(self) -> None:
        if not self._active.over:
            schedule_in_loop(self._client.loop, partial(self._client.release, self._active))

    async def _next(self, limit: float | None) -> bytes | None:
        active = self._active
        raw: bytes | None
        active.reading = True
        try:
            with self._mapped:
                raw = await self._timeouts.run(self._step, limit)
        except StopAsyncIteration:
            raw = None
        except LLMError:
            if not active.over:
                raise
            raw = None
        finally:
            active.reading = False
        return raw


def _plain(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers as text with names in lower case; repeated ones are joined. httpx takes three times as long."""
    plain: dict[str, str] = {}
    for key, value in raw:
        name = key.lower().decode("ascii")
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = value.decode("latin-1")
        plain[name] = f"{plain[name]}, {text}" if name in plain else text
    return plain
