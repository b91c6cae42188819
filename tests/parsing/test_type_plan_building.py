"""Values built without Pydantic, compared with those that Pydantic builds."""

from __future__ import annotations

import copy
import datetime
import enum
import json
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property
from itertools import count
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar
from uuid import UUID

import pydantic
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, PrivateAttr, RootModel, create_model

from support.example_counts import examples
from support.growth import fed
from toolcast.parsing import type_plan
from toolcast.parsing.partial_value import NotNull, PartialValue, is_partial, plan_for
from toolcast.parsing.tool_arguments import parse_json

T = TypeVar("T")


def same(made: Any, expected: Any) -> None:
    """Return whether the two are equal in every respect."""
    assert type(made) is type(expected)
    if isinstance(expected, list):
        assert len(made) == len(expected)
        for one, other in zip(made, expected, strict=True):
            same(one, other)
    if not isinstance(expected, BaseModel):
        assert made == expected
        return
    assert made == expected
    assert expected == made
    assert list(made.__dict__) == list(expected.__dict__)
    for name, value in expected.__dict__.items():
        same(made.__dict__[name], value)
    assert made.model_fields_set == expected.model_fields_set
    assert type(made.model_fields_set) is set
    assert made.model_extra == expected.model_extra
    assert made.__pydantic_extra__ == expected.__pydantic_extra__
    assert made.__pydantic_private__ == expected.__pydantic_private__
    assert (repr(made), str(made)) == (repr(expected), str(expected))
    for options in ({}, {"exclude_unset": True}, {"exclude_defaults": True}, {"by_alias": True}, {"mode": "json"}):
        assert made.model_dump(warnings=False, **options) == expected.model_dump(warnings=False, **options)
    assert made.model_dump_json(warnings=False) == expected.model_dump_json(warnings=False)
    assert made.__getstate__() == expected.__getstate__()
    for twin in (copy.copy(made), copy.deepcopy(made), made.model_copy()):
        assert (twin, twin.model_fields_set, type(twin)) == (expected, expected.model_fields_set, type(expected))


def closed(model: Any, text: str, size: int = 1) -> Any:
    """The object that a snapshot shows once its text is there, while the text around it goes on."""
    return fed(list[model], f"[{text}, ", size=size).value[0]


class Plain(BaseModel):
    title: str
    seconds: int


class Optional(BaseModel):
    title: str
    artist: str | None = None
    note: str = "none"
    parts: list[int] = Field(default_factory=list)


class Forbidding(Plain):
    model_config = ConfigDict(extra="forbid")


class Frozen(Plain):
    model_config = ConfigDict(frozen=True)


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    n: int
    day: datetime.date
    price: float


class Aliased(BaseModel):
    n: int = Field(alias="the n")
    m: int = Field(validation_alias="n", serialization_alias="em")


class Inheriting(Plain):
    """Also gives a field another type, which stays at its place."""

    more: list[Plain]
    seconds: float


class Box(BaseModel, Generic[T]):
    item: T
    items: list[T]


class Computing(BaseModel):
    n: int

    @pydantic.computed_field
    def twice(self) -> int:
        return 2 * self.n

    @pydantic.computed_field
    @cached_property
    def thrice(self) -> int:
        return 3 * self.n

    @cached_property
    def four_times(self) -> int:
        return 4 * self.n


class FieldChecked(BaseModel):
    """A validator of a field runs when the field closes; the model is built from what it returned."""

    title: str
    n: int

    @pydantic.field_validator("title")
    @classmethod
    def shout(cls, title: str) -> str:
        return title.upper()

    @pydantic.field_validator("n", mode="before")
    @classmethod
    def add(cls, n: Any) -> Any:
        return n + 1


class Informed(BaseModel):
    lowest: int
    highest: int

    @pydantic.field_validator("highest")
    @classmethod
    def above(cls, highest: int, info: pydantic.ValidationInfo) -> int:
        return highest + int(info.data["lowest"])


class Serialized(BaseModel):
    title: str
    secret: str = Field(exclude=True, repr=False)
    old: int = Field(frozen=True, deprecated=True)

    @pydantic.field_serializer("title")
    def shout(self, title: str) -> str:
        return title.upper()


