"""The sessions that are served: each belongs to one user and thread, and its runs go on without their client.

A run's events are encoded anew for each reader. The encoder is deterministic, so a reader that was disconnected skips
the messages that it has.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Hashable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from hmac import compare_digest
from itertools import takewhile
from secrets import token_hex
from typing import Any, Final, TypeAlias

import anyio
from typing_extensions import TypeIs

from ..agents.sessions.session import Session
from ..async_support.background_jobs import BackgroundJob, start_job
from ..async_support.broadcast import AsyncSubscription
from ..async_support.callbacks import call_function
from ..events import AgentEvent, ErrorEvent
from ..messages import Message
from ..values.approvals import ApprovalDecision, PermissionRequest
from ..values.turn import Turn
from .protocol import FrontEndProtocol, PublicError, RequestError, RunInput
from .public_errors import public_error
from .served_runs import ServedRun, encoded, visible
from .user_limits import RequestRefused, RunSlot

Key: TypeAlias = tuple[Hashable, str]

_OWNER: Final = "principal"
"""The detail of a saved session that names its user."""


class SessionRun:
    """One turn of a session, which goes on without its readers."""

    def __init__(self, session: Session[Any], run: RunInput, protocol: FrontEndProtocol, slot: RunSlot) -> None:
        self.name: str = token_hex(8)
        self.protocol: FrontEndProtocol = protocol
        self.input: RunInput = run
        self._session = session
        self._slot = slot
        self._turn: Turn[Any] | None = None
        self._error: PublicError | None = None
        self.job: BackgroundJob = start_job(self._watch, concurrent=True, name=f"run {self.name}")

    async def _watch(self) -> None:
        """Wait for the end of the turn, whether or not there is a reader."""
        try:
            self._turn = await self._session.aresult()
        except Exception as error:  # the end of the turn: each reader gets it as a message
            self._error = public_error(error)
        finally:
            self._slot.release()

    async def result(self) -> Turn[Any]:
        """Wait for the turn's end and return it. Raises `RequestRefused` with the error that ended it."""
        await self.job.join()
        if self._turn is None:
            error = self._error or PublicError(500, "internal_error", "the run was interrupted")
            raise RequestRefused(error.status, error.code, error.message)
        return self._turn

    async def messages(self, events: AsyncSubscription[AgentEvent]) -> AsyncGenerator[list[str]]:
        """Yield the encoded messages from the first."""
        async with (
            aclosing(_shown(events)) as shown,
            aclosing(encoded(self.protocol.encoder(self.input), shown, self.result)) as encoding,
        ):
            async for messages in encoding:
                yield messages


async def _shown(events: AsyncSubscription[AgentEvent]) -> AsyncGenerator[AgentEvent]:
    async for event in events:
        if events.has_gap:
            raise RequestRefused(410, "events_lost", "the reader was too slow, or too late: read the thread's status")
        shown = visible(event)
        if shown is not None and not isinstance(shown, ErrorEvent):
            yield shown


class SessionReader:
    """A reader of a run of a session: its end does not end the run."""

    def __init__(self, run: SessionRun, events: AsyncSubscription[AgentEvent]) -> None:
        self.name: str = run.name
        self.run: SessionRun = run
        self._events = events

    def messages(self) -> AsyncGenerator[list[str]]:
        """Yield the encoded messages from the first."""
        return self.run.messages(self._events)

    async def result(self) -> Turn[Any]:
        """Wait for the turn's end and return it."""
        return await self.run.result()

    def release(self) -> None:
        """End the reading; the run goes on."""


class ServedSession:
    """The session of one user and thread, with its last run. `lock` is for opening it and beginning a run."""

    def __init__(self, key: Key) -> None:
        self.key: Key = key
        self.lock: anyio.Lock = anyio.Lock()
        self.run: SessionRun | None = None
        self._session: Session[Any] | None = None

    @property
    def session(self) -> Session[Any] | None:
        """The session, if it is open."""
        return None if self._session is None or self._session.state == "closed" else self._session

    @session.setter
    def session(self, session: Session[Any]) -> None:
        self._session, self.run = session, None

    @property
    def is_idle(self) -> bool:
        """True if no run is in progress."""
        return self.session is None or self.session.state == "idle"

    def stop(self) -> None:
        """Stop the run in progress, if there is one."""
        if self._session is not None:
            self._session.cancel()

    async def aclose(self) -> None:
        """Close the session, if it is open."""
        if self._session is not None:
            await self._session.aclose()

    def reader(self) -> SessionReader | None:
        """Return a reader of the last run from its first event; None if there was no run."""
        session = self.session
        return None if self.run is None or session is None else SessionReader(self.run, session.aevents())

    def status(self) -> dict[str, Any]:
        """Return the state with the calls that wait for a decision, as JSON data."""
        session = self.session
        pending = () if session is None else session.pending
        return {
            "thread_id": self.key[1],
            "state": "closed" if session is None else session.state,
            "run": None if self.run is None else self.run.name,
            "pending": [{**request.to_dict(), "fingerprint": request.fingerprint} for request in pending],
        }


