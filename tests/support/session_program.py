"""A program with one session, which test_session_resume.py kills. Run as `python session_program.py STORE PATH WHERE`.

It writes where it has arrived to its standard output, and waits there for its end: `tool`, in a tool whose effect is in
the file PATH.effects by then; `asked`, where a person is asked; `stream`, in the middle of an answer.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from toolcast.agents.engine.engine import Engine
from toolcast.agents.permissions.permissions import Permissions
from toolcast.agents.sessions.session import Session
from toolcast.messages import ToolCallPart
from toolcast.stores.jsonl_store import JSONLStore
from toolcast.stores.sqlite_store import SQLiteStore
from toolcast.stores.store import Store
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import CallableTool
from toolcast.values.approvals import PermissionRequest

STORES: dict[str, Any] = {"sqlite": SQLiteStore, "jsonl": JSONLStore}
ANSWERS = [ToolCallPart("c1", "look", "{}"), ToolCallPart("c2", "order", '{"what": "tea"}'), "The tea is on its way."]


def wait_at(place: str) -> None:
    """Print that this point is reached, and go no further."""
    print(place, flush=True)
    sys.stdin.read()


class Halting(ScriptedLLM):
    """A model that stops in the middle of its last answer."""

    async def _events(self, *asked: Any) -> AsyncIterator[Any]:
        async for event in super()._events(*asked):
            yield event
            if len(self.requests) == len(ANSWERS):
                wait_at("stream")


def engine(
    effects: Path, where: str = "", *, idempotent: bool = False, answers: list[Any] = ANSWERS, later: bool = False
) -> Engine:
    """An engine whose tool leaves a line in the file `effects` as it begins, and then may wait."""

    def look() -> str:
        """Look."""
        return "There is tea."

    def order(what: str) -> str:
        """Order something."""
        with effects.open("a") as file:
            file.write(f"{what}\n")
        if where == "tool":
            wait_at("tool")
        return f"{what} is ordered"

    def approve(request: PermissionRequest) -> bool:
        if where == "asked" and request.tool == "order":
            wait_at("asked")
        return True

    tools = [look, CallableTool.from_function(order).with_(idempotent=idempotent)]
    llm = (Halting if where == "stream" else ScriptedLLM)(*answers)
    return Engine(llm, tools, permissions=Permissions(approve="later" if later else approve))


def main(kind: str, path: str, where: str) -> None:
    """The session, up to where it is killed."""
    store: Store = STORES[kind](path)
    Session(engine(Path(f"{path}.effects"), where), id="tea", store=store).run("Some tea, please.")


if __name__ == "__main__":
    main(*sys.argv[1:])
