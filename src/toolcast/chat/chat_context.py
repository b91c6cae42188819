"""`ChatContext`: the data of a chat besides its state, as one frozen, JSON-serialisable value.

It has the messages, the queue, the model, the partial answer, the calls that wait for an approval, and the last error
with the stage that can be retried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from ..agents.engine.history import unanswered_calls
from ..events import (
    AudioOutput,
    Event,
    ImageOutput,
    StopReason,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    ToolCallDone,
    ToolCallStart,
    server_tool_use,
)
from ..lazy.lazy_dataclasses import dataclass
from ..messages import AudioPart, ImagePart, Message, ServerToolPart, TextPart, ThinkingPart, ToolCallPart
from ..values.accumulator import Accumulator
from ..values.approvals import ApprovalDecision, PermissionRequest
from ..values.usage import NO_USAGE, Usage

ChatState: TypeAlias = Literal[
    "idle",
    "loading_model",
    "load_failed",
    "ready",
    "searching_tools",
    "generating_response",
    "streaming_response",
    "waiting_for_tool_approval",
    "calling_tool",
]
STATES: Final[tuple[ChatState, ...]] = get_args(ChatState)

Stage: TypeAlias = Literal["model_load", "tool_search", "generation", "stream", "tool_call"]
"""The stages that can fail and be retried."""

MarkKind: TypeAlias = Literal["failed", "stopped", "limit", "empty", "interrupted"]
"""The ways in which a turn ends early."""

MAX_ROUNDS: Final = 50


@dataclass(frozen=True, slots=True)
class ChatError:
    """The last error: the stage, a message, and whether a retry may succeed."""

    stage: Stage
    message: str
    retryable: bool = True


@dataclass(frozen=True, slots=True)
class ChatMark:
    """The trace of a turn that ended early. `at` is the number of messages before it."""

    at: int
    kind: MarkKind
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable data: `index` is that of the message before it."""
        return {"index": self.at - 1, "kind": self.kind, "text": self.text}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ChatMark:
        """Return the mark with the data of `to_dict`."""
        return cls(data["index"] + 1, data["kind"], data["text"])


@dataclass(frozen=True, slots=True)
class Branch:
    """The messages of a chat from an index on, and what belongs to them, while another branch is in their place."""

    messages: tuple[Message, ...] = ()
    interrupted: tuple[int, ...] = ()
    marks: tuple[ChatMark, ...] = ()
    branches: tuple[BranchPoint, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable data."""
        return {field.name: _to_plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Branch:
        """Return the branch with the data of `to_dict`."""
        return cls(**{name: _READERS[name](value) for name, value in data.items()})


@dataclass(frozen=True, slots=True)
class BranchPoint:
    """The index of a message at which there are several branches.

    `current` is the number of the one that the chat has; its place in `branches` is empty.
    """

    index: int
    current: int
    branches: tuple[Branch, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable data."""
        return {"index": self.index, "current": self.current, "branches": _to_plain(self.branches)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BranchPoint:
        """Return the point with the data of `to_dict`."""
        return cls(data["index"], data["current"], tuple([Branch.from_dict(each) for each in data["branches"]]))


class Streamed:
    """The events of a partial answer. Like a tuple, but appending costs the same at any length.

    Successive values share one list, of which each sees its own beginning, and the accumulated message, so that a
    reader of the message after each chunk applies each chunk once. Two are equal if they make the same message, in
    however many chunks.
    """

    __slots__ = ("_events", "_folded", "_length")

    def __init__(self, events: Sequence[Event] = ()) -> None:
        self._events = list(events)
        self._length = len(self._events)
        self._folded: list[tuple[int, Accumulator]] = []  # taken out while a thread uses it

    def with_event(self, event: Event) -> Streamed:
        """Return these events and one more."""
        longer = object.__new__(Streamed)
        # The first event begins a new list: NOTHING_STREAMED is one value, which all chats share.
        last = 0 < self._length == len(self._events)
        longer._events = self._events if last else self._events[: self._length]
        longer._folded = self._folded if last else []
        longer._events.append(event)
        longer._length = self._length + 1
        return longer

    @property
    def message(self) -> Message:
        """The answer so far."""
        try:
            count, folded = self._folded.pop()
        except IndexError:
            count, folded = 0, Accumulator()
        if count > self._length:
            count, folded = 0, Accumulator()
        for event in self._events[count : self._length]:
            folded.apply(event)
        message = folded.message()  # before other threads can take the accumulator
        self._folded[:] = [(self._length, folded)]
        return message

    @property
    def text(self) -> str:
        """The text so far."""
        return self.message.text

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events[: self._length])

    def __len__(self) -> int:
        return self._length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Streamed) and self.message == other.message

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Streamed({self.text!r:.60})"


