"""The base of all adapters: endpoint, headers, and the JSON body of a request.

An adapter is an `Endpoint` and a `RequestEncoder`. An encoder is the part of a request that does not depend on its
messages (tools, settings, headers); it is made once for many requests (`cache_by_options`) and encodes its fields as
JSON once. Content or tools that the provider does not support raise an error before anything is sent; settings that it
does not support are left out and noted. `Settings.extra` overrides all fields but those that the call depends on.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

from ..errors import BadRequest, ContextTooLong, LLMError, MalformedEvent
from ..lazy.lazy_dataclasses import dataclass
from ..messages import (
    AudioPart,
    DocumentPart,
    FileRef,
    ImagePart,
    Message,
    Part,
    ResultImage,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
    assistant,
    user,
)
from ..text.json_text import finite, replace_surrogates
from ..values.credentials import Secret, SecretURL
from ..values.http_request import HTTPRequest, build_request, is_at
from ..values.settings import Settings
from ..values.tool_spec import NamedTool, ToolChoice, ToolNames, tool_names
from .base import RequestInput, RequestOptions, ResponseDecoder
from .content_parts import MEDIA, called_tools, drop_foreign_data, this_turn, with_described_media
from .http_errors import ErrorSource, http_error, stream_error
from .refused_settings import BETA, Change, change_for, refused_betas
from .tool_calls.json_calls import CallFormat, JSONTextCalls, JSONTextDecoder, schema_call_format

if TYPE_CHECKING:
    from .batch_codec import BatchCodec
    from .embedding_codec import EmbeddingCodec
    from .file_codec import Exchange, FileCodec

T = TypeVar("T")

CACHE_SETTINGS = ("prompt_cache_key", "prompt_cache_retention")
"""The settings of caches that few services have."""

_changing = Lock()  # taken to change the list of refused media of an adapter
_MEDIA_LEFT_OUT = "media of an earlier turn or of a tool's result"
_SEALED_LEFT_OUT = "encrypted thoughts of another service"
# OpenAI's and Azure's words, and those of the Gemini API and Vertex AI.
_UNREADABLE = re.compile(
    r"encrypted.content.{0,400}could not be|(corrupted|invalid) thought signature|thought signature.{0,20}not valid",
    re.IGNORECASE | re.DOTALL,
)
_SOME_ID = "resp"  # in place of the id of a response
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ANY_MEDIA = r"media[ _-]?types?|mime[ _-]?types?|modalit(?:y|ies)|multi-?modal"
_MEDIA_WORDS: dict[type[Part], str] = {
    ImagePart: rf"\b(?:images?|image_url|input_image|pictures?|vision|{_ANY_MEDIA})\b",
    AudioPart: rf"\b(?:audio|input_audio|{_ANY_MEDIA})\b",
    VideoPart: rf"\b(?:videos?|{_ANY_MEDIA})\b",
    DocumentPart: rf"\b(?:documents?|pdfs?|files?|input_file|{_ANY_MEDIA})\b",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint of a provider and its credentials.

    Args:
        provider: The name of the provider in errors and responses.
        url: The URL of requests, or its beginning if the model is a part of it.
        key_header: The header of the API key, which follows `Bearer` if that is `authorization`.
        headers: Additional headers of every request; they override the adapter's own.
        key_env: The environment variables of the key, for errors.
    """

    provider: str
    url: SecretURL
    api_key: Secret | None
    headers: Mapping[str, str | Secret]
    key_header: str = "authorization"
    key_env: tuple[str, ...] = ()

    def error_source(self, model: str | None) -> ErrorSource:
        """Return the source of errors: provider, model, and the secrets to mask in their texts."""
        url = self.url if self.url.has_secrets else None
        secrets = [value for value in (url, self.api_key, *self.headers.values()) if isinstance(value, Secret)]
        return ErrorSource(self.provider, model, self.key_env, tuple(secrets))

    @property
    def auth_headers(self) -> dict[str, str | Secret]:
        """The header with the API key; empty without a key."""
        if not self.api_key:
            return {}
        bearer = self.key_header == "authorization"
        return {self.key_header: Secret(f"Bearer {self.api_key.reveal()}") if bearer else self.api_key}


