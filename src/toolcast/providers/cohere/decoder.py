"""The decoder of responses of Cohere's `/v2/chat`.

A stream has events for the start, the pieces and the end of each content block and of each tool call, and one last
event with the reason of the end and the token counts. A plan of tool calls (`tool_plan`) is a thought; each thought
ends with a mark of the form it had, in which it goes back. A citation has its place in one block of the text.

Source: the definitions of `V2ChatStreamResponse` and `V2ChatResponse` in Cohere's API reference.
"""

# pyright: reportPrivateUsage=false
# The tables of methods follow their class: in a class body, a compiled class has no methods yet.

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ...errors import MalformedEvent
from ...events import Event, RawEvent, StopReason, TextCitation, TextDelta, ThinkingDelta, ToolCallDelta, UsageReport
from ...values.usage import Usage
from ..base import RequestInput
from ..http_errors import ErrorSource, stream_error
from ..response_decoder import StreamDecoder, as_count, as_dict, as_list, as_str
from ..tool_calls.by_id import OpenCalls
from ..tool_calls.by_index import is_json

_STOP: dict[str, StopReason] = {
    "COMPLETE": "end_turn",
    "STOP_SEQUENCE": "stop_sequence",
    "MAX_TOKENS": "max_tokens",
    "TOOL_CALL": "tool_use",
}
_FAILED = {"ERROR": "the generation failed", "TIMEOUT": "the generation took longer than Cohere allows"}


_LIST: Any = list  # typed as Any, so that isinstance does not narrow Any to an unknown type


