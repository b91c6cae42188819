"""Previews of tool calls as lines of text with the kind of each part, for screens with and without colours.

Long previews are folded to their beginning; the omitted lines are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from ..approval_preview import CallSketch, CommandPreview, DiffPreview
from ..argument_text import exposed_line
from ..diff_rows import DiffRow, Ranges

FOLDED_LINES: Final = 60
"""Lines of a folded preview."""

_SIGNS: Final = {"same": " ", "add": "+", "remove": "-", "gap": " "}
_CHANGES: Final = {"create": "new file", "edit": "", "overwrite": "overwrites the file"}

LineKind: TypeAlias = Literal["title", "same", "add", "remove", "gap", "command", "plain", "note", "result"]


class PreviewLine(NamedTuple):
    """A line of a preview: its `text` after the `gutter`, and the ranges of changed words in it."""

    kind: LineKind
    text: str
    gutter: str = ""
    words: Ranges = ()


def call_label(tool: str, preview: CallSketch) -> str:
    """Return a call on one line."""
    if isinstance(preview, DiffPreview):
        return f"{exposed_line(tool)} {preview.summary}"
    if isinstance(preview, CommandPreview):
        first, *more = preview.command.strip().split("\n")
        return f"{exposed_line(tool)}  {first[:100]}{' …' if more or len(first) > 100 else ''}"
    return preview.summary


def is_foldable(preview: CallSketch) -> bool:
    """Return True if the folded preview lacks lines of the whole one."""
    if isinstance(preview, DiffPreview | CommandPreview):
        return len(_body(preview, whole=True)) > FOLDED_LINES
    return not preview.is_complete


def preview_lines(
    tool: str, preview: CallSketch, *, number: int | None = None, whole: bool = False
) -> list[PreviewLine]:
    """Return the lines of a preview.

    Args:
        tool: The tool's name.
        preview: The preview of its call.
        number: The call's number in a list of calls.
        whole: True for all lines, False for a folded preview.
    """
    title = _title(tool, preview)
    body = _body(preview, whole=whole)
    if not whole and len(body) > FOLDED_LINES:
        more = len(body) - FOLDED_LINES
        body = [*body[:FOLDED_LINES], PreviewLine("gap", f"… {more:,} more lines", "  ")]
    notes = [PreviewLine("note", preview.note, "  ")] if isinstance(preview, DiffPreview) and preview.note else []
    return [PreviewLine("title", title, f"{number}. " if number else ""), *body, *notes]


def plain_lines(lines: Sequence[PreviewLine]) -> str:
    """Return the lines as text without colours."""
    return "\n".join(f"{line.gutter}{line.text}".rstrip() for line in lines)


def _title(tool: str, preview: CallSketch) -> str:
    if isinstance(preview, DiffPreview):
        change = _CHANGES[preview.change]
        return f"{exposed_line(tool)} {preview.summary}{f' ({change})' if change else ''}"
    if isinstance(preview, CommandPreview):
        return f"{exposed_line(tool)}{f' in {exposed_line(preview.directory)}' if preview.directory else ''}"
    return preview.summary


def _body(preview: CallSketch, *, whole: bool) -> list[PreviewLine]:
    if isinstance(preview, DiffPreview):
        width = max((len(str(row.new or row.old or "")) for row in preview.rows), default=1)
        return [_diff_line(row, width) for row in preview.rows]
    if isinstance(preview, CommandPreview):
        lines = preview.command.split("\n")
        return [PreviewLine("command", line, "  > " if at else "  $ ") for at, line in enumerate(lines)]
    return [PreviewLine("plain", line, "  ") for line in preview.details.split("\n")] if whole else []


def _diff_line(row: DiffRow, width: int) -> PreviewLine:
    if row.kind == "gap":
        return PreviewLine("gap", row.text, f"  {'…':>{width}}   ")
    number = row.old if row.kind == "remove" else row.new
    return PreviewLine(row.kind, row.text, f"  {number or '':>{width}} {_SIGNS[row.kind]} ", row.words)
