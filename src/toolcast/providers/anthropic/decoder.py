"""The decoder of Anthropic's Messages responses.

The protocol marks the start and end of each block, with two exceptions. A call whose block ended before its arguments
are complete JSON waits for the stop reason: some servers end all blocks at once when a limit cuts the response off. And
usage is reported with the first content, not before: until then the request can be retried. A complete message is read
as the stream that it would have been.

Blocks of other kinds (calls of provider-run tools, their results, compaction, and future ones) are passed on as
`RawEvent`s. The provider wants them back unchanged, so a complete one also becomes a part of the message: of a
provider-run tool a `ServerToolUse`, of another kind a thought without text whose `opaque` is the block. The citations
of a text block are emitted at its end, with the place of the block in the text.
"""

# pyright: reportPrivateUsage=false
# The tables of methods follow their class: in a class body, a compiled class has no methods yet.

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from jiter import from_json

from ...errors import MalformedEvent
from ...events import (
    Event,
    RawEvent,
    SafetyReport,
    ServerToolUse,
    StopReason,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageReport,
)
from ...text.text_buffer import TextBuffer
from ...values.answer_details import SafetyRating
from ...values.usage import Usage
from ..base import RequestInput
from ..http_errors import ErrorSource, stream_error
from ..response_decoder import StreamDecoder, as_count, as_dict, as_list, as_str, without_encrypted
from ..tool_calls.by_id import OpenCalls
from ..usage_detail_forms import anthropic_counts, details_of

_STOP: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "refusal": "refusal",
    "pause_turn": "pause",
    "compaction": "pause",
}
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_THINKING = "thinking_tokens"


