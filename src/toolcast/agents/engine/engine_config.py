"""`EngineConfig`, the settings of an engine's turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Generic, Literal, TypedDict

from typing_extensions import TypeVar

from ...lazy.lazy_dataclasses import dataclass
from ...llms.client import LLMClient, client_of
from ...llms.function_calling_llm import FunctionCallingLLM
from ...llms.named_llms import chosen_llm, found_llm
from ...llms.request import Messages, Tools
from ...tools.callable_tool import CallableTool, as_tools
from ...tools.tool_options import ToolErrors, check_output_limit, check_timeout, check_tool_errors
from ...values.budgets import Budget
from ...values.hooks import CallHooks, Hooks, as_hooks
from ...values.option_suggestions import refuse_unknown
from ...values.server_tools import ServerTool, split_tools
from ...values.settings import Settings
from ...values.states import Observer
from ...values.tool_spec import ToolCachePoint
from ..permissions.permissions import UNGUARDED, Permissions
from .compaction import Compaction
from .instructions import Instruction, Instructions, as_instructions
from .output_validators import OutputValidator, as_validators

D = TypeVar("D", default=Any)
Output = TypeVar("Output", default=Any)


def _is_instance(value: object, kind: Any) -> bool:
    """Return whether `value` is an instance of `kind`, as far as that can be found out at run time."""
    try:
        return isinstance(value, (int, float) if kind is float else kind)
    except TypeError:  # a Protocol, a TypedDict, a generic type
        return True


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 1


def _optional(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or fits(value)


def _instance_of(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind)


_EXPECTED: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "permissions": (_instance_of(Permissions), "Permissions: Permissions('default', approve=...)"),
    "max_rounds": (_is_count, "a number of requests, at least 1"),
    "settings": (_optional(_instance_of(Settings)), "Settings(...) or None"),
    "compaction": (_optional(_instance_of(Compaction)), "Compaction(...) or None"),
    "max_repeats": (_optional(_is_count), "a number of calls, at least 1, or None"),
    "max_attempts": (_is_count, "a number of attempts, at least 1"),
    "budget": (_optional(_instance_of(Budget)), "Budget(...) or None"),
    "auto_continue": (_instance_of(bool), "True or False"),
    "observer": (_optional(callable), "a function of (turn_id, state), or None"),
}


class AgentOptions(TypedDict, Generic[D, Output], total=False):
    """Options of `Agent` and `Engine`; `D` is the type of the dependencies, `Output` that of the typed result.

    Attributes:
        permissions: The rules for what may run without an approval; by default all tools, protected paths excepted.
        max_rounds: The limit of requests per turn. Default: 50.
        budget: The limit of what all turns of a conversation may spend.
        settings: Settings that take precedence over those of the LLM.
        cache: `"auto"` marks what stays the same in the next request, for providers that cache only what is marked: the
            tools, the system messages and the history. It is `Settings.cache`.
        instructions: The text of a system message before the history, after the LLM's own `system_prompt`; or a
            function of the `ToolContext`, sync or async, that returns it (None: no message) for each model request.
        validation_context: The context of Pydantic's validators, in turns without one of their own.
        output_validators: Functions of the `ToolContext` and the typed output of a turn, sync or async, that return the
            output. `TryAgain` sends its message to the model.
        compaction: The way to shorten a history that is too long; None: that is an error.
        tool_timeout: Seconds per tool call, for tools without a limit of their own.
        output_limit: The characters of a tool's output that the model reads. Default: 100,000.
        max_repeats: The limit of identical calls in a row.
        max_attempts: Answers that are requested until a typed result is valid. Default: 3.
        auto_continue: Request the rest of an answer that `max_tokens` cut off. Default: False.
        tool_errors: `"return"`: the model reads an error that a tool raises; `"raise"`: it ends the turn with
            `TurnFailed`. Default: `Configs.tool_errors`, `"return"`.
        observer: A function of `(turn_id, state)`.
        hooks: Hooks of its turns, their requests and their tools.
    """

    permissions: Permissions | None
    max_rounds: int
    budget: Budget | None
    settings: Settings | None
    cache: Literal["auto", "off"] | None
    instructions: Instructions[D] | None
    validation_context: Any
    output_validators: OutputValidator[D, Output] | Sequence[OutputValidator[D, Output]]
    compaction: Compaction | Literal["default"] | None
    tool_timeout: float | None
    output_limit: int
    max_repeats: int | None
    max_attempts: int
    auto_continue: bool
    tool_errors: ToolErrors | None
    observer: Observer | None
    hooks: Sequence[Hooks] | Hooks | None


class EngineOptions(AgentOptions[D, Any], Generic[D], total=False):
    """Options of `Engine`: those of `Agent`, the messages to begin with, and the dependencies of the conversation.

    Attributes:
        history: The messages to begin with.
        deps: A value that tools get in their `ToolContext`, in turns without `deps` of their own.
    """

    history: Messages
    deps: D | None


class Configured:
    """The common base of `Agent` and `Engine`: what can be read of their configuration."""

    __slots__ = ()
    _config: EngineConfig

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

    @property
    def server_tools(self) -> tuple[ServerTool, ...]:
        """The tools that the provider runs."""
        return self._config.server_tools

    @property
    def permissions(self) -> Permissions:
        """The rules for calls that run without asking."""
        return self._config.permissions


@dataclass(frozen=True, slots=True, eq=False)
class EngineConfig:
    """The LLM, tools, limits and output type of an agent."""

    llm: FunctionCallingLLM
    tools: tuple[CallableTool, ...]
    server_tools: tuple[ServerTool, ...] = ()
    cache_points: tuple[ToolCachePoint, ...] = ()
    permissions: Permissions = UNGUARDED
    max_rounds: int = 50
    settings: Settings | None = None
    instructions: tuple[Instruction, ...] = ()
    deps: Any = None
    validation_context: Any = None
    output_validators: tuple[OutputValidator[Any], ...] = ()
    compaction: Compaction | None = field(default_factory=Compaction)
    tool_timeout: float | None = None
    output_limit: int = 100_000
    max_repeats: int | None = None
    max_attempts: int = 3
    auto_continue: bool = False
    budget: Budget | None = None
    observer: Observer | None = None
    tool_errors: ToolErrors | None = None
    hooks: tuple[Hooks, ...] = ()
    output_cls: Any = None
    by_name: Mapping[str, CallableTool] = field(init=False)
    client: LLMClient = field(init=False)

    def __post_init__(self) -> None:
        for name, (fits, wanted) in _EXPECTED.items():
            value = getattr(self, name)
            if not fits(value):
                raise ValueError(f"{name}={value!r:.100} is not {wanted}")
        check_timeout(self.tool_timeout, "tool_timeout")
        check_output_limit(self.output_limit)
        check_tool_errors(self.tool_errors)
        object.__setattr__(self, "by_name", {tool.name: tool for tool in self.tools})
        object.__setattr__(self, "client", client_of(self.llm))

    def with_found_llm(self) -> EngineConfig:
        """Return this configuration with the LLM that `LATER` stands for here."""
        llm = found_llm(self.llm)
        return self if llm is self.llm else replace(self, llm=llm)

    def for_turn(self, deps: Any, validation_context: Any) -> EngineConfig:
        """Return the configuration of a turn with its own dependencies and validation context; None changes nothing."""
        if deps is None and validation_context is None:
            return self
        context = self.validation_context if validation_context is None else validation_context
        return replace(self, deps=self.deps if deps is None else deps, validation_context=context)

    def check_deps(self, more: Iterable[CallableTool] = ()) -> None:
        """Raise `TypeError` if the dependencies are none, or others, than one of the tools, or of `more`, requires."""
        for tool in (*self.tools, *more):
            if tool.deps_type is None or (self.deps is not None and _is_instance(self.deps, tool.deps_type)):
                continue
            kind = getattr(tool.deps_type, "__name__", None) or str(tool.deps_type)
            needs = f"the tool {tool.name} requires deps (its context is a ToolContext[{kind}]), and the turn has"
            if self.deps is None:
                given = "none: pass deps= to run() or submit(), or to the Engine"
            else:
                given = f"a {type(self.deps).__name__}: pass a {kind}, or annotate the context with a Protocol"
            raise TypeError(f"{needs} {given}")

    def begin_turn(self, id: str = "", session: str = "") -> CallHooks | None:
        """Return the hooks of a turn that begins now, by default with an id of their own; None if there are none."""
        return self.client.begin_operation("turn", self.hooks, id=id, session=session)

    def require_prices(self) -> None:
        """Raise `UnsupportedLLMError` if the cost of the model, or of the one that writes summaries, is unknown."""
        self.client.require_prices()
        summarise = None if self.compaction is None else self.compaction.summarise
        if isinstance(summarise, FunctionCallingLLM):
            client_of(summarise).require_prices()


def configured(
    kind: str,
    llm: FunctionCallingLLM | str | None,
    tools: Tools,
    options: AgentOptions[Any],
    output_cls: Any = None,
    deps: Any = None,
) -> EngineConfig:
    """Return the configuration for these options of an `Agent` or an `Engine`, the `kind`."""
    own_names = ("output_cls",) if kind == "Agent" else ("history", "deps")
    refuse_unknown(kind, options, ("llm", "tools", *own_names, *AgentOptions.__annotations__))
    given: dict[str, Any] = {**options, "output_cls": output_cls, "deps": deps}
    given["instructions"] = as_instructions(given.get("instructions"))
    given["output_validators"] = as_validators(given.get("output_validators"))
    given["hooks"] = as_hooks(given.get("hooks"))
    if given.get("permissions") is None:
        given.pop("permissions", None)
    if given.get("compaction") == "default":
        del given["compaction"]
    if (cache := given.pop("cache", None)) is not None:
        given["settings"] = Settings(cache=cache).over(given.get("settings"))
    own, server_tools, points = split_tools(tools)
    return EngineConfig(chosen_llm(llm), as_tools(own), server_tools, points, **given)
