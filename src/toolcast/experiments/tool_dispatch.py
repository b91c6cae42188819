"""Execution of the model's tool calls, with every outcome as a text for the model.

The error texts for an unknown tool, for arguments that do not fit and for a tool that fails are ContReAct's. Arguments
are parsed and tools executed as everywhere in toolcast (tools/execution.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..async_support import sync_driver
from ..messages import ToolCallPart
from ..tools.callable_tool import CallableTool
from ..tools.context import ToolContext
from ..tools.execution import read_call
from ..tools.results import error_text
from .experiment_tools import CallPlace


class ToolDispatcher:
    """The executor of the calls of `tools`."""

    def __init__(self, tools: Sequence[CallableTool]) -> None:
        self._offered = {tool.name: tool for tool in tools}

    def dispatch(self, name: str, arguments: Mapping[str, Any] | str, place: CallPlace | None = None) -> str:
        """Call the tool `name` and return its output or an error text.

        `place` becomes the `deps` of the tool's context.
        """
        return sync_driver.run(self.answered(_call(name, arguments), place, concurrent=False))

    async def adispatch(self, name: str, arguments: Mapping[str, Any] | str, place: CallPlace | None = None) -> str:
        """Call the tool `name` and return its output or an error text: see `dispatch`."""
        return await self.answered(_call(name, arguments), place, concurrent=True)

    async def answered(self, call: ToolCallPart, place: CallPlace | None, *, concurrent: bool) -> str:
        """Execute `call` and return its result."""
        context = ToolContext(call.id, call.name, place)
        job = read_call(call, self._offered, context)
        if job.tool is None:
            return f"Error: Tool '{call.name}' not found"
        if job.error is not None:
            return f"Error: Invalid arguments for tool '{call.name}': {error_text(job.error)}"
        await job.run(concurrent, context)
        if job.error is not None:
            return f"Error executing tool '{call.name}': {error_text(job.error)}"
        return job.output().content


def _call(name: str, arguments: Mapping[str, Any] | str) -> ToolCallPart:
    return ToolCallPart("call", name, arguments if isinstance(arguments, str) else json.dumps(dict(arguments)))
