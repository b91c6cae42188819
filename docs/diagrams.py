"""Draws the diagrams of docs/states.md from the tables that the code itself walks.

`python docs/diagrams.py` writes them between their markers; the rest of the page is kept. A test holds the page
against `drawn`, so that a table and its picture cannot part.
"""

from __future__ import annotations

import re
from pathlib import Path

from toolcast.states import CALL, ELF, SESSION, STREAM, TURN, Table, mermaid

PAGE = Path(__file__).with_name("states.md")
TABLES: dict[str, Table] = {"CALL": CALL, "STREAM": STREAM, "TURN": TURN, "SESSION": SESSION, "ELF": ELF}


def drawn(page: str) -> str:
    """`page` with every diagram drawn anew."""
    for name, table in TABLES.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        diagram = f"```mermaid\n{mermaid(table)}```\n"
        page, found = re.subn(f"{begin}.*?{end}", lambda _, new=begin + diagram + end: new, page, flags=re.S)
        if found != 1:
            raise ValueError(f"the markers of {name} are there {found} times, not once")
    return page


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
