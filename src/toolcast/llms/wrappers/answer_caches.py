"""The caches of `CachedLLM`: in memory, and in an SQLite file. Both have a size limit."""

from __future__ import annotations

import os
from collections import OrderedDict
from threading import Lock
from typing import Any, ClassVar, Final, Protocol

from ...stores.sqlite_files import Layout, SQLiteBacked
from ...text.reprs import safe_repr
from ...values.option_types import require

_MEGABYTE: Final = 1_000_000


class Cache(Protocol):
    """A cache of a `CachedLLM`: values by their keys. It may drop any of them at any time.

    The methods are called from any thread. Under an event loop they run in a worker thread.
    """

    def get(self, key: str, /) -> bytes | None:
        """Return the value of `key`, or None."""
        ...

    def set(self, key: str, value: bytes, /) -> None:
        """Store a value, in place of an earlier one."""
        ...


class MemoryCache:
    """A cache in memory, without the values that were not used for the longest time.

    Args:
        max_bytes: The size of all values together.
    """

    def __init__(self, max_bytes: int = 100 * _MEGABYTE) -> None:
        self.max_bytes: int = _limit(max_bytes)
        self._values: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    @safe_repr
    def __repr__(self) -> str:
        return f"MemoryCache({len(self._values)} responses, {self._size} of {self.max_bytes} bytes)"

    def get(self, key: str, /) -> bytes | None:
        """Return the value of `key`, or None."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def set(self, key: str, value: bytes, /) -> None:
        """Store a value, in place of an earlier one. One that is longer than `max_bytes` is not stored."""
        with self._lock:
            self._size -= len(self._values.pop(key, b""))
            if len(value) > self.max_bytes:
                return
            self._values[key] = value
            self._size += len(value)
            while self._size > self.max_bytes:
                self._size -= len(self._values.popitem(last=False)[1])

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._values.clear()
            self._size = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"max_bytes": self.max_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        MemoryCache.__init__(self, **state)


LAYOUT: Final = Layout(
    kind="SQLiteCache",
    owner=0x746F6F63,  # "tooc"
    version=1,
    tables=(
        "CREATE TABLE entries (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, value BLOB NOT NULL)",
        "CREATE TABLE total (size INTEGER NOT NULL)",
        "INSERT INTO total VALUES (0)",
        "CREATE TRIGGER added AFTER INSERT ON entries BEGIN UPDATE total SET size = size + length(NEW.value); END",
        "CREATE TRIGGER removed AFTER DELETE ON entries BEGIN UPDATE total SET size = size - length(OLD.value); END",
    ),
    instead="MemoryCache() is the cache in memory",
)


class SQLiteCache(SQLiteBacked):
    """A cache in the SQLite file at `path`, which only its owner can read; without the oldest values.

    Threads and processes may share the file. It must be on a local disk.

    Args:
        path: The file, which is created if it does not exist.
        max_bytes: The size of all values together. The file is a little larger.

    Raises:
        ToolcastError: The file cannot be opened, or belongs to another application.
    """

    layout: ClassVar[Layout] = LAYOUT

    def __init__(self, path: str | os.PathLike[str], max_bytes: int = 1000 * _MEGABYTE) -> None:
        self.max_bytes: int = _limit(max_bytes)
        super().__init__(path)

    def get(self, key: str, /) -> bytes | None:
        """Return the value of `key`, or None."""
        with self._file.using() as connection:
            row = connection.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        # A damaged file may contain a value of another type, which the caller finds damaged.
        return None if row is None else row[0] if isinstance(row[0], bytes) else str(row[0]).encode()

    def set(self, key: str, value: bytes, /) -> None:
        """Store a value, in place of an earlier one. One that is longer than `max_bytes` is not stored."""
        with self._file.changing() as connection:
            connection.execute("DELETE FROM entries WHERE key = ?", (key,))
            if len(value) > self.max_bytes:
                return
            connection.execute("INSERT INTO entries (key, value) VALUES (?, ?)", (key, value))
            while connection.execute("SELECT size FROM total").fetchone()[0] > self.max_bytes:
                connection.execute("DELETE FROM entries WHERE number = (SELECT min(number) FROM entries)")

    def clear(self) -> None:
        """Remove all values."""
        with self._file.changing() as connection:
            connection.execute("DELETE FROM entries")

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "max_bytes": self.max_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        SQLiteCache.__init__(self, **state)


def _limit(max_bytes: object) -> int:
    require("max_bytes", max_bytes, int, "int")
    assert isinstance(max_bytes, int)
    if max_bytes < 1:
        raise ValueError(f"max_bytes={max_bytes}: expected at least 1")
    return max_bytes
