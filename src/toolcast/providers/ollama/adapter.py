"""Ollama's own protocol, `/api/chat`: JSON lines, arguments as objects, whole tool calls.

Ollama knows no `tool_choice`. With `"auto"`, or in the mode `tool_call`, tools go out as they are and its own calls
come back; where a call is forced otherwise, the answer is held to the schema of the call by `format`, and its text read
as the call, growing. A line that holds an `error` ends the answer with the typed error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

from jiter import from_json

from ...credentials import API_KEY_VARIABLES, Secret, SecretURL
from ...errors import BadRequest, LLMError, NotFound
from ...events import (
    Event,
    Finish,
    RawEvent,
    StopReason,
    TextDelta,
    ThinkingDelta,
    UsageReport,
)
from ...messages import ImagePart, Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from ...settings import Settings
from ...tool_spec import ToolSpec, legal_name
from ...usage import Usage
from ..base import RequestInput, RequestOptions, ResponseDecoder
from ..content_parts import arguments_of, cannot_take, inlined, result_text
from ..http_adapter import Address, HTTPAdapter, RequestEncoder, endpoint
from ..http_errors import ErrorSource, stream_error
from ..response_decoder import START, FramedDecoder, as_dict, as_list, as_str
from ..schemas.strict import ollama_format
from ..sse import JSONLines
from ..tool_calls.by_id import OpenCalls
from ..tool_calls.json_text import Form, answer_schema, form_of, instructed, instructions

_PORT = 11434
_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "num_predict": "max_tokens",
}
# The levels of thinking that it does not know.
_LEVELS: Mapping[bool | str, bool | str] = {"none": False, "minimal": "low", "xhigh": "high"}
_STOP: dict[str, StopReason] = {
    "stop": "end_turn",
    "load": "end_turn",
    "unload": "end_turn",
    "length": "max_tokens",
}

# Fields of a line of `/api/generate`, which has no `message`.
_GENERATED = ("response", "thinking")


def ollama_url(host: str = "") -> str:
    """The address that a value of `OLLAMA_HOST` stands for; this machine's where it is empty.

    Takes what Ollama takes: `host`, `host:port`, `:port`, `[::1]:port`, an http or https URL, a path behind any. A user
    and password before the host, and a query, are kept.
    An address to listen on (`0.0.0.0`, `::`) becomes one to connect to.
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
    """The wire of one Ollama server; `base_url` is its address, without `/api/chat`."""

    accept: ClassVar[tuple[str, str]] = ("application/json", "application/x-ndjson, application/json")

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key: Secret | None = None,
        headers: Mapping[str, str | Secret] | None = None,
    ) -> None:
        url = endpoint(base_url or ollama_url(), "/api/chat")
        super().__init__(Address("ollama", SecretURL(url), api_key, headers or {}, key_env=API_KEY_VARIABLES["ollama"]))

    def frame(self, terms: RequestOptions, settings: Settings) -> OllamaRequestEncoder:
        """What requests with these terms and settings have in common."""
        return OllamaRequestEncoder(terms, settings)

    def answer(self, source: ErrorSource, conversation: RequestInput) -> ResponseDecoder:
        """What reads the protocol's own events."""
        return OllamaDecoder(source, conversation)

    def form(self, terms: RequestInput | RequestOptions) -> Form | None:
        """The form that `format` holds the answer to; None where the model is free to call a tool, or not."""
        return held_form(terms)

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """The error that an HTTP status of 300 or more stands for."""
        return _with_pull(super().error(status, headers, body))


def held_form(terms: RequestInput | RequestOptions) -> Form | None:
    """The form that `format` holds the answer to; None where the model is free to call a tool, or not."""
    form = form_of(terms)
    return None if form is None or not form.forced or terms.mode == "tool_call" else form


