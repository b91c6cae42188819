"""Ollama's own protocol, `/api/chat`: JSON lines, arguments as objects, whole tool calls.

Ollama knows no `tool_choice`. With `"auto"` tools go out as they are and its own calls come back; where a
call is forced, the answer is held to the schema of the call by `format`, and its text read as the call,
growing. Both decoders take bytes cut anywhere. A line that holds an `error` ends the answer with the typed
error.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from jiter import from_json

from ..errors import BadRequest, LLMError, MalformedEvent, NotFound, StreamTruncated
from ..events import (
    Event,
    Finish,
    RawEvent,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    UsageReport,
)
from ..messages import ImagePart, Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from ..settings import Settings
from ..usage import Usage
from .forced_calls import ForcedDecoder, Form, calls_before, form_of
from .framing import JSONLines
from .http_errors import Source, http_error, shortened, stream_error
from .openai_chat import endpoint
from .wire import Conversation, Decoder, HTTPRequest, Secret, Terms, ToolNames, member, once_for_all

_PORT = 11434
_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "num_predict": "max_tokens",
}
_STOP: dict[str, StopReason] = {
    "stop": "end_turn",
    "load": "end_turn",
    "unload": "end_turn",
    "length": "max_tokens",
}


def ollama_url(host: str = "") -> str:
    """The address that a value of `OLLAMA_HOST` stands for; this machine's where it is empty.

    Takes what Ollama takes: `host`, `host:port`, `:port`, `[::1]:port`, an http or https URL, a path behind any.
    An address to listen on (`0.0.0.0`, `::`) becomes one to connect to.
    """
    scheme, mark, rest = host.strip().strip("\"'").rpartition("://")
    scheme = scheme or "http"
    default = {"http": 80, "https": 443}.get(scheme) if mark else _PORT
    if rest.count(":") > 1 and not rest.startswith("["):
        rest = f"[{rest}]"
    parts = urlsplit(f"//{rest}")
    try:
        port = parts.port or default
    except ValueError as error:
        raise BadRequest(f"OLLAMA_HOST={host!r} is no address: {error}") from error
    if scheme not in ("http", "https"):
        raise BadRequest(f"OLLAMA_HOST={host!r} is no http address")
    name = parts.hostname or "127.0.0.1"
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)
    shown = f"[{name}]" if ":" in name else name
    return f"{scheme}://{shown}:{port}{parts.path.rstrip('/')}"


class OllamaWire:
    """The wire of one Ollama server; `base_url` is its address, without `/api/chat`."""

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key: Secret | None = None,
        headers: Mapping[str, str | Secret] | None = None,
    ) -> None:
        self._url = endpoint(base_url or ollama_url(), "/api/chat")
        self._key = api_key
        self._own_headers = {name.lower(): value for name, value in (headers or {}).items()}
        self._frame = once_for_all(_Frame)

    @property
    def provider(self) -> str:
        """The name of the service."""
        return "ollama"

    def request(self, conversation: Conversation, settings: Settings) -> HTTPRequest:
        """The request to send. Raises `BadRequest` for what Ollama cannot take."""
        try:
            frame = self._frame(conversation, settings)
            members = {**frame.members, "messages": member("messages", frame.messages(conversation.messages))}
            extra = dict(settings.extra or {})
            if options := {**frame.options, **extra.pop("options", {})}:
                extra = {"options": options, **extra}
            for name, value in extra.items():
                members[name] = member(name, value)
            body = _encoded(members)
        except BadRequest as error:
            error.provider = self.provider
            raise
        return HTTPRequest("POST", self._url, self._headers(), body)

    def decoder(self, conversation: Conversation) -> Decoder:
        """A fresh decoder for one answer, streamed or whole."""
        form = form_of(conversation)
        inner = OllamaDecoder(self._source(conversation.model), conversation)
        if form is None or not form.forced:
            return inner
        return ForcedDecoder(inner, form, calls_before(conversation))

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> LLMError:
        """The error that an HTTP status of 300 or more stands for."""
        return _with_pull(http_error(status, headers, body, self._source(None)))

    def _source(self, model: str | None) -> Source:
        own = [value for value in self._own_headers.values() if isinstance(value, Secret)]
        keys = own if self._key is None else [self._key, *own]
        return Source(self.provider, model, ("OLLAMA_API_KEY",), tuple(keys))

    def _headers(self) -> dict[str, str | Secret]:
        headers: dict[str, str | Secret] = {
            "content-type": "application/json",
            "accept": "application/x-ndjson, application/json",
        }
        if self._key:
            headers["authorization"] = Secret(f"Bearer {self._key.reveal()}")
        return headers | self._own_headers


class _Frame:
    """One request but for its messages: the `members` of its JSON body by name, and the `options` without extras."""

    def __init__(self, terms: Terms, settings: Settings) -> None:
        form = form_of(terms)
        self._names = ToolNames(terms.tools)
        self._told: str | None = None
        fields: dict[str, Any] = {"model": terms.model, "messages": [], "stream": terms.stream}
        if form is not None and form.forced:
            fields["format"] = _format(form)
            self._told = _instructions(form)
        elif form is not None:
            fields["tools"] = [
                _tool(tool.description, tool.parameters, self._names.wire[tool.name]) for tool in form.tools
            ]
        if settings.thinking is not None:
            # A budget in tokens is more than it can be told: it thinks, or it does not.
            budget = isinstance(settings.thinking, int) and not isinstance(settings.thinking, bool)
            fields["think"] = bool(settings.thinking) if budget else settings.thinking
        self.members = {name: member(name, value) for name, value in fields.items()}
        self.options = _options(settings)

    def messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """What is said, as data. Raises `BadRequest` for what Ollama cannot take."""
        said = messages if self._told is None else _instructed(messages, self._told)
        return [sent for message in said for sent in _messages(message, self._names)]


def _instructions(form: Form) -> str:
    """What the tools are, in words: of a `format` the model itself sees nothing."""
    told = "\n".join(f"{tool.name}: {tool.description}" for tool in form.tools)
    whole = f"Answer with JSON that follows this JSON Schema: {json.dumps(_format(form), ensure_ascii=False)}"
    return f"{told}\n\n{whole}"


def _instructed(messages: Sequence[Message], told: str) -> tuple[Message, ...]:
    """`messages` with what the tools are in the system message."""
    first = messages[0] if messages and messages[0].role == "system" else None
    text = told if first is None else f"{first.text}\n\n{told}"
    return (Message("system", (TextPart(text),)), *(messages[1:] if first else messages))


def _with_pull(error: LLMError) -> LLMError:
    if isinstance(error, NotFound):
        named = re.search(r"model '([^']+)' not found", error.message)
        model = named[1] if named else "MODEL"
        error.args = (f"{error.message} To fetch the model: ollama pull {model}",)
    return error


def _encoded(members: Mapping[str, str]) -> bytes:
    try:
        return ("{" + ",".join(members.values()) + "}").encode()
    except UnicodeEncodeError as error:
        raise BadRequest(f"the request cannot be written as JSON: {error}") from error


def _options(settings: Settings) -> dict[str, Any]:
    options = {name: value for name, of in _OPTIONS.items() if (value := getattr(settings, of)) is not None}
    if settings.stop is not None:
        options["stop"] = list(settings.stop)
    return options


def _tool(description: str, parameters: Mapping[str, Any], name: str) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _format(form: Form) -> Mapping[str, Any]:
    """The schema of a forced answer. References are to `$defs` at the root, so each tool's get its number."""
    if form.is_bare:
        return form.tools[0].parameters
    definitions: dict[str, Any] = {}
    calls: list[Any] = []
    for number, tool in enumerate(form.tools):
        parameters = _renamed(tool.parameters, f"{number}.")
        definitions.update({f"{number}.{name}": body for name, body in parameters.pop("$defs", {}).items()})
        named = _object({"name": {"const": tool.name}, "arguments": parameters})
        calls.append(named if form.only is None else parameters)
    call = calls[0] if len(calls) == 1 else {"anyOf": calls}
    whole = _object({"calls": {"type": "array", "items": call, "minItems": 1}}) if form.parallel else call
    return {**whole, "$defs": definitions} if definitions else whole


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _renamed(schema: Any, prefix: str) -> Any:
    if isinstance(schema, Mapping):
        found = cast("Mapping[str, Any]", schema)
        copy = {key: _renamed(value, prefix) for key, value in found.items()}
        if isinstance(ref := copy.get("$ref"), str):
            copy["$ref"] = ref.replace("#/$defs/", f"#/$defs/{prefix}", 1)
        return copy
    if isinstance(schema, list):
        return [_renamed(value, prefix) for value in cast("list[object]", schema)]
    return schema


