"""The output validators of an engine: functions that check or replace the typed output of a turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, TypeAlias, cast

from typing_extensions import TypeVar

from ...async_support.callbacks import call_function, innermost
from ...tools.tool_context import ToolContext
from ...values.option_types import require_parameters

D = TypeVar("D", default=Any)
Output = TypeVar("Output", default=Any)

OutputValidator: TypeAlias = Callable[[ToolContext[D], Output], Output | Awaitable[Output]]
"""A function of the context and the output, sync or async, that returns the output or raises `TryAgain`."""


def as_validators(validators: object) -> tuple[OutputValidator[Any], ...]:
    """Return `validators`, a function or several, as a tuple. Raise `TypeError` for anything else."""
    if validators is None:
        return ()
    if callable(validators):
        found: tuple[object, ...] = (validators,)
    elif isinstance(validators, Iterable):
        found = tuple(cast("Iterable[object]", validators))
    else:
        raise TypeError(f"output_validators: expected a function or several, got {type(validators).__name__}")
    for validator in found:
        require_parameters("output_validators", validator, "the ToolContext", "the output")
    return cast("tuple[OutputValidator[Any], ...]", found)


async def validate_output(
    validators: Iterable[OutputValidator[Any]], output: Any, context: ToolContext[Any], *, concurrent: bool
) -> Any:
    """Return `output` as the validators return it, one after the other. Errors get a note with the validator's name."""
    for validator in validators:
        try:
            output = await call_function(
                validator, context, output, concurrent=concurrent, cancellation=context.cancellation
            )
        except Exception as error:
            name = getattr(innermost(validator), "__qualname__", type(validator).__name__)
            note = f"raised by the output validator {name!r}"
            if note not in getattr(error, "__notes__", ()):  # the same exception object may be raised many times
                with suppress(AttributeError, TypeError):  # an exception that takes no attributes
                    error.add_note(note)
            raise
    return output
