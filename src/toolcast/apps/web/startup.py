"""Start-up and shutdown of `toolcast web`.

The chat lives as long as the server. A signal ends both: first the open event streams, so that no tab delays the end,
then the chat and its running work.
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
from ...lazy_dataclasses import dataclass
from ...llms.base import FunctionCallingLLM
from ...llms.model_registry import choose_chat_llm
from ...llms.provider_llms import LlamaCpp
from ...toolbox.fetch import fetch_tool
from ...toolbox.files import file_tools
from ...toolbox.shell_command import command_tool
from ..repl.conversation import ChatSetup
from ..repl.modes import MODES
from ..repl.tool_files import load_tools
from .security import TOKEN
from .server import make_app

PORT: Final = 8765
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_GRACE: Final = 1
_IDLE: Final = 120  # seconds; with uvicorn's 5 a request often met a connection that was just being closed
_LOOPBACK_OF: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that mean all interfaces, and the loopback address of each."""


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
    def chat_setup(self) -> ChatSetup:
        """The configuration of the chat's engine."""
        root = str(Path.cwd())
        return ChatSetup(
            choose_chat_llm(self.model),
            wanted=MODES[self.mode] if self.mode else None,
            builtin=(*file_tools(root), command_tool(root), fetch_tool()),
            user_tools=load_tools(self.tools) if self.tools else (),
            system=self.system,
            root=root,
        )

    @property
    def opens_browser(self) -> bool:
        """True if there is a graphical display; a browser that runs in the terminal is not opened."""
        windows = sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
        return not self.no_browser and bool(windows)

    @property
    def is_open(self) -> bool:
        """True if other machines can reach the server."""
        try:
            return not ip_address(self.host).is_loopback
        except ValueError:
            return self.host != "localhost"


class ChatServer(Server):
    """A server that ends the streams of all tabs when it ends; `ended_by` is the signal, or 0."""

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
        """Start listening and call `ready`."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the event streams, then the server."""
        self._feed.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """End the server on a signal. The handlers stay until then, so that no signal interrupts the chat's end."""
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
        self.force_exit: bool = self.should_exit  # the second signal ends open connections, too
        self.should_exit = True


async def serve(options: WebOptions, on_ready: Callable[[str], object]) -> int:
    """Serve the page until a signal, and return the exit code. `on_ready` is called with the page's address."""
    engine = options.chat_setup.engine()
    model = options.model or model_name(engine.llm)
    token = token_urlsafe(24)
    with listen(options.host, options.port) as listener:
        url = page_url(options.host, listener.getsockname()[1], token)

        def ready() -> None:
            on_ready(url)
            if options.opens_browser:
                threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

        async with AsyncChatMachine(engine, llms=choose_chat_llm) as machine:
            app = make_app(machine, token=token, host=options.host, models=(model,))
            server = ChatServer(app, ready)
            machine.dispatch(LoadModel(model))
            await server.serve([listener])
    return 128 + server.ended_by if server.ended_by else 0


def model_name(llm: FunctionCallingLLM) -> str:
    """Return the name for which `choose_chat_llm` returns the same model."""
    metadata = llm.metadata
    return f"{'local' if isinstance(llm, LlamaCpp) else metadata.provider}:{metadata.model_name}"


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address.

    Raises:
        ToolcastError: The address is in use or not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ToolcastError(f"cannot listen on {host}:{port}: {error}; --port 0 selects a free port") from error


def page_url(host: str, port: int, token: str) -> str:
    """Return the address of the page for a browser on this machine."""
    name = _LOOPBACK_OF.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/?{urlencode({TOKEN: token})}"