class AnthropicDecoder(StreamDecoder):
    """A decoder of one Messages response."""

    kind: ClassVar[str] = "message of Anthropic's"
    vital: ClassVar[tuple[str, ...]] = ('"tool_use"', '"input_json_delta"')
    grown: ClassVar[Mapping[type[Event], str]] = {ToolCallDelta: "partial_json", TextDelta: "text"}

    def __init__(self, source: ErrorSource, request_input: RequestInput) -> None:
        super().__init__(source, request_input)
        self._calls = OpenCalls(request_input)
        self._given: dict[Any, str] = {}  # arguments in the start event of a call
        self._unread: dict[Any, _Block] = {}  # open blocks of unknown kinds, passed on unread
        self._server_calls: dict[str, str] = {}  # the names of the tools that the service ran, by the ids of the calls
        self._citations: list[object] = []  # of the text block that is open
        self._text_start = 0  # of the text block that is open, in the text of the response
        self._text_length = 0
        self._signature: str | None = None
        self._id: str | None = None
        self._stop: str | None = None
        self._tokens: dict[str, int] = {}
        self._tier: object = None
        self._unreported = False  # there are token counts that have not been reported yet

    def _adder(self, kind: type[Event]) -> Callable[[str], bool]:
        return self._calls.last.add if kind is ToolCallDelta else self._add_text

    def _add_text(self, text: str) -> bool:
        self._text_length += len(text)
        return True

    def _in_call(self) -> bool:
        return bool(self._calls)

    def _may_end(self) -> bool:
        return self._stop is not None

    def _message(self, message: dict[str, Any], out: list[Event]) -> bool:
        if message.get("type") == "error" or message.get("error"):
            raise stream_error(message, self._source)
        if not isinstance(message.get("content"), list):
            return False
        self._begin({"message": message}, out)
        return True

    def _chunk(self, chunk: dict[str, Any], out: list[Event]) -> None:
        kind = chunk.get("type")
        if kind == "content_block_delta":
            delta = self._object(chunk.get("delta"), "delta", out)
            if (read := _DELTAS.get(as_str(delta.get("type")))) is not None:
                if self._unreported:
                    self._report(out)
                read(self, chunk, delta, out)
                return
            if (block := self._unread.get(_key(chunk))) is not None:
                block.grow(delta)
        elif isinstance(kind, str) and (reader := _READERS.get(kind)) is not None:
            reader(self, chunk, out)
            return
        elif kind == "error" or chunk.get("error"):
            raise stream_error(chunk, self._source)
        self._pass_on(chunk, out)

    def _pass_on(self, chunk: dict[str, Any], out: list[Event]) -> None:
        self._report(out)
        out.append(RawEvent(chunk))

    # -- deltas

    def _text(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        text = delta.get("text")
        if text and type(text) is str:
            self._has_content = True
            self._add_text(text)
            out.append(TextDelta(text))
        elif text:
            self._refuse(text, "text", "a string", out)

    def _cite(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        if citation := as_dict(delta.get("citation")):
            self._citations.append(citation)
            self._report(out)
        else:
            self._pass_on(chunk, out)

    def _arguments(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        text = as_str(delta.get("partial_json"))
        index = _key(chunk)
        if text and self._given:
            self._given.pop(index, None)
        if self._calls.more(index, text, out) is not None or not text:
            return
        if index not in self._unread:
            raise MalformedEvent(
                f"a piece of a tool call came for block {index!r}, which is no tool call that is open. "
                "Send the request again."
            )
        self._unread[index].grow({"input": text})
        out.append(RawEvent(chunk))

    def _thought(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        if text := as_str(delta.get("thinking")):
            self._has_content = True
            out.append(ThinkingDelta(text))

    def _sign(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        self._signature = as_str(delta.get("signature")) or self._signature

    # -- blocks

    def _block(self, chunk: dict[str, Any], out: list[Event]) -> None:
        block = self._object(chunk.get("content_block"), "content_block", out)
        kind, index = block.get("type"), _key(chunk)
        self._end_thought(out)
        self._unread.pop(index, None)
        if kind == "text":
            self._text_start = self._text_length
            self._citations = [*as_list(block.get("citations"))]  # its own: more are added
            if block.get("text"):
                self._report(out)
                self._text(chunk, block, out)
        elif kind == "thinking":
            self._report(out)
            self._thought(chunk, block, out)
            self._sign(chunk, block, out)
        elif kind == "redacted_thinking" and block.get("data"):
            self._report(out)
            self._has_content = True
            out.append(ThinkingDelta(redacted=as_str(block["data"])))
        elif kind == "tool_use":
            self._report(out)
            self._call(index, block, out)
        else:
            self._has_content = True
            self._unread[index] = _Block(block)
            self._pass_on(chunk, out)
            if kind == "fallback":  # from here on another model responds
                self._name_model(as_dict(block.get("to")).get("model"))

    def _call(self, index: Any, block: dict[str, Any], out: list[Event]) -> None:
        self._has_content = True
        call = self._calls.start_block(index, block.get("id"), as_str(block.get("name")), out)
        if more := {name: value for name, value in block.items() if name not in _CALL}:
            call.opaque = {"anthropic": more}
        if given := block.get("input"):
            self._given[index] = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)

    def _block_end(self, chunk: dict[str, Any], out: list[Event]) -> None:
        self._end_thought(out)
        self._end_citations(out)
        index = _key(chunk)
        self._end_call(index, out)
        if index in self._unread and (block := self._unread[index].whole()) is not None:
            used = self._server_tool(block)
            out.append(ThinkingDelta(opaque={"anthropic": block}) if used is None else used)
            self._unread[index] = _Block({})  # the end of a block may arrive twice

    def _server_tool(self, block: dict[str, Any]) -> ServerToolUse | None:
        """Return the call or the result of a tool that the service ran; None for any other block."""
        kind, provider = as_str(block.get("type")), self._source.provider
        if kind == "server_tool_use":
            name = as_str(block.get("name"))
            self._server_calls[as_str(block.get("id"))] = name = _SERVER_TOOLS.get(name, name)
            return ServerToolUse(name, as_str(block.get("id")), block.get("input") or {}, provider=provider, raw=block)
        if kind == "mcp_tool_use":
            called = {"server": block.get("server_name"), "name": block.get("name"), "arguments": block.get("input")}
            return ServerToolUse("mcp", as_str(block.get("id")), called, provider=provider, raw=block)
        if not kind.endswith("_tool_result"):
            return None
        id, content = as_str(block.get("tool_use_id")), block.get("content")
        error = as_dict(content).get("error_code")
        if block.get("is_error"):
            error = (
                "".join(as_str(as_dict(part).get("text")) for part in as_list(content)) or as_str(content) or "error"
            )
        name = kind.removesuffix("_tool_result")
        name = self._server_calls.get(id) or _SERVER_TOOLS.get(name, name)
        output = None if error else without_encrypted(content)
        return ServerToolUse(name, id, None, output, as_str(error) or None, provider, block)

    def _end_citations(self, out: list[Event]) -> None:
        """Emit the citations of a text block, which belong to all of its text."""
        if not self._citations:
            return
        from ..citation_forms import anthropic_citation

        start, end = self._text_start, self._text_length
        if start < end:
            cited = [anthropic_citation(raw, start, end, self._source.provider) for raw in self._citations]
            out += [TextCitation(citation) for citation in cited]
        else:
            out.append(RawEvent({"citations": self._citations}))  # of no text
        self._citations = []

    def _end_call(self, index: Any, out: list[Event]) -> None:
        """End the call of this block, if its arguments are complete. A call without any waits: it may be cut off."""
        call = self._calls.more(index, "", out)
        if call is None or self._damaged:
            return
        given = self._given.pop(index, None)
        if given is not None or _is_object(call.pieces.whole()):
            self._calls.done(index, out, whole=given)
        else:
            call.waits = True

    def _end_thought(self, out: list[Event]) -> None:
        if self._signature:
            out.append(ThinkingDelta(signature=self._signature))
            self._signature = None

    # -- the message

    def _begin(self, chunk: dict[str, Any], out: list[Event]) -> None:
        message = as_dict(chunk.get("message"))
        id = as_str(message.get("id"))
        if self._id is not None:
            if id == self._id:
                return
            raise MalformedEvent(f"two answers came as one: {self._id!r} and {id!r}. Send the request again.")
        self._id, self._response_id = id, id or None
        self._name_model(message.get("model"))
        self._count(message.get("usage"))
        for number, block in enumerate(as_list(message.get("content"))):
            # An index that no streamed block has: such blocks may follow.
            start = {"type": "content_block_start", "index": f"content {number}", "content_block": block}
            self._block(start, out)
            self._block_end(start, out)
        if message.get("stop_reason"):
            self._change({"delta": message}, out)

    def _change(self, chunk: dict[str, Any], out: list[Event]) -> None:
        delta = as_dict(chunk.get("delta"))
        if (container := as_dict(delta.get("container"))) and (id := as_str(container.get("id"))):
            # A response that pauses while code runs is continued in the same container.
            raw = {"type": "container", "id": id}
            found = {"container": id, "expires_at": container.get("expires_at")}
            self._report(out)
            out.append(ServerToolUse("code_execution", "", None, found, None, self._source.provider, raw))
        self._count(chunk.get("usage"))
        self._stop = as_str(delta.get("stop_reason")) or self._stop
        if details := as_dict(delta.get("stop_details")):
            self._pass_on({"stop_details": details}, out)
            if category := as_str(details.get("category")):
                rating = SafetyRating(category, blocked=True, provider=self._source.provider, raw=details)
                out.append(SafetyReport((rating,)))
            if not self._has_content:
                self._text(chunk, {"text": details.get("explanation")}, out)
        self._report(out)

    def _over_now(self, chunk: dict[str, Any], out: list[Event]) -> None:
        self._end(out)

    def _ping(self, chunk: dict[str, Any], out: list[Event]) -> None:
        pass

    def _count(self, reported: Any) -> None:
        """Store the last of each count: they are cumulative."""
        usage = as_dict(reported)
        found = {**usage, _THINKING: as_dict(usage.get("output_tokens_details")).get(_THINKING)}
        counts = {name: count for name in (*_COUNTS, _THINKING) if (count := as_count(found.get(name))) is not None}
        counts |= anthropic_counts(usage)
        self._tier = usage.get("service_tier") or self._tier
        self._unreported |= any(self._tokens.get(name) != count for name, count in counts.items())
        self._tokens |= counts

    def _report(self, out: list[Event]) -> None:
        if self._unreported:
            self._unreported = False
            fresh, output, read, written = (self._tokens.get(name, 0) for name in _COUNTS)
            thought = self._tokens.get(_THINKING, 0)
            details = details_of(self._tokens, self._tier)
            out.append(UsageReport(Usage(fresh + read + written, output, read, written, thought, details=details)))

    def _end(self, out: list[Event]) -> None:
        self._check_whole()
        self._report(out)
        self._end_thought(out)
        self._end_citations(out)
        reason = _STOP.get(self._stop or "", "other")
        for index in list(self._given):
            self._end_call(index, out)
        if self._stop is None and self._calls.is_cut:
            raise self._truncated()
        self._calls.finish(out, cut=reason not in ("tool_use", "end_turn"))
        out.append(self._finished(_stop_reason(reason, called=bool(self._calls.count)), self._stop))
        self._over = True


_DELTAS: Mapping[str, Callable[[Any, dict[str, Any], dict[str, Any], list[Event]], None]] = {
    "text_delta": AnthropicDecoder._text,
    "citations_delta": AnthropicDecoder._cite,
    "input_json_delta": AnthropicDecoder._arguments,
    "thinking_delta": AnthropicDecoder._thought,
    "signature_delta": AnthropicDecoder._sign,
}
_READERS: Mapping[str, Callable[[Any, dict[str, Any], list[Event]], None]] = {
    "content_block_start": AnthropicDecoder._block,
    "content_block_stop": AnthropicDecoder._block_end,
    "message_start": AnthropicDecoder._begin,
    "message_delta": AnthropicDecoder._change,
    "message_stop": AnthropicDecoder._over_now,
    "ping": AnthropicDecoder._ping,
}
# Our names of the tools that the service runs.
_SERVER_TOOLS = {
    "web_fetch": "url_context",
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
}
# The fields of a tool call that are read.
_CALL = frozenset(("type", "id", "name", "input"))


class _Block:
    """A block of an unknown kind that is passed on unread, as it grows."""

    __slots__ = ("_begun", "_grown")

    def __init__(self, begun: dict[str, Any]) -> None:
        self._begun = begun
        self._grown: dict[str, TextBuffer] = {}

    def grow(self, delta: dict[str, Any]) -> None:
        """Apply the fields of a delta: text is appended, any other value replaces the old one."""
        for name, value in delta.items():
            if isinstance(value, str) and name != "type":
                self._grown.setdefault(name, TextBuffer()).add(value)
            elif name != "type":
                self._begun = {**self._begun, name: value}

    def whole(self) -> dict[str, Any] | None:
        """Return the complete block; None if it has no type, or its input is no complete JSON object."""
        block = dict(self._begun)
        for name, pieces in self._grown.items():
            text = pieces.whole()
            if name != "input":
                block[name] = as_str(block.get(name)) + text
            elif _is_object(text):
                block[name] = from_json(text.encode("utf-8", "replace"))
            else:
                return None
        return block if isinstance(block.get("type"), str) else None


def _stop_reason(reason: StopReason, *, called: bool) -> StopReason:
    """Return the stop reason, corrected by the content of the response."""
    if reason in ("max_tokens", "refusal", "pause"):
        return reason
    if called:
        return "tool_use"
    return "end_turn" if reason == "tool_use" else reason


def _key(chunk: dict[str, Any]) -> Any:
    """Return the index of the block; only a broken server sends anything else."""
    index = chunk.get("index")
    return index if isinstance(index, (int, str)) else None


def _is_object(text: str) -> bool:
    try:
        return isinstance(from_json(text.encode("utf-8", "replace")), dict)
    except ValueError:
        return False
