"""Access tokens of Google Cloud, as google-auth finds and refreshes them.

Credentials are those of a service account, of a user, of workload identity federation, or of the machine, from its
metadata server. A look-up may read files, start a program, and send requests; it runs in a thread
(credential_lookup.py), and its requests go through the network of the LLM. Until the token is about to expire, no call
waits again. google-auth is imported in that thread, too.

Nothing of a credential is stored in the objects here but in google-auth's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol

from ...errors import AuthFailed, BadRequest, ConnectFailed, LLMError
from ...transport.network import IOBackend, Network, Response, read_body
from ...values.credentials import Secret, SecretURL, protect_headers
from ...values.http_request import HTTPRequest, build_request
from .credential_lookup import LOOKUP_SECONDS, CredentialLookup

SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"

_AHEAD: Final = 300
"""Tokens that expire within so many seconds are refreshed. google-auth itself counts them as expired at 225 seconds."""
_CONNECT, _READ = 10.0, 30.0  # the limits of a request for a token, where google-auth has none
_LONGEST: Final = 1_000_000  # a response with a token has some kilobytes


class GoogleCredentials(Protocol):
    """Credentials of google-auth."""

    @property
    def token(self) -> str | None: ...
    @property
    def expiry(self) -> datetime | None:
        """The end of the token's validity in UTC, without a time zone."""
        ...

    def refresh(self, request: Any) -> None:
        """Get a new token. `request` sends requests."""
        ...

    def apply(self, headers: dict[str, str]) -> None:
        """Add the token, and the project that is charged, to the headers of a request."""
        ...


class GoogleAccount(NamedTuple):
    """Credentials with a valid token, and their project, if they have one."""

    credentials: GoogleCredentials
    project: str | None


class GoogleTokens:
    """The access tokens of one LLM.

    Args:
        network: Returns the network for requests to the services that issue tokens.
        credentials: The credentials; None: the Application Default Credentials.
        seconds: The time limit of a look-up.
    """

    def __init__(
        self,
        network: Callable[[], Network],
        credentials: GoogleCredentials | None = None,
        *,
        seconds: float = LOOKUP_SECONDS,
    ) -> None:
        self._network = network
        self._given = credentials
        self._lookup = CredentialLookup(
            *("token of Google Cloud", "Look at the credentials, or log in before the call.", "toolcast-google"),
            *(self._find, _failure, seconds),
        )
        # Returns the account, once it was found: a closure, as tools dump the fields of objects.
        self._source: Callable[[], GoogleAccount] | None = None
        self._rejected: Secret | None = None

    async def authorize(self, request: HTTPRequest, backend: IOBackend, limit: float | None = None) -> HTTPRequest:
        """Return `request` with a valid token.

        Args:
            request: The request.
            backend: The I/O of the call.
            limit: The seconds that the call has left; None is no limit.

        Raises:
            AuthFailed: There are no credentials, or they get no token.
            ConnectFailed: The service that issues tokens cannot be reached.
            Timeout: The look-up took too long.
            ImportError: google-auth is not installed.
        """
        account = self._current() or await self._lookup.result(backend, limit)
        headers: dict[str, str] = {}
        account.credentials.apply(headers)
        given = protect_headers({name.lower(): value for name, value in headers.items()})
        return replace(request, headers={**request.headers, **given})

    async def project(self, backend: IOBackend, limit: float | None = None) -> str | None:
        """Return the project of the credentials, if they have one. See `authorize` for the errors."""
        return (self._known() or await self._lookup.result(backend, limit)).project

    def renew(self, request: HTTPRequest) -> bool:
        """Record that the service refused the token of `request`, so that the next request gets another one.

        Returns:
            True if the request had a token of these credentials.
        """
        account, sent = self._known(), request.headers.get("authorization")
        if account is None or not isinstance(sent, Secret):
            return False
        if sent == Secret(f"Bearer {account.credentials.token}"):  # else another call has got a new one
            self._rejected = Secret(str(account.credentials.token))
        return True

    def _known(self) -> GoogleAccount | None:
        return None if self._source is None else self._source()

    def _current(self) -> GoogleAccount | None:
        """Return the account if its token need not be refreshed."""
        account = self._known()
        return None if account is None or self._expires_within(account.credentials, _AHEAD) else account

    def _expires_within(self, credentials: GoogleCredentials, seconds: float) -> bool:
        """Return True if there is no token, if it was rejected, or if it will soon expire."""
        token, expiry = credentials.token, credentials.expiry
        if not token or self._rejected == Secret(token):
            return True
        return expiry is not None and expiry.replace(tzinfo=UTC).timestamp() - datetime.now(UTC).timestamp() < seconds

    def _find(self) -> GoogleAccount:
        """Find the credentials, and refresh their token if needed. Runs in a thread of its own."""
        google, transport = _google_auth(), _Transport(self._network())
        account = self._known()
        if account is None and self._given is not None:
            scoped = google.credentials.with_scopes_if_required(self._given, [SCOPE])
            account = GoogleAccount(scoped, getattr(scoped, "project_id", None))
        elif account is None:
            account = GoogleAccount(*google.auth.default(scopes=[SCOPE], request=transport))
        credentials = account.credentials
        if self._expires_within(credentials, _AHEAD):
            try:
                credentials.refresh(transport)
            except google.exceptions.GoogleAuthError:
                if self._expires_within(credentials, 0):
                    raise
        if not credentials.token:
            raise AuthFailed("the credentials of Google Cloud have no token: pass others. Nothing was sent.")
        found = account
        self._source = lambda: found
        return found


