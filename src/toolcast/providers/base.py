"""The Wire protocol: what is said <-> one service's bytes.

A wire does no I/O. It turns a `RequestInput` into an `HTTPRequest`, gives a fresh `ResponseDecoder` for the bytes that
come back, and reads the service's error bodies. Everything that stands on it works for every service.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from re import compile as regex
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar
from urllib.parse import quote, unquote, unquote_plus

from ..errors import BadRequest, LLMError
from ..events import Event
from ..messages import Message
from ..settings import Settings

T = TypeVar("T")


class Secret:
    """A key that never shows: `repr`, `str`, logs and pickles hold no trace of it."""

    __slots__ = ("_reveal",)
    _reveal: Callable[[], str]

    def __init__(self, value: str) -> None:
        # A closure, not an attribute: tools that dump an object's fields find no text here.
        self._reveal = lambda: value

    def reveal(self) -> str:
        """The key itself; for the door to the network, and nothing else."""
        return self._reveal()

    def masked(self, text: str) -> str:
        """`text` without the key, with or without the word that goes before it."""
        key = self._reveal()
        return _without(text, (key, key.rpartition(" ")[2]))

    def __repr__(self) -> str:
        return "Secret('**********')"

    def __str__(self) -> str:
        return repr(self)

    def __bool__(self) -> bool:
        return bool(self._reveal())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._reveal() == other._reveal()

    def __hash__(self) -> int:
        return hash(self._reveal())

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("an API key is not pickled; let the other process read it from its environment")


class SecretURL(Secret):
    """A URL that may contain credentials: a user and password, or the values of a query.

    `shown` is the URL with `***` in place of each of them; it is the URL itself where there are none. `more` are
    further secrets in it, such as a token in the path.
    """

    __slots__ = ("_more", "_parts", "shown")
    _parts: Callable[[], list[str]]

    def __init__(self, url: str, *more: Secret) -> None:
        super().__init__(url)
        scheme, userinfo, rest = (part or "" for part in _URL.findall(url)[0])
        self.shown: str = scheme + ("***@" if userinfo else "") + _FIELD.sub(_hidden, rest)
        for secret in more:
            self.shown = self.shown.replace(secret.reveal(), "***")
        texts = [*_userinfo_forms(userinfo[:-1]), *_secret_fields(rest)]
        forms = sorted({form for text in texts for form in _forms(text)}, key=len, reverse=True)
        self._more = more
        self._parts = lambda: forms

    @property
    def has_secrets(self) -> bool:
        """Return whether `shown` differs from the URL."""
        return bool(self._more or self._parts())

    def masked(self, text: str) -> str:
        """`text` without the credentials, in whichever encoding they appear."""
        for secret in self._more:
            text = secret.masked(text)
        return _without(text, self._parts())

    def __repr__(self) -> str:
        return f"SecretURL({self.shown!r})"

    def __str__(self) -> str:
        return repr(self)

    def __deepcopy__(self, memo: object) -> SecretURL:
        return self


_HARMLESS_HEADERS: Final = regex(
    r"accept(-\w+)?|content-(type|length)|user-agent|host|connection|cache-control|date|origin|(http-)?referer|x-title"
    r"|x-(app|client|env|environment|organization|project|region|service|team|tenant|version)"
    r"|traceparent|idempotency-key|(x-)?(client-)?(request|correlation)-id|x-stainless-[\w-]+|api-version|anthropic-(version|beta)"
    r"|anthropic-dangerous-direct-browser-access|openai-(organization|project|beta)|x-goog-(user-project|api-client)"
)


def guarded(headers: Mapping[str, str]) -> dict[str, str | Secret]:
    """Return `headers` with each value a `Secret`, unless its name is known to be harmless."""
    return {
        name: value if _HARMLESS_HEADERS.fullmatch(name.lower()) else Secret(value) for name, value in headers.items()
    }


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        # What is shorter is part of any text, and no key.
        text = text.replace(secret, "[key]") if len(secret) > 3 else text
    return text


# A value counts as secret unless its name is known to be harmless: no list of the names of secrets is complete.
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
_URL: Final = regex(r"(?s)\A(\s*(?:[a-zA-Z][\w+.-]*:)?//)?([^/?#]*@)?(.*)")
_FIELD: Final = regex(r"([?&#])([^=&#]*)(=?)([^&#]*)")


def _secret_fields(rest: str) -> Iterator[str]:
    for mark, name, equals, value in _FIELD.findall(rest):
        if not _is_harmless(mark, name):
            yield value if equals else name


def _hidden(field: Any) -> str:
    mark, name, equals, value = field.groups()
    if _is_harmless(mark, name) or not (name or value):
        return str(field[0])
    return f"{mark}{name}=***" if equals and mark != "#" else f"{mark}***"


def _is_harmless(mark: str, name: str) -> bool:
    return mark != "#" and name.lower() in _HARMLESS_FIELDS


def _userinfo_forms(userinfo: str) -> Iterator[str]:
    """User, password and both together, as they are and as a header sends them."""
    if userinfo:
        user, _, password = userinfo.partition(":")
        yield from (userinfo, user, password)
        yield b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode("ascii")


def _forms(text: str) -> Iterator[str]:
    """`text` with its percent-encoding, without it, and with that of other writers of URLs."""
    yield text
    for plain in (unquote(text), unquote_plus(text)):
        yield from (plain, quote(plain), quote(plain, safe=""))


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """A request, ready to be sent. `notes` names settings that the service cannot take and that were left out.

    `url` can be shown to anybody: where the URL contains credentials it has `***` in their place, and `target` is what
    a network sends. `tls_name` is the name that the server must prove, where `url` has an address in its place.
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
        """The URL to send the request to, with any credentials in it; for the network, and nothing else."""
        secret = self.secret_url
        return secret.reveal() if secret is not None and secret.shown == self.url else self.url

    def masked(self, text: str) -> str:
        """`text` without the keys in the headers and in the URL."""
        for value in (self.secret_url, *self.headers.values()):
            text = value.masked(text) if isinstance(value, Secret) else text
        return text


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a service sees it: a name, a description, and the JSON Schema of its arguments.

    What a wire makes of a tool it may keep, so a schema that is in use does not change.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]

    def __hash__(self) -> int:
        return hash(self.name)  # a schema has no hash; it counts where two tools are compared


