"""One way to write a test of sessions for every face: see the fixture `talk` (agents/conftest.py).

Tests are plain functions. An event loop, where there is one, runs in another thread; so a test may wait for anything.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.history import find_problems
from toolcast.agents.sessions.session import Session
from toolcast.approvals import PermissionRequest
from toolcast.messages import ToolCallPart
from toolcast.states import SESSION
from toolcast.tools.context import ToolContext
from toolcast.turn import Turn

PATIENCE = 30.0


class Talk:
    """Sessions through the sync face."""

    name = "sync"
    awaits = False

    @contextmanager
    def running(self) -> Generator[Talk]:
        """Inside, it can be used."""
        yield self

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """What `function` gives where this face is used: in the event loop, if there is one."""
        return function(*args)

    def send(self, session: Session, said: Any = None, **options: Any) -> None:
        self.call(partial(session.send, said, **options))

    def run(self, session: Session, said: Any = None, **options: Any) -> Turn[Any]:
        turn: Turn[Any] = self.call(partial(session.run, said, **options))
        return turn

    def result(self, session: Session) -> Turn[Any]:
        turn: Turn[Any] = self.call(session.result, PATIENCE)
        return turn

    def events(self, session: Session) -> list[Any]:
        events: list[Any] = self.call(lambda: list(session.events()))
        return events

    def close(self, session: Session) -> None:
        self.call(session.close)


class InLoop(Talk):
    """The sync face, called in a running event loop, whose thread waits meanwhile."""

    def __init__(self, backend: str) -> None:
        self.name = f"sync-in-{backend}"
        self._backend = backend
        self._portal: BlockingPortal | None = None

    @contextmanager
    def running(self) -> Generator[Talk]:
        with start_blocking_portal(self._backend) as self._portal:
            yield self

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        assert self._portal is not None
        return self._portal.call(function, *args)


class Async(InLoop):
    """The async face, on one backend."""

    awaits = True

    def __init__(self, backend: str) -> None:
        super().__init__(backend)
        self.name = backend

    def send(self, session: Session, said: Any = None, **options: Any) -> None:
        self.call(partial(session.asend, said, **options))

    def run(self, session: Session, said: Any = None, **options: Any) -> Turn[Any]:
        turn: Turn[Any] = self.call(partial(session.arun, said, **options))
        return turn

    def result(self, session: Session) -> Turn[Any]:
        turn: Turn[Any] = self.call(session.aresult)
        return turn

    def events(self, session: Session) -> list[Any]:
        async def read() -> list[Any]:
            return [event async for event in session.aevents()]

        events: list[Any] = self.call(read)
        return events

    def close(self, session: Session) -> None:
        self.call(session.aclose)


TALKS = [Talk, partial(Async, "asyncio"), partial(Async, "trio"), partial(InLoop, "asyncio"), partial(InLoop, "trio")]
NAMES = ["sync", "asyncio", "trio", "sync-in-asyncio", "sync-in-trio"]


class Door:
    """A tool that waits before a door. Who cancels the turn opens it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.opened = threading.Event()

    def wait(self, context: ToolContext[Any]) -> str:
        """Wait."""
        context.cancellation.then(self.opened.set)
        return self.stand()

    def stand(self) -> str:
        """Wait, whatever happens."""
        self.begun.set()
        assert self.opened.wait(PATIENCE)
        return "opened"

    async def linger(self) -> None:
        """Wait; and having been cancelled, be slow to end."""
        self.begun.set()
        try:
            await anyio.sleep(PATIENCE)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.opened.wait, PATIENCE)

    def ask(self, request: PermissionRequest) -> bool:
        """Let a person think about it, who then says yes."""
        self.stand()
        return True

    def reached(self) -> None:
        """Wait until somebody stands before it."""
        assert self.begun.wait(PATIENCE)
        self.begun.clear()

    def let_in(self) -> None:
        """Open it, for one who stands before it."""
        self.opened.set()


@contextmanager
def ctrl_c(after: Callable[[], object], session: Session) -> Generator[None]:
    """Inside, Ctrl-C is pressed `after` something, and again if nothing comes of it.

    Python does not notice one that comes in the very moment in which its main thread begins to wait.
    """
    main, over = threading.main_thread().ident, threading.Event()
    assert main is not None

    def press() -> None:
        after()
        while session.state == "active":
            signal.pthread_kill(main, signal.SIGINT)
            over.wait(0.5)

    presses = threading.Thread(target=press)
    presses.start()
    yield
    over.set()
    presses.join(PATIENCE)


class Walk(list[str]):
    """An observer that remembers the states of a session, each of which the table must allow."""

    def __init__(self) -> None:
        super().__init__(["idle"])

    def __call__(self, session_id: str, state: str) -> None:
        assert state in SESSION[self[-1]].values(), f"{self[-1]} -> {state}"
        self.append(state)


def call(id: str, name: str, arguments: str = "{}") -> ToolCallPart:
    return ToolCallPart(id, name, arguments)


def sound(engine: Engine) -> None:
    """The history is one that every service takes."""
    assert find_problems(engine.history) == []
