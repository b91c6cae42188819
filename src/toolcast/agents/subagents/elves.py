"""Elves: sub-agents that an agent or a program starts, each with a task and a history of its own.

An elf has an engine with its manager's settings and without an approver. A `SyncElf` runs in the turn that starts it,
which waits for it; it is cancelled with that turn. A `BackgroundElf` runs beside it, in a thread or a task of its own,
and continues when that turn ends. Both spend from the budgets of the turn that started them.

Each message starts a run (elf_run.py), and each run has one result. A context variable has the depth of nested elves,
so no tool has to pass it on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import count
from threading import Lock, RLock, get_ident
from time import monotonic
from typing import Any, Final

from ...async_support import sync_driver
from ...async_support.background_jobs import start_job
from ...async_support.broadcast import AsyncSubscription, Subscription
from ...async_support.cancellation import Cancellation
from ...errors import IllegalState, TurnCancelled
from ...events import AgentEvent
from ...lazy.lazy_dataclasses import dataclass
from ...llms.request import Messages, Tools
from ...text.reprs import safe_repr
from ...tools.callable_tool import CallableTool
from ...tools.tool_context import ToolContext
from ...values.budgets import Budget, BudgetTracker
from ...values.states import ELF, Observer, Trace
from ..engine.engine import Conversational, Engine, as_engine
from .elf_run import ELF_CHAIN, GRACE, ElfEvent, ElfResult, ElfRun, waiting_for

TIMEOUT: Final = 300.0
"""Seconds that an elf has for one message."""
MAX_DEPTH: Final = 2
MAX_ELVES: Final = 10

TASKS: Final = {
    "generation": "Do the task you are given, and answer with the result and nothing else.",
    "review": "Read closely. List what is wrong or doubtful, the gravest first, each with its place and the reason.",
    "refactor": "Make it simpler without changing what it does. Tell what you changed, and why that is safe.",
    "debug": "Find the cause of the fault before you change anything. Tell it, how you know, and the smallest cure.",
    "explain": "Explain it to somebody who has never seen it: first what it is for, then how it works.",
    "planning": "Carry nothing out. Answer with a plan: numbered steps, each small enough to be checked by itself.",
}
"""The instructions of an elf's model, for each type of task."""

_ISOLATION = "You work for another agent, which will read your last answer alone. There is nobody you could ask."

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class ElfConfig:
    """The task of an elf, and its settings.

    `task_type` is one of `TASKS`; any other is treated as `generation`. None stands for the manager's value: the
    `tools` and `max_rounds` of its engine, its `timeout` in seconds, its `budget` for one elf. `deps` are the
    dependencies of its tools: None stands for those of the turn that starts it, or else of its engine. With
    `output_cls` the result is typed. With `background=False` the elf runs in the turn that starts it.
    """

    prompt: str = ""
    task_type: str = "generation"
    tools: Tools | None = None
    output_cls: Any = None
    max_rounds: int | None = None
    timeout: float | None = None
    budget: Budget | None = None
    background: bool = True
    deps: Any = None

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout={self.timeout!r} leaves an elf no time; give more than 0 seconds")
        if self.max_rounds is not None and self.max_rounds < 1:
            raise ValueError(f"max_rounds={self.max_rounds} must be at least 1")


