"""The stack of open containers of a partial value, and snapshots of it.

There is one `Container` for each open JSON container, linked to its parent. A container owns the values that have
closed inside it, in a list or dict that only it writes to; `snapshot` copies that and adds the snapshot of the open
child. So a snapshot copies one container per level of the open path, and shares every closed value with earlier
snapshots. When a container closes, its value goes to the parent together with the span of its text: when the parent is
validated, the span is replaced by a number that refers to the value (`closed_values` in `type_plan`).

Most snapshots are never read, or only in part, so nothing is copied before something is read. Values are only ever
appended, except if a key is repeated, which begins a new dict. So the state of all containers at any time is found
again from three things: the innermost container, the number of its values that were final then, and the open value.
`LazyValues` has these, and makes the copies when an attribute of the snapshot is first read: a snapshot costs the same
at every depth and every width. That works from the outermost model on (`lazy_root`); lists and dicts around it are
copied at once, because Python offers no way to notice that they are read.

A container knows three things about the place of the next value: `key`, where it is stored; `loc`, the name that
Pydantic gives the place in an error; `arriving`, its plan (None: the value is ignored).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from pydantic_core import SchemaValidator, from_json

from .json_stream import ARRAY, CLOSE, GROW, KEY, SCALAR, STRING_END, Change
from .missing import MISSING
from .partial_instances import RootModelFactories, new_instance, set_attribute, wrap_in_root_models
from .type_plan import DictPlan, FieldPlan, FieldSlot, ListPlan, ObjectPlan, TaggedPlan

# Without reference counts, or with other threads changing them, `id` makes every list look referenced.
_counts = getattr(sys, "_is_gil_enabled", bool)() or sys.version_info < (3, 13)
reference_count: Callable[[object], int] = getattr(sys, "getrefcount", id) if _counts else id


def _references(box: list[list[Any]]) -> int:
    return reference_count(box[0])


_OWN_REFERENCES: Final = _references([[]])  # counted where the others are, whatever a compiler adds

REUSE_THRESHOLD: Final = 200
"""The length from which reusing a list is cheaper than copying it."""


FieldInContext = tuple[str, SchemaValidator, str, list[Any]]
"""A field inside its object: its name, the validator, the text and the values that numbers in the text refer to."""


class FieldNotReady(Exception):
    """Raised if a validator may read fields that have not arrived yet."""


class Container:
    """The state that all open containers share: the closed `values` and `parent_key`, the key in the parent.

    Attributes that most containers never set are class attributes, because containers open and close all the time.
    """

    values: Any
    arriving: FieldPlan | None = None
    key: Any = None
    loc: Any = None
    unions: tuple[FieldPlan, ...] = ()  # the tagged unions that this is a member of, outermost first
    tags: tuple[Any, ...] = ()  # their tags, which are part of the location of an error
    certain: bool = True  # the arriving value will be used, whatever comes later in the container
    off_plan: bool = False  # a value is not as planned, so the container is validated from its own text
    invalid: bool = False  # a value in here did not validate, so this one will not either
    plain_class: type | None = None  # the snapshots' class, if they need nothing but `__dict__`
    lazy_root: ObjectContainer | None = (
        None  # the outermost model on the path down to here, if its snapshot can be lazy
    )
    in_snapshots: bool = False  # lazy snapshots refer to this container
    shared: bool = False  # and to the present `values`

    def __init__(self, parent: Container | None, plan: FieldPlan, start: int, fatal: bool = True) -> None:
        self.parent: Container | None = parent
        self.plan: FieldPlan = plan
        self.start: int = start
        self.parent_key: Any = parent.key if parent else None
        # The values of the parent at this time: its first `parent_size` ones do not change.
        self.parent_values: Any = parent.values if parent else ()
        self.parent_size: int = len(self.parent_values)
        self.root_models: RootModelFactories = plan.root_models
        self.fatal: bool = fatal  # a validation error in here ends the call
        self.spans: list[tuple[int, int]] | None = None if plan.trivial else []
        self.closed_values: list[Any] = []

    def on_key(self, name: str) -> None:
        """Prepare for the value of the key `name`."""

    def set_value(self, value: Any) -> None:
        """Set the value at `key`."""
        self.values[self.key] = value

    def end_value(self) -> None:
        """Note that the arriving value has ended."""

    def add_value(self, value: Any) -> None:
        """Set the value at `key`, and note that it has ended: the two in one, for values that are never open."""
        self.set_value(value)
        self.end_value()

    def extra_values(self) -> dict[str, Any]:
        """Return the values of keys that belong to no field."""
        return {}

    def dependent_field(self, plan: FieldPlan) -> str | None:
        """Return the name of the arriving field if its validators may read the fields before it."""
        return None

    def with_prior_fields(
        self, plan: FieldPlan, text: str, inner: list[Any], *, closing: bool
    ) -> FieldInContext | None:
        """Return the arriving field together with the fields before it; None if its validators do not read them."""
        return None

    def snapshot(self, child: Any) -> Any:
        """Return a snapshot that contains `child`, the snapshot of the open child."""
        values = self.values.copy()
        if child is not MISSING:
            values[self.key] = child
        return self.finish(values)

    def finish(self, values: Any) -> Any:
        """Return the snapshot made of these values."""
        return wrap_in_root_models(values, self.root_models) if self.root_models else values

    def remove(self, key: Any) -> None:
        """Remove the value of a repeated key."""
        if key in self.values:
            if self.shared:
                self.values = self.values.copy()
                self.shared = False
            del self.values[key]

    def copy_of(self, values: Any, size: int) -> Any:
        """Return a copy of the first `size` of these values, which are or were those of this container."""
        # All are copied, although some may be removed again: another thread may add values at the same time, and a
        # loop over them would notice.
        copy = values.copy()
        for _ in range(len(copy) - size):
            copy.popitem()
        return copy

    def release_open_value(self) -> None:
        """Drop the reference to the open value in the list that the next snapshot may reuse."""


class LazyValues:
    """The values of a snapshot that has not been read: how far each container had arrived.

    Args:
        container: The innermost container.
        size: The number of its values that were final.
        value: Its open value at that time; `MISSING` if it had none.
    """

    __slots__ = ("container", "key", "size", "value", "values")

    def __init__(self, container: Container, size: int, value: Any) -> None:
        self.container: Container = container
        self.size: int = size
        self.value: Any = value
        container.in_snapshots = container.shared = True
        self.key: Any = container.key
        self.values: Any = container.values

    def make(self) -> dict[str, Any]:
        """Return the values of the outermost model."""
        container, values, size, key, value = self.container, self.values, self.size, self.key, self.value
        outermost = container.lazy_root
        while True:
            copy = container.copy_of(values, size)
            if value is not MISSING:
                if type(container) is ListContainer:
                    copy.append(value)
                else:
                    copy[key] = value
            if container is outermost or container.parent is None:
                found: dict[str, Any] = copy
                return found
            value = container.finish(copy)
            values, size, key = container.parent_values, container.parent_size, container.parent_key
            container = container.parent


class RootContainer(Container):
    """The container around the whole value.

    `wrapped` is True if the text is an object that has the value under the key `value`.
    """

    def __init__(self, root: FieldPlan, wrapped: bool) -> None:
        super().__init__(None, root, 0)
        self._root = root
        self.wrapped: bool = wrapped
        self.values = {}
        self.key = "value"
        self.loc = "value"
        self.arriving = None if wrapped else root

    def unwrap(self) -> bool:
        """Return whether the object that has just opened is the one around the value."""
        wrapped, self.wrapped = self.wrapped, False
        return wrapped

    def on_key(self, name: str) -> None:
        self.arriving = self._root if name == self.key else None


class ObjectContainer(Container):
    """An open model, dataclass or TypedDict. A repeated key replaces the first value."""

    def __init__(self, parent: Container, plan: FieldPlan, container_plan: ObjectPlan, start: int, fatal: bool) -> None:
        super().__init__(parent, plan, start, fatal and container_plan.fatal)
        self.container_plan: ObjectPlan = container_plan
        self.plain_class = None if self.root_models else container_plan.plain_class
        self.values = {}
        self.slot: FieldSlot | None = None
        self._ranks: dict[str, int] = {}
        self._extra: dict[str, Any] | None = {} if container_plan.keeps_extra else None
        if not container_plan.not_null and self._extra is None:
            self.lazy_root = parent.lazy_root or (self if self.plain_class is not None else None)

    def on_key(self, name: str) -> None:
        self.loc = name
        slot = self.container_plan.slots.get(name)
        if slot is None:
            self.slot, self.key, self.arriving, self.certain = None, name, self.container_plan.extra_plan, True
        else:
            self.select(slot)

    def select(self, slot: FieldSlot) -> None:
        """Direct the next value to this field."""
        self.slot = slot
        self.key = slot.name
        self.arriving = slot.plan
        self.certain = slot.fatal
        if slot.name in self.values or not slot.fatal:
            self._on_repeated_key(slot)

    def _on_repeated_key(self, slot: FieldSlot) -> None:
        """Decide between two values of a field: of two names the one listed first wins, of one name the later value."""
        if slot.name in self.values and self._ranks.get(slot.name, slot.rank) < slot.rank:
            self.arriving = None
            return
        self._ranks[slot.name] = slot.rank
        self.remove(slot.name)

    def set_value(self, value: Any) -> None:
        if self._extra is not None and self.slot is None:
            self._extra[self.key] = value
        else:
            self.values[self.key] = value

    def add_value(self, value: Any) -> None:
        if self._extra is not None:
            self.set_value(value)
        else:
            self.values[self.key] = value

    def dependent_field(self, plan: FieldPlan) -> str | None:
        return self.slot.name if plan.uses_prior_fields and self.slot is not None else None

    def with_prior_fields(
        self, plan: FieldPlan, text: str, inner: list[Any], *, closing: bool
    ) -> FieldInContext | None:
        name = self.dependent_field(plan)
        if name is None:
            return None
        before = self.container_plan.fields_before(name)
        if self.invalid or any(other not in self.values for other in before):
            raise FieldNotReady
        parts = [f"{json.dumps(other)}:{number}," for number, other in enumerate(before, len(inner))]
        values = [*inner, *(self.values[other] for other in before)]
        return (
            name,
            self.container_plan.prior_fields_validator(name, closing),
            f"{{{''.join(parts)}{json.dumps(name)}:{text}}}",
            values,
        )

    def extra_values(self) -> dict[str, Any]:
        return self._extra or {}

    def snapshot(self, child: Any) -> Any:
        values = self.values.copy()
        if child is not MISSING:
            values[self.key] = child
        if self.plain_class is None:
            return self.finish(values)
        item = new_instance(self.plain_class)  # `finish` inlined: this is the hot path of most models
        set_attribute(item, "__dict__", values)
        return item

    def finish(self, values: Any) -> Any:
        container_plan = self.container_plan
        for name in container_plan.not_null:
            if values.get(name) is None:
                return MISSING
        if container_plan.make_instance is not None:
            values = container_plan.make_instance(values, self._extra and self._extra.copy())
        return wrap_in_root_models(values, self.root_models) if self.root_models else values


class DictContainer(Container):
    """An open dict, by its validated keys."""

    def __init__(self, parent: Container, plan: FieldPlan, container_plan: DictPlan, start: int, fatal: bool) -> None:
        super().__init__(parent, plan, start, fatal)
        self.container_plan: DictPlan = container_plan
        self.values = {}
        self.lazy_root = parent.lazy_root

    def on_key(self, name: str) -> None:
        self.key = self.loc = name
        self.arriving = self.container_plan.value
        self.remove(name)


class ListContainer(Container):
    """An open list. Snapshots leave out items that do not validate: `key` counts the others, `loc` all.

    A snapshot of a long list would copy thousands of pointers to add one. So the lists of the last two snapshots are
    remembered, and the older one is updated and returned again if nothing else refers to it: a list that the caller has
    kept never changes.
    """

    def __init__(self, parent: Container, plan: FieldPlan, container_plan: ListPlan, start: int, fatal: bool) -> None:
        super().__init__(parent, plan, start, fatal)
        self.values = []
        self.key = self.loc = 0
        self.arriving = container_plan.item
        self.lazy_root = parent.lazy_root
        # Boxes with the lists of snapshots, the older one first, and how many of their items were final.
        self.reusable: list[tuple[list[list[Any]], int]] = []

    def set_value(self, value: Any) -> None:
        if self.key == len(self.values):
            self.values.append(value)
        else:
            self.values[self.key] = value

    def end_value(self) -> None:
        self.key = len(self.values)
        self.loc += 1

    def add_value(self, value: Any) -> None:
        self.values.append(value)
        self.key += 1
        self.loc += 1

    def snapshot(self, child: Any) -> Any:
        values = self.copy_of(self.values, self.key)
        values += self.values[self.key :]  # an open string
        if child is not MISSING:
            values.append(child)
        return self.finish(values)

    def copy_of(self, values: list[Any], size: int) -> list[Any]:
        return values[:size] if size < REUSE_THRESHOLD else self._reuse_list(values, size)

    def _reuse_list(self, values: list[Any], size: int) -> list[Any]:
        """Return a copy of the first values, in an earlier snapshot's list if nothing else refers to it."""
        box: list[list[Any]] = []
        if len(self.reusable) > 1:
            with suppress(IndexError):  # taken by another thread that reads an older snapshot
                # `pop` is atomic: from here on, this thread alone has the box.
                box, closed = self.reusable.pop(0)
                if _references(box) == _OWN_REFERENCES:
                    start = min(closed, size)
                    box[0][start:] = values[start:size]
                else:
                    box = []
        if not box:
            box = [values[:size]]
        copy = box[0]  # referenced before other threads can take the box: else it looks unused
        self.reusable.append((box, size))
        return copy

    def release_open_value(self) -> None:
        for _ in range(len(self.reusable)):
            with suppress(IndexError):  # as in `_reuse_list`
                box, closed = self.reusable.pop(0)
                if _references(box) == _OWN_REFERENCES:
                    del box[0][closed:]
                self.reusable.append((box, closed))