class Settled(BaseModel):
    """Class attributes and an assignment that is checked are no part of what a model holds."""

    model_config = ConfigDict(validate_assignment=True, use_enum_values=True, str_strip_whitespace=True)
    known: ClassVar[list[str]] = []

    title: str


class Tree(BaseModel):
    name: str
    twigs: list[Tree]


class Mixin(ABC):
    @abstractmethod
    def play(self) -> str: ...


class Mixed(Mixin, BaseModel):
    title: str

    def play(self) -> str:
        return self.title


class Empty(BaseModel):
    pass


BUILT = [
    (Plain, {"title": "a", "seconds": 1}),
    (Plain, {"seconds": 1, "title": "a", "unknown": [{"title": 1}]}),
    (Optional, {"parts": [1], "note": "n", "artist": "b", "title": "a"}),
    (Optional, {"title": "a", "artist": None, "note": "none", "parts": []}),
    (Forbidding, {"seconds": 1, "title": "a"}),
    (Frozen, {"title": "a", "seconds": 1}),
    (Strict, {"n": 1, "day": "2020-01-01", "price": 1}),
    (Aliased, {"n": 1, "the n": 2}),
    (Inheriting, {"title": "a", "more": [{"title": "b", "seconds": 2}], "seconds": 1}),
    (Box[int], {"items": [1], "item": 2}),
    (Box[Plain], {"items": [{"title": "a", "seconds": 1}], "item": {"seconds": 1, "title": "b"}}),
    (Computing, {"n": 5}),
    (FieldChecked, {"title": "a", "n": 1}),
    (Informed, {"lowest": 1, "highest": 2}),
    (Serialized, {"title": "a", "secret": "s", "old": 1}),
    (Settled, {"title": " a "}),
    (Tree, {"name": "a", "twigs": [{"name": "b", "twigs": []}]}),
    (Mixed, {"title": "a"}),
    (Empty, {}),
    (Empty, {"a": 1}),
]


@pytest.mark.parametrize("size", [1, 1_000])
@pytest.mark.parametrize(("model", "document"), BUILT)
def test_a_closed_model_is_the_one_that_pydantic_makes(
    model: Any, document: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps(document)
    monkeypatch.setattr(type_plan.FieldPlan, "closing", property(lambda node: pytest.fail("Pydantic was asked")))
    made, expected = closed(model, text, size), model.model_validate_json(text)
    same(made, expected)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        same(pickle.loads(pickle.dumps(made, protocol)), expected)


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (Optional, {"title": "a"}),
        (Optional, {"note": "n", "title": "a"}),
        (Plain, {"title": "a", "seconds": "1"}),
        (Plain, {"title": "a", "seconds": 0, "title ": "b"}),
    ],
)
def test_what_is_missing_or_repaired_is_left_to_pydantic(model: Any, document: Any) -> None:
    text = json.dumps(document)
    assert plan_for(list[model]).container_plan is not None
    same(closed(model, text), model.model_validate_json(text))


def test_a_repeated_key_counts_once() -> None:
    text = '{"title": "first", "seconds": 1, "title": "second", "seconds": 2}'
    same(closed(Plain, text), Plain.model_validate_json(text))


def test_cached_properties_are_not_there_yet() -> None:
    made = closed(Computing, '{"n": 5}')
    assert (made.twice, made.thrice, made.four_times) == (10, 15, 20)
    assert made == Computing(n=5)
    assert set(made.__dict__) == {"n", "thrice", "four_times"}


def test_a_frozen_model_stays_frozen() -> None:
    made = closed(Frozen, '{"title": "a", "seconds": 1}')
    assert hash(made) == hash(Frozen(title="a", seconds=1))
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        made.title = "b"


def test_a_built_model_can_be_changed_and_its_values_are_its_own() -> None:
    growing = PartialValue(plan_for(list[Settled]))
    growing.feed('[{"title": "a"}, {"title": "b"')
    first = growing.value[0]
    first.title = " c "
    assert (first.title, first.model_fields_set) == ("c", {"title"})
    growing.feed("}")
    assert [item.title for item in growing.value] == ["c", "b"]
    assert growing.value[0] is first


