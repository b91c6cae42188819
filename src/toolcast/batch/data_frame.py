"""Outcomes as a pandas DataFrame: the columns of the inputs, those of the outputs, and the errors."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from ..structured.orchestrator import ToolOrchestratingLLM
from .job_errors import JobStopped
from .outcome import Outcome
from .result_files import OutputColumns, input_fields


def import_pandas() -> Any:
    """Return the module pandas. Raise `ImportError` with the command that installs it."""
    try:
        return import_module("pandas")
    except ImportError as error:
        raise ImportError("a DataFrame needs pandas: pip install pandas", name="pandas") from error


def to_data_frame(outcomes: Iterable[Outcome[Any]], call: ToolOrchestratingLLM[Any], inputs: Any = None) -> Any:
    """Return a DataFrame with a row for each outcome, in the order of the inputs.

    Args:
        outcomes: The outcomes.
        call: The call of the job.
        inputs: The inputs of the job. If it is a DataFrame of pandas, a copy of it gets the columns of the outputs and
            keeps its index; otherwise the first columns are those of the inputs.

    Returns:
        The DataFrame. The new columns have the types of pandas that allow missing values (`Int64`, `string`). The last
        column, `error`, is missing where there is an output.

    Raises:
        JobStopped: If the job was stopped; its `partial` is the DataFrame of the outcomes until then.
    """
    pandas = import_pandas()
    table = _Table(pandas, call, inputs if isinstance(inputs, pandas.DataFrame) else None)
    try:
        for outcome in outcomes:
            table.add(outcome)
    except JobStopped as error:
        error.partial = table.made()
        raise
    return table.made()


class _Table:
    """The rows of a DataFrame while outcomes come."""

    def __init__(self, pandas: Any, call: ToolOrchestratingLLM[Any], frame: Any) -> None:
        self._pandas = pandas
        self._columns = OutputColumns(call)
        self._frame = frame
        self._inputs: dict[int, dict[str, Any]] = {}
        self._outputs: dict[int, list[Any]] = {}

    def add(self, outcome: Outcome[Any]) -> None:
        """Add a row."""
        if self._frame is None:
            self._inputs[outcome.index] = input_fields(outcome.input)
        values = self._columns.values(outcome.output) if outcome.ok else [None] * len(self._columns.names(()))
        self._outputs[outcome.index] = [*values, outcome.error_text]

    def made(self) -> Any:
        """Return the DataFrame."""
        rows = sorted(self._outputs)
        if self._frame is None:
            left = self._pandas.DataFrame([self._inputs[row] for row in rows], index=rows)
        else:
            left = self._frame.iloc[rows].copy()
        taken = [str(name) for name in left.columns]
        names = self._columns.names(taken)
        names.append("output.error" if "error" in [*taken, *names] else "error")
        right = self._pandas.DataFrame([self._outputs[row] for row in rows], columns=names, index=left.index)
        return self._pandas.concat([left, right.convert_dtypes()], axis=1)
