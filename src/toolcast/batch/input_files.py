"""Files as inputs of a job, read row by row: CSV, JSON Lines, Parquet, and the errors of an earlier job.

A row that cannot be read is a `BadRow`, and the rows after it are read: invalid UTF-8, another number of columns,
broken JSON, a row that is too long. Memory is bounded by the longest row that is accepted, whatever the file contains.
A file that cannot be read at all is a `FileError`. Each iteration reads the file from its start.

`BadRow`: an input that could not be read.
"""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from abc import abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final, cast

from pydantic_core import from_json

from ..lazy.lazy_dataclasses import dataclass
from .arrow_schemas import import_pyarrow
from .job_errors import JobError


@dataclass(frozen=True, slots=True)
class BadRow:
    """An input that could not be read: its item gets an outcome with the error, and nothing is sent.

    Attributes:
        input: The text of the row, perhaps shortened.
        error: The error.
    """

    input: Any
    error: Exception


LONGEST_ROW: Final = 1 << 24  # bytes
_SHOWN: Final = 1_000  # characters of a bad row that are kept
_BATCH: Final = 1_000  # rows of a Parquet file that are decoded at once
_UTF8_BOM: Final = b"\xef\xbb\xbf"
_UTF16_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")
ERRORS_SUFFIX: Final = ".errors.jsonl"


class FileError(JobError):
    """The error for a file of inputs that cannot be read. The outcomes of the rows before it are returned first."""


class RowError(JobError, ValueError):
    """The error of one row that cannot be read. Nothing is sent for it."""


