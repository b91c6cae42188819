"""`OpenAIProtocol`: OpenAI's chat completions, so that any client of that API can talk to an agent.

The protocol has no form for some of what an agent does. The tools of the agent run on the server, and the client does
not get their calls. The object `toolcast` is an extension, in the request and in the response: see `OpenAIProtocol`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex
from types import MappingProxyType
from typing import Any, Final

from ..events import AgentEvent, Finish, Restarted, TextDelta, ThinkingDelta
from ..lazy.lazy_dataclasses import dataclass
from ..messages import AudioPart, ImagePart, Message, Part, TextPart
from ..parsing.path_changes import PathChange
from ..text.json_text import json_text
from ..values.approvals import ApprovalDecision, PermissionRequest
from ..values.plain_data import to_plain
from ..values.turn import Turn
from ..values.usage import Usage
from .protocol import DONE, PublicError, RequestError, RunInput, is_turn, message_json
from .request_fields import FILE_LIMIT, Attachments, Fields

BETWEEN: Final = "\n\n"
"""The text between those of two responses of the model in one run."""

_FINISH: Final[Mapping[str, str]] = {
    "max_tokens": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}
_ERROR_TYPES: Final[Mapping[int, str]] = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
_AUDIO: Final[Mapping[str, str]] = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class OpenAIProtocol:
    """OpenAI's chat completions.

    A request names the thread of a session in `metadata.thread_id`. The extension `toolcast` of a request has the
    values of a structured call's variables in `values`, and in `decisions` those about the calls that wait for an
    approval: `{"call_id": ..., "fingerprint": ..., "action": "allow" | "deny", "reason": ...}`. A response has these
    calls in its extension: `toolcast.pending`.

    Attributes:
        path: The path of requests: the base URL of a client ends with `/v1`.
        model: The name of the model in the list of models. Requests may have any other name.
        file_bytes: The size limit of each file that a client attaches.
        remote_files: True passes the HTTP addresses of attached files on to the model's service, which fetches them.
            With a model in one's own network, clients could so read from it. By default files are sent as data URLs.
        new_id: The function that returns the ids of runs.
        clock: The function that returns the time, in seconds since 1970.
    """

    path: str = "/v1/chat/completions"
    model: str = "toolcast"
    file_bytes: int = FILE_LIMIT
    remote_files: bool = False
    new_id: Callable[[], str] = token_hex
    clock: Callable[[], float] = time.time

    @property
    def name(self) -> str:
        """The name in `protocols=`."""
        return "openai"

    @property
    def headers(self) -> Mapping[str, str]:
        """No headers beside the content type."""
        return _NO_HEADERS

    @property
    def documents(self) -> Mapping[str, Any]:
        """The JSON of GET requests by their paths: the list of models, and its one model."""
        models = self.path.removesuffix("/chat/completions") + "/models"
        model = {"id": self.model, "object": "model", "created": 0, "owned_by": "toolcast"}
        return {models: {"object": "list", "data": [model]}, f"{models}/{self.model}": model}

    def parse(self, body: Any) -> RunInput:
        """Return the user's and the assistant's texts, the files, and the decisions of the extension."""
        fields = Fields(body)
        model = fields.text("model")
        if fields.value("n") not in (None, 1):
            raise fields.error("n", "1")
        messages: list[Message] = []
        attachments = Attachments(self.file_bytes, remote=self.remote_files)
        for message in fields.objects("messages"):
            role = message.text("role")
            if role == "user":
                messages += _message(role, _parts(message, attachments))
            elif role == "assistant":
                messages += _message(role, _parts(message, None))
            elif role not in ("system", "developer", "tool", "function"):
                raise message.error("role", "'user', 'assistant', 'system', 'developer' or 'tool'")
        extension = fields.object("toolcast")
        decisions = [_decision(each) for each in extension.objects("decisions")] if "decisions" in extension else []
        echo = {
            "model": model,
            "created": int(self.clock()),
            "include_usage": fields.object("stream_options").flag("include_usage"),
        }
        return RunInput(
            tuple(messages),
            tuple(decisions),
            fields.object("metadata").text("thread_id", ""),
            self.new_id(),
            stream=fields.flag("stream"),
            values=extension.object("values").values() if "values" in extension else None,
            echo=echo,
        )

    def encoder(self, run: RunInput) -> OpenAIEncoder:
        """Return the encoder of the response to a run."""
        return OpenAIEncoder(run)

    def whole(self, run: RunInput, result: Turn[Any] | object) -> Any:
        """Return the body of a response that is not streamed."""
        content, pending, end = _result(result)
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH.get(end, "stop")}
        body = {**_envelope(run, "chat.completion"), "choices": [choice]}
        if is_turn(result):
            body["usage"] = usage_data(result.usage)
        return {**body, "toolcast": {"pending": pending}} if pending else body

    def error_body(self, error: PublicError) -> Any:
        """Return the body of an error, in OpenAI's form."""
        default = "server_error" if error.status >= 500 else "invalid_request_error"
        kind = _ERROR_TYPES.get(error.status, default)
        return {"error": {"message": error.message, "type": kind, "param": None, "code": error.code}}


def _message(role: Any, parts: list[Part]) -> list[Message]:
    return [Message(role, tuple(parts))] if parts else []


