"""An HTTP request to a provider, ready to be sent, and the complete response to one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from urllib.parse import urlsplit

from ..lazy.lazy_dataclasses import dataclass
from .credentials import Secret, SecretURL, mask


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """An HTTP request, ready to be sent.

    Args:
        url: The URL to show and to log. Credentials in it are replaced by `***`; `target` is the URL to send to.
        headers: The headers; values that may be credentials are `Secret`s.
        notes: The settings that the provider does not support and that are left out of `body`.
        tls_name: The host name that the server's certificate must match, if `url` has an IP address instead.
        secret_url: The URL with its credentials, if it has any.
        secrets: The credentials in the body, such as the token of an MCP server.
        prefix: The hash of what the thoughts of the response are bound to; None for a model that binds none.
    """

    method: str
    url: str
    headers: Mapping[str, str | Secret]
    body: bytes = field(repr=False)
    notes: tuple[str, ...] = ()
    tls_name: str | None = None
    secret_url: SecretURL | None = field(default=None, repr=False)
    secrets: tuple[Secret, ...] = field(default=(), repr=False)
    prefix: str | None = None

    @property
    def target(self) -> str:
        """The URL to send the request to, with any credentials in it. For the transport only."""
        secret = self.secret_url
        return secret.reveal() if secret is not None and secret.shown == self.url else self.url

    def mask(self, text: str) -> str:
        """Return `text` without the credentials in the headers, in the URL and in the body."""
        return mask(text, self.credentials)

    @property
    def credentials(self) -> tuple[Secret, ...]:
        """The credentials in the URL, in the headers and in the body. For what removes them."""
        values = (self.secret_url, *self.headers.values(), *self.secrets)
        return tuple([value for value in values if isinstance(value, Secret)])


@dataclass(frozen=True, slots=True)
class HTTPResponse:
    """A complete HTTP response; `headers` have names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


def is_at(url: str, host: str) -> bool:
    """Return True if a URL is at this host, or at one below it, such as that of a region."""
    return f".{urlsplit(url).hostname}".endswith(f".{host}")


def build_request(
    method: str,
    url: SecretURL,
    headers: Mapping[str, str | Secret],
    body: bytes,
    notes: tuple[str, ...] = (),
    secrets: tuple[Secret, ...] = (),
) -> HTTPRequest:
    """Return a request to `url` that shows none of the credentials in the URL; `secrets` are those in the body."""
    shown = url if url.has_secrets else None
    return HTTPRequest(method, url.shown, headers, body, notes, secret_url=shown, secrets=secrets)


def request_id(headers: Mapping[str, str]) -> str | None:
    """Return the provider's id of a request, from whichever header has it."""
    for name in _REQUEST_ID:
        if found := headers.get(name):
            return found
    return None


_REQUEST_ID = (
    "x-request-id",
    "request-id",
    "apim-request-id",
    "x-amzn-requestid",
    "mistral-correlation-id",
    "x-generation-id",
    "cf-ray",
)
