"""A turn of three rounds, two tools and an approver, broken off wherever it waits: once, twice, by whom it may.

Whatever happened: nothing is left running or open, the history is one that every service takes, the engine is idle,
and the next turn works.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from functools import partial
from threading import Condition
from types import coroutine
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from support.engines import call, check, results
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.history import find_problems
from toolcast.agents.permissions.permissions import Permissions
from toolcast.errors import TurnCancelled
from toolcast.events import Event
from toolcast.messages import Message
from toolcast.testing import ScriptedLLM
from toolcast.tools.tool_context import ToolContext
from toolcast.values.approvals import PermissionRequest

CALLS = [call("a", "fetch", '{"page": 1}'), call("b", "count", '{"word": "x"}')]
FOREVER = 500
"""More than the turn ever waits: a loop that gets there has no end."""


class Struck(BaseException):
    """What stands for Ctrl-C."""


class World:
    """An engine and what it uses, each of which records when it is entered and left."""

    def __init__(self, *, paused: bool) -> None:
        self.open: list[str] = []
        self.steps = 0
        self.strike_at = 0
        self.strike: BaseException | None = None
        self._paused = paused
        self._changed = Condition()
        self.engine = Engine(
            _Model(self), [self.fetch, self.count], permissions=Permissions(approve=self.approve), max_rounds=3
        )

    async def pause(self) -> None:
        """A place where things may break off."""
        self.tick()
        if self._paused:
            await anyio.lowlevel.checkpoint()

    def tick(self) -> None:
        self.steps += 1
        if self.strike is not None and self.steps == self.strike_at:
            raise self.strike

    def enter(self, what: str) -> None:
        with self._changed:
            self.open.append(what)

    def leave(self, what: str) -> None:
        with self._changed:
            self.open.remove(what)
            self._changed.notify_all()

    def all_left(self) -> bool:
        """Whether all was left; a thread that was given up may take its time."""
        gc.collect()
        with self._changed:
            return self._changed.wait_for(lambda: not self.open, timeout=10)

    async def fetch(self, page: int) -> str:
        """Fetch a page."""
        self.enter("fetch")
        try:
            await self.pause()
            await self.pause()
            return f"page {page}"
        finally:
            self.leave("fetch")

    def count(self, word: str, context: ToolContext) -> int:
        """Count a word."""
        self.enter("count")
        try:
            self.tick()
            context.emit("half")
            self.tick()
            return len(word)
        finally:
            self.leave("count")

    async def approve(self, request: PermissionRequest) -> bool:
        self.enter("approve")
        try:
            await self.pause()
            return True
        finally:
            self.leave("approve")


class _Model(ScriptedLLM):
    """Calls both tools twice, then answers with text."""

    def __init__(self, world: World) -> None:
        super().__init__("unused")
        self._world = world

    async def _events(self, messages: Sequence[Message], *rest: Any) -> AsyncIterator[Event]:
        assert find_problems(messages) == []
        text = next(at for at, message in enumerate(reversed(messages)) if message.role == "user")
        answer = CALLS if text < 6 else "Done."
        self._world.enter("model")
        try:
            await self._world.pause()
            for event in ScriptedLLM(chunk=8)._events_of(answer, None):
                await self._world.pause()
                yield event
        finally:
            self._world.leave("model")


@coroutine
def counted(call: Callable[[], Awaitable[Any]], strikes: dict[int, Callable[[], object]]) -> Generator[Any, Any, Any]:
    """What `call()` gives; makes the n-th of `strikes` just before it waits for the n-th time."""
    step = call().__await__()
    number = 0
    resume: Callable[[], Any] = partial(next, step)
    while True:
        try:
            wanted = resume()
        except StopIteration as end:
            return end.value
        number += 1
        strikes.get(number, lambda: None)()
        try:
            sent = yield wanted
        except BaseException as error:
            resume = partial(step.throw, error)
        else:
            resume = partial(step.send, sent)


def _living(backend: str) -> int:
    """How many tasks there are."""
    if backend == "trio":
        import trio

        return trio.lowlevel.current_statistics().tasks_living
    import asyncio

    return len(asyncio.all_tasks())


async def _settled(backend: str, before: int) -> None:
    """Wait for tasks that were cancelled."""
    for _ in range(50):
        if _living(backend) <= before:
            return
        await anyio.lowlevel.checkpoint()
    raise AssertionError("a task is left")


async def _struck_at(k: int, how: str, backend: str) -> tuple[bool, World]:
    """A world whose turn was struck where it waited for the `k`-th time, and whether it ever did."""
    world = World(paused=True)
    before = _living(backend)
    struck = ended = False

    def strike(blow: Callable[[], object]) -> Callable[[], None]:
        def made() -> None:
            nonlocal struck
            struck = True
            blow()

        return made

    async def turn() -> None:
        nonlocal ended
        with anyio.CancelScope() as outer, anyio.CancelScope() as inner:
            kinds: dict[str, dict[int, Callable[[], object]]] = {
                "scope": {k: inner.cancel},
                "two scopes": {k: inner.cancel, k + 1: outer.cancel},
                "task": {k: lambda: _cancel_task()},
                "task twice": {k: lambda: _cancel_task(), k + 1: lambda: _cancel_task()},
                "engine": {k: world.engine.cancel},
                "engine, then scope": {k: world.engine.cancel, k + 1: inner.cancel},
            }
            strikes = {at: strike(blow) for at, blow in kinds[how].items()}
            ended = (await counted(lambda: world.engine.asubmit("Go."), strikes)).text == "Done."

    try:
        await _alone(turn)
    except TurnCancelled as error:
        assert how.startswith("engine")
        assert error.turn is not None and error.turn.end == "cancelled"
    await _settled(backend, before)
    assert ended or struck
    assert ended or world.engine.trace[-2:] == ("cancelled", "idle")
    return struck, world


def _cancel_task() -> None:
    import asyncio

    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def _alone(turn: Callable[[], Awaitable[None]]) -> None:
    """`turn` in a task of its own under asyncio, so that it can be cancelled as such."""
    import sniffio

    if sniffio.current_async_library() == "trio":
        await turn()
        return
    import asyncio

    async def main() -> None:
        await turn()

    task = asyncio.create_task(main())
    await asyncio.wait((task,))
    if not task.cancelled():
        task.result()


HOWS = ["scope", "two scopes", "engine", "engine, then scope"]


@pytest.mark.slow
@pytest.mark.fault(103)
@pytest.mark.gate("G7")
@pytest.mark.parametrize(
    "backend, how",
    [*(("trio", how) for how in HOWS), *(("asyncio", how) for how in (*HOWS, "task", "task twice"))],
)
def test_a_turn_cancelled_at_every_await_leaves_all_in_order(backend: str, how: str) -> None:
    async def once(k: int) -> bool:
        struck, world = await _struck_at(k, how, backend)
        engine = world.engine
        assert await anyio.to_thread.run_sync(world.all_left), world.open
        check(engine)
        assert len({result.call_id for result in results(engine.history)}) == len(results(engine.history))
        assert (await engine.asubmit("Go.")).text == "Done."
        check(engine)
        return struck

    struck = next(k for k in range(1, FOREVER) if not anyio.run(once, k, backend=backend))
    assert struck > 30


@pytest.mark.fault(106)
@pytest.mark.gate("G7")
def test_a_sync_turn_struck_at_every_call_leaves_all_in_order() -> None:
    for k in range(1, FOREVER):
        world = World(paused=False)
        world.strike, world.strike_at = Struck(), k
        engine = world.engine
        try:
            engine.submit("Go.")
        except Struck as error:
            assert error is world.strike
            assert engine.trace[-2:] == ("cancelled", "idle")
        else:
            assert k > 30
            break
        assert world.all_left(), world.open
        check(engine)
        world.strike = None
        assert engine.submit("Go.").text == "Done."
        check(engine)
    else:
        raise AssertionError("it never ended")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_in_a_sync_turn_comes_out_as_it_is(kind: type[BaseException]) -> None:
    for k in (1, 5, 9, 12, 15, 20):
        world = World(paused=False)
        world.strike, world.strike_at = kind(), k
        with pytest.raises(kind):
            world.engine.submit("Go.")
        check(world.engine)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_stream_closed_after_every_event_leaves_all_in_order(backend: str) -> None:
    async def once(k: int) -> bool:
        world, seen = World(paused=True), 0
        before = _living(backend)
        async with world.engine.astream("Go.") as stream:
            async for _ in stream:
                seen += 1
                if seen == k:
                    break
        await _settled(backend, before)
        assert await anyio.to_thread.run_sync(world.all_left), world.open
        check(world.engine)
        assert (await world.engine.asubmit("Go.")).text == "Done."
        return seen < k

    assert any(anyio.run(once, k, backend=backend) for k in range(1, FOREVER))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_stream_forgotten_after_every_event_leaves_all_in_order(backend: str) -> None:
    async def some(world: World, k: int) -> bool:
        stream, seen = world.engine.astream("Go."), 0
        async for _ in stream:
            seen += 1
            if seen == k:
                break
        return seen < k

    async def once(k: int) -> bool:
        world = World(paused=True)
        before = _living(backend)
        ended = await some(world, k)
        gc.collect()
        await _settled(backend, before)
        assert await anyio.to_thread.run_sync(world.all_left), world.open
        check(world.engine)
        assert (await world.engine.asubmit("Go.")).text == "Done."
        return ended

    assert any(anyio.run(once, k, backend=backend) for k in range(1, FOREVER))
