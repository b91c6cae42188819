"""Files of sessions with one byte changed: they give the right records, or an error that names the file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from toolcast.agents.engine.session_state import fold
from toolcast.errors import ToolcastError
from toolcast.stores.jsonl_store import JSONLStore
from toolcast.stores.sqlite_store import SQLiteStore
from toolcast.stores.store import CHECKSUM, Store

STORED = Path(__file__).parents[1] / "data/stored/sessions/sub-agents.jsonl"
FLIPS = pytest.mark.parametrize(
    "flips", [300, pytest.param(10_000, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)])]
)


def flipped(content: bytes, random: Random) -> bytes:
    damaged = bytearray(content)
    damaged[random.randrange(len(content))] ^= random.randrange(1, 256)
    return bytes(damaged)


def read_sqlite(path: Path) -> list[dict[str, Any]]:
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    with SQLiteStore(path) as store:
        return store.read("a")


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return JSONLStore(path.parent).read("a")


@FLIPS
@pytest.mark.parametrize(("name", "read"), [("a.jsonl", read_jsonl), ("a.sqlite", read_sqlite)])
def test_a_flipped_byte_never_gives_other_records(
    tmp_path: Path, name: str, read: Callable[[Path], list[dict[str, Any]]], flips: int
) -> None:
    records, path = JSONLStore(STORED.parent).read(STORED.stem), tmp_path / name
    store: Store = JSONLStore(path.parent) if name == "a.jsonl" else SQLiteStore(path)
    for record in records:
        store.append("a", [record])
    if isinstance(store, SQLiteStore):
        store.append("b", records)
        store.close()
    content, random, results = path.read_bytes(), Random(flips), Counter[str]()
    for _ in range(flips):
        damaged = flipped(content, random)
        path.write_bytes(damaged)
        try:
            found = read(path)
        except ToolcastError as error:
            assert str(path) in str(error)
            results["error"] += 1
        else:
            assert found == records
            results["right"] += 1
    assert results["error"] > flips / 10


@FLIPS
def test_a_flipped_byte_of_a_file_without_checksums_is_no_foreign_error(tmp_path: Path, flips: int) -> None:
    path = tmp_path / "a.jsonl"
    content, random, results = STORED.read_bytes(), Random(flips), Counter[str]()
    assert CHECKSUM.encode() not in content
    for _ in range(flips):
        path.write_bytes(flipped(content, random))
        try:
            fold(read_jsonl(path))
        except ToolcastError as error:
            assert re.search(f"{re.escape(str(path))}|record \\d+ of the session|its log is empty", str(error))
            results["error"] += 1
    assert results["error"] > flips / 10


def test_an_append_does_not_remove_a_line_whose_line_break_is_damaged(tmp_path: Path) -> None:
    store, path = JSONLStore(tmp_path), tmp_path / "a.jsonl"
    store.append("a", [{"n": 1}])
    path.write_bytes(path.read_bytes()[:-1] + b"\x0b")
    for use in (lambda: store.append("a", [{"n": 2}]), lambda: store.read("a")):
        with pytest.raises(ToolcastError, match=r"a\.jsonl, the last line is damaged: its line break"):
            use()


def test_the_name_of_the_checksum_is_reserved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'crc32' is the name of the checksum"):
        JSONLStore(tmp_path).append("a", [{CHECKSUM: 1}])


def test_a_record_without_its_checksum_is_read_after_a_repair(tmp_path: Path) -> None:
    store, path = JSONLStore(tmp_path), tmp_path / "a.jsonl"
    store.append("a", [{"n": 1}])
    text = path.read_text("utf-8").replace('"n":1', '"n":2')
    path.write_text(text, "utf-8")
    with pytest.raises(
        ToolcastError, match=r"line 2 is damaged: its checksum is wrong \(remove 'crc32' after a repair\)"
    ):
        store.read("a")
    path.write_text(re.sub(r'("n":2),"crc32":"\w+"', r"\1", text), "utf-8")
    assert store.read("a") == [{"n": 2}]
