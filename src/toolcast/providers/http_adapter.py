"""What all wires share: where a request goes, what proves who is asking, and how its body is written.

A wire is an `Address` and a `RequestEncoder`. A frame is everything that many requests have in common - tools,
settings, headers
- made once and written as JSON once (`once_for_all`); the messages are written into it each time. What a service cannot
take is refused before anything is sent if it is content or tools, and left out and noted if it is a setting.
`Settings.extra` has the last word where it does not contradict the call.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, TypeVar, cast
from urllib.parse import urlsplit

from ..credentials import Secret, SecretURL
from ..errors import BadRequest, LLMError
from ..http_request import HTTPRequest, build_request
from ..json_text import replace_surrogates
from ..messages import Message
from ..settings import Settings
from ..tool_spec import NamedTool, ToolChoice, ToolNames
from .base import RequestInput, RequestOptions, ResponseDecoder
from .content_parts import readable
from .http_errors import ErrorSource, http_error
from .tool_calls.json_text import ForcedCalls, ForcedDecoder, Form, schema_form

T = TypeVar("T")

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service is, and what proves who is asking.

    `provider` is its name in errors and responses; `url` is where requests go, or its beginning where the model is
    part of it. The key goes into the header `key_header`, after `Bearer` if that is `authorization`. `headers` go with
    every request, over the wire's own. `key_env` names the variables to set, for errors.
    """

    provider: str
    url: SecretURL
    api_key: Secret | None
    headers: Mapping[str, str | Secret]
    key_header: str = "authorization"
    key_env: tuple[str, ...] = ()

    def source(self, model: str | None) -> ErrorSource:
        """Who it is that failed, for errors."""
        url = self.url if self.url.has_secrets else None
        secrets = [value for value in (url, self.api_key, *self.headers.values()) if isinstance(value, Secret)]
        return ErrorSource(self.provider, model, self.key_env, tuple(secrets))

    @property
    def proof(self) -> dict[str, str | Secret]:
        """The header with the key; none without one."""
        if not self.api_key:
            return {}
        bearer = self.key_header == "authorization"
        return {self.key_header: Secret(f"Bearer {self.api_key.reveal()}") if bearer else self.api_key}


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
            return make(conversation.options, settings)
        return remembered(conversation.options, settings, settings.thinking)

    return made


