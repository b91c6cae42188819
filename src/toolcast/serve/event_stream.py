"""`EventStreamResponse`: a run as server-sent events with ids; it ends when the client disconnects."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Final

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .served_runs import ServedRun

HEADERS: Final[Mapping[str, str]] = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

_EVENT_ID: Final = re.compile(r"([0-9a-f]{16})-([0-9]{1,9})")


def parse_event_id(text: str) -> tuple[str, int] | None:
    """Return the name of the run and the number of the message that an event id names; None for another text."""
    found = _EVENT_ID.fullmatch(text)
    return None if found is None else (found[1], int(found[2]))


class EventStreamResponse(Response):
    """The messages of a run after the first `skip` ones.

    Args:
        run: The run; it is released at the end.
        skip: The number of messages that the client has.
        headers: The headers of the protocol.
        keep_alive: Seconds between comments.
    """

    media_type = "text/event-stream"

    def __init__(self, run: ServedRun, *, skip: int, headers: Mapping[str, str], keep_alive: float) -> None:
        super().__init__(headers={**HEADERS, **headers})
        del self.headers["content-length"]
        self._run = run
        self._skip = skip
        self._keep_alive = keep_alive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the messages until the end of the run, or until the client disconnects."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_on_disconnect, receive, tasks.cancel_scope)
                try:
                    await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                    tasks.start_soon(self._send_comments, send)
                    async with aclosing(self._chunks()) as chunks:
                        async for chunk in chunks:
                            await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                except OSError:  # servers raise it if the client has disconnected
                    pass
                tasks.cancel_scope.cancel()
        finally:
            self._run.release()

    async def _chunks(self) -> AsyncGenerator[bytes]:
        number = 0
        async with aclosing(self._run.messages()) as groups:
            async for group in groups:
                sent: list[str] = []
                for data in group:
                    number += 1
                    if number > self._skip:
                        sent.append(f"id: {self._run.name}-{number}\ndata: {data}\n\n")
                if sent:
                    yield "".join(sent).encode("utf-8", "replace")

    async def _send_comments(self, send: Send) -> None:
        while True:
            await anyio.sleep(self._keep_alive)
            with suppress(OSError):  # `receive` reports that the client has disconnected
                await send({"type": "http.response.body", "body": b": keep-alive\n\n", "more_body": True})


async def cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancel `scope` when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
