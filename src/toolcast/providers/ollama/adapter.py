"""Ollama's own protocol, `/api/chat`: messages to requests.

Ollama has no `tool_choice`. With `"auto"`, or in the mode `tool_call`, tools are sent as they are and its native calls
are read; if a call is otherwise required, `format` constrains the response to the schema of the call, and its text is
read as the call while it streams.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from ...errors import BadRequest, LLMError
from ...messages import ImagePart, Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from ...values.credentials import API_KEY_VARIABLES, Secret, SecretURL
from ...values.settings import Settings
from ...values.tool_spec import ToolSpec, legal_name
from ..base import RequestInput, RequestOptions, ResponseDecoder
from ..content_parts import arguments_object, inline_data, result_text, unsupported_part
from ..http_adapter import CACHE_SETTINGS, Endpoint, HTTPAdapter, RequestEncoder, join_url, top_logprobs
from ..http_errors import ErrorSource
from ..schemas.strict import ollama_format
from ..tool_calls.json_calls import CallFormat, call_format, instructions, response_schema, with_instructions
from .decoder import OllamaDecoder, with_pull_advice

if TYPE_CHECKING:
    from ..embedding_codec import EmbeddingCodec

_PORT = 11434
_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "num_predict": "max_tokens",
    "num_ctx": "num_ctx",
}
# The levels of thinking that it does not support.
_LEVELS: Mapping[bool | str, bool | str] = {"none": False, "minimal": "low", "xhigh": "high"}


def ollama_url(host: str = "") -> str:
    """Return the URL of a value of `OLLAMA_HOST`; that of this machine if it is empty.

    Accepts the forms that Ollama accepts: `host`, `host:port`, `:port`, `[::1]:port`, an http or https URL, each with
    an optional path. A user and password, and a query, are preserved. An address to listen on (`0.0.0.0`, `::`) becomes
    one to connect to.
    """
    scheme, mark, rest = host.strip().strip("\"'").rpartition("://")
    scheme = scheme or "http"
    default = {"http": 80, "https": 443}.get(scheme) if mark else _PORT
    head, slash, tail = rest.partition("/")
    login, at, head = head.rpartition("@")
    if head.count(":") > 1 and not head.startswith("["):
        head = f"[{head}]"
    parts = urlsplit(f"//{head}{slash}{tail}")
    shown = SecretURL(host).shown
    try:
        port = parts.port or default
    except ValueError as error:
        raise BadRequest(f"OLLAMA_HOST={shown!r} is no address: {error}") from error
    if scheme not in ("http", "https"):
        raise BadRequest(f"OLLAMA_HOST={shown!r} is no http address")
    name = parts.hostname or "127.0.0.1"
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)
    name = f"[{name}]" if ":" in name else name
    query = f"?{parts.query}" if parts.query else ""
    return f"{scheme}://{login}{at}{name}:{port}{parts.path.rstrip('/')}{query}"


class OllamaAdapter(HTTPAdapter):
    """An adapter for one Ollama server; `base_url` is its URL, without `/api/chat`."""

    accept: ClassVar[tuple[str, str]] = ("application/json", "application/x-ndjson, application/json")

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key: Secret | None = None,
        headers: Mapping[str, str | Secret] | None = None,
    ) -> None:
        url = join_url(base_url or ollama_url(), "/api/chat")
        super().__init__(
            Endpoint("ollama", SecretURL(url), api_key, headers or {}, key_env=API_KEY_VARIABLES["ollama"])
        )

    @property
    def service_root(self) -> str:
        """The URL of the server, with any credentials."""
        url, mark, query = super().service_root.partition("?")
        return f"{url.removesuffix('/api/chat')}{mark}{query}"

    def embeddings(self) -> EmbeddingCodec:
        """Return the codec of embeddings."""
        from .embeddings import OllamaEmbeddings

        return OllamaEmbeddings(self)

    def encoder(self, options: RequestOptions, settings: Settings) -> OllamaRequestEncoder:
        """Return the encoder of requests with these options and settings."""
        return OllamaRequestEncoder(options, settings)

    def protocol_decoder(self, source: ErrorSource, request_input: RequestInput) -> ResponseDecoder:
        """Return the decoder of the protocol's events."""
        return OllamaDecoder(source, request_input)

    def call_format(self, options: RequestInput | RequestOptions) -> CallFormat | None:
        """Return the format that `format` constrains the response to; None if calls are optional or native."""
        return required_format(options)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """Return the exception for a response with an HTTP status of 300 or more."""
        return with_pull_advice(super().error(status, headers, body))


