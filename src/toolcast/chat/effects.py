"""The work that the chat machine orders, done on the core: load a model, find tools, ask and listen, call tools.

Each is one function of a `StageTask`, written once in async syntax: it reads the context as it was when the work was
ordered, and tells events. Others may take their place, one by one, which is how a test goes through a chat step by
step. Work that is cancelled tells nothing any more, and its connection is closed at once.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import takewhile
from threading import get_ident
from typing import Any, Final, TypeAlias, cast

from ..agents.engine.config import EngineConfig
from ..agents.engine.conversation import Conversation
from ..agents.engine.history import estimated_tokens, unanswered
from ..agents.engine.limits import TurnLimits
from ..agents.engine.model_request import ModelRequest
from ..agents.engine.tool_phase import ToolPhase, jobs_of, kept, requests_for
from ..agents.permissions.rules import Rule
from ..agents.tool_search.search import Asking, ToolSearch
from ..async_support.background_jobs import BackgroundJob
from ..async_support.interruptible import Interrupted, Interruptible
from ..cancellation import Cancellation
from ..errors import ContextTooLong, FailTurn, ToolcastError, ToolTimeout, TryAgain
from ..events import AgentEvent, Event, ToolProgress
from ..llms.base import FunctionCallingLLM
from ..messages import Message, ToolCallPart, ToolResultPart
from ..tools.execution import ToolJob
from ..transport.network import IOBackend
from ..usage import BudgetTracker
from .actions import Order
from .context import ChatContext
from .events import (
    Failure,
    GenerationFailure,
    GenerationSuccess,
    ModelLoadFailure,
    ModelLoadProgress,
    ModelLoadSuccess,
    StreamChunk,
    StreamComplete,
    ToolCallFailure,
    ToolCallProgress,
    ToolCallSuccess,
    ToolSearchFailure,
    ToolSearchSuccess,
    WorkEvent,
)

FAILURES: Final[Mapping[Order, type[Failure]]] = {
    "load_model": ModelLoadFailure,
    "search_tools": ToolSearchFailure,
    "generate": GenerationFailure,
    "call_tools": ToolCallFailure,
}
"""What it is called when work fails."""


class StageTask:
    """Work that goes on: its number, the context it was ordered in, and `tell`, which says what came of it."""

    def __init__(
        self, run: int, context: ChatContext, hear: Callable[[StageTask, WorkEvent], object], *, concurrent: bool
    ) -> None:
        self.run: int = run
        self.context: ChatContext = context
        self.concurrent: bool = concurrent
        self.job: BackgroundJob | None = None  # once it has begun
        self.cancellation: Cancellation = Cancellation()
        self._interruptible = Interruptible()
        self._hear = hear
        self._home: tuple[Any, int] | None = None  # the event loop that the work goes on in, and its thread
        self.cancellation.then(self._interruptible.interrupt)

    def tell(self, event: WorkEvent) -> None:
        """Have the chat know. From any thread; what is told after the work was cancelled is not heard."""
        if self.cancellation.cancelled:
            return
        event = event if event.run == self.run else replace(event, run=self.run)
        if self._home is None or self._home[1] == get_ident():
            self._hear(self, event)
            return
        loop, _ = self._home
        with suppress(RuntimeError):  # it is closed
            (getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon)(self._hear, self, event)

    async def do(self, perform: Perform) -> None:
        """Do the work; raises `Interrupted` where it is cancelled."""
        if self.concurrent:
            from ..async_support.shielding import current_loop

            self._home = current_loop(), get_ident()
        await self._interruptible.run(partial(perform, self))

    def backend(self, llm: FunctionCallingLLM) -> IOBackend:
        """The way to the model, from where the work goes on."""
        return llm.async_backend() if self.concurrent else llm.sync_backend()


Perform: TypeAlias = Callable[[StageTask], Awaitable[None]]
"""Does work, and tells what came of it. What it raises is told as the failure of its stage."""


def is_loop_ending(error: BaseException) -> bool:
    """Whether the event loop that work goes on in ends it: nobody else cancels its task, unless a tool says so."""
    trio, asyncio = sys.modules.get("trio"), sys.modules.get("asyncio")
    if trio is not None and isinstance(error, trio.Cancelled):
        return True
    return asyncio is not None and isinstance(error, asyncio.CancelledError) and asyncio.current_task().cancelling() > 0


class EngineStages:
    """The work as it is done on the core: with the tools, permissions and limits of `setup`."""

    def __init__(
        self,
        setup: EngineConfig,
        spending: BudgetTracker,
        search: ToolSearch,
        llms: Callable[[str], FunctionCallingLLM],
    ) -> None:
        self._setup = setup
        self._spending = spending
        self._search = search
        self._llms = llms
        self._made: dict[str, FunctionCallingLLM] = {}
        self._shortened: tuple[Sequence[Message], Sequence[Message]] = ((), ())  # what was too long, and what is sent
        self.performs: Mapping[Order, Perform] = {
            "load_model": self.load_model,
            "search_tools": partial(self._timed, self.search_tools),
            "generate": partial(self._timed, self.generate),
            "call_tools": partial(self._timed, self.call_tools),
        }

    async def _timed(self, perform: Perform, work: StageTask) -> None:
        """Do work, whose seconds are counted."""
        now = work.backend(self._setup.llm).now
        self._spending.begin(now())
        try:
            await perform(work)
        finally:
            self._spending.end(now())

    async def load_model(self, work: StageTask) -> None:
        """Fetch and start the model, where it runs here."""
        llm, loading = self._llm(work.context), _Loading(work)
        if work.concurrent:
            from anyio import to_thread

            await to_thread.run_sync(llm.load, loading.told, abandon_on_cancel=True)
        else:
            llm.load(loading.told)
        work.tell(ModelLoadSuccess())

    async def search_tools(self, work: StageTask) -> None:
        """Find the tools that fit what was said."""
        llm = self._llm(work.context)
        asking = Asking(llm, work.concurrent, work.cancellation, self._spending.add)
        found = await self._search(work.context.messages, self._setup.tools, asking)
        names = [tool.name for tool in found]
        if unknown := [name for name in names if name not in self._setup.by_name]:
            raise ValueError(
                f"the search found {', '.join(unknown)}, which the chat was not given; add it to its tools"
            )
        work.tell(ToolSearchSuccess(tuple(names)))

    async def generate(self, work: StageTask) -> None:
        """Ask the model, and tell its answer as it comes. What is too long for it is sent shortened from then on."""
        setup, transcript = self._setup_for(work.context), self._transcript(work.context)
        limit = None if setup.compaction is None else setup.compaction.at
        transcript.rewrite(self._sent(transcript.history))
        if limit is not None and estimated_tokens(transcript.history) > limit:
            await self._shorten(work, transcript)
        try:
            await self._listen(work, setup, transcript)
        except ContextTooLong:
            if not await self._shorten(work, transcript):
                raise
            await self._listen(work, setup, transcript)

    def _sent(self, history: Sequence[Message]) -> Sequence[Message]:
        """`history`, the part of it shortened that was once."""
        long, short = self._shortened
        begins = len(long) > 0 and list(history[: len(long)]) == long
        return [*short, *history[len(long) :]] if begins else history

    async def _shorten(self, work: StageTask, transcript: Conversation) -> bool:
        """Whether the history is shorter now."""
        compaction, history = self._setup.compaction, self._transcript(work.context).history
        if compaction is None or not await transcript.compact(compaction, work.concurrent, self._spending.add):
            return False
        self._shortened = history, tuple(transcript.history)
        return True

    async def _listen(self, work: StageTask, setup: EngineConfig, transcript: Conversation) -> None:
        backend = work.backend(setup.llm)
        TurnLimits(setup, self._spending).ask(backend.now())
        there = {call.id for message in transcript.history for call in message.tool_calls}
        for call in [call for message in work.context.messages for call in message.tool_calls]:
            if call.id not in there:
                transcript.ids.of(call.id)  # what is left out of a shortened history keeps its id
        answer = ModelRequest(setup, transcript, None, backend)
        if not work.concurrent:
            work.cancellation.then(answer.break_off)
        begun = False
        try:
            while heard := await answer.next_events():
                if not begun:
                    work.tell(GenerationSuccess())
                    begun = True
                for event in cast("list[Event]", heard):  # without a typed result, a round has no others
                    work.tell(StreamChunk(event, run=work.run))
        finally:
            self._spending.add(answer.cost)
            await answer.close()
        work.tell(self._complete(transcript, answer))

    def _complete(self, transcript: Conversation, answer: ModelRequest) -> StreamComplete:
        """The answer as the history keeps it, and which of its calls somebody must be asked about."""
        response = answer.response
        calls = response.message.tool_calls
        message = kept(response.message, jobs_of(calls, self._setup.by_name))
        uses = response.stop_reason == "tool_use"
        pending = requests_for(self._setup, transcript, message.tool_calls) if uses else ()
        return StreamComplete(message, pending, response.stop_reason, answer.cost)

    async def call_tools(self, work: StageTask) -> None:
        """Run the calls that may run, and tell their results as they come. What a tool raises is a failure."""
        context = work.context
        setup, transcript = self._setup, self._transcript(context)
        calls = [call for call in unanswered(context.messages) if call.id in context.running]
        self._limit(work, calls)
        jobs = jobs_of(calls, setup.by_name)
        phase = ToolPhase(setup, transcript, jobs, work.cancellation, self._spending, concurrent=work.concurrent)
        answers = {answer.call_id: answer for answer in context.answers}
        while (request := phase.next_request(answers)) is not None:
            phase.take(request, request.deny("nobody was asked about it"))
        allowed = self._allowed_by_now(transcript, context)
        results = _Results(work, transcript, jobs, allowed)
        try:
            while not work.cancellation.cancelled and phase.failure is None and phase.start_group() is not None:
                while phase.running:
                    results.hear(await phase.more())
        finally:
            if phase.running:
                await phase.stop()
        results.end()

    def _limit(self, work: StageTask, calls: Sequence[ToolCallPart]) -> None:
        """Raise where these calls are too many, or the same over and over in this turn."""
        turn = list(takewhile(lambda message: message.role != "user", reversed(work.context.messages)))
        waiting = {call.id for call in unanswered(work.context.messages)}
        made = [call for message in reversed(turn) for call in message.tool_calls if call.id not in waiting]
        now = work.backend(self._setup.llm).now()
        limits = TurnLimits(self._setup, BudgetTracker())
        limits.call(made, now)
        limits.spending = self._spending
        limits.call(calls, now)

    def _allowed_by_now(self, transcript: Conversation, context: ChatContext) -> dict[str, Any]:
        """The rules that hold for the session, and who is still to be asked then, if that has changed."""
        rules = tuple([rule.to_dict() for rule in transcript.remembered])
        if len(rules) == len(context.remembered):
            return {}
        asked = {request.call_id for request in context.pending}
        waiting = [call for call in unanswered(context.messages) if call.id in asked]
        return {"remembered": rules, "pending": requests_for(self._setup, transcript, waiting)}

    def _llm(self, context: ChatContext) -> FunctionCallingLLM:
        """The model that was loaded last; before that, and without a name, the chat's own."""
        name = context.model
        if name is None:
            return self._setup.llm
        if name not in self._made:
            self._made[name] = self._llms(name)
        return self._made[name]

    def _setup_for(self, context: ChatContext) -> EngineConfig:
        """The setup with the model and the tools of this moment."""
        tools = [self._setup.by_name[name] for name in context.tools if name in self._setup.by_name]
        return replace(self._setup, llm=self._llm(context), tools=tuple(tools))

    def _transcript(self, context: ChatContext) -> Conversation:
        transcript = Conversation(context.messages)
        transcript.remembered = [Rule.from_dict(rule) for rule in context.remembered]
        return transcript


