"""The inputs of a job: values for the variables of a prompt, from many kinds of sources, read one by one.

An input is a mapping, a dataclass, a Pydantic model or a named tuple with a field for each variable; further fields are
not used. For a prompt with one variable it can also be the value itself. A source is an iterable or async iterable of
inputs, a DataFrame, or the path of a file.

A sample of a job's inputs.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os import PathLike
from typing import Any, TypeAlias, cast

from ..errors import PromptError
from ..lazy.lazy_dataclasses import dataclass
from ..prompts import input_values
from .input_files import BadRow, FileRows, read_file
from .job_errors import JobError


def spread(rows: Iterator[Any], total: int | None, count: int) -> list[tuple[int, Any]]:
    """Return `count` of the rows with their indexes: spread evenly if their `total` is known, else the first ones."""
    if total is None or total <= count:
        return list(enumerate(islice(rows, count)))
    # The middle of each of as many equal parts: the first and the last rows of a file are often unlike the others.
    wanted = {(2 * part + 1) * total // (2 * count) for part in range(count)}
    return [(index, row) for index, row in enumerate(islice(rows, max(wanted) + 1)) if index in wanted]


Inputs: TypeAlias = Iterable[Any] | AsyncIterable[Any] | PathLike[str]
"""A source of inputs: an iterable or async iterable, a DataFrame, or a path with the suffix of its format."""


@dataclass(slots=True)
class InputRow:
    """One input that was read.

    Attributes:
        index: Its position, from 0.
        input: The input as it was passed.
        values: The values of the prompt's variables.
        error: The error of an input that could not be read.
        key: The key of the item.
        digest: A hash of the values, for items that are asked once; else empty.
    """

    index: int
    input: Any
    values: Mapping[str, Any]
    error: Exception | None = None
    key: str = ""
    digest: bytes = b""


def open_inputs(source: Inputs, variables: Sequence[str] = ()) -> Iterator[Any] | AsyncIterator[Any]:
    """Return an iterator over the inputs of `source`.

    Args:
        source: The inputs.
        variables: The variables of the prompt, which the columns of a file or DataFrame must have.

    Raises:
        JobError: A column is missing.
        TypeError: `source` is not iterable, or it is one text or one mapping.
        FileError: `source` is a path with a suffix of no known format.
    """
    if isinstance(source, (str, bytes)):
        raise TypeError("inputs: expected an iterable of inputs, got one text; pass a list, or pathlib.Path for a file")
    if isinstance(source, Mapping):
        raise TypeError("inputs: expected an iterable of inputs, got one mapping; pass a list of mappings")
    if isinstance(source, PathLike):
        source = read_file(source)
    if isinstance(source, FileRows):
        if (names := source.column_names()) is not None:
            require_columns(names, variables, str(source.path))
        return iter(source)
    if hasattr(source, "columns"):
        rows = _table_rows(source)
        if names := _column_names(source):  # an empty list of records makes a DataFrame without columns
            require_columns(names, variables, "the DataFrame")
        return rows
    if isinstance(source, AsyncIterable):
        return aiter(source)
    if hasattr(source, "__iter__") or hasattr(source, "__getitem__"):
        return iter(source)
    kind = type(source).__name__
    raise TypeError(f"inputs: expected an iterable, an async iterable, a DataFrame or a path, got {kind}")


def length_of(source: Inputs) -> int | None:
    """Return the number of inputs of `source` if it is known without reading them."""
    length = getattr(read_file(source) if isinstance(source, PathLike) else source, "__len__", None)
    return None if length is None else int(length())


def _table_rows(table: Any) -> Iterator[dict[str, Any]]:
    """Return an iterator over the rows of a DataFrame of pandas or polars, as mappings."""
    if hasattr(table, "iter_rows"):  # polars
        return cast("Iterator[dict[str, Any]]", table.iter_rows(named=True))
    if not hasattr(table, "itertuples"):
        raise TypeError(
            f"inputs: expected a DataFrame of pandas or polars, got {type(table).__name__}; pass a list of mappings"
        )
    names = _column_names(table)
    return (
        {name: None if _is_missing(value) else value for name, value in zip(names, row, strict=True)}
        for row in table.itertuples(index=False, name=None)
    )


def _column_names(table: Any) -> list[str]:
    return [str(name) for name in table.columns]


def require_columns(names: Iterable[str], variables: Iterable[str], source: str = "the inputs") -> None:
    """Raise `JobError` if a variable of the prompt is not among the columns of `source`: every row would fail."""
    found = list(names)
    missing = [name for name in variables if name not in found]
    if not missing:
        return
    from difflib import get_close_matches  # for errors alone

    columns = {name.casefold(): name for name in found}
    near = get_close_matches(missing[0].casefold(), columns, 1)
    suggestion = f"; did you mean {columns[near[0]]!r}?" if near else "."
    listed = ", ".join(map(repr, found)) or "none"
    raise JobError(
        f"{source}: no column {', '.join(map(repr, missing))}, which the prompt needs{suggestion} "
        f"The columns are: {listed:.1000}. Rename a column, or the variable of the prompt."
    )


def _is_missing(value: object) -> bool:
    """Return whether `value` is one of pandas' missing values: NaN, NaT or NA."""
    if isinstance(value, float):
        return value != value  # only NaN differs from itself
    return type(value).__name__ in ("NAType", "NaTType")


def read_row(index: int, input: Any, variables: Sequence[str]) -> InputRow:
    """Return the row of one input, with the values of the prompt's `variables` or the error that they are missing."""
    if isinstance(input, BadRow):
        return InputRow(index, input.input, {}, input.error)
    try:
        return InputRow(index, input, input_values(input, variables))
    except PromptError as error:
        return InputRow(index, input, {}, error)