def required_format(options: RequestInput | RequestOptions) -> CallFormat | None:
    """Return the format that `format` constrains the response to; None if calls are optional or native."""
    form = call_format(options)
    return None if form is None or not form.forced or options.mode == "tool_call" else form


class OllamaRequestEncoder(RequestEncoder):
    """The part of an `/api/chat` request that does not depend on its messages."""

    def __init__(self, options: RequestOptions, settings: Settings) -> None:
        super().__init__("ollama", options)
        self._instructions: str | None = None
        self.fields.update({"model": options.model, "messages": [], "stream": options.stream})
        required, form = required_format(options), call_format(options)
        if required is not None:
            self.fields["format"] = ollama_format(response_schema(required))
            self._instructions = instructions(required)
        elif form is not None:
            self.fields["tools"] = [_tool(tool) for tool in form.tools]
            if form.forced:
                self.notes.append("tool_choice")
        if settings.thinking is not None:
            # It has no token budgets: thinking is on or off.
            thinking = settings.thinking if isinstance(settings.thinking, str) else bool(settings.thinking)
            self.fields["think"] = _LEVELS.get(thinking, thinking)
        if runtime_options := _options(settings):
            self.fields["options"] = runtime_options
        if settings.keep_alive is not None:
            self.fields["keep_alive"] = settings.keep_alive
        if (alternatives := top_logprobs(settings.logprobs)) is not None:
            self.fields.update({"logprobs": True, **({"top_logprobs": alternatives} if alternatives else {})})
        self.note_settings(settings, "strict", "service_tier", *CACHE_SETTINGS)

    def encode_messages(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the messages, encoded."""
        messages = messages if self._instructions is None else with_instructions(messages, self._instructions)
        return {"messages": [sent for message in messages for sent in _messages(message)]}


def _options(settings: Settings) -> dict[str, Any]:
    options = {name: value for name, of in _OPTIONS.items() if (value := getattr(settings, of)) is not None}
    if settings.stop is not None:
        options["stop"] = list(settings.stop)
    return options


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": legal_name(tool.name), "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


# -- messages


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    results = [part for part in message.parts if isinstance(part, ToolResultPart)]
    for result in results:
        sent: dict[str, Any] = {
            "role": "tool",
            "tool_name": result.name and legal_name(result.name),
            "content": result_text(result),
        }
        if result.images:
            sent["images"] = [_image(image) for image in result.images]
        yield {**sent, "tool_call_id": result.call_id}
    others = [part for part in message.parts if not isinstance(part, ToolResultPart)]
    if others or not results:
        yield _text_message(message, others)


def _text_message(message: Message, parts: Sequence[Part]) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": message.role, "content": message.text}
    for part in parts:
        match part:
            case TextPart():
                pass
            case ThinkingPart():
                sent["thinking"] = sent.get("thinking", "") + part.text
            case ToolCallPart():
                sent.setdefault("tool_calls", []).append(_call(part))
            case ImagePart():
                sent.setdefault("images", []).append(_image(part))
            case _:
                raise unsupported_part("Ollama", part, f"in a message of the {message.role}")
    return sent


def _call(call: ToolCallPart) -> dict[str, Any]:
    return {"id": call.id, "function": {"name": legal_name(call.name), "arguments": arguments_object(call)}}


def _image(image: ImagePart) -> str:
    found = inline_data(image)
    if found is None:
        raise BadRequest("Ollama takes an image by its bytes, not by a url: use ImagePart(data=...)")
    return found[1]
