"""Snapshots of long lists, which reuse a list that nothing else refers to."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Annotated, Any, NamedTuple

import pydantic
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel, Field, RootModel

from support.example_counts import examples
from support.growth import pieces_of
from toolcast.parsing import container_stack
from toolcast.parsing.container_stack import REUSE_THRESHOLD, ListContainer
from toolcast.parsing.partial_builder import LONG_STRING
from toolcast.parsing.partial_value import PartialValue, plan_for

NUMBERS = list(range(1_000, 1_000 + 2 * REUSE_THRESHOLD))


class Song(BaseModel):
    title: str
    seconds: int = 0


class Songs(BaseModel):
    name: str = ""
    songs: list[Song] = []
    notes: list[str] = []


class Names(RootModel[list[str]]):
    pass


class Kept(NamedTuple):
    """What a consumer keeps of a snapshot, and how it looked when it came."""

    held: Any
    read: Callable[[Any], Any]
    before: Any


def plain(value: Any) -> Any:
    """A snapshot as data of its own."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    return [plain(part) for part in value] if isinstance(value, list) else copy.deepcopy(value)


def inner_list(value: Any) -> Any:
    """The long list of a snapshot."""
    if isinstance(value, Songs):
        return value.__dict__.get("songs", [])
    return value.__dict__["root"] if isinstance(value, Names) else value


def _rest(items: Iterator[Any]) -> Any:
    return [plain(item) for item in items]


# The ways to keep something of a snapshot: what is held, and how to look at it again.
WAYS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda value: value, plain),
    (inner_list, plain),
    (lambda value: iter(inner_list(value)), _rest),
    (copy.copy, plain),
    (lambda value: {"snapshot": value}, lambda held: plain(held["snapshot"])),
    (lambda value: inner_list(value).__len__, lambda method: method()),
]

_word = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)


@st.composite
def _documents(draw: st.DrawFn) -> tuple[Any, Any]:
    """A type, and a document of it with a long list that is built of a few drawn items."""
    size = draw(st.integers(150, 700))
    item, type_form = draw(
        st.sampled_from(
            [
                (st.integers(), list[int]),
                (_word, list[str]),
                (_word, Names),
                (st.fixed_dictionaries({"title": _word}, optional={"seconds": st.integers(0, 9)}), list[Song]),
                (st.fixed_dictionaries({"title": _word}), Songs),
                (st.lists(st.integers(0, 9), max_size=3), list[list[int]]),
                (st.integers() | st.floats(allow_nan=False, allow_infinity=False), Annotated[list[float], Field()]),
            ]
        )
    )
    few = draw(st.lists(item, min_size=1, max_size=7))
    long = [few[number % len(few)] for number in range(size)]
    return type_form, {"name": "n", "songs": long, "notes": ["a"] * size} if type_form is Songs else long


def _cuts(text: str, sizes: list[int]) -> Iterator[str]:
    start = 0
    for size in (sizes[number % len(sizes)] for number in count()):
        if start >= len(text):
            return
        yield text[start : start + size]
        start += size


def is_prefix(early: Any, late: Any) -> bool:
    """Whether a snapshot, as data, is a beginning of the document."""
    if isinstance(early, dict):
        return all(is_prefix(part, late[name]) for name, part in early.items())
    if isinstance(early, list):
        return len(early) <= len(late) and all(map(is_prefix, early, late))
    return late.startswith(early) if isinstance(early, str) else bool(early == late)


@settings(max_examples=examples(40))
@given(
    _documents(),
    st.lists(st.sampled_from([1, 2, 7, 30]), max_size=7).map([150].__add__),
    st.lists(st.none() | st.integers(0, len(WAYS) - 1), min_size=1, max_size=9),
)
def test_a_referenced_snapshot_never_changes(
    written: tuple[Any, Any], sizes: list[int], choices: list[int | None]
) -> None:
    type_form, document = written
    growing = PartialValue(plan_for(type_form))
    final = plain(plan_for(type_form).validator.validate_python(document))
    kept: list[Kept] = []
    choice = (choices[number % len(choices)] for number in count())
    for piece in _cuts(json.dumps(document), sizes):
        if growing.feed(piece) and (way := next(choice)) is not None and (value := growing.value) is not None:
            hold, read = WAYS[way]
            kept.append(Kept(hold(value), read, read(hold(value))))
            assert is_prefix(plain(value), final)
            del value  # or this would hold what the consumer does not
    assert [one.read(one.held) for one in kept] == [one.before for one in kept]
    assert is_prefix(plain(growing.value), final)
    assert len(inner_list(growing.value)) == len(document["songs"] if type_form is Songs else document)