class Elf(ABC):
    """The common base of both kinds of elves: a conversation with an engine of its own, forked from `engine`.

    With the `context` of a tool call, it spends from that turn's budget, and sends it its events.
    """

    def __init__(
        self,
        engine: Engine[Any, Any],
        config: ElfConfig,
        *,
        context: ToolContext[Any] | None = None,
        registry: ElfRegistry | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.id: str = f"elf-{next(_numbers)}"
        self.config: ElfConfig = config
        self.depth: int = len(ELF_CHAIN.get())
        self._chain = (*ELF_CHAIN.get(), self.id)
        self.engine: Engine[Any, Any] = _elf_engine(engine, config, self._shared(context))
        self._emit: Callable[[Any], None] | None = None if context is None else context.emit
        self._registry = registry or ElfRegistry()
        self._trace = Trace(ELF, observer)
        self._trace.call_id = self.id
        self._lock = RLock()
        self._run: ElfRun | None = None

    @safe_repr
    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, task_type={self.config.task_type!r}, status={self.status!r})"

    @property
    def status(self) -> str:
        """`pending`, `running`, `completed`, `failed` or `cancelled`."""
        return self._trace.state

    @abstractmethod
    def send(self, message: Messages) -> None:
        """Send a message; the conversation continues. Raises `IllegalState` while the elf is running."""

    @abstractmethod
    async def asend(self, message: Messages) -> None:
        """Send a message; the conversation continues. Raises `IllegalState` while the elf is running."""

    def events(self) -> Subscription[AgentEvent]:
        """Return the events of the run, from its first; they end with the run."""
        return self._require_run().channel.iterate()

    def aevents(self) -> AsyncSubscription[AgentEvent]:
        """Return the events of the run, from its first; they end with the run."""
        return self._require_run().channel.aiterate()

    def wait(self, timeout: float | None = None) -> ElfResult:
        """Wait for the result of the run and return it, the same each time. `TimeoutError` after `timeout` seconds.

        Raises `IllegalState` if it would never come: an elf cannot wait for itself, or for one that waits for it.
        """
        return self._require_run().wait(timeout)

    def __await__(self) -> Generator[Any, Any, ElfResult]:
        """Wait for the result of the run and return it, the same each time."""
        return self._require_run().awaited().__await__()

    def expected(self) -> AbstractContextManager[None]:
        """Return a context manager for waiting by other means. Raises `IllegalState` as `wait` does."""
        return self._require_run().expected()

    def cancel(self) -> None:
        """Cancel the run, from any thread. One that has ended does not change."""
        with self._lock:
            if self._run is None:
                self._run = ElfRun(self.id, None, False, self._trace.step)
            run = self._run
        run.stop(TurnCancelled(f"{self.id} was cancelled"))

    def _shared(self, context: ToolContext[Any] | None) -> ToolContext[Any] | None:
        """Return the part of the calling tool's context that the elf shares."""
        return context

    def _start(self, message: Messages, *, concurrent: bool) -> ElfRun:
        """Return a new run, not begun yet."""
        with self._lock:
            if self.status == "running":
                raise IllegalState(f"{self.id} is running; wait() for it, or cancel() it", state=self.status)
            self._registry.enter(self.id)
            try:
                turn_loop = self.engine.begin(message, self.config.output_cls, {}, concurrent=concurrent)
            except BaseException:
                self._registry.leave(self.id)
                raise
            self._run = run = ElfRun(self.id, turn_loop, self.config.output_cls is not None, self._on_end)
            run.thread = get_ident() if concurrent else 0
            self._trace.step("started" if self.status == "pending" else "sent")
            self._registry.elves.setdefault(self.id, self)
            return run

    async def _work(self, run: ElfRun) -> None:
        before = ELF_CHAIN.get()
        ELF_CHAIN.set(self._chain)
        try:
            await run.work(self.config.timeout, None if self._emit is None else self._forward)
        finally:
            ELF_CHAIN.set(before)

    def _forward(self, event: AgentEvent) -> None:
        assert self._emit is not None
        self._emit(ElfEvent(self.id, event, self.config.prompt))

    def _on_end(self, outcome: str) -> None:
        self._registry.leave(self.id)
        self._trace.step(outcome)

    def _require_run(self) -> ElfRun:
        if self._run is None:
            raise IllegalState(f"{self.id} has no run yet; send() it a message", state=self.status)
        return self._run


class SyncElf(Elf):
    """An elf that runs in the turn that sends to it; that turn waits, and the elf is cancelled with it."""

    def send(self, message: Messages) -> None:
        """Send a message and wait until there is a result."""
        with waiting_for(self.id):
            sync_driver.run(self._work(self._start(message, concurrent=False)))

    async def asend(self, message: Messages) -> None:
        """Send a message and wait until there is a result."""
        with waiting_for(self.id):
            await self._work(self._start(message, concurrent=True))


class BackgroundElf(Elf):
    """An elf that runs by itself: `send` returns at once, and the turn that started it may end before it."""

    def send(self, message: Messages) -> None:
        """Send a message. The elf runs in a thread of its own."""
        self._start_in_background(message, concurrent=False)

    async def asend(self, message: Messages) -> None:
        """Send a message. The elf runs in a task of its own in this event loop."""
        self._start_in_background(message, concurrent=True)

    def _shared(self, context: ToolContext[Any] | None) -> ToolContext[Any] | None:
        return None if context is None else replace(context, cancellation=Cancellation())

    def _start_in_background(self, message: Messages, *, concurrent: bool) -> None:
        run = self._start(message, concurrent=concurrent)
        try:
            start_job(partial(self._work, run), concurrent=concurrent, name=self.id)
        except BaseException as error:
            run.abandon(error)
            raise


