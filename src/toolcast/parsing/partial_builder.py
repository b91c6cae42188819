"""The walk of JSON's changes over the plan of a type: what opens, what grows, what closes and is validated.

Strategy: the state is the innermost open frame (frames.py), the open string, and, while the walk passes by a
container that is not taken apart, what to wait for. There is one step for each kind of change. Every change of a
value leaves a record (records.py); nothing else is worked out before somebody asks.

A closed value is validated from its own JSON text. What does not validate stops everything if nothing can mend it:
no before, wrap or plain validator on the field or around it, one name only (`firm`). Otherwise it stays as it last
looked, or hidden, and the end decides; so it does when a validator raises anything else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Final

from pydantic_core import SchemaValidator, ValidationError, from_json

from .arguments import decode_once
from .container_stack import (
    MISSING,
    Container,
    DictContainer,
    FieldNotReady,
    ObjectContainer,
    OpaqueContainer,
    RootContainer,
    UndiscriminatedUnion,
    open_frame,
)
from .json_stream import OBJECT, Change
from .partial_instances import shelled
from .path_changes import GROWN, OPENED, SEALED, SET, UNSEEN, Record, Steps, Text, followed, located, location
from .type_plan import FieldPlan, FieldSlot, TaggedPlan, taken

_HELD: Final = object()  # in place of a value: it did not validate, or nobody can say yet


class PartialBuilder:
    """The open frames of one growing value. `frame` is the innermost, `records` what the last `take` did."""

    def __init__(self, plan: FieldPlan, *, wrapped: bool, fail_fast: bool, context: Any) -> None:
        self.kept: Text = Text()
        self.base: RootContainer = RootContainer(plan, wrapped)
        self.frame: Container = self.base
        self.records: list[Record] = []
        self.error: ValidationError | None = None  # what stopped everything
        self.awaiting: int = 0  # open frames that NotNull fields may hold back
        self._plan = plan
        self._fail_fast = fail_fast
        self._context = context
        self._aside: OpaqueContainer | None = None  # what the changes go to while a container is not taken apart
        self._string = ""  # the open string value, without what is in `_pieces`
        self._pieces: list[str] | None = None  # None: nobody wants the open string
        self._growing = False  # the open string is shown
        self._steps: tuple[Callable[[Change], None], ...] = (
            self._open,
            self._open,
            self._key,
            self._begin_string,
            self._grow,
            self._end_string,
            self._scalar,
            self._close,
        )

    @property
    def busy(self) -> bool:
        """Whether the value that the innermost frame waits for has begun."""
        begun = self._pieces is not None or self._aside is not None
        return begun and self.frame.arriving is not None

    def take(self, changes: list[Change]) -> None:
        """Walk on."""
        steps = self._steps
        for change in changes:
            if self._aside is None:
                steps[change[0]](change)
            else:
                self._pass_by(change)

    def flush(self) -> None:
        """Put the open string into its frame, as it is now."""
        pieces, frame = self._pieces, self.frame
        if pieces and self._growing and frame.arriving is not None:
            self._string += pieces[0] if len(pieces) == 1 else "".join(pieces)
            pieces.clear()
            shells = frame.arriving.shells
            frame.put(shelled(self._string, shells) if shells else self._string)

    # The steps: one for each kind of change

    def _open(self, change: Change) -> None:
        frame = self.frame
        node = frame.arriving
        if frame.parent is None and change[0] == OBJECT and self.base.unwrap():
            return
        if node is None:
            self._aside = OpaqueContainer(change[1])
        else:
            self._enter(node, change[0], change[1], (), ())

    def _enter(
        self, node: FieldPlan, bracket: int, start: int, outer: tuple[FieldPlan, ...], tags: tuple[Any, ...]
    ) -> None:
        shape = node.shape
        if shape is None or shape.bracket != bracket:
            self._aside = OpaqueContainer(start)
        elif isinstance(shape, TaggedPlan):
            self._aside = UndiscriminatedUnion(start, shape, (*outer, node), tags)
        else:
            parent = self.frame
            frame = self.frame = open_frame(parent, node, start)
            if outer:
                frame.outer, frame.tags = outer, tags
                frame.shells = (*(shell for around in outer for shell in around.shells), *node.shells)
                frame.bare = None
            self.awaiting += bool(shape.awaited)
            self.records.append((parent, parent.key, OPENED, {} if bracket == OBJECT else []))

    def _pass_by(self, change: Change) -> None:
        aside = self._aside
        assert aside is not None
        if aside.passes(change):
            return
        self._aside = None
        if isinstance(aside, UndiscriminatedUnion) and aside.member is not None:
            self._enter(aside.member, OBJECT, aside.start, aside.outer, aside.tags)
            self.take(aside.held)
        elif self.frame.arriving is None or self.frame.parent is None:  # the root is the caller's to validate
            self.frame.passed()
        else:
            self._settle(self.kept.cut(aside.start, change[1]))

    def _key(self, change: Change) -> None:
        frame = self.frame
        if frame.meet(change[1]) and type(frame) is DictContainer and frame.shape.keys is not None:
            self._check_key(frame, frame.shape.keys)

    def _check_key(self, frame: DictContainer, keys: SchemaValidator) -> None:
        text = f"{{{quoted(frame.loc)}:null}}"
        found = self._judged(frame, frame.firm, None, lambda: keys.validate_json(text, context=self._context))
        if found is _HELD:
            frame.arriving = None
        else:
            (frame.key,) = found
            frame.values.pop(frame.key, None)

    def _begin_string(self, change: Change) -> None:
        frame = self.frame
        node = frame.arriving
        if node is None:
            self._pieces = None
            return
        self._string = ""
        self._pieces = []
        self._growing = node.grows
        if node.grows:
            frame.put(shelled("", node.shells) if node.shells else "")
            self.records.append((frame, frame.key, OPENED, ""))

    def _grow(self, change: Change) -> None:
        if self._pieces is not None:
            self._pieces.append(change[1])
            if self._growing:
                frame = self.frame
                self.records.append((frame, frame.key, GROWN, change[1]))

    def _end_string(self, change: Change) -> None:
        frame = self.frame
        node = frame.arriving
        if node is None or self._pieces is None:
            frame.passed()
            return
        text = self._string + "".join(self._pieces)
        self._pieces = None
        if node.plain_text:
            frame.put(text)
            self.records.append((frame, frame.key, SEALED, text))
            frame.passed()
            return
        if self._growing:
            frame.put(shelled(text, node.shells))
        else:
            self.records.append((frame, frame.key, UNSEEN, text))
            if node.quick is not None and self._quickly(frame, node.quick, quoted(text)):
                return
        self._settle(quoted(text), text if self._growing else None)

    def _scalar(self, change: Change) -> None:
        frame = self.frame
        node = frame.arriving
        if node is None:
            frame.passed()
            return
        text = change[1]
        if text == "null" and node.nullable:
            frame.put(None)
            self.records.append((frame, frame.key, SET, None))
            frame.passed()
        elif node.quick is None or not self._quickly(frame, node.quick, text):
            self._settle(text)

    def _quickly(self, frame: Container, quick: Callable[[str], Any], text: str) -> bool:
        """Whether the value that has closed was what is planned, and has been put into the frame."""
        try:
            value = quick(text)
        except (ValueError, KeyError):  # another number, word or text than planned: it may yet be repaired
            return False
        frame.put(value)
        self.records.append((frame, frame.key, SET, value))
        frame.passed()
        return True

    def _close(self, change: Change) -> None:
        frame = self.frame
        parent = frame.parent
        if parent is None:  # the object around a wrapped value
            return
        end: int = change[1]
        self.awaiting -= bool(frame.node.shape and frame.node.shape.awaited)
        value = _HELD if parent.parent is None else self._whole(frame, end)
        self.frame = parent
        if value is _HELD:
            value = frame.show(MISSING)
            if value is not MISSING:
                parent.put(value)
        else:
            parent.put(value)
            self.records.append((parent, parent.key, SEALED if frame.node.trivial else SET, value))
        if parent.spans is not None:
            parent.spans.append((frame.start, end))
            parent.taken.append(value)
        parent.passed()

    # Complete values

    def _settle(self, text: str, raw: str | None = None) -> None:
        """Put what has closed, and is no container that was taken apart, into the frame when it validates."""
        frame = self.frame
        node = frame.arriving
        assert node is not None
        frame.odd |= node.shape is not None
        if type(frame) is ObjectContainer and frame.slot is None and frame.shape.extra == "forbid":
            text = f"{{{quoted(frame.loc)}:{text}}}"
            self._judged(frame, frame.firm, None, lambda: frame.shape.forbidding.validate_json(text))
        elif type(frame) is ObjectContainer and frame.slot is not None and frame.slot.picks:
            self._pick(frame, frame.slot.picks, from_json(text))
        else:
            self._place(frame, node, text, raw)
        frame.passed()

    def _place(self, frame: Container, node: FieldPlan, text: str, raw: str | None = None) -> None:
        firm = frame.firm and frame.certain and node.firm
        value = self._judged(frame, firm, node, lambda: self._read(frame, node, text))
        if value is not _HELD:
            frame.put(value)
            seen = raw is None or value != raw or type(value) is not str
            self.records.append((frame, frame.key, SET if seen else SEALED, value))

    def _pick(self, frame: ObjectContainer, picks: list[tuple[FieldSlot, Steps]], document: Any) -> None:
        """Give the fields that are made of parts of one value their parts."""
        for slot, path in picks:
            part = followed(document, path)
            if part is not MISSING:
                frame.choose(slot)
                if frame.arriving is not None:
                    self._place(frame, frame.arriving, json.dumps(part))

    def _whole(self, frame: Container, end: int) -> Any:
        """What a container has become now that it has closed."""
        node, parent = frame.node, frame.parent
        assert parent is not None
        if not frame.outer and not frame.odd and not frame.bad:
            if node.trivial:
                return frame.values
            if node.build is not None:
                with suppress(KeyError):  # a field did not come, which may be an error, or have a default
                    return node.build(frame.values)
        place = frame.outer[0] if frame.outer else node
        from_text = frame.odd or node.wants_text or any(outer.whole for outer in frame.outer)
        if frame.bad and not from_text:
            parent.bad = True
            return _HELD

        def closed() -> Any:
            if not from_text:
                with suppress(ValidationError):
                    return self._assembled(frame, end)
            return self._read(parent, place, self.kept.cut(frame.start, end))

        return self._judged(parent, parent.firm and parent.certain and place.firm, place, closed)

    def _assembled(self, frame: Container, end: int) -> Any:
        """The closed container, made of the values that have closed inside it."""
        assert frame.parent is not None
        text = self.kept.without(frame.start, end, frame.spans or [])
        value = self._validated(frame.parent, frame.node, text, frame.taken, closing=True)
        for outer in reversed(frame.outer):
            if outer.judged or outer.shells:
                value = self._validated(frame.parent, outer, "0", [value], closing=True)
        return value

    def _read(self, frame: Container, node: FieldPlan, text: str) -> Any:
        """The value at the key of a frame, from its own text, after the repair that a whole answer would get."""
        return self._validated(frame, node, text, [], closing=False)

    def _validated(self, frame: Container, node: FieldPlan, text: str, inner: list[Any], *, closing: bool) -> Any:
        company = frame.in_company(node, text, inner, closing=closing)
        if company is not None:
            _, validator, text, inner = company
        else:
            validator = node.closing if closing else node.validator
        token = taken.set(inner)
        try:
            if closing:
                value = validator.validate_json(text, context=self._context)
            else:
                above = 0 if company is None else 1  # the field's name
                value, repairs = decode_once(
                    validator, text, self._context, is_strict=lambda loc: node.strictness.at(loc[above:])
                )
                frame.odd |= bool(repairs)
        finally:
            taken.reset(token)
        return value if company is None else value[0][company.name]

    def _judged(self, frame: Container, firm: bool, node: FieldPlan | None, validate: Callable[[], Any]) -> Any:
        """What `validate` returns for the arriving value; `_HELD` when it fails and the end has to decide."""
        try:
            return validate()
        except ValidationError as error:
            frame.bad = True
            if firm and self._fail_fast:
                named = node is None or frame.asks(node) is not None  # the error itself names the key
                place = (*location(frame), *(() if named or frame.parent is None else (frame.loc,)))
                self.error = located(error, place, self._plan.validator.title, hide_input=self._plan.hides_input)
                raise self.error from None
        except FieldNotReady:
            frame.odd = True
        except Exception:  # a validator of the user raised something of its own: the root will raise it again
            frame.bad = True
        return _HELD
