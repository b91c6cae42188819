"""Tests of the inputs of a job, and of its options."""

from __future__ import annotations

import gzip
import os
import threading
from collections import namedtuple
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas
import pytest
from pydantic import BaseModel

from toolcast import Message, ToolOrchestratingLLM, user
from toolcast.batch import BadRow, Job, JobError
from toolcast.batch.inputs import length_of, open_inputs, read_row
from toolcast.batch.result_files import input_fields
from toolcast.batch.schedule import WINDOW
from toolcast.testing import ScriptedLLM


class City(BaseModel):
    name: str


@dataclass
class Named:
    name: str
    country: str


@dataclass
class Counted:
    name: str
    number: InitVar[int]
    seen: ClassVar[int] = 0


Pair = namedtuple("Pair", "name country")
FIELDS = ("name", "country")


@pytest.mark.parametrize(
    "given",
    [{"name": "Lima", "country": "Peru", "id": 3}, Named("Lima", "Peru"), Pair("Lima", "Peru")],
    ids=lambda given: type(given).__name__,
)
def test_values_by_fields(given: Any) -> None:
    row = read_row(0, given, FIELDS)
    assert dict(row.values) == {"name": "Lima", "country": "Peru"}
    assert row.error is None


def test_a_prompt_with_one_variable_takes_the_value_itself() -> None:
    message = user("hello")
    assert read_row(0, message, ("text",)).values == {"text": message}
    assert read_row(0, City(name="Lima"), ("name",)).values == {"name": "Lima"}
    assert isinstance(message, Message)


@pytest.mark.parametrize(
    ("given", "problem"),
    [({"nam": "Lima"}, "no value for 'name', 'country' in the input; it has: nam"), (5, "is a int")],
)
def test_missing_values_are_the_error_of_the_row(given: Any, problem: str) -> None:
    row = read_row(0, given, FIELDS)
    assert problem in str(row.error)


def test_what_only_the_constructor_of_a_dataclass_gets_is_no_field() -> None:
    row = read_row(0, Counted("Lima", 7), ("name", "number"))
    assert str(row.error).startswith("no value for 'number' in the input; it has: name.")
    assert input_fields(Counted("Lima", 7)) == {"name": "Lima"}


def test_a_bad_row_keeps_its_error() -> None:
    error = ValueError("broken")
    row = read_row(3, BadRow("{", error), FIELDS)
    assert (row.index, row.error, row.values) == (3, error, {})


def test_rows_of_data_frames() -> None:
    columns = {"name": ["Lima", None], "size": [1.5, float("nan")]}
    expected = [{"name": "Lima", "size": 1.5}, {"name": None, "size": None}]
    assert list(open_inputs(pandas.DataFrame(columns))) == expected
    assert list(open_inputs(Frame())) == [{"name": "Lima"}]
    assert length_of(pandas.DataFrame(columns)) == 2
    assert length_of(iter([])) is None
    missing = pandas.DataFrame({"at": [pandas.NaT], "x": pandas.array([None], dtype="Int64")})
    assert list(open_inputs(missing)) == [{"at": None, "x": None}]


class Frame:
    """The methods of a DataFrame of polars that are used."""

    columns = ("name",)

    def iter_rows(self, *, named: bool) -> Any:
        assert named
        return iter([{"name": "Lima"}])


class Columns:
    columns = ("a",)


