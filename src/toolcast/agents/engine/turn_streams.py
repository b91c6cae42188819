"""`TurnStream` and `AsyncTurnStream`: the events of a turn, and in the end the turn.

They only wait; turn_loop.py has the logic. A failure is the last event, an `ErrorEvent`, and is raised by `result()`. A
stream that is closed or garbage-collected cancels its turn.

`TurnView`: the steps of a turn that runs, to show them while they arrive.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from ...async_support import sync_driver
from ...async_support.closing import AsyncClosing, Closing, Uncopyable
from ...errors import StreamClosed
from ...events import (
    AgentEvent,
    ErrorEvent,
    OutputDelta,
    Restarted,
    TextDelta,
    ToolCallStart,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from ...parsing.partial_instances import to_shown
from ...text.live_display import Frame, text_of
from ...text.reprs import safe_repr
from ...values.approvals import ApprovalDecision, PermissionRequest
from ...values.html_repr import table
from ...values.turn import Turn
from ...values.usage import Usage
from .turn_loop import TurnLoop

if TYPE_CHECKING:
    from ...text.live_display import LiveDisplay


class TurnView:
    """A fold of the events of a turn: texts, tool calls with their results, and the partial output.

    The arguments of calls are not shown, as they may be secret; nor are the texts of a turn whose output hides its
    input.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[str, str]] = []
        self._calls: dict[str, int] = {}  # the row of each call
        self._request_at = 0  # the first row of the current request
        self._output: Any = None

    def apply(self, event: AgentEvent[Any]) -> None:
        """Add one event."""
        match event:
            case TextDelta(text):
                if len(self._rows) > self._request_at and self._rows[-1][0] == "text":
                    self._rows[-1] = ("text", self._rows[-1][1] + text)
                else:
                    self._rows.append(("text", text))
            case ToolCallStart(id, name):
                self._set(id, name, "the model writes the arguments")
            case ToolStarted(id, name):
                self._set(id, name, "runs")
            case ToolProgress(id, name, data):
                self._set(id, name, f"runs: {data}")
            case ToolResult(id, name, content, is_error):
                self._set(id, name, f"error: {content}" if is_error else content)
                self._request_at = len(self._rows)
            case PermissionRequest(id, name):
                self._set(id, name, "waits for approval")
            case Restarted():
                del self._rows[self._request_at :]
                self._output = None
            case OutputDelta(value):
                self._output = to_shown(value)
            case ErrorEvent(error):
                self._rows.append((type(error).__name__, str(error)))
            case _:
                pass

    def frame(self, turn: Turn[Any]) -> Frame:
        """Return the steps so far as HTML and as text."""
        rows = [row for row in self._rows if row[0] != "text" or not turn.hidden_tools]
        output = self._output if turn.typed_output is None else to_shown(turn.typed_output)
        shown: list[tuple[str, Any]] = [*rows, *([] if output is None else [("output", output)])]
        text = "\n".join([value if name == "text" else f"{name}: {text_of(value)}" for name, value in shown])
        return Frame(table("Turn", shown, turn.usage.describe()), text)

    def _set(self, id: str, name: str, value: str) -> None:
        at = self._calls.setdefault(id, len(self._rows))
        self._rows[at:] = [(name, value), *self._rows[at + 1 :]]


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
        from ...values.html_repr import html_of

        return html_of(self.turn)

    def _display(self) -> tuple[LiveDisplay, TurnView]:
        from ...text.live_display import LiveDisplay, find_surface  # most streams are not shown

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
