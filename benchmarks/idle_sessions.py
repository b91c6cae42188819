"""The cost of an idle session: bytes of memory, as Python's allocator counts them.

All sessions share a model, a tool and a store, whose records count too; each has an engine of its own. One row is of
new sessions. The other is of sessions after a short turn with a call, whose events have not been read.
"""

from __future__ import annotations

from collections.abc import Iterator

from measure import held
from page import table

from toolcast import CallableTool, Engine, Session, ToolCallPart
from toolcast.stores import MemoryStore
from toolcast.testing import ScriptedLLM

SESSIONS = 1_000
PARTS = {"new": 0, "after a turn of two rounds, its events unread": 1}
_ANSWERS = (ToolCallPart("call_1", "add", '{"a": 2, "b": 40}'), "Two and forty make forty-two.")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def report(count: int = SESSIONS) -> str:
    """The table: kilobytes for each of so many idle sessions."""
    lines = [[name, f"{size / 1000:.1f}"] for name, size in idle_sessions(count).items()]
    return table(["idle sessions", "KB each"], lines)


def idle_sessions(count: int = SESSIONS, rounds: int = 1) -> dict[str, float]:
    """Bytes for each of so many idle sessions, by what they have done; the least of so many rounds."""
    return {name: min(_each(count, turns) for _ in range(rounds)) for name, turns in PARTS.items()}


def _each(count: int, turns: int) -> float:
    """Bytes for each of `count` sessions after so many turns."""
    tool, llm = CallableTool.from_function(add), ScriptedLLM(*_ANSWERS)
    next(_sessions(llm, tool, 1, turns))  # what is made on the first use
    _, kept = held(lambda: list(_sessions(llm, tool, count, turns)))
    return kept / count


def _sessions(llm: ScriptedLLM, tool: CallableTool, count: int, turns: int) -> Iterator[Session]:
    store = MemoryStore()
    for _ in range(count):
        session = Session(Engine(llm, [tool]), store=store)
        for _ in range(turns):
            session.run("What is two and forty?")
            llm.requests.clear()  # the script begins anew
        yield session
