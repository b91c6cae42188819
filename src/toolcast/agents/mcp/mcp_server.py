"""`MCPServer`: the tools of an MCP server as `CallableTool`s.

The official `mcp` package implements the protocol, in a thread of its own (mcp_connection.py); a tool submits its call
there and waits, blocking in the sync API and suspended in the async one. The server is started when it is first needed.
A server that has exited fails the calls it was working on, because their outcome is unknown, and is started again by
the next one; one that was closed stays closed.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from math import inf
from pathlib import Path, PurePath
from re import ASCII, sub
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, TypeAlias, TypeVar
from urllib.parse import urlsplit

from ...async_support.cancellation import Cancellation
from ...async_support.closing import AsyncClosing, Closing
from ...errors import MCPError, ToolTimeout
from ...tools.callable_tool import CallableTool, ToolOutput
from ...tools.tool_context import ToolContext
from ...values.secret_patterns import is_secret_name
from ...values.tool_spec import legal_name
from .mcp_connection import (
    ClientCall,
    ConnectOptions,
    MCPConnection,
    http_options,
    stdio_options,
    wait_async,
    wait_blocking,
)
from .mcp_tools import ArgumentValidator, bind_arguments, clean_text, schema_problem, single_line, to_tool_output

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool

T = TypeVar("T")
Timeouts: TypeAlias = tuple[float | None, float | None]
"""The seconds that a call may take without an answer or progress, and in all."""

logger: Final = logging.getLogger("toolcast")

CALL_TIMEOUT: Final = 120.0
"""Seconds that a call may take without an answer or progress, unless `tools(timeout=...)` sets another limit."""

TOTAL_TIMEOUT: Final = 3600.0
"""Seconds that a call may take in all, unless `tools(total_timeout=...)` sets another limit."""

_PAGES = 100


def _naming_arguments(args: Sequence[str]) -> Iterator[str]:
    """Yield the arguments that are neither an option nor the value of one named like a secret."""
    for before, arg in zip(("", *args), args, strict=False):
        # Beside the dash there is a second word, as in the names of fields: `--auth` is a secret, `auth` alone is none.
        named = before.startswith("-") and "=" not in before and is_secret_name(f"option{before}")
        if not (arg.startswith("-") or named or before.lower().endswith("header")):
            yield arg


class MCPServer(Closing, AsyncClosing):
    """An MCP server, by `MCPServer.stdio(command, args)` or `MCPServer.http(url)`; `tools()` returns its tools.

    `with server:` or `async with server:` starts it and closes it in the end. Without, the first use starts it, and
    `close()` or `aclose()` close it. Needs `pip install 'toolcast[mcp]'`.
    """

    def __init__(self, options: ConnectOptions, name: str) -> None:
        self.name: str = sub(r"[^\w-]+", "_", name, flags=ASCII).strip("_")[:30] or "mcp"
        self._options = options
        self._limit: float | None = 60.0
        self._lock = Lock()
        self._closed = False
        self._connections: list[MCPConnection] = []
        # The connections have no reference to the server, so that it can be garbage-collected.
        weakref.finalize(self, _end_connections, self._connections)

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
        """Return the server that is started by `command`, over its standard input and output.

        Args:
            command: The program.
            args: Its arguments.
            env: Environment variables besides the few that are passed on: PATH, HOME and their like.
            cwd: Its working directory.
            name: The name; by default that of the first argument that is no option, nor the value of one named like a
                secret, or of the command.
            stderr: A file for its standard error, which is otherwise discarded.
        """
        named = next(_naming_arguments(args), command)
        return cls(stdio_options(command, args, env, cwd, stderr), name or PurePath(named).stem)

    @classmethod
    def http(cls, url: str, *, headers: Mapping[str, str] | None = None, name: str | None = None) -> Self:
        """Return the server at `url`, over streamable HTTP. The name is by default that of the host."""
        return cls(http_options(url, headers or {}), name or urlsplit(url).hostname or "")

    def __repr__(self) -> str:
        return f"MCPServer({self.name!r})"

    @property
    def is_running(self) -> bool:
        """True if there is a connection; the next call makes one where it was lost."""
        with self._lock:
            return any(not connection.ended for connection in self._connections)

    def mask(self, text: str) -> str:
        """Return `text` without the secrets in the server's environment variables, URL and headers."""
        return self._options.guarded.mask(text)

    def start(self, timeout: float | None = 60.0) -> None:
        """Start or restart the server now, and not when it is first used.

        A start that takes longer than `timeout` seconds fails, this one and later ones.
        """
        self._open(timeout)
        wait_blocking(self._submit(_no_operation))

    async def astart(self, timeout: float | None = 60.0) -> None:
        """Start or restart the server now, and not when it is first used.

        A start that takes longer than `timeout` seconds fails, this one and later ones.
        """
        self._open(timeout)
        await wait_async(self._submit(_no_operation))

    def close(self) -> None:
        """Close the connection, and end a server that is a program. Idempotent."""
        for connection in self._end():
            connection.join()

    async def aclose(self) -> None:
        """Close the connection, and end a server that is a program. Idempotent."""
        from anyio import to_thread

        await to_thread.run_sync(self.close)

    def __enter__(self) -> Self:
        self.start()
        return self

    async def __aenter__(self) -> Self:
        await self.astart()
        return self

    def tools(
        self,
        prefix: bool = True,
        *,
        trust_hints: bool = False,
        timeout: float | None = CALL_TIMEOUT,
        total_timeout: float | None = TOTAL_TIMEOUT,
    ) -> list[CallableTool]:
        """Return the tools that the server offers now. One whose schema is not for models is left out, with a warning.

        Args:
            prefix: Whether they are named `<server>_<tool>`, or `<tool>` alone.
            trust_hints: Trust the server's annotations on which tools are read-only, not destructive, or idempotent;
                otherwise none is assumed to be.
            timeout: Seconds that a call may take without an answer; progress extends it. None for no limit.
            total_timeout: Seconds that a call may take in all, however much progress it reports. None for no limit.
        """
        listed = wait_blocking(self._submit(self._list))
        return self._callable_tools(listed, prefix, trust_hints, (timeout, total_timeout))

    async def atools(
        self,
        prefix: bool = True,
        *,
        trust_hints: bool = False,
        timeout: float | None = CALL_TIMEOUT,
        total_timeout: float | None = TOTAL_TIMEOUT,
    ) -> list[CallableTool]:
        """Return the tools that the server offers now: see `tools`."""
        listed = await wait_async(self._submit(self._list))
        return self._callable_tools(listed, prefix, trust_hints, (timeout, total_timeout))

    async def _list(self, client: Client) -> list[Tool]:
        late = MCPError(f"the MCP server {self.name} did not list its tools within {self._limit} s")
        return await _with_timeout(self._limit, _list_all_tools(client), late)

    def _callable_tools(
        self, listed: list[Tool], prefix: bool, trusted: bool, timeouts: Timeouts
    ) -> list[CallableTool]:
        made: list[CallableTool] = []
        for tool in listed:
            problem = schema_problem(tool.input_schema)
            if problem is None:
                made.append(self._tool(tool, f"{self.name}_{tool.name}" if prefix else tool.name, trusted, timeouts))
            else:
                logger.warning("the MCP server %s: left out the tool %r: %s", self.name, tool.name, problem)
        return made

    def _tool(self, tool: Tool, name: str, trusted: bool, timeouts: Timeouts) -> CallableTool:
        hints = tool.annotations if trusted else None
        read_only = hints is not None and hints.read_only_hint is True
        remote = _RemoteTool(tool.name, self._submit, timeouts)
        return CallableTool(
            legal_name(name),
            clean_text(tool.description or "") or f"The tool {single_line(tool.name)} of {self.name}.",
            {"type": "object", **tool.input_schema},
            ArgumentValidator(tool.input_schema),
            remote.call,
            remote.acall,
            fill=bind_arguments,
            read_only=read_only,
            # The default of the protocol: a tool without the annotation may be destructive.
            destructive=not (read_only or (hints is not None and hints.destructive_hint is False)),
            idempotent=read_only or (hints is not None and hints.idempotent_hint is True),
        )

    def _submit(self, ask: ClientCall[T]) -> Future[T]:
        """Return the future of `ask(client)`; start the server if it is not running."""
        with self._lock:
            if self._closed:
                raise MCPError(f"the MCP server {self.name} is closed; start() opens it again")
            future = self._connections[-1].submit(ask) if self._connections else None
            if future is None:
                connection = MCPConnection(self.name, self._options, self._limit)
                self._connections[:] = [*[old for old in self._connections if not old.ended], connection]
                future = connection.begin(ask)
            return future

    def _open(self, limit: float | None) -> None:
        with self._lock:
            self._limit, self._closed = limit, False

    def _end(self) -> list[MCPConnection]:
        with self._lock:
            self._closed = True
            for connection in self._connections:
                connection.end()
            return list(self._connections)


