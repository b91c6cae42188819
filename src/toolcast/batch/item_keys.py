"""Keys of inputs: a hash of the value, which a later process computes again, and the number of its occurrence.

`stable_digest` hashes a value by its content: each value is encoded as a tag of its type, a length and its bytes, so
that no two values of different content have the same encoding. The order of a dict, the process and the module that
defines a class do not matter; a value whose content cannot be read that way has no stable hash, and its items need a
`key=`.

`EqualInputs`: the rows whose prompt is the same as that of an earlier row, which are not sent a second time.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from pathlib import PurePath
from threading import Lock
from typing import Any, Final, Generic, TypeAlias, TypeVar
from uuid import UUID
from weakref import finalize

from pydantic import BaseModel

from ..async_support.closing import Closing
from ..text.json_text import replace_surrogates
from ..values.usage import NO_USAGE
from .inputs import InputRow
from .job_errors import JobError
from .outcome import Outcome

T = TypeVar("T")

MOST: Final = 10_000
"""The number of outcomes that are kept for rows that follow."""


class EqualInputs(Generic[T]):
    """The latest outcomes by the values of the prompt's variables. Thread-safe."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._waiting: dict[bytes, list[InputRow]] = {}  # for the outcome of a row that runs
        self._outcomes: OrderedDict[bytes, Outcome[T]] = OrderedDict()  # the first was used longest ago
        self._lock = Lock()

    def add(self, row: InputRow) -> Outcome[T] | bool:
        """Add a row: return its outcome if an equal one has ended, True if it has to wait for one, False if it is new.

        A row without a stable hash is new.
        """
        try:
            row.digest = stable_digest(row.values)
        except UnstableInput:
            return False
        with self._lock:
            if (outcome := self._outcomes.get(row.digest)) is not None:
                self._outcomes.move_to_end(row.digest)
                return copied(outcome, row)
            if (waiting := self._waiting.get(row.digest)) is not None:
                waiting.append(row)
                return True
            self._waiting[row.digest] = []
            return False

    def add_running(self, row: InputRow) -> None:
        """Add a row that was sent by an earlier run: equal rows that follow wait for it."""
        try:
            digest = stable_digest(row.values)
        except UnstableInput:
            return
        with self._lock:
            if digest not in self._outcomes and digest not in self._waiting:
                row.digest = digest
                self._waiting[digest] = []

    def add_ended(self, row: InputRow, outcome: Outcome[T]) -> None:
        """Add a row whose outcome an earlier run has stored: equal rows that follow get a copy."""
        self.add_running(row)
        self.ended(row, outcome)

    def ended(self, row: InputRow, outcome: Outcome[T]) -> list[InputRow]:
        """Record the outcome of a row; return the rows that waited for it.

        They get copies of a valid outcome. After an error the first of them is asked, and the others wait for it.
        """
        with self._lock:
            waiting = self._waiting.get(row.digest)
            if waiting is None:  # a row without a stable hash
                return []
            if outcome.error is not None and waiting:
                return [waiting.pop(0)]
            del self._waiting[row.digest]
            if outcome.error is None:
                self._outcomes[row.digest] = outcome
                if len(self._outcomes) > self._most:
                    self._outcomes.popitem(last=False)
            return waiting


def copied(outcome: Outcome[T], row: InputRow) -> Outcome[T]:
    """Return the outcome of a row that was not sent, as an equal one has this outcome."""
    return replace(outcome, index=row.index, key=row.key, input=row.input, attempts=0, usage=NO_USAGE, seconds=0.0)


KeyOption: TypeAlias = Callable[[Any], object] | str | None
"""The option `key` of a job: a function of the input, the name of a column or field, or None."""

_DIGEST_SIZE: Final = 16  # bytes: among 10 billion inputs, two have the same digest with a probability of 1e-19
_LONGEST_KEY: Final = 1_000


class UnstableInput(JobError, TypeError):
    """The error for an input that has no stable hash, or no value for `key`. Nothing was sent for it."""


