"""`ChatMachine` and `AsyncChatMachine`: a chat that an application's UI binds to.

What happens is an event, and what comes of it is said by the table of chat_transitions.py; here that is carried out.
`dispatch` takes an event, and comes back at once: the work that follows goes on in threads, or in tasks of the event
loop, and dispatches what comes of it. Events are dealt with one after the other, and whoever has subscribed hears of
each, in order. So a UI needs two things: to dispatch what its user does, and to show what it hears.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from threading import RLock, get_ident
from time import monotonic
from typing import Any, ClassVar, Final

from ..agents.engine.engine import Engine
from ..agents.permissions.permissions import UNGUARDED, Permissions
from ..agents.tool_search.search import LexicalSearch, ToolSearch
from ..async_support.background_jobs import BackgroundJob, join_all, start_job
from ..async_support.interruptible import Interrupted
from ..async_support.shielding import current_loop
from ..async_support.waiters import Waiters
from ..closing import AsyncClosing, Closing
from ..errors import IllegalState, ToolcastError
from ..llms.base import FunctionCallingLLM
from ..llms.provider_llms import llm
from ..option_types import require, require_callable
from .actions import Effect, Order
from .context import STATES, ChatContext, ChatState, differences, read_snapshot
from .effects import FAILURES, EngineStages, Perform, StageTask, is_loop_ending
from .events import ChatEvent, Failure, Restored, Stop, StreamError, WorkEvent, said, told
from .transitions import ACTIONS, Action, transition

logger: Final = logging.getLogger("toolcast")

GRACE: Final = 1.0
"""Seconds that work which was cancelled has to end."""

OFFERED: Final = 20
"""So many tools are offered at once, where no search was given: small models lose their way among more."""

RESTS: Final[tuple[ChatState, ...]] = ("idle", "load_failed", "ready", "waiting_for_tool_approval")
"""The states in which nothing goes on."""


@dataclass(frozen=True, slots=True)
class ChatChange:
    """What came of an event: the `context` before and after, the `state`, and the `path` of states that led there.

    An event that could not happen is `ignored`: then nothing has changed.
    """

    event: ChatEvent
    before: ChatContext
    context: ChatContext
    state: ChatState
    path: tuple[ChatState, ...] = ()
    ignored: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready data; of the context what has changed (`differences`)."""
        return {
            "event": told(self.event),
            "state": self.state,
            "path": list(self.path),
            "ignored": self.ignored,
            "changes": differences(self.before, self.context),
        }


Listener = Callable[[ChatChange], object]


class _Wait:
    """Somebody waits for one of these states to be reached."""

    def __init__(self, states: tuple[ChatState, ...]) -> None:
        self.states = states
        self.reached: ChatState | None = None
        self.over = False

    def see(self, state: ChatState) -> None:
        """Note which of the states was reached first."""
        if self.reached is None and state in self.states:
            self.reached = state

    def ended(self) -> bool:
        """Whether one was reached, or none will be."""
        return self.over or self.reached is not None