# -- messages


def _messages(message: Message, names: ToolNames) -> Iterator[dict[str, Any]]:
    results = [part for part in message.parts if isinstance(part, ToolResultPart)]
    for result in results:
        sent: dict[str, Any] = {
            "role": "tool",
            "tool_name": names.wire.get(result.name, result.name),
            "content": result.content,
        }
        if result.images:
            sent["images"] = [_image(image) for image in result.images]
        yield {**sent, "tool_call_id": result.call_id}
    others = [part for part in message.parts if not isinstance(part, ToolResultPart)]
    if others or not results:
        yield _spoken(message, others, names)


def _spoken(message: Message, parts: Sequence[Part], names: ToolNames) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": message.role, "content": message.text}
    for part in parts:
        match part:
            case TextPart():
                pass
            case ThinkingPart():
                sent["thinking"] = sent.get("thinking", "") + part.text
            case ToolCallPart():
                sent.setdefault("tool_calls", []).append(_call(part, names))
            case ImagePart():
                sent.setdefault("images", []).append(_image(part))
            case _:
                raise BadRequest(f"Ollama cannot take {type(part).__name__}", provider="ollama")
    return sent


def _call(call: ToolCallPart, names: ToolNames) -> dict[str, Any]:
    try:
        arguments: Any = from_json(call.arguments.encode(errors="replace"))
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):  # it reads an object or fails
        arguments = {"malformed": call.arguments}
    return {"id": call.id, "function": {"name": names.wire.get(call.name, call.name), "arguments": arguments}}


