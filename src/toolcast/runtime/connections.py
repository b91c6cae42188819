"""Replies over httpx clients, and the doors that own what is open: one door to each client.

httpx is not imported here; a door finds its exceptions through the client, so that a fork of httpx serves as
well. Four faults of httpx end here. A connection that the server closed just before it was used again is
replaced once, silently. A second cancellation breaks no cleanup (`shielding`). An event loop that ends takes
its connections along. And a half-read body is given back also when its reply is garbage: therefore the door
itself holds what is open, and the reply is a mere handle, so that the body is never part of the garbage in
which the handle is found.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

import anyio

from ..errors import ConnectFailed, LLMError, StreamBusy, StreamClosed, StreamInterrupted
from ..providers.wire import HTTPRequest
from .bodies import Inflated, Plain, decoder, whole_body
from .failures import Told, checked, guard_logs, kinds, library_of, revealed
from .shielding import GRACE, Loop, apart, hand_over, unbroken


class _Open:
    """An answer that has not given its connection back. `pieces` is httpx's generator of raw bytes."""

    __slots__ = ("limit", "over", "pieces", "reading", "response")

    def __init__(self, response: Any, pieces: Any) -> None:
        self.response: Any = response
        self.pieces: Any = pieces
        self.reading: bool = False
        self.over: bool = False
        self.limit: float | None = None

    def obey(self) -> None:
        """Have each read end after `limit` seconds; httpcore fixes one limit when a body begins."""
        if (stream := self.stream) is not None:
            own: Callable[..., bytes] = stream.read

            def read(size: int, timeout: float | None = None) -> bytes:
                return own(size, timeout if self.limit is None else self.limit)

            stream.read = read

    def release(self) -> None:
        """Have the connection read as httpcore likes again."""
        if self.stream is not None:
            self.stream.__dict__.pop("read", None)

    @property
    def stream(self) -> Any:
        """httpcore's network stream, where there is one."""
        return self.response.extensions.get("network_stream")


