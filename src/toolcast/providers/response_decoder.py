"""Base classes of the response decoders: the bytes of one response to its events.

`FramedDecoder` contains what server-sent events, JSON lines and AWS event streams share: a frame that differs from the
previous one in one string alone is not parsed (event_fast_path.py), and an error is raised again by every later call.
`StreamDecoder` adds server-sent events. The first bytes decide the format: a single JSON document is read as one
message, whatever the request asked for; anything else as server-sent events. A subclass reads one event (`_chunk`) or a
whole message (`_message`), and defines where a response may end (`_may_end`) and the last events (`_end`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from jiter import from_json

from ..errors import LimitExceeded, LLMError, MalformedEvent, StreamTruncated
from ..events import Event, Finish, RawEvent, StopReason, TextDelta, ToolCallDelta
from .base import RequestInput
from .event_fast_path import Envelope
from .http_errors import ErrorSource, shortened, stream_error
from .sse import LIMIT, Bytes, JSONLines, ServerSentEvents, to_bytes
from .tool_calls.by_index import is_json


class Frames(Protocol):
    """A parser of the frames of a response. `between`: one frame has ended, and no other has begun."""

    between: bool


F = TypeVar("F", bound=Frames)

# The bytes that identify a body, and that an error shows if it cannot be read.
START = 1000


class FramedDecoder(ABC, Generic[F]):
    """A decoder of one response that arrives in frames: server-sent events, lines of JSON, AWS event messages.

    Every error is raised after the events before it were returned, and again by every later `feed` and `close`.

    Attributes:
        kind: The name of such a response in error messages.
        vital: The strings by which a damaged frame is recognized as part of a tool call.
        model: The model that the response names, once it has.
        _response_id: The id in the response.
        _body: The decoded body, if it is one JSON document.
        _over: The response has ended; nothing more is read.
        _damaged: A part of a tool call was lost.
        _head: The first bytes of the body.
    """

    kind: ClassVar[str]
    vital: ClassVar[tuple[str, ...]] = ()

    def __init__(self, source: ErrorSource, request_input: RequestInput, frames: F) -> None:
        self._source = source
        self._accepts_damaged = request_input.accept_damaged
        self._frames: F = frames
        self._envelope = Envelope()
        self._add: Callable[[str], bool] = always  # adds the text of a recognized event; False: parse the event
        self._call_id: str | None = None  # the call that such a text belongs to; None: the text of the response
        self._head: bytearray = bytearray()
        self._failure: LLMError | None = None
        self.failed: bool = False  # `close` will raise, whatever else arrives
        self.model: str | None = None
        self._response_id: str | None = None
        self._body: Any = None
        self._damaged = False
        self._over = False

    def feed(self, data: Bytes) -> list[Event]:
        """Return the events that `data` completes."""
        if self._failure is not None:
            raise self._failure
        if type(data) is not bytes:
            data = to_bytes(data)
        # Before framing: a read is nearly always one event, so that its bytes can be compared as they are.
        if self._frames.between and (text := self._envelope.text(data)) and self._add(text):
            return [TextDelta(text) if self._call_id is None else ToolCallDelta(self._call_id, text)]
        out: list[Event] = []
        try:
            self._read(data, out)
        except LLMError as error:
            self._failed(error)
            if not out:  # else the next call raises it, after the events before it were used
                raise
        return out

    @property
    def open_call(self) -> str | None:
        """The id of the tool call that the last event continued, if `more_text` can recognize the next such event."""
        return self._call_id if self._envelope.is_learned else None

    def more_text(self, data: Bytes) -> str | None:
        """Return the text of an event that differs from the last one in its text alone; None for any other data.

        The text is read then. Any other data must be passed to `feed`.
        """
        if type(data) is not bytes:
            data = to_bytes(data)
        if self._frames.between and (text := self._envelope.text(data)) and self._add(text):
            return text
        return None

    def close(self) -> list[Event]:
        """Return the last events after the end of the body. Raise `StreamTruncated` if its end marker is missing."""
        if self._failure is not None:
            raise self._failure
        out: list[Event] = []
        try:
            if not self._over:
                self._end_body(out)
        except LLMError as error:
            self._failed(error)
            raise
        return out

    def expect_body(self) -> None:
        """Read another body from now on, in which the response goes on."""
        self._envelope.forget()
        self._head.clear()
        self._failure, self.failed, self._over = None, False, False

    @abstractmethod
    def _read(self, data: bytes, out: list[Event]) -> None:
        """Read the frames that `data` completes."""

    @abstractmethod
    def _end_body(self, out: list[Event]) -> None:
        """Read the rest at the end of the body, and check that the response is complete."""

    def _in_call(self) -> bool:
        """Return True if a tool call is open, so that a lost frame may contain a part of it."""
        return False

    def _lose(self, text: str) -> None:
        """Record that a frame that begins as a JSON object could not be read."""
        self._damaged |= self._in_call() or any(word in text for word in self.vital)

    def _check_whole(self) -> None:
        """Raise `MalformedEvent` if a piece of a tool call was lost, unless that is accepted."""
        if self._damaged and not self._accepts_damaged:
            raise MalformedEvent(
                "an event in the middle of a tool call could not be read, so its arguments may lack a piece. "
                "Send the request again."
            )

    def _object(self, value: Any, name: str, out: list[Event]) -> dict[str, Any]:
        """Return an object of the response; an empty one for what is empty, or refused."""
        if value and type(value) is not OBJECT:
            self._refuse(value, name, "an object", out)
            return {}
        return value or {}

    def _objects(self, value: Any, name: str, out: list[Event]) -> list[dict[str, Any]]:
        """Return the objects in a list of the response; none for what is empty. Anything else is refused."""
        if value and type(value) is not ARRAY:
            self._refuse(value, name, "a list of objects", out)
            return []
        found: list[dict[str, Any]] = []
        for each in value or ():
            if type(each) is OBJECT:
                found.append(each)
            elif each is not None:
                self._refuse(each, name, "a list of objects", out)
        return found

    def _string(self, value: Any, name: str, out: list[Event]) -> str:
        """Return a text of the response; an empty one for what is empty, or refused."""
        if value and not isinstance(value, str):
            self._refuse(value, name, "a string", out)
            return ""
        return value or ""

    def _refuse(self, value: Any, name: str, expected: str, out: list[Event]) -> None:
        """Raise `MalformedEvent` for a known field of another type, unless damage is accepted: then emit a `RawEvent`.

        What it contains would be missing in the answer.
        """
        if self._accepts_damaged:
            out.append(RawEvent({name: value}, damaged=True))
            return
        raise MalformedEvent(
            f"a chunk of the answer has an unknown form: {name}: expected {expected}, got {_kind(value)}. Send the "
            "request again, and check that base_url is right."
        )

    def _name_model(self, name: Any) -> None:
        self.model = as_str(name) or self.model

    def _finished(self, reason: StopReason, raw: str | None) -> Finish:
        """Return the event that ends the response. `raw` is the service's value of the stop reason."""
        return Finish(reason, self.model, raw, self._response_id, self._body)

    def _failed(self, error: LLMError) -> None:
        error.provider = self._source.provider
        error.model = self.model or self._source.model
        self._envelope.forget()
        self._failure, self.failed = error, True

    def _broken_document(self, body: bytes, error: ValueError) -> LLMError:
        """Return the exception for a body that should be one JSON document, and that `error` was raised for."""
        if body[:1] in (b"{", b"[") and str(error).startswith("EOF"):
            return _caused(self._truncated(), error)
        return _caused(self._unreadable(body), error)

    def _truncated(self) -> StreamTruncated:
        return StreamTruncated("the answer broke off before its end marker. Send the request again.")

    def _unreadable(self, body: bytes | bytearray) -> MalformedEvent:
        start = shortened(self._source.mask(body[:START].decode("utf-8", "replace")))
        shown = f"begins with {start!r}" if start else "is empty"
        return MalformedEvent(f"the answer is no {self.kind}: it {shown}. Check that base_url is right.")


