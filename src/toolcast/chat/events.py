"""The events of the chat machine (transitions.py).

An event is a frozen value, and its `type` is its class's name in UPPER_CASE, as in `QUEUE_MESSAGE`. Some come from
users, through a UI; `parse_event` makes those from plain data. The others are emitted by the machine's work. They may
carry the number of their `run`, by which late events of abandoned work are recognised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, fields, is_dataclass
from typing import Any, ClassVar, Final, cast

from ..agents.engine.history import has_content
from ..events import (
    Event,
    Finish,
    GroundingReport,
    LogprobsDelta,
    SafetyReport,
    StopReason,
    TextCitation,
    UsageReport,
)
from ..lazy.lazy_dataclasses import dataclass
from ..messages import (
    AudioPart,
    DocumentPart,
    FileRef,
    ImagePart,
    Message,
    TextPart,
    ToolResultPart,
    VideoPart,
    user,
)
from ..values.approvals import PermissionRequest
from ..values.message_dicts import message_from_dict
from ..values.usage import NO_USAGE, Usage


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """An event of a chat."""

    type: ClassVar[str] = "CHAT_EVENT"

    def __init_subclass__(cls) -> None:
        cls.type = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).upper()


# Events of users.

USER_PARTS: Final = (TextPart, ImagePart, AudioPart, VideoPart, DocumentPart, FileRef)


@dataclass(frozen=True, slots=True)
class LoadModel(ChatEvent):
    """A user requests another model by its name, as `toolcast.llm` takes it. None: the chat's own.

    Current work is cancelled.
    """

    model_id: str | None = None


@dataclass(frozen=True, slots=True)
class QueueMessage(ChatEvent):
    """A user sends a message. It begins a turn as soon as the chat is `ready`."""

    message: Message

    def __init__(self, message: Message | str | Mapping[str, Any]) -> None:
        if isinstance(message, Mapping):
            message = message_from_dict(message)
        message = user(message) if isinstance(message, str) else message
        if not has_content(message):
            raise ValueError("an empty message cannot be queued: pass some text")
        if message.role != "user" or not all(isinstance(part, USER_PARTS) for part in message.parts):
            raise ValueError(f"only user messages can be queued, not {message.parts!r:.60} by {message.role!r}")
        object.__setattr__(self, "message", message)


@dataclass(frozen=True, slots=True)
class HoldQueue(ChatEvent):
    """A user takes the messages from `index` on out of the queue: they begin no turn until `ReleaseQueue`."""

    index: int = 0

    def __post_init__(self) -> None:
        _check_index("index", self.index)


@dataclass(frozen=True, slots=True)
class ReleaseQueue(ChatEvent):
    """A user puts the messages that `HoldQueue` has taken out at the end of the queue."""


@dataclass(frozen=True, slots=True)
class RemoveQueued(ChatEvent):
    """A user removes the message at `index` from the queue, or from those held back, which are counted after it."""

    index: int

    def __post_init__(self) -> None:
        _check_index("index", self.index)


@dataclass(frozen=True, slots=True)
class EditQueued(ChatEvent):
    """A user replaces the message at `index` of the queue, or of those held back, which are counted after it."""

    index: int
    message: Message

    def __init__(self, index: int, message: Message | str | Mapping[str, Any]) -> None:
        object.__setattr__(self, "index", _check_index("index", index))
        object.__setattr__(self, "message", QueueMessage(message).message)


@dataclass(frozen=True, slots=True)
class EditMessage(ChatEvent):
    """A user replaces the own message at `index`, and a turn begins with it.

    The messages from there on are kept as a branch. Current work is cancelled.
    """

    index: int
    message: Message

    def __init__(self, index: int, message: Message | str | Mapping[str, Any]) -> None:
        object.__setattr__(self, "index", _check_index("index", index))
        object.__setattr__(self, "message", QueueMessage(message).message)


@dataclass(frozen=True, slots=True)
class Regenerate(ChatEvent):
    """A user requests another answer in the turn that has the message `index`.

    The messages after those of the user are kept as a branch. Current work is cancelled.
    """

    index: int

    def __post_init__(self) -> None:
        _check_index("index", self.index)


@dataclass(frozen=True, slots=True)
class SwitchBranch(ChatEvent):
    """A user goes on with another of the branches that begin at the message `index`. Current work is cancelled."""

    index: int
    branch: int

    def __post_init__(self) -> None:
        _check_index("index", self.index)
        _check_index("branch", self.branch)


def _check_index(name: str, index: object) -> int:
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise ValueError(f"{name}={index!r:.60} is no index: pass a whole number from 0")
    return index


@dataclass(frozen=True, slots=True)
class SetMode(ChatEvent):
    """A user selects another mode: its tools, permissions and instructions apply from the next work on."""

    mode: str


@dataclass(frozen=True, slots=True)
class Interrupt(ChatEvent):
    """A user stops the current work. For tool calls it is a rejection, which the model reads before it continues."""


@dataclass(frozen=True, slots=True)
class Stop(ChatEvent):
    """A user stops the whole turn."""


@dataclass(frozen=True, slots=True)
class ApproveToolCall(ChatEvent):
    """A user allows a pending call; without a `call_id`, all of them.

    `arguments` (JSON text) replace the model's; `for_session` also allows later calls like it. With a `fingerprint` it
    answers only the `PermissionRequest` with the same one, with `fingerprints` only those with one of them: what was
    shown to the user.
    """

    call_id: str | None = None
    arguments: str | None = None
    for_session: bool = False
    fingerprint: str | None = None
    fingerprints: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprints", _fingerprints(self.fingerprints))
        if self.for_session and self.arguments is not None:
            raise ValueError(
                "for_session= allows the model's own arguments: leave out either for_session= or arguments="
            )


@dataclass(frozen=True, slots=True)
class RejectToolCall(ChatEvent):
    """A user rejects a pending call; without a `call_id`, all of them. The model reads the `reason`.

    `fingerprint` and `fingerprints` are those of `ApproveToolCall`.
    """

    call_id: str | None = None
    reason: str = ""
    fingerprint: str | None = None
    fingerprints: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprints", _fingerprints(self.fingerprints))


def _fingerprints(fingerprints: Sequence[object] | None) -> tuple[str, ...] | None:
    """Return the fingerprints as a tuple. Raise `ValueError` if one is no str: it would match no request."""
    if fingerprints is None:
        return None
    found = tuple([each for each in fingerprints if isinstance(each, str)])
    if isinstance(fingerprints, str) or len(found) != len(fingerprints):
        raise ValueError("fingerprints= are a list of str, from the requests in context.pending")
    return found


@dataclass(frozen=True, slots=True)
class RetryToolSearch(ChatEvent):
    """A user repeats the tool search that failed or was stopped."""


@dataclass(frozen=True, slots=True)
class RetryGeneration(ChatEvent):
    """A user repeats the model request, with the same tools."""


@dataclass(frozen=True, slots=True)
class RetryToolCall(ChatEvent):
    """A user repeats the calls that failed."""


@dataclass(frozen=True, slots=True)
class Restored(ChatEvent):
    """The chat was restored from a snapshot. Only `restore` emits it."""


# Events of work.


@dataclass(frozen=True, slots=True)
class WorkEvent(ChatEvent):
    """An event of the machine's work. Without a `run` it counts for the current one."""

    _: KW_ONLY
    run: int | None = None