class RequestEncoder(ABC):
    """One request but for its messages. A subclass fills `fields`, the members of the JSON body, and `notes`.

    `fixed` names the members by which the answer is made to be what was asked for: `Settings.extra` cannot change them.
    """

    fixed: ClassVar[tuple[str, ...]] = ("tool_choice", "response_format", "format")

    def __init__(self, provider: str, terms: RequestOptions) -> None:
        # A client resolves dot segments: in the path of a URL they would lead to another endpoint.
        if not terms.model or _CONTROL.search(terms.model) or {".", ".."}.intersection(terms.model.split("/")):
            raise BadRequest(f"{terms.model!r} is no name of a model")
        self.provider: str = provider
        self.names: ToolNames = ToolNames(terms.tools)
        self.fields: dict[str, Any] = {}
        self.notes: list[str] = []

    @abstractmethod
    def said(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The members of the body that hold what is said. Raises `BadRequest` for what the service cannot take."""

    @cached_property
    def members(self) -> Mapping[str, str]:
        """The `fields`, written."""
        return {name: member(name, value) for name, value in self.fields.items()}

    def forced(self, choice: ToolChoice) -> str | None:
        """The name of the one tool that must be called, or None. Raises `BadRequest` for one that is not offered."""
        name = choice.name if isinstance(choice, NamedTool) else choice
        if choice in ("required", "any") and not self.names.sent:
            raise BadRequest(f"tool_choice={choice!r} needs tools")
        if not isinstance(name, str) or (choice is name and name in ("auto", "required", "none", "any")):
            return None
        if name not in self.names.sent:
            raise BadRequest(f"tool_choice names {name!r}, which is not among the tools: {list(self.names.sent)}")
        return name


class HTTPAdapter(ABC):
    """A service's dialect over HTTP, at one address.

    `accept`: the media types of whole and of streamed answers; `fixed_headers`: what the protocol itself asks for.
    """

    accept: ClassVar[tuple[str, str]] = ("application/json", "text/event-stream")
    fixed_headers: ClassVar[Mapping[str, str]] = {}

    def __init__(self, address: Address) -> None:
        own = {name.lower(): value for name, value in address.headers.items()}
        self._at = address
        self._own_headers = own
        self._frame = once_for_all(self.frame)

    @property
    def provider(self) -> str:
        """The name of the service."""
        return self._at.provider

    def request(self, conversation: RequestInput, settings: Settings) -> HTTPRequest:
        """The request to send. Raises `BadRequest` for what the service cannot take."""
        try:
            frame = self._frame(conversation, settings)
            members = dict(frame.members)
            said = frame.said(readable(conversation.messages, conversation.model))
            for name, value in (said | _extra(frame, frame.fields | said, settings)).items():
                members[name] = member(name, value)
            url, headers = self.url(conversation), self.headers(conversation.stream)
        except BadRequest as error:
            error.provider, error.model = self.provider, conversation.model
            raise
        return build_request("POST", url, headers, encoded(members), tuple(frame.notes))

    def decoder(self, conversation: RequestInput) -> ResponseDecoder:
        """A fresh decoder for one answer, streamed or whole."""
        inner = self.answer(self._at.source(conversation.model), conversation)
        form = self.form(conversation)
        if form is None:
            return inner
        calls = ForcedCalls(form, conversation.calls_before)
        return ForcedDecoder(inner, calls, accept_damaged=conversation.accept_damaged)

    @abstractmethod
    def answer(self, source: ErrorSource, conversation: RequestInput) -> ResponseDecoder:
        """What reads the protocol's own events."""

    def form(self, terms: RequestInput | RequestOptions) -> Form | None:
        """How the text of an answer is to be read as calls; None where calls come as calls."""
        return schema_form(terms)

    @abstractmethod
    def frame(self, terms: RequestOptions, settings: Settings) -> RequestEncoder:
        """What requests with these terms and settings have in common."""

    def url(self, conversation: RequestInput) -> SecretURL:
        """Return the URL that the request is sent to."""
        return self._at.url

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """The error that an HTTP status of 300 or more stands for."""
        return http_error(status, headers, body, self._at.source(None))

    def headers(self, stream: bool) -> dict[str, str | Secret]:
        """The headers of a request. Raises `BadRequest` for characters that a header cannot have."""
        return dict(self._headers[stream])

    @cached_property
    def _headers(self) -> tuple[dict[str, str | Secret], dict[str, str | Secret]]:
        whole, streamed = self.accept
        return self._checked(whole), self._checked(streamed)

    def _checked(self, accept: str) -> dict[str, str | Secret]:
        headers: dict[str, str | Secret] = {"content-type": "application/json", "accept": accept}
        headers |= {**self._at.proof, **self.fixed_headers, **self._own_headers}
        for name, value in headers.items():
            check_header(name, value)
        return headers


def _extra(frame: RequestEncoder, own: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return `Settings.extra`, its tools and its objects added to those of the request.

    Raise `BadRequest` if it contradicts what the request is made for.
    """
    extra = dict(settings.extra or {})
    if not extra:
        return extra
    if "tools" in extra:
        extra["tools"] = _all_tools(own.get("tools", []), extra["tools"])
    for name in frame.fixed:
        _check_fixed(name, own, extra)
    return {name: _merged(own.get(name), value) for name, value in extra.items()}


def _merged(own: Any, more: Any) -> Any:
    """Return `more`, with what `own` has besides if both are objects, at every depth."""
    if not (isinstance(own, Mapping) and isinstance(more, Mapping)):
        return more
    ours, theirs = cast("Mapping[str, Any]", own), cast("Mapping[str, Any]", more)
    return {**ours, **{name: _merged(ours.get(name), value) for name, value in theirs.items()}}


def _all_tools(own: Sequence[Any], more: object) -> list[Any]:
    """Return the tools of a request and those of `extra`; raise `BadRequest` for two of one name."""
    if not isinstance(more, (list, tuple)):
        raise BadRequest(f"extra['tools']: expected a list of tools, got {type(more).__name__}: {more!r:.100}")
    added = [tool for tool in cast("Sequence[Any]", more) if tool not in own]
    both = {name for tool in own for name in _names(tool)} & {name for tool in added for name in _names(tool)}
    if both:
        raise BadRequest(
            f"extra['tools'] has another tool named {min(both)!r}: rename one of them, or leave it out of extra"
        )
    return [*own, *added]


def _names(tool: Any) -> Iterator[str]:
    """Yield the names that a tool has, in any service's form."""
    if isinstance(tool, Mapping):
        found = cast("Mapping[str, Any]", tool)
        functions = (found, found.get("function"), *_as_sequence(found.get("functionDeclarations")))
        for function in functions:
            name = cast("Mapping[str, Any]", function).get("name") if isinstance(function, Mapping) else None
            if isinstance(name, str):
                yield name


def _as_sequence(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else ()


def _check_fixed(path: str, own: Mapping[str, Any], extra: Mapping[str, Any]) -> None:
    """Raise `BadRequest` if both have a value at the path, and not the same one."""
    ours: Any = own
    theirs: Any = extra
    for name in path.split("."):
        if not (isinstance(ours, Mapping) and isinstance(theirs, Mapping)):
            return
        ours, theirs = cast("Mapping[str, Any]", ours).get(name), cast("Mapping[str, Any]", theirs).get(name)
    if ours is not None and theirs is not None and ours != theirs:
        shown = "".join(f"[{name!r}]" for name in path.split("."))
        raise BadRequest(
            f"extra{shown} is {theirs!r:.100}, but this call needs {ours!r:.100}: leave it out of extra, and set "
            "tool_choice= or mode= instead"
        )


def check_header(name: str, value: str | Secret) -> None:
    """Raise `BadRequest` for characters that a header cannot have."""
    if not _is_legal(name, value):
        raise BadRequest(
            f"the header {name!r} holds characters that a header cannot have; "
            "look for a line break or a typographic quote at the end of the key"
        )


def _is_legal(name: str, value: str | Secret) -> bool:
    # The text of a secret stays in this frame, which no traceback shows.
    text = value.reveal() if isinstance(value, Secret) else value
    # The types are those of the caller's own code.
    texts = cast("tuple[object, ...]", (name, text))
    return all(isinstance(each, str) and each.isascii() and not _CONTROL.search(each) for each in texts)


def endpoint(base_url: str, path: str) -> str:
    """Return `base_url` with `path` appended unless it ends in it already; a query stays at the end."""
    url, mark, query = base_url.strip().partition("?")
    url = url.rstrip("/")
    if not _is_http(base_url.strip()):
        raise BadRequest(f"base_url={SecretURL(base_url).shown!r} is no http address; give it as https://host/v1")
    return (url if url.endswith(path) else url + path) + mark + query


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0 and not _CONTROL.search(url)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def member(name: str, value: Any) -> str:
    """`"name":value`, as it stands in a JSON object. Raises `BadRequest` for what JSON cannot hold."""
    try:
        return f"{_encode(name)}:{_encode(value)}"
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest(f"the request cannot be written as JSON: {error}") from error


def encoded(members: Mapping[str, str]) -> bytes:
    """The JSON object of these members."""
    return replace_surrogates("{" + ",".join(members.values()) + "}").encode()


def effort(thinking: bool | str | int) -> str:
    """A level of thinking, for services that know no budgets of tokens."""
    if isinstance(thinking, bool):
        return "medium" if thinking else "none"
    if isinstance(thinking, str):
        return thinking
    return "none" if thinking <= 0 else "low" if thinking <= 2048 else "medium" if thinking <= 8192 else "high"


def budget(thinking: bool | str | int) -> int | None:
    """The tokens to think with, where a number of them was given."""
    return thinking if isinstance(thinking, int) and not isinstance(thinking, bool) and thinking > 0 else None
