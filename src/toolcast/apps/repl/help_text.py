"""The text of `/help`: names and summaries in columns that fit the terminal, and the table of keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Final

KEYS: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "Writing a message": [
        ("@FILE", "put the content of a file, a list of a folder or an image into the message"),
        ("Tab", "complete a command, its argument or a path"),
        ("Alt-Enter, Ctrl-J", "begin a new line, as a \\ at the end of the line does"),
        ("Ctrl-V", "insert the image in the clipboard"),
        ("Ctrl-R", "search the earlier messages; Up and Down go through them"),
        ("Ctrl-X Ctrl-E", "write the message in $EDITOR"),
        ("Ctrl-O", "show the tool calls of the last answer in full"),
        ("Ctrl-C", "clear the input, which Up brings back; leave if it is empty"),
        ("Ctrl-D", "leave, as an empty line, exit and quit do"),
        ("Ctrl-Z", "stop the program; fg continues it"),
    ],
    "While an answer arrives": [
        ("Ctrl-C, Esc", "stop the answer; what was queued is back at the prompt"),
        ("Enter", "queue what was typed; it is shown, and Backspace takes it back"),
    ],
    "When a tool call needs approval": [
        ("y", "run the call"),
        ("n", "do not run it, and tell the model why"),
        ("a", "run it, and calls like it for the rest of the session"),
        ("e", "edit it first, in $EDITOR if there is one"),
        ("d", "show all of it"),
        ("o", "with several calls: decide one by one"),
        ("Esc, Ctrl-C", "do not run it, and end the turn"),
    ],
    "In a list": [
        ("Up, Down, Enter", "choose a row; a number chooses it too"),
        ("Letters", "search"),
        ("Ctrl-R, Ctrl-X", "rename or delete the session"),
        ("Esc", "close the list"),
    ],
}
"""The keys by situation."""

_NARROW: Final = 60
"""Columns below which a summary has a line of its own."""
_LONGEST_KEY: Final = 14
"""Columns of names that leave enough space beside them in a narrow terminal."""
_WIDE: Final = 100
_INDENT: Final = "  "


def format_help(sections: Mapping[str, Sequence[tuple[str, str]]], columns: int) -> str:
    """Return the sections, wrapped to `columns`, with the names in a column of their own if there is space for two."""
    columns = max(40, min(columns, _WIDE))
    widest = _column(row for rows in sections.values() for row in rows)
    lines: list[str] = []
    for title, rows in sections.items():
        width = widest if columns >= _NARROW else _column(rows)
        lines += ["", title] if lines else [title]
        for name, summary in rows:
            if width > (_LONGEST_KEY if columns < _NARROW else columns // 2):
                lines += wrap(name, columns, initial_indent=_INDENT, subsequent_indent=_INDENT)
                lines += wrap(summary, columns, initial_indent=_INDENT * 3, subsequent_indent=_INDENT * 3)
            else:
                first = f"{_INDENT}{name:{width}}"
                lines += wrap(summary, columns, initial_indent=first, subsequent_indent=" " * len(first))
    return "\n".join(lines)


def _column(rows: Iterable[tuple[str, str]]) -> int:
    """Return the width of the column of names."""
    return max(len(name) for name, _ in rows) + 2
