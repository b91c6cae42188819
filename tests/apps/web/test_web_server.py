"""The server over real connections, and what it answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from support.web_chats import TO_READY, TO_STREAMING, Tab, chat
from toolcast.apps.web import make_app
from toolcast.apps.web.web_startup import ChatServer, listen
from toolcast.chat.events import ChatEvent, StreamChunk
from toolcast.chat.machine import AsyncChatMachine
from toolcast.chat.transitions import TABLE
from toolcast.events import TextDelta

TOKEN = "a-token"

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])  # uvicorn's own


class Served:
    """A chat that is served, and a client that knows the token."""

    def __init__(self, machine: AsyncChatMachine, server: ChatServer, client: httpx.AsyncClient, port: int) -> None:
        self.machine = machine
        self.server = server
        self.client = client
        self.port = port

    async def dispatch(self, **event: object) -> httpx.Response:
        """Send an event, and return the response."""
        return await self.client.post("/chats/chat/dispatch", json=event)

    @asynccontextmanager
    async def tab(self, tab: Tab | None = None, **headers: str) -> AsyncIterator[Listening]:
        """A page that reads."""
        headers = {"Authorization": "", **headers}
        async with self.client.stream("GET", f"/chats/chat/events?token={TOKEN}", headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield Listening(tab or Tab(), answer)


class Listening:
    """A tab, and where it reads."""

    def __init__(self, tab: Tab, answer: httpx.Response) -> None:
        self.tab = tab
        self._lines = answer.aiter_lines()

    async def until_last(self, machine: AsyncChatMachine, word: str) -> None:
        """Read until an event holds `word`."""
        block = list[str]()
        async for line in self._lines:
            block.append(line)
            if line == "":
                text = "\n".join(block[:-1])
                self.tab.take(text.encode())
                if word in text:
                    return
                block.clear()

    async def to_the_end(self) -> None:
        """Read until the server ends it."""
        async for _ in self._lines:
            pass


@asynccontextmanager
async def serving(*events: ChatEvent, log_limit: int = 4_000_000) -> AsyncIterator[Served]:
    ready = asyncio.Event()
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(listen("127.0.0.1", 0))
        port = listener.getsockname()[1]
        machine = await stack.enter_async_context(chat(*events))
        server = ChatServer(make_app(machine, token=TOKEN, models=("any:model",), log_limit=log_limit), ready.set)
        running = asyncio.create_task(server.serve([listener]))
        await ready.wait()
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30) as client:
            yield Served(machine, server, client, port)
            server.should_exit = True
            await running


async def test_all_tabs_see_the_same_chat() -> None:
    async with serving(*TO_READY) as served, served.tab() as one, served.tab() as other:
        for page in (one, other):
            await page.until_last(served.machine, "snapshot")
        await served.dispatch(type="QUEUE_MESSAGE", message="Hello")
        for page in (one, other):
            await page.until_last(served.machine, "QUEUE_MESSAGE")
    for page in (one, other):
        assert page.tab.context["messages"][0]["parts"][0]["text"] == "Hello"


async def test_a_browser_that_comes_back_misses_nothing_and_gets_nothing_twice() -> None:
    tab = Tab()
    async with serving(*TO_STREAMING) as served:
        async with served.tab(tab) as page:
            await page.until_last(served.machine, "snapshot")
            served.machine.dispatch(StreamChunk("one "))
            await page.until_last(served.machine, "one ")
        served.machine.dispatch(StreamChunk("two "))
        assert tab.last is not None
        async with served.tab(tab, **{"Last-Event-ID": tab.last}) as page:
            served.machine.dispatch(StreamChunk("three"))
            await page.until_last(served.machine, "three")
        assert (tab.snapshots, tab.answer) == (1, "one two three")
        again = await served.client.send(
            served.client.build_request("GET", f"/chats/chat/events?after={tab.last}"), stream=True
        )
        served.machine.dispatch("INTERRUPT")
        page = Listening(tab, again)
        await page.until_last(served.machine, "INTERRUPT")
        await again.aclose()
    assert (tab.snapshots, tab.state) == (1, "ready")


async def test_a_tab_that_does_not_read_holds_up_no_one() -> None:
    limit = 100_000
    async with serving(*TO_STREAMING, log_limit=limit) as served:
        feed = served.server.config.app.state.chats.chat.feed
        deaf = socket.create_connection(("127.0.0.1", served.port))
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(f"GET /chats/chat/events?token={TOKEN} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        async with served.tab() as page:
            await page.until_last(served.machine, "snapshot")
            for number in range(3000):
                served.machine.dispatch(StreamChunk(TextDelta(f"{number} " * 200)))
                if number % 100 == 0:
                    await asyncio.sleep(0)
            served.machine.dispatch("INTERRUPT")
            await page.until_last(served.machine, '"interrupted":[1]')
            assert page.tab.state == "ready"
            assert feed.size <= limit
        deaf.close()


async def test_the_end_of_the_server_ends_the_streams() -> None:
    async with serving(*TO_READY) as served, served.tab() as page:
        await page.until_last(served.machine, "snapshot")
        served.server.should_exit = True
        await page.to_the_end()


async def test_what_is_sent_is_answered() -> None:
    async with serving(*TO_READY) as served:
        ignored = await served.dispatch(type="RETRY_GENERATION")
        taken = await served.dispatch(type="QUEUE_MESSAGE", message="Hello")
        wrong = await served.dispatch(type="GENERATION_SUCCESS")
    assert ignored.json() == {"ignored": True, "state": "ready"}
    assert taken.json() == {"ignored": False, "state": "searching_tools"}
    assert (wrong.status_code, "no event of a user" in wrong.json()["error"]) == (400, True)


async def test_a_closed_chat_answers_that_it_is_closed() -> None:
    async with serving(*TO_READY) as served:
        await served.machine.aclose()
        answer = await served.dispatch(type="INTERRUPT")
    assert (answer.status_code, "closed" in answer.json()["error"]) == (409, True)


async def test_models_and_the_diagram() -> None:
    async with serving(*TO_READY) as served:
        models = (await served.client.get("/models")).json()
        table = (await served.client.get("/diagram")).json()
    first, *others = models["models"]
    assert first == {"id": "any:model", "provider": "any", "label": "model", "context": None, "price": None}
    assert "local:smollm2" in [row["id"] for row in others]
    assert table["states"] == list(TABLE)
    assert {"from": "loading_model", "to": "ready", "event": "MODEL_LOAD_SUCCESS"} in table["moves"]
