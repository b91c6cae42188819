"""The decoder of Converse and ConverseStream responses.

A stream is an AWS event stream, whose messages have their type in a header; a whole response is one JSON document. The
first byte decides which of them it is. Content arrives in blocks, numbered, each with its end; the stop reason ends the
message, and the token counts follow it. Blocks of tools that run at AWS become `ServerToolUse`s. Those that toolcast
has no part for (images, guarded content) are passed on unread, and are stored in a `ThinkingPart` without text, so that
they go back unchanged.
"""

# pyright: reportPrivateUsage=false
# The tables of methods follow their class: in a class body, a compiled class has no methods yet.

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from jiter import from_json

from ...errors import LimitExceeded, LLMError, MalformedEvent
from ...events import (
    Event,
    RawEvent,
    SafetyReport,
    ServerToolUse,
    StopReason,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    UsageReport,
)
from ...text.text_buffer import TextBuffer
from ...values.usage import Usage
from ..answer_detail_forms import bedrock_ratings
from ..aws_event_stream import AWSEventMessage, AWSEventStream, is_event_stream
from ..base import RequestInput
from ..http_errors import ErrorSource, read_service_error, stream_error
from ..response_decoder import START, FramedDecoder, as_count, as_dict, as_list, as_str
from ..sse import LIMIT
from ..tool_calls.by_id import OpenCalls
from ..tool_calls.by_index import is_json
from ..usage_detail_forms import bedrock_counts, details_of

_STOP: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}


