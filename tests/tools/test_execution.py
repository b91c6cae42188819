"""Tool calls of a structured response: each runs once, results in call order, errors with the call's attributes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import anyio
import pydantic
import pytest
from pydantic import BaseModel

from toolcast.async_support import sync_driver
from toolcast.errors import CallError, OutputTruncated, UnknownToolError, ValidationError
from toolcast.messages import ToolCallPart
from toolcast.tools.callable_tool import ToolOutput, as_tools
from toolcast.tools.execution import run_tools


class Album(BaseModel):
    title: str


class Boom(Exception):
    pass


class Stop(BaseException):
    pass


GOOD = [Album(title="Sea"), Album(title="Sky")]


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`run_tools` through either API."""

    async def run_it(tools: list[Any], calls: list[ToolCallPart], **options: Any) -> list[ToolOutput]:
        if request.param == "sync":
            return sync_driver.run(run_tools(as_tools(tools), calls, concurrent=False, **options))
        return await run_tools(as_tools(tools), calls, concurrent=True, **options)

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


async def test_results_come_in_call_order(run: Callable[..., Any]) -> None:
    calls = [
        call("slow", "a", x=9),
        call("Album", "b", title="Sea"),
        call("double", "c", x="4"),
        call("slow", "d", x=1),
        call("double", "e", x=4),
    ]
    outputs = await run([slow, double, Album], calls)
    assert [(output.call_id, output.tool_name, output.raw_output) for output in outputs] == [
        ("a", "slow", 9),
        ("b", "Album", Album(title="Sea")),
        ("c", "double", 8),
        ("d", "slow", 1),
        ("e", "double", 8),
    ]
    assert outputs[1].part().content == '{"title":"Sea"}'
    assert not any(output.is_error or output.error for output in outputs)


async def test_no_calls(run: Callable[..., Any]) -> None:
    assert await run([double], []) == []


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

    with anyio.fail_after(30):
        outputs = await run_tools(as_tools([one, two]), [call("one"), call("two", "c2")], concurrent=True)
    assert [output.content for output in outputs] == ["one", "two"]


@pytest.mark.fault(87)
async def test_an_unknown_tool_where_none_was_offered(run: Callable[..., Any]) -> None:
    with pytest.raises(UnknownToolError, match="'f'; it was offered: none"):
        await run([], [call("f")])


@pytest.mark.fault(94)
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (call("nowhere"), UnknownToolError),
        (call("Album"), ValidationError),
        (ToolCallPart("c", "Album", '{"ti', truncated=True), OutputTruncated),
    ],
)
async def test_no_tool_runs_unless_all_arguments_are_valid(
    bad: ToolCallPart, error: type[CallError], run: Callable[..., Any]
) -> None:
    ran: list[int] = []
    calls = [call("lambda", "a"), call("Album", "b", title="Sea"), bad, call("Album", "c", title="Sky")]
    with pytest.raises(error) as caught:
        await run([Album, lambda: ran.append(1)], calls)
    assert ran == []
    assert caught.value.partial == GOOD


async def test_a_raising_tool_raises_its_own_exception(run: Callable[..., Any]) -> None:
    with pytest.raises(Boom, match="no 0") as caught:
        await run([boom, double], [call("double", x=1), call("boom", "c2")])
    assert caught.value.__notes__ == ["raised by the tool 'boom'"]
    assert caught.value.__cause__ is None
    with pytest.raises(Boom, match="async"):
        await run([boom_async], [call("boom_async")])


async def test_of_several_exceptions_one_comes_out(run: Callable[..., Any]) -> None:
    with pytest.raises(Boom):
        await run([boom, boom_async], [call("boom", x=1), call("boom_async", "c2")])


@pytest.mark.fault(126)
async def test_what_is_no_exception_passes(run: Callable[..., Any]) -> None:
    async def quit() -> None:
        raise Stop

    calls = [call("quit"), call("double", "c2", x=1)]
    with pytest.raises(Stop):
        await run([quit, double], calls)


@pytest.mark.fault(111)
async def test_an_exception_group_of_a_tool_stays_one() -> None:
    async def several() -> None:
        raise ExceptionGroup("mine", [Boom("a"), Boom("b")])

    calls = [call("several"), call("double", "c2", x=1)]
    with pytest.raises(ExceptionGroup, match="mine"):
        await run_tools(as_tools([several, double]), calls, concurrent=True)


@pytest.mark.fault(110)
async def test_a_validator_may_raise_anything(run: Callable[..., Any]) -> None:
    def check(value: int, info: pydantic.ValidationInfo) -> int:
        raise KeyError(info.context)

    def take(x: Annotated[int, pydantic.AfterValidator(check)]) -> None: ...

    with pytest.raises(KeyError, match="here"):
        await run([take], [call("take", x=1)], context="here")
