"""Agents on a real uvicorn, for the clients of the protocols.

A script stops and continues the model with GET requests: `/model/continue` lets it go on, and `/model/state` has the
number of its requests and of those that were cancelled.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from toolcast import Engine, Permissions, Session, ToolCallPart, serve
from toolcast.events import Event, Finish, TextDelta, UsageReport
from toolcast.testing import ScriptedLLM
from toolcast.values.usage import Usage

PATIENCE = 30.0


class Model:
    """A model whose answers wait at a gate."""

    def __init__(self) -> None:
        self.llm: ScriptedLLM = ScriptedLLM(self._answer)
        self.cancelled: int = 0
        self._gate: anyio.Event | None = None

    async def _answer(self, request: object) -> AsyncIterator[Event]:
        yield TextDelta("The sea ")
        gate = self._gate = self._gate or anyio.Event()
        try:
            await gate.wait()
        except BaseException:
            self.cancelled += 1
            raise
        yield TextDelta("is calm.")
        yield UsageReport(Usage(3, 2))
        yield Finish("end_turn")

    async def let_go_on(self, request: Request) -> Response:
        """Let the answer go on."""
        self._gate = self._gate or anyio.Event()
        self._gate.set()
        return JSONResponse({})

    async def state(self, request: Request) -> Response:
        """Respond with the number of requests, and of those that were cancelled."""
        return JSONResponse({"requests": len(self.llm.requests), "cancelled": self.cancelled})


def delete_file(path: str) -> dict[str, str]:
    """Delete a file."""
    return {"deleted": path}


DELETE = ToolCallPart("call-1", "delete_file", '{"path": "notes.txt"}')


def engine(llm: ScriptedLLM) -> Engine[Any]:
    """Return an engine with a tool that needs an approval."""
    return Engine(llm, [delete_file], permissions=Permissions(approve="later"))


def sessions(llm: ScriptedLLM) -> Any:
    """Return a function that opens sessions, each with a conversation of its own."""
    agent = engine(llm)
    return lambda user, thread: Session(agent.fork())


def user_of(request: Request) -> str | None:
    """Return the user of a request, whose token is their name."""
    return request.headers.get("authorization", "Bearer ada").removeprefix("Bearer ") or None


class StartedServer(uvicorn.Server):
    """A server that sets `ready` when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready: threading.Event = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@contextmanager
def served(target: Any, model: Model | None = None, **options: Any) -> Iterator[str]:
    """Serve a target, and yield the URL of the server."""
    app = serve.app(target, **{"authorize": user_of, **options})
    controls: list[Any] = []
    if model is not None:
        controls = [
            Route("/model/continue", model.let_go_on),
            Route("/model/state", model.state),
        ]
    outer = Starlette(routes=[*controls, Mount("/", app)], lifespan=lambda _: app.router.lifespan_context(app))
    server = StartedServer(uvicorn.Config(outer, host="127.0.0.1", port=0, log_level="critical"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        assert server.ready.wait(PATIENCE)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
