"""Type plans: their contents, and that each is created once."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, NewType, TypeVar

import pydantic
import pytest
from pydantic import BaseModel, Field, RootModel
from typing_extensions import TypedDict

from support.growth import fed
from toolcast.parsing import core_schemas
from toolcast.parsing.partial_value import Done, NotNull, PartialValue, plan_for
from toolcast.parsing.type_plan import DictPlan, ListPlan, ObjectPlan, TaggedPlan

T = TypeVar("T")


class Song(BaseModel):
    title: Annotated[str, NotNull]
    note: Annotated[str, Done] = ""
    seconds: int = 0


class Tree(BaseModel):
    twigs: list[Tree] = []
    song: Song | None = None


def test_a_plan_is_made_once() -> None:
    assert plan_for(Song) is plan_for(Song)
    assert plan_for(list[Song]) is plan_for(list[Song])
    assert plan_for(int | str) is not plan_for(str | int)


def test_a_recursive_type_has_one_shape_each() -> None:
    shape = plan_for(Tree).container_plan
    assert isinstance(shape, ObjectPlan)
    twigs = shape.plans["twigs"].container_plan
    assert isinstance(twigs, ListPlan)
    again = twigs.item.container_plan
    assert isinstance(again, ObjectPlan)
    deeper = again.plans["twigs"].container_plan
    assert isinstance(deeper, ListPlan)
    assert deeper.item.container_plan is again


def test_markers() -> None:
    shape = plan_for(Song).container_plan
    assert isinstance(shape, ObjectPlan)
    assert shape.not_null == ("title",)
    assert {name: node.grows for name, node in shape.plans.items()} == {"title": True, "note": False, "seconds": False}


def _quiet(value: Any) -> Any:
    return value


Name = NewType("Name", str)
_after = pydantic.AfterValidator(_quiet)


@pytest.mark.parametrize(
    ("type_form", "grows"),
    [
        (str, True),
        (str | None, True),
        (Annotated[str, Field(min_length=1, max_length=5)], True),
        (Annotated[str, _after], True),
        (Annotated[str, pydantic.BeforeValidator(_quiet)], True),
        (Annotated[str | None, pydantic.WrapValidator(lambda value, handler: handler(value))], True),
        (Annotated[str, pydantic.PlainValidator(_quiet)], True),
        (Annotated[Name, _after], True),
        (Name, True),
        (Annotated[str, Field(pattern="a")], False),
        (Annotated[str, Done], False),
        (pydantic.SecretStr, False),
        (Annotated[int, pydantic.PlainValidator(_quiet)], False),
        (Literal["a"], False),
        (str | int, False),
        (str | int | None, False),
        (bytes, False),
        (int, False),
        (RootModel[str], True),
        (RootModel[Annotated[str, Done]], False),
    ],
)
def test_which_strings_grow(type_form: Any, grows: bool) -> None:
    assert plan_for(type_form).grows is grows


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Box(TypedDict, Generic[T]):
    item: T


@pytest.mark.parametrize(
    ("type_form", "shape"),
    [
        (Song, ObjectPlan),
        (Song | None, ObjectPlan),
        (Box[int], ObjectPlan),
        (list[int], ListPlan),
        (list, ListPlan),
        (RootModel[list[int]], ListPlan),
        (dict[str, int], DictPlan),
        (Annotated[Cat | Dog, Field(discriminator="kind")], TaggedPlan),
        (Annotated[Song, pydantic.AfterValidator(_quiet)], ObjectPlan),
        (Annotated[Song, pydantic.BeforeValidator(_quiet)], ObjectPlan),
        (Annotated[Song, pydantic.PlainValidator(_quiet)], type(None)),
        (Annotated[Song, Done], type(None)),
        (tuple[int, ...], type(None)),
        (set[int], type(None)),
        (Cat | Dog, type(None)),
        (Any, type(None)),
        (str, type(None)),
    ],
)
def test_what_is_taken_apart(type_form: Any, shape: type) -> None:
    assert type(plan_for(type_form).container_plan) is shape


def test_a_bad_type_raises_what_pydantic_raises() -> None:
    class Strange:
        pass

    with pytest.raises(pydantic.errors.PydanticSchemaGenerationError):
        plan_for(Strange)


def test_annotations_that_cannot_be_resolved_are_done_without() -> None:
    class Movie(TypedDict):
        title: Annotated[str, _after]

    Movie.__annotations__["title"] = "Nowhere"
    assert core_schemas.field_hints(Movie) == {}


def test_closed_models_also_close_where_prebuilt_validators_cannot_be_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = core_schemas.SchemaValidator

    def older(schema: Any, config: Any = None) -> Any:
        return real(schema, config)

    monkeypatch.setattr(core_schemas, "SchemaValidator", older)
    monkeypatch.setattr(core_schemas, "CAN_SKIP_PREBUILT", False)

    class Inner(BaseModel):
        songs: list[Song]

    value = fed(list[Inner], '[{"songs": [{"title": "a"}]}, ').value
    assert value == [Inner(songs=[Song(title="a")])]
    assert type(value[0]) is Inner


def test_objects_of_a_form_that_is_not_known_are_shown_when_closed() -> None:
    class Wrapped(BaseModel):
        n: int

        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: pydantic.GetCoreSchemaHandler) -> Any:
            schema = dict(handler(source))
            inner = schema["schema"]
            return {**schema, "schema": {"type": "lax-or-strict", "lax_schema": inner, "strict_schema": inner}}

    growing = PartialValue(plan_for(list[Wrapped]))
    growing.feed('[{"n": 1')
    assert growing.value == []
    growing.feed("}")
    assert growing.value == [Wrapped(n=1)]
