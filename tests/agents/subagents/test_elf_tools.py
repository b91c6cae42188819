"""The tools with which a model starts elves, used by a model, through the sync API, asyncio and trio."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from support.subagents import CALL, PATIENCE, Gate, Mirror, SubagentAPI
from toolcast.agents.engine.engine import Engine
from toolcast.agents.subagents.elf_run import ElfEvent
from toolcast.agents.subagents.elf_tools import MAX_TASKS, OUTPUT_LIMIT
from toolcast.agents.subagents.elves import TASKS, ElfConfig, ElfManager
from toolcast.errors import ServerError, TurnCancelled
from toolcast.events import Finish, StopReason, TextDelta, ToolProgress
from toolcast.messages import Message, ToolCallPart, ToolResultPart
from toolcast.testing import ScriptedLLM
from toolcast.values.budgets import Budget
from toolcast.values.turn import Turn


def calls(name: str, /, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(f"call_{name}", name, json.dumps(arguments))


def lead_of(manager: ElfManager, *answers: Any, **options: Any) -> Engine:
    """An engine whose model makes the calls in `answers`, and is content then."""
    return Engine(ScriptedLLM(*answers, "I see."), manager.tools(), **options)


def tool_results(turn: Turn[None]) -> list[ToolResultPart]:
    """Return the tool results that the model got."""
    return [part for message in turn.messages for part in message.parts if isinstance(part, ToolResultPart)]


# One elf.


def test_a_model_gives_a_task_away(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        llm = ScriptedLLM("Line 7 is wrong.")
        manager = ElfManager(Engine(llm))
        lead = lead_of(manager, calls("agent", prompt="Read this.", task_type="review"))
        turn = await subagent_api.submit(lead, "Is it right?")
        assert [(part.content, part.is_error) for part in tool_results(turn)] == [("Line 7 is wrong.", False)]
        task, message = llm.requests[0].messages
        assert task.text.startswith(TASKS["review"])
        assert message.text == "Read this."
        assert turn.usage.total_tokens == 30
        assert lead.conversation.spending.usage.total_tokens == 45
        (elf,) = manager.list()
        assert (elf.status, elf.depth, manager.active) == ("completed", 1, 0)

    subagent_api.run(scenario)


def test_who_follows_the_turn_sees_the_elf() -> None:
    manager = ElfManager(Engine(ScriptedLLM("Found it.")))
    stream = lead_of(manager, calls("agent", prompt="Look.")).stream("Where is it?")
    seen = [event.data for event in stream if isinstance(event, ToolProgress)]
    (elf,) = manager.list()
    assert seen == [ElfEvent(elf.id, event) for event in elf.events()]
    assert "".join(seen.event.text for seen in seen if isinstance(seen.event, TextDelta)) == "Found it."


def test_an_elf_that_fails_is_no_failure_of_the_turn(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(ServerError("no power"))))
        turn = await subagent_api.submit(lead_of(manager, calls("agent", prompt="Work.")), "Go.")
        (part,) = tool_results(turn)
        assert part.is_error
        assert f"{manager.list()[0].id} failed: no power" in part.content
        assert turn.text == "I see."

    subagent_api.run(scenario)


@pytest.mark.parametrize(
    ("text", "end", "content"),
    [
        ("Line 7 is", "max_tokens", "({} did not finish this answer; it ended with 'max_tokens'.)\n\nLine 7 is"),
        ("I will not.", "refusal", "({} did not finish this answer; it ended with 'refusal'.)\n\nI will not."),
        (" ", "content_filter", "({} gave no answer; its turn ended with 'content_filter'.)"),
    ],
)
def test_how_an_answer_ended_is_seen_by_the_model(
    subagent_api: SubagentAPI, text: str, end: StopReason, content: str
) -> None:
    async def scenario() -> None:
        answer = [TextDelta(text), Finish(end)]
        manager = ElfManager(Engine(ScriptedLLM(answer, answer)))
        many = calls("spawn_elves", tasks=[{"prompt": "Read this."}])
        turn = await subagent_api.submit(lead_of(manager, calls("agent", prompt="Read this."), many), "Is it right?")
        first, second = manager.list()
        expected = [content.format(first.id), f"Task 1: {second.id} completed: {content.format(second.id)}"]
        assert [part.content for part in tool_results(turn)] == expected
        assert (await subagent_api.wait(first)).end == end

    subagent_api.run(scenario)


def test_an_elf_whose_time_is_up(subagent_api: SubagentAPI, gate: Gate) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(CALL), [gate.hold]), timeout=0.03)
        (part,) = tool_results(await subagent_api.submit(lead_of(manager, calls("agent", prompt="Wait.")), "Go."))
        assert part.is_error
        assert "was not done after 0.03 seconds" in part.content

    subagent_api.run(scenario)


def test_an_answer_that_is_fetched_later(subagent_api: SubagentAPI, gate: Gate) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(CALL, "At last."), [gate.hold]))
        lead = lead_of(manager, calls("agent", prompt="Wait.", wait=False))
        (part,) = tool_results(await subagent_api.submit(lead, "Go."))
        (elf,) = manager.list()
        assert part.content == f"{elf.id} is at work; agent_result(id='{elf.id}') gives its answer"
        assert (elf.status, lead.state) == ("running", "idle")
        gate.opened.set()
        fetching = lead_of(manager, calls("agent_result", id=elf.id))
        assert tool_results(await subagent_api.submit(fetching, "And?"))[0].content == "At last."
        assert lead.conversation.spending.usage.total_tokens == 60

    subagent_api.run(scenario)


def test_an_elf_that_was_never_started(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(Mirror()))
        (part,) = tool_results(await subagent_api.submit(lead_of(manager, calls("agent_result", id="elf-0")), "And?"))
        assert part.is_error
        assert "there is no elf 'elf-0'" in part.content

    subagent_api.run(scenario)


def test_an_elf_that_asks_for_its_own_answer(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        llm = Mirror(lambda text: calls("agent_result", id=manager.list()[0].id) if text.role == "user" else "I see.")
        manager = ElfManager(Engine(llm), timeout=None)
        elf = await subagent_api.spawn(manager, ElfConfig("Wait.", tools=manager.tools()))
        (part,) = [part for message in (await subagent_api.wait(elf)).messages[1:2] for part in message.parts]
        assert isinstance(part, ToolResultPart)
        assert part.is_error
        assert f"{elf.id} may not wait for itself; end your own task first" in part.content

    subagent_api.run(scenario)


def test_who_stops_waiting_stops_nothing(gate: Gate) -> None:
    manager = ElfManager(Engine(ScriptedLLM(CALL, "At last."), [gate.hold]))
    elf = manager.spawn("Wait.")
    lead = lead_of(manager, calls("agent_result", id=elf.id))
    events = iter(lead.stream("And?"))
    waiting = threading.Thread(target=list, args=(events,))
    waiting.start()
    assert gate.begun.wait(PATIENCE)
    while lead.state != "tool_exec":
        pass
    lead.cancel()
    waiting.join(PATIENCE)
    for thread in threading.enumerate():
        if thread.name == "tool agent_result":
            thread.join(PATIENCE)
            assert not thread.is_alive()
    assert (lead.trace[-2:], elf.status) == (("cancelled", "idle"), "running")
    gate.opened.set()
    assert elf.wait(PATIENCE).output == "At last."


@pytest.mark.parametrize(
    "call",
    [calls("agent", prompt="Work."), calls("spawn_elves", tasks=[{"prompt": "Work."}])],
    ids=lambda call: call.name,
)
def test_an_elf_is_cancelled_with_the_turn_that_waits(
    subagent_api: SubagentAPI, gate: Gate, call: ToolCallPart
) -> None:
    async def scenario() -> None:
        def stop() -> str:
            """Cancel the turn."""
            lead.cancel()
            return gate.hold()

        manager = ElfManager(Engine(ScriptedLLM(calls("stop"), "Went on."), [stop]))
        lead = lead_of(manager, call)
        with pytest.raises(TurnCancelled):
            await subagent_api.submit(lead, "Go.")
        (result,) = await subagent_api.wait_all(manager)
        assert (result.status, manager.active, lead.state) == ("cancelled", 0, "idle")
        assert lead.history[-1].role == "tool"

    subagent_api.run(scenario)


# Several elves.


def test_several_elves_at_the_same_time(subagent_api: SubagentAPI) -> None:
    meeting = threading.Barrier(3)

    def meet() -> int:
        """Wait for the others."""
        return meeting.wait(PATIENCE)

    def reply(message: Message) -> Any:
        return calls("meet") if message.role == "user" else "We have met."

    async def scenario() -> None:
        manager = ElfManager(Engine(Mirror(reply), [meet]))
        tasks = [{"prompt": f"Task {name}"} for name in "abc"]
        lead = lead_of(manager, calls("spawn_elves", tasks=tasks))
        (part,) = tool_results(await subagent_api.submit(lead, "Go."))
        assert [elf.status for elf in manager.list()] == ["completed"] * 3
        ids = [elf.id for elf in manager.list()]
        lines = [f"Task {number}: {id} completed: We have met." for number, id in enumerate(ids, 1)]
        assert part.content == "\n\n".join(lines)
        assert lead.conversation.spending.usage.total_tokens == 2 * 15 + 3 * 30

    subagent_api.run(scenario)


def test_what_goes_wrong_is_reported_for_each_task(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(ServerError("no power"))), max_elves=1)
        lead = lead_of(manager, calls("spawn_elves", tasks=[{"prompt": "a"}]))
        (part,) = tool_results(await subagent_api.submit(lead, "Go."))
        assert part.content == f"Task 1: {manager.list()[0].id} failed: no power"
        assert not part.is_error

    subagent_api.run(scenario)


def test_more_tasks_than_may_run(subagent_api: SubagentAPI, gate: Gate) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM(CALL), [gate.hold]), max_elves=1)
        waiting = await subagent_api.spawn(manager, "Wait.")
        lead = lead_of(manager, calls("spawn_elves", tasks=[{"prompt": "a"}, {"prompt": "b"}]))
        first, second = tool_results(await subagent_api.submit(lead, "Go."))[0].content.split("\n\n")
        assert first.startswith("Task 1: not started: ")
        assert "1 elves are running" in first
        assert second.startswith("Task 2: not started: ")
        assert manager.list() == (waiting,)
        waiting.cancel()
        await subagent_api.wait(waiting)

    subagent_api.run(scenario)


def test_a_task_that_cannot_start(subagent_api: SubagentAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Engine.begin

    def fail(engine: Engine, message: Any, *rest: Any, **options: Any) -> Any:
        if message == "b":
            raise ValueError("this is not allowed")
        return begin(engine, message, *rest, **options)

    async def scenario() -> None:
        manager = ElfManager(Engine(Mirror()))
        lead = lead_of(manager, calls("spawn_elves", tasks=[{"prompt": prompt} for prompt in "abc"]))
        with monkeypatch.context() as patched:
            patched.setattr(Engine, "begin", fail)
            (part,) = tool_results(await subagent_api.submit(lead, "Go."))
        first, second, third = part.content.split("\n\n")
        assert first.endswith("completed: about a")
        assert second == "Task 2: not started: ValueError: this is not allowed"
        assert third.endswith("completed: about c")
        assert manager.active == 0

    subagent_api.run(scenario)


def test_long_answers_are_cut(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        manager = ElfManager(Engine(ScriptedLLM("x" * 5000)))
        lead = lead_of(manager, calls("spawn_elves", tasks=[{"prompt": "Write."}]))
        (part,) = tool_results(await subagent_api.submit(lead, "Go."))
        assert part.content.count("x") == OUTPUT_LIMIT
        assert part.content.endswith("[3000 characters left out]")

    subagent_api.run(scenario)


def test_rounds_are_limited() -> None:
    llm = ScriptedLLM(*[calls("spin")] * 3)
    manager = ElfManager(Engine(llm, [spin]))
    lead = lead_of(manager, calls("spawn_elves", tasks=[{"prompt": "Spin."}], max_turns=2))
    (part,) = tool_results(lead.submit("Go."))
    assert "failed: " in part.content
    assert len(llm.requests) == 2


def spin() -> str:
    """Turn around once."""
    return "round"


def test_elves_spend_what_their_turn_may(subagent_api: SubagentAPI) -> None:
    async def scenario() -> None:
        llm = ScriptedLLM(*[calls("spin")] * 9)
        manager = ElfManager(Engine(llm, [spin]))
        lead = lead_of(manager, calls("agent", prompt="Spin."), budget=Budget(tokens=45))
        with pytest.raises(Exception, match="the budget of 45 tokens is used up"):
            await subagent_api.submit(lead, "Go.")
        assert len(llm.requests) == 2
        assert "the budget of 45 tokens is used up" in str(manager.list()[0].wait().error)

    subagent_api.run(scenario)


# What is offered.


@pytest.mark.parametrize(
    "tasks", [[], [{"prompt": "x"}] * (MAX_TASKS + 1), [{"task_type": "review"}], [{"prompt": "x"}, {"prompt": ""}]]
)
def test_tasks_that_are_none(tasks: list[dict[str, str]]) -> None:
    manager = ElfManager(Engine(Mirror()))
    (part,) = tool_results(lead_of(manager, calls("spawn_elves", tasks=tasks)).submit("Go."))
    assert part.is_error
    assert manager.list() == ()


def test_as_many_tasks_as_may_be() -> None:
    manager = ElfManager(Engine(Mirror()))
    tasks = [{"prompt": str(number)} for number in range(MAX_TASKS)]
    (part,) = tool_results(lead_of(manager, calls("spawn_elves", tasks=tasks)).submit("Go."))
    assert [f"about {number}" in part.content for number in range(MAX_TASKS)] == [True] * MAX_TASKS


def test_a_choice_of_tasks_is_offered_but_not_enforced() -> None:
    manager = ElfManager(Engine(ScriptedLLM("Done.")))
    agent, result, several = manager.tools()
    assert (agent.name, result.name, several.name) == ("agent", "agent_result", "spawn_elves")
    assert agent.parameters["properties"]["task_type"]["enum"] == list(TASKS)
    assert list(agent.parameters["properties"]) == ["prompt", "task_type", "wait"]
    output = agent.call({"prompt": "Cook.", "task_type": "cooking"})
    assert output.content == "Done."
    assert manager.tools() == (agent, result, several)


def test_elves_have_the_last_word_on_their_time() -> None:
    assert {tool.timeout for tool in ElfManager(Engine(Mirror())).tools()} == {305.0}
    assert {tool.timeout for tool in ElfManager(Engine(Mirror()), timeout=None).tools()} == {None}


@pytest.mark.parametrize("max_depth", [1, 2, 3])
def test_elves_of_a_model_start_elves_while_they_may(subagent_api: SubagentAPI, max_depth: int) -> None:
    async def scenario() -> None:
        deeper = calls("agent", prompt="Go deeper.")
        llm = ScriptedLLM(*[deeper] * (max_depth - 1), *["Back."] * max_depth)
        manager = ElfManager(Engine(llm, [spin]), max_depth=max_depth)
        lead = lead_of(manager, deeper)
        assert tool_results(await subagent_api.submit(lead, "Go."))[0].content == "Back."
        assert [elf.depth for elf in manager.list()] == list(range(1, max_depth + 1))
        offered = [[tool.name for tool in request.tools] for request in llm.requests[:max_depth]]
        own = [tool.name for tool in manager.tools()]
        assert offered == [["spin", *own]] * (max_depth - 1) + [["spin"]]

    subagent_api.run(scenario)


def test_the_tools_of_another_manager_are_replaced() -> None:
    outer = ElfManager(Engine(ScriptedLLM()))
    llm = ScriptedLLM("Done.")
    manager = ElfManager(Engine(llm, [spin, *outer.tools()]))
    manager.tools()[0].call({"prompt": "Work."})
    assert llm.requests[0].tools[1:] == manager.tools()


def test_a_background_elf_keeps_the_manager_of_a_program() -> None:
    llm = ScriptedLLM("Done.")
    manager = ElfManager(Engine(llm, [spin]))
    manager.spawn(ElfConfig("Work.", background=False))
    assert [tool.name for tool in llm.requests[0].tools] == ["spin"]
