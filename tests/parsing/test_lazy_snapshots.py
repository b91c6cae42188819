"""Snapshots that are completed when they are first read, and strings that grow in place."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import sys
import threading
import tracemalloc
from collections.abc import Callable
from functools import cached_property
from itertools import count
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel
from typing_extensions import TypedDict

from support.example_counts import examples
from support.growth import pieces_of
from toolcast.parsing.partial_instances import UNREAD, is_partial, partial_class
from toolcast.parsing.partial_value import MISSING, PartialValue, plan_for


class Leaf(BaseModel):
    kind: Literal["leaf"] = "leaf"
    name: str = Field("", alias="the name")
    note: str | None = None

    @cached_property
    def letters(self) -> int:
        return len(self.name or "")


class Fork(BaseModel):
    kind: Literal["fork"] = "fork"
    parts: list[Tree] = []


Tree = Annotated[Leaf | Fork, Field(discriminator="kind")]


@dataclasses.dataclass
class Point:
    x: int = 0
    label: str = ""
    inner: Fork | None = None


@dataclasses.dataclass(slots=True)
class Slotted:
    x: int = 0
    label: str = ""


class Entry(TypedDict, total=False):
    text: str
    leaf: Leaf


class Words(RootModel[list[str]]):
    pass


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    leaf: Leaf | None = None


class Everything(BaseModel):
    title: str = ""
    tree: Tree | None = None
    by_name: dict[str, Leaf] = {}
    point: Point | None = None
    slotted: Slotted | None = None
    entry: Entry = {}
    words: Words | None = None
    any: Open | None = None
    inner: Everything | None = None


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def _members(**members: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Objects as text, whose keys may be repeated."""
    keys = [key for key in members for _ in range(2)]
    member = st.sampled_from(keys).flatmap(lambda key: members[key].map(lambda value: f"{json.dumps(key)}: {value}"))
    return st.lists(member, max_size=5).map(lambda parts: "{" + ", ".join(parts) + "}")


def _array(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(items, max_size=3).map(lambda parts: "[" + ", ".join(parts) + "]")


_string = st.builds(lambda text, ascii: json.dumps(text, ensure_ascii=ascii), _text, st.booleans())
_leaf = _members(**{"kind": st.just('"leaf"'), "the name": _string, "note": _string | st.just("null")})
_fork = _array(_leaf).map(lambda parts: f'{{"kind": "fork", "parts": {parts}}}')
_number = st.integers(0, 99).map(str)
_inner: st.SearchStrategy[str] = _members(
    title=_string,
    tree=_leaf | _fork,
    by_name=_members(a=_leaf, b=_leaf, c=_leaf),
    point=_members(x=_number, label=_string, inner=_fork),
    slotted=_members(x=_number, label=_string),
    entry=_members(text=_string, leaf=_leaf),
    words=_array(_string),
    any=_members(leaf=_leaf, other=_string),
)
_document = _members(title=_string, inner=_members(title=_string, inner=_inner, by_name=_members(a=_leaf)), tree=_fork)


@st.composite
def _streams(draw: st.DrawFn) -> list[str]:
    text = draw(_document | _inner)
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=9))
    bounds = sorted({0, *cuts, len(text)}) if cuts else range(len(text) + 1)
    return [text[start:end] for start, end in zip(bounds, list(bounds)[1:], strict=False)]


def plain(value: Any) -> Any:
    """A value as data of its own, read through attributes."""
    if isinstance(value, BaseModel) or dataclasses.is_dataclass(value):
        shown = value.__dict__ if is_partial(value) else {name: getattr(value, name) for name in fields_of(value)}
        extra = getattr(value, "__pydantic_extra__", None) or {}
        return (type(value).__name__, {name: plain(part) for name, part in {**shown, **extra}.items()})
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value


def fields_of(value: Any) -> Any:
    """The names of the fields of a complete instance."""
    return type(value).model_fields if isinstance(value, BaseModel) else [f.name for f in dataclasses.fields(value)]