class SessionTarget:
    """The sessions of all users, which a function of the application opens."""

    def __init__(self, factory: Callable[[Any, str], Any], limit: int) -> None:
        self._factory = factory
        self._limit = limit
        self._served: dict[Key, ServedSession] = {}  # the one that was used longest ago comes first

    async def begin(self, user: Any, run: RunInput, protocol: FrontEndProtocol, slot: RunSlot, deps: Any) -> ServedRun:
        """Begin a turn with the new messages of the user, or with decisions, and return its reader."""
        if not run.thread_id:
            raise RequestError("the id of the thread is missing: its session has the conversation")
        async with self._opened(user, run.thread_id) as (served, session):
            if session.state != "idle":
                raise RequestRefused(
                    409, "busy", "the thread has a run in progress: read its events, or stop it, before the next one"
                )
            if served.run is not None:
                await served.run.job.join()
            answers = matching_decisions(session.pending, run.decisions)
            message = None if answers else new_messages(run.messages)
            spending = session.engine.conversation.spending
            if slot.spending is not None and spending is not slot.spending:
                spending.parent = spending.parent or slot.spending
            await session.asend(message, answers=answers, deps=deps)
            served.run = SessionRun(session, run, protocol, slot)
            return SessionReader(served.run, session.aevents())

    def find(self, user: Any, thread_id: str) -> ServedSession:
        """Return an open session of the user. Raises `RequestRefused` if there is none."""
        served = self._served.get((user, thread_id))
        if served is None or served.session is None:
            raise no_thread(thread_id)
        return served

    async def look_up(self, user: Any, thread_id: str) -> ServedSession:
        """Return a session of the user, opened if it has a history. Raises `RequestRefused` if there is none."""
        async with self._opened(user, thread_id) as (served, session):
            if session.engine.history or served.run is not None:
                return served
            del self._served[served.key]
            await session.aclose()
        raise no_thread(thread_id)

    @asynccontextmanager
    async def _opened(self, user: Any, thread_id: str) -> AsyncGenerator[tuple[ServedSession, Session[Any]]]:
        """Lock the session of a user and thread, opened by the application's function if it is not open."""
        key = (user, thread_id)
        while True:
            served = self._served.setdefault(key, ServedSession(key))
            async with served.lock:
                if self._served.get(key) is not served:  # it could not be opened, or was closed, in the meantime
                    continue
                self._served[key] = self._served.pop(key)  # as the last one
                session = served.session
                if session is None:
                    try:
                        session = served.session = await self._open(user, thread_id)
                    except BaseException:
                        del self._served[key]
                        raise
                    await self._close_oldest()
                yield served, session
                return

    async def _open(self, user: Any, thread_id: str) -> Session[Any]:
        try:
            session: object = await call_function(self._factory, user, thread_id, concurrent=True)
        except LookupError:
            raise no_thread(thread_id) from None
        if not _is_session(session):
            raise TypeError(f"expected the session factory to return a Session, got {type(session).__name__}")
        if any(other.session is session for other in self._served.values()):
            raise no_thread(thread_id)  # it is another user's, or another thread's
        if isinstance(user, (str, int)):
            if session.details.get(_OWNER, user) != user:
                await session.aclose()
                raise no_thread(thread_id)
            session.describe(**{_OWNER: user})
        return session

    async def _close_oldest(self) -> None:
        """Close idle sessions as long as there are too many."""
        idle = [each for each in self._served.values() if not each.lock.locked() and each.is_idle]
        for served in idle[: max(0, len(self._served) - self._limit)]:
            del self._served[served.key]
            await served.aclose()

    async def aclose(self) -> None:
        """Close all sessions, and cancel their runs."""
        while self._served:
            _, served = self._served.popitem()
            await served.aclose()


def _is_session(value: object) -> TypeIs[Session[Any]]:
    return isinstance(value, Session)


def no_thread(thread_id: str) -> RequestRefused:
    """Return the error for a thread that the user does not have: also for one of another user."""
    return RequestRefused(404, "no_such_thread", f"there is no thread {thread_id!r:.150}")


def new_messages(messages: Sequence[Message]) -> list[Message]:
    """Return the user's messages after the last one of the assistant: those before are in the session."""
    new = [*takewhile(lambda message: message.role == "user", reversed(messages))][::-1]
    if not new:
        raise RequestError("messages: expected a new message of the user at the end, or a decision about a tool call")
    return new


def matching_decisions(
    pending: Iterable[PermissionRequest], decisions: Sequence[ApprovalDecision]
) -> tuple[ApprovalDecision, ...]:
    """Return the decisions, if each is for a call that waits, with its exact arguments; otherwise none is applied.

    Raises:
        RequestRefused: A decision is forged, repeated, or for a call that does not wait (any more).
    """
    waiting = {request.call_id: request.fingerprint for request in pending}
    for decision in decisions:
        expected = waiting.pop(decision.call_id, None)
        if expected is None or not compare_digest(expected.encode(), decision.fingerprint.encode("utf-8", "replace")):
            raise RequestRefused(
                409,
                "approval_refused",
                f"the decision about the call {decision.call_id!r:.100} is refused: no such call with these arguments "
                "waits for one. Read the thread's status for those that do",
            )
    return tuple(decisions)
