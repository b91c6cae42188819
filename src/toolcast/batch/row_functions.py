"""`row_function`: a call as a picklable function of rows, for pandas, polars, Spark and Dask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, TypedDict, TypeVar

from typing_extensions import Unpack

from ..option_suggestions import refuse_unknown
from ..structured.orchestrator import ToolOrchestratingLLM
from .inputs import require_columns
from .outcome import Outcome
from .outcome_columns import OutcomeColumns, plain_row
from .portable_calls import CallOrFactory, PortableCall

T = TypeVar("T")


class RowOptions(TypedDict, total=False):
    """Options of `row_function`. Limits count for each process of the engine by itself.

    Attributes:
        prefix: Text in front of the names of the columns of outcomes. Default: none.
        max_concurrency: The number of rows at once. Default: it adapts to the service.
        rpm: Requests per minute.
        tpm: Tokens per minute.
    """

    prefix: str
    max_concurrency: int | None
    rpm: float | None
    tpm: float | None


def row_function(call: CallOrFactory[T], **options: Unpack[RowOptions]) -> RowFunction[T]:
    """Return a picklable function that makes `call` for rows of a data frame and returns the outcomes as columns.

    Args:
        call: The call, whose prompt's variables are names of columns; or a function without arguments that returns it,
            which runs in each process of the engine.
        **options: Options of the function.

    Raises:
        ImportError: pyarrow is not installed.

    Example:
        ```python
        find = batch.row_function(call)
        frame = find.frame(frame)  # pandas; Dask: frames.map_partitions(find.frame, meta=find.frame(frames._meta))
        table = find.table(table)  # Arrow; polars: pl.from_arrow(find.table(frame.to_arrow()))
        outcome = find({"text": "Ingrid lives in Bergen"})  # one row
        ```
    """
    return RowFunction(call, **options)


class RowFunction(Generic[T]):
    """A function of rows that makes one call for each; see `row_function`.

    A row that fails has its error in the columns. An error that every row would get, such as a missing key, is raised
    as `JobStopped`.
    """

    def __init__(self, call: CallOrFactory[T], **options: Unpack[RowOptions]) -> None:
        refuse_unknown("row_function", options, ("call", *RowOptions.__annotations__))
        self._portable = PortableCall(call)
        self._options = options
        self._made: OutcomeColumns | None = None

    def __repr__(self) -> str:
        return f"row_function({self._portable.call!r})"

    @property
    def schema(self) -> Any:
        """The `pyarrow.Schema` of the columns of an outcome."""
        return self._columns.schema

    def __call__(self, row: Any) -> dict[str, Any]:
        """Return the columns of the outcome of one row, without those of the row.

        Args:
            row: A mapping, a Series of pandas or a Row of Spark, with a value for each variable of the prompt.
        """
        (outcome,) = self._outcomes([plain_row(row)])
        return self._columns.row(outcome)

    def table(self, table: Any) -> Any:
        """Return a `pyarrow.Table` with the columns of the outcomes appended. The rows' requests overlap."""
        require_columns(table.column_names, self._call.prompt.variables)
        rows = table.select(list(self._call.prompt.variables)).to_pylist()
        return self._columns.append(table, self._outcomes(rows))

    def batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield each `pyarrow.RecordBatch` with the columns of the outcomes, for `mapInArrow` of Spark."""
        pyarrow = import_module("pyarrow")
        for batch in batches:
            yield from self.table(pyarrow.Table.from_batches([batch])).to_batches()

    def frame(self, frame: Any) -> Any:
        """Return a pandas DataFrame with the columns of the outcomes appended, and the same index.

        A frame without rows gets the columns too, and nothing is sent: it is the `meta` of Dask.
        """
        pandas = import_module("pandas")
        names = list(map(str, frame.columns))
        require_columns(names, self._call.prompt.variables)
        self._columns.require_free_names(names)
        rows = frame[list(self._call.prompt.variables)].to_dict("records")
        outcomes = self._columns.table(self._outcomes(rows)).to_pandas()
        return pandas.concat([frame, outcomes.set_index(frame.index)], axis="columns")

    @property
    def _call(self) -> ToolOrchestratingLLM[T]:
        return self._portable.call

    @property
    def _columns(self) -> OutcomeColumns:
        if self._made is None:
            self._made = OutcomeColumns(self._call, self._options.get("prefix", ""))
        return self._made

    def _outcomes(self, rows: Iterable[Mapping[str, Any]]) -> list[Outcome[T]]:
        """Return the outcomes of rows, in their order."""
        limits = {name: value for name, value in self._options.items() if name != "prefix"}
        options: Any = {**limits, "progress": False}
        return list(self._call.map(rows, **options))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_made": None}