class StreamDecoder(FramedDecoder[ServerSentEvents]):
    """A decoder of one response, as server-sent events or as one JSON document.

    Attributes:
        grown: The names of the fields that contain the text of the commonest events.
        longest: The most bytes of an event, and of a response that is one document.
        _has_content: The response has content.
    """

    grown: ClassVar[Mapping[type[Event], str]] = {}
    longest: ClassVar[int] = LIMIT

    def __init__(self, source: ErrorSource, request_input: RequestInput) -> None:
        super().__init__(source, request_input, ServerSentEvents(self.longest))
        self._streamed: bool | None = None
        self._sniffing = True
        self._has_content = False

    def expect_body(self) -> None:
        """Read another body from now on, in which the response goes on."""
        super().expect_body()
        self._frames, self._streamed, self._sniffing = ServerSentEvents(self.longest), None, True

    def _read(self, data: bytes, out: list[Event]) -> None:
        if self._sniffing and not (data := self._sniffed(data)):
            return
        for event, payload in self._frames.feed(data):
            if self._over:  # some services send more after the end, which is no part of the answer
                break
            if payload == b"[DONE]":
                self._envelope.forget()
                self._end(out)
            elif not self._same(event, payload, out):
                self._event(event, payload, out)

    def _end_body(self, out: list[Event]) -> None:
        if self._streamed:
            self._last_event(out)
        else:
            self._document(out)

    # -- the protocol, in subclasses

    @abstractmethod
    def _chunk(self, chunk: dict[str, Any], out: list[Event]) -> None:
        """Read one event, a JSON object."""

    @abstractmethod
    def _message(self, message: dict[str, Any], out: list[Event]) -> bool:
        """Read a response that is one JSON document. Return False if the document is no response."""

    @abstractmethod
    def _may_end(self) -> bool:
        """Return True if the end marker has arrived, so that the body may end here."""

    @abstractmethod
    def _end(self, out: list[Event]) -> None:
        """End the response: close what is open, append `Finish` last, and set `_over`."""

    @abstractmethod
    def _adder(self, kind: type[Event]) -> Callable[[str], bool]:
        """Return the function that adds more text of the last event, which was of this type.

        It returns False if the event must be parsed nevertheless.
        """

    # -- the format of the body

    def _same(self, name: str, payload: bytes, out: list[Event]) -> bool:
        """Read an event that differs from the last one in one string alone. Return False for any other event."""
        other = name or self._frames.crlf
        text = self._envelope.text(self._framed(name, payload) if other else b"data: %b\n\n" % payload)
        if not text or not self._add(text):
            return False
        out.append(TextDelta(text) if self._call_id is None else ToolCallDelta(self._call_id, text))
        return True

    def _sniffed(self, data: bytes) -> bytes:
        """Return the part of the body for the event parser, once its first byte that is not white space is there."""
        # The head is kept although its form is clear: an error at the end of the body shows it.
        if self._streamed or (not self._head and data.startswith(b"data:")):
            self._streamed = True
            self._head += data[:START]
            self._sniffing = len(self._head) < START
            return data
        self._head += data
        if self._streamed is None:
            self._head = self._head.lstrip(b"\xef\xbb\xbf \t\r\n")
            if self._head:
                self._streamed = bytes(self._head[:1]) not in (b"{", b"[", b"<")
        if self._streamed:
            return bytes(self._head)
        if len(self._head) > self.longest:
            raise LimitExceeded(f"the answer is longer than {self.longest} bytes")
        return b""

    def _document(self, out: list[Event]) -> None:
        """Read a body that is one JSON document."""
        body = bytes(self._head)
        try:
            document = from_json(body)
        except ValueError as error:
            raise self._broken_document(body, error)  # noqa: B904 - it sets the cause
        self._body = document
        is_answer = False
        # A list: Gemini's events without `alt=sse`, which a proxy may remove from the URL.
        for part in document if document and type(document) is ARRAY else [document]:
            if not self._over:
                is_answer |= self._message(as_dict(part), out)
        if not is_answer:
            raise self._unreadable(self._head)
        if not self._over:
            self._end(out)

    def _last_event(self, out: list[Event]) -> None:
        """Read an event without its blank line; the response must end with it."""
        for name, payload in self._frames.close():
            if is_done(payload):
                self._end(out)
            elif is_json(payload):
                self._event(name, payload, out)
            elif payload.lstrip().startswith(b"{"):
                raise self._truncated()
        if self._over:
            return
        if not self._may_end():
            start = bytes(self._head[:START])
            if self._has_content or start.startswith((b":", b"data", b"event", b"id", b"retry")):
                raise self._truncated()
            raise self._unreadable(start)
        self._end(out)

    # -- one event

    def _event(self, name: str, payload: bytes, out: list[Event]) -> None:
        # Forgotten first: after an event of another kind the bytes around the text may mean something else.
        self._envelope.forget()
        before = len(out)
        try:
            chunk, odd = from_json(payload), False
        except ValueError:
            chunk, odd = None, True
        if odd:  # outside of the handler, so that its exceptions have no context
            chunk = self._odd(payload, out)
        if name == "error":
            raise stream_error(chunk or {"message": payload.decode("utf-8", "replace")}, self._source)
        if type(chunk) is dict:
            self._chunk(cast("dict[str, Any]", chunk), out)
        elif chunk is not None:
            out.append(RawEvent(chunk, damaged=True))
        # An event that made two of ours has more in it than one text.
        if len(out) != before + 1 or b"\n" in payload:
            return
        event = out[-1]
        if (key := self.grown.get(type(event))) and isinstance(event, (TextDelta, ToolCallDelta)):
            text, self._call_id = (event.text, None) if isinstance(event, TextDelta) else (event.arguments, event.id)
            self._envelope.learn(self._framed(name, payload), key, text)
            self._add = self._adder(type(event))

    def _framed(self, name: str, payload: bytes) -> bytes:
        """Return the event as it arrived, or nothing if its form is uncommon."""
        line = b"\r\n" if self._frames.crlf else b"\n"
        if name:
            return b"event: %b%bdata: %b%b%b" % (name.encode(), line, payload, line, line)
        return b"data: %b%b%b" % (payload, line, line)

    def _odd(self, payload: bytes, out: list[Event]) -> Any:
        """Return the object in an event that is no valid JSON, repaired if possible, or None.

        The end marker ends the response; any other text becomes a `RawEvent`.
        """
        if is_done(payload):
            self._end(out)
            return None
        try:
            text = payload.decode()
        except UnicodeDecodeError as error:
            raise _caused(MalformedEvent(f"the answer holds bytes that are no UTF-8: {error.reason}"), error)  # noqa: B904 - it sets the cause
        if "\\u" in text:
            try:
                return from_json(_whole_pairs(text).encode())
            except ValueError:
                pass
        if text.strip():
            out.append(RawEvent(text, damaged=True))
        if text.lstrip().startswith("{"):
            self._lose(text)
        return None


