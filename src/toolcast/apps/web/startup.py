"""From the command line of `toolcast web` to a server that listens, and to its end.

The chat lives as long as the server. A signal ends both at once: streams that are open are ended first, so that no
tab holds it up; then the chat, and the work that goes on in it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from secrets import token_urlsafe
from typing import Final
from urllib.parse import urlencode

from starlette.applications import Starlette
from uvicorn import Config, Server

from ...chat.events import LoadModel
from ...chat.machine import AsyncChatMachine
from ...errors import ToolcastError
from ...llms.base import FunctionCallingLLM
from ...llms.model_registry import choose_chat_llm
from ...llms.provider_llms import LlamaCpp
from ...toolbox.fetch import fetch_tool
from ...toolbox.files import file_tools
from ...toolbox.shell_command import command_tool
from ..repl.conversation import Kit
from ..repl.modes import MODES
from ..repl.tool_files import tools_of
from .security import TOKEN
from .server import make_app

PORT: Final = 8765
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_GRACE: Final = 1
_IDLE: Final = 120  # seconds that a connection is kept; after uvicorn's 5 a message often meets one just being closed
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that mean all of this machine's, and one of those."""


@dataclass(frozen=True, slots=True)
class WebOptions:
    """The command line of `toolcast web`."""

    model: str | None = None
    tools: str | None = None
    mode: str | None = None
    system: str = ""
    host: str = "127.0.0.1"
    port: int = PORT
    no_browser: bool = False

    @property
    def kit(self) -> Kit:
        """What the chat's engine is made of."""
        root = str(Path.cwd())
        return Kit(
            choose_chat_llm(self.model),
            wanted=MODES[self.mode] if self.mode else None,
            builtin=(*file_tools(root), command_tool(root), fetch_tool()),
            own=tools_of(self.tools) if self.tools else (),
            system=self.system,
            root=root,
        )

    @property
    def opens_browser(self) -> bool:
        """Whether there is a screen for it; a browser that writes to the terminal is not meant."""
        windows = sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
        return not self.no_browser and bool(windows)

    @property
    def is_open(self) -> bool:
        """Whether others than this machine can reach the server."""
        try:
            return not ip_address(self.host).is_loopback
        except ValueError:
            return self.host != "localhost"


class ChatServer(Server):
    """A server that ends the streams of all tabs when it ends, and keeps in `ended_by` the signal that made it."""

    def __init__(self, app: Starlette, ready: Callable[[], object]) -> None:
        super().__init__(
            Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,  # an address holds the token
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_IDLE,
                timeout_graceful_shutdown=_GRACE,
            )
        )
        self.ended_by: int = 0
        self._feed = app.state.feed
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        self._feed.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """End on a signal; what follows its end, the chat's, must not be interrupted by the same one."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = [(number, signal.signal(number, self._end)) for number in _SIGNALS]
        try:
            yield
        finally:
            for number, handler in before:
                signal.signal(number, handler)

    def _end(self, number: int, frame: object) -> None:
        self.ended_by = number
        self.force_exit: bool = self.should_exit  # it was told before
        self.should_exit = True


async def serve(options: WebOptions, said: Callable[[str], object]) -> int:
    """The exit code, when the server has ended. `said` is told the address of the page when it is there."""
    engine = options.kit.engine()
    model = options.model or name_of(engine.llm)
    token = token_urlsafe(24)
    with listening(options.host, options.port) as listener:
        url = address(options.host, listener.getsockname()[1], token)

        def ready() -> None:
            said(url)
            if options.opens_browser:
                threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

        async with AsyncChatMachine(engine, llms=choose_chat_llm) as machine:
            app = make_app(machine, token=token, host=options.host, models=(model,))
            server = ChatServer(app, ready)
            machine.dispatch(LoadModel(model))
            await server.serve([listener])
    return 128 + server.ended_by if server.ended_by else 0


def name_of(llm: FunctionCallingLLM) -> str:
    """The name that `chosen_for_chat` gives the same model for."""
    known = llm.metadata
    return f"{'local' if isinstance(llm, LlamaCpp) else known.provider}:{known.model_name}"


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises `ToolcastError` where it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ToolcastError(f"nothing can listen on {host}:{port}: {error}; --port 0 takes any free port") from error


def address(host: str, port: int, token: str) -> str:
    """The address of the page, as a browser on this machine takes it."""
    name = _EVERYWHERE.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/?{urlencode({TOKEN: token})}"
