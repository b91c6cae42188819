"""`Turn`: the result of one turn of an agent, with its messages, usage and end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from typing import Any, Final, Generic, Literal, TypeAlias, cast

from typing_extensions import TypeVar

from ..errors import IllegalState
from ..lazy.lazy_dataclasses import dataclass
from ..messages import Message, ToolResultPart
from ..text.json_text import json_text
from .approvals import PermissionRequest
from .option_suggestions import refuse_attributes
from .plain_data import from_plain, hide_content, to_plain
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


_WHOLE: Final = frozenset(("end_turn", "stop_sequence", "output"))
_LEFT: Final = frozenset(("approval", "cancelled", "stopped", "error"))


@refuse_attributes("Turn")
@dataclass(frozen=True)  # not with slots: Python 3.11 could not make a `Turn[Album](...)` then
class Turn(Generic[T_co]):
    """The result of one turn of an agent.

    Attributes:
        messages: The messages that the turn added to the history after the user's.
        usage: The tokens of all its requests.
        rounds: The number of model requests.
        end: The reason of its end.
        typed_output: The typed result, if one was requested; None where the turn ended without it.
        pending: The calls that wait for approval, where `end` is `approval`.
        hidden_tools: The tools of a typed result whose type hides its input: `to_dict` leaves their arguments out.
        history: All messages of the conversation: `agent.run("...", history=turn.history)` continues it. Not in
            `to_dict`.
    """

    messages: tuple[Message, ...] = ()
    usage: Usage = NO_USAGE
    rounds: int = 0
    end: TurnEnd = "end_turn"
    typed_output: T_co | None = None
    pending: tuple[PermissionRequest, ...] = ()
    hidden_tools: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    history: tuple[Message, ...] = field(default=(), repr=False, compare=False)

    @property
    def output(self) -> T_co:
        """The typed result, if one was requested; else None.

        Raises:
            IllegalState: The turn was left before it had one. Where it waits for an approval (`end` is `approval`), the
                turn that has the `answers` to its `pending` requests has the output.
        """
        if self.typed_output is None and self.end in _LEFT:
            waits = ", ".join([request.tool for request in self.pending])
            raise IllegalState(
                f"the turn has no output yet: it waits for the approval of {waits}. Look at `pending` first, and "
                "continue it with answers=[...]"
                if waits
                else f"the turn has no output: it ended with {self.end!r}. `messages` and `text` have what there is",
                state=self.end,
            )
        return cast("T_co", self.typed_output)

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

    def _repr_html_(self) -> str:
        """Return HTML for notebooks. Secrets in the output are masked."""
        from .html_repr import table

        rows = [
            ("output", to_plain(self.typed_output)),
            ("text", None if self.hidden_tools else self.text or None),
            ("tools", self._tool_results() or None),
            ("end", self.end),
            ("rounds", self.rounds),
            ("usage", self.usage.describe()),
            ("waiting for approval", ", ".join([request.tool for request in self.pending]) or None),
        ]
        return table("Turn", rows)

    def _tool_results(self) -> list[dict[str, str]]:
        """Return the tools that were called, with what the model read of them, unless it may be secret."""
        results = [part for message in self.messages for part in message.parts if isinstance(part, ToolResultPart)]
        return [
            {"tool": part.name, "error" if part.is_error else "result": "" if self.hidden_tools else part.content}
            for part in results
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data. Secrets in the output are masked."""
        return {
            "messages": [hide_content(message, self.hidden_tools).to_dict() for message in self.messages],
            "usage": self.usage.to_dict(),
            "rounds": self.rounds,
            "end": self.end,
            "output": to_plain(self.typed_output),
            "pending": [request.to_dict() for request in self.pending],
        }

    def to_json(self) -> str:
        """Return the data of `to_dict` as JSON."""
        return json_text(self.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], output_cls: Any = None) -> Turn[Any]:
        """Return the turn from the data of `to_dict`, with its output validated as `output_cls`, if it is given."""
        output = data["output"]
        return Turn(
            tuple([Message.from_dict(message) for message in data["messages"]]),
            Usage.from_dict(data["usage"]),
            data["rounds"],
            data["end"],
            None if output is None else from_plain(output, output_cls),
            tuple([PermissionRequest.from_dict(request) for request in data["pending"]]),
        )


def marked_text(text: str, end: str, name: str) -> str:
    """Return the answer of the agent `name` for another model, with how it ended if it is not whole."""
    if not text.strip():
        return f"({name} gave no answer; its turn ended with {end!r}.)"
    return text if end in _WHOLE else f"({name} did not finish this answer; it ended with {end!r}.)\n\n{text}"
