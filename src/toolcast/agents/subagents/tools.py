"""The tools with which a model starts elves: `agent`, `agent_result` and `spawn_elves`.

What a model waits for belongs to its call: it is cancelled when the turn is, and when nobody waits for it any more. An
elf that fails is no failure of the turn: the model reads why, and decides. While `max_depth` allows it, the elves of a
model have these tools as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from ...errors import ToolcastError
from ...tools.callable_tool import CallableTool
from ...tools.context import ToolContext
from ...tools.results import error_text, truncate
from .elves import TASKS, Elf, ElfConfig, ElfManager
from .run import GRACE, ElfResult

MAX_TASKS: Final = 10
OUTPUT_LIMIT: Final = 2000
"""Characters of one elf's answer among several."""

# Offered as a choice, but not enforced: what a model makes up is taken for "generation".
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
    """The tools that start elves of this manager."""
    tools = _ElfTools(elves)
    # More than the elves have, so that it is they who say that their time is up.
    timeout = None if elves.timeout is None else elves.timeout + 5 * GRACE
    both: list[tuple[Callable[..., str], Callable[..., Any]]] = [
        (tools.agent, tools.aagent),
        (tools.agent_result, tools.aagent_result),
        (tools.spawn_elves, tools.aspawn_elves),
    ]
    return tuple(
        [replace(CallableTool.from_function(sync), async_function=other, timeout=timeout) for sync, other in both]
    )


class _ElfTools:
    """What the tools do, for both faces. Their docstrings are what the model reads."""

    def __init__(self, elves: ElfManager) -> None:
        self._elves = elves

    def agent(
        self, prompt: Prompt, task_type: TaskType = "generation", wait: bool = True, *, context: ToolContext
    ) -> str:
        """Give a task to another agent, which knows nothing but the prompt, and get its answer.

        Args:
            wait: If false, you get an id at once, and the answer later with agent_result.
        """
        elf = self._elves.spawn(self._config(prompt, task_type, background=not wait), context=context)
        return _answer(elf.wait()) if wait else _begun(elf)

    async def aagent(
        self, prompt: Prompt, task_type: TaskType = "generation", wait: bool = True, *, context: ToolContext
    ) -> str:
        """See `agent`."""
        elf = await self._elves.aspawn(self._config(prompt, task_type, background=not wait), context=context)
        return _answer(await elf) if wait else _begun(elf)

    def agent_result(self, id: str, *, context: ToolContext) -> str:
        """Wait for an agent that was started without waiting, and get its answer.

        Args:
            id: The id that you got when you started it.
        """
        elf = self._elves.get(id)
        with elf.expected():
            events = elf.events()
            context.cancellation.then(events.close)
            for _ in events:
                pass
            context.check()
            return _answer(elf.wait())

    async def aagent_result(self, id: str, *, context: ToolContext) -> str:
        """See `agent_result`."""
        return _answer(await self._elves.get(id))

    def spawn_elves(self, tasks: Tasks, max_turns: Rounds = 30, *, context: ToolContext) -> str:
        """Give each of several independent tasks to an agent of its own, all at the same time, and get all answers.

        Args:
            tasks: The tasks, at most 10.
        """
        started: list[Elf | Exception] = []
        with ExitStack() as leaving:
            for task in tasks:
                try:
                    elf = self._elves.spawn(self._config(task.prompt, task.task_type, max_turns), context=context)
                except Exception as error:  # a task that cannot start is reported beside the others
                    started.append(error)
                else:
                    started.append(_belongs(elf, context, leaving))
            return _together([each.wait() if isinstance(each, Elf) else each for each in started])

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
                    started.append(_belongs(elf, context, leaving))
            return _together([await each if isinstance(each, Elf) else each for each in started])

    def _config(
        self, prompt: str, task_type: str, max_rounds: int | None = None, *, background: bool = True
    ) -> ElfConfig:
        elves, tools = self._elves, None
        if elves.depth + 1 < elves.max_depth:
            own = elves.tools()
            names = {tool.name for tool in own}
            tools = (*(tool for tool in elves.engine.tools if tool.name not in names), *own)
        return ElfConfig(prompt, task_type, tools, max_rounds=max_rounds, background=background)


def _belongs(elf: Elf, context: ToolContext[Any], leaving: ExitStack) -> Elf:
    """`elf`, which is cancelled with the call, and when the call is left."""
    leaving.callback(elf.cancel)
    leaving.callback(context.cancellation.then(elf.cancel))
    return elf


def _begun(elf: Elf) -> str:
    return f"{elf.id} is at work; agent_result(id={elf.id!r}) gives its answer"


def _answer(result: ElfResult) -> str:
    """What the model reads of one elf. Raises what it reads of one that failed."""
    if result.status == "completed":
        return str(result.output)
    raise ToolcastError(f"{result.id} {result.status}: {error_text(result.error)}")


def _together(results: Sequence[ElfResult | Exception]) -> str:
    """What the model reads of several elves, in the order of their tasks."""
    return "\n\n".join([f"Task {number}: {_line(result)}" for number, result in enumerate(results, 1)])


def _line(result: ElfResult | Exception) -> str:
    if isinstance(result, Exception):
        return f"not started: {error_text(result)}"
    text = str(result.output) if result.status == "completed" else error_text(result.error)
    return f"{result.id} {result.status}: {truncate(text, OUTPUT_LIMIT)}"
