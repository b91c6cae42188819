"""`ToolContext` as a parameter of a tool: not in the schema, filled in when the tool runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest
from typing_extensions import TypeAliasType

from toolcast.errors import OutputTypeError, TurnCancelled, ValidationError
from toolcast.tools.callable_tool import CallableTool, as_tool
from toolcast.tools.function_schema import signature_of
from toolcast.tools.tool_context import ToolContext

if TYPE_CHECKING:
    from collections.abc import Sequence

Context = TypeAliasType("Context", ToolContext[str])
GIVEN = ToolContext("c1", "f", "deps")


def plain(x: int, context: ToolContext) -> Any:
    return x, context


def first(context: ToolContext[str], x: int) -> Any:
    return x, context


def annotated(x: int, context: Annotated[ToolContext[str], "what is known"]) -> Any:
    return x, context


def optional(x: int, context: ToolContext[str] | None = None) -> Any:
    return x, context


def old_optional(x: int, context: Optional[ToolContext] = None) -> Any:  # noqa: UP045 the old spelling is meant
    return x, context


def unsaid(x: int, context: ToolContext = None) -> Any:  # type: ignore[assignment]  # as people write it
    return x, context


def aliased(x: int, context: Context) -> Any:
    return x, context


def quoted(x: int, context: "ToolContext[str]") -> Any:  # noqa: UP037 quotes are meant
    return x, context


def positional(context: ToolContext, x: int, /) -> Any:
    return x, context


def between(x: int, context: ToolContext, y: int = 0, /) -> Any:
    return x, context


def keyword(x: int, *, context: ToolContext) -> Any:
    return x, context


@functools.wraps(plain)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return plain(*args, **kwargs)


class Holder:
    def method(self, x: int, context: ToolContext) -> Any:
        return x, context

    @classmethod
    def of_class(cls, x: int, context: ToolContext) -> Any:
        return x, context

    def __call__(self, x: int, context: ToolContext) -> Any:
        return x, context


EVERY = [
    plain,
    first,
    annotated,
    optional,
    old_optional,
    unsaid,
    aliased,
    quoted,
    positional,
    between,
    keyword,
    wrapped,
    Holder().method,
    Holder.of_class,
    Holder(),
    functools.partial(plain),
    functools.partial(Holder().method),
]


@pytest.mark.parametrize("function", EVERY)
async def test_the_context_is_given_and_the_model_sees_nothing_of_it(function: Callable[..., Any]) -> None:
    tool = as_tool(function)
    assert tool.takes_context
    assert set(tool.parameters["properties"]) - {"y"} == {"x"}
    assert "ToolContext" not in str(tool.parameters)
    value = tool.read('{"x": 1}').value
    for _ in range(2):
        assert tool.run(value, GIVEN) == (1, GIVEN)
        assert await tool.arun(value, GIVEN) == (1, GIVEN)
    x, fresh = tool.call('{"x": 1}').raw_output
    assert (x, fresh.tool, fresh.call_id, fresh.deps, fresh.cancelled) == (1, tool.name, "", None, False)
    assert fresh.emit("no listener") is None
    with pytest.raises(ValidationError):
        tool.read('{"x": 1, "context": {}}')


async def test_an_async_function() -> None:
    async def take(context: ToolContext[str]) -> Any:
        return context

    tool = as_tool(take)
    value = tool.read("").value
    assert tool.run(value, GIVEN) is GIVEN
    assert await tool.arun(value, GIVEN) is GIVEN
    assert tool.parameters["properties"] == {}


def test_two_places() -> None:
    def take(context: ToolContext, /, x: int, other: ToolContext) -> Any:
        return context, x, other

    tool = as_tool(take)
    assert tool.run(tool.read('{"x": 1}').value, GIVEN) == (GIVEN, 1, GIVEN)


def test_a_context_that_is_bound_already_is_left_alone() -> None:
    tool = as_tool(functools.partial(plain, context=GIVEN))
    assert not tool.takes_context
    assert tool.run(tool.read('{"x": 1}').value, ToolContext()) == (1, GIVEN)


def test_without_a_context_there_is_none() -> None:
    def take(x: int) -> int:
        return x

    tool = as_tool(take)
    assert not tool.takes_context
    assert tool.run(tool.read('{"x": 1}').value, GIVEN) == 1
    assert as_tool(int).run(5, GIVEN) == 5


def test_the_name_need_not_be_known_where_the_function_is() -> None:
    """Imported for type checkers alone, as linters like it."""
    scope: dict[str, Any] = {}
    exec("from __future__ import annotations\ndef take(x: int, context: ToolContext): return context", scope)
    tool = as_tool(scope["take"])
    assert tool.run(tool.read('{"x": 1}').value, GIVEN) is GIVEN


def misplaced_list(contexts: list[ToolContext]) -> None: ...
def misplaced_union(context: ToolContext | int) -> None: ...
def misplaced_args(*contexts: ToolContext) -> None: ...
def misplaced_kwargs(x: int, **contexts: ToolContext[str]) -> None: ...


@pytest.mark.parametrize("function", [misplaced_list, misplaced_union, misplaced_args, misplaced_kwargs])
def test_where_no_context_can_be_given(function: Callable[..., Any]) -> None:
    with pytest.raises(OutputTypeError, match="can only be a parameter by itself"):
        as_tool(function)


def test_it_is_no_output_type() -> None:
    with pytest.raises(OutputTypeError):
        CallableTool.from_type(ToolContext)


def unknown_name(rows: Sequence[int]) -> None: ...


def test_other_names_must_be_known() -> None:
    with pytest.raises(OutputTypeError, match="Sequence"):
        as_tool(unknown_name)


def test_a_tool_that_works_in_steps() -> None:
    def work(context: ToolContext) -> None:
        context.check()
        context.cancellation.cancel()
        context.check()

    with pytest.raises(TurnCancelled, match="the call of work was cancelled"):
        as_tool(work).call("")


def test_named() -> None:
    def take(a: int, b: str = "b", /, c: float = 1.5, *, d: int, context: ToolContext) -> None: ...

    signature = signature_of(take)
    bound, _ = signature.read('{"a": "1", "d": 2}', None)
    assert signature.arguments_by_name(bound) == {"a": 1, "b": "b", "c": 1.5, "d": 2}