def cache_by_options(make: Callable[[RequestOptions, Settings], T]) -> Callable[[RequestInput, Settings], T]:
    """Return `make` with a cache, shared by requests that differ only in their messages, `timeout` and `extra`.

    They may also continue different responses: `make` gets one text for all ids in `previous_response_id`.

    Its arguments are frozen, and its result is shared by many requests and must not be modified. A tool choice that is
    a dict can be modified by the caller, so its result is not cached.
    """

    # True == 1, but thinking=True is no budget of one token, and logprobs=True no alternative: typed lru_cache tells
    # arguments apart, not fields.
    @lru_cache(64, typed=True)
    def remembered(options: RequestOptions, settings: Settings, thinking: object, logprobs: object) -> T:
        return make(options, settings)

    # The last arguments and their result: the calls of one orchestrator have the same settings and equal options, which
    # are compared in a tenth of the time that their hash takes. Replaced and read in one step, as threads share it.
    last: tuple[RequestOptions, Settings, T] | None = None

    def made(request_input: RequestInput, settings: Settings) -> T:
        nonlocal last
        options, known = request_input.options, last
        if known is not None and known[1] is settings and known[0] == options:
            return known[2]
        given = settings
        if settings.timeout is not None or settings.extra is not None:
            settings = settings.with_(timeout=None, extra=None)
        if settings.previous_response_id not in (None, "auto"):  # another one in each turn
            settings = settings.with_(previous_response_id=_SOME_ID)
        if isinstance(options.tool_choice, Mapping):
            return make(options, settings)
        result = remembered(options, settings, settings.thinking, settings.logprobs)
        last = options, given, result
        return result

    return made


