"""Elves: agents that an agent or a program starts, each with a task and a history of its own.

An elf is an engine made like its manager's, with nobody to ask for permission. A `SyncElf` works in the turn of who
started it, who waits for it; it is cancelled with that turn. A `BackgroundElf` works beside it, in a thread or a task
of its own, and goes on when that turn ends. Both spend from the budgets of who started them.

What an elf is told once is a run (elf_runs.py), and each run has one result. How deep elves stand in each other is
known to the context variables as well, so no tool has to hand it on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from threading import Lock, RLock, get_ident
from time import monotonic
from typing import Any, Final

from ...async_support import sync_driver
from ...async_support.background_jobs import start_job
from ...async_support.broadcast import AsyncSubscription, Subscription
from ...cancellation import Cancellation
from ...errors import IllegalState, TurnCancelled
from ...events import AgentEvent
from ...llms.request import Messages, Tools
from ...states import ELF, Observer, Trace
from ...tools.callable_tool import CallableTool
from ...tools.context import ToolContext
from ...usage import Budget, BudgetTracker
from ..engine.engine import Engine
from .run import CHAIN, GRACE, ElfEvent, ElfResult, ElfRun, waiting_for

TIMEOUT: Final = 300.0
"""Seconds that an elf has for what it is told."""
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
"""What the model of an elf is told, for each type of task."""

_ALONE = "You work for another agent, which will read your last answer alone. There is nobody you could ask."

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class ElfConfig:
    """What an elf is to do, and with what.

    `task_type` is one of `TASKS`; any other is taken for `generation`. What is None is the manager's: the `tools` and
    `max_rounds` of its engine, its `timeout` in seconds, its `budget` for one elf. With `output_cls` the result is
    typed. Not in the `background`, the elf works in the turn of who starts it.
    """

    prompt: str = ""
    task_type: str = "generation"
    tools: Tools | None = None
    output_cls: Any = None
    max_rounds: int | None = None
    timeout: float | None = None
    budget: Budget | None = None
    background: bool = True

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout={self.timeout!r} leaves an elf no time; give more than 0 seconds")
        if self.max_rounds is not None and self.max_rounds < 1:
            raise ValueError(f"max_rounds={self.max_rounds} must be at least 1")


class Elf(ABC):
    """What both kinds of elves are: a conversation with an engine of their own, made like `engine`.

    Given the `context` of a tool call, it spends what that turn may, and tells it what it does.
    """

    def __init__(
        self,
        engine: Engine,
        config: ElfConfig,
        *,
        context: ToolContext[Any] | None = None,
        roll: ElfRegistry | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.id: str = f"elf-{next(_numbers)}"
        self.config: ElfConfig = config
        self.depth: int = len(CHAIN.get())
        self._chain = (*CHAIN.get(), self.id)
        self.engine: Engine = _engine_of(engine, config, self._shared(context))
        self._emit: Callable[[Any], None] | None = None if context is None else context.emit
        self._roll = roll or ElfRegistry()
        self._trace = Trace(ELF, observer)
        self._trace.call_id = self.id
        self._lock = RLock()
        self._run: ElfRun | None = None

    @property
    def status(self) -> str:
        """`pending`, `running`, `completed`, `failed` or `cancelled`."""
        return self._trace.state

    @abstractmethod
    def send(self, message: Messages) -> None:
        """Tell the elf something; the conversation goes on. Raises `IllegalState` while it is running."""

    @abstractmethod
    async def asend(self, message: Messages) -> None:
        """Tell the elf something; the conversation goes on. Raises `IllegalState` while it is running."""

    def events(self) -> Subscription[AgentEvent]:
        """The events of the run, from its first; they end with the run."""
        return self._begun().channel.iterate()

    def aevents(self) -> AsyncSubscription[AgentEvent]:
        """The events of the run, from its first; they end with the run."""
        return self._begun().channel.aiterate()

    def wait(self, timeout: float | None = None) -> ElfResult:
        """The result of the run, once there is one, always the same. `TimeoutError` after so many seconds.

        `IllegalState` where it would never come: an elf waits neither for itself, nor for one that waits for it.
        """
        return self._begun().wait(timeout)

    def __await__(self) -> Generator[Any, Any, ElfResult]:
        """`await elf` is the result of the run, once there is one, always the same."""
        return self._begun().awaited().__await__()

    def expected(self) -> AbstractContextManager[None]:
        """A `with` block that waits for the run by other means. `IllegalState` as `wait` raises it."""
        return self._begun().expected()

    def cancel(self) -> None:
        """End the run, from any thread. One that has ended stays as it is."""
        with self._lock:
            if self._run is None:
                self._run = ElfRun(self.id, None, False, self._trace.step)
            run = self._run
        run.stop(TurnCancelled(f"{self.id} was cancelled"))

    def _shared(self, context: ToolContext[Any] | None) -> ToolContext[Any] | None:
        """What the elf shares with the call that starts it."""
        return context

    def _start(self, message: Messages, *, concurrent: bool) -> ElfRun:
        """A run that is about to begin."""
        with self._lock:
            if self.status == "running":
                raise IllegalState(f"{self.id} is running; wait() for it, or cancel() it", state=self.status)
            self._roll.enter(self.id)
            try:
                flow = self.engine.begin(message, self.config.output_cls, (), concurrent=concurrent)
            except BaseException:
                self._roll.leave(self.id)
                raise
            self._run = run = ElfRun(self.id, flow, self.config.output_cls is not None, self._ended)
            run.thread = get_ident() if concurrent else 0
            self._trace.step("started" if self.status == "pending" else "sent")
            self._roll.elves.setdefault(self.id, self)
            return run

    async def _work(self, run: ElfRun) -> None:
        before = CHAIN.get()
        CHAIN.set(self._chain)
        try:
            await run.work(self.config.timeout, None if self._emit is None else self._tell)
        finally:
            CHAIN.set(before)

    def _tell(self, event: AgentEvent) -> None:
        assert self._emit is not None
        self._emit(ElfEvent(self.id, event))

    def _ended(self, outcome: str) -> None:
        self._roll.leave(self.id)
        self._trace.step(outcome)

    def _begun(self) -> ElfRun:
        if self._run is None:
            raise IllegalState(f"{self.id} was told nothing yet; send() it something", state=self.status)
        return self._run


class SyncElf(Elf):
    """An elf that works in the turn of who tells it something, who waits, and that is cancelled with that turn."""

    def send(self, message: Messages) -> None:
        """Tell the elf something, and let it work until it has a result."""
        with waiting_for(self.id):
            sync_driver.run(self._work(self._start(message, concurrent=False)))

    async def asend(self, message: Messages) -> None:
        """Tell the elf something, and let it work until it has a result."""
        with waiting_for(self.id):
            await self._work(self._start(message, concurrent=True))


class BackgroundElf(Elf):
    """An elf that works by itself: `send` returns at once, and the turn that it was started in may end before it."""

    def send(self, message: Messages) -> None:
        """Tell the elf something. It works in a thread of its own."""
        self._go(message, concurrent=False)

    async def asend(self, message: Messages) -> None:
        """Tell the elf something. It works in a task of its own in this event loop."""
        self._go(message, concurrent=True)

    def _shared(self, context: ToolContext[Any] | None) -> ToolContext[Any] | None:
        return None if context is None else replace(context, cancellation=Cancellation())

    def _go(self, message: Messages, *, concurrent: bool) -> None:
        run = self._start(message, concurrent=concurrent)
        try:
            start_job(partial(self._work, run), concurrent=concurrent, name=self.id)
        except BaseException as error:
            run.abandon(error)
            raise


class ElfManager:
    """Starts elves that are made like `engine`, and knows them all.

    No more than `max_elves` run at the same time, all that elves have started included, and no elf stands deeper than
    `max_depth` in others. `timeout`, in seconds, and `budget` are for each elf that is given none of its own; what it
    spends counts for who started it as well. `observer(elf_id, status)` hears of every status. `tools()` are for an
    engine whose model is to start elves.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        max_depth: int = MAX_DEPTH,
        max_elves: int = MAX_ELVES,
        timeout: float | None = TIMEOUT,
        budget: Budget | None = None,
        observer: Observer | None = None,
    ) -> None:
        if max_depth < 1 or max_elves < 1:
            raise ValueError(f"max_depth={max_depth} and max_elves={max_elves} must be at least 1")
        self.engine: Engine = engine
        self.max_depth: int = max_depth
        self.timeout: float | None = timeout
        self.budget: Budget | None = budget
        self._observer = observer
        self._roll = ElfRegistry(max_elves)
        self._tools: tuple[CallableTool, ...] = ()

    @property
    def depth(self) -> int:
        """In how many elves, one in the other, this is asked: 0 outside of all."""
        return len(CHAIN.get()) - 1

    @property
    def active(self) -> int:
        """How many elves are running."""
        return len(self._roll.running)

    def spawn(self, config: ElfConfig | str, *, context: ToolContext[Any] | None = None) -> Elf:
        """A new elf that has been told its prompt. Raises `IllegalState` where a limit is reached.

        A tool gives its `context`: the elf then spends what the turn may, and unless it works in the background it is
        cancelled with the turn.
        """
        elf = self._made(config, context)
        elf.send(elf.config.prompt)
        return elf

    async def aspawn(self, config: ElfConfig | str, *, context: ToolContext[Any] | None = None) -> Elf:
        """A new elf that has been told its prompt, in this event loop. See `spawn`."""
        elf = self._made(config, context)
        await elf.asend(elf.config.prompt)
        return elf

    def get(self, id: str) -> Elf:
        """The elf `id`. Raises `LookupError` where there is none."""
        try:
            return self._roll.elves[id]
        except KeyError:
            known = ", ".join(self._roll.elves) or "none"
            raise LookupError(f"there is no elf {id!r}; there are: {known}") from None

    def list(self) -> tuple[Elf, ...]:
        """All elves, in the order in which they began."""
        return tuple(self._roll.elves.values())

    def cancel_all(self) -> None:
        """End the runs of all elves."""
        for elf in self.list():
            elf.cancel()

    def wait_all(self, timeout: float | None = None) -> tuple[ElfResult, ...]:
        """The results of all elves, in the order of `list`. `TimeoutError` after so many seconds."""
        until = None if timeout is None else monotonic() + timeout
        return tuple([elf.wait(None if until is None else max(until - monotonic(), 0)) for elf in self.list()])

    async def await_all(self) -> tuple[ElfResult, ...]:
        """The results of all elves, in the order of `list`."""
        return tuple([await elf for elf in self.list()])

    def cleanup(self) -> None:
        """Forget the elves that have ended."""
        self._roll.clean()

    def tools(self) -> tuple[CallableTool, ...]:
        """Tools with which a model starts elves: `agent`, `agent_result` and `spawn_elves`."""
        if not self._tools:
            from .tools import elf_tools  # which is made of what is here

            self._tools = elf_tools(self)
        return self._tools

    def _made(self, config: ElfConfig | str, context: ToolContext[Any] | None) -> Elf:
        if isinstance(config, str):
            config = ElfConfig(config)
        if self.depth >= self.max_depth:
            raise IllegalState(
                f"an elf at depth {self.depth} may not start another; do it here, or allow more: ElfManager(max_depth=)"
            )
        config = replace(config, timeout=config.timeout or self.timeout, budget=config.budget or self.budget)
        kind = BackgroundElf if config.background else SyncElf
        return kind(self.engine, config, context=context, roll=self._roll, observer=self._observer)