class _Transport:
    """The requests of google-auth, sent through a `Network`. Its interface is `google.auth.transport.Request`."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **others: Any,
    ) -> _Reply:
        """Send a request. `others` are options of the HTTP library that google-auth prefers."""
        sent = protect_headers({name.lower(): value for name, value in (headers or {}).items()})
        content = body.encode() if isinstance(body, str) else body or b""
        request = build_request(method, SecretURL(url), sent, content)
        try:
            reply = self._open(request, _CONNECT if timeout is None else timeout, _READ if timeout is None else timeout)
            try:
                return _Reply(reply.status, reply.headers, read_body(reply, _READ, _LONGEST))
            finally:
                reply.close()
        except (LLMError, TimeoutError) as error:
            text = f"{request.mask(str(error))} ({method} {request.url})"
        raise _google_auth().exceptions.TransportError(text)  # without the frames of the request

    def _open(self, request: HTTPRequest, connect: float, read: float) -> Response:
        # Not by `open_response`: a token must not get into a recording.
        try:
            return self._network.open(request, connect=connect, read=read)
        except BadRequest:
            from ...transport.httpx_network import HttpxNetwork

            if isinstance(self._network, HttpxNetwork):
                raise
            self._network = HttpxNetwork()  # the one of the LLM has no sync API
            return self._network.open(request, connect=connect, read=read)


class _Reply(NamedTuple):
    """A complete response, with the interface of `google.auth.transport.Response`."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class _GoogleAuth(NamedTuple):
    """The modules of google-auth that are used."""

    auth: Any
    credentials: Any
    exceptions: Any


@cache
def _google_auth() -> _GoogleAuth:
    try:
        return _GoogleAuth(
            import_module("google.auth"),
            import_module("google.auth.credentials"),
            import_module("google.auth.exceptions"),
        )
    except ImportError as error:
        raise ImportError(
            "Vertex AI needs google-auth for credentials of Google Cloud: pip install 'toolcast[google]', or pass "
            "auth=, a function that returns the headers with a token",
            name="google.auth",
        ) from error


def _failure(error: BaseException) -> LLMError:
    """Return the exception for an error of google-auth, which names files and services and no credentials."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    text = f"{kinds[0]}: {error}"[:500]
    if "TransportError" in kinds or getattr(error, "retryable", False) is True:
        return ConnectFailed(f"no token of Google Cloud: {text}. Nothing was sent.")
    if "DefaultCredentialsError" in kinds:
        return AuthFailed(
            f"no credentials of Google Cloud: {text} Run `gcloud auth application-default login`, set "
            "GOOGLE_APPLICATION_CREDENTIALS to a file, or pass credentials= or auth=. Nothing was sent."
        )
    return AuthFailed(f"no token of Google Cloud: {text}. Check the credentials, or log in again. Nothing was sent.")
