"""The keys and the values of a cache: a hash of the request, and the events of its answer as JSON.

An answer is stored as the content of its events, so that it can be replayed as a stream: without token counts, notices
of the transport, and the service's raw data. Only an answer that is complete is stored (`storable`). A value is read
with suspicion (`decode`): the file may be damaged, or come from another version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, cast

from ...accumulator import Accumulator
from ...answer_details import SafetyRating, TokenLogprob
from ...citations import Citation, Grounding
from ...errors import MalformedEvent
from ...events import (
    AudioOutput,
    Event,
    Finish,
    GroundingReport,
    ImageOutput,
    LogprobsDelta,
    RawEvent,
    Restarted,
    Routing,
    SafetyReport,
    ServerToolUse,
    StopReason,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
)
from ...json_text import checksum
from ...messages import AudioPart, ImagePart, Message, Part

_MAPPING: Any = Mapping  # typed as Any, so that isinstance does not narrow Any to an unknown type
VERSION: Final = 1
"""The version of keys and values. Another one makes all stored values misses."""

_DIGITS: Final = 8

STORED_REASONS: Final[frozenset[StopReason]] = frozenset(("end_turn", "tool_use", "stop_sequence"))
"""The stop reasons of answers that are stored: not those of refusals, filtered and cut answers, and errors."""

_KINDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        TextDelta,
        ThinkingDelta,
        ToolCallStart,
        ToolCallDelta,
        ToolCallReset,
        ToolCallDone,
        ServerToolUse,
        TextCitation,
        GroundingReport,
        ImageOutput,
        AudioOutput,
        LogprobsDelta,
        SafetyReport,
        Routing,
        Finish,
    )
}
_STRINGS: Final = frozenset(("text", "id", "name", "arguments", "provider", "stop_reason", "call_id"))
_OPTIONAL: Final = frozenset(("signature", "redacted", "model", "raw", "response_id", "error"))
_OF_SERVER_TOOLS: Final[dict[str, type]] = {"input": object, "output": object, "raw": dict}


def cache_key(namespace: str, data: Sequence[Any]) -> str | None:
    """Return the key of a request; None if its settings contain a value that is not JSON.

    Args:
        namespace: The namespace of the cache.
        data: The `cache_data` of the request.
    """
    try:
        text = json.dumps([VERSION, namespace, data], separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return None
    return f"{VERSION}-{hashlib.sha256(text.encode()).hexdigest()}"


def storable(events: Sequence[Event]) -> list[Event] | None:
    """Return the events of a response that are stored; None if the response must not be stored.

    It must end with one of `STORED_REASONS` and have content, and nothing in it may be cut or damaged.
    """
    found: list[Event] = []
    routing: list[Event] = []
    for event in events:
        if isinstance(event, Restarted):  # what came before is void
            found, routing = [], []
        elif isinstance(event, Routing):
            routing = [event]
        elif _is_incomplete(event):
            return None
        elif type(event).__name__ in _KINDS:
            found.append(event)
    if len(found) < 2 or not isinstance(found[-1], Finish) or found[-1].stop_reason not in STORED_REASONS:
        return None
    found[-1] = replace(found[-1], body=None)
    return routing + found


def _is_incomplete(event: Event) -> bool:
    if isinstance(event, RawEvent):
        return event.damaged and not event.repeated
    return isinstance(event, ToolCallDone) and event.truncated


def encode(events: Sequence[Event], created: float, key: str = "") -> bytes:
    """Return the value that stores an answer under a key. `created` is in seconds since 1970.

    It begins with a checksum of the key and the answer, in 8 hexadecimal digits.

    Raises:
        TypeError: The service's own data in an event is not JSON.
    """
    rows = [[type(event).__name__, _values(event)] for event in events]
    stored = json.dumps({"version": VERSION, "created": created, "events": rows}, separators=(",", ":")).encode()
    return _checksum(key, stored) + stored


def decode(value: bytes, key: str = "") -> tuple[list[Event], float]:
    """Return the events of the answer that is stored under a key, and its age in seconds since 1970.

    Raises:
        ValueError: The value is damaged, of another key or of another version.
    """
    stored = value
    if not value.startswith(b"{"):  # else without a checksum, from before there was one
        stored = value[_DIGITS:]
        if value[:_DIGITS] != _checksum(key, stored):
            raise ValueError("its checksum is wrong")
    try:
        data: Any = json.loads(stored)
        created, rows = data["created"], data["events"]
        if data["version"] != VERSION or not isinstance(created, (int, float)):
            raise ValueError("of another version")
        events = [_event(name, values) for name, values in rows]
        folded = Accumulator()
        folded.extend(events)
    except (KeyError, TypeError, RecursionError, MalformedEvent) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if storable(events) != events:
        raise ValueError("the answer in it is not complete")
    return events, float(created)


def _checksum(key: str, stored: bytes) -> bytes:
    return checksum(key.encode("utf-8", "surrogatepass") + stored).encode()


def _values(event: Event) -> dict[str, Any]:
    """Return the fields of an event that are set. A `body` is never stored."""
    if isinstance(event, (TextCitation, GroundingReport)):
        return event.citation.to_dict() if isinstance(event, TextCitation) else event.grounding.to_dict()
    if isinstance(event, (ImageOutput, AudioOutput)):
        return _media_values(event)
    if isinstance(event, (LogprobsDelta, SafetyReport)):
        found = event.tokens if isinstance(event, LogprobsDelta) else event.ratings
        return {"values": [each.to_dict() for each in found]}
    values = ((field.name, getattr(event, field.name)) for field in fields(event) if field.name != "body")
    return {
        name: dict(value) if isinstance(value, _MAPPING) else value
        for name, value in values
        # 0 and False can be the result of a tool.
        if value is not None and (name, value) != ("truncated", False)
    }


def _media_values(event: ImageOutput | AudioOutput) -> dict[str, Any]:
    """Return the part of the message that an event has, with its bytes as base64 text."""
    if isinstance(event, ImageOutput):
        part: Part = event.image
    else:
        part = AudioPart(data=event.data, media_type=event.media_type, transcript=event.transcript, opaque=event.opaque)
    values: dict[str, Any] = Message("assistant", (part,)).to_dict()["parts"][0]
    return values


def _media_event(values: Any) -> Event:
    (part,) = Message.from_dict({"role": "assistant", "parts": [values]}).parts
    if isinstance(part, ImagePart):
        return ImageOutput(part)
    if not isinstance(part, AudioPart) or part.data is None or part.media_type is None:
        raise TypeError(f"expected an image or a recording, got {type(part).__name__}")
    return AudioOutput(part.data, part.media_type, part.transcript or "", part.opaque)


def _event(name: str, values: Any) -> Event:
    make = cast("Callable[..., Event]", _KINDS[name])
    if make is TextCitation:
        return TextCitation(_checked(Citation.from_dict(values)))
    if make in (ImageOutput, AudioOutput):
        return _media_event(values)
    if make is LogprobsDelta:
        return LogprobsDelta(tuple([TokenLogprob.from_dict(each) for each in values["values"]]))
    if make is SafetyReport:
        return SafetyReport(tuple([SafetyRating.from_dict(each) for each in values["values"]]))
    if make is GroundingReport:
        grounding = Grounding.from_dict(values)
        for source in grounding.sources:
            _checked(source)
        return GroundingReport(grounding)
    for field, value in dict(values).items():
        expected = _OF_SERVER_TOOLS.get(field) if make is ServerToolUse else None
        if not isinstance(value, expected or _type_of(field)):
            raise TypeError(f"{name}.{field} is of the type {type(value).__name__}")
    return make(**values)


def _checked(citation: Citation) -> Citation:
    """Return a citation. Raise `TypeError` if its place, which is computed with, is no number."""
    for name in ("start", "end", "document"):
        if not isinstance(value := getattr(citation, name), (int, type(None))):
            raise TypeError(f"Citation.{name} is of the type {type(value).__name__}")
    return citation


def _type_of(field: str) -> type:
    if field in _STRINGS or field in _OPTIONAL:
        return str
    return bool if field == "truncated" else dict
