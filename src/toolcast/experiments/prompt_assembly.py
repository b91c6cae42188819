"""Prompts of the cycles: one system message, then the messages of the cycle so far.

The system message has the instructions, the tools, the reflections of earlier cycles and, if the last of them is too
similar to an earlier one, an advisory. It is the same for all requests of a cycle, and is built once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, cast

from pydantic import Field

from ..messages import Message, system
from ..tools.callable_tool import CallableTool, as_tools
from .experiment_config import ExperimentConfig
from .run_state import RunState
from .similarity import advisory_of

INSTRUCTIONS: Final = """\
You are an autonomous agent. Nobody gives you tasks: what you explore is yours to choose.

You live in cycles. In each one you may use the tools below as often as you like, one step after the other; what they \
answer, you read before you go on. {ending} It ends the cycle.

In the next cycle you remember your reflections and what you have stored with the tools, and nothing else. Write \
each reflection for the one who reads it then: what you did, what you found, what you want to do next."""

_ENDING: Final = "When you are done, write your final reflection: plain text and no tool call."
_ENDING_BY_CALL: Final = "When you are done, call `finish_cycle` with your final reflection."


def finish_cycle(reflection: Annotated[str, Field(description="Your final reflection.")]) -> str:
    """End the cycle with your final reflection."""
    return reflection


FINISH: Final = CallableTool.from_function(finish_cycle, description="End the cycle with your final reflection.")
"""The tool by which a model that must call tools ends its cycle."""


class PromptAssembler:
    """The builder of the prompt of each request.

    `instructions` replace the default ones; `max_reflections` limits the reflections in the prompt to the last ones.
    """

    def __init__(
        self, tools: Sequence[CallableTool], *, instructions: str | None = None, max_reflections: int | None = None
    ) -> None:
        ending = _ENDING_BY_CALL if FINISH in tools else _ENDING
        self._tools = _described(tools)
        self._instructions = INSTRUCTIONS.replace("{ending}", ending) if instructions is None else instructions
        self._max_reflections = max_reflections
        self._made: tuple[tuple[object, ...], Message] | None = None

    def build_prompt(self, state: RunState) -> list[Message]:
        """Return the messages of the next request of the open cycle."""
        return [self.system_message(state), *state.messages]

    def system_message(self, state: RunState) -> Message:
        """Return the system message of the open cycle, or else of the next."""
        wanted = (state.run_id, state.completed, state.advisory)
        if self._made is None or self._made[0] != wanted:
            self._made = wanted, system(self._system_text(state))
        return self._made[1]

    def _system_text(self, state: RunState) -> str:
        advisory = advisory_of(state.advisory)
        sections = [self._instructions.strip(), self._tools, self._reflections(state), advisory]
        return "\n\n".join(filter(None, sections))

    def _reflections(self, state: RunState) -> str:
        reflections = [(cycle, text) for cycle, text in enumerate(state.reflection_history, 1) if text.strip()]
        if self._max_reflections is not None:
            reflections = reflections[-self._max_reflections :]
        lines = [f"**Cycle {cycle}**: {text}" for cycle, text in reflections]
        return "\n\n".join(["## Your Previous Reflections", *lines]) if lines else ""


def _described(tools: Sequence[CallableTool]) -> str:
    """Describe the tools in a section of the system message."""
    return "\n\n".join(["## Available Tools", *map(_described_tool, tools)]) if tools else ""


def _described_tool(tool: CallableTool) -> str:
    properties = cast("Mapping[str, Mapping[str, Any]]", tool.parameters.get("properties", {}))
    required = tool.parameters.get("required", ())
    lines = [f"### {tool.name}", tool.description]
    for name, schema in properties.items():
        kind = schema.get("type", "any")
        need = "required" if name in required else "optional"
        lines.append(f"  - {name} ({kind}, {need}): {schema.get('description', '')}".rstrip(": "))
    return "\n".join(lines)


def offered(config: ExperimentConfig, tools: Sequence[CallableTool]) -> tuple[CallableTool, ...]:
    """Return those of `tools` that the model is offered in the tool mode of the experiment.

    Raises `OutputTypeError` if two tools have the same name.
    """
    if config.tool_mode == "none":
        return ()
    return as_tools(tools if config.tool_mode == "native" else (*tools, FINISH))


def assembler_of(config: ExperimentConfig, tools: Sequence[CallableTool]) -> PromptAssembler:
    """Return the prompt assembler of an experiment."""
    return PromptAssembler(
        offered(config, tools), instructions=config.system_prompt, max_reflections=config.max_reflections
    )
