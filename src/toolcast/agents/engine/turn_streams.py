"""`TurnStream` and `AsyncTurnStream`: the events of a turn, and in the end the turn.

They only wait; turn_loop.py has the logic. A failure is the last event, an `ErrorEvent`, and is raised by `result()`. A
stream that is closed or garbage-collected cancels its turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from ...approvals import ApprovalDecision
from ...async_support import sync_driver
from ...closing import AsyncClosing, Closing, Uncopyable
from ...errors import StreamClosed
from ...events import AgentEvent
from ...reprs import safe_repr
from ...turn import Turn
from ...usage import Usage
from .turn_loop import TurnLoop

if TYPE_CHECKING:
    from ...live_display import LiveDisplay
    from .turn_view import TurnView

T = TypeVar("T", default=Any)

BeginTurn = Callable[[], TurnLoop]
"""Makes the turn that the engine is in from now on; raises `IllegalState` where it is in another."""


class _TurnStreamBase(Uncopyable, Generic[T]):
    """The common base of both turn streams."""

    def __init__(self, begin: BeginTurn) -> None:
        self._begin = begin
        self._beginning = RLock()
        self._turn_loop: TurnLoop | None = None
        self._queue: list[AgentEvent[T]] = []
        self._position = 0
        self._closed = False

    @property
    def state(self) -> str:
        """The state of the turn: `idle` before its first event and after its last."""
        return "idle" if self._turn_loop is None else self._turn_loop.state

    @property
    def turn(self) -> Turn[T]:
        """The turn so far."""
        return Turn() if self._turn_loop is None else self._turn_loop.turn

    @property
    def usage(self) -> Usage:
        """Tokens used by the turn so far."""
        return self.turn.usage

    @safe_repr
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.state}, {self.usage.describe()}>"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the turn so far."""
        from ...html_repr import html_of

        return html_of(self.turn)

    def _display(self) -> tuple[LiveDisplay, TurnView]:
        from ...live_display import LiveDisplay, find_surface  # most streams are not shown
        from .turn_view import TurnView

        turn_loop, view = self._require_begun(), TurnView()
        return LiveDisplay(lambda: view.frame(self.turn), turn_loop.now, find_surface()), view

    def answer(self, answer: ApprovalDecision) -> None:
        """Decide a `PermissionRequest` of this turn before the approver is called."""
        if not isinstance(answer, ApprovalDecision):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker may pass True
            raise TypeError(f"{answer!r:.100} is no answer; the request makes one: request.allow()")
        self._require_begun().answers[answer.call_id] = answer

    def arguments(self, call_id: str) -> Any:
        """Return the typed arguments received so far of the call `call_id`; None before the first."""
        return None if self._turn_loop is None else self._turn_loop.partial_arguments(call_id)

    def _require_begun(self) -> TurnLoop:
        if self._turn_loop is None:
            with self._beginning:  # once, in whichever thread is first
                if self._turn_loop is None:
                    if self._closed:
                        raise StreamClosed("the stream was closed before its turn began; make another one")
                    self._turn_loop = self._begin()
        return self._turn_loop

    async def _next_event(self) -> AgentEvent[T]:
        """Return the next event; raise `StopAsyncIteration` at the end."""
        if self._position >= len(self._queue):
            if self._closed:
                await self._cancel_and_close()  # it was left to this caller if it was reading
            if self._closed or (self._turn_loop is not None and self._turn_loop.ended):
                raise StopAsyncIteration
            self._queue, self._position = await self._require_begun().next_events(), 0
            if not self._queue:
                raise StopAsyncIteration
        event = self._queue[self._position]
        self._position += 1
        return event

    async def _cancel_and_close(self) -> None:
        self._closed = True
        if self._turn_loop is not None:
            await self._turn_loop.close()


class TurnStream(_TurnStreamBase[T], Closing):
    """The events of a turn: iterate it; `result()` is the turn."""

    def __iter__(self) -> Iterator[AgentEvent[T]]:
        return self

    def __next__(self) -> AgentEvent[T]:
        try:
            return sync_driver.run(self._next_event())
        except StopAsyncIteration:
            raise StopIteration from None

    def result(self) -> Turn[T]:
        """Return the turn once it has ended, or raise what ended it."""
        return sync_driver.run(self._require_begun().finish())

    def show(self) -> Turn[T]:
        """Read the rest, display the steps of the turn as they arrive, and return the turn, as `result` does.

        In a notebook one output of the cell is updated, at most ten times a second; on a terminal the lines are drawn
        again. Elsewhere the steps are printed once, at the end.
        """
        display, view = self._display()
        with display:
            for event in self:
                view.apply(event)
                display.update()
            return self.result()

    def close(self) -> None:
        """Stop, and cancel the turn if it is running. Idempotent."""
        sync_driver.run(self._cancel_and_close())

    def __del__(self) -> None:
        if self._turn_loop is not None and not self._turn_loop.ended:
            self.close()


class AsyncTurnStream(_TurnStreamBase[T], AsyncClosing):
    """The events of a turn, awaited: `async for`; `await result()` is the turn."""

    def __aiter__(self) -> AsyncIterator[AgentEvent[T]]:
        return self

    def __anext__(self) -> Coroutine[Any, Any, AgentEvent[T]]:
        return self._next_event()

    async def result(self) -> Turn[T]:
        """Return the turn once it has ended, or raise what ended it."""
        return await self._require_begun().finish()

    async def show(self) -> Turn[T]:
        """Read the rest, display the steps of the turn as they arrive, and return the turn, as `result` does.

        In a notebook one output of the cell is updated, at most ten times a second; on a terminal the lines are drawn
        again. Elsewhere the steps are printed once, at the end.
        """
        display, view = self._display()
        with display:
            async for event in self:
                view.apply(event)
                display.update()
            return await self.result()

    async def aclose(self) -> None:
        """Stop, and cancel the turn if it is running. Idempotent."""
        await self._cancel_and_close()

    def __del__(self) -> None:
        if self._turn_loop is not None:
            self._turn_loop.abandon()
