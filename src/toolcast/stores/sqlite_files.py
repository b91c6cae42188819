"""`SQLiteFile`: one SQLite database that is ours, for all threads of a process.

It keeps a write-ahead log: readers and the writer do not wait for each other, and a transaction waits for the disk
once in about a thousand. There is one connection, with a lock around it; a forked child must not touch its parent's,
and opens one of its own. Connections of one process to one file also share a lock for writing: SQLite lets a writer
that finds the file locked sleep and try again, up to 100 ms each time, so that among many the late ones overtake those
that wait, which fail in the end.

A file says by `application_id` whose it is, and by `user_version` which tables it has: the file of something else is
left alone.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import ClassVar, Final
from weakref import WeakValueDictionary

from ..closing import Closing
from ..errors import SessionLocked, ToolcastError
from .locks import claim_file
from .store import told

WAIT = 5.0  # seconds for another process that is writing

_FAULTS: Final = (sqlite3.Error, UnicodeError)  # the second where the damage is in what SQLite says

_inherited: list[sqlite3.Connection] = []  # from before a fork: to close one is to touch it
_writing: WeakValueDictionary[tuple[int, Path], Lock] = WeakValueDictionary()  # one lock for each process and file
_registering = Lock()


@dataclass(frozen=True, slots=True)
class Layout:
    """What is in a file: whose it is (`owner`, its `application_id`), and the statements that make its `tables`.

    `kind` is the class that uses it; `instead` is the advice to a caller who passes `:memory:`.
    """

    kind: str
    owner: int
    version: int
    tables: tuple[str, ...]
    instead: str = "give it a path"


class SQLiteFile:
    """The database at `path`, which is made if it is not there, with the folders above it.

    What is written outlives the process, killed or not. A power failure may take the last transactions with it, and
    damages nothing. The file must be on a disk of this machine: a write-ahead log does not work over a network.
    """

    def __init__(self, path: str | os.PathLike[str], layout: Layout) -> None:
        self.path: Path = Path(path).resolve()
        self._layout = layout
        self._closed = False
        self._open()

    @contextmanager
    def using(self) -> Generator[sqlite3.Connection]:
        """The connection, for one thread at a time. What SQLite raises in it becomes a `ToolcastError`."""
        if self._closed:
            raise ToolcastError(f"the store {self.path} is closed: make another {self._layout.kind}")
        if self._process != os.getpid():
            _inherited.append(self._connection)
            self._open()
        with self._lock, told(self.path, *_FAULTS):
            yield self._connection

    @contextmanager
    def changing(self) -> Generator[sqlite3.Connection]:
        """Give the connection in a transaction: all that is done inside, or nothing of it."""
        with self.using() as connection, self._writing, _transaction(connection):
            yield connection

    def close(self) -> None:
        """Close the file. It cannot be used after that."""
        self._closed = True
        if self._process == os.getpid():
            with self._lock:
                self._connection.close()

    def _open(self) -> None:
        self._lock = Lock()
        self._process = os.getpid()
        self._writing = _lock_for_writing(self._process, self.path)
        with told(self.path, *_FAULTS):
            self._connection = _opened(self.path, self._layout)


class SQLiteBacked(Closing):
    """An object that is stored in the SQLite file at `path`; a subclass defines the `layout` of the file."""

    layout: ClassVar[Layout]

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if os.fspath(path) == ":memory:":
            raise ValueError(f"path=':memory:': {self.layout.kind} needs a file; {self.layout.instead}")
        self._file = SQLiteFile(path, self.layout)
        self.path: Path = self._file.path

    def close(self) -> None:
        """Close the file. Nothing can be read or written after that."""
        self._file.close()


def _lock_for_writing(process: int, path: Path) -> Lock:
    """Return the lock that all connections of a process to the file at `path` share."""
    with _registering:
        lock = _writing.get((process, path))
        if lock is None:
            lock = _writing[process, path] = Lock()
        return lock


def _forget_registration() -> None:
    """Replace the lock of the registry in a forked child: another thread of its parent may have been in it."""
    global _registering
    _registering = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_registration)


def lock_file(path: Path, name: str) -> Path:
    """The file beside the database at `path` whose lock is called `name`."""
    folder = path.with_name(f"{path.name}.locks")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"{name}.lock"


def _opened(path: Path, layout: Layout) -> sqlite3.Connection:
    """A connection to a file that is ours, made if it is not there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(path):
        _make(path)
        connection = sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection, path, layout)
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
            claim = claim_file(lock_file(path, "_opening"), path.name)
            break
        except SessionLocked as error:
            if time.monotonic() > until:
                raise ToolcastError(
                    f"{path} is still being opened by another after {WAIT:g} seconds: end that process, and try again"
                ) from error
            time.sleep(0.005)
    with claim:
        yield


def _make(path: Path) -> None:
    """An empty file that only its owner may read. SQLite gives the files beside it the same rights."""
    # Only a new file is opened: where it closes one, a process loses the locks that SQLite has on it.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _prepare(connection: sqlite3.Connection, path: Path, layout: Layout) -> None:
    if not _is_ready(connection, path, layout):
        connection.execute("PRAGMA journal_mode = WAL")
        with _transaction(connection):
            for statement in layout.tables:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {layout.owner}")
            connection.execute(f"PRAGMA user_version = {layout.version}")
    connection.execute("PRAGMA synchronous = NORMAL")


def _is_ready(connection: sqlite3.Connection, path: Path, layout: Layout) -> bool:
    """Whether the tables are there. Raises `ToolcastError` for a file of a newer version, or not of ours."""
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if owner == layout.owner and version > layout.version:
        raise ToolcastError(
            f"{path} was written by a newer toolcast (version {version} of the tables, {layout.version} is known): "
            "upgrade"
        )
    if owner == layout.owner:
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
