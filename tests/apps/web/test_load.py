"""Many users at once: the web server with its one chat, and chat machines side by side. Nothing is lost.

The suite has a few users with few messages; `nox -s nightly` has 200 that send for 60 s, and prints how long
the server took, as a ratio to a handler that does nothing, asked in the same moments.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from uvicorn import Config, Server

from support.extent import NIGHTLY, nightly
from support.web_chats import Tab
from toolcast import Engine, FunctionCallingLLM
from toolcast.apps.web import make_app
from toolcast.apps.web.web_startup import ChatServer, listen
from toolcast.chat.events import LoadModel, QueueMessage
from toolcast.chat.machine import AsyncChatMachine
from toolcast.events import Event, Finish, TextDelta
from toolcast.messages import Message
from toolcast.tools.callable_tool import CallableTool
from toolcast.values.capabilities import LLMMetadata
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import ToolChoice

USERS = nightly(200, 10)
SECONDS = nightly(60.0, 0.0)  # each user sends two messages in any case
TOKEN = "a-token"
OPTIONS: dict[str, Any] = {"http": "h11", "ws": "none", "lifespan": "off", "log_config": None}

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])  # uvicorn's own


class Echo(FunctionCallingLLM):
    """Repeats the last message, in pieces."""

    @property
    def metadata(self) -> LLMMetadata:
        """What is known about the model."""
        return LLMMetadata("echo", "test", True)

    async def _events(
        self,
        messages: Sequence[Message],
        tools: Sequence[CallableTool],
        tool_choice: ToolChoice,
        settings: Settings,
    ) -> AsyncIterator[Event]:
        for word in f"echo {messages[-1].text}".split(" "):
            yield TextDelta(f"{word} ")
            await asyncio.sleep(0)
        yield Finish("end_turn")


@dataclass
class User:
    """A user of the page: the messages that were accepted, what the tab shows, and how long each answer took."""

    name: str
    tab: Tab = field(default_factory=Tab)
    sent: list[str] = field(default_factory=list[str])
    seconds: list[float] = field(default_factory=list[float])
    empty: list[float] = field(default_factory=list[float])
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self, client: httpx.AsyncClient) -> None:
        """Read the feed, until the server ends it."""
        async with client.stream("GET", f"/chats/chat/events?token={TOKEN}", timeout=None) as answer:
            block = list[str]()
            async for line in answer.aiter_lines():
                if line:
                    block.append(line)
                    continue
                self.tab.take("\n".join(block).encode())
                block.clear()
                self.news.set()

    async def sees(self, wanted: Callable[[], bool]) -> None:
        """Wait until the tab shows what is wanted."""
        while not wanted():
            self.news.clear()
            await self.news.wait()

    async def use(self, client: httpx.AsyncClient, other: httpx.AsyncClient, until: float) -> None:
        """Send messages, and wait for each to be shown; between them ask the handler that does nothing."""
        await self.sees(lambda: self.tab.snapshots > 0)
        while len(self.sent) < 2 or time.monotonic() < until:
            words = f"{self.name}-{len(self.sent)}"
            begun = time.monotonic()
            answer = await client.post("/chats/chat/dispatch", json={"type": "QUEUE_MESSAGE", "message": words})
            self.seconds.append(time.monotonic() - begun)
            assert (answer.status_code, answer.json()["ignored"]) == (200, False)
            self.sent.append(words)
            begun = time.monotonic()
            await other.post("/empty", json={"type": "QUEUE_MESSAGE", "message": words})
            self.empty.append(time.monotonic() - begun)
            await self.sees(lambda words=words: words in users_words(self.tab.context))  # type: ignore[misc]  # the default


def users_words(context: dict[str, Any]) -> list[str]:
    """Count the messages of users, in the requests of the model and in the queue."""
    messages = [*context["messages"], *context["queue"]]
    return [part["text"] for message in messages if message["role"] == "user" for part in message["parts"]]


async def empty(request: Request) -> JSONResponse:
    await request.body()
    return JSONResponse({"ignored": False, "state": "ready"})


async def served(stack: AsyncExitStack, server: Server) -> httpx.AsyncClient:
    """A client of a server that runs until the stack is left."""
    listener = stack.enter_context(listen("127.0.0.1", 0))
    running = asyncio.create_task(server.serve([listener]))

    async def end() -> None:
        server.should_exit = True
        await running

    stack.push_async_callback(end)
    client = httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{listener.getsockname()[1]}",
        headers={"Authorization": f"Bearer {TOKEN}"},
        limits=httpx.Limits(max_connections=None),
        timeout=60,
    )
    return await stack.enter_async_context(client)


@pytest.mark.fault(109)
async def test_messages_of_many_users_appear_exactly_once_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    async with AsyncExitStack() as stack:
        machine = await stack.enter_async_context(AsyncChatMachine(Engine(Echo())))
        machine.dispatch(LoadModel())
        client = await served(stack, ChatServer(make_app(machine, token=TOKEN, log_limit=50_000_000), lambda: None))
        nothing = Starlette(routes=[Route("/empty", empty, methods=["POST"])])
        other = await served(stack, Server(Config(nothing, timeout_keep_alive=120, **OPTIONS)))
        users = [User(f"u{number}") for number in range(USERS)]
        readers = await stack.enter_async_context(asyncio.TaskGroup())  # what goes wrong in one ends the test
        reading = [readers.create_task(user.read(client)) for user in users]
        until = time.monotonic() + SECONDS
        await asyncio.gather(*(user.use(client, other, until) for user in users))
        await machine.run_until("ready")
        shown = machine.context.to_dict()["messages"]
        for user in users:
            await user.sees(lambda user=user: user.tab.context["messages"] == shown)
        text = Counter(words for user in users for words in user.sent)
        assert Counter(users_words(machine.context.to_dict())) == text
        assert set(text.values()) == {1}
        assert [user.tab.snapshots for user in users] == [1] * USERS
        assert machine.context.last_error is None and machine.context.queue == ()
        answers = [message.text.split() for message in machine.context.messages if message.role == "assistant"]
        assert answers and all(words[0] == "echo" for words in answers)
        for reader in reading:
            reader.cancel()
    took = median(seconds for user in users for seconds in user.seconds)
    least = median(seconds for user in users for seconds in user.empty)
    if NIGHTLY:
        with capsys.disabled():
            print(
                f"\n{USERS} users, {SECONDS:.0f} s: {sum(text.values()):,} messages, none lost; median of dispatch "
                f"{took * 1000:.1f} ms, of an empty handler {least * 1000:.1f} ms, ratio {took / least:.2f}"
            )


@pytest.mark.fault(109)
async def test_many_chat_machines_at_once() -> None:
    """Each user has a chat: every message is answered there, in order, and nowhere else."""
    rounds = nightly(50, 3)

    async def use(number: int) -> list[str]:
        async with AsyncChatMachine(Engine(Echo())) as machine:
            machine.dispatch(LoadModel())
            for turn in range(rounds):
                machine.dispatch(QueueMessage(f"{number}-{turn}"))
                await machine.run_until("ready")
            return [message.text.strip() for message in machine.context.messages]

    found = await asyncio.gather(*(use(number) for number in range(USERS)))
    for number, texts in enumerate(found):
        expected = [words for turn in range(rounds) for words in (f"{number}-{turn}", f"echo {number}-{turn}")]
        assert texts == expected
