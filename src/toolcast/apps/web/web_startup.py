"""Start-up and shutdown of `toolcast web`.

The chats are in a store, and are opened on request. A signal ends the server: first the open event streams, so that no
tab delays the end, then the open chats and their running work.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from secrets import token_urlsafe
from typing import Final
from urllib.parse import urlencode

from starlette.applications import Starlette
from uvicorn import Config, Server

from ...agents.engine.engine import Engine
from ...chat.machine import AsyncChatMachine
from ...errors import ConnectFailed, NotFound, ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from ...llms.function_calling_llm import FunctionCallingLLM
from ...llms.local.llama_cpp import LlamaCpp
from ...llms.local.weights import WEIGHTS
from ...stores.memory_store import MemoryStore
from ...stores.sqlite_store import SQLiteStore
from ...stores.store import Store
from ...toolbox.fetch import fetch_tool
from ...toolbox.file_access import file_tools
from ...toolbox.shell_command import command_tool
from ..api_keys import choose_chat_llm, choose_llm
from ..approval_preview import BUILT_IN
from ..config_file import data_dir, replace_file, resolve_alias, sessions_file
from ..model_facts import ServedModels
from ..model_list import check_model, list_models
from ..repl.modes import MODES
from ..repl.open_session import ChatSetup
from ..repl.tool_files import load_tools
from .chats import Chats
from .form_files import ChatFiles
from .model_picker import ModelPicker
from .security import TOKEN
from .web_server import make_app

PORT: Final = 8765
_TOKEN_BYTES: Final = 24
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
    no_mcp: bool = False

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
        self._chats = app.state.chats
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening and call `ready`."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the event streams, then the server."""
        self._chats.close_streams()
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


async def serve(options: WebOptions, on_ready: Callable[[str], object], setup: ChatSetup | None = None) -> int:
    """Serve the page until a signal, and return the exit code.

    Args:
        options: The command line.
        on_ready: Called with the page's address.
        setup: The configuration of the chats' engines; by default that of `options`.
    """
    setup = setup or options.chat_setup
    model = options.model or model_name(setup.llm)
    home, served = data_dir(), ServedModels()
    picker = ModelPicker(
        (model, *(f"local:{name}" for name in WEIGHTS)), list_others=_list_models, check=partial(_check_model, served)
    )
    with ExitStack() as closing:
        listener = closing.enter_context(listen(options.host, options.port))
        store = closing.enter_context(_open_store(home))
        token = page_token(home, options.port)
        url = page_url(options.host, listener.getsockname()[1], token)

        def ready() -> None:
            on_ready(url)
            if options.opens_browser:
                threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

        chats = Chats(
            store,
            partial(new_machine, setup, picker.check),
            model=model,
            modes=tuple(MODES.values()),
            default_mode=setup.mode.name,
            files=ChatFiles(home / "files"),
            root=setup.root,
            served=served,
            built_in=BUILT_IN - {tool.name for tool in setup.user_tools},
        )
        async with chats:
            server = ChatServer(make_app(chats, token=token, host=options.host, picker=picker), ready)
            await server.serve([listener])
    return 128 + server.ended_by if server.ended_by else 0


def _choose_llm(name: str) -> FunctionCallingLLM:
    return choose_chat_llm(resolve_alias(name))


def new_machine(
    setup: ChatSetup,
    check_model: Callable[[str], object],
    choose: Callable[[str], FunctionCallingLLM] = _choose_llm,
) -> AsyncChatMachine:
    """Return the machine of a new chat with the model, tools and mode of `setup`.

    Args:
        setup: The configuration of its engine.
        check_model: Raises an error if the model of this name cannot be used.
        choose: Returns the LLM of this name.
    """

    def configure(llm: FunctionCallingLLM, mode: str | None) -> Engine:
        if mode is not None and mode not in MODES:
            raise ValueError(f"no mode {mode!r:.60}; expected one of: {', '.join(MODES)}")
        return replace(setup, llm=llm, wanted=MODES[mode] if mode else setup.wanted).engine()

    return AsyncChatMachine(setup.engine(), llms=choose, configure=configure, check_model=check_model)


def _check_model(served: ServedModels, name: str) -> None:
    """Check that a provider has a model, and ask for what its server lists about it."""
    model = resolve_alias(name)
    try:
        served.ask(check_model(model, make=choose_llm))
    except (NotFound, ConnectFailed) as error:
        if ":" in model or model.endswith(".gguf"):
            raise
        text = f"{name!r} names no provider, and was taken for a model of Ollama: {error}"
        raise ToolcastError(text) from error


def _list_models() -> tuple[list[str], dict[str, str]]:
    """Return the models of all providers with a key, and the errors of providers."""
    found = list_models(make=choose_llm)
    errors = {each.provider: each.error for each in found if each.error}
    return [name for each in found for name in each.models], errors


@contextmanager
def _open_store(home: Path) -> Generator[Store]:
    """Provide the store of the sessions, or one in memory if it cannot be used."""
    with ExitStack() as closing:
        store: Store
        try:
            store = closing.enter_context(SQLiteStore(sessions_file(home)))
        except ToolcastError as error:
            print(f"toolcast: chats will not be saved: {error}", file=sys.stderr)
            store = MemoryStore()
        yield store


def model_name(llm: FunctionCallingLLM) -> str:
    """Return the name for which `choose_chat_llm` returns the same model."""
    metadata = llm.metadata
    return f"{'local' if isinstance(llm, LlamaCpp) else metadata.provider}:{metadata.model_name}"


def page_token(home: Path, port: int) -> str:
    """Return the token of the page on this port: the same at each start, so that bookmarks and open tabs stay valid.

    It is in a file in `home` that only its owner can read. Port 0, which is another one at each start, has a new token,
    and so has a file that is not as it was written here.
    """
    token = token_urlsafe(_TOKEN_BYTES)
    if port == 0:
        return token
    path = home / f"web-{port}.token"
    with suppress(OSError, ValueError):
        is_private = os.name == "nt" or not path.stat().st_mode & 0o077
        before = path.read_text(encoding="ascii").strip()
        if is_private and re.fullmatch(r"[A-Za-z0-9_-]{32}", before):
            return before
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, f"{token}\n", mode=0o600)
    except OSError as error:
        print(f"toolcast: the address will be another one at the next start: {error}", file=sys.stderr)
    return token


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
