"""turn_streams.py: what the caller holds while a turn goes on."""

from __future__ import annotations

import gc

import anyio
import anyio.lowlevel
import pytest

from support.engines import EngineAPI, call, check, results
from toolcast.agents.engine.engine import Engine
from toolcast.agents.permissions.permissions import Permissions
from toolcast.errors import RateLimited, StreamClosed, TurnCancelled
from toolcast.events import ErrorEvent, Finish, TextDelta, ToolProgress, UsageReport
from toolcast.messages import assistant, user
from toolcast.testing import ScriptedLLM
from toolcast.tools.tool_context import ToolContext
from toolcast.values.approvals import PermissionRequest
from toolcast.values.turn import Turn
from toolcast.values.usage import Usage


def test_the_turn_begins_with_the_first_event() -> None:
    engine = Engine(llm := ScriptedLLM("Hello."))
    stream = engine.stream("Hi.")
    assert (stream.state, stream.turn, stream.usage, llm.requests) == ("idle", Turn(), Usage(), [])
    assert stream.arguments("c") is None and engine.state == "idle"
    assert next(stream) == TextDelta("Hell")
    assert stream.state == engine.state == "streaming"
    assert [type(event) for event in stream] == [TextDelta, UsageReport, Finish]
    assert (stream.state, list(stream)) == ("idle", [])
    assert stream.result().text == "Hello."


def test_iteration_never_raises_and_result_does(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM(RateLimited("slow down")))
    text = engine_api.stream(engine, "Go.")
    (last,) = text.events
    assert isinstance(last, ErrorEvent) and last.error is text.error


def test_result_drains(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM("Hello there!"))
    assert engine_api.submit(engine, "Hi.").text == "Hello there!"
    with Engine(ScriptedLLM("Hello there!")).stream("Hi.") as stream:
        next(stream)
        assert stream.result().text == stream.result().text == "Hello there!"
        assert list(stream) == []


async def test_result_drains_awaited() -> None:
    async with Engine(ScriptedLLM("Hello there!")).astream("Hi.") as stream:
        await anext(stream)
        assert (await stream.result()).text == (await stream.result()).text == "Hello there!"
        assert [event async for event in stream] == []


def test_a_closed_stream_is_at_its_end() -> None:
    engine = Engine(ScriptedLLM("Hello there!", "Hm?"))
    stream = engine.stream("Hi.")
    next(stream)
    stream.close()
    stream.close()
    assert list(stream) == []
    with pytest.raises(TurnCancelled, match="closed"):
        stream.result()
    check(engine)


async def test_a_closed_async_stream_is_at_its_end() -> None:
    engine = Engine(ScriptedLLM("Hello there!", "Hm?"))
    stream = engine.astream("Hi.")
    await anext(stream)
    await stream.aclose()
    await stream.aclose()
    assert [event async for event in stream] == []
    with pytest.raises(TurnCancelled, match="closed"):
        await stream.result()
    check(engine)


def test_a_stream_closed_before_its_turn_began_begins_none() -> None:
    engine = Engine(llm := ScriptedLLM("never sent"))
    stream = engine.stream("Hi.")
    stream.close()
    assert list(stream) == []
    for use in (stream.result, lambda: stream.answer(PermissionRequest("c", "look", "{}").allow())):
        with pytest.raises(StreamClosed):
            use()
    assert (llm.requests, engine.history) == ([], ())


async def test_an_async_stream_closed_before_its_turn_began_begins_none() -> None:
    engine = Engine(llm := ScriptedLLM("never sent"))
    stream = engine.astream("Hi.")
    await stream.aclose()
    assert [event async for event in stream] == []
    with pytest.raises(StreamClosed):
        await stream.result()
    assert (llm.requests, engine.history) == ([], ())


def test_closing_after_the_end_changes_nothing(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM("Hello."))
    text = engine_api.stream(engine, "Hi.")
    assert text.turn is not None and engine.trace[-2:] == ("complete", "idle")


def test_E9_a_forgotten_stream_cancels_its_turn() -> None:
    engine = Engine(ScriptedLLM("Hello there!", "Hm?"))
    next(engine.stream("Hi."))
    gc.collect()
    assert engine.trace == ("idle", "streaming", "cancelled", "idle")
    assert engine.history == (user("Hi."), assistant("Hell"))
    assert engine.submit("And?").text == "Hm?"


async def test_E9_a_forgotten_async_stream_cancels_its_turn(anyio_backend: str) -> None:
    answer = [UsageReport(Usage(10, 5)), TextDelta("Hello"), Finish("end_turn")]
    engine = Engine(ScriptedLLM(answer, "Hm?"))
    stream = engine.astream("Hi.")
    await anext(stream)
    await anext(stream)
    del stream
    gc.collect()
    assert engine.trace == ("idle", "streaming", "cancelled", "idle")
    assert engine.history == (user("Hi."), assistant("Hello"))
    assert engine.usage == Usage(10, 5)
    assert (await engine.asubmit("And?")).text == "Hm?"


async def test_E9_a_stream_forgotten_while_a_tool_runs_ends_the_tool(anyio_backend: str) -> None:
    ended = anyio.Event()

    async def work(context: ToolContext) -> str:
        """Work."""
        try:
            context.emit("begun")
            await anyio.sleep_forever()
            return "never"
        finally:
            ended.set()

    engine = Engine(ScriptedLLM(call("a", "work"), "Hm?"), [work])
    stream = engine.astream("Go.")
    async for event in stream:
        if isinstance(event, ToolProgress):
            break
    del stream
    gc.collect()
    assert engine.state == "idle"
    (result,) = results(engine.history)
    assert result.is_error and "may have had its effect" in result.content
    with anyio.fail_after(30):
        await ended.wait()
    assert (await engine.asubmit("And?")).text == "Hm?"
    check(engine)


def test_E9_a_sync_stream_forgotten_while_a_tool_runs_tells_the_tool() -> None:
    import threading

    text = threading.Event()

    def work(context: ToolContext) -> str:
        """Work."""
        context.cancellation.then(text.set)
        context.emit("begun")
        assert text.wait(30)
        return "late"

    engine = Engine(ScriptedLLM(call("a", "work"), "Hm?"), [work])
    stream = engine.stream("Go.")
    while not isinstance(next(stream), ToolProgress):
        pass
    del stream
    gc.collect()
    assert text.wait(30)
    assert results(engine.history)[0].is_error
    check(engine)


def test_answers_may_be_given_before_they_are_asked_for() -> None:
    request = PermissionRequest("a", "look", "{}")

    def look() -> str:
        """Look."""
        return "fine"

    engine = Engine(ScriptedLLM(call("a", "look"), "ok"), [look], permissions=Permissions(approve="later"))
    stream = engine.stream("Go.")
    stream.answer(request.allow())
    assert not any(isinstance(event, PermissionRequest) for event in stream)
    assert stream.result().text == "ok"


def test_a_begun_stream_that_no_one_reads_is_cancelled_when_it_is_forgotten() -> None:
    engine = Engine(ScriptedLLM("never sent"))
    engine.stream("Go.").answer(PermissionRequest("a", "look", "{}").allow())
    gc.collect()
    assert (engine.state, engine.history) == ("idle", ())
