"""Chats whose work is done by the test: what would be ordered goes on for ever, and the test says what comes of it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import anyio

from toolcast import Engine
from toolcast.chat.effects import StageTask
from toolcast.chat.events import (
    ChatEvent,
    GenerationSuccess,
    LoadModel,
    ModelLoadSuccess,
    QueueMessage,
    ToolSearchSuccess,
)
from toolcast.chat.machine import AsyncChatMachine
from toolcast.testing import ScriptedLLM

TO_READY: tuple[ChatEvent, ...] = (LoadModel("any:model"), ModelLoadSuccess())
TO_STREAMING: tuple[ChatEvent, ...] = (*TO_READY, QueueMessage("Hello"), ToolSearchSuccess(()), GenerationSuccess())


async def never(work: StageTask) -> None:
    """Work that does not end by itself."""
    await anyio.sleep_forever()


def chat(*events: ChatEvent) -> AsyncChatMachine:
    """A chat in which these events have happened."""
    machine = AsyncChatMachine(
        Engine(ScriptedLLM()), perform=dict.fromkeys(("load_model", "search_tools", "generate", "call_tools"), never)
    )
    for event in events:
        machine.dispatch(event)
    return machine


class Told:
    """One server-sent event, taken apart."""

    def __init__(self, block: str) -> None:
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        self.name: str = fields.get("event", "")
        self.id: str = fields.get("id", "")
        self.data: Any = json.loads(fields["data"]) if "data" in fields else None
        self.comment: str = fields.get("", "")


class Tab:
    """Reads a feed as a page does: it keeps the id of the last event, and what it knows of the chat."""

    def __init__(self) -> None:
        self.last: str | None = None
        self.state: str = ""
        self.context: dict[str, Any] = {}
        self.snapshots: int = 0
        self.changes: int = 0
        self.answer: str = ""

    def take(self, piece: bytes) -> None:
        """Take in what was read."""
        for block in piece.decode("ascii").split("\n\n"):
            text = Told(block)
            if text.name == "snapshot":
                self.snapshots += 1
                self.context = text.data["context"]
                self.answer = "".join(part["text"] for part in self.context.pop("streamed")["parts"])
            elif text.name == "change":
                self.changes += 1
                self._change(text.data["changes"])
                self._piece(text.data)
            if text.name:
                self.last, self.state = text.id, text.data["state"]

    def _change(self, changes: dict[str, Any]) -> None:
        messages = changes.pop("messages", None)
        self.context |= changes
        if messages is not None:
            self.context["messages"][messages["from"] :] = messages["messages"]

    def _piece(self, change: dict[str, Any]) -> None:
        """The answer that is being written: what it holds comes piece by piece, and is over with its state."""
        if change["state"] != "streaming_response" or change["event"]["type"] == "GENERATION_SUCCESS":
            self.answer = ""
        elif change["event"]["type"] == "STREAM_CHUNK" and not change["ignored"]:
            content = change["event"]["content"]
            self.answer += content if isinstance(content, str) else content.get("text", "")


async def pieces(reader: AsyncGenerator[bytes], count: int) -> list[Told]:
    """The next `count` events of a reader."""
    found: list[Told] = []
    while len(found) < count:
        piece = (await anext(reader)).decode("ascii")
        found += [text for text in map(Told, piece.split("\n\n")) if text.name]
    return found
