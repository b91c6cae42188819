"""The events of a streamed response, and `ChatResponse`, to which accumulator.py adds them up.

Every provider's decoder emits these events. A tool call is one `ToolCallStart`, any number of `ToolCallDelta`, and one
`ToolCallDone`, whose complete arguments replace those of the deltas. `UsageReport` is cumulative within one request,
so the last one counts. `Finish` comes once, last.

The turn of an engine emits the same events for each of its requests, and the others of `AgentEvent`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from .errors import CallError
from .lazy.lazy_dataclasses import dataclass
from .messages import ImagePart, Message, ServerToolPart
from .text.json_text import json_text
from .values.answer_details import SafetyRating, TokenLogprob, describe_ratings
from .values.approvals import PermissionRequest
from .values.citations import Citation, Grounding
from .values.usage import Usage

__all__ = [
    "AgentEvent",
    "AudioOutput",
    "ChatResponse",
    "Citation",
    "ErrorEvent",
    "Event",
    "Failover",
    "Finish",
    "Grounding",
    "GroundingReport",
    "ImageOutput",
    "LogprobsDelta",
    "OutputDelta",
    "RawEvent",
    "Restarted",
    "Routing",
    "SafetyRating",
    "SafetyReport",
    "ServerToolUse",
    "StopReason",
    "TextCitation",
    "TextDelta",
    "ThinkingDelta",
    "TokenLogprob",
    "ToolCallDelta",
    "ToolCallDone",
    "ToolCallReset",
    "ToolCallStart",
    "ToolProgress",
    "ToolResult",
    "ToolStarted",
    "UsageReport",
]

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
    """A chunk of the response's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A chunk of the model's reasoning; `signature`, `redacted` and `opaque` end the block that they belong to."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    opaque: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """The start of a tool call. `id` is not empty, and unique in the response; `name` is the tool's."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A chunk of the JSON arguments of the call `id`."""

    id: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolCallReset:
    """A notice that all deltas of the call `id` so far are void, as the service sends them again."""

    id: str


@dataclass(frozen=True, slots=True)
class ToolCallDone:
    """The end of the call `id`; `arguments` is its complete JSON text, cut off by a limit if `truncated`."""

    id: str
    name: str
    arguments: str
    truncated: bool = False
    opaque: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ServerToolUse:
    """A complete block of a tool that the provider ran: its call, its result, or both. See `ServerToolPart`.

    Attributes:
        name: The name of the tool.
        call_id: The service's id of the call; empty if it has none.
        input: The input of the call; None for a result alone.
        output: The result; None for a call alone.
        error: The service's name or text of the error, if the tool failed.
        provider: The provider that ran the tool.
        raw: The service's block.
    """

    name: str
    call_id: str = ""
    input: Any = None
    output: Any = None
    error: str | None = None
    provider: str = ""
    raw: Mapping[str, Any] | None = None

    @property
    def part(self) -> ServerToolPart:
        """The block as a part of the message."""
        return ServerToolPart(self.name, self.call_id, self.input, self.output, self.error, self.provider, self.raw)


def server_tool_use(part: ServerToolPart) -> ServerToolUse:
    """Return the event of a part."""
    return ServerToolUse(part.name, part.call_id, part.input, part.output, part.error, part.provider, part.raw)


@dataclass(frozen=True, slots=True)
class TextCitation:
    """A source of the text so far; `start` and `end` are places in the text of the whole response."""

    citation: Citation


@dataclass(frozen=True, slots=True)
class GroundingReport:
    """The queries and the sources of a search that the provider ran. The last report counts."""

    grounding: Grounding


@dataclass(frozen=True, slots=True)
class ImageOutput:
    """An image of the model, whole.

    Attributes:
        image: The image.
        partial: The number of a preview, from 0. The image itself follows and has None: it alone is in the message.
    """

    image: ImagePart
    partial: int | None = None


@dataclass(frozen=True, slots=True)
class AudioOutput:
    """A chunk of a recording of the model: chunks of one media type without another part between are one recording.

    Attributes:
        data: The bytes of the chunk.
        media_type: The media type of the recording.
        transcript: The text of the chunk, if the service reports it.
        opaque: Data of the service, which end the recording.
    """

    data: bytes
    media_type: str
    transcript: str = ""
    opaque: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class LogprobsDelta:
    """The log probabilities of further tokens of the response's text."""

    tokens: tuple[TokenLogprob, ...]


@dataclass(frozen=True, slots=True)
class SafetyReport:
    """Ratings of the prompt and of the response so far. Of each category the last one counts, or one that blocked."""

    ratings: tuple[SafetyRating, ...]


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The tokens of this request so far. The last report counts."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Restarted:
    """A notice that the request is repeated, so that earlier events of the call are void. `attempt` counts from 1."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Routing:
    """The model that the following events come from, where there are several."""

    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class Failover:
    """A notice that this model failed before its first content with a retryable error, and the next one follows."""

    provider: str
    model: str
    error: CallError


@dataclass(frozen=True, slots=True)
class RawEvent:
    """Data of the service that has no event of its own.

    Attributes:
        data: The data, as the service sent it.
        damaged: True if it could not be decoded and was skipped.
        repeated: True if the protocol repeats its content, so that nothing is lost.
    """

    data: Any
    damaged: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a response.

    Attributes:
        stop_reason: The reason of the end.
        model: The model that answered, as the service names it.
        raw: The service's value of the stop reason.
        response_id: The service's id of the response.
        body: The decoded body of a response that was not streamed; of a stream with `keep_raw` the list of its events.
    """

    stop_reason: StopReason
    model: str | None = None
    raw: str | None = None
    # Not compared: a streamed and a complete response with the same content end alike.
    response_id: str | None = field(default=None, compare=False)
    body: Any = field(default=None, compare=False, repr=False)


