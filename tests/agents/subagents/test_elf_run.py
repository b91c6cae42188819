"""One run of an elf: it has one result, whatever hangs, even if its events are never read (E17)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from support.subagents import CALL, PATIENCE, Gate, Mirror, SubagentAPI
from toolcast.agents.engine.engine import Engine
from toolcast.agents.subagents import elf_run, elf_run as elf_runs
from toolcast.agents.subagents.elves import Elf, ElfConfig, ElfManager
from toolcast.async_support import sync_driver
from toolcast.errors import IllegalState
from toolcast.events import TextDelta, ToolResult
from toolcast.messages import ToolCallPart
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import CallableTool


def calls(name: str) -> ToolCallPart:
    return ToolCallPart("c", name, "{}")


def both(function: Callable[[], Awaitable[str]]) -> CallableTool:
    """A tool for both APIs; under the sync one `function` never suspends."""

    def sync() -> str:
        return sync_driver.run(function())  # type: ignore[arg-type]  # it is a coroutine

    tool = CallableTool.from_function(sync, function.__name__)  # type: ignore[attr-defined]  # it is a function
    return replace(tool, async_function=function)


@pytest.fixture
def time_of_the_gate(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time run before the tool has begun to wait at the gate."""

    class Delayed(threading.Timer):
        def run(self) -> None:
            gate.begun.wait(PATIENCE)
            super().run()

    monkeypatch.setattr(elf_runs, "Timer", Delayed)


@pytest.mark.usefixtures("time_of_the_gate")
@pytest.mark.parametrize("background", [True, False])
def test_time_runs_out_while_a_tool_hangs(subagent_api: SubagentAPI, gate: Gate, background: bool) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(CALL, "Sorry."), [gate.hold]))
        elf = await subagent_api.spawn(manager, ElfConfig("Wait.", timeout=0.03, background=background))
        result = await subagent_api.wait(elf)
        assert (result.status, manager.active) == ("failed", 0)
        assert isinstance(result.error, TimeoutError)
        assert str(result.error) == f"{elf.id} was not done after 0.03 seconds; give it more timeout="
        assert result.messages[0].tool_calls
        assert [message.role for message in elf.engine.history] == ["user", "assistant", "tool"]
        gate.opened.set()  # the end of the test waits for the thread of the tool

    subagent_api.run(scenario)


@pytest.mark.usefixtures("time_of_the_gate")
@pytest.mark.parametrize("way", ["cancel", "timeout"])
def test_who_does_not_stop_is_given_up(gate: Gate, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(elf_runs, "GRACE", 0.02)
    manager = ElfManager(Engine(Mirror(lambda message: gate.hold())))
    elf = manager.spawn(ElfConfig("Work.", timeout=0.02 if way == "timeout" else None))
    assert gate.begun.wait(PATIENCE)
    if way == "cancel":
        elf.cancel()
    result = elf.wait(PATIENCE)
    assert (result.status, manager.active) == (("cancelled" if way == "cancel" else "failed"), 0)
    assert list(elf.events()) == []
    with pytest.raises(IllegalState, match="streaming"):
        elf.send("Hello?")
    assert manager.active == 0
    gate.opened.set()
    (thread,) = (thread for thread in threading.enumerate() if thread.name == elf.id)
    thread.join(PATIENCE)
    assert elf.wait() is result
    assert list(elf.events()) == []
    assert elf.status == result.status


def test_the_time_of_a_wait_runs_out(gate: Gate) -> None:
    manager = ElfManager(Engine(ScriptedLLM(CALL, "Done."), [gate.hold]))
    elf = manager.spawn("Wait.")
    with pytest.raises(TimeoutError, match="is still running"):
        elf.wait(0.001)
    with pytest.raises(TimeoutError, match="is still running"):
        manager.wait_all(0.001)
    gate.opened.set()
    assert manager.wait_all(PATIENCE)[0].output == "Done."


def test_without_a_time_limit_there_is_no_alarm() -> None:
    elf = ElfManager(Engine(Mirror()), timeout=None).spawn(ElfConfig("this", background=False))
    assert elf.config.timeout is None
    assert elf.wait().output == "about this"


def test_events_are_there_for_who_wants_them(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM("x" * 4000, "Again.", chunk=1)))
        elf = await subagent_api.spawn(manager, "Write.")
        assert len((await subagent_api.wait(elf)).output) == 4000
        for _ in range(2):
            assert sum(type(event) is TextDelta for event in await subagent_api.events(elf)) == 4000
        await subagent_api.send(elf, "Once more.")
        assert "".join(event.text for event in await subagent_api.events(elf) if type(event) is TextDelta) == "Again."

    subagent_api.run(scenario)


@pytest.mark.parametrize("background", [True, False])
def test_an_elf_cannot_wait_for_itself(background: bool) -> None:
    def ponder() -> str:
        """Wait for oneself."""
        (elf,) = manager.list()
        return str(elf.wait())

    llm = ScriptedLLM(ToolCallPart("c", "ponder", "{}"), "I could not.")
    manager = ElfManager(Engine(llm, [ponder]), timeout=None)
    elf = manager.spawn(ElfConfig("Ponder.", background=background))
    (message,) = [event for event in elf.events() if isinstance(event, ToolResult)]
    assert f"{elf.id} may not wait for itself" in message.content
    assert elf.wait(PATIENCE).output == "I could not."