class ElfRegistry:
    """The elves of one manager, in the order in which they began, and the ids of those that are running."""

    def __init__(self, limit: int | None = None) -> None:
        self.elves: dict[str, Elf] = {}
        self.running: set[str] = set()
        self._limit = limit
        self._lock = Lock()

    def enter(self, id: str) -> None:
        """One more runs. Raises `IllegalState` where that would be too many."""
        with self._lock:
            if self._limit is not None and len(self.running) >= self._limit:
                raise IllegalState(
                    f"{len(self.running)} elves are running, and no more may; wait for one of them, or allow more: "
                    "ElfManager(max_elves=)"
                )
            self.running.add(id)

    def leave(self, id: str) -> None:
        """One has ended."""
        with self._lock:
            self.running.discard(id)

    def clean(self) -> None:
        """Strike off those that are not running."""
        with self._lock:
            for id in self.elves.keys() - self.running:
                del self.elves[id]


def _engine_of(engine: Engine, config: ElfConfig, context: ToolContext[Any] | None) -> Engine:
    """An elf's own engine. It spends what its context may, and without one what `engine` may."""
    spending = None if context is None else context.spending
    shared = replace(context or ToolContext(), spending=spending or engine.transcript.spending)
    made = engine.fork(
        permissions=engine.permissions.without_prompt(),
        tools=config.tools,
        max_rounds=config.max_rounds,
        instructions=f"{TASKS.get(config.task_type, TASKS['generation'])} {_ALONE}",
        # So that a tool can be left behind; when the elf's time is up, it is the elf that says so.
        tool_timeout=None if config.timeout is None else config.timeout + GRACE,
        context=shared,
    )
    if config.budget is not None:
        made.transcript.spending = BudgetTracker(config.budget, made.transcript.spending)
    return made