@dataclass(frozen=True, slots=True)
class ModelLoadProgress(WorkEvent):
    """The progress of loading, in percent."""

    progress: float


@dataclass(frozen=True, slots=True)
class ModelLoadSuccess(WorkEvent):
    """The model is ready."""


@dataclass(frozen=True, slots=True)
class Failure(WorkEvent):
    """A stage has failed. `retryable`: a retry may succeed."""

    error: str = ""
    retryable: bool = True


@dataclass(frozen=True, slots=True)
class ModelLoadFailure(Failure):
    """The model could not be loaded."""


@dataclass(frozen=True, slots=True)
class ToolSearchSuccess(WorkEvent):
    """The names of the tools that were found."""

    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSearchFailure(Failure):
    """The tool search failed."""


@dataclass(frozen=True, slots=True)
class GenerationSuccess(WorkEvent):
    """The model has begun to answer."""


@dataclass(frozen=True, slots=True)
class GenerationFailure(Failure):
    """The model request failed before the answer began."""


@dataclass(frozen=True, slots=True)
class StreamChunk(WorkEvent):
    """A chunk of the answer: an event of its stream, or text."""

    content: Event | str


@dataclass(frozen=True, slots=True)
class StreamComplete(WorkEvent):
    """The answer is complete. Without a `message` it is made of its chunks.

    `pending` are the approvals that its calls need; None: all of them need one. Calls of an answer with another
    `stop_reason` than `tool_use` are not run.
    """

    message: Message | None = None
    pending: tuple[PermissionRequest, ...] | None = None
    stop_reason: StopReason | None = None
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class StreamError(Failure):
    """The answer was interrupted by an error."""


@dataclass(frozen=True, slots=True)
class ToolCallProgress(WorkEvent):
    """The progress of a running tool."""

    call_id: str
    data: Any = None


