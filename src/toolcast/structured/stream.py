"""One structured call as a stream: events in, partial objects out, the validated result at the end.

`advance` and `step` process the events that have arrived, one by one; `wait` and `fill` wait for more, and validate the
response at its end. Everything that waits is a coroutine, so one class serves the sync and the async stream.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, Final

import pydantic

from ..errors import CallError, LLMError, MalformedEvent, StreamClosed, TryAgain, ValidationError
from ..events import LIBRARY_EVENTS, ChatResponse, Event, RawEvent, Restarted, ToolCallDelta, ToolCallDone
from ..llms.call_state import CallState, DirectReads, ResponseEvents
from ..messages import ToolCallPart
from ..parsing.missing import MISSING
from ..parsing.partial_value import PartialValue
from ..parsing.path_changes import FieldState, Path, Record, changed, steps_of
from ..transport.network import IOBackend
from ..values.accumulator import Accumulator
from ..values.server_tools import CodeExecution
from ..values.states import Trace
from ..values.usage import Usage
from .call import (
    PreparedCall,
    Result,
    build_result,
    notify_retry,
    retry_call,
    run_parsed_calls,
    validate_response,
    validating,
)
from .object_streams import ViewReducer
from .partial_objects import DeltaFastPath, StreamingObjectProcessor
from .response_validation import RETRYABLE, damaged_text
from .stream_views import value_at_steps, view_of, with_call_index

logger: Final = logging.getLogger("toolcast")

BUFFERED_WITHIN: Final = 0.001
"""Seconds. An event that takes longer to read was not buffered yet."""


class StructuredStream:
    """One streamed call. `advance` processes arrived events, `fill` waits for more; nothing is read ahead."""

    def __init__(self, prepared: PreparedCall, backend: IOBackend, call: CallState) -> None:
        self.trace: Trace = call.trace
        self.ended: bool = False
        self.closing: bool = False  # set by any thread; the one that reads then ends the call
        self.event: Event | None = None
        self.fed: PartialValue | None = None
        self.shown: bool = False
        self.parallel: bool = prepared.request.parallel
        self._prepared = prepared
        self._backend = backend
        self._call = call
        self._source: ResponseEvents | None = None
        self._events: Iterator[Event] = iter(())  # arrived, not processed yet
        self._fast_path: DeltaFastPath | None = None
        self._on_fast_path = False  # the last event used it, and no other event is left
        self._reads: DirectReads | None = None  # set while further chunks may continue the call of the last event
        self._returned_at: float | None = None  # when `newest` returned its last item
        self._skipped_changes: list[
            tuple[int, list[Record]]
        ] = []  # index of the call and records of each item skipped since the last one
        self._accumulator = Accumulator()
        self._failure: CallError | None = None
        self._result: Result[Any] | None = None
        self._error: BaseException | None = None
        self._damage: str | None = None
        self.processor: StreamingObjectProcessor = StreamingObjectProcessor.for_tools(
            prepared.validator.tools,
            parallel=prepared.request.parallel,
            fail_fast=prepared.fail_fast and not _is_read_to_the_end(prepared),
            context=prepared.validator.context,
        )

    def advance(self) -> bool:
        """Process arrived events up to the next item; return whether there is one.

        An item is a snapshot that changed, or at the end the result.
        """
        # An unobserved trace skips the two steps between items, which only an observer could see.
        if self.trace.observed:
            self._leave_yielding()
        if self._failure is None:
            for event in self._events:
                fast_path = self._fast_path
                if fast_path is not None and type(event) is ToolCallDelta and event.id == fast_path.id:
                    visible = self._feed_fast_path(fast_path, event.arguments)
                else:
                    visible = self._apply(event)
                if visible:
                    return True
                if self._failure is not None:
                    break
        arrives = self._result is not None and not self.ended  # the result is the last item
        self.ended |= arrives
        return arrives

    def step(self) -> bool:
        """Process one arrived event, then in `event`; return False if there is none."""
        if self.trace.observed:
            self._leave_yielding()
        event = next(self._events, None) if self._failure is None else None
        if event is None:
            self.ended |= self._result is not None
            return False
        self.event = event
        self.shown = self._apply(event)
        return True

    @property
    def started(self) -> bool:
        """True if the request has been sent, or never will be."""
        return self._source is not None or self.ended

    @property
    def state(self) -> str:
        """The state of the call."""
        return self.trace.state

    @property
    def now(self) -> Callable[[], float]:
        """The clock of the call."""
        return self._backend.now

    @property
    def item(self) -> Any:
        """The latest snapshot, or the result once the call has ended."""
        if self._result is not None:
            return self._result.output
        if self._fast_path is None or self.parallel:
            return self.processor.item
        value = self._fast_path.growing.value  # most items: as `processor.item`, without its frame
        return None if value is MISSING else value

    @property
    def usage(self) -> Usage:
        """The tokens used so far."""
        return self._accumulator.usage

    @property
    def response(self) -> ChatResponse:
        """The response as far as it has arrived."""
        if self._result is not None:
            return self._result.response
        request_id = self._source.request_id if self._source is not None else None
        return self._accumulator.response(request_id=request_id, **self._prepared.client.origin)

    def result(self) -> Any:
        """Return the validated output; raise the error that ended the call otherwise."""
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise StreamClosed("the stream was closed before its end, so there is no final object")
        return self._result.output

    @property
    def output(self) -> Any:
        """The validated output, or None before the end."""
        return None if self._result is None else self._result.output

    @property
    def call_index(self) -> int:
        """The index of the tool call that grew last."""
        return self.processor.index

    @property
    def changed(self) -> tuple[Path, ...]:
        """The paths that the last item changed."""
        if self.ended:
            return ()
        seen = self._skipped_changes or [(self.processor.index, self._records)]
        return tuple(dict.fromkeys(path for index, records in seen for path in self._paths(index, records)))

    @property
    def _records(self) -> list[Record]:
        """The records of the last visible change."""
        growing = self.processor.growing
        return [] if growing is None else growing.shown

    def _paths(self, index: int, records: list[Record]) -> tuple[Path, ...]:
        paths = changed(records)
        return tuple(with_call_index(index, path) for path in paths) if self.parallel else paths

    def field_state(self, path: Path) -> FieldState:
        """Return `pending`, `growing` or `done` for the field at `path`."""
        steps = steps_of(path)
        if self._result is not None:
            return "pending" if value_at_steps(self._result.output, steps) is MISSING else "done"
        calls = self.processor.calls
        index = steps[0] if self.parallel and steps else "0"
        if not index.isdecimal() or int(index) >= len(calls):
            return "pending"
        return calls[int(index)].field_state(steps[1:] if self.parallel else steps)

    def view(self, kind: str, path: Path | None = None) -> ViewReducer:
        """Return the view of this call of the given kind."""
        return view_of(self, kind, path)

    def read_done(self, event: ToolCallDone) -> Any:
        """Return the validated object of a complete call; None if it is invalid, which is raised at the end."""
        call = ToolCallPart(event.id, event.name, event.arguments, event.truncated)
        return self._prepared.validator.build_value(call)

    async def fill(self) -> None:
        """Wait for more events; at the end of a response validate it, and retry if necessary."""
        try:
            await self._receive()
        except BaseException as error:  # raised again, unless it only reports that the stream was closed
            if not await self._fail(error):
                raise

    def pump(self) -> bool:
        """Read on in a sync call while each chunk continues the last event's tool call; return True at a new item.

        False means that `wait` has to go on: with a chunk that does anything else, with an error, or from the start.
        This is the loop of nearly every chunk: bytes, their text, the partial value. It makes no coroutine and no
        event. After an exception of it `fail` must run.
        """
        reads, fast_path = self._reads, self._fast_path
        # Local variables: each attribute costs as much as a comparison, and there are a dozen in this loop.
        if reads is None or fast_path is None:
            return self.advance()  # several events arrived in one chunk
        while True:
            try:
                data = reads.read(reads.time_left())
            except (LLMError, TimeoutError) as error:
                # `next_events` describes, retries or raises it, as it does for its own reads.
                reads.put_back(error)
                break
            text = reads.accept(data)
            if text is None:
                break
            try:
                if fast_path.feed(text):
                    self.trace.state = "yielding_partial"
                    return True
            except pydantic.ValidationError as error:
                self._stop_at(fast_path, error)
                return False
        # The chunk was no mere continuation: `wait` gets it as events.
        self._reads = None
        return False

    async def next_item(self) -> Any:
        """Return the next item; raise `StopAsyncIteration` at the end.

        Under an event loop it contains the loop of `pump`, awaited, as one more coroutine for it would take a tenth of
        the time of a chunk.
        """
        try:
            # Without an event loop `pump` can block; with one it may only process what has arrived.
            found = self._reads is None or not self._backend.concurrent
            found = found and self.pump()
            fast_path = self._fast_path
            while not found and fast_path is not None and (reads := self._reads) is not None:
                try:
                    data = await reads.read(reads.time_left())
                except (LLMError, TimeoutError) as error:
                    reads.put_back(error)
                    self._reads = None
                    break
                text = reads.accept(data)
                if text is None:
                    # The chunk was no mere continuation: `wait` gets it as events.
                    self._reads = None
                    break
                try:
                    if found := fast_path.feed(text):
                        self.trace.state = "yielding_partial"
                except pydantic.ValidationError as error:
                    self._stop_at(fast_path, error)
        except BaseException as error:  # raised again, unless it only reports that the stream was closed
            if not await self._fail(error):
                raise
            found = False
        if not found and not await self.wait():
            raise StopAsyncIteration
        return self.item

    async def fail(self, error: BaseException) -> bool:
        """End the call with an exception of `pump`, and raise it unless the stream was closed; return False."""
        if not await self._fail(error):
            raise error
        return False

    async def wait(self) -> bool:
        """Wait until there is a new item; return False at the end.

        `advance` and `fill` in turn would do the same, but every chunk passes through this loop. Nearly every chunk is
        one delta of the tool call that the previous delta belonged to. It is fed directly to that call's partial value,
        without any other processing.
        """
        try:
            while True:
                source = self._source
                if source is None or not self._on_fast_path:
                    if self.advance():
                        return True
                    if self.ended:
                        return False
                    if source is None or self._failure is not None:
                        await self._receive()
                        continue
                try:
                    events = await source.next_events()
                except MalformedEvent as error:
                    await self._retry_damaged(error)
                    continue
                fast_path = self._fast_path
                # More than one event at once, or one of another call: the general path keeps their order.
                single = events[0] if len(events) == 1 else None
                if fast_path is None or type(single) is not ToolCallDelta or single.id != fast_path.id:
                    self._queue_events(events)
                    if not events:
                        await self._validate_response()
                    continue
                # Asked for after each event of the general path, so that a stream returns to direct reads by itself.
                self._on_fast_path = True
                self._reads = source.direct_reads(single.id)
                if self._feed_fast_path(fast_path, single.arguments):
                    return True
        except BaseException as error:  # raised again, unless it only reports that the stream was closed
            if not await self._fail(error):
                raise
            return False

    async def newest(self) -> bool:
        """Wait for a new item, skipping to the latest one that has arrived; return False at the end.

        A connection reports no amount of buffered data, but a read shows how long it takes. After a pause longer than
        `BUFFERED_WITHIN`, the caller gets the last of all items that can be read without waiting.
        """
        now = self._backend.now
        asked_at = now()
        away = 0.0 if self._returned_at is None else asked_at - self._returned_at
        behind = away >= BUFFERED_WITHIN
        self._skipped_changes.clear()
        found = await self.wait()
        while found and not self.ended:
            self._skipped_changes.append((self.processor.index, self._records))
            if self.advance():
                continue
            # A reader that catches up must not wait longer than it was away, else a fast model would keep it here.
            if not behind or now() - asked_at > away:
                if self.processor.cur_objects:
                    break
                found = await self.wait()  # retrying: the partial objects so far are void
                continue
            # A read that returns quickly returned buffered data: the stream is still behind.
            before = now()
            await self.fill()
            behind = now() - before < BUFFERED_WITHIN
        self._returned_at = now()
        return found

    async def finish(self) -> Any:
        """Read the rest and return the validated output; raise the error that ended the call."""
        while await self.more():
            pass
        return self.result()

    async def more(self) -> bool:
        """Wait for the next item; return False at the end."""
        try:
            await self.next_item()
        except StopAsyncIteration:
            return False
        return True

    async def _receive(self) -> None:
        if self._failure is not None:
            await self._retry_invalid(self._failure)
            return
        if self._source is None and not self.closing:
            prepared = self._prepared
            if not self._call.begun:
                prepared.begin(self._call, self._backend)
            self.trace.step("opened")
            self._source = prepared.client.source(prepared.request, self._backend, self._call)
        # Again after the assignment: `break_off` in another thread either finds the source, or is seen here.
        if self.closing or self._source is None:
            raise StreamClosed("the stream was closed while another thread read it")
        try:
            events = await self._source.next_events()
        except MalformedEvent as error:
            await self._retry_damaged(error)
            return
        self._queue_events(events)
        if not events:
            await self._validate_response()

    async def close(self) -> None:
        """End the call and return the connection."""
        if not self.ended:
            self.ended = True
            self._queue_events([])
            if self._result is None:
                self.trace.step("closed")
        await self._stop()
        self._end_account()

    def break_off(self) -> None:
        """Abort the read of another thread, which then ends the call, as `closing` is True."""
        source = self._source
        if source is not None:
            source.break_off()

    def abandon(self) -> None:
        """End the account of a call without awaiting: the source closes its connection in its event loop."""
        self._end_account()

    def _apply(self, event: Event) -> bool:
        """Process one event; return whether it changed anything visible."""
        self._accumulator.apply(event)
        self._fast_path = self.fed = None
        if type(event) is RawEvent and event.damaged:
            self._skip_damaged(event)
            return False
        feeds = self.processor.feeds
        try:
            visible = self.processor.apply(event)
        except ValidationError as error:
            self._failure = error
            return False
        if self.processor.feeds != feeds and (growing := self.processor.growing) is not None:
            self.fed = growing
            # An observed trace needs a step for every event, which the fast path does not take.
            if type(event) is ToolCallDelta and not self.trace.observed:
                self._fast_path = DeltaFastPath(event.id, growing)
                # The response shares the text of the partial value, so that a delta is stored once.
                self._accumulator.share(event.id, growing.buffer)
        if self.trace.observed and type(event) not in LIBRARY_EVENTS:
            self.trace.step("received", "readable", "parsed", "changed" if visible else "unchanged")
            if not visible:
                self.trace.step("more")
        elif visible:
            self.trace.state = "yielding_partial"
        return visible

    def _feed_fast_path(self, fast_path: DeltaFastPath, text: str) -> bool:
        """Feed more arguments of the current call; return whether that changed anything visible."""
        try:
            visible = fast_path.feed(text)
        except pydantic.ValidationError as error:
            self._stop_at(fast_path, error)
            return False
        if visible:
            self.trace.state = "yielding_partial"
        return visible

    def _stop_at(self, fast_path: DeltaFastPath, error: pydantic.ValidationError) -> None:
        """Stop reading: the arguments so far cannot become valid."""
        self._failure = self.processor.invalid_arguments(fast_path.id, fast_path.growing, error)
        self._on_fast_path = False
        self._reads = None

    def _queue_events(self, events: list[Event]) -> None:
        """Set the events that are processed next."""
        self._events = iter(events)
        self._on_fast_path = False
        self._reads = None

    def _skip_damaged(self, event: RawEvent) -> None:
        self._leave_yielding()
        shown = "(hidden)" if self._prepared.validator.hides_input else repr(event.data)
        logger.warning("Failed to parse streaming response: skipped %.120s", shown)
        if not (event.repeated or self._prepared.request.accept_damaged or self.processor.text_is_complete):
            self._damage = self._damage or shown[:200]
        self.trace.step("received", "unreadable", "skipped", "more")

    def _leave_yielding(self) -> None:
        """Leave the state `yielding_partial`, in which an unobserved trace stays between two items."""
        if self.trace.state == "yielding_partial":
            self.trace.step("yielded", "more")

    async def _validate_response(self) -> None:
        self._leave_yielding()
        response = self.response
        if self._damage is not None and self.processor.reading_text and not response.message.tool_calls:
            damaged = damaged_text(response, self._damage)
            self._call.mark_failed(damaged)
            await self._retry_damaged(damaged)
            return
        try:
            observed = self.trace.observed
            with validating(self.trace, response, parallel=self.parallel) if observed else nullcontext(()) as forks:
                calls = await validate_response(self._prepared, response, self._call, self.processor.take_complete)
        except (*RETRYABLE, TryAgain) as error:
            await self._retry_response(response, error)
            return
        try:
            values = await run_parsed_calls(calls, self._backend, forks, self._call)
        except TryAgain as error:
            await self._retry_response(response, error)
            return
        await self._stop()
        await self._call.accept()
        self.trace.step("exhausted")
        self._result = build_result(self._prepared, response, calls, values, self._call)
        self._call.end(output=self._result.output)

    async def _retry_invalid(self, error: CallError) -> None:
        self._leave_yielding()
        response = self.response
        for name in ("provider", "model", "request_id"):
            setattr(error, name, getattr(error, name) or getattr(response, name))
        error.response = response
        self._call.stopped_early = True
        try:
            await self._stop()
        finally:
            self._call.stopped_early = False
        await self._retry_response(response, error)

    async def _retry_response(self, response: ChatResponse, error: CallError | TryAgain) -> None:
        await self._stop()
        self._begin_attempt(retry_call(self._prepared, response, error, self._call), error)

    async def _retry_damaged(self, error: MalformedEvent) -> None:
        """Repeat the request after a damaged response; raise `error` if no attempt is left."""
        self._leave_yielding()
        if self._prepared.max_attempts < 2:
            raise error
        notify_retry(self._call, error)
        await self._stop()
        self._begin_attempt(self._prepared.with_one_attempt_less(), error)

    def _begin_attempt(self, prepared: PreparedCall, error: CallError | TryAgain) -> None:
        self._prepared = prepared
        self._source, self._failure, self._damage = None, None, None
        self._skipped_changes.clear()
        self._queue_events([Restarted(len(self._call.attempts) + 1, str(error))])
        self.trace.step("asked_again")

    async def _stop(self) -> None:
        if self._source is not None:
            await self._source.close()

    async def _fail(self, error: BaseException) -> bool:
        """End the call with `error`: return the connection and attach the partial object.

        Return True if the stream was closed, which `error` only reports.
        """
        if self.closing and isinstance(error, (LLMError, StreamClosed)):
            await self.close()
            return True
        if isinstance(error, CallError):
            error.partial = self._partial() if error.partial is None else error.partial
        self._error = error if isinstance(error, Exception) else None
        self.ended = True
        self._queue_events([])
        if self.trace.state not in ("ready", "error", "closed"):
            self.trace.step("failed" if isinstance(error, Exception) else "closed")
        await self._stop()
        self._end_account(error)
        return False

    def _partial(self) -> Any:
        if not self._prepared.validator.parallel:
            return self.processor.item
        return self._prepared.validator.valid_values(self.response.message.tool_calls)

    def _end_account(self, error: BaseException | None = None) -> None:
        if self._call.begun:
            self._call.reject()
            self._call.end(error)


def _is_read_to_the_end(prepared: PreparedCall) -> bool:
    """Return whether a response is read on after its output became invalid.

    In a text all that was read may turn out to be a thought, when it ends. Anthropic names the container in which code
    ran at the end alone, and the next attempt needs its files.
    """
    runs_code = any(isinstance(tool, CodeExecution) for tool in prepared.request.server_tools)
    return runs_code or prepared.client.mode(prepared.request) == "prompted"
