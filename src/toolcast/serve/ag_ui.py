"""AG-UI, the protocol of CopilotKit and other front ends, version 1.0 (docs.ag-ui.com). No I/O.

A run that waits for approvals ends with the outcome `interrupt`. The id of an interrupt is that of the call with the
fingerprint of its exact arguments, so that an answer to it is one for this call alone:

    {"interruptId": ..., "status": "resolved", "payload": {"approved": true}}

A growing object is the state: each change is a STATE_DELTA, and the whole object at the end a STATE_SNAPSHOT.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from ..events import (
    Finish,
    Restarted,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    ToolProgress,
    ToolResult,
)
from ..lazy.lazy_dataclasses import dataclass
from ..messages import AudioPart, DocumentPart, ImagePart, Message, Part, TextPart, VideoPart
from ..structured.object_streams import ChangeFormat
from ..values.approvals import ApprovalDecision, PermissionRequest
from ..values.plain_data import to_plain
from ..values.turn import Turn
from ..values.usage import Usage
from .protocol import PublicError, RequestError, RunInput, is_turn, message_json
from .public_errors import CANCELLED

VERSION: Final = "1.0"

_MEDIA: Final[Mapping[str, Callable[..., ImagePart | AudioPart | VideoPart | DocumentPart]]] = {
    "image": ImagePart,
    "audio": AudioPart,
    "video": VideoPart,
    "document": DocumentPart,
}

_ANSWER: Final = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string", "description": "For the model, if the call is not approved."},
        "arguments": {"type": "object", "description": "Arguments in place of the model's."},
        "session": {"type": "boolean", "description": "Also approve similar calls of this session."},
    },
    "required": ["approved"],
}
"""The JSON Schema of the answer to an interrupt."""


_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AGUIProtocol:
    """The AG-UI protocol over HTTP, with server-sent events.

    Attributes:
        path: The path of its requests.
        remote_files: True passes the HTTP addresses of attached files on to the model's service, which fetches them.
            With a model in one's own network, clients could so read from it. By default files are sent as data.
    """

    path: str = "/ag-ui"
    remote_files: bool = False

    @property
    def name(self) -> str:
        """The name in `protocols=`."""
        return "ag-ui"

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the streamed response: none."""
        return _NO_HEADERS

    def parse(self, body: Any) -> RunInput:
        """Return the parts of a `RunAgentInput` that the server uses."""
        fields = _fields(body, "the body")
        messages = _list(fields, "messages")
        forwarded = fields.get("forwardedProps")
        values = cast("dict[str, Any]", forwarded).get("values") if isinstance(forwarded, dict) else None
        return RunInput(
            messages=tuple([message for each in enumerate(messages) for message in self._messages(*each)]),
            decisions=tuple([_decision(*each) for each in enumerate(_list(fields, "resume"))]),
            thread_id=_text(fields, "threadId"),
            run_id=_text(fields, "runId"),
            values=cast("dict[str, Any]", values) if isinstance(values, dict) else None,
        )

    def _messages(self, index: int, value: Any) -> list[Message]:
        """Return a message of the user or the assistant; nothing for another."""
        place = f"messages[{index}]"
        fields = _fields(value, place)
        role, content = _text(fields, "role", f"{place}."), fields.get("content")
        if role == "assistant":
            return [Message("assistant", (TextPart(content),) if isinstance(content, str) and content else ())]
        if role != "user":
            return []
        if isinstance(content, str):
            return [Message("user", (TextPart(content),))]
        if not isinstance(content, list) or not content:
            raise RequestError(f"{place}.content: expected a string or parts, got {_type(cast('object', content))}")
        parts = [
            self._part(each, f"{place}.content[{number}]") for number, each in enumerate(cast("list[object]", content))
        ]
        return [Message("user", tuple(parts))]

    def _part(self, value: Any, place: str) -> Part:
        fields = _fields(value, place)
        kind = _text(fields, "type", f"{place}.")
        if kind == "text":
            return TextPart(_text(fields, "text", f"{place}."))
        if kind not in _MEDIA:
            raise RequestError(f"{place}.type: expected text, {', '.join(_MEDIA)}, got {kind!r:.60}")
        source = _fields(fields.get("source"), f"{place}.source")
        given, media_type = _text(source, "value", f"{place}.source."), source.get("mimeType")
        if source.get("type") == "data" and isinstance(media_type, str):
            try:
                return _MEDIA[kind](data=b64decode(given, validate=True), media_type=media_type)
            except ValueError:
                raise RequestError(f"{place}.source.value: expected Base64") from None
        if self.remote_files and source.get("type") == "url" and given.startswith(("https://", "http://")):
            return _MEDIA[kind](url=given, media_type=media_type if isinstance(media_type, str) else None)
        addresses = ", or a URL with https" if self.remote_files else "; addresses are not accepted"
        raise RequestError(f"{place}.source: expected data with a mimeType{addresses}")

    def change_format(self, run: RunInput) -> ChangeFormat:
        """Return the format of the changes of a growing object: a STATE_DELTA is a JSON Patch."""
        return "json-patch"

    def encoder(self, run: RunInput) -> AGUIEncoder:
        """Return the encoder of one run."""
        return AGUIEncoder(run)

    def whole(self, run: RunInput, result: Turn[Any] | object) -> Any:
        """Raise: the protocol has no response that is not a stream."""
        raise RequestError("AG-UI has no response that is not a stream")

    def error_body(self, error: PublicError) -> Any:
        """Return the body of a response that is an error."""
        return {"error": {"code": error.code, "message": error.message}}


