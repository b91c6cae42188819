"""What arrives while a model speaks, and the `Accumulator` that folds it into one response.

Every wire translates its service's bytes into these events. For each tool call: one `ToolCallStart`, any number
of `ToolCallDelta`, one `ToolCallDone` whose arguments are complete and have the last word. `UsageReport` is
cumulative within one request: the last one counts. `Finish` comes once, last.

A turn of an engine is told with the same events, round after round, and with those of `AgentEvent` besides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from .approvals import PermissionRequest
from .errors import CallError, MalformedEvent
from .messages import Message, Part, TextPart, ThinkingPart, ToolCallPart
from .pieces import Pieces
from .usage import NO_USAGE, Usage

StopReason: TypeAlias = Literal[
    "end_turn",
    "max_tokens",
    "tool_use",
    "stop_sequence",
    "refusal",
    "content_filter",
    "pause",
    "error",
    "other",
]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of the answer."""

    text: str

    def __init__(self, text: str) -> None:
        _set_text(self, text)


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More of what the model thinks; `signature`, `redacted` and `opaque` end the thought they belong to."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    opaque: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A tool call begins. `id` is never empty and unique in this response; `name` is the tool's own."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """More JSON text of the arguments of the call `id`."""

    id: str
    arguments: str

    def __init__(self, id: str, arguments: str) -> None:
        _set_id(self, id)
        _set_arguments(self, arguments)


@dataclass(frozen=True, slots=True)
class ToolCallReset:
    """All deltas of the call `id` so far are void: the service had been repeating itself. Fresh ones follow."""

    id: str


@dataclass(frozen=True, slots=True)
class ToolCallDone:
    """The call `id` is complete; `arguments` is all of its JSON text. Cut off by a limit if `truncated`."""

    id: str
    name: str
    arguments: str
    truncated: bool = False
    opaque: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What this request has cost so far. The last report counts."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Restarted:
    """The model is asked again: what came before in this call is void. `attempt` counts requests from 1."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Routing:
    """The model that is asked, where there are several: what follows is its answer."""

    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class Failover:
    """This model failed before it said anything, in a way that may pass; another is asked."""

    provider: str
    model: str
    error: CallError


@dataclass(frozen=True, slots=True)
class RawEvent:
    """Something the wire passes through unread. `damaged`: it could not be decoded, and was skipped.

    `repeated`: what it held comes again, so that nothing of the answer is lost with it.
    """

    data: Any
    damaged: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Finish:
    """The answer is complete. `raw` is the service's own word for the stop reason."""

    stop_reason: StopReason
    model: str | None = None
    raw: str | None = None


# One of these two comes with nearly every chunk. Their slots set directly: half the price of what a frozen dataclass
# is given for an `__init__`.
_slots: Any = TextDelta
_set_text = _slots.text.__set__
_slots = ToolCallDelta
_set_id, _set_arguments = _slots.id.__set__, _slots.arguments.__set__

Event: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | ToolCallStart
    | ToolCallDelta
    | ToolCallReset
    | ToolCallDone
    | UsageReport
    | Restarted
    | Routing
    | Failover
    | RawEvent
    | Finish
)


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool is about to run: from here on it may have had its effect."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """What a running tool says of itself: the `data` it gave to `ToolContext.emit`."""

    call_id: str
    name: str
    data: Any


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A call is answered: `content` is what the model reads, `output` the object that the tool returned."""

    call_id: str
    name: str
    content: str
    is_error: bool = False
    output: Any = None