class BedrockDecoder(FramedDecoder[AWSEventStream]):
    """A decoder of one response of Converse or ConverseStream."""

    kind: ClassVar[str] = "response of Bedrock's Converse"
    vital: ClassVar[tuple[str, ...]] = ('"toolUse"',)

    def __init__(self, source: ErrorSource, request_input: RequestInput) -> None:
        super().__init__(source, request_input, AWSEventStream())
        self._calls = OpenCalls(request_input)
        self._streamed: bool | None = None
        self._unread: dict[Any, _Block] = {}  # open blocks that are not read piece by piece
        self._server_tools: dict[str, str] = {}  # the names of the tools that AWS runs, by the ids of their calls
        self._signature = ""  # of the thought that is open
        self._citations: list[object] = []  # of the text block that is open
        self._text_start = 0  # of that block, in the text of the response
        self._text_length = 0
        self._stop: str | None = None
        self._counted = False  # the token counts have arrived

    def _in_call(self) -> bool:
        return bool(self._calls)

    # -- the format of the body

    def _read(self, data: bytes, out: list[Event]) -> None:
        if self._streamed is None and data:
            self._streamed = is_event_stream(data)
        if self._streamed:
            for message in self._frames.feed(data):
                if self._over:
                    break
                self._event(message, out)
            return
        self._head += data
        if len(self._head) > LIMIT:
            raise LimitExceeded(f"the answer is longer than {LIMIT} bytes")

    def _end_body(self, out: list[Event]) -> None:
        if not self._streamed:
            body = bytes(self._head)
            try:
                self._body = from_json(body)
            except ValueError as error:
                raise self._broken_document(body, error)  # noqa: B904 - it sets the cause
            self._message(as_dict(self._body), out)
        elif self._stop is None or not self._frames.between:
            raise self._truncated()
        self._end(out)

    def _message(self, document: dict[str, Any], out: list[Event]) -> None:
        """Read a whole response."""
        message = as_dict(document.get("output")).get("message")
        if not isinstance(message, dict):
            if read_service_error(document).message:
                raise stream_error(document, self._source)
            raise self._unreadable(self._head[:START])
        for number, found in enumerate(as_list(cast("dict[str, Any]", message).get("content"))):
            self._whole_block(number, as_dict(found), out)
        self._stop_message(document, out)
        self._metadata(document, out)

    # -- one message of the stream

    def _event(self, message: AWSEventMessage, out: list[Event]) -> None:
        kind = message.text(":message-type")
        if kind in ("exception", "error"):
            raise self._failure_in(message)
        name = message.text(":event-type")
        try:
            found: Any = from_json(message.payload)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            text = message.payload.decode("utf-8", "replace")
            out.append(RawEvent({name: text}, damaged=True))
            self._lose(text)
            return
        event = cast("dict[str, Any]", found)
        if (read := _READERS.get(name)) is not None:
            read(self, event, out)
        else:
            out.append(RawEvent({name: event}))

    def _failure_in(self, message: AWSEventMessage) -> LLMError:
        """Return the exception for a message that ends the stream: one of the API's exceptions, or any other error."""
        try:
            body = as_dict(from_json(message.payload))
        except ValueError:
            body = {"message": message.payload.decode("utf-8", "replace")}
        named = message.text(":exception-type") or message.text(":error-code")
        text = read_service_error(body).message or message.text(":error-message")
        if original := as_str(body.get("originalMessage")):
            text = f"{text}: {original}"
        return stream_error({"error": {"type": named, "message": text or named}}, self._source)

    # -- blocks

    def _begin_block(self, event: dict[str, Any], out: list[Event]) -> None:
        index, start = _index(event), as_dict(event.get("start"))
        self._end_thought(out)
        for kind, value in start.items():
            begun = as_dict(value)
            if kind == "toolUse" and not begun.get("type"):
                self._calls.start_block(index, begun.get("toolUseId"), as_str(begun.get("name")), out)
            elif kind not in _READ_BY_DELTA:
                self._unread[index] = _Block(kind, begun)

    def _delta(self, event: dict[str, Any], out: list[Event]) -> None:
        index = _index(event)
        for kind, value in as_dict(event.get("delta")).items():
            if kind == "text":
                self._text(as_str(value), out)
            elif kind == "toolUse" and index not in self._unread:
                self._arguments(index, as_str(as_dict(value).get("input")), out)
            elif kind == "reasoningContent":
                self._reasoning(as_dict(value), out)
            elif kind == "citation":
                self._citations.append(value)
            else:
                self._unread.setdefault(index, _Block(kind, {})).grow(value)

    def _end_block(self, event: dict[str, Any], out: list[Event]) -> None:
        self._end_thought(out)
        self._end_text(out)
        index = _index(event)
        # A call whose arguments are incomplete waits for the stop reason: it may be cut off.
        if (call := self._calls.more(index, "", out)) is not None and not self._damaged:
            if is_json(call.pieces.whole()):
                self._calls.done(index, out)
            call.waits = True
        if (block := self._unread.pop(index, None)) is not None:
            self._pass_on(block.whole(), out)

    def _whole_block(self, number: int, block: dict[str, Any], out: list[Event]) -> None:
        """Read a block of a whole response."""
        for kind, value in block.items():
            found = as_dict(value)
            if kind == "text":
                self._text(as_str(value), out)
            elif kind == "toolUse" and not found.get("type"):
                arguments = json.dumps(found.get("input") or {}, ensure_ascii=False)
                self._calls.whole(found.get("toolUseId"), as_str(found.get("name")), arguments, out)
            elif kind == "reasoningContent":
                self._reasoning({**found, **as_dict(found.get("reasoningText"))}, out)
            elif kind == "citationsContent":
                for piece in as_list(found.get("content")):
                    self._text(as_str(as_dict(piece).get("text")), out)
                self._citations += as_list(found.get("citations"))
            else:
                self._pass_on(block, out)
        self._end_block({"contentBlockIndex": f"content {number}"}, out)

    def _pass_on(self, block: dict[str, Any], out: list[Event]) -> None:
        """Append the event of a complete block that is sent back as it is."""
        call, result = as_dict(block.get("toolUse")), as_dict(block.get("toolResult"))
        id = as_str((call or result).get("toolUseId"))
        if call:
            name = as_str(call.get("name"))
            name = self._server_tools[id] = _KINDS.get(name, name)
            out.append(ServerToolUse(name, id, input=call.get("input"), provider="bedrock", raw=block))
        elif result:
            name = as_str(result.get("type")).removesuffix("_result")
            name = self._server_tools.get(id) or _KINDS.get(name, name)
            error = "error" if result.get("status") == "error" else None
            output = result.get("content")
            out.append(ServerToolUse(name, id, output=output, error=error, provider="bedrock", raw=block))
        else:
            out += [RawEvent(block), ThinkingDelta(opaque={"bedrock": block})]

    # -- content

    def _text(self, text: str, out: list[Event]) -> None:
        if text:
            self._text_length += len(text)
            out.append(TextDelta(text))

    def _arguments(self, index: Any, text: str, out: list[Event]) -> None:
        if self._calls.more(index, text, out) is None and text:
            raise MalformedEvent(
                f"a piece of a tool call came for block {index!r}, which is no tool call that is open. "
                "Send the request again."
            )

    def _reasoning(self, found: dict[str, Any], out: list[Event]) -> None:
        if text := as_str(found.get("text")):
            out.append(ThinkingDelta(text))
        self._signature += as_str(found.get("signature"))
        if redacted := found.get("redactedContent"):
            out.append(ThinkingDelta(opaque={"bedrock": {"reasoningContent": {"redactedContent": redacted}}}))

    def _end_thought(self, out: list[Event]) -> None:
        if self._signature:
            out.append(ThinkingDelta(signature=self._signature))
            self._signature = ""

    def _end_text(self, out: list[Event]) -> None:
        """Emit the citations of a text block, which belong to all of its text."""
        if self._citations:
            from ..citation_forms import bedrock_citation

            start, end = self._text_start, self._text_length
            if start < end:
                cited = [bedrock_citation(raw, start, end, self._source.provider) for raw in self._citations]
                out += [TextCitation(citation) for citation in cited]
            else:
                out.append(RawEvent({"citations": self._citations}))  # of no text
            self._citations = []
        self._text_start = self._text_length

    # -- the message

    def _begin(self, event: dict[str, Any], out: list[Event]) -> None:
        pass

    def _stop_message(self, event: dict[str, Any], out: list[Event]) -> None:
        self._stop = as_str(event.get("stopReason")) or self._stop or ""
        if more := event.get("additionalModelResponseFields"):
            out.append(RawEvent({"additionalModelResponseFields": more}))
        if self._streamed and self._counted:
            self._end(out)

    def _metadata(self, event: dict[str, Any], out: list[Event]) -> None:
        self._counted = True
        usage = as_dict(event.get("usage"))
        # The tokens of the cache come beside those of the input (user guide, "Prompt caching").
        fresh, output, read, written = (as_count(usage.get(name)) or 0 for name in _COUNTS)
        if fresh or output or read or written:
            details = details_of(bedrock_counts(usage), as_dict(event.get("serviceTier")).get("type"))
            out.append(UsageReport(Usage(fresh + read + written, output, read, written, details=details)))
        if trace := as_dict(event.get("trace")):
            if ratings := bedrock_ratings(as_dict(trace.get("guardrail")), self._source.provider):
                out.append(SafetyReport(ratings))
            out.append(RawEvent({"trace": trace}))
            self._name_model(as_dict(trace.get("promptRouter")).get("invokedModelId"))
        if self._streamed and self._stop is not None:
            self._end(out)

    def _end(self, out: list[Event]) -> None:
        self._check_whole()
        self._end_thought(out)
        self._end_text(out)
        reason = _STOP.get(self._stop or "", "other")
        self._calls.finish(out, cut=reason not in ("tool_use", "end_turn"))
        if reason in ("tool_use", "end_turn", "stop_sequence", "other"):
            called = bool(self._calls.count)
            reason = "tool_use" if called else "end_turn" if reason == "tool_use" else reason
        out.append(self._finished(reason, self._stop or None))
        self._over = True