@pytest.mark.parametrize(
    ("given", "problem"),
    [("a text", "one text"), ({"a": 1}, "one mapping"), (7, "got int"), (Columns(), "DataFrame of pandas or polars")],
    ids=lambda given: type(given).__name__,
)
def test_no_inputs(given: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        open_inputs(given)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"concurrency": 3}, TypeError),
        ({"key": 3}, TypeError),
        ({"ordered": "no"}, TypeError),
        ({"rpm": 0}, ValueError),
        ({"max_concurrency": 2.5}, TypeError),
        ({"on_error": "stop"}, ValueError),
    ],
    ids=str,
)
def test_wrong_options(options: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        ToolOrchestratingLLM(City, "{name}", ScriptedLLM("x")).map(["a"], **options)


def test_async_inputs_need_amap() -> None:
    async def inputs() -> Any:
        yield "a"

    with pytest.raises(TypeError, match="amap"):
        Job(ToolOrchestratingLLM(City, "{name}", ScriptedLLM("x")), inputs()).run()


Make = Callable[..., Any]


def counting(asked: list[str]) -> ScriptedLLM:
    def answer(request: Any) -> Any:
        text = request.messages[-1].text
        asked.append(text)
        return "no city" if text == "bad" else City(name=text)

    return ScriptedLLM(answer)


def test_equal_prompts_are_asked_once() -> None:
    asked: list[str] = []
    inputs = [{"name": name, "id": index} for index, name in enumerate(["Lima", "Oslo", "Lima"] * 50)]
    call = ToolOrchestratingLLM(City, "{name}", counting(asked))
    outcomes = list(call.map(inputs, ask_once=True, max_concurrency=3))
    assert [outcome.output for outcome in outcomes] == [City(name=each["name"]) for each in inputs]
    assert [outcome.input for outcome in outcomes] == inputs
    assert sorted(asked) == ["Lima", "Oslo"]
    assert sum(outcome.attempts for outcome in outcomes) == 2
    assert len({outcome.key for outcome in outcomes}) == len(inputs)


def test_a_prompt_equal_to_one_of_an_earlier_run_is_not_asked(tmp_path: Path) -> None:
    asked: list[str] = []
    call = ToolOrchestratingLLM(City, "{name}", counting(asked))
    path = tmp_path / "cities.db"
    list(call.map(["Lima"], checkpoint=path))
    outcomes = list(call.map(["Lima", "Lima", "Oslo"], checkpoint=path, ask_once=True))
    assert [outcome.output for outcome in outcomes] == [City(name=name) for name in ("Lima", "Lima", "Oslo")]
    assert asked == ["Lima", "Oslo"]


def test_after_an_error_an_equal_prompt_is_asked_again() -> None:
    asked: list[str] = []
    call = ToolOrchestratingLLM(City, "{name}", counting(asked))
    outcomes = list(call.map(["bad"] * 5, ask_once=True, max_concurrency=2))
    assert [outcome.ok for outcome in outcomes] == [False] * 5
    assert asked == ["bad"] * 5


def test_prompts_with_the_same_beginning_follow_each_other() -> None:
    asked: list[str] = []
    call = ToolOrchestratingLLM(City, "{name}", counting(asked))
    inputs = [f"{number % 3} {number}" for number in range(300)]
    outcomes = list(call.map(inputs, by_prefix=True, max_concurrency=1))
    assert [outcome.input for outcome in outcomes] == inputs
    assert asked == [*sorted(inputs[:256]), *sorted(inputs[256:])]


@pytest.mark.nightly
def test_sorted_rows_start_before_stored_outcomes_fill_the_window(tmp_path: Path) -> None:
    """The first row is new, and the stored outcomes of all others wait for it."""
    asked: list[str] = []
    call = ToolOrchestratingLLM(City, "{name}", counting(asked))
    inputs = [str(number) for number in range(2 * WINDOW)]
    path = tmp_path / "job.db"
    assert len(list(call.map(inputs, checkpoint=path))) == len(inputs)
    del asked[:]
    outcomes = list(call.map(["new", *inputs], checkpoint=path, by_prefix=True))
    assert [outcome.input for outcome in outcomes] == ["new", *inputs]
    assert asked == ["new"]


def csv_file(folder: Path) -> Path:
    path = folder / "people.csv"
    path.write_text("id,Review\n7,fine\n8,bad\n")
    return path


def tsv_file(folder: Path) -> Path:
    path = folder / "people.tsv.gz"
    path.write_bytes(gzip.compress(b"id\tReview\n7\tfine\n8\tbad\n"))
    return path


def parquet_file(folder: Path) -> Path:
    path = folder / "people.parquet"
    pandas.DataFrame(ROWS).to_parquet(path)
    return path


ROWS = [{"id": 7, "Review": "fine"}, {"id": 8, "Review": "bad"}]

SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": csv_file,
    "tsv": tsv_file,
    "parquet": parquet_file,
    "pandas": lambda _: pandas.DataFrame(ROWS),
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_column_that_the_prompt_needs_and_the_header_lacks(source: str, tmp_path: Path) -> None:
    """It is one error before anything is sent, and the checkpoint is not that of a job with a wrong prompt."""
    llm = ScriptedLLM(City(name="Lima"))
    call = ToolOrchestratingLLM(City, "{review} {score}", llm)
    inputs, checkpoint = SOURCES[source](tmp_path), tmp_path / "job.checkpoint"
    where = str(inputs) if isinstance(inputs, Path) else "the DataFrame"
    message = (
        f"{where}: no column 'review', 'score', which the prompt needs; did you mean 'Review'? "
        "The columns are: 'id', 'Review'. Rename a column, or the variable of the prompt."
    )
    job = Job(call, inputs, checkpoint=checkpoint)
    starts: list[Callable[[], object]] = [
        job.run,
        job.arun,
        job.estimate,
        job.sample,
        lambda: job.to_jsonl(tmp_path / "out.jsonl"),
        lambda: call.map(inputs, checkpoint=checkpoint),
    ]
    for start in starts:
        with pytest.raises(JobError) as error:
            start()
        assert str(error.value) == message
    assert llm.requests == []
    assert not checkpoint.exists()
    assert not (tmp_path / "out.jsonl.part").exists()


def test_a_header_that_has_nothing_alike(tmp_path: Path) -> None:
    call = ToolOrchestratingLLM(City, "{text}", ScriptedLLM(City(name="Lima")))
    with pytest.raises(JobError, match=r"no column 'text', which the prompt needs\. The columns are: 'id', 'Review'\."):
        call.map(csv_file(tmp_path))
    assert list(call.map(pandas.DataFrame([]))) == []


def test_files_without_a_header_are_read_to_find_out(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    path.write_text('{"id": 7}\n{"text": "fine"}\n')
    call = ToolOrchestratingLLM(City, "{text}", ScriptedLLM(City(name="Lima")))
    assert [outcome.ok for outcome in call.map(path)] == [False, True]
    missing = call.map(tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError):
        next(missing)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("text\nI live in Lima\n",))
    writer.start()
    call = ToolOrchestratingLLM(City, "{text}", ScriptedLLM(City(name="Lima")))
    assert [outcome.input for outcome in call.map(path)] == [{"text": "I live in Lima"}]
    writer.join()
