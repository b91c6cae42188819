"""One structured call as a stream: events in, growing objects out, the validated result at the end.

`advance` and `step` work through the events that are here, one by one; `wait` and `fill` wait for more, and read the
whole answer once it has ended. Everything is awaited, so one flow serves the sync stream and the async one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

import pydantic

from ..accumulator import Accumulator
from ..errors import CallError, MalformedEvent, StreamClosed, TryAgain, ValidationError
from ..events import LIBRARY_EVENTS, ChatResponse, Event, RawEvent, Restarted, ToolCallDelta, ToolCallDone
from ..llms.request_state import RequestState, ResponseEvents, start_call
from ..messages import ToolCallPart
from ..parsing.partial_value import MISSING, PartialValue
from ..parsing.path_changes import FieldState, Path, Record, changed, steps_of
from ..states import Trace
from ..transport.network import IOBackend
from ..usage import Usage
from .call import PreparedCall, Result, build_result, read_answer, retry_call, run_parsed_calls
from .object_streams import ViewReducer
from .partial_objects import DeltaFastPath, StreamingObjectProcessor
from .response_validation import REASKABLE, damaged_text
from .stream_views import numbered, value_at, view_of

logger: Final = logging.getLogger("toolcast")

PATIENCE: Final = 0.001
"""Seconds: what takes longer to get had not arrived yet."""


class StructuredStream:
    """One streamed call. `advance` works through what is here, `fill` waits for more; nothing is read ahead."""

    def __init__(self, recipe: PreparedCall, backend: IOBackend, trace: Trace) -> None:
        self.trace = trace
        self.ended: bool = False
        self.event: Event | None = None
        self.fed: PartialValue | None = None
        self.shown: bool = False
        self.parallel: bool = recipe.ask.parallel
        self._recipe = recipe
        self._account = recipe.account(trace, backend)
        self._backend = backend
        self._call: RequestState | None = None
        self._source: ResponseEvents | None = None
        self._events: Iterator[Event] = iter(())  # what is here and not yet worked through
        self._lane: DeltaFastPath | None = None
        self._on_lane = False  # the last event took it, and none is left
        self._given: float | None = None  # when `newest` gave its last item
        self._passed: list[tuple[int, list[Record]]] = []  # of which call, and what changed, since the item before
        self._folded = Accumulator()
        self._failure: CallError | None = None
        self._result: Result[Any] | None = None
        self._error: BaseException | None = None
        self._damage: str | None = None
        self.processor: StreamingObjectProcessor = StreamingObjectProcessor.for_tools(
            recipe.reader.tools.values(),
            parallel=recipe.ask.parallel,
            fail_fast=recipe.fail_fast,
            context=recipe.reader.context,
        )

    def advance(self) -> bool:
        """Whether there is a new item: a snapshot that changed, or at the end the result."""
        if self.trace.observed:
            self._move_on()
        if self._failure is None:
            for event in self._events:
                lane = self._lane
                if lane is not None and type(event) is ToolCallDelta and event.id == lane.id:
                    shows = self._grow(lane, event)
                else:
                    shows = self._take(event)
                if shows:
                    return True
                if self._failure is not None:
                    break
        return self._arrive()

    def step(self) -> bool:
        """Whether there was one more event, now `event`."""
        if self.trace.observed:
            self._move_on()
        event = next(self._events, None) if self._failure is None else None
        if event is None:
            self._arrive()
            return False
        self.event = event
        self.shown = self._take(event)
        return True

    @property
    def started(self) -> bool:
        """Whether the request has gone out, or never will."""
        return self._source is not None or self.ended

    @property
    def state(self) -> str:
        """Where the call is."""
        return self.trace.state

    @property
    def item(self) -> Any:
        """The newest snapshot, or the result once the call has ended."""
        return self._result.output if self._result is not None else self.processor.item

    @property
    def usage(self) -> Usage:
        """Tokens used so far."""
        return self._folded.usage

    @property
    def response(self) -> ChatResponse:
        """What has arrived so far."""
        if self._result is not None:
            return self._result.response
        request_id = self._source.request_id if self._source is not None else None
        return self._folded.response(request_id=request_id, **self._recipe.llm.origin)

    def result(self) -> Any:
        """The validated output; raises what ended the call otherwise."""
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise StreamClosed("the stream was closed before its end, so there is no final object")
        return self._result.output

    @property
    def output(self) -> Any:
        """The validated output, or None where there is none."""
        return None if self._result is None else self._result.output

    @property
    def call_index(self) -> int:
        """The number of the call that grew last."""
        return self.processor.index

    @property
    def changed(self) -> tuple[Path, ...]:
        """The paths that the last item changed."""
        if self.ended:
            return ()
        seen = self._passed or [(self.processor.index, self._records)]
        return tuple(dict.fromkeys(path for index, records in seen for path in self._paths(index, records)))

    @property
    def _records(self) -> list[Record]:
        """What the last visible change was made of."""
        growing = self.processor.growing
        return [] if growing is None else growing.shown

    def _paths(self, index: int, records: list[Record]) -> tuple[Path, ...]:
        paths = changed(records)
        return tuple(numbered(index, path) for path in paths) if self.parallel else paths

    def field_state(self, path: Path) -> FieldState:
        """How much of the field at `path` has arrived."""
        steps = steps_of(path)
        if self._result is not None:
            return "pending" if value_at(self._result.output, steps) is MISSING else "done"
        calls = self.processor.calls
        index = steps[0] if self.parallel and steps else "0"
        if not index.isdecimal() or int(index) >= len(calls):
            return "pending"
        return calls[int(index)].field_state(steps[1:] if self.parallel else steps)

    def view(self, kind: str, path: Path | None = None) -> ViewReducer:
        """A way to look at this call."""
        return view_of(self, kind, path)

    def read_done(self, event: ToolCallDone) -> Any:
        """The validated object of a complete call; None if it is not valid, which the end will say."""
        call = ToolCallPart(event.id, event.name, event.arguments, event.truncated)
        return self._recipe.reader.value_of(call)

    async def fill(self) -> None:
        """Wait for more events; at the end of an answer read it, and ask again where that is due."""
        try:
            await self._fill()
        except BaseException as error:
            await self._fail(error)
            raise

    async def wait(self) -> bool:
        """Wait until there is a new item; False at the end.

        `advance` and `fill` in turn would do, but this is the loop that every chunk goes through. Nearly every chunk is
        one delta of the call that the delta before it belonged to. It is fed to what grows, its lane, and nobody else
        has to hear of it.
        """
        try:
            while True:
                source = self._source
                if source is None or not self._on_lane:
                    if self.advance():
                        return True
                    if self.ended:
                        return False
                    if source is None or self._failure is not None:
                        await self._fill()
                        continue
                try:
                    events = await source.next_events()
                except MalformedEvent as error:
                    await self._ask_once_more(error)
                    continue
                lane = self._lane
                single = events[0] if len(events) == 1 else None
                if lane is None or type(single) is not ToolCallDelta or single.id != lane.id:
                    self._hold(events)
                    if not events:
                        await self._conclude()
                    continue
                self._on_lane = True
                if self._grow(lane, single):
                    return True
        except BaseException as error:
            await self._fail(error)
            raise

    async def newest(self) -> bool:
        """Wait until there is a new item, and take in what has come while the caller was away; False at the end.

        Nobody knows what lies in the buffers of a connection, only how long it takes to get it. A caller who was away
        for longer than `PATIENCE` gets on with all that comes at once, up to the first that had to be waited for.
        """
        now = self._backend.now
        asked = now()
        away = 0.0 if self._given is None else asked - self._given
        behind = away >= PATIENCE
        self._passed.clear()
        found = await self.wait()
        while found and not self.ended:
            self._passed.append((self.processor.index, self._records))
            if self.advance():
                continue
            if not behind or now() - asked > away:
                if self.processor.cur_objects:
                    break
                found = await self.wait()  # the model was asked again, and what there was is void
                continue
            before = now()
            await self.fill()
            behind = now() - before < PATIENCE
        self._given = now()
        return found

    async def finish(self) -> Any:
        """The validated output, once the rest has been read; raises what ended the call."""
        while await self.wait():
            pass
        return self.result()

    async def _fill(self) -> None:
        if self._failure is not None:
            await self._ask_again(self._failure)
            return
        if self._source is None:
            self._source = self._begin()
        try:
            events = await self._source.next_events()
        except MalformedEvent as error:
            await self._ask_once_more(error)
            return
        self._hold(events)
        if not events:
            await self._conclude()

    async def close(self) -> None:
        """Stop, and give the connection back."""
        if not self.ended:
            self.ended = True
            self._hold([])
            if self._result is None:
                self.trace.step("closed")
        await self._stop()
        self._end_account()

    def _begin(self) -> ResponseEvents:
        recipe = self._recipe
        if self._call is None:
            self._call = start_call(recipe.ask.settings, self._backend)
        self.trace.step("opened")
        return recipe.llm.source(recipe.ask, self._backend, self._call)

    def _take(self, event: Event) -> bool:
        """Whether `event` changed something that shows."""
        self._folded.apply(event)
        self._lane = self.fed = None
        if type(event) is RawEvent and event.damaged:
            self._skip(event)
            return False
        feeds = self.processor.feeds
        try:
            shows = self.processor.take(event)
        except ValidationError as error:
            self._failure = error
            return False
        if self.processor.feeds != feeds and (growing := self.processor.growing) is not None:
            self.fed = growing
            if type(event) is ToolCallDelta and not self.trace.observed:
                self._lane = DeltaFastPath(event.id, growing)
                self._folded.share(event.id, growing.buffer)
        if self.trace.observed and type(event) not in LIBRARY_EVENTS:
            self.trace.step("received", "readable", "parsed", "changed" if shows else "unchanged")
            if not shows:
                self.trace.step("more")
        elif shows:
            self.trace.state = "yielding_partial"
        return shows

    def _grow(self, lane: DeltaFastPath, event: ToolCallDelta) -> bool:
        """Whether this delta, fed to its lane, changed something that shows."""
        try:
            shows = lane.feed(event.arguments)
        except pydantic.ValidationError as error:
            self._failure = self.processor.refusal(lane.id, lane.growing, error)
            self._on_lane = shows = False
        if shows:
            self.trace.state = "yielding_partial"
        return shows

    def _hold(self, events: list[Event]) -> None:
        """Have these events worked through next."""
        self._events = iter(events)
        self._on_lane = False

    def _skip(self, event: RawEvent) -> None:
        self._move_on()
        shown = "(hidden)" if self._recipe.reader.hides_input else repr(event.data)
        logger.warning("Failed to parse streaming response: skipped %.120s", shown)
        if not (event.repeated or self._recipe.ask.accept_damaged or self.processor.text_is_complete):
            self._damage = self._damage or shown[:200]
        self.trace.step("received", "unreadable", "skipped", "more")

    def _move_on(self) -> None:
        """Leave the state in which an item is looked at. Unobserved, a trace rests there between two items."""
        if self.trace.state == "yielding_partial":
            self.trace.step("yielded", "more")

    def _arrive(self) -> bool:
        """At the end, give the result as the last item, once."""
        arrives = self._result is not None and not self.ended
        self.ended |= arrives
        return arrives

    async def _conclude(self) -> None:
        self._move_on()
        response = self.response
        assert self._call is not None
        if self._damage is not None and self.processor.reading_text and not response.message.tool_calls:
            damaged = damaged_text(response, self._damage)
            self._call.mark_failed(damaged)
            await self._ask_once_more(damaged)
            return
        try:
            reads = read_answer(self._recipe, response, self._call)
        except (*REASKABLE, TryAgain) as error:
            await self._restart(response, error)
            return
        try:
            values = await run_parsed_calls(reads, self._backend, self.trace if self.parallel else None)
        except TryAgain as error:
            await self._restart(response, error)
            return
        await self._stop()
        self.trace.step("exhausted")
        self._result = build_result(self._recipe, response, reads, values, self._call)
        self._account.end(self._call.usage, self._call.attempts, output=self._result.output)

    async def _ask_again(self, error: CallError) -> None:
        self._move_on()
        response = self.response
        for name in ("provider", "model", "request_id"):
            setattr(error, name, getattr(error, name) or getattr(response, name))
        error.response = response
        await self._restart(response, error)

    async def _restart(self, response: ChatResponse, error: CallError | TryAgain) -> None:
        await self._stop()
        assert self._call is not None
        self._begin_again(retry_call(self._recipe, response, error, self._call), error)

    async def _ask_once_more(self, error: MalformedEvent) -> None:
        """Send the same request again, since the answer was damaged; raise `error` where no attempt is left."""
        self._move_on()
        if self._recipe.max_attempts < 2:
            raise error
        await self._stop()
        self._begin_again(self._recipe.once_more(), error)

    def _begin_again(self, recipe: PreparedCall, error: CallError | TryAgain) -> None:
        assert self._call is not None
        self._recipe = recipe
        self._source, self._failure, self._damage = None, None, None
        self._passed.clear()
        self._hold([Restarted(len(self._call.attempts) + 1, str(error))])
        self.trace.step("asked_again")

    async def _stop(self) -> None:
        if self._source is not None:
            await self._source.close()

    async def _fail(self, error: BaseException) -> None:
        """End the call with `error`, the connection given back and what had arrived put into it."""
        if isinstance(error, CallError):
            error.partial = self.processor.item if error.partial is None else error.partial
        self._error = error if isinstance(error, Exception) else None
        self.ended = True
        self._hold([])
        if self.trace.state not in ("ready", "error", "closed"):
            self.trace.step("failed" if isinstance(error, Exception) else "closed")
        await self._stop()
        self._end_account(error)

    def _end_account(self, error: BaseException | None = None) -> None:
        if self._call is not None:
            self._account.end(self._call.usage, self._call.attempts, error)
