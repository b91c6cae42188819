"""The mapping of aiohttp's exceptions to toolcast's errors, without keys.

aiohttp's exceptions contain the request's headers, a proxy's password, and parts of the response, which may repeat
the key. So none of them becomes the cause or a part of the message of a toolcast error. Its cause is the operating
system's error, where there is one.
"""

from __future__ import annotations

import os

import aiohttp
from aiohttp.http import HttpProcessingError

from ..errors import BadRequest, ConnectFailed, LLMError, StreamInterrupted, Timeout
from ..http_request import HTTPRequest
from .transport_errors import host_of, scrub_exception, unconnected, unproxied

FAULTS: tuple[type[Exception], ...] = (aiohttp.ClientError, HttpProcessingError, OSError)
"""The exceptions that aiohttp raises, and the operating system's errors that pass through it."""

_WORDS: dict[type[Exception], str] = {
    aiohttp.ServerDisconnectedError: "the server closed it without an answer",
    aiohttp.ClientResponseError: "what came is not HTTP",
    HttpProcessingError: "what came is not HTTP",
    aiohttp.ClientPayloadError: "the body ended in the middle, or is not what HTTP allows",
}


def lost_before_response(error: BaseException) -> bool:
    """Return True if the connection was lost before any of the response arrived, as happens to idle connections."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        # Otherwise the message is the part of the response that arrived.
        return isinstance(error.message, str)
    return isinstance(error, aiohttp.ClientOSError | aiohttp.ClientConnectionResetError)


def unanswered(error: BaseException, request: HTTPRequest, *, connected: bool) -> LLMError:
    """Return the `LLMError` for `error`, which was raised before the response headers arrived."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return _unconnected(error.os_error, request)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return unproxied(request, f"status {error.status}")
    if isinstance(error, ValueError | aiohttp.NonHttpUrlClientError):
        return BadRequest("the request cannot be sent: its address is none of http or https that aiohttp can use")
    if isinstance(error, TimeoutError):
        host = host_of(request)
        if connected:
            return Timeout(f"{host} did not answer in time", phase="first_token")
        return Timeout(f"no connection to {host} in time", phase="connect")
    return _interrupted(error, request)


def broken_off(error: Exception, request: HTTPRequest) -> Exception:
    """Return the exception for `error`, which was raised while reading the body."""
    if isinstance(error, TimeoutError):
        return TimeoutError("nothing more of the body came in time")
    return _interrupted(error, request)


def scrub_aiohttp_exception(error: BaseException, request: HTTPRequest, before: BaseException | None) -> None:
    """Remove the exceptions and the frames of aiohttp from one that is raised unchanged, such as a cancellation."""
    error.__cause__ = None
    error.__context__ = before
    scrub_exception(error, request, before)


def _unconnected(cause: OSError, request: HTTPRequest) -> ConnectFailed:
    scrub_aiohttp_exception(cause, request, None)
    failure = unconnected(request, cause.strerror or str(cause) or type(cause).__name__, [cause])
    failure.__cause__ = cause
    return failure


def _interrupted(error: BaseException, request: HTTPRequest) -> StreamInterrupted:
    # One of aiohttp's exceptions is a single object for the whole program.
    error.__traceback__ = None
    if isinstance(error, OSError) and error.errno:
        why = os.strerror(error.errno)
    else:
        why = next((words for kind, words in _WORDS.items() if isinstance(error, kind)), type(error).__name__)
    return StreamInterrupted(f"the connection to {host_of(request)} broke: {why}. Send the request again.")
