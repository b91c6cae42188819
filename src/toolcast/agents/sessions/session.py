"""`Session`: one engine, a conversation that goes on by itself and can be left and found again.

`send` starts a turn and returns; the turn goes on in a thread (`asend`: in a task of the event loop), whether or not
somebody reads its events. A session with a store writes down what the engine remembers before every step that
matters, so that it is resumed after a crash in any state. Its states are the table `SESSION` (toolcast.states).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import Any, Final, Self
from uuid import uuid4

from typing_extensions import TypeForm, TypeVar

from ...approvals import ApprovalDecision, PermissionRequest
from ...async_support.background_jobs import join_all, start_job
from ...async_support.broadcast import AsyncSubscription, Broadcast, Subscription
from ...closing import AsyncClosing, Closing
from ...errors import IllegalState, TurnCancelled
from ...events import AgentEvent, ErrorEvent
from ...llms.request import Messages
from ...option_types import require, require_callable, require_text
from ...states import SESSION, Observer, Trace
from ...stores.store import Store
from ...turn import Turn
from ..engine.compaction import token_state
from ..engine.engine import Engine
from ..engine.history import estimated_tokens
from .persistence import SavedSession
from .turn import SessionTurn

T = TypeVar("T", default=None)

logger: Final = logging.getLogger("toolcast")

_NOTHING: Final[Broadcast[AgentEvent]] = Broadcast()
_NOTHING.close()


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """How a session is. `tokens_used` is how much of the model's context its history takes, `tokens_max` all of it.

    `token_state` is `ok`, `warning` or `critical`; `tokens_max` is None where the model is not known.
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
        """How full the context is, in percent."""
        return None if self.tokens_max is None else 100 * self.tokens_used / self.tokens_max


