"""The output mode of a request: how a model is made to answer with tool calls or with JSON of a schema.

The mode is decided once, by `FunctionCallingLLM.mode`: the LLM has the facts, the capabilities of its model and the
modes of its service. A `ChatRequest` may name a mode; everything below the LLM is passed the decided one.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

OutputMode: TypeAlias = Literal["tool_call", "json_schema", "prompted", "grammar"]
"""How a model is constrained to the tools of a request.

`"tool_call"`: the request offers the tools and their use is required. `"json_schema"`: the provider constrains the
text of the response to a JSON schema of the calls. `"grammar"`: llama.cpp does, with a grammar. `"prompted"`: the
prompt describes the tools and asks for JSON; nothing enforces it.
"""


class ModeFacts(Protocol):
    """The capabilities of a model that decide its output mode. None: unknown."""

    @property
    def tools(self) -> bool | None:
        """True if the model accepts tools."""
        ...

    @property
    def forced_tools(self) -> bool | None:
        """True if the model can be required to call a tool."""
        ...

    @property
    def forced_while_thinking(self) -> bool | None:
        """True if the model can be required to call a tool while thinking is enabled."""
        ...

    @property
    def json_schema(self) -> bool | None:
        """True if the text of a response can be constrained to a JSON schema."""
        ...


def best_mode(capabilities: ModeFacts, *, forced: bool, thinking: bool) -> OutputMode:
    """Return the most reliable output mode for a model.

    What is certain to work is preferred to what may work. If a tool can be offered but not required, the model may
    answer with text; the call is then retried.

    Args:
        capabilities: The capabilities of the model.
        forced: True if the response must contain a tool call.
        thinking: True if thinking is enabled for the request.
    """
    if capabilities.tools is False:
        return "json_schema" if capabilities.json_schema else "prompted"
    can = capabilities.forced_tools
    if thinking and can:
        can = capabilities.forced_while_thinking
    return "json_schema" if forced and not can and capabilities.json_schema else "tool_call"


def usable_modes(capabilities: ModeFacts) -> tuple[OutputMode, ...]:
    """Return the output modes that are not certain to fail for a model, best first."""
    modes: dict[OutputMode, bool] = {
        best_mode(capabilities, forced=True, thinking=False): True,
        "tool_call": capabilities.tools is not False,
        "json_schema": capabilities.json_schema is not False,
        "prompted": True,
    }
    return tuple(mode for mode, works in modes.items() if works)
