"""The work that the chat machine starts, done by the engine's parts: load a model, search tools, generate, call tools.

Each stage is one function of a `StageTask`, written once in async syntax: it reads the context as it was when the work
was started, and emits events. Functions of the caller can replace each of them, and tests use that to step through a
chat. Work that is cancelled emits nothing more, and its connection is closed at once.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import takewhile
from threading import get_ident
from typing import Any, Final, TypeAlias, cast

from ..agents.agent import Agent
from ..agents.engine.conversation import Conversation
from ..agents.engine.engine import Engine
from ..agents.engine.engine_config import EngineConfig
from ..agents.engine.history import unanswered_calls
from ..agents.engine.model_phase import ModelPhase
from ..agents.engine.model_request import ModelRequest
from ..agents.engine.tool_phase import ToolPhase, approval_requests, make_jobs, stored_message
from ..agents.engine.turn_limits import TurnLimits
from ..agents.permissions.permissions import UNGUARDED, Permissions
from ..agents.permissions.rules import Rule
from ..agents.tool_search.tool_search import SearchContext, ToolSearch
from ..async_support.background_jobs import BackgroundJob
from ..async_support.cancellation import Cancellation
from ..async_support.interruptible import Interrupted, Interruptible
from ..errors import ContextTooLong, FailTurn, ToolcastError, ToolTimeout, TryAgain
from ..events import AgentEvent, Event, ToolProgress
from ..llms.client import client_of
from ..llms.function_calling_llm import FunctionCallingLLM
from ..messages import Message, ToolCallPart, ToolResultPart
from ..tools.execution import ToolJob
from ..tools.tool_context import ToolContext
from ..transport.network import IOBackend
from ..values.budgets import BudgetTracker
from ..values.hooks import CallHooks
from ..values.usage import Usage
from .actions import Order
from .chat_context import ChatContext
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
from .turn_hooks import ChatTurn

FAILURE_EVENTS: Final[Mapping[Order, type[Failure]]] = {
    "load_model": ModelLoadFailure,
    "search_tools": ToolSearchFailure,
    "generate": GenerationFailure,
    "call_tools": ToolCallFailure,
}
"""What it is called when work fails."""


class StageTask:
    """Work in progress: its number, the context at its start, and `emit` for its events."""

    def __init__(
        self,
        run: int,
        context: ChatContext,
        on_event: Callable[[StageTask, WorkEvent], object],
        *,
        concurrent: bool,
        turn: ChatTurn | None = None,
    ) -> None:
        self.run: int = run
        self.turn: ChatTurn | None = turn
        self.ended: bool = False
        self.context: ChatContext = context
        self.concurrent: bool = concurrent
        self.job: BackgroundJob | None = None  # once it has begun
        self.cancellation: Cancellation = Cancellation()
        self._interruptible = Interruptible()
        self._on_event = on_event
        self._event_loop: tuple[Any, int] | None = None  # the event loop that the work goes on in, and its thread
        self.cancellation.then(self._interruptible.interrupt)

    @property
    def is_stopping(self) -> bool:
        """True if it was cancelled and has not ended."""
        return self.cancellation.cancelled and not self.ended

    @property
    def hooks(self) -> CallHooks | None:
        """The hooks of the turn; None without hooks."""
        return None if self.turn is None else self.turn.hooks

    def emit(self, event: WorkEvent) -> None:
        """Send an event to the chat, from any thread; ignored once the work is cancelled."""
        if self.cancellation.cancelled:
            return
        event = event if event.run == self.run else replace(event, run=self.run)
        if self._event_loop is None or self._event_loop[1] == get_ident():
            self._on_event(self, event)
            return
        loop, _ = self._event_loop
        with suppress(RuntimeError):  # it is closed
            (getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon)(self._on_event, self, event)

    async def perform(self, work: Perform) -> None:
        """Do the work; raise `Interrupted` if it is cancelled."""
        if self.concurrent:
            from ..async_support.shielding import current_loop

            self._event_loop = current_loop(), get_ident()
        try:
            await self._interruptible.run(partial(work, self))
        finally:
            self.ended = True

    def backend(self, llm: FunctionCallingLLM) -> IOBackend:
        """Return the I/O backend for the place where the work runs."""
        return client_of(llm).backend(self.concurrent)


Perform: TypeAlias = Callable[[StageTask], Awaitable[None]]
"""A function that does the work of a stage and emits its events. An exception becomes the failure of the stage."""


def is_loop_ending(error: BaseException) -> bool:
    """Return True if `error` is the event loop cancelling the work as it ends.

    No other code cancels its task, unless a tool raises the error.
    """
    trio, asyncio = sys.modules.get("trio"), sys.modules.get("asyncio")
    if trio is not None and isinstance(error, trio.Cancelled):
        return True
    return asyncio is not None and isinstance(error, asyncio.CancelledError) and asyncio.current_task().cancelling() > 0


Configure: TypeAlias = Callable[[FunctionCallingLLM, str | None], Engine[Any, Any] | Agent[Any, Any]]
"""A function that returns the engine, or the agent, for an LLM in a mode."""


def chat_config(engine: Engine[Any, Any] | Agent[Any, Any]) -> EngineConfig:
    """Return the configuration of `engine` for a chat, in which calls wait for approval."""
    config = engine.config
    permissions = Permissions("auto") if config.permissions is UNGUARDED else config.permissions
    return replace(config, permissions=replace(permissions, approve="later", approve_all=None))


class EngineStages:
    """The stages of a chat with the engine's tools, permissions and limits."""

    def __init__(
        self,
        config: EngineConfig,
        spending: BudgetTracker,
        search: ToolSearch,
        llms: Callable[[str], FunctionCallingLLM],
        deps: Any = None,
        configure: Configure | None = None,
        check_model: Callable[[str], object] | None = None,
    ) -> None:
        self.deps: Any = deps
        self._check_model = check_model
        self._configure = configure
        self._configs: dict[tuple[FunctionCallingLLM, str | None], EngineConfig] = {}
        self._config = config
        self._spending = spending
        self._search = search
        self._llms = llms
        self._made: dict[str, FunctionCallingLLM] = {}
        self._compacted: tuple[Sequence[Message], Sequence[Message]] = (
            (),
            (),
        )  # the history that was too long, and its compacted form
        self.performs: Mapping[Order, Perform] = {
            "load_model": self.load_model,
            "search_tools": partial(self._timed, self.search_tools),
            "generate": partial(self._timed, self.generate),
            "call_tools": partial(self._timed, self.call_tools),
        }

    def begin_turn(self, context: ChatContext) -> CallHooks | None:
        """Return the hooks of a turn that begins now; None if there are none."""
        return self.current_config(context).begin_turn()

    def current_config(self, context: ChatContext) -> EngineConfig:
        """Return the configuration for the loaded model in the selected mode."""
        return self._mode_config(self.loaded_llm(context), context.mode)

    def loaded_llm(self, context: ChatContext) -> FunctionCallingLLM:
        """Return the model that was loaded last, or the chat's own. Makes none."""
        return self._made.get(context.model or "", self._config.llm)

    def check_mode(self, mode: str) -> None:
        """Raise `ValueError` if the chat has no such mode."""
        if self._configure is None:
            raise ValueError(f"the chat has no mode {mode!r:.60}: it has none, pass configure= to it")
        self._configure(self._config.llm, mode)

    def _mode_config(self, llm: FunctionCallingLLM, mode: str | None) -> EngineConfig:
        """Return the configuration for an LLM in a mode."""
        if self._configure is None:
            return replace(self._config, llm=llm)
        if (llm, mode) not in self._configs:
            self._configs[llm, mode] = replace(chat_config(self._configure(llm, mode)), llm=llm)
        return self._configs[llm, mode]

    async def _timed(self, perform: Perform, work: StageTask) -> None:
        """Do work, and count its seconds."""
        now = work.backend(self._config.llm).now
        self._spending.begin(now())
        try:
            await perform(work)
        finally:
            self._spending.end(now())

    async def load_model(self, work: StageTask) -> None:
        """Check that the model can be used; download and start it, if it is a local one."""
        load = partial(self._load_model, work)
        if work.concurrent:
            from anyio import to_thread

            await to_thread.run_sync(load, abandon_on_cancel=True)
        else:
            load()
        work.emit(ModelLoadSuccess())

    def _load_model(self, work: StageTask) -> None:
        if self._check_model is not None and work.context.model is not None:
            self._check_model(work.context.model)
        self._llm(work.context).load(_LoadProgress(work).report)

    async def search_tools(self, work: StageTask) -> None:
        """Find the tools for the conversation."""
        llm = self._llm(work.context)
        config = self._mode_config(llm, work.context.mode)
        context = SearchContext(
            llm, work.concurrent, work.cancellation, partial(self._add_usage, work), self._spending.needs_prices
        )
        with nullcontext() if work.hooks is None else work.hooks.around_calls():
            found = await self._search(work.context.messages, config.tools, context)
        names = [tool.name for tool in found]
        if unknown := [name for name in names if name not in config.by_name]:
            raise ValueError(
                f"the search found {', '.join(unknown)}, which the chat was not given; add it to its tools"
            )
        work.emit(ToolSearchSuccess(tuple(names)))

    async def generate(self, work: StageTask) -> None:
        """Request an answer and emit its chunks. A history that is too long is compacted from then on."""
        config, conversation = self._config_for(work.context), self._conversation(work.context)
        config.check_deps()
        whole = tuple(conversation.history)
        conversation.rewrite(self._with_compacted_start(whole))
        backend, limits = work.backend(config.llm), TurnLimits(config, self._spending)
        context = ToolContext[Any](deps=config.deps, cancellation=work.cancellation, spending=self._spending)
        phase = ModelPhase(config, conversation, limits, context, backend, work.hooks)
        if not work.concurrent:
            work.cancellation.then(phase.interrupt)
        try:
            await self._receive(work, phase)
        finally:
            await phase.close()
            if phase.shortened:
                self._compacted = whole, tuple(conversation.history)
            if work.turn is not None:
                work.turn.usage += phase.usage
                work.turn.rounds += limits.rounds
                work.turn.attempts += phase.attempts
                work.turn.origin = config.client.origin
        work.emit(self._complete(self._mode_config(config.llm, work.context.mode), conversation, phase.take()))

    async def _receive(self, work: StageTask, phase: ModelPhase) -> None:
        """Emit the chunks of the answer."""
        begun = False
        while True:
            try:
                await phase.begin()
                while events := await phase.next_events():
                    if not begun:
                        work.emit(GenerationSuccess())
                        begun = True
                    for event in cast("list[Event]", events):  # without a typed result, a round has no others
                        work.emit(StreamChunk(event, run=work.run))
                return
            except ContextTooLong as error:
                await phase.shorten(error)

    def _with_compacted_start(self, history: Sequence[Message]) -> Sequence[Message]:
        """Return `history` with its compacted start, if it was compacted before."""
        long, short = self._compacted
        begins = len(long) > 0 and tuple(history[: len(long)]) == long
        return [*short, *history[len(long) :]] if begins else history

    def _add_usage(self, work: StageTask, usage: Usage) -> None:
        """Count the usage of a request."""
        self._spending.add(usage)
        if work.turn is not None:
            work.turn.usage += usage

    def _complete(self, config: EngineConfig, conversation: Conversation, request: ModelRequest) -> StreamComplete:
        """Return the event with the answer as stored, and the approvals that its calls need."""
        response = request.response
        calls = response.message.tool_calls
        message = stored_message(response.message, make_jobs(config, calls))
        uses = response.stop_reason == "tool_use"
        pending = approval_requests(config, conversation, message.tool_calls) if uses else ()
        return StreamComplete(message, pending, response.stop_reason, request.cost)

    async def call_tools(self, work: StageTask) -> None:
        """Run the calls that may run, and emit their results. An exception of a tool is a failure."""
        context = work.context
        mode_config, conversation = self._mode_config(self._llm(context), context.mode), self._conversation(context)
        config = mode_config.for_turn(self.deps, None)
        calls = [call for call in unanswered_calls(context.messages) if call.id in context.running]
        self._limit(work, calls)
        jobs = make_jobs(config, calls)
        phase = ToolPhase(
            config, conversation, jobs, work.cancellation, self._spending, work.hooks, concurrent=work.concurrent
        )
        answers = {answer.call_id: answer for answer in context.answers}
        phase.deny_requests(answers, "no approval was given for it")
        permission_changes = self._permission_changes(mode_config, conversation, context)
        results = _Results(work, conversation, jobs, permission_changes)
        try:
            while not work.cancellation.cancelled and phase.failure is None and phase.start_group() is not None:
                while phase.running:
                    results.report(await phase.next_events())
        finally:
            if phase.running:
                await phase.stop()
        results.report_failures()

    def _limit(self, work: StageTask, calls: Sequence[ToolCallPart]) -> None:
        """Raise if these calls exceed a limit of the turn."""
        turn = list(takewhile(lambda message: message.role != "user", reversed(work.context.messages)))
        waiting = {call.id for call in unanswered_calls(work.context.messages)}
        made = [call for message in reversed(turn) for call in message.tool_calls if call.id not in waiting]
        limits = TurnLimits(self._config, self._spending)
        limits.count_repeats(made)
        limits.count_calls(calls, work.backend(self._config.llm).now())

    def _permission_changes(
        self, config: EngineConfig, conversation: Conversation, context: ChatContext
    ) -> dict[str, Any]:
        """Return the rules for the session and the approvals still needed, if approvals changed the rules."""
        rules = tuple([rule.to_dict() for rule in conversation.remembered])
        if len(rules) == len(context.remembered):
            return {}
        asked = {request.call_id for request in context.pending}
        waiting = [call for call in unanswered_calls(context.messages) if call.id in asked]
        return {"remembered": rules, "pending": approval_requests(config, conversation, waiting)}

    def _llm(self, context: ChatContext) -> FunctionCallingLLM:
        """Return the model that was loaded last, or the chat's own."""
        name = context.model
        if name is None:
            return self._config.llm
        if name not in self._made:
            self._made[name] = self._llms(name)
        return self._made[name]

    def _config_for(self, context: ChatContext) -> EngineConfig:
        """Return the config with the current model, tools and dependencies."""
        config = self._mode_config(self._llm(context), context.mode)
        tools = [config.by_name[name] for name in context.tools if name in config.by_name]
        return replace(config.for_turn(self.deps, None), tools=tuple(tools))

    def _conversation(self, context: ChatContext) -> Conversation:
        conversation = Conversation(context.messages)
        conversation.remembered = [Rule.from_dict(rule) for rule in context.remembered]
        return conversation


