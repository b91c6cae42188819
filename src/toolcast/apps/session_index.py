"""The list of saved sessions, for the REPL and the page: `SessionIndex`.

A store has logs of records, and knows nothing of titles. The index is a table beside it with one row per session, which
is made from the log and made again when the log has changed: listing costs a query and one fold per changed session. It
has no data of its own, so it may be deleted at any time. For a store other than `SQLiteStore` it is in memory.

Titles and the like are details of the session (`Session.describe`): `title`, `directory`, `model`, `mode`, and
`updated`, the time of the last turn.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import Any, Final, cast

from ..agents.engine.compaction import is_summary
from ..agents.engine.history import unanswered_calls
from ..agents.engine.session_state import SessionState, fold, opened_record, read_details
from ..async_support.closing import Closing
from ..errors import ToolcastError
from ..lazy.lazy_dataclasses import dataclass
from ..messages import Message, TextPart
from ..stores.sqlite_files import Layout, SQLiteFile
from ..stores.sqlite_store import SQLiteStore
from ..stores.store import Store
from .call_log import GET_MODE, clean_title
from .file_mentions import file_part

_LAYOUT: Final = Layout(
    kind="SessionIndex",
    owner=0x746F6F78,  # "toox"
    version=1,
    tables=(
        "CREATE TABLE entries (id TEXT PRIMARY KEY, revision TEXT NOT NULL, entry TEXT NOT NULL, text TEXT NOT NULL)",
    ),
)

_ROW_FORMAT: Final = 5
"""The version of the content of a row. Rows of another version are made again."""

_MARKDOWN: Final = (
    (re.compile(r"```\w*"), ""),
    (re.compile(r"^\s*(?:#{1,6}|>|[-*+]|\d+\.)\s+", re.MULTILINE), ""),
    (re.compile(r"!?\[([^]\n]*)\]\([^)\n]*\)"), r"\1"),
    (re.compile(r"(\*\*|~~|`)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]+)(?<=\S)\*(?![\w*])"), r"\1"),
)
"""Marks of Markdown that a title leaves out, and what is in their place."""


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A row of the list of sessions.

    Attributes:
        id: The id of the session.
        title: The given title, or else the beginning of the first text of the user.
        begun: When it was begun, in seconds since 1970.
        updated: When its last turn ended.
        messages: The number of messages.
        turns: The number of turns.
        tokens: The number of tokens of all its requests.
        model: The name of the last model, or an empty text.
        mode: The name of the last mode, or an empty text.
        directory: The working directory in which it was begun, or an empty text.
        problem: The error if the log cannot be read. The other fields are then empty.
        cost: The cost of all its requests in US dollars; an empty text if it is not known.
        end: How the last turn ended (`TurnEnd`, or the stop reason of a logged call); an empty text while it goes on.
        waiting: The number of calls that wait for an approval.
    """

    id: str
    title: str = ""
    begun: float = 0.0
    updated: float = 0.0
    messages: int = 0
    turns: int = 0
    tokens: int = 0
    model: str = ""
    mode: str = ""
    directory: str = ""
    problem: str = ""
    cost: str = ""
    end: str = ""
    waiting: int = 0


