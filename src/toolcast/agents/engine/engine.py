"""`Engine`: an LLM, tools and a history, turn after turn.

    idle ──> streaming ──> accumulating ──> complete ──> idle
                 ^               │
                 │               v
                 └────────── tool_exec <──> permission_wait

The engine sends the history to the model, receives the response, runs the tools that it calls, and repeats that until
the model gives an answer. turn_loop.py has the steps of one turn; the engine has the configuration and the
conversation, and allows one turn at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any, Generic, Protocol, overload
from weakref import ref

from typing_extensions import TypeForm, TypeVar, Unpack

from ...async_support import sync_driver
from ...async_support.cancellation import Cancellation
from ...errors import IllegalState
from ...llms.function_calling_llm import FunctionCallingLLM
from ...llms.request import AnyMessage, Messages, Tools, as_message, as_messages
from ...messages import Message
from ...text.reprs import safe_repr
from ...tools.callable_tool import CallableTool, as_tools
from ...tools.tool_context import ToolContext
from ...transport.network import IOBackend
from ...values.approvals import PermissionRequest
from ...values.option_suggestions import refuse_attributes
from ...values.option_types import require
from ...values.server_tools import split_tools
from ...values.states import TURN, Trace
from ...values.turn import Turn, marked_text
from ...values.usage import Usage
from ..permissions.permissions import Permissions
from .conversation import Conversation, Snapshot
from .engine_config import Configured, EngineConfig, EngineOptions, configured
from .history import unanswered_calls
from .instructions import Instructions, as_instructions
from .tool_phase import approval_requests
from .turn_loop import TurnLoop
from .turn_request import TurnOptions, TurnRequest, build_turn_request, require_valid
from .turn_streams import AsyncTurnStream, TurnStream

T = TypeVar("T")
D = TypeVar("D", default=Any)
Output_co = TypeVar("Output_co", covariant=True, default=None)


class Conversational(Protocol[D, Output_co]):
    """An object that begins conversations: an `Agent`."""

    def engine(self) -> Engine[D, Output_co]:
        """Return a new conversation."""
        ...


def as_engine(value: Engine[D, Output_co] | Conversational[D, Output_co]) -> Engine[D, Output_co]:
    """Return the engine, or a new conversation with the agent. Raise `TypeError` for anything else."""
    if isinstance(value, Engine):
        return value
    if not callable(getattr(value, "engine", None)):
        require("engine", value, Engine, "Engine or an Agent")
    return value.engine()


@refuse_attributes("Engine")
class Engine(Configured, Generic[D, Output_co]):
    """A conversation with an agent: it sends requests to the model and runs the tools it calls, until it answers.

    `Engine(llm, tools, ...)` is short for `Agent(llm, tools, ...).engine()`. It has one user and one turn at a time;
    what a program defines once for all of its users is an `Agent`. `Engine[Shop]` is one whose tools, instructions and
    output validators get a `Shop` as their dependencies.

    Args:
        llm: An LLM, its name, or None for `Configs.llm`.
        tools: Functions, types, orchestrators, other engines, MCP tools; and tools that the provider runs, such as
            `WebSearch()`, without the engine's permissions, limits and hooks of tools.

    The options are those of `EngineOptions`.
    """

    def __init__(
        self,
        llm: FunctionCallingLLM | str | None = None,
        tools: Tools = (),
        **options: Unpack[EngineOptions[D]],
    ) -> None:
        history, deps = options.pop("history", ()), options.pop("deps", None)
        self._make(configured("Engine", llm, tools, options, deps=deps), as_messages(history))

    @classmethod
    def of(
        cls, config: EngineConfig, history: Sequence[Message] = (), context: ToolContext[Any] | None = None
    ) -> Engine[Any, Any]:
        """Return an engine with this configuration; `context` is that of the tool call for which it works."""
        made = cls.__new__(cls)
        made._make(config, history, context)
        return made

    def _make(
        self, config: EngineConfig, history: Sequence[Message] = (), context: ToolContext[Any] | None = None
    ) -> None:
        """Initialise the engine; `context` is that of the tool call for which the engine works."""
        self._config = config.with_found_llm()
        self._parent = None if context is None else context.cancellation
        self._turn_loop: TurnLoop | None = None
        self._session: ref[Any] | None = None  # the open session with this engine
        self._lock = RLock()  # a signal handler may inject a message in the middle of anything here
        spending = None if context is None else context.spending
        self.conversation: Conversation = Conversation(history, config.budget, spending)

    @safe_repr
    def __repr__(self) -> str:
        names = ", ".join([tool.name for tool in self.tools])
        options = f"tools=[{names}], state={self.state!r}, messages={len(self.conversation.history)}"
        return f"{type(self).__name__}({self.llm!r}, {options})"

    # State.

    @property
    def state(self) -> str:
        """The current state in the table `TURN` (toolcast.values.states)."""
        return "idle" if self._turn_loop is None else self._turn_loop.state

    @property
    def trace(self) -> tuple[str, ...]:
        """The states of the current turn, or of the last one."""
        return ("idle",) if self._turn_loop is None else tuple(self._turn_loop.states)

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages so far, as they are sent with the next request."""
        return tuple(self.conversation.history)

    @property
    def usage(self) -> Usage:
        """Tokens used by all turns."""
        return self.conversation.usage

    @property
    def pending(self) -> tuple[PermissionRequest, ...]:
        """The approvals that the turn waits for: `submit(answers=[...])` continues it."""
        config = self._config if self._turn_loop is None else self._turn_loop.config
        return approval_requests(config, self.conversation, unanswered_calls(self.conversation.history))

    # Turns.

    @overload
    def submit(
        self, message: Messages | None = None, *, output_cls: TypeForm[T], **options: Unpack[TurnOptions[D]]
    ) -> Turn[T]: ...
    @overload
    def submit(
        self, message: Messages | None = None, *, output_cls: None = None, **options: Unpack[TurnOptions[D]]
    ) -> Turn[Output_co]: ...
    def submit(
        self, message: Messages | None = None, *, output_cls: Any = None, **options: Unpack[TurnOptions[D]]
    ) -> Turn[Any]:
        """Run a turn to its end and return it.

        Args:
            message: The user's message, or messages. Without one the engine continues where it is: it runs the calls
                that have no result yet, with the `answers` to its requests, or sends the history once more.
            output_cls: The type of a typed result, `Turn.output`. Default: that of the engine's `Agent`.
            options: See `TurnOptions`.

        Raises:
            LLMError: If a request failed.
            TurnCancelled: If the turn was cancelled.
            TurnStopped: If a limit was reached.
            TurnFailed: If a tool ended the turn.
            TypeError: If a tool has a `ToolContext[Shop]`, and there are no dependencies. Nothing was sent then.
        """
        turn_loop = self._begin(self._request(message, output_cls, options), self._config.client.sync_backend())
        try:
            return sync_driver.run(turn_loop.finish())
        finally:
            turn_loop.abandon()  # after a Ctrl-C before it began

    @overload
    async def asubmit(
        self, message: Messages | None = None, *, output_cls: TypeForm[T], **options: Unpack[TurnOptions[D]]
    ) -> Turn[T]: ...
    @overload
    async def asubmit(
        self, message: Messages | None = None, *, output_cls: None = None, **options: Unpack[TurnOptions[D]]
    ) -> Turn[Output_co]: ...
    async def asubmit(
        self, message: Messages | None = None, *, output_cls: Any = None, **options: Unpack[TurnOptions[D]]
    ) -> Turn[Any]:
        """Run a turn to its end and return it: see `submit`."""
        turn_loop = self._begin(self._request(message, output_cls, options), self._config.client.async_backend())
        return await turn_loop.finish()

    @overload
    def stream(
        self, message: Messages | None = None, *, output_cls: TypeForm[T], **options: Unpack[TurnOptions[D]]
    ) -> TurnStream[T]: ...
    @overload
    def stream(
        self, message: Messages | None = None, *, output_cls: None = None, **options: Unpack[TurnOptions[D]]
    ) -> TurnStream[Output_co]: ...
    def stream(
        self, message: Messages | None = None, *, output_cls: Any = None, **options: Unpack[TurnOptions[D]]
    ) -> TurnStream[Any]:
        """Return the events of a turn as they arrive. The turn begins with the first `next()`. See `submit`."""
        request = self._request(message, output_cls, options)
        return TurnStream(lambda: self._begin(request, self._config.client.sync_backend()))

    @overload
    def astream(
        self, message: Messages | None = None, *, output_cls: TypeForm[T], **options: Unpack[TurnOptions[D]]
    ) -> AsyncTurnStream[T]: ...
    @overload
    def astream(
        self, message: Messages | None = None, *, output_cls: None = None, **options: Unpack[TurnOptions[D]]
    ) -> AsyncTurnStream[Output_co]: ...
    def astream(
        self, message: Messages | None = None, *, output_cls: Any = None, **options: Unpack[TurnOptions[D]]
    ) -> AsyncTurnStream[Any]:
        """Return the events of a turn as they arrive. The turn begins when the first is awaited. See `submit`."""
        request = self._request(message, output_cls, options)
        return AsyncTurnStream(lambda: self._begin(request, self._config.client.async_backend()))

    def cancel(self) -> None:
        """Cancel the current turn, from any thread. Without one, do nothing."""
        turn_loop = self._turn_loop
        if turn_loop is not None and not turn_loop.ended:
            turn_loop.cancel()

    def inject(self, message: AnyMessage) -> None:
        """Add a message to the history: at once, or before the next request of a turn in progress."""
        (message,) = require_valid([as_message(message)])
        with self._lock:  # else a turn may begin in between, and the message come between a call and its result
            self.conversation.injected.append(message)
            if not self._is_busy and not unanswered_calls(self.conversation.history):
                self.conversation.pop_injected()

    # Snapshots and forks.

    def reset(self) -> None:
        """Clear the history, the usage and the approvals for the session."""
        self._require_idle("reset")
        self._turn_loop = None
        self.conversation = Conversation(budget=self._config.budget, parent=self.conversation.spending.parent)

    def snapshot(self) -> dict[str, Any]:
        """Return the conversation as JSON-serialisable data."""
        return self.conversation.snapshot()

    def restore(self, data: Snapshot) -> None:
        """Restore the conversation from the data of `snapshot`."""
        self._require_idle("restore")
        self.conversation.restore(data)

    def fork(
        self,
        *,
        permissions: Permissions | None = None,
        tools: Tools | None = None,
        max_rounds: int | None = None,
        instructions: Instructions[D] | None = None,
        tool_timeout: float | None = None,
        deps: D | None = None,
        context: ToolContext[Any] | None = None,
    ) -> Engine[D, Output_co]:
        """Return another engine with this one's settings and an empty history.

        Args:
            permissions: The permissions of the new engine, in place of this one's.
            tools: The tools of the new engine, in place of this one's.
            max_rounds: The limit of model requests per turn, in place of this engine's.
            instructions: Instructions after this engine's own.
            tool_timeout: Seconds per tool call, if this engine has no such limit.
            deps: The dependencies of the new engine, in place of this one's.
            context: The context of the tool call for which the new engine works: it is cancelled with that call, and
                its usage counts there.
        """
        kept = (self.tools, self.server_tools, self._config.cache_points)
        own, server_tools, cache_points = kept if tools is None else split_tools(tools)
        settings = self._config.settings
        if settings is not None and settings.conversation is not None:
            settings = settings.with_(conversation=None)  # it has this engine's history
        config = replace(
            self._config,
            permissions=permissions or self.permissions,
            settings=settings,
            tools=as_tools(own),
            server_tools=server_tools,
            cache_points=cache_points,
            max_rounds=max_rounds or self._config.max_rounds,
            instructions=(*self._config.instructions, *as_instructions(instructions)),
            tool_timeout=self._config.tool_timeout or tool_timeout,
            deps=self._config.deps if deps is None else deps,
        )
        return Engine.of(config, context=context)

    def as_tool(self, name: str | None = None, description: str | None = None) -> CallableTool:
        """Return this engine as a tool for another. Each call is a turn of its own, with an empty history.

        An engine that has no `deps` gets those of the turn that calls it.
        """
        return agent_tool(self._config, lambda: self, name, description)

    def attach(self, session: Any) -> None:
        """Reserve the engine for `session`. Raises `IllegalState` if another open session has it."""
        with self._lock:
            other = None if self._session is None else self._session()
            if other is not None:
                raise IllegalState(
                    f"the engine belongs to the session {other.id!r}: close that, or take another, engine.fork()",
                    state=self.state,
                )
            self._session = ref(session)

    def detach(self, session: Any) -> None:
        """Release the engine, if `session` has it."""
        with self._lock:
            if self._session is not None and self._session() is session:
                self._session = None

    def begin(
        self,
        message: Messages | None,
        output_cls: Any,
        options: TurnOptions[D],
        *,
        concurrent: bool,
        checkpoint: Callable[[], object] | None = None,
    ) -> TurnLoop:
        """Begin a turn that the caller drives. See `TurnRequest` for the `checkpoint`."""
        request = self._request(message, output_cls, options)
        if checkpoint is not None:
            request = replace(request, checkpoint=checkpoint)
        return self._begin(request, self._config.client.backend(concurrent))

    def _request(self, message: Messages | None, output_cls: Any, options: TurnOptions[D]) -> TurnRequest:
        return build_turn_request(self._config, self.conversation, message, output_cls, options)

    def _begin(self, request: TurnRequest, backend: IOBackend) -> TurnLoop:
        """Begin a turn, which is the engine's current one from now on."""
        with self._lock:
            self._require_idle("begin a turn")
            trace = Trace(TURN, self._config.observer)
            session = None if self._session is None else self._session()
            hooks = self._config.begin_turn(trace.call_id, "" if session is None else session.id)
            if hooks is not None:
                hooks.observe_states(trace)
            self._turn_loop = TurnLoop(self.conversation, request, backend, trace, Cancellation(self._parent), hooks)
            return self._turn_loop

    @property
    def _is_busy(self) -> bool:
        return self._turn_loop is not None and not self._turn_loop.ended

    def _require_idle(self, action: str) -> None:
        if self._is_busy:
            raise IllegalState(
                f"the engine cannot {action} while it is {self.state}; wait for the turn's end, or cancel() it",
                state=self.state,
            )


def agent_tool(
    config: EngineConfig, engine: Callable[[], Engine[Any, Any]], name: str | None, description: str | None
) -> CallableTool:
    """Return a tool whose calls are turns of their own, with an empty history: of forks of the engines."""
    later = config.permissions.approve == "later"  # a tool call cannot wait for a later approval
    permissions = config.permissions.without_prompt() if later else None

    def ask(prompt: str, context: ToolContext) -> Any:
        return answer(fork(context).submit(prompt))

    async def aask(prompt: str, context: ToolContext) -> Any:
        return answer(await fork(context).asubmit(prompt))

    def answer(turn: Turn[Any]) -> Any:
        return marked_text(turn.text, turn.end, tool.name) if turn.typed_output is None else turn.typed_output

    def fork(context: ToolContext) -> Engine[Any, Any]:
        deps = context.deps if config.deps is None else None
        return engine().fork(context=context, permissions=permissions, deps=deps)

    tool = CallableTool.from_function(ask, name or "ask_agent", description or "Give a request to another agent.")
    requiring = next((each for each in config.tools if each.deps_type is not None), None)
    deps_type = None if requiring is None or config.deps is not None else requiring.deps_type
    return replace(tool, async_function=aask, deps_type=deps_type)
