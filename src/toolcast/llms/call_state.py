"""`CallState`, the one object that a call updates, and `ResponseEvents`, the source of the events of one response.

The events of an LLM behind HTTP come from an `HTTPExchange` (http_exchange.py), those of a custom one from its
iterator.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import field, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..async_support.exception_groups import collapse_groups
from ..errors import Attempt, CallError, LLMError, StreamTruncated
from ..events import ChatResponse, Event, Finish, ToolCallDelta, ToolCallDone, ToolCallReset, ToolCallStart, UsageReport
from ..lazy.lazy_dataclasses import dataclass
from ..messages import Message
from ..providers.content_parts import CallIds
from ..transport.network import IOBackend
from ..values.accumulator import Accumulator
from ..values.hooks import CallHooks, Hooks
from ..values.http_request import HTTPRequest
from ..values.secret_patterns import mask_secrets
from ..values.settings import Settings
from ..values.states import Trace
from ..values.usage import NO_USAGE, Usage
from .call_report import NO_OUTPUT, Account, shown_messages
from .request import StoredResponse
from .request_gate import GateRequest, Passage, RequestGate, current_gate, use_gate

if TYPE_CHECKING:
    from ..async_support.shielding import Loop

logger: Final = logging.getLogger("toolcast")

_UNTRACED: Final = Trace({"": {}}, call_id="")  # of a call without states


class DirectReads(Protocol):
    """The reads of a response in which each event continues one tool call, without coroutines and without events.

    For each chunk: `read` with the limit of `time_left`, then `accept`. The first chunk that does anything else ends
    the direct reads: `next_events` returns its events. It also raises the error of a read after `put_back`.
    """

    def read(self, limit: float | None, /) -> Any:
        """Return the next chunk, as the response's own method does; under an event loop an awaitable of it."""
        ...

    def time_left(self) -> float | None:
        """Return the time limit of the next read in seconds. Raise `Timeout`, or `StreamInterrupted` if cancelled."""
        ...

    def accept(self, data: bytes) -> str | None:
        """Return the text that `data` adds to the call; None for any other data, which is kept for `next_events`."""
        ...

    def put_back(self, error: LLMError | TimeoutError) -> None:
        """Keep the error of `time_left` or `read` for `next_events`."""
        ...


class ResponseEvents(Protocol):
    """The source of the events of one response."""

    @property
    def request_id(self) -> str | None:
        """The service's id of the request."""
        ...

    async def next_events(self) -> list[Event]:
        """Return the next events, or an empty list at the end."""
        ...

    def direct_reads(self, id: str) -> DirectReads | None:
        """Return the direct reads, if the last event continued the call `id` and the next may do only that."""
        ...

    async def close(self) -> None:
        """Stop and release the connection. Idempotent."""
        ...

    def break_off(self) -> None:
        """Abort the `next_events` of another thread, which raises an error soon. From any thread; idempotent.

        Under an event loop the waiting task is interrupted instead.
        """
        ...


class Acceptance(Protocol):
    """A party that waits for the decision on a complete response: the cache that would store it."""

    async def accept(self) -> None:
        """Use the response: the caller has accepted it."""
        ...

    def reject(self) -> None:
        """Drop the response: it was invalid, or the call ended without a decision."""
        ...