NOTHING_STREAMED: Final = Streamed()


@dataclass(frozen=True, slots=True)
class ChatContext:
    """The data of a chat.

    `messages` is the history, `queue` waits until the chat is ready, `held` until a user releases it. `interrupted` are
    indexes of incomplete messages. `streamed` is the partial answer. `tools` are those that the search found. `pending`
    calls wait for an approval; `running` are the ids of those that run, with the `answers` that allowed them;
    `remembered` are the rules for the session. `last_error` is the last failure, and `retry` the stage that a RETRY_*
    event repeats, or the "turn" of which another answer was requested. `load_progress` is in percent. `rounds` counts
    the rounds of tool calls in this turn, of at most `max_rounds`. `run` is the number of the last work. `mode` is the
    one that the user has selected. `marks` are the traces of turns that ended early, and `branches` the messages that
    an edit or another answer has replaced.
    """

    messages: tuple[Message, ...] = ()
    queue: tuple[Message, ...] = ()
    interrupted: tuple[int, ...] = ()
    model: str | None = None
    load_progress: float = 0.0
    last_error: ChatError | None = None
    retry: Stage | Literal["turn"] | None = None
    tools: tuple[str, ...] = ()
    streamed: Streamed = NOTHING_STREAMED
    stop_reason: StopReason | None = None
    pending: tuple[PermissionRequest, ...] = ()
    answers: tuple[ApprovalDecision, ...] = ()
    running: tuple[str, ...] = ()
    remembered: tuple[Mapping[str, Any], ...] = ()
    rounds: int = 0
    max_rounds: int = MAX_ROUNDS
    usage: Usage = NO_USAGE
    run: int = 0
    mode: str | None = None
    marks: tuple[ChatMark, ...] = ()
    branches: tuple[BranchPoint, ...] = ()
    held: tuple[Message, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable data, without the fields of `SELDOM_USED` that are empty."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _to_plain(value) for name, value in values.items() if value or name not in SELDOM_USED}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ChatContext:
        """Return the context with the data of `to_dict`."""
        return cls(**{name: _READERS.get(name, _unchanged)(value) for name, value in data.items()})


def as_interrupted(context: ChatContext) -> ChatContext:
    """Return the context with the last mark as that of a turn that the end of its program cut off."""
    *marks, last = context.marks
    mark = replace(last, kind="interrupted", text="the program ended during the turn")
    return replace(context, marks=(*marks, mark))


def read_snapshot(data: Mapping[str, Any]) -> tuple[ChatState, ChatContext]:
    """Return the state and the context of a snapshot. Raises `ValueError` if it is invalid.

    Calls that have a result neither wait nor run. If the calls do not fit the state, the state is `calling_tool`, which
    is stopped: then each gets a result.
    """
    try:
        version, state = data.get("version"), data.get("state")
        if version != 1 or state not in STATES:
            raise ValueError(f"this is no snapshot of a chat that can be read here: version {version!r}, {state!r:.60}")
        context = ChatContext.from_dict(data["context"])
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"this snapshot of a chat is damaged: {type(error).__name__}: {error}") from error
    left = {call.id for call in unanswered_calls(context.messages)}
    pending = tuple([request for request in context.pending if request.call_id in left])
    context = replace(context, pending=pending, running=tuple([id for id in context.running if id in left]))
    rests = state in ("idle", "loading_model", "load_failed", "ready") and context.retry in (None, "tool_call")
    fits = bool(pending) if state == "waiting_for_tool_approval" else rests or not left
    return state if fits else "calling_tool", context


