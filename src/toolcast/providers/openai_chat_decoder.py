"""The bytes of a chat-completions answer -> events, whatever really comes back.

The first bytes tell the shape: one JSON document, whatever was asked for, is read as one message; anything
else as server-sent events. A delta is taken field by field through a table, so that a field costs only where
it says something; an event that differs from the one before it in its arguments alone is not taken apart at all
(envelopes.py). What the answer comes to is decided at its end, `[DONE]` or the end of the body: a finish
reason may come early, twice, or be taken back, and tool calls may go on after it. Every fault is one error of
the tree; it is raised after the events before it were handed out, and again by every later `feed` and
`close`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

from jiter import from_json

from ..errors import LimitExceeded, LLMError, MalformedEvent, StreamTruncated
from ..events import Event, Finish, RawEvent, StopReason, TextDelta, ThinkingDelta, ToolCallDelta, UsageReport
from ..usage import Usage
from .envelopes import Envelope
from .framing import LIMIT, ServerSentEvents
from .http_errors import Source, shortened, stream_error
from .tool_calls import ToolCalls
from .wire import Conversation, ToolNames

_STOP: dict[str, StopReason] = {
    "stop": "end_turn",
    "end_turn": "end_turn",
    "eos": "end_turn",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "model_length": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_use",
    "tool_use": "tool_use",
    "function_call": "tool_use",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "refusal": "refusal",
    "error": "error",
    "network_error": "error",
    "insufficient_system_resource": "error",
}
# So many bytes tell what a body is, and are shown where it is nothing that could be read.
_START = 1000
# Fields of a delta that say nothing a caller needs.
_SILENT = frozenset(("role", "name", "channel", "token_id", "index", "finish_reason", "audio_id", "obfuscation"))


class OpenAIChatDecoder:
    """The events of one answer. `think_tags`: thoughts stand in the text, in `<think>` tags."""

    def __init__(self, source: Source, conversation: Conversation, *, think_tags: bool = False) -> None:
        self._source = source
        self._frames = ServerSentEvents()
        self._envelope = Envelope()
        self._streamed: bool | None = None
        self._sniffing = True
        self._head = bytearray()
        before = sum(len(message.tool_calls) for message in conversation.messages)
        self._calls = ToolCalls(ToolNames(conversation.tools), before)
        self._tags = ThinkTags() if think_tags else None
        self._model: str | None = None
        self._finish: str | None = None
        self._thought_field: str | None = None
        self._details: list[dict[str, Any]] = []
        self._refused = False
        self._spoken = False
        self._tokens: dict[str, int] = {}
        self._reported: Usage | None = None
        self._damaged = False
        self._failure: LLMError | None = None
        self.failed: bool = False  # `close` will raise, whatever else may come
        self._over = False

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes."""
        if self._failure is not None:
            raise self._failure
        text = self._envelope.text(data)
        if text and (more := self._calls.more(text)) is not None:
            return more
        out: list[Event] = []
        try:
            if self._sniffing:
                data = self._sniffed(data)
            for event, payload in self._frames.feed(data):
                if self._over:
                    break
                if payload == b"[DONE]":
                    self._end(out)
                elif event or not self._more(payload, out):
                    self._event(event, payload, out)
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
            if not self._over:
                if self._streamed:
                    self._last_event(out)
                else:
                    self._document(out)
        except LLMError as error:
            self._failed(error)
            raise
        return out

    def _more(self, payload: bytes, out: list[Event]) -> bool:
        """Whether the event differs from the last one in its arguments alone. Those are read then."""
        text = self._envelope.text(b"data: %b\n\n" % payload)
        if not text or (more := self._calls.more(text)) is None:
            return False
        out += more
        return True

    def _failed(self, error: LLMError) -> None:
        error.provider = self._source.provider
        error.model = self._model or self._source.model
        self._failure, self.failed = error, True

    # -- the shape of the body

    def _sniffed(self, data: bytes) -> bytes:
        """What of the body is for the event machine, once its first byte that is no white space is known."""
        if self._streamed or (not self._head and data.startswith(b"data:")):
            self._streamed = True
            self._head += data[:_START]
            self._sniffing = len(self._head) < _START
            return data
        self._head += data
        if self._streamed is None:
            self._head = self._head.lstrip(b"\xef\xbb\xbf \t\r\n")
            if self._head:
                self._streamed = bytes(self._head[:1]) not in (b"{", b"[", b"<")
        if self._streamed:
            return bytes(self._head)
        if len(self._head) > LIMIT:
            raise LimitExceeded(f"the answer is longer than {LIMIT} bytes")
        return b""

    def _document(self, out: list[Event]) -> None:
        """Read a body that came as one JSON document."""
        body = bytes(self._head)
        try:
            document = from_json(body)
        except ValueError as error:
            if body[:1] in (b"{", b"[") and str(error).startswith("EOF"):
                raise self._truncated() from error
            raise self._unreadable(body) from error
        found = _dict(document) or _dict(next(iter(_list(document)), None))
        if found:
            self._chunk(found, out)
        if "choices" not in found:
            raise self._unreadable(body)
        self._end(out)

    def _last_event(self, out: list[Event]) -> None:
        """Read an event that lacks its blank line; then the answer must be over."""
        for _, payload in self._frames.close():
            try:
                self._chunk(from_json(payload), out)
            except ValueError:
                if _is_done(payload):
                    self._end(out)
                elif payload.lstrip().startswith(b"{"):
                    raise self._truncated() from None
        if self._over:
            return
        if self._finish is None:
            start = bytes(self._head[:_START])
            if self._spoken or start.startswith((b":", b"data", b"event", b"id", b"retry")):
                raise self._truncated()
            raise self._unreadable(start)
        self._end(out)

    def _truncated(self) -> StreamTruncated:
        return StreamTruncated("the answer broke off before its end marker. Send the request again.")

    def _unreadable(self, body: bytes) -> MalformedEvent:
        start = shortened(self._source.mask(body[:_START].decode("utf-8", "replace")))
        shown = f"begins with {start!r}" if start else "is empty"
        return MalformedEvent(f"the answer is no chat completion: it {shown}. Check that base_url is right.")

    # -- one event

    def _event(self, name: str, payload: bytes, out: list[Event]) -> None:
        self._envelope.forget()
        before = len(out)
        try:
            chunk, odd = from_json(payload), False
        except ValueError:
            chunk, odd = None, True
        if odd:  # out here, so that what it raises has no context
            chunk = self._odd(payload, out)
        if name == "error":
            raise stream_error(chunk or {"message": payload.decode("utf-8", "replace")}, self._source)
        if chunk is not None:
            self._chunk(chunk, out)
        if len(out) == before + 1 and type(last := out[-1]) is ToolCallDelta and not (name or self._details):
            self._envelope.learn(b"data: %b\n\n" % payload, last.arguments)

    def _chunk(self, chunk: dict[str, Any], out: list[Event]) -> None:
        if type(chunk) is not dict:
            out.append(RawEvent(chunk, damaged=True))
            return
        if chunk.get("error"):
            raise stream_error(chunk, self._source)
        if not self._model:
            self._model = _str(chunk.get("model")) or None
        choices: list[dict[str, Any]] | None = chunk.get("choices")
        if choices and type(choices) is list:
            for choice in choices:
                if type(choice) is dict:
                    self._choice(choice, out)
        else:
            self._without_choices(chunk, out)
        if chunk.get("usage"):
            self._usage(chunk["usage"], out)
        elif "x_groq" in chunk:
            self._usage((_dict(chunk["x_groq"])).get("usage"), out)

    def _choice(self, choice: dict[str, Any], out: list[Event]) -> None:
        if choice.get("index") and choice["index"] != "0":
            return
        delta: dict[str, Any] | None = choice.get("delta")
        if delta is None:
            delta = self._whole_message(choice)
        if type(delta) is dict:
            for name, value in delta.items():
                if value and name not in _SILENT:
                    reader = self._readers.get(name)
                    if reader is not None:
                        reader(self, value, out)
                    else:
                        out.append(RawEvent({name: value}))
        if choice.get("finish_reason"):
            self._finish = str(choice["finish_reason"])
        if choice.get("usage"):
            self._usage(choice["usage"], out)

    def _whole_message(self, choice: dict[str, Any]) -> dict[str, Any]:
        """What stands for the delta that is not there."""
        if choice.get("text"):
            return {"content": choice["text"]}
        # In a stream some services repeat the whole message at the end, where it says nothing new.
        return {} if self._spoken else _dict(choice.get("message"))

    def _without_choices(self, chunk: dict[str, Any], out: list[Event]) -> None:
        if chunk.get("object") == "error" or ("choices" not in chunk and "detail" in chunk):
            raise stream_error(chunk, self._source)
        if not chunk.get("usage"):
            out.append(RawEvent(chunk))

    def _odd(self, payload: bytes, out: list[Event]) -> Any:
        """What an event that is no JSON comes to: the end, an object after a repair, or nothing."""
        if _is_done(payload):
            self._end(out)
            return None
        try:
            text = payload.decode()
        except UnicodeDecodeError as error:
            raise MalformedEvent(f"the answer holds bytes that are no UTF-8: {error.reason}") from error
        if "\\u" in text:
            try:
                return from_json(_whole_pairs(text).encode())
            except ValueError:
                pass
        if text.strip():
            out.append(RawEvent(text, damaged=True))
        if text.lstrip().startswith("{"):
            self._damaged |= bool(self._calls) or '"tool_calls"' in text or '"function_call"' in text
        return None

    # -- the fields of a delta

    def _text(self, value: Any, out: list[Event]) -> None:
        if type(value) is not str:
            value = "".join(_str(_dict(part).get("text")) for part in _list(value))
        self._spoken = True
        if self._details:
            self._end_thought(out)
        if self._tags is None:
            out.append(TextDelta(value))
        else:
            out += self._tags.feed(value)

    def _tool_calls(self, value: Any, out: list[Event]) -> None:
        self._spoken = True
        if self._details:
            self._end_thought(out)
        self._calls.take(value, out)

    def _reasoning(self, value: Any, out: list[Event]) -> None:
        self._thought("reasoning", value, out)

    def _reasoning_content(self, value: Any, out: list[Event]) -> None:
        self._thought("reasoning_content", value, out)

    def _thought(self, name: str, value: Any, out: list[Event]) -> None:
        # Some services send the same thought in both fields: the first that is used counts.
        self._thought_field = self._thought_field or name
        if name == self._thought_field and isinstance(value, str):
            self._spoken = True
            out.append(ThinkingDelta(value))

    def _thought_details(self, value: Any, out: list[Event]) -> None:
        for detail in _list(value):
            if not (new := _dict(detail)):
                continue
            last = self._details[-1] if self._details else {}
            if last and all(last.get(name) == new.get(name) for name in ("type", "index")) and "data" not in new:
                joined = {name: _str(last.get(name)) + _str(new.get(name)) for name in _GROWING if name in new}
                last.update({name: value for name, value in new.items() if value is not None}, **joined)
            else:
                self._details.append(dict(new))

    def _end_thought(self, out: list[Event]) -> None:
        out.append(ThinkingDelta(opaque={"reasoning_details": self._details}))
        self._details = []

    def _refusal(self, value: Any, out: list[Event]) -> None:
        self._refused = self._spoken = True
        out.append(TextDelta(str(value)))

    def _function_call(self, value: Any, out: list[Event]) -> None:
        self._calls.take_legacy(value, out)

    _readers: ClassVar[Mapping[str, Callable[[Any, Any, list[Event]], None]]] = {
        "content": _text,
        "tool_calls": _tool_calls,
        "reasoning_content": _reasoning_content,
        "reasoning": _reasoning,
        "reasoning_details": _thought_details,
        "refusal": _refusal,
        "function_call": _function_call,
    }

    def _usage(self, found: Any, out: list[Event]) -> None:
        self._tokens.update(_counts(_dict(found)))
        usage = _usage_of(self._tokens)
        if usage != self._reported:
            self._reported = usage
            out.append(UsageReport(usage))

    # -- the end

    def _end(self, out: list[Event]) -> None:
        if self._damaged:
            raise MalformedEvent(
                "an event in the middle of a tool call could not be read, so its arguments may lack a piece. "
                "Send the request again."
            )
        if self._details:
            self._end_thought(out)
        if self._tags is not None:
            out += self._tags.close()
        told = _STOP.get(self._finish or "", "other")
        called = self._calls.finish(out, cut=told in ("max_tokens", "content_filter"))
        out.append(Finish(_stop_reason(told, called=called, refused=self._refused), self._model, self._finish))
        self._over = True


