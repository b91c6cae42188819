"""The rows of `toolcast map`, and the columns that a prompt takes from them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcast.apps import map_command as module
from toolcast.apps.map_command import CountedRows, PromptColumns, first_of, open_rows, plan_columns, read_lines
from toolcast.batch import BadRow
from toolcast.batch.input_files import FileError
from toolcast.errors import PromptError, ToolcastError

PEOPLE = {"name": "A", "full text": "Alice is 31"}


def test_files_by_suffix_and_by_format(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\n\n two \n")
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "a.data").write_text("a\tb\n1\t2\n")
    assert list(open_rows(tmp_path / "a.csv", None)) == [{"a": "1", "b": "2"}]
    assert list(open_rows(tmp_path / "a.csv", "csv")) == [{"a": "1", "b": "2"}]
    assert list(open_rows(tmp_path / "a.txt", None)) == ["one", "two"]
    assert list(open_rows(tmp_path / "a.jsonl", None)) == [{"a": 1}]
    assert list(open_rows(tmp_path / "a.jsonl", "jsonl")) == [{"a": 1}]
    assert list(open_rows(tmp_path / "a.jsonl", "lines")) == ['{"a": 1}']
    assert list(open_rows(tmp_path / "a.data", "tsv")) == [{"a": "1", "b": "2"}]
    with pytest.raises(FileError, match=r"expected a file with the suffix .csv"):
        open_rows(tmp_path / "a.data", None)


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table({"a": [1, 2]}), tmp_path / "rows")
    rows = open_rows(tmp_path / "rows", "parquet")
    assert list(rows) == [{"a": 1}, {"a": 2}]
    counted = CountedRows(rows)
    assert (len(counted), len(counted), list(counted)) == (2, 2, [{"a": 1}, {"a": 2}])


def test_rows_without_a_length_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    counted = CountedRows(open_rows(tmp_path / "a.txt", None))
    assert len(counted) == 2
    (tmp_path / "a.txt").write_text("one\n")
    assert len(counted) == 2


def test_lines_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_LINE", 20)
    stream = io.BytesIO(b'{"a": 1}\nbad\n' + b"x" * 90 + b'\n"text"\n' + b"y" * 30)
    first, second, third, text, last = read_lines(stream, "jsonl", "standard input")
    assert (first, text) == ({"a": 1}, "text")
    for bad, input, message in (
        (second, "bad", "standard input, line 2: expected JSON: expected value"),
        (third, "x" * 21, "standard input, line 3: the line has more than 20 bytes"),
        (last, "y" * 21, "standard input, line 5: the line has more than 20 bytes"),
    ):
        assert isinstance(bad, BadRow)
        assert bad.input == input
        assert str(bad.error).startswith(message)


def test_the_first_row_of_a_stream_is_not_lost() -> None:
    bad = BadRow("x", ToolcastError("line 1: no"))
    first, rows = first_of(iter([bad, 1, 2]), "standard input")
    assert (first, list(rows)) == (1, [bad, 1, 2])
    values = [1, 2]
    assert first_of(values, "a file") == (1, values)
    with pytest.raises(ToolcastError, match=r"^a file has no rows$"):
        first_of([], "a file")
    with pytest.raises(ToolcastError, match=r"^a file: no row could be read: line 1: no$"):
        first_of([bad], "a file")


@pytest.mark.parametrize(
    ("prompt", "column", "row", "expected"),
    [
        ("{text}", None, "Alice", PromptColumns("{text}")),
        ("{text}", None, {"text": "x", "n": 1}, PromptColumns("{text}")),
        ("{text}", None, {"body": "x"}, PromptColumns("{body}")),
        ("{text} {{text}} {name}", "body", {"body": "x", "name": 1}, PromptColumns("{body} {{text}} {name}")),
        ("{text}", "full text", PEOPLE, PromptColumns("{text}", added="full text")),
        ("{text}", "self", {"self": "x"}, PromptColumns("{text}", added="self")),
        ("Who? {name}", None, PEOPLE, PromptColumns("Who? {name}")),
    ],
)
def test_the_columns_of_a_prompt(prompt: str, column: str | None, row: Any, expected: PromptColumns) -> None:
    assert plan_columns(prompt, column, row, "people.csv") == expected


def test_a_column_whose_name_is_no_variable_becomes_the_text() -> None:
    columns = PromptColumns("{text}", added="full text")
    bad = BadRow("x", ToolcastError("no"))
    assert list(columns.rows([PEOPLE, bad, {"other": 1}])) == [{**PEOPLE, "text": "Alice is 31"}, bad, {"other": 1}]
    assert columns.rows(rows := CountedRows([PEOPLE])) is not rows
    assert PromptColumns("{text}").rows(rows) is rows


@pytest.mark.parametrize(
    ("prompt", "column", "row", "message"),
    [
        ("{text}", "nam", PEOPLE, "people.csv has no column 'nam'; did you mean name? It has: name, full text"),
        ("{text}", "xyz", PEOPLE, "people.csv has no column 'xyz'; it has: name, full text"),
        ("{nmae}", None, PEOPLE, "people.csv has no column 'nmae'; did you mean name? It has: name, full text"),
        (
            "{text}",
            None,
            PEOPLE,
            "people.csv has the columns name, full text: choose the one with the text by --column",
        ),
        ("{text}", "name", "Alice", "--column name: the rows of people.csv are texts without columns; leave it out"),
        ("{name}", None, "Alice", "--prompt: the rows of people.csv are texts, and {name} is not {text}"),
    ],
)
def test_a_missing_column_is_an_error(prompt: str, column: str | None, row: Any, message: str) -> None:
    with pytest.raises(ToolcastError) as error:
        plan_columns(prompt, column, row, "people.csv")
    assert str(error.value).startswith(message)


def test_a_prompt_with_a_lone_brace_is_an_error() -> None:
    with pytest.raises(PromptError):
        plan_columns("{", None, "Alice", "people.csv")


def numbers() -> Iterator[int]:
    yield 1


def test_a_generator_is_a_stream() -> None:
    assert list(first_of(numbers(), "x")[1]) == [1]
