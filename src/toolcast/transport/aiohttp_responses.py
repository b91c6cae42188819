"""What is read of an answer over aiohttp: its body, decoded, each read with its own time limit.

A body is inflated here, piece by piece and within a limit. What had arrived before a connection broke is handed
out before the error. And a half-read body is given back also when its reply is garbage: the door holds what is
open, and the reply is a mere handle.
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
from .base_connections import BaseAsyncResponse

if TYPE_CHECKING:
    from .aiohttp_connections import AiohttpConnections


class ResponseCancelHandle:
    """A connection, from its first request to its end, and the answer that is coming over it."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: ActiveAiohttpResponse | None = None

    def lost(self, closed: asyncio.Future[None]) -> None:
        """The connection is no more, for whatever reason."""
        if not closed.cancelled():
            closed.exception()  # else asyncio logs that nobody has asked for it
        if self.kept is not None:
            self.kept.lost()


class ActiveAiohttpResponse:
    """An answer that has not given its connection back."""

    __slots__ = ("_alarm", "_line", "_total", "content", "over", "reading", "response")

    def __init__(self, response: aiohttp.ClientResponse, line: ResponseCancelHandle, alarm: Deadline) -> None:
        self.response: aiohttp.ClientResponse = response
        self.content: aiohttp.StreamReader = response.content
        self.reading: bool = False
        self.over: bool = False
        self._alarm = alarm
        self._line = line
        self._total = 0
        if not self.content.is_eof():
            line.kept = self

    def begin(self, limit: float | None) -> None:
        """A read begins, which may wait for `limit` seconds."""
        self.reading = True
        self._total = self.content.total_bytes
        self._alarm.wait(limit, self._give_up)

    def end(self) -> None:
        """The read has ended."""
        self.reading = False
        self._alarm.rest()

    def release(self) -> None:
        """Close the connection, or give it back if the body has been read to its end."""
        self.over = True
        self._alarm.stop()
        if self._line.kept is self:
            self._line.kept = None
        if self.response.closed:
            return  # all of it has come, and aiohttp has given the connection back
        connection = self.response.connection
        transport = connection and connection.transport
        self.response.close()
        if transport is not None:
            # Closing it waits until the server has taken what is still to be sent, and said good-bye in TLS.
            transport.abort()

    def lost(self) -> None:
        """Have a reader wait no longer: of a body that breaks HTTP's rules in its middle, aiohttp tells nobody."""
        if self.content.exception() is None and not self.content.is_eof():
            self.content.set_exception(aiohttp.ClientPayloadError())

    def rest(self) -> bytes:
        """What had come before the connection broke and is not read yet; aiohttp would keep it."""
        return b"" if self.over else self.content._read_nowait(-1)  # pyright: ignore[reportPrivateUsage] - all else raises

    def _give_up(self) -> None:
        # Else the reader has been woken already, and only has not run yet.
        if self.content.total_bytes == self._total and not self.content.is_eof():
            self.content.set_exception(TimeoutError())


class AiohttpResponse(BaseAsyncResponse[ActiveAiohttpResponse]):
    """One answer, read by awaiting: all that has come of its body at once."""

    def __init__(self, door: AiohttpConnections, kept: ActiveAiohttpResponse, request: HTTPRequest) -> None:
        super().__init__(kept, kept.response.status, _plain(kept.response.headers), door.limit)
        self._door = door
        self._request = request

    async def aclose(self) -> None:
        """Give the connection back. May be called at any time, and again."""
        self._door.release(self._kept)

    def __del__(self) -> None:
        if not self._kept.over:
            # Not here and now: this may be any thread, in the middle of anything. A closed loop has closed all.
            with suppress(RuntimeError):
                self._door.loop.call_soon_threadsafe(self._door.release, self._kept)

    async def _next(self, limit: float | None) -> bytes | None:
        kept = self._kept
        if kept.content.is_eof():
            return kept.content.read_nowait() or None
        before = sys.exception()
        failure: Exception | None = None
        kept.begin(limit)
        try:
            raw = await kept.content.readany()
        except FAULTS as error:
            raw = kept.rest()
            failure = None if raw else broken_off(error, self._request)
        except BaseException as error:
            scrub_aiohttp_exception(error, self._request, before)
            raise
        finally:
            kept.end()
        if failure is not None and not kept.over:
            raise failure
        return raw or None


def _plain(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with names in lower case, and values that can be written down; one that came twice is joined."""
    plain: dict[str, str] = {}
    for name, value in headers.items():
        text = value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        name = name.lower()
        plain[name] = f"{plain[name]}, {text}" if name in plain else text
    return plain