class _RemoteTool:
    """A function that calls one tool of a server."""

    def __init__(
        self, name: str, submit: Callable[[ClientCall[ToolOutput]], Future[ToolOutput]], timeouts: Timeouts
    ) -> None:
        self._name = name
        self._submit = submit
        self._timeout, self._total_timeout = timeouts

    def call(self, arguments: dict[str, Any], context: ToolContext[Any]) -> ToolOutput:
        # Ctrl-C may come at any moment, also between the submission of the call and the assignment of its future.
        leaving = Cancellation(context.cancellation)
        try:
            return wait_blocking(self._start(arguments, context, leaving), leaving.cancel)
        except MCPError:
            context.check()
            raise
        finally:
            leaving.cancel()
            leaving.forget_parent()

    async def acall(self, arguments: dict[str, Any], context: ToolContext[Any]) -> ToolOutput:
        return await wait_async(self._start(arguments, context, Cancellation()))

    def _start(self, arguments: dict[str, Any], context: ToolContext[Any], leaving: Cancellation) -> Future[ToolOutput]:
        async def ask(client: Client) -> ToolOutput:
            from anyio import current_time, move_on_after

            async def emit(progress: float, total: float | None, message: str | None) -> None:
                silence.deadline = inf if self._timeout is None else current_time() + self._timeout
                context.emit({"progress": progress, "total": total, "message": message})

            name = single_line(self._name)
            late = ToolTimeout(f"{name} took longer than {self._total_timeout} s in all")
            forget = leaving.then(_canceller())
            try:
                with move_on_after(self._timeout) as silence:
                    answer = client.call_tool(self._name, arguments, progress_callback=emit)
                    return to_tool_output(await _with_timeout(self._total_timeout, answer, late), self._name)
                raise ToolTimeout(f"{name} took longer than {self._timeout} s, without an answer or progress")
            finally:
                forget()

        return self._submit(ask)


def _canceller() -> Callable[[], object]:
    """Return a function that cancels the current task, from any thread, even if its event loop is closed.

    A task that is being cancelled is left alone: a second cancellation would break through the shield in which the
    package notifies the server of the first.
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


async def _no_operation(client: Client) -> None: ...


async def _list_all_tools(client: Client) -> list[Tool]:
    """Return the tools on all pages of the server's list."""
    page = await client.list_tools()
    tools = [*page.tools]
    for _ in range(_PAGES):
        if page.next_cursor is None:
            return tools
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    raise MCPError(f"the list of tools has more than {_PAGES} pages")


async def _with_timeout(limit: float | None, work: Coroutine[Any, Any, T], late: Exception) -> T:
    from anyio import move_on_after

    with move_on_after(limit):
        return await work
    raise late


def _end_connections(connections: list[MCPConnection]) -> None:
    for connection in connections:
        connection.end()
