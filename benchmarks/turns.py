"""What an engine adds to the LLM calls of its turns: for each round with a tool, and for each event.

The model is scripted and speaks from memory; beside the engine stands the same model asked directly, with a
history as long, and the tool called directly. CPU time, the rows in turn, the least of several rounds.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Sequence
from time import process_time
from typing import Any

from page import table

from toolcast import Engine, FunctionCallingLLM, ToolCallPart, assistant, tool_result, user
from toolcast.events import Event, Finish, TextDelta, ToolCallDone, ToolCallStart, UsageReport
from toolcast.llms import LLMMetadata
from toolcast.tools.callable_tool import as_tools
from toolcast.values.usage import Usage

ROUNDS = 100
EVENTS = 20_000
_CALLS = [ToolCallPart(f"call_{number}", "add", '{"a": 2, "b": 40}') for number in range(ROUNDS)]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def report(repeats: int) -> str:
    """The table: microseconds above those of the LLM and the tool, and theirs."""
    lines = [[name, f"{above:.1f}", f"{bare:.1f}"] for name, (above, bare) in measured(repeats).items()]
    return table(["", "engine, us above", "LLM and tool, us"], lines)


def measured(repeats: int) -> dict[str, tuple[float, float]]:
    """Return for each row what the engine adds, and the rest, in microseconds."""
    found = {}
    for name, count, ours, theirs in _rows():
        whole, bare = _least(ours, repeats), _least(theirs, repeats)
        found[name] = (whole - bare) / count * 1e6, bare / count * 1e6
    return found


def _rows() -> list[tuple[str, int, Callable[[], object], Callable[[], object]]]:
    return [
        ("a round with one tool, `submit`", ROUNDS, _submit, _asked),
        ("a round with one tool, `asubmit`", ROUNDS, lambda: asyncio.run(_asubmit()), lambda: asyncio.run(_aasked())),
        ("an event, `stream`", EVENTS, _stream, _streamed),
        ("an event, `astream`", EVENTS, lambda: asyncio.run(_astream()), lambda: asyncio.run(_aheard())),
    ]


def _least(work: Callable[[], object], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        gc.collect()
        begun = process_time()
        work()
        taken.append(process_time() - begun)
    return min(taken)


# ---- the engine


def _submit() -> None:
    Engine(_calling(), [add], max_rounds=ROUNDS + 1).submit("Count")


async def _asubmit() -> None:
    # The tool is async here too: a sync one would go through a worker thread.
    async def add(a: int, b: int) -> int:
        return a + b

    await Engine(_calling(), [add], max_rounds=ROUNDS + 1).asubmit("Count")


def _stream() -> int:
    return sum(1 for _ in Engine(_speaking()).stream("Speak"))


async def _astream() -> int:
    return len([0 async for _ in Engine(_speaking()).astream("Speak")])


# ---- the model, asked directly


def _asked() -> None:
    llm, tools, history = _calling(), as_tools([add]), [user("Count")]
    for call in _CALLS:
        for _ in llm.stream_chat(history, tools=tools):
            pass
        history += [assistant(call), tool_result(call, tools[0].call(call.arguments).content)]


async def _aasked() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    llm, tools, history = _calling(), as_tools([add]), [user("Count")]
    for call in _CALLS:
        async for _ in llm.astream_chat(history, tools=tools):
            pass
        history += [assistant(call), tool_result(call, (await tools[0].acall(call.arguments)).content)]


def _streamed() -> int:
    return sum(1 for _ in _speaking().stream_chat("Speak"))


async def _aheard() -> int:
    return len([0 async for _ in _speaking().astream_chat("Speak")])


class FromMemory(FunctionCallingLLM):
    """A model that gives one answer after the other, without a look at the request."""

    def __init__(self, answers: Sequence[Sequence[Event]]) -> None:
        super().__init__()
        self._answers = iter(answers)
        self._metadata = LLMMetadata("memory", "memory")

    @property
    def metadata(self) -> LLMMetadata:
        """The metadata of the model."""
        return self._metadata

    async def _events(self, *_: Any) -> AsyncIterator[Event]:
        for event in next(self._answers):
            yield event


def calling(calls: Sequence[ToolCallPart], end: str) -> FromMemory:
    """A model that makes one call after the other, and ends the turn with a text."""
    used = UsageReport(Usage(input_tokens=10, output_tokens=5))
    answers: list[list[Event]] = [
        [ToolCallStart(call.id, call.name), ToolCallDone(call.id, call.name, call.arguments), used, Finish("tool_use")]
        for call in calls
    ]
    return FromMemory([*answers, [TextDelta(end), used, Finish("end_turn")]])


def _calling() -> FunctionCallingLLM:
    return calling(_CALLS, "Done.")


def _speaking() -> FunctionCallingLLM:
    return FromMemory([[TextDelta("word ") for _ in range(EVENTS)] + [Finish("end_turn")]])


if __name__ == "__main__":
    print(report(7))
