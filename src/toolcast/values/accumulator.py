"""`Accumulator`: the sum of the events of a response, as one `ChatResponse`.

The cost of an event does not depend on the number of earlier ones. Parts are in the order in which they began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from ..errors import MalformedEvent
from ..events import (
    AudioOutput,
    ChatResponse,
    Event,
    Failover,
    Finish,
    GroundingReport,
    ImageOutput,
    LogprobsDelta,
    Restarted,
    Routing,
    SafetyReport,
    ServerToolUse,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    UsageReport,
)
from ..messages import AudioPart, Message, Part, TextPart, ThinkingPart, ToolCallPart
from ..text.reprs import safe_repr
from ..text.text_buffer import TextBuffer
from .answer_details import SafetyRating, TokenLogprob, merge_ratings
from .citations import Citation, Grounding, place_citations
from .usage import NO_USAGE, Usage


class Accumulator:
    """The sum of the events of one call, as a `ChatResponse`."""

    def __init__(self) -> None:
        self._parts: list[_Text | _Thought | _Call | _Whole | _Audio] = []
        self._calls: dict[str, _Call] = {}
        self._citations: list[Citation] = []
        self._grounding: Grounding | None = None
        self._logprobs: list[TokenLogprob] = []
        self._safety: tuple[SafetyRating, ...] = ()
        self._usage = NO_USAGE
        self._before = NO_USAGE
        self._routed: Routing | None = None
        self.finish: Finish | None = None

    @safe_repr
    def __repr__(self) -> str:
        return f"Accumulator({len(self._parts)} parts, {self.usage.describe()})"

    def apply(self, event: Event) -> None:
        """Add one event."""
        fold = self._folds.get(type(event))
        if fold is not None:
            fold(self, event)

    def extend(self, events: Iterable[Event]) -> None:
        """Add these events."""
        folds = self._folds
        for event in events:
            if (fold := folds.get(type(event))) is not None:
                fold(self, event)

    def share(self, id: str, buffer: TextBuffer) -> None:
        """Use `buffer`, which the caller fills, for the arguments of the call `id` from now on."""
        call = self._begun(id)
        call.buffer, call.shared = buffer, True

    @property
    def usage(self) -> Usage:
        """The tokens of the call so far, with those of repeated requests."""
        return self._usage if self._before is NO_USAGE else self._before + self._usage

    @property
    def has_content(self) -> bool:
        """True if anything but usage has arrived."""
        return bool(self._parts)

    def call(self, id: str) -> ToolCallPart | None:
        """Return the tool call `id` so far, or None before its start."""
        begun = self._calls.get(id)
        return None if begun is None else begun.frozen()

    def message(self) -> Message:
        """Return the assistant message so far."""
        parts = [part.frozen() for part in self._parts]
        if self._citations:
            # Placed here, not as they arrive: a citation may precede the rest of the text that it belongs to.
            texts = [(at, part.text) for at, part in enumerate(parts) if isinstance(part, TextPart)]
            placed = place_citations(self._citations, [text for _, text in texts])
            for (at, text), citations in zip(texts, placed, strict=True):
                parts[at] = TextPart(text, tuple(citations))
        return Message("assistant", tuple(parts))

    def response(
        self, *, provider: str | None = None, model: str | None = None, request_id: str | None = None
    ) -> ChatResponse:
        """Return the response so far.

        Args:
            provider: The provider of the request; `Routing` events replace it.
            model: The model of the request, for responses that do not name theirs.
            request_id: The service's id of the request.
        """
        finish = self.finish or Finish("other")
        if self._routed is not None:
            provider, model = self._routed.provider, self._routed.model
        origin = (finish.model or model, provider, request_id, finish.body)
        return ChatResponse(
            self.message(),
            finish.stop_reason,
            self.usage,
            *origin,
            response_id=finish.response_id,
            grounding=self._grounding,
            logprobs=tuple(self._logprobs),
            safety=self._safety,
            raw_stop_reason=finish.raw,
        )

    def _text(self, event: TextDelta) -> None:
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _Text):
            self._parts.append(last := _Text())
        last.buffer.add(event.text)

    def _thinking(self, event: ThinkingDelta) -> None:
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _Thought) or last.closed:
            self._parts.append(last := _Thought())
        last.take(event)

    def _server_tool(self, event: ServerToolUse) -> None:
        self._parts.append(_Whole(event.part))

    def _image(self, event: ImageOutput) -> None:
        if event.partial is None:
            self._parts.append(_Whole(event.image))

    def _audio(self, event: AudioOutput) -> None:
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _Audio) or last.opaque is not None or last.media_type != event.media_type:
            self._parts.append(last := _Audio(event.media_type))
        last.take(event)

    def _add_logprobs(self, event: LogprobsDelta) -> None:
        self._logprobs += event.tokens

    def _rate(self, event: SafetyReport) -> None:
        self._safety = merge_ratings(self._safety, event.ratings)

    def _cite(self, event: TextCitation) -> None:
        self._citations.append(event.citation)

    def _ground(self, event: GroundingReport) -> None:
        self._grounding = event.grounding

    def _start(self, event: ToolCallStart) -> None:
        call = _Call(event.id, event.name)
        self._calls[event.id] = call
        self._parts.append(call)

    def _delta(self, event: ToolCallDelta) -> None:
        call = self._calls.get(event.id) or self._begun(event.id)
        if not call.shared:
            call.buffer.add(event.arguments)

    def _reset(self, event: ToolCallReset) -> None:
        call = self._begun(event.id)
        call.buffer, call.shared = TextBuffer(), False

    def _begun(self, id: str) -> _Call:
        try:
            return self._calls[id]
        except KeyError:
            raise MalformedEvent(f"a chunk of the tool call {id!r} came before its ToolCallStart") from None

    def _done(self, event: ToolCallDone) -> None:
        if event.id not in self._calls:
            self._start(ToolCallStart(event.id, event.name))
        call = self._calls[event.id]
        call.done = event
        call.buffer.share(event.arguments)

    def _report(self, event: UsageReport) -> None:
        self._usage = event.usage

    def _route(self, event: Routing) -> None:
        self._routed = event

    def _failed_over(self, event: Failover) -> None:
        self._before = self.usage
        self._usage = NO_USAGE

    def _restarted(self, event: Restarted) -> None:
        self._before = self.usage
        self._usage = NO_USAGE
        self._parts.clear()
        self._calls.clear()
        self._citations.clear()
        self._grounding = None
        self._logprobs.clear()
        self._safety = ()
        self.finish = None

    def _finish(self, event: Finish) -> None:
        self.finish = event

    _folds: ClassVar[dict[type[Any], Callable[[Accumulator, Any], None]]] = {
        TextDelta: _text,
        ThinkingDelta: _thinking,
        ToolCallStart: _start,
        ToolCallDelta: _delta,
        ToolCallReset: _reset,
        ToolCallDone: _done,
        ServerToolUse: _server_tool,
        TextCitation: _cite,
        GroundingReport: _ground,
        ImageOutput: _image,
        AudioOutput: _audio,
        LogprobsDelta: _add_logprobs,
        SafetyReport: _rate,
        UsageReport: _report,
        Restarted: _restarted,
        Routing: _route,
        Failover: _failed_over,
        Finish: _finish,
    }


class _Text:
    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer: TextBuffer = TextBuffer()

    def frozen(self) -> Part:
        return TextPart(self.buffer.whole())


class _Thought:
    __slots__ = ("buffer", "opaque", "redacted", "signature")

    def __init__(self) -> None:
        self.buffer: TextBuffer = TextBuffer()
        self.signature: str | None = None
        self.redacted: str | None = None
        self.opaque: Mapping[str, Any] | None = None

    @property
    def closed(self) -> bool:
        return (self.signature or self.redacted or self.opaque) is not None

    def take(self, event: ThinkingDelta) -> None:
        self.buffer.add(event.text)
        self.signature, self.redacted, self.opaque = event.signature, event.redacted, event.opaque

    def frozen(self) -> Part:
        return ThinkingPart(self.buffer.whole(), self.signature, self.redacted, self.opaque)


class _Whole:
    """A part that arrives whole: an image, or a block of a tool of the provider."""

    __slots__ = ("part",)

    def __init__(self, part: Part) -> None:
        self.part = part

    def frozen(self) -> Part:
        return self.part


class _Audio:
    __slots__ = ("data", "media_type", "opaque", "transcript")

    def __init__(self, media_type: str) -> None:
        self.media_type = media_type
        self.data: list[bytes] = []
        self.transcript: TextBuffer = TextBuffer()
        self.opaque: Mapping[str, Any] | None = None

    def take(self, event: AudioOutput) -> None:
        self.data.append(event.data)
        self.transcript.add(event.transcript)
        self.opaque = event.opaque

    def frozen(self) -> Part:
        transcript = self.transcript.whole() or None
        return AudioPart(
            data=b"".join(self.data), media_type=self.media_type, transcript=transcript, opaque=self.opaque
        )


class _Call:
    __slots__ = ("buffer", "done", "id", "name", "shared")

    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.buffer: TextBuffer = TextBuffer()
        self.shared = False
        self.done: ToolCallDone | None = None

    def frozen(self) -> ToolCallPart:
        done = self.done
        if done is None:
            return ToolCallPart(self.id, self.name, self.buffer.whole(), truncated=True)
        return ToolCallPart(self.id, done.name, done.arguments, done.truncated, done.opaque)
