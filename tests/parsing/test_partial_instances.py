"""Partial instances: `repr`, `model_dump`, equality, copying and pickling."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import pickle
from abc import ABC, abstractmethod
from typing import Annotated, Any, ClassVar, NamedTuple

import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel, TypeAdapter

from support.growth import fed
from toolcast.parsing.partial_instances import partial_class
from toolcast.parsing.partial_value import is_partial


class Song(BaseModel):
    title: str
    seconds: int = 3
    secret: str = Field("", exclude=True, repr=False)

    @pydantic.computed_field
    def minutes(self) -> float:
        return self.seconds / 60

    @pydantic.field_serializer("title")
    def shout(self, title: str) -> str:
        return title.upper()


class Album(BaseModel):
    title: str | None = Field(None, serialization_alias="Title")
    songs: list[Song] = []
    best: Song | None = None
    pair: tuple[Song, int] | None = None
    released: datetime.date | None = None
    length: datetime.timedelta | None = None

    @pydantic.computed_field
    def count(self) -> int:
        return len(self.songs)

    @pydantic.model_serializer(mode="wrap")
    def wrapped(self, handler: Any) -> Any:
        return {"wrapped": handler(self)}


_TEXT = (
    '{"title": "t", "pair": [{"title": "p"}, 1], "released": "2020-01-01",'
    ' "songs": [{"title": "a", "secret": "s"}, {"title": "b", "seconds": 5}], "best": {"title": "c"'
)


def test_repr_shows_what_arrived_at_every_depth() -> None:
    partial = fed(Album, _TEXT).value
    assert repr(partial) == (
        "Album(title='t', songs=[Song(title='a'), Song(title='b', seconds=5)], best=Song(title='c'),"
        " pair=(Song(title='p'), 1), released=datetime.date(2020, 1, 1))"
    )
    assert str(partial).startswith("title='t' songs=[Song(title='a'), ")
    assert repr(partial.songs[0]) == "Song(title='a', seconds=3, minutes=0.05)"


_SONGS = [{"title": "a"}, {"title": "b", "seconds": 5}]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {},
            {
                "title": "t",
                "songs": _SONGS,
                "best": {"title": "c"},
                "pair": ({"title": "p"}, 1),
                "released": datetime.date(2020, 1, 1),
            },
        ),
        ({"mode": "json", "include": {"released", "pair"}}, {"pair": [{"title": "p"}, 1], "released": "2020-01-01"}),
        ({"by_alias": True, "include": {"title"}}, {"Title": "t"}),
        ({"include": {"songs": {0}}}, {"songs": [_SONGS[0]]}),
        ({"include": {"songs": {"__all__": {"title"}}}}, {"songs": [{"title": "a"}, {"title": "b"}]}),
        ({"include": {"songs": ..., "title": True}}, {"title": "t", "songs": _SONGS}),
        ({"include": {"songs"}, "exclude": {"songs": {-1}}}, {"songs": [_SONGS[0]]}),
        ({"include": {"songs"}, "exclude": {"songs": {1: {"seconds"}}}}, {"songs": [{"title": "a"}, {"title": "b"}]}),
        ({"exclude": {"songs", "pair", "released", "best"}, "exclude_unset": True}, {"title": "t"}),
        ({"include": {"pair": {0: {"title"}}}}, {"pair": ({"title": "p"},)}),
    ],
)
def test_model_dump_shows_what_arrived_at_every_depth(options: Any, expected: Any) -> None:
    assert fed(Album, _TEXT).value.model_dump(**options) == expected


def test_none_and_defaults_can_be_left_out() -> None:
    partial = fed(Album, '{"title": null, "songs": [], "best": {"title": "c", "seconds": 3}').value
    assert partial.model_dump(exclude_none=True) == {"songs": [], "best": {"title": "c", "seconds": 3}}
    assert partial.model_dump(exclude_defaults=True) == {"songs": [], "best": {"title": "c"}} or partial.model_dump(
        exclude_defaults=True
    ) == {"best": {"title": "c"}}


def test_model_dump_json() -> None:
    partial = fed(Album, '{"title": "t", "length": "PT5S", "songs": [{"title": "a').value
    assert partial.model_dump_json() == '{"title":"t","songs":[{"title":"a"}],"length":"PT5S"}'


def test_computed_fields_of_open_models_read_none() -> None:
    partial = fed(Album, '{"title": "t"').value
    assert (partial.count, partial.songs, partial.best) == (None, None, None)
    assert (partial.model_fields_set, dict(partial)) == ({"title"}, {"title": "t"})


class Plain(BaseModel):
    title: str
    songs: list[Song] = []

    @pydantic.computed_field
    def first(self) -> str:
        return self.songs[0].title


class Around(BaseModel):
    plain: Plain


def test_a_partial_inside_of_other_things_can_be_serialized() -> None:
    partial = fed(Plain, '{"title": "t"').value
    assert TypeAdapter(list[Plain]).dump_python([partial]) == [{"title": "t", "first": None}]
    assert Around(plain=partial).model_dump_json() == '{"plain":{"title":"t","first":null}}'
    assert repr(Around(plain=partial)) == "Around(plain=Plain(title='t'))"
    assert TypeAdapter(Any).dump_python(partial) == {"title": "t"}


class Configured(BaseModel):
    model_config = ConfigDict(ser_json_timedelta="float", serialize_by_alias=True, extra="allow")

    length: datetime.timedelta = Field(serialization_alias="len")
    parts: dict[str, Song] = {}


def test_the_configuration_of_the_class_holds() -> None:
    partial = fed(Configured, '{"length": 5, "parts": {"a": {"title": "x"}}, "more": [1]').value
    assert partial.model_dump_json() == '{"len":5.0,"parts":{"a":{"title":"x"}},"more":[1]}'
    assert repr(partial) == "Configured(length=datetime.timedelta(seconds=5), parts={'a': Song(title='x')}, more=[1])"


class Names(RootModel[list[str]]):
    pass


class Spot(NamedTuple):
    x: int
    song: Song


@dataclasses.dataclass
class Point:
    x: int
    song: Song | None = None
    name: str = "p"


class Holder(BaseModel):
    names: Names
    spot: Spot
    point: Point


def test_other_containers_in_a_partial() -> None:
    text = '{"names": ["a"], "spot": [1, {"title": "a"}], "point": {"x": 1, "song": {"title": "b"}}'
    partial = fed(Holder, text).value
    assert repr(partial) == (
        "Holder(names=Names(root=['a']), spot=Spot(x=1, song=Song(title='a')),"
        " point=Point(x=1, song=Song(title='b'), name='p'))"
    )
    assert partial.model_dump() == {
        "names": ["a"],
        "spot": (1, {"title": "a"}),
        "point": {"x": 1, "song": {"title": "b"}, "name": "p"},
    }
    assert fed(Names, '["a"').value.model_dump() == ["a"] or fed(Names, '["a", ').value.model_dump() == ["a"]


def test_open_dataclasses() -> None:
    partial = fed(Point, '{"x": 1, ').value
    assert (repr(partial), str(partial)) == ("Point(x=1)", "Point(x=1)")
    assert dataclasses.asdict(partial) == {"x": 1, "song": None, "name": None}
    assert TypeAdapter(Point).dump_python(partial, warnings=False)["x"] == 1
    assert pickle.loads(pickle.dumps(partial)) == copy.copy(partial) == copy.deepcopy(partial) == partial


class Private(BaseModel):
    title: str
    _list: list[int] = PrivateAttr(default_factory=list)
    _dict: dict[str, int] = {}
    _late: int = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        raise AssertionError("only for closed objects")


def test_private_attributes_read_as_their_defaults() -> None:
    growing = fed(Private, '{"title": "t')
    partial = growing.value
    assert (partial._list, partial._dict) == ([], {})
    with pytest.raises(AttributeError):
        _ = partial._late
    partial._list.append(1)
    growing.feed("u")
    assert growing.value._list == []
    revived = pickle.loads(pickle.dumps(partial))
    assert revived._list == [1]


@pytest.mark.skipif(
    not hasattr(PrivateAttr(), "default_factory_takes_validated_data"), reason="Pydantic 2.14 and later: NOT TESTED"
)
def test_private_defaults_that_ask_for_a_whole_object_are_none() -> None:
    class Asking(BaseModel):
        title: str
        _length: int = PrivateAttr(default_factory=lambda data: len(data["title"]))

    assert fed(Asking, '{"title": "t').value._length is None


def test_copies_and_equality() -> None:
    partial = fed(Song, '{"title": "t"').value
    copies = [copy.copy(partial), copy.deepcopy(partial), partial.model_copy(), pickle.loads(pickle.dumps(partial))]
    assert all(one == partial and is_partial(one) and type(one) is type(partial) for one in copies)
    assert partial != Song(title="t")
    assert partial.model_copy(update={"seconds": 1}).seconds == 1
    partial.title = "u"
    assert partial.title == "u"


class Checked(BaseModel):
    model_config = ConfigDict(validate_assignment=True)

    n: int
    m: int = 0


def test_assignment_is_still_checked() -> None:
    partial = fed(Checked, '{"n": 1, ').value
    partial.m = "5"
    assert (partial.m, partial.model_fields_set) == (5, {"n", "m"})


class Registered(BaseModel, ABC):
    known: ClassVar[list[str]] = []
    title: str = ""

    def __init_subclass__(cls, *, code: str, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.known.append(code)

    @abstractmethod
    def play(self) -> str: ...


class Played(Registered, code="played"):
    def play(self) -> str:
        return self.title


def test_the_users_class_hooks_hear_nothing_of_it() -> None:
    partial = fed(Played, '{"title": "t').value
    assert Registered.known == ["played"]
    assert (isinstance(partial, Registered), partial.play()) == (True, "t")
    assert not isinstance(Played(title="x"), type(partial))
    assert partial_class(Played) is type(partial)


def test_is_partial_is_for_models_and_dataclasses() -> None:
    assert is_partial(fed(Song, "{").value)
    assert not is_partial(Song(title="x"))
    assert not is_partial(Point(1))
    for other in ({}, "x", None, Song, Point):
        with pytest.raises(TypeError, match="is_partial"):
            is_partial(other)


def test_metadata_that_cannot_be_hashed() -> None:
    assert fed(list[Annotated[int, ["unhashable"]]], "[1, 2").value == [1]
