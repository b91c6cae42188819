"""Who may speak to the chat: whoever knows the token, from this very page, under a name that is meant.

The page can run tools, so that a foreign site which the browser shows beside it must get nowhere. Each rule stands
alone: the token is not known to others; a name that is none of ours is refused (a foreign name can be made to mean
127.0.0.1); what a browser says to have sent from elsewhere is refused; what changes something needs a header that no
form can send. The page in turn may load nothing but its own scripts and styles, and put no text in as HTML.
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
"""The word of the query that holds the token, where no header can be sent."""

ASSETS: Final = "/assets/"
"""Below it lie the page's scripts and styles. They are the same for everybody, and need no token."""

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
"""What every answer carries."""


class Hosts:
    """The names under which the server may be asked for: those of this machine's loopback, and `host`.

    On all addresses (`0.0.0.0`, `::`) that is this machine's name and any address, for only names can be made to lie.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._everywhere = host in ("0.0.0.0", "::")
        self._names = {"localhost", host.lower()} | ({gethostname().lower()} if self._everywhere else set[str]())

    def __contains__(self, header: object) -> bool:
        """Return whether a request's Host `header` names this server."""
        name = _hostname(str(header))
        if not name:
            return False
        address = _address(name)
        if address is None:
            return name in self._names or name.endswith(".localhost")
        return self._everywhere or address.is_loopback or name in self._names


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
    """An ASGI application that lets only requests through that keep the rules, and puts `HEADERS` on every answer."""

    def __init__(self, app: ASGIApp, token: str, hosts: Hosts) -> None:
        if not token:
            raise ValueError("the page needs a token that nobody can guess: secrets.token_urlsafe()")
        self._app = app
        self._token = token.encode()
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        broken = next((rule for rule in _RULES if not rule.kept(self, request)), None)
        app = self._app if broken is None else JSONResponse({"error": broken.words}, status_code=broken.status)
        await app(scope, receive, _with_headers(send))

    def is_unambiguous(self, request: Request) -> bool:
        """Return whether nothing that decides is given twice: of two values others might read the other one."""
        given = [*(request.headers.getlist(name) for name in _DECIDING), request.query_params.getlist(TOKEN)]
        return all(len(values) < 2 for values in given)

    def knows_host(self, request: Request) -> bool:
        """Whether the request is for a name that is meant."""
        return request.headers.get("host", "") in self._hosts

    def is_from_here(self, request: Request) -> bool:
        """Whether the browser, if it is one, says that the request was made by this very page."""
        if request.url.path == "/" or request.url.path.startswith(ASSETS):
            return True
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin is not None and _split(origin).netloc != request.headers.get("host"):
            return False
        return site in (None, "same-origin")

    def knows_token(self, request: Request) -> bool:
        """Whether the request has the token: in a header, or in its address where it changes nothing."""
        if request.url.path.startswith(ASSETS):
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = request.query_params.get(TOKEN, "") if request.method in ("GET", "HEAD") else ""
        return compare_digest(given.encode(), self._token)


class _Rule(NamedTuple):
    kept: Callable[[Guard, Request], bool]
    status: int
    words: str


_DECIDING: Final = ("host", "origin", "sec-fetch-site", "authorization", "content-type")

_RULES: Final = (
    _Rule(Guard.is_unambiguous, 400, "a header, or the token, is given more than once"),
    _Rule(Guard.knows_host, 421, "this server is not asked under that name: use the address that it has printed"),
    _Rule(Guard.is_from_here, 403, "only the page itself may ask for this"),
    _Rule(Guard.knows_token, 403, "the token is missing or wrong: open the address that the server has printed"),
)
"""What is asked of a request, in order, and the answer where it is not so."""


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return sent


async def json_body(request: Request, limit: int = BODY_LIMIT) -> Any:
    """The JSON that the request carries, at most `limit` bytes of it; raises `HTTPException` for anything else."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send JSON, as application/json")
    body = bytearray()
    async with aclosing(request.stream()) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > limit:
                raise HTTPException(413, f"send at most {limit:,} bytes")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "this is no JSON") from None
