"""Signatures of functions of every kind as arguments of a tool."""

from __future__ import annotations

import functools
import inspect
import json
import math
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal

import pydantic
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import Doc

from toolcast.agents.mcp.mcp_tools import ArgumentValidator
from toolcast.async_support.callbacks import is_async
from toolcast.errors import OutputTypeError
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.function_schema import name_of_function, signature_of
from toolcast.tools.tool_context import ToolContext


class Song(BaseModel):
    title: str


def called(function: Any, text: str) -> Any:
    """What `function` gives for the arguments in `text`."""
    bound, _ = signature_of(function).read(text, None)
    return function(*bound.args, **bound.kwargs)


def properties(function: Any) -> dict[str, Any]:
    made: dict[str, Any] = signature_of(function).parameters["properties"]
    return made


def test_the_schema_is_the_signature() -> None:
    def find(
        words: str,
        limit: Annotated[int, Field(ge=1, description="at most")] = 10,
        *,
        kind: Literal["a", "b"] | None = None,
        song: Song,
        of: Annotated[int, "by text"],
        at: Annotated[int, Doc("by doc")],
        on: int = Field(3, gt=1),
    ) -> None:
        """Find.

        Args:
            words: what to find
            limit: the user's own description wins
            on: from the docstring
        """

    assert signature_of(find).parameters == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "words": {"type": "string", "description": "what to find"},
            "limit": {"type": "integer", "minimum": 1, "description": "at most", "default": 10},
            "kind": {"anyOf": [{"enum": ["a", "b"], "type": "string"}, {"type": "null"}], "default": None},
            "song": {"$ref": "#/$defs/Song"},
            "of": {"type": "integer", "description": "by text"},
            "at": {"type": "integer", "description": "by doc"},
            "on": {
                "type": "integer",
                "exclusiveMinimum": 1,
                "default": 3,
                "description": "from the docstring",
            },
        },
        "required": ["words", "song", "of", "at"],
        "$defs": {"Song": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}},
    }
    assert signature_of(find).doc.description == "Find."


def test_arguments_are_coerced_by_the_annotations() -> None:
    def take(song: Song, count: int, code: str, tags: list[str]) -> Any:
        return song, count, code, tags

    text = '{"song": {"title": "Sea"}, "count": "5", "code": "00123", "tags": "[\\"a\\"]"}'
    assert called(take, text) == (Song(title="Sea"), 5, "00123", ["a"])
    assert signature_of(take).read(text, None)[1] == ("decoded the JSON text in `tags`",)


class Counter:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        self.start = start

    def __call__(self, step: int) -> int:
        return self.start + step

    def method(self, step: int) -> int:
        """Add a step."""
        return self.start + step

    @classmethod
    def made(cls, step: int) -> int:
        return step

    @staticmethod
    def plain(step: int) -> int:
        return step


class AsyncCounter:
    async def __call__(self, step: int) -> int:
        """Count slowly."""
        return step


def add(step: int, more: int = 0) -> int:
    return step + more


async def add_async(step: int) -> int:
    return step


@functools.wraps(add)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return add(*args, **kwargs)


def positional(step: int, more: int = 1, /, last: int = 2) -> int:
    return step + more + last


@pytest.mark.parametrize(
    ("function", "name", "result"),
    [
        (add, "add", 4),
        (wrapped, "add", 4),
        (lambda step: int(step), "lambda", 4),
        (functools.partial(add, more=1), "add", 5),
        (functools.partial(functools.partial(positional, 1)), "positional", None),
        (Counter(1), "Counter", 5),
        (Counter(1).method, "method", 5),
        (Counter.made, "made", 4),
        (Counter.plain, "plain", 4),
        (functools.partial(Counter(1).method), "method", 5),
        (positional, "positional", 7),
    ],
)
def test_every_kind_of_function(function: Any, name: str, result: int | None) -> None:
    assert name_of_function(function) == name
    assert not is_async(function)
    assert "more" not in properties(function) or result != 5
    if result is None:
        assert list(properties(function)) == ["more", "last"]
        assert called(function, '{"more": "4"}') == 7
    else:
        assert called(function, '{"step": 4}') == result


@pytest.mark.parametrize("function", [add_async, AsyncCounter(), functools.partial(add_async), AsyncCounter().__call__])
def test_async_functions(function: Any) -> None:
    assert is_async(function)
    assert list(properties(function)) == ["step"]


def test_a_class_bound_in_part() -> None:
    assert called(functools.partial(Song), '{"title": "Sea"}') == Song(title="Sea")
    assert called(functools.partial(Counter), '{"start": "3"}').start == 3
    assert name_of_function(functools.partial(Song)) == "Song"


