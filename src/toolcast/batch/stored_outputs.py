"""`OutputCodec`: the outputs of a job as JSON text, and back as the objects that they were.

An output is dumped by the names of its fields and validated again when it is read. What would come back as something
else is an error when it is written: a masked secret, an excluded field, a validator that changes its own result.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import pydantic

from ..structured.orchestrator import ToolOrchestratingLLM
from ..text.json_text import json_text
from ..tools.callable_tool import CallableTool
from .job_errors import CheckpointError


class OutputCodec:
    """The encoding of the outputs of one call.

    Raises:
        CheckpointError: If the output is that of a function without a return annotation: nothing could validate it.
    """

    def __init__(self, call: ToolOrchestratingLLM[Any]) -> None:
        self._parallel = call.allow_parallel_tool_calls
        self._context: Any = call.validation_context
        self._types: dict[str, Any] = {tool.name: _output_type(tool) for tool in call.tools}
        self._adapters = {name: pydantic.TypeAdapter[Any](kind) for name, kind in self._types.items()}

    def encode(self, output: Any) -> tuple[str, str | None]:
        """Return the JSON text of an output, and that of the names of its types if there are several.

        Raises:
            CheckpointError: If the text would not be read as an equal output.
        """
        values = output if self._parallel else [output]
        names = [self._name_of(value) for value in values]
        pieces = [self._dumped(name, value) for name, value in zip(names, values, strict=True)]
        text = f"[{','.join(pieces)}]" if self._parallel else pieces[0]
        if len(self._types) < 2:
            return text, None
        return text, json.dumps(names if self._parallel else names[0])

    def decode(self, text: str, types: str | None) -> Any:
        """Return the output.

        Raises:
            ValueError: If it is not valid; `pydantic.ValidationError` is one.
        """
        only = next(iter(self._types))
        if not self._parallel:
            return self._read(only if types is None else json.loads(types), text)
        values = json.loads(text)
        names = [only] * len(values) if types is None else json.loads(types)
        return [self._read(name, json.dumps(value)) for name, value in zip(names, values, strict=True)]

    def _read(self, name: str, text: str) -> Any:
        if name not in self._adapters:
            raise ValueError(f"its type {name!r:.100} is none of the job's: {', '.join(self._adapters)}")
        return self._adapters[name].validate_json(text, by_alias=True, by_name=True, context=self._context)

    def _name_of(self, value: Any) -> str:
        """Return the name of the tool that made a value: several tools are the models of a union."""
        for name, kind in self._types.items():
            if type(value) is kind:
                return name
        return next(iter(self._types))

    def _dumped(self, name: str, value: Any) -> str:
        try:
            text = json_text(value, by_alias=False, round_trip=True)
            same = self._read(name, text)
        except ValueError as error:  # of Pydantic: it cannot be written, or what was written is not valid
            raise _not_restorable(name, f"{error}") from error
        # A lone surrogate is stored as U+FFFD: no reason to stop a job.
        if same != value and "�" not in text:
            raise _not_restorable(name, f"it would be {same!r:.200}")
        return text


def _not_restorable(name: str, why: str) -> CheckpointError:
    return CheckpointError(
        f"an output of {name} cannot be stored in the checkpoint, as it would not be equal when it is read: {why:.500}"
        ". Secret and excluded fields are not written, and a validator must accept its own result unchanged; "
        "without a checkpoint the job can be run as it is"
    )


def _output_type(tool: CallableTool) -> Any:
    """Return the type of a tool's output: that of a function is its return annotation."""
    found = output_type(tool)
    if found is inspect.Signature.empty:
        raise CheckpointError(
            f"{tool.name} has no return annotation: with a checkpoint it needs one, as stored outputs are validated "
            "by it when the job goes on. Annotate what it returns"
        )
    return found


def output_type(tool: CallableTool) -> Any:
    """Return the type of what a tool returns; `inspect.Signature.empty` for a function that does not name it."""
    function = tool.function or tool.async_function
    return tool.output_type if function is None else return_type(function)


def return_type(function: Callable[..., Any]) -> Any:
    """Return the return annotation of a function; `inspect.Signature.empty` if there is none."""
    try:
        return inspect.signature(function, eval_str=True).return_annotation
    except NameError:  # a name that exists for type checkers alone
        return inspect.Signature.empty
