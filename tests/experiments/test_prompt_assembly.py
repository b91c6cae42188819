"""The prompt of a cycle: instructions, tools, reflections, an advisory."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from toolcast import CallableTool
from toolcast.experiments.cycles import ToolDispatcher
from toolcast.experiments.log_events import LogEvent
from toolcast.experiments.prompt_assembly import FINISH, INSTRUCTIONS, PromptAssembler
from toolcast.experiments.run_state import RunState


def look(place: Annotated[str, Field(description="where")], deep: bool = False) -> str:
    """Look somewhere."""
    return place


def anything(value: object) -> str:
    """Take anything."""
    return str(value)


TOOLS = [CallableTool.from_function(look, description="Look somewhere."), CallableTool.from_function(anything)]


def state_after(*reflections: str, advisory: str | None = None) -> RunState:
    state = RunState("first", opening="Begin cycle {cycle}.")
    for cycle, reflection in enumerate(reflections, 1):
        state.apply(LogEvent("CYCLE_START", cycle, {}))
        measures = {"advisory": advisory} if cycle == len(reflections) else {}
        state.apply(LogEvent("CYCLE_END", cycle, {"final_reflection": reflection}, measures))
    state.apply(LogEvent("CYCLE_START", len(reflections) + 1, {}))
    return state


def test_the_first_prompt() -> None:
    first, opening = PromptAssembler(TOOLS).build_prompt(state_after())
    assert first.role == "system" and first.text.startswith(INSTRUCTIONS.partition("{ending}")[0])
    assert "plain text and no tool call" in first.text
    assert "## Available Tools\n\n### look\nLook somewhere.\n" in first.text
    assert "  - place (string, required): where\n  - deep (boolean, optional)\n" in first.text
    assert "  - value (any, required)" in first.text
    assert "Reflections" not in first.text and "Advisory" not in first.text
    assert (opening.role, opening.text) == ("user", "Begin cycle 1.")


def test_a_model_that_is_held_to_calls_ends_by_one() -> None:
    text = PromptAssembler([*TOOLS, FINISH]).build_prompt(state_after())[0].text
    assert "call `finish_cycle`" in text and "### finish_cycle\n" in text and "no tool call" not in text
    assert ToolDispatcher([FINISH]).dispatch("finish_cycle", {"reflection": "Later."}) == "Later."


def test_instructions_of_ones_own_and_no_tools() -> None:
    (message, _) = PromptAssembler([], instructions="Explore.\n").build_prompt(state_after())
    assert message.text == "Explore."


def test_reflections_are_reported_those_that_are_empty_not() -> None:
    text = PromptAssembler([], instructions="Go.").build_prompt(state_after("One.", " ", "Three."))[0].text
    assert text == "Go.\n\n## Your Previous Reflections\n\n**Cycle 1**: One.\n\n**Cycle 3**: Three."


def test_only_the_last_reflections() -> None:
    text = PromptAssembler([], instructions="Go.", max_reflections=1).build_prompt(state_after("One.", "Two."))[0].text
    assert "Two." in text and "One." not in text


def test_the_advisory_comes_last() -> None:
    text = PromptAssembler(TOOLS).build_prompt(state_after("One.", advisory="moderate"))[0].text
    assert text.rpartition("\n\n")[2].startswith("Advisory:") and "moderate similarity" in text


def test_it_is_made_once_for_a_cycle() -> None:
    assembler, state = PromptAssembler(TOOLS), state_after("One.")
    assert assembler.system_message(state) is assembler.system_message(state)
    first = assembler.system_message(state)
    state.apply(LogEvent("CYCLE_END", 2, {"final_reflection": "Two."}))
    assert "Two." in assembler.system_message(state).text and "Two." not in first.text


def test_without_an_opening_the_system_message_is_alone() -> None:
    state = RunState("first")
    state.apply(LogEvent("CYCLE_START", 1, {}))
    assert [message.role for message in PromptAssembler([]).build_prompt(state)] == ["system"]