# -- models of which Pydantic knows more ----------------------------------------------------------------------------


class Allowing(Plain):
    model_config = ConfigDict(extra="allow")


class WithPrivate(Plain):
    _list: list[int] = PrivateAttr(default_factory=lambda: [1])


class Late(Plain):
    _late: int


class WithPostInit(Plain):
    def model_post_init(self, context: Any) -> None:
        self.seconds += 1


class CheckedAfter(Plain):
    @pydantic.model_validator(mode="after")
    def add(self) -> CheckedAfter:
        self.seconds += 1
        return self


class CheckedBefore(Plain):
    @pydantic.model_validator(mode="before")
    @classmethod
    def add(cls, data: Any) -> Any:
        return {**data, "seconds": data["seconds"] + 1}


class CheckedAround(Plain):
    @pydantic.model_validator(mode="wrap")
    @classmethod
    def replaced(cls, data: Any, handler: Any) -> Any:
        made = handler(data)
        made.seconds += 1
        return made


class OwnInit(BaseModel):
    title: str
    seconds: int

    def __init__(self, **values: Any) -> None:
        super().__init__(**{**values, "seconds": values["seconds"] + 1})


class Choosing(BaseModel):
    title: str = Field(validation_alias=AliasChoices("title", "name"))
    seconds: int


class Inside(BaseModel):
    title: str = Field(validation_alias=AliasPath("titles", 0))
    seconds: int


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    title: str = Field(alias="t")
    seconds: int


class Sharing(BaseModel):
    title: str = Field(validation_alias="t")
    again: str = Field(validation_alias="t")
    seconds: int


class Awaiting(BaseModel):
    title: Annotated[str, NotNull]
    seconds: int


class Root(RootModel[Plain]):
    pass


_SONG = {"title": "a", "seconds": 1}
NOT_BUILT = [
    (Allowing, {**_SONG, "more": [1]}),
    (Allowing, _SONG),
    (WithPrivate, _SONG),
    (Late, _SONG),
    (WithPostInit, _SONG),
    (CheckedAfter, _SONG),
    (CheckedBefore, _SONG),
    (CheckedAround, _SONG),
    (OwnInit, _SONG),
    (Choosing, _SONG),
    (Choosing, {"name": "a", "seconds": 1, "title": "b"}),
    (Inside, {"titles": ["a", "b"], "seconds": 1}),
    (ByName, _SONG),
    (ByName, {"t": "a", "seconds": 1}),
    (Sharing, {"t": "a", "seconds": 1}),
    (Awaiting, _SONG),
    (Root, _SONG),
    (Annotated[Plain, pydantic.AfterValidator(lambda song: song.model_copy(update={"seconds": 5}))], _SONG),
]


@pytest.mark.parametrize(("model", "document"), NOT_BUILT)
def test_these_are_left_to_pydantic(model: Any, document: Any) -> None:
    text = json.dumps(document)
    assert plan_for(list[model]).container_plan.item.build is None
    made, expected = closed(model, text), pydantic.TypeAdapter(model).validate_json(text)
    same(made, expected)
    same(pickle.loads(pickle.dumps(made)), expected)


@pytest.mark.parametrize("model", dict.fromkeys(model for model, _ in BUILT))
def test_these_are_not(model: Any) -> None:
    assert plan_for(list[model]).container_plan.item.build is not None


def test_a_class_that_makes_its_instances_itself() -> None:
    made: list[type] = []

    class Counted(BaseModel):
        n: int

        def __new__(cls, *args: Any, **values: Any) -> Any:
            made.append(cls)
            return super().__new__(cls)

    Counted.model_validate_json('{"n": 1}')
    assert made == [Counted]
    assert type(closed(Counted, '{"n": 1}')) is Counted
    assert made.count(Counted) > 1


