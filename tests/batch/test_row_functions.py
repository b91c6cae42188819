"""`row_function`: calls for rows of data frames."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pydantic import BaseModel

from toolcast import ToolOrchestratingLLM
from toolcast.batch import JobError, JobStopped, RowFunction, row_function
from toolcast.errors import AuthFailed
from toolcast.testing import ScriptedLLM, ScriptedRequest


class City(BaseModel):
    name: str


def answer(request: ScriptedRequest) -> City:
    text = request.messages[-1].text.split()[-1]
    if text == "nowhere":
        raise LookupError("no city")
    if text == "locked":
        raise AuthFailed("no key")
    return City(name=text)


@pytest.fixture
def call() -> ToolOrchestratingLLM[City]:
    return ToolOrchestratingLLM(City, "Which city? {text}", ScriptedLLM(answer))


@pytest.fixture
def find(call: ToolOrchestratingLLM[City]) -> RowFunction[City]:
    return row_function(call)


def names(outputs: Any) -> list[str | None]:
    return [None if output is None else output["name"] for output in outputs]


class Row(tuple[Any, ...]):
    """A row as Spark has it."""

    def asDict(self) -> dict[str, Any]:  # Spark's name
        return dict(self)


@pytest.mark.parametrize(
    "row",
    [
        {"text": "in Oslo", "id": 1},
        pd.Series({"text": "in Oslo"}),
        Row([("text", "in Oslo")]),
        SimpleNamespace(_asdict=lambda: {"text": "in Oslo"}),
    ],
    ids=["dict", "pandas", "Spark", "namedtuple"],
)
def test_one_row(find: RowFunction[City], row: Any) -> None:
    outcome = find(row)
    assert list(outcome) == find.schema.names
    assert outcome["output"] == {"name": "Oslo"}
    assert outcome["error"] is None


def test_what_is_no_row(find: RowFunction[City]) -> None:
    with pytest.raises(TypeError, match="row: expected a mapping, a Series of pandas or a Row of Spark, got int"):
        find(3)


def test_a_row_that_fails_has_its_error(find: RowFunction[City]) -> None:
    outcome = find({"text": "nowhere"})
    assert (outcome["output"], outcome["error_type"], outcome["error"]) == (None, "LookupError", "no city")


def test_an_arrow_table(find: RowFunction[City]) -> None:
    table = find.table(pa.table({"id": [1, 2], "text": ["Oslo", "nowhere"]}))
    assert table.column_names == ["id", "text", *find.schema.names]
    assert names(table.column("output").to_pylist()) == ["Oslo", None]
    assert find.table(table.select(["id", "text"]).slice(0, 0)).schema == table.schema


def test_record_batches(find: RowFunction[City]) -> None:
    source = pa.table({"text": ["Oslo", "Lima", "Rome"]}).to_batches(max_chunksize=2)
    made = list(find.batches(iter(source)))
    assert [batch.num_rows for batch in made] == [2, 1]
    assert all(isinstance(batch, pa.RecordBatch) for batch in made)
    assert names(pa.Table.from_batches(made).column("output").to_pylist()) == ["Oslo", "Lima", "Rome"]


def test_a_pandas_frame_keeps_its_index_and_types(find: RowFunction[City]) -> None:
    frame = pd.DataFrame({"text": ["Oslo", "nowhere"], "when": pd.to_datetime(["2024-01-01", None])}, index=[7, 7])
    made = find.frame(frame)
    assert list(made.index) == [7, 7]
    pd.testing.assert_frame_equal(made[["text", "when"]], frame)
    assert names(made["output"]) == ["Oslo", None]
    empty = find.frame(frame.iloc[:0])
    assert list(empty.columns) == list(made.columns)
    assert empty.dtypes["attempts"] == made.dtypes["attempts"]


def test_pandas_apply(find: RowFunction[City]) -> None:
    frame = pd.DataFrame({"text": ["Oslo", "Lima"]})
    made = frame.apply(find, axis=1, result_type="expand")
    assert names(made["output"]) == ["Oslo", "Lima"]


def test_columns_that_are_missing_or_taken(find: RowFunction[City]) -> None:
    with pytest.raises(JobError, match="no column 'text'"):
        find.table(pa.table({"Text": ["Oslo"]}))
    with pytest.raises(JobError, match="no column 'text'"):
        find.frame(pd.DataFrame({"Text": ["Oslo"]}))
    with pytest.raises(JobError, match="columns that the outcomes need: 'output'"):
        find.frame(pd.DataFrame({"text": ["Oslo"], "output": [1]}))


def test_options(call: ToolOrchestratingLLM[City]) -> None:
    find = row_function(call, prefix="city_", max_concurrency=2)
    assert find({"text": "Oslo"})["city_output"] == {"name": "Oslo"}
    with pytest.raises(TypeError, match="prefix"):
        row_function(call, prefixx="x")  # type: ignore[call-arg]  # the case


def test_an_error_that_every_row_would_get_is_raised(find: RowFunction[City]) -> None:
    with pytest.raises(JobStopped, match="no key"):
        find.table(pa.table({"text": ["locked"]}))


def test_a_pickle_makes_the_same_outcomes(find: RowFunction[City]) -> None:
    assert find({"text": "Oslo"})["output"] == {"name": "Oslo"}
    again: RowFunction[City] = pickle.loads(pickle.dumps(find))
    assert again({"text": "Oslo"})["output"] == {"name": "Oslo"}
    assert again.schema == find.schema
    assert repr(again).startswith("row_function(ToolOrchestratingLLM(City")
