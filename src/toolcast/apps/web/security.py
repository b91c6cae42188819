"""Access control of the page: a token, the request's origin, and the Host header.

The page can run tools, so a foreign site that is open in the same browser must not reach it. Each rule works alone: a
foreign site has no token; a Host header with another name is rejected (DNS rebinding: a foreign name may resolve to
127.0.0.1); a request that the browser marks as cross-site is rejected; a request that changes something needs a header
which no HTML form can send. The page itself may load only its own scripts and styles, and never inserts text as HTML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import aclosing
from hmac import compare_digest
from ipaddress import ip_address
from socket import gethostname
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN: Final = "token"
"""The query parameter with the token, for requests that cannot have headers."""

ASSETS: Final = "/assets/"
"""The path of the page's scripts and styles. They are the same for all users, and need no token."""

BODY_LIMIT: Final = 1_000_000

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        )
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the page's address holds the token
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""The headers of every response."""


class Hosts:
    """The allowed Host headers: the names of the loopback interface, and `host`.

    If the server listens on all interfaces (`0.0.0.0`, `::`), these are the machine's name and every IP address: only
    names can be rebound.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._all_interfaces = host in ("0.0.0.0", "::")
        self._names = {"localhost", host.lower()} | ({gethostname().lower()} if self._all_interfaces else set[str]())

    def __contains__(self, header: object) -> bool:
        """Return True if a request's Host `header` names this server."""
        name = _hostname(str(header))
        if not name:
            return False
        address = _address(name)
        if address is None:
            return name in self._names or name.endswith(".localhost")
        return self._all_interfaces or address.is_loopback or name in self._names


_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
"""A Host header, RFC 9110 section 7.2: an address or a name, and perhaps a port; neither user nor path."""


def _hostname(header: str) -> str:
    found = _HOST.fullmatch(header)
    return (found[1] or found[2]).lower() if found else ""


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # brackets with no address in them
        return urlsplit("")


def _address(name: str) -> Any:
    try:
        return ip_address(name)
    except ValueError:
        return None


class Guard:
    """ASGI middleware that checks the rules for every request before the application runs."""

    def __init__(self, app: ASGIApp, token: str, hosts: Hosts) -> None:
        if not token:
            raise ValueError("token is empty: pass a random secret, such as secrets.token_urlsafe()")
        self._app = app
        self._token = token.encode()
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with an error if a rule is violated, else call the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        failed = next((rule for rule in _RULES if not rule.is_met(self, request)), None)
        app = self._app if failed is None else JSONResponse({"error": failed.message}, status_code=failed.status)
        await app(scope, receive, _with_headers(send))

    def is_unambiguous(self, request: Request) -> bool:
        """Return True if no security header and no token is repeated: other code might read the other value."""
        given = [*(request.headers.getlist(name) for name in _SECURITY_HEADERS), request.query_params.getlist(TOKEN)]
        return all(len(values) < 2 for values in given)

    def is_allowed_host(self, request: Request) -> bool:
        """Return True if the Host header names this server."""
        return request.headers.get("host", "") in self._hosts

    def is_same_origin(self, request: Request) -> bool:
        """Return True unless the browser marks the request as made by another page."""
        if request.url.path == "/" or request.url.path.startswith(ASSETS):
            return True
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin is not None and _split(origin).netloc != request.headers.get("host"):
            return False
        return site in (None, "same-origin")

    def has_token(self, request: Request) -> bool:
        """Return True if the request has the token, in a header, or in the query of a request that changes nothing."""
        if request.url.path.startswith(ASSETS):
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = request.query_params.get(TOKEN, "") if request.method in ("GET", "HEAD") else ""
        return compare_digest(given.encode(), self._token)


class _Rule(NamedTuple):
    is_met: Callable[[Guard, Request], bool]
    status: int
    message: str


_SECURITY_HEADERS: Final = ("host", "origin", "sec-fetch-site", "authorization", "content-type")

_RULES: Final = (
    _Rule(Guard.is_unambiguous, 400, "a security header or the token was sent more than once: send it once"),
    _Rule(Guard.is_allowed_host, 421, "unexpected Host header: open the address that the server printed"),
    _Rule(Guard.is_same_origin, 403, "cross-origin request: only the page itself may send it"),
    _Rule(Guard.has_token, 403, "the token is missing or wrong: open the address that the server printed"),
)
"""The rules for a request in order, and the response if one is violated."""


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return sent


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
