"""What a chat knows: one frozen value, which can be written down as JSON and read again.

The state of a chat is a word, and everything else is here: what was said and what waits to be said, the model, the
answer that is being written, the calls that wait for a word, what failed last and may be tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from ..accumulator import Accumulator
from ..agents.engine.history import unanswered
from ..approvals import ApprovalDecision, PermissionRequest
from ..events import Event, StopReason, TextDelta, ThinkingDelta, ToolCallDone, ToolCallStart
from ..messages import Message, TextPart, ThinkingPart, ToolCallPart
from ..usage import NO_USAGE, Usage

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
"""What can fail, and be tried again."""

MAX_ROUNDS: Final = 50


@dataclass(frozen=True, slots=True)
class ChatError:
    """What failed last: the stage, in words why, and whether the same may succeed another time."""

    stage: Stage
    message: str
    retryable: bool = True


class Streamed:
    """The events of an answer that is being written. Like a tuple, but to add one costs the same at any length.

    Those that follow each other share one list, of which each sees its own beginning, and what is folded of it, so that
    whoever looks at the message after each piece folds each piece once. Two are equal if they make the same message, in
    however many pieces it came.
    """

    __slots__ = ("_events", "_folded", "_length")

    def __init__(self, events: Sequence[Event] = ()) -> None:
        self._events = list(events)
        self._length = len(self._events)
        self._folded: list[tuple[int, Accumulator]] = []  # the one that somebody works with is taken out meanwhile

    def added(self, event: Event) -> Streamed:
        """These events and one more."""
        longer = object.__new__(Streamed)
        # The first begins a list of its own: nothing streamed is one value, which all chats begin with.
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
        self._folded[:] = [(self._length, folded)]
        return folded.message()

    @property
    def text(self) -> str:
        """Its text so far."""
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
    """What a chat knows.

    `messages` were said, `queue` waits to be said as soon as the chat is ready. `interrupted` are places of messages
    that were broken off. `streamed` is the answer that is being written. `tools` are those that the search has found.
    `pending` calls wait for a person's word; `running` are the ids of those that run, with the `answers` that let
    them; `remembered` are the rules that hold for the session. `last_error` is what failed last, and `retry` the
    stage that a RETRY_* event starts anew. `load_progress` is in percent. `rounds` counts how often tools were used
    in this turn, of at most `max_rounds`. `run` numbers the work that was started.
    """

    messages: tuple[Message, ...] = ()
    queue: tuple[Message, ...] = ()
    interrupted: tuple[int, ...] = ()
    model: str | None = None
    load_progress: float = 0.0
    last_error: ChatError | None = None
    retry: Stage | None = None
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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready data."""
        return {field.name: _written(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ChatContext:
        """The context that `to_dict` made `data` from."""
        return cls(**{name: _READ.get(name, _as_it_is)(value) for name, value in data.items()})


def read_snapshot(data: Mapping[str, Any]) -> tuple[ChatState, ChatContext]:
    """The state and the context that a snapshot tells. Raises `ValueError` for what is none.

    Only calls that have no result wait or run. Where they do not fit the state, the state is `calling_tool`, which is
    stopped: then each gets a result.
    """
    try:
        version, state = data.get("version"), data.get("state")
        if version != 1 or state not in STATES:
            raise ValueError(f"this is no snapshot of a chat that can be read here: version {version!r}, {state!r:.60}")
        context = ChatContext.from_dict(data["context"])
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"this snapshot of a chat is damaged: {type(error).__name__}: {error}") from error
    left = {call.id for call in unanswered(context.messages)}
    pending = tuple([request for request in context.pending if request.call_id in left])
    context = replace(context, pending=pending, running=tuple([id for id in context.running if id in left]))
    rests = state in ("idle", "loading_model", "load_failed", "ready") and context.retry in (None, "tool_call")
    fits = bool(pending) if state == "waiting_for_tool_approval" else rests or not left
    return state if fits else "calling_tool", context


def differences(before: ChatContext, after: ChatContext) -> dict[str, Any]:
    """What has changed, as JSON-ready data: of `messages` those from the place `from` on; of `streamed` nothing.

    The pieces of an answer are events of their own, so that each of them is told once.
    """
    changed = {
        field.name: _written(getattr(after, field.name))
        for field in fields(after)
        if field.name not in ("messages", "streamed") and getattr(after, field.name) is not getattr(before, field.name)
    }
    if after.messages is not before.messages:
        same = _common(before.messages, after.messages)
        changed["messages"] = {"from": same, "messages": _written(after.messages[same:])}
    return changed


def _common(before: Sequence[Message], after: Sequence[Message]) -> int:
    pairs = zip(before, after, strict=False)
    return next((at for at, (old, new) in enumerate(pairs) if old is not new), min(len(before), len(after)))


def _written(value: Any) -> Any:
    if isinstance(value, Streamed):
        return value.message.to_dict()
    if isinstance(value, tuple):
        return [_written(each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, ChatError):
        return {"stage": value.stage, "message": value.message, "retryable": value.retryable}
    return value.to_dict() if hasattr(value, "to_dict") else value


def _as_it_is(value: Any) -> Any:
    return value


def _each(read: Callable[[Mapping[str, Any]], Any]) -> Callable[[Sequence[Mapping[str, Any]]], tuple[Any, ...]]:
    return lambda data: tuple([read(each) for each in data])


def _error(data: Mapping[str, Any] | None) -> ChatError | None:
    return None if data is None else ChatError(**data)


def _streamed(data: Mapping[str, Any]) -> Streamed:
    """The answer as it was written down: in as few pieces as it has parts."""
    events: list[Event] = []
    for part in Message.from_dict(data).parts:
        match part:
            case TextPart():
                events.append(TextDelta(part.text))
            case ThinkingPart():
                events.append(ThinkingDelta(part.text, part.signature, part.redacted, part.opaque))
            case ToolCallPart():
                done = ToolCallDone(part.id, part.name, part.arguments, part.truncated, part.opaque)
                events += (ToolCallStart(part.id, part.name), done)
            case _:
                pass
    return Streamed(events) if events else NOTHING_STREAMED


_READ: Final[Mapping[str, Any]] = {
    "messages": _each(Message.from_dict),
    "queue": _each(Message.from_dict),
    "interrupted": tuple,
    "last_error": _error,
    "tools": tuple,
    "streamed": _streamed,
    "pending": _each(PermissionRequest.from_dict),
    "answers": _each(ApprovalDecision.from_dict),
    "running": tuple,
    "remembered": tuple,
    "usage": Usage.from_dict,
}
