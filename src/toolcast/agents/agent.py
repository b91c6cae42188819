"""`Agent`: the definition of an agent, without a conversation."""

from __future__ import annotations

from typing import Any, Generic, cast

from typing_extensions import TypeForm, TypeVar, Unpack

from ..llms.base import FunctionCallingLLM
from ..llms.request import Messages, Tools, as_messages
from ..option_suggestions import refuse_attributes
from ..reprs import safe_repr
from ..stores.store import Store
from ..tools.callable_tool import CallableTool, as_tools, output_tools
from ..turn import Turn
from .engine.config import AgentOptions, EngineConfig, configured
from .engine.engine import Engine, agent_tool
from .engine.turn_request import TurnOptions
from .engine.turn_streams import AsyncTurnStream, TurnStream
from .sessions.session import Session

D = TypeVar("D", default=Any)
Output_co = TypeVar("Output_co", covariant=True, default=None)


@refuse_attributes("Agent")
class Agent(Generic[D, Output_co]):
    """The definition of an agent: an LLM, tools and their limits, without a conversation.

    It does not change, and any number of threads and tasks may run it: each run is a conversation of its own. An
    `Engine` (`agent.engine()`) is one conversation of many turns, and a `Session` one that is stored.

    The tools, instructions and output validators of an `Agent[Shop, Reply]` get a `Shop` as their dependencies, and the
    `output` of its turns is a `Reply`.

    Args:
        llm: An LLM, its name, or None for `Configs.llm`; `LATER` for the LLM that is found when a turn begins.
        tools: Functions, types, orchestrators, other agents, MCP tools; and tools that the provider runs, such as
            `WebSearch()`, without the agent's permissions, limits and hooks of tools.
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
        tools: Tools = (),
        *,
        output_cls: TypeForm[Output_co] = None,  # type: ignore[assignment]  # where there is none, Output_co is None
        **options: Unpack[AgentOptions[D]],
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

    @property
    def config(self) -> EngineConfig:
        """The settings that all turns share."""
        return self._config

    @property
    def llm(self) -> FunctionCallingLLM:
        """The LLM that gets the requests."""
        return self._config.llm

    @property
    def tools(self) -> tuple[CallableTool, ...]:
        """The tools that the model is offered."""
        return self._config.tools

    def with_(self, **changes: Any) -> Agent[D, Output_co]:
        """Return a changed copy: `agent.with_(max_rounds=5)`. Raises `ValueError` for an invalid option."""
        return cast("Agent[D, Output_co]", Agent(**{**self._given, **changes}))

    # Turns.

    def run(
        self, message: Messages | None = None, *, history: Messages = (), **options: Unpack[TurnOptions[D]]
    ) -> Turn[Output_co]:
        """Run a turn of a conversation and return it.

        Args:
            message: The user's message, or messages. Without one the turn that `history` ends in is continued, with the
                `answers` to its requests.
            history: The messages before it, such as the `history` of an earlier turn.
            options: See `TurnOptions`.

        Raises:
            LLMError: If a request failed.
            TurnCancelled: If the turn was cancelled.
            TurnStopped: If a limit was reached.
            TurnFailed: If a tool ended the turn.
            TypeError: If a tool has a `ToolContext[Shop]`, and there are no dependencies. Nothing was sent then.
        """
        return self.engine(history).submit(message, **options)

    async def arun(
        self, message: Messages | None = None, *, history: Messages = (), **options: Unpack[TurnOptions[D]]
    ) -> Turn[Output_co]:
        """Run a turn of a conversation and return it: see `run`."""
        return await self.engine(history).asubmit(message, **options)

    def stream(
        self, message: Messages | None = None, *, history: Messages = (), **options: Unpack[TurnOptions[D]]
    ) -> TurnStream[Output_co]:
        """Return the events of a turn as they arrive. The turn begins with the first `next()`. See `run`."""
        return self.engine(history).stream(message, **options)

    def astream(
        self, message: Messages | None = None, *, history: Messages = (), **options: Unpack[TurnOptions[D]]
    ) -> AsyncTurnStream[Output_co]:
        """Return the events of a turn as they arrive. The turn begins when the first is awaited. See `run`."""
        return self.engine(history).astream(message, **options)

    # Conversations, and an agent for another.

    def engine(self, history: Messages = ()) -> Engine[D, Output_co]:
        """Return a conversation with the agent, which begins with `history`."""
        return Engine.of(self._config, as_messages(history))

    def session(self, store: Store, id: str | None = None) -> Session[D, Output_co]:
        """Return a new stored conversation. `Session.resume(id, agent, store)` opens it again."""
        return Session(self.engine(), id=id, store=store)

    def as_tool(self, name: str | None = None, description: str | None = None) -> CallableTool:
        """Return the agent as a tool for another: see `Engine.as_tool`."""
        return agent_tool(self._config, self.engine, name, description)