class _Chat:
    """What both chat machines have in common."""

    _concurrent: ClassVar[bool]

    def __init__(
        self,
        engine: Engine,
        *,
        search: ToolSearch | None = None,
        llms: Callable[[str], FunctionCallingLLM] = llm,
        perform: Mapping[Order, Perform] | None = None,
        actions: Mapping[str, Action] | None = None,
    ) -> None:
        """Create a chat with the model, tools, permissions, limits and history of `engine`.

        The chat waits where the permissions ask for an approval. An engine without `permissions=` runs its tools
        unasked; in a chat with it, only read-only tools do, and every other call waits.

        Args:
            engine: The engine.
            search: Finds the tools that the model is offered.
            llms: Makes the LLM for the name in a LOAD_MODEL event.
            perform: Functions that replace kinds of work: `{"generate": my_generate}`.
            actions: Functions that replace actions of the transition table, by the names in `ACTIONS`
                (chat_transitions.py). They take the `Draft` of the next context and the event.

        Raises:
            ValueError: If `perform` or `actions` has an unknown name.
        """
        require("engine", engine, Engine, "Engine")
        functions = {"llms": llms, **_named("perform", perform), **_named("actions", actions)}
        for name, function in (functions if search is None else {"search": search, **functions}).items():
            require_callable(name, function, "a function")
        setup = engine.setup
        permissions = Permissions("auto") if setup.permissions is UNGUARDED else setup.permissions
        setup = replace(setup, permissions=replace(permissions, approve="later"))
        core = EngineStages(setup, engine.transcript.spending, search or LexicalSearch(limit=OFFERED), llms)
        self.engine: Engine = engine
        self._perform: Mapping[Order, Perform] = {**core.performs, **(perform or {})}
        if unknown := self._perform.keys() - core.performs.keys():
            raise ValueError(f"perform= has {', '.join(map(repr, unknown))}; the orders are {', '.join(core.performs)}")
        self._actions: Mapping[str, Action] = dict(actions or {})
        if other := self._actions.keys() - ACTIONS.keys():
            raise ValueError(f"actions= has {', '.join(map(repr, other))}; the actions are {', '.join(ACTIONS)}")
        self._now: tuple[ChatState, ChatContext] = (
            "idle",
            ChatContext(engine.history, max_rounds=setup.max_rounds),
        )
        self._lock = RLock()
        self._events: deque[ChatEvent] = deque()  # what listeners have dispatched
        self._busy = self._closed = False
        self._listeners: dict[object, Listener] = {}
        self._works: list[StageTask] = []
        self._waits: list[_Wait] = []
        self._waiters = Waiters()

    # What there is.

    @property
    def state(self) -> ChatState:
        """Where the chat is."""
        return self._now[0]

    @property
    def context(self) -> ChatContext:
        """What the chat knows."""
        return self._now[1]

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Have `listener` called after every event, those that are ignored too; gives what ends that.

        It is called where the event was dispatched, in any thread, and the next event waits for it: be quick.
        """
        key = object()
        with self._lock:
            self._listeners[key] = listener

        def end() -> None:
            self._listeners.pop(key, None)

        return end

    def snapshot(self) -> dict[str, Any]:
        """The whole chat, as plain JSON-ready data."""
        state, context = self._now
        return {"version": 1, "state": state, "context": context.to_dict()}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Go on with the chat that `snapshot` made `data` from.

        Work that went on then is not begun again by itself: it counts as stopped, and RETRY_* begins it. Whoever has
        subscribed hears of a `Restored`.
        """
        state, context = read_snapshot(data)
        with self._lock:
            self._check()
            self._cancel_all()
            before, context = self.context, replace(context, max_rounds=self.engine.setup.max_rounds)
            self._now = (state, context)
            self._tell(ChatChange(Restored(), before, context, state, (state,)))
            if self.state not in RESTS:
                self._take(Stop())

    # What happens.

    def dispatch(self, event: ChatEvent | Mapping[str, Any] | str) -> ChatChange | None:
        """Have something happen; gives what came of it at once. From any thread.

        Plain data is what a person may say: `{"type": "QUEUE_MESSAGE", "message": "Hello"}`, `"INTERRUPT"`. From
        within a listener it gives None: the event is dealt with when all have heard of the one before.
        """
        self._check()
        if isinstance(event, ChatEvent):
            return self._take(event)
        if not isinstance(event, str) and not hasattr(event, "keys"):
            raise TypeError(f"{event!r:.60} is no event: use QueueMessage('Hello.'), or plain data, as JSON gives it")
        return self._take(said(event))

    def _take(self, event: ChatEvent) -> ChatChange | None:
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
        came = transition(state, before, event, self._actions)
        self._now = (came.state, came.context)
        if came.ignored:
            logger.debug("the chat ignores %s while it is %s", event.type, state)
        for effect in came.effects:
            self._carry_out(effect)
        change = ChatChange(event, before, came.context, came.state, came.path, came.ignored)
        self._tell(change)
        return change

    def _tell(self, change: ChatChange) -> None:
        for listener in tuple(self._listeners.values()):
            try:
                listener(change)
            except Exception:  # the user's listener: logged, the chat goes on
                # A listener is the user's own code: its faults are shown, and are none of the chat's.
                logger.exception("a listener failed on %s", change.event.type)
        self._reach(change.state)

    # Work.

    def _carry_out(self, effect: Effect) -> None:
        if effect.order == "cancel":
            self._cancel(effect.run)
            return
        work = StageTask(effect.run, self.context, self._hear, concurrent=self._concurrent)
        main = partial(self._do, work, effect.order)
        self._works.append(work)
        try:
            work.job = start_job(main, concurrent=self._concurrent, name=f"chat {effect.order}")
        except RuntimeError as error:  # there are no more threads, or the event loop is closed
            self._fail(work, effect.order, error)
            self._works.remove(work)

    async def _do(self, work: StageTask, order: Order) -> None:
        try:
            await work.do(self._perform[order])
        except Interrupted:
            pass
        except BaseException as error:  # whatever ends work is told as the failure of its stage
            if self._concurrent and is_loop_ending(error):
                self._close()  # nothing more can be done in it
            else:
                self._fail(work, order, error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._works.remove(work)

    def _fail(self, work: StageTask, order: Order, error: BaseException) -> None:
        """Tell that work has failed. What is no error of ours may be a bug, and is logged with all of it."""
        begun = order == "generate" and self.state == "streaming_response"
        kind: type[Failure] = StreamError if begun else FAILURES[order]
        known = isinstance(error, (ToolcastError, ImportError))  # an extra that is missing is named by its error
        if not work.cancellation.cancelled and not known:
            logger.error("%s of a chat failed", order, exc_info=error)
        words = str(error) if known else f"{type(error).__name__}: {error}".removesuffix(": ")
        work.tell(kind(words or type(error).__name__, retryable=getattr(error, "retryable", not known)))

    def _hear(self, work: StageTask, event: WorkEvent) -> None:
        """Take what work tells. Nobody wants to know it of a chat that is closed, or of what was given up meanwhile."""
        with self._lock:
            if not self._closed and not work.cancellation.cancelled:
                self._take(event)

    def _cancel(self, run: int) -> None:
        for work in tuple(self._works):
            if work.run == run:
                work.cancellation.cancel()

    def _cancel_all(self) -> list[BackgroundJob]:
        works = tuple(self._works)
        for work in works:
            work.cancellation.cancel()
        return [work.job for work in works if work.job is not None]

    # Waiting and ending.

    def _wait_for(self, states: tuple[ChatState, ...]) -> _Wait:
        unknown = set(states).difference(STATES)
        if unknown:
            raise ValueError(f"a chat is never {', '.join(map(str, unknown))}; its states are {', '.join(STATES)}")
        wait = _Wait(states or RESTS)
        with self._lock:
            self._check()
            if self._busy:
                raise IllegalState("a listener cannot wait: nothing happens before it is back", state=self.state)
            wait.see(self.state)
            self._waits.append(wait)
        return wait

    def _reach(self, state: ChatState) -> None:
        for wait in self._waits:
            wait.see(state)
        self._waiters.wake()

    def _reached(self, wait: _Wait) -> ChatState:
        if wait.reached is None:
            raise IllegalState(f"the chat was closed while it was {self.state}", state="closed")
        return wait.reached

    def _close(self) -> list[BackgroundJob]:
        """End what goes on; gives the jobs that must end now. For a listener nothing ends before it is back."""
        with self._lock:
            self._closed = True
            jobs = self._cancel_all()
            for wait in self._waits:
                wait.over = True
            self._waiters.wake()
            return [] if self._busy else jobs

    def _check(self) -> None:
        if self._closed:
            raise IllegalState("the chat is closed; restore its snapshot() in another", state="closed")


def _named(name: str, functions: Mapping[Any, object] | None) -> dict[str, object]:
    return {f"{name}[{key!r}]": function for key, function in (functions or {}).items()}


class ChatMachine(_Chat, Closing):
    """A chat whose work goes on in threads."""

    _concurrent = False

    def run_until(self, *states: ChatState, timeout: float | None = None) -> ChatState:
        """Wait until one of `states` is reached, be it for a moment, and give it. `TimeoutError` after so many seconds.

        A `ready` that leads on at once does not count. Without `states`: until nothing goes on, but for a person.
        """
        wait = self._wait_for(states)
        try:
            if not self._waiters.block(wait.ended, timeout):
                raise TimeoutError(f"the chat is {self.state} after {timeout} seconds, not {' or '.join(wait.states)}")
            return self._reached(wait)
        finally:
            self._waits.remove(wait)

    def close(self) -> None:
        """End the chat, and what goes on; waits a while for its end. Harmless when repeated."""
        until = monotonic() + GRACE
        for job in self._close():
            if job.thread != get_ident():
                job.wait(max(until - monotonic(), 0))


class AsyncChatMachine(_Chat, AsyncClosing):
    """A chat whose work goes on in tasks of the event loop that `dispatch` is called in.

    It is closed where the loop ends while work goes on; its `snapshot` can be restored in another.
    """

    _concurrent = True

    def dispatch(self, event: ChatEvent | Mapping[str, Any] | str) -> ChatChange | None:
        """Have something happen; gives what came of it at once. In the event loop: see `ChatMachine.dispatch`."""
        try:
            current_loop()
        except RuntimeError:
            raise RuntimeError("no event loop here; from a thread: call_soon_threadsafe(chat.dispatch, ...)") from None
        return super().dispatch(event)

    async def run_until(self, *states: ChatState) -> ChatState:
        """Wait until one of `states` is reached, be it for a moment, and give it.

        A `ready` that leads on at once does not count. Without `states`: until nothing goes on, but for a person.
        """
        wait = self._wait_for(states)
        try:
            await self._waiters.suspend(wait.ended)
            return self._reached(wait)
        finally:
            self._waits.remove(wait)

    async def aclose(self) -> None:
        """End the chat, and what goes on; waits a while for its end. Harmless when repeated."""
        jobs = self._close()
        if jobs:
            await join_all(jobs, GRACE)
