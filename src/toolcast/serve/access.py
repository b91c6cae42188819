"""Access to a server: its Host headers, clients on this machine, and the size and form of JSON bodies.

A Host header with another name is rejected because of DNS rebinding: a foreign name may resolve to 127.0.0.1, so that a
foreign site in the same browser reaches the server.
"""

from __future__ import annotations

import json
import re
from contextlib import aclosing
from ipaddress import ip_address
from socket import gethostname
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

BODY_LIMIT: Final = 1_000_000

ANY_HOST: Final = "*"

_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""Headers of a proxy: the client is then another than the one that is connected."""


class Hosts:
    """The allowed Host headers: the names of the loopback interface, and `hosts`.

    If one of them is all interfaces (`0.0.0.0`, `::`), these are also the machine's name and every IP address: only
    names can be rebound. `*` allows every Host header.
    """

    def __init__(self, *hosts: str) -> None:
        self._any = ANY_HOST in hosts
        self._all_interfaces = "0.0.0.0" in hosts or "::" in hosts
        self._names = {"localhost", *[host.lower() for host in hosts]}
        if self._all_interfaces:
            self._names.add(gethostname().lower())

    def __contains__(self, header: object) -> bool:
        """Return True if a request's Host `header` names this server."""
        if self._any:
            return True
        name = _hostname(str(header))
        if not name:
            return False
        address = _address(name)
        if address is None:
            return name in self._names or name.endswith(".localhost")
        return self._all_interfaces or address.is_loopback or name in self._names


LOOPBACK: Final = Hosts()
"""The Host headers of the loopback interface."""

_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
"""A Host header, RFC 9110 section 7.2: an address or a name, and perhaps a port; neither user nor path."""


def _hostname(header: str) -> str:
    found = _HOST.fullmatch(header)
    return (found[1] or found[2]).lower() if found else ""


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL; empty ones for text that is no URL."""
    try:
        return urlsplit(url)
    except ValueError:  # brackets with no address in them
        return urlsplit("")


def _address(name: str) -> Any:
    try:
        return ip_address(name)
    except ValueError:
        return None


def is_local(request: Request) -> bool:
    """Return True if a client on this machine sent the request, and no page of another site did.

    The client's address and the Host header are those of the loopback interface, no proxy forwarded the request, and a
    browser that names the page's origin names one on the loopback interface too.
    """
    address = None if request.client is None else _address(request.client.host)
    if address is None or not address.is_loopback or request.headers.get("host", "") not in LOOPBACK:
        return False
    origin = request.headers.get("origin")
    return (origin is None or split_url(origin).netloc in LOOPBACK) and not any(
        name in request.headers for name in _FORWARDED
    )


async def json_body(request: Request, limit: int = BODY_LIMIT) -> Any:
    """Return the JSON body of the request.

    Raises:
        HTTPException: The body is larger than `limit` bytes, or not JSON.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "expected Content-Type application/json")
    body = bytearray()
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > limit:
                raise HTTPException(413, f"the body is larger than {limit:,} bytes")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not valid JSON") from None
