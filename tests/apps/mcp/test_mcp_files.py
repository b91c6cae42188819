"""Files with MCP servers: their entries, their problems, and the variables in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolcast.apps.mcp.mcp_files import (
    LARGEST_FILE,
    MCPConfigError,
    ServerEntry,
    expand,
    project_file,
    read_mcp_file,
    user_file,
)


def written(path: Path, servers: Any) -> Path:
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def entry(tmp_path: Path, value: Any) -> ServerEntry:
    return read_mcp_file(written(tmp_path / "mcp.json", {"one": value})).servers[0]


def test_a_program_and_an_address(tmp_path: Path) -> None:
    file = read_mcp_file(
        written(
            tmp_path / "mcp.json",
            {
                "files": {"command": "npx", "args": ["-y", "a b"], "env": {"KEY": "k"}, "autoApprove": ["all"]},
                "web": {"type": "http", "url": "https://x.example/mcp?key=k3y", "headers": {"Authorization": "t"}},
                "off": {"command": "x", "disabled": True, "cwd": "sub"},
            },
        )
    )
    files, web, off = file.servers
    assert (files.command, files.args, files.env) == ("npx", ("-y", "a b"), {"KEY": "k"})
    assert files.command_line == files.summary == "npx -y 'a b'"
    assert list(files.details) == ["env KEY=***"]
    assert web.command_line == "https://x.example/mcp?key=k3y"
    assert web.summary == "https://x.example/mcp?key=***"
    assert list(web.details) == ["header Authorization=***"]
    assert off.disabled
    assert list(off.details) == ["folder sub"]
    assert not any(each.problem for each in file.servers)
    assert "k3y" not in repr(file)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("npx", "expected an object with command or url"),
        ({}, "expected either command or url"),
        ({"command": "x", "url": "https://x"}, "expected either command or url"),
        ({"command": ["x"]}, "command: expected a text"),
        ({"command": "x\0y"}, "command: expected a text"),
        ({"command": "x", "args": "y"}, "args: expected a list of texts"),
        ({"command": "x", "args": [1]}, "args: expected a list of texts"),
        ({"command": "x", "env": {"A": 1}}, "env: expected an object of texts"),
        ({"command": "x", "disabled": "no"}, "disabled: expected true or false"),
        ({"type": "sse", "url": "https://x"}, "the transport sse is not supported: use the URL of the server's "
         "streamable HTTP"),
        ({"type": "ws", "url": "https://x"}, "type: expected stdio or http, got 'ws'"),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_used(value: Any, problem: str, tmp_path: Path) -> None:
    assert entry(tmp_path, value).problem == problem


def test_null_is_as_absent(tmp_path: Path) -> None:
    assert entry(tmp_path, {"command": "x", "args": None, "env": None}) == ServerEntry("one", "x")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{\n,", "mcp.json, line 2: Expecting property name"),
        (b"\xff\xfe{", "is no JSON in UTF-8"),
        (b"[" * 100_000, "is no JSON in UTF-8"),
        (b"[]", 'expected {"mcpServers": {NAME: '),
        (b'{"servers": {}}', 'expected {"mcpServers": {NAME: '),
        (b" " * (LARGEST_FILE + 1), "has more than 1,000,000 bytes"),
        (json.dumps({"mcpServers": {str(n): {} for n in range(51)}}).encode(), "has more than 50 servers"),
    ],
    ids=["json", "bytes", "depth", "list", "key", "size", "servers"],
)
def test_a_file_that_cannot_be_used(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_bytes(content)
    with pytest.raises(MCPConfigError) as caught:
        read_mcp_file(path)
    assert message in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MCPConfigError, match=r"cannot read .*mcp.json: No such file"):
        read_mcp_file(tmp_path / "mcp.json")


def test_the_hash_is_that_of_the_bytes(tmp_path: Path) -> None:
    first = read_mcp_file(written(tmp_path / "mcp.json", {"a": {"command": "x"}})).digest
    assert read_mcp_file(written(tmp_path / "mcp.json", {"a": {"command": "y"}})).digest != first


def test_what_is_invisible_is_shown(tmp_path: Path) -> None:
    found = entry(tmp_path, {"command": "run\u202e", "args": ["a\u200bb\x1b[2J\n"], "env": {"N\u2060": "\u00a0"}})
    assert found.command_line == r"'run\u202e' 'a\u200bb\u001b[2J" + "\n'"
    assert list(found.details) == [r"env N\u2060=\u00a0"]


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("a ${NAME} b", "a Bo b"),
        ("${env:NAME}", "Bo"),
        ("${NOT_SET:-x y}", "x y"),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY}", ""),
        ("${NAME:-x}${NAME}", "BoBo"),
        ("$NAME $(x) ${} ${1}", "$NAME $(x) ${} ${1}"),
        ("${NESTED}", "${NAME}"),
    ],
)
def test_variables(text: str, expanded: str) -> None:
    assert expand(text, {"NAME": "Bo", "EMPTY": "", "NESTED": "${NAME}"}) == expanded


def test_a_variable_that_is_not_set_is_an_error() -> None:
    with pytest.raises(MCPConfigError, match="the environment variable NOT_SET is not set"):
        expand("${NOT_SET}", {})


def test_the_values_of_secrets_are_shown_only_as_variables() -> None:
    shown = list(ServerEntry("x", "y", env={"TOKEN": "abc", "KEY": "${K}", "LEVEL": "info"}).details)
    assert shown == ["env TOKEN=***", "env KEY=${K}", "env LEVEL=info"]


def test_where_the_files_are(tmp_path: Path) -> None:
    assert user_file({"TOOLCAST_CONFIG": "/x/config.toml"}) == Path("/x/mcp.json")
    assert project_file(tmp_path) is None
    (tmp_path / "mcp.json").touch()
    assert project_file(tmp_path) == tmp_path / "mcp.json"
    (tmp_path / ".mcp.json").touch()
    assert project_file(tmp_path) == tmp_path / ".mcp.json"
