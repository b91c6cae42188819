"""The steps of one attempt of an HTTP request: authorize it, send it, and read its response.

Chat (http_exchange.py) and everything beside it (service.py) take them.
"""

from __future__ import annotations

from typing import Final, Protocol

from ..errors import LLMError, Timeout
from ..http_request import HTTPRequest
from ..providers.base import ProviderAdapter
from ..providers.http_errors import BODY_LIMIT, request_id
from ..retries import retry_after
from ..transport.network import Body, IOBackend, is_sent_to
from .time_limits import TimeLimits

MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024
"""The size limit of one response, far more than any model writes; a single event has a smaller limit."""


class Authentication(Protocol):
    """Credentials that change, and so are not in the headers of the adapter."""

    async def authorize(self, request: HTTPRequest, backend: IOBackend, limit: float | None = None) -> HTTPRequest:
        """Return `request` with its credentials. `limit`: the seconds that the call has left."""
        ...

    def renew(self, request: HTTPRequest) -> bool:
        """Return True if `request`, which was refused with status 401, may be sent again with other credentials."""
        ...


async def authorized(
    authentication: Authentication, request: HTTPRequest, backend: IOBackend, limits: TimeLimits
) -> HTTPRequest:
    """Return `request` with its credentials, within the time of the call. In a replay it needs none."""
    if not is_sent_to(request.url):
        return request
    left = limits.left()
    if not backend.concurrent:  # without an event loop a user's code cannot be interrupted
        return await authentication.authorize(request, backend, left)
    import anyio

    with anyio.move_on_after(left):
        return await authentication.authorize(request, backend, left)
    raise limits.exceeded("total")


async def connected(request: HTTPRequest, backend: IOBackend, limits: TimeLimits) -> Body:
    """Send `request`, and return its response, of any status, once its headers have arrived."""
    connect, read = limits.of_connection(concurrent=backend.concurrent)
    try:
        return await backend.open(request, connect=connect, read=read)
    except Timeout as error:
        raise limits.exceeded("connect" if error.phase == "connect" else None) from error.__cause__


async def refusal(
    adapter: ProviderAdapter,
    body: Body,
    request: HTTPRequest,
    backend: IOBackend,
    limits: TimeLimits,
    received: bytearray | None = None,
) -> LLMError:
    """Return the exception for a response with a status of 300 or more, with its body."""
    content = await read_content(body, limits, BODY_LIMIT)
    if received is not None:
        received += content
    error = adapter.error(body.status, body.headers, content[:BODY_LIMIT])
    waits = retry_after(body.headers, backend.time())
    error.retry_after = error.retry_after if waits is None else waits
    error.request_id = error.request_id or masked_id(body, request)
    return error


async def read_content(body: Body, limits: TimeLimits, most: int) -> bytes:
    """Return the content of `body`. Reading stops after more than `most` bytes."""
    content = bytearray()
    try:
        while len(content) <= most and (data := await body.read(limits.of_read())):
            content += data
            limits.first_token_by = None
    except TimeoutError as error:
        raise limits.exceeded() from error
    return bytes(content)


def masked_id(body: Body, request: HTTPRequest) -> str | None:
    """Return the service's id of the request, from the headers of its response, without credentials."""
    found = request_id(body.headers)
    return request.mask(found) if found else found
