"""Iterables in output types are read to the end and validated as lists; iterators and generators are refused."""

from __future__ import annotations

import dataclasses
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Reversible,
    Sequence,
)
from typing import Annotated, Any, Literal, NamedTuple, NewType

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType, TypedDict

from toolcast import ToolOrchestratingLLM, ValidationError
from toolcast.errors import OutputTypeError
from toolcast.parsing import core_schemas
from toolcast.testing import ScriptedLLM
from toolcast.tools import list_types, output_schema
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.list_types import as_lists, explain_lazy


class P(BaseModel):
    name: str
    age: int


class Team(BaseModel):
    people: Iterable[P]


class Club(BaseModel):
    teams: dict[str, Team] = {}
    spare: Iterable[P] | None = None


@dataclasses.dataclass
class Row:
    people: Iterable[P]


class Record(TypedDict):
    people: Iterable[P]


class Pair(NamedTuple):
    people: Iterable[P]


class Lazy(BaseModel):
    people: Generator[P, None, None]


class Odd(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    people: Iterator[P]


@dataclasses.dataclass
class CollectionRow:
    people: Collection[P]


class AsyncRecord(TypedDict):
    people: AsyncIterable[P]


def gather(people: Iterable[P], teams: Collection[Team] = ()) -> Any:
    return people


def drain(people: Iterator[P]) -> Any:
    return people


def pump(people: Generator[P, None, None]) -> Any:
    return people


People = TypeAliasType("People", Collection[P])
NewPeople = NewType("NewPeople", list[Collection[P]])
Tree = TypeAliasType("Tree", "dict[str, Tree] | Iterable[int]")

ONE = [{"name": "a", "age": 1}]
WRONG = [{"name": "a", "age": "old"}]


@pytest.mark.parametrize(
    ("form", "around", "expected"),
    [
        (Iterable[P], "value", [P(name="a", age=1)]),
        (Collection[P], "value", [P(name="a", age=1)]),
        (Reversible[P], "value", [P(name="a", age=1)]),
        (Sequence[P], "value", [P(name="a", age=1)]),
        (Iterable[P] | None, "value", [P(name="a", age=1)]),
        (Collection[P] | int, "value", [P(name="a", age=1)]),
        (Annotated[Iterable[P], Field(max_length=3)], "value", [P(name="a", age=1)]),
        (People, "value", [P(name="a", age=1)]),
        (Team, "people", Team.model_construct(people=[P(name="a", age=1)])),
        (Row, "people", Row([P(name="a", age=1)])),
        (Record, "people", {"people": [P(name="a", age=1)]}),
        (Team | Record, "people", Team.model_construct(people=[P(name="a", age=1)])),
        (dict[str, Collection[P]], "x", {"x": [P(name="a", age=1)]}),
        (gather, "people", [P(name="a", age=1)]),
    ],
)
def test_iterables_are_read_to_the_end_and_validated_as_lists(form: Any, around: str, expected: Any) -> None:
    whole = ToolOrchestratingLLM(form, "x", ScriptedLLM({around: ONE}))
    assert whole() == expected
    *_, last = ToolOrchestratingLLM(form, "x", ScriptedLLM({around: ONE}, chunk=1)).stream()
    assert last == expected
    again = ToolOrchestratingLLM(form, "x", ScriptedLLM({around: WRONG}, {around: ONE}), max_attempts=2).run()
    assert again.output == expected
    assert len(again.attempts) == 2
    with pytest.raises(ValidationError, match="age"):
        ToolOrchestratingLLM(form, "x", ScriptedLLM({around: WRONG})).stream().final()


def test_iterables_deep_inside_are_lists() -> None:
    answer = {"teams": {"a": {"people": ONE}}, "spare": ONE}
    club = ToolOrchestratingLLM(Club, "x", ScriptedLLM(answer))()
    assert club.spare == [P(name="a", age=1)]
    assert club.teams["a"].people == [P(name="a", age=1)]
    *_, last = ToolOrchestratingLLM(Club, "x", ScriptedLLM(answer, chunk=3)).stream()
    assert last.teams["a"].people == [P(name="a", age=1)]
    assert last.spare == [P(name="a", age=1)]


@pytest.mark.parametrize("form", [Iterable[P], Sequence[P], Collection[P]])
def test_iterables_grow_like_lists(form: Any) -> None:
    items = list(ToolOrchestratingLLM(form, "x", ScriptedLLM({"value": ONE * 2}, chunk=5)).stream())
    assert items[0] == []
    assert [len(item) for item in items] == sorted(len(item) for item in items)
    assert sum(len(item) == 1 for item in items) > 1
    assert [p.name for p in ToolOrchestratingLLM(form, "x", ScriptedLLM({"value": ONE})).stream().items()] == ["a"]


def test_examples_with_iterables_are_written_out() -> None:
    tool = CallableTool.from_type(Team)
    assert tool.arguments_for({"people": ONE}) == '{"people":[{"name":"a","age":1}]}'
    assert tool.arguments_for({"people": WRONG}) is None
    assert CallableTool.from_function(gather).arguments_for({"people": WRONG}) is None


@pytest.mark.parametrize(
    ("form", "use"),
    [
        (Generator[P, None, None], "Generator[P, None, None]; a model writes a whole list, so use list[P]"),
        (Iterator[P], "Iterator[P]; a model writes a whole list, so use list[P]"),
        (AsyncIterable[P], "AsyncIterable[P]; a model writes a whole list, so use list[P]"),
        (AsyncIterator[P | None], "AsyncIterator[P | None]; a model writes a whole list, so use list[P | None]"),
        (AsyncGenerator[P, None], "use list[P]"),
        (Iterator, "Iterator; a model writes a whole list, so use list."),
        (Iterator[Literal["a"]], "use list[typing.Literal['a']]"),
        (Iterator[Annotated[int, Field(gt=1)]], "use list[int]"),
        (Iterator[P] | None, "use list[P]"),
        (Literal["a"] | Iterator[People], "use list[list[P]]"),
        (TypeAliasType("Lazies", list[Iterator[P]]), "use list[P]"),
        (Lazy, "its field 'people' is Generator[P, None, None]; a model writes a whole list, so use list[P]"),
        (list[Lazy], "its field 'people' is"),
        (Odd, "its field 'people' is Iterator[P]"),
        (CollectionRow, "its field 'people' is Collection[P]"),
        (AsyncRecord, "its field 'people' is AsyncIterable[P]"),
        (Lazy | Team, "its field 'people' is"),
        (drain, "in its parameter 'people' it asks for Iterator[P]"),
        (pump, "in its parameter 'people' it asks for Generator[P, None, None]"),
    ],
)
def test_iterators_are_refused_and_the_error_names_the_list(form: Any, use: str) -> None:
    llm = ScriptedLLM()
    with pytest.raises(OutputTypeError) as caught:
        ToolOrchestratingLLM(form, "x", llm)
    assert use in str(caught.value)
    assert llm.requests == []


@pytest.mark.parametrize("form", [P, list[P], tuple[P, ...], Literal["a", "b"], int | None, dict[str, P], type, Tree])
def test_other_types_stay_as_they_are(form: Any) -> None:
    assert as_lists(form) is form


def test_types_inside_of_types_are_replaced() -> None:
    assert as_lists(NewPeople) == list[list[P]]
    assert as_lists(tuple[Collection[int], ...]) == tuple[list[int], ...]
    assert as_lists(Iterable) is list


def test_a_recursive_alias_with_an_iterable_is_read_as_lists() -> None:
    answer = {"value": {"a": {"b": [1, "2"]}}}
    assert ToolOrchestratingLLM(Tree, "x", ScriptedLLM(answer))() == {"a": {"b": [1, 2]}}


def test_a_recursive_alias_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as `type Tree = dict[str, Tree] | Collection[int]`, which Python 3.12 evaluates late."""

    class Alias:
        __value__: Any = None

    alias: Any = Alias()
    monkeypatch.setattr(list_types, "ALIASES", (Alias,))
    alias.__value__ = tuple[Collection[int], dict[str, alias]]
    assert as_lists(alias) == tuple[list[int], dict[str, alias]]
    assert explain_lazy(alias) is None
    alias.__value__ = tuple[dict[str, alias], Iterator[int]]
    assert as_lists(alias) is alias
    assert explain_lazy(alias) == "it asks for Iterator[int]; a model writes a whole list, so use list[int]"


def test_named_tuples_are_looked_into() -> None:
    assert ToolOrchestratingLLM(list[Pair], "x", ScriptedLLM({"value": [[ONE]]}))() == [Pair([P(name="a", age=1)])]


def test_where_pydantic_cannot_skip_the_validators_of_classes_their_iterables_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output_schema, "CAN_SKIP_PREBUILT", False)
    with pytest.raises(
        OutputTypeError, match=r"'people' is Iterable\[P\]; a model writes a whole list, so use list\[P\]"
    ):
        ToolOrchestratingLLM(Team, "x", ScriptedLLM())
    assert ToolOrchestratingLLM(Iterable[P], "x", ScriptedLLM({"value": ONE}))() == [P(name="a", age=1)]


def test_a_changed_schema_is_made_only_where_there_are_generators() -> None:
    plain = P.__pydantic_core_schema__
    assert core_schemas.generators_to_lists(plain) is plain
