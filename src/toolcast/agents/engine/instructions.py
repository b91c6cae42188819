"""The instructions of an engine: system messages before the history, fixed or made for each request.

A function of the context is called before every model request, so that it sees the dependencies of the turn and the
time of the request. Its text is sent with that request alone: it is no part of the history.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, cast

from typing_extensions import TypeVar

from ...async_support.callbacks import call_function
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
) -> Sequence[Message]:
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
    return messages
