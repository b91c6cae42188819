"""A chat that is served in a thread of its own, beside the browser's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolcast import Engine, Permissions
from toolcast.apps.web import make_app
from toolcast.apps.web.web_startup import ChatServer, listen, page_url
from toolcast.chat.events import LoadModel
from toolcast.chat.machine import AsyncChatMachine
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.messages import Message

if TYPE_CHECKING:
    from playwright.sync_api import Page

MODEL = "test:held"


def send_message(page: Page, words: str) -> None:
    """Type a message and send it. The page is ready until the server has it: wait for what comes next."""
    box = page.get_by_role("textbox", name="Your message")
    box.fill(words)
    box.press("Enter")


class Served:
    """The page's address, and the machine, which is spoken to in its own thread."""

    def __init__(self, url: str, machine: AsyncChatMachine, server: ChatServer) -> None:
        self.url = url
        self.machine = machine
        self.server = server
        self.loop = asyncio.get_running_loop()

    def do(self, act: Callable[[], object]) -> None:
        """Do something where the server runs."""

        async def done() -> None:
            act()

        asyncio.run_coroutine_threadsafe(done(), self.loop).result(10)

    def break_connections(self) -> None:
        """Break what browsers have open, as a network does."""
        self.do(lambda: [each.transport.abort() for each in self.server.server_state.connections])


@contextmanager
def served(
    llm: FunctionCallingLLM,
    tools: Any = (),
    *,
    permissions: Permissions | None = None,
    perform: Mapping[Any, Any] | None = None,
    model: str | None = MODEL,
    history: Sequence[Message] = (),
) -> Iterator[Served]:
    """Serve a chat with this model, these tools and permissions. Without a name no model is loaded."""
    ready = threading.Event()
    made: list[Served] = []

    async def serve() -> None:
        engine = Engine(llm, tools, permissions=permissions or Permissions(), history=history)
        with listen("127.0.0.1", 0) as listener:
            url = page_url("127.0.0.1", listener.getsockname()[1], "the-token")
            async with AsyncChatMachine(engine, llms=lambda name: llm, perform=perform) as machine:
                server = ChatServer(make_app(machine, token="the-token", models=(model or MODEL,)), ready.set)
                made.append(Served(url, machine, server))
                if model:
                    machine.dispatch(LoadModel(model))
                await server.serve([listener])

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield made[0]
    finally:
        made[0].server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()
