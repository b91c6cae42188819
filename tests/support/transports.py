"""Methods of the transports of httpx and httpx2 replaced for a while, as vcrpy and others do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import httpx2
import pytest

SENT: dict[type[Any], Callable[..., Any]] = {
    **{each: each.handle_request for each in (httpx.HTTPTransport, httpx2.HTTPTransport)},
    **{each: each.handle_async_request for each in (httpx.AsyncHTTPTransport, httpx2.AsyncHTTPTransport)},
}
"""The methods by which the transports send."""


@contextmanager
def replaced_transport(method: Callable[..., Any], *, concurrent: bool = False) -> Iterator[None]:
    """Send requests by `method` of all sync transports, or of all async ones if `concurrent`."""
    with pytest.MonkeyPatch.context() as patch:
        for transport, sent in SENT.items():
            if concurrent == ("Async" in transport.__name__):
                patch.setattr(transport, sent.__name__, method)
        yield
