"""The review page of a job: a table of inputs, outputs and errors as one HTML file, without scripts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, Final

from ..text.json_text import json_text
from ..text.terminal_text import visible
from ..values.plain_data import to_plain
from .outcome import Outcome

_LONGEST: Final = 20_000  # characters of one cell
_STYLE: Final = """
:root { color-scheme: light dark; --line: #d0d7de; --soft: #f6f8fa; --bad: #b42318; --dim: #57606a; }
@media (prefers-color-scheme: dark) { :root { --line: #3d444d; --soft: #161b22; --bad: #ff8b80; --dim: #9198a1; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 90rem; font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.3rem; margin: 0; }
p { margin: .25rem 0 1rem; color: var(--dim); }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
th, td { border-top: 1px solid var(--line); padding: .6rem .75rem; text-align: left; vertical-align: top; }
thead th { position: sticky; top: 0; background: var(--soft); font-size: .8rem; color: var(--dim); }
.number { width: 4rem; color: var(--dim); font-variant-numeric: tabular-nums; }
.facts { width: 9rem; color: var(--dim); font-size: .85rem; font-variant-numeric: tabular-nums; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.45 ui-monospace, monospace; }
.error pre { color: var(--bad); }
.more { color: var(--dim); }
@media (max-width: 45rem) {
  body { padding: 1rem; }
  thead { display: none; }
  table, tbody, tr, th, td { display: block; width: 100%; }
  tr { border: 1px solid var(--line); border-radius: 6px; margin-bottom: 1rem; }
  th, td { border: 0; }
  td::before { content: attr(data-label); display: block; font-size: .8rem; color: var(--dim); }
  tbody th.number { width: 100%; background: var(--soft); }
}
"""


def review_page(outcomes: Iterable[Outcome[Any]], title: str = "Sample") -> str:
    """Return an HTML page with a row for each outcome: its input, its output or error, and its cost.

    Args:
        outcomes: The outcomes.
        title: The title of the page.
    """
    shown = list(outcomes)
    failed = sum(not outcome.ok for outcome in shown)
    rows = "\n".join(map(_row, shown))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{_text(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{_text(title)}</h1>
<p>{len(shown)} items, {failed} failed</p>
<table>
<thead><tr><th class="number">#</th><th>Input</th><th>Output</th><th class="facts">Cost</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""


def write_review(outcomes: Iterable[Outcome[Any]], path: str | os.PathLike[str], title: str | None = None) -> None:
    """Write the page of `review_page` to a file that only its owner may read.

    Args:
        outcomes: The outcomes.
        path: The file, which is replaced if it exists.
        title: The title of the page. Default: the name of the file.
    """
    to = Path(path)
    page = review_page(outcomes, to.stem if title is None else title)
    fd = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(page)


def _row(outcome: Outcome[Any]) -> str:
    if (error := outcome.error_text) is None:
        answer = f'<td data-label="Output">{_data(outcome.output)}</td>'
    else:
        answer = f'<td class="error" data-label="Error">{_pre(error)}</td>'
    return (
        f'<tr><th class="number" scope="row">{outcome.index}</th>'
        f'<td data-label="Input">{_data(outcome.input)}</td>{answer}'
        f'<td class="facts" data-label="Cost">{"<br>".join(map(_text, _facts(outcome)))}</td></tr>'
    )


def _facts(outcome: Outcome[Any]) -> list[str]:
    requests = f"{outcome.attempts} request{'' if outcome.attempts == 1 else 's'}"
    cost = outcome.cost
    return [requests, f"{outcome.seconds:.1f} s", *([] if cost is None else [f"${cost:.6f}"])]


def _data(value: Any) -> str:
    """Return a value as text, or else as indented JSON."""
    if isinstance(value, str):
        return _pre(value)
    return _pre(json.dumps(json.loads(json_text(to_plain(value))), indent=2, ensure_ascii=False))


def _pre(text: str) -> str:
    more = f'<span class="more">… {len(text) - _LONGEST} more characters</span>' if len(text) > _LONGEST else ""
    return f"<pre>{_text(text[:_LONGEST])}{more}</pre>"


def _text(text: str) -> str:
    return escape(visible(text))
