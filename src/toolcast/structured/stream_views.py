"""Views of one streamed call, reduced event by event: its events, list items, text, changes.

A view is called after every event and returns its new items. After the end it is called once more and returns the
remaining ones: those that only the validated result contains, because the response was repaired or arrived whole. In a
stream of parallel calls every path begins with the index of the call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, cast

from ..events import Event, Restarted, ToolCallDone
from ..parsing.missing import MISSING
from ..parsing.partial_value import PartialValue
from ..parsing.path_changes import SEALED, Path, PathChange, steps_of
from .change_views import DataChanges, JSONPatchChanges
from .object_streams import ViewReducer


class ViewedCall(Protocol):
    """The attributes of a call that views read."""

    event: Event | None
    ended: bool
    parallel: bool
    shown: bool

    @property
    def fed(self) -> PartialValue | None:
        """The partial value that the last event fed, or None."""
        ...

    @property
    def call_index(self) -> int: ...
    @property
    def output(self) -> Any:
        """The result, or None before the end."""
        ...

    def read_done(self, event: ToolCallDone) -> Any:
        """Return the validated object of a complete call; None if it is invalid."""
        ...


def view_of(call: ViewedCall, kind: str, path: Path | None) -> ViewReducer:
    """Return a new view: `events`, `items`, `text`, or the changes in one of their formats."""
    return _KINDS[kind](call, steps_of(path or ()))


class _View(ABC):
    """The base of the views: the remaining items at the end, and the reset when a response is retried."""

    def __init__(self, call: ViewedCall, steps: tuple[str, ...]) -> None:
        self.call = call
        self.steps = steps
        self._finished = False
        self.reset()

    @abstractmethod
    def reset(self) -> None:
        """Clear the state."""

    def __call__(self) -> list[Any]:
        if self.call.ended:
            finished, self._finished = self._finished, True
            return [] if finished or self.call.output is None else self.remaining(self.call.output)
        if type(self.call.event) is Restarted:
            self.reset()
        return self.new_items()

    @abstractmethod
    def new_items(self) -> list[Any]:
        """Return the new items of the last event."""

    @abstractmethod
    def remaining(self, output: Any) -> list[Any]:
        """Return the items of the result that were not emitted before."""


class _Events(_View):
    def reset(self) -> None:
        pass

    def new_items(self) -> list[Any]:
        return [self.call.event]

    def remaining(self, output: Any) -> list[Any]:
        return []


class _Place(_View):
    """A view of one path of the object."""

    def new_items(self) -> list[Any]:
        growing = self.call.fed
        if growing is None:
            return []
        if not self.call.parallel:
            return self.new_at(growing, self.steps)
        if self.steps[:1] == (str(self.call.call_index),):
            return self.new_at(growing, self.steps[1:])
        return []

    @abstractmethod
    def new_at(self, growing: PartialValue, steps: tuple[str, ...]) -> list[Any]:
        """Return the new items of the partial value that was fed."""


class _Items(_Place):
    def reset(self) -> None:
        self.emitted = 0

    def new_items(self) -> list[Any]:
        if not self.call.parallel or self.steps:
            return super().new_items()
        event = self.call.event
        value = self.call.read_done(event) if isinstance(event, ToolCallDone) else None
        self.emitted += value is not None
        return [] if value is None else [value]

    def new_at(self, growing: PartialValue, steps: tuple[str, ...]) -> list[Any]:
        items = growing.closed_items(steps)
        self.emitted += len(items)
        return items

    def remaining(self, output: Any) -> list[Any]:
        total = value_at_steps(output, self.steps)
        return list(cast("Sequence[Any]", total)[self.emitted :]) if isinstance(total, (list, tuple)) else []


class _Text(_Place):
    def reset(self) -> None:
        self.emitted = ""

    def new_at(self, growing: PartialValue, steps: tuple[str, ...]) -> list[Any]:
        text = growing.new_text(steps)
        self.emitted += text
        return [text] if text else []

    def remaining(self, output: Any) -> list[Any]:
        total = value_at_steps(output, self.steps)
        rest = total[len(self.emitted) :] if isinstance(total, str) and total.startswith(self.emitted) else ""
        return [rest] if rest else []


class _Changes(_View):
    def reset(self) -> None:
        pass

    def new_items(self) -> list[Any]:
        growing = self.call.fed
        if growing is None or not self.call.shown:
            return []
        if not self.call.parallel:
            return list(growing.changes())
        return [replace(one, path=with_call_index(self.call.call_index, one.path)) for one in growing.changes()]

    def remaining(self, output: Any) -> list[Any]:
        return [PathChange("set", "", output)]


class _PlainChanges(_View):
    """The changes as JSON data, in the format of `writer`."""

    writer: ClassVar[type[DataChanges]] = DataChanges

    def __init__(self, call: ViewedCall, steps: tuple[str, ...]) -> None:
        self._changes = self.writer([] if call.parallel else MISSING)
        super().__init__(call, steps)

    def reset(self) -> None:
        self._changes.reset()

    def new_items(self) -> list[Any]:
        growing = self.call.fed
        if growing is None:
            return []
        records = growing.shown if self.call.shown else [one for one in growing.records if one[2] == SEALED]
        return self._changes.new(records, (self.call.call_index,) if self.call.parallel else ())

    def remaining(self, output: Any) -> list[Any]:
        return self._changes.last(output)


class _JSONPatch(_PlainChanges):
    writer = JSONPatchChanges


_KINDS: Mapping[str, Callable[[ViewedCall, tuple[str, ...]], ViewReducer]] = {
    "events": _Events,
    "items": _Items,
    "text": _Text,
    "data": _PlainChanges,
    "objects": _Changes,
    "json-patch": _JSONPatch,
}


def with_call_index(index: int, path: Path) -> Path:
    """Return `path` inside the call with this index."""
    if isinstance(path, tuple):
        return (str(index), *path)
    return f"{index}.{path}" if path else str(index)


def value_at_steps(value: Any, steps: tuple[str, ...]) -> Any:
    """Return the value at a path inside `value`; `MISSING` if there is none."""
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
