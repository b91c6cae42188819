"""The tools with which a model starts elves: `agent`, `agent_result` and `spawn_elves`.

An elf that a model waits for belongs to its call: it is cancelled with the turn. An elf that fails does not fail the
turn: the model reads the error, and decides. The elves have these tools too, while `max_depth` allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from ...errors import ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from ...tools.callable_tool import CallableTool
from ...tools.tool_context import ToolContext
from ...tools.tool_results import error_text, truncate
from ...values.turn import marked_text
from .elf_run import GRACE, ElfResult
from .elves import TASKS, Elf, ElfConfig, ElfManager

MAX_TASKS: Final = 10
OUTPUT_LIMIT: Final = 2000
"""Characters of one elf's answer among several."""

# Offered as a choice, but not enforced: an unknown type counts as "generation".
TaskType: TypeAlias = Annotated[
    str, Field(description="What kind of task it is.", json_schema_extra={"enum": list(TASKS)})
]


Prompt: TypeAlias = Annotated[str, Field(min_length=1, description="The task, with all that is needed to do it.")]


@dataclass(frozen=True)
class ElfTask:
    """One task."""

    prompt: Prompt
    task_type: TaskType = "generation"


Tasks: TypeAlias = Annotated[list[ElfTask], Field(min_length=1, max_length=MAX_TASKS)]
Rounds: TypeAlias = Annotated[int, Field(ge=1, description="How often each agent may ask its model.")]


def elf_tools(elves: ElfManager) -> tuple[CallableTool, ...]:
    """Return the tools that start elves of this manager."""
    tools = _ElfTools(elves)
    # More than the elves have, so that the error comes from the elf.
    timeout = None if elves.timeout is None else elves.timeout + 5 * GRACE
    pairs: list[tuple[Callable[..., str], Callable[..., Any]]] = [
        (tools.agent, tools.aagent),
        (tools.agent_result, tools.aagent_result),
        (tools.spawn_elves, tools.aspawn_elves),
    ]
    return tuple(
        [replace(CallableTool.from_function(sync), async_function=other, timeout=timeout) for sync, other in pairs]
    )


class _ElfTools:
    """The functions of the tools, sync and async. The model reads their docstrings."""

    def __init__(self, elves: ElfManager) -> None:
        self._elves = elves

    def agent(
        self, prompt: Prompt, task_type: TaskType = "generation", wait: bool = True, *, context: ToolContext
    ) -> str:
        """Give a task to another agent, which knows nothing but the prompt, and get its answer.

        Args:
            prompt: The task, with all that is needed to do it.
            task_type: The kind of work, which selects the instructions.
            wait: If false, you get an id at once, and the answer later with agent_result.
            context: The context of the call.
        """
        elf = self._elves.spawn(self._config(prompt, task_type, background=not wait), context=context)
        return _answer_text(elf.wait()) if wait else _started_text(elf)

    async def aagent(
        self, prompt: Prompt, task_type: TaskType = "generation", wait: bool = True, *, context: ToolContext
    ) -> str:
        """See `agent`."""
        elf = await self._elves.aspawn(self._config(prompt, task_type, background=not wait), context=context)
        return _answer_text(await elf) if wait else _started_text(elf)

    def agent_result(self, id: str, *, context: ToolContext) -> str:
        """Wait for an agent that was started without waiting, and get its answer.

        Args:
            id: The id that you got when you started it.
            context: The context of the call.
        """
        elf = self._elves.get(id)
        with elf.expected():
            events = elf.events()
            context.cancellation.then(events.close)
            for _ in events:
                pass
            context.check()
            return _answer_text(elf.wait())

    async def aagent_result(self, id: str, *, context: ToolContext) -> str:
        """See `agent_result`."""
        return _answer_text(await self._elves.get(id))

    def spawn_elves(self, tasks: Tasks, max_turns: Rounds = 30, *, context: ToolContext) -> str:
        """Give each of several independent tasks to an agent of its own, all at the same time, and get all answers.

        Args:
            tasks: The tasks, at most 10.
            max_turns: How often each agent may ask its model.
            context: The context of the call.
        """
        started: list[Elf | Exception] = []
        with ExitStack() as leaving:
            for task in tasks:
                try:
                    elf = self._elves.spawn(self._config(task.prompt, task.task_type, max_turns), context=context)
                except Exception as error:  # a task that cannot start is reported beside the others
                    started.append(error)
                else:
                    started.append(_cancel_with_call(elf, context, leaving))
            return _combined_text([each.wait() if isinstance(each, Elf) else each for each in started])

    async def aspawn_elves(self, tasks: Tasks, max_turns: Rounds = 30, *, context: ToolContext) -> str:
        """See `spawn_elves`."""
        started: list[Elf | Exception] = []
        with ExitStack() as leaving:
            for task in tasks:
                try:
                    config = self._config(task.prompt, task.task_type, max_turns)
                    elf = await self._elves.aspawn(config, context=context)
                except Exception as error:  # a task that cannot start is reported beside the others
                    started.append(error)
                else:
                    started.append(_cancel_with_call(elf, context, leaving))
            return _combined_text([await each if isinstance(each, Elf) else each for each in started])

    def _config(
        self, prompt: str, task_type: str, max_rounds: int | None = None, *, background: bool = True
    ) -> ElfConfig:
        elves, tools = self._elves, None
        if elves.depth + 1 < elves.max_depth:
            own = elves.tools()
            names = {tool.name for tool in own}
            tools = (*(tool for tool in elves.engine.tools if tool.name not in names), *own)
        return ElfConfig(prompt, task_type, tools, max_rounds=max_rounds, background=background)


def _cancel_with_call(elf: Elf, context: ToolContext[Any], leaving: ExitStack) -> Elf:
    """Return `elf`, to be cancelled with the call, or when `leaving` is closed."""
    leaving.callback(elf.cancel)
    leaving.callback(context.cancellation.then(elf.cancel))
    return elf


def _started_text(elf: Elf) -> str:
    return f"{elf.id} is at work; agent_result(id={elf.id!r}) gives its answer"


def _answer_text(result: ElfResult) -> str:
    """Return an elf's output for the model; raise its error if it failed."""
    if result.status == "completed":
        return _output_text(result)
    raise ToolcastError(f"{result.id} {result.status}: {error_text(result.error)}")


def _output_text(result: ElfResult) -> str:
    return marked_text(str(result.output), result.end, result.id)


def _combined_text(results: Sequence[ElfResult | Exception]) -> str:
    """Return the outputs of several elves for the model, in the order of their tasks."""
    return "\n\n".join([f"Task {number}: {_summary_line(result)}" for number, result in enumerate(results, 1)])


def _summary_line(result: ElfResult | Exception) -> str:
    if isinstance(result, Exception):
        return f"not started: {error_text(result)}"
    text = _output_text(result) if result.status == "completed" else error_text(result.error)
    return f"{result.id} {result.status}: {truncate(text, OUTPUT_LIMIT)}"
