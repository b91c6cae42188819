"""`SQLiteStore`: one database file for any number of sessions.

An append is one transaction. Values are only ever parameters. What the file is, and how threads, processes and forks
share it, is said in sqlite_files.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, cast

from .locks import claim_file
from .sqlite_files import Layout, SQLiteBacked, lock_file
from .store import SessionLease, as_text, checked, damaged, file_name, from_text, told

LAYOUT: Final = Layout(
    kind="SQLiteStore",
    owner=0x746F6F6C,  # "tool"
    version=1,
    tables=(
        "CREATE TABLE sessions (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE)",
        "CREATE TABLE records (number INTEGER PRIMARY KEY, session INTEGER NOT NULL, record TEXT NOT NULL)",
        "CREATE INDEX records_of_session ON records (session)",
    ),
    instead="MemoryStore() is the store in memory",
)
_BEGIN = "INSERT OR IGNORE INTO sessions (id) VALUES (?)"
_APPEND = "INSERT INTO records (session, record) SELECT number, ? FROM sessions WHERE id = ?"
_READ = "SELECT record FROM records WHERE session = (SELECT number FROM sessions WHERE id = ?) ORDER BY number"
_DELETE = (
    "DELETE FROM records WHERE session = (SELECT number FROM sessions WHERE id = ?)",
    "DELETE FROM sessions WHERE id = ?",
)


class SQLiteStore(SQLiteBacked):
    """A store in the SQLite file at `path`, which is made if it is not there.

    What is written outlives the process, killed or not. A power failure may take the last appends with it, and
    damages nothing. The file must be on a disk of this machine: a write-ahead log does not work over a network.
    """

    layout: ClassVar[Layout] = LAYOUT

    def append(self, id: str, records: Sequence[Mapping[str, Any]], /) -> None:
        """Write `records` at the end of a log: all or none."""
        texts = [(as_text(dict(record)), checked(id)) for record in records]
        if checked(id) and texts:
            with self._file.changing() as connection:
                connection.execute(_BEGIN, (id,))
                connection.executemany(_APPEND, texts)

    def read(self, id: str, /) -> list[dict[str, Any]]:
        """The records of a log; none for an unknown id. A damaged one is a `ToolcastError`."""
        with self._file.using() as connection:
            rows = connection.execute(_READ, (checked(id),)).fetchall()
        return [_record(row[0], f"{self.path}, record {number} of {id}") for number, row in enumerate(rows, 1)]

    def claim(self, id: str, /) -> SessionLease:
        """The right to append, by a lock on a file in the folder `<path>.locks`. Raises `SessionLocked`."""
        with told(self.path):
            return claim_file(lock_file(self.path, file_name(id)), id)

    def ids(self) -> list[str]:
        """The ids of all logs, the oldest first."""
        with self._file.using() as connection:
            return [row[0] for row in connection.execute("SELECT id FROM sessions ORDER BY number")]

    def delete(self, id: str, /) -> None:
        """Remove a log. Raises `SessionLocked` while it is claimed."""
        with self.claim(id), self._file.changing() as connection:
            for statement in _DELETE:
                connection.execute(statement, (id,))


def _record(text: object, where: str) -> dict[str, Any]:
    said = from_text(text, where)
    if not isinstance(said, dict):
        raise damaged(where, "it is no JSON object")
    return cast("dict[str, Any]", said)
