"""Half-filled values: JSON that is still arriving goes in, growing instances of a type come out.

Strategy: the changes of a `JSONStream` walk (walking.py) the plan of the type (plans.py) over the frames of the open
containers (frames.py). What closes is validated from its own JSON text and put into the frame around it. What is
open costs nothing until somebody looks: `value` copies the open path, the rest is worked out from the records of
the last feed. So a feed costs what its own text asks for, however much came before.

Rules: the root is never validated here; the caller does that from the whole text, as a call that was not streamed
would. Broken JSON stops the snapshots, not the text.
"""

from __future__ import annotations

from typing import Any

from ..text_buffer import JOIN_THRESHOLD, TextBuffer
from .container_stack import MISSING, Container
from .core_schemas import Done, NotNull
from .json_stream import JSONStream, JSONStreamError
from .partial_builder import PartialBuilder
from .partial_instances import is_partial
from .path_changes import (
    OPENED,
    SET,
    FieldState,
    Path,
    PathChange,
    Record,
    changed,
    closed_items,
    field_state,
    new_text,
    path_changes,
    sifted,
)
from .type_plan import FieldPlan, plan_for

__all__ = ["MISSING", "Done", "FieldState", "NotNull", "PartialValue", "Path", "PathChange", "is_partial", "plan_for"]


class PartialValue:
    """A value of a plan's type that grows with every piece of its JSON text.

    `wrapped`: the text is `{"value": ...}`, and everything here is of what is inside. `fail_fast`: `feed` raises
    pydantic's `ValidationError` as soon as a closed value cannot validate. `context` is for the user's validators.
    `broken` is the syntax error that stopped the snapshots, if there was one.
    """

    def __init__(self, plan: FieldPlan, *, wrapped: bool = False, fail_fast: bool = True, context: Any = None) -> None:
        self.broken: JSONStreamError | None = None
        self._json = JSONStream()
        self._walk = PartialBuilder(plan, wrapped=wrapped, fail_fast=fail_fast, context=context)
        self.kept: TextBuffer = self._walk.kept  # all of the text so far
        self._fresh = self.kept.fresh
        self.shown: list[Record] = []  # of the last feed that changed something visible
        self._held: Container | None = None  # the outermost object that is held back for a NotNull field
        self._value: Any = MISSING
        self._stale = False

    def feed(self, text: str) -> bool:
        """Whether the next piece of the text changed anything visible. Raises `ValidationError`: see `fail_fast`."""
        walk, fresh = self._walk, self._fresh
        fresh.append(text)
        if len(fresh) >= JOIN_THRESHOLD:
            self.kept.join()
        if self.broken is not None:
            return False
        if walk.error is not None:
            raise walk.error
        walk.records = []
        try:
            changes = self._json.feed(text)
        except JSONStreamError as error:
            self.broken = error
            return False
        if not changes:
            return False
        visible = False
        try:
            walk.take(changes)
        finally:
            if walk.records:
                visible = self._notice()
        return visible

    def close(self) -> bool:
        """End the text; whether that changed anything visible. `JSONStreamError` if it is not complete JSON."""
        if self.broken is not None:
            raise self.broken
        self._walk.records = []
        try:
            changes = self._json.close()
        except JSONStreamError as error:
            self.broken = error
            raise
        self._walk.take(changes)
        return self._notice()

    @property
    def is_complete(self) -> bool:
        """Return True if the text is one whole JSON value."""
        return self.broken is None and self._json.done

    @property
    def text(self) -> str:
        """All of the text so far."""
        return self.kept.whole()

    @property
    def value(self) -> Any:
        """The newest snapshot, which no later text will change; `MISSING` before there is one."""
        if self._stale:
            self._stale = False
            walk = self._walk
            walk.flush()
            frame, value = walk.frame, MISSING
            while frame.parent is not None:
                value = frame.show(value)
                frame = frame.parent
            self._value = frame.values.get(frame.key, value)
        return self._value

    def _notice(self) -> bool:
        """Whether anything visible changed since the records were emptied."""
        walk = self._walk
        if walk.awaiting or self._held is not None:
            self._sift()
        for record in walk.records:
            if record[2] <= SET:
                self.shown = walk.records
                self._stale = True
                return True
        return False

    def _sift(self) -> None:
        """Take out of sight what happened in an object that waits for a field, until the field is there."""
        walk = self._walk
        walk.flush()
        looks: dict[Container, Any] = {}
        frame, value, held = walk.frame, MISSING, None
        while frame.parent is not None:
            looks[frame] = value = frame.show(value)
            held = frame if value is MISSING else held
            frame = frame.parent
        before, self._held = self._held, held
        for hidden in (held, before):
            if hidden is not None and hidden in looks:
                walk.records = sifted(walk.records, hidden)
        if before is not None and before.parent is not None and looks.get(before, MISSING) is not MISSING:
            walk.records.append((before.parent, before.place, OPENED, looks[before]))

    @property
    def changed(self) -> tuple[Path, ...]:
        """The paths that the last feed with a visible change changed."""
        return changed(self.shown)

    def changes(self) -> list[PathChange]:
        """What that feed changed, in order; applied one after the other, they rebuild the value."""
        return list(path_changes(self.shown))

    def closed_items(self, path: Path = ()) -> list[Any]:
        """The elements of the list at `path` that closed in the last feed, validated."""
        return closed_items(self._walk.records, path)

    def new_text(self, path: Path = ()) -> str:
        """What the last feed added to the string at `path`."""
        return new_text(self._walk.records, path)

    def field_state(self, path: Path) -> FieldState:
        """`pending`: nothing of it is there; `growing`: it has begun; `done`: it has closed."""
        return field_state(self._walk.frame, self._walk.busy, path)
