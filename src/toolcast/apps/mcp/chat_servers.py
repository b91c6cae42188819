"""The MCP servers of a chat: started at the same time, and closed with it.

A server that does not start is a line on the terminal, and the chat begins without it. A tool whose name another tool
has is left out, so that no server can take the place of another's tools. Nothing of the `mcp` package is imported
unless a file names a server.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Final, TextIO

from ...agents.mcp.mcp_server import MCPServer
from ...async_support.closing import Closing
from ...lazy.lazy_dataclasses import dataclass
from ...text.terminal_text import exposed
from ...tools.callable_tool import CallableTool
from ..config_file import data_dir
from ..output import command_line_text
from .mcp_files import MCPConfigError, MCPFile, ServerEntry, project_file, read_mcp_file, user_file
from .server_approval import ApprovalFile, ApprovalTerminal

START_TIMEOUT: Final = 60.0
"""Seconds that a server may take to start; a runner such as npx may have to download it first."""

_KEPT_LINES: Final = 20
_LONGEST_LINE: Final = 500


@dataclass(frozen=True, slots=True)
class StartedServer:
    """A server of a chat, with its tools; `problem` is the reason why it has none."""

    entry: ServerEntry
    path: Path
    server: MCPServer | None = None
    tools: tuple[CallableTool, ...] = ()
    left_out: tuple[str, ...] = ()
    problem: str = ""
    output: OutputTail | None = None
    is_declined: bool = False

    @property
    def state(self) -> str:
        """One of `running`, `stopped`, `disabled`, `failed`, and `declined`."""
        if self.is_declined:
            return "declined"
        if self.entry.disabled:
            return "disabled"
        if self.server is None or self.problem:
            return "failed"
        return "running" if self.server.is_running else "stopped"


class MCPServerSet(Closing):
    """All servers of a chat, by `open_servers`."""

    def __init__(self, servers: Iterable[StartedServer] = ()) -> None:
        self.servers: tuple[StartedServer, ...] = tuple(servers)

    @property
    def tools(self) -> tuple[CallableTool, ...]:
        """The tools of all servers."""
        return tuple([tool for server in self.servers for tool in server.tools])

    def close(self) -> None:
        """Close all servers, at the same time."""
        _close((server.server, server.output) for server in self.servers)

    @property
    def overview(self) -> str:
        """The servers with their state and tools, for a person."""
        if not self.servers:
            return "No MCP servers. toolcast mcp list shows the files that can name some."
        return "\n".join([line for server in self.servers for line in _server_lines(server)])


def _server_lines(server: StartedServer) -> Generator[str]:
    entry = server.entry
    count = f", {len(server.tools)} tool{'' if len(server.tools) == 1 else 's'}" if server.server else ""
    yield f"{exposed(entry.name)}: {server.state}{count}  ({entry.summary or exposed(str(server.path))})"
    if server.is_declined:
        yield "    `toolcast mcp approve` in this folder allows it."
    if server.problem:
        yield f"    {server.problem}"
    rows = [(exposed(tool.name), exposed(tool.description.partition("\n")[0])) for tool in server.tools]
    rows += [(name, "left out, because another tool has this name") for name in server.left_out]
    width = max((len(name) for name, _ in rows), default=0)
    for name, summary in rows:
        yield f"  {name:{width}}  {summary}".rstrip()


@contextmanager
def open_servers(
    taken: Iterable[str],
    terminal: ApprovalTerminal,
    environ: Mapping[str, str] = os.environ,
    root: Path | None = None,
) -> Generator[MCPServerSet]:
    """Start the servers of the user's file, and of the project's if it is approved; close them at the end.

    Args:
        taken: The names of the other tools.
        terminal: The terminal, for the question of approval and what did not start.
        environ: The environment variables.
        root: The folder of the project; the working directory by default.
    """
    root = root or Path.cwd()
    approved, declined = _sorted_files(root, terminal, environ)
    entries = _unique(approved, terminal)
    started = _start_all(entries, root, environ, terminal, set(taken)) if entries else ()
    left = [StartedServer(entry, file.path, is_declined=True) for file in declined for entry in file.servers]
    with MCPServerSet((*started, *left)) as servers:
        yield servers


def configured_files(root: Path, environ: Mapping[str, str]) -> Generator[MCPFile | MCPConfigError]:
    """Yield the user's file and that of the project; the error in place of one that cannot be used."""
    found = user_file(environ)
    project = project_file(root)
    for path in (found if found.is_file() else None, project):
        if path is None or (path is project and found.is_file() and path.samefile(found)):
            continue
        try:
            yield read_mcp_file(path, is_project=path is project)
        except MCPConfigError as error:
            yield error


def approval_file(environ: Mapping[str, str]) -> ApprovalFile:
    """Return the stored answers on files of projects."""
    return ApprovalFile(data_dir(environ=environ) / "approved_mcp.json")


def _sorted_files(
    root: Path, terminal: ApprovalTerminal, environ: Mapping[str, str]
) -> tuple[list[MCPFile], list[MCPFile]]:
    """Return the files whose servers may start, and the others; ask about a project's."""
    approved, declined = list[MCPFile](), list[MCPFile]()
    for file in configured_files(root, environ):
        if isinstance(file, MCPConfigError):
            terminal.note(f"MCP servers: {file}")
        else:
            is_approved = not file.is_project or _is_approved(file, terminal, approval_file(environ))
            (approved if is_approved else declined).append(file)
    return approved, declined