@dataclass(frozen=True, slots=True)
class OutputDelta:
    """The typed result of the turn as far as it has arrived: a snapshot that never changes."""

    value: Any


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The turn ended with this error. It comes last."""

    error: BaseException


AgentEvent: TypeAlias = Event | ToolStarted | ToolProgress | ToolResult | PermissionRequest | OutputDelta | ErrorEvent
"""What a turn is told with."""

OURS: frozenset[type] = frozenset((Restarted, Routing, Failover))
"""What no service sends: the library's own words about a call."""


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """One whole answer of a model.

    `raw` is the body as the service sent it, where it came in one piece. `repairs` lists every change that
    was needed to read the answer as an object.
    """

    message: Message
    stop_reason: StopReason = "other"
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    provider: str | None = None
    request_id: str | None = None
    raw: Any = None
    repairs: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text of the answer."""
        return self.message.text


class Accumulator:
    """Folds events into one `ChatResponse`. Parts keep the order in which they began."""

    def __init__(self) -> None:
        self._parts: list[_Text | _Thought | _Call] = []
        self._calls: dict[str, _Call] = {}
        self._usage = NO_USAGE
        self._before = NO_USAGE
        self._routed: Routing | None = None
        self.finish: Finish | None = None

    def apply(self, event: Event) -> None:
        """Take in one event."""
        fold = self._folds.get(type(event))
        if fold is not None:
            fold(self, event)

    def share(self, id: str, pieces: Pieces) -> None:
        """From now on `pieces` hold the arguments of the call `id`, and somebody else adds to them."""
        call = self._begun(id)
        call.pieces, call.shared = pieces, True

    @property
    def usage(self) -> Usage:
        """What the whole call has cost so far, re-asked answers included."""
        return self._before + self._usage

    @property
    def has_content(self) -> bool:
        """Whether anything but usage has arrived."""
        return bool(self._parts)

    def message(self) -> Message:
        """The assistant message so far."""
        return Message("assistant", tuple(part.frozen() for part in self._parts))

    def response(
        self, *, provider: str | None = None, model: str | None = None, request_id: str | None = None
    ) -> ChatResponse:
        """The response so far. What events do not tell is given: the provider, the model that was asked for."""
        finish = self.finish or Finish("other")
        if self._routed is not None:
            provider, model = self._routed.provider, self._routed.model
        known = (finish.model or model, provider, request_id)
        return ChatResponse(self.message(), finish.stop_reason, self.usage, *known)

    def _text(self, event: TextDelta) -> None:
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _Text):
            self._parts.append(last := _Text())
        last.pieces.add(event.text)

    def _thinking(self, event: ThinkingDelta) -> None:
        last = self._parts[-1] if self._parts else None
        if not isinstance(last, _Thought) or last.closed:
            self._parts.append(last := _Thought())
        last.take(event)

    def _start(self, event: ToolCallStart) -> None:
        call = _Call(event.id, event.name)
        self._calls[event.id] = call
        self._parts.append(call)

    def _delta(self, event: ToolCallDelta) -> None:
        call = self._begun(event.id)
        if not call.shared:
            call.pieces.add(event.arguments)

    def _reset(self, event: ToolCallReset) -> None:
        call = self._begun(event.id)
        call.pieces, call.shared = Pieces(), False

    def _begun(self, id: str) -> _Call:
        try:
            return self._calls[id]
        except KeyError:
            raise MalformedEvent(f"a piece of the tool call {id!r} came without its ToolCallStart") from None

    def _done(self, event: ToolCallDone) -> None:
        if event.id not in self._calls:
            self._start(ToolCallStart(event.id, event.name))
        self._calls[event.id].done = event

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
        UsageReport: _report,
        Restarted: _restarted,
        Routing: _route,
        Failover: _failed_over,
        Finish: _finish,
    }


class _Text:
    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: Pieces = Pieces()

    def frozen(self) -> Part:
        return TextPart(self.pieces.whole())


class _Thought:
    __slots__ = ("opaque", "pieces", "redacted", "signature")

    def __init__(self) -> None:
        self.pieces: Pieces = Pieces()
        self.signature: str | None = None
        self.redacted: str | None = None
        self.opaque: Mapping[str, Any] | None = None

    @property
    def closed(self) -> bool:
        return (self.signature or self.redacted or self.opaque) is not None

    def take(self, event: ThinkingDelta) -> None:
        self.pieces.add(event.text)
        self.signature, self.redacted, self.opaque = event.signature, event.redacted, event.opaque

    def frozen(self) -> Part:
        return ThinkingPart(self.pieces.whole(), self.signature, self.redacted, self.opaque)


class _Call:
    __slots__ = ("done", "id", "name", "pieces", "shared")

    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.pieces: Pieces = Pieces()
        self.shared = False
        self.done: ToolCallDone | None = None

    def frozen(self) -> Part:
        done = self.done
        if done is None:
            return ToolCallPart(self.id, self.name, self.pieces.whole(), truncated=True)
        return ToolCallPart(self.id, done.name, done.arguments, done.truncated, done.opaque)