class FileRows(Iterable[Any]):
    """The rows of the file at `path`, which is opened anew by each iteration."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    @abstractmethod
    def __iter__(self) -> Iterator[Any]:
        """Read the file from its start."""

    def column_names(self) -> list[str] | None:
        """Return the names of the columns in the file's header; None if it has none, or cannot be read twice.

        Raises:
            FileError: The header cannot be read.
        """
        return None


def read_file(path: str | os.PathLike[str]) -> FileRows:
    """Return the rows of a file by its suffix: `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.parquet`; texts also with `.gz`.

    A name that ends with `.errors.jsonl` is read by `read_errors`.

    Raises:
        FileError: For another suffix.
    """
    name = Path(path).name.lower().removesuffix(".gz")
    if name.endswith(ERRORS_SUFFIX):
        return read_errors(path)
    for suffixes, read in _READERS:
        if name.endswith(suffixes):
            return read(path)
    raise FileError(
        f"{path}: expected a file with the suffix .csv, .tsv, .jsonl, .ndjson or .parquet; for another name call "
        "toolcast.batch.read_csv, read_jsonl or read_parquet with it"
    )


def read_csv(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    longest_row: int = LONGEST_ROW,
) -> FileRows:
    """Return the rows of a CSV file as dicts of texts, by the names in its first row.

    Args:
        path: The file; `.gz` is decompressed.
        delimiter: One character. Default: a tab in a `.tsv` file, else the one of `,`, `;` and tab that the first row
            has.
        encoding: The encoding, one in which ASCII is ASCII. Default: UTF-8, with or without a byte order mark.
        longest_row: The limit on a row, in bytes. Default: 16 MiB.

    Returns:
        The rows, which can be iterated more than once. A row that is invalid is a `BadRow`.
    """
    if delimiter is None and Path(path).name.lower().removesuffix(".gz").endswith(".tsv"):
        delimiter = "\t"
    return _CSVRows(path, delimiter, encoding, longest_row)


def read_jsonl(path: str | os.PathLike[str], *, longest_row: int = LONGEST_ROW) -> FileRows:
    """Return the rows of a JSON Lines file: any JSON value on each line. Blank lines are skipped.

    Args:
        path: The file, in UTF-8; `.gz` is decompressed.
        longest_row: The limit on a line, in bytes. Default: 16 MiB.

    Returns:
        The rows, which can be iterated more than once. A line that is invalid is a `BadRow`.
    """
    return _JSONRows(path, longest_row)


def read_errors(path: str | os.PathLike[str], *, longest_row: int = LONGEST_ROW) -> FileRows:
    """Return the inputs of the failed items in the errors file of an earlier job.

    Args:
        path: The file, as `job.to_jsonl` and the like write it.
        longest_row: The limit on a line, in bytes. Default: 16 MiB.

    Returns:
        The inputs, which can be iterated more than once. A line without an input is a `BadRow`.
    """
    return _ErrorRows(path, longest_row)


def read_parquet(path: str | os.PathLike[str], *, columns: Sequence[str] | None = None) -> FileRows:
    """Return the rows of a Parquet file as dicts. Needs `pip install 'toolcast[parquet]'`.

    Args:
        path: The file.
        columns: The columns that are read. Default: all.

    Returns:
        The rows, which can be iterated more than once; `len()` is their number.

    Raises:
        ImportError: pyarrow is not installed.
    """
    import_pyarrow()
    return _ParquetRows(path, columns)


_READERS: Final = (
    ((".csv", ".tsv"), read_csv),
    ((".jsonl", ".ndjson"), read_jsonl),
    ((".parquet",), read_parquet),
)


class _TextRows(FileRows):
    """The rows of a text file."""

    def __init__(self, path: str | os.PathLike[str], longest_row: int) -> None:
        super().__init__(path)
        self._longest_row = longest_row

    def __iter__(self) -> Iterator[Any]:
        with closing(self._open()) as file:
            yield from self._rows(self._lines(file))

    @abstractmethod
    def _rows(self, lines: Iterator[bytes]) -> Iterator[Any]:
        """Return an iterator over the rows in `lines`."""

    def _open(self) -> IO[bytes]:
        if self.path.suffix.lower() == ".gz":
            return cast("IO[bytes]", gzip.open(self.path, "rb"))
        return self.path.open("rb")

    def _lines(self, file: IO[bytes]) -> Iterator[bytes]:
        """Return an iterator over the lines; of one that is too long, the beginning with more bytes than the limit."""
        number = 0
        try:
            while line := file.readline(self._longest_row + 1):
                number += 1
                if number == 1:
                    line = self._without_bom(line)
                if len(line) > self._longest_row:
                    _skip_line(file, line)
                yield line
        except (EOFError, zlib.error, OSError) as error:
            raise FileError(
                f"{self.path} cannot be read after line {number}: {error}. Is it complete, and not damaged?"
            ) from error

    def _without_bom(self, line: bytes) -> bytes:
        if line.startswith(_UTF16_BOMS):
            raise FileError(f"{self.path} is UTF-16: convert it to UTF-8, for example with iconv")
        return line.removeprefix(_UTF8_BOM)

    def _bad_row(self, line: bytes, number: int, why: str) -> BadRow:
        text = line[: 4 * _SHOWN].decode("utf-8", "replace").rstrip("\r\n")[:_SHOWN]
        return BadRow(text, RowError(f"{self.path}, line {number}: {why}"))


def _skip_line(file: IO[bytes], line: bytes) -> None:
    """Read to the end of a line of which `line` is the beginning."""
    while line and not line.endswith(b"\n"):
        line = file.readline(1 << 16)


class _JSONRows(_TextRows):
    """The values of a JSON Lines file."""

    def _rows(self, lines: Iterator[bytes]) -> Iterator[Any]:
        for number, line in enumerate(lines, 1):
            if len(line) > self._longest_row:
                yield self._bad_row(line, number, f"the line has more than {self._longest_row:,} bytes")
            elif not line.isspace():
                yield self._value(line, number)

    def _value(self, line: bytes, number: int) -> Any:
        try:
            return from_json(line)
        except ValueError as error:
            return self._bad_row(line, number, f"expected JSON: {error}")


class _ErrorRows(_JSONRows):
    """The inputs in an errors file."""

    def _value(self, line: bytes, number: int) -> Any:
        value = super()._value(line, number)
        if isinstance(value, BadRow):
            return value
        if isinstance(value, dict) and "input" in value and "error" in value:
            return cast("dict[str, Any]", value)["input"]
        return self._bad_row(line, number, "expected an object with `input` and `error`, as in an errors file")


class _CSVRows(_TextRows):
    """The rows of a CSV file."""

    def __init__(self, path: str | os.PathLike[str], delimiter: str | None, encoding: str, longest_row: int) -> None:
        super().__init__(path, longest_row)
        if "a,".encode(encoding) != b"a,":
            raise ValueError(f"encoding={encoding!r}: expected one in which ASCII is ASCII; convert the file to UTF-8")
        self._delimiter = delimiter
        self._encoding = encoding

    def column_names(self) -> list[str] | None:
        """Return the names of the columns in the first row; None if the path is no file, but a pipe, or missing."""
        if not self.path.is_file():
            return None
        with closing(self._open()) as file:
            return self._header(self._records(self._lines(file)))

    def _rows(self, lines: Iterator[bytes]) -> Iterator[Any]:
        records = self._records(lines)
        names = self._header(records)
        for fields, error in records:
            if error is None and len(fields) != len(names):
                error = f"expected {len(names)} columns as in the first row, got {len(fields)}"
            if error is None:
                yield dict(zip(names, fields, strict=True))
            else:
                yield self._bad_row(b"".join(records.lines), records.number, error)

    def _records(self, lines: Iterator[bytes]) -> _Records:
        first = next(lines, None)
        if first is None:
            raise FileError(f"{self.path} is empty: expected a first row with the names of the columns")
        records = _Records(lines, self._encoding, self._longest_row, self._delimiter or _delimiter_of(first))
        records.put_back([first])
        return records

    def _header(self, records: _Records) -> list[str]:
        nothing: tuple[list[str], str | None] = ([], "expected a first row with the names of the columns")
        fields, error = next(records, nothing)
        names = [field.strip() or f"column_{number}" for number, field in enumerate(fields, 1)]
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if twice:
            error = f"the column {twice[0]!r:.100} is there twice: rename one"
        if error is not None:
            raise FileError(f"{self.path}, line {records.number}: {error}")
        return names


def _delimiter_of(header: bytes) -> str:
    return next((sign for sign in (",", ";", "\t") if sign.encode() in header), ",")


class _Records:
    """The records of a CSV file, each with its fields and an error.

    `csv.reader` reads lines until a record is complete. If that fails, the first of these lines is the bad row, and
    reading goes on with the second: one quote that is not closed does not swallow the rest of the file.
    """

    def __init__(self, lines: Iterator[bytes], encoding: str, longest: int, delimiter: str) -> None:
        self._lines = lines
        self._encoding = encoding
        self._longest = longest
        self._delimiter = delimiter
        self._put_back: deque[bytes] = deque()
        self._size = 0
        self._wide = False
        self.lines: list[bytes] = []  # of the current record
        self.number = 0  # of its first line
        self._reader = self._new_reader()

    def put_back(self, lines: Iterable[bytes]) -> None:
        """Return `lines` to the input."""
        self._put_back.extendleft(reversed([*lines]))

    def __iter__(self) -> Iterator[tuple[list[str], str | None]]:
        return self

    def __next__(self) -> tuple[list[str], str | None]:
        fields: list[str] = []
        while not fields:  # blank lines are no records
            self.number += len(self.lines) or not self.number
            self.lines, self._size = [], 0
            try:
                fields = next(self._reader)
            except csv.Error as error:
                return [], self._failed(str(error))
            except _RowTooLong:
                return [], self._failed(f"the row has more than {self._longest:,} bytes; is a quote not closed?")
            finally:
                self._restore_limit()
        return fields, self._invalid_text(fields)

    def _failed(self, error: str) -> str:
        self.put_back(self.lines[1:])
        del self.lines[1:]
        self._reader = self._new_reader()
        return f"expected CSV: {error}"

    def _invalid_text(self, fields: list[str]) -> str | None:
        for field in fields:
            if not field.isascii():
                try:
                    field.encode()
                except UnicodeEncodeError:  # what could not be decoded is a surrogate
                    return f"the text is not valid {self._encoding}"
        return None

    def _new_reader(self) -> Iterator[list[str]]:
        return csv.reader(self._texts(), delimiter=self._delimiter, strict=True)

    def _texts(self) -> Iterator[str]:
        while True:
            line = self._put_back.popleft() if self._put_back else next(self._lines, None)
            if line is None:
                return
            self.lines.append(line)
            self._size += len(line)
            if self._size > self._longest:
                raise _RowTooLong
            if self._size > _USUAL_FIELD and not self._wide:
                self._wide = True
                _field_limit.widen()
            yield line.decode(self._encoding, "surrogateescape")

    def _restore_limit(self) -> None:
        if self._wide:
            self._wide = False
            _field_limit.restore()


class _RowTooLong(Exception):
    """The exception that ends a record which is longer than the limit."""


class _FieldLimit:
    """The limit of the csv module on a field, 128 KiB, which is one of the process.

    It is lifted while a record that is longer is read, in any thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._usual = 0

    def widen(self) -> None:
        """Lift the limit."""
        with self._lock:
            if not self._users:
                self._usual = csv.field_size_limit(2**31 - 1)  # the largest one on Windows
            self._users += 1

    def restore(self) -> None:
        """Set the limit again if no other thread needs it lifted."""
        with self._lock:
            self._users -= 1
            if not self._users:
                csv.field_size_limit(self._usual)


