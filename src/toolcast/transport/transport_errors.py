"""The mapping of httpx's exceptions to toolcast's errors, and the removal of keys from exceptions and logs.

httpx, httpcore and h11 have a request's headers in the locals of their frames, on their exceptions, and sometimes in
the text of a message. All three are removed before an exception is raised to the caller, as the cause of a toolcast
error or, like a cancellation, unchanged. `library` is httpx, or the fork of it that a client comes from.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar, Token
from re import compile as regex
from types import ModuleType, TracebackType
from typing import Protocol
from urllib.parse import urlsplit

from ..errors import BadRequest, ConnectFailed, LLMError, StreamInterrupted, Timeout
from ..values.credentials import Secret
from ..values.http_request import HTTPRequest

_NAME = regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = regex(r"[\t\x20-\x7e]*")
_LOGGERS = ["httpx", "httpx2"] + [
    f"{core}.{part}"
    for core in ("httpcore", "httpcore2")
    for part in ("connection", "http11", "http2", "proxy", "socks")
]
# By the codes of OpenSSL's X509_verify_cert_error_string; any other certificate has an issuer that is not trusted.
_CERTIFICATES = {
    9: "It is not valid yet: check the clock of this machine.",
    10: "It has expired: renew it on the server, or check the clock of this machine.",
    62: "It was issued for another host: check base_url.",
    64: "It was issued for another host: check base_url.",
}


class Masking(Protocol):
    """An object with secrets that it can mask: a request, or the options of a connection."""

    def mask(self, text: str) -> str:
        """Return `text` without the secrets."""
        ...


in_flight: ContextVar[Masking | None] = ContextVar("in_flight", default=None)
"""The request that a library is sending, whose secrets the filter of its log masks."""


def library_of(client: object) -> ModuleType:
    """Return the package of a client: httpx or a fork of it, also for a subclass of their client."""
    for base in type(client).__mro__:
        library = sys.modules[base.__module__.partition(".")[0]]
        if hasattr(library, "RemoteProtocolError"):
            return library
    raise TypeError(f"a client of httpx or httpx2 is needed, not {type(client).__name__}")


def guard_logs(*names: str) -> None:
    """Mask keys in the logs of the HTTP libraries and of `names`, where a server's response may repeat one."""
    for name in (*_LOGGERS, *names):
        logging.getLogger(name).addFilter(_mask_record)


def transport_errors(library: ModuleType) -> tuple[type[Exception], ...]:
    """Return the exceptions of the library, and the operating system's errors that pass through it."""
    return (library.HTTPError, library.InvalidURL, library.StreamError, OSError, UnicodeError)


class map_transport_errors:
    """A context manager that raises the library's exceptions as toolcast's, without keys.

    With `reading`, a timeout is the builtin `TimeoutError`.
    """

    __slots__ = ("_before", "_library", "_reading", "_request", "_token")

    _token: Token[Masking | None]

    def __init__(self, library: ModuleType, request: HTTPRequest, *, reading: bool = False) -> None:
        self._library = library
        self._request = request
        self._reading = reading

    def __enter__(self) -> None:
        self._before = sys.exception()
        self._token = in_flight.set(self._request)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        in_flight.reset(self._token)
        if error is None or isinstance(error, (LLMError, StopAsyncIteration)):
            return
        scrub_exception(error, self._request, self._before)
        if self._reading and isinstance(error, (self._library.TimeoutException, TimeoutError)):
            raise TimeoutError("nothing more of the body came in time") from error
        if isinstance(error, transport_errors(self._library)):
            raise failure(self._library, error, self._request) from error


def checked(request: HTTPRequest) -> HTTPRequest:
    """Return `request` if its headers are valid HTTP. Otherwise raise `BadRequest` with the name of the header."""
    for name, value in request.headers.items():
        if not _NAME.fullmatch(name):
            raise BadRequest(f"{name[:100]!r} is not a header's name")
        if not _VALUE.fullmatch(value if isinstance(value, str) else value.reveal()):
            raise BadRequest(f"the header {name!r} contains a character that HTTP does not allow there")
    return request


