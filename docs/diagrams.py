"""Draws the diagrams of docs/reference/states.md and docs/how-to/chat.md from the tables that the code itself walks.

`python docs/diagrams.py` writes them between their markers; the rest of a page is kept. A test holds the pages
against `drawn`, so that a table and its picture cannot part.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from toolcast.chat.transitions import diagram
from toolcast.states import CALL, CYCLE, ELF, ORCHESTRATOR, REPL, SESSION, STREAM, TOOL_CALL, TURN, Table, mermaid

DOCS = Path(__file__).parent
PAGES: dict[Path, dict[str, Table]] = {
    DOCS / "reference" / "states.md": {
        "ORCHESTRATOR": ORCHESTRATOR,
        "CALL": CALL,
        "TOOL_CALL": TOOL_CALL,
        "STREAM": STREAM,
        "TURN": TURN,
        "SESSION": SESSION,
        "ELF": ELF,
        "REPL": REPL,
        "CYCLE": CYCLE,
    },
    DOCS / "how-to" / "chat.md": {"CHAT": diagram()},
}


def drawn(page: str, tables: Mapping[str, Table]) -> str:
    """`page` with every diagram drawn anew."""
    for name, table in tables.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        picture = f"```mermaid\n{mermaid(table)}```\n"
        page, found = re.subn(f"{begin}.*?{end}", lambda _, new=begin + picture + end: new, page, flags=re.S)
        if found != 1:
            raise ValueError(f"the markers of {name} are there {found} times, not once")
    return page


if __name__ == "__main__":
    for path, tables in PAGES.items():
        path.write_text(drawn(path.read_text(encoding="utf-8"), tables), encoding="utf-8")
