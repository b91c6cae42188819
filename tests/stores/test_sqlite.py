"""sqlite.py: the file, its version, what is no store's file, and forks."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolcast.errors import SessionTaken, ToolcastError
from toolcast.stores import sqlite
from toolcast.stores.locks import claim_file
from toolcast.stores.sqlite import SQLiteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    with SQLiteStore(path) as store:
        yield store


def execute(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """What a stranger does to the file."""
    connection = sqlite3.connect(path)
    try:
        rows = [row for statement in statements for row in connection.execute(statement).fetchall()]
        connection.commit()
    finally:
        connection.close()
    return rows


def test_the_file_says_what_it_is(store: SQLiteStore, path: Path) -> None:
    said = execute(path, "PRAGMA application_id", "PRAGMA user_version", "PRAGMA journal_mode")
    assert said == [(sqlite.OURS,), (sqlite.VERSION,), ("wal",)]


def test_folders_are_made(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "a" / "b" / "sessions.db") as store:
        store.append("a", [{}])
    assert store.path.exists()


def test_an_append_that_fails_in_the_middle_leaves_nothing(store: SQLiteStore, path: Path) -> None:
    store.append("a", [{"n": 1}])
    execute(
        path,
        "CREATE TRIGGER full BEFORE INSERT ON records WHEN NEW.record LIKE '%bad%' "
        "BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    for id in ("a", "b"):
        with pytest.raises(ToolcastError, match=r"sessions\.db failed: no\."):
            store.append(id, [{"n": 2}, {"n": "bad"}])
    assert (store.ids(), store.read("a")) == (["a"], [{"n": 1}])
    store.append("a", [{"n": 3}])
    assert store.read("a") == [{"n": 1}, {"n": 3}]


def test_a_failure_that_has_rolled_back_by_itself(store: SQLiteStore, path: Path) -> None:
    execute(path, "CREATE TRIGGER full BEFORE INSERT ON records BEGIN SELECT RAISE(ROLLBACK, 'full'); END")
    with pytest.raises(ToolcastError, match="failed: full"):
        store.append("a", [{"n": 1}])
    assert store.ids() == []


def test_a_database_that_is_held_by_another_says_so(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WAIT", 0.0)
    other = sqlite3.connect(path, isolation_level=None)
    try:
        with SQLiteStore(path) as impatient:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(ToolcastError, match="locked"):
                impatient.append("a", [{}])
            assert impatient.read("a") == []
    finally:
        other.close()
    store.append("a", [{}])


def test_a_newer_file_is_refused(store: SQLiteStore, path: Path) -> None:
    store.append("a", [{}])
    execute(path, f"PRAGMA user_version = {sqlite.VERSION + 1}")
    with pytest.raises(ToolcastError, match=r"newer toolcast \(version 2 of the tables, 1 is known\): upgrade"):
        SQLiteStore(path)


@pytest.mark.parametrize("said", ["PRAGMA application_id = 7", "PRAGMA user_version = 7", "CREATE TABLE cats (name)"])
def test_a_database_of_something_else_is_left_alone(path: Path, said: str) -> None:
    execute(path, said)
    before = path.read_bytes()
    with pytest.raises(ToolcastError, match="database of something else: give the store a file of its own"):
        SQLiteStore(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    path.write_text("my diary, and nothing for a store" * 100)
    with pytest.raises(ToolcastError, match=r"sessions\.db failed: file is not a database"):
        SQLiteStore(path)
    assert path.read_text().startswith("my diary")


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with SQLiteStore(path) as store:
        store.append("a", [{}])
        assert store.ids() == ["a"]


def test_opening_waits_for_another_that_opens(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = claim_file(sqlite._lock_file(path, "_opening"), "sessions.db")
    monkeypatch.setattr(sqlite.time, "sleep", lambda seconds: other.release())
    with SQLiteStore(path) as store:
        store.append("a", [{}])


def test_opening_does_not_wait_forever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 4.0, 6.0])
    monkeypatch.setattr(sqlite.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(sqlite.time, "sleep", lambda seconds: None)
    told = r"sessions\.db is still being opened by another after 5 seconds: end that process"
    with claim_file(sqlite._lock_file(path, "_opening"), "sessions.db"), pytest.raises(ToolcastError, match=told):
        SQLiteStore(path)


@pytest.mark.parametrize("text", ["{", "[]", "7", "", "[" * 100_000])
def test_a_damaged_record_is_named(store: SQLiteStore, path: Path, text: str) -> None:
    store.append("a", [{}, {}])
    execute(path, f"UPDATE records SET record = '{text}' WHERE number = 2")
    with pytest.raises(ToolcastError, match=r"sessions\.db, record 2 of a is damaged"):
        store.read("a")


@pytest.mark.parametrize("value", ["NULL", "7", "x'ff'"])
def test_a_record_that_is_no_text_is_named(store: SQLiteStore, path: Path, value: str) -> None:
    store.append("a", [{}])
    execute(
        path,
        "PRAGMA writable_schema = 1",
        "UPDATE sqlite_master SET sql = 'CREATE TABLE records (number INTEGER PRIMARY KEY, session INTEGER, record)' "
        "WHERE name = 'records'",
    )
    execute(path, f"UPDATE records SET record = {value}")
    with SQLiteStore(path) as damaged, pytest.raises(ToolcastError, match=r"sessions\.db, record 1 of a is damaged"):
        damaged.read("a")


def test_a_damaged_schema_says_so(path: Path) -> None:
    with SQLiteStore(path) as store:
        store.append("a", [{}])
    path.write_bytes(path.read_bytes().replace(b"CREATE INDEX", b"CREATE\xffINDEX"))
    with pytest.raises(ToolcastError, match=r"sessions\.db failed: ") as raised, SQLiteStore(path) as store:
        store.read("a")
    assert isinstance(raised.value.__cause__, (UnicodeError, sqlite3.Error))


def test_what_the_system_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ToolcastError, match=r"sessions\.db failed: .* Is it a store's file") as raised:
        SQLiteStore(tmp_path / "file" / "sessions.db")
    assert isinstance(raised.value.__cause__, OSError)


def test_a_claim_whose_folder_is_a_file(store: SQLiteStore, path: Path) -> None:
    folder = path.with_name("sessions.db.locks")
    folder.rmdir()
    folder.touch()
    with pytest.raises(ToolcastError, match=r"sessions\.db failed: ") as raised:
        store.claim("a")
    assert isinstance(raised.value.__cause__, OSError)


def test_deleted_records_are_gone(store: SQLiteStore, path: Path) -> None:
    store.append("a", [{}, {}])
    store.append("b", [{}])
    store.delete("a")
    assert execute(path, "SELECT count(*) FROM records") == [(1,)]


def test_closed_it_says_so(path: Path) -> None:
    store = SQLiteStore(path)
    store.close()
    store.close()
    for use in (store.ids, lambda: store.read("a"), lambda: store.append("a", [{}])):
        with pytest.raises(ToolcastError, match="is closed: make another SQLiteStore"):
            use()


def test_memory_has_a_store_of_its_own() -> None:
    with pytest.raises(ValueError, match=r"MemoryStore\(\) is the store in memory"):
        SQLiteStore(":memory:")


def test_one_file_by_two_names_has_one_lock(store: SQLiteStore, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(store.path)
    with SQLiteStore(link) as other, store.claim("a"), pytest.raises(SessionTaken):
        other.claim("a")


def test_after_a_fork_it_opens_the_file_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # test_store.py forks; here, in one process, what the child does is looked at.
    store = SQLiteStore(path)
    store.append("a", [{"n": 1}])
    mine = store._connection
    kept: list[sqlite3.Connection] = []
    monkeypatch.setattr(sqlite, "_inherited", kept)
    with monkeypatch.context() as child:
        child.setattr(sqlite.os, "getpid", lambda: os.getppid())
        store.append("a", [{"n": 2}])
        assert store._connection is not mine and kept == [mine]
        store.close()
    assert mine.execute("SELECT count(*) FROM records").fetchone() == (2,)
    mine.close()


def test_a_child_does_not_close_its_parents(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SQLiteStore(path)
    with monkeypatch.context() as child:
        child.setattr(sqlite.os, "getpid", lambda: -1)
        store.close()
    assert store._connection.execute("SELECT 1").fetchone() == (1,)
    store.close()
