"""`CachedLLM`: answers from a cache, and one request for all callers that need the same answer.

A caller that finds no answer begins a *flight* for its key, or waits for the flight of another caller, once. A flight
ends when its answer is accepted (and then stored), rejected, or given up. So an answer that is not accepted costs the
callers that have waited for it one request each, at the same time, and not one after the other.

No caller waits for itself. A thread or task that leads a flight, of any key, does not wait for another one, because the
two could wait for each other; it sends its own request. Nor do the tasks and worker threads that it starts meanwhile,
for which it may be waiting: they inherit its context. Neither does a sync call in the thread of an event loop whose
task leads a flight, which would stop that loop.

The keys and the values of a cache: a hash of the request, and the events of its answer as JSON.

An answer is stored as the content of its events, so that it can be replayed as a stream: without token counts, notices
of the transport, and the service's raw data. Only an answer that is complete is stored (`storable`). A value is read
with suspicion (`decode`): the file may be damaged, or come from another version.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field, fields, replace
from threading import get_ident
from typing import Any, ClassVar, Final, cast

from ...async_support.waiters import Waiters
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
    UsageReport,
)
from ...lazy.lazy_dataclasses import dataclass
from ...messages import AudioPart, ImagePart, Message, Part
from ...text.json_text import checksum
from ...values.accumulator import Accumulator
from ...values.answer_details import SafetyRating, TokenLogprob
from ...values.citations import Citation, Grounding
from ...values.hooks import Hooks
from ...values.option_types import require_flag, require_number, require_text
from ...values.prices import ZERO
from ...values.usage import NO_USAGE
from ..client import LLMClient, client_of
from ..function_calling_llm import FunctionCallingLLM
from ..request import ChatRequest
from .answer_caches import Cache, MemoryCache
from .wrapper_llm import Next, UnchangedClient, WrapperLLM

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
    for key, value in dict(values).items():
        expected = _OF_SERVER_TOOLS.get(key) if make is ServerToolUse else None
        if not isinstance(value, expected or _type_of(key)):
            raise TypeError(f"{name}.{key} is of the type {type(value).__name__}")
    return make(**values)


def _checked(citation: Citation) -> Citation:
    """Return a citation. Raise `TypeError` if its place, which is computed with, is no number."""
    for name in ("start", "end", "document"):
        if not isinstance(value := getattr(citation, name), (int, type(None))):
            raise TypeError(f"Citation.{name} is of the type {type(value).__name__}")
    return citation


def _type_of(key: str) -> type:
    if key in _STRINGS or key in _OPTIONAL:
        return str
    return bool if key == "truncated" else dict


logger: Final = logging.getLogger("toolcast")

_HIT: Final = UsageReport(NO_USAGE.with_cost(ZERO))

# By process, cache and key. Those of the parent are here after a fork too, but not the threads that lead them. There is
# one for all `CachedLLM`s: a thread that leads a flight of one must not wait for that of another.
_flights: Final[dict[tuple[int, int, str], _Flight]] = {}

# Those that this thread or task leads, or one that started it. Some may have ended.
_led: Final[ContextVar[tuple[_Flight, ...]]] = ContextVar("toolcast_led_flights", default=())


class CachedLLM(WrapperLLM):
    """An LLM whose answers are stored, and given again for the same request.

    The key is a hash of the provider, the base URL, the model, the messages, the tools, the settings and the
    namespace. It contains no credentials: users who must not read each other's answers need a `namespace` each.

    An answer is stored when it is complete and accepted: by the structured call that has validated it, by the engine
    that runs its tools, or at the end of a chat. Refusals, filtered and cut answers are never stored. An answer from
    the cache has no tokens and costs 0 (`usage.cost`), and its `Attempt` is `cached`. Callers that need the same answer
    at the same time share one request.

    Args:
        llm: The LLM whose answers are stored, or its name.
        cache: The cache; the default is a `MemoryCache` of its own.
        ttl: The seconds for which an answer is used; None is no limit.
        namespace: A part of the key, which separates tenants, or versions of an application.
        refresh: Read nothing from the cache, and replace what is stored.
        hooks: Hooks of its calls.
        max_concurrency: The number of responses at once, from the cache too; None is no limit.
    """

    __toolcast_client__: ClassVar[type[LLMClient[Any]]] = UnchangedClient

    def __init__(
        self,
        llm: FunctionCallingLLM | str,
        cache: Cache | None = None,
        ttl: float | None = None,
        namespace: str = "",
        *,
        refresh: bool = False,
        hooks: Sequence[Hooks] | Hooks | None = None,
        max_concurrency: int | None = None,
    ) -> None:
        super().__init__(llm, hooks=hooks, max_concurrency=max_concurrency)
        require_number("ttl", ttl)
        require_text("namespace", namespace)
        require_flag("refresh", refresh)
        if ttl is not None and not ttl > 0:
            raise ValueError(f"ttl={ttl}: expected seconds above 0, or None for no limit")
        self.cache: Cache = MemoryCache() if cache is None else cache
        self.ttl: float | None = ttl
        self.namespace: str = namespace
        self.refresh: bool = refresh

    async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
        """Yield the events of the stored answer, or those of the wrapped LLM."""
        key = cache_key(self.namespace, client_of(self.llm).cache_data(request))
        if key is None:
            async for event in call_next(request):
                yield event
            return
        answer = _Answer(self, key, call_next)
        try:
            stored = None if self.refresh else await self._find(answer)
            if stored is not None:
                call_next.cached = True
                yield _HIT  # first, so that it counts for a stream that is closed early as well
                for event in stored:
                    yield event
                return
            async for event in call_next(request):
                answer.events.append(event)
                yield event
            answer.complete = True
            call_next.call.undecided += (answer,)
        finally:
            if not answer.complete:
                answer.reject()

    async def _find(self, answer: _Answer) -> list[Event] | None:
        """Return the stored events. Without any, begin a flight, or wait for that of another caller."""
        stored = await self._read(answer)
        if stored is None and await answer.begin_flight():
            # The answer may have been stored since it was looked up: before this flight, or by the one waited for.
            stored = await self._read(answer)
        return stored

    async def _read(self, answer: _Answer) -> list[Event] | None:
        """Return the stored events, if there are any that can be used."""
        try:
            value = await answer.with_cache(lambda: self.cache.get(answer.key))
            if value is None:
                return None
            events, created = decode(value, answer.key)
        except Exception as error:  # the user's cache may raise anything, and the answer can be requested
            logger.warning("the cached answer %s cannot be used (%s); it is requested again", answer.key, error)
            return None
        expired = self.ttl is not None and answer.call_next.backend.time() - created > self.ttl
        return None if expired else events


@dataclass(eq=False, slots=True)
class _Flight:
    """A request whose answer other callers wait for, and the process and thread that make it."""

    place: tuple[int, int, str]
    thread: int = field(default_factory=get_ident)
    waiters: Waiters = field(default_factory=Waiters)
    ended: bool = False


class _Answer:
    """The answer to one request on its way into the cache: an `Acceptance`, and perhaps the leader of a flight."""

    def __init__(self, owner: CachedLLM, key: str, call_next: Next) -> None:
        self.key: str = key
        self.call_next: Next = call_next
        self.events: list[Event] = []
        self.complete: bool = False
        self._owner = owner
        self._flight: _Flight | None = None

    async def begin_flight(self) -> bool:
        """Lead a flight, or wait for that of another caller. Return False if neither is possible."""
        mine = _Flight((os.getpid(), id(self._owner.cache), self.key))
        flight = _flights.setdefault(mine.place, mine)
        led = tuple([other for other in _led.get() if not other.ended])
        if flight is mine:
            self._flight = mine
            _led.set((*led, mine))
            return True
        if led or (not self.call_next.backend.concurrent and _stops_a_leader(mine)):
            return False
        await self.call_next.wait(flight.waiters, lambda: flight.ended)
        return True

    async def accept(self) -> None:
        """Store the answer, if it may be stored."""
        try:
            if (events := storable(self.events)) is not None:
                value = encode(events, self.call_next.backend.time(), self.key)
                await self.with_cache(lambda: self._owner.cache.set(self.key, value))
        except Exception as error:  # the user's cache may raise anything, and the call has its answer
            logger.warning("the answer %s cannot be stored: %s", self.key, error)
        finally:
            self.reject()

    def reject(self) -> None:
        """End the flight. Idempotent."""
        flight, self._flight = self._flight, None
        if flight is not None:
            del _flights[flight.place]
            flight.ended = True
            flight.waiters.wake()

    async def with_cache(self, function: Any) -> Any:
        """Return the result of a function that uses the cache, in a worker thread if it may block an event loop."""
        return function() if isinstance(self._owner.cache, MemoryCache) else await self.call_next.run_sync(function)

    def __del__(self) -> None:
        self.reject()  # the caller has neither accepted nor rejected the answer


def _stops_a_leader(mine: _Flight) -> bool:
    """Return True if a task of this thread's event loop leads a flight, which cannot go on while the thread waits."""
    here = (mine.place[0], mine.thread)
    return any((flight.place[0], flight.thread) == here for flight in _flights.copy().values())