_USUAL_FIELD: Final = 1 << 16
_field_limit: Final = _FieldLimit()


class _ParquetRows(FileRows):
    """The rows of a Parquet file."""

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[str] | None) -> None:
        super().__init__(path)
        self._columns = None if columns is None else list(columns)

    def __len__(self) -> int:
        with self._opened() as file:
            return int(file.metadata.num_rows)

    def column_names(self) -> list[str] | None:
        """Return the names of the columns that are read."""
        with self._opened() as file:
            return self._columns or list(file.schema_arrow.names)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self._opened() as file:
            batches = file.iter_batches(batch_size=_BATCH, columns=self._columns)
            while True:
                with self._failures():
                    rows = next((batch.to_pylist() for batch in batches), None)
                if rows is None:
                    return
                yield from rows

    @contextmanager
    def _opened(self) -> Generator[Any]:
        import_pyarrow()
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no file {self.path}")
        with self._failures():
            file: Any = import_module("pyarrow.parquet").ParquetFile(self.path)
            missing = [name for name in self._columns or () if name not in file.schema_arrow.names]
        with file:
            if missing:
                raise FileError(
                    f"{self.path} has no column {missing[0]!r:.100}; it has: {', '.join(file.schema_arrow.names):.500}"
                )
            yield file

    @contextmanager
    def _failures(self) -> Generator[None]:
        try:
            yield
        except (import_pyarrow().ArrowException, OSError) as error:
            raise FileError(f"{self.path} cannot be read as Parquet: {error}") from error