class Session(Closing, AsyncClosing):
    """A conversation with one engine, turn after turn, each going on whether or not anybody reads its events.

    With a `store` it is kept under its `id`, and `Session.resume` finds it again. Nobody else may have it open
    meanwhile: that is `SessionLocked`. An engine belongs to one open session: a second is an `IllegalState`.
    `observer(session_id, state)` hears of every state.
    """

    def __init__(
        self, engine: Engine, *, id: str | None = None, store: Store | None = None, observer: Observer | None = None
    ) -> None:
        require("engine", engine, Engine, "Engine")
        require_text("id", id)
        if observer is not None:
            require_callable("observer", observer, "a function of (session_id, state), or None")
        self.id: str = id or uuid4().hex
        self.engine: Engine = engine
        self._saved: SavedSession | None = None
        self._trace = Trace(SESSION, observer)
        self._trace.call_id = self.id
        self._lock = RLock()  # an observer may call what it likes
        self._turn: SessionTurn | None = None  # that is going on, or was the last
        engine.join(self)
        with self._unless_it_fails():
            self._saved = None if store is None else SavedSession.new(self.id, store)

    @classmethod
    def resume(cls, id: str, engine: Engine, store: Store, *, observer: Observer | None = None) -> Self:
        """The session `id` as the store has it, in whatever state it was left; `engine` gets its history.

        Where it was left in the middle of a turn (`unfinished`), `send()` without text goes on with that.
        """
        made = cls(engine, id=id, observer=observer)
        with made._unless_it_fails():
            made._saved = SavedSession.found(id, store)
            engine.restore(made._saved.state)
        return made

    # What there is.

    @property
    def state(self) -> str:
        """`idle`, `active`, `cancelling` or `closed`."""
        return self._trace.state

    @property
    def pending(self) -> tuple[PermissionRequest, ...]:
        """What somebody has to be asked before the turn can go on: `send(answers=[...])` goes on with it."""
        return () if self._goes_on else self.engine.pending

    @property
    def unfinished(self) -> bool:
        """Whether the history ends in the middle of a turn: `send()` without text goes on with it."""
        history = self.engine.history
        if not history or self.engine.transcript.end == "output":  # a typed result is a call, which has an answer
            return False
        return history[-1].role != "assistant" or bool(history[-1].tool_calls)

    @property
    def status(self) -> SessionStatus:
        """How the session is, and how full the model's context."""
        known, transcript = self.engine.llm.metadata, self.engine.transcript
        used = transcript.context_tokens or estimated_tokens(self.engine.history)
        limit = known.capabilities.context_window
        level = token_state(used, limit)
        return SessionStatus(self.state, known.provider, known.model_name, used, limit, level, transcript.turns)

    # Turns.

    def send(
        self, message: Messages | None = None, *, output_cls: Any = None, answers: Iterable[ApprovalDecision] = ()
    ) -> None:
        """Start a turn, in a thread: see `Engine.submit`. Raises `IllegalState` unless the session is idle."""
        self._start(SessionTurn(), message, output_cls, answers)

    async def asend(
        self, message: Messages | None = None, *, output_cls: Any = None, answers: Iterable[ApprovalDecision] = ()
    ) -> None:
        """Start a turn, in a task of this event loop: see `Engine.submit`. `IllegalState` unless it is idle."""
        self._start(SessionTurn(concurrent=True), message, output_cls, answers)

    def events(self) -> Subscription[AgentEvent]:
        """The events of the turn, from its first; they end with the turn. Without a turn there are none."""
        return self._events.iterate()

    def aevents(self) -> AsyncSubscription[AgentEvent]:
        """The events of the turn, from its first; they end with the turn. Without a turn there are none."""
        return self._events.aiterate()

    def result(self, timeout: float | None = None) -> Turn[Any]:
        """The turn, once it has ended; raises what ended it otherwise. `TimeoutError` after so many seconds."""
        turn = self._begun()
        if not turn.wait(timeout):
            raise TimeoutError(f"the turn goes on after {timeout} seconds; cancel() ends it")
        return self._ended(turn)

    async def aresult(self) -> Turn[Any]:
        """The turn, once it has ended; raises what ended it otherwise."""
        turn = self._begun()
        await turn.join()
        return self._ended(turn)

    def run(
        self,
        message: Messages | None = None,
        *,
        output_cls: TypeForm[T] = None,  # type: ignore[assignment]  # where there is none, T is None
        answers: Iterable[ApprovalDecision] = (),
    ) -> Turn[T]:
        """A whole turn. Ctrl-C cancels it, and waits a while for its end."""
        turn = SessionTurn()
        try:
            self._start(turn, message, output_cls, answers)
            turn.wait()
        except BaseException:
            if self._cancel(turn):
                turn.wait(turn.grace)
            raise
        return turn.result()

    async def arun(
        self,
        message: Messages | None = None,
        *,
        output_cls: TypeForm[T] = None,  # type: ignore[assignment]  # where there is none, T is None
        answers: Iterable[ApprovalDecision] = (),
    ) -> Turn[T]:
        """A whole turn, awaited. Being cancelled here cancels it, and waits a while for its end."""
        turn = SessionTurn(concurrent=True)
        try:
            self._start(turn, message, output_cls, answers)
            await turn.join()
        except BaseException:
            if self._cancel(turn):
                await join_all([turn], turn.grace)
            raise
        return turn.result()

    def cancel(self) -> None:
        """End the turn that is going on, from any thread. Without one, nothing happens."""
        if self._turn is not None:
            self._cancel(self._turn)

    def close(self) -> None:
        """End the session, and a turn that is going on; waits a while for its end. Harmless when repeated."""
        turn = self._close()
        if turn is None:
            return
        if not turn.would_wait_for_itself:
            turn.wait(turn.grace)
        self._give_up(turn)

    async def aclose(self) -> None:
        """End the session, and a turn that is going on; waits a while for its end. Harmless when repeated."""
        turn = self._close()
        if turn is None or turn.is_around:
            return
        await join_all([turn], turn.grace)
        self._give_up(turn)

    # How a turn goes.

    def _start(
        self, turn: SessionTurn, message: Messages | None, output_cls: Any, answers: Iterable[ApprovalDecision]
    ) -> None:
        """Begin `turn`. Where this raises and it is the session's turn all the same, somebody has begun to work."""
        with self._lock:
            if self.state != "idle":
                raise IllegalState(f"the session cannot send while it is {self.state}", state=self.state)
            if self._saved is not None:
                self._saved.check()
            turn.flow = self.engine.begin(
                message, output_cls, answers, concurrent=turn.concurrent, checkpoint=self._checkpoint
            )
            self._turn = turn
            with turn.around():
                try:
                    self._trace.step("sent")
                    start_job(partial(self._work, turn), concurrent=turn.concurrent, name=f"session {self.id}")
                except BaseException:  # there are no more threads; or Ctrl-C, and then a thread may work already
                    if turn.taken():
                        turn.flow.abandon()
                        self._end(turn)
                    raise

    async def _work(self, turn: SessionTurn) -> None:
        if not turn.taken():
            return
        try:
            while events := await turn.flow.next_events():
                for event in events:
                    turn.events.put(event)
        except (KeyboardInterrupt, SystemExit) as error:
            turn.error = error  # of a tool: it is meant for the whole program, so whoever asks shall get it
            raise
        finally:
            self._end(turn)

    def _end(self, turn: SessionTurn) -> None:
        if turn.done:  # it was given up, and only now is what was left of it forgotten
            return
        try:
            self._leave_turn()
        except Exception as error:  # the user's store: what it raises is raised by `result`
            # The store is the user's own code: what it raises is raised by `result`, where someone hears it.
            logger.warning("the end of a turn could not be saved in session %s: %s", self.id, error)
            turn.error = turn.error or turn.flow.error or error
        except BaseException as error:
            turn.error = error
            raise
        finally:
            turn.end()

    def _leave_turn(self) -> None:
        try:
            if self._checkpoint is not None:
                self._checkpoint()
        finally:
            with self._lock:
                if self.state == "closed":
                    self._let_go()
                else:
                    self._trace.step("ended")

    @property
    def _checkpoint(self) -> Callable[[], None] | None:
        # Not one of our own methods: turns keep it, and would keep a session that everybody has forgotten.
        return None if self._saved is None else partial(self._saved.save, self.engine)

    def _let_go(self) -> None:
        """Let others have the session, and its engine."""
        self.engine.leave(self)
        if self._saved is not None:
            self._saved.close()

    @contextmanager
    def _unless_it_fails(self) -> Generator[None]:
        try:
            yield
        except BaseException:
            self._let_go()
            raise

    def _cancel(self, turn: SessionTurn) -> bool:
        """Cancel this turn, and no other that may have begun since. Gives whether it is to end now."""
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
        """Close, and give the turn that must end now, if there is one."""
        with self._lock:
            idle, turn = self.state == "idle", self._turn
            try:
                if self.state != "closed":
                    self._trace.step("closed")
            finally:
                if idle:
                    self._leave()
                elif turn is not None and not turn.done:
                    self._stop(turn)
        return None if turn is None or turn.done else turn

    def _leave(self) -> None:
        """Write what was injected since the last turn, or could not be written then, and let go."""
        try:
            if self._saved is not None and self._saved.is_ours:
                self._saved.save(self.engine)
        finally:
            self._let_go()

    def _stop(self, turn: SessionTurn) -> None:
        if turn.is_lost:
            self._give_up(turn)
        else:
            turn.flow.cancellation.cancel()

    def _give_up(self, turn: SessionTurn) -> None:
        """End a turn with which nobody goes on, if it is one."""
        with self._lock:
            if turn.done or not turn.is_stranded:
                return
            if turn.is_ours:
                turn.flow.abandon()
                turn.error = turn.flow.error
            else:  # its connections are the parent's too
                turn.error = TurnCancelled(f"the turn goes on in process {turn.process}; this is its forked child")
            assert turn.error is not None
            turn.events.put(ErrorEvent(turn.error))
            self._end(turn)

    def _ended(self, turn: SessionTurn) -> Turn[Any]:
        if turn.is_lost:
            self._give_up(turn)
        return turn.result()

    @property
    def _goes_on(self) -> bool:
        return self._turn is not None and not self._turn.done

    @property
    def _events(self) -> Broadcast[AgentEvent]:
        return _NOTHING if self._turn is None else self._turn.events

    def _begun(self) -> SessionTurn:
        if self._turn is None:
            raise IllegalState("the session has no turn to give the result of; send() starts one", state=self.state)
        return self._turn
