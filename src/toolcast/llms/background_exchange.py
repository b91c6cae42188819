"""`BackgroundExchange`: one request that the service runs in the background, and the events of its response.

The first request creates the response. One that is not streamed is polled until it has ended; a stream that is cut is
resumed after the last event. All of that is one attempt of the call, within its deadline. A response that is closed,
aborted or too late is cancelled at the service, so that it costs nothing more.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, cast

from ..errors import LLMError, StreamTruncated, Timeout
from ..http_request import HTTPRequest
from ..providers.http_adapter import HTTPAdapter
from ..providers.openai.background import BackgroundRequests, NumberedEvents, running_id
from ..retries import next_wait
from ..transport.network import Body
from .http_exchange import MAX_RESPONSE_BYTES, HTTPExchange, logger

_FIRST_WAIT: Final = 0.5  # seconds before the first poll
_GROWTH: Final = 1.5
_LONGEST_WAIT: Final = 10.0
_CANCEL_LIMIT: Final = 3.0  # seconds for the request that cancels a response: it delays the end of the call


class BackgroundExchange(HTTPExchange):
    """The events of one response in the background."""

    _requests: BackgroundRequests
    _inner: Body
    _id: str = ""  # of a response that may be running
    _given_up: bool = False  # the requests beside the first have failed: another first one would begin anew

    def direct_reads(self, id: str) -> None:
        """Return None: each chunk is searched for the numbers of its events."""

    async def _connect(self, request: HTTPRequest, now: float) -> Body:
        self._id = ""
        body = await super()._connect(request, now)
        if body.status >= 300:
            return body
        self._inner = body
        self._requests = BackgroundRequests(cast("HTTPAdapter", self._adapter), request.body)
        if not self._conversation.stream:
            return _BackgroundBody(body, _Once(self._poll).read, self._end)
        self._stream = NumberedEvents()
        self._failures, self._at_end = 0, False
        self._resumed_after: int | None = None
        return _BackgroundBody(body, self._read_stream, self._end)

    # -- a response that is polled

    async def _poll(self, limit: float | None) -> bytes:
        """Return the response once it has ended."""
        content = await self._content(self._inner, limit)
        wait, failures = _FIRST_WAIT, 0
        # Its length is no matter of a time limit for one response of the service.
        self._first_token_by = None
        while (id := running_id(content)) is not None:
            self._id = id
            await self._wait(wait)
            wait = min(wait * _GROWTH, _LONGEST_WAIT)
            try:
                content = await self._fetch(self._requests.poll(id))
                failures = 0
            except LLMError as error:
                wait = self._wait_to_repeat(error, failures)
                failures += 1
        self._id = ""
        return content

    async def _fetch(self, request: HTTPRequest) -> bytes:
        body = await self._send_beside(request)
        try:
            return await self._content(body, self._total_left(self._timeouts.first_token))
        except TimeoutError as error:
            raise Timeout("no response to a poll within the time limit", phase="first_token") from error
        finally:
            await body.close()

    async def _content(self, body: Body, limit: float | None) -> bytes:
        content = bytearray()
        while len(content) <= MAX_RESPONSE_BYTES and (data := await body.read(limit)):
            content += data
            limit = self._total_left(self._timeouts.idle)
        return bytes(content)

    # -- a stream that is resumed

    async def _read_stream(self, limit: float | None) -> bytes:
        """Return the next complete events; `b""` after the last."""
        stream = self._stream
        while True:
            try:
                data = b"" if self._at_end else await self._inner.read(limit)
            except (LLMError, TimeoutError) as error:
                if stream.over:
                    return b""
                await self._resume(error)
            else:
                events = stream.feed(data) if data else stream.end()
                self._at_end = not data
                self._id = "" if stream.over else stream.id
                if events or stream.over:
                    return events
                if not data:
                    await self._resume(StreamTruncated("the stream ended before the response"))
            self._first_token_by = None  # the service has accepted the request, and is at work
            limit = self.time_left()

    async def _resume(self, cause: LLMError | TimeoutError) -> None:
        """Open the stream again after the last event; raise `cause` if that is impossible."""
        stream = self._stream
        stream.cut()
        await self._inner.close()
        self._check_cancelled()
        self._total_left(None)
        if stream.last is None or not stream.id:
            raise cause
        silent = isinstance(cause, Timeout) and cause.phase == "idle"
        if stream.last != self._resumed_after or silent or not isinstance(cause, LLMError):
            self._failures = 0  # there was an event, or the model is thinking for long
        else:
            await self._wait(self._wait_to_repeat(cause, self._failures))
            self._failures += 1
        self._resumed_after, self._at_end = stream.last, False
        logger.info("the stream of the response %s was cut; it is resumed after event %d", stream.id, stream.last)
        while True:
            try:
                self._inner = await self._send_beside(self._requests.resume(stream.id, stream.last))
                return
            except LLMError as error:
                await self._wait(self._wait_to_repeat(error, self._failures))
                self._failures += 1

    # -- requests beside the first

    async def _send_beside(self, request: HTTPRequest) -> Body:
        """Return the successful response to a request, which is no attempt of its own."""
        if self._service.authorizes:
            request = await self._in_time(partial(self._service.authorize, request, self._backend, self._left_now()))
        self._request = self._call.request = request
        limits = {name: self._total_left(getattr(self._timeouts, name)) for name in ("connect", "first_token")}
        with self._cancel_handle:
            body = await self._backend.open(request, connect=limits["connect"], read=limits["first_token"])
        if body.status < 300:
            return body
        try:
            assert self._adapter is not None
            raise await self._refusal(self._adapter, body)
        finally:
            await body.close()

    def _wait_to_repeat(self, error: LLMError, failures: int) -> float:
        """Return the seconds to wait before a request beside the first is repeated; raise `error` after the last."""
        self._check_cancelled()
        policy, now = self._service.retry_policy, self._backend.now()
        deadline = self._call.deadline
        wait = next_wait(policy, error, retries_used=failures, now=now, deadline=deadline, chance=random.random())
        if wait is None:
            self._given_up = True
            raise error
        return wait

    def _wait_after(self, error: LLMError) -> float | None:
        return None if self._given_up else super()._wait_after(error)

    async def _wait(self, seconds: float) -> None:
        left = self._total_left(None)
        with self._cancel_handle:
            await self._backend.sleep(seconds if left is None else min(seconds, left))
        self._check_cancelled()
        self._total_left(None)

    def _left_now(self) -> float | None:
        return self._left(self._backend.now(), None)

    def _total_left(self, limit: float | None) -> float | None:
        """Return the seconds of a wait that may last for `limit`. Raise `Timeout` if the call has no time left."""
        deadline = self._call.deadline
        if deadline is None:
            return limit
        left = deadline - self._backend.now()
        if left <= 0:
            raise self._timeout_error("total")
        return left if limit is None else min(limit, left)

    # -- the end

    async def _end(self) -> None:
        """Release the connection, and cancel a response that is still running."""
        id, self._id = self._id, ""
        try:
            # Nothing can be awaited while a coroutine is being closed.
            if id and not isinstance(sys.exception(), GeneratorExit):
                await self._cancel_shielded(id)
        finally:
            await self._inner.close()

    async def _cancel_shielded(self, id: str) -> None:
        """Cancel the response, also if the caller is cancelled: then an event loop would end the request at once."""
        if not self._backend.concurrent:
            await self._cancel(id)
            return
        import anyio

        from ..async_support.shielding import run_shielded

        async def cancel() -> None:
            # The shield holds against the scopes of anyio and trio, `run_shielded` against those of asyncio.
            with anyio.CancelScope(shield=True):
                await self._cancel(id)

        await run_shielded(cancel)

    async def _cancel(self, id: str) -> None:
        """Cancel the response at the service. A failure is logged: the call has ended with another error, or none."""
        request = self._requests.cancel(id)
        try:
            if self._service.authorizes:
                request = await self._service.authorize(request, self._backend, _CANCEL_LIMIT)
            body = await self._backend.open(request, connect=_CANCEL_LIMIT, read=_CANCEL_LIMIT)
            await body.close()
        except (LLMError, TimeoutError) as error:
            logger.warning("the background response %s could not be cancelled: %s", id, request.mask(str(error)))
            return
        if body.status >= 300:
            logger.warning("the background response %s could not be cancelled: status %d", id, body.status)


class _Once:
    """A read method that returns everything at once, and then the end."""

    def __init__(self, fetch: Callable[[float | None], Awaitable[bytes]]) -> None:
        self._fetch: Callable[[float | None], Awaitable[bytes]] | None = fetch

    async def read(self, limit: float | None) -> bytes:
        fetch, self._fetch = self._fetch, None
        return b"" if fetch is None else await fetch(limit)


class _BackgroundBody:
    """The body of a response in the background, from several HTTP responses; status and headers are of the first."""

    def __init__(
        self, first: Body, read: Callable[[float | None], Awaitable[bytes]], close: Callable[[], Awaitable[None]]
    ) -> None:
        self.status: int = first.status
        self.headers: Mapping[str, str] = first.headers
        self.direct_read: Callable[[float | None], Any] = read
        self._read = read
        self._close = close

    async def read(self, limit: float | None, /) -> bytes:
        return await self._read(limit)

    async def close(self) -> None:
        await self._close()
