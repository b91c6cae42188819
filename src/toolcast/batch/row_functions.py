"""`row_function`: a call as a picklable function of rows, for pandas, polars, Spark and Dask.

`PortableCall`: a structured call that is sent to other processes without its credentials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, TypeAlias, TypedDict, TypeVar, cast

from typing_extensions import Unpack

from ..llms.client import client_of
from ..llms.function_calling_llm import FunctionCallingLLM
from ..structured.orchestrator import ToolOrchestratingLLM
from ..values.option_suggestions import refuse_unknown
from ..values.option_types import require_callable
from .inputs import require_columns
from .job_errors import JobError
from .outcome import Outcome
from .outcome_columns import OutcomeColumns, plain_row

T = TypeVar("T")

CallOrFactory: TypeAlias = ToolOrchestratingLLM[T] | Callable[[], ToolOrchestratingLLM[T]]
"""A call, or a function without arguments that makes it in the process that uses it."""


class PortableCall(Generic[T]):
    """A call, or a function that makes it, which can be pickled.

    A pickle contains no credentials: the other process reads them from its environment, as the LLM does, or in the
    function. A call to which credentials were passed by hand cannot be pickled, as it would fail there.

    Args:
        call: The call, or the function.
    """

    def __init__(self, call: CallOrFactory[T]) -> None:
        require_callable("call", call, "a ToolOrchestratingLLM, or a function that returns one")
        self._source: object = call.with_found_llm() if isinstance(call, ToolOrchestratingLLM) else call
        self._call: ToolOrchestratingLLM[T] | None = None

    @property
    def call(self) -> ToolOrchestratingLLM[T]:
        """The call, made on first use. Raise `TypeError` if the function returns something else."""
        if self._call is None:
            made = self._source
            if not isinstance(made, ToolOrchestratingLLM):
                made = cast("Callable[[], object]", made)()
            if not isinstance(made, ToolOrchestratingLLM):
                raise TypeError(f"call: expected a function that returns a ToolOrchestratingLLM, got {made!r:.80}")
            self._call = cast("ToolOrchestratingLLM[T]", made)
        return self._call

    def require_portable(self) -> None:
        """Raise `JobError` if credentials were passed by hand to the LLM of the call."""
        llm: FunctionCallingLLM | None = getattr(self._source, "llm", None)  # a function has none
        if llm is not None and (passed := client_of(llm).passed_credentials):
            raise JobError(
                f"{llm!r} was created with credentials, which are not sent to other processes: {', '.join(passed)}. "
                "Leave them out and set the variables of the provider in the environment of the workers, or pass a "
                "function that returns the call: it runs in each worker, and can read a key there."
            )

    def __getstate__(self) -> dict[str, Any]:
        self.require_portable()
        return {"_source": self._source, "_call": None}


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