def _image(image: ImagePart) -> str:
    if image.data is not None:
        return base64.b64encode(image.data).decode()
    head, mark, data = (image.url or "").partition(";base64,")
    if not (mark and head.startswith("data:")):
        raise BadRequest("Ollama takes an image by its bytes, not by a url: use ImagePart(data=...)", provider="ollama")
    return data


# -- the answer


class OllamaDecoder:
    """The events of one answer of `/api/chat`, streamed or whole."""

    def __init__(self, source: Source, conversation: Conversation) -> None:
        self._source = source
        self._lines = JSONLines()
        self._names = ToolNames(conversation.tools)
        self._before = calls_before(conversation)
        self._ids: set[str] = set()
        self._model: str | None = None
        self._damaged_call = False
        self._first = b""
        self._failure: LLMError | None = None
        self._over = False

    @property
    def failed(self) -> bool:
        """Whether `close` will raise, whatever else may come."""
        return self._failure is not None

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes."""
        if self._failure is not None:
            raise self._failure
        out: list[Event] = []
        try:
            if len(self._first) < 200:
                self._first += data[:200]
            for line in self._lines.feed(data):
                self._line(line, out)
        except LLMError as error:
            self._failed(error)
            if not out:
                raise
        return out

    def close(self) -> list[Event]:
        """The last events, once the body has ended. `StreamTruncated` where its end marker is missing."""
        if self._failure is not None:
            raise self._failure
        out: list[Event] = []
        try:
            for line in self._lines.close():
                if _decoded(line) is None and line.startswith(b"{"):
                    break  # a line that was cut off
                self._line(line, out)
            if not self._over:
                raise self._unfinished()
        except LLMError as error:
            self._failed(error)
            raise
        return out

    def _failed(self, error: LLMError) -> None:
        error.provider, error.model = "ollama", self._model or self._source.model
        self._failure = error

    def _unfinished(self) -> LLMError:
        if self._first.lstrip().startswith(b"{"):
            return StreamTruncated("the answer broke off before its last line. Send the request again.")
        start = shortened(self._source.mask(self._first.decode("utf-8", "replace")))
        shown = f"begins with {start!r}" if start else "is empty"
        return MalformedEvent(f"the answer is none of Ollama's: it {shown}. Check that base_url is right.")

    def _line(self, line: bytes, out: list[Event]) -> None:
        if self._over:
            return
        document = _decoded(line)
        if document is None:
            text = line.decode("utf-8", "replace")
            out.append(RawEvent(text, damaged=True))
            self._damaged_call |= text.startswith("{") and '"tool_calls"' in text
            return
        if document.get("error") or document.get("done_reason") == "error":
            raise _with_pull(stream_error({"error": document.get("error") or "it gave no reason"}, self._source))
        self._model = document.get("model") or self._model
        self._message(document.get("message"), out)
        if document.get("done"):
            self._end(document, out)
        elif "message" not in document:
            out.append(RawEvent(document))

    def _message(self, message: Any, out: list[Event]) -> None:
        if not isinstance(message, dict):
            return
        found = cast("dict[str, Any]", message)
        if thinking := found.get("thinking"):
            out.append(ThinkingDelta(str(thinking)))
        if content := found.get("content"):
            out.append(TextDelta(str(content)))
        for call in found.get("tool_calls") or ():
            self._tool_call(call, out)

    def _tool_call(self, call: Any, out: list[Event]) -> None:
        found = cast("dict[str, Any]", call if isinstance(call, dict) else {})
        function: dict[str, Any] = found.get("function") or {}
        arguments: Any = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments or {}, ensure_ascii=False)
        id, name = self._id(found.get("id")), self._names.own(str(function.get("name") or ""))
        arguments = arguments if arguments.strip() else "{}"
        out += [ToolCallStart(id, name), ToolCallDelta(id, arguments), ToolCallDone(id, name, arguments)]

    def _id(self, own: object) -> str:
        """The call's id, or one that no other call of this answer has."""
        id = own if isinstance(own, str) else ""
        number = self._before + len(self._ids)
        while not id or id in self._ids:
            number += 1
            id = f"call_{number}"
        self._ids.add(id)
        return id

    def _end(self, document: Mapping[str, Any], out: list[Event]) -> None:
        if self._damaged_call:
            raise MalformedEvent("a line with a tool call could not be read. Send the request again.")
        reason = str(document.get("done_reason") or "stop")
        stop = _STOP.get(reason, "other")
        if self._ids and stop != "max_tokens":
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
