"""The limits of each user: of requests, of concurrent runs, and of what they spend."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeAlias

import anyio

from ..lazy.lazy_dataclasses import dataclass
from ..messages import TextPart
from ..values.budgets import Budget, BudgetTracker
from ..values.usage import Usage
from .protocol import PublicError, RunInput

BudgetOf: TypeAlias = Callable[[Any], "Budget | None"]
"""A function of the user that returns the limit of what the user may spend; None is no limit."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of one user's requests to `toolcast.serve.app`.

    Attributes:
        body_bytes: The size of a request's body (413). Attached files are in it.
        messages: The number of messages in a request (413).
        message_chars: The characters of one message's text, and of all values of a prompt (413).
        concurrent_runs: The runs of one user at a time (429).
    """

    body_bytes: int = 4_000_000
    messages: int = 1000
    message_chars: int = 200_000
    concurrent_runs: int = 4

    def check(self, run: RunInput) -> None:
        """Raise `RequestRefused` if a request is larger than allowed."""
        if len(run.messages) > self.messages:
            raise RequestRefused(413, "too_many_messages", f"the request has more than {self.messages:,} messages")
        texts = [sum([len(part.text) for part in each.parts if isinstance(part, TextPart)]) for each in run.messages]
        texts.append(sum([len(str(value)) for value in (run.values or {}).values()]))
        if max(texts) > self.message_chars:
            raise RequestRefused(413, "message_too_long", f"a text is longer than {self.message_chars:,} characters")


class RequestRefused(Exception):
    """A request that is not served; `error` is what the client gets."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.error: Final = PublicError(status, code, message)


class RunSlot:
    """One of the runs that a user may have at a time, until `release`. `spending` counts what it spends."""

    def __init__(self, users: UserLimits, user: Hashable, spending: BudgetTracker | None) -> None:
        self.spending: BudgetTracker | None = spending
        self._users = users
        self._user = user
        self._released = False

    def charge(self, usage: Usage) -> None:
        """Count what a run spent that did not count it itself."""
        if self.spending is not None:
            self.spending.add(usage)

    def release(self) -> None:
        """End the run. Idempotent."""
        if not self._released:
            self._released = True
            self._users.leave(self._user)


class UserLimits:
    """The runs of each user at the moment, and what each has spent."""

    def __init__(self, concurrent_runs: int, budget: Budget | BudgetOf | None) -> None:
        self._concurrent_runs = concurrent_runs
        self._budget = budget
        self._running: dict[Hashable, int] = {}
        self._spent: dict[Hashable, BudgetTracker] = {}

    def enter(self, user: Hashable) -> RunSlot:
        """Begin a run of a user. Raises `RequestRefused` if a limit is reached."""
        if self._running.get(user, 0) >= self._concurrent_runs:
            raise RequestRefused(
                429, "too_many_runs", f"you have {self._concurrent_runs} runs in progress: wait for one, or stop it"
            )
        spending = self._tracker(user)
        if spending is not None and (reached := spending.exceeded(anyio.current_time())) is not None:
            raise RequestRefused(402, "budget_exceeded", f"your budget of {reached[0]} is used up")
        self._running[user] = self._running.get(user, 0) + 1
        return RunSlot(self, user, spending)

    def leave(self, user: Hashable) -> None:
        """End a run of a user."""
        self._running[user] -= 1
        if not self._running[user]:
            del self._running[user]

    def _tracker(self, user: Hashable) -> BudgetTracker | None:
        budget = self._budget(user) if callable(self._budget) else self._budget
        if budget is None:
            return None
        tracker = self._spent.setdefault(user, BudgetTracker(budget))
        tracker.budget = budget  # a function may return another one each time
        return tracker