class OllamaRequestEncoder(RequestEncoder):
    """One request of `/api/chat` but for its messages."""

    def __init__(self, terms: RequestOptions, settings: Settings) -> None:
        super().__init__("ollama", terms)
        self._told: str | None = None
        self.fields.update({"model": terms.model, "messages": [], "stream": terms.stream})
        held, form = held_form(terms), form_of(terms)
        if held is not None:
            self.fields["format"] = ollama_format(answer_schema(held))
            self._told = instructions(held)
        elif form is not None:
            self.fields["tools"] = [_tool(tool) for tool in form.tools]
            if form.forced:
                self.notes.append("tool_choice")
        if settings.thinking is not None:
            # A budget in tokens is more than it can be told: it thinks, or it does not.
            thinking = settings.thinking if isinstance(settings.thinking, str) else bool(settings.thinking)
            self.fields["think"] = _LEVELS.get(thinking, thinking)
        if options := _options(settings):
            self.fields["options"] = options

    def said(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The messages, as data."""
        said = messages if self._told is None else instructed(messages, self._told)
        return {"messages": [sent for message in said for sent in _messages(message)]}


def _with_pull(error: LLMError) -> LLMError:
    if isinstance(error, NotFound):
        named = re.search(r"model '([^']+)' not found", error.message)
        if named:
            error.args = (f"{error.message} To fetch the model: ollama pull {named[1]}",)
    return error


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
        yield _spoken(message, others)


def _spoken(message: Message, parts: Sequence[Part]) -> dict[str, Any]:
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
                raise cannot_take("Ollama", part, f"in a message of the {message.role}")
    return sent


def _call(call: ToolCallPart) -> dict[str, Any]:
    return {"id": call.id, "function": {"name": legal_name(call.name), "arguments": arguments_of(call)}}


def _image(image: ImagePart) -> str:
    found = inlined(image)
    if found is None:
        raise BadRequest("Ollama takes an image by its bytes, not by a url: use ImagePart(data=...)")
    return found[1]


# -- the answer


class OllamaDecoder(FramedDecoder[JSONLines]):
    """The events of one answer of `/api/chat`, streamed or whole."""

    kind: ClassVar[str] = "answer of Ollama's /api/chat"
    vital: ClassVar[tuple[str, ...]] = ('"tool_calls"',)

    def __init__(self, source: ErrorSource, conversation: RequestInput) -> None:
        super().__init__(source, conversation, JSONLines())
        self._calls = OpenCalls(conversation)

    def _read(self, data: bytes, out: list[Event]) -> None:
        if len(self._head) < START:
            self._head += data[:START]
        for line in self._frames.feed(data):
            self._line(line, out)

    def _end_body(self, out: list[Event]) -> None:
        for line in self._frames.close():
            if _decoded(line) is None and line.startswith(b"{"):
                break  # a line that was cut off
            self._line(line, out)
        if not self._over:
            raise self._truncated() if self._head.lstrip().startswith(b"{") else self._unreadable(self._head)

    def _line(self, line: bytes, out: list[Event]) -> None:
        if self._over:
            return
        if text := self._envelope.text(b"%b\n" % line):
            out.append(TextDelta(text))
            return
        self._envelope.forget()
        before = len(out)
        document = _decoded(line)
        if document is None:
            text = line.decode("utf-8", "replace")
            out.append(RawEvent(text, damaged=True))
            if text.startswith("{"):
                self._lose(text)
            return
        if document.get("error") or document.get("done_reason") == "error":
            raise _with_pull(stream_error({"error": document.get("error") or "it gave no reason"}, self._source))
        self._model = as_str(document.get("model")) or self._model
        key = self._message(as_dict(document.get("message")), document, out)
        if document.get("done"):
            self._end(document, out)
        elif document.keys().isdisjoint(("message", *_GENERATED)):
            out.append(RawEvent(document))
        elif len(out) == before + 1 and isinstance(last := out[-1], TextDelta):
            self._envelope.learn(b"%b\n" % line, key, last.text)

    def _message(self, message: dict[str, Any], document: dict[str, Any], out: list[Event]) -> str:
        """Read the message of a line; return the name of the field that holds its text.

        Proxies of Ollama's `/api/generate` have text and thinking beside the message, or in place of it.
        """
        if thinking := as_str(message.get("thinking")) or as_str(document.get("thinking")):
            out.append(ThinkingDelta(thinking))
        content = as_str(message.get("content"))
        if text := content or as_str(document.get("response")):
            out.append(TextDelta(text))
        for call in as_list(message.get("tool_calls")):
            self._tool_call(as_dict(call), out)
        return "content" if content else "response"

    def _tool_call(self, found: dict[str, Any], out: list[Event]) -> None:
        function = as_dict(found.get("function"))
        arguments: Any = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments or {}, ensure_ascii=False)
        name = as_str(function.get("name"))
        self._calls.whole(found.get("id"), name, arguments if arguments.strip() else "{}", out)

    def _end(self, document: Mapping[str, Any], out: list[Event]) -> None:
        self._check_whole()
        reason = str(document.get("done_reason") or "stop")
        stop = _STOP.get(reason, "other")
        if self._calls.count and stop != "max_tokens":
            stop = "tool_use"
        tokens = [document.get(name) for name in ("prompt_eval_count", "eval_count")]
        counts = [token if isinstance(token, int) and token > 0 else 0 for token in tokens]
        if any(counts):
            out.append(UsageReport(Usage(*counts)))
        out.append(Finish(stop, self._model, reason))
        self._over = True


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        document: object = from_json(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None
