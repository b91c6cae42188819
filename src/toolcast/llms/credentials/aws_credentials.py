"""Credentials of AWS, as botocore finds them, and the signatures of requests (Signature Version 4).

A look-up may read files, start a program, or ask a server of AWS for temporary credentials. It runs in a thread
(credential_lookup.py); until the credentials are about to expire, no call waits again. botocore is imported in that
thread, too.

Signing is computed from the methods of botocore's `SigV4Auth`, and not by its `add_auth`, which writes the session
token to the log. Nothing of a credential is stored in the objects here but in botocore's own session.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, cast

from ...errors import AuthFailed, ConnectFailed, LLMError
from ...transport.network import IOBackend
from ...values.credentials import Secret, reveal
from ...values.http_request import HTTPRequest
from .credential_lookup import LOOKUP_SECONDS, CredentialLookup

_AHEAD: Final = 1_000
"""Credentials that expire within so many seconds are looked up again in the thread. botocore itself refreshes them 900
seconds before, so that reading others never waits."""

# Loggers of botocore that write requests and responses with credentials at DEBUG.
_TALKATIVE: Final = ("botocore.auth", "botocore.endpoint", "botocore.parsers", "botocore.utils", "botocore.httpsession")


class AWSCredentials(Protocol):
    """Credentials of one moment."""

    @property
    def access_key(self) -> str: ...
    @property
    def secret_key(self) -> str: ...
    @property
    def token(self) -> str | None: ...


class AWSSession(Protocol):
    """The source of credentials: a session of boto3 or of botocore."""

    def get_credentials(self) -> Any:
        """Return the credentials, which may be refreshed later; None if there are none."""
        ...


class SignatureSecret(Secret):
    """The value of a header with a signature, and the credentials behind it, which texts must not contain either."""

    __slots__ = ("_more",)

    def __init__(self, value: str, *more: str) -> None:
        super().__init__(value)
        # A closure, as in `Secret`: no attribute has the text.
        self._more: Callable[[], tuple[str, ...]] = lambda: more

    def forms(self) -> list[str]:
        """Return the texts that reveal a credential."""
        return [*super().forms(), *self._more()]


class AWSSigner:
    """The signatures of requests to one service in one region, with the credentials of a session or of a profile.

    Args:
        service: The name of the service in signatures.
        region: The region.
        profile: A profile of the configuration files; None: that of the environment, or the default one.
        session: A session of boto3 or botocore, in place of a new one.
        seconds: The time limit of a look-up.
    """

    def __init__(
        self,
        service: str,
        region: str,
        *,
        profile: str | None = None,
        session: AWSSession | None = None,
        seconds: float = LOOKUP_SECONDS,
    ) -> None:
        self._service = service
        self._region = region
        self._profile = profile
        self._session = session
        self._lookup = CredentialLookup(
            *("AWS credentials", "Look at the profile, or log in before the call.", "toolcast-aws"),
            *(self._find, _failure, seconds),
        )
        # Returns botocore's credentials, once they were found: a closure, as tools dump the fields of objects.
        self._source: Callable[[], Any] | None = None

    async def sign(self, request: HTTPRequest, backend: IOBackend, limit: float | None = None) -> HTTPRequest:
        """Return `request` with its signature.

        Args:
            request: The request, complete but for the signature.
            backend: The I/O of the call.
            limit: The seconds that the call has left; None is no limit.

        Raises:
            AuthFailed: There are no credentials, or they cannot be refreshed.
            ConnectFailed: The server that has them cannot be reached.
            Timeout: The look-up took too long.
            ImportError: botocore is not installed.
        """
        frozen = self._current() or await self._lookup.result(backend, limit)
        return signed(request, frozen, self._service, self._region, datetime.now(UTC))

    def _current(self) -> AWSCredentials | None:
        """Return the credentials if that does not block."""
        source = None if self._source is None else self._source()
        if source is None or (hasattr(source, "refresh_needed") and source.refresh_needed(_AHEAD)):
            return None
        return cast("AWSCredentials", source.get_frozen_credentials())

    def _find(self) -> AWSCredentials:
        """Find or refresh the credentials. Runs in a thread of its own."""
        _silent.active = True
        session = self._session or new_session(self._profile)
        for name in _TALKATIVE:
            logging.getLogger(name).addFilter(_drop_if_silent)
        source = session.get_credentials() if self._source is None else self._source()
        if source is None:
            raise AuthFailed(
                "no AWS credentials: set AWS_BEARER_TOKEN_BEDROCK to a Bedrock API key, or AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or log in with `aws sso login`, or pass api_key= or profile=. Nothing was sent."
            )
        frozen: AWSCredentials = source.get_frozen_credentials()
        self._source = lambda: source
        return frozen


class _Silent(threading.local):
    """True in a thread that looks up credentials."""

    active = False


_silent = _Silent()


def _drop_if_silent(record: logging.LogRecord) -> bool:
    return not _silent.active or record.levelno > logging.DEBUG


def new_session(profile: str | None) -> Any:
    """Return a session of botocore. Raise `ImportError` if it is not installed."""
    return _botocore().session.Session(profile=profile)


def configured_region(profile: str | None, session: AWSSession | None) -> str | None:
    """Return the region of a session, or that of a profile in the configuration files.

    Raises:
        AuthFailed: There is no such profile.
        ImportError: botocore is not installed.
    """
    try:
        found: Any = session or new_session(profile)
        if hasattr(found, "region_name"):  # boto3's
            return cast("str | None", found.region_name)
        return cast("str | None", found.get_config_variable("region"))
    except _botocore().exceptions.BotoCoreError as error:
        raise _failure(error) from None


class _Botocore(NamedTuple):
    """The modules of botocore that are used."""

    session: Any
    exceptions: Any
    auth: Any
    awsrequest: Any


@cache
def _botocore() -> _Botocore:
    try:
        return _Botocore(
            import_module("botocore.session"),
            import_module("botocore.exceptions"),
            import_module("botocore.auth"),
            import_module("botocore.awsrequest"),
        )
    except ImportError as error:
        raise ImportError(
            "Bedrock needs botocore for AWS credentials: pip install 'toolcast[bedrock]', or set "
            "AWS_BEARER_TOKEN_BEDROCK and AWS_REGION",
            name="botocore",
        ) from error


def _failure(error: BaseException) -> LLMError:
    """Return the exception for an error of botocore, which names profiles and files and no credentials."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    text = f"{kinds[0]}: {error}"[:500]
    if not {"HTTPClientError", "ConnectionError"}.isdisjoint(kinds):
        return ConnectFailed(f"AWS credentials cannot be fetched: {text}. Nothing was sent.")
    return AuthFailed(
        f"AWS credentials cannot be read: {text}. Check the profile, or log in again. Nothing was sent.",
    )


