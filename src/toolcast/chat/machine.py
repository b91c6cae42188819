"""`ChatMachine` and `AsyncChatMachine`: a chat state machine for an application's UI.

transitions.py has the table of states and events; the machine carries out its effects. `dispatch` applies an event and
returns at once: the work that follows runs in threads, or in tasks of the event loop, and dispatches its own events.
Events are applied one after the other, and each is sent to all listeners, in order. So a UI dispatches what its user
does, and shows what its listener receives.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from threading import RLock, get_ident
from time import monotonic
from typing import Any, ClassVar, Final

from ..agents.engine.engine import Conversational, Engine, as_engine
from ..agents.engine.engine_config import EngineConfig
from ..agents.tool_search.tool_search import LexicalSearch, ToolSearch
from ..async_support.background_jobs import BackgroundJob, join_all, start_job
from ..async_support.closing import AsyncClosing, Closing
from ..async_support.interruptible import Interrupted
from ..async_support.shielding import current_loop
from ..async_support.waiters import Waiters
from ..errors import IllegalState, ToolcastError
from ..lazy.lazy_dataclasses import dataclass
from ..llms.function_calling_llm import FunctionCallingLLM
from ..llms.named_llms import llm
from ..text.reprs import safe_repr
from ..values.option_types import require_callable
from .actions import Effect, Order
from .chat_context import STATES, ChatContext, ChatState, as_interrupted, differences, read_snapshot
from .effects import FAILURE_EVENTS, Configure, EngineStages, Perform, StageTask, chat_config, is_loop_ending
from .events import (
    ChatEvent,
    Failure,
    Restored,
    SetMode,
    Stop,
    StreamError,
    WorkEvent,
    event_to_dict,
    parse_event,
)
from .transitions import ACTIONS, Action, Transition, transition
from .turn_hooks import TURN_STATES, ChatTurn

logger: Final = logging.getLogger("toolcast")

GRACE: Final = 1.0
"""Seconds that work which was cancelled has to end."""

MAX_OFFERED_TOOLS: Final = 20
"""So many tools are offered at once, where no search was given: small models lose their way among more."""

RESTING_STATES: Final[tuple[ChatState, ...]] = ("idle", "load_failed", "ready", "waiting_for_tool_approval")
"""The states in which nothing goes on."""


@dataclass(frozen=True, slots=True)
class ChatChange:
    """The effect of an event: the `context` before and after, the `state`, and the `path` of states to it.

    An event that is impossible in the state is `ignored`: then nothing has changed.
    """

    event: ChatEvent
    before: ChatContext
    context: ChatContext
    state: ChatState
    path: tuple[ChatState, ...] = ()
    ignored: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable data; of the context the changed fields (`differences`)."""
        return {
            "event": event_to_dict(self.event),
            "state": self.state,
            "path": list(self.path),
            "ignored": self.ignored,
            "changes": differences(self.before, self.context),
        }


Listener = Callable[[ChatChange], object]


class _Wait:
    """A wait for one of these states."""

    def __init__(self, states: tuple[ChatState, ...]) -> None:
        self.states = states
        self.reached: ChatState | None = None
        self.over = False

    def observe(self, state: ChatState) -> None:
        """Store the first of the states that is reached."""
        if self.reached is None and state in self.states:
            self.reached = state

    def ended(self) -> bool:
        """Return True if one was reached, or none will be."""
        return self.over or self.reached is not None


