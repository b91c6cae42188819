"""`EngineConfig`, the settings of an engine's turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Generic, Literal, TypedDict

from typing_extensions import TypeVar

from ...hook_protocol import CallHooks, Hooks, as_hooks
from ...lazy_dataclasses import dataclass
from ...llms.base import FunctionCallingLLM
from ...llms.provider_llms import chosen_llm
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


class EngineOptions(TypedDict, Generic[D], total=False):
    """Options of `Engine`; `D` is the type of the dependencies.

    Attributes:
        permissions: The rules for what may run unasked; by default tools run, protected paths excepted.
        max_rounds: The most requests of a turn. Default: 50.
        budget: The most that all turns may spend.
        settings: Settings that take precedence over those of the LLM.
        cache: `Settings.cache`: "auto" marks what stays the same in the next request for the provider's cache.
        instructions: The text of a system message before the history, or a function of the `ToolContext` that returns
            it for each request.
        deps: A value that tools find in their `ToolContext`, for turns that are given no other.
        validation_context: The context of Pydantic's validators, for turns that are given no other.
        output_validators: A function of the `ToolContext` and the typed output of a turn, or several.
        history: The messages to begin with.
        compaction: The way to make room in a history that is too long; None: that is an error.
        tool_timeout: The most seconds that a tool may run.
        output_limit: The most characters of a tool's output that the model reads. Default: 100,000.
        max_repeats: The most times that the same call may come in a row.
        max_attempts: The number of answers that are requested until a typed result is valid. Default: 3.
        auto_continue: Request the rest of an answer that `max_tokens` cut off. Default: False.
        tool_errors: "return" lets the model read an error that a tool raises; "raise" ends the turn with `TurnFailed`.
            Default: `Configs.tool_errors`, "return".
        observer: A function that is called with the id of a turn and each of its states.
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
    history: Messages
    compaction: Compaction | Literal["default"] | None
    tool_timeout: float | None
    output_limit: int
    max_repeats: int | None
    max_attempts: int
    auto_continue: bool
    tool_errors: ToolErrors | None
    observer: Observer | None
    hooks: Sequence[Hooks] | Hooks | None


@dataclass(frozen=True, slots=True, eq=False)
class EngineConfig:
    """The LLM, tools and limits of an engine."""

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


def configured(llm: FunctionCallingLLM | str | None, tools: Tools, options: EngineOptions[Any]) -> EngineConfig:
    """Return the configuration for these options of an engine."""
    refuse_unknown("Engine", options, ("llm", "tools", *EngineOptions.__annotations__))
    given: dict[str, Any] = {name: value for name, value in options.items() if name != "history"}
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
