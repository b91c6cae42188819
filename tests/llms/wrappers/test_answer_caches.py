"""The caches in memory and in a file: size limits, permissions, sharing."""

from __future__ import annotations

import copy
import pickle
import stat
import sys
from pathlib import Path

import pytest

from toolcast import ToolcastError
from toolcast.llms import MemoryCache, SQLiteCache
from toolcast.stores import SQLiteStore


@pytest.fixture(params=["memory", "sqlite"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryCache | SQLiteCache:
    """Return each cache in turn, with room for ten bytes."""
    return MemoryCache(10) if request.param == "memory" else SQLiteCache(tmp_path / "answers.db", 10)


def test_values_are_replaced_and_removed(small: MemoryCache | SQLiteCache) -> None:
    assert small.get("a") is None
    small.set("a", b"one")
    small.set("a", b"two")
    assert small.get("a") == b"two"
    small.clear()
    assert small.get("a") is None


def test_the_size_is_limited(small: MemoryCache | SQLiteCache) -> None:
    for name in "abc":
        small.set(name, b"12345")
    assert [small.get(name) for name in "abc"] == [None, b"12345", b"12345"]
    small.set("b", b"x" * 11)
    assert [small.get(name) for name in "bc"] == [None, b"12345"]
    small.set("d", b"12345")
    assert [small.get(name) for name in "cd"] == [b"12345", b"12345"]


def test_memory_keeps_what_was_used_last() -> None:
    cache = MemoryCache(10)
    cache.set("a", b"12345")
    cache.set("b", b"12345")
    cache.get("a")
    cache.set("c", b"12345")
    assert [cache.get(name) for name in "abc"] == [b"12345", None, b"12345"]


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_wrong_limit(wrong: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_bytes"):
        MemoryCache(wrong)
    with pytest.raises(TypeError, match="max_bytes"):
        SQLiteCache(tmp_path / "a.db", "1")  # type: ignore[arg-type]  # the test


def test_copies_have_their_limit_and_their_file(tmp_path: Path) -> None:
    assert pickle.loads(pickle.dumps(MemoryCache(7))).max_bytes == 7
    with SQLiteCache(tmp_path / "a.db", 10) as cache:
        cache.set("a", b"x")
        with copy.deepcopy(cache) as other:
            assert (other.get("a"), other.max_bytes) == (b"x", 10)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions: NOT TESTED")
def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    with SQLiteCache(tmp_path / "a.db") as cache:
        cache.set("a", b"x")
        for path in tmp_path.glob("a.db*"):
            assert path.is_dir() or stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_of_another_kind_is_not_touched(tmp_path: Path) -> None:
    SQLiteStore(tmp_path / "a.db").close()
    with pytest.raises(ToolcastError, match="another application"):
        SQLiteCache(tmp_path / "a.db")
    with pytest.raises(ValueError, match="MemoryCache"):
        SQLiteCache(":memory:")


def test_a_value_of_another_type_is_returned_as_bytes(tmp_path: Path) -> None:
    with SQLiteCache(tmp_path / "a.db") as cache:
        with cache._file.changing() as connection:
            connection.execute("INSERT INTO entries (key, value) VALUES ('a', 'text')")
        assert cache.get("a") == b"text"
