"""`Turn`: the result of one turn of an agent, with its messages, usage and end."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from .approvals import PermissionRequest
from .messages import Message
from .usage import NO_USAGE, Usage

T_co = TypeVar("T_co", covariant=True, default=Any)

TurnEnd: TypeAlias = Literal[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "refusal",
    "content_filter",
    "pause",
    "other",
    "output",
    "empty",
    "approval",
    "cancelled",
    "stopped",
    "error",
]
"""The end of a turn: the stop reason of the model's last response, or `output` (a typed result), `empty` (an empty
response to tool results), `approval` (calls wait for one), `cancelled`, `stopped` (by a limit), or `error`."""


@dataclass(frozen=True)  # not with slots: Python 3.11 could not make a `Turn[Album](...)` then
class Turn(Generic[T_co]):
    """The result of one turn of an agent.

    Attributes:
        messages: The messages that the turn added to the history after the user's.
        usage: The tokens of all its requests.
        rounds: The number of model requests.
        end: The reason of its end.
        output: The typed result, if one was requested.
        pending: The calls that wait for approval, where `end` is `approval`.
    """

    messages: tuple[Message, ...] = ()
    usage: Usage = NO_USAGE
    rounds: int = 0
    end: TurnEnd = "end_turn"
    output: T_co | None = None
    pending: tuple[PermissionRequest, ...] = ()

    @property
    def cost(self) -> Decimal | None:
        """The estimated cost of all its requests in US dollars; None if it is unknown, for one of them too."""
        return self.usage.cost

    @property
    def text(self) -> str:
        """The text of the last assistant message."""
        return next((message.text for message in reversed(self.messages) if message.role == "assistant"), "")

    @property
    def truncated(self) -> bool:
        """True if `max_tokens` cut the last response off."""
        return self.end == "max_tokens"