class RequestEncoder(ABC):
    """The part of a request that does not depend on its messages. A subclass fills `fields` and `notes`.

    Attributes:
        fields: The fields of the JSON body.
        extended: The lists that `Settings.extra` adds to.
        headers: Headers that the fields need; lists of values that the user's own header is joined with.
        notes: The settings that are left out.
        protected_fields: The fields that make the response what the call needs; `Settings.extra` cannot change them.
        tools_field: The path of the list of tools, to which `Settings.extra` can only add.
        stores: The settings of `STORED` that the service has for this protocol.
        outputs: The kinds of output that the service has for this protocol, and the settings of `OUTPUT_SETTINGS`.
    """

    protected_fields: ClassVar[tuple[str, ...]] = ("tool_choice", "response_format", "format")
    takes_server_tools: ClassVar[bool] = False
    """True if the subclass encodes `RequestOptions.server_tools`; if not, a request with one is refused."""
    returns_server_tools: ClassVar[bool] = False
    """True if the subclass encodes `ServerToolPart`s of its provider; if not, it gets none."""
    takes_cached_content: ClassVar[bool] = False
    """True if the encoder encodes `Settings.cached_content`; if not, a request with it is refused."""
    binds_thoughts: bool = False
    """True for a model whose thoughts are bound to what is before them (bound_thoughts.py)."""
    called: Callable[[Sequence[str]], dict[str, Any]] | None = None
    """Returns the fields with tools of these names, which were called and are not offered. None if none are needed."""
    takes_cache_points: bool = False
    """True if the encoder encodes `CachePoint`s; if not, it gets none."""
    tools_field: ClassVar[str] = "tools"

    def __init__(self, provider: str, options: RequestOptions) -> None:
        # A client resolves dot segments: in the path of a URL they would lead to another endpoint.
        if not options.model or _CONTROL.search(options.model) or {".", ".."}.intersection(options.model.split("/")):
            raise BadRequest(
                f"{options.model!r} is no model name: expected a name without control characters and dot segments"
            )
        self.provider: str = provider
        self.fields: dict[str, Any] = {}
        self.headers: dict[str, str] = {}
        self.extended: list[str] = []
        self.notes: list[str] = []
        self.stores: frozenset[str] = frozenset()
        self.outputs: frozenset[str] = frozenset(("text",))
        if options.server_tools and not self.takes_server_tools:
            self.server_tools(options, provider)
        self.names: ToolNames = tool_names(options.tools)

    def server_tools(self, options: RequestOptions, protocol: str) -> list[dict[str, Any]]:
        """Return the definitions of the tools that the provider runs, by a row of `FORMS` in server_tool_forms.py.

        Raises:
            BadRequest: The protocol does not have one of them, or one of its options.
        """
        if not options.server_tools:
            return []
        from .server_tool_forms import encode_server_tool

        return [encode_server_tool(self.provider, protocol, tool) for tool in options.server_tools]

    @abstractmethod
    def encode_messages(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the fields of the body that contain the messages. Raise `BadRequest` for unsupported content."""

    def takes(self, role: Role, part: Part) -> bool:
        """Return True if a message of this role may have `part`."""
        messages = [user("."), assistant("."), user(".")]
        if isinstance(part, ToolResultPart):
            messages[1:] = assistant(ToolCallPart(part.call_id, part.name or "tool", "{}")), Message("tool", (part,))
        else:
            messages[role == "assistant"] = Message(role, (TextPart("."), part))
        try:
            self.encode_messages(messages)
        except BadRequest:
            return False
        return True

    @cached_property
    def encoded_fields(self) -> Mapping[str, str]:
        """The `fields`, each encoded as JSON."""
        return {name: json_member(name, value) for name, value in self.fields.items()}

    def note_settings(self, settings: Settings, *names: str) -> None:
        """Add those of the settings `names` that are set, and that the provider does not have, to the notes."""
        self.notes += [name for name in names if _is_set(getattr(settings, name))]

    def required_tool(self, choice: ToolChoice) -> str | None:
        """Return the name of the one tool that must be called, or None. Raise `BadRequest` if it is not offered."""
        name = choice.name if isinstance(choice, NamedTool) else choice
        if choice in ("required", "any") and not self.names.sent:
            raise BadRequest(f"tool_choice={choice!r} needs tools")
        if not isinstance(name, str) or (choice is name and name in ("auto", "required", "none", "any")):
            return None
        if name not in self.names.sent:
            raise BadRequest(f"tool_choice names {name!r}, which is not among the tools: {list(self.names.sent)}")
        return name


def _refused_media(refusal: LLMError, messages: Sequence[Message], refused: Collection[Part]) -> list[Part]:
    """Return the media that a refusal may be about, and that the messages may be without.

    These are files of earlier turns that it names, or all of them if something was not found. Or, of the kinds that it
    names, or of all after a 400 that names none, they are the images in the results of tools behind the last answer,
    and once these are `refused`, all media of earlier turns. Where there are media of the user behind the last answer,
    it is about them.
    """
    now, words = this_turn(messages), refusal.message
    new = [part for message in messages[now:] for part in message.parts]
    old = [part for message in messages[:now] for part in message.parts]
    if named := [part for part in old if isinstance(part, FileRef) and _is_named(part, words)]:
        return [*named]
    kinds = tuple([kind for kind, pattern in _MEDIA_WORDS.items() if re.search(pattern, words, re.IGNORECASE)])
    if refusal.status in (400, 422):
        kinds = kinds or (*_MEDIA_WORDS,)
    elif not re.search("support|missing data", words):  # 404: no model that supports it; 500: llama.cpp and Ollama
        kinds = (FileRef,) if refusal.status in (403, 404, 410) else ()
    own = [part for part in new if isinstance(part, MEDIA) and not isinstance(part, ResultImage)]
    if own or not kinds or isinstance(refusal, ContextTooLong):
        return []
    groups: tuple[Sequence[Part], ...] = (_images_of(new), (*_images_of(old), *old))
    left = [[part for part in group if isinstance(part, (*kinds, FileRef)) and part not in refused] for group in groups]
    return left[0] or left[1]


def _images_of(parts: Iterable[Part]) -> list[ImagePart]:
    images: list[ImagePart] = []
    for part in parts:
        images += part.images if isinstance(part, ToolResultPart) else [part] if isinstance(part, ResultImage) else []
    return images


def _join_headers(headers: dict[str, str | Secret], own: Mapping[str, str]) -> None:
    """Add to `headers` those that a request needs, which are lists of values."""
    for name, value in own.items():
        given = headers.get(name)
        headers[name] = f"{given},{value}" if isinstance(given, str) and value not in given else given or value


def _opaque_data(messages: Sequence[Message]) -> Iterator[Mapping[str, Any]]:
    """Yield the opaque data of the thoughts and calls in `messages`."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, (ThinkingPart, ToolCallPart)) and part.opaque:
                yield part.opaque


def _shown(data: Mapping[str, Any]) -> str:
    return json.dumps(data, sort_keys=True, default=str)


def _is_named(part: FileRef, words: str) -> bool:
    return any(name is not None and name.rsplit("/", 1)[-1] in words for name in (part.id, part.uri))


class HTTPAdapter(ABC):
    """The base class of adapters for one endpoint.

    Attributes:
        accept: The media types of complete and of streamed responses.
        fixed_headers: The headers that the protocol requires.
        has_signed_thoughts: True if the protocol has thoughts that may be bound to a conversation (bound_thoughts.py).
    """

    accept: ClassVar[tuple[str, str]] = ("application/json", "text/event-stream")
    fixed_headers: ClassVar[Mapping[str, str]] = {}
    has_signed_thoughts: ClassVar[bool] = False

    @property
    def takes_files(self) -> bool:
        """True if messages can refer to files that the provider stores (`FileRef`)."""
        return False

    def __init__(self, address: Endpoint) -> None:
        own = {name.lower(): value for name, value in address.headers.items()}
        self._endpoint = address
        self._own_headers = own
        self.forget_encoders()
        self._error_source = lru_cache(16)(address.error_source)
        self._refused: set[str] = set()  # signatures of thoughts
        self._unreadable: set[str] = set()  # opaque data that the service has refused
        self._refused_betas: set[str] = set()  # values of a header
        self._changes: dict[str, list[Change]] = {}  # of refused settings, by model
        self._refused_media: list[Part] = []  # of results of tools and of earlier turns

    @property
    def provider(self) -> str:
        """The name of the provider."""
        return self._endpoint.provider

    @property
    def base_url(self) -> str:
        """The URL of the endpoint, with `***` in place of credentials."""
        return self._endpoint.url.shown

    def is_at(self, host: str) -> bool:
        """Return True if the endpoint is at this host, or in a region of it."""
        return is_at(self.base_url, host)

    def for_request(self, request_input: RequestInput, settings: Settings) -> HTTPAdapter:
        """Return the adapter of the protocol that this request takes. Raise `BadRequest` if there is none."""
        return self

    def adapt_to(self, refusal: LLMError, request_input: RequestInput, settings: Settings) -> bool:
        """Leave out of all requests what the service has refused, if nothing depends on it. Return True for that."""
        adapts = refusal.status in (400, 422) and settings.adapt is not False
        if adapts and self._change(refusal, request_input, settings):
            return True
        if self.has_signed_thoughts:
            from .bound_thoughts import REFUSAL, signatures

            if REFUSAL in str(refusal):
                # Another request may have been refused for the same thoughts while this one was on its way.
                refused = signatures(request_input.messages)
                self._refused.update(refused)
                return bool(refused)
        if _UNREADABLE.search(str(refusal)):
            sealed = {_shown(data) for data in _opaque_data(request_input.messages)}
            self._unreadable |= sealed
            return bool(sealed)
        media = _refused_media(refusal, request_input.messages, self._refused_media)
        with _changing:
            self._refused_media += [part for part in media if part not in self._refused_media]
        return bool(media)

    def _change(self, refusal: LLMError, request_input: RequestInput, settings: Settings) -> bool:
        """Change the setting that the service refuses, in all requests to this model. Return False if there is none."""
        betas = self._own_headers.get(BETA)
        if isinstance(betas, str) and (refused := refused_betas(str(refusal), betas) - self._refused_betas):
            self._refused_betas |= refused
            return True
        changes = self._changes.setdefault(request_input.model, [])
        change = change_for(str(refusal), self._cached_encoder(request_input, settings).fields)
        if change is not None and change not in changes:  # else another request was refused for it at the same time
            changes.append(change)
            self.forget_encoders()
        return change is not None

    def _without_betas(self, headers: dict[str, str | Secret]) -> list[str]:
        """Take the values of `anthropic-beta` that were refused out of `headers`. Return notes of that."""
        values = str(headers.pop(BETA)).split(",")
        if kept := [value for value in values if value not in self._refused_betas]:
            headers[BETA] = ",".join(kept)
        return [f"{BETA}: {value.strip()} (refused by the service)" for value in values if value not in kept]

    def cannot_read(self, data: Mapping[str, Any]) -> bool:
        """Return True for opaque data of another service, or that the service has refused."""
        if data.get("provider", self.provider) != self.provider:
            return True
        return bool(self._unreadable) and _shown(data) in self._unreadable

    def take_back(self, request_input: RequestInput) -> None:
        """Send the media of these messages again: the service refused them without these too."""
        parts = [part for message in request_input.messages for part in message.parts]
        sent = [*_images_of(parts), *parts]
        with _changing:
            self._refused_media = [part for part in self._refused_media if part not in sent]

    def forget_encoders(self) -> None:
        """Make new encoders from now on, as what they depend on has changed."""
        self._cached_encoder = cache_by_options(self._new_encoder)

    def request(self, request_input: RequestInput, settings: Settings) -> HTTPRequest:
        """Return the request to send. Raise `BadRequest` for input that the provider does not support."""
        try:
            encoder = self._cached_encoder(request_input, settings)
            if settings.cached_content is not None and not encoder.takes_cached_content:
                raise BadRequest(
                    f"cached_content={settings.cached_content_name!r:.100} is stored at Google, and {self.provider} "
                    "cannot read it: leave it out of the settings"
                )
            members = dict(encoder.encoded_fields)
            to = encoder.provider if encoder.returns_server_tools else None
            points = encoder.takes_cache_points
            sent = drop_foreign_data(request_input.messages, request_input.model, to, self, cache_points=points)
            own, notes = self._encode_messages(encoder, sent, request_input.messages)
            prefix = None
            if encoder.called is not None and "tools" not in (settings.extra or ()) and (names := called_tools(sent)):
                own |= encoder.called(names)
            if settings.previous_response_id not in (None, "auto"):
                own = {**own, "previous_response_id": settings.previous_response_id}
            if settings.extra:
                own = own | _extra(encoder, encoder.fields | own, settings.extra)
            if encoder.binds_thoughts or self._refused:
                from .bound_thoughts import LEFT_OUT, bind_thoughts, signatures

                body = {**encoder.fields, **own}
                own["messages"], prefix = bind_thoughts(body, signatures(request_input.messages), self._refused)
                if own["messages"] is not body["messages"]:
                    notes = (*notes, LEFT_OUT)
            extra = settings.extra or ()
            for name, value in own.items():
                members[name] = json_member(name, value, history=name not in extra)
            url, headers = self.url(request_input), self.headers(request_input.stream)
            if self._refused_betas:
                notes = (*notes, *self._without_betas(headers))
            if encoder.headers:
                _join_headers(headers, encoder.headers)
        except BadRequest as error:
            error.provider, error.model = self.provider, request_input.model
            raise
        secrets: tuple[Secret, ...] = ()
        if request_input.server_tools:
            secrets = tuple([secret for tool in request_input.server_tools for secret in tool.secrets])
        request = build_request("POST", url, headers, json_object(members), notes, secrets)
        return request if prefix is None else replace(request, prefix=prefix)

    def _encode_messages(
        self, encoder: RequestEncoder, messages: Sequence[Message], given: Sequence[Message]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the fields with the messages, refused media as text, and notes. Those `given` may have other data."""
        described = messages
        if self._refused_media or messages is not given:  # else they refer to no file
            described = with_described_media(messages, self._has_taken)
        try:
            own = encoder.encode_messages(described)
        except BadRequest:
            taken = with_described_media(described, encoder.takes)
            if taken is described:
                raise
            described = taken
            own = encoder.encode_messages(described)
        notes = list(encoder.notes)
        if described is not messages:
            notes.append(_MEDIA_LEFT_OUT)
        if messages is not given and any(map(self.cannot_read, _opaque_data(given))):
            notes.append(_SEALED_LEFT_OUT)
        return own, tuple(notes)

    def _has_taken(self, role: Role, part: Part) -> bool:
        if isinstance(part, FileRef) and not (self.takes_files and part.provider == self.provider):
            return False
        return (part.images[0] if isinstance(part, ToolResultPart) else part) not in self._refused_media

    def decoder(self, request_input: RequestInput) -> ResponseDecoder:
        """Return a fresh decoder for one response, streamed or not."""
        inner = self.protocol_decoder(self._error_source(request_input.model), request_input)
        form = self.call_format(request_input)
        if form is None:
            return inner
        calls = JSONTextCalls(form, request_input.calls_before)
        return JSONTextDecoder(inner, calls, accept_damaged=request_input.accept_damaged)

    @abstractmethod
    def protocol_decoder(self, source: ErrorSource, request_input: RequestInput) -> ResponseDecoder:
        """Return the decoder of the protocol's own events."""

    def call_format(self, options: RequestInput | RequestOptions) -> CallFormat | None:
        """Return the format of tool calls in the text of a response; None if the protocol has native tool calls."""
        return schema_call_format(options) if options.mode == "json_schema" else None

    @abstractmethod
    def encoder(self, options: RequestOptions, settings: Settings) -> RequestEncoder:
        """Return the encoder of requests with these options and settings."""

    def _new_encoder(self, options: RequestOptions, settings: Settings) -> RequestEncoder:
        encoder = self.encoder(options, settings)
        encoder.notes += check_stored(encoder.stores, settings)
        encoder.notes += check_outputs(encoder.provider, encoder.outputs, settings)
        if settings.adapt is not False:
            for change in self._changes.get(options.model, ()):
                if (note := change.apply(encoder.fields)) is not None:
                    encoder.notes.append(note)
        return encoder

    def url(self, request_input: RequestInput) -> SecretURL:
        """Return the URL that the request is sent to."""
        return self._endpoint.url

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """Return the exception for a response with an HTTP status of 300 or more."""
        return http_error(status, headers, body, self._endpoint.error_source(None))

    @property
    def service_root(self) -> str:
        """The URL that the paths of requests beside chat follow, with any credentials; its query is preserved."""
        return self._endpoint.url.reveal()

    def service_request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> HTTPRequest:
        """Return a request to the service beside chat, such as for files and batches, with its credentials.

        Args:
            method: The HTTP method.
            path: The path after `service_root`; ids in it are encoded with `path_segment`.
            query: Parameters that are added to the query of the root.
            body: The body; `content-type` is JSON unless `headers` has another.
            headers: Headers in lower case that override the adapter's own.
        """
        root, _, root_query = self.service_root.partition("?")
        given = "&".join([part for part in (root_query, urlencode(query)) if part])
        url = SecretURL(f"{root.rstrip('/')}{path}" + (f"?{given}" if given else ""))
        return build_request(method, url, self._service_headers(body, headers), body)

    def linked_request(
        self, method: str, url: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> HTTPRequest:
        """Return a request to a URL from a response of the service. Another origin gets no credentials.

        Raises:
            MalformedEvent: It is no HTTP URL, or it would be sent without TLS where the service has TLS.
        """
        own, other = _origin(self.service_root), _origin(url)
        if other is None or (own is not None and own[0] == "https" and other[0] != "https"):
            shown = SecretURL(url).shown
            raise MalformedEvent(
                f"the service returned the URL {shown!r:.200}; expected an https URL. Check that base_url is right."
            )
        if own == other:
            return build_request(method, SecretURL(url), self._service_headers(body, headers), body)
        sent: dict[str, str | Secret] = {"accept": "*/*", **(headers or {})}
        return build_request(method, SecretURL(url), sent, body)

    def is_own(self, request: HTTPRequest) -> bool:
        """Return True if `request` goes to the origin of the service, so that it may have credentials."""
        return _origin(request.target) == _origin(self.service_root)

    def _service_headers(self, body: bytes, headers: Mapping[str, str] | None) -> dict[str, str | Secret]:
        sent = self.headers(stream=False)
        if not body:
            del sent["content-type"]
        return sent | {**(headers or {})}

    def batches(self) -> BatchCodec | None:
        """Return the codec of the provider's batch API; None if it has none."""
        return None

    def files(self) -> FileCodec | None:
        """Return the codec of the provider's files; None if it has none."""
        return None

    def embeddings(self) -> EmbeddingCodec | None:
        """Return the codec of the provider's embeddings; None if it has none."""
        return None

    def count_tokens(self, request_input: RequestInput, settings: Settings) -> Exchange[int] | None:
        """Return the requests that count the input tokens of a request; None if the provider does not count them."""
        return None

    def post(self, path: str, body: Mapping[str, Any]) -> HTTPRequest:
        """Return a request to the service beside chat with a JSON body; see `service_request`."""
        return self.service_request("POST", path, body=json_body(body))

    def reported_error(self, error: object) -> LLMError:
        """Return the exception for an error in the JSON of a successful response; `error` is what contains it."""
        return stream_error(error, self._endpoint.error_source(None))

    def mask(self, text: str) -> str:
        """Return `text` without the credentials of the endpoint."""
        return self._endpoint.error_source(None).mask(text)

    def headers(self, stream: bool) -> dict[str, str | Secret]:
        """Return the headers of a request. Raise `BadRequest` for characters that a header cannot have."""
        return dict(self._headers[stream])

    @cached_property
    def _headers(self) -> tuple[dict[str, str | Secret], dict[str, str | Secret]]:
        whole, streamed = self.accept
        return self._checked(whole), self._checked(streamed)

    def _checked(self, accept: str) -> dict[str, str | Secret]:
        headers: dict[str, str | Secret] = {"content-type": "application/json", "accept": accept}
        headers |= {**self._endpoint.auth_headers, **self.fixed_headers, **self._own_headers}
        for name, value in headers.items():
            check_header(name, value)
        return headers


def _extra(encoder: RequestEncoder, own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `Settings.extra`, with its tools and objects merged into those of the request.

    Raise `BadRequest` if it contradicts a field that the call depends on.
    """
    extra = _with_own_tools(encoder.tools_field, own, given)
    for name in encoder.extended:
        if name in extra:
            extra[name] = [*own[name], *(each for each in _as_sequence(extra[name]) if each not in own[name])]
    for name in encoder.protected_fields:
        _check_fixed(name, own, extra)
    return {name: _merged(own.get(name), value) for name, value in extra.items()}


def _merged(own: Any, more: Any) -> Any:
    """Return `more`, with the other fields of `own` if both are objects, at every depth."""
    if not (isinstance(own, Mapping) and isinstance(more, Mapping)):
        return more
    ours, theirs = cast("Mapping[str, Any]", own), cast("Mapping[str, Any]", more)
    return {**ours, **{name: _merged(ours.get(name), value) for name, value in theirs.items()}}


def _with_own_tools(path: str, own: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return `extra`, with the tools of the request in front of those at the path in it."""
    name, _, rest = path.partition(".")
    if name not in extra:
        return dict(extra)
    ours, theirs = own.get(name), cast("object", extra[name])
    if not rest:
        return {**extra, name: _all_tools(ours or [], theirs)}
    if not isinstance(theirs, Mapping):
        return dict(extra)
    return {**extra, name: _with_own_tools(rest, ours or {}, cast("Mapping[str, Any]", theirs))}


def _all_tools(own: Sequence[Any], more: object) -> list[Any]:
    """Return the tools of a request and those of `extra`; raise `BadRequest` for two of one name or of one kind."""
    if not isinstance(more, (list, tuple)):
        raise BadRequest(f"extra['tools']: expected a list of tools, got {type(more).__name__}: {more!r:.100}")
    added = [tool for tool in cast("Sequence[Any]", more) if tool not in own]
    for tool in added:
        if not isinstance(tool, Mapping):
            raise BadRequest(f"extra['tools']: expected a dict per tool, got {type(tool).__name__}: {tool!r:.100}")
    taken = {name for tool in own for name, _ in _names(tool)}
    both = [sent for tool in added for name, sent in _names(tool) if name in taken]
    if both:
        raise BadRequest(
            f"extra['tools'] has another tool named {min(both)!r}: rename one of them, or leave it out of extra. A "
            "tool that the provider runs takes further fields as its own extra="
        )
    return [*own, *added]


def _kind(name: str) -> str:
    """Return a name without what differs between spellings and versions of one tool of a provider.

    Google takes `googleSearch` and `google_search`; OpenAI has `web_search`, `web_search_preview` and dated versions.
    """
    return re.sub(r"_preview|_20\d\d_?\d\d_?\d\d|_", "", name).lower()


def _names(tool: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names that a tool has, in any provider's format: to compare, and as they are sent."""
    functions = (
        tool,
        tool.get("function"),
        tool.get("toolSpec"),
        tool.get("systemTool"),
        *_as_sequence(tool.get("functionDeclarations")),
    )
    for function in functions:
        name = cast("Mapping[str, Any]", function).get("name") if isinstance(function, Mapping) else None
        if isinstance(name, str):
            yield name, name
    if "type" not in tool:  # Google's tools: `{"googleSearch": {}}`
        yield from ((_kind(key), key) for key in tool if key not in _NAMED_INSIDE)
    elif tool.get("type") not in ("function", "custom") and "name" not in tool:
        label = tool.get("server_label") or tool.get("mcp_server_name")
        sent = f"{label} ({tool['type']})" if label else str(tool["type"])
        yield sent if label else _kind(sent), sent


# The names are inside of these; a cache point has none.
_NAMED_INSIDE = frozenset(("functionDeclarations", "mcpServers", "toolSpec", "systemTool", "cachePoint"))


def _as_sequence(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else ()


def _check_fixed(path: str, own: Mapping[str, Any], extra: Mapping[str, Any]) -> None:
    """Raise `BadRequest` if both have a value at the path, and the values differ."""
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


STORED = ("store", "previous_response_id", "conversation", "background")
"""The settings for responses that the service stores."""


OUTPUT_SETTINGS = ("voice", "audio_format", "aspect_ratio", "image_size")
"""The settings for the images and the recordings of a response."""


def check_outputs(provider: str, supported: frozenset[str], settings: Settings) -> list[str]:
    """Return the settings of `OUTPUT_SETTINGS` that are left out. Raise `BadRequest` for a kind of output."""
    for kind in settings.modalities or ():
        if kind not in supported:
            other = ", or use tools=[ImageGeneration()] with OpenAI's Responses API" if kind == "image" else ""
            raise BadRequest(
                f"{provider} has no {kind} output with this protocol: leave {kind!r} out of modalities={other}"
            )
    return [name for name in OUTPUT_SETTINGS if getattr(settings, name) is not None and name not in supported]


def check_stored(supported: frozenset[str], settings: Settings) -> list[str]:
    """Return the settings of `STORED` that are left out: `store=False` and `"auto"`, where nothing is stored anyway.

    Raises:
        BadRequest: Another one is set that the service does not have, or two contradict each other.
    """
    left_out: list[str] = []
    for name in STORED:
        value = getattr(settings, name)
        if value is None or name in supported or (name == "background" and not value):
            continue
        if value is not False and value != "auto":
            raise BadRequest(
                f"{name} is not supported by this service and its protocol: leave it out, or use "
                "api='responses' with a service that stores responses"
            )
        left_out.append(name)
    if "previous_response_id" not in supported:
        return left_out
    if settings.conversation is not None and settings.previous_response_id is not None:
        raise BadRequest("conversation and previous_response_id exclude each other: leave one of them out")
    if settings.store is False and (settings.background or settings.previous_response_id == "auto"):
        name = "background=True" if settings.background else "previous_response_id='auto'"
        raise BadRequest(f"{name} needs a response that the service stores: leave store=False out")
    return left_out


def check_header(name: str, value: str | Secret) -> None:
    """Raise `BadRequest` for characters that a header cannot have."""
    if not _is_legal(name, value):
        raise BadRequest(
            f"the header {name!r} has characters that a header cannot have; "
            "look for a line break or a typographic quote at the end of the key"
        )


def _is_legal(name: str, value: str | Secret) -> bool:
    # The text of a secret stays in this encoder, which no traceback shows.
    text = value.reveal() if isinstance(value, Secret) else value
    # The values come from the caller's code, whose types are not checked.
    texts = cast("tuple[object, ...]", (name, text))
    return all(isinstance(each, str) and each.isascii() and not _CONTROL.search(each) for each in texts)


def join_url(base_url: str, path: str) -> str:
    """Return `base_url` with `path` appended unless it ends in it already; a query stays at the end."""
    url, mark, query = base_url.strip().partition("?")
    url = url.rstrip("/")
    if not _is_http(base_url.strip()):
        raise BadRequest(f"base_url={SecretURL(base_url).shown!r} is no HTTP URL; expected for example https://host/v1")
    return (url if url.endswith(path) else url + path) + mark + query


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0 and not _CONTROL.search(url)


def _origin(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of an HTTP URL (RFC 6454, section 4); None for any other."""
    if not _is_http(url):
        return None
    parts = urlsplit(url)
    return parts.scheme, str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)


def path_segment(id: str) -> str:
    """Return an id from a response as a segment of a path. Raise `MalformedEvent` if it would change the path."""
    if id in ("", ".", ".."):
        raise MalformedEvent(f"the service returned the id {id!r}; expected a name. Check that base_url is right.")
    return quote(id, safe="")


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_encode_name = lru_cache(256)(_encode)


def json_member(name: str, value: Any, *, history: bool = False) -> str:
    """Return `"name":value` for a JSON object. Raise `BadRequest` for a value that JSON cannot represent.

    In a `history`, a number that JSON does not have becomes null: it stands in a block of the service, where 1e999 was
    read as infinity.
    """
    try:
        return f"{_encode_name(name)}:{_encode(value)}"
    except (TypeError, ValueError, RecursionError) as error:
        if history and isinstance(error, ValueError):
            return json_member(name, finite(value))
        raise BadRequest(f"the request cannot be encoded as JSON: {error}") from error


def json_object(members: Mapping[str, str]) -> bytes:
    """Return the JSON object of these encoded fields."""
    text = "{" + ",".join(members.values()) + "}"
    return (text if text.isascii() else replace_surrogates(text)).encode()


def json_body(fields: Mapping[str, Any]) -> bytes:
    """Return the JSON object of `fields`. Raise `BadRequest` for values that JSON cannot represent."""
    return json_object({name: json_member(name, value) for name, value in fields.items()})


def _is_set(value: object) -> bool:
    return value is not None and value is not False  # logprobs=False asks for nothing


def top_logprobs(logprobs: bool | int | None) -> int | None:
    """Return the number of alternatives of each token to ask for; None if no log probabilities are wanted."""
    if logprobs is None or logprobs is False:
        return None
    return 0 if logprobs is True else int(logprobs)


def thinking_effort(thinking: bool | str | int) -> str:
    """Return a level of thinking, for providers without token budgets."""
    if isinstance(thinking, bool):
        return "medium" if thinking else "none"
    if isinstance(thinking, str):
        return thinking
    return "none" if thinking <= 0 else "low" if thinking <= 2048 else "medium" if thinking <= 8192 else "high"


def thinking_budget(thinking: bool | str | int) -> int | None:
    """Return the token budget of thinking, if `thinking` is a number."""
    return thinking if isinstance(thinking, int) and not isinstance(thinking, bool) and thinking > 0 else None
