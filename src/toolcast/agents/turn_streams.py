"""What the caller holds while a turn goes on: its events, and in the end the turn.

Shells that only wait; what happens between two waits is in turn_flow.py. A failure is the last event, an
`ErrorEvent`, and is raised by `result()`. A stream that is closed or forgotten cancels its turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, Self

from typing_extensions import TypeVar

from ..approvals import Answer
from ..errors import StreamClosed
from ..events import AgentEvent
from ..runtime import without_loop
from ..usage import Usage
from .turn_flow import TurnFlow
from .turns import Turn

T = TypeVar("T", default=Any)

Begin = Callable[[], TurnFlow]
"""Makes the turn that the engine is in from now on; raises `IllegalState` where it is in another."""


class _TurnState(Generic[T]):
    """What both turn streams know."""

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

    def answer(self, answer: Answer) -> None:
        """Answer a `PermissionRequest` of this turn, before the approver is asked."""
        if not isinstance(answer, Answer):  # pyright: ignore[reportUnnecessaryIsInstance] - True is soon said
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

    def _next(self) -> AgentEvent[T] | None:
        if self._position >= len(self._queue):
            return None
        event = self._queue[self._position]
        self._position += 1
        return event

    @property
    def _over(self) -> bool:
        return self._closed or (self._flow is not None and self._flow.ended and self._position >= len(self._queue))


class TurnStream(_TurnState[T]):
    """The events of a turn: iterate it; `result()` is the turn."""

    def __iter__(self) -> Iterator[AgentEvent[T]]:
        return self

    def __next__(self) -> AgentEvent[T]:
        event = self._next()
        if event is not None:
            return event
        if self._over:
            raise StopIteration
        self._queue, self._position = without_loop.run(self._begun().pull()), 0
        event = self._next()
        if event is None:
            raise StopIteration
        return event

    def result(self) -> Turn[T]:
        """The turn, once it has ended. Raises what ended it otherwise."""
        return without_loop.run(self._begun().finish())

    def close(self) -> None:
        """Stop, and cancel the turn if it goes on. Harmless when repeated."""
        self._closed = True
        if self._flow is not None:
            without_loop.run(self._flow.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._flow is not None and not self._flow.ended:
            self.close()


class AsyncTurnStream(_TurnState[T]):
    """The events of a turn, awaited: `async for`; `await result()` is the turn."""

    def __aiter__(self) -> AsyncIterator[AgentEvent[T]]:
        return self

    async def __anext__(self) -> AgentEvent[T]:
        event = self._next()
        if event is not None:
            return event
        if self._over:
            raise StopAsyncIteration
        self._queue, self._position = await self._begun().pull(), 0
        event = self._next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def result(self) -> Turn[T]:
        """The turn, once it has ended. Raises what ended it otherwise."""
        return await self._begun().finish()

    async def aclose(self) -> None:
        """Stop, and cancel the turn if it goes on. Harmless when repeated."""
        self._closed = True
        if self._flow is not None:
            await self._flow.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self._flow is not None:
            self._flow.abandon()