def test_an_elf_cannot_wait_for_whom_it_works_for(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        refused: list[str] = []

        async def ask(elf: Elf) -> None:
            with pytest.raises(IllegalState) as caught:
                await subagent_api.wait(elf)
            refused.append(str(caught.value))

        async def start() -> str:
            elf = await subagent_api.spawn(manager, "Look up.")
            return (await subagent_api.wait(elf)).output

        async def look() -> str:
            for elf in manager.list():
                await ask(elf)
            return "looked"

        llm = ScriptedLLM(calls("start"), calls("look"), "Refused.", "Good.")
        manager = ElfManager(Engine(llm, [both(start), both(look)]), timeout=None)
        first = await subagent_api.spawn(manager, "Start.")
        assert (await subagent_api.wait(first)).output == "Good."
        second = manager.list()[1]
        assert refused == [
            f"{second.id} may not wait for {first.id}, which it works for; end your own task first, with what you know",
            f"{second.id} may not wait for itself; end your own task first, with what you know",
        ]

    subagent_api.run(scenario)


def test_elves_do_not_wait_for_each_other(subagent_api: SubagentAPI, gate: Gate) -> None:
    async def scenario() -> None:
        elves: list[Elf] = []
        waiting = threading.Event()

        async def first_waits() -> str:
            await subagent_api.happens(gate.opened)
            with elves[1].expected():
                waiting.set()
                return (await subagent_api.wait(elves[1])).output

        async def second_waits() -> str:
            await subagent_api.happens(waiting)
            with pytest.raises(IllegalState, match=f"may not wait for {elves[0].id}, which waits for it"):
                await subagent_api.wait(elves[0])
            return "refused"

        llm = Mirror(lambda message: calls(message.text) if message.role == "user" else "Done.")
        manager = ElfManager(Engine(llm, [both(first_waits), both(second_waits)]), timeout=None)
        elves += [await subagent_api.spawn(manager, "first_waits"), await subagent_api.spawn(manager, "second_waits")]
        gate.opened.set()
        assert [result.output for result in await subagent_api.wait_all(manager)] == ["Done.", "Done."]
        for result in await subagent_api.wait_all(manager):
            assert not result.messages[1].parts[0].is_error  # type: ignore[union-attr]  # it is a result
        assert elf_run._waits == []

    subagent_api.run(scenario)


def test_an_elf_waits_for_whom_it_works_for_once_there_is_a_result(gate: Gate) -> None:
    def hold() -> str:
        """Wait until the other has ended."""
        gate.hold()
        return str(manager.list()[0].wait().output)

    def start() -> str:
        """Start another."""
        return manager.spawn("hold").id

    llm = Mirror(lambda message: calls(message.text) if message.role == "user" else message.parts[0].content)  # type: ignore[union-attr]  # a result
    manager = ElfManager(Engine(llm, [start, hold]), timeout=None)
    first = manager.spawn("start").wait(PATIENCE)
    gate.opened.set()
    assert manager.get(first.output).wait(PATIENCE).output == first.output


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"))))
def test_no_one_waits_in_a_circle(wishes: list[tuple[str, str]]) -> None:
    with ExitStack() as leaving:
        granted: list[tuple[str, str]] = []
        for who, whom in wishes:
            token = elf_run.ELF_CHAIN.set(("the program", who))
            try:
                leaving.enter_context(elf_run.waiting_for(whom))
                granted.append((who, whom))
            except IllegalState:
                assert who in reached(whom, granted)
            else:
                assert who not in reached(whom, granted)
            finally:
                elf_run.ELF_CHAIN.reset(token)
    assert elf_run._waits == []


def reached(start: str, pairs: list[tuple[str, str]]) -> set[str]:
    """Whom `start` waits for, itself included."""
    found = {start}
    for _ in pairs:
        found |= {whom for who, whom in pairs if who in found}
    return found


async def test_a_task_cannot_block_its_event_loop() -> None:
    elf = await ElfManager(Engine(Mirror())).aspawn("this")
    with pytest.raises(RuntimeError, match="use `await` instead"):
        elf.wait()
    assert (await elf).output == "about this"


def test_the_program_is_reported_to_end_while_a_sync_elf_works() -> None:
    def quit() -> None:
        """End the program."""
        sys.exit(3)

    def interrupt() -> None:
        """As Ctrl-C does."""
        raise KeyboardInterrupt

    for tool, status in ((quit, "failed"), (interrupt, "cancelled")):
        manager = ElfManager(Engine(ScriptedLLM(ToolCallPart("c", tool.__name__, "{}")), [tool]), timeout=None)
        with pytest.raises((SystemExit, KeyboardInterrupt)):
            manager.spawn(ElfConfig("Work.", background=False))
        (elf,) = manager.list()
        assert (elf.wait().status, manager.active, manager.depth) == (status, 0, 0)
