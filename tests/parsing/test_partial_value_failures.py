"""Invalid values: errors that stop the stream, errors left to the end, and the number of validator runs."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, RootModel, TypeAdapter, create_model
from pydantic_core import PydanticCustomError

from support.growth import fed, pieces_of, stopped
from toolcast.errors import TryAgain
from toolcast.parsing.partial_value import PartialValue, is_partial, plan_for


class Song(BaseModel):
    title: str
    seconds: int = 3


class Cat(BaseModel):
    kind: Literal["cat"]
    name: str


class Dog(BaseModel):
    kind: Literal["dog"]
    songs: list[Song] = []


def _odd(value: int) -> int:
    if value % 2 == 0:
        raise PydanticCustomError("even", "{number} is even", {"number": value})
    return value


class Everything(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int = 0
    limited: Annotated[str, Field(max_length=3)] = ""
    songs: Annotated[list[Song], Field(max_length=2)] = []
    table: dict[int, Song] = {}
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = []
    own: Annotated[int, AfterValidator(_odd)] = 1
    aliased: list[int] = Field([], alias="Aliased")
    inner: Everything | None = None


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('{"number": "x"', ', "own": 1}'),
        ('{"number": null', "}"),
        ('{"limited": "abcd"', ', "own": 1}'),
        ('{"songs": [{"title": "a", "seconds": "x"', "}]}"),
        ('{"songs": [{"seconds": 1}', "]}"),
        ('{"songs": [{"title": "a"}, {"title": "a"}, {"title": "a"}]', "}"),
        ('{"songs": {"a": 1}', "}"),
        ('{"songs": "no"', "}"),
        ('{"table": {"x"', ': {"title": "a"}}}'),
        ('{"table": {"1": {"title": 5,', '"seconds": 1}}}'),
        ('{"pets": [{"kind": "cow"}', "]}"),
        ('{"pets": [{"kind": "cat"}', "]}"),
        ('{"pets": [{"kind": "dog", "songs": [{"title": "a", "seconds": []', "}]}]}"),
        ('{"own": 2,', '"number": 1}'),
        ('{"Aliased": [1, "x"', "]}"),
        ('{"unknown": [1]', "}"),
        ('{"inner": {"inner": {"unknown": 1,', '"number": 1}}}'),
    ],
)
def test_what_cannot_validate_stops_the_stream_with_the_error_of_the_whole(text: str, rest: str) -> None:
    errors, read = stopped(Everything, text + rest)
    following = re.match(r',?\s*(?:"\w+"|\})', rest)  # only then it is certain that the key is not repeated
    assert read in (text.rstrip(), text + (following[0] if following else ""))
    with pytest.raises(pydantic.ValidationError) as whole:
        Everything.model_validate_json(text + rest)
    assert errors == whole.value.errors(include_url=False)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ('{"number": "five", "number": 5}', {"number": 5}),
        ('{"number": "five", "number": [], "number": 5, "limited": "a"}', {"number": 5, "limited": "a"}),
        ('{"inner": {"number": "x"}, "inner": {"number": 5}}', {"inner": {"number": 5}}),
        ('{"songs": [{"title": "a", "seconds": "x", "seconds": 5}]}', {"songs": [{"title": "a", "seconds": 5}]}),
        ('{"table": {"1": {"title": 5, "title": "a"}}}', {"table": {1: {"title": "a"}}}),
        ('{"table": {"1": {"title": 5}, "1": {"title": "a"}}}', {"table": {1: {"title": "a"}}}),
        ('{"table": {"1": {"title": 5}}, "table": {}}', {"table": {}}),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_key_that_is_repeated_at_once_has_its_last_value_at_any_cut(text: str, last: object, size: int) -> None:
    growing = PartialValue(plan_for(Everything))
    for at in range(0, len(text), size):
        growing.feed(text[at : at + size])
    assert growing.value.model_dump(exclude_unset=True) == Everything.model_validate(last).model_dump(
        exclude_unset=True
    )


def test_the_error_has_the_title_of_the_root() -> None:
    with pytest.raises(pydantic.ValidationError, match="1 validation error for Everything") as caught:
        fed(Everything, {"songs": [{}]})
    assert caught.value.errors()[0]["loc"] == ("songs", 0, "title")


def test_what_arrived_before_the_error_can_be_seen() -> None:
    growing = PartialValue(plan_for(Everything))
    with pytest.raises(pydantic.ValidationError):
        growing.feed('{"number": 5, "limited": "ab", "own": 2, "inner": null, ')
    assert repr(growing.value) == "Everything(number=5, limited='ab')"


def test_without_fail_fast_what_does_not_validate_stays_hidden() -> None:
    text = (
        '{"number": "x", "songs": [{"title": "a"}, {"seconds": 1}, {"title": "b", "seconds": "x"}], "limited": "abcd"'
    )
    growing = fed(Everything, text, fail_fast=False)
    assert repr(growing.value) == (
        "Everything(limited='abcd', songs=[Song(title='a'), Song(seconds=1), Song(title='b')])"
    )
    assert [is_partial(song) for song in growing.value.songs] == [False, True, True]
    assert growing.closed_items("songs") == []


def test_an_item_that_does_not_validate_is_left_out() -> None:
    growing = fed(list[int], '[1, "x", 3, {}, 5,', fail_fast=False)
    assert growing.value == [1, 3, 5]
    assert growing.field_state("2") == "done"


def test_a_wrapped_root_is_located_inside_the_wrapper() -> None:
    errors, _ = stopped(list[Song], '{"value": [{"title": "a"}, {}]}', wrapped=True)
    assert errors[0]["loc"] == (1, "title")
    errors, _ = stopped(int, '{"value": "x"}', wrapped=True)
    assert errors[0]["loc"] == ()


# What can still be fixed


def _same(value: Any) -> Any:
    return value


class BeforeModel(BaseModel):
    n: int

    @pydantic.model_validator(mode="before")
    @classmethod
    def fix(cls, data: Any) -> Any:
        return data


class BeforeRoot(RootModel[list[int]]):
    @pydantic.model_validator(mode="before")
    @classmethod
    def fix(cls, data: Any) -> Any:
        return data


class WrapModel(BaseModel):
    n: int

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def fix(cls, data: Any, handler: Any) -> Any:
        return handler(data)


class OwnInit(BaseModel):
    n: int

    def __init__(self, **data: Any) -> None:
        super().__init__(**data)


@pytest.mark.parametrize(
    ("type_form", "text"),
    [
        (BeforeModel, '{"n": "x"'),
        (WrapModel, '{"n": "x"'),
        (OwnInit, '{"n": "x"'),
        (BeforeRoot, '["x"'),
        (list[WrapModel], '[{"n": "x"}'),
        (create_model("M", f=(Annotated[int, BeforeValidator(_same)], ...)), '{"f": "x"'),
        (create_model("M", f=(Annotated[list[int], BeforeValidator(_same)], ...)), '{"f": ["x"'),
        (create_model("M", f=(Annotated[list[int], BeforeValidator(_same)], ...)), '{"f": ["x"]'),
        (create_model("M", f=(Annotated[int, pydantic.PlainValidator(int)], ...)), '{"f": "x"'),
        (create_model("M", f=(int, Field(validation_alias=pydantic.AliasChoices("f", "g")))), '{"f": "x"'),
        (create_model("M", f=(list[int], Field(validation_alias=pydantic.AliasChoices("f", "g")))), '{"f": ["x"'),
        (create_model("M", f=(int, Field(validation_alias=pydantic.AliasPath("f", 0)))), '{"f": ["x"]'),
        (create_model("M", g=(int, 0), f=(Annotated[int, AfterValidator(lambda v, info: 1 / v)], 1)), '{"f": 0,'),
    ],
)
def test_a_value_that_a_validator_may_fix_does_not_stop_the_stream(type_form: Any, text: str) -> None:
    fed(type_form, text)


def test_a_closed_model_whose_own_validators_have_failed_stops_the_stream() -> None:
    errors, read = stopped(list[BeforeModel], '[{"n": "x"}, {"n": 1}]')
    assert (errors[0]["loc"], read) == ((0, "n"), '[{"n": "x"}')


def test_strings_where_something_else_is_wanted_are_decoded_once() -> None:
    class Outer(BaseModel):
        everything: Everything
        song: Song | None = None

    document = {
        "everything": {"songs": json.dumps([{"title": "a"}]), "number": "5", "Aliased": ["1"], "inner": "{}"},
        "song": json.dumps({"title": "b"}),
    }
    value = fed(Outer, document).value
    assert repr(value.everything.songs) == "[Song(title='a', seconds=3)]"
    assert (value.everything.inner, value.song) == (Everything(), Song(title="b"))


@pytest.mark.parametrize("error", [TryAgain("no"), AttributeError("x"), KeyError("y"), ZeroDivisionError()])
def test_other_exceptions_of_validators_wait_for_the_end(error: Exception) -> None:
    def refuse(value: Any) -> Any:
        raise error

    class Inner(BaseModel):
        text: Annotated[str, AfterValidator(refuse)]
        number: int = 0
        songs: Annotated[list[Song], AfterValidator(refuse)] = []

    model = create_model(
        "M", inner=(Inner, ...), table=(dict[Annotated[str, AfterValidator(refuse)], int], {}), n=(int, 0)
    )
    text = '{"inner": {"text": "ab", "number": 2, "songs": [{"title": "t"}]}, "table": {"a": 1}, "n": 1}'
    value = fed(model, text).value
    assert repr(value) == "M(inner=Inner(text='ab', number=2, songs=[Song(title='t')]), table={}, n=1)"
    with pytest.raises(type(error)):
        TypeAdapter(model).validate_json(text)


# Validators that ask for the fields before theirs


class Asking(BaseModel):
    first: str
    songs: list[Song] = []
    last: int = Field(0, alias="Last")
    seen: list[str] = []

    @pydantic.field_validator("songs", "last")
    @classmethod
    def look(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        assert info.data["first"] == "a", "first is not a"
        return value[::-1] if info.field_name == "songs" else value + len(info.data["songs"])


def test_validators_see_the_fields_before_theirs() -> None:
    text = '{"a": {"first": "a", "songs": [{"title": "x"}, {"title": "y"}], "Last": 1, "seen": []}, "b": '
    model = create_model("M", a=(Asking, ...), b=(int, 0))
    growing = PartialValue(plan_for(model))
    last: list[Any] = []
    for character in text:
        if growing.feed(character) and growing.value.a is not None:
            last.append(growing.value.a.last)
    assert [song.title for song in growing.value.a.songs] == ["y", "x"]
    assert set(last) == {None, 3}
    assert type(growing.value.a) is Asking


def test_where_those_have_not_arrived_the_model_decides() -> None:
    model = create_model("M", a=(Asking, ...), b=(int, 0))
    early = fed(model, '{"a": {"songs": [{"title": "x"}, {"title": "y"}], "Last": 1, "first": "a"').value.a
    assert (early.last, [song.title for song in early.songs]) == (None, ["x", "y"])
    closed = fed(model, '{"a": {"songs": [{"title": "x"}, {"title": "y"}], "Last": 1, "first": "a"}').value.a
    assert (closed.last, [song.title for song in closed.songs]) == (3, ["y", "x"])


def test_their_errors_name_the_field() -> None:
    errors, _ = stopped(list[Asking], '[{"first": "b", "songs": [{"title": "a"}], "Last": 1}]')
    assert errors[0]["loc"] == (0, "songs")
    assert errors[0]["msg"].startswith("Assertion failed, first is not a")


# How often validators run

calls: Counter[str] = Counter()


# Not recursive: Pydantic itself runs the `after` validators of a recursive model twice, where it is a field.
class Counted(BaseModel):
    text: str
    when: int = 0
    subs: list[Song] = []

    @pydantic.field_validator("text", "when")
    @classmethod
    def field(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        calls[str(info.field_name)] += 1
        return value

    @pydantic.model_validator(mode="after")
    def model(self) -> Counted:
        calls["after"] += 1
        return self

    def model_post_init(self, context: Any) -> None:
        calls["post_init"] += 1


class SeesRawData(BaseModel):
    counted: Counted
    songs: list[Song] = []
    more: Annotated[list[Counted], BeforeValidator(_same)] = []
    again: SeesRawData | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def raw(cls, data: Any) -> Any:
        calls["raw"] += 1
        assert isinstance(data["counted"], dict)
        return data


_COUNTED = {"text": "t", "when": 1, "subs": []}


@pytest.mark.parametrize(
    ("type_form", "document"),
    [
        (Counted, _COUNTED),
        (list[Counted], [_COUNTED]),
        (dict[str, dict[str, list[Counted]]], {"a": {"b": [_COUNTED]}}),
        (SeesRawData, {"counted": _COUNTED}),
        (SeesRawData, {"counted": {"text": "u"}, "more": []}),
        (list[SeesRawData], [{"counted": _COUNTED, "songs": [{"title": "x"}]}]),
        (create_model("M", f=(Annotated[list[Counted], BeforeValidator(_same)], ...)), {"f": [_COUNTED]}),
        (create_model("M", f=(Annotated[list[Counted], AfterValidator(_same)], ...)), {"f": [_COUNTED]}),
        (create_model("M", f=(Annotated[list[list[Counted]], BeforeValidator(_same)], ...)), {"f": [[_COUNTED]]}),
        (create_model("M", f=(Annotated[Counted, AfterValidator(_same)], ...)), {"f": _COUNTED}),
        (create_model("M", f=(tuple[Counted, int], ...)), {"f": [_COUNTED, 1]}),
        (create_model("M", f=(Counted | int, ...)), {"f": _COUNTED}),
    ],
)
def test_a_validator_runs_three_times_at_most(type_form: Any, document: Any) -> None:
    plan = plan_for(type_form)
    calls.clear()
    growing = fed(type_form, document)
    assert calls["post_init"] <= 2
    plan.validator.validate_json(growing.text)
    assert calls
    assert max(calls.values()) <= 3


def test_models_within_what_sees_raw_data_show_when_closed() -> None:
    document = {"counted": _COUNTED, "songs": [{"title": "x"}], "more": [_COUNTED]}
    model = create_model("M", f=(SeesRawData, ...), g=(int, 0))
    growing = PartialValue(plan_for(model))
    seen = [repr(growing.value) for piece in pieces_of({"f": document, "g": 1}, 1) if growing.feed(piece)]
    counted = "counted=Counted(text='t', when=1, subs=[])"
    assert list(dict.fromkeys(seen)) == [
        "M()",
        "M(f=SeesRawData())",
        f"M(f=SeesRawData({counted}))",
        f"M(f=SeesRawData({counted}, songs=[]))",
        f"M(f=SeesRawData({counted}, songs=[Song()]))",
        f"M(f=SeesRawData({counted}, songs=[Song(title='')]))",
        f"M(f=SeesRawData({counted}, songs=[Song(title='x')]))",
        f"M(f=SeesRawData({counted}, songs=[Song(title='x')], more=[Counted(text='t', when=1, subs=[])]))",
        f"M(f=SeesRawData({counted}, songs=[Song(title='x')], more=[Counted(text='t', when=1, subs=[])]), g=1)",
    ]


class Twig(BaseModel):
    name: str
    twigs: list[Twig] = []


class Checked(BaseModel):
    name: Annotated[str, AfterValidator(_same)]
    more: list[Checked] = []


@dataclasses.dataclass
class Spot:
    x: int
    y: int


class RawTwigs(BaseModel):
    twig: Twig
    spot: Spot | None = None
    checked: Checked | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def raw(cls, data: Any) -> Any:
        return data


def test_recursive_models_within_what_sees_raw_data() -> None:
    growing = fed(list[RawTwigs], '[{"twig": {"name": "a", "twigs": [{"name": "b')
    assert repr(growing.value) == "[RawTwigs(twig=Twig(name='a', twigs=[Twig(name='b')]))]"
    growing.feed('"}]}, "spot": {"x": 1, ')
    assert repr(growing.value[0].spot) == "Spot(x=1)"
    growing.feed('"y": 2}, "checked": {"name": "c"')
    assert growing.value[0].checked is None
    growing.feed("}}")
    twig = Twig(name="a", twigs=[Twig(name="b")])
    assert growing.value == [RawTwigs(twig=twig, spot=Spot(1, 2), checked=Checked(name="c"))]


@pytest.mark.pure_only
def test_the_work_for_an_item_does_not_depend_on_the_items_before_it() -> None:
    growing = PartialValue(plan_for(list[Counted]))
    growing.feed("[")
    work: list[Counter[str]] = []
    cut: list[int] = []
    keep = growing._builder.buffer.cut

    def counted_cut(start: int, end: int) -> str:
        cut[-1] += end - start
        return keep(start, end)

    growing._builder.buffer.cut = counted_cut  # type: ignore[method-assign]  # counts the characters looked at again
    for _ in range(50):
        calls.clear()
        cut.append(0)
        for piece in pieces_of('{"text": "t", "when": 1, "subs": [{"title": "s"}]},', 3):
            growing.feed(piece)
        work.append(Counter(calls))
    assert all(one == work[0] for one in work)
    assert set(cut) == {cut[0]}
    assert cut[0] < 60


def test_snapshots_share_what_has_closed() -> None:
    growing = PartialValue(plan_for(Counted))
    growing.feed('{"subs": [{"title": "a"}, {"title": "b"}], "text": "t')
    first = growing.value
    growing.feed("u")
    second = growing.value
    assert first is not second
    assert first.subs is second.subs
    assert growing.value is second
    assert (first.text, second.text) == ("t", "tu")


def test_the_context_reaches_validators() -> None:
    def add(value: int, info: pydantic.ValidationInfo) -> int:
        return value + int(info.context)

    class Inner(BaseModel):
        n: Annotated[int, AfterValidator(add)]
        inner: Inner | None = None

    growing = PartialValue(plan_for(Inner), context=5)
    growing.feed('{"inner": {"n": 1, "inner": {"n": 2}}')
    assert (growing.value.inner.n, growing.value.inner.inner.n) == (6, 7)


def test_syntax_errors_never_stop_a_stream() -> None:
    growing = fed(Everything, '{"number": 1, oops {"songs": [{}]}')
    assert repr(growing.value) == "Everything(number=1)"
