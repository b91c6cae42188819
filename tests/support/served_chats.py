"""Chats of the page with a scripted model, and a client that sends requests to their application."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx

from toolcast.apps.repl.modes import MODES
from toolcast.apps.repl.open_session import ChatSetup
from toolcast.apps.web.chats import Chats
from toolcast.apps.web.form_files import ChatFiles
from toolcast.apps.web.model_picker import ModelPicker
from toolcast.apps.web.web_server import make_app
from toolcast.apps.web.web_startup import new_machine
from toolcast.chat.machine import AsyncChatMachine
from toolcast.errors import NotFound
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.stores.sqlite_store import SQLiteStore
from toolcast.stores.store import Store
from toolcast.toolbox.file_access import file_tools
from toolcast.tools.callable_tool import CallableTool

TOKEN = "a-token"
MODEL = "test:model"


def check(name: str) -> None:
    """Raise an error for any other model than `MODEL`."""
    if name != MODEL:
        raise NotFound(f"no model {name!r}")


class ChatClient:
    """Chats, and a client of their application."""

    def __init__(self, chats: Chats, client: httpx.AsyncClient) -> None:
        self.chats = chats
        self.client = client

    async def create(self) -> str:
        """Return the id of a new chat."""
        id: str = (await self.client.post("/chats", json={})).json()["id"]
        return id

    async def dispatch(self, id: str, type: str, **fields: Any) -> httpx.Response:
        """Dispatch an event."""
        return await self.client.post(f"/chats/{id}/dispatch", json={"type": type, **fields})

    async def send(self, id: str, message: str, **fields: Any) -> httpx.Response:
        """Send a message, and wait for the end of the turn."""
        async with self.chats.writing(id) as chat:
            await chat.machine.run_until("ready", "load_failed")
            response = await self.dispatch(id, "QUEUE_MESSAGE", message=message, **fields)
            await chat.machine.run_until()
        return response

    async def snapshot(self, id: str) -> dict[str, Any]:
        """Return the first event of the chat's stream."""
        async with self.chats.reading(id) as chat, aclosing_stream(chat.feed.read()) as events:
            async for event in events:
                if event.startswith(b"event: snapshot"):
                    found: dict[str, Any] = json.loads(event.partition(b"data: ")[2])
                    return found
        raise AssertionError

    async def rows(self, **query: Any) -> list[dict[str, Any]]:
        """Return the list of chats."""
        found: list[dict[str, Any]] = (await self.client.get("/chats", params=query)).json()["chats"]
        return found


@asynccontextmanager
async def aclosing_stream(stream: Any) -> AsyncIterator[Any]:
    """Close an async generator at the end."""
    try:
        yield stream
    finally:
        await stream.aclose()


@asynccontextmanager
async def chat_client(
    home: Path,
    llm: FunctionCallingLLM,
    tools: Sequence[CallableTool] = (),
    *,
    idle: float = 60.0,
    store: Store | None = None,
    mode: str | None = None,
) -> AsyncIterator[ChatClient]:
    """Serve the chats of the store in `home`."""
    await anyio.Path(home).mkdir(exist_ok=True)
    setup = ChatSetup(
        llm,
        wanted=MODES[mode] if mode else None,
        builtin=tuple(file_tools(str(home))),
        user_tools=tuple(tools),
        root=str(home),
    )

    def machine() -> AsyncChatMachine:
        return new_machine(setup, check, choose=lambda name: replace(setup, llm=llm).llm)

    async with AsyncExitStack() as stack:
        opened = store or stack.enter_context(SQLiteStore(home / "sessions.db"))
        chats = await stack.enter_async_context(
            Chats(
                opened,
                machine,
                model=MODEL,
                modes=tuple(MODES.values()),
                default_mode=setup.mode.name,
                files=ChatFiles(home / "files"),
                root=str(home),
                idle=idle,
            )
        )
        app = make_app(chats, token=TOKEN, picker=ModelPicker([MODEL], check=check))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        transport = httpx.ASGITransport(app)
        client = await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)
        )
        yield ChatClient(chats, client)
