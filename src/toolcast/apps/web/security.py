"""Access control of the page: a token, the request's origin, and the Host header.

The page can run tools, so a foreign site that is open in the same browser must not reach it. Each rule works alone: a
foreign site has no token; a Host header with another name is rejected (DNS rebinding: a foreign name may resolve to
127.0.0.1); a request that the browser marks as cross-site is rejected; a request that changes something needs a header
which no HTML form can send. The page itself may load only its own scripts and styles, and inserts no HTML but what
DOMPurify has sanitized.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hmac import compare_digest
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...serve.access import Hosts, split_url

TOKEN: Final = "token"
"""The query parameter with the token, for requests that cannot have headers."""

ASSETS: Final = "/assets/"
"""The path of the page's scripts and styles. They are the same for all users, and need no token."""

_REJECTED: Final = Path(__file__).with_name("page") / "rejected.html"

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
            "trusted-types dompurify",  # the sanitizer's policy; no other code makes HTML of text
        )
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the page's address holds the token
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""The headers of every response."""


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
        app = self._app if failed is None else _rejection(failed, request)
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
        if origin is not None and split_url(origin).netloc != request.headers.get("host"):
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


def _rejection(rule: _Rule, request: Request) -> Response:
    """Return the response if a rule is violated: for a person who opens the page, a page."""
    if request.url.path != "/":
        return JSONResponse({"error": rule.message}, status_code=rule.status)
    page = _REJECTED.read_text(encoding="utf-8").replace("{reason}", escape(rule.message))
    return HTMLResponse(page, status_code=rule.status)


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
