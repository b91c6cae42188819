"""`SQLiteStore`: one database file for any number of sessions.

The database keeps a write-ahead log: readers and the writer do not wait for each other, and an append is one
transaction, which waits for the disk once in about a thousand. There is one connection, with a lock around it, for
all threads of the process; a forked child must not touch its parent's, and opens one of its own. Values are only
ever parameters. A file says by `application_id` that it is ours and by `user_version` which tables it has.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Final, Self, cast

from ..errors import SessionTaken, ToolcastError
from .locks import claim_file
from .store import Claim, as_text, checked, damaged, file_name, from_text, told

VERSION = 1
OURS: Final = 0x746F6F6C  # "tool"
WAIT = 5.0  # seconds for another process that is writing

_TABLES = (
    "CREATE TABLE sessions (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE)",
    "CREATE TABLE records (number INTEGER PRIMARY KEY, session INTEGER NOT NULL, record TEXT NOT NULL)",
    "CREATE INDEX records_of_session ON records (session)",
    f"PRAGMA application_id = {OURS}",
    f"PRAGMA user_version = {VERSION}",
)
_BEGIN = "INSERT OR IGNORE INTO sessions (id) VALUES (?)"
_APPEND = "INSERT INTO records (session, record) SELECT number, ? FROM sessions WHERE id = ?"
_READ = "SELECT record FROM records WHERE session = (SELECT number FROM sessions WHERE id = ?) ORDER BY number"
_DELETE = (
    "DELETE FROM records WHERE session = (SELECT number FROM sessions WHERE id = ?)",
    "DELETE FROM sessions WHERE id = ?",
)

_FAULTS = (sqlite3.Error, UnicodeError)  # the second where the damage is in what SQLite says

_inherited: list[sqlite3.Connection] = []  # from before a fork: to close one is to touch it


class SQLiteStore:
    """A store in the SQLite file at `path`, which is made if it is not there.

    What is written outlives the process, killed or not. A power failure may take the last appends with it, and
    damages nothing. The file must be on a disk of this machine: a write-ahead log does not work over a network.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if os.fspath(path) == ":memory:":
            raise ValueError("SQLiteStore needs a file; MemoryStore() is the store in memory")
        self.path: Path = Path(path).resolve()
        self._closed = False
        self._open()

    def append(self, id: str, records: Sequence[Mapping[str, Any]], /) -> None:
        """Write `records` at the end of a log: all or none."""
        texts = [(as_text(dict(record)), checked(id)) for record in records]
        if checked(id) and texts:
            with self._using() as connection, _transaction(connection):
                connection.execute(_BEGIN, (id,))
                connection.executemany(_APPEND, texts)

    def read(self, id: str, /) -> list[dict[str, Any]]:
        """The records of a log; none for an unknown id. A damaged one is a `ToolcastError`."""
        with self._using() as connection:
            rows = connection.execute(_READ, (checked(id),)).fetchall()
        return [_record(row[0], f"{self.path}, record {number} of {id}") for number, row in enumerate(rows, 1)]

    def claim(self, id: str, /) -> Claim:
        """The right to append, by a lock on a file in the folder `<path>.locks`. Raises `SessionTaken`."""
        with told(self.path):
            return claim_file(_lock_file(self.path, file_name(id)), id)

    def ids(self) -> list[str]:
        """The ids of all logs, the oldest first."""
        with self._using() as connection:
            return [row[0] for row in connection.execute("SELECT id FROM sessions ORDER BY number")]

    def delete(self, id: str, /) -> None:
        """Remove a log. Raises `SessionTaken` while it is claimed."""
        with self.claim(id), self._using() as connection, _transaction(connection):
            for statement in _DELETE:
                connection.execute(statement, (id,))

    def close(self) -> None:
        """Close the file. The store cannot be used after that."""
        self._closed = True
        if self._process == os.getpid():
            with self._lock:
                self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self) -> None:
        self._lock = Lock()
        with told(self.path, *_FAULTS):
            self._connection = _opened(self.path)
        self._process = os.getpid()

    @contextmanager
    def _using(self) -> Generator[sqlite3.Connection]:
        """The connection, for one thread at a time."""
        if self._closed:
            raise ToolcastError(f"the store {self.path} is closed: make another SQLiteStore")
        if self._process != os.getpid():
            _inherited.append(self._connection)
            self._open()
        with self._lock, told(self.path, *_FAULTS):
            yield self._connection


def _opened(path: Path) -> sqlite3.Connection:
    """A connection to a file that is ours, made if it is not there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(path):
        _make(path)
        connection = sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def _alone(path: Path) -> Generator[None]:
    """Inside, nobody else opens the file: SQLite does not wait for others while it begins a write-ahead log."""
    until = time.monotonic() + WAIT
    while True:
        try:
            claim = claim_file(_lock_file(path, "_opening"), path.name)
            break
        except SessionTaken as error:
            if time.monotonic() > until:
                raise ToolcastError(
                    f"{path} is still being opened by another after {WAIT:g} seconds: end that process, and try again"
                ) from error
            time.sleep(0.005)
    with claim:
        yield


def _lock_file(path: Path, name: str) -> Path:
    folder = path.with_name(f"{path.name}.locks")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{name}.lock"


def _make(path: Path) -> None:
    """An empty file that only its owner may read. SQLite gives the files beside it the same rights."""
    # Only a new file is opened: where it closes one, a process loses the locks that SQLite has on it.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    if not _is_ready(connection, path):
        connection.execute("PRAGMA journal_mode = WAL")
        with _transaction(connection):
            for statement in _TABLES:
                connection.execute(statement)
    connection.execute("PRAGMA synchronous = NORMAL")


def _is_ready(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the tables are there. Raises `ToolcastError` for a file of a newer version, or not of ours."""
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if owner == OURS and version > VERSION:
        raise ToolcastError(
            f"{path} was written by a newer toolcast (version {version} of the tables, {VERSION} is known): upgrade"
        )
    if owner == OURS:
        return True
    if owner or version or connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        raise ToolcastError(f"{path} is a database of something else: give the store a file of its own")
    return False


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    """All that is done inside, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some failures, a full disk for one, have rolled back already
            connection.execute("ROLLBACK")
        raise


def _record(text: object, where: str) -> dict[str, Any]:
    said = from_text(text, where)
    if not isinstance(said, dict):
        raise damaged(where, "it is no JSON object")
    return cast("dict[str, Any]", said)
