"""`Agent`: the definition of an agent, without a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from types import CodeType
from typing import Any, Generic, Protocol, TypeAlias, overload

from typing_extensions import TypeForm, TypeVar, Unpack

from ..llms.function_calling_llm import FunctionCallingLLM
from ..llms.request import Messages, as_messages
from ..stores.store import Store
from ..text.reprs import safe_repr
from ..tools.callable_tool import CallableTool, ToolFunction, as_tools, output_tools
from ..values.option_suggestions import refuse_attributes, refuse_unknown
from ..values.server_tools import ServerTool
from ..values.tool_spec import ToolCachePoint
from ..values.turn import Turn
from .engine.engine import Engine, agent_tool
from .engine.engine_config import AgentOptions, Configured, configured
from .engine.turn_request import RunOptions
from .engine.turn_streams import AsyncTurnStream, TurnStream
from .sessions.session import Session

C = TypeVar("C")
T = TypeVar("T")
D = TypeVar("D", default=None)
Output = TypeVar("Output", default=Any)
Output_co = TypeVar("Output_co", covariant=True, default=None)


class PlainFunction(Protocol):
    """A function that `tool` has not declared."""

    @property
    def __code__(self) -> CodeType: ...


class Toolable(Protocol):
    """An object that makes a tool of itself: an agent, an engine, an orchestrator."""

    def as_tool(self) -> CallableTool: ...


AgentTool: TypeAlias = (
    ToolFunction[D, ..., Any]
    | PlainFunction
    | partial[Any]
    | type
    | TypeForm[Any]
    | CallableTool
    | Toolable
    | ServerTool
    | ToolCachePoint
)


class AgentChanges(AgentOptions[D, Output], Generic[D, Output], total=False):
    """Arguments of `Agent` that `Agent.with_` changes: its options, the LLM and the tools."""

    llm: FunctionCallingLLM | str | None
    tools: Iterable[AgentTool[D]]


@refuse_attributes("Agent")
class Agent(Configured, Generic[D, Output_co]):
    """The definition of an agent: an LLM, tools and their limits, without a conversation.

    It does not change, and any number of threads and tasks may run it: each run is a conversation of its own. An
    `Engine` (`agent.engine()`) is one conversation of many turns, and a `Session` one that is stored.

    The tools, instructions and output validators of an `Agent[Shop, Reply]` get a `Shop` as their dependencies, and the
    `output` of its turns is a `Reply`.

    Args:
        llm: An LLM, its name, or None for `Configs.llm`; `LATER` for the LLM that is found when a turn begins.
        tools: Functions, types, orchestrators, other agents, MCP tools; and tools that the provider runs, such as
            `WebSearch()`, without the agent's permissions, limits and hooks of tools. Type checkers compare the
            `ToolContext[Shop]` of functions that `tool` has declared.
        output_cls: The type of the result of each turn, `Turn.output`. Default: none, a turn ends with a text.

    The options are those of `AgentOptions`.

    Raises:
        ValueError: An option is of the wrong kind, or `settings` continue a conversation that the service stores.

    Example:
        `Agent("gpt-5.4", [stock, refund], output_cls=Reply).run("Where is my order?", deps=shop).output`
    """

    __slots__ = ("_config", "_given")

    def __init__(
        self,
        llm: FunctionCallingLLM | str | None = None,
        tools: Iterable[AgentTool[D]] | tuple[()] = (),
        *,
        output_cls: TypeForm[Output_co] = None,  # type: ignore[assignment]  # where there is none, Output_co is None
        **options: Unpack[AgentOptions[D, Output_co]],
    ) -> None:
        self._given: dict[str, Any] = {"llm": llm, "tools": tools, "output_cls": output_cls, **options}
        self._config = config = configured("Agent", llm, tools, options, output_cls)
        if config.settings is not None and config.settings.conversation is not None:
            raise ValueError(
                "settings.conversation is one conversation that the service stores, and an Agent has one for each run: "
                "pass it to an Engine(...)"
            )
        if config.output_cls is not None:
            as_tools((*config.tools, *output_tools(config.output_cls)))  # raises if two have one name

    @safe_repr
    def __repr__(self) -> str:
        kind = "" if self._config.output_cls is None else f", output_cls={self._config.output_cls!r}"
        return f"{type(self).__name__}({self.llm!r}, tools=[{', '.join([tool.name for tool in self.tools])}]{kind})"

    @overload
    def with_(self, *, output_cls: TypeForm[T], **changes: Unpack[AgentChanges[D, T]]) -> Agent[D, T]: ...
    @overload
    def with_(self, **changes: Unpack[AgentChanges[D, Output_co]]) -> Agent[D, Output_co]: ...
    def with_(self, **changes: Any) -> Agent[D, Any]:
        """Return a changed copy: `agent.with_(max_rounds=5)`. Raises `ValueError` for an invalid option."""
        made: dict[str, Any] = {**self._given, **changes}
        return Agent(**made)

    # Turns.

    @overload
    def run(
        self: Agent[None, T],
        message: Messages | None = None,
        *,
        history: Messages = (),
        deps: None = None,
        **options: Unpack[RunOptions],
    ) -> Turn[T]: ...
    @overload
    def run(
        self: Agent[C, T],
        message: Messages | None = None,
        *,
        history: Messages = (),
        deps: C,
        **options: Unpack[RunOptions],
    ) -> Turn[T]: ...
    def run(
        self,
        message: Messages | None = None,
        *,
        history: Messages = (),
        deps: Any = None,
        **options: Unpack[RunOptions],
    ) -> Turn[Any]:
        """Run a turn of a conversation and return it.

        Args:
            message: The user's message, or messages. Without one the turn that `history` ends in is continued, with the
                `answers` to its requests.
            history: The messages before it, such as the `history` of an earlier turn.
            deps: The dependencies: its tools, instructions and output validators get them in their `ToolContext`. They
                are not stored: pass them again to continue the turn.
            options: See `RunOptions`.

        Raises:
            LLMError: If a request failed.
            TurnCancelled: If the turn was cancelled.
            TurnStopped: If a limit was reached.
            TurnFailed: If a tool ended the turn.
            TypeError: If a tool has a `ToolContext[Shop]`, and the dependencies are no `Shop`. Nothing was sent then.
        """
        return self._begin(history, deps, options).submit(message, **options)

    @overload
    async def arun(
        self: Agent[None, T],
        message: Messages | None = None,
        *,
        history: Messages = (),
        deps: None = None,
        **options: Unpack[RunOptions],
    ) -> Turn[T]: ...
    @overload
    async def arun(
        self: Agent[C, T],
        message: Messages | None = None,
        *,
        history: Messages = (),
        deps: C,
        **options: Unpack[RunOptions],
    ) -> Turn[T]: ...
    async def arun(
        self,
        message: Messages | None = None,
        *,
        history: Messages = (),
        deps: Any = None,
        **options: Unpack[RunOptions],
    ) -> Turn[Any]:
        """Run a turn of a conversation and return it: see `run`."""
        return await self._begin(history, deps, options).asubmit(message, **options)

    @overload
    def stream(
        self: Agent[None, T],
        message: Messages | None = None,
        *,
        history: Messages = (),
        deps: None = None,
        **options: Unpack[RunOptions],
    ) -> TurnStream[T]: ...
    @overload
    def stream(
        self: Agent[C, T],
        message: Messages | None = None,
        *,
        history: Messages = (),
        deps: C,
        **options: Unpack[RunOptions],
    ) -> TurnStream[T]: ...
    def stream(
        self,
        message: Messages | None = None,
        *,
        history: Messages = (),
        deps: Any = None,
        **options: Unpack[RunOptions],
    ) -> TurnStream[Any]:
        """Return the events of a turn as they arrive. The turn begins with the first `next()`. See `run`."""
        return self._begin(history, deps, options).stream(message, **options)

    @overload
    def astream(
        self: Agent[None, T],
        message: Messages | None = None,
        *,
        history: Messages = (),
        deps: None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncTurnStream[T]: ...
    @overload
    def astream(
        self: Agent[C, T],
        message: Messages | None = None,
        *,
        history: Messages = (),
        deps: C,
        **options: Unpack[RunOptions],
    ) -> AsyncTurnStream[T]: ...
    def astream(
        self,
        message: Messages | None = None,
        *,
        history: Messages = (),
        deps: Any = None,
        **options: Unpack[RunOptions],
    ) -> AsyncTurnStream[Any]:
        """Return the events of a turn as they arrive. The turn begins when the first is awaited. See `run`."""
        return self._begin(history, deps, options).astream(message, **options)

    def _begin(self, history: Messages, deps: Any, options: RunOptions) -> Engine[D, Output_co]:
        refuse_unknown("run", options, ("message", "history", "deps", *RunOptions.__annotations__))
        return self.engine(history, deps)

    # Conversations, and an agent for another.

    def engine(self, history: Messages = (), deps: D | None = None) -> Engine[D, Output_co]:
        """Return a conversation with the agent.

        Args:
            history: The messages to begin with.
            deps: The dependencies of turns that have none of their own.
        """
        config = self._config if deps is None else replace(self._config, deps=deps)
        return Engine.of(config, as_messages(history))

    def session(self, store: Store | None = None, id: str | None = None) -> Session[D, Output_co]:
        """Return a new conversation that is stored, if there is a store. `Session.resume` opens it again."""
        return Session(self.engine(), id=id, store=store)

    def as_tool(self, name: str | None = None, description: str | None = None) -> CallableTool:
        """Return the agent as a tool for another: see `Engine.as_tool`."""
        return agent_tool(self._config, self.engine, name, description)
