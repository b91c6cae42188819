"""Tests of the keys of inputs: what they are equal for, and that another process computes the same."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict, UserDict, UserList, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ConfigDict, SecretStr

from toolcast.batch.item_keys import ItemKeys, UnstableInput, stable_digest


class Colour(Enum):
    RED = 1
    BLUE = 2


class Access(Flag):
    READ = 1
    WRITE = 2


class Person(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str
    age: int = 0


class Album(BaseModel):
    name: str
    age: int = 0


@dataclass
class Text:
    text: str
    at: datetime | None = None
    cached: int = field(default=0, compare=False)


Row = namedtuple("Row", "text n")
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Loud(str):
    __slots__ = ()


EQUAL: list[tuple[Any, Any]] = [
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": 1}, OrderedDict(a=1)),
    ({"a": 1}, UserDict(a=1)),
    ([1, 2], (1, 2)),
    ([1, 2], UserList([1, 2])),
    ({3, 1, 2}, frozenset([1, 2, 3])),
    (b"ab", bytearray(b"ab")),
    (b"ab", memoryview(b"ab")),
    ("loud", Loud("loud")),
    (Text("a", NOON, 1), Text("a", NOON, 2)),
    (Person(name="Ada", age=36), Person(age=36, name="Ada")),
    (5, np.int64(5)),
    (1.5, np.float64(1.5)),
    ("a", np.str_("a")),
    ([1, 2], np.array([1, 2])),
    (NOON, pd.Timestamp(NOON)),
    ({"a": 1}, pd.Series({"a": 1})),
    (pd.NA, pd.NA),
    (pd.NaT, pd.NaT),
    (float("nan"), float("nan")),
]

VALUES: list[Any] = [
    None,
    True,
    1,
    1.0,
    -0.0,
    0.0,
    Decimal(1),
    Decimal("1.0"),
    "1",
    b"1",
    "",
    "\ud800",
    10**5000,
    date(2024, 5, 1),
    datetime(2024, 5, 1),
    NOON,
    time(12),
    timedelta(hours=12),
    UUID(int=1),
    Path("a/b"),
    "a/b",
    Colour.RED,
    Colour.BLUE,
    Access.READ,
    Access.READ | Access.WRITE,
    [],
    {},
    set(),
    [1],
    [[1]],
    [1, [2]],
    [[1], 2],
    {1},
    {"a": {"b": 1}},
    {"a": {}, "b": 1},
    {1: "a"},
    {"1": "a"},
    Person(name="Ada"),
    Person(name="Ada", city="London"),  # type: ignore[call-arg]  # an extra value
    Album(name="Ada"),
    {"name": "Ada", "age": 0},
    Text("a"),
    Text("a", NOON),
    Row("a", 1),
    pd.Timestamp("2024-05-01 12:00:00.000000001"),
    pd.NA,
]


@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_values_of_equal_content_have_one_digest(first: Any, second: Any) -> None:
    assert stable_digest(first) == stable_digest(second)
    assert stable_digest({"value": first}) == stable_digest({"value": second})


def test_values_of_different_content_have_different_digests() -> None:
    digests = [stable_digest(value) for value in VALUES]
    assert len(set(digests)) == len(VALUES)
    assert {len(digest) for digest in digests} == {16}


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def tagged(value: Any) -> Any:
    """The value with its types, so that True is not 1, by which digests differ."""
    if isinstance(value, dict):
        return {key: tagged(item) for key, item in value.items()}
    return [tagged(item) for item in value] if isinstance(value, list) else (type(value).__name__, value)


@given(plain, plain)
def test_digests_are_equal_where_values_are(first: Any, second: Any) -> None:
    assert (stable_digest(first) == stable_digest(second)) == (tagged(first) == tagged(second))


@given(st.lists(st.binary(max_size=3), max_size=4), st.lists(st.binary(max_size=3), max_size=4))
def test_no_two_lists_of_bytes_share_an_encoding(first: list[bytes], second: list[bytes]) -> None:
    assert (stable_digest(first) == stable_digest(second)) == (first == second)


PROGRAM = """
from datetime import datetime
from toolcast.batch.item_keys import stable_digest
from pydantic import BaseModel
class Person(BaseModel):
    name: str
    tags: set[str] = {"x", "y", "z"}
