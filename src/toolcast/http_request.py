"""An HTTP request to a provider, ready to be sent, and the complete response to one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from .credentials import Secret, SecretURL, mask
from .lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """An HTTP request, ready to be sent.

    Args:
        url: The URL to show and to log. Credentials in it are replaced by `***`; `target` is the URL to send to.
        headers: The headers; values that may be credentials are `Secret`s.
        notes: The settings that the provider does not support and that are left out of `body`.
        tls_name: The host name that the server's certificate must match, if `url` has an IP address instead.
        secret_url: The URL with its credentials, if it has any.
    """

    method: str
    url: str
    headers: Mapping[str, str | Secret]
    body: bytes = field(repr=False)
    notes: tuple[str, ...] = ()
    tls_name: str | None = None
    secret_url: SecretURL | None = field(default=None, repr=False)

    @property
    def target(self) -> str:
        """The URL to send the request to, with any credentials in it. For the transport only."""
        secret = self.secret_url
        return secret.reveal() if secret is not None and secret.shown == self.url else self.url

    def mask(self, text: str) -> str:
        """Return `text` without the credentials in the headers and in the URL."""
        return mask(text, (self.secret_url, *self.headers.values()))


@dataclass(frozen=True, slots=True)
class HTTPResponse:
    """A complete HTTP response; `headers` have names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


def build_request(
    method: str, url: SecretURL, headers: Mapping[str, str | Secret], body: bytes, notes: tuple[str, ...] = ()
) -> HTTPRequest:
    """Return a request to `url` that shows none of the credentials in the URL."""
    return HTTPRequest(method, url.shown, headers, body, notes, secret_url=url if url.has_secrets else None)
