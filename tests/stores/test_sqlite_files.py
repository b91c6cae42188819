"""SQLite files: version, files of other applications, transactions, and forks."""

from __future__ import annotations

import gc
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.process import Process
from toolcast.errors import ToolcastError
from toolcast.stores import sqlite_files
from toolcast.stores.locks import claim_file
from toolcast.stores.sqlite_files import Layout, SQLiteFile

LAYOUT = Layout("Notes", 0x6E6F7465, 1, ("CREATE TABLE notes (text TEXT)",))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.db"


@pytest.fixture
def file(path: Path) -> Iterator[SQLiteFile]:
    file = SQLiteFile(path, LAYOUT)
    yield file
    file.close()


def execute(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """What a stranger does to the file."""
    connection = sqlite3.connect(path)
    try:
        rows = [row for statement in statements for row in connection.execute(statement).fetchall()]
        connection.commit()
    finally:
        connection.close()
    return rows


def add(file: SQLiteFile, *texts: str) -> None:
    with file.changing() as connection:
        for text in texts:
            connection.execute("INSERT INTO notes VALUES (?)", (text,))


def texts(file: SQLiteFile) -> list[str]:
    with file.using() as connection:
        return [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY rowid")]


def test_the_file_has_an_application_id_and_a_version(file: SQLiteFile, path: Path) -> None:
    statement = execute(path, "PRAGMA application_id", "PRAGMA user_version", "PRAGMA journal_mode")
    assert statement == [(LAYOUT.owner,), (LAYOUT.version,), ("wal",)]


def test_folders_are_made_and_only_the_owner_may_read(tmp_path: Path) -> None:
    file = SQLiteFile(tmp_path / "a" / "b" / "notes.db", LAYOUT)
    add(file, "one")
    made = [file.path, file.path.parent, file.path.with_name("notes.db-wal")]
    assert os.name == "nt" or [each.stat().st_mode & 0o077 for each in made] == [0, 0, 0]
    file.close()


def test_what_was_written_is_there_when_it_is_opened_again(file: SQLiteFile, path: Path) -> None:
    add(file, "one", "two")
    again = SQLiteFile(path, LAYOUT)
    assert texts(again) == ["one", "two"]
    again.close()


def test_all_of_a_transaction_is_done_or_nothing(file: SQLiteFile, path: Path) -> None:
    add(file, "one")
    execute(
        path,
        "CREATE TRIGGER full BEFORE INSERT ON notes WHEN NEW.text = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    with pytest.raises(ToolcastError, match=r"notes\.db failed: no\.") as raised:
        add(file, "two", "bad")
    assert isinstance(raised.value.__cause__, sqlite3.Error)
    with pytest.raises(KeyError), file.changing() as connection:
        connection.execute("INSERT INTO notes VALUES ('two')")
        raise KeyError
    assert texts(file) == ["one"]
    add(file, "three")
    assert texts(file) == ["one", "three"]


def test_a_failure_that_has_rolled_back_by_itself(file: SQLiteFile, path: Path) -> None:
    execute(path, "CREATE TRIGGER full BEFORE INSERT ON notes BEGIN SELECT RAISE(ROLLBACK, 'full'); END")
    with pytest.raises(ToolcastError, match="failed: full"):
        add(file, "one")
    assert texts(file) == []


def test_a_database_locked_by_another_process_is_reported(
    file: SQLiteFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_files, "WAIT", 0.0)
    other = sqlite3.connect(path, isolation_level=None)
    impatient = SQLiteFile(path, LAYOUT)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ToolcastError, match="locked"):
            add(impatient, "one")
        assert texts(impatient) == []
    finally:
        other.close()
        impatient.close()
    add(file, "one")


def test_a_newer_file_is_refused(file: SQLiteFile, path: Path) -> None:
    execute(path, f"PRAGMA user_version = {LAYOUT.version + 1}")
    with pytest.raises(ToolcastError, match=r"newer toolcast \(version 2 of the tables, 1 is known\): upgrade"):
        SQLiteFile(path, LAYOUT)


@pytest.mark.parametrize(
    "statement", ["PRAGMA application_id = 7", "PRAGMA user_version = 7", "CREATE TABLE cats (name)"]
)
def test_a_database_of_something_else_is_left_alone(path: Path, statement: str) -> None:
    execute(path, statement)
    before = path.read_bytes()
    with pytest.raises(ToolcastError, match="database of another application: use another file for the store"):
        SQLiteFile(path, LAYOUT)
    assert path.read_bytes() == before


def test_a_file_of_another_layout_is_something_else(file: SQLiteFile, path: Path) -> None:
    with pytest.raises(ToolcastError, match="database of another application"):
        SQLiteFile(path, Layout("Other", 0x6E6F7466, 1, ()))


def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    path.write_text("my diary, and nothing for a store" * 100)
    with pytest.raises(ToolcastError, match=r"notes\.db failed: file is not a database"):
        SQLiteFile(path, LAYOUT)
    assert path.read_text().startswith("my diary")


def test_an_empty_file_becomes_ours(path: Path) -> None:
    path.touch()
    file = SQLiteFile(path, LAYOUT)
    add(file, "one")
    file.close()


def test_opening_waits_for_another_that_opens(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = claim_file(path.with_name("notes.db.opening"), "notes.db")
    monkeypatch.setattr(sqlite_files.time, "sleep", lambda seconds: other.release())
    file = SQLiteFile(path, LAYOUT)
    add(file, "one")
    file.close()


def test_opening_does_not_wait_forever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 4.0, 6.0])
    monkeypatch.setattr(sqlite_files.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(sqlite_files.time, "sleep", lambda seconds: None)
    message = r"notes\.db is still being opened by another after 5 seconds: end that process"
    opening = claim_file(path.with_name("notes.db.opening"), "notes.db")
    with opening, pytest.raises(ToolcastError, match=message):
        SQLiteFile(path, LAYOUT)


def test_system_errors_are_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ToolcastError, match=r"notes\.db failed: .* Is it a store's file") as raised:
        SQLiteFile(tmp_path / "file" / "notes.db", LAYOUT)
    assert isinstance(raised.value.__cause__, OSError)


def test_a_closed_store_is_reported(file: SQLiteFile) -> None:
    file.close()
    file.close()
    with pytest.raises(ToolcastError, match="is closed: make another Notes"):
        texts(file)


def test_one_file_by_two_names_has_one_path(file: SQLiteFile, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(file.path)
    other = SQLiteFile(link, LAYOUT)
    assert other.path == file.path
    other.close()


def test_after_a_fork_it_opens_the_file_anew(path: Path, monkeypatch: pytest.MonkeyPatch, process: Process) -> None:
    # tests of what stands on it fork; here, in one process, what the child does is looked at.
    file = SQLiteFile(path, LAYOUT)
    add(file, "one")
    mine = file._connection
    kept: list[sqlite3.Connection] = []
    monkeypatch.setattr(sqlite_files, "_inherited", kept)
    with process.as_child(os.getppid()):
        add(file, "two")
        assert file._connection is not mine and kept == [mine]
        file.close()
    assert mine.execute("SELECT count(*) FROM notes").fetchone() == (2,)
    mine.close()


def test_a_child_does_not_close_its_parents(path: Path, process: Process) -> None:
    file = SQLiteFile(path, LAYOUT)
    with process.as_child():
        file.close()
    assert file._connection.execute("SELECT 1").fetchone() == (1,)
    file.close()


def test_a_child_that_drops_it_does_not_close_its_parents(path: Path, process: Process) -> None:
    file = SQLiteFile(path, LAYOUT)
    connection = file._connection
    with process.as_child():
        del file
        gc.collect()
    assert connection.execute("SELECT 1").fetchone() == (1,)
    connection.close()


@pytest.mark.fault(109)
def test_connections_of_one_process_queue_for_writing(path: Path) -> None:
    """None of them finds the file locked by another: SQLite would give up at once here."""
    SQLiteFile(path, LAYOUT).close()  # the tables are there
    files = [SQLiteFile(path, LAYOUT) for _ in range(8)]
    for file in files:
        with file.using() as connection:
            connection.execute("PRAGMA busy_timeout = 0")
    failed: list[ToolcastError] = []

    def write(file: SQLiteFile) -> None:
        try:
            for number in range(100):
                add(file, str(number))
        except ToolcastError as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(file,)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(texts(files[0])) == 800
    for file in files:
        file.close()


def test_a_forked_child_can_open_files_where_a_thread_of_its_parent_was_opening_one(path: Path) -> None:
    with sqlite_files._registering:
        sqlite_files._forget_registration()
        file = SQLiteFile(path, LAYOUT)
    add(file, "one")
    file.close()
