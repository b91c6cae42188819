"""Interceptors that block real requests during tests, and that allow them again."""

from __future__ import annotations

from collections.abc import Awaitable
from urllib.parse import urlsplit

from ..errors import ToolcastError
from ..llms.model_registry import is_this_machine
from ..transport.network import AsyncResponse, Network, Response
from ..values.http_request import HTTPRequest
from .replay_network import ReplayNetwork


class RequestBlocked(ToolcastError):
    """The error for a request to another machine in a test that must not make any."""


class AllowRequests:
    """An interceptor that passes all requests on."""

    sends_nothing: bool = False

    def sends_to(self, url: str) -> bool:
        """Return True: everything is sent."""
        return True

    def open(self, network: Network, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
        """Send `request` over `network`."""
        return network.open(request, connect=connect, read=read)

    def aopen(
        self, network: Network, request: HTTPRequest, *, connect: float | None, read: float | None
    ) -> Awaitable[AsyncResponse]:
        """Send `request` over `network`."""
        return network.aopen(request, connect=connect, read=read)


class BlockRequests(AllowRequests):
    """An interceptor that refuses requests, except those to this machine and those over a `ReplayNetwork`."""

    def sends_to(self, url: str) -> bool:
        """Return False for another machine: `RequestBlocked` is to be raised there, not a missing key."""
        return _is_local(url)

    def open(self, network: Network, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
        """Send `request` if it is for this machine. Raise `RequestBlocked` otherwise."""
        _check(network, request)
        return super().open(network, request, connect=connect, read=read)

    def aopen(
        self, network: Network, request: HTTPRequest, *, connect: float | None, read: float | None
    ) -> Awaitable[AsyncResponse]:
        """Send `request` if it is for this machine. Raise `RequestBlocked` otherwise."""
        _check(network, request)
        return super().aopen(network, request, connect=connect, read=read)


def _check(network: Network, request: HTTPRequest) -> None:
    if isinstance(network, ReplayNetwork) or _is_local(request.url):
        return
    raise RequestBlocked(
        f"{request.method} {request.url}: real requests are blocked in this test, and nothing was sent. Record it with "
        "@pytest.mark.toolcast_record, answer it with the fixture toolcast_llm or use_llm(...), or allow it with "
        "@pytest.mark.toolcast_block_requests(False)."
    )


def _is_local(url: str) -> bool:
    return is_this_machine(urlsplit(url).netloc.rpartition("@")[2])