def _kind(value: Any) -> str:
    """Return a description of a value without its texts, which may be secret."""
    if isinstance(value, dict):
        return shortened(f"an object with {', '.join(map(repr, cast('dict[str, Any]', value)))}")
    return "a list" if isinstance(value, list) else "a string" if isinstance(value, str) else repr(value)


def _caused(error: LLMError, cause: Exception) -> LLMError:
    """Return `error` with its cause, as `raise error from cause` sets it, whose `from` mypyc ignores."""
    error.__cause__ = cause
    return error


def always(text: str) -> bool:
    """Return True: text of which nothing needs to be recorded."""
    return True


def decoded_frames(body: bytes) -> list[Any]:
    """Return the data of a streamed body, event by event: decoded JSON, or text where it is no JSON.

    An event of an AWS event stream is an object with one field, its type, as the AWS SDKs return it.
    """
    if body[:1] < b"\t" and body:  # no text begins so
        from .aws_event_stream import AWSEventStream

        messages = AWSEventStream().feed(body)
        return [{each.text(":event-type"): _decoded_frame(each.payload)} for each in messages]
    lines = JSONLines(len(body)) if body.lstrip()[:1] == b"{" else None
    events = ServerSentEvents(len(body))
    found = [*lines.feed(body), *lines.close()] if lines else [e.data for e in (*events.feed(body), *events.close())]
    return [_decoded_frame(data) for data in found if not is_done(data)]