class ItemKeys(Closing):
    """The keys of a job's items, in the order of its inputs.

    A key is the caller's, or 32 hexadecimal digits, and from its second occurrence on has its number: `ab12...`,
    `ab12...#2`. The occurrences are counted in a temporary database, which SQLite keeps in memory up to 2 MB and in a
    file of its own beyond that: a dict of ten million keys would take a gigabyte.

    Args:
        key: A function of the input, or the name of a column or field; None: a hash of the input.
        positions: Use the position of an input without a stable hash as its key, `at-5`. Default: False, it is an
            error: such a key does not identify the item after a change of the inputs.
    """

    def __init__(self, key: KeyOption = None, *, positions: bool = False) -> None:
        self._key: KeyOption = key
        self._positions = positions
        self._lock = Lock()
        self._seen = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._seen.execute("CREATE TABLE seen (digest BLOB PRIMARY KEY, times INTEGER NOT NULL) WITHOUT ROWID")
        self._close = finalize(self, self._seen.close)
        self._seen.execute("BEGIN")  # and never a commit: the counts end with the job

    def key_of(self, input: Any, index: int) -> str:
        """Return the key of the input at the position `index`.

        Raises:
            UnstableInput: If the input has no stable hash, or no value for `key`.
        """
        try:
            text = stable_digest(input).hex() if self._key is None else _caller_key(self._key, input, index)
        except UnstableInput as error:
            if self._key is not None:
                raise
            if self._positions:
                return f"at-{index}"
            raise UnstableInput(
                f"input {index}: {error}. Pass key= to the job: a function of the input, or the name of a column"
            ) from error
        return self._count(text)

    def key_of_bad_row(self, input: Any, index: int) -> str:
        """Return a key of a row that cannot be read: it has no value that `key` could be taken from."""
        try:
            return self._count(stable_digest(input).hex())
        except UnstableInput:
            return f"at-{index}"

    def close(self) -> None:
        """Delete the counts."""
        with self._lock:
            self._close()

    def _count(self, text: str) -> str:
        """Return the key with the number of its occurrence."""
        digest = blake2b(text.encode(), digest_size=_DIGEST_SIZE).digest()
        with self._lock:
            times = self._seen.execute(_COUNT, (digest,)).fetchone()[0]
        return text if times == 1 else f"{text}#{times}"


_COUNT: Final = "INSERT INTO seen VALUES (?, 1) ON CONFLICT DO UPDATE SET times = times + 1 RETURNING times"


def _caller_key(key: Callable[[Any], object] | str, input: Any, index: int) -> str:
    """Return the key that the caller's function or column has for an input."""
    try:
        value: Any = _column(key, input, index) if isinstance(key, str) else key(input)
    except UnstableInput:
        raise
    except Exception as error:  # of the caller's function
        raise UnstableInput(f"input {index}: key= raised {type(error).__name__}: {error}") from error
    if _is_numpy(value):
        value = value.tolist()
    if isinstance(value, bool) or not isinstance(value, (str, int, UUID, Decimal, PurePath, date)):
        raise UnstableInput(f"input {index}: its key is {value!r:.100}; expected text, a number, a date or a UUID")
    text = str(value)
    if not 0 < len(text) <= _LONGEST_KEY:
        raise UnstableInput(
            f"input {index}: its key has {len(text)} characters; expected 1 to {_LONGEST_KEY}: use an id, not a text"
        )
    return replace_surrogates(text)


def _column(name: str, input: object, index: int) -> Any:
    found: Any = input  # typed as Any, so that isinstance below does not narrow it
    kind = type(input).__name__
    if isinstance(input, Mapping):
        if name in found:
            return found[name]
        names = ", ".join(map(str, found))
    else:
        if hasattr(input, name):
            return getattr(found, name)
        names = ""
    there = f"it has: {names:.200}" if names else f"it is of type {kind}"
    raise UnstableInput(f"input {index} has no {name!r}, which is the key= of the job; {there}")


def stable_digest(value: Any) -> bytes:
    """Return 16 bytes that identify the content of `value`, in every process and on every machine.

    Equal are a list and a tuple of equal items, and mappings in any order. Different are `1`, `1.0` and `True`, and
    instances of classes with different names.

    Raises:
        UnstableInput: For a value whose content cannot be read, or that contains itself.
    """
    try:
        return _digest(value)
    except RecursionError:
        raise UnstableInput(
            f"the {type(value).__name__} contains itself, or is nested too deeply to be hashed"
        ) from None


def _digest(value: Any) -> bytes:
    if type(value) is str:  # most values of most rows: the same encoding, in one step
        text = value.encode("utf-8", "surrogatepass")
        return blake2b(b"str%d:%s" % (len(text), text), digest_size=_DIGEST_SIZE).digest()
    return blake2b(b"".join(_pieces(value)), digest_size=_DIGEST_SIZE).digest()


