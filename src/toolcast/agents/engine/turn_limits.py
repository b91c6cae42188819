"""`TurnLimits`: the limits of one turn on requests, budgets and repeated calls."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import BudgetExceeded, RepeatedCall, RoundsExceeded
from ...messages import ToolCallPart
from ...values.budgets import BudgetTracker
from .engine_config import EngineConfig


class TurnLimits:
    """Counters for one turn, which raise a `TurnStopped` when a limit is exceeded."""

    def __init__(self, config: EngineConfig, spending: BudgetTracker) -> None:
        self.rounds: int = 0
        self.spending: BudgetTracker = spending
        self._config = config
        self._last: tuple[str, str] = ("", "")
        self._times = 0

    def count_request(self, now: float) -> None:
        """Count a request that is about to be sent; raise if a limit is reached."""
        if self.rounds >= self._config.max_rounds:
            raise RoundsExceeded(
                f"the model wanted another round after {self.rounds}; raise max_rounds=, "
                "or submit() without text to go on from here"
            )
        self._check(now)
        if not self.rounds and self.spending.needs_prices:
            self._config.require_prices()
        self.rounds += 1

    def count_calls(self, calls: Sequence[ToolCallPart], now: float) -> None:
        """Count tool calls that are about to be run; raise if a limit is exceeded."""
        self.spending.count(len(calls))
        self._check(now)
        self.count_repeats(calls)

    def count_repeats(self, calls: Sequence[ToolCallPart]) -> None:
        """Count equal calls in a row; raise if there are too many."""
        limit = self._config.max_repeats
        for call in calls:
            made = (call.name, call.arguments)
            self._times = self._times + 1 if made == self._last else 1
            self._last = made
            if limit is not None and self._times > limit:
                raise RepeatedCall(
                    f"the model called {call.name} more than {limit} times in a row with the same arguments; "
                    "state in the prompt when to stop, or raise max_repeats="
                )

    def time_left(self, now: float) -> float | None:
        """Return the seconds that budgets leave; raise if there are none."""
        left = self.spending.left(now)
        if left is not None and left <= 0:
            self._check(now)
        return left

    def time_exceeded(self) -> BudgetExceeded:
        """Return the error of a turn that was ended by the time limit of a budget."""
        message = "the budget of seconds is used up: the turn was stopped; allow more: Budget(seconds=...)"
        return BudgetExceeded(message, limit="seconds")

    def _check(self, now: float) -> None:
        reached = self.spending.exceeded(now)
        if reached is not None:
            limit, message = reached
            raise BudgetExceeded(message, limit=limit)
