"""Chats whose tasks never end; the test dispatches their results."""

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
    """Run until cancelled."""
    await anyio.sleep_forever()


def chat(*events: ChatEvent) -> AsyncChatMachine:
    """Return a chat to which these events have been dispatched."""
    machine = AsyncChatMachine(
        Engine(ScriptedLLM()), perform=dict.fromkeys(("load_model", "search_tools", "generate", "call_tools"), never)
    )
    for event in events:
        machine.dispatch(event)
    return machine


class ServerSentEvent:
    """A parsed server-sent event."""

    def __init__(self, block: str) -> None:
        fields = dict(line.split(": ", 1) for line in block.splitlines())
        self.name: str = fields.get("event", "")
        self.id: str = fields.get("id", "")
        self.data: Any = json.loads(fields["data"]) if "data" in fields else None
        self.comment: str = fields.get("", "")


class Tab:
    """A client of the event stream that, like the web page, keeps the last event id and the state of the chat."""

    def __init__(self) -> None:
        self.last: str | None = None
        self.state: str = ""
        self.context: dict[str, Any] = {}
        self.snapshots: int = 0
        self.changes: int = 0
        self.answer: str = ""

    def take(self, piece: bytes) -> None:
        """Read a chunk of the stream."""
        for block in piece.decode("ascii").split("\n\n"):
            event = ServerSentEvent(block)
            if event.name == "snapshot":
                self.snapshots += 1
                self.context = event.data["context"]
                self.answer = "".join(part["text"] for part in self.context.pop("streamed")["parts"])
            elif event.name == "change":
                self.changes += 1
                self._change(event.data["changes"])
                self._piece(event.data)
            if event.name:
                self.last, self.state = event.id, event.data["state"]

    def _change(self, changes: dict[str, Any]) -> None:
        messages = changes.pop("messages", None)
        self.context |= changes
        if messages is not None:
            self.context["messages"][messages["from"] :] = messages["messages"]

    def _piece(self, change: dict[str, Any]) -> None:
        """Update the streamed answer, which ends with the state `streaming_response`."""
        if change["state"] != "streaming_response" or change["event"]["type"] == "GENERATION_SUCCESS":
            self.answer = ""
        elif change["event"]["type"] == "STREAM_CHUNK" and not change["ignored"]:
            content = change["event"]["content"]
            self.answer += content if isinstance(content, str) else content.get("text", "")


async def pieces(reader: AsyncGenerator[bytes], count: int) -> list[ServerSentEvent]:
    """Return the next `count` events of a reader."""
    found: list[ServerSentEvent] = []
    while len(found) < count:
        piece = (await anext(reader)).decode("ascii")
        found += [event for event in map(ServerSentEvent, piece.split("\n\n")) if event.name]
    return found
