"""The journal of a job's batches at the provider, in the job's checkpoint or, without one, in memory.

A row is written before each step at the provider, so that a later process finds out what has happened, wherever this
one was killed:

    planned ──> submitting ──> submitted ──> settled ──> (no row)

* `planned`: nothing was submitted. There may be an uploaded file, whose id is recorded.
* `submitting`: the batch may exist. It is looked for among the provider's batches by its tag.
* `submitted`: the batch exists; its id is recorded. Its results are fetched when it has ended.
* `settled`: the outcomes of all its items are stored. What remains is to delete its files at the provider.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from threading import Lock
from typing import Final, Literal, Protocol, TypeAlias
from weakref import finalize

from ...lazy.lazy_dataclasses import dataclass
from ..job_budget import Spending

PlanState: TypeAlias = Literal["planned", "submitting", "submitted", "settled"]

_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS remote_batches (tag TEXT PRIMARY KEY, state TEXT NOT NULL, created REAL NOT NULL, "
    "file TEXT, batch TEXT)",
    "CREATE TABLE IF NOT EXISTS remote_items (tag TEXT NOT NULL, position INTEGER NOT NULL, key TEXT NOT NULL, "
    # The amount that is reserved for the request: US dollars as a decimal number, and tokens. NULL without a budget.
    "usd TEXT, tokens INTEGER, PRIMARY KEY (tag, position)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS remote_answers (number INTEGER PRIMARY KEY, key TEXT NOT NULL, tag TEXT NOT NULL, "
    "body BLOB NOT NULL, reason TEXT NOT NULL, UNIQUE (key, tag))",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """One batch of the journal.

    Attributes:
        tag: The random name of the batch, which is in its metadata and at the start of the ids of its requests.
        state: The last step that has begun.
        created: When it was planned, or last submitted, in seconds since 1970.
        keys: The keys of its items, by their position in the batch.
        file: The id of the uploaded file, where known.
        batch: The provider's id of the batch, where known.
        reserved: The amounts that are reserved for its requests, by their position; None without a budget.
    """

    tag: str
    state: PlanState
    created: float
    keys: tuple[str, ...]
    file: str | None = None
    batch: str | None = None
    reserved: tuple[Spending | None, ...] = ()


@dataclass(frozen=True, slots=True)
class InvalidAnswer:
    """A response body, and the text that the model is asked again with."""

    body: bytes
    reason: str


class Database(Protocol):
    """A SQLite database: the file of a checkpoint, or a `TemporaryDatabase`."""

    def using(self) -> AbstractContextManager[sqlite3.Connection]:
        """Provide the connection, for one thread at a time."""
        ...

    def changing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Provide the connection in a transaction."""
        ...


class _TemporaryDatabase:
    """A database that ends with its process, for a job without a checkpoint."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        finalize(self, self._connection.close)

    @contextmanager
    def using(self) -> Generator[sqlite3.Connection]:
        """Provide the connection, for one thread at a time."""
        with self._lock:
            yield self._connection

    @contextmanager
    def changing(self) -> Generator[sqlite3.Connection]:
        """Provide the connection. It needs no transaction: nothing of it survives the process."""
        with self.using() as connection:
            yield connection


def open_batches(database: Database) -> list[str]:
    """Return the provider's ids of the batches in a journal whose results were not fetched; none without a journal."""
    with database.using() as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'remote_batches'").fetchone():
            return []
        rows = connection.execute("SELECT batch FROM remote_batches WHERE state = 'submitted' ORDER BY created")
        return [batch for (batch,) in rows]


