"""The rows of `toolcast map`: files and standard input, and the columns that a prompt takes from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias, cast

from pydantic_core import from_json

from ...batch.bad_rows import BadRow
from ...batch.files import FileRows, read_csv, read_file, read_jsonl, read_parquet
from ...errors import ToolcastError
from ...lazy_dataclasses import dataclass
from ...prompts import RESERVED, PromptTemplate
from ..command_parser import suggestion

InputFormat: TypeAlias = Literal["csv", "tsv", "jsonl", "lines", "parquet"]

_TEXT: Final = "text"
_BRACES: Final = re.compile(r"\{\{|\}\}|\{text\}")
_LONGEST_LINE: Final = 1 << 24  # bytes, as in files


class TextLines(FileRows):
    """The lines of a text file, without empty ones."""

    def __iter__(self) -> Iterator[Any]:
        with self.path.open("rb") as file:
            yield from read_lines(file, "lines", str(self.path))


def open_rows(path: Path, format: InputFormat | None) -> FileRows:
    """Return the rows of a file, by its suffix or in the given format. `.txt` and `.log` are lines.

    Raises:
        ToolcastError: The suffix is unknown.
    """
    match format:
        case "csv":
            return read_csv(path)
        case "tsv":
            return read_csv(path, delimiter="\t")
        case "jsonl":
            return read_jsonl(path)
        case "parquet":
            return read_parquet(path)
        case "lines":
            return TextLines(path)
        case _:
            return TextLines(path) if path.suffix.lower() in (".txt", ".log") else read_file(path)


def read_lines(stream: IO[bytes], format: InputFormat, name: str) -> Iterator[Any]:
    """Yield each line of a stream: its text, or with the format jsonl its JSON value; empty lines are skipped.

    A line that is not JSON or too long is a `BadRow`.
    """
    number = 0
    while line := stream.readline(_LONGEST_LINE + 1):
        number += 1
        if len(line) > _LONGEST_LINE:
            yield _bad_line(line, f"{name}, line {number}: the line has more than {_LONGEST_LINE:,} bytes")
            while line and not line.endswith(b"\n"):
                line = stream.readline(_LONGEST_LINE)
            continue
        text = line.decode("utf-8-sig" if number == 1 else "utf-8", "replace").strip()
        if not text:
            continue
        if format != "jsonl":
            yield text
            continue
        try:
            yield from_json(text)
        except ValueError as error:
            yield _bad_line(line, f"{name}, line {number}: expected JSON: {error}")


def _bad_line(line: bytes, message: str) -> BadRow:
    return BadRow(line[:1000].decode("utf-8", "replace").rstrip(), ToolcastError(message))


class CountedRows(Iterable[Any]):
    """The rows of a file, with their number, for progress and estimates: the file is read once more to count them."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows = rows
        self._count: int | None = None

    def __len__(self) -> int:
        if self._count is None:
            self._count = len(self._rows) if isinstance(self._rows, Sized) else sum(1 for _ in self._rows)
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)


@dataclass(frozen=True, slots=True)
class PromptColumns:
    """The prompt template of a map, and the column that is its `{text}`.

    Attributes:
        prompt: The template, with names of columns as variables.
        added: The column that rows get as `text`, because its name cannot be a variable; None if there is none.
    """

    prompt: str
    added: str | None = None

    def rows(self, rows: Iterable[Any]) -> Iterable[Any]:
        """Return the rows as inputs of the call."""
        return rows if self.added is None else _RowsWithText(rows, self.added)


class _RowsWithText(Iterable[Any]):
    def __init__(self, rows: Iterable[Any], column: str) -> None:
        self._rows = rows
        self._column = column

    def __iter__(self) -> Iterator[Any]:
        for row in self._rows:
            yield row if isinstance(row, BadRow) else {**row, _TEXT: row[self._column]} if self._column in row else row


def first_of(rows: Iterable[Any], source: str) -> tuple[Any, Iterable[Any]]:
    """Return the first row that could be read, and all rows; a file is opened anew, a stream continues.

    Raises:
        ToolcastError: There are no rows.
    """
    read: list[Any] = []
    iterator = iter(rows)
    for row in iterator:
        read.append(row)
        if not isinstance(row, BadRow):
            return row, rows if iterator is not rows else chain(read, iterator)
    if read:
        raise ToolcastError(f"{source}: no row could be read: {read[0].error}")
    raise ToolcastError(f"{source} has no rows")


def plan_columns(prompt: str, column: str | None, row: Any, source: str) -> PromptColumns:
    """Return the template for rows such as `row`.

    `{text}` is the column of `--column`, or the one called `text`, or the only one. Other variables are columns.

    Raises:
        ToolcastError: A column is missing, or `--column` has to choose one.
        PromptError: The prompt is not a template.
    """
    variables = PromptTemplate(prompt).variables
    if not isinstance(row, Mapping):
        if column is not None:
            raise ToolcastError(f"--column {column}: the rows of {source} are texts without columns; leave it out")
        if wrong := [name for name in variables if name != _TEXT]:
            raise ToolcastError(f"--prompt: the rows of {source} are texts, and {{{wrong[0]}}} is not {{text}}")
        return PromptColumns(prompt)
    columns = [str(name) for name in cast("Mapping[str, Any]", row)]
    for name in (column, *(variable for variable in variables if variable != _TEXT)):
        if name is not None and name not in columns:
            near = suggestion(name, columns)
            listed = f"{' It' if near else '; it'} has: {', '.join(columns):.1000}"
            raise ToolcastError(f"{source} has no column {name!r}{near}{listed}")
    if _TEXT not in variables:
        return PromptColumns(prompt)
    chosen = column or (_TEXT if _TEXT in columns else columns[0] if len(columns) == 1 else None)
    if chosen is None:
        raise ToolcastError(
            f"{source} has the columns {', '.join(columns)}: choose the one with the text by --column, or write a "
            f"--prompt with placeholders such as {{{columns[0]}}}"
        )
    if chosen == _TEXT:
        return PromptColumns(prompt)
    if not chosen.isidentifier() or chosen in RESERVED:
        return PromptColumns(prompt, added=chosen)
    return PromptColumns(_BRACES.sub(lambda found: f"{{{chosen}}}" if found[0] == "{text}" else found[0], prompt))
