"""`TurnRequest`, the input of one turn, and its checks: messages, approval decisions and the type of the output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypedDict

from typing_extensions import TypeVar

from ...lazy.lazy_dataclasses import dataclass
from ...llms.request import Messages, as_messages
from ...messages import Message
from ...tools.callable_tool import as_tools
from ...values.approvals import ApprovalDecision
from ...values.budgets import Budget, BudgetTracker
from ...values.option_suggestions import refuse_unknown
from .conversation import Conversation
from .engine_config import EngineConfig
from .history import find_problems, unanswered_calls
from .typed_output import TypedOutput

D = TypeVar("D", default=Any)


class RunOptions(TypedDict, total=False):
    """Options of a turn of an `Agent`.

    Attributes:
        validation_context: The context of Pydantic's validators, in place of the agent's own.
        answers: Decisions about the requests in `pending`.
        budget: A limit for this turn, besides the agent's own.
    """

    validation_context: Any
    answers: Iterable[ApprovalDecision]
    budget: Budget | None


class TurnOptions(RunOptions, Generic[D], total=False):
    """Options of a turn of a conversation: those of `RunOptions`, and `deps`.

    Attributes:
        deps: The dependencies of this turn, in place of the conversation's own: its tools, instructions and output
            validators get them in their `ToolContext`. They are not stored: pass them again to continue the turn.
    """

    deps: D | None


@dataclass(frozen=True, slots=True, eq=False)
class TurnRequest:
    """The input of one turn: messages (none: continue the history), a typed result, approval decisions.

    `config` has the dependencies and the validation context of the turn. `checkpoint` is called whenever the
    conversation has changed, and always before a tool runs; an exception from it ends the turn.
    """

    config: EngineConfig
    messages: tuple[Message, ...] = ()
    typed: TypedOutput | None = None
    answers: tuple[ApprovalDecision, ...] = ()
    spending: BudgetTracker | None = None
    checkpoint: Callable[[], object] = lambda: None


def build_turn_request(
    config: EngineConfig,
    conversation: Conversation,
    message: Messages | None,
    output_cls: Any,
    options: TurnOptions[Any],
) -> TurnRequest:
    """Return the input of a turn that continues `conversation`.

    Raises:
        ValueError: If there is nothing to send, if a message is invalid, or an answer is for no call that waits.
        TypeError: If an answer is no `ApprovalDecision`, or if a tool requires dependencies and there are none.
    """
    refuse_unknown("a turn", options, ("message", "output_cls", *TurnOptions.__annotations__))
    config = config.for_turn(options.get("deps"), options.get("validation_context"))
    output_cls = config.output_cls if output_cls is None else output_cls
    messages: Sequence[Message] = () if message is None else require_valid(as_messages(message))
    if not messages and not conversation.history:
        raise ValueError("no message, and no history to continue; pass a message, as in run('...') or submit('...')")
    given, budget = tuple(options.get("answers", ())), options.get("budget")
    if given:
        _check_answers(conversation, given, messages)
    typed = None if output_cls is None else TypedOutput(output_cls, config)
    config.check_deps(() if typed is None else typed.tools)
    if typed is not None:
        as_tools((*config.tools, *typed.tools))  # raises if two have one name
    spending = None if budget is None else BudgetTracker(budget, conversation.spending)
    return TurnRequest(config, tuple(messages), typed, given, spending)


def require_valid(messages: Sequence[Message]) -> Sequence[Message]:
    """Return `messages`; raise `ValueError` if no service would accept them."""
    wrong = find_problems(messages)
    if wrong:
        raise ValueError(f"invalid message: {wrong[0]}. Pass user(...), or a complete history=")
    return messages


def _check_answers(conversation: Conversation, answers: Sequence[object], messages: Sequence[Message]) -> None:
    """Raise if a decision would be lost, or could be applied to another call."""
    if messages:
        raise ValueError("answers go on with the turn that waits for them: submit(answers=[...]) without text")
    waiting = {call.id for call in unanswered_calls(conversation.history)}
    for answer in answers:
        if not isinstance(answer, ApprovalDecision):
            raise TypeError(f"{answer!r:.100} is no answer; a request of engine.pending makes one: request.allow()")
        if answer.call_id not in waiting:
            raise ValueError(f"no call {answer.call_id!r} waits for an answer, or it got two; see engine.pending")
        waiting.remove(answer.call_id)
