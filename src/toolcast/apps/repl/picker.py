"""A list to choose from: `ListRow`, `PickedRow`, and `pick_from_lines` for a screen that only has lines.

A typed number chooses that row; other text searches. `find` is called with what is typed, and returns the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final, Protocol, TypeAlias

from ...lazy.lazy_dataclasses import dataclass

_SHOWN_LINES: Final = 20


@dataclass(frozen=True, slots=True)
class ListRow:
    """A row of a list: the `value` that is chosen, its `text`, and a `detail` that is shown where there is space."""

    value: str
    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PickedRow:
    """The chosen row, and the action: `open`, or one of the further actions of the list.

    `query` is the search, and `at` the index of the row, for the list that is shown after the action.
    """

    value: str
    action: str = "open"
    query: str = field(default="", compare=False)
    at: int = field(default=0, compare=False)


Find: TypeAlias = Callable[[str], Sequence[ListRow]]
"""Returns the rows that match a search."""

Actions: TypeAlias = Mapping[str, str]
"""Further actions by their key, for example `{"c-r": "rename"}`."""


class LineScreen(Protocol):
    """The part of a screen that `pick_from_lines` uses."""

    @property
    def is_interactive(self) -> bool:
        """True if a person can answer."""
        ...

    def read(self, prompt: str, text: str = "") -> str | None:
        """Return one input, or None at its end."""
        ...

    def note(self, text: str) -> None:
        """Show a message."""
        ...


def rows_for(query: str, find: Find) -> tuple[Sequence[ListRow], int]:
    """Return the rows for what is typed, and the index of the selected one. A number selects from the whole list."""
    query = query.strip()
    if query.isdecimal() and query.isascii():
        everything = find("")
        if 0 < int(query) <= len(everything):
            return everything, int(query) - 1
    return find(query), 0


def pick_from_lines(screen: LineScreen, title: str, find: Find, actions: Actions) -> PickedRow | None:
    """Show the rows as numbered lines and read the number of one; None if none is chosen.

    An action is typed before the number: `delete 3`.
    """
    query = ""
    while True:
        rows = find(query)
        width = len(str(len(rows)))
        lines = [f"{number:>{width}}  {_line(row)}" for number, row in enumerate(rows[:_SHOWN_LINES], 1)]
        more = [f"... and {len(rows) - _SHOWN_LINES} more"] if len(rows) > _SHOWN_LINES else []
        screen.note("\n".join([title, *(lines or ["  nothing found"]), *more]))
        if not screen.is_interactive:
            return None
        others = "".join(f", {action} NUMBER" for action in actions.values())
        typed = (screen.read(f"number{others}, or words to search: ") or "").strip()
        if not typed:
            return None
        word, _, rest = typed.partition(" ")
        action, number = (word.lower(), rest.strip()) if word.lower() in actions.values() else ("open", typed)
        if number.isdecimal() and 0 < int(number) <= len(rows):
            return PickedRow(rows[int(number) - 1].value, action)
        query = typed


def _line(row: ListRow) -> str:
    return f"{row.text}  ({row.detail})" if row.detail else row.text
