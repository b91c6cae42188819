"""`CSVFile`: outputs as a CSV file, with cells that no spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
import json
import os
from typing import Any, Final

from ...json_text import replace_surrogates
from ...structured.orchestrator import ToolOrchestratingLLM
from ..errors import JobError
from ..outcome import Outcome
from .columns import OutputColumns, input_fields
from .result_file import ResultFile
from .saved_results import IfExists

# A spreadsheet takes a cell that begins with one of these for a formula, which can run programs. The list is that of
# OWASP ("CSV Injection"); the last four are the full-width signs.
_FORMULA_SIGNS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class CSVFile(ResultFile):
    """Outputs as CSV in UTF-8: the index, the columns of the inputs, the columns of the outputs.

    Nested values are JSON text, and None is an empty cell. A text that begins with `=`, `+`, `-`, `@`, a tab or a line
    break gets an apostrophe in front; numbers stay as they are.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        call: ToolOrchestratingLLM[Any],
        if_exists: IfExists = "replace",
        delimiter: str = ",",
    ) -> None:
        super().__init__(path, if_exists)
        self._outputs = OutputColumns(call)
        self._delimiter = delimiter
        self._inputs: list[str] | None = None
        self._file = self.file.open()

    def write(self, outcome: Outcome[Any]) -> None:
        """Write an output, and before the first one the names of the columns."""
        inputs = input_fields(outcome.input)
        if self._inputs is None:
            self._inputs = [*inputs]
            self._begin(["index", *_input_names(inputs), *self._outputs.names({"index", *inputs})])
        cells = [outcome.index, *[inputs.get(name) for name in self._inputs], *self._outputs.values(outcome.output)]
        self._write_row(cells)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _begin(self, names: list[str]) -> None:
        stored: list[str] = []
        if self.file.appends:
            with self.file.path.open(encoding="utf-8", errors="replace", newline="") as file:
                stored = next(csv.reader(file, delimiter=self._delimiter), stored)
        if not stored:
            self._write_row(names)
        elif stored != [_cell(name) for name in names]:
            raise JobError(
                f"{self.file.path} has the columns {', '.join(stored):.300}, and the results {', '.join(names):.300}: "
                "append to a file of the same columns, or use another name"
            )

    def _write_row(self, cells: list[Any]) -> None:
        line = io.StringIO()  # with its usual line end, because of which the writer quotes every CR and LF
        csv.writer(line, delimiter=self._delimiter).writerow([_cell(cell) for cell in cells])
        self._file.write(replace_surrogates(line.getvalue().removesuffix("\r\n")).encode() + b"\n")
        self._file.flush()  # to the system: it survives the end of the process


def _input_names(inputs: dict[str, Any]) -> list[str]:
    return ["input.index" if name == "index" else name for name in inputs]


def _cell(value: Any) -> Any:
    """Return the content of a cell."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        text = value
    elif isinstance(value, (dict, list)):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value)
    return f"'{text}" if text.startswith(_FORMULA_SIGNS) else text
