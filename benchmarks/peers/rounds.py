"""What a round of an agent with one tool costs: a scripted model calls the tool, which runs, and the result goes back.

The model is the scripted or custom model of each library's own interface, so nothing is sent and no SDK is measured: a
round is what the library does between two answers of its model.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from time import process_time
from typing import Any

COUNT = 20
"""How often the model calls the tool before it ends the turn with `DONE`."""

ARGUMENTS = '{"a": 2, "b": 40}'
DONE = "Done."
ROUNDS = 3
TURNS = 5

results: list[int] = []
"""The results of the tool, to check that it has run."""


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    results.append(a + b)
    return a + b


@dataclass(frozen=True)
class Agent:
    """One line of the table.

    `make` returns a function, or coroutine function, that runs one turn of `COUNT` rounds and returns its last text.
    """

    name: str
    make: Callable[[], Callable[[], Any]]


def costs(agents: Sequence[Agent]) -> Iterator[dict[str, Any]]:
    """Yield for every agent its microseconds of CPU a round, of each round of measuring."""
    for agent in agents:
        found: dict[str, Any] = {"agent": agent.name, "round": []}
        try:
            asyncio.run(_measure(agent, found))
        except Exception as problem:
            found["error"] = f"{type(problem).__name__}: {problem}"[:300]
        yield found


async def _measure(agent: Agent, found: dict[str, Any]) -> None:
    turn = agent.make()
    results.clear()
    found["right"] = await _ended(turn) == DONE and results == [42] * COUNT
    for _ in range(ROUNDS):
        gc.collect()
        begun = process_time()
        for _ in range(TURNS):
            await _ended(turn)
        found["round"].append(round((process_time() - begun) / (TURNS * COUNT) * 1e6, 2))


async def _ended(turn: Callable[[], Any]) -> Any:
    result = turn()
    return await result if isawaitable(result) else result