@dataclass(slots=True)
class CallState:
    """The state of one call, which its driver updates where things happen, and which all its requests share.

    `begin` starts its total time, and `end` reports its end, once.

    A complete response is accepted or rejected by the caller that reads it: a structured call that validates it, an
    engine that runs its tools, a chat at its end. `undecided` are the caches that wait for that.
    `stopped_early` is True while a response is closed that was found invalid before its end.
    `trace` is that of a structured call; `request` is the last HTTP request. `gate` admits requests,
    `passages` counts those that have not ended, `postponed` is by how many seconds waits in the gate have moved the
    deadline. `source` is set by a structured call, which `break_off` aborts then. `stored` is the last response, if the
    service stores it and requests may continue it.
    """

    hooks: CallHooks | None = None
    trace: Trace = _UNTRACED
    deadline: float | None = None
    retries_used: int = 0
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    usage: Usage = NO_USAGE
    undecided: tuple[Acceptance, ...] = ()
    stopped_early: bool = False
    broken: bool = False
    source: ResponseEvents | None = field(default=None, repr=False)
    request: HTTPRequest | None = field(default=None, repr=False)
    gate: RequestGate | None = None
    passages: int = 0
    postponed: float = 0.0
    stored: StoredResponse | None = None
    now: Callable[[], float] = monotonic
    began: float = 0.0
    ended: bool = False
    account: Callable[[], Account] | None = None
    verbose: bool = False
    added: dict[int, list[str]] = field(default_factory=dict[int, list[str]])

    def begin(
        self,
        settings: Settings,
        now: Callable[[], float],
        account: Callable[[], Account] | None = None,
        *,
        verbose: bool = False,
    ) -> CallState:
        """Begin the call, whose total time starts now, and return it.

        Args:
            settings: The settings of its requests, which limit the total time.
            now: Returns the time in seconds.
            account: Returns what the report of the call names.
            verbose: Write the report on stderr, too.
        """
        self.now, self.account, self.verbose = now, account, verbose
        self.began = now()
        total = settings.timeouts.total
        self.deadline = None if total is None else self.began + total
        self.gate = current_gate()
        return self

    def end(self, error: BaseException | None = None, output: Any = NO_OUTPUT, usage: Usage | None = None) -> None:
        """Report the end of the call, once: to the hooks, in the log, and with `verbose` on stderr.

        It ended with `output` or `error`, or was closed without either. `usage` is that of its requests by default.
        """
        if self.ended:
            return
        self.ended = True
        used, seconds = self.usage if usage is None else usage, self.now() - self.began
        if self.hooks is not None:
            hooks = self.hooks.for_last_request()
            if error is not None:
                hooks.emit("error", error)
            hooks.emit("end", used, seconds)
        if self.account is not None and (self.verbose or logger.isEnabledFor(logging.INFO)):
            result = output if error is None else error
            self.account().write(seconds, used, self.attempts, result, self.mask, self.added, verbose=self.verbose)

    def show_messages(self, messages: Sequence[Message]) -> None:
        """Show `messages`, which were added to the request after the last attempt, with `verbose`."""
        if self.verbose:
            self.added[len(self.attempts)] = shown_messages(messages, self.mask)

    @property
    def begun(self) -> bool:
        """True after `begin`."""
        return self.account is not None

    @property
    def last_hooks(self) -> CallHooks | None:
        """The hooks for the last request, and for the tools that its response calls."""
        return None if self.hooks is None else self.hooks.for_last_request()

    @property
    def id(self) -> str:
        """The id of a structured call, for its log lines; else empty."""
        return self.trace.call_id

    def open(self, source: ResponseEvents) -> ResponseEvents:
        """Set the source of the response that the call waits for, and return it."""
        self.source = source
        # After the assignment: `break_off` in another thread either finds the source, or is seen here.
        if self.broken:
            source.break_off()
        return source

    def break_off(self) -> None:
        """Abort the call of another thread, which raises an error soon; see `ResponseEvents.break_off`."""
        self.broken = True
        source = self.source
        if source is not None:
            source.break_off()

    def mask(self, text: str) -> str:
        """Return `text` without the credentials of the last HTTP request, and without what looks like one."""
        return mask_secrets(text) if self.request is None else self.request.mask(text)

    async def accept(self) -> None:
        """Accept the last response, which was complete and valid."""
        undecided, self.undecided = self.undecided, ()
        for each in undecided:
            await each.accept()

    def reject(self) -> None:
        """Reject the last response, if it was not accepted."""
        undecided, self.undecided = self.undecided, ()
        for each in undecided:
            each.reject()

    async def enter_gate(self, gate: RequestGate, request: GateRequest, backend: IOBackend) -> Passage:
        """Wait until `gate` admits `request`; the wait does not count towards the deadline. Return its passage."""
        request.nested = self.passages > 0
        began = backend.now()
        try:
            passage = await gate.enter(request, backend)
        except CallError as error:
            self.with_attempts(error)
            raise
        finally:
            self.postpone(backend.now() - began)
        self.passages += 1
        return passage

    def postpone(self, seconds: float) -> None:
        """Move the deadline by the `seconds` of a wait that was not the service's."""
        self.postponed += seconds
        if self.deadline is not None:
            self.deadline += seconds

    def leave_gate(self, passage: Passage, usage: Usage, error: BaseException | None) -> bool:
        """End `passage`. Return True if its request is to be sent again through the gate."""
        self.passages -= 1
        return passage.leave(usage, error)

    def begin_request(self, own: tuple[Hooks, ...], began: float, *, cached: bool = False) -> CallHooks:
        """Return the hooks for the request of an LLM with hooks of its `own` that was begun at the time `began`.

        Only for a call with hooks. `cached`: a cache answers it.
        """
        assert self.hooks is not None
        return self.hooks.with_hooks(own).begin_request(len(self.attempts) + 1, began, cached=cached)

    def record(
        self, error: Exception | None, usage: Usage, request_id: str | None, seconds: float, wait: float = 0.0
    ) -> None:
        """Record the end of one request, which took so many `seconds`, and the `wait` until the next."""
        self.attempts.append(Attempt(len(self.attempts) + 1, error, usage, request_id, seconds, wait))
        self.usage = usage if self.usage is NO_USAGE else self.usage + usage

    def mark_failed(self, error: Exception) -> None:
        """Record `error` for the last request, whose response was complete but invalid."""
        self.reject()
        self.attempts[-1] = replace(self.attempts[-1], error=error)
        if isinstance(error, CallError):
            self.with_attempts(error)

    def with_attempts(self, error: CallError) -> CallError:
        """Set the attempts of this call on `error`, and return it."""
        error.attempts = tuple(self.attempts)
        return error