@pytest.mark.parametrize(
    ("function", "description"),
    [
        (Counter(), "Counts."),
        (AsyncCounter(), "Count slowly."),
        (Counter().method, "Add a step."),
        (functools.partial(Counter), "Counts."),
        (add, ""),
        (lambda: 0, ""),
    ],
)
def test_descriptions(function: Any, description: str) -> None:
    assert signature_of(function).doc.description == description


def test_what_was_not_passed_is_left_to_the_function() -> None:
    def take(a: int = 1, b: Annotated[int, Field(default=2)] = 3, c: int = Field(4), **rest: int) -> Any:
        return a, b, c, rest

    default = object()

    def same(a: Any = default) -> Any:
        return a

    assert called(take, "{}") == (1, 3, 4, {})
    assert called(same, "{}") is default

    def annotated(a: Annotated[int, Field(default=5)], *rest: int) -> Any:
        return a, rest

    assert called(annotated, "{}") == (5, ())


def test_none_as_a_default_allows_null() -> None:
    def take(a: int = None) -> Any:  # type: ignore[assignment]  # as people write it
        return a

    assert called(take, '{"a": null}') is None


def test_null_for_what_may_be_absent_is_absent() -> None:
    def find(
        query: str,
        limit: Annotated[int, Field(default=10)],
        sort: Literal["up", "down"] = "up",
        near: str | None = "x",
    ) -> Any:
        return query, limit, sort, near

    assert called(find, '{"query": "a", "limit": null, "sort": null, "near": null}') == ("a", 10, "up", None)
    assert called(find, "{'query': 'a', 'limit': None}") == ("a", 10, "up", "x")
    assert called(find, '{"query": "a", "limit": "5", "sort": null}') == ("a", 5, "up", "x")
    _, repairs = signature_of(find).read('{"query": "a", "limit": null, "sort": null}', None)
    assert repairs == ("left out `limit`, which was null", "left out `sort`, which was null")
    with pytest.raises(pydantic.ValidationError, match="query"):
        called(find, '{"query": null, "limit": null}')


DEFAULTS = {"n": 7, "x": 1.5, "name": "x", "on": True, "tags": ["a"], "near": "here"}


@given(
    st.fixed_dictionaries(
        {"query": st.text("ab é{", max_size=3)},
        optional={
            "n": st.none() | st.integers(),
            "x": st.none() | st.integers(-9, 9),
            "name": st.none() | st.text("ab é{", max_size=3),
            "on": st.none() | st.booleans(),
            "tags": st.none() | st.lists(st.text("ab é{", max_size=2), max_size=2),
            "near": st.none() | st.text("ab é{", max_size=2),
        },
    ),
    st.booleans(),
)
def test_null_is_absent_in_functions_and_in_tools_of_servers(given: dict[str, Any], quoted: bool) -> None:
    def find(
        query: str,
        n: int = 7,
        x: float = 1.5,
        name: str = "x",
        on: bool = True,
        tags: list[str] = DEFAULTS["tags"],  # type: ignore[assignment]  # not changed
        near: str | None = "here",
    ) -> Any:
        return {"query": query, "n": n, "x": x, "name": name, "on": on, "tags": tags, "near": near}

    text = repr(given) if quoted else json.dumps(given)
    meant = {name: value for name, value in given.items() if value is not None or name == "near"}
    assert called(find, text) == DEFAULTS | meant
    schema = dict(signature_of(find).parameters)
    call, repairs = ArgumentValidator(schema).read(text, None)
    assert call.kwargs == meant
    assert len([each for each in repairs if "which was null" in each]) == len(given) - len(meant)


def test_a_default_that_json_does_not_have_is_described() -> None:
    def find(most: Annotated[float, Field(description="In euros.", examples=[1.5, math.nan])] = math.inf) -> None: ...

    assert properties(find) == {"most": {"type": "number", "description": "In euros.\nDefault: inf", "examples": [1.5]}}


def test_limits_and_extras_that_json_does_not_have() -> None:
    extra = {"x-range": [0, math.inf], "x-most": math.nan}

    def find(most: Annotated[float, Field(le=math.inf, json_schema_extra=extra)]) -> None: ...

    assert properties(find) == {"most": {"type": "number", "x-range": [0, None]}}


def test_a_default_that_json_does_not_have_within_another_is_described() -> None:
    class Weight(Enum):
        LIGHT = 1.0
        HEAVY = math.inf

    def find(weights: list[float] = [1.0, math.nan], limits: Weight = Weight.LIGHT) -> None: ...  # noqa: B006 - a default of the tool

    schema = CallableTool.from_function(find).parameters
    assert schema["properties"]["weights"]["description"] == "Default: [1.0, nan]"
    assert schema["$defs"]["Weight"]["enum"] == [1.0]
    json.dumps(schema, allow_nan=False)