class Journal:
    """The journal in a database. Each method is one transaction.

    Args:
        database: That of the checkpoint. Default: one that ends with this process.

    Attributes:
        keeps: True if another run finds the batches again.
    """

    def __init__(self, database: Database | None) -> None:
        self.keeps: bool = database is not None
        self._database: Database = _TemporaryDatabase() if database is None else database
        with self._database.changing() as connection:
            for statement in _TABLES:
                connection.execute(statement)

    def plans(self) -> list[Plan]:
        """Return all batches, the oldest first."""
        with self._database.using() as connection:
            rows = connection.execute(
                "SELECT tag, state, created, file, batch FROM remote_batches ORDER BY created, tag"
            ).fetchall()
            found: list[Plan] = []
            for tag, state, created, file, batch in rows:
                keys, reserved = self._items(connection, tag)
                found.append(Plan(tag, state, created, keys, file, batch, reserved))
            return found

    def plan(self, tag: str, items: Sequence[tuple[str, Spending | None]], created: float) -> Plan:
        """Record a batch that is about to be uploaded: the keys of its items, and what is reserved for them."""
        with self._database.changing() as connection:
            connection.execute(
                "INSERT INTO remote_batches (tag, state, created) VALUES (?, 'planned', ?)", (tag, created)
            )
            rows = [
                (tag, place, key, *((None, None) if reserved is None else (str(reserved.usd), reserved.tokens)))
                for place, (key, reserved) in enumerate(items)
            ]
            connection.executemany("INSERT INTO remote_items VALUES (?, ?, ?, ?, ?)", rows)
        return Plan(tag, "planned", created, tuple([key for key, _ in items]))

    def submitting(self, tag: str, file: str | None, now: float) -> None:
        """Record that the batch is about to be submitted, with the uploaded file. `now` is in seconds since 1970."""
        self._set(tag, "state = 'submitting', file = ?, created = ?", file, now)

    def submitted(self, tag: str, batch: str) -> None:
        """Record the provider's id of the submitted batch."""
        self._set(tag, "state = 'submitted', batch = ?", batch)

    def settled(self, tag: str) -> None:
        """Record that the outcomes of all items of the batch are stored, or that they are in another batch."""
        self._set(tag, "state = 'settled'")

    def drop(self, tag: str) -> None:
        """Delete the batch: nothing of it remains at the provider, or nothing was submitted."""
        with self._database.changing() as connection:
            connection.execute("DELETE FROM remote_batches WHERE tag = ?", (tag,))
            connection.execute("DELETE FROM remote_items WHERE tag = ?", (tag,))

    def answers(self, key: str, *, without: str = "") -> list[InvalidAnswer]:
        """Return the invalid responses for an item, the oldest first, without that of the batch `without`."""
        query = "SELECT body, reason FROM remote_answers WHERE key = ? AND tag <> ? ORDER BY number"
        with self._database.using() as connection:
            rows = connection.execute(query, (key, without))
            return [InvalidAnswer(body, reason) for body, reason in rows]

    def add_answer(self, key: str, tag: str, answer: InvalidAnswer) -> None:
        """Record the invalid response for an item in the batch `tag`. A second one of that batch is not recorded."""
        with self._database.changing() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO remote_answers (key, tag, body, reason) VALUES (?, ?, ?, ?)",
                (key, tag, answer.body, answer.reason),
            )

    def drop_answers(self, key: str) -> None:
        """Delete the invalid responses of an item that has an outcome."""
        with self._database.changing() as connection:
            connection.execute("DELETE FROM remote_answers WHERE key = ?", (key,))

    def _set(self, tag: str, change: str, *values: str | float | None) -> None:
        with self._database.changing() as connection:
            connection.execute(f"UPDATE remote_batches SET {change} WHERE tag = ?", (*values, tag))

    def _items(self, connection: sqlite3.Connection, tag: str) -> tuple[tuple[str, ...], tuple[Spending | None, ...]]:
        """Return the keys of the items of a batch, and the amounts that are reserved for them."""
        query = "SELECT key, usd, tokens FROM remote_items WHERE tag = ? ORDER BY position"
        rows = connection.execute(query, (tag,)).fetchall()
        reserved = [None if usd is None else Spending(Decimal(usd), tokens) for _, usd, tokens in rows]
        return tuple([key for key, _, _ in rows]), tuple(reserved)
