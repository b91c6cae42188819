"""What a turn gave: the messages it added, what it cost, how it ended."""

from __future__ import annotations

from dataclasses import dataclass
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
"""How a turn ended: as the model's last answer did, with the typed `output`, with an `empty` answer to tool results,
waiting for `approval`, `cancelled`, `stopped` by a limit, or with an `error`."""


@dataclass(frozen=True)  # not with slots: Python 3.11 could not make a `Turn[Album](...)` then
class Turn(Generic[T_co]):
    """What a turn gave. `messages` are those it added to the history after what was said to it.

    `rounds` counts the requests. `pending` are the calls that wait for an answer, where `end` is `approval`.
    `output` is the typed result of a turn that was asked for one.
    """

    messages: tuple[Message, ...] = ()
    usage: Usage = NO_USAGE
    rounds: int = 0
    end: TurnEnd = "end_turn"
    output: T_co | None = None
    pending: tuple[PermissionRequest, ...] = ()

    @property
    def text(self) -> str:
        """The text of the last answer."""
        return next((said.text for said in reversed(self.messages) if said.role == "assistant"), "")

    @property
    def truncated(self) -> bool:
        """Whether the last answer was cut off by `max_tokens`."""
        return self.end == "max_tokens"
