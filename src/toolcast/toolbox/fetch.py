"""The tool `fetch_url`: a page of the public internet as text, protected against server-side request forgery (SSRF).

Pages influence which URL a model fetches next, so its URLs are not trusted: only public addresses are asked
(`public_http`), and each redirect is checked in the same way. Nothing but the URL is sent: no cookies, no passwords,
nothing through a proxy of the environment, and each connection is used once. The decoded body is limited in size and in
time. One sync function serves sync and async callers; its connection is shut down when the call is cancelled.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from threading import TIMEOUT_MAX, Timer
from time import monotonic
from typing import Final
from urllib.parse import urljoin

from ..errors import LLMError, Timeout, TryAgain
from ..lazy.lazy_dataclasses import dataclass
from ..tools.callable_tool import CallableTool, ToolOutput
from ..tools.tool_context import ToolContext
from ..transport.cancel_handle import CancelHandle
from ..transport.httpx_network import HttpxNetwork
from ..transport.network import Network, Response
from .html_text import page_text
from .public_addresses import Target, target
from .public_http import REDIRECTS, Allowed, PublicHTTP, Resolve, look_up

LIMIT: Final = 1_000_000
TIMEOUT: Final = 30.0

_LATE: Final = "it took too long"
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
    """Return the tool `fetch_url`, which returns the text of a web page or a file.

    Args:
        network: The network of the requests; httpx by default.
        resolve: A function that resolves host names; that of the system by default.
        allowed: A function of an address that returns whether it may be used, instead of the rule that only public
            addresses may. It can open the network of this machine to the model.
        limit: The maximum size of a decoded body in bytes.
        timeout: The limit of one call in seconds, redirects included.
        max_redirects: The maximum number of redirects.

    Raises:
        ValueError: If `limit` is below 1, or `max_redirects` below 0.
    """
    if limit < 1 or max_redirects < 0:
        raise ValueError("fetch_tool: limit is at least 1 byte, and max_redirects not below 0")
    chosen = network or HttpxNetwork(direct=True)
    fetcher = _Fetcher(PublicHTTP(chosen, resolve or look_up, allowed), limit, timeout, max_redirects)
    return CallableTool.from_function(fetcher.fetch_url).with_(timeout=timeout)


@dataclass(frozen=True, slots=True)
class _Fetcher:
    """The options of all fetches."""

    http: PublicHTTP
    limit: int
    timeout: float
    max_redirects: int

    def fetch_url(self, url: str, context: ToolContext) -> ToolOutput:
        """Fetch a web page or a text file from the internet, and get its text.

        Args:
            url: The URL, beginning with http:// or https://.
            context: The context of the call.
        """
        handle = CancelHandle()
        with ExitStack() as leaving:
            leaving.enter_context(handle)
            leaving.callback(context.cancellation.then(handle.break_off))
            # A server may send its headers byte by byte for ever, each byte within the timeout of a read.
            late = Timer(min(self.timeout, TIMEOUT_MAX), handle.break_off)
            late.daemon = True
            late.start()
            leaving.callback(late.cancel)
            try:
                found = _Fetch(self, context, monotonic() + self.timeout).followed(url)
                if handle.broken:  # a body that was cut off may look complete
                    raise TimeoutError
                return found
            except (LLMError, TimeoutError) as error:
                context.check()
                reason = _LATE if handle.broken else _reason(error)
                raise TryAgain(f"{url[:200]} could not be fetched: {reason}") from error
            except ValueError as error:
                raise TryAgain(f"{url[:200]} was not fetched: {error}") from error


@dataclass(frozen=True, slots=True)
class _Fetch:
    """One fetch, which ends at `until` at the latest."""

    fetcher: _Fetcher
    context: ToolContext
    until: float

    def followed(self, url: str) -> ToolOutput:
        """Follow all redirects, and return the text at their end."""
        there = target(url)
        for _ in range(self.fetcher.max_redirects + 1):
            response = self.fetcher.http.open(there, _HEADERS, self._left)
            try:
                onward = response.headers.get("location") if response.status in REDIRECTS else None
                if not onward:
                    return self._output(there, response)
            finally:
                response.close()
            there = target(urljoin(there.url, onward.strip().replace(" ", "%20")))
        raise ValueError(f"it redirects more than {self.fetcher.max_redirects} times")

    def _output(self, there: Target, response: Response) -> ToolOutput:
        """Return the output of the tool for a response."""
        kind, charset = _content_type(response.headers.get("content-type", ""))
        if not _TEXTS.fullmatch(kind):
            raise ValueError(f"it is {kind}, and only text, HTML and JSON are read")
        body, cut = self._body(response)
        kind = kind or ("text/html" if _LOOKS_LIKE_HTML.match(body) else "text/plain")
        text = _decoded(body, kind, charset)
        if "\0" in text[:1000]:
            raise ValueError(f"it is no text, although its type is {kind}; only text, HTML and JSON are read")
        lines = [f"{there.url} ({response.status}, {kind})"]
        if kind in _HTML:
            page = page_text(text, there.url, self.fetcher.limit)
            lines += [f"Title: {page.title}"] if page.title else []
            text, cut = page.text or "(there is no text in it; perhaps a script writes it)", cut or page.cut
        lines += ["", text or "(it is empty)"]
        lines += [f"[the rest was left out: {self.fetcher.limit:,} bytes were read]"] if cut else []
        return ToolOutput("\n".join(lines), "fetch_url", is_error=response.status >= 400)

    def _body(self, response: Response) -> tuple[bytes, bool]:
        """Return the body up to the limit, and whether there was more."""
        body, limit = bytearray(), self.fetcher.limit
        while len(body) <= limit and (chunk := response.read(self._left())):
            body += chunk
        return bytes(body[:limit]), len(body) > limit

    def _left(self) -> float:
        """Return the seconds left. Raises `TimeoutError` if there are none, `TurnCancelled` after a cancellation."""
        self.context.check()
        if (left := self.until - monotonic()) <= 0:
            raise TimeoutError
        return left


def _reason(error: LLMError | TimeoutError) -> str:
    """Return the reason of an error, without its advice on the settings of an LLM."""
    if isinstance(error, (TimeoutError, Timeout)):
        return _LATE
    return error.message.partition(". ")[0]


_HTML: Final = ("text/html", "application/xhtml+xml")
_TEXTS: Final = re.compile(
    r"|text/.*|.*\+(?:json|xml|yaml)"
    r"|application/(?:json|(?:x-)?ndjson|jsonl|xml|(?:x-)?javascript|ecmascript|(?:x-)?yaml|toml|sql|x-sh)"
)
_LOOKS_LIKE_HTML: Final = re.compile(rb"\s*<(?:!doctype html|html)", re.IGNORECASE)
_META_CHARSET: Final = re.compile(rb"<meta[^>]{1,200}?charset\s{0,9}=\s{0,9}[\"']?([\w-]{1,40})", re.IGNORECASE)
_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
# Encodings of Python that no page uses; some of them take time quadratic in the length of the text.
_NO_CHARSETS: Final = ("idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined")


def _content_type(header: str) -> tuple[str, str]:
    """Return the media type and the charset, in lower case; each may be empty."""
    kind, _, rest = header.lower().partition(";")
    charset = re.search(r"charset\s*=\s*[\"']?([^\s\"';]+)", rest)
    return kind.strip(), charset[1] if charset else ""


def _decoded(body: bytes, kind: str, charset: str) -> str:
    """Decode a body by its byte order mark, its header, or its meta element; by default as UTF-8."""
    marked = next((name for mark, name in _MARKS if body.startswith(mark)), "")
    declared = _META_CHARSET.search(body[:2048]) if kind in _HTML else None
    name = marked or charset or (declared[1].decode("ascii") if declared else "utf-8")
    try:
        return body.decode(name if name.replace("-", "_") not in _NO_CHARSETS else "utf-8", "replace")
    except (LookupError, UnicodeError):
        return body.decode("utf-8", "replace")
