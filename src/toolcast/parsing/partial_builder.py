"""The builder of a partial value: it applies JSON changes to the containers that a type plan prescribes.

The state is the innermost open container (`container_stack`), the open string and, while an opaque container is
skipped, that container. There is one step for each kind of change. Each change of a value appends a record
(`path_changes`); everything else is computed on demand.

A closed value is validated from its own JSON text. A value that does not validate ends the call if no later text can
fix it: no before, wrap or plain validator on the field or around it, and only one name (`fatal`). Otherwise the value
stays as last shown, or hidden, and the end of the text decides; the same holds if a validator raises any other
exception.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Final

from pydantic_core import SchemaValidator, ValidationError, from_json

from ..text.text_buffer import JOIN_THRESHOLD, SliceableText
from .container_stack import (
    Container,
    DictContainer,
    FieldNotReady,
    ObjectContainer,
    OpaqueContainer,
    RootContainer,
    UndiscriminatedUnion,
    open_container,
)
from .json_stream import CLOSE, KEY, OBJECT, Change
from .missing import MISSING
from .partial_instances import wrap_in_root_models
from .path_changes import (
    GROWN,
    OPENED,
    SEALED,
    SET,
    UNSEEN,
    Record,
    Steps,
    error_location,
    relocate_error,
    value_at_path,
)
from .tool_arguments import validate_json_text
from .type_plan import FieldPlan, FieldSlot, TaggedPlan, closed_values

LONG_STRING: Final = 4_000
"""The length in characters from which copying a string costs more than releasing an earlier one."""

_UNRESOLVED: Final = object()  # a placeholder: the value did not validate, or cannot be validated yet


class PartialBuilder:
    """The open containers of one partial value.

    `container` is the innermost, `records` lists the effects of the last `apply`.
    """

    def __init__(self, plan: FieldPlan, *, wrapped: bool, fail_fast: bool, context: Any) -> None:
        self.buffer: SliceableText = SliceableText()
        self.base: RootContainer = RootContainer(plan, wrapped)
        self.container: Container = self.base
        self.records: list[Record] = []
        self.error: ValidationError | None = None  # the error that ended the call
        self.open_not_null: int = 0  # number of open containers with NotNull fields, which may hide them
        self._plan = plan
        self._fail_fast = fail_fast
        self._fault: ValidationError | None = None  # the error of the value that has closed last, until what follows
        self._context = context
        self._opaque: OpaqueContainer | None = None  # receives the changes while a container is skipped
        # The open string value, without the text in `_chunks`; the one before it; what was added in between.
        self._string: str = ""
        self._earlier_string: str = ""
        self._added: str = ""
        self._chunks: list[str] | None = None  # None: the open string is ignored
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
        """True if the value that the innermost container waits for has begun."""
        begun = self._chunks is not None or self._opaque is not None
        return begun and self.container.arriving is not None

    def apply(self, changes: list[Change]) -> None:
        """Apply JSON changes in order."""
        steps = self._steps
        for change in changes:
            if self._fault is not None:
                self._settle_fault(self._fault, change)
            if self._opaque is None:
                steps[change[0]](change)
            else:
                self._skip_change(change)

    def _settle_fault(self, fault: ValidationError, change: Change) -> None:
        """Raise the error of an invalid value unless `change` repeats its key, or closes what may be repeated."""
        self._fault = None
        repeats = change[0] == KEY and change[1] == self.container.loc
        if change[0] == CLOSE and isinstance(self.container.parent, (ObjectContainer, DictContainer)):
            self._fault = fault
        elif not repeats:
            self.error = fault
            raise fault

    def flush(self) -> Any:
        """Store the open string in its container and return it; `MISSING` if none is open, or it is not shown."""
        container = self.container
        plan = container.arriving
        if self._chunks is None or not self._growing or plan is None:
            return MISSING
        if self._chunks:
            if len(self._string) > LONG_STRING:
                self._release_earlier_string()
            text = self._join_chunks()
            container.set_value(wrap_in_root_models(text, plan.root_models) if plan.root_models else text)
        return container.values[container.key]

    def _join_chunks(self) -> str:
        """Return the open string with the text that has arrived.

        A new string for each snapshot would make a long text quadratic. CPython appends to a string in place if only
        one local variable refers to it. The string of the last snapshot never qualifies, because the consumer still
        has that snapshot; the string of the one before does, unless the consumer has kept it, and then it is copied.
        """
        assert self._chunks is not None
        added = "".join(self._chunks)
        self._chunks.clear()
        text = self._earlier_string
        self._earlier_string = self._string  # and nothing here refers to the earlier one any more
        text += self._added + added
        self._added = added
        self._string = text
        return text

    def _release_earlier_string(self) -> None:
        container: Container | None = self.container
        while container is not None:
            container.release_open_value()
            container = container.parent

    # The steps: one for each kind of change

    def _open(self, change: Change) -> None:
        container = self.container
        plan = container.arriving
        if container.parent is None and change[0] == OBJECT and self.base.unwrap():
            return
        if plan is None:
            self._opaque = OpaqueContainer(change[1])
        else:
            self._enter(plan, change[0], change[1], (), ())

    def _enter(
        self, plan: FieldPlan, bracket: int, start: int, unions: tuple[FieldPlan, ...], tags: tuple[Any, ...]
    ) -> None:
        container_plan = plan.container_plan
        if container_plan is None or container_plan.bracket != bracket:
            self._opaque = OpaqueContainer(start)
        elif isinstance(container_plan, TaggedPlan):
            self._opaque = UndiscriminatedUnion(start, container_plan, (*unions, plan), tags)
        else:
            parent = self.container
            container = self.container = open_container(parent, plan, start)
            if unions:
                container.unions, container.tags = unions, tags
                container.root_models = (
                    *(factory for union in unions for factory in union.root_models),
                    *plan.root_models,
                )
                if container.root_models:
                    container.plain_class = None
                    container.lazy_root = parent.lazy_root
            self.open_not_null += bool(container_plan.not_null)
            self.records.append((parent, parent.key, OPENED, {} if bracket == OBJECT else []))

    def _skip_change(self, change: Change) -> None:
        opaque = self._opaque
        assert opaque is not None
        if opaque.consume(change):
            return
        self._opaque = None
        if isinstance(opaque, UndiscriminatedUnion) and opaque.member is not None:
            self._enter(opaque.member, OBJECT, opaque.start, opaque.unions, opaque.tags)
            self.apply(opaque.buffered)
        elif self.container.arriving is None or self.container.parent is None:  # the caller validates the root
            self.container.end_value()
        else:
            self._finish_value(self.buffer.cut(opaque.start, change[1]))

    def _key(self, change: Change) -> None:
        container = self.container
        container.on_key(change[1])
        if type(container) is DictContainer and container.container_plan.keys is not None:
            self._check_key(container, container.container_plan.keys)

    def _check_key(self, container: DictContainer, keys: SchemaValidator) -> None:
        text = f"{{{quoted(container.loc)}:null}}"
        found = self._guard(container, container.fatal, None, lambda: keys.validate_json(text, context=self._context))
        if found is _UNRESOLVED:
            container.arriving = None
        else:
            (container.key,) = found
            container.remove(container.key)

    def _begin_string(self, change: Change) -> None:
        container = self.container
        plan = container.arriving
        if plan is None:
            self._chunks = None
            return
        self._chunks = []
        self._growing = plan.grows
        if plan.grows:
            container.set_value(wrap_in_root_models("", plan.root_models) if plan.root_models else "")
            self.records.append((container, container.key, OPENED, ""))

    def _grow(self, change: Change) -> None:
        if self._chunks is not None:
            self._chunks.append(change[1])
            if self._growing:
                container = self.container
                self.records.append((container, container.key, GROWN, change[1]))
            if (
                len(self._chunks) >= JOIN_THRESHOLD and self.flush() is MISSING
            ):  # a string that is not read or not shown
                self._join_chunks()

    def _end_string(self, change: Change) -> None:
        container = self.container
        plan = container.arriving
        if plan is None or self._chunks is None:
            container.end_value()
            return
        text = self._join_chunks() if self._string else "".join(self._chunks)
        self._string = self._earlier_string = self._added = ""
        self._chunks = None
        if plan.plain_text:
            container.set_value(text)
            self.records.append((container, container.key, SEALED, text))
            container.end_value()
            return
        if self._growing:
            container.set_value(wrap_in_root_models(text, plan.root_models))
        else:
            self.records.append((container, container.key, UNSEEN, text))
            if plan.parse_scalar is not None and self._try_scalar(container, plan.parse_scalar, quoted(text)):
                return
        self._finish_value(quoted(text), text if self._growing else None)

    def _scalar(self, change: Change) -> None:
        container = self.container
        plan = container.arriving
        if plan is None:
            container.end_value()
            return
        text = change[1]
        if text == "null" and plan.nullable:
            container.set_value(None)
            self.records.append((container, container.key, SET, None))
            container.end_value()
        elif plan.parse_scalar is None or not self._try_scalar(container, plan.parse_scalar, text):
            self._finish_value(text)

    def _try_scalar(self, container: Container, parse_scalar: Callable[[str], Any], text: str) -> bool:
        """Parse and store a closed scalar; return False if it is not of the planned type."""
        try:
            value = parse_scalar(text)
        except (ValueError, KeyError):  # not of the planned type: repairs may still apply
            return False
        self.records.append((container, container.key, SET, value))
        container.add_value(value)
        return True

    def _close(self, change: Change) -> None:
        container = self.container
        parent = container.parent
        if parent is None:  # the object around a wrapped value
            return
        end: int = change[1]
        if container.in_snapshots:  # which refer to the containers around it as well
            parent.in_snapshots = parent.shared = True
        self.open_not_null -= bool(container.plan.container_plan and container.plan.container_plan.not_null)
        value = _UNRESOLVED if parent.parent is None else self._closed_container(container, end)
        self.container = parent
        if value is _UNRESOLVED:
            value = container.snapshot(MISSING)
            if value is not MISSING:
                parent.set_value(value)
        else:
            parent.set_value(value)
            self.records.append((parent, parent.key, SEALED if container.plan.trivial else SET, value))
        if parent.spans is not None:
            parent.spans.append((container.start, end))
            parent.closed_values.append(value)
        parent.end_value()

    # Complete values

    def _finish_value(self, text: str, raw: str | None = None) -> None:
        """Validate a closed value that was not built incrementally, and store it in its container."""
        container = self.container
        plan = container.arriving
        assert plan is not None
        container.off_plan |= plan.container_plan is not None
        if type(container) is ObjectContainer and container.slot is None and container.container_plan.extra == "forbid":
            text = f"{{{quoted(container.loc)}:{text}}}"
            self._guard(
                container, container.fatal, None, lambda: container.container_plan.forbid_validator.validate_json(text)
            )
        elif type(container) is ObjectContainer and container.slot is not None and container.slot.part_slots:
            self._validate_parts(container, container.slot.part_slots, from_json(text))
        else:
            self._validate_field(container, plan, text, raw)
        container.end_value()

    def _validate_field(self, container: Container, plan: FieldPlan, text: str, raw: str | None = None) -> None:
        fatal = container.fatal and container.certain and plan.fatal
        value = self._guard(container, fatal, plan, lambda: self._read(container, plan, text))
        if value is not _UNRESOLVED:
            container.set_value(value)
            seen = raw is None or value != raw or type(value) is not str
            self.records.append((container, container.key, SET if seen else SEALED, value))

    def _validate_parts(
        self, container: ObjectContainer, part_slots: list[tuple[FieldSlot, Steps]], document: Any
    ) -> None:
        """Validate the fields that are made of parts of one value."""
        for slot, path in part_slots:
            part = value_at_path(document, path)
            if part is not MISSING:
                container.select(slot)
                if container.arriving is not None:
                    self._validate_field(container, container.arriving, json.dumps(part))

    def _closed_container(self, container: Container, end: int) -> Any:
        """Return the value of a container that has closed, or `_UNRESOLVED`."""
        plan, parent = container.plan, container.parent
        assert parent is not None
        if not container.unions and not container.off_plan and not container.invalid:
            if plan.trivial:
                return container.values
            if plan.build is not None:
                with suppress(KeyError):  # a missing field may be an error or have a default: Pydantic decides
                    return plan.build(container.values)
        place = container.unions[0] if container.unions else plan
        from_text = (
            container.off_plan or plan.validates_own_text or any(union.sees_raw_data for union in container.unions)
        )
        if container.invalid and not from_text:
            parent.invalid = True
            return _UNRESOLVED

        def validate() -> Any:
            if not from_text:
                with suppress(ValidationError):
                    return self._assemble(container, end)
            return self._read(parent, place, self.buffer.cut(container.start, end))

        return self._guard(parent, parent.fatal and parent.certain and place.fatal, place, validate)

    def _assemble(self, container: Container, end: int) -> Any:
        """Validate a closed container from the values that have closed inside it."""
        assert container.parent is not None
        text = self.buffer.without(container.start, end, container.spans or [])
        value = self._validated(container.parent, container.plan, text, container.closed_values, closing=True)
        for union in reversed(container.unions):
            if union.has_validators or union.root_models:
                value = self._validated(container.parent, union, "0", [value], closing=True)
        return value

    def _read(self, container: Container, plan: FieldPlan, text: str) -> Any:
        """Validate the value at the key of a container from its own text, with the repairs that a whole answer gets."""
        return self._validated(container, plan, text, [], closing=False)

    def _validated(self, container: Container, plan: FieldPlan, text: str, inner: list[Any], *, closing: bool) -> Any:
        field = container.with_prior_fields(plan, text, inner, closing=closing)
        if field is not None:
            name, validator, text, inner = field
        else:
            name, validator = "", plan.closing if closing else plan.validator
        token = closed_values.set(inner)
        try:
            if closing:
                value = validator.validate_json(text, context=self._context)
            else:
                above = 0 if field is None else 1  # the field's name
                value, repairs = validate_json_text(
                    validator, text, self._context, is_strict=lambda loc: plan.strictness.at(loc[above:])
                )
                container.off_plan |= bool(repairs)
        finally:
            closed_values.reset(token)
        return value if field is None else value[0][name]

    def _guard(self, container: Container, fatal: bool, plan: FieldPlan | None, validate: Callable[[], Any]) -> Any:
        """Return the result of `validate`, or `_UNRESOLVED` if it fails and the end of the text has to decide."""
        try:
            return validate()
        except ValidationError as error:
            container.invalid = True
            if fatal and self._fail_fast:
                named = plan is None or container.dependent_field(plan) is not None  # the error itself names the key
                place = (*error_location(container), *(() if named or container.parent is None else (container.loc,)))
                fault = relocate_error(error, place, self._plan.validator.title, shown=self._plan.shown)
                fault.__cause__ = None  # the `from None` of a `raise`, which mypyc ignores
                if plan is not None and isinstance(container, (ObjectContainer, DictContainer)):
                    self._fault = fault  # the key may come again, with another value
                else:
                    self.error = fault
                    raise fault  # noqa: B904 - its cause is set above
        except FieldNotReady:
            container.off_plan = True
        except Exception:  # the user's validator: validating the root will raise it again
            container.invalid = True
        return _UNRESOLVED