@pytest.mark.parametrize("type_form", [list[int], dict[str, int], int, pydantic.SecretStr, Plain | None])
def test_what_is_no_model_is_not_built(type_form: Any) -> None:
    built = plan_for(type_form).build
    assert (built is None) is (type_form != Plain | None)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (Forbidding, '{"title": "a", "seconds": 1, "more": 2}'),
        (Plain, '{"title": "a", "seconds": "many"}'),
        (Plain, '{"title": "a"}'),
        (Strict, '{"n": true, "day": "2020-01-01", "price": 1}'),
        (Inheriting, '{"title": "a", "more": [{"title": "b"}], "seconds": 1}'),
    ],
)
def test_what_does_not_validate_never_shows_as_whole(model: Any, text: str) -> None:
    with pytest.raises(pydantic.ValidationError):
        model.model_validate_json(text)
    with pytest.raises(pydantic.ValidationError):
        closed(model, text)
    value = fed(list[model], f"[{text}, ", fail_fast=False).value
    assert all(is_partial(item) for item in value)


# -- any model ------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Missed(enum.Enum):
    RED = "red"

    @classmethod
    def _missing_(cls, value: object) -> Any:
        if value == "rot":
            return cls.RED
        raise ArithmeticError("mine")


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_numbers = count()
_leaves: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, _text),
    (Annotated[str, Field(max_length=9)], _text),
    (Annotated[str, pydantic.AfterValidator(str.upper)], _text),
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bool, st.booleans()),
    (datetime.datetime, st.datetimes().map(datetime.datetime.isoformat)),
    (Decimal, st.integers(0, 999).map(lambda number: f"{number}.50")),
    (UUID, st.uuids().map(str)),
    (Colour, st.sampled_from(["red", "blue"])),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (list[int], st.lists(st.integers(), max_size=3)),
    (dict[str, int], st.dictionaries(_text, st.integers(), max_size=2)),
    (Plain, st.fixed_dictionaries({"seconds": st.integers(), "title": _text})),
    (Optional, st.fixed_dictionaries({"title": _text}, optional={"note": _text})),
    (tuple[int, str], st.tuples(st.integers(), _text)),
]


def _quiet(self: Any) -> Any:
    return self


def _post_init(self: Any, context: Any) -> None:
    self.__dict__["posted"] = True


@st.composite
def _models(draw: st.DrawFn) -> tuple[Any, str]:
    """A model, and a text of it."""
    fields: dict[str, Any] = {}
    document: dict[str, Any] = {}
    for number in range(draw(st.integers(0, 4))):
        name = f"f{number}"
        type_form, values = draw(st.sampled_from(_leaves))
        kind = draw(st.sampled_from(["required", "required", "none", "factory"]))
        alias = draw(st.sampled_from([None, None, f"own {number}", AliasChoices(f"one{number}", f"two{number}")]))
        key = {type(None): name, str: alias, AliasChoices: f"two{number}"}[type(alias)]
        options: dict[str, Any] = {"validation_alias": alias}
        if kind == "none":
            type_form, values = type_form | None, values | st.none()
            options["default"] = None
        elif kind == "factory":
            options["default_factory"] = lambda number=number: number
        fields[name] = (type_form, Field(**options))
        if kind == "required" or draw(st.booleans()):
            document[key] = draw(values)
    extra = draw(st.sampled_from([None, "ignore", "forbid", "allow"]))
    if extra != "forbid" and draw(st.booleans()):
        document["unknown"] = draw(_text | st.lists(st.fixed_dictionaries({"f0": _text}), max_size=2))
    flags = {
        name: True for name in ("frozen", "strict", "populate_by_name", "validate_assignment") if draw(st.booleans())
    }
    members: dict[str, Any] = draw(
        st.sampled_from(
            [
                {},
                {},
                {},
                {"model_post_init": _post_init},
                {"_secret": PrivateAttr(default=3)},
                {"checked": pydantic.model_validator(mode="after")(_quiet)},
                {"computed": pydantic.computed_field(return_type=str)(property(lambda self: "computed"))},
                {"cached": cached_property(lambda self: 1)},
            ]
        )
    )
    config = ConfigDict(**({} if extra is None else {"extra": extra}), **flags)
    base: Any = type("Base", (BaseModel,), {"model_config": config, "__module__": __name__, **members})
    model = create_model(f"Model{next(_numbers)}", __base__=base, **fields)
    keys = draw(st.permutations(list(document)))
    return model, json.dumps({key: document[key] for key in keys}, indent=draw(st.sampled_from([None, 1])))


