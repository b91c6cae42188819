"""A person connects a chat: stores a key, and lets it use the MCP servers of a project and their own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs toolcast[mcp]")
pytest.importorskip("prompt_toolkit", reason="needs toolcast[cli]")
pytest.importorskip("pyte")
pytest.importorskip("pty", reason="a pseudo terminal, which this system does not have")

from support.driven_repl import ENTER, driven
from support.ollama_server import DONE, MODEL, OllamaServer, call, delta
from user.commands import needs_a_shell, shell, variables
from user.session import KEY

pytestmark = needs_a_shell

MCP_SERVER = {"command": sys.executable, "args": [str(Path(__file__).parents[1] / "support" / "mcp_server.py")]}


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the person is: a project that names one MCP server that works, and one that does not."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TOOLCAST_CONFIG", str(tmp_path / "config" / "config.toml"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    write(folder / ".mcp.json", sums=MCP_SERVER, gone={"command": "/no/such/program"})
    return folder


def write(path: Path, **servers: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))


def test_the_servers_of_a_project_are_approved_and_asked_for_each_call(server: OllamaServer, folder: Path) -> None:
    server.streams(delta(tool_calls=[call("sums_add", a=2, b=40)]), DONE)
    server.replies("It is 42.")
    home = folder.parent / "home"
    with driven(home, columns=100, rows=40, OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL) as terminal:
        terminal.until("support/mcp_server.py", "/no/such/program", "ne[v]er:")
        terminal.type("d")  # is no answer, and ignored
        terminal.type("y")
        lines = terminal.at_prompt()
        assert "MCP server gone: could not be started: " in terminal.text
        assert "No such file" in terminal.text
        lines = terminal.submit("/mcp")
        assert "sums: running, " in terminal.text
        assert "gone: failed" in terminal.text
        terminal.type(f"add 2 and 40{ENTER}")
        terminal.until("sums_add", "Run it?", lines=lines)
        assert len(server.requests) == 1
        terminal.type("y")
        terminal.until("It is 42.")
        terminal.type(f"exit{ENTER}")
        assert terminal.ends() == 0
    assert [message["content"] for message in server.bodies[1]["messages"] if message["role"] == "tool"] == ["42"]
    with driven(home, columns=100, rows=40, OLLAMA_HOST=server.host, OLLAMA_MODEL=MODEL) as again:
        again.at_prompt()
        assert "names MCP servers" not in again.text
        again.type(f"exit{ENTER}")
        assert again.ends() == 0


def test_a_pipe_starts_nothing_of_a_project_but_the_persons_own(server: OllamaServer, folder: Path) -> None:
    write(folder.parent / "config" / "mcp.json", mine=MCP_SERVER)
    server.replies("Hello.")
    env = {**variables(server, folder.parent / "home"), "TOOLCAST_CONFIG": os.environ["TOOLCAST_CONFIG"]}
    screen = shell("echo Hi | toolcast chat", env)
    assert (screen.out, screen.code) == ("Hello.\n", 0)
    assert screen.err == (
        "The MCP servers of .mcp.json were not started (sums, gone): to see and allow what they run, enter "
        "`toolcast mcp approve` in this folder, at a terminal.\n"
    )
    names = [tool["function"]["name"] for tool in server.bodies[0]["tools"]]
    assert "mine_add" in names
    assert not [name for name in names if name.startswith("sums")]
    server.replies("Hello.")
    assert shell("echo Hi | toolcast chat --no-mcp", env).err == ""
    assert "mine_add" not in [tool["function"]["name"] for tool in server.bodies[1]["tools"]]


def test_a_key_is_stored_used_and_shown_nowhere(server: OllamaServer, folder: Path) -> None:
    env = {**variables(server, folder.parent / "home"), "TOOLCAST_CONFIG": os.environ["TOOLCAST_CONFIG"]}
    env = {name: value for name, value in env.items() if name not in ("OLLAMA_MODEL", "OLLAMA_API_KEY")}
    stored = shell("toolcast config set-key ollama && toolcast config show", env, f"{KEY}\n")
    assert stored.code == 0, stored.err
    assert f"********{KEY[-4:]}" in stored.out
    server.replies("Hello.")
    screen = shell(f"toolcast chat --no-mcp --debug --model ollama:{MODEL} Hi", env)
    assert (screen.out, screen.code) == ("Hello.\n", 0), screen.err
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in stored.out + stored.err + screen.err
    having = [path.name for path in folder.parent.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert having == ["credentials.json"]
