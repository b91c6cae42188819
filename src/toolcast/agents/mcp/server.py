"""`MCPServer`: the tools of an MCP server, as tools of ours.

The official `mcp` package speaks the protocol, in a thread of its own (mcp_links.py); a tool sends its call there and
waits, blocking under the sync face and suspended under the async one. It is started when it is first needed. A server
that has gone fails the calls it was working on, because nobody knows what became of them, and is started again by the
next one; one that was closed stays closed.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path, PurePath
from re import ASCII, compile as regex, sub
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, TypeVar
from urllib.parse import urlsplit

from ...cancellation import Cancellation
from ...closing import AsyncClosing, Closing
from ...errors import MCPError, ToolTimeout
from ...tool_spec import legal_name
from ...tools.callable_tool import CallableTool, ToolOutput
from ...tools.context import ToolContext
from .connection import Ask, ConnectOptions, MCPConnection, awaited, over_http, over_stdio, waited
from .tools import Arguments, clean, fault_of, in_a_line, output_of, passed

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool

T = TypeVar("T")

_SECRET_OPTION: Final = regex("(?i)-.*(key|token|secret|passw|auth|credential|header)[^=]*")

logger: Final = logging.getLogger("toolcast")

CALL_TIMEOUT: Final = 120.0
"""Seconds that a call of a tool may take, unless `tools(timeout=...)` says otherwise."""

_PAGES = 100


def _plain(args: Sequence[str]) -> Iterator[str]:
    """The arguments that are neither an option nor the value of one that is named like a secret."""
    for before, arg in zip(("", *args), args, strict=False):
        if not (arg.startswith("-") or _SECRET_OPTION.fullmatch(before)):
            yield arg


class MCPServer(Closing, AsyncClosing):
    """An MCP server, by `MCPServer.stdio(command, args)` or `MCPServer.http(url)`; `tools()` are what it offers.

    `with server:` or `async with server:` starts it and closes it in the end. Without, the first use starts it, and
    `close()` or `aclose()` close it. Needs `pip install 'toolcast[mcp]'`.
    """

    def __init__(self, opening: ConnectOptions, name: str) -> None:
        self.name: str = sub(r"[^\w-]+", "_", name, flags=ASCII).strip("_")[:30] or "mcp"
        self._opening = opening
        self._limit: float | None = 60.0
        self._lock = Lock()
        self._closed = False
        self._links: list[MCPConnection] = []
        # The links do not know the server, so that it can be collected.
        weakref.finalize(self, _forsake, self._links)

    @classmethod
    def stdio(
        cls,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        name: str | None = None,
        stderr: TextIO | None = None,
    ) -> Self:
        """The server that the program `command` is, spoken to over its standard input and output.

        It sees `env` and little of this program's environment: PATH, HOME and their like. What it writes to its
        standard error goes to the file `stderr`, otherwise nowhere. The name is that of the first argument that is
        no option, nor the value of one that is named like a secret, or of the command.
        """
        spoken = next(_plain(args), command)
        return cls(over_stdio(command, args, env, cwd, stderr), name or PurePath(spoken).stem)

    @classmethod
    def http(cls, url: str, *, headers: Mapping[str, str] | None = None, name: str | None = None) -> Self:
        """The server at `url`, spoken to over streamable HTTP. The name is that of the host."""
        return cls(over_http(url, headers or {}), name or urlsplit(url).hostname or "")

    def __repr__(self) -> str:
        return f"MCPServer({self.name!r})"

    def start(self, timeout: float | None = 60.0) -> None:
        """Start the server, or start it again, now and not when it is first used.

        A start that takes longer than `timeout` seconds fails, this one and later ones.
        """
        self._open(timeout)
        waited(self._submit(_nothing))

    async def astart(self, timeout: float | None = 60.0) -> None:
        """Start the server, or start it again, now and not when it is first used.

        A start that takes longer than `timeout` seconds fails, this one and later ones.
        """
        self._open(timeout)
        await awaited(self._submit(_nothing))

    def close(self) -> None:
        """Close the connection, and end a server that is a program. Harmless when repeated."""
        for link in self._shut():
            link.join()

    async def aclose(self) -> None:
        """Close the connection, and end a server that is a program. Harmless when repeated."""
        from anyio import to_thread

        await to_thread.run_sync(self.close)

    def __enter__(self) -> Self:
        self.start()
        return self

    async def __aenter__(self) -> Self:
        await self.astart()
        return self

    def tools(
        self, prefix: bool = True, *, trust_hints: bool = False, timeout: float | None = CALL_TIMEOUT
    ) -> list[CallableTool]:
        """The tools that the server offers now, named `<server>_<tool>`, or just `<tool>` without `prefix`.

        `trust_hints`: believe the server where it says which tools only read, destroy nothing, or may be run twice;
        otherwise all count as if they could do anything. `timeout`: seconds that each call may take, None for no
        limit. A tool whose schema cannot be offered to a model is left out, with a warning.
        """
        listed = waited(self._submit(self._list))
        return self._made(listed, prefix, trust_hints, timeout)

    async def atools(
        self, prefix: bool = True, *, trust_hints: bool = False, timeout: float | None = CALL_TIMEOUT
    ) -> list[CallableTool]:
        """What `tools` gives."""
        listed = await awaited(self._submit(self._list))
        return self._made(listed, prefix, trust_hints, timeout)

    async def _list(self, client: Client) -> list[Tool]:
        late = MCPError(f"the MCP server {self.name} did not list its tools within {self._limit} s")
        return await _within(self._limit, _listed(client), late)

    def _made(self, listed: list[Tool], prefix: bool, trusted: bool, timeout: float | None) -> list[CallableTool]:
        made: list[CallableTool] = []
        for tool in listed:
            fault = fault_of(tool.input_schema)
            if fault is None:
                made.append(self._tool(tool, f"{self.name}_{tool.name}" if prefix else tool.name, trusted, timeout))
            else:
                logger.warning("the MCP server %s: left out the tool %r: %s", self.name, tool.name, fault)
        return made

    def _tool(self, tool: Tool, name: str, trusted: bool, timeout: float | None) -> CallableTool:
        hints = tool.annotations if trusted else None
        read_only = hints is not None and hints.read_only_hint is True
        remote = _Remote(tool.name, self._submit, timeout)
        return CallableTool(
            legal_name(name),
            clean(tool.description or "") or f"The tool {in_a_line(tool.name)} of {self.name}.",
            {"type": "object", **tool.input_schema},
            Arguments(tool.input_schema),
            remote.call,
            remote.acall,
            fill=passed,
            read_only=read_only,
            # So it is in the protocol: what is not said to be harmless may not be.
            destructive=not (read_only or (hints is not None and hints.destructive_hint is False)),
            idempotent=read_only or (hints is not None and hints.idempotent_hint is True),
        )

    def _submit(self, ask: Ask[T]) -> Future[T]:
        """What becomes of `ask(client)`; the server is started if it is not running."""
        with self._lock:
            if self._closed:
                raise MCPError(f"the MCP server {self.name} is closed; start() opens it again")
            future = self._links[-1].submit(ask) if self._links else None
            if future is None:
                link = MCPConnection(self.name, self._opening, self._limit)
                self._links[:] = [*[old for old in self._links if not old.ended], link]
                future = link.begin(ask)
            return future

    def _open(self, limit: float | None) -> None:
        with self._lock:
            self._limit, self._closed = limit, False

    def _shut(self) -> list[MCPConnection]:
        with self._lock:
            self._closed = True
            for link in self._links:
                link.end()
            return list(self._links)


class _Remote:
    """One tool of a server, called."""

    def __init__(
        self, name: str, submit: Callable[[Ask[ToolOutput]], Future[ToolOutput]], timeout: float | None
    ) -> None:
        self._name = name
        self._submit = submit
        self._timeout = timeout

    def call(self, arguments: dict[str, Any], context: ToolContext[Any]) -> ToolOutput:
        # Ctrl-C may come at any moment, also when the call has begun and its future is not known here yet.
        leaving = Cancellation(context.cancellation)
        try:
            return waited(self._begun(arguments, context, leaving), leaving.cancel)
        except MCPError:
            context.check()
            raise
        finally:
            leaving.cancel()
            leaving.forget_parent()

    async def acall(self, arguments: dict[str, Any], context: ToolContext[Any]) -> ToolOutput:
        return await awaited(self._begun(arguments, context, Cancellation()))

    def _begun(self, arguments: dict[str, Any], context: ToolContext[Any], leaving: Cancellation) -> Future[ToolOutput]:
        async def tell(progress: float, total: float | None, message: str | None) -> None:
            context.emit({"progress": progress, "total": total, "message": message})

        async def ask(client: Client) -> ToolOutput:
            heard = tell if context.on_progress else None
            late = ToolTimeout(f"{in_a_line(self._name)} took longer than {self._timeout} s")
            forget = leaving.then(_canceller())
            try:
                answer = client.call_tool(self._name, arguments, progress_callback=heard)
                return output_of(await _within(self._timeout, answer, late), self._name)
            finally:
                forget()

        return self._submit(ask)


def _canceller() -> Callable[[], object]:
    """Return what cancels the task that runs here, from any thread. Harmless when its event loop is closed.

    A task that is being cancelled is left alone: a second cancellation would break through the shield behind which the
    package tells the server of the first.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None

    def cancel_once() -> None:
        if not task.cancelling():
            task.cancel()

    def cancel() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(cancel_once)

    return cancel


async def _nothing(client: Client) -> None: ...


async def _listed(client: Client) -> list[Tool]:
    """Every tool that the server has, from as many pages as it has put them on."""
    page = await client.list_tools()
    tools = [*page.tools]
    for _ in range(_PAGES):
        if page.next_cursor is None:
            return tools
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    raise MCPError(f"the list of tools has more than {_PAGES} pages")


async def _within(limit: float | None, work: Coroutine[Any, Any, T], late: Exception) -> T:
    from anyio import move_on_after

    with move_on_after(limit):
        return await work
    raise late


def _forsake(links: list[MCPConnection]) -> None:
    for link in links:
        link.end()
