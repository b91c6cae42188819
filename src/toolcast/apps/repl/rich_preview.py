"""Previews of tool calls in colours: the lines of preview_text.py as rich's `Text`.

Only the sixteen colours of the terminal are used, which suit its background, and reversed ones for changed words: these
are visible without colours as well. A long line is continued below its text, not below its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from .preview_text import LineKind, PreviewLine

_STYLES: Final[dict[LineKind, str]] = {
    "title": "bold",
    "same": "none",
    "add": "green",
    "remove": "red",
    "gap": "dim",
    "command": "bold",
    "plain": "none",
    "note": "yellow",
    "result": "dim",
}
_PROSE: Final = ("title", "note", "result")
_TAB: Final = 4


def rich_preview(lines: Iterable[PreviewLine], columns: int) -> Iterator[Text]:
    """Yield a text for each row of the terminal that the lines take at a width of `columns`."""
    for line in lines:
        style = _STYLES[line.kind]
        text = Text(line.text, style, end="")
        for start, end in line.words:
            text.stylize("reverse", start, end)
        text.expand_tabs(_TAB)
        gutter_style = style if line.kind in ("add", "remove", "title") else "dim"
        indent = cell_len(line.gutter)
        for number, row in enumerate(_rows(text, max(columns - indent, 1), line.kind in _PROSE)):
            yield Text.assemble((line.gutter if not number else " " * indent, gutter_style), row)


def _rows(text: Text, width: int, is_prose: bool) -> Iterable[Text]:
    """Return the text cut into rows: prose between words if possible, code anywhere."""
    places: list[int] = []
    used, begin, word = 0, 0, 0
    for place, character in enumerate(text.plain):
        cells = cell_len(character)
        if used + cells > width:
            begin = word if is_prose and word > begin else place
            places.append(begin)
            used = cell_len(text.plain[begin:place])
        used += cells
        word = place + 1 if character == " " else word
    return text.divide(places) if places else [text]
