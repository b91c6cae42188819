"""Credentials: API keys and URLs that contain them, the environment variables they are read from, and masking.

A credential is read once, wrapped in a `Secret` and revealed where the request is sent. Every text that may contain it
(errors, log records, provider error bodies) passes through `mask` first, which also removes what `secret_patterns`
finds.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, unquote, unquote_plus

from ..errors import AuthFailed
from .secret_patterns import MARK, mask_secrets, secret_spans

API_KEY_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        "bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
        "cohere": ("CO_API_KEY", "COHERE_API_KEY"),
        "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        "mistral": ("MISTRAL_API_KEY",),
        "ollama": ("OLLAMA_API_KEY",),
    }
)
"""The environment variables of API keys by provider, in order of precedence.

Those of OpenAI-compatible services are in their rows of the services table.
"""

GOOGLE_VARIABLES: Final = ("GOOGLE_APPLICATION_CREDENTIALS",)
"""The environment variable of the file with credentials of Google Cloud, for Vertex AI."""


def read_variable(names: Sequence[str], environ: Mapping[str, str] | None = None) -> str | None:
    """Return the value of the first of these environment variables that is set and not empty, or None."""
    values = os.environ if environ is None else environ
    return next((value for name in names if (value := values.get(name))), None)


def read_api_key(names: Sequence[str], environ: Mapping[str, str] | None = None) -> Secret | None:
    """Return the API key in the first of these environment variables that is set and not empty, or None."""
    value = read_variable(names, environ)
    return Secret(value) if value else None


def missing_api_key(provider: str, names: Sequence[str]) -> AuthFailed:
    """Return the exception for a provider that needs an API key, which none of these environment variables has."""
    variables = " or ".join(names) or "a key"
    return AuthFailed(
        f"no API key for {provider}: set {variables}, or pass api_key=. Nothing was sent.", provider=provider
    )


class Secret:
    """A credential that `repr`, `str`, logs and pickles do not reveal."""

    __slots__ = ("reveal",)
    reveal: Callable[[], str]
    """Return the credential. For the transport only."""

    def __init__(self, value: str) -> None:
        # A closure, not an attribute: tools that dump an object's fields find no text here.
        self.reveal = lambda: value

    def mask(self, text: str) -> str:
        """Return `text` without the credential, with or without its scheme (`Bearer`)."""
        return _remove(text, self.forms())

    def forms(self) -> list[str]:
        """Return the texts that reveal the credential. For what removes them."""
        key = self.reveal()
        # In a JSON body a quote or a backslash in it is escaped.
        return [key, key.rpartition(" ")[2], key.replace("\\", "\\\\").replace('"', '\\"')]

    def __repr__(self) -> str:
        return "Secret('**********')"

    def __str__(self) -> str:
        return repr(self)

    def __bool__(self) -> bool:
        return bool(self.reveal())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.reveal() == other.reveal()

    def __hash__(self) -> int:
        return hash(self.reveal())

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("an API key is not pickled; let the other process read it from its environment")


class SecretURL(Secret):
    """A URL that may contain credentials: a user and password, or values in the query.

    Args:
        url: The URL.
        more: Further secrets in it, such as a token in the path.

    Attributes:
        shown: The URL with `***` in place of each credential; the URL itself if there are none.
        has_secrets: True if the URL contains credentials, so that `shown` differs from it.
    """

    __slots__ = ("_more", "_parts", "has_secrets", "shown")
    _parts: Callable[[], list[str]]

    def __init__(self, url: str, *more: Secret) -> None:
        super().__init__(url)
        scheme, userinfo, rest = (part or "" for part in re.findall(_URL, url)[0])
        self.shown: str = scheme + ("***@" if userinfo else "") + re.sub(_FIELD, _hide_field, rest)
        more += tuple([Secret(rest[start:end]) for start, end in secret_spans(rest.partition("?")[0])])
        for secret in more:
            self.shown = self.shown.replace(secret.reveal(), "***")
        texts = [*_userinfo_forms(userinfo[:-1]), *_secret_fields(rest)]
        # The longest first: a shorter form may be a part of a longer one.
        forms = sorted({form for text in texts for form in _url_forms(text)}, key=len, reverse=True)
        self._more = more
        self._parts = lambda: forms
        self.has_secrets: bool = bool(more or forms)

    def mask(self, text: str) -> str:
        """Return `text` without the credentials, in whichever encoding they appear."""
        for secret in self._more:
            text = secret.mask(text)
        return _remove(text, self._parts())

    def forms(self) -> list[str]:
        """Return the texts that reveal a credential in the URL. For what removes them."""
        return [*(form for secret in self._more for form in secret.forms()), *self._parts()]

    def __repr__(self) -> str:
        return f"SecretURL({self.shown!r})"

    def __str__(self) -> str:
        return repr(self)

    def __deepcopy__(self, memo: object) -> SecretURL:
        return self


def mask(text: str, secrets: Iterable[Secret]) -> str:
    """Return `text` without the credentials in `secrets`, and without what looks like one."""
    for secret in secrets:
        text = secret.mask(text)
    return mask_secrets(text)


def reveal(value: str | Secret) -> str:
    """Return the text of a header's value. For the transport only."""
    return value.reveal() if isinstance(value, Secret) else value


