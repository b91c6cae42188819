"""Outcomes as columns of an Arrow table, with types that depend only on the output type.

So that all parts of a data set have the same columns, also one in which every item failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from ..structured.orchestrator import ToolOrchestratingLLM
from .arrow_schemas import ArrowOutput, import_pyarrow
from .job_errors import JobError
from .outcome import Outcome

OUTCOME_COLUMNS: Final = (
    "output",
    "error",
    "error_type",
    "attempts",
    "input_tokens",
    "output_tokens",
    "cost",
    "seconds",
)
"""The columns of an outcome.

`output` is null for an item that failed, `error` and `error_type` (the name of the exception's class) are null for one
that did not. `cost` is in US dollars; null if it is unknown.
"""


class OutcomeColumns:
    """The columns of the outcomes of one call.

    Args:
        call: The call.
        prefix: Text in front of the names of all columns.

    Attributes:
        schema: The `pyarrow.Schema` of the columns.
    """

    def __init__(self, call: ToolOrchestratingLLM[Any], prefix: str = "") -> None:
        self._arrow = arrow = import_pyarrow()
        self._output = ArrowOutput(call.output_cls, many=call.allow_parallel_tool_calls)
        self._prefix = prefix
        types = {
            "output": self._output.type,
            "error": arrow.string(),
            "error_type": arrow.string(),
            "attempts": arrow.int32(),
            "input_tokens": arrow.int64(),
            "output_tokens": arrow.int64(),
            "cost": arrow.float64(),
            "seconds": arrow.float64(),
        }
        self.schema: Any = arrow.schema([(prefix + name, types[name]) for name in OUTCOME_COLUMNS])

    def row(self, outcome: Outcome[Any]) -> dict[str, Any]:
        """Return the values of one outcome by column. An output that does not fit its column is an error."""
        error, output = outcome.error, None
        if error is None:
            try:
                output = self._output.encode(outcome.output)
            except ValueError as unfit:
                error = unfit
        values = {
            "output": output,
            "error": None if error is None else str(error),
            "error_type": None if error is None else type(error).__name__,
            "attempts": outcome.attempts,
            "input_tokens": outcome.usage.input_tokens,
            "output_tokens": outcome.usage.output_tokens,
            "cost": None if outcome.cost is None else float(outcome.cost),
            "seconds": outcome.seconds,
        }
        return {self._prefix + name: value for name, value in values.items()}

    def table(self, outcomes: Iterable[Outcome[Any]]) -> Any:
        """Return a `pyarrow.Table` with one row for each outcome."""
        return self._arrow.Table.from_pylist([self.row(outcome) for outcome in outcomes], schema=self.schema)

    def append(self, table: Any, outcomes: Iterable[Outcome[Any]]) -> Any:
        """Return a `pyarrow.Table` of inputs with the columns of their outcomes appended."""
        self.require_free_names(table.column_names)
        for field, column in zip(self.schema, self.table(outcomes).columns, strict=True):
            table = table.append_column(field, column)
        return table

    def require_free_names(self, names: Iterable[str]) -> None:
        """Raise `JobError` if a column of an outcome has the name of one of the inputs' columns."""
        taken = [repr(name) for name in names if name in self.schema.names]
        if taken:
            raise JobError(
                f"the inputs have columns that the outcomes need: {', '.join(taken)}; rename them, or pass "
                'prefix="result_", which is put in front of the names of the outcomes\' columns'
            )


def plain_row(row: Any) -> Mapping[str, Any]:
    """Return one row of pandas (a Series), Spark (a Row), polars or Ray (a dict) as a mapping.

    Raises:
        TypeError: The row has no names of columns.
    """
    if isinstance(row, Mapping):
        return cast("Mapping[str, Any]", row)
    for method in ("asDict", "to_dict", "_asdict"):
        convert = getattr(row, method, None)
        if convert is not None:
            return dict(convert())
    raise TypeError(f"row: expected a mapping, a Series of pandas or a Row of Spark, got {type(row).__name__}")
