"""Ways to look at one streamed call, event by event: its events, list items, text, changes.

A view is asked after every event what it found, and once more after the end what it still owes: what only the
validated result shows, because the answer had to be repaired or came without pieces. In a stream of parallel calls
every path begins with the number of the call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from ..events import Event, Restarted, ToolCallDone
from ..parsing.partial_value import MISSING, PartialValue
from ..parsing.path_changes import Path, PathChange, steps_of
from .object_streams import ViewReducer


class Viewed(Protocol):
    """What a view sees of the call."""

    event: Event | None
    ended: bool
    parallel: bool
    shown: bool

    @property
    def fed(self) -> PartialValue | None:
        """What the last event made grow, if anything."""
        ...

    @property
    def call_index(self) -> int: ...
    @property
    def output(self) -> Any:
        """The result, or None where there is none."""
        ...

    def read_done(self, event: ToolCallDone) -> Any:
        """The validated object of a complete call; None if it is not valid."""
        ...


def view_of(call: Viewed, kind: str, path: Path | None) -> ViewReducer:
    """The view called `kind`: `events`, `items`, `text` or `changes`."""
    return _KINDS[kind](call, steps_of(path or ()))


class _View(ABC):
    """What all views share: what they still owe at the end, and starting afresh when the model is asked again."""

    def __init__(self, call: Viewed, steps: tuple[str, ...]) -> None:
        self.call = call
        self.steps = steps
        self._over = False
        self.start()

    @abstractmethod
    def start(self) -> None:
        """Begin again."""

    def __call__(self) -> list[Any]:
        if self.call.ended:
            over, self._over = self._over, True
            return [] if over or self.call.output is None else self.owed(self.call.output)
        if type(self.call.event) is Restarted:
            self.start()
        return self.found()

    @abstractmethod
    def found(self) -> list[Any]:
        """What the last event brought."""

    @abstractmethod
    def owed(self, output: Any) -> list[Any]:
        """What the result shows and was not found before."""


class _Events(_View):
    def start(self) -> None:
        pass

    def found(self) -> list[Any]:
        return [self.call.event]

    def owed(self, output: Any) -> list[Any]:
        return []


class _Place(_View):
    """A view of one place of the object."""

    def found(self) -> list[Any]:
        growing = self.call.fed
        if growing is None:
            return []
        if not self.call.parallel:
            return self.seen(growing, self.steps)
        if self.steps[:1] == (str(self.call.call_index),):
            return self.seen(growing, self.steps[1:])
        return []

    @abstractmethod
    def seen(self, growing: PartialValue, steps: tuple[str, ...]) -> list[Any]:
        """What was found in what grew."""


class _Items(_Place):
    def start(self) -> None:
        self.given = 0

    def found(self) -> list[Any]:
        if not self.call.parallel or self.steps:
            return super().found()
        event = self.call.event
        made = self.call.read_done(event) if isinstance(event, ToolCallDone) else None
        self.given += made is not None
        return [] if made is None else [made]

    def seen(self, growing: PartialValue, steps: tuple[str, ...]) -> list[Any]:
        items = growing.closed_items(steps)
        self.given += len(items)
        return items

    def owed(self, output: Any) -> list[Any]:
        whole = value_at(output, self.steps)
        return list(cast("Sequence[Any]", whole)[self.given :]) if isinstance(whole, (list, tuple)) else []


class _Text(_Place):
    def start(self) -> None:
        self.given = ""

    def seen(self, growing: PartialValue, steps: tuple[str, ...]) -> list[Any]:
        text = growing.new_text(steps)
        self.given += text
        return [text] if text else []

    def owed(self, output: Any) -> list[Any]:
        whole = value_at(output, self.steps)
        rest = whole[len(self.given) :] if isinstance(whole, str) and whole.startswith(self.given) else ""
        return [rest] if rest else []


class _Changes(_View):
    def start(self) -> None:
        pass

    def found(self) -> list[Any]:
        growing = self.call.fed
        if growing is None or not self.call.shown:
            return []
        if not self.call.parallel:
            return list(growing.changes())
        return [replace(one, path=numbered(self.call.call_index, one.path)) for one in growing.changes()]

    def owed(self, output: Any) -> list[Any]:
        return [PathChange("", "set", output)]


_KINDS: Mapping[str, Callable[[Viewed, tuple[str, ...]], ViewReducer]] = {
    "events": _Events,
    "items": _Items,
    "text": _Text,
    "changes": _Changes,
}


def numbered(index: int, path: Path) -> Path:
    """`path` inside the call of this number."""
    if isinstance(path, tuple):
        return (str(index), *path)
    return f"{index}.{path}" if path else str(index)


def value_at(value: Any, steps: tuple[str, ...]) -> Any:
    """What stands at a path inside `value`; `MISSING` where nothing does."""
    for step in steps:
        value = _inside(value, step)
    return value


def _inside(value: Any, step: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(step, MISSING)
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return items[int(step)] if step.isdecimal() and int(step) < len(items) else MISSING
    return getattr(value, step, MISSING)
