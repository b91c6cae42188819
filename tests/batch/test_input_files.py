"""Tests of files as inputs: what is read, and how bad rows and bad files are reported."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import threading
import tracemalloc
from collections.abc import Callable
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from toolcast import ToolOrchestratingLLM
from toolcast.batch import BadRow
from toolcast.batch.input_files import (
    FileError,
    FileRows,
    RowError,
    _FieldLimit,
    read_csv,
    read_errors,
    read_file,
    read_jsonl,
    read_parquet,
)
from toolcast.batch.inputs import length_of
from toolcast.testing import ScriptedLLM


def file_of(tmp_path: Path, name: str, content: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def shown(rows: FileRows) -> list[Any]:
    """The rows, and for a bad one its text and its error behind the name of the file."""
    return [
        (row.input, str(row.error).removeprefix(f"{rows.path}, ")) if isinstance(row, BadRow) else row for row in rows
    ]


# CSV.


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"text,n\nhello,1\nbye,2\n"),
        ("a.csv", b"text,n\r\nhello,1\r\nbye,2"),
        ("a.csv", b"\xef\xbb\xbftext,n\n\nhello,1\n\nbye,2\n\n"),
        ("a.csv", b'"text","n"\n"hello","1"\nbye,2\n'),
        ("a.csv", b"text;n\nhello;1\nbye;2\n"),
        ("a.csv", b"text\tn\nhello\t1\nbye\t2\n"),
        ("a.TSV", b"text\tn\nhello\t1\nbye\t2\n"),
        ("a.csv.gz", b"text,n\nhello,1\nbye,2\n"),
        ("a.tsv.gz", b"text\tn\nhello\t1\nbye\t2\n"),
    ],
)
def test_rows_of_csv(tmp_path: Path, name: str, content: bytes) -> None:
    rows = read_file(file_of(tmp_path, name, content))
    assert [*rows] == [{"text": "hello", "n": "1"}, {"text": "bye", "n": "2"}]
    assert [*rows] == [*rows]
    assert repr(rows).endswith(f"{name}')")


def test_fields_with_quotes_commas_and_line_breaks(tmp_path: Path) -> None:
    path = file_of(tmp_path, "a.csv", 'text,n\n"a ""quote"", and\r\na line",1\n5" pipe,"é\n"\n'.encode())
    assert [*read_csv(path)] == [{"text": 'a "quote", and\r\na line', "n": "1"}, {"text": '5" pipe', "n": "é\n"}]


def test_columns_without_a_name_get_one(tmp_path: Path) -> None:
    path = file_of(tmp_path, "a.csv", b",text, \n0,a,b\n")
    assert [*read_csv(path)] == [{"column_1": "0", "text": "a", "column_3": "b"}]


def test_another_encoding_and_delimiter(tmp_path: Path) -> None:
    path = file_of(tmp_path, "a.csv", "text|n\nné|1,5\n".encode("cp1252"))
    assert [*read_csv(path, encoding="cp1252", delimiter="|")] == [{"text": "né", "n": "1,5"}]
    with pytest.raises(ValueError, match="encoding='utf-16': expected one in which ASCII is ASCII"):
        read_csv(path, encoding="utf-16")


@pytest.mark.fault(153)
def test_bad_rows_of_csv_are_rows_with_an_error(tmp_path: Path) -> None:
    content = (
        b"text,n\n"
        b"one,1\n"
        b"\xff\xfe,2\n"  # no UTF-8
        b"three\n"
        b"four,4,4\n"
        b'"five"x,5\n'  # text after a quoted field
        b"six,6\n"
        b'"seven\nlines",\xff\n'
        b"eight,8\n"
        b'nine,"9\n'  # a quote that is not closed
        b"ten,10\n"
    )
    found = shown(read_csv(file_of(tmp_path, "a.csv", content)))
    assert found == [
        {"text": "one", "n": "1"},
        ("��,2", "line 3: the text is not valid utf-8"),
        ("three", "line 4: expected 2 columns as in the first row, got 1"),
        ("four,4,4", "line 5: expected 2 columns as in the first row, got 3"),
        ('"five"x,5', "line 6: expected CSV: ',' expected after '\"'"),
        {"text": "six", "n": "6"},
        ('"seven\nlines",�', "line 8: the text is not valid utf-8"),
        {"text": "eight", "n": "8"},
        ('nine,"9', "line 11: expected CSV: unexpected end of data"),
        {"text": "ten", "n": "10"},
    ]


def test_a_bad_row_has_an_error_of_its_own_class(tmp_path: Path) -> None:
    [row] = read_csv(file_of(tmp_path, "a.csv", b"text,n\n" + b"x" * 5_000 + b"\n"))
    assert isinstance(row, BadRow)
    assert isinstance(row.error, RowError)
    assert row.input == "x" * 1_000


def test_long_fields_are_read_up_to_the_limit(tmp_path: Path) -> None:
    usual = csv.field_size_limit()
    long = "x" * 500_000
    path = file_of(tmp_path, "a.csv", f"text\n{long}\nshort\n".encode())
    assert [len(row["text"]) for row in read_csv(path)] == [500_000, 5]
    assert csv.field_size_limit() == usual
    found = shown(read_csv(path, longest_row=100_000))
    assert found == [
        ("x" * 1_000, "line 2: expected CSV: the row has more than 100,000 bytes; is a quote not closed?"),
        {"text": "short"},
    ]
    assert csv.field_size_limit() == usual


@pytest.mark.fault(153)
def test_a_quote_that_is_not_closed_swallows_one_row(tmp_path: Path) -> None:
    lines = b"".join([b"row,%d\n" % number for number in range(1_000)])
    path = file_of(tmp_path, "a.csv", b'text,n\n"open,0\n' + lines)
    first, *others = shown(read_csv(path, longest_row=2_000))
    assert first == ('"open,0', "line 2: expected CSV: the row has more than 2,000 bytes; is a quote not closed?")
    assert others == [{"text": "row", "n": str(number)} for number in range(1_000)]


def test_threads_read_long_fields_at_once(tmp_path: Path) -> None:
    usual = csv.field_size_limit()
    path = file_of(tmp_path, "a.csv", b"text\n" + b"\n".join([b"x" * 200_000] * 10))
    found: list[list[int]] = []

    def read() -> None:
        found.append([len(row["text"]) for row in read_csv(path)])

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[200_000] * 10] * 4
    assert csv.field_size_limit() == usual


def test_the_limit_on_a_field_is_lifted_until_its_last_user_has_ended() -> None:
    usual = csv.field_size_limit()
    limit = _FieldLimit()
    limit.widen()
    limit.widen()
    limit.restore()
    assert csv.field_size_limit() > usual
    limit.restore()
    assert csv.field_size_limit() == usual


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a.csv is empty: expected a first row"),
        (b"\n\n", "expected a first row with the names of the columns"),
        (b"a,b,a\n1,2,3\n", "line 1: the column 'a' is there twice: rename one"),
        (b'a,"b\n', "line 1: expected CSV: unexpected end of data"),
        (b"a,\xff\n1,2\n", "line 1: the text is not valid utf-8"),
        ("a,b\n1,2\n".encode("utf-16"), "a.csv is UTF-16: convert it to UTF-8"),
    ],
)
def test_a_csv_file_without_a_header(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(FileError, match=message):
        [*read_csv(file_of(tmp_path, "a.csv", content))]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))


@given(st.lists(st.tuples(texts, texts), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_what_the_csv_module_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], end: str
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerow(["text", "n"])
    writer.writerows(rows)
    path.write_bytes(stream.getvalue().encode())
    assert [*read_csv(path)] == [{"text": text, "n": n} for text, n in rows]


@given(st.binary(max_size=200))
def test_any_bytes_are_rows_or_a_file_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    for name in ("a.csv", "a.jsonl", "a.errors.jsonl"):
        path = tmp_path_factory.mktemp("any") / name
        path.write_bytes(content)
        try:
            rows = [*read_file(path)]
        except FileError:
            continue
        assert len(rows) <= content.count(b"\n") + content.count(b"\r") + 1


# JSON Lines.


def test_rows_of_json_lines(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbf{"text": "a"}\r\n\n  \n7\n"x"\nnull\n[1]'
    for name in ("a.jsonl", "a.ndjson", "a.jsonl.gz"):
        assert [*read_file(file_of(tmp_path, name, content))] == [{"text": "a"}, 7, "x", None, [1]]


@pytest.mark.fault(153)
def test_bad_lines_are_rows_with_an_error(tmp_path: Path) -> None:
    content = b'{"a": 1}\n{"a": \n\xff\n' + b"[" * 100_000 + b'\n{"a": 2} {"a": 3}\n{"a": 4}\n'
    found = shown(read_jsonl(file_of(tmp_path, "a.jsonl", content)))
    assert [row for row in found if isinstance(row, dict)] == [{"a": 1}, {"a": 4}]
    errors = [row for row in found if not isinstance(row, dict)]
    assert [text for text, _ in errors] == ['{"a": ', "�", "[" * 1_000, '{"a": 2} {"a": 3}']
    assert [error.partition(":")[0] for _, error in errors] == ["line 2", "line 3", "line 4", "line 5"]
    assert all("expected JSON: " in error for _, error in errors)


@pytest.mark.parametrize("read", [read_jsonl, read_csv])
@pytest.mark.fault(153)
def test_a_line_of_100_megabytes_takes_no_memory(tmp_path: Path, read: Callable[..., FileRows]) -> None:
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(b'"head"\n')
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b'\n"end"\n')
    tracemalloc.start()
    try:
        rows = [*read(path, longest_row=1_000_000)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [type(row).__name__ for row in rows][-2:] in (["BadRow", "str"], ["BadRow", "dict"])
    assert peak < 10_000_000


def test_an_errors_file_is_read_as_the_inputs_in_it(tmp_path: Path) -> None:
    lines = [{"index": 1, "input": {"text": "a"}, "error": {"type": "Timeout"}}, {"input": "a"}, [], 7]
    path = file_of(tmp_path, "people.errors.jsonl", b"{\n" + "\n".join(map(json.dumps, lines)).encode())
    found = shown(read_file(path))
    assert found[1] == {"text": "a"}
    assert [text for text, _ in [found[0], *found[2:]]] == ["{", '{"input": "a"}', "[]", "7"]
    assert "line 3: expected an object with `input` and `error`" in found[2][1]
    assert shown(read_errors(path)) == found


# Parquet.


def test_rows_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"t{n}" for n in range(2_500)], "on": [date(2024, 1, 1)] * 2_500})
    pq.write_table(table, path)
    rows = read_file(path)
    assert len(rows) == 2_500  # type: ignore[arg-type]  # of a Parquet file it is known
    assert [row["text"] for row in rows] == [f"t{n}" for n in range(2_500)]
    assert next(iter(rows)) == {"text": "t0", "on": date(2024, 1, 1)}
    assert next(iter(read_parquet(path, columns=["on"]))) == {"on": date(2024, 1, 1)}
    with pytest.raises(FileError, match=r"has no column 'name'; it has: text, on"):
        [*read_parquet(path, columns=["name"])]


def test_bad_parquet_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot be read as Parquet: "):
        [*read_parquet(file_of(tmp_path, "a.parquet", b"PAR1 and no more"))]
    with pytest.raises(FileNotFoundError, match="there is no file"):
        [*read_parquet(tmp_path / "b.parquet")]
    path = tmp_path / "c.parquet"
    pq.write_table(pa.table({"text": [str(n) * 100 for n in range(5_000)]}), path, row_group_size=1_000)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 200] = b"\xff" * 200
    path.write_bytes(content)
    rows = []
    with pytest.raises(FileError, match=r"c\.parquet cannot be read as Parquet"):
        for row in read_parquet(path):
            rows.append(row)  # the rows before the damage are counted
    assert len(rows) % 1_000 == 0
    assert rows


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[parquet\]'"):
        read_parquet(tmp_path / "a.parquet")


# Files.


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    for name in ("a.xlsx", "a", "csv"):
        with pytest.raises(FileError, match=r"expected a file with the suffix \.csv, .*read_csv, read_jsonl"):
            read_file(tmp_path / name)


def test_a_missing_file(tmp_path: Path) -> None:
    for rows in (read_csv(tmp_path / "a.csv"), read_jsonl(tmp_path / "a.jsonl.gz")):
        with pytest.raises(FileNotFoundError):
            next(iter(rows))


def test_a_damaged_archive_ends_the_rows(tmp_path: Path) -> None:
    whole = gzip.compress("".join([f'{{"n": {n}, "x": "{Random(n).random()}"}}\n' for n in range(20_000)]).encode())
    for content in (whole[: len(whole) // 2], whole[:1_000] + b"\xff" * 100 + whole[1_100:]):
        path = tmp_path / "a.jsonl.gz"
        path.write_bytes(content)
        rows = []
        with pytest.raises(FileError, match=r"cannot be read after line \d+: .*Is it complete"):
            for row in read_jsonl(path):
                rows.append(row)  # the rows before the damage are counted
    path.write_bytes(b"no archive")
    with pytest.raises(FileError, match="cannot be read after line 0: Not a gzipped file"):
        [*read_jsonl(path)]


def test_a_path_is_a_source_of_inputs(tmp_path: Path) -> None:
    path = file_of(tmp_path, "people.csv", b"text\nAda\n\xff\nAlan\n")
    call = ToolOrchestratingLLM(str, "{text}", ScriptedLLM(lambda request: {"value": request.messages[-1].text}))
    outcomes = [*call.map(path)]
    assert [each.output for each in outcomes] == ["Ada", None, "Alan"]
    assert isinstance(outcomes[1].error, RowError)
    assert outcomes[1].input == "�"
    with pytest.raises(FileError, match="expected a file with the suffix"):
        call.map(tmp_path / "people.xlsx")


def test_the_number_of_rows_of_a_path(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "a.parquet")
    assert length_of(tmp_path / "a.parquet") == 2
    assert length_of(file_of(tmp_path, "a.csv", b"text\na\n")) is None
