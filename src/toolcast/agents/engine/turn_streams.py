"""What the caller holds while a turn goes on: its events, and in the end the turn.

Shells that only wait; what happens between two waits is in turn_flow.py. A failure is the last event, an
`ErrorEvent`, and is raised by `result()`. A stream that is closed or forgotten cancels its turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Generic

from typing_extensions import TypeVar

from ...approvals import ApprovalDecision
from ...async_support import sync_driver
from ...closing import AsyncClosing, Closing
from ...errors import StreamClosed
from ...events import AgentEvent
from ...turn import Turn
from ...usage import Usage
from .turn_loop import TurnFlow

T = TypeVar("T", default=Any)

Begin = Callable[[], TurnFlow]
"""Makes the turn that the engine is in from now on; raises `IllegalState` where it is in another."""


class _TurnState(Generic[T]):
    """The common base of both turn streams."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._flow: TurnFlow | None = None
        self._queue: list[AgentEvent[T]] = []
        self._position = 0
        self._closed = False

    @property
    def state(self) -> str:
        """Where the turn is: `idle` before its first event and after its last."""
        return "idle" if self._flow is None else self._flow.state

    @property
    def turn(self) -> Turn[T]:
        """What there is of the turn."""
        return Turn() if self._flow is None else self._flow.turn

    @property
    def usage(self) -> Usage:
        """Tokens used by the turn so far."""
        return self.turn.usage

    def answer(self, answer: ApprovalDecision) -> None:
        """Answer a `PermissionRequest` of this turn, before the approver is asked."""
        if not isinstance(answer, ApprovalDecision):  # pyright: ignore[reportUnnecessaryIsInstance] - True is soon said
            raise TypeError(f"{answer!r:.100} is no answer; the request makes one: request.allow()")
        self._begun().answers[answer.call_id] = answer

    def arguments(self, call_id: str) -> Any:
        """The arguments of a call that the model is writing, typed, as far as they have arrived; None before that."""
        return None if self._flow is None else self._flow.growing(call_id)

    def _begun(self) -> TurnFlow:
        if self._flow is None:
            if self._closed:
                raise StreamClosed("the stream was closed before its turn began; make another one")
            self._flow = self._begin()
        return self._flow

    async def _following(self) -> AgentEvent[T]:
        """Return the next event. Raises `StopAsyncIteration` at the end."""
        if self._position >= len(self._queue):
            if self._closed or (self._flow is not None and self._flow.ended):
                raise StopAsyncIteration
            self._queue, self._position = await self._begun().next_events(), 0
            if not self._queue:
                raise StopAsyncIteration
        event = self._queue[self._position]
        self._position += 1
        return event

    async def _stop(self) -> None:
        self._closed = True
        if self._flow is not None:
            await self._flow.close()


class TurnStream(_TurnState[T], Closing):
    """The events of a turn: iterate it; `result()` is the turn."""

    def __iter__(self) -> Iterator[AgentEvent[T]]:
        return self

    def __next__(self) -> AgentEvent[T]:
        try:
            return sync_driver.run(self._following())
        except StopAsyncIteration:
            raise StopIteration from None

    def result(self) -> Turn[T]:
        """The turn, once it has ended. Raises what ended it otherwise."""
        return sync_driver.run(self._begun().finish())

    def close(self) -> None:
        """Stop, and cancel the turn if it goes on. Harmless when repeated."""
        sync_driver.run(self._stop())

    def __del__(self) -> None:
        if self._flow is not None and not self._flow.ended:
            self.close()


class AsyncTurnStream(_TurnState[T], AsyncClosing):
    """The events of a turn, awaited: `async for`; `await result()` is the turn."""

    def __aiter__(self) -> AsyncIterator[AgentEvent[T]]:
        return self

    def __anext__(self) -> Coroutine[Any, Any, AgentEvent[T]]:
        return self._following()

    async def result(self) -> Turn[T]:
        """The turn, once it has ended. Raises what ended it otherwise."""
        return await self._begun().finish()

    async def aclose(self) -> None:
        """Stop, and cancel the turn if it goes on. Harmless when repeated."""
        await self._stop()

    def __del__(self) -> None:
        if self._flow is not None:
            self._flow.abandon()
