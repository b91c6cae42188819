"""One way to write a test of the chat machine for every face: see the fixture `chats` (agents/conftest.py).

Tests are plain functions. An event loop, where there is one, runs in another thread; so a test may wait for anything.
`Stage` takes the place of the work: each work that is ordered is an `Act`, which tells what the test has it tell, when
the test has it tell that, and ends when the test says so or it is cancelled.
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
from toolcast.chat.context import ChatState
from toolcast.chat.effects import StageTask
from toolcast.chat.machine import AsyncChatMachine, ChatChange, ChatMachine
from toolcast.testing import ScriptedLLM

PATIENCE = 30.0

Chat = ChatMachine | AsyncChatMachine


class ChatFace:
    """Chats whose work goes on in threads."""

    name = "sync"

    @contextmanager
    def running(self) -> Generator[ChatFace]:
        """Inside, it can be used. What was opened is closed in the end."""
        self.opened: list[Chat] = []
        try:
            yield self
        finally:
            for chat in self.opened:
                self.close(chat)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """What `function` gives where this face is used: in the event loop, if there is one."""
        return function(*args)

    def open(self, *answers: Any, engine: Engine | None = None, **options: Any) -> Chat:
        """A chat with `engine`, or else with a model that gives these answers."""
        chat = self.call(partial(self._made, engine or Engine(ScriptedLLM(*answers)), **options))
        self.opened.append(chat)
        return chat

    def _made(self, engine: Engine, **options: Any) -> Chat:
        return ChatMachine(engine, **options)

    def dispatch(self, chat: Chat, *events: Any) -> ChatChange:
        """Have these happen, one after the other; gives what came of the last."""
        changes = [self.call(chat.dispatch, event) for event in events]
        assert isinstance(changes[-1], ChatChange)
        return changes[-1]

    def until(self, chat: Any, *states: ChatState) -> ChatState:
        """Wait until one of `states` is reached."""
        state: ChatState = self.call(partial(chat.run_until, *states, timeout=PATIENCE))
        return state

    def close(self, chat: Any) -> None:
        self.call(chat.close)


class Async(ChatFace):
    """Chats whose work goes on in tasks."""

    def __init__(self, backend: str) -> None:
        self.name = backend
        self._portal: BlockingPortal | None = None

    @contextmanager
    def running(self) -> Generator[ChatFace]:
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


CHAT_FACES = [ChatFace, partial(Async, "asyncio"), partial(Async, "trio")]
CHAT_NAMES = ["sync", "asyncio", "trio"]


class Act:
    """One work that goes on."""

    def __init__(self, order: str, work: StageTask) -> None:
        self.order = order
        self.work = work
        self.ended = threading.Event()
        self._lines: Queue[Any] = Queue()
        work.cancellation.then(lambda: self._lines.put(None))

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled, and has ended."""
        return self.work.cancellation.cancelled and self.ended.wait(PATIENCE)

    def emit(self, *events: Any) -> None:
        """Have the work tell these; an error is raised in it. Comes back when all is told."""
        text = threading.Event()
        self._lines.put((events, text))
        assert text.wait(PATIENCE)

    def end(self, *events: Any) -> None:
        """Have the work tell these, and end."""
        self.emit(*events)
        self._lines.put(None)
        assert self.ended.wait(PATIENCE)

    async def play(self) -> None:
        try:
            while (line := await self._next()) is not None:
                events, text = line
                try:
                    for event in events:
                        if isinstance(event, BaseException):
                            raise event
                        self.work.emit(event)
                finally:
                    text.set()
        finally:
            self.ended.set()

    async def _next(self) -> Any:
        if not self.work.concurrent:
            return self._lines.get(timeout=PATIENCE)
        return await to_thread.run_sync(partial(self._lines.get, timeout=PATIENCE), abandon_on_cancel=True)


class Stage:
    """Where all work of a chat is acted."""

    def __init__(self) -> None:
        self._acts: Queue[Act] = Queue()
        orders = ("load_model", "search_tools", "generate", "call_tools")
        self.perform: dict[Any, Any] = {order: partial(self._perform, order) for order in orders}

    def act(self, order: str) -> Act:
        """The work that was ordered next, which must be of this kind."""
        act = self._acts.get(timeout=PATIENCE)
        assert act.order == order
        return act

    @property
    def is_empty(self) -> bool:
        """Whether no work has begun that nobody has asked for."""
        return self._acts.empty()

    async def _perform(self, order: str, work: StageTask) -> None:
        act = Act(order, work)
        self._acts.put(act)
        await act.play()
