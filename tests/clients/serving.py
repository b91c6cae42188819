"""An ASGI app on a real uvicorn, in a thread, and an answer that waits in the middle until a client opens it."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import anyio.to_thread
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config, Server

from toolcast.events import Finish, TextDelta

SECONDS = 30.0


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Serve an app on loopback; return its URL. At the end its lifespan has ended too."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = Config(app, http="h11", ws="none", lifespan="on", log_level="critical", timeout_graceful_shutdown=5)
    server = Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="served app")
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        listener.close()
        assert not thread.is_alive()


class Gate:
    """An answer of a `ScriptedLLM` that begins, waits until `POST /open`, and ends. `whole` is True if it did."""

    def __init__(self, begin: str, end: str) -> None:
        self._texts = (begin, end)
        self._opened = threading.Event()
        self._over = threading.Event()
        self.whole = False

    async def answer(self, request: object) -> AsyncIterator[Any]:
        begin, end = self._texts
        try:
            yield TextDelta(begin)
            await anyio.to_thread.run_sync(self._opened.wait, SECONDS, abandon_on_cancel=True)
            yield TextDelta(end)
            self.whole = True
            yield Finish("end_turn")
        finally:
            self._over.set()

    def over(self) -> bool:
        """Wait until the answer is over; return True if it is, whole or cancelled."""
        return self._over.wait(SECONDS)

    def before(self, app: ASGIApp) -> ASGIApp:
        """Return an app with the route `/open`, which opens the gate, before those of another."""

        async def served(scope: Scope, receive: Receive, send: Send) -> None:
            if scope.get("path") != "/open":
                await app(scope, receive, send)
                return
            self._opened.set()
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        return served
