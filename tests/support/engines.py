"""Turns of an engine through every API: see the fixture `engine_api` (agents/conftest.py).

`submit` returns the turn or raises; `stream` returns all that a consumer of the stream received.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import anyio

from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.history import find_problems, unanswered_calls
from toolcast.messages import Message, ToolCallPart, ToolResultPart, user
from toolcast.values.states import TURN
from toolcast.values.turn import Turn

Watch = Callable[[Any, Any], object]
"""A function that is called with the stream and each of its events."""


@dataclass
class TurnRecord:
    """The events of a turn, the state at each of them, and the turn or the error at its end."""

    events: list[Any] = field(default_factory=list[Any])
    states: list[str] = field(default_factory=list[str])
    turn: Turn[Any] | None = None
    error: BaseException | None = None

    def of(self, *kinds: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]


class EngineAPI:
    """Turns through the sync API."""

    name = "sync"

    def submit(self, engine: Engine, message: Any = None, /, **options: Any) -> Turn[Any]:
        return engine.submit(message, **options)

    def stream(
        self, engine: Engine, message: Any = None, /, *, watch: Watch | None = None, take: int = -1, **options: Any
    ) -> TurnRecord:
        """Stream the whole turn, or its first `take` events, after which the stream is closed."""
        record = TurnRecord()
        with engine.stream(message, **options) as stream:
            for event in stream:
                record.events.append(event)
                record.states.append(stream.state)
                if watch is not None:
                    watch(stream, event)
                if len(record.events) == take:
                    return record
            try:
                record.turn = stream.result()
            except Exception as error:
                record.error = error
        return record


class SyncInLoopEngineAPI(EngineAPI):
    """Turns through the sync API from inside a running event loop."""

    def __init__(self, backend: str) -> None:
        self.name = f"sync-in-{backend}"
        self._backend = backend

    def submit(self, engine: Engine, message: Any = None, /, **options: Any) -> Turn[Any]:
        async def main() -> Turn[Any]:
            return EngineAPI.submit(self, engine, message, **options)

        return anyio.run(main, backend=self._backend)

    def stream(self, engine: Engine, message: Any = None, /, **options: Any) -> TurnRecord:
        async def main() -> TurnRecord:
            return EngineAPI.stream(self, engine, message, **options)

        return anyio.run(main, backend=self._backend)


class AsyncEngineAPI(EngineAPI):
    """Turns through the async API on one backend."""

    def __init__(self, backend: str) -> None:
        self.name = backend

    def submit(self, engine: Engine, message: Any = None, /, **options: Any) -> Turn[Any]:
        async def main() -> Turn[Any]:
            made: Turn[Any] = await engine.asubmit(message, **options)
            return made

        return anyio.run(main, backend=self.name)

    def stream(
        self, engine: Engine, message: Any = None, /, *, watch: Watch | None = None, take: int = -1, **options: Any
    ) -> TurnRecord:
        record = TurnRecord()

        async def main() -> None:
            async with engine.astream(message, **options) as stream:
                async for event in stream:
                    record.events.append(event)
                    record.states.append(stream.state)
                    if watch is not None:
                        watch(stream, event)
                    if len(record.events) == take:
                        return
                try:
                    record.turn = await stream.result()
                except Exception as error:
                    record.error = error

        anyio.run(main, backend=self.name)
        return record


ENGINE_APIS = [EngineAPI(), AsyncEngineAPI("asyncio"), AsyncEngineAPI("trio"), SyncInLoopEngineAPI("asyncio")]


def call(id: str, tool: str, arguments: str = "{}", **more: Any) -> ToolCallPart:
    return ToolCallPart(id, tool, arguments, **more)


def sequence(engine: Engine) -> list[str]:
    return [message.role for message in engine.history]


def results(messages: Any) -> list[ToolResultPart]:
    """Return all tool results in `messages`, in order."""
    return [part for message in messages for part in message.parts if isinstance(part, ToolResultPart)]


def check(engine: Engine) -> None:
    """Check what is true of every engine between turns."""
    assert engine.state == "idle"
    assert find_problems(engine.history) == []
    assert unanswered_calls(engine.history) == ()
    check_transitions(engine)


def check_transitions(engine: Engine) -> None:
    """Check that every transition of the engine is in the table."""
    trace = engine.trace
    assert trace[0] == "idle"
    for before, after in pairwise(trace):
        assert after in TURN[before].values(), f"{before} -> {after}"


def valid_requests(requests: Any) -> Iterator[tuple[Message, ...]]:
    """Yield the messages of each request, after a check that every service accepts them."""
    for request in requests:
        assert find_problems((user("before"), *request.messages)) == []
        yield request.messages