class CohereDecoder(StreamDecoder):
    """A decoder of one response of `/v2/chat`."""

    kind: ClassVar[str] = "response of Cohere's Chat API"
    vital: ClassVar[tuple[str, ...]] = ('"tool_calls"',)
    grown: ClassVar[Mapping[type[Event], str]] = {ToolCallDelta: "arguments", TextDelta: "text"}

    def __init__(self, source: ErrorSource, request_input: RequestInput) -> None:
        super().__init__(source, request_input)
        self._calls = OpenCalls(request_input)
        self._thought: str | None = None  # the form of the thought that is open: "thinking" or "tool_plan"
        self._stop: str | None = None
        self._text_length = 0
        self._starts: dict[int, int] = {}  # where each block of text begins in the text, by its index

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
        """Read a whole response."""
        found = as_dict(message.get("message"))
        if not found:
            if message.get("error") or message.get("message"):
                raise stream_error(message, self._source)
            return False
        self._response_id = as_str(message.get("id")) or None
        blocks = self._objects(found.get("content"), "message.content", out)
        # The plan precedes the text, as in a stream.
        for block in [block for block in blocks if block.get("type") == "thinking"]:
            self._block(block, out)
        self._think("tool_plan", as_str(found.get("tool_plan")), out)
        for index, block in enumerate(blocks):
            if block.get("type") != "thinking":
                self._starts[index] = self._text_length
                self._block(block, out)
        self._end_thought(out)
        for call in self._objects(found.get("tool_calls"), "message.tool_calls", out):
            function = self._object(call.get("function"), "message.tool_calls.function", out)
            name, arguments = as_str(function.get("name")), as_str(function.get("arguments"))
            self._calls.whole(call.get("id"), name, arguments, out)
        for citation in as_list(found.get("citations")):
            self._cite(citation, out)
        self._finish(message, out)
        return True

    def _chunk(self, chunk: dict[str, Any], out: list[Event]) -> None:
        kind = chunk.get("type")
        if isinstance(kind, str) and (read := _READERS.get(kind)) is not None:
            self._has_content = True
            read(self, chunk, as_dict(as_dict(chunk.get("delta")).get("message")), out)
        elif chunk.get("error") or (kind is None and chunk.get("message")):
            raise stream_error(chunk, self._source)
        else:
            out.append(RawEvent(chunk))

    # -- events

    def _begin(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        self._response_id = as_str(chunk.get("id")) or None

    def _begin_content(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        if isinstance(index := chunk.get("index"), int):
            self._starts[index] = self._text_length
        self._content(chunk, delta, out)

    def _citation(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        # One citation, or by older pages a list.
        found: Any = delta.get("citations")
        for citation in found if isinstance(found, _LIST) else [found]:
            self._cite(citation, out)

    def _end_citation(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        pass

    def _cite(self, citation: Any, out: list[Event]) -> None:
        from ..citation_forms import cohere_citations

        found = as_dict(citation)
        start = self._starts.get(as_count(found.get("content_index")) or 0, 0)
        offset = start if found.get("type") in (None, "TEXT_CONTENT") else None
        out += [TextCitation(each) for each in cohere_citations(found, offset, self._source.provider)]

    def _content(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        self._block(self._object(delta.get("content"), "delta.message.content", out), out)

    def _block(self, block: dict[str, Any], out: list[Event]) -> None:
        """Read a block of content, or a piece of one."""
        self._think("thinking", self._string(block.get("thinking"), "content.thinking", out), out)
        if text := self._string(block.get("text"), "content.text", out):
            self._end_thought(out)
            self._text_length += len(text)
            out.append(TextDelta(text))

    def _end_content(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        self._end_thought(out)

    def _plan(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        self._think("tool_plan", as_str(delta.get("tool_plan")), out)

    def _begin_call(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        self._end_thought(out)
        call = _call(delta)
        function = as_dict(call.get("function"))
        index = _index(chunk)
        self._calls.start_block(index, call.get("id"), as_str(function.get("name")), out)
        self._calls.more(index, as_str(function.get("arguments")), out)

    def _arguments(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        text, index = as_str(as_dict(_call(delta).get("function")).get("arguments")), _index(chunk)
        if self._calls.more(index, text, out) is None and text:
            raise MalformedEvent(
                f"a piece of a tool call came for call {index!r}, which is not open. Send the request again."
            )

    def _end_call(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        index = _index(chunk)
        call = self._calls.more(index, "", out)
        # A call whose arguments are incomplete waits for the reason of the end: a limit may have cut it off.
        if call is not None and not self._damaged:
            if (text := call.pieces.whole()) == "" or is_json(text):
                self._calls.done(index, out)
            call.waits = True

    def _end_message(self, chunk: dict[str, Any], delta: dict[str, Any], out: list[Event]) -> None:
        self._finish(as_dict(chunk.get("delta")), out)
        self._end(out)

    # -- thoughts, and the end

    def _think(self, form: str, text: str, out: list[Event]) -> None:
        if not text:
            return
        if self._thought not in (None, form):
            self._end_thought(out)
        self._thought = form
        out.append(ThinkingDelta(text))

    def _end_thought(self, out: list[Event]) -> None:
        if self._thought is not None:
            out.append(ThinkingDelta(opaque={"cohere": {"type": self._thought}}))
            self._thought = None

    def _finish(self, found: dict[str, Any], out: list[Event]) -> None:
        """Read the token counts and the reason of the end."""
        self._stop = as_str(found.get("finish_reason"))
        _report(as_dict(found.get("usage")), out)
        error = as_str(found.get("error"))
        if error or self._stop in _FAILED:
            text = error or f"{_FAILED[self._stop]} ({self._stop})"
            raise stream_error({"error": {"type": "server_error", "message": text}}, self._source)

    def _end(self, out: list[Event]) -> None:
        if self._stop is None:
            raise self._truncated()
        self._check_whole()
        self._end_thought(out)
        reason = _STOP.get(self._stop, "other")
        self._calls.finish(out, cut=reason not in ("tool_use", "end_turn"))
        if reason in ("tool_use", "end_turn", "stop_sequence", "other"):
            called = bool(self._calls.count)
            reason = "tool_use" if called else "end_turn" if reason == "tool_use" else reason
        out.append(self._finished(reason, self._stop or None))
        self._over = True


_READERS: Mapping[str, Callable[[Any, dict[str, Any], dict[str, Any], list[Event]], None]] = {
    "message-start": CohereDecoder._begin,
    "content-start": CohereDecoder._begin_content,
    "content-delta": CohereDecoder._content,
    "content-end": CohereDecoder._end_content,
    "tool-plan-delta": CohereDecoder._plan,
    "tool-call-start": CohereDecoder._begin_call,
    "tool-call-delta": CohereDecoder._arguments,
    "tool-call-end": CohereDecoder._end_call,
    "citation-start": CohereDecoder._citation,
    "citation-end": CohereDecoder._end_citation,
    "message-end": CohereDecoder._end_message,
}


def _report(usage: dict[str, Any], out: list[Event]) -> None:
    """Append the report of the tokens that are billed, or else of all: the prompts of Cohere's own are not billed.

    Both are documented as floating-point numbers.
    """
    counts = as_dict(usage.get("billed_units")), as_dict(usage.get("tokens"))
    given, written = (
        next((count for found in counts if (count := as_count(found.get(name))) is not None), 0)
        for name in ("input_tokens", "output_tokens")
    )
    if given or written:
        # At most the input: the cache may have more than the part that is billed.
        out.append(UsageReport(Usage(given, written, min(as_count(usage.get("cached_tokens")) or 0, given))))


def _call(delta: dict[str, Any]) -> dict[str, Any]:
    """Return the call of an event, which is documented as an object, and by older pages as a list of one."""
    found: Any = delta.get("tool_calls")
    return as_dict(found[0] if isinstance(found, list) and found else found)


def _index(chunk: dict[str, Any]) -> Any:
    index = chunk.get("index")
    return index if isinstance(index, (int, str)) else None
