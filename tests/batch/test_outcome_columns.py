"""Outcomes as Arrow columns."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from pydantic import BaseModel

from toolcast import Prices, ToolOrchestratingLLM, Usage
from toolcast.batch import JobError, Outcome
from toolcast.batch.outcome_columns import OUTCOME_COLUMNS, OutcomeColumns
from toolcast.testing import ScriptedLLM
from toolcast.values.prices import ModelPricing


class City(BaseModel):
    name: str
    area: Decimal | None = None


@pytest.fixture
def columns() -> OutcomeColumns:
    return OutcomeColumns(ToolOrchestratingLLM(City, "{text}", ScriptedLLM([])))


PRICED = Usage(1_000_000, 5).with_pricing(ModelPricing("openai", ("x",), Prices(2, 0)))
GOOD: Outcome[City] = Outcome(0, "a", None, City(name="Oslo"), None, 2, PRICED, 1.5)
BAD: Outcome[City] = Outcome(1, "b", None, None, LookupError("none"), 1, Usage(7, 0), 0.5)


def test_an_output_and_an_error(columns: OutcomeColumns) -> None:
    table = columns.table([GOOD, BAD])
    assert table.column_names == list(OUTCOME_COLUMNS)
    assert table.to_pylist() == [
        {
            "output": {"name": "Oslo", "area": None},
            "error": None,
            "error_type": None,
            "attempts": 2,
            "input_tokens": 1_000_000,
            "output_tokens": 5,
            "cost": 2.0,
            "seconds": 1.5,
        },
        {
            "output": None,
            "error": "none",
            "error_type": "LookupError",
            "attempts": 1,
            "input_tokens": 7,
            "output_tokens": 0,
            "cost": None,
            "seconds": 0.5,
        },
    ]


def test_the_schema_depends_on_no_outcome(columns: OutcomeColumns) -> None:
    assert columns.table([]).schema == columns.table([BAD]).schema == columns.table([GOOD]).schema == columns.schema


def test_an_output_that_does_not_fit_is_an_error(columns: OutcomeColumns) -> None:
    outcome: Outcome[City] = Outcome(0, "a", None, City(name="Oslo", area=Decimal("1e40")))
    (row,) = columns.table([outcome]).to_pylist()
    assert row["output"] is None
    assert row["error_type"] == "ValueError"
    assert "does not fit its Arrow type" in row["error"]


def test_columns_are_appended(columns: OutcomeColumns) -> None:
    table = columns.append(pa.table({"id": [1, 2]}), [GOOD, BAD])
    assert table.column_names == ["id", *OUTCOME_COLUMNS]
    assert table.column("id").to_pylist() == [1, 2]


def test_a_name_that_is_taken() -> None:
    call = ToolOrchestratingLLM(City, "{text}", ScriptedLLM([]))
    table = pa.table({"error": [1], "seconds": [2]})
    with pytest.raises(
        JobError, match=r"columns that the outcomes need: 'error', 'seconds'; rename them, or pass prefix"
    ):
        OutcomeColumns(call).append(table, [GOOD])
    assert OutcomeColumns(call, "x_").append(table, [GOOD]).column_names[:4] == [
        "error",
        "seconds",
        "x_output",
        "x_error",
    ]


def test_parallel_calls_are_a_list() -> None:
    call = ToolOrchestratingLLM(City, "{text}", ScriptedLLM([]), allow_parallel_tool_calls=True)
    assert pa.types.is_list(OutcomeColumns(call).schema.field("output").type)