class _ChatBase:
    """The common base of both chat machines."""

    _concurrent: ClassVar[bool]

    def __init__(
        self,
        engine: Engine[Any, Any] | Conversational[Any, Any],
        *,
        search: ToolSearch | None = None,
        llms: Callable[[str], FunctionCallingLLM] = llm,
        deps: Any = None,
        perform: Mapping[Order, Perform] | None = None,
        actions: Mapping[str, Action] | None = None,
        configure: Configure | None = None,
        check_model: Callable[[str], object] | None = None,
    ) -> None:
        """Create a chat with the model, tools, permissions, limits and history of `engine`.

        The chat waits for approvals that the permissions require. An engine without `permissions=` runs its tools
        without asking; in a chat with it, only read-only tools do, and every other call waits.

        Args:
            engine: The engine, or an `Agent`, with which the chat is a new conversation.
            search: Finds the tools that the model is offered.
            llms: Makes the LLM for the name in a LOAD_MODEL event.
            deps: The dependencies of its tools and instructions, in place of the engine's own. See `deps`.
            perform: Functions that replace kinds of work: `{"generate": my_generate}`.
            actions: Functions that replace actions of the transition table, by the names in `ACTIONS` (transitions.py).
                They take the `ContextBuilder` of the next context and the event.
            configure: Returns the engine with the tools, permissions and instructions for an LLM in a mode, or raises
                `ValueError` for an unknown mode; the mode is None until a SET_MODE event selects one. Without it the
                chat has no modes, and every LLM gets those of `engine`.
            check_model: Called with the name in a LOAD_MODEL event, in a thread, before the model counts as loaded;
                raises an error if the model cannot be used.

        Raises:
            ValueError: If `perform` or `actions` has an unknown name.
        """
        engine = as_engine(engine)
        functions = {"llms": llms, **_named_functions("perform", perform), **_named_functions("actions", actions)}
        for name, function in (functions if search is None else {"search": search, **functions}).items():
            require_callable(name, function, "a function")
        for name, function in {"configure": configure, "check_model": check_model}.items():
            if function is not None:
                require_callable(name, function, "a function")
        config = chat_config(engine)
        search = search or LexicalSearch(limit=MAX_OFFERED_TOOLS)
        self._stages = core = EngineStages(
            config, engine.conversation.spending, search, llms, deps, configure, check_model
        )
        self.engine: Engine[Any, Any] = engine
        self._begin_turn = core.begin_turn
        self._turn: ChatTurn | None = None  # as hooks observe it; None between turns, and without hooks
        self._perform: Mapping[Order, Perform] = {**core.performs, **(perform or {})}
        if unknown := self._perform.keys() - core.performs.keys():
            raise ValueError(f"perform= has {', '.join(map(repr, unknown))}; the orders are {', '.join(core.performs)}")
        self._actions: Mapping[str, Action] = dict(actions or {})
        if other := self._actions.keys() - ACTIONS.keys():
            raise ValueError(f"actions= has {', '.join(map(repr, other))}; the actions are {', '.join(ACTIONS)}")
        self._now: tuple[ChatState, ChatContext] = (
            "idle",
            ChatContext(engine.history, max_rounds=config.max_rounds),
        )
        self._lock = RLock()
        self._events: deque[ChatEvent] = deque()  # dispatched by listeners
        self._busy = self._closed = False
        self._listeners: dict[object, Listener] = {}
        self._tasks: list[StageTask] = []
        self._waits: list[_Wait] = []
        self._waiters = Waiters()

    @safe_repr
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.engine!r}, state={self.state!r}, messages={len(self.context.messages)})"

    # State.

    @property
    def state(self) -> ChatState:
        """The current state."""
        return self._now[0]

    @property
    def context(self) -> ChatContext:
        """The current context."""
        return self._now[1]

    @property
    def llm(self) -> FunctionCallingLLM:
        """The LLM that was loaded last, or the engine's own."""
        return self._stages.loaded_llm(self.context)

    @property
    def config(self) -> EngineConfig:
        """The configuration for the current model and mode."""
        return self._stages.current_config(self.context)

    @property
    def deps(self) -> Any:
        """The dependencies of its tools and instructions; those that are assigned are used by the next work."""
        return self._stages.deps

    @deps.setter
    def deps(self, deps: Any) -> None:
        self._stages.deps = deps

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after every event, ignored ones included; return a function that ends that.

        It is called where the event was dispatched, in any thread, and the next event waits for it: be quick.
        """
        key = object()
        with self._lock:
            self._listeners[key] = listener

        def end() -> None:
            self._listeners.pop(key, None)

        return end

    def snapshot(self) -> dict[str, Any]:
        """Return the whole chat as JSON-serialisable data."""
        state, context = self._now
        return {"version": 1, "state": state, "context": context.to_dict()}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Restore the chat from the data of `snapshot`.

        Work that was running is not repeated by itself: it counts as stopped, and RETRY_* repeats it. Listeners get a
        `Restored` event.
        """
        state, context = read_snapshot(data)
        with self._lock:
            self._check()
            self._cancel_all()
            self._end_turn(Restored(), self.state, "ready", self.context)
            before, context = self.context, replace(context, max_rounds=self.engine.config.max_rounds)
            self._now = (state, context)
            self._notify(ChatChange(Restored(), before, context, state, (state,)))
            if self.state not in RESTING_STATES:
                self._dispatch(Stop())
                if self.context.marks != context.marks:  # it was no model that was being loaded
                    self._now = (self.state, as_interrupted(self.context))

    # Events.

    def dispatch(self, event: ChatEvent | Mapping[str, Any] | str) -> ChatChange | None:
        """Apply an event and return the change, from any thread. The work that follows runs in the background.

        Plain data is accepted for users' events: `{"type": "QUEUE_MESSAGE", "message": "Hello"}`, `"INTERRUPT"`. From
        within a listener it returns None: the event is applied when all listeners have received the one before.
        """
        self._check()
        if not isinstance(event, ChatEvent):
            if not isinstance(event, str) and not hasattr(event, "keys"):
                raise TypeError(
                    f"{event!r:.60} is no event: use QueueMessage('Hello.'), or plain data, as JSON gives it"
                )
            event = parse_event(event)
        if isinstance(event, SetMode):
            self._stages.check_mode(event.mode)
        return self._dispatch(event)

    def _dispatch(self, event: ChatEvent) -> ChatChange | None:
        with self._lock:
            self._check()
            if self._busy:
                self._events.append(event)
                return None
            self._busy = True
            try:
                change = self._apply(event)
                while self._events and not self._closed:
                    self._apply(self._events.popleft())
            finally:
                self._busy = False
        return change

    def _apply(self, event: ChatEvent) -> ChatChange:
        state, before = self._now
        outcome = transition(state, before, event, self._actions)
        self._now = (outcome.state, outcome.context)
        if outcome.ignored:
            logger.debug("the chat ignores %s while it is %s", event.type, state)
        for effect in outcome.effects:
            if effect.order == "cancel":
                self._cancel(effect.run)
        self._follow_turn(state, before, event, outcome)
        for effect in outcome.effects:
            if effect.order != "cancel":
                self._start_effect(effect)
        change = ChatChange(event, before, outcome.context, outcome.state, outcome.path, outcome.ignored)
        self._notify(change)
        return change

    def _notify(self, change: ChatChange) -> None:
        for listener in tuple(self._listeners.values()):
            try:
                listener(change)
            except Exception:  # the user's listener: logged, the chat goes on
                # A listener is the user's own code: its error is logged, and does not affect the chat.
                logger.exception("a listener failed on %s", change.event.type)
        self._notify_waiters(change.state)

    # The turn, as hooks observe it.

    def _follow_turn(self, state: ChatState, before: ChatContext, event: ChatEvent, outcome: Transition) -> None:
        """Begin and end the turn, as the states of a transition require."""
        after = outcome.context
        # A queue is delivered where a turn begins after "ready"; a retry begins one without it.
        asked = after.messages[-outcome.delivered :] if outcome.delivered else ()
        for reached in outcome.path:
            if reached in TURN_STATES and state not in TURN_STATES:
                begin = len(after.messages) if asked else min(len(before.messages), len(after.messages))
                hooks = self._begin_turn(after)
                self._turn = None if hooks is None else ChatTurn(hooks, asked, begin)
            if self._turn is not None and reached != state:
                self._turn.observe(reached)
                if reached not in TURN_STATES:
                    self._end_turn(event, state, reached, after, len(asked))
            state = reached

    def _end_turn(
        self, event: ChatEvent, state: ChatState, rest: ChatState, context: ChatContext, delivered: int = 0
    ) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.end(event, state, rest, context, delivered)
            self._report_turn(turn)

    def _report_turn(self, turn: ChatTurn | None) -> None:
        """Notify the hooks of a turn that has ended, unless work that was cancelled with it still goes on."""
        with self._lock:
            if (
                turn is not None
                and turn.due
                and not any(work.turn is turn and work.is_stopping for work in self._tasks)
            ):
                turn.report()

    # Work.

    def _start_effect(self, effect: Effect) -> None:
        work = StageTask(effect.run, self.context, self._on_work_event, concurrent=self._concurrent, turn=self._turn)
        main = partial(self._do, work, effect.order)
        self._tasks.append(work)
        try:
            work.job = start_job(main, concurrent=self._concurrent, name=f"chat {effect.order}")
        except RuntimeError as error:  # there are no more threads, or the event loop is closed
            self._fail(work, effect.order, error)
            self._tasks.remove(work)

    async def _do(self, work: StageTask, order: Order) -> None:
        try:
            await work.perform(self._perform[order])
        except Interrupted:
            pass
        except BaseException as error:  # any error of work becomes the failure of its stage
            if self._concurrent and is_loop_ending(error):
                self._close()  # nothing more can be done in it
            else:
                self._fail(work, order, error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._tasks.remove(work)
            if work.cancellation.cancelled:
                self._report_turn(work.turn)

    def _fail(self, work: StageTask, order: Order, error: BaseException) -> None:
        """Emit the failure of work. An error that is not toolcast's may be a bug, and is logged with its traceback."""
        work.ended = True
        if work.turn is not None:
            work.turn.error = error
        streaming = order == "generate" and self.state == "streaming_response"
        kind: type[Failure] = StreamError if streaming else FAILURE_EVENTS[order]
        known = isinstance(error, (ToolcastError, ImportError))  # an extra that is missing is named by its error
        if not work.cancellation.cancelled and not known:
            logger.error("%s of a chat failed", order, exc_info=error)
        text = str(error) if known else f"{type(error).__name__}: {error}".removesuffix(": ")
        work.emit(kind(text or type(error).__name__, retryable=getattr(error, "retryable", not known)))

    def _on_work_event(self, work: StageTask, event: WorkEvent) -> None:
        """Apply an event of work, unless the chat is closed or the work was cancelled."""
        with self._lock:
            if not self._closed and not work.cancellation.cancelled:
                self._dispatch(event)

    def _cancel(self, run: int) -> None:
        for work in tuple(self._tasks):
            if work.run == run:
                work.cancellation.cancel()

    def _cancel_all(self) -> list[BackgroundJob]:
        tasks = tuple(self._tasks)
        for work in tasks:
            work.cancellation.cancel()
        return [work.job for work in tasks if work.job is not None]

    # Waiting and ending.

    def _wait_for(self, states: tuple[ChatState, ...]) -> _Wait:
        unknown = set(states).difference(STATES)
        if unknown:
            raise ValueError(f"a chat is never {', '.join(map(str, unknown))}; its states are {', '.join(STATES)}")
        wait = _Wait(states or RESTING_STATES)
        with self._lock:
            self._check()
            if self._busy:
                raise IllegalState("a listener cannot wait: nothing happens before it is back", state=self.state)
            wait.observe(self.state)
            self._waits.append(wait)
        return wait

    def _notify_waiters(self, state: ChatState) -> None:
        for wait in self._waits:
            wait.observe(state)
        self._waiters.wake()

    def _reached(self, wait: _Wait) -> ChatState:
        if wait.reached is None:
            raise IllegalState(f"the chat was closed while it was {self.state}", state="closed")
        return wait.reached

    def _close(self) -> list[BackgroundJob]:
        """Cancel all work; return the jobs that must end now. From within a listener, return none."""
        with self._lock:
            self._closed = True
            jobs = self._cancel_all()
            self._end_turn(Stop(), self.state, "ready", self.context)
            for wait in self._waits:
                wait.over = True
            self._waiters.wake()
            return [] if self._busy else jobs

    def _check(self) -> None:
        if self._closed:
            raise IllegalState("the chat is closed; restore its snapshot() in another", state="closed")


def _named_functions(name: str, functions: Mapping[Any, object] | None) -> dict[str, object]:
    return {f"{name}[{key!r}]": function for key, function in (functions or {}).items()}


class ChatMachine(_ChatBase, Closing):
    """A chat whose work goes on in threads."""

    _concurrent = False

    def run_until(self, *states: ChatState, timeout: float | None = None) -> ChatState:
        """Wait until one of `states` is reached and return it. `TimeoutError` after `timeout` seconds.

        A state that is left at once counts, except a `ready` that a queued message ends. Without `states`: until no
        work is running, and the chat waits for a user.
        """
        wait = self._wait_for(states)
        try:
            if not self._waiters.block(wait.ended, timeout):
                raise TimeoutError(f"the chat is {self.state} after {timeout} seconds, not {' or '.join(wait.states)}")
            return self._reached(wait)
        finally:
            self._waits.remove(wait)

    def close(self) -> None:
        """Close the chat, and cancel its work; waits a limited time for its end. Idempotent."""
        until = monotonic() + GRACE
        for job in self._close():
            if job.thread != get_ident():
                job.wait(max(until - monotonic(), 0))


class AsyncChatMachine(_ChatBase, AsyncClosing):
    """A chat whose work goes on in tasks of the event loop that `dispatch` is called in.

    It is closed where the loop ends while work goes on; its `snapshot` can be restored in another.
    """

    _concurrent = True

    def dispatch(self, event: ChatEvent | Mapping[str, Any] | str) -> ChatChange | None:
        """Apply an event and return the change, in the event loop: see `ChatMachine.dispatch`."""
        try:
            current_loop()
        except RuntimeError:
            raise RuntimeError("no event loop here; from a thread: call_soon_threadsafe(chat.dispatch, ...)") from None
        return super().dispatch(event)

    async def run_until(self, *states: ChatState) -> ChatState:
        """Wait until one of `states` is reached and return it.

        A state that is left at once counts, except a `ready` that a queued message ends. Without `states`: until no
        work is running, and the chat waits for a user.
        """
        wait = self._wait_for(states)
        try:
            await self._waiters.suspend(wait.ended)
            return self._reached(wait)
        finally:
            self._waits.remove(wait)

    async def aclose(self) -> None:
        """Close the chat, and cancel its work; waits a limited time for its end. Idempotent."""
        jobs = self._close()
        if jobs:
            await join_all(jobs, GRACE)
