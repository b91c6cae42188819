"""The steps of one attempt of an HTTP request: authorize it, send it, read its response; and their time limits.

Chat (http_exchange.py) and everything beside it (service.py) take them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final, Protocol

from ...errors import LLMError, StreamInterrupted, Timeout
from ...providers.base import ProviderAdapter
from ...providers.http_errors import BODY_LIMIT
from ...transport.cancel_handle import CancelHandle
from ...transport.network import Body, IOBackend, is_sent_to
from ...values.http_request import HTTPRequest
from ...values.retries import retry_after
from ...values.settings import Timeouts

MAX_RESPONSE_BYTES: Final = 256 * 1024 * 1024
"""The size limit of one response, far more than any model writes; a single event has a smaller limit."""

_PROBLEMS: Final = {
    "connect": "no connection within {} s",
    "first_token": "no response within {} s",
    "idle": "the response stopped for {} s",
    "total": "the call did not end within {} s",
}


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


class TimeLimits:
    """The time limits of the attempts of one request, for every part of it that waits.

    Args:
        timeouts: The limits of each phase, in seconds.
        now: The clock.
        deadline: The time at which the call ends; None without one.
        handle: The handle that aborts the call, if there is one.

    Attributes:
        timeouts: The limits of each phase.
        deadline: The time at which the call ends; None without one. A gate may move it.
        first_token_by: The time until which the response must begin; None without a limit, or once it has begun.
    """

    __slots__ = ("_asked", "_handle", "_idle", "_now", "deadline", "first_token_by", "timeouts")

    def __init__(
        self,
        timeouts: Timeouts,
        now: Callable[[], float],
        deadline: float | None = None,
        handle: CancelHandle | None = None,
    ) -> None:
        self.timeouts: Timeouts = timeouts
        self.deadline: float | None = deadline
        self.first_token_by: float | None = None
        self._now = now
        self._handle = handle
        self._idle = inf if timeouts.idle is None else timeouts.idle
        self._asked = 0.0  # the time when the last wait began

    def begin(self) -> float:
        """Begin an attempt, and return the time."""
        self._asked = now = self._now()
        limit = self.timeouts.first_token
        self.first_token_by = None if limit is None else now + limit
        return now

    def left(self, limit: float | None = None) -> float | None:
        """Return the seconds that a wait may last which has this `limit` of its own; None without any.

        Raises:
            Timeout: The call has no time left.
            StreamInterrupted: It was aborted.
        """
        if self._handle is not None and self._handle.broken:
            raise aborted()
        if self.deadline is None:
            return limit
        self._asked = now = self._now()
        left = self.deadline - now
        if left <= 0:
            raise self.exceeded("total")
        return left if limit is None or left < limit else limit

    def of_connection(self, *, concurrent: bool) -> tuple[float | None, float | None]:
        """Return the seconds for the connection, and for the headers of the response; None without a limit.

        In sync calls the second is the limit of each later chunk, too. The errors are those of `left`.
        """
        left, connect, read, idle = self.left(), self.timeouts.connect, self.timeouts.first_token, self.timeouts.idle
        if not concurrent:
            read = None if read is None or idle is None else max(read, idle)
        if left is None:
            return connect, read
        return left if connect is None or left < connect else connect, left if read is None or left < read else read

    def of_read(self) -> float | None:
        """Return the seconds that the next read may last; None without a limit. Its errors are those of `left`."""
        if self._handle is not None and self._handle.broken:
            raise aborted()
        self._asked = now = self._now()
        first_token_by, deadline = self.first_token_by, self.deadline
        left = self._idle if first_token_by is None else first_token_by - now
        if deadline is not None and left > deadline - now:
            left = deadline - now
        if left <= 0:
            raise self.exceeded()
        return left if left < inf else None

    def exceeded(self, phase: str | None = None) -> Timeout:
        """Return the error for the limit of `phase`. Default: the one that ended the last wait."""
        if phase is None:
            first_token_by = self.first_token_by
            phase = "idle" if first_token_by is None else "first_token"
            until = self._asked + self._idle if first_token_by is None else first_token_by
            if self.deadline is not None and self.deadline < until:
                phase = "total"
        problem = _PROBLEMS[phase].format(getattr(self.timeouts, phase))
        hint = f"allow more with settings=Settings(timeout=Timeouts({phase}=...))"
        return Timeout(f"{problem}; {hint}", phase=phase)


def aborted() -> StreamInterrupted:
    """Return the error of a response that another thread has aborted."""
    return StreamInterrupted("the response was aborted", retryable=False)