def differences(before: ChatContext, after: ChatContext) -> dict[str, Any]:
    """Return the changed fields as JSON-serialisable data; of `messages` those from the index `from` on.

    `streamed` is left out: the chunks of an answer are events of their own, so each is emitted once.
    """
    changed = {
        field.name: _to_plain(getattr(after, field.name))
        for field in fields(after)
        if field.name not in ("messages", "streamed") and getattr(after, field.name) is not getattr(before, field.name)
    }
    if after.messages is not before.messages:
        same = _common(before.messages, after.messages)
        changed["messages"] = {"from": same, "messages": _to_plain(after.messages[same:])}
    return changed


def _common(before: Sequence[Message], after: Sequence[Message]) -> int:
    pairs = zip(before, after, strict=False)
    return next((at for at, (old, new) in enumerate(pairs) if old is not new), min(len(before), len(after)))


def _to_plain(value: Any) -> Any:
    if isinstance(value, Streamed):
        return value.message.to_dict()
    if isinstance(value, tuple):
        return [_to_plain(each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, ChatError):
        return {"stage": value.stage, "message": value.message, "retryable": value.retryable}
    return value.to_dict() if hasattr(value, "to_dict") else value


def _unchanged(value: Any) -> Any:
    return value


def _each(read: Callable[[Mapping[str, Any]], Any]) -> Callable[[Sequence[Mapping[str, Any]]], tuple[Any, ...]]:
    return lambda data: tuple([read(each) for each in data])


def _message(data: Message | Mapping[str, Any]) -> Message:
    return data if isinstance(data, Message) else Message.from_dict(data)


def _error(data: Mapping[str, Any] | None) -> ChatError | None:
    return None if data is None else ChatError(**data)


def _streamed(data: Mapping[str, Any]) -> Streamed:
    """Return a partial answer from stored data, with one event for each part."""
    events: list[Event] = []
    message = Message.from_dict(data)
    for part in message.parts:
        match part:
            case TextPart():
                events.append(TextDelta(part.text))
            case ThinkingPart():
                events.append(ThinkingDelta(part.text, part.signature, part.redacted, part.opaque))
            case ToolCallPart():
                done = ToolCallDone(part.id, part.name, part.arguments, part.truncated, part.opaque)
                events += (ToolCallStart(part.id, part.name), done)
            case ServerToolPart():
                events.append(server_tool_use(part))
            case ImagePart():
                events.append(ImageOutput(part))
            case AudioPart() if part.data is not None:
                media_type = part.media_type or ""
                events.append(AudioOutput(part.data, media_type, part.transcript or "", part.opaque))
            case _:
                pass
    events += [TextCitation(citation) for citation in message.citations]
    return Streamed(events) if events else NOTHING_STREAMED


SELDOM_USED: Final = ("mode", "marks", "branches", "held")
"""The fields that most chats do not use."""

_READERS: Final[Mapping[str, Any]] = {
    "messages": _each(_message),
    "queue": _each(_message),
    "interrupted": tuple,
    "last_error": _error,
    "tools": tuple,
    "streamed": _streamed,
    "pending": _each(PermissionRequest.from_dict),
    "answers": _each(ApprovalDecision.from_dict),
    "running": tuple,
    "remembered": tuple,
    "usage": Usage.from_dict,
    "marks": _each(ChatMark.from_dict),
    "branches": _each(BranchPoint.from_dict),
    "held": _each(Message.from_dict),
}