def signed(request: HTTPRequest, credentials: AWSCredentials, service: str, region: str, now: datetime) -> HTTPRequest:
    """Return `request` with the headers of Signature Version 4.

    `host`, `content-type` and all `x-amz-*` are signed. A proxy may change other headers.

    Args:
        request: The request, complete but for the signature; an earlier signature is replaced.
        credentials: The credentials.
        service: The name of the service in the signature.
        region: The region of the service.
        now: The time of the signature in UTC.
    """
    time = now.strftime("%Y%m%dT%H%M%SZ")
    own = {name: value for name, value in request.headers.items() if name not in _SIGNATURE}
    sent = {name: reveal(value) for name, value in own.items() if name == "content-type" or name.startswith("x-amz-")}
    sent["x-amz-date"] = time
    if credentials.token:
        sent["x-amz-security-token"] = credentials.token
    message = _botocore().awsrequest.AWSRequest(request.method, request.target, headers=sent, data=request.body)
    message.context["timestamp"] = time
    signer = _botocore().auth.SigV4Auth(credentials, service, region)
    names = signer.signed_headers(signer.headers_to_sign(message))
    signature = signer.signature(signer.string_to_sign(message, signer.canonical_request(message)), message)
    value = f"AWS4-HMAC-SHA256 Credential={signer.scope(message)}, SignedHeaders={names}, Signature={signature}"
    secrets = [text for text in (credentials.access_key, credentials.secret_key, credentials.token) if text]
    headers: dict[str, str | Secret] = {**own, "x-amz-date": time}
    headers["authorization"] = SignatureSecret(value, signature, *secrets)
    if credentials.token:
        headers["x-amz-security-token"] = Secret(credentials.token)
    return replace(request, headers=headers)


_SIGNATURE: Final = frozenset(("authorization", "x-amz-date", "x-amz-security-token"))