def open_container(parent: Container, plan: FieldPlan, start: int) -> Container:
    """Return a container for a plan whose bracket has just arrived."""
    container_plan = plan.container_plan
    fatal = parent.fatal and parent.certain and plan.fatal
    if type(container_plan) is ObjectPlan:
        return ObjectContainer(parent, plan, container_plan, start, fatal)
    if type(container_plan) is ListPlan:
        return ListContainer(parent, plan, container_plan, start, fatal)
    assert type(container_plan) is DictPlan
    return DictContainer(parent, plan, container_plan, start, fatal)


class OpaqueContainer:
    """A container that is shown only when complete: the changes inside it are skipped."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.depth: int = 1

    def consume(self, change: Change) -> bool:
        """Skip one change; return whether the container is still open."""
        if change[0] <= ARRAY:
            self.depth += 1
        elif change[0] == CLOSE:
            self.depth -= 1
        return self.depth > 0


class UndiscriminatedUnion(OpaqueContainer):
    """An object of a tagged union before its tag has arrived. Its changes are applied once the tag is known."""

    def __init__(
        self, start: int, container_plan: TaggedPlan, unions: tuple[FieldPlan, ...], tags: tuple[Any, ...]
    ) -> None:
        super().__init__(start)
        self.container_plan = container_plan
        self.unions = unions
        self.tags: tuple[Any, ...] = tags
        self.buffered: list[Change] = []
        self.member: FieldPlan | None = None
        self._at_tag = False
        self._chunks: list[str] = []

    def consume(self, change: Change) -> bool:
        self.buffered.append(change)
        is_open = super().consume(change)
        if self.depth == 1:
            self._read_tag(change)
        return is_open and self.member is None

    def _read_tag(self, change: Change) -> None:
        kind = change[0]
        if kind == KEY:
            self._at_tag = change[1] in self.container_plan.keys
            self._chunks = []
        elif self._at_tag and kind == GROW:
            self._chunks.append(change[1])
        elif self._at_tag and kind in (STRING_END, SCALAR):
            tag = "".join(self._chunks) if kind == STRING_END else from_json(change[1])
            self.member = self.container_plan.members.get(tag)
            self.tags = (*self.tags, tag)
