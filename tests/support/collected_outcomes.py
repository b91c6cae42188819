"""Jobs that are run to their end, by `map` and by `amap` in each event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import anyio

from toolcast import ToolOrchestratingLLM
from toolcast.batch import Outcome

Collect = Callable[..., list[Outcome[Any]]]


def collect_sync(call: ToolOrchestratingLLM[Any], inputs: Iterable[Any], **options: Any) -> list[Outcome[Any]]:
    """Return the outcomes of `map`."""
    return list(call.map(inputs, **options))


def collect_in(backend: str) -> Collect:
    """Return a function that returns the outcomes of `amap`."""

    def collect(call: ToolOrchestratingLLM[Any], inputs: Any, **options: Any) -> list[Outcome[Any]]:
        async def main() -> list[Outcome[Any]]:
            return [outcome async for outcome in call.amap(inputs, **options)]

        return anyio.run(main, backend=backend)

    return collect
