"""A fast server with one canned answer: OpenAI's chat completions with one tool call, on the loopback.

`python benchmarks/canned.py` prints its port and serves until it is stopped; `serving()` is the same in a process of
its own, on another core than the caller's where there is one. Every answer is bytes made once, and a request is
looked at just as far as it must be, so that what is measured is the client.

The base URL has the name of the tool that the model calls: `http://127.0.0.1:PORT/Person/v1`; under `/text/v1` the
answer is plain text. A request with
`"stream": true` gets the same call as server-sent events, one HTTP chunk each, all in one write. Under
`/Person/held/v1` a stream stops after its first half, and goes on when `GET /release` comes. `GET /count` returns how
many streams are being held.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from threading import Thread
from typing import Any

from documents import chat_events, text_events
from pydantic import BaseModel


class Person(BaseModel):
    """A person."""

    name: str
    age: int
    city: str


TEXT = '{"name":"Ada Lovelace","age":36,"city":"London"}'
"""The arguments of the call: a `Person`."""

PIECES = [TEXT[start : start + 3] for start in range(0, len(TEXT), 3)]
CHUNKS = len(chat_events(PIECES, "Person"))
"""How many events, and HTTP chunks, a stream has."""

AS_TEXT = "text"
"""The name of a tool for clients that read the object from plain text."""

_END = b"0\r\n\r\n"
held: set[Server] = set()


class Server(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._data = b""
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        held.discard(self)

    def data_received(self, data: bytes) -> None:
        data = self._data + data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            body = end + 4
            after = body + _length(data[:end])
            if len(data) < after:
                break
            self._answer(data[: data.index(b"\r\n")], data[body:after])
            data = data[after:]
        self._data = data

    def _answer(self, line: bytes, body: bytes) -> None:
        path = line.split(b" ")[1]
        if path == b"/release":
            for connection in list(held):
                connection.let_go()
            self._write(_whole(b"{}"))
        elif path == b"/count":
            self._write(_whole(str(len(held)).encode()))
        elif b'"stream":true' not in body.replace(b" ", b"")[:100_000]:
            self._write(completion(_tool(path)))
        elif b"/held/" in path:
            first, self._rest = halves(_tool(path))
            held.add(self)
            self._write(first)
        else:
            self._write(b"".join(halves(_tool(path))))

    def let_go(self) -> None:
        """Send the second half."""
        held.discard(self)
        self._write(self._rest)

    def _write(self, data: bytes) -> None:
        assert isinstance(self._transport, asyncio.Transport)
        self._transport.write(data)


def _length(head: bytes) -> int:
    _, name, value = head.lower().partition(b"content-length:")
    return int(value.split(b"\r\n", 1)[0]) if name else 0


@cache
def _tool(path: bytes) -> str:
    return path.split(b"/")[1].decode()


@cache
def completion(tool: str) -> bytes:
    """The whole answer to a request that does not stream."""
    function = {"name": tool, "arguments": TEXT}
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_Ukpeudv7mpU6xGXc8D91WxRd", "type": "function", "function": function}],
        "refusal": None,
        "annotations": [],
    }
    answer = {
        "id": "chatcmpl-CKMFysCpYZvN5QZx8HIisPxkwrNwZ",
        "object": "chat.completion",
        "created": 1758968150,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 60, "completion_tokens": len(PIECES), "total_tokens": 60 + len(PIECES)},
        "service_tier": "default",
        "system_fingerprint": "fp_560af6e559",
    }
    if tool == AS_TEXT:
        message |= {"content": TEXT, "tool_calls": None}
    return _whole(json.dumps(answer).encode())


@cache
def halves(tool: str) -> tuple[bytes, bytes]:
    """The streamed answer, in two parts."""
    head = _head("text/event-stream; charset=utf-8", "transfer-encoding: chunked")
    make = text_events if tool == AS_TEXT else chat_events
    chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in make(PIECES, tool)]
    middle = len(chunks) // 2
    return head + b"".join(chunks[:middle]), b"".join(chunks[middle:]) + _END


def _whole(body: bytes) -> bytes:
    return _head("application/json", f"content-length: {len(body)}") + body


def _head(kind: str, length: str) -> bytes:
    """About as many headers as OpenAI sends."""
    lines = [
        "HTTP/1.1 200 OK",
        "date: Sat, 21 Nov 2026 10:20:30 GMT",
        f"content-type: {kind}",
        length,
        "connection: keep-alive",
        "access-control-expose-headers: X-Request-ID",
        "openai-organization: user-u9kzbkmdbrthbvwdmqvlfwd1",
        "openai-processing-ms: 512",
        "openai-version: 2020-10-01",
        "x-ratelimit-limit-requests: 10000",
        "x-ratelimit-limit-tokens: 200000",
        "x-ratelimit-remaining-requests: 9999",
        "x-ratelimit-remaining-tokens: 199982",
        "x-ratelimit-reset-requests: 8.64s",
        "x-ratelimit-reset-tokens: 5ms",
        "x-request-id: req_0b2c1a4e5d6f47c8b9a0b1c2d3e4f506",
        "server: cloudflare",
        "cf-ray: 9863b1f7ad6a2f3e-AMS",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def serve(until_eof: bool) -> None:
    """Print the port, and serve."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", 0, backlog=2000)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    if until_eof:

        def wait() -> None:
            sys.stdin.read()
            loop.call_soon_threadsafe(ended.set)

        Thread(target=wait, daemon=True).start()
    await ended.wait()


@contextmanager
def serving() -> Iterator[str]:
    """A running server's address, without a path. This process and the server keep to different cores."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    command = [sys.executable, __file__, "--until-eof"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        port = process.stdout.readline().strip()
        if allowed := set(cores):
            here = cores[0]
            others = (set(range(os.cpu_count() or 1)) if len(cores) == 1 else allowed) - {here}
            with suppress(OSError):
                os.sched_setaffinity(process.pid, others or allowed)
                os.sched_setaffinity(0, {here})
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.stdin.close()
            if allowed:
                os.sched_setaffinity(0, allowed)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(serve("--until-eof" in sys.argv))