async def iterate_events(source: ResponseEvents, call: CallState) -> AsyncIterator[Event]:
    """Yield the events of `source`, and close it at the end; a complete response is accepted."""
    try:
        while events := await source.next_events():
            for event in events:
                yield event
        await call.accept()
    finally:
        await source.close()


async def read_response(source: ResponseEvents, origin: Mapping[str, Any]) -> ChatResponse:
    """Return the complete response of `source`, and close it. `origin` is the provider and the model."""
    accumulator = Accumulator()
    try:
        while events := await source.next_events():
            accumulator.extend(events)
    finally:
        await source.close()
    return accumulator.response(request_id=source.request_id, **origin)


class IteratorEvents:
    """The events of a custom LLM, from its async iterator."""

    request_id: str | None = None

    def __init__(
        self,
        events: AsyncIterator[Event],
        backend: IOBackend,
        call: CallState,
        *,
        parallel: bool,
        begin: Callable[[float], object] | None = None,
        price: Callable[[Usage], Usage] = lambda usage: usage,
        method: str = "an LLM's _events",
        gated: tuple[RequestGate, GateRequest, Callable[[], AsyncIterator[Event]]] | None = None,
    ) -> None:
        """Read `events`. `method` is named in errors.

        `begin` is called with the time before the first event, `price` with each usage. `gated` is the gate that admits
        the request, the request, and a function that sends it again.
        """
        self._method = method
        self._begin = begin
        self._events = events
        self._price = price
        self._only = None if parallel else SingleCallFilter()
        self._ids = CallIds()
        self._unique: dict[str, str] = {}  # unique ids by those of the LLM, which may be equal or empty
        self._renames = False
        self._call_ends: dict[str, ToolCallDone | None] = {}  # the end of the last call with each id of the LLM
        self._backend = backend
        self._started = False
        self._began = 0.0
        self._loop: Loop | None = None
        self._call = call
        self._usage = Usage()
        self._finished = False
        self._recorded = False
        self._emitted = False
        self._gated = gated
        self._passage: Passage | None = None

    async def next_events(self) -> list[Event]:
        """Return a list of the next event, or an empty list at the end."""
        if not self._started:
            if self._gated is not None:
                try:
                    await self._enter(*self._gated)
                except BaseException:
                    self._recorded = True  # nothing was sent: `close` records no attempt
                    raise
            self._start()
        while True:
            try:
                event = await self._next_event()
            except StopAsyncIteration:
                return self._end()
            except CallError as error:
                if self._leave(error) and self._gated is not None and not self._emitted:
                    await self._send_again(error, *self._gated)
                    continue
                raise self._ended(error) from error.__cause__
            except BaseException as error:
                self._leave(error)
                raise
            self._emitted = True
            kind = type(event)
            if kind in _OF_A_CALL and (kind is not ToolCallDelta or self._renames):
                event = self._identified(event)
            if self._only is None or self._only.of([event]):
                return [event] if kind in _OF_A_CALL else self._noted(event)

    def _identified(self, event: Any) -> Event:
        """Return the event of a tool call with an id that no other call of the response has.

        An id is that of the call that began last with it. A call begins with its start, or with a `ToolCallDone` that
        repeats no other one.
        """
        given, ends = event.id, type(event) is ToolCallDone
        if type(event) is ToolCallStart or (ends and self._call_ends.get(given, event) not in (None, event)):
            self._unique[given] = self._ids.unique(given)
            self._call_ends[given] = None
        elif given not in self._unique:
            self._unique[given] = self._ids.unique(given)
        if type(event) is ToolCallDone:
            self._call_ends[given] = event
        id = self._unique[given]
        if id != given:
            self._renames, event = True, replace(event, id=id)
        named: Event = event
        return named

    async def _next_event(self) -> Event:
        if self._passage is None:
            return await collapse_groups(self._events.__anext__)
        # An LLM that calls another one: its requests have been admitted with its own.
        with use_gate(None):
            return await collapse_groups(self._events.__anext__)

    async def _enter(self, gate: RequestGate, request: GateRequest, _: object) -> None:
        self._passage = await self._call.enter_gate(gate, request, self._backend)

    def _leave(self, error: BaseException | None) -> bool:
        passage, self._passage = self._passage, None
        return passage is not None and self._call.leave_gate(passage, self._usage, error)

    async def _send_again(
        self, error: CallError, gate: RequestGate, request: GateRequest, send: Callable[[], AsyncIterator[Event]]
    ) -> None:
        self._record(error)
        self._events = send()
        await self._enter(gate, request, send)
        self._recorded = False
        self._start()

    def _start(self) -> None:
        self._started = True
        self._began = self._backend.now()
        if self._backend.concurrent:
            from ..async_support.shielding import current_loop  # imports asyncio, which a sync program does not need

            self._loop = current_loop()
        if self._begin is not None:
            self._begin(self._began)

    def _noted(self, event: Event) -> list[Event]:
        self._finished = self._finished or isinstance(event, Finish)
        if isinstance(event, UsageReport):
            self._usage = self._price(event.usage)
            return [UsageReport(self._usage)]
        return [event]

    def direct_reads(self, id: str) -> DirectReads | None:
        """Return None: there are events only."""
        return None

    async def close(self) -> None:
        """Close the iterator, if it has `aclose`."""
        self._leave(None)
        self._record(None)
        self._loop = None
        aclose = getattr(self._events, "aclose", None)
        if aclose is not None:
            await collapse_groups(aclose)

    def break_off(self) -> None:
        """Do nothing: a custom iterator cannot be aborted. It ends with its next event."""

    def __del__(self) -> None:
        # A generator must end in the event loop where it started.
        if self._loop is not None and not self._recorded:
            from ..async_support.shielding import schedule_in_loop

            schedule_in_loop(self._loop, self.close)

    def _end(self) -> list[Event]:
        if not self._finished:
            raise self._ended(
                StreamTruncated(f"the events ended without a Finish; {self._method} must yield one, last")
            )
        self._leave(None)
        self._record(None)
        return []

    def _ended(self, error: CallError) -> CallError:
        self._leave(error)
        self._record(error)
        return self._call.with_attempts(error)

    def _record(self, error: Exception | None) -> None:
        if not self._recorded:
            self._recorded = True
            seconds = self._backend.now() - self._began if self._started else 0.0
            self._call.record(error, self._usage, None, seconds)


_EVENTS_OF_A_CALL: Final = (ToolCallDelta, ToolCallStart, ToolCallDone, ToolCallReset)
_OF_A_CALL: Final = frozenset(_EVENTS_OF_A_CALL)


class SingleCallFilter:
    """A filter that removes the events of all tool calls after the first, and logs a warning."""

    def __init__(self) -> None:
        self._first: str | None = None
        self.dropping: bool = False

    def of(self, events: list[Event]) -> list[Event]:
        """Return `events` without those of later tool calls."""
        kept: list[Event] = []
        for event in events:
            if isinstance(event, _EVENTS_OF_A_CALL) and event.id != self._first:
                if self._first:
                    if not self.dropping:
                        logger.warning(
                            "the model made more than one tool call; the first is the result. "
                            "Pass allow_parallel_tool_calls=True for all of them."
                        )
                    self.dropping = True
                    continue
                self._first = event.id
            kept.append(event)
        return kept
