"""Properties of all snapshots, for random models, texts and cuts."""

from __future__ import annotations

import datetime
import enum
import json
from collections import Counter
from decimal import Decimal
from itertools import count, pairwise
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import AfterValidator, AliasChoices, BaseModel, Field, RootModel, create_model

from support.example_counts import examples
from toolcast.parsing.partial_value import MISSING, PartialValue, is_partial, plan_for


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    name: str
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str
    friends: list[Cat] = []


class Names(RootModel[list[str]]):
    pass


class Case(NamedTuple):
    """A type, JSON-able documents of it, and whether its validated values may hold more than the text."""

    type: Any
    documents: st.SearchStrategy[Any]


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_numbers = count()
_cat = st.fixed_dictionaries(
    {"kind": st.just("cat"), "name": _text}, optional={"lives": st.integers(0, 9), "unknown": st.just([{"a": "}"}])}
)
_dog = st.fixed_dictionaries({"kind": st.just("dog"), "name": _text}, optional={"friends": st.lists(_cat, max_size=2)})

_leaves = [
    Case(str, _text),
    Case(int, st.integers()),
    Case(float, st.floats(allow_nan=False, allow_infinity=False) | st.integers(-1000, 1000)),
    Case(bool, st.booleans()),
    Case(datetime.datetime, st.datetimes().map(datetime.datetime.isoformat)),
    Case(datetime.date, st.dates().map(datetime.date.isoformat)),
    Case(Decimal, st.integers(0, 99999).map(lambda number: f"{number}.50")),
    Case(UUID, st.uuids().map(str)),
    Case(Colour, st.sampled_from(["red", "blue"])),
    Case(Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    Case(Annotated[str, Field(pattern="^a")], _text.map("a".__add__)),
    Case(Annotated[str, Field(max_length=20)], _text),
    Case(int | str, st.integers() | _text),
    Case(Any, st.recursive(_text | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=2), max_leaves=3)),
    Case(tuple[int, str], st.tuples(st.integers(), _text)),
    Case(set[int], st.lists(st.integers(), max_size=3)),
    Case(Cat | Dog, _cat | _dog),
    Case(Annotated[Cat | Dog, Field(discriminator="kind")], _cat | _dog),
    Case(Names, st.lists(_text, max_size=3)),
    Case(Annotated[int, AfterValidator(abs)], st.integers()),
]


def _list_of(case: Case) -> Case:
    return Case(list[case.type], st.lists(case.documents, max_size=3))


def _limited_list_of(case: Case) -> Case:
    return Case(Annotated[list[case.type], Field(max_length=3)], st.lists(case.documents, max_size=3))


def _dict_of(case: Case) -> Case:
    return Case(dict[str, case.type], st.dictionaries(_text, case.documents, max_size=2))


def _optional(case: Case) -> Case:
    return Case(case.type | None, case.documents | st.none())


def _model_of(cases: list[tuple[Case, str, bool]]) -> Case:
    fields: dict[str, Any] = {}
    required: dict[str, Any] = {}
    optional: dict[str, Any] = {}
    for number, (case, alias, needed) in enumerate(cases):
        name = f"f{number}"
        aliases = {"": None, "own": f"own name {number}", "choice": AliasChoices(f"one{number}", f"two{number}")}
        default = ... if needed else None
        fields[name] = (case.type if needed else case.type | None, Field(default, validation_alias=aliases[alias]))
        key = {"": name, "own": f"own name {number}", "choice": f"two{number}"}[alias]
        (required if needed else optional)[key] = case.documents
    model = create_model(f"Model{next(_numbers)}", **fields)
    return Case(model, st.fixed_dictionaries(required, optional=optional))


