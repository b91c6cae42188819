"""The MCP servers of a chat: real ones, started together, with the tools that no other tool hinders."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.process import Process
from toolcast.apps.mcp import chat_servers as module
from toolcast.apps.mcp.chat_servers import MCPServerSet, OutputTail, open_servers
from toolcast.apps.mcp.server_approval import ApprovalTerminal
from toolcast.apps.repl.modes import MODES
from toolcast.apps.repl.open_session import ChatSetup
from toolcast.testing import ScriptedLLM

SERVER = str(Path(__file__).parents[2] / "support" / "mcp_server.py")
REAL = {"command": sys.executable, "args": [SERVER]}


class Person(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal in which no message is wrapped."""
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    """No thread of a server outlives it."""
    yield
    for thread in threading.enumerate():
        if thread.name.startswith(("mcp", "output tail")):
            thread.join(30)
            assert not thread.is_alive(), thread.name


class Folder:
    """A project, and the files of a user."""

    def __init__(self, path: Path) -> None:
        self.root = path / "project"
        self.root.mkdir()
        self.config = path / "config"
        self.config.mkdir()
        self.environ = {
            "TOOLCAST_CONFIG": str(self.config / "config.toml"),
            "TOOLCAST_HOME": str(path / "home"),
            "PATH": "/usr/bin:/bin",
            "LC_TIME": "C",
            "OPENAI_API_KEY": "sk-secret",
        }

    def own(self, **servers: Any) -> None:
        (self.config / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def project(self, **servers: Any) -> None:
        (self.root / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def open(self, *taken: str, typed: str | None = None) -> tuple[Any, io.StringIO]:
        """Return the context manager, and what it shows. Without `typed` there is no terminal."""
        shown = io.StringIO() if typed is None else Person()
        stdin = io.StringIO() if typed is None else Person(typed)
        return open_servers(taken, ApprovalTerminal(stdin, shown), self.environ, self.root), shown


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_without_a_file_there_are_none(folder: Folder) -> None:
    opening, shown = folder.open()
    with opening as servers:
        assert servers.tools == ()
        assert servers.overview.startswith("No MCP servers.")
    assert shown.getvalue() == ""
    assert not (folder.root.parent / "home").exists()


def test_the_users_own_servers_start_with_few_variables(folder: Folder) -> None:
    folder.own(tests={**REAL, "env": {"GIVEN": "${OPENAI_API_KEY}"}})
    opening, shown = folder.open()
    with opening as servers:
        tools = {tool.name: tool for tool in servers.tools}
        assert tools["tests_add"].call({"a": 2, "b": 3}).content == "5"
        assert not tools["tests_add"].read_only  # the server's word does not count
        names = set(str(tools["tests_environment"].call({}).content).splitlines())
        assert {"PATH", "LC_TIME", "GIVEN"} <= names
        assert not {"OPENAI_API_KEY", "TOOLCAST_HOME"} & names
        assert "tests: running, " in servers.overview
        assert "  The sum of two numbers." in servers.overview
        (started,) = servers.servers
        assert started.server is not None
        started.server.close()
        assert "tests: stopped, " in servers.overview
    assert shown.getvalue() == ""


def test_their_tools_run_unasked_in_no_mode(folder: Folder) -> None:
    folder.own(tests=REAL)
    opening, _ = folder.open()
    with opening as servers:
        for name, mode in MODES.items():
            setup = ChatSetup(ScriptedLLM(), wanted=mode).with_servers(servers)
            offered = [tool for tool in setup.tools if tool.name == "tests_add"]
            assert len(offered) == (name != "plan")
            permissions = setup.mode.permissions(".", setup.user_tools, can_ask=True)
            verdicts = {permissions.decide(tool, {"a": 1}).verdict for tool in servers.tools}
            assert verdicts == ({"deny"} if name == "plan" else {"ask"})


def test_one_that_does_not_start_is_a_line_and_the_others_go_on(folder: Folder) -> None:
    broken = "import sys; sys.exit('no key abc123 here')"
    folder.own(
        absent={"command": "/no/such/program"},
        broken={"command": sys.executable, "args": ["-c", broken], "env": {"A_TOKEN": "abc123"}},
        unset={"command": "x", "args": ["${NOT_SET}"]},
        wrong={"command": 1},
        off={"command": "x", "disabled": True},
        tests=REAL,
    )
    opening, shown = folder.open(typed="")
    with opening as servers:
        assert [server.state for server in servers.servers] == [*["failed"] * 4, "disabled", "running"]
        assert "off: disabled  (x)" in servers.overview
        assert "    the environment variable NOT_SET is not set" in servers.overview
        assert "tests_add" in {tool.name for tool in servers.tools}
    lines = shown.getvalue().splitlines()
    assert lines[0] == "Starting MCP servers: absent, broken, tests"
    names = [line.removeprefix("MCP server ").split(":")[0] for line in lines[1:]]
    assert names == ["absent", "broken", "unset", "wrong"]
    assert "No such file" in lines[1]
    assert "Its last message: no key [key] here" in lines[2]
    assert lines[3] == "MCP server unset: the environment variable NOT_SET is not set"
    assert lines[4] == "MCP server wrong: command: expected a text"
    assert "stderr=" not in shown.getvalue()


def test_a_name_that_another_tool_has_is_left_out(folder: Folder) -> None:
    folder.own(tests=REAL)
    opening, shown = folder.open("tests_add", "read_file")
    with opening as servers:
        names = {tool.name for tool in servers.tools}
        assert "tests_greet" in names
        assert "tests_add" not in names
        rows = [line.split(maxsplit=1) for line in servers.overview.splitlines()]
        assert ["tests_add", "left out, because another tool has this name"] in rows
    assert shown.getvalue() == "MCP server tests: tests_add is left out, because another tool has this name.\n"


def test_servers_of_one_name_or_with_one_name_for_a_tool(folder: Folder) -> None:
    folder.own(tests=REAL)
    (folder.config / "mcp.json").write_text(json.dumps({"mcpServers": {"te/sts": REAL, "te sts": REAL, "x": {}}}))
    folder.project(x=REAL)
    opening, shown = folder.open(typed="y\n")
    with opening as servers:
        first, second, third = servers.servers
        assert first.tools
        assert second.tools == ()
        assert set(second.left_out) == {tool.name for tool in first.tools}
        assert third.problem == "expected either command or url"
    assert f"MCP server x of .mcp.json: {folder.config / 'mcp.json'} has one of this name." in shown.getvalue()


def test_a_projects_servers_start_after_a_yes_and_until_the_file_changes(folder: Folder) -> None:
    folder.project(tests=REAL)
    for typed, started in (("n\n", False), ("y\n", True), ("", True)):
        opening, shown = folder.open(typed=typed)
        with opening as servers:
            assert bool(servers.tools) is started
            assert ("tests: declined" in servers.overview) is not started
        assert ("Start them" in shown.getvalue()) is (typed != "")
    opening, shown = folder.open()
    with opening as servers:
        assert servers.tools
    folder.project(tests={**REAL, "env": {"A": "b"}})
    opening, shown = folder.open(typed="v\n")
    with opening as servers:
        assert not servers.tools
    assert "env A=b" in shown.getvalue()
    opening, shown = folder.open(typed="y\n")
    with opening as servers:
        assert not servers.tools
    assert shown.getvalue() == ""


def test_in_a_pipe_a_project_is_refused_with_the_next_step(folder: Folder) -> None:
    folder.project(tests=REAL, more={"command": "x"})
    opening, shown = folder.open()
    with opening as servers:
        assert servers.overview.splitlines() == [
            f"tests: declined  ({servers.servers[0].entry.summary})",
            "    `toolcast mcp approve` in this folder allows it.",
            "more: declined  (x)",
            "    `toolcast mcp approve` in this folder allows it.",
        ]
    assert shown.getvalue() == (
        "The MCP servers of .mcp.json were not started (tests, more): to see and allow what they run, enter "
        "`toolcast mcp approve` in this folder, at a terminal.\n"
    )


def test_a_file_without_a_server_that_can_run_needs_no_approval(folder: Folder) -> None:
    folder.project(off={"command": "x", "disabled": True})
    opening, shown = folder.open()
    with opening as servers:
        assert [server.state for server in servers.servers] == ["disabled"]
    assert shown.getvalue() == ""


def test_a_damaged_file_is_a_line(folder: Folder) -> None:
    (folder.config / "mcp.json").write_text("{")
    opening, shown = folder.open()
    with opening as servers:
        assert servers.servers == ()
    assert "MCP servers: " in shown.getvalue()
    assert "line 1" in shown.getvalue()


def test_the_users_file_in_the_working_directory_is_not_a_projects(folder: Folder) -> None:
    folder.root = folder.config
    folder.own(tests=REAL)
    opening, _ = folder.open()
    with opening as servers:
        assert [server.state for server in servers.servers] == ["running"]


def test_without_the_extra_it_is_named(folder: Folder, process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    folder.own(tests=REAL)
    opening, shown = folder.open()
    with opening as servers:
        assert servers.tools == ()
    assert shown.getvalue() == "MCP server tests: needs the package mcp: pip install 'toolcast[mcp]'\n"


def test_ctrl_c_while_they_start_ends_those_that_do(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.own(slow={"command": sys.executable, "args": ["-c", "import time; time.sleep(600)"]})

    class Interrupted(module.Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            raise KeyboardInterrupt

    class Pool(module.ThreadPoolExecutor):
        def submit(self, *call: Any) -> Any:
            super().submit(*call)
            return Interrupted()

    monkeypatch.setattr(module, "ThreadPoolExecutor", Pool)
    opening, _ = folder.open()
    with pytest.raises(KeyboardInterrupt), opening:
        raise AssertionError


def test_of_the_output_the_last_line_is_kept() -> None:
    tail = OutputTail()
    tail.stream.write("x" * 5000 + "\n" + "one\ntwo\n  \n")
    tail.close()
    assert tail.last_line() == "two"


def test_an_empty_set_closes() -> None:
    with MCPServerSet() as servers:
        assert servers.tools == ()
