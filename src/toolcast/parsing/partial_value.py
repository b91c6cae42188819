"""Partial values: push JSON text in chunks, read typed snapshots of the value so far.

A `JSONStream` turns the text into changes, and a `PartialBuilder` applies them to the open containers according to the
plan of the type. A closed value is validated from its own JSON text and stored in its container. Open values cost
nothing until they are read: `value` copies the open path, and everything else is computed from the records of the last
feed. So the cost of a feed depends on its own text only.

The root is never validated here; the caller validates the whole text, as for a call that is not streamed. Broken JSON
stops the snapshots, but not the collecting of the text.
"""

from __future__ import annotations

from typing import Any

from ..text_buffer import JOIN_THRESHOLD, TextBuffer
from .container_stack import MISSING, Container, LazyValues
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
    hide_records,
    new_text,
    path_changes,
)
from .type_plan import FieldPlan, plan_for

__all__ = ["MISSING", "Done", "FieldState", "NotNull", "PartialValue", "Path", "PathChange", "is_partial", "plan_for"]


class PartialValue:
    """A value that grows with every chunk of its JSON text.

    Args:
        plan: The plan of its type, from `plan_for`.
        wrapped: The text is `{"value": ...}`; paths and snapshots are those of the inner value.
        fail_fast: `feed` raises pydantic's `ValidationError` as soon as a closed value cannot validate.
        context: Passed to the user's validators.

    Attributes:
        broken: The syntax error that stopped the snapshots, or None.
        buffer: The text so far.
        shown: The records of the last feed that changed anything visible.
    """

    def __init__(self, plan: FieldPlan, *, wrapped: bool = False, fail_fast: bool = True, context: Any = None) -> None:
        self.broken: JSONStreamError | None = None
        self._json = JSONStream()
        self._builder = PartialBuilder(plan, wrapped=wrapped, fail_fast=fail_fast, context=context)
        self.buffer: TextBuffer = self._builder.buffer  # shared with the accumulator of the response
        self._new_chunks = self.buffer.fresh
        self.shown: list[Record] = []  # records of the last feed that changed anything visible
        self._hidden: Container | None = None  # the outermost object hidden by a NotNull field
        self._value: Any = MISSING
        self._stale = False

    def feed(self, text: str) -> bool:
        """Add the next chunk of the text; return whether anything visible changed.

        Raises:
            pydantic.ValidationError: With `fail_fast`, if a closed value does not validate.
        """
        builder, fresh = self._builder, self._new_chunks
        fresh.append(text)
        if len(fresh) >= JOIN_THRESHOLD:
            self.buffer.join()
        if self.broken is not None:
            return False
        if builder.error is not None:
            raise builder.error
        builder.records = []
        try:
            changes = self._json.feed(text)
        except JSONStreamError as error:
            self.broken = error
            return False
        if not changes:
            return False
        visible = False
        try:
            builder.apply(changes)
        finally:
            if builder.records:
                visible = self._has_visible_change()
        return visible

    def close(self) -> bool:
        """End the text; return whether that changed anything visible.

        Raises:
            JSONStreamError: If the text is not complete JSON.
        """
        if self.broken is not None:
            raise self.broken
        self._builder.records = []
        try:
            changes = self._json.close()
        except JSONStreamError as error:
            self.broken = error
            raise
        self._builder.apply(changes)
        return self._has_visible_change()

    @property
    def is_complete(self) -> bool:
        """True if the text is one whole JSON value."""
        return self.broken is None and self._json.done

    @property
    def text(self) -> str:
        """The text so far."""
        return self.buffer.whole()

    @property
    def value(self) -> Any:
        """The latest snapshot, which no later text changes; `MISSING` before the first."""
        if self._stale:
            self._stale = False
            builder = self._builder
            open_value = builder.flush()
            container, value = builder.container, MISSING
            outermost = container.lazy_root
            if outermost is not None:
                size = len(container.values) - (open_value is not MISSING)  # the open value is the last one
                value = outermost.lazy_snapshot(LazyValues(container, size, open_value))
                assert outermost.parent is not None
                container = outermost.parent
            while container.parent is not None:
                value = container.snapshot(value)
                container = container.parent
            self._value = container.values.get(container.key, value)
        return self._value

    def _has_visible_change(self) -> bool:
        """Return whether anything visible changed since the records were cleared."""
        builder = self._builder
        if builder.open_not_null or self._hidden is not None:
            self._hide_unfinished()
        for record in builder.records:
            if record[2] <= SET:
                self.shown = builder.records
                self._stale = True
                return True
        return False

    def _hide_unfinished(self) -> None:
        """Hide the changes inside an object with a missing NotNull field until the field arrives."""
        builder = self._builder
        builder.flush()
        snapshots: dict[Container, Any] = {}
        container, value, hidden_container = builder.container, MISSING, None
        while container.parent is not None:
            snapshots[container] = value = container.snapshot(value)
            hidden_container = container if value is MISSING else hidden_container
            container = container.parent
        before, self._hidden = self._hidden, hidden_container
        for hidden in (hidden_container, before):
            if hidden is not None and hidden in snapshots:
                builder.records = hide_records(builder.records, hidden)
        if before is not None and before.parent is not None and snapshots.get(before, MISSING) is not MISSING:
            builder.records.append((before.parent, before.parent_key, OPENED, snapshots[before]))

    @property
    def changed(self) -> tuple[Path, ...]:
        """The paths that the last feed with a visible change changed."""
        return changed(self.shown)

    @property
    def records(self) -> list[Record]:
        """The records of the last feed, also of what is not visible."""
        return self._builder.records

    def changes(self) -> list[PathChange]:
        """Return the changes of that feed in order; applied one after the other, they rebuild the value."""
        return list(path_changes(self.shown))

    def closed_items(self, path: Path = ()) -> list[Any]:
        """Return the validated elements of the list at `path` that closed in the last feed."""
        return closed_items(self._builder.records, path)

    def new_text(self, path: Path = ()) -> str:
        """Return the text that the last feed added to the string at `path`."""
        return new_text(self._builder.records, path)

    def field_state(self, path: Path) -> FieldState:
        """Return `pending` (not begun), `growing` (begun) or `done` (closed)."""
        return field_state(self._builder.container, self._builder.busy, path)