class _Trail:
    """What one request met, as httpcore's `trace` extension tells it."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def see(self, event: str, info: object) -> None:
        self._seen.add(event)

    async def asee(self, event: str, info: object) -> None:
        self._seen.add(event)

    @property
    def reused(self) -> bool:
        """Whether the request went out on a connection that had served another one."""
        connected = any(event.startswith("connection.connect") for event in self._seen)
        return "http11.send_request_headers.started" in self._seen and not connected


class _Door:
    """What both kinds of door know: the client, its library, and what is open."""

    def __init__(self, client: Any, owned: bool, limit: int) -> None:
        self.limit = limit
        self.open: set[_Open] = set()
        self.library: ModuleType = library_of(client)
        guard_logs()
        self.failures: tuple[type[Exception], ...] = kinds(self.library)
        self._client = client
        self._owned = owned

    def forget(self, kept: _Open) -> None:
        """Its connection has been given back."""
        kept.over = True
        self.open.discard(kept)

    def _request(self, request: HTTPRequest, trace: object, *limits: float | None) -> Any:
        if self._client.is_closed:
            raise ConnectFailed("the HTTP client has been closed", retryable=False)
        made = self._client.build_request(
            request.method,
            request.url,
            headers=revealed(request.headers),
            content=request.body,
            timeout=self.library.Timeout(**dict(zip(("connect", "pool", "read", "write"), limits, strict=True))),
            extensions={"trace": trace},
        )
        made.stream = whole_body(self.library)(request.body)
        return made

    def _stale(self, error: LLMError, trail: _Trail) -> bool:
        """Whether a kept connection turned out to be closed, before anything of an answer came."""
        silent = not isinstance(error.__cause__, self.library.RemoteProtocolError)
        return trail.reused and (silent or "without sending a response" in str(error))


class _Reply:
    """What both kinds of reply know: the handle of something open, and where its reading stands."""

    def __init__(self, door: _Door, kept: _Open, request: HTTPRequest) -> None:
        self._kept = kept
        self._told = Told(door.library, request, reading=True)
        self._limit = door.limit
        self._body: Plain | Inflated | None = None
        self._ended = False
        self.status: int = kept.response.status_code
        self.headers: dict[str, str] = {name.lower(): value for name, value in kept.response.headers.items()}

    def _readable(self) -> Plain | Inflated:
        if self._kept.over:
            raise StreamClosed("the answer's body has been closed")
        if self._kept.reading:
            raise StreamBusy("another task or thread is reading this answer's body")
        if self._body is None:
            # Only now, so that an answer in a strange encoding still has a status.
            decoded = self._kept.response.is_stream_consumed
            self._body = Plain() if decoded else decoder(self.headers, self._limit)
        return self._body


class SyncDoor(_Door):
    """Requests over one sync client."""

    def __init__(self, client: Any, owned: bool, limit: int) -> None:
        super().__init__(client, owned, limit)
        self._forsaken: deque[_Open] = deque()

    def send(self, request: HTTPRequest, connect: float | None, read: float | None) -> SyncReply:
        """The answer to `request`, its body unread."""
        self._bury()
        checked(request)
        trail = _Trail()
        try:
            return self._sent(request, trail, connect, read)
        except StreamInterrupted as error:
            if not self._stale(error, trail):
                raise
        return self._sent(request, _Trail(), connect, read)

    def _sent(self, request: HTTPRequest, trail: _Trail, connect: float | None, read: float | None) -> SyncReply:
        with Told(self.library, request):
            response = self._client.send(
                self._request(request, trail.see, connect, connect, read, read),
                stream=True,
                follow_redirects=False,
            )
        kept = _Open(response, response.iter_bytes() if response.is_stream_consumed else response.iter_raw())
        kept.obey()
        self.open.add(kept)
        return SyncReply(self, kept, request)

    def release(self, kept: _Open) -> None:
        """Give a connection back, read to its end or not."""
        if kept.over:
            return
        self.forget(kept)
        kept.release()
        if kept.reading:
            self._wake(kept)
        with suppress(*self.failures):
            kept.response.close()
            if not kept.reading:
                kept.pieces.close()

    def forsake(self, kept: _Open) -> None:
        """Close a connection whose reply is garbage; the pool hears of it at the next request.

        This may run in the middle of anything, also while this thread holds the lock of httpcore's pool.
        """
        self._forsaken.append(kept)
        if kept.stream is not None:
            with suppress(*self.failures):
                kept.stream.close()

    def close(self) -> None:
        """Close all that is open, and the client if it is ours."""
        for kept in list(self.open):
            self.release(kept)
        if self._owned:
            self._client.close()

    def _bury(self) -> None:
        while self._forsaken:
            with suppress(IndexError):
                self.release(self._forsaken.popleft())

    def _wake(self, kept: _Open) -> None:
        """Closing a socket does not wake the thread that waits for it; shutting it down does."""
        if kept.stream is not None:
            with suppress(OSError):
                kept.stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class SyncReply(_Reply):
    """One answer, read by blocking."""

    def __init__(self, door: SyncDoor, kept: _Open, request: HTTPRequest) -> None:
        super().__init__(door, kept, request)
        self._door = door

    def read(self, limit: float | None = None, /) -> bytes:
        """The next decoded piece of the body; `b""` at its end. `TimeoutError` after `limit` seconds."""
        if self._ended:
            return b""
        self._kept.limit = limit
        body = self._readable()
        try:
            while not (data := body.take()):
                if (raw := self._next()) is None:
                    body.close()
                    self._ended = True
                    self.close()
                    break
                body.feed(raw)
        except BaseException:
            self.close()
            raise
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
        if kept.over:
            raise StreamClosed("the answer's body was closed while it was read")
        return raw


class AsyncDoor(_Door):
    """Requests over one async client, in the event loop that runs here; closed when that ends, or by `close`.

    Then `gone` is called.
    """

    def __init__(self, client: Any, owned: bool, limit: int, loop: Loop, gone: Callable[[], object]) -> None:
        super().__init__(client, owned, limit)
        self.loop = loop
        # A loop closes the async generators that it has seen begin; asyncio.run and trio.run both do.
        self._keeper = self._kept_open(gone)
        with suppress(StopIteration):
            self._keeper.__anext__().send(None)

    async def _kept_open(self, gone: Callable[[], object]) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            gone()
            for kept in list(self.open):
                await self.release(kept)
            if self._owned:
                with anyio.move_on_after(GRACE, shield=True):
                    await unbroken(self._client.aclose)

    async def close(self) -> None:
        """Close all that is open, and the client if it is ours."""
        await self._keeper.aclose()

    async def send(self, request: HTTPRequest, connect: float | None, read: float | None) -> HttpxAsyncReply:
        """The answer to `request`, its body unread."""
        checked(request)
        trail = _Trail()
        try:
            return await self._sent(request, trail, connect, read)
        except StreamInterrupted as error:
            if not self._stale(error, trail):
                raise
        return await self._sent(request, _Trail(), connect, read)

    async def _sent(
        self, request: HTTPRequest, trail: _Trail, connect: float | None, read: float | None
    ) -> HttpxAsyncReply:
        # Each step of connecting and each piece of the headers has its own limit; this one is for them all.
        limit = None if connect is None or read is None else connect + read
        with Told(self.library, request):
            sent = self._request(request, trail.asee, connect, connect, read, read)
            send = partial(self._client.send, sent, stream=True, follow_redirects=False)
            with anyio.fail_after(limit):
                response = await apart(send, _undo)
        # httpcore reads the body's limit when the body begins, and each read here comes with its own.
        sent.extensions["timeout"]["read"] = None
        kept = _Open(response, response.aiter_bytes() if response.is_stream_consumed else response.aiter_raw())
        self.open.add(kept)
        return HttpxAsyncReply(self, kept, request)

    async def release(self, kept: _Open) -> None:
        """Give a connection back, read to its end or not, whoever is cancelled meanwhile."""
        if kept.over:
            return
        self.forget(kept)
        with suppress(*self.failures), anyio.move_on_after(GRACE, shield=True):
            await unbroken(partial(_closed, kept))


class HttpxAsyncReply(_Reply):
    """One answer, read by awaiting."""

    def __init__(self, door: AsyncDoor, kept: _Open, request: HTTPRequest) -> None:
        super().__init__(door, kept, request)
        self._door = door
        self._step: Callable[[], Any] = kept.pieces.__anext__

    async def read(self, limit: float | None) -> bytes:
        """The next decoded piece; `b""` at the end. `TimeoutError` after `limit` seconds without one."""
        if self._ended:
            return b""
        body = self._readable()
        try:
            while not (data := body.take()):
                if (raw := await self._next(limit)) is None:
                    body.close()
                    self._ended = True
                    await self.aclose()
                    break
                body.feed(raw)
        except BaseException:
            await self.aclose()
            raise
        return data

    async def aclose(self) -> None:
        """Give the connection back. May be called at any time, and again."""
        await self._door.release(self._kept)

    def __del__(self) -> None:
        if not self._kept.over:
            hand_over(self._door.loop, partial(self._door.release, self._kept))

    async def _next(self, limit: float | None) -> bytes | None:
        kept = self._kept
        kept.reading = True
        try:
            with self._told:
                raw = await self._piece(limit)
        except LLMError:
            if not kept.over:
                raise
            raw = None
        finally:
            kept.reading = False
        if kept.over:
            raise StreamClosed("the answer's body was closed while it was read")
        return raw

    async def _piece(self, limit: float | None) -> bytes | None:
        raw: bytes
        try:
            raw = await unbroken(self._step, 1, limit)
        except StopAsyncIteration:
            return None
        return raw


async def _undo(response: Any) -> None:
    with anyio.move_on_after(GRACE, shield=True):
        await unbroken(response.aclose)


async def _closed(kept: _Open) -> None:
    await kept.response.aclose()
    if not kept.reading:
        await kept.pieces.aclose()