def _is_approved(file: MCPFile, terminal: ApprovalTerminal, approvals: ApprovalFile) -> bool:
    if not any(not (entry.disabled or entry.problem) for entry in file.servers):
        return True  # nothing of it runs; its problems are shown
    answer = approvals.answer(file)
    if answer is None and terminal.can_ask:
        answer = terminal.ask(file)
        if answer is not None:
            approvals.store(file, answer)
    elif answer is None:
        names = ", ".join(exposed(entry.name) for entry in file.servers)
        terminal.note(
            f"The MCP servers of {exposed(file.path.name)} were not started ({names}): to see and allow what they run, "
            "enter `toolcast mcp approve` in this folder, at a terminal."
        )
    return bool(answer)


def _unique(files: Iterable[MCPFile], terminal: ApprovalTerminal) -> list[tuple[Path, ServerEntry]]:
    """Return the entries of all files; a name that an earlier file has is refused."""
    entries: dict[str, tuple[Path, ServerEntry]] = {}
    for file in files:
        for entry in file.servers:
            if entry.name in entries:
                where = exposed(str(entries[entry.name][0]))
                terminal.note(f"MCP server {exposed(entry.name)} of {file.path.name}: {where} has one of this name.")
            else:
                entries[entry.name] = (file.path, entry)
    return list(entries.values())


def _start_all(
    entries: list[tuple[Path, ServerEntry]],
    root: Path,
    environ: Mapping[str, str],
    terminal: ApprovalTerminal,
    taken: set[str],
) -> Generator[StartedServer]:
    """Yield the servers in the order of their files; all of them start at the same time."""
    starts = [_ServerStart(entry, path, root, environ) for path, entry in entries]
    names = ", ".join(exposed(start.entry.name) for start in starts if start.server is not None)
    if names and terminal.can_ask:
        terminal.note(f"Starting MCP servers: {names}")
    with ThreadPoolExecutor(len(starts), "mcp start") as pool:
        try:
            waiting: list[Future[StartedServer]] = [pool.submit(start.run) for start in starts]
            started = [future.result() for future in waiting]
        except BaseException:  # Ctrl-C: what still starts ends, and so does the pool
            _close((start.server, start.output) for start in starts)
            raise
    for each in started:
        if each.problem and not each.entry.disabled:
            terminal.note(f"MCP server {exposed(each.entry.name)}: {each.problem}")
        free, left_out = list[CallableTool](), list[str]()
        for tool in each.tools:
            if tool.name in taken:
                left_out.append(tool.name)
                name = exposed(each.entry.name)
                terminal.note(f"MCP server {name}: {tool.name} is left out, because another tool has this name.")
            else:
                taken.add(tool.name)
                free.append(tool)
        yield replace(each, tools=tuple(free), left_out=tuple(left_out))


class _ServerStart:
    """The start of one server, in a thread of its own."""

    def __init__(self, entry: ServerEntry, path: Path, root: Path, environ: Mapping[str, str]) -> None:
        self.entry: ServerEntry = entry
        self.server: MCPServer | None = None
        self._path = path
        self._problem = entry.problem
        self.output: OutputTail = OutputTail()
        if entry.problem or entry.disabled:
            return
        if find_spec("mcp") is None:
            self._problem = "needs the package mcp: pip install 'toolcast[mcp]'"
            return
        try:
            self.server = entry.server(root, environ, self.output.stream)
        except MCPConfigError as error:
            self._problem = str(error)

    def run(self) -> StartedServer:
        """Start the server, and return it with its tools or the problem."""
        if self.server is None:
            self.output.close()
            return StartedServer(self.entry, self._path, problem=self._problem)
        try:
            self.server.start(START_TIMEOUT)
            tools = tuple(self.server.tools())
        except Exception as error:  # a program of another project, which may fail in any way: the chat goes on
            self.server.close()
            self.output.close()
            last = self.output.last_line()
            words = command_line_text(error).removeprefix(f"the MCP server {self.server.name} ")
            reason = f"{words}{f' Its last message: {last}' if last else ''}"
            return StartedServer(self.entry, self._path, problem=exposed(self.server.mask(" ".join(reason.split()))))
        return StartedServer(self.entry, self._path, self.server, tools, output=self.output)


class OutputTail:
    """The last lines of what a program writes to `stream`, its standard error. A thread reads them."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.stream: TextIO = os.fdopen(writing, "w")
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._thread = Thread(target=self._read, args=(reading,), name="output tail", daemon=True)
        self._thread.start()

    def last_line(self) -> str:
        """Return the last line with text, after `close`; what is late is not waited for."""
        self._thread.join(0.5)
        return next((line.strip() for line in reversed(self._lines) if line.strip()), "")

    def close(self) -> None:
        """Close the stream. The thread ends when the program has closed it, too."""
        self.stream.close()

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as stream:
            while line := stream.readline(_LONGEST_LINE):
                self._lines.append(line)


def _close(parts: Iterable[tuple[MCPServer | None, OutputTail | None]]) -> None:
    closed = list(parts)
    threads = [Thread(target=server.close, name="mcp close") for server, _ in closed if server is not None]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _, output in closed:
        if output is not None:
            output.close()
