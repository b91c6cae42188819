"""Methods of httpx's transports replaced for a while, as vcrpy and others do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest


@contextmanager
def replaced_transport(method: Callable[..., Any], *, concurrent: bool = False) -> Iterator[None]:
    """Send requests by `method` of all sync transports, or of all async ones if `concurrent`."""
    transport = httpx.AsyncHTTPTransport if concurrent else httpx.HTTPTransport
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "handle_async_request" if concurrent else "handle_request", method)
        yield
