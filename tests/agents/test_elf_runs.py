"""One run of an elf: it has one result, whatever hangs, and nobody has to read its events (E17)."""

from __future__ import annotations

import sys
import threading

import pytest

from elf_ways import CALL, PATIENCE, Gate, Mirror, Ways
from toolcast.agents import elf_runs
from toolcast.agents.elves import ElfConfig, ElfManager
from toolcast.agents.engine import Engine
from toolcast.errors import IllegalState
from toolcast.events import TextDelta, ToolResult
from toolcast.messages import ToolCallPart
from toolcast.testing import ScriptedLLM


@pytest.mark.parametrize("background", [True, False])
def test_time_runs_out_while_a_tool_hangs(ways: Ways, gate: Gate, background: bool) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(CALL, "Sorry."), [gate.hold]))
        elf = await ways.spawn(manager, ElfConfig("Wait.", timeout=0.03, background=background))
        result = await ways.wait(elf)
        assert (result.status, manager.active) == ("failed", 0)
        assert isinstance(result.error, TimeoutError)
        assert str(result.error) == f"{elf.id} was not done after 0.03 seconds; give it more timeout="
        assert result.messages[0].tool_calls
        assert [message.role for message in elf.engine.history] == ["user", "assistant", "tool"]

    ways.run(scenario)


@pytest.mark.parametrize("way", ["cancel", "timeout"])
def test_who_does_not_stop_is_given_up(gate: Gate, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(elf_runs, "GRACE", 0.02)
    manager = ElfManager(Engine(Mirror(lambda said: gate.hold())))
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


def test_events_are_there_for_who_wants_them(ways: Ways) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM("x" * 4000, "Again.", chunk=1)))
        elf = await ways.spawn(manager, "Write.")
        assert len((await ways.wait(elf)).output) == 4000
        for _ in range(2):
            assert sum(type(event) is TextDelta for event in await ways.events(elf)) == 4000
        await ways.send(elf, "Once more.")
        assert "".join(event.text for event in await ways.events(elf) if type(event) is TextDelta) == "Again."

    ways.run(scenario)


@pytest.mark.parametrize("background", [True, False])
def test_an_elf_cannot_wait_for_itself(background: bool) -> None:
    def ponder() -> str:
        """Wait for oneself."""
        (elf,) = manager.list()
        return str(elf.wait())

    llm = ScriptedLLM(ToolCallPart("c", "ponder", "{}"), "I could not.")
    manager = ElfManager(Engine(llm, [ponder]), timeout=None)
    elf = manager.spawn(ElfConfig("Ponder.", background=background))
    (said,) = [event for event in elf.events() if isinstance(event, ToolResult)]
    assert f"{elf.id} works in the thread that would wait for it" in said.content
    assert elf.wait(PATIENCE).output == "I could not."


async def test_a_task_cannot_block_its_event_loop() -> None:
    elf = await ElfManager(Engine(Mirror())).aspawn("this")
    with pytest.raises(RuntimeError, match="use `await` instead"):
        elf.wait()
    assert (await elf).output == "about this"


def test_the_program_is_told_to_end_while_a_sync_elf_works() -> None:
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
