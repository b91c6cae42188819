"""event_log.py: what JSON holds stays as it is, all else becomes text, and nothing raises."""

from __future__ import annotations

import json
import sys
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from toolcast.experiments.event_log import DEEPEST, is_plain, json_safe

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
ANYTHING = st.recursive(
    st.none()
    | st.floats()
    | st.binary()
    | st.text(st.characters())
    | st.dates()
    | st.decimals()
    | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.frozensets(st.integers() | st.binary(), max_size=4)
        | st.dictionaries(st.none() | st.integers() | st.text(st.characters()) | st.binary(), inner, max_size=4)
    ),
    max_leaves=20,
)
Point = namedtuple("Point", "x y")


class Colour(Enum):
    RED = "red"
    BOTH = ("red", b"blue")


class Level(IntEnum):
    HIGH = 3


class Word(str):
    def __str__(self) -> str:
        raise AssertionError("not asked")


class Mute:
    def __repr__(self) -> str:
        raise LookupError("no words")


class Closed(dict[str, Any]):
    def items(self) -> Any:
        raise OSError("closed")


@dataclass
class Pair:
    one: int
    two: bytes


@pytest.mark.parametrize(
    ("value", "safe"),
    [
        (b"caf\xc3\xa9", "café"),
        (b"\xff\x00a", "\\xff\x00a"),
        (bytearray(b"ab"), "ab"),
        (memoryview(b"ab"), "ab"),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", 1, "a"}), ["a", "b", 1]),
        ((1, (2,)), [1, [2]]),
        (Point(1, b"y"), [1, "y"]),
        ({"k": 1}.keys(), ["k"]),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        (time(3, 4), "03:04:00"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (PurePosixPath("a/b"), "a/b"),
        (float("nan"), None),
        (float("-inf"), None),
        ("a\ud800b", "a\ufffdb"),
        ("\ud83d\ude00", "\U0001f600"),
        (Word("word"), "word"),
        (Colour.RED, "red"),
        (Colour.BOTH, ["red", "blue"]),
        (Level.HIGH, 3),
        (True, True),
        (10**300, 10**300),
        (1 << 20_000, hex(1 << 20_000)),
        (-(1 << 20_000), hex(-(1 << 20_000))),
        (Pair(1, b""), "Pair(one=1, two=b'')"),
        (ValueError("why"), "ValueError('why')"),
        (1j, "1j"),
        (Mute(), "<Mute that cannot be written: LookupError>"),
        ([Mute(), 1], ["<Mute that cannot be written: LookupError>", 1]),
        (Closed(a=1), "<Closed that cannot be written: OSError>"),
        (UserDict({"a": {1}}), {"a": [1]}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (
            {None: 0, True: 1, 2: 2, 1.5: 3, b"b": 4, (1, "t"): 5, Colour.RED: 6, "\ud800": 7, float("nan"): 8},
            {"null": 8, "true": 1, "2": 2, "1.5": 3, "b": 4, '[1,"t"]': 5, "red": 6, "\ufffd": 7},
        ),
        ({1: "first", "1": "second"}, {"1": "second"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_it_becomes(value: object, safe: object) -> None:
    found = json_safe({"payload": value})["payload"]
    assert found == safe and type(found) is type(safe)
    assert is_plain(found)
    json.dumps(found, ensure_ascii=False, allow_nan=False).encode()


def test_what_holds_itself() -> None:
    data: dict[str, Any] = {"list": [1], "again": {"two": 2}}
    data["list"] += [data["list"], data]
    data["twice"] = data["again"]
    assert not is_plain(data)
    assert json_safe(data) == {"list": [1, "...", "..."], "again": {"two": 2}, "twice": {"two": 2}}


@pytest.mark.parametrize("nest", [lambda inner: [inner], lambda inner: {"in": inner}, lambda inner: (inner, 1)])
def test_what_is_very_deep(nest: Any) -> None:
    def nested(levels: int) -> Any:
        data: Any = "end"
        for _ in range(levels):
            data = nest(data)
        return data

    assert is_plain(nested(DEEPEST))
    assert not is_plain(nested(DEEPEST + 1))
    assert json.dumps(json_safe(nested(DEEPEST))) == json.dumps(nested(DEEPEST))
    assert json.dumps(json_safe(nested(50_000))).count("end") == 0
    assert '"..."' in json.dumps(json_safe(nested(50_000)))


def test_with_no_stack_left_it_still_returns_text() -> None:
    def dig(levels: int) -> Any:
        return dig(levels - 1) if levels else json_safe({"a": [b"b"]})

    found: list[Any] = []
    for left in range(40, 200, 5):
        with suppress(RecursionError):  # the recursion of the test itself may be too deep
            found.append(dig(sys.getrecursionlimit() - left))
    assert all(map(is_plain, found))
    assert found[-1] == {"a": ["b"]} and found[0] != found[-1]


def test_an_iterator_is_not_used_up() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    given = numbers()
    assert "generator object" in json_safe(given)
    assert list(given) == [1]


@given(PLAIN)
def test_plain_data_stays_as_it_is(data: Any) -> None:
    assert is_plain(data)
    assert json_safe(data) == data
    assert json.dumps(json_safe(data)) == json.dumps(data)


@given(ANYTHING)
def test_anything_becomes_plain_and_stays_so(data: Any) -> None:
    safe = json_safe(data)
    assert is_plain(safe)
    assert json_safe(safe) == safe
    assert json.loads(json.dumps(safe, allow_nan=False, ensure_ascii=False).encode()) == safe