@settings(max_examples=examples(150))
@given(_streams(), st.randoms())
def test_a_snapshot_that_is_read_late_is_the_one_read_at_once(pieces: list[str], random: Any) -> None:
    """A snapshot that was read when it came has been copied: the others have to find its state again."""
    first, second = (PartialValue(plan_for(Everything), fail_fast=False) for _ in range(2))
    expected = [plain(first.value) for piece in pieces if first.feed(piece)]
    unread = [second.value for piece in pieces if second.feed(piece)]
    order = list(range(len(unread)))
    random.shuffle(order)
    found = {number: plain(unread[number]) for number in order}
    assert [found[number] for number in range(len(unread))] == expected
    assert [plain(value) for value in unread] == expected


DOCUMENT = '{"title": "abc", "tree": {"kind": "fork", "parts": [{"kind": "leaf", "the name": "xyz'

READS: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda item: item.title,
    "missing attribute": lambda item: item.words,
    "dict": lambda item: plain(vars(item)),
    "repr": repr,
    "str": str,
    "dump": lambda item: item.model_dump(),
    "JSON": lambda item: item.model_dump_json(),
    "fields set": lambda item: item.model_fields_set,
    "iteration": lambda item: [name for name, _ in item],
    "copy": lambda item: plain(copy.copy(item)),
    "deep copy": lambda item: plain(copy.deepcopy(item)),
    "model copy": lambda item: plain(item.model_copy(update={"title": "new"})),
    "pickle": lambda item: plain(pickle.loads(pickle.dumps(item))),
    "class": lambda item: item.__class__ is partial_class(Everything),
    "in a model": lambda item: Everything.model_construct(inner=item).model_dump(include={"inner": {"title"}}),
    "assignment": lambda item: (setattr(item, "title", "new"), plain(item)),
    "deletion": lambda item: (delattr(item, "title"), plain(item)),
    "equality": lambda item: item == item.model_copy(),
}


def unread_item() -> Any:
    growing = PartialValue(plan_for(Everything))
    growing.feed(DOCUMENT)
    return growing.value


@pytest.mark.parametrize("name", READS)
def test_each_way_to_read_a_snapshot_first(name: str) -> None:
    unread, read = unread_item(), unread_item()
    assert read.title == "abc"
    assert UNREAD in object.__getattribute__(unread, "__dict__")
    assert READS[name](unread) == READS[name](read)
    assert type(unread) is type(read) is partial_class(Everything)
    assert UNREAD not in vars(unread)


def test_types_of_an_unread_snapshot() -> None:
    item = unread_item()
    assert isinstance(item, Everything)
    assert is_partial(item)
    assert (type(item).__name__, type(item).__module__) == ("Everything", __name__)
    assert UNREAD in object.__getattribute__(item, "__dict__")
    assert item == unread_item()


@pytest.mark.parametrize("cls", [Point, Slotted])
def test_dataclasses_are_read_late_too(cls: Any) -> None:
    growing = PartialValue(plan_for(cls))
    growing.feed('{"x": 1, "label": "ab')
    item = growing.value
    growing.feed('cd"')
    assert (item.x, item.label) == (1, "ab")
    assert dataclasses.asdict(growing.value)["label"] == "abcd"


def test_threads_that_read_while_text_arrives() -> None:
    growing, items = PartialValue(plan_for(Fork)), []
    pieces = list(pieces_of({"kind": "fork", "parts": [{"kind": "leaf", "the name": f"n{n}"} for n in range(60)]}, 5))
    found: list[list[Any]] = [[], []]

    def read(own: list[Any]) -> None:
        position = 0
        while position < len(pieces):
            if position < len(items):
                own.append(plain(items[position]))
                position += 1

    readers = [threading.Thread(target=read, args=(own,)) for own in found]
    for reader in readers:
        reader.start()
    for piece in pieces:
        growing.feed(piece)
        items.append(growing.value)
    for reader in readers:
        reader.join()
    again = PartialValue(plan_for(Fork))
    expected = []
    for piece in pieces:
        again.feed(piece)
        expected.append(plain(again.value))
    assert found == [expected, expected]


# -- strings that grow ------------------------------------------------------------------------------------------

EMOJI = "The sea \U0001f30a rises.\n"


