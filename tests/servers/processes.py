"""Start a server in a process of its own, wait until it answers, and end it."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

SECONDS_TO_START = 40.0


def free_port() -> int:
    """A port of the loopback address on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[str], health: str) -> Iterator[subprocess.Popen[bytes]]:
    """The server that `command` starts, once its `health` address answers; ended on leaving."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            if not answers(process, health):
                log.seek(0)
                raise RuntimeError(f"{command[0]} did not start: {log.read().decode(errors='replace')}")
            yield process
        finally:
            end(process)


def answers(process: subprocess.Popen[bytes], health: str) -> bool:
    """Whether the address answers before the process ends or the patience does."""
    latest = time.monotonic() + SECONDS_TO_START
    while process.poll() is None and time.monotonic() < latest:
        try:
            if httpx.get(health, timeout=1, trust_env=False).is_success:
                return True
        except httpx.TransportError:
            pass
        time.sleep(0.02)  # a starting process has nothing to wait on but its port
    return False


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process: politely, then not; nothing of it is left."""
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin:
        process.stdin.close()