@dataclass(frozen=True, slots=True)
class NamedTool:
    """The tool choice that forces this one tool."""

    name: str


ToolChoice: TypeAlias = str | NamedTool | Mapping[str, Any] | None
"""`"auto"`, `"required"`, `"none"`, a `NamedTool`, a dialect's own dict, or None: the service's default."""


Mode: TypeAlias = Literal["tool_call", "json_schema", "prompted", "grammar"]
"""How a model is held to the tools: it must call one; its text must follow their schema, by the service's own
`json_schema` output or by a `grammar`; or it is asked to in words (`prompted`)."""


@dataclass(frozen=True, slots=True)
class RequestInput:
    """All that one request is made of, in no service's dialect. `stream`: answer in pieces.

    `mode` says how a forced tool choice is carried out; None: in the wire's usual way. `accept_damaged`: an answer with
    a damaged event is read as if nothing were missing.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = None
    parallel: bool = False
    stream: bool = True
    mode: Mode | None = None
    accept_damaged: bool = False

    @property
    def calls_before(self) -> int:
        """The number of calls already made: generated ids go on from there."""
        return sum(len(message.tool_calls) for message in self.messages)

    @property
    def terms(self) -> RequestOptions:
        """All of it but what is said."""
        return RequestOptions(self.model, self.tools, self.tool_choice, self.parallel, self.stream, self.mode)


class RequestOptions(NamedTuple):
    """What the requests of one program have in common: a `RequestInput` without its messages."""

    model: str
    tools: tuple[ToolSpec, ...]
    tool_choice: ToolChoice
    parallel: bool
    stream: bool
    mode: Mode | None = None


def once_for_all(make: Callable[[RequestOptions, Settings], T]) -> Callable[[RequestInput, Settings], T]:
    """`make`, called once for all requests that differ only in their messages, `timeout` and `extra`.

    What it is called with is frozen, and what it gives is shared by many requests: nobody may change it. So a tool
    choice in a dialect's own dict, which anybody may change, is not remembered.
    """

    # True equals 1, but to think is not to think for one token: lru_cache tells them apart as arguments.
    @lru_cache(64, typed=True)
    def remembered(terms: RequestOptions, settings: Settings, thinking: object) -> T:
        return make(terms, settings)

    def made(conversation: RequestInput, settings: Settings) -> T:
        if settings.timeout is not None or settings.extra is not None:
            settings = settings.with_(timeout=None, extra=None)
        if isinstance(conversation.tool_choice, Mapping):
            return make(conversation.terms, settings)
        return remembered(conversation.terms, settings, settings.thinking)

    return made


class ResponseDecoder(Protocol):
    """Bytes in, events out, cut anywhere."""

    @property
    def failed(self) -> bool:
        """Whether `close` will raise, whatever else may come: the service has reported an error."""
        ...

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes."""
        ...

    def close(self) -> list[Event]:
        """The last events, once the body has ended. Raises `StreamTruncated` where its end marker is missing."""
        ...


class ProviderAdapter(Protocol):
    """One service's dialect."""

    @property
    def provider(self) -> str:
        """The name of the service, as errors and responses give it."""
        ...

    def request(self, conversation: RequestInput, settings: Settings) -> HTTPRequest:
        """The request to send. Raises `BadRequest` for what the service cannot take."""
        ...

    def decoder(self, conversation: RequestInput) -> ResponseDecoder:
        """A fresh decoder for one answer to `conversation`, streamed or whole."""
        ...

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """The error that an HTTP status of 300 or more stands for; header names are in lower case."""
        ...


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def member(name: str, value: Any) -> str:
    """`"name":value`, as it stands in a JSON object. Raises `BadRequest` for what JSON cannot hold."""
    try:
        return f"{_encode(name)}:{_encode(value)}"
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest(f"the request cannot be written as JSON: {error}") from error


_ILLEGAL = regex(r"[^a-zA-Z0-9_-]")


@lru_cache(1024)
def legal_name(name: str, limit: int = 64) -> str:
    """`name` as every service takes it: letters, digits, `_` and `-`, at most `limit` of them.

    A name that had to be changed ends in a hash of the original, so that two names never become one.
    """
    legal = _ILLEGAL.sub("_", name) or "tool"
    if legal == name and len(name) <= limit:
        return name
    mark = blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{legal[: limit - 9]}_{mark}"


class ToolNames:
    """The names of one request's tools, there and back: `wire[name]` is sent, `own(wire_name)` came back."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self.wire: dict[str, str] = {tool.name: legal_name(tool.name) for tool in tools}
        self._own = {wire: name for name, wire in self.wire.items()}

    def own(self, name: str) -> str:
        """The tool's own name for `name` as the model wrote it; an unknown name stays as it is."""
        return self._own.get(name, name)
