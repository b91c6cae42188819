"""One structured call, from messages to validated objects, asked again where that was allowed.

`Recipe` is what an orchestrator fixes once; `whole` makes a call of it and waits for the end; `ObjectFlow` is the
same call as a stream. Both read the answer with the same `Reader`, so both end alike.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from .answers import REASKABLE, ReadCall, Reader, reask
from .asking import Ask
from .errors import (
    Attempt,
    CallError,
    MalformedEvent,
    StreamClosed,
    TryAgain,
    ValidationError,
)
from .events import Accumulator, ChatResponse, Event, RawEvent, Restarted, ToolCallDone
from .exchange import Call, Source, start_call
from .flows import Collect, Path
from .llms import FunctionCallingLLM
from .messages import ToolCallPart
from .objects import StreamingObjectProcessor
from .parsing.partials import MISSING, Growing
from .parsing.records import FieldState, steps_of
from .runtime.network import Outside
from .states import Trace
from .usage import Usage
from .views import numbered, value_at, view_of

logger = logging.getLogger("toolcast")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """What a call gave and how: `attempts` has one entry per request, `usage` is the sum over them."""

    output: T
    response: ChatResponse
    usage: Usage
    attempts: tuple[Attempt, ...]
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """One call, ready to be made."""

    llm: FunctionCallingLLM
    ask: Ask
    reader: Reader
    max_attempts: int = 1
    fail_fast: bool = True

    def again(self, response: ChatResponse, error: CallError | TryAgain) -> Recipe:
        """The same call, asking again with what was wrong."""
        messages = tuple(reask(self.ask.messages, response, error))
        return replace(self, ask=replace(self.ask, messages=messages), max_attempts=self.max_attempts - 1)

    def output(self, values: Sequence[Any]) -> Any:
        """What the caller gets for these values: all, or the one."""
        return list(values) if self.ask.parallel else values[0]


async def whole(recipe: Recipe, outside: Outside, trace: Trace) -> Result[Any]:
    """The result of one call, asked again while its attempts last."""
    call = start_call(recipe.ask.settings, outside)
    try:
        while True:
            response = await recipe.llm.answer(recipe.ask, outside, call)
            trace.step("answered")
            try:
                return await _conclude(recipe, response, outside, call, trace)
            except (*REASKABLE, TryAgain) as error:
                recipe = _next(recipe, response, error, call)
                trace.step("asked_again")
    except BaseException as error:
        trace.step("failed" if isinstance(error, Exception) else "closed")
        raise


async def _conclude(recipe: Recipe, response: ChatResponse, outside: Outside, call: Call, trace: Trace) -> Result[Any]:
    reads = recipe.reader.read(response)
    trace.step("calls_parsed")
    values = await run_reads(reads, outside)
    trace.step("tools_executed", "response_created", "returned")
    return _result(recipe, response, reads, values, call)


async def run_reads(reads: Sequence[ReadCall], outside: Outside) -> list[Any]:
    """The values of valid calls: of a model the instance, of a function what it returned, run once."""
    return [await (read.tool.arun(read.value) if outside.concurrent else _at_once(read)) for read in reads]


async def _at_once(read: ReadCall) -> Any:
    return read.tool.run(read.value)


def _result(
    recipe: Recipe, response: ChatResponse, reads: Sequence[ReadCall], values: Sequence[Any], call: Call
) -> Result[Any]:
    repairs = tuple(repair for read in reads for repair in read.repairs)
    response = replace(response, repairs=response.repairs + repairs)
    return Result(recipe.output(values), response, call.usage, tuple(call.attempts), repairs)


def _next(recipe: Recipe, response: ChatResponse, error: CallError | TryAgain, call: Call) -> Recipe:
    """The recipe that asks again; raises `error` where no attempt is left."""
    call.blame(error)
    if recipe.max_attempts > 1:
        return recipe.again(response, error)
    final = _final(error, response)
    raise call.sign(final) from final.__cause__


def _final(error: CallError | TryAgain, response: ChatResponse) -> CallError:
    if isinstance(error, CallError):
        return error
    made = ValidationError(
        f"the answer was not accepted: {error}. max_attempts=2 asks again with these words.",
        provider=response.provider,
        model=response.model,
        request_id=response.request_id,
        response=response,
    )
    made.__cause__ = error
    return made


class ObjectFlow:
    """One streamed call. `advance` works through what is here, `fill` waits for more; nothing is read ahead."""

    def __init__(self, recipe: Recipe, outside: Outside, trace: Trace) -> None:
        self.trace = trace
        self.ended = False
        self.event: Event | None = None
        self.fed: Growing | None = None
        self.shown = False
        self.parallel = recipe.ask.parallel
        self._recipe = recipe
        self._outside = outside
        self._call: Call | None = None
        self._source: Source | None = None
        self._queue: list[Event] = []
        self._position = 0
        self._folded = Accumulator()
        self._failure: CallError | None = None
        self._result: Result[Any] | None = None
        self._error: BaseException | None = None
        self._damage: str | None = None
        self.processor = StreamingObjectProcessor.for_tools(
            recipe.reader.tools.values(),
            parallel=recipe.ask.parallel,
            fail_fast=recipe.fail_fast,
            context=recipe.reader.context,
        )

    def advance(self) -> bool:
        """Whether there is a new item: a snapshot that changed, or at the end the result."""
        if self.trace.state == "yielding_partial":
            self._move_on()
        queue = self._queue
        while self._position < len(queue) and self._failure is None:
            event = queue[self._position]
            self._position += 1
            if self._take(event):
                return True
        return self._arrive()

    def step(self) -> bool:
        """Whether there was one more event, now `event`."""
        if self.trace.state == "yielding_partial":
            self._move_on()
        if self._position >= len(self._queue) or self._failure is not None:
            self._arrive()
            return False
        self.event = self._queue[self._position]
        self._position += 1
        feeds = self.processor.feeds
        self.shown = self._take(self.event)
        self.fed = self.processor.growing if self.processor.feeds != feeds else None
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
        return self._folded.response(request_id=request_id, **self._recipe.llm.known)

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
        growing = self.processor.growing
        paths = () if growing is None or self.ended else growing.changed
        return tuple(numbered(self.call_index, path) for path in paths) if self.parallel else paths

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

    def view(self, kind: str, path: Path | None = None) -> Collect:
        """A way to look at this call."""
        return view_of(self, kind, path)

    def read_done(self, event: ToolCallDone) -> Any:
        """The validated object of a complete call; None if it is not valid, which the end will say."""
        call = ToolCallPart(event.id, event.name, event.arguments, event.truncated)
        return self._recipe.reader.value_of(call)

    async def fill(self) -> None:
        """Wait for more events; at the end of an answer read it, and ask again where that is due."""
        try:
            if self._failure is not None:
                await self._ask_again(self._failure)
                return
            if self._source is None:
                self._begin()
            assert self._source is not None
            self._queue, self._position = await self._source.pull(), 0
            if not self._queue:
                await self._conclude()
        except BaseException as error:
            await self._fail(error)
            raise

    async def wait(self) -> bool:
        """Wait until there is a new item, where `advance` found none; False at the end."""
        while not self.ended:
            await self.fill()
            if self.advance():
                return True
        return False

    async def close(self) -> None:
        """Stop, and give the connection back."""
        if not self.ended:
            self.ended = True
            self._position = len(self._queue)
            if self.trace.state not in ("ready", "error"):
                self.trace.step("closed")
        await self._stop()

    def _begin(self) -> None:
        recipe = self._recipe
        if self._call is None:
            self._call = start_call(recipe.ask.settings, self._outside)
        self._source = recipe.llm.source(recipe.ask, self._outside, self._call)
        self.trace.step("opened")

    def _take(self, event: Event) -> bool:
        """Whether `event` changed something that shows."""
        self._folded.apply(event)
        if type(event) is RawEvent and event.damaged:
            self._skip(event)
            return False
        try:
            changed = self.processor.take(event)
        except ValidationError as error:
            self._failure = error
            return False
        if self.trace.observed:
            self.trace.step("received", "readable", "parsed", "changed" if changed else "unchanged")
            if not changed:
                self.trace.step("more")
        elif changed:
            self.trace.state = "yielding_partial"
        return changed

    def _skip(self, event: RawEvent) -> None:
        logger.warning("Failed to parse streaming response: skipped %.120r", event.data)
        self._damage = self._damage or repr(event.data)[:200]
        self.trace.step("received", "unreadable", "skipped", "more")

    def _move_on(self) -> None:
        if self.trace.observed:
            self.trace.step("yielded", "more")
        else:
            self.trace.state = "receiving_chunk"

    def _arrive(self) -> bool:
        """At the end, give the result as the last item, once."""
        if self.ended or self._result is None:
            return False
        self.ended = True
        return True

    async def _conclude(self) -> None:
        response = self.response
        self._refuse_damage(response)
        assert self._call is not None
        try:
            reads = self._recipe.reader.read(response)
            values = await run_reads(reads, self._outside)
        except (*REASKABLE, TryAgain) as error:
            await self._restart(response, error)
            return
        await self._stop()
        self.trace.step("exhausted")
        self._result = _result(self._recipe, response, reads, values, self._call)

    def _refuse_damage(self, response: ChatResponse) -> None:
        if self._damage is not None and not response.message.tool_calls and self.processor.reading_text:
            raise MalformedEvent(
                f"an event inside the answer was damaged and lost, so the object cannot be trusted: {self._damage}. "
                "Ask again.",
                provider=response.provider,
                model=response.model,
                request_id=response.request_id,
                response=response,
            )

    async def _ask_again(self, error: CallError) -> None:
        response = self.response
        for name in ("provider", "model", "request_id"):
            setattr(error, name, getattr(error, name) or getattr(response, name))
        error.response = response
        await self._restart(response, error)

    async def _restart(self, response: ChatResponse, error: CallError | TryAgain) -> None:
        await self._stop()
        assert self._call is not None
        self._recipe = _next(self._recipe, response, error, self._call)
        self._source, self._failure, self._damage = None, None, None
        restarted: list[Event] = [Restarted(len(self._call.attempts) + 1, str(error))]
        self._queue, self._position = restarted, 0
        if self.trace.state == "receiving_chunk":
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
        self._queue, self._position = [], 0
        if self.trace.state not in ("ready", "error", "closed"):
            self.trace.step("failed" if isinstance(error, Exception) else "closed")
        await self._stop()
