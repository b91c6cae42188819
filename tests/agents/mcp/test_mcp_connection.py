"""Connections that are never opened, or end before they are used."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.process import Process
from support.silent_mcp_transport import silent
from toolcast.agents.mcp.mcp_connection import ConnectOptions, MCPConnection, _tool_problem, stdio_options
from toolcast.agents.mcp.mcp_server import MCPServer
from toolcast.errors import MCPError


async def nothing(client: Any) -> None: ...


def test_a_forgotten_server_is_closed() -> None:
    server = MCPServer(ConnectOptions(silent, "Wait."), "forgotten")
    starting = server._submit(nothing)
    link = server._connections[-1]
    del server
    gc.collect()
    link.join()
    with pytest.raises(MCPError, match="was closed before it had started"):
        starting.result()


def test_closed_before_it_began() -> None:
    link = MCPConnection("x", ConnectOptions(silent, "Wait."), None)
    link.end()
    first = link.begin(nothing)
    link.join()
    with pytest.raises(MCPError, match="the MCP server x was closed before it had started"):
        first.result()
    assert link.submit(nothing) is None
    link.end()


def test_a_program_that_is_closed_while_it_starts_leaves_no_zombie(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[subprocess.Popen[bytes]] = []

    class ClosedAtOnce(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self)
            link.end()

    monkeypatch.setattr(subprocess, "Popen", ClosedAtOnce)
    link = MCPConnection("x", stdio_options(sys.executable, ["-c", "input()"], None, None, None), None)
    first = link.begin(nothing)
    link.join()
    with pytest.raises(MCPError, match="the MCP server x was closed before it had started"):
        first.result()
    assert [process.returncode is None for process in made] == [False]


def test_the_standard_error_of_a_program(tmp_path: Path) -> None:
    code = "import sys; sys.exit('no key')"
    with (tmp_path / "errors").open("w+") as file:
        opening = stdio_options(sys.executable, ["-c", code], None, tmp_path, file)
        with pytest.raises(MCPError):
            MCPServer(opening, "x").start()
        file.seek(0)
        assert file.read().strip() == "no key"


def test_without_the_package(process: Process) -> None:
    process.without("mcp")
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[mcp\]'"):
        MCPServer.http("http://127.0.0.1:1/mcp").tools()


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_only_faults_of_a_tool_itself_speak_against_it(version: str) -> None:
    tool = {"name": "x", "inputSchema": {"type": "object"}}
    assert _tool_problem(tool, {"nextCursor": 7}, version) is None
    assert _tool_problem({**tool, "name": 7}, {"nextCursor": 7}, version) == "name: Input should be a valid string"


def test_the_package_is_imported_when_it_is_needed() -> None:
    code = "import sys, toolcast.agents.mcp.mcp_server as m; m.MCPServer.stdio('x'); sys.exit('mcp' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