class _Results:
    """What tools that run say, told to the chat. What one of them raised is told in the end, as a failure."""

    def __init__(
        self, work: StageTask, transcript: Conversation, jobs: Sequence[ToolJob], allowed: Mapping[str, Any]
    ) -> None:
        self._work = work
        self._added = iter(transcript.added)  # one message for each result, in the order in which they are told
        self._jobs = {job.call.id: job for job in jobs}
        self._allowed = allowed
        self._failed: list[str] = []

    def hear(self, events: Sequence[AgentEvent]) -> None:
        """Tell progress and results."""
        for event in events:
            if isinstance(event, ToolProgress):
                self._work.tell(ToolCallProgress(event.call_id, event.data))
            else:  # a `ToolResult`
                self._take(cast("ToolResultPart", next(self._added).parts[0]))

    def end(self) -> None:
        """Tell what failed."""
        if self._failed:
            self._work.tell(ToolCallFailure("; ".join(self._failed)))

    def _take(self, result: ToolResultPart) -> None:
        error = self._jobs[result.call_id].error
        if error is None or (isinstance(error, _FOR_THE_MODEL) and not isinstance(error, ToolTimeout)):
            self._work.tell(ToolCallSuccess(result, **self._allowed))
        else:
            why = str(error) if isinstance(error, FailTurn) and str(error) else f"{type(error).__name__}: {error}"
            self._failed.append(f"{result.name}: {why}")


class _Loading:
    """Tells how much of a model is there, once for each percent; ends the loading of one that nobody wants any more."""

    def __init__(self, work: StageTask) -> None:
        self._work = work
        self._percent = -1

    def told(self, done: int, total: int) -> None:
        """Note that so many bytes of all are there."""
        if self._work.cancellation.cancelled:
            raise Interrupted("nobody waits for the model any more")
        percent = 100 * done // max(total, 1)
        if percent > self._percent:
            self._percent = percent
            self._work.tell(ModelLoadProgress(float(percent)))


_FOR_THE_MODEL: Final = (ToolcastError, TryAgain)
"""What is said to the model, which can do better: a wrong call, one that was not allowed, what a tool says."""