# Patterns are text, which `re` compiles and caches when it is used: compiling them delays every import.
_HARMLESS_HEADERS: Final = (
    r"accept(-\w+)?|content-(type|length)|user-agent|host|connection|cache-control|date|origin|(http-)?referer|x-title"
    r"|x-(app|client|env|environment|organization|project|region|service|team|tenant|version)"
    r"|traceparent|idempotency-key|(x-)?(client-)?(request|correlation)-id|x-stainless-[\w-]+|api-version|anthropic-(version|beta)"
    r"|anthropic-dangerous-direct-browser-access|openai-(organization|project|beta)|x-goog-(user-project|api-client)"
)


def protect_headers(headers: Mapping[str, str]) -> dict[str, str | Secret]:
    """Return `headers` with each value a `Secret`, except those of headers that never contain credentials."""
    return {
        name: value if re.fullmatch(_HARMLESS_HEADERS, name.lower()) else Secret(value)
        for name, value in headers.items()
    }


def _remove(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        # Shorter texts are no keys, and are part of any text.
        text = text.replace(secret, MARK) if len(secret) > 3 else text
    return text


# The value of any other field counts as secret: no list of the names of secrets would be complete.
_HARMLESS_FIELDS: Final = frozenset(
    [
        "alt",
        "api-version",
        "api_version",
        "beta",
        "deployment",
        "format",
        "location",
        "model",
        "project",
        "provider",
        "region",
        "stream",
        "timeout",
        "v",
        "version",
    ]
)
_URL: Final = r"(?s)\A(\s*(?:[a-zA-Z][\w+.-]*:)?//)?([^/?#]*@)?(.*)"
_FIELD: Final = r"([?&#])([^=&#]*)(=?)([^&#]*)"


def _secret_fields(rest: str) -> Iterator[str]:
    for mark, name, equals, value in re.findall(_FIELD, rest):
        if not _is_harmless(mark, name):
            yield value if equals else name


def _hide_field(field: Any) -> str:
    mark, name, equals, value = field.groups()
    if _is_harmless(mark, name) or not (name or value):
        return str(field[0])
    return f"{mark}{name}=***" if equals and mark != "#" else f"{mark}***"


def _is_harmless(mark: str, name: str) -> bool:
    return mark != "#" and name.lower() in _HARMLESS_FIELDS


def _userinfo_forms(userinfo: str) -> Iterator[str]:
    """Yield user, password and both together, as in the URL and as in a Basic authorization header (RFC 7617)."""
    if userinfo:
        user, _, password = userinfo.partition(":")
        yield from (userinfo, user, password)
        yield b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode("ascii")


def _url_forms(text: str) -> Iterator[str]:
    """Yield `text` with its percent-encoding, without it, and with that of other URL encoders."""
    yield text
    for plain in (unquote(text), unquote_plus(text)):
        yield from (plain, quote(plain), quote(plain, safe=""))