_GROWING = ("text", "summary", "signature")


def _stop_reason(told: StopReason, *, called: bool, refused: bool) -> StopReason:
    """The stop reason, seen with what came: services disagree on the word for tool calls."""
    if told in ("max_tokens", "content_filter", "error", "refusal"):
        return told
    if refused:
        return "refusal"
    if called:
        return "tool_use"
    return "end_turn" if told == "tool_use" else told


def _is_done(payload: bytes) -> bool:
    return payload.strip(b' \t"') == b"[DONE]"


def _dict(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


def _whole_pairs(text: str) -> str:
    """JSON text with U+FFFD for every escape that is half of a surrogate pair."""
    return _ESCAPES.sub(lambda found: r"\ufffd" if found[1] else found[0], text)


_MOST_TOKENS = 2**53


def _count(value: Any) -> int | None:
    if value is None or (type(value) is int and 0 <= value <= _MOST_TOKENS):
        return value
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value[:20])
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    return int(max(0, min(value, _MOST_TOKENS)))


def _counts(found: dict[str, Any]) -> dict[str, int]:
    """The counts that one report holds, under names of our own."""
    into, out_of = _dict(found.get("prompt_tokens_details")), _dict(found.get("completion_tokens_details"))
    read = {
        "input": found.get("prompt_tokens"),
        "output": found.get("completion_tokens"),
        "total": found.get("total_tokens"),
        "cached": into.get("cached_tokens", found.get("prompt_cache_hit_tokens")),
        "written": into.get("cache_write_tokens", into.get("cache_creation_tokens")),
        "thought": out_of.get("reasoning_tokens"),
    }
    return {name: count for name, value in read.items() if (count := _count(value)) is not None}