def _deeper(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    field = st.tuples(inner, st.sampled_from(["", "", "own", "choice"]), st.booleans())
    wrapped = st.builds(
        lambda wrap, case: wrap(case), st.sampled_from([_list_of, _dict_of, _optional, _limited_list_of]), inner
    )
    return wrapped | st.lists(field, min_size=1, max_size=4).map(_model_of)


_cases = st.recursive(st.sampled_from(_leaves), _deeper, max_leaves=5)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Any, Any, list[str]]:
    """A type, a document of it, and its text in pieces."""
    case = draw(_cases)
    document = draw(case.documents)
    text = json.dumps(document, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
    cuts = sorted(set(draw(st.lists(st.integers(0, len(text)), max_size=12))))
    whole = draw(st.booleans())
    bounds = range(len(text) + 1) if not cuts and not whole else [0, *cuts, len(text)]
    pieces = [text[a:b] for a, b in zip(bounds, list(bounds)[1:], strict=False)]
    return case.type, document, pieces


def _shown(value: Any) -> Any:
    """A snapshot as plain data: what it shows, and what kind of thing shows it."""
    if isinstance(value, BaseModel):
        parts = value.__dict__ if is_partial(value) else {name: value.__dict__[name] for name in value.model_fields_set}
        return (type(value).__name__, {name: _shown(part) for name, part in parts.items()})
    if isinstance(value, dict):
        return {key: _shown(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shown(part) for part in value]
    return value


def _fits(early: Any, late: Any) -> bool:
    """Whether a snapshot only gained what `late` shows more."""
    if isinstance(early, tuple):
        return isinstance(late, tuple) and early[0] == late[0] and _fits(early[1], late[1])
    if isinstance(early, dict):
        return isinstance(late, dict) and all(key in late and _fits(part, late[key]) for key, part in early.items())
    if isinstance(early, list):
        return isinstance(late, list) and len(early) <= len(late) and all(map(_fits, early, late))
    if isinstance(early, str):
        return isinstance(late, str) and late.startswith(early)
    return type(early) is type(late) and early == late


@pytest.mark.fault(66)
@pytest.mark.gate("G4")
@settings(max_examples=examples(300))
@given(streams())
def test_snapshots_grow_towards_the_validated_value_and_never_change(stream: tuple[Any, Any, list[str]]) -> None:
    type_form, _, pieces = stream
    plan = plan_for(type_form)
    growing = PartialValue(plan)
    snapshots: list[tuple[Any, str]] = []
    for piece in pieces:
        if growing.feed(piece):
            snapshots.append((growing.value, repr(growing.value)))
    if growing.close():
        snapshots.append((growing.value, repr(growing.value)))
    final = plan.validator.validate_json("".join(pieces))
    looks = [_shown(value) for value, _ in snapshots]
    for early, late in pairwise(looks):
        assert _fits(early, late)
    for value, before in snapshots:
        assert repr(value) == before
    if looks:
        assert _fits(looks[-1], _shown(final))
        assert looks[-1] == _shown(final) or not isinstance(looks[-1], tuple)
    assert growing.text == "".join(pieces)


@pytest.mark.gate("G4")
@settings(max_examples=examples(150))
@given(streams())
def test_any_cut_ends_in_the_same_snapshot(stream: tuple[Any, Any, list[str]]) -> None:
    type_form, _, pieces = stream
    plan = plan_for(type_form)
    cut, whole = PartialValue(plan), PartialValue(plan)
    for piece in pieces:
        cut.feed(piece)
    whole.feed("".join(pieces))
    cut.close()
    whole.close()
    assert _shown(cut.value) == _shown(whole.value)


@settings(max_examples=examples(150))
@given(streams())
def test_changes_applied_one_by_one_rebuild_the_value(stream: tuple[Any, Any, list[str]]) -> None:
    type_form, _, pieces = stream
    growing = PartialValue(plan_for(type_form))
    rebuilt: dict[str, Any] = {}
    for piece in [*pieces, None]:
        visible = growing.close() if piece is None else growing.feed(piece)
        if not visible:
            continue
        for change in growing.changes():
            path = (
                change.path if isinstance(change.path, tuple) else tuple(change.path.split(".") if change.path else ())
            )
            _apply(rebuilt, ("root", *path), change.kind, change.value)
        assert _plain(rebuilt["root"]) == _plain(growing.value)


def _apply(parts: Any, path: tuple[Any, ...], kind: str, value: Any) -> None:
    for step in path[:-1]:
        parts = parts[int(step)] if isinstance(parts, list) else parts[_key(parts, step)]
    last = path[-1]
    if isinstance(parts, list):
        place = int(last)
        if place == len(parts):
            parts.append(None)
        parts[place] = parts[place] + value if kind == "text" else value
    else:
        parts[last] = parts[last] + value if kind == "text" else value


def _key(parts: dict[Any, Any], step: Any) -> Any:
    return next(key for key in parts if str(key) == str(step))


def _plain(value: Any) -> Any:
    """Remove what distinguishes a model from its fields."""
    if isinstance(value, RootModel):
        return _plain(value.__dict__["root"])
    look = _shown(value)
    return _bare(look)


def _bare(look: Any) -> Any:
    if isinstance(look, tuple):
        inside = _bare(look[1])
        return inside["root"] if look[0] == "Names" else inside
    if isinstance(look, dict):
        return {key: _bare(part) for key, part in look.items()}
    if isinstance(look, list):
        return [_bare(part) for part in look]
    return look


@settings(max_examples=examples(60))
@given(st.data())
def test_a_validator_runs_three_times_at_most(data: st.DataObject) -> None:
    calls: Counter[str] = Counter()

    def counted(value: str) -> str:
        calls[value] += 1
        return value

    names = (str(number) for number in count())
    leaf = Case(Annotated[str, AfterValidator(counted)], st.builds(lambda: next(names)))
    case = data.draw(st.recursive(st.just(leaf), _deeper, max_leaves=4))
    document = data.draw(case.documents)
    plan = plan_for(case.type)
    growing = PartialValue(plan)
    calls.clear()
    for character in json.dumps(document):
        growing.feed(character)
    growing.close()
    plan.validator.validate_json(growing.text)
    assert all(number <= 3 for number in calls.values()), calls


def test_nothing_has_arrived_yet() -> None:
    assert PartialValue(plan_for(Cat)).value is MISSING