@pytest.mark.fault(76)
@settings(max_examples=examples(250))
@given(_models(), st.sampled_from([1, 2, 5, 1_000]))
def test_any_closed_model_is_the_one_that_pydantic_makes(written: tuple[Any, str], size: int) -> None:
    model, text = written
    same(closed(model, text, size), model.model_validate_json(text))


# -- leaves ---------------------------------------------------------------------------------------------------------


LEAVES: list[tuple[Any, list[str]]] = [
    (datetime.datetime, ['"2020-01-02T03:04:05Z"', '"2020-01-02"', "1700000000", "1.5", '"1700000000"', '"x"', "true"]),
    (datetime.date, ['"2020-01-02"', '"2020-01-02T00:00:00"', '"2020-01-02T03:04"', "86400", '"86400"', '"x"', "null"]),
    (datetime.time, ['"03:04:05"', "3600", '"3600"', '"25:00"', "[]", "{}"]),
    (datetime.timedelta, ['"PT5S"', "5", "5.5", '"5"', '"x"', '"-P1D"', "false"]),
    (Decimal, ['"1.50"', "1.50", "1", "1e2", '"NaN"', '"x"', "true", "123456789012345678901234567890.5"]),
    (UUID, ['"12345678-1234-5678-1234-567812345678"', '"12345678123456781234567812345678"', '"x"', "1"]),
    (pydantic.AnyUrl, ['"https://a.example/b?c#d"', '"A.b"', '"x"', "1"]),
    (pydantic.HttpUrl, ['"https://a.example"', '"ftp://a.example"', "1"]),
    (Colour, ['"red"', '"green"', '"RED"', "1", "null"]),
    (Missed, ['"red"', '"rot"']),
    (enum.IntEnum("Size", {"S": 1, "M": 2}), ["1", "3", "1.0", '"2"', '"x"', "true"]),
    (enum.Enum("Odd", {"A": 1, "B": "b", "C": None, "D": 1.5}), ["1", '"b"', "null", "1.5", '"1"', "true"]),
    (Literal["a", "b"], ['"a"', '"c"', "1", '"\\u0061"', '" a"']),
    (Literal[1, 2], ["1", "3", '"1"', "1.0", "true"]),
    (Literal["a", 1, None, True], ['"a"', "1", "null", "true", "false", '"1"']),
    (int, ["1", "-0", "1.0", "1.5", '"1"', '"x"', "true", "9" * 30]),
    (float, ["1", "1.5", "-0.0", '"1.5"', '"x"', "true", "1e3"]),
    (bool, ["true", "false", "1", '"true"', '"yes"', "2", '"x"']),
    (Annotated[datetime.date, Field(gt=datetime.date(2020, 1, 1))], ['"2020-01-02"', '"2019-01-02"']),
    (Annotated[Decimal, Field(max_digits=3)], ['"1.50"', '"1.5000"', "1"]),
    (Annotated[UUID, pydantic.AfterValidator(lambda value: value.int)], [f'"{UUID(int=5)}"', '"x"']),
    (datetime.date | None, ['"2020-01-02"', "null", '"null"', '"x"']),
    (Annotated[datetime.date, Field(strict=True)], ['"2020-01-02"', "86400", '"86400"', '"2020-01-02T00:00:00"']),
    (Annotated[Decimal, Field(strict=True)], ['"1.5"', "1.5", "1"]),
    (Annotated[Colour, Field(strict=True)], ['"red"', "1"]),
    (Annotated[UUID, Field(strict=True)], [f'"{UUID(int=5)}"', "1"]),
]
# Newer versions of Pydantic leave an Enum's `_missing_` out of its schema, but call it.
CASES = [(type_form, text) for type_form, texts in LEAVES for text in texts]


class _Nothing:
    """In place of a value where there is none."""


def _read(type_form: Any, text: str) -> Any:
    """The final word on a dict with this one value."""
    try:
        value, _ = parse_json(plan_for(dict[str, type_form]).validator, f'{{"a": {text}}}')
    except pydantic.ValidationError:
        return _Nothing
    return value["a"]


