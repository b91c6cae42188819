"""Responses over aiohttp: the decoded body, each read with its own time limit.

A body is decompressed here, chunk by chunk and within a limit. Data that arrived before a connection broke is
returned before the error is raised. `AiohttpConnections` references the open responses, and an `AiohttpResponse` is
only a handle, so that a connection is also released when a half-read response is garbage-collected.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import aiohttp

from ..async_support.deadlines import Deadline
from ..http_request import HTTPRequest
from .aiohttp_errors import FAULTS, broken_off, scrub_aiohttp_exception
from .responses import BaseAsyncResponse

if TYPE_CHECKING:
    from .aiohttp_connections import AiohttpConnections


class ResponseCancelHandle:
    """A connection until its end, with the response that is read from it."""

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active: ActiveAiohttpResponse | None = None

    def lost(self, closed: asyncio.Future[None]) -> None:
        """End the read of the response, as the connection is closed."""
        if not closed.cancelled():
            closed.exception()  # otherwise asyncio logs an exception that was never retrieved
        if self.active is not None:
            self.active.lost()


class ActiveAiohttpResponse:
    """A response which has not released its connection."""

    __slots__ = ("_alarm", "_handle", "_total", "content", "over", "reading", "response")

    def __init__(self, response: aiohttp.ClientResponse, handle: ResponseCancelHandle, alarm: Deadline) -> None:
        self.response: aiohttp.ClientResponse = response
        self.content: aiohttp.StreamReader = response.content
        self.reading: bool = False
        self.over: bool = False
        self._alarm = alarm
        self._handle = handle
        self._total = 0
        if not self.content.is_eof():
            handle.active = self

    def begin(self, limit: float | None) -> None:
        """Start a read with a time limit of `limit` seconds."""
        self.reading = True
        self._total = self.content.total_bytes
        self._alarm.wait(limit, self._give_up)

    def end(self) -> None:
        """Finish a read."""
        self.reading = False
        self._alarm.rest()

    def release(self) -> None:
        """Close the connection, or return it to the pool if the body was read to its end."""
        self.over = True
        self._alarm.stop()
        if self._handle.active is self:
            self._handle.active = None
        if self.response.closed:
            return  # the body is complete, and aiohttp has returned the connection to its pool
        connection = self.response.connection
        transport = connection and connection.transport
        self.response.close()
        if transport is not None:
            # close() would wait until the server has received the rest of the request, and has closed TLS.
            transport.abort()

    def lost(self) -> None:
        """End a read that waits: aiohttp itself does not end it where the middle of a body violates HTTP."""
        if self.content.exception() is None and not self.content.is_eof():
            self.content.set_exception(aiohttp.ClientPayloadError())

    def rest(self) -> bytes:
        """Return the unread data that arrived before the connection broke, which aiohttp would not return."""
        return b"" if self.over else self.content._read_nowait(-1)  # pyright: ignore[reportPrivateUsage] - all else raises

    def _give_up(self) -> None:
        # If data arrived, the reader was already woken, and has only not run yet.
        if self.content.total_bytes == self._total and not self.content.is_eof():
            self.content.set_exception(TimeoutError())


class AiohttpResponse(BaseAsyncResponse[ActiveAiohttpResponse]):
    """An async response, whose reads return all data that has arrived."""

    def __init__(self, client: AiohttpConnections, active: ActiveAiohttpResponse, request: HTTPRequest) -> None:
        super().__init__(active, active.response.status, _plain(active.response.headers), client.limit)
        self._client = client
        self._request = request

    async def aclose(self) -> None:
        """Release the connection. Idempotent; may be called at any time."""
        self._client.release(self._active)

    def __del__(self) -> None:
        if not self._active.over:
            # Not at once: garbage collection may run in any thread, inside any code. A closed loop has released it.
            with suppress(RuntimeError):
                self._client.loop.call_soon_threadsafe(self._client.release, self._active)

    async def _next(self, limit: float | None) -> bytes | None:
        active = self._active
        content = active.content
        if content.is_eof():
            return None if content.at_eof() else content.read_nowait()
        before = sys.exception()
        failure: Exception | None = None
        active.begin(limit)
        try:
            raw = await content.readany()
        except FAULTS as error:
            raw = active.rest()
            failure = None if raw else broken_off(error, self._request)
        except BaseException as error:
            scrub_aiohttp_exception(error, self._request, before)
            raise
        finally:
            active.end()
        if failure is not None and not active.over:
            raise failure
        return raw or None


def _plain(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with names in lower case and printable values; repeated ones are joined."""
    plain: dict[str, str] = {name.lower(): value for name, value in headers.items()}
    if len(plain) == len(headers) and "".join(plain.values()).isascii():
        return plain  # nearly always: nothing to join or to decode
    plain = {}
    for name, value in headers.items():
        text = value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        name = name.lower()
        plain[name] = f"{plain[name]}, {text}" if name in plain else text
    return plain
