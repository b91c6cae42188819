"""`SQLiteStore`: one database file for any number of sessions.

An append is one transaction. Values are passed as parameters only. `sqlite_files` describes the file, and how threads,
processes and forks share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from sqlite3 import Connection
from typing import Any, ClassVar, Final

from .locks import claim_file
from .sqlite_files import Layout, SQLiteBacked
from .store import (
    SessionLease,
    check_id,
    damaged_record,
    file_name,
    from_json_text,
    to_record,
    to_record_text,
    wrap_os_errors,
)

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
_REVISIONS = """
    SELECT id,
           (SELECT MAX(number) FROM records WHERE session = sessions.number),
           (SELECT record FROM records WHERE session = sessions.number ORDER BY number LIMIT 1)
    FROM sessions ORDER BY number
"""
_TABLES = "SELECT sql FROM sqlite_master"
_LARGE = 1 << 26  # bytes, of a file that would take seconds to check
_DELETE = (
    "DELETE FROM records WHERE session = (SELECT number FROM sessions WHERE id = ?)",
    "DELETE FROM sessions WHERE id = ?",
)


class SQLiteStore(SQLiteBacked):
    """A store in the SQLite file at `path`, which is created if it does not exist.

    Written data survives the end of the process, killed or not. A power failure may lose the last appends, and damages
    nothing. The file must be on a local disk: a write-ahead log does not work over a network.
    """

    layout: ClassVar[Layout] = LAYOUT
    _is_checked = False

    def append(self, id: str, records: Sequence[Mapping[str, Any]], /) -> None:
        """Append `records` to a log: all or none."""
        texts = [(to_record_text(record), check_id(id)) for record in records]
        if check_id(id) and texts:
            with self._file.changing() as connection:
                connection.execute(_BEGIN, (id,))
                connection.executemany(_APPEND, texts)

    def read(self, id: str, /) -> list[dict[str, Any]]:
        """Return the records of a log; none for an unknown id.

        Raises:
            ToolcastError: If a record is damaged.
        """
        with self._file.using() as connection:
            if not self._is_checked:
                self._check(connection)
            rows = connection.execute(_READ, (check_id(id),)).fetchall()
        places = ((row[0], f"{self.path}, record {number} of {id}") for number, row in enumerate(rows, 1))
        return [to_record(from_json_text(text, where), where) for text, where in places]

    def _check(self, connection: Connection) -> None:
        """Raise `ToolcastError` for a damaged file, whose tables or index may leave out records."""
        is_small = self.path.stat().st_size < _LARGE
        problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0] if is_small else "ok"
        if problem == "ok" and not {*LAYOUT.tables} <= {sql for (sql,) in connection.execute(_TABLES)}:
            problem = "the definitions of its tables are changed"
        if problem != "ok":
            raise damaged_record(str(self.path), f"{problem:.300}")
        self._is_checked = True

    def claim(self, id: str, /) -> SessionLease:
        """Return the exclusive right to append, a file lock in `<path>.locks`. Raise `SessionLocked`."""
        with wrap_os_errors(self.path):
            folder = self.path.with_name(f"{self.path.name}.locks")
            folder.mkdir(mode=0o700, exist_ok=True)
            return claim_file(folder / f"{file_name(id)}.lock", id)

    def ids(self) -> list[str]:
        """Return the ids of all logs, oldest first."""
        with self._file.using() as connection:
            return [row[0] for row in connection.execute("SELECT id FROM sessions ORDER BY number")]

    def revisions(self) -> dict[str, str]:
        """Return a text for each log, by id, which is another one after a change. It reads two records of each."""
        with self._file.using() as connection:
            # The first record is that of one log alone: the numbers of deleted records are used again.
            return {id: f"{last} {first}" for id, last, first in connection.execute(_REVISIONS)}

    def delete(self, id: str, /) -> None:
        """Remove a log. Raise `SessionLocked` while it is claimed."""
        with self.claim(id), self._file.changing() as connection:
            for statement in _DELETE:
                connection.execute(statement, (id,))
