"""`CachedLLM`: answers from a cache, and one request for all callers that need the same answer.

A caller that finds no answer begins a *flight* for its key, or waits for the flight of another caller, once. A flight
ends when its answer is accepted (and then stored), rejected, or given up. So an answer that is not accepted costs the
callers that have waited for it one request each, at the same time, and not one after the other.

No caller waits for itself. A thread or task that leads a flight, of any key, does not wait for another one, because the
two could wait for each other; it sends its own request. Nor do the tasks and worker threads that it starts meanwhile,
for which it may be waiting: they inherit its context. Neither does a sync call in the thread of an event loop whose
task leads a flight, which would stop that loop.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextvars import ContextVar
from dataclasses import field
from threading import get_ident
from typing import Any, ClassVar, Final

from ...async_support.waiters import Waiters
from ...events import Event, UsageReport
from ...hook_protocol import Hooks
from ...lazy_dataclasses import dataclass
from ...option_types import require_flag, require_number, require_text
from ...prices import ZERO
from ...usage import NO_USAGE
from ..base import FunctionCallingLLM
from ..client import LLMClient, client_of
from ..request import ChatRequest
from .cached_answers import cache_key, decode, encode, storable
from .caches import Cache, MemoryCache
from .wrapper import Next, UnchangedClient, WrapperLLM

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