def _usage_of(tokens: dict[str, int]) -> Usage:
    input_, output, thought = tokens.get("input", 0), tokens.get("output", 0), tokens.get("thought", 0)
    if thought and tokens.get("total") == input_ + output + thought:
        # xAI counts thoughts in the total, but not in the completion.
        output += thought
    return Usage(input_, output, tokens.get("cached", 0), tokens.get("written", 0))


class ThinkTags:
    """Text that may begin with thoughts in `<think>` tags -> thinking and text, wherever it is cut."""

    def __init__(self) -> None:
        self._held = ""
        self._state = "start"

    def feed(self, text: str) -> list[Event]:
        """What `text` adds to the thoughts and to the text."""
        if self._state == "text":
            return [TextDelta(text)] if text else []
        self._held += text
        if self._state == "start":
            begun = self._held.lstrip()
            if "<think>".startswith(begun):
                return []
            if not begun.startswith("<think>"):
                self._state = "text"
                return self.close()
            self._state = "thinking"
            self._held = begun.removeprefix("<think>")
        return self._thinking()

    def close(self) -> list[Event]:
        """What was held back, because it might have been the beginning of a tag."""
        held, self._held = self._held, ""
        if not held:
            return []
        return [ThinkingDelta(held)] if self._state == "thinking" else [TextDelta(held)]

    def _thinking(self) -> list[Event]:
        thought, tag, text = self._held.partition("</think>")
        if tag:
            self._state, self._held = "text", ""
            text = text.lstrip("\n")
            return [*([ThinkingDelta(thought)] if thought else []), *([TextDelta(text)] if text else [])]
        kept = next((n for n in range(7, 0, -1) if thought.endswith("</think>"[:n])), 0)
        self._held = thought[len(thought) - kept :]
        thought = thought[: len(thought) - kept]
        return [ThinkingDelta(thought)] if thought else []
