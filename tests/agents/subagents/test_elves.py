"""Elves: E18 to E20, through the sync API, asyncio and trio; limits, budgets, and that nothing is left over."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from support.subagents import CALL, PATIENCE, Gate, Mirror, SubagentAPI, tasks_living
from toolcast.agents.engine.engine import Engine
from toolcast.agents.permissions.permissions import Permissions
from toolcast.agents.subagents import elf_run as elf_runs, elves
from toolcast.agents.subagents.elf_run import ElfEvent, ElfResult
from toolcast.agents.subagents.elves import TASKS, BackgroundElf, Elf, ElfConfig, ElfManager, SyncElf
from toolcast.async_support.cancellation import Cancellation
from toolcast.errors import BudgetExceeded, IllegalState, RoundsExceeded, ServerError, TurnCancelled
from toolcast.events import ToolProgress
from toolcast.messages import Message, ToolCallPart
from toolcast.testing import ScriptedLLM, VirtualClock
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.tool_context import ToolContext
from toolcast.values.budgets import Budget, BudgetTracker
from toolcast.values.states import ELF


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages]


# E18: one elf.


@pytest.mark.parametrize("background", [True, False])
def test_an_elf_has_a_result(subagent_api: SubagentAPI, background: bool) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(ToolCallPart("c", "double", '{"n": 4}'), "It is 8."), [double]))
        elf = await subagent_api.spawn(manager, ElfConfig("Double 4.", background=background))
        result = await subagent_api.wait(elf)
        assert (result.id, result.status, result.output, result.error) == (elf.id, "completed", "It is 8.", None)
        assert [message.role for message in result.messages] == ["assistant", "tool", "assistant"]
        assert result.usage.total_tokens == 30
        assert result.duration > 0
        assert await subagent_api.wait(elf) is result
        assert elf.status == "completed"
        assert isinstance(elf, BackgroundElf if background else SyncElf)

    subagent_api.run(scenario)


def double(n: int) -> int:
    """Twice `n`."""
    return 2 * n


@pytest.mark.parametrize(("own", "seen"), [(None, "the caller's"), ("its own", "its own")])
def test_the_dependencies_of_an_elf(own: str | None, seen: str) -> None:
    def look(context: ToolContext[str]) -> str:
        """Return the dependencies."""
        return context.deps

    manager = ElfManager(Engine(ScriptedLLM(ToolCallPart("c", "look", "{}"), "Done."), [look]))
    config = ElfConfig("Look.", deps=own, background=False)
    assert seen in str(manager.spawn(config, context=ToolContext(deps="the caller's")).wait().messages[1])


def test_ids_count_up() -> None:
    manager = ElfManager(Engine(Mirror()))
    numbers = [int(manager.spawn(name).id.removeprefix("elf-")) for name in "ab"]
    assert numbers[1] == numbers[0] + 1
    manager.wait_all(PATIENCE)


@pytest.mark.parametrize("background", [True, False])
def test_a_crash_is_a_failed_elf(subagent_api: SubagentAPI, background: bool) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(ServerError("the server is on fire"), "All is well again.")))
        elf = await subagent_api.spawn(manager, ElfConfig("Look.", background=background))
        result = await subagent_api.wait(elf)
        assert (result.status, elf.status, manager.active) == ("failed", "failed", 0)
        assert "the server is on fire" in str(result.error)
        await subagent_api.send(elf, "And now?")
        assert (await subagent_api.wait(elf)).output == "All is well again."

    subagent_api.run(scenario)


def test_a_limit_is_a_failed_elf_with_what_there_is(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(ToolCallPart("c", "double", '{"n": 4}')), [double]))
        result = await subagent_api.wait(await subagent_api.spawn(manager, ElfConfig("Double.", max_rounds=1)))
        assert isinstance(result.error, RoundsExceeded)
        assert (result.status, len(result.messages)) == ("failed", 2)

    subagent_api.run(scenario)


def test_cancel_in_the_middle_of_a_tool(subagent_api: SubagentAPI, gate: Gate) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(CALL, "Here I am."), [gate.hold]))
        elf = await subagent_api.spawn(manager, "Wait.")
        await subagent_api.happens(gate.begun)
        elf.cancel()
        elf.cancel()
        result = await subagent_api.wait(elf)
        assert (result.status, elf.status, manager.active) == ("cancelled", "cancelled", 0)
        assert isinstance(result.error, TurnCancelled)
        assert (len(result.error.attempts), result.error.provider) == (1, "scripted")
        assert [message.role for message in elf.engine.history] == ["user", "assistant", "tool"]
        elf.cancel()
        assert await subagent_api.wait(elf) is result
        await subagent_api.send(elf, "Still there?")
        assert (await subagent_api.wait(elf)).output == "Here I am."

    subagent_api.run(scenario)


def test_an_elf_that_has_finished_stays_completed(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        elf = await subagent_api.spawn(ElfManager(Engine(ScriptedLLM("Done."))), "Work.")
        result = await subagent_api.wait(elf)
        elf.cancel()
        assert elf.status == "completed"
        assert await subagent_api.wait(elf) is result

    subagent_api.run(scenario)


def test_a_typed_result(subagent_api: SubagentAPI) -> None:
    class Verdict(BaseModel):
        good: bool

    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(Verdict(good=True))))
        result = await subagent_api.wait(await subagent_api.spawn(manager, ElfConfig("Judge.", output_cls=Verdict)))
        assert result.output == Verdict(good=True)

    subagent_api.run(scenario)


@pytest.mark.parametrize("task_type", [*TASKS, "cooking"])
def test_the_type_of_a_task_is_reported_to_the_model(task_type: str) -> None:
    llm = ScriptedLLM("Done.")
    manager = ElfManager(Engine(llm, instructions="Be brief."))
    manager.spawn(ElfConfig("Work.", task_type=task_type, background=False))
    brief, task, message = texts(llm.requests[0].messages)
    assert (brief, message) == ("Be brief.", "Work.")
    assert task.startswith(TASKS.get(task_type, TASKS["generation"]))


def test_a_configuration_makes_sense() -> None:
    with pytest.raises(ValueError, match="timeout=0 leaves an elf no time"):
        ElfConfig(timeout=0)
    with pytest.raises(ValueError, match="max_rounds=0"):
        ElfConfig(max_rounds=0)
    with pytest.raises(ValueError, match="max_depth=0"):
        ElfManager(Engine(Mirror()), max_depth=0)


# E19: a manager.


def test_three_elves(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(Mirror()))
        started = [await subagent_api.spawn(manager, name) for name in ("one", "two", "three")]
        assert manager.list() == tuple(started)
        results = await subagent_api.wait_all(manager)
        assert [result.output for result in results] == ["about one", "about two", "about three"]
        assert manager.active == 0
        assert manager.get(started[1].id) is started[1]
        manager.cleanup()
        assert manager.list() == ()
        await subagent_api.send(started[1], "four")
        assert manager.list() == (started[1],)
        assert (await subagent_api.wait(started[1])).output == "about four"

    subagent_api.run(scenario)


def test_cancel_all_stops_all(subagent_api: SubagentAPI) -> None:
    gates = [Gate() for _ in range(3)]

    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(CALL, CALL, CALL)))
        for gate in gates:
            await subagent_api.spawn(manager, ElfConfig("Wait.", tools=[gate.hold]))
            await subagent_api.happens(gate.begun)
        manager.cleanup()
        assert (manager.active, len(manager.list())) == (3, 3)
        manager.cancel_all()
        assert [result.status for result in await subagent_api.wait_all(manager)] == ["cancelled"] * 3
        assert manager.active == 0

    try:
        subagent_api.run(scenario)
    finally:
        for gate in gates:
            gate.opened.set()


def test_no_such_elf() -> None:
    manager = ElfManager(Engine(Mirror()))
    with pytest.raises(LookupError, match="there is no elf 'elf-0'; there are: none"):
        manager.get("elf-0")


# E20: the conversation goes on; cancellation and permissions are inherited.


def test_what_was_sent_is_remembered(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        llm = ScriptedLLM("Hello Ann.", "You are Ann.")
        elf = await subagent_api.spawn(ElfManager(Engine(llm)), "I am Ann.")
        first = await subagent_api.wait(elf)
        await subagent_api.send(elf, "Who am I?")
        second = await subagent_api.wait(elf)
        assert texts(llm.requests[1].messages)[1:] == ["I am Ann.", "Hello Ann.", "Who am I?"]
        assert (first.output, second.output) == ("Hello Ann.", "You are Ann.")
        assert texts(second.messages) == ["You are Ann."]
        assert second.usage.total_tokens == 15

    subagent_api.run(scenario)


def test_a_running_elf_is_reported_nothing(subagent_api: SubagentAPI, gate: Gate) -> None:
    async def scenario() -> None:
        elf = await subagent_api.spawn(ElfManager(Engine(ScriptedLLM(CALL, "Done."), [gate.hold])), "Wait.")
        await subagent_api.happens(gate.begun)
        with pytest.raises(IllegalState, match="is running") as raised:
            await subagent_api.send(elf, "Hurry!")
        assert raised.value.state == "running"
        gate.opened.set()
        assert (await subagent_api.wait(elf)).output == "Done."

    subagent_api.run(scenario)


@pytest.mark.parametrize("background", [True, False])
def test_a_sync_elf_obeys_who_started_it(subagent_api: SubagentAPI, background: bool) -> None:
    async def scenario() -> None:
        mine = ToolContext[None](cancellation=Cancellation())
        llm = ScriptedLLM(ToolCallPart("c", "stop", "{}"), "Went on.")

        def stop() -> str:
            """Cancel the turn of who started the elf."""
            mine.cancellation.cancel()
            return "stopped"

        manager = ElfManager(Engine(llm, [stop]))
        elf = await subagent_api.spawn(manager, ElfConfig("Work.", background=background), context=mine)
        result = await subagent_api.wait(elf)
        assert result.status == ("completed" if background else "cancelled")
        assert len(llm.requests) == (2 if background else 1)

    subagent_api.run(scenario)


def test_what_is_cancelled_already_starts_nothing(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        llm = ScriptedLLM()
        mine = ToolContext[None](cancellation=Cancellation(), spending=BudgetTracker())
        mine.cancellation.cancel()
        manager = ElfManager(Engine(llm))
        elf = await subagent_api.spawn(manager, ElfConfig("Work.", background=False), context=mine)
        result = await subagent_api.wait(elf)
        assert (result.status, result.messages, elf.engine.history, llm.requests) == ("cancelled", (), (), [])

    subagent_api.run(scenario)


@pytest.mark.fault(132)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_sync_elf_is_cancelled_with_the_task_that_waits(backend: str) -> None:
    async def main() -> None:
        begun = anyio.Event()

        async def hold() -> None:
            """Wait."""
            begun.set()
            await anyio.sleep_forever()

        manager = ElfManager(Engine(ScriptedLLM(CALL, "Later."), [hold]))
        living = tasks_living()
        async with anyio.create_task_group() as group:
            group.start_soon(manager.aspawn, ElfConfig("Wait.", background=False))
            await begun.wait()
            group.cancel_scope.cancel()
        assert tasks_living() == living
        (elf,) = manager.list()
        assert (elf.status, manager.active, manager.depth) == ("cancelled", 0, 0)
        assert elf.engine.state == "idle"
        await elf.asend("And?")
        assert (await elf).output == "Later."

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_background_elf_leaves_no_task(backend: str) -> None:
    async def main() -> None:
        manager = ElfManager(Engine(ScriptedLLM("One.", CALL), [anyio.sleep_forever]))
        living = tasks_living()
        await (await manager.aspawn("Work."))
        (await manager.aspawn("Work.")).cancel()
        assert [result.status for result in await manager.await_all()] == ["completed", "cancelled"]
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        assert tasks_living() == living

    anyio.run(main, backend=backend)


def test_an_elf_ends_with_its_event_loop() -> None:
    import asyncio

    started: list[Elf] = []

    async def main() -> None:
        manager = ElfManager(Engine(ScriptedLLM(CALL), [CallableTool.from_function(anyio.sleep_forever, "hold")]))
        started.append(await manager.aspawn("Wait."))

    asyncio.run(main())
    result = started[0].wait(PATIENCE)
    assert result.status == "cancelled"
    assert isinstance(result.error, TurnCancelled)
    assert str(result.error) == f"{result.id} was cancelled: the task or the event loop in which it worked has ended"
    assert isinstance(result.error.__cause__, asyncio.CancelledError)


@pytest.mark.parametrize("background", [True, False])
def test_no_one_can_be_asked(subagent_api: SubagentAPI, background: bool) -> None:
    asked: list[Any] = []

    def approve(request: Any) -> bool:
        asked.append(request)
        return True

    async def scenario() -> None:
        llm = ScriptedLLM(ToolCallPart("c", "double", '{"n": 4}'), "I may not.")
        manager = ElfManager(Engine(llm, [double], permissions=Permissions("default", approve=approve)))
        result = await subagent_api.wait(
            await subagent_api.spawn(manager, ElfConfig("Double 4.", background=background))
        )
        assert result.output == "I may not."
        (answer,) = (part for message in result.messages if message.role == "tool" for part in message.parts)
        assert answer.is_error  # type: ignore[union-attr]  # it is a result
        assert asked == []

    subagent_api.run(scenario)


def test_the_call_that_waits_sees_events(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        text: list[ToolProgress] = []
        context = ToolContext[None]("call_9", "research", on_progress=text.append)
        manager = ElfManager(Engine(ScriptedLLM("Found.")))
        elf = await subagent_api.spawn(manager, ElfConfig("Look.", background=False), context=context)
        assert [message.data for message in text] == [
            ElfEvent(elf.id, event) for event in await subagent_api.events(elf)
        ]
        assert {message.call_id for message in text} == {"call_9"}

    subagent_api.run(scenario)


# Limits.


def test_no_more_than_so_many_at_once(subagent_api: SubagentAPI, gate: Gate) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM("First.", CALL, "Done."), [gate.hold]), max_elves=1)
        first = await subagent_api.spawn(manager, "Work.")
        await subagent_api.wait(first)
        second = await subagent_api.spawn(manager, "Wait.")
        with pytest.raises(IllegalState, match=r"1 elves are running, and no more may; .*max_elves"):
            await subagent_api.spawn(manager, "Work.")
        with pytest.raises(IllegalState, match="max_elves"):
            await subagent_api.send(first, "Go on.")
        assert (manager.list(), first.status) == ((first, second), "completed")
        gate.opened.set()
        assert (await subagent_api.wait(second)).output == "Done."

    subagent_api.run(scenario)


@pytest.mark.parametrize("background", [True, False])
def test_no_deeper_than_so_deep(subagent_api: SubagentAPI, background: bool) -> None:
    async def scenario() -> None:
        depths: list[int] = []
        every: list[ElfResult] = []

        def deeper() -> str:
            """Start another, in a thread or task as it comes."""
            depths.append(manager.depth)
            every.append(manager.spawn(ElfConfig("Go deeper.", background=background)).wait(PATIENCE))
            return "came back"

        async def adeeper() -> str:
            """Start another, in a thread or task as it comes."""
            depths.append(manager.depth)
            every.append(await (await manager.aspawn(ElfConfig("Go deeper.", background=background))))
            return "came back"

        tool = CallableTool.from_function(deeper, "deeper")
        tool = replace(tool, async_function=adeeper)
        call = ToolCallPart("c", "deeper", "{}")
        llm = ScriptedLLM(call, call, "At the bottom.", "On top.")
        manager = ElfManager(Engine(llm, [tool]), max_depth=2)
        elf = await subagent_api.spawn(manager, ElfConfig("Go deeper.", background=background))
        assert (await subagent_api.wait(elf)).output == "On top."
        assert (depths, manager.depth) == ([1, 2], 0)
        assert [result.output for result in every] == ["At the bottom."]
        assert [elf.depth for elf in manager.list()] == [1, 2]
        (refused,) = (part for message in every[0].messages if message.role == "tool" for part in message.parts)
        assert "an elf at depth 2 may not start another" in refused.content  # type: ignore[union-attr]  # a result

    subagent_api.run(scenario)


def test_what_cannot_begin_takes_no_place() -> None:
    manager = ElfManager(Engine(Mirror()), max_elves=1)
    with pytest.raises(ValueError, match="no message, and no history"):
        manager._create(ElfConfig(), None).send([])
    assert (manager.active, manager.list()) == (0, ())
    assert manager.spawn(ElfConfig("this", background=False)).wait().output == "about this"


@pytest.mark.parametrize(("module", "name"), [(elves, "start_job"), (elf_runs, "Timer")])
def test_a_thread_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    def fail(*args: object, **options: object) -> None:
        raise RuntimeError("can't start new thread")

    manager = ElfManager(Engine(Mirror()))
    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="can't start"):
        patched.setattr(module, name, fail)
        manager.spawn(ElfConfig("this", background=module is elves))
    (elf,) = manager.list()
    assert (elf.wait().status, manager.active, elf.engine.history) == ("failed", 0, ())
    elf.send("that")
    assert elf.wait(PATIENCE).output == "about that"


# Budgets.


@pytest.mark.fault(132)
def test_elves_spend_what_their_manager_may(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        engine = Engine(Mirror(), budget=Budget(tokens=30))
        manager = ElfManager(engine)
        results = [await subagent_api.wait(await subagent_api.spawn(manager, name)) for name in "abc"]
        assert [result.status for result in results] == ["completed", "completed", "failed"]
        assert isinstance(results[2].error, BudgetExceeded)
        assert engine.conversation.spending.usage.total_tokens == 30

    subagent_api.run(scenario)


def test_many_elves_count_together(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        spending = BudgetTracker()
        manager = ElfManager(Engine(Mirror()), max_elves=50)
        for number in range(50):
            await subagent_api.spawn(manager, str(number), context=ToolContext[None](spending=spending))
        results = await subagent_api.wait_all(manager)
        assert [result.output for result in results] == [f"about {number}" for number in range(50)]
        assert spending.usage.total_tokens == 50 * 15
        assert manager.engine.conversation.spending.usage.total_tokens == 0

    subagent_api.run(scenario)


def test_an_elf_has_a_budget_of_its_own(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(*[ToolCallPart("c", "double", '{"n": 4}')] * 9), [double]))
        manager.budget = Budget(tokens=30)
        result = await subagent_api.wait(await subagent_api.spawn(manager, "Double."))
        assert (result.status, result.usage.total_tokens) == ("failed", 30)
        own = await subagent_api.wait(await subagent_api.spawn(manager, ElfConfig("Double.", budget=Budget(tokens=45))))
        assert own.usage.total_tokens == 45
        assert manager.engine.conversation.spending.usage.total_tokens == 75

    subagent_api.run(scenario)


@pytest.mark.fault(132)
def test_the_time_of_who_started_it_runs_out(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        clock = VirtualClock()

        def dawdle() -> None:
            """Take an hour."""
            clock.sleep(3600)

        llm = ScriptedLLM(ToolCallPart("c", "dawdle", "{}"), "Too late.")
        llm.clock = clock
        spending = BudgetTracker(Budget(seconds=60))
        spending.begin(clock.now())
        elf = await subagent_api.spawn(
            ElfManager(Engine(llm, [dawdle])), "Work.", context=ToolContext[None](spending=spending)
        )
        result = await subagent_api.wait(elf)
        assert isinstance(result.error, BudgetExceeded)
        assert (result.error.limit, len(llm.requests)) == ("seconds", 1)

    subagent_api.run(scenario)


# States, and what is no use.


@pytest.mark.parametrize("kind", [SyncElf, BackgroundElf])
def test_an_elf_by_itself(subagent_api: SubagentAPI, kind: type[Elf]) -> None:
    async def scenario() -> None:
        seen: list[tuple[str, str]] = []
        elf = kind(Engine(Mirror()), ElfConfig(), observer=lambda id, status: seen.append((id, status)))
        assert elf.status == "pending"
        for use in (elf.wait, elf.events, elf.aevents, elf.__await__):
            with pytest.raises(IllegalState, match="has no run yet") as raised:
                use()
            assert raised.value.state == "pending"
        elf.cancel()
        result = await subagent_api.wait(elf)
        assert (elf.status, result.status, result.messages) == ("cancelled", "cancelled", ())
        assert await subagent_api.events(elf) == []
        await subagent_api.send(elf, "this")
        assert (await subagent_api.wait(elf)).output == "about this"
        assert seen == [(elf.id, status) for status in ("cancelled", "running", "completed")]

    subagent_api.run(scenario)


@given(st.lists(st.sampled_from(["answer", "fail", "cancel"]), max_size=12))
def test_every_way_through_the_states(steps: list[str]) -> None:
    answers = ["Yes." if step == "answer" else ServerError("no") for step in steps if step != "cancel"]
    seen: list[str] = []
    elf = SyncElf(Engine(ScriptedLLM(*answers)), ElfConfig(), observer=lambda id, status: seen.append(status))
    expected = "pending"
    for step in steps:
        if step == "cancel":
            elf.cancel()
            expected = "cancelled" if expected == "pending" else expected
        else:
            elf.send("Well?")
            expected = {"answer": "completed", "fail": "failed"}[step]
        assert elf.status == expected
        assert elf.wait().status == expected
    walked = ["pending", *seen]
    assert all(target in ELF[state].values() for state, target in pairwise(walked))