# -- which list it is -------------------------------------------------------------------------------------------


class Lists:
    """Feeds a long list and watches which list each snapshot is made in."""

    def __init__(self, type_form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.growing = PartialValue(plan_for(type_form))
        self.reused: list[bool] = []
        real = ListContainer._reuse_list

        def watched(container: ListContainer, values: list[Any], size: int) -> list[Any]:
            boxes = container.reusable
            older = id(boxes[0][0][0]) if len(boxes) > 1 else None  # alive as long as the container has it
            copy = real(container, values, size)
            self.reused.append(id(copy) == older)
            return copy

        monkeypatch.setattr(ListContainer, "_reuse_list", watched)

    def snapshots(self, document: Any, size: int = 6) -> Iterator[Any]:
        """Yield the snapshots, each after it was read."""
        for piece in pieces_of(document, size):
            if self.growing.feed(piece):
                inner_list(self.growing.value)
                yield self.growing.value


@pytest.mark.pure_only
def test_a_list_without_references_is_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The container itself keeps the list of the snapshot before last alive, so that an equal id is the same list."""
    lists = Lists(list[int], monkeypatch)
    for _ in lists.snapshots(NUMBERS):
        pass
    assert lists.reused[:2] == [False, False]
    assert all(lists.reused[2:])
    assert len(lists.reused) > REUSE_THRESHOLD / 2
    assert lists.growing.value == NUMBERS


@pytest.mark.pure_only
@pytest.mark.parametrize("held", [inner_list, iter, lambda value: {1: value}, lambda value: value.append])
def test_a_list_that_is_held_is_not(held: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lists, kept = Lists(list[int], monkeypatch), []
    for value in lists.snapshots(NUMBERS):
        kept.append((held(value), len(value)))
        del value
    assert not any(lists.reused)
    assert kept


@pytest.mark.pure_only
def test_a_list_is_held_by_the_snapshot_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"songs": [{"title": "abc"}] * (2 * REUSE_THRESHOLD)}
    lists = Lists(Songs, monkeypatch)
    kept = [(value, len(value.songs or ())) for value in lists.snapshots(document)]
    assert not any(lists.reused)
    assert [len(value.songs or ()) for value, _ in kept] == [length for _, length in kept]
    let_go = Lists(Songs, monkeypatch)
    for _ in let_go.snapshots(document):
        pass
    assert all(let_go.reused[2:])


@pytest.mark.pure_only
def test_holding_every_third_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = Lists(list[int], monkeypatch)
    kept = [(value, len(value)) for number, value in enumerate(lists.snapshots(NUMBERS)) if number % 3 == 0]
    assert 0 < sum(lists.reused) < len(lists.reused) - 2
    for value, length in kept:
        assert value == NUMBERS[:length]


@pytest.mark.pure_only
def test_short_lists_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = Lists(list[int], monkeypatch)
    for _ in lists.snapshots(NUMBERS[: REUSE_THRESHOLD - 1]):
        pass
    assert lists.reused == []


@pytest.mark.pure_only
@pytest.mark.parametrize("held", [True, False])
def test_where_references_are_not_counted_every_list_is_held(held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_stack, "reference_count", id)
    lists, kept = Lists(Songs, monkeypatch), []
    document = {"songs": [{"title": "abc", "seconds": 3}] * (REUSE_THRESHOLD + 50)}
    for value in lists.snapshots(document, 45):
        kept.append((value if held else None, plain(value)))
        del value
    assert lists.reused
    assert not any(lists.reused)
    assert all(plain(value) == before for value, before in kept if held)
    monkeypatch.undo()
    counted = PartialValue(plan_for(Songs))
    assert [plain(counted.value) for piece in pieces_of(document, 45) if counted.feed(piece)] == [
        before for _, before in kept
    ]


# -- lists in other things ------------------------------------------------------------------------------------------


def grown(type_form: Any, document: Any, size: int = 7, fail_fast: bool = True) -> list[Any]:
    """Return the snapshots as data, none of them kept, after a check that keeping them makes no difference."""
    growing, holding = (PartialValue(plan_for(type_form), fail_fast=fail_fast) for _ in range(2))
    seen = [plain(growing.value) for piece in pieces_of(document, size) if growing.feed(piece)]
    held = [holding.value for piece in pieces_of(document, size) if holding.feed(piece)]
    assert [plain(value) for value in held] == seen
    return seen


def test_a_long_text_behind_many_items() -> None:
    words = ["a"] * REUSE_THRESHOLD + ["b" * 3 * LONG_STRING]
    assert grown(list[str], words, LONG_STRING // 4)[-1] == words


def test_long_lists_in_root_models() -> None:
    words = [f"word {number}" for number in range(REUSE_THRESHOLD + 60)]
    seen = grown(Names, words)
    assert seen[-1] == words
    assert all(is_prefix(early, words) for early in seen)


def test_long_lists_in_long_lists() -> None:
    document = [[number] for number in range(REUSE_THRESHOLD + 20)] + [NUMBERS[: REUSE_THRESHOLD + 40]] + [[1]]
    seen = grown(list[list[int]], document)
    assert seen[-1] == document
    assert all(is_prefix(early, document) for early in seen)


def test_long_lists_beside_each_other_do_not_mix() -> None:
    document = {
        "songs": [{"title": f"{number}"} for number in range(REUSE_THRESHOLD + 30)],
        "notes": ["x" * 9] * (REUSE_THRESHOLD + 30),
    }
    seen = grown(Songs, document, 61)
    assert seen[-1] == document
    assert all(is_prefix(early, document) for early in seen)


@pytest.mark.parametrize("size", [1, 7, 40])
def test_items_that_are_invalid_are_left_out_of_a_long_list(size: int) -> None:
    document = [number if number % 7 else "seven" for number in NUMBERS]
    valid = [number for number in document if number != "seven"]
    seen = grown(list[int], document, size, fail_fast=False)
    assert seen[-1] == valid
    assert all(is_prefix(early, valid) for early in seen)


def test_open_items_that_turn_out_invalid_stay_as_they_last_looked() -> None:
    document: list[Any] = [{"title": "abc"}] * REUSE_THRESHOLD + [
        {"title": "a", "seconds": "many"},
        {"seconds": 5},
    ] * 20
    seen = grown(list[Song], document, 3, fail_fast=False)
    assert seen[-1] == [{"title": "abc", "seconds": 0}] * REUSE_THRESHOLD + [{"title": "a"}, {"seconds": 5}] * 20


@pytest.mark.parametrize(("word", "size"), [("a long word that comes in many pieces", 2), ("long " * 4_000, 1_000)])
def test_a_string_grows_at_the_end_of_a_long_list(word: str, size: int) -> None:
    words = ["w"] * REUSE_THRESHOLD + [word, "end"]
    growing, held = PartialValue(plan_for(list[str])), []
    for piece in pieces_of(words, size):
        if growing.feed(piece):
            held.append((growing.value, list(growing.value)))
    assert all(value == before for value, before in held)
    assert sum(len(before) == REUSE_THRESHOLD + 1 for _, before in held) > 10
    assert growing.value == words


def test_constrained_long_lists() -> None:
    with pytest.raises(pydantic.ValidationError):
        plan_for(Annotated[list[int], Field(max_length=5)]).validator.validate_python(NUMBERS)
    assert (
        grown(Annotated[list[int], Field(max_length=5)], NUMBERS)[-1] == NUMBERS
    )  # an error, if any, comes at the end


# -- lists of snapshots that threads read at the same time


class Interrupted(list[Any]):
    """A list in which another thread runs, in place of the scheduler's choice, right after an `append`."""

    def __init__(self, run: Callable[[], object]) -> None:
        super().__init__()
        self.run: Callable[[], object] | None = run

    def append(self, item: Any) -> None:
        super().append(item)
        if len(self) > 1 and (run := self.run) is not None:
            self.run = None
            run()


def list_container() -> ListContainer:
    growing = PartialValue(plan_for(list[int]))
    growing.feed("[")
    container = growing._builder.container
    assert isinstance(container, ListContainer)
    return container


@pytest.mark.pure_only
def test_a_list_that_is_about_to_be_returned_is_not_reused_by_another_thread() -> None:
    container, values = list_container(), list(range(REUSE_THRESHOLD + 50))
    others: list[list[int]] = []
    container.reusable = Interrupted(
        lambda: others.extend([container.copy_of(values, REUSE_THRESHOLD) for _ in range(3)])
    )
    container.copy_of(values, len(values))
    assert container.copy_of(values, len(values)) == values
    assert others == [values[:REUSE_THRESHOLD]] * 3


@pytest.mark.pure_only
def test_the_release_of_an_open_value_does_not_shorten_the_list_of_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    container, values, real = list_container(), list(range(REUSE_THRESHOLD + 50)), container_stack._references
    for _ in range(2):
        container.copy_of(values, REUSE_THRESHOLD)
    taken: list[list[int]] = []

    def references(box: list[list[Any]]) -> int:
        found = real(box)
        if not taken:
            taken.append([])
            taken[0] = container.copy_of(values, len(values))
        return found

    monkeypatch.setattr(container_stack, "_references", references)
    container.release_open_value()
    assert taken == [values]