def _parts(message: Fields, attachments: Attachments | None) -> list[Part]:
    """Return the parts of a message: of one of the assistant, without `attachments`, the texts alone."""
    content = message.value("content")
    if content is None and attachments is None:  # it only called tools
        return []
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    if not isinstance(content, list):
        raise message.error("content", "a string or a list of parts")
    parts: list[Part] = []
    for part in message.objects("content"):
        kind = part.text("type")
        if kind == "text":
            parts.append(TextPart(part.text("text")))
        elif attachments is not None:
            parts.append(_file(part, kind, attachments))
    return parts


def _file(part: Fields, kind: str, attachments: Attachments) -> Part:
    if kind == "image_url":
        image = part.object("image_url")
        detail = image.text("detail", "") or None
        found = attachments.part(f"{image.place}.url", image.text("url"), "image/png")
        if not isinstance(found, ImagePart):
            raise RequestError(f"{image.place}.url: expected an image, got {found.media_type}")
        return ImagePart(found.url, found.data, found.media_type, detail)
    if kind == "input_audio":
        audio = part.object("input_audio")
        media_type = _AUDIO.get(audio.text("format"))
        if media_type is None:
            raise audio.error("format", "'wav' or 'mp3'")
        return AudioPart(data=attachments.base64(f"{audio.place}.data", audio.text("data")), media_type=media_type)
    if kind == "file":
        file = part.object("file")
        place, name = f"{file.place}.file_data", file.text("filename", "") or None
        return attachments.part(place, file.text("file_data"), "application/pdf", name)
    raise part.error("type", "'text', 'image_url', 'input_audio' or 'file'")


def _decision(fields: Fields) -> ApprovalDecision:
    action = fields.value("action")
    if action not in ("allow", "deny"):
        raise fields.error("action", "'allow' or 'deny'")
    return ApprovalDecision(fields.text("call_id"), fields.text("fingerprint"), action, fields.text("reason", ""))


def _envelope(run: RunInput, kind: str) -> dict[str, Any]:
    echo = run.echo or {}
    return {
        "id": f"chatcmpl-{run.run_id}",
        "object": kind,
        "created": echo.get("created", 0),
        "model": echo.get("model", ""),
    }


def _result(result: Turn[Any] | object) -> tuple[str, list[dict[str, Any]], str]:
    """Return the text of a result, the calls that wait for an approval, and the end."""
    if not is_turn(result):
        return json_text(to_plain(result)), [], ""
    texts = [message.text for message in result.messages if message.role == "assistant" and message.text]
    if result.typed_output is not None:
        texts = [json_text(to_plain(result.typed_output))]
    if result.pending:
        texts.append(describe_pending(result.pending))
    pending = [{**request.to_dict(), "fingerprint": request.fingerprint} for request in result.pending]
    return BETWEEN.join(texts), pending, result.end


def describe_pending(pending: Sequence[PermissionRequest]) -> str:
    """Return the calls that wait for an approval as text, for clients that do not know the extension."""
    calls = "\n".join([f"{request.tool} {request.arguments}" for request in pending])
    return f"Waiting for approval:\n{calls}"


def usage_data(usage: Usage) -> dict[str, Any]:
    """Return tokens in the form of chat completions."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


class OpenAIEncoder:
    """The encoder of one run as chunks of a chat completion. A structured call is one chunk: JSON text cannot change.

    The reasoning is in `reasoning_content`, as other services with this protocol have it.
    """

    def __init__(self, run: RunInput) -> None:
        self._chunk = _envelope(run, "chat.completion.chunk")
        self._include_usage: bool = (run.echo or {}).get("include_usage", False)
        self._has_text = self._new_text = False

    def begin(self) -> list[str]:
        """Return the chunk with the role."""
        return [self._choice({"role": "assistant", "content": ""})]

    def feed(self, event: AgentEvent | PathChange) -> list[str]:
        """Return the chunk of a text or of reasoning; that of a repeated request says in its extension that it is."""
        if isinstance(event, TextDelta):
            return self._text(event.text)
        if isinstance(event, ThinkingDelta):
            return [self._choice({"reasoning_content": event.text})] if event.text else []
        if isinstance(event, Finish):
            self._new_text = self._has_text
        if isinstance(event, Restarted):
            self._new_text = self._has_text
            return [self._choice({}, toolcast={"restarted": event.attempt})]
        return []

    def end(self, result: Turn[Any] | object) -> list[str]:
        """Return the last chunks: the text of an object or of calls that wait, the finish reason, and the usage."""
        self._new_text = self._has_text
        content, pending, end = _result(result)
        if is_turn(result) and result.typed_output is None:  # its texts were sent as they arrived
            content = describe_pending(result.pending) if pending else ""
        chunks = self._text(content)
        extension = {"toolcast": {"pending": pending}} if pending else {}
        chunks.append(self._choice({}, _FINISH.get(end, "stop"), **extension))
        if self._include_usage and is_turn(result):
            chunks.append(message_json({**self._chunk, "choices": [], "usage": usage_data(result.usage)}))
        return [*chunks, DONE]

    def fail(self, error: PublicError) -> list[str]:
        """Return the error, which clients raise."""
        return [message_json(OpenAIProtocol().error_body(error)), DONE]

    def _text(self, text: str) -> list[str]:
        if not text:
            return []
        before = BETWEEN if self._new_text else ""
        self._has_text, self._new_text = True, False
        return [self._choice({"content": before + text})]

    def _choice(self, delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        usage = {"usage": None} if self._include_usage else {}
        return message_json({**self._chunk, "choices": [choice], **usage, **more})
