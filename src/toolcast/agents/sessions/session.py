"""`Session`: a conversation with one engine, whose turns run in the background and are saved in a store.

`send` starts a turn and returns; the turn runs in a thread (`asend`: in a task of the event loop), whether or not its
events are read. A session with a store saves the engine's conversation before every tool call and after every step, so
it can be resumed after a crash in any state. Its states are the table `SESSION` (toolcast.values.states).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Any, Final, Generic, cast, overload
from uuid import uuid4

from typing_extensions import TypeForm, TypeVar, Unpack

from ...async_support.background_jobs import join_all, start_job
from ...async_support.broadcast import AsyncSubscription, Broadcast, Subscription
from ...async_support.closing import AsyncClosing, Closing
from ...errors import IllegalState, TurnCancelled
from ...events import AgentEvent, ErrorEvent
from ...lazy.lazy_dataclasses import dataclass
from ...llms.request import Messages
from ...stores.store import Store
from ...text.reprs import safe_repr
from ...values.approvals import PermissionRequest
from ...values.option_types import require_callable, require_text
from ...values.states import SESSION, Observer, Trace
from ...values.turn import Turn
from ..engine.compaction import token_state
from ..engine.engine import Conversational, Engine, as_engine
from ..engine.history import estimate_tokens
from ..engine.turn_request import TurnOptions
from .saved_session import SavedSession
from .session_turn import SessionTurn

T = TypeVar("T")
E = TypeVar("E")
D = TypeVar("D", default=Any)
Output_co = TypeVar("Output_co", covariant=True, default=None)

logger: Final = logging.getLogger("toolcast")

_NO_EVENTS: Final[Broadcast[AgentEvent]] = Broadcast()
_NO_EVENTS.close()


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """The state of a session, and the tokens of the model's context window that it uses.

    `token_state` is `ok`, `warning` or `critical`; `tokens_max` is None if the model's limit is unknown.
    """

    state: str
    provider: str
    model: str
    tokens_used: int
    tokens_max: int | None
    token_state: str
    turn_count: int

    @property
    def token_percent(self) -> float | None:
        """The used part of the context window in percent."""
        return None if self.tokens_max is None else 100 * self.tokens_used / self.tokens_max


class Session(Closing, AsyncClosing, Generic[D, Output_co]):
    """A conversation with one engine, whose turns run whether or not their events are read.

    With a `store` it is saved under its `id`, and `Session.resume` opens it again. Only one process may have it open:
    another gets `SessionLocked`. An engine belongs to one open session: a second raises `IllegalState`. An `Agent` in
    its place begins a new conversation. `observer(session_id, state)` is called with every state.
    """

    def __init__(
        self,
        engine: Engine[D, Output_co] | Conversational[D, Output_co],
        *,
        id: str | None = None,
        store: Store | None = None,
        observer: Observer | None = None,
    ) -> None:
        engine = as_engine(engine)
        require_text("id", id)
        if observer is not None:
            require_callable("observer", observer, "a function of (session_id, state), or None")
        self.id: str = id or uuid4().hex
        self.engine: Engine[D, Output_co] = engine
        self._saved: SavedSession | None = None
        self._trace = Trace(SESSION, observer)
        self._trace.call_id = self.id
        self._lock = RLock()  # an observer may call any method
        self._turn: SessionTurn | None = None  # the current or the last one
        engine.attach(self)
        with self._release_on_error():
            self._saved = None if store is None else SavedSession.new(self.id, store)

    @classmethod
    def resume(
        cls, id: str, engine: Engine[E, T] | Conversational[E, T], store: Store, *, observer: Observer | None = None
    ) -> Session[E, T]:
        """Open the saved session `id`, in whatever state it was left; `engine`, or that of an agent, gets its history.

        If it was left in the middle of a turn (`unfinished`), `send()` without a message continues that.
        """
        session = cast("Session[E, T]", cls(cast("Any", engine), id=id, observer=observer))
        with session._release_on_error():
            session._saved = SavedSession.load(id, store)
            session.engine.restore(session._saved.state)
        return session

    @safe_repr
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.engine!r}, id={self.id!r}, state={self.state!r})"

    # State.

    @property
    def state(self) -> str:
        """`idle`, `active`, `cancelling` or `closed`."""
        return self._trace.state

    @property
    def pending(self) -> tuple[PermissionRequest, ...]:
        """The approvals that the turn waits for: `send(answers=[...])` continues it."""
        return () if self._is_running else self.engine.pending

    @property
    def unfinished(self) -> bool:
        """True if the history ends in the middle of a turn: `send()` without a message continues it."""
        history = self.engine.history
        if not history or self.engine.conversation.end == "output":  # a typed result is a call, which has an answer
            return False
        return history[-1].role != "assistant" or bool(history[-1].tool_calls)

    @property
    def status(self) -> SessionStatus:
        """The state of the session, and the used part of the context window."""
        metadata, conversation = self.engine.llm.metadata, self.engine.conversation
        used = conversation.context_tokens or estimate_tokens(self.engine.history)
        limit = metadata.capabilities.context_window
        level = token_state(used, limit)
        return SessionStatus(self.state, metadata.provider, metadata.model_name, used, limit, level, conversation.turns)

    @property
    def details(self) -> Mapping[str, Any]:
        """The details of the saved session, from `describe`."""
        return {} if self._saved is None else self._saved.details

    def describe(self, **details: Any) -> None:
        """Add details for people to the saved session, for example `title="Bread"`. They are JSON data.

        A detail replaces an earlier one of the same name. The model does not see them, and a session without a store
        has none. They are written when the session is.
        """
        if self._saved is not None:
            self._saved.describe(details)

    def save(self) -> None:
        """Write what has changed since the last turn. The end of each turn does, and so does `close`."""
        with self._lock:  # else another thread may save, or begin a turn, and write the same messages again
            if self._saved is not None and not self._is_running:
                self._saved.save(self.engine)

    # Turns.

    def send(
        self, message: Messages | None = None, *, output_cls: Any = None, **options: Unpack[TurnOptions[D]]
    ) -> None:
        """Start a turn, in a thread: see `Engine.submit`. Raises `IllegalState` unless the session is idle."""
        self._start(SessionTurn(), message, output_cls, options)

    async def asend(
        self, message: Messages | None = None, *, output_cls: Any = None, **options: Unpack[TurnOptions[D]]
    ) -> None:
        """Start a turn, in a task of this event loop: see `Engine.submit`. `IllegalState` unless it is idle."""
        self._start(SessionTurn(concurrent=True), message, output_cls, options)

    def events(self) -> Subscription[AgentEvent]:
        """Return the events of the turn, from its first; they end with the turn. Without a turn there are none."""
        return self._events.iterate()

    def aevents(self) -> AsyncSubscription[AgentEvent]:
        """Return the events of the turn, from its first; they end with the turn. Without a turn there are none."""
        return self._events.aiterate()

    def result(self, timeout: float | None = None) -> Turn[Any]:
        """Wait for the turn's end and return it, or raise its error. `TimeoutError` after `timeout` seconds."""
        turn = self._require_turn()
        if not turn.wait(timeout):
            raise TimeoutError(f"the turn goes on after {timeout} seconds; cancel() ends it")
        return self._result_of(turn)

    async def aresult(self) -> Turn[Any]:
        """Wait for the end of the turn and return it, or raise what ended it."""
        turn = self._require_turn()
        await turn.join()
        return self._result_of(turn)

    @overload
    def run(
        self, message: Messages | None = None, *, output_cls: TypeForm[T], **options: Unpack[TurnOptions[D]]
    ) -> Turn[T]: ...
    @overload
    def run(
        self, message: Messages | None = None, *, output_cls: None = None, **options: Unpack[TurnOptions[D]]
    ) -> Turn[Output_co]: ...
    def run(
        self, message: Messages | None = None, *, output_cls: Any = None, **options: Unpack[TurnOptions[D]]
    ) -> Turn[Any]:
        """Run a turn to its end and return it. Ctrl-C cancels it, and waits a limited time for its end."""
        turn = SessionTurn()
        try:
            self._start(turn, message, output_cls, options)
            turn.wait()
        except BaseException:
            if self._cancel(turn):
                turn.wait(turn.grace)
            raise
        return turn.result()

    @overload
    async def arun(
        self, message: Messages | None = None, *, output_cls: TypeForm[T], **options: Unpack[TurnOptions[D]]
    ) -> Turn[T]: ...
    @overload
    async def arun(
        self, message: Messages | None = None, *, output_cls: None = None, **options: Unpack[TurnOptions[D]]
    ) -> Turn[Output_co]: ...
    async def arun(
        self, message: Messages | None = None, *, output_cls: Any = None, **options: Unpack[TurnOptions[D]]
    ) -> Turn[Any]:
        """Run a turn to its end and return it. Cancelling this call cancels it, and waits a while."""
        turn = SessionTurn(concurrent=True)
        try:
            self._start(turn, message, output_cls, options)
            await turn.join()
        except BaseException:
            if self._cancel(turn):
                await join_all([turn], turn.grace)
            raise
        return turn.result()

    def cancel(self) -> None:
        """Cancel the current turn, from any thread. Without one, do nothing."""
        if self._turn is not None:
            self._cancel(self._turn)

    def close(self) -> None:
        """Close the session, and cancel its turn; waits a limited time for its end. Idempotent."""
        turn = self._close()
        if turn is None:
            return
        if not turn.would_deadlock:
            turn.wait(turn.grace)
        self._abandon(turn)

    async def aclose(self) -> None:
        """Close the session, and cancel its turn; waits a limited time for its end. Idempotent."""
        turn = self._close()
        if turn is None or turn.is_current:
            return
        await join_all([turn], turn.grace)
        self._abandon(turn)

    # Implementation of turns.

    def _start(
        self,
        turn: SessionTurn,
        message: Messages | None,
        output_cls: Any,
        options: TurnOptions[D],
    ) -> None:
        """Begin `turn`. If this raises while the session has the turn, another thread already works on it."""
        with self._lock:
            if self.state != "idle":
                raise IllegalState(f"the session cannot send while it is {self.state}", state=self.state)
            if self._saved is not None:
                self._saved.check()
            turn.turn_loop = self.engine.begin(
                message,
                output_cls,
                options,
                concurrent=turn.concurrent,
                checkpoint=self._checkpoint,
            )
            self._turn = turn
            with turn.as_current():
                try:
                    self._trace.step("sent")
                    start_job(partial(self._run_turn, turn), concurrent=turn.concurrent, name=f"session {self.id}")
                except BaseException:  # there are no more threads; or Ctrl-C, and then a thread may work already
                    if turn.claim():
                        turn.turn_loop.abandon()
                        self._end(turn)
                    raise

    async def _run_turn(self, turn: SessionTurn) -> None:
        if not turn.claim():
            return
        try:
            while events := await turn.turn_loop.next_events():
                for event in events:
                    turn.events.put(event)
        except (KeyboardInterrupt, SystemExit) as error:
            turn.error = error  # from a tool: it is meant for the whole program, so `result` raises it too
            raise
        finally:
            self._end(turn)

    def _end(self, turn: SessionTurn) -> None:
        if turn.done:  # it was abandoned, and its remains are collected only now
            return
        try:
            self._save_turn()
        except Exception as error:  # the user's store: `result` raises its error
            # The store is the user's own code: `result` raises its error to the caller.
            logger.warning("the end of a turn could not be saved in session %s: %s", self.id, error)
            turn.error = turn.error or turn.turn_loop.error or error
        except BaseException as error:
            turn.error = error
            raise
        finally:
            turn.end()

    def _save_turn(self) -> None:
        try:
            if self._checkpoint is not None:
                self._checkpoint()
        finally:
            with self._lock:
                if self.state == "closed":
                    self._release()
                else:
                    self._trace.step("ended")

    @property
    def _checkpoint(self) -> Callable[[], None] | None:
        # Not a bound method: turns refer to it, and would keep an unused session alive.
        return None if self._saved is None else partial(self._saved.save, self.engine)

    def _release(self) -> None:
        """Release the saved session and the engine."""
        self.engine.detach(self)
        if self._saved is not None:
            self._saved.close()

    @contextmanager
    def _release_on_error(self) -> Generator[None]:
        try:
            yield
        except BaseException:
            self._release()
            raise

    def _cancel(self, turn: SessionTurn) -> bool:
        """Cancel this turn, and no later one; return True if it will end now."""
        with self._lock:
            if turn is not self._turn or turn.done:
                return False
            try:
                if self.state == "active":
                    self._trace.step("cancelled")
            finally:
                self._stop(turn)
        return True

    def _close(self) -> SessionTurn | None:
        """Close; return the turn that must end now, if there is one."""
        with self._lock:
            idle, turn = self.state == "idle", self._turn
            try:
                if self.state != "closed":
                    self._trace.step("closed")
            finally:
                if idle:
                    self._save_and_release()
                elif turn is not None and not turn.done:
                    self._stop(turn)
        return None if turn is None or turn.done else turn

    def _save_and_release(self) -> None:
        """Save what was injected since the last turn, or could not be saved then, and release."""
        try:
            if self._saved is not None and self._saved.is_in_this_process:
                self._saved.save(self.engine)
        finally:
            self._release()

    def _stop(self, turn: SessionTurn) -> None:
        if turn.is_lost:
            self._abandon(turn)
        else:
            turn.turn_loop.cancellation.cancel()

    def _abandon(self, turn: SessionTurn) -> None:
        """End a turn that no thread or event loop continues."""
        with self._lock:
            if turn.done or not turn.is_stranded:
                return
            if turn.is_in_this_process:
                turn.turn_loop.abandon()
                turn.error = turn.turn_loop.error
            else:  # its connections belong to the parent
                turn.error = TurnCancelled(f"the turn goes on in process {turn.process}; this is its forked child")
            assert turn.error is not None
            turn.events.put(ErrorEvent(turn.error))
            self._end(turn)

    def _result_of(self, turn: SessionTurn) -> Turn[Any]:
        if turn.is_lost:
            self._abandon(turn)
        return turn.result()

    @property
    def _is_running(self) -> bool:
        return self._turn is not None and not self._turn.done

    @property
    def _events(self) -> Broadcast[AgentEvent]:
        return _NO_EVENTS if self._turn is None else self._turn.events

    def _require_turn(self) -> SessionTurn:
        if self._turn is None:
            raise IllegalState("the session has no turn to give the result of; send() starts one", state=self.state)
        return self._turn
