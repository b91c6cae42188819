"""`EngineConfig`, the settings of an engine's turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Generic, Literal, TypedDict

from typing_extensions import TypeVar

from ...hook_protocol import CallHooks, Hooks, as_hooks
from ...lazy_dataclasses import dataclass
from ...llms.base import FunctionCallingLLM
from ...llms.provider_llms import chosen_llm, found_llm
from ...llms.request import Messages, Tools
from ...option_suggestions import refuse_unknown
from ...server_tools import ServerTool, split_tools
from ...settings import Settings
from ...states import Observer
from ...tool_spec import ToolCachePoint
from ...tools.callable_tool import CallableTool, as_tools
from ...tools.options import ToolErrors, check_output_limit, check_timeout, check_tool_errors
from ...usage import Budget
from ..permissions.permissions import UNGUARDED, Permissions
from .compaction import Compaction
from .instructions import Instruction, Instructions, as_instructions
from .output_validators import OutputValidator, as_validators

D = TypeVar("D", default=Any)


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


class AgentOptions(TypedDict, Generic[D], total=False):
    """Options of `Agent` and `Engine`; `D` is the type of the dependencies.

    Attributes:
        permissions: The rules for what may run without an approval; by default all tools, protected paths excepted.
        max_rounds: The limit of requests per turn. Default: 50.
        budget: The limit of what all turns of a conversation may spend.
        settings: Settings that take precedence over those of the LLM.
        cache: `"auto"` marks what stays the same in the next request, for providers that cache only what is marked: the
            tools, the system messages and the history. It is `Settings.cache`.
        instructions: The text of a system message before the history, after the LLM's own `system_prompt`; or a
            function of the `ToolContext`, sync or async, that returns it (None: no message) for each model request.
        deps: A value that tools get in their `ToolContext`, in turns without `deps` of their own.
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
    deps: D | None
    validation_context: Any
    output_validators: OutputValidator[D] | Sequence[OutputValidator[D]]
    compaction: Compaction | Literal["default"] | None
    tool_timeout: float | None
    output_limit: int
    max_repeats: int | None
    max_attempts: int
    auto_continue: bool
    tool_errors: ToolErrors | None
    observer: Observer | None
    hooks: Sequence[Hooks] | Hooks | None


class EngineOptions(AgentOptions[D], Generic[D], total=False):
    """Options of `Engine`: those of `Agent`, and the messages to begin with."""

    history: Messages


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

    def __post_init__(self) -> None:
        for name, (fits, wanted) in _EXPECTED.items():
            value = getattr(self, name)
            if not fits(value):
                raise ValueError(f"{name}={value!r:.100} is not {wanted}")
        check_timeout(self.tool_timeout, "tool_timeout")
        check_output_limit(self.output_limit)
        check_tool_errors(self.tool_errors)
        object.__setattr__(self, "by_name", {tool.name: tool for tool in self.tools})

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
        """Raise `TypeError` if one of the tools, or of `more`, requires dependencies and there are none."""
        tool = next((tool for tool in (*self.tools, *more) if tool.deps_type is not None), None)
        if self.deps is None and tool is not None:
            kind = getattr(tool.deps_type, "__name__", None) or str(tool.deps_type)
            raise TypeError(
                f"the tool {tool.name} requires deps (its context is a ToolContext[{kind}]), and the turn has none: "
                "pass deps= to the turn, as in submit('...', deps=...), or to the Engine"
            )

    def begin_turn(self, id: str = "", session: str = "") -> CallHooks | None:
        """Return the hooks of a turn that begins now, by default with an id of their own; None if there are none."""
        return self.llm.begin_operation("turn", self.hooks, id=id, session=session)

    def require_prices(self) -> None:
        """Raise `UnsupportedLLMError` if the cost of the model, or of the one that writes summaries, is unknown."""
        self.llm.require_prices()
        summarise = None if self.compaction is None else self.compaction.summarise
        if isinstance(summarise, FunctionCallingLLM):
            summarise.require_prices()


def configured(
    kind: str, llm: FunctionCallingLLM | str | None, tools: Tools, options: AgentOptions[Any], output_cls: Any = None
) -> EngineConfig:
    """Return the configuration for these options of an `Agent` or an `Engine`, the `kind`."""
    further = "output_cls" if kind == "Agent" else "history"
    refuse_unknown(kind, options, ("llm", "tools", further, *AgentOptions.__annotations__))
    given: dict[str, Any] = {**options, "output_cls": output_cls}
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