class ElfManager:
    """Starts elves with the settings of `engine`, an `Engine` or an `Agent`, and lists them.

    At most `max_elves` run at the same time, including those that elves have started, and elves are nested at most
    `max_depth` deep. `timeout`, in seconds, and `budget` are for each elf that has none of its own; its usage also
    counts for the turn that started it. `observer(elf_id, status)` is called with every status. `tools()` are for an
    engine whose model is to start elves.
    """

    def __init__(
        self,
        engine: Engine[Any, Any] | Conversational[Any, Any],
        *,
        max_depth: int = MAX_DEPTH,
        max_elves: int = MAX_ELVES,
        timeout: float | None = TIMEOUT,
        budget: Budget | None = None,
        observer: Observer | None = None,
    ) -> None:
        if max_depth < 1 or max_elves < 1:
            raise ValueError(f"max_depth={max_depth} and max_elves={max_elves} must be at least 1")
        self.engine: Engine[Any, Any] = as_engine(engine)
        self.max_depth: int = max_depth
        self.timeout: float | None = timeout
        self.budget: Budget | None = budget
        self._observer = observer
        self._registry = ElfRegistry(max_elves)
        self._tools: tuple[CallableTool, ...] = ()

    @safe_repr
    def __repr__(self) -> str:
        elves = f"elves={len(self._registry.elves)}, running={len(self._registry.running)}"
        return f"{type(self).__name__}({self.engine!r}, {elves})"

    @property
    def depth(self) -> int:
        """The number of elves around the current code, nested in each other: 0 outside of all."""
        return len(ELF_CHAIN.get()) - 1

    @property
    def active(self) -> int:
        """The number of running elves."""
        return len(self._registry.running)

    def spawn(self, config: ElfConfig | str, *, context: ToolContext[Any] | None = None) -> Elf:
        """Start a new elf with its prompt and return it. Raises `IllegalState` if a limit is reached.

        A tool passes its `context`: the elf then spends from the turn's budget, and unless it runs in the background it
        is cancelled with the turn.
        """
        elf = self._create(config, context)
        elf.send(elf.config.prompt)
        return elf

    async def aspawn(self, config: ElfConfig | str, *, context: ToolContext[Any] | None = None) -> Elf:
        """Start a new elf with its prompt in this event loop and return it. See `spawn`."""
        elf = self._create(config, context)
        await elf.asend(elf.config.prompt)
        return elf

    def get(self, id: str) -> Elf:
        """Return the elf `id`. Raises `LookupError` if there is none."""
        try:
            return self._registry.elves[id]
        except KeyError:
            known = ", ".join(self._registry.elves) or "none"
            raise LookupError(f"there is no elf {id!r}; there are: {known}") from None

    def list(self) -> tuple[Elf, ...]:
        """Return all elves, in the order in which they began."""
        return tuple(self._registry.elves.values())

    def cancel_all(self) -> None:
        """End the runs of all elves."""
        for elf in self.list():
            elf.cancel()

    def wait_all(self, timeout: float | None = None) -> tuple[ElfResult, ...]:
        """Wait for all elves; return their results, in the order of `list`. `TimeoutError` after `timeout` seconds."""
        until = None if timeout is None else monotonic() + timeout
        return tuple([elf.wait(None if until is None else max(until - monotonic(), 0)) for elf in self.list()])

    async def await_all(self) -> tuple[ElfResult, ...]:
        """Wait for all elves; return their results, in the order of `list`."""
        return tuple([await elf for elf in self.list()])

    def cleanup(self) -> None:
        """Remove the elves that have ended."""
        self._registry.clean()

    def tools(self) -> tuple[CallableTool, ...]:
        """Return the tools with which a model starts elves: `agent`, `agent_result` and `spawn_elves`."""
        if not self._tools:
            from .elf_tools import elf_tools  # it imports this module

            self._tools = elf_tools(self)
        return self._tools

    def _create(self, config: ElfConfig | str, context: ToolContext[Any] | None) -> Elf:
        if isinstance(config, str):
            config = ElfConfig(config)
        if self.depth >= self.max_depth:
            raise IllegalState(
                f"an elf at depth {self.depth} may not start another; do it here, or allow more: ElfManager(max_depth=)"
            )
        config = replace(config, timeout=config.timeout or self.timeout, budget=config.budget or self.budget)
        kind = BackgroundElf if config.background else SyncElf
        return kind(self.engine, config, context=context, registry=self._registry, observer=self._observer)


class ElfRegistry:
    """The elves of one manager, in the order in which they began, and the ids of those that are running."""

    def __init__(self, limit: int | None = None) -> None:
        self.elves: dict[str, Elf] = {}
        self.running: set[str] = set()
        self._limit = limit
        self._lock = Lock()

    def enter(self, id: str) -> None:
        """Register a running elf. Raises `IllegalState` if that would be too many."""
        with self._lock:
            if self._limit is not None and len(self.running) >= self._limit:
                raise IllegalState(
                    f"{len(self.running)} elves are running, and no more may; wait for one of them, or allow more: "
                    "ElfManager(max_elves=)"
                )
            self.running.add(id)

    def leave(self, id: str) -> None:
        """Unregister an elf that has ended."""
        with self._lock:
            self.running.discard(id)

    def clean(self) -> None:
        """Remove the elves that are not running."""
        with self._lock:
            for id in self.elves.keys() - self.running:
                del self.elves[id]


def _elf_engine(engine: Engine[Any, Any], config: ElfConfig, context: ToolContext[Any] | None) -> Engine[Any, Any]:
    """Return the engine of an elf, with the budget of its context, or without one that of `engine`."""
    spending = None if context is None else context.spending
    shared = replace(context or ToolContext(), spending=spending or engine.conversation.spending)
    created = engine.fork(
        permissions=engine.permissions.without_prompt(),
        tools=config.tools,
        max_rounds=config.max_rounds,
        instructions=f"{TASKS.get(config.task_type, TASKS['generation'])} {_ISOLATION}",
        # A hanging tool is left behind; the elf's own timeout comes first, so its error names the elf.
        tool_timeout=None if config.timeout is None else config.timeout + GRACE,
        deps=shared.deps if config.deps is None else config.deps,
        context=shared,
    )
    if config.budget is not None:
        created.conversation.spending = BudgetTracker(config.budget, created.conversation.spending)
    return created
