"""The `aimock` fixture: a server of Ollama's native protocol and others, with answers to order.

The program is npm's `@copilotkit/aimock`. `nox -s networked` installs it under `.nox/aimock`; the variable
TOOLCAST_AIMOCK names another folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from servers.processes import free_port, running

FOLDER = Path(os.environ.get("TOOLCAST_AIMOCK") or Path(__file__).parents[2] / ".nox" / "aimock")


@dataclass(frozen=True)
class Aimock:
    """The running server: `url` is where Ollama's own would listen, `url + "/v1"` is the OpenAI protocol."""

    url: str

    def reply(self, prompt: str, text: str) -> None:
        """Answer a prompt that contains `prompt` with `text`."""
        self.answer({"userMessage": prompt}, {"content": text})

    def call(self, tool: str, arguments: dict[str, Any]) -> None:
        """Answer every request that offers the tool with a call of it."""
        self.answer({"toolName": tool}, {"toolCalls": [{"name": tool, "arguments": arguments}]})

    def answer(self, match: dict[str, Any], response: dict[str, Any]) -> None:
        """Add one fixture in aimock's own words; the first that matches a request answers it."""
        self._post("fixtures", {"fixtures": [{"match": match, "response": response}]})

    def requests(self) -> list[dict[str, Any]]:
        """The requests that have come since the test began, as aimock's journal keeps them."""
        journal: list[dict[str, Any]] = httpx.get(f"{self.url}/__aimock/journal").json()
        return journal

    def forget(self) -> None:
        """Drop every answer and the journal."""
        self._post("reset", {})
        httpx.delete(f"{self.url}/__aimock/fixtures").raise_for_status()

    def _post(self, what: str, content: dict[str, Any]) -> None:
        httpx.post(f"{self.url}/__aimock/{what}", json=content).raise_for_status()


@pytest.fixture(scope="session")
def aimock_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    """The server, started once; it writes answers in pieces of eight characters."""
    node, program = shutil.which("node"), FOLDER / "node_modules" / ".bin" / "llmock"
    if node is None or not program.is_file():
        pytest.fail(f"no Node, or no aimock at {program}: `nox -s networked` installs both")
    none = tmp_path_factory.mktemp("aimock") / "none.json"
    none.write_text('{"fixtures": []}')
    port = free_port()
    server = Aimock(f"http://127.0.0.1:{port}")
    # The `node` that comes from PyPI is a wrapper, which would be ended alone: start the program itself.
    real = subprocess.run([node, "-p", "process.execPath"], capture_output=True, text=True, check=True)
    command = [real.stdout.strip(), str(program), "-p", str(port), "-f", str(none), "-c", "8"]
    with running(command, f"{server.url}/health"):
        yield server


@pytest.fixture
def aimock(aimock_process: Aimock) -> Aimock:
    """A real server of the Ollama protocol (and the OpenAI one) that knows no answer yet."""
    aimock_process.forget()
    return aimock_process