class Text(BaseModel):
    title: str = ""
    body: str = ""


class Texts(BaseModel):
    texts: list[Text] = []
    by_name: dict[str, str] = {}


SHAPES: dict[str, tuple[Any, str]] = {
    "model": (Text, '{"body": "'),
    "list of models": (Texts, '{"texts": [{"body": "'),
    "end of a long list of models": (Texts, '{"texts": [' + '{"title": "a"},' * 300 + '{"body": "'),
    "dict": (Texts, '{"by_name": {"a": "'),
    "list": (list[str], '["'),
    "end of a long list": (list[str], "[" + '"a",' * 300 + '"'),
    "root model": (Words, '["'),
}


def growth_of_a_chunk(growing: PartialValue, read: Callable[[Any], Any]) -> int:
    """The most bytes that are allocated at once while 50 chunks arrive, each at the end of one long string."""
    chunk = json.dumps(EMOJI, ensure_ascii=False)[1:-1]
    item: Any = None
    most = 0
    for number in range(50):
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        growing.feed(chunk)
        item = growing.value
        read(item)
        if number > 3:  # two snapshots have to be dropped first
            most = max(most, tracemalloc.get_traced_memory()[1] - before)
    del item
    return most


@pytest.mark.parametrize("shape", SHAPES)
def test_a_long_string_is_not_copied_for_a_snapshot(shape: str) -> None:
    """In place or not, an allocation of the whole string would be seen, as old and new exist at the same time."""
    type_form, start = SHAPES[shape]
    growing = PartialValue(plan_for(type_form))
    text = EMOJI * 5_000
    growing.feed(start)
    growing.feed(json.dumps(text, ensure_ascii=False)[1:-1])
    growing.buffer.join()  # its first chunk is no small one, and would be joined with others in between
    tracer = sys.gettrace()  # of coverage: under one CPython runs no specialized code, which grows a string in place
    sys.settrace(None)
    tracemalloc.start()
    try:
        for _ in range(100):  # so that the interpreter specializes the code
            growing.feed("x")
            assert growing.value is not MISSING
        assert growth_of_a_chunk(growing, lambda item: None) < sys.getsizeof(text) / 2
        assert growth_of_a_chunk(growing, plain) < sys.getsizeof(text) / 2
    finally:
        tracemalloc.stop()
        sys.settrace(tracer)


@settings(max_examples=examples(40))
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4), min_size=1, max_size=30),
    st.lists(st.booleans(), min_size=1, max_size=5),
    st.sampled_from([Text, Texts]),
)
def test_kept_snapshots_of_a_growing_string_do_not_change(chunks: list[str], keep: list[bool], cls: Any) -> None:
    growing = PartialValue(plan_for(cls))
    growing.feed('{"body": "' if cls is Text else '{"texts": [{"body": "')
    seen: list[tuple[Any, str]] = []
    text = ""
    for chunk, kept in zip(chunks, (keep[n % len(keep)] for n in count()), strict=False):
        text += chunk
        growing.feed(json.dumps(chunk)[1:-1])
        item = growing.value
        if kept:
            seen.append((item, text))
        assert (item.body if cls is Text else item.texts[-1].body) == text
    assert [item.body if cls is Text else item.texts[-1].body for item, _ in seen] == [text for _, text in seen]


def test_a_string_of_many_chunks_that_is_never_read() -> None:
    growing = PartialValue(plan_for(Text))
    growing.feed('{"title": "a", "body": "')
    for _ in range(2_345):
        growing.feed("ab")
    assert growing.value.body == "ab" * 2_345
    growing.feed('c"')
    assert growing.value.body == "ab" * 2_345 + "c"


@pytest.mark.parametrize("type_form", [int | str, Annotated[str, Field(pattern="^a")]])
def test_a_string_of_many_chunks_that_is_not_shown(type_form: Any) -> None:
    growing = PartialValue(plan_for(dict[str, type_form]))
    growing.feed('{"a": "')
    for _ in range(2_345):
        growing.feed("ab")
        assert growing.value == {}
    growing.feed('c"')
    assert growing.value == {"a": "ab" * 2_345 + "c"}