def _decoded_frame(data: bytes) -> Any:
    try:
        return from_json(data)
    except ValueError:
        return data.decode("utf-8", "replace")


def is_done(payload: bytes) -> bool:
    """Return True for the `[DONE]` event that some providers end with."""
    return payload.strip(b' \t"') == b"[DONE]"


# Not of a type that a checker narrows to, so that each object of each event is not passed through `cast`.
OBJECT: Any = dict
ARRAY: Any = list


def as_dict(value: Any) -> dict[str, Any]:
    """Return `value` if it is a JSON object, else an empty one."""
    return value if type(value) is OBJECT else {}


def as_list(value: Any) -> list[object]:
    """Return `value` if it is a JSON array, else an empty one."""
    return value if type(value) is ARRAY else []


def as_str(value: Any) -> str:
    """Return `value` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def json_or_text(value: Any) -> Any:
    """Return the value that JSON text has; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return from_json(value.encode("utf-8", "replace"))
    except ValueError:
        return value


def without_encrypted(value: Any) -> Any:
    """Return JSON data without the fields that only the service can read, for applications."""
    if isinstance(value, list):
        return [without_encrypted(each) for each in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    found = cast("dict[str, Any]", value)
    return {name: without_encrypted(each) for name, each in found.items() if not name.startswith("encrypted_")}


_MOST_TOKENS = 2**53


def as_count(value: Any) -> int | None:
    """Return a number of tokens, in whichever form it is written; None if it is no number."""
    if value is None or (type(value) is int and 0 <= value <= _MOST_TOKENS):
        return value
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value[:20])
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    return int(max(0, min(value, _MOST_TOKENS)))


_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


def _whole_pairs(text: str) -> str:
    """Return JSON text with U+FFFD for every escape that is half of a surrogate pair."""
    return _ESCAPES.sub(lambda found: r"\ufffd" if found[1] else found[0], text)
