"""The chats of `toolcast web` in a store, served in a thread beside the browser's, with a scripted model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from toolcast.apps.repl.modes import MODES
from toolcast.apps.repl.open_session import ChatSetup
from toolcast.apps.web.chats import Chats
from toolcast.apps.web.form_files import ChatFiles
from toolcast.apps.web.model_picker import ModelPicker
from toolcast.apps.web.web_server import make_app
from toolcast.apps.web.web_startup import ChatServer, listen, new_machine, page_url
from toolcast.errors import NotFound
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.stores.sqlite_store import SQLiteStore
from toolcast.toolbox.file_access import file_tools
from toolcast.toolbox.shell_command import command_tool
from toolcast.tools.callable_tool import CallableTool

MODELS = ("test:held", "test:other")


def check(name: str) -> None:
    """Raise an error for a model that is not in `MODELS`."""
    if name not in MODELS:
        raise NotFound(f"no model {name!r}: choose one of {', '.join(MODELS)}")


@contextmanager
def stored_chats(
    home: Path, llm: FunctionCallingLLM, tools: Sequence[CallableTool] = (), *, mode: str = "build", idle: float = 60.0
) -> Iterator[str]:
    """Serve the chats of the store in `home`, whose tools work in `home / "work"`, and yield the page's address."""
    ready = threading.Event()
    made: list[tuple[str, ChatServer]] = []
    root = home / "work"
    root.mkdir(exist_ok=True)
    builtin = (*file_tools(root), command_tool(root))
    setup = ChatSetup(llm, wanted=MODES[mode], builtin=builtin, user_tools=tuple(tools), root=str(root))

    async def serve() -> None:
        with listen("127.0.0.1", 0) as listener, SQLiteStore(home / "sessions.db") as store:
            chats = Chats(
                store,
                partial(new_machine, setup, check, choose=lambda name: llm),
                model=MODELS[0],
                modes=tuple(MODES.values()),
                default_mode=mode,
                files=ChatFiles(home / "files"),
                root=str(root),
                idle=idle,
            )
            async with chats:
                app = make_app(chats, token="the-token", picker=ModelPicker(MODELS, check=check))
                server = ChatServer(app, ready.set)
                made.append((page_url("127.0.0.1", listener.getsockname()[1], "the-token"), server))
                await server.serve([listener])

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    url, server = made[0]
    try:
        yield url
    finally:
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()
