"""What an engine remembers between turns: its history, what it cost, and what people allowed.

The history is the state. What waits for an approval, or was cut off by a crash, is a history that ends in calls
without a result; `started` says which of them may have had their effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from ...approvals import ApprovalDecision
from ...messages import Message, ToolResultPart, tool_result
from ...usage import NO_USAGE, Budget, BudgetTracker, Usage
from ..permissions.permissions import Rule
from .compaction import Compaction, compacted
from .history import Ids, repaired, unanswered
from .session_state import SessionState

logger: Final = logging.getLogger("toolcast")

NOT_RUN: Final = "The call was not run: the turn was broken off."
BROKEN_OFF: Final = (
    "This call had begun when the turn was broken off; it may have had its effect. It was not run again. "
    "Look at what is there before you call it once more."
)


class Conversation:
    """The history and what belongs to it. One engine writes it, one turn at a time."""

    def __init__(
        self, history: Iterable[Message] = (), budget: Budget | None = None, parent: BudgetTracker | None = None
    ) -> None:
        self.history: list[Message] = is_valid(history)
        self.usage: Usage = NO_USAGE
        self.spending: BudgetTracker = BudgetTracker(budget, parent)
        self.remembered: list[Rule] = []
        self.started: set[str] = set()
        self.answers: dict[str, ApprovalDecision] = {}  # what people said of calls that have no result yet
        self.injected: list[Message] = []
        self.turns: int = 0
        self.end: str | None = None  # how the last turn ended; None while it goes on
        self.context_tokens: int = 0  # what the last request and its answer took, as the service counted
        self.added: list[Message] = []  # by the turn that is going on, or was the last
        self._ids: Ids | None = None

    @property
    def ids(self) -> Ids:
        """Gives every call an id of its own."""
        if self._ids is None:
            self._ids = Ids(self.history)
        return self._ids

    def add(self, message: Message) -> None:
        """Put what the turn has brought at the end of the history."""
        self.history.append(message)
        self.added.append(message)

    def begin(self, said: Iterable[Message]) -> None:
        """A turn begins with what was said to it."""
        self.turns += 1
        self.end = None
        self.added = []
        self.history.extend(said)

    def answer_left(self, words: str) -> None:
        """Give each call that has no result one that says `words`, or that the call had begun."""
        for call in unanswered(self.history):
            self.add(tool_result(call, BROKEN_OFF if call.id in self.started else words, is_error=True))
            self.settle(call.id)

    def settle(self, id: str) -> None:
        """The call has its result."""
        self.started.discard(id)
        self.answers.pop(id, None)

    def take_injected(self) -> None:
        """Put what was injected meanwhile at the end of the history."""
        while self.injected:
            self.history.append(self.injected.pop(0))

    def take_back(self, said: tuple[Message, ...]) -> None:
        """Have what was said unsaid, where nothing came of it."""
        if said and not self.added and tuple(self.history[-len(said) :]) == said:
            del self.history[-len(said) :]

    def rewrite(self, history: Iterable[Message]) -> None:
        """Have another history."""
        self.history = list(history)
        self._ids = None

    async def compact(self, compaction: Compaction, concurrent: bool, paid: Callable[[Usage], object]) -> bool:
        """Whether the history is shorter now. `paid` hears what that cost."""
        shorter = await compacted(self.history, compaction, concurrent=concurrent, paid=paid)
        if shorter is None:
            return False
        logger.warning("the history was too long; %s messages of it are left", len(shorter))
        self.rewrite(shorter)
        return True

    def state(self, id: str = "", opened: float = 0.0) -> SessionState:
        """All of it, as it is now."""
        spent = self.spending.to_dict()
        return SessionState(
            id=id,
            opened=opened,
            history=tuple(self.history),
            usage=self.usage,
            spent={} if spent == _NOTHING else spent,
            started=frozenset(self.started),
            remembered=tuple([rule.to_dict() for rule in self.remembered]),
            turns=self.turns,
            end=self.end,
            answers=tuple([answer.to_dict() for answer in self.answers.values()]),
            injected=tuple(self.injected),
        )

    def restore(self, state: SessionState) -> None:
        """Become what `state` was made from."""
        self.rewrite(is_valid(state.history))
        self.usage, self.turns, self.end = state.usage, state.turns, state.end
        if state.spent:
            self.spending.restore(state.spent)
        self.remembered = [Rule.from_dict(rule) for rule in state.remembered]
        self.started = set(state.started)
        answers = [ApprovalDecision.from_dict(answer) for answer in state.answers]
        self.answers = {answer.call_id: answer for answer in answers}
        self.injected = list(state.injected)
        self.added, self.context_tokens = [], 0


def is_valid(history: Iterable[Message]) -> list[Message]:
    """A history from outside as every service takes it. Calls that it ends in stay open: they may still be run."""
    mended = list(repaired(list(history), _LOST))
    while mended and any(isinstance(part, ToolResultPart) and part.content is _LOST for part in mended[-1].parts):
        mended.pop()  # made just now: it has these very words
    return mended


_NOTHING: Final = BudgetTracker().to_dict()
_LOST = "The result of this call is not known."