@pytest.mark.fault(76)
@pytest.mark.parametrize("size", [1, 1_000])
@pytest.mark.parametrize(("type_form", "text"), CASES)
def test_a_leaf_is_what_the_final_reading_makes_of_it(type_form: Any, text: str, size: int) -> None:
    expected = _read(type_form, text)
    shown = fed(dict[str, type_form], f'{{"a": {text}, ', size=size, fail_fast=False).value.get("a", _Nothing)
    assert (type(shown), repr(shown)) == (type(expected), repr(expected))
    if expected is not _Nothing:
        assert shown == expected
        for around in (list[type_form], create_model("Model", a=(type_form, ...))):
            document = f"[{text}, " if around == list[type_form] else f'{{"a": {text}, '
            value = fed(around, document, size=size).value
            assert (value[0] if isinstance(value, list) else value.a) == expected


@pytest.mark.parametrize(("type_form", "text"), CASES)
def test_a_leaf_that_is_invalid_stops_like_the_final_reading(type_form: Any, text: str) -> None:
    """Without a validator in Python that could fix the value, as there is around a URL."""
    if _read(type_form, text) is not _Nothing or not plan_for(type_form).fatal:
        assert fed(dict[str, type_form], f'{{"a": {text}, ').value is not None
        return
    with pytest.raises(pydantic.ValidationError) as expected:
        parse_json(plan_for(dict[str, type_form]).validator, f'{{"a": {text}}}')
    with pytest.raises(pydantic.ValidationError) as caught:
        fed(dict[str, type_form], f'{{"a": {text}, "b": ')
    assert caught.value.errors(include_url=False) == expected.value.errors(include_url=False)


class StrictLeaves(BaseModel):
    model_config = ConfigDict(strict=True)

    day: datetime.date | None = None
    price: Decimal | None = None
    colour: Colour | None = None
    n: int | None = None
    x: float | None = None
    flag: bool | None = None


@pytest.mark.parametrize(
    "text",
    [
        '{"day": "2020-01-02", "price": "1.5", "colour": "red", "n": 1, "x": 1, "flag": true}',
        '{"day": 86400}', '{"price": 1.5}', '{"price": 1}', '{"n": 1.0}', '{"n": "1"}', '{"n": true}', '{"x": "1"}',
        '{"flag": 1}', '{"flag": "true"}', '{"colour": "green"}', '{"day": "2020-01-02T00:00:00"}',
    ],
)  # fmt: skip
def test_leaves_of_a_strict_model(text: str) -> None:
    plan = plan_for(list[StrictLeaves])
    try:
        expected, _ = parse_json(plan.validator, f"[{text}]", is_strict=plan.strictness.at)
    except pydantic.ValidationError:
        with pytest.raises(pydantic.ValidationError):
            closed(StrictLeaves, text)
    else:
        same(closed(StrictLeaves, text), expected[0])


def _nodes(type_form: Any) -> Iterator[type_plan.FieldPlan]:
    yield plan_for(type_form)
    yield plan_for(list[type_form]).container_plan.item


@pytest.mark.parametrize(
    ("type_form", "quick"),
    [
        *((type_form, True) for type_form in (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)),
        *((type_form, True) for type_form in (Decimal, UUID, Colour, Literal["a"], int, float, bool, int | None)),
        (Annotated[datetime.date, Field(gt=datetime.date(2020, 1, 1))], True),
        (Missed, False),
        (Annotated[int, Field(gt=0)], False),
        (Annotated[datetime.date, pydantic.AfterValidator(lambda value: value)], False),
        (Annotated[int, pydantic.BeforeValidator(lambda value: value)], False),
        (RootModel[int], False),
        (str, False),
        (int | str, False),
        (pydantic.SecretStr, False),
        (list[int], False),
    ],
)
def test_which_leaves_are_read_quickly(type_form: Any, quick: bool) -> None:
    assert [node.parse_scalar is not None for node in _nodes(type_form)] == [quick, quick]


@pytest.mark.parametrize("text", ['"green"', "1"])
def test_an_enum_that_raises_waits_for_the_end(text: str) -> None:
    growing = fed(list[Missed], f'["red", "rot", {text}, "red", ')
    assert growing.value == [Missed.RED, Missed.RED, Missed.RED]
    with pytest.raises(ArithmeticError):
        parse_json(plan_for(list[Missed]).validator, f'["red", {text}]')
