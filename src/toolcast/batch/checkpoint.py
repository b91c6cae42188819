"""`Checkpoint`: the outcomes of a job in one SQLite file, from which the job goes on after any kind of end.

A row is written for each item when it ends, in a transaction of its own and before the outcome is passed to the caller:
that takes 30 microseconds, as a write-ahead log does not wait for the disk. After kill -9 each outcome that the caller
may have seen is there. Rows are only appended; the last row of a key counts, and all of them count as spending.

The file contains keys (hashes, unless the caller names others), outputs, errors and token counts, but neither inputs
nor credentials. One process at a time may have it open for writing.

`JobIdentity`: everything beside the inputs that determines the answers of a job.

A checkpoint stores it, so that answers to one prompt are never mixed with answers to another. Each part is stored as a
hash, which decides, and as a text for people, which names what changed. Time limits, hooks and the number of attempts
are not parts: they do not change an answer.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Final, cast
from zlib import crc32

from ..errors import SessionLocked, ToolcastError, error_to_dict
from ..lazy.lazy_dataclasses import dataclass
from ..llms.client import client_of
from ..prompts import ChatPromptTemplate, PromptTemplate
from ..stores.locks import claim_file
from ..stores.sqlite_files import Layout, SQLiteBacked, SQLiteFile
from ..stores.store import SessionLease, wrap_os_errors
from ..structured.orchestrator import ToolOrchestratingLLM
from ..text.json_text import replace_surrogates
from ..values.prices import StoredCost
from ..values.settings import Settings
from ..values.usage import NO_USAGE, TOKENS, Usage
from ..values.usage_details import COUNTS, NO_DETAILS, UsageDetails
from .item_keys import UnstableInput, stable_digest
from .job_errors import CheckpointError, CheckpointMismatch
from .outcome import Outcome
from .stored_outputs import OutputCodec

_SCHEMA: Final = "schema"
_LONGEST: Final = 60  # characters of a text on each side of a change
_MOST_PATHS: Final = 4


@dataclass(frozen=True, slots=True)
class IdentityPart:
    """One part of a job's identity: its hash, in hexadecimal digits, and a text for people."""

    digest: str
    text: str


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """The prompt, schema, model and settings of a job, as parts by name."""

    parts: Mapping[str, IdentityPart]

    @classmethod
    def of(cls, call: ToolOrchestratingLLM[Any]) -> JobIdentity:
        """Return the identity of the job that makes this call for each of its inputs."""
        return cls({name: IdentityPart(_hashed(name, value), text) for name, value, text in _parts(call)})

    def changes(self, stored: JobIdentity) -> dict[str, str]:
        """Return the parts that differ from those of a stored identity, each with a description of the change."""
        names = dict.fromkeys([*stored.parts, *self.parts])
        found: dict[str, str] = {}
        for name in names:
            before, now = stored.parts.get(name), self.parts.get(name)
            if before is None or now is None or before.digest != now.digest:
                found[name] = _change(name, before, now)
        return found


def _parts(call: ToolOrchestratingLLM[Any]) -> Iterator[tuple[str, Any, str]]:
    """Provide the name, the value and the text of each part."""
    yield "prompt", call.prompt, _prompt_text(call.prompt)
    if call.llm.system_prompt:
        yield "system_prompt", call.llm.system_prompt, call.llm.system_prompt
    schema = [[tool.name, tool.description, tool.parameters] for tool in call.tools]
    yield _SCHEMA, schema, json.dumps(schema, default=str)
    origin = dict(client_of(call.llm).origin)
    yield "model", origin, " ".join(dict.fromkeys([str(name) for name in origin.values() if name]))
    if call.server_tools:
        tools = [tool.to_dict() for tool in call.server_tools]
        # Other credentials are the same job: a token may have been renewed.
        yield "tools", tools, json.dumps(tools, default=str)
    for name in ("mode", "tool_choice", "allow_parallel_tool_calls"):
        if option := getattr(call, name):
            yield name, option, str(option)
    settings = client_of(call.llm).merge_settings(call.settings)
    for field in fields(Settings):
        value: Any = settings.cached_content_name if field.name == "cached_content" else getattr(settings, field.name)
        if field.name == "timeout" or value is None:
            continue
        # The values of `extra` may be credentials of a gateway: its keys alone are written.
        yield field.name, value, ", ".join(map(str, value)) if field.name == "extra" else str(value)