def test_names_that_pydantic_would_refuse() -> None:
    def take(_private: int, model_dump: int, schema: int, self: int, cls: int, json: int) -> Any:
        return _private, model_dump, schema, self, cls, json

    text = '{"_private": 1, "model_dump": 2, "schema": 3, "self": 4, "cls": 5, "json": 6}'
    assert called(take, text) == (1, 2, 3, 4, 5, 6)


@pytest.mark.fault(147)
def test_arguments_beyond_the_schema_are_refused() -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        called(add, '{"step": 1, "step2": 2}')
    [fault] = caught.value.errors()
    assert (fault["type"], fault["loc"]) == ("extra_forbidden", ("step2",))


def test_types_of_the_enclosing_function_are_known() -> None:
    class Local(BaseModel):
        x: int

    def take(value: Local, later: list[Local]) -> int:
        return value.x + len(later)

    assert called(take, '{"value": {"x": 1}, "later": [{"x": 2}]}') == 2


def test_a_return_annotation_is_ignored() -> None:
    def take(x: int) -> Nowhere:  # type: ignore[name-defined] # noqa: F821
        return x

    assert called(take, '{"x": 1}') == 1


def all_kinds(*args: Any, **kwargs: Any) -> None: ...


class NoSignature:
    __signature__ = "none"

    def __call__(self) -> None: ...


class Odd:
    pass


def takes_odd(x: Odd) -> None: ...


def takes_unknown(x: Nowhere) -> None:  # type: ignore[name-defined] # noqa: F821
    ...


def takes_callable(x: Callable[[int], int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (all_kinds, r"only \*args and \*\*kwargs"),
        (max, "signature cannot be read"),
        (takes_odd, "Unable to generate"),
        (takes_unknown, "name 'Nowhere' is not defined"),
        (takes_callable, "JsonSchema"),
    ],
)
def test_what_no_model_can_be_offered(function: Any, why: str) -> None:
    with pytest.raises(OutputTypeError, match=why):
        signature_of(function)


def test_a_function_without_parameters() -> None:
    assert signature_of(lambda: 0).parameters == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_validation_context_reaches_the_validators() -> None:
    def check(value: int, info: pydantic.ValidationInfo) -> int:
        return value * info.context

    def take(x: Annotated[int, pydantic.AfterValidator(check)]) -> int:
        return x

    bound, _ = signature_of(take).read('{"x": 2}', 21)
    assert bound.kwargs == {"x": 42}


KINDS = st.sampled_from(
    [
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(KINDS, max_size=5), st.data())
def test_arguments_go_round(kinds: list[Any], data: st.DataObject) -> None:
    parameters = [inspect.Parameter(f"p{n}", kind) for n, kind in enumerate(sorted(kinds))]

    def function(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return inspect.Signature(parameters).bind(*args, **kwargs).arguments

    function.__signature__ = inspect.Signature(parameters)
    values = {parameter.name: data.draw(JSON) for parameter in parameters}
    text = signature_of(function).dump(values)
    assert called(function, text) == values


def test_the_arguments_as_a_typed_dict() -> None:
    def take(x: int, /, words: Annotated[str, "a few"], *, context: ToolContext, rest: Any = None) -> None: ...

    signature = signature_of(take)
    found = signature.typed_dict
    assert found.__annotations__ == {"x": int, "words": Annotated[str, "a few"], "rest": Any}
    assert found.__optional_keys__ == {"x", "words", "rest"}
    assert signature.typed_dict is found
    assert TypeAdapter(found).validate_python({"x": "1"}) == {"x": 1}


def test_a_signature_is_made_once_until_the_function_changes() -> None:
    def find(words: str, most: int | None = None, sort: Literal["a", "b"] = "a") -> None:
        """Find."""

    made = signature_of(find)
    assert signature_of(find) is made
    find.__doc__ = "Search."
    assert signature_of(find).doc.description == "Search."
    find.__defaults__ = (3, "b")
    assert properties(find)["most"]["default"] == 3
    find.__annotations__["words"] = "list[str]"
    assert properties(find)["words"]["type"] == "array"
    assert signature_of(find) is signature_of(find) is not made


def test_a_signature_with_types_that_can_change_is_made_anew() -> None:
    def find(song: Song, words: list[str] = []) -> None:  # noqa: B006 a default that can change is the subject
        """Find."""

    assert signature_of(find) is not signature_of(find)


def test_tools_of_one_function_do_not_share_their_schema() -> None:
    def find(words: str) -> None:
        """Find."""

    one, other = CallableTool.from_function(find), CallableTool.from_function(find)
    one.parameters["properties"].clear()
    assert other.parameters["properties"] == properties(find) != {}
