"""`toolcast mcp`: the MCP servers that the files name, and the approval of a project's."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ...errors import ToolcastError
from ...text.terminal_text import exposed
from ..command_parser import CommandParser
from ..output import format_table
from .chat_servers import approval_file, configured_files
from .mcp_files import MCPConfigError, MCPFile, project_file, read_mcp_file, user_file
from .server_approval import ApprovalTerminal, approval_lines

_ACTIONS: Final = {
    "list": "List the servers of your file and of the project's, without starting them.",
    "approve": "Show what the servers of the project's file run, and ask whether chats may start them.",
    "forget": "Forget the answer on the project's file, so that the next chat asks again.",
}
_ANSWERS: Final = {True: "approved", False: "refused", None: "not approved: toolcast mcp approve"}


def add_arguments(parser: CommandParser) -> None:
    """Add the sub-commands of `toolcast mcp`."""
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest="action")
    for name, summary in _ACTIONS.items():
        commands.add_parser(name, help=summary, description=summary)


def run(arguments: argparse.Namespace) -> int:
    """List, approve or forget, and return the exit code."""
    root = Path.cwd()
    if arguments.action == "list":
        return _list(root)
    path = project_file(root)
    if path is None:
        raise ToolcastError(f"no .mcp.json and no mcp.json in {root}")
    if arguments.action == "forget":
        known = approval_file(os.environ).forget(path)
        print(f"{path}: the next chat asks." if known else f"{path}: there was no answer.")
        return 0
    return _approve(read_mcp_file(path, is_project=True))


def _list(root: Path) -> int:
    failed = False
    files = list(configured_files(root, os.environ))
    if not files:
        print(f"No MCP servers: name some in {user_file()}, or in .mcp.json of a project.")
    for file in files:
        if isinstance(file, MCPConfigError):
            print(f"toolcast: {file}", file=sys.stderr)
            failed = True
        else:
            print(*_file_lines(file), sep="\n")
    return int(failed)


def _file_lines(file: MCPFile) -> Iterator[str]:
    answer = f"  ({_ANSWERS[approval_file(os.environ).answer(file)]})" if file.is_project else ""
    yield f"{exposed(str(file.path))}{answer}"
    rows = [
        (f"  {exposed(entry.name)}", entry.problem or ("disabled" if entry.disabled else entry.summary))
        for entry in file.servers
    ]
    yield from format_table(rows) if rows else ()


def _approve(file: MCPFile) -> int:
    terminal = ApprovalTerminal(sys.stdin, sys.stderr)
    if not terminal.can_ask:
        print(*approval_lines(file), sep="\n", file=sys.stderr)
        raise ToolcastError("an approval needs a terminal: run this command without pipes")
    answer = terminal.ask(file)
    if answer is not None:
        approval_file(os.environ).store(file, answer)
    print(f"{file.path}: {_ANSWERS[answer]}")
    return int(not answer)
