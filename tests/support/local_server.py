"""A stand-in for the embedded server and its weights, for tests of `LlamaCpp` over a scripted network."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from toolcast.llms.local import llama_server as local_model, weights
from toolcast.llms.local.llama_server import ServerOptions
from toolcast.values.capabilities import Progress
from toolcast.values.credentials import Secret


class FakeLocalServer:
    """A server that is at another address each time it is started."""

    def __init__(self) -> None:
        self.api_key = Secret("local-key")
        self.port = 9000
        self.running = False
        self.threads: list[threading.Thread] = []

    def ready(self) -> None:
        self.threads.append(threading.current_thread())
        if not self.running:
            self.running = True
            self.port += 1

    def close(self) -> None:
        self.running = False

    @property
    def base_url(self) -> str:
        self.ready()
        return f"http://127.0.0.1:{self.port}/v1"


class Local:
    """The fake server, and for which file and options it was asked."""

    def __init__(self) -> None:
        self.server = FakeLocalServer()
        self.asked: list[tuple[Path, ServerOptions | None]] = []
        self.pulled: list[str] = []

    @classmethod
    def used_by(cls, monkeypatch: pytest.MonkeyPatch) -> Local:
        """One that `LlamaCpp` takes for the real one until the test ends."""
        made = cls()
        monkeypatch.setattr(local_model, "running", made.running)
        monkeypatch.setattr(weights, "pull", made.pull)
        return made

    def running(self, path: Path, options: ServerOptions | None = None) -> FakeLocalServer:
        self.asked.append((path, options))
        return self.server

    def pull(self, name: str, *, progress: Progress | None = None) -> Path:
        self.pulled.append(name)
        if progress is not None:
            progress(50, 100)
        return Path("/cache") / f"{name}.gguf"