class SessionIndex(Closing):
    """The sessions of `store`, with their titles. It may be used by several threads at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._table = _open_table(store)
        self._refreshing = Lock()

    def entries(self, query: str = "", *, calls: bool = False) -> list[SessionEntry]:
        """Return the sessions whose title or text contains every word of `query`, the last used one first.

        Args:
            query: Words, in any order and case.
            calls: Also return logged calls of `toolcast get`, which are not to be continued.
        """
        self._refresh()
        words = query.casefold().split()
        condition = " AND ".join(["instr(text, ?)"] * len(words)) or "1"
        with self._table.using() as connection:
            rows = connection.execute(f"SELECT entry FROM entries WHERE {condition}", words).fetchall()
        found = [SessionEntry(**json.loads(row[0])) for row in rows]
        found = [entry for entry in found if calls or entry.mode != GET_MODE]
        return sorted(found, key=lambda entry: (entry.updated, entry.id), reverse=True)

    def latest(self, directory: str) -> SessionEntry | None:
        """Return the session that was last used in `directory`, or else anywhere; None if there is no session."""
        found = [entry for entry in self.entries() if not (entry.problem or is_empty(entry))]
        return next((entry for entry in found if entry.directory == directory), next(iter(found), None))

    def rename(self, id: str, title: str) -> None:
        """Give a session a title; an empty one restores the beginning of its first message.

        Raises:
            SessionLocked: The session is open, here (use `Session.describe(title=...)`) or in another process.
            ToolcastError: There is no such session, or its log is damaged.
        """
        with self._store.claim(id):
            state = fold(self._store.read(id))
            self._store.append(id, [opened_record(id, state.opened, {"title": clean_title(title)})])

    def delete(self, id: str) -> None:
        """Delete a session. Raises `SessionLocked` while it is open."""
        self._store.delete(id)

    def close(self) -> None:
        """Close the index. The store stays open."""
        self._table.close()

    def _refresh(self) -> None:
        """Make the rows of new and changed sessions, and remove those of deleted ones."""
        with self._refreshing:
            now = {id: f"{_ROW_FORMAT} {revision}" for id, revision in _revisions(self._store).items()}
            with self._table.using() as connection:
                before = dict[str, str](connection.execute("SELECT id, revision FROM entries").fetchall())
            changed = [id for id, revision in now.items() if before.get(id) != revision]
            rows = [(id, now[id], *self._read_entry(id)) for id in changed]
            if rows or before.keys() - now.keys():
                with self._table.changing() as connection:
                    connection.executemany("DELETE FROM entries WHERE id = ?", [(id,) for id in before.keys() - now])
                    connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", rows)

    def _read_entry(self, id: str) -> tuple[str, str]:
        """Return the entry of a session as JSON, and the text to search."""
        try:
            records = self._store.read(id)
            state, details = fold(records), read_details(records)
        except ToolcastError as error:
            return json.dumps(asdict(SessionEntry(id, problem=str(error)))), id.casefold()
        unanswered = filter(None, [unanswered_message(details)])
        texts = {name: str(details.get(name) or "") for name in ("title", "model", "mode", "directory")}
        entry = SessionEntry(
            id,
            begun=state.opened,
            updated=last_used(details, state.opened),
            messages=len(state.history),
            turns=state.turns,
            tokens=state.usage.total_tokens,
            cost="" if state.usage.cost is None else f"{state.usage.cost:f}",
            end=state.end or "",
            waiting=_waiting(state, details) if state.end == "approval" else 0,
            **(texts | {"title": texts["title"] or first_words((*state.history, *state.injected, *unanswered))}),
        )
        lines = [id, entry.title, *(message.text for message in state.history if message.role != "system")]
        return json.dumps(asdict(entry)), "\n".join(lines).casefold()


def is_empty(entry: SessionEntry) -> bool:
    """Return True for a session whose terminal was closed before a message was sent."""
    return not (entry.messages or entry.title or entry.problem)


def last_used(details: Mapping[str, Any], opened: float) -> float:
    """Return the time of the last turn of a session from its details and the time at which it was begun."""
    return max(_number(details.get("updated")), opened)


def _waiting(state: SessionState, details: Mapping[str, Any]) -> int:
    """Return the number of calls that wait: those that a page lists, or else all that have not begun."""
    open_calls = {call.id for call in unanswered_calls(state.history)} - state.started
    try:
        listed = {str(request["call_id"]) for request in details["chat"]["pending"]}
    except (LookupError, TypeError):  # of another program
        return len(open_calls)
    return len(open_calls & listed or open_calls)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and isfinite(value) else 0.0


def unanswered_message(details: Mapping[str, Any]) -> Message | None:
    """Return the message of a chat's last turn if that failed, so that the history does not contain it."""
    data = details.get("unanswered")
    if not isinstance(data, dict):
        return None
    try:
        return Message.from_dict(cast("dict[str, Any]", data))
    except ValueError:  # of another program
        return None


def first_words(history: Iterable[Message]) -> str:
    """Return the title of a session that has none: the beginning of the first text of the user, without Markdown.

    The content of attached files is no text of the user. If there is nothing else, their names are the title.
    """
    names: list[str] = []
    for message in history:
        if message.role != "user" or is_summary(message):
            continue
        texts = [part.text for part in message.parts if isinstance(part, TextPart)]
        files = [file_part(text) for text in texts]
        own = " ".join(text for text, file in zip(texts, files, strict=True) if file is None)
        if title := clean_title(_plain(own)):
            return title
        names += [file[0].partition(" ")[2] for file in files if file is not None]
        names += [name for part in message.parts if (name := getattr(part, "name", None))]
    return clean_title(", ".join(names))


def _plain(text: str) -> str:
    """Return a text without marks of Markdown; unchanged if it has nothing else."""
    plain = text
    for marks, replacement in _MARKDOWN:
        plain = marks.sub(replacement, plain)
    return plain if plain.strip() else text


def _revisions(store: Store) -> dict[str, str]:
    """Return a text for each session that changes with it."""
    if isinstance(store, SQLiteStore):
        return store.revisions()
    revisions: dict[str, str] = {}
    for id in store.ids():
        try:
            records = store.read(id)
        except ToolcastError as error:
            revisions[id] = str(error)
        else:
            revisions[id] = f"{len(records)} {records[:1]}"
    return revisions


class _MemoryTable:
    """The table in memory, for a store without a file of its own."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        for statement in _LAYOUT.tables:
            self._connection.execute(statement)

    @contextmanager
    def using(self) -> Generator[sqlite3.Connection]:
        """Provide the connection, for one thread at a time."""
        with self._lock:
            yield self._connection

    changing = using

    def close(self) -> None:
        """Drop the table."""
        self._connection.close()


def _open_table(store: Store) -> SQLiteFile | _MemoryTable:
    """Return the table beside the file of `store`, or one in memory if there is none or it cannot be used."""
    if isinstance(store, SQLiteStore):
        try:
            return SQLiteFile(index_file(store.path), _LAYOUT)
        except ToolcastError:  # the index can be made again; it must not prevent a chat
            pass
    return _MemoryTable()


def index_file(path: Path) -> Path:
    """Return the path of the index of the store at `path`."""
    return path.with_name(f"{path.stem}-index.db")
