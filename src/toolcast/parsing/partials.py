"""Half-filled values: JSON that is still arriving goes in, growing instances of a type come out.

Strategy: the changes of a `JSONStream` walk the plan of the type (plans.py) over the frames of the open containers
(frames.py). What closes is validated from its own JSON text, in JSON mode, and put into the frame around it. What
is open costs nothing until somebody looks: `value` copies the open path; `changed` and `changes` are worked out
from the records of the last feed. So a feed costs what its own text asks for, however much came before.

Rules: the root is never validated here; the caller does that from the whole text, as a call that was not streamed
would. A value that cannot validate stops the stream (fail fast) if nothing can mend it: no before, wrap or plain
validator on the field or around it, one name only. Otherwise it stays as it last looked, or hidden, and the end
decides; so it does when a validator raises anything else. Broken JSON stops the snapshots, not the text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from pydantic_core import SchemaValidator, ValidationError, from_json

from .arguments import decode_once
from .frames import MISSING, Base, DictFrame, Frame, ObjectFrame, open_frame
from .json_stream import ARRAY, CLOSE, KEY, OBJECT, SCALAR, STRING, Change, JSONStream, JSONStreamError
from .plans import Done, Node, NotNull, TaggedShape, plan_for, taken
from .records import GROWN, OPENED, SEALED, SET, Record, Text, Undecided, Skipped, path_of, placed
from .snapshots import is_partial

__all__ = ["MISSING", "Done", "Growing", "NotNull", "is_partial", "plan_for"]

_HELD: Final = object()  # in place of a value: it did not validate, or nobody can say yet


class Growing:
    """A value of a plan's type that grows with every piece of its JSON text.

    `wrapped`: the text is `{"value": ...}`, and everything here is of what is inside. `fail_fast`: `feed` raises
    pydantic's `ValidationError` as soon as a closed value cannot validate. `context` is for the user's validators.
    """

    def __init__(
        self, plan: Node, *, wrapped: bool = False, fail_fast: bool = True, context: Any = None
    ) -> None:
        self.broken: JSONStreamError | None = None
        self._plan = plan
        self._fail_fast = fail_fast
        self._context = context
        self._json = JSONStream()
        self._kept = Text()
        self._base = self._frame = Base(plan, wrapped)
        self._aside: Skipped | None = None  # what the changes go to while a container is not taken apart
        self._string = ""  # the open string value, without what is in `_pieces`
        self._pieces: list[str] | None = None  # None: nobody wants the open string
        self._growing = False  # the open string is shown
        self._error: ValidationError | None = None
        self._records: list[Record] = []  # of this feed
        self._shown: list[Record] = []  # of the last feed that changed something visible
        self._value: Any = MISSING
        self._stale = False
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

    # Text in

    def feed(self, text: str) -> bool:
        """Whether the next piece of the text changed anything visible."""
        self._kept.add(text)
        if self.broken is not None:
            return False
        if self._error is not None:
            raise self._error
        self._records = []
        try:
            changes = self._json.feed(text)
        except JSONStreamError as error:
            self.broken = error
            return False
        self._walk(changes)
        return self._notice()

    def close(self) -> bool:
        """End the text; whether that changed anything visible. `JSONStreamError` if it is not complete JSON."""
        if self.broken is not None:
            raise self.broken
        self._records = []
        try:
            changes = self._json.close()
        except JSONStreamError as error:
            self.broken = error
            raise
        self._walk(changes)
        return self._notice()

    @property
    def text(self) -> str:
        """All of the text so far."""
        return self._kept.whole()

    def _walk(self, changes: list[Change]) -> None:
        steps = self._steps
        for change in changes:
            if self._aside is None:
                steps[change[0]](change)
            else:
                self._pass_by(change)

    def _notice(self) -> bool:
        for record in self._records:
            if record[2] != SEALED:
                break
        else:
            return False
        self._shown = self._records
        self._stale = True
        return True

    # The steps: one for each kind of change

    def _open(self, change: Change) -> None:
        frame = self._frame
        node = frame.arriving
        if frame.parent is None and change[0] == OBJECT and self._base.unwrap():
            return
        if node is None:
            self._aside = Skipped(change[1])
        else:
            self._enter(node, change[0], change[1], (), ())

    def _enter(self, node: Node, bracket: int, start: int, outer: tuple[Node, ...], tags: tuple[Any, ...]) -> None:
        shape = node.shape
        if shape is None or shape.bracket != bracket:
            self._aside = Skipped(start)
        elif isinstance(shape, TaggedShape):
            self._aside = Undecided(start, shape, (*outer, node), tags)
        else:
            parent = self._frame
            frame = self._frame = open_frame(parent, node, start)
            frame.outer, frame.tags = outer, tags
            self._awaiting += bool(shape.awaited)
            self._records.append((parent, parent.key, OPENED, {} if bracket == OBJECT else []))

    def _pass_by(self, change: Change) -> None:
        aside = self._aside
        assert aside is not None
        if aside.passes(change):
            return
        self._aside = None
        if isinstance(aside, Undecided) and aside.member is not None:
            self._enter(aside.member, OBJECT, aside.start, aside.outer, aside.tags)
            self._walk(aside.held)
        elif self._frame.arriving is None or self._frame.parent is None:  # the root is the caller's to validate
            self._frame.passed()
        else:
            self._settle(self._kept.cut(aside.start, change[1]))

    def _key(self, change: Change) -> None:
        frame = self._frame
        frame.meet(change[1])
        if type(frame) is DictFrame and frame.shape.keys is not None:
            self._check_key(frame, frame.shape.keys)

    def _check_key(self, frame: DictFrame, keys: SchemaValidator) -> None:
        found = self._judged(frame, True, keys, f"{{{json.dumps(frame.loc)}:null}}")
        if found is _HELD:
            frame.arriving = None
        else:
            (frame.key,) = found
            frame.values.pop(frame.key, None)

    def _begin_string(self, change: Change) -> None:
        frame = self._frame
        node = frame.arriving
        if node is None:
            self._pieces = None
            return
        self._string = ""
        self._pieces = []
        self._growing = node.grows
        if node.grows:
            frame.put(node.dressed(""))
            self._records.append((frame, frame.key, OPENED, ""))

    def _grow(self, change: Change) -> None:
        if self._pieces is not None:
            self._pieces.append(change[1])
            if self._growing:
                self._records.append((self._frame, self._frame.key, GROWN, change[1]))

    def _end_string(self, change: Change) -> None:
        frame = self._frame
        node = frame.arriving
        if node is None or self._pieces is None:
            frame.passed()
            return
        text = self._string + "".join(self._pieces)
        self._pieces = None
        if node.plain_text:
            frame.put(text)
            self._records.append((frame, frame.key, SEALED, text))
            frame.passed()
            return
        if self._growing:
            frame.put(node.dressed(text))
        else:
            self._records.append((frame, frame.key, UNSEEN, text))
        self._settle(json.dumps(text), text)

    def _scalar(self, change: Change) -> None:
        frame = self._frame
        node = frame.arriving
        if node is None:
            frame.passed()
            return
        text = change[1]
        if text == "null" and node.nullable:
            value = None
        elif node.quick is None:
            self._settle(text)
            return
        else:
            try:
                value = node.quick(text)
            except (ValueError, KeyError):  # a number or a word where another one is planned: Pydantic knows
                self._settle(text)
                return
        frame.put(value)
        self._records.append((frame, frame.key, SET, value))
        frame.passed()

    def _close(self, change: Change) -> None:
        frame = self._frame
        parent = frame.parent
        if parent is None:  # the object around a wrapped value
            return
        end: int = change[1]
        self._awaiting -= bool(frame.node.shape and frame.node.shape.awaited)
        value = _HELD if parent.parent is None else self._whole(frame, end)
        self._frame = parent
        if value is _HELD:
            value = frame.show(MISSING)
            parent.bad = True
            if value is not MISSING:
                parent.put(value)
        else:
            parent.put(value)
            self._records.append((parent, parent.key, SEALED if frame.node.trivial else SET, value))
        if parent.spans is not None:
            parent.spans.append((frame.start, end))
            parent.taken.append(value)
        parent.passed()

    # Complete values

    def _settle(self, text: str, raw: str | None = None) -> None:
        """Put what has closed and is no container of the plan into the frame, when it validates."""
        frame = self._frame
        node = frame.arriving
        assert node is not None
        frame.odd |= node.shape is not None
        slot = frame.slot if type(frame) is ObjectFrame else None
        if slot is not None and slot.picks:
            self._pick(frame, slot, from_json(text))
        elif slot is not None and node.informed:
            self._settle_informed(frame, slot, text)
        else:
            self._place(frame, self._judged(frame, frame.certain and node.firm, node.validator, text), raw)
        frame.passed()
