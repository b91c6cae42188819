"""`ResultFile`: the outputs of a job in a file, and its errors in a file of their own.

While the job runs, the file is `NAME.part`, to which each outcome is written when it comes; at the end of the job it is
renamed. So a file with its own name is complete, and after an early end nothing that was paid for is lost.

The columns of a table of outcomes: those of the inputs under their own names, then those of the outputs.

The columns of the inputs are those of the first one; what later ones have beyond them is left out. A column of the
outputs whose name is taken is `output.NAME`.

`SavedResults`: the files that a job has written, and what happens to existing ones.

`CSVFile`: outputs as a CSV file, with cells that no spreadsheet takes for a formula.

`ParquetFile`: outputs as a Parquet file, with a schema from the output type.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias

import pydantic
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

from ..errors import error_to_dict
from ..lazy.lazy_dataclasses import dataclass
from ..prompts import field_names
from ..structured.orchestrator import ToolOrchestratingLLM
from ..text.json_text import json_text, replace_surrogates
from ..values.html_repr import table
from ..values.plain_data import to_plain
from ..values.usage import NO_USAGE, Usage
from .arrow_schemas import ArrowOutput, import_pyarrow
from .input_files import ERRORS_SUFFIX
from .job_errors import JobError
from .outcome import Outcome
from .stored_outputs import output_type


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


IfExists: TypeAlias = Literal["error", "replace", "append"]


@dataclass(frozen=True, slots=True)
class SavedResults:
    """The files that a job has written.

    Attributes:
        path: The file of the outputs.
        errors: The file of the errors, from which the failed items can be run again; None if there were none.
        done: The number of outputs.
        failed: The number of errors.
        usage: The tokens and the cost of all items.
        first_error: The first error; None if there were none.
    """

    path: Path
    errors: Path | None
    done: int
    failed: int
    usage: Usage = NO_USAGE
    first_error: Exception | None = None

    def __str__(self) -> str:
        failed = f", {self.failed} errors in {self.errors}" if self.failed else ""
        return f"{self.done} outputs in {self.path}{failed}; {self.usage.describe()}"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        rows = [
            ("path", str(self.path)),
            ("done", self.done),
            ("errors", None if self.errors is None else str(self.errors)),
            ("failed", self.failed or None),
            ("first error", None if self.first_error is None else str(self.first_error)),
            ("usage", self.usage.describe()),
        ]
        return table("SavedResults", rows)


class PartFile:
    """A file that has the name `NAME.part` until it is complete. A link is followed; a device or a pipe is written to.

    Args:
        path: The name of the complete file.
        if_exists: For a complete file, or one that an earlier job has left incomplete: `"error"`, `"replace"`, or
            `"append"`, by which the complete file is copied first.

    Raises:
        FileExistsError: If there is such a file, with `"error"`.
        IsADirectoryError: If it is a folder.
        PermissionError: If its folder cannot be written to.
    """

    def __init__(self, path: Path, if_exists: IfExists) -> None:
        self.path = path
        self.target: Path = path.resolve() if path.is_symlink() else path
        self.part: Path = self.target.with_name(f"{self.target.name}.part")
        self.appends: bool = False
        if self.target.is_dir():
            raise IsADirectoryError(f"{path} is a folder: name a file in it")
        self.is_stream: bool = self.target.exists() and not self.target.is_file()
        if self.is_stream:
            self.part = self.target
            return
        if if_exists == "error" and path.exists():
            raise FileExistsError(
                f'{path} exists: if_exists="replace" replaces it, if_exists="append" adds to it; or use another name'
            )
        if if_exists != "replace" and self.part.exists():
            raise FileExistsError(
                f"{self.part} has the results of a job that did not end: move it to another name to keep them, or "
                "delete it"
            )
        self.target.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(self.target.parent, os.W_OK):
            raise PermissionError(f"{path}: its folder cannot be written to; use another one")
        self.appends = if_exists == "append" and path.exists()
        if self.appends:
            shutil.copyfile(path, self.part)

    def open(self) -> IO[bytes]:
        """Open the incomplete file for writing, at the start of a line."""
        file = self.part.open("ab+" if self.appends else "wb")
        if self.appends and (size := file.seek(0, os.SEEK_END)):
            file.seek(size - 1)
            if file.read(1) != b"\n":
                file.write(b"\n")
        return file

    def complete(self) -> None:
        """Give the file its name, with its contents on the disk."""
        if self.is_stream:
            return
        with self.part.open("rb+") as file:
            os.fsync(file.fileno())
        self.part.replace(self.target)

    def remove(self, *, complete: bool) -> None:
        """Delete what is there of the file: the incomplete one, and the `complete` one."""
        if not self.is_stream:
            for path in (self.part, *([self.target] if complete else [])):
                path.unlink(missing_ok=True)


class ResultFile(ABC):
    """A file of outputs. Subclasses define its format.

    Args:
        path: The file.
        if_exists: What happens to a file of the same name.
    """

    def __init__(self, path: str | os.PathLike[str], if_exists: IfExists) -> None:
        self.file: PartFile = PartFile(Path(path), if_exists)

    @abstractmethod
    def write(self, outcome: Outcome[Any]) -> None:
        """Write an outcome that has an output. Raise `ValueError` if it does not fit the format."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class JSONLinesFile(ResultFile):
    """Outcomes as JSON, one on each line: index, key, input, output or error, attempts, tokens, cost and seconds."""

    def __init__(self, path: str | os.PathLike[str], if_exists: IfExists = "replace") -> None:
        super().__init__(path, if_exists)
        self._file = self.file.open()

    def write(self, outcome: Outcome[Any], error: Exception | None = None) -> None:
        """Write an outcome, or with an `error` the outcome that does not fit another format."""
        self._file.write(f"{outcome_json(outcome, error)}\n".encode())
        self._file.flush()  # to the system: it survives the end of the process

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def outcome_json(outcome: Outcome[Any], error: Exception | None = None) -> str:
    """Return an outcome as a line of JSON, with `error` in place of its own."""
    usage = outcome.usage
    record: dict[str, Any] = {"index": outcome.index, "key": outcome.key, "input": outcome.input}
    if outcome.error is None:
        record["output"] = outcome.output
    if failure := error or outcome.error:
        record["error"] = error_to_dict(failure)
    record |= {
        "attempts": outcome.attempts,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": None if usage.cost is None else str(usage.cost),
        "seconds": round(outcome.seconds, 3),
    }
    return _to_json(record)


