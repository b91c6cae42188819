"""Memory of an experiment's agent: texts under keys, in one SQLite file for any number of runs.

A run has access to its own entries only. Every operation is one transaction, and returns the text that the model reads:
an `Error: ...` has changed nothing, and suggests what to do. Values are stored exactly, NUL included; only an unpaired
surrogate, which is no valid text, becomes U+FFFD.

A change may have a name (`once`): the number of its cycle, and what makes it unique in its run. The name and the result
are written in the transaction of the change itself. So a run that was killed after the change and before its log line
makes the same call again, gets the same result, and changes nothing.
"""

from __future__ import annotations

import os
import re
import sqlite3
from typing import ClassVar, Final

from ..stores.sqlite_files import Layout, SQLiteBacked, SQLiteFile
from ..text.json_text import replace_surrogates
from ..text.reprs import safe_repr
from .experiment_config import MemoryLimits

_LAYOUT: Final = Layout(
    kind="AgentMemory",
    owner=0x746F6F6D,  # "toom"
    version=1,
    tables=(
        "CREATE TABLE agent_memory (run_id TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, "
        "created_at TEXT NOT NULL, updated_at TEXT NOT NULL, PRIMARY KEY (run_id, key))",
        "CREATE TABLE agent_calls (run_id TEXT NOT NULL, call TEXT NOT NULL, answer TEXT NOT NULL, "
        "PRIMARY KEY (run_id, call)) WITHOUT ROWID",
    ),
)
_NOW: Final = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
_READ: Final = "SELECT value FROM agent_memory WHERE run_id = ? AND key = ?"
_KEYS: Final = "SELECT key FROM agent_memory WHERE run_id = ? ORDER BY rowid"  # an update keeps its row
_SEARCH: Final = "SELECT key FROM agent_memory WHERE run_id = ? AND instr(key, ?) ORDER BY rowid"
_COUNT: Final = "SELECT count(*) FROM agent_memory WHERE run_id = ?"
_INSERT: Final = (
    "INSERT INTO agent_memory (value, run_id, key, created_at, updated_at) "
    f"SELECT ?, ?, ?, now, now FROM (SELECT {_NOW} AS now)"
)
_UPDATE: Final = f"UPDATE agent_memory SET value = ?, updated_at = {_NOW} WHERE run_id = ? AND key = ?"
_DELETE: Final = "DELETE FROM agent_memory WHERE run_id = ? AND key = ?"
_ANSWERED: Final = "SELECT answer FROM agent_calls WHERE run_id = ? AND call = ?"
_ANSWER: Final = "INSERT INTO agent_calls (run_id, call, answer) VALUES (?, ?, ?)"
_FORGET: Final = "DELETE FROM agent_calls WHERE run_id = ? AND CAST(call AS INTEGER) < ?"  # reads the number in front
_CLEAR: Final = ("DELETE FROM agent_memory WHERE run_id = ?", "DELETE FROM agent_calls WHERE run_id = ?")

