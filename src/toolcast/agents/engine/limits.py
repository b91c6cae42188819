"""What stops a turn that would go on and on: rounds, budgets, the same call again."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import BudgetExceeded, RepeatedCall, RoundsExceeded
from ...messages import ToolCallPart
from ...usage import BudgetTracker
from .config import EngineConfig


class TurnLimits:
    """Counts what one turn does, and raises a `TurnStopped` where that is too much."""

    def __init__(self, setup: EngineConfig, spending: BudgetTracker) -> None:
        self.rounds: int = 0
        self.spending: BudgetTracker = spending
        self._setup = setup
        self._last: tuple[str, str] = ("", "")
        self._times = 0

    def ask(self, now: float) -> None:
        """One more request is about to be made."""
        if self.rounds >= self._setup.max_rounds:
            raise RoundsExceeded(
                f"the model wanted another round after {self.rounds}; raise max_rounds=, "
                "or submit() without text to go on from here"
            )
        self._check(now)
        self.rounds += 1

    def call(self, calls: Sequence[ToolCallPart], now: float) -> None:
        """These calls are about to be run."""
        self.spending.count(len(calls))
        self._check(now)
        limit = self._setup.max_repeats
        for call in calls:
            made = (call.name, call.arguments)
            self._times = self._times + 1 if made == self._last else 1
            self._last = made
            if limit is not None and self._times > limit:
                raise RepeatedCall(
                    f"the model called {call.name} more than {limit} times in a row with the same arguments; "
                    "say in the prompt when to stop, or raise max_repeats="
                )

    def time_left(self, now: float) -> float | None:
        """Return the seconds that budgets leave for what is about to begin; raise where there are none left."""
        left = self.spending.left(now)
        if left is not None and left <= 0:
            self._check(now)
        return left

    def out_of_time(self) -> BudgetExceeded:
        """Return the error of a turn that the time of a budget has ended."""
        words = "the budget of seconds is used up: its time ended what was waited for; allow more: Budget(seconds=...)"
        return BudgetExceeded(words, limit="seconds")

    def _check(self, now: float) -> None:
        reached = self.spending.exceeded(now)
        if reached is not None:
            limit, words = reached
            raise BudgetExceeded(words, limit=limit)
