"""The columns of a table of outcomes: those of the inputs under their own names, then those of the outputs.

The columns of the inputs are those of the first one; what later ones have beyond them is left out. A column of the
outputs whose name is taken is `output.NAME`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pydantic
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

from ...plain_data import to_plain
from ...prompts import field_names
from ...structured.orchestrator import ToolOrchestratingLLM
from ..stored_outputs import output_type


class OutputColumns:
    """The columns of a call's outputs: one for each field of a model, otherwise one named `output`."""

    def __init__(self, call: ToolOrchestratingLLM[Any]) -> None:
        one = len(call.tools) == 1 and not call.allow_parallel_tool_calls
        self.fields: list[str] | None = _fields_of(output_type(call.tools[0])) if one else None

    def names(self, taken: Collection[str]) -> list[str]:
        """Return the names of the columns beside those that are `taken`."""
        return [f"output.{name}" if name in taken else name for name in self.fields or ("output",)]

    def values(self, output: Any) -> list[Any]:
        """Return the values of an output as JSON-compatible data, in the order of the columns."""
        plain = to_plain(output)
        return [plain] if self.fields is None else [plain.get(name) for name in self.fields]


def input_fields(input: object) -> dict[str, Any]:
    """Return the columns of an input with their values; one named `input` if it has no fields."""
    given: Any = input  # isinstance narrows the other name, not this one
    if isinstance(input, Mapping):
        return {str(name): value for name, value in given.items()}
    return {name: getattr(given, name) for name in field_names(given)} or {"input": given}


def _fields_of(kind: Any) -> list[str] | None:
    """Return the names of the fields that every value of a type has; None if it is not a type with fields."""
    try:
        schema = pydantic.TypeAdapter[Any](kind).json_schema(mode="serialization", by_alias=False)
    except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema):
        return None
    if "$ref" in schema:  # a recursive model
        schema = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    return [*schema.get("properties", ())] or None
