"""seen_values.py: what the arguments of a call are, and what cannot be looked at."""

from __future__ import annotations

import datetime
import functools
import ipaddress
import re
import uuid
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given, strategies as st
from pydantic import (
    AliasChoices,
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    SecretBytes,
    SecretStr,
    TypeAdapter,
)

from toolcast.agents.permissions.argument_values import PathText, UnseenValue, is_plain_object, to_plain


class Suit(StrEnum):
    HEARTS = "h"


class Point(NamedTuple):
    x: int
    path: str


@dataclass
class Plain:
    path: str


@dataclass(slots=True)
class Slotted:
    path: str


class Odd:
    __slots__ = "__hidden", "missing"  # one that is private, and one without a value

    def __init__(self) -> None:
        self.__hidden = "h"


class Empty:
    pass


class Names(RootModel[list[str]]):
    pass


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")

    plain: str = "a"
    left_out: str = Field("b", exclude=True)
    written: Annotated[str, PlainSerializer(lambda _: "other")] = "c"
    named: str = Field("d", alias="path")
    chosen: str = Field("e", validation_alias=AliasChoices("file", "other"))
    typed: Path = Path("f")


class FolderInBytes:
    def __fspath__(self) -> bytes:
        return b"a"


ITSELF: list[Any] = [None, True, 3, 1.5, "a", [], {}, {"a": 1}, {"a": ["b", {"c": None}]}]
SEEN: list[tuple[Any, Any]] = [
    *((value, value) for value in ITSELF),
    (("a", 1), ["a", 1]),
    ({"a"}, ["a"]),
    (frozenset((1,)), [1]),
    (deque(["a"]), ["a"]),
    (OrderedDict(a=1), {"a": 1}),
    (b"a\xff", "a\udcff"),
    (bytearray(b"a"), "a"),
    (1j, "1j"),
    (Path("a/b"), "a/b"),
    (FolderInBytes(), "a"),
    ({Path("a"): 1, 2: [], None: ""}, {"a": 1, "2": [], "None": ""}),
    (Suit.HEARTS, "h"),
    (Point(1, "a"), {"x": 1, "path": "a"}),
    (Plain("a"), {"path": "a"}),
    (Slotted("a"), {"path": "a"}),
    (Odd(), {"_Odd__hidden": "h"}),
    (Empty(), {}),
    (object(), {}),
    (SecretStr("a"), "a"),
    (SecretBytes(b"a"), "a"),
    (Names(["a"]), ["a"]),
    (
        Model.model_validate({"more": "g"}),
        {"plain": "a", "left_out": "b", "written": "c", "path": "d", "file": "e", "typed": "f", "more": "g"},
    ),
    (datetime.date(2020, 1, 2), "2020-01-02"),
    (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
    (Decimal("1.5"), "1.5"),
    (ipaddress.ip_address("::1"), "::1"),
    (re.compile("a+"), "a+"),
    (AnyUrl("file:///a/.env"), "file:///a/.env"),
    (int, "int"),
]


@pytest.mark.parametrize(
    ("value", "expected"), SEEN, ids=[f"{at}-{type(value).__name__}" for at, (value, _) in enumerate(SEEN)]
)
def test_what_a_value_is(value: Any, expected: Any) -> None:
    assert to_plain([value]) == [expected]
    assert to_plain(to_plain([value])) == [expected]


def test_a_path_stays_a_path() -> None:
    (found,) = to_plain([Path("a")])
    assert isinstance(found, PathText)
    assert found.__fspath__() == "a"
    (again,) = to_plain([found])
    assert isinstance(again, PathText)


class Failing(Mapping[str, str]):
    def __getitem__(self, key: str) -> str:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError

    def __len__(self) -> int:
        return 1


def nested(depth: int) -> Any:
    value: Any = ["a"]
    for _ in range(depth - 1):
        value = [value]
    return value


HIMSELF: list[Any] = []
HIMSELF.append(HIMSELF)
TWICE: Any = ["a"]
for _ in range(40):
    TWICE = [TWICE, TWICE]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (iter(["a"]), "use a list as its type"),
        (TypeAdapter(Iterable[str]).validate_python(["a"]), "use a list as its type"),
        (functools.partial(int, "1"), "'partial', which cannot be inspected"),
        (Failing(), "an argument cannot be inspected: RuntimeError"),
        (HIMSELF, "contain themselves"),
        (TWICE, "too many"),
        (nested(101), "nested too deeply"),
        ([[]] * 100_000, "too many"),
        ({Path("a"): 1, "a": 2}, "two keys of an argument are both 'a'"),
        ({Path("a" * 101): 1, "a" * 101: 2}, f"two keys of an argument are both '{'a' * 100}'$"),
    ],
)
def test_what_cannot_be_looked_at(value: Any, message: str) -> None:
    with pytest.raises(UnseenValue, match=message):
        to_plain({"x": value})


def test_values_may_be_deep_and_shared() -> None:
    assert to_plain(nested(100)) == nested(100)
    shared = ["a"]
    assert to_plain([shared, shared]) == [["a"], ["a"]]
    many: list[Any] = [[]] * 99_990
    assert to_plain(many) == many


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(JSON)
def test_plain_data_is_itself(value: Any) -> None:
    assert to_plain(value) == value


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [
        ("{}", True),
        ('{"a": "b:c"}', True),
        ('{"a": {"b": 1}, "c": {"b": 1}}', True),
        ('{"a": 1, "a": 1}', False),
        ('{"a": [{"b": 1, "b": 2}]}', False),
        ("[]", False),
        ('"a"', False),
        ('{"a": 1', False),
        ('{"a": "\ud800"}', False),
    ],
)
def test_json_that_shows_what_will_run(text: str, is_plain: bool) -> None:
    assert is_plain_object(text) is is_plain
