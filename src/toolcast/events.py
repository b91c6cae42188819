"""What arrives while a model speaks; accumulator.py folds it into one response.

Every wire translates its service's bytes into these events. For each tool call: one `ToolCallStart`, any number
of `ToolCallDelta`, one `ToolCallDone` whose arguments are complete and have the last word. `UsageReport` is
cumulative within one request: the last one counts. `Finish` comes once, last.

A turn of an engine is told with the same events, round after round, and with those of `AgentEvent` besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from .approvals import PermissionRequest
from .errors import CallError
from .messages import Message
from .usage import Usage

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

T = TypeVar("T", default=Any)


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
    output: object = None


@dataclass(frozen=True, slots=True)
class OutputDelta(Generic[T]):
    """The typed result of the turn as far as it has arrived: a snapshot that never changes."""

    value: T


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The turn ended with this error. It comes last."""

    error: BaseException


AgentEvent: TypeAlias = (
    Event | ToolStarted | ToolProgress | ToolResult | PermissionRequest | OutputDelta[T] | ErrorEvent
)
"""The events of a turn. `AgentEvent[Album]` are those of a turn with an `Album` as its typed output."""

LIBRARY_EVENTS: frozenset[type] = frozenset((Restarted, Routing, Failover))
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
