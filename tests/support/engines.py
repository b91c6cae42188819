"""One way to write a test of an engine's turns for every face: see the fixture `turning` (agents/conftest.py).

`submit` gives the turn or raises; `tell` gives all that a consumer of the stream saw.
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
from toolcast.states import TURN
from toolcast.turn import Turn

Watch = Callable[[Any, Any], object]
"""Is told the stream and each of its events."""


@dataclass
class Told:
    """What the consumer of a turn saw: its events, the states it was in at each, and how it ended."""

    events: list[Any] = field(default_factory=list[Any])
    states: list[str] = field(default_factory=list[str])
    turn: Turn[Any] | None = None
    error: BaseException | None = None

    def of(self, *kinds: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]


class Turning:
    """Turns through the sync face."""

    name = "sync"

    def submit(self, engine: Engine, said: Any = None, /, **options: Any) -> Turn[Any]:
        return engine.submit(said, **options)

    def tell(
        self, engine: Engine, said: Any = None, /, *, watch: Watch | None = None, take: int = -1, **options: Any
    ) -> Told:
        """The whole turn; or its first `take` events, after which the stream is closed."""
        text = Told()
        with engine.stream(said, **options) as stream:
            for event in stream:
                text.events.append(event)
                text.states.append(stream.state)
                if watch is not None:
                    watch(stream, event)
                if len(text.events) == take:
                    return text
            try:
                text.turn = stream.result()
            except Exception as error:
                text.error = error
        return text


class InLoop(Turning):
    """The sync face, called from inside a running event loop."""

    def __init__(self, backend: str) -> None:
        self.name = f"sync-in-{backend}"
        self._backend = backend

    def submit(self, engine: Engine, said: Any = None, /, **options: Any) -> Turn[Any]:
        async def main() -> Turn[Any]:
            return Turning.submit(self, engine, said, **options)

        return anyio.run(main, backend=self._backend)

    def tell(self, engine: Engine, said: Any = None, /, **options: Any) -> Told:
        async def main() -> Told:
            return Turning.tell(self, engine, said, **options)

        return anyio.run(main, backend=self._backend)


class Async(Turning):
    """The async face, on one backend."""

    def __init__(self, backend: str) -> None:
        self.name = backend

    def submit(self, engine: Engine, said: Any = None, /, **options: Any) -> Turn[Any]:
        async def main() -> Turn[Any]:
            made: Turn[Any] = await engine.asubmit(said, **options)
            return made

        return anyio.run(main, backend=self.name)

    def tell(
        self, engine: Engine, said: Any = None, /, *, watch: Watch | None = None, take: int = -1, **options: Any
    ) -> Told:
        text = Told()

        async def main() -> None:
            async with engine.astream(said, **options) as stream:
                async for event in stream:
                    text.events.append(event)
                    text.states.append(stream.state)
                    if watch is not None:
                        watch(stream, event)
                    if len(text.events) == take:
                        return
                try:
                    text.turn = await stream.result()
                except Exception as error:
                    text.error = error

        anyio.run(main, backend=self.name)
        return text


TURNINGS = [Turning(), Async("asyncio"), Async("trio"), InLoop("asyncio")]


def call(id: str, tool: str, arguments: str = "{}", **more: Any) -> ToolCallPart:
    return ToolCallPart(id, tool, arguments, **more)


def sequence(engine: Engine) -> list[str]:
    return [message.role for message in engine.history]


def results(messages: Any) -> list[ToolResultPart]:
    """All results in `messages`, in order."""
    return [part for message in messages for part in message.parts if isinstance(part, ToolResultPart)]


def check(engine: Engine) -> None:
    """What holds of an engine between turns, whatever has happened to it."""
    assert engine.state == "idle"
    assert find_problems(engine.history) == []
    assert unanswered_calls(engine.history) == ()
    walked(engine)


def walked(engine: Engine) -> None:
    """The engine has gone only where the table lets it."""
    trace = engine.trace
    assert trace[0] == "idle"
    for before, after in pairwise(trace):
        assert after in TURN[before].values(), f"{before} -> {after}"


def sound_requests(requests: Any) -> Iterator[tuple[Message, ...]]:
    """The messages of each request, every one of which a service would take."""
    for asked in requests:
        assert find_problems((user("before"), *asked.messages)) == []
        yield asked.messages