class _Results:
    """The results of running tools, emitted to the chat; failures are emitted at the end."""

    def __init__(
        self,
        work: StageTask,
        conversation: Conversation,
        jobs: Sequence[ToolJob],
        permission_changes: Mapping[str, Any],
    ) -> None:
        self._work = work
        self._added = iter(conversation.added)  # one message for each result, in the order in which they are emitted
        self._jobs = {job.call.id: job for job in jobs}
        self._permission_changes = permission_changes
        self._failed: list[str] = []

    def report(self, events: Sequence[AgentEvent]) -> None:
        """Emit progress and results."""
        for event in events:
            if isinstance(event, ToolProgress):
                self._work.emit(ToolCallProgress(event.call_id, event.data))
            else:  # a `ToolResult`
                self._take(cast("ToolResultPart", next(self._added).parts[0]))

    def report_failures(self) -> None:
        """Emit the failures."""
        if self._failed:
            self._work.emit(ToolCallFailure("; ".join(self._failed)))

    def _take(self, result: ToolResultPart) -> None:
        error = self._jobs[result.call_id].error
        if error is None or (isinstance(error, _MODEL_ERRORS) and not isinstance(error, ToolTimeout)):
            self._work.emit(ToolCallSuccess(result, **self._permission_changes))
        else:
            why = str(error) if isinstance(error, FailTurn) and str(error) else f"{type(error).__name__}: {error}"
            self._failed.append(f"{result.name}: {why}")


class _LoadProgress:
    """The progress of loading a model, emitted once per percent; stops loading when the work is cancelled."""

    def __init__(self, work: StageTask) -> None:
        self._work = work
        self._percent = -1

    def report(self, done: int, total: int) -> None:
        """Emit the progress in bytes."""
        if self._work.cancellation.cancelled:
            raise Interrupted("the model is no longer requested")
        percent = 100 * done // max(total, 1)
        if percent > self._percent:
            self._percent = percent
            self._work.emit(ModelLoadProgress(float(percent)))


_MODEL_ERRORS: Final = (ToolcastError, TryAgain)
"""Errors that the model reads and can correct: an invalid call, a denied one, an error of a tool."""
