"""The instructions of an engine: system messages before the history, fixed or made for each request.

A function of the context is called before every model request, so that it sees the dependencies of the turn and the
time of the request. Its text is sent with that request alone: it is no part of the history.

Some models bind their thoughts to what was before them (bound_thoughts.py). Once a conversation has such a thought, its
first instructions stay as they were sent, and changed ones become a system message at the end of the history.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from typing_extensions import TypeVar

from ...async_support.callbacks import call_function
from ...lazy_dataclasses import dataclass
from ...messages import CachePoint, Message, system
from ...option_types import require, require_parameters
from ...tools.context import ToolContext

D = TypeVar("D", default=Any)

InstructionFunction: TypeAlias = Callable[[ToolContext[D]], "str | Awaitable[str | None] | None"]
Instructions: TypeAlias = str | InstructionFunction[D] | Sequence["str | CachePoint | InstructionFunction[D]"]
"""The instructions of an engine: a text, or a function that returns it (None: none), sync or async.

Or a list of these, with a `CachePoint` after what the provider is to cache.
"""

Instruction: TypeAlias = Message | InstructionFunction[Any]
"""One of the instructions in a configuration: its system message, or its function."""


def as_instructions(instructions: object) -> tuple[Instruction, ...]:
    """Return `instructions` as a configuration has them. Raise `TypeError` for a value of another type."""
    if callable(instructions):
        require_parameters("instructions", instructions, "the ToolContext")
        return (cast("InstructionFunction[Any]", instructions),)
    if instructions is None:
        return ()
    if isinstance(instructions, CachePoint):
        return (system(instructions),)
    if isinstance(instructions, (list, tuple)):
        each = cast("Sequence[object]", instructions)
        return tuple([instruction for part in each for instruction in as_instructions(part)])
    require("instructions", instructions, str, "str, a function of the ToolContext, a list of these, or None")
    return (system(str(instructions)),) if instructions else ()


async def system_messages(
    instructions: Sequence[Instruction], context: ToolContext[Any], *, concurrent: bool
) -> tuple[Message, ...]:
    """Return the system messages of one request.

    Raises:
        TypeError: If a function returns something other than a str or None.
    """
    messages: list[Message] = []
    for instruction in instructions:
        if isinstance(instruction, Message):
            messages.append(instruction)
            continue
        text = await call_function(instruction, context, concurrent=concurrent, cancellation=context.cancellation)
        if text is not None:
            require("the result of the function instructions=", text, str, "str or None")
        if text:
            messages.append(system(text))
    return tuple(messages)


@dataclass(frozen=True, slots=True)
class SentInstructions:
    """The instructions of a request, and what they replace.

    Attributes:
        first: The system messages before the history.
        current: The texts that are in force.
        late: The message behind the history that puts them into force, unless they are as in the request before.
    """

    first: tuple[Message, ...]
    current: tuple[str, ...]
    late: tuple[Message, ...] = ()

    @classmethod
    def of(cls, messages: tuple[Message, ...]) -> SentInstructions:
        """Return the instructions of a request that has them before the history."""
        return cls(messages, _texts(messages))

    def changed_to(self, messages: tuple[Message, ...], history: Sequence[Message]) -> SentInstructions:
        """Return the instructions of the next request, in which these are in force."""
        # A late message has its place between a message of the user, or results, and the response.
        if (new := _texts(messages)) == self.current or history[-1].role not in ("user", "tool"):
            return self
        if len(new) == len(self.current):
            words = _PART_CHANGED
            changed = [text for before, text in zip(self.current, new, strict=True) if text != before]
        else:  # it is not known which of them take the place of which
            words, changed = _CHANGED if new else _NO_MORE, list(new)
        return SentInstructions(self.first, new, (system("\n\n".join([words, *changed])),))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data, without the late message, which is in the history."""
        return {"first": [message.to_dict() for message in self.first], "current": [*self.current]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SentInstructions:
        """Return the instructions from the data of `to_dict`."""
        return cls(tuple([Message.from_dict(each) for each in data["first"]]), tuple(map(str, data["current"])))


def _texts(messages: Iterable[Message]) -> tuple[str, ...]:
    return tuple([message.text for message in messages if message.text])


def is_late(message: Message) -> bool:
    """Return True if the message puts changed instructions into force."""
    return message.role == "system" and message.text.startswith((_PART_CHANGED, _CHANGED, _NO_MORE))


_PART_CHANGED = "From now on, this takes the place of its earlier version in the instructions:"
_CHANGED = "From now on, these instructions take the place of all earlier ones:"
_NO_MORE = "From now on, there are no instructions: the earlier ones do not apply any more."
