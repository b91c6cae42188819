"""What a developer says of a tool beyond what it does: the options, and how they are checked.

Which arguments are paths is found in the schema: `pathlib.Path` and its like leave their format there. What is
given by name is added to what is found, so that nothing that is a path can be left out by mistake.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Protocol, TypedDict, cast

_PATHS = ("path", "file-path", "directory-path")


class ToolChanges(TypedDict, total=False):
    """What `CallableTool.with_` changes.

    `read_only`: it changes nothing. `destructive`: what it does cannot be taken back. `idempotent`: to run it
    twice is to run it once. `parallel`: it may run beside others; None: where it is read-only, or in a structured
    call. `timeout`: seconds it may take. `output_limit`: characters of its result that the model reads.
    `path_parameters`: arguments that are paths, beside those that the schema tells.
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


class ToolOptions(Protocol):
    """The options that can make no sense."""

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


def check(options: ToolOptions) -> None:
    """Raise `ValueError` where an option makes no sense."""
    check_timeout(options.timeout)
    check_output_limit(options.output_limit)
    if options.read_only and options.destructive:
        raise ValueError("a tool is either read_only or destructive; take one of them away")
    unknown = sorted(options.path_parameters - set(options.parameters.get("properties", ())))
    if unknown:
        raise ValueError(f"path_parameters names what is no argument of the tool: {', '.join(unknown)}")


def check_timeout(seconds: object, name: str = "timeout") -> None:
    """Raise `ValueError` where what was given as `name` is no time that a tool could take."""
    if seconds is not None and not _is_positive(seconds, (int, float)):
        raise ValueError(f"{name}={seconds!r} leaves a tool no time; give more than 0 seconds, or None")


def check_output_limit(characters: object, name: str = "output_limit") -> None:
    """Raise `ValueError` where what was given as `name` is no length that a text could have."""
    if characters is not None and not _is_positive(characters, (int,)):
        raise ValueError(f"{name}={characters!r} leaves nothing to read; give a whole number above 0, or None")


def _is_positive(value: Any, kinds: tuple[type, ...]) -> bool:
    return type(value) is not bool and isinstance(value, kinds) and cast("float", value) > 0


def path_arguments(parameters: Mapping[str, Any]) -> frozenset[str]:
    """The names of the arguments that are paths, or hold some."""
    definitions = parameters.get("$defs", {})
    properties = parameters.get("properties", {})
    return frozenset([name for name, schema in properties.items() if _holds_path(schema, definitions)])


def _holds_path(schema: object, definitions: Mapping[str, Any]) -> bool:
    ahead, seen = [schema], set[str]()
    while ahead:
        node = ahead.pop()
        if isinstance(node, list):
            ahead.extend(cast("list[object]", node))
        elif isinstance(node, dict):
            known = cast("dict[str, object]", node)
            if known.get("format") in _PATHS:
                return True
            reference = known.get("$ref")
            if isinstance(reference, str) and reference not in seen:
                seen.add(reference)
                ahead.append(definitions.get(reference.rpartition("/")[2]))
            ahead.extend(known.values())
    return False
