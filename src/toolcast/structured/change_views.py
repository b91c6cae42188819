"""The changes of one streamed call as JSON data: `stream.changes()` in its formats `data` and `json-patch`.

Both keep a copy of what the reader has, so that nothing is sent twice: when a container closes, only the values that
differ are sent, such as a default or a value that a validator or serializer has changed. After the last change the
reader has exactly the JSON of the result. A field that has a serializer of its own, or is excluded, is not sent before
the object around it closes: what the model wrote for it may be secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

from ..parsing.container_stack import Container, ListContainer, ObjectContainer
from ..parsing.missing import MISSING
from ..parsing.path_changes import GROWN, SEALED, SET, PathChange, Record, public_path
from ..text.text_buffer import TextBuffer
from ..values.plain_data import to_plain

PlainSteps = tuple[str | int, ...]

# For `isinstance` only. Typed as Any, so that a checker does not narrow JSON data to containers of unknown types.
_DICT: Any = dict
_LIST: Any = list

GROWTH: Final = 4
"""A growing string is replaced in a JSON Patch when a quarter of what was sent has been added."""


class GrowingText:
    """A string of the document that grows, with its length."""

    def __init__(self, text: str) -> None:
        self._buffer = TextBuffer()
        self.length: int = 0
        self.add(text)

    def add(self, chunk: str) -> None:
        """Append one chunk."""
        self._buffer.add(chunk)
        self.length += len(chunk)

    def whole(self) -> str:
        """Return all of the text."""
        return self._buffer.whole()


class PlainChange(NamedTuple):
    """One change of the document: `text` is appended text, `set` a value, `closed` the end of a string.

    `exists` is True if there was a value at the path; `whole` has all the text of a string that grows.
    """

    kind: Literal["set", "text", "closed"]
    steps: PlainSteps
    value: Any = None
    exists: bool = True
    whole: GrowingText | None = None


class SentDocument:
    """A copy of the JSON document that the reader has, and the changes that lead to the next one."""

    def __init__(self, root: Any = MISSING) -> None:
        self.root: Any = root

    def apply(self, records: Iterable[Record], prefix: PlainSteps) -> list[PlainChange]:
        """Return the changes that these records make below `prefix`."""
        out: list[PlainChange] = []
        for container, key, kind, value in records:
            if kind > SEALED or (steps := _plain_steps(container, key)) is None:
                continue
            steps = (*prefix, *steps)
            if kind == SEALED:
                if isinstance(self._value_at(steps), (str, GrowingText)):
                    out.append(PlainChange("closed", steps))
            elif kind == GROWN:
                out += self._append(steps, value)
            else:
                out += self.replace(steps, to_plain(value))
                if kind == SET and isinstance(value, str):
                    out.append(PlainChange("closed", steps))
        return out

    def replace(self, steps: PlainSteps, new: Any) -> list[PlainChange]:
        """Return the changes that make the value at a path `new`: only where it differs."""
        old = self._value_at(steps)
        if old is not MISSING:
            return self._difference(steps, old, new)
        return self._set(steps, new)

    def _difference(self, steps: PlainSteps, old: Any, new: Any) -> list[PlainChange]:
        if isinstance(old, GrowingText):
            old = old.whole()
        if isinstance(old, _DICT) and isinstance(new, _DICT) and old.keys() <= new.keys():
            return [change for key, value in new.items() for change in self.replace((*steps, key), value)]
        if isinstance(old, _LIST) and isinstance(new, _LIST) and len(old) <= len(new):
            return [change for at, value in enumerate(new) for change in self.replace((*steps, at), value)]
        if type(old) is type(new) and old == new:
            return []
        if isinstance(old, str) and isinstance(new, str) and old and new.startswith(old):
            return self._append(steps, new[len(old) :])
        return self._set(steps, new)

    def _append(self, steps: PlainSteps, text: str) -> list[PlainChange]:
        whole = self._value_at(steps)
        if isinstance(whole, str):
            self._put(steps, whole := GrowingText(whole))
        if not isinstance(whole, GrowingText):
            return []
        whole.add(text)
        return [PlainChange("text", steps, text, whole=whole)]

    def _set(self, steps: PlainSteps, new: Any) -> list[PlainChange]:
        exists = self._value_at(steps) is not MISSING
        return [PlainChange("set", steps, _copy(new), exists)] if self._put(steps, new) else []

    def _value_at(self, steps: PlainSteps) -> Any:
        value = self.root
        for step in steps:
            if isinstance(value, _DICT):
                value = value.get(step, MISSING)
            elif isinstance(value, _LIST) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return MISSING
        return value

    def _put(self, steps: PlainSteps, new: Any) -> bool:
        """Put a value at a path. Return False if the path leads nowhere: the end of the call sets it right."""
        if not steps:
            self.root = new
            return True
        parent, last = self._value_at(steps[:-1]), steps[-1]
        if isinstance(parent, _DICT):
            parent[last] = new
        elif isinstance(parent, _LIST) and isinstance(last, int) and last <= len(parent):
            parent[last : last + 1] = [new]
        else:
            return False
        return True


def _copy(value: Any) -> Any:
    """Return a copy of JSON data, which grows no further."""
    if isinstance(value, _DICT):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, _LIST):
        return [_copy(item) for item in value]
    return value


def _plain_steps(container: Container, key: Any) -> PlainSteps | None:
    """Return the path of a value in the document; None if it is not sent before the object around it has closed."""
    steps: list[str | int] = []
    while container.parent is not None:
        if isinstance(container, ObjectContainer) and key in container.container_plan.deferred:
            return None
        steps.append(
            key if isinstance(container, ListContainer) or type(key) is str else next(iter(to_plain({key: 0})))
        )
        key, container = container.parent_key, container.parent
    return tuple(reversed(steps))


class DataChanges:
    """The format `data`: one `PathChange` for each change, with plain JSON data."""

    def __init__(self, root: Any) -> None:
        self._sent = SentDocument()
        self._root = root  # the first document, where it is no partial object

    def reset(self) -> None:
        """Begin a new document."""
        self._sent = SentDocument()

    def new(self, records: Iterable[Record], prefix: PlainSteps) -> list[Any]:
        """Return the items for these records."""
        return list(self.written(self._new(records, prefix)))

    def last(self, output: Any) -> list[Any]:
        """Return the items that lead to the result."""
        return list(self.written(self._sent.replace((), to_plain(output)), over=True))

    def written(self, changes: Iterable[PlainChange], *, over: bool = False) -> Iterator[Any]:
        """Yield the items of these changes. `over`: no others follow."""
        for change in changes:
            if change.kind != "closed":
                yield PathChange(change.kind, public_path(change.steps), change.value)

    def _new(self, records: Iterable[Record], prefix: PlainSteps) -> list[PlainChange]:
        begun = [] if self._root is MISSING or self._sent.root is not MISSING else self._sent.replace((), self._root)
        return [*begun, *self._sent.apply(records, prefix)]


class JSONPatchChanges(DataChanges):
    """The format `json-patch`: operations of RFC 6902, which has none that appends text.

    A growing string is replaced only when it has grown by a quarter, and when it closes: all its operations together
    are a small multiple of its length.
    """

    def __init__(self, root: Any) -> None:
        super().__init__(root)
        self._growing: tuple[PlainSteps, GrowingText] | None = None  # a string of which the reader lacks the end
        self._length = 0  # of that string, as the reader has it

    def reset(self) -> None:
        super().reset()
        self._growing = None

    def written(self, changes: Iterable[PlainChange], *, over: bool = False) -> Iterator[Any]:
        for change in changes:
            if self._growing is not None and (change.kind == "closed" or change.steps != self._growing[0]):
                yield self._flush(*self._growing)
            if change.kind == "set":
                kind = "replace" if change.exists or not change.steps else "add"
                self._growing, self._length = None, len(change.value) if isinstance(change.value, str) else 0
                yield _operation(kind, change.steps, change.value)
            elif change.whole is not None:
                whole = change.whole
                if self._growing is None:
                    self._growing, self._length = (change.steps, whole), whole.length - len(change.value)
                if (whole.length - self._length) * GROWTH >= self._length:
                    yield self._flush(change.steps, whole)
        if over and self._growing is not None:
            yield self._flush(*self._growing)

    def _flush(self, steps: PlainSteps, whole: GrowingText) -> Any:
        """Return the operation that gives the reader all of a growing string."""
        self._growing, self._length = None, whole.length
        return _operation("replace", steps, whole.whole())


def _operation(kind: str, steps: PlainSteps, value: Any) -> dict[str, Any]:
    pointer = "".join(["/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps])
    return {"op": kind, "path": pointer, "value": value}
