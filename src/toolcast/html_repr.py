"""HTML for notebooks: tables of escaped text, without scripts or links."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any, Final

from .citations import Citation, describe_citation
from .terminal_text import visible

_LONGEST: Final = 4000  # characters that are shown of one value
_MOST_ROWS: Final = 50


def table(title: str, rows: Iterable[tuple[str, Any]]) -> str:
    """Return a table as HTML.

    Args:
        title: The line above it.
        rows: Names and values: text is shown as it is, other data as JSON. A value of None is left out.
    """
    given = [(name, value) for name, value in rows if value is not None]
    lines = [f"<tr><th>{_text(name)}</th><td>{_cell(value)}</td></tr>" for name, value in given[:_MOST_ROWS]]
    if len(given) > _MOST_ROWS:
        lines.append(f"<tr><th>…</th><td>{len(given) - _MOST_ROWS} more</td></tr>")
    return f"<div><strong>{_text(title)}</strong><table>{''.join(lines)}</table></div>"


def citation_list(citations: Iterable[Citation]) -> list[str] | None:
    """Return the sources of a text, each once, as lines of text; None if there are none."""
    return list(dict.fromkeys([describe_citation(citation) for citation in citations])) or None


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return f'<pre style="white-space: pre-wrap">{_text(value)}</pre>' if "\n" in value else _text(value)
    if isinstance(value, (int, float)):
        return _text(str(value))
    return f'<pre style="white-space: pre-wrap">{_text(json.dumps(value, indent=2, ensure_ascii=False))}</pre>'


def _text(text: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return escape(visible(shown))
