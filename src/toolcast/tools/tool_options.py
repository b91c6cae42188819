"""Options of a tool and their validation, and the detection of path arguments.

Path arguments are found in the schema: `pathlib.Path` and Pydantic's path types leave their format there. Names that
are passed are added to those, so that no path can be left out by mistake.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, cast, get_args

_PATHS = ("path", "file-path", "directory-path")

ToolErrors: TypeAlias = Literal["return", "raise"]
"""The handling of an error that a tool raises: the model reads it, or it ends the turn."""


NeedsApproval: TypeAlias = Literal["always", "never"]
"""The approval that a tool declares to need."""


class ToolChanges(TypedDict, total=False):
    """The options of `CallableTool.with_`.

    Attributes:
        name: The name.
        description: The description for the model.
        read_only: It changes nothing.
        destructive: Its effect cannot be undone.
        idempotent: Running it twice has the effect of running it once.
        parallel: It may run beside others. None: if it is read-only, or in a structured call.
        timeout: The seconds it may take.
        output_limit: The characters of its result that the model reads.
        path_parameters: Arguments that are paths, besides those found in the schema.
        tool_errors: `"return"`: the model reads an error that it raises; `"raise"`: it ends the turn of the agent with
            `TurnFailed`. None: as the engine.
        approval: `"always"`: each call needs an approval, in every mode, unless a rule allows it; `"never"`: none does,
            unless a rule or the mode denies it. None: as the engine's permissions have it.
        retries: The calls that may fail in a row in a turn of an agent, by invalid arguments, an exception or the time
            limit, before the next failure ends it with `TurnFailed`. None: any number.
    """

    name: str
    description: str
    read_only: bool
    destructive: bool
    idempotent: bool
    parallel: bool | None
    timeout: float | None
    output_limit: int | None
    path_parameters: Set[str]
    tool_errors: ToolErrors | None
    approval: NeedsApproval | None
    retries: int | None


class ToolOptions(Protocol):
    """The options that `check` validates."""

    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def destructive(self) -> bool: ...
    @property
    def timeout(self) -> float | None: ...
    @property
    def output_limit(self) -> int | None: ...
    @property
    def path_parameters(self) -> frozenset[str]: ...
    @property
    def tool_errors(self) -> ToolErrors | None: ...
    @property
    def approval(self) -> NeedsApproval | None: ...
    @property
    def retries(self) -> int | None: ...


def check(options: ToolOptions) -> None:
    """Raise `ValueError` for an invalid option or combination of options."""
    check_timeout(options.timeout)
    check_output_limit(options.output_limit)
    check_tool_errors(options.tool_errors)
    if options.approval not in (*get_args(NeedsApproval), None):
        raise ValueError(f"approval={options.approval!r:.100} is not 'always', 'never' or None")
    if (retries := options.retries) is not None and (type(retries) is not int or retries < 0):
        raise ValueError(f"retries={retries!r:.100} is not a number of calls: expected 0 or more, or None")
    if options.read_only and options.destructive:
        raise ValueError("a tool is either read_only or destructive; take one of them away")
    unknown = sorted(options.path_parameters - set(options.parameters.get("properties", ())))
    if unknown:
        raise ValueError(f"path_parameters={unknown!r} are not arguments of the tool")


def check_timeout(seconds: object, name: str = "timeout") -> None:
    """Raise `ValueError` if the option `name` is not a positive number of seconds or None."""
    if seconds is not None and not _is_positive(seconds, (int, float)):
        raise ValueError(f"{name}={seconds!r} is not a time limit: expected more than 0 seconds, or None")


def check_output_limit(characters: object, name: str = "output_limit") -> None:
    """Raise `ValueError` if the option `name` is not a positive whole number or None."""
    if characters is not None and not _is_positive(characters, (int,)):
        raise ValueError(f"{name}={characters!r} is not a length: expected a whole number above 0, or None")


def check_tool_errors(handling: object) -> None:
    """Raise `ValueError` if `handling` is neither a value of `ToolErrors` nor None."""
    if handling is not None and handling not in get_args(ToolErrors):
        raise ValueError(f"tool_errors={handling!r:.100} is not 'return' or 'raise'")


def _is_positive(value: Any, kinds: tuple[type, ...]) -> bool:
    return type(value) is not bool and isinstance(value, kinds) and cast("float", value) > 0


def path_arguments(parameters: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the arguments that are or contain paths."""
    definitions = parameters.get("$defs", {})
    properties = parameters.get("properties", {})
    return frozenset([name for name, schema in properties.items() if _contains_path(schema, definitions)])


def _contains_path(schema: object, definitions: Mapping[str, Any]) -> bool:
    stack, seen = [schema], set[str]()
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(cast("list[object]", node))
        elif isinstance(node, dict):
            mapping = cast("dict[str, object]", node)
            if mapping.get("format") in _PATHS:
                return True
            reference = mapping.get("$ref")
            if isinstance(reference, str) and reference not in seen:
                seen.add(reference)
                stack.append(definitions.get(reference.rpartition("/")[2]))
            stack.extend(mapping.values())
    return False
