"""What a feed did, as records, and what can be told from them: paths, items, new text. And the text itself.

A record is a plain tuple `(frame, key, kind, value)`, made for every change of a growing value whether or not
anybody asks; everything else here is worked out when somebody does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, RootModel
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError, PydanticKnownError, ValidationError

from ..text_buffer import TextBuffer
from .container_stack import MISSING, Container
from .core_schemas import LISTS, MAPPINGS

OPENED: Final = 0  # a container or a string is there, with nothing in it
GROWN: Final = 1  # more text of an open string
SET: Final = 2  # a value has closed, and shows for the first time or otherwise than before
SEALED: Final = 3  # a value has closed and looks as before
UNSEEN: Final = 4  # more text of a string that does not show
HIDDEN: Final = 5  # what has opened does not show
_OUT_OF_SIGHT = {OPENED: HIDDEN, GROWN: UNSEEN, SET: SEALED, SEALED: SEALED, UNSEEN: UNSEEN, HIDDEN: HIDDEN}

Record = tuple[Container, Any, int, Any]
Path = str | tuple[str | int, ...]
Steps = tuple[Any, ...]
FieldState = Literal["pending", "growing", "done"]


@dataclass(frozen=True, slots=True)
class PathChange:
    """One visible change: set the place at `path` to `value`, or append the text `value` to the string there."""

    path: Path
    kind: Literal["set", "text"]
    value: Any


def steps_of(path: Path) -> Steps:
    """A path as strings, one for each step; the root is the empty path."""
    if isinstance(path, str):
        return tuple(path.split(".")) if path else ()
    return tuple(map(str, path))


def path_of(frame: Container, key: Any) -> Steps:
    """The way from the root to a key of a frame."""
    steps: list[Any] = []
    while frame.parent is not None:
        steps.append(key)
        key, frame = frame.place, frame.parent
    return tuple(reversed(steps))


def _public(steps: Steps) -> Path:
    if any(step == "" or "." in str(step) for step in steps):
        return steps
    return ".".join(map(str, steps))


def changed(records: Iterable[Record]) -> tuple[Path, ...]:
    """The paths of what changed visibly, each once."""
    places = dict.fromkeys((frame, key) for frame, key, kind, _ in records if kind <= SET)
    return tuple(dict.fromkeys(_public(path_of(frame, key)) for frame, key in places))


def path_changes(records: Iterable[Record]) -> Iterator[PathChange]:
    """What changed visibly, in order; applied one after the other they rebuild the value."""
    for frame, key, kind, value in records:
        if kind <= SET:
            yield PathChange(_public(path_of(frame, key)), "text" if kind == GROWN else "set", value)


def closed_items(records: Iterable[Record], path: Path) -> list[Any]:
    """The elements of the list at `path` that have closed, validated."""
    steps = steps_of(path)
    return [
        value
        for frame, key, kind, value in records
        if kind in (SET, SEALED) and type(frame.values) is list and _is_at(frame, key, (*steps, str(key)))
    ]


def new_text(records: Iterable[Record], path: Path) -> str:
    """What was added to the string at `path`."""
    steps = steps_of(path)
    return "".join(
        value for frame, key, kind, value in records if kind in (GROWN, UNSEEN) and _is_at(frame, key, steps)
    )


def _is_at(frame: Container, key: Any, steps: Steps) -> bool:
    return tuple(map(str, path_of(frame, key))) == steps


def sifted(records: list[Record], held: Container) -> list[Record]:
    """The records when `held` does not show: what happened in it is kept, out of sight."""
    return [_unseen(record) if _inside(record, held) else record for record in records]


def _unseen(record: Record) -> Record:
    frame, key, kind, value = record
    return frame, key, _OUT_OF_SIGHT[kind], value


def _inside(record: Record, outer: Container) -> bool:
    frame: Container | None = record[0]
    if frame is outer.parent and record[1] == outer.place and record[2] == OPENED:
        return True
    while frame is not None and frame is not outer:
        frame = frame.parent
    return frame is outer


def field_state(innermost: Container, busy: bool, path: Path) -> FieldState:
    """The state of the field at `path`. `busy`: the value that the innermost frame waits for has begun."""
    frames = [innermost]
    while frames[-1].parent is not None:
        frames.append(frames[-1].parent)
    steps = ("value", *steps_of(path))
    frame = frames.pop()
    while frames and steps and str(frames[-1].place) == steps[0]:  # along the open path
        frame, steps = frames.pop(), steps[1:]
    if not steps:
        return "growing"
    if busy and not frames and str(frame.key) == steps[0]:
        return "pending" if steps[1:] else "growing"
    return "pending" if followed(frame, steps) is MISSING else "done"


def followed(value: Any, steps: Steps) -> Any:
    """What stands at a path inside a value; `MISSING` if nothing does."""
    for step in steps:
        parts = _parts(value)
        if isinstance(parts, MAPPINGS):
            value = next((part for key, part in parts.items() if str(key) == str(step)), MISSING)
        else:
            value = parts[int(step)] if str(step).isdigit() and int(step) < len(parts) else MISSING
    return value


def _parts(value: Any) -> Any:
    """What is inside a value, by its keys or places."""
    if isinstance(value, Container):
        return value.values if isinstance(value.values, LISTS) else {**value.values, **value.extra()}
    while isinstance(value, RootModel):
        value = value.__dict__.get("root")
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    if isinstance(value, (MAPPINGS, *LISTS)):
        return value
    return getattr(value, "__dict__", {})


def location(frame: Container) -> Steps:
    """How Pydantic calls the place of a frame in the location of an error: keys as they came, and tags."""
    steps: list[Any] = []
    while frame.parent is not None:
        steps = [frame.parent.loc, *frame.tags, *steps]
        frame = frame.parent
    return tuple(steps[1:])


def located(error: ValidationError, prefix: Steps, title: str, *, hide_input: bool = False) -> ValidationError:
    """Return the error as the root would have given it: under its title, with the whole way to the place."""
    details: list[InitErrorDetails] = []
    for line in error.errors(include_url=False):
        detail = InitErrorDetails(type=_type_of(line), loc=(*prefix, *line["loc"]), input=line["input"])
        if "ctx" in line:
            detail["ctx"] = line["ctx"]
        details.append(detail)
    return ValidationError.from_exception_data(title, details, input_type="json", hide_input=hide_input)


def _type_of(line: ErrorDetails) -> str | PydanticCustomError:
    kind: Any = line["type"]
    message: Any = line["msg"]
    with suppress(KeyError):  # a type of error that the user's validator made up
        PydanticKnownError(kind, line.get("ctx"))
        return line["type"]
    return PydanticCustomError(kind, message, line.get("ctx"))


class Text(TextBuffer):
    """All that was fed, from which any part can be cut at the cost of that part."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: list[int] = [0]  # where each block begins and ends

    def join(self) -> None:
        super().join()
        self._ends.append(self._ends[-1] + len(self.blocks[-1]))

    def cut(self, start: int, end: int) -> str:
        """The characters from `start` to `end`."""
        if self.fresh:
            self.join()
        ends = self._ends
        first = bisect_right(ends, start) - 1
        last = bisect_left(ends, end, first)
        return "".join(self.blocks[first:last])[start - ends[first] : end - ends[first]]

    def without(self, start: int, end: int, spans: list[tuple[int, int]]) -> str:
        """The same, with the number of each span in its place."""
        parts: list[str] = []
        for number, (first, last) in enumerate(spans):
            parts.append(self.cut(start, first))
            parts.append(str(number))
            start = last
        parts.append(self.cut(start, end))
        return "".join(parts)
