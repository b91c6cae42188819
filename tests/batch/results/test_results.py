"""Tests of the results of a job as files and tables."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel, SecretStr

from toolcast import Prices, ToolOrchestratingLLM, Usage
from toolcast.batch import Job, JobStopped, Outcome
from toolcast.batch.checkpoint import read_status
from toolcast.batch.job_errors import JobError
from toolcast.batch.result_files import JSONLinesFile, save_outcomes
from toolcast.errors import AuthFailed
from toolcast.llms.client import client_of
from toolcast.testing import ScriptedLLM


class Address(BaseModel):
    city: str
    zip: str | None = None


class Person(BaseModel):
    name: str
    age: int
    address: Address | None = None
    tags: list[str] = []


class Node(BaseModel):
    name: str
    children: list[Node] = []


def answer(request: Any) -> Any:
    """A person from the text `name age`; an error for text without an age."""
    name, _, age = request.messages[-1].text.partition(" ")
    return Person(name=name, age=int(age)) if age else failure(name)


def failure(name: str) -> Any:
    return AuthFailed("the key is wrong") if name == "stop" else ValueError(f"no age of {name}")


def call_for(output_cls: Any = Person, answers: Any = answer) -> ToolOrchestratingLLM[Any]:
    return ToolOrchestratingLLM(output_cls, "{text}", ScriptedLLM(answers, prices=Prices(1, 1)))


def job_for(*inputs: Any, call: Any = None, **options: Any) -> Job[Any]:
    rows = [{"text": each} if isinstance(each, str) else each for each in inputs]
    return Job(call or call_for(), rows, **options)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [*csv.reader(file)]


SAVE: dict[str, Callable[..., Any]] = {"jsonl": Job.to_jsonl, "csv": Job.to_csv, "parquet": Job.to_parquet}


@pytest.fixture(params=[*SAVE])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# JSON Lines and the errors.


def test_outputs_and_errors_are_two_files(tmp_path: Path) -> None:
    path = tmp_path / "out" / "people.jsonl"
    saved = job_for("Ada 36", "Bob", "Alan 41").to_jsonl(path)
    assert (saved.path, saved.errors, saved.done, saved.failed) == (
        path,
        path.with_name("people.jsonl.errors.jsonl"),
        2,
        1,
    )
    assert (
        str(saved.first_error)
        == json.loads(path.with_name("people.jsonl.errors.jsonl").read_text())["error"]["message"]
    )
    first, second = lines(path)
    assert first["output"] == {"name": "Ada", "age": 36, "address": None, "tags": []}
    assert (first["index"], first["input"], first["attempts"]) == (0, {"text": "Ada 36"}, 1)
    assert (second["index"], second["output"]["name"]) == (2, "Alan")
    assert len(first["key"]) > 0
    assert saved.errors is not None
    [failed] = lines(saved.errors)
    assert (failed["index"], failed["input"], failed["error"]) == (
        1,
        {"text": "Bob"},
        {"type": "ValueError", "message": "no age of Bob"},
    )
    assert "output" not in failed
    assert sorted(each.name for each in path.parent.iterdir()) == ["people.jsonl", "people.jsonl.errors.jsonl"]


def test_the_failed_items_are_run_again_from_the_errors_file(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    answers = {"Ada": 36, "Alan": 41}

    def flaky(request: Any) -> Any:
        name = request.messages[-1].text
        return Person(name=name, age=answers[name])

    call = call_for(answers=flaky)
    saved = job_for("Ada", "Bob", "Alan", "Eve", call=call).to_jsonl(path)
    assert (saved.done, saved.failed) == (2, 2)
    answers["Bob"] = 5
    assert saved.errors is not None
    again = Job(call, saved.errors).to_jsonl(path, if_exists="append")
    assert [line["output"]["name"] for line in lines(path)] == ["Ada", "Alan", "Bob"]
    assert (again.done, again.failed, again.errors) == (1, 1, saved.errors)
    assert [line["input"] for line in lines(saved.errors)] == [{"text": "Eve"}]
    answers["Eve"] = 6
    last = Job(call, saved.errors).to_jsonl(path, if_exists="append")
    assert len(lines(path)) == 4
    assert (last.errors, saved.errors.exists()) == (None, False)  # no item failed, so there is no such file


def test_the_usage_and_the_cost(tmp_path: Path) -> None:
    usage = Usage(1_000_000, 500_000)
    call = call_for()
    outcome = Outcome(0, "k", "Ada", Person(name="Ada", age=1), None, 1, client_of(call.llm).price(usage), 1.23456)
    saved = save_outcomes([outcome, outcome], JSONLinesFile(tmp_path / "a.jsonl"))
    assert saved.usage == usage + usage
    assert saved.usage.cost == Decimal(3)
    [first, _] = lines(saved.path)
    assert (first["input_tokens"], first["output_tokens"], first["seconds"]) == (1_000_000, 500_000, 1.235)
    assert Decimal(first["cost"]) == Decimal("1.5")


@dataclass
class Text:
    text: str
    on: date


Row = namedtuple("Row", "text on")


class Message(BaseModel):
    text: str
    on: date
    token: SecretStr


@pytest.mark.parametrize(
    ("input", "written"),
    [
        ("Ada 1", "Ada 1"),
        (Text("Ada 1", date(2024, 5, 1)), {"text": "Ada 1", "on": "2024-05-01"}),
        (
            Message(text="Ada 1", on=date(2024, 5, 1), token=SecretStr("t")),
            {"text": "Ada 1", "on": "2024-05-01", "token": "**********"},
        ),
        ({"text": "Ada 1", "raw": b"\xff\x00", "odd": "\ud800"}, {"text": "Ada 1", "raw": "_wA=", "odd": "�"}),
        ({"text": "Ada 1", "what": object}, {"text": "Ada 1", "what": "<class 'object'>"}),
    ],
)
def test_inputs_of_every_kind_are_written(tmp_path: Path, input: Any, written: Any) -> None:
    Job(call_for(), [input]).to_jsonl(tmp_path / "a.jsonl")
    [line] = lines(tmp_path / "a.jsonl")
    assert line["input"] == written


# Files that are there already, and early ends.


def test_an_existing_file_is_not_replaced_by_itself(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"people.{form}"
    SAVE[form](job_for("Ada 36"), path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r'exists: if_exists="replace" replaces it'):
        SAVE[form](job_for("Eve 1"), path)
    assert path.read_bytes() == before
    SAVE[form](job_for("Eve 1"), path, if_exists="replace")
    assert b"Eve" in path.read_bytes()
    assert b"Ada" not in path.read_bytes()


def test_unknown_options(tmp_path: Path) -> None:
    job = job_for("Ada 36")
    with pytest.raises(ValueError, match="if_exists='keep': expected 'error', 'replace', 'append'"):
        job.to_jsonl(tmp_path / "a.jsonl", if_exists="keep")  # type: ignore[arg-type]  # for the test
    with pytest.raises(TypeError, match="takes no 'overwrite'"):
        job.to_jsonl(tmp_path / "a.jsonl", overwrite=True)  # type: ignore[call-arg]  # for the test
    assert [*tmp_path.iterdir()] == []


def test_after_an_early_end_the_outcomes_are_in_the_part(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"people.{form}"

    def inputs() -> Iterator[str]:
        yield from ("Ada 36", "Bob")
        raise OSError("the share is gone")

    with pytest.raises(OSError, match="the share is gone") as raised:
        SAVE[form](Job(call_for(), inputs()), path)
    part = path.with_name(f"{path.name}.part")
    [note] = raised.value.__notes__
    errors = tmp_path / f"people.{form}.errors.jsonl.part"
    assert note == f"The outcomes until then, 1 outputs and 1 errors, are in {part} and {errors}"
    assert not path.exists()
    assert b"Ada" in part.read_bytes()
    if form == "parquet":
        assert pq.read_table(part)["name"].to_pylist() == ["Ada"]
    with pytest.raises(FileExistsError, match="results of a job that did not end: move it"):
        SAVE[form](job_for("Ada 36"), path)
    assert b"Ada" in part.read_bytes()
    SAVE[form](job_for("Eve 1"), path, if_exists="replace")
    assert b"Eve" in path.read_bytes()
    assert [*tmp_path.iterdir()] == [path]


def test_results_of_two_jobs_do_not_meet(tmp_path: Path) -> None:
    for name in ("res.v1.csv", "res.v2.csv", "res.csv"):
        assert job_for("Bob").to_csv(tmp_path / name).failed == 1
    assert job_for("Ada 36").to_jsonl(tmp_path / "res.jsonl").failed == 0
    assert job_for("Ada 36").to_csv(tmp_path / "res.v1.csv", if_exists="replace").failed == 0
    assert sorted(path.name for path in tmp_path.glob("*.errors.jsonl")) == [
        "res.csv.errors.jsonl",
        "res.v2.csv.errors.jsonl",
    ]


@pytest.mark.parametrize("if_exists", ["error", "replace", "append"])
def test_a_device_is_written_to(tmp_path: Path, if_exists: Any) -> None:
    number = Path("/dev/null").stat().st_rdev
    for errors in (tmp_path / "e.jsonl", "/dev/null"):
        assert job_for("Ada 36", "Bob").to_jsonl("/dev/null", if_exists=if_exists, errors=errors).failed == 1
        assert job_for("Ada 36").to_csv("/dev/null", if_exists=if_exists, errors=errors).done == 1
    with pytest.raises(JobStopped):
        job_for("stop").to_jsonl("/dev/null", if_exists=if_exists)
    assert Path("/dev/null").stat().st_rdev == number


def test_a_link_is_followed(tmp_path: Path, form: str) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / f"people.{form}"
    path.symlink_to(f"data/real.{form}")
    for _ in range(2):
        saved = SAVE[form](job_for("Ada 36", "Bob"), path, if_exists="replace")
        assert (saved.path, saved.errors) == (path, tmp_path / f"people.{form}.errors.jsonl")
        assert path.is_symlink()
        assert b"Ada" in (tmp_path / "data" / f"real.{form}").read_bytes()


def test_what_no_file_can_be_is_refused_before_anything_is_sent(tmp_path: Path, form: str) -> None:
    path, job = tmp_path / f"a.{form}", Job(call_for(), iter_that_fails())
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match="folder is a folder: name a file in it"):
        SAVE[form](job, tmp_path / "folder", if_exists="replace")
    with pytest.raises(IsADirectoryError, match="folder is a folder"):
        SAVE[form](job, path, errors=tmp_path / "folder")
    with pytest.raises(ValueError, match="is the file of the outputs: use another name"):
        SAVE[form](job, path, errors=tmp_path / "folder" / ".." / path.name)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder"]


def iter_that_fails() -> Iterator[str]:
    raise AssertionError
    yield


def test_saved_results_are_a_sentence(tmp_path: Path) -> None:
    checkpoint = tmp_path / "c.sqlite"
    job_for("Ada 36", "Bob", checkpoint=checkpoint).to_jsonl(tmp_path / "c.jsonl")
    assert re.search(
        r"c\.sqlite: 1 done, 1 failed; .*; not running; its last start was 20", str(read_status(checkpoint))
    )
    saved = job_for("Ada 36", "Bob").to_jsonl(tmp_path / "a.jsonl")
    assert str(saved).startswith(f"1 outputs in {saved.path}, 1 errors in {saved.errors}; ")
    assert str(job_for("Ada 36").to_jsonl(tmp_path / "b.jsonl")).startswith(f"1 outputs in {tmp_path / 'b.jsonl'}; ")


def test_a_stopped_job_names_its_files(tmp_path: Path) -> None:
    with pytest.raises(JobStopped) as raised:
        job_for("Ada 36", "stop", "Alan 41", max_concurrency=1).to_jsonl(tmp_path / "a.jsonl")
    assert raised.value.__notes__ == [
        f"The outcomes until then, 1 outputs and 1 errors, are in {tmp_path / 'a.jsonl.part'} "
        f"and {tmp_path / 'a.jsonl.errors.jsonl.part'}"
    ]


def test_each_line_is_there_as_soon_as_it_is_written(tmp_path: Path) -> None:
    file = JSONLinesFile(tmp_path / "a.jsonl")
    for number in range(3):
        file.write(Outcome(number, "k", "x", 1))
        assert len(lines(tmp_path / "a.jsonl.part")) == number + 1
    file.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux")
@pytest.mark.fault(151)
def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    (tmp_path / "a.jsonl.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        job_for("Ada 36").to_jsonl(path, if_exists="replace")
    assert [*tmp_path.iterdir()] == []


def test_a_job_that_fails_before_its_first_outcome_leaves_no_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"people.{form}"

    def broken() -> Iterator[str]:
        raise OSError("the share is gone")
        yield ""

    for inputs, error in ((broken(), OSError), (5, TypeError)):
        with pytest.raises(error):
            SAVE[form](Job(call_for(), inputs), path)  # type: ignore[arg-type]  # for the test
        assert [*tmp_path.iterdir()] == []


def test_an_incomplete_last_line_is_ended_before_more_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"index": 0}')
    job_for("Ada 36").to_jsonl(path, if_exists="append")
    assert [line["index"] for line in lines(path)] == [0, 0]
    path.write_text("")
    job_for("Ada 36").to_jsonl(path, if_exists="append")
    assert len(lines(path)) == 1
    job_for("Ada 36").to_jsonl(tmp_path / "new.jsonl", if_exists="append")
    assert len(lines(tmp_path / "new.jsonl")) == 1


def test_the_errors_can_have_a_name_of_their_own(tmp_path: Path) -> None:
    saved = job_for("Bob").to_jsonl(tmp_path / "a.jsonl", errors=tmp_path / "bad.jsonl")
    assert saved.errors == tmp_path / "bad.jsonl"
    assert saved.path.read_text() == ""


# CSV.


def test_a_table_of_inputs_and_outputs(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"

    def person(request: Any) -> Any:
        return Person(name="Zoë", age=-5, address=Address(city="Łódź"), tags=["a", "b"])

    rows = [{"text": "x", "id": 7, "when": date(2024, 5, 1), "ratio": -1.5}, {"id": 8, "text": "y", "more": 1}]
    saved = Job(call_for(answers=person), rows).to_csv(path)
    assert saved.done == 2
    assert table(path) == [
        ["index", "text", "id", "when", "ratio", "name", "age", "address", "tags"],
        ["0", "x", "7", "2024-05-01", "-1.5", "Zoë", "-5", '{"city": "Łódź", "zip": null}', '["a", "b"]'],
        ["1", "y", "8", "", "", "Zoë", "-5", '{"city": "Łódź", "zip": null}', '["a", "b"]'],
    ]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠1"])
@pytest.mark.fault(154)
def test_formulas_are_escaped(tmp_path: Path, text: str) -> None:
    def person(request: Any) -> Any:
        return Person(name=text, age=1)

    path = tmp_path / "a.csv"
    Job(call_for(answers=person), [{"text": text, "=cmd": text}]).to_csv(path, delimiter=";")
    with path.open(newline="", encoding="utf-8") as file:
        rows = [*csv.reader(file, delimiter=";")]
    assert rows[0][:4] == ["index", "text", "'=cmd", "name"]
    assert rows[1][:5] == ["0", f"'{text}", f"'{text}", f"'{text}", "1"]


def test_names_that_are_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    Job(call_for(), [{"text": "Ada 1", "name": "n", "index": "i"}]).to_csv(path)
    assert table(path) == [
        ["index", "text", "name", "input.index", "output.name", "age", "address", "tags"],
        ["0", "Ada 1", "n", "i", "Ada", "1", "", "[]"],
    ]


TREE = Node(name="a", children=[Node(name="b")])


def listed(text: str) -> list[int]:
    """List."""
    return [len(text)]


def anything(text: str):  # type: ignore[no-untyped-def]  # that is what is tested
    """Do."""
    return object


class Odd:
    pass


def odd(text: str) -> Odd:
    """Do."""
    return Odd()


@pytest.mark.parametrize(
    ("output_cls", "answers", "columns", "cells"),
    [
        (str, {"value": "a"}, ["output"], ["a"]),
        (listed, {"text": "abc"}, ["output"], ["[3]"]),
        (anything, {"text": "abc"}, ["output"], ["<class 'object'>"]),
        (
            Node,
            Node(name="a", children=[Node(name="b")]),
            ["name", "children"],
            ["a", '[{"name": "b", "children": []}]'],
        ),
        (Person | Address, Address(city="Lima"), ["output"], ['{"city": "Lima", "zip": null}']),
        (dict[str, int], {"a": 1}, ["output"], ['{"a": 1}']),
    ],
)
def test_the_columns_of_other_outputs(
    tmp_path: Path, output_cls: Any, answers: Any, columns: list[str], cells: list[str]
) -> None:
    path = tmp_path / "a.csv"
    Job(call_for(output_cls, lambda request: answers), ["x"]).to_csv(path)
    assert table(path) == [["index", "input", *columns], ["0", "x", *cells]]


def test_an_output_of_an_unknown_class(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    Job(call_for(odd, lambda request: {"text": "a"}), ["x"]).to_csv(path)
    assert table(path)[0] == ["index", "input", "output"]


def test_rows_are_appended_to_a_table_of_the_same_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    job_for("Ada 1").to_csv(path)
    job_for("Bob 2").to_csv(path, if_exists="append")
    assert [row[2] for row in table(path)] == ["name", "Ada", "Bob"]
    with pytest.raises(JobError, match=r"has the columns index, text, name, .*, and the results index, other, text"):
        Job(call_for(), [{"other": 1, "text": "Eve 3"}]).to_csv(path, if_exists="append")
    path.write_text("")
    job_for("Bob 2").to_csv(path, if_exists="append")
    assert len(table(path)) == 2


@pytest.mark.parametrize(
    "input",
    [Text("Ada 1", date(2024, 5, 1)), Row("Ada 1", date(2024, 5, 1)), {"text": "Ada 1", "on": date(2024, 5, 1)}],
)
def test_columns_of_inputs_with_fields(tmp_path: Path, input: Any) -> None:
    path = tmp_path / "a.csv"
    Job(call_for(), [input]).to_csv(path)
    assert [row[:3] for row in table(path)] == [["index", "text", "on"], ["0", "Ada 1", "2024-05-01"]]


def test_a_model_as_an_input_keeps_its_secrets(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    Job(call_for(), [Message(text="Ada 1", on=date(2024, 5, 1), token=SecretStr("t"))]).to_csv(path)
    assert table(path)[1][:4] == ["0", "Ada 1", "2024-05-01", "**********"]


# Parquet.


@pytest.mark.slow
def test_a_parquet_file_has_the_schema_of_the_output(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    saved = job_for(*[f"n{number} {number}" for number in range(1_500)], "Bob").to_parquet(path)
    assert (saved.done, saved.failed) == (1_500, 1)
    found = pq.read_table(path)
    address = pa.struct([("city", pa.string()), ("zip", pa.string())])
    assert found.schema.names == ["index", "key", "input", "name", "age", "address", "tags"]
    assert [found.schema.field(name).type for name in ("name", "age", "address", "tags")] == [
        pa.string(),
        pa.int64(),
        address,
        pa.list_(pa.string()),
    ]
    assert found["age"].to_pylist() == [*range(1_500)]
    assert found["input"][7].as_py() == '{"text":"n7 7"}'


def test_a_parquet_file_of_a_job_without_outputs(tmp_path: Path) -> None:
    job_for("Bob").to_parquet(tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 0


class Keyed(BaseModel):
    key: str
    number: int


def test_names_of_outputs_that_are_taken(tmp_path: Path) -> None:
    call = call_for(Keyed, lambda request: Keyed(key="k", number=1))
    Job(call, ["x"]).to_parquet(tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").schema.names == ["index", "key", "input", "output.key", "number"]


def test_outputs_without_fields_are_one_column(tmp_path: Path) -> None:
    Job(call_for(list[int], lambda request: {"value": [1]}), ["x"]).to_parquet(tmp_path / "a.parquet")
    found = pq.read_table(tmp_path / "a.parquet")
    assert found["output"].to_pylist() == [[1]]


def test_an_output_that_does_not_fit_is_in_the_errors(tmp_path: Path) -> None:
    def number(request: Any) -> Any:
        return Keyed(key="k", number=10 ** int(request.messages[-1].text))

    saved = Job(call_for(Keyed, number), ["1", "20", "2"]).to_parquet(tmp_path / "a.parquet")
    assert pq.read_table(saved.path)["number"].to_pylist() == [10, 100]
    assert saved.errors is not None
    [failed] = lines(saved.errors)
    assert failed["output"] == {"key": "k", "number": 10**20}  # it was paid for
    assert failed["error"]["message"].startswith("the output does not fit its Arrow type")


def test_nothing_is_appended_to_parquet(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="nothing can be appended to a Parquet file"):
        job_for("Ada 1").to_parquet(tmp_path / "a.parquet", if_exists="append")


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    call = call_for()
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[parquet\]'"):
        Job(call, ["Ada 1"]).to_parquet(tmp_path / "a.parquet")
    assert isinstance(call.llm, ScriptedLLM)
    assert call.llm.requests == []


# DataFrames.


def test_columns_are_appended_to_a_frame() -> None:
    frame = pd.DataFrame({"text": ["Ada 36", "Bob", "Alan 41"], "name": ["x", "y", "z"]}, index=["a", "b", "c"])
    made = Job(call_for(), frame, ordered=False).to_pandas()
    assert [*made.columns] == ["text", "name", "output.name", "age", "address", "tags", "error"]
    assert [*made.index] == ["a", "b", "c"]
    assert made["age"].dtype == "Int64"
    assert made["age"].isna().tolist() == [False, True, False]
    assert made["age"].dropna().tolist() == [36, 41]
    assert made["error"].dropna().to_dict() == {"b": "ValueError: no age of Bob"}
    assert [*frame.columns] == ["text", "name"]


def test_a_frame_of_inputs_of_another_kind() -> None:
    made = Job(call_for(), [{"text": "Ada 36", "error": "e"}, {"text": "Bob", "error": "f"}]).to_pandas()
    assert [*made.columns] == ["text", "error", "name", "age", "address", "tags", "output.error"]
    assert made["text"].tolist() == ["Ada 36", "Bob"]


def test_a_stopped_job_has_its_frame_in_the_error() -> None:
    with pytest.raises(JobStopped) as raised:
        job_for("Ada 36", "stop", "Alan 41", max_concurrency=1).to_pandas()
    assert raised.value.partial["name"].dropna().tolist() == ["Ada"]


def test_a_frame_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    call = call_for()
    with pytest.raises(ImportError, match="a DataFrame needs pandas: pip install pandas"):
        Job(call, ["Ada 1"]).to_pandas()
    assert isinstance(call.llm, ScriptedLLM)
    assert call.llm.requests == []
