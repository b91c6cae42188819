"""`ToolRun`: the tool calls of an agent's turn, sync and async."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any

import anyio
import pydantic
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from support.sync_and_async import API
from toolcast.async_support import background_jobs, sync_driver
from toolcast.async_support.cancellation import Cancellation
from toolcast.errors import OutputTruncated, ToolTimeout, TryAgain, TurnCancelled, UnknownToolError, ValidationError
from toolcast.events import ToolProgress
from toolcast.messages import ToolCallPart
from toolcast.tools import execution
from toolcast.tools.callable_tool import CallableTool, ToolOutput, as_tool, as_tools
from toolcast.tools.execution import ToolJob, ToolRun, overlapping_groups, read_call
from toolcast.tools.tool_context import ToolContext

here: ContextVar[str] = ContextVar("here", default="nowhere")

FOREVER = 60.0


class Boom(Exception):
    pass


class Stop(BaseException):
    pass


class Album(BaseModel):
    title: str


def call(name: str, id: str = "c1", /, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(id, name, json.dumps(arguments))


def reading(function: Any) -> CallableTool:
    return as_tool(function).with_(read_only=True)


def jobs_of(tools: Sequence[Any], *calls: ToolCallPart) -> list[ToolJob]:
    offered = {tool.name: tool for tool in as_tools(tools)}
    return [read_call(each, offered) for each in calls]


@dataclass
class Turn:
    """The environment of the calls: sync or async API, cancellation, and the progress events received."""

    concurrent: bool
    cancellation: Cancellation = field(default_factory=Cancellation)
    progress: list[ToolProgress] = field(default_factory=list)

    def begin(self, jobs: Sequence[ToolJob], **options: Any) -> ToolRun:
        contexts = [ToolContext(job.call.id, job.call.name, "deps", self.cancellation) for job in jobs]
        return ToolRun(jobs, contexts, concurrent=self.concurrent, **options)

    async def run(self, jobs: Sequence[ToolJob], **options: Any) -> list[ToolOutput]:
        for group in overlapping_groups(jobs):
            run = self.begin(group, **options)
            while progress := await run.more():
                self.progress += progress
            assert await run.more() == []
            await run.stop()
        return [job.output() for job in jobs]


Drive = Callable[[Callable[[Turn], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture
def drive(api: API) -> Drive:
    """Runs a coroutine function through one API; a tool that hangs is an error."""
    backend = api.name.removeprefix("sync-in-")

    def run(main: Callable[[Turn], Coroutine[Any, Any, Any]]) -> Any:
        async def concurrently() -> Any:
            with anyio.fail_after(FOREVER):
                return await main(Turn(concurrent=True))

        async def inside() -> Any:
            return sync_driver.run(main(Turn(concurrent=False)))

        if api.name == "sync":
            return sync_driver.run(main(Turn(concurrent=False)))
        return anyio.run(concurrently if api.name == backend else inside, backend=backend)

    return run


def outputs(drive: Drive, tools: Sequence[Any], *calls: ToolCallPart, **options: Any) -> list[ToolOutput]:
    async def main(turn: Turn) -> list[ToolOutput]:
        return await turn.run(jobs_of(tools, *calls), **options)

    made: list[ToolOutput] = drive(main)
    return made


def double(x: int) -> int:
    return 2 * x


async def triple(x: int) -> int:
    await anyio.lowlevel.checkpoint()
    return 3 * x


def speak(x: int, context: ToolContext[str]) -> str:
    context.emit(x)
    context.emit(x + 1)
    return f"{context.call_id} {context.tool} {context.deps}"


async def speak_async(context: ToolContext[str], x: int) -> str:
    context.emit(x)
    await anyio.lowlevel.checkpoint()
    context.emit(x + 1)
    return f"{context.call_id} {context.tool} {context.deps}"


# Reading


@pytest.mark.fault(87, 94)
def test_a_call_is_read_and_not_run() -> None:
    ran: list[int] = []

    def check(value: int) -> int:
        if value == 7:
            raise Boom("never 7")
        return value

    def take(x: Annotated[int, pydantic.AfterValidator(check)]) -> None:
        ran.append(x)

    good, unknown, unfit, cut, boom = jobs_of(
        [take],
        call("take", x="1"),
        call("n" * 1000, x=1),
        call("take", x="many"),
        ToolCallPart("c", "take", '{"x": 5}', truncated=True),
        call("take", x=7),
    )
    assert (good.ready, good.done, good.error, good.read.value.kwargs) == (True, False, None, {"x": 1})
    assert [type(job.error) for job in (unknown, unfit, cut, boom)] == [
        UnknownToolError,
        ValidationError,
        OutputTruncated,
        Boom,
    ]
    assert not any(job.ready for job in (unknown, unfit, cut, boom))
    assert len(unknown.output().content) < 200
    assert boom.output().content == "Boom: never 7"
    assert ran == []


@pytest.mark.fault(147)
@pytest.mark.parametrize("key", ["__init__", "self", "cls", "context", "argument0", "kwargs", "function"])
def test_what_is_not_in_the_schema_is_no_argument(key: str) -> None:
    def take(x: int, context: ToolContext, **kwargs: Any) -> None:
        raise AssertionError

    (job,) = jobs_of([take], call("take", x=1, **{key: 1}))
    assert isinstance(job.error, ValidationError)


# Groups


tool_kinds = {
    "read": reading(lambda: None).with_(name="read"),
    "write": as_tool(lambda: None).with_(name="write"),
    "alone": reading(lambda: None).with_(name="alone", parallel=False),
    "beside": as_tool(lambda: None).with_(name="beside", parallel=True),
}


@given(st.lists(st.sampled_from([*tool_kinds, "unknown"])))
def test_groups(names: list[str]) -> None:
    jobs = jobs_of([*tool_kinds.values()], *map(call, names))
    found = overlapping_groups(jobs)
    assert [job for group in found for job in group] == jobs
    overlapping = {"read", "beside", "unknown"}
    assert all(len(group) == 1 or {job.call.name for job in group} <= overlapping for group in found)
    for one, other in pairwise(found):
        assert not {one[-1].call.name, other[0].call.name} <= overlapping


def test_what_may_not_overlap_is_refused() -> None:
    jobs = jobs_of([double], call("double", x=1), call("double", x=2))
    with pytest.raises(ValueError, match="groups"):
        Turn(concurrent=False).begin(jobs)


# Running


def test_every_tool_through_every_api(drive: Drive) -> None:
    tools = [double, triple, speak, speak_async, Album]
    calls = [
        call("double", "a", x=1),
        call("nowhere", "b"),
        call("triple", "c", x="2"),
        call("Album", "d", title="Sea"),
        call("speak", "e", x=1),
        call("speak_async", "f", x=1),
    ]
    made = outputs(drive, tools, *calls)
    assert [(output.call_id, output.content) for output in made if not output.is_error] == [
        ("a", "2"),
        ("c", "6"),
        ("d", '{"title":"Sea"}'),
        ("e", "e speak deps"),
        ("f", "f speak_async deps"),
    ]
    assert isinstance(made[1].error, UnknownToolError)


@pytest.mark.fault(128)
@pytest.mark.parametrize("options", [{}, {"timeout": FOREVER}])
def test_results_come_in_call_order_and_reading_overlaps(drive: Drive, options: dict[str, Any]) -> None:
    """Each tool waits for the other: one after the other they would never end."""
    barrier = threading.Barrier(2)

    def meet(x: int) -> int:
        barrier.wait(FOREVER)
        return x

    made = outputs(drive, [reading(meet)], call("meet", "a", x=1), call("meet", "b", x=2), **options)
    assert [(output.call_id, output.raw_output) for output in made] == [("a", 1), ("b", 2)]


def test_an_async_tool_beside_a_sync_one(drive: Drive) -> None:
    met = threading.Event()

    def one() -> bool:
        return met.wait(FOREVER)

    async def other(context: ToolContext) -> None:
        met.set()

    assert outputs(drive, [reading(one), reading(other)], call("one"), call("other", "b"))[0].raw_output is True


def test_writing_never_overlaps(drive: Drive) -> None:
    inside: list[int] = []
    log: list[tuple[str, int]] = []

    def write(x: int, context: ToolContext) -> None:
        inside.append(x)
        log.append(("write", len(inside)))
        inside.remove(x)

    async def write_async(x: int) -> None:
        inside.append(x)
        await anyio.lowlevel.checkpoint()
        log.append(("write_async", len(inside)))
        inside.remove(x)

    calls = [call(name, f"{name}{x}", x=x) for x in range(3) for name in ("write", "write_async")]
    outputs(drive, [write, write_async], *calls, timeout=FOREVER)
    assert log == [("write", 1), ("write_async", 1)] * 3


def test_progress_arrives_while_the_tool_runs(drive: Drive) -> None:
    received = threading.Event()

    def work(context: ToolContext) -> bool:
        context.emit("half")
        return received.wait(FOREVER)

    async def main(turn: Turn) -> Any:
        (job,) = jobs_of([work], call("work"))
        run = turn.begin([job])
        assert await run.more() == [ToolProgress("c1", "work", "half")]
        assert not job.done
        received.set()
        assert await run.more() == []
        return job.output()

    assert drive(main).raw_output is True


@pytest.mark.parametrize("tool", [speak, speak_async])
def test_all_progress_arrives_before_the_end(drive: Drive, tool: Any) -> None:
    async def main(turn: Turn) -> list[ToolProgress]:
        await turn.run(jobs_of([tool], call(tool.__name__, x=1)))
        return turn.progress

    assert [event.data for event in drive(main)] == [1, 2]


def test_where_nothing_asks_for_more_tools_run_here() -> None:
    (job,) = jobs_of([lambda: threading.get_ident()], call("lambda"))
    sync_driver.run(Turn(concurrent=False).run([job], output_limit=5))
    assert job.result == threading.get_ident()


def test_a_model_needs_no_time(drive: Drive) -> None:
    (output,) = outputs(drive, [Album], call("Album", title="Sea"), timeout=1e-9)
    assert output.raw_output == Album(title="Sea")


def test_nothing_to_run(drive: Drive) -> None:
    assert [output.is_error for output in outputs(drive, [], call("f"))] == [True]

    async def main(turn: Turn) -> list[ToolProgress]:
        return await turn.begin([]).more()

    assert drive(main) == []


@pytest.mark.parametrize("many", [1, 2])
@pytest.mark.parametrize("with_context", [False, True])
def test_context_variables_reach_every_tool(drive: Drive, many: int, with_context: bool) -> None:
    def look() -> str:
        return here.get()

    def look_in(context: ToolContext) -> str:
        return here.get()

    async def look_async() -> str:
        return here.get()

    async def look_in_async(context: ToolContext) -> str:
        return here.get()

    tools = [look_in, look_in_async] if with_context else [look, look_async]

    async def main(turn: Turn) -> list[ToolOutput]:
        here.set("there")
        calls = [call(tool.__name__, f"{tool.__name__}{i}") for tool in tools for i in range(many)]
        return await turn.run(jobs_of([*map(reading, tools)], *calls))

    assert {output.content for output in drive(main)} == {"there"}
    here.set("nowhere")


# Failing


def failing(error: BaseException, context: bool) -> list[Any]:
    def fails() -> None:
        raise error

    async def fails_async() -> None:
        raise error

    def fails_in(context: ToolContext) -> None:
        raise error

    async def fails_in_async(context: ToolContext) -> None:
        raise error

    return [fails_in, fails_in_async] if context else [fails, fails_async]


@pytest.mark.fault(126, 128)
def test_failures_become_results_a_model_can_read(drive: Drive) -> None:
    ran: list[int] = []
    words = "GET https://a.example/?key=AIzaSyD-abc1234567: Bearer sk-ant-abcd1234, see /home/me/work/log.txt"

    def count(x: int) -> int:
        ran.append(x)
        return x

    def again() -> None:
        raise TryAgain("do better")

    def fails() -> None:
        raise Boom(words)

    calls = [
        call("count", "a", x=1),
        call("nowhere", "b"),
        call("count", "c", x="much"),
        ToolCallPart("d", "count", '{"x": 5}', truncated=True),
        call("fails", "e"),
        call("again", "f"),
        call("count", "g", x=2),
    ]
    made = outputs(drive, [count, fails, again], *calls)
    assert ran == [1, 2]
    assert [output.call_id for output in made] == list("abcdefg")
    assert [output.is_error for output in made] == [False, True, True, True, True, True, False]
    assert [output.content for output in made if not isinstance(output.error, ValidationError)] == [
        "1",
        "the model called a tool 'nowhere'; it was offered: count, fails, again",
        "count was not run: its arguments were cut off after 8 characters",
        "Boom: GET https://a.example/?key=[key] Bearer [key], see log.txt",
        "do better",
        "2",
    ]
    assert "x: Input should be a valid integer" in made[2].content
    assert "max_attempts" not in made[2].content
    assert str(made[4].error) == words
    assert made[4].error is not None
    assert made[4].error.__notes__ == ["raised by the tool 'fails'"]
    assert made[4].raw_input == "{}"


@pytest.mark.fault(126, 128)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("context", [False, True])
def test_a_tool_that_raises_gives_a_result(drive: Drive, which: int, context: bool) -> None:
    tool = failing(ExceptionGroup("two", [Boom("a"), ValueError("b")]), context)[which]
    failed, fine = outputs(drive, [reading(tool), reading(double)], call(tool.__name__), call("double", "b", x=1))
    assert failed.content == "ExceptionGroup: two (2 sub-exceptions): Boom: a; ValueError: b"
    assert (failed.is_error, failed.call_id, fine.content) == (True, "c1", "2")


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt, SystemExit])
def test_what_is_no_exception_passes(drive: Drive, which: int, context: bool, error: type[BaseException]) -> None:
    tool = failing(error(), context)[which]

    async def main(turn: Turn) -> ToolJob:
        (job,) = jobs_of([tool], call(tool.__name__))
        with pytest.raises(error):
            await turn.run([job])
        return job

    assert isinstance(drive(main).error, TurnCancelled)


def test_what_is_no_exception_stops_the_others(drive: Drive) -> None:
    stopped = threading.Event()

    async def wait(context: ToolContext) -> None:
        context.cancellation.then(stopped.set)
        await anyio.sleep_forever()

    async def main(turn: Turn) -> list[ToolJob]:
        tool = failing(Stop(), context=True)[0]
        jobs = jobs_of([reading(wait), reading(tool)], call("wait"), call(tool.__name__, "b"))
        with pytest.raises(Stop):
            await turn.run(jobs)
        return jobs

    assert all(isinstance(job.error, TurnCancelled) for job in drive(main))
    assert stopped.is_set()


# Time


def hang_here(release: threading.Event) -> Any:
    def hang() -> bool:
        return release.wait(FOREVER)

    return hang


@pytest.mark.fault(125)
async def test_a_sync_tool_whose_time_is_up_is_given_up() -> None:
    release = threading.Event()
    try:
        (job,) = jobs_of([hang_here(release)], call("hang"))
        with anyio.fail_after(FOREVER):
            (output,) = await Turn(concurrent=True).run([job], timeout=0.01)
    finally:
        release.set()
    assert isinstance(output.error, ToolTimeout)
    assert output.content == (
        "hang took longer than 0.01 seconds; it may have had its effect, and its result is discarded"
    )


def test_the_limit_of_the_tool_goes_before_that_of_the_run(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    notified: list[bool] = []
    began = threading.Event()
    # The time is up once the tool has begun, however long its thread takes for that.
    monkeypatch.setattr(execution, "monotonic", lambda: 1e9 if began.is_set() else 0.0)

    def slow(context: ToolContext) -> str:
        began.set()
        stopped = threading.Event()
        context.cancellation.then(stopped.set)
        notified.append(stopped.wait(FOREVER))
        context.emit("too late")
        ended.set()
        return "too late"

    ended = threading.Event()
    tool = as_tool(slow).with_(timeout=0.01)
    (output,) = outputs(drive, [tool], call("slow"), timeout=FOREVER)
    assert isinstance(output.error, ToolTimeout)
    assert ended.wait(FOREVER)
    assert notified == [True]
    assert output.raw_output is None


@pytest.mark.fault(125)
@pytest.mark.parametrize("context", [False, True])
def test_an_async_tool_whose_time_is_up_is_cancelled_and_has_ended(drive: Drive, context: bool) -> None:
    ended: list[bool] = []

    async def slow() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            ended.append(True)

    async def slow_in(context: ToolContext) -> None:
        await slow()

    tool = slow_in if context else slow
    failed, fine = outputs(
        drive,
        [reading(tool).with_(timeout=0.05), reading(double)],
        call(tool.__name__),
        call("double", "b", x=1),
        timeout=FOREVER,
    )
    assert ended == [True]
    assert isinstance(failed.error, ToolTimeout)
    assert fine.content == "2"


@pytest.mark.parametrize("context", [False, True])
async def test_a_result_that_comes_slowly_is_read_within_the_limit_and_beside_the_loop(context: bool) -> None:
    release = threading.Event()

    def lines() -> Any:
        yield "one"
        release.wait(FOREVER)

    def lines_in(context: ToolContext) -> Any:
        return lines()

    async def lazy() -> Any:
        return lines()

    async def lazy_in(context: ToolContext) -> Any:
        return lines()

    tools = [lines_in, lazy_in] if context else [lines, lazy]
    try:
        jobs = jobs_of([*map(reading, tools)], *(call(tool.__name__, tool.__name__) for tool in tools))
        with anyio.fail_after(FOREVER):
            made = await Turn(concurrent=True).run(jobs, timeout=0.01)
    finally:
        release.set()
    assert [type(output.error) for output in made] == [ToolTimeout, ToolTimeout]


def test_an_async_generator_has_ended_when_its_time_is_up(drive: Drive) -> None:
    ended = threading.Event()

    async def items() -> Any:
        try:
            yield "one"
            await anyio.sleep_forever()
        finally:
            ended.set()

    (output,) = outputs(drive, [items], call("items"), timeout=0.05)
    assert isinstance(output.error, ToolTimeout)
    assert ended.is_set()


def test_what_yields_may_say_how_far_it_is(drive: Drive) -> None:
    async def items(context: ToolContext) -> Any:
        context.emit("half")
        yield 1

    def items_sync(context: ToolContext) -> Any:
        context.emit("half")
        yield 1

    async def main(turn: Turn) -> Any:
        made = await turn.run(jobs_of([items, items_sync], call("items"), call("items_sync", "b")))
        return [output.content for output in made], [event.data for event in turn.progress]

    assert drive(main) == (["[1]", "[1]"], ["half", "half"])


# How many at a time


@pytest.mark.parametrize("kind", ["plain", "context", "async"])
def test_so_many_calls_run_at_a_time_and_no_more(drive: Drive, kind: str) -> None:
    inside: list[int] = []
    most: list[int] = []
    barrier = threading.Barrier(execution.MAX_CONCURRENT)
    count = 2 * execution.MAX_CONCURRENT

    def meet(x: int) -> int:
        inside.append(x)
        most.append(len(inside))
        for _ in range(3):  # one more that was let in has entered by the last time
            barrier.wait(FOREVER)
        inside.remove(x)
        return x

    def meet_in(x: int, context: ToolContext) -> int:
        return meet(x)

    async def meet_async(x: int) -> int:
        return await anyio.to_thread.run_sync(meet, x)

    tool = {"plain": meet, "context": meet_in, "async": meet_async}[kind]
    made = outputs(drive, [reading(tool)], *(call(tool.__name__, f"c{x}", x=x) for x in range(count)))
    assert [output.raw_output for output in made] == list(range(count))
    assert max(most) == execution.MAX_CONCURRENT


def test_thousands_of_calls_need_few_threads(drive: Drive) -> None:
    most: list[int] = []

    def look(x: int) -> int:
        most.append(threading.active_count())
        return x

    before = threading.active_count()
    made = outputs(drive, [reading(look)], *(call("look", f"c{x}", x=x) for x in range(500)))
    assert [output.raw_output for output in made] == list(range(500))
    assert max(most) <= before + execution.MAX_CONCURRENT + 2


def test_the_time_of_a_call_begins_when_it_does(drive: Drive) -> None:
    count = execution.MAX_CONCURRENT + 1
    release = threading.Event()
    hang = reading(hang_here(release)).with_(timeout=0.05)
    try:
        made = outputs(
            drive,
            [hang, reading(double).with_(timeout=FOREVER)],
            *(call("hang", f"c{number}") for number in range(count)),
            call("double", "d", x=1),
        )
    finally:
        release.set()
    assert [type(output.error) for output in made] == [ToolTimeout] * count + [type(None)]


@pytest.mark.parametrize("context", [False, True])
def test_what_had_no_place_yet_was_not_run(drive: Drive, context: bool) -> None:
    def wait(context: ToolContext) -> None:
        context.emit("begun")
        stopped = threading.Event()
        context.cancellation.then(stopped.set)
        stopped.wait(FOREVER)

    async def main(turn: Turn) -> list[ToolJob]:
        jobs = jobs_of([reading(wait)], *(call("wait", f"c{number}") for number in range(execution.MAX_CONCURRENT + 1)))
        run = turn.begin(jobs)
        assert await run.more()
        await run.stop()
        return jobs

    first, *_, last = drive(main)
    assert "while it ran" in first.output().content
    assert last.output().content == "wait was not run: the turn was cancelled"


# Output


@pytest.mark.fault(127)
def test_output_is_bounded(drive: Drive) -> None:
    long = as_tool(lambda: "x" * 1000).with_(name="long")
    own = as_tool(lambda: "y" * 1000).with_(name="own", output_limit=4)
    made = outputs(drive, [long, own], call("long"), call("own", "b"), output_limit=10)
    assert [output.content for output in made] == [
        "x" * 10 + "... [990 characters left out]",
        "y" * 4 + "... [996 characters left out]",
    ]
    assert made[0].raw_output == "x" * 1000


def test_a_result_that_can_be_read_once_is_read_once() -> None:
    (job,) = jobs_of([lambda: (number for number in range(3))], call("lambda"))
    sync_driver.run(Turn(concurrent=False).run([job], output_limit=100))
    assert job.output().content == "[0,1,2]"
    assert job.output() is job.output()


# Cancelling


@pytest.mark.parametrize("asynchronous", [False, True])
def test_cancelling_from_another_thread(drive: Drive, asynchronous: bool) -> None:
    ended = threading.Event()

    def wait(context: ToolContext) -> None:
        stopped = threading.Event()
        context.cancellation.then(stopped.set)
        context.emit("begun")
        stopped.wait(FOREVER)
        ended.set()

    async def wait_async(context: ToolContext) -> None:
        context.emit("begun")
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    tool = wait_async if asynchronous else wait

    async def main(turn: Turn) -> ToolJob:
        (job,) = jobs_of([tool], call(tool.__name__))
        run = turn.begin([job])
        assert await run.more()
        threading.Thread(target=turn.cancellation.cancel).start()
        assert await run.more() == []
        return job

    job = drive(main)
    assert isinstance(job.error, TurnCancelled)
    assert "it may have had its effect" in job.output().content
    assert ended.wait(FOREVER)


def test_an_async_tool_alone_is_cancelled_without_a_loop() -> None:
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await anyio.sleep_forever()

    turn = Turn(concurrent=False)

    def cancel() -> None:
        begun.wait(FOREVER)
        turn.cancellation.cancel()

    threading.Thread(target=cancel).start()
    (output,) = sync_driver.run(turn.run(jobs_of([wait], call("wait"))))
    assert isinstance(output.error, TurnCancelled)


def test_stop_before_the_beginning(drive: Drive) -> None:
    async def main(turn: Turn) -> ToolJob:
        (job,) = jobs_of([double], call("double", x=1))
        run = turn.begin([job])
        await run.stop()
        await run.stop()
        assert await run.more() == []
        return job

    assert drive(main).output().content == "double was not run: the turn was cancelled"


def test_an_abandoned_call_is_cancelled_and_not_waited_for(drive: Drive) -> None:
    notified = threading.Event()

    def wait(context: ToolContext) -> None:
        context.cancellation.then(notified.set)
        context.emit("begun")
        notified.wait(FOREVER)

    async def main(turn: Turn) -> ToolJob:
        (job,) = jobs_of([wait], call("wait"))
        run = turn.begin([job])
        assert await run.more()
        run.abandon()
        assert await run.more() == []
        return job

    assert isinstance(drive(main).error, TurnCancelled)
    assert notified.is_set()


@pytest.mark.parametrize("context", [False, True])
async def test_a_caller_who_is_cancelled_leaves_nothing(context: bool) -> None:
    open_: list[str] = []
    begun = anyio.Event()

    async def wait(x: int) -> None:
        open_.append("wait")
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            open_.remove("wait")

    async def wait_in(x: int, context: ToolContext) -> None:
        await wait(x)

    tool = wait_in if context else wait
    jobs = jobs_of([reading(tool)], call(tool.__name__, x=1), call(tool.__name__, "b", x=2))
    run = Turn(concurrent=True).begin(jobs)
    with anyio.fail_after(FOREVER):
        async with anyio.create_task_group() as group:
            group.start_soon(run.more)
            await begun.wait()
            group.cancel_scope.cancel()
    assert open_ == []
    assert all(isinstance(job.error, TurnCancelled) for job in jobs)


@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize("between", range(4))
def test_a_caller_who_is_cancelled_twice_leaves_nothing(context: bool, between: int) -> None:
    """asyncio's second cancellation reaches what waits for the end of the first."""
    open_: list[str] = []
    begun = asyncio.Event()

    async def wait() -> None:
        open_.append("wait")
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            open_.remove("wait")

    async def wait_in(context: ToolContext) -> None:
        task = asyncio.ensure_future(wait())
        try:
            await asyncio.shield(task)
        finally:
            task.cancel()
            await asyncio.wait([task])

    tool = wait_in if context else wait

    async def main() -> None:
        jobs = jobs_of([tool], call(tool.__name__))
        task = asyncio.ensure_future(Turn(concurrent=True).begin(jobs).more())
        await begun.wait()
        task.cancel()
        for _ in range(between):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if context:
            assert open_ == []
        assert isinstance(jobs[0].error, TurnCancelled)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