@dataclass(frozen=True, slots=True)
class ToolCallSuccess(WorkEvent):
    """The result of a call. A text is that of the first running call.

    The last of the calls that run together brings the rules for the session (`remembered`) and the approvals that are
    still needed (`pending`), if they have changed.
    """

    result: ToolResultPart | str
    remembered: tuple[Mapping[str, Any], ...] | None = None
    pending: tuple[PermissionRequest, ...] | None = None


@dataclass(frozen=True, slots=True)
class ToolCallFailure(Failure):
    """A tool has failed. The calls without a result can be repeated."""


USER_EVENTS: Final[Mapping[str, type[ChatEvent]]] = {
    kind.type: kind
    for kind in (
        LoadModel,
        QueueMessage,
        EditQueued,
        RemoveQueued,
        HoldQueue,
        ReleaseQueue,
        EditMessage,
        Regenerate,
        SwitchBranch,
        SetMode,
        Interrupt,
        Stop,
        ApproveToolCall,
        RejectToolCall,
        RetryToolSearch,
        RetryGeneration,
        RetryToolCall,
    )
}
"""The events that people bring about, by their types."""


def parse_event(data: Mapping[str, Any] | str) -> ChatEvent:
    """Return the event of a user: `{"type": "QUEUE_MESSAGE", "message": "Hello"}`, or its type alone.

    Raises `ValueError` for anything else, the events of the machine's work included.
    """
    given: dict[str, Any] = {"type": data} if isinstance(data, str) else dict(data)
    name = given.pop("type", None)
    kind = USER_EVENTS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"{name!r:.60} is no event of a user; expected one of: {', '.join(USER_EVENTS)}")
    wanted = _FIELDS[kind.type]
    takes = f"it takes: {', '.join(wanted) or 'nothing'}"
    for field, value in given.items():
        if field not in wanted or not isinstance(value, wanted[field]):
            raise ValueError(f"{kind.type} does not take {field}={value!r:.60}; {takes}")
    try:
        return kind(**given)
    except TypeError:
        raise ValueError(f"{kind.type} is not whole; {takes}") from None


_OR_NONE: Final = (str, type(None))
_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "LOAD_MODEL": {"model_id": _OR_NONE},
    "QUEUE_MESSAGE": {"message": (str, dict)},
    "EDIT_QUEUED": {"index": int, "message": (str, dict)},
    "REMOVE_QUEUED": {"index": int},
    "HOLD_QUEUE": {"index": int},
    "RELEASE_QUEUE": {},
    "EDIT_MESSAGE": {"index": int, "message": (str, dict)},
    "REGENERATE": {"index": int},
    "SWITCH_BRANCH": {"index": int, "branch": int},
    "SET_MODE": {"mode": str},
    "INTERRUPT": {},
    "STOP": {},
    "APPROVE_TOOL_CALL": {
        "call_id": _OR_NONE,
        "arguments": _OR_NONE,
        "for_session": bool,
        "fingerprint": _OR_NONE,
        "fingerprints": (list, tuple, type(None)),
    },
    "REJECT_TOOL_CALL": {
        "call_id": _OR_NONE,
        "reason": str,
        "fingerprint": _OR_NONE,
        "fingerprints": (list, tuple, type(None)),
    },
    "RETRY_TOOL_SEARCH": {},
    "RETRY_GENERATION": {},
    "RETRY_TOOL_CALL": {},
}


def event_to_dict(event: ChatEvent) -> dict[str, Any]:
    """Return `event` as JSON-serialisable data; values that are not serialisable as their text."""
    return {"type": event.type} | {field.name: _plain(getattr(event, field.name)) for field in fields(event)}


def _plain(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in cast("Sequence[Any]", value)]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    named = {"type": type(value).__name__} if is_dataclass(value) else {}
    if isinstance(value, UsageReport):
        return named | {"usage": value.usage.to_dict()}
    if isinstance(value, TextCitation):
        return named | {"citation": value.citation.to_dict()}
    if isinstance(value, GroundingReport):
        return named | {"grounding": value.grounding.to_dict()}
    if isinstance(value, LogprobsDelta):
        return named | {"tokens": [token.to_dict() for token in value.tokens]}
    if isinstance(value, SafetyReport):
        return named | {"ratings": [rating.to_dict() for rating in value.ratings]}
    if isinstance(value, Finish):  # without the whole body of the response
        return named | {"stop_reason": value.stop_reason, "model": value.model, "raw": value.raw}
    try:
        data = to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null", fallback=str)
    except ValueError:  # it contains itself
        return str(value)
    return named | data if named else data