def _fields(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RequestError(f"{place}: expected an object, got {_type(value)}")
    return cast("dict[str, Any]", value)


def _list(fields: Mapping[str, Any], name: str) -> list[object]:
    value = fields.get(name)
    if value is None and name == "resume":
        return []
    if not isinstance(value, list):
        raise RequestError(f"{name}: expected an array, got {_type(value)}")
    return cast("list[object]", value)


def _text(fields: Mapping[str, Any], name: str, place: str = "") -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise RequestError(f"{place}{name}: expected a string, got {_type(value)}")
    return value


def _type(value: object) -> str:
    """Return the name of a JSON type."""
    return "nothing" if value is None else _TYPES.get(type(value), "a number")


_TYPES: Final[Mapping[type, str]] = {str: "a string", list: "an array", dict: "an object", bool: "a boolean"}


def _decision(index: int, value: Any) -> ApprovalDecision:
    """Return the decision in the answer to an interrupt. An answer that approves nothing explicitly denies."""
    place = f"resume[{index}]"
    fields = _fields(value, place)
    call_id, _, fingerprint = _text(fields, "interruptId", f"{place}.").rpartition(":")
    status, given = _text(fields, "status", f"{place}."), fields.get("payload")
    if status not in ("resolved", "cancelled"):
        raise RequestError(f"{place}.status: expected resolved or cancelled, got {status!r:.60}")
    payload = cast("dict[str, Any]", given) if isinstance(given, dict) else {"approved": given}
    arguments, reason = payload.get("arguments"), payload.get("reason")
    if status == "cancelled" or payload.get("approved") is not True:
        return ApprovalDecision(call_id, fingerprint, "deny", reason if isinstance(reason, str) else "")
    if isinstance(arguments, dict):
        return ApprovalDecision(call_id, fingerprint, "edit", arguments=json.dumps(arguments, ensure_ascii=False))
    return ApprovalDecision(call_id, fingerprint, "allow_session" if payload.get("session") is True else "allow")


class AGUIEncoder:
    """Encodes one run as AG-UI's events. Ids of messages follow from the id of the run."""

    def __init__(self, run: RunInput) -> None:
        self._run = run
        self._count = 0
        self._text: str | None = None  # the id of the open message
        self._reasoning: str | None = None
        self._parent: str | None = None  # the message that the next tool calls belong to
        self._calls: dict[str, str] = {}  # the arguments that were sent of each open call
        self._reset: set[str] = set()
        self._shown: list[str] = []  # ids of the messages of the current response
        self._made: list[str] = []  # ids of its calls
        self._encoders: Mapping[type, Callable[[Any], list[str]]] = {
            TextDelta: self._add_text,
            ThinkingDelta: self._add_thinking,
            ToolCallStart: self._start_call,
            ToolCallDelta: self._add_arguments,
            ToolCallReset: self._reset_call,
            ToolCallDone: self._end_call,
            ToolResult: self._add_result,
            ToolProgress: self._add_progress,
            Restarted: self._restart,
            Finish: self._finish,
        }

    def begin(self) -> list[str]:
        """Return RUN_STARTED."""
        return [_event("RUN_STARTED", threadId=self._run.thread_id, runId=self._run.run_id, protocolVersion=VERSION)]

    def feed(self, event: object) -> list[str]:
        """Return the events for one event of an engine, or for one operation on a growing object."""
        if isinstance(event, dict):
            return [_event("STATE_DELTA", delta=[event])]
        encode = self._encoders.get(type(event))
        return [] if encode is None else encode(event)

    def end(self, result: Turn[Any] | object) -> list[str]:
        """Return the last events, with RUN_FINISHED."""
        closed = self._close()
        if not is_turn(result):
            return [*closed, _event("STATE_SNAPSHOT", snapshot=to_plain(result)), self._finished({"type": "success"})]
        interrupts = [_interrupt(request) for request in result.pending]
        outcome = {"type": "interrupt", "interrupts": interrupts} if interrupts else {"type": "success"}
        return [*closed, self._finished(outcome, usage=[_usage(result.usage)])]

    def fail(self, error: PublicError) -> list[str]:
        """Return the last events after an error; a run that was stopped is not one."""
        if error.code == CANCELLED:
            return [*self._close(), self._finished({"type": "cancelled"})]
        return [*self._close(), _event("RUN_ERROR", message=error.message, code=error.code)]

    def _finished(self, outcome: Mapping[str, Any], **more: Any) -> str:
        return _event("RUN_FINISHED", threadId=self._run.thread_id, runId=self._run.run_id, outcome=outcome, **more)

    def _new_id(self) -> str:
        self._count += 1
        return f"{self._run.run_id}-{self._count}"

    def _close_messages(self) -> list[str]:
        closed: list[str] = []
        if self._reasoning is not None:
            closed += [
                _event("REASONING_MESSAGE_END", messageId=self._reasoning),
                _event("REASONING_END", messageId=self._reasoning),
            ]
        if self._text is not None:
            closed.append(_event("TEXT_MESSAGE_END", messageId=self._text))
        self._text = self._reasoning = None
        return closed

    def _close(self) -> list[str]:
        """End all that is open."""
        calls = [_event("TOOL_CALL_END", toolCallId=id) for id in self._calls]
        self._calls.clear()
        return [*self._close_messages(), *calls]

    def _add_text(self, event: TextDelta) -> list[str]:
        out: list[str] = []
        if self._text is None:
            out = self._close_messages()
            self._text = self._parent = self._new_id()
            self._shown.append(self._text)
            out.append(_event("TEXT_MESSAGE_START", messageId=self._text, role="assistant"))
        return [*out, _event("TEXT_MESSAGE_CONTENT", messageId=self._text, delta=event.text)]

    def _add_thinking(self, event: ThinkingDelta) -> list[str]:
        if not event.text:  # a signature, which is not the client's
            return []
        out: list[str] = []
        if self._reasoning is None:
            out = self._close_messages()
            self._reasoning = self._new_id()
            self._shown.append(self._reasoning)
            out += [
                _event("REASONING_START", messageId=self._reasoning),
                _event("REASONING_MESSAGE_START", messageId=self._reasoning, role="reasoning"),
            ]
        return [*out, _event("REASONING_MESSAGE_CONTENT", messageId=self._reasoning, delta=event.text)]

    def _start_call(self, event: ToolCallStart) -> list[str]:
        out = self._close_messages()
        self._calls[event.id] = ""
        self._made.append(event.id)
        parent = {} if self._parent is None else {"parentMessageId": self._parent}
        return [*out, _event("TOOL_CALL_START", toolCallId=event.id, toolCallName=event.name, **parent)]

    def _add_arguments(self, event: ToolCallDelta) -> list[str]:
        if event.id in self._reset:
            return []
        self._calls[event.id] += event.arguments
        return [_event("TOOL_CALL_ARGS", toolCallId=event.id, delta=event.arguments)]

    def _reset_call(self, event: ToolCallReset) -> list[str]:
        self._reset.add(event.id)
        return []

    def _end_call(self, event: ToolCallDone) -> list[str]:
        """End a call. Arguments that were sent cannot be taken back: the final ones follow in an event of our own."""
        sent = self._calls.pop(event.id, "")
        out = [_event("TOOL_CALL_ARGS", toolCallId=event.id, delta=event.arguments)] if not sent else []
        out.append(_event("TOOL_CALL_END", toolCallId=event.id))
        if sent and sent != event.arguments:
            out.append(_custom("arguments", {"toolCallId": event.id, "arguments": event.arguments}))
        return out

    def _add_result(self, event: ToolResult) -> list[str]:
        return [
            _event(
                "TOOL_CALL_RESULT",
                messageId=f"{self._run.run_id}-result-{event.call_id}",
                toolCallId=event.call_id,
                content=event.content,
                role="tool",
            )
        ]

    def _add_progress(self, event: ToolProgress) -> list[str]:
        value = {"toolCallId": event.call_id, "toolCallName": event.name, "data": to_plain(event.data)}
        return [_custom("tool_progress", value)]

    def _restart(self, event: Restarted) -> list[str]:
        """End the messages of a response that is void, and name them: the protocol cannot take them back."""
        closed, void = self._close(), {"messageIds": self._shown, "toolCallIds": self._made}
        self._begin_response()
        return [*closed, _custom("restarted", void)] if void["messageIds"] or void["toolCallIds"] else closed

    def _finish(self, event: Finish) -> list[str]:
        closed = self._close()
        self._begin_response()
        return closed

    def _begin_response(self) -> None:
        self._shown, self._made, self._parent = [], [], None
        self._reset.clear()


def _event(type: str, **fields: Any) -> str:
    return message_json({"type": type, **fields})


def _custom(name: str, value: Any) -> str:
    return _event("CUSTOM", name=f"toolcast.{name}", value=value)


def _interrupt(request: PermissionRequest) -> dict[str, Any]:
    return {
        "id": f"{request.call_id}:{request.fingerprint}",
        "reason": "tool_call",
        "message": request.reason or f"{request.tool} needs an approval.",
        "toolCallId": request.call_id,
        "responseSchema": _ANSWER,
        "metadata": {"tool": request.tool, "arguments": request.arguments, "fingerprint": request.fingerprint},
    }


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "reasoningTokens": usage.reasoning_tokens,
        "cachedInputTokens": usage.cache_read_tokens,
        "cacheWriteInputTokens": usage.cache_creation_tokens,
    }
