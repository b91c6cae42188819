"""Arrow types of outputs: which type becomes which column, and that values survive a Parquet file."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import (
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    Discriminator,
    Field,
    HttpUrl,
    JsonValue,
    NaiveDatetime,
    PlainSerializer,
    RootModel,
    SecretStr,
    WrapSerializer,
    computed_field,
    field_serializer,
)
from typing_extensions import TypedDict

from toolcast.batch.arrow_schemas import ArrowOutput

T = TypeVar("T")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1


class Mixed(Enum):
    ONE = 1
    A = "a"


class Point(TypedDict, total=False):
    x: int


@dataclass
class Size:
    width: int


class Node(BaseModel):
    children: list[Node] = []


class Serialized(BaseModel):
    unknown: int
    annotated: int = 1
    left_out: int = Field(3, exclude=True)
    renamed: int = Field(3, alias="other")

    @field_serializer("unknown")
    def show_unknown(self, value: int):  # the case: a serializer without a return type
        return str(value)

    @field_serializer("annotated")
    def show_annotated(self, value: int) -> str:
        return f"<{value}>"

    @computed_field
    def twice(self) -> int:
        return self.renamed * 2


class Numbers(RootModel[list[int]]):
    pass


class Empty(BaseModel):
    pass


class Loose(BaseModel, extra="allow"):
    a: int


class Box(BaseModel, Generic[T]):
    content: T


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Discriminator("kind")]


class Foreign:
    def __str__(self) -> str:
        return "foreign"


def make_size(width: int) -> Size:
    """Make a size."""
    return Size(width)


def make_anything(width: int):  # the case: a function without a return type
    """Make something."""
    return Size(width)


def make_unknown(width: int) -> Missing:  # noqa: F821  # the case: an unknown name
    """Make something."""


def unserializable(value: object) -> str:
    raise ValueError("not this one")


US = timezone(timedelta(hours=-5))
NOON = datetime(2024, 5, 1, 12, 0, 0, 250)
TEXT = "12345678-1234-5678-1234-567812345678"

TYPED: list[tuple[Any, Any, pa.DataType, Any]] = [
    (str, "é", pa.string(), "é"),
    (int, 2**63 - 1, pa.int64(), 2**63 - 1),
    (bool, True, pa.bool_(), True),
    (float, 0.5, pa.float64(), 0.5),
    (int | float, 2, pa.float64(), 2.0),
    (int | None, 2, pa.int64(), 2),
    (date, date(2024, 2, 29), pa.date32(), date(2024, 2, 29)),
    (time, time(12, 30, 0, 5), pa.time64("us"), time(12, 30, 0, 5)),
    (timedelta, timedelta(days=-1, microseconds=5), pa.duration("us"), timedelta(days=-1, microseconds=5)),
    (datetime, NOON, pa.timestamp("us", "UTC"), NOON.replace(tzinfo=UTC)),
    (AwareDatetime, NOON.replace(tzinfo=US), pa.timestamp("us", "UTC"), NOON.replace(tzinfo=US)),
    (NaiveDatetime, NOON, pa.timestamp("us"), NOON),
    (Decimal, Decimal("1.50"), pa.decimal128(38, 18), Decimal("1.5")),
    (Annotated[Decimal, Field(max_digits=5, decimal_places=2)], Decimal("1.25"), pa.decimal128(5, 2), Decimal("1.25")),
    (Annotated[Decimal, Field(max_digits=60)], Decimal(3), pa.decimal128(38, 18), Decimal(3)),
    (Annotated[Decimal, Field(decimal_places=0)], Decimal(3), pa.decimal128(38, 0), Decimal(3)),
    (Colour, Colour.RED, pa.string(), "red"),
    (Level, Level.LOW, pa.int64(), 1),
    (Literal["a", "b"], "b", pa.string(), "b"),
    (Literal[True, False], True, pa.bool_(), True),
    (str | Colour, Colour.RED, pa.string(), "red"),
    (UUID, UUID(TEXT), pa.string(), TEXT),
    (HttpUrl, HttpUrl("https://example.com"), pa.string(), "https://example.com/"),
    (IPv4Address, IPv4Address("1.2.3.4"), pa.string(), "1.2.3.4"),
    (Path, Path("a.txt"), pa.string(), "a.txt"),
    (bytes, b"abc", pa.string(), "abc"),
    (Base64Bytes, b"hello", pa.string(), "aGVsbG8="),
    (SecretStr, SecretStr("hunter2"), pa.string(), "**********"),
    (list[date], [date(2024, 1, 1)], pa.list_(pa.date32()), [date(2024, 1, 1)]),
    (list[date] | None, None, pa.list_(pa.date32()), None),
    (set[Colour], {Colour.BLUE}, pa.list_(pa.string()), ["blue"]),
    (deque[int], deque([1]), pa.list_(pa.int64()), [1]),
    (tuple[int, ...], (1, 2), pa.list_(pa.int64()), [1, 2]),
    (Sequence[int], [1], pa.list_(pa.int64()), [1]),
    (Point, {}, pa.struct([("x", pa.int64())]), {"x": None}),
    (Size, Size(2), pa.struct([("width", pa.int64())]), {"width": 2}),
    (list[Size | None], [None, Size(2)], pa.list_(pa.struct([("width", pa.int64())])), [None, {"width": 2}]),
    (Numbers, Numbers([1, 2]), pa.list_(pa.int64()), [1, 2]),
    (Box[int], Box[int](content=2), pa.struct([("content", pa.int64())]), {"content": 2}),
    (make_size, Size(2), pa.struct([("width", pa.int64())]), {"width": 2}),
    (
        Serialized,
        Serialized(unknown=1, other=4),
        pa.struct(
            [("unknown", pa.string()), ("annotated", pa.string()), ("renamed", pa.int64()), ("twice", pa.int64())]
        ),
        {"unknown": '"1"', "annotated": "<1>", "renamed": 4, "twice": 8},
    ),
]  # fmt: skip

AS_JSON: list[tuple[Any, Any, str]] = [
    (Any, {"a": ["é"]}, '{"a": ["é"]}'),
    (JsonValue, [1], "[1]"),
    (dict[str, int], {"a": 1}, '{"a": 1}'),
    (tuple[int, str], (1, "a"), '[1, "a"]'),
    (list, [1, "a"], '[1, "a"]'),
    (int | str, 1, "1"),
    (Mixed, Mixed.A, '"a"'),
    (Cat | Dog, Cat(), '{"kind": "cat", "lives": 9}'),
    (Empty, Empty(), "{}"),
    (Loose, Loose(a=1, b=2), '{"a": 1, "b": 2}'),
    (Annotated[int, PlainSerializer(lambda value: str(value))], 3, '"3"'),
    (Annotated[int, WrapSerializer(lambda value, handler: [value])], 3, "[3]"),
    (make_anything, Size(2), '{"width": 2}'),
    (make_unknown, Size(2), '{"width": 2}'),
    (Foreign, Foreign(), '"foreign"'),
]


@pytest.mark.parametrize(("output_type", "value", "arrow_type", "stored"), TYPED)
def test_a_type_of_its_own(output_type: Any, value: Any, arrow_type: pa.DataType, stored: Any, tmp_path: Path) -> None:
    output = ArrowOutput(output_type)
    assert output.type == arrow_type
    assert not output.column.json_text
    table = pa.table({"output": pa.array([output.encode(value), None], output.type)})
    pq.write_table(table, tmp_path / "outputs.parquet")
    read = pq.read_table(tmp_path / "outputs.parquet")
    assert read.schema.field("output").type == arrow_type
    assert read.to_pylist() == [{"output": stored}, {"output": None}]


@pytest.mark.parametrize(("output_type", "value", "text"), AS_JSON)
def test_json_text(output_type: Any, value: Any, text: str) -> None:
    output = ArrowOutput(output_type)
    assert output.type == pa.string()
    assert output.column.json_text
    assert output.encode(value) == text
    assert output.encode(None) is None


def test_json_text_inside_a_struct() -> None:
    output = ArrowOutput(Owner | None)
    assert output.encode(Owner(pet=Cat())) == {"pet": '{"kind": "cat", "lives": 9}'}
    assert ArrowOutput(Box[int | str | None]).encode(Box[int | str | None](content=None)) == {"content": None}
    assert ArrowOutput(Box[int | float | None]).encode(Box[int | float | None](content=None)) == {"content": None}
    assert ArrowOutput(Box[Size | None]).encode(Box[Size | None](content=None)) == {"content": None}
    optional_date = Box[Box[date] | None]
    assert ArrowOutput(optional_date).encode(optional_date(content=None)) == {"content": None}
    assert ArrowOutput(Box[list[date] | None]).encode(Box[list[date] | None](content=None)) == {"content": None}


def test_a_recursive_type_is_json_text_from_its_second_level() -> None:
    output = ArrowOutput(Node)
    assert output.type == pa.struct([("children", pa.list_(pa.string()))])
    assert output.encode(Node(children=[Node()])) == {"children": ['{"children": []}']}


def test_many_outputs_are_a_list() -> None:
    output = ArrowOutput(Size, many=True)
    assert output.type == pa.list_(pa.struct([("width", pa.int64())]))
    assert output.encode([Size(1), Size(2)]) == [{"width": 1}, {"width": 2}]


@pytest.mark.parametrize(
    ("output_type", "value", "message"),
    [
        (int, 2**70, "does not fit its Arrow type, int64"),
        (Decimal, Decimal("1e30"), "does not fit its Arrow type, decimal128"),
        (time, time(1, tzinfo=UTC), "no times with a zone"),
        (bytes, b"\xff", "utf-8"),
        (make_size, "text", "does not fit its Arrow type, struct"),
        (Annotated[int, PlainSerializer(unserializable)], 3, "not this one"),
    ],
)
def test_a_value_that_does_not_fit(output_type: Any, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ArrowOutput(output_type).encode(value)


class NoSchema(BaseModel):
    """A model without a JSON Schema."""

    call: Any = None

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        from pydantic.errors import PydanticInvalidForJsonSchema

        raise PydanticInvalidForJsonSchema("none")


def test_a_type_without_a_json_schema_is_json_text() -> None:
    assert ArrowOutput(NoSchema).encode(NoSchema(call=1)) == '{"call": 1}'


def test_a_schema_that_a_type_writes_itself() -> None:
    schemas = ({"allOf": [{"type": "integer"}]}, {"const": 1}, {"enum": [1.5]}, {"type": "array"}, {"type": ["null"]})
    found = []
    for schema in schemas:

        def replace(made: dict[str, Any], schema: dict[str, Any] = schema) -> None:
            made.clear()
            made.update(schema)

        found.append(str(ArrowOutput(Annotated[Any, Field(json_schema_extra=replace)]).type))
    assert found == ["int64", "int64", "double", "string", "string"]


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[parquet\]'"):
        ArrowOutput(int)
