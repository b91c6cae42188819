"""Partial values: visible parts in every kind of container."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from typing import Annotated, Any, Generic, Literal, NamedTuple, Required, TypeVar

import pydantic
import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    RootModel,
    SecretStr,
    create_model,
)
from typing_extensions import TypeAliasType, TypedDict

from support.growth import distinct, fed, looks
from toolcast.parsing.json_stream import JSONStreamError
from toolcast.parsing.partial_value import MISSING, Done, NotNull, PartialValue, PathChange, is_partial, plan_for

T = TypeVar("T")


class Song(BaseModel):
    title: str
    seconds: int = 3


class Album(BaseModel):
    title: str
    songs: list[Song] = []
    best: Song | None = None


# Models, lists, scalars, strings


def test_a_model_shows_from_its_brace_and_a_string_grows() -> None:
    assert looks(Song, '{"title": "ab", "seconds": 12}') == [
        "Song()",
        "Song(title='')",
        "Song(title='a')",
        "Song(title='ab')",
        "Song(title='ab', seconds=12)",
    ]


def test_nested_models_and_lists() -> None:
    document = {"title": "t", "songs": [{"title": "x"}, {"title": "y", "seconds": 1}], "best": {"title": "z"}}
    assert distinct(Album, document)[-4:] == [
        "Album(title='t', songs=[Song(title='x'), Song(title='y', seconds=1)])",
        "Album(title='t', songs=[Song(title='x'), Song(title='y', seconds=1)], best=Song())",
        "Album(title='t', songs=[Song(title='x'), Song(title='y', seconds=1)], best=Song(title=''))",
        "Album(title='t', songs=[Song(title='x'), Song(title='y', seconds=1)], best=Song(title='z'))",
    ]


def test_a_closed_model_is_an_instance_of_the_class_itself() -> None:
    growing = fed(Album, '{"title": "t", "songs": [{"title": "x"}, {"title"')
    closed, opened = growing.value.songs
    assert (type(closed), closed.seconds) == (Song, 3)
    assert (isinstance(opened, Song), opened.title, opened.seconds) == (True, None, None)
    assert [is_partial(closed), is_partial(opened)] == [False, True]


def test_the_root_stays_a_partial() -> None:
    growing = fed(Song, {"title": "x"})
    assert is_partial(growing.value)
    assert not growing.close()


def test_no_snapshot_before_the_value_has_begun() -> None:
    growing = PartialValue(plan_for(Song))
    assert not growing.feed(" ")
    assert growing.value is MISSING
    assert repr(MISSING) == "MISSING"


class Colour(enum.Enum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: str


_Alias = TypeAliasType("_Alias", str)


@pytest.mark.parametrize(
    ("type_form", "document", "expected"),
    [
        (str, "ab", ["''", "'a'", "'ab'"]),
        (str | None, "a", ["''", "'a'"]),
        (str | None, None, ["None"]),
        (_Alias, "a", ["''", "'a'"]),
        (Annotated[str, Field(max_length=5)], "a", ["''", "'a'"]),
        (Annotated[str, Field(strict=True)], "a", ["''", "'a'"]),
        (Annotated[str, Field(pattern="a")], "ab", ["'ab'"]),
        (Annotated[str, pydantic.StringConstraints(to_upper=True)], "ab", ["''", "'a'", "'ab'", "'AB'"]),
        (Annotated[str, pydantic.AfterValidator(str.strip)], " a", ["''", "' '", "' a'", "'a'"]),
        (Annotated[str, pydantic.PlainValidator(str.upper)], "a", ["''", "'a'", "'A'"]),
        (Annotated[str, Done], "ab", ["'ab'"]),
        (Annotated[str, Done] | None, "ab", ["'ab'"]),
        (SecretStr, "ab", ["SecretStr('**********')"]),
        (Annotated[SecretStr, pydantic.AfterValidator(bool)], "ab", ["True"]),
        (Literal["ab"], "ab", ["'ab'"]),
        (Colour, "red", ["<Colour.RED: 'red'>"]),
        (datetime.date, "2020-01-01", ["datetime.date(2020, 1, 1)"]),
        (int, 125, ["125"]),
        (int, 125.0, ["125"]),
        (int, "125", ["125"]),
        (int, True, ["1"]),
        (float, -2, ["-2.0"]),
        (bool, True, ["True"]),
        (bool, 0, ["False"]),
        (int | str, "ab", ["'ab'"]),
        (Any, {"a": [1]}, ["{'a': [1]}"]),
        (Any, "ab", ["'ab'"]),
        (JsonValue, [1, "a"], ["[1, 'a']"]),
        (list, [1, {"a": 1}], ["[]", "[1]", "[1, {'a': 1}]"]),
        (dict, {"a": [1]}, ["{}", "{'a': [1]}"]),
        (list[int] | None, [1], ["[]", "[1]"]),
        (list[str], ["ab", "c"], ["[]", "['']", "['a']", "['ab']", "['ab', '']", "['ab', 'c']"]),
        (list[list[int]], [[1], []], ["[]", "[[]]", "[[1]]", "[[1], []]"]),
        (Annotated[list[int], Done], [1, 2], ["[1, 2]"]),
        (Annotated[list[int], Field(max_length=2)], [1], ["[]", "[1]"]),
        (tuple[int, str], [1, "a"], ["(1, 'a')"]),
        (set[int], [1, 1], ["{1}"]),
        (Pair, [1, "a"], ["Pair(left=1, right='a')"]),
        (dict[str, str], {"k": "a"}, ["{}", "{'k': ''}", "{'k': 'a'}"]),
        (dict[int, int], {"1": 2}, ["{}", "{1: 2}"]),
        (dict[str, list[int]], {"k": [1]}, ["{}", "{'k': []}", "{'k': [1]}"]),
    ],
)
def test_what_shows_of_a_field(type_form: Any, document: Any, expected: list[str]) -> None:
    model = create_model("M", f=(type_form, ...))
    assert distinct(model, {"f": document}) == ["M()", *(f"M(f={look})" for look in expected)]


def test_a_dict_that_is_limited_is_checked_with_what_is_in_it() -> None:
    model = create_model("M", f=(Annotated[dict[str, Song], Field(max_length=1)], ...))
    value = fed(model, {"f": {"a": {"title": "x"}}}).value
    assert value.f == {"a": Song(title="x")}


def test_a_closed_list_that_its_model_has_limited_is_checked() -> None:
    model = create_model("M", f=(list[Annotated[list[Song], Field(max_length=1)]], ...))
    assert distinct(model, {"f": [[{"title": "a"}]]}, size=7)[-1] == "M(f=[[Song(title='a')]])"


# Kinds of objects


@dataclasses.dataclass
class Point:
    x: int
    label: str = "none"
    songs: list[Song] = dataclasses.field(default_factory=list)
    scale: dataclasses.InitVar[int] = 1


@dataclasses.dataclass(slots=True, frozen=True)
class Line:
    start: Point | None
    name: str = "line"


def test_dataclasses_read_none_where_nothing_has_arrived() -> None:
    growing = PartialValue(plan_for(Line))
    growing.feed('{"start": {"x": 1, "scale": 5, "songs": [{"ti')
    assert repr(growing.value) == str(growing.value) == "Line(start=Point(x=1, songs=[Song()]))"
    assert (growing.value.name, growing.value.start.label) == (None, None)
    assert is_partial(growing.value)
    growing.feed('tle": "a"}]}, "name": "n')
    assert growing.value.start == Point(1, songs=[Song(title="a")])
    assert repr(growing.value) == ("Line(start=Point(x=1, label='none', songs=[Song(title='a')]), name='n')")


class Movie(TypedDict, total=False):
    title: Required[Annotated[str, pydantic.AfterValidator(str.title)]]
    tags: list[str]


def test_typed_dicts_are_dicts_of_what_arrived() -> None:
    model = create_model("M", f=(Movie, ...))
    assert distinct(model, {"f": {"title": "a", "tags": ["x"]}}) == [
        "M()",
        "M(f={})",
        "M(f={'title': ''})",
        "M(f={'title': 'a'})",
        "M(f={'title': 'A'})",
        "M(f={'title': 'A', 'tags': []})",
        "M(f={'title': 'A', 'tags': ['']})",
        "M(f={'title': 'A', 'tags': ['x']})",
    ]


class Names(RootModel[list[str]]):
    pass


class Name(RootModel[Annotated[str, Field(max_length=5)]]):
    pass


def test_root_models_show_with_what_they_hold() -> None:
    model = create_model("M", names=(Names, ...), name=(Name, ...), all=(list[Name], ...))
    growing = fed(model, '{"names": ["a"], "name": "b", "all": ["c')
    assert repr(growing.value) == "M(names=Names(root=['a']), name=Name(root='b'), all=[Name(root='c')])"
    assert [is_partial(part) for part in (growing.value.names, growing.value.name, growing.value.all[0])] == [
        False,
        False,
        True,
    ]
    assert repr(fed(Names, '["a", "b').value) == "Names(root=['a', 'b'])"


class Box(BaseModel, Generic[T]):
    item: T
    more: list[T] = []


class Tree(BaseModel):
    name: str
    twigs: list[Tree] = []


def test_generic_and_recursive_models() -> None:
    assert repr(fed(Box[Song], '{"item": {"title": "a"}, "more": [{"title": "b').value) == (
        "Box[Song](item=Song(title='a'), more=[Song(title='b')])"
    )
    assert repr(fed(Tree, '{"name": "a", "twigs": [{"name": "b", "twigs": [{"name": "c').value) == (
        "Tree(name='a', twigs=[Tree(name='b', twigs=[Tree(name='c')])])"
    )


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    when: datetime.datetime
    inner: Strict | None = None


def test_strict_and_frozen_models_are_read_as_json() -> None:
    document = {"when": "2020-01-01T00:00:00", "inner": {"when": "2021-01-01T00:00:00", "inner": None}}
    value = fed(Strict, document).value
    assert value.inner == Strict(when=datetime.datetime(2021, 1, 1), inner=None)
    with pytest.raises(pydantic.ValidationError):
        value.when = None


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")

    a: int = 0


def test_extra_keys_show_when_closed_where_they_are_allowed() -> None:
    assert looks(Loose, {"a": 1, "b": {"c": [1]}, "d": "xy"}) == [
        "Loose()",
        "Loose(a=1)",
        "Loose(a=1, b={'c': [1]})",
        "Loose(a=1, b={'c': [1]}, d='xy')",
    ]
    value = fed(Loose, {"a": 1, "b": 2}).value
    assert (value.b, value.model_extra, value.model_fields_set) == (2, {"b": 2}, {"a", "b"})


def test_unknown_keys_are_passed_by() -> None:
    document = {"x": {"a": [1, "}"]}, "y": "s", "z": 1, "w": [[]], "title": "t"}
    assert looks(Song, document) == ["Song()", "Song(title='')", "Song(title='t')"]


# Names


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    first: str = Field(alias="firstName")
    second: int | None = Field(None, validation_alias=AliasChoices("b", "B"))
    third: str | None = Field(None, validation_alias=AliasChoices(AliasPath("list", 0, "name"), AliasPath("list", 1)))
    fourth: Any = Field(None, validation_alias="list")
    fifth: list[int] | None = Field(None, validation_alias="both")
    sixth: int | None = Field(None, validation_alias=AliasPath("both", 0))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"firstName": "x"}, "first='x'"),
        ({"first": "x"}, "first='x'"),
        ({"b": 1}, "second=1"),
        ({"B": 2, "b": 1}, "second=1"),
        ({"b": 1, "B": 2}, "second=1"),
        ({"list": [{"name": "n"}]}, "third='n', fourth=[{'name': 'n'}]"),
        ({"list": [5, "m"]}, "third='m', fourth=[5, 'm']"),
        ({"list": [{"name": "n"}, "m"]}, "third='n', fourth=[{'name': 'n'}, 'm']"),
        ({"list": []}, "fourth=[]"),
        ({"both": [1]}, "fifth=[1], sixth=1"),
    ],
)
def test_every_name_of_a_field_works(document: Any, expected: str) -> None:
    assert repr(fed(Aliased, document, fail_fast=False).value) == f"Aliased({expected})"


def test_names_alone_where_aliases_are_off() -> None:
    class Named(BaseModel):
        model_config = ConfigDict(validate_by_alias=False, validate_by_name=True)

        first: str = Field(alias="firstName")

    assert repr(fed(Named, {"firstName": "x", "first": "y"}).value) == "Named(first='y')"


@pytest.mark.fault(69)
def test_the_last_of_two_equal_keys_wins() -> None:
    text = '{"title": "ab", "title": "c", "best": {"title": "x"}, "best": null, "songs": [{"title": "y"}], "songs": ['
    assert repr(fed(Album, text).value) == "Album(title='c', songs=[], best=None)"
    assert repr(fed(dict[str, Song], '{"a": {"title": "x"}, "a": {').value) == "{'a': Song()}"


# Unions


class Cat(BaseModel):
    kind: Literal["cat"]
    toys: list[Song] = []


class Kind(enum.StrEnum):
    BIRD = "bird"


class Bird(BaseModel):
    kind: Literal[Kind.BIRD] = Field(alias="Kind")
    wings: int = 2


class Fish(BaseModel):
    kind: Literal["fish"] = Field(alias="Kind")


class SmallDog(BaseModel):
    kind: Literal["dog"]
    size: Literal[1]
    name: str = ""


class BigDog(BaseModel):
    kind: Literal["dog"]
    size: Literal[2]
    name: str = ""


AnyDog = Annotated[SmallDog | BigDog, Field(discriminator="size")]
Pet = Annotated[Cat | AnyDog, Field(discriminator="kind")]


class RootPet(RootModel[Pet]):
    pass


@pytest.mark.fault(76)
def test_a_discriminated_union_becomes_its_member_when_the_tag_closes() -> None:
    model = create_model("M", f=(Pet | None, ...))
    late = {"f": {"toys": [{"title": "b"}], "x": {}, "kind": "cat"}}
    assert distinct(model, late) == ["M()", "M(f=Cat(kind='cat', toys=[Song(title='b')]))"]
    assert distinct(model, {"f": {"kind": "cat", "toys": []}})[:2] == ["M()", "M(f=Cat(kind='cat'))"]
    assert distinct(model, {"f": None}) == ["M()", "M(f=None)"]


def test_a_union_in_a_union_waits_for_both_tags() -> None:
    document = [{"size": 2, "kind": "dog", "name": "x"}, {"kind": "dog", "name": "y", "size": 1}]
    assert distinct(list[Pet], document) == [
        "[]",
        "[BigDog(kind='dog', size=2)]",
        "[BigDog(kind='dog', size=2, name='')]",
        "[BigDog(kind='dog', size=2, name='x')]",
        "[BigDog(kind='dog', size=2, name='x'), SmallDog(kind='dog', size=1, name='y')]",
    ]


def test_tags_under_an_alias_and_from_an_enum() -> None:
    pet = Annotated[Bird | Fish, Field(discriminator="kind")]
    assert repr(fed(list[pet], '[{"Kind": "bird", "wings": 3').value) == "[Bird(kind=<Kind.BIRD: 'bird'>)]"


def test_a_root_model_of_a_union() -> None:
    model = create_model("M", f=(RootPet, ...))
    assert repr(fed(RootPet, '{"kind": "cat", "toys": [').value) == "RootPet(root=Cat(kind='cat', toys=[]))"
    value = fed(model, '{"f": {"kind": "cat"}').value
    assert (repr(value), is_partial(value.f)) == ("M(f=RootPet(root=Cat(kind='cat')))", False)


def test_a_union_with_a_validator_around_it() -> None:
    after = Annotated[Pet, pydantic.AfterValidator(lambda pet: [pet])]
    before = Annotated[Pet, pydantic.BeforeValidator(lambda data: {**data, "toys": []})]
    model = create_model("M", a=(after, ...), b=(before, ...))
    value = fed(model, '{"a": {"kind": "cat"}, "b": {"kind": "cat"}').value
    assert (value.a, value.b) == ([Cat(kind="cat")], Cat(kind="cat", toys=[]))


def _tag(data: Any) -> str:
    return data["kind"] if isinstance(data, dict) else data.kind


_called = Annotated[
    Annotated[Cat, pydantic.Tag("cat")] | Annotated[BigDog, pydantic.Tag("dog")], pydantic.Discriminator(_tag)
]


@pytest.mark.parametrize("type_form", [_called, Cat | BigDog, Cat | int])
def test_other_unions_show_when_closed(type_form: Any) -> None:
    model = create_model("M", f=(type_form, ...))
    assert distinct(model, {"f": {"kind": "cat"}}) == ["M()", "M(f=Cat(kind='cat'))"]


# Markers


class Entry(BaseModel):
    id: Annotated[int, NotNull]
    name: Annotated[str, Done] = ""
    note: str = ""


def test_not_null_holds_the_parent_back() -> None:
    document = {"f": [{"note": "ab", "id": 1, "name": "x"}, {"id": 2, "note": "c"}]}
    model = create_model("M", f=(list[Entry], ...))
    assert distinct(model, document) == [
        "M()",
        "M(f=[])",
        "M(f=[Entry(id=1, note='ab')])",
        "M(f=[Entry(id=1, name='x', note='ab')])",
        "M(f=[Entry(id=1, name='x', note='ab'), Entry(id=2)])",
        "M(f=[Entry(id=1, name='x', note='ab'), Entry(id=2, note='')])",
        "M(f=[Entry(id=1, name='x', note='ab'), Entry(id=2, note='c')])",
    ]


def test_what_happened_out_of_sight_is_not_reported_but_remembered() -> None:
    class Outer(BaseModel):
        names: list[str]
        entry: Entry | None = None
        id: Annotated[int, NotNull]

    growing = PartialValue(plan_for(Outer))
    assert not growing.feed('{"names": ["a", "b"')
    assert (growing.value, growing.changed) == (MISSING, ())
    assert growing.closed_items("names") == ["a", "b"]
    assert growing.new_text("names.0") == "a"
    assert not growing.feed('], "entry": {"note": "n"')
    assert growing.feed(', "id": 3}, "id": 7, ')
    assert growing.changed == ("",)
    assert growing.changes()[-1].value.entry == Entry(id=3, note="n")
    assert repr(growing.value) == "Outer(names=['a', 'b'], entry=Entry(id=3, note='n'), id=7)"


def test_an_object_inside_of_one_that_is_held_back() -> None:
    model = create_model("M", f=(Entry | None, None), g=(Annotated[int | None, NotNull], None))
    growing = PartialValue(plan_for(model))
    assert not growing.feed('{"g": null, "f": {"note": "n", ')
    assert not growing.feed('"id": 1')
    assert not growing.feed(', "note": "m"}')
    assert not growing.feed("}")
    assert growing.value is MISSING


def test_what_is_held_back_inside_of_what_shows_again() -> None:
    inner = create_model("Inner", e=(Entry | None, None), g=(Annotated[int, NotNull], ...))
    growing = PartialValue(plan_for(list[inner]))
    assert growing.feed('[{"e": null')
    assert growing.value == []
    assert growing.feed(', "g": 1, "e": {"note": "x"')
    assert repr(growing.value) == "[Inner(g=1)]"
    assert growing.feed(', "id": 5, ')
    assert repr(growing.value) == "[Inner(e=Entry(id=5, note='x'), g=1)]"
    assert growing.changed == ("0.e",)
    assert [repr(marker) for marker in (Done, NotNull)] == ["Done", "NotNull"]


# Wrapped values


@pytest.mark.parametrize(
    ("type_form", "text", "expected"),
    [
        (list[int], '{"value": [1, 2], "other": [3], "more": 1}', ["[]", "[1]", "[1, 2]"]),
        (int, '{"value": 12}', ["12"]),
        (str, '{"value": "ab"}', ["''", "'a'", "'ab'"]),
        (Song, '{"value": {"title": "a"}}', ["Song()", "Song(title='')", "Song(title='a')"]),
        (tuple[int, int], '{"value": [1, 2]}', []),
        (list[int], "[1, 2]", []),
        (int, "12 ", []),
        (str, '"ab"', []),
    ],
)
def test_a_wrapped_value_is_unwrapped(type_form: Any, text: str, expected: list[str]) -> None:
    assert looks(type_form, text, wrapped=True) == expected


def test_a_root_of_the_wrong_kind_shows_nothing() -> None:
    assert looks(Album, '[{"title": "a"}]') == []
    assert looks(list[int], '{"a": 1}') == []


# The end, and broken text


def test_a_number_at_the_root_ends_with_the_text() -> None:
    growing = PartialValue(plan_for(int))
    assert not growing.feed("12")
    assert growing.close()
    assert growing.value == 12


def test_text_that_ends_too_early() -> None:
    growing = fed(Song, '{"title": "a')
    with pytest.raises(JSONStreamError) as caught:
        growing.close()
    assert (caught.value.incomplete, growing.broken) == (True, caught.value)
    with pytest.raises(JSONStreamError):
        growing.close()
    assert growing.value.title == "a"


def test_broken_text_stops_the_snapshots_but_is_kept() -> None:
    growing = PartialValue(plan_for(Song))
    assert growing.feed('{"title": "a"')
    assert not growing.feed("oops")
    assert growing.broken is not None
    assert not growing.feed('"seconds": 1}')
    assert repr(growing.value) == "Song(title='a')"
    assert growing.text == '{"title": "a"oops"seconds": 1}'


def test_strings_with_everything_in_them() -> None:
    text = 'q"b\\s/\b\f\n\r\té\U0001f600 \x7f'
    model = create_model("M", f=(Annotated[str, Field(pattern="q")], ...), g=(Annotated[str, Field(min_length=1)], ...))
    value = fed(model, {"f": text, "g": text}).value
    assert (value.f, value.g) == (text, text)


# What changed


def test_what_changed() -> None:
    growing = PartialValue(plan_for(Album))
    assert growing.changed == ()
    growing.feed('{"title": "a", "songs": [{"title": "b"')
    assert growing.changed == ("", "title", "songs", "songs.0", "songs.0.title")
    assert not growing.feed(' , "sec')
    assert growing.changed == ("", "title", "songs", "songs.0", "songs.0.title")
    growing.feed('onds": 1}')
    assert growing.changed == ("songs.0.seconds", "songs.0")
    growing.feed("]")
    assert growing.changed == ("songs.0.seconds", "songs.0")


def test_paths_with_keys_that_hold_a_dot_are_tuples() -> None:
    growing = fed(dict[str, int], '{"a.b": 1', size=50)
    growing.feed(", ")
    assert growing.changed == (("a.b",),)
    growing.feed('"": 2}')
    assert growing.changed == (("",),)


def test_changes_are_what_a_page_applies() -> None:
    growing = PartialValue(plan_for(Album))
    growing.feed('{"title": "ab')
    growing.feed('c", "songs": [{')
    assert growing.changes() == [
        PathChange("text", "title", "c"),
        PathChange("set", "songs", []),
        PathChange("set", "songs.0", {}),
    ]
    growing.feed('"title": "x"}')
    assert growing.changes()[-1] == PathChange("set", "songs.0", Song(title="x"))


def test_items_come_once_each_when_they_close() -> None:
    growing = PartialValue(plan_for(Album))
    items: list[Song] = []
    for character in '{"songs": [{"title": "a"}, {"title": "b"}], "title": "t"}':
        growing.feed(character)
        items += growing.closed_items("songs")
    assert items == [Song(title="a"), Song(title="b")]
    assert fed(list[str], '["a", "b"', size=20).closed_items() == ["a", "b"]
    assert fed(list[str], '["a", "b"', size=20).closed_items("0") == []


def test_new_text() -> None:
    growing = PartialValue(plan_for(Album))
    growing.feed('{"title": "ab')
    assert growing.new_text("title") == "ab"
    growing.feed("c\\n")
    assert growing.new_text("title") == growing.new_text(("title",)) == "c\n"
    growing.feed('", "songs": [{"title": "q"')
    assert (growing.new_text("title"), growing.new_text("songs.0.title")) == ("", "q")
    assert growing.new_text(("songs", 0, "title")) == "q"


@pytest.mark.parametrize(
    ("text", "path", "state"),
    [
        ("", "", "pending"),
        ("", "title", "pending"),
        ("{", "", "growing"),
        ("{", "title", "pending"),
        ('{"title": "a', "title", "growing"),
        ('{"title": "a', "title.x", "pending"),
        ('{"title": "a"', "title", "done"),
        ('{"title": "a"', "title.0", "pending"),
        ('{"songs": [', "songs", "growing"),
        ('{"songs": [{"title": "a"}, {', "songs.0", "done"),
        ('{"songs": [{"title": "a"}, {', "songs.0.title", "done"),
        ('{"songs": [{"title": "a"}, {', "songs.0.seconds", "done"),
        ('{"songs": [{"title": "a"}, {', "songs.1", "growing"),
        ('{"songs": [{"title": "a"}, {', ("songs", 1, "title"), "pending"),
        ('{"songs": [{"title": "a"}, {', "songs.2", "pending"),
        ('{"songs": [{"title": "a"}, {', "songs.x", "pending"),
        ('{"songs": [{"title": "a"}]', "songs.0.title", "done"),
        ('{"songs": []}', "", "done"),
        ('{"nowhere": {', "nowhere", "pending"),
        ('{"nowhere": {', "title", "pending"),
    ],
)
def test_field_state(text: str, path: Any, state: str) -> None:
    assert fed(Album, text).field_state(path) == state


def test_field_state_in_other_containers() -> None:
    model = create_model("M", d=(dict[str, Names], ...), p=(Point, ...), t=(tuple[int, int], ...), u=(Pet, ...))
    growing = fed(model, '{"d": {"k": ["a"]}, "p": {"x": 1}, "t": [1')
    states = {path: growing.field_state(path) for path in ("d.k.0", "d.x", "p.x", "p.y", "t", "t.0", "u")}
    assert states == {
        "d.k.0": "done",
        "d.x": "pending",
        "p.x": "done",
        "p.y": "pending",
        "t": "growing",
        "t.0": "pending",
        "u": "pending",
    }
    growing.feed(', 2], "u": {"x": 1')
    assert [growing.field_state(path) for path in ("t.1", "u")] == ["done", "growing"]


def test_a_text_of_many_small_pieces_is_kept_whole() -> None:
    document = {"title": "a" * 2500, "best": {"title": "b" * 2500}, "songs": [{"title": "c"}] * 50}
    growing = fed(Album, document)
    assert growing.text == json.dumps(document)
    assert growing.value.songs == [Song(title="c")] * 50
    assert growing.value.best == Song(title="b" * 2500)
