"""The result of `predict_and_call`: a response, and the outputs of the tools that it called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import MissingOutputError
from ..events import ChatResponse
from ..tools.callable_tool import ToolOutput


@dataclass(frozen=True, slots=True)
class AgentChatResponse:
    """A response, and one `ToolOutput` for each tool call in it, in call order."""

    response: ChatResponse
    sources: tuple[ToolOutput, ...] = ()

    def parse_tool_outputs(self, allow_parallel_tool_calls: bool = False) -> Any:
        """Return the first tool's raw output, or the list of all raw outputs.

        Args:
            allow_parallel_tool_calls: Return a list, even of one output.

        Raises:
            MissingOutputError: The model called no tool, and one output is asked for.
        """
        if allow_parallel_tool_calls:
            return [source.raw_output for source in self.sources]
        if not self.sources:
            raise MissingOutputError("the model called no tool, so there is no output; read response.text")
        return self.sources[0].raw_output
