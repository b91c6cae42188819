"""The open containers of a growing value: what has closed in them, what is arriving, and how they look now.

Strategy: one frame per open container, linked to the frame around it. A frame owns what has closed inside it, in a
list or dict that only it writes to; `show` copies that and puts the snapshot of the open child into the copy. So a
snapshot copies the open path, one container per frame, and shares every closed value with the snapshots before.
When a frame closes, the value it becomes goes to the frame around it, with the place of its text: that is cut out
when the outer container is validated (plans.py, `taken`).

A frame knows three names of the place where the next value belongs: `key`, where it is put; `loc`, what Pydantic
calls the place in an error; `arriving`, the node of the plan (None: nobody wants the value).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pydantic_core import SchemaValidator, from_json

from .json_stream import ARRAY, CLOSE, GROW, KEY, SCALAR, STRING_END, Change
from .partial_instances import Shells, assign, new, shelled
from .type_plan import DictPlan, FieldPlan, FieldSlot, ListPlan, ObjectPlan, TaggedPlan


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final[Any] = _Missing()
"""In place of a value: nothing can be shown yet."""


# Where references are not counted, or not by one thread alone, every list is held by somebody.
_counts = getattr(sys, "_is_gil_enabled", bool)() or sys.version_info < (3, 13)
reference_count: Callable[[object], int] = getattr(sys, "getrefcount", id) if _counts else id
_box: list[list[Any]] = [[]]
_OURS: Final = reference_count(_box[0])

LONG: Final = 200
"""From this length on a list is worth a look at who holds it."""


class FieldNotReady(Exception):
    """A validator may ask for fields that have not arrived yet."""


class Company(NamedTuple):
    """A field as part of an object in which the fields before it stand, as numbers: see `plans.taken`."""

    name: str
    validator: SchemaValidator
    text: str
    taken: list[Any]


class Container:
    """What all frames have: `values`, what has closed, and `place`, the key in the frame around it.

    Containers open and close all the time, so what most of them never set stands in the class.
    """

    values: Any
    arriving: FieldPlan | None = None
    key: Any = None
    loc: Any = None
    outer: tuple[FieldPlan, ...] = ()  # the tagged unions that this is a member of, outermost first
    tags: tuple[Any, ...] = ()  # their tags, which are part of an error's location
    certain: bool = True  # the arriving value will be used, whatever the container may yet hold
    odd: bool = False  # something came in another shape than planned: only the whole text tells
    bad: bool = False  # something in here did not validate, so neither will this
    bare: type | None = None  # the class of the snapshots, where the values are all that is in them

    def __init__(self, parent: Container | None, node: FieldPlan, start: int, firm: bool = True) -> None:
        self.parent: Container | None = parent
        self.node: FieldPlan = node
        self.start: int = start
        self.place: Any = parent.key if parent else None
        self.shells: Shells = node.shells
        self.firm: bool = firm  # a value in here that cannot validate stops everything
        self.spans: list[tuple[int, int]] | None = None if node.trivial else []
        self.taken: list[Any] = []

    def meet(self, name: str) -> bool:
        """A key: the next value is its. Tells whether the key itself is still to be validated."""
        return False

    def put(self, value: Any) -> None:
        """Set the value at `key`."""
        self.values[self.key] = value

    def passed(self) -> None:
        """The arriving value has ended."""

    def extra(self) -> dict[str, Any]:
        """What came under keys that no field claims."""
        return {}

    def asks(self, node: FieldPlan) -> str | None:
        """The name of the arriving field, if its validators may ask for the fields before it."""
        return None

    def in_company(self, node: FieldPlan, text: str, inner: list[Any], *, closing: bool) -> Company | None:
        """What gives the validators of the arriving field the fields before it; None if they do not ask."""
        return None

    def show(self, child: Any) -> Any:
        """A snapshot, with that of the open child in it."""
        values = self.values.copy()
        if child is not MISSING:
            values[self.key] = child
        return self.dressed(values)

    def dressed(self, values: Any) -> Any:
        """The snapshot that these values make."""
        return shelled(values, self.shells) if self.shells else values


class RootContainer(Container):
    """Around the whole value. `wrapped`: the text is an object that holds it under the key `value`."""

    def __init__(self, root: FieldPlan, wrapped: bool) -> None:
        super().__init__(None, root, 0)
        self._root = root
        self.wrapped: bool = wrapped
        self.values: dict[str, Any] = {}
        self.key = "value"
        self.loc = "value"
        self.arriving = None if wrapped else root

    def unwrap(self) -> bool:
        """Whether the object that has just opened is the one around the value."""
        wrapped, self.wrapped = self.wrapped, False
        return wrapped

    def meet(self, name: str) -> bool:
        self.arriving = self._root if name == self.key else None
        return super().meet(name)


class ObjectContainer(Container):
    """An open model, dataclass or TypedDict. A key that comes again takes the place of the first."""

    key: str  # from the first `meet` on
    loc: str
    certain: bool
    bare: type | None

    def __init__(self, parent: Container, node: FieldPlan, shape: ObjectPlan, start: int, firm: bool) -> None:
        super().__init__(parent, node, start, firm and shape.firm)
        self.shape: ObjectPlan = shape
        self.bare = None if self.shells else shape.bare
        self.values: dict[str, Any] = {}
        self.slot: FieldSlot | None = None
        self._ranks: dict[str, int] = {}
        self._extra: dict[str, Any] | None = {} if shape.keeps_extra else None

    def meet(self, name: str) -> bool:
        self.loc = name
        slot = self.shape.slots.get(name)
        if slot is None:
            self.slot, self.key, self.arriving, self.certain = None, name, self.shape.others, True
        else:
            self.choose(slot)
        return False

    def choose(self, slot: FieldSlot) -> None:
        """The next value goes to this field."""
        self.slot = slot
        self.key = slot.name
        self.arriving = slot.node
        self.certain = slot.firm
        if slot.name in self.values or not slot.firm:
            self._meet_again(slot)

    def _meet_again(self, slot: FieldSlot) -> None:
        """Of two names of a field the one listed first wins, of one name the later value."""
        if slot.name in self.values and self._ranks.get(slot.name, slot.rank) < slot.rank:
            self.arriving = None
            return
        self._ranks[slot.name] = slot.rank
        self.values.pop(slot.name, None)

    def put(self, value: Any) -> None:
        if self._extra is not None and self.slot is None:
            self._extra[self.key] = value
        else:
            self.values[self.key] = value

    def asks(self, node: FieldPlan) -> str | None:
        return self.slot.name if node.informed and self.slot is not None else None

    def in_company(self, node: FieldPlan, text: str, inner: list[Any], *, closing: bool) -> Company | None:
        name = self.asks(node)
        if name is None:
            return None
        before = self.shape.before(name)
        if self.bad or any(other not in self.values for other in before):
            raise FieldNotReady
        parts = [f"{json.dumps(other)}:{number}," for number, other in enumerate(before, len(inner))]
        values = [*inner, *(self.values[other] for other in before)]
        return Company(
            name, self.shape.informed(name, closing), f"{{{''.join(parts)}{json.dumps(name)}:{text}}}", values
        )

    def extra(self) -> dict[str, Any]:
        return self._extra or {}

    def show(self, child: Any) -> Any:
        values = self.values.copy()
        if child is not MISSING:
            values[self.key] = child
        if self.bare is None:
            return self.dressed(values)
        item = new(self.bare)  # what `dressed` comes to for most models, where each call less is felt
        assign(item, "__dict__", values)
        return item

    def dressed(self, values: Any) -> Any:
        shape = self.shape
        for name in shape.awaited:
            if values.get(name) is None:
                return MISSING
        if shape.dress is not None:
            values = shape.dress(values, self._extra and self._extra.copy())
        return shelled(values, self.shells) if self.shells else values


class DictContainer(Container):
    """An open dict, by its validated keys."""

    loc: str  # from the first `meet` on
    arriving: FieldPlan | None

    def __init__(self, parent: Container, node: FieldPlan, shape: DictPlan, start: int, firm: bool) -> None:
        super().__init__(parent, node, start, firm)
        self.shape: DictPlan = shape
        self.values: dict[Any, Any] = {}

    def meet(self, name: str) -> bool:
        self.key = self.loc = name
        self.arriving = self.shape.value
        self.values.pop(name, None)
        return self.shape.keys is not None


class ListContainer(Container):
    """An open list. An item that does not validate is left out of the snapshots: `key` counts those in, `loc` all.

    Of a long list each snapshot would copy thousands of pointers to add one. So the lists of the last two snapshots
    are remembered, and the older is brought up to date and handed out again if nobody else holds it any more: a
    list that is held, by whatever has looked at it, never changes.
    """

    key: int
    loc: int
    arriving: FieldPlan | None
    lent: tuple[list[list[Any]], int] | None = None  # the older: a box with the list, how much of it was closed
    newer: tuple[list[list[Any]], int] | None = None

    def __init__(self, parent: Container, node: FieldPlan, shape: ListPlan, start: int, firm: bool) -> None:
        super().__init__(parent, node, start, firm)
        self.values: list[Any] = []
        self.key = self.loc = 0
        self.arriving = shape.item

    def put(self, value: Any) -> None:
        if self.key == len(self.values):
            self.values.append(value)
        else:
            self.values[self.key] = value

    def passed(self) -> None:
        self.key = len(self.values)
        self.loc += 1

    def show(self, child: Any) -> Any:
        values = self.values.copy() if self.key < LONG else self._again()
        if child is not MISSING:
            values.append(child)
        return self.dressed(values)

    def _again(self) -> list[Any]:
        """A copy of the values, of an older one if that is free."""
        box: list[list[Any]]
        if self.lent is not None and reference_count(self.lent[0][0]) == _OURS:
            box, closed = self.lent
            box[0][closed:] = self.values[closed:]
        else:
            box = [self.values.copy()]
        self.lent, self.newer = self.newer, (box, self.key)
        return box[0]


def open_frame(parent: Container, node: FieldPlan, start: int) -> Container:
    """The frame of a container that has just opened."""
    shape = node.shape
    firm = parent.firm and parent.certain and node.firm
    if type(shape) is ObjectPlan:
        return ObjectContainer(parent, node, shape, start, firm)
    if type(shape) is ListPlan:
        return ListContainer(parent, node, shape, start, firm)
    assert type(shape) is DictPlan
    return DictContainer(parent, node, shape, start, firm)


class OpaqueContainer:
    """A container that is not taken apart: the changes inside it pass by."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.depth: int = 1

    def passes(self, change: Change) -> bool:
        """Whether the container goes on after this change of its inside."""
        if change[0] <= ARRAY:
            self.depth += 1
        elif change[0] == CLOSE:
            self.depth -= 1
        return self.depth > 0


class UndiscriminatedUnion(OpaqueContainer):
    """An object of a tagged union before its tag is known. What it held is walked again when it is."""

    def __init__(self, start: int, shape: TaggedPlan, outer: tuple[FieldPlan, ...], tags: tuple[Any, ...]) -> None:
        super().__init__(start)
        self.shape = shape
        self.outer = outer
        self.tags: tuple[Any, ...] = tags
        self.held: list[Change] = []
        self.member: FieldPlan | None = None
        self._at_tag = False
        self._pieces: list[str] = []

    def passes(self, change: Change) -> bool:
        self.held.append(change)
        goes_on = super().passes(change)
        if self.depth == 1:
            self._read_tag(change)
        return goes_on and self.member is None

    def _read_tag(self, change: Change) -> None:
        kind = change[0]
        if kind == KEY:
            self._at_tag = change[1] in self.shape.keys
            self._pieces = []
        elif self._at_tag and kind == GROW:
            self._pieces.append(change[1])
        elif self._at_tag and kind in (STRING_END, SCALAR):
            tag = "".join(self._pieces) if kind == STRING_END else from_json(change[1])
            self.member = self.shape.members.get(tag)
            self.tags = (*self.tags, tag)
