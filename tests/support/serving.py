"""Clients of `toolcast.serve.app`: requests, server-sent events, one that disconnects, and a server on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import anyio
import httpx
from starlette.requests import Request
from starlette.types import ASGIApp, Message
from uvicorn import Config, Server

from toolcast import Engine, Permissions, Session, ToolCallPart
from toolcast.apps.web.web_startup import listen
from toolcast.serve import RunInput
from toolcast.serve.ag_ui import AGUIProtocol
from toolcast.testing import ScriptedLLM

HERE = "http://127.0.0.1:8000"


def user_of(request: Request) -> str | None:
    """Return the user that a header names."""
    return request.headers.get("x-user")


def client_of(app: ASGIApp, user: str = "ann", base_url: str = HERE) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url, headers={"x-user": user})


class Sent(NamedTuple):
    """One server-sent event."""

    id: str
    data: Any


def sent_events(text: str) -> list[Sent]:
    """Return the events of a stream that has ended; comments are left out."""
    found: list[Sent] = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append(Sent(lines["id"], json.loads(lines["data"])))
    return found


def types(events: list[Sent]) -> list[str]:
    return [event.data["type"] for event in events]


def ag_ui(*texts: str, thread: str = "t1", run: str = "r1", **more: Any) -> dict[str, Any]:
    """Return the body of a run: texts of the user and the assistant in turn."""
    roles = ("user", "assistant")
    messages = [{"id": f"m{n}", "role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    return {
        "threadId": thread,
        "runId": run,
        "state": {},
        "messages": messages,
        "tools": [],
        "context": [],
        "forwardedProps": {},
        **more,
    }


def resume(request: Mapping[str, Any], payload: Any, status: str = "resolved") -> dict[str, Any]:
    """Return the answer to a call that waits, as the status of the thread shows it."""
    id = f"{request['call_id']}:{request['fingerprint']}"
    return {"interruptId": id, "status": status, "payload": payload}


class Adder:
    """A tool that adds and records its calls."""

    def __init__(self) -> None:
        self.ran: list[tuple[int, int]] = []

    def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        self.ran.append((a, b))
        return a + b


ADD = ToolCallPart("c1", "add", '{"a":1,"b":2}')


def asking_session(tool: Adder, *answers: Any, id: str = "t1", **more: Any) -> Session[Any]:
    """Return a session whose tool needs an approval, which comes later."""
    permissions = Permissions("default", approve="later")
    return Session(
        Engine(ScriptedLLM(*(answers or (ADD, "It is 3."))), [tool.add], permissions=permissions), id=id, **more
    )


class WholeProtocol(AGUIProtocol):
    """AG-UI with a response that is not a stream."""

    def __init__(self) -> None:
        super().__init__(path="/whole")

    def parse(self, body: Any) -> RunInput:
        return replace(super().parse(body), stream=False)

    def whole(self, run: RunInput, result: Any) -> Any:
        return {"text": result.text}


class Gate:
    """An answer that begins, waits, and ends when `open` is set. `closed` is set when its request has ended."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.waits = anyio.Event()
        self.open = anyio.Event()
        self.closed = anyio.Event()
        self.ended = False

    async def answer(self, request: object) -> AsyncIterator[Any]:
        from toolcast.events import Finish, TextDelta

        try:
            for text in self.texts:
                yield TextDelta(text)
            self.waits.set()
            await self.open.wait()
            yield TextDelta("!")
            yield Finish("end_turn")
            self.ended = True
        finally:
            self.closed.set()


class Connection:
    """One request whose client can disconnect: `received` has the body so far."""

    def __init__(self, app: ASGIApp, method: str, path: str, body: Any = None, **headers: str) -> None:
        self._app = app
        self._path, _, query = path.partition("?")
        given = {"host": "127.0.0.1", "x-user": "ann", "content-type": "application/json", **headers}
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": self._path,
            "raw_path": self._path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
        }
        self._requests = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
        self._disconnected = anyio.Event()
        self._news = anyio.Event()
        self.begun = anyio.Event()
        self.ended = anyio.Event()
        self.status = 0
        self.received = ""
        self.broken = False  # sending raises, as servers do that have noticed the disconnection

    async def run(self) -> None:
        try:
            await self._app(self.scope, self._receive, self._send)
        finally:
            self.ended.set()

    def disconnect(self) -> None:
        self._disconnected.set()

    async def until(self, found: Callable[[str], bool]) -> None:
        """Wait until the body is as wanted."""
        while not found(self.received):
            await self._news.wait()

    async def _receive(self) -> Message:
        if self._requests:
            return self._requests.pop()
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self.broken:
            raise OSError("the client has disconnected")
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.begun.set()
        else:
            self.received += message["body"].decode()
        news, self._news = self._news, anyio.Event()
        news.set()


@asynccontextmanager
async def on_loopback(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    """Serve an app with uvicorn on a free port, and yield its client. asyncio alone."""
    server = Server(Config(app, http="h11", ws="none", log_config=None, access_log=False))
    with listen("127.0.0.1", 0) as listener:
        running = asyncio.create_task(server.serve([listener]))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            async with httpx.AsyncClient(base_url=url, headers={"x-user": "ann"}, timeout=30) as client:
                yield client
        finally:
            server.should_exit = True
            await running
