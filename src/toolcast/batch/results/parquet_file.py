"""`ParquetFile`: outputs as a Parquet file, with a schema from the output type."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final

from ...json_text import json_text
from ...structured.orchestrator import ToolOrchestratingLLM
from ..arrow_schemas import ArrowOutput, import_pyarrow
from ..errors import JobError
from ..outcome import Outcome
from .result_file import ResultFile
from .saved_results import IfExists

_BATCH: Final = 1_000  # rows that are written at once
_OWN: Final = ("index", "key", "input")


class ParquetFile(ResultFile):
    """Outputs as Parquet: index, key, the input as JSON text, and a column for each field of the output type.

    The schema is that of `toolcast.batch.arrow_schemas`. Outputs without fields are one column `output`. A file that is
    killed while it is written cannot be read: its schema is at its end.

    Raises:
        ImportError: pyarrow is not installed.
        JobError: With `if_exists="append"`, which the format does not allow.
    """

    def __init__(
        self, path: str | os.PathLike[str], call: ToolOrchestratingLLM[Any], if_exists: IfExists = "replace"
    ) -> None:
        arrow = import_pyarrow()
        if if_exists == "append":
            raise JobError(f"{path}: nothing can be appended to a Parquet file; use another name, and read both files")
        self._arrow = arrow
        self._output = ArrowOutput(call.output_cls, many=call.allow_parallel_tool_calls)
        kind = self._output.type
        self._has_fields = bool(arrow.types.is_struct(kind))
        fields = [(field.name, field.type) for field in kind] if self._has_fields else [("output", kind)]
        outputs = [(f"output.{name}" if name in _OWN else name, type) for name, type in fields]
        own = [("index", arrow.int64()), ("key", arrow.string()), ("input", arrow.string())]
        self._schema = arrow.schema([*own, *outputs])
        self._rows: list[list[Any]] = []
        super().__init__(path, if_exists)
        self._writer = import_module("pyarrow.parquet").ParquetWriter(self.file.part, self._schema)

    def write(self, outcome: Outcome[Any]) -> None:
        """Write an output. Raise `ValueError` if a value does not fit its column."""
        encoded = self._output.encode(outcome.output)
        values = [*encoded.values()] if self._has_fields else [encoded]
        text = json_text(outcome.input, by_alias=False, fallback=str)
        self._rows.append([outcome.index, outcome.key, text, *values])
        if len(self._rows) >= _BATCH:
            self._flush()

    def close(self) -> None:
        """Write the last rows and the schema, and close the file."""
        try:
            self._flush()
        finally:
            self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            columns = [
                self._arrow.array(values, type=field.type)
                for values, field in zip(zip(*rows, strict=True), self._schema, strict=True)
            ]
            self._writer.write_table(self._arrow.Table.from_arrays(columns, schema=self._schema))
