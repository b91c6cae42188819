"""Partial values: push JSON text in chunks, read typed snapshots of the value so far.

A `JSONStream` turns the text into changes, and a `PartialBuilder` applies them to the open containers according to the
plan of the type. A closed value is validated from its own JSON text and stored in its container. Open values cost
nothing until they are read: `value` copies the open path, and everything else is computed from the records of the last
feed. So the cost of a feed depends on its own text only.

The root is never validated here; the caller validates the whole text, as for a call that is not streamed. Broken JSON
stops the snapshots, but not the collecting of the text.

Some services send all arguments at once. Then one validation by Pydantic gives the snapshot, and the text goes through
the incremental parser only if the changes are asked for, or if more text follows.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Final

from pydantic_core import ValidationError

from ..text.text_buffer import JOIN_THRESHOLD, TextBuffer
from .container_stack import Container, LazyValues
from .core_schemas import Done, NotNull
from .json_stream import JSONStream, JSONStreamError
from .missing import MISSING
from .partial_builder import PartialBuilder
from .partial_instances import is_partial, lazy_instance
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
from .tool_arguments import is_lax
from .type_plan import FieldPlan, plan_for

__all__ = ["MISSING", "Done", "FieldState", "NotNull", "PartialValue", "Path", "PathChange", "is_partial", "plan_for"]

WHOLE_THRESHOLD: Final = 24
"""The length in characters from which a first text is tried as a whole value."""

_SPACE = " \t\n\r"
_wrapper = re.compile(r'\{[ \t\n\r]*"value"[ \t\n\r]*:').match


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
    """

    def __init__(self, plan: FieldPlan, *, wrapped: bool = False, fail_fast: bool = True, context: Any = None) -> None:
        self.broken: JSONStreamError | None = None
        self._json = JSONStream()
        self._builder = PartialBuilder(plan, wrapped=wrapped, fail_fast=fail_fast, context=context)
        self.buffer: TextBuffer = self._builder.buffer  # shared with the accumulator of the response
        self._new_chunks = self.buffer.fresh
        self._plan = plan
        self._wrapped = wrapped
        self._context = context
        # True before the first text, after the last one, and after an error: one test in `feed` instead of four.
        self._exceptional = True
        self._whole: str | None = None  # a whole value that arrived at once, and has not been parsed incrementally
        self._complete: Any = MISSING  # its value, until it is used in a snapshot or as the result
        self._past_whole = False  # text after it has arrived
        self._shown: list[Record] = []
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
        if self._exceptional and (visible := self._feed_exceptionally(text)) is not None:
            return visible
        builder.records = []
        try:
            changes = self._json.feed(text)
        except JSONStreamError as error:
            self.broken = error
            self._exceptional = True
            return False
        if not changes:
            return False
        visible = False
        try:
            builder.apply(changes)
        finally:
            self._exceptional = builder.error is not None
            if builder.records:
                visible = self._has_visible_change()
        return visible

    def _feed_exceptionally(self, text: str) -> bool | None:
        """Handle the first text, and text after the whole value or an error; return None to parse it as usual."""
        if self.broken is not None:
            return False
        if self._builder.error is not None:
            raise self._builder.error
        if self._whole is not None:
            if not text.strip(_SPACE):
                self._past_whole = True
                return False
            self._parse_whole()
        elif not text:  # services announce a call with empty arguments
            return False
        elif len(text) >= WHOLE_THRESHOLD and self._show_whole(text):
            return True
        self._exceptional = False
        return None

    def _show_whole(self, text: str) -> bool:
        """Make the snapshot of a whole value that has arrived at once; return False if `text` is not one."""
        if not self._plan.shown_at_once or (inner := self._inner_text(text)) is None or is_lax(inner):
            return False
        try:
            value = self._plan.validator.validate_json(inner, context=self._context)
        except ValidationError:  # not whole, or invalid: the incremental parser finds out where
            return False
        self._whole, self._complete = text, value
        return True

    def take_complete(self, text: str) -> Any:
        """Return the validated value if `text` has arrived at once and is all of it; else `MISSING`.

        No snapshot shares a list, dict or model with it.
        """
        return MISSING if self._past_whole or text != self._whole else self._take_complete(text)

    def _take_complete(self, whole: str) -> Any:
        """Return the validated value for one use, the snapshot or the result: neither may see changes of the other."""
        value, self._complete = self._complete, MISSING
        if value is MISSING:
            inner = self._inner_text(whole)
            assert inner is not None
            value = self._plan.validator.validate_json(inner, context=self._context)
        return value

    def _inner_text(self, text: str) -> str | None:
        """Return the text of the value in a text that may be whole; None if it cannot be."""
        text = text.strip(_SPACE)
        if text[-1:] not in ("}", "]"):  # the usual case, decided without a parser
            return None
        if not self._wrapped:
            return text
        start = _wrapper(text)
        return None if start is None else text[start.end() : -1]

    def _parse_whole(self) -> None:
        """Parse a value that arrived at once, for its changes or because more text follows."""
        whole = self._whole
        assert whole is not None
        _ = self.value  # what has been shown stays
        self._whole = None
        self._exceptional = False
        builder = self._builder
        builder.apply(self._json.feed(whole))
        self._shown = builder.records
        if self._past_whole:
            builder.records = []

    @property
    def shown(self) -> list[Record]:
        """The records of the last feed that changed anything visible."""
        if self._whole is not None:
            self._parse_whole()
        return self._shown

    def _parsed(self) -> PartialBuilder:
        """Return the builder, with all text parsed."""
        if self._whole is not None:
            self._parse_whole()
        return self._builder

    def close(self) -> bool:
        """End the text; return whether that changed anything visible.

        Raises:
            JSONStreamError: If the text is not complete JSON.
        """
        if self.broken is not None:
            raise self.broken
        if self._whole is not None:
            self._past_whole = True
            return False
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
        return self.broken is None and (self._whole is not None or self._json.done)

    @property
    def text(self) -> str:
        """The text so far."""
        return self.buffer.whole()

    @property
    def value(self) -> Any:
        """The latest snapshot, which no later text changes; `MISSING` before the first."""
        if self._value is MISSING and self._whole is not None:
            self._value = self._plan.shown_whole(partial(self._take_complete, self._whole))
        if self._stale:
            self._stale = False
            builder = self._builder
            open_value = builder.flush()
            container, value = builder.container, MISSING
            outermost = container.lazy_root
            if outermost is not None:
                size = len(container.values) - (open_value is not MISSING)  # the open value is the last one
                unread = LazyValues(container, size, open_value)
                value = lazy_instance(outermost.container_plan.lazy_class, unread)
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
        # SEALED and what follows it change nothing that is shown; the first record that does decides.
        for record in builder.records:
            if record[2] <= SET:
                self._shown = builder.records
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
        return closed_items(self._parsed().records, path)

    def new_text(self, path: Path = ()) -> str:
        """Return the text that the last feed added to the string at `path`."""
        return new_text(self._parsed().records, path)

    def field_state(self, path: Path) -> FieldState:
        """Return `pending` (not begun), `growing` (begun) or `done` (closed)."""
        builder = self._parsed()
        return field_state(builder.container, builder.busy, path)
