"""What a feed did, as records, and what can be told from them: paths, items, new text. And the text itself.

A record is a plain tuple `(frame, key, kind, value)`, made for every change of a growing value whether or not
anybody asks; everything else here is worked out when somebody does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from .frames import Frame

OPENED: Final = 0  # a container or a string is there, with nothing in it
GROWN: Final = 1  # more text of an open string
SET: Final = 2  # a value has closed, and shows for the first time or otherwise than before
SEALED: Final = 3  # a value has closed and looks as before
UNSEEN: Final = 4  # more text of a string that does not show

Record = tuple[Frame, Any, int, Any]
Path = str | tuple[str | int, ...]
Steps = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PathChange:
    """One visible change: set the place at `path` to `value`, or append the text `value` to the string there."""

    path: Path
    kind: Literal["set", "text"]
    value: Any


def steps_of(path: Path) -> Steps:
    """A path as strings, one for each step; the root is the empty path."""
    if isinstance(path, str):
        return tuple(path.split(".")) if path else ()
    return tuple(map(str, path))


def path_of(frame: Frame, key: Any) -> Steps:
    """The way from the root to a key of a frame."""
    steps: list[Any] = []
    while frame.parent is not None:
        steps.append(key)
        key, frame = frame.place, frame.parent
    return tuple(reversed(steps))


def _public(steps: Steps) -> Path:
    if any("." in str(step) for step in steps):
        return steps
    return ".".join(map(str, steps))


def changed(records: Iterable[Record]) -> tuple[Path, ...]:
    """The paths of what changed visibly, each once."""
    places = dict.fromkeys((frame, key) for frame, key, kind, _ in records if kind <= SET)
    return tuple(dict.fromkeys(_public(path_of(frame, key)) for frame, key in places))


def path_changes(records: Iterable[Record]) -> Iterator[PathChange]:
    """What changed visibly, in order; applied one after the other they rebuild the value."""
    for frame, key, kind, value in records:
        if kind <= SET:
            yield PathChange(_public(path_of(frame, key)), "text" if kind == GROWN else "set", value)


def closed_items(records: Iterable[Record], path: Path) -> list[Any]:
    """The elements of the list at `path` that have closed, validated."""
    steps = steps_of(path)
    return [
        value
        for frame, key, kind, value in records
        if kind in (SET, SEALED) and type(frame.values) is list and _is_at(frame, key, (*steps, str(key)))
    ]


def new_text(records: Iterable[Record], path: Path) -> str:
    """What was added to the string at `path`."""
    steps = steps_of(path)
    return "".join(
        value for frame, key, kind, value in records if kind in (GROWN, UNSEEN) and _is_at(frame, key, steps)
    )


def _is_at(frame: Frame, key: Any, steps: Steps) -> bool:
    return tuple(map(str, path_of(frame, key))) == steps


def sifted(records: list[Record], held: Frame) -> list[Record]:
    """The records when `held` does not show: what happened in it is kept, out of sight."""
    return [record if not _inside(record[0], held) else unseen for record in records if (unseen := _unseen(record))]


def _unseen(record: Record) -> Record:
    frame, key, kind, value = record
    return frame, key, UNSEEN if kind == GROWN else SEALED, value


def _inside(frame: Frame | None, outer: Frame) -> bool:
    while frame is not None and frame is not outer:
        frame = frame.parent
    return frame is outer


class Text:
    """All that was fed, from which any part can be cut at the cost of that part."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._ends: list[int] = []
        self._size = 0

    def add(self, piece: str) -> None:
        """Keep one more piece."""
        self._size += len(piece)
        self._pieces.append(piece)
        self._ends.append(self._size)

    def whole(self) -> str:
        """All of it."""
        return "".join(self._pieces)

    def cut(self, start: int, end: int) -> str:
        """The characters from `start` to `end`."""
        first = bisect_right(self._ends, start)
        last = bisect_right(self._ends, end - 1)
        offset = self._ends[first] - len(self._pieces[first])
        return "".join(self._pieces[first : last + 1])[start - offset : end - offset]

    def without(self, start: int, end: int, spans: list[tuple[int, int]]) -> str:
        """The same, with the number of each span in its place."""
        parts: list[str] = []
        for number, (first, last) in enumerate(spans):
            parts.append(self.cut(start, first))
            parts.append(str(number))
            start = last
        parts.append(self.cut(start, end))
        return "".join(parts)
