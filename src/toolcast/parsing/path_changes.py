"""Change records of a partial value, and the paths, items, text and error locations derived from them.

A record is a plain tuple `(container, key, kind, value)`, appended for every change of a partial value; everything else
here is computed on demand.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, Literal

from pydantic import BaseModel, RootModel
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError, PydanticKnownError, ValidationError

from ..lazy.lazy_dataclasses import dataclass
from .container_stack import Container
from .core_schemas import LISTS, MAPPINGS
from .missing import MISSING

OPENED: Final = 0  # a container or a string has opened, still empty
GROWN: Final = 1  # more text of an open string
SET: Final = 2  # a value has closed, and is new or differs from what was shown
SEALED: Final = 3  # a value has closed, and equals what was shown
UNSEEN: Final = 4  # more text of a string that is not shown
HIDDEN: Final = 5  # a container or a string that is not shown has opened
_HIDDEN: Final = "(hidden)"
_is_kind = re.compile(  # of a member of a union, as it is in a location
    r"(function-\w+|constrained-\w+|tagged-union|is-\w+|lax-or-strict|json-or-python|nullable|literal|default|chain|enum|"
    r"str|int|float|bool|bytes|none|any|list|tuple|dict|set|frozenset|date|time|datetime|timedelta|decimal|uuid|url)"
).fullmatch
_OUT_OF_SIGHT = {OPENED: HIDDEN, GROWN: UNSEEN, SET: SEALED, SEALED: SEALED, UNSEEN: UNSEEN, HIDDEN: HIDDEN}

Record = tuple[Container, Any, int, Any]
Path = str | tuple[str | int, ...]
Steps = tuple[Any, ...]
FieldState = Literal["pending", "growing", "done"]


@dataclass(frozen=True, slots=True)
class PathChange:
    """One visible change: set `path` to `value`, or append the text `value` to the string there."""

    kind: Literal["set", "text"]
    path: Path
    value: Any


def steps_of(path: Path) -> Steps:
    """Return a path as a tuple of strings, one for each step; the root is the empty tuple."""
    if isinstance(path, str):
        return tuple(path.split(".")) if path else ()
    return tuple(map(str, path))


def path_of(container: Container, key: Any) -> Steps:
    """Return the path from the root to a key of a container."""
    steps: list[Any] = []
    while container.parent is not None:
        steps.append(key)
        key, container = container.parent_key, container.parent
    return tuple(reversed(steps))


def public_path(steps: Steps) -> Path:
    """Return a path as callers see it: dotted, or a tuple if a key contains a dot."""
    if any(step == "" or "." in str(step) for step in steps):
        return steps
    return ".".join(map(str, steps))


def changed(records: Iterable[Record]) -> tuple[Path, ...]:
    """Return the paths that changed visibly, each once."""
    places = dict.fromkeys((container, key) for container, key, kind, _ in records if kind <= SET)
    return tuple(dict.fromkeys(public_path(path_of(container, key)) for container, key in places))


def path_changes(records: Iterable[Record]) -> Iterator[PathChange]:
    """Yield the visible changes in order; applied one after the other, they rebuild the value."""
    for container, key, kind, value in records:
        if kind <= SET:
            yield PathChange("text" if kind == GROWN else "set", public_path(path_of(container, key)), value)


def closed_items(records: Iterable[Record], path: Path) -> list[Any]:
    """Return the validated elements of the list at `path` that have closed."""
    steps = steps_of(path)
    return [
        value
        for container, key, kind, value in records
        if kind in (SET, SEALED) and type(container.values) is list and _is_at(container, key, (*steps, str(key)))
    ]


def new_text(records: Iterable[Record], path: Path) -> str:
    """Return the text added to the string at `path`."""
    steps = steps_of(path)
    return "".join(
        value for container, key, kind, value in records if kind in (GROWN, UNSEEN) and _is_at(container, key, steps)
    )


def _is_at(container: Container, key: Any, steps: Steps) -> bool:
    return tuple(map(str, path_of(container, key))) == steps


def hide_records(records: list[Record], hidden_container: Container) -> list[Record]:
    """Return the records with the changes inside `hidden_container` marked as not visible."""
    return [_out_of_sight(record) if _inside(record, hidden_container) else record for record in records]


def _out_of_sight(record: Record) -> Record:
    container, key, kind, value = record
    return container, key, _OUT_OF_SIGHT[kind], value


def _inside(record: Record, outer: Container) -> bool:
    container: Container | None = record[0]
    if container is outer.parent and record[1] == outer.parent_key and record[2] == OPENED:
        return True
    while container is not None and container is not outer:
        container = container.parent
    return container is outer


def field_state(innermost: Container, busy: bool, path: Path) -> FieldState:
    """Return the state of the field at `path`.

    `busy` is True if the value that the innermost container waits for has begun.
    """
    containers = [innermost]
    while containers[-1].parent is not None:
        containers.append(containers[-1].parent)
    steps = ("value", *steps_of(path))
    container = containers.pop()
    while containers and steps and str(containers[-1].parent_key) == steps[0]:  # along the open path
        container, steps = containers.pop(), steps[1:]
    if not steps:
        return "growing"
    if busy and not containers and str(container.key) == steps[0]:
        return "pending" if steps[1:] else "growing"
    return "pending" if value_at_path(container, steps) is MISSING else "done"


def value_at_path(value: Any, steps: Steps) -> Any:
    """Return the value at a path inside `value`; `MISSING` if there is none."""
    for step in steps:
        parts = _parts(value)
        if isinstance(parts, MAPPINGS):
            value = next((part for key, part in parts.items() if str(key) == str(step)), MISSING)
        else:
            value = parts[int(step)] if str(step).isdigit() and int(step) < len(parts) else MISSING
    return value


def _parts(value: Any) -> Any:
    """Return the parts of a value by key or index."""
    if isinstance(value, Container):
        return value.values if isinstance(value.values, LISTS) else {**value.values, **value.extra_values()}
    while isinstance(value, RootModel):
        value = value.__dict__.get("root")
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    if isinstance(value, (MAPPINGS, *LISTS)):
        return value
    return getattr(value, "__dict__", {})


def error_location(container: Container) -> Steps:
    """Return the location of a container as Pydantic reports it: keys as received, and tags."""
    steps: list[Any] = []
    while container.parent is not None:
        steps = [container.parent.loc, *container.tags, *steps]
        container = container.parent
    return tuple(steps[1:])


def relocate_error(
    error: ValidationError, prefix: Steps, title: str, *, shown: Collection[str] | None = None
) -> ValidationError:
    """Return the error as validating the root would raise it: with its title and the full location.

    `shown`, if the input is hidden, are the names that a location may have.
    """
    details: list[InitErrorDetails] = []
    for line in error.errors(include_url=False):
        place: Steps = (*prefix, *line["loc"])
        if shown is not None:
            place = tuple(_shown_step(step, shown) for step in place)
        detail = InitErrorDetails(type=_type_of(line), loc=place, input=line["input"])
        if "ctx" in line:
            detail["ctx"] = line["ctx"]
            if shown is not None and "tag" in line["ctx"]:  # of a union: as the input has it
                detail["ctx"] = {**line["ctx"], "tag": _HIDDEN}
        details.append(detail)
    return ValidationError.from_exception_data(title, details, input_type="json", hide_input=shown is not None)


def _shown_step(step: str | int, shown: Collection[str]) -> str | int:
    """Return a step of a location, or what takes its place: a name of the input may be as secret as its values."""
    if isinstance(step, int) or step in shown or step == "[key]":
        return step
    kind, bracket, _ = step.partition("[")
    return (f"{kind}[...]" if bracket else kind) if _is_kind(kind) else _HIDDEN


def _type_of(line: ErrorDetails) -> str | PydanticCustomError:
    kind: Any = line["type"]
    message: Any = line["msg"]
    with suppress(KeyError):  # an error type that the user's validator defined
        PydanticKnownError(kind, line.get("ctx"))
        return line["type"]
    return PydanticCustomError(kind, message, line.get("ctx"))