def plain_headers(headers: Mapping[str, str | Secret]) -> dict[str, str]:
    """Return the headers as they are sent, with keys. No frame that a traceback shows may reference them."""
    plain = {"accept-encoding": "identity"}
    for name, value in headers.items():
        plain[name.lower()] = value if isinstance(value, str) else value.reveal()
    return plain


def failure(library: ModuleType, error: Exception, request: HTTPRequest) -> LLMError:
    """Return the `LLMError` for `error`, from which keys were removed."""
    why = (str(error) or type(error).__name__)[:200]
    if isinstance(error, (library.InvalidURL, library.UnsupportedProtocol, library.LocalProtocolError)):
        return BadRequest(f"the request cannot be sent: {why}")
    host = host_of(request)
    if isinstance(error, UnicodeError):  # a part of the name is empty, or has more than 63 characters
        return BadRequest(f"the request cannot be sent: {host[:100]!r} is not a host name")
    if isinstance(error, (library.ConnectTimeout, library.PoolTimeout)):
        return Timeout(f"no connection to {host} in time", phase="connect")
    if isinstance(error, (library.TimeoutException, TimeoutError)):
        return Timeout(f"{host} did not answer in time", phase="first_token")
    if isinstance(error, library.ProxyError):
        return unproxied(request, why)
    if isinstance(error, library.ConnectError):
        return unconnected(request, why, chain(error))
    return StreamInterrupted(f"the connection to {host} broke: {why}. Send the request again.")


def host_of(request: HTTPRequest) -> str:
    """Return the host and port of a request as its URL has them, without user and password."""
    return urlsplit(request.url).netloc.rpartition("@")[2]


def unconnected(request: HTTPRequest, why: str, causes: Iterable[BaseException]) -> ConnectFailed:
    """Return the error for a connection that could not be established, with the advice that fits one of its causes."""
    import ssl

    advice, retryable = "Is base_url right, and the server running?", True
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            advice, retryable = _CERTIFICATES.get(cause.verify_code, "Trust its issuer with SSL_CERT_FILE."), False
    return ConnectFailed(f"no connection to {host_of(request)}: {why}. {advice}", retryable=retryable)


def unproxied(request: HTTPRequest, why: str) -> ConnectFailed:
    """Return the error for a proxy that answered but made no connection; `why` contains its status."""
    advice = "Check HTTPS_PROXY with its user and password, or name the host in NO_PROXY."
    host = host_of(request)
    # Repeated wrong logins may lock an account.
    return ConnectFailed(
        f"no connection to {host}: the proxy answered with {why}. {advice}", retryable="407" not in why
    )


def scrub_exception(error: BaseException, request: Masking | None, before: BaseException | None) -> None:
    """Remove frames, requests and keys from `error` and its causes and contexts, up to the exception `before`.

    Without a `request` only the frames are removed.
    """
    for link in chain(error, before):
        link.__traceback__ = None
        if request is not None:
            _mask(link, request)
        if vars(link).get("_request") is not None:
            vars(link)["_request"] = None


def _mask(error: BaseException, request: Masking) -> None:
    error.args = tuple(request.mask(arg) if isinstance(arg, str) else arg for arg in error.args)
    if isinstance(error, OSError) and error.strerror:
        error.strerror = request.mask(error.strerror)
    if isinstance(error, LLMError) and error.rate_limits:
        error.rate_limits = {name: request.mask(value) for name, value in error.rate_limits.items()}


def chain(error: BaseException, before: BaseException | None = None) -> Iterator[BaseException]:
    """Yield `error`, its causes, contexts and grouped exceptions, up to the exception `before`."""
    seen: set[int] = {id(before)}
    ahead: list[BaseException | None] = [error]
    while ahead:
        if (link := ahead.pop()) is not None and id(link) not in seen:
            seen.add(id(link))
            yield link
            ahead += (link.__cause__, link.__context__)
            ahead += getattr(link, "exceptions", ())


def _mask_record(record: logging.LogRecord) -> bool:
    if (request := in_flight.get()) is not None:
        record.msg, record.args = request.mask(record.getMessage()), ()
    return True
