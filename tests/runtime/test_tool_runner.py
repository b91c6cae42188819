"""Running the tool calls of one response: once each, in order, failures raised or told to the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import anyio
import pydantic
import pytest
from pydantic import BaseModel

from toolcast.errors import CallError, OutputTruncated, TryAgain, UnknownToolError, ValidationError
from toolcast.messages import ToolCallPart
from toolcast.runtime import without_loop
from toolcast.runtime.tool_runner import run_tools
from toolcast.tools import ToolOutput, as_tools


class Album(BaseModel):
    title: str


class Boom(Exception):
    pass


class Stop(BaseException):
    pass


GOOD = [Album(title="Sea"), Album(title="Sky")]


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`run_tools` through either face."""

    async def run_it(tools: list[Any], calls: list[ToolCallPart], **options: Any) -> list[ToolOutput]:
        if request.param == "sync":
            return without_loop.run(run_tools(as_tools(tools), calls, parallel=False, **options))
        return await run_tools(as_tools(tools), calls, parallel=True, **options)

    return run_it


def call(name: str, id: str = "c1", /, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(id, name, json.dumps(arguments))


def double(x: int) -> int:
    return 2 * x


async def slow(x: int) -> int:
    for _ in range(x):
        await anyio.lowlevel.checkpoint()
    return x


def boom(x: int = 0) -> None:
    raise Boom(f"no {x}")


async def boom_async() -> None:
    raise Boom("async")


@pytest.mark.parametrize("raise_errors", [True, False])
async def test_results_come_in_call_order(run: Callable[..., Any], raise_errors: bool) -> None:
    calls = [
        call("slow", "a", x=9),
        call("Album", "b", title="Sea"),
        call("double", "c", x="4"),
        call("slow", "d", x=1),
        call("double", "e", x=4),
    ]
    outputs = await run([slow, double, Album], calls, raise_errors=raise_errors)
    assert [(output.call_id, output.tool_name, output.raw_output) for output in outputs] == [
        ("a", "slow", 9),
        ("b", "Album", Album(title="Sea")),
        ("c", "double", 8),
        ("d", "slow", 1),
        ("e", "double", 8),
    ]
    assert outputs[1].part().content == '{"title":"Sea"}'
    assert not any(output.is_error or output.error for output in outputs)


async def test_what_a_tool_raises_is_told_safely_and_kept_whole(run: Callable[..., Any]) -> None:
    words = "GET https://a.example/?key=AIzaSyD-abc1234567: Bearer sk-ant-abcd1234, see /home/me/work/log.txt"

    def fails() -> None:
        raise RuntimeError(words)

    [output] = await run([fails], [call("fails")], raise_errors=False)
    assert output.content == "RuntimeError: GET https://a.example/?key=[key] Bearer [key], see log.txt"
    assert str(output.error) == words


async def test_no_calls(run: Callable[..., Any]) -> None:
    assert await run([double], [], raise_errors=True) == []


async def test_calls_run_together_where_there_is_a_loop() -> None:
    """Each waits for the other: one after the other they would never end."""
    first, second = anyio.Event(), anyio.Event()

    async def one() -> str:
        first.set()
        await second.wait()
        return "one"

    async def two() -> str:
        await first.wait()
        second.set()
        return "two"

    with anyio.fail_after(10):
        outputs = await run_tools(
            as_tools([one, two]), [call("one"), call("two", "c2")], raise_errors=True, parallel=True
        )
    assert [output.content for output in outputs] == ["one", "two"]


async def test_failures_become_results_a_model_can_read(run: Callable[..., Any]) -> None:
    ran: list[int] = []

    def count(x: int) -> int:
        ran.append(x)
        return x

    def again() -> None:
        raise TryAgain("do better")

    calls = [
        call("count", "a", x=1),
        call("nowhere", "b"),
        call("count", "c", x="much"),
        ToolCallPart("d", "count", '{"x": 5}', truncated=True),
        call("boom", "e", x=7),
        call("again", "f"),
        call("count", "g", x=2),
    ]
    outputs = await run([count, boom, again], calls, raise_errors=False)
    assert sorted(ran) == [1, 2]
    assert [output.call_id for output in outputs] == list("abcdefg")
    assert [type(output.error) for output in outputs] == [
        type(None),
        UnknownToolError,
        ValidationError,
        OutputTruncated,
        Boom,
        TryAgain,
        type(None),
    ]
    assert [output.is_error for output in outputs] == [False, True, True, True, True, True, False]
    assert [output.content for output in outputs if not isinstance(output.error, ValidationError)] == [
        "1",
        "the model called a tool 'nowhere'; it was offered: count, boom, again",
        "count was not run: its arguments were cut off after 8 characters",
        "Boom: no 7",
        "do better",
        "2",
    ]
    assert "x: Input should be a valid integer" in outputs[2].content
    assert "max_attempts" not in outputs[2].content
    assert outputs[4].error.__notes__ == ["raised by the tool 'boom'"]
    assert outputs[4].raw_input == '{"x": 7}'


@pytest.mark.fault(87)
async def test_an_unknown_tool_where_none_was_offered(run: Callable[..., Any]) -> None:
    with pytest.raises(UnknownToolError, match="'f'; it was offered: none"):
        await run([], [call("f")], raise_errors=True)


@pytest.mark.fault(94)
@pytest.mark.parametrize(
    ("bad", "error", "partial"),
    [
        (call("nowhere"), UnknownToolError, GOOD),
        (call("Album"), ValidationError, GOOD),
        (ToolCallPart("c", "Album", '{"ti', truncated=True), OutputTruncated, '{"ti'),
    ],
)
async def test_no_tool_runs_unless_all_arguments_are_valid(
    bad: ToolCallPart, error: type[CallError], partial: object, run: Callable[..., Any]
) -> None:
    ran: list[int] = []
    calls = [call("lambda", "a"), call("Album", "b", title="Sea"), bad, call("Album", "c", title="Sky")]
    with pytest.raises(error) as caught:
        await run([Album, lambda: ran.append(1)], calls, raise_errors=True)
    assert ran == []
    assert caught.value.partial == partial


async def test_a_raising_tool_raises_its_own_exception(run: Callable[..., Any]) -> None:
    with pytest.raises(Boom, match="no 0") as caught:
        await run([boom, double], [call("double", x=1), call("boom", "c2")], raise_errors=True)
    assert caught.value.__notes__ == ["raised by the tool 'boom'"]
    assert caught.value.__cause__ is None
    with pytest.raises(Boom, match="async"):
        await run([boom_async], [call("boom_async")], raise_errors=True)


async def test_of_several_exceptions_one_comes_out(run: Callable[..., Any]) -> None:
    with pytest.raises(Boom):
        await run([boom, boom_async], [call("boom", x=1), call("boom_async", "c2")], raise_errors=True)


@pytest.mark.fault(126)
@pytest.mark.parametrize("raise_errors", [True, False])
async def test_what_is_no_exception_passes(run: Callable[..., Any], raise_errors: bool) -> None:
    async def quit() -> None:
        raise Stop

    calls = [call("quit"), call("double", "c2", x=1)]
    with pytest.raises(Stop):
        await run([quit, double], calls, raise_errors=raise_errors)


@pytest.mark.fault(111)
async def test_an_exception_group_of_a_tool_stays_one() -> None:
    async def several() -> None:
        raise ExceptionGroup("mine", [Boom("a"), Boom("b")])

    calls = [call("several"), call("double", "c2", x=1)]
    with pytest.raises(ExceptionGroup, match="mine"):
        await run_tools(as_tools([several, double]), calls, raise_errors=True, parallel=True)


@pytest.mark.parametrize("raise_errors", [True, False])
async def test_a_validator_may_raise_anything(run: Callable[..., Any], raise_errors: bool) -> None:
    def check(value: int, info: pydantic.ValidationInfo) -> int:
        raise KeyError(info.context)

    def take(x: Annotated[int, pydantic.AfterValidator(check)]) -> None: ...

    if raise_errors:
        with pytest.raises(KeyError, match="here"):
            await run([take], [call("take", x=1)], raise_errors=True, context="here")
    else:
        [output] = await run([take], [call("take", x=1)], raise_errors=False, context="here")
        assert output.content == "KeyError: 'here'"
