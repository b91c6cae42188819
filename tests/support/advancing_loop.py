"""An asyncio event loop whose clock a test sets forward, so that timers fire without a wait.

    with asyncio.Runner(loop_factory=AdvancingLoop) as runner:
        runner.run(main())

Inside, `AdvancingLoop.running().advance(10)` makes 10 seconds pass; the timers that are due run in the next step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class AdvancingLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock that `advance` sets forward."""

    _ahead = 0.0

    @staticmethod
    def running() -> AdvancingLoop:
        """Return the running loop."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, AdvancingLoop)
        return loop

    def advance(self, seconds: float) -> None:
        """Set the clock forward."""
        self._ahead += seconds

    def time(self) -> float:
        """Return the time of the loop."""
        return super().time() + self._ahead


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` in an `AdvancingLoop`."""
    with asyncio.Runner(loop_factory=AdvancingLoop) as runner:
        runner.run(main)