# Blocks that a start says nothing of; AWS sends none for them.
_READ_BY_DELTA = frozenset(("text", "reasoningContent", "citationsContent"))
# The names that toolcast has for tools of Amazon Nova.
_KINDS = {"nova_grounding": "web_search", "nova_code_interpreter": "code_execution"}
_COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
_READERS: Mapping[str, Callable[[Any, dict[str, Any], list[Event]], None]] = {
    "messageStart": BedrockDecoder._begin,
    "contentBlockStart": BedrockDecoder._begin_block,
    "contentBlockDelta": BedrockDecoder._delta,
    "contentBlockStop": BedrockDecoder._end_block,
    "messageStop": BedrockDecoder._stop_message,
    "metadata": BedrockDecoder._metadata,
}


class _Block:
    """A block that is read when it is complete."""

    __slots__ = ("_begun", "_input", "_kind", "_parts")

    def __init__(self, kind: str, begun: dict[str, Any]) -> None:
        self._kind = kind
        self._begun = begun
        self._input = TextBuffer()  # of a tool that runs at AWS
        self._parts: list[Any] = []  # the content of such a tool's result

    def grow(self, delta: Any) -> None:
        """Apply a delta: pieces of an input are joined, parts of a list are appended, other fields are replaced."""
        if isinstance(delta, list):
            self._parts += as_list(cast("object", delta))
        elif self._kind == "toolUse":
            self._input.add(as_str(as_dict(delta).get("input")))
        else:
            self._begun = {**self._begun, **as_dict(delta)}

    def whole(self) -> dict[str, Any]:
        """Return the block as a whole response has it."""
        block = dict(self._begun)
        if self._kind == "toolUse":
            text = self._input.whole()
            block["input"] = from_json(text.encode("utf-8", "replace")) if is_json(text) else {}
        elif self._kind == "toolResult":
            block["content"] = self._parts
        return {self._kind: block}


def _index(event: dict[str, Any]) -> Any:
    """Return the index of the block; only a broken server sends anything else."""
    index = event.get("contentBlockIndex")
    return index if isinstance(index, (int, str)) else None
