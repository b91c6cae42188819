"""The state of an engine between turns: history, usage, and what users have approved.

The history is the state. A turn that waits for an approval, or was cut off by a crash, is a history that ends in calls
without a result; `started` has the ids of those that may have had their effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypedDict

from ...async_support.interruptible import Interrupted
from ...errors import FailTurn
from ...llms.request import ChatRequest, StoredResponse
from ...messages import Message, ToolResultPart, tool_result
from ...providers.bound_thoughts import bound_thought
from ...providers.content_parts import CallIds
from ...values.approvals import ApprovalDecision
from ...values.budgets import Budget, BudgetTracker
from ...values.usage import NO_USAGE, Usage
from ..permissions.permissions import Rule
from .compaction import Compaction, compact
from .history import estimate_tokens, repair, unanswered_calls
from .instructions import SentInstructions, without_late
from .session_state import SessionState, difference, fold, opened_record

logger: Final = logging.getLogger("toolcast")

NOT_RUN: Final = "The call was not run: the turn was broken off."
INTERRUPTED: Final = (
    "This call had begun when the turn was broken off; it may have had its effect. It was not run again. "
    "Look at what is there before you call it once more."
)

Snapshot: TypeAlias = Mapping[str, Any] | SessionState
"""The data of `Engine.snapshot`, or the state that it is folded to."""


class StoredState(TypedDict, total=False):
    """The fields of `SessionState` for a stored response."""

    stored: StoredResponse
    seen: int


class Conversation:
    """The history of an engine and the state that belongs to it. One engine writes it, one turn at a time."""

    def __init__(
        self, history: Iterable[Message] = (), budget: Budget | None = None, parent: BudgetTracker | None = None
    ) -> None:
        self.history: list[Message] = without_late(load_history(history))
        self.usage: Usage = NO_USAGE
        self.spending: BudgetTracker = BudgetTracker(budget, parent)
        self.remembered: list[Rule] = []
        self.started: set[str] = set()
        self.failures: dict[str, int] = {}  # of each tool in this turn, in a row
        self.answers: dict[str, ApprovalDecision] = {}  # decisions about calls that have no result yet
        self.injected: list[Message] = []
        self.turns: int = 0
        self.was_compacted: bool = False  # True until a program that reports it resets it
        self.end: str | None = None  # how the last turn ended; None while it is running
        self.context_tokens: int = 0  # of the last request and its response, as the service counted
        self.added: list[Message] = []  # by the current or the last turn
        self.stored: StoredResponse | None = None  # the last response that a service stores
        self._seen: tuple[Message, ...] = ()  # the history with it
        self.instructions: SentInstructions | None = None  # those that a thought is bound to
        self._ids: CallIds | None = None

    @property
    def ids(self) -> CallIds:
        """The unique ids of the calls in this history."""
        if self._ids is None:
            self._ids = CallIds(self.history)
        return self._ids

    def add(self, message: Message) -> None:
        """Append a message of the current turn to the history."""
        self.history.append(message)
        self.added.append(message)

    def keep_instructions(self, instructions: SentInstructions | tuple[Message, ...], response: Message) -> None:
        """Keep the instructions of a request before its response is added, if thoughts are bound to them."""
        if isinstance(instructions, SentInstructions):
            for message in instructions.late:
                self.add(message)
            self.instructions = replace(instructions, late=())
        elif bound_thought(response) is not None:
            self.instructions = SentInstructions.of(instructions)

    def remember_stored(self, stored: StoredResponse) -> None:
        """Remember that a service stores the last message, a response, and those before it."""
        self.stored, self._seen = stored, tuple(self.history)

    def continued(self, request: ChatRequest) -> ChatRequest:
        """Return `request` with the response that it may continue, if the service has one."""
        return request if self.stored is None else replace(request, continues=self.stored, seen=self._seen)

    def begin(self, messages: Iterable[Message]) -> None:
        """Begin a turn with the messages of the caller."""
        self.turns += 1
        self.end = None
        self.added = []
        self.failures = {}
        self.history.extend(messages)

    def answer_open_calls(self, text: str) -> None:
        """Add a result to each call without one: `text`, or that the call was interrupted if it had started."""
        for call in unanswered_calls(self.history):
            self.add(tool_result(call, INTERRUPTED if call.id in self.started else text, is_error=True))
            self.mark_answered(call.id)

    def mark_answered(self, id: str) -> None:
        """Forget the decision about a call that has its result now."""
        self.started.discard(id)
        self.answers.pop(id, None)

    def pop_injected(self) -> None:
        """Move injected messages to the end of the history."""
        if not self.injected:
            return
        injected, end = self.injected[:], len(self.history)
        count = len(injected)
        # In one step: the snapshot of another thread between two of them would have a message twice, or not at all.
        self.history[end:], self.injected[:count] = injected, ()

    def rollback(self, messages: tuple[Message, ...]) -> None:
        """Remove the caller's messages from the history, if the turn added nothing after them."""
        if messages and not self.added and tuple(self.history[-len(messages) :]) == messages:
            del self.history[-len(messages) :]

    def rewrite(self, history: Iterable[Message]) -> None:
        """Replace the history. The next request has the current instructions before it. Known ids stay known."""
        self._ids = self.ids  # before those of messages that are left out are unknown
        self.history = without_late(history)
        self.instructions = None

    async def make_room(
        self, compaction: Compaction, concurrent: bool, on_usage: Callable[[Usage], object], *, must: bool
    ) -> bool:
        """Shorten the history as `compact` does. If its summary fails, warn and leave it as it is.

        `must`: it does not fit as it is, so the messages are then left out without a summary.
        """
        try:
            return await self.compact(compaction, concurrent, on_usage)
        except (Interrupted, FailTurn):
            raise
        except Exception as error:  # a user's function, or an LLM of any kind
            done = "messages of the history are left out" if must else "the history was not shortened"
            logger.warning("%s, as its summary failed: %s: %s", done, type(error).__name__, error)
        return must and await self.compact(replace(compaction, summarise=None), concurrent, on_usage)

    async def compact(self, compaction: Compaction, concurrent: bool, on_usage: Callable[[Usage], object]) -> bool:
        """Shorten the history if possible; return True if it was. `on_usage` is called with the usage of a summary."""
        history = without_late(self.history)
        limit = compaction.at
        is_enough = limit is not None and estimate_tokens(self.history) > limit >= estimate_tokens(history)
        shorter = history if is_enough else await compact(history, compaction, concurrent=concurrent, on_usage=on_usage)
        if shorter is None:
            return False
        logger.warning("the history was too long; %s messages of it are left", len(shorter))
        self.rewrite(shorter)
        self.was_compacted = True
        return True

    def state(self, id: str = "", opened: float = 0.0) -> SessionState:
        """Return the whole conversation as a `SessionState`."""
        # Read without a call, as another thread may go on with a turn during one. A result is added to the history
        # before its call is no longer in `started`: a call that has run never looks as if it had not.
        started, answers, injected, history = {*self.started}, {**self.answers}, (*self.injected,), (*self.history,)
        spent = self.spending.to_dict()
        return SessionState(
            id=id,
            opened=opened,
            history=history,
            usage=self.usage,
            spent={} if spent == _NOTHING else spent,
            started=frozenset(started),
            remembered=tuple([rule.to_dict() for rule in self.remembered]),
            turns=self.turns,
            end=self.end,
            answers=tuple([answer.to_dict() for answer in answers.values()]),
            injected=injected,
            instructions=self.instructions,
            **self._stored_state(history),
        )

    def _stored_state(self, history: tuple[Message, ...]) -> StoredState:
        """Return the stored response, unless `history` does not begin with its messages."""
        stored, seen = self.stored, self._seen
        if stored is None or history[: len(seen)] != seen:
            return {}
        return {"stored": stored, "seen": len(seen)}

    def snapshot(self) -> dict[str, Any]:
        """Return the whole conversation as JSON-serialisable data."""
        return {"records": [opened_record("", 0.0), *difference(SessionState(""), self.state())]}

    def restore(self, data: Snapshot) -> None:
        """Replace the whole conversation by a state, or by the data of `snapshot`."""
        state = data if isinstance(data, SessionState) else fold(data.get("records", ()))
        history, sent = load_history(state.history), state.instructions
        self.rewrite(history)
        self._ids = None
        # Otherwise the history was cut, or a crash was between the two.
        if sent is not None and sent.changes == len(history) - len(self.history):
            self.history, self.instructions = history, sent
        self.usage, self.turns, self.end = state.usage, state.turns, state.end
        if state.spent:
            self.spending.restore(state.spent)
        self.remembered = [Rule.from_dict(rule) for rule in state.remembered]
        self.started = set(state.started)
        answers = [ApprovalDecision.from_dict(answer) for answer in state.answers]
        self.answers = {answer.call_id: answer for answer in answers}
        self.injected = list(state.injected)
        # Compared with the history in each request, which the repair may have changed.
        self.stored, self._seen = state.stored, state.history[: state.seen]
        self.added, self.context_tokens = [], 0


def load_history(history: Iterable[Message]) -> list[Message]:
    """Return a history from outside, repaired. Unanswered calls at its end stay, because they may still be run."""
    loaded = list(repair(list(history), _RESULT_UNKNOWN))
    while loaded and any(
        isinstance(part, ToolResultPart) and part.content is _RESULT_UNKNOWN for part in loaded[-1].parts
    ):
        loaded.pop()  # added by repair just now: it is this very str
    return loaded


_NOTHING: Final = BudgetTracker().to_dict()
_RESULT_UNKNOWN = "The result of this call is not known."