print(stable_digest({"p": Person(name="Ada"), "at": datetime(2024, 5, 1), "s": {"a", "b", "c"}}).hex())
"""


def test_another_process_computes_the_same_digest() -> None:
    found = set()
    for seed in ("1", "2"):
        env = {"PYTHONHASHSEED": seed}
        found.add(subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, check=True).stdout)
    assert len(found) == 1


def circular() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "builtins.object has no stable hash"),
        (SecretStr("k"), "SecretStr has no stable hash"),
        ({"a": [lambda: 1]}, "function has no stable hash"),
        (iter([1]), "list_iterator has no stable hash"),
        (Text, "builtins.type has no stable hash"),
        (np.array([object()]), "builtins.object has no stable hash"),
        (np.longdouble("1.5"), "longdouble has no stable hash"),
        (circular(), "contains itself, or is nested too deeply"),
    ],
)
def test_a_value_without_a_stable_hash_is_named(value: Any, message: str) -> None:
    with pytest.raises(UnstableInput, match=message):
        stable_digest(value)


def test_equal_inputs_are_numbered() -> None:
    with ItemKeys() as keys:
        first = keys.key_of({"text": "a"}, 0)
        assert len(first) == 32
        assert keys.key_of({"text": "b"}, 1) != first
        assert [keys.key_of({"text": "a"}, index) for index in (2, 3)] == [f"{first}#2", f"{first}#3"]


def test_keys_of_the_caller() -> None:
    with ItemKeys("id") as keys:
        assert keys.key_of({"id": "x"}, 0) == "x"
        assert keys.key_of({"id": "x"}, 1) == "x#2"
        assert keys.key_of({"id": 7}, 2) == "7"
        assert keys.key_of({"id": np.int64(8)}, 3) == "8"
        assert keys.key_of({"id": "\ud800"}, 3) == "�"
    with ItemKeys("name") as keys:
        assert keys.key_of(Person(name="Ada"), 0) == "Ada"
    with ItemKeys(lambda row: row["a"] + row["b"]) as keys:
        assert keys.key_of({"a": "1", "b": "2"}, 0) == "12"
        assert keys.key_of({"a": date(2024, 1, 1), "b": timedelta(1)}, 1) == "2024-01-02"


@pytest.mark.parametrize(
    ("key", "input", "message"),
    [
        ("id", {"text": "a", "n": 1}, r"input 5 has no 'id', which is the key= of the job; it has: text, n"),
        ("id", Person(name="Ada"), r"input 5 has no 'id'.*; it is of type Person"),
        ("id", {}, r"input 5 has no 'id'.*; it is of type dict"),
        ("id", {"id": None}, r"input 5: its key is None; expected text, a number"),
        ("id", {"id": True}, r"input 5: its key is True"),
        ("id", {"id": 1.5}, r"input 5: its key is 1\.5"),
        ("id", {"id": ""}, r"input 5: its key has 0 characters; expected 1 to 1000"),
        ("id", {"id": "x" * 1001}, r"input 5: its key has 1001 characters"),
        (lambda row: row["nr"], {"id": 1}, r"input 5: key= raised KeyError: 'nr'"),
        (None, {"id": object()}, r"input 5: .*object has no stable hash\. Pass key= to the job"),
    ],
)
def test_an_input_without_a_key_is_named(key: Any, input: Any, message: str) -> None:
    with ItemKeys(key) as keys, pytest.raises(UnstableInput, match=message):
        keys.key_of(input, 5)


def test_without_a_checkpoint_the_position_is_enough() -> None:
    with ItemKeys(positions=True) as keys:
        assert keys.key_of({"id": object()}, 5) == "at-5"
    with ItemKeys("id", positions=True) as keys, pytest.raises(UnstableInput):
        keys.key_of({}, 0)


def test_a_job_that_is_dropped_leaves_no_open_database() -> None:
    keys = ItemKeys()
    closed = keys._close
    del keys
    assert not closed.alive


def test_a_row_that_cannot_be_read_needs_no_key() -> None:
    with ItemKeys("id") as keys:
        first = keys.key_of_bad_row("broken,row", 0)
        assert (len(first), keys.key_of_bad_row("broken,row", 1)) == (32, f"{first}#2")
        assert keys.key_of_bad_row(object(), 7) == "at-7"
