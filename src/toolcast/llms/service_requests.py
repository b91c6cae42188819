"""Requests to an LLM's service beside chat: files, batches, embeddings. Written once for sync and async calls.

`send_request` returns a whole response, `open_download` one whose body is still arriving, `run_exchange` the result of
several requests. All use the network, the
retries, the `auth` and the error classes of the LLM. A redirect is an error: it is not followed, so that no key goes
to another origin.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from ..errors import ConnectFailed, LimitExceeded, LLMError, Timeout
from ..http_request import HTTPRequest, HTTPResponse
from ..lazy_dataclasses import dataclass
from ..providers.file_codec import Exchange
from ..providers.http_errors import BODY_LIMIT, request_id
from ..retries import RetryPolicy, next_wait, retry_after
from ..settings import Timeouts
from ..transport.network import Body, IOBackend
from ..transport.transport_errors import scrub_exception

T = TypeVar("T")

RESPONSE_LIMIT = 64 * 1024 * 1024
"""The size limit of a whole response in bytes. Larger ones are downloaded in chunks."""

_REPEATABLE = frozenset(("GET", "HEAD", "PUT", "DELETE"))  # RFC 9110, 9.2.2


class RequestTarget(Protocol):
    """The service that requests are sent to: its retries, its time limits, its authentication and its errors."""

    @property
    def retry_policy(self) -> RetryPolicy: ...
    @property
    def timeouts(self) -> Timeouts: ...

    async def authorize(self, request: HTTPRequest, backend: IOBackend) -> HTTPRequest:
        """Return `request` with the headers of its authentication."""
        ...

    def renew(self, request: HTTPRequest) -> bool:
        """Return True if `request`, which was refused with status 401, may be sent again with other credentials."""
        ...

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """Return the exception for a response with a status of 300 or more."""
        ...


async def send_request(
    target: RequestTarget,
    request: HTTPRequest,
    backend: IOBackend,
    *,
    repeatable: bool | None = None,
    limit: int = RESPONSE_LIMIT,
    total: float | None = None,
) -> HTTPResponse:
    """Send `request` and return its response.

    Args:
        target: The service.
        request: The request.
        backend: The network and the clock.
        repeatable: The request may be sent again where it is unknown if the service has processed it. Default: by its
            method (RFC 9110, 9.2.2), so that nothing is created twice.
        limit: The size limit of the response in bytes.
        total: The limit of the request with its retries in seconds. Default: none, as uploads take their time.

    Raises:
        LLMError: The service refused the request, or the connection failed, after the retries of the policy.
        LimitExceeded: The response is longer than `limit`.
    """
    limits = _TimeLimits(target.timeouts, backend, total)
    repeatable = request.method in _REPEATABLE if repeatable is None else repeatable
    before, used, renewed = sys.exception(), 0, False
    while True:
        sent = await target.authorize(request, backend)
        try:
            body = await _open(target, sent, backend, limits)
            try:
                content = await _read(body, limits, limit)
            finally:
                await body.close()
            if len(content) > limit:
                raise LimitExceeded(f"the service sent more than {limit} bytes in response to {request.url}")
            return HTTPResponse(body.status, body.headers, content)
        except LLMError as error:
            if error.status == 401 and not renewed and target.renew(sent):
                renewed = True
                continue
            wait = _wait_after(target, sent, error, backend, used, before, repeatable=repeatable, limits=limits)
            if wait is None:
                raise
            used += 1
        await backend.sleep(wait)


async def run_exchange(
    target: RequestTarget,
    exchange: Exchange[T],
    backend: IOBackend,
    *,
    repeatable: bool | None = None,
    total: float | None = None,
) -> T:
    """Send the requests of `exchange` and return its result. `repeatable` and `total` are those of `send_request`.

    Its steps read and encode whole files, so that under an event loop they run in a worker thread.

    Raises:
        LLMError: A request failed, and the exchange cannot go on after it.
    """
    found: HTTPRequest | _Result[T] = await _step(exchange.__next__, backend)
    while not isinstance(found, _Result):
        try:
            response = await send_request(target, found, backend, repeatable=repeatable, total=total)
        except LLMError as error:
            found = await _step(partial(exchange.throw, error), backend)
        else:
            found = await _step(partial(exchange.send, response), backend)
    return found.value


class Download:
    """The body of a response, which is still arriving."""

    def __init__(self, body: Body, request: HTTPRequest, limits: _TimeLimits) -> None:
        self._body = body
        self._request = request
        self._limits = limits

    async def read(self) -> bytes:
        """Return the next chunk, or `b""` at the end. Raise `LLMError` if the connection fails."""
        before = sys.exception()
        try:
            return await _chunk(self._body, self._limits)
        except LLMError as error:
            scrub_exception(error, self._request, before)
            raise

    async def close(self) -> None:
        """Release the connection. Idempotent."""
        await self._body.close()


async def open_download(target: RequestTarget, request: HTTPRequest, backend: IOBackend) -> Download:
    """Send `request` and return the body of its response, once the headers have arrived.

    Raises:
        LLMError: The service refused the request, or the connection failed, after the retries of the policy.
    """
    before, used, renewed = sys.exception(), 0, False
    limits = _TimeLimits(target.timeouts, backend, None)
    while True:
        sent = await target.authorize(request, backend)
        try:
            return Download(await _open(target, sent, backend, limits), sent, limits)
        except LLMError as error:
            if error.status == 401 and not renewed and target.renew(sent):
                renewed = True
                continue
            wait = _wait_after(target, sent, error, backend, used, before, repeatable=True, limits=limits)
            if wait is None:
                raise
            used += 1
        await backend.sleep(wait)


class _TimeLimits:
    """The time limits of a request: those of its target, and one for it and its retries together."""

    def __init__(self, timeouts: Timeouts, backend: IOBackend, total: float | None) -> None:
        self.timeouts: Timeouts = timeouts
        self.deadline: float | None = None if total is None else backend.now() + total
        self._total = total
        self._backend = backend

    def left(self, limit: float | None) -> float | None:
        """Return the seconds of a wait that may last for `limit`. Raise `Timeout` if no time is left."""
        if self.deadline is None:
            return limit
        left = self.deadline - self._backend.now()
        if left <= 0:
            raise Timeout(
                f"the request did not end within {self._total} s; allow more with "
                "settings=Settings(timeout=Timeouts(total=...))",
                phase="total",
            )
        return left if limit is None else min(limit, left)


async def _open(target: RequestTarget, request: HTTPRequest, backend: IOBackend, limits: _TimeLimits) -> Body:
    """Return the successful response to one attempt."""
    connect, read = limits.left(limits.timeouts.connect), limits.left(limits.timeouts.first_token)
    try:
        body = await backend.open(request, connect=connect, read=read)
    except Timeout:
        limits.left(None)  # raises the error of the total time, if it is over
        raise
    if body.status < 300:
        return body
    try:
        content = await _read(body, limits, BODY_LIMIT)
    finally:
        await body.close()
    error = target.error(body.status, body.headers, content[:BODY_LIMIT])
    waits = retry_after(body.headers, backend.time())
    error.retry_after = error.retry_after if waits is None else waits
    error.request_id = error.request_id or request_id(body.headers)
    raise error


async def _read(body: Body, limits: _TimeLimits, limit: int) -> bytes:
    """Return the content of `body`. Reading stops after more than `limit` bytes."""
    content = bytearray()
    while len(content) <= limit and (data := await _chunk(body, limits)):
        content += data
    return bytes(content)


async def _chunk(body: Body, limits: _TimeLimits) -> bytes:
    idle = limits.left(limits.timeouts.idle)
    try:
        return await body.read(idle)
    except TimeoutError as error:
        limits.left(None)
        raise Timeout(f"the service sent nothing for {idle} s; try again", phase="idle") from error


def _wait_after(
    target: RequestTarget,
    request: HTTPRequest,
    error: LLMError,
    backend: IOBackend,
    used: int,
    before: BaseException | None,
    *,
    repeatable: bool,
    limits: _TimeLimits,
) -> float | None:
    """Return the seconds until the next attempt; None if `error` is to be raised."""
    scrub_exception(error, request, before)
    if not (repeatable or _unprocessed(error)):
        return None
    now, deadline = backend.now(), limits.deadline
    return next_wait(target.retry_policy, error, retries_used=used, now=now, deadline=deadline, chance=random.random())


def _unprocessed(error: LLMError) -> bool:
    """Return True if the service has certainly not processed the request: no connection, or too many requests."""
    # Not after a 503, which may come from a proxy that has lost the service's response.
    return isinstance(error, ConnectFailed) or error.status == 429


@dataclass(frozen=True, slots=True)
class _Result(Generic[T]):
    """The result of an exchange. A `StopIteration` cannot be raised through a worker thread."""

    value: T


async def _step(proceed: Callable[[], HTTPRequest], backend: IOBackend) -> HTTPRequest | _Result[Any]:
    if not backend.concurrent:
        return _proceed(proceed)
    import anyio.to_thread

    return await anyio.to_thread.run_sync(_proceed, proceed)


def _proceed(proceed: Callable[[], HTTPRequest]) -> HTTPRequest | _Result[Any]:
    try:
        return proceed()
    except StopIteration as end:
        return _Result(end.value)