def _prompt_text(prompt: PromptTemplate | ChatPromptTemplate) -> str:
    if isinstance(prompt, PromptTemplate):
        return prompt.template
    return "\n".join([str(message) for message in prompt.messages])


def _hashed(name: str, value: Any) -> str:
    try:
        return stable_digest(value).hex()
    except UnstableInput as error:
        raise UnstableInput(f"the {name} of the job: {error}. Without a checkpoint it can be used as it is") from error


def _change(name: str, before: IdentityPart | None, now: IdentityPart | None) -> str:
    if name == _SCHEMA and before is not None and now is not None:
        with suppress(ValueError):  # the text of a damaged file
            return _schema_change(before.text, now.text)
    if before is not None and now is not None and before.text == now.text:
        return "changed"
    old, new = (None if part is None else replace_surrogates(part.text) for part in (before, now))
    start = 0
    if old is not None and new is not None:
        while start < min(len(old), len(new)) and old[start] == new[start]:
            start += 1
    return f"was {_excerpt(old, start)}, is now {_excerpt(new, start)}"


def _excerpt(text: str | None, at: int) -> str:
    """Return the part of a text around the position `at`, quoted."""
    if text is None:
        return "not set"
    begin, end = max(0, at - _LONGEST // 2), at + _LONGEST
    return f"{'...' if begin else ''}{text[begin:end]!r}{'...' if end < len(text) else ''}"


def _schema_change(before: str, now: str) -> str:
    """Return the paths that were added, removed and changed, as `added Person.city`."""
    old, new = dict(_leaves(json.loads(before))), dict(_leaves(json.loads(now)))
    kinds = {
        "added": [path for path in new if path not in old],
        "removed": [path for path in old if path not in new],
        "changed": [path for path in new if path in old and old[path] != new[path]],
    }
    found = {
        kind: dict.fromkeys([_field(path) for path in paths if path[-1] != "required"]) for kind, paths in kinds.items()
    }
    parts = [f"{kind} {_some(paths)}" for kind, paths in found.items() if paths]
    return "; ".join(parts) or "changed"


def _some(paths: Mapping[str, None]) -> str:
    shown = [*paths][:_MOST_PATHS]
    more = len(paths) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _field(path: tuple[str, ...]) -> str:
    return ".".join([name for name in path if name not in _STRUCTURE])


_STRUCTURE: Final = frozenset(("properties", "$defs", "type", "title"))
"""The keywords of JSON Schema that are left out of a path for people."""


def _leaves(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Provide the leaves of the schemas of all tools by their paths, which begin with the name of the tool."""
    if not path:
        for name, description, parameters in schema:
            yield (name, "description"), description
            yield from _leaves(parameters, (name,))
    elif isinstance(schema, dict) and schema:
        for key, value in cast("dict[str, Any]", schema).items():
            yield from _leaves(value, (*path, key))
    else:
        yield path, schema


LAYOUT: Final = Layout(
    kind="Checkpoint",
    owner=0x746F6F62,  # "toob"
    version=1,
    tables=(
        "CREATE TABLE identity (part TEXT PRIMARY KEY, digest TEXT NOT NULL, text TEXT NOT NULL)",
        "CREATE TABLE starts (number INTEGER PRIMARY KEY, process INTEGER NOT NULL, began TEXT NOT NULL)",
        "CREATE TABLE items (number INTEGER PRIMARY KEY, key TEXT NOT NULL, position INTEGER NOT NULL, output TEXT, "
        "types TEXT, error TEXT, attempts INTEGER NOT NULL, seconds REAL NOT NULL, "
        # Money in units of 1e-12 US dollars, so that SQLite can add it without rounding.
        f"{', '.join([f'{name} INTEGER NOT NULL' for name in TOKENS])}, cost INTEGER, cost_complete INTEGER NOT NULL, "
        "details TEXT, checksum INTEGER)",
        "CREATE INDEX items_by_key ON items (key)",
    ),
    instead="without a checkpoint nothing is stored",
)

_PICODOLLARS: Final = 10**12
_MONEY: Final = ("cost", "cost_complete")
_USAGE: Final = (*TOKENS, *_MONEY, "details")
_COLUMNS: Final = ("key", "position", "output", "types", "error", "attempts", "seconds", *_USAGE)
_WRITE: Final = f"INSERT INTO items ({', '.join(_COLUMNS)}, checksum) VALUES ({', '.join('?' * len(_COLUMNS))}, ?)"
_ROWS: Final = f"SELECT number, checksum, {', '.join(_COLUMNS)} FROM items WHERE checksum IS NOT NULL"
_FIND: Final = (
    f"SELECT output, types, error IS NOT NULL, attempts, seconds, {', '.join(_USAGE)} FROM items "
    "WHERE key = ? ORDER BY number DESC LIMIT 1"
)
_START: Final = "INSERT INTO starts (process, began) VALUES (?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))"
_SPENT: Final = (
    f"SELECT {', '.join([f'coalesce(sum({name}), 0)' for name in TOKENS])}, coalesce(sum(cost), 0), "
    # An item without tokens and price, such as an unreadable row, does not make the cost unknown.
    "coalesce(min(CASE WHEN input_tokens + output_tokens = 0 AND cost IS NULL THEN 1 ELSE cost_complete END), 1) "
    "FROM items"
)
# A file that was begun without these columns gets them when it is next opened for writing.
_ADDED: Final = {"details": "TEXT", "checksum": "INTEGER"}
_HAS: Final = "SELECT 1 FROM pragma_table_info('items') WHERE name = ?"
_DETAILS_SPENT: Final = (
    "SELECT json_each.key, sum(json_each.value) FROM items, json_each(items.details) "
    "WHERE json_each.type = 'integer' GROUP BY json_each.key"
)
_TIER: Final = (  # the one of all requests
    "SELECT json_extract(details, '$.service_tier') FROM items WHERE input_tokens + output_tokens > 0 "
    "GROUP BY 1 LIMIT 2"
)
_LAST: Final = "SELECT max(number) FROM items GROUP BY key"
_COUNT: Final = f"SELECT count(*), coalesce(sum(error IS NOT NULL), 0) FROM items WHERE number IN ({_LAST})"
_OUTPUTS: Final = "SELECT 1 FROM items WHERE error IS NULL"
_OTHER_TABLES: Final = (
    "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name NOT IN ('identity', 'starts', 'items')"
)
_STARTS: Final = "SELECT count(*), max(began) FROM starts"


class Checkpoint(SQLiteBacked):
    """The stored outcomes of one job. Safe to use from several threads.

    A failed item is asked again when the job goes on. The requests of all its attempts count as spending.

    Args:
        path: The file, which is created with its folders, for its owner alone, if it does not exist. On a local disk.
        call: The call that the job makes; its prompt, schema, model and settings must be those of the file.

    Attributes:
        path: The file.
        spent: The tokens and the cost of all requests that the file had when it was opened.
        found: The number of items that the file had when it was opened, failed ones included.

    Raises:
        CheckpointMismatch: If the file has outputs of another job; the message names what differs.
        CheckpointError: If another process is writing it, it cannot be written, or it cannot store the output type.
        UnstableInput: If the prompt or the settings contain an object without a stable hash.
    """

    layout: ClassVar[Layout] = LAYOUT

    def __init__(self, path: str | os.PathLike[str], call: ToolOrchestratingLLM[Any]) -> None:
        self._codec = OutputCodec(call)
        identity = JobIdentity.of(call)
        self._lease = _claim(path)
        try:
            with _failures(path):
                super().__init__(path)
            self._begin(identity)
        except BaseException:
            self._lease.release()
            raise

    @property
    def file(self) -> SQLiteFile:
        """The database, for the tables of other parts of a job."""
        return self._file

    def find(self, key: str, index: int = 0, input: Any = None) -> Outcome[Any] | None:
        """Return the stored outcome of an item; None if there is none, or it has failed and is asked again.

        Args:
            key: The key of the item.
            index: The position of its input, for the outcome.
            input: Its input, for the outcome.

        Raises:
            CheckpointError: If the stored output is not valid, or the file fails.
        """
        if not self.found:
            return None
        with _failures(self.path), self._file.using() as connection:
            row = connection.execute(_FIND, (key,)).fetchone()
        if row is None:
            return None
        output, types, failed, attempts, seconds, *usage = row
        if failed:
            return None
        try:
            value = self._codec.decode(output, types)
            return Outcome(index, key, input, value, None, attempts, _usage(usage), seconds)
        except (ValueError, TypeError, KeyError) as why:
            raise CheckpointError(
                f"checkpoint {self.path}: the stored outcome of input {index} (key {key}) is not valid: {why!s:.500}. "
                "Were the validators of the output type changed, or the file? Start with another checkpoint, or "
                f"delete the item from the table: DELETE FROM items WHERE key = '{key}'"
            ) from why

    def write(self, outcome: Outcome[Any]) -> None:
        """Store an outcome. When this returns, it survives the end of the process, killed or not.

        Raises:
            CheckpointError: If the output cannot be stored, or the file fails: the disk is full, for example. What was
                written before is there.
        """
        row = self._row(outcome)
        # One statement is a transaction of its own. BEGIN and COMMIT would each release the interpreter's lock, and
        # then wait for it while other threads wait for the file.
        with _failures(self.path), self._file.using() as connection:
            connection.execute(_WRITE, row)

    def close(self) -> None:
        """Close the file, which another process can open then."""
        try:
            super().close()
        finally:
            self._lease.release()

    def _begin(self, identity: JobIdentity) -> None:
        """Compare or store the identity of the job. This writes, so that a read-only file fails before any request."""
        try:
            with _failures(self.path), self._file.changing() as connection:
                stored = _identity(connection, self.path)
                changed = identity.changes(stored) if stored.parts else {}
                if changed:
                    if not _is_without_outputs(connection):
                        raise _mismatch(self.path, changed)
                    connection.execute("DELETE FROM identity")
                rows = [(name, part.digest, replace_surrogates(part.text)) for name, part in identity.parts.items()]
                connection.executemany("INSERT OR IGNORE INTO identity VALUES (?, ?, ?)", rows)
                connection.execute(_START, (os.getpid(),))
                for name, kind in _ADDED.items():
                    if not connection.execute(_HAS, (name,)).fetchone():
                        connection.execute(f"ALTER TABLE items ADD COLUMN {name} {kind}")
                self._check_rows(connection)
                self.spent: Usage = _spent(connection)
                self.found: int = connection.execute(_COUNT).fetchone()[0]
        except BaseException:
            self._file.close()
            raise

    def _check_rows(self, connection: sqlite3.Connection) -> None:
        """Raise `CheckpointError` for a row that is not as it was written, or is lost."""
        if (problem := connection.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
            raise CheckpointError(f"checkpoint {self.path} is damaged: {problem:.300}. Restore it, or use another file")
        for number, checksum, *row in connection.execute(_ROWS):
            if checksum != _checksum(row):
                raise CheckpointError(
                    f"checkpoint {self.path}: row {number} of its items is damaged (key {row[0]!r:.100}). Restore the "
                    "file, or delete the row, whose item is then asked again: DELETE FROM items WHERE number = "
                    f"{number}"
                )

    def _row(self, outcome: Outcome[Any]) -> tuple[Any, ...]:
        output, types, error = None, None, None
        if outcome.error is None:
            output, types = self._codec.encode(outcome.output)
        else:
            error = json.dumps(error_to_dict(outcome.error))
        usage = outcome.usage
        amount, complete = (Decimal(0), False) if usage.pricing is None else usage.pricing.known(usage)
        cost = round(amount * _PICODOLLARS) if amount or complete else None
        tokens = [getattr(usage, name) for name in TOKENS]
        details = json.dumps(found) if (found := usage.details.to_dict()) else None
        start = (outcome.key, outcome.index, output, types, error, outcome.attempts, outcome.seconds)
        row = (*start, *tokens, cost, int(complete), details)
        return (*row, _checksum(row))


@dataclass(frozen=True, slots=True)
class CheckpointStatus:
    """The state of the job in a checkpoint.

    Attributes:
        path: The file.
        done: The number of items with an output.
        failed: The number of items with an error, which are asked again when the job goes on.
        spent: The tokens and the cost of all requests.
        starts: The number of times that the job was started.
        last_start: The time of the last one, in UTC (ISO 8601).
        running: True if a process has the file open for writing.
        job: The texts of the job's identity by part: `prompt`, `model`, `schema`, and settings.
    """

    path: Path
    done: int
    failed: int
    spent: Usage
    starts: int
    last_start: str
    running: bool
    job: dict[str, str]

    def __str__(self) -> str:
        state = (
            f"running since {self.last_start}" if self.running else f"not running; its last start was {self.last_start}"
        )
        return f"{self.path}: {self.done} done, {self.failed} failed; {self.spent.describe()}; {state}"


def read_status(path: str | os.PathLike[str]) -> CheckpointStatus:
    """Return the state of the job in the checkpoint at `path`, also while it is running.

    Raises:
        FileNotFoundError: If there is no file.
        CheckpointError: If it is not a checkpoint, or cannot be read.
    """
    path = Path(path).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    try:
        _claim(path).release()
        running = False
    except CheckpointError as error:
        if not isinstance(error.__cause__, SessionLocked):
            raise
        running = True
    with _failures(path):
        file = SQLiteFile(path, LAYOUT)
        try:
            with file.using() as connection:
                items, failed = connection.execute(_COUNT).fetchone()
                spent = _spent(connection)
                starts, last = connection.execute(_STARTS).fetchone()
                job = {name: part.text for name, part in _identity(connection, path).parts.items()}
        finally:
            file.close()
    return CheckpointStatus(path, items - failed, failed, spent, starts, last or "", running, job)


def _claim(path: str | os.PathLike[str]) -> SessionLease:
    """Return the right to write the file, which one object at a time has."""
    path = Path(path).resolve()
    try:
        with wrap_os_errors(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A file beside it: where a process closes any descriptor of a database, it loses the locks that SQLite has.
            return claim_file(path.with_name(f"{path.name}.lock"), path.name)
    except SessionLocked as error:
        where = "here" if error.owner == os.getpid() else "in another" if error.owner is None else f"{error.owner}"
        raise CheckpointError(
            f"checkpoint {path} is being written by another job (process: {where}): wait until it has ended, or use "
            "another file"
        ) from error
    except ToolcastError as error:
        raise _failure(path, error) from error


@contextmanager
def _failures(path: str | os.PathLike[str]) -> Generator[None]:
    """Raise the failures of the file as `CheckpointError`."""
    try:
        yield
    except CheckpointError:
        raise
    except ToolcastError as error:
        raise _failure(path, error) from error


def _failure(path: str | os.PathLike[str], error: ToolcastError) -> CheckpointError:
    reason = error if error.__cause__ is None else error.__cause__
    return CheckpointError(
        f"checkpoint {Path(path).resolve()} failed: {reason}. What was written before is kept: make sure that the disk "
        "has space and the file can be written, and start the job again with the same checkpoint"
    )


def _mismatch(path: Path, changed: dict[str, str]) -> CheckpointMismatch:
    listed = "; ".join([f"{name}: {change}" for name, change in changed.items()])
    return CheckpointMismatch(
        f"checkpoint {path} belongs to a job with another {' and '.join(changed)}, whose answers are not mixed with "
        f"those of this one ({listed}). Use another file, or restore what was changed",
        changed=changed,
    )


def _is_without_outputs(connection: sqlite3.Connection) -> bool:
    """Return True if no item has an output, and no other part of a job has used the file: nothing can be mixed."""
    return not connection.execute(f"{_OUTPUTS} UNION ALL {_OTHER_TABLES}").fetchone()


def _identity(connection: sqlite3.Connection, path: str | os.PathLike[str]) -> JobIdentity:
    rows = connection.execute("SELECT part, digest, text FROM identity ORDER BY rowid").fetchall()
    for row in rows:
        if any(type(column) is not str for column in row):
            raise CheckpointError(
                f"checkpoint {path} is damaged: the {row[0]!r:.100} of its job is not a text. Restore it, or use "
                "another file"
            )
    return JobIdentity({part: IdentityPart(digest, text) for part, digest, text in rows})


def _spent(connection: sqlite3.Connection) -> Usage:
    """Return the usage of all requests in a file, which need not have the column of the details."""
    found: dict[str, Any] = {}
    if connection.execute(_HAS, ("details",)).fetchone():
        # A later version may count more.
        found = {name: count for name, count in connection.execute(_DETAILS_SPENT) if name in COUNTS}
        tiers = connection.execute(_TIER).fetchall()
        if len(tiers) == 1 and tiers[0][0] is not None:
            found["service_tier"] = tiers[0][0]
    return _usage((*connection.execute(_SPENT).fetchone(), json.dumps(found)))


def _checksum(row: Sequence[Any]) -> int:
    return crc32(repr(tuple(row)).encode("utf-8", "surrogatepass"))


def _usage(row: Any) -> Usage:
    """Return the usage in the columns `_USAGE`."""
    *tokens, cost, complete, stored = row
    pricing = None if cost is None else StoredCost(Decimal(cost) / _PICODOLLARS, bool(complete))
    details = UsageDetails.from_dict(dict(json.loads(stored))) if stored else NO_DETAILS
    found = Usage(*tokens, details=details, pricing=pricing)
    return NO_USAGE if found == NO_USAGE and not cost else found
