"""A real HTTP server on the loopback interface that answers each request with the number in its last message.

    with NumberServer() as server:
        llm = OpenAI("m", api_key="none", base_url=server.url)

The answer is a call of the tool `Number` with the number as `value`. `hold()` keeps all later answers until
`release()`; "bad" in a message is answered with text, "refuse" with status 401. `requests` counts the requests,
`most` is the greatest number of them at once, `open` the number of connections.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel

PATIENCE = 30.0


class Number(BaseModel):
    value: int


class NumberServer:
    def __init__(self) -> None:
        self.requests = 0
        self.texts: list[str] = []
        self.running = 0
        self.most = 0
        self.open = 0
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop
        self.holds = False
        self.connections: set[_Connection] = set()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._ready = threading.Event()
        self._end: asyncio.Event
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE)

    def hold(self) -> None:
        self._call(lambda: setattr(self, "holds", True))

    def release(self) -> None:
        self._call(self._release)

    def respond(self, connection: _Connection) -> None:
        """Answer the request of a connection, now or later."""
        if not self.holds:
            connection.answer()

    def _release(self) -> None:
        self.holds = False
        for connection in tuple(self.connections):
            connection.answer()

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition of the server's counts holds; fail after half a minute."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE)

    def _call(self, function: Callable[[], Any]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (function(), done.set()))
        assert done.wait(PATIENCE)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        server = await self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=1024)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        await self._end.wait()
        server.close()
        for connection in tuple(self.connections):
            connection.transport.abort()

    def count(self, **changes: int) -> None:
        with self._changed:
            for name, change in changes.items():
                setattr(self, name, getattr(self, name) + change)
            self.most = max(self.most, self.running)
            self._changed.notify_all()


class _Connection(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, server: NumberServer) -> None:
        self._server = server
        self._data = b""
        self.held: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._server.connections.add(self)
        self._server.count(open=1)

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        if not end or length is None or len(body) < int(length[1]):
            return
        self._data = b""
        self.held = json.loads(body)["messages"][-1]["content"]
        self._server.texts.append(self.held)
        self._server.count(requests=1, running=1)
        self._server.respond(self)

    def answer(self, response: bytes | None = None) -> None:
        if self.held is not None:
            self.transport.write(response or number_response(self.held))
            self.held = None
            self._server.count(running=-1)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connections.discard(self)
        self._server.count(open=-1, running=-1 if self.held is not None else 0)
        self.held = None


def number_response(text: str, input_tokens: int = 10, output_tokens: int = 5, headers: str = "") -> bytes:
    if "refuse" in text:
        return response("401 Unauthorized", {"error": {"message": "the key is wrong"}})
    return response("200 OK", _completion(text, input_tokens, output_tokens), headers)


def response(status: str, body: dict[str, Any], headers: str = "") -> bytes:
    """Return a response of HTTP; `headers` are lines with their ends."""
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\n{headers}content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


def _completion(text: str, input_tokens: int, output_tokens: int) -> dict[str, Any]:
    number = re.search(r"\d+", text)
    if "bad" in text or number is None:
        message: dict[str, Any] = {"role": "assistant", "content": "no number"}
    else:
        function = {"name": "Number", "arguments": json.dumps({"value": int(number[0])})}
        message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    reason = "tool_calls" if "tool_calls" in message else "stop"
    usage = {"prompt_tokens": input_tokens, "completion_tokens": output_tokens}
    usage["total_tokens"] = input_tokens + output_tokens
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": usage,
    }