def _to_json(record: dict[str, Any]) -> str:
    try:
        return json_text(record, by_alias=False, fallback=str)
    except ValueError:  # bytes that are no text
        return json_text(record, by_alias=False, fallback=str, bytes_mode="base64")


def save_outcomes(
    outcomes: Iterable[Outcome[Any]], file: ResultFile, errors: str | os.PathLike[str] | None = None
) -> SavedResults:
    """Write all outcomes to `file`, and those with an error to a file of their own.

    Args:
        outcomes: The outcomes. The file is complete at their end; if they end with an exception, what was written is in
            `NAME.part`, which a note of the exception names.
        file: The file, which is closed.
        errors: The file of the errors. Default: the name of the file and `.errors.jsonl`. It is only there if there are
            errors.
    """
    path = file.file.path
    errors_path = path.with_name(f"{path.name}{ERRORS_SUFFIX}") if errors is None else Path(errors)
    failures: JSONLinesFile | None = None
    done, failed, usage = 0, 0, NO_USAGE
    first_error: Exception | None = None
    try:
        try:
            earlier = PartFile(errors_path, "replace")  # checked before anything is sent
            if earlier.target.resolve() == file.file.target.resolve() and not earlier.is_stream:
                raise ValueError(f"errors={str(errors)!r} is the file of the outputs: use another name")
            for outcome in outcomes:
                usage += outcome.usage
                error = outcome.error or _write(file, outcome)
                if error is None:
                    done += 1
                    continue
                failures = failures or JSONLinesFile(errors_path)
                failures.write(outcome, error)
                failed += 1
                first_error = first_error or error
        finally:
            for each in (file, failures):
                if each is not None:
                    each.close()
    except BaseException as error:
        parts = [file.file, *([] if failures is None else [failures.file])]
        if done or failed:
            where = " and ".join(str(one.part) for one in parts)
            error.add_note(f"The outcomes until then, {done} outputs and {failed} errors, are in {where}")
        else:
            for one in parts:
                one.remove(complete=False)
        raise
    file.file.complete()
    if failures is not None:
        failures.file.complete()
    else:
        earlier.remove(complete=True)  # of a run in which some items had failed
    return SavedResults(path, None if failures is None else errors_path, done, failed, usage, first_error)


def _write(file: ResultFile, outcome: Outcome[Any]) -> ValueError | None:
    """Write an output; return the error if it does not fit the format of the file."""
    try:
        file.write(outcome)
    except ValueError as error:
        return error
    return None


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
