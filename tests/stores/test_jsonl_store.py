"""JSONL files: format, truncation at every byte, damage, and full disks."""

from __future__ import annotations

import errno
import logging
import os
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.errors import ToolcastError
from toolcast.stores import jsonl_store
from toolcast.stores.jsonl_store import JSONLStore
from toolcast.stores.store import to_record_text

BATCHES = [[{"n": 1}], [{"n": 2}, {"text": "ä\u2028\n\U0001f600"}], [{"n": 3}]]


def store_of(folder: Path, batches: list[list[dict[str, Any]]]) -> tuple[JSONLStore, Path]:
    store = JSONLStore(folder)
    path = store.folder / "a.jsonl"
    path.unlink(missing_ok=True)
    for batch in batches:
        store.append("a", batch)
    return store, path


def prefixes(batches: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    return list(accumulate(batches, initial=[]))


def test_a_line_is_what_was_appended_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl_store.time, "time_ns", lambda: 5)
    _, path = store_of(tmp_path / "deep" / "er", [[{"n": 1}], [{"n": 2}, {"n": 3}]])
    records = [to_record_text({"n": number}) for number in (1, 2, 3)]
    assert path.read_text("utf-8").splitlines() == [
        '{"toolcast":"session","version":1,"begun":5,"crc32":"241daca4"}',
        f"[{records[0]}]",
        f"[{records[1]},{records[2]}]",
    ]


@pytest.mark.slow
def test_cut_at_every_byte_it_reads_as_a_prefix(tmp_path: Path) -> None:
    store, path = store_of(tmp_path, BATCHES)
    whole = path.read_bytes()
    seen = []
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        seen.append(store.read("a"))
        assert seen[-1] in prefixes(BATCHES)
        assert store.ids() == ["a"]
    assert [one for n, one in enumerate(seen) if one not in seen[:n]] == prefixes(BATCHES)


@pytest.mark.slow
def test_cut_at_every_byte_it_is_repaired_by_the_next_append(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, path = store_of(tmp_path, BATCHES)
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        left = store.read("a")
        caplog.clear()
        store.append("a", [{"n": 4}])
        store.append("a", [{"n": 5}])
        assert store.read("a") == [*left, {"n": 4}, {"n": 5}]
        warnings = [record for record in caplog.records if "cut off by a crash" in record.getMessage()]
        assert len(warnings) == (cut > 0 and whole[cut - 1 : cut] != b"\n")
        assert all(record.levelno == logging.WARNING for record in warnings)


@given(st.lists(st.lists(st.dictionaries(st.text("ab"), st.text()), min_size=1, max_size=3), max_size=4), st.data())
def test_any_batches_cut_anywhere(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[dict[str, Any]]], data: st.DataObject
) -> None:
    store, path = store_of(tmp_path_factory.getbasetemp() / "cut", batches)
    whole = path.read_bytes() if batches else b""
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    assert store.read("a") in prefixes(batches)


@pytest.mark.parametrize(
    "line",
    ["", "{", '{"n": 1}', "[1]", "[{}, []]", "7", "[" * 100_000, "\x00\x00", '[{"n": Infinity}]', '[{"n": 1e400}]'],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    store, path = store_of(tmp_path, BATCHES)
    lines = path.read_text("utf-8").split("\n")
    path.write_text("\n".join([*lines[:2], line, *lines[2:]]), "utf-8")
    with pytest.raises(ToolcastError, match=r"a\.jsonl, line 3 is damaged: .*repair it by hand"):
        store.read("a")


@pytest.mark.parametrize("line", ["", "{", "[]", "7", "{}", '{"version": "1"}'])
def test_a_damaged_first_line_is_named_and_hides_no_other_log(tmp_path: Path, line: str) -> None:
    store, path = store_of(tmp_path, BATCHES)
    store.append("b", [{}])
    path.write_text(f"{line}\n[]\n")
    with pytest.raises(ToolcastError, match=r"a\.jsonl, line 1 is damaged"):
        store.read("a")
    assert store.ids() == ["a", "b"]


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    store, path = store_of(tmp_path, BATCHES)
    path.write_bytes(path.read_bytes().replace("ä".encode(), b"\xff"))
    with pytest.raises(ToolcastError, match="line 3 is damaged"):
        store.read("a")


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    store, path = store_of(tmp_path, BATCHES)
    path.write_text('{"toolcast": "session", "version": 2, "begun": 1}\n{"what": "ever"}\n')
    with pytest.raises(ToolcastError, match=r"newer toolcast \(version 2 of the file, 1 is known\): upgrade"):
        store.read("a")


def test_a_file_that_ends_with_its_first_line_has_no_records(tmp_path: Path) -> None:
    store, path = store_of(tmp_path, BATCHES)
    path.write_bytes(path.read_bytes().split(b"\n")[0] + b"\n")
    assert store.read("a") == []


def test_other_files_are_no_logs(tmp_path: Path) -> None:
    store, _ = store_of(tmp_path, BATCHES)
    for name in ("B.jsonl", "notes.txt", " x.jsonl", "b.lock"):
        (tmp_path / name).write_text("mine")
    assert store.ids() == ["a"]


def test_what_a_full_disk_took_half_of_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, path = store_of(tmp_path, BATCHES)
    before, write = path.read_bytes(), os.write
    with monkeypatch.context() as full:
        full.setattr(jsonl_store.os, "write", lambda fd, data: write(fd, data[:5]))
        with pytest.raises(ToolcastError, match=r"a\.jsonl failed: .*No space left on device") as raised:
            store.append("a", [{"n": 4}])
    assert isinstance(raised.value.__cause__, OSError) and raised.value.__cause__.errno == errno.ENOSPC
    assert path.read_bytes() == before
    store.append("a", [{"n": 4}])
    assert store.read("a")[-1] == {"n": 4}


def test_system_errors_are_reported(tmp_path: Path) -> None:
    store, path = store_of(tmp_path, BATCHES)
    path.unlink()
    path.mkdir()
    (tmp_path / "file").touch()
    for use in (
        lambda: store.append("a", [{}]),
        lambda: store.read("a"),
        lambda: store.delete("a"),
        store.ids,
        lambda: JSONLStore(tmp_path / "file" / "sessions"),
    ):
        with pytest.raises(ToolcastError, match=r" failed: .* Is it a store's file, free and writable\?") as raised:
            use()
        assert isinstance(raised.value.__cause__, OSError)
