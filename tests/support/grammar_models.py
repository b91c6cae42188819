"""Types as users write them, each under a name: what the grammar has to hold a model to."""

from __future__ import annotations

import datetime as dt
import ipaddress
import uuid
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, NamedTuple, Optional

import annotated_types as at
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, HttpUrl, RootModel
from typing_extensions import TypedDict


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Song(BaseModel):
    title: str
    seconds: int


class Album(BaseModel):
    """A music album."""

    title: str
    artist: str
    songs: list[Song]


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Linked(BaseModel):
    value: int
    next: Linked | None = None


class Left(BaseModel):
    name: str
    right: Optional[Right] = None  # noqa: UP045 - `Right | None` cannot be evaluated before Right exists


class Right(BaseModel):
    lefts: list[Left] = []


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str]


class Zoo(BaseModel):
    animal: Annotated[Cat | Dog, Field(discriminator="kind")]


class Point(NamedTuple):
    x: float
    y: float


class Box(TypedDict, total=False):
    width: int
    note: str


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str


class Aliased(BaseModel):
    given: str = Field(alias="givenName", title="Given name", description="as on the passport", examples=["Ann"])


class Names(RootModel[list[str]]):
    pass


class Expression(BaseModel):
    left: Expression | int
    right: Expression | int


FIELDS: dict[str, Any] = {
    "string": str,
    "short string": Annotated[str, Field(max_length=5)],
    "long string": Annotated[str, Field(min_length=3, max_length=12)],
    "pattern": Annotated[str, Field(pattern=r"^[A-Z]{3}-[0-9]{2}$")],
    "open pattern": Annotated[str, Field(pattern=r"^[a-z]+$")],
    "unanchored pattern": Annotated[str, Field(pattern=r"[0-9]{2}")],
    "integer": int,
    "positive": Annotated[int, Field(gt=0)],
    "percent": Annotated[int, Field(ge=0, le=100)],
    "even": Annotated[int, Field(multiple_of=2, ge=0, le=50)],
    "huge": Annotated[int, Field(ge=5_000_000_000)],
    "deep": Annotated[int, Field(le=-5_000_000_000)],
    "number": float,
    "probability": Annotated[float, Field(ge=0, le=1)],
    "positive number": Annotated[float, Field(gt=0)],
    "narrow number": Annotated[float, Field(gt=0.0001, lt=0.0002)],
    "quarter": Annotated[float, Field(multiple_of=0.25)],
    "boolean": bool,
    "null": None,
    "decimal": Decimal,
    "optional decimal": Decimal | None,
    "price": Annotated[Decimal, Field(max_digits=6, decimal_places=2, ge=0)],
    "literal": Literal["a", "b"],
    "one literal": Literal["only"],
    "mixed literal": Literal["a", 1, True],
    "enum": Colour,
    "int enum": Level,
    "optional": str | None,
    "number or text": int | str,
    "date": dt.date,
    "datetime": dt.datetime,
    "time": dt.time,
    "duration": dt.timedelta,
    "uuid": uuid.UUID,
    "ipv4": ipaddress.IPv4Address,
    "url": HttpUrl,
    "any url": AnyUrl,
    "list": list[str],
    "two or more": Annotated[list[int], Field(min_length=2, max_length=3)],
    "many": Annotated[list[bool], at.MinLen(21)],
    "set": set[int],
    "pair": tuple[int, str],
    "tuple": tuple[int, ...],
    "any list": list,
    "anything": Any,
    "object": dict,
    "counts": dict[str, int],
    "one entry": Annotated[dict[str, int], at.Len(1, 2)],
    "by literal": dict[Literal["x", "y"], int],
    "by number": dict[int, str],
    "nested dict": dict[str, dict[str, list[int]]],
    "bytes": bytes,
    "song": Song,
    "album": Album,
    "albums": list[Album],
    "optional model": Song | None,
    "song or album": Song | Album,
    "tree": Node,
    "linked list": Linked,
    "mutual": Left,
    "zoo": Zoo,
    "named tuple": Point,
    "typed dict": Box,
    "open model": Open,
    "closed model": Closed,
    "aliased": Aliased,
    "root model": Names,
    "expression": Expression,
}
