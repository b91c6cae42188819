"""`Background`: the body of a response that the service makes in the background.

The first request creates the response. One that is not streamed is polled until it has ended; a stream that is cut is
resumed after the last event. All of that is one attempt of the call, within its deadline. A response that is closed,
aborted or too late is cancelled at the service, so that it costs nothing more.
"""

from __future__ import annotations

import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ...errors import LLMError, StreamTruncated, Timeout
from ...providers.base import ProviderAdapter
from ...providers.http_adapter import HTTPAdapter
from ...providers.openai.background_requests import BackgroundRequests, NumberedEvents, running_id
from ...transport.cancel_handle import CancelHandle
from ...transport.network import Body, IOBackend
from ...values.http_request import HTTPRequest
from ...values.retries import RetryPolicy
from .http_attempt import MAX_RESPONSE_BYTES, TimeLimits, read_content
from .service import HTTPLLM, Service, service_by

logger: Final = logging.getLogger("toolcast")

_FIRST_WAIT: Final = 0.5  # seconds before the first poll
_GROWTH: Final = 1.5
_LONGEST_WAIT: Final = 10.0
_CANCEL_LIMIT: Final = 3.0  # seconds for the request that cancels a response: it delays the end of the call


class Background:
    """Responses in the background, for one exchange.

    Attributes:
        given_up: The requests beside the first have failed: another first one would begin the response anew.
    """

    def __init__(self, llm: HTTPLLM, backend: IOBackend) -> None:
        self.given_up: bool = False
        self._llm = llm
        self._backend = backend

    def body(
        self,
        first: Body,
        request: HTTPRequest,
        adapter: ProviderAdapter,
        limits: TimeLimits,
        handle: CancelHandle,
        *,
        stream: bool,
    ) -> Body:
        """Return the body of the response whose creation `first` answers."""
        assert isinstance(adapter, HTTPAdapter)
        service = service_by(self._llm, adapter, self._backend, limits.timeouts)
        kind = _ResumedStream if stream else _PolledResponse
        return kind(self, first, BackgroundRequests(adapter, request.body), service, limits, handle)


class _BackgroundBody(ABC):
    """The body of a response from several HTTP responses; status and headers are of the first."""

    def __init__(
        self,
        background: Background,
        first: Body,
        requests: BackgroundRequests,
        service: Service[HTTPAdapter],
        limits: TimeLimits,
        handle: CancelHandle,
    ) -> None:
        self.status: int = first.status
        self.headers: Mapping[str, str] = first.headers
        self._background = background
        self._inner = first
        self._requests = requests
        self._service = service
        self._limits = limits
        self._handle = handle
        self._id = ""  # of a response that may be running

    @property
    def direct_read(self) -> Callable[[float | None], Any]:
        return self.read

    @abstractmethod
    async def read(self, limit: float | None, /) -> bytes:
        """Return the next bytes of the response; `b""` at the end."""

    async def _beside(self, send: Callable[[], Awaitable[Any]]) -> Any:
        """Return what a request beside the first gets, after its retries."""
        try:
            with self._handle:
                return await send()
        except LLMError:
            self._background.given_up = True
            raise

    async def _wait(self, seconds: float) -> None:
        with self._handle:
            await self._service.backend.sleep(self._limits.left(seconds) or 0.0)
        self._limits.left()

    async def close(self) -> None:
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
        if not self._service.backend.concurrent:
            await self._cancel(id)
            return
        import anyio

        from ...async_support.shielding import run_shielded

        async def cancel() -> None:
            # The shield holds against the scopes of anyio and trio, `run_shielded` against those of asyncio.
            with anyio.CancelScope(shield=True):
                await self._cancel(id)

        await run_shielded(cancel)

    async def _cancel(self, id: str) -> None:
        """Cancel the response at the service. A failure is logged: the call has ended with another error, or none."""
        service = replace(self._service, retry_policy=RetryPolicy(max_retries=0))
        try:
            await service.send(self._requests.cancel(id), total=_CANCEL_LIMIT)
        except LLMError as error:
            logger.warning("the background response %s could not be cancelled: %s", id, error)


class _PolledResponse(_BackgroundBody):
    """A whole response, which is polled until it has ended."""

    _at_end = False

    async def read(self, limit: float | None, /) -> bytes:
        """Return the response once it has ended, and then the end."""
        if self._at_end:
            return b""
        self._at_end = True
        content = await read_content(self._inner, self._limits, MAX_RESPONSE_BYTES)
        wait = _FIRST_WAIT
        # Its length is no matter of a time limit for one response of the service.
        self._limits.first_token_by = None
        while (id := running_id(content)) is not None:
            self._id = id
            await self._wait(wait)
            wait = min(wait * _GROWTH, _LONGEST_WAIT)
            request, limits = self._requests.poll(id), self._limits
            poll = partial(self._service.send, request, limit=MAX_RESPONSE_BYTES, limits=limits)
            content = (await self._beside(poll)).body
        self._id = ""
        return content


class _ResumedStream(_BackgroundBody):
    """A stream, which is resumed after the last event where it was cut."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._stream = NumberedEvents()
        self._failures, self._at_end = 0, False
        self._resumed_after: int | None = None

    async def read(self, limit: float | None, /) -> bytes:
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
            self._limits.first_token_by = None  # the service has accepted the request, and is at work
            limit = self._limits.of_read()

    async def _resume(self, cause: LLMError | TimeoutError) -> None:
        """Open the stream again after the last event; raise `cause` if that is impossible."""
        stream = self._stream
        stream.cut()
        await self._inner.close()
        self._limits.left()
        if stream.last is None or not stream.id:
            raise cause
        silent = isinstance(cause, Timeout) and cause.phase == "idle"
        if stream.last != self._resumed_after or silent or not isinstance(cause, LLMError):
            self._failures = 0  # there was an event, or the model is thinking for long
        else:
            wait = self._service.wait_after(cause, self._failures, self._limits.deadline)
            if wait is None:
                self._background.given_up = True
                raise cause
            await self._wait(wait)
            self._failures += 1
        self._resumed_after, self._at_end = stream.last, False
        logger.info("the stream of the response %s was cut; it is resumed after event %d", stream.id, stream.last)
        request = self._requests.resume(stream.id, stream.last)
        self._inner = (await self._beside(partial(self._service.download, request, limits=self._limits))).body
