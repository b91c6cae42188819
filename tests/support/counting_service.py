"""A fast service of OpenAI's protocol on loopback, which counts its requests and those that are under way.

    with CountingService(answer) as service:
        OpenAI("model", base_url=service.url)

`answer` makes the arguments of the tool call from the text of the last message. With `together=n`, requests are
answered only once n are under way (or all that are left of `total`): a client with fewer at once would never end.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from threading import Thread
from types import TracebackType
from typing import Any, Self

Answer = Callable[[str], Mapping[str, Any]]


class CountingService:
    """The service; see the module."""

    def __init__(
        self,
        answer: Answer,
        *,
        together: int = 1,
        total: int = 0,
        on_request: Callable[[int], object] = lambda number: None,
    ) -> None:
        self.answer = answer
        self.on_request = on_request
        self.texts: Counter[str] = Counter()
        self.received = 0
        self.answered = 0
        self.most = 0  # under way at once
        self.keys: set[str] = set()
        self._together = together
        self._total = total
        self._waiting: list[asyncio.Future[None]] = []
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[Any]] = set()

    def __enter__(self) -> Self:
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1000))
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.partition("content-length:")[2].partition("\r\n")[0])
                self.keys.add(head.partition("authorization: bearer ")[2].partition("\r\n")[0])
                body = json.loads(await reader.readexactly(length))
                writer.write(await self._respond(body))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has closed the connection, or the test has ended
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _respond(self, body: Mapping[str, Any]) -> bytes:
        text = body["messages"][-1]["content"]
        self.received += 1
        self.texts[text] += 1
        self.most = max(self.most, self.received - self.answered)
        self.on_request(self.received)
        try:
            await self._wait()
        finally:
            self.answered += 1
        function = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps(self.answer(text))}
        message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
        made = json.dumps({"id": "x", "model": body["model"], "choices": choices, "usage": usage}).encode()
        return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(made), made)

    async def _wait(self) -> None:
        """Wait until enough requests are under way."""
        wanted = min(self._together, self._total - self.answered) if self._total else self._together
        turn = self._loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) >= wanted:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each.set_result(None)
        await turn
