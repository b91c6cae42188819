"""The TypeScript of docs/how-to/chat.md: it compiles, follows a chat, and knows which events the chat takes."""

from __future__ import annotations

import json
from typing import Any

from clients.chat_json import recorded_chat
from clients.typescript import run_typescript
from docs.pages import PAGES, blocks
from toolcast.chat import ChatContext, chat_machine_config, chat_machine_types
from toolcast.chat.events import parse_event
from toolcast.chat.transitions import transition

USE = """
import { apply, can } from "./chat.js";
import type { ChatChange, ChatSnapshot, ChatUserEvent } from "./chat-machine.js";

declare const process: { stdin: AsyncIterable<Uint8Array> };

const chunks: Uint8Array[] = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const text = new TextDecoder().decode(Uint8Array.from(chunks.flatMap((chunk) => [...chunk])));
const input: { first: ChatSnapshot; changes: ChatChange[]; events: ChatUserEvent[] } = JSON.parse(text);

let chat = input.first;
for (const change of input.changes) {
  chat = apply(chat, change);
  console.log(JSON.stringify({ chat, taken: input.events.filter((event) => can(chat, event)) }));
}
"""
EVENTS: list[dict[str, Any]] = [
    *({"type": type} for type in ("LOAD_MODEL", "INTERRUPT", "STOP", "APPROVE_TOOL_CALL", "REJECT_TOOL_CALL")),
    *({"type": type} for type in ("RETRY_TOOL_SEARCH", "RETRY_GENERATION", "RETRY_TOOL_CALL", "RELEASE_QUEUE")),
    {"type": "QUEUE_MESSAGE", "message": "And now?"},
    {"type": "SET_MODE", "mode": "plan"},
]


def seen(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return a snapshot without the partial answer, which is no part of changes."""
    return {"state": snapshot["state"], **ChatContext.from_dict(snapshot["context"] | {"streamed": EMPTY}).to_dict()}


EMPTY = ChatContext().to_dict()["streamed"]


def test_the_page_follows_a_chat_and_knows_what_it_takes() -> None:
    (page,) = [page for page in PAGES if page.as_posix().endswith("docs/how-to/chat.md")]
    (module,) = [block.code for block in blocks(page) if block.language == "ts"]
    changes, snapshots = recorded_chat()
    files = {
        "chat-machine.json": json.dumps(chat_machine_config()),
        "chat-machine.ts": chat_machine_types(),
        "chat.ts": module,
        "use.ts": USE,
    }
    shown = run_typescript(files, "use.js", first=snapshots[0], changes=changes[1:], events=EVENTS)
    assert [seen(each["chat"]) for each in shown] == [seen(snapshot) for snapshot in snapshots[1:]]
    for each, snapshot in zip(shown, snapshots[1:], strict=True):
        context = ChatContext.from_dict(snapshot["context"])
        taken = [e for e in EVENTS if not transition(snapshot["state"], context, parse_event(e)).ignored]
        assert each["taken"] == taken
