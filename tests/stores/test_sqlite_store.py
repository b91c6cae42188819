"""The SQLite store: file, version, damage, and deleted logs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolcast.errors import SessionLocked, ToolcastError
from toolcast.stores import sqlite_store
from toolcast.stores.sqlite_store import SQLiteStore


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


def test_the_file_has_an_application_id_and_a_version(store: SQLiteStore, path: Path) -> None:
    pragmas = execute(path, "PRAGMA application_id", "PRAGMA user_version", "PRAGMA journal_mode")
    assert pragmas == [(sqlite_store.LAYOUT.owner,), (sqlite_store.LAYOUT.version,), ("wal",)]


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


def test_a_newer_file_is_refused(store: SQLiteStore, path: Path) -> None:
    store.append("a", [{}])
    execute(path, f"PRAGMA user_version = {sqlite_store.LAYOUT.version + 1}")
    with pytest.raises(ToolcastError, match=r"newer toolcast \(version 2 of the tables, 1 is known\): upgrade"):
        SQLiteStore(path)


@pytest.mark.parametrize("text", ["{", "[]", "7", "", "[" * 100_000, '{"n": NaN}', '{"n": -1e400}'])
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
    with SQLiteStore(path) as damaged, pytest.raises(ToolcastError, match=r"sessions\.db is damaged: the definitions"):
        damaged.read("a")


def test_a_damaged_schema_is_reported(path: Path) -> None:
    with SQLiteStore(path) as store:
        store.append("a", [{}])
    path.write_bytes(path.read_bytes().replace(b"CREATE INDEX", b"CREATE\xffINDEX"))
    with pytest.raises(ToolcastError, match=r"sessions\.db failed: ") as raised, SQLiteStore(path) as store:
        store.read("a")
    assert isinstance(raised.value.__cause__, (UnicodeError, sqlite3.Error))


def test_a_claim_whose_folder_is_a_file(store: SQLiteStore, path: Path) -> None:
    path.with_name("sessions.db.locks").touch()
    with pytest.raises(ToolcastError, match=r"sessions\.db failed: ") as raised:
        store.claim("a")
    assert isinstance(raised.value.__cause__, OSError)


def test_deleted_records_are_gone(store: SQLiteStore, path: Path) -> None:
    store.append("a", [{}, {}])
    store.append("b", [{}])
    store.delete("a")
    assert execute(path, "SELECT count(*) FROM records") == [(1,)]


def test_a_closed_store_is_reported(path: Path) -> None:
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
    with SQLiteStore(link) as other, store.claim("a"), pytest.raises(SessionLocked):
        other.claim("a")


def test_an_append_costs_the_same_however_long_the_log_is(store: SQLiteStore, path: Path) -> None:
    """Counted are the steps of SQLite's machine and the pages that are written."""
    record = {"kind": "message", "text": "some words of an answer " * 10}
    for id in ("short", "long", "another"):
        store.append(id, [record])
    store.append("long", [record] * 20_000)

    def cost(id: str) -> tuple[int, int]:
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1

        with store._file.using() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.set_progress_handler(step, 1)
        store.append(id, [record])
        with store._file.using() as connection:
            connection.set_progress_handler(None, 1)
        return steps, path.with_name(f"{path.name}-wal").stat().st_size

    (few, _), (many, written) = cost("short"), cost("long")
    assert few == many
    assert written < 8 * 4200  # the page of the record, that of the index, and what a page that is full moves
