"""Sessions through every API: see the fixture `session_api` (agents/conftest.py).

Tests are plain functions. The event loop of an async API runs in another thread, so that a test may block.
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
from toolcast.messages import ToolCallPart
from toolcast.tools.tool_context import ToolContext
from toolcast.values.approvals import PermissionRequest
from toolcast.values.states import SESSION
from toolcast.values.turn import Turn

PATIENCE = 30.0


class SessionAPI:
    """Sessions through the sync API."""

    name = "sync"
    awaits = False

    @contextmanager
    def running(self) -> Generator[SessionAPI]:
        """Start the event loop, if the API has one."""
        yield self

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call `function` in the event loop, if the API has one."""
        return function(*args)

    def send(self, session: Session, message: Any = None, **options: Any) -> None:
        self.call(partial(session.send, message, **options))

    def run(self, session: Session, message: Any = None, **options: Any) -> Turn[Any]:
        turn: Turn[Any] = self.call(partial(session.run, message, **options))
        return turn

    def result(self, session: Session) -> Turn[Any]:
        turn: Turn[Any] = self.call(session.result, PATIENCE)
        return turn

    def events(self, session: Session) -> list[Any]:
        events: list[Any] = self.call(lambda: list(session.events()))
        return events

    def close(self, session: Session) -> None:
        self.call(session.close)


class SyncInLoopSessionAPI(SessionAPI):
    """Sessions through the sync API, called in a running event loop, which it blocks."""

    def __init__(self, backend: str) -> None:
        self.name = f"sync-in-{backend}"
        self._backend = backend
        self._portal: BlockingPortal | None = None

    @contextmanager
    def running(self) -> Generator[SessionAPI]:
        with start_blocking_portal(self._backend) as self._portal:
            yield self

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        assert self._portal is not None
        return self._portal.call(function, *args)


class AsyncSessionAPI(SyncInLoopSessionAPI):
    """Sessions through the async API on one backend."""

    awaits = True

    def __init__(self, backend: str) -> None:
        super().__init__(backend)
        self.name = backend

    def send(self, session: Session, message: Any = None, **options: Any) -> None:
        self.call(partial(session.asend, message, **options))

    def run(self, session: Session, message: Any = None, **options: Any) -> Turn[Any]:
        turn: Turn[Any] = self.call(partial(session.arun, message, **options))
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


SESSION_APIS = [
    SessionAPI,
    partial(AsyncSessionAPI, "asyncio"),
    partial(AsyncSessionAPI, "trio"),
    partial(SyncInLoopSessionAPI, "asyncio"),
    partial(SyncInLoopSessionAPI, "trio"),
]
NAMES = ["sync", "asyncio", "trio", "sync-in-asyncio", "sync-in-trio"]


class BlockingTool:
    """Tools that block until `release` is called, or until the turn is cancelled."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.released = threading.Event()

    def wait(self, context: ToolContext[Any]) -> str:
        """Wait."""
        context.cancellation.then(self.released.set)
        return self.wait_uncancelled()

    def wait_uncancelled(self) -> str:
        """Wait, even if the turn is cancelled."""
        self.started.set()
        assert self.released.wait(PATIENCE)
        return "released"

    async def end_slowly(self) -> None:
        """Wait, and end late after a cancellation."""
        self.started.set()
        try:
            await anyio.sleep(PATIENCE)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.released.wait, PATIENCE)

    def approve(self, request: PermissionRequest) -> bool:
        """Wait, then approve the call."""
        self.wait_uncancelled()
        return True

    def wait_until_started(self) -> None:
        """Wait until the tool runs."""
        assert self.started.wait(PATIENCE)
        self.started.clear()

    def release(self) -> None:
        """Let the tool return."""
        self.released.set()


@contextmanager
def ctrl_c(after: Callable[[], object], session: Session) -> Generator[None]:
    """Press Ctrl-C once `after` has returned, and again while the session is active.

    Python does not notice a signal that arrives at the moment when its main thread begins to wait.
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


class StateTrace(list[str]):
    """An observer that collects the states of a session and checks each transition against the table."""

    def __init__(self) -> None:
        super().__init__(["idle"])

    def __call__(self, session_id: str, state: str) -> None:
        assert state in SESSION[self[-1]].values(), f"{self[-1]} -> {state}"
        self.append(state)


def call(id: str, name: str, arguments: str = "{}") -> ToolCallPart:
    return ToolCallPart(id, name, arguments)


def check_history(engine: Engine) -> None:
    """Check that every service accepts the history."""
    assert find_problems(engine.history) == []