def _pieces(value: object) -> Iterable[bytes]:
    """Return the encoding of a value: a tag, and for a scalar its length and its bytes."""
    given: Any = value  # typed as Any, so that isinstance below does not narrow it
    # By exact type: subclasses of `str` and `int`, such as members of enumerations, have tags of their own.
    scalar = _SCALARS.get(type(value))
    if scalar is not None:
        tag, encode = scalar
        return _sized(tag, encode(value))
    if type(value) is dict:
        # The names of the columns are the same in all rows.
        pairs = [
            (_name_digest(key) if type(key) is str else _digest(key)) + _digest(item) for key, item in given.items()
        ]
        return (b"map%d:" % len(pairs), *sorted(pairs))
    if isinstance(value, Enum):
        return (_tag(b"enum", value), *_pieces(value.name or str(value.value)))  # combined flags have no name
    if isinstance(value, Mapping):
        pairs = sorted([_digest(key) + _digest(item) for key, item in given.items()])
        return (b"map%d:" % len(pairs), *pairs)
    if isinstance(value, BaseModel):
        return (_tag(b"object", value), *_pieces(_fields_of_model(value)))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        compared = {each.name: getattr(value, each.name) for each in dataclasses.fields(value) if each.compare}
        return (_tag(b"object", value), *_pieces(compared))
    return _other_pieces(value)


_name_digest = lru_cache(1024)(_digest)


def _other_pieces(value: object) -> Iterable[bytes]:
    given: Any = value  # as in `_pieces`
    if _is_numpy(value):  # a scalar is hashed as the number that it is, and an array as its list
        plain = given.tolist()
        if type(plain) is not type(value):
            return _pieces(plain)
    for kind, (tag, encode) in _SCALARS.items():  # subclasses, as pandas' Timestamp and NaT of datetime
        if isinstance(value, kind):
            return _sized(tag, encode(value))
    if isinstance(value, tuple) and hasattr(given, "_asdict"):  # a named tuple, as a row of `DataFrame.itertuples`
        return (_tag(b"object", value), *_pieces(given._asdict()))
    if isinstance(value, Sequence):
        items = [_digest(item) for item in given]
        return (b"list%d:" % len(items), *items)
    if isinstance(value, AbstractSet):
        items = sorted([_digest(item) for item in given])
        return (b"set%d:" % len(items), *items)
    if isinstance(value, PurePath):
        return _sized(b"path", value.as_posix().encode("utf-8", "surrogatepass"))
    if type(value).__name__ == "NAType":  # pandas' missing value
        return (b"missing",)
    if hasattr(value, "to_dict") and type(value).__module__.partition(".")[0] == "pandas":  # a row as a Series
        return _pieces(given.to_dict())
    raise UnstableInput(f"a value of type {type(value).__module__}.{type(value).__qualname__} has no stable hash")


def _sized(tag: bytes, content: bytes) -> tuple[bytes, ...]:
    return (b"%s%d:" % (tag, len(content)), content)


def _tag(kind: bytes, value: Any) -> bytes:
    """Return the tag of an instance: its class by name alone, as `__main__` is another module when it is imported."""
    name = type(value).__qualname__.encode()
    return b"%s%d:%s" % (kind, len(name), name)


def _fields_of_model(model: BaseModel) -> dict[str, Any]:
    return {**model.__dict__, **(model.__pydantic_extra__ or {})}


def _is_numpy(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist")


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _iso(value: date | time) -> bytes:
    return value.isoformat().encode()


def _as_text(value: object) -> bytes:
    return str(value).encode()


def _integer(value: int) -> bytes:
    return hex(value).encode()  # the decimal text of a long one is an error


def _number(value: float) -> bytes:
    return float.__repr__(value).encode()


_SCALARS: Final[dict[type, tuple[bytes, Callable[[Any], bytes]]]] = {
    type(None): (b"none", lambda _: b""),
    bool: (b"bool", _as_text),
    int: (b"int", _integer),
    float: (b"float", _number),
    str: (b"str", _text),
    bytes: (b"bytes", bytes),
    bytearray: (b"bytes", bytes),
    memoryview: (b"bytes", bytes),
    Decimal: (b"decimal", _as_text),
    datetime: (b"time", _iso),
    date: (b"date", _iso),
    time: (b"clock", _iso),
    timedelta: (b"span", _as_text),
    UUID: (b"uuid", _as_text),
}
