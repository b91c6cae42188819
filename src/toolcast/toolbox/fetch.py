"""`fetch_tool`: a page of the public internet as text, and nothing that only this machine can reach.

A model is told by pages what to fetch next, so it is not trusted with an address. A name is looked up once, all that
it leads to must be public (`public_addresses`), and the connection goes to what was looked at: asked again, a name
may lead elsewhere. TLS and the `Host` header still have the name. Each redirect goes through the same. Nothing is
sent but the URL: no cookies, no passwords, nothing through a proxy of the environment, and each connection is used
once. What is read is limited in size, unpacked, and in time. One sync function serves both faces: its line is cut
where the call is cancelled.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import ip_address
from threading import TIMEOUT_MAX, Timer
from time import monotonic
from typing import Final
from urllib.parse import urljoin

from ..errors import ConnectFailed, LLMError, Timeout, TryAgain
from ..http_request import HTTPRequest
from ..tools.callable_tool import CallableTool, ToolOutput
from ..tools.context import ToolContext
from ..transport.cancel_handle import CancelHandle
from ..transport.network import HttpxNetwork, Network, Response
from .html_text import page_text
from .public_addresses import IPAddress, Target, refusal, target

LIMIT: Final = 1_000_000
TIMEOUT: Final = 30.0

Resolve = Callable[[str, int], Sequence[str]]
"""The addresses of a host, for a port. Raises `OSError` where there are none."""
Allowed = Callable[[IPAddress], bool]

_LATE: Final = "it took too long"
_CONNECT: Final = 10.0
_TRIED: Final = 4  # addresses of one host
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_HEADERS: Final = {
    "accept": "text/html, application/xhtml+xml, application/json, text/*;q=0.9, */*;q=0.5",
    "connection": "close",
}


def fetch_tool(
    *,
    network: Network | None = None,
    resolve: Resolve | None = None,
    allowed: Allowed | None = None,
    limit: int = LIMIT,
    timeout: float = TIMEOUT,
    max_redirects: int = 5,
) -> CallableTool:
    """The tool `fetch_url{url}`: the text of a web page or file.

    Of a body at most `limit` bytes are read, unpacked; `timeout` is in seconds, for all of it. `allowed` says of an
    address whether it may be asked, instead of the rule that only public ones may: whoever gives it opens a door to
    what this machine can reach. `resolve` looks up names, `network` replaces httpx.
    """
    if limit < 1 or max_redirects < 0:
        raise ValueError("fetch_tool: limit is at least 1 byte, and max_redirects not below 0")
    chosen = network or HttpxNetwork(direct=True)
    fetcher = _Fetcher(chosen, resolve or _looked_up, allowed, limit, timeout, max_redirects)
    return CallableTool.from_function(fetcher.fetch_url).with_(timeout=timeout)


@dataclass(frozen=True, slots=True)
class _Fetcher:
    """What all fetches have in common."""

    network: Network
    resolve: Resolve
    allowed: Allowed | None
    limit: int
    timeout: float
    max_redirects: int

    def fetch_url(self, url: str, context: ToolContext) -> ToolOutput:
        """Fetch a web page or a text file from the internet, and get its text.

        Args:
            url: The address, beginning with http:// or https://.
        """
        line = CancelHandle()
        with ExitStack() as leaving:
            leaving.enter_context(line)
            leaving.callback(context.cancellation.then(line.break_off))
            # A server may send its headers for ever, one byte after the other, each of them in time.
            late = Timer(min(self.timeout, TIMEOUT_MAX), line.break_off)
            late.daemon = True
            late.start()
            leaving.callback(late.cancel)
            try:
                found = _Fetch(self, context, monotonic() + self.timeout).followed(url)
                if line.broken:  # where a body was cut off may look like its end
                    raise TimeoutError
                return found
            except (LLMError, TimeoutError) as error:
                context.check()
                why = _LATE if line.broken else _reason(error)
                raise TryAgain(f"{url[:200]} could not be fetched: {why}") from error
            except ValueError as error:
                raise TryAgain(f"{url[:200]} was not fetched: {error}") from error


@dataclass(frozen=True, slots=True)
class _Fetch:
    """One fetch, which has time until `until`."""

    fetcher: _Fetcher
    context: ToolContext
    until: float

    def followed(self, url: str) -> ToolOutput:
        """What is at the end of all redirects."""
        there = target(url)
        for _ in range(self.fetcher.max_redirects + 1):
            reply = self._opened(there)
            try:
                onward = reply.headers.get("location") if reply.status in _REDIRECTS else None
                if not onward:
                    return self._told(there, reply)
            finally:
                reply.close()
            there = target(urljoin(there.url, onward.strip().replace(" ", "%20")))
        raise ValueError(f"it leads on and on, more than {self.fetcher.max_redirects} times")

    def _opened(self, there: Target) -> Response:
        """The answer of the first address that can be reached."""
        failure: LLMError | None = None
        for address in self._addresses(there)[:_TRIED]:
            request = HTTPRequest("GET", there.at(address), {**_HEADERS, "host": there.authority}, b"", (), there.host)
            try:
                return self.fetcher.network.open(request, connect=min(_CONNECT, self._left()), read=self._left())
            except (ConnectFailed, Timeout) as error:
                failure = error
        assert failure is not None
        raise failure

    def _addresses(self, there: Target) -> list[IPAddress]:
        """What the host leads to, looked up once. Raises `ValueError` where any of it may not be asked."""
        found = [there.address] if there.address is not None else self._resolved(there)
        allowed = self.fetcher.allowed
        name = there.host if there.address is None else "it"
        for address in found:
            if allowed is not None and not allowed(address):
                raise ValueError(f"{name} leads to {address}, which may not be asked")
            if allowed is None and (why := refusal(address)) is not None:
                raise ValueError(f"{name} leads to {why}; only public addresses are fetched")
        return found

    def _resolved(self, there: Target) -> list[IPAddress]:
        try:
            found = [ip_address(address) for address in self.fetcher.resolve(there.host, there.port)]
        except OSError as error:
            raise ValueError(f"no address is known of {there.host}: {error.strerror or error}") from error
        if not found:
            raise ValueError(f"no address is known of {there.host}")
        return list(dict.fromkeys(found))

    def _told(self, there: Target, reply: Response) -> ToolOutput:
        """What the model reads of an answer."""
        kind, charset = _content_type(reply.headers.get("content-type", ""))
        if not _TEXTS.fullmatch(kind):
            raise ValueError(f"it is {kind}, and only text, HTML and JSON are read")
        body, cut = self._body(reply)
        kind = kind or ("text/html" if _LOOKS_LIKE_HTML.match(body) else "text/plain")
        text = _decoded(body, kind, charset)
        if "\0" in text[:1000]:
            raise ValueError(f"it is no text, although it says so ({kind}); only text, HTML and JSON are read")
        lines = [f"{there.url} ({reply.status}, {kind})"]
        if kind in _HTML:
            page = page_text(text, there.url, self.fetcher.limit)
            lines += [f"Title: {page.title}"] if page.title else []
            text, cut = page.text or "(there is no text in it; perhaps a script writes it)", cut or page.cut
        lines += ["", text or "(it is empty)"]
        lines += [f"[the rest was left out: {self.fetcher.limit:,} bytes were read]"] if cut else []
        return ToolOutput("\n".join(lines), "fetch_url", is_error=reply.status >= 400)

    def _body(self, reply: Response) -> tuple[bytes, bool]:
        """As much of the body as may be read, and whether there was more."""
        body, limit = bytearray(), self.fetcher.limit
        while len(body) <= limit and (piece := reply.read(self._left())):
            body += piece
        return bytes(body[:limit]), len(body) > limit

    def _left(self) -> float:
        """The seconds that are left. Raises what is right where none are."""
        self.context.check()
        if (left := self.until - monotonic()) <= 0:
            raise TimeoutError
        return left


def _looked_up(host: str, port: int) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _reason(error: LLMError | TimeoutError) -> str:
    """What went wrong, without the advice that is for whoever set up a service."""
    if isinstance(error, (TimeoutError, Timeout)):
        return _LATE
    return error.message.partition(". ")[0]


_HTML: Final = ("text/html", "application/xhtml+xml")
_TEXTS: Final = re.compile(
    r"|text/.*|.*\+(?:json|xml|yaml)"
    r"|application/(?:json|(?:x-)?ndjson|jsonl|xml|(?:x-)?javascript|ecmascript|(?:x-)?yaml|toml|sql|x-sh)"
)
_LOOKS_LIKE_HTML: Final = re.compile(rb"\s*<(?:!doctype html|html)", re.IGNORECASE)
_SAYS_CHARSET: Final = re.compile(rb"<meta[^>]{1,200}?charset\s{0,9}=\s{0,9}[\"']?([\w-]{1,40})", re.IGNORECASE)
_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
# Python's own encodings of pieces of text, in which no page is written; some take time with the square of its length.
_NO_CHARSETS: Final = ("idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined")


def _content_type(header: str) -> tuple[str, str]:
    """The type, and the charset, in lower case; each may be missing."""
    kind, _, rest = header.lower().partition(";")
    charset = re.search(r"charset\s*=\s*[\"']?([^\s\"';]+)", rest)
    return kind.strip(), charset[1] if charset else ""


def _decoded(body: bytes, kind: str, charset: str) -> str:
    """The text of a body: as its first bytes say, or its header, or the page itself; UTF-8 where that is nothing."""
    marked = next((name for mark, name in _MARKS if body.startswith(mark)), "")
    said = _SAYS_CHARSET.search(body[:2048]) if kind in _HTML else None
    name = marked or charset or (said[1].decode("ascii") if said else "utf-8")
    try:
        return body.decode(name if name.replace("-", "_") not in _NO_CHARSETS else "utf-8", "replace")
    except (LookupError, UnicodeError):
        return body.decode("utf-8", "replace")