async def test_a_tool_that_will_not_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_GRACE", 0.01)
    release = anyio.Event()

    async def stay(context: ToolContext) -> None:
        context.emit("begun")
        with anyio.CancelScope(shield=True):
            await release.wait()

    (job,) = jobs_of([stay], call("stay"))
    run = Turn(concurrent=True).begin([job])
    with anyio.fail_after(FOREVER):
        assert await run.more()
        await run.stop()
        assert isinstance(job.error, TurnCancelled)
        assert await run.more() == []
        release.set()
        await anyio.wait_all_tasks_blocked()


def test_a_caller_who_is_cancelled_again_and_again_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_jobs, "_MAX_CANCELLATIONS", 1)

    async def main() -> None:
        release, stopping = asyncio.Event(), asyncio.Event()

        async def stay(context: ToolContext) -> None:
            context.emit("begun")
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    stopping.set()

        (job,) = jobs_of([stay], call("stay"))
        run = Turn(concurrent=True).begin([job])
        assert await run.more()
        task = asyncio.ensure_future(run.stop())
        await stopping.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        await anyio.wait_all_tasks_blocked()
        assert isinstance(job.error, TurnCancelled)

    asyncio.run(main())


def test_ctrl_c_while_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    notified = threading.Event()

    def wait(context: ToolContext) -> None:
        context.cancellation.then(notified.set)
        notified.wait(FOREVER)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    (job,) = jobs_of([wait], call("wait"))
    monkeypatch.setattr(execution.Waiters, "block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sync_driver.run(Turn(concurrent=False).run([job]))
    assert notified.wait(FOREVER)
    assert isinstance(job.error, TurnCancelled)


def test_the_turn_forgets_calls_that_have_ended(drive: Drive) -> None:
    async def main(turn: Turn) -> int:
        await turn.run(jobs_of([speak], call("speak", x=1)))
        return len(vars_of(turn.cancellation))

    assert drive(main) == 0


def vars_of(cancellation: Cancellation) -> Any:
    return cancellation._then
