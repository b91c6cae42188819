"""What can happen to a chat: the events that chat_transitions.py knows.

An event is a frozen value, and its `type` is its class's name in UPPER_CASE, as in `QUEUE_MESSAGE`. Some are said by
people, by whatever shows the chat to them; `said` makes those of plain data. The others are told by the work that the
machine has started. They may carry the number of that `run`: what comes late, from work that was given up meanwhile,
is known by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass
from typing import Any, ClassVar, Final, cast

from ..agents.engine.history import says_something
from ..approvals import PermissionRequest
from ..events import Event, StopReason
from ..message_dicts import message_from_dict
from ..messages import AudioPart, DocumentPart, ImagePart, Message, TextPart, ToolResultPart, user
from ..usage import NO_USAGE, Usage


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """Something that happens to a chat."""

    type: ClassVar[str] = "CHAT_EVENT"

    def __init_subclass__(cls) -> None:
        cls.type = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).upper()


# What people say.

_SAID: Final = (TextPart, ImagePart, AudioPart, DocumentPart)


@dataclass(frozen=True, slots=True)
class LoadModel(ChatEvent):
    """Another model is to answer from now on: its name, as `toolcast.llm` takes it. None: the chat's own.

    Work that goes on is given up.
    """

    model_id: str | None = None


@dataclass(frozen=True, slots=True)
class QueueMessage(ChatEvent):
    """The user says something. It begins a turn as soon as the chat is `ready`."""

    message: Message

    def __init__(self, message: Message | str | Mapping[str, Any]) -> None:
        if isinstance(message, Mapping):
            message = message_from_dict(message)
        message = user(message) if isinstance(message, str) else message
        if not says_something(message):
            raise ValueError("an empty message cannot be queued: say something")
        if message.role != "user" or not all(isinstance(part, _SAID) for part in message.parts):
            raise ValueError(f"only what a user says can be queued, not {message.parts!r:.60} by {message.role!r}")
        object.__setattr__(self, "message", message)


@dataclass(frozen=True, slots=True)
class Interrupt(ChatEvent):
    """What is going on is to stop. Of tool calls, that is a rejection: the model is told, and goes on."""


@dataclass(frozen=True, slots=True)
class Stop(ChatEvent):
    """The whole turn is to stop, whatever is going on."""


@dataclass(frozen=True, slots=True)
class ApproveToolCall(ChatEvent):
    """A call that waits may run; without a `call_id`, all that wait.

    `arguments` (JSON text) take the place of the model's; `for_session` allows the calls like it that follow. With a
    `fingerprint` it is an answer to a `PermissionRequest` with that very one, and to no other.
    """

    call_id: str | None = None
    arguments: str | None = None
    for_session: bool = False
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        if self.for_session and self.arguments is not None:
            raise ValueError("what is allowed for the session are the model's calls: leave out either it or arguments=")


@dataclass(frozen=True, slots=True)
class RejectToolCall(ChatEvent):
    """A call that waits may not run; without a `call_id`, all that wait. The model reads the `reason`."""

    call_id: str | None = None
    reason: str = ""
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class RetryToolSearch(ChatEvent):
    """The tool search that failed, or was stopped, is to be made again."""


@dataclass(frozen=True, slots=True)
class RetryGeneration(ChatEvent):
    """The model is to be asked again, with the same tools."""


@dataclass(frozen=True, slots=True)
class RetryToolCall(ChatEvent):
    """The calls that failed are to be run again."""


@dataclass(frozen=True, slots=True)
class Restored(ChatEvent):
    """The chat goes on from a snapshot. It is only told: `restore` brings it about."""


# What work tells.


@dataclass(frozen=True, slots=True)
class WorkEvent(ChatEvent):
    """Something that work tells. Without a `run` it is believed to come from the one that goes on."""

    _: KW_ONLY
    run: int | None = None


@dataclass(frozen=True, slots=True)
class ModelLoadProgress(WorkEvent):
    """How much of the model is there, in percent."""

    progress: float


@dataclass(frozen=True, slots=True)
class ModelLoadSuccess(WorkEvent):
    """The model can be asked."""


@dataclass(frozen=True, slots=True)
class Failure(WorkEvent):
    """A stage has failed. `retryable`: the same may succeed another time."""

    error: str = ""
    retryable: bool = True


@dataclass(frozen=True, slots=True)
class ModelLoadFailure(Failure):
    """The model could not be loaded."""


@dataclass(frozen=True, slots=True)
class ToolSearchSuccess(WorkEvent):
    """These tools fit the conversation: their names."""

    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSearchFailure(Failure):
    """The tools could not be looked through."""


@dataclass(frozen=True, slots=True)
class GenerationSuccess(WorkEvent):
    """The model has begun to answer."""


@dataclass(frozen=True, slots=True)
class GenerationFailure(Failure):
    """The model could not be asked, or did not begin to answer."""


@dataclass(frozen=True, slots=True)
class StreamChunk(WorkEvent):
    """A piece of the answer: an event of its stream, or text."""

    content: Event | str


@dataclass(frozen=True, slots=True)
class StreamComplete(WorkEvent):
    """The answer is whole. Without a `message` it is what its pieces make.

    `pending` are those of its calls that somebody must be asked about; None: all of them. Calls in an answer that
    ended for another `stop_reason` than `tool_use` are not run.
    """

    message: Message | None = None
    pending: tuple[PermissionRequest, ...] | None = None
    stop_reason: StopReason | None = None
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True)
class StreamError(Failure):
    """The answer broke off."""


@dataclass(frozen=True, slots=True)
class ToolCallProgress(WorkEvent):
    """What a running tool says of itself."""

    call_id: str
    data: Any = None


@dataclass(frozen=True, slots=True)
class ToolCallSuccess(WorkEvent):
    """A call has its result. A text is that of the first that runs.

    With the last of the calls that run together come the rules that now hold for the session (`remembered`), and the
    calls that are still to be asked about (`pending`), where that has changed.
    """

    result: ToolResultPart | str
    remembered: tuple[Mapping[str, Any], ...] | None = None
    pending: tuple[PermissionRequest, ...] | None = None


@dataclass(frozen=True, slots=True)
class ToolCallFailure(Failure):
    """A tool has failed. The calls that have no result by now may be run again."""


SAID: Final[Mapping[str, type[ChatEvent]]] = {
    kind.type: kind
    for kind in (
        LoadModel,
        QueueMessage,
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


def said(data: Mapping[str, Any] | str) -> ChatEvent:
    """The event that a person has brought about: `{"type": "QUEUE_MESSAGE", "message": "Hello"}`, or its type alone.

    Raises `ValueError` for anything else. What only work can tell cannot be said.
    """
    given: dict[str, Any] = {"type": data} if isinstance(data, str) else dict(data)
    name = given.pop("type", None)
    kind = SAID.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"{name!r:.60} is nothing that can be said to a chat, but: {', '.join(SAID)}")
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
    "INTERRUPT": {},
    "STOP": {},
    "APPROVE_TOOL_CALL": {"call_id": _OR_NONE, "arguments": _OR_NONE, "for_session": bool, "fingerprint": _OR_NONE},
    "REJECT_TOOL_CALL": {"call_id": _OR_NONE, "reason": str, "fingerprint": _OR_NONE},
    "RETRY_TOOL_SEARCH": {},
    "RETRY_GENERATION": {},
    "RETRY_TOOL_CALL": {},
}


def told(event: ChatEvent) -> dict[str, Any]:
    """`event` as plain JSON-ready data, for whoever shows the chat. What is none is told by its text."""
    return {"type": event.type} | {field.name: _plain(getattr(event, field.name)) for field in fields(event)}


def _plain(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in cast("Sequence[Any]", value)]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    named = {"type": type(value).__name__} if is_dataclass(value) else {}
    try:
        data = to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null", fallback=str)
    except ValueError:  # it holds itself
        return str(value)
    return named | data if named else data
