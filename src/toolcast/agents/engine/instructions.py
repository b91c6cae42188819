"""The instructions of an engine: system messages before the history, fixed or made for each request.

A function of the context is called before every model request, so that it sees the dependencies of the turn and the
time of the request. Its text is sent with that request alone: it is no part of the history.

Some models bind their thoughts to what was before them (bound_thoughts.py). Once a conversation has such a thought, its
first instructions stay as they were sent, and changed ones become a system message at the end of the history.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from typing_extensions import TypeVar

from ...async_support.callbacks import call_function
from ...lazy.lazy_dataclasses import dataclass
from ...messages import CachePoint, Message, system
from ...tools.tool_context import ToolContext
from ...values.option_types import require, require_parameters

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
        changes: The number of late messages in the history with that of this request, which put them into force.
        late: That of this request, behind the history, unless they are as in the request before.
    """

    first: tuple[Message, ...]
    current: tuple[str, ...]
    changes: int = 0
    late: tuple[Message, ...] = ()

    @classmethod
    def of(cls, messages: tuple[Message, ...]) -> SentInstructions:
        """Return the instructions of a request that has them before the history."""
        return cls(messages, _texts(messages))

    def changed_to(self, messages: tuple[Message, ...], history: Sequence[Message]) -> SentInstructions:
        """Return the instructions of the next request, in which these are in force."""
        # A late message cannot be behind an answer that the model continues.
        if (new := _texts(messages)) == self.current or history[-1].role == "assistant":
            return self
        if not (changes := list(_changes(self.current, new))):
            return SentInstructions(self.first, new, self.changes)
        late = system("\n\n".join([_CHANGED, *changes]))
        return SentInstructions(self.first, new, self.changes + 1, (late,))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data, without the late messages, which are in the history."""
        first = [message.to_dict() for message in self.first]
        return {"first": first, "current": [*self.current], "changes": self.changes}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SentInstructions:
        """Return the instructions from the data of `to_dict`."""
        first = tuple([Message.from_dict(each) for each in data["first"]])
        return cls(first, tuple(map(str, data["current"])), int(data["changes"]))


def _texts(messages: Iterable[Message]) -> tuple[str, ...]:
    return tuple([message.text for message in messages if message.text.strip()])


def _changes(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """Yield what leads a reader from the instructions `before` to those of `now`, whose order says nothing."""
    for text in dict.fromkeys(before):
        if text not in now:
            yield f"This does not apply any more: {_quoted(text, (*before, *now))}"
    for text in dict.fromkeys(now):
        if text not in before:
            yield f"This applies from here on:\n\n{text}"


def _quoted(text: str, texts: Sequence[str]) -> str:
    """Return enough of a text to tell it from others."""
    length = _QUOTED
    while length < len(text) and any(other != text and other.startswith(text[:length]) for other in texts):
        length *= 2
    return f'"{text}"' if len(text) <= length else f'what begins with "{text[:length]}..."'


def without_late(history: Iterable[Message]) -> list[Message]:
    """Return a history without the messages that put changed instructions into force."""
    return [message for message in history if message.role != "system" or not message.text.startswith(_CHANGED)]


_CHANGED = "The instructions have changed from here on."
_QUOTED = 80  # characters
