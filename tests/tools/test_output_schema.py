"""JSON Schemas of output types: objects, wrapped types and refused types."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    TypeVar,
)

import pydantic
import pydantic.dataclasses
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Discriminator, Field, RootModel, Strict, Tag, computed_field, create_model
from pydantic_core import PydanticCustomError
from typing_extensions import Doc, TypeAliasType, TypedDict

from toolcast.errors import OutputTypeError
from toolcast.parsing.tool_arguments import ONE_OF_SEVERAL
from toolcast.tools.output_schema import (
    description_of,
    enclosing_locals,
    name_of,
    output_schema,
    union_members,
    wrap,
)

T = TypeVar("T")


class Song(BaseModel):
    """A song."""

    title: str = Field(title="The title", alias="name")
    seconds: int = 180


class Album(BaseModel):
    """A music album."""

    title: str
    songs: list[Song]


class Node(BaseModel):
    """A node."""

    value: int
    children: list[Node] = []


class Page(BaseModel, Generic[T]):
    """One page."""

    items: list[T]


@dataclass
class Point:
    x: int


@dataclass
class Box(Generic[T]):
    inside: T


class Movie(TypedDict):
    title: str


class Pair(NamedTuple):
    x: int


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Color(Enum):
    RED = "red"


class Plain:
    pass


class Numbers(RootModel[list[int]]):
    pass


class Table(RootModel[dict[str, int]]):
    pass


UserId = NewType("UserId", int)
Fan = NewType("Fan", Song)
Animal = Annotated[Cat | Dog, Field(discriminator="kind")]
Pet = TypeAliasType("Pet", Cat | Dog)
Json = TypeAliasType("Json", "list[Json] | int")


def refs(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from (value for key, value in node.items() if key == "$ref")
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from refs(item)


def check(schema: dict[str, Any]) -> None:
    """What every service asks of a schema."""
    assert json.loads(json.dumps(schema)) == schema
    assert schema["type"] == "object"
    assert isinstance(schema["properties"], dict)
    assert {"$ref", "anyOf", "oneOf", "title", "discriminator"}.isdisjoint(schema)
    assert {ref.removeprefix("#/$defs/") for ref in refs(schema)} == set(schema.get("$defs", {}))


OBJECTS = [
    Song,
    Album,
    Node,
    Page[int],
    Page[Node],
    Point,
    Box[int],
    Movie,
    Table,
    dict[str, int],
    dict,
    Cat,
    Fan,
]
VALUES = [
    list[Song],
    list[Node],
    int,
    str,
    bool,
    date,
    Any,
    Literal["a", "b"],
    Color,
    Pair,
    Numbers,
    Album | None,
    Node | None,
    int | str,
    Song | int,
    tuple[int, str],
    UserId,
    Animal,
    Pet,
    Json,
    Annotated[int, Field(gt=1)],
]


@pytest.mark.parametrize("type_form", OBJECTS, ids=lambda value: repr(value).partition(" at 0x")[0])
def test_json_objects_are_the_arguments_themselves(type_form: Any) -> None:
    assert not output_schema(type_form).wrapped
    check(output_schema(type_form).parameters)


@pytest.mark.parametrize("type_form", VALUES, ids=lambda value: repr(value).partition(" at 0x")[0])
def test_everything_else_is_wrapped(type_form: Any) -> None:
    assert output_schema(type_form).wrapped
    schema = output_schema(type_form).parameters
    check(schema)
    assert list(schema["properties"]) == schema["required"] == ["value"]


SCALARS = st.sampled_from([int, str, date, Color, Song, Node, Literal["a"], Any, Pair, Movie, Point])
TYPES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(lambda t: list[t]),
        inner.map(lambda t: dict[str, t]),
        inner.map(lambda t: t | None),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(["title", "a", "properties", "anyOf", "items", "default"])


@given(st.dictionaries(NAMES, st.tuples(TYPES, st.booleans()), max_size=4), TYPES)
def test_any_type_gives_a_schema_that_services_take(fields: dict[str, Any], type_form: Any) -> None:
    definitions: Any = {
        name: (inner if required else inner | None, ... if required else None)
        for name, (inner, required) in fields.items()
    }
    model = create_model("Made", **definitions)
    schema = output_schema(model).parameters
    check(schema)
    assert set(schema["properties"]) == set(fields)
    check(output_schema(type_form).parameters)
    check(output_schema(list[model]).parameters)


def test_schema_of_a_model() -> None:
    assert output_schema(Album).parameters == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "songs": {"type": "array", "items": {"$ref": "#/$defs/Song"}},
        },
        "required": ["title", "songs"],
        "$defs": {
            "Song": {
                "type": "object",
                "description": "A song.",
                "properties": {
                    "name": {"type": "string", "title": "The title"},
                    "seconds": {"type": "integer", "default": 180},
                },
                "required": ["name"],
            }
        },
    }


def test_a_recursive_root_is_put_in_place_of_its_reference() -> None:
    children = {"type": "array", "items": {"$ref": "#/$defs/Node"}, "default": []}
    node = {"type": "object", "properties": {"value": {"type": "integer"}, "children": children}}
    node |= {"required": ["value"]}
    assert output_schema(Node).parameters == node | {"$defs": {"Node": node | {"description": "A node."}}}


def test_unions_are_any_of_and_need_no_openapi() -> None:
    kinds = {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}
    assert output_schema(Animal).parameters["properties"] == {"value": kinds}


def test_wrap() -> None:
    assert wrap({"type": "array", "$defs": {"A": {}}}) == {
        "type": "object",
        "properties": {"value": {"type": "array"}},
        "required": ["value"],
        "$defs": {"A": {}},
    }


def test_a_default_that_is_no_json_costs_no_warning() -> None:
    class Odd(BaseModel):
        color: Any = object()

    assert output_schema(Odd).parameters["properties"] == {"color": {}}


def test_models_that_were_completed_later_in_the_same_function() -> None:
    class Head(BaseModel):
        tail: Tail

    class Tail(BaseModel):
        length: int

    @pydantic.dataclasses.dataclass
    class Body:
        legs: Legs

    class Legs(BaseModel):
        count: int

    assert set(output_schema(Head).parameters["$defs"]) == {"Tail"}
    assert set(output_schema(Body).parameters["$defs"]) == {"Legs"}


@pytest.mark.parametrize(
    ("type_form", "why"),
    [
        (None, "no value that a model could write"),
        (type(None), "no value that a model could write"),
        ("x", "the name of a type"),
        ("Album", "the name of a type"),
        (ForwardRef("Album"), "the name of a type"),
        (42, "an instance of int"),
        ([], "an instance of list"),
        (Cat(kind="cat"), "an instance of Cat"),
        (Point(1), "an instance of Point"),
        (Plain, "Unable to generate"),
        (list[Plain], "Unable to generate"),
        (list["Nowhere"], "Nowhere"),  # type: ignore[name-defined] # noqa: F821
        (Callable[[int], int], "JsonSchema"),
        (Annotated[int | str, Strict()], "Unable to apply"),
    ],
    ids=lambda value: repr(value).partition(" at 0x")[0],
)
def test_what_is_no_output_type(type_form: Any, why: str) -> None:
    with pytest.raises(OutputTypeError, match=f"{why}.*An output type is a Pydantic model") as caught:
        output_schema(type_form)
    assert "errors.pydantic.dev" not in str(caught.value)


def test_a_model_that_cannot_be_completed() -> None:
    class Open(BaseModel):
        x: Missing  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(OutputTypeError, match=r"Missing|fully defined"):
        output_schema(Open)


# Unions


@pytest.mark.parametrize(
    ("type_form", "members"),
    [
        (Cat | Dog, (Cat, Dog)),
        (Cat | Point | Movie, (Cat, Point, Movie)),
        (Animal, (Cat, Dog)),
        (Pet, (Cat, Dog)),
        (Pet | Point, (Cat, Dog, Point)),
        (Page[int] | Box[int], (Page[int], Box[int])),
        (Fan | Cat, (Fan, Cat)),
        (Annotated[Cat | Dog, "pets", Doc("pets")], (Cat, Dog)),
        (
            Annotated[
                Annotated[Cat, Tag("c")] | Annotated[Dog, Tag("d")],
                Discriminator(lambda v: "c" if v else "d"),
            ],
            (Annotated[Cat, Tag("c")], Annotated[Dog, Tag("d")]),
        ),
        (Annotated[Cat | Dog, pydantic.AfterValidator(lambda pet: pet)], None),
        (Cat | None, None),
        (Cat | Dog | None, None),
        (Cat | int, None),
        (Cat | list[Dog], None),
        (Cat, None),
        (list[Cat], None),
        (int, None),
        (Annotated[Cat, "one"], None),
        (Literal["a"], None),
    ],
    ids=lambda value: repr(value).partition(" at 0x")[0],
)
def test_union_members(type_form: Any, members: Any) -> None:
    assert union_members(type_form) == members


# Names and descriptions


@pytest.mark.parametrize(
    ("type_form", "name"),
    [
        (Album, "Album"),
        (list[Song], "list_Song"),
        (dict[str, list[int]], "dict_str_list_int"),
        (int | None, "int_or_None"),
        (Literal["a"], "Literal"),
        (Annotated[int, 1], "int"),
        (UserId, "UserId"),
        (Pet, "Pet"),
        (Movie, "Movie"),
    ],
    ids=lambda value: repr(value).partition(" at 0x")[0],
)
def test_name_of(type_form: Any, name: str) -> None:
    assert name_of(type_form) == name


def test_names_that_services_refuse_are_made_legal() -> None:
    assert name_of(Page[int]).startswith("Page_int_")
    assert name_of(type("Größe", (BaseModel,), {})).isascii()
    assert name_of(Page[int]) != name_of(Page[str])


@pytest.mark.parametrize(
    ("type_form", "description"),
    [
        (Album, "A music album."),
        (Page[int], "One page."),
        (Fan, "A song."),
        (Annotated[Album, 1], "A music album."),
        (Cat, None),
        (Point, None),
        (Movie, None),
        (Pair, None),
        (int, None),
        (list[Song], None),
        (Literal["a"], None),
    ],
    ids=lambda value: repr(value).partition(" at 0x")[0],
)
def test_description_of(type_form: Any, description: str | None) -> None:
    assert description_of(type_form) == description


def test_enclosing_locals() -> None:
    here = 5

    def inside() -> dict[str, Any]:
        return enclosing_locals(inside.__qualname__)

    assert inside()["here"] == here
    assert enclosing_locals("Album") == {}
    assert enclosing_locals("nowhere.<locals>.f") == {}


# Reading


def test_read_and_dump_an_object() -> None:
    shape = output_schema(Song)
    value, repairs = shape.read('{"name": "Sea"}', None)
    assert (value, repairs) == (Song(name="Sea"), ())
    assert json.loads(shape.dump(value)) == {"name": "Sea", "seconds": 180}
    with pytest.raises(pydantic.ValidationError):
        shape.dump(Cat(kind="cat"))


def test_read_and_dump_a_wrapped_value() -> None:
    shape = output_schema(list[Song])
    value, repairs = shape.read('{"value": [{"name": "Sea", "seconds": "5"}]}', None)
    assert (value, repairs) == ([Song(name="Sea", seconds=5)], ())
    assert shape.read(shape.dump(value), None) == (value, ())


@pytest.mark.parametrize("text", ['[{"name": "Sea"}]', '"[{\\"name\\": \\"Sea\\"}]"'])
def test_a_value_without_its_wrapper_is_taken_and_noted(text: str) -> None:
    value, repairs = output_schema(list[Song]).read(text, None)
    assert value == [Song(name="Sea")]
    assert repairs[0] == "took the whole arguments as the value"


def test_of_several_objects_the_one_that_fits_is_taken() -> None:
    value, repairs = output_schema(list[Song]).read('For {"n": 1}: {"value": [{"name": "Sea"}]}', None)
    assert value == [Song(name="Sea")]
    assert ONE_OF_SEVERAL in repairs


@pytest.mark.parametrize(
    ("text", "loc", "kind"),
    [
        ('{"value": [{"name": "Sea"}, {}]}', (1, "name"), "missing"),
        ('{"value": 5}', (), "list_type"),
        ("{}", (), "missing"),
        ("5", (), "model_type"),
    ],
)
def test_paths_start_inside_the_wrapper(text: str, loc: tuple[Any, ...], kind: str) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        output_schema(list[Song]).read(text, None)
    [fault] = caught.value.errors()
    assert (fault["loc"], fault["type"]) == (loc, kind)


def test_what_validators_say_survives_the_wrapper() -> None:
    def refuse(value: int) -> int:
        if value:
            raise ValueError("too {much}")
        raise PydanticCustomError("mine", "not {this}", {"this": "zero"})

    shape = output_schema(list[Annotated[int, pydantic.AfterValidator(refuse)]])
    with pytest.raises(pydantic.ValidationError) as caught:
        shape.read('{"value": [1, 0]}', None)
    assert [(fault["loc"], fault["type"], fault["msg"]) for fault in caught.value.errors()] == [
        ((0,), "value_error", "Value error, too {much}"),
        ((1,), "mine", "not zero"),
    ]


def test_computed_fields_are_not_dumped() -> None:
    class Square(BaseModel):
        side: int

        @computed_field
        def area(self) -> int:
            return self.side**2

    assert output_schema(list[Square]).dump([Square(side=2)]) == '{"value":[{"side":2}]}'
