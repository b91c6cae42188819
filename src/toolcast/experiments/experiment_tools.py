"""The six tools of an experiment's agent: five for its memory, one to contact its operator.

All arguments are required texts. If a model sends a number or an object as a text, its JSON is stored; a key or a
pattern is a text or a plain value. The results are defined in agent_memory.py. The memory is called directly, in an
event loop too: that takes less time than a thread would. The operator may take minutes: under an event loop it is asked
in a thread, and a cancelled call does not wait for it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from ..async_support.background_jobs import start_job
from ..lazy.lazy_dataclasses import dataclass
from ..tools.callable_tool import CallableTool
from ..tools.tool_context import ToolContext
from ..transport.cancel_handle import CancelHandle
from .agent_memory import RunMemory
from .operators import OperatorChannel


@dataclass(frozen=True, slots=True)
class CallPlace:
    """The place of a call in its run: `step` counts the answers of a cycle, `index` the calls of one answer."""

    run_id: str
    cycle_number: int
    step: int
    index: int

    @property
    def name(self) -> str:
        """The unique name of the call in its run, its cycle first: `3/2/0`."""
        return f"{self.cycle_number}/{self.step}/{self.index}"


NOWHERE: Final = CallPlace("unknown", 0, 0, 0)
"""The place of a call that is made outside of an experiment."""


def agent_tools(memory: RunMemory | None, operator: OperatorChannel | None) -> tuple[CallableTool, ...]:
    """Return `write`, `read`, `list`, `delete`, `pattern_search` and `send_message_to_operator`, in this order.

    Without a `memory`, or an `operator`, its tools are omitted. The `deps` of the `ToolContext` they are called with
    are a `CallPlace`.
    """
    tools = () if memory is None else _memory_tools(memory)
    return tools if operator is None else (*tools, _operator_tool(operator))


def _json_text(value: Any) -> Any:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _plain_text(value: Any) -> Any:
    return _json_text(value) if isinstance(value, (bool, int, float)) else value


_Text = Annotated[str, BeforeValidator(_json_text)]
_Plain = Annotated[str, BeforeValidator(_plain_text)]


def _memory_tools(memory: RunMemory) -> tuple[CallableTool, ...]:
    offered = CallableTool.from_function
    kept = _MemoryTools(memory)
    tools = (
        offered(kept.write, "write").with_(idempotent=True),
        offered(kept.read, "read").with_(read_only=True),
        offered(kept.list_keys, "list").with_(read_only=True),
        offered(kept.delete, "delete").with_(destructive=True),
        offered(kept.pattern_search, "pattern_search").with_(read_only=True),
    )
    # As its own async function a sync one is called in the event loop, not in a thread.
    return tuple([replace(tool, async_function=tool.function) for tool in tools])


class _MemoryTools:
    """The functions of the memory tools. Their docstrings are sent to the model."""

    def __init__(self, memory: RunMemory) -> None:
        self._memory = memory

    def write(
        self,
        key: Annotated[_Plain, Field(description="The name to keep it under.")],
        value: Annotated[_Text, Field(description="The text to keep.")],
        context: ToolContext[CallPlace],
    ) -> str:
        """Keep a text in your memory, which lasts from cycle to cycle. What the key held before is replaced."""
        return self._memory.write(key, value, once=_name(context))

    def read(self, key: Annotated[_Plain, Field(description="The name it is kept under.")]) -> str:
        """Get the text that your memory holds under a key."""
        return self._memory.read(key)

    def list_keys(self) -> str:
        """Get all keys of your memory, the oldest first."""
        return self._memory.list()

    def delete(
        self,
        key: Annotated[_Plain, Field(description="The name it is kept under.")],
        context: ToolContext[CallPlace],
    ) -> str:
        """Remove a key and its text from your memory, for good."""
        return self._memory.delete(key, once=_name(context))

    def pattern_search(
        self,
        pattern: Annotated[
            _Plain,
            Field(description="What the key contains, exactly so: capitals count, and no sign stands for others."),
        ],
    ) -> str:
        """Find the keys of your memory that contain a piece of text."""
        return self._memory.pattern_search(pattern)


def _name(context: ToolContext[CallPlace]) -> str | None:
    """Return the name of the call, if it is one of an experiment."""
    place = _place(context)
    return None if place is NOWHERE else place.name


def _place(context: ToolContext[Any]) -> CallPlace:
    """Return the place of the call; an engine may have other `deps`, or none."""
    return context.deps if isinstance(context.deps, CallPlace) else NOWHERE


def _operator_tool(operator: OperatorChannel) -> CallableTool:
    asked = _OperatorTool(operator)
    # Two messages at once would be one too many for a person.
    tool = CallableTool.from_function(asked.send, "send_message_to_operator").with_(parallel=False)
    return replace(tool, async_function=asked.asend)


class _OperatorTool:
    """The function of the operator tool."""

    def __init__(self, operator: OperatorChannel) -> None:
        self._operator = operator

    def send(
        self,
        message: Annotated[_Text, Field(description="What you want to say or ask.")],
        context: ToolContext[CallPlace],
    ) -> str:
        """Send a message to the human operator of this experiment, and wait for the answer."""
        return _Message(self._operator, message, _place(context)).send(context)

    async def asend(self, message: str, context: ToolContext[CallPlace]) -> str:
        """Send a message from an event loop; a cancelled call does not wait for the answer."""
        outgoing = _Message(self._operator, message, _place(context))
        # A thread that does not keep the program from ending, if the operator never answers.
        job = start_job(partial(outgoing.asend, context), concurrent=False, name="message to the operator")
        try:
            await job.join()
        finally:
            outgoing.line.break_off()
        if job.error is not None:
            raise job.error
        return outgoing.answer


class _Message:
    """A message to the operator in progress; cancelling the handle withdraws it, as far as the channel can."""

    def __init__(self, operator: OperatorChannel, message: str, place: CallPlace) -> None:
        self.line: CancelHandle = CancelHandle()
        self.answer: str = ""
        self._operator = operator
        self._message = message
        self._place = place

    def send(self, context: ToolContext[CallPlace]) -> str:
        """Return the answer. Raises the channel's errors, or `TurnCancelled`."""
        forget = context.cancellation.then(self.line.break_off)
        try:
            with self.line:
                return self._operator.send_and_wait(self._message, self._place.run_id, self._place.cycle_number)
        except (OSError, EOFError):
            context.check()  # a line that was cut looks like a channel that broke
            raise
        finally:
            forget()

    async def asend(self, context: ToolContext[CallPlace]) -> None:
        """Send the message in a worker thread, and store the answer for the task that waits for it."""
        # The thread has a copy of the context variables, and one of them says that an event loop runs here.
        if (sniffio := sys.modules.get("sniffio")) is not None:
            sniffio.current_async_library_cvar.set(None)
        self.answer = self.send(context)
