"""Interceptors of requests: recordings, replays, and what blocks requests during tests.

`intercept` puts an interceptor in place for a block; see `ContextBlocks` for the threads and tasks that it applies to.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from ..async_support.context_blocks import ContextBlocks
from ..values.http_request import HTTPRequest


class Interceptor(Protocol):
    """The receiver of requests in place of the `Network` that they are for, which it may call.

    `sends_nothing` is True if it never calls one, so that waits between requests have no purpose.
    """

    @property
    def sends_nothing(self) -> bool: ...

    def sends_to(self, url: str) -> bool:
        """Return False if no request to `url` is sent, so that it needs no API key."""
        ...

    def open(self, network: Any, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
        """Return the `Response` to `request`; see `Network.open`."""
        ...

    def aopen(self, network: Any, request: HTTPRequest, *, connect: float | None, read: float | None) -> Awaitable[Any]:
        """Return the `AsyncResponse` to `request`; see `Network.aopen`."""
        ...


_interceptors: Final = ContextBlocks[Interceptor](
    "toolcast_interceptor", "the recording (or other interception)", "recordings (or other interceptions)"
)

interceptor: Final = _interceptors.current  # no function around it, as every request calls it
"""Return the interceptor of the current context, or of the process. Raise `ToolcastError` if that is unclear."""


def intercept(new: Interceptor) -> AbstractContextManager[None]:
    """Pass every request of the block to `new`: of this thread or task, and of threads and tasks without another."""
    return _interceptors.block(new)


def intercept_by_default(new: Interceptor) -> AbstractContextManager[None]:
    """Pass every request of this process to `new`, except those inside a block of `intercept`."""
    return _interceptors.by_default(new)
