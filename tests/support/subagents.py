"""Elves through every API, a tool that blocks, and a model for several threads.

The fixtures `subagent_api` and `gate` are in agents/conftest.py.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import anyio
from anyio import to_thread

from toolcast.agents.engine.engine import Engine
from toolcast.agents.subagents.elf_run import ElfResult
from toolcast.agents.subagents.elves import Elf, ElfConfig, ElfManager
from toolcast.async_support import sync_driver
from toolcast.events import Event
from toolcast.messages import Message, ToolCallPart
from toolcast.testing import ScriptedLLM
from toolcast.testing.scripted import ScriptedRequest
from toolcast.tools.callable_tool import CallableTool
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import ToolChoice
from toolcast.values.turn import Turn

PATIENCE = 30.0
CALL = ToolCallPart("call_1", "hold", "{}")


class SubagentAPI:
    """Elves through one API. A test is a coroutine, which never suspends under the sync API."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.asynchronous = backend != "sync"

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        if self.asynchronous:
            anyio.run(scenario, backend=self.backend)
        else:
            sync_driver.run(scenario())  # type: ignore[arg-type]  # it is a coroutine

    async def spawn(self, manager: ElfManager, config: ElfConfig | str, **options: Any) -> Elf:
        return await manager.aspawn(config, **options) if self.asynchronous else manager.spawn(config, **options)

    async def send(self, elf: Elf, message: str) -> None:
        if self.asynchronous:
            await elf.asend(message)
        else:
            elf.send(message)

    async def wait(self, elf: Elf) -> ElfResult:
        return await elf if self.asynchronous else elf.wait(PATIENCE)

    async def wait_all(self, manager: ElfManager) -> tuple[ElfResult, ...]:
        return await manager.await_all() if self.asynchronous else manager.wait_all(PATIENCE)

    async def submit(self, engine: Engine, message: str) -> Turn[None]:
        return await engine.asubmit(message) if self.asynchronous else engine.submit(message)

    async def events(self, elf: Elf) -> list[Any]:
        return [event async for event in elf.aevents()] if self.asynchronous else list(elf.events())

    async def happens(self, event: threading.Event) -> None:
        assert await to_thread.run_sync(event.wait, PATIENCE) if self.asynchronous else event.wait(PATIENCE)


class Gate:
    """A tool that blocks until the gate is opened."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.opened = threading.Event()

    def hold(self) -> str:
        """Wait."""
        self.begun.set()
        assert self.opened.wait(PATIENCE)
        return "opened"


class Mirror(ScriptedLLM):
    """A model that answers with `reply` of the last message, whichever thread sends it."""

    def __init__(self, reply: Callable[[Message], Any] = lambda message: f"about {message.text}") -> None:
        super().__init__()
        self._reply = reply

    async def _events(
        self, messages: Sequence[Message], tools: Sequence[CallableTool], tool_choice: ToolChoice, settings: Settings
    ) -> AsyncIterator[Event]:
        asked = ScriptedRequest(tuple(messages), tuple(tools), tool_choice, settings)
        for event in self._events_of(self._reply(messages[-1]), asked):
            yield event


def tasks_living() -> int:
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return int(trio.lowlevel.current_statistics().tasks_living)
    return len(sys.modules["asyncio"].all_tasks())
