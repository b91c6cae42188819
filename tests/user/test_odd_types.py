"""Sessions with output types that are no plain model: each is asked for, streamed, and comes back as itself."""

from __future__ import annotations

import pytest

from user.session import play

OPENING = '''
from __future__ import annotations
import dataclasses, datetime, decimal, enum, functools, uuid
from typing import Annotated, Any, Generic, Literal, TypeVar
from typing_extensions import TypedDict
from pydantic import BaseModel, ConfigDict, Field, RootModel
from toolcast import ToolOrchestratingLLM
from toolcast.testing import ScriptedLLM

def ask(output, answer, **options):
    """The result of a call and the last item of a stream, which must be equal."""
    whole = ToolOrchestratingLLM(output, "x", ScriptedLLM(answer), **options)()
    *_, last = ToolOrchestratingLLM(output, "x", ScriptedLLM(answer, chunk=1), **options).stream()
    assert whole == last, (whole, last)
    assert type(whole) is type(last)
    return whole
'''


@pytest.mark.fault(76)
def test_models_of_every_make() -> None:
    screen = play(
        """
        class Node(BaseModel):
            name: str
            children: list[Node] = []
        print(ask(Node, {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}))

        class Named(BaseModel):
            model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)
            first: str = Field(alias="firstName")
        print(ask(Named, {"firstName": "Ada"}))

        T = TypeVar("T")
        class Page(BaseModel, Generic[T]):
            items: list[T]
        print(ask(Page[int], {"items": [1, 2]}))

        class Color(enum.Enum):
            RED = "red"
            BLUE = "blue"
        class Paint(BaseModel):
            amounts: dict[Color, int]
            main: Color
        print(ask(Paint, {"amounts": {"red": 2}, "main": "blue"}))

        class Nothing(BaseModel):
            pass
        print(repr(ask(Nothing, {})))

        class Money(BaseModel):
            amount: decimal.Decimal
            day: datetime.date
            id: uuid.UUID
        print(ask(Money, {"amount": "12.50", "day": "2026-05-14", "id": "12345678123456781234567812345678"}))
        """,
        opening=OPENING,
    )
    assert screen.went_well() == [
        "name='a' children=[Node(name='b', children=[Node(name='c', children=[])])]",
        "first='Ada'",
        "items=[1, 2]",
        "amounts={<Color.RED: 'red'>: 2} main=<Color.BLUE: 'blue'>",
        "Nothing()",
        "amount=Decimal('12.50') day=datetime.date(2026, 5, 14) id=UUID('12345678-1234-5678-1234-567812345678')",
    ]


def test_types_that_are_no_models() -> None:
    screen = play(
        """
        class Movie(TypedDict):
            title: str
            year: int
        print(ask(Movie, {"title": "Alien", "year": 1979}))

        @dataclasses.dataclass
        class Point:
            x: int
            y: int = 0
        print(ask(Point, {"x": 1}))

        print(ask(list[Point], {"value": [{"x": 1}, {"x": 2, "y": 3}]}))
        print(ask(int, {"value": 42}))
        print(ask(Literal["yes", "no"], {"value": "yes"}))
        print(ask(dict[str, int], {"a": 1}))
        print(ask(Point | None, {"value": None}))
        print(ask(tuple[int, str], {"value": [1, "a"]}))
        print(ask(Annotated[int, Field(gt=3)], {"value": 4}))
        print(repr(ask(RootModel[list[int]], {"value": [1, 2]})))
        """,
        opening=OPENING,
    )
    assert screen.went_well() == [
        "{'title': 'Alien', 'year': 1979}",
        "Point(x=1, y=0)",
        "[Point(x=1, y=0), Point(x=2, y=3)]",
        "42",
        "yes",
        "{'a': 1}",
        "None",
        "(1, 'a')",
        "4",
        "RootModel[list[int]](root=[1, 2])",
    ]


def test_a_union_and_a_discriminated_one() -> None:
    screen = play(
        """
        from toolcast import ToolCallPart
        class Cat(BaseModel):
            kind: Literal["cat"] = "cat"
            lives: int
        class Dog(BaseModel):
            kind: Literal["dog"] = "dog"
            tricks: list[str]
        print(repr(ask(Cat | Dog, ToolCallPart("1", "Dog", '{"tricks": ["sit"]}'))))
        class Home(BaseModel):
            pet: Annotated[Cat | Dog, Field(discriminator="kind")]
        print(ask(Home, {"pet": {"kind": "cat", "lives": 9}}))
        calls = [ToolCallPart("1", "Cat", '{"lives": 7}'), ToolCallPart("2", "Dog", '{"tricks": []}')]
        print(ask(Cat | Dog, calls, allow_parallel_tool_calls=True))
        """,
        opening=OPENING,
    )
    assert screen.went_well() == [
        "Dog(kind='dog', tricks=['sit'])",
        "pet=Cat(kind='cat', lives=9)",
        "[Cat(kind='cat', lives=7), Dog(kind='dog', tricks=[])]",
    ]


def test_functions() -> None:
    screen = play(
        """
        def multiply(a: int, b: int = 2) -> int:
            return a * b
        print(ask(multiply, {"a": 21}))

        class Shop:
            def price(self, item: str, *, amount: int = 1) -> str:
                return f"{amount} {item}"
        print(ask(Shop().price, {"item": "hat", "amount": 2}))
        print(ask(functools.partial(multiply, b=10), {"a": 5}))

        def fails(a: int) -> int:
            raise LookupError("the shop is closed")
        ask(fails, {"a": 1})
        """,
        opening=OPENING,
    )
    assert screen.lines == ["42", "2 hat", "50"]
    assert screen.code == 1
    assert "LookupError: the shop is closed" in screen.err
    assert "fails" in screen.last  # the note that names the tool


def test_try_again_in_a_validator() -> None:
    screen = play(
        """
        from pydantic import field_validator
        from toolcast import TryAgain
        class Even(BaseModel):
            number: int
            @field_validator("number")
            @classmethod
            def is_even(cls, number):
                if number % 2:
                    raise TryAgain(f"{number} is odd")
                return number
        llm = ScriptedLLM({"number": 3}, {"number": 4})
        print(ToolOrchestratingLLM(Even, "x", llm, max_attempts=2)())
        print(llm.requests[1].messages[-1].parts[0].content)
        """,
        opening=OPENING,
    )
    lines = screen.went_well()
    assert lines[0] == "number=4"
    assert "3 is odd" in lines[1]
