"""The `llama` fixture: llama.cpp's server in a process of its own, with SmolLM2; and `smollm2`, its weights.

The weights are those that `toolcast pull smollm2` fetches, in its cache; TOOLCAST_TEST_GGUF names another
file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from servers.processes import answers, end

KEY = "loopback-only"


@dataclass(frozen=True)
class LlamaServer:
    """The running server: `base_url` speaks the OpenAI protocol (it ends in /v1), `url` is its root."""

    url: str
    key: str

    @property
    def base_url(self) -> str:
        """What an OpenAI-compatible client takes."""
        return f"{self.url}/v1"


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The .gguf file of SmolLM2-135M-Instruct, fetched on first use."""
    given = os.environ.get("TOOLCAST_TEST_GGUF")
    if given:
        return Path(given)
    from toolcast.llms.local.weights import pull  # not before it is wanted: coverage has to see its import

    return pull("smollm2")


@pytest.fixture(scope="session")
def llama(smollm2: Path) -> Iterator[LlamaServer]:
    """A real model behind the OpenAI protocol on loopback."""
    program = Path(__file__).with_name("llama_process.py")
    command = [sys.executable, str(program), str(smollm2), KEY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield LlamaServer(listening(process), KEY)
        finally:
            end(process)


def listening(process: subprocess.Popen[bytes]) -> str:
    """The server's root address, once its model is loaded and it answers."""
    assert process.stdout is not None
    address = process.stdout.readline().decode().strip()  # empty when the process ended instead
    if not address or not answers(process, f"{address}/health"):
        raise RuntimeError("llama.cpp's server did not start")
    return address