_UNFIT: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that would break a list of keys on one line."""


class AgentMemory(SQLiteBacked):
    """The memory of many runs, in the SQLite file at `path`. Safe to use from several threads and processes."""

    layout: ClassVar[Layout] = _LAYOUT

    def __init__(self, path: str | os.PathLike[str], limits: MemoryLimits | None = None) -> None:
        super().__init__(path)
        self.limits: MemoryLimits = limits or MemoryLimits()

    def of(self, run_id: str) -> RunMemory:
        """Return the memory of the run `run_id`."""
        return RunMemory(self._file, run_id, self.limits)


class RunMemory:
    """The memory of one run, created by `AgentMemory.of`. Raises `ToolcastError` if the file fails."""

    def __init__(self, file: SQLiteFile, run_id: str, limits: MemoryLimits) -> None:
        self.run_id: str = run_id
        self.limits: MemoryLimits = limits
        self._file = file

    @safe_repr
    def __repr__(self) -> str:
        return f"RunMemory({self.run_id!r}, path={str(self._file.path)!r})"

    def write(self, key: str, value: str, *, once: str | None = None) -> str:
        """Store `value` under `key`.

        Returns `Wrote value to key 'k'`, or `Updated key 'k' with new value`, or an error if a limit is exceeded.
        """
        key, value = replace_surrogates(key), replace_surrogates(value)
        with self._file.changing() as connection:
            if (answer := self._stored_result(connection, once)) is None:
                answer = self._problem(key, value) or self._written(connection, key, value)
                self._remember(connection, once, answer)
            return answer

    def read(self, key: str) -> str:
        """Return the value, or `Error: Key 'k' not found`."""
        key = replace_surrogates(key)
        with self._file.using() as connection:
            found = connection.execute(_READ, (self.run_id, key)).fetchone()
        return self._not_found(key) if found is None else str(found[0])

    def list(self) -> str:
        """Return the keys as `a, b`, the oldest first, or `No keys stored`."""
        return ", ".join(self.keys()) or "No keys stored"

    def delete(self, key: str, *, once: str | None = None) -> str:
        """Delete the key; return `Deleted key 'k'`, or `Error: Key 'k' not found`."""
        key = replace_surrogates(key)
        with self._file.changing() as connection:
            if (answer := self._stored_result(connection, once)) is None:
                found = connection.execute(_DELETE, (self.run_id, key)).rowcount
                answer = f"Deleted key '{key}'" if found else self._not_found(key)
                self._remember(connection, once, answer)
            return answer

    def pattern_search(self, pattern: str) -> str:
        """Return the keys that contain `pattern` exactly, or `No keys found matching pattern 'p'`."""
        pattern = replace_surrogates(pattern)
        with self._file.using() as connection:
            found = connection.execute(_SEARCH, (self.run_id, pattern)).fetchall()
        return ", ".join([row[0] for row in found]) or f"No keys found matching pattern '{self._shown(pattern)}'"

    def keys(self) -> tuple[str, ...]:
        """Return the keys, the oldest first. A key that is written again keeps its position."""
        with self._file.using() as connection:
            return tuple([row[0] for row in connection.execute(_KEYS, (self.run_id,))])

    def forget_calls(self, before_cycle: int) -> None:
        """Delete the names of the changes made before this cycle: those calls cannot be repeated any more."""
        with self._file.changing() as connection:
            connection.execute(_FORGET, (self.run_id, before_cycle))

    def clear(self) -> None:
        """Delete everything: a new run does not inherit the memory of an earlier one of the same name."""
        with self._file.changing() as connection:
            for statement in _CLEAR:
                connection.execute(statement, (self.run_id,))

    def _stored_result(self, connection: sqlite3.Connection, once: str | None) -> str | None:
        """Return the result of the change of that name, if it was made already."""
        if once is None:
            return None
        found = connection.execute(_ANSWERED, (self.run_id, once)).fetchone()
        return None if found is None else str(found[0])

    def _remember(self, connection: sqlite3.Connection, once: str | None, answer: str) -> None:
        # An error is not remembered: what was refused has changed nothing, and is refused again.
        if once is not None and not answer.startswith("Error: "):
            connection.execute(_ANSWER, (self.run_id, once, answer))

    def _written(self, connection: sqlite3.Connection, key: str, value: str) -> str:
        row = (value, self.run_id, key)
        if connection.execute(_UPDATE, row).rowcount:
            return f"Updated key '{key}' with new value"
        if connection.execute(_COUNT, (self.run_id,)).fetchone()[0] >= self.limits.max_keys:
            return (
                f"Error: The memory is full: it holds {self.limits.max_keys:,} keys, and no more are allowed. "
                "Delete a key that is no longer needed, or write to one that is there"
            )
        connection.execute(_INSERT, row)
        return f"Wrote value to key '{key}'"

    def _problem(self, key: str, value: str) -> str | None:
        """Return the reason, for the model, why `value` cannot be written under `key`; None if it can."""
        most = self.limits
        if not key.strip():
            return "Error: The key is empty. Name the value, as in 'plan'"
        if len(key) > most.max_key_chars:
            return (
                f"Error: Key '{self._shown(key)}' is too long: it has {len(key):,} characters, "
                f"{most.max_key_chars:,} are allowed. Use a shorter key"
            )
        if _UNFIT.search(key):
            return (
                f"Error: Key {key!a} has a line break or another control character in it. "
                "Use letters, digits, spaces and punctuation"
            )
        if len(value) > most.max_value_chars:
            return (
                f"Error: The value for key '{key}' is too long: it has {len(value):,} characters, "
                f"{most.max_value_chars:,} are allowed. Shorten it, or write it in parts under several keys"
            )
        return None

    def _not_found(self, key: str) -> str:
        return f"Error: Key '{self._shown(key)}' not found"

    def _shown(self, text: str) -> str:
        """Truncate `text` if it is longer than any key."""
        limit = self.limits.max_key_chars
        return text if len(text) <= limit else f"{text[:limit]}…"
