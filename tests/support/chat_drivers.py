"""The chat machine through every API: see the fixture `chats` (chat/conftest.py).

Tests are plain functions. The event loop of an async API runs in another thread, so that a test may block.
`FakeStages` replaces the tasks of a chat: each task that is started is a `FakeTask`, which emits events and ends when
the test calls its methods, or when it is cancelled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from queue import Queue
from typing import Any

from anyio import to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from toolcast.agents.engine.engine import Engine
from toolcast.chat.chat_context import ChatState
from toolcast.chat.effects import StageTask
from toolcast.chat.machine import AsyncChatMachine, ChatChange, ChatMachine
from toolcast.testing import ScriptedLLM

PATIENCE = 30.0

Chat = ChatMachine | AsyncChatMachine


class ChatAPI:
    """Chats whose tasks run in threads."""

    name = "sync"

    @contextmanager
    def running(self) -> Generator[ChatAPI]:
        """Start the event loop, if the API has one; close all chats at the end."""
        self.opened: list[Chat] = []
        try:
            yield self
        finally:
            for chat in self.opened:
                self.close(chat)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call `function` in the event loop, if the API has one."""
        return function(*args)

    def open(self, *answers: Any, engine: Engine | None = None, **options: Any) -> Chat:
        """Open a chat with `engine`, or with a scripted model that gives these answers."""
        chat = self.call(partial(self._made, engine or Engine(ScriptedLLM(*answers)), **options))
        self.opened.append(chat)
        return chat

    def _made(self, engine: Engine, **options: Any) -> Chat:
        return ChatMachine(engine, **options)

    def dispatch(self, chat: Chat, *events: Any) -> ChatChange:
        """Dispatch the events in order; return the last change."""
        changes = [self.call(chat.dispatch, event) for event in events]
        assert isinstance(changes[-1], ChatChange)
        return changes[-1]

    def until(self, chat: Any, *states: ChatState) -> ChatState:
        """Wait until the chat is in one of `states`."""
        state: ChatState = self.call(partial(chat.run_until, *states, timeout=PATIENCE))
        return state

    def close(self, chat: Any) -> None:
        self.call(chat.close)


class AsyncChatAPI(ChatAPI):
    """Chats whose tasks run in an event loop."""

    def __init__(self, backend: str) -> None:
        self.name = backend
        self._portal: BlockingPortal | None = None

    @contextmanager
    def running(self) -> Generator[ChatAPI]:
        with start_blocking_portal(self.name) as self._portal, super().running():
            yield self

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        assert self._portal is not None
        return self._portal.call(function, *args)

    def _made(self, engine: Engine, **options: Any) -> Chat:
        return AsyncChatMachine(engine, **options)

    def until(self, chat: Any, *states: ChatState) -> ChatState:
        async def wait() -> ChatState:
            import anyio

            with anyio.fail_after(PATIENCE):
                reached: ChatState = await chat.run_until(*states)
                return reached

        state: ChatState = self.call(wait)
        return state

    def close(self, chat: Any) -> None:
        self.call(chat.aclose)


CHAT_APIS = [ChatAPI, partial(AsyncChatAPI, "asyncio"), partial(AsyncChatAPI, "trio")]
CHAT_NAMES = ["sync", "asyncio", "trio"]


class FakeTask:
    """A running task of a chat."""

    def __init__(self, order: str, work: StageTask) -> None:
        self.order = order
        self.work = work
        self.ended = threading.Event()
        self._steps: Queue[Any] = Queue()
        work.cancellation.then(lambda: self._steps.put(None))

    @property
    def cancelled(self) -> bool:
        """True once the task was cancelled and has ended."""
        return self.work.cancellation.cancelled and self.ended.wait(PATIENCE)

    def emit(self, *events: Any) -> None:
        """Emit events, or raise an error in the task; return once all are emitted."""
        emitted = threading.Event()
        self._steps.put((events, emitted))
        assert emitted.wait(PATIENCE)

    def end(self, *events: Any) -> None:
        """Emit events and end the task."""
        self.emit(*events)
        self._steps.put(None)
        assert self.ended.wait(PATIENCE)

    async def run(self) -> None:
        try:
            while (step := await self._next()) is not None:
                events, emitted = step
                try:
                    for event in events:
                        if isinstance(event, BaseException):
                            raise event
                        self.work.emit(event)
                finally:
                    emitted.set()
        finally:
            self.ended.set()

    async def _next(self) -> Any:
        if not self.work.concurrent:
            return self._steps.get(timeout=PATIENCE)
        return await to_thread.run_sync(partial(self._steps.get, timeout=PATIENCE), abandon_on_cancel=True)


class FakeStages:
    """The tasks of a chat, run by the test."""

    def __init__(self) -> None:
        self._tasks: Queue[FakeTask] = Queue()
        orders = ("load_model", "search_tools", "generate", "call_tools")
        self.perform: dict[Any, Any] = {order: partial(self._perform, order) for order in orders}

    def task(self, order: str) -> FakeTask:
        """Return the task that was started next, which must be of this kind."""
        task = self.next_task()
        assert task.order == order
        return task

    def next_task(self) -> FakeTask:
        """Return the task that was started next."""
        return self._tasks.get(timeout=PATIENCE)

    @property
    def is_empty(self) -> bool:
        """True if every task that was started has been taken with `task`."""
        return self._tasks.empty()

    async def _perform(self, order: str, work: StageTask) -> None:
        task = FakeTask(order, work)
        self._tasks.put(task)
        await task.run()
