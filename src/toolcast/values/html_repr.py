"""HTML for notebooks: tables of escaped text, without scripts, links, colours or backgrounds.

The text takes its colour from the notebook, and lines are a half-transparent grey, so that both are readable in light
and in dark themes. The alignment is set here, since notebooks align the cells of tables to the right.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final, cast

from ..text.json_text import replace_surrogates
from ..text.terminal_text import visible
from .citations import Citation, describe_citation

_LONGEST: Final = 4000  # characters that are shown of one value
_MOST: Final = 200_000  # characters of text in one table, with the tables inside it
_MARKUP: Final = 20  # characters that a cell counts at least, so that the number of cells is limited too
_MOST_ROWS: Final = 50
_MOST_COLUMNS: Final = 8
_DEEPEST: Final = 3  # tables inside a table; what is deeper is shown as JSON

_CELL: Final = "text-align:left;vertical-align:top;padding:.25em .8em .25em 0;border:0;border-top:1px solid #8885"
_NAME: Final = f"{_CELL};font-weight:600;white-space:nowrap"
_TEXT: Final = f"{_CELL};overflow-wrap:anywhere"
_NARROWEST: Final = 16  # characters of a column at least, if its values have as many: then a narrow page scrolls
_ROW: Final = '<tr style="background:none">'
_TABLE: Final = "border-collapse:collapse;border:0;margin:.2em 0;table-layout:auto;background:none;font-size:inherit"
_WRAPPED: Final = "white-space:pre-wrap;overflow-wrap:anywhere;margin:0;padding:0;background:none"
_NOTE: Final = "opacity:.7;font-size:90%"


def table(title: str, rows: Iterable[tuple[str, Any]], note: str = "") -> str:
    """Return a table of names and values as HTML.

    Args:
        title: The line above it.
        rows: Names and values: text is shown as it is, mappings and lists as tables. A value of None is left out.
        note: The line below it. Default: none.
    """
    given = [(name, value) for name, value in rows if value is not None]
    return _framed(title, _Writer().pairs(given), note)


def grid(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> str:
    """Return a table with a line of column names as HTML.

    Args:
        title: The line above it.
        head: The names of the columns.
        rows: The values of each row, as in `table`; None is an empty cell.
        note: The line below it. Default: none.
    """
    return _framed(title, _Writer().grid(head, rows), note)


def html_of(shown: Any) -> str:
    """Return the HTML of an object that has some for notebooks."""
    html: str = shown._repr_html_()
    return html


def citation_list(citations: Iterable[Citation]) -> list[str] | None:
    """Return the sources of a text, each once, as lines of text; None if there are none."""
    return list(dict.fromkeys([describe_citation(citation) for citation in citations])) or None


def _framed(title: str, shown: str, note: str) -> str:
    below = f'<div style="{_NOTE}">{_escaped(note)}</div>' if note else ""
    return f'<div style="overflow-x:auto;text-align:left"><strong>{_escaped(title)}</strong>{shown}{below}</div>'


class _Writer:
    """The tables of one representation, which share a limit on the characters of text."""

    def __init__(self) -> None:
        self._left = _MOST

    def pairs(self, rows: Sequence[tuple[str, Any]], depth: int = 0) -> str:
        """Return a table of names and values."""
        lines = [
            f'{_ROW}<th style="{_NAME}">{self._text(name)}</th>{self._td(value, depth)}</tr>'
            for name, value in rows[:_MOST_ROWS]
        ]
        return _table(lines, len(rows))

    def grid(self, head: Sequence[str], rows: Sequence[Sequence[Any]], depth: int = 0) -> str:
        """Return a table with a line of column names."""
        names = "".join([f'<th style="{_NAME}">{self._text(name)}</th>' for name in head])
        lines = [f"{_ROW}{''.join([self._td(each, depth) for each in row])}</tr>" for row in rows[:_MOST_ROWS]]
        return _table([f"{_ROW}{names}</tr>", *lines], len(rows))

    def _td(self, value: Any, depth: int) -> str:
        width = f";min-width:{min(len(value), _NARROWEST)}ch" if isinstance(value, str) else ""
        return f'<td style="{_TEXT}{width}">{"" if value is None else self._cell(value, depth)}</td>'

    def _cell(self, value: Any, depth: int) -> str:
        given: Any = value  # typed as Any, so that isinstance below does not narrow it to Unknown
        if self._left <= 0:
            return "…"
        if isinstance(value, str):
            text = self._text(value)
            return f'<div style="{_WRAPPED}">{text}</div>' if "\n" in value else text
        if depth < _DEEPEST and isinstance(value, Mapping) and value:
            return self.pairs([(str(name), each) for name, each in given.items()], depth + 1)
        if isinstance(value, (list, tuple)) and value:
            return self._list(cast("Sequence[Any]", value), depth)
        if isinstance(value, (Mapping, list, tuple)):
            return f'<pre style="{_WRAPPED}">{self._text(json.dumps(value, indent=2, ensure_ascii=False))}</pre>'
        return self._text(str(value))

    def _list(self, values: Sequence[Any], depth: int) -> str:
        """Return a list of objects as a table, one of plain values as lines."""
        if depth < _DEEPEST and all(isinstance(each, Mapping) for each in values):
            columns = list(dict.fromkeys([str(name) for each in values for name in each]))
            if 0 < len(columns) <= _MOST_COLUMNS:
                return self.grid(columns, [[each.get(name) for name in columns] for each in values], depth + 1)
        if any(isinstance(each, (Mapping, list, tuple)) for each in values):
            return f'<pre style="{_WRAPPED}">{self._text(json.dumps(values, indent=2, ensure_ascii=False))}</pre>'
        lines = [f"<div>{self._cell(each, depth)}</div>" for each in values[:_MOST_ROWS]]
        return "".join([*lines, *_more(len(values))])

    def _text(self, text: str) -> str:
        limit = max(min(_LONGEST, self._left), 0)
        self._left -= min(limit, len(text)) + _MARKUP
        return _escaped(text if len(text) <= limit else f"{text[:limit]}…")


def _table(lines: Sequence[str], count: int) -> str:
    """Return a table of these lines; `count` is the number of all lines, of which some may be left out."""
    more = [f'{_ROW}<td style="{_TEXT}">{each}</td></tr>' for each in _more(count)]
    return f'<table style="{_TABLE}">{"".join([*lines, *more])}</table>'


def _more(count: int) -> list[str]:
    return [f"… {count - _MOST_ROWS} more"] if count > _MOST_ROWS else []


def _escaped(text: str) -> str:
    return escape(visible(replace_surrogates(text)))
