"""The files with MCP servers, in the form that other programs use.

    {"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "server-filesystem", "."], "env": {"KEY": "${FILES_KEY}"}},
        "tracker": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer ${TRACKER_TOKEN}"}}}}

`${NAME}`, `${NAME:-default}` and `${env:NAME}` are environment variables. An entry that cannot be used has a `problem`;
the others are used. Keys of other programs, such as those that approve tools in advance, are ignored.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TextIO, cast

from ...agents.mcp.mcp_server import MCPServer
from ...errors import ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from ...text.terminal_text import exposed
from ...values.credentials import SecretURL
from ...values.secret_patterns import is_secret
from ..config_file import config_path

PROJECT_FILES: Final = (".mcp.json", "mcp.json")
"""The names of a project's file; the first that exists is used."""

LARGEST_FILE: Final = 1_000_000
"""Bytes that a file may have."""

MOST_SERVERS: Final = 50
"""Servers that a file may have."""

PASSED_ON: Final = ("LANG", "LANGUAGE", "TZ", "TMPDIR")
"""Variables that a server gets, besides `LC_*`, and those that the MCP package passes on, such as PATH and HOME."""

_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-([^{}]*))?\}", re.ASCII)
_KINDS: Final = ("stdio", "http", "streamable-http", "streamableHttp")


class MCPConfigError(ToolcastError):
    """A file with MCP servers that cannot be used; the message names the file and the reason."""


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server in a file: a program with arguments, or a URL. Variables in the texts are not yet replaced.

    `problem` is the reason why the entry cannot be used, or empty.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    disabled: bool = False
    problem: str = ""

    @property
    def command_line(self) -> str:
        """The command with its arguments as a shell would take it, or the URL. No character in it is invisible."""
        return exposed(self.url or shlex.join((self.command, *self.args)))

    @property
    def summary(self) -> str:
        """The command, or the URL without the credentials in it."""
        return exposed(SecretURL(self.url).shown) if self.url else self.command_line

    @property
    def details(self) -> Iterator[str]:
        """The folder, environment variables and headers, one by one. A secret is shown only as a variable's name."""
        if self.cwd is not None:
            yield exposed(f"folder {self.cwd}")
        for kind, values in (("env", self.env), ("header", self.headers)):
            for name, value in values.items():
                hidden = (kind == "header" or is_secret(name, value)) and not _VARIABLE.search(value)
                shown = "***" if hidden else value
                yield exposed(f"{kind} {name}={shown}")

    def server(self, root: Path, environ: Mapping[str, str], stderr: TextIO | None = None) -> MCPServer:
        """Return the server, not yet started. `root`: the folder of its program, unless the entry names one.

        Raises:
            MCPConfigError: An environment variable without a default is not set.
        """
        if self.url:
            headers = {name: expand(value, environ) for name, value in self.headers.items()}
            return MCPServer.http(expand(self.url, environ), headers=headers, name=self.name)
        env = {name: value for name, value in environ.items() if name in PASSED_ON or name.startswith("LC_")}
        env |= {name: expand(value, environ) for name, value in self.env.items()}
        return MCPServer.stdio(
            expand(self.command, environ),
            [expand(arg, environ) for arg in self.args],
            env=env,
            cwd=root / expand(self.cwd or "", environ),
            name=self.name,
            stderr=stderr,
        )


@dataclass(frozen=True, slots=True)
class MCPFile:
    """The servers of a file, and the hash of its content. `is_project`: it came with the folder, not from the user."""

    path: Path
    digest: str
    servers: tuple[ServerEntry, ...]
    is_project: bool = False


def user_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the user's own file, beside the config file."""
    return config_path(environ).with_name("mcp.json")


def project_file(root: Path) -> Path | None:
    """Return the path of the project's file in the folder `root`, or None."""
    return next((path for name in PROJECT_FILES if (path := root / name).is_file()), None)


def read_mcp_file(path: Path, *, is_project: bool = False) -> MCPFile:
    """Return the content of a file.

    Raises:
        MCPConfigError: The file cannot be read, is too large, or is no JSON object with `mcpServers`.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise MCPConfigError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > LARGEST_FILE:
        raise MCPConfigError(f"{path} has more than {LARGEST_FILE:,} bytes")
    try:
        content: Any = json.loads(data)
    except json.JSONDecodeError as error:
        raise MCPConfigError(f"{path}, line {error.lineno}: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # not UTF-8; nested too deeply
        raise MCPConfigError(f"{path} is no JSON in UTF-8") from error
    servers: Any = cast("dict[str, Any]", content).get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(servers, dict):
        raise MCPConfigError(f'{path}: expected {{"mcpServers": {{NAME: {{"command": ...}} or {{"url": ...}}}}}}')
    entries = cast("dict[str, Any]", servers)
    if len(entries) > MOST_SERVERS:
        raise MCPConfigError(f"{path} has more than {MOST_SERVERS} servers")
    read = tuple([_entry(name, value) for name, value in entries.items()])
    return MCPFile(path, sha256(data).hexdigest(), read, is_project)


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Return `text` with the values of its variables.

    Raises:
        MCPConfigError: A variable without a default is not set.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found.groups()
        # As in a shell, `:-` also replaces an empty value.
        result = environ.get(name) if default is None else environ.get(name) or default
        if result is None:
            raise MCPConfigError(f"the environment variable {name} is not set")
        return result

    return _VARIABLE.sub(value, text)


def _entry(name: str, value: Any) -> ServerEntry:
    if not isinstance(value, dict):
        return ServerEntry(name, problem="expected an object with command or url")
    fields = cast("dict[str, Any]", value)
    given = {key: fields[key] for key in _TYPES if fields.get(key) is not None}
    for key, content in given.items():
        if not _TYPES[key](content):
            return ServerEntry(name, problem=f"{key}: expected {_EXPECTED[key]}")
    kind: str = given.pop("type", "http" if "url" in given else "stdio")
    if "args" in given:
        given["args"] = tuple(given["args"])
    entry = ServerEntry(name, **given)
    if kind == "sse":
        problem = "the transport sse is not supported: use the URL of the server's streamable HTTP"
    elif kind not in _KINDS:
        problem = f"type: expected stdio or http, got {kind!r}"
    elif bool(entry.url) is bool(entry.command):
        problem = "expected either command or url"
    else:
        return entry
    return ServerEntry(name, problem=problem)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, cast("list[object]", value)))


def _is_table(value: object) -> bool:
    return isinstance(value, dict) and all(
        _is_text(name) and _is_text(text) for name, text in cast("dict[object, object]", value).items()
    )


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


_TYPES: Final = {
    "command": _is_text,
    "args": _is_texts,
    "env": _is_table,
    "cwd": _is_text,
    "url": _is_text,
    "headers": _is_table,
    "disabled": _is_flag,
    "type": _is_text,
}
_EXPECTED: Final[Mapping[str, str]] = {
    "command": "a text",
    "args": "a list of texts",
    "env": "an object of texts",
    "cwd": "a text",
    "url": "a text",
    "headers": "an object of texts",
    "disabled": "true or false",
    "type": "a text",
}
