"""`VercelProtocol`: the UI message stream of Vercel's AI SDK (`useChat` with the default transport), version 1.

https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol describes the parts of the stream. A tool call that needs an approval
ends the stream; the client puts its decision into the message that has the call, and sends its messages again.

`GrowingObject`: a JSON document that grows by path changes, and is sent whole when it has grown enough.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from secrets import token_hex
from types import MappingProxyType
from typing import Any, Final

from ..events import (
    AgentEvent,
    AudioOutput,
    Finish,
    GroundingReport,
    ImageOutput,
    Restarted,
    ServerToolUse,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from ..lazy.lazy_dataclasses import dataclass
from ..messages import ImagePart, Message, Part, TextPart
from ..parsing.path_changes import PathChange, steps_of
from ..values.approvals import Action, ApprovalDecision, PermissionRequest
from ..values.citations import Citation
from ..values.plain_data import to_plain
from ..values.turn import Turn
from .protocol import DONE, PublicError, RequestError, RunInput, is_turn, message_json, parsed
from .public_errors import CANCELLED
from .request_fields import FILE_LIMIT, Attachments, Fields

_SHARE: Final = 8
"""A document is sent again when an eighth of its length has been added: in total, a small multiple of its length."""

_LIST: Any = list  # typed as Any, so that isinstance does not narrow JSON data to a list of unknown types


class GrowingObject:
    """A JSON document that changes apply to."""

    def __init__(self) -> None:
        self._document: list[Any] = [None]
        self._sent = 0  # characters when it was last sent, and those added since
        self._added = 0

    @property
    def root(self) -> Any:
        """The document so far."""
        return self._document[0]

    def apply(self, change: PathChange) -> bool:
        """Apply a change. Return True if the document is to be sent."""
        # The root is an element too, so that it is set like any other. A copy: later changes go into the value.
        parent: Any = self._document
        last: Any = 0
        for step in steps_of(change.path):
            parent = parent[last]
            last = int(step) if isinstance(parent, _LIST) else step
        new = parent[last] + change.value if change.kind == "text" else deepcopy(change.value)
        if isinstance(parent, _LIST):
            parent[last : last + 1] = [new]
        else:
            parent[last] = new
        self._added += len(message_json({"": change.value}))
        if self._added * _SHARE < self._sent:
            return False
        self._sent += self._added
        self._added = 0
        return True


RunPart = dict[str, Any]
"""A part of the stream, before it is JSON."""

NO_RESULT: Final = "The run ended before this call had a result."
WAITS: Final = "The call waits for the decisions about the other calls."
"""The error of a call with a decision, beside one without: the client would send its decision again otherwise."""

_FINISH: Final[Mapping[str, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "output": "stop",
    "empty": "stop",
    "max_tokens": "length",
    "content_filter": "content-filter",
    "refusal": "content-filter",
    "approval": "tool-calls",
    "error": "error",
}
_HASH: Final = 64  # hexadecimal digits of a fingerprint


@dataclass(frozen=True, slots=True)
class VercelProtocol:
    """The protocol of Vercel's AI SDK.

    Attributes:
        path: The path of its requests: `new DefaultChatTransport({ api: "/vercel" })`.
        file_bytes: The size limit of each file that a client attaches.
        remote_files: True passes the HTTP addresses of attached files on to the model's service, which fetches them.
            With a model in one's own network, clients could so read from it. By default files are sent as data URLs.
        new_id: The function that returns the ids of runs.
    """

    path: str = "/vercel"
    file_bytes: int = FILE_LIMIT
    remote_files: bool = False
    new_id: Callable[[], str] = token_hex

    @property
    def name(self) -> str:
        """The name in `protocols=`."""
        return "vercel"

    @property
    def headers(self) -> Mapping[str, str]:
        """The header that names the version of the protocol."""
        return _HEADERS

    def parse(self, body: Any) -> RunInput:
        """Return the user's and the assistant's texts, the files, and the decisions about calls of the last message.

        `id` is the id of the thread, and `values`, an extra field, has the values of a structured call's variables.
        """
        fields = Fields(body)
        thread_id = fields.text("id", "")
        messages: list[Message] = []
        decisions: tuple[ApprovalDecision, ...] = ()
        echo: dict[str, Any] = {}
        attachments = Attachments(self.file_bytes, remote=self.remote_files)
        for message in fields.objects("messages"):
            role = message.text("role")
            # Decisions before a newer message are void: that message has denied the calls.
            decisions, echo = (), {}
            if role == "user":
                messages += _message(role, _user_parts(message, attachments))
            elif role == "assistant":
                messages += _message(role, _assistant_parts(message))
                decisions, echo = _answers(message)
            elif role != "system":
                raise message.error("role", "'user', 'assistant' or 'system'")
        values = fields.object("values").values() if "values" in fields else None
        return RunInput(tuple(messages), decisions, thread_id, self.new_id(), values=values, echo=echo)

    def encoder(self, run: RunInput) -> VercelEncoder:
        """Return the encoder of the response to a run."""
        return VercelEncoder(run)

    def whole(self, run: RunInput, result: Turn[Any] | object) -> Any:
        """Raise `RequestError`: responses are always streamed."""
        raise RequestError("this protocol has no response that is not streamed")

    def error_body(self, error: PublicError) -> Any:
        """Return the body of an error. The client shows it as text."""
        return {"error": error.message, "code": error.code}


_HEADERS: Final[Mapping[str, str]] = MappingProxyType({"x-vercel-ai-ui-message-stream": "v1"})


def _message(role: Any, parts: list[Part]) -> list[Message]:
    return [Message(role, tuple(parts))] if parts else []


def _user_parts(message: Fields, attachments: Attachments) -> list[Part]:
    parts: list[Part] = []
    for part in message.objects("parts"):
        kind = part.text("type")
        if kind == "text":
            parts.append(TextPart(part.text("text")))
        elif kind == "file":
            name = part.text("filename", "") or None
            parts.append(attachments.part(f"{part.place}.url", part.text("url"), part.text("mediaType", ""), name))
    return parts


def _assistant_parts(message: Fields) -> list[Part]:
    texts: list[str] = []
    step = 0
    for part in message.objects("parts"):
        kind = part.text("type")
        if kind == "text":
            texts.append(part.text("text"))
        elif kind == "step-start":
            step = len(texts)
        elif kind == "data-restarted":  # the texts of this step so far are void
            del texts[step:]
    return [TextPart(text) for text in texts if text]


def _answers(message: Fields) -> tuple[tuple[ApprovalDecision, ...], dict[str, Any]]:
    """Return the decisions in an assistant message, and what the encoder needs to continue the message."""
    decisions: list[ApprovalDecision] = []
    calls: dict[str, RunPart] = {}
    for part in message.objects("parts"):
        kind = part.text("type")
        if kind.startswith("tool-") or kind == "dynamic-tool":
            tool = part.text("toolName", "") or kind.removeprefix("tool-")
            calls[part.text("toolCallId")] = {"toolName": tool, "input": part.value("input")}
        if part.value("state") == "approval-responded":
            decisions.append(_decision(part.object("approval")))
    # The client continues its message only under its own id.
    return tuple(decisions), {"message_id": message.text("id", ""), "calls": calls} if decisions else {}


def _decision(approval: Fields) -> ApprovalDecision:
    fingerprint, call_id = split_approval_id(approval)
    if not isinstance(approval.value("approved"), bool):
        raise approval.error("approved", "true or false")
    action: Action = "allow" if approval.flag("approved") else "deny"
    return ApprovalDecision(call_id, fingerprint, action, approval.text("reason", ""))


def approval_id(request: PermissionRequest) -> str:
    """Return the id of an approval, which names the call and the fingerprint of its arguments."""
    return f"{request.fingerprint}:{request.call_id}"


def split_approval_id(approval: Fields) -> tuple[str, str]:
    """Return the fingerprint and the id of the call that the id of an approval names."""
    fingerprint, separator, call_id = approval.text("id").partition(":")
    if len(fingerprint) != _HASH or not separator:
        raise approval.error("id", "the id of a tool-approval-request")
    return fingerprint, call_id


class VercelEncoder:
    """The encoder of one run as parts of a UI message stream."""

    def __init__(self, run: RunInput) -> None:
        echo = run.echo or {}
        self._id = run.run_id
        self._message_id: str = echo.get("message_id") or f"msg-{run.run_id}"
        self._continued: Mapping[str, RunPart] = echo.get("calls", {})  # of the message that this run continues
        self._denied = {each.call_id for each in run.decisions if each.action == "deny"}
        self._open = ""  # the id of the open text or reasoning, whose first word is its kind
        self._parts = 0
        self._step = False
        self._finished = False  # the response of the open step is complete
        self._names: dict[str, str] = {}  # of the calls whose arguments are arriving
        self._calls: dict[str, bool] = {each.call_id: False for each in run.decisions}  # True: with a result
        self._started: set[str] = set()  # the calls that the client has got from this run
        self._requested: set[str] = set()
        self._sources: set[str] = set()
        self._audio: list[AudioOutput] = []
        self._object = GrowingObject()

    def begin(self) -> list[str]:
        """Return the start of the message."""
        return [message_json({"type": "start", "messageId": self._message_id})]

    def feed(self, event: AgentEvent | PathChange) -> list[str]:
        """Return the parts for one event."""
        return [message_json(part) for part in self._fed(event)]

    def end(self, result: Turn[Any] | object) -> list[str]:
        """Return the last parts: of a turn the calls that wait for an approval, of a structured call its object."""
        parts = [*self._close_part()]
        reason, problem = "stop", NO_RESULT
        if is_turn(result):
            problem = WAITS if result.pending else NO_RESULT
            for request in result.pending:
                parts += self._request(request)
            if result.typed_output is not None:
                parts.append(self._object_part(to_plain(result.typed_output)))
            reason = _FINISH.get(result.end, "other")
        else:
            parts.append(self._object_part(to_plain(result)))
        parts += [*self._close_calls(problem), *self._close_step()]
        parts.append({"type": "finish", "finishReason": reason})
        return [*map(message_json, parts), DONE]

    def fail(self, error: PublicError) -> list[str]:
        """Return the last parts after an error. A run that was stopped is `abort`."""
        parts = [*self._close_part(), *self._close_calls(NO_RESULT), *self._close_step()]
        if error.code == CANCELLED:
            parts.append({"type": "abort", "reason": error.message})
        else:
            parts.append({"type": "error", "errorText": error.message})
        return [*map(message_json, parts), DONE]

    def _fed(self, event: AgentEvent | PathChange) -> Iterator[RunPart]:
        if isinstance(event, TextDelta):
            yield from self._delta("text", event.text)
        elif isinstance(event, ThinkingDelta):
            yield from self._delta("reasoning", event.text)
        elif isinstance(event, PathChange):
            if self._object.apply(event):
                yield self._object_part(self._object.root)
        elif isinstance(event, Restarted):
            yield from self._close_part()
            yield from self._close_calls(NO_RESULT, self._names)
            yield {"type": "data-restarted", "data": {"attempt": event.attempt}}
        elif isinstance(event, Finish):
            yield from self._close_part()
            self._finished = True
        else:
            yield from self._output(event)
            yield from self._tool(event)

    def _output(self, event: AgentEvent) -> Iterator[RunPart]:
        if isinstance(event, AudioOutput):
            yield from self._content(audio=True)
            self._audio.append(event)
        elif isinstance(event, ImageOutput):
            if event.partial is None:
                yield from self._content()
                yield _image(event.image)
        elif isinstance(event, TextCitation):
            yield from self._source(event.citation)
        elif isinstance(event, GroundingReport):
            for source in event.grounding.sources:
                yield from self._source(source)
        elif isinstance(event, ServerToolUse):
            yield from self._content()
            yield from self._server_tool(event)

    def _tool(self, event: AgentEvent) -> Iterator[RunPart]:
        if isinstance(event, ToolCallStart):
            yield from self._content()
            yield self._input_start(event.id, event.name)
        elif isinstance(event, ToolCallReset):
            if event.id in self._names:
                yield self._input_start(event.id, self._names[event.id])
        elif isinstance(event, ToolCallDelta):
            if event.id in self._names:
                yield {"type": "tool-input-delta", "toolCallId": event.id, "inputTextDelta": event.arguments}
        elif isinstance(event, ToolCallDone):
            yield from self._content()
            self._names.pop(event.id, None)
            yield self._input(event.id, event.name, event.arguments, truncated=event.truncated)
        elif isinstance(event, PermissionRequest):
            yield from self._close_part()
            yield from self._request(event)
        elif isinstance(event, ToolStarted):
            yield from self._continue(event.call_id, event.name)
        elif isinstance(event, ToolProgress):
            data = {"toolCallId": event.call_id, "toolName": event.name, "data": to_plain(event.data)}
            yield {"type": "data-tool-progress", "data": data, "transient": True}
        elif isinstance(event, ToolResult):
            yield from self._close_part()
            yield from self._continue(event.call_id, event.name)
            self._calls[event.call_id] = True
            self._names.pop(event.call_id, None)
            yield self._result(event)

    def _result(self, event: ToolResult) -> RunPart:
        id = {"toolCallId": event.call_id}
        if event.call_id in self._denied:
            return {"type": "tool-output-denied", **id}
        if event.is_error:
            return {"type": "tool-output-error", **id, "errorText": event.content}
        # A number or a word may well be text.
        output = parsed(event.content)[0] if event.content.lstrip()[:1] in ("{", "[") else event.content
        return {"type": "tool-output-available", **id, "output": output}

    def _input_start(self, id: str, name: str) -> RunPart:
        self._names[id] = name
        self._calls[id] = False
        self._started.add(id)
        return {"type": "tool-input-start", "toolCallId": id, "toolName": name}

    def _input(self, id: str, name: str, arguments: str, *, truncated: bool = False) -> RunPart:
        value, is_json = parsed(arguments)
        self._calls[id] = not is_json
        self._started.add(id)
        call = {"toolCallId": id, "toolName": name, "input": value}
        if is_json:
            return {"type": "tool-input-available", **call}
        problem = "The arguments were cut off." if truncated else "The arguments are not JSON."
        return {"type": "tool-input-error", **call, "errorText": problem}

    def _continue(self, id: str, name: str) -> Iterator[RunPart]:
        """Yield a call that was made before this run: a client that reads the stream again does not have it."""
        if id not in self._started:
            self._started.add(id)
            self._calls.setdefault(id, False)
            call = self._continued.get(id, {"toolName": name, "input": None})
            yield {"type": "tool-input-available", "toolCallId": id, **call}

    def _request(self, request: PermissionRequest) -> Iterator[RunPart]:
        id = request.call_id
        if id in self._requested:
            return
        self._requested.add(id)
        if id not in self._started:
            yield self._input(id, request.tool, request.arguments)
        self._calls[id] = True  # the decision follows in another run
        self._names.pop(id, None)
        descriptor = {
            "toolName": request.tool,
            "arguments": request.arguments,
            "fingerprint": request.fingerprint,
            "reason": request.reason,
        }
        yield {
            "type": "tool-approval-request",
            "approvalId": approval_id(request),
            "toolCallId": id,
            "approvalDescriptor": descriptor,
        }

    def _server_tool(self, event: ServerToolUse) -> Iterator[RunPart]:
        id = event.call_id
        if not id:
            self._parts += 1
            id = f"server-{self._id}-{self._parts}"
        if id not in self._started:
            self._started.add(id)
            call = {"toolCallId": id, "toolName": event.name, "input": to_plain(event.input)}
            yield {"type": "tool-input-available", **call, "providerExecuted": True}
        run = {"toolCallId": id, "providerExecuted": True}
        if event.error is not None:
            yield {"type": "tool-output-error", **run, "errorText": event.error}
        elif event.output is not None:
            yield {"type": "tool-output-available", **run, "output": to_plain(event.output)}

    def _source(self, citation: Citation) -> Iterator[RunPart]:
        link = citation.link
        if link is None or link in self._sources:
            return
        self._sources.add(link)
        source = {"type": "source-url", "sourceId": f"source-{self._id}-{len(self._sources)}", "url": link}
        yield {**source, "title": citation.title} if citation.title else source

    def _delta(self, kind: str, text: str) -> Iterator[RunPart]:
        if not text:
            return
        if self._open.partition("-")[0] != kind or self._finished:
            yield from self._content()
            self._parts += 1
            self._open = f"{kind}-{self._id}-{self._parts}"
            yield {"type": f"{kind}-start", "id": self._open}
        yield {"type": f"{kind}-delta", "id": self._open, "delta": text}

    def _content(self, *, audio: bool = False) -> Iterator[RunPart]:
        """Yield what comes before further content of the model: the end of the open part, and a new step."""
        if not audio or self._finished or self._open:
            yield from self._close_part()
        if self._finished:
            yield from self._close_step()
        if not self._step:
            self._step = True
            yield {"type": "start-step"}

    def _close_part(self) -> Iterator[RunPart]:
        if self._open:
            yield {"type": f"{self._open.partition('-')[0]}-end", "id": self._open}
            self._open = ""
        if self._audio:
            yield from _recordings(self._audio)
            self._audio = []

    def _close_calls(self, problem: str, ids: Sequence[str] | Mapping[str, str] | None = None) -> Iterator[RunPart]:
        """Yield an error for each call that gets no result: of `ids`, or of all."""
        for id in [id for id, over in self._calls.items() if not over and (ids is None or id in ids)]:
            yield from self._continue(id, "")
            self._calls[id] = True
            yield {"type": "tool-output-error", "toolCallId": id, "errorText": problem}
        self._names.clear()

    def _close_step(self) -> Iterator[RunPart]:
        if self._step:
            yield {"type": "finish-step"}
        self._step = self._finished = False

    def _object_part(self, value: Any) -> RunPart:
        return {"type": "data-object", "id": f"object-{self._id}", "data": value}


def _image(image: ImagePart) -> RunPart:
    media_type = image.media_type or "image/png"
    url = image.url or _data_url(media_type, image.data or b"")
    return {"type": "file", "url": url, "mediaType": media_type}


def _recordings(chunks: Sequence[AudioOutput]) -> Iterator[RunPart]:
    """Yield a file for each run of chunks of one media type."""
    data = b""
    for chunk, following in zip(chunks, [*chunks[1:], None], strict=True):
        data += chunk.data
        if following is None or following.media_type != chunk.media_type:
            yield {"type": "file", "url": _data_url(chunk.media_type, data), "mediaType": chunk.media_type}
            data = b""


def _data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{b64encode(data).decode()}"
