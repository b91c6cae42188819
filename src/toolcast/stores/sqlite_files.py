"""`SQLiteFile`: one SQLite database, shared by all threads of a process.

It uses a write-ahead log: readers and the writer do not wait for each other, and a transaction waits for the disk once
in about a thousand. There is one connection, with a lock around it; a forked child must not touch its parent's
connection and opens its own. The connections of one process to one file also share a lock for writing: SQLite lets a
writer that finds the file locked sleep and try again, up to 100 ms each time, so that among many writers late ones
overtake waiting ones, which fail in the end.

The file is identified by `application_id`, and the version of its tables by `user_version`: the file of another
application is not changed.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import ClassVar, Final
from weakref import WeakValueDictionary, finalize

from ..async_support.closing import Closing
from ..errors import SessionLocked, ToolcastError
from ..lazy.lazy_dataclasses import dataclass
from ..text.reprs import safe_repr
from .locks import claim_file
from .store import wrap_os_errors

WAIT = 5.0  # seconds for another process that is writing

_SQLITE_ERRORS: Final = (sqlite3.Error, UnicodeError)  # UnicodeError if the damage is in an error message of SQLite

_inherited: list[
    sqlite3.Connection
] = []  # connections from before a fork, kept alive because closing one would touch it
_writing: WeakValueDictionary[tuple[int, Path], Lock] = WeakValueDictionary()  # one lock for each process and file
_registering = Lock()


@dataclass(frozen=True, slots=True)
class Layout:
    """The contents of a file: `owner`, its `application_id`, the `version`, and the statements for its `tables`.

    `kind` is the class that uses it; `instead` is the advice to a caller who passes `:memory:`.
    """

    kind: str
    owner: int
    version: int
    tables: tuple[str, ...]
    instead: str = "give it a path"


class SQLiteFile:
    """The database at `path`, which is created with its folders if it does not exist.

    Written data survives the end of the process, killed or not. A power failure may lose the last transactions, and
    damages nothing. The file must be on a local disk: a write-ahead log does not work over a network.
    """

    def __init__(self, path: str | os.PathLike[str], layout: Layout) -> None:
        self.path: Path = Path(path).resolve()
        self._layout = layout
        self._closed = False
        self._open()

    @contextmanager
    def using(self) -> Generator[sqlite3.Connection]:
        """Provide the connection, for one thread at a time. SQLite's errors become a `ToolcastError`."""
        if self._closed:
            raise ToolcastError(f"the store {self.path} is closed: make another {self._layout.kind}")
        if self._process != os.getpid():
            _inherited.append(self._connection)
            self._finalizer.detach()
            self._open()
        with self._lock, wrap_os_errors(self.path, *_SQLITE_ERRORS):
            yield self._connection

    @contextmanager
    def changing(self) -> Generator[sqlite3.Connection]:
        """Provide the connection in a transaction."""
        with self.using() as connection, self._writing, _transaction(connection):
            yield connection

    def close(self) -> None:
        """Close the file. It cannot be used after that."""
        self._closed = True
        if self._process == os.getpid():
            with self._lock:
                self._finalizer()

    def _open(self) -> None:
        self._lock = Lock()
        self._process = os.getpid()
        self._writing = _lock_for_writing(self._process, self.path)
        with wrap_os_errors(self.path, *_SQLITE_ERRORS):
            self._connection = connection = _connect(self.path, self._layout)
        # A store that is dropped without `close`: from Python 3.13 on, a connection left open is a ResourceWarning.
        self._finalizer = finalize(self, _close, connection, self._process)


class SQLiteBacked(Closing):
    """An object that is stored in the SQLite file at `path`; a subclass defines the `layout` of the file."""

    layout: ClassVar[Layout]

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if os.fspath(path) == ":memory:":
            raise ValueError(f"path=':memory:': {self.layout.kind} needs a file; {self.layout.instead}")
        self._file = SQLiteFile(path, self.layout)
        self.path: Path = self._file.path

    @safe_repr
    def __repr__(self) -> str:
        return f"{type(self).__name__}({os.fspath(self.path)!r})"

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


def _close(connection: sqlite3.Connection, process: int) -> None:
    """Close the connection in the process that opened it."""
    if process == os.getpid():
        connection.close()


def _forget_registration() -> None:
    """Replace the lock of the registry in a forked child: another thread of its parent may have been in it."""
    global _registering
    _registering = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_registration)


def _connect(path: Path, layout: Layout) -> sqlite3.Connection:
    """Open the file, and create it if it does not exist."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _exclusive(path):
        _create(path)
        connection = sqlite3.connect(path, timeout=WAIT, isolation_level=None, check_same_thread=False)
        try:
            _prepare_tables(connection, path, layout)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def _exclusive(path: Path) -> Generator[None]:
    """Prevent other processes from opening the file: SQLite does not wait while it starts a write-ahead log."""
    until = time.monotonic() + WAIT
    while True:
        try:
            claim = claim_file(path.with_name(f"{path.name}.opening"), path.name)
            break
        except SessionLocked as error:
            if time.monotonic() > until:
                raise ToolcastError(
                    f"{path} is still being opened by another after {WAIT:g} seconds: end that process, and try again"
                ) from error
            time.sleep(0.005)
    with claim:
        yield


def _create(path: Path) -> None:
    """Create an empty file that only its owner may read. SQLite copies its permissions to the files beside it."""
    # Only a new file is opened: where it closes one, a process loses the locks that SQLite has on it.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _prepare_tables(connection: sqlite3.Connection, path: Path, layout: Layout) -> None:
    if not _is_ready(connection, path, layout):
        connection.execute("PRAGMA journal_mode = WAL")
        with _transaction(connection):
            for statement in layout.tables:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {layout.owner}")
            connection.execute(f"PRAGMA user_version = {layout.version}")
    connection.execute("PRAGMA synchronous = NORMAL")


def _is_ready(connection: sqlite3.Connection, path: Path, layout: Layout) -> bool:
    """Return whether the tables exist. Raise `ToolcastError` for a newer version, or another application's file."""
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
        raise ToolcastError(f"{path} is the database of another application: use another file for the store")
    return False


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Run the block in a transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some failures, a full disk for one, have rolled back already
            connection.execute("ROLLBACK")
        raise
