"""Strict places of a type, in which nothing is repaired."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    Strict,
    TypeAdapter,
)
from typing_extensions import TypedDict

from support.sync_and_async import API
from toolcast import ToolOrchestratingLLM, ValidationError
from toolcast.parsing.core_schemas import Strictness, split_definitions
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import CallableTool


class Lax(BaseModel):
    n: int = 0
    numbers: list[int] = []


class Firm(BaseModel):
    model_config = ConfigDict(strict=True)
    n: int = 0
    numbers: list[int] = []
    lax: Lax = Lax()
    loose: Annotated[int, Strict(False)] = 0


class Mixed(BaseModel):
    exact: Annotated[int, Strict()] = 0
    named: int = Field(0, strict=True, alias="theName")
    placed: int = Field(0, strict=True, validation_alias=AliasChoices("p", AliasPath("q", "r")))
    exact_list: Annotated[list[int], Strict()] = []
    numbers: list[int] = []
    firm: Firm = Firm()


@dataclasses.dataclass
class Row:
    __pydantic_config__ = ConfigDict(strict=True)
    numbers: list[int]


class Record(TypedDict):
    exact: Annotated[int, Strict()]
    numbers: list[int]


class Root(RootModel[list[int]]):
    model_config = ConfigDict(strict=True)


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Strict()]


class Dog(BaseModel):
    kind: Literal["dog"]
    lives: int


class Tree(BaseModel):
    n: Annotated[int, Strict()]
    trees: list[Tree] = []


@pytest.mark.parametrize(
    ("form", "loc", "expected"),
    [
        (Lax, ("n",), False),
        (Lax, (), False),
        (Firm, (), False),  # the root is no field
        (Firm, ("n",), True),
        (Firm, ("numbers", 0), True),
        (Firm, ("lax",), True),
        (Firm, ("lax", "n"), False),
        (Firm, ("loose",), False),
        (Mixed, ("exact",), True),
        (Mixed, ("theName",), True),
        (Mixed, ("p",), True),
        (Mixed, ("exact_list",), True),
        (Mixed, ("exact_list", 0), False),
        (Mixed, ("numbers",), False),
        (Mixed, ("firm",), False),
        (Mixed, ("firm", "numbers"), True),
        (list[Firm], (0, "n"), True),
        (dict[str, Firm], ("a", "n"), True),
        (tuple[int, Annotated[int, Strict()]], (1,), True),
        (Sequence[Annotated[int, Strict()]], (0,), True),
        (Row, ("numbers",), True),
        (Record, ("exact",), True),
        (Record, ("numbers",), False),
        (Root, (), True),
        (Root | None, (0,), True),
        (Cat | Dog, ("Cat", "lives"), True),
        (Annotated[Cat | Dog, Discriminator("kind")], ("cat", "lives"), True),
        (Annotated[int, Strict()] | list[int], ("int",), True),
        (Annotated[int, Strict()] | dict[str, int], ("int",), True),
        (int | list[Annotated[int, Strict()]], ("list[int]", 0), True),
        (int | list[Annotated[int, Strict()]], ("int",), False),
        (Annotated[int, Strict(), AfterValidator(abs)], ("function-after[abs(), int]",), True),
        (Tree, ("trees", 0, "trees", 0, "n"), True),
        (Tree, ("trees", 0, "trees"), False),
    ],
)
def test_the_strict_places_of_a_type(form: Any, loc: tuple[Any, ...], expected: bool) -> None:
    assert Strictness(*split_definitions(TypeAdapter(form).core_schema)).at(loc) is expected


def square(n: Annotated[int, Strict()]) -> int:
    return n * n


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        (Mixed, {"exact": "3"}),
        (Mixed, {"theName": "3"}),
        (Mixed, {"exact_list": "[3]"}),
        (Mixed, {"firm": {"numbers": "[3]"}}),
        (Firm, {"n": "3"}),
        (Firm, {"lax": "{}"}),
        (Annotated[int, Strict()], {"value": "3"}),
        (list[Annotated[bool, Strict()]], {"value": ["true"]}),
        (Record, {"exact": "3", "numbers": []}),
        (square, {"n": "3"}),
    ],
)
def test_strict_fields_are_never_repaired(api: API, form: Any, answer: Any) -> None:
    with pytest.raises(ValidationError):
        api.call(ToolOrchestratingLLM(form, "x", ScriptedLLM(answer)))
    assert isinstance(api.stream(ToolOrchestratingLLM(form, "x", ScriptedLLM(answer))).error, ValidationError)


def test_what_is_not_strict_beside_it_still_is() -> None:
    result = ToolOrchestratingLLM(Mixed, "x", ScriptedLLM({"exact": 3, "numbers": "[1]", "firm": "{}"})).run()
    assert result.output == Mixed(exact=3, numbers=[1], firm=Firm())
    assert len(result.repairs) == 2
    assert ToolOrchestratingLLM(Firm, "x", ScriptedLLM('"{\\"n\\": 3}"'))().n == 3


def test_a_validator_that_asks_for_other_fields_keeps_the_strictness_of_its_field() -> None:
    class Asking(BaseModel):
        first: int
        exact: Annotated[int, Strict(), AfterValidator(lambda value, info: value + info.data["first"])]
        lax: Annotated[list[int], AfterValidator(lambda value, info: [*value, info.data["first"]])]

    wrong = ToolOrchestratingLLM(Asking, "x", ScriptedLLM({"first": 1, "exact": "3", "lax": []}, chunk=1))
    with pytest.raises(ValidationError, match="stopped early"):
        wrong.stream().final()
    right = ToolOrchestratingLLM(Asking, "x", ScriptedLLM({"first": 1, "exact": 3, "lax": "[2]"}, chunk=1))
    assert right.stream().final().lax == [2, 1]


def test_tools_keep_to_it_too() -> None:
    with pytest.raises(ValidationError):
        CallableTool.from_function(square).call({"n": "3"})