Event: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | ToolCallStart
    | ToolCallDelta
    | ToolCallReset
    | ToolCallDone
    | ServerToolUse
    | TextCitation
    | GroundingReport
    | ImageOutput
    | AudioOutput
    | LogprobsDelta
    | SafetyReport
    | UsageReport
    | Restarted
    | Routing
    | Failover
    | RawEvent
    | Finish
)


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The start of a tool's run: from here on it may have had its effect."""

    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """Progress of a running tool: the `data` that it passed to `ToolContext.emit`."""

    call_id: str
    name: str
    data: Any


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call: `content` is the text for the model, `output` the object that the tool returned."""

    call_id: str
    name: str
    content: str
    is_error: bool = False
    output: object = None


@dataclass(frozen=True, slots=True)
class OutputDelta(Generic[T]):
    """The partial typed result of the turn: an immutable snapshot."""

    value: T


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The error that ended the turn. It comes last."""

    error: BaseException


AgentEvent: TypeAlias = (
    Event | ToolStarted | ToolProgress | ToolResult | PermissionRequest | OutputDelta[T] | ErrorEvent
)
"""The events of a turn; `AgentEvent[Album]` for one with an `Album` as its typed output."""

LIBRARY_EVENTS: frozenset[type] = frozenset((Restarted, Routing, Failover))
"""The events that the library emits itself, and no service sends."""


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """The complete response of a model.

    Attributes:
        message: The assistant message.
        stop_reason: The reason of its end.
        usage: The tokens of the call.
        model: The model that answered, as the service names it.
        provider: The provider.
        request_id: The service's id of the request, from the HTTP headers.
        raw: The decoded body, if it was not streamed; of a stream the list of its events, if the LLM has
            `keep_raw=True`.
        repairs: Every change that was needed to read the response as an object.
        response_id: The service's id of the response, from its content.
        grounding: The queries and the sources of the provider's search; None if it reports none.
        logprobs: The log probabilities of the tokens of the text, if they were asked for: `Settings(logprobs=...)`.
        safety: The ratings of the prompt and of the response by the service's filters and guardrails.
        raw_stop_reason: The service's value of the stop reason; not in `to_dict`.
    """

    message: Message
    stop_reason: StopReason = "other"
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    provider: str | None = None
    request_id: str | None = None
    raw: Any = field(default=None, compare=False, repr=False)
    repairs: tuple[str, ...] = ()
    response_id: str | None = None
    grounding: Grounding | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    safety: tuple[SafetyRating, ...] = ()
    raw_stop_reason: str | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.message.text

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The citations of the message, with their places in `text`."""
        return self.message.citations

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: without the arguments of tool calls, which may be secret."""
        from .values.html_repr import citation_list, table

        calls = ", ".join([call.name for call in self.message.tool_calls])
        rows = [
            ("text", self.text or None),
            ("citations", citation_list(self.citations)),
            ("images", len(self.message.images) or None),
            ("audio", len(self.message.audio) or None),
            ("tool calls", calls or None),
            ("stop reason", self.stop_reason),
            ("model", " ".join([name for name in (self.provider, self.model) if name]) or None),
            ("blocked", describe_ratings(self.safety) or None),
            ("usage", self.usage.describe()),
            ("response", self.response_id),
            ("repairs", list(self.repairs) or None),
        ]
        return table("ChatResponse", rows)

    def to_dict(self, *, raw: bool = False) -> dict[str, Any]:
        """Return JSON-compatible data.

        Args:
            raw: Include the service's own data, which usually is far larger than the rest. Default: False.
        """
        data: dict[str, Any] = {
            "message": self.message.to_dict(),
            "stop_reason": self.stop_reason,
            "usage": self.usage.to_dict(),
            "model": self.model,
            "provider": self.provider,
            "request_id": self.request_id,
            "repairs": list(self.repairs),
            "response_id": self.response_id,
        }
        if self.grounding is not None:
            data["grounding"] = self.grounding.to_dict()
        for name, values in (("logprobs", self.logprobs), ("safety", self.safety)):
            if values:
                data[name] = [value.to_dict() for value in values]
        return {**data, "raw": self.raw} if raw else data

    def to_json(self, *, raw: bool = False) -> str:
        """Return the data of `to_dict` as JSON."""
        return json_text(self.to_dict(raw=raw))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ChatResponse:
        """Return the response from the data of `to_dict`."""
        read: dict[str, Any] = {
            "message": Message.from_dict(data["message"]),
            "usage": Usage.from_dict(data["usage"]),
            "repairs": tuple(data["repairs"]),
        }
        if data.get("grounding") is not None:
            read["grounding"] = Grounding.from_dict(data["grounding"])
        read["logprobs"] = tuple([TokenLogprob.from_dict(each) for each in data.get("logprobs", ())])
        read["safety"] = tuple([SafetyRating.from_dict(each) for each in data.get("safety", ())])
        return cls(**{**data, **read})
